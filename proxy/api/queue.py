"""`/memory/v1/queue`: nothing in, how much is captured and not stored yet out.

Counted in the direction that entries travel: bounded memory, spools, queue. So an entry on its way is counted at least
once, and `pending + in_flight == 0` means that nothing waits. Refuses to guess: 503 when the queue cannot be asked.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

from aiohttp import web

from memory.errors import QueueUnavailable, StoreUnavailable
from memory.ports import QueueDepth
from proxy.api.answers import said
from proxy.api.asking import caller_of, parameters
from proxy.api.parts import Depths, Holds, OwnParts
from proxy.api.schemas import QueueSaid


class Waiting:
    """`GET /memory/v1/queue`."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def show(self, request: web.Request) -> web.Response:
        """What waits, of all tenants. Raises StoreUnavailable while the queue cannot be asked."""
        parts = self._parts
        caller_of(request, parts.door, "memory:read:own")
        parameters(request, ())
        try:
            depth = await waiting(parts.hand_off, parts.spooled, parts.queue)
        except QueueUnavailable as fault:
            raise StoreUnavailable(f"the queue cannot be asked: {fault}", retry_after_s=1) from fault
        return said(
            QueueSaid(
                pending=depth.pending,
                in_flight=depth.in_flight,
                background=depth.background,
                dead=depth.dead,
                oldest_seconds=round(depth.oldest_seconds, 3),
            )
        )


async def waiting(hand_off: Holds, spooled: Callable[[], int], queue: Depths) -> QueueDepth:
    """The queue's depth with what has not reached it yet among `pending`. Raises QueueUnavailable."""
    held = hand_off.held()
    on_disk = await asyncio.to_thread(spooled)
    depth = await queue.depth()
    return dataclasses.replace(depth, pending=depth.pending + held + on_disk)
