"""Checkpoints: the parts of one in, their order, what fits, what differs and what a conversation needs of them out.

A part is a few words under a heading of its own (docs/decisions/0030). Pure; refuses (ValueError, in words for whoever
chose it) a name that cannot stand in a path.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from policies.labels import Integrity
from policies.text import is_steering, normalised

Part = Literal[
    "notes", "goal", "plan", "open", "task", "persona", "preference", "entity", "fact", "document", "summary"
]
Section = Part | Literal["given"]
"""What stands under a heading of its own: a part, or what a conversation was given as a file."""

PARTS: Final[tuple[Part, ...]] = (
    "notes",
    "goal",
    "plan",
    "open",
    "task",
    "persona",
    "preference",
    "entity",
    "fact",
    "document",
    "summary",
)
"""The order in which a checkpoint is told."""
LABELS: Final[dict[Section, str]] = {
    "notes": "notes",
    "goal": "goal",
    "plan": "plan",
    "open": "still open",
    "task": "waiting for",
    "persona": "style",
    "preference": "preference",
    "entity": "entity",
    "fact": "",
    "document": "",
    "summary": "summary",
    "given": "",
}
"""What stands beside the speaker of an item of this part; "" where the item says itself what it is."""
IN_PROMPT: Final[frozenset[Part]] = frozenset({"goal", "plan", "open", "task", "summary"})
"""What a prompt that holds the whole conversation says by itself, where it was taken from there."""
NAME_CHARS_MAX: Final = 128
_DROPPED_FIRST: Final[tuple[Part, ...]] = ("summary", "document", "fact", "entity")
_VOUCHED: Final = frozenset({Integrity.ADMIN, Integrity.USER})
_STANDING: Final[frozenset[Part]] = frozenset({"goal", "preference", "persona"})
T = TypeVar("T", bound="Costs")


@dataclass(frozen=True, slots=True)
class Costs:
    """A part and what it takes of the block, tokens."""

    part: Part
    tokens: int


@dataclass(frozen=True, slots=True)
class Said:
    """A part as it is compared: `key` is that of its memory, `text` its words."""

    part: Part
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A part that is worded otherwise: the words before and after, and a unified diff of them."""

    part: Part
    before: Said
    after: Said
    unified: str


@dataclass(frozen=True, slots=True)
class Difference:
    """From one list of parts to another. `same`: how many are in both, word for word."""

    added: tuple[Said, ...]
    removed: tuple[Said, ...]
    changed: tuple[Changed, ...]
    same: int


def name_of(raw: str) -> str:
    """The name as it is kept: NFC. Raises ValueError for one that is empty, too long, or cannot stand in a path."""
    name = normalised("NFC", raw)
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        raise ValueError(f"a checkpoint's name has 1 to {NAME_CHARS_MAX} characters, not {len(name)}")
    if name != name.strip():
        raise ValueError("a checkpoint's name begins and ends with no blank")
    if name in (".", "..") or "/" in name or any(map(is_steering, name)):
        raise ValueError(
            "a checkpoint's name holds no /, no control character and no line separator, and is neither . nor .."
        )
    return name


def may_become(part: Part, integrity: Integrity) -> bool:
    """Whether words of this integrity may stand in such a part: below a user's own nothing becomes a goal, a preference
    or a style (DESIGN section 7).
    """
    return part not in _STANDING or integrity in _VOUCHED


def in_order(parts: Sequence[T]) -> list[T]:
    """The parts as they are told: by kind, each kind in the order given."""
    return sorted(parts, key=lambda one: PARTS.index(one.part))


def fitting(parts: Sequence[T], tokens_max: int) -> list[T]:
    """What is left when the longest tails give way until all fit: summary, documents, facts, entities, the last first.

    Never takes notes, goals, plans or preferences: where these alone are too much they are returned all the same.
    """
    kept = in_order(parts)
    over = sum(one.tokens for one in kept) - tokens_max
    for kind in _DROPPED_FIRST:
        while over > 0 and (last := _last_of(kept, kind)) is not None:
            over -= kept.pop(last).tokens
    return kept


def _last_of(parts: Sequence[Costs], kind: Part) -> int | None:
    return max((at for at, one in enumerate(parts) if one.part == kind), default=None)


def difference(before: Sequence[Said], after: Sequence[Said]) -> Difference:
    """What `after` has more, less and otherwise. A memory in both with other words has changed; so have notes, a goal
    and the like that are one on both sides.
    """
    old, new = {one.key: one for one in before}, {one.key: one for one in after}
    both = [key for key in new if key in old]
    changed = [_changed(old[key], new[key]) for key in both if old[key].text != new[key].text]
    removed = [one for one in before if one.key not in new]
    added = [one for one in after if one.key not in old]
    for part in PARTS:
        gone, come = [one for one in removed if one.part == part], [one for one in added if one.part == part]
        if len(gone) == len(come) == 1 and part not in ("fact", "entity", "document"):
            changed.append(_changed(gone[0], come[0]))
            removed.remove(gone[0])
            added.remove(come[0])
    same = sum(old[key].text == new[key].text for key in both)
    return Difference(tuple(added), tuple(removed), tuple(changed), same)


def _changed(before: Said, after: Said) -> Changed:
    lines = difflib.unified_diff(before.text.splitlines(), after.text.splitlines(), lineterm="", n=1)
    return Changed(after.part, before, after, "\n".join(list(lines)[2:]))
