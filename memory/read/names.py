"""What people and things are called beside the name that a question uses: items in, more forms of its words out.

"What does my sister do?" finds what was said of Anna, since a fact names her so, or a card does: the words of one's
other names count as the words that were asked with, in score and in admission (`LexicalIndex.score`, forms). Memories
that name one entity, or two that were merged, name one; a name that is that of two stands for neither. Bookkeeping of
ScopeIndex, which owns the slot numbers. No I/O, refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.entities import names_in
from memory.read.items import IndexItem
from memory.read.lexical import tokenise

Name = tuple[str, ...]
_Called = frozenset[Name]
_NOBODY: Final[_Called] = frozenset()
_FORMS_MAX: Final = 8
"""Words that one name may add to a question."""


class Names:
    """Who is called what in one index: each group of names is of one person or thing, with the slots that say so."""

    def __init__(self) -> None:
        self._said: dict[UUID | _Called, dict[int, _Called]] = {}
        self._of_term: dict[str, set[UUID | _Called]] = {}

    def put(self, slot: int, item: IndexItem) -> None:
        """Fill a slot."""
        called = _called(item)
        if not called:
            return
        who = item.entity or called
        self._said.setdefault(who, {})[slot] = called
        for name in called:
            self._of_term.setdefault(name[-1], set()).add(who)

    def drop(self, slot: int, item: IndexItem) -> None:
        """Empty a slot."""
        called = _called(item)
        who = item.entity or called
        group = self._said.get(who)
        if group is None or group.pop(slot, None) is None:
            return
        left = {name[-1] for names in group.values() for name in names}
        for term in {name[-1] for name in called} - left:
            held = self._of_term[term]
            held.discard(who)
            if not held:
                del self._of_term[term]
        if not group:
            del self._said[who]

    def meant(self, asked: Mapping[str, tuple[str, ...]], allowed: NDArray[np.bool_]) -> frozenset[Name]:
        """All names of those whom a question names."""
        found: set[Name] = set()
        for term in asked if self._said else ():
            found |= self._meant(term, asked.keys(), allowed) or frozenset()
        return frozenset(found)

    def is_of_one(self, name: Name, allowed: NDArray[np.bool_]) -> bool:
        """Whether no two have this name, as far as may be seen."""
        groups = self._of_term.get(name[-1], ())
        fitting = [who for who in groups if any(name in called for called in self._said[who].values())]
        return sum(name in called for called in self._seen(fitting, allowed)) < 2

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
        if term not in self._of_term:
            return None
        fitting = []
        for who in self._of_term[term]:
            for called in self._said[who].values():
                if any(name[-1] == term and terms >= set(name) for name in called):
                    fitting.append(who)
                    break
        groups = [
            called
            for called in self._seen(fitting, allowed)
            if any(name[-1] == term and terms >= set(name) for name in called)
        ]
        return groups[0] if len(groups) == 1 else None

    def _seen(self, groups: Iterable[UUID | _Called], allowed: NDArray[np.bool_]) -> Set[_Called]:
        """The names of each of these as far as may be seen, where there are two. Who is no entity, as whom a copy
        names, is the one that has all these names.
        """
        found: dict[UUID | _Called, _Called] = {}
        for who in groups:
            names = _NOBODY.union(*(called for slot, called in self._said[who].items() if allowed[slot]))
            if len(names) > 1:
                found[who] = names
        known = [names for who, names in found.items() if isinstance(who, UUID)]
        others = (names for who, names in found.items() if not isinstance(who, UUID))
        return {*known, *(names for names in others if not any(names <= one for one in known))}


def _called(item: IndexItem) -> _Called:
    """The names that a memory gives one, as terms; none where it gives no two, and the store does not know whose."""
    given = names_in(item.attributes) if item.kind == "semantic" else ()
    found = frozenset(terms for name in given if (terms := tuple(tokenise(name))))
    return found if item.entity is not None or len(found) > 1 else _NOBODY
