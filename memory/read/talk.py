"""What was said together: items by slot in; for scores of visible slots, what each may borrow from its talk out.

A question is mostly answered inside a conversation about its subject, and what a person says next carries the subject
on. Bookkeeping of ScopeIndex, which owns the slot numbers. No I/O, refuses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.read.columns import grown
from memory.read.items import IndexItem

_START: Final = 16  # slots of an empty index
_NONE: Final = -1
_Place = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class Together:
    """The talk of some slots, in their order: all of it that needs no scores.

    `following` is the position of what the same session's people said right after each, the last place for nothing;
    `sessions` numbers sessions, what stands in none has a number of its own, `session_count` are all; `starts` are the
    positions where another session begins than that of the one before.
    """

    following: NDArray[np.int32]
    sessions: NDArray[np.intp]
    session_count: int
    starts: NDArray[np.intp]

    def said_next(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The score of what was said right after each, at least 0; shape of `scores`."""
        lent = np.zeros(len(scores) + 1, np.float32)  # the last place stands for none
        np.maximum(scores, 0.0, out=lent[:-1])
        return lent[self.following]

    def best_of_session(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The best score of each one's session; its own where it stands in none. Shape of `scores`."""
        if not len(scores):
            return scores
        best = np.full(self.session_count, -np.inf, np.float32)
        np.maximum.at(best, self.sessions[self.starts], np.maximum.reduceat(scores, self.starts))
        return best[self.sessions]


class Talk:
    """The conversations of one index. Only turns themselves take part, not what was made of them."""

    def __init__(self) -> None:
        self._next: NDArray[np.int32] = np.full(_START, _NONE, np.int32)
        self._session: NDArray[np.int32] = np.full(_START, _NONE, np.int32)
        self._codes: dict[UUID, int] = {}
        self._slots: dict[_Place, int] = {}

    def put(self, slot: int, item: IndexItem) -> None:
        """Fill a slot."""
        while slot >= len(self._next):
            self._next, self._session = grown(self._next, _NONE), grown(self._session, _NONE)
        place = _place(item)
        self._session[slot] = _NONE if place is None else self._codes.setdefault(place[0], len(self._codes))
        if place is None or item.role != "user":
            return
        self._slots[place] = slot
        session, seq = place
        self._next[slot] = self._slots.get((session, seq + 1), _NONE)
        before = self._slots.get((session, seq - 1))
        if before is not None:
            self._next[before] = slot

    def drop(self, slot: int, item: IndexItem) -> None:
        """Empty a slot."""
        self._next[slot] = self._session[slot] = _NONE
        place = _place(item)
        if place is None or self._slots.get(place) != slot:
            return
        del self._slots[place]
        before = self._slots.get((place[0], place[1] - 1))
        if before is not None:
            self._next[before] = _NONE

    def among(self, visible: slice | NDArray[np.intp]) -> Together:
        """The talk of these slots: ascending, or a slice of all from the first."""
        following, sessions = self._next[visible], self._session[visible].astype(np.intp)
        if not isinstance(visible, slice):
            position = np.full(len(self._next) + 1, len(visible), np.int32)
            position[visible] = np.arange(len(visible), dtype=np.int32)
            following = position[following]
        alone = np.flatnonzero(sessions == _NONE)
        sessions[alone] = np.arange(len(self._codes), len(self._codes) + len(alone))
        begins = np.ones(len(sessions), np.bool_)  # mostly a session stands together
        np.not_equal(sessions[1:], sessions[:-1], out=begins[1:])
        starts = np.flatnonzero(begins)
        return Together(following, sessions, len(self._codes) + len(alone), starts)


def _place(item: IndexItem) -> _Place | None:
    """Where a turn stands; None for what is no turn of a session."""
    if item.kind != "episodic" or item.session_id is None or item.seq < 0:
        return None
    return item.session_id, item.seq
