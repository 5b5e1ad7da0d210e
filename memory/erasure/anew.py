"""What has other sources, made again without the forgotten: a job's notes in, summaries and facts out.

Summaries of what is left of a conversation, facts and procedures of the other turns that said the same. Episodes are
told again by the sweep that tells them (memory.write.episodes): their sessions stand at the beginning. Each note is
done once, and taken away and counted in the transaction that does it. Raises StoreUnavailable, EmbedderUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from memory.consolidation import OldSummary
from memory.erasure.model import Items, Job
from memory.erasure.ports import Beside, EraseStore
from memory.model import NewFact, NewMemory, NewProcedure, Scope, SessionRef, Turn
from memory.stored import StoredTurn

_TURNS_AT_ONCE: Final = 200


class LeftOver(Protocol):
    """What is left."""

    async def session(self, tenant: UUID, scope_id: int, session_id: UUID) -> tuple[Scope, SessionRef] | None: ...
    async def left_of_session(self, tenant: UUID, scope_id: int, session_id: UUID, upto: int) -> list[StoredTurn]: ...
    async def turns(self, tenant: UUID, scope_id: int, events: Sequence[UUID]) -> list[Turn]: ...
    async def learn(
        self,
        tenant: UUID,
        scope_id: int,
        events: Sequence[UUID],
        facts: Sequence[NewFact],
        procedures: Sequence[NewProcedure],
        now: datetime,
        beside: Beside,
    ) -> int: ...


class Summaries(Protocol):
    """Where summaries go."""

    async def put_summary(
        self,
        scope: Scope,
        session_id: UUID,
        memory: NewMemory,
        upto_seq: int,
        *,
        subject_id: UUID,
        now: datetime,
        beside: Beside,
    ) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Anew:
    """Makes things again. `facts` and `procedures` find them in turns, with vectors."""

    store: EraseStore
    left: LeftOver
    summaries: Summaries
    sum_up: Callable[[OldSummary, Sequence[StoredTurn]], Awaitable[NewMemory | None]]
    facts: Callable[[Sequence[Turn]], Awaitable[Sequence[NewFact]]]
    procedures: Callable[[Sequence[Turn]], Awaitable[Sequence[NewProcedure]]]
    subject_of: Callable[[UUID, str], Awaitable[UUID]]
    clock: Callable[[], datetime]

    async def make(self, job: Job, items: Items) -> None:
        """All of it."""
        for item, scope_id in items.of.get("summary", {}).items():
            if not await self._sum_up(job, item, scope_id):
                await self.store.item_done(job, "summary", item)
        by_scope: dict[int, list[UUID]] = {}
        for item, scope_id in items.of.get("learn", {}).items():
            by_scope.setdefault(scope_id, []).append(UUID(item))
        for scope_id, events in by_scope.items():
            for start in range(0, len(events), _TURNS_AT_ONCE):
                some = events[start : start + _TURNS_AT_ONCE]
                if not await self._learn(job, scope_id, some):
                    for event_id in some:
                        await self.store.item_done(job, "learn", str(event_id))

    async def _sum_up(self, job: Job, item: str, scope_id: int) -> bool:
        """Whether there is a summary now, which was noted then."""
        name, _, seq = item.partition(":")
        session_id, upto = UUID(name), int(seq)
        found = await self.left.session(job.tenant_id, scope_id, session_id)
        if found is None:
            return False
        scope, ref = found
        turns = await self.left.left_of_session(job.tenant_id, scope_id, session_id, upto)
        subject = await self.subject_of(job.tenant_id, scope.user)
        old = OldSummary(session_id, scope_id, session_id, ref.label, 0, subject, upto, 0)
        memory = await self.sum_up(old, turns) if turns else None
        if memory is None:
            return False
        beside = self.store.made(job, "summary", [item], "summaries_rebuilt")
        put, now = self.summaries.put_summary, self.clock()
        return await put(scope, session_id, memory, upto, subject_id=subject, now=now, beside=beside) is not None

    async def _learn(self, job: Job, scope_id: int, events: Sequence[UUID]) -> bool:
        """Whether these say anything, which is learnt and was noted then."""
        turns = await self.left.turns(job.tenant_id, scope_id, events)
        facts, procedures = await asyncio.gather(self.facts(turns), self.procedures(turns))
        if not facts and not procedures:
            return False
        beside = self.store.made(job, "learn", [str(one) for one in events], "memories_learnt_again")
        await self.left.learn(job.tenant_id, scope_id, events, facts, procedures, self.clock(), beside)
        return True
