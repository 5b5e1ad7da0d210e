"""The probe's way through the database: ids and hashed words in, how often they were found by place out.

Reads every column of text, JSON, bytes and ids of every table that the catalogue knows, in all scopes of the tenant. Of
bytes, what is sealed is told by its key: sealed under a shredded one it counts as a trace, since it should be gone. Not
looked at: the jobs' own tables, and ids in the feed and the audit log, which are kept on purpose. Raises
StoreUnavailable.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.queries import Query
from memory.documents import ORIGIN
from memory.erasure.shingles import Shingles
from memory.erasure.wanted import Wanted

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OWN_TABLES: Final = frozenset({"erasures", "erasure_items", "schema_migrations"})
_KEPT: Final = frozenset({"outbox.object_id", "audit_log.ids", "audit_log.detail"})


class DatabaseProbe:
    """Goes through one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def spare_said(self, tenant: UUID, scopes: Sequence[int], words: Shingles, made: Shingles) -> set[str]:
        """What the turns that are left say has another source. `made`: words that were made of turns ("Ana lives in
        Bled"), which the same words of another make again: for them memories count as a source too.
        Returns what clients call these turns: an export taken in elsewhere names its turns by their old ids.
        """
        names: set[str] = set()
        async for row in self._rows(tenant, scopes, "turns", ["content", "source_id"]):
            words.said(row[0])
            made.said(row[0])
            names.add(row[1])
        async for content, origin, attributes in self._rows(
            tenant, scopes, "memory_versions", ["content", "origin", "attributes"]
        ):
            made.said(content)
            if origin == ORIGIN:  # somebody's file says so, whoever else has
                words.said(content)
                words.said(str(attributes))
                made.said(str(attributes))
        async for (name,) in self._rows(tenant, scopes, "documents", ["name"]):
            words.said(name)
            made.said(name)
        return names

    async def run(self, tenant: UUID, scopes: Sequence[int], wanted: Wanted) -> Counter[str]:
        """Traces by column."""
        found: Counter[str] = Counter()
        for table, columns in (await self._columns(tenant)).items():
            async for row in self._rows(tenant, scopes, table, columns):
                for column, value in zip(columns, row, strict=True):
                    if value is not None and (hits := wanted.count(value)):
                        found[f"{table}.{column}"] += hits
        return found

    async def _columns(self, tenant: UUID) -> dict[str, list[str]]:
        tables: dict[str, list[str]] = {}
        async with self._database.transaction(tenant, read_only=True) as tx:
            for row in await tx.fetch("columns_to_probe"):
                table, column = row["table_name"], row["column_name"]
                if table not in _OWN_TABLES and f"{table}.{column}" not in _KEPT:
                    tables.setdefault(table, []).append(column)
        return tables

    async def _rows(
        self, tenant: UUID, scopes: Sequence[int], table: str, columns: Sequence[str]
    ) -> AsyncIterator[list[Any]]:
        """The columns of every row that the tenant's scopes show. Names come from the catalogue."""
        if not all(_NAME.fullmatch(name) for name in (table, *columns)):
            raise ValueError(f"not names of ours: {table} {columns}")
        query = Query("probe", f"SELECT {', '.join(columns)} FROM {table}", (), (), tuple(columns))  # noqa: S608
        async with self._database.transaction(tenant, scopes, read_only=True) as tx:
            async for row in tx.stream(query):
                yield list(row)
