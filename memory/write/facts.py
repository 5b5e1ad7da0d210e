"""Facts of clean turns, by rules: turns in, what they state with the memories these become out.

Only what a person says of their own accord is evidence: turns of the role `user` whose words are vouched for by a user
or better. A turn as it is stored never holds what memory placed in the prompt, so nothing recalled is learnt again.
Refuses what speaks of no thing ("no, it's Porto" alone). Pure; no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from memory.ids import derived_id
from memory.model import NewFact, NewMemory, Turn
from policies.extraction import facts_in
from policies.fact import Fact
from policies.labels import Integrity
from policies.reconcile import content_key

EXTRACTOR_VERSION: Final = "rules-1"
_VOUCHED_FOR: Final = frozenset({Integrity.ADMIN, Integrity.USER})
_NO_THING: Final = "it"


def facts_of(turns: Iterable[Turn]) -> list[NewFact]:
    """The facts that these turns state, in their order."""
    return [
        new_fact(turn, number, fact)
        for turn in turns
        if turn.role == "user" and turn.integrity in _VOUCHED_FOR
        for number, fact in enumerate(facts_in(turn.content, said_at=turn.occurred_at, speaker=turn.name))
        if fact.subject != _NO_THING
    ]


def no_facts(_: Sequence[Turn]) -> list[NewFact]:
    """Where extraction is off."""
    return []


def new_fact(turn: Turn, number: int, fact: Fact, *, extractor: str = EXTRACTOR_VERSION) -> NewFact:
    """A fact with the memory it becomes; `number`: its place among those of its turn."""
    memory = NewMemory(
        memory_id=derived_id(turn.event_id, "semantic", number),
        kind="semantic",
        content=fact.statement,
        content_key=content_key(fact),
        role=turn.role,
        integrity=turn.integrity,
        sensitivity=turn.sensitivity,
        origin=turn.origin,
        importance=fact.importance,
        confidence=fact.confidence,
        occurred_at=turn.occurred_at,
        extractor_version=extractor,
        source_turns=(turn.event_id,),
        language=turn.language,
    )
    return NewFact(memory, fact, turn.event_id)
