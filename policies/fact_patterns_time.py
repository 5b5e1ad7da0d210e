"""Values in a sentence, and what they mean: dates, clocks, money, shares, versions, counts.

A covered text in; the same text with every value covered by a letter of its kind, and the values, out. So a pattern
for "is now <date>" is one character class, and offsets stay the text's own. A date is resolved against when it is said:
the nearest one to come for a weekday; for a day without its year the nearest, rather one to come. Pure;
refuses nothing, an impossible date has no meaning but keeps its words.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Final

from policies.fact_patterns_time_elsewhere import in_english
from policies.fact_worded import lowered
from policies.timespan import Span, asked_span

# The letters that stand for values, from the private use area.
DATE, MONEY, SHARE, VERSION, NUMBER, RATIO, MEASURE, OFF = (chr(0xE001 + kind) for kind in range(8))
ANY_VALUE: Final = f"{DATE}-{OFF}"

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_CLOCK: Final = (
    r"(?:\d{1,2}(?::\d\d)?\s?(?:am|pm|a\.m\.|p\.m\.)|\d{1,2}:\d\d|noon|midnight)(?:\s(?:CET|CEST|UTC|GMT"
    r"|[ECMP][SD]T)\b)?"
)
_DAY: Final = (
    rf"(?:{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?!\d)(?:,? (?:19|20)\d\d)?|\d{{1,2}}(?:st|nd|rd"
    rf"|th)? (?:of )?{_MONTH}(?:,? (?:19|20)\d\d)?"
    rf"|\d{{4}}-\d\d-\d\d|\d{{1,2}}/\d{{1,2}}/\d{{2,4}}|(?<=on )\d{{1,2}}/\d{{1,2}}|(?<=by )\d{{1,2}}/\d{{1,2}}"
    rf"|{_MONTH},? (?:19|20)\d\d|(?:(?:next|this|coming) )?{_WEEKDAY}(?:,? {_MONTH} \d{{1,2}}(?:st|nd|rd|th)?)?"
    r"|(?:next|this) (?:week|month|weekend)|tomorrow|tonight"
    # "The 21st", which is no place in a row: "on the 2nd floor".
    r"|(?:(?<=on )|(?<=to )|(?<=by )|(?<=is )|(?<=for )|(?<=from ))the \d{1,2}(?:st|nd|rd|th)"
    r"(?=[^\w\s-]|\s*$|,? (?:at|because|and|but|so|instead|now|not|since|due|with|as|if|or|to|i|we|it|it's)\b))"
)
# "Every Friday at 3 pm", "Thursdays", "Monday mornings": each week.
_WEEKLY: Final = (
    rf"(?:(?:every|each) (?:single )?{_WEEKDAY}(?: (?:morning|afternoon|evening|night))?"
    rf"|{_WEEKDAY}s(?: (?:mornings?|afternoons?|evenings?|nights?))?"
    rf"|{_WEEKDAY} (?:mornings|afternoons|evenings|nights))"
)
_NUMBER_WORDS: Final[Mapping[str, int]] = {
    word: number
    for number, word in enumerate("two three four five six seven eight nine ten eleven twelve".split(), 2)  # noqa: SIM905
} | {"fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "hundred": 100}
_SCALE: Final = {"k": 1e3, "thousand": 1e3, "lakh": 1e5, "m": 1e6, "million": 1e6, "crore": 1e7, "billion": 1e9}
_SCALES: Final = "|".join(_SCALE)
# "5.000", "1 000 000": thousands are parted by points or blanks where sums are in euros.
_GROUPED: Final = r"\d{1,3}(?:(?:\.\d{3}){1,4}|(?: \d{3}){1,4})"
# In this order: what one takes is no value of a later kind. None is without a digit or one of the words beside it.
_VALUES: Final = (
    (DATE, "day noon midnight tomorrow tonight week month",
    rf"\b(?:{_WEEKLY}|{_DAY})(?:,? (?:at |around |by |from )?{_CLOCK})?(?!\w)|\b{_CLOCK} (?:on )?{_DAY}(?!\w)"
    rf"|\b{_CLOCK}(?!\w)"),
    (MONEY, "", rf"€ ?{_GROUPED}(?:,\d\d)?(?!\d)|[$€£¥] ?\d+(?:,\d{{3}})*(?:\.\d+)?(?: ?(?:{_SCALES})\b)?"
    rf"|(?<![\d,.])(?:{_GROUPED}(?:[.,]\d\d)?(?!\d)|\d{{1,9}}(?:,\d{{3}})*(?:[.,]\d+)?)"
    rf" ?(?:(?:{_SCALES}) ?)?(?:€|£|(?:dollars|euros|pounds|usd|eur|gbp|chf|(?:swiss )?francs|rupees|inr)\b)"),
    (SHARE, "", r"(?<![\w.,])\d{1,3}(?:[.,]\d+)? ?(?:%|percent\b|per cent\b)"),
    (VERSION, "", r"\bv\d+(?:\.\d+)*\b(?:-\w+)?|(?<![\w.,])\d+\.\d+\.\d+(?:-?[a-z]+\d*)?(?![\w.]*\d)"
    r"|(?<=python )\d+\.\d+|(?<=version )\d+(?:\.\d+)*"),
    (MEASURE, "", r"(?<![\w.,:/-])\d+(?:[.,]\d+)* ?(?:kg|lbs?|pounds|stone|grams|cm|mm|km|meters|metres|miles|feet"
    r"|inches|ms|seconds|minutes"
    r"|mins|hours|days|weeks|months|years|gb|mb|kb|tb|px|mph|points|degrees|°[cf])\b(?!-)"),
    (RATIO, "", r"(?<![\w./])\d+ ?(?:/| out of | of (?:the )?(?=\d)) ?\d+(?![\w/%])"),
    (NUMBER, " ".join(_NUMBER_WORDS), rf"(?<![\w.,:/-])\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?![\w%/-])"
    r"|(?<![\w.,:/-])\d+(?:\.\d+)?k?(?![\w%/:-]|[.,']\d)"
    rf"|\b(?:{'|'.join(_NUMBER_WORDS)})\b(?!-)"),
    # What takes the place of a day: "the gig is off"; "off the record" is no such thing.
    (OFF, "cancel off", r"\b(?:cancell?ed|called off)\b|(?:(?<=\bis )|(?<=['’]s )|(?<=\bare )|(?<=\bnow ))off(?=[,.;!)]|$| (?:now|again|after all|because|since|so)\b)"),  # noqa: E501
)  # fmt: skip
_COMPILED: Final = tuple((kind, words.split(), re.compile(one, re.IGNORECASE)) for kind, words, one in _VALUES)
_DIGIT: Final = re.compile(r"\d")
_SIGNS: Final = {
    "€": ("euros", "eur"), "£": ("pounds", "gbp"), "¥": ("yen", "jpy"), "CHF": ("chf", "francs"),
    "₹": ("rupees", "inr"), "$": ("dollars", "usd"),
}  # fmt: skip
_PARTED: Final = re.compile(rf"(?<![\d.,]){_GROUPED}(?!\d)")
# "80,5 kg"; of three digits behind it, it parts thousands.
_DECIMAL_COMMA: Final = re.compile(r"(?<=\d),(?=\d{1,2}(?!\d))")
_EACH_WEEK: Final = re.compile(
    rf"(?={_WEEKLY}(?!\w))(?:(?:every|each) (?:single )?)?(?P<day>[a-z]{{3}})", re.IGNORECASE
)
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ONE_DAY: Final = timedelta(days=1)
_SINCE: Final = re.compile(
    rf"\b(?:since|as of) (?:(?:last|early|late|mid) )?({_DAY}|{_MONTH}|(?:19|20)\d\d|yesterday"
    rf"|last (?:week|month|year)|today)\b",
    re.IGNORECASE,
)
_UNTIL: Final = re.compile(
    # "Monday through Friday" is every week.
    rf"(?<![nsir]day )\b(?:until|till|through|up to) (?:the end of )?({_DAY}|{_MONTH}|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
# "Until next year" ends where that begins, "until the end of next month" and "through next week" where that ends.
_UNTIL_PERIOD: Final = re.compile(
    r"\b(?:until|till|through|up to) (?:(the end of )(?:the |this )?|(?=next ))(next )?(week|month|year)\b",
    re.IGNORECASE,
)
_UP_TO_YEAR: Final = re.compile(r"\b(?:from|between) (?:19|20)\d\d (?:to|and) ((?:19|20)\d\d)\b", re.IGNORECASE)
_FOR: Final = re.compile(
    r"\bfor (?:about |around |over |almost |nearly |more than |the (?:last|past) )?(\d{1,2}|an?|two|three"
    r"|four|five|six|seven|eight|nine|ten|twelve|twenty) (day|week|month|year)s?\b(?! old)",
    re.IGNORECASE,
)
# "I moved to Rome for a year": that long, and not since.
_GOES: Final = re.compile(r"\b(?:moved|relocated|quit|stopped)\b", re.IGNORECASE)
_PAST: Final = re.compile(
    rf"\b(?:yesterday|last (?:week|month|year|weekend|{_WEEKDAY})|(?:\d{{1,3}}|an?|two|three|four|five|six"
    rf"|seven|eight|nine|ten|few|couple(?: of)?) (?:day|week|month|year)s? ago|in {_MONTH} (?:19|20)\d\d"
    rf"|in (?:19|20)\d\d|on {_MONTH} \d{{1,2}})\b",
    re.IGNORECASE,
)

_CALENDAR: Final = re.compile(rf"\b{_MONTH} \d|\d{{4}}|\d/\d", re.IGNORECASE)
_FROM_TODAY: Final = re.compile(
    rf"(?:next|this|coming) (?P<period>week|month)\b|(?:next|this) weekend|\b{_WEEKDAY}\b|tomorrow|tonight"
    r"|the \d"
)
_THIS: Final = re.compile(r"(?<!since )(?<!as of )(?<!earlier )(?<!later )\bthis (week|month|year)\b", re.IGNORECASE)
_OF_THIS_BEHIND: Final = re.compile(r",? (?:for |in )?this (week|month|year)\b(?!'s)", re.IGNORECASE)
_OF_THIS_BEFORE: Final = re.compile(
    r"\bthis (week|month|year)(?:'s [\w-]+(?: [\w-]+)?)? (?:is|are)(?: now| only| about)? $", re.IGNORECASE
)
_BEING: Final = re.compile(r"(?:I'm|I am|we're|we are)\b", re.IGNORECASE)
_NEAR: Final = 14  # characters: "this month, "

_AHEAD: Final = re.compile(
    rf",? (?:(?:from|starting|beginning|as of|effective) )?(?:next (?:week|month|year|spring|summer|fall|autumn|winter"
    rf"|{_WEEKDAY})|tomorrow)\b"
    rf"|,? (?:from|starting|beginning) (?:on |in )?(?:{_DAY}|{_MONTH})(?! (?:to|through|till|until)\b)(?!\w)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Value:
    """A value at [start, end) of the text: its kind (one of the letters above) and its words."""

    kind: str
    start: int
    end: int
    words: str


def values_in(said: str) -> tuple[str, list[Value]]:
    """The text with its values covered, and the values in order."""
    found: list[Value] = []
    small, counts = lowered(said), _DIGIT.search(said) is not None
    for kind, words, pattern in _COMPILED:
        if not counts and not any(map(small.__contains__, words)):
            continue

        def cover(match: re.Match[str], kind: str = kind) -> str:
            if kind == DATE and match[0].casefold().startswith("may ") and not match[0].startswith("May"):
                return match[0]
            found.append(Value(kind, match.start(), match.end(), match[0]))
            return kind * len(match[0])

        said = pattern.sub(cover, said)
    return said, sorted(found, key=lambda value: value.start)


def meaning(value: Value, said_at: datetime) -> str:
    """A value in one way of writing: 2024-04-05, 2024-04-05T15:00, weekly 5 (Fridays), $6200, 95%, 15/20, 1350; "" for
    what is off; else its words.
    """
    words = re.sub(r"\s+", " ", value.words.casefold()).strip(" .,")
    if value.kind == OFF:
        return ""
    if value.kind == DATE:
        return _date_meaning(words, said_at)
    if value.kind == RATIO:
        return "/".join(re.findall(r"\d+", words))
    if value.kind == VERSION:
        return words.removeprefix("v")
    if words in _NUMBER_WORDS:
        return str(_NUMBER_WORDS[words])
    if value.kind == MONEY and _currency(words) not in "$£":
        words = _PARTED.sub(lambda found: re.sub(r"\D", "", found[0]), words)
    digits = re.search(r"\d[\d,]*(?:\.\d+)?", _DECIMAL_COMMA.sub(".", words))
    if digits is None:
        return words
    if value.kind == MEASURE:
        return digits[0].replace(",", "") + " " + words[digits.end() :].strip()
    scale = words[digits.end() :].strip(" €£").split(" ")[0]
    number = float(digits[0].replace(",", "")) * _SCALE.get(scale, 1)
    plain = f"{number:.10g}" if number < 1e9 else f"{number:.0f}"
    return {MONEY: f"{_currency(words)}{plain}", SHARE: f"{plain}%"}.get(value.kind, plain)


def _currency(words: str) -> str:
    return next((sign for sign, names in _SIGNS.items() if sign in words or words.endswith(names)), "$")


def _date_meaning(words: str, said_at: datetime) -> str:
    clock = _clock(words)
    if weekly := _EACH_WEEK.match(words):
        return f"weekly {_WEEKDAYS.index(weekly['day']) + 1}" + (f"T{clock}" if clock else "")
    day = day_of(words, said_at)
    if day is None:
        return clock or words
    return f"{day:%Y-%m-%d}" + (f"T{clock}" if clock else "")


def day_of(words: str, said_at: datetime) -> datetime | None:
    """The day that casefolded words name; None where they name none, or one that is not in the calendar."""
    today = said_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if found := re.search(r"(\d{4})-(\d\d)-(\d\d)", words):
            return datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
        if found := re.search(r"(\d{1,2})/(\d{1,2})(?:/(\d{2,4}))?(?!\d)", words):
            year = int(found[3]) + (2000 if int(found[3]) < 100 else 0) if found[3] else None
            return _nearest(year, int(found[1]), int(found[2]), today)
        if found := re.search(_MONTH, words):
            number = _MONTHS.index(found[0][:3]) + 1
            year_said = re.search(r"(?:19|20)\d\d", words)
            day_said = re.search(r"(?<!\d)(\d{1,2})(?:st|nd|rd|th)?(?! ?(?:am|pm|a\.m|p\.m))(?![\d:])", words)
            return _nearest(
                int(year_said[0]) if year_said else None, number, int(day_said[1]) if day_said else 1, today
            )
        return _relative_day(words, today)
    except (ValueError, OverflowError):  # the 31st of June
        return None


def _nearest(year: int | None, month: int, day: int, today: datetime) -> datetime:
    """The day in its year, or in the year in which it is nearest to today."""
    if year is not None:
        return datetime(year, month, day, tzinfo=UTC)
    reach = 8 if (month, day) == (2, 29) else 1
    years = [year for year in range(today.year - reach, today.year + reach + 1) if reach == 1 or isleap(year)]
    near = [datetime(year, month, day, tzinfo=UTC) for year in years]
    # Days without a year are spoken of ahead more than back: what is gone counts as twice as far.
    return min(near, key=lambda one: one - today if one >= today else 2 * (today - one))


def _relative_day(words: str, today: datetime) -> datetime | None:
    if found := re.search(r"(next )?(mon|tue|wed|thu|fri|sat|sun)[a-z]*day", words):
        ahead = _WEEKDAYS.index(found[2]) - today.weekday()
        # "next Tuesday" is that of next week, "Tuesday" the first to come.
        return today + ((ahead + 7) * _ONE_DAY if found[1] else (ahead % 7 or 7) * _ONE_DAY)
    if found := re.match(r"the (\d{1,2})", words):
        return _next_of_month(int(found[1]), today)
    if "tomorrow" in words:
        return today + _ONE_DAY
    if "tonight" in words or "today" in words:
        return today
    if "weekend" in words:
        return today + (max(5 - today.weekday(), 0) + 7 * ("next" in words)) * _ONE_DAY
    if "this week" in words:
        return today + (6 - today.weekday()) * _ONE_DAY
    if "this month" in words:
        return today.replace(day=monthrange(today.year, today.month)[1])
    if "next week" in words:
        return today + (7 - today.weekday()) * _ONE_DAY
    if "next month" in words:
        return datetime(today.year + today.month // 12, today.month % 12 + 1, 1, tzinfo=UTC)
    return None


def _next_of_month(day: int, today: datetime) -> datetime | None:
    """The first day from today on that has this number in its month."""
    ahead = (today + number * _ONE_DAY for number in range(62))  # of two months one has 31 days
    return next((one for one in ahead if one.day == day), None)


def _clock(words: str) -> str:
    if found := re.search(r"(\d{1,2})(?::(\d\d))? ?(a|p)\.?m", words):
        hour = int(found[1]) % 12 + (12 if found[3] == "p" else 0)
        return f"{hour:02d}:{found[2] or '00'}"
    if found := re.search(r"(\d{1,2}):(\d\d)", words):
        return f"{int(found[1]):02d}:{found[2]}"
    return {"noon": "12:00", "midnight": "00:00"}.get(words.split()[-1], "") if words else ""


def validity(clause: str, said_at: datetime) -> tuple[datetime | None, datetime | None]:
    """From when and until when a clause says that it holds: "since March", "until Friday", "for two years".

    The beginning lies in the past, the end ahead; what the clause does not say is None.
    """
    clause = in_english(clause)
    start, end = None, None
    if found := _UNTIL_PERIOD.search(clause):
        whole = found[1] is not None or found[0].casefold().startswith("through")
        end = _begin_of_period(found[3].casefold(), (found[2] is not None) + whole, said_at)
    elif found := _UNTIL.search(clause):
        end = _end_of(found[1], said_at)
    if found := _SINCE.search(clause):
        start = _begin_of(found[1], said_at)
    elif (found := _FOR.search(clause)) and not _GOES.search(clause):
        span = asked_span(f"{found[1]} {found[2]}s ago", said_at, said_at)
        start = span.start if span else None
    elif found := _PAST.search(clause):
        span = asked_span(found[0], said_at, said_at)
        start = span.start if span and not _is_to_come(found[0], said_at) else None
    if start is not None and start > said_at:
        start = None
    return start, end if end is None or end > said_at else None


def _is_to_come(words: str, said_at: datetime) -> bool:
    """Whether a day without its year ("on June 1") is rather the one that comes than the one that was."""
    day = day_of(words.casefold(), said_at) if words[:3].casefold() == "on " else None
    return day is not None and day > said_at


def passed(words: str, said_at: datetime) -> datetime | None:
    """When a day is over that is named by its distance from today ("tomorrow", "Friday", "next week"); None for others:
    "May 12" names the same day whenever it is read, and "every Friday" no day at all.
    """
    named = words.casefold()
    if _EACH_WEEK.match(named) or _CALENDAR.search(named) or not (found := _FROM_TODAY.search(named)):
        return None
    if found["period"]:
        return _begin_of_period(found["period"], 1 + found[0].startswith("next"), said_at)
    day = day_of(named, said_at)
    return day + (2 if "weekend" in named else 1) * _ONE_DAY if day else None


def this_period(before: str, behind: str, said_at: datetime) -> datetime | None:
    """When the week, month or year is over for which a value between these words is said: "my budget this month is"."""
    found = _OF_THIS_BEHIND.match(behind) or _OF_THIS_BEFORE.search(before)
    return _begin_of_period(found[1].casefold(), 1, said_at) if found else None


def while_it_lasts(before: str, clause: str, said_at: datetime) -> datetime | None:
    """The same for what somebody says to be: "I'm vegan this month", "this month I'm vegan"."""
    found = _BEING.match(clause) and (_THIS.search(clause) or _THIS.search(before, max(0, len(before) - _NEAR)))
    return _begin_of_period(found[1].casefold(), 1, said_at) if found else None


def is_over(clause: str, said_at: datetime) -> bool:
    """Whether a clause says until when something held, and that is gone: "until 2019", "from 2015 to 2019"."""
    clause = in_english(clause)
    found = _UNTIL.search(clause) or _UP_TO_YEAR.search(clause)
    end = _end_of(found[1], said_at) if found else None
    return end is not None and end <= said_at


def is_ahead(behind: str) -> bool:
    """Whether the words right behind a statement say that it is to begin: "starting next month", "from Monday on"."""
    return _AHEAD.match(in_english(behind)) is not None


def _begin_of(words: str, said_at: datetime) -> datetime | None:
    lowered = words.casefold()
    span: Span | None = None
    if re.fullmatch(r"(?:19|20)\d\d", lowered):
        span = asked_span(f"in {lowered}", said_at, said_at)
    elif re.fullmatch(_WEEKDAY, lowered):
        span = asked_span(f"on {lowered}", said_at, said_at)
    elif re.fullmatch(_MONTH, lowered):
        span = asked_span(f"since {lowered}", said_at, said_at)
    else:
        span = asked_span(lowered, said_at, said_at)
    return span.start if span else None


def _begin_of_period(unit: str, ahead: int, said_at: datetime) -> datetime | None:
    """Where the week, month or year begins that is so many ahead of the present one; None past the calendar's end."""
    if said_at.year >= MAXYEAR - 1:
        return None
    today = said_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "week":
        return today + (7 * ahead - today.weekday()) * _ONE_DAY
    months = today.year * 12 + (today.month - 1 + ahead if unit == "month" else 12 * ahead)
    return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)


def _end_of(words: str, said_at: datetime) -> datetime | None:
    lowered = words.casefold()
    if re.fullmatch(r"(?:19|20)\d\d", lowered):
        return datetime(int(lowered) + 1, 1, 1, tzinfo=UTC)
    day = day_of(lowered, said_at)
    if day is None:
        return None
    if re.fullmatch(_MONTH, lowered):
        year = day.year if day > said_at.astimezone(UTC) - 31 * _ONE_DAY else day.year + 1
        return datetime(year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)
    if day + _ONE_DAY <= said_at and not re.search(r"\d{4}|/", lowered):
        day = day_of(f"{lowered} {day.year + 1}", said_at)  # an end without a year lies ahead
    return day + _ONE_DAY if day else None
