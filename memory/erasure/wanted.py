"""What probes look for: ids, shredded keys and hashed words in; how much of it any value holds out. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from memory.erasure.shingles import Shingles, holds_any, spare

_ID: Final = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
_HEX: Final = bytes(ord("x" if chr(at) in "0123456789abcdef" else " ") for at in range(256))
_END_OF_ID: Final = b"x" * 12  # looked for before whole ids are: in most texts none stands, which takes a tenth so
_SMALL_BYTES: Final = 128
_NESTED: Final = re.compile(r"\{[^}]*\{")
_SEEN_CHARS_MAX: Final = 64
_SEEN_MAX: Final = 10_000
"""About a megabyte. What a column says again and again (a role, a model) is looked at once."""


class Wanted:
    """What a probe looks for: ids, keys that are shredded, words."""

    def __init__(self, ids: Sequence[UUID], keys: Sequence[UUID], *words: Shingles) -> None:
        self._hex = frozenset(one.hex for one in ids)
        self._raw = frozenset(one.bytes for one in ids)
        self._keys = frozenset(one.bytes for one in keys)
        self.words = words

    def count(self, value: Any) -> int:
        """How much of it a value holds."""
        if value is None:
            return 0
        if isinstance(value, UUID):
            return int(value.bytes in self._raw)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._in_bytes(bytes(value))
        text = value if isinstance(value, str) else _strings_of(value)
        return self.ids_in(text) + holds_any(text, self.words)

    def ids_in(self, text: str) -> int:
        """How many of its ids a text holds."""
        if not self._hex or _END_OF_ID not in text.encode("utf-8", "replace").translate(_HEX):
            return 0
        return sum(one.replace("-", "") in self._hex for one in _ID.findall(text))

    @property
    def ids(self) -> list[UUID]:
        """The ids that it looks for."""
        return [UUID(bytes=one) for one in self._raw]

    @classmethod
    def of_all(cls, several: Sequence[Wanted]) -> Wanted:
        """What any of these looks for."""
        found = cls((), (), *(words for one in several for words in one.words))
        found._hex = frozenset().union(*(one._hex for one in several))
        found._raw = frozenset().union(*(one._raw for one in several))
        found._keys = frozenset().union(*(one._keys for one in several))
        return found

    def _in_bytes(self, value: bytes) -> int:
        if value[:1] == b"\x01" and len(value) > _SMALL_BYTES // 2:  # an envelope
            return int(value[1:17] in self._keys)
        if len(value) <= _SMALL_BYTES and not self._raw.isdisjoint(
            [value[at : at + 16] for at in range(len(value) - 15)]
        ):
            return 1
        try:
            text = value.decode("utf-8")
        except UnicodeDecodeError:
            return 0
        return self.ids_in(text) + holds_any(text, self.words)


class Together:
    """What several probes look for at once: a value is read for all, and for each only where it holds any of it.
    `made`: those of their words that were made of turns.
    """

    def __init__(self, each: Sequence[Wanted], made: Sequence[Shingles] = ()) -> None:
        self._each = tuple(each)
        self._made = tuple(made)
        self._any = self._each[0] if len(self._each) == 1 else Wanted.of_all(self._each)
        self._seen = set[str]()  # short values that hold none of it

    def __len__(self) -> int:
        return len(self._each)

    @property
    def ids(self) -> list[UUID]:
        """The ids that any of them looks for."""
        return self._any.ids

    def count(self, value: Any) -> Sequence[tuple[int, int]]:
        """Whose it is, by place, and how much of it a value holds; those of whom it holds any."""
        if value in self._seen if isinstance(value, str) else value is None:
            return ()
        found = self._any.count(value)
        if not found:
            if isinstance(value, str) and len(value) <= _SEEN_CHARS_MAX and len(self._seen) < _SEEN_MAX:
                self._seen.add(value)
            return ()
        return [(at, hits) for at, one in enumerate(self._each) if (hits := one.count(value))]

    def in_source(self, text: str) -> Sequence[tuple[int, int]]:
        """The same of what proves nothing by its words: they have this source too, and are looked for no more."""
        spare(text, self._any.words)
        if not self._any.ids_in(text):
            return ()
        return [(at, hits) for at, one in enumerate(self._each) if (hits := one.ids_in(text))]

    def in_memory(self, text: str) -> Sequence[tuple[int, int]]:
        """The same of what turns may have made again: a source of words that were made of turns, and of no others."""
        if not self.count(text):
            return ()
        spare(text, self._made)
        return self.count(text)

    def spare(self, text: str) -> None:
        """These words have another source."""
        spare(text, self._any.words)


def strings_in(written: str) -> str:
    """The same of a JSON document as it is written: what stands in quotation marks, where nothing is escaped and no
    object stands in another, whose names would come in another order.
    """
    pieces = written.split('"')
    strings, behind = pieces[1::2], pieces[2::2]
    if "\\" in written or _NESTED.search("".join(pieces[0::2])):
        return _strings_of(json.loads(written))
    names = dict.fromkeys(one for one, what in zip(strings, behind, strict=True) if ":" in what)
    return " ".join((*[one for one, what in zip(strings, behind, strict=True) if ":" not in what], *names))


def _strings_of(document: Any) -> str:
    """What a JSON document or an array says: its strings one behind the other, and behind them its names, each once. As
    it would be written, a line that ends ("\\n") had its n before the next word.
    """
    said, names, left = list[str](), dict[str, None](), [document]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            names.update(dict.fromkeys(one))
            left.extend(reversed(one.values()))
        elif isinstance(one, list | tuple):
            left.extend(reversed(one))
        elif one is not None and not isinstance(one, bool | int | float):
            said.append(str(one))
    return " ".join((*said, *names))
