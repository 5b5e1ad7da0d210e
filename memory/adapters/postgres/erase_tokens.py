"""Values behind tokens when a part of their person's texts was forgotten: the scopes of that person in, how many values
went out that no text of these scopes holds any more.

The store alone says which: turns, and every version of every memory, what is sealed opened, a page at a time. So a job
that was killed does it again and finds the same. A text that is being stored holds its tokens locked (keep_token): it
is waited for and read as well before anything goes. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.database import Database, Transaction
from memory.write.personal import TOKEN

PAGE_ROWS: Final = 500
_NONE: Final = UUID(int=0)
_BEGIN: Final = datetime(1, 1, 2, tzinfo=UTC)


async def drop_unsaid(database: Database, tenant: UUID, scope_ids: Sequence[int]) -> int:
    """Drop the values behind the tokens of these scopes that stand in none of their texts. How many."""
    async with database.transaction(tenant, scope_ids) as tx:
        tokens = {row["token"] for row in await tx.fetch("tokens_of_scopes", tenant, scope_ids)}
        unsaid = tokens - await _said(tx, tenant, scope_ids, tokens) if tokens else tokens
        if not unsaid:
            return 0
        gone = await tx.fetch("take_tokens", tenant, scope_ids, sorted(unsaid))  # waits for who says one meanwhile
        again = await _said(tx, tenant, scope_ids, unsaid)
        back = [row for row in gone if row["token"] in again]
        members = ("scope_id", "token", "subject_id", "kind", "sealed", "created_at")
        await tx.run_many("keep_token", [(tenant, *(row[name] for name in members)) for row in back])
    return len(gone) - len(back)


async def _said(tx: Transaction, tenant: UUID, scope_ids: Sequence[int], tokens: set[str]) -> set[str]:
    """Those of these tokens that a text of these scopes holds now."""
    left = set(tokens)
    for scope_id in scope_ids:
        for texts_of in (_turns, _versions):
            async for page in texts_of(tx, tenant, scope_id):
                left -= {found[0] for text in page for found in TOKEN.finditer(text)}
                if not left:
                    return tokens
    return tokens - left


async def _turns(tx: Transaction, tenant: UUID, scope_id: int) -> AsyncIterator[list[str]]:
    at: tuple[UUID, int] = (_NONE, -1)
    while True:
        rows = await tx.fetch("turns_with_tokens", tenant, scope_id, *at, PAGE_ROWS)
        yield [_text(row, "name", "content", "tool_calls", "parts") for row in rows if row["content"] is not None]
        if len(rows) < PAGE_ROWS:
            return
        at = (rows[-1]["session_id"], rows[-1]["seq"])


async def _versions(tx: Transaction, tenant: UUID, scope_id: int) -> AsyncIterator[list[str]]:
    at = (_BEGIN, _NONE)
    while True:
        rows = await tx.fetch("versions_with_tokens", tenant, scope_id, *at, PAGE_ROWS)
        yield [_text(row, "content", "attributes") for row in rows if row["content"] is not None]
        if len({row["memory_id"] for row in rows}) < PAGE_ROWS:
            return
        at = (rows[-1]["created_at"], rows[-1]["memory_id"])


def _text(row: Any, *members: str) -> str:
    return " ".join(str(row[name]) for name in members)
