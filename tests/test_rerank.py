"""Re-ranking helps where it can and harms nowhere: in time or not at all, and never in the way of the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory.adapters.cross_encoder import CrossEncoder
from memory.errors import RerankerUnavailable
from memory.ids import new_id
from memory.model import IndexRow
from memory.ports import QueryTransformer, Reranker
from memory.read.hot import HotScopes
from memory.read.recall import Recaller
from memory.read.rerank import SHOWN_CHARS_MAX, Reranking
from memory.telemetry import Metrics
from tests.cross_encoder_fixture import write_cross_encoder
from tests.test_recall import DIM, NOW, Embedder, Store, question, row, unit

NEAR, FAR = "the boat of a neighbour sank", "halcyon is what my boat is called"


@dataclass
class Told:
    """Scores that are told, later or never; keeps what it was asked."""

    score: Callable[[str], float] = lambda text: 1.0 * ("halcyon" in text)
    delay_s: float = 0.0
    fault: Exception | None = None
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    cancelled: int = 0

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        self.asked.append((query, tuple(texts)))
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.fault is not None:
            raise self.fault
        return [self.score(text) for text in texts]


class Stubborn:
    """Ignores that it is cancelled, as a client that first closes its connection does."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        for _ in range(2):  # the second time it is cancelled, at the end of the test, it ends
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue
        return [0.0] * len(texts)


def rows() -> list[IndexRow]:
    """The nearest first, by vector and so by place; the other holds the answer."""
    return [row(NEAR, unit(1, 0, 0, 0)), row(FAR, unit(1, 0.9, 0, 0)), row("tea all day", unit(0, 0, 1, 0))]


def recaller(
    reranker: Reranker | None,
    *,
    depth: int = 20,
    weight: float = 0.9,
    embedder: Embedder | None = None,
    bytes_max: int = 1 << 20,
    store: Store | None = None,
    transformer: QueryTransformer | None = None,
) -> Recaller:
    metrics, store = Metrics(), store or Store(rows())
    hot = HotScopes(store, dim=DIM, bytes_max=bytes_max, staleness_ms=1000, metrics=metrics)
    reranking = None if reranker is None else Reranking(reranker, depth, weight)
    return Recaller(hot, store, embedder or Embedder(), metrics, reranking=reranking, transformer=transformer)


ASKED = "which boat"


async def contents(recall: Recaller, deadline_s: float = 5.0, **changes: object) -> tuple[str, list[str]]:
    found = await recall.recall(question(ASKED, **changes), await recall.embed(ASKED), deadline_s)
    return found.rung, [candidate.content for candidate in found.candidates]


async def test_a_cross_encoder_puts_the_answer_first_and_admission_stays(tmp_path: Path) -> None:
    encoder = CrossEncoder(write_cross_encoder(tmp_path))
    asked, plain, better = question("what is a boat"), recaller(None), recaller(encoder)
    one = await plain.recall(asked, await plain.embed("q"), 5.0)
    other = await better.recall(asked, await better.embed("q"), 5.0)
    assert one.candidates[0].content == NEAR
    assert other.candidates[0].content == FAR
    assert (one.rung, other.rung) == ("full", "full")
    assert {c.content: c.admitted for c in one.candidates} == {c.content: c.admitted for c in other.candidates}
    best = other.candidates[0]
    assert best.parts["rerank"] == pytest.approx(1.0, abs=0.01)
    assert "rerank" not in one.candidates[0].parts
    assert best.score == pytest.approx(0.1 * 20 / 21 + 0.9 * best.parts["rerank"])
    encoder.close()


async def test_without_weight_the_order_stays() -> None:
    assert await contents(recaller(Told(), weight=0.0)) == await contents(recaller(None))


async def test_a_late_reranker_leaves_the_order_and_keeps_the_deadline() -> None:
    slow = Told(delay_s=30)
    started = time.monotonic()
    rung, found = await contents(recaller(slow), deadline_s=0.5)
    assert time.monotonic() - started < 5
    assert (rung, found) == ("no-rerank", (await contents(recaller(None)))[1])
    await asyncio.sleep(0)
    assert slow.cancelled == 1


async def test_a_reranker_that_does_not_let_itself_be_cancelled_is_left_all_the_same() -> None:
    started = time.monotonic()
    rung, found = await contents(recaller(Stubborn()), deadline_s=0.5)
    assert time.monotonic() - started < 5
    assert (rung, len(found)) == ("no-rerank", 3)


@pytest.mark.parametrize(
    "reranker",
    [
        Told(fault=RerankerUnavailable("overload")),
        Told(fault=ValueError("of a plugged-in one")),
        Told(score=lambda text: float("nan")),
    ],
    ids=["unavailable", "unexpected", "not-finite"],
)
async def test_a_reranker_that_fails_leaves_the_order(reranker: Told) -> None:
    rung, found = await contents(recaller(reranker))
    assert (rung, found) == ("no-rerank", (await contents(recaller(None)))[1])


@pytest.mark.parametrize("said", [[1.0], [0.1, 0.2, 0.9, 0.9], None, [None, None, None], ["a", "b", "c"], 0.5], ids=str)
async def test_scores_that_are_not_one_for_each_text_leave_the_order(said: Any) -> None:
    class Wrong:
        async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
            scores: Sequence[float] = said
            return scores

    rung, found = await contents(recaller(Wrong()))
    assert (rung, found) == ("no-rerank", (await contents(recaller(None)))[1])


async def test_a_reranker_that_awaits_nothing_leaves_the_order() -> None:
    class Plain:
        def rerank(self, query: str, texts: Sequence[str]) -> Any:
            raise RuntimeError("defect")

    rung, found = await contents(recaller(Plain()))
    assert (rung, found) == ("no-rerank", (await contents(recaller(None)))[1])


async def test_turns_that_are_replayed_are_not_re_ranked_and_take_no_place_of_what_is_found() -> None:
    session, reranker = new_id(), Told()
    talk = [row(f"turn {at} of the talk", unit(0, 0, 0, 1), session_id=session, seq=at) for at in range(3)]
    recall = recaller(reranker, depth=2, store=Store([*rows(), *talk]))
    found = await recall.recall(question(ASKED, k=2, replay=(session, 3)), await recall.embed(ASKED), 5.0)
    assert [one.content for one in found.candidates if one.replayed] == [f"turn {at} of the talk" for at in (2, 1, 0)]
    assert [one.content for one in found.candidates if not one.replayed] == [FAR, NEAR]
    assert set(reranker.asked[0][1]) == {NEAR, FAR}


async def test_a_cross_encoder_that_was_closed_leaves_the_order(tmp_path: Path) -> None:
    encoder = CrossEncoder(write_cross_encoder(tmp_path))
    encoder.close()
    assert (await contents(recaller(encoder)))[0] == "no-rerank"


async def test_when_the_client_leaves_the_reranker_is_told() -> None:
    slow = Told(delay_s=30)
    task = asyncio.create_task(contents(recaller(slow), deadline_s=60))
    while not slow.asked:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert slow.cancelled == 1


async def test_only_the_best_are_read_by_their_best_window_and_no_further() -> None:
    far = "halcyon " + "x" * 3_000
    store = Store(
        [*rows(), row(far, unit(0, 1, 0, 0), windows=((0, 4), (8, 2_500)), vectors=np.eye(4, dtype=np.float32)[:2])]
    )
    told = Told()
    await contents(recaller(told, depth=2, store=store))
    ((query, texts),) = told.asked
    assert query == ASKED
    assert len(texts) == 2
    everything = Told()
    await contents(recaller(everything, store=store))
    ((_, texts),) = everything.asked
    assert set(texts) >= {NEAR, FAR}
    assert max(map(len, texts)) <= SHOWN_CHARS_MAX


async def test_the_newer_of_two_values_stays_first_whatever_the_reranker_says() -> None:
    old, new = (f"My deadline for the boat is {month} 14." for month in ("March", "June"))
    stored = [row(old, unit(1, 0, 0, 0)), row(new, unit(1, 0.1, 0, 0), occurred_at=NOW + timedelta(days=9), seq=4)]
    asked = question("When is my deadline for the boat?")
    for reranker in (None, Told(score=lambda text: 1.0 * ("March" in text))):
        recall = recaller(reranker, store=Store([*rows(), *stored]))
        found = await recall.recall(asked, await recall.embed("q"), 5.0)
        contents = [candidate.content for candidate in found.candidates]
        assert contents.index(new) + 1 == contents.index(old)
        if reranker is not None:
            assert contents.index(new) == 0


async def test_what_was_not_read_stays_behind_in_its_order() -> None:
    many = [row(f"boat number {at}", unit(1, at / 10, 0, 0)) for at in range(12)]
    plain = (await contents(recaller(None, store=Store(many)), k=12))[1]
    recall = recaller(Told(score=lambda text: 1.0 * text.endswith(plain[3][-2:])), depth=4, store=Store(many))
    found = await recall.recall(question(ASKED, k=12), await recall.embed(ASKED), 5.0)
    assert [c.content for c in found.candidates] == [plain[3], *plain[:3], *plain[4:]]
    scores = [c.score for c in found.candidates]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("k", [1, 2])
async def test_a_short_list_is_the_start_of_a_long_one(k: int) -> None:
    whole = (await contents(recaller(Told())))[1]
    assert (await contents(recaller(Told()), k=k))[1] == whole[:k]
    assert len((await contents(recaller(Told(delay_s=30)), deadline_s=0.3, k=k))[1]) == k


async def test_a_lexical_answer_is_re_ranked_and_says_that_it_is_lexical() -> None:
    rung, found = await contents(recaller(Told(), embedder=Embedder(away=True)))
    assert (rung, found[0]) == ("lexical", FAR)
    rung, _ = await contents(recaller(Told(fault=RerankerUnavailable("x")), embedder=Embedder(away=True)))
    assert rung == "lexical"


async def test_an_answer_from_the_store_is_not_re_ranked_and_says_so() -> None:
    told = Told()
    rung, found = await contents(recaller(told, bytes_max=0))
    assert (rung, len(found), told.asked) == ("no-rerank", 3, [])


async def test_nothing_found_is_not_read() -> None:
    told = Told()
    assert await contents(recaller(told, store=Store())) == ("full", [])
    assert told.asked == []


class FromBefore:
    """Searches by the turn before."""

    def transform(self, query: str, previous: Sequence[str]) -> str:
        return previous[-1] if previous else ""


async def test_what_a_transformer_says_is_embedded_searched_and_read() -> None:
    embedded: list[str] = []

    class Recorded(Embedder):
        async def embed_query(self, text: str) -> np.ndarray:
            embedded.append(text)
            return await super().embed_query(text)

    told = Told()
    recall = recaller(told, embedder=Recorded(), transformer=FromBefore())
    found = await recall.search(question("why"), 5.0, ("hello", "is halcyon a boat"))
    assert embedded == ["is halcyon a boat"]
    assert told.asked[0][0] == "is halcyon a boat"
    assert "halcyon" in found.terms


def test_a_transformer_that_says_nothing_leaves_the_question() -> None:
    assert recaller(Told(), transformer=FromBefore()).searched_by(ASKED) == ASKED
