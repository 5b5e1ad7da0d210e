"""Words as they are dictated and typed in haste, written out: a text in; the text to read, and where each place of it
stands in the first, out.

A speaker hesitates ("my name is uh Karen"), begins again ("I work I work at at Target") and leaves out what a keyboard
makes hard ("im from Texas", "dont like fish"). "Um" and "im" are words of other languages, so only what stands beside
them shows that they are none here; a name that is said twice (Walla Walla) begins with no small word. Pure; refuses
nothing; linear.
"""

# ruff: noqa: E501  one kind a line
from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

# Behind a name "uh" may be a correction: "I live in Rome, uh, Milan".
_HESITATES: Final = (
    r"\b(?P<kept>(?-i:[a-z][a-z']*|I)),?(?: +(?:uh+m?|uhm+|umm+|erm+)\b,?){1,3}(?= )"
    r"|\b(?P<small>is|and|in|so|the|at|my|to|for|with|on|but|like),?(?: +um\b,?){1,3}(?= )"
)
_AGAIN: Final = r"\b(?P<again>(?:i|my|the|an?|in|at|on|to|is|we|he|she|and|so|for|of|it)(?: [a-z]+){0,2}),?(?: +(?:uh+m?|um|erm+)\b,?){0,2} +(?=(?P=again)\b)"
_SHORT: Final = (
    r"\b(?:(?P<im>im)(?= (?:from|in|an?|allergic|vegan|vegetarian|not|living|based|married|learning|working|studying|really"
    r"|(?-i:single|the)|\d{1,2}(?= *(?:[,!.](?!\d)|$|years\b|yrs\b|yo\b|and\b|btw\b|now\b)))(?![\w-]))"
    r"|(?P<ive>ive)(?= (?:got|been|lived|worked|moved|always|never)\b)|(?P<dont>dont)(?= (?:like|eat|drink|have|live|work|use|want|forget)\b)"
    r"|(?P<cant>cant)(?= (?:stand|eat|have)\b))"
)
_DONE_CHARS: Final = 200  # what is longer, goes on in another line or has a year in it may be notes of a life
# "Just moved to Porto!": a text that begins with what was done does not say by whom.
_DONE: Final = (
    r"\A(?P<lead>\W{0,3}(?:(?:so|ok|okay|well|hey|hi|yeah|btw|update|quick update|good news|bad news|oh)\b[ ,:!.]{1,3}){0,3})"
    r"(?P<done>(?:(?:just|finally|recently|also|already) ){0,2}"
    r"(?:moved (?=(?:back |over )?to (?-i:[A-Z]))|relocated (?=to (?-i:[A-Z]))|(?:switched|migrated) (?=(?:over )?(?:to|from) (?!\w+day\b))"
    r"|(?:quit|left|lost) (?=my (?:job|position)\b)|quit (?=smoking|drinking)|(?:got rid of|sold|cancell?ed) (?=my |our )"
    r"|started (?=(?:working|a new job) (?:at|for|with) (?-i:[A-Z])|at (?-i:[A-Z]))|resigned (?=from (?-i:[A-Z]))"
    r"|got (?=(?:married|divorced|engaged|promoted|laid off|fired)\b)|(?:gave up|stopped) (?=on |learning |smoking\b)"
    r"|(?:broke|split) (?=up with )|(?:dropped|ditched|replaced) (?=[\w+#.-]+(?: with |[,.!]|$))|(?:adopted|bought) (?=an? )))"
    rf"(?![^\n]*\b(?:19|20)\d\d\b)(?=[^\n]{{0,{_DONE_CHARS}}}\Z)"
)
_FOUND: Final = re.compile(rf"{_DONE}|{_AGAIN}|{_HESITATES}|{_SHORT}", re.IGNORECASE)
_IN_FULL: Final = {"im": "I'm", "ive": "I've", "dont": "don't", "cant": "can't"}


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """A text to read; `here` are offsets where a piece of it begins, `there` those in the text as it was given."""

    text: str
    here: tuple[int, ...] = (0,)
    there: tuple[int, ...] = (0,)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The range of the given text that a range of this one stands for."""
        return self._place(start), self._place(end - 1) + 1

    def _place(self, at: int) -> int:
        piece = bisect_right(self.here, at) - 1
        beyond = self.there[piece] + at - self.here[piece]
        return min(beyond, self.there[piece + 1] - 1) if piece + 1 < len(self.there) else beyond


def written_out(text: str) -> WrittenOut:
    """A text as it would have been written."""
    parts, here, there, length, reached = [], [0], [0], 0, 0
    for found in _FOUND.finditer(text):
        done = f"{found['lead']}I {found['done']}" if found["done"] else ""
        instead = done or found["kept"] or found["small"] or _IN_FULL.get(found[0].casefold(), "")
        kept = text[reached : found.start()] + instead
        parts.append(kept)
        length, reached = length + len(kept), found.end()
        here.append(length)
        there.append(reached)
    return WrittenOut("".join((*parts, text[reached:])), tuple(here), tuple(there)) if parts else WrittenOut(text)
