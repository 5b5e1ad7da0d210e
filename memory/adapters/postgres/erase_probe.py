"""The probe's way through the database: ids and hashed words in, how often they were found by place out. For several
erasures it goes that way once.

Reads every column of text, JSON, bytes and ids of every table that the catalogue knows, in all scopes of the tenant. Of
bytes, what is sealed is told by its key: sealed under a shredded one it counts as a trace, since it should be gone. Not
looked at: the jobs' own tables, and ids in the feed and the audit log, which are kept on purpose. The server reads each
value too and keeps back what can be no trace: ids that are not looked for, and what is one word. No index says so.
Raises StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args
from uuid import UUID

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.own_memory import Collection
from memory.adapters.postgres.queries import Query
from memory.documents import ORIGIN
from memory.erasure.wanted import Together, strings_in

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OWN_TABLES: Final = frozenset({"erasures", "erasure_items", "schema_migrations"})
_LOCKED_S: Final = 1.0
_KEPT_BY_HAND: Final = frozenset({ORIGIN, *get_args(Collection)})
"""Origins of what somebody keeps: left over, it is a source of its own."""
_TURN_S: Final = 0.01
"""So long its process does nothing else: a worker has leases to hold, and transactions that are open meanwhile."""
_KEPT: Final = frozenset({"outbox.object_id", "audit_log.ids", "audit_log.detail"})
_TEXTS: Final = frozenset({"turns.content", "memory_versions.content"})
IDS_ASKED_MAX: Final = 10_000
"""Of more, which the server would make a table of for each column, all ids are read."""
_JSON: Final = frozenset({"json", "jsonb"})
_THERE: Final = "{0} IS NOT NULL"
_SAYS_MORE: Final = "(octet_length({0}) >= 32 OR {0} COLLATE \"C\" ~ '[^0-9A-Za-z]')"
"""Than one word of ASCII; in 32 letters an id may stand. `internal` does not, a content does."""
_MAY_HOLD: Final = {
    "text": _SAYS_MORE,
    "jsonb": "{0} NOT IN ('{{}}', '[]')",
    "text[]": "cardinality({0}) > 0",
}
_SHARE_SHOWN: Final = 0.01
_IS_ASKED: Final = {"uuid": "{0} = ANY ($1)"}


class Column(NamedTuple):
    """A column that the probe looks at, and its type."""

    name: str
    kind: str


class Reading(NamedTuple):
    """What is read, and who looks at each row of it."""

    query: Query
    arguments: tuple[Any, ...]
    look: Callable[[Any], None]


class DatabaseProbe:
    """Goes through one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def called(self, tenant: UUID, scopes: Sequence[int], ids: Sequence[UUID]) -> set[str]:
        """Those of these ids that clients call turns by, which are left: an export taken in elsewhere names its turns
        by their old ids.
        """
        wanted, names = {str(one) for one in ids}, set[str]()
        asked = ([*wanted],) if len(wanted) <= IDS_ASKED_MAX else ()
        query = _reading("turns", {"source_id": "source_id = ANY ($1)" if asked else _THERE})
        await self._read(tenant, scopes, [Reading(query, asked, lambda row: names.add(row[0]))])
        return names & wanted

    async def run(self, tenant: UUID, scopes: Sequence[int], wanted: Together) -> list[Counter[str]]:
        """Traces of each by column."""
        found = [Counter[str]() for _ in range(len(wanted))]
        readings, ids = _texts(wanted, found), wanted.ids
        for table, columns in (await self._tables(tenant)).items():
            query = _looking(table, columns, asks_ids=len(ids) <= IDS_ASKED_MAX)
            readings.append(Reading(query, (ids,) if query.types else (), _looks(table, columns, wanted, found)))
        await self._read(tenant, scopes, readings)
        return found

    async def _tables(self, tenant: UUID) -> dict[str, list[Column]]:
        """Every table to be looked at, with its columns; without those whose texts are read first."""
        tables: dict[str, list[Column]] = {}
        async with self._database.transaction(tenant, read_only=True) as tx:
            for row in await tx.fetch("columns_to_probe"):
                table, column = row["table_name"], row["column_name"]
                if table not in _OWN_TABLES and f"{table}.{column}" not in _KEPT | _TEXTS:
                    tables.setdefault(table, []).append(Column(column, row["type_name"]))
        return tables

    async def _read(self, tenant: UUID, scopes: Sequence[int], readings: Sequence[Reading]) -> None:
        """Every row that the tenant's scopes show, one reading behind the other. They share transactions, since most
        are small and their round trips are what they cost; none for much longer than _LOCKED_S: what it has read cannot
        be migrated until it ends.
        """
        left = deque(readings)
        turn_s = time.monotonic()
        while left:
            async with self._database.transaction(tenant, scopes, read_only=True) as tx:
                await tx.run("plan_each_time")
                until_s = time.monotonic() + _LOCKED_S
                while left and time.monotonic() < until_s:
                    query, arguments, look = left.popleft()
                    async for page in tx.pages(query, *arguments):
                        for row in page:
                            look(row)
                            if time.monotonic() - turn_s > _TURN_S:
                                await asyncio.sleep(0)
                                turn_s = time.monotonic()


def _texts(wanted: Together, found: Sequence[Counter[str]]) -> list[Reading]:
    """What the turns, files and records that are left say has another source; behind them what memories say, which is
    read against the rest. `made`: words that were made of turns ("Ana lives in Bled"), which the same words of another
    make again: for them memories count as a source too.
    """

    def turn(content: str) -> None:
        _add(found, "turns.content", wanted.in_source(content))

    def by_hand(content: str, attributes: Any) -> None:  # somebody's file or task says so, whoever else has
        _add(found, "memory_versions.content", wanted.in_source(content))
        wanted.spare(str(attributes))

    def memory(content: str) -> None:
        _add(found, "memory_versions.content", wanted.in_memory(content))

    kept, keeps, lives = (sorted(_KEPT_BY_HAND),), "origin = ANY ($1)", "(origin = ANY ($1)) IS NOT TRUE"
    return [
        Reading(_reading("turns", {"content": _THERE}), (), _of_those_there(turn)),
        Reading(_reading("memory_versions", {"content": keeps, "attributes": keeps}), kept, _of_those_there(by_hand)),
        Reading(_reading("documents", {"name": _THERE}), (), _of_those_there(wanted.spare)),
        Reading(_reading("memory_versions", {"content": lives}), kept, _of_those_there(memory)),
    ]


def _of_those_there(look: Callable[..., None]) -> Callable[[Any], None]:
    return lambda row: None if row[0] is None else look(*row)


def _looks(
    table: str, columns: Sequence[Column], wanted: Together, found: Sequence[Counter[str]]
) -> Callable[[Any], None]:
    places = [(f"{table}.{column.name}", column.kind in _JSON) for column in columns]

    def look(row: Any) -> None:
        for (place, is_json), value in zip(places, row, strict=True):
            if value is not None:
                _add(found, place, wanted.count(strings_in(value) if is_json else value))

    return look


def _add(found: Sequence[Counter[str]], place: str, hits: Sequence[tuple[int, int]]) -> None:
    for at, number in hits:
        found[at][place] += number


def _looking(table: str, columns: Sequence[Column], *, asks_ids: bool) -> Query:
    """What of a table may be a trace."""
    conditions = {**_MAY_HOLD, **(_IS_ASKED if asks_ids else {})}
    written = [name for name, kind in columns if kind in _JSON]
    return _reading(table, {name: conditions.get(kind, _THERE) for name, kind in columns}, written)


def _reading(table: str, columns: Mapping[str, str], written: Sequence[str] = ()) -> Query:
    """Values of these columns where these conditions hold, of rows that have any; and some rows more, without any of
    it: one fetch would go through all of a table else, and has its time. `written`: documents as they are written.
    Names come from the catalogue.
    """
    if not all(_NAME.fullmatch(name) for name in (table, *columns)):
        raise ValueError(f"not names of ours: {table} {list(columns)}")
    shown = ", ".join(
        f"CASE WHEN {condition.format(name)} THEN {name}{'::text' if name in written else ''} END AS {name}"
        for name, condition in columns.items()
    )
    rows = f"SELECT {shown} FROM {table} OFFSET 0"  # noqa: S608
    some = f"SELECT * FROM ({rows}) r WHERE num_nonnulls({', '.join(columns)}) > 0 OR random() < {_SHARE_SHOWN}"  # noqa: S608
    return Query("probe", some, ("array",) if "$1" in shown else (), (), tuple(columns))
