"""Real BM25 over one scope, kept up to date in place: (unit number, weighted terms) in, scores by unit out.

A unit is one window of one turn; the owner of the units (ScopeIndex) numbers them densely and may use a number again
once it was removed. Document frequencies and the mean length are exact after every put and remove.
Refuses nothing: unknown terms score 0, an empty index scores nothing. No I/O; one owner, not thread-safe.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

# k1 and b as in Lucene. `python -m bench.tune_recall --ablate`: k1 .9-2 and b .5-.9 trade LoCoMo against BEAM-100K
# point for point, so the customary values stay.
K1: Final = 1.2
B: Final = 0.75

# A query longer than this keeps its head and tail: the question stands first or last, pasted material between.
QUERY_CHARS_MAX: Final = 4_000
# Distinct query terms that are scored, rarest first. At 12,000 units 64 terms cost about 1 ms.
QUERY_TERMS_MAX: Final = 64
# A longer run of word characters is data (base64, hashes), and only its first characters are a term.
TERM_CHARS_MAX: Final = 64

_WORD: Final = re.compile(r"[^\W_]+")
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_CJK: Final = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0eff\U00020000-\U0003134f]+"
)
_STOPWORD_TEXT: Final = """
    a about above after again against all am an and any are as at be because been before being below between both
    but by can could d did do does doing don down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself just ll m me more most my myself no nor not now of off on
    once only or other our ours ourselves out over own re s same she should so some such t than that the their theirs
    them themselves then there these they this those through to too under until up ve very was we were what when where
    which while who whom why will with would you your yours yourself yourselves
    hello hey hi ok okay please thank thanks yes"""
_STOPWORDS: Final = frozenset(_STOPWORD_TEXT.split())
_VOWELS: Final = frozenset("aeiouy")
# Words whose stem is kept: tokenising takes 51 us a thousand characters with it, 83 without; about 5 MB.
_STEMS_KEPT: Final = 32_768
_BYTES_PER_POSTING: Final = 8  # int32 unit and float32 weight
_BYTES_PER_TERM: Final = 400  # string, dict entry, two arrays; measured with tracemalloc on LoCoMo
_BYTES_PER_UNIT_TERM: Final = 8  # the reference kept for removal


@lru_cache(_STEMS_KEPT)
def stem(word: str) -> str:
    """Fold the commonest English inflections: -s, -ed, -ing, -ly, final e and y. Other scripts come back unchanged.

    LoCoMo turn recall@10 of BM25 alone, single turns: .537 unstemmed, .550 plural only, .566 with this.
    """
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    word = _singular(word)
    for suffix in ("ing", "ed"):
        root = word.removesuffix(suffix)
        if root != word and len(root) >= 3 and not _VOWELS.isdisjoint(root):
            word = root[:-1] if root[-1] == root[-2] and root[-1] not in "lsz" else root
            break
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    if word.endswith("y") and len(word) > 3:
        return word[:-1] + "i"
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("sses") or (word.endswith("es") and word[-3] in "sxz"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and word[-2] not in "su" else word


def tokenise(text: str) -> list[str]:
    """Terms in order, with repeats: case and accents folded, English stopwords dropped, words stemmed, numbers kept.

    Scripts without spaces give single characters and overlapping pairs.
    """
    terms: list[str] = []
    for match in _WORD.finditer(_folded(text)):
        word = match[0]
        if word.isascii():
            _add_word(word, terms)
            continue
        end = 0
        for run in _CJK.finditer(word):
            _add_word(word[end : run.start()], terms)
            characters = run[0]
            terms.extend(characters)
            terms.extend(characters[i : i + 2] for i in range(len(characters) - 1))
            end = run.end()
        _add_word(word[end:], terms)
    return terms


def _folded(text: str) -> str:
    """NFKC, casefolded, without accents: "Café" and "cafe" are one word. Dakuten and Hangul stay as they are."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if folded.isascii():
        return folded
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", folded)))


def _add_word(word: str, terms: list[str]) -> None:
    if word and word not in _STOPWORDS:
        terms.append(stem(word[:TERM_CHARS_MAX]))


def query_terms(text: str) -> frozenset[str]:
    """The distinct terms of a query, read from its head and tail only when it is over `QUERY_CHARS_MAX` characters."""
    if len(text) > QUERY_CHARS_MAX:
        half = QUERY_CHARS_MAX // 2
        text = f"{text[:half]} {text[-half:]}"
    return frozenset(tokenise(text))


def weigh(own: Iterable[str], context: Iterable[str] = (), weight: float = 0.0) -> dict[str, float]:
    """Term weights of one unit: its own counts plus `weight` times those of its context."""
    terms: dict[str, float] = dict(Counter(own))
    if weight > 0.0:
        for term, count in Counter(context).items():
            terms[term] = terms.get(term, 0.0) + weight * count
    return terms


@dataclass(slots=True)
class _Postings:
    """Units that hold one term, in no order, and the term's weight in each."""

    units: array[int] = field(default_factory=lambda: array("i"))
    weights: array[float] = field(default_factory=lambda: array("f"))

    def drop(self, unit: int) -> None:
        at = self.units.index(unit)
        last_unit, last_weight = self.units.pop(), self.weights.pop()
        if at < len(self.units):
            self.units[at], self.weights[at] = last_unit, last_weight


class LexicalIndex:
    """Postings of one scope. Unit numbers are the caller's; a number in use may not be put again."""

    def __init__(self) -> None:
        self._postings: dict[str, _Postings] = {}
        self._terms: dict[int, tuple[str, ...]] = {}
        self._lengths: NDArray[np.float32] = np.zeros(16, np.float32)
        self._length_sum = 0.0
        self._posting_count = 0

    def __len__(self) -> int:
        return len(self._terms)

    @property
    def bytes_held(self) -> int:
        """Estimated memory, bytes."""
        per_posting = _BYTES_PER_POSTING + _BYTES_PER_UNIT_TERM
        return self._posting_count * per_posting + len(self._postings) * _BYTES_PER_TERM + self._lengths.nbytes

    def put(self, unit: int, terms: Mapping[str, float]) -> None:
        """Add a unit. Raises ValueError for a number in use."""
        if unit in self._terms:
            raise ValueError(f"unit {unit} is in use")
        held = []
        for term, weight in terms.items():
            postings = self._postings.get(term)
            if postings is None:
                postings = self._postings[term] = _Postings()
            postings.units.append(unit)
            postings.weights.append(weight)
            held.append(term)
        self._terms[unit] = tuple(held)
        if unit >= len(self._lengths):
            self._lengths = np.concatenate([self._lengths, np.zeros(max(unit, len(self._lengths)), np.float32)])
        length = float(np.float32(sum(terms.values())))
        self._lengths[unit] = length
        self._length_sum += length
        self._posting_count += len(held)

    def remove(self, unit: int) -> None:
        """Take a unit out. Raises KeyError for one that is not there."""
        held = self._terms.pop(unit)
        for term in held:
            postings = self._postings[term]
            postings.drop(unit)
            if not postings.units:
                del self._postings[term]
        self._length_sum -= float(self._lengths[unit])
        self._lengths[unit] = 0.0
        self._posting_count -= len(held)

    def idf(self, term: str) -> float:
        """ln(1 + (N - df + 0.5) / (df + 0.5)), never negative; an unknown term is as rare as can be."""
        postings = self._postings.get(term)
        df = len(postings.units) if postings else 0
        return math.log1p((len(self._terms) - df + 0.5) / (df + 0.5))

    def score(self, terms: Mapping[str, float], unit_count: int) -> NDArray[np.float32]:
        """BM25 of every unit, shape [unit_count]. `terms` maps a query term to its idf (see `weights`)."""
        scores = np.zeros(unit_count, np.float32)
        if not self._terms:
            return scores
        mean = max(self._length_sum / len(self._terms), 1e-9)
        norms = (K1 * (1.0 - B) + (K1 * B / mean) * self._lengths).astype(np.float32)
        for term, idf in terms.items():
            postings = self._postings.get(term)
            if postings is None:
                continue
            units = np.frombuffer(postings.units, np.int32)
            weights = np.frombuffer(postings.weights, np.float32)
            scores[units] += np.float32(idf * (K1 + 1.0)) * weights / (weights + norms[units])
        return scores

    def weights(self, terms: Iterable[str]) -> dict[str, float]:
        """The idf of each query term, rarest first, at most `QUERY_TERMS_MAX`; unknown terms count and come last."""
        ranked = sorted((term not in self._postings, -self.idf(term), term) for term in set(terms))
        return {term: -negative for _, negative, term in ranked[:QUERY_TERMS_MAX]}

    def held(self, unit: int, terms: Container[str]) -> frozenset[str]:
        """Which of these terms a unit holds, its context included."""
        return frozenset(term for term in self._terms.get(unit, ()) if term in terms)
