"""Words of forgotten texts, as hashes: texts in, what to look for out; and whether another text holds any of it.

A shingle is a run of RUN words (of SHORT_RUN where a text has fewer), by hash() of its words, which Python keys for
each process anew: nothing of a text is kept. A character of Chinese, Japanese or Korean is a word, and a word of Hindi
or Tamil has the signs on its letters. Thai, Lao, Burmese and Khmer set no blanks between words: there six letters, from
each letter on, are one, so that it does not matter what they stand beside. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from policies.text import SIGNS

RUN: Final = 8
SHORT_RUN: Final = 5
NEEDLE_BYTES_MIN: Final = 20
SHINGLES_MAX: Final = 2_000_000
"""About 130 MB. Of longer subjects the first so many are looked for, and the receipt says how many that were."""
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_SIGNS: Final = re.sub(f"[{_UNSPACED}]", "", SIGNS)
_LETTERS: Final = rf"[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af{_UNSPACED}]"
_SPACED: Final = rf"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|{_LETTERS}+(?:[{_SIGNS}]+{_LETTERS}*)*"
_LETTERS_RUN: Final = rf"(?:(?=[{_UNSPACED}])[^\W_][{re.sub(f'[^{_UNSPACED}]', '', SIGNS)}]*){{6}}"
_WORD: Final = re.compile(_SPACED)
_WORD_OR_RUN: Final = re.compile(rf"(?=({_LETTERS_RUN}))[{_UNSPACED}]|{_SPACED}")
_ASCII_WORD: Final = re.compile("[0-9a-z]+")  # the same of ASCII, in half the time: a probe reads all of a tenant
_HAS_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")


class Shingles:
    """What a probe looks for. `said_elsewhere`: what another source says too, which proves nothing."""

    def __init__(self, needles_max: int = 0) -> None:
        """`needles_max`: keep so many runs as they were written too, to look for them in files."""
        self._long: set[int] = set()
        self._short: set[int] = set()
        self._needles: dict[int, str] = {}
        self._needles_max = needles_max
        self.said_elsewhere = 0

    def __len__(self) -> int:
        return len(self._long) + len(self._short)

    def add(self, text: str) -> None:
        """Look for the words of this text."""
        words = _words(text)
        if len(self._needles) < self._needles_max:
            self._keep_some(text)
        if len(words) >= RUN:
            if len(self._long) < SHINGLES_MAX:
                self._long.update(_runs(words, RUN))
        elif len(words) >= SHORT_RUN:
            self._short.update(_runs(words, SHORT_RUN))

    def needles(self) -> list[str]:
        """Runs as they were written, some of each text, that nobody else has said."""
        return [run for mark, run in self._needles.items() if mark in self._long or mark in self._short]

    def _keep_some(self, text: str) -> None:
        spans = [(found.start(), max(found.end(), found.end(1))) for found in _WORD_OR_RUN.finditer(text)]
        length = RUN if len(spans) >= RUN else SHORT_RUN
        last = len(spans) - length
        for at in {0, last // 3, 2 * last // 3, last} if last >= 0 else ():
            run = text[spans[at][0] : spans[at + length - 1][1]]
            if "\n" not in run and "\r" not in run and len(run.encode("utf-8", "replace")) >= NEEDLE_BYTES_MIN:
                self._needles[hash(tuple(_words(run)))] = run

    def said(self, text: str) -> None:
        """These words have another source: they are not looked for."""
        spare(text, (self,))

    def found_in(self, text: str) -> bool:
        """Whether the text holds any of it."""
        return holds_any(text, (self,))


def spare(text: str, wanted: Sequence[Shingles]) -> None:
    """The words of this text have another source for all of these; they are told apart once."""
    if not any(wanted):
        return
    words = _words(text)
    long, short = list(_runs(words, RUN)), list(_runs(words, SHORT_RUN))
    for one in wanted:
        before = len(one)
        one._long.difference_update(long)
        if one._short:
            one._short.difference_update(short)
        one.said_elsewhere += before - len(one)


def holds_any(text: str, wanted: Sequence[Shingles]) -> bool:
    """Whether the text holds any of these; its words are told apart once for all of them."""
    long = [one._long for one in wanted if one._long]
    short = [one._short for one in wanted if one._short]
    if not long and not short:
        return False
    words = _words(text)
    return _meets(long, words, RUN) or _meets(short, words, SHORT_RUN)


def _meets(wanted: Sequence[set[int]], words: list[str], length: int) -> bool:
    runs = list(_runs(words, length)) if wanted else []
    return any(not one.isdisjoint(runs) for one in wanted)


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    folded = text.casefold()
    if not _HAS_UNSPACED.search(folded):
        return _WORD.findall(folded)
    return [found[1] or found[0] for found in _WORD_OR_RUN.finditer(folded)]


def _runs(words: list[str], length: int) -> Iterator[int]:
    return map(hash, zip(*(words[start:] for start in range(length)), strict=False))
