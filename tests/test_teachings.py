"""A procedure and the turn that teaches it: one of the two is in the block, and never a wording that was replaced."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest

from memory.assemble import Block, build_block
from memory.model import Candidate
from memory.read.extract import SentenceCompressor
from memory.read.index import ScopeIndex, Scored
from memory.read.items import Filter, IndexItem
from memory.read.retaught import TAUGHT_ANEW, without_retaught
from memory.read.route import ByLength
from memory.teachings import SHOWN
from policies.hygiene import Evidence, Kept, Tally, faults
from tests.test_assemble import LIMITS, Characters, candidate

EVENT, OLD_EVENT = UUID(int=91), UUID(int=92)
STEPS = "How to deploy:\n1. run the tests\n2. push the image"
TAUGHT = "To deploy: 1. run the tests 2. push the image"


def block(*candidates: Candidate, budget: int = 10_000) -> Block:
    return build_block(
        candidates,
        terms={},
        budget_tokens=budget,
        limits=LIMITS,
        counter=Characters(),
        router=ByLength(),
        compressor=SentenceCompressor(),
    )


def teaching(number: int, text: str = TAUGHT, **more: object) -> Candidate:
    return replace(candidate(number, text), event_ids=(EVENT,), **more)  # type: ignore[arg-type]


def procedure(number: int, text: str = STEPS, **more: object) -> Candidate:
    return replace(candidate(number, text, kind="procedural"), event_ids=(EVENT,), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("first", [True, False])
def test_a_procedure_stands_for_its_turn_whichever_ranks_first(first: bool) -> None:
    pair = (procedure(1), teaching(2)) if first else (teaching(2), procedure(1))
    made = block(*pair)
    assert made.memory_ids == (UUID(int=1),)
    assert made.left_out == {UUID(int=2): SHOWN}
    assert "| 2. push the image" in made.text


def test_an_older_wording_says_that_it_changed_where_a_procedure_stands_for_the_newer_turn() -> None:
    older = candidate(3, "To deploy I run make push." + " And my boat is called Halcyon." * 5)
    made = block(procedure(1), teaching(2), replace(older, later=UUID(int=2)))
    assert made.left_out == {UUID(int=2): SHOWN}
    assert "[2026-03-01 user, changed later] To deploy I run make push." in made.text


def test_a_turn_that_says_much_else_stays() -> None:
    made = block(procedure(1), teaching(2, TAUGHT + " And my boat is called Halcyon." * 5))
    assert set(made.memory_ids) == {UUID(int=1), UUID(int=2)}


def test_a_turn_stays_where_its_procedure_does_not_fit_or_is_not_admitted() -> None:
    assert block(procedure(1, STEPS + "\n3. wait" * 20), teaching(2), budget=250).memory_ids == (UUID(int=2),)
    assert block(procedure(1, admitted=False), teaching(2)).memory_ids == (UUID(int=2),)


def test_turns_of_the_conversation_that_is_replayed_stay() -> None:
    made = build_block(
        [procedure(1), teaching(2, replayed=True)],
        terms={},
        budget_tokens=10_000,
        limits={**LIMITS, "replay": 1},
        counter=Characters(),
        router=ByLength(),
        compressor=SentenceCompressor(),
    )
    assert set(made.memory_ids) == {UUID(int=1), UUID(int=2)}


def test_a_long_procedure_keeps_all_its_steps() -> None:
    steps = "How to deploy:\n" + "\n".join(f"{n}. do part {n} with all the care that it needs" for n in range(1, 25))
    made = block(*(candidate(n, "x " * 50) for n in range(1, 8)), procedure(9, steps))
    assert "| 24. do part 24 with all the care" in made.text


def item(number: int, kind: str, content: str, events: tuple[UUID, ...], outdates: tuple[UUID, ...] = ()) -> IndexItem:
    vector = np.zeros((1, 4), np.float32)
    vector[0, 0] = 1.0
    return IndexItem(
        memory_id=UUID(int=number),
        kind=kind,
        role="user",
        content=content,
        context="",
        occurred_at=datetime(2026, 1, number, tzinfo=UTC),
        session_id=UUID(int=number),
        seq=0,
        integrity="user",
        sensitivity="internal",
        importance=0.5,
        expires_at=None,
        scope_id=1,
        source_ids=(),
        event_ids=events,
        windows=((0, len(content)),),
        vectors=vector,
        outdates=outdates,
    )


def searched(*items: IndexItem) -> list[Scored]:
    index = ScopeIndex(4)
    for one in items:
        index.put(one)
    found = index.search(
        "how do I deploy?", items[0].vectors[0], 9, now=datetime(2026, 2, 1, tzinfo=UTC), where=Filter()
    )
    return [replace(hit, admitted=True) for hit in found]


def test_a_turn_with_an_older_wording_is_not_admitted_beside_the_new_one() -> None:
    old = item(1, "episodic", "To deploy: 1. build it 2. push it", (OLD_EVENT,))
    new = item(2, "episodic", TAUGHT, (EVENT,))
    holds = item(3, "procedural", STEPS, (EVENT,), outdates=(OLD_EVENT,))
    hits = without_retaught(searched(old, new, holds))
    assert {hit.item.memory_id.int: hit.why for hit in hits if not hit.admitted} == {1: TAUGHT_ANEW}
    long = replace(old, content=old.content + " And my boat is called Halcyon." * 5)
    assert all(hit.admitted for hit in without_retaught(searched(long, new, holds)))
    taught_again = replace(holds, event_ids=(EVENT, OLD_EVENT))
    assert all(hit.admitted for hit in without_retaught(searched(old, new, taught_again)))


def test_a_question_finds_what_replaced_an_older_wording_before_it() -> None:
    old = item(1, "episodic", "To deploy: 1. build it 2. push it", (OLD_EVENT,))
    new = item(2, "episodic", TAUGHT, (EVENT,))
    hits = searched(old, new, item(3, "procedural", STEPS, (EVENT,), outdates=(OLD_EVENT,)))
    places = {hit.item.memory_id.int: at for at, hit in enumerate(hits)}
    assert places[2] < places[1]


# ---------------------------------------------------------------- hygiene


@pytest.mark.parametrize(
    ("evidence", "found"),
    [
        ((Evidence("turn", "user", span=(0, 9), chars=40, words="To deploy"),), set()),
        ((Evidence("memory", None),), set()),
        ((), {"unsupported"}),
        ((Evidence("turn", "user"),), {"unsupported"}),
        ((Evidence("turn", "user", span=(0, 9), chars=40, words="To deploy", in_block=True),), {"loop"}),
    ],
)
def test_a_procedure_rests_on_words_or_on_episodes(evidence: tuple[Evidence, ...], found: set[str]) -> None:
    now = datetime(2026, 2, 1, tzinfo=UTC)
    kept = Kept("procedural", STEPS, now, 1, True, evidence)
    rates = faults(kept, now=now, unused_after=now - datetime(2026, 1, 1, tzinfo=UTC))
    assert rates == found
    tally = Tally()
    tally.add(kept, rates, aged=False)
    assert tally.share("unsupported") == ("unsupported" in found)
