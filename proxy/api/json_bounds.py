"""What a JSON value of a body may not be: a value in, why it is too much out, None for one that may go on.

Too much is what JSON can say and a store cannot keep: a number beyond a double's range (1e999 reads as infinity), and
nesting that whoever walks it later would need a stack for. Pure; reads without recursion, in time linear in the value.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

DEPTH_MAX: Final = 64


def too_much(value: Any) -> str | None:
    """Why the value is too much."""
    waiting: list[tuple[Any, int]] = [(value, 0)] if isinstance(value, dict | list | float) else []
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, float):
            if not isfinite(one):
                return "a number in it is beyond what can be kept (1.8e308)"
            continue
        if depth == DEPTH_MAX:
            return f"it is nested deeper than {DEPTH_MAX} levels"
        members = one.values() if isinstance(one, dict) else one
        waiting += [(member, depth + 1) for member in members if isinstance(member, dict | list | float)]
    return None
