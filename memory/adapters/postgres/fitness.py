"""What a Postgres is like, before or after it is ours: a DSN in, a Fitness out. Reads the catalogue only.

One short-lived connection, no pool, since the pool wants the schema. Raises StoreUnavailable with the server's own
reason (no rows are read, so no text of theirs can be quoted), never the password.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import asyncpg

from memory.adapters.postgres.queries import queries_in
from memory.errors import StoreUnavailable

_CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Fitness:
    """`version_num` as 150004; `vector_*` are versions or None; `may_become_app` is None while there is no mp_app."""

    version_num: int
    in_recovery: bool
    vector_installed: str | None
    vector_offered: str | None
    owns_database: bool
    makes_roles: bool
    has_roles: bool
    may_become_app: bool | None
    bypasses_rls: bool
    connections_max: int
    fsync: bool
    synchronous_commit: str
    encoding: str


async def fitness(dsn: str) -> Fitness:
    """Ask one server. Raises StoreUnavailable."""
    query = queries_in(Path(__file__).parent / "sql_fitness")["fitness"]
    try:
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_TIMEOUT_S, statement_cache_size=0)
        try:
            row = await connection.fetchrow(query.sql, timeout=_CONNECT_TIMEOUT_S)
        finally:
            connection.terminate()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError, ValueError) as exc:
        raise StoreUnavailable(f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__) from exc
    if row is None:
        raise StoreUnavailable("the current role is not in pg_roles")
    return Fitness(**dict(row))
