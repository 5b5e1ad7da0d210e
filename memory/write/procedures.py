"""Procedures to store: turns or an episode in, what they teach with the memories these become out.

Only what a person says of their own accord teaches: turns of the role `user` whose words are vouched for by a user or
better. What was done alike in several conversations is proposed with the lowest integrity of these, and waits for a
person unless `procedure.approve` is `all`. Besides its windows a procedure has one of its lead alone, so that it is
found by what it is for, however many steps it has. Raises EmbedderUnavailable; no model but the embedder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from uuid import UUID

import numpy as np

from memory.ids import derived_id
from memory.model import NewMemory, NewProcedure, Turn
from memory.ports import Embedder
from memory.write.embedding import embedded
from memory.write.windows import TextTokenizer
from policies.labels import Integrity, Sensitivity, derived_integrity, derived_sensitivity, is_sealed
from policies.procedure import procedures_in
from policies.procedure_runs import Run, common_topics, is_a_way, lead_of, pattern_of, statement_of, succeeded
from policies.taught import Procedure, content_key

Approve = Literal["taught", "all", "none"]
TAUGHT_VERSION: Final = "taught-1"
DERIVED_VERSION: Final = "derived-1"
_VOUCHED_FOR: Final = frozenset({Integrity.ADMIN, Integrity.USER})
_CONFIDENCE: Final = 0.85
_IMPORTANCE: Final = 0.7  # asked for seldom, and then it matters
_DERIVED_CONFIDENCE: Final = 0.6
_DERIVED_IMPORTANCE: Final = 0.5


@dataclass(frozen=True, slots=True)
class PastRun:
    """An earlier episode of a pattern, as the store has it."""

    memory_id: UUID
    succeeded: bool
    topics: tuple[str, ...]
    integrity: Integrity
    sensitivity: Sensitivity


def procedures_of(turns: Iterable[Turn], approve: Approve = "taught") -> list[NewProcedure]:
    """The procedures that these turns teach, in their order."""
    status = "unreviewed" if approve == "none" else "confirmed"
    return [
        new_procedure(turn, number, one, status)
        for turn in turns
        if turn.role == "user" and turn.integrity in _VOUCHED_FOR
        for number, one in enumerate(procedures_in(turn.content))
    ]


def finder(approve: Approve) -> Callable[[Sequence[Turn]], list[NewProcedure]]:
    """`procedures_of` under this policy."""
    return lambda turns: procedures_of(turns, approve)


def no_procedures(_: Sequence[Turn]) -> list[NewProcedure]:
    """Where extraction is off."""
    return []


def new_procedure(turn: Turn, number: int, one: Procedure, status: str) -> NewProcedure:
    """A procedure with the memory it becomes; `number`: its place among those of its turn."""
    steps = [
        {"text": step.text, "event_id": str(turn.event_id), "start": step.span[0], "end": step.span[1]}
        for step in one.steps
    ]
    memory = NewMemory(
        memory_id=derived_id(turn.event_id, "procedural", number),
        kind="procedural",
        content=one.statement,
        content_key=content_key(one.key, [step.text for step in one.steps]),
        role=turn.role,
        integrity=turn.integrity,
        sensitivity=turn.sensitivity,
        origin=turn.origin,
        importance=_IMPORTANCE,
        confidence=_CONFIDENCE,
        occurred_at=turn.occurred_at,
        extractor_version=TAUGHT_VERSION,
        source_turns=(turn.event_id,),
        spans=(one.span,),
        language=turn.language,
        validation_status=status,
        attributes={"trigger": one.trigger, "steps": steps, "origin": "taught"},
    )
    return NewProcedure(memory, one, turn.event_id)


async def embedded_procedures(
    memories: Sequence[NewMemory], embedder: Embedder, tokenizer: TextTokenizer
) -> tuple[NewMemory, ...]:
    """The memories of procedures with their windows and vectors, that of the lead first."""
    if not memories:
        return ()
    made = await embedded(memories, embedder, tokenizer)
    leads = [one.content.split("\n", 1)[0] for one in memories]
    vectors = await embedder.embed_documents(leads)
    return tuple(
        replace(one, windows=((0, len(lead)), *one.windows), vectors=np.vstack((vectors[at : at + 1], one.vectors)))
        if one.vectors is not None
        else one
        for at, (one, lead) in enumerate(zip(made, leads, strict=True))
    )


def derived_key(pattern: str) -> bytes:
    """One procedure of a pattern is one memory, however often it is derived. 32 bytes."""
    return hashlib.sha256(f"derived\x1f{pattern}".encode()).digest()


def proposal(episode: NewMemory, past: Sequence[PastRun], approve: Approve) -> NewMemory | None:
    """The procedure that this episode completes together with earlier ones of its pattern, without vectors; None where
    it does not.
    """
    pattern, about = pattern_of(episode.attributes), episode.attributes
    if pattern is None or succeeded(about) is not True:
        return None
    runs = [Run(True, tuple(about.get("topics", ()))), *(Run(one.succeeded, one.topics) for one in past)]
    if not is_a_way(runs):
        return None
    task, called, topics = str(about["task_type"]), list(about["tool_sequence"]), common_topics(runs)
    good = [one for one in past if one.succeeded]
    sensitivity = derived_sensitivity([episode.sensitivity, *(one.sensitivity for one in good)])
    if is_sealed(sensitivity):  # its pattern would lie open
        return None
    steps: list[dict[str, Any]] = [{"text": f"call {name}"} for name in called]
    return NewMemory(
        memory_id=derived_id(episode.memory_id, "procedural"),
        kind="procedural",
        content=statement_of(task, topics, called),
        content_key=derived_key(pattern),
        role="assistant",
        integrity=derived_integrity([episode.integrity, *(one.integrity for one in good)]),
        sensitivity=sensitivity,
        origin="derived",
        importance=_DERIVED_IMPORTANCE,
        confidence=_DERIVED_CONFIDENCE,
        occurred_at=episode.occurred_at,
        extractor_version=DERIVED_VERSION,
        source_turns=(),
        validation_status="confirmed" if approve == "all" else "unreviewed",
        attributes={
            "trigger": lead_of(task, topics).removesuffix(":"),
            "steps": steps,
            "origin": "derived",
            "episodes": [str(episode.memory_id), *(str(one.memory_id) for one in good)],
        },
    )
