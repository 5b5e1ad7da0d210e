"""What a person has set of a memory by hand: its versions in, what was set and how a copy of it is known out. Pure.

A copy of a scope learns its memories anew from the same turns, so one is known there by its turns and by what it said
before anybody had changed it: the statement of a fact, else the words.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from policies.attributes import names_read

_STATEMENT: Final = ("subject", "predicate", "object", "negated")
_MEMBERS: Final = ("content", "importance", "sensitivity", "validation_status", "expires_at")


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a memory. `by_hand`: a person made it of the one before."""

    content: str
    attributes: dict[str, Any]
    importance: float
    sensitivity: str
    validation_status: str
    expires_at: datetime | None
    recorded_from: datetime
    by_hand: bool


@dataclass(frozen=True, slots=True)
class Edited:
    """What was set of a memory, by the names of its members and attributes, when last, and what it had `learnt`."""

    at: datetime
    members: tuple[str, ...]
    attributes: tuple[str, ...]
    learnt: str


@dataclass(frozen=True, slots=True)
class Hidden:
    """A memory that a person has hidden, or whose end that a person has set is over, and the turns that it rests on."""

    memory_id: UUID
    kind: str
    sensitivity: str
    session_id: UUID | None
    at: datetime
    learnt: str
    source_ids: tuple[str, ...]
    event_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A memory of the same turns as one elsewhere, and all that it has `learnt` or said."""

    memory_id: UUID
    is_hidden: bool
    is_edited: bool
    learnt: Collection[str]


def learnt(content: str, attributes: dict[str, Any]) -> str:
    """SHA-256, in hex, of what a version states: no words of what is hidden leave the store."""
    states = all(isinstance(attributes.get(name), str) for name in _STATEMENT[:3])
    said = [attributes.get(name) for name in _STATEMENT] if states else content
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def first_learnt(versions: Sequence[Version]) -> str:
    """What a memory stated before anybody changed it. `versions`: all of it, oldest first."""
    edits = [number for number, one in enumerate(versions) if one.by_hand and number]
    before = versions[edits[0] - 1] if edits else versions[-1]
    return learnt(before.content, before.attributes)


def edited(kind: str, versions: Sequence[Version]) -> Edited | None:
    """What was set of a memory of this kind by hand; None where nothing was. `versions`: all of it, oldest first."""
    steps = [(old, new) for old, new in pairwise(versions) if new.by_hand]
    if not steps:
        return None
    members = [name for name in _MEMBERS if any(getattr(old, name) != getattr(new, name) for old, new in steps)]
    attributes = {name for old, new in steps for name in _changed(kind, old, new)}
    return Edited(steps[-1][1].recorded_from, tuple(members), tuple(sorted(attributes)), first_learnt(versions))


def _changed(kind: str, old: Version, new: Version) -> set[str]:
    """The attributes that a person changed: with new words the product's own follow by themselves."""
    was, now = old.attributes, new.attributes
    changed = {name for name in {*was, *now} if (name in was, was.get(name)) != (name in now, now.get(name))}
    return changed if old.content == new.content else changed - names_read(kind)
