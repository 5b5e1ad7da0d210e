"""What probes look for: ids, shredded keys and hashed words in; how much of it any value holds out. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from memory.erasure.shingles import Shingles, holds_any

_ID: Final = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
_ID_CHARS_MIN: Final = 32
_SMALL_BYTES: Final = 128


class Wanted:
    """What a probe looks for: ids, keys that are shredded, words."""

    def __init__(self, ids: Sequence[UUID], keys: Sequence[UUID], *words: Shingles) -> None:
        self._hex = frozenset(one.hex for one in ids)
        self._raw = frozenset(one.bytes for one in ids)
        self._keys = frozenset(one.bytes for one in keys)
        self._words = words

    def count(self, value: Any) -> int:
        """How much of it a value holds."""
        if value is None:
            return 0
        if isinstance(value, UUID):
            return int(value.bytes in self._raw)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._in_bytes(bytes(value))
        return self._in_text(value if isinstance(value, str) else _strings_of(value))

    @classmethod
    def of_all(cls, several: Sequence[Wanted]) -> Wanted:
        """What any of these looks for."""
        found = cls((), (), *(words for one in several for words in one._words))
        found._hex = frozenset().union(*(one._hex for one in several))
        found._raw = frozenset().union(*(one._raw for one in several))
        found._keys = frozenset().union(*(one._keys for one in several))
        return found

    def _in_text(self, text: str) -> int:
        found = 0
        if self._hex and len(text) >= _ID_CHARS_MIN:
            found = sum(one.replace("-", "") in self._hex for one in _ID.findall(text))
        return found + holds_any(text, self._words)

    def _in_bytes(self, value: bytes) -> int:
        if value[:1] == b"\x01" and len(value) > _SMALL_BYTES // 2:  # an envelope
            return int(value[1:17] in self._keys)
        windows = range(len(value) - 15) if len(value) <= _SMALL_BYTES and self._raw else ()
        if any(value[at : at + 16] in self._raw for at in windows):
            return 1
        try:
            return self._in_text(value.decode("utf-8"))
        except UnicodeDecodeError:
            return 0


class Together:
    """What several probes look for at once: a value is read for all, and for each only where it holds any of it."""

    def __init__(self, each: Sequence[Wanted]) -> None:
        self._each = tuple(each)
        self._any = self._each[0] if len(self._each) == 1 else Wanted.of_all(self._each)

    def __len__(self) -> int:
        return len(self._each)

    def count(self, value: Any) -> Sequence[tuple[int, int]]:
        """Whose it is, by place, and how much of it a value holds; those of whom it holds any."""
        found = self._any.count(value)
        if not found or len(self._each) == 1:
            return ((0, found),) if found else ()
        return [(at, hits) for at, one in enumerate(self._each) if (hits := one.count(value))]


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
