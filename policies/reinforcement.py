"""What a fact gains by being said again: in how many sessions it was heard in, importance and confidence out.

From the third session on, each closes the same share of what is left to a bound: x + rate * (bound - x), the rule by
which a trace is strengthened in Rescorla and Wagner (Classical Conditioning II, 1972). So the first gains are the
largest, no number of repetitions passes the bound, and it comes to the same whether three sessions are counted in one
night or in three. Sessions and not sayings: what is said twice in one breath is heard once. The rates are a choice, not
a measurement; the bounds are below 1 since one person may be wrong each time. Pure; refuses nothing.
"""

from __future__ import annotations

from typing import Final

SESSIONS_MIN: Final = 3
IMPORTANCE_RATE: Final = 0.2
IMPORTANCE_MAX: Final = 0.9
CONFIDENCE_RATE: Final = 0.3
CONFIDENCE_MAX: Final = 0.95


def gains(sessions: int, counted: int) -> int:
    """How many sessions count that did not before, when `counted` were heard of then."""
    return max(0, sessions - SESSIONS_MIN + 1) - max(0, counted - SESSIONS_MIN + 1)


def importance_after(importance: float, new: int) -> float:
    """Importance, 0..1, after so many sessions more."""
    return _grown(importance, new, IMPORTANCE_RATE, IMPORTANCE_MAX)


def confidence_after(confidence: float, new: int) -> float:
    """Confidence, 0..1, after so many sessions more."""
    return _grown(confidence, new, CONFIDENCE_RATE, CONFIDENCE_MAX)


def _grown(value: float, new: int, rate: float, most: float) -> float:
    if new <= 0 or value >= most:
        return value
    left: float = (most - value) * (1 - rate) ** new
    return most - left
