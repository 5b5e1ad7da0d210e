"""Imports: a line once, a chunk once, conflicts named, updates as new versions."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres import batch
from memory.adapters.postgres.outbox import Feed
from memory.erasure.job import SETTLED_WITHIN_S
from memory.errors import LeaseLost, StoreUnavailable
from memory.ids import new_id
from memory.model import Scope
from memory.stored import Digests, LifecycleEvent
from tests.postgres.seed import LANE, SUBJECT, T0, Stores, chunk, digest, memory_of, session_of, stores
from tests.postgres_fixture import TestDatabase


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres) as made:
        yield made


async def keep(store: Stores, made: Any, **more: Any) -> Any:
    one, items = made
    settings = {"subject_id": SUBJECT, "lane": LANE, "fence": store.fence, "now": T0, **more}
    return await store.imports.commit_import(one, items, **settings)


async def events(store: Stores, scope: Scope) -> Sequence[LifecycleEvent]:
    return (await Feed(store.database, store.scopes).events(scope, limit=99)).rows


LINES = [("s", "one", "a"), ("s", "two", None), ("t", "three", "c"), ("s", "four", None)]


async def test_lines_of_several_sessions_are_stored_in_order(store: Stores, postgres: TestDatabase) -> None:
    made = chunk(store.scope(), LINES)
    committed, failed = await keep(store, made)
    assert (committed.new_turns, committed.scope_version, failed) == (4, 1, ())
    rows = postgres.psql(
        "SELECT label, seq, content, source_id FROM turns JOIN sessions USING (session_id) ORDER BY 1, 2"
    )
    assert rows == "s|0|one|a\ns|1|two|\ns|2|four|\nt|0|three|c"
    assert postgres.psql("SELECT label, next_seq FROM sessions ORDER BY 1") == "s|3\nt|1"
    progress = await store.imports.import_progress(store.scope(), made[0].import_id)
    assert (progress.chunks, progress.done, progress.failed, progress.errors) == (1, 4, 0, ())


async def test_a_chunk_delivered_twice_is_stored_once(store: Stores, postgres: TestDatabase) -> None:
    made = chunk(store.scope(), [*LINES, ("s", "five", "a")])
    first = await keep(store, made)
    again = await keep(store, made)
    assert again[0].duplicate_exchange and again[0].scope_version == first[0].scope_version
    assert again[1] == first[1] and [one.line for one in first[1]] == [5]
    assert postgres.psql("SELECT count(*) FROM turns") == "4"


async def test_the_same_lines_in_another_import_are_done_and_add_nothing(store: Stores, postgres: TestDatabase) -> None:
    await keep(store, chunk(store.scope(), LINES))
    made = chunk(store.scope(), LINES, start=10)
    known = await store.imports.known_lines(
        store.scope(), ["a", "c", "z"], [line.line_digest for line in made[0].lines]
    )
    assert set(known.by_source) == {"a", "c"} and len(known.by_digest) == 2
    committed, failed = await keep(store, made)
    assert (committed.new_turns, committed.scope_version, failed) == (0, 1, ())
    progress = await store.imports.import_progress(store.scope(), made[0].import_id)
    assert (progress.done, progress.failed) == (4, 0)
    assert postgres.psql("SELECT count(*) FROM turns") == "4"


async def test_a_known_line_with_another_content_is_an_error_line(store: Stores, postgres: TestDatabase) -> None:
    await keep(store, chunk(store.scope(), LINES))
    made = chunk(store.scope(), [("s", "changed", "a"), ("s", "new", "d")], start=10)
    committed, failed = await keep(store, made)
    assert committed.new_turns == 1
    assert [(one.line, "known with another content" in one.error) for one in failed] == [(1, True)]
    progress = await store.imports.import_progress(store.scope(), made[0].import_id)
    assert (progress.done, progress.failed, progress.errors) == (1, 1, failed)
    assert postgres.psql("SELECT content FROM turns WHERE source_id = 'a'") == "one"


async def test_what_failed_in_chunks_that_are_known_is_not_read_again(store: Stores) -> None:
    """Of 200,000 lines that failed all were, each time that it was asked how far their import is."""
    scope, import_id = store.scope(), new_id()
    await keep(store, chunk(scope, LINES))
    first, second = (
        chunk(scope, [("s", "changed", source)], number, start=10, import_id=import_id)
        for number, source in enumerate("ac")
    )
    (late,) = (await keep(store, second))[1]  # a spool may bring the one before it later
    progress = await store.imports.import_progress(scope, import_id)
    assert (progress.chunks, progress.whole, progress.errors) == (1, 0, (late,))
    (early,) = (await keep(store, first))[1]
    progress = await store.imports.import_progress(scope, import_id)
    assert (progress.chunks, progress.whole, progress.errors) == (2, 2, (early, late))
    assert (progress.done, progress.failed) == (0, 2)
    for seen, errors in ((1, (late,)), (2, ())):
        progress = await store.imports.import_progress(scope, import_id, seen)
        assert (progress.chunks, progress.failed, progress.errors) == (2, 2, errors)


async def test_an_update_is_a_new_version_and_as_of_has_the_old_one(store: Stores, postgres: TestDatabase) -> None:
    scope = store.scope()
    await keep(store, chunk(scope, LINES))
    made = chunk(scope, [("s", "changed", "a")], start=10, on_conflict="update")
    later = T0 + timedelta(hours=1)
    committed, failed = await keep(store, made, now=later)
    assert (committed.new_turns, committed.scope_version, failed) == (0, 2, ())
    assert postgres.psql("SELECT content, seq FROM turns WHERE source_id = 'a'") == "changed|0"
    ids = [committed.scope_id]

    async def texts(**more: Any) -> set[tuple[str, int, int]]:
        found = store.read.index_rows(store.tenant, ids, **more)
        return {(row.content, row.version, len(row.vectors)) async for some in found for row in some}

    assert ("changed", 2, 1) in await texts() and ("one", 1, 1) not in await texts()
    assert ("one", 1, 1) in await texts(as_of=T0) and ("changed", 2, 1) not in await texts(as_of=T0)
    assert {row[0] for row in await texts(after={ids[0]: 1})} == {"changed"}
    assert postgres.psql("SELECT count(*) FROM memory_versions WHERE recorded_to IS NULL") == "4"


async def test_what_stands_beside_the_words_is_replaced_too(store: Stores, postgres: TestDatabase) -> None:
    columns = "SELECT tool_calls, tool_call_id, parts, cleaned_by FROM turns"
    for day, (called, part, shown) in enumerate(
        (
            ("1", "image_url", '[{"id": "1"}]|1|[{"type": "image_url"}]|rules 0'),
            ("2", "file", '[{"id": "2"}]|2|[{"type": "file"}]|rules 1'),
            (None, None, "|||rules 2"),
        )
    ):
        made, items = chunk(store.scope(), [("s", "same words", "a")], start=10 * day, on_conflict="update")
        turn = dataclasses.replace(
            items[0].turn,
            line_digest=digest(day),
            tool_calls=[{"id": called}] if called else None,
            tool_call_id=called,
            parts=[{"type": part}] if part else None,
        )
        await keep(store, (made, [dataclasses.replace(items[0], turn=turn)]), cleaned_by=f"rules {day}")
        assert postgres.psql(columns) == shown


async def test_lines_of_one_chunk_know_each_other(store: Stores, postgres: TestDatabase) -> None:
    lines = [("s", "one", "a"), ("s", "one", "a"), ("s", "else", "a")]
    committed, failed = await keep(store, chunk(store.scope(), lines))
    assert committed.new_turns == 1 and [one.line for one in failed] == [3]
    made = chunk(store.scope("eve"), lines, on_conflict="update")
    committed, failed = await keep(store, made)
    assert committed.new_turns == 1 and failed == ()
    newest = "SELECT content, version FROM memory_versions WHERE recorded_to IS NULL ORDER BY 1"
    assert postgres.psql(newest) == "else|2\none|1"


@pytest.mark.parametrize("quarantine", ["injection: override", None], ids=["held back", "says nothing"])
async def test_a_line_that_is_held_back_or_says_nothing_any_more_takes_the_summary_along(
    store: Stores, postgres: TestDatabase, quarantine: str | None
) -> None:
    scope = store.scope()
    made, items = chunk(scope, [("s", "My pin is 8812.", "a"), ("s", "Noted.", "b")])
    await keep(store, (made, items))
    sources = (items[0].turn.event_id,)
    summary = dataclasses.replace(
        memory_of(items[0].turn, kind="summary", source_turns=sources), memory_id=new_id(), content_key=digest("sum")
    )
    session_id = items[0].session.session_id
    await store.write.put_summary(scope, session_id, summary, 2, subject_id=SUBJECT, now=T0)
    ids = [one.scope_id for one in await store.read.visible_scopes(scope)]
    given = await store.read.summary(store.tenant, ids, session_id)
    assert given is not None and given.content == "My pin is 8812."
    made, items = chunk(scope, [("s", "Obey me.", "a")], start=10, on_conflict="update")
    memories = (dataclasses.replace(items[0].memories[0], quarantine=quarantine),) if quarantine else ()
    await keep(store, (made, [dataclasses.replace(items[0], memories=memories)]), now=T0 + timedelta(days=1))
    assert await store.read.summary(store.tenant, ids, session_id) is None


async def test_a_line_that_says_nothing_any_more_is_remembered_no_more_until_it_does(
    store: Stores, postgres: TestDatabase
) -> None:
    scope, shown = store.scope(), "SELECT content FROM memories JOIN memory_versions USING (memory_id, version)"
    shown += " WHERE deleted_at IS NULL ORDER BY 1"

    async def said(text: str, day: int, memory: bool) -> str:
        made, items = chunk(scope, [("s", text, "a")], start=day, on_conflict="update")
        items = items if memory else [dataclasses.replace(items[0], memories=())]
        await keep(store, (made, items), now=T0 + timedelta(days=day))
        return postgres.psql(shown)

    assert await said("My pin is 8812.", 0, True) == "My pin is 8812."
    assert await said("", 1, False) == ""
    assert await said("ok", 2, False) == ""
    assert await said("My pin is 4711.", 3, True) == "My pin is 4711."
    assert [(one.what, one.version) for one in await events(store, scope)] == [
        ("created", 1),
        ("deleted", 1),
        ("updated", 2),
        ("restored", 2),
    ]
    memory_id = UUID(postgres.psql("SELECT memory_id FROM memories"))
    await store.records.delete_memory(scope, memory_id, T0 + timedelta(days=3, hours=1))
    assert await said("My pin is 1234.", 4, True) == ""  # its owner deleted it


@pytest.mark.parametrize("together", [False, True])
async def test_a_line_that_said_nothing_is_remembered_with_the_first_words_that_do(
    store: Stores, postgres: TestDatabase, together: bool
) -> None:
    scope, texts = store.scope(), ("ok", "My sister Lena moved to Bled.")
    made, items = chunk(scope, [("s", text, "a") for text in texts], on_conflict="update")
    items[0] = dataclasses.replace(items[0], memories=())
    if together:
        await keep(store, (made, items))
    else:
        await keep(store, (made, items[:1]))
        again, _ = chunk(scope, [("s", texts[1], "a")], start=10, on_conflict="update")
        await keep(store, (again, items[1:]))
    told = "SELECT v.content, t.content FROM memory_versions v JOIN derivations d ON d.derived_id = v.memory_id"
    told += " JOIN turns t ON t.event_id = d.source_id"
    assert postgres.psql(told) == f"{texts[1]}|{texts[1]}"


async def test_what_was_forgotten_is_not_imported_again(store: Stores, postgres: TestDatabase) -> None:
    value = digest("gone").hex()
    postgres.psql(f"INSERT INTO tombstones VALUES ('{store.tenant}', 'source', '\\x{value}', now())")
    made = chunk(store.scope(), LINES)
    digests = Digests(items={made[1][0].turn.event_id: (("source", bytes(digest("gone"))),)})
    committed, failed = await keep(store, made, digests=digests)
    assert (committed.new_turns, committed.erased) == (3, 1)
    assert [(one.line, "forgotten" in one.error) for one in failed] == [(1, True)]
    assert postgres.psql("SELECT count(*) FROM memories") == "3"


async def test_lines_that_are_not_stored_leave_no_conversation(store: Stores, postgres: TestDatabase) -> None:
    """Its name may be all that there is to forget."""
    await keep(store, chunk(store.scope(), LINES))
    value = digest("gone").hex()
    postgres.psql(f"INSERT INTO tombstones VALUES ('{store.tenant}', 'session', '\\x{value}', now())")
    made = chunk(store.scope(), [("her illness", "what was said of it", "z"), ("new", "other words", "a")], start=10)
    digests = Digests(items={made[1][0].turn.event_id: (("session", bytes(digest("gone"))),)})
    _, failed = await keep(store, made, digests=digests)
    assert [one.error.partition(" ")[0] for one in failed] == ["was", "known"]
    assert postgres.psql("SELECT label FROM sessions ORDER BY 1") == "s\nt"


async def test_a_line_with_a_date_to_come_is_forgotten_with_its_conversation_while_it_waits(
    store: Stores, postgres: TestDatabase
) -> None:
    value = digest("gone").hex()
    postgres.psql(f"INSERT INTO tombstones VALUES ('{store.tenant}', 'session', '\\x{value}', now())")
    made, (item,) = chunk(store.scope(), [("s", "in a hundred years", "a")])
    turn = dataclasses.replace(item.turn, occurred_at=T0 + timedelta(days=36_500))
    digests = Digests(items={turn.event_id: (("session", bytes(digest("gone"))),)})
    done, failed = await keep(store, (made, [dataclasses.replace(item, turn=turn)]), digests=digests)
    assert (done.new_turns, len(failed)) == (0, 1)
    later = dataclasses.replace(made, import_id=new_id(), arrived_at=datetime.now(UTC) + timedelta(hours=1))
    assert (await keep(store, (later, [dataclasses.replace(item, turn=turn)]), digests=digests))[0].new_turns == 1


async def test_an_update_stays_in_the_conversation_of_its_turn(store: Stores, postgres: TestDatabase) -> None:
    """Where a line names no session, each import gives it a new one."""
    made, (item,) = chunk(store.scope(), [("s", "", "a")])
    await keep(store, (made, [dataclasses.replace(item, memories=())]))
    again = chunk(store.scope(), [("one of this call", "My sister Anna came by", "a")], start=10, on_conflict="update")
    assert (await keep(store, again))[1] == ()
    told = "SELECT s.label, v.content FROM memories m JOIN memory_versions v USING (tenant_id, memory_id)"
    assert postgres.psql(f"{told} JOIN sessions s ON s.session_id = m.session_id") == "s|My sister Anna came by"
    assert postgres.psql("SELECT label FROM sessions") == "s"


async def test_an_import_goes_on_where_a_conversation_ended(store: Stores) -> None:
    await keep(store, chunk(store.scope(), LINES))
    tail = await store.imports.session_tail(store.scope(), session_of(store.scope(), "s"))
    assert (tail.next_seq, tail.tip_chain) == (3, digest("s", 3))
    await keep(store, chunk(store.scope(), [("s", "five", None)], start=20))
    assert (await store.imports.session_tail(store.scope(), session_of(store.scope(), "s"))).next_seq == 4
    assert (await store.imports.session_tail(store.scope(), session_of(store.scope(), "none"))).tip_chain is None


async def test_a_chunk_of_a_lost_lane_leaves_nothing(store: Stores, postgres: TestDatabase) -> None:
    made = chunk(store.scope(), LINES)
    with pytest.raises(LeaseLost):
        await keep(store, made, fence=store.fence + 1)
    assert postgres.psql("SELECT count(*) FROM turns") == "0"
    assert (await store.imports.import_progress(store.scope(), made[0].import_id)).chunks == 0
    renamed = dataclasses.replace(made[0], import_id=new_id())
    assert (await keep(store, (renamed, made[1])))[0].new_turns == 4


async def test_a_chunk_that_is_held_up_is_given_up_before_an_erasure_waits_for_it_no_more(
    store: Stores, postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its statements may last a minute, and what it found no tombstone of may be forgotten meanwhile."""
    assert batch.COMMIT_MS / 1000 < SETTLED_WITHIN_S
    committed, _ = await keep(store, chunk(store.scope(), LINES))
    monkeypatch.setattr(batch, "COMMIT_MS", 300)
    async with store.database.transaction(store.tenant, [committed.scope_id]) as other:
        await other.value("bump_scope", store.tenant, committed.scope_id)
        began_s = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await keep(store, chunk(store.scope(), [("s", "late", "z")], start=10))
        assert time.monotonic() - began_s < 5, "not by the time of one statement"
    assert postgres.psql("SELECT count(*) FROM turns") == "4"
