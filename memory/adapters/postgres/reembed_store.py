"""Filling a second model's table: which memories lack vectors in, their vectors out, scope by scope.

A cursor of each scope walks memories in the order of their change (scope versions are committed in order, so what
changes later comes later): a fill that was broken off goes on, and what was written meanwhile is found at the end.
Vectors and cursor are written in one transaction that checks the leader's fence. A memory erased meanwhile gets none,
nor does a text that a sweep cut meanwhile: the sweep changed its memory, so it comes again.
Raises StoreUnavailable, LeaseLost.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Final
from uuid import UUID

from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.leadership import Leadership, lane_of_job
from memory.adapters.postgres.leases import hold_fence
from memory.adapters.postgres.serving_store import ServingStore, scope_pages
from memory.serving import Serving, StoredModel
from memory.write.reembed import Lacking, Taken, Vectors

JOB: Final = "reembed"
_LANE: Final = lane_of_job(JOB)
MEMORIES_AT_ONCE: Final = 32
SCOPES_LOOKED_AT: Final = 100
VERSIONS_AT_ONCE: Final = 32
WINDOWS_AT_ONCE: Final = 10_000
# About 32 windows: 1 s of a core with the packaged model. One longer text is taken alone.
CHARS_AT_ONCE: Final = 25_000
_LAST: Final = UUID(int=2**128 - 1)


class ReembedStore:
    """What the filler and the switch ask of the store."""

    def __init__(self, database: Database, holder: str) -> None:
        self._database = database
        self._leader = Leadership(database, JOB, holder)
        self._serving = ServingStore(database)

    async def serving(self) -> Serving | None:
        """What is served, and what stands by."""
        return await self._serving.serving()

    async def lead(self, ttl_s: float) -> int | None:
        """The fence of the one that fills or switches, this process; None while another does."""
        return await self._leader.lead(ttl_s)

    async def resign(self) -> None:
        """Let another at once."""
        await self._leader.resign()

    async def stand_by(self, model: StoredModel) -> bool:
        """Put it beside the served model, to be filled; False where another stands there, or it is served."""
        async with self._database.transaction(None) as tx:
            return await tx.row("stand_by", model.model_id) is not None

    async def pause(self, paused: bool) -> None:
        """Ask whoever fills to stop, or to go on."""
        async with self._database.transaction(None) as tx:
            await tx.run("pause_reembedding", paused)

    async def paused(self) -> bool:
        """Whether somebody asked to stop."""
        async with self._database.transaction(None, read_only=True) as tx:
            return bool(await tx.value("reembedding_paused"))

    async def left(self, model: StoredModel) -> int:
        """How many memories have changed since this model was filled."""
        total = 0
        async for tenant, scope_ids in scope_pages(self._database):
            async with self._database.transaction(tenant, scope_ids, read_only=True) as tx:
                total += await tx.value("memories_to_reembed", tenant, scope_ids, model.model_id)
        return total

    async def unfilled(self, model: StoredModel) -> AsyncIterator[tuple[UUID, int]]:
        """Every (tenant, scope) in which something has changed since."""
        async for tenant, scope_ids in scope_pages(self._database):
            async with self._database.transaction(tenant, scope_ids, read_only=True) as tx:
                found = await tx.fetch("scopes_to_reembed", tenant, scope_ids, model.model_id)
            for row in found:
                yield tenant, row["scope_id"]

    async def passed_over(self, model: StoredModel, recent_s: float, fence: int) -> int:
        """Scopes in which a cursor has gone past a memory that lacks vectors; it goes back there.

        Everything stored with a new scope version is found by the cursor. An episode has none (docs/decisions/0011), so
        this looks at what was told within `recent_s` itself.
        """
        query, again = self._database.queries["scopes_passed_over"].of_table(model.table), 0
        async for tenant, page in scope_pages(self._database):
            for start in range(0, len(page), SCOPES_LOOKED_AT):
                ids = page[start : start + SCOPES_LOOKED_AT]
                async with self._database.transaction(tenant, ids) as tx:
                    found = await tx.fetch(query, tenant, ids, model.model_id, recent_s)
                    if found:
                        await hold_fence(tx, _LANE, fence)
                        passed, back = [row["scope_id"] for row in found], [row["version"] for row in found]
                        await tx.run("walk_again", tenant, passed, back, model.model_id)
                    again += len(found)
        return again

    async def take(self, model: StoredModel, tenant: UUID, scope_id: int) -> Taken:
        """The next memories of a scope and those of their versions that lack vectors, within the bounds above."""
        lacking = self._database.queries["versions_without_vectors"].of_table(model.table)
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            at = await tx.row("reembedded_up_to", tenant, scope_id, model.model_id)
            after = (-1, _LAST) if at is None else (at["version"], at["memory_id"])
            found = await tx.fetch("changed_after", tenant, scope_id, *after, MEMORIES_AT_ONCE)
            if not found:
                return Taken(0, (), None)
            ids = [row["memory_id"] for row in found]
            versions = await tx.fetch(lacking, tenant, ids, VERSIONS_AT_ONCE + 1)
        within = _within([Lacking(**row) for row in versions])
        # What is too much for one time stays in front of the cursor, and the rest of it comes next.
        whole = len(within) == len(versions)
        last = found[-1]
        return Taken(len(ids) if whole else 0, within, (last["changed_version"], last["memory_id"]) if whole else None)

    async def put(
        self, model: StoredModel, tenant: UUID, scope_id: int, taken: Taken, made: Sequence[Vectors], fence: int
    ) -> None:
        """Store the vectors of what was taken, and how far that is."""
        add = self._database.queries["add_embedding"].of_table(model.table)
        async with self._database.transaction(tenant, [scope_id]) as tx:
            await hold_fence(tx, _LANE, fence)
            await tx.row("mark_reembedding")
            await tx.value("lock_scope", tenant, scope_id)  # who cuts a text holds it
            kept = await _as_taken(tx, tenant, taken.lacking)
            rows = (
                (tenant, scope_id, one.memory_id, one.version, number, start, end, vector)
                for one in made
                if (one.memory_id, one.version) in kept
                for number, ((start, end), vector) in enumerate(zip(one.windows, one.vectors, strict=True))
            )
            await tx.run_many(add, rows)
            if taken.upto is not None:
                await tx.run("note_reembedded", tenant, scope_id, model.model_id, *taken.upto)

    async def hold(self, seconds: float, fence: int) -> None:
        """Nobody else writes vectors for so long; returns when those who did have ended. 0: they may again."""
        async with self._database.transaction(None) as tx:
            await hold_fence(tx, _LANE, fence)
            await tx.row("lock_vectors")
            await tx.run("hold_vectors", seconds)

    async def switch(self, standby: StoredModel, fence: int) -> int | None:
        """Serve what stands by; the generation. None: writes were not held to this moment, and nothing was changed."""
        async with self._database.transaction(None) as tx:
            await hold_fence(tx, _LANE, fence)
            await tx.row("lock_vectors")
            row = await tx.row("switch_models", standby.model_id)
            return None if row is None else int(row["generation"])

    async def empty(self, model: StoredModel, fence: int) -> None:
        """Let go of what of a model does not lie in its table: how far it is filled, and its sealed vectors. What then
        is not dropped is filled anew.
        """
        async for tenant, scope_ids in scope_pages(self._database):
            gone = WINDOWS_AT_ONCE
            while gone == WINDOWS_AT_ONCE:
                async with self._database.transaction(tenant, scope_ids) as tx:
                    await hold_fence(tx, _LANE, fence)
                    await tx.run("unnote_reembedded", tenant, scope_ids, model.model_id)
                    gone = await tx.run("drop_windows_of_model", tenant, scope_ids, model.table, WINDOWS_AT_ONCE)

    async def next_generation(self) -> None:
        """Let every process read again what it holds: vectors that were missing are there."""
        async with self._database.transaction(None) as tx:
            await tx.run("next_generation")


async def _as_taken(tx: Transaction, tenant: UUID, taken: Sequence[Lacking]) -> frozenset[tuple[UUID, int]]:
    """Those that are there and say what they said. The scope is locked."""
    if not taken:
        return frozenset()
    await tx.fetch("memories_kept", tenant, sorted({one.memory_id for one in taken}))
    said = [hashlib.sha256(one.content.encode()).digest() for one in taken]
    ids, versions = [one.memory_id for one in taken], [one.version for one in taken]
    rows = await tx.fetch("versions_as_taken", tenant, ids, versions, said)
    return frozenset((row["memory_id"], row["version"]) for row in rows)


def _within(versions: Sequence[Lacking]) -> tuple[Lacking, ...]:
    """The first of them, at most VERSIONS_AT_ONCE of CHARS_AT_ONCE together, one at least."""
    chars = 0
    for at, one in enumerate(versions[:VERSIONS_AT_ONCE]):
        chars += len(one.content)
        if at and chars > CHARS_AT_ONCE:
            return tuple(versions[:at])
    return tuple(versions[:VERSIONS_AT_ONCE])
