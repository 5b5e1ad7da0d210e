"""`python -m bench.consolidate`: how long consolidation takes, and what a chat beside it pays.

So many memories are written by COPY (bench.search_times.fill) into scopes of 1,000; then, in SQL, some are made to
have expired long ago, and some to be facts, half of them superseded long ago. The bound on rows is set a little below
what is left. So each of a night's larger steps has work, and every memory is looked at. Then chats are asked, one after
the other at a steady pace, captured and stored as a user's are, in blocks: without consolidation, with, without, …;
between blocks the run is broken off and later goes on where it stood. Question n of each pair of blocks goes to the
same user. Chats that fall into the start of the command (its model is loaded) are not counted.

Report on stdout, progress on stderr. Exit 1: something did not start, answer or take the memories. Times on a busy
machine prove little; the ratio of neighbouring blocks proves more.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import asyncpg

from bench.fake_vllm.launch import fake_vllm_process
from bench.on_own_store import reported
from bench.overhead.fill import question
from bench.overhead.processes import NotStarted
from bench.recall.chat import served_model
from bench.recall.client import CallFailed, session, user_header
from bench.search_times.__main__ import BYTES_BESIDE, BYTES_PER_MEMORY
from bench.search_times.fill import Lot, Place, Say, VectorSource, fill
from bench.search_times.service import Served, serving
from bench.stats import Summary, quantile
from memory.ports import Embedder
from proxy.cli.whole_file import file_to_write

SCOPE_MEMORIES: Final = 1_000
HOT_BYTES: Final = 1 << 30
USERS: Final = 20
"""Who chats: so many scopes are hot, the others are as quiet as most are."""
START_S: Final = 6.0
SQL_S_MAX: Final = 3_600.0
"""A statement that ages a million memories takes minutes."""
EXPIRED_SHARE, FACT_SHARE, OVER_SHARE = 0.02, 0.05, 0.02
# Each 1/share-th memory by its number in the scope: spread over scopes and tables as they would be.
_EXPIRE: Final = """
UPDATE memory_versions v SET expires_at = now() - interval '60 days'
FROM memories m
WHERE v.tenant_id = m.tenant_id AND v.memory_id = m.memory_id AND m.changed_version % $1 = 1
"""
_FACTS: Final = """
WITH chosen AS (
    SELECT tenant_id, memory_id, scope_id, changed_version AS n
    FROM memories WHERE changed_version % $1 = 2),
kinds AS (
    UPDATE memories m SET kind = 'semantic'
    FROM chosen c WHERE m.tenant_id = c.tenant_id AND m.memory_id = c.memory_id),
made AS (
    INSERT INTO facts (tenant_id, memory_id, scope_id, subject, predicate, object, negated, cardinality, category,
                       state, said_at, seq, correction, aspect, unit, exclusive)
    SELECT tenant_id, memory_id, scope_id, 's' || n / ($1 * 2), 'is', 'o' || n, false, 'one', 'fact',
           CASE WHEN n / $1 % 2 = 0 THEN 'superseded' ELSE 'current' END,
           now() - interval '400 days' + n * interval '1 s', 1, false, '', '', true
    FROM chosen)
SELECT count(*) FROM chosen
"""
_SAYINGS: Final = """
INSERT INTO fact_sayings (tenant_id, memory_id, event_id, scope_id, said_at, seq, span_start, integrity, sensitivity,
                          correction, aspect, unit, of_many, changed)
SELECT f.tenant_id, f.memory_id, d.source_id, f.scope_id, f.said_at, 1, 0, 'user', 'internal', false, '', '', false,
       false
FROM facts f JOIN derivations d ON d.tenant_id = f.tenant_id AND d.derived_id = f.memory_id
"""
_SUPERSEDE: Final = """
UPDATE memories m SET superseded_by = n.memory_id, superseded_at = now() - interval '300 days'
FROM facts f JOIN facts n ON n.tenant_id = f.tenant_id AND n.scope_id = f.scope_id AND n.subject = f.subject
    AND n.state = 'current'
WHERE f.state = 'superseded' AND m.tenant_id = f.tenant_id AND m.memory_id = f.memory_id
"""
_SIZE_MIB: Final = "SELECT pg_database_size(current_database()) / 1048576.0"
_ENDED: Final = "SELECT finished_at IS NOT NULL FROM consolidation_runs ORDER BY started_at DESC LIMIT 1"


@dataclass(slots=True)
class Asked:
    """The chats of one kind of block, ms: as the client sees them, and what the service says it took for memory."""

    client_ms: list[float] = field(default_factory=list)
    service_ms: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "client_ms": Summary.of(self.client_ms).as_json() | {"p95": quantile(self.client_ms, 0.95)},
            "service_ms": Summary.of(self.service_ms).as_json() | {"p95": quantile(self.service_ms, 0.95)},
        }


@dataclass(slots=True)
class Chats:
    """One client that asks at a steady pace."""

    http: aiohttp.ClientSession
    url: str
    model: str
    users: Sequence[str]
    every_s: float
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def block(self, seconds: float, into: Asked | None) -> None:
        """Ask for so long; `into` None: nobody counts. Raises CallFailed."""
        until = time.monotonic() + seconds
        for turn in itertools.count():
            due = time.monotonic() + self.every_s
            if due > until:
                return
            client_ms, service_ms = await self._ask(self.users[turn % len(self.users)])
            if into is not None:
                into.client_ms.append(client_ms)
                into.service_ms.append(service_ms)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _ask(self, user: str) -> tuple[float, float]:
        text = question(next(self.numbers))
        body = {"model": self.model, "messages": [{"role": "user", "content": text}], "max_tokens": 8}
        began = time.perf_counter()
        try:
            async with self.http.post(
                f"{self.url}/v1/chat/completions", json=body, headers=user_header(user)
            ) as answer:
                raw = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise CallFailed(f"a chat failed: {type(exc).__name__} {exc}") from exc
        if answer.status != 200:
            raise CallFailed(f"a chat answered {answer.status}: {raw[:200]!r}")
        return (time.perf_counter() - began) * 1000, float(answer.headers["X-Memory-Millis"])


class Nightly:
    """The command, broken off and begun again."""

    def __init__(self, work: Path) -> None:
        self._argv = [sys.executable, "-m", "proxy", "consolidate", "--data-dir", str(work / "data"), "--json"]
        self._log = work / "consolidate.log"
        self._process: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        """Run, or go on."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv, "--now", stdout=log, stderr=log, start_new_session=True
            )

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def ended_well(self) -> None:
        """Raises NotStarted where it has ended by a fault: what it left undone would pass for speed."""
        if self._process is not None and self._process.returncode:
            raise NotStarted(f"consolidate exited with {self._process.returncode}: {self._log.read_text()[-2000:]}")

    async def break_off(self) -> None:
        """As Ctrl-C does. What it had done is kept."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):  # it has ended while we looked
                os.killpg(self._process.pid, signal.SIGINT)
            await self._process.wait()

    aclose = break_off

    async def last(self) -> dict[str, Any]:
        """The report of the latest run. Raises NotStarted."""
        process = await asyncio.create_subprocess_exec(*self._argv, stdout=asyncio.subprocess.PIPE)
        said, _ = await process.communicate()
        if process.returncode:
            raise NotStarted(f"consolidate exited with {process.returncode}: {self._log.read_text()[-2000:]}")
        report: dict[str, Any] = json.loads(said)
        return report


async def age(dsn: str, place: Place) -> dict[str, int]:
    """Make some memories expired, some facts, some of these superseded; how many of each."""
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=SQL_S_MAX)
    try:
        expired = await connection.execute(_EXPIRE, int(1 / EXPIRED_SHARE))
        facts = await connection.fetchval(_FACTS, int(1 / FACT_SHARE))
        await connection.execute(_SAYINGS)
        superseded = await connection.execute(_SUPERSEDE)
        for table in ("memories", "memory_versions", "facts", "fact_sayings", "derivations", place.embeddings):
            await connection.execute(f'VACUUM (ANALYZE) "{table}"')
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
    return {"expired": int(expired.split()[-1]), "facts": facts, "superseded": int(superseded.split()[-1])}


async def measure(served: Served, work: Path, arguments: argparse.Namespace, embedder: Embedder, say: Say) -> Any:
    """Fill, age, then chats in blocks until the run has ended. Raises what `main` catches."""
    began = time.monotonic()
    lots = [Lot(f"bench-{number}", SCOPE_MEMORIES) for number in range(arguments.memories // SCOPE_MEMORIES)]
    place = await fill(served.dsn, lots, await VectorSource.of(embedder), say)
    aged = await age(served.dsn, place)
    filled_s, store_mib = time.monotonic() - began, await _of_store(served.dsn, _SIZE_MIB)
    say(f"filled and aged in {filled_s:.0f} s: {aged}")
    without, beside = Asked(), Asked()
    nightly = Nightly(work)
    run_s, blocks = 0.0, 0
    async with session() as http, aclosing(nightly):
        users = [lot.user for lot in lots[:USERS]]
        chats = Chats(http, served.url, await served_model(http, served.url), users, arguments.every_s)
        await chats.block(len(users) * arguments.every_s * 3, None)
        while True:
            await chats.block(arguments.block_s, without)
            await nightly.begin()
            await chats.block(START_S, None)
            started = time.monotonic()
            while nightly.runs and time.monotonic() - started < arguments.block_s:
                await chats.block(1.0, beside)
            run_s += time.monotonic() - started
            blocks += 1
            say(f"block {blocks}: consolidated for {run_s:.0f} s, {len(beside.client_ms)} chats beside it")
            if not nightly.runs:
                nightly.ended_well()
                break
            await nightly.break_off()
            if await _of_store(served.dsn, _ENDED):  # it was on its way out: another start would be another run
                break
    if not beside.client_ms:
        raise NotStarted("the run had ended before a chat was counted: give it more --memories")
    last = await nightly.last()
    return {
        "memories": arguments.memories,
        "aged": aged,
        "filled_s": round(filled_s, 1),
        "store_mib": round(store_mib),
        "store_after_mib": round(await _of_store(served.dsn, _SIZE_MIB)),
        "blocks": blocks,
        "run_s": round(run_s, 1),
        "memories_per_second": round(arguments.memories / run_s, 1),
        "work_s": round(sum(one["seconds"] for one in last["steps"]), 1),
        "consolidation": last,
        "without": without.as_json(),
        "beside": beside.as_json(),
        "load": round(os.getloadavg()[0], 2),
    }


async def _of_store(dsn: str, query: str) -> Any:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [f"{report['memories']:,} memories, {report['aged']}", ""]
    lines += [f"{'step':10} {'looked at':>10} {'changed':>9} {'work s':>7}"]
    for one in report["consolidation"]["steps"]:
        lines.append(f"{one['step']:10} {one['examined']:>10,} {one['changed']:>9,} {one['seconds']:>7.1f}")
    lines.append(f"in all {report['run_s']} s with its pauses, in {report['blocks']} parts, starts not counted")
    lines.append(
        f"{report['memories_per_second']:,.0f} memories a second, {report['work_s']:.0f} s of work; filled and aged in "
        f"{report['filled_s']:.0f} s; {report['store_mib']:,.0f} MiB before, {report['store_after_mib']:,.0f} after"
    )
    lines += ["", f"{'chat, ms':22} {'p50':>8} {'p95':>8} {'count':>6}"]
    for what, name in (("client_ms", "as the client sees it"), ("service_ms", "added for memory")):
        for kind in ("without", "beside"):
            one, head = report[kind][what], name if kind == "without" else ""
            lines.append(f"{head:22} {one['p50']:8.1f} {one['p95']:8.1f} {one['count']:6} {kind}")
        both = report["beside"][what], report["without"][what]
        lines.append(f"{'':22} {both[0]['p50'] / both[1]['p50']:7.2f}x {both[0]['p95'] / both[1]['p95']:7.2f}x")
    return "\n".join(lines)


async def run(arguments: argparse.Namespace, work: Path, embedder: Embedder) -> Any:
    """The whole benchmark on a service of its own."""

    def say(text: str) -> None:
        print(f"[consolidate] {text}", file=sys.stderr, flush=True)

    bound = int(arguments.memories * (1 - EXPIRED_SHARE - FACT_SHARE / 2 - OVER_SHARE))
    more = f"consolidate:\n  at: null\n  rows_max: {bound}\n"
    async with (
        fake_vllm_process() as (upstream, _),
        serving(work, upstream, HOT_BYTES, more) as served,
    ):
        return await measure(served, work, arguments, embedder, say)


def bytes_needed(memories: int) -> int:
    """For a store of so many: what search_times measured, twice, since half the rows are written a second time."""
    return 2 * BYTES_PER_MEMORY * memories + BYTES_BESIDE


def main(argv: list[str] | None = None) -> int:
    """Run and report."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it, also for what breaks off a run
    parser = argparse.ArgumentParser(prog="python -m bench.consolidate", description=__doc__)
    parser.add_argument(
        "--memories",
        type=int,
        default=100_000,
        help="turns with a memory each (default %(default)s); 1000000 take about 10 GB and half an hour",
    )
    parser.add_argument("--block-s", type=float, default=20.0, help="length of a block (default %(default)s)")
    parser.add_argument("--every-s", type=float, default=0.1, help="one chat each so many seconds")
    parser.add_argument("--work", type=Path, help="where the store is made (default: the system's temporary directory)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="the report as JSON")
    arguments = parser.parse_args(argv)
    room, needed = shutil.disk_usage(arguments.work or tempfile.gettempdir()).free, bytes_needed(arguments.memories)
    if room < needed:
        print(f"consolidate: {needed >> 20:,} MiB are needed for the store, {room >> 20:,} are free", file=sys.stderr)
        return 1
    return reported("consolidate", arguments, run, table)


if __name__ == "__main__":
    sys.exit(main())
