"""Blocks of memory in conversations, when a memory that they quote goes for good: its words go out of them as well.

The ledger says of such a block that it was withdrawn, as the law would find at the next request of that conversation,
which may never come. Copies that the same deletion takes along count too. In the caller's transaction, before the
memories are gone. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.ids import minted_ms

T = TypeVar("T")
SCOPES_AT_ONCE: Final = 500
SESSIONS_AT_ONCE: Final = 50
"""What was given to 200 of 20 requests each took a statement .6 to 3.8 s beside other work: a request's has five."""
CLOCKS_APART_MAX: Final = timedelta(days=1)
"""A memory was placed behind its birth; a request has its time from another machine than a memory."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def withdraw_blocks(
    tx: Transaction, tenant: UUID, scope_id: int, memory_ids: Sequence[UUID], now: datetime
) -> int:
    """Empty every block that quotes one of these memories of a scope. How many. The transaction sees that scope, and
    behind this no other.
    """
    known, seen = await _with_copies(tx, tenant, scope_id, memory_ids)
    since = await placed_since(tx, tenant, known)
    quoted, gone = [str(one) for one in known], 0
    readers = [row["scope_id"] for row in await tx.fetch("scopes_that_see", tenant, seen)]
    for scopes in some_of(readers, SCOPES_AT_ONCE) if since is not None else ():
        await tx.see(tenant, scopes)
        sessions = [row["session_id"] for row in await tx.fetch("sessions_since", tenant, scopes, since)]
        for some in some_of(sessions, SESSIONS_AT_ONCE):
            gone += await tx.run("withdraw_quotes", tenant, some, quoted, since, now)
    await tx.see(tenant, [scope_id])
    return gone


async def placed_since(tx: Transaction, tenant: UUID, memory_ids: Sequence[UUID]) -> datetime | None:
    """No request before this moment can have been given one of these memories; None where none of them is there. An id
    that was made anew, behind what had it before, bears the time of the first.
    """
    born: datetime | None = await tx.value("first_born", tenant, memory_ids)
    if born is None:
        return None
    first_ms = min(born.timestamp() * 1000, minted_ms(min(memory_ids)))
    return _EPOCH + timedelta(milliseconds=first_ms) - CLOCKS_APART_MAX


async def _with_copies(
    tx: Transaction, tenant: UUID, scope_id: int, memory_ids: Sequence[UUID]
) -> tuple[list[UUID], list[int]]:
    """These memories and their copies, from copy to copy, and the scopes of all of them, which are seen from now on."""
    known, seen, more = dict.fromkeys(memory_ids), {scope_id}, list(memory_ids)
    while more:
        found = [row for row in await tx.fetch("copies_of", tenant, more) if row["copy_id"] not in known]
        more = [row["copy_id"] for row in found]
        known |= dict.fromkeys(more)
        seen |= {row["scope_id"] for row in found}
        await tx.see(tenant, seen)
    return list(known), sorted(seen)


def some_of(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """These values, so many at a time."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
