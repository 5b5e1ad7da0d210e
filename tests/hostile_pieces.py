"""What a pattern may be slow on: a pattern in, short pieces out that, repeated, lead it far and then nowhere.

A piece is the beginning of a text that the pattern finds, made of its own parse tree: behind each repetition lie the
ways that a search goes back.
"""

from __future__ import annotations

import random
import re
from functools import cache
from re import _constants as said
from re import _parser as parser
from typing import Any

_TRIED = "a1 -.,:'\"@/=x_<>()[]{}\n!?#%&|\\\tZé"


def pieces(pattern: re.Pattern[str], texts: int, seed: int = 7) -> list[str]:
    """The beginnings of some texts that the pattern finds, no two the same."""
    chance = random.Random(seed)
    tree = parser.parse(pattern.pattern, pattern.flags)
    found: dict[str, None] = {}
    for _ in range(texts):
        text = _text(tree, chance)
        ends = {len(text), *(chance.randrange(1, len(text) + 1) for _ in range(4) if text)}
        found |= {text[:end]: None for end in sorted(ends) if end}
    return list(found)


def _text(tree: Any, chance: random.Random) -> str:
    return "".join(_node(operation, argument, chance) for operation, argument in tree)


def _node(operation: Any, argument: Any, chance: random.Random) -> str:
    if operation is said.LITERAL:
        return chr(argument)
    if operation in (said.IN, said.NOT_LITERAL, said.ANY):
        return chance.choice(_fitting(operation, argument))
    if operation is said.BRANCH:
        return _text(chance.choice(argument[1]), chance)
    if operation is said.SUBPATTERN:
        return _text(argument[3], chance)
    if operation is said.ATOMIC_GROUP:
        return _text(argument, chance)
    if operation in (said.MAX_REPEAT, said.MIN_REPEAT, said.POSSESSIVE_REPEAT):
        low, high, inside = argument
        times = min(int(high), low + chance.choice((0, 0, 1, 2)))
        return "".join(_text(inside, chance) for _ in range(times))
    return ""  # a place, or what is only looked at


def _fitting(operation: Any, argument: Any) -> list[str]:
    """Characters that one of a set is, or any."""
    if operation is said.ANY:
        return ["a", " "]
    if operation is said.NOT_LITERAL:
        return ["a" if argument != ord("a") else "b"]
    return _of_set(tuple(argument))


@cache
def _of_set(argument: tuple[Any, ...]) -> list[str]:
    """Tried on a pattern of its own."""
    ends = [chr(end) for kind, one in argument for end in _ends(kind, one)]
    own = parser.SubPattern(parser.State(), [(said.IN, list(argument))])
    matches = re._compiler.compile(own).match  # type: ignore[attr-defined]
    return [one for one in (*_TRIED, *ends) if matches(one)] or ["\u4e00"]


def _ends(kind: Any, one: Any) -> tuple[int, ...]:
    return (one,) if kind is said.LITERAL else one if kind is said.RANGE else ()
