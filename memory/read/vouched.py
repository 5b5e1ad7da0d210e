"""What may stand beside what in an answer: what was found in, in rank order; the same, sifted by policies/poisoning.

Reads what ScopeIndex owns, changes nothing. What is left out is folded into what it counts behind. Looks at short texts
(one window) for who repeats themselves, at any for what nobody vouches for. No I/O; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.read.dense import DenseIndex
from memory.read.items import IndexItem
from memory.read.newest_first import Found
from policies.poisoning import (
    ASKED_MIN,
    COPIES_MIN,
    COPIES_WITHIN_S,
    COPY,
    DEPTH,
    SAME_WORDS,
    UNVOUCHED,
    VOUCHED,
    Claim,
    Wording,
    sift,
    states,
)

Floats = NDArray[np.float32]
# Of a long document so many windows are compared: time is bounded, 24 documents take less than a millisecond.
WINDOWS_READ: Final = 8
_ROUNDING: Final = 1e-6  # of a cosine, compared as one number here and as another by the rules


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
        near_asked = [None] * len(looked) if asked is None else asked[[one.at for one in looked]].tolist()
        short = [self._may_be_said_again(one, item) for one, item in zip(looked, items, strict=True)]
        planted = [item.integrity in UNVOUCHED for item in items]
        if not any(planted) and not _may_repeat(items, short, near_asked):
            return found, later
        claimed = any(planted)
        stating = [short[at] and (claimed or (near_asked[at] or 0.0) >= ASKED_MIN) for at in range(len(looked))]
        near = self._nearness(looked, [at for at in range(len(looked)) if stating[at] or planted[at]])
        if not claimed and max(_like(near, COPY)) < COPIES_MIN - 1:
            return found, later
        like = _like(near, SAME_WORDS)
        claims = [
            Claim(
                integrity=item.integrity,
                states=stating[at] and (claimed or like[at] > 0) and states(item.content),
                source=item.session_id,
                asked=near_asked[at],
                said_at=_seconds(item.occurred_at),
                arrived_at=_seconds(item.created_at),
                wording=Wording.of(item.content) if like[at] else Wording(),  # nobody asks for that of others
            )
            for at, item in enumerate(items)
        ]
        cosines = near.tolist()
        sifted = sift(claims, lambda one, other: float(cosines[one][other]))
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

    def _may_be_said_again(self, one: Found, item: IndexItem) -> bool:
        """Whether it is a person's own short text: what takes the place of a claim, or is said over and over."""
        said = item.kind == "episodic" and item.role == "user" and item.integrity in VOUCHED
        return said and len(self._units[one.slot]) == 1

    def _nearness(self, looked: Sequence[Found], which: Sequence[int]) -> Floats:
        """The cosine of the nearest windows of each two of these, shape [looked, looked]; -1 for the others."""
        near = np.full((len(looked), len(looked)), -1.0, np.float32)
        units = [self._units[looked[at].slot][:WINDOWS_READ] for at in which]
        starts = np.cumsum([0, *map(len, units[:-1])])
        products = self._dense.between([unit for own in units for unit in own])
        near[np.ix_(which, which)] = np.maximum.reduceat(np.maximum.reduceat(products, starts, axis=0), starts, axis=1)
        return near


def _like(near: Floats, least: float) -> list[int]:
    """To how many others each is as near as this."""
    as_near = near >= least - _ROUNDING
    np.fill_diagonal(as_near, False)
    found: list[int] = np.count_nonzero(as_near, axis=1).tolist()
    return found


def _may_repeat(items: Sequence[IndexItem], short: Sequence[bool], asked: Sequence[float | None]) -> bool:
    """Whether so many short texts near to the question came within an hour that one may be a copy of another."""
    times = sorted(
        item.created_at.timestamp()
        for item, is_short, near in zip(items, short, asked, strict=True)
        if is_short and item.created_at is not None and (near or 0.0) >= ASKED_MIN
    )
    after = zip(times, times[COPIES_MIN - 1 :], strict=False)
    return any(late - early <= COPIES_WITHIN_S for early, late in after)


def _last(behind: Mapping[int, int], at: int) -> int:
    """What stays of a chain of one behind the other."""
    while at in behind:
        at = behind[at]
    return at


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
