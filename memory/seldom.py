"""What is said again and again: something that fails at every look in, a line of it once a minute out.

What is asked twice a second and is away for a night would fill a disk with one sentence, and hide the others in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

EACH_S: Final = 60.0
USUAL_S: Final = 20.0


class Seldom:
    """One speaker of one process; mutable."""

    def __init__(self, each_s: float = EACH_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._each_s = each_s
        self._clock = clock
        self._said: dict[str, float] = {}

    def due(self, what: str = "") -> bool:
        """Whether this may be said now; then it counts as said."""
        now_s = self._clock()
        self._said = {one: at_s for one, at_s in self._said.items() if now_s - at_s < self._each_s}
        if what in self._said:
            return False
        self._said[what] = now_s
        return True


class Lasting:
    """What is usual while a service starts, and worth a line once it lasts: the same once a minute. Mutable."""

    def __init__(self, after_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._seldom = Seldom(clock=clock)
        self._clock = clock
        self._from_s = clock() + (USUAL_S if after_s is None else after_s)

    def due(self, what: str = "") -> bool:
        """Whether this may be said now; then it counts as said."""
        return self._clock() >= self._from_s and self._seldom.due(what)
