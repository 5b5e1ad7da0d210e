"""How strongly a preference is held: how often and in how many conversations it was said, and how long ago. Pure.

A proposal, not a measurement: once is .4, each doubling .2 more, each further conversation .1 more, halved in 90 days
of silence; what a person confirmed or pinned is held wholly.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final

ONCE: Final = 0.4
DOUBLED: Final = 0.2
CONVERSATION: Final = 0.1
HALF_LIFE: Final = timedelta(days=90)


def strength(said: int, sessions: int, age: timedelta, *, vouched: bool = False) -> float:
    """From 0 to 1. `said` and `sessions` count from 1; `age` is that of the last time it was said."""
    if vouched:
        return 1.0
    whole = ONCE + DOUBLED * math.log2(max(said, 1)) + CONVERSATION * max(sessions - 1, 0)
    faded = 0.5 ** (max(age, timedelta(0)) / HALF_LIFE)
    return float(min(whole, 1.0) * faded)
