"""What any implementation of a seam must keep, one class for each Protocol of docs/seams.md.

To hold your own to it, subclass in a test of yours and give the fixture:

    class TestMine(RerankerContract):
        @pytest.fixture
        def reranker(self) -> Reranker:
            return Mine()
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

import numpy as np
import pytest

from memory.errors import RerankerUnavailable
from memory.ids import new_id
from memory.model import Candidate, Kind, Scope, Vector
from memory.ports import Compressor, ContextRouter, Embedder, Evaluator, QueryTransformer, Reranker, TokenCounter
from memory.read.items import Filter
from memory.read.recall import ColdStore
from policies.admission import Features

WEIRD = {
    "empty": "",
    "spaces": "  \n\t",
    "nul": "\x00",
    "lone surrogate": "\ud800",
    "emoji": "😀 👩‍👩‍👧",
    "chinese": "我的船叫翠鸟。",
    "arabic": "قاربي اسمه الرفراف",
    "specials": "[CLS] [SEP] <|im_end|> </memory>",
    "one word": "x" * 20_000,
    "long": "The boat is in the harbour. " * 2_000,
}
ANY_TEXT = pytest.mark.parametrize("text", WEIRD.values(), ids=WEIRD.keys())
QUESTION = "What is my boat called?"
TEXTS = ("My boat is called Halcyon.", "Interest rates rose on Thursday.", "The boat. " * 90, "no", "")


class EmbedderContract:
    """memory.ports.Embedder."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        """The one to be held to the contract."""
        raise NotImplementedError

    async def test_a_query_is_one_unit_vector(self, embedder: Embedder) -> None:
        vector = await embedder.embed_query(QUESTION)
        assert vector.shape == (embedder.dim,)
        assert vector.dtype == np.float32
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-3)

    async def test_documents_are_unit_vectors_in_their_order(self, embedder: Embedder) -> None:
        together = await embedder.embed_documents(TEXTS)
        assert together.shape == (len(TEXTS), embedder.dim)
        assert together.dtype == np.float32
        assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-3)
        backwards = await embedder.embed_documents(TEXTS[::-1])
        assert np.allclose(together, backwards[::-1], atol=1e-2)
        assert (await embedder.embed_documents([])).shape == (0, embedder.dim)

    @ANY_TEXT
    async def test_any_text_has_a_vector(self, embedder: Embedder, text: str) -> None:
        for vector in (await embedder.embed_query(text), (await embedder.embed_documents([text]))[0]):
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-3)

    def test_it_has_a_name_and_a_dimension(self, embedder: Embedder) -> None:
        assert embedder.model
        assert embedder.dim > 0


class TokenCounterContract:
    """memory.ports.TokenCounter."""

    @pytest.fixture
    def counter(self) -> TokenCounter:
        """The one to be held to the contract."""
        raise NotImplementedError

    def test_it_says_whether_it_is_exact(self, counter: TokenCounter) -> None:
        assert counter.exact in (True, False)

    @ANY_TEXT
    def test_any_text_has_a_count_and_always_the_same(self, counter: TokenCounter, text: str) -> None:
        count = counter.count(text)
        assert isinstance(count, int)
        assert count >= 0
        assert counter.count(text) == count

    def test_more_text_has_more_tokens(self, counter: TokenCounter) -> None:
        assert counter.count("") == 0
        assert 0 < counter.count(QUESTION) < counter.count(f"{QUESTION} " * 20)


class CompressorContract:
    """memory.ports.Compressor."""

    @pytest.fixture
    def compressor(self) -> Compressor:
        """The one to be held to the contract."""
        raise NotImplementedError

    @ANY_TEXT
    @pytest.mark.parametrize("chars_max", [1, 100, 400])
    def test_any_text_comes_out_short_and_in_its_own_words(
        self, compressor: Compressor, text: str, chars_max: int
    ) -> None:
        shown = (len(text) // 3, len(text) // 2)
        short = compressor.compress(text, shown, {"boat": 2.0, "harbour": 1.0}, chars_max)
        assert len(short) <= 2 * chars_max + 8
        assert all(piece.strip() in text for piece in short.split("…"))

    def test_the_same_question_gives_the_same_bytes(self, compressor: Compressor) -> None:
        """Else vLLM's prefix cache loses everything behind the block."""
        asked = (WEIRD["long"] + TEXTS[0] + WEIRD["long"], (0, 900), {"halcyon": 3.0, "boat": 1.0}, 200)
        assert compressor.compress(*asked) == compressor.compress(*asked)

    def test_no_terms_are_no_fault(self, compressor: Compressor) -> None:
        assert compressor.compress(WEIRD["long"], (0, 900), {}, 200)


class ContextRouterContract:
    """memory.ports.ContextRouter."""

    @pytest.fixture
    def router(self) -> ContextRouter:
        """The one to be held to the contract."""
        raise NotImplementedError

    @ANY_TEXT
    @pytest.mark.parametrize("kind", get_args(Kind))
    @pytest.mark.parametrize("place", [0, 9, 99])
    def test_any_memory_stands_whole_or_in_some_characters(
        self, router: ContextRouter, text: str, kind: str, place: int
    ) -> None:
        chars = router.excerpt_chars(candidate(text, kind), place, {"boat": 2.0})
        assert chars is None or chars >= 1

    def test_the_same_question_gives_the_same_bytes(self, router: ContextRouter) -> None:
        """Else vLLM's prefix cache loses everything behind the block."""
        for text in TEXTS:
            asked = candidate(text, "document"), 1, {"halcyon": 3.0, "boat": 1.0}
            assert router.excerpt_chars(*asked) == router.excerpt_chars(*asked)

    def test_no_terms_are_no_fault(self, router: ContextRouter) -> None:
        router.excerpt_chars(candidate(WEIRD["long"], "episodic"), 0, {})


def candidate(text: str, kind: str) -> Candidate:
    """An admitted memory."""
    return Candidate(
        memory_id=new_id(),
        version=1,
        kind=kind,
        role="user",
        content=text,
        shown=(0, len(text)),
        score=0.5,
        parts={},
        admitted=True,
        occurred_at=None,
        session_id=None,
        seq=0,
        scope_id=1,
        integrity="user",
        source_ids=(),
        event_ids=(),
    )


class EvaluatorContract:
    """memory.ports.Evaluator."""

    @pytest.fixture
    def evaluator(self) -> Evaluator:
        """The one to be held to the contract."""
        raise NotImplementedError

    def test_each_candidate_has_a_verdict_in_words(self, evaluator: Evaluator) -> None:
        found = [Features(dense=cosine, dense_margin=1.0, coverage=0.5, terms_held=1.0) for cosine in (0.9, 0.5, -1.0)]
        verdicts = evaluator(found)
        assert len(verdicts) == len(found)
        assert all(0.0 <= verdict.probability <= 1.0 and verdict.why for verdict in verdicts)
        assert list(evaluator(found)) == list(verdicts)

    def test_nothing_found_is_no_fault_nor_is_a_rung_without_vectors(self, evaluator: Evaluator) -> None:
        assert list(evaluator([])) == []
        assert len(evaluator([Features(dense=None, dense_margin=None, coverage=0.0, terms_held=0.0)])) == 1


class RerankerContract:
    """memory.ports.Reranker."""

    @pytest.fixture
    def reranker(self) -> Reranker:
        """The one to be held to the contract."""
        raise NotImplementedError

    async def test_each_text_has_its_score_wherever_it_stands(self, reranker: Reranker) -> None:
        scores = await reranker.rerank(QUESTION, TEXTS)
        assert len(scores) == len(TEXTS)
        assert all(math.isfinite(score) and 0 <= score <= 1 for score in scores)
        assert await reranker.rerank(QUESTION, TEXTS[::-1]) == pytest.approx(scores[::-1], abs=1e-2)

    async def test_no_texts_have_no_scores(self, reranker: Reranker) -> None:
        assert len(await reranker.rerank(QUESTION, ())) == 0

    @ANY_TEXT
    async def test_any_text_and_any_question_have_a_score(self, reranker: Reranker, text: str) -> None:
        for score in (*await reranker.rerank(text, TEXTS[:1]), *await reranker.rerank(QUESTION, [text])):
            assert 0 <= score <= 1

    async def test_it_serves_on_after_a_call_was_cancelled(self, reranker: Reranker) -> None:
        late = asyncio.ensure_future(reranker.rerank(QUESTION, TEXTS * 4))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        assert len(await reranker.rerank(QUESTION, TEXTS)) == len(TEXTS)

    async def test_calls_at_once_are_answered_or_refused_by_name(self, reranker: Reranker) -> None:
        calls = (reranker.rerank(QUESTION, TEXTS) for _ in range(12))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, RerankerUnavailable) or len(one) == len(TEXTS) for one in answers)  # type: ignore[arg-type]


class QueryTransformerContract:
    """memory.ports.QueryTransformer."""

    @pytest.fixture
    def transformer(self) -> QueryTransformer:
        """The one to be held to the contract."""
        raise NotImplementedError

    @ANY_TEXT
    @pytest.mark.parametrize("previous", [(), ("I sold the boat.", "Which one?")], ids=["first", "later"])
    def test_any_question_gives_a_text_and_always_the_same(
        self, transformer: QueryTransformer, text: str, previous: tuple[str, ...]
    ) -> None:
        found = transformer.transform(text, previous)
        assert isinstance(found, str)
        assert transformer.transform(text, list(previous)) == found

    @ANY_TEXT
    def test_any_turn_before_it_is_no_fault(self, transformer: QueryTransformer, text: str) -> None:
        assert isinstance(transformer.transform("and in May?", (text, text)), str)


@dataclass(frozen=True)
class Filled:
    """A cold store with three memories of one scope, and what they are: text and vector, nearest to `asked` first."""

    store: ColdStore
    scope: Scope
    now: datetime
    asked: Vector
    nearest_first: tuple[str, str, str]


class ColdStoreContract:
    """memory.read.recall.ColdStore."""

    @pytest.fixture
    def filled(self) -> Filled:
        """The one to be held to the contract."""
        raise NotImplementedError

    async def found(self, filled: Filled, k: int, where: Filter | None = None, scope: Scope | None = None) -> list[str]:
        """The texts that a scope's identity is given."""
        visible = await filled.store.visible_scopes(scope or filled.scope)
        ids = [version.scope_id for version in visible]
        rows = await filled.store.nearest(filled.scope.tenant, ids, filled.asked, k, where or Filter(), now=filled.now)
        return [row.content for row in rows]

    async def test_the_nearest_come_first_and_no_more_than_asked(self, filled: Filled) -> None:
        assert await self.found(filled, 10) == list(filled.nearest_first)
        assert await self.found(filled, 2) == list(filled.nearest_first[:2])

    async def test_rows_hold_what_an_index_needs(self, filled: Filled) -> None:
        ids = [version.scope_id for version in await filled.store.visible_scopes(filled.scope)]
        rows = await filled.store.nearest(filled.scope.tenant, ids, filled.asked, 10, Filter(), now=filled.now)
        for row in rows:
            assert row.visible
            assert row.scope_id in ids
            assert row.vectors.shape == (len(row.windows), len(filled.asked))

    async def test_a_scope_of_ones_own_is_said_to_be_so(self, filled: Filled) -> None:
        assert {version.visibility for version in await filled.store.visible_scopes(filled.scope)} == {"own"}

    async def test_what_a_filter_hides_takes_no_place(self, filled: Filled) -> None:
        assert await self.found(filled, 2, Filter(kinds=frozenset({"document"}))) == []
        ids = [version.scope_id for version in await filled.store.visible_scopes(filled.scope)]
        (best,) = await filled.store.nearest(filled.scope.tenant, ids, filled.asked, 1, Filter(), now=filled.now)
        hidden = Filter(exclude_memory_ids=frozenset({best.memory_id}))
        assert await self.found(filled, 2, hidden) == list(filled.nearest_first[1:])

    async def test_nobody_else_sees_them(self, filled: Filled) -> None:
        stranger = Scope(filled.scope.tenant, user="somebody else")
        assert await self.found(filled, 10, scope=stranger) == []
        assert list(await filled.store.visible_scopes(Scope(new_id()))) == []
