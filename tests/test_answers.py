"""An answer of a moment ago is given again only while everything it rests on is as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from memory.model import Recall
from memory.read.answers import ANSWER_TTL_S, Answers, Found
from memory.read.recall import Recaller
from memory.telemetry import Metrics
from tests.test_hot_scopes import crowd
from tests.test_recall import NOW, Embedder, Store, question, recaller, row, unit


class Search:
    """Counts how often it was asked; waits for `open`."""

    def __init__(self, expires_at: datetime | None = None, recall: Recall | None = None) -> None:
        self.asked = 0
        self.expires_at = expires_at
        self.recall = recall or Recall(rung="full")
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self) -> Found:
        self.asked += 1
        await self.open.wait()
        return Found(replace(self.recall), self.expires_at)


class State:
    """What an index says of itself."""

    def __init__(self) -> None:
        self.now = object()

    def __call__(self) -> object:
        return self.now


async def test_the_same_question_is_searched_once_while_nothing_changes() -> None:
    answers, state, search = Answers(Metrics()), State(), Search()
    key = answers.key(("where",), 1)
    first = await answers.of(key, state, NOW, search)
    again = await answers.of(key, state, NOW, search)
    assert again == first and again.made == {} and first.made is None  # what is made of it is held from now on
    assert await answers.of(key, state, NOW, search) is again
    await answers.of(answers.key(("where",), 2), state, NOW, search)
    assert search.asked == 2


async def test_a_change_of_the_index_ends_an_answer_also_one_that_was_being_made() -> None:
    answers, state, search = Answers(Metrics()), State(), Search()
    key = answers.key(("where",), 1)
    search.open.clear()
    asking = asyncio.create_task(answers.of(key, state, NOW, search))
    await asyncio.sleep(0.001)
    state.now = object()
    search.open.set()
    await asking
    await answers.of(key, state, NOW, search)
    assert search.asked == 2
    state.now = object()
    await answers.of(key, state, NOW, search)
    assert search.asked == 3


async def test_an_answer_ends_with_its_time_and_with_the_expiry_of_what_is_in_it() -> None:
    clock = [0.0]
    answers, state = Answers(Metrics(), clock=lambda: clock[0]), State()
    search = Search(expires_at=NOW + timedelta(milliseconds=500))
    key = answers.key(("where",), 1)
    await answers.of(key, state, NOW, search)
    await answers.of(key, state, NOW + timedelta(milliseconds=499), search)
    assert search.asked == 1
    await answers.of(key, state, NOW + timedelta(milliseconds=500), search)
    assert search.asked == 2
    lasting, other = Search(), answers.key(("where",), 2)
    await answers.of(other, state, NOW, lasting)
    clock[0] = ANSWER_TTL_S
    await answers.of(other, state, NOW, lasting)
    assert lasting.asked == 2


async def test_a_degraded_answer_is_not_given_again() -> None:
    answers, state, search = Answers(Metrics()), State(), Search(recall=Recall(rung="lexical", reason="embedder"))
    key = answers.key(("where",), 1)
    await answers.of(key, state, NOW, search)
    await answers.of(key, state, NOW, search)
    assert search.asked == 2


async def test_an_erasure_leaves_no_answer_not_even_one_under_way() -> None:
    answers, state, search = Answers(Metrics()), State(), Search()
    key = answers.key(("where",), 1)
    await answers.of(key, state, NOW, search)
    answers.let_go()
    await answers.of(key, state, NOW, search)
    answers.let_go()
    search.open.clear()
    asking = asyncio.create_task(answers.of(key, state, NOW, search))
    await asyncio.sleep(0.001)
    answers.let_go()
    search.open.set()
    await asking
    await answers.of(key, state, NOW, search)
    assert search.asked == 4


async def test_answers_are_bounded_in_number() -> None:
    answers, state, search = Answers(Metrics(), entries_max=2), State(), Search()
    for rest in (1, 2, 3, 3, 2, 1):
        await answers.of(answers.key(("where",), rest), state, NOW, search)
    assert search.asked == 4


async def ask(one: Recaller, embedder: Embedder, **changes: Any) -> Recall:
    return await one.recall(question(**changes), await one.embed("what is my boat called"), 5.0)


@pytest.fixture
def store() -> Store:
    return Store(rows=[row("my boat is called Tern", unit(1, 0, 0, 0))])


async def test_a_memory_that_is_written_is_in_the_next_answer_to_the_same_question(store: Store) -> None:
    one, _ = recaller(store, Embedder())
    first = await ask(one, Embedder())
    assert await ask(one, Embedder()) is not first
    assert [c.memory_id for c in (await ask(one, Embedder())).candidates] == [c.memory_id for c in first.candidates]
    store.rows.append(row("the boat is called Gull now", unit(1, 0, 0, 0), 2))
    store.version = 2
    later = await ask(one, Embedder(), announced={1: 2})
    assert len(later.candidates) == len(first.candidates) + 1


async def test_what_another_prompt_contains_is_another_question(store: Store) -> None:
    one, _ = recaller(store, Embedder())
    assert (await ask(one, Embedder())).candidates
    assert (await ask(one, Embedder())).candidates
    assert not (await ask(one, Embedder(), known_chains=[store.rows[0].chain])).candidates


async def test_one_who_is_out_of_time_does_not_spoil_the_search_for_those_who_have_it(store: Store) -> None:
    one, _ = recaller(store, Embedder(), staleness_ms=0)
    await ask(one, Embedder())
    store.delay_s = 0.2
    hurried = asyncio.create_task(one.recall(question(), await one.embed("q"), 0.05))
    await asyncio.sleep(0.01)
    patient = asyncio.create_task(one.recall(question(), await one.embed("q"), 5.0))
    assert (await hurried).reason == "deadline"
    assert (await patient).candidates


async def test_many_who_wait_for_one_search_that_hangs_begin_no_other_as_each_of_them_leaves(store: Store) -> None:
    one, _ = recaller(store, Embedder(), staleness_ms=0)
    await ask(one, Embedder())
    before, store.delay_s = store.asked, 2.0
    asking = [one.recall(question(), await one.embed("q"), 0.25 + at / 100) for at in range(40)]
    found = await asyncio.gather(*asking)
    assert {recall.reason for recall in found} == {"deadline"}
    assert store.asked - before == 2  # once for the index, once in its place when it is late


async def test_those_who_know_of_different_versions_wait_for_one_catch_up_and_share_one_search(store: Store) -> None:
    embedder = Embedder()
    one, hot = recaller(store, embedder, staleness_ms=60_000)
    await ask(one, embedder)
    store.rows.append(row("the boat is called Gull now", unit(1, 0, 0, 0), 9))
    store.version, store.delay_s, before = 9, 0.05, store.loads
    held = hot.held(question().scope)
    assert held is not None
    searched = Counted(held.index.rank)
    held.index.rank = searched  # type: ignore[method-assign]
    found = await asyncio.gather(*(ask(one, embedder, announced={1: version}) for version in range(2, 10)))
    assert store.loads - before == 1 and searched.times == 1
    assert {len(recall.candidates) for recall in found} == {2}


async def test_while_many_ask_an_answer_outlives_what_is_stored_but_not_what_is_erased(store: Store) -> None:
    embedder = Embedder()
    one, hot = recaller(store, embedder, staleness_ms=600_000)
    first = await ask(one, embedder)
    first = await ask(one, embedder)
    store.rows.append(row("the boat is called Gull now", unit(1, 0, 0, 0), 9))
    store.version = 9
    with crowd(hot):
        assert (await ask(one, embedder, announced={1: 9})).candidates == first.candidates
        assert (await ask(one, embedder, announced={1: 9}, strict=True)).candidates != first.candidates
        one._answers.let_go()
        assert len((await ask(one, embedder, announced={1: 9})).candidates) == 2
    assert len((await ask(one, embedder, announced={1: 9})).candidates) == 2


async def test_a_recent_answer_is_of_a_recent_index_and_of_nothing_expired() -> None:
    clock = [0.0]
    answers, state = Answers(Metrics(), clock=lambda: clock[0]), State()
    key = answers.key(("where",), 1)

    def stands(_: Recall) -> bool:
        return True

    async def search() -> Found:
        return Found(Recall(rung="full"), NOW + timedelta(milliseconds=500), confirmed_at=7.0)

    found = await answers.of(key, state, NOW, search)
    state.now = object()
    assert answers.known(key, state.now, NOW) is None
    assert answers.recent(key, 7.0, NOW, stands) == found
    assert answers.recent(key, 7.0, NOW, lambda _: False) is None
    assert answers.recent(key, 7.1, NOW, stands) is None
    assert answers.recent(key, 7.0, NOW + timedelta(milliseconds=500), stands) is None
    clock[0] = ANSWER_TTL_S
    assert answers.recent(key, 7.0, NOW, stands) is None


async def test_an_index_that_is_late_is_searched_once_for_all_who_ask_the_same(store: Store) -> None:
    embedder = Embedder()
    one, hot = recaller(store, embedder, staleness_ms=60_000)
    await ask(one, embedder)
    held = hot.held(question().scope)
    assert held is not None
    searched, asked, run_at_once = Counted(held.index.rank), Counted(one._answers.of), hot.run_at_once

    async def run_when_all_have_asked(*given: Any) -> Any:
        while asked.times < 8:
            await asyncio.sleep(0.001)
        return await run_at_once(*given)

    held.index.rank, one._answers.of = searched, asked  # type: ignore[method-assign]
    hot.run_at_once = run_when_all_have_asked  # type: ignore[method-assign, assignment]
    store.version, store.delay_s = 9, 30
    asking = [one.recall(question(announced={1: 2 + at}), await one.embed("q"), 0.5) for at in range(8)]
    found = await asyncio.gather(*asking)
    assert {(recall.rung, len(recall.candidates)) for recall in found} == {("full", 1)}
    assert searched.times == 1


class Counted:
    """A function that counts how often it is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.times = 0

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.times += 1
        return self.function(*given, **named)


async def test_while_many_ask_no_answer_outlives_what_is_known_to_be_taken_back(store: Store) -> None:
    embedder = Embedder()
    one, hot = recaller(store, embedder, staleness_ms=600_000)
    for _ in range(2):
        assert len((await ask(one, embedder)).candidates) == 1
    store.rows = [replace(store.rows[0], visible=False, changed_version=2)]
    store.version = 2
    with crowd(hot):
        assert (await ask(one, embedder)).candidates, "nobody has asked the store"
        await hot.get(question().scope, None, strict=True)
        assert one.known(question()) is None
        assert not (await ask(one, embedder)).candidates


async def test_while_many_ask_no_answer_outlives_the_index_that_gave_it(store: Store) -> None:
    embedder = Embedder()
    one, hot = recaller(store, embedder, staleness_ms=600_000)
    for _ in range(2):
        assert len((await ask(one, embedder)).candidates) == 1
    store.rows, store.version, store.rebuild = [], 2, 2  # erased, and this process was not told
    with crowd(hot):
        await hot.get(question().scope, None, strict=True)
        assert one.known(question()) is None
        assert not (await ask(one, embedder)).candidates


async def test_a_question_whose_vector_is_at_hand_is_searched_with_it_whatever_the_load(store: Store) -> None:
    known = Embedder(known=unit(1, 0, 0, 0))
    one, _ = recaller(store, known)
    assert one.at_hand("what is my boat called") is not None
    found = await one.recall(question(rung="lexical"), one.at_hand("what is my boat called"), 5.0)
    assert (found.rung, found.reason) == ("full", None)
    assert recaller(store, Embedder())[0].at_hand("what is my boat called") is None


async def test_an_answer_by_words_alone_is_given_again_to_who_has_no_vector_and_to_nobody_else(store: Store) -> None:
    one, hot = recaller(store, Embedder(), staleness_ms=600_000)
    await hot.get(question().scope, None)
    first = await one.recall(question(), None, 5.0)
    again = await one.recall(question(), None, 5.0)
    assert (first.rung, first.reason) == (again.rung, again.reason) == ("lexical", "overload")
    assert again.candidates is first.candidates
    full = await ask(one, Embedder())
    assert full.rung == "full"
    better = await one.recall(question(), None, 5.0)
    assert (better.rung, better.candidates is full.candidates) == ("full", True)


async def test_while_many_ask_by_words_alone_their_answers_outlive_what_is_stored(store: Store) -> None:
    one, hot = recaller(store, Embedder(), staleness_ms=600_000)
    await hot.get(question().scope, None)
    first = await one.recall(question(), None, 5.0)
    store.rows.append(row("the boat is called Gull now", unit(1, 0, 0, 0), 9))
    store.version = 9
    with crowd(hot):
        again = await one.recall(question(announced={1: 9}), None, 5.0)
    assert again.candidates is first.candidates


async def test_an_answer_that_failed_for_words_is_not_given_again(store: Store) -> None:
    one, _ = recaller(store, Embedder(away=True), staleness_ms=600_000)
    first = await ask(one, Embedder(away=True))
    assert (first.rung, first.reason) == ("lexical", "embedder")
    embedder = Embedder()
    one._embedder = embedder
    assert (await ask(one, embedder)).rung == "full"
