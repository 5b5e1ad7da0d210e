"""What a rolling summary keeps beside its sentences, in their own words: intent, decisions, open questions, names.

Sentences of a summary compete anew in every round, and one that loses never comes back. What is kept here does not
compete with them: `keep` takes what was kept before and what was said since, and gives what is kept now. Of decisions
the first and the latest stay when there are too many, since the first shape the most and the latest hold. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from policies.episode import Said
from policies.episode_words import entities_of, names_in
from policies.working_words import Piece, change_in, covers, is_question, request_in, sentences_in

CHARS_READ_MAX: Final = 4_000
DECISIONS_FIRST: Final = 4
DECISIONS_MAX: Final = 12
OPEN_MAX: Final = 6
NAMES_MAX: Final = 16
_NAMES_FIRST: Final = 6
_DECIDED: Final = re.compile(
    r"""\b(?:I|we|they|have|['’]ve)\ (?:have\ |had\ |now\ |finally\ )?(?:decided|agreed|settled\ on|chose|picked)\b
    |\bdecision:|\blet['’]?s\ go\ with\b|(?:\bwill|['’]ll)\ go\ with\b|(?:['’](?:m|re)|\b(?:am|are))\ going\ with\b
    |\b(?:entschieden|beschlossen)\b
    |\b(?:nous|on)\ (?:avons|a)\ décidé\b|\bhemos\ decidido\b|我们?(?:已经)?决定""",
    re.IGNORECASE | re.VERBOSE,
)
_OPEN: Final = re.compile(
    r"""\bopen\ (?:question|issue|point)s?\b|\bto\ be\ (?:decided|determined)\b|\bTBD\b
    |\bstill\ (?:open|undecided|unclear|to\ be\ (?:decided|done)|need\ to\ decide)\b
    |\bnoch\ offen\b|\boffene\ Frage\b""",
    re.IGNORECASE | re.VERBOSE,
)
_NEGATED: Final = re.compile(
    r"""\b(?:not|never)\ |n['’]t\b|\b(?:if|unless|wenn|falls|nicht)\b
    |\b(?:when|once|until|before|whether)\ (?:I|we|they)\ (?:have\ |had\ |finally\ )*
        (?:decided|agreed|settled|chose|picked)\b
    |\b(?:nichts|nie|niemals|niemand|kein\w{0,2}|ob|bis|bevor|sobald)\b[^,;:]{0,60}\b(?:entschieden|beschlossen)\b
    |\b(?:no|si|cuando|hasta\ que)\ (?:lo\ |la\ |nos\ )?hemos\b|\b(?:si|quand|dès\ que)\ (?:nous|on)\b
    |决定不[了下]|(?:如果|要是|假如)我|等我们?决定""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a conversation. `sources`: whose words, names too, came in last: the summary's edges."""

    intent: str | None = None
    decisions: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    sources: tuple[UUID, ...] = ()

    def chars_beyond(self, content: str) -> int:
        """Characters of what does not stand in `content` too: what does is only pointed out."""
        parts = (self.intent or "", *self.decisions, *self.open, *self.names)
        return sum(len(part) for part in parts if part not in content)

    def attributes(self) -> dict[str, Any]:
        """As a memory's attributes; nothing for what is empty."""
        members = {"intent": self.intent, "decisions": self.decisions, "open_questions": self.open, "names": self.names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in members.items() if value}

    @classmethod
    def of(cls, attributes: Mapping[str, Any] | None) -> Kept:
        """What these attributes keep; whatever else a person has written there is left out."""
        given = attributes or {}
        intent = given.get("intent")
        return cls(
            intent if isinstance(intent, str) and intent else None,
            _texts(given.get("decisions")),
            _texts(given.get("open_questions")),
            _texts(given.get("names")),
        )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str) and one) if isinstance(value, list) else ()


def keep(before: Kept, said: Sequence[Said]) -> Kept:
    """What is kept after these messages. Only what the user says decides, opens or is after something."""
    kept = replace(before, sources=())
    for one in said:
        if one.role == "user":
            kept = _heard(kept, one)
    found = entities_of(said)
    names = _names(before.names, found)
    fresh = set(found).intersection(names)
    naming = [one.event_id for one in said if fresh and not fresh.isdisjoint(names_in(one))]
    return replace(kept, names=names, sources=tuple(dict.fromkeys((*kept.sources, *naming))))


def _heard(kept: Kept, one: Said) -> Kept:
    pieces = sentences_in(one.text[:CHARS_READ_MAX])
    intent = change_in(pieces) or (request_in(pieces) if kept.intent is None else None)
    plain = [piece for piece in pieces if not _NEGATED.search(piece.text)]
    decided = [piece for piece in plain if _DECIDED.search(piece.text) and not is_question(piece.text)]
    left_open = [piece for piece in pieces if _OPEN.search(piece.text) and piece not in decided]
    if not (intent or decided or left_open):
        return kept
    still = tuple(question for question in kept.open if not any(covers([piece], question) for piece in decided))
    return replace(
        kept,
        intent=intent.text if intent else kept.intent,
        decisions=_first_and_latest(_added(kept.decisions, decided)),
        open=_added(still, left_open)[-OPEN_MAX:],
        sources=(*kept.sources, one.event_id),
    )


def _added(known: Sequence[str], pieces: Sequence[Piece]) -> tuple[str, ...]:
    """What is known and what is new, one said again in the same words at its later place."""
    again = {piece.text.casefold() for piece in pieces}
    fresh = dict.fromkeys(piece.text for piece in pieces)
    return (*(one for one in known if one.casefold() not in again), *fresh)


def _first_and_latest(decisions: tuple[str, ...]) -> tuple[str, ...]:
    if len(decisions) <= DECISIONS_MAX:
        return decisions
    return (*decisions[:DECISIONS_FIRST], *decisions[DECISIONS_FIRST - DECISIONS_MAX :])


def _names(before: tuple[str, ...], found: Sequence[str]) -> tuple[str, ...]:
    """The first names that came up, and behind them the latest."""
    first = before[:_NAMES_FIRST]
    known = (*first, *(name for name in before[_NAMES_FIRST:] if name not in found))
    known = (*known, *(name for name in found if name not in first))
    if len(known) <= NAMES_MAX:
        return known
    return (*known[:_NAMES_FIRST], *known[_NAMES_FIRST - NAMES_MAX :])


def fitted(kept: Kept, chars_max: int, content: str) -> Kept:
    """What is kept beside `content`, in at most so many characters more: names go first, then questions, decisions."""
    while kept.chars_beyond(content) > max(0, chars_max):
        if kept.names:
            kept = replace(kept, names=kept.names[:-1])
        elif kept.open:
            kept = replace(kept, open=kept.open[1:])
        elif kept.decisions:
            kept = replace(kept, decisions=kept.decisions[:-1])
        else:
            kept = replace(kept, intent=None)
    return kept
