"""The sentences of a long text that matter for a question: text, its best window and the question's terms in, a shorter
text in its own words out.

Sentences are taken greedily by what they hold of the question's idf, of which each term counts half once it was taken;
the best window and the sentence that opens the text have a start, and a sentence lends some of its worth to those
beside it, since an answer often stands next to the words that were asked for. Kept in order; what is left out is an
ellipsis. Pure; refuses nothing. The default `Compressor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from memory.read.lexical import tokenise
from policies.sentences import sentence_spans
from policies.text import whole_at

# Worth in mean idf of a query term. Share of the words of BEAM-100K's answers in the block (`python -m
# bench.tune_recall --block`) .445 with the neighbours and .441 without; the starts move nothing there (.436-.445), and
# keep a text that shares no word with the question recognisable.
_OPENING_WORTH: Final = 0.5
_WINDOW_WORTH: Final = 1.0
_NEIGHBOUR_SHARE: Final = 0.3
_TAKEN_TERM: Final = 0.5
# How far around the best window is read: 80 us a thousand characters, for each of ten texts.
_READ_CHARS: Final = 2_400


class SentenceCompressor:
    """Extractive; no model."""

    def compress(self, text: str, shown: tuple[int, int], terms: Mapping[str, float], chars_max: int) -> str:
        """At most about `chars_max` characters of the text."""
        begin, end = _around(shown, len(text))
        spans = sentence_spans(text, begin, end)
        words = [frozenset(tokenise(text[a:b])).intersection(terms) for a, b in spans]
        worth = _worth(spans, words, shown, terms)
        chosen = _chosen(text, spans, words, worth, terms, chars_max)
        return _joined(text, chosen) if chosen else _cut(text, shown[0], shown[0] + chars_max)


def _around(shown: tuple[int, int], length: int) -> tuple[int, int]:
    """The range to read: the best window with as much on both sides as is to be had."""
    start, end = shown
    spare = max(0, _READ_CHARS - (end - start)) // 2
    return max(0, start - spare), min(length, max(start + _READ_CHARS, end + spare) if spare == 0 else end + spare)


def _worth(
    spans: Sequence[tuple[int, int]],
    words: Sequence[frozenset[str]],
    shown: tuple[int, int],
    terms: Mapping[str, float],
) -> list[float]:
    """What each sentence is worth beside its own terms, in the idf of the question."""
    unit = sum(terms.values()) / len(terms) if terms else 1.0
    held = [sum(terms[word] for word in said) for said in words]
    worth = []
    for at, (start, end) in enumerate(spans):
        beside = (held[at - 1] if at else 0.0) + (held[at + 1] if at + 1 < len(held) else 0.0)
        start_worth = _OPENING_WORTH * (start == 0) + _WINDOW_WORTH * _inside((start, end), shown)
        worth.append(unit * start_worth + _NEIGHBOUR_SHARE * beside)
    return worth


def _inside(sentence: tuple[int, int], shown: tuple[int, int]) -> float:
    """How far a sentence lies in the best window, or that in it, 0..1."""
    shared = min(sentence[1], shown[1]) - max(sentence[0], shown[0])
    return max(0.0, shared / max(1, min(sentence[1] - sentence[0], shown[1] - shown[0])))


def _chosen(
    text: str,
    spans: Sequence[tuple[int, int]],
    words: Sequence[frozenset[str]],
    worth: Sequence[float],
    terms: Mapping[str, float],
    chars_max: int,
) -> list[tuple[int, int]]:
    """The ranges to keep, in order: sentences that fit, the best one cut when it alone is too long."""
    left = dict(terms)
    waiting = set(range(len(spans)))
    chosen: list[tuple[int, int]] = []
    room = chars_max
    while waiting:
        best = max(waiting, key=lambda at: (sum(left[word] for word in words[at]) + worth[at], -at))
        waiting.discard(best)
        start, end = spans[best]
        if end - start >= room:
            if chosen:
                continue
            end = whole_at(text, start, start + room - 1)
        room -= end - start + 1
        chosen.append((start, end))
        for word in words[best]:
            left[word] *= _TAKEN_TERM
    return sorted(chosen)


def _joined(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The spans as they stand, with an ellipsis for what is left out between, before and behind them."""
    runs: list[tuple[int, int]] = []
    for start, end in spans:
        if runs and not text[runs[-1][1] : start].strip():
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((start, end))
    before = "… " if runs[0][0] else ""
    behind = " …" if runs[-1][1] < len(text.rstrip()) else ""
    return before + " … ".join(text[start:end] for start, end in runs) + behind


def _cut(text: str, start: int, end: int) -> str:
    """A range of one long sentence, its cuts marked."""
    end = whole_at(text, start, end)
    return ("…" if start else "") + text[start:end].strip() + ("…" if end < len(text) else "")
