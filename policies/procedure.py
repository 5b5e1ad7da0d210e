"""How things are done, as a person teaches it: a text of theirs in; procedures with a trigger, ordered steps and the
places these stand at out.

"To deploy: 1. … 2. …", "Whenever a build fails, first A, then B", "The way we release is A, then B", "Remember how to
do X: …". Precision before recall: the lead fills its sentence, there are two steps at least, each says what to do (or
what "we" or "you" do), nothing between the first and the last of them is pasted or quoted, and a question, a story of
the past and a text above CHARS_MAX teach nothing. Every step is a character range of the text. Linear; pure; refuses
nothing. Not for words of models, tools or the web: the caller knows whose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from policies.fact_patterns_prose import CHARS_MAX, COVER, covered
from policies.procedure_words import (
    AND,
    COMMA,
    COMMANDS,
    CONDITION,
    FIRST,
    INLINE_ITEM,
    ITEM,
    JOIN,
    JOINED,
    LEADS,
    NO_GOAL,
    NO_MORE,
    PAST,
    STEP_ADVERB,
    STEP_HEAD,
    STEP_HEAD_OWN,
)
from policies.taught import VERBS, WORD, Procedure, Step, plain

STEPS_MIN: Final = 2
STEPS_MAX: Final = 30
NAMED_STEPS_MIN: Final = 3
"""Steps that only name what is done ("a call, then the contract, then the keys"), where somebody tells their custom."""
COMMA_STEPS_MIN: Final = 3
STEP_CHARS_MAX: Final = 300
TRIGGER_CHARS_MAX: Final = 120
PROCEDURES_MAX: Final = 8  # of one text
_ACTING_SHARE: Final = 2 / 3
"""Of a written list, how many items must say what to do: one that names a place ("On the server:") is still a step."""
_QUOTES: Final = frozenset('"“”«»„')
# What would be taken for code, or for who speaks: as long as it was.
_STAR: Final = re.compile(r"^([ \t]{0,3})\*(?=[ \t])", re.MULTILINE)
_INLINE_CODE: Final = re.compile(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_STEP_LABEL: Final = re.compile(r"^([ \t]{0,3}step[ ]\d{1,2}):", re.MULTILINE | re.IGNORECASE)
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|\Z)|\n")
_OWNER: Final = re.compile(r"^(?:our|my|the)\s+", re.IGNORECASE)
_DEICTIC: Final = re.compile(r"\b(?:this|these|those)\b", re.IGNORECASE)
_BOLD: Final = re.compile(r"\*\*([^*\n]{1,100})\*\*")
_TRAILING: Final = " \t\n.,;:!" + COVER


def procedures_in(text: str) -> list[Procedure]:
    """The procedures that the speaker of a text teaches in it, in their order, of one trigger the last."""
    if len(text) > CHARS_MAX:
        return []
    said = covered(_INLINE_CODE.sub(r"'\1'", _BOLD.sub(r"  \1  ", _STEP_LABEL.sub(r"\1.", _STAR.sub(r"\1-", text)))))
    found: dict[str, Procedure] = {}
    taken = 0
    for one in sorted((*_listed(text, said), *_told(text, said)), key=lambda one: (one.span[0], -len(one.steps))):
        if one.span[0] < taken or not one.key:
            continue
        taken = one.span[1]
        found.pop(one.key, None)
        found[one.key] = one
    return list(found.values())[:PROCEDURES_MAX]


# ---------------------------------------------------------------- written lists


def _listed(text: str, said: str) -> Iterator[Procedure]:
    """A lead, and below it or behind it items with numbers or bullets."""
    lines = list(_lines(said))
    at = 0
    while at < len(lines):
        start, end = lines[at]
        if not ITEM.match(said, start, end):
            at += 1
            yield from _numbered_inline(text, said, start, end)
            continue
        items, after = _items(said, lines, at)
        lead = _lead_before(said, lines, at)
        at = after
        if lead is not None:
            yield from _made(text, said, *lead, items, share=_ACTING_SHARE)


def _lines(said: str) -> Iterator[tuple[int, int]]:
    """Lines that hold anything."""
    start = 0
    for line in said.splitlines(keepends=True):
        if line.strip(" \t\n" + COVER):
            yield start, start + len(line.rstrip("\n"))
        start += len(line)


def _items(said: str, lines: Sequence[tuple[int, int]], at: int) -> tuple[list[tuple[int, int]], int]:
    """The items that follow one another from this line on, numbered as they should be, and the line behind them."""
    items: list[tuple[int, int]] = []
    for place in range(at, len(lines)):
        start, end = lines[place]
        marker = ITEM.match(said, start, end)
        if marker is not None:
            number = marker["number"] or marker["step"]
            if number is not None and int(number) != len(items) + 1:
                return items, max(place, at + 1)
            items.append((marker.end(), end))
        elif items and said[start : start + 2] == "  " and start - items[-1][1] <= 2:
            items[-1] = (items[-1][0], end)  # it goes on below
        else:
            return items, place
    return items, len(lines)


def _lead_before(said: str, lines: Sequence[tuple[int, int]], at: int) -> tuple[int, re.Match[str]] | None:
    """The sentence right above a list, where it is a lead."""
    if not at:
        return None
    start, end = lines[at - 1]
    if said[start:end].rstrip()[-1:] != ":":
        return None
    return _lead_at_end(said, start, end)


def _lead_at_end(said: str, start: int, end: int) -> tuple[int, re.Match[str]] | None:
    """Of a range that ends with a colon: its last sentence, where that is a lead from its start to its end."""
    for begin in [*(found.end() for found in _SENTENCE_END.finditer(said, start, end)), start]:
        first = begin + len(said[begin:end]) - len(said[begin:end].lstrip())
        for pattern in LEADS:
            lead = pattern.fullmatch(said, first, end)
            if lead is not None:
                return first, lead
    return None


def _numbered_inline(text: str, said: str, start: int, end: int) -> Iterator[Procedure]:
    """ "To deploy: 1. test 2. build 3. push" in one line."""
    marks = list(INLINE_ITEM.finditer(said, start, end))
    runs = [mark for number, mark in enumerate(marks, 1) if int(mark[1] or mark[2]) == number]
    if len(runs) < STEPS_MIN or len(runs) != len(marks):
        return
    lead = _lead_at_end(said, start, runs[0].start())
    if lead is not None:
        ends = [mark.start() for mark in runs[1:]] + [end]
        items = [(mark.end(), upto) for mark, upto in zip(runs, ends, strict=True)]
        yield from _made(text, said, *lead, items, share=_ACTING_SHARE)


# ---------------------------------------------------------------- told in sentences


def _told(text: str, said: str) -> Iterator[Procedure]:
    """A lead and what is to be done in one sentence, or in those that go on with "then"."""
    ranges = list(_sentences(said))
    for at, (start, end) in enumerate(ranges):
        leads = (pattern.match(said, start, end) for pattern in LEADS)
        for lead in (lead for lead in leads if lead is not None):
            begins, upto = lead.end(), end
            following = ranges[at + 1 :]
            if begins >= end:  # "… how to deploy. First …"
                if not following or not FIRST.match(said, *following[0]):
                    continue
                (begins, upto), following = following[0], following[1:]
            for begin, stop in following:
                if not JOINED.match(said, begin, stop):
                    break
                upto = stop
            parts = _parts(said, begins, upto, own=_is_own(lead))
            made = list(_made(text, said, start, lead, parts, share=1.0))
            yield from made
            if made:
                break


def _sentences(said: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in (*_SENTENCE_END.finditer(said), None):
        end = len(said) if found is None else found.end()
        first = start + len(said[start:end]) - len(said[start:end].lstrip())
        last = first + len(said[first:end].rstrip())
        if last > first:
            yield first, last
        start = end


def _parts(said: str, start: int, end: int, *, own: bool) -> list[tuple[int, int]]:
    """What "then" joins, and of each what commas join where all of these say what to do."""
    joined = list(_between(said, start, end, JOIN))
    parts: list[tuple[int, int]] = []
    for begin, stop in joined:
        inner = list(_between(said, begin, stop, COMMA))
        inner[-1:] = _between(said, *inner[-1], AND) if len(inner) > 1 else inner[-1:]
        acting = len(inner) > 1 and all(_acts(said, *_bare(said, *one, own=own)) for one in inner)
        parts += inner if acting else [(begin, stop)]
    return parts if len(joined) > 1 or len(parts) >= COMMA_STEPS_MIN else []


def _between(said: str, start: int, end: int, joint: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    at = start
    for found in joint.finditer(said, start, end):
        if found.start() > at:
            yield at, found.start()
        at = found.end()
    if end > at:
        yield at, end


# ---------------------------------------------------------------- what counts


def _made(
    text: str, said: str, start: int, lead: re.Match[str], items: Sequence[tuple[int, int]], *, share: float
) -> Iterator[Procedure]:
    """The procedure of a lead and its items, where it is one."""
    trigger, event = _trigger(lead)
    own = _is_own(lead)
    if trigger is None or not STEPS_MIN <= len(items) <= STEPS_MAX or _is_broken(text, said, start, items[-1][1]):
        return
    bare = [_bare(said, *one, own=own) for one in items]
    acting = sum(_acts(said, *one) for one in bare)
    named = _is_named(lead) and len(items) >= NAMED_STEPS_MIN and acting == 0
    if not named and (acting < STEPS_MIN or acting < len(items) * share):
        return
    if any(not _is_step(said, *one) for one in bare) or said[start : items[-1][1]].rstrip()[-1:] == "?":
        return
    steps = tuple(Step(plain(text[a:b]), (a, b)) for a, b in bare)
    if len({step.text.casefold() for step in steps}) == len(steps):
        yield Procedure(trigger, event, steps, (start, bare[-1][1]))


def _trigger(lead: re.Match[str]) -> tuple[str | None, bool]:
    """What it is for, or when it is done (True); None where that is nothing to look it up by."""
    groups = lead.groupdict()
    event = groups.get("event")
    trigger = " ".join((event or groups.get("goal") or "").split()).strip(_TRAILING)
    if not event:
        trigger = _OWNER.sub("", trigger)
        trigger = trigger if trigger[1:2].isupper() else f"{trigger[:1].lower()}{trigger[1:]}"
    first = WORD.match(trigger)
    if not 2 <= len(trigger) <= TRIGGER_CHARS_MAX or first is None or COVER in trigger or NO_MORE.search(lead[0]):
        return None, False
    if event:
        return (None if PAST.search(trigger) or _DEICTIC.search(trigger) else trigger), True
    acts = first[0].casefold() in VERBS
    if NO_GOAL.match(trigger) or (not acts and not _is_named(lead)):
        return None, False
    return trigger, False


def _is_own(lead: re.Match[str]) -> bool:
    return lead.groupdict().get("own") is not None or _is_named(lead)


def _is_named(lead: re.Match[str]) -> bool:
    return lead.groupdict().get("named") is not None


def _is_broken(text: str, said: str, start: int, end: int) -> bool:
    """Whether something between is pasted or quoted: then these are not all the speaker's own words."""
    return any(
        (mine == "\n" and its not in "\n\r") or (mine == COVER and its in _QUOTES)
        for mine, its in zip(said[start:end], text[start:end], strict=True)
    )


def _bare(said: str, start: int, end: int, *, own: bool) -> tuple[int, int]:
    """A step without what joins it to others, without who does it, and without its full stop."""
    while end > start and said[end - 1] in " \t\n.,;:!":
        end -= 1
    start += len(said[start:end]) - len(said[start:end].lstrip())
    for head in (STEP_HEAD, STEP_HEAD_OWN) if own else (STEP_HEAD,):
        found = head.match(said, start, end)
        if found is not None and found.end() < end:
            start = found.end()
    return start, end


def _acts(said: str, start: int, end: int) -> bool:
    """Whether it says what to do."""
    adverb = STEP_ADVERB.match(said, start, end)
    at = adverb.end() if adverb is not None else start
    if said[at : at + 1] == "'":  # a command, in backticks
        return True
    word = WORD.match(said, at, end)
    if word is None:
        return False
    if CONDITION.match(said, at, end):
        return True
    first = word[0].casefold()
    return first in VERBS or first in COMMANDS or _is_gerund(first)


def _is_gerund(word: str) -> bool:
    stem = word.removesuffix("ing")
    return stem != word and (stem in VERBS or f"{stem}e" in VERBS or stem[:-1] in VERBS)


def _is_step(said: str, start: int, end: int) -> bool:
    words = said[start:end].strip(COVER + " ")
    return bool(words) and end - start <= STEP_CHARS_MAX and not words.endswith("?")
