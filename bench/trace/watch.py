"""Memory and CPU of process trees over time: supervisors' ids in, one reading out. Linux only.

Every process of the service is named by its kind and id, with its RSS. Postgres is two entries, since its processes
come and go and share their buffers, which fill up to a fixed size: those, and the PSS of all else. MiB; CPU in seconds
by kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from bench.crash.victims import kind_of, process_tree
from bench.overhead.processes import CpuMeter
from bench.search_times.calls import held_in

_FIELD: Final = re.compile(r"^(Rss|Pss|Pss_Shmem):\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """One look. `hot_mib`: what the service says its hot scopes hold; `queue`: as /memory/v1/queue says."""

    at_s: float
    rss_mib: Mapping[str, float]
    cpu_s: Mapping[str, float]
    plain_cpu_s: float
    hot_mib: float
    queue: Mapping[str, float]


def weights(supervisor: int) -> dict[str, float]:
    """MiB of every process below the supervisor, and of itself."""
    found: dict[str, float] = {}
    for pid in sorted(process_tree(supervisor)):
        kind = "supervisor" if pid == supervisor else kind_of(pid)
        try:
            said = dict(_FIELD.findall(Path(f"/proc/{pid}/smaps_rollup").read_text()))
        except OSError:
            continue  # ended meanwhile
        if kind in (None, "postmaster", "backend"):
            shared = int(said.get("Pss_Shmem", 0))
            for name, kib in (("postgres", int(said.get("Pss", 0)) - shared), ("postgres, shared buffers", shared)):
                found[name] = found.get(name, 0.0) + kib / 1024
        else:
            found[f"{kind} {pid}"] = int(said.get("Rss", 0)) / 1024
    return found


class Watch:
    """Looks at one service and, where there is one, at its baseline. Without a process id it sees neither."""

    def __init__(self, url: str, pid: int | None, meter: CpuMeter | None, plain: CpuMeter | None) -> None:
        self._url = url
        self._pid = pid
        self._meter = meter
        self._plain = plain

    async def read(self, http: aiohttp.ClientSession, at_s: float) -> Reading:
        """How it stands. What the service does not tell is empty."""
        return Reading(
            at_s,
            weights(self._pid) if self._pid else {},
            self._meter.sample() if self._meter else {},
            sum(self._plain.sample().values()) if self._plain else 0.0,
            held_in(await self._said(http, "/memory/metrics")) / 2**20,
            await self._queue(http),
        )

    async def _said(self, http: aiohttp.ClientSession, path: str) -> str:
        try:
            async with http.get(self._url + path) as answer:
                return await answer.text() if answer.status == 200 else ""
        except (aiohttp.ClientError, TimeoutError):
            return ""

    async def _queue(self, http: aiohttp.ClientSession) -> Mapping[str, float]:
        try:
            async with http.get(f"{self._url}/memory/v1/queue") as answer:
                said = await answer.json() if answer.status == 200 else {}
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return {}
        return {name: float(value or 0) for name, value in said.items() if isinstance(value, int | float | None)}
