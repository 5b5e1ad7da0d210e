"""Which embedding model is served: the store's one row in, a Serving out. Read by every process, each second.

Nothing is changed here. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.database import Database
from memory.serving import Serving, StoredModel

SCOPES_AT_ONCE: Final = 1_000


class ServingStore:
    """The row, and the models that have a table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def serving(self) -> Serving | None:
        """What is served; None before the first start has settled it."""
        async with self._database.transaction(None, read_only=True) as tx:
            row = await tx.row("embedding_serving")
        if row is None:
            return None
        model = _model(row["model_id"], row["name"], row["digest"], row["dim"], row["directory"], row["table_name"])
        standby = None
        if row["standby_id"] is not None:
            standby = _model(
                *(row[f"standby_{name}"] for name in ("id", "name", "digest", "dim", "directory", "table"))
            )
        return Serving(row["generation"], model, standby, row["paused"], row["switched_at"], row["stands_back"])

    async def generation(self) -> int | None:
        """Rises with every change that a process must follow."""
        async with self._database.transaction(None, read_only=True) as tx:
            found: int | None = await tx.value("embedding_generation")
        return found

    async def models(self) -> list[StoredModel]:
        """Every model that has a table, the newest first."""
        async with self._database.transaction(None, read_only=True) as tx:
            return [_model(*row) for row in await tx.fetch("stored_models")]

    async def has_vectors(self, model: StoredModel) -> bool:
        """Whether any scope of any tenant has a vector of this model, open or sealed."""
        any_vectors = self._database.queries["any_vectors"].of_table(model.table)
        async for tenant, scope_ids in scope_pages(self._database):
            async with self._database.transaction(tenant, scope_ids, read_only=True) as tx:
                if await tx.value(any_vectors, tenant, scope_ids):
                    return True
                if await tx.value("any_sealed_vectors", tenant, scope_ids, model.table):
                    return True
        return False


async def scope_pages(database: Database) -> AsyncIterator[tuple[UUID, list[int]]]:
    """Every scope of every tenant, at most SCOPES_AT_ONCE of one tenant at a time. Holds nothing between two pages."""
    async with database.transaction(None, read_only=True) as tx:
        tenants: Sequence[UUID] = [row["tenant_id"] for row in await tx.fetch("all_tenants")]
    for tenant in tenants:
        after = -1
        while True:
            async with database.transaction(tenant, read_only=True) as tx:
                found = [row["scope_id"] for row in await tx.fetch("scopes_of_tenant", tenant, after, SCOPES_AT_ONCE)]
            if found:
                yield tenant, found
            if len(found) < SCOPES_AT_ONCE:
                break
            after = found[-1]


def _model(model_id: Any, name: str, digest: str, dim: int, directory: str | None, table: str) -> StoredModel:
    return StoredModel(model_id, name, digest, dim, Path(directory) if directory else None, table)
