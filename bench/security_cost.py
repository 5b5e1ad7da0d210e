"""What the law costs: two services before one stand-in vLLM, the law off and on -> a table and JSON.

off: auth.mode open, no ceiling, every row internal. on: auth.mode keys (a key looked up, the tenant's cache_salt put
in), a ceiling of the upstream, bounds by user, every row confidential, so sealed. The same lines are imported into
both; then requests go to one and the other in turn, the first of each pair alternating, so that a busy machine slows
both. Milliseconds are `X-Memory-Millis` (added before the request went upstream) and what the client waited; CPU is
that of the processes by kind. Storing: batches of lines imported in turn, until they are searchable.
A pair where either was given no memory by the full path is counted and left out. Refuses to report where that is one in
five, or where a row that should be sealed lies open.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from bench.fake_vllm.launch import READY_PREFIX, command_line
from bench.overhead.processes import CpuMeter, free_port, started, used_between, wait_ready
from bench.stats import paired_differences, quantile
from bench.work_folder import work_folder
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.rotation import Rotation
from memory.encryption_command import standing
from memory.keys import KeyRing, load_or_create_master_key
from proxy.cli.whole_file import file_to_write

CAPABILITIES = ("memory:read:own", "memory:write", "memory:import:trusted", "act:any_user", "metrics:read")
OFF: dict[str, str] = {}
ON = {
    "MEMORY_PROXY_AUTH__MODE": "keys",
    "MEMORY_PROXY_UPSTREAM__SENSITIVITY_MAX": "confidential",
    "MEMORY_PROXY_LIMITS__REQUESTS_PER_USER_MAX": "1000",
    "MEMORY_PROXY_LIMITS__SESSIONS_PER_USER_HOUR": "1000000",
}
TOPICS = ("harbour", "orchard", "lantern", "viaduct", "meadow", "granary", "quarry", "lighthouse")
_SYLLABLES = ("ba", "do", "fi", "gu", "ke", "lo", "mi", "nu", "pa", "ro", "se", "tu")
READY_S = 300.0
LOST_MAX_SHARE = 0.2


class NotAsMeant(RuntimeError):
    """What was measured is not what the report would say."""


@dataclass(frozen=True, slots=True)
class Side:
    """One running service."""

    name: str
    url: str
    data: Path
    meter: CpuMeter
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both sides; `added_*` are of the paired differences, so no difference of two medians."""

    off_p50: float
    on_p50: float
    added_p50: float
    added_p95: float
    pairs: int


def compared(off: Sequence[float], on: Sequence[float]) -> Compared:
    """Medians of both, and of what the law adds pair by pair."""
    added = paired_differences(on, off)
    off_p50, on_p50 = round(quantile(off, 0.5), 3), round(quantile(on, 0.5), 3)
    return Compared(off_p50, on_p50, round(quantile(added, 0.5), 3), round(quantile(added, 0.95), 3), len(added))


async def measure(memories: int, requests: int, batches: int, lines: int) -> dict[str, Any]:
    """Start everything, fill it, and measure."""
    with work_folder(prefix="mp-law-") as root:
        return await _measured(root, memories, requests, batches, lines)


async def _measured(root: Path, memories: int, requests: int, batches: int, lines: int) -> dict[str, Any]:
    async with (
        _upstream() as upstream,
        _side("off", OFF, upstream, root) as off,
        _side("on", ON, upstream, root) as on,
        aiohttp.ClientSession() as session,
    ):
        for side in (off, on):
            await _put(session, side, _lines(0, memories, side))
        await _none_open(on)
        return {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "cpus": os.cpu_count(),
            "load": os.getloadavg()[0],
            "memories": memories,
            "request": await _requests(session, (off, on), requests),
            "storing_a_line": await _storing(session, (off, on), memories, batches, lines),
        }


async def _none_open(side: Side) -> None:
    """Raise NotAsMeant unless every row of this side is sealed."""
    settings = json.loads((side.data / "run" / "settings.json").read_text())
    database = await Database.open(settings["database"]["url"])
    try:
        counts = await standing(Rotation(database, KeyRing(KeyStore(database), _master(side.data))))
    finally:
        await database.close()
    if counts.open or not counts.sealed:
        raise NotAsMeant(f"{side.name}: {counts}")


def _master(data: Path) -> bytes:
    return load_or_create_master_key(data / "master.key")


async def _requests(session: aiohttp.ClientSession, sides: tuple[Side, Side], count: int) -> dict[str, Any]:
    for side in sides:
        await _until_hot(session, side)
    pairs: list[dict[str, tuple[float, float, float]]] = []
    lost = 0
    for n in range(count):
        pair: dict[str, tuple[float, float, float]] = {}
        for side in sides if n % 2 else sides[::-1]:
            before = side.meter.sample()
            began = time.perf_counter()
            millis = await _ask(session, side, n)
            waited = (time.perf_counter() - began) * 1000
            used = used_between(before, side.meter.sample()).get("proxy", 0.0) * 1000
            if millis is not None:
                pair[side.name] = (millis, waited, used)
        lost += len(pair) < 2
        pairs += [pair] if len(pair) == 2 else []
    if lost > count * LOST_MAX_SHARE:
        raise NotAsMeant(f"{lost} of {count} pairs were answered without memory")
    before_, waited_, cpu_ = (
        compared([pair["off"][at] for pair in pairs], [pair["on"][at] for pair in pairs]) for at in range(3)
    )
    return {
        "pairs_without_memory": lost,
        "millis_before_upstream": asdict(before_),
        "millis_waited": asdict(waited_),
        "cpu_ms_of_the_proxy": asdict(cpu_),
    }


async def _until_hot(session: aiohttp.ClientSession, side: Side) -> None:
    """Ask until the scope is in process: before that Postgres answers, which cannot rank what is sealed."""
    until = time.monotonic() + READY_S
    given = 0
    while given < 20:
        given += await _ask(session, side, given) is not None
        if time.monotonic() > until:
            raise NotAsMeant(f"{side.name}: no memory within {READY_S:g} s")


async def _storing(
    session: aiohttp.ClientSession, sides: tuple[Side, Side], first: int, batches: int, lines: int
) -> dict[str, Any]:
    waited: dict[str, list[float]] = {"off": [], "on": []}
    used: dict[str, list[dict[str, float]]] = {"off": [], "on": []}
    for n in range(batches):
        for side in sides if n % 2 else sides[::-1]:
            before = side.meter.sample()
            began = time.perf_counter()
            await _put(session, side, _lines(first + n * lines, lines, side))
            waited[side.name].append((time.perf_counter() - began) * 1000 / lines)
            used[side.name].append(used_between(before, side.meter.sample()))
    cpu = {
        name: {kind: round(sum(one.get(kind, 0) for one in of) / batches / lines * 1000, 3) for kind in _KINDS}
        for name, of in used.items()
    }
    return {"millis_until_searchable": asdict(compared(waited["off"], waited["on"])), "cpu_ms": cpu}


_KINDS = ("proxy", "worker", "postgres", "queue")


async def _ask(session: aiohttp.ClientSession, side: Side, n: int) -> float | None:
    """One chat request that keeps nothing; the milliseconds it says it added, None where it was given no memory."""
    which = n * 7 % 100
    question = f"Where does {_name(which)} keep the key of the {TOPICS[which % len(TOPICS)]}?"
    body = {"model": "fake-model", "max_tokens": 2, "messages": [{"role": "user", "content": question}]}
    headers = {**side.headers, "X-Memory-Mode": "read"}
    async with session.post(f"{side.url}/v1/chat/completions", json=body, headers=headers) as answer:
        await answer.read()
        said = answer.headers.get("X-Memory-Status", "")
        if answer.status != 200:
            raise NotAsMeant(f"{side.name}: {answer.status} {said}")
        if not said.startswith("injected") or "rung" in said:
            return None
        return float(answer.headers["X-Memory-Millis"])


def _name(n: int) -> str:
    """A name of its own for each fact."""
    return "".join(_SYLLABLES[n // 12**place % 12] for place in range(3)).capitalize()


def _fact(n: int) -> str:
    return f"{_name(n)} keeps the key of the {TOPICS[n % len(TOPICS)]} in box {n} of the {_name(n + 5)} shelf."


def _lines(first: int, count: int, side: Side) -> bytes:
    label = "confidential" if side.name == "on" else "internal"
    made = (
        {
            "role": "user" if n % 2 == 0 else "assistant",
            "content": _fact(n),
            "session": f"s{n // 20}",
            "source_id": f"n{n}",
            "sensitivity": label,
        }
        for n in range(first, first + count)
    )
    return "".join(json.dumps(line) + "\n" for line in made).encode()


async def _put(session: aiohttp.ClientSession, side: Side, lines: bytes) -> None:
    async with session.post(f"{side.url}/memory/v1/import", data=lines, headers=side.headers) as answer:
        last = (await answer.read()).strip().rsplit(b"\n", 1)[-1]
        said = json.loads(last)
        if answer.status != 200 or said.get("failed") or not said.get("complete"):
            raise NotAsMeant(f"{side.name}: import said {last[:200]!r}")


@asynccontextmanager
async def _upstream() -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(*command_line(), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode().strip()
        if not line.startswith(READY_PREFIX):
            raise NotAsMeant(f"the stand-in said {line!r}")
        yield line.removeprefix(READY_PREFIX)
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def _side(name: str, environ: dict[str, str], upstream: str, root: Path) -> AsyncIterator[Side]:
    port, data, log = free_port(), root / name, root / f"{name}.log"
    settings = [f"{key}={value}" for key, value in {"MEMORY_PROXY_RECALL__DEADLINE_MS": "5000", **environ}.items()]
    command = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream, "--port", str(port)]
    async with started(["env", *settings, *command, "--data-dir", str(data)], log) as process:
        url = f"http://127.0.0.1:{port}"
        await wait_ready(f"{url}/memory/ready", process, log, READY_S)
        headers = {"X-Memory-User": "ada"}
        if name == "on":
            headers["Authorization"] = f"Bearer {await _key(data)}"
            await asyncio.sleep(1.5)  # every process has read the key table
        yield Side(name, url, data, CpuMeter(process.pid), headers)


async def _key(data: Path) -> str:
    settings = json.loads((data / "run" / "settings.json").read_text())
    database = await Database.open(settings["database"]["url"])
    try:
        store, now = KeyStore(database), datetime.now(UTC)
        tenant = await store.ensure_tenant("default", now)
        _, secret = await store.create_api_key(
            tenant, "bench", now, capabilities=CAPABILITIES, sensitivity_ceiling="confidential"
        )
        return secret
    finally:
        await database.close()


def shown(report: dict[str, Any]) -> str:
    """The report as a table."""
    rows: list[tuple[str, ...]] = [("", "off p50", "on p50", "added p50", "added p95")]
    for name, of in (
        ("a request, ms before it goes upstream", report["request"]["millis_before_upstream"]),
        ("a request, ms the client waited", report["request"]["millis_waited"]),
        ("a request, ms of processor in the proxy", report["request"]["cpu_ms_of_the_proxy"]),
        ("a line stored, ms until searchable", report["storing_a_line"]["millis_until_searchable"]),
    ):
        rows.append((name, *(f"{of[key]:.2f}" for key in ("off_p50", "on_p50", "added_p50", "added_p95"))))
    cpu = report["storing_a_line"]["cpu_ms"]
    rows += [
        (f"a line stored, ms of processor, {kind}", f"{cpu['off'][kind]:.2f}", f"{cpu['on'][kind]:.2f}", "", "")
        for kind in _KINDS
    ]
    return "\n".join(f"{name:42}" + "".join(f"{cell:>11}" for cell in cells) for name, *cells in rows)


def main() -> int:
    """Entry point: `python -m bench.security_cost`."""
    parser = argparse.ArgumentParser(prog="python -m bench.security_cost", description=__doc__)
    parser.add_argument("--memories", type=int, default=1000, help="lines in each store before measuring")
    parser.add_argument("--requests", type=int, default=300, help="pairs of requests")
    parser.add_argument("--batches", type=int, default=10, help="pairs of imports")
    parser.add_argument("--lines", type=int, default=40, help="lines of one import")
    parser.add_argument("--json", type=file_to_write, help="write the report there too")
    given = parser.parse_args()
    report = asyncio.run(measure(given.memories, given.requests, given.batches, given.lines))
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(shown(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
