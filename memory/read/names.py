"""What people and things are called beside the name that a question uses: items in, more forms of its words out.

"What does my sister do?" finds what was said of Anna, since a fact names her so, or a card does: the words of one's
other names count as the words that were asked with, in score and in admission (`LexicalIndex.score`, forms). A name
that is that of two stands for neither. Bookkeeping of ScopeIndex, which owns the slot numbers. No I/O, refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.entities import CARD
from memory.read.items import IndexItem
from memory.read.lexical import tokenise
from policies.entity import USER, link_in, told_of

Name = tuple[str, ...]
_Called = frozenset[Name]
_FORMS_MAX: Final = 8
"""Words that one name may add to a question."""


class Names:
    """Who is called what in one index: each group of names is of one person or thing, with the slots that say so."""

    def __init__(self) -> None:
        self._said: dict[_Called, set[int]] = {}
        self._of_term: dict[str, set[_Called]] = {}

    def put(self, slot: int, item: IndexItem) -> None:
        """Fill a slot."""
        called = _called(item)
        if called is None:
            return
        self._said.setdefault(called, set()).add(slot)
        for name in called:
            self._of_term.setdefault(name[-1], set()).add(called)

    def drop(self, slot: int, item: IndexItem) -> None:
        """Empty a slot."""
        called = _called(item)
        slots = self._said.get(called) if called is not None else None
        if called is None or slots is None:
            return
        slots.discard(slot)
        if slots:
            return
        del self._said[called]
        for name in called:
            held = self._of_term[name[-1]]
            held.discard(called)
            if not held:
                del self._of_term[name[-1]]

    def meant(self, asked: Mapping[str, tuple[str, ...]], allowed: NDArray[np.bool_]) -> frozenset[Name]:
        """All names of those whom a question names."""
        found: set[Name] = set()
        for term in asked if self._said else ():
            found |= self._meant(term, asked.keys(), allowed) or frozenset()
        return frozenset(found)

    def is_of_one(self, name: Name, allowed: NDArray[np.bool_]) -> bool:
        """Whether no two have this name, as far as may be seen."""
        groups = (called for called in self._of_term.get(name[-1], ()) if name in called)
        return sum(any(allowed[slot] for slot in self._said[called]) for called in groups) < 2

    def expanded(
        self, asked: Mapping[str, tuple[str, ...]], allowed: NDArray[np.bool_]
    ) -> Mapping[str, tuple[str, ...]]:
        """The terms of a question with the words of the other names of whom it names, from slots that may be seen."""
        if not self._said:
            return asked
        found = dict(asked)
        for term in asked:
            meant = self._meant(term, asked.keys(), allowed)
            if meant is not None:
                new = dict.fromkeys(word for name in sorted(meant) for word in name if word not in asked)
                found[term] = tuple(dict.fromkeys((*asked[term], *tuple(new)[:_FORMS_MAX])))
        return found

    def _meant(self, term: str, terms: Set[str], allowed: NDArray[np.bool_]) -> _Called | None:
        """The one group that has a name which ends in this term and whose words were all asked with."""
        groups: set[_Called] = set()
        for called in self._of_term.get(term, ()):
            if any(name[-1] == term and terms >= set(name) for name in called) and any(
                allowed[slot] for slot in self._said[called]
            ):
                groups.add(called)
        return groups.pop() if len(groups) == 1 else None


def _called(item: IndexItem) -> _Called | None:
    """The names that a memory gives one, as terms; None where it gives no two."""
    if item.kind != "semantic":
        return None
    about = item.attributes
    names: Iterable[str]
    if CARD in about:
        card = told_of(about[CARD])
        names = (card.name, *card.aliases)
    else:
        said = (str(about.get(name, "")) for name in ("subject", "predicate", "object"))
        link = link_in(*said, negated=about.get("negated") is True)
        if link is None or not link.target.alias or USER in (link.target.name, link.target.alias):
            return None
        names = (link.target.name, link.target.alias)
    found = frozenset(terms for name in names if (terms := tuple(tokenise(name))))
    return found if len(found) > 1 else None
