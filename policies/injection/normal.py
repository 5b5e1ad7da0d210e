"""A text as a model may read it: any spelling in, plain lower-case words out, and the way back to the original's spans.

NFKD without its marks, without what has no width or only turns the writing round, look-alikes of other scripts as
Latin where a word mixes both. Tag characters (U+E0000) are read as what they spell. Pure, linear; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from policies.text import normalised

# No width: soft hyphen, joiners, fillers, variation selectors, bidi controls, tags; and the marks that NFKD splits off.
UNSEEN: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_DROPPED: Final = re.compile(
    f"[{UNSEEN}\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]{4,}")
_TAG_BASE: Final = 0xE0000
_OTHER_SCRIPTS: Final = re.compile("[\u0370-\u052f\u0531-\u058f\u13a0-\u13ff\uab70-\uabbf]")
_WORD: Final = re.compile(r"\w+")
_ESCAPE: Final = re.compile(r"\\[nrt]")
_LATIN: Final = re.compile("[a-z]")
# Letters of Cyrillic, Greek, Armenian and Cherokee that look like Latin ones (Unicode's confusables), in lower case.
_LOOK_ALIKES: Final = (
    "аa вb еe ѕs һh нh іi јj кk ӏl мm оo пn рp сc тt уy ԝw хx ԁd ԛq ѵv ьb гr "
    "αa βb γy εe ηn ιi κk μu νv οo πn ρp σo τt υu χx ωw ϲc ϳj օo սu ոn հh ցg զq "
    "ꭰd ꭱr ꭲt ꭺa ꭻj ꭼe ꮃw ꮇm ꮋh ꮐg ꮓz ꮤw ꮪs ꮮl ꮯc ꮲp ꮶk ᏼb ꮩv ꭵi"
)
_LOOKS: Final = str.maketrans({pair[0]: pair[1] for pair in _LOOK_ALIKES.split()})


@dataclass(frozen=True, slots=True)
class Normal:
    """A text as it was, as it reads, and what its tag characters spell ("" for none)."""

    original: str
    text: str
    tagged: str = ""

    def spans(self, found: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Ranges of `text` as ranges of the original. Costs a pass over the original where it is not ASCII."""
        if not found or self.original.isascii():
            return list(found)
        ends = [0]
        for character in self.original:
            ends.append(ends[-1] + len(_plain(character)))
        return [(_place(ends, start + 1), _place(ends, end)) for start, end in found]


def _place(ends: Sequence[int], wanted: int) -> int:
    """How many characters of the original it takes until their reading has `wanted` characters."""
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if ends[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def normal(text: str) -> Normal:
    """The text as it reads."""
    if text.isascii():
        return Normal(text, broken(text.lower()))
    tagged = "".join(chr(ord(one) - _TAG_BASE) for run in _TAGS.findall(text) for one in run)
    plain = _plain(text)
    if _OTHER_SCRIPTS.search(plain):
        plain = _WORD.sub(_latin, plain)
    return Normal(text, broken(plain), tagged.lower())


def broken(text: str) -> str:
    """The text with JSON's escapes of line breaks as such, in as many characters: what tools answer is JSON."""
    return _ESCAPE.sub("\n\n", text) if "\\" in text else text


def latin_letter(character: str) -> str:
    """The Latin letter that a lower-case letter looks like; a mark gives nothing, anything else itself."""
    return "" if _DROPPED.match(character) else character.translate(_LOOKS)


def _plain(text: str) -> str:
    bare = _DROPPED.sub("", normalised("NFKD", text))
    return normalised("NFC", bare).lower()  # Hangul and kana are whole again


def _latin(match: re.Match[str]) -> str:
    word = match[0]
    return word.translate(_LOOKS) if _LATIN.search(word) and _OTHER_SCRIPTS.search(word) else word
