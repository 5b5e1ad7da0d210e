"""Places for the work that memory does before a request goes upstream: a tenant in, a rung out; never a refusal.

At most `places` requests are looked up and recalled for at once. When all are taken a request waits, `wait_s` at most
and only within its tenant's share; who finds no place goes on with what its conversation was given before (rung
`ledger`), so memory's work is shed and the completion is not. A place that comes free goes to the waiting tenant that
holds least. Searches of the API take turns by the same rule (`Places`) and wait for theirs: nothing stands in for an
answer. The decisions are `policies/overload.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from memory.telemetry import Metrics
from policies.overload import Rung, fair_share, lower, may_wait, next_of

# Of the deadline, the part that may be waited for a place: what is left is worth beginning with.
WAIT_SHARE: Final = 0.2


class Places:
    """So many at once, and the others wait for `wait_s`. One per process and kind of work."""

    def __init__(self, places: int, wait_s: float) -> None:
        self._places = places
        self._wait_s = wait_s
        self._held: dict[UUID, int] = {}
        self._taken = 0
        self._waiting: dict[UUID, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, tenant: UUID) -> AsyncIterator[bool]:
        """A place while the body runs; False where there was none in time."""
        taken = await self._take(tenant)
        try:
            yield taken
        finally:
            if taken:
                self._give_back(tenant)

    def _may_wait(self, _tenant: UUID) -> bool:
        return True

    async def _take(self, tenant: UUID) -> bool:
        if self._taken < self._places:
            self._hold(tenant)
            return True
        if not self._may_wait(tenant):
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await asyncio.wait([turn], timeout=self._wait_s)
        except asyncio.CancelledError:
            if not self._left(tenant, turn):
                self._give_back(tenant)  # its turn had come in the same moment
            raise
        return not self._left(tenant, turn)

    def _left(self, tenant: UUID, turn: asyncio.Future[None]) -> bool:
        """Leave the queue; False where the place has been given already."""
        if turn.done():
            return False
        queue = self._waiting[tenant]
        queue.remove(turn)
        if not queue:
            del self._waiting[tenant]
        return True

    def _hold(self, tenant: UUID) -> None:
        self._taken += 1
        self._held[tenant] = self._held.get(tenant, 0) + 1

    def _give_back(self, tenant: UUID) -> None:
        self._taken -= 1
        left = self._held.pop(tenant) - 1
        if left:
            self._held[tenant] = left
        if not self._waiting:
            return
        favoured = next_of({one: self._held.get(one, 0) for one in self._waiting})
        queue = self._waiting[favoured]
        queue.popleft().set_result(None)
        if not queue:
            del self._waiting[favoured]
        self._hold(favoured)


class MemoryPlaces(Places):
    """The places of chats. `rung` is the best one that load lets begin."""

    def __init__(self, places: int, wait_s: float, rung: Callable[[], Rung], metrics: Metrics) -> None:
        super().__init__(places, wait_s)
        self._rung = rung
        self._metrics = metrics

    @asynccontextmanager
    async def place(self, tenant: UUID) -> AsyncIterator[Rung]:
        """A place while the body runs, and the rung to begin at; `ledger` or lower where there is none."""
        rung = self._rung()
        async with self.turn(tenant) as taken:
            if not taken:
                self._metrics.recalls_shed.labels("place").inc()
                rung = lower(rung, "ledger")
            elif rung != "full":
                self._metrics.recalls_shed.labels(rung).inc()
            yield rung

    def _may_wait(self, tenant: UUID) -> bool:
        """Within its share: who finds no place does not need one."""
        queue = self._waiting.get(tenant, ())
        share = fair_share(self._places, len(self._held.keys() | self._waiting.keys() | {tenant}))
        return may_wait(self._held.get(tenant, 0), len(queue), share)
