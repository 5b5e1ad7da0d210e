"""The pool: bounded, healing, blind without settings, and silent about values."""

from __future__ import annotations

import asyncio
import signal
import socket
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from pgvector import HalfVector

from memory.adapters.postgres.database import Bounds, Database, dump_json, watch_link
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.migrate import check, ensure_embedding_table, migrate
from memory.errors import StoreRefused, StoreUnavailable
from memory.ids import new_id
from tests.pooler_fixture import forgetful_pooler
from tests.postgres_fixture import DIM, MODEL, MODEL_DIGEST, TEMPLATE, Server, TestDatabase


async def test_the_pool_heals_after_the_server_was_killed(private_postgres: Server) -> None:
    postgres = private_postgres.fresh(TEMPLATE)
    database = await Database.open(postgres.app, Bounds(connections_max=3))
    await asyncio.gather(*(database.ping() for _ in range(6)))
    async with database.transaction(None) as tx:
        await tx.value("ping")
    private_postgres.kill()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await database.ping()
    private_postgres.start()
    for _ in range(20):
        try:
            await database.ping()
            break
        except StoreUnavailable:
            await asyncio.sleep(0.1)
    await asyncio.gather(*(database.ping() for _ in range(6)))
    await database.close()


async def test_a_caller_that_gives_up_is_not_held_by_a_server_that_hangs(private_postgres: Server) -> None:
    postgres = private_postgres.fresh(TEMPLATE)
    database = await Database.open(postgres.app, Bounds(connections_max=2, acquire_timeout_s=0.3))
    await asyncio.gather(*(database.ping() for _ in range(2)))
    private_postgres.signal(signal.SIGSTOP)
    async with asyncio.timeout(5):  # far below the statement's own limit of 11 s
        for _ in range(3):
            with pytest.raises((TimeoutError, StoreUnavailable)):
                async with asyncio.timeout(0.1):
                    await database.ping()
    private_postgres.signal(signal.SIGCONT)
    for _ in range(50):
        try:
            await asyncio.gather(*(database.ping() for _ in range(4)))
            break
        except StoreUnavailable:
            await asyncio.sleep(0.1)
    await database.ping()
    await database.close()


async def test_a_cancelled_statement_is_ended_on_the_server_and_its_connection_used_again(
    postgres: TestDatabase,
) -> None:
    postgres.psql("CREATE FUNCTION mp_slow() RETURNS text LANGUAGE sql AS $$ SELECT pg_sleep(9)::text $$")
    database = await Database.open(postgres.app, Bounds(connections_max=1))

    async def backend(slow: bool) -> int:
        async with database.transaction(None) as tx:
            pid: int = await tx._connection.fetchval("SELECT pg_backend_pid()")
            if slow:
                await tx._connection.fetchval("SELECT mp_slow()")
            return pid

    first = await backend(False)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await backend(True)
    assert await backend(False) == first
    await database.close()


async def test_a_failed_statement_that_was_swallowed_is_no_commit(postgres: TestDatabase) -> None:
    database = await Database.open(postgres.app)
    with pytest.raises(StoreUnavailable, match="rolled back"):
        async with database.transaction(None) as tx:
            with pytest.raises(asyncpg.PostgresError):
                await tx._connection.fetchval("SELECT 1 / 0")
    await database.ping()
    await database.close()


async def test_opening_needs_no_server() -> None:
    database = await Database.open("postgresql://mp_app@/none?host=/nonexistent&port=5432")
    with pytest.raises(StoreUnavailable):
        await database.ping()
    await database.close()


async def test_a_database_without_a_schema_is_named(postgres_server: Server) -> None:
    postgres_server.psql("CREATE DATABASE unmigrated")
    database = await Database.open(postgres_server.dsn("unmigrated", "mp_app"))
    with pytest.raises(StoreUnavailable, match="migrate"):
        await database.ping()
    await database.close()


async def test_vectors_may_be_known_in_another_schema(postgres_server: Server) -> None:
    """As managed servers have it: the administrator made the extension, in a schema of extensions."""
    postgres_server.psql("CREATE DATABASE managed")
    postgres_server.psql("ALTER DATABASE managed SET search_path = public, extensions")
    postgres_server.psql("CREATE SCHEMA extensions", "managed")
    postgres_server.psql("GRANT USAGE ON SCHEMA extensions TO PUBLIC", "managed")
    postgres_server.psql("CREATE EXTENSION vector SCHEMA extensions", "managed")
    owner = postgres_server.dsn("managed")
    await migrate(owner)
    await ensure_embedding_table(owner, MODEL, MODEL_DIGEST, DIM)
    assert await check(owner) == []
    database = await Database.open(postgres_server.dsn("managed", "mp_app"))
    await database.ping()
    async with database.transaction(None) as tx:
        found = await tx._connection.fetchval("SELECT $1::halfvec(3)", HalfVector([1, 2, 3]))
    assert found.to_list() == [1, 2, 3]
    await database.close()


async def test_a_database_that_takes_no_writes_is_named(postgres: TestDatabase) -> None:
    postgres.psql(f"ALTER DATABASE {postgres.name} SET default_transaction_read_only = on")
    database = await Database.open(postgres.app)
    with pytest.raises(StoreUnavailable, match="takes no writes"):
        await database.ping()
    await database.close()
    database = await Database.open(f"{postgres.app}&options=-c%20default_transaction_read_only%3Doff")
    await database.ping()
    await database.close()


@pytest.mark.parametrize("asks", ["ping", "write"])
async def test_a_connection_that_takes_no_writes_is_replaced(postgres: TestDatabase, asks: str) -> None:
    """As after a failover, when the name had led to the primary of before for a moment longer."""
    database = await Database.open(postgres.app, Bounds(connections_max=1, acquire_timeout_s=30.0))

    async def asked() -> None:
        if asks == "write":
            await KeyStore(database).ensure_tenant("acme", datetime(2026, 11, 28, tzinfo=UTC))
        else:
            await database.ping()

    postgres.psql(f"ALTER DATABASE {postgres.name} SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable):
        await asked()
    postgres.server.psql(f"ALTER DATABASE {postgres.name} RESET default_transaction_read_only")
    await asked()
    await database.close()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_what_another_has_just_written_is_written_over_whatever_isolation_is_usual_there(
    postgres: TestDatabase, isolation: str
) -> None:
    """A database that other applications share may be set so; a lock that was waited for is to show what is there."""
    postgres.psql(f"ALTER DATABASE {postgres.name} SET default_transaction_isolation = '{isolation}'")
    database = await Database.open(postgres.app)
    async with database.transaction(None) as late:
        async with database.transaction(None) as tx:
            await tx.run("beat", "worker", 10.0)
        await late.run("beat", "worker", 10.0)
    async with database.transaction(None, read_only=True) as tx:
        assert await tx._connection.fetchval("SHOW transaction_read_only") == "on"
    await database.close()


async def test_waiting_for_a_connection_is_bounded(postgres: TestDatabase) -> None:
    database = await Database.open(postgres.app, Bounds(connections_max=1, acquire_timeout_s=0.1))
    async with database.transaction(None):
        with pytest.raises(StoreUnavailable, match="TimeoutError"):
            await database.ping()
    await database.ping()
    await database.close()


async def test_the_next_connection_is_for_the_tenant_that_has_none_and_not_for_who_came_first(
    postgres: TestDatabase,
) -> None:
    database, order = await Database.open(postgres.app, Bounds(connections_max=2)), list[str]()
    ours, theirs = new_id(), new_id()

    async def asked(tenant: UUID | None, scope: int, name: str) -> None:
        async with database.transaction(tenant, [scope]) as tx:
            order.append(name)
            await tx.value("ping")

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(asked(ours, number % 10, "ours"))
        await asyncio.sleep(0)
        group.create_task(asked(theirs, 77, "theirs"))
        group.create_task(asked(None, 0, "the key table"))
    assert {"theirs", "the key table"} <= set(order[:6])  # one of the first two may have its connection made yet
    await database.close()


async def test_a_scope_that_asks_for_much_leaves_the_next_connection_to_another_of_its_tenant(
    postgres: TestDatabase,
) -> None:
    database, order = await Database.open(postgres.app, Bounds(connections_max=2)), list[int]()
    tenant = new_id()

    async def asked(scope: int) -> None:
        async with database.transaction(tenant, [scope]) as tx:
            order.append(scope)
            await tx.value("ping")

    async with asyncio.TaskGroup() as group:
        for scope in [*[1] * 20, 2]:
            group.create_task(asked(scope))
    assert 2 in order[:4]
    await database.close()


async def test_a_disk_that_is_full_is_named_with_the_remedy(postgres: TestDatabase) -> None:
    """Whoever gave a command, or asked to forget, was told of a DiskFullError 53100."""
    postgres.psql(
        "CREATE FUNCTION mp_full() RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE SQLSTATE '53100' USING MESSAGE = 'could not extend file'; END $$"
    )
    database = await Database.open(postgres.app)
    with pytest.raises(StoreUnavailable, match="DiskFullError 53100, its disk is full: free some space"):
        async with database.transaction(None) as tx:
            await tx._connection.fetchval("SELECT mp_full()")
    await database.close()


async def test_a_pooler_that_loses_what_was_prepared_is_named_with_the_remedy(postgres: TestDatabase) -> None:
    """A start behind PgBouncer 1.18 said nothing but DuplicatePreparedStatementError, again and again."""
    async with forgetful_pooler(postgres.server.root) as port:
        database = await Database.open(f"postgresql://mp_app@127.0.0.1:{port}/{postgres.name}?sslmode=disable")
        with pytest.raises(StoreUnavailable, match=r"26000, a pooler loses .* max_prepared_statements of PgBouncer"):
            for _ in range(3):
                await database.ping()
        await database.close()


async def test_a_statement_that_takes_too_long_is_ended(postgres: TestDatabase) -> None:
    postgres.psql("CREATE FUNCTION mp_slow() RETURNS text LANGUAGE sql AS $$ SELECT pg_sleep(5)::text $$")
    database = await Database.open(postgres.app, Bounds(statement_timeout_ms=50))
    with pytest.raises(StoreUnavailable, match="57014"):
        async with database.transaction(None) as tx:
            await tx._connection.fetchval("SELECT mp_slow()")
    await database.ping()
    await database.close()


@pytest.mark.parametrize("bound", ["idle", "whole"])
async def test_what_a_vanished_client_has_locked_is_free_again(postgres: TestDatabase, bound: str) -> None:
    """It says nothing more and closes nothing; without a bound its locks stay for the two hours of TCP's keepalive."""
    vanished = await Database.open(postgres.app, Bounds(idle_in_transaction_ms=200 if bound == "idle" else 60_000))
    other, free = await Database.open(postgres.app, Bounds(statement_timeout_ms=20_000)), False
    with pytest.raises(StoreUnavailable):
        async with vanished.transaction(None, within_ms=None if bound == "idle" else 200) as held:
            await held.value("lock_lanes")
            async with other.transaction(None) as tx:
                await tx.value("lock_lanes")
                free = True
    assert free
    await vanished.ping()
    await vanished.close()
    await other.close()


@pytest.mark.parametrize("cache", [0, 256])
async def test_settings_end_with_their_transaction(postgres: TestDatabase, cache: int) -> None:
    database = await Database.open(postgres.owner, Bounds(connections_max=1, statement_cache=cache))
    async with database.transaction(None) as tx:
        assert await tx._connection.fetchval("SELECT current_user") == "mp_app"
        assert await tx._connection.fetchval("SELECT mp_scopes()") == []
    async with database._pool.acquire() as connection:
        assert await connection.fetchval("SELECT current_user") == "postgres"
    await database.close()


@pytest.mark.parametrize("version", [(15, 0), (18, 0)])
async def test_a_transaction_is_of_whom_it_is_asked_for_and_no_statement_of_its_own_to_an_older_server(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    """Before 18 pg_stat_statements takes a SET of each value for another statement: 4,000 scopes filled its 5,000."""
    asked = "SELECT current_user, current_setting('mp.tenant'), current_setting('mp.scopes')"
    said, real = list[str](), asyncpg.Connection.execute

    async def heard(self: asyncpg.Connection, query: str, *given: Any, **named: Any) -> str:
        said.append(query)
        return str(await real(self, query, *given, **named))

    monkeypatch.setattr(asyncpg.Connection, "get_server_version", lambda _: version)
    monkeypatch.setattr(asyncpg.Connection, "execute", heard)
    database, tenant = await Database.open(postgres.app, Bounds(connections_max=1)), new_id()
    for scopes in ([7, 8], [9]):
        async with database.transaction(tenant, scopes) as tx:
            found = await tx._connection.fetchrow(asked)
            assert tuple(found) == ("mp_app", str(tenant), f"{{{','.join(map(str, scopes))}}}")
    await database.close()
    sets = {one.strip() for text in said for one in text.split(";") if one.strip().startswith("SET") and "{" in one}
    assert len(sets) == (2 if version >= (18,) else 0)


@pytest.mark.parametrize("generic", [True, False])
async def test_what_each_exchange_runs_is_planned_once_a_connection(postgres: TestDatabase, generic: bool) -> None:
    database = await Database.open(postgres.app, Bounds(connections_max=1))
    for _ in range(8):
        async with database.transaction(None, generic=generic) as tx:
            await tx.fetch("chains_known", new_id(), [new_id()], [b"chain"])
    counts = "SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE statement LIKE $1"  # not itself
    async with database._pool.acquire() as connection:
        assert await connection.fetchval("SHOW plan_cache_mode") == "auto"
        ((custom, once),) = await connection.fetch(counts, "%(session_id, chain)%")
    assert custom + once == 8 and (custom == 0 if generic else custom >= 5)
    await database.close()


async def test_a_fault_does_not_quote_a_value(postgres: TestDatabase) -> None:
    database = await Database.open(postgres.app)
    with pytest.raises(StoreRefused) as caught:
        async with database.transaction(None) as tx:
            await tx._connection.fetchval("SELECT $1::int", "sesame")
    assert "sesame" not in str(caught.value)
    with pytest.raises(StoreRefused) as caught:
        async with database.transaction(None) as tx:
            await tx._connection.fetchval("SELECT 'sesame'::int")
    assert "sesame" not in str(caught.value)
    await database.close()


def test_text_that_postgres_cannot_hold_is_replaced() -> None:
    assert dump_json("plain ü 漢 \ud800") == '"plain ü 漢 \ufffd"'
    assert dump_json({"a\x00": ["\x00", 1, None, "\\u0000"]}) == '{"a\ufffd":["\ufffd",1,null,"\\\\u0000"]}'


def test_a_tcp_link_is_given_up_when_nothing_comes_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as link:
        watch_link(link)
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        probes = [link.getsockopt(socket.IPPROTO_TCP, name) for name in (socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)]
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) + probes[0] * probes[1] <= 15
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


def test_a_unix_link_is_left_as_it_is() -> None:
    one, other = socket.socketpair()
    with one, other:
        watch_link(one)
        assert not one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
