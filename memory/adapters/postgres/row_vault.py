"""The vault of one transaction: parameters in, what of them is confidential sealed; rows in, what is sealed opened.

Sits between the stores and the driver (database.Transaction), so no store knows of it. Keys are read through the same
transaction, and none is made there. A row that does not open (copied from another row, altered, its key shredded) is
shown empty and invisible, and said in the log by its id. Raises StoreUnavailable.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import sealing
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.keys import wrapped_key
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.sealing import SEALED_LABELS, SHOWN, WRITTEN, Written
from memory.envelope import DataKey, RowBinding, key_id_of, seal, unseal
from memory.errors import EnvelopeUnreadable, StoreUnavailable
from memory.keys import KeyRing, WrappedKey
from memory.telemetry import event

log = logging.getLogger("memory_proxy.vault")
_NEXT: Final = "next_version"
_VECTORS: Final = "vectors_of_memories"


def vaulted(database: Database, keys: KeyRing) -> Database:
    """The same pool, sealing and opening under these keys."""
    return database.with_vault(lambda: RowVault(keys))


class KeysOfTransaction:
    """The key table as an open transaction sees it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def current(self, tenant: UUID, subject_id: UUID | None) -> WrappedKey | None:
        """The key in use."""
        if subject_id is None:
            return wrapped_key(await self._tx.row("current_tenant_key", tenant))
        return wrapped_key(await self._tx.row("current_key", tenant, subject_id))

    async def add(self, tenant: UUID, key: WrappedKey, now: datetime) -> None:
        """Never: what is made in a transaction that rolls back would be lost, and what it sealed with it."""
        raise StoreUnavailable("no key is made inside a transaction")

    async def by_id(self, tenant: UUID, key_id: UUID) -> WrappedKey | None:
        """Any key."""
        return wrapped_key(await self._tx.row("key_by_id", tenant, key_id))

    async def salt_generation(self, tenant: UUID) -> int:
        """How often the tenant's cache_salt was rotated."""
        return int(await self._tx.value("salt_generation", tenant) or 0)


_WINDOW: Final = ("scope_id", "memory_id", "version", "window_no", "span_start", "span_end", "vector")


class RowVault:
    """What one transaction has sealed and opened. Knows by that which vectors must not lie open."""

    writes = frozenset({*WRITTEN, _NEXT, "add_embedding"})
    copies = frozenset({"copy_embeddings"})
    reads = frozenset({*SHOWN, _VECTORS})

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys
        self._is_sealed: dict[tuple[UUID, int], bool] = {}
        self._of_scope: dict[tuple[UUID, int], DataKey] = {}
        self.under: dict[tuple[UUID, int | None], set[UUID]] = {}  # by which keys the values of a row were sealed
        self.unreadable: set[tuple[UUID, int | None]] = set()

    async def sealed(self, tx: Transaction, query: Query, rows: list[Sequence[Any]]) -> list[Sequence[Any]]:
        """The parameters to write; vectors of sealed versions are stored sealed and left out."""
        if query.name == "add_embedding":
            return await self._without_sealed_vectors(tx, query.embeddings, rows)
        if query.name == _NEXT:
            return [await self._next(tx, row) for row in rows]
        where = WRITTEN[query.name]
        return [await self._written(tx, where, row) for row in rows]

    async def opened(self, tx: Transaction, query: Query, arguments: Sequence[Any], rows: list[Any]) -> list[Any]:
        """The rows with what is sealed opened; those without anything sealed are the driver's own."""
        if query.name == _VECTORS:
            return await self._with_sealed_vectors(tx, query.embeddings, arguments, rows)
        shown, tenant = SHOWN[query.name], arguments[0]
        found = []
        for row in rows:
            sealed = [name for name in (*shown.texts, *shown.jsons) if sealing.looks_sealed(row[name])]
            if shown.version is not None and row[shown.version] is not None:
                self._is_sealed[row[shown.row_id], row[shown.version]] = bool(sealed)
            found.append(await self._clear(tx, tenant, shown, row, sealed) if sealed else row)
        return found

    async def copied(self, tx: Transaction, query: Query, rows: list[Sequence[Any]]) -> None:
        """Vectors went on to the next version: sealed where it is sealed, open where it is not any more."""
        for tenant, memory_id, version in rows:
            await self._carry_vectors(tx, query.embeddings, tenant, memory_id, version)

    async def seal_vectors(
        self, tx: Transaction, table: str, tenant: UUID, versions: Sequence[tuple[UUID, int]]
    ) -> int:
        """Take the open vectors of these versions out of a model's table and keep them sealed; how many."""
        ids, numbers = [memory_id for memory_id, _ in versions], [number for _, number in versions]
        found = await tx.fetch(tx.fitted("open_windows_of", table), tenant, ids, numbers)
        for scope_id in sorted({row["scope_id"] for row in found}):
            key = await self.key_of_scope(tx, tenant, scope_id)
            here = [(tenant, *(row[name] for name in _WINDOW)) for row in found if row["scope_id"] == scope_id]
            await self._put_windows(tx, key, table, here)
        gone = {(row["memory_id"], row["version"]) for row in found}
        await tx.run_many(tx.fitted("drop_open_windows", table), ((tenant, *one) for one in sorted(gone)))
        return len(found)

    async def _written(self, tx: Transaction, where: Written, row: Sequence[Any]) -> Sequence[Any]:
        tenant, row_id = row[0], row[where.row_id]
        columns = {**where.texts, **where.jsons}
        closed = row[where.sensitivity] in SEALED_LABELS
        if where.version is not None:
            self._is_sealed[row_id, row[where.version]] = closed
        chosen = [at for at in columns if row[at] is not None and (closed or sealing.looks_sealed(row[at]))]
        if not chosen:
            return row
        scope_id = row[where.scope] if where.scope is not None else await tx.value("scope_of_turn", tenant, row_id)
        key = await self.key_of_scope(tx, tenant, scope_id)
        written = list(row)
        for at in chosen:
            binding = _bound(tenant, row_id, None if where.version is None else row[where.version], columns[at])
            written[at] = (
                sealing.sealed_text(key, binding, row[at])
                if at in where.texts
                else sealing.sealed_json(key, binding, row[at])
            )
        return written

    async def _next(self, tx: Transaction, row: Sequence[Any]) -> Sequence[Any]:
        """A version made from the last one: its texts are given, so that none is copied sealed for another version."""
        tenant, memory_id, version = row[0], row[1], row[2]
        old = await tx.row("versions_by_number", tenant, [memory_id], [version])
        if old is None:
            return row
        label = row[6] or old["sensitivity"]
        was, will = self._is_sealed[memory_id, version], label in SEALED_LABELS
        self._is_sealed[memory_id, version + 1] = will
        content, attributes = row[4] or old["content"], row[10] if row[10] is not None else old["attributes"]
        if not (was or will or sealing.looks_sealed(content) or sealing.looks_sealed(attributes)):
            return row
        where = Written(1, 2, 3, 6, {4: "content"}, {5: "attributes"})
        sealed = await self._written(
            tx, where, (tenant, memory_id, version + 1, old["scope_id"], content, attributes, label)
        )
        written = list(row)
        written[4], written[10] = sealed[4], sealed[5]
        return written

    async def _clear(self, tx: Transaction, tenant: UUID, shown: sealing.Shown, row: Any, sealed: list[str]) -> Any:
        clear = dict(row)
        row_id, version = row[shown.row_id], row[shown.version] if shown.version else None
        try:
            for name in sealed:
                key = await self._keys_of(tx).by_id(tenant, key_id_of(sealing.envelope_in(row[name])))
                self.under.setdefault((row_id, version), set()).add(key.key_id)
                clear[name] = sealing.opened_value(key, _bound(tenant, row_id, version, name), row[name])
        except EnvelopeUnreadable as fault:
            event(log, "sealed_row_unreadable", logging.WARNING, row=str(row_id), fault=str(fault))
            self.unreadable.add((row_id, version))
            clear |= dict.fromkeys(shown.texts, "") | {
                name: {} if name == "attributes" else None for name in shown.jsons
            }
            if "visible" in clear:
                clear["visible"] = False
        return clear

    async def _without_sealed_vectors(
        self, tx: Transaction, table: str, rows: list[Sequence[Any]]
    ) -> list[Sequence[Any]]:
        await self._learn(tx, rows[0][0], {(row[2], row[3]) for row in rows})
        closed = [row for row in rows if self._is_sealed.get((row[2], row[3]), False)]
        if not closed:
            return rows
        await tx.run(tx.fitted("may_write_vectors", table))
        for row in closed:
            key = await self.key_of_scope(tx, row[0], row[1])
            await self._put_windows(tx, key, table, [(*row[:7], sealing.binary_of(row[7]))])
        return [row for row in rows if not self._is_sealed.get((row[2], row[3]), False)]

    async def _with_sealed_vectors(
        self, tx: Transaction, table: str, arguments: Sequence[Any], rows: list[Any]
    ) -> list[Any]:
        tenant, ids, versions = arguments
        closed = [pair for pair in zip(ids, versions, strict=True) if self._is_sealed.get(pair, False)]
        if not closed:
            return rows
        asked = [memory_id for memory_id, _ in closed], [version for _, version in closed]
        return [*rows, *await self._open_windows(tx, table, tenant, *asked)]

    async def _open_windows(
        self, tx: Transaction, table: str, tenant: UUID, ids: list[UUID], versions: list[int]
    ) -> list[dict[str, Any]]:
        found = []
        for row in await tx.fetch("sealed_windows_of", tenant, ids, versions, table):
            binding = sealing.of_window(tenant, row["memory_id"], row["version"], table, row["window_no"])
            try:
                key = await self._keys_of(tx).by_id(tenant, key_id_of(row["sealed"]))
                start, end, vector = sealing.unpacked_window(unseal(key, binding, row["sealed"]))
            except EnvelopeUnreadable as fault:
                event(log, "sealed_row_unreadable", logging.WARNING, row=str(row["memory_id"]), fault=str(fault))
                continue
            found.append({**row, "span_start": start, "span_end": end, "vector": vector})
        return found

    async def _carry_vectors(self, tx: Transaction, table: str, tenant: UUID, memory_id: UUID, version: int) -> None:
        await self._learn(tx, tenant, {(memory_id, version), (memory_id, version + 1)})
        was = self._is_sealed.get((memory_id, version), False)
        will = self._is_sealed.get((memory_id, version + 1), False)
        if will:
            await self.seal_vectors(tx, table, tenant, [(memory_id, version + 1)])
        if not was:
            return
        rows = [
            (
                tenant,
                one["scope_id"],
                memory_id,
                version + 1,
                one["window_no"],
                one["span_start"],
                one["span_end"],
                sealing.vector_of(one["vector"]),
            )
            for one in await self._open_windows(tx, table, tenant, [memory_id], [version])
        ]
        if rows:
            await tx.run_many(tx.fitted("add_embedding", table), rows)

    async def _put_windows(self, tx: Transaction, key: DataKey, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Rows as add_embedding takes them, the vector in binary."""
        sealed = []
        for tenant, scope_id, memory_id, version, number, start, end, vector in rows:
            binding = sealing.of_window(tenant, memory_id, version, table, number)
            envelope = seal(key, binding, sealing.packed_window(start, end, vector))
            sealed.append((tenant, memory_id, version, table, number, scope_id, envelope))
        await tx.run_many("add_sealed_window", sealed)

    async def _learn(self, tx: Transaction, tenant: UUID, versions: set[tuple[UUID, int]]) -> None:
        """Ask which versions are sealed, of those that did not pass by in this transaction."""
        unknown = [one for one in versions if one not in self._is_sealed]
        if unknown:
            ids, numbers = [one for one, _ in unknown], [number for _, number in unknown]
            for row in await tx.fetch("versions_by_number", tenant, ids, numbers):
                closed = row["sensitivity"] in SEALED_LABELS
                self._is_sealed[row["memory_id"], row["version"]] = closed

    async def key_of_scope(self, tx: Transaction, tenant: UUID, scope_id: int) -> DataKey:
        """The key that seals the rows of a scope: its user's, else the tenant's."""
        known = self._of_scope.get((tenant, scope_id))
        if known is None:
            subject = await tx.value("subject_of_scope", tenant, scope_id)
            known = await self._keys_of(tx).existing_key(tenant, subject)
            self._of_scope[tenant, scope_id] = known
        return known

    def _keys_of(self, tx: Transaction) -> KeyRing:
        return self._keys.over(KeysOfTransaction(tx))


def _bound(tenant: UUID, row_id: UUID, version: int | None, column: str) -> RowBinding:
    if version is None:
        return sealing.of_turn(tenant, row_id, column)
    return sealing.of_version(tenant, row_id, version, column)
