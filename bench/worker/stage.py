"""The service that is measured, and what can be seen and done from outside: its worker stopped, its queue, its weight.

The worker is stopped by SIGSTOP: its lanes go to another one when their leases end, and come back when it goes on, as
after a machine that hung for an hour. Raises NotStarted, CallFailed. Linux only.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import asyncpg
import redis.asyncio

from bench.overhead.processes import CpuMeter, NotStarted, process_tree, used_between
from bench.recall.client import CallFailed
from bench.search_times.service import Served, serving
from bench.worker.envelopes import Sealer
from memory.config import Settings

HOT_BYTES: Final = 256 << 20
POLL_S: Final = 0.2
WORKS_S: Final = 60.0
_HELD: Final = """
SELECT count(*) FROM lane_leases l JOIN lane_workers w USING (holder)
WHERE l.lane LIKE 'live-%' AND w.expires_at > clock_timestamp()
"""
_FIELD: Final = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB", re.MULTILINE)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Depth:
    """The queue at one time: seconds since the watch began, entries that wait, and the age of the oldest."""

    at_s: float
    waiting: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Stage:
    """A running service of our own."""

    served: Served
    settings_file: Path
    settings: Settings
    http: aiohttp.ClientSession
    sealer: Sealer
    meter: CpuMeter
    pid: int

    @property
    def url(self) -> str:
        return self.served.url

    @property
    def dsn(self) -> str:
        """Past row-level security."""
        return self.served.dsn

    def workers(self) -> list[int]:
        """Process ids of the memory workers."""
        return [pid for pid in sorted(process_tree(self.pid)) if "-m memory worker" in command_of(pid)]

    def weight_mib(self, of: str) -> tuple[float, float]:
        """Resident now and at its highest, of all processes whose command line holds `of`."""
        now, highest = 0.0, 0.0
        for pid in process_tree(self.pid):
            if of in command_of(pid):
                with suppress(OSError):
                    found = dict(_FIELD.findall(Path(f"/proc/{pid}/status").read_text()))
                    now += int(found.get("VmRSS", 0)) / 1024
                    highest += int(found.get("VmHWM", 0)) / 1024
        return now, highest

    async def queue_mib(self) -> float:
        """What the queue's server says its data takes."""
        assert self.settings.redis.url is not None
        client = redis.asyncio.from_url(self.settings.redis.url.get_secret_value())
        try:
            said: dict[str, Any] = await client.info("memory")
        finally:
            await client.aclose()
        return float(said["used_memory"]) / (1 << 20)

    async def depth(self, since_s: float = 0.0) -> Depth:
        """The queue now. Raises CallFailed."""
        try:
            async with self.http.get(f"{self.url}/memory/v1/queue") as answer:
                said = await answer.json()
                if answer.status != 200:
                    raise CallFailed(f"the queue cannot be asked: {said}")
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise CallFailed(f"the queue cannot be asked: {type(exc).__name__} {exc}") from exc
        if said["dead"]:
            raise CallFailed(f"{said['dead']} entries are dead letters")
        return Depth(time.monotonic() - since_s, said["pending"] + said["in_flight"], said["oldest_seconds"])

    async def drained(self, say: Say, limit_s: float) -> list[Depth]:
        """Wait until the queue is empty; its depth meanwhile. Raises CallFailed after `limit_s`."""
        began = time.monotonic()
        seen = [await self.depth(began)]
        while seen[-1].waiting:
            if seen[-1].at_s > limit_s:
                raise CallFailed(f"{seen[-1].waiting} entries still wait after {limit_s:.0f} s")
            await asyncio.sleep(POLL_S)
            seen.append(await self.depth(began))
            say(f"{seen[-1].waiting} entries wait")
        return seen

    async def frozen(self) -> list[int]:
        """Stop the workers where they stand; returns when nothing they had asked for is on its way to them."""
        pids = self.workers()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(1.0)
        return pids

    def thaw(self) -> None:
        """Let them go on."""
        for pid in self.workers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    async def timed_worker(self, work: Path, say: Say, limit_s: float) -> tuple[dict[str, Any], dict[str, float]]:
        """Drain the queue with a worker that times its steps (bench.worker.process), while the service's own stands.

        What that worker says it took, and CPU seconds by kind of the service's processes meanwhile.
        """
        out = work / "steps.json"
        environ = {**os.environ, "MEMORY_PROXY_SETTINGS": str(self.settings_file)}
        with (work / "timed-worker.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bench.worker.process", str(out)), stdout=log, stderr=log, env=environ
            )
        before = self.meter.sample()
        try:
            await self.drained(say, limit_s)
            used = used_between(before, self.meter.sample())
        finally:
            process.terminate()
            await process.wait()
        if not out.exists():
            raise NotStarted(f"the timed worker left nothing: {(work / 'timed-worker.log').read_text()[-2000:]}")
        return json.loads(out.read_text()), used


async def _works(stage: Stage) -> None:
    """Wait until the worker holds its lanes: the service is ready before its worker is. Raises NotStarted."""
    until_s = time.monotonic() + WORKS_S
    connection = await asyncpg.connect(stage.dsn, timeout=10)
    try:
        while await connection.fetchval(_HELD) < stage.settings.queue.lanes:
            if time.monotonic() > until_s:
                raise NotStarted(f"the memory worker holds no lanes after {WORKS_S:.0f} s")
            await asyncio.sleep(POLL_S)
    finally:
        await connection.close()


def command_of(pid: int) -> str:
    """A process's command line; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


@asynccontextmanager
async def staged(work: Path, upstream: str, http: aiohttp.ClientSession) -> AsyncIterator[Stage]:
    """A service with the product's defaults before this upstream. Raises NotStarted."""
    async with serving(work, upstream, HOT_BYTES, "consolidate:\n  at: null\n") as served:
        assert served.pid is not None and served.data is not None
        file = served.data / "run" / "settings.json"
        settings = Settings.model_validate(json.loads(file.read_bytes()))
        sealer = await Sealer.of(settings)
        stage = Stage(served, file, settings, http, sealer, CpuMeter(served.pid), served.pid)
        try:
            await _works(stage)
            yield stage
        finally:
            stage.thaw()  # who stands still cannot end
            await sealer.close()
