"""The pool: named queries in, rows out, always inside one transaction that says whose data it may see.

Every transaction becomes the role mp_app and sets tenant and visible scopes, so row-level security holds whoever
connected. Where all connections are in use tenants take turns, and within each its scopes. Connections heal by
themselves after the server was away. Refuses to wait longer than its bounds. All foreign errors leave as
StoreUnavailable, without their text where it may hold a row's values.
"""

from __future__ import annotations

import asyncio
import copy
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

import asyncpg
from pgvector.asyncpg import register_vector

from memory.adapters.postgres.queries import Query, load_queries
from memory.errors import MemoryProxyFault, StoreRefused, StoreUnavailable
from memory.places import Places
from policies.text import storable, storable_json

APP_ROLE: Final = "mp_app"
_REFUSING: Final = frozenset({"22", "23", "54"})
_TROUBLED: Final = frozenset({"53100", "58030"})
"""A full disk, and one that cannot be read or written: a server that has either may answer whoever only reads."""
_POOLED: Final = ("26000", "42P05")
"""A statement is not there that was prepared, or is there already: the connection is another than it was."""
POOLER: Final = "set max_prepared_statements of PgBouncer (1.21 or later), or its pool_mode to session"
_STREAMED_ROWS: Final = 500
_TIMED: Final = (17,)  # from here on a server ends a transaction that takes too long
_ALIKE: Final = (18,)  # from here on a SET of another value is the same statement to pg_stat_statements
_FOREIGN: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


class _Unwritable(StoreUnavailable):
    """The server says that it takes no writes."""


_READ_ONLY: Final = (_Unwritable, asyncpg.ReadOnlySQLTransactionError)

# Managed servers have their extensions in a schema of their own.
_SCHEMA_OF_VECTORS: Final = (
    "SELECT nspname::text FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
)

# Where the system knows these (Linux; macOS has some), a link that is cut is noticed within about 15 s: two probes of a
# silent one, as long for what is not acknowledged. TCP by itself waits a quarter of an hour, and a worker's statement
# may take a minute: its lane would wait for it.
_LINK: Final = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 15_000}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a pool. With a `statement_cache` of 0 nothing stays prepared. `idle_in_transaction_ms`: the server ends
    a writing transaction that hears nothing for so long. Its client is gone without a word then (power cut, partition),
    and what it had locked would be locked for the two hours of TCP's keepalive.
    """

    connections_max: int = 8
    acquire_timeout_s: float = 2.0
    connect_timeout_s: float = 5.0
    statement_timeout_ms: int = 10_000
    statement_cache: int = 256
    idle_in_transaction_ms: int = 30_000


NIGHTLY: Final = Bounds(connections_max=1, acquire_timeout_s=10.0, statement_timeout_ms=10_000)
"""For work beside a service: one transaction after the other, each of statements that hold nobody up for long."""


class Vault(Protocol):
    """Seals what a transaction writes and opens what it reads (memory/adapters/postgres/row_vault.py)."""

    writes: frozenset[str]
    copies: frozenset[str]
    reads: frozenset[str]

    async def sealed(self, tx: Transaction, query: Query, rows: list[Sequence[Any]]) -> list[Sequence[Any]]:
        """The parameters to write instead of these, fewer where some go elsewhere."""

    async def copied(self, tx: Transaction, query: Query, rows: list[Sequence[Any]]) -> None:
        """Called when a statement has copied rows that may be sealed."""

    async def opened(self, tx: Transaction, query: Query, arguments: Sequence[Any], rows: list[Any]) -> list[Any]:
        """The rows with what is sealed in them opened."""

    async def seal_vectors(
        self, tx: Transaction, table: str, tenant: UUID, versions: Sequence[tuple[UUID, int]]
    ) -> int:
        """Take the open vectors of these versions out of a model's table and keep them sealed; how many."""


class Transaction:
    """One open transaction. Queries are called by name, or as a Query already fitted to an embedding table."""

    def __init__(self, connection: Any, queries: Mapping[str, Query], vault: Vault) -> None:
        self._connection = connection
        self._queries = queries
        self._vault = vault

    async def fetch(self, query: str | Query, *arguments: Any) -> list[Any]:
        """All rows."""
        asked = self._query(query)
        rows: list[Any] = await self._connection.fetch(asked.sql, *arguments)
        return await self._vault.opened(self, asked, arguments, rows) if asked.name in self._vault.reads else rows

    async def row(self, query: str | Query, *arguments: Any) -> Any | None:
        """The first row, or None."""
        asked = self._query(query)
        row = await self._connection.fetchrow(asked.sql, *arguments)
        if row is None or asked.name not in self._vault.reads:
            return row
        return (await self._vault.opened(self, asked, arguments, [row]))[0]

    async def value(self, query: str | Query, *arguments: Any) -> Any:
        """The first column of the first row, or None."""
        asked = self._query(query)
        if asked.name in self._vault.reads:
            row = await self.row(asked, *arguments)
            return None if row is None else row[asked.columns[0]]
        return await self._connection.fetchval(asked.sql, *arguments)

    async def run(self, query: str | Query, *arguments: Any) -> int:
        """Run it; the number of rows it changed."""
        asked = self._query(query)
        if asked.name in self._vault.writes:
            arguments = tuple((await self._vault.sealed(self, asked, [arguments]))[0])
        said: str = await self._connection.execute(asked.sql, *arguments)
        if asked.name in self._vault.copies:
            await self._vault.copied(self, asked, [arguments])
        tail = said.rsplit(" ", 1)[-1]
        return int(tail) if tail.isdigit() else 0

    async def run_many(self, query: str | Query, rows: Iterable[Sequence[Any]]) -> None:
        """Run it for every row in one batch; nothing for no rows."""
        asked, batch = self._query(query), list(rows)
        if batch and asked.name in self._vault.writes:
            batch = await self._vault.sealed(self, asked, batch)
        if batch:
            await self._connection.executemany(asked.sql, batch)
            if asked.name in self._vault.copies:
                await self._vault.copied(self, asked, batch)

    async def fetch_many(self, query: str | Query, rows: Iterable[Sequence[Any]]) -> list[Any]:
        """Run it for every row in one batch and return what came back, in order."""
        asked, batch = self._query(query), list(rows)
        if batch and asked.name in self._vault.writes:
            batch = await self._vault.sealed(self, asked, batch)
        found: list[Any] = await self._connection.fetchmany(asked.sql, batch) if batch else []
        return found

    async def seal_vectors(self, table: str, tenant: UUID, versions: Sequence[tuple[UUID, int]]) -> None:
        """The vectors of these versions lie open in a model's table no more."""
        await self._vault.seal_vectors(self, table, tenant, versions)

    async def stream(self, query: str | Query, *arguments: Any) -> AsyncIterator[Any]:
        """Rows of a question that may have very many, some at a time."""
        async for page in self.pages(query, *arguments):
            for row in page:
                yield row

    async def pages(self, query: str | Query, *arguments: Any) -> AsyncIterator[list[Any]]:
        """The same, as many at a time as are fetched at once."""
        cursor = await self._connection.cursor(self._query(query).sql, *arguments)
        while page := await cursor.fetch(_STREAMED_ROWS):
            yield page

    async def see(self, tenant: UUID | None, scope_ids: Iterable[int]) -> None:
        """Change what the rest of this transaction may see."""
        await self._connection.fetchrow(
            "SELECT set_config('mp.tenant', $1, true), set_config('mp.scopes', $2, true)",
            "" if tenant is None else str(tenant),
            _array(scope_ids),
        )

    def fitted(self, name: str, embeddings: str) -> Query:
        """A query by name on one model's table."""
        return self._queries[name].of_table(embeddings)

    def _query(self, query: str | Query) -> Query:
        return query if isinstance(query, Query) else self._queries[query]


class NoKeys:
    """The vault of a process that holds no keys: for reference tables and counts. What is sealed stays sealed."""

    writes: frozenset[str] = frozenset()
    copies: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()

    async def sealed(self, tx: Transaction, query: Query, rows: list[Sequence[Any]]) -> list[Sequence[Any]]:
        """As they are."""
        return rows

    async def copied(self, tx: Transaction, query: Query, rows: list[Sequence[Any]]) -> None:
        """Nothing to do."""

    async def opened(self, tx: Transaction, query: Query, arguments: Sequence[Any], rows: list[Any]) -> list[Any]:
        """As they are."""
        return rows

    async def seal_vectors(
        self, tx: Transaction, table: str, tenant: UUID, versions: Sequence[tuple[UUID, int]]
    ) -> int:
        """As they are."""
        return 0


_NO_KEYS: Final = NoKeys()


class Database:
    """A bounded pool of connections to one Postgres. Opens without a server and finds it when it is there."""

    def __init__(self, pool: Any, bounds: Bounds, queries: Mapping[str, Query], vault: Callable[[], Vault]) -> None:
        self._pool = pool
        self._bounds = bounds
        self._places = Places(bounds.connections_max, bounds.acquire_timeout_s)
        self._late: set[asyncio.Task[None]] = set()
        self._vault = vault
        self.queries = queries
        self.refused: list[Callable[[UUID, Sequence[int]], None]] = []
        """Told of which tenant and scopes a write was refused: what is held of them may be gone."""
        self.troubled: list[Callable[[str], None]] = []
        """Told when the server says that its disk is full, or fails it."""

    def with_vault(self, vault: Callable[[], Vault]) -> Database:
        """The same pool; each transaction seals and opens with a vault of its own."""
        other = copy.copy(self)
        other._vault = vault
        return other

    @classmethod
    async def open(cls, dsn: str, bounds: Bounds | None = None) -> Database:
        """Make the pool; connects on first use."""
        limits = bounds or Bounds()
        try:
            pool = await asyncpg.create_pool(
                dsn,
                min_size=0,
                max_size=limits.connections_max,
                timeout=limits.connect_timeout_s,
                command_timeout=limits.statement_timeout_ms / 1000 + 1,
                statement_cache_size=limits.statement_cache,
                server_settings={"application_name": "memory-proxy"},
                init=_prepare,
                reset=_no_reset,
            )
        except (*_FOREIGN, ValueError) as exc:
            raise StoreUnavailable(f"Postgres cannot be used: {type(exc).__name__}") from exc
        return cls(pool, limits, load_queries(), lambda: _NO_KEYS)

    async def close(self) -> None:
        """Close every connection; those in use are cut."""
        self._pool.terminate()
        if self._late:
            await asyncio.wait(self._late)

    @asynccontextmanager
    async def transaction(
        self,
        tenant: UUID | None,
        scope_ids: Iterable[int] = (),
        *,
        read_only: bool = False,
        within_ms: int | None = None,
        generic: bool = False,
        snapshot: bool = False,
    ) -> AsyncIterator[Transaction]:
        """One transaction as mp_app that sees `scope_ids` of `tenant`. Raises StoreUnavailable; then nothing was kept.

        (One exception: when the connection dies while COMMIT is under way, it may have been kept. Writes are
        idempotent for that reason.) Never hold it across a network call or an embedding. A caller that is cancelled
        leaves at once; its connection is cleaned up behind it. `within_ms`: the server ends all of it by then, for what
        everybody waits for (Postgres 17 and later; an earlier one knows only that it idles). `generic`: statements are
        planned once a connection, whatever their arguments: for what each exchange runs, by index. `snapshot`: all of
        them see the moment of the first; for what only reads.
        """
        scopes = tuple(scope_ids)
        connection = await self._acquire(tenant, scopes)
        giving_back = True
        try:
            server = connection.get_server_version()
            await connection.execute(self._begin(server, tenant, scopes, read_only, within_ms, generic, snapshot))
            yield Transaction(connection, self.queries, self._vault())
            if await connection.execute("COMMIT") != "COMMIT":
                raise StoreUnavailable("Postgres: rolled back, a statement had failed")
        except asyncio.CancelledError:
            giving_back = False
            self._give_back_later(connection, tenant, scopes)
            raise
        except _FOREIGN as exc:
            await _roll_back(connection, exc)
            fault = _fault(exc)
            self._tell(fault, tenant, scopes)
            if getattr(exc, "sqlstate", None) in _TROUBLED:
                for tell in self.troubled:
                    tell(str(fault))
            raise fault from exc
        except MemoryProxyFault as exc:
            await _roll_back(connection, exc)
            self._tell(exc, tenant, scopes)
            raise
        except BaseException:
            _cut(connection)
            raise
        finally:
            if giving_back:
                await self._release(connection, tenant, scopes)

    def _tell(self, fault: MemoryProxyFault, tenant: UUID | None, scope_ids: Sequence[int]) -> None:
        """Whoever holds ids of these scopes is told of a refusal, by Postgres or by ourselves: they may be gone."""
        if isinstance(fault, StoreRefused) and tenant is not None:
            for tell in self.refused:
                tell(tenant, scope_ids)

    async def _acquire(self, tenant: UUID | None, scopes: tuple[int, ...]) -> Any:
        """A connection, its place taken: the pool itself serves who came first, be it a hundred of one tenant."""
        if not await self._places.take(tenant, scopes):
            raise StoreUnavailable("Postgres: TimeoutError, every connection is in use")
        try:
            return await self._pool.acquire(timeout=self._bounds.acquire_timeout_s)
        except BaseException as exc:
            self._places.give_back(tenant, scopes)
            if isinstance(exc, _FOREIGN):
                raise StoreUnavailable(f"Postgres: {_named(exc)}") from exc
            raise

    async def _release(self, connection: Any, tenant: UUID | None, scopes: tuple[int, ...]) -> None:
        try:
            await self._pool.release(connection)
        finally:
            self._places.give_back(tenant, scopes)

    def _begin(
        self,
        server: tuple[int, ...],
        tenant: UUID | None,
        scope_ids: Iterable[int],
        read_only: bool,
        within_ms: int | None,
        generic: bool,
        snapshot: bool,
    ) -> str:
        """One round trip. Only a UUID and integers go into the text. A SET need not be planned, a SELECT must; of older
        servers pg_stat_statements has a SET of each value as another statement, and would soon hold nothing else.
        """
        whose = {"mp.tenant": "" if tenant is None else str(UUID(int=tenant.int)), "mp.scopes": _array(scope_ids)}
        settings = {"role": APP_ROLE, "statement_timeout": f"{self._bounds.statement_timeout_ms:d}", "jit": "off"}
        if generic:
            settings["plan_cache_mode"] = "force_generic_plan"
        if not read_only:
            settings["idle_in_transaction_session_timeout"] = f"{self._bounds.idle_in_transaction_ms:d}"
        if within_ms is not None and server >= _TIMED:
            settings["transaction_timeout"] = f"{within_ms:d}"
        isolation = "REPEATABLE READ" if snapshot else "READ COMMITTED"
        begin = [f"BEGIN ISOLATION LEVEL {isolation}{', READ ONLY' if read_only else ''}"]
        if server >= _ALIKE:
            settings |= whose
        else:
            told = (f"set_config('{name}', '{value}', true)" for name, value in whose.items())
            begin.append(f"SELECT {', '.join(told)}")
        return "; ".join((*begin, *(f"SET LOCAL {name} = '{value}'" for name, value in settings.items())))

    def _give_back_later(self, connection: Any, tenant: UUID | None, scopes: tuple[int, ...]) -> None:
        task = asyncio.create_task(self._clean_up(connection, tenant, scopes))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _clean_up(self, connection: Any, tenant: UUID | None, scopes: tuple[int, ...]) -> None:
        """Let the server stop the statement, then give the connection back; cut it when that takes too long."""
        try:
            async with asyncio.timeout(self._bounds.acquire_timeout_s):
                await connection.execute("ROLLBACK")
        except _FOREIGN:
            _cut(connection)
        await self._release(connection, tenant, scopes)

    async def ping(self) -> None:
        """Raise StoreUnavailable unless a transaction can be had, the schema is there, and it can be written to."""
        async with self.transaction(None, read_only=True) as tx:
            found = await tx.row("ping")
            if found is None or found["tenants"] is None:
                raise StoreUnavailable("Postgres answers, the schema is not there: run memory-proxy migrate")
            if not found["writable"]:
                raise _Unwritable("Postgres answers and takes no writes: a standby, or set to read only")


async def _roll_back(connection: Any, exc: BaseException) -> None:
    """End a transaction that failed. A connection that does not answer is cut instead of waited for, and so is one that
    takes no writes: it was opened to a primary of before, or under a setting of before, and would stay as it is.
    """
    if isinstance(exc, _READ_ONLY) or not isinstance(exc, asyncpg.PostgresError | MemoryProxyFault):
        _cut(connection)
        return
    try:
        await connection.execute("ROLLBACK")
    except _FOREIGN:
        _cut(connection)


def _cut(connection: Any) -> None:
    """Close a connection at once; one that was lost is back in its pool already and refuses."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


async def _prepare(connection: Any) -> None:
    """A new connection: its link is watched; vectors go in binary, jsonb as values."""
    watch_link(connection._transport.get_extra_info("socket"))  # asyncpg gives no other way to it
    try:
        await register_vector(connection)
    except ValueError as exc:
        schema = await connection.fetchval(_SCHEMA_OF_VECTORS)
        if schema in (None, "public"):
            raise StoreUnavailable("Postgres answers, the schema is not there: run memory-proxy migrate") from exc
        await register_vector(connection, schema=schema)
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=dump_json, decoder=json.loads)


def watch_link(link: Any) -> None:
    """Have TCP notice that the other end is gone; nothing for a Unix socket, or for what this system does not know."""
    if link is None or link.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _LINK.items():
        if hasattr(socket, name):
            with suppress(OSError):  # a kernel that knows less than Python: the link is as good as it was
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _no_reset(_connection: Any) -> None:
    """Nothing to undo on release: every setting was local to its transaction."""


def _array(scope_ids: Iterable[int]) -> str:
    return "{" + ",".join(map(str, map(int, scope_ids))) + "}"


def _fault(exc: BaseException) -> MemoryProxyFault:
    """The data itself refused (SQLSTATE classes 22, 23, 54): trying again cannot help. All else: unavailable."""
    if isinstance(exc, asyncpg.PostgresError) and (exc.sqlstate or "")[:2] in _REFUSING:
        return StoreRefused(f"Postgres: {_named(exc)}")
    return StoreUnavailable(f"Postgres: {_named(exc)}")


def _named(exc: BaseException) -> str:
    """What happened, without the server's detail: that may quote a row."""
    if isinstance(exc, asyncpg.PostgresError):
        constraint = getattr(exc, "constraint_name", None)
        return f"{type(exc).__name__} {exc.sqlstate}{f' on {constraint}' if constraint else ''}{_remedy(exc)}"
    return f"{type(exc).__name__}{f' {exc.strerror}' if isinstance(exc, OSError) and exc.strerror else ''}"


def _remedy(exc: asyncpg.PostgresError) -> str:
    if isinstance(exc, asyncpg.DiskFullError):
        return ", its disk is full: free some space"
    return f", a pooler loses what was prepared: {POOLER}" if exc.sqlstate in _POOLED else ""


def dump_json(value: Any) -> str:
    """JSON as jsonb can hold it; a \\u0000 inside would be refused, and so would a NaN, which clients and vLLM send."""
    try:
        text = _dumped(value)
    except ValueError:
        return _dumped(storable_json(value))
    return _dumped(storable_json(value)) if "\\u0000" in text else storable(text)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
