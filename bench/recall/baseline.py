"""The line to beat: BM25 over single turns, inside one scope. Turns and a question in, ranked turn ids out.

Scores and words are those of the product's lexical index, which tests hold to the formula of the book; but nothing
else of the product is in it: no vectors, windows, dates, context, roles. On LoCoMo its turn recall@10 is .602; words
neither stemmed nor without stopwords give .528, so this is the harder line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bench.recall.corpus import spoken
from memory.read.lexical import LexicalIndex, tokenise, weigh


class SingleTurnBm25:
    """Single turns of one scope."""

    def __init__(self, lines: Sequence[Mapping[str, str]]) -> None:
        self._ids = [line["source_id"] for line in lines]
        self._index = LexicalIndex()
        for unit, line in enumerate(lines):
            self._index.put(unit, weigh(tokenise(spoken(line))))

    def ranked(self, question: str, k: int) -> tuple[str, ...]:
        """The k best turns, best first, equal ones in order; always k where the scope has so many."""
        terms = {term: self._index.idf(term) for term in set(tokenise(question))}
        scores = self._index.score(terms, len(self._ids))
        return tuple(self._ids[unit] for unit in np.argsort(-scores, kind="stable")[:k].tolist())
