"""Words of forgotten texts, as hashes: texts in, what to look for out; and whether another text holds any of it.

A shingle is a run of RUN words (of SHORT_RUN where a text has fewer), by hash() of its words, which Python keys for
each process anew: nothing of a text is kept. A character of Chinese, Japanese or Korean is a word, and a word of Hindi
or Tamil has the signs on its letters. Thai, Lao, Burmese and Khmer set no blanks between words: there six letters, from
each letter on, are one, so that it does not matter what they stand beside. Whether a text may hold a run at all is told
by some of its words alone: most hold none, and a probe reads all of a tenant. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from policies.text import SIGNS

RUN: Final = 8
SHORT_RUN: Final = 5
_PART: Final = 5
_SHORT_PART: Final = 3
"""Of 350 characters all runs take 15 us, and these parts 5. The longer they are the more are looked at, and the fewer
are said by chance: some of 60 turns of LoCoMo stands in .06 of the turns of others, and with three words in .39."""
NEEDLE_BYTES_MIN: Final = 20
PARTS_MAX: Final = 500_000
"""About 33 MB. Where there are more, all runs of each text are looked at."""
SHINGLES_MAX: Final = 2_000_000
"""About 130 MB. Of longer subjects the first so many are looked for, and the receipt says how many that were."""
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_SIGNS: Final = re.sub(f"[{_UNSPACED}]", "", SIGNS)
_LETTERS: Final = rf"[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af{_UNSPACED}]"
_SPACED: Final = rf"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|{_LETTERS}+(?:[{_SIGNS}]+{_LETTERS}*)*"
_LETTERS_RUN: Final = rf"(?:(?=[{_UNSPACED}])[^\W_][{re.sub(f'[^{_UNSPACED}]', '', SIGNS)}]*){{6}}"
_WORD: Final = re.compile(_SPACED)
_WORD_OR_RUN: Final = re.compile(rf"(?=({_LETTERS_RUN}))[{_UNSPACED}]|{_SPACED}")
_ASCII: Final = bytes(ord(chr(at).lower() if at < 128 and chr(at).isalnum() else " ") for at in range(256))
"""Takes ASCII apart into the same words, in half the time."""
_HAS_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")


class _Runs:
    """Runs of so many words. Each holds a part of so many that begins at one of every few words, wherever the run
    stands: a text of which no such part is known holds none.
    """

    def __init__(self, length: int, part: int) -> None:
        self.length = length
        self.marks = set[int]()
        self._part = part
        self._parts: set[int] | None = set()

    def add(self, words: list[str]) -> None:
        """Take in all of these."""
        self.marks.update(_runs(words, self.length))
        if self._parts is not None:
            self._parts.update(_runs(words, self._part))
            if len(self._parts) > PARTS_MAX:
                self._parts = None

    def parts_of(self, words: list[str]) -> list[int]:
        """Those of a text's parts that are looked at."""
        step = self.length - self._part + 1
        return list(map(hash, zip(*(words[start::step] for start in range(self._part)), strict=False)))

    def may_stand_in(self, parts: list[int]) -> bool:
        """Whether a text with these parts may hold any."""
        return self._parts is None or not self._parts.isdisjoint(parts)


class Shingles:
    """What a probe looks for. `said_elsewhere`: what another source says too, which proves nothing."""

    def __init__(self, needles_max: int = 0) -> None:
        """`needles_max`: keep so many runs as they were written too, to look for them in files."""
        self._long = _Runs(RUN, _PART)
        self._short = _Runs(SHORT_RUN, _SHORT_PART)
        self._needles: dict[int, str] = {}
        self._needles_max = needles_max
        self.said_elsewhere = 0

    def __len__(self) -> int:
        return len(self._long.marks) + len(self._short.marks)

    def add(self, text: str) -> None:
        """Look for the words of this text."""
        words = _words(text)
        if len(self._needles) < self._needles_max:
            self._keep_some(text)
        if len(words) >= RUN:
            if len(self._long.marks) < SHINGLES_MAX:
                self._long.add(words)
        elif len(words) >= SHORT_RUN:
            self._short.add(words)

    def needles(self) -> list[str]:
        """Runs as they were written, some of each text, that nobody else has said."""
        marks = self._long.marks | self._short.marks
        return [run for mark, run in self._needles.items() if mark in marks]

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
    some = [one for one in wanted if one]
    if not some:
        return
    words, before = _words(text), [len(one) for one in some]
    for kind in ([one._long for one in some], [one._short for one in some]):
        runs, may = _looked_at(kind, words)
        for its in may:
            its.marks.difference_update(runs)
    for one, had in zip(some, before, strict=True):
        one.said_elsewhere += had - len(one)


def holds_any(text: str, wanted: Sequence[Shingles]) -> bool:
    """Whether the text holds any of these; its words are told apart once for all of them."""
    some = [one for one in wanted if one]
    words = _words(text) if some else []
    if len(words) < SHORT_RUN:
        return False
    return _meets([one._long for one in some], words) or _meets([one._short for one in some], words)


def _meets(kind: Sequence[_Runs], words: list[str]) -> bool:
    runs, may = _looked_at(kind, words)
    return any(not one.marks.isdisjoint(runs) for one in may)


def _looked_at(kind: Sequence[_Runs], words: list[str]) -> tuple[list[int], list[_Runs]]:
    """Those that a text with these words may hold some of, and its runs; no runs where there are none."""
    asked = [one for one in kind if one.marks]
    parts = asked[0].parts_of(words) if asked else []
    may = [one for one in asked if one.may_stand_in(parts)]
    return list(_runs(words, may[0].length)) if may else [], may


def _words(text: str) -> list[str]:
    if text.isascii():
        return text.encode().translate(_ASCII).decode().split()
    folded = text.casefold()
    if not _HAS_UNSPACED.search(folded):
        return _WORD.findall(folded)
    return [found[1] or found[0] for found in _WORD_OR_RUN.finditer(folded)]


def _runs(words: list[str], length: int) -> Iterator[int]:
    return map(hash, zip(*(words[start:] for start in range(length)), strict=False))
