"""The embedded database's files without what was deleted: an owner's DSN in, tables rewritten and the log dropped.

VACUUM FULL writes each table anew (it is locked meanwhile), ANALYZE and a rewrite of pg_statistic take out the samples
that the planner keeps, a switch and a checkpoint with recycling off unlink the log's old files. DELETE, VACUUM and
CHECKPOINT leave the text in heap and log (measured, FACTS). Raises StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import asyncpg

from memory.errors import StoreUnavailable

_TIMEOUT_S: Final = 3_600.0
_LOG_TURNS: Final = 6
"""A checkpoint keeps the file that it began in, and one that has not heard of `wal_recycle` makes old ones the next."""
_LOG_MARK: Final = 7210034
"""Held by who has the log's files dropped."""
LEFT_OFF: Final = "SELECT EXISTS (SELECT FROM pg_file_settings WHERE name = 'wal_recycle')"
LOOK_S: Final = 300.0
_TABLES: Final = """
SELECT c.relname FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' ORDER BY 1
"""
_OF_NO_TABLE: Final = r"""
SELECT 'base/' || d.oid || '/' || name AS path FROM pg_database d, pg_ls_dir('base/' || d.oid) AS name
WHERE d.datname = current_database() AND name ~ '^\d+(_[a-z]+)?(\.\d+)?$'
AND pg_filenode_relation(0, substring(name FROM '^\d+')::oid) IS NULL
"""
_UNDER_WAY: Final = "SELECT virtualxid FROM pg_locks WHERE locktype = 'virtualxid' AND pid <> pg_backend_pid()"
_ENDED_WITHIN_S: Final = 60.0
_POLL_S: Final = 0.2


async def data_directory(owner_dsn: str) -> Path | None:
    """Where the server's files lie, as it says itself; None where it does not say."""
    async with _connection(owner_dsn) as connection:
        # Of what a user may not see there is no row; current_setting refuses.
        found = await connection.fetchval("SELECT setting FROM pg_settings WHERE name = 'data_directory'")
    return Path(found) if found else None


async def left_over(owner_dsn: str) -> list[str]:
    """Files of tables that a crash left half written, which no table has and nobody ever removes: their paths below the
    data directory. A transaction that is under way may be at work on one, so those are waited for; where one does not
    end, none is named.
    """
    async with _connection(owner_dsn) as connection:
        before = {row["path"] for row in await connection.fetch(_OF_NO_TABLE)}
        under_way = await connection.fetch(_UNDER_WAY) if before else []
        for _ in range(round(_ENDED_WITHIN_S / _POLL_S)):
            still = {row["virtualxid"] for row in await connection.fetch(_UNDER_WAY)} if under_way else set()
            if still.isdisjoint(row["virtualxid"] for row in under_way):
                return sorted(before & {row["path"] for row in await connection.fetch(_OF_NO_TABLE)})
            await asyncio.sleep(_POLL_S)
    return []


async def after_a_killed_one(owner_dsn: str) -> None:
    """Have the log kept as it is without a scrub. One that is at work, beside which this is run, is left to it."""
    async with _connection(owner_dsn) as connection:
        left_off = await connection.fetchval(LEFT_OFF)
        if left_off and await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOG_MARK):
            await _as_before(connection)


async def keep_as_before(owner_dsn: str, files: Path) -> None:
    """Take back what a scrub that was killed set, where these are the server's files, for ever; run as a task."""
    while True:
        with suppress(StoreUnavailable):
            if await data_directory(owner_dsn) == files:
                await after_a_killed_one(owner_dsn)
        await asyncio.sleep(LOOK_S)


async def scrub(owner_dsn: str) -> int:
    """Rewrite every table that holds a tenant's rows and drop the log behind that. How many tables."""
    async with _connection(owner_dsn) as connection:
        tables = [row["relname"] for row in await connection.fetch(_TABLES)]
        for table in tables:
            await connection.execute(f'VACUUM (FULL, ANALYZE) "{table}"')
        await connection.execute("VACUUM FULL pg_catalog.pg_statistic")
        await connection.execute("SELECT pg_advisory_lock($1)", _LOG_MARK)  # to the end of the connection
        await connection.execute("ALTER SYSTEM SET wal_recycle = off")
        try:
            await connection.execute("SELECT pg_reload_conf()")
            for _ in range(_LOG_TURNS):
                await connection.execute("SELECT pg_switch_wal()")
                await connection.execute("CHECKPOINT")
        finally:
            async with _connection(owner_dsn) as own:  # the first may be what it broke off with
                await _as_before(own)
    return len(tables)


async def _as_before(connection: Any) -> None:
    await connection.execute("ALTER SYSTEM RESET wal_recycle")
    await connection.execute("SELECT pg_reload_conf()")


@asynccontextmanager
async def _connection(dsn: str) -> AsyncIterator[Any]:
    try:
        connection = await asyncpg.connect(dsn, command_timeout=_TIMEOUT_S, statement_cache_size=0)
    except (asyncpg.PostgresError, OSError) as exc:
        raise StoreUnavailable(f"Postgres cannot be used: {type(exc).__name__}") from exc
    try:
        yield connection
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as exc:
        raise StoreUnavailable(f"Postgres: {type(exc).__name__}") from exc
    finally:
        connection.terminate()
