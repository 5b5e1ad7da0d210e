"""What a JSON object of a body may not hold: an object in, which member is too much and why out, None for one that may
go on.

Too much is what JSON can say and a store cannot keep: a number beyond a double's range (1e999 reads as infinity), and
nesting that whoever walks it later would need a stack for. Pure; reads without recursion, in time linear in the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

DEPTH_MAX: Final = 64


def too_much(said: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first member that is too much, its name cut short, and why."""
    return next(((name[:64], why) for name, one in said.items() if (why := _too_much(one)) is not None), None)


def _too_much(value: Any) -> str | None:
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
