"""Events of a stream that differ in one string: the bytes around it in, that string of many events out, read at once.

A model's deltas repeat everything but the text. In: an event and the one behind it (`alike_after`), then that one and
all behind it (`takes`). Out: their strings as one text, exactly what reading each of them by itself would give, or None
where that cannot be told. Refuses whatever is not the first event again with another string in the one place.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic_core import from_json

ALIKE_MAX: Final = 512
"""Events in a row that are read at once: beside a string that is no text no more than these are read one by one."""

_PLACE: Final = re.compile(rb'"delta": ?\{"(?!role"|tool_calls")(\w+)": ?"((?:[^"\\]++|\\.)*+)"\}')
_LINE: Final = len(b"data: ")


class Alike:
    """Blocks like a first one: choice `choice` of each carries one string, `name`. `words` are their raw strings."""

    __slots__ = ("_first", "_proved", "choice", "head", "name", "tail", "words")

    def __init__(self, head: bytes, first: bytes, tail: bytes, name: str) -> None:
        self.head = head
        self.tail = tail
        self.name = name
        self.choice = 0
        self.words: list[bytes] = []
        self._first = first
        self._proved = False

    def takes(self, block: bytes) -> bool:
        """Whether this block is one of them; then its string is held."""
        head, tail = self.head, self.tail
        if not (block.startswith(head) and block.endswith(tail)):
            return False
        start, end = len(head), len(block) - len(tail)
        if end < start or len(self.words) == ALIKE_MAX or not (self._proved or self._prove()):
            return False
        self.words.append(block[start:end])
        return True

    def _prove(self) -> bool:
        """Whether this place, and nothing else, is what the choice's delta says: a longer string there shows it."""
        lines = (self.head + word + self.tail for word in (self._first, self._first + b"-"))
        try:
            one, longer = (_only_choice(from_json(line[_LINE:])) for line in lines)
            said = one["delta"][self.name]
            self._proved = longer["delta"][self.name] == said + "-"
        except (ValueError, LookupError, TypeError):
            return False
        index = one.get("index")
        self.choice = index if isinstance(index, int) else 0
        return self._proved

    def text(self) -> str | None:
        """The strings put together; None where one of them is no JSON string, or not one alone.

        A line break inside a string is no JSON, so each begins and ends where it is joined; as many strings as were
        joined, and nothing else, means one of each.
        """
        try:
            texts = from_json(b'["' + b'",\n"'.join(self.words) + b'"]')
            return "".join(texts) if len(texts) == len(self.words) else None
        except (ValueError, TypeError):
            return None


def alike_after(first: bytes, block: bytes) -> Alike | None:
    """What `first`, a line of data, and this block behind it may be like; None where the delta of `first` is no single
    string, or where they differ behind it, as with numbers of each token: that is seen at once.
    """
    if not block.endswith(first[first.find(b'"}', first.find(b'"delta"')) :]):
        return None
    place = _PLACE.search(first)
    if place is None:
        return None
    return Alike(first[: place.start(2)], place[2], first[place.end(2) :], place[1].decode())


def _only_choice(chunk: Any) -> Any:
    (choice,) = chunk["choices"]
    return choice
