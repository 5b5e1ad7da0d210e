"""Places for the work that memory does before a request goes upstream: a tenant in, a rung out; never a refusal.

At most `places` requests are looked up and recalled for at once. When all are taken a request waits, `wait_s` at most
and only within its tenant's share; who finds no place goes on with what its conversation was given before (rung
`ledger`), so memory's work is shed and the completion is not. A place that comes free goes to the waiting tenant that
holds least (`memory/places.py`). The decisions are `policies/overload.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from memory.places import Places, Tenant
from memory.telemetry import Metrics
from policies.overload import Rung, fair_share, lower, may_wait, spared

# Of the deadline, the part that may be waited for a place: what is left is worth beginning with.
WAIT_SHARE: Final = 0.2


class MemoryPlaces(Places):
    """The places of chats. `rung` is the best one that load lets begin, where it is the tenant's own; `searches` are
    the places of what is part of the load beside chats.
    """

    def __init__(
        self, places: int, wait_s: float, rung: Callable[[], Rung], metrics: Metrics, searches: Places
    ) -> None:
        super().__init__(places, wait_s)
        self.searches = searches
        self._rung = rung
        self._metrics = metrics

    @asynccontextmanager
    async def place(self, tenant: UUID, user: str) -> AsyncIterator[Rung]:
        """A place while the body runs, and the rung to begin at; `ledger` or lower where there is none."""
        rung = self._rung()
        async with self.turn(tenant, user) as taken:
            if not taken:
                self._metrics.recalls_shed.labels("place").inc()
                rung = lower(rung, "ledger")
            elif rung != "full" and self._is_spared(tenant):
                rung = "full"
            elif rung != "full":
                self._metrics.recalls_shed.labels(rung).inc()
            yield rung

    def _is_spared(self, tenant: UUID) -> bool:
        held = self.held + self.searches.held
        return spared(held[tenant], held.total(), len(held))

    def _may_wait(self, tenant: Tenant) -> bool:
        """Within its share: who finds no place does not need one."""
        waiting = sum(map(len, self._waiting.get(tenant, {}).values()))
        share = fair_share(self._places, len(self._held.keys() | self._waiting.keys() | {tenant}))
        return may_wait(self._held[tenant], waiting, share)
