"""Attributes that a person writes: those of a memory as given and as known in, which of them may not be so out. Pure.

A memory's attributes are its owner's, but what the product writes and reads there keeps its shape; and what decides
what a memory is or who is given it (a card, a month, a document of one conversation) is changed by what wrote it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

DEPTH_MAX: Final = 16
"""Objects and lists within each other, the attributes themselves included."""
MEMBERS_MAX: Final = 256
VALUES_MAX: Final = 4_096
"""Of all depths together: each text is looked at for secrets by itself."""
Shape = Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_named_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _are_steps(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in value)


_FIXED: Final[Mapping[str, frozenset[str]]] = {
    "semantic": frozenset({"entity", "relationship", "artifact"}),
    "document": frozenset({"document", "saved"}),
    "summary": frozenset({"month"}),
}
_SHAPES: Final[Mapping[str, Mapping[str, tuple[Shape, str]]]] = {
    "semantic": {
        **dict.fromkeys(("subject", "predicate", "object", "category", "cardinality"), (_is_text, "a text")),
        "negated": (_is_flag, "true or false"),
        "qualifiers": (_are_named_texts, "an object of texts"),
    },
    "procedural": {
        **dict.fromkeys(("trigger", "origin", "state", "reason"), (_is_text, "a text")),
        **dict.fromkeys(("number", "success_count", "failure_count"), (_is_count, "a whole number")),
        "steps": (_are_steps, 'a list of objects with a "text"'),
    },
    "summary": {
        "intent": (_is_text, "a text"),
        **dict.fromkeys(("decisions", "open_questions", "names"), (_are_texts, "a list of texts")),
    },
    "document": {
        **dict.fromkeys(("name", "title"), (_is_text, "a text")),
        "heading": (_are_texts, "a list of texts"),
    },
}
"""By a memory's kind, the members that are read; an episode's are read member by member, whatever stands there."""


def fault_in(kind: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> str | None:
    """Why a memory of this kind may not have these attributes, naming the member; what it has already it may have."""
    for name in sorted(_FIXED.get(kind, ())):
        if given.get(name) != known.get(name):
            return f"{name} says what this memory is, and is not changed here"
    for name, (fits, shape) in _SHAPES.get(kind, {}).items():
        if name in given and not fits(given[name]) and given[name] != known.get(name):
            return f"{name} is {shape}"
    return None


def names_read(kind: str) -> frozenset[str]:
    """The members that the product writes and reads in a memory of this kind."""
    return _FIXED.get(kind, frozenset()) | _SHAPES.get(kind, {}).keys()


def excess_in(given: Mapping[str, Any]) -> str | None:
    """Which bound these attributes pass. Does not recurse."""
    if len(given) > MEMBERS_MAX:
        return f"at most {MEMBERS_MAX} members"
    level: list[Any] = [given]
    values = 0
    for _ in range(DEPTH_MAX + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return None
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        values += len(level)
        if values > VALUES_MAX:
            return f"at most {VALUES_MAX} values"
    return f"at most {DEPTH_MAX} objects and lists within each other"
