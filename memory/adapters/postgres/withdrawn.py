"""Memories whose words are not to be told any more in, the rolling summaries that hold some of them hidden out.

A summary lends its words to prompts, searches and lists like any memory, and carries them into its next version. It is
hidden in the transaction that hides, rejects or holds back what it was made of (fails closed), and made anew of the
turns that may be told with the conversation's next exchange or in the night, whichever comes first. Behind bump_scope,
the order of locks. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.outbox import announce


async def withdraw_summaries(
    tx: Transaction, tenant: UUID, scope_id: int, memory_ids: Sequence[UUID], *, at: datetime, changed_version: int
) -> None:
    """Hide the summaries that hold words of the turns that these memories were made of."""
    if not memory_ids:
        return
    found = await tx.fetch("withdraw_summaries", tenant, list(memory_ids), at, changed_version)
    await announce(tx, tenant, scope_id, "deleted", [row["memory_id"] for row in found], by="source", at=at)
