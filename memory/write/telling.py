"""The sweep for ended sessions: a clock in, episodes in the store out, by one worker among many and in quiet moments.

Before each episode the lease is prolonged and the queue is asked: while an entry waits longer than CALM_S, the lanes
come first and the sweep is put off. A store, queue or embedder that is away is asked again at the next sweep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from memory.errors import MemoryProxyFault
from memory.ports import Leader, QueueDepth
from memory.telemetry import Metrics, event
from memory.write.episodes import Swept, Teller

log = logging.getLogger("memory_proxy.episodes")
LEASE_S: Final = 30.0
CALM_S: Final = 2.0
"""How long an entry of the queue may wait at most while episodes are made. An episode of 60 turns takes some 60 ms."""


class Depth(Protocol):
    """Says how busy the lanes are."""

    async def depth(self) -> QueueDepth:
        """How much is waiting, and how long. Raises QueueUnavailable."""


async def keep_telling(teller: Teller, leader: Leader, queue: Depth, metrics: Metrics, *, every_s: float) -> None:
    """Make the episodes of ended sessions for ever; run as a task."""
    lead = _leading(leader, queue)
    while True:
        await asyncio.sleep(every_s)
        try:
            if await lead() is not None:
                _count(metrics, await teller.sweep(lead))
        except MemoryProxyFault as fault:
            event(log, "episodes_postponed", logging.WARNING, fault=f"{type(fault).__name__}: {fault}")
        except Exception:  # the worker loop is one of the three named places, and this is its other half
            metrics.work.labels("unforeseen").inc()
            log.exception("a sweep for episodes failed in an unforeseen way; the next one comes")


def _leading(leader: Leader, queue: Depth) -> Callable[[], Awaitable[int | None]]:
    async def lead() -> int | None:
        if (await queue.depth()).oldest_seconds > CALM_S:
            return None
        return await leader.lead(LEASE_S)

    return lead


def _count(metrics: Metrics, swept: Swept) -> None:
    for what, number in (("stored", swept.stored), ("empty", swept.empty), ("refused", swept.refused)):
        metrics.episodes.labels(what).inc(number)
    if swept.stored or swept.refused:
        event(log, "episodes", stored=swept.stored, empty=swept.empty, refused=swept.refused)
