"""One act on what a scope holds: a scope and what notes the act in, a transaction and the scope's version out.

Writers of a scope wait for one another on its version. What is noted is written with the act or not at all, and last,
since it locks the head of the tenant's chain. Raises StoreUnavailable, and what the act itself raises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from memory.adapters.postgres.audit import Witness
from memory.adapters.postgres.database import Database, Transaction


@asynccontextmanager
async def acting(
    database: Database, tenant: UUID, scope_id: int, witness: Witness, *, seen: Sequence[int] = ()
) -> AsyncIterator[tuple[Transaction, int]]:
    """The transaction of an act on a scope, and the version that the scope has with it; `seen`: the scopes that it
    reads, where these are more.
    """
    async with database.transaction(tenant, seen or [scope_id]) as tx:
        yield tx, await tx.value("bump_scope", tenant, scope_id)
        await witness(tx)
