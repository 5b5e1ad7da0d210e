"""How many requests in a minute are too many: the counts of this minute and the last in, admitted or when to come out.

A sliding window of two fixed ones: what was in the last minute counts for the part of it that lies less than sixty
seconds back. Unlike one fixed window it never admits twice the limit around the turn of a minute, and unlike a list of
times it is two numbers, whatever the limit. Pure: `elapsed_s` is the caller's clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 60.0
_HAIR: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Used:
    """What a key had used before this request: requests of the last minute and of this one, tokens of the day."""

    admitted: bool
    previous: int
    current: int
    tokens: int


def share_left(elapsed_s: float) -> float:
    """The part of the last window that still counts, 0..1, when this one is so many seconds old.

    A hair less than that, or rounding would refuse who comes when told: 144 * (1 - 20 / 60) + 1 > 97.
    """
    return min(max(1.0 - elapsed_s / WINDOW_S - _HAIR, 0.0), 1.0)


def admits(previous: int, current: int, limit: int, elapsed_s: float) -> bool:
    """Whether one more fits."""
    return previous * share_left(elapsed_s) + current + 1 <= limit


def retry_after_s(previous: int, current: int, limit: int, elapsed_s: float) -> int:
    """Whole seconds, 1 or more, until one more fits if nothing else comes."""
    left = WINDOW_S - elapsed_s
    if current + 1 <= limit:  # the last window's share shrinks until there is room
        enough = 1.0 - (limit - current - 1) / previous if previous else 0.0
        return max(1, math.ceil(enough * WINDOW_S - elapsed_s))
    enough = 1.0 - (limit - 1) / current
    return max(1, math.ceil(left + enough * WINDOW_S))
