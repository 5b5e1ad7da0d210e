"""What is confidential lies sealed in Postgres, and is read back only as the row that it was stored as."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import reembed_command
from memory.adapters.postgres import sealing
from memory.adapters.postgres.consolidate_store import ConsolidateStore
from memory.adapters.postgres.database import Bounds, Database
from memory.adapters.postgres.import_store import ImportStore
from memory.adapters.postgres.migrate import ensure_embedding_table, serve_model
from memory.adapters.postgres.queries import load_queries
from memory.adapters.postgres.read_store import ReadStore
from memory.adapters.postgres.records import Records
from memory.adapters.postgres.redact_store import RedactStore
from memory.adapters.postgres.reembed_store import ReembedStore
from memory.adapters.postgres.row_vault import RowVault, vaulted
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.postgres.write_store import WriteStore
from memory.config import Settings, load_settings
from memory.consolidation import terms_of
from memory.envelope import DataKey
from memory.errors import EnvelopeUnreadable, StoreUnavailable
from memory.ids import new_id
from memory.keys import KeyRing
from memory.model import Commit
from memory.read.items import Filter
from memory.reembed_command import Asked, Here
from memory.stored import MemoryChange
from policies.labels import Sensitivity
from tests.postgres.seed import T0, Stores, exchange, memory_of, stores
from tests.postgres.test_redaction_store import SECRET, swept
from tests.postgres_fixture import DIM, TestDatabase

WORD = "Zugspitze"
LATER = T0 + timedelta(hours=1)


@dataclass(frozen=True)
class Vaulted:
    """Stores that seal, on a database that can be looked into."""

    stores: Stores
    keys: KeyRing
    postgres: TestDatabase

    def raw(self) -> str:
        """Every row of every table that held text, as the server gives it."""
        tables = ("turns", "memory_versions", "facts", "procedures", self.postgres.embeddings)
        return "".join(self.postgres.psql(f"SELECT * FROM {table}") for table in tables)


@pytest.fixture
async def vault(postgres: TestDatabase) -> AsyncIterator[Vaulted]:
    async with stores(postgres) as plain:
        keys = KeyRing(plain.keys, bytes(32))
        await keys.subject_key(plain.tenant, "ada")
        subject = await keys.subject_id(plain.tenant, "ada")
        postgres.psql(f"INSERT INTO subjects VALUES ('{plain.tenant}', '{subject}', 'ada', now())")
        database = vaulted(plain.database, keys)
        table = postgres.embeddings
        yield Vaulted(
            replace(
                plain,
                database=database,
                write=WriteStore(database, plain.scopes, table),
                imports=ImportStore(database, plain.scopes, table),
                read=ReadStore(database, plain.scopes, table, dim=DIM),
                records=Records(database, plain.scopes, table),
            ),
            keys,
            postgres,
        )


def confidential(made: Commit) -> Commit:
    """The same exchange, all of it confidential; memories carry an attribute that must not lie open either."""
    turns = tuple(replace(one, sensitivity=Sensitivity.CONFIDENTIAL, tool_calls=[{"id": WORD}]) for one in made.turns)
    memories = tuple(memory_of(one, attributes={"topic": WORD}) for one in turns)
    return replace(made, turns=turns, memories=memories)


async def loaded(vault: Vaulted, at: int = 0) -> list[Any]:
    """Every row a hot scope would be given."""
    scope = vault.stores.scope()
    scope_id = await vault.stores.scopes.find(scope)
    assert scope_id is not None
    return [
        row
        async for page in vault.stores.read.index_rows(scope.tenant, [scope_id], after={scope_id: at})
        for row in page
    ]


async def test_a_confidential_exchange_lies_sealed_and_is_read_back(vault: Vaulted) -> None:
    made = confidential(exchange(vault.stores.scope(), "s", 0, (f"I live on {WORD}", f"{WORD} noted")))
    await vault.stores.write.commit(made, now=T0)
    assert WORD not in vault.raw()
    rows = await loaded(vault)
    assert {row.content for row in rows} == {f"I live on {WORD}", f"{WORD} noted"}
    assert all(row.attributes == {"topic": WORD} for row in rows)
    for row in rows:
        born = next(one for one in made.memories if one.memory_id == row.memory_id)
        assert born.vectors is not None
        assert np.allclose(row.vectors, born.vectors, atol=1e-2)
        assert row.windows == born.windows
    exported = await vault.stores.records.export_turns(vault.stores.scope(), limit=10)
    assert [one.turn.content for one in exported.rows] == [f"I live on {WORD}", f"{WORD} noted"]
    assert exported.rows[0].turn.tool_calls == [{"id": WORD}]


async def test_what_is_internal_stays_as_it_was(vault: Vaulted) -> None:
    await vault.stores.write.commit(exchange(vault.stores.scope(), "s", 0, (f"I like {WORD}",)), now=T0)
    assert f"I like {WORD}" in vault.raw()
    assert vault.postgres.psql("SELECT count(*) FROM sealed_windows") == "0"


async def test_a_text_that_pretends_to_be_sealed_is_given_back_as_it_was_said(vault: Vaulted) -> None:
    forged = f"{sealing.MARK}AAAA"
    await vault.stores.write.commit(exchange(vault.stores.scope(), "s", 0, (forged,)), now=T0)
    assert [row.content for row in await loaded(vault)] == [forged]
    assert forged not in vault.raw()


@pytest.mark.parametrize("raised", [False, True])
async def test_what_a_turn_holds_beside_its_words_lies_sealed_too(vault: Vaulted, raised: bool) -> None:
    scope, parts, calls = vault.stores.scope(), [{"name": WORD}], [{"id": WORD}]
    made = exchange(scope, "s", 0, ("look at this",))
    label = Sensitivity.INTERNAL if raised else Sensitivity.CONFIDENTIAL
    turns = tuple(replace(one, sensitivity=label, parts=parts, tool_calls=calls) for one in made.turns)
    memories = tuple(memory_of(one) for one in turns)
    await vault.stores.write.commit(replace(made, turns=turns, memories=memories), now=T0)
    if raised:
        assert vault.raw().count(WORD) == 2
        change = MemoryChange(sensitivity="confidential")
        await vault.stores.records.patch_memory(scope, memories[0].memory_id, 1, change, LATER)
    assert WORD not in vault.raw()
    (one,) = (await vault.stores.records.export_turns(scope, limit=10)).rows
    assert (one.turn.parts, one.turn.tool_calls) == (parts, calls)


@pytest.mark.parametrize("patched", [False, True])
async def test_attributes_that_pretend_to_be_sealed_are_given_back_as_they_were_said(
    vault: Vaulted, patched: bool
) -> None:
    scope, forged = vault.stores.scope(), {sealing.MEMBER: f"{sealing.MARK}AAAA"}
    made = exchange(scope, "s", 0, ("tea",))
    memory = memory_of(made.turns[0], attributes={} if patched else forged)
    await vault.stores.write.commit(replace(made, memories=(memory,)), now=T0)
    if patched:
        change = MemoryChange(attributes=forged)
        await vault.stores.records.patch_memory(scope, memory.memory_id, 1, change, LATER)
    (row,) = await loaded(vault)
    assert (row.content, row.attributes, row.visible) == ("tea", forged, True)
    assert np.any(row.vectors)


async def test_an_edit_that_pretends_to_be_sealed_is_given_back_as_it_was_said(vault: Vaulted) -> None:
    scope, forged = vault.stores.scope(), f"{sealing.MARK}AAAA"
    made = exchange(scope, "s", 0, ("tea",))
    await vault.stores.write.commit(made, now=T0)
    one = made.memories[0]
    change = MemoryChange(content=forged, windows=((0, 5),), vectors=one.vectors)
    await vault.stores.records.patch_memory(scope, one.memory_id, 1, change, LATER)
    for version in (2, 3):
        (row,) = await loaded(vault)
        assert (row.content, row.visible, bool(np.any(row.vectors))) == (forged, True, True)
        await vault.stores.records.patch_memory(scope, one.memory_id, version, MemoryChange(pinned=True), LATER)


@pytest.mark.parametrize("how", ["row", "version", "column", "tenant"])
async def test_a_value_copied_elsewhere_does_not_open(vault: Vaulted, how: str) -> None:
    made = confidential(exchange(vault.stores.scope(), "s", 0, (f"first {WORD}", f"second {WORD}")))
    await vault.stores.write.commit(made, now=T0)
    first, second = (one.memory_id for one in made.memories)
    sql = {
        "row": f"UPDATE memory_versions v SET content = o.content FROM memory_versions o "
        f"WHERE v.memory_id = '{second}' AND o.memory_id = '{first}'",
        "version": f"UPDATE memory_versions SET version = 2 WHERE memory_id = '{second}'; "
        f"UPDATE memories SET version = 2 WHERE memory_id = '{second}'",
        "column": f"UPDATE memory_versions SET content = attributes ->> 'mp-sealed' WHERE memory_id = '{second}'",
        "tenant": f"UPDATE memory_versions SET content = '{sealed_for_another_tenant(second)}' "
        f"WHERE memory_id = '{second}'",
    }
    for statement in sql[how].split("; "):
        vault.postgres.psql(statement)
    shown = {row.memory_id: row for row in await loaded(vault)}
    assert shown[second].content == "" and not shown[second].visible
    assert (await vault.stores.records.memory(vault.stores.scope(), second, now=LATER)).content == ""
    assert shown[first].content == f"first {WORD}"


def sealed_for_another_tenant(memory_id: UUID) -> str:
    """The same row sealed by somebody whose key this is not."""
    binding = sealing.of_version(new_id(), memory_id, 1, "content")
    return sealing.sealed_text(DataKey(new_id(), bytes(32)), binding, "forged")


async def test_a_vector_copied_to_another_memory_is_not_used(vault: Vaulted) -> None:
    made = confidential(exchange(vault.stores.scope(), "s", 0))
    await vault.stores.write.commit(made, now=T0)
    first, second = (one.memory_id for one in made.memories)
    vault.postgres.psql(
        "UPDATE sealed_windows v SET sealed = o.sealed FROM sealed_windows o "
        f"WHERE v.memory_id = '{second}' AND o.memory_id = '{first}'"
    )
    shown = {row.memory_id: row for row in await loaded(vault)}
    assert np.any(shown[first].vectors) and not np.any(shown[second].vectors)


async def test_a_process_with_another_key_reads_nothing(vault: Vaulted) -> None:
    await vault.stores.write.commit(confidential(exchange(vault.stores.scope(), "s", 0)), now=T0)
    with pytest.raises(EnvelopeUnreadable):
        await KeyRing(vault.stores.keys, bytes(range(32))).tenant_key(vault.stores.tenant)
    blind = vaulted(vault.stores.database, KeyRing(vault.stores.keys, bytes(range(32))))
    other = ReadStore(blind, vault.stores.scopes, vault.postgres.embeddings, dim=DIM)
    scope_id = await vault.stores.scopes.find(vault.stores.scope())
    assert scope_id is not None
    rows = [row async for page in other.index_rows(vault.stores.tenant, [scope_id]) for row in page]
    assert {row.content for row in rows} == {""}


async def test_a_memory_made_confidential_takes_its_turn_and_all_made_of_it_along(vault: Vaulted) -> None:
    scope = vault.stores.scope()
    made = exchange(scope, "s", 0, (f"I live on {WORD}", "noted"))
    summary = memory_of(
        made.turns[0],
        memory_id=new_id(),
        kind="summary",
        content=f"Lives on {WORD}.",
        content_key=bytes(32),
        source_turns=(made.turns[0].event_id,),
    )
    await vault.stores.write.commit(replace(made, memories=(*made.memories, summary)), now=T0)
    before = await loaded(vault)
    upto = max(row.changed_version for row in before)
    one = made.memories[0].memory_id
    said = await vault.stores.records.patch_memory(scope, one, 1, MemoryChange(sensitivity="confidential"), LATER)
    assert (said.sensitivity, said.content) == ("confidential", f"I live on {WORD}")
    assert WORD not in vault.raw()
    again = {row.memory_id: row for row in await loaded(vault, upto)}
    assert again[one].sensitivity == "confidential" and np.any(again[one].vectors)
    other = await vault.stores.records.memory(scope, summary.memory_id, now=LATER)
    assert (other.sensitivity, other.content) == ("confidential", f"Lives on {WORD}.")
    left = await vault.stores.records.memory(scope, made.memories[1].memory_id, now=LATER)
    assert left.sensitivity == "internal"


async def test_an_edit_of_a_sealed_memory_stays_sealed_and_lowering_it_opens_it(vault: Vaulted) -> None:
    scope = vault.stores.scope()
    made = confidential(exchange(scope, "s", 0, (f"I live on {WORD}",)))
    await vault.stores.write.commit(made, now=T0)
    one, records = made.memories[0].memory_id, vault.stores.records
    await records.patch_memory(scope, one, 1, MemoryChange(importance=0.9), LATER)
    assert WORD not in vault.raw()
    (row,) = await loaded(vault)
    assert row.content == f"I live on {WORD}" and np.any(row.vectors)
    await records.patch_memory(scope, one, 2, MemoryChange(sensitivity="internal"), LATER)
    (row,) = await loaded(vault)
    assert row.content == f"I live on {WORD}" and np.any(row.vectors)
    assert WORD in vault.postgres.psql(f"SELECT content FROM memory_versions WHERE version = 3 AND memory_id = '{one}'")
    assert vault.postgres.psql(f"SELECT count(*) FROM {vault.postgres.embeddings}") == "1"
    moment = await records.memory(scope, one, now=LATER)
    assert moment.attributes == {"topic": WORD}


async def test_new_attributes_of_a_sealed_memory_are_kept_and_lie_sealed(vault: Vaulted) -> None:
    scope = vault.stores.scope()
    made = confidential(exchange(scope, "s", 0, (f"I live on {WORD}",)))
    await vault.stores.write.commit(made, now=T0)
    one, records = made.memories[0].memory_id, vault.stores.records
    for version, attributes in ((1, {"topic": f"{WORD} by night"}), (2, {})):
        await records.patch_memory(scope, one, version, MemoryChange(attributes=attributes), LATER)
        held = await records.memory(scope, one, now=LATER)
        assert (held.content, held.attributes) == (f"I live on {WORD}", attributes)
        assert WORD not in vault.raw()


async def test_what_was_sealed_while_a_sweep_looked_at_it_stays_sealed(vault: Vaulted) -> None:
    scope = vault.stores.scope()
    made = exchange(scope, "s", 0, (f"I live on {WORD}, and my token is {SECRET}",))
    await vault.stores.write.commit(made, now=T0)
    one, records = made.memories[0].memory_id, vault.stores.records

    class Slow(RedactStore):
        async def put_memories(self, *args: Any) -> None:
            await records.patch_memory(scope, one, 1, MemoryChange(sensitivity="confidential"), LATER)
            await super().put_memories(*args)

    on = Slow(vault.stores.database, vault.postgres.embeddings)
    await swept(vault.stores, vault.postgres, apply=True, on=on).run()
    assert WORD not in vault.raw()
    assert (await records.memory(scope, one, now=LATER)).content == f"I live on {WORD}, and my token is {SECRET}"


async def test_as_of_opens_the_older_version(vault: Vaulted) -> None:
    scope = vault.stores.scope()
    made = confidential(exchange(scope, "s", 0, (f"I live on {WORD}",)))
    await vault.stores.write.commit(made, now=T0)
    change = MemoryChange(content="I moved", windows=((0, 7),), vectors=made.memories[0].vectors)
    await vault.stores.records.patch_memory(scope, made.memories[0].memory_id, 1, change, LATER)
    scope_id = await vault.stores.scopes.find(scope)
    assert scope_id is not None
    then = [
        row
        async for page in vault.stores.read.index_rows(scope.tenant, [scope_id], as_of=T0 + timedelta(minutes=1))
        for row in page
    ]
    assert [row.content for row in then] == [f"I live on {WORD}"]
    assert [row.content for row in await loaded(vault)] == ["I moved"]


async def test_postgres_cannot_rank_what_is_sealed(vault: Vaulted) -> None:
    """The cold path's bound, as documented: the hot scope finds it, the exact scan in SQL does not."""
    made = confidential(exchange(vault.stores.scope(), "s", 0))
    await vault.stores.write.commit(made, now=T0)
    scope_id = await vault.stores.scopes.find(vault.stores.scope())
    assert scope_id is not None and made.memories[0].vectors is not None
    found = await vault.stores.read.nearest(
        vault.stores.tenant, [scope_id], made.memories[0].vectors[0], 5, Filter(), now=LATER
    )
    assert found == []


async def test_another_model_embeds_what_was_said_and_seals_it(vault: Vaulted) -> None:
    """A re-embedding reads the opened text, ends, and leaves no vector open."""
    made = confidential(exchange(vault.stores.scope(), "s", 0))
    await vault.stores.write.commit(made, now=T0)
    vault.postgres.psql("DELETE FROM sealed_windows")
    store = ReembedStore(vault.stores.database, "me")
    queries = vault.stores.database.queries
    lacking = queries["versions_without_vectors"].of_table(vault.postgres.embeddings)
    scope_id = await vault.stores.scopes.find(vault.stores.scope())
    assert scope_id is not None and store is not None
    ids = [one.memory_id for one in made.memories]
    async with vault.stores.database.transaction(vault.stores.tenant, [scope_id]) as tx:
        found = await tx.fetch(lacking, vault.stores.tenant, ids, 10)
    assert {row["content"] for row in found} == {"hello", "hi there"}
    add, vectors = queries["add_embedding"].of_table(vault.postgres.embeddings), made.memories[0].vectors
    assert vectors is not None
    async with vault.stores.database.transaction(vault.stores.tenant, [scope_id]) as tx:
        await tx.run_many(add, ((vault.stores.tenant, scope_id, one, 1, 0, 0, 5, vectors[0]) for one in ids))
        assert await tx.fetch(lacking, vault.stores.tenant, ids, 10) == []
    assert vault.postgres.psql(f"SELECT count(*) FROM {vault.postgres.embeddings}") == "0"
    assert vault.postgres.psql("SELECT count(*) FROM sealed_windows") == "2"


async def test_a_sealed_episode_that_is_embedded_is_not_gone_through_again(vault: Vaulted) -> None:
    """Its vectors are in no table of a model: a fill that looked only there would never end."""
    await vault.stores.write.commit(confidential(exchange(vault.stores.scope(), "s", 0)), now=T0)
    vault.postgres.psql("UPDATE memories SET collection = 'episode', created_at = now()")
    (model,) = await ServingStore(vault.stores.database).models()
    vault.postgres.psql(
        "INSERT INTO reembed_progress (tenant_id, scope_id, model_id, version, memory_id) "
        f"SELECT tenant_id, scope_id, {model.model_id}, 9, memory_id FROM memories LIMIT 1"
    )
    store = ReembedStore(vault.stores.database, "me")
    fence = await store.lead(60.0)
    assert fence is not None
    assert await store.passed_over(model, 86_400.0, fence) == 0
    vault.postgres.psql("DELETE FROM sealed_windows")
    assert await store.passed_over(model, 86_400.0, fence) == 1


async def test_what_is_sealed_is_no_smaller_for_a_bound_in_bytes(vault: Vaulted) -> None:
    """Its vectors are in no table of a model: a store of confidential memories would outgrow its bound by those."""
    made = exchange(vault.stores.scope(), "s", 0, ("x" * 300,))
    await vault.stores.write.commit(made, now=T0)
    scope_id = await vault.stores.scopes.find(vault.stores.scope())
    assert scope_id is not None
    store, terms = ConsolidateStore(vault.stores.database, vault.postgres.embeddings), terms_of(Settings(), LATER)

    async def size() -> int:
        _, uses = await store.uses(vault.stores.tenant, scope_id, None, 9, terms)
        return sum(use.bytes for use, _ in uses)

    lies_open = await size()
    assert lies_open > 300 + 2 * DIM
    change = MemoryChange(sensitivity="confidential")
    await vault.stores.records.patch_memory(vault.stores.scope(), made.memories[0].memory_id, 1, change, LATER)
    assert await size() > lies_open


async def test_what_becomes_confidential_leaves_no_vector_of_any_model_open(vault: Vaulted) -> None:
    """Of a model that stands by, too: it was filled while the memory was internal."""
    await ensure_embedding_table(vault.postgres.owner, "other", "d", DIM, None)
    tables = {one.table for one in await ServingStore(vault.stores.database).models()}
    assert len(tables) == 2
    made = exchange(vault.stores.scope(), "s", 0, (f"I live on {WORD}",))
    await vault.stores.write.commit(made, now=T0)
    one, scope_id = made.memories[0], await vault.stores.scopes.find(vault.stores.scope())
    assert scope_id is not None and one.vectors is not None
    (other,) = tables - {vault.postgres.embeddings}
    add = vault.stores.database.queries["add_embedding"].of_table(other)
    async with vault.stores.database.transaction(vault.stores.tenant, [scope_id]) as tx:
        await tx.run_many(add, [(vault.stores.tenant, scope_id, one.memory_id, 1, 0, 0, 5, one.vectors[0])])
    change = MemoryChange(sensitivity="confidential")
    await vault.stores.records.patch_memory(vault.stores.scope(), one.memory_id, 1, change, LATER)
    assert {table: vault.postgres.psql(f"SELECT count(*) FROM {table}") for table in tables} == dict.fromkeys(
        tables, "0"
    )
    assert vault.postgres.psql("SELECT count(DISTINCT embeddings) FROM sealed_windows") == "2"


async def test_sealed_vectors_too_are_written_for_the_served_model_alone(vault: Vaulted) -> None:
    """Of a worker that has not followed a switch: what it stored had no vector of the model that is searched with."""
    await ensure_embedding_table(vault.postgres.owner, "other", "d", DIM, None)
    other, first = await ServingStore(vault.stores.database).models()
    await serve_model(vault.postgres.owner, other.model_id, first.model_id, known=0)
    scope, late = vault.stores.scope(), confidential(exchange(vault.stores.scope(), "late", 0))
    with pytest.raises(StoreUnavailable, match="40001"):
        await vault.stores.write.commit(late, now=T0)
    assert vault.postgres.psql("SELECT count(*) FROM sealed_windows") == "0"
    made = exchange(scope, "s", 0)
    follows = WriteStore(vault.stores.database, vault.stores.scopes, other.table)
    assert (await follows.commit(made, now=T0)).new_turns == 2
    assert (await follows.commit(late, now=T0)).new_turns == 2
    # What lies open of the model that stands by is sealed all the same.
    vault.postgres.psql(
        f"SET session_replication_role = replica; INSERT INTO {first.table} SELECT * FROM {other.table}"
    )
    records = Records(vault.stores.database, vault.stores.scopes, other.table)
    change = MemoryChange(sensitivity="confidential")
    await records.patch_memory(scope, made.memories[0].memory_id, 1, change, LATER)
    assert [vault.postgres.psql(f"SELECT count(*) FROM {one.table}") for one in (first, other)] == ["1", "1"]


async def test_a_model_that_is_dropped_takes_its_sealed_vectors_along(
    vault: Vaulted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They stayed for ever, of every model that was ever tried, and each rotation of keys sealed them anew."""
    monkeypatch.setattr("memory.adapters.postgres.reembed_store.WINDOWS_AT_ONCE", 1)
    await vault.stores.write.commit(confidential(exchange(vault.stores.scope(), "s", 0)), now=T0)
    await ensure_embedding_table(vault.postgres.owner, "other", "d", DIM, None)
    models = ServingStore(vault.stores.database)
    other, first = await models.models()
    await serve_model(vault.postgres.owner, first.model_id, other.model_id, known=0)
    for former in (other.table, "memory_embeddings_dropped_before"):
        vault.postgres.psql(
            "INSERT INTO sealed_windows SELECT tenant_id, memory_id, version, "
            f"'{former}', window_no, scope_id, sealed FROM sealed_windows WHERE embeddings = '{first.table}'"
        )
    store, serving = ReembedStore(vault.stores.database, "me"), await models.serving()
    assert serving is not None
    asked = Asked("drop", None, None, 0.0, as_json=True)
    here = Here(load_settings(None, {}, {}), vault.postgres.owner, store, models, serving, asked, asyncio.Event())
    assert await reembed_command._drop(here) == 0
    assert json.loads(capsys.readouterr().out)["standby"] is None
    assert vault.postgres.psql("SELECT DISTINCT embeddings FROM sealed_windows") == first.table
    assert [np.any(row.vectors) for row in await loaded(vault)] == [True, True]


async def test_a_store_of_confidential_memories_alone_keeps_its_model_too(vault: Vaulted) -> None:
    (model,) = await ServingStore(vault.stores.database).models()
    assert not await ServingStore(vault.stores.database).has_vectors(model)
    await vault.stores.write.commit(confidential(exchange(vault.stores.scope(), "s", 0)), now=T0)
    assert vault.postgres.psql(f"SELECT count(*) FROM {model.table}") == "0"
    assert await ServingStore(vault.stores.database).has_vectors(model)


async def test_a_key_is_read_on_the_connection_that_writes(vault: Vaulted) -> None:
    """A pool of one connection would stand still otherwise."""
    database = await Database.open(vault.postgres.app, Bounds(connections_max=1, acquire_timeout_s=60))
    fresh = vaulted(database, KeyRing(vault.stores.keys, bytes(32)))
    write = WriteStore(fresh, vault.stores.scopes, vault.postgres.embeddings)
    made = [confidential(exchange(vault.stores.scope(), f"s{n}", 0)) for n in range(4)]
    await asyncio.gather(*(write.commit(one, now=T0) for one in made))
    await database.close()
    assert len(await loaded(vault)) == 8


def test_every_query_that_gives_such_a_column_is_named() -> None:
    """A query written later that returns content must say whether it opens it or leaves sealed rows out."""
    columns = {"content", "attributes", "tool_calls", "parts"}
    giving = {name for name, query in load_queries().items() if columns & set(query.columns)}
    sessions = {name for name in giving if "session" in name}  # a session's own attributes
    assert giving - sessions == set(sealing.SHOWN) | sealing.WITHOUT_SEALED
    assert {name for name, query in load_queries().items() if name in RowVault.writes} == RowVault.writes


@given(st.text(), st.dictionaries(st.text(max_size=4), st.text(max_size=4)))
def test_any_value_comes_back_as_it_was(text: str, value: dict[str, str]) -> None:
    key, row = DataKey(new_id(), bytes(32)), new_id()
    binding = sealing.of_turn(new_id(), row, "content")
    assert sealing.opened_value(key, binding, sealing.sealed_text(key, binding, text)) == text
    assert sealing.opened_value(key, binding, sealing.sealed_json(key, binding, value)) == value
