"""Where a text first holds what is looked for: a text in, the range found out, in time linear in the text.

Looked for is one pattern, or what a pattern alone finds in the product of its gaps only: a word that another one goes
before and another one follows, and a piece inside a piece. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

# A search holds every other thread until it ends, so a long text is read in slices. What is found is shorter than the
# part that two of them share.
SLICE_CHARS: Final = 16_384
SHARED_CHARS: Final = 2_048
_Span = tuple[int, int]


class Sought(Protocol):
    """What is looked for in a text."""

    def first(self, text: str) -> _Span | None:
        """Where it is first found, None where it is not."""


@dataclass(frozen=True, slots=True)
class Words:
    """What one pattern finds."""

    pattern: re.Pattern[str]

    def first(self, text: str) -> _Span | None:
        """Where it is first found, None where it is not."""
        at, end = 0, min(SLICE_CHARS, len(text))
        while True:
            match = self.pattern.search(text, at, end)
            # What ends with the slice may end so only there: the next slice has all of it.
            if match is not None and (match.end() < end or end == len(text)):
                return match.span()
            if end == len(text):
                return None
            at, end = end - SHARED_CHARS, min(end - SHARED_CHARS + SLICE_CHARS, len(text))


@dataclass(frozen=True, slots=True)
class Between:
    """What `middle` finds, with what ends in `before` at most `reach` characters earlier and `after` right behind it.

    Each of the two is asked for once a middle: in one pattern they are asked for once for each pair of the others.
    """

    before: re.Pattern[str]
    middle: re.Pattern[str]
    after: re.Pattern[str]
    reach: int

    def first(self, text: str) -> _Span | None:
        """Where it is first found, None where it is not."""
        for match in self.middle.finditer(text):
            begun = self.before.search(text, max(0, match.start() - self.reach), match.start())
            if begun is not None and (ended := self.after.match(text, match.end())) is not None:
                return begun.start(), ended.end()
        return None


@dataclass(frozen=True, slots=True)
class Inside:
    """What the last of some patterns finds in the first group of the one before it, where that group has a match."""

    patterns: tuple[re.Pattern[str], ...]

    def first(self, text: str) -> _Span | None:
        """Where it is first found, None where it is not."""
        return self._within(text, 0, (0, len(text)))

    def _within(self, text: str, depth: int, span: _Span) -> _Span | None:
        pattern, innermost = self.patterns[depth], depth + 1 == len(self.patterns)
        for match in pattern.finditer(text, *span):
            if innermost:
                return match.span()
            inside = match[1] is not None and self._within(text, depth + 1, match.span(1))
            if inside:
                return match.start(), inside[1]
        return None
