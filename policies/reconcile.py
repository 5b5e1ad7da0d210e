"""What is true of one subject and predicate: everything that was said of it in, what each statement is now out.

`settle` hears all sayings of one key in the order in which they were said and rules on each, so the outcome follows
from what was said and when, never from the order in which it reached us: imports come late, workers race.

* Two statements contradict each other when one denies what the other asserts, or when both assert an object of a
  predicate that has one object at a time, of one aspect (policies/fact.py): where a saying may mean several things,
  it means the one that was spoken of last. The later one holds; one of lower integrity never displaces a higher one
  (admin > user > assistant > tool > web > imported), it is kept and disputed.
* A correction by a person stands against its own repetition: while it is in force, a value that was said before it
  comes back only by another correction, a denial of the corrected value, or a change (valid since after the
  correction). A value not heard before the correction is a change by itself.
* A denial ("no longer") ends its object and puts nothing in its place; what held before that does not come back.
* A statement has the best integrity of its sayings (independent confirmation raises it) and the highest sensitivity.

Pure. Refuses nothing; a fact that cannot be stored is named by `unfit`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from policies.fact import Aspect, Cardinality, Fact
from policies.labels import Integrity, Sensitivity, derived_sensitivity
from policies.text import storable

State = Literal["current", "superseded", "disputed", "past"]
Reason = Literal["newer value", "corrected by the user", "no longer", "contradiction"]
Unfit = Literal["no span", "empty", "too long", "not their words"]

# A key must fit into an index row (2,704 bytes; a character has at most four), an object into an answer.
SUBJECT_CHARS_MAX: Final = 300
PREDICATE_CHARS_MAX: Final = 100
OBJECT_CHARS_MAX: Final = 2_000
_CHARS_MAX: Final = (SUBJECT_CHARS_MAX, PREDICATE_CHARS_MAX, OBJECT_CHARS_MAX)
_RANK: Final = {label: rank for rank, label in enumerate(Integrity)}
_AFTER: Final = timedelta(microseconds=1)
_PLAIN: Final = Aspect()


@dataclass(frozen=True, slots=True)
class Statement:
    """What is said of a key, whoever says it and how often. Cardinality is that of its first saying."""

    object: str
    negated: bool = False
    cardinality: Cardinality = "many"


@dataclass(frozen=True, slots=True)
class Saying:
    """One time that a statement was made. `seq` and `at` (its place in the text) part what was said in one moment."""

    statement: Statement
    said_at: datetime
    integrity: Integrity
    seq: int = 0
    at: int = 0
    correction: bool = False
    sensitivity: Sensitivity = Sensitivity.INTERNAL
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    aspect: Aspect = _PLAIN

    @property
    def begins(self) -> datetime:
        """Since when it holds in the world."""
        return self.valid_from or self.said_at

    @property
    def corrects(self) -> bool:
        """Only a person corrects; what a machine puts right is one more statement of its own integrity."""
        return self.correction and self.integrity in (Integrity.ADMIN, Integrity.USER)

    @property
    def looks_back(self) -> bool:
        """It says what was ("until 2020") and nothing of what is."""
        return self.valid_to is not None and self.valid_to <= self.said_at

    def outranks(self, other: Saying) -> bool:
        """Whether its word counts for more."""
        return _RANK[self.integrity] < _RANK[other.integrity]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a statement is now. `since` began its present run, `last` is its latest saying.

    `superseded`: said otherwise by `by`, which may be the statement itself, when its end was told in its own words.
    """

    state: State
    since: Saying
    last: Saying
    integrity: Integrity
    sensitivity: Sensitivity
    until: datetime | None = None  # end of its validity in the world; None: open
    by: Statement | None = None
    reason: Reason | None = None
    aspect: Aspect = _PLAIN  # of the saying that is in force


def fact_key(subject: str, predicate: str) -> tuple[str, str]:
    """What facts are compared under."""
    return _normal(subject), _normal(predicate)


def statement_of(fact: Fact) -> Statement:
    """What a fact says of its key."""
    return Statement(_normal(fact.object), fact.negated, fact.cardinality)


def content_words(fact: Fact) -> tuple[str, str, str, str]:
    """What makes two facts the same one: subject, predicate, object, and whether it is denied."""
    return (*fact_key(fact.subject, fact.predicate), _normal(fact.object), "not" if fact.negated else "")


def content_key(fact: Fact) -> bytes:
    """32 bytes that are equal for the same fact said again. Its words lie open beside it, so it needs no secret."""
    made = hashlib.sha256(b"fact")
    for word in content_words(fact):
        raw = word.encode("utf-8", "surrogatepass")
        made.update(len(raw).to_bytes(4, "big") + raw)
    return made.digest()


def unfit(fact: Fact, text: str, role: str) -> Unfit | None:
    """Why a fact cannot rest on this text, said in this role; None when it can."""
    start, end = fact.span
    if not 0 <= start < end <= len(text) or not text[start:end].strip():
        return "no span"
    words = content_words(fact)
    if not all(words[:3]):
        return "empty"
    if any(len(word) > most for word, most in zip(words[:3], _CHARS_MAX, strict=True)):
        return "too long"
    return "not their words" if words[0] == "user" and role != "user" else None


def moment(
    occurred_at: datetime, *, live: bool, behind: datetime | None, key_last: datetime | None, now: datetime
) -> datetime:
    """When a saying counts as said. Dates of an import are its own, but none lies after `now`, when it is stored.

    Live, the clock may jump and the order may not: nothing is said before the turns that it was said behind (`behind`:
    the latest of them), and what the key heard from after `now` (`key_last`) was dated by a clock that has been put
    back since, so a later saying is placed behind it. What else its session has heard by now says nothing: an exchange
    may arrive late.
    """
    if not live:
        return min(occurred_at, now)
    at = occurred_at if behind is None else max(occurred_at, min(behind, now))
    return max(at, key_last + _AFTER) if key_last is not None and key_last > now else at


def settle(sayings: Iterable[Saying]) -> dict[Statement, Standing]:
    """What each statement of one key is now, by everything that was said of the key. O(n * statements in force)."""
    ordered = sorted(sayings, key=_order)
    ruling = _Ruling()
    for saying in ordered:
        ruling.hear(saying)
    of: dict[Statement, list[Saying]] = {}
    for saying in ordered:
        of.setdefault(saying.statement, []).append(saying)
    return {
        statement: replace(
            standing,
            last=of[statement][-1],
            integrity=min((one.integrity for one in of[statement]), key=_RANK.__getitem__),
            sensitivity=derived_sensitivity(one.sensitivity for one in of[statement]),
        )
        for statement, standing in ruling.found.items()
    }


def concerned(known: Iterable[Statement], asked: Iterable[str]) -> frozenset[str]:
    """The objects to rule on when these are asked about: they and, since they exclude each other, all of one place."""
    return frozenset(asked) | {one.object for one in known if one.cardinality == "one"}


def contradict(one: Statement, other: Statement) -> bool:
    """Whether both cannot hold."""
    if one.object == other.object:
        return one.negated != other.negated
    return not (one.negated or other.negated) and one.cardinality == other.cardinality == "one"


def excludes(saying: Saying, earlier: Saying) -> bool:
    """Whether what is said cannot hold beside what was said before of the same key."""
    one, other = saying.statement, earlier.statement
    return contradict(one, other) and (one.object == other.object or saying.aspect.replaces(earlier.aspect))


@dataclass(slots=True)
class _Ruling:
    """The state of one key while its sayings are heard in order."""

    found: dict[Statement, Standing] = field(default_factory=dict)
    in_force: dict[Statement, Saying] = field(default_factory=dict)
    disputed: dict[Statement, Saying] = field(default_factory=dict)
    heard: dict[Statement, Saying] = field(default_factory=dict)  # the weightiest saying of each assertion
    # What a correction in force has put right: it, and what had been asserted against it by then.
    put_right: dict[Statement, tuple[Saying, Mapping[Statement, Saying]]] = field(default_factory=dict)

    def hear(self, saying: Saying) -> None:
        statement = saying.statement
        if saying.looks_back:
            self._tell_of_the_past(saying)
        else:
            rivals = self._rivals(saying)
            above = next((one for one in rivals if one.outranks(saying)), None)
            corrected = next((one for one in rivals if self._stands_against(one, saying)), None)
            if above is not None:
                self._lose(saying, Standing("disputed", *_of(saying), by=above.statement))
            elif corrected is not None:
                never = Standing(
                    "superseded", *_of(saying), saying.begins, corrected.statement, "corrected by the user"
                )
                self._lose(saying, never)
            else:
                self._take(saying, rivals)
        if not statement.negated and not (statement in self.heard and self.heard[statement].outranks(saying)):
            self.heard[statement] = saying

    def _rivals(self, saying: Saying) -> list[Saying]:
        """What is in force and cannot be beside it: all of its very aspect, else the latest that may be meant."""
        found = [one for one in self.in_force.values() if excludes(saying, one)]
        objects = [one for one in found if one.statement.object != saying.statement.object]
        named = [one for one in objects if one.aspect.of == saying.aspect.of]
        meant = named or sorted(objects, key=_order)[-1:]
        return [one for one in found if one.statement.object == saying.statement.object or one in meant]

    def _stands_against(self, rival: Saying, saying: Saying) -> bool:
        """Whether the rival is a correction that this saying only repeats the old value against."""
        correction, old = self.put_right.get(rival.statement, (None, {}))
        if correction is None or saying.corrects or saying.statement.negated or saying.outranks(correction):
            return False
        said = old.get(saying.statement)
        if said is None or saying.outranks(said):
            return False
        return saying.valid_from is None or saying.valid_from <= correction.said_at

    def _take(self, saying: Saying, rivals: list[Saying]) -> None:
        """It holds, and what it contradicts does not any more."""
        statement = saying.statement
        beaten = [one for one in self.disputed.values() if excludes(saying, one)]
        for one in (*rivals, *(one for one in beaten if not one.outranks(saying))):
            reason, was = _reason(saying, one), self.found[one.statement]
            self.found[one.statement] = Standing(
                "superseded", *_of(was.since), _end(saying, was, reason), statement, reason
            )
            self._leaves(one.statement)
        before = self.in_force.get(statement)
        held = saying if before is None or not before.outranks(saying) else before
        since, until = saying, saying.valid_to
        if before is not None and not self._is_over(statement, saying):
            since, until = self.found[statement].since, held.valid_to or self.found[statement].until
        self.in_force[statement] = held
        self.found[statement] = Standing("current", *_of(since), until, aspect=held.aspect)
        self.disputed.pop(statement, None)
        if saying.corrects:
            old = {one: said for one, said in self.heard.items() if excludes(saying, said)}
            self.put_right[statement] = (saying, old)

    def _is_over(self, statement: Statement, saying: Saying) -> bool:
        """Whether the run that a statement is in has come to its end by the time of a saying."""
        until = self.found[statement].until
        return until is not None and until <= saying.said_at

    def _lose(self, saying: Saying, standing: Standing) -> None:
        """It does not hold. What was ruled on the statement before stays, unless that was only disputed."""
        known = self.found.get(saying.statement)
        if known is not None and known.state != "disputed":
            return
        if standing.state == "superseded" or known is None:
            self.found[saying.statement] = standing
        if standing.state == "disputed":
            self.disputed[saying.statement] = saying
        else:
            self.disputed.pop(saying.statement, None)

    def _tell_of_the_past(self, saying: Saying) -> None:
        """Ends its own statement where that is in force; else it is a memory of what was, beside all others."""
        statement = saying.statement
        held = self.in_force.get(statement)
        if held is not None and not held.outranks(saying):
            since = self.found[statement].since
            self.found[statement] = Standing("superseded", *_of(since), saying.valid_to, statement, "no longer")
            self._leaves(statement)
        elif statement not in self.found:
            self.found[statement] = Standing("past", *_of(saying), saying.valid_to)

    def _leaves(self, statement: Statement) -> None:
        self.in_force.pop(statement, None)
        self.disputed.pop(statement, None)
        self.put_right.pop(statement, None)


def _of(saying: Saying) -> tuple[Saying, Saying, Integrity, Sensitivity]:
    return saying, saying, saying.integrity, saying.sensitivity


def _reason(saying: Saying, beaten: Saying) -> Reason:
    if saying.corrects:
        return "corrected by the user"
    if saying.statement.negated:
        return "no longer"
    return "contradiction" if saying.outranks(beaten) else "newer value"


def _end(saying: Saying, beaten: Standing, reason: Reason) -> datetime:
    """When the beaten one ceased to hold; what was put right never held, so its validity is empty."""
    begins = beaten.since.begins
    if reason == "corrected by the user":
        return begins
    end = max(begins, saying.begins)
    return end if beaten.until is None else min(end, beaten.until)


def _order(saying: Saying) -> tuple[object, ...]:
    """The order in which sayings were made, total, so that no tie is left to the order of arrival."""
    one = saying.statement
    told = (one.negated, one.object, one.cardinality, saying.correction, _RANK[saying.integrity])
    of = (saying.aspect.of, saying.aspect.unit, saying.aspect.of_many, saying.aspect.changed)
    return (saying.said_at, saying.seq, saying.at, *told, *of, str(saying.valid_from), str(saying.valid_to))


def _normal(text: str) -> str:
    return " ".join(storable(text).casefold().split())
