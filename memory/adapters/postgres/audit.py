"""The audit log in Postgres: notes in, rows of each tenant's chain out; pages of it, and old rows gone.

The head's row is locked while a chain goes on, so several processes make one chain (docs/decisions/0022). The served
role may add and read rows, never change them; old ones leave only behind an anchor row that carries their last digest.
Raises StoreUnavailable, MemoryInvalid for a cursor that is none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from datetime import datetime
from typing import Any, Final, Protocol
from uuid import UUID

from memory.adapters.postgres.database import Database, Transaction
from memory.audit import ANCHOR, BEGINNING, AuditFilter, AuditRow, Head, Note, noted, row_of
from memory.errors import MemoryInvalid, StoreUnavailable
from memory.stored import Page

LOOKED_FOR_S: Final = (0, 0.5, 1, 2, 4, 8)
"""How long it is waited each time before rows whose commit was not heard are looked for."""
LOOKED_AT_ONCE: Final = 50_000
"""Rows of the log that one statement looks through: .1 s, and no more is lost where it is cancelled."""
LOOKS_S: Final = 5.0
"""How long one page looks: a log of years has tens of millions of rows, and a statement has ten seconds."""
_PAGE_ROWS: Final = 1_000
# A statement that is ended by its bound has dropped none.
_DROPPED_AT_ONCE: Final = 50_000
_LAST: Final = 2**63 - 1


class Witness(Protocol):
    """Writes what was noted, in the transaction of the act itself."""

    async def __call__(self, tx: Transaction, /, *of: UUID) -> None:
        """Of what it is besides, where only the act tells."""


async def unseen(_tx: Transaction, *_: UUID) -> None:
    """The witness of what nobody notes."""


class AuditLog:
    """The chains of all tenants. `key_of` gives the key of a tenant's chain; may raise StoreUnavailable."""

    def __init__(self, database: Database, key_of: Callable[[UUID], Awaitable[bytes]]) -> None:
        self._database = database
        self._key_of = key_of

    async def record(self, notes: Sequence[Note]) -> None:
        """Make these notes, all of one tenant, the next rows of its chain, in one transaction. One whose end was not
        heard, since its connection died, is looked for: it may be kept, and whoever is told otherwise writes it twice.
        """
        if not notes:
            return
        tenant, written = notes[0].tenant, None
        key = await self._key_of(tenant)
        try:
            async with self._database.transaction(tenant) as tx:
                written = await append(tx, key, notes)
        except StoreUnavailable:
            if written is None or not await self._is_kept(tenant, written):
                raise

    async def witness(self, *notes: Note) -> Witness:
        """What writes the notes, one or some of one tenant, in the transaction of the act itself; call it last, since
        it locks the chain's head.
        """
        key = await self._key_of(notes[0].tenant)

        async def write(tx: Transaction, *of: UUID) -> None:
            await append(tx, key, [replace(one, ids=(*map(str, of), *one.ids)) for one in notes])

        return write

    async def _is_kept(self, tenant: UUID, last: Head) -> bool:
        """Whether the chain has this row, asked again for some seconds. A commit under way is waited for: it holds the
        chain's head.
        """
        for wait_s in LOOKED_FOR_S:
            await asyncio.sleep(wait_s)
            with suppress(StoreUnavailable):
                async with self._database.transaction(tenant) as tx:
                    await _locked_head(tx, tenant)
                    found = await tx.row("audit_oldest", tenant, last.seq - 1, last.seq, 1, *astuple(AuditFilter()))
                    return found is not None and (found["seq"], found["digest"]) == (last.seq, last.digest)
        return False

    async def page(
        self, tenant: UUID, *, limit: int, cursor: str | None = None, oldest_first: bool = False, where: AuditFilter
    ) -> Page[AuditRow]:
        """Rows of the tenant's log; the cursor is the number of the last one that was looked at. A page may have fewer
        than `limit`, even none, and go on: where few rows pass, not all of a log of years is looked through for one.
        """
        at = _number(cursor, 0 if oldest_first else _LAST)
        name = "audit_oldest" if oldest_first else "audit_newest"
        found: list[Any] = []
        async with self._database.transaction(tenant, read_only=True) as tx:
            until_s = time.monotonic() + LOOKS_S
            (ends,) = await tx.fetch("audit_ends", tenant)
            if ends["first"] is None:
                return Page((), None)
            upto = end = ends["last"] if oldest_first else ends["first"]
            for begin, upto in _looks(ends["first"], ends["last"], at, oldest_first):
                found += await tx.fetch(name, tenant, begin, upto, limit + 1 - len(found), *astuple(where))
                if len(found) > limit or time.monotonic() > until_s:
                    break
        rows = tuple(map(_row, found[:limit]))
        if len(found) > limit:
            return Page(rows, str(rows[-1].seq))
        return Page(rows, None if upto == end else str(upto))

    async def chain(self, tenant: UUID) -> AsyncIterator[Sequence[AuditRow]]:
        """Every row of the tenant, oldest first, in pages."""
        cursor: str | None = None
        while True:
            page = await self.page(tenant, limit=_PAGE_ROWS, cursor=cursor, oldest_first=True, where=AuditFilter())
            yield page.rows
            if (cursor := page.next_cursor) is None:
                return

    async def head(self, tenant: UUID) -> Head | None:
        """Where the tenant's chain is said to end; None for a tenant of which nothing was noted."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            row = await tx.row("audit_head", tenant)
        return None if row is None else Head(row["seq"], row["digest"])

    async def tenants(self) -> list[tuple[UUID, str]]:
        """Every tenant with its name."""
        async with self._database.transaction(None, read_only=True) as tx:
            found = await tx.fetch("all_tenants")
        return [(UUID(int=row["tenant_id"].int), row["name"]) for row in found]

    async def drop_before(self, tenant: UUID, before: datetime, now: datetime) -> int:
        """Drop the rows at the beginning of the chain that are older than `before`, some at a time, each time behind an
        anchor row; how many.
        """
        key = await self._key_of(tenant)
        dropped = 0
        while gone := await self._drop_some(tenant, key, before, now):
            dropped += gone
        return dropped

    async def _drop_some(self, tenant: UUID, key: bytes, before: datetime, now: datetime) -> int:
        async with self._database.transaction(tenant) as tx:
            await _locked_head(tx, tenant)
            last = await tx.row("audit_rows_past", tenant, before, _DROPPED_AT_ONCE)
            if last is None:
                return 0
            said = {"through": last["seq"], "digest": last["digest"].hex()}
            await append(tx, key, [noted(tenant, "retention", ANCHOR, why="audit.retention_days", detail=said, at=now)])
            return int(await tx.value("drop_audited", last["seq"]))


async def append(tx: Transaction, key: bytes, notes: Sequence[Note]) -> Head:
    """The notes, all of one tenant, as the next rows of its chain, which ends with the head that is returned; the one
    in the store stays locked to the end.
    """
    tenant = notes[0].tenant
    head = await _locked_head(tx, tenant)
    rows = []
    for note in notes:
        row = row_of(key, note, head)
        head = Head(row.seq, row.digest)
        rows.append(row)
    await tx.run_many("add_audit_row", ((tenant, *_values(row)) for row in rows))
    await tx.run("move_audit_head", tenant, head.seq, head.digest)
    return head


async def _locked_head(tx: Transaction, tenant: UUID) -> Head:
    found = await tx.row("lock_audit_head", tenant)
    if found is None:
        await tx.run("add_audit_head", tenant, BEGINNING)
        found = await tx.row("lock_audit_head", tenant)
    if found is None:
        raise StoreUnavailable("the head of an audit chain was stored and is not there")
    return Head(found["seq"], found["digest"])


def _values(row: AuditRow) -> tuple[Any, ...]:
    return (
        row.seq,
        row.at,
        row.actor,
        row.action,
        row.decision,
        row.why,
        list(row.ids),
        dict(row.detail),
        row.prior,
        row.digest,
    )


def _row(found: Any) -> AuditRow:
    return AuditRow(**{**dict(found), "ids": tuple(found["ids"])})


def _looks(first: int, last: int, at: int, oldest_first: bool) -> Iterator[tuple[int, int]]:
    """From where to where one statement after another looks, behind `at`: each begins where the one before it ended."""
    if oldest_first:
        for begin in range(max(at, first - 1), last, LOOKED_AT_ONCE):
            yield begin, min(begin + LOOKED_AT_ONCE, last)
    else:
        for begin in range(min(at, last + 1), first, -LOOKED_AT_ONCE):
            yield begin, max(begin - LOOKED_AT_ONCE, first)


def _number(cursor: str | None, default: int) -> int:
    if cursor is None:
        return default
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise MemoryInvalid("this cursor is not of the audit log; begin without one", param="cursor")
    return int(cursor)
