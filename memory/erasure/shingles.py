"""Words of forgotten texts, as hashes: texts in, what to look for out; and whether another text holds any of it.

A shingle is a run of RUN words (of SHORT_RUN where a text has fewer), by hash() of its words, which Python keys for
each process anew: nothing of a text is kept. A character of Chinese, Japanese or Korean is a word. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

RUN: Final = 8
SHORT_RUN: Final = 5
SHINGLES_MAX: Final = 2_000_000
"""About 130 MB. Of longer subjects the first so many are looked for, and the receipt says how many that were."""
_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


class Shingles:
    """What a probe looks for. `said_elsewhere`: what another source says too, which proves nothing."""

    def __init__(self) -> None:
        self._long: set[int] = set()
        self._short: set[int] = set()
        self.said_elsewhere = 0

    def __len__(self) -> int:
        return len(self._long) + len(self._short)

    def add(self, text: str) -> None:
        """Look for the words of this text."""
        words = _words(text)
        if len(words) >= RUN:
            if len(self._long) < SHINGLES_MAX:
                self._long.update(_runs(words, RUN))
        elif len(words) >= SHORT_RUN:
            self._short.update(_runs(words, SHORT_RUN))

    def said(self, text: str) -> None:
        """These words have another source: they are not looked for."""
        before = len(self)
        words = _words(text)
        if self._long:
            self._long.difference_update(_runs(words, RUN))
        if self._short:
            self._short.difference_update(_runs(words, SHORT_RUN))
        self.said_elsewhere += before - len(self)

    def found_in(self, text: str) -> bool:
        """Whether the text holds any of it."""
        if not self._long and not self._short:
            return False
        words = _words(text)
        if self._long and not self._long.isdisjoint(_runs(words, RUN)):
            return True
        return bool(self._short) and not self._short.isdisjoint(_runs(words, SHORT_RUN))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(words: list[str], length: int) -> Iterator[int]:
    return map(hash, zip(*(words[start:] for start in range(length)), strict=False))
