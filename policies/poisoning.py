"""What is found and by whom it is vouched for, best first, in; what stays, in which order, and what counts once, out.

Three rules against planted text, none of which asks what is true:
- A claim of a tool, a page, a document or an untrusted import never stands beside a person's statement of the same
  thing: it counts behind it, however new and however often it is said.
- Near-copies of such a claim from one source, in nearly the same words, count once.
- One who says nearly the same three times and more within an hour, in nearly the same words or in quite other ones, has
  said it once, and what was said of it before goes first: repetition is no correction. Whoever changes their mind says
  so once or twice, and passes as ever. Notes of one form, with other names or numbers in it, say different things.

Fixed by `python -m bench.security_poison` against recall@10 of LoCoMo, BEAM-100K and MemSim, which it must leave alone.
Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Final

from policies.text import SIGNED_WORD

# How many of the best are looked at: what comes behind them is no answer any more.
DEPTH: Final = 24
# Cosine of a claim and a person's statement of the same thing. Of the pairs of a truth and five texts planted against
# it 5 % have less than .59 (a truth in the words of the question) to .66 (in prose).
SAME_THING: Final = 0.55
# Cosine of near-copies: of five texts planted for one question all but 2 % have more than .71.
SAME_WORDS: Final = 0.7
# Cosine of each two of what somebody says over and over. People who chat say much that is near to each other: with .7,
# .75, .8 LoCoMo's recall@10 is .796, .800, .802 (.802 without the rule, BEAM-100K .651 in all four), and the truth is
# first in .91, .90, .89 of the floods; .44 without.
COPY: Final = 0.8
# Cosine with the question of what is said over and over to answer it: of planted texts 5 % have less.
ASKED_MIN: Final = 0.5
# A statement answers a question as a claim does that is this much nearer to it.
FURTHER_MAX: Final = 0.25
COPIES_MIN: Final = 3
# Of the words of two texts so many are the same where one is a copy: "Number 7: my teapot has the name Halcyon7" and
# another number and name share .6. Set by hand: a fold of what differs loses what somebody said.
COPY_SHARE: Final = 0.8
# Of the pairs of words that follow each other two texts of one form share so many and more: notes, readings and reports
# that are near enough to be copies (COPY) .40 to .58; of texts planted for one question 5 % share more than .27.
FORM_SHARE: Final = 0.3
COPIES_WITHIN_S: Final = 3_600.0

VOUCHED: Final = frozenset({"admin", "user"})
UNVOUCHED: Final = frozenset({"tool", "web", "imported"})
# Ends of sentences: Latin, CJK, Devanagari, Arabic, Urdu; those of them that ask.
_ENDS: Final = ".!?\u3002\uff01\uff1f\u0964\u061f\u06d4"
_ASK_MARKS: Final = ("?", "\uff1f", "\u061f")
_SENTENCE: Final = re.compile(f"[^{_ENDS}\n]+[{_ENDS}]*")
_ASKS: Final = re.compile(
    r"\W*(?:please |can you |could you |would you |will you |now |then |also )*"
    r"(?:tell|show|explain|write|summari[sz]e|give|list|find|search|look up|help|describe|translate|check|read|open"
    r"|fetch|get|remind|make|create|generate|compare)\b",
    re.IGNORECASE,
)
_CHARS_READ: Final = 2_000
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Wording:
    """A text's words in small letters, those of them with a digit, and which follows which. Of no text: empty."""

    words: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, text: str) -> Wording:
        """Of the beginning of a text."""
        said = text[:_CHARS_READ].casefold()
        words = (_WORD if said.isascii() else SIGNED_WORD).findall(said)
        numbers = frozenset(word for word in words if not word.isalpha() and any(map(str.isdigit, word)))
        return cls(frozenset(words), numbers, frozenset(pairwise(words)))


@dataclass(frozen=True, slots=True)
class Claim:
    """One found text. `asked` is its cosine with the question, None without vectors; `said_at` and `arrived_at` are
    seconds, None where unknown; `source` is who said it where.
    """

    integrity: str
    states: bool
    source: object
    asked: float | None
    said_at: float | None
    arrived_at: float | None
    wording: Wording = Wording()


@dataclass(frozen=True, slots=True)
class Sifted:
    """Indices of the claims in the order to show them in, and for each left out the one that it counts behind."""

    order: list[int]
    behind: dict[int, int] = field(default_factory=dict)


def states(text: str) -> bool:
    """Whether a text states anything, beside what it asks and what it asks for."""
    for match in _SENTENCE.finditer(text[:_CHARS_READ]):
        said = match[0].strip()
        asking = said.endswith(_ASK_MARKS) or _ASKS.match(said) is not None
        if not asking and any(map(str.isalnum, said)):
            return True
    return False


def sift(claims: Sequence[Claim], near: Callable[[int, int], float]) -> Sifted:
    """What stays of the best claims; `near` is the cosine of two of them."""
    behind = _contested(claims, near)
    _count_copies_once(claims, near, behind)
    order = [at for at in range(len(claims)) if at not in behind]
    return _without_flood(claims, near, order, behind)


def _contested(claims: Sequence[Claim], near: Callable[[int, int], float]) -> dict[int, int]:
    """Claims nobody vouches for, each behind the best statement of a person that is about the same."""
    persons = [at for at, one in enumerate(claims) if one.integrity in VOUCHED and one.states]
    behind: dict[int, int] = {}
    for at, one in enumerate(claims):
        if one.integrity in UNVOUCHED:
            holds = (person for person in persons if _answers(claims[person], one) and near(person, at) >= SAME_THING)
            if (found := next(holds, None)) is not None:
                behind[at] = found
    return behind


def _answers(statement: Claim, claim: Claim) -> bool:
    """Whether a statement is about as near to the question as the claim is."""
    if statement.asked is None or claim.asked is None:
        return True
    return statement.asked >= claim.asked - FURTHER_MAX


def _count_copies_once(claims: Sequence[Claim], near: Callable[[int, int], float], behind: dict[int, int]) -> None:
    """Of near-copies nobody vouches for, from one source, the best stays."""
    kept: list[int] = []
    for at, one in enumerate(claims):
        if one.integrity not in UNVOUCHED or at in behind:
            continue
        same = (
            other
            for other in kept
            if (one.source == claims[other].source or _at_one_time(one, claims[other]))
            and near(other, at) >= SAME_WORDS
            and _alike(one.wording, claims[other].wording)
        )
        if (found := next(same, None)) is None:
            kept.append(at)
        else:
            behind[at] = found


def _without_flood(
    claims: Sequence[Claim], near: Callable[[int, int], float], order: list[int], behind: dict[int, int]
) -> Sifted:
    """Before what one person said over and over within an hour: what was said of it first; of the copies the best."""
    said = [at for at in order if claims[at].integrity in VOUCHED and claims[at].states]
    asked = [at for at in said if (claims[at].asked or 0.0) >= ASKED_MIN]

    @cache
    def again(one: int, other: int) -> bool:
        return near(one, other) >= COPY and _is_said_again(claims[one], claims[other])

    for best in asked:
        copies = [] if best in behind else _copies(best, [at for at in asked if at not in behind], again)
        if len(copies) < COPIES_MIN:
            continue
        like = [at for at in said if at in copies or (at not in behind and near(best, at) >= SAME_WORDS)]
        oldest = min(like, key=lambda at: _when(claims[at]))
        behind |= {at: best for at in copies if at not in (best, oldest)}
        order = [at for at in order if at not in behind and at != oldest]
        order.insert(order.index(best) if best != oldest else min(best, len(order)), oldest)
    return Sifted(order, behind)


def _copies(best: int, said: Sequence[int], again: Callable[[int, int], bool]) -> list[int]:
    """Those of which each says again what each other says, `best` first; `again` is asked of the lower one first."""
    copies = [best]
    for at in said:
        if at != best and all(again(min(at, one), max(at, one)) for one in copies):
            copies.append(at)
    return copies


def _is_said_again(one: Claim, other: Claim) -> bool:
    """Of two texts that mean nearly the same: whether one repeats the other within an hour."""
    return _at_one_time(one, other) and _says_again(one.wording, other.wording)


def _alike(one: Wording, other: Wording) -> bool:
    """Whether they say it in nearly the same words: vectors alone take readings and notes of one form for copies."""
    return _share(one.words, other.words) >= COPY_SHARE


def _says_again(one: Wording, other: Wording) -> bool:
    """Of two texts that mean nearly the same: whether they are one text, or so unlike that none is a form of both."""
    if _alike(one, other):
        return True
    return not _counts_differ(one, other) and _share(one.pairs, other.pairs) < FORM_SHARE


def _counts_differ(one: Wording, other: Wording) -> bool:
    """Whether each names a number that the other does not."""
    return bool(one.numbers - other.numbers) and bool(other.numbers - one.numbers)


def _share(one: frozenset[Any], other: frozenset[Any]) -> float:
    """What is in both, of what is in either; 1 where there is nothing."""
    both = len(one & other)
    return both / (len(one) + len(other) - both) if one or other else 1.0


def _when(one: Claim) -> tuple[float, float]:
    """The order in which it reached us; said to have happened at one time, by that."""
    unknown = float("inf")
    return (
        unknown if one.arrived_at is None else one.arrived_at,
        unknown if one.said_at is None else one.said_at,
    )


def _at_one_time(one: Claim, other: Claim) -> bool:
    """Whether both were said, and came in, within an hour; what is not known of either says nothing."""
    pairs = ((one.said_at, other.said_at), (one.arrived_at, other.arrived_at))
    known = [abs(mine - theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    return bool(known) and max(known) <= COPIES_WITHIN_S
