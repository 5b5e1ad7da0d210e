"""The second wall alone: every read query of the product with its own filter taken out, run as the role that serves.

The text of each query is changed here and nowhere else: its conditions on tenant and scope become true. It is then run
under the settings of one identity, asking for another's ids. What comes back must be the caller's own. The same
statements run as the owner, past row-level security, say whether they could have shown anything: that is their power.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import asyncpg
import numpy as np

from memory.adapters.postgres.database import _prepare
from memory.adapters.postgres.queries import SQL_DIR, Query, load_queries
from memory.ids import new_id

_HEADER: Final = re.compile(r"\$(\d+) (\w+) ([\w\[\]]+)")
_WRITES: Final = re.compile(
    r"\b(INSERT INTO|UPDATE \w+\s|DELETE FROM|mp_create|mp_drop|nextval|pg_advisory)", re.IGNORECASE
)
_MANY: Final = re.compile(r"(?:\w+\.)?(scope_id|tenant_id) = ANY \(\$(\d+)(?:::\w+\[\])?\)")
_ONE: Final = re.compile(r"(?:\w+\.)?(scope_id|tenant_id) = \$(\d+)")
_TIMEOUT_S: Final = 20.0
LIMIT: Final = 1_000
KINDS: Final = ("working", "episodic", "semantic", "procedural", "summary", "document")


@dataclass(frozen=True, slots=True)
class Attack:
    """Who asks, with what settings, and for whose rows."""

    tenant: UUID
    scope_ids: tuple[int, ...]
    foreign_tenant: UUID
    foreign_scopes: tuple[int, ...]
    ids: tuple[UUID, ...]  # of the foreign scope: memories, turns, sessions, exchanges, retrievals
    chains: tuple[bytes, ...]
    words: tuple[bytes, ...]
    label: str
    names: tuple[str, str, str]


@dataclass(slots=True)
class Walls:
    """What came of it; mutable."""

    queries: int = 0
    runs: int = 0
    with_power: set[str] = field(default_factory=set)
    rows_seen: int = 0
    foreign: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def read_queries(table: str) -> dict[str, tuple[Query, Sequence[tuple[str, str]]]]:
    """Every query that only reads and asks by tenant or scope, unfiltered, with its parameters' names and types."""
    named = _parameters()
    found = {}
    for name, query in load_queries().items():
        whole = query.of_table(table)
        if _WRITES.search(whole.sql) or not (_ONE.search(whole.sql) or _MANY.search(whole.sql)):
            continue
        found[name] = (Query(name, unfiltered(whole.sql), whole.types, (), ()), named[name])
    return found


def unfiltered(sql: str) -> str:
    """The statement with its conditions on tenant and scope made true; parameters keep their types."""
    kinds = {"scope_id": "int8", "tenant_id": "uuid"}
    without = _MANY.sub(lambda found: f"(${found[2]}::{kinds[found[1]]}[] IS NOT NULL)", sql)
    return _ONE.sub(lambda found: f"(${found[2]}::{kinds[found[1]]} IS NOT NULL)", without)


def _parameters() -> dict[str, Sequence[tuple[str, str]]]:
    found: dict[str, Sequence[tuple[str, str]]] = {}
    for path in sorted(SQL_DIR.glob("*.sql")):
        pieces = re.split(r"^-- name: (\w+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
            header = "\n".join(line for line in text.splitlines() if line.startswith("--"))
            found[name] = [(word, kind) for _, word, kind in _HEADER.findall(header)]
    return found


def arguments(parameters: Sequence[tuple[str, str]], attack: Attack, vector: Any, turn: int) -> list[Any]:
    """What to ask with: the foreign identity's ids, and elsewhere what lets everything pass."""
    return [_argument(name, kind, attack, vector, turn) for name, kind in parameters]


def _turns(parameters: Sequence[tuple[str, str]], attack: Attack) -> int:
    """In how many ways a query can be asked: once for each foreign id where it takes one, else once."""
    return len(attack.ids) if any(_argument(*of, attack, None, 0) == attack.ids[0] for of in parameters) else 1


def _argument(name: str, kind: str, attack: Attack, vector: Any, turn: int) -> Any:
    one = attack.ids[turn % len(attack.ids)]
    by_kind: Mapping[str, Any] = {
        "uuid[]": list(attack.ids),
        "bytea[]": list(attack.chains),
        "int8[]": list(attack.foreign_scopes),
        "int4[]": [1] * len(attack.ids),
        "text[]": list(KINDS) if name == "kinds" else None,
        "halfvec": vector,
        "jsonb": None,
        "bool": False,
        "float4": 0.0,
        "float8": 0.0,
        "bytea": attack.chains[0],
    }
    if kind == "uuid":
        edge = {"tenant": attack.foreign_tenant, "after_id": UUID(int=0), "before_id": UUID(int=2**128 - 1)}
        return edge.get(name, UUID(int=0) if name.startswith("after") else one)
    if kind in ("int8", "int4", "int2"):
        return _number(name, attack)
    if kind in ("timestamptz", "interval"):
        early = name.startswith(("after", "since")) or name in ("occurred_after", "until_after")
        return datetime(1, 1, 2, tzinfo=UTC) if early else datetime(9999, 1, 1, tzinfo=UTC)
    if kind == "text":
        names = dict(zip(("user", "project", "agent"), attack.names, strict=True))
        return names.get(name, attack.label if name == "label" else None)
    return by_kind.get(kind)


def _number(name: str, attack: Attack) -> int:
    if name in ("scope_id", "scope"):
        return attack.foreign_scopes[0]
    if name in ("limit", "k", "windows", "chars", "before") or name.endswith(("_max", "limit")):
        return LIMIT
    return -1 if name.startswith(("after", "from")) else 0


async def attacked(owner_dsn: str, app_dsn: str, table: str, attacks: Sequence[Attack], dim: int) -> Walls:
    """Run every read query, unfiltered, for each attack."""
    walls = Walls()
    app, owner = await _connected(app_dsn), await _connected(owner_dsn)
    try:
        queries = read_queries(table)
        walls.queries = len(queries)
        vector = np.full(dim, dim**-0.5, dtype=np.float32)
        for attack in attacks:
            settings = (str(attack.tenant), "{" + ",".join(map(str, attack.scope_ids)) + "}")
            await app.fetch("SELECT set_config('mp.tenant', $1, false), set_config('mp.scopes', $2, false)", *settings)
            await owner.fetch(
                "SELECT set_config('mp.tenant', $1, false), set_config('mp.scopes', $2, false)", *settings
            )
            for name, (query, parameters) in queries.items():
                echoes = await _echoes(app, query, parameters, attack, vector, walls)
                for turn in range(_turns(parameters, attack)):
                    given = arguments(parameters, attack, vector, turn)
                    rows = await _rows(app, query, given, walls)
                    walls.runs += 1
                    if rows is None:
                        break
                    walls.rows_seen += len(rows)
                    walls.foreign += [name for row in rows if _is_foreign(row, attack, by_ids=not echoes)]
                    if name not in walls.with_power:
                        past = await _rows(owner, query, given, walls) or []
                        if any(_is_foreign(row, attack, by_ids=not echoes) for row in past):
                            walls.with_power.add(name)
        await _tables(app, table, attacks, walls)
    finally:
        await app.close()
        await owner.close()
    return walls


async def _tables(app: Any, table: str, attacks: Sequence[Attack], walls: Walls) -> None:
    """Every table with a scope, whole, as one identity."""
    names = [
        row["relname"]
        for row in await app.fetch(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'scope_id'"
            " WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relrowsecurity"
            " AND c.relname NOT IN ('scopes', 'scope_versions', 'reembed_progress')"
        )
    ]
    for attack in attacks:
        settings = (str(attack.tenant), "{" + ",".join(map(str, attack.scope_ids)) + "}")
        await app.fetch("SELECT set_config('mp.tenant', $1, false), set_config('mp.scopes', $2, false)", *settings)
        for name in names:
            seen = {row["scope_id"] for row in await app.fetch(f'SELECT DISTINCT scope_id FROM "{name}"')}
            walls.foreign += [f"table {name}" for scope_id in seen if scope_id not in attack.scope_ids]


async def _connected(dsn: str) -> Any:
    connection = await asyncpg.connect(dsn, command_timeout=_TIMEOUT_S)
    await _prepare(connection)
    return connection


async def _rows(connection: Any, query: Query, given: Sequence[Any], walls: Walls) -> Sequence[Any] | None:
    """What it gives, at most LIMIT rows; None where the statement refuses these arguments."""
    try:
        return await _first(connection, query, given)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, TypeError, ValueError, TimeoutError) as exc:
        walls.refused.setdefault(query.name, type(exc).__name__)
        return None


async def _first(connection: Any, query: Query, given: Sequence[Any]) -> Sequence[Any]:
    async with connection.transaction():
        cursor = await connection.cursor(query.sql, *given)  # parsed once: the connection keeps its statements
        rows: Sequence[Any] = await cursor.fetch(LIMIT)
        return rows


async def _echoes(
    app: Any, query: Query, parameters: Sequence[tuple[str, str]], attack: Attack, vector: Any, walls: Walls
) -> bool:
    """Whether it gives back an id of nothing at all: then an id in its answer tells nothing."""
    made_up = tuple(new_id() for _ in attack.ids)
    nothing = replace(attack, ids=made_up, words=())
    rows = await _rows(app, query, arguments(parameters, nothing, vector, 0), walls) or []
    return any(value in made_up for row in rows for value in dict(row).values() if isinstance(value, UUID))


def _is_foreign(row: Any, attack: Attack, *, by_ids: bool) -> bool:
    """Whether a row is another's: by an id that was asked for, by its words, or, of another tenant, by its scope."""
    values = dict(row)
    if attack.tenant != attack.foreign_tenant and values.get("scope_id") in attack.foreign_scopes:
        return True
    ids = set(attack.ids)
    if by_ids and any(isinstance(value, UUID) and value in ids for value in values.values()):
        return True
    text = repr(values).encode()
    return any(word in text for word in attack.words)
