"""Facts heard in many sessions: some facts in, those with new sessions weighed anew, by policies/reinforcement.py, out.

A version each, once for each session. What a person has edited keeps the importance it has. Runs in the caller's
transaction, which holds the scope. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from memory.adapters.postgres import outbox
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.facts import EmbeddingQueries
from memory.adapters.postgres.rows import Place
from policies.reinforcement import confidence_after, gains, importance_after


async def to_weigh(tx: Transaction, tenant: UUID, memory_ids: Sequence[UUID]) -> list[Any]:
    """Those of these facts that were heard in sessions which count and were not counted."""
    found = await tx.fetch("sessions_of_facts", tenant, memory_ids)
    return [row for row in found if gains(row["sessions"], row["counted"]) > 0]


async def weigh(tx: Transaction, place: Place, memory_ids: Sequence[UUID], embeddings: EmbeddingQueries) -> int:
    """Weigh them; how many."""
    due = await to_weigh(tx, place.tenant, memory_ids)
    if not due:
        return 0
    version: int = await tx.value("bump_scope", place.tenant, place.scope_id)
    for row in due:
        of, new = (place.tenant, row["memory_id"]), gains(row["sessions"], row["counted"])
        importance = row["importance"] if row["edited"] else importance_after(row["importance"], new)
        await tx.run("close_version", *of, place.now)
        weights = (importance, confidence_after(row["confidence"], new))
        await tx.run("weigh_fact", *of, row["version"], place.now, *weights)
        await tx.run("copy_provenance", *of, row["version"], place.now, "consolidate")
        await tx.run(embeddings.copy, *of, row["version"])
        await tx.run("point_memory", *of, row["version"] + 1, version)
        await tx.run("count_sessions", *of, row["sessions"])
    told: Mapping[UUID, outbox.Labels] = {row["memory_id"]: {"sessions": row["sessions"]} for row in due}
    await outbox.announce_events(tx, place, "updated", told, metadata=told)
    return len(due)
