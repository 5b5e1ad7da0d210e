"""The lines to beat, over single turns of one scope: turns and a question in, ranked turn ids out.

BM25: scores and words are those of the product's lexical index, which tests hold to the formula of the book; but
nothing else of the product is in it: no vectors, windows, dates, context, roles. On LoCoMo its turn recall@10 is .602;
words neither stemmed nor without stopwords give .528, so this is the harder line. Dense: the product's own embedder
over each turn's first characters, exact cosine. RRF: reciprocal rank fusion of the two (Cormack et al., SIGIR 2009).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.recall.corpus import spoken
from memory.read.lexical import LexicalIndex, tokenise, weigh

DENSE_CHARS: Final = 4_000
FUSED_DEPTH: Final = 100
RRF_K: Final = 60


class SingleTurnBm25:
    """Single turns of one scope, by their words."""

    def __init__(self, lines: Sequence[Mapping[str, str]]) -> None:
        self._ids = [line["source_id"] for line in lines]
        self._index = LexicalIndex()
        for unit, line in enumerate(lines):
            self._index.put(unit, weigh(tokenise(spoken(line))))

    def ranked(self, question: str, k: int) -> tuple[str, ...]:
        """The k best turns, best first, equal ones in order; always k where the scope has so many."""
        return tuple(self._ids[unit] for unit in np.argsort(-self._scores(question), kind="stable")[:k].tolist())

    def matching(self, question: str, k: int) -> tuple[str, ...]:
        """The same without turns that hold no word of the question: their order says nothing."""
        scores = self._scores(question)
        best = np.argsort(-scores, kind="stable")[:k].tolist()
        return tuple(self._ids[unit] for unit in best if scores[unit] > 0)

    def _scores(self, question: str) -> NDArray[np.float32]:
        terms = {term: self._index.idf(term) for term in set(tokenise(question))}
        return self._index.score(terms, len(self._ids))[0]


class SingleTurnDense:
    """Single turns of one scope, by unit vectors of shape [turns, dim]."""

    def __init__(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self._ids = tuple(ids)
        self._vectors = vectors

    def ranked(self, vector: NDArray[np.float32], k: int) -> tuple[str, ...]:
        """The k turns nearest to a unit vector of shape [dim], best first, equal ones in order."""
        best = np.argsort(-(self._vectors @ vector), kind="stable")[:k]
        return tuple(self._ids[unit] for unit in best.tolist())


def dense_text(line: Mapping[str, str]) -> str:
    """What is embedded of one turn."""
    return spoken(line)[:DENSE_CHARS]


def fused(rankings: Sequence[Sequence[str]], k: int) -> tuple[str, ...]:
    """The k best of several rankings by the sum of 1 / (RRF_K + rank), rank from 1; ties as they come first."""
    sums: dict[str, float] = defaultdict(float)
    for ranking in rankings:
        for rank, turn_id in enumerate(ranking, start=1):
            sums[turn_id] += 1 / (RRF_K + rank)
    return tuple(sorted(sums, key=lambda turn_id: -sums[turn_id])[:k])
