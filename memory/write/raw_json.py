"""Where the values of a JSON text stand: text in, the raw spans of an object's members or an array's elements out.

For bodies of which most must go on as the bytes they came in (numbers, escapes, order). Pure. Raises ValueError for
what is not JSON as Python reads it, which is how vLLM reads it too.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

_DECODER: Final = json.JSONDecoder(strict=True)
_BLANKS: Final = re.compile(r"[ \t\n\r]*")


class Member(NamedTuple):
    """One member of an object: text[start:end] is its value, raw."""

    key: str
    start: int
    end: int


def members(text: str, start: int = 0) -> dict[str, Member]:
    """The members of the object that opens at text[start], blanks skipped; of equal keys the last, which counts."""
    try:
        return _members(text, _after_blanks(text, start))
    except (IndexError, RecursionError) as exc:
        raise ValueError("not a readable JSON object") from exc


def elements(text: str, start: int) -> list[tuple[int, int]]:
    """The raw spans of the elements of the array that opens at text[start]."""
    try:
        return _elements(text, start)
    except (IndexError, RecursionError) as exc:
        raise ValueError("not a readable JSON array") from exc


def _members(text: str, start: int) -> dict[str, Member]:
    _expect(text, start, "{")
    found: dict[str, Member] = {}
    at = _after_blanks(text, start + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        if not isinstance(key, str):
            raise ValueError("a key that is no string")
        at = _after_blanks(text, at)
        _expect(text, at, ":")
        value = _after_blanks(text, at + 1)
        _, end = _DECODER.raw_decode(text, value)
        found.pop(key, None)
        found[key] = Member(key, value, end)
        at = _next(text, end, "}")
    return found


def _elements(text: str, start: int) -> list[tuple[int, int]]:
    _expect(text, start, "[")
    found: list[tuple[int, int]] = []
    at = _after_blanks(text, start + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append((at, end))
        at = _next(text, end, "]")
    return found


def _next(text: str, at: int, closing: str) -> int:
    """Behind a value: the start of the next one, or the closing character."""
    at = _after_blanks(text, at)
    if text[at] == closing:
        return at
    _expect(text, at, ",")
    at = _after_blanks(text, at + 1)
    if text[at] == closing:
        raise ValueError("a comma before the end")
    return at


def _expect(text: str, at: int, character: str) -> None:
    if text[at] != character:
        raise ValueError(f"expected {character} at {at}")


def _after_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at
