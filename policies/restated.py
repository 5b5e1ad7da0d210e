"""What a fact says once a person has written its sentence anew: the old fact and the new sentence in, its object out.

Two ways to know it. The new sentence may be the old one with other words in the place of the object ("The user lives in
Berlin." became "… in Munich."); or it states, by the rules of extraction, one thing of the same subject and predicate
("I live in Munich"). Anything else is a sentence of the person's own, which no triple may be said to mean: None.
Pure; refuses nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from policies.fact import Fact
from policies.fact_patterns_words import as_object
from policies.reconcile import OBJECT_CHARS_MAX

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WORDS_MAX: Final = 12
# More than an object: another clause, or a word that says whether, since when, or whose.
_MORE: Final = re.compile(
    r"[.!?;:\n]\s|[,，、；。]|\b(?:not|no|never|but|and|or|until|since|when|if|because|who|which|used|former|formerly|was|were"
    r"|before|after|anymore|maybe|perhaps|instead|rather|than)\b",
    re.IGNORECASE,
)
# Scripts that set no blanks between words, and Hangul, whose particles are written on.
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def as_words(words: str) -> str:
    """A pattern that finds these words whole, as far as their script shows where one ends."""
    before = "" if _UNSPACED.match(words) else r"(?<!\w)"
    return before + re.escape(words) + ("" if _UNSPACED.match(words[-1:]) else r"(?!\w)")


def restated(old: Fact, sentence: str) -> str | None:
    """The object that a fact has, now that this is its sentence; None where it cannot be told."""
    found = _in_its_place(old, sentence)
    if found is not None:
        return found
    # Where it is needed: 200 patterns, which a proxy asks for nothing else and would compile at each start.
    from policies.extraction import facts_in  # noqa: PLC0415

    said = [
        fact
        for fact in facts_in(sentence, said_at=_EPOCH)
        if (fact.subject, fact.predicate, fact.negated) == (old.subject, old.predicate, old.negated)
    ]
    return said[0].object if len(said) == 1 and len(facts_in(sentence, said_at=_EPOCH)) == 1 else None


def _in_its_place(old: Fact, sentence: str) -> str | None:
    before, after = _around(old.statement, old.object)
    new = " ".join(sentence.split())
    folded = new.casefold()
    if not before or len(folded) != len(new) or len(new) <= len(before) + len(after):
        return None
    if not folded.startswith(before) or not folded.rstrip(".").endswith(after.rstrip(".")):
        return None
    stop = len(new.rstrip(".")) - len(after.rstrip("."))
    words = new[len(before) : stop].strip()
    if not words or _MORE.search(words) or len(words.split()) > _WORDS_MAX or len(words) > OBJECT_CHARS_MAX:
        return None
    return as_object(words) or None


def _around(statement: str, words: str) -> tuple[str, str]:
    """What stands before and behind the object in its sentence, casefolded; empty unless it stands there once."""
    folded = " ".join(statement.split()).casefold()
    parts = re.split(as_words(words), folded)
    return (parts[0], parts[1]) if len(parts) == 2 else ("", "")
