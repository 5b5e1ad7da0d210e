"""Erasure jobs in the store: a job and its items in, how far it is out.

A job's row stands before anything is done, so a kill anywhere leaves something to go on from. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.blocks import some_of
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.leadership import lane_of_job
from memory.adapters.postgres.leases import hold_fence
from memory.erasure.model import Items, Job, Listed, Step
from memory.erasure.ports import Beside, Witness
from memory.model import TombstoneKind

JOB = "erasure"
LANE = lane_of_job(JOB)
_FIRST = UUID(int=0)
IDS_AT_ONCE: Final = 5_000
"""Of a person's hundreds of thousands: no statement is to come near the bound of one."""
Tombstone = tuple[TombstoneKind, bytes]


class EraseJobs:
    """The jobs of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self,
        tenant: UUID,
        erasure_id: UUID,
        kind: str,
        target: bytes,
        digest: bytes,
        now: datetime,
        witness: Witness | None = None,
    ) -> None:
        """Write a job, and with it what its `witness` writes; again is harmless."""
        async with self._database.transaction(tenant) as tx:
            await tx.run("add_erasure", tenant, erasure_id, kind, target, digest, now)
            if witness is not None:
                await witness(tx)

    async def add_ended(
        self,
        tenant: UUID,
        erasure_id: UUID,
        kind: str,
        digest: bytes,
        at: datetime,
        receipt: Mapping[str, Any],
        now: datetime,
    ) -> None:
        """Write a job that there is nothing to do for; again is harmless."""
        async with self._database.transaction(tenant) as tx:
            await tx.run("add_ended_erasure", tenant, erasure_id, kind, digest, at, dict(receipt), now)

    async def get(self, tenant: UUID, erasure_id: UUID) -> Job | None:
        """How far a job is; None for no such job."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            row = await tx.row("erasure_by_id", tenant, erasure_id)
        return None if row is None else Job(**row)

    async def newest(self, tenant: UUID, before: UUID, limit: int) -> list[Listed]:
        """Jobs before this one, the newest first."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return [Listed(**row) for row in await tx.fetch("erasures_newest", tenant, before, limit)]

    async def taken_out(self, tenant: UUID, erasure_ids: Sequence[UUID]) -> set[UUID]:
        """Those of these jobs that are done with taking away, or have ended."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return {row["erasure_id"] for row in await tx.fetch("erasures_taken_out", tenant, list(erasure_ids))}

    async def waiting(self, limit: int = 100, *, after: UUID = _FIRST) -> list[tuple[UUID, UUID]]:
        """Jobs of all tenants that have not ended: tenant and id, oldest first; those behind `after`."""
        async with self._database.transaction(None) as tx:
            await tx.run("see_all_erasures")
            return [(row["tenant_id"], row["erasure_id"]) for row in await tx.fetch("open_erasures", after, limit)]

    async def items(self, job: Job) -> Items:
        """What a job is about."""
        found: dict[str, dict[str, int]] = {}
        async with self._database.transaction(job.tenant_id, read_only=True) as tx:
            for row in await tx.fetch("erasure_items_of", job.tenant_id, job.erasure_id):
                found.setdefault(row["kind"], {})[row["item"]] = row["scope_id"]
        return Items(found)

    async def item_done(self, job: Job, kind: str, item: str) -> None:
        """One thing is done."""
        async with self._database.transaction(job.tenant_id) as tx:
            await tx.run("drop_erasure_item", job.tenant_id, job.erasure_id, kind, item)

    def made(self, job: Job, kind: str, items: Sequence[str], what: str) -> Beside:
        """Notes that these are done and how many of `what` came of them, in the transaction that makes them."""

        async def note(tx: Transaction, count: int) -> None:
            for item in items:
                await tx.run("drop_erasure_item", job.tenant_id, job.erasure_id, kind, item)
            if count:
                await tx.run("count_erasure", job.tenant_id, job.erasure_id, what, count)

        return note

    async def advance(self, job: Job, step: Step, counts: Mapping[str, Any], fence: int) -> None:
        """A step is done. Raises LeaseLost."""
        async with self._database.transaction(job.tenant_id) as tx:
            await hold_fence(tx, LANE, fence)
            await tx.run("advance_erasure", job.tenant_id, job.erasure_id, step, dict(counts))

    async def end(self, job: Job, receipt: Mapping[str, Any], now: datetime, fence: int) -> None:
        """It has ended. Raises LeaseLost."""
        async with self._database.transaction(job.tenant_id) as tx:
            await hold_fence(tx, LANE, fence)
            await tx.run("end_erasure", job.tenant_id, job.erasure_id, dict(receipt), now)
            await tx.run("drop_erasure_items", job.tenant_id, job.erasure_id)

    async def note_receipt(self, job: Job, receipt: Mapping[str, Any]) -> None:
        """Another receipt in the place of the first: of the physical level."""
        async with self._database.transaction(job.tenant_id) as tx:
            await tx.run("note_receipt", job.tenant_id, job.erasure_id, dict(receipt))

    async def tombstones_since(self, tenant: UUID, since: datetime) -> list[tuple[TombstoneKind, bytes]]:
        """Every tombstone of a tenant made at or after a moment."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            found = await tx.fetch("tombstones_since", tenant, since)
        return [(row["kind"], bytes(row["digest"])) for row in found]

    async def tombstones_of(
        self, tenant: UUID, tombstones: Sequence[tuple[TombstoneKind, bytes]]
    ) -> dict[tuple[TombstoneKind, bytes], datetime]:
        """Those of these that there are, with when each was made."""
        kinds, digests = [kind for kind, _ in tombstones], [value for _, value in tombstones]
        async with self._database.transaction(tenant, read_only=True) as tx:
            found = await tx.fetch("tombstones_of", tenant, kinds, digests)
        return {(row["kind"], bytes(row["digest"])): row["created_at"] for row in found}

    async def keep_tombstones(
        self, tenant: UUID, tombstones: Sequence[tuple[TombstoneKind, bytes]], at: datetime
    ) -> None:
        """Keep away what these stand for."""
        async with self._database.transaction(tenant) as tx:
            await keep_away(tx, tenant, tombstones, at)

    async def knows_tenant(self, tenant: UUID) -> bool:
        """Whether the store has this tenant."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return await tx.value("salt_generation", tenant) is not None

    async def horizon(self) -> int:
        """A transaction's number: every transaction that has written by now has a lower one."""
        async with self._database.transaction(None) as tx:
            number: int = await tx.value("current_transaction")
        return number

    async def settled(self, number: int) -> bool:
        """Whether every transaction with a lower number has ended."""
        async with self._database.transaction(None, read_only=True) as tx:
            oldest: int = await tx.value("oldest_transaction")
        return oldest >= number


async def note_items(tx: Transaction, job: Job, rows: Iterable[tuple[str, str, int]]) -> None:
    """Write what a job is about: kind, item, scope."""
    for some in some_of(list(rows), IDS_AT_ONCE):
        kinds, items, scopes = ([row[at] for row in some] for at in range(3))
        await tx.run("add_erasure_items", job.tenant_id, job.erasure_id, kinds, items, scopes)


async def keep_away(tx: Transaction, tenant: UUID, tombstones: Sequence[Tombstone], at: datetime) -> None:
    """Write tombstones, since when each stands."""
    for some in some_of(tombstones, IDS_AT_ONCE):
        kinds, digests = [kind for kind, _ in some], [value for _, value in some]
        await tx.run("add_tombstones", tenant, kinds, digests, at)
