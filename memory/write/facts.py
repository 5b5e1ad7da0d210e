"""Facts of clean turns, by rules: turns in, what they state with the memories these become out.

Only what a person says of their own accord is evidence: turns of the role `user` whose words are vouched for by a user
or better. A turn as it is stored never holds what memory placed in the prompt, so nothing recalled is learnt again.
Refuses what speaks of no thing ("no, it's Porto" alone). Pure; no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from memory.chain import Digest
from memory.ids import derived_id
from memory.model import NewFact, NewMemory, Spoken, Turn
from policies.fact import Fact
from policies.fact_talk import Stated, Talk
from policies.labels import Integrity, is_sealed
from policies.reconcile import content_key

EXTRACTOR_VERSION: Final = "rules-1"
_VOUCHED_FOR: Final = frozenset({Integrity.ADMIN, Integrity.USER})
_NO_THING: Final = "it"


class FindsFacts(Protocol):
    """What takes facts out of turns."""

    def __call__(self, turns: Sequence[Turn], talk: Sequence[Spoken] = ()) -> list[NewFact]:
        """The facts that these turns state, in their order; `talk`: what was said up to them, they among it."""


def facts_of(turns: Sequence[Turn], talk: Sequence[Spoken] = ()) -> list[NewFact]:
    """The facts that these turns state, in their order; `talk`: what was said up to them, they among it."""
    before = _talks(talk)
    return [
        new_fact(turn, number, one.fact, beside=one.beside)
        for turn in turns
        if turn.role == "user" and turn.integrity in _VOUCHED_FOR
        for number, one in enumerate(_stated(turn, before.get(turn.chain, Talk())))
        if one.fact.subject != _NO_THING
    ]


def no_facts(turns: Sequence[Turn], talk: Sequence[Spoken] = ()) -> list[NewFact]:
    """Where extraction is off."""
    return []


def spoken(turn: Turn) -> Spoken:
    """A turn as what others stand behind; nothing that lies sealed is read again."""
    content = "" if is_sealed(turn.sensitivity) else turn.content
    return Spoken(turn.event_id, turn.chain, turn.parent_chain, turn.role, turn.name, content)


def _talks(talk: Sequence[Spoken]) -> Mapping[Digest, Talk]:
    """What was said before each of these, by its place."""
    before: dict[Digest, Talk] = {}
    after: dict[Digest | None, Talk] = {}
    for one in talk:
        before[one.chain] = after.get(one.parent_chain, Talk())
        after[one.chain] = before[one.chain].after(one.role, one.content, one.name, one.event_id)
    return before


def _stated(turn: Turn, before: Talk) -> Iterator[Stated]:
    return before.stated(turn.content, said_at=turn.occurred_at, speaker=turn.name)


def new_fact(
    turn: Turn, number: int, fact: Fact, *, beside: tuple[UUID, ...] = (), extractor: str = EXTRACTOR_VERSION
) -> NewFact:
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
    return NewFact(memory, fact, turn.event_id, beside)
