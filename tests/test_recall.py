"""Recall keeps its deadline and fails open, whatever is slow or away."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.chain import Digest
from memory.errors import EmbedderUnavailable, QueueUnavailable, StoreRefused, StoreUnavailable, TimedOut, Unprocessable
from memory.ids import new_id
from memory.model import Announcement, IndexRow, Injections, Scope, ScopeId, ScopeVersion, Vector
from memory.read import recall as module
from memory.read.hot import HotScopes
from memory.read.items import Filter
from memory.read.recall import Question, Recaller
from memory.telemetry import Metrics
from policies.admission import Features, Verdict, admit

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SCOPE = Scope(new_id())
DIM = 4


def unit(*values: float) -> NDArray[np.float32]:
    vector = np.asarray(values, np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def row(text: str, vector: NDArray[np.float32], version: int = 1, **changes: object) -> IndexRow:
    given: dict[str, object] = {
        "memory_id": new_id(),
        "version": 1,
        "kind": "episodic",
        "role": "user",
        "content": text,
        "context": "",
        "occurred_at": NOW,
        "session_id": new_id(),
        "seq": 0,
        "integrity": "user",
        "sensitivity": "internal",
        "importance": 0.5,
        "expires_at": None,
        "scope_id": 1,
        "source_ids": (text,),
        "event_ids": (new_id(),),
        "windows": ((0, len(text)),),
        "vectors": vector[None],
        "visible": True,
        "changed_version": version,
        "chain": Digest(text.encode().ljust(32, b".")[:32]),
    }
    return IndexRow(**{**given, **changes})  # type: ignore[arg-type]


@dataclass
class Store:
    """Rows and versions, and how the store misbehaves."""

    rows: list[IndexRow] = field(default_factory=list)
    version: int = 1
    rebuild: int = 0
    counted: list[Injections] = field(default_factory=list)
    delay_s: float = 0.0
    away: bool = False
    asked: int = 0
    nearest_asked: int = 0
    loads: int = 0

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        self.asked += 1
        await asyncio.sleep(self.delay_s)
        if self.away:
            raise StoreUnavailable("away")
        return (ScopeVersion(ScopeId(1), self.version, self.rebuild),)

    async def index_rows(
        self,
        tenant: UUID,
        scope_ids: Sequence[int],
        *,
        after: Mapping[int, int] | None = None,
        as_of: datetime | None = None,
    ) -> AsyncIterator[list[IndexRow]]:
        self.loads += 1
        since = (after or {}).get(1, 0)
        yield [r for r in self.rows if r.changed_version > since]

    async def injections(self, tenant: UUID, after: Mapping[int, int]) -> AsyncIterator[list[Injections]]:
        yield self.counted

    async def nearest(
        self, tenant: UUID, scope_ids: Sequence[int], vector: Vector, k: int, where: Filter, *, now: datetime
    ) -> list[IndexRow]:
        self.nearest_asked += 1
        return sorted(self.rows, key=lambda r: -float((r.vectors @ vector).max()))[:k]


@dataclass
class Embedder:
    """A vector, late or never."""

    delay_s: float = 0.0
    away: bool = False
    model: str = "fake"
    dim: int = DIM
    known: Vector | None = None

    def at_hand(self, text: str) -> Vector | None:
        return self.known

    async def embed_query(self, text: str) -> Vector:
        await asyncio.sleep(self.delay_s)
        if self.away:
            raise EmbedderUnavailable("away")
        return unit(1, 0, 0, 0)

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([unit(1, 0, 0, 0) for _ in texts])


@pytest.fixture
def store() -> Store:
    near, far = unit(1, 0.1, 0, 0), unit(0, 0, 1, 0)
    return Store([row("my boat is called Halcyon", near), row("the cat sleeps all day", far)])


def recaller(
    store: Store, embedder: Embedder, staleness_ms: int = 1000, bytes_max: int = 1 << 20
) -> tuple[Recaller, HotScopes]:
    metrics = Metrics()
    hot = HotScopes(store, dim=DIM, bytes_max=bytes_max, staleness_ms=staleness_ms, metrics=metrics)
    return Recaller(hot, store, embedder, metrics), hot


def question(text: str = "what is my boat called", **changes: object) -> Question:
    given: dict[str, object] = {"scope": SCOPE, "text": text, "k": 10, "now": NOW, "where": Filter()}
    return Question(**{**given, **changes})  # type: ignore[arg-type]


async def test_the_evidence_comes_first(store: Store) -> None:
    recall, _ = recaller(store, Embedder())
    found = await recall.recall(question(), await recall.embed("q"), 5.0)
    assert found.rung == "full"
    assert found.reason is None
    assert found.candidates[0].content == "my boat is called Halcyon"


async def test_a_slow_embedder_costs_its_share_and_recall_goes_on_lexically(store: Store) -> None:
    recall, _ = recaller(store, Embedder(delay_s=30))
    started = time.monotonic()
    found = await recall.recall(question(), await recall.embed("q"), 0.5)
    assert time.monotonic() - started < 5
    assert (found.rung, found.reason) == ("lexical", "embedder")
    assert found.candidates[0].content == "my boat is called Halcyon"


async def test_an_embedder_that_is_away_leaves_the_lexical_rung(store: Store) -> None:
    recall, _ = recaller(store, Embedder(away=True))
    found = await recall.recall(question(), await recall.embed("q"), 5.0)
    assert (found.rung, found.reason) == ("lexical", "embedder")
    assert found.candidates


async def test_a_store_that_hangs_is_left_at_the_deadline(store: Store) -> None:
    store.delay_s = 30
    recall, _ = recaller(store, Embedder())
    started = time.monotonic()
    found = await recall.recall(question(), await recall.embed("q"), 0.3)
    assert time.monotonic() - started < 5
    assert found.candidates == ()
    assert found.reason in ("deadline", "store")


async def test_a_store_that_is_away_is_said(store: Store) -> None:
    store.away = True
    recall, _ = recaller(store, Embedder())
    found = await recall.recall(question(), await recall.embed("q"), 5.0)
    assert (found.candidates, found.reason) == ((), "store")


async def test_a_search_that_blocks_its_thread_does_not_block_the_loop(store: Store) -> None:
    recall, hot = recaller(store, Embedder())
    await recall.recall(question(), await recall.embed("q"), 5.0)
    blocking = asyncio.create_task(hot.run(lambda: time.sleep(1.5)))
    await asyncio.sleep(0)
    started = time.monotonic()
    found = await recall.recall(question(), await recall.embed("q"), 0.2)
    assert time.monotonic() - started < 1.2
    assert found.reason == "deadline"
    await blocking


async def test_a_cached_scope_is_used_without_asking_then_confirmed(store: Store) -> None:
    recall, _ = recaller(store, Embedder(), staleness_ms=1500)  # what three recalls take on a machine that is very busy
    for _ in range(3):
        await recall.recall(question(), await recall.embed("q"), 5.0)
    assert store.asked == 1
    await asyncio.sleep(1.6)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    assert store.asked == 2


async def test_an_announced_version_is_fetched_at_once(store: Store) -> None:
    recall, _ = recaller(store, Embedder(), staleness_ms=60_000)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    store.rows.append(row("the boat was sold", unit(1, 0, 0, 0), version=2))
    store.version = 2
    found = await recall.recall(question(announced={1: 2}), await recall.embed("q"), 5.0)
    assert "the boat was sold" in {c.content for c in found.candidates}


async def test_an_index_that_is_late_answers_as_it_is_while_its_confirmation_holds(store: Store) -> None:
    recall, _ = recaller(store, Embedder(), staleness_ms=60_000)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    store.version, store.delay_s = 2, 30
    found = await recall.recall(question(announced={1: 2}), await recall.embed("q"), 0.3)
    assert (found.rung, found.reason, len(found.candidates)) == ("full", None, 2)
    assert store.nearest_asked == 0


async def test_an_index_that_cannot_be_brought_up_to_date_answers_as_it_is_for_as_long(store: Store) -> None:
    recall, _ = recaller(store, Embedder(), staleness_ms=1500)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    store.version, store.away = 2, True
    found = await recall.recall(question(announced={1: 2}), await recall.embed("q"), 5.0)
    assert (found.rung, found.reason, len(found.candidates)) == ("full", None, 2)
    await asyncio.sleep(1.6)
    found = await recall.recall(question(announced={1: 2}), await recall.embed("q"), 5.0)
    assert (found.reason, found.candidates) == ("store", ())


async def test_an_index_that_is_read_anew_answers_nothing_meanwhile(store: Store) -> None:
    recall, hot = recaller(store, Embedder(), staleness_ms=60_000)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    assert hot.late(SCOPE) is not None
    store.version, store.rebuild = 2, 2
    blocking = asyncio.create_task(hot.run(lambda: time.sleep(0.3)))
    reading = asyncio.create_task(hot.get(SCOPE, {1: 2}))
    await asyncio.sleep(0.05)
    assert (reading.done(), hot.late(SCOPE)) == (False, None)
    await asyncio.gather(blocking, reading)
    assert hot.late(SCOPE) is not None


async def test_a_counter_that_changed_alone_reaches_the_index(store: Store) -> None:
    recall, hot = recaller(store, Embedder(), staleness_ms=60_000)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    held = (await hot.get(SCOPE, None)).index
    store.counted, store.version = [Injections(store.rows[0].memory_id, 15, NOW)], 2
    found = await recall.recall(question(announced={1: 2}), await recall.embed("q"), 5.0)
    assert [c.parts["reinforcement"] for c in found.candidates] == [1.0, 0.0]
    assert (await hot.get(SCOPE, None)).index is held


async def announcing(store: Store, hot: HotScopes, *announced: Announcement) -> None:
    """Let the hot scopes hear these, and do what they do about it."""

    async def listen() -> AsyncIterator[Announcement]:
        for one in announced:
            yield one
        raise QueueUnavailable("gone")

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            await hot.keep_up(listen)


async def test_an_announcement_is_caught_up_with_before_a_question_comes(store: Store) -> None:
    recall, hot = recaller(store, Embedder(), staleness_ms=60_000)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    store.rows.append(row("the boat was sold", unit(1, 0, 0, 0), version=2))
    store.version = 2
    await announcing(store, hot, Announcement(SCOPE.tenant, 1, 2), Announcement(SCOPE.tenant, 1, 1))
    assert (store.asked, store.loads) == (2, 2)
    found = await recall.recall(question(announced={1: 2}), await recall.embed("q"), 5.0)
    assert "the boat was sold" in {c.content for c in found.candidates}
    assert (store.asked, store.loads) == (2, 2)


async def test_what_is_announced_of_scopes_not_held_is_not_loaded(store: Store) -> None:
    recall, hot = recaller(store, Embedder(), staleness_ms=60_000)
    await announcing(store, hot, Announcement(SCOPE.tenant, 1, 2))
    await recall.recall(question(), await recall.embed("q"), 5.0)
    await announcing(store, hot, Announcement(new_id(), 1, 2), Announcement(SCOPE.tenant, 2, 9))
    assert store.asked == 1


async def test_a_store_that_is_away_at_an_announcement_is_asked_by_the_next_question(store: Store) -> None:
    recall, hot = recaller(store, Embedder(), staleness_ms=60_000)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    store.rows.append(row("the boat was sold", unit(1, 0, 0, 0), version=2))
    store.version, store.away = 2, True
    await announcing(store, hot, Announcement(SCOPE.tenant, 1, 2))
    store.away = False
    found = await recall.recall(question(announced={1: 2}), await recall.embed("q"), 5.0)
    assert "the boat was sold" in {c.content for c in found.candidates}


async def test_rows_that_the_store_refuses_end_nobody_elses_updates(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    recall, hot = recaller(store, Embedder(), staleness_ms=60_000)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    rows = store.index_rows

    async def refused(*given: Any, **more: Any) -> AsyncIterator[list[IndexRow]]:
        monkeypatch.setattr(store, "index_rows", rows)
        raise StoreRefused("a value out of range")
        yield []

    monkeypatch.setattr(store, "index_rows", refused)
    store.rows.append(row("the boat was sold", unit(1, 0, 0, 0), version=2))
    store.version = 2
    await announcing(store, hot, Announcement(SCOPE.tenant, 1, 2), Announcement(SCOPE.tenant, 1, 2))
    held = hot.late(SCOPE)
    assert held is not None and held.versions == {1: 2}


async def test_a_scope_is_confirmed_while_the_conversation_is_looked_for(store: Store) -> None:
    recall, hot = recaller(store, Embedder(), staleness_ms=60_000)
    hot.confirm(SCOPE)
    while not store.loads:
        await asyncio.sleep(0.01)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    assert (store.asked, store.loads) == (1, 1)


async def test_what_was_hidden_is_not_found_again(store: Store) -> None:
    recall, _ = recaller(store, Embedder())
    await recall.recall(question(), await recall.embed("q"), 5.0)
    gone = store.rows[0]
    store.rows = [row("", gone.vectors[0], version=2, memory_id=gone.memory_id, visible=False), store.rows[1]]
    store.version = 2
    found = await recall.recall(question(strict=True), await recall.embed("q"), 5.0)
    assert gone.memory_id not in {c.memory_id for c in found.candidates}


async def test_an_erasure_rebuilds_the_index(store: Store) -> None:
    recall, _ = recaller(store, Embedder())
    await recall.recall(question(), await recall.embed("q"), 5.0)
    gone = store.rows.pop(0)
    store.version = store.rebuild = 2
    found = await recall.recall(question(strict=True), await recall.embed("q"), 5.0)
    assert gone.memory_id not in {c.memory_id for c in found.candidates}
    assert found.candidates


async def test_turns_that_the_prompt_contains_are_not_candidates(store: Store) -> None:
    recall, _ = recaller(store, Embedder())
    shown = store.rows[0]
    assert shown.chain is not None
    found = await recall.recall(question(known_chains=[shown.chain]), await recall.embed("q"), 5.0)
    assert shown.memory_id not in {c.memory_id for c in found.candidates}


async def test_a_turn_of_the_prompt_that_arrives_while_the_question_is_prepared_is_no_candidate(store: Store) -> None:
    recall, _ = recaller(store, Embedder(delay_s=0.05))
    await recall.recall(question(), await recall.embed("q"), 5.0)
    store.version, store.delay_s = 2, 0.02  # confirmed only after the question is prepared
    new = row("my boat was called Petrel", unit(1, 0, 0, 0), version=2)
    store.rows.append(new)
    assert new.chain is not None
    found = await recall.recall(question(strict=True, known_chains=[new.chain]), await recall.embed("q"), 5.0)
    assert found.rung == "full"
    assert new.memory_id not in {c.memory_id for c in found.candidates}
    found = await recall.recall(question(strict=True), await recall.embed("q"), 5.0)
    assert found.candidates[0].memory_id == new.memory_id


async def test_an_earlier_turn_that_asked_the_same_is_no_answer(store: Store) -> None:
    store.rows.append(row("What is my boat called?!", unit(1, 0, 0, 0)))
    recall, _ = recaller(store, Embedder())
    found = await recall.recall(question("what is my boat called", skip_repeats=True), await recall.embed("q"), 5.0)
    assert next(c.content for c in found.candidates) == "my boat is called Halcyon"
    assert "What is my boat called?!" not in {c.content for c in found.candidates}


async def test_what_asks_the_same_is_told_by_its_words_whatever_their_case_and_signs(store: Store) -> None:
    turns = ("Wie heißt die große Straße?", "is x < 5 there", "क्या वह जाती है")
    store.rows = [row(text, unit(1, 0, 0, 0)) for text in turns]
    recall, _ = recaller(store, Embedder())
    for text, shown in (
        ("WIE HEISST DIE GROSSE STRASSE", set(turns[1:])),
        ("wie heißt die große straße", set(turns[1:])),
        ("is x > 5 there?", set(turns)),
        ("क्या वह जाता है", set(turns)),
    ):
        found = await recall.recall(question(text, skip_repeats=True), await recall.embed("q"), 5.0)
        assert {one.content for one in found.candidates} == shown


async def test_a_cold_scope_gives_what_a_hot_one_gives(store: Store) -> None:
    words = ("boat", "called", "cat", "sleeps", "tea", "harbour", "Halcyon", "sold")
    for number in range(80):
        text = " ".join(words[(number * step) % len(words)] for step in (1, 3, 5)) + f" {number}"
        store.rows.append(row(text, unit(1, number % 7, number % 3, 0.1), seq=number))
    hot, _ = recaller(store, Embedder())
    cold, _ = recaller(store, Embedder(), bytes_max=0)
    known = [r.chain for r in store.rows[3:5] if r.chain is not None]
    for text in ("what is my boat called", "tea in the harbour", "which cat was sold?"):
        asked = question(text, known_chains=known)
        one, other = [await r.recall(asked, await r.embed("q"), 5.0) for r in (hot, cold)]
        assert (one.rung, other.rung) == ("full", "no-rerank")
        said = [[(c.memory_id, c.admitted, c.shown) for c in found.candidates] for found in (one, other)]
        assert said[0] == said[1]
        assert [c.score for c in one.candidates] == pytest.approx([c.score for c in other.candidates], abs=1e-5)
        assert one.terms == other.terms
    assert store.nearest_asked == 3


async def test_a_scope_too_large_to_hold_is_not_asked_of_its_past(store: Store) -> None:
    recall, _ = recaller(store, Embedder(), bytes_max=0)
    found = await recall.recall(question(as_of=NOW), await recall.embed("q"), 5.0)
    assert (found.candidates, found.reason) == ((), "deadline")
    assert store.nearest_asked == 0


async def test_a_scope_too_large_to_hold_is_not_loaded_again_for_every_question(store: Store) -> None:
    recall, _ = recaller(store, Embedder(), bytes_max=0)
    for _ in range(3):
        assert (await recall.recall(question(), await recall.embed("q"), 5.0)).rung == "no-rerank"
    assert store.loads == 1
    assert store.nearest_asked == 3


@dataclass
class Broken(Store):
    """Rows of which one cannot be put into an index."""

    def tell(self, content: Any) -> None:
        self.version += 1
        self.rows.append(row("x", unit(1, 0, 0, 0), version=self.version, content=content))


async def test_recall_goes_on_without_memory_where_an_index_cannot_be_made(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken(list(store.rows))
    recall, hot = recaller(broken, Embedder())
    broken.tell(1)
    found = await recall.recall(question(), await recall.embed("q"), 5.0)
    assert (found.rung, found.reason, found.candidates) == ("none", "error", ())
    assert [one.message for one in caplog.records] == ["scope_unreadable", "recall_failed"]  # the store has it, too
    assert hot.held(SCOPE) is None
    broken.rows.pop()
    for _ in range(3):
        assert (await recall.recall(question(), await recall.embed("q"), 5.0)).rung == "no-rerank"
    assert broken.loads == 1
    hot.let_go(SCOPE.tenant, [7])  # something of the tenant was erased
    assert (await recall.recall(question(), await recall.embed("q"), 5.0)).rung == "full"


async def test_recall_goes_on_without_memory_where_a_search_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recall, _ = recaller(store, Embedder())

    def ranked(*_: object) -> None:
        raise AttributeError("a word of somebody's")

    monkeypatch.setattr(module, "_ranked", ranked)
    found = await recall.recall(question(), await recall.embed("q"), 5.0)
    assert (found.rung, found.reason) == ("none", "error")
    assert [one.message for one in caplog.records] == ["recall_failed"]
    assert "somebody" not in caplog.text


async def test_who_leaves_a_search_is_not_kept(store: Store) -> None:
    store.delay_s = 30
    recall, _ = recaller(store, Embedder())
    asking = asyncio.create_task(recall.recall(question(), await recall.embed("q"), 20.0))
    await asyncio.sleep(0.05)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_one_scope_that_cannot_be_read_ends_nobody_elses_updates(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken(list(store.rows))
    recall, hot = recaller(broken, Embedder(), staleness_ms=60_000)
    await recall.recall(question(), await recall.embed("q"), 5.0)
    broken.tell(1)
    await announcing(broken, hot, Announcement(SCOPE.tenant, 1, 2), Announcement(SCOPE.tenant, 1, 2))
    assert [one.message for one in caplog.records] == ["scope_unreadable"]
    broken.rows.pop()
    hot.let_go(SCOPE.tenant, [1])
    broken.tell("the boat was sold")
    await recall.recall(question(), await recall.embed("q"), 5.0)
    broken.tell("the boat was found")
    await announcing(broken, hot, Announcement(SCOPE.tenant, 1, 4))
    asked = broken.asked
    found = await recall.recall(question(announced={1: 4}), await recall.embed("q"), 5.0)
    assert "the boat was found" in {c.content for c in found.candidates}
    assert broken.asked == asked


async def test_what_is_read_anew_while_a_question_is_embedded_is_not_searched_half_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    recall, hot = recaller(store, Embedder(), staleness_ms=600_000)
    await hot.get(SCOPE, None)
    rows, opens, vector = store.index_rows, asyncio.Event(), asyncio.Event()

    async def slow(*asked: Any, **more: Any) -> AsyncIterator[list[IndexRow]]:
        await opens.wait()
        async for batch in rows(*asked, **more):
            yield batch

    async def embedded() -> Vector:
        await vector.wait()
        return unit(1, 0, 0, 0)

    monkeypatch.setattr(store, "index_rows", slow)
    asking = asyncio.create_task(recall.recall(question(), asyncio.create_task(embedded()), 5.0))
    await asyncio.sleep(0.01)
    store.version = store.rebuild = 2
    reading = asyncio.create_task(hot.get(SCOPE, None, strict=True))
    await asyncio.sleep(0.01)
    vector.set()
    await asyncio.sleep(0.01)
    opens.set()
    found = await asking
    await reading
    assert [one.content for one in found.candidates][:1] == ["my boat is called Halcyon"]


async def test_how_a_user_likes_answers_is_told_while_their_scope_is_read_on() -> None:
    about = {"category": "preference", "predicate": "prefers", "object": "short answers"}
    rows = [row(f"The user prefers short answers, {at}.", unit(1, 0, 0, 0), kind="semantic") for at in range(60)]
    store = Store([replace(one, attributes=about) for one in rows])
    one, hot = recaller(store, Embedder(), staleness_ms=60_000)
    await hot.get(SCOPE, None)
    store.rows, store.version = [replace(one, version=2, changed_version=2) for one in store.rows], 2
    reading = asyncio.create_task(hot.get(SCOPE, {1: 2}))
    while not reading.done():
        assert len(await one.styles(question(), 3, 5)) == 1
        await asyncio.sleep(0)
    hot.close()


async def test_a_scope_that_is_read_anew_while_it_is_ranked_is_ranked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.read.hot.HERE_ITEMS_MAX", 0)
    session, loop = new_id(), asyncio.get_running_loop()
    rows = [row(f"turn {at} of the boat", unit(1, 0, 0, 0), session_id=session, seq=at) for at in range(20)]
    store, readings = Store(rows), list[Any]()

    def judge(candidates: Sequence[Features]) -> Sequence[Verdict]:
        held = hot.held(SCOPE)
        if not readings and held is not None:
            old, store.version, store.rebuild = held.index, 2, 2
            readings.append(asyncio.run_coroutine_threadsafe(hot.get(SCOPE, {1: 2}), loop))
            while held.index is old:
                time.sleep(0.001)
        return admit(candidates)

    hot = HotScopes(store, dim=DIM, bytes_max=1 << 20, staleness_ms=60_000, metrics=Metrics(), evaluate=judge)
    one = Recaller(hot, store, Embedder(), Metrics())
    await hot.get(SCOPE, None)
    found = await one.recall(question(replay=(session, 3)), await one.embed("q"), 30)
    assert readings and found.reason is None
    assert [candidate.seq for candidate in found.candidates if candidate.replayed] == [19, 18, 17]
    hot.close()


async def test_what_is_erased_while_a_question_is_ranked_is_in_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.read.hot.HERE_ITEMS_MAX", 0)
    loop, let_go = asyncio.get_running_loop(), threading.Event()
    erased, left = row("my boat is called Halcyon", unit(1, 0, 0, 0)), row("a boat needs paint", unit(1, 0.1, 0, 0))
    store = Store([erased, left])

    def erase() -> None:
        store.rows, store.version, store.rebuild = [left], 2, 2
        hot.let_go(SCOPE.tenant, [1])
        let_go.set()

    def judge(candidates: Sequence[Features]) -> Sequence[Verdict]:
        if not let_go.is_set():
            loop.call_soon_threadsafe(erase)
            let_go.wait(10)
        return admit(candidates)

    hot = HotScopes(store, dim=DIM, bytes_max=1 << 20, staleness_ms=60_000, metrics=Metrics(), evaluate=judge)
    one = Recaller(hot, store, Embedder(), Metrics())
    await hot.get(SCOPE, None)
    found = await one.recall(question(), await one.embed("q"), 30)
    assert let_go.is_set() and found.reason is None
    assert [candidate.memory_id for candidate in found.candidates] == [left.memory_id]
    hot.close()


class Emptied(Store):
    """A store of which all that a scope has may be erased, the scope included."""

    gone = False

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        return () if self.gone else await super().visible_scopes(scope)


@pytest.mark.parametrize("how", ["let go of", "read anew and empty"])
async def test_what_was_taken_out_of_a_scope_while_it_was_ranked_is_not_given(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.read.hot.HERE_ITEMS_MAX", 0)
    loop, ended = asyncio.get_running_loop(), list[Any]()
    store = Emptied([row("my boat is called Halcyon", unit(1, 0, 0, 0))])

    async def erased() -> None:
        store.rows, store.gone = [], True
        if how == "let go of":
            hot.let_go(SCOPE.tenant, [1])
        else:
            await hot.get(SCOPE, None, strict=True)

    def judge(candidates: Sequence[Features]) -> Sequence[Verdict]:
        if not ended:
            ended.append(asyncio.run_coroutine_threadsafe(erased(), loop).result(10))
        return admit(candidates)

    hot = HotScopes(store, dim=DIM, bytes_max=1 << 20, staleness_ms=60_000, metrics=Metrics(), evaluate=judge)
    one = Recaller(hot, store, Embedder(), Metrics())
    await hot.get(SCOPE, None)
    found = await one.recall(question(), await one.embed("q"), 30)
    assert ended and found.reason is None
    assert found.candidates == ()
    hot.close()


async def test_what_was_taken_out_while_the_recall_thread_was_busy_is_no_style(store: Store) -> None:
    about = {"category": "preference", "predicate": "prefers", "object": "short answers"}
    wish = row("The user prefers short answers.", unit(1, 0, 0, 0), kind="semantic")
    store.rows.append(replace(wish, attributes=about))
    one, hot = recaller(store, Embedder(), staleness_ms=60_000)
    await hot.get(SCOPE, None)
    assert len(await one.styles(question(), 3, 5)) == 1
    opens = threading.Event()
    busy = asyncio.create_task(hot.run(opens.wait))
    asking = asyncio.create_task(one.styles(question(), 3, 5))
    await asyncio.sleep(0)
    store.rows.pop()
    store.version = store.rebuild = 2
    reading = asyncio.create_task(hot.get(SCOPE, {1: 2}))
    held = hot.held(SCOPE)
    while held is not None and held.versions:
        await asyncio.sleep(0.001)
    opens.set()
    assert await asking == ()
    await asyncio.gather(busy, reading)
    hot.close()


async def test_a_wish_that_a_later_one_changed_is_told_by_no_half_read_index(store: Store) -> None:
    about = {"category": "preference", "predicate": "prefers"}
    wishes = [
        replace(
            row(f"The user prefers {how} answers.", unit(1, 0, 0, 0), kind="semantic"),
            attributes={**about, "object": f"{how} answers"},
            occurred_at=NOW + timedelta(days=day),
        )
        for day, how in enumerate(("short", "detailed"))
    ]
    one, hot = recaller(store, Embedder(), staleness_ms=60_000)
    store.rows = wishes
    await hot.get(SCOPE, None)
    assert [found.content for found in await one.styles(question(), 3, 5)] == [wishes[1].content]
    opens = asyncio.Event()

    async def slow(*_: Any, **__: Any) -> AsyncIterator[list[IndexRow]]:
        yield wishes[:1]
        await opens.wait()
        yield wishes[1:]

    store.index_rows, store.version, store.rebuild = slow, 2, 2  # type: ignore[method-assign]
    reading = asyncio.create_task(hot.get(SCOPE, {1: 2}))
    held = hot.held(SCOPE)
    while held is not None and (held.versions or not len(held.index)):
        await asyncio.sleep(0.001)
    assert await one.styles(question(), 3, 5) == ()
    opens.set()
    await reading
    assert [found.content for found in await one.styles(question(), 3, 5)] == [wishes[1].content]
    hot.close()


async def test_no_style_is_told_of_an_index_that_can_no_longer_be_confirmed(store: Store) -> None:
    about = {"category": "preference", "predicate": "prefers", "object": "short answers"}
    wish = row("The user prefers short answers.", unit(1, 0, 0, 0), kind="semantic")
    store.rows.append(replace(wish, attributes=about))
    one, hot = recaller(store, Embedder(), staleness_ms=300)
    await hot.get(SCOPE, None, strict=True)
    assert len(await one.styles(question(), 3, 5)) == 1
    store.away = True
    await asyncio.sleep(0.31)
    assert (await one.recall(question(), await one.embed("q"), 5.0)).reason == "store"
    assert await one.styles(question(), 3, 5) == ()
    hot.close()


@dataclass
class Opened(Embedder):
    """Vectors that are there once `opens` is set."""

    opens: asyncio.Event = field(default_factory=asyncio.Event)

    async def embed_query(self, text: str) -> Vector:
        await self.opens.wait()
        return await super().embed_query(text)


async def test_what_is_erased_while_a_question_of_the_past_is_embedded_is_in_no_answer(store: Store) -> None:
    embedder = Opened()
    one, hot = recaller(store, embedder)
    asking = asyncio.create_task(one.recall(question(as_of=NOW), await one.embed("q"), 30))
    await asyncio.sleep(0.1)  # its index is there
    store.rows = store.rows[1:]
    hot.let_go(SCOPE.tenant, [1])
    embedder.opens.set()
    found = await asking
    assert [one.memory_id for one in found.candidates] == [one.memory_id for one in store.rows]
    hot.close()


async def test_what_is_erased_while_rows_of_the_store_wait_to_be_ranked_is_in_no_answer(store: Store) -> None:
    one, hot = recaller(store, Embedder(), bytes_max=1)
    assert len((await one.recall(question(), await one.embed("q"), 30)).candidates) == 2
    opens, before = threading.Event(), store.nearest_asked
    busy = asyncio.create_task(hot.run(opens.wait))
    asking = asyncio.create_task(one.recall(question(), await one.embed("q"), 30))
    while store.nearest_asked == before:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)  # its rows are there
    store.rows = store.rows[1:]
    hot.let_go(SCOPE.tenant, [1])
    opens.set()
    found = await asking
    assert [one.memory_id for one in found.candidates] == [one.memory_id for one in store.rows]
    await busy
    hot.close()


@pytest.mark.parametrize("leaves", [False, True])
async def test_of_one_user_no_second_moment_is_read_on_for_a_question_that_is_over(store: Store, leaves: bool) -> None:
    reading, ended = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any, **__: Any) -> AsyncIterator[list[IndexRow]]:
        try:
            reading.set()
            await asyncio.sleep(30)
            yield store.rows
        finally:
            ended.set()

    store.index_rows = slow  # type: ignore[method-assign]
    one, hot = recaller(store, Embedder())
    first, second = question(as_of=NOW), question(as_of=NOW - timedelta(days=1))
    assert (await one.recall(first, await one.embed("q"), 0.1)).reason == "deadline"
    assert not ended.is_set(), "it goes on for who asks again"
    reading.clear()
    asking = asyncio.create_task(one.recall(second, await one.embed("q"), 20 if leaves else 0.2))
    await reading.wait()
    if leaves:
        asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled() if leaves else asking.result().reason == "deadline"
    async with asyncio.timeout(5):
        await ended.wait()
    assert hot.is_read_on(SCOPE, NOW) and not hot.is_read_on(SCOPE, NOW - timedelta(days=1))
    hot.close()


async def test_who_was_not_answered_in_time_of_the_past_is_told_when_to_ask_again(store: Store) -> None:
    opens, read = asyncio.Event(), store.index_rows

    async def slow(*args: Any, **more: Any) -> AsyncIterator[list[IndexRow]]:
        await opens.wait()
        async for rows in read(*args, **more):
            yield rows

    store.index_rows = slow  # type: ignore[method-assign]
    one, hot = recaller(store, Embedder())
    asked = question(as_of=NOW)
    for _ in range(3):
        found = await one.recall(asked, await one.embed("q"), 0.1)
        refused = one.refused(asked, found, 0.1)
        assert isinstance(refused, TimedOut) and refused.retry_after_s == 1
        assert "longer than 0.1 s" in refused.message and "the reading goes on" in refused.message
    other = question(as_of=NOW - timedelta(days=1))
    refused = one.refused(other, await one.recall(other, await one.embed("q"), 0.1), 0.1)
    assert isinstance(refused, TimedOut) and refused.retry_after_s == 10 and "go on before it" in refused.message
    opens.set()
    for _ in range(3):
        found = await one.recall(asked, await one.embed("q"), 5.0)
        assert len(found.candidates) == 2 and one.refused(asked, found, 5.0) is None
    assert store.loads == 1
    hot.close()


async def test_who_asks_of_the_past_of_a_scope_that_is_too_large_is_told_what_bounds_it(store: Store) -> None:
    one, hot = recaller(store, Embedder(), bytes_max=0)
    asked = question(as_of=NOW)
    for _ in range(2):
        refused = one.refused(asked, await one.recall(asked, await one.embed("q"), 5.0), 5.0)
        assert isinstance(refused, Unprocessable) and "recall.hot_scope_bytes_max" in refused.message
    assert store.loads == 1
    hot.close()


async def test_questions_that_come_while_a_reading_hangs_wait_for_one_other_and_leave_nothing(store: Store) -> None:
    one, hot = recaller(store, Embedder(), staleness_ms=0)
    await hot.get(SCOPE, None)
    before = asyncio.all_tasks()

    async def hangs(*_: Any, **__: Any) -> AsyncIterator[list[IndexRow]]:
        await asyncio.sleep(30)
        yield []

    store.index_rows, store.version = hangs, 2  # type: ignore[method-assign]
    for number in range(20):
        await one.recall(question(f"{number}"), await one.embed("q"), 0.02)
    await asyncio.sleep(0.05)
    assert len(asyncio.all_tasks() - before) == 2, "the reading that hangs and the next"
    hot.close()


async def test_many_who_begin_to_confirm_a_scope_at_once_confirm_it_once(store: Store) -> None:
    _, hot = recaller(store, Embedder(), staleness_ms=0)
    held = await hot.get(SCOPE, None)
    before = store.asked
    for _ in range(20):
        hot.confirm(SCOPE)
    assert await hot.get(SCOPE, None) is held and store.asked == before + 1
    await asyncio.gather(*(hot.get(SCOPE, None, strict=True) for _ in range(20)))
    assert store.asked == before + 2, "each of them behind its own beginning"
    hot.close()
