"""Under load memory gives way before a completion does: step by step, fairly by tenant, and back when it is calm."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.breaker import Breaker, Patience
from memory.errors import EmbedderBusy, EmbedderUnavailable
from memory.ids import new_id
from memory.model import Recall, Vector
from memory.places import Places
from memory.read.guarded import GuardedEmbedder
from memory.telemetry import Metrics
from policies.overload import LADDER, Place, Rung, Steps, fair_share, lower, may_wait, moved, next_of, pressure
from proxy.chat import _status_header
from proxy.load import LoadControl
from proxy.prompt import bare_prompt
from proxy.shedding import MemoryPlaces
from proxy.wire.chat_request import ChatRequest
from tests.test_recall import Embedder, Store, question, recaller, row, unit

ADA, BOB, CY = new_id(), new_id(), new_id()


def walked(place: Place, pressures: list[float], every_s: float = 0.05, now: float = 0.0) -> Place:
    for one in pressures:
        now += every_s
        place = moved(place, one, now, Steps())
    return place


def test_pressure_goes_down_one_rung_at_a_time_and_never_leaves_the_ledger_but_for_grave() -> None:
    assert walked(Place(), [1.0]).rung == "no-rerank"
    assert walked(Place(), [1.0] * 5).rung == "no-rerank"  # a quarter of a second is given to take effect
    assert walked(Place(), [1.0] * 6).rung == "lexical"
    assert walked(Place(), [3.9] * 200).rung == "ledger"
    assert walked(Place(), [4.0] * 200).rung == "none"


def test_a_load_at_the_edge_does_not_swing() -> None:
    low = Place(2, 0.0)
    assert walked(low, [0.5, 0.99] * 200) == Place(2, 0.0)
    assert walked(low, [0.49] * 39 + [0.6] + [0.49] * 39).rung == "lexical"  # the calm is counted anew


def test_calm_goes_up_one_rung_at_a_time() -> None:
    low = Place(3, 0.0)
    assert walked(low, [0.0] * 40).rung == "ledger"
    assert walked(low, [0.0] * 42).rung == "lexical"
    assert walked(low, [0.0] * 200).rung == "full"


@given(st.lists(st.floats(0, 10), max_size=200))
def test_the_place_is_always_on_the_ladder_and_moves_by_one(pressures: list[float]) -> None:
    place, now = Place(), 0.0
    for one in pressures:
        now += 0.1
        after = moved(place, one, now, Steps())
        assert 0 <= after.at < len(LADDER)
        assert abs(after.at - place.at) <= 1
        place = after


def test_either_signal_alone_is_enough_and_both_are_measured_by_the_deadline() -> None:
    assert pressure(0.05, 0.0, 0.25) == pytest.approx(1)
    assert pressure(0.0, 0.1, 0.25) == pytest.approx(1)
    assert pressure(0.05, 0.1, 1.0) < 0.5


def test_who_holds_more_than_a_fair_share_may_not_wait_and_who_holds_least_is_next() -> None:
    assert fair_share(64, 3) == 21
    assert fair_share(2, 5) == 1
    assert may_wait(held=21, waiting=0, share=21)
    assert not may_wait(held=22, waiting=0, share=21)
    assert not may_wait(held=0, waiting=21, share=21)
    assert next_of({"greedy": 5, "modest": 1, "also": 1}) == "modest"
    assert lower("lexical", "ledger") == "ledger"
    assert lower("none", "ledger") == "none"


def places(most: int, wait_s: float = 5.0, rung: Rung = "full", metrics: Metrics | None = None) -> MemoryPlaces:
    return MemoryPlaces(most, wait_s, lambda: rung, metrics or Metrics(), Places(16, wait_s))


async def test_one_tenants_flood_is_shed_and_anothers_request_gets_the_next_place() -> None:
    metrics = Metrics()
    gate = places(4, metrics=metrics)
    async with AsyncExitStack() as stack:
        floods = [AsyncExitStack() for _ in range(4)]
        assert [await one.enter_async_context(gate.place(ADA, "me")) for one in floods] == ["full"] * 4
        waiting = [asyncio.create_task(stack.enter_async_context(gate.place(ADA, "me"))) for _ in range(2)]
        await asyncio.sleep(0)
        modest = asyncio.create_task(stack.enter_async_context(gate.place(BOB, "me")))
        await asyncio.sleep(0)
        async with gate.place(ADA, "me") as rung:  # holds 4 of a share of 2 now
            assert rung == "ledger"
        await floods[0].aclose()
        assert await modest == "full"  # though two of the flood waited before it
        assert not any(one.done() for one in waiting)
        for one in floods[1:]:
            await one.aclose()
        assert await asyncio.gather(*waiting) == ["full"] * 2
    assert metrics.registry.get_sample_value("memory_proxy_recalls_shed_total", {"what": "place"}) == 1


async def test_who_finds_no_place_in_time_goes_on_without_one_and_leaves_nothing_behind() -> None:
    gate = places(1, wait_s=0.01)
    async with gate.place(ADA, "me"), gate.place(BOB, "me") as rung:
        assert rung == "ledger"
    async with gate.place(CY, "me") as rung:
        assert rung == "full"
        assert gate._waiting == {}
        assert gate._held == {CY: 1}


async def test_a_client_that_leaves_the_queue_or_its_place_gives_it_back() -> None:
    gate = places(1)
    first = AsyncExitStack()
    await first.enter_async_context(gate.place(ADA, "me"))

    async def visit() -> Rung:
        async with gate.place(BOB, "me") as rung:
            return rung

    leaving, staying = asyncio.create_task(visit()), asyncio.create_task(visit())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    await first.aclose()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await staying == "ledger"  # a second of the same tenant waits at a share of one: not in the queue
    async with gate.place(CY, "me") as rung:
        assert rung == "full"


async def test_a_turn_that_comes_as_its_client_leaves_is_passed_on() -> None:
    gate = places(1)
    first = AsyncExitStack()
    await first.enter_async_context(gate.place(ADA, "me"))

    async def visit() -> Rung:
        async with gate.place(BOB, "me") as rung:
            return rung

    leaving = asyncio.create_task(visit())
    await asyncio.sleep(0)
    await first.aclose()  # the turn is given ...
    leaving.cancel()  # ... and nobody is there to take it
    await asyncio.wait([leaving])
    assert gate._taken == 0
    async with gate.place(CY, "me") as rung:
        assert rung == "full"


async def test_the_rung_of_the_load_is_what_a_place_begins_at() -> None:
    async with places(1, rung="lexical").place(ADA, "me") as rung:
        assert rung == "lexical"


async def test_a_tenant_that_has_hardly_a_part_in_the_load_keeps_its_rung() -> None:
    gate = places(64, rung="ledger")
    async with AsyncExitStack() as stack:
        for _ in range(8):
            assert await stack.enter_async_context(gate.place(ADA, "flood")) == "ledger"
        async with gate.place(BOB, "quiet") as rung:
            assert rung == "full"
        async with gate.place(ADA, "quiet") as rung:
            assert rung == "ledger"


async def test_searches_of_another_are_part_of_the_load() -> None:
    gate = places(64, rung="ledger")
    async with AsyncExitStack() as stack:
        for _ in range(16):
            assert await stack.enter_async_context(gate.searches.turn(ADA, "flood"))
        async with gate.place(BOB, "quiet") as rung:
            assert rung == "full"
        async with gate.place(ADA, "flood") as rung:
            assert rung == "ledger"


async def test_where_all_hold_alike_the_load_is_everybodys() -> None:
    gate = places(64, rung="lexical")
    async with AsyncExitStack() as stack:
        for number in range(64):
            assert await stack.enter_async_context(gate.place(UUID(int=number), "one of many")) == "lexical"


async def test_a_late_loop_steps_down_and_a_punctual_one_up_again() -> None:
    now, metrics = [0.0], Metrics()
    load = LoadControl(0.25, metrics, clock=lambda: now[0])
    for _ in range(20):
        now[0] += 0.05
        load.look(0.12)
    crowded = load.rung
    assert crowded == "ledger"
    assert metrics.registry.get_sample_value("memory_proxy_overload_rung") == 3
    for _ in range(200):
        now[0] += 0.05
        load.look(0.0)
    assert load.rung == "full"
    assert metrics.registry.get_sample_value("memory_proxy_overload_steps_total", {"to": "up"}) == 3


class Crowded(Embedder):
    """An embedder that refuses where `full`, and else takes 30 ms."""

    full = False

    async def embed_query(self, text: str) -> Vector:
        if self.full:
            raise EmbedderBusy("overload")
        await asyncio.sleep(0.03)
        return await super().embed_query(text)


@pytest.mark.parametrize("how", ["refused", "given up"])
async def test_questions_that_have_no_vector_do_not_make_an_embedder_look_quick(how: str) -> None:
    now, embedder, metrics = [0.0], Crowded(), Metrics()
    load = LoadControl(0.05, metrics, clock=lambda: now[0])
    breaker = Breaker("embedder", Patience(EmbedderUnavailable, 1.0, busy=(EmbedderBusy,)), metrics)
    guarded = GuardedEmbedder(embedder, breaker, load.embedding_took, load.embedding_left)
    for _ in range(12):
        embedder.full = False
        await guarded.embed_query("q")
        embedder.full = how == "refused"
        for _ in range(5):
            with contextlib.suppress(EmbedderBusy, TimeoutError):
                await asyncio.wait_for(guarded.embed_query("q"), 0.001)
        now[0] += 0.1
        load.look(0.0)
    assert load.rung != "full"


async def test_a_slow_embedder_steps_down_and_is_forgotten_when_nobody_asks_it() -> None:
    now = [0.0]
    load = LoadControl(0.25, Metrics(), clock=lambda: now[0])
    for _ in range(20):
        now[0] += 0.05
        load.embedding_took(0.15)
        load.look(0.0)
    slow = load.rung
    assert slow in ("lexical", "ledger")
    for _ in range(200):
        now[0] += 0.05
        load.look(0.0)
    assert load.rung == "full"


async def ask(rung: Rung, embedding: bool) -> Recall:
    store = Store(rows=[row("my boat is called Tern", unit(1, 0, 0, 0))])
    one, _ = recaller(store, Embedder())
    task = await one.embed("what is my boat called") if embedding else None
    return await one.recall(question(rung=rung), task, 5.0)


async def test_a_request_under_load_is_answered_by_words_alone_and_says_why() -> None:
    found = await ask("lexical", embedding=False)
    assert (found.rung, found.reason) == ("lexical", "overload")
    assert [one.content for one in found.candidates] == ["my boat is called Tern"]


async def test_a_rung_that_costs_nothing_here_is_not_called_degraded() -> None:
    found = await ask("no-rerank", embedding=True)  # no reranker is configured
    assert (found.rung, found.reason) == ("full", None)


@pytest.mark.parametrize("rung", ["lexical", "ledger", "none"])
def test_the_head_names_the_rung_that_load_left(rung: Rung) -> None:
    chat = ChatRequest.parse(b'{"messages": [{"role": "user", "content": "hi"}]}')
    said = _status_header(bare_prompt(chat, (), "degraded", "overload", rung, None))
    assert said == f"degraded; reason=overload; rung={rung}"
