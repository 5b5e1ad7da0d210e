"""Newest truth: when a question asks for a value and two people's statements of it differ, the newer goes first.

Statements in rank order in; out the order to show them in, and which is said otherwise later. Similarity cannot tell
the old value from the new: on BEAM-100K's updates the new evidence ranked above the old in 7 of 15 (FACTS: 36 %), with
this in 13, the other sets as they were (LoCoMo's nDCG@10 .578, MemSim's .908; `python -m bench.tune_recall`).

A newer statement passes an older one above it when the question asks for a kind of value that both state and state
differently, both hold enough of what is asked, and they are near in meaning. Questions about the past or about a
change want the old one too, and are left alone. Works on raw turns, without extraction. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Final
from uuid import UUID

# How many of the best are looked at: of BEAM's updates the new statement was never below the sixth.
DEPTH: Final = 12
# Share of the query's idf that both must hold, in two words at least. .1, .15, .2: 13, 13, 12 of 15, and 49, 37, 30
# moves in BEAM-100K's 144 questions.
SHARED_MIN: Final = 0.15
SHARED_TERMS_MIN: Final = 2
# Cosine of the nearest windows. .45, .5, .55: 13, 13, 11 of 15; nDCG@10 of BEAM-100K .509, .513, .512.
NEAR_MIN: Final = 0.5
# Values are looked for where a statement begins; behind it pasted code and documents follow.
_CHARS_READ: Final = 2_000

_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
_WORDS = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty"
# In this order: what one pattern takes is no plain number any more.
_VALUES: Final[Mapping[str, re.Pattern[str]]] = {
    "percent": re.compile(r"\d[\d.,]{0,40}\s?(?:%|percent)"),
    "money": re.compile(r"[$€£¥]\s?\d[\d.,]*"),
    "date": re.compile(
        rf"\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}\b"
        r"|\b\d{4}-\d\d-\d\d\b|\b\d{1,2}/\d{1,2}\b"
    ),
    "clock": re.compile(r"\b\d{1,2}(?::\d\d)?\s?(?:am|pm)\b"),
    "count": re.compile(rf"(?<![\w.$€£¥/-])\d[\d,]*(?:\.\d+)?(?![\w%/-])|\b(?:{_WORDS})\b"),
}
_ASKED: Final[Sequence[tuple[re.Pattern[str], frozenset[str]]]] = (
    (re.compile(r"\b(?:how many|number of|count)\b"), frozenset({"count"})),
    (re.compile(r"\b(?:percent\w*|rate|accuracy|score)\b"), frozenset({"percent", "count"})),
    (re.compile(r"\b(?:how much|budget|price|cost|salary|amount|fee|rent)\b"), frozenset({"money", "count"})),
    (
        re.compile(
            r"\b(?:when(?:'s| is| are| will| should| am| do| does)|what (?:date|day|time)|deadline|due|schedul\w+)\b"
        ),
        frozenset({"date", "clock"}),
    ),
    (re.compile(r"\bwhat(?:'s| is| are) (?:my|our|the)\b"), frozenset({"count", "percent", "money"})),
)
# "The first deadline" was another once; the deadline of the first sprint may still change.
_FIRST: Final = (
    r"at first|(?:was|were|did) (?:\w+ ){0,4}first|first(?=\s*(?:$|[?.,!]|(?:deadline|date|day|time|budget|price|cost"
    r"|estimate|quote|offer|plan|goal|target|number|count|value|amount|salary|rate|score|accuracy|percentage|version"
    r"|said|say|told|tell|mention|set|thought|think|scheduled?)))"
)
_OF_THE_PAST: Final = re.compile(
    rf"\b(?:{_FIRST}|original\w*|initial\w*|previous\w*|before|earlier|used to|histor\w+|chang\w+|over time|compar\w+"
    r"|differen\w+|both|order|timeline|evolv\w+|progress\w*|sequence|ago|when did|how long|between)\b"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One candidate: text, who said it (role and name), when it happened and reached us, its place in its session, and
    the terms of the question it holds.
    """

    text: str
    speaker: tuple[str, str | None]
    at: datetime | None
    arrived: datetime | None
    session: UUID | None
    seq: int
    terms: frozenset[str]


def asks_of_the_past(query: str) -> bool:
    """Whether a question wants what was, or how it changed."""
    return _OF_THE_PAST.search(query.casefold()) is not None


def kinds_asked(query: str) -> frozenset[str]:
    """The kinds of value a question asks the present state of; none for one about the past or about no value."""
    if asks_of_the_past(query):
        return frozenset()
    said = query.casefold()
    return frozenset().union(*(kinds for pattern, kinds in _ASKED if pattern.search(said)))


@dataclass(frozen=True, slots=True)
class Settled:
    """Indices of the statements in the order to show them in, and for each older one the newer that passes it."""

    order: list[int]
    later: dict[int, int]


def settle(
    kinds: frozenset[str],
    statements: Sequence[Statement],
    weights: Mapping[str, float],
    near: Callable[[int, int], float],
) -> Settled:
    """The newest first, among statements that come best first.

    `kinds` are those asked for, `weights` the idf of each query term, `near` the cosine of two statements.
    """
    order = list(range(len(statements)))
    later: dict[int, int] = {}
    enough = SHARED_MIN * sum(weights.values())
    stated = cache(lambda at: values(statements[at].text))
    for lower in range(1, min(len(statements), DEPTH)):
        for upper in range(lower):
            newer, older = (lower, upper) if _is_later(statements[lower], statements[upper]) else (upper, lower)
            one, other = statements[newer], statements[older]
            if not _is_later(one, other) or not _on_one_subject(one, other, weights, enough):
                continue
            if not _differ(stated(newer), stated(older), kinds) or near(newer, older) < NEAR_MIN:
                continue
            if older not in later or _is_later(one, statements[later[older]]):
                later[older] = newer
            if order.index(newer) > order.index(older):
                order.remove(newer)
                order.insert(order.index(older), newer)
    return Settled(order, later)


def _on_one_subject(one: Statement, other: Statement, weights: Mapping[str, float], enough: float) -> bool:
    """Whether both hold enough of the same words of the question."""
    shared = one.terms & other.terms
    return len(shared) >= SHARED_TERMS_MIN and sum(weights[term] for term in shared) >= enough


def values(text: str) -> dict[str, frozenset[str]]:
    """What a text states, by kind: numbers, dates and the like, written as one."""
    left = text[:_CHARS_READ].casefold()
    found: dict[str, frozenset[str]] = {}
    for kind, pattern in _VALUES.items():
        found[kind] = frozenset(map(_written_one_way, pattern.findall(left)))
        left = pattern.sub(" ", left)
    return found


def _written_one_way(value: str) -> str:
    """ "$500." is $500, "95 percent" 95%, "the 5th of April" and "April 5" Apr 5, "11:00 am" 11 am."""
    plain = re.sub(r"[\s,]|(?<=\d)(?:st|nd|rd|th)\b", "", value.replace(" of ", " ")).rstrip(".")
    plain = re.sub(r":00(?=[ap]m\Z)", "", plain.replace("percent", "%"))
    plain = re.sub(rf"\A(\d{{1,2}})({_MONTH})\Z", r"\2\1", plain)
    return re.sub(rf"\A({_MONTH})\.?(?=\d)", lambda month: month[1][:3], plain)


def _is_later(one: Statement, other: Statement) -> bool:
    """Whether the same person said it later, as far as is known; what a model said settles nothing."""
    if one.speaker != other.speaker or one.speaker[0] != "user":
        return False
    for mine, theirs in ((one.at, other.at), (one.arrived, other.arrived)):
        if mine is not None and theirs is not None and mine != theirs:
            return mine > theirs
    return one.session is not None and one.session == other.session and one.seq > other.seq


def _differ(one: Mapping[str, frozenset[str]], other: Mapping[str, frozenset[str]], kinds: frozenset[str]) -> bool:
    return any(one[kind] - other[kind] and other[kind] - one[kind] for kind in kinds)
