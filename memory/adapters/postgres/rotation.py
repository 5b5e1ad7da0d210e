"""Rotation of data keys and of the master key, beside live traffic: a tenant in, counts of what was done out.

Every step is one transaction that leaves the store whole, and asks the store what is left, so that a run that was
killed is simply run again. A row that does not open is counted and never rewritten. Raises StoreUnavailable,
EnvelopeUnreadable (no master key here opens a tenant's key).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import sealing
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.keys import wrapped_key
from memory.adapters.postgres.row_vault import KeysOfTransaction, RowVault
from memory.envelope import key_id_of, seal, unseal
from memory.errors import EnvelopeUnreadable
from memory.keys import KeyRing, WrappedKey

ROWS_AT_ONCE: Final = 500
SCOPES_AT_ONCE: Final = 1_000
KEYS_AT_ONCE: Final = 500
_FIRST: Final = UUID(int=0)


@dataclass(slots=True)
class Counts:
    """Rows and keys of one walk. `open`: labelled confidential and stored before there was a vault."""

    sealed: int = 0
    moved: int = 0
    old: int = 0
    open: int = 0
    unreadable: int = 0
    keys: int = 0
    keys_rotated: int = 0
    keys_retired: int = 0
    keys_to_rewrap: int = 0
    keys_rewrapped: int = 0

    def add(self, other: Counts) -> None:
        """Add another walk's."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class Rotation:
    """Walks over one store. `database` is the plain pool, `keys` what seals and opens."""

    def __init__(self, database: Database, keys: KeyRing) -> None:
        self._database = database
        self._keys = keys

    async def tenants(self) -> list[UUID]:
        """Every tenant."""
        async with self._database.transaction(None, read_only=True) as tx:
            return [row["tenant_id"] for row in await tx.fetch("all_tenants")]

    async def keys_of(self, tenant: UUID) -> AsyncIterator[tuple[WrappedKey, datetime, datetime | None]]:
        """Every key that is not shredded: it, when it was made, and since when it is no longer in force."""
        after = _FIRST
        while True:
            async with self._database.transaction(tenant, read_only=True) as tx:
                rows = await tx.fetch("keys_of_tenant", tenant, after, KEYS_AT_ONCE)
            for row in rows:
                key = wrapped_key(row)
                if key is not None:
                    yield key, row["created_at"], row["retired_at"]
            if len(rows) < KEYS_AT_ONCE:
                return
            after = rows[-1]["key_id"]

    async def rotate_keys(self, tenant: UUID, older_than: datetime, now: datetime) -> Counts:
        """A new key for each subject whose key is older; the old one opens what it sealed and seals nothing more."""
        counts = Counts()
        async for key, made, retired in self.keys_of(tenant):
            if key.subject_id is None or retired is not None or made >= older_than:
                continue
            fresh = await self._keys.renew(tenant, key.subject_id)
            async with self._database.transaction(tenant) as tx:
                if await tx.run("retire_key", tenant, key.key_id, now):
                    await tx.run("add_key", tenant, fresh.key_id, fresh.subject_id, fresh.wrapped, now)
                    counts.keys_rotated += 1
        return counts

    async def last_retired(self, tenant: UUID) -> datetime | None:
        """When a key of this tenant was last replaced, by this run or one before; None for never."""
        return max([retired async for _, _, retired in self.keys_of(tenant) if retired is not None], default=None)

    async def rewrap_keys(self, tenant: UUID, *, dry: bool) -> Counts:
        """The tenant's own keys under the master key in force; `dry` counts only."""
        counts = Counts()
        async for key, _, retired in self.keys_of(tenant):
            counts.keys += 1
            counts.keys_retired += retired is not None
            if key.subject_id is not None or self._keys.is_wrapped_by_current(key):
                continue
            counts.keys_to_rewrap += 1
            if not dry:
                other = await self._keys.rewrapped(tenant, key)
                async with self._database.transaction(tenant) as tx:
                    counts.keys_rewrapped += await tx.run("rewrap_key", tenant, key.key_id, key.wrapped, other.wrapped)
        return counts

    async def walk(self, tenant: UUID, *, dry: bool = False) -> AsyncIterator[Counts]:
        """Counts, batch by batch, of sealed rows; those under another key than their scope's go under that."""
        async for scope_ids in self._scopes(tenant):
            for step in (_versions, _turns, _windows):
                after: tuple[Any, ...] | None = _START[step.__name__]
                while after is not None:
                    vault = RowVault(self._keys)
                    database = self._database.with_vault(lambda vault=vault: vault)  # type: ignore[misc]
                    async with database.transaction(tenant, scope_ids) as tx:
                        counts, after = await step(Walk(tx, vault, self._keys, tenant, dry), after)
                    yield counts

    async def _scopes(self, tenant: UUID) -> AsyncIterator[list[int]]:
        after = 0
        while True:
            async with self._database.transaction(tenant, read_only=True) as tx:
                rows = await tx.fetch("scopes_of_tenant", tenant, after, SCOPES_AT_ONCE)
            if rows:
                yield [row["scope_id"] for row in rows]
            if len(rows) < SCOPES_AT_ONCE:
                return
            after = rows[-1]["scope_id"]


@dataclass(frozen=True, slots=True)
class Walk:
    """One batch: its transaction with the vault that saw its rows."""

    tx: Transaction
    vault: RowVault
    keys: KeyRing
    tenant: UUID
    dry: bool


async def _versions(walk: Walk, after: tuple[Any, ...]) -> tuple[Counts, tuple[Any, ...] | None]:
    rows = await walk.tx.fetch("sealed_versions_after", walk.tenant, *after, ROWS_AT_ONCE)
    counts, due = await _judged(walk, rows, lambda row: (row["memory_id"], row["version"]))
    if not walk.dry:
        texts = ("memory_id", "version", "scope_id", "content", "attributes", "sensitivity")
        await walk.tx.run_many("seal_version", ((walk.tenant, *(row[name] for name in texts)) for row in due))
    counts.add(await _open_vectors(walk, rows))
    return counts, _behind(rows, ("memory_id", "version"))


async def _open_vectors(walk: Walk, rows: Sequence[Any]) -> Counts:
    """Vectors of these versions that lie in a model's table, as they did before there was a vault; sealed from now on,
    which their walk counts.
    """
    counts = Counts()
    versions = [(row["memory_id"], row["version"]) for row in rows]
    for model in await walk.tx.fetch("stored_models"):
        table = model["table_name"]
        if walk.dry:
            ids, numbers = [memory_id for memory_id, _ in versions], [number for _, number in versions]
            counts.open += len(await walk.tx.fetch(walk.tx.fitted("open_windows_of", table), walk.tenant, ids, numbers))
        else:
            counts.open += await walk.vault.seal_vectors(walk.tx, table, walk.tenant, versions)
    return counts


async def _turns(walk: Walk, after: tuple[Any, ...]) -> tuple[Counts, tuple[Any, ...] | None]:
    rows = await walk.tx.fetch("sealed_turns_after", walk.tenant, *after, ROWS_AT_ONCE)
    counts, due = await _judged(walk, rows, lambda row: (row["event_id"], None))
    if not walk.dry:
        texts = ("event_id", "scope_id", "content", "tool_calls", "parts", "sensitivity")
        await walk.tx.run_many("seal_turn", ((walk.tenant, *(row[name] for name in texts)) for row in due))
    return counts, _behind(rows, ("event_id",))


async def _judged(walk: Walk, rows: Sequence[Any], named: Any) -> tuple[Counts, list[Any]]:
    """The counts of these rows, and those that are to be sealed anew."""
    counts, due = Counts(), []
    for row in rows:
        name = named(row)
        if name in walk.vault.unreadable:
            counts.unreadable += 1
            continue
        under = walk.vault.under.get(name)
        key = await walk.vault.key_of_scope(walk.tx, walk.tenant, row["scope_id"])
        counts.sealed += bool(under)
        counts.open += not under
        counts.old += bool(under) and under != {key.key_id}
        if under != {key.key_id}:
            due.append(row)
    counts.moved = 0 if walk.dry else len(due)
    return counts, due


async def _windows(walk: Walk, after: tuple[Any, ...]) -> tuple[Counts, tuple[Any, ...] | None]:
    rows = await walk.tx.fetch("sealed_windows_after", walk.tenant, *after, ROWS_AT_ONCE)
    counts, due = Counts(), []
    for row in rows:
        key = await walk.vault.key_of_scope(walk.tx, walk.tenant, row["scope_id"])
        place = (row["memory_id"], row["version"], row["embeddings"], row["window_no"])
        binding = sealing.of_window(walk.tenant, *place)
        try:
            old = await walk.keys.over(KeysOfTransaction(walk.tx)).by_id(walk.tenant, key_id_of(row["sealed"]))
            clear = unseal(old, binding, row["sealed"])
        except EnvelopeUnreadable:
            counts.unreadable += 1
            continue
        counts.sealed += 1
        if old.key_id != key.key_id:
            counts.old += 1
            due.append((walk.tenant, *place, row["scope_id"], seal(key, binding, clear)))
    if not walk.dry:
        await walk.tx.run_many("add_sealed_window", due)
        counts.moved = len(due)
    return counts, _behind(rows, ("memory_id", "version", "embeddings", "window_no"))


def _behind(rows: Sequence[Any], cursor: tuple[str, ...]) -> tuple[Any, ...] | None:
    """The cursor behind these rows; None at the end."""
    return None if len(rows) < ROWS_AT_ONCE else tuple(rows[-1][name] for name in cursor)


_START: Final[dict[str, tuple[Any, ...]]] = {
    "_versions": (_FIRST, 0),
    "_turns": (_FIRST,),
    "_windows": (_FIRST, 0, "", -1),
}
