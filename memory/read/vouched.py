"""What may stand beside what in an answer: what was found in, in rank order; the same, sifted by policies/poisoning.

Reads what ScopeIndex owns, changes nothing. What is left out is folded into what it counts behind. Looks at short texts
(one window) for who repeats themselves, at any for what nobody vouches for. No I/O; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.read.dense import DenseIndex
from memory.read.items import IndexItem
from memory.read.newest_first import Found
from policies.poisoning import COPIES_MIN, DEPTH, UNVOUCHED, VOUCHED, Claim, sift, states

Floats = NDArray[np.float32]


class Vouched:
    """Puts what people said before what was planted."""

    def __init__(self, items: Mapping[int, IndexItem], units: Mapping[int, Sequence[int]], dense: DenseIndex) -> None:
        self._items = items
        self._units = units
        self._dense = dense

    def first(
        self, found: list[Found], later: dict[int, UUID], asked: Floats | None
    ) -> tuple[list[Found], dict[int, UUID]]:
        """The same without what counts behind another. `later`: by position what says it later; `asked`: cosines."""
        looked = found[:DEPTH]
        items = [self._items[one.slot] for one in looked]
        if not any(item.integrity in UNVOUCHED for item in items) and not self._may_repeat(looked, items):
            return found, later
        near = self._nearness(looked)
        claims = [
            self._claim(item, one, None if asked is None else float(asked[one.at]))
            for one, item in zip(looked, items, strict=True)
        ]
        sifted = sift(claims, lambda one, other: float(near[one, other]))
        if not sifted.behind:
            return found, later
        joined: dict[int, list[UUID]] = {}
        for left, kept in sifted.behind.items():
            joined.setdefault(_last(sifted.behind, kept), []).extend((items[left].memory_id, *looked[left].folded))
        gone = {looked[left].at for left in sifted.behind} | {items[left].memory_id for left in sifted.behind}
        order = [looked[at]._replace(folded=(*looked[at].folded, *joined.get(at, ()))) for at in sifted.order]
        passed = {looked[at].at for at in joined.keys() & set(sifted.order)}
        return [*order, *found[DEPTH:]], {
            at: by
            for at, by in later.items()
            if at not in gone and by not in gone and not self._is_flooded(by, looked, passed)
        }

    def _is_flooded(self, by: UUID, looked: Sequence[Found], passed: set[int]) -> bool:
        """Whether what is said to hold later was only said over and over."""
        return any(one.at in passed and self._items[one.slot].memory_id == by for one in looked)

    def _may_repeat(self, looked: Sequence[Found], items: Sequence[IndexItem]) -> bool:
        """Whether so many short statements came within an hour of each other that one may be a copy of another."""
        times = sorted(
            item.created_at.timestamp()
            for one, item in zip(looked, items, strict=True)
            if item.created_at is not None and self._may_be_a_copy(one, item)
        )
        return any(late - early <= 3_600 for early, late in zip(times, times[COPIES_MIN - 1 :], strict=False))

    def _may_be_a_copy(self, one: Found, item: IndexItem) -> bool:
        said = item.kind == "episodic" and item.role == "user" and item.integrity in VOUCHED
        return said and len(self._units[one.slot]) == 1

    def _claim(self, item: IndexItem, one: Found, asked: float | None) -> Claim:
        short = item.integrity in UNVOUCHED or self._may_be_a_copy(one, item)
        return Claim(
            integrity=item.integrity,
            states=short and item.kind == "episodic" and states(item.content),
            source=item.session_id,
            asked=asked,
            said_at=_seconds(item.occurred_at),
            arrived_at=_seconds(item.created_at),
        )

    def _nearness(self, looked: Sequence[Found]) -> Floats:
        """The cosine of the nearest windows of each two, shape [looked, looked]."""
        units = [self._units[one.slot] for one in looked]
        starts = np.cumsum([0, *map(len, units[:-1])])
        products = self._dense.between([unit for own in units for unit in own])
        near: Floats = np.maximum.reduceat(np.maximum.reduceat(products, starts, axis=0), starts, axis=1)
        return near


def _last(behind: Mapping[int, int], at: int) -> int:
    """What stays of a chain of one behind the other."""
    while at in behind:
        at = behind[at]
    return at


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
