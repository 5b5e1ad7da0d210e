"""What a model answered: its text and the exchange's own user turns in, facts with their places out.

A fact counts only when its evidence stands, word for word, in a turn that the user said, outside the ranges known to
be injected, and its object was said there too. Everything else is dropped and counted by reason:

    malformed      a member is missing, empty or of another type
    not_said       the evidence is in none of the user's own turns
    injected       it is, but only inside what was placed there: memory, a tool's output, a file
    unsupported    the evidence is there, the object is not: the model's own words, or the assistant's
    trivial        it says of a thing that it is that thing
    repeated       the answer says it twice
    too_many       beyond the bound of one exchange

Its statement is what a memory shows, so it is held to the words of the turn and of the fact too
(memory.write.own_words); otherwise the fact is told by its parts. Tolerates code fences, prose and thinking around
the JSON, and an answer that was cut: whole facts are kept. Pure; `read_answer` gives None for a text without an
answer in it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from memory.write.ask_facts import FACTS_MAX
from memory.write.own_words import Said, says_not, says_only
from policies.fact import Cardinality, Category, Fact
from policies.text import SIGNED_WORD, storable

ANSWER_CHARS_MAX: Final = 65_536
EVIDENCE_CHARS_MAX: Final = 500
STATEMENT_CHARS_MAX: Final = 300
OBJECT_CHARS_MAX: Final = 200
NAME_CHARS_MAX: Final = 80
_OPENINGS_MAX: Final = 200  # braces tried in one answer: each failed one may read to the end
_DECODER: Final = json.JSONDecoder(strict=False)
_THINKING: Final = re.compile(r"<(think|thinking|reasoning)\b[^<>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END: Final = re.compile(r"</(?:think|thinking|reasoning)\s*>", re.IGNORECASE)
_ARTICLE: Final = re.compile(r"^(?:(?:the|an|a)\s+)+(?=\S)")
_USER: Final = frozenset({"user", "i", "me", "myself", "speaker", "the speaker", "the user", "human"})
_QUOTES: Final = {"'": "['’‘]", "’": "['’‘]", "‘": "['’‘]", '"': '["“”„]', "“": '["“”„]', "”": '["“”„]'}
_STEM_FROM_CHARS: Final = 5
_INSIDE_FROM_CHARS: Final = 3


@dataclass(frozen=True, slots=True)
class UserTurn:
    """The text of one user turn as it is stored, the character ranges in it that are no evidence, and its language."""

    text: str
    closed: tuple[tuple[int, int], ...] = ()
    language: str | None = None


@dataclass(frozen=True, slots=True)
class _Open:
    """What of a turn is the user's: its text to look in, and its words."""

    folded: str
    said: Said


@dataclass(frozen=True, slots=True)
class Found:
    """A fact, and the index of the turn whose text its span is a range of."""

    turn: int
    fact: Fact


@dataclass(frozen=True, slots=True)
class Heard:
    """What an answer was worth: facts in its order, and how many were dropped for which reason."""

    found: tuple[Found, ...]
    dropped: Mapping[str, int]


def read_answer(text: str) -> list[Any] | None:
    """The raw facts an answer holds, None when it holds no answer at all. `{"facts": []}` is one: there are none."""
    text = _without_thoughts(text[:ANSWER_CHARS_MAX])
    loose: list[Any] = []
    at = tried = 0
    while (at := _opening(text, at)) >= 0 and tried < _OPENINGS_MAX:
        tried += 1
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        whole, at = not text[:at].strip() and not text[end:].strip(), end
        facts = value.get("facts") if isinstance(value, dict) else (value or (value if whole else None))
        if isinstance(facts, list) and all(isinstance(fact, dict) for fact in facts):
            return facts
        if isinstance(value, dict) and "evidence" in value:
            loose.append(value)
    return loose or None


def heard(items: Sequence[Any], turns: Sequence[UserTurn], *, facts_max: int = FACTS_MAX) -> Heard:
    """The facts that rest on the user's own words."""
    found: list[Found] = []
    dropped: Counter[str] = Counter()
    seen: set[tuple[str, str, str, bool]] = set()
    opened = [_opened(turn) for turn in turns] if items else []
    for item in items:
        checked = _checked(item, turns, opened)
        if isinstance(checked, str):
            dropped[checked] += 1
            continue
        fact = checked.fact
        key = (fact.subject, fact.predicate, fact.object, fact.negated)
        if key in seen or len(found) >= facts_max:
            dropped["repeated" if key in seen else "too_many"] += 1
            continue
        seen.add(key)
        found.append(checked)
    return Heard(tuple(found), dict(dropped))


def _opened(turn: UserTurn) -> _Open:
    text, at = "", 0
    for start, end in sorted(turn.closed):
        text += turn.text[at:start] + "\n"
        at = max(at, end)
    text += turn.text[at:]
    return _Open(" ".join(text.casefold().split()), Said.of(text, language=turn.language))


def _without_thoughts(text: str) -> str:
    """The text without what was thought aloud; templates may open the thought, so an end alone counts as well."""
    kept = _THINKING.sub(" ", text)
    ends = list(_THOUGHT_END.finditer(kept))
    return kept[ends[-1].end() :] if ends else kept


def _opening(text: str, at: int) -> int:
    """Where the next object or array may begin; -1 at the end."""
    places = [place for place in (text.find("{", at), text.find("[", at)) if place >= 0]
    return min(places, default=-1)


def _checked(item: Any, turns: Sequence[UserTurn], opened: Sequence[_Open]) -> Found | str:
    """The fact in its place, or why it is none."""
    if not isinstance(item, dict):
        return "malformed"
    subject, thing = _plain(item.get("subject"), NAME_CHARS_MAX), _plain(item.get("object"), OBJECT_CHARS_MAX)
    named = SIGNED_WORD.findall(_plain(item.get("predicate"), NAME_CHARS_MAX))
    predicate = "_".join(part for word in named for part in word.split("_") if part)
    evidence = _line(item.get("evidence"))
    if not (subject and thing and predicate) or not 2 <= len(evidence) <= EVIDENCE_CHARS_MAX:
        return "malformed"
    if len({subject, predicate.replace("_", " "), thing}) < 3:
        return "trivial"
    place = _place(evidence, turns)
    if isinstance(place, str):
        return place
    turn, span = place
    if not _said(thing, opened[turn]):
        return "unsupported"
    subject = "user" if subject in _USER else subject
    denies = item.get("negated") is True
    statement = _line(item.get("statement"))
    if not len(thing) < len(statement) <= STATEMENT_CHARS_MAX:  # the object alone is no statement
        statement = ""
    parts = f"{subject} {predicate.replace('_', ' ')} {thing}"
    if not says_only(statement, opened[turn].said, Said.of(parts), denies=denies, evidence=evidence):
        statement = ""
    if denies and not says_not(statement):  # the opposite of what was said
        statement = parts if says_not(parts) else f"not so: {parts}"
    fact = Fact(
        subject=subject,
        predicate=predicate,
        object=thing,
        statement=statement or parts,
        span=span,
        category=_category(item.get("category")),
        cardinality=_cardinality(item.get("cardinality")),
        negated=denies,
        correction=item.get("correction") is True,
    )
    return Found(turn, fact)


def _place(evidence: str, turns: Sequence[UserTurn]) -> tuple[int, tuple[int, int]] | str:
    """The turn and range that the evidence quotes, the newest turn first; or why there is none."""
    pattern = _pattern(evidence)
    reason = "not_said"
    for index in reversed(range(len(turns))):
        for match in pattern.finditer(turns[index].text):
            if not any(start < match.end() and match.start() < end for start, end in turns[index].closed):
                return index, match.span()
            reason = "injected"
    return reason


def _pattern(evidence: str) -> re.Pattern[str]:
    """The quotation as it may stand in a text: any white space, any case, straight or curly quotes, whole words."""
    body = r"\s+".join(
        "".join(_QUOTES.get(character) or re.escape(character) for character in word) for word in evidence.split()
    )
    before = r"(?<![A-Za-z0-9])" if _alphanumeric(evidence[0]) else ""
    after = r"(?![A-Za-z0-9])" if _alphanumeric(evidence[-1]) else ""
    return re.compile(before + body + after, re.IGNORECASE)


def _alphanumeric(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _said(thing: str, opened: _Open) -> bool:
    """Whether an object is the user's: every number of it was said, and of its words at least half, stems counted.

    Each word counts once, and of the shortest, which stand inside any text, those that were said as words.
    """
    if thing in opened.folded:
        return True
    words = set(SIGNED_WORD.findall(thing))
    if not words or any(word not in opened.folded for word in words if any(map(str.isdigit, word))):
        return False
    short = {word for word in words if len(word) < _INSIDE_FROM_CHARS and word.isascii()}
    found = len(short & opened.said.words) + sum(_stem(word) in opened.folded for word in words - short)
    return found * 2 >= len(words)


def _stem(word: str) -> str:
    return word if len(word) < _STEM_FROM_CHARS else word[: max(4, len(word) - 2)]


def _line(value: Any) -> str:
    return " ".join(storable(value).split()) if isinstance(value, str) else ""


def _plain(value: Any, chars_max: int) -> str:
    """As facts are compared: casefolded, single spaces, no article before and no full stop behind; "" when too long."""
    line = _line(str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value)
    plain = _ARTICLE.sub("", line.casefold().strip(" .,;!\"'“”"))
    return plain if len(plain) <= chars_max else ""


def _category(value: Any) -> Category:
    return cast(Category, value) if value in get_args(Category) else "fact"


def _cardinality(value: Any) -> Cardinality:
    return cast(Cardinality, value) if value in get_args(Cardinality) else "many"
