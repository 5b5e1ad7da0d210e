"""Facts in the store: once, supported, true, reversible, and the same whoever stores first."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.database import Bounds
from memory.ids import derived_id, new_id
from memory.model import Commit, Committed, IndexRow, NewFact, Turn
from memory.read.items import Filter
from memory.stored import Digests, MemoryChange
from policies.fact import Fact
from policies.fact_named import DIED, PARTED
from policies.labels import Integrity, Sensitivity
from policies.reconcile import content_key
from tests.postgres.seed import T0, Stores, chunk, digest, exchange, memory_of, stores, vectors
from tests.postgres_fixture import TestDatabase

DAY = timedelta(days=1)
FACTS = "SELECT object, negated, state FROM facts ORDER BY object, negated"


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres, Bounds(connections_max=16)) as made:
        yield made


def fact(object_: str, **more: Any) -> Fact:
    """The user lives somewhere; one place at a time."""
    fields: dict[str, Any] = {
        "subject": "user",
        "predicate": "lives_in",
        "object": object_,
        "statement": f"The user lives in {object_}.",
        "span": (0, 5),
        "cardinality": "one",
    }
    return Fact(**{**fields, **more})


def new_fact(one: Turn, what: Fact, number: int = 0) -> NewFact:
    """A fact as the write path hands it over."""
    memory = replace(
        memory_of(one, content=what.statement, windows=((0, len(what.statement)),), vectors=vectors(1)),
        memory_id=derived_id(one.event_id, "semantic", number),
        kind="semantic",
        content_key=content_key(what),
        confidence=what.confidence,
        importance=what.importance,
        extractor_version="facts-1",
    )
    return NewFact(memory, what, one.event_id)


_OF_TURN = ("role", "integrity", "sensitivity", "content", "parent_chain")


def saying(store: Stores, *facts: Fact, day: float = 0, session: str | None = None, **more: Any) -> Commit:
    """An exchange of one turn of the user that states these facts, said on a day."""
    ends = more.pop("ends", None)
    changes = {name: more.pop(name) for name in _OF_TURN if name in more}
    made = exchange(store.scope(), session or f"s{new_id()}", more.pop("at", 0), ("said so",), retrieval=None, **more)
    turn = replace(made.turns[0], occurred_at=T0 + day * DAY, **changes)
    stated = tuple(new_fact(turn, one, number) for number, one in enumerate(facts))
    stated = tuple(replace(one, memory=replace(one.memory, expires_at=ends)) for one in stated)
    arrived = replace(made.exchange, arrived_at=turn.occurred_at)
    return replace(made, exchange=arrived, turns=(turn,), memories=(), facts=stated)


async def say(store: Stores, *facts: Fact, day: float = 0, now: datetime | None = None, **more: Any) -> Committed:
    moment = now or T0 + max(day, 0) * DAY + timedelta(minutes=1)
    return await store.write.commit(saying(store, *facts, day=day, **more), now=moment)


async def shown(store: Stores, as_of: datetime | None = None) -> list[IndexRow]:
    scopes = [one.scope_id for one in await store.read.visible_scopes(store.scope())]
    batches = [rows async for rows in store.read.index_rows(store.tenant, scopes, as_of=as_of)]
    return [row for row in itertools.chain.from_iterable(batches) if row.visible and row.kind == "semantic"]


async def texts(store: Stores, as_of: datetime | None = None) -> set[str]:
    return {row.content for row in await shown(store, as_of)}


async def id_of(store: Stores, object_: str) -> UUID:
    page = await store.records.memories(store.scope(), limit=100, kind="semantic")
    return next(row.memory_id for row in page.rows if row.attributes["object"] == object_)


IN_BERLIN, IN_PARIS = {"The user lives in berlin."}, {"The user lives in paris."}


async def test_a_fact_is_a_memory_that_names_its_words(store: Stores, postgres: TestDatabase) -> None:
    commit = saying(store, fact("berlin", span=(2, 7), qualifiers={"since": "may"}, category="topology"), day=1)
    done = await store.write.commit(commit, now=T0 + 2 * DAY)
    assert (done.facts_new, done.facts_dropped, done.scope_version) == (1, 0, 1)
    (row,) = await shown(store)
    assert row.content == "The user lives in berlin."
    assert row.event_ids == (commit.turns[0].event_id,)
    assert dict(row.attributes) == {
        "subject": "user", "predicate": "lives_in", "object": "berlin", "category": "topology", "cardinality": "one",
        "negated": False, "qualifiers": {"since": "may"},
    }  # fmt: skip
    kept = await store.records.memory(store.scope(), row.memory_id)
    assert (kept.valid_from, kept.valid_to, round(kept.confidence, 3)) == (T0 + DAY, None, 0.8)
    assert postgres.psql("SELECT derived_kind, source_kind, span_start, span_end FROM derivations") == "memory|turn|2|7"
    assert postgres.psql("SELECT extractor_version FROM provenance") == "facts-1"
    assert postgres.psql("SELECT event FROM outbox") == "created"


async def test_a_fact_without_words_in_its_turn_is_dropped_and_counted(store: Stores) -> None:
    done = await say(store, fact("berlin", span=(3, 3)), fact("paris", span=(0, 99)), fact("rome", span=(0, 3)))
    assert (done.facts_new, done.facts_dropped) == (1, 2)
    assert await texts(store) == {"The user lives in rome."}


async def test_what_the_assistant_says_of_the_user_is_no_fact(store: Stores) -> None:
    guess: dict[str, Any] = {"role": "assistant", "integrity": Integrity.ASSISTANT}
    done = await say(store, fact("berlin"), fact("x", subject="server", statement="It."), **guess)
    assert (done.facts_new, done.facts_dropped) == (1, 1)
    assert await texts(store) == {"It."}


async def test_the_same_fact_again_is_one_memory_with_more_evidence(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("berlin"))
    done = await say(store, fact("berlin"), fact("berlin", span=(1, 4)), day=1)
    assert (done.facts_new, done.scope_version) == (0, 2)
    (row,) = await shown(store)
    assert (len(row.event_ids), row.version, row.changed_version) == (2, 1, 2)
    assert postgres.psql("SELECT count(*) FROM fact_sayings") == "3"
    assert postgres.psql("SELECT ordinal, span_start FROM derivations ORDER BY 1") == "0|0\n1|0"


async def test_a_delivery_that_comes_again_adds_no_evidence(store: Stores, postgres: TestDatabase) -> None:
    commit = saying(store, fact("berlin"), session="s")
    await store.write.commit(commit, now=T0)
    again = replace(commit, exchange=replace(commit.exchange, exchange_id=new_id()))  # the same history, sent again
    for one in (commit, again):
        done = await store.write.commit(one, now=T0)
        assert (done.facts_new, done.facts_dropped, done.scope_version) == (0, 0, 1)
    assert postgres.psql("SELECT count(*) FROM fact_sayings") == "1"


async def test_the_newer_value_takes_the_place_of_the_older(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("berlin"))
    done = await say(store, fact("paris"), day=1)
    assert await texts(store) == IN_PARIS
    old = await store.records.memory(store.scope(), await id_of(store, "berlin"))
    assert (old.superseded_by, old.superseded_reason) == (await id_of(store, "paris"), "newer value")
    assert (old.valid_from, old.valid_to) == (T0, T0 + DAY)
    assert postgres.psql("SELECT event, count(*) FROM outbox GROUP BY 1 ORDER BY 1") == "created|2\nsuperseded|1"
    # A hot scope that has the first learns that it must go.
    (scope_id,) = [one.scope_id for one in await store.read.visible_scopes(store.scope())]
    changes = store.read.index_rows(store.tenant, [scope_id], after={scope_id: done.scope_version - 1})
    assert {(row.memory_id, row.visible) async for rows in changes for row in rows} == {
        (old.memory_id, False),
        (await id_of(store, "paris"), True),
    }
    near = await store.read.nearest(store.tenant, [scope_id], vectors(1)[0], 10, Filter())
    assert [row.content for row in near] == ["The user lives in paris."]


async def test_as_of_sees_what_was_true_then(store: Stores) -> None:
    for number, place in enumerate(("berlin", "paris", "berlin")):
        await say(store, fact(place), day=number)
    assert await texts(store) == IN_BERLIN
    for day, wanted in ((0.5, IN_BERLIN), (1.5, IN_PARIS), (2.5, IN_BERLIN)):
        assert await texts(store, T0 + day * DAY) == wanted
    back = await store.records.memory(store.scope(), await id_of(store, "berlin"))
    assert (back.valid_from, back.valid_to, back.superseded_by) == (T0 + 2 * DAY, None, None)


async def test_as_of_the_days_in_which_it_had_ended_a_fact_that_is_said_anew_is_not_there(store: Stores) -> None:
    await say(store, fact("berlin"), ends=T0 + 2 * DAY)
    await say(store, fact("berlin"), day=1, ends=T0 + 3 * DAY)
    await say(store, fact("berlin"), day=5, ends=T0 + 9 * DAY)
    (row,) = await shown(store)
    assert (row.version, row.expires_at) == (2, T0 + 9 * DAY), "said again before its end it is the same version"
    there = [bool(await shown(store, T0 + day * DAY)) for day in (0.5, 2.5, 4, 6)]
    assert there == [True, True, False, True]


async def test_no_longer_ends_a_fact_and_is_one_itself(store: Stores) -> None:
    await say(store, fact("berlin"))
    await say(store, fact("berlin", negated=True, statement="The user no longer lives in berlin."), day=3)
    assert await texts(store) == {"The user no longer lives in berlin."}
    page = await store.records.memories(store.scope(), limit=9)
    (ended,) = [row for row in page.rows if row.superseded_by]
    assert (ended.superseded_reason, ended.valid_to) == ("no longer", T0 + 3 * DAY)


async def test_a_correction_stays_won(store: Stores) -> None:
    await say(store, fact("berlin"))
    await say(store, fact("paris", correction=True), day=1)
    await say(store, fact("berlin"), day=2)
    assert await texts(store) == IN_PARIS
    old = await store.records.memory(store.scope(), await id_of(store, "berlin"))
    assert (old.superseded_reason, old.valid_to) == ("corrected by the user", old.valid_from)
    await say(store, fact("berlin", correction=True), day=3)
    assert await texts(store) == IN_BERLIN


async def test_many_live_side_by_side_and_end_alone(store: Stores) -> None:
    def likes(what: str, **more: Any) -> Fact:
        return fact(what, predicate="likes", cardinality="many", statement=f"likes {what}", **more)

    await say(store, likes("jazz"), likes("blues"), likes("jazz"))
    assert await texts(store) == {"likes jazz", "likes blues"}
    await say(store, replace(likes("jazz", negated=True), statement="likes jazz no more"), day=1)
    assert await texts(store) == {"likes blues", "likes jazz no more"}


async def test_a_lower_word_is_kept_as_disputed(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("berlin", subject="ada"))
    await say(store, fact("paris", subject="ada"), day=1, role="tool", integrity=Integrity.TOOL)
    found = {row.attributes["object"]: row.validation_status for row in await shown(store)}
    assert found == {"berlin": "unreviewed", "paris": "disputed"}
    assert postgres.psql(FACTS) == "berlin|f|current\nparis|f|disputed"
    await say(store, fact("paris", subject="ada"), day=2)
    (row,) = await shown(store)
    assert (row.attributes["object"], row.validation_status, row.integrity) == ("paris", "unreviewed", "user")


async def test_evidence_can_raise_a_sensitivity_and_never_lower_what_a_person_set(store: Stores) -> None:
    await say(store, fact("berlin"))
    await say(store, fact("berlin"), day=1, sensitivity=Sensitivity.CONFIDENTIAL)
    (row,) = await shown(store)
    assert (row.sensitivity, row.version) == ("confidential", 2)
    change = MemoryChange(sensitivity="internal")
    await store.records.patch_memory(store.scope(), row.memory_id, 2, change, T0 + 2 * DAY)
    await say(store, fact("berlin"), day=3)
    (row,) = await shown(store)
    assert (row.sensitivity, row.version) == ("internal", 3)


# ---------------------------------------------------------------- reversible


async def test_what_was_superseded_comes_back_when_its_successor_goes(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("berlin"))
    await say(store, fact("paris"), day=1)
    scope, paris = store.scope(), await id_of(store, "paris")
    await store.records.delete_memory(scope, paris, T0 + 2 * DAY)
    assert await texts(store) == IN_BERLIN
    berlin = await store.records.memory(scope, await id_of(store, "berlin"))
    assert (berlin.superseded_by, berlin.superseded_reason, berlin.valid_to) == (None, None, None)
    assert postgres.psql("SELECT count(*) FROM outbox WHERE event = 'revalidated'") == "1"
    near = await store.read.nearest(store.tenant, [berlin.scope_id], vectors(1)[0], 10, Filter())
    assert [row.content for row in near] == ["The user lives in berlin."]
    await store.records.undelete_memory(scope, paris, T0 + 3 * DAY)
    assert await texts(store) == IN_PARIS


async def test_what_went_with_the_last_of_its_turns_comes_back_with_any(store: Stores) -> None:
    said = [saying(store, fact("berlin"), day=day) for day in (0, 1)]
    first, last = [replace(one, memories=(memory_of(one.turns[0]),)) for one in said]
    for number, one in enumerate((first, last)):
        await store.write.commit(one, now=T0 + number * DAY)
    for number, one in enumerate((first, last), 2):
        await store.records.delete_memory(store.scope(), one.memories[0].memory_id, T0 + number * DAY)
    assert await texts(store) == set()
    await store.records.undelete_memory(store.scope(), first.memories[0].memory_id, T0 + 4 * DAY)
    assert await texts(store) == IN_BERLIN


async def test_a_rejected_fact_supersedes_nothing(store: Stores) -> None:
    await say(store, fact("berlin"))
    await say(store, fact("paris"), day=1)
    paris = await id_of(store, "paris")
    reject, accept = (MemoryChange(validation_status=status) for status in ("rejected", "confirmed"))
    await store.records.patch_memory(store.scope(), paris, 1, reject, T0 + 2 * DAY)
    assert await texts(store) == IN_BERLIN
    await say(store, fact("paris"), day=3)  # repeating does not undo a review
    assert await texts(store) == IN_BERLIN
    await store.records.patch_memory(store.scope(), paris, 2, accept, T0 + 4 * DAY)
    assert await texts(store) == IN_PARIS


async def test_a_deleted_fact_comes_back_when_it_is_said_anew_and_not_by_an_old_turn(store: Stores) -> None:
    await say(store, fact("berlin"), day=1)
    await store.records.delete_memory(store.scope(), await id_of(store, "berlin"), T0 + 2 * DAY)
    await say(store, fact("berlin"), day=0, now=T0 + 3 * DAY)
    assert await texts(store) == set()
    await say(store, fact("berlin"), day=4)
    assert await texts(store) == IN_BERLIN


async def test_a_forgotten_fact_or_turn_leaves_nothing(store: Stores, postgres: TestDatabase) -> None:
    postgres.psql(
        f"INSERT INTO tombstones VALUES ('{store.tenant}', 'memory', '\\x{digest('m').hex()}', '{T0.isoformat()}')"
    )
    commit = saying(store, fact("berlin"), fact("jazz", predicate="likes"))
    gone: Any = {commit.facts[0].memory.memory_id: (("memory", bytes(digest("m"))),)}
    done = await store.write.commit(commit, now=T0, digests=Digests((), gone))
    assert (done.facts_new, done.erased) == (1, 1)
    commit = saying(store, fact("rome"), day=1)
    gone = {commit.turns[0].event_id: (("memory", bytes(digest("m"))),)}
    done = await store.write.commit(commit, now=T0, digests=Digests((), gone))
    assert (done.facts_new, done.facts_dropped) == (0, 0)
    assert postgres.psql("SELECT object FROM facts") == "jazz"
    postgres.psql("DELETE FROM memories")
    assert postgres.psql("SELECT (SELECT count(*) FROM facts) + (SELECT count(*) FROM fact_sayings)") == "0"


# ---------------------------------------------------------------- order


STORY = (
    (1, fact("berlin")),
    (2, fact("paris")),
    (3, fact("berlin", correction=True)),
    (4, fact("paris")),
    (5, fact("paris", negated=True)),
)


@pytest.mark.parametrize("order", list(itertools.permutations(range(len(STORY))))[::17])
async def test_any_order_of_arrival_ends_with_the_same_truth(
    order: Sequence[int], store: Stores, postgres: TestDatabase
) -> None:
    for at in order:
        day, what = STORY[at]
        await say(store, what, day=day, now=T0 + 20 * DAY)
    assert postgres.psql(FACTS) == "berlin|f|current\nparis|f|superseded\nparis|t|current"
    old = await store.records.memories(store.scope(), limit=9)
    reasons = {row.superseded_reason for row in old.rows if row.superseded_by}
    assert reasons == {"corrected by the user"}


async def test_imports_that_come_late_are_stored_as_superseded(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("paris"), day=5)
    made, items = chunk(store.scope(), [("old", "I live in berlin", "1"), ("old", "", "2")])
    items = [replace(items[0], turn=replace(items[0].turn, occurred_at=T0 - 9 * DAY))]
    items = [replace(items[0], memories=(), facts=(new_fact(items[0].turn, fact("berlin")),))]
    how: dict[str, Any] = {"subject_id": UUID(int=7), "lane": "live-0", "fence": 1, "now": T0 + 6 * DAY}
    done, _ = await store.imports.commit_import(made, items, **how)
    assert (done.facts_new, done.facts_dropped) == (1, 0)
    assert await texts(store) == IN_PARIS
    assert postgres.psql("SELECT version, superseded_reason FROM memories WHERE superseded_by IS NOT NULL") == (
        "1|newer value"
    )
    assert await texts(store, T0 + 7 * DAY) == IN_PARIS


async def test_of_one_day_the_line_that_came_last_holds_whatever_its_number_in_its_session(
    store: Stores, postgres: TestDatabase
) -> None:
    said = ["hello", "hello", "I live in berlin", "hello", "I live in paris"]  # every other one is the assistant's
    lines = [("one" if at < 3 else "two", text, str(at)) for at, text in enumerate(said)]
    made, items = chunk(store.scope(), lines)
    stated = {2: fact("berlin"), 4: fact("paris")}
    for at, item in enumerate(items):
        one = replace(item.turn, occurred_at=T0)
        items[at] = replace(item, turn=one, memories=(), facts=(new_fact(one, stated[at]),) if at in stated else ())
    how: dict[str, Any] = {"subject_id": UUID(int=7), "lane": "live-0", "fence": 1, "now": T0 + 6 * DAY}
    done, _ = await store.imports.commit_import(made, items, **how)
    assert done.facts_new == 2
    assert await texts(store) == IN_PARIS


async def test_a_line_that_is_replaced_takes_its_facts_with_it(store: Stores, postgres: TestDatabase) -> None:
    scope = store.scope()
    how: dict[str, Any] = {"subject_id": UUID(int=7), "lane": "live-0", "fence": 1, "now": T0 + 6 * DAY}

    async def send(number: int, text: str, *facts: Fact) -> Committed:
        made, items = chunk(scope, [("s", text, "id-1")], number, on_conflict="update")
        stated = tuple(new_fact(items[0].turn, one, at) for at, one in enumerate(facts))
        done, failed = await store.imports.commit_import(made, [replace(items[0], facts=stated)], **how)
        assert failed == ()
        return done

    likes = fact("jazz", predicate="likes", cardinality="many", statement="likes jazz")
    await say(store, fact("rome"), day=-30)
    await send(0, "I live in berlin and like jazz", fact("berlin"), likes)
    assert await texts(store) == IN_BERLIN | {"likes jazz"}
    await send(1, "I live in paris and like jazz", fact("paris"), likes)
    assert await texts(store) == IN_PARIS | {"likes jazz"}
    await send(2, "Nothing of the kind")
    assert await texts(store) == {"The user lives in rome."}
    assert postgres.psql("SELECT count(*) FROM fact_sayings") == "1"


async def test_workers_at_once_leave_one_truth(store: Stores, postgres: TestDatabase) -> None:
    """The same and contradicting facts from all connections: one memory each, one of them current, no one fails."""
    places = [fact(f"city {n % 5}") for n in range(20)]
    connections = asyncio.Semaphore(8)  # all there are: who waits for one may wait too long on a busy machine

    async def told(n: int, place: Fact) -> None:
        async with connections:
            await say(store, place, day=n, now=T0 + 50 * DAY)

    await asyncio.gather(*(told(n, place) for n, place in enumerate(places)))
    assert postgres.psql("SELECT count(*) FROM memories") == "5"
    assert postgres.psql("SELECT object FROM facts WHERE state = 'current'") == "city 4"
    assert postgres.psql("SELECT count(*) FROM memories WHERE superseded_by IS NULL") == "1"
    assert postgres.psql("SELECT count(*) FROM fact_sayings") == "20"


async def test_the_schema_itself_refuses_a_second_truth(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("berlin"))
    await say(store, fact("paris"), day=1)
    changed = "UPDATE facts SET state = 'current' WHERE object = 'berlin'"
    with pytest.raises(AssertionError, match="facts_one_current"):
        postgres.psql(changed)


async def test_the_later_word_of_a_session_holds_though_the_clock_went_back(store: Stores) -> None:
    now = T0 + 2 * DAY
    await say(store, fact("berlin"), day=1, session="s", now=now)
    await say(store, fact("paris"), day=0.5, session="s", at=2, now=now, parent_chain=digest("s", 0))
    assert await texts(store) == IN_PARIS
    # Also behind a turn that was said by then itself.
    await say(store, fact("berlin"), day=0.6, session="s", at=4, now=now + DAY, parent_chain=digest("s", 2))
    assert await texts(store) == IN_BERLIN


@pytest.mark.parametrize("parent", [None, "s"])
async def test_what_arrives_late_in_its_session_does_not_replace_what_was_said_later(
    store: Stores, postgres: TestDatabase, parent: str | None
) -> None:
    """A spool adopted later, a dead letter tried again: of a client that sends its newest message only, or a branch."""
    now = T0 + 2 * DAY
    if parent is not None:
        await say(store, day=0, session="s", now=now, content="Hello")
    chain = {"parent_chain": None if parent is None else digest(parent, 0)}
    await say(store, fact("berlin"), day=1, session="s", at=4, now=now, **chain)
    await say(store, fact("paris"), day=0.5, session="s", at=2, now=now + DAY, **chain)
    assert await texts(store) == IN_BERLIN
    assert postgres.psql(FACTS) == "berlin|f|current\nparis|f|superseded"


async def test_a_fact_dated_by_a_clock_that_ran_ahead_does_not_rule_for_ever(store: Stores) -> None:
    await say(store, fact("berlin"), day=9_000)
    await say(store, fact("paris"), day=1)
    assert await texts(store) == IN_PARIS


def called(name: str, kind: str, **more: Any) -> Fact:
    return fact(name, predicate=f"{kind}_name", statement=f"The user's {kind} is called {name}.", **more)


def gone(name: str, predicate: str) -> Fact:
    """What a rule knows by its name alone."""
    return fact(name, predicate=predicate, statement=f"{predicate} {name}", negated=True, qualifiers={"ended": "yes"})


@pytest.mark.parametrize("together", [True, False])
async def test_an_ending_that_only_names_somebody_ends_what_the_name_was_told_under(
    store: Stores, together: bool
) -> None:
    told = (called("hannes", "boyfriend"), called("biscuit", "dog", cardinality="many"))
    ends = (gone("hannes", PARTED), gone("biscuit", DIED))
    if together:
        await say(store, *told, *ends)
    else:
        await say(store, *told)
        await say(store, *ends, day=1)
    assert await texts(store) == {"parted_from hannes", "died biscuit"}
    await say(store, called("hannes", "boyfriend"), day=2)  # they are together again
    assert await texts(store) == {"The user's boyfriend is called hannes.", "died biscuit"}


async def test_an_ending_that_says_only_what_somebody_is_ends_the_one_who_is_known(store: Stores) -> None:
    many: dict[str, Any] = {"cardinality": "many"}
    await say(store, called("hannes", "boyfriend"), called("biscuit", "dog"), called("miso", "cat", **many))
    await say(store, called("tom", "cat", **many), called("ann", "sister", cardinality="many"))
    await say(store, gone("boyfriend", PARTED), gone("dog", DIED), gone("cat", DIED), gone("wife", PARTED), day=1)
    left = {"The user's cat is called miso.", "The user's cat is called tom.", "The user's sister is called ann."}
    assert left <= await texts(store)
    assert await texts(store) - left == {"parted_from boyfriend", "died dog"}
    await say(store, called("waffle", "dog"), day=2)
    await say(store, gone("dog", DIED), day=3)  # the first one is not known any more
    assert await texts(store) - left == {"parted_from boyfriend", "died dog"}


async def test_an_ending_that_names_nobody_known_is_no_memory(store: Stores) -> None:
    await say(store, called("anna", "sister", cardinality="many"), called("anna", "cat", cardinality="many"))
    known = await texts(store)
    await say(store, gone("prince", DIED), gone("bob", PARTED), gone("anna", PARTED), gone("anna", DIED), day=1)
    assert await texts(store) == known
    await say(store, gone("bob", "partner_name"), day=2)
    assert await texts(store) == known | {"partner_name bob"}


async def test_whom_one_was_together_with_under_two_names_is_one(store: Stores) -> None:
    await say(store, called("luc", "boyfriend"))
    await say(store, called("luc", "husband"), day=1)
    done = await say(store, gone("luc", "partner_name"), day=2)
    assert done.facts_new == 2
    assert await texts(store) == {"partner_name luc"}
