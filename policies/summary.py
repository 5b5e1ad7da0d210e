"""Extractive summary: sentences in, the few that say most out, in their own words and order.

A sentence's weight is the mean rarity-damped frequency of its words in the whole (SumBasic, Nenkova and Vanderwende
2005): take the heaviest, square the probability of its words so that the next says something else, repeat. What the
user said weighs more than what the assistant said, since the user is who it is about. Pure; no model, no clock.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from policies.sentences import sentence_spans

_WORD: Final = re.compile(r"[^\W_]{2,}|[\u3040-\u30ff\u3400-\u9fff]")
SENTENCES_READ_MAX: Final = 2_000
_ASSISTANT_SHARE: Final = 0.5  # a guess until issue 4 measures summaries


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, who said it, and the index of the turn it stands in."""

    text: str
    role: str
    turn: int


def sentences_of(text: str, role: str, turn: int) -> list[Sentence]:
    """The sentences of one turn; fragments without two words are dropped."""
    pieces = (text[start:end] for start, end in sentence_spans(text))
    return [Sentence(piece, role, turn) for piece in pieces if len(_WORD.findall(piece)) >= 2]


def extract(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """At most `count` sentences, in the order they were said."""
    read = sentences[-SENTENCES_READ_MAX:]
    words = [_WORD.findall(sentence.text.lower()) for sentence in read]
    total = Counter(word for sentence in words for word in set(sentence))
    mass = sum(total.values()) or 1
    probability = {word: n / mass for word, n in total.items()}
    chosen: list[int] = []
    while len(chosen) < min(count, len(read)):
        best = max(
            (index for index in range(len(read)) if index not in chosen),
            key=lambda index: _weight(read[index], words[index], probability),
        )
        chosen.append(best)
        for word in set(words[best]):
            probability[word] **= 2
    return [read[index] for index in sorted(chosen)]


def _weight(sentence: Sentence, words: Sequence[str], probability: dict[str, float]) -> float:
    mean = sum(probability[word] for word in words) / len(words) if words else 0.0
    return mean * (_ASSISTANT_SHARE if sentence.role == "assistant" else 1.0)
