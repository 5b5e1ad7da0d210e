"""Memories as hygiene judges them: a tenant and a scope in, pages of what is kept with what it was made of out.

Reads by key in pages of bounded rows and characters, each in a transaction of its own, and only under the roles and
scopes of every other reader. Writes nothing. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.blocks import some_of
from memory.adapters.postgres.database import Database, Transaction
from policies.hygiene import Evidence, Kept, Stated

JOB: Final = "hygiene"
PAGE_MEMORIES: Final = 200
FEW_MEMORIES: Final = 10
"""Of a scope that holds fewer all are read together with those of others, as most are of many thousands."""
# A page is 3 MB at most. What is junk or twice there shows in the beginning; of a longer text a secret's place may be
# behind it: the write path has read all of it.
TEXT_CHARS_MAX: Final = 16_000
PLACED_CHARS_MAX: Final = 4_000
EVIDENCE_MAX: Final = 32
RIVALS_MAX: Final = 20
_SCOPES_PAGE: Final = 500
_BEGIN: Final = (datetime(1, 1, 2, tzinfo=UTC), UUID(int=0))


@dataclass(frozen=True, slots=True)
class Found:
    """A memory and where it is."""

    tenant: UUID
    scope_id: int
    memory_id: UUID
    kept: Kept


class HygieneStore:
    """The store, read for its hygiene."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pages(
        self, *, user: str | None = None, project: str | None = None, page: int = PAGE_MEMORIES
    ) -> AsyncIterator[list[Found]]:
        """Every memory of every tenant by scope, oldest first; of one user or one project where these are named."""
        async with self._database.transaction(None, read_only=True) as tx:
            tenants = [row["tenant_id"] for row in await tx.fetch("all_tenants")]
        few = min(FEW_MEMORIES, page)
        for tenant in tenants:
            async for scope_ids in self._scopes(tenant, user, project, page // few):
                gathered: list[Found] = []
                held = await self._page(tenant, scope_ids, _BEGIN, few)
                for scope_id in scope_ids:
                    gathered += held[scope_id]
                    if len(held[scope_id]) < few:
                        continue
                    yield gathered
                    gathered = []
                    async for found in self._rest(tenant, scope_id, held[scope_id][-1], page):
                        yield found
                if gathered:
                    yield gathered

    async def _rest(self, tenant: UUID, scope_id: int, last: Found, limit: int) -> AsyncIterator[list[Found]]:
        """The memories of a scope behind one of them, in pages."""
        while True:
            at = (last.kept.created_at, last.memory_id)
            found = (await self._page(tenant, [scope_id], at, limit))[scope_id]
            if found:
                yield found
                last = found[-1]
            if len(found) < limit:
                return

    async def _scopes(
        self, tenant: UUID, user: str | None, project: str | None, at_once: int
    ) -> AsyncIterator[Sequence[int]]:
        after = -1
        while True:
            async with self._database.transaction(tenant, read_only=True) as tx:
                rows = await tx.fetch("hygiene_scopes", tenant, after, _SCOPES_PAGE, user, project)
            for some in some_of([row["scope_id"] for row in rows], at_once):
                yield some
            if len(rows) < _SCOPES_PAGE:
                return
            after = rows[-1]["scope_id"]

    async def _page(
        self, tenant: UUID, scope_ids: Sequence[int], at: tuple[datetime, UUID], limit: int
    ) -> dict[int, list[Found]]:
        """Of each of these scopes the next memories, at most `limit`."""
        async with self._database.transaction(tenant, scope_ids, read_only=True, generic=True) as tx:
            rows = await tx.fetch("hygiene_memories", tenant, scope_ids, *at, limit, TEXT_CHARS_MAX)
            evidence = await _evidence(tx, tenant, [row["memory_id"] for row in rows])
            semantic = [row["memory_id"] for row in rows if row["kind"] == "semantic"]
            stated = {row["memory_id"]: _stated(row) for row in await _of(tx, "hygiene_facts", tenant, semantic)}
            rivals: dict[UUID, list[Stated]] = {}
            for row in await _of(tx, "hygiene_rivals", tenant, list(stated), RIVALS_MAX):
                rivals.setdefault(row["memory_id"], []).append(_stated(row))
        found: dict[int, list[Found]] = {scope_id: [] for scope_id in scope_ids}
        for row in sorted(rows, key=lambda row: (row["created_at"], row["memory_id"])):
            memory_id = row["memory_id"]
            kept = Kept(
                kind=row["kind"],
                content=row["content"],
                created_at=row["created_at"],
                injected=row["injected"],
                shown=row["shown"],
                evidence=tuple(evidence.get(memory_id, ())),
                stated=stated.get(memory_id),
                rivals=tuple(rivals.get(memory_id, ())),
            )
            found[row["scope_id"]].append(Found(tenant, row["scope_id"], memory_id, kept))
        return found


async def _of(tx: Transaction, name: str, tenant: UUID, ids: Sequence[UUID], *more: Any) -> list[Any]:
    return await tx.fetch(name, tenant, ids, *more) if ids else []


async def _evidence(tx: Transaction, tenant: UUID, ids: Sequence[UUID]) -> dict[UUID, list[Evidence]]:
    """What these memories were made of; for an assistant's words with what had been placed before it."""
    rows = await _of(tx, "hygiene_evidence", tenant, ids, EVIDENCE_MAX)
    answers = list({row["source_id"] for row in rows if row["role"] == "assistant"})
    placed: dict[UUID, list[str]] = {}
    for row in await _of(tx, "hygiene_placed", tenant, answers, PLACED_CHARS_MAX):
        placed.setdefault(row["event_id"], []).append(row["content"])
    found: dict[UUID, list[Evidence]] = {}
    for row in rows:
        start, end = row["span_start"], row["span_end"]
        one = Evidence(
            source=row["source_kind"],
            role=row["role"],
            name=row["name"],
            span=None if start is None or end is None else (start, end),
            chars=row["chars"] or 0,
            words=row["words"] or "",
            in_block=row["in_block"],
            placed=tuple(placed.get(row["source_id"], ())),
        )
        found.setdefault(row["memory_id"], []).append(one)
    return found


def _stated(row: Any) -> Stated:
    return Stated(
        subject=row["subject"],
        predicate=row["predicate"],
        object=row["object"],
        negated=row["negated"],
        state=row["state"],
        exclusive=row["exclusive"],
        aspect=row["aspect"],
        unit=row["unit"],
    )
