"""After an hour without a worker: a backlog in, how long it takes to catch up and what users feel of it out.

    before     chats at a steady pace, the worker runs
    stopped    the worker stands; the backlog goes into the queue as the proxy would have captured it; then chats go on
    catching   the worker goes on; chats go on until the queue is empty
    counted    every exchange is there, each once

Chats of `catching` are live entries behind live entries: lanes are in order, so a fresh exchange waits for those before
it in its lane. What the design promises is that live entries do not wait for bulk ones (bench.worker.lag, imports).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from bench.hygiene import Model
from bench.overhead.processes import used_between
from bench.recall.client import CallFailed
from bench.worker.envelopes import Put
from bench.worker.lag import depths, lags
from bench.worker.live import Chat, Live, watching
from bench.worker.stage import Depth, Say, Stage
from bench.worker.talks import Traffic
from bench.worker.throughput import sizes, thirds

HOUR_EXCHANGES = 54_000  # 15 a second
SETTLE_S = 600.0
CATCH_UP_MAX_S = 4 * 3_600.0
_MISSING = """
SELECT w.id FROM unnest($1::uuid[]) AS w (id)
WHERE NOT EXISTS (SELECT FROM exchanges e WHERE e.exchange_id = w.id AND e.sealed IS NOT NULL)
"""
_TURNS = "SELECT count(*) FROM turns WHERE exchange_id = ANY ($1)"
_DOUBLED = """
SELECT count(*) FROM (
    SELECT d.source_id FROM derivations d
    JOIN memories m ON m.tenant_id = d.tenant_id AND m.memory_id = d.derived_id AND m.kind = 'episodic'
    WHERE d.source_kind = 'turn' GROUP BY d.source_id HAVING count(*) > 1) AS twice
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much. `scale` 1 is the whole hour; chats come `per_second`, baseline blocks take `seconds`."""

    scale: float
    per_second: float
    seconds: float
    mix: str

    @property
    def backlog(self) -> int:
        """Exchanges that wait when the worker comes back."""
        return max(1, round(HOUR_EXCHANGES * self.scale))


async def measure(stage: Stage, model: Model, data: Path, plan: Plan, say: Say) -> dict[str, Any]:
    """All phases. Raises CallFailed, NotStarted."""
    never = asyncio.Event()
    async with watching(stage.dsn) as watch:
        live = Live(stage.http, stage.url, model, Traffic.of(data, plan.mix, "live"), watch)
        await live.paced(1 / plan.per_second, never, plan.seconds / 2)
        await live.settle(SETTLE_S)
        before = await live.paced(1 / plan.per_second, never, plan.seconds)
        await live.settle(SETTLE_S)
        idle_mib = await stage.queue_mib()
        await stage.frozen()
        put = await stage.sealer.put(Traffic.of(data, plan.mix, "backlog"), plan.backlog)
        stopped = await live.paced(1 / plan.per_second, never, plan.seconds)
        peak_mib = await stage.queue_mib()
        say(f"catch-up: {len(put.exchange_ids)} exchanges wait, {peak_mib:.0f} MiB in the queue")
        caught = await _caught_up(stage, live, plan, say)
        await live.settle(SETTLE_S)
    return {
        "mix": plan.mix,
        "scale": plan.scale,
        "backlog": plan.backlog,
        **sizes(put),
        "chats_per_second": plan.per_second,
        "seconds": caught.seconds,
        "per_second": (plan.backlog + len(stopped) + len(caught.chats)) / caught.seconds,
        "per_second_by_third": thirds(caught.seen),
        "queue_mib": {"idle": idle_mib, "peak": peak_mib},
        "worker_mib": {"before": caught.worker_mib[0], "after": caught.worker_mib[1], "peak": caught.worker_mib[2]},
        "cores_used": caught.cores,
        "before": lags(before),
        "stopped": lags(stopped),
        "catching": lags(caught.chats),
        "stored_before_the_backlog": _share_early(caught),
        "queue": depths(caught.seen),
        "counted": await _counted(stage.dsn, put, [*before, *stopped, *caught.chats]),
    }


@dataclass(frozen=True, slots=True)
class Caught:
    """The third phase. `worker_mib`: resident before, after, and at its highest."""

    seconds: float
    ended_s: float
    chats: list[Chat]
    seen: list[Depth]
    worker_mib: tuple[float, float, float]
    cores: dict[str, float]


async def _caught_up(stage: Stage, live: Live, plan: Plan, say: Say) -> Caught:
    """Let the worker go on, and wait until nothing waits but what has just come."""
    empty = asyncio.Event()
    worker_mib, used_before = stage.weight_mib("-m memory worker")[0], stage.meter.sample()
    chatting = asyncio.create_task(live.paced(1 / plan.per_second, empty))
    began = time.monotonic()
    stage.thaw()
    seen: list[Depth] = []
    try:
        while not seen or seen[-1].oldest_s > 1.0:  # chats go on: an empty queue would be chance
            if chatting.done():
                break
            seen.append(await stage.depth(began))
            stage.meter.sample()  # connections end within the hour, and what theirs used with them
            say(f"catch-up: {seen[-1].waiting} entries wait, the oldest for {seen[-1].oldest_s:.0f} s")
            if seen[-1].at_s > CATCH_UP_MAX_S:
                raise CallFailed(f"{seen[-1].waiting} entries still wait after {seen[-1].at_s:.0f} s")
            await asyncio.sleep(0.5)
        ended = time.monotonic()
        used = used_between(used_before, stage.meter.sample())
    finally:
        empty.set()
    chats = await chatting
    seconds = ended - began
    cores = {kind: spent / seconds for kind, spent in sorted(used.items())}
    return Caught(seconds, ended, chats, seen, (worker_mib, *stage.weight_mib("-m memory worker")), cores)


def _share_early(caught: Caught) -> float:
    """The share of the chats of the first half of catching up that were stored before it ended."""
    half = [chat for chat in caught.chats if chat.sent_s < caught.ended_s - caught.seconds / 2]
    early = [chat for chat in half if chat.stored_s is not None and chat.stored_s < caught.ended_s - 1.0]
    return len(early) / len(half) if half else 0.0


async def _counted(dsn: str, put: Put, chats: Sequence[Chat]) -> dict[str, int]:
    """What is missing and what is there twice. A chat without its record is a loss that `lags` has refused already."""
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=600)
    try:
        missing: list[UUID] = [row["id"] for row in await connection.fetch(_MISSING, list(put.exchange_ids))]
        turns = await connection.fetchval(_TURNS, list(put.exchange_ids))
        doubled = await connection.fetchval(_DOUBLED)
    finally:
        await connection.close()
    return {
        "exchanges": len(put.exchange_ids) + len(chats),
        "missing": len(missing),
        "turns_missing": put.turns - turns,
        "turns_with_two_memories": doubled,
    }
