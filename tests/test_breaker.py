"""A dependency that does not answer is left alone, asked now and then, and asked by all again when it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import pytest

from memory.breaker import Breaker, Patience
from memory.checkpoints import Said, ToLoad
from memory.config import Settings, load_settings
from memory.errors import (
    EmbedderBusy,
    EmbedderUnavailable,
    QueueUnavailable,
    StoreUnavailable,
    TokenizerRefused,
    TokenizerUnavailable,
)
from memory.model import IndexRow, Quoted, Scope, SessionRef
from memory.read.conversation import Asked, Hot
from memory.read.guarded import GuardedHints, GuardedHot, GuardedReads
from memory.read.hot import HotScopes
from memory.read.recall import Recaller
from memory.read.working import Known
from memory.telemetry import Metrics
from policies.breaker import Circuit, Rule, asked, failed, succeeded
from proxy.breakers import both, breakers_of, stores
from proxy.readiness import Readiness
from tests.product_ledger import LedgerHot
from tests.test_recall import DIM, Embedder, question, row, unit
from tests.test_recall import Store as FakeStore

RULE = Rule(faults_max=3, within_s=10.0, rest_s=1.0)


class Store:
    """Answers, or does not; counts who asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.away = False
        self.hangs = False
        self.fault: Exception = StoreUnavailable("away")

    async def ask(self) -> str:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.away:
            raise self.fault
        return "answer"

    async def several(self) -> AsyncIterator[str]:
        yield await self.ask()
        yield "more"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def breaker(clock: Clock, metrics: Metrics | None = None, slow_s: float = 0.02) -> Breaker:
    patience = Patience(StoreUnavailable, slow_s)
    return Breaker("store", patience, metrics or Metrics(), rule=RULE, clock=clock)


async def refused(one: Breaker, store: Store) -> bool:
    """Whether the store was not even asked."""
    before = store.asked
    with pytest.raises(StoreUnavailable):
        await one.call(store.ask)
    return store.asked == before


def test_faults_that_are_not_in_a_row_or_long_ago_open_nothing() -> None:
    circuit = Circuit()
    for now in (0.0, 1.0):
        circuit = failed(circuit, now, RULE)
    circuit = failed(failed(succeeded(circuit), 2.0, RULE), 3.0, RULE)
    assert circuit.state == "closed"
    circuit = failed(circuit, 12.5, RULE)  # the one of 2.0 is over ten seconds ago
    assert circuit.state == "closed"
    assert failed(circuit, 12.6, RULE).state == "open"


def test_one_probe_goes_when_the_rest_is_over_and_a_lost_one_is_followed_by_another() -> None:
    circuit = Circuit(opened_at=0.0)
    circuit, may = asked(circuit, 0.9, RULE)
    assert not may
    circuit, may = asked(circuit, 1.0, RULE)
    assert may
    assert circuit.state == "half_open"
    circuit, may = asked(circuit, 1.5, RULE)
    assert not may
    assert failed(circuit, 1.6, RULE).state == "open"
    _, may = asked(circuit, 2.0, RULE)
    assert may
    assert succeeded(circuit).state == "closed"


async def test_a_dead_store_is_left_alone_and_asked_again_by_one() -> None:
    store, clock, metrics = Store(), Clock(), Metrics()
    one = breaker(clock, metrics)
    store.away = True
    for _ in range(3):
        assert not await refused(one, store)
    assert await refused(one, store)
    with pytest.raises(StoreUnavailable, match="left alone"):
        await one.check()
    value = metrics.registry.get_sample_value
    assert value("memory_proxy_breaker_open", {"part": "store"}) == 1
    assert value("memory_proxy_breaker_trips_total", {"part": "store"}) == 1
    assert value("memory_proxy_breaker_refused_total", {"part": "store"}) == 1
    clock.now = 1.0
    assert not await refused(one, store)
    assert await refused(one, store)
    store.away, clock.now = False, 2.5
    assert await one.call(store.ask) == "answer"
    await one.check()
    assert await one.call(store.ask) == "answer"
    assert value("memory_proxy_breaker_open", {"part": "store"}) == 0


async def test_a_store_for_which_nobody_asks_any_more_is_not_said_to_be_left_alone() -> None:
    store, clock, metrics = Store(), Clock(), Metrics()
    one = Breaker("store", Patience(StoreUnavailable, 0.1), metrics, rule=Rule(3, within_s=0.2), clock=clock)
    store.away = True

    def is_open() -> float | None:
        return metrics.registry.get_sample_value("memory_proxy_breaker_open", {"part": "store"})

    for _ in range(3):
        assert not await refused(one, store)
    clock.now = 0.1
    await asyncio.sleep(0.3)
    assert is_open() == 1  # for a while longer: it was asked a moment ago
    store.away, clock.now = False, 60.0
    await asyncio.sleep(0.3)
    await one.check()
    assert is_open() == 0
    store.away = True
    assert not await refused(one, store)  # the next one is a probe, as ever
    assert await refused(one, store)
    assert is_open() == 1


async def test_an_outage_is_one_trip_however_many_probes_it_outlives_and_ends_with_parts_that_come() -> None:
    store, clock, metrics = Store(), Clock(), Metrics()
    clock.now = 1_000.0
    one = breaker(clock, metrics)
    store.away = True
    for _ in range(3):
        await refused(one, store)
    for _ in range(5):
        clock.now += 5.0
        with pytest.raises(StoreUnavailable, match="left alone"):
            await one.check()  # asked five seconds ago, and away
        assert not await refused(one, store)
        assert await refused(one, store)
    assert metrics.registry.get_sample_value("memory_proxy_breaker_trips_total", {"part": "store"}) == 1
    store.away, clock.now = False, clock.now + 1.0
    assert [part async for part in one.each(store.several)] == ["answer", "more"]
    await one.check()
    assert one.state == "closed"


async def test_a_store_that_hangs_counts_as_one_that_fails() -> None:
    store, clock = Store(), Clock()
    one = breaker(clock)
    store.hangs = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="no answer within"):
            await one.bounded(store.ask, 0.02)
    assert await refused(one, store)


async def test_only_a_call_that_was_waited_for_counts_when_it_is_given_up() -> None:
    store, clock = Store(), Clock()
    one = breaker(clock, slow_s=5.0)
    store.hangs = True
    for waited, state in (
        (1.0, "closed"),
        (1.0, "closed"),
        (1.0, "closed"),
        (5.0, "closed"),
        (5.0, "closed"),
        (5, "open"),
    ):
        call = asyncio.create_task(one.call(store.ask))
        await asyncio.sleep(0)
        clock.now += waited
        call.cancel()
        await asyncio.wait([call])
        clock.now -= waited
        assert one.state == state


async def test_what_comes_in_parts_is_refused_and_counted_alike() -> None:
    store, clock = Store(), Clock()
    one = breaker(clock)
    assert [part async for part in one.each(store.several)] == ["answer", "more"]
    store.away = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="away"):
            [part async for part in one.each(store.several)]
    with pytest.raises(StoreUnavailable, match="left alone"):
        [part async for part in one.each(store.several)]


async def test_an_embedder_that_is_only_busy_is_not_left_alone() -> None:
    store = Store()
    store.away, store.fault = True, EmbedderBusy("overload")
    patience = Patience(EmbedderUnavailable, 1.0, busy=(EmbedderBusy,))
    one = Breaker("embedder", patience, Metrics(), rule=RULE)
    for _ in range(10):
        with pytest.raises(EmbedderBusy):
            await one.call(store.ask)
    assert store.asked == 10
    for fault in (EmbedderUnavailable("away"), EmbedderBusy("it answers"), EmbedderUnavailable("away")):
        store.fault = fault
        for _ in range(2):  # one more in a row opens it
            with pytest.raises(EmbedderUnavailable):
                await one.call(store.ask)
    assert one.state == "closed"


class Whole(FakeStore):
    """A store that has memories to search, and nothing else."""

    async def session_of_chains(self, scope: Scope, digests: Sequence[bytes]) -> Mapping[bytes, SessionRef]:
        return {}

    async def has_copies(self, scope: Scope) -> bool:
        return False

    async def ledger(self, scope: Scope, session_id: UUID, chains: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return {}

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        return [Quoted(one, "", None) for one in self.rows if one.memory_id in memory_ids]

    async def summary(self, tenant: UUID, scope_ids: Sequence[int], session_id: UUID) -> IndexRow | None:
        return None

    async def checkpoint(self, scope: Scope, name: str, as_of: datetime | None) -> ToLoad | None:
        return None

    async def checkpoint_version(self, scope: Scope, checkpoint_id: UUID, version: int) -> ToLoad | None:
        return None

    async def given(self, scope: Scope, session_id: UUID, chars_max: int, limit: int) -> list[UUID]:
        return []

    async def persona(self, scope: Scope, name: str) -> UUID | None:
        return None

    async def words(self, tenant: UUID, scope_ids: Sequence[int], versions: Mapping[UUID, int]) -> Mapping[UUID, Said]:
        return {}

    async def quoted(self, scope: Scope, memory_ids: Sequence[UUID]) -> Mapping[UUID, frozenset[bytes]]:
        return {}


@pytest.mark.parametrize(
    ("part", "away", "busy"),
    [
        ("store", StoreUnavailable("x"), None),
        ("hot_state", QueueUnavailable("x"), None),
        ("embedder", EmbedderUnavailable("x"), EmbedderBusy("x")),
        ("tokenizer", TokenizerUnavailable("x"), TokenizerRefused("x")),
    ],
)
async def test_each_dependency_is_left_alone_for_faults_of_its_own(
    part: str, away: Exception, busy: Exception | None
) -> None:
    metrics, store = Metrics(), Store()
    breakers = breakers_of(Settings(), metrics)
    one: Breaker = getattr(breakers, part)
    store.away = True
    for fault, state in ((busy, "closed"), (away, "open")):
        for _ in range(8 if fault else 0):
            store.fault = fault or away
            with pytest.raises(type(away)):
                await one.call(store.ask)
        assert one.state == state
    assert store.asked == (13 if busy else 5)
    for other in ("store", "hot_state", "embedder", "tokenizer"):
        is_open = metrics.registry.get_sample_value("memory_proxy_breaker_open", {"part": other})
        assert is_open == (other == part)


@pytest.mark.parametrize(("deadline_ms", "state"), [(50, "open"), (60_000, "closed")])
async def test_what_is_slow_is_a_part_of_recalls_deadline(deadline_ms: int, state: str) -> None:
    store = Store()
    store.hangs = True
    one = breakers_of(load_settings(None, {"recall.deadline_ms": deadline_ms}, {}), Metrics()).store
    for _ in range(5):
        call = asyncio.create_task(one.call(store.ask))
        await asyncio.sleep(0.03)
        call.cancel()
        await asyncio.wait([call])
    assert one.state == state


async def test_recall_does_not_ask_a_dead_store_for_every_question_and_finds_it_when_it_is_back() -> None:
    rows = Whole(rows=[row("my boat is called Tern", unit(1, 0, 0, 0))])
    clock = Clock()
    reads = GuardedReads(rows, breaker(clock))
    hot = HotScopes(reads, dim=DIM, bytes_max=1 << 20, staleness_ms=0, metrics=Metrics())
    recall = Recaller(hot, reads, Embedder(), Metrics())
    rows.away = True
    for _ in range(10):
        assert (await recall.recall(question(), await recall.embed("q"), 5.0)).reason == "store"
    assert rows.asked == RULE.faults_max
    rows.away, clock.now = False, 1.0
    found = await recall.recall(question(), await recall.embed("q"), 5.0)
    assert [one.content for one in found.candidates] == ["my boat is called Tern"]


async def test_a_conversation_is_looked_for_in_the_store_at_once_while_the_hot_state_is_left_alone() -> None:
    class Dead(LedgerHot):
        asked = 0

        async def find(self, scope: Scope, scope_key: bytes, asked: Asked) -> Hot:
            self.asked += 1
            return await super().find(scope, scope_key, asked)

    dead = Dead(broken=True)
    guarded = GuardedHot(dead, Breaker("hot_state", Patience(QueueUnavailable, 1.0), Metrics(), rule=RULE))
    for _ in range(10):
        with pytest.raises(QueueUnavailable):
            await guarded.find(question().scope, b"", Asked())
    assert dead.asked == RULE.faults_max


async def test_a_worker_does_not_wait_for_the_hints_of_each_exchange_while_redis_does_not_take_them() -> None:
    class Slow:
        asked = 0

        async def announce(self, tenant: UUID, scope_id: int, version: int) -> None:
            self.asked += 1
            raise QueueUnavailable("no answer in time")

        async def keep_working(self, *_: object) -> None:
            self.asked += 1
            raise QueueUnavailable("no answer in time")

        working = drop_working = keep_working

    slow = Slow()
    hints = GuardedHints(slow, Breaker("hot_state", Patience(QueueUnavailable, 1.0), Metrics(), rule=RULE))
    scope = question().scope
    for version in range(10):
        with pytest.raises(QueueUnavailable):
            await hints.announce(scope.tenant, 1, version)
        with pytest.raises(QueueUnavailable):
            await hints.keep_working(scope, b"", UUID(int=1), Known(version, 0), b"", 60)
    assert slow.asked == RULE.faults_max


async def test_readiness_tells_that_a_dependency_is_left_alone_though_it_answers_a_ping() -> None:
    one, store = breaker(Clock()), Store()
    store.away = True
    readiness = Readiness({"postgres": both(_answers, one)}, Metrics())
    readiness.started = True
    await readiness.probe()
    assert readiness.answer()[1]["status"] == "ok"
    for _ in range(3):
        await refused(one, store)
    await readiness.probe()
    status, body = readiness.answer()
    assert (status, body["status"]) == (200, "degraded")
    assert "left alone" in body["dependencies"]["postgres"]["error"]


async def test_readiness_tells_what_keeps_memory_workers_from_storing_though_the_store_answers_a_ping() -> None:
    class Said:
        said: str | QueueUnavailable | None = None

        async def trouble(self) -> str | None:
            if isinstance(self.said, QueueUnavailable):
                raise self.said
            return self.said

    queue = Said()
    readiness = Readiness({"postgres": stores(_answers, queue)}, Metrics())
    readiness.started = True
    for said, status in (
        (None, "ok"),
        ("its disk is full", "degraded"),
        (QueueUnavailable("away"), "ok"),
        (None, "ok"),
    ):
        queue.said = said
        await readiness.probe()
        assert readiness.answer()[1]["status"] == status, said
        assert ("disk is full" in str(readiness.answer())) == (status == "degraded")


async def test_a_queue_that_hangs_does_not_make_the_store_seem_away() -> None:
    class Hangs:
        async def trouble(self) -> str | None:
            await asyncio.Event().wait()
            return None

    readiness = Readiness({"postgres": stores(_answers, Hangs())}, Metrics())
    readiness.started = True
    await readiness.probe()
    assert readiness.answer()[1]["status"] == "ok"


async def test_readiness_tells_of_a_dependency_that_answers_no_ping_though_nobody_has_asked_it_yet() -> None:
    store = Store()
    store.away = True

    async def ping() -> None:
        await store.ask()

    with pytest.raises(StoreUnavailable, match="away"):
        await both(ping, breaker(Clock()))()


async def test_readiness_goes_on_where_one_probe_fails_in_a_way_nobody_foresaw(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others are told as they are, and the one as failed; neither stays as it was seen last."""
    well = True

    async def fails() -> None:
        if not well:
            raise RuntimeError("the transport is closed")

    async def is_away() -> None:
        if not well:
            raise StoreUnavailable("away")

    metrics = Metrics()
    readiness = Readiness({"postgres": is_away, "queue": fails, "upstream": _answers}, metrics)
    readiness.started = True
    await readiness.probe()
    well = False
    for _ in range(2):
        await readiness.probe()
    dependencies = readiness.answer()[1]["dependencies"]
    assert {name: seen["error"] for name, seen in dependencies.items()} == {
        "postgres": "away",
        "queue": "unforeseen: RuntimeError",
        "upstream": None,
    }
    assert [record.exc_info is not None for record in caplog.records] == [True], "said once, with its place"

    def away(dependency: str) -> float | None:
        return metrics.registry.get_sample_value("memory_proxy_dependency_away", {"dependency": dependency})

    assert [away(name) for name in dependencies] == [1, 1, 0], "a scrape tells, though nobody asks"
    well = True
    await readiness.probe()
    assert [away(name) for name in dependencies] == [0, 0, 0]


async def _answers() -> None:
    """A ping that is answered."""
