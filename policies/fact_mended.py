"""A turn as it was meant, where a later sentence of it puts a value right: the mended text in, facts by their place in
the turn out.

"It is on Monday. No, Friday." states that it is on Friday, and rests on both sentences. Pure; refuses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from policies.extraction import facts_in
from policies.fact import Fact


@dataclass(frozen=True, slots=True)
class Mended:
    """A turn as it was meant: `place` is where in it the right words stand, `right` where they stand in the turn; what
    is behind the place stands `longer` characters further on than in the turn.
    """

    text: str
    place: tuple[int, int]
    right: tuple[int, int]
    longer: int

    def facts(self, said_at: datetime, speaker: str | None) -> list[Fact]:
        """What it states, each with the range of the turn that it rests on."""
        found = facts_in(self.text, said_at=said_at, speaker=speaker)
        return [replace(one, span=self._span(*one.span)) for one in found]

    def _span(self, start: int, end: int) -> tuple[int, int]:
        if start < self.place[1] and end > self.place[0]:
            return start if start < self.place[0] else self.right[0], self.right[1]
        further = self.longer if start >= self.place[1] else 0
        return start - further, end - further
