"""Records: stable pages, changes that name their version, deletion that can be undone."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from memory.errors import Conflict, MemoryInvalid, NotFound
from memory.ids import new_id
from memory.stored import MemoryChange, Page
from tests.postgres.seed import T0, Stores, exchange, stores, vectors
from tests.postgres_fixture import TestDatabase

HOUR = timedelta(hours=1)


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres) as made:
        yield made


async def walk(ask: Callable[[str | None], Awaitable[Page[Any]]]) -> list[Any]:
    """Every row of a list, page by page."""
    rows: list[Any] = []
    cursor: str | None = None
    while True:
        page = await ask(cursor)
        rows += page.rows
        cursor = page.next_cursor
        if cursor is None:
            return rows


async def fill(store: Stores, sessions: int) -> None:
    for number in range(sessions):
        await store.write.commit(exchange(store.scope(), f"s{number}", 0), now=T0 + number * HOUR)


@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_hold_every_row_once_in_order(store: Stores, limit: int, order: Any) -> None:
    await fill(store, 7)
    records, scope = store.records, store.scope()
    sessions = await walk(lambda cursor: records.sessions(scope, limit=limit, cursor=cursor, order=order))
    labels = [f"s{number}" for number in range(7)]
    assert [one.label for one in sessions] == (labels if order == "asc" else labels[::-1])
    memories = await walk(lambda cursor: records.memories(scope, limit=limit, cursor=cursor, order=order))
    assert len(memories) == len({one.memory_id for one in memories}) == 14
    times = [one.created_at for one in memories]
    assert times == sorted(times, reverse=order == "desc")


async def test_rows_that_come_while_one_turns_pages_do_not_shift_them(store: Stores) -> None:
    await fill(store, 4)
    first = await store.records.sessions(store.scope(), limit=2)
    await store.write.commit(exchange(store.scope(), "later", 0), now=T0 + 99 * HOUR)
    await store.write.commit(exchange(store.scope(), "s0", 2), now=T0 + 99 * HOUR)
    second = await store.records.sessions(store.scope(), limit=2, cursor=first.next_cursor)
    assert [one.label for one in (*first.rows, *second.rows)] == ["s3", "s2", "s1", "s0"]
    assert second.next_cursor is None


async def test_a_session_is_found_by_label_or_id_and_shows_its_turns(store: Stores) -> None:
    commit = exchange(store.scope(), "s", 0, ("a", "b", "c"))
    await store.write.commit(commit, now=T0)
    found = await store.records.session(store.scope(), "s")
    assert found == await store.records.session(store.scope(), str(commit.session.session_id))
    assert found.turns == 3
    page = await store.records.session_turns(store.scope(), found.session_id, limit=2)
    assert [one.content for one in page.rows] == ["a", "b"] and page.next_cursor == "1"
    rest = await store.records.session_turns(store.scope(), found.session_id, limit=2, after_seq=1)
    assert [one.content for one in rest.rows] == ["c"] and rest.next_cursor is None
    for scope, name in ((store.scope(), "none"), (store.scope("eve"), "s"), (store.scope(), str(new_id()))):
        with pytest.raises(NotFound):
            await store.records.session(scope, name)


async def test_memories_are_narrowed_by_kind_and_session(store: Stores) -> None:
    await fill(store, 3)
    session = (await store.records.session(store.scope(), "s1")).session_id
    page = await store.records.memories(store.scope(), limit=50, session_id=session)
    assert {one.session_id for one in page.rows} == {session} and len(page.rows) == 2
    assert (await store.records.memories(store.scope(), limit=50, kind="semantic")).rows == ()
    assert len((await store.records.memories(store.scope(), limit=50, kind="episodic")).rows) == 6


async def test_a_change_makes_a_version_and_needs_the_newest(store: Stores, postgres: TestDatabase) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    memory_id = commit.memories[0].memory_id
    before = await store.records.memory(scope, memory_id)
    assert before.source_ids == (str(commit.turns[0].event_id),)
    patch = store.records.patch_memory
    changed = await patch(scope, memory_id, 1, MemoryChange(pinned=True, importance=0.9), T0 + HOUR)
    assert (changed.version, changed.pinned, changed.content) == (2, True, before.content)
    assert changed.importance == pytest.approx(0.9) and changed.recorded_from == T0 + HOUR
    with pytest.raises(Conflict):
        await patch(scope, memory_id, 1, MemoryChange(pinned=False), T0 + HOUR)
    soon = T0 + 9 * HOUR
    change = MemoryChange(
        content="new text", windows=((0, 8),), vectors=vectors(1), expires_at=soon, set_expires_at=True
    )
    changed = await patch(scope, memory_id, 2, change, T0 + 2 * HOUR)
    assert (changed.version, changed.content, changed.expires_at, changed.pinned) == (3, "new text", soon, True)
    changed = await patch(scope, memory_id, 3, MemoryChange(attributes={"k": 1}), T0 + 3 * HOUR)
    assert (changed.attributes, changed.expires_at) == ({"k": 1}, soon)
    changed = await patch(scope, memory_id, 4, MemoryChange(set_expires_at=True), T0 + 3 * HOUR)
    assert changed.expires_at is None
    assert postgres.psql(f"SELECT count(*) FROM {postgres.embeddings} WHERE memory_id = '{memory_id}'") == "5"
    assert postgres.psql(f"SELECT count(*) FROM provenance WHERE memory_id = '{memory_id}'") == "5"
    for other, wanted in ((scope, new_id()), (store.scope("eve"), memory_id)):
        with pytest.raises(NotFound):
            await patch(other, wanted, 1, MemoryChange(pinned=True), T0)


CHANGES = (
    MemoryChange(pinned=True, importance=0.9, sensitivity="internal", validation_status="confirmed"),
    MemoryChange(content="new text", windows=((0, 8),), vectors=vectors(1), attributes={"k": [1.5, None]}),
    MemoryChange(expires_at=T0 + 9 * HOUR, set_expires_at=True),
    MemoryChange(set_expires_at=True),
)


async def test_a_change_whose_answer_never_came_is_done_once_when_it_is_sent_again(
    store: Stores, postgres: TestDatabase
) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    memory_id, patch = commit.memories[0].memory_id, store.records.patch_memory
    for version, change in enumerate(CHANGES, 1):
        made = await patch(scope, memory_id, version, change, T0 + version * HOUR)
        assert await patch(scope, memory_id, version, change, T0 + 5 * HOUR) == made
        for other in ({"pinned": not made.pinned}, {"importance": 0.1}):  # another's
            with pytest.raises(Conflict):
                await patch(scope, memory_id, version, dataclasses.replace(change, **other), T0 + 5 * HOUR)
    with pytest.raises(Conflict):
        await patch(scope, memory_id, len(CHANGES) - 1, CHANGES[-1], T0 + 5 * HOUR)
    assert postgres.psql(f"SELECT count(*) FROM memory_versions WHERE memory_id = '{memory_id}'") == "5"


async def test_a_clock_that_is_put_back_leaves_every_version_its_time(store: Stores, postgres: TestDatabase) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    memory_id = commit.memories[0].memory_id
    for version, hours in ((1, 2), (2, -1), (3, -1), (4, 3)):
        await store.records.patch_memory(
            scope, memory_id, version, MemoryChange(importance=version / 10), T0 + hours * HOUR
        )
    held = (
        "SELECT count(*) FILTER (WHERE recorded_to > recorded_from), count(*) FILTER (WHERE recorded_from = ended) "
        "FROM (SELECT recorded_from, recorded_to, lag(recorded_to) OVER (ORDER BY version) AS ended "
        f"FROM memory_versions WHERE memory_id = '{memory_id}') v"
    )
    assert postgres.psql(held) == "4|4"


async def test_deletion_hides_and_can_be_undone_for_30_days(store: Stores) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    memory_id = commit.memories[0].memory_id
    with pytest.raises(Conflict):
        await store.records.delete_memory(scope, memory_id, T0, version=7)
    await store.records.delete_memory(scope, memory_id, T0, version=1)
    for again in (store.records.memory(scope, memory_id), store.records.delete_memory(scope, memory_id, T0)):
        with pytest.raises(NotFound):
            await again
    assert (await store.records.counts(scope)).memories == 1
    assert memory_id not in {one.memory_id for one in (await store.records.memories(scope, limit=9)).rows}
    with pytest.raises(NotFound):
        await store.records.undelete_memory(scope, memory_id, T0 + timedelta(days=31))
    assert (await store.records.undelete_memory(scope, memory_id, T0 + HOUR)).memory_id == memory_id
    with pytest.raises(NotFound):
        await store.records.undelete_memory(scope, memory_id, T0 + HOUR)


async def test_what_is_past_its_end_is_not_shown_again(store: Stores) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    memory_id, change = commit.memories[0].memory_id, MemoryChange(expires_at=T0 + HOUR, set_expires_at=True)
    await store.records.patch_memory(scope, memory_id, 1, change, T0)
    await store.records.delete_memory(scope, memory_id, T0)
    with pytest.raises(NotFound):
        await store.records.undelete_memory(scope, memory_id, T0 + 2 * HOUR)


async def test_a_retrieval_and_an_exchange_are_found_in_their_scope_only(store: Stores) -> None:
    commit = exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    assert commit.retrieval is not None
    retrieval_id, exchange_id = commit.retrieval.record.retrieval_id, commit.exchange.exchange_id
    found = await store.records.retrieval(store.scope(), retrieval_id)
    assert (found.exchange_id, found.sealed, found.candidates) == (exchange_id, b"sealed", [{"id": "x", "score": 0.5}])
    sealed = await store.records.sealed_exchange(store.scope(), exchange_id)
    assert (sealed.sealed, sealed.status) == (b"sealed", "complete")
    await store.write.commit(exchange(store.scope("eve"), "s", 0), now=T0)
    for scope in (store.scope("eve"), store.scope("nobody")):
        with pytest.raises(NotFound):
            await store.records.retrieval(scope, retrieval_id)
        with pytest.raises(NotFound):
            await store.records.sealed_exchange(scope, exchange_id)


@pytest.mark.parametrize("limit", [1, 4, 100])
async def test_an_export_has_every_turn_once_in_the_order_of_its_session(store: Stores, limit: int) -> None:
    await fill(store, 3)
    await store.write.commit(exchange(store.scope(), "s1", 2), now=T0 - HOUR)
    await store.write.commit(exchange(store.scope("eve"), "s1", 0), now=T0)
    records, scope = store.records, store.scope()
    turns = await walk(lambda cursor: records.export_turns(scope, limit=limit, cursor=cursor))
    by_label: dict[str, list[int]] = {}
    for one in turns:
        by_label.setdefault(one.label, []).append(one.turn.seq)
    assert by_label == {"s0": [0, 1], "s1": [0, 1, 2, 3], "s2": [0, 1]}
    counts = await records.counts(scope)
    assert dataclasses.astuple(counts) == (3, 8, 8)


async def test_a_page_of_an_export_holds_so_many_bytes_and_a_long_turn_alone(store: Stores) -> None:
    """500 turns of 1 MB were half a gigabyte in the process, twice."""
    for number, chars in enumerate((10, 10, 3_000, 10)):
        texts = ("a" * chars, "b" * chars)
        await store.write.commit(exchange(store.scope(), "s", 2 * number, texts), now=T0 + number * HOUR)
    records, scope = store.records, store.scope()
    pages: list[list[int]] = []
    for read in (records.export_turns, partial(records.memories, order="asc", now=T0)):
        cursor, sizes = None, list[int]()
        while True:
            page = await read(scope, limit=6, cursor=cursor, bytes_max=1_000)
            sizes.append(len(page.rows))
            if (cursor := page.next_cursor) is None:
                break
        pages.append(sizes)
    assert pages == [[4, 1, 1, 2], [4, 1, 1, 2]]


async def test_an_empty_scope_is_empty_and_a_made_up_cursor_is_refused(store: Stores) -> None:
    scope = store.scope("nobody")
    assert (await store.records.sessions(scope, limit=5)).rows == ()
    assert (await store.records.memories(scope, limit=5)).rows == ()
    assert (await store.records.export_turns(scope, limit=5)).rows == ()
    assert dataclasses.astuple(await store.records.counts(scope)) == (0, 0, 0)
    for cursor in ("x", "bm9wZQ", "W10", "ü", "WzEsIDJd"):
        with pytest.raises(MemoryInvalid):
            await store.records.sessions(scope, limit=5, cursor=cursor)
        with pytest.raises(MemoryInvalid):
            await store.records.export_turns(scope, limit=5, cursor=cursor)
