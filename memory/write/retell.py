"""Episodes told anew, and compressed into months: a step and some memories of one scope in, how many rows changed out.

What is made is made with nothing held open, and put only where all it tells may still be told (memory.consolidation);
what changed meanwhile is the next night's.
At most ROWS_UNDER_LOCK episodes become one month. Raises StoreUnavailable, EmbedderUnavailable, LeaseLost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from memory.consolidation import Changed, Due, Lead, Step, Terms
from memory.model import NewMemory
from memory.write.episodes import ToldTurn
from memory.write.months import OldEpisode, OldTold, by_month

RETOLD: Final = frozenset({"episodes", "compressed"})


class ToldStore(Protocol):
    """Where what was told lies. Every method may raise StoreUnavailable, those with a lead LeaseLost."""

    async def old_told(self, tenant: UUID, scope_id: int, memory_id: UUID) -> OldTold | None: ...
    async def turns_told(self, tenant: UUID, old: OldTold) -> list[ToldTurn]: ...
    async def episodes_in(self, tenant: UUID, scope_id: int, month_id: UUID) -> list[OldEpisode]: ...
    async def episodes_of(self, tenant: UUID, scope_id: int, memory_ids: Sequence[UUID]) -> list[OldEpisode]: ...
    async def put_told(
        self,
        tenant: UUID,
        old: OldTold,
        memory: NewMemory | None,
        episodes: Sequence[OldEpisode],
        terms: Terms,
        lead: Lead,
    ) -> int: ...
    async def put_month(
        self,
        tenant: UUID,
        scope_id: int,
        memory: NewMemory,
        episodes: Sequence[OldEpisode],
        terms: Terms,
        lead: Lead,
    ) -> int: ...


class Tells(Protocol):
    """Makes the memories. May raise EmbedderUnavailable."""

    async def episode(self, tenant: UUID, old: OldTold, turns: Sequence[ToldTurn]) -> NewMemory | None: ...
    async def month(self, episodes: Sequence[OldEpisode]) -> NewMemory | None: ...


@dataclass(frozen=True, slots=True)
class Retelling:
    """The two steps."""

    store: ToldStore
    tells: Tells

    async def change(
        self, tenant: UUID, scope_id: int, step: Step, due: Sequence[Due], terms: Terms, lead: Lead
    ) -> Changed:
        """Tell these memories of a scope anew, or compress them."""
        ids = [one.memory_id for one in due]
        if step == "compressed":
            return Changed(await self._compress(tenant, scope_id, ids, terms, lead))
        return Changed(sum([await self._retell(tenant, scope_id, one, terms, lead) for one in ids]))

    async def _retell(self, tenant: UUID, scope_id: int, memory_id: UUID, terms: Terms, lead: Lead) -> int:
        old = await self.store.old_told(tenant, scope_id, memory_id)
        if old is None:
            return 0
        if old.collection == "episode":
            turns = await self.store.turns_told(tenant, old)
            return await self.store.put_told(tenant, old, await self.tells.episode(tenant, old, turns), (), terms, lead)
        episodes = await self.store.episodes_in(tenant, scope_id, memory_id)
        made = await self.tells.month(episodes) if episodes else None
        return await self.store.put_told(tenant, old, made, episodes, terms, lead)

    async def _compress(self, tenant: UUID, scope_id: int, memory_ids: Sequence[UUID], terms: Terms, lead: Lead) -> int:
        changed = 0
        for month in by_month(await self.store.episodes_of(tenant, scope_id, memory_ids)):
            memory = await self.tells.month(month)
            if memory is not None:
                changed += await self.store.put_month(tenant, scope_id, memory, month, terms, lead)
        return changed
