"""Where canaries are kept: a tenant's text in, a memory in a scope that no identity sees out. Raises StoreUnavailable.

The memory is as real as any, vectors included, so that whatever fault shows one tenant another's memories can show it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.adapters.postgres.database import Database
from memory.errors import StoreUnavailable
from memory.ids import new_id

CANARY: Final = "canary"


class CanaryStore:
    """Canaries of all tenants. `embeddings` is the table of the served model's vectors."""

    def __init__(self, database: Database, embeddings: str, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)
        self._clock = clock

    async def tenants(self) -> list[tuple[UUID, str]]:
        """Every tenant with its name."""
        async with self._database.transaction(None, read_only=True) as tx:
            found = await tx.fetch("all_tenants")
        return [(UUID(int=row["tenant_id"].int), row["name"]) for row in found]

    async def planted(self, tenant: UUID) -> str | None:
        """The text of the tenant's canary, None where there is none."""
        async with self._database.transaction(tenant) as tx:
            scope_id = await tx.value("find_common_scope", tenant, CANARY, "")
            if scope_id is None:
                return None
            await tx.see(tenant, [scope_id])
            text: str | None = await tx.value("canary_of", tenant, scope_id)
        return text

    async def plant(self, tenant: UUID, text: str, vectors: NDArray[np.float32]) -> None:
        """Make this the tenant's one canary."""
        memory_id, now = new_id(), self._clock()
        async with self._database.transaction(tenant) as tx:
            await tx.run("add_common_scope", tenant, CANARY, "")
            scope_id = await tx.value("find_common_scope", tenant, CANARY, "")
            if scope_id is None:
                raise StoreUnavailable("a scope was stored and is not there")
            await tx.see(tenant, [scope_id])
            changed = await tx.value("bump_scope", tenant, scope_id)  # its lock keeps two planters apart
            if await tx.value("canary_of", tenant, scope_id) == text:
                return
            await tx.run("drop_canaries", tenant, scope_id)
            key = hashlib.sha256(b"canary\x00" + text.encode()).digest()
            await tx.run("add_memory", tenant, memory_id, scope_id, "document", key, None, None, changed, now, None)
            labels: tuple[Any, ...] = ("document", "admin", "internal", CANARY, 0.5, 1.0, {})
            rest = (None, now, None, None, None, None, "unreviewed", None, None)
            await tx.run("add_version", tenant, memory_id, 1, scope_id, text, *labels, *rest)
            rows = ((tenant, scope_id, memory_id, 1, n, 0, len(text), vector) for n, vector in enumerate(vectors))
            await tx.run_many(self._add_embedding, rows)
