"""Real BM25 over one scope, kept up to date in place: (unit number, weighted terms) in, scores by unit out.

A unit is one window of one turn; the owner of the units (ScopeIndex) numbers them densely and may use a number again
once it was removed. Document frequencies and the mean length are exact after every put and remove.

Texts in a language with Snowball rules are stemmed by those, all others as English. A query is too short to tell its
language by: each of its words stands for its English term and its stems in the languages that the index holds.
Refuses nothing: unknown terms score 0, an empty index scores nothing. No I/O; one owner, not thread-safe.
"""

from __future__ import annotations

import math
import operator
import re
import struct
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.read.stems import SNOWBALL, stem_in, without_accents, without_points
from policies.text import is_sign, normalised

# k1 and b as in Lucene. `python -m bench.tune_recall --ablate`: k1 .9-2 and b .5-.9 trade LoCoMo against BEAM-100K
# point for point, so the customary values stay.
K1: Final = 1.2
B: Final = 0.75

# A query longer than this keeps its head and tail: the question stands first or last, pasted material between.
QUERY_CHARS_MAX: Final = 4_000
# Distinct query terms that are scored, rarest first, with one bit each. A term that 5,000 units hold costs about 20 us.
QUERY_TERMS_MAX: Final = 64
# A longer run of word characters is data (base64, hashes), and only its first characters are a term.
TERM_CHARS_MAX: Final = 64

_WORD: Final = re.compile(r"[^\W_]+")
# Signs that belong to a word and are no word characters: accents where they count, and what the scripts of South and
# South-East Asia write vowels and tones with. Without these, words fell apart into letters that any text holds.
_SIGNS: Final = "\u0300-\u036f" + "".join(
    map(chr, filter(is_sign, chain(range(0x700, 0x1D00), range(0xA800, 0xAC00), range(0x11000, 0x12000))))
)
_SIGNED_WORD: Final = re.compile(f"[^\\W_]+(?:[{_SIGNS}]+[^\\W_]*)*")
# Not seen, and no part of how a word is spelled: soft hyphens, joiners, marks of direction, variants. NFKC keeps them.
# What Persian parts a word's endings from it with (U+200C) parts them here too.
_UNSEEN: Final = re.compile("[\u00ad\u200b\u200d-\u200f\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]")
_SIGNED_CHARACTER: Final = re.compile(f".[{_SIGNS}]{{0,8}}", re.DOTALL)
_CJK: Final = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\U00020000-\U0003134f]+"
)
_STOPWORD_TEXT: Final = """
    a about above after again against all am an and any are as at be because been before being below between both
    but by can could d did do does doing don down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself just ll m me more most my myself no nor not now of off on
    once only or other our ours ourselves out over own re s same she should so some such t than that the their theirs
    them themselves then there these they this those through to too under until up ve very was we were what when where
    which while who whom why will with would you your yours yourself yourselves
    hello hey hi ok okay please thank thanks yes"""
STOPWORDS: Final = frozenset(_STOPWORD_TEXT.split())
_VOWELS: Final = frozenset("aeiouy")
# Words whose stem is kept: tokenising takes 51 us a thousand characters with it, 83 without; about 5 MB.
_STEMS_KEPT: Final = 32_768
_POSTING: Final = np.dtype([("unit", np.int32), ("weight", np.float32)])
_packed: Final = struct.Struct("=if").pack  # one posting
_BYTES_PER_TERM: Final = 200  # string, dict entry, the buffer around the postings; tracemalloc on LoCoMo
_BYTES_PER_UNIT_TERM: Final = 8  # the reference kept for removal
_NO_FORMS: Final[Mapping[str, tuple[str, ...]]] = {}
_BYTES_PER_LANGUAGE: Final = 100  # of a unit that is not English: a dict entry


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


def tokenise(text: str, language: str | None = None) -> list[str]:
    """Terms in order, with repeats: case and accents folded, English stopwords dropped, words stemmed, numbers kept.

    In a language of `SNOWBALL` words are stemmed by its rules and none is dropped. Scripts without spaces give single
    characters and overlapping pairs.
    """
    add: Callable[[str, list[str]], None] = _add_word
    if language in SNOWBALL:
        words, add = _SIGNED_WORD.finditer(_casefolded(text)), partial(_add_stem, language)
    elif (folded := _folded(text)).isascii():  # most are: a fifth of what a load took is saved so
        return [stem(word[:TERM_CHARS_MAX]) for word in _WORD.findall(folded) if word not in STOPWORDS]
    else:
        words = _words(folded)
    terms: list[str] = []
    for match in words:
        word = match[0]
        if word.isascii():
            add(word, terms)
            continue
        end = 0
        for run in _CJK.finditer(word):
            add(word[end : run.start()], terms)
            characters = run[0] if run[0].isalpha() else _SIGNED_CHARACTER.findall(run[0])
            terms.extend(characters)
            terms.extend(map(operator.add, characters, characters[1:]))
            end = run.end()
        add(word[end:], terms)
    return terms


def words_in(text: str) -> list[str]:
    """The words of a text, case and accents folded."""
    return [match[0] for match in _words(_folded(text))]


def _words(folded: str) -> Iterator[re.Match[str]]:
    return (_WORD if folded.isascii() else _SIGNED_WORD).finditer(folded)


def _folded(text: str) -> str:
    """NFKC, casefolded, without accents: "Café" and "cafe" are one word. Dakuten and Hangul stay as they are."""
    folded = _case_aside(text)
    return folded if folded.isascii() else without_accents(folded)


def _casefolded(text: str) -> str:
    """The same with accents, composed."""
    return normalised("NFC", without_points(_case_aside(text)))


def _case_aside(text: str) -> str:
    folded = normalised("NFKC", text).casefold()
    return folded if folded.isascii() else _UNSEEN.sub("", folded)


def _add_word(word: str, terms: list[str]) -> None:
    if word and word not in STOPWORDS:
        terms.append(stem(word[:TERM_CHARS_MAX]))


def _add_stem(language: str, word: str, terms: list[str]) -> None:
    if word:
        terms.append(stem_in(word[:TERM_CHARS_MAX], language))


def query_terms(text: str) -> frozenset[str]:
    """The distinct English terms of a query, of its head and tail only when it is over `QUERY_CHARS_MAX` characters."""
    return frozenset(tokenise(_head_and_tail(text)))


def _head_and_tail(text: str) -> str:
    half = QUERY_CHARS_MAX // 2
    return f"{text[:half]} {text[-half:]}" if len(text) > QUERY_CHARS_MAX else text


def _query_words(text: str) -> Iterator[tuple[str, list[str]]]:
    """The words of a query, casefolded, each with its English terms: none for a stopword, several for CJK."""
    for match in _SIGNED_WORD.finditer(_casefolded(_head_and_tail(text))):
        yield match[0][:TERM_CHARS_MAX], tokenise(match[0])


def in_a_text(text: str, language: str | None, terms: Mapping[str, float]) -> Mapping[str, float]:
    """The terms of a query, and with them the English terms of those words of a text that are, by the rules of its
    language, other forms of these: what reads the text by English terms finds them.
    """
    if language not in SNOWBALL:
        return terms
    found = dict(terms)
    for word in dict.fromkeys(_SIGNED_WORD.findall(_casefolded(text))):
        idf = terms.get(stem_in(word[:TERM_CHARS_MAX], language))
        if idf is not None:
            found = dict.fromkeys(tokenise(word), idf) | found
    return found


def present(own: frozenset[str], terms: Collection[str], forms: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Which of the query's terms are among a text's own, in any of their forms."""
    others = (term for term, known in forms.items() if term in terms and not own.isdisjoint(known))
    return own.intersection(terms).union(others)


def weigh(own: Iterable[str], context: Iterable[str] = (), weight: float = 0.0) -> dict[str, float]:
    """Term weights of one unit: its own counts plus `weight` times those of its context."""
    terms: dict[str, float] = _counted(own)
    if weight > 0.0:
        for term, count in _counted(context).items():
            terms[term] = terms.get(term, 0.0) + weight * count
    return terms


def _counted(terms: Iterable[str]) -> dict[str, float]:
    """How often each is there; of twenty in two thirds of the time that a Counter takes."""
    counts: dict[str, float] = {}
    for term in terms:
        counts[term] = counts.get(term, 0) + 1
    return counts


def told(bits: int, terms: Iterable[str]) -> list[str]:
    """The terms of these bits, see `LexicalIndex.score`."""
    return [term for bit, term in enumerate(terms) if bits >> bit & 1]


# The units that hold one term, in no order, and its weight in each: packed `_POSTING`s, mostly one. So a term takes 119
# bytes, and 290 as an object of two arrays, which the collector looks through besides (LoCoMo, tracemalloc).
_Postings = bytes | bytearray


def _with(postings: _Postings | None, unit: int, weight: float) -> _Postings:
    added = _packed(unit, weight)
    if postings is None:
        return added
    if isinstance(postings, bytes):
        return bytearray(postings + added)
    postings += added
    return postings


def _without(postings: _Postings, unit: int) -> _Postings:
    """The last posting takes the place of the one that goes."""
    if isinstance(postings, bytes):
        return b""
    at = int(np.flatnonzero(np.frombuffer(postings, _POSTING)["unit"] == unit)[0]) * _POSTING.itemsize
    postings[at : at + _POSTING.itemsize] = postings[-_POSTING.itemsize :]
    del postings[-_POSTING.itemsize :]
    return postings


def _merged(held: list[_Postings]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """The units of one or more postings, each once, and the weight of all of them in each."""
    if len(held) == 1:
        alone = np.frombuffer(held[0], _POSTING)
        return alone["unit"].astype(np.intp), np.ascontiguousarray(alone["weight"])
    postings = np.frombuffer(b"".join(held), _POSTING)
    each, place = np.unique(postings["unit"], return_inverse=True)
    return each.astype(np.intp), np.bincount(place, postings["weight"]).astype(np.float32)


def _count(held: list[_Postings]) -> int:
    """How many units hold one of these."""
    return len(held[0]) // _POSTING.itemsize if len(held) == 1 else len(_merged(held)[0])


class LexicalIndex:
    """Postings of one scope. Unit numbers are the caller's; a number in use may not be put again."""

    def __init__(self) -> None:
        self._postings: dict[str, _Postings] = {}
        self._terms: dict[int, tuple[str, ...]] = {}
        self._language_of: dict[int, str] = {}  # of the units that are stemmed by Snowball's rules
        self._languages: Counter[str] = Counter()
        self._lengths: NDArray[np.float32] = np.zeros(16, np.float32)
        self._own: NDArray[np.int32] = np.zeros(16, np.int32)  # how many of a unit's first terms are its own
        self._length_sum = 0.0
        self._posting_count = 0

    def __len__(self) -> int:
        return len(self._terms)

    @property
    def bytes_held(self) -> int:
        """Estimated memory, bytes."""
        per_posting = _POSTING.itemsize + _BYTES_PER_UNIT_TERM
        postings = self._posting_count * per_posting + len(self._postings) * _BYTES_PER_TERM
        return postings + self._lengths.nbytes + self._own.nbytes + len(self._language_of) * _BYTES_PER_LANGUAGE

    def put(self, unit: int, terms: Mapping[str, float], language: str | None = None, own: int = 0) -> None:
        """Add a unit whose terms were made for this language; the first `own` of them are its own words.

        Raises ValueError for a number in use.
        """
        if unit in self._terms:
            raise ValueError(f"unit {unit} is in use")
        # One string for a term in all indexes: each text has its own, 50 to 80 bytes a posting.
        held = tuple(map(sys.intern, terms))
        for term, weight in zip(held, terms.values(), strict=True):
            self._postings[term] = _with(self._postings.get(term), unit, weight)
        self._terms[unit] = held
        if language in SNOWBALL:
            self._language_of[unit] = language
            self._languages[language] += 1
        if unit >= len(self._lengths):
            room = max(unit, len(self._lengths))
            self._lengths = np.concatenate([self._lengths, np.zeros(room, np.float32)])
            self._own = np.concatenate([self._own, np.zeros(room, np.int32)])
        self._own[unit] = own
        length = float(np.float32(sum(terms.values())))
        self._lengths[unit] = length
        self._length_sum += length
        self._posting_count += len(held)

    def remove(self, unit: int) -> None:
        """Take a unit out. Raises KeyError for one that is not there."""
        held = self._terms.pop(unit)
        for term in held:
            left = _without(self._postings[term], unit)
            if left:
                self._postings[term] = left
            else:
                del self._postings[term]
        self._length_sum -= float(self._lengths[unit])
        self._lengths[unit] = 0.0
        self._posting_count -= len(held)
        language = self._language_of.pop(unit, None)
        if language is not None:
            self._languages[language] -= 1
            if not self._languages[language]:
                del self._languages[language]

    def asked(self, text: str) -> dict[str, tuple[str, ...]]:
        """The terms of a query, each with the other forms in which this index holds its word.

        A term is a word's English one, or for an English stopword a stem; words that share a form are one term.
        """
        if not self._languages:
            return dict.fromkeys(query_terms(text), ())
        term_of: dict[str, str] = {}
        asked: dict[str, tuple[str, ...]] = {}
        for word, english in _query_words(text):
            stems = self._stems(word, is_stopword=not english) if len(english) < 2 else []
            for own in english or stems[:1]:
                forms = dict.fromkeys((own, *stems))
                term = next((term_of[form] for form in forms if form in term_of), own)
                new = [form for form in forms if form not in term_of]
                term_of.update(dict.fromkeys(new, term))
                asked[term] = (*asked.get(term, ()), *(form for form in new if form != term))
        return asked

    def _stems(self, word: str, *, is_stopword: bool) -> list[str]:
        """The stems of a query's word that this index holds.

        English stopwords are words elsewhere ("but", "was"), which would be rare, so heavy, where less than half is
        in that language: there they stay stopwords. (LoCoMo by words alone, 35 turns of German, French and Spanish in
        each conversation: nDCG@10 .626, and .617 where they were words.)
        """
        least = len(self._terms) / 2 if is_stopword else 0
        languages = (language for language, units in sorted(self._languages.items()) if units > least)
        return [one for one in (stem_in(word, language) for language in languages) if one in self._postings]

    def idf(self, term: str, forms: Iterable[str] = ()) -> float:
        """ln(1 + (N - df + 0.5) / (df + 0.5)), never negative; an unknown term is as rare as can be."""
        held = self._held_in(term, forms)
        df = _count(held) if held else 0
        return math.log1p((len(self._terms) - df + 0.5) / (df + 0.5))

    def _held_in(self, term: str, forms: Iterable[str]) -> list[_Postings]:
        return [postings for one in (term, *forms) if (postings := self._postings.get(one)) is not None]

    def score(
        self, terms: Mapping[str, float], unit_count: int, forms: Mapping[str, tuple[str, ...]] = _NO_FORMS
    ) -> tuple[NDArray[np.float32], NDArray[np.uint64]]:
        """BM25 of every unit, and which of the first 64 terms it holds, one bit each; both of shape [unit_count].

        `terms` maps query terms to their idf (see `weights`); the `forms` of one (see `asked`) count as it.
        """
        scores, holds = np.zeros(unit_count, np.float32), np.zeros(unit_count, np.uint64)
        if not self._terms:
            return scores, holds
        mean = max(self._length_sum / len(self._terms), 1e-9)
        norms = np.float32(K1 * (1.0 - B)) + np.float32(K1 * B / mean) * self._lengths[:unit_count]
        for bit, (term, idf) in enumerate(terms.items()):
            held = self._held_in(term, forms.get(term, ()))
            if not held:
                continue
            units, weights = _merged(held)  # each unit once; `at` takes a third of the time of `scores[units] +=`
            np.add.at(scores, units, np.float32(idf * (K1 + 1.0)) * weights / (weights + norms[units]))
            if bit < QUERY_TERMS_MAX:
                np.add.at(holds, units, np.uint64(1 << bit))
        return scores, holds

    def own(
        self, units: Iterable[int], terms: Iterable[str], forms: Mapping[str, tuple[str, ...]] = _NO_FORMS
    ) -> list[list[str]]:
        """For each unit which of these terms are among its own words, in any of their forms; in this order.

        Told by identity, since all indexes hold one string for a term: the strings themselves lie all over memory.
        """
        sought = {term: [id(sys.intern(form)) for form in (term, *forms.get(term, ()))] for term in terms}
        ids = frozenset(chain.from_iterable(sought.values()))
        found: list[list[str]] = []
        for unit in units:
            hits = ids.intersection(map(id, self._terms[unit][: self._own[unit]]))
            found.append([term for term, of in sought.items() if not hits.isdisjoint(of)] if hits else [])
        return found

    def weights(self, terms: Iterable[str], forms: Mapping[str, tuple[str, ...]] = _NO_FORMS) -> dict[str, float]:
        """The idf of each query term, rarest first, at most `QUERY_TERMS_MAX`; unknown terms count and come last."""
        asked = {term: forms.get(term, ()) for term in terms}
        ranked = sorted((not self._held_in(one, more), -self.idf(one, more), one) for one, more in asked.items())
        return {term: -negative for _, negative, term in ranked[:QUERY_TERMS_MAX]}
