"""What is left after an erasure, to be summed up and learnt from again: ids in, turns out; and what was made, stored.

What is stored rests on turns that are read behind the scope's lock, so nothing rests on a turn that went meanwhile.
Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from memory.adapters.postgres import facts as fact_store
from memory.adapters.postgres import procedures as procedure_store
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.facts import EmbeddingQueries, Heard
from memory.adapters.postgres.rows import Place, heard_turn
from memory.erasure.ports import Beside
from memory.model import NewFact, NewProcedure, Scope, SessionRef, Turn
from memory.stored import StoredTurn

_PAGE_ROWS: Final = 2_000
_NOBODY: Final = UUID(int=0)


class AnewStore:
    """Reads what is left and stores what was made of it."""

    def __init__(self, database: Database, embeddings: str) -> None:
        self._database = database
        add = database.queries["add_embedding"].of_table(embeddings)
        self._embeddings = EmbeddingQueries(add, database.queries["copy_embeddings"].of_table(embeddings))

    async def session(self, tenant: UUID, scope_id: int, session_id: UUID) -> tuple[Scope, SessionRef] | None:
        """Whose a conversation is; None for one that is not there."""
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            row = await tx.row("session_to_sum_up", tenant, session_id)
            named = await tx.row("scopes_by_id", tenant, [scope_id])
        if row is None or named is None:
            return None
        scope = Scope(tenant, named["user_name"], named["project"], named["agent"])
        return scope, SessionRef(row["session_id"], row["label"])

    async def left_of_session(self, tenant: UUID, scope_id: int, session_id: UUID, upto: int) -> list[StoredTurn]:
        """The turns below `upto` that may be told."""
        found: list[StoredTurn] = []
        seq = 0
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            hidden = {row["event_id"] for row in await tx.fetch("turns_not_shown", tenant, session_id)}
            while page := await tx.fetch("turns_since", tenant, scope_id, session_id, seq, _PAGE_ROWS):
                found += [StoredTurn(**row) for row in page if row["seq"] < upto and row["event_id"] not in hidden]
                seq = page[-1]["seq"] + 1
        return found

    async def turns(self, tenant: UUID, scope_id: int, events: Sequence[UUID]) -> list[Turn]:
        """These turns, those that are there."""
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            return [one.turn for one in await _heard(tx, tenant, events)]

    async def learn(
        self,
        tenant: UUID,
        scope_id: int,
        events: Sequence[UUID],
        facts: Sequence[NewFact],
        procedures: Sequence[NewProcedure],
        now: datetime,
        beside: Beside,
    ) -> int:
        """Store what these turns say; how many memories are new, which `beside` is told."""
        async with self._database.transaction(tenant, [scope_id]) as tx:
            version = await tx.value("bump_scope", tenant, scope_id)
            subject = await tx.value("subject_of_scope", tenant, scope_id)
            heard = {one.event_id: one for one in await _heard(tx, tenant, events)}
            place = Place(tenant, scope_id, subject or _NOBODY, _NOBODY, now)
            offered, _ = fact_store.sift(facts, heard, frozenset())
            taught = procedure_store.sift(procedures, heard, frozenset())
            born = await fact_store.store_facts(
                tx, place, offered, changed_version=version, model=None, embeddings=self._embeddings
            )
            born += await procedure_store.store_procedures(
                tx, place, taught, changed_version=version, embeddings=self._embeddings
            )
            await beside(tx, born)
        return born


async def _heard(tx: Transaction, tenant: UUID, events: Sequence[UUID]) -> list[Heard]:
    found = await tx.fetch("turns_to_learn", tenant, list(events))
    return [Heard(heard_turn(row), row["event_id"], row["session_id"], row["seq"], None) for row in found]
