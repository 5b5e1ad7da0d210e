"""What a Postgres is like, before or after it is ours: a DSN in, a Fitness out. Reads the catalogue only.

Short-lived connections, no pool, since the pool wants the schema. Raises StoreUnavailable with the server's own
reason (no rows are read, so no text of theirs can be quoted), never the password.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    async with _connection(dsn) as connection:
        row = await connection.fetchrow(query.sql, timeout=_CONNECT_TIMEOUT_S)
    if row is None:
        raise StoreUnavailable("the current role is not in pg_roles")
    return Fitness(**dict(row))


async def keeps_prepared(dsn: str) -> bool:
    """Whether what a client has prepared is there at its next transaction: a pooler may give it another connection, as
    here, where a second client holds the first one. Raises StoreUnavailable.
    """
    async with _connection(dsn) as one, _connection(dsn) as other:
        try:
            prepared = await one.prepare("SELECT 1", name="mp_prepared", timeout=_CONNECT_TIMEOUT_S)
            await prepared.fetchval(timeout=_CONNECT_TIMEOUT_S)
            async with other.transaction():
                await prepared.fetchval(timeout=_CONNECT_TIMEOUT_S)
        except (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError):
            return False
    return True


@asynccontextmanager
async def _connection(dsn: str) -> AsyncIterator[Any]:
    try:
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_TIMEOUT_S, statement_cache_size=0)
        try:
            yield connection
        finally:
            connection.terminate()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError, ValueError) as exc:
        raise StoreUnavailable(f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__) from exc
