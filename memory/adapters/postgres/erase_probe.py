"""The probe's way through the database: ids and hashed words in, how often they were found by place out. For several
erasures it goes that way once.

Reads every column of text, JSON, bytes and ids of every table that the catalogue knows, in all scopes of the tenant. Of
bytes, what is sealed is told by its key: sealed under a shredded one it counts as a trace, since it should be gone. Not
looked at: the jobs' own tables, and ids in the feed and the audit log, which are kept on purpose. Raises
StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, get_args
from uuid import UUID

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.own_memory import Collection
from memory.adapters.postgres.queries import Query
from memory.documents import ORIGIN
from memory.erasure.shingles import Shingles, spare
from memory.erasure.wanted import Together

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OWN_TABLES: Final = frozenset({"erasures", "erasure_items", "schema_migrations"})
_LOCKED_S: Final = 1.0
_KEPT_BY_HAND: Final = frozenset({ORIGIN, *get_args(Collection)})
"""Origins of what somebody keeps: left over, it is a source of its own."""
_TURN_S: Final = 0.01
"""So long its process does nothing else: a worker has leases to hold, and transactions that are open meanwhile."""
_KEPT: Final = frozenset({"outbox.object_id", "audit_log.ids", "audit_log.detail"})


class DatabaseProbe:
    """Goes through one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def spare_said(
        self, tenant: UUID, scopes: Sequence[int], words: Sequence[Shingles], made: Sequence[Shingles]
    ) -> set[str]:
        """What the turns, files and records that are left say has another source. `made`: words that were made of turns
        ("Ana lives in Bled"), which the same words of another make again: for them memories count as a source too.
        Returns what clients call these turns: an export taken in elsewhere names its turns by their old ids.
        """
        names, every = set[str](), [*words, *made]
        async for _, (content, source_id) in self._rows(tenant, scopes, {"turns": ["content", "source_id"]}):
            spare(content, every)
            names.add(source_id)
        versions = {"memory_versions": ["content", "origin", "attributes"]}
        async for _, (content, origin, attributes) in self._rows(tenant, scopes, versions):
            by_hand = origin in _KEPT_BY_HAND  # somebody's file or task says so, whoever else has
            spare(content, every if by_hand else made)
            if by_hand:
                spare(str(attributes), every)
        async for _, (name,) in self._rows(tenant, scopes, {"documents": ["name"]}):
            spare(name, every)
        return names

    async def run(self, tenant: UUID, scopes: Sequence[int], wanted: Together) -> list[Counter[str]]:
        """Traces of each by column."""
        found = [Counter[str]() for _ in range(len(wanted))]
        tables = await self._tables(tenant)
        async for table, row in self._rows(tenant, scopes, tables):
            for column, value in zip(tables[table], row, strict=True):
                for at, hits in wanted.count(value) if value is not None else ():
                    found[at][f"{table}.{column}"] += hits
        return found

    async def _tables(self, tenant: UUID) -> dict[str, list[str]]:
        """Every table to be looked at, with its columns."""
        tables: dict[str, list[str]] = {}
        async with self._database.transaction(tenant, read_only=True) as tx:
            for row in await tx.fetch("columns_to_probe"):
                table, column = row["table_name"], row["column_name"]
                if table not in _OWN_TABLES and f"{table}.{column}" not in _KEPT:
                    tables.setdefault(table, []).append(column)
        return tables

    async def _rows(
        self, tenant: UUID, scopes: Sequence[int], tables: Mapping[str, Sequence[str]]
    ) -> AsyncIterator[tuple[str, list[Any]]]:
        """Every row that the tenant's scopes show, table by table. Tables share transactions, since most are small and
        their round trips are what they cost; none for much longer than _LOCKED_S: what it has read cannot be migrated
        until it ends. Names come from the catalogue.
        """
        left = deque((table, _reading(table, columns)) for table, columns in tables.items())
        turn_s = time.monotonic()
        while left:
            async with self._database.transaction(tenant, scopes, read_only=True) as tx:
                until_s = time.monotonic() + _LOCKED_S
                while left and time.monotonic() < until_s:
                    table, query = left.popleft()
                    async for row in tx.stream(query):
                        yield table, list(row)
                        if time.monotonic() - turn_s > _TURN_S:
                            await asyncio.sleep(0)
                            turn_s = time.monotonic()


def _reading(table: str, columns: Sequence[str]) -> Query:
    if not all(_NAME.fullmatch(name) for name in (table, *columns)):
        raise ValueError(f"not names of ours: {table} {columns}")
    return Query("probe", f"SELECT {', '.join(columns)} FROM {table}", (), (), tuple(columns))  # noqa: S608
