"""Places for the work that memory does before a request goes upstream: a tenant in, a rung out; never a refusal.

At most `places` requests are looked up and recalled for at once. When all are taken a request waits, `wait_s` at most
and only within its tenant's share; who finds no place goes on with what its conversation was given before (rung
`ledger`), so memory's work is shed and the completion is not. A place that comes free goes to the waiting tenant that
holds least. The decisions are `policies/overload.py`.
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


class MemoryPlaces:
    """The places of one process. `rung` is the best one that load lets begin."""

    def __init__(self, places: int, wait_s: float, rung: Callable[[], Rung], metrics: Metrics) -> None:
        self._places = places
        self._wait_s = wait_s
        self._rung = rung
        self._metrics = metrics
        self._held: dict[UUID, int] = {}
        self._taken = 0
        self._waiting: dict[UUID, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def place(self, tenant: UUID) -> AsyncIterator[Rung]:
        """A place while the body runs, and the rung to begin at; `ledger` or lower where there is none."""
        rung = self._rung()
        if not await self._take(tenant):
            self._metrics.recalls_shed.labels("place").inc()
            yield lower(rung, "ledger")
            return
        if rung != "full":
            self._metrics.recalls_shed.labels(rung).inc()
        try:
            yield rung
        finally:
            self._give_back(tenant)

    async def _take(self, tenant: UUID) -> bool:
        if self._taken < self._places:
            self._hold(tenant)
            return True
        queue = self._waiting.get(tenant, ())
        share = fair_share(self._places, len(self._held.keys() | self._waiting.keys() | {tenant}))
        if not may_wait(self._held.get(tenant, 0), len(queue), share):
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
