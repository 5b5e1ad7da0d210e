"""How answers are wished to be written, by what was learnt: items in, the newest wish of each facet out.

Bookkeeping of ScopeIndex, which owns the slot numbers. No I/O, refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.read.items import IndexItem
from policies.style import facet_of

_VOUCHED: Final = frozenset({"admin", "user"})
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Styles:
    """The facts of one index that say how its user likes answers to be."""

    def __init__(self) -> None:
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

    def newest(self, items: Mapping[int, IndexItem], allowed: NDArray[np.bool_]) -> list[IndexItem]:
        """Of each facet the wish that was said last, among the slots that may be seen; the newest first."""
        found: dict[str, IndexItem] = {}
        for slot, facet in self._facets.items():
            if allowed[slot]:
                found[facet] = max((items[slot], found.get(facet, items[slot])), key=_said_at)
        return sorted(found.values(), key=_said_at, reverse=True)


def _said_at(item: IndexItem) -> tuple[datetime, int]:
    return item.occurred_at or _LONG_AGO, item.memory_id.int
