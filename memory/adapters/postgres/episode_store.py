"""Where ended sessions are found and episodes are put: a tenant in, due sessions, their turns and stored ranges out.

An episode goes into one transaction: under the leader's fence, behind the session's row, and only if the range is
still as it was read, so that what was forgotten, replaced or made confidential meanwhile is not told. A range is put
once: it must begin where the last one ended, and its content key is unique. Raises StoreUnavailable, StoreRefused,
LeaseLost.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import batch, derived_procedures, rows
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.facts import EmbeddingQueries
from memory.adapters.postgres.leadership import lane_of_job
from memory.adapters.postgres.leases import hold_fence
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.rows import Place
from memory.model import NewMemory
from memory.write.episodes import COLLECTION, DueSession, Episode, ToldTurn
from memory.write.procedures import PastRun

JOB: Final = "episodes"
# For each page all of a tenant's untold sessions are read. Of more scopes the server makes a table (32 bytes each) only
# where `work_mem` has room for it, and without one it compares each session with each of them.
_SCOPES_AT_ONCE: Final = 20_000
_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)  # of what only reads


class PostgresEpisodes:
    """The episodes of one store. `embeddings` is the table of the model whose vectors are stored."""

    def __init__(self, database: Database, embeddings: str) -> None:
        self._database = database
        self._after: dict[UUID, int] = {}  # by tenant: the scope behind which the next look begins
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)
        copy = database.queries["copy_embeddings"].of_table(embeddings)
        self._embeddings = EmbeddingQueries(self._add_embedding, copy)

    async def tenants(self) -> tuple[UUID, ...]:
        """Every tenant."""
        async with self._database.transaction(None, read_only=True) as tx:
            return tuple(row["tenant_id"] for row in await tx.fetch("all_tenants"))

    async def due(self, tenant: UUID, *, idle_s: float, turns_max: int, limit: int) -> tuple[DueSession, ...]:
        """Sessions of a tenant that ended, at most `limit`; of each page of scopes the longest idle first.

        Where there are more, the next call goes on behind the last page, so that no scope waits for ever.
        """
        found: list[Any] = []
        after = self._after.pop(tenant, -1)
        while len(found) < limit:
            async with self._database.transaction(tenant, read_only=True) as tx:
                ids = [row["scope_id"] for row in await tx.fetch("scopes_of_tenant", tenant, after, _SCOPES_AT_ONCE)]
                await tx.see(tenant, ids)
                found += await tx.fetch("due_sessions", tenant, idle_s, turns_max, limit - len(found))
            if len(ids) < _SCOPES_AT_ONCE:
                break
            after = ids[-1]
        else:
            self._after[tenant] = after
        return tuple(DueSession(tenant=tenant, **row) for row in found)

    async def turns(self, due: DueSession, *, limit: int, chars_max: int) -> tuple[ToldTurn, ...]:
        """The untold turns of a session, in order, at most `limit`, each cut at `chars_max`."""
        async with self._database.transaction(due.tenant, [due.scope_id], read_only=True) as tx:
            found = await tx.fetch("episode_turns", due.tenant, due.session_id, due.first_seq, limit, chars_max)
        return tuple(ToldTurn(**row) for row in found)

    async def past_runs(self, due: DueSession, pattern: str) -> tuple[PastRun, ...]:
        """Earlier episodes of this pattern, the latest first; none where it has a procedure already."""
        place = Place(due.tenant, due.scope_id, due.session_id, due.session_id, _NO_TIME)
        async with self._database.transaction(due.tenant, [due.scope_id], read_only=True) as tx:
            return await derived_procedures.past_runs(tx, place, pattern)

    async def put(self, due: DueSession, episode: Episode, *, fence: int, now: datetime) -> bool:
        """Store the range and move the session on behind it; False where somebody was there before, or it changed."""
        tenant, session_id, upto = due.tenant, due.session_id, episode.upto_seq
        async with self._database.transaction(tenant, [due.scope_id]) as tx:
            await hold_fence(tx, lane_of_job(JOB), fence)
            if await tx.value("lock_for_episode", tenant, session_id) != due.first_seq:
                return False
            now_there = await tx.row("turns_of_range", tenant, session_id, due.first_seq, upto)
            read = (len(episode.turns), max(turn.recorded_at for turn in episode.turns))
            if now_there is None or (now_there["turns"], now_there["recorded_at"]) != read:
                return False
            if episode.memory is not None:
                await tx.row("lock_scope", tenant, due.scope_id)
                if await batch.outgrown(tx, tenant, episode.memory):
                    return False
                await self._store(tx, due, episode, episode.memory, now)
            await tx.run("mark_told", tenant, session_id, upto)
        return True

    async def pass_over(self, due: DueSession, *, fence: int) -> bool:
        """Move the session on behind a range whose turns were all forgotten; False where one is there, or it moved."""
        tenant, session_id = due.tenant, due.session_id
        async with self._database.transaction(tenant, [due.scope_id]) as tx:
            await hold_fence(tx, lane_of_job(JOB), fence)
            if await tx.value("lock_for_episode", tenant, session_id) != due.first_seq:
                return False
            left = await tx.row("turns_of_range", tenant, session_id, due.first_seq, due.next_seq)
            if left is None or left["turns"]:
                return False
            await tx.run("mark_told", tenant, session_id, due.next_seq)
        return True

    async def _store(
        self, tx: Transaction, due: DueSession, episode: Episode, memory: NewMemory, now: datetime
    ) -> None:
        """The memory with all that belongs to it. The scope's version stays: recall has nothing new to see, unless a
        procedure is proposed or retired.
        """
        tenant, scope_id = due.tenant, due.scope_id
        subject_id = await tx.value("subject_of_scope", tenant, scope_id)
        version = await tx.value("scope_version", tenant, scope_id)
        of = (tenant, memory.memory_id, scope_id, COLLECTION, memory.content_key, due.session_id, subject_id, version)
        if await tx.value("add_episode", *of, now) is None:
            return
        place = Place(tenant, scope_id, subject_id, episode.turns[-1].exchange_id, now)
        await tx.run("add_version", *rows.version_row(place, memory.memory_id, 1, memory))
        await tx.run("add_provenance", *rows.provenance_row(place, memory.memory_id, 1, memory, None))
        # As of a summary: what replaces the words of one turn must not take all of this for that turn's memory.
        edges = [
            (tenant, memory.memory_id, "summary", source, "turn", ordinal, scope_id, None, None)
            for ordinal, source in enumerate(memory.source_turns)
        ]
        await tx.run_many("add_derivation", edges)
        await tx.run_many(self._add_embedding, rows.embedding_rows(place, memory.memory_id, 1, memory))
        await announce(tx, tenant, scope_id, "created", [memory.memory_id], by="episodes", at=now)
        await derived_procedures.note_run(tx, place, memory, episode.proposal, self._embeddings)
        await derived_procedures.note_given(tx, place, due.session_id, episode, memory)
