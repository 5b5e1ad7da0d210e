"""The lifecycle feed: every change once, in the order of commits, whoever writes beside it; ids and labels only."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from memory.adapters.postgres.database import Bounds
from memory.adapters.postgres.outbox import EVENTS_KEPT, Feed, announce, announce_events, drop_old_events
from memory.adapters.postgres.rows import Place
from memory.errors import MemoryInvalid, StoreRefused, StoreUnavailable
from memory.ids import new_id
from memory.model import Scope
from memory.stored import LifecycleEvent, MemoryChange
from tests.postgres.seed import LANE, SUBJECT, T0, Stores, chunk, exchange, memory_of, stores, turn, vectors
from tests.postgres.test_facts import fact, id_of, new_fact, say
from tests.postgres.test_procedures import FIRST, one_of, teach
from tests.postgres_fixture import TestDatabase

HOUR = timedelta(hours=1)


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres, Bounds(connections_max=24)) as made:
        yield made


@pytest.fixture
def feed(store: Stores) -> Feed:
    return Feed(store.database, store.scopes)


async def polled(feed: Feed, scope: Scope, after: str | None = None, limit: int = 7) -> list[LifecycleEvent]:
    """Everything behind a cursor, page by page, as a consumer reads it."""
    rows: list[LifecycleEvent] = []
    while True:
        page = await feed.events(scope, limit=limit, after=after)
        rows += page.rows
        if page.next_cursor is None:
            return rows
        assert page.next_cursor == page.rows[-1].cursor
        after = page.next_cursor


def whats(rows: list[LifecycleEvent]) -> list[tuple[str, int | None]]:
    return [(one.what, one.version) for one in rows]


async def test_what_an_exchange_leaves_behind_is_told_with_its_labels(store: Stores, feed: Feed) -> None:
    commit = exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    rows = await polled(feed, store.scope())
    assert [one.memory_id for one in rows] == [memory.memory_id for memory in commit.memories]
    assert {(one.what, one.version, one.kind, one.at, one.by) for one in rows} == {
        ("created", 1, "episodic", T0, str(commit.exchange.exchange_id))
    }
    assert [one.metadata for one in rows] == [
        {"integrity": "user", "sensitivity": "internal"},
        {"integrity": "assistant", "sensitivity": "internal"},
    ]


async def test_a_second_delivery_and_a_rolled_back_commit_tell_nothing(store: Stores, feed: Feed) -> None:
    commit = exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    await store.write.commit(commit, now=T0 + HOUR)
    broken = exchange(store.scope(), "t", 0, ("a",))
    broken = replace(broken, memories=(memory_of(broken.turns[0], importance=7.0),))
    with pytest.raises(StoreRefused):
        await store.write.commit(broken, now=T0)
    await store.write.commit(exchange(store.scope(), "u", 0, ("a",)), now=T0)
    assert [one.cursor.split(".")[1] for one in await polled(feed, store.scope())] == ["1", "2", "3"]


async def test_changes_by_the_api_are_told_in_order(store: Stores, feed: Feed) -> None:
    commit, scope, records = exchange(store.scope(), "s", 0, ("hello",)), store.scope(), store.records
    await store.write.commit(commit, now=T0)
    memory_id = commit.memories[0].memory_id
    change = MemoryChange(content="new", windows=((0, 3),), vectors=vectors(1), validation_status="confirmed")
    await records.patch_memory(scope, memory_id, 1, change, T0 + HOUR)
    await records.patch_memory(scope, memory_id, 2, MemoryChange(pinned=False, set_expires_at=True), T0 + HOUR)
    await records.delete_memory(scope, memory_id, T0 + 2 * HOUR)
    await records.undelete_memory(scope, memory_id, T0 + 3 * HOUR)
    await records.delete_memory(scope, memory_id, T0 + 4 * HOUR)
    rows = await polled(feed, scope)
    assert whats(rows) == [
        ("created", 1),
        ("updated", 2),
        ("revalidated", 2),
        ("updated", 3),
        ("deleted", 3),
        ("restored", 3),
        ("deleted", 3),
    ]
    assert {one.by for one in rows[1:]} == {"api"} and {one.memory_id for one in rows} == {memory_id}
    assert rows[1].metadata["changed"] == ["content", "validation_status"]
    assert rows[2].metadata["validation_status"] == "confirmed"
    assert rows[3].metadata["changed"] == ["pinned", "expires_at"]


async def test_a_line_that_is_replaced_and_a_summary_that_goes_on_are_told(store: Stores, feed: Feed) -> None:
    scope = store.scope()
    lane: dict[str, Any] = {"subject_id": SUBJECT, "lane": LANE, "fence": store.fence, "now": T0}
    await store.imports.commit_import(*chunk(scope, [("s", "old", "src")]), **lane)
    await store.imports.commit_import(*chunk(scope, [("s", "new", "src")], on_conflict="update"), **lane)
    session = (await store.records.session(scope, "s")).session_id
    for upto in (1, 2):
        summary = memory_of(turn(new_id(), "s", 0, "assistant", f"sum {upto}"), kind="summary", source_turns=())
        state = await store.write.summary_state(scope, session)
        of = state.changed_version if state is not None else None
        await store.write.put_summary(scope, session, summary, upto, of, subject_id=SUBJECT, now=T0)
    rows = await polled(feed, scope)
    assert [(one.kind, one.what, one.version) for one in rows] == [
        ("episodic", "created", 1),
        ("episodic", "updated", 2),
        ("summary", "created", 1),
        ("summary", "updated", 2),
    ]


async def test_what_is_said_or_taught_again_after_it_was_deleted_is_told_to_be_back(store: Stores, feed: Feed) -> None:
    scope, day = store.scope(), timedelta(days=1)
    await say(store, fact("berlin"))
    await teach(store, FIRST)
    gone = [await id_of(store, "berlin"), (await one_of(store, "run the tests")).memory_id]
    for one in gone:
        await store.records.delete_memory(scope, one, T0 + day)
    await say(store, fact("berlin"), day=2)
    await teach(store, FIRST, day=2)
    rows = await polled(feed, scope)
    for one in gone:
        told = [row.what for row in rows if row.memory_id == one and row.what in ("deleted", "restored")]
        assert told == ["deleted", "restored"]


async def test_a_fact_that_goes_with_the_words_it_was_said_in_is_told(store: Stores, feed: Feed) -> None:
    scope = store.scope()
    lane: dict[str, Any] = {"subject_id": SUBJECT, "lane": LANE, "fence": store.fence, "now": T0}
    for text, stated in (("I live in berlin.", [fact("berlin")]), ("I live nowhere.", [])):
        made, (item,) = chunk(scope, [("s", text, "src")], on_conflict="update")
        facts = tuple(new_fact(item.turn, one) for one in stated)
        await store.imports.commit_import(made, [replace(item, facts=facts)], **lane)
    rows = await polled(feed, scope)
    assert [one.what for one in rows if one.kind == "semantic"] == ["created", "deleted"]


async def test_the_feed_ends_at_the_scope(store: Stores, feed: Feed) -> None:
    for user in ("ada", "eve"):
        await store.write.commit(exchange(store.scope(user), "s", 0), now=T0)
    ada, eve = await polled(feed, store.scope()), await polled(feed, store.scope("eve"))
    assert {one.memory_id for one in ada}.isdisjoint({one.memory_id for one in eve})
    assert (await feed.events(store.scope("nobody"), limit=5)).rows == ()
    for scope, after in (
        (store.scope("eve"), ada[0].cursor),
        (store.scope("nobody"), ada[0].cursor),
        (store.scope(), "x"),
        (store.scope(), ada[0].cursor.split(".")[0] + ".3"),
        (store.scope(), ada[0].cursor + " "),
        (store.scope(), ""),
    ):
        with pytest.raises(MemoryInvalid) as refused:
            await feed.events(scope, limit=5, after=after)
        assert refused.value.param == "after"


async def test_a_memory_of_another_scope_cannot_be_announced(store: Stores, feed: Feed) -> None:
    commit = exchange(store.scope("eve"), "s", 0, ("hers",))
    await store.write.commit(commit, now=T0)
    mine = await store.scopes.ensure(store.scope())
    async with store.database.transaction(store.tenant, [mine]) as tx:
        ids = [commit.memories[0].memory_id, new_id()]
        await announce(tx, store.tenant, mine, "shared", ids, by="api", at=T0)
    assert await polled(feed, store.scope()) == []
    await store.write.commit(exchange(store.scope(), "s", 0, ("mine",)), now=T0)
    assert [one.cursor for one in await polled(feed, store.scope())] == [f"{mine}.1"]


async def test_metadata_that_could_be_content_is_refused(store: Stores, feed: Feed) -> None:
    commit = exchange(store.scope(), "s", 0, ("a", "b"))
    await store.write.commit(commit, now=T0)
    old, new = (memory.memory_id for memory in commit.memories)
    scope_id = await store.scopes.ensure(store.scope())
    place = Place(store.tenant, scope_id, SUBJECT, new_id(), T0)
    async with store.database.transaction(store.tenant, [scope_id]) as tx:
        labels: dict[str, Any] = {
            "superseded_by": new,
            "reason": "corrected_by_user",
            "spans": 2,
            "rules": ["r1", "r2"],
        }
        await announce_events(tx, place, "superseded", [old], metadata={old: labels})
        for text in ("Ada lives in Lisbon", "x" * 65, "", "ümlaut"):
            with pytest.raises(ValueError):
                await announce_events(tx, place, "superseded", [old], metadata={old: {"reason": text}})
    told = (await polled(feed, store.scope()))[-1]
    assert (told.what, told.by) == ("superseded", str(place.exchange_id))
    assert told.metadata == {
        "integrity": "user",
        "sensitivity": "internal",
        "superseded_by": str(new),
        "reason": "corrected_by_user",
        "spans": 2,
        "rules": ["r1", "r2"],
    }


async def test_an_event_that_commits_late_is_not_passed_over(store: Stores, feed: Feed, postgres: TestDatabase) -> None:
    """A number that was taken first is seen first: the second writer waits for the first one's commit."""
    scope, scope_id = store.scope(), await store.scopes.ensure(store.scope())
    commits = [exchange(scope, f"s{n}", 0, ("text",)) for n in range(2)]
    for commit in commits:
        await store.write.commit(commit, now=T0)
    taken, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        async with store.database.transaction(store.tenant, [scope_id]) as tx:
            await announce(tx, store.tenant, scope_id, "expired", [commits[0].memories[0].memory_id], by="a", at=T0)
            taken.set()
            await may_end.wait()

    async def fast() -> None:
        async with store.database.transaction(store.tenant, [scope_id]) as tx:
            await announce(tx, store.tenant, scope_id, "expired", [commits[1].memories[0].memory_id], by="b", at=T0)

    first = asyncio.create_task(slow())
    await taken.wait()
    second = asyncio.create_task(fast())
    while postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "0":
        await asyncio.sleep(0.02)
    assert whats(await polled(feed, scope)) == [("created", 1)] * 2
    assert not second.done()
    may_end.set()
    await asyncio.gather(first, second)
    assert [one.by for one in (await polled(feed, scope))[2:]] == ["a", "b"]


async def test_a_reader_beside_many_writers_misses_nothing_and_sees_nothing_twice(
    store: Stores, feed: Feed, postgres: TestDatabase
) -> None:
    """12 writers with real transactions, of which some roll back and some dawdle after they took their numbers."""
    scope, scope_id, rolls = store.scope(), await store.scopes.ensure(store.scope()), random.Random(4)
    told: set[UUID] = set()

    async def one(worker: int, round_: int) -> None:
        commit = exchange(scope, f"s{worker}", 2 * round_)
        await store.write.commit(commit, now=T0)
        told.update(memory.memory_id for memory in commit.memories)
        try:
            async with store.database.transaction(store.tenant, [scope_id]) as tx:
                ids = [memory.memory_id for memory in commit.memories]
                await announce(tx, store.tenant, scope_id, "expired", ids, by="api", at=T0)
                await asyncio.sleep(rolls.random() / 100)
                if rolls.random() < 0.3:
                    raise StoreUnavailable("rolled back")
        except StoreUnavailable:
            return
        told.update(ids)

    async def worker(number: int) -> None:
        for round_ in range(8):
            await one(number, round_)

    writers = asyncio.gather(*(worker(number) for number in range(12)))
    seen: list[LifecycleEvent] = []
    while not writers.done():
        seen += await polled(feed, scope, seen[-1].cursor if seen else None, limit=3)
        await asyncio.sleep(0.001)
    await writers
    seen += await polled(feed, scope, seen[-1].cursor if seen else None)
    numbers = [int(one.cursor.split(".")[1]) for one in seen]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) == int(postgres.psql("SELECT count(*) FROM outbox")) > 192
    assert {one.memory_id for one in seen} == told
    assert await polled(feed, scope) == seen == await polled(feed, scope, limit=1000)


async def test_old_events_go_and_a_reader_that_was_away_is_told_how_many(store: Stores, feed: Feed) -> None:
    scope = store.scope()
    for number, age in enumerate((40, 31, 29, 0)):
        now = T0 - timedelta(days=age)
        await store.write.commit(exchange(scope, f"s{number}", 0, ("text",)), now=now)
    before = await polled(feed, scope)
    assert timedelta(days=30) == EVENTS_KEPT
    await store.write.drop_expired_sealed(T0, timedelta(days=7))
    assert await polled(feed, scope) == before[2:]
    assert (await feed.events(scope, limit=5)).missed == 0
    assert [(await feed.events(scope, limit=5, after=one.cursor)).missed for one in before] == [1, 0, 0, 0]
    scope_id = await store.scopes.ensure(scope)
    assert await drop_old_events(store.database, store.tenant, [scope_id], T0 + timedelta(days=99)) == 2
    assert [(await feed.events(scope, limit=5, after=one.cursor)).missed for one in before] == [3, 2, 1, 0]
    await store.write.commit(exchange(scope, "s9", 0, ("text",)), now=T0)
    assert [one.cursor for one in await polled(feed, scope, before[-1].cursor)] == [f"{scope_id}.5"]


async def test_events_of_workers_of_before_are_numbered_too(store: Stores, feed: Feed, postgres: TestDatabase) -> None:
    """Old code on the new schema, as while an upgrade rolls: its statement knows nothing of numbers."""
    commit = exchange(store.scope(), "s", 0, ("text",))
    await store.write.commit(commit, now=T0)
    scope_id, memory_id = await store.scopes.ensure(store.scope()), commit.memories[0].memory_id
    connection: Any = await asyncpg.connect(postgres.app)
    await connection.fetch(
        "SELECT set_config('mp.tenant', $1, false), set_config('mp.scopes', $2, false)",
        str(store.tenant),
        f"{{{scope_id}}}",
    )
    await connection.execute(
        "INSERT INTO outbox (tenant_id, event_id, scope_id, event, object_id, created_at) VALUES ($1,$2,$3,$4,$5,$6)",
        store.tenant,
        new_id(),
        scope_id,
        "created",
        memory_id,
        T0,
    )
    await connection.close()
    await store.write.commit(exchange(store.scope(), "t", 0, ("text",)), now=T0)
    rows = await polled(feed, store.scope())
    assert [(one.cursor.split(".")[1], one.kind) for one in rows] == [("1", "episodic"), ("2", None), ("3", "episodic")]
