"""Where the sentences of a text stand: a text in, character ranges out. Pure; refuses nothing.

Knows the ends of Latin and CJK sentences, of those in Arabic, Armenian, Ethiopic and the scripts of South and
South-East Asia, and of lines.
"""

from __future__ import annotations

import re
from typing import Final

from policies.text import whole_at

ENDS: Final = ".!?…؟۔։።፧।॥။។"
"""What ends a sentence where space stands behind it, in any script."""
ENDS_ALONE: Final = "。！？"
"""What ends one whatever stands behind it."""
_SENTENCE_END: Final = re.compile(rf"(?<=[{ENDS}])\s+|(?<=[{ENDS_ALONE}])|\n+")
# A dot that ends none: of "Mr. Lee", "St. Louis", "z.B. so"; of "5. Mai".
_GOES_ON: Final = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Hr|Mme|Mlle|Sra?|Srta|Dra|Nr|vs|approx|bzw|ca)"
    r"|\b[eE]\.g|\b[iI]\.e|\bz\. ?B|\bd\. ?h)\.\Z"
)
_OF_A_DAY: Final = re.compile(
    r"(?<=\d\.) (?:Januar|Jänner|Februar|Feber|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b"
)
_ABBREVIATION_CHARS: Final = 8
CHARS_MAX: Final = 300


def sentence_spans(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """The sentences of `text[start:end]`, in order, without the space around them, cut at CHARS_MAX characters."""
    stop = len(text) if end is None else end
    spans: list[tuple[int, int]] = []
    at = start
    for match in _SENTENCE_END.finditer(text, start, stop):
        if _goes_on(text, match):
            continue
        _add(text, at, match.start(), spans)
        at = match.end()
    _add(text, at, stop, spans)
    return spans


def _goes_on(text: str, end: re.Match[str]) -> bool:
    """Whether what looks like a sentence's end is none."""
    at = end.start()
    if text[at - 1 : at] != "." or "\n" in end[0]:
        return False
    return (
        _GOES_ON.search(text[max(0, at - _ABBREVIATION_CHARS) : at]) is not None
        or _OF_A_DAY.match(text, at) is not None
    )


def _add(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    """Append what stands between two sentence ends, unless it is only space; an endless one is cut between words."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end = start + len(piece.strip())
    while end - start > CHARS_MAX:
        space = text.rfind(" ", start + 1, start + CHARS_MAX)
        cut = space if space > 0 else whole_at(text, start, start + CHARS_MAX)
        spans.append((start, cut))
        start = cut + (space > 0)
    if end > start:
        spans.append((start, end))
