"""Newest truth in an index: what was found in, in rank order; the same out, what holds before what held.

Two ways to know: statements of a value that differ (`policies/newest.py`), and facts that have taken the place of
others (`memory/read/facts.py`). Reads what ScopeIndex owns, changes nothing. No I/O; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from memory.read.dense import DenseIndex
from memory.read.facts import Facts, is_asked
from memory.read.items import IndexItem
from memory.read.prepared import Prepared, judged
from memory.read.words import OwnWords
from policies import newest
from policies.admission import Verdict

_REPLACES: Final = "says now what an admitted one said before"


class Found(NamedTuple):
    """What is found: the position that ranks, its slot, and other memories folded into it."""

    at: int
    slot: int
    folded: tuple[UUID, ...]


class NewestFirst:
    """Puts what holds before what held."""

    def __init__(
        self,
        items: Mapping[int, IndexItem],
        units: Mapping[int, Sequence[int]],
        dense: DenseIndex,
        facts: Facts,
        words: OwnWords,
    ) -> None:
        self._items = items
        self._units = units
        self._dense = dense
        self._facts = facts
        self._words = words

    def first(self, chosen: list[Found], query: Prepared) -> tuple[list[Found], dict[int, UUID]]:
        """The same, the newest first where a value of today is asked for; and by position what says it later."""
        asked = judged(query.query)
        if newest.asks_of_the_past(asked):
            return chosen, {}
        kinds = newest.kinds_asked(asked)
        order, later = self._by_their_words(kinds, chosen, query) if kinds else (chosen, {})
        return self._by_facts(order, later, kinds, query)

    def with_replacements(
        self, chosen: list[Found], verdicts: Sequence[Verdict], later: Mapping[int, UUID]
    ) -> list[Verdict]:
        """The verdicts, and what says later what an admitted one said is admitted with it, up to what holds now: the
        old is never alone.
        """
        pairs = zip(chosen, verdicts, strict=True)
        replacing = {later[found.at] for found, one in pairs if one.admitted and found.at in later}
        behind = {self._items[found.slot].memory_id: later[found.at] for found in chosen if found.at in later}
        while newer := {behind[one] for one in replacing if one in behind} - replacing:
            replacing |= newer
        return [
            replace(one, admitted=True, why=_REPLACES)
            if not one.admitted and self._items[found.slot].memory_id in replacing
            else one
            for found, one in zip(chosen, verdicts, strict=True)
        ]

    def _by_their_words(
        self, kinds: frozenset[str], chosen: list[Found], query: Prepared
    ) -> tuple[list[Found], dict[int, UUID]]:
        """Where two statements of a value of these kinds differ, the newer first."""
        slots = [found.slot for found in chosen[: newest.DEPTH]]
        units = [self._units[slot] for slot in slots]

        def near(one: int, other: int) -> float:
            """The cosine of the nearest windows of two of them."""
            return self._dense.nearest(units[one], units[other])

        terms = self._words.of(slots, query.terms, query.forms)
        said = [_statement(self._items[slot], frozenset(own)) for slot, own in zip(slots, terms, strict=True)]
        settled = newest.settle(kinds, said, query.terms, near)
        later = {chosen[older].at: self._items[slots[newer]].memory_id for older, newer in settled.later.items()}
        return [chosen[at] for at in settled.order] + chosen[newest.DEPTH :], later

    def _by_facts(
        self, chosen: list[Found], later: dict[int, UUID], kinds: frozenset[str], query: Prepared
    ) -> tuple[list[Found], dict[int, UUID]]:
        """Before a turn that says what is no longer so: the turn that says what is, found or not."""
        order = list(chosen)
        for found in chosen[: newest.DEPTH]:
            newer = self._replacement(found.slot, kinds, query)
            if newer is None:
                continue
            at = next((at for at, one in enumerate(order) if one.slot == newer.slot), None)
            here = order.index(found)
            if at is None or at > here:
                order.insert(here, newer if at is None else order.pop(at))
            later[found.at] = self._items[newer.slot].memory_id
        return order, later

    def _replacement(self, slot: int, kinds: frozenset[str], query: Prepared) -> Found | None:
        """What says now what this turn said, as far as the question asks for that; None for nothing."""
        item = self._items[slot]
        if item.kind != "episodic" or not item.event_ids:
            return None
        for one in sorted(self._facts.replacing(item.event_ids[0])):
            fact = self._items[one]
            if query.allowed[one]:
                turns = (self._facts.turn(event_id) for event_id in reversed(fact.event_ids))
                newer = next((turn for turn in turns if turn is not None and query.visible.has(turn)), one)
                if newer == slot or not query.visible.has(newer):
                    continue
                shared = self._own(slot, query) & self._own(newer, query)
                if not is_asked(fact, kinds, shared, query.terms, query.forms):
                    continue
                return Found(query.visible.position(newer), newer, ())
        return None

    def _own(self, slot: int, query: Prepared) -> frozenset[str]:
        return frozenset(self._words.of([slot], query.terms, query.forms)[0])


def _statement(item: IndexItem, terms: frozenset[str]) -> newest.Statement:
    return newest.Statement(
        text=item.content,
        speaker=(item.role, item.speaker),
        at=item.occurred_at,
        arrived=item.created_at,
        session=item.session_id,
        seq=item.seq,
        terms=terms,
    )
