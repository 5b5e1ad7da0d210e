"""Who said what: names by item slot in; for a query that names some of them, which slots are theirs out.

A question about Caroline is answered by what Caroline said: of LoCoMo's 644 answerable questions that name one speaker,
623 have their evidence in that speaker's own turns. Bookkeeping of ScopeIndex, which owns the slot numbers. No I/O,
refuses nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.read.columns import Visible, grown
from memory.read.lexical import STOPWORDS, words_in

_NOBODY = -1
# Where a word that is a name as well is that name: "Does Will come?", not "Will it rain?".
_WRITTEN_AS_NAME: Final = re.compile(r"(?<=[\w,'\u2019] )[A-Z]\w+")


@dataclass(frozen=True, slots=True)
class Named:
    """Whom a query names, for the visible slots in their order.

    `theirs`: said by one whom the query names; `others`: said by one with another name; neither where the speaker has
    none. `words` are those of the names, case and accents folded.
    """

    theirs: NDArray[np.bool_]
    others: NDArray[np.bool_]
    words: frozenset[str]


class Speakers:
    """The speakers of one index."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, ...], int] = {}
        self._items = Counter[int]()
        self._of: NDArray[np.int32] = np.full(16, _NOBODY, np.int32)

    def put(self, slot: int, name: str | None) -> None:
        """Fill a slot."""
        while slot >= len(self._of):
            self._of = grown(self._of, _NOBODY)
        words = tuple(words_in(name)) if name else ()
        code = self._codes.setdefault(words, len(self._codes)) if words else _NOBODY
        self._of[slot] = code
        self._items[code] += 1

    def drop(self, slot: int) -> None:
        """Empty a slot."""
        self._items[int(self._of[slot])] -= 1
        self._of[slot] = _NOBODY

    def named(self, query: str, visible: Visible) -> Named | None:
        """Whom the query names among those who spoke; None for nobody, and where nobody else spoke."""
        asked = frozenset(words_in(query))
        found = {words: code for words, code in self._codes.items() if self._items[code] and _says(asked, words)}
        found = _without_stopwords(found, query) if any(map(STOPWORDS.issuperset, found)) else found
        if not found:
            return None
        of = self._of[visible.pick]
        theirs = np.logical_or.reduce([of == code for code in found.values()])
        others = (of != _NOBODY) & ~theirs
        if not theirs.any() or not others.any():
            return None
        return Named(theirs, others, frozenset(word for words in found for word in words))


def _without_stopwords(found: Mapping[tuple[str, ...], int], query: str) -> dict[tuple[str, ...], int]:
    """The names in a query but for those that are stopwords, unless they are written there as names."""
    written = frozenset(words_in(" ".join(_WRITTEN_AS_NAME.findall(query))))
    return {words: code for words, code in found.items() if not STOPWORDS.issuperset(words) or _says(written, words)}


def _says(asked: frozenset[str], name: tuple[str, ...]) -> bool:
    """Whether all words of a name are among those asked, a missing apostrophe forgiven ("Tims reaction")."""
    return all(word in asked or word + "s" in asked for word in name)
