"""Events of a stream that differ in one string: the bytes around it in, that string of many events out, read at once.

A model's deltas repeat everything but the text. In: an event and the one behind it (`alike_after`), then that one and
all behind it (`takes`). Out: their strings as one text, exactly what reading each of them by itself would give, or None
where that cannot be told. Refuses whatever is not the first event again with another string in the one place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from pydantic_core import from_json

ALIKE_MAX: Final = 512
"""Events in a row that are read at once: beside a string that is no text no more than these are read one by one."""

_PLACE: Final = re.compile(rb'"delta": ?\{"(?!role"|tool_calls")(\w+)": ?"((?:[^"\\]++|\\.)*+)"\}')
_LINE: Final = len(b"data: ")


class Alike:
    """Blocks like a first one: choice `choice` of each carries one string, `name`. `words` are their raw strings."""

    __slots__ = ("_first", "choice", "head", "name", "tail", "words")

    def __init__(self, head: bytes, first: bytes, tail: bytes, name: str) -> None:
        self.head = head
        self.tail = tail
        self.name = name
        self.choice = 0
        self.words: list[bytes] = []
        self._first = first

    def takes(self, blocks: Sequence[bytes], at: int) -> int:
        """The index of the first block from `at` on that is not one of them; what those before it say is held."""
        head, tail, words = self.head, self.tail, self.words
        start, around = len(head), len(head) + len(tail)
        for block in islice(blocks, at, min(at + ALIKE_MAX, len(blocks))):
            if not (block.startswith(head) and block.endswith(tail)) or len(block) < around:
                break
            words.append(block[start : len(block) - len(tail)])
        if words and not self._proves():
            words.clear()
        return at + len(words)

    def _proves(self) -> bool:
        """Whether this place, and nothing else, is what the choice's delta says: a longer string there shows it."""
        lines = (self.head + word + self.tail for word in (self._first, self._first + b"-"))
        try:
            one, longer = (_only_choice(from_json(line[_LINE:])) for line in lines)
            said = one["delta"][self.name]
            proved: bool = longer["delta"][self.name] == said + "-"
        except (ValueError, LookupError, TypeError):
            return False
        index = one.get("index")
        self.choice = index if isinstance(index, int) else 0
        return proved

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
