"""Exchanges that wait for a model: marked with their commit, taken for a time, and done with what was found.

The mark goes in the transaction that stores the facts, so an exchange is done once: of two workers that both have it
(a lease ran out), the later one finds no mark and stores nothing. A mark dies with its exchange. Times are the
database's. Raises StoreUnavailable, after which the same may be tried again; StoreRefused where the data is at fault.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import facts as fact_store
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.facts import EmbeddingQueries, Heard
from memory.adapters.postgres.rows import OpenSession, Place, base_of, heard_turn
from memory.model import Committed, NewFact, ScopeId
from memory.write.due import Due, DueExchange

COUNTED_MAX: Final = 1_000_000


async def mark_due(
    tx: Transaction, place: Place, session: OpenSession, behind: datetime | None, since: datetime
) -> None:
    """Mark the place's exchange, in its own transaction; nothing where the user has said nothing new in it."""
    await tx.run("add_due", place.tenant, place.exchange_id, place.scope_id, session.session_id, behind, since)


class ExtractionStore:
    """The exchanges that wait, of all tenants. `embeddings` is the table of the model whose vectors are stored."""

    def __init__(self, database: Database, embeddings: str) -> None:
        self._database = database
        add = database.queries["add_embedding"].of_table(embeddings)
        self._embeddings = EmbeddingQueries(add, database.queries["copy_embeddings"].of_table(embeddings))

    async def take(
        self, limit: int, held: Sequence[UUID], *, lease_s: float, before: datetime | None = None
    ) -> tuple[Due, ...]:
        """At most `limit` exchanges that are this worker's for `lease_s`, fair between tenants.

        `held`: the tenant of each exchange in hand. `before`: only those that wait since before then.
        """
        async with self._all() as tx:
            chosen = await tx.fetch("choose_due", limit, list(held), before)
            ids = [row["tenant_id"] for row in chosen], [row["exchange_id"] for row in chosen]
            found = await tx.fetch("take_due", *ids, lease_s) if chosen else []
        return tuple(_due(row) for row in found)

    async def keep(self, dues: Sequence[Due], lease_s: float) -> None:
        """Keep them for `lease_s` more."""
        which = [due.tenant for due in dues], [due.exchange_id for due in dues], [due.takes for due in dues]
        async with self._all() as tx:
            await tx.run("keep_due", *which, lease_s)

    async def give_back(self, dues: Iterable[Due]) -> None:
        """Another may take them at once, unless one has them already; this time does not count."""
        async with self._all() as tx:
            await tx.run_many("give_back_due", ((due.tenant, due.exchange_id, due.takes) for due in dues))

    async def waiting(self) -> int:
        """How many exchanges wait, at most COUNTED_MAX."""
        async with self._all() as tx:
            found: int = await tx.value("count_due", COUNTED_MAX)
        return found

    @asynccontextmanager
    async def _all(self) -> AsyncIterator[Transaction]:
        """A transaction that sees the marks of every tenant."""
        async with self._database.transaction(None) as tx:
            await tx.run("see_all_due")
            yield tx

    async def exchange(self, due: Due) -> DueExchange | None:
        """What is stored of it; None when it is gone."""
        async with self._database.transaction(due.tenant, [due.scope_id], read_only=True) as tx:
            row = await tx.row("exchange_of_due", due.tenant, due.exchange_id)
            if row is None:
                return None
            turns = tuple(one.turn for one in await _heard(tx, due))
        base = base_of(row["base_id"], row["base_sealed"])
        return DueExchange(row["subject_id"], row["model"], row["sealed"], turns, base)

    async def finish(
        self, due: Due, stored: DueExchange | None, facts: Sequence[NewFact], now: datetime
    ) -> Committed | None:
        """Store what was found and take the mark away, recorded at `now`; None when another has done it.

        The scope's version goes first (the order of locks), the turns are read behind it: what was forgotten while
        the model was asked supports nothing any more.
        """
        async with self._database.transaction(due.tenant, [due.scope_id]) as tx:
            version = await tx.value("bump_scope", due.tenant, due.scope_id) if facts else 0
            if await tx.value("finish_due", due.tenant, due.exchange_id) is None or stored is None:
                return None
            heard = {one.event_id: one for one in await _heard(tx, due)}
            offered, dropped = fact_store.sift(facts, heard, frozenset())
            place = Place(due.tenant, due.scope_id, stored.subject_id, due.exchange_id, now)
            born = await fact_store.store_facts(
                tx, place, offered, changed_version=version, model=stored.model, embeddings=self._embeddings
            )
        return Committed(ScopeId(due.scope_id), version, 0, False, facts_new=born, facts_dropped=dropped)


async def _heard(tx: Transaction, due: Due) -> list[Heard]:
    found = await tx.fetch("user_turns_of_due", due.tenant, due.session_id, due.exchange_id, due.seq_from, due.seq_to)
    return [Heard(heard_turn(row), row["event_id"], due.session_id, row["seq"], due.session_last) for row in found]


def _due(row: Any) -> Due:
    members = dict(row)
    return Due(tenant=members.pop("tenant_id"), **members)
