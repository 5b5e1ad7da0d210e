"""How long a memory lives: its kind and its use in; when it ends, when it is looked at again, what goes first out.

Each question is a pure function; every moment is an argument.
* `expires_at`: until when a memory born now is in answers at all. `ended_before`: what ended so long ago that its row
  may go, which is never while a request of that time can still be rebuilt.
* `review_due_at`: when somebody should look whether a fact still holds.
* `worth`: how likely a memory is to be asked for again; under a bound what is least likely goes first (`Cut`).
* `latest_due`: when a daily run should last have begun. `whole_months_before`: what is old by whole months.

Refuses nothing; numbers outside their range are taken as the nearest in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

DaysOf = Mapping[str, float | None]
"""Days by kind of memory, or by category of fact; None or absent: for ever."""

UNDO_DAYS: Final = 30.0
"""A memory that was hidden, by whomever, can be shown again so long (DESIGN section 2)."""
UNDO: Final = timedelta(days=UNDO_DAYS)
FIRST_SAYINGS_KEPT: Final = 8
LATEST_SAYINGS_KEPT: Final = 56
"""Of one fact: what ruling on it reads (docs/decisions/0009). Those between them decide nothing."""

# An hour: what was used a moment ago is as good as certain to be needed, and 1/sqrt(0) is no number.
_AGE_DAYS_MIN: Final = 1 / 24
_IMPORTANCE: Final = (0.01, 0.99)
_BINS: Final = 64  # of worth, to one unit of log odds


@dataclass(frozen=True, slots=True)
class Use:
    """What is known of how a memory is used. `used_at`: when it was last placed in a prompt."""

    memory_id: UUID
    scope_id: int
    bytes: int
    importance: float
    injected: int
    born_at: datetime
    used_at: datetime | None


def never_deleted(what: str) -> str:
    """What is said where there is none that can be brought back, or none that the caller may know of."""
    return f"no such {what} was deleted in the last {UNDO.days} days"


def expires_at(kind: str, born: datetime, days_of: DaysOf) -> datetime | None:
    """When a memory of this kind that is stored now leaves all answers; None: never."""
    return _after(born, days_of.get(kind))


def review_due_at(category: str, seen_at: datetime, days_of: DaysOf) -> datetime | None:
    """When a fact that was last said or reviewed at `seen_at` is to be looked at again; None: never."""
    return _after(seen_at, days_of.get(category))


def ended_before(now: datetime, keep_days: float, replay_days: float) -> datetime:
    """What ended before this may be erased. A request of the last `replay_days` may still be asked for as of then, and
    what was visible at any such moment ended later than this.
    """
    return now - timedelta(days=max(keep_days, replay_days))


def latest_due(at: str, now: datetime) -> datetime:
    """The last time that a daily clock of `at` ("HH:MM", in the zone of `now`) struck."""
    hour, minute = (int(part) for part in at.split(":"))
    today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)


def whole_months_before(now: datetime, days: float) -> datetime:
    """The beginning of the month of `days` ago: of a month that ends behind it nothing is that old yet, so that a run
    of each night does not find it a day at a time.
    """
    return (now - timedelta(days=days)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def worth(use: Use, now: datetime) -> float:
    """Log odds that a memory is needed next, any number: larger is kept longer.

    By Bayes need odds are prior odds times history odds. The prior is its importance. History is the base level of
    Anderson and Schooler (Psychological Science 2, 1991: the odds that a thing is needed fall with the age of each
    past need as a power law, d = .5), in Petrov's form with one exact term (ICCM 2006): of `n` needs over a life of
    `L` days, the latest `t` days ago, ln(t^-.5 + 2 (n - 1) / (L^.5 + t^.5)). Being said is the first need, each
    injection one more.
    """
    life = max(_days(now - use.born_at), _AGE_DAYS_MIN)
    last = life if use.used_at is None else min(max(_days(now - use.used_at), _AGE_DAYS_MIN), life)
    least, most = _IMPORTANCE
    important = min(max(use.importance, least), most)
    needs = max(use.injected, 0)
    base = last**-0.5 + 2 * needs / (life**0.5 + last**0.5)
    return math.log(base) + math.log(important / (1 - important))


@dataclass(slots=True)
class Cut:
    """Which memories go under a bound: all are counted by their worth first, then the lowest go, in any order.

    Worth is counted in bins of 1/64 (odds that differ by 1.6 %), so what is held between two looks is small and can be
    written down; within the last bin those go that come first. `at`: the moment that worth is told for.
    """

    at: datetime
    bytes: int = 0  # of all that were counted
    bins: dict[int, tuple[int, int]] = field(default_factory=dict)  # rows and bytes of those that may go
    upto: int | None = None  # settled: what lies below goes,
    rows_left: int = 0  # and of this bin so many rows and bytes
    bytes_left: int = 0

    def count(self, use: Use, *, may_go: bool) -> None:
        """One that is there."""
        self.bytes += use.bytes
        if may_go:
            number = self._bin(use)
            rows, size = self.bins.get(number, (0, 0))
            self.bins[number] = (rows + 1, size + use.bytes)

    def settle(self, rows_over: int, bytes_over: int) -> None:
        """All are counted: the lowest bins that together take away so many rows and so many bytes, or all of them."""
        for number, (rows, size) in sorted(self.bins.items()):
            if rows_over <= 0 and bytes_over <= 0:
                break
            self.upto, self.rows_left, self.bytes_left = number, rows_over, bytes_over
            rows_over, bytes_over = rows_over - rows, bytes_over - size
        self.bins = {}

    def takes(self, use: Use) -> bool:
        """Whether this one goes; asked once of each."""
        if self.upto is None or (number := self._bin(use)) > self.upto:
            return False
        if number < self.upto:
            return True
        if self.rows_left <= 0 and self.bytes_left <= 0:
            return False
        self.rows_left, self.bytes_left = self.rows_left - 1, self.bytes_left - use.bytes
        return True

    def as_json(self) -> list[Any]:
        """To go on from with `of_json`."""
        bins = [[number, *held] for number, held in self.bins.items()]
        return [self.at.isoformat(), self.bytes, bins, self.upto, self.rows_left, self.bytes_left]

    @classmethod
    def of_json(cls, written: list[Any]) -> Cut:
        """As it was written down."""
        at, size, bins, *rest = written
        return cls(datetime.fromisoformat(at), size, {number: (rows, held) for number, rows, held in bins}, *rest)

    def _bin(self, use: Use) -> int:
        return math.floor(worth(use, self.at) * _BINS)


def _after(moment: datetime, days: float | None) -> datetime | None:
    return None if days is None else moment + timedelta(days=days)


def _days(span: timedelta) -> float:
    return span.total_seconds() / 86_400
