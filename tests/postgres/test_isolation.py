"""Row-level security: with the application's filter left out, a foreign identity still sees nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.postgres.seed import SUBJECT, T0, Stores, chunk, exchange, stores
from tests.postgres_fixture import TestDatabase

TENANT_TABLES = (
    "scopes",
    "scope_versions",
    "subjects",
    "data_keys",
    "tombstones",
    "audit_log",
    "audit_heads",
    "reembed_progress",
    "document_due",
)
SCOPE_TABLES = (
    "sessions", "exchanges", "turns", "memories", "memory_versions", "memory_access", "provenance", "derivations",
    "retrievals", "ledger", "import_chunks", "outbox", "checkpoints", "checkpoint_versions", "checkpoint_parts",
    "personas", "entities", "entity_aliases", "relationships", "entity_history", "artifacts",
    "tasks", "task_edges", "task_history", "documents", "document_uploads", "document_chunks",
)  # fmt: skip
OTHERS = (("eve", "p", "a"), ("ada", "q", "a"), ("ada", "p", "b"))


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    """One row at least in every table, for one identity; the foreign ones exist and are empty."""
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        one, items = chunk(made.scope(), [("t", "text", "src")])
        await made.imports.commit_import(one, items, subject_id=SUBJECT, lane="live-0", fence=made.fence, now=T0)
        tenant = f"'{made.tenant}'"
        key = "decode(repeat('00', 32), 'hex')"
        for statement in (
            f"INSERT INTO data_keys VALUES ({tenant}, gen_random_uuid(), NULL, 'x', now())",
            f"INSERT INTO tombstones VALUES ({tenant}, 'content', {key}, now())",
            f"INSERT INTO audit_heads VALUES ({tenant}, 0, {key})",
            f"INSERT INTO audit_log VALUES ({tenant}, 1, now(), 'a', 'b', 'noted', '', '{{}}', '{{}}', {key}, {key})",
            "INSERT INTO reembed_progress SELECT tenant_id, scope_id, model_id, 1, gen_random_uuid() "
            "FROM scopes, embedding_models",
            "INSERT INTO memory_access SELECT tenant_id, memory_id, scope_id FROM memories",
            "INSERT INTO checkpoints SELECT tenant_id, gen_random_uuid(), scope_id, 'c', 1, NULL, NULL, NULL, now(), "
            "now() FROM memories LIMIT 1",
            "INSERT INTO personas SELECT tenant_id, gen_random_uuid(), scope_id, 'p', 1, memory_id, '{}', now(), now() "
            "FROM memories LIMIT 1",
            "INSERT INTO tasks SELECT tenant_id, memory_id, scope_id, memory_id, 1, 'queued', NULL, now(), now() "
            "FROM memories",
            "INSERT INTO task_edges SELECT a.tenant_id, a.task_id, b.task_id, a.scope_id FROM tasks a JOIN tasks b "
            "USING (tenant_id, scope_id) WHERE a.task_id < b.task_id",
            "INSERT INTO task_history SELECT tenant_id, task_id, 1, scope_id, NULL, status, 'open', now() FROM tasks",
            "INSERT INTO entities SELECT tenant_id, memory_id, scope_id, 1, 'person', memory_id, NULL, now(), now() "
            "FROM memories",
            f"INSERT INTO entity_aliases SELECT tenant_id, entity_id, substring({key}, 1, 16), card_id, scope_id "
            "FROM entities",
            "INSERT INTO relationships SELECT a.tenant_id, a.entity_id, a.scope_id, a.entity_id, b.entity_id, 'knows', "
            "a.card_id, NULL, NULL, now() FROM entities a JOIN entities b USING (tenant_id, scope_id) "
            "WHERE a.entity_id < b.entity_id AND NOT EXISTS (SELECT FROM entities c WHERE c.tenant_id = a.tenant_id "
            "AND c.scope_id = a.scope_id AND c.entity_id > a.entity_id AND c.entity_id < b.entity_id)",
            "INSERT INTO entity_history SELECT tenant_id, entity_id, 1, scope_id, 'added', NULL, 'open', now() "
            "FROM entities",
            "INSERT INTO artifacts SELECT tenant_id, memory_id, scope_id, memory_id, NULL, memory_id, 1, "
            "repeat('0', 64), 1, 'text/plain', NULL, NULL, now(), now() FROM memories",
            "INSERT INTO checkpoint_versions SELECT tenant_id, checkpoint_id, 1, scope_id, 0, now() FROM checkpoints",
            "INSERT INTO checkpoint_parts SELECT tenant_id, checkpoint_id, 1, 0, scope_id, 'fact', memory_id, 1, false "
            "FROM checkpoints JOIN memories USING (tenant_id, scope_id) LIMIT 1",
            "INSERT INTO documents SELECT tenant_id, session_id, scope_id, NULL, 'd' || session_id, 0, 'text/plain', "
            f"{key}, 1, 1, 0, 'auto', NULL, 'user', 'internal', now(), now(), NULL FROM sessions",
            "INSERT INTO document_uploads (tenant_id, upload_id, document_id, scope_id, subject_id, status, media_type,"
            " sha256, bytes, chars, pages, integrity, sensitivity, sealed, created_at) SELECT tenant_id, document_id,"
            " document_id, scope_id, document_id, 'waiting', '', sha256, 1, 1, 0, 'user', 'internal', 'x', now() FROM"
            " documents",
            "INSERT INTO document_due SELECT tenant_id, upload_id, scope_id, now() FROM document_uploads",
            "INSERT INTO document_chunks SELECT m.tenant_id, d.document_id, row_number() OVER (), m.scope_id,"
            " m.memory_id, 0, 1 FROM memories m, (SELECT document_id FROM documents LIMIT 1) d",
        ):
            postgres.psql(statement)
        for names in OTHERS:
            await made.scopes.ensure(made.scope(*names))
        yield made


async def seen(postgres: TestDatabase, tenant: object, scope_ids: list[int]) -> dict[str, int]:
    """How many rows `SELECT *` shows of every table, as mp_app under these settings."""
    connection: Any = await asyncpg.connect(postgres.app)
    await connection.execute("SELECT set_config('mp.tenant', '', false)")
    settings = (str(tenant or ""), "{" + ",".join(map(str, scope_ids)) + "}")
    await connection.fetch("SELECT set_config('mp.tenant', $1, false), set_config('mp.scopes', $2, false)", *settings)
    tables = (*TENANT_TABLES, *SCOPE_TABLES, postgres.embeddings)
    found = {table: len(await connection.fetch(f"SELECT * FROM {table}")) for table in tables}
    await connection.close()
    return found


async def test_the_own_identity_sees_its_rows(store: Stores, postgres: TestDatabase) -> None:
    """Otherwise the other tests here would prove nothing."""
    found = await seen(postgres, store.tenant, [await store.scopes.ensure(store.scope())])
    assert all(found.values()), found


@pytest.mark.parametrize("names", OTHERS)
async def test_another_user_project_or_agent_sees_no_content(
    store: Stores, postgres: TestDatabase, names: tuple[str, str, str]
) -> None:
    found = await seen(postgres, store.tenant, [await store.scopes.ensure(store.scope(*names))])
    assert {table: found[table] for table in (*SCOPE_TABLES, postgres.embeddings)} == dict.fromkeys(
        (*SCOPE_TABLES, postgres.embeddings), 0
    )


async def test_another_tenant_sees_nothing_even_with_the_right_scope_ids(store: Stores, postgres: TestDatabase) -> None:
    other = await store.keys.ensure_tenant("other", T0)
    found = await seen(postgres, other, [await store.scopes.ensure(store.scope())])
    assert set(found.values()) == {0}


async def test_without_settings_nothing_is_seen(store: Stores, postgres: TestDatabase) -> None:
    assert set((await seen(postgres, None, [])).values()) == {0}
    connection: Any = await asyncpg.connect(postgres.app)
    assert await connection.fetch("SELECT * FROM turns") == []
    await connection.close()


async def test_a_foreign_row_cannot_be_written_changed_or_deleted(store: Stores, postgres: TestDatabase) -> None:
    scope_id = await store.scopes.ensure(store.scope("eve"))
    own = await store.scopes.ensure(store.scope())
    connection: Any = await asyncpg.connect(postgres.app)
    settings = (str(store.tenant), f"{{{scope_id}}}")
    await connection.fetch("SELECT set_config('mp.tenant', $1, false), set_config('mp.scopes', $2, false)", *settings)
    assert await connection.execute("UPDATE turns SET content = 'x'") == "UPDATE 0"
    assert await connection.execute("DELETE FROM memories") == "DELETE 0"
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute(
            "INSERT INTO outbox VALUES ($1, gen_random_uuid(), $2, 'created', gen_random_uuid(), now())",
            store.tenant,
            own,
        )
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("ALTER TABLE turns NO FORCE ROW LEVEL SECURITY")
    await connection.close()


async def test_every_table_with_a_tenant_is_under_forced_row_level_security(postgres: TestDatabase) -> None:
    """A table added later without a policy is found here."""
    open_tables = postgres.psql(
        "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'"
        " WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
        " AND NOT (c.relrowsecurity AND c.relforcerowsecurity) ORDER BY 1"
    )
    assert open_tables.split() == ["api_keys", "tenants"]


async def test_backup_reads_everything_and_writes_nothing(store: Stores, postgres: TestDatabase) -> None:
    connection: Any = await asyncpg.connect(postgres.server.dsn(postgres.name, "mp_backup"))
    assert len(await connection.fetch("SELECT * FROM turns")) == 3
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("DELETE FROM turns")
    await connection.close()
