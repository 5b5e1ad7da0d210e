"""A hit of an index as a candidate: it says of a memory what the index holds of it, and how it was judged."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from memory.read.candidates import as_candidate, candidate_of
from memory.read.items import Filter
from tests.test_scope_index import index_of, item

NOW = datetime(2026, 11, 1, tzinfo=UTC)
SAID, LATER, SAME = UUID(int=5), UUID(int=6), UUID(int=7)
BOAT = item("boat", "My boat is called Halcyon.", integrity="tool", event_ids=(SAID,))


def test_a_hit_says_what_its_memory_is_and_how_it_was_judged() -> None:
    index = index_of(BOAT)
    (hit,) = index.rank(index.prepare("the boat", now=NOW, where=Filter()), None, 1)
    found = candidate_of(replace(hit, later=LATER, features=replace(hit.features, speaker_gap=0.25)), (SAME,))
    assert (found.memory_id, found.content, found.integrity) == (BOAT.memory_id, BOAT.content, "tool")
    assert (found.event_ids, found.later, found.same, found.parts["speaker_gap"]) == ((SAID,), LATER, (SAME,), 0.25)


def test_an_item_as_it_is_is_whole_admitted_and_not_scored() -> None:
    found = as_candidate(BOAT)
    assert (found.shown, found.score, found.parts, found.admitted) == ((0, len(BOAT.content)), 0.0, {}, True)
    assert (found.integrity, found.event_ids, found.later, found.same) == ("tool", (SAID,), None, ())
