"""When a question speaks of: its words and two clocks in, a span of time out.

"in May 2023", "on 21 January, 2022", "last week", "three days ago", "on Tuesday". A day or month without a year is the
latest one that the conversation reaches; what is relative ("yesterday") counts from now. English; UTC; the first
expression found counts. What is said of a time is often said a little later, so the caller widens the end. Pure;
refuses nothing, an impossible date is no date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

_MONTHS: Final = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())  # noqa: SIM905
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBERS: Final = {
    word: number
    for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)  # noqa: SIM905
} | {"a": 1, "an": 1, "couple": 2, "few": 3}
_MONTH: Final = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_YEAR: Final = r"((?:19|20)\d\d)"
_DAY: Final = r"(\d{1,2})(?:st|nd|rd|th)?"
_WEEKDAY: Final = r"(mon|tues|wednes|thurs|fri|satur|sun)day"
_COUNT: Final = rf"(\d{{1,3}}|{'|'.join(_NUMBERS)})(?: of)?"
# People speak of a thing on its day or within days: of 110 questions of the shared sets that name a time 93 have
# evidence of that very time, 101 with a week added, 102 with two.
SAID_AFTER: Final = timedelta(days=7)
_OURS: Final = re.compile(r"\b(?:i|we|my|our|happen\w*|said|talk\w*|discuss\w*|told|tell you)\b")
_ONE_DAY: Final = timedelta(days=1)
_LEAP_YEARS_MAX: Final = 8  # between two of them


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` to before `end`."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class _Clocks:
    """Now, and the last moment the conversation reaches."""

    now: datetime
    last: datetime

    @property
    def today(self) -> datetime:
        return self.now.replace(hour=0, minute=0, second=0, microsecond=0)


_Read = Callable[[Sequence[str], _Clocks], Span]


def asks_what_was(query: str) -> bool:
    """Whether a question is about what the asker did or said, not "how are you today?" or "the weather tomorrow"."""
    return _OURS.search(query.casefold()) is not None


def names_time(query: str) -> bool:
    """Whether a question may name a time; where not, `asked_span` finds none, whatever the clocks say."""
    said = query.casefold()
    return any(pattern.search(said) for pattern, _ in _EXPRESSIONS)


def asked_span(query: str, now: datetime, last: datetime) -> Span | None:
    """The time that a question names; None where it names none. `last` is when the newest memory happened."""
    said = query.casefold()
    clocks = _Clocks(now.astimezone(UTC), last.astimezone(UTC))
    for pattern, read in _EXPRESSIONS:
        if found := pattern.search(said):
            try:
                return read([group or "" for group in found.groups()], clocks)
            except (ValueError, OverflowError):  # the 31st of June, the year 2024 with 400 months taken off
                continue
    return None


def _day(year: int, month: int, day: int) -> Span:
    start = datetime(year, month, day, tzinfo=UTC)
    return Span(start, start + _ONE_DAY)


def _month(year: int, month: int) -> Span:
    return Span(datetime(year, month, 1, tzinfo=UTC), datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC))


def _number(name: str) -> int:
    return _MONTHS.index(name[:3]) + 1


def _latest(make: Callable[[int], Span], last: datetime) -> Span:
    """The latest one that the conversation reaches: of this year or the one before, the 29th of February of another.
    Raises ValueError for a day that no year has.
    """
    for year in range(last.year, last.year - _LEAP_YEARS_MAX - 1, -1):
        with suppress(ValueError):
            if (span := make(year)).start <= last:
                return span
    raise ValueError("no such day")


def _ago(parts: Sequence[str], clocks: _Clocks) -> Span:
    """ "three weeks ago": the day, week, month or year that lies so far back."""
    count = int(parts[0]) if parts[0].isdigit() else _NUMBERS[parts[0]]
    today = clocks.today
    if parts[1] == "day":
        return Span(today - count * _ONE_DAY, today - (count - 1) * _ONE_DAY)
    if parts[1] == "week":
        start = today - timedelta(weeks=count, days=3)
        return Span(start, start + timedelta(days=7))
    months = today.year * 12 + today.month - 1 - count * (12 if parts[1] == "year" else 1)
    return _month(months // 12, months % 12 + 1)


def _this_or_last(parts: Sequence[str], clocks: _Clocks) -> Span:
    """ "last week", "this month", "past year"."""
    today, back = clocks.today, 0 if parts[0] == "this" else 1
    if parts[1].startswith("week"):
        start = today - timedelta(days=today.weekday() + 7 * back)
        return (
            Span(start + 5 * _ONE_DAY, start + 7 * _ONE_DAY)
            if parts[1] == "weekend"
            else Span(start, start + 7 * _ONE_DAY)
        )
    if parts[1] == "month":
        months = today.year * 12 + today.month - 1 - back
        return _month(months // 12, months % 12 + 1)
    return Span(datetime(today.year - back, 1, 1, tzinfo=UTC), datetime(today.year - back + 1, 1, 1, tzinfo=UTC))


def _weekday(parts: Sequence[str], clocks: _Clocks) -> Span:
    """The latest such day before today."""
    back = (clocks.today.weekday() - _DAYS.index(parts[0][:3]) - 1) % 7 + 1
    start = clocks.today - back * _ONE_DAY
    return Span(start, start + _ONE_DAY)


def _said_day(parts: Sequence[str], clocks: _Clocks) -> Span:
    start = clocks.today - (_ONE_DAY if parts[0] in ("yesterday", "last night") else timedelta(0))
    return Span(start, start + _ONE_DAY)


_EXPRESSIONS: Final[Sequence[tuple[re.Pattern[str], _Read]]] = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        (rf"\b{_YEAR}-(\d\d)-(\d\d)\b", lambda p, _: _day(int(p[0]), int(p[1]), int(p[2]))),
        (rf"\b{_DAY} (?:of )?{_MONTH},? {_YEAR}\b", lambda p, _: _day(int(p[2]), _number(p[1]), int(p[0]))),
        (rf"\b{_MONTH} {_DAY},? {_YEAR}\b", lambda p, _: _day(int(p[2]), _number(p[0]), int(p[1]))),
        (rf"\b{_MONTH},? (?:of )?{_YEAR}\b", lambda p, _: _month(int(p[1]), _number(p[0]))),
        (rf"\b{_DAY} (?:of )?{_MONTH}\b", lambda p, c: _latest(lambda y: _day(y, _number(p[1]), int(p[0])), c.last)),
        (rf"\b{_MONTH} {_DAY}\b", lambda p, c: _latest(lambda y: _day(y, _number(p[0]), int(p[1])), c.last)),
        (rf"\b(?:in|last|during|since) {_MONTH}\b", lambda p, c: _latest(lambda y: _month(y, _number(p[0])), c.last)),
        (rf"\b(?:in|during|of) {_YEAR}\b", lambda p, _: Span(_month(int(p[0]), 1).start, _month(int(p[0]), 12).end)),
        (rf"\b{_COUNT} (day|week|month|year)s? ago\b", _ago),
        (r"\b(this|last|past) (weekend|week|month|year)\b", _this_or_last),
        (rf"\b(?:on|last|this past) {_WEEKDAY}\b", _weekday),
        (r"\b(yesterday|last night|today|this morning|tonight)\b", _said_day),
        (
            r"\b(?:(?:last|previous) (?:time|conversation|session|chat)|we last (?:spoke|talked))\b",
            lambda _, c: Span(c.last - _ONE_DAY, c.last + _ONE_DAY),
        ),
        (r"\b(?:recently|lately)\b", lambda _, c: Span(c.last - 14 * _ONE_DAY, c.last + _ONE_DAY)),
    )
)
