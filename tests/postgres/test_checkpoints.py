"""Checkpoints in Postgres: all of one or nothing, one name once, and under the law of what they name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.checkpoint_store import CheckpointStore
from memory.adapters.postgres.records import Records
from memory.audit import Note, noted
from memory.checkpoints import Giving, NewCheckpoint, NewPart
from memory.errors import Conflict, NotFound, StoreUnavailable
from memory.ids import new_id
from memory.model import Scope
from memory.read.conversation import RESTORE
from memory.read.restore import mark_of, read_mark
from policies.checkpoint import Part
from tests.postgres.seed import SUBJECT, T0, Stores, exchange, key_of, record_memory, session_of, stores
from tests.postgres_fixture import TestDatabase


@dataclass(frozen=True)
class Held:
    """A store with one exchange in it, and its checkpoints."""

    made: Stores
    store: CheckpointStore
    scope: Scope

    def note(self, what: str = "save") -> Note:
        return noted(self.scope.tenant, "test", f"checkpoint.{what}", at=T0)

    async def save(self, name: str, *parts: NewPart, **more: Any) -> Any:
        new = NewCheckpoint(name, more.get("session_id"), parts, 10)
        return await self.store.save(self.scope, SUBJECT, new, now=more.get("now", T0), note=self.note())


@pytest.fixture
async def held(postgres: TestDatabase) -> AsyncIterator[Held]:
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        audit = AuditLog(made.database, key_of)
        yield Held(made, CheckpointStore(made.database, made.scopes, postgres.embeddings, audit), made.scope())


def words(part: Part, text: str) -> NewPart:
    memory = record_memory(text, "working", "checkpoint")
    return NewPart(part, memory.memory_id, 1, True, memory)


async def rows(postgres: TestDatabase, query: str) -> list[Any]:
    connection = await asyncpg.connect(postgres.owner)
    try:
        return await connection.fetch(query)
    finally:
        await connection.close()


async def some_memory(held: Held, postgres: TestDatabase) -> UUID:
    found = await rows(postgres, "SELECT memory_id FROM memories WHERE kind = 'episodic' LIMIT 1")
    return UUID(int=found[0]["memory_id"].int)


async def test_two_savers_of_one_name_leave_one(held: Held, postgres: TestDatabase) -> None:
    both = await asyncio.gather(
        *(held.save("n", words("notes", text)) for text in ("one", "two")), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in both) == ["Checkpoint", "Conflict"]
    assert len(await rows(postgres, "SELECT FROM checkpoints")) == 1
    assert len(await rows(postgres, "SELECT FROM memories WHERE collection = 'checkpoint'")) == 1, (
        "no words of the other"
    )


@pytest.mark.parametrize("table", ["checkpoint_versions", "checkpoint_parts", "memory_versions", "provenance"])
async def test_a_fault_on_the_way_leaves_nothing(held: Held, postgres: TestDatabase, table: str) -> None:
    body = "BEGIN RAISE EXCEPTION 'no'; END"
    postgres.psql(f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    postgres.psql(f"CREATE TRIGGER refuse BEFORE INSERT ON {table} EXECUTE FUNCTION refuse()")
    with pytest.raises(StoreUnavailable):
        await held.save("n", words("notes", "one"), words("goal", "two"))
    postgres.psql(f"DROP TRIGGER refuse ON {table}")
    for left in ("checkpoints", "checkpoint_versions", "checkpoint_parts"):
        assert await rows(postgres, f"SELECT FROM {left}") == []
    assert await rows(postgres, "SELECT FROM memories WHERE collection = 'checkpoint'") == []
    assert (await held.save("n", words("notes", "one"))).row.version == 1


async def test_what_is_saved_and_given_at_once_is_both_or_neither(held: Held, postgres: TestDatabase) -> None:
    new = NewCheckpoint("n", None, (words("notes", "one"),), 10)
    giving = Giving(new_id(), held.note("load"))
    postgres.psql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$")
    postgres.psql("CREATE TRIGGER refuse BEFORE INSERT ON ledger EXECUTE FUNCTION refuse()")
    audited = "SELECT action FROM audit_log ORDER BY seq"
    with pytest.raises(StoreUnavailable):
        await held.store.save(held.scope, SUBJECT, new, now=T0, note=held.note(), given=giving)
    assert await rows(postgres, "SELECT FROM checkpoints") == await rows(postgres, audited) == []
    postgres.psql("DROP TRIGGER refuse ON ledger")
    made = await held.store.save(held.scope, SUBJECT, new, now=T0, note=held.note(), given=giving)
    given = await rows(postgres, f"SELECT placed_sealed FROM ledger WHERE session_id = '{giving.session_id}'")
    assert [read_mark(one["placed_sealed"]) for one in given] == [(made.row.checkpoint_id, 1)]
    assert [one["action"] for one in await rows(postgres, audited)] == ["checkpoint.save", "checkpoint.load"]


async def test_a_memory_that_went_away_meanwhile_is_a_conflict(held: Held, postgres: TestDatabase) -> None:
    gone = await some_memory(held, postgres)
    postgres.psql(f"UPDATE memories SET deleted_at = now() WHERE memory_id = '{gone}'")
    with pytest.raises(Conflict, match="try again"):
        await held.save("n", NewPart("fact", gone), words("notes", "one"))
    assert await rows(postgres, "SELECT FROM checkpoints") == []
    with pytest.raises(NotFound):
        await held.store.one(held.scope, "n")


async def test_a_part_is_as_sensitive_as_the_words_that_were_saved(held: Held, postgres: TestDatabase) -> None:
    memory_id = await some_memory(held, postgres)
    await held.save("n", NewPart("fact", memory_id, 1, False, None))
    edited = '{"version": 2, "content": "nothing", "sensitivity": "public", "recorded_to": null}'
    await rows(postgres, f"UPDATE memory_versions SET recorded_to = now() WHERE memory_id = '{memory_id}'")
    await rows(
        postgres,
        f"INSERT INTO memory_versions SELECT (jsonb_populate_record(v, '{edited}')).* FROM memory_versions v "
        f"WHERE memory_id = '{memory_id}'",
    )
    await rows(postgres, f"UPDATE memories SET version = 2 WHERE memory_id = '{memory_id}'")
    part = (await held.store.one(held.scope, "n")).parts[0]
    assert (part.content, part.saved != "nothing", part.sensitivity) == ("nothing", True, "internal")


async def test_versions_are_kept_and_a_change_names_the_one_it_was_made_from(held: Held) -> None:
    first = await held.save("n", words("notes", "one"))
    new = NewCheckpoint("n", None, (words("notes", "two"),), 7)
    later = T0 + timedelta(hours=1)
    changed = await held.store.change(held.scope, SUBJECT, 1, new, now=later, note=held.note("change"))
    assert (changed.version, changed.tokens, changed.parts[0].content) == (2, 7, "two")
    old = await held.store.one(held.scope, "n", version=1)
    assert (old.version, old.row.version, old.parts[0].content) == (1, 2, "one") and old.parts == first.parts
    other = NewCheckpoint("n", None, (words("notes", "three"),), 7)
    with pytest.raises(Conflict, match="version 2"):
        await held.store.change(held.scope, SUBJECT, 1, other, now=later, note=held.note("change"))


async def test_each_act_leaves_an_audit_row_and_a_refused_one_none(held: Held, postgres: TestDatabase) -> None:
    await held.save("n", words("notes", "one"))
    with pytest.raises(Conflict):
        await held.save("n", words("notes", "two"))
    await held.store.branch(held.scope, "n", "m", now=T0, note=held.note("branch"))
    await held.store.delete(held.scope, "n", now=T0, note=held.note("delete"))
    said = await rows(postgres, "SELECT action FROM audit_log ORDER BY seq")
    assert [row["action"] for row in said] == ["checkpoint.save", "checkpoint.branch", "checkpoint.delete"]


async def test_what_a_branch_shares_stays_until_the_last_of_them_is_deleted(held: Held, postgres: TestDatabase) -> None:
    await held.save("n", words("notes", "shared"))
    await held.store.branch(held.scope, "n", "m", now=T0, note=held.note("branch"))
    shown = "SELECT FROM memories WHERE collection = 'checkpoint' AND deleted_at IS NULL"
    await held.store.delete(held.scope, "n", now=T0, note=held.note("delete"))
    assert len(await rows(postgres, shown)) == 1
    await held.store.delete(held.scope, "m", now=T0, note=held.note("delete"))
    assert await rows(postgres, shown) == []
    await held.store.undelete(held.scope, "m", now=T0, note=held.note("undelete"), may=lambda _: None)
    assert len(await rows(postgres, shown)) == 1
    with pytest.raises(NotFound, match="deleted in the last 30 days"):
        later = T0 + timedelta(days=31)
        await held.store.undelete(held.scope, "n", now=later, note=held.note("undelete"), may=lambda _: None)


async def test_words_of_a_deleted_checkpoint_come_back_with_it_alone(held: Held, postgres: TestDatabase) -> None:
    records = Records(held.made.database, held.made.scopes, postgres.embeddings)
    said = words("notes", "one")
    await held.save("n", said)
    await held.store.branch(held.scope, "n", "of n", now=T0, note=held.note())
    for name in ("n", "of n"):
        await held.store.delete(held.scope, name, now=T0, note=held.note())
    with pytest.raises(Conflict, match="deleted checkpoint"):
        await records.undelete_memory(held.scope, said.memory_id, T0)
    await held.store.undelete(held.scope, "of n", now=T0, note=held.note(), may=lambda _: None)
    await records.delete_memory(held.scope, said.memory_id, T0)
    assert (await records.undelete_memory(held.scope, said.memory_id, T0)).content == "one"


@pytest.mark.parametrize("again", [False, True], ids=["once", "loaded again meanwhile"])
async def test_a_load_that_was_given_is_stored_no_more(held: Held, again: bool) -> None:
    made, scope = held.made, held.scope
    kept = await held.save("n", words("notes", "one"))
    giving, after = Giving(session_of(scope, "s").session_id, held.note("load")), kept
    await held.store.load(scope, kept, giving, now=T0)
    if again:
        after = await held.store.branch(scope, "n", "other", now=T0, note=held.note("branch"))
        await held.store.load(scope, after, giving, now=T0)
    commit = exchange(scope, "s", 2)
    assert commit.retrieval is not None
    given = replace(commit.retrieval.record, restored=mark_of(kept.row.checkpoint_id, kept.version))
    await made.write.commit(replace(commit, retrieval=replace(commit.retrieval, record=given)), now=T0)
    left = await made.read.ledger(scope, giving.session_id, [RESTORE])
    assert left == {RESTORE: mark_of(after.row.checkpoint_id, 1) if again else b""}
