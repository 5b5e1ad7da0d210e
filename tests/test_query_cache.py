"""Vectors of questions: computed once, taken from nobody by who leaves, gone with their time and with an erasure."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from memory import flights
from memory.errors import EmbedderUnavailable
from memory.model import Vector
from memory.read.query_cache import ENTRY_BYTES, QueryCache
from memory.telemetry import Metrics

DIM = 4
ENTRY = ENTRY_BYTES + 4 * DIM


@dataclass
class Embedder:
    """A vector for every question, when `open` is set; counts what it computes."""

    model: str = "fake"
    dim: int = DIM
    away: bool = False
    open: asyncio.Event = field(default_factory=asyncio.Event)
    computed: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)

    async def embed_query(self, text: str) -> Vector:
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.given_up.append(text)
            raise
        if self.away:
            raise EmbedderUnavailable("away")
        self.computed.append(text)
        return np.full(DIM, len(self.computed), np.float32)

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), DIM), np.float32)


@pytest.fixture
def embedder() -> Embedder:
    made = Embedder()
    made.open.set()
    return made


def counted(metrics: Metrics) -> dict[str, float]:
    metrics.write()
    whats = ("hit", "miss", "shared")
    name = "memory_proxy_query_embeddings_total"
    return {what: metrics.registry.get_sample_value(name, {"what": what}) or 0.0 for what in whats}


async def test_a_question_asked_again_is_not_computed_again(embedder: Embedder) -> None:
    metrics = Metrics()
    cache = QueryCache(embedder, metrics)
    first = await cache.embed_query("where is it")
    assert await cache.embed_query("where is it") is first
    await cache.embed_query("where is it?")
    assert embedder.computed == ["where is it", "where is it?"]
    assert counted(metrics) == {"hit": 1, "miss": 2, "shared": 0}


async def test_the_same_question_of_many_at_once_is_computed_once() -> None:
    embedder, metrics = Embedder(), Metrics()
    cache = QueryCache(embedder, metrics)
    asking = [asyncio.create_task(cache.embed_query("same")) for _ in range(64)]
    await asyncio.sleep(0)
    embedder.open.set()
    found = await asyncio.gather(*asking)
    assert embedder.computed == ["same"]
    assert all(one is found[0] for one in found)
    assert counted(metrics) == {"hit": 0, "miss": 1, "shared": 63}


async def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    embedder = Embedder()
    cache = QueryCache(embedder, Metrics())
    first, second = (asyncio.create_task(cache.embed_query("same")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    embedder.open.set()
    assert (await second).shape == (DIM,)
    assert first.cancelled()
    assert embedder.given_up == []


async def everybody_leaves(cache: QueryCache, asked: int) -> None:
    asking = [asyncio.create_task(cache.embed_query("same")) for _ in range(asked)]
    await asyncio.sleep(0.001)
    for one in asking:
        one.cancel()
    await asyncio.wait(asking)
    await asyncio.sleep(0)


async def test_what_one_alone_asked_for_is_not_computed_once_it_has_left() -> None:
    embedder = Embedder()
    cache = QueryCache(embedder, Metrics())
    await everybody_leaves(cache, 1)
    assert embedder.given_up == ["same"]
    embedder.open.set()
    assert (await cache.embed_query("same")).shape == (DIM,)
    assert embedder.computed == ["same"]


async def test_what_several_asked_for_is_computed_for_who_asks_next() -> None:
    embedder, metrics = Embedder(), Metrics()
    cache = QueryCache(embedder, metrics)
    await everybody_leaves(cache, 3)
    assert embedder.given_up == []
    joining = asyncio.create_task(cache.embed_query("same"))
    await asyncio.sleep(0)
    embedder.open.set()
    assert (await joining).shape == (DIM,)
    assert (await cache.embed_query("same")).shape == (DIM,)
    assert embedder.computed == ["same"]
    assert counted(metrics) == {"hit": 1, "miss": 1, "shared": 3}


async def test_what_several_asked_for_and_left_does_not_go_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "GOES_ON_S", 0.02)
    embedder = Embedder()
    cache = QueryCache(embedder, Metrics())
    await everybody_leaves(cache, 3)
    staying = asyncio.create_task(cache.embed_query("same"))
    await asyncio.sleep(0.04)
    assert embedder.given_up == [], "somebody waits for it again"
    staying.cancel()
    await asyncio.sleep(0.04)
    assert embedder.given_up == ["same"]
    embedder.open.set()
    assert (await cache.embed_query("same")).shape == (DIM,)


async def test_what_is_left_once_more_goes_on_from_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "GOES_ON_S", 0.2)
    embedder = Embedder()
    cache = QueryCache(embedder, Metrics())
    await everybody_leaves(cache, 3)
    await asyncio.sleep(0.15)
    await everybody_leaves(cache, 1)
    await asyncio.sleep(0.1)
    assert embedder.given_up == [], "left a moment ago"
    await asyncio.sleep(0.2)
    assert embedder.given_up == ["same"]


async def test_a_fault_of_what_everybody_has_left_is_nobodys(caplog: pytest.LogCaptureFixture) -> None:
    embedder = Embedder()
    cache = QueryCache(embedder, Metrics())
    await everybody_leaves(cache, 2)
    embedder.away = True
    embedder.open.set()
    await asyncio.sleep(0.001)
    gc.collect()
    assert not caplog.records
    embedder.away = False
    assert (await cache.embed_query("same")).shape == (DIM,)


async def test_a_fault_reaches_all_who_asked_and_is_not_kept(embedder: Embedder) -> None:
    cache = QueryCache(embedder, Metrics())
    embedder.away = True
    results = await asyncio.gather(*(cache.embed_query("same") for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in results] == [EmbedderUnavailable] * 3
    embedder.away = False
    assert (await cache.embed_query("same")).shape == (DIM,)


async def test_a_vector_ends_with_its_time(embedder: Embedder) -> None:
    now = [0.0]
    cache = QueryCache(embedder, Metrics(), ttl_s=300, clock=lambda: now[0])
    await cache.embed_query("one")
    now[0] = 299.0
    await cache.embed_query("one")
    assert embedder.computed == ["one"]
    now[0] = 300.0
    await cache.embed_query("two")
    assert cache.bytes_held == ENTRY  # "one" went without being asked for
    await cache.embed_query("one")
    assert embedder.computed == ["one", "two", "one"]


async def test_it_keeps_within_its_bytes_and_lets_the_least_used_go(embedder: Embedder) -> None:
    cache = QueryCache(embedder, Metrics(), bytes_max=2 * ENTRY)
    for text in ("one", "two", "one", "three", "one", "two"):
        await cache.embed_query(text)
        assert cache.bytes_held <= 2 * ENTRY
    assert embedder.computed == ["one", "two", "three", "two"]


async def test_an_erasure_leaves_nothing_not_even_what_was_under_way() -> None:
    embedder = Embedder()
    cache = QueryCache(embedder, Metrics())
    asking = asyncio.create_task(cache.embed_query("erased"))
    await asyncio.sleep(0.001)
    cache.let_go()
    embedder.open.set()
    assert (await asking).shape == (DIM,)
    assert cache.bytes_held == 0
    await cache.embed_query("erased")
    cache.let_go()
    assert cache.bytes_held == 0
    await cache.embed_query("erased")
    assert embedder.computed == ["erased"] * 3


async def test_no_text_of_a_question_lies_in_it(embedder: Embedder) -> None:
    cache = QueryCache(embedder, Metrics())
    await cache.embed_query("zebra-crossing")
    assert b"zebra" not in repr(vars(cache)["_held"]).encode()
    other = QueryCache(embedder, Metrics())
    await other.embed_query("zebra-crossing")
    assert not vars(cache)["_held"].keys() & vars(other)["_held"].keys()  # a digest cannot be looked up elsewhere
