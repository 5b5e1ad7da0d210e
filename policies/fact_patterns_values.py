"""Values that change: a sentence with its values covered in, "the deadline of the sprint is April 5" out.

Each value is looked at with the words left and right of it, WINDOW characters at most. What it is a value of decides
the predicate (deadline, budget, accuracy, count, time), whose it is the subject: the head noun alone, so that "the
first sprint" and "the sprint" have one key; the other words tell two sprints apart. A value of nothing that has a name
gives nothing. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from policies.fact_patterns_denied import no_event, of_others, of_the_past
from policies.fact_patterns_kinds import (
    BE,
    CALLED,
    CALLING_OFF,
    CHANGED,
    COUNTING,
    DUTY,
    EACH,
    EARNED,
    EVENT_LINKS,
    EVENT_RE,
    FOR_THING,
    HOLDS,
    JUST_NAMED,
    KIND_RE,
    KINDS,
    LINKS,
    LONG_AGO,
    MEASURES,
    MINE,
    MOVED,
    MOVING,
    NO_KIND,
    NUMBER_OF_OURS,
    OF_VALUE,
    ON,
    OPENED,
    OPENING,
    OWN_KINDS,
    OWNED,
    PER,
    PERIODS,
    PREFIX,
    PRONOUN,
    PUT_RIGHT,
    SPAN_END,
    SPENT,
    TIME_UNITS,
    TOTAL,
    TURNED,
    VERBS_OF_COUNT,
    WITH,
)
from policies.fact_patterns_phrases import goes_on, phrase_after, phrase_before
from policies.fact_patterns_time import ANY_VALUE, DATE, MONEY, NUMBER, OFF, RATIO, SHARE, VERSION, Value
from policies.fact_patterns_words import singular

WINDOW: Final = 140


@dataclass(frozen=True, slots=True)
class Stated:
    """One value and what it is the value of: `thing` as the text says it (empty: the speaker's own), and its range."""

    predicate: str
    thing: str
    value: Value
    start: int
    end: int
    shape: str = "is"  # how to say it: is, count, did, time, per
    changed: bool = False  # said as a change: "moved to", "is now", "the new"
    unit: str = ""
    verb: str = ""


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
        around = _Around(
            value,
            masked[base : value.start],
            masked[value.end : min(end, value.end + WINDOW)],
            base,
            masked[start : value.start],
        )
        if SPAN_END.search(around.left) and not MOVED.search(around.left):
            continue
        stated = next((one for form in _FORMS if (one := form(around)) is not None), None)
        if stated is not None:
            found.append(stated)
    return found


def _kind_of(word: str, left_of_it: str, value: Value) -> str:
    """The predicate for a kind noun; with a period before it, per that period."""
    kind = KINDS[word.casefold()]
    period = next((PERIODS[w] for w in left_of_it.casefold().split()[-2:] if w in PERIODS), None)
    if period and value.kind == NUMBER and kind in ("count", "goal", "word_count", "page_count", "limit"):
        return f"count_per_{period}"
    return kind


def _fits(predicate: str, kind: str) -> bool:
    """Whether a value of this kind can be a value of that: a deadline is a date, a budget is money or a number."""
    if kind == OFF:
        return False
    if predicate in ("deadline", "birthday", "anniversary") or predicate.endswith("_date"):
        return kind == DATE
    if predicate in (
        "budget",
        "salary",
        "price",
        "cost",
        "rent",
        "fee",
        "savings",
        "debt",
        "income",
        "revenue",
        "expenses",
    ):
        return kind in (MONEY, NUMBER)
    if predicate == "accuracy" or predicate.endswith("_rate"):
        return kind in (SHARE, RATIO, MONEY, NUMBER)
    return kind == VERSION if predicate == "version" else kind != DATE


def _made(around: _Around, predicate: str, thing: str, start: int, *, bare: bool = False) -> Stated | None:
    """`bare`: the clause begins with its kind of value, "launch is on V": whoever says so speaks of their own."""
    if not _fits("count" if predicate.startswith("count_per") else predicate, around.kind):
        return None
    named = around.before[: len(around.before) - len(around.left) + start]
    if of_others(named) or of_the_past(named):
        return None
    if predicate in ("birthday", "anniversary") and not re.search(r"\d", around.value.words):
        return None  # "my birthday is next week": which day that is nobody has said
    own = predicate in OWN_KINDS
    owner = (OWNED if own else MINE).search(around.before) is not None
    owner = owner or (bare and own and around.kind == DATE)
    if re.search(r"\bfrom $", around.left) or not (thing or own) or not (owner or (thing and own)):
        return None  # "improved from 70 %": what it was
    changed = CHANGED.search(around.left[max(0, start - 12) :]) is not None
    return Stated(predicate, thing, around.value, around.base + start, around.value.end, changed=changed)


def _of_value(around: _Around) -> Stated | None:
    """ "the new sprint deadline of V", "a deadline of V, for the first sprint", "a budget of V for licences"."""
    found = OF_VALUE.search(around.left[-60:])
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
        link = FOR_THING.match(around.right)
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
    found = WITH.search(before)
    thing = phrase_before(before[: found.start()]) if found else ""
    return "" if thing.endswith(("ed", "est")) else thing


def _before_kind(around: _Around) -> Stated | None:
    """ "my V deadline for the draft", "the tool's V accuracy", "15 problems with V accuracy"."""
    found = PREFIX.match(around.right)
    if found is None or of_the_past(around.left) or NO_KIND.match(around.right, found.end()):
        return None
    after = around.right[found.end() :]
    link = FOR_THING.match(after)
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
    is_off = around.kind == OFF and LONG_AGO.match(around.right) is None
    while words:
        word = words[-1]
        if word and word.casefold() not in LINKS and not re.fullmatch(rf"[{ANY_VALUE}]+,?", word):
            break
        verbs += word.casefold() in BE or word.casefold() in TURNED or (is_off and word.casefold() in ("was", "were"))
        turned = turned or word.casefold() in TURNED
        at -= len(word) + 1
        words.pop()
    clause = around.left[: max(at, 0)]
    if clause.endswith("'s"):
        clause, verbs = clause[:-2], verbs + 1
    if not verbs:
        return None
    clause = re.split(r"[;:.!?]|, (?!(?:which|that)\b)", clause)[-1]
    start = len(around.left[: max(at, 0)].rstrip()) - len(clause)
    made = _antecedent(around) if PRONOUN.search(clause) else _of_clause(around, clause, max(start, 0))
    return made and replace(made, changed=made.changed or turned)


def _of_clause(around: _Around, clause: str, start: int) -> Stated | None:
    """The value of the kind noun or of the event that is the subject of a clause."""
    if re.search(r"\b(?:if|when|would|could|should|might|may|whether|wish|hope|think)\b", clause, re.I):
        return None
    if found := re.search(r"\bnumber of ((?:[\w'-]+ ){0,3}[\w'-]+)", clause):
        ours = NUMBER_OF_OURS.search(around.before) is not None and not around.left.endswith("from ")
        begin = around.base + start + found.start()
        thing = phrase_after(found[1])
        return Stated("count", thing, around.value, begin, around.value.end, "count") if ours and thing else None
    kinds = [one for one in KIND_RE.finditer(clause) if not NO_KIND.match(clause, one.end())]
    if kinds:
        kind = kinds[-1]
        tail = clause[kind.end() :]
        if re.search(rf"[{ANY_VALUE}]", tail):
            return None  # "20,000 words, which is 33 %"
        link = FOR_THING.match(tail)
        thing = (phrase_after(tail[link.end() :]) if link else "") or phrase_before(clause[: kind.start()])
        predicate = _kind_of(kind[1], clause[: kind.start()], around.value)
        return _made(around, predicate, thing, start + kind.start(), bare=_begins(clause, kind))
    return _event(around, clause, start, subject=True) if around.kind in (DATE, OFF) else None


def _begins(clause: str, found: re.Match[str]) -> bool:
    """Whether a clause begins with what was found in it, but for small words."""
    return OPENING.fullmatch(clause, 0, found.start()) is not None


def _antecedent(around: _Around) -> Stated | None:
    """What "it" stands for: the last kind of value named before it in the sentence, or the event right before it."""
    named = list(KIND_RE.finditer(around.before[:-3]))
    if not named:
        return _event_just_named(around)
    kind, before = named[-1], around.before[: named[-1].start()]
    predicate = _kind_of(kind[1], before, around.value)
    thing = phrase_before(before)
    if predicate.startswith("count_per"):
        thing = kind[1].split(" ")[0] if " " in kind[1] else thing
    offset = around.value.start - len(around.before)
    return _made(around, predicate, thing, offset + kind.start() - around.base)


def _event_just_named(around: _Around) -> Stated | None:
    """ "I was wrong about the dentist appointment, it's on V": what is put right is changed."""
    found = JUST_NAMED.search(around.before) if around.kind in (DATE, OFF) else None
    if found is None or no_event(around.before[: found.start("event")], ""):
        return None
    modifiers = phrase_before(around.before[: found.start("event")])
    thing = f"{modifiers} {found['event']}".strip()
    begins = around.value.start - len(around.before) + found.start("event") - len(modifiers)
    changed = around.kind == OFF or PUT_RIGHT.search(around.before) is not None
    return Stated("time", thing, around.value, begins, around.value.end, "time", changed)


def _event(around: _Around, clause: str, start: int, *, subject: bool = False) -> Stated | None:
    """The event that a day is of; as the subject of its clause it needs no article: "exam got pushed to V"."""
    events = list(EVENT_RE.finditer(clause))
    if not events:
        return None
    event = events[-1]
    tail = clause[event.end() :]
    if re.search(r"[.!?;]|, ", tail) or len(tail) > 70 or not goes_on(tail) or re.search(r"\bfrom $", around.left):
        return None
    if of_others(clause[: event.start()]):
        return None
    modifiers = phrase_before(clause[: event.start()])
    opened = OPENED.search(clause[: event.start()])
    bare = not modifiers and opened is None
    if bare and not (subject and _begins(clause, event)):
        return None  # "call Linda on May 5", "test it on Monday": a verb
    if tail.strip() and tail.split()[0] not in EVENT_LINKS:
        return None
    link = re.match(r" (?:with|for|on|about|at|of|in|to) ", tail)
    thing = event[0].lower() if bare else f"{modifiers} {event[0]}".strip()
    if link and (more := phrase_after(tail[link.end() :])):
        thing += f" {link[0].strip()} {more}"
    begins = around.base + start + event.start() - len(modifiers)
    changed = around.kind == OFF or CHANGED.search(around.left[-40:]) is not None
    return Stated("time", thing, around.value, begins, around.value.end, "time", changed)


def _called_off(around: _Around) -> Stated | None:
    """ "they cancelled my appointment with the dentist": what is off stands behind the verb."""
    if around.kind != OFF or CALLING_OFF.search(around.left) is None:
        return None
    clause = CALLED.match(around.right)
    start = around.value.end - around.base
    made = _event(around, clause[0], start) if clause else None
    return made and replace(made, end=start + around.base + clause.end()) if clause else None


def _moved(around: _Around) -> Stated | None:
    """ "moving the Zoom call to V", "we pushed the launch to V", "raised the budget to V"."""
    found = MOVING.search(around.left)
    if found is None:
        return None
    clause = found[1]
    made = _of_clause(around, clause, found.start(1))
    return made and replace(made, start=around.base + found.start(), changed=True)


def _scheduled(around: _Around) -> Stated | None:
    """ "a Zoom call with the director on V", "submit the report by V"."""
    if around.kind != DATE:
        return None
    if duty := DUTY.search(around.left):
        thing = phrase_after(duty[1])
        return _made(around, "deadline", thing, duty.start()) if thing else None
    found = ON.search(around.left)
    if found is None and not EACH.match(around.value.words):
        return None
    before = around.left[: found.start()] if found else around.left.rstrip()
    clause = re.split(r"[;:.!?,]", before)[-1]
    if not re.search(r"\b(?:my|our|the|i|i've|we|we've|have|has|got|an?|there's)\b", clause, re.I):
        return None
    event = _event(around, clause, len(before) - len(clause))
    return event and replace(event, predicate="deadline", shape="is") if around.left.endswith(" by ") else event


def _counted(around: _Around) -> Stated | None:
    """ "I've completed V problems", "a total of V cards", "the gallery with V cards", "I've done V of V"."""
    if around.kind not in (NUMBER, RATIO):
        return None
    per = _rate(around)
    if per is not None:
        return per
    thing = _counted_thing(around.right)
    if around.kind == RATIO and not thing and (found := COUNTING.search(around.left)) and found[1]:
        verb = found[1].casefold()
        return Stated(
            f"count_{verb.replace(' ', '_')}",
            "",
            around.value,
            around.base + found.start(),
            around.value.end,
            "did",
            verb=verb,
        )
    if not thing:
        return None
    end = around.value.end + around.right.find(thing.split(" ")[-1]) + len(thing.split(" ")[-1])
    if found := TOTAL.search(around.left):
        return Stated("count", thing, around.value, around.base + found.start(), end, "count")
    if found := COUNTING.search(around.left):
        verb = (found[1] or found[2] or "completed").casefold()
        predicate = "count" if verb in VERBS_OF_COUNT else f"count_{verb.replace(' ', '_')}"
        return Stated(predicate, thing, around.value, around.base + found.start(), end, "did", verb=verb)
    if found := HOLDS.search(around.left):
        return Stated("count", thing, around.value, around.base + found.start(), end, "count")
    return None


def _counted_thing(right: str) -> str:
    """The plural that a number counts; empty for measures, and where it is "more" of something."""
    if not right.startswith(" ") or re.match(r" (?:more|other|additional|extra|of (?:my|the|them)|different)\b", right):
        return ""
    thing = phrase_after(right[1:])
    core = re.split(r" (?:for|of|in|with|to|on) ", thing)[0]
    last = core.split(" ")[-1].casefold() if core else ""
    if not last or singular(last) == last or singular(last) in MEASURES or len(core.split()) > 4:
        return ""
    return re.split(r" (?:with|in|on|at) ", thing)[0]


def _rate(around: _Around) -> Stated | None:
    """ "1,200 words per week"."""
    found = re.match(r" ([a-z][\w-]+)", around.right, re.I)
    if found is None:
        return None
    per = PER.match(around.right[found.end() :])
    noun = found[1].casefold()
    if per is None or singular(noun) == noun or singular(noun) in TIME_UNITS:
        return None
    if not re.search(r"\b(?:i|i'm|i've|we|my|our|target\w*|goal|aim\w*)\b", around.left, re.I):
        return None
    period = (per[1] or PERIODS[per[2].casefold()]).casefold()
    end = around.value.end + found.end() + per.end()
    return Stated(f"count_per_{period}", found[1], around.value, around.value.start, end, "per", unit=period)


def _paid(around: _Around) -> Stated | None:
    """ "allocated V for licences", "I pay V for rent", "I earn V a month"."""
    if around.kind != MONEY:
        return None
    per = PER.match(around.right)
    if (found := EARNED.search(around.left)) and per:
        return Stated(
            "salary",
            "",
            around.value,
            around.base + found.start(),
            around.value.end + per.end(),
            "is",
            unit=(per[1] or PERIODS[per[2].casefold()]).casefold(),
        )
    found = SPENT.search(around.left)
    link = re.match(r",? (?:for|on|to|towards?) ", around.right)
    if found is None or link is None or not (thing := phrase_after(around.right[link.end() :])):
        return None
    planned = found[1].casefold() in ("allocated", "budgeted", "set aside", "earmarked", "allocate")
    end = max(around.value.end, link_end(around, thing))
    return Stated("budget" if planned else "cost", thing, around.value, around.base + found.start(), end)


_FORMS: Final[tuple[Callable[[_Around], Stated | None], ...]] = (
    _of_value, _before_kind, _moved, _linked, _paid, _scheduled, _counted, _called_off,
)  # fmt: skip
