"""Every named query: prepares, says what it takes and gives, and uses the index it names, as mp_app."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from memory.adapters.postgres.database import _prepare
from memory.adapters.postgres.queries import Query, load_queries, queries_in
from tests.postgres_fixture import Server, TestDatabase, binaries, in_thread

TENANT = "00000000-0000-0000-0000-000000000001"
QUERIES = load_queries()
OWNER_ONLY = {
    "add_embedding_model",
    "create_embedding_table",
    "add_embedding_table",
    "place_embedding_model",
    "guard_embedding_table",
    "drop_standby_model",
    "serve_model",
}
SERVED = [name for name in QUERIES if name not in OWNER_ONLY and "catalogue" not in name]
# Each is a few rows out of a scope, and read all of one that seemed to hold next to nothing.
SOME_OF_A_SCOPE = (
    "lines_by_source",
    "lines_by_digest",
    "working_state",
    "facts_to_redact",
    "procedures_to_redact",
    "turns_are_clean",
    "versions_are_clean",
    "lock_session",
    "session_tail",
    "session_by_label",
    "session_to_erase",
    "memories_of_sessions",
    "turns_behind",
    "keep_untold",
    "drop_nameless_entities",
    "versions_of",
)
# And a page of one, with what belongs to each: a join that the planner may turn round reads all of that.
A_PAGE_OF_A_SCOPE = (
    "hygiene_memories",
    "memories_hidden",
    "memories_within",
    "memories_to_redact",
    "versions_with_tokens",
)
# What ANALYZE says of a store of so many scopes; 200 of whatever is asked for, as a plan made for its arguments knows.
OF_MANY_SCOPES = """
BEGIN;
UPDATE pg_statistic s SET stadistinct = 10000
FROM pg_attribute a
WHERE a.attrelid = s.starelid AND a.attnum = s.staattnum AND a.attname = 'scope_id' AND a.attrelid > 16383;
SET ROLE mp_app;
SET plan_cache_mode = force_custom_plan;
SELECT array_agg(n) AS int4s, array_agg(md5(n::text)) AS texts, array_agg(md5(n::text)::uuid) AS uuids,
       array_agg(sha256(n::text::bytea)) AS byteas, 20 AS int8, 20 AS int4, false AS bool, ARRAY[20::int8] AS int8s,
       sha256('some') AS bytea,
       '2000-01-01Z'::timestamptz AS timestamptz, '{tenant}'::uuid AS uuid, 'some' AS text
FROM generate_series(1, 200) n \\gset
"""

# 20 scopes, 1,000 sessions of 20 turns, a memory with one vector for each turn; another tenant has as much again.
SEED = """
CREATE TEMP TABLE t AS SELECT ('00000000-0000-0000-0000-00000000000' || n)::uuid AS id FROM generate_series(1, 2) n;
CREATE FUNCTION pg_temp.id(tenant uuid, kind text, n bigint) RETURNS uuid LANGUAGE sql AS
    $$ SELECT md5(tenant::text || kind || n)::uuid $$;
CREATE FUNCTION pg_temp.key(tenant uuid, kind text, n bigint) RETURNS bytea LANGUAGE sql AS
    $$ SELECT sha256((tenant::text || kind || n)::bytea) $$;
INSERT INTO tenants SELECT id, 'tenant ' || id, now() FROM t;
INSERT INTO tenants SELECT md5(n::text)::uuid, 'more ' || n, now() FROM generate_series(1, 2000) n;
INSERT INTO scopes (tenant_id, scope_id, user_name, project, agent) OVERRIDING SYSTEM VALUE
    SELECT id, n, 'u' || n, 'p', 'a' FROM t, generate_series(1, 2000) n;
INSERT INTO scope_versions SELECT tenant_id, scope_id, 0, 0 FROM scopes;
INSERT INTO subjects SELECT id, pg_temp.id(id, 'subject', n), 'u' || n, now() FROM t, generate_series(1, 2000) n;
INSERT INTO data_keys (tenant_id, key_id, subject_id, wrapped, created_at)
    SELECT id, pg_temp.id(id, 'key', n), pg_temp.id(id, 'subject', n), 'x', now() FROM t, generate_series(1, 2000) n;
INSERT INTO api_keys (key_id, tenant_id, prefix, secret_sha256, name, created_at)
    SELECT tenant_id, tenant_id, 'p', pg_temp.key(tenant_id, 'api', 1), 'k', now() FROM tenants;
INSERT INTO lane_leases SELECT 'lane-' || n, 'w', 1, now() FROM generate_series(1, 2000) n;
INSERT INTO lane_workers SELECT 'w' || n, now() FROM generate_series(1, 2000) n;
INSERT INTO sessions (tenant_id, session_id, scope_id, label, next_seq, created_at, last_at)
    SELECT id, pg_temp.id(id, 'session', n), 1 + n % 20, 's' || n, 20, now() - n * interval '1 s', now()
    FROM t, generate_series(0, 999) n;
INSERT INTO exchanges (tenant_id, exchange_id, scope_id, session_id, subject_id, origin, status, arrived_at,
                       finished_at, recorded_at, sealed)
    SELECT id, pg_temp.id(id, 'exchange', n), 1 + n % 1000 % 20, pg_temp.id(id, 'session', n % 1000), id, 'live',
           'complete', now(), now() - n * interval '1 s', now(), CASE WHEN n % 50 = 0 THEN 'x'::bytea END
    FROM t, generate_series(0, 3999) n;
INSERT INTO turns (tenant_id, event_id, scope_id, session_id, exchange_id, seq, chain, parent_chain, role, content,
                   source_id, line_digest, origin, integrity, sensitivity, occurred_at, recorded_at)
    SELECT id, pg_temp.id(id, 'turn', n), 1 + n / 20 % 20, pg_temp.id(id, 'session', n / 20), id, n % 20,
           pg_temp.key(id, 'turn', n), CASE WHEN n % 20 > 0 THEN pg_temp.key(id, 'turn', n - 1) END, 'user',
           'some text ' || n, CASE WHEN n % 2 = 0 THEN 'src-' || n END, pg_temp.key(id, 'line', n), 'live', 'user',
           'internal', now(), now()
    FROM t, generate_series(0, 19999) n;
INSERT INTO memories (tenant_id, memory_id, scope_id, kind, content_key, session_id, changed_version, created_at)
    SELECT tenant_id, md5(event_id::text || 'm')::uuid, scope_id, 'episodic', sha256(event_id::text::bytea), session_id,
           row_number() OVER (PARTITION BY tenant_id, scope_id), now() - seq * interval '1 s'
    FROM turns;
INSERT INTO memory_versions (tenant_id, memory_id, version, scope_id, content, role, integrity, sensitivity, origin,
                             recorded_from)
    SELECT tenant_id, memory_id, 1, scope_id, 'some text', 'user', 'user', 'internal', 'live', now() FROM memories;
INSERT INTO memory_access SELECT tenant_id, memory_id, scope_id, 1, now(), changed_version FROM memories;
INSERT INTO provenance SELECT tenant_id, memory_id, 1, scope_id, 'live', 'm', '1', NULL, now() FROM memories;
INSERT INTO derivations
    SELECT tenant_id, md5(event_id::text || 'm')::uuid, 'memory', event_id, 'turn', 0, scope_id FROM turns;
INSERT INTO facts
    SELECT tenant_id, memory_id, scope_id, 's' || changed_version % 50, 'p', 'o' || changed_version, false, 'many',
           'fact', 'current', now(), 1, false, '', '', false FROM memories;
INSERT INTO fact_sayings
    SELECT tenant_id, derived_id, source_id, scope_id, now(), 1, 0, 'user', 'internal', false, '', '', false, false
    FROM derivations;
INSERT INTO procedures
    SELECT tenant_id, memory_id, scope_id, 't' || changed_version % 50, 'taught', changed_version, 'approved', '',
           false, NULL, 0, 0 FROM memories;
INSERT INTO procedure_teachings
    SELECT tenant_id, derived_id, source_id, scope_id, now(), 1, 0, 9 FROM derivations;
INSERT INTO procedure_runs
    SELECT tenant_id, memory_id, scope_id, 'p' || changed_version % 50, true, now() FROM memories;
INSERT INTO extraction_due (tenant_id, exchange_id, scope_id, session_id, seq_from, seq_to, since)
    SELECT tenant_id, exchange_id, scope_id, session_id, 0, 0, finished_at FROM exchanges;
INSERT INTO outdated_turns SELECT tenant_id, memory_id, memory_id, scope_id FROM memories;
INSERT INTO untold_turns SELECT tenant_id, event_id, scope_id FROM turns;
INSERT INTO personal_tokens
    SELECT id, 1 + n % 20, '[kept:email:' || translate(md5(n::text), '0189', 'wxyz')::char(26) || ']',
           pg_temp.id(id, 'subject', n), 'email', 'x', now()
    FROM t, generate_series(1, 4000) n;
INSERT INTO source_writes
    SELECT tenant_id, scope_id, pg_temp.key(tenant_id, 'source', n), now() - n * interval '1 hour', 1
    FROM scopes, generate_series(1, 2) n;
INSERT INTO consolidation_runs SELECT md5(n::text)::uuid, now() - n * interval '1 day' FROM generate_series(1, 2000) n;
INSERT INTO consolidation_progress (tenant_id, run_id, step) SELECT t.id, run_id, 'expired' FROM t, consolidation_runs;
INSERT INTO ledger (tenant_id, session_id, chain, scope_id, epoch, position, created_at)
    SELECT tenant_id, session_id, chain, scope_id, 0, seq, now() FROM turns;
INSERT INTO retrievals (tenant_id, retrieval_id, scope_id, session_id, exchange_id, status, config_digest,
                        embedding_model, candidates, placements, millis, sha256_sent, sealed, created_at)
    SELECT tenant_id, md5(exchange_id::text)::uuid, scope_id, session_id, exchange_id, 'empty', 'c', 'm', '[]', '[]', 1,
           'x', sealed, finished_at FROM exchanges;
INSERT INTO tombstones SELECT id, 'content', pg_temp.key(id, 'tomb', n), now() FROM t, generate_series(1, 4000) n;
INSERT INTO audit_heads SELECT tenant_id, 1, pg_temp.key(tenant_id, 'head', 1) FROM tenants;
INSERT INTO audit_log SELECT id, n, now() - interval '1 day' + n * interval '10 s', 'a', 'b', 'noted', '', '{}', '{}',
    pg_temp.key(id, 'audit', n - 1), pg_temp.key(id, 'audit', n) FROM t, generate_series(1, 4000) n;
INSERT INTO erasures (tenant_id, erasure_id, kind, digest, step, requested_at)
    SELECT id, pg_temp.id(id, 'erasure', n), 'user', pg_temp.key(id, 'erasure', n), 'asked', now()
    FROM t, generate_series(1, 2000) n;
INSERT INTO erasure_items SELECT tenant_id, erasure_id, 'turn', erasure_id::text, 1 FROM erasures;
INSERT INTO import_chunks SELECT id, pg_temp.id(id, 'import', n / 50), n, id, 1, 64, 0, '[]', now()
    FROM t, generate_series(1, 4000) n;
INSERT INTO shares SELECT tenant_id, md5(memory_id::text || 'of')::uuid, memory_id, scope_id, scope_id, now()
    FROM memories;
INSERT INTO documents (tenant_id, document_id, scope_id, session_id, name, media_type, sha256, bytes, chars, pages,
                       inline_as, integrity, sensitivity, created_at, changed_at)
    SELECT id, pg_temp.id(id, 'document', n), 1 + n % 20, CASE WHEN n % 9 = 0 THEN pg_temp.id(id, 'session', n) END,
           'd' || n, 'text/plain', pg_temp.key(id, 'file', n), 9, 9, 0, 'auto', 'user', 'internal',
           now() - n * interval '1 s', now()
    FROM t, generate_series(0, 1999) n;
INSERT INTO document_uploads (tenant_id, upload_id, document_id, scope_id, subject_id, status, media_type, sha256,
                              bytes, chars, pages, integrity, sensitivity, sealed, created_at)
    SELECT tenant_id, md5(document_id::text || n)::uuid, document_id, scope_id, document_id,
           CASE WHEN n = 1 AND scope_id = 7 THEN 'waiting' ELSE 'done' END, 'text/plain', sha256, 9, 9, 0, 'user',
           'internal', CASE WHEN n = 1 AND scope_id = 7 THEN 'x'::bytea END, now() - n * interval '1 s'
    FROM documents, generate_series(1, 3) n;
INSERT INTO document_due SELECT tenant_id, upload_id, scope_id, created_at FROM document_uploads;
INSERT INTO document_chunks
    SELECT tenant_id, pg_temp.id(tenant_id, 'document', changed_version % 100 * 20 + (scope_id + 19) % 20),
           (changed_version / 100)::int, scope_id, memory_id, 0, 9
    FROM memories WHERE scope_id <= 20;
INSERT INTO outbox SELECT tenant_id, memory_id, scope_id, 'created', memory_id,
    now() - changed_version * interval '1 h', changed_version FROM memories;
INSERT INTO checkpoints
    SELECT id, pg_temp.id(id, 'checkpoint', n), 1 + n % 20, 'name ' || n, 1, pg_temp.id(id, 'session', n % 1000), NULL,
           NULL, now() - n * interval '1 s', now(), CASE WHEN n % 3 = 0 THEN now() END
    FROM t, generate_series(1, 4000) n;
INSERT INTO tasks
    SELECT tenant_id, memory_id, scope_id, memory_id, 1, (ARRAY['queued', 'running', 'done'])[1 + changed_version % 3],
           session_id, created_at, created_at
    FROM memories WHERE scope_id <= 20;
INSERT INTO task_edges
    SELECT tenant_id, task_id, needs, scope_id
    FROM (SELECT *, lead(task_id) OVER (PARTITION BY tenant_id, scope_id ORDER BY task_id) AS needs FROM tasks) t
    WHERE needs IS NOT NULL;
INSERT INTO task_history SELECT tenant_id, task_id, 1, scope_id, NULL, status, 'open', created_at FROM tasks;
INSERT INTO artifacts
    SELECT tenant_id, memory_id, scope_id, pg_temp.id(tenant_id, 'subject', scope_id), session_id, memory_id, 1,
           encode(sha256(memory_id::text::bytea), 'hex'), 9, 'text/plain', NULL, NULL, created_at, created_at
    FROM memories WHERE scope_id <= 20;
INSERT INTO entities
    SELECT tenant_id, memory_id, scope_id, 1, (ARRAY['person', 'place', 'host'])[1 + changed_version % 3],
           CASE WHEN changed_version % 2 = 0 THEN memory_id END, NULL, created_at, created_at
    FROM memories WHERE scope_id <= 20;
UPDATE entities e SET merged_into = o.other
FROM (SELECT tenant_id, entity_id, lag(entity_id) OVER w AS other, row_number() OVER w AS n FROM entities
      WINDOW w AS (PARTITION BY tenant_id, scope_id ORDER BY entity_id)) o
WHERE e.tenant_id = o.tenant_id AND e.entity_id = o.entity_id AND o.n % 10 = 0;
INSERT INTO entity_aliases
    SELECT tenant_id, entity_id, substring(sha256(entity_id::text::bytea), 1, 16), entity_id, scope_id FROM entities;
INSERT INTO relationships
    SELECT tenant_id, entity_id, scope_id, entity_id, other, 'knows', entity_id, NULL, NULL, created_at
    FROM (SELECT *, lead(entity_id) OVER (PARTITION BY tenant_id, scope_id ORDER BY entity_id) AS other
          FROM entities) e
    WHERE other IS NOT NULL;
INSERT INTO entity_history SELECT tenant_id, entity_id, 1, scope_id, 'added', NULL, 'open', created_at FROM entities;
INSERT INTO personas
    SELECT tenant_id, memory_id, scope_id, 'name ' || changed_version, 1, memory_id, '{}', created_at, now(),
           CASE WHEN changed_version % 3 = 0 THEN now() END
    FROM memories;
INSERT INTO checkpoint_versions SELECT tenant_id, checkpoint_id, 1, scope_id, 0, now(), NULL FROM checkpoints;
INSERT INTO checkpoint_parts
    SELECT c.tenant_id, c.checkpoint_id, 1, 0, c.scope_id, 'fact', m.memory_id, 1, false
    FROM (SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY checkpoint_id) AS n FROM checkpoints) c
    JOIN (SELECT tenant_id, memory_id, row_number() OVER (PARTITION BY tenant_id ORDER BY memory_id) AS n FROM memories)
        m USING (tenant_id, n);
INSERT INTO embedding_models (name, digest, dim, created_at)
    SELECT 'm' || n, 'd', 4, now() FROM generate_series(1, 2000) n;
INSERT INTO embedding_tables SELECT model_id, 'memory_embeddings_' || name FROM embedding_models WHERE name LIKE 'm%';
INSERT INTO {embeddings} SELECT tenant_id, scope_id, memory_id, 1, 0, 0, 9,
    array_fill(0.05::real, ARRAY[384])::halfvec FROM memories;
INSERT INTO sealed_windows SELECT tenant_id, memory_id, 1, '{embeddings}', 0, scope_id, 'x' FROM memories;
INSERT INTO reembed_progress SELECT tenant_id, scope_id, 1, 1, pg_temp.id(tenant_id, 'x', 1) FROM scopes;
UPDATE memories SET collection = 'episode', compressed_into = memory_id WHERE changed_version % 25 = 0;
UPDATE memories SET pinned = true WHERE changed_version % 100 = 0;
UPDATE memories SET superseded_at = created_at, pruned_at = created_at WHERE changed_version % 20 = 0;
UPDATE memory_versions SET expires_at = now() WHERE ('x' || right(memory_id::text, 1))::bit(4)::int = 0;
UPDATE memory_versions SET sensitivity = 'secret' WHERE ('x' || right(memory_id::text, 2))::bit(8)::int = 3;
UPDATE turns SET sensitivity = 'secret' WHERE ('x' || right(event_id::text, 2))::bit(8)::int = 3;
ANALYZE;
"""


@pytest.fixture(scope="module")
def seeded(postgres_server: Server) -> Iterator[TestDatabase]:
    """A database with enough rows that a plan means something."""
    database = postgres_server.fresh()
    database.psql(SEED.replace("{embeddings}", database.embeddings))
    yield database
    postgres_server.psql(f"DROP DATABASE {database.name} WITH (FORCE)")


@pytest.fixture(scope="module")
def answers(seeded: TestDatabase) -> dict[str, tuple[list[str], list[str]]]:
    """What the server says of every query: its parameters' types and its row's columns."""
    found: dict[str, tuple[list[str], list[str]]] = in_thread(_ask_types(seeded))
    return found


async def _ask_types(seeded: TestDatabase) -> dict[str, tuple[list[str], list[str]]]:
    connection = await asyncpg.connect(seeded.owner)
    await _prepare(connection)
    found = {}
    for name, query in QUERIES.items():
        statement = await connection.prepare(query.of_table(seeded.embeddings).sql)
        types = [one.name for one in statement.get_parameters()]
        found[name] = (types, [one.name for one in statement.get_attributes()])
    await connection.close()
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_takes_and_gives_what_its_header_says(
    name: str, answers: dict[str, tuple[list[str], list[str]]]
) -> None:
    types, columns = answers[name]
    assert list(QUERIES[name].types) == types
    assert list(QUERIES[name].columns) == columns


BETWEEN = "--- "


def explain(seeded: TestDatabase, queries: dict[str, Query]) -> dict[str, Any]:
    """The generic plan of each, as mp_app that sees three scopes of one tenant."""
    asked = "".join(
        f"\\echo {BETWEEN}{name}\nEXPLAIN (GENERIC_PLAN, FORMAT JSON) {query.of_table(seeded.embeddings).sql}\n;\n"
        for name, query in queries.items()
    )
    return _explained(seeded, "mp_app", asked)


def explain_for_arguments(seeded: TestDatabase, names: Sequence[str], first: str = "") -> dict[str, Any]:
    """The plan of each for its arguments, where the statistics are those of a store of many scopes; behind `first`."""
    asked = OF_MANY_SCOPES.replace("{tenant}", TENANT) + first
    for name in names:
        query = QUERIES[name]
        given = ", ".join(f":'{kind.replace('[]', 's')}'" for kind in query.types)
        asked += f"PREPARE {name} AS {query.of_table(seeded.embeddings).sql};\n"
        asked += f"\\echo {BETWEEN}{name}\nEXPLAIN (FORMAT JSON) EXECUTE {name}({given});\n"
    return _explained(seeded, "postgres", asked)


def _explained(seeded: TestDatabase, user: str, asked: str) -> dict[str, Any]:
    command = [str(binaries() / "psql"), "-h", str(seeded.server.root), "-U", user, "-d", seeded.name, "-XAtq"]
    settings = {"PGOPTIONS": f"-c mp.tenant={TENANT} -c mp.scopes={{1,2,3}} -c jit=off"}
    done = subprocess.run(
        [*command, "-v", "ON_ERROR_STOP=1"],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings},
    )
    told = done.stdout.split(BETWEEN)[1:]
    assert done.returncode == 0, f"{told[-1]}{done.stderr}"
    plans = (one.partition("\n") for one in told)
    return {name: json.loads(plan) for name, _, plan in plans}


@pytest.fixture(scope="module")
def plans(seeded: TestDatabase) -> dict[str, Any]:
    """Asked over one connection: one each took half a minute in all."""
    return explain(seeded, {name: QUERIES[name] for name in SERVED})


@pytest.fixture(scope="module")
def plans_for_arguments(seeded: TestDatabase) -> dict[str, Any]:
    pages = explain_for_arguments(seeded, A_PAGE_OF_A_SCOPE, "SET enable_nestloop = off;\n")
    return pages | explain_for_arguments(seeded, SOME_OF_A_SCOPE)


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    if isinstance(plan, list):
        for part in plan:
            yield from _nodes(part)
    elif isinstance(plan, dict):
        yield plan
        for member in plan.values():
            yield from _nodes(member)


@pytest.mark.parametrize("name", SERVED)
def test_a_query_uses_the_index_it_names(name: str, seeded: TestDatabase, plans: dict[str, Any]) -> None:
    _uses_what_it_names(name, seeded, plans[name])


@pytest.mark.parametrize("name", [*SOME_OF_A_SCOPE, *A_PAGE_OF_A_SCOPE])
def test_some_of_a_scope_are_looked_up_where_it_seems_to_hold_next_to_nothing(
    name: str, seeded: TestDatabase, plans_for_arguments: dict[str, Any]
) -> None:
    _uses_what_it_names(name, seeded, plans_for_arguments[name])


def _uses_what_it_names(name: str, seeded: TestDatabase, plan: Any) -> None:
    used = {node["Index Name"] for node in _nodes(plan) if "Index Name" in node}
    used |= {index for node in _nodes(plan) for index in node.get("Conflict Arbiter Indexes", ())}
    wanted = QUERIES[name].of_table(seeded.embeddings).uses
    shown = json.dumps(plan, indent=1)
    assert set(wanted) <= used, f"{name} wants {wanted} and uses {used}: {shown}"
    scanned = [node["Relation Name"] for node in _nodes(plan) if node.get("Node Type") == "Seq Scan"]
    assert not scanned or not wanted, f"{name} reads all of {scanned}: {shown}"


def test_plan_tests_have_power(seeded: TestDatabase) -> None:
    """A query without a usable index is seen reading all of its table."""
    query = Query("bad", "SELECT name FROM tenants WHERE name LIKE $1", ("text",), (), ())
    assert [node["Node Type"] for node in _nodes(explain(seeded, {"bad": query})) if "Node Type" in node] == [
        "Seq Scan"
    ]


def test_the_scopes_that_are_seen_are_no_condition_of_an_index(seeded: TestDatabase) -> None:
    """Beside a statement's own they made a scope of 200,000 rows seem to hold none, and all of it was read for one."""
    held = seeded.psql(
        "SELECT tablename FROM pg_policies WHERE policyname = 'visible_scopes' AND tablename <> 'shares'"
        " AND qual NOT LIKE '%COALESCE((scope_id IN %'"
    )
    assert held.split() == []


async def test_queries_work_without_a_statement_cache(seeded: TestDatabase) -> None:
    """As behind PgBouncer in transaction mode, where a prepared statement may be gone at the next transaction."""
    connection = await asyncpg.connect(seeded.app, statement_cache_size=0)
    for _ in range(3):
        assert await connection.fetch(QUERIES["all_tenants"].sql)
    await connection.close()
    await asyncio.sleep(0)


def test_a_shared_condition_is_put_in_by_name_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "conditions.sql").write_text("-- condition: grown\n-- Of age.\n({value} >= 18)\n")
    (tmp_path / "ask.sql").write_text(
        "-- name: grown_ups\n-- Rows: id.\nSELECT p.id FROM people p WHERE {grown(p.age)};\n"
    )
    assert queries_in(tmp_path)["grown_ups"].sql == "SELECT p.id FROM people p WHERE (p.age >= 18)"
    (tmp_path / "ask.sql").write_text("-- name: grown_ups\n-- Rows: id.\nSELECT id FROM people WHERE {groan(age)};\n")
    with pytest.raises(ValueError, match="no condition groan"):
        queries_in(tmp_path)


def test_every_query_is_asked_for() -> None:
    """One that nobody asks for is work that is not done: a dropped model left its sealed vectors because of that."""
    ours = Path(__file__).parents[2]
    asking = "".join(one.read_text() for part in ("memory", "proxy") for one in (ours / part).rglob("*.py"))
    assert [name for name in QUERIES if f'"{name}"' not in asking and not name.startswith("catalogue_")] == []
