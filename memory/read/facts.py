"""Facts and the turns they come from, by item slot: whom a turn speaks for, and which turn says what is no longer so.

A fact is ranked only where its turn may not be seen. As finders of their turns facts gained LoCoMo .002 of recall@10
and cost BEAM-100K .005 and .015 of nDCG@10: who states a value in passing went before who answers
(`python -m bench.tune_recall`). What they know is which of two statements holds.
Bookkeeping of ScopeIndex, which owns the slot numbers. No I/O, refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.read.columns import grown
from memory.read.items import IndexItem
from memory.read.lexical import present, tokenise
from policies.entity import text_of
from policies.newest import values

_NONE: Final = -1


class Facts:
    """The facts of one index and its turns."""

    def __init__(self) -> None:
        self._turns: dict[UUID, int] = {}
        self._said_in: dict[UUID, set[int]] = {}  # facts by the turn that they rest on first
        self._replacing: dict[UUID, set[int]] = {}
        self._turn_of: NDArray[np.int32] = np.full(16, _NONE, np.int32)  # of each fact, where the index has it

    def put(self, slot: int, item: IndexItem) -> None:
        """Fill a slot."""
        while slot >= len(self._turn_of):
            self._turn_of = grown(self._turn_of, _NONE)
        self._turn_of[slot] = _NONE
        event_id = next(iter(item.event_ids), None)
        if event_id is not None and item.kind == "episodic":
            self._turns[event_id] = slot
            self._turn_of[list(self._said_in.get(event_id, ()))] = slot
        elif event_id is not None and item.kind == "semantic":
            self._said_in.setdefault(event_id, set()).add(slot)
            self._turn_of[slot] = self._turns.get(event_id, _NONE)
        if item.kind in ("semantic", "procedural"):
            for outdated in set(item.outdates).difference(item.event_ids):  # said there too: it is not out of date
                self._replacing.setdefault(outdated, set()).add(slot)

    def drop(self, slot: int, item: IndexItem) -> None:
        """Empty a slot."""
        self._turn_of[slot] = _NONE
        event_id = next(iter(item.event_ids), None)
        if event_id is not None and item.kind == "episodic" and self._turns.get(event_id) == slot:
            del self._turns[event_id]
            self._turn_of[list(self._said_in.get(event_id, ()))] = _NONE
        elif event_id is not None and item.kind == "semantic":
            _discard(self._said_in, event_id, slot)
        if item.kind in ("semantic", "procedural"):
            for outdated in item.outdates:
                _discard(self._replacing, outdated, slot)

    def without_those_of_turns(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """These slots but for the facts whose turn is among them; shape [slots]."""
        if not self._said_in:
            return allowed
        facts = np.flatnonzero(self._turn_of[: len(allowed)] != _NONE)
        shown = allowed.copy()
        shown[facts[allowed[self._turn_of[facts]]]] = False
        return shown

    def turn(self, event_id: UUID) -> int | None:
        """The slot of a turn."""
        return self._turns.get(event_id)

    def replacing(self, event_id: UUID) -> Set[int]:
        """The slots of the facts and procedures that have taken the place of something said in this turn."""
        return self._replacing.get(event_id, frozenset())


def _discard(of: dict[UUID, set[int]], event_id: UUID, slot: int) -> None:
    held = of.get(event_id)
    if held is not None:
        held.discard(slot)
        if not held:
            del of[event_id]


def is_asked(
    fact: IndexItem, kinds: Set[str], shared: Set[str], terms: Iterable[str], forms: Mapping[str, tuple[str, ...]]
) -> bool:
    """Whether a question asks what a fact says: for a kind of value that it states, where it states any, and in words
    that name its subject, its predicate, or what tells the subject from its like; or that both turns use (`shared`),
    which for a procedure is all: its numbers count its steps.
    """
    if fact.kind == "procedural":
        return bool(shared)
    stated = {kind for kind, found in values(fact.content).items() if found}
    if stated and stated.isdisjoint(kinds):
        return False
    if shared and not stated:
        return True
    about = fact.attributes
    of = text_of(about.get("qualifiers"), "of")
    words = f"{text_of(about, 'subject')} {text_of(about, 'predicate').replace('_', ' ')} {of}"
    return bool(present(frozenset(tokenise(words, fact.language)), frozenset(terms), forms))
