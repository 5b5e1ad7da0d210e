"""Extractive summary: sentences in, the few that say most out, in their own words and order.

A sentence's weight is the mean rarity-damped frequency of its words in the whole (SumBasic, Nenkova and Vanderwende
2005): take the heaviest, square the probability of its words so that the next says something else, repeat. What the
user said weighs more than what the assistant said, since the user is who it is about.

Up to half of the places go to sentences in which the user says what was decided, meant or left open, the latest first:
by their words alone none of three such sentences among 12 long turns (BEAM, 8 conversations) came into the first
summary, and what is not in it never comes back. So all three do, and half of them last eleven more rounds.
Pure; no model, no clock.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from policies.fact_patterns_prose import is_prose
from policies.sentences import sentence_spans
from policies.text import FENCED, SIGNED_WORD

_WORD_CHARS_MIN: Final = 2
# Scripts without spaces between words: Thai and Lao, kana and Han. A character counts as a word.
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")
SENTENCES_READ_MAX: Final = 2_000
_ASSISTANT_SHARE: Final = 0.5  # a guess until issue 4 measures summaries
MARKS: Final = " \t*_-•"
"""Marks of Markdown that open prose as well."""
# Plain words only: "I want" and "I'm trying to" stand in most requests, and would be all of the summary.
_BEARING: Final = re.compile(
    r"""\b(?:I|we|they|have|['’]ve)\ (?:have\ |had\ |now\ |finally\ )?(?:decided|agreed|settled\ on|chose|picked)\b
    |\bdecision:|\blet['’]?s\ go\ with\b|(?:\bwill|['’]ll)\ go\ with\b|(?:['’](?:m|re)|\b(?:am|are))\ going\ with\b
    |\b(?:my|our|the)\ (?:main\ |overall\ |final\ )?(?:goal|aim|objective|deadline)\ (?:is|was|of)\b|\bthe\ plan\ is\b
    |\bopen\ (?:question|issue|point)s?\b|\bto\ be\ (?:decided|determined)\b|\bTBD\b
    |\bstill\ (?:open|undecided|unclear|to\ be\ (?:decided|done)|need\ to\ decide)\b
    |\b(?:entschieden|beschlossen|(?:mein|unser|das)\ Ziel\ ist|noch\ offen|offene\ Frage)\b""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, who said it, and the index of the turn it stands in."""

    text: str
    role: str
    turn: int


def sentences_of(text: str, role: str, turn: int) -> list[Sentence]:
    """The sentences of one turn; fenced code and fragments without two words are dropped."""
    said = FENCED.sub("\n", text)
    pieces = (said[start:end] for start, end in sentence_spans(said))
    return [Sentence(piece, role, turn) for piece in pieces if len(_words(piece)) >= 2]


def in_prose(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Without lines of code, logs and tables, whose words are said so often that they would be all of a summary; all of
    them where nothing else was said.
    """
    return [one for one in sentences if is_prose(one.text.lstrip(MARKS))] or list(sentences)


def bears(text: str) -> bool:
    """Whether a sentence says what was decided, meant to be reached, or left open. A question to the other does not."""
    return _BEARING.search(text) is not None


def extract(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """At most `count` sentences, in the order they were said; up to half of them of those that bear on the rest."""
    read = sentences[-SENTENCES_READ_MAX:]
    words = [_words(sentence.text.lower()) for sentence in read]
    total = Counter(word for sentence in words for word in set(sentence))
    mass = sum(total.values()) or 1
    probability = {word: n / mass for word, n in total.items()}
    latest = {
        sentence.text.casefold(): index
        for index, sentence in enumerate(read)
        if sentence.role != "assistant" and bears(sentence.text)
    }
    chosen = sorted(latest.values())[-(count // 2) :] if count > 1 else []
    for index in chosen:
        _damp(words[index], probability)
    while len(chosen) < min(count, len(read)):
        best = max(
            (index for index in range(len(read)) if index not in chosen),
            key=lambda index: _weight(read[index], words[index], probability),
        )
        chosen.append(best)
        _damp(words[best], probability)
    return [read[index] for index in sorted(chosen)]


def _words(text: str) -> list[str]:
    """The words of a text that say something by their length."""
    apart = text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)
    found = SIGNED_WORD.findall(apart.replace("_", " "))
    return [word for word in found if len(word) >= _WORD_CHARS_MIN or _UNSPACED.match(word)]


def _damp(words: Sequence[str], probability: dict[str, float]) -> None:
    """What was said need not be said again."""
    for word in set(words):
        probability[word] **= 2


def _weight(sentence: Sentence, words: Sequence[str], probability: dict[str, float]) -> float:
    mean = sum(probability[word] for word in words) / len(words) if words else 0.0
    return mean * (_ASSISTANT_SHARE if sentence.role == "assistant" else 1.0)
