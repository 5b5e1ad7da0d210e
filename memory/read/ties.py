"""What ties people and things, as a way to a third one: whom a question names and by what they are tied in, the words
of the one at the other end out.

"Where is my sister's company?" finds what was said of Globex, since a fact ties the two: the name at the other end
counts as the word that asked for it. Only where the question has both, the one and a word for the tie; one tie far.
Bookkeeping of ScopeIndex, which owns the slot numbers. No I/O, refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.read.items import IndexItem
from memory.read.lexical import tokenise
from memory.read.names import Name, Names
from policies.entity import Tie, tie_of, words_for

_WORDS_MAX: Final = 8
"""Words that the ends of ties may add to one word of a question."""
_TYPES_KEPT: Final = 1_000


class Ties:
    """The ties of one index by the name that they start from."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._from: dict[Name, dict[int, Tie]] = {}
        self._ending: dict[str, set[Name]] = {}

    def put(self, slot: int, item: IndexItem) -> None:
        """Fill a slot."""
        tie = _tie(item)
        if tie is not None and (start := tuple(tokenise(tie.source))):
            self._from.setdefault(start, {})[slot] = tie
            self._ending.setdefault(start[-1], set()).add(start)

    def drop(self, slot: int, item: IndexItem) -> None:
        """Empty a slot."""
        tie = _tie(item)
        start = tuple(tokenise(tie.source)) if tie is not None else ()
        held = self._from.get(start)
        if held is not None and held.pop(slot, None) is not None and not held:
            del self._from[start]
            ending = self._ending[start[-1]]
            ending.discard(start)
            if not ending:
                del self._ending[start[-1]]

    def expanded(
        self,
        asked: Mapping[str, tuple[str, ...]],
        raw: Mapping[str, tuple[str, ...]],
        allowed: NDArray[np.bool_],
    ) -> Mapping[str, tuple[str, ...]]:
        """The terms of a question with the words of other names, `asked`, and with those of the other ends of ties:
        these stand beside the forms in `raw` and not beside other names, since my sister's employer is not mine.
        """
        ends = self._ends(raw, allowed)
        if not ends:
            return asked
        found = dict(asked)
        for term, words in ends.items():
            new = [word for word in words if word not in raw]
            found[term] = tuple(dict.fromkeys((*raw[term], *new[:_WORDS_MAX])))
        return found

    def _ends(self, raw: Mapping[str, tuple[str, ...]], allowed: NDArray[np.bool_]) -> Mapping[str, Mapping[str, None]]:
        """By the term that asks for it the words of the other end of each tie that is asked for."""
        found: dict[str, dict[str, None]] = {}
        for start in self._starts(raw, allowed) if self._from else ():
            others = raw.keys() - set(start)
            for slot, tie in self._from[start].items():
                terms = _terms_for(tie.type) & others if allowed[slot] else ()
                for term in terms:
                    found.setdefault(term, {}).update(dict.fromkeys(tokenise(tie.target)))
        return found

    def _starts(self, raw: Mapping[str, tuple[str, ...]], allowed: NDArray[np.bool_]) -> Sequence[Name]:
        """The names of those whom a question names, by any of their names, as far as ties start from them."""
        said = {name for term in raw for name in self._ending.get(term, ()) if raw.keys() >= set(name)}
        meant = said | (self._names.meant(raw, allowed) & self._from.keys())
        return [name for name in sorted(meant) if self._names.is_of_one(name, allowed)]


@lru_cache(_TYPES_KEPT)
def _terms_for(type_: str) -> frozenset[str]:
    """The terms that ask for the other end of such a tie."""
    return frozenset(term for word in words_for(type_) for term in tokenise(word))


def _tie(item: IndexItem) -> Tie | None:
    return tie_of(item.attributes) if item.kind == "semantic" else None
