"""Procedures in the store: one wording holds, whoever stores first; what waits or failed is in no prompt."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.database import Bounds
from memory.adapters.postgres.episode_store import JOB, PostgresEpisodes
from memory.adapters.postgres.leadership import Leadership
from memory.errors import MemoryProxyFault
from memory.ids import new_id
from memory.model import Commit, Committed, IndexRow
from memory.read.items import Filter
from memory.stored import Digests, ImportItem, MemoryChange, MemoryRecord
from memory.write.episodes import Bounds as Limits
from memory.write.episodes import Teller
from memory.write.procedures import Approve, embedded_procedures, procedures_of
from policies.labels import Integrity, Sensitivity
from tests.postgres.seed import (
    LANE,
    SUBJECT,
    T0,
    Stores,
    Words,
    chunk,
    digest,
    exchange,
    memory_of,
    retrieval,
    stores,
    vectors,
)
from tests.postgres_fixture import TestDatabase

DAY = timedelta(days=1)
FIRST = "To deploy: 1. run the tests 2. push the image"
SECOND = "To deploy: 1. build the wheel 2. publish it"
THIRD = "When I deploy, first freeze the branch, then tag it and finally tell the team."
OTHER = "To restore the backup: 1. stop the writers 2. copy the files"


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres, Bounds(connections_max=16)) as made:
        yield made


async def lesson(store: Stores, text: str, *, day: float = 0, approve: Approve = "taught", **more: Any) -> Commit:
    """An exchange of one turn of the user, in a session of its own, said on a day."""
    changes = {name: more.pop(name) for name in ("role", "integrity", "sensitivity") if name in more}
    made = exchange(store.scope(**more), f"s{new_id()}", 0, (text,), retrieval=None)
    turn = replace(made.turns[0], occurred_at=T0 + day * DAY, **changes)
    found = procedures_of([turn], approve)
    words = Words()
    memories = await embedded_procedures([one.memory for one in found], words, words)
    taught = tuple(replace(one, memory=memory) for one, memory in zip(found, memories, strict=True))
    arrived = replace(made.exchange, arrived_at=turn.occurred_at)
    return replace(made, exchange=arrived, turns=(turn,), memories=(memory_of(turn),), procedures=taught)


async def teach(store: Stores, text: str, *, day: float = 0, now: datetime | None = None, **more: Any) -> Committed:
    moment = now or T0 + max(day, 0) * DAY + timedelta(minutes=1)
    return await store.write.commit(await lesson(store, text, day=day, **more), now=moment)


async def shown(store: Stores, as_of: datetime | None = None, **scope: Any) -> list[IndexRow]:
    scopes = [one.scope_id for one in await store.read.visible_scopes(store.scope(**scope))]
    batches = [rows async for rows in store.read.index_rows(store.tenant, scopes, as_of=as_of)]
    return [row for row in itertools.chain.from_iterable(batches) if row.visible and row.kind == "procedural"]


async def texts(store: Stores, as_of: datetime | None = None, **scope: Any) -> set[str]:
    return {row.content.split("\n")[1] for row in await shown(store, as_of, **scope)}


async def listed(store: Stores, **more: Any) -> list[MemoryRecord]:
    return list((await store.records.memories(store.scope(), limit=100, kind="procedural", **more)).rows)


async def one_of(store: Stores, words: str) -> MemoryRecord:
    return next(row for row in await listed(store) if words in row.content)


async def judge(store: Stores, words: str, status: str, now: datetime) -> MemoryRecord:
    known = await one_of(store, words)
    change = MemoryChange(validation_status=status)
    return await store.records.patch_memory(store.scope(), known.memory_id, known.version, change, now)


async def turn_memory(store: Stores, text: str) -> UUID:
    page = await store.records.memories(store.scope(), limit=100, kind="episodic")
    return next(row.memory_id for row in page.rows if row.content == text)


async def test_what_is_taught_names_its_words(store: Stores, postgres: TestDatabase) -> None:
    commit = await lesson(store, "Hello there. " + FIRST)
    done = await store.write.commit(commit, now=T0)
    assert (done.procedures_new, done.facts_new) == (1, 0)
    (row,) = await shown(store)
    assert row.content == "How to deploy:\n1. run the tests\n2. push the image"
    assert (row.event_ids, row.validation_status) == ((commit.turns[0].event_id,), "confirmed")
    assert row.windows[0] == (0, len("How to deploy:"))
    about = row.attributes
    assert (about["trigger"], about["state"], about["number"], about["reason"]) == (
        "deploy", "approved", 1, "taught by the user",
    )  # fmt: skip
    said = commit.turns[0].content
    assert [said[step["start"] : step["end"]] for step in about["steps"]] == ["run the tests", "push the image"]
    assert {step["event_id"] for step in about["steps"]} == {str(commit.turns[0].event_id)}
    span = "SELECT span_start FROM derivations WHERE span_start IS NOT NULL"
    assert postgres.psql(span) == str(len("Hello there. "))
    assert "created" in postgres.psql(f"SELECT event FROM outbox WHERE object_id = '{row.memory_id}'")


async def test_the_same_taught_twice_is_one_memory_with_two_sources(store: Stores) -> None:
    await teach(store, FIRST)
    assert (await teach(store, FIRST.replace("push", "Push"), day=1)).procedures_new == 0
    (row,) = await shown(store)
    assert len(row.event_ids) == 2


async def test_teaching_a_trigger_anew_supersedes_and_can_be_undone(store: Stores, postgres: TestDatabase) -> None:
    await teach(store, FIRST)
    await teach(store, OTHER)
    await teach(store, SECOND, day=2)
    assert await texts(store) == {"1. build the wheel", "1. stop the writers"}
    old, new = await one_of(store, "run the tests"), await one_of(store, "build the wheel")
    assert (old.superseded_by, old.superseded_reason) == (new.memory_id, "taught anew")
    assert (new.attributes["number"], new.superseded_by) == (2, None)
    assert await texts(store, T0 + DAY) == {"1. run the tests", "1. stop the writers"}
    assert (await shown(store))[-1].outdates == old.event_ids
    await store.records.delete_memory(store.scope(), new.memory_id, T0 + 3 * DAY)
    assert await texts(store) == {"1. run the tests", "1. stop the writers"}
    await store.records.undelete_memory(store.scope(), new.memory_id, T0 + 4 * DAY)
    assert await texts(store) == {"1. build the wheel", "1. stop the writers"}
    events = postgres.psql(f"SELECT event FROM outbox WHERE object_id = '{old.memory_id}' ORDER BY seq").split()
    assert events == ["created", "superseded", "revalidated", "superseded"]


async def reword(store: Stores, words: str, content: str, now: datetime) -> MemoryRecord:
    known = await one_of(store, words)
    change = MemoryChange(content=content, windows=((0, len(content)),), vectors=vectors(1))
    return await store.records.patch_memory(store.scope(), known.memory_id, known.version, change, now)


async def test_an_edited_procedure_is_another_wording_and_its_turn_is_out_of_date(store: Stores) -> None:
    await teach(store, FIRST)
    (taught,) = await shown(store)
    edited = await reword(store, "run the tests", "How to deploy:\n1. freeze the branch\n2. push it", T0 + DAY)
    assert [step["text"] for step in edited.attributes["steps"]] == ["freeze the branch", "push it"]
    assert edited.event_ids == taught.event_ids
    (row,) = await shown(store)
    assert (row.event_ids, row.outdates) == ((), taught.event_ids)
    await teach(store, "To deploy: 1. freeze the branch 2. push it", day=2)  # the same in a chat
    assert await texts(store) == {"1. freeze the branch"}
    assert len(await listed(store)) == 1
    await teach(store, FIRST, day=3)  # the old wording counts for itself
    assert await texts(store) == {"1. run the tests"}
    old = await one_of(store, "freeze the branch")
    assert old.superseded_by == (await one_of(store, "run the tests")).memory_id


@pytest.mark.parametrize(
    "content", ["Ask Ada how to deploy.", "How to deploy:\n1. build the wheel\n2. publish it", " \n "]
)
async def test_an_edit_that_is_no_wording_of_its_own_is_kept_as_it_is_written(store: Stores, content: str) -> None:
    await teach(store, FIRST)
    await teach(store, SECOND, day=1)
    assert (await reword(store, "run the tests", content, T0 + 2 * DAY)).content == content
    assert len(await listed(store)) == 2
    assert await texts(store) == {"1. build the wheel"}
    await teach(store, FIRST, day=3)
    assert await texts(store) == {"1. run the tests"}


async def test_turns_of_every_older_wording_are_out_of_date_and_only_the_last_is_touched(
    store: Stores, postgres: TestDatabase
) -> None:
    for number in range(5):
        await teach(store, FIRST.replace("run", f"run {number}"), day=number)
    (row,) = await shown(store)
    assert (row.attributes["number"], len(row.outdates)) == (5, 4)
    # Each was born, and renewed once: when the next took its place.
    assert postgres.psql("SELECT DISTINCT version FROM memories WHERE kind = 'procedural' ORDER BY 1") == "1\n2"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_the_latest_taught_holds_in_whatever_order_it_is_stored(store: Stores, order: tuple[int, ...]) -> None:
    lessons = [(FIRST, 1), (SECOND, 2), (THIRD, 3)]
    for number in order:
        text, day = lessons[number]
        await teach(store, text, day=day, now=T0 + 9 * DAY)
    assert await texts(store) == {"1. freeze the branch"}


async def test_writers_at_once_leave_one_that_holds(store: Stores, postgres: TestDatabase) -> None:
    lessons = [await lesson(store, text, day=day) for day, text in enumerate((FIRST, SECOND, THIRD) * 4)]
    await asyncio.gather(*(store.write.commit(one, now=T0 + 20 * DAY) for one in lessons))
    assert await texts(store) == {"1. freeze the branch"}
    assert postgres.psql("SELECT count(*), count(*) FILTER (WHERE holds), max(number) FROM procedures") == "3|1|3"


async def test_a_commit_that_is_stored_twice_teaches_once(store: Stores, postgres: TestDatabase) -> None:
    commit = await lesson(store, FIRST)
    for _ in range(2):
        await store.write.commit(commit, now=T0)
    assert postgres.psql("SELECT count(*) FROM procedure_teachings") == "1"


async def test_what_waits_is_listed_for_review_and_in_no_prompt(store: Stores) -> None:
    await teach(store, FIRST, approve="none")
    await teach(store, SECOND, day=1)
    assert await texts(store) == {"1. build the wheel"}
    (waiting,) = await listed(store, to_review=True, order="asc", now=T0 + 2 * DAY)
    assert (waiting.attributes["state"], waiting.superseded_by) == ("proposed", None)
    found = await store.read.nearest(store.tenant, [waiting.scope_id], vectors(1)[0], 9, Filter(), now=T0)
    assert {row.validation_status for row in found if row.kind == "procedural"} == {"confirmed"}
    judged = await judge(store, "run the tests", "confirmed", T0 + 3 * DAY)
    assert (judged.attributes["state"], judged.attributes["reason"]) == ("approved", "approved in review")
    assert await texts(store) == {"1. run the tests"}  # whoever approves it means it
    assert await texts(store, T0 + 2 * DAY) == {"1. build the wheel"}
    assert await listed(store, to_review=True, order="asc", now=T0 + 4 * DAY) == []


async def test_what_was_rejected_stays_so_until_it_is_taught_again(store: Stores) -> None:
    await teach(store, FIRST)
    await judge(store, "run the tests", "rejected", T0 + DAY)
    assert await texts(store) == set()
    assert (await one_of(store, "run the tests")).attributes["state"] == "retired"
    await teach(store, FIRST, day=0.5, now=T0 + 2 * DAY)  # an import of what was said before
    assert await texts(store) == set()
    await teach(store, FIRST, day=3)
    assert await texts(store) == {"1. run the tests"}


async def test_hiding_the_only_turn_takes_its_procedure_along_and_brings_it_back(store: Stores) -> None:
    await teach(store, FIRST)
    await teach(store, SECOND, day=1)
    turn = await turn_memory(store, SECOND)
    await store.records.delete_memory(store.scope(), turn, T0 + 2 * DAY)
    assert await texts(store) == {"1. run the tests"}
    await store.records.undelete_memory(store.scope(), turn, T0 + 3 * DAY)
    assert await texts(store) == {"1. build the wheel"}


async def test_what_went_with_the_last_of_its_turns_comes_back_with_any(store: Stores) -> None:
    await teach(store, FIRST)
    await teach(store, FIRST + "!", day=1)
    first, last = await turn_memory(store, FIRST), await turn_memory(store, FIRST + "!")
    await store.records.delete_memory(store.scope(), first, T0 + 2 * DAY)
    await store.records.delete_memory(store.scope(), last, T0 + 3 * DAY)
    assert await texts(store) == set()
    await store.records.undelete_memory(store.scope(), first, T0 + 4 * DAY)
    assert await texts(store) == {"1. run the tests"}


async def test_a_procedure_with_another_source_stays(store: Stores) -> None:
    await teach(store, FIRST)
    await teach(store, FIRST + "!", day=1)
    await store.records.delete_memory(store.scope(), await turn_memory(store, FIRST), T0 + 2 * DAY)
    assert await texts(store) == {"1. run the tests"}


async def test_what_is_forgotten_teaches_nothing(store: Stores, postgres: TestDatabase) -> None:
    commit = await lesson(store, FIRST)
    mark = digest("forgotten")
    postgres.psql(
        "INSERT INTO tombstones (tenant_id, kind, digest, created_at)"
        f" VALUES ('{store.tenant}', 'content', '\\x{mark.hex()}', now())"
    )
    digests = Digests((), {commit.turns[0].event_id: (("content", mark),)})
    await store.write.commit(commit, now=T0, digests=digests)
    assert postgres.psql("SELECT count(*) FROM procedures") == "0"


@pytest.mark.parametrize("table", ["procedures", "procedure_teachings", "procedure_runs"])
async def test_nobody_sees_anothers_procedures(store: Stores, postgres: TestDatabase, table: str) -> None:
    await teach(store, FIRST)
    await teach(store, SECOND, user="bob")
    assert await texts(store) == {"1. run the tests"}
    assert await texts(store, user="bob") == {"1. build the wheel"}
    postgres.psql("INSERT INTO procedure_runs SELECT tenant_id, memory_id, scope_id, 'p', true, now() FROM procedures")
    mine = (await store.read.visible_scopes(store.scope()))[0].scope_id
    for scopes, count in (([mine], 1), ([], 0)):
        async with store.database.transaction(store.tenant, scopes, read_only=True) as tx:
            assert await tx._connection.fetchval(f"SELECT count(*) FROM {table}") == count
    async with store.database.transaction(new_id(), [mine], read_only=True) as tx:
        assert await tx._connection.fetchval(f"SELECT count(*) FROM {table}") == 0


async def imported(store: Stores, text: str, number: int) -> None:
    """One line under one source id, as an import that may replace it stores it."""
    made, lines = chunk(store.scope(), [("s", text, "id-1")], number, on_conflict="update")
    items: list[ImportItem] = []
    words = Words()
    for item in lines:
        found = procedures_of([item.turn])
        memories = await embedded_procedures([one.memory for one in found], words, words)
        taught = tuple(replace(one, memory=memory) for one, memory in zip(found, memories, strict=True))
        items.append(replace(item, procedures=taught))
    now = T0 + number * DAY
    await store.imports.commit_import(made, items, subject_id=SUBJECT, lane=LANE, fence=1, now=now)


async def test_a_line_that_is_replaced_takes_its_procedure_with_it(store: Stores) -> None:
    await teach(store, FIRST, day=-1, now=T0)
    await imported(store, SECOND, 1)
    assert await texts(store) == {"1. build the wheel"}
    await imported(store, "We deploy on Fridays.", 2)
    assert await texts(store) == {"1. run the tests"}
    await imported(store, THIRD, 3)
    assert await texts(store) == {"1. freeze the branch"}
    (row,) = await shown(store)
    assert {step["event_id"] for step in row.attributes["steps"]} == set(map(str, row.event_ids))


async def test_of_a_line_that_comes_twice_in_one_chunk_only_the_last_teaches(store: Stores) -> None:
    made, lines = chunk(
        store.scope(), [("s", FIRST, "id-1"), ("s", "We deploy on Fridays.", "id-1")], 1, on_conflict="update"
    )
    items: list[ImportItem] = []
    words = Words()
    for item in lines:
        found = procedures_of([item.turn])
        memories = await embedded_procedures([one.memory for one in found], words, words)
        taught = tuple(replace(one, memory=memory) for one, memory in zip(found, memories, strict=True))
        items.append(replace(item, procedures=taught))
    assert [len(item.procedures) for item in items] == [1, 0]
    await store.imports.commit_import(made, items, subject_id=SUBJECT, lane=LANE, fence=1, now=T0)
    assert await texts(store) == set()
    assert await listed(store) == []


# ---------------------------------------------------------------- what nobody taught

ALONE = Limits(idle_s=1800, turns_max=60, tokens_max=32_000, sentences_max=8, sessions_max=50)
TOOLS = ("read_file", "edit_file", "run_tests")


def teller(store: Stores, postgres: TestDatabase, approve: Approve = "taught", day: float = 0) -> Teller:
    words = Words()
    episodes = PostgresEpisodes(store.database, postgres.embeddings)
    return Teller(episodes, words, words, words, ALONE, lambda: T0 + day * DAY, lives={}, approve=approve)


def led(store: Stores, holder: str = "one") -> Callable[[], Awaitable[int | None]]:
    return lambda: Leadership(store.database, JOB, holder).lead(30)


async def worked(
    store: Stores,
    postgres: TestDatabase,
    *,
    good: bool = True,
    tools: Sequence[str] = TOOLS,
    day: float = 0,
    **more: Any,
) -> None:
    """A conversation in which these tools were called, and which ended well or not; told at once."""
    await spoke(store, good=good, tools=tools)
    asleep(postgres)
    assert (await teller(store, postgres, day=day, **more).sweep(led(store))).stored == 1


async def spoke(store: Stores, *, good: bool = True, tools: Sequence[str] = TOOLS) -> None:
    session = f"s{new_id()}"
    sign = "That fixed it, thanks!" if good else "It is still broken."
    said = ("The parser in src/parse.py crashes, please fix the parser.", "Let me look.", sign, "All right.")
    for at in (0, 2):
        made = exchange(store.scope(), session, at, said[at : at + 2], retrieval=None)
        called = [{"function": {"name": name, "arguments": "{}"}} for name in tools] if at == 0 else None
        turns = (made.turns[0], replace(made.turns[1], tool_calls=called))
        await store.write.commit(replace(made, turns=turns), now=T0)


def asleep(postgres: TestDatabase) -> None:
    postgres.psql("UPDATE sessions SET active_at = clock_timestamp() - interval '2 hours'")


async def test_three_successes_alike_are_proposed_and_wait_for_review(store: Stores, postgres: TestDatabase) -> None:
    for day in range(2):
        await worked(store, postgres, day=day)
    await worked(store, postgres, tools=("read_file", "run_tests", "edit_file"), day=2)  # another order
    assert await listed(store) == []
    await worked(store, postgres, day=3)
    (made,) = await listed(store)
    assert made.content.startswith("Procedure for coding tasks about ")
    assert made.content.endswith(":\n1. call read_file\n2. call edit_file\n3. call run_tests")
    about = made.attributes
    assert (about["state"], about["success_count"], about["failure_count"]) == ("proposed", 3, 0)
    assert (made.integrity, len(about["episodes"])) == ("assistant", 3)
    assert await shown(store) == []
    (waiting,) = await listed(store, to_review=True, order="asc", now=T0 + 9 * DAY)
    assert waiting.memory_id == made.memory_id
    await worked(store, postgres, day=4)
    (again,) = await listed(store)
    assert (again.memory_id, again.attributes["success_count"]) == (made.memory_id, 4)
    assert (await judge(store, "read_file", "confirmed", T0 + 5 * DAY)).attributes["state"] == "approved"
    assert await texts(store) == {"1. call read_file"}


@pytest.mark.parametrize("topics", [1, {"a": 1}, ["x" * 100_000, 7, *("y" * 500,) * 200], None])
async def test_topics_that_an_owner_wrote_stop_no_teller_and_make_no_monster(
    store: Stores, postgres: TestDatabase, topics: Any
) -> None:
    for day in range(2):
        await worked(store, postgres, day=day)
    page = await store.records.memories(store.scope(), limit=50, kind="episodic")
    for row in page.rows:
        if row.collection == "episode":
            change = MemoryChange(attributes={"topics": topics})
            await store.records.patch_memory(store.scope(), row.memory_id, row.version, change, T0 + 2 * DAY)
    await worked(store, postgres, day=3)
    (made,) = await listed(store)
    assert len(made.content) < 1_000


async def test_a_procedure_that_fails_is_retired_with_the_reason(store: Stores, postgres: TestDatabase) -> None:
    for day in range(3):
        await worked(store, postgres, day=day, approve="all")
    assert await texts(store) == {"1. call read_file"}
    for day, good in ((3, False), (4, True), (5, False)):
        await worked(store, postgres, day=day, good=good)
        assert await texts(store) == {"1. call read_file"}
    await worked(store, postgres, day=6, good=False)
    assert await shown(store) == []
    (row,) = await listed(store)
    about = row.attributes
    assert (about["state"], about["reason"]) == ("retired", "failed 3 of its last 5 runs")
    assert (about["success_count"], about["failure_count"]) == (4, 3)
    assert await texts(store, T0 + 5.5 * DAY) == {"1. call read_file"}
    for day in (7, 8, 9):
        await worked(store, postgres, day=day)
    assert await shown(store) == []  # only a person brings it back
    await judge(store, "read_file", "rejected", T0 + 9.5 * DAY)
    assert await texts(store, T0 + 5.5 * DAY) == set()  # what a person has rejected is given as of no day
    await judge(store, "read_file", "confirmed", T0 + 10 * DAY)
    for day in (11, 12):
        await worked(store, postgres, day=day, good=False)
    assert await texts(store) == {"1. call read_file"}  # what failed before was known when it was approved
    await worked(store, postgres, day=13, good=False)
    assert await shown(store) == []


async def test_too_many_failures_are_no_way_of_doing_things(store: Stores, postgres: TestDatabase) -> None:
    for day, good in enumerate((False, False, True, True, True)):
        await worked(store, postgres, day=day, good=good)
    assert await listed(store) == []
    await worked(store, postgres, day=6)
    assert len(await listed(store)) == 1


async def test_two_tellers_at_once_count_each_conversation_once(store: Stores, postgres: TestDatabase) -> None:
    for _ in range(6):
        await spoke(store)
    asleep(postgres)
    # The same fence for both: as when a leader's lease ran out and it does not know yet.
    fence = await Leadership(store.database, JOB, "one").lead(30)

    async def lead() -> int | None:
        return fence

    await asyncio.gather(*(teller(store, postgres).sweep(lead) for _ in range(2)))
    (made,) = await listed(store)
    assert made.attributes["success_count"] == 6
    assert postgres.psql("SELECT count(*) FROM procedure_runs") == "6"


async def test_a_proposal_goes_with_the_last_of_its_episodes(store: Stores, postgres: TestDatabase) -> None:
    for day in range(3):
        await worked(store, postgres, day=day)
    page = await store.records.memories(store.scope(), limit=100, kind="episodic")
    told = [row.memory_id for row in page.rows if row.collection == "episode"]
    for number, one in enumerate(told):
        assert len(await listed(store)) == 1
        await store.records.delete_memory(store.scope(), one, T0 + (9 + number) * DAY)
    assert await listed(store) == []
    await store.records.undelete_memory(store.scope(), told[-1], T0 + 20 * DAY)
    assert len(await listed(store)) == 1


async def given(store: Stores, postgres: TestDatabase, memory_id: UUID, *, good: bool = True, day: float = 0) -> None:
    """A conversation that was given a memory, and ended well or not."""
    session = f"s{new_id()}"
    sign = "That fixed it, thanks!" if good else "It is still broken."
    said = ("The deployment of the parser crashes.", "Let me look.", sign, "All right.")
    for at in (0, 2):
        made = exchange(store.scope(), session, at, said[at : at + 2])
        record = retrieval(made.exchange.exchange_id, memory_id) if at == 0 else None
        await store.write.commit(replace(made, retrieval=record), now=T0 + timedelta(seconds=9))
    asleep(postgres)
    assert (await teller(store, postgres, day=day).sweep(led(store))).stored == 1


async def test_what_was_taught_counts_the_conversations_it_was_given_to(store: Stores, postgres: TestDatabase) -> None:
    await teach(store, FIRST)
    await teach(store, OTHER)
    asleep(postgres)
    await teller(store, postgres).sweep(led(store))
    one = await one_of(store, "run the tests")
    for day, good in enumerate((True, False, False)):
        await given(store, postgres, one.memory_id, good=good, day=day)
    about = (await one_of(store, "run the tests")).attributes
    assert (about["success_count"], about["failure_count"], about["reason"]) == (1, 2, "taught by the user")
    assert await listed(store, to_review=True, order="asc", now=T0 + 9 * DAY) == []
    await given(store, postgres, one.memory_id, good=False, day=3)
    (failing,) = await listed(store, to_review=True, order="asc", now=T0 + 9 * DAY)
    about = failing.attributes
    assert (about["state"], about["reason"]) == ("approved", "failed 3 of its last 4 runs")
    assert await texts(store) == {"1. run the tests", "1. stop the writers"}  # a person decides
    assert (await one_of(store, "stop the writers")).attributes["failure_count"] == 0
    await judge(store, "run the tests", "confirmed", T0 + 10 * DAY)
    assert await listed(store, to_review=True, order="asc", now=T0 + 11 * DAY) == []


async def test_low_integrity_words_teach_nothing(store: Stores) -> None:
    for integrity in (Integrity.IMPORTED, Integrity.TOOL, Integrity.WEB, Integrity.ASSISTANT):
        assert (await teach(store, FIRST, integrity=integrity)).procedures_new == 0


async def test_odd_characters_are_stored_and_the_ranges_hold(store: Stores) -> None:
    text = "To deploy: 1. run the \x00 tests \ud800 twice 2. push 🙂 to the “prod” cluster"
    await teach(store, text)
    (row,) = await shown(store)
    kept = row.content.split("\n")[1:]
    page = await store.records.memories(store.scope(), limit=9, kind="episodic")
    said = page.rows[0].content
    ranges = [said[step["start"] : step["end"]] for step in row.attributes["steps"]]
    assert [f"{number}. {words}" for number, words in enumerate(ranges, 1)] == kept
    assert "\ufffd" in kept[0]


async def test_what_an_import_took_back_can_be_taught_by_it_again(store: Stores) -> None:
    for number, text in enumerate((FIRST, "We deploy on Fridays.", FIRST), 1):
        await imported(store, text, number)
    assert await texts(store) == {"1. run the tests"}


async def test_what_somebody_hid_comes_back_when_it_is_taught_later_only(store: Stores) -> None:
    await teach(store, FIRST)
    await store.records.delete_memory(store.scope(), (await one_of(store, "run the tests")).memory_id, T0 + 2 * DAY)
    await teach(store, FIRST, day=1, now=T0 + 3 * DAY)
    assert await texts(store) == set()
    await teach(store, FIRST, day=4)
    assert await texts(store) == {"1. run the tests"}


async def test_new_evidence_can_raise_a_sensitivity_and_nothing_lowers_it(store: Stores) -> None:
    await teach(store, FIRST)
    for label, wanted in (("confidential", "confidential"), ("public", "confidential")):
        await teach(store, FIRST, day=1, sensitivity=Sensitivity(label))
        assert [row.sensitivity for row in await shown(store)] == [wanted]


async def test_a_worker_that_dies_before_its_commit_leaves_nothing_and_the_next_one_all(
    store: Stores, postgres: TestDatabase
) -> None:
    """The episode and its run are one transaction: broken at each of its last statements, then done again."""
    for _ in range(3):
        await spoke(store)
    asleep(postgres)
    for table in ("procedures", "procedure_runs", "memory_versions"):
        postgres.psql(f"REVOKE INSERT ON {table} FROM mp_app")
        with pytest.raises(MemoryProxyFault):
            for _ in range(3):
                await teller(store, postgres).sweep(led(store))
        postgres.psql(f"GRANT INSERT ON {table} TO mp_app")
    while (await teller(store, postgres).sweep(led(store))).stored:
        pass
    (made,) = await listed(store)
    assert (made.attributes["success_count"], made.attributes["state"]) == (3, "proposed")
    assert postgres.psql("SELECT count(*) FROM procedure_runs") == "3"
