"""Episodes and months in the store, to be told anew: a tenant and a scope in, what stands and what was put out.

A memory is put under the leader's fence and the scope's lock, and only if what it was made of is as it was read and may
still be told: nobody wrote to the scope since that was asked. An episode is in one month at most: it is marked in the
transaction that puts the month. Raises StoreUnavailable, LeaseLost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from memory.adapters.postgres import batch, outbox, rows
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.leases import hold_fence
from memory.adapters.postgres.queries import Query
from memory.consolidation import Lead, Step, Terms
from memory.model import NewMemory
from memory.write.episodes import TURN_CHARS_MAX, ToldTurn
from memory.write.months import OldEpisode, OldTold


class ToldStore:
    """What was told of sessions. `lane` is that of the job that leads, `add_embedding` of the model's table."""

    def __init__(self, database: Database, lane: str, add_embedding: Query) -> None:
        self._database = database
        self._lane = lane
        self._add_embedding = add_embedding

    async def old_told(self, tenant: UUID, scope_id: int, memory_id: UUID) -> OldTold | None:
        """An episode or a month as it stands; None where it is hidden or gone."""
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            row = await tx.row("told_as_it_stands", tenant, memory_id)
        return None if row is None else OldTold(scope_id=scope_id, **row)

    async def turns_told(self, tenant: UUID, old: OldTold) -> list[ToldTurn]:
        """The turns of an episode's range, those that may not be told any more marked so.

        The range is that of the turns it rests on: its attributes are its owner's to write.
        """
        if old.session_id is None:
            return []
        async with self._database.transaction(tenant, [old.scope_id], read_only=True) as tx:
            told = await tx.row("told_range", tenant, old.memory_id, old.session_id)
            if told is None or told["first_seq"] is None:
                return []
            asked = (tenant, old.session_id, told["first_seq"], told["turns"], TURN_CHARS_MAX)
            found = await tx.fetch("episode_turns", *asked)
        return [ToldTurn(**row) for row in found if row["seq"] < told["first_seq"] + told["turns"]]

    async def episodes_in(self, tenant: UUID, scope_id: int, month_id: UUID) -> list[OldEpisode]:
        """The episodes of a month that may be told."""
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            ids = [row["memory_id"] for row in await tx.fetch("episodes_in_month", tenant, month_id)]
            return await _episodes(tx, tenant, ids)

    async def episodes_of(self, tenant: UUID, scope_id: int, memory_ids: Sequence[UUID]) -> list[OldEpisode]:
        """These episodes, those that may be told."""
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            return await _episodes(tx, tenant, memory_ids)

    async def put_told(
        self,
        tenant: UUID,
        old: OldTold,
        memory: NewMemory | None,
        episodes: Sequence[OldEpisode],
        terms: Terms,
        lead: Lead,
    ) -> int:
        """Put a new version in its place, or hide it where nothing is left (None); how many: 0 where anything changed
        since it was read.
        """
        place = rows.Place(tenant, old.scope_id, lead.run_id, lead.run_id, terms.now)
        async with self._database.transaction(tenant, [old.scope_id]) as tx:
            await hold_fence(tx, self._lane, lead.fence)
            await tx.row("lock_scope", tenant, old.scope_id)
            now_there = await tx.row("told_as_it_stands", tenant, old.memory_id)
            if now_there is None or now_there["version"] != old.version:
                return 0
            if not await self._as_read(tx, tenant, memory, episodes):
                return 0
            version: int = await tx.value("bump_scope", tenant, old.scope_id)
            if memory is None:
                await tx.run("prune_memories", tenant, [old.memory_id], terms.now, "nothing left", version)
                await outbox.announce_events(
                    tx, place, "deleted", [old.memory_id], metadata={old.memory_id: {"reason": "nothing_left"}}
                )
            else:
                await tx.run("close_version", tenant, old.memory_id, terms.now)
                made = batch.as_judged(replace(memory, expires_at=old.expires_at), old.validation_status)
                await self._write(tx, place, old.memory_id, old.version + 1, made)
                await tx.run("point_memory", tenant, old.memory_id, old.version + 1, version)
                await tx.run("drop_derivations", tenant, [old.memory_id])
                await self._add_sources(tx, place, old.memory_id, memory, episodes)
                await outbox.announce_events(tx, place, "updated", [old.memory_id])
            await _note(tx, tenant, lead, "episodes")
        return 1

    async def put_month(
        self,
        tenant: UUID,
        scope_id: int,
        memory: NewMemory,
        episodes: Sequence[OldEpisode],
        terms: Terms,
        lead: Lead,
    ) -> int:
        """Put a month and mark its episodes; how many these are: 0 where anything changed since they were read."""
        async with self._database.transaction(tenant, [scope_id]) as tx:
            await hold_fence(tx, self._lane, lead.fence)
            await tx.row("lock_scope", tenant, scope_id)
            if not await self._as_read(tx, tenant, memory, episodes):
                return 0
            ids = [one.memory_id for one in episodes]
            if len(await tx.fetch("due_compressed", tenant, ids, terms.before("compressed"), len(ids))) < len(ids):
                return 0
            subject_id = await tx.value("subject_of_scope", tenant, scope_id)
            version = await tx.value("scope_version", tenant, scope_id)
            place = rows.Place(tenant, scope_id, subject_id, lead.run_id, terms.now)
            of = (tenant, memory.memory_id, scope_id, memory.content_key, subject_id, version, terms.now)
            if await tx.value("add_month", *of) is None:
                return 0
            await tx.run("mark_compressed", tenant, ids, memory.memory_id)
            await self._write(tx, place, memory.memory_id, 1, memory)
            await self._add_sources(tx, place, memory.memory_id, memory, episodes)
            await outbox.announce_events(tx, place, "created", [memory.memory_id])
            await _note(tx, tenant, lead, "compressed", len(ids))
        return len(ids)

    async def _as_read(
        self, tx: Transaction, tenant: UUID, memory: NewMemory | None, episodes: Sequence[OldEpisode]
    ) -> bool:
        """Whether all that is told may still be told, and says what it said when it was read, under the same labels."""
        if memory is not None and not await batch.may_be_told(tx, tenant, memory):
            return False
        ids = [one.memory_id for one in episodes]
        if not ids:
            return True
        there = {one.memory_id: one for one in await _episodes(tx, tenant, ids)}
        same = all(there.get(one.memory_id) == one for one in episodes)
        return same and not await tx.fetch("turns_not_told_of", tenant, ids)

    async def _write(
        self, tx: Transaction, place: rows.Place, memory_id: UUID, version: int, memory: NewMemory
    ) -> None:
        await tx.run("add_version", *rows.version_row(place, memory_id, version, memory))
        await tx.run("add_provenance", *rows.provenance_row(place, memory_id, version, memory, None))
        await tx.run_many(self._add_embedding, rows.embedding_rows(place, memory_id, version, memory))

    async def _add_sources(
        self, tx: Transaction, place: rows.Place, memory_id: UUID, memory: NewMemory, episodes: Sequence[OldEpisode]
    ) -> None:
        """As of a summary: what replaces the words of one turn must not take all of this for that turn's memory."""
        edges = [
            (place.tenant, memory_id, "summary", source, "turn", ordinal, place.scope_id, None, None)
            for ordinal, source in enumerate(memory.source_turns)
        ]
        await tx.run_many("add_derivation", edges)
        if episodes:
            ids = [one.memory_id for one in episodes]
            await tx.run("add_month_sources", place.tenant, memory_id, place.scope_id, ids)


async def recall_months(tx: Transaction, place: rows.Place, month_ids: Sequence[UUID]) -> None:
    """Let recall have these. They do not go back when a turn does: an index drops only what it is told to drop."""
    if not month_ids:
        return
    version: int = await tx.value("bump_scope", place.tenant, place.scope_id)
    await tx.run("recall_months", place.tenant, month_ids, version)
    told: Mapping[UUID, outbox.Labels] = {one: {"collection": "past"} for one in month_ids}
    await outbox.announce_events(tx, place, "updated", month_ids, metadata=told)


async def _episodes(tx: Transaction, tenant: UUID, memory_ids: Sequence[UUID]) -> list[OldEpisode]:
    found = await tx.fetch("episodes_to_tell", tenant, list(memory_ids)) if memory_ids else []
    return [OldEpisode(**row) for row in found]


async def _note(tx: Transaction, tenant: UUID, lead: Lead, step: Step, count: int = 1) -> None:
    await tx.run("note_progress", tenant, lead.run_id, step, None, 0, count, 0.0, None)
