"""Consolidation on a real store: what has had its time goes, nothing else does, whoever kills it at whatever moment."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import pytest

from memory import commands
from memory.adapters.postgres import blocks
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.consolidate_store import JOB, ConsolidateStore
from memory.adapters.postgres.database import Bounds, Transaction
from memory.adapters.postgres.leadership import Leadership
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.sharing import Sharing
from memory.config import Settings, load_settings
from memory.consolidation import STEPS, Counted, Due, Lead, Step, Terms, Window, terms_of
from memory.errors import LeaseLost, NotFound, StoreUnavailable
from memory.ids import new_id
from memory.model import Entry, IndexRow, LedgerNode, Scope
from memory.read.conversation import WITHDRAWN
from memory.read.items import Filter
from memory.shared import SharedTo
from memory.stored import MemoryChange
from memory.telemetry import Metrics
from memory.write.consolidate import Consolidation, Parts, keep_consolidating
from memory.write.months import Historian
from memory.write.rebuild import Rebuilder
from policies.fact import Fact
from tests.postgres.seed import SUBJECT, T0, Stores, digest, exchange, key_of, memory_of, retrieval, stores, vectors
from tests.postgres.test_facts import DAY, fact, id_of, say, texts
from tests.postgres_fixture import DIM, TestDatabase

ALL = {
    "consolidate.never_used_keep_days": 100,
    "consolidate.rows_max": 1_000,
    "consolidate.pause_ms": 0,
}


class Words:
    """Windows, vectors and language of a test: one window, any vector, no language."""

    model, dim = "test-model", DIM

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        return [(0, len(text))] if text else []

    async def embed_query(self, text: str) -> Any:
        return vectors(1)[0]

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        return vectors(len(texts)) if texts else np.zeros((0, DIM), np.float32)

    def detect(self, text: str) -> None:
        return None


@dataclass
class Night:
    """The stores with a consolidation on them, and its clock."""

    stores: Stores
    settings: Settings
    now: datetime = T0
    holder: str = "night"
    said: list[Counted] = field(default_factory=list)

    @property
    def store(self) -> ConsolidateStore:
        return ConsolidateStore(self.stores.database, "memory_embeddings_test_model_1d820189")

    def on(self, store: Any) -> Consolidation:
        words = Words()
        rebuilder = Rebuilder(words, words, words, 8, {}, lambda: self.now)
        return Consolidation(
            Parts(
                store=store,
                summarise=rebuilder,
                tells=Historian(words, words, words, 8, {}, lambda: self.now),
                terms=lambda now: terms_of(self.settings, now),
                clock=lambda: self.now,
                metrics=Metrics(),
                holder=self.holder,
                pause_s=0.0,
            )
        )

    async def run(self, now: datetime | None = None) -> dict[str, int]:
        """A whole run; what each step changed, those that changed something."""
        self.now = now or self.now
        report = await self.on(self.store).run(lambda _, counted: self.said.append(counted))
        assert report is not None
        return {one.step: one.changed for one in report if one.changed}


@pytest.fixture
async def night(postgres: TestDatabase) -> AsyncIterator[Night]:
    async with stores(postgres, Bounds(connections_max=8)) as made:
        yield Night(made, load_settings(None, ALL, {}))


async def shown(night: Night, as_of: datetime | None = None) -> list[IndexRow]:
    """What recall may look at."""
    store = night.stores
    scopes = [one.scope_id for one in await store.read.visible_scopes(store.scope())]
    batches = [rows async for rows in store.read.index_rows(store.tenant, scopes, as_of=as_of)]
    now = as_of or night.now
    return [
        row
        for row in itertools.chain.from_iterable(batches)
        if row.visible and (row.expires_at is None or row.expires_at > now)
    ]


async def contents(night: Night, as_of: datetime | None = None) -> set[str]:
    return {row.content for row in await shown(night, as_of)}


async def tell(
    night: Night, *said: str, at: datetime = T0, ends: datetime | None = None, session: str = "s"
) -> list[UUID]:
    """An exchange with a memory for each text, stored at a moment; their ids."""
    made = exchange(night.stores.scope(), f"{session}-{said[0]}", 0, said, retrieval=None)
    memories = tuple(replace(one, expires_at=ends) for one in made.memories)
    await night.stores.write.commit(replace(made, memories=memories), now=at)
    return [one.memory_id for one in memories]


async def patch(night: Night, memory_id: UUID, version: int = 1, **change: Any) -> None:
    await night.stores.records.patch_memory(night.stores.scope(), memory_id, version, MemoryChange(**change), night.now)


def hold_back(postgres: TestDatabase, memory_id: UUID) -> None:
    held = "quarantined_at = now(), quarantine_reason = 'injection'"
    postgres.psql(f"UPDATE memories SET {held} WHERE memory_id = '{memory_id}'")


def events(postgres: TestDatabase, what: str) -> int:
    return int(postgres.psql(f"SELECT count(*) FROM outbox WHERE event = '{what}'"))


# ---------------------------------------------------------------- expiry


async def test_an_expired_memory_is_in_no_answer_before_it_is_deleted(night: Night) -> None:
    store = night.stores
    (gone,) = await tell(night, "for a day", ends=T0 + DAY)
    (kept,) = await tell(night, "for ever")
    night.now = T0 + DAY
    assert await contents(night) == {"for ever"}
    scopes = [one.scope_id for one in await store.read.visible_scopes(store.scope())]
    near = await store.read.nearest(store.tenant, scopes, vectors(1)[0], 9, Filter(), now=night.now)
    assert [row.memory_id for row in near] == [kept]
    for order in ("asc", "desc"):
        page = await store.records.memories(store.scope(), limit=9, order=order, now=night.now)
        assert [row.memory_id for row in page.rows] == [kept]
    with pytest.raises(NotFound):
        await store.records.memory(store.scope(), gone, now=night.now)
    assert (await store.records.memory(store.scope(), gone, now=T0)).memory_id == gone


async def test_what_expired_long_ago_is_erased_and_the_feed_says_so(night: Night, postgres: TestDatabase) -> None:
    await tell(night, "one", "two", ends=T0 + DAY)
    await tell(night, "three", ends=T0 + 40 * DAY)
    assert await night.run(T0 + 30 * DAY) == {}
    assert await night.run(T0 + 32 * DAY) == {"expired": 2}
    assert postgres.psql("SELECT content FROM memory_versions") == "three"
    for table in (postgres.embeddings, "derivations", "provenance", "memories"):
        assert postgres.psql(f"SELECT count(*) FROM {table}") == "1", table
    assert postgres.psql("SELECT count(*) FROM turns") == "3"
    assert events(postgres, "expired") == 2


async def test_what_an_expired_fact_had_replaced_goes_before_it(night: Night, postgres: TestDatabase) -> None:
    for number in range(70):
        await say(night.stores, fact(f"city {number}"), day=number)
    postgres.psql(
        f"UPDATE memory_versions SET expires_at = '{T0 + 80 * DAY}' WHERE superseded_by IS NULL AND recorded_to IS NULL"
    )
    assert await night.run(T0 + 111 * DAY) == {"expired": 70}
    assert postgres.psql("SELECT count(*) FROM memories") == "0"


async def test_a_summary_that_expired_leaves_a_session_that_can_have_another(
    night: Night, postgres: TestDatabase
) -> None:
    store = night.stores
    made = exchange(store.scope(), "s", 0, retrieval=None)
    await store.write.commit(made, now=T0)
    summary = replace(memory_of(made.turns[0]), memory_id=digest_id("sum"), kind="summary", expires_at=T0 + DAY)

    async def put(turns: int) -> int | None:
        session_id = made.session.session_id
        return await store.write.put_summary(store.scope(), session_id, summary, turns, subject_id=SUBJECT, now=T0)

    assert await put(1) == 1
    assert (await night.run(T0 + 60 * DAY))["expired"] == 1
    assert await put(2) == 1


def digest_id(name: str) -> UUID:
    return UUID(bytes=bytes(digest(name))[:16])


async def test_a_fact_said_again_lives_anew(night: Night) -> None:
    def ending(what: Fact, at: datetime) -> Any:
        return say(night.stores, what, day=(at - T0).days, ends=at + 10 * DAY)

    await ending(fact("berlin"), T0)
    night.now = T0 + 11 * DAY
    assert await contents(night) == set()
    await ending(fact("berlin"), T0 + 12 * DAY)
    night.now = T0 + 13 * DAY
    assert await contents(night) == {"The user lives in berlin."}
    night.now = T0 + 23 * DAY
    assert await contents(night) == set()


async def test_a_fact_whose_time_in_the_world_is_over_is_not_given(night: Night) -> None:
    store = night.stores
    await say(store, fact("lisbon", valid_to=T0 + 5 * DAY))
    await say(store, fact("rome", predicate="lived_in", valid_to=T0 - 500 * DAY, cardinality="many"))
    both = {"The user lives in lisbon.", "The user lives in rome."}
    night.now = T0 + 4 * DAY
    assert await contents(night) == both
    night.now = T0 + 6 * DAY
    assert await contents(night) == {"The user lives in rome."}  # said as what was
    assert await contents(night, as_of=T0 + 4 * DAY) == both
    assert await contents(night, as_of=T0 + 6 * DAY) == {"The user lives in rome."}
    scopes = [one.scope_id for one in await store.read.visible_scopes(store.scope())]
    near = await store.read.nearest(store.tenant, scopes, vectors(1)[0], 9, Filter(), now=night.now)
    assert [row.content for row in near] == ["The user lives in rome."]


# ---------------------------------------------------------------- blocks that hold what goes


async def place(night: Night, scope: Scope, session: str, *blocks: Sequence[UUID]) -> dict[str, Any]:
    """A conversation in which each question was given a block, of these memories; where to look for them."""
    for at, quoted in enumerate(blocks):
        made = exchange(scope, session, at, ("x",), memories=())
        given, chain = retrieval(made.exchange.exchange_id, *quoted), made.turns[0].chain
        (placed,) = given.record.placed
        before = tuple(
            replace(placed, chain=digest(session, old), entry=_entry(ids), since=UUID(int=1))
            for old, ids in enumerate(blocks[:at])
        )
        given = replace(given, record=replace(given.record, placed=(*before, replace(placed, chain=chain))))
        node = LedgerNode(chain, at, 5, b"block %d" % at, b"s" * 32, 3, placed.entry.retrieval_id)
        await night.stores.write.commit(replace(made, retrieval=given, nodes=(node,)), now=T0)
    chains = [digest(session, at) for at in range(len(blocks))]
    return {"scope": scope, "session_id": exchange(scope, session, 0).session.session_id, "chains": chains}


def _entry(ids: Sequence[UUID]) -> Entry:
    return retrieval(new_id(), *ids).record.placed[0].entry


async def left(night: Night, where: dict[str, Any]) -> list[bytes]:
    """What stands at the places of a conversation."""
    found = await night.stores.read.ledger(**where)
    return [found[chain] for chain in where["chains"]]


async def test_what_is_erased_at_its_end_leaves_the_blocks_that_hold_it(night: Night, postgres: TestDatabase) -> None:
    scope = night.stores.scope()
    gone, also = await tell(night, "for a day", "also", ends=T0 + DAY)
    (kept,) = await tell(night, "for ever")
    talk = await place(night, scope, "talk", [kept], [kept, gone], [kept])
    other = await place(night, scope, "other", [also], [kept])
    await night.run(T0 + 30 * DAY)
    assert await left(night, talk) == [b"block 0", b"block 1", b"block 2"]
    assert await night.run(T0 + 32 * DAY) == {"expired": 2}
    assert await left(night, talk) == [b"block 0", WITHDRAWN, b"block 2"]
    assert await left(night, other) == [WITHDRAWN, b"block 1"]
    assert postgres.psql("SELECT count(*) FROM ledger WHERE withdrawn_at IS NOT NULL AND placed_sealed IS NULL") == "2"


async def test_a_superseded_fact_that_is_erased_leaves_the_blocks_that_hold_it(night: Night) -> None:
    await say(night.stores, fact("berlin"), day=0)
    berlin = await id_of(night.stores, "berlin")
    talk = await place(night, night.stores.scope(), "talk", [berlin])
    await say(night.stores, fact("paris"), day=10)
    await night.run(T0 + 189 * DAY)
    assert await left(night, talk) == [b"block 0"]
    assert await night.run(T0 + 191 * DAY) == {"superseded": 1}
    assert await left(night, talk) == [WITHDRAWN]


@pytest.mark.parametrize("to", ["project", "tenant"])
async def test_copies_that_go_with_what_is_erased_leave_the_blocks_of_others(
    night: Night, postgres: TestDatabase, to: SharedTo
) -> None:
    store = night.stores
    gone, kept = [(await tell(night, text, ends=ends))[0] for text, ends in (("day", T0 + DAY), ("ever", None))]
    sharing = Sharing(store.database, store.scopes, AuditLog(store.database, key_of), postgres.embeddings)
    copies = [(await sharing.share(store.scope(), one, to, actor="key", now=T0)).copy_id for one in (gone, kept)]
    near, far = store.scope("bob", "p", "b"), store.scope("eve", "q", "b")
    talks = [await place(night, scope, "talk", *([one] for one in copies)) for scope in (near, far)]
    assert (await night.run(T0 + 32 * DAY))["expired"] >= 1
    reached = [WITHDRAWN, b"block 1"]
    assert await left(night, talks[0]) == reached
    assert await left(night, talks[1]) == (reached if to == "tenant" else [b"block 0", b"block 1"])


async def test_what_a_scope_of_many_conversations_was_given_is_found_in_pages(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "SESSIONS_AT_ONCE", 1)
    monkeypatch.setattr(blocks, "SCOPES_AT_ONCE", 1)
    (gone,) = await tell(night, "for a day", ends=T0 + DAY)
    talks = [await place(night, night.stores.scope(), f"talk {n}", [gone]) for n in range(3)]
    assert await night.run(T0 + 32 * DAY) == {"expired": 1}
    assert [await left(night, one) for one in talks] == [[WITHDRAWN]] * 3


# ---------------------------------------------------------------- superseded facts


async def outdated(night: Night, content: str) -> set[UUID]:
    (row,) = [row for row in await shown(night) if row.content == content]
    return set(row.outdates)


async def test_a_superseded_fact_goes_and_its_turn_stays_out_of_date(night: Night, postgres: TestDatabase) -> None:
    for number, city in enumerate(("berlin", "paris", "rome")):
        await say(night.stores, fact(city), day=10 * number)
    before = await outdated(night, "The user lives in rome.")
    assert len(before) == 2
    assert await night.run(T0 + 189 * DAY) == {}
    assert await night.run(T0 + 201 * DAY) == {"superseded": 2}
    assert postgres.psql("SELECT object FROM facts") == "rome"
    assert await outdated(night, "The user lives in rome.") == before
    await say(night.stores, fact("oslo"), day=202)
    night.now = T0 + 203 * DAY
    assert before < await outdated(night, "The user lives in oslo.")
    assert await night.run(T0 + 400 * DAY) == {"superseded": 1}
    assert before < await outdated(night, "The user lives in oslo.")
    assert events(postgres, "erased") == 3


_MANY = """
INSERT INTO memories
    SELECT (jsonb_populate_record(m, jsonb_build_object('memory_id', md5(n::text)::uuid, 'content_key',
        '\\x' || encode(sha256(n::text::bytea), 'hex')))).*
    FROM memories m, generate_series(1, 2000) n WHERE m.superseded_reason IS NOT NULL;
INSERT INTO memory_versions
    SELECT (jsonb_populate_record(v, jsonb_build_object('memory_id', md5(n::text)::uuid))).*
    FROM memory_versions v JOIN facts f USING (memory_id), generate_series(1, 2000) n WHERE f.state = 'superseded';
INSERT INTO facts
    SELECT (jsonb_populate_record(f, jsonb_build_object('memory_id', md5(n::text)::uuid, 'object', f.object || n))).*
    FROM facts f, generate_series(1, 2000) n WHERE f.state = 'superseded';
INSERT INTO fact_sayings
    SELECT (jsonb_populate_record(s, jsonb_build_object('memory_id', md5(n::text)::uuid))).*
    FROM fact_sayings s JOIN facts f USING (memory_id), generate_series(1, 2000) n WHERE f.state = 'superseded';
SET session_replication_role = replica;
INSERT INTO facts
    SELECT (jsonb_populate_record(f, jsonb_build_object('memory_id', md5(n || 'of another')::uuid, 'subject', n))).*
    FROM facts f, generate_series(1, 5000) n WHERE f.object = 'ljubljana';
ANALYZE memories, memory_versions, facts, fact_sayings
"""


async def test_a_key_of_thousands_of_former_values_is_looked_at_in_time(postgres: TestDatabase) -> None:
    """What takes longer than a statement may ends a night at the same place again and again."""
    async with stores(postgres, Bounds(statement_timeout_ms=1_000)) as made:
        for number, city in enumerate(("maribor", "ljubljana")):
            await say(made, fact(city), day=10 * number)
        postgres.psql(_MANY)
        night = Night(made, load_settings(None, ALL, {}))
        scope_id, terms = await made.scopes.ensure(made.scope()), terms_of(night.settings, T0 + 400 * DAY)
        window = await night.store.window(made.tenant, scope_id, "superseded", None, 2_000, terms)
        assert (window.examined, len(window.due)) == (2_000, 2_000)


async def test_whom_only_what_is_erased_named_goes_with_it(night: Night, postgres: TestDatabase) -> None:
    for number, city in enumerate(("berlin", "paris", "rome")):
        await say(night.stores, fact(city), day=10 * number)
    assert postgres.psql("SELECT count(*) FROM entities") == "4"
    assert await night.run(T0 + 201 * DAY) == {"superseded": 2}
    assert postgres.psql("SELECT count(*) FROM entities") == "2", "the user and rome"
    assert postgres.psql("SELECT count(*) FROM relationships") == "1"


async def test_as_of_inside_the_replay_retention_sees_what_was(night: Night) -> None:
    night.settings = load_settings(
        None, {**ALL, "consolidate.superseded_keep_days": 0, "replay.retention_days": 20}, {}
    )
    await say(night.stores, fact("berlin"))
    await say(night.stores, fact("paris"), day=10)
    assert await night.run(T0 + 29 * DAY) == {}
    assert await contents(night, as_of=T0 + 9 * DAY) == {"The user lives in berlin."}
    assert await night.run(T0 + 31 * DAY) == {"superseded": 1}
    assert await contents(night, as_of=T0 + 11 * DAY) == {"The user lives in paris."}


async def test_a_key_that_was_corrected_keeps_what_the_correction_stands_against(night: Night) -> None:
    await say(night.stores, fact("berlin"))
    await say(night.stores, fact("paris", correction=True), day=10)
    assert await night.run(T0 + 300 * DAY) == {}
    await say(night.stores, fact("berlin"), day=301)
    assert await texts(night.stores) == {"The user lives in paris."}


async def test_pinned_and_confirmed_facts_and_one_said_in_between_are_kept(
    night: Night, postgres: TestDatabase
) -> None:
    for key in ("pinned", "confirmed", "between"):
        if key == "between":
            await say(night.stores, fact("new", predicate=key), day=-5)
        await say(night.stores, fact("old", predicate=key))
        if key != "between":
            (row,) = [row for row in await shown(night) if row.attributes["predicate"] == key]
            change = {"pinned": True} if key == "pinned" else {"validation_status": "confirmed"}
            await patch(night, row.memory_id, **change)
        await say(night.stores, fact("new", predicate=key), day=10)
    assert "superseded" not in await night.run(T0 + 300 * DAY)
    assert postgres.psql("SELECT count(*) FROM facts WHERE state = 'superseded'") == "3"


async def test_evidence_is_bounded_and_what_holds_stays(night: Night, postgres: TestDatabase) -> None:
    await say(night.stores, fact("berlin"), day=-1)
    for number in range(90):
        await say(night.stores, fact("paris"), day=number / 2)
    turns = await outdated(night, "The user lives in paris.")
    assert await night.run(T0 + 50 * DAY) == {"evidence": 26, "repeated": 1}
    assert postgres.psql("SELECT count(*) FROM fact_sayings") == "65"
    said = postgres.psql(f"SELECT extract(epoch FROM said_at - '{T0}') / 43200 FROM fact_sayings ORDER BY said_at")
    first_and_latest = [-2, *range(8), *range(34, 90)]  # half a day apart; the first is what was said of berlin
    assert [round(float(half_days)) for half_days in said.split()] == first_and_latest
    assert await night.run(T0 + 50 * DAY) == {}
    assert await texts(night.stores) == {"The user lives in paris."}
    await say(night.stores, fact("rome"), day=51)
    assert len(await outdated(night, "The user lives in rome.")) == 91
    assert turns < await outdated(night, "The user lives in rome.")


# ---------------------------------------------------------------- hidden, and erased later


async def test_what_was_never_used_is_hidden_can_come_back_and_goes_later(night: Night, postgres: TestDatabase) -> None:
    store = night.stores
    ids = await tell(night, "unused", "used", "pinned", "confirmed", "asked back")
    done = exchange(store.scope(), "other", 0, ("x",), memories=(), retrieval=retrieval(SUBJECT, ids[1]))
    await store.write.commit(done, now=T0)
    await patch(night, ids[2], pinned=True)
    await patch(night, ids[3], validation_status="confirmed")
    kept = {"used", "pinned", "confirmed"}
    assert await night.run(T0 + 99 * DAY) == {}
    assert await night.run(T0 + 101 * DAY) == {"unused": 2}
    assert await contents(night) == kept
    assert await contents(night, as_of=T0 + 100 * DAY) == kept | {"unused", "asked back"}
    await store.records.undelete_memory(store.scope(), ids[4], night.now)
    assert await contents(night) == kept | {"asked back"}
    await patch(night, ids[4], validation_status="confirmed")
    assert await night.run(T0 + 130 * DAY) == {}
    assert await night.run(T0 + 132 * DAY) == {"pruned": 1}
    assert postgres.psql("SELECT count(*) FROM memories") == "4"
    assert events(postgres, "deleted") == 2


async def test_what_a_person_hides_after_it_came_back_is_not_erased(night: Night, postgres: TestDatabase) -> None:
    (hidden,) = await tell(night, "unused")
    records, scope = night.stores.records, night.stores.scope()
    assert await night.run(T0 + 101 * DAY) == {"unused": 1}
    await records.undelete_memory(scope, hidden, night.now)
    await records.delete_memory(scope, hidden, night.now + DAY)
    assert await night.run(T0 + 500 * DAY) == {}
    assert postgres.psql("SELECT count(*) FROM memories") == "1"


async def test_what_a_run_hid_and_erased_may_still_be_told(night: Night, postgres: TestDatabase) -> None:
    await tell(night, "unused")
    assert await night.run(T0 + 101 * DAY) == {"unused": 1}
    assert await night.run(T0 + 140 * DAY) == {"pruned": 1}
    said = UUID(postgres.psql("SELECT event_id FROM turns"))
    assert await night.stores.write.untold(night.stores.scope(), [said]) == frozenset()


async def test_what_waits_for_a_person_does_not_end_as_never_used(night: Night, postgres: TestDatabase) -> None:
    held, _ = await tell(night, "held back", "unused")
    hold_back(postgres, held)
    assert await night.run(T0 + 101 * DAY) == {"unused": 1}
    assert postgres.psql("SELECT memory_id FROM memories WHERE deleted_at IS NULL") == str(held)


async def test_an_edit_is_not_hidden_since_what_it_put_right_would_be_told_again(
    night: Night, postgres: TestDatabase
) -> None:
    edited, _ = await tell(night, "edited", "unused")
    await patch(night, edited, content="put right", importance=0.1)
    assert await night.run(T0 + 101 * DAY) == {"unused": 1}
    assert await contents(night) == {"put right"}
    await tell(night, "a", "b", at=night.now)
    night.settings = load_settings(None, {"consolidate.rows_max": 2, "consolidate.pause_ms": 0}, {})
    assert (await night.run(night.now + DAY))["bound"] == 1
    assert "put right" in await contents(night)


async def name_in_a_checkpoint(postgres: TestDatabase, named: UUID) -> None:
    """A checkpoint of one part, this memory."""
    row = "SELECT tenant_id, gen_random_uuid(), scope_id, 'c', 1, NULL, NULL, NULL, now(), now() FROM memories"
    for statement in (
        f"INSERT INTO checkpoints {row} WHERE memory_id = '{named}'",
        "INSERT INTO checkpoint_versions SELECT tenant_id, checkpoint_id, 1, scope_id, 0, now() FROM checkpoints",
        "INSERT INTO checkpoint_parts SELECT tenant_id, checkpoint_id, 1, 0, scope_id, 'fact', "
        f"'{named}', 1, false FROM checkpoints",
    ):
        postgres.psql(statement)


async def test_a_bound_leaves_what_a_checkpoint_names(night: Night, postgres: TestDatabase) -> None:
    night.settings = load_settings(None, {"consolidate.rows_max": 2, "consolidate.pause_ms": 0}, {})
    named, _, _ = await tell(night, "named", "a", "b")
    await patch(night, named, importance=0.1)
    await name_in_a_checkpoint(postgres, named)
    assert await night.run(T0 + DAY) == {"bound": 1}
    assert "named" in await contents(night)


async def test_what_a_bound_may_not_hide_any_more_is_left_alone(night: Night, postgres: TestDatabase) -> None:
    """Since it was chosen it was edited, named in a checkpoint, pinned, hidden, or took the place of another."""
    edited, named, pinned, hidden, free = await tell(night, "edited", "named", "pinned", "hidden", "free")
    await say(night.stores, fact("berlin"))
    await say(night.stores, fact("paris"), day=1)
    berlin, paris = await id_of(night.stores, "berlin"), await id_of(night.stores, "paris")
    await patch(night, edited, content="put right")
    await name_in_a_checkpoint(postgres, named)
    await patch(night, pinned, pinned=True)
    await hide(night, hidden)
    night.now = T0 + 9 * DAY
    store, terms = night.store, terms_of(night.settings, night.now)
    scope_id = await night.stores.scopes.ensure(night.stores.scope())
    fence = await store.lead("night", 600)
    assert fence is not None
    lead = Lead("night", fence, (await store.begin(night.now)).run_id)
    chosen = [Due(one) for one in (edited, named, pinned, hidden, berlin, paris, free)]
    assert (await store.change(night.stores.tenant, scope_id, "bound", chosen, terms, lead)).rows == 1
    assert postgres.psql("SELECT memory_id FROM memories WHERE pruned_at IS NOT NULL") == str(free)


async def test_what_a_checkpoint_names_is_not_hidden_while_that_is_there(night: Night, postgres: TestDatabase) -> None:
    named, _ = await tell(night, "named", "not named")
    await name_in_a_checkpoint(postgres, named)
    assert await night.run(T0 + 101 * DAY) == {"unused": 1}
    assert await contents(night) == {"named"}
    postgres.psql("UPDATE checkpoints SET deleted_at = now()")
    assert await night.run(T0 + 102 * DAY) == {"unused": 1}


async def test_a_superseded_fact_that_a_checkpoint_names_leads_it_to_what_holds(
    night: Night, postgres: TestDatabase
) -> None:
    for number, city in enumerate(("berlin", "paris", "rome")):
        await say(night.stores, fact(city), day=number)
    await name_in_a_checkpoint(postgres, await id_of(night.stores, "berlin"))
    assert await night.run(T0 + 300 * DAY) == {"superseded": 1}
    left = "SELECT string_agg(object, ' ' ORDER BY object) FROM facts"
    assert postgres.psql(left) == "berlin rome" and postgres.psql("SELECT count(*) FROM checkpoint_parts") == "1"
    postgres.psql("UPDATE checkpoints SET deleted_at = now()")
    assert await night.run(T0 + 301 * DAY) == {"superseded": 1}
    assert postgres.psql(left) == "rome"


async def test_what_a_person_hid_is_not_erased(night: Night, postgres: TestDatabase) -> None:
    ids = await tell(night, "hidden")
    await night.stores.records.delete_memory(night.stores.scope(), ids[0], T0)
    assert await night.run(T0 + 500 * DAY) == {}
    assert postgres.psql("SELECT count(*) FROM memories") == "1"


async def test_a_fact_in_force_is_not_hidden_where_that_would_bring_back_another(night: Night) -> None:
    await say(night.stores, fact("berlin"))
    await say(night.stores, fact("paris"), day=1)
    await say(night.stores, fact("tea", predicate="likes", cardinality="many"), day=1)
    changed = await night.run(T0 + 150 * DAY)
    assert changed["unused"] == 1
    assert await texts(night.stores) == {"The user lives in paris."}


async def test_a_bound_takes_the_least_worth_and_nothing_pinned(night: Night, postgres: TestDatabase) -> None:
    night.settings = load_settings(None, {"consolidate.rows_max": 3, "consolidate.pause_ms": 0}, {})
    low = await tell(night, "low 1", "low 2", "pinned low")
    await tell(night, "a", "b", "c", at=T0 + DAY)
    for memory_id in low:
        await patch(night, memory_id, importance=0.1)
    await patch(night, low[2], version=2, pinned=True)
    night.now = T0 + 2 * DAY
    assert [one.changed for one in await night.on(night.store).rehearse(lambda *_: None) if one.step == "bound"] == [3]
    assert len(await shown(night)) == 6
    assert await night.run(T0 + 2 * DAY) == {"bound": 3}
    left = await contents(night)
    assert "pinned low" in left
    assert len(left) == 3
    assert not left & {"low 1", "low 2"}
    assert await night.run(T0 + 2 * DAY) == {}


@pytest.mark.parametrize("bound", [{"rows_max": 5}, {"bytes_max": 5 * (6 + 776) + 300}])
async def test_a_bound_is_kept_though_no_process_lives_to_look_at_all(
    night: Night, postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch, bound: dict[str, int]
) -> None:
    settings = {f"consolidate.{name}": value for name, value in bound.items()}
    night.settings = load_settings(None, {**settings, "consolidate.pause_ms": 0}, {})
    monkeypatch.setattr("memory.write.consolidate.ROWS_AT_ONCE", 2)
    monkeypatch.setattr("memory.write.consolidate.NOTE_EVERY_S", 0.0)
    ids = await tell(night, *(f"text {number:02}" for number in range(24)))
    for memory_id in ids[:19]:
        await patch(night, memory_id, importance=0.1)
    night.now = T0 + DAY
    monkeypatch.setattr("memory.write.consolidate.STEPS", ("bound",))
    lives, report = 0, None
    while report is None:
        lives += 1
        assert lives < 40
        try:
            report = await night.on(Dying(night.store, 14)).run(lambda *_: None)
        except asyncio.CancelledError:
            postgres.psql("UPDATE lane_leases SET expires_at = '-infinity' WHERE lane = 'job:consolidation'")
    assert lives > 3
    assert [one.changed for one in report] == [19]
    left = await contents(night)
    assert left == {f"text {number}" for number in range(19, 24)}


@pytest.mark.parametrize("bound", [{"rows_max": 5}, {"bytes_max": 5 * (6 + 776) + 300}])
async def test_a_run_that_goes_on_hides_no_more_than_its_bound_takes(night: Night, bound: dict[str, int]) -> None:
    """All are worth the same; the store is away behind each change, before the run has noted anything more."""
    settings = {f"consolidate.{name}": value for name, value in bound.items()}
    night.settings = load_settings(None, {**settings, "consolidate.pause_ms": 0}, {})
    await tell(night, *(f"text {number}" for number in range(8)))
    night.now = T0 + DAY

    class Away(ConsolidateStore):
        async def change(self, *arguments: Any) -> Any:
            await super().change(*arguments)
            raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        await night.on(Away(night.stores.database, "memory_embeddings_test_model_1d820189")).run(lambda *_: None)
    assert await night.run() == {"bound": 3}
    assert len(await contents(night)) == 5


async def test_a_bound_in_bytes(night: Night) -> None:
    await tell(night, *(f"text {number}" for number in range(8)))
    size = 8 * (6 + 776)  # text, and a vector of 384 halves with its head
    bounded = {"consolidate.bytes_max": size - 2_000, "consolidate.pause_ms": 0}
    night.settings = load_settings(None, bounded, {})
    assert await night.run(T0 + DAY) == {"bound": 3}
    assert await night.run(T0 + DAY) == {}


async def test_a_bound_is_kept_though_what_is_worth_least_may_not_go(night: Night) -> None:
    night.settings = load_settings(None, {"consolidate.rows_max": 4, "consolidate.pause_ms": 0}, {})
    await say(night.stores, fact("berlin"))
    await say(night.stores, fact("paris", importance=0.05), day=1)
    await tell(night, *(f"text {number}" for number in range(4)), at=T0 + DAY)
    assert await night.run(T0 + 2 * DAY) == {"bound": 2}
    assert await texts(night.stores) == {"The user lives in paris."}
    assert await night.run(T0 + 3 * DAY) == {}


async def test_a_bound_that_cannot_be_kept_ends(night: Night) -> None:
    night.settings = load_settings(None, {"consolidate.rows_max": 1, "consolidate.pause_ms": 0}, {})
    for memory_id in await tell(night, "one", "two", "three"):
        await patch(night, memory_id, pinned=True)
    assert await night.run(T0 + DAY) == {}


# ---------------------------------------------------------------- summaries


async def summarised(night: Night, *said: str) -> tuple[Any, UUID]:
    """A session of these words with a summary that rests on all of them."""
    store = night.stores
    made = exchange(store.scope(), "s", 0, said, retrieval=None)
    await store.write.commit(made, now=T0)
    summary = replace(
        memory_of(made.turns[0], content="\n".join(said)),
        memory_id=digest_id("sum"),
        kind="summary",
        content_key=digest("sum"),
        source_turns=tuple(one.event_id for one in made.turns),
        windows=((0, 5),),
    )
    later = T0 + timedelta(minutes=1)
    await store.write.put_summary(
        store.scope(), made.session.session_id, summary, len(said), subject_id=SUBJECT, now=later
    )
    return made, summary.memory_id


async def test_few_summaries_are_asked_about_at_once_since_each_leads_to_many_turns(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 summaries of 60 turns each took longer than a statement may, and the night ended there."""

    class Asked(ConsolidateStore):
        most: ClassVar[dict[str, int]] = {}

        async def window(self, tenant: UUID, scope_id: int, step: Step, *args: Any) -> Window:
            self.most[step] = args[1]
            return await super().window(tenant, scope_id, step, *args)

        async def windows(
            self, tenant: UUID, scope_ids: Sequence[int], step: Step, limit: int, terms: Terms
        ) -> dict[int, Window | None]:
            assert len(scope_ids) * limit <= 100 or step != "summaries"
            return await super().windows(tenant, scope_ids, step, limit, terms)

    monkeypatch.setattr("memory.write.consolidate.FEW_ROWS", 1)
    await summarised(night, BOAT)
    night.now = T0 + DAY
    assert await night.on(Asked(night.stores.database, "memory_embeddings_test_model_1d820189")).run(lambda *_: None)
    assert Asked.most["summaries"] <= 100


async def test_what_was_looked_at_of_many_scopes_is_noted_once(night: Night) -> None:
    """Each of 50,000 users of whom something was due had a transaction, and a line of progress, more for it."""
    for number in range(12):
        made = exchange(night.stores.scope(f"user {number}"), "s", 0, retrieval=None)
        memories = tuple(replace(one, expires_at=T0 + DAY) for one in made.memories)
        await night.stores.write.commit(replace(made, memories=memories), now=T0)

    class Noted(ConsolidateStore):
        times: ClassVar[list[Step]] = []

        async def note(self, tenant: UUID, lead: Lead, counted: Counted, *args: Any) -> None:
            self.times.append(counted.step)
            await super().note(tenant, lead, counted, *args)

    night.now = T0 + 40 * DAY
    report = await night.on(Noted(night.stores.database, "memory_embeddings_test_model_1d820189")).run(lambda *_: None)
    assert report is not None
    assert next((one.examined, one.changed) for one in report if one.step == "expired") == (24, 24)
    assert Noted.times.count("expired") < 6, "in front of the first change, at the end, and each second"


def summary_text(postgres: TestDatabase) -> str:
    return postgres.psql(
        "SELECT v.content FROM memory_versions v JOIN memories m USING (tenant_id, memory_id, version)"
        " WHERE m.kind = 'summary'"
    )


BOAT, SECRET = "My boat is called Halcyon.", "My neighbour drinks too much."


async def test_a_summary_is_made_anew_without_a_turn_that_its_owner_hid(night: Night, postgres: TestDatabase) -> None:
    made, _ = await summarised(night, BOAT, SECRET)
    assert await night.run(T0 + DAY) == {}
    await night.stores.records.delete_memory(night.stores.scope(), made.memories[1].memory_id, T0 + DAY)
    assert await night.run(T0 + DAY) == {"summaries": 1}
    assert summary_text(postgres) == BOAT
    assert await night.run(T0 + DAY) == {}
    assert {row.content for row in await shown(night) if row.kind == "summary"} == {BOAT}


async def given_of(night: Night, session_id: UUID) -> str | None:
    """The rolling summary that a prompt of the session would get."""
    scopes = [one.scope_id for one in await night.stores.read.visible_scopes(night.stores.scope())]
    row = await night.stores.read.summary(night.stores.tenant, scopes, session_id)
    return None if row is None else row.content


async def test_a_summary_that_was_rejected_stays_so_when_it_goes_on_and_when_it_is_made_anew(night: Night) -> None:
    made, summary_id = await summarised(night, BOAT, SECRET)
    session_id, records, scope = made.session.session_id, night.stores.records, night.stores.scope()
    await records.patch_memory(scope, summary_id, 1, MemoryChange(validation_status="rejected"), T0 + DAY)
    assert await given_of(night, session_id) is None
    state = await night.stores.write.summary_state(scope, session_id)
    assert state is not None
    more = replace(memory_of(made.turns[0], content=BOAT), windows=((0, 5),), kind="summary")
    await night.stores.write.put_summary(
        scope, session_id, more, 3, state.changed_version, subject_id=SUBJECT, now=T0 + DAY
    )
    assert await given_of(night, session_id) is None
    await records.delete_memory(scope, made.memories[1].memory_id, T0 + DAY)
    await night.run(T0 + DAY)
    assert await given_of(night, session_id) is None


async def hide(night: Night, memory_id: UUID) -> None:
    await night.stores.records.delete_memory(night.stores.scope(), memory_id, T0 + DAY)


async def reject(night: Night, memory_id: UUID) -> None:
    await patch(night, memory_id, validation_status="rejected")


@pytest.mark.parametrize("act", [hide, reject])
async def test_a_summary_of_what_is_not_to_be_told_is_given_no_more_until_it_is_made_anew(
    night: Night, postgres: TestDatabase, act: Any
) -> None:
    made, summary_id = await summarised(night, BOAT, SECRET)
    session, scope = made.session.session_id, night.stores.scope()
    assert await given_of(night, session) == f"{BOAT}\n{SECRET}"
    await act(night, made.memories[1].memory_id)
    assert await given_of(night, session) is None
    assert [row for row in await shown(night) if row.kind == "summary"] == []
    with pytest.raises(NotFound):
        await night.stores.records.memory(scope, summary_id)
    with pytest.raises(NotFound):  # nobody brings its words back past their own memory
        await night.stores.records.undelete_memory(scope, summary_id, T0 + DAY)
    (scope_id,) = [one.scope_id for one in await night.stores.read.visible_scopes(scope)]
    (standing,) = await night.stores.read.standing(night.stores.tenant, [scope_id], [summary_id])
    assert standing.hidden == "hidden", "the ledger withdraws what quoted it"
    assert await night.run(T0 + DAY) == {"summaries": 1}
    assert await given_of(night, session) == BOAT and events(postgres, "restored") == 1
    assert (await night.stores.records.memory(scope, summary_id)).event_ids == (made.turns[0].event_id,)
    assert await night.run(T0 + DAY) == {}


async def test_a_summary_that_waits_is_made_anew_of_all_turns_when_what_was_hidden_is_shown_again(night: Night) -> None:
    made, _ = await summarised(night, BOAT, SECRET)
    await hide(night, made.memories[0].memory_id)
    await night.stores.records.undelete_memory(night.stores.scope(), made.memories[0].memory_id, T0 + DAY)
    assert await given_of(night, made.session.session_id) is None
    assert await night.run(T0 + DAY) == {"summaries": 1}
    assert await given_of(night, made.session.session_id) == BOAT


async def test_what_a_run_hid_may_still_be_told_by_a_summary(night: Night) -> None:
    made, _ = await summarised(night, BOAT, SECRET)
    assert await night.run(T0 + 101 * DAY) == {"unused": 2}
    assert await given_of(night, made.session.session_id) == f"{BOAT}\n{SECRET}"


async def test_a_summary_that_its_owner_hid_stays_hidden(night: Night) -> None:
    made, summary_id = await summarised(night, BOAT, SECRET)
    await hide(night, summary_id)
    await hide(night, made.memories[1].memory_id)
    assert await night.run(T0 + DAY) == {}
    assert await given_of(night, made.session.session_id) is None


async def test_what_a_person_hid_stays_untold_when_its_memory_is_erased(night: Night, postgres: TestDatabase) -> None:
    made, _ = await summarised(night, BOAT, SECRET)
    kept, hidden = made.memories
    for one in (kept, hidden):
        await patch(night, one.memory_id, expires_at=T0 + 10 * DAY, set_expires_at=True)
    await night.stores.records.delete_memory(night.stores.scope(), hidden.memory_id, T0 + DAY)
    assert await night.run(T0 + 200 * DAY) == {"expired": 2, "summaries": 1}
    assert postgres.psql("SELECT count(*) FROM memories WHERE kind = 'episodic'") == "0"
    assert postgres.psql("SELECT event_id FROM untold_turns") == str(made.turns[1].event_id)
    assert summary_text(postgres) == BOAT
    postgres.psql("UPDATE turns SET recorded_at = now() + interval '9 years'")  # all of it is told once more
    assert await night.run(T0 + 201 * DAY) == {"summaries": 1}
    assert summary_text(postgres) == BOAT
    postgres.psql("DELETE FROM turns")
    assert postgres.psql("SELECT count(*) FROM untold_turns") == "0"


@pytest.mark.parametrize("how", ["hidden", "rejected", "held back"])
async def test_what_is_not_to_be_told_stays_so_behind_its_erased_memory(
    night: Night, postgres: TestDatabase, how: str
) -> None:
    _, untold = await tell(night, BOAT, SECRET, ends=T0 + 10 * DAY)
    if how == "held back":
        hold_back(postgres, untold)
    else:
        await (hide if how == "hidden" else reject)(night, untold)
    assert await night.run(T0 + 200 * DAY) == {"expired": 2}
    turns = [UUID(one) for one in postgres.psql("SELECT event_id FROM turns ORDER BY seq").split()]
    assert await night.stores.write.untold(night.stores.scope(), turns) == {turns[1]}


async def test_a_turn_is_withheld_by_the_memory_of_its_words_and_untold_by_any(
    night: Night, postgres: TestDatabase
) -> None:
    """What a fact said may be learnt anew where only the fact was hidden."""
    await say(night.stores, fact("berlin"))
    by_fact = UUID(postgres.psql("SELECT event_id FROM turns"))
    hidden, rejected, held, _ = ids = await tell(night, "hidden", "rejected", "held back", "never used")
    await hide(night, await id_of(night.stores, "berlin"))
    await hide(night, hidden)
    await reject(night, rejected)
    hold_back(postgres, held)
    assert (await night.run(T0 + 101 * DAY))["unused"] >= 1
    made_of = "SELECT source_id FROM derivations WHERE derived_id = '{}' AND source_kind = 'turn'"
    turns = [by_fact, *(UUID(postgres.psql(made_of.format(one))) for one in ids)]
    (scope_id,) = [one.scope_id for one in await night.stores.read.visible_scopes(night.stores.scope())]
    async with night.stores.database.transaction(night.stores.tenant, [scope_id], read_only=True) as tx:
        found = await tx.fetch("turns_withheld", night.stores.tenant, turns)
    assert {row["event_id"] for row in found} == set(turns[1:4])
    assert await night.stores.write.untold(night.stores.scope(), turns) == set(turns[:4])


async def test_a_summary_is_made_anew_without_a_turn_whose_memory_a_person_edited(
    night: Night, postgres: TestDatabase
) -> None:
    made, _ = await summarised(night, BOAT, "Halcyon, noted.", SECRET)
    await patch(night, made.memories[2].memory_id, content="My neighbour is a quiet man.")
    assert await night.run(T0 + DAY) == {"summaries": 1}
    assert SECRET not in summary_text(postgres)
    (row,) = [row for row in await shown(night) if "neighbour" in row.content]
    assert row.event_ids == (made.turns[2].event_id,)  # a turn it stays: of its chat, and not given to it again
    await patch(night, made.memories[2].memory_id, 2, content=SECRET)  # taken back
    assert postgres.psql("SELECT count(*) FROM outdated_turns") == "0"


async def test_what_a_person_edited_away_stays_untold_when_the_memory_expires(
    night: Night, postgres: TestDatabase
) -> None:
    made, _ = await summarised(night, f"Well. {BOAT}", "Halcyon, noted.", SECRET)
    edited = made.memories[2].memory_id
    await patch(night, edited, content="My neighbour is quiet.", expires_at=T0 + 10 * DAY, set_expires_at=True)
    assert await night.run(T0 + DAY) == {"summaries": 1}
    assert await night.run(T0 + 60 * DAY) == {"expired": 1}
    postgres.psql("UPDATE turns SET recorded_at = now() + interval '9 years'")  # all of it is told once more
    assert await night.run(T0 + 61 * DAY) == {"summaries": 1}
    assert SECRET not in summary_text(postgres)


async def test_what_an_expired_fact_had_replaced_stays_untold(night: Night, postgres: TestDatabase) -> None:
    await say(night.stores, fact("berlin"))
    berlin = postgres.psql("SELECT event_id FROM turns")
    await say(night.stores, fact("paris"), day=1)
    postgres.psql(f"UPDATE memory_versions SET expires_at = '{T0 + 9 * DAY}' WHERE superseded_by IS NULL")
    assert await night.run(T0 + 60 * DAY) == {"expired": 2}
    untold = await night.stores.write.untold(night.stores.scope(), [UUID(berlin)])
    assert untold == {UUID(berlin)}


async def test_what_holds_outdates_what_it_replaced_also_when_that_has_expired(night: Night) -> None:
    await say(night.stores, fact("berlin"), ends=T0 + 9 * DAY)
    await say(night.stores, fact("paris"), day=1)
    before = await outdated(night, "The user lives in paris.")
    assert len(before) == 1
    assert await night.run(T0 + 60 * DAY) == {"expired": 1}
    assert await outdated(night, "The user lives in paris.") == before


async def test_a_summary_is_made_anew_without_a_turn_that_is_gone(night: Night, postgres: TestDatabase) -> None:
    made, _ = await summarised(night, BOAT, SECRET)
    postgres.psql(f"DELETE FROM turns WHERE event_id = '{made.turns[1].event_id}'")
    assert await night.run(T0 + DAY) == {"summaries": 1}
    assert summary_text(postgres) == BOAT


async def test_a_summary_of_nothing_is_erased(night: Night, postgres: TestDatabase) -> None:
    await summarised(night, BOAT)
    postgres.psql("DELETE FROM turns")
    assert await night.run(T0 + DAY) == {"summaries": 1}
    assert summary_text(postgres) == ""
    assert postgres.psql("SELECT summary_memory_id FROM sessions") == ""


# ---------------------------------------------------------------- review


async def to_review(night: Night) -> list[str]:
    page = await night.stores.records.memories(
        night.stores.scope(), limit=2, order="asc", to_review=True, now=night.now
    )
    rows = list(page.rows)
    while page.next_cursor:
        page = await night.stores.records.memories(
            night.stores.scope(), limit=2, cursor=page.next_cursor, order="asc", to_review=True, now=night.now
        )
        rows += page.rows
    return [row.attributes["object"] for row in rows]


async def test_facts_that_may_be_stale_are_listed_until_somebody_looked(night: Night, postgres: TestDatabase) -> None:
    night.settings = load_settings(None, {"consolidate.pause_ms": 0}, {})
    for number, name in enumerate(("api", "db", "cache", "proxy")):
        await say(night.stores, fact(name, predicate="runs_on", cardinality="many", category="topology"), day=number)
    await say(night.stores, fact("tea", predicate="likes", cardinality="many", category="preference"))
    assert await night.run(T0 + 89 * DAY) == {}
    assert await night.run(T0 + 92 * DAY + timedelta(hours=1)) == {"review": 3}
    assert await to_review(night) == ["api", "db", "cache"]
    by_object = {row.attributes["object"]: row.memory_id for row in await shown(night)}
    await patch(night, by_object["api"], validation_status="confirmed")
    await patch(night, by_object["db"], validation_status="rejected")
    assert events(postgres, "revalidated") == 2
    assert await to_review(night) == ["cache"]
    await say(night.stores, fact("cache", predicate="runs_on", cardinality="many", category="topology"), day=93)
    assert await to_review(night) == []
    assert await night.run(T0 + 94 * DAY) == {"review": 2}  # proxy is due, cache is not any more
    assert await to_review(night) == ["proxy"]
    assert await night.run(T0 + 94 * DAY) == {}
    await night.run(T0 + 184 * DAY)
    assert await to_review(night) == ["proxy", "api", "cache"]


async def test_what_a_night_asks_is_not_planned_for_the_ids_at_hand(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By these all of a scope is read that seems to hold little: 51,000 rows for 50 facts, under its lock."""
    night.settings = load_settings(None, {"consolidate.pause_ms": 0}, {})
    await say(night.stores, fact("api", predicate="runs_on", cardinality="many", category="topology"))
    modes, fetch = dict[str, str](), Transaction.fetch

    async def seen(tx: Transaction, query: str | Query, *arguments: Any) -> list[Any]:
        modes[str(query)] = await tx._connection.fetchval("SHOW plan_cache_mode")
        return await fetch(tx, query, *arguments)

    monkeypatch.setattr(Transaction, "fetch", seen)
    assert await night.run(T0 + 92 * DAY) == {"review": 1}
    assert {modes[name] for name in ("keys_in_force", "due_review", "set_review")} == {"force_generic_plan"}


async def test_a_fact_that_somebody_looked_at_meanwhile_is_not_marked(night: Night) -> None:
    await say(night.stores, fact("api", predicate="runs_on", cardinality="many", category="topology"))
    night.now = T0 + 92 * DAY
    store, terms = night.store, terms_of(night.settings, night.now)
    scope_id = await night.stores.scopes.ensure(night.stores.scope())
    window = await store.window(night.stores.tenant, scope_id, "review", None, 10, terms)
    (row,) = await shown(night)
    assert [one.memory_id for one in window.due] == [row.memory_id]
    await patch(night, row.memory_id, validation_status="confirmed")
    fence = await store.lead("night", 600)
    assert fence is not None
    lead = Lead("night", fence, (await store.begin(night.now)).run_id)
    assert (await store.change(night.stores.tenant, scope_id, "review", window.due, terms, lead)).rows == 0
    assert await to_review(night) == []


# ---------------------------------------------------------------- runs


async def test_what_is_noted_of_a_run_adds_up_and_is_its_own(night: Night) -> None:
    """What a run that was killed had looked at is in the report of the one that goes on."""
    store, tenant = night.store, night.stores.tenant
    fence = await store.lead("night", 600)
    assert fence is not None
    before, run = await store.begin(T0), await store.begin(T0 + DAY)
    lead = Lead("night", fence, run.run_id)
    for seconds in (1.0, 2.0):
        await store.note(tenant, lead, Counted("expired", 7, 0, seconds), None, None)
    (noted,) = (await store.progress(tenant, run.run_id)).values()
    assert noted.counted == Counted("expired", 14, 0, 3.0)
    assert await store.progress(tenant, before.run_id) == {}
    await store.end(lead, T0 + 2 * DAY, [noted.counted])
    assert [one.finished_at for one in await store.runs(9, T0 + DAY)] == [T0 + 2 * DAY, None]


async def much(night: Night) -> None:
    """Something to do for every step."""
    for number in range(60):
        await tell(night, f"ends {number}", ends=T0 + DAY)
    for number in range(8):
        await say(night.stores, fact(f"city {number}"), day=number)
    for number in range(70):
        await say(night.stores, fact("x", predicate="p", cardinality="many", category="topology"), day=number / 10)
    made, _ = await summarised(night, BOAT, SECRET)
    await night.stores.records.delete_memory(night.stores.scope(), made.memories[1].memory_id, T0)
    (row,) = [row for row in await shown(night) if row.attributes.get("object") == "x"]
    await patch(night, row.memory_id, row.version, pinned=True)
    other = night.stores.scope("eve")
    await night.stores.write.commit(exchange(other, "e", 0, ("of eve",), retrieval=None), now=T0)


DUMP = """
SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
    SELECT concat_ws('|', kind, content, m.version, deleted_at IS NULL, pruned_reason, review_due_at) AS line
    FROM memories m JOIN memory_versions v USING (tenant_id, memory_id, version)
    UNION ALL SELECT 'saying ' || said_at FROM fact_sayings
    UNION ALL SELECT 'outdated ' || count(*) FROM outdated_turns
    UNION ALL SELECT concat_ws('|', event, count(*)) FROM outbox GROUP BY event) l
"""
MUCH_LATER = T0 + 250 * DAY


async def test_a_second_run_changes_nothing(night: Night, postgres: TestDatabase) -> None:
    await much(night)
    done = {"expired", "superseded", "repeated", "evidence", "summaries", "unused", "review"}
    assert set(await night.run(MUCH_LATER)) == done
    after = postgres.psql(DUMP)
    assert await night.run(MUCH_LATER) == {}
    assert postgres.psql(DUMP) == after


async def test_a_rehearsal_counts_and_changes_nothing(night: Night, postgres: TestDatabase) -> None:
    await much(night)
    before = postgres.psql(DUMP)
    night.now = MUCH_LATER
    report = await night.on(night.store).rehearse(lambda *_: None)
    would = {one.step: one.changed for one in report if one.changed}
    assert postgres.psql(DUMP) == before
    assert postgres.psql("SELECT count(*) FROM consolidation_runs") == "0"
    assert (would["expired"], would["superseded"], would["summaries"]) == (60, 7, 1)


class Dying:
    """The store, for a process that is killed after so many of its calls."""

    def __init__(self, store: ConsolidateStore, calls: int) -> None:
        self._store = store
        self.left = calls

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **named: Any) -> Any:
            if name == "resign":
                return None  # a dead process says no good-bye
            if self.left <= 0:
                raise asyncio.CancelledError
            self.left -= 1
            return await getattr(self._store, name)(*arguments, **named)

        return call


async def test_a_run_that_is_killed_at_any_call_goes_on_and_does_all_of_it_once(
    night: Night, postgres: TestDatabase
) -> None:
    await much(night)
    night.now = MUCH_LATER
    report: list[Counted] | None = None
    for calls in itertools.count(1):  # each process lives one call longer than the one before
        try:
            report = await night.on(Dying(night.store, calls)).run(lambda *_: None)
            break
        except asyncio.CancelledError:
            postgres.psql("UPDATE lane_leases SET expires_at = '-infinity' WHERE lane = 'job:consolidation'")
    assert report is not None
    assert calls > 15
    changed = {one.step: one.changed for one in report if one.changed}
    assert changed == {
        "expired": 60, "superseded": 7, "repeated": 1, "evidence": 6, "summaries": 1, "unused": changed["unused"],
        "review": 1,
    }  # fmt: skip
    assert all(one.examined >= one.changed for one in report if one.step != "evidence")
    assert postgres.psql("SELECT count(*) FROM consolidation_runs") == "1"
    assert (events(postgres, "expired"), events(postgres, "erased")) == (60, 7)
    after = postgres.psql(DUMP)
    assert await night.run() == {}
    assert postgres.psql(DUMP) == after


async def test_of_two_one_leads_and_the_one_that_lost_it_changes_nothing(night: Night, postgres: TestDatabase) -> None:
    ids = await tell(night, "ends", ends=T0 + DAY)
    night.now = T0 + 40 * DAY
    first, scope_id = night.store, await night.stores.scopes.ensure(night.stores.scope())
    fence = await first.lead("first", 600)
    assert fence is not None
    assert await first.lead("first", 600) == fence
    assert await night.on(first).run(lambda *_: None) is None
    run = await first.begin(night.now)
    postgres.psql("UPDATE lane_leases SET expires_at = '-infinity' WHERE lane = 'job:consolidation'")
    second = await first.lead("second", 600)
    assert second is not None
    assert second > fence
    stale = Lead("first", fence, run.run_id)
    terms = terms_of(night.settings, night.now)
    with pytest.raises(LeaseLost):
        await first.change(night.stores.tenant, scope_id, "expired", [Due(ids[0])], terms, stale)
    with pytest.raises(LeaseLost):
        await first.note(night.stores.tenant, stale, Counted("expired", 1), None, night.now)
    with pytest.raises(LeaseLost):
        await first.end(stale, night.now, [])
    assert postgres.psql("SELECT count(*) FROM memories") == "1"
    assert postgres.psql("SELECT count(*) FROM consolidation_progress") == "0"


async def test_a_run_that_ended_is_reported_though_its_lead_is_not_given_back(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = night.store

    async def lost(holder: str) -> None:
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(store, "resign", lost)
    assert await night.on(store).run(lambda *_: None) is not None, "told otherwise, who comes again runs it all anew"


async def test_two_that_start_at_once_do_the_work_once(night: Night, postgres: TestDatabase) -> None:
    await much(night)
    night.now = MUCH_LATER
    other = replace(night, holder="other")
    await asyncio.gather(night.on(night.store).run(lambda *_: None), other.on(other.store).run(lambda *_: None))
    assert events(postgres, "expired") == 60
    assert events(postgres, "erased") == 7


async def test_what_changes_between_the_look_and_the_change_is_looked_at_again(night: Night) -> None:
    (memory_id,) = await tell(night, "ends", ends=T0 + DAY)
    night.now = T0 + 40 * DAY
    store, terms = night.store, terms_of(night.settings, night.now)
    scope_id = await night.stores.scopes.ensure(night.stores.scope())
    window = await store.window(night.stores.tenant, scope_id, "expired", None, 10, terms)
    assert [one.memory_id for one in window.due] == [memory_id]
    await patch(night, memory_id, set_expires_at=True, expires_at=None)
    fence = await store.lead("night", 600)
    assert fence is not None
    run = await store.begin(night.now)
    done = await store.change(
        night.stores.tenant, scope_id, "expired", window.due, terms, Lead("night", fence, run.run_id)
    )
    assert done.rows == 0
    assert await contents(night) == {"ends"}


async def test_a_scope_of_more_rows_than_a_window_is_walked_to_its_end(
    night: Night, postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.write.consolidate.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("memory.write.consolidate.SCOPES_AT_ONCE", 1)
    await much(night)
    changed = await night.run(MUCH_LATER)
    assert (changed["expired"], changed["superseded"]) == (60, 7)
    assert await night.run(MUCH_LATER) == {}


async def test_a_process_shows_when_the_last_run_ended_whoever_it_was_and_whatever_began_since(night: Night) -> None:
    await night.run(ended_at := T0 + timedelta(hours=15))
    night.now += DAY
    await night.store.begin(night.now)  # and was broken off
    night.now += DAY
    one = night.on(night.store)
    await one.is_due("03:00", night.now)
    shown = one._parts.metrics.registry.get_sample_value("memory_proxy_consolidation_end_seconds")
    assert shown == ended_at.timestamp()


async def test_a_process_shows_what_the_steps_of_the_last_run_took_whoever_it_was(night: Night) -> None:
    """`consolidate --now` is a process of its own: what it showed went with it."""
    await night.run()
    one = night.on(night.store)
    await one.is_due("03:00", night.now)
    (last,) = await night.store.runs(1, night.now)
    shown = one._parts.metrics.registry.get_sample_value
    for step in last.report:
        assert shown("memory_proxy_consolidation_seconds", {"step": step["step"]}) == step["seconds"]


async def test_a_night_that_never_ended_is_shown_as_old_as_it_is(night: Night) -> None:
    """At 0, as nothing is, the alert on what is overdue could never fire."""

    async def shown() -> float | None:
        one = night.on(night.store)
        await one.is_due("03:00", night.now)
        return one._parts.metrics.registry.get_sample_value("memory_proxy_consolidation_end_seconds")

    night.now = T0
    assert await shown() == T0.timestamp()  # nothing was begun: since this process began
    await night.store.begin(T0 + DAY)
    for _ in range(3):  # each broken off
        night.now += DAY
        assert await shown() == (T0 + DAY).timestamp()
        await night.store.begin(night.now)


async def test_a_run_is_due_once_after_the_clock_struck_and_at_once_when_it_was_broken_off(night: Night) -> None:
    one, noon = night.on(night.store), T0
    night.now = noon
    assert not await one.is_due("03:00", noon)  # nothing ran ever: it waits for the night
    night.now = noon + timedelta(hours=15)
    assert await one.is_due("03:00", noon)
    await night.run()
    assert not await one.is_due("03:00", noon)
    night.now += DAY
    assert await one.is_due("03:00", noon)
    await night.store.begin(night.now)
    assert await one.is_due("03:00", noon)
    standing = await one.last()
    assert standing is not None
    assert standing.finished_at is None
    night.now += timedelta(hours=23)
    assert await one.unfinished() is not None
    night.now += timedelta(hours=1)
    assert await one.unfinished() is None


async def test_a_night_of_next_year_keeps_none_of_this_year_from_coming(night: Night) -> None:
    """The clock was a year ahead for one night; nothing would run, and nothing say so, until it had caught up."""
    one, wrong = night.on(night.store), T0 + 365 * DAY
    night.now = wrong
    await night.run()
    await night.store.begin(wrong)  # one more that was broken off
    night.now = T0 + DAY
    assert await one.last() is None and await one.unfinished() is None
    assert await one.is_due("03:00", T0)
    shown = one._parts.metrics.registry.get_sample_value("memory_proxy_consolidation_end_seconds")
    assert shown is not None and shown <= night.now.timestamp()
    await night.run()
    assert not await one.is_due("03:00", T0)
    standing = await one.last()
    assert standing is not None and standing.started_at == night.now
    night.now += DAY
    assert await one.is_due("03:00", T0)


async def test_a_clock_that_was_ahead_for_many_nights_makes_no_run_each_minute(night: Night) -> None:
    """The latest runs were all of days to come: each look found none, and began one more."""
    ahead = T0 + 365 * DAY
    for day in range(15):
        await night.run(ahead + day * DAY)
    night.now = T0 + DAY
    assert await night.on(night.store).is_due("03:00", T0)
    await night.run()
    assert not await night.on(night.store).is_due("03:00", T0)
    last = await night.on(night.store).last()
    assert last is not None and last.started_at == night.now


async def test_the_first_run_comes_to_a_service_that_is_off_at_night(night: Night) -> None:
    """Every process began after the clock had struck, and none was there when it struck again."""
    for days in (1, 2):
        night.now = T0 + days * DAY
        one = night.on(night.store)
        assert await one.is_due("03:00", night.now)
        shown = one._parts.metrics.registry.get_sample_value("memory_proxy_consolidation_end_seconds")
        assert shown == T0.timestamp()


async def test_the_night_is_waited_for_and_a_store_that_is_away_does_not_end_the_waiting(
    night: Night, postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.write.consolidate.ASK_EVERY_S", 0.01)
    await tell(night, "ends", ends=T0 + DAY)
    night.now = T0 + 40 * DAY
    postgres.psql(f"UPDATE tenants SET created_at = '{night.now}'")  # a store of today, in which nothing ran yet
    waiting = asyncio.create_task(keep_consolidating(night.on(night.store), "13:00", lambda: night.now))
    await asyncio.sleep(0.1)
    assert postgres.psql("SELECT count(*) FROM consolidation_runs") == "0"
    await asyncio.to_thread(postgres.psql, "ALTER TABLE consolidation_runs RENAME TO elsewhere")
    night.now += timedelta(hours=1)
    await asyncio.sleep(0.1)
    await asyncio.to_thread(postgres.psql, "ALTER TABLE elsewhere RENAME TO consolidation_runs")
    async with asyncio.timeout(10):
        while postgres.psql("SELECT count(*) FROM consolidation_runs WHERE finished_at IS NOT NULL") == "0":
            await asyncio.sleep(0.01)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert postgres.psql("SELECT count(*) FROM memories") == "0"
    async with asyncio.timeout(1):
        await keep_consolidating(night.on(night.store), None, lambda: night.now)


async def test_an_expiring_summary_and_a_live_exchange_do_not_wait_for_each_other_in_a_circle(
    night: Night, postgres: TestDatabase
) -> None:
    """The exchange holds its session and is about to lock the scope, while the sweep wants both."""
    made, _ = await summarised(night, BOAT)
    postgres.psql(f"UPDATE memory_versions SET expires_at = '{T0 + DAY}'")
    night.now = T0 + 40 * DAY
    scope_id = await night.stores.scopes.ensure(night.stores.scope())
    async with night.stores.database.transaction(night.stores.tenant, [scope_id]) as live:
        await live.row("lock_session_by_id", night.stores.tenant, made.session.session_id)
        sweep = asyncio.create_task(night.run())
        while postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "0":
            await asyncio.sleep(0.01)
        await live.value("bump_scope", night.stores.tenant, scope_id)
    assert (await sweep)["expired"] == 2


async def test_a_store_that_is_away_ends_the_run_and_the_next_goes_on(night: Night, postgres: TestDatabase) -> None:
    await tell(night, "ends", ends=T0 + DAY)
    night.now = T0 + 40 * DAY
    run = night.on(night.store)
    postgres.psql("ALTER TABLE memories RENAME TO elsewhere")
    with pytest.raises(StoreUnavailable):
        await run.run(lambda *_: None)
    postgres.psql("ALTER TABLE elsewhere RENAME TO memories")
    assert await night.run() == {"expired": 1}
    assert postgres.psql("SELECT count(*) FROM consolidation_runs") == "1"
    assert [one.step for one in night.said if one.changed] == ["expired"]
    assert {one.step for one in night.said} <= set(STEPS)


async def test_a_command_comes_behind_one_that_was_killed(night: Night, capsys: pytest.CaptureFixture[str]) -> None:
    """Its lease lasts for a minute; the same command again was told that another process consolidates."""
    killed, said = Leadership(night.stores.database, JOB, "killed"), ""
    assert await killed.lead(600.0) is not None
    again = asyncio.create_task(commands.in_turn(night.on(night.store), lambda _, counted: None))
    while "waiting 60 s" not in said:
        await asyncio.sleep(0.02)
        said += capsys.readouterr().err
    await killed.resign()  # as when the lease is over
    assert [one.step for one in await again or ()] == list(STEPS)


async def test_a_command_does_not_wait_for_ever_for_one_that_goes_on(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "LEASE_S", 0.0)
    assert await Leadership(night.stores.database, JOB, "at it").lead(600.0) is not None
    assert await commands.in_turn(night.on(night.store), lambda _, counted: None) is None
