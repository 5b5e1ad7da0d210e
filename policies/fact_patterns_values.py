"""Values that change: a sentence with its values covered in, "the deadline of the sprint is April 5" out.

Each value is looked at with the words left and right of it, WINDOW characters at most. What it is a value of decides
the predicate (deadline, budget, accuracy, count, time), whose it is the subject: the head noun alone, so that "the first
sprint" and "the sprint" have one key; the other words stand in `rest`, so that two sprints can be told apart. A value
of nothing that has a name gives nothing. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from policies.fact_patterns_time import ANY_VALUE, DATE, MONEY, NUMBER, RATIO, SHARE, VERSION, Value
from policies.fact_patterns_words import DETERMINERS, STATES, STOPS, head_and_rest, singular

WINDOW: Final = 140
_NP_WORDS_MAX: Final = 5

_KINDS: Final[dict[str, str]] = {
    "deadline": "deadline", "due date": "deadline", "cutoff": "deadline", "cut-off": "deadline",
    "budget": "budget", "accuracy rate": "accuracy", "accuracy percentage": "accuracy", "accuracy": "accuracy",
    "success rate": "success_rate", "completion rate": "completion_rate", "response rate": "response_rate",
    "conversion rate": "conversion_rate", "retention rate": "retention_rate", "error rate": "error_rate",
    "interest rate": "interest_rate", "hourly rate": "hourly_rate", "pass rate": "pass_rate",
    "quiz score": "quiz_score", "test score": "test_score", "credit score": "credit_score", "score": "score",
    "coverage": "coverage", "gpa": "gpa", "grade": "grade", "rating": "rating", "ranking": "ranking",
    "price": "price", "cost": "cost", "salary": "salary", "pay": "salary", "income": "income",
    "rent": "rent", "fee": "fee", "fees": "fee", "savings": "savings", "debt": "debt", "mortgage": "mortgage",
    "allowance": "allowance", "balance": "balance", "revenue": "revenue", "expenses": "expenses",
    "goal": "goal", "target": "goal", "quota": "goal", "limit": "limit", "cap": "limit", "threshold": "threshold",
    "version": "version", "weight": "weight", "height": "height", "word count": "word_count",
    "page count": "page_count", "size": "size", "length": "length",
    "duration": "duration", "latency": "latency", "response time": "response_time", "load time": "load_time",
    "timeout": "timeout", "speed": "speed", "temperature": "temperature", "capacity": "capacity", "port": "port",
    "start date": "start_date", "launch date": "launch_date", "release date": "release_date", "end date": "end_date",
    "launch": "launch_date", "release": "release_date", "birthday": "birthday", "anniversary": "anniversary",
}  # fmt: skip
_EVENTS: Final = (
    "meeting|call|appointment|interview|flight|exam|session|webinar|workshop|conference|presentation|demo|lesson"
    "|review|checkup|check-up|surgery|wedding|party|concert|game|match|race|marathon|trip|reservation|consultation"
    "|kickoff|retro|retrospective|stand-?up|audit|hearing|ceremony|festival|hackathon|screening|rehearsal|class|course"
    "|seminar|lecture|test|quiz|tournament|visit|delivery|event|premiere|shoot|gig|recital|audition|move|submission"
)
_KIND: Final = "|".join(sorted(map(re.escape, _KINDS), key=len, reverse=True))
_KIND_RE: Final = re.compile(rf"\b({_KIND})\b", re.I)
_EVENT_RE: Final = re.compile(rf"\b(?:{_EVENTS})s?\b", re.I)
_APPROX: Final = r"(?:about|around|roughly|approximately|nearly|almost|only|just|exactly|now|over|above|under|below|at least|at most|up to|a)"
_OF_VALUE: Final = re.compile(
    rf"\b({_KIND})(?: of| at| above| below| over| under|:) (?:{_APPROX} )?$|\b({_KIND}) \($", re.I
)
_PREFIX: Final = re.compile(rf"^(?: (?:{'|'.join(sorted(STATES))}))? ({_KIND})\b(?! of\b)", re.I)
_FOR_THING: Final = re.compile(r"^,? (?:for|on|in|of|to) ", re.I)
_WITH: Final = re.compile(r" (?:with|at)(?: an?| the)?((?: [a-z]+){0,2}) $| (?:with|at)$", re.I)
_BE: Final = frozenset("is are 's has have had been got gets stands sits went goes".split())  # noqa: SIM905
_TURNED: Final = frozenset(
    "increased decreased improved raised lowered reduced dropped rose grew grown risen fell fallen climbed jumped"
    " changed adjusted updated upgraded moved shifted pushed extended postponed rescheduled delayed bumped cut set"
    " revised advanced brought reached hit scheduled booked planned due rated estimated expanded went".split()  # noqa: SIM905
)
_LINKS: Final = (
    frozenset("now currently actually already just officially still only about around to at up down on for by from back was were".split())  # noqa: SIM905
    | frozenset("until be recently finally roughly also all the way in out almost nearly approximately over".split())  # noqa: SIM905
    | _BE | _TURNED
)  # fmt: skip
_MOVING: Final = re.compile(
    r"\b(?:mov(?:e|ed|ing)|reschedul(?:e|ed|ing)|postpon(?:e|ed|ing)|push(?:ed|ing)?|chang(?:e|ed|ing)|shift(?:ed|ing)?"
    r"|extend(?:ed|ing)?|increas(?:e|ed|ing)|rais(?:e|ed|ing)|lower(?:ed|ing)?|cut(?:ting)?|reduc(?:e|ed|ing)|bump(?:ed|ing)?"
    rf"|adjust(?:ed|ing)?|updat(?:e|ed|ing)|upgrad(?:e|ed|ing)) ([^,;:.{ANY_VALUE}]{{3,70}}?)(?: from [{ANY_VALUE}]+)? (?:back |up |down )?(?:to|until) $",
    re.I,
)
_ON: Final = re.compile(
    r"(?:,? (?:which |that )?(?:is |was |are |'s )?(?:been )?(?:scheduled|set|booked|planned|coming up|happening|taking place|due|rescheduled|confirmed))?"
    r" (?:on|at|for|by|this|next|to) $", re.I
)
_DUTY: Final = re.compile(
    r"\b(?:submit(?:ting)?|finish(?:ing)?|complet(?:e|ing)|deliver(?:ing)?|finali[sz](?:e|ing)|launch(?:ing)?|hand in|turn in"
    rf"|fil(?:e|ing)|ship(?:ping)?) ((?:[^,;:.?!{ANY_VALUE}\s]+ ){{1,7}})by $", re.I
)
_DID: Final = (
    "completed|finished|secured|written|wrote|read|solved|attended|submitted|applied to|applied for|received|collected"
    "|sold|visited|published|recorded|edited|built|implemented|passed|won|reviewed|tested|interviewed|mentored|hired"
    "|earned|drafted|fixed|closed|merged|deployed|watched|run|ran|lost|gained|saved|booked|scheduled|landed"
)
_COUNTING: Final = re.compile(
    rf"\b(?:i|we)(?:'ve| have|'d)? (?:now |already |also |just |recently |only |successfully |have |finally ){{0,3}}({_DID}|have|had|got|own|manage|lead)"
    rf"(?: (?:all|only|about|around|over|exactly|a total of|now|up to|nearly|almost|at least))* $|\bafter completing $"
    rf"|\b(?:recently|already|just|successfully) ({_DID}) $", re.I,
)
_TOTAL: Final = re.compile(r"\b(?:\b(?:i|we|my|our)\b[^.;!?]{0,60} a total of|(?:now|so) there(?: are|'re|'s)|there are(?: now| currently| already))(?: about| only)? $", re.I)
_HOLDS: Final = re.compile(r"(?:\b(?:my|our)|\b(?:i|i'm|i've|we|we're|we've)\b[^.;!?]{0,60} the) ((?:[a-z][\w-]* ){1,4})(?:with|has|have|contains|includes|of) $", re.I)
_SPENT: Final = re.compile(
    r"\b(allocated|budgeted|set aside|earmarked|paid|spent|paying|spending|spend|pay|allocate)(?: (?:about|around|only|up to|over))? $", re.I
)
_EARNED: Final = re.compile(r"\b(?:earn|earning|make|making|salary (?:is|of))(?: (?:about|around|only))? $", re.I)
_PER: Final = re.compile(r"^ (?:a|per|each|every|/) ?(day|week|month|year|hour|night)\b|^ (daily|weekly|monthly|yearly|annually)\b", re.I)
_PERIODS: Final = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annual": "year", "annually": "year"}
_MEASURES: Final = frozenset(
    "minute second hour day week month year night time cm mm km m kg g mile meter metre foot inch pound lb percent point"
    " px pixel am pm degree ms mb gb kb tb step way thing option reason example tip lot bit year-old mph star cup tbsp"
    " o'clock dollar euro more of and or to year-olds kilometer oz ounce gram liter litre unit pair tablespoon teaspoon"
    " type kind part sentence paragraph word line chapter people person".split()  # noqa: SIM905
)
_EVENT_LINKS: Final = frozenset("with for on about at of in to and coming up scheduled set planned booked".split())  # noqa: SIM905
_TIME_UNITS: Final = frozenset("second minute hour day week month year time".split())  # noqa: SIM905
# Kinds that a person has; any other kind needs a thing whose kind it is.
_OWN_KINDS: Final = frozenset(
    "accuracy budget salary score quiz_score test_score credit_score goal rent weight height savings debt income gpa deadline word_count"
    " page_count success_rate completion_rate response_rate hourly_rate mortgage allowance birthday anniversary count_per_day"
    " count_per_week count_per_month count_per_year grade".split()  # noqa: SIM905
)
_OWNED: Final = re.compile(r"\b(?:my|our|i|i've|i'm|we|we've|we're|the new|the updated|the revised)\b", re.I)
_CHANGED: Final = re.compile(r"\b(?:new|updated|revised|increased|reduced|now|no longer|instead)\b", re.I)
_PRONOUN: Final = re.compile(r"\b(?:it|that)(?:'s)?$", re.I)
_VERBS_OF_COUNT: Final = frozenset("have had got own manage lead".split())  # noqa: SIM905


@dataclass(frozen=True, slots=True)
class Stated:
    """One value and what it is the value of: `thing` as the text says it (empty: the speaker's own), and where it is."""

    predicate: str
    thing: str
    value: Value
    start: int
    end: int
    shape: str = "is"  # how to say it: is, count, did, time, per
    changed: bool = False  # said as a change: "moved to", "is now", "the new"
    unit: str = ""
    verb: str = ""

    @property
    def head(self) -> str:
        """The head noun of the thing, empty where it is the speaker's own."""
        return head_and_rest(self.thing)[0] if self.thing else ""


@dataclass(frozen=True, slots=True)
class _Around:
    """A value with the masked words left and right of it; `base` is the offset of `left` in the text."""

    value: Value
    left: str
    right: str
    base: int
    before: str  # all of the sentence up to the value, for what "it" stands for

    @property
    def kind(self) -> str:
        return self.value.kind


def stated_values(masked: str, start: int, end: int, values: list[Value]) -> list[Stated]:
    """What the values of the sentence [start, end) are values of, in order; at most one thing each."""
    found = []
    for value in values:
        if not start <= value.start < value.end <= end:
            continue
        base = max(start, value.start - WINDOW)
        around = _Around(value, masked[base : value.start], masked[value.end : min(end, value.end + WINDOW)], base, masked[start : value.start])
        stated = next((one for form in _FORMS if (one := form(around)) is not None), None)
        if stated is not None:
            found.append(stated)
    return found


def phrase_before(left: str) -> str:
    """The noun phrase that ends a text, without its determiner; empty where none does."""
    words: list[str] = []
    for word in reversed(left.split(" ")[-(_NP_WORDS_MAX + 2) :]):
        if not word and not words:
            continue
        if not re.fullmatch(r"[\w'&+#/-]+", word) or word.casefold() in STOPS or len(words) >= _NP_WORDS_MAX:
            break
        words.insert(0, word)
    while words and (words[0].casefold() in STATES or words[0].casefold().endswith("ing")):
        words.pop(0)
    return " ".join(words)


def phrase_after(right: str) -> str:
    """The noun phrase that opens a text, with one that follows on for/of/in/with; empty where none does."""
    found, rest = _phrase(right)
    linked = re.match(r" ?(for|of|in|with|on|to(?= (?:the|my|our|a|[A-Z]))) ", rest)
    if found and linked:
        more, _ = _phrase(rest[linked.end() :])
        if more:
            found = f"{found} {linked[1]} {more}"
    return found


def _phrase(text: str) -> tuple[str, str]:
    words, at = [], 0
    for match in re.finditer(r"\s*([\w'&+#/-]+)([,.;:!?)]*)", text[:90]):
        if match.start() != at:
            break
        word = match[1]
        if word.casefold() in STOPS and not (word.casefold() in DETERMINERS and not words):
            break
        words.append(word)
        at = match.end()
        if match[2] or len(words) > _NP_WORDS_MAX:
            break
    while words and words[0].casefold() in STATES | DETERMINERS:
        words.pop(0)
    return " ".join(words), text[at:]


def _kind_of(word: str, left_of_it: str, value: Value) -> str:
    """The predicate for a kind noun; with a period before it, per that period."""
    kind = _KINDS[word.casefold()]
    period = next((_PERIODS[w] for w in left_of_it.casefold().split()[-2:] if w in _PERIODS), None)
    if period and value.kind == NUMBER and kind in ("count", "goal", "word_count", "page_count", "limit"):
        return f"count_per_{period}"
    return kind


def _fits(predicate: str, kind: str) -> bool:
    """Whether a value of this kind can be a value of that: a deadline is a date, a budget is money or a number."""
    if predicate in ("deadline", "birthday", "anniversary") or predicate.endswith("_date"):
        return kind == DATE
    if predicate in ("budget", "salary", "price", "cost", "rent", "fee", "savings", "debt", "income", "revenue", "expenses"):
        return kind in (MONEY, NUMBER)
    if predicate == "accuracy" or predicate.endswith("_rate"):
        return kind in (SHARE, RATIO, MONEY, NUMBER)
    return kind == VERSION if predicate == "version" else kind != DATE


def _made(around: _Around, predicate: str, thing: str, start: int, *, shape: str = "is") -> Stated | None:
    if not _fits("count" if predicate.startswith("count_per") else predicate, around.kind):
        return None
    if re.search(r"\bfrom $", around.left) or (not thing and not (predicate in _OWN_KINDS and _OWNED.search(around.left))):
        return None  # "improved from 70 %": what it was
    changed = _CHANGED.search(around.left[max(0, start - 12) :]) is not None
    return Stated(predicate, thing, around.value, around.base + start, around.value.end, shape, changed)


def _of_value(around: _Around) -> Stated | None:
    """ "the new sprint deadline of V", "a deadline of V, for the first sprint", "a budget of V for licences"."""
    found = _OF_VALUE.search(around.left[-60:])
    if found is None:
        return None
    at = max(0, len(around.left) - 60) + found.start()
    word, before = found[1] or found[2], around.left[:at]
    if re.search(r"\b(?:a|an|any|some|what|which|no)(?: \w+)? $", before) and not re.search(
        r"\b(?:i|we|my|our|'ve|have|has|got|with|given|set|a|under|within)\b", before, re.I
    ):
        return None
    thing = phrase_before(before)
    period = re.search(r"\b(daily|weekly|monthly|yearly)$", thing, re.I)
    predicate = _kind_of(word, before, around.value)
    plural = re.match(r" ([a-z]+s)\b", around.right)
    if predicate.startswith("count_per") and plural:
        thing = plural[1]
    elif period or not thing:
        link = _FOR_THING.match(around.right)
        thing = phrase_after(around.right[link.end() :]) if link else _with_before(before)
    made = _made(around, predicate, thing, at)
    if made and thing and link_end(around, thing):
        return replace(made, end=link_end(around, thing))
    return made


def link_end(around: _Around, thing: str) -> int:
    """Where a thing that stands right of the value ends, 0 where it stands left of it."""
    last = thing.split(" ")[-1]
    at = around.right.find(last) if thing else -1
    return around.value.end + at + len(last) if at >= 0 and last not in around.left.split() else 0


def _with_before(before: str) -> str:
    """ "15 problems with an accuracy of": problems."""
    found = _WITH.search(before)
    return phrase_before(before[: found.start()]) if found else ""


def _before_kind(around: _Around) -> Stated | None:
    """ "my V deadline for the draft", "the tool's V accuracy", "15 problems with V accuracy"."""
    found = _PREFIX.match(around.right)
    if found is None:
        return None
    after = around.right[found.end() :]
    link = _FOR_THING.match(after)
    thing = phrase_after(after[link.end() :]) if link else ""
    if not thing and around.left.endswith("'s "):
        thing = phrase_before(around.left[:-3])
    thing = thing or _with_before(around.left)
    predicate = _kind_of(found[1], around.left, around.value)
    own = re.search(r"\b(?:my|our|the|a|with|have|got|at|'s)(?: [a-z]+)? $", around.left, re.I)
    if own is None:
        return None
    made = _made(around, predicate, thing, own.start())
    return made and replace(made, end=max(around.value.end + found.end(), link_end(around, thing)))


def _linked(around: _Around) -> Stated | None:
    """ "the deadline for the sprint is now V", "my accuracy improved from V to V", "it was adjusted to V"."""
    words, at, verbs, turned = around.left.split(" "), len(around.left), 0, False
    while words:
        word = words[-1]
        if word and word.casefold() not in _LINKS and not re.fullmatch(rf"[{ANY_VALUE}]+,?", word):
            break
        verbs += word.casefold() in _BE or word.casefold() in _TURNED
        turned = turned or word.casefold() in _TURNED
        at -= len(word) + 1
        words.pop()
    clause = around.left[: max(at, 0)]
    if clause.endswith("'s"):
        clause, verbs = clause[:-2], verbs + 1
    if not verbs:
        return None
    clause = re.split(r"[;:.!?]|, (?!(?:which|that)\b)", clause)[-1]
    start = len(around.left[: max(at, 0)].rstrip()) - len(clause)
    made = _antecedent(around) if _PRONOUN.search(clause) else _of_clause(around, clause, max(start, 0))
    return made and replace(made, changed=made.changed or turned)


def _of_clause(around: _Around, clause: str, start: int) -> Stated | None:
    """The value of the kind noun or of the event that is the subject of a clause."""
    if re.search(r"\b(?:if|when|would|could|should|might|may|whether|wish|hope|think)\b", clause, re.I):
        return None
    if found := re.search(r"\bnumber of ((?:[\w'-]+ ){0,3}[\w'-]+)", clause):
        return _made(around, "count", phrase_after(found[1]), start + found.start(), shape="count") if _OWNED.search(around.before) else None
    kinds = list(_KIND_RE.finditer(clause))
    if kinds:
        kind = kinds[-1]
        tail = clause[kind.end() :]
        link = _FOR_THING.match(tail)
        thing = (phrase_after(tail[link.end() :]) if link else "") or phrase_before(clause[: kind.start()])
        return _made(around, _kind_of(kind[1], clause[: kind.start()], around.value), thing, start + kind.start())
    return _event(around, clause, start) if around.kind == DATE else None


def _antecedent(around: _Around) -> Stated | None:
    """What "it" stands for: the last kind of value named before it in the sentence."""
    named = [found for found in _KIND_RE.finditer(around.before[:-3]) if found]
    if not named:
        return None
    kind, before = named[-1], around.before[: named[-1].start()]
    predicate = _kind_of(kind[1], before, around.value)
    thing = phrase_before(before)
    if predicate.startswith("count_per"):
        thing = kind[1].split(" ")[0] if " " in kind[1] else thing
    offset = around.value.start - len(around.before)
    return _made(around, predicate, thing, offset + kind.start() - around.base)


def _event(around: _Around, clause: str, start: int) -> Stated | None:
    events = list(_EVENT_RE.finditer(clause))
    if not events:
        return None
    event = events[-1]
    tail = clause[event.end() :]
    if re.search(r"[.!?;]|, ", tail) or len(tail) > 70 or not _goes_on(tail) or re.search(r"\bfrom $", around.left):
        return None
    modifiers = phrase_before(clause[: event.start()])
    link = re.match(r" (?:with|for|on|about|at|of|in|to) ", tail)
    thing = f"{modifiers} {event[0]}".strip()
    if link and (more := phrase_after(tail[link.end() :])):
        thing += f" {link[0].strip()} {more}"
    begins = around.base + start + event.start() - len(modifiers)
    return Stated("time", thing, around.value, begins, around.value.end, "time", _CHANGED.search(around.left[-40:]) is not None)


def _goes_on(tail: str) -> bool:
    """Whether what stands between an event and its date is part of its name: "with the director", no other clause."""
    words = [word for word in re.findall(r"[\w'-]+", tail.casefold()) if word not in DETERMINERS]
    return all(word not in STOPS or word in _EVENT_LINKS for word in words)


def _moved(around: _Around) -> Stated | None:
    """ "moving the Zoom call to V", "we pushed the launch to V", "raised the budget to V"."""
    found = _MOVING.search(around.left)
    if found is None:
        return None
    clause = found[1]
    made = _of_clause(around, clause, found.start(1))
    return made and replace(made, start=around.base + found.start(), changed=True)


def _scheduled(around: _Around) -> Stated | None:
    """ "a Zoom call with the director on V", "submit the report by V"."""
    if around.kind != DATE:
        return None
    if duty := _DUTY.search(around.left):
        thing = phrase_after(duty[1])
        return _made(around, "deadline", thing, duty.start()) if thing else None
    found = _ON.search(around.left)
    if found is None:
        return None
    clause = re.split(r"[;:.!?,]", around.left[: found.start()])[-1]
    if not re.search(r"\b(?:my|our|the|i|i've|we|we've|have|has|got|an?|there's)\b", clause, re.I):
        return None
    return _event(around, clause, found.start() - len(clause))


def _counted(around: _Around) -> Stated | None:
    """ "I've completed V problems", "a total of V cards", "the gallery with V cards", "I've done V of V"."""
    if around.kind not in (NUMBER, RATIO):
        return None
    per = _rate(around)
    if per is not None:
        return per
    thing = _counted_thing(around.right)
    if around.kind == RATIO and not thing and (found := _COUNTING.search(around.left)) and found[1]:
        verb = found[1].casefold()
        return Stated(f"count_{verb.replace(' ', '_')}", "", around.value, around.base + found.start(), around.value.end, "did", verb=verb)
    if not thing:
        return None
    end = around.value.end + around.right.find(thing.split(" ")[-1]) + len(thing.split(" ")[-1])
    if found := _TOTAL.search(around.left):
        return Stated("count", thing, around.value, around.base + found.start(), end, "count")
    if found := _COUNTING.search(around.left):
        verb = (found[1] or found[2] or "completed").casefold()
        predicate = "count" if verb in _VERBS_OF_COUNT else f"count_{verb.replace(' ', '_')}"
        return Stated(predicate, thing, around.value, around.base + found.start(), end, "did", verb=verb)
    if found := _HOLDS.search(around.left):
        return Stated("count", thing, around.value, around.base + found.start(), end, "count")
    return None


def _counted_thing(right: str) -> str:
    """The plural that a number counts; empty for measures, and where it is "more" of something."""
    if not right.startswith(" ") or re.match(r" (?:more|other|additional|extra|of (?:my|the|them)|different)\b", right):
        return ""
    thing = phrase_after(right[1:])
    core = re.split(r" (?:for|of|in|with|to|on) ", thing)[0]
    last = core.split(" ")[-1].casefold() if core else ""
    if not last or singular(last) == last or singular(last) in _MEASURES or len(core.split()) > 4:
        return ""
    return re.split(r" (?:with|in|on|at) ", thing)[0]


def _rate(around: _Around) -> Stated | None:
    """ "1,200 words per week"."""
    found = re.match(r" ([a-z][\w-]+)", around.right, re.I)
    if found is None:
        return None
    per = _PER.match(around.right[found.end() :])
    noun = found[1].casefold()
    if per is None or singular(noun) == noun or singular(noun) in _TIME_UNITS:
        return None
    if not re.search(r"\b(?:i|i'm|i've|we|my|our|target\w*|goal|aim\w*)\b", around.left, re.I):
        return None
    period = (per[1] or _PERIODS[per[2].casefold()]).casefold()
    end = around.value.end + found.end() + per.end()
    return Stated(f"count_per_{period}", found[1], around.value, around.value.start, end, "per", unit=period)


def _paid(around: _Around) -> Stated | None:
    """ "allocated V for licences", "I pay V for rent", "I earn V a month"."""
    if around.kind != MONEY:
        return None
    per = _PER.match(around.right)
    if (found := _EARNED.search(around.left)) and per:
        return Stated("salary", "", around.value, around.base + found.start(), around.value.end + per.end(), "is", unit=(per[1] or _PERIODS[per[2].casefold()]).casefold())
    found = _SPENT.search(around.left)
    link = re.match(r",? (?:for|on|to|towards?) ", around.right)
    if found is None or link is None or not (thing := phrase_after(around.right[link.end() :])):
        return None
    planned = found[1].casefold() in ("allocated", "budgeted", "set aside", "earmarked", "allocate")
    end = max(around.value.end, link_end(around, thing))
    return Stated("budget" if planned else "cost", thing, around.value, around.base + found.start(), end)


_FORMS: Final[tuple[Callable[[_Around], Stated | None], ...]] = (
    _of_value, _before_kind, _moved, _linked, _paid, _scheduled, _counted,
)  # fmt: skip
