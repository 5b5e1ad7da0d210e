"""Which turns say what is no longer so: facts by item slot in, for a turn the facts that have replaced it out.

Bookkeeping of ScopeIndex, which owns the slot numbers. No I/O, refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from uuid import UUID

from memory.read.items import IndexItem
from memory.read.lexical import present, tokenise


class Replaced:
    """The facts of one index, by the turns in which was said what they have taken the place of."""

    def __init__(self) -> None:
        self._by: dict[UUID, set[int]] = {}

    def put(self, slot: int, item: IndexItem) -> None:
        """Fill a slot."""
        for event_id in item.outdates:
            if event_id not in item.event_ids:  # said there too: then that turn is not out of date
                self._by.setdefault(event_id, set()).add(slot)

    def drop(self, slot: int, item: IndexItem) -> None:
        """Empty a slot."""
        for event_id in item.outdates:
            held = self._by.get(event_id)
            if held is not None:
                held.discard(slot)
                if not held:
                    del self._by[event_id]

    def by(self, event_id: UUID) -> Set[int]:
        """The slots of the facts that have replaced something said in this turn."""
        return self._by.get(event_id, frozenset())


def is_asked(fact: IndexItem, terms: Iterable[str], forms: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a question of these terms names what the fact is about: its subject, its predicate, or what tells the
    subject from its like.
    """
    about = fact.attributes
    of = about.get("qualifiers", {}).get("of", "")
    words = f"{about.get('subject', '')} {about.get('predicate', '').replace('_', ' ')} {of}"
    return bool(present(frozenset(tokenise(words, fact.language)), frozenset(terms), forms))
