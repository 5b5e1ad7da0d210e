"""What persons have set of memories by hand: read for an export, and the same memories found again for an import.

Everything acts inside one scope and changes nothing. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from memory.adapters.postgres.cursors import cursor_of, read_cursor
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.read_store import sources_of
from memory.adapters.postgres.scopes import Scopes
from memory.edits import Counterpart, Edited, Hidden, Version, edited, first_learnt, learnt
from memory.model import Scope
from memory.stored import MemoryRecord, Page
from policies.text import storable


class EditStore:
    """The edits of memories."""

    def __init__(self, database: Database, scopes: Scopes) -> None:
        self._database = database
        self._scopes = scopes

    async def of(self, scope: Scope, records: Sequence[MemoryRecord]) -> dict[UUID, Edited]:
        """What was set of these memories, by id; one of which nothing was is not there."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return {}
        kinds = {record.memory_id: record.kind for record in records}
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("memories_edited", scope.tenant, list(kinds))
            versions = await _versions(tx, scope.tenant, [row["memory_id"] for row in found])
        made = {memory_id: edited(kinds[memory_id], several) for memory_id, several in versions.items()}
        return {memory_id: one for memory_id, one in made.items() if one is not None}

    async def hidden(self, scope: Scope, *, limit: int, cursor: str | None, now: datetime) -> Page[Hidden]:
        """Memories made of turns that a person has hidden, or set an end to that is over, by when they were made."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return Page((), None)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            at = read_cursor(cursor, "asc")
            found = await tx.fetch("memories_hidden", scope.tenant, scope_id, *at, limit + 1, now)
            rows = found[:limit]
            ids = [row["memory_id"] for row in rows]
            versions = await _versions(tx, scope.tenant, ids)
            sources = await sources_of(tx, scope.tenant, ids)
        page = tuple(_hidden(row, versions[row["memory_id"]], sources.get(row["memory_id"], ())) for row in rows)
        last = rows[-1] if len(found) > limit else None
        return Page(page, cursor_of(last["created_at"], last["memory_id"]) if last else None)

    async def counterparts(
        self,
        scope: Scope,
        kind: str,
        source_ids: Sequence[str],
        event_ids: Sequence[UUID],
        memory_ids: Sequence[UUID],
    ) -> list[Counterpart]:
        """The memories of a kind that rest on these turns, by what lines call them or their ids, or have these ids."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return []
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            named = ([storable(one) for one in source_ids], list(event_ids), list(memory_ids))
            found = await tx.fetch("memories_of_same", scope.tenant, scope_id, *named, kind)
            versions = await _versions(tx, scope.tenant, [row["memory_id"] for row in found])
        return [
            Counterpart(
                row["memory_id"],
                row["hidden"],
                row["edited"],
                {learnt(one.content, one.attributes) for one in versions[row["memory_id"]]},
            )
            for row in found
        ]


async def _versions(tx: Transaction, tenant: UUID, ids: Sequence[UUID]) -> dict[UUID, list[Version]]:
    """Every version of these memories, oldest first."""
    rows = await tx.fetch("versions_by_hand", tenant, ids) if ids else []
    names = [one.name for one in fields(Version)]
    return {
        memory_id: [Version(**{name: row[name] for name in names}) for row in several]
        for memory_id, several in groupby(rows, key=itemgetter("memory_id"))
    }


def _hidden(row: Any, versions: Sequence[Version], sources: Sequence[Any]) -> Hidden:
    return Hidden(
        row["memory_id"],
        row["kind"],
        row["sensitivity"],
        row["session_id"],
        row["at"],
        first_learnt(versions),
        tuple(one["source_id"] or str(one["event_id"]) for one in sources),
        tuple(one["event_id"] for one in sources),
    )
