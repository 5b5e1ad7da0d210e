"""How a user likes answers to be, as a vector: items in, of each facet the wish that holds and its strength out.

Of one facet the wish that was said last holds ("short answers", then "detailed answers"); among facets the one that is
held most strongly goes first, by the same rule that the preferences' list shows (policies/preference). A fact names the
turns that say it; of one that this index has no more, only that it was said counts.
Bookkeeping of ScopeIndex, which owns the slot numbers. No I/O, refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.read.facts import Facts
from memory.read.items import IndexItem
from policies.preference import strength
from policies.style import facet_of

_VOUCHED: Final = frozenset({"admin", "user"})
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Wish:
    """One component of the vector. `strength`: 0 to 1."""

    item: IndexItem
    strength: float
    last_said: datetime


class Styles:
    """The facts of one index that say how its user likes answers to be."""

    def __init__(self, items: Mapping[int, IndexItem], facts: Facts) -> None:
        self._items = items
        self._said_in = facts
        self._facets: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._facets)

    def put(self, slot: int, item: IndexItem) -> None:
        """Fill a slot."""
        self._facets.pop(slot, None)
        about = item.attributes
        if item.kind == "semantic" and about.get("category") == "preference" and item.integrity in _VOUCHED:
            facet = facet_of(str(about.get("predicate", "")), str(about.get("object", "")))
            if facet is not None:
                self._facets[slot] = facet

    def drop(self, slot: int) -> None:
        """Empty a slot."""
        self._facets.pop(slot, None)

    def vector(self, allowed: NDArray[np.bool_], now: datetime) -> list[Wish]:
        """The wish of each facet, among the slots that may be seen, the strongest first; of equals the last said."""
        holding: dict[str, Wish] = {}
        for slot, facet in self._facets.items():
            if allowed[slot]:
                wish = self._wish(self._items[slot], now)
                holding[facet] = max(wish, holding.get(facet, wish), key=_said)
        return sorted(holding.values(), key=lambda one: (one.strength, *_said(one)), reverse=True)

    def _wish(self, item: IndexItem, now: datetime) -> Wish:
        turns = list(self._turns(item))
        sessions = {one.session_id for one in turns}
        last = max((one.occurred_at for one in (item, *turns) if one.occurred_at is not None), default=_LONG_AGO)
        vouched = item.pinned or item.validation_status == "confirmed"
        said = max(len(item.event_ids), 1)
        return Wish(item, strength(said, max(len(sessions), 1), now - last, vouched=vouched), last)

    def _turns(self, item: IndexItem) -> Iterable[IndexItem]:
        slots = (self._said_in.turn(event_id) for event_id in item.event_ids)
        return (self._items[slot] for slot in slots if slot is not None)


def _said(one: Wish) -> tuple[datetime, int]:
    return one.last_said, one.item.memory_id.int
