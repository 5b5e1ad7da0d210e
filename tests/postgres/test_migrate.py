"""Migrations: they agree with the committed schema, run twice, and refuse with a remedy."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from memory import migrate_command
from memory.__main__ import main
from memory.adapters.postgres import migrate as migrations
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.migrate import (
    MIGRATIONS_DIR,
    SCHEMA_FILE,
    admits,
    catalogue,
    check,
    ensure_embedding_table,
    lacks,
    migrate,
    pending,
    reached,
    same_database,
)
from memory.adapters.postgres.scopes import Scopes
from memory.config import Settings, load_settings, write_private
from memory.errors import TRY_AGAIN, ModelFileInvalid, StartFailed, StoreUnavailable
from memory.migrate_command import migrated
from memory.model import Scope
from tests.pooler_fixture import forgetful_pooler
from tests.postgres_fixture import DIM, MODEL, MODEL_DIGEST, TEMPLATE, Server, TestDatabase
from tests.valkey_fixture import ValkeyServer


async def test_migrations_and_committed_schema_agree(postgres: TestDatabase) -> None:
    if os.environ.get("WRITE_SCHEMA"):
        SCHEMA_FILE.write_text("\n".join(await catalogue(postgres.owner)) + "\n")
    assert await check(postgres.owner) == []
    assert await check(postgres.app) == []


def test_what_lies_in_a_scope_is_found_by_it(postgres: TestDatabase) -> None:
    """Else who sees all scopes of a large tenant, as each erasure does, has every row held against all of them: 21,000
    rows and 50,000 scopes took 18 s.
    """
    found = postgres.psql(
        "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'scope_id' "
        "WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> 'erasure_items' "
        "AND NOT EXISTS (SELECT FROM pg_index i "
        "JOIN pg_attribute t ON t.attrelid = c.oid AND t.attnum = i.indkey[0] AND t.attname = 'tenant_id' "
        "WHERE i.indrelid = c.oid AND i.indkey[1] = a.attnum AND i.indpred IS NULL) ORDER BY 1"
    )
    assert found.split() == []


async def test_a_migration_may_take_longer_than_a_look_at_what_is_pending(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A large store takes hours, and a run that is killed on the way begins anew at the next start."""
    slow = tmp_path / "dbmate"
    slow.write_text("#!/bin/sh\nsleep 2\necho Pending: 0\n")
    slow.chmod(0o755)
    monkeypatch.setattr(migrations, "_binary", lambda: slow)
    monkeypatch.setattr(migrations, "_STATUS_TIMEOUT_S", 0.2)
    await migrate("postgresql://ada@/none?host=/nowhere")
    with pytest.raises(StartFailed, match="did not end within"):
        await pending("postgresql://ada@/none?host=/nowhere")


async def test_a_schema_that_drifted_is_named(postgres: TestDatabase) -> None:
    postgres.psql("DROP INDEX turns_chain")
    postgres.psql("ALTER TABLE turns NO FORCE ROW LEVEL SECURITY")
    postgres.psql(f"ALTER TABLE {postgres.embeddings} DISABLE ROW LEVEL SECURITY")
    found = "\n".join(await check(postgres.owner))
    assert "- index CREATE INDEX turns_chain" in found
    assert "- table turns rls=t forced=t" in found
    assert "+ table turns rls=t forced=f" in found
    assert postgres.embeddings in found


async def test_a_column_that_no_migration_made_is_named_and_the_start_refused(postgres: TestDatabase) -> None:
    assert await lacks(postgres.owner) == []
    settings = load_settings(None, {"database.url": postgres.owner}, {})
    postgres.psql("ALTER TABLE memories DROP COLUMN reviewed_at")
    postgres.psql("ALTER TABLE memories ADD COLUMN ours text")  # what somebody adds harms nobody
    assert await lacks(postgres.owner) == ["column memories.reviewed_at"]
    with pytest.raises(StartFailed, match=r"no column memories\.reviewed_at \(1 in all\).*remedy:"):
        await migrated(settings)


async def test_a_user_that_may_not_serve_ends_the_start_with_the_remedy(postgres: TestDatabase) -> None:
    """One made for the service before its first start, when there was no mp_app to be a member of."""
    postgres.psql("CREATE ROLE mp_serving LOGIN")
    dsn = postgres.server.dsn(postgres.name, "mp_serving")
    settings = load_settings(None, {"database.url": dsn, "database.owner_url": postgres.owner}, {})
    with pytest.raises(StartFailed, match=r"mp_serving of database\.url .*remedy: GRANT mp_app TO mp_serving"):
        await migrated(settings)


async def test_vectors_that_who_serves_does_not_see_end_the_start_with_the_remedy(postgres_server: Server) -> None:
    """In a schema that is in nobody's search path, or that mp_app may not use."""
    postgres_server.psql("CREATE DATABASE unseen")
    postgres_server.psql("CREATE SCHEMA extensions", "unseen")
    postgres_server.psql("CREATE EXTENSION vector SCHEMA extensions", "unseen")
    url = postgres_server.dsn("unseen", "mp_app")
    urls = {"database.url": url, "database.owner_url": postgres_server.dsn("unseen")}
    for _ in range(2):
        with pytest.raises(StartFailed, match=r"remedy: .*GRANT USAGE ON SCHEMA extensions TO mp_app"):
            await migrated(load_settings(None, urls, {}))
        postgres_server.psql("ALTER DATABASE unseen SET search_path = public, extensions")
    postgres_server.psql("GRANT USAGE ON SCHEMA extensions TO mp_app", "unseen")
    await admits(url)


async def test_a_pooler_that_loses_what_was_prepared_ends_the_start_with_the_remedy(postgres: TestDatabase) -> None:
    """It was retried for ever behind PgBouncer 1.18, or it came up and 47 requests of 50 went without memory."""
    async with forgetful_pooler(postgres.server.root) as port:
        url = f"postgresql://mp_app@127.0.0.1:{port}/{postgres.name}?sslmode=disable"
        urls = {"database.url": url, "database.owner_url": postgres.owner}
        with pytest.raises(StartFailed, match=r"a pooler .*; remedy: set max_prepared_statements"):
            await migrated(load_settings(None, urls, {}))


async def test_a_start_under_another_master_key_than_the_stores_is_refused(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A volume that is not mounted, a data directory of before: a new key is made, and nothing sealed would open."""

    async def nothing(settings: Settings, url: str) -> None:
        """The model is not what is looked at here."""

    monkeypatch.setattr(migrate_command, "settle", nothing)
    overrides = {"database.url": postgres.app, "database.owner_url": postgres.owner, "redis.url": "redis://nowhere"}
    settings = load_settings(None, {**overrides, "data.dir": str(tmp_path)}, {})
    await migrate_command.migrated(settings)  # nothing is sealed yet: any key will do
    await migrate_command.migrated(settings)
    (tmp_path / "master.key").rename(tmp_path / "former.key")
    with pytest.raises(StartFailed, match=r"another master key than .*master\.key.*remedy: .*backup"):
        await migrate_command.migrated(settings)
    given = {"encryption.previous_master_key_file": str(tmp_path / "former.key"), "data.dir": str(tmp_path)}
    await migrate_command.migrated(load_settings(None, {**overrides, **given}, {}))


async def test_of_two_services_that_start_on_an_empty_store_under_two_master_keys_one_is_refused(
    postgres: TestDatabase, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two containers, each with a volume of its own. Both were let in, and the second was never ready and buried what
    the first captured: its workers could open none of it.
    """

    async def nothing(settings: Settings, url: str) -> None:
        """The model is not what is looked at here."""

    monkeypatch.setattr(migrate_command, "settle", nothing)
    urls = {"database.url": postgres.app, "database.owner_url": postgres.owner, "redis.url": valkey.url}
    services = [load_settings(None, {**urls, "data.dir": str(tmp_path / name)}, {}) for name in ("one", "two")]
    for one in services:
        assert one.data.dir is not None
        one.data.dir.mkdir()
    ended = await asyncio.gather(*map(migrate_command.migrated, services), return_exceptions=True)
    refused = [str(one) for one in ended if isinstance(one, StartFailed)]
    assert len(refused) == 1 and ended.count(None) == 1, ended
    assert "services of one store are given the same" in refused[0]


def test_a_command_without_the_services_master_key_is_refused_and_makes_none(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key is in the environment of the service, and the shell of who makes an API key has it not."""
    settings = load_settings(None, {"database.url": postgres.app, "data.dir": str(tmp_path)}, {})
    write_private(settings, tmp_path / "settings.json")
    monkeypatch.setenv("MEMORY_PROXY_SETTINGS", str(tmp_path / "settings.json"))
    monkeypatch.setattr("memory.__main__.configure_logging", lambda *_: None)
    asked = {"act": "create", "json": False, "name": "ci", "fixed": {}, "defaults": {}, "capabilities": []}
    asked |= {"ceiling": "internal", "expires_in_s": None, "limits": {}}

    def create(tenant: str) -> int:
        monkeypatch.setattr(sys, "argv", ["memory", "key", json.dumps(asked | {"tenant": tenant})])
        return main()

    monkeypatch.setenv("MEMORY_PROXY_MASTER_KEY", base64.b64encode(b"k" * 32).decode())
    assert create("first") == 0
    monkeypatch.delenv("MEMORY_PROXY_MASTER_KEY")
    assert create("acme") == 2
    assert "give the command MEMORY_PROXY_MASTER_KEY" in capsys.readouterr().err
    assert not (tmp_path / "master.key").exists()
    (tmp_path / "master.key").write_bytes(b"o" * 32)  # of before the key was moved to the environment
    (tmp_path / "master.key").chmod(0o600)
    assert create("acme") == 2
    assert "another master key than" in capsys.readouterr().err
    assert postgres.psql("SELECT string_agg(name, ',') FROM tenants") == "first"


@pytest.mark.parametrize(("command", "goes_on"), [("redact", True), ("reembed", True), ("audit", False)])
def test_a_long_command_whose_store_goes_says_that_the_same_again_goes_on(
    command: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = load_settings(None, {"database.url": f"postgresql:///x?host={tmp_path}", "data.dir": str(tmp_path)}, {})
    write_private(away, tmp_path / "settings.json")
    monkeypatch.setenv("MEMORY_PROXY_SETTINGS", str(tmp_path / "settings.json"))
    monkeypatch.setattr("memory.__main__.configure_logging", lambda *_: None)
    monkeypatch.setenv("MEMORY_PROXY_MASTER_KEY", base64.b64encode(b"k" * 32).decode())
    monkeypatch.setattr(sys, "argv", ["memory", command])
    assert main() == TRY_AGAIN
    assert ("what was done is kept; the same command goes on there" in capsys.readouterr().err) is goes_on


async def test_a_start_on_the_queue_of_another_store_is_refused(
    postgres: TestDatabase,
    postgres_server: Server,
    valkey: ValkeyServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Each would bury the other's entries, which it cannot open."""

    async def nothing(settings: Settings, url: str) -> None:
        """The model is not what is looked at here."""

    monkeypatch.setattr(migrate_command, "settle", nothing)
    other = postgres_server.fresh()

    def service(store: TestDatabase, redis: str) -> Settings:
        urls = {"database.url": store.app, "database.owner_url": store.owner, "redis.url": redis}
        return load_settings(None, {**urls, "data.dir": str(tmp_path)}, {})

    for _ in range(2):  # at a restart too
        await migrate_command.migrated(service(postgres, valkey.url))
    with pytest.raises(
        StartFailed, match=r"queue of another memory-proxy .*remedy: give each a database of its own"
    ) as no:
        await migrate_command.migrated(service(other, valkey.url))
    assert f"of the embedded Valkey, which runs only with the service, move {tmp_path}/valkey away" in str(no.value)
    await migrate_command.migrated(service(other, f"{valkey.url}?db=1"))
    postgres_server.psql(f"DROP DATABASE {other.name} WITH (FORCE)")


async def test_a_journal_of_erasures_that_cannot_be_read_ends_the_start_with_the_remedy(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A directory named in its place; what it says must be heard before anybody is answered."""

    async def nothing(settings: Settings, url: str) -> None:
        """The model is not what is looked at here."""

    monkeypatch.setattr(migrate_command, "settle", nothing)
    overrides = {"database.url": postgres.app, "database.owner_url": postgres.owner, "redis.url": "redis://nowhere"}
    given = {**overrides, "data.dir": str(tmp_path), "erasure.journal": str(tmp_path)}
    with pytest.raises(StartFailed, match=r"erasure\.journal .*: Is a directory; remedy: "):
        await migrate_command.migrated(load_settings(None, given, {}))


async def test_migrating_twice_changes_nothing(postgres: TestDatabase) -> None:
    before = await catalogue(postgres.owner)
    await migrate(postgres.owner)
    assert await pending(postgres.owner) == 0
    assert await catalogue(postgres.owner) == before


async def test_another_programs_environment_file_is_not_read(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the service is started, as in the directory of a project."""
    (tmp_path / ".env").write_text("set -a\nAPI KEY: hunter2\n")
    monkeypatch.chdir(tmp_path)
    await migrate(postgres.owner)


@pytest.mark.parametrize(
    ("name", "value"),
    [("PGHOSTADDR", "127.0.0.1"), ("PGSERVICE", "theirs"), ("PGOPTIONS", "-c search_path=elsewhere")],
)
async def test_the_database_that_is_migrated_is_the_one_that_is_served(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Who works with another Postgres has such variables in every shell; the service's driver heeds none of these."""
    postgres.psql("CREATE SCHEMA elsewhere")
    monkeypatch.setenv(name, value)
    assert await pending(postgres.owner) == 0


async def test_a_database_that_is_served_and_another_that_is_migrated_are_refused(
    postgres: TestDatabase, postgres_server: Server
) -> None:
    postgres_server.psql(f"CREATE DATABASE twin TEMPLATE {TEMPLATE}")
    twin = postgres_server.dsn("twin")
    settings = load_settings(None, {"database.url": postgres.owner, "database.owner_url": twin}, {})
    with pytest.raises(StartFailed, match=r"lead to two databases.*remedy: name one"):
        await migrated(settings)
    await same_database(twin, postgres_server.dsn("twin"))


async def test_two_starters_do_not_race(postgres_server: Server) -> None:
    postgres_server.psql("CREATE DATABASE raced")
    dsn = postgres_server.dsn("raced")
    assert await pending(dsn) == len(list(MIGRATIONS_DIR.glob("*.sql")))
    await asyncio.gather(*(migrate(dsn) for _ in range(3)))
    assert await check(dsn) == []


async def test_an_owner_without_superuser_can_migrate(postgres_server: Server) -> None:
    postgres_server.psql("CREATE ROLE mp_outside LOGIN CREATEROLE")
    postgres_server.psql("CREATE DATABASE elsewhere OWNER mp_outside")
    postgres_server.psql("CREATE EXTENSION vector", "elsewhere")
    for role in ("mp_app", "mp_backup"):
        postgres_server.psql(f"GRANT {role} TO mp_outside WITH ADMIN OPTION")
    dsn = postgres_server.dsn("elsewhere", "mp_outside")
    await migrate(dsn)
    assert await check(dsn) == []
    await ensure_embedding_table(dsn, MODEL, MODEL_DIGEST, DIM)


async def test_an_owner_without_superuser_makes_the_roles_itself(private_postgres: Server) -> None:
    """On a cluster that has never seen this project, and serves through the owner's own connection."""
    server = private_postgres
    server.psql(f"DROP DATABASE {TEMPLATE}")
    server.psql("DROP ROLE mp_app")
    server.psql("DROP ROLE mp_backup")
    server.psql("CREATE ROLE mp_outside LOGIN CREATEROLE")
    server.psql("CREATE DATABASE elsewhere OWNER mp_outside")
    server.psql("CREATE EXTENSION vector", "elsewhere")
    dsn = server.dsn("elsewhere", "mp_outside")
    await migrate(dsn)
    assert await check(dsn) == []
    database = await Database.open(dsn)
    tenant = await KeyStore(database).ensure_tenant("default", datetime(2026, 11, 21, tzinfo=UTC))
    assert (await Scopes(database).ensure(Scope(tenant))) == 1
    assert server.psql("SELECT rolbypassrls FROM pg_roles WHERE rolname = 'mp_backup'") == "f"
    await database.close()


async def test_an_owner_with_a_schema_of_its_own_is_told_where_the_tables_must_be(postgres_server: Server) -> None:
    """By default a role's own schema is where it makes things, if there is one; nothing is made in it."""
    postgres_server.psql("CREATE ROLE mp_housed LOGIN")
    postgres_server.psql("CREATE DATABASE housed OWNER mp_housed")
    postgres_server.psql("CREATE EXTENSION vector", "housed")
    postgres_server.psql("CREATE SCHEMA AUTHORIZATION mp_housed", "housed")
    dsn = postgres_server.dsn("housed", "mp_housed")
    with pytest.raises(StartFailed, match=r"made in schema mp_housed, .*remedy: .*search_path = public"):
        await migrated(load_settings(None, {"database.url": dsn}, {}))
    assert postgres_server.psql("SELECT count(*) FROM pg_tables WHERE schemaname = 'mp_housed'", "housed") == "0"


async def test_a_database_that_lacks_most_characters_is_refused_while_it_is_empty(postgres_server: Server) -> None:
    """As clusters made under another locale have them: an answer with a smiling face would become a dead letter."""
    kind = "ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
    postgres_server.psql(f"CREATE DATABASE latin {kind}")
    dsn = postgres_server.dsn("latin")
    with pytest.raises(StartFailed, match=r"encoding LATIN1, .*remedy: CREATE DATABASE … ENCODING 'UTF8'"):
        await migrated(load_settings(None, {"database.url": dsn}, {}))
    await migrate(dsn)  # by an earlier version
    await reached(dsn)


async def test_a_server_that_gives_too_little_time_is_named_with_the_remedy(postgres_server: Server) -> None:
    """As managed servers have it for their users: a migration of a large store takes longer than two minutes."""
    postgres_server.psql("CREATE ROLE mp_hurried LOGIN SUPERUSER")
    postgres_server.psql("ALTER ROLE mp_hurried SET statement_timeout = 1")
    postgres_server.psql("CREATE DATABASE hurried OWNER mp_hurried")
    with pytest.raises(StartFailed, match=r"remedy: .*ALTER ROLE … SET statement_timeout = 0"):
        await migrate(postgres_server.dsn("hurried", "mp_hurried"))


async def test_a_missing_extension_is_refused_with_the_remedy(postgres_server: Server) -> None:
    postgres_server.psql("CREATE ROLE stranger LOGIN")
    postgres_server.psql("CREATE DATABASE bare OWNER stranger")
    with pytest.raises(StartFailed, match="administrator CREATE EXTENSION vector"):
        await migrate(postgres_server.dsn("bare", "stranger"))


async def test_a_model_keeps_its_dimension(postgres: TestDatabase) -> None:
    assert await ensure_embedding_table(postgres.owner, MODEL, MODEL_DIGEST, DIM) == postgres.embeddings
    with pytest.raises(ModelFileInvalid, match="384 dimensions, its file has 256"):
        await ensure_embedding_table(postgres.owner, MODEL, MODEL_DIGEST, 256)
    other = await ensure_embedding_table(postgres.owner, "Org/Other Model", "1" * 64, 256)
    assert other.startswith("memory_embeddings_org_other_model_")
    assert await check(postgres.owner) == []


@pytest.mark.parametrize("password", ["horse staple", "ho%rse", "horse%20staple"])
async def test_a_password_that_is_not_quoted_is_taken_and_never_said(password: str) -> None:
    with pytest.raises(StoreUnavailable, match="connection refused") as caught:
        await migrate(f"postgresql://somebody:{password}@127.0.0.1:1/nothing")
    assert "horse" not in str(caught.value)
    assert "staple" not in str(caught.value)


@pytest.mark.parametrize("password", ["horse/staple", "horse?staple", "horse#staple", "horse[staple"])
async def test_a_password_that_ends_the_address_is_refused_with_the_remedy_and_never_said(password: str) -> None:
    with pytest.raises(StartFailed, match="%2F") as caught:
        await migrate(f"postgresql://somebody:{password}@127.0.0.1:1/nothing")
    assert "horse" not in str(caught.value)
    assert "staple" not in str(caught.value)


async def test_an_unreachable_database_is_named() -> None:
    with pytest.raises(StoreUnavailable):
        await check("postgresql://nobody@/none?host=/nonexistent&port=5432")
    with pytest.raises(StartFailed):
        await migrate("postgresql://nobody@/none?host=/nonexistent&port=5432")


@pytest.mark.parametrize(
    "said",
    [
        "Error: read unix @->/run/.s.PGSQL.5432: read: connection reset by peer",
        "Error: write tcp 10.0.0.2:5432: write: broken pipe",
        "Error: driver: bad connection",
        "Error: unexpected EOF",
        "Error: migration lock was lost: the database connection was reset during the migration",
        "Error: pq: terminating connection due to administrator command",
        "Error: pq: the database system is shutting down",
        "Error: dial tcp 10.0.0.2:5432: connect: connection refused",
        "Error: dial tcp: lookup db.example on 10.0.0.53:53: no such host",
        "Error: dial tcp: lookup db.example on 10.0.0.53:53: server misbehaving",
        "Error: dial tcp: lookup db.example: i/o timeout",
        "Error: dial tcp 10.0.0.2:5432: i/o timeout",
        "Error: dial tcp 10.0.0.2:5432: connect: no route to host",
        "Error: timed out after 5m0s waiting for migration lock (is another dbmate instance running?)",
        "Error: pq: canceling statement due to lock timeout (55P03)",
    ],
)
async def test_a_start_waits_for_a_database_that_goes_while_it_is_migrated_or_that_another_migrates(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As dbmate says it: a start that is refused for good ends the service, and this one would end well."""
    _dbmate_says(said, tmp_path, monkeypatch)
    with pytest.raises(StoreUnavailable, match="could not be migrated to the end yet"):
        await migrate("postgresql://somebody@/some")


async def test_a_start_comes_again_where_what_migrates_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever frees memory: what it was at is undone, and the next try does it."""
    dbmate = tmp_path / "dbmate"
    dbmate.write_text("#!/bin/sh\necho 'Applying: 0001_foundation.sql'\nkill -9 $$\n")
    dbmate.chmod(0o755)
    monkeypatch.setattr(migrations, "_binary", lambda: dbmate)
    with pytest.raises(StoreUnavailable, match="could not be migrated to the end yet"):
        await migrate("postgresql://somebody@/some")


@pytest.mark.parametrize(
    "said",
    [
        'Error: pq: could not extend file "base/12784/2610": No space left on device (53100)',
        'Error: pq: could not extend file "base/12784/18027": wrote only 4096 of 8192 bytes at block 0 (53100)',
    ],
)
async def test_a_disk_that_is_full_is_named_with_the_remedy(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As dbmate said it of one with 1,000 KiB left, and with 200: neither the database nor its owner is at fault."""
    _dbmate_says(said, tmp_path, monkeypatch)
    with pytest.raises(StartFailed, match=r"remedy: .*free some space"):
        await migrate("postgresql://somebody@/some")


def _dbmate_says(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails, with these words."""
    dbmate = tmp_path / "dbmate"
    dbmate.write_text(f"#!/bin/sh\necho 'Applying: 0027_rest_of_scope.sql'\necho '{said}'\nexit 1\n")
    dbmate.chmod(0o755)
    monkeypatch.setattr(migrations, "_binary", lambda: dbmate)


async def test_a_start_comes_again_after_a_deadlock_with_a_service_that_goes_on_meanwhile(
    postgres_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling upgrade: 0028 holds the versions and waits for the feed, which a reader holds that waits for them."""
    (tmp_path / "0001_two.sql").write_text(
        "-- migrate:up\nALTER TABLE versions ADD COLUMN held boolean;\n"
        "SELECT pg_advisory_xact_lock(1);\nALTER TABLE feed ADD COLUMN seen boolean;\n-- migrate:down\n"
    )
    monkeypatch.setattr(migrations, "MIGRATIONS_DIR", tmp_path)
    postgres_server.psql("CREATE DATABASE rolling")
    dsn = postgres_server.dsn("rolling")
    async with _connected(dsn) as gate, _connected(dsn) as reader:
        await gate.execute("CREATE TABLE versions (); CREATE TABLE feed (); SELECT pg_advisory_lock(1)")
        await reader.execute("SET deadlock_timeout = '1h'; BEGIN; SELECT FROM feed")
        migrating = asyncio.create_task(migrate(dsn))
        await _waiting(gate, "advisory")
        reading = asyncio.create_task(reader.execute("SELECT FROM versions"))
        await _waiting(gate, "relation")
        await gate.execute("SELECT pg_advisory_unlock(1)")
        with pytest.raises(StoreUnavailable, match="deadlock detected"):
            await migrating
        await reading
        await reader.execute("COMMIT")
    await migrate(dsn)
    assert await pending(dsn) == 0


@contextlib.asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        connection.terminate()


async def _waiting(gate: asyncpg.Connection, kind: str) -> None:
    """Until somebody waits for a lock of this kind in this database."""
    asked = (
        "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
        "WHERE d.datname = current_database() AND NOT granted AND locktype = $1)"
    )
    while not await gate.fetchval(asked, kind):
        await asyncio.sleep(0.02)


async def test_a_start_waits_for_a_database_that_is_not_there_yet(private_postgres: Server) -> None:
    """Its machine, or the container beside ours, starts after us: what is refused for good ends the service."""
    elsewhere = ["127.0.0.1:1/some", "no-such-host.invalid/some", "@/some?host=/nonexistent&port=5432"]
    for where in elsewhere:
        with pytest.raises(StoreUnavailable, match="does not answer yet"):
            await migrated(load_settings(None, {"database.url": f"postgresql://{where}"}, {}))
    private_postgres.psql("ALTER SYSTEM SET max_connections = 4")
    private_postgres.stop()
    private_postgres.start()
    settings = load_settings(None, {"database.url": private_postgres.dsn("none")}, {})
    async with contextlib.AsyncExitStack() as closing:
        with pytest.raises(asyncpg.TooManyConnectionsError):
            for _ in range(5):
                closing.push_async_callback((await asyncpg.connect(private_postgres.dsn("postgres"))).close)
        with pytest.raises(StoreUnavailable, match="does not answer yet"):
            await migrated(settings)
    with pytest.raises(StartFailed, match="does not exist"):
        await migrated(settings)


async def test_a_server_without_tls_is_refused_with_the_remedy() -> None:
    async def without_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)  # SSLRequest; `N` is how a Postgres without TLS answers it
        writer.write(b"N")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(without_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StartFailed, match="sslmode=disable"):
            await migrate(f"postgresql://somebody@127.0.0.1:{port}/some")
        with pytest.raises(StartFailed, match="sslmode=disable"):
            url = f"postgresql://somebody@127.0.0.1:{port}/some?sslmode=require"
            await migrated(load_settings(None, {"database.url": url}, {}))
