"""`/memory/v1/queue`: nothing in, how much is captured and not stored yet out.

Counted in the direction that entries travel: bounded memory, spools, queue. So an entry on its way is counted at least
once, and `pending + in_flight == 0` means that nothing waits. Refuses to guess: 503 when the queue cannot be asked.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.errors import NotFound, QueueUnavailable, StoreUnavailable
from memory.ports import QueueDepth
from proxy.api.answers import said
from proxy.api.asking import Caller, caller_of, parameters, require_not_one_session
from proxy.api.paging import bad_cursor, page_of
from proxy.api.parts import Depths, Holds, Letter, OwnParts
from proxy.api.schemas import DeadLetterList, DeadLetterSaid, QueueSaid, ReplayedSaid

DEAD_LETTERS_MAX: Final = 1_000  # of a tenant, newest first, at once
_COUNT_S_MAX: Final = 1.0
_DEAD_ID: Final = re.compile(r"[a-z]+-\d\d/[1-9]\d{0,18}-\d{1,19}", re.ASCII)


class WithBackground:
    """The durable queue, with what waits in the store for background work; the last count while the store is away."""

    def __init__(self, queue: Depths, count: Callable[[], Awaitable[int]]) -> None:
        self._queue = queue
        self._count = count
        self._last = 0

    async def dead_letters(self, limit: int, tenant: UUID, behind: str | None = None) -> Sequence[Letter]:
        """See Depths."""
        return await self._queue.dead_letters(limit, tenant, behind)

    async def dead_letter(self, dead_id: str) -> Letter | None:
        """See Depths."""
        return await self._queue.dead_letter(dead_id)

    async def replay_dead(self, dead_id: str) -> bool:
        """See Depths."""
        return await self._queue.replay_dead(dead_id)

    async def depth(self) -> QueueDepth:
        """See Depths. The queue first: an exchange on its way from one to the other is counted twice, never missed."""
        depth = await self._queue.depth()
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(_COUNT_S_MAX):
                self._last = await self._count()
        return dataclasses.replace(depth, background=depth.background + self._last)


class Waiting:
    """`GET /memory/v1/queue`."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def show(self, request: web.Request) -> web.Response:
        """What waits, of all tenants. Raises StoreUnavailable while the queue cannot be asked."""
        parts = self._parts
        caller_of(request, parts.door, "memory:read:own")
        parameters(request, ())
        with _asked():
            depth = await waiting(parts.hand_off, parts.spooled, parts.queue)
        return said(
            QueueSaid(
                pending=depth.pending,
                in_flight=depth.in_flight,
                background=depth.background,
                dead=depth.dead,
                oldest_seconds=round(depth.oldest_seconds, 3),
            )
        )


class DeadLetters:
    """`/memory/v1/queue/dead`: what could not be stored, and another try. The caller's tenant alone."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def list(self, request: web.Request) -> web.Response:
        """Newest first. Raises StoreUnavailable while the queue cannot be asked."""
        caller = self._caller(request)
        page = page_of(parameters(request, ("limit", "cursor")), "dead letters")
        limit = min(page.limit, DEAD_LETTERS_MAX)
        found = await self._own(caller, limit + 1, _place(page.cursor))
        rows = [
            DeadLetterSaid(
                id=letter.dead_id, exchange_id=str(letter.exchange_id), reason=letter.reason, attempts=letter.attempts
            )
            for letter in found[:limit]
        ]
        last = found[limit - 1].dead_id if len(found) > limit else None
        return said(DeadLetterList(data=rows, next_cursor=page.next_cursor(last)))

    async def replay(self, request: web.Request) -> web.Response:
        """Put one back into its lane. Raises NotFound, StoreUnavailable."""
        caller = self._caller(request)
        parameters(request, ())
        dead_id = request.match_info["id"]
        with _asked():
            letter = await self._parts.queue.dead_letter(dead_id)
            own = letter is not None and letter.tenant_id == caller.scope.tenant
            if not own or not await self._parts.queue.replay_dead(dead_id):
                raise NotFound("there is no such dead letter")
        return said(ReplayedSaid(id=dead_id, replayed=True))

    def _caller(self, request: web.Request) -> Caller:
        caller = caller_of(request, self._parts.door, "memory:admin")
        require_not_one_session(caller, "dead letters are the tenant's")
        return caller

    async def _own(self, caller: Caller, limit: int, behind: str | None) -> Sequence[Letter]:
        with _asked():
            return await self._parts.queue.dead_letters(limit, caller.scope.tenant, behind)


def _place(cursor: str | None) -> str | None:
    """The id of the dead letter to go on behind. Raises MemoryInvalid."""
    if cursor is not None and _DEAD_ID.fullmatch(cursor) is None:
        raise bad_cursor()
    return cursor


@contextmanager
def _asked() -> Iterator[None]:
    try:
        yield
    except QueueUnavailable as fault:
        raise StoreUnavailable(f"the queue cannot be asked: {fault}", retry_after_s=1) from fault


async def waiting(hand_off: Holds, spooled: Callable[[], int], queue: Depths) -> QueueDepth:
    """The queue's depth with what has not reached it yet among `pending`. Raises QueueUnavailable."""
    held = hand_off.held()
    on_disk = await asyncio.to_thread(spooled)
    depth = await queue.depth()
    return dataclasses.replace(depth, pending=depth.pending + held + on_disk)
