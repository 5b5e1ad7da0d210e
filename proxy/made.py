"""What is made of an answer: its block and the records of its candidates, once where the answer is given again.

A question of many at once has one answer (`memory/read/answers.py`), and what it becomes in a prompt was a quarter of
the calls that such a request made (decision 0027). What is made is held by the answer itself, and goes with it when
something is erased. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import numpy as np

from memory.assemble import Block
from memory.model import Candidate, Recall

MADE_MAX: Final = 4
"""Of one answer: conversations in which other memories stand, or that have other room, have blocks of their own."""


@dataclass(frozen=True, slots=True)
class Made:
    """A block, and the candidates it was made of: while they are held no others have their identity."""

    candidates: tuple[Candidate, ...]
    block: Block
    _records: dict[frozenset[UUID], tuple[dict[str, Any], ...]] = field(default_factory=dict)

    def records(self, placed: frozenset[UUID]) -> tuple[dict[str, Any], ...]:
        """The candidates as the record of a request has them that was given those `placed`. Not to be changed."""
        known = self._records.get(placed)
        if known is None:
            known = tuple(candidate_records(self.candidates, placed, self.block.left_out))
            self._records[placed] = known
        return known


def made_of(
    recall: Recall, candidates: tuple[Candidate, ...], budget: int, standing: Set[UUID], make: Callable[[], Block]
) -> Made:
    """What `make` makes of these candidates within a budget, beside what is `standing`; known by the very objects."""
    if recall.made is None:
        return Made(candidates, make())
    key = (budget, standing, tuple(map(id, candidates)))
    known: Made | None = recall.made.get(key)
    if known is None:
        if len(recall.made) >= MADE_MAX:
            recall.made.clear()
        known = recall.made[key] = Made(candidates, make())
    return known


def candidate_records(
    candidates: Sequence[Candidate], placed: frozenset[UUID], left_out: Mapping[UUID, str]
) -> Iterator[dict[str, Any]]:
    """The candidates as their record has them, numbers to six places: rounded at once, in a third of the time."""
    numbers = [part for one in candidates for part in one.parts.values()]
    rounded = iter(np.round(np.array(numbers, np.float64), 6).tolist())
    for one in candidates:
        section = {"section": one.section} if one.section else {}
        yield {
            **section,
            "id": str(one.memory_id),
            "version": one.version,
            "kind": one.kind,
            "sensitivity": one.sensitivity,
            "score": round(one.score, 6),
            "scores": dict(zip(one.parts, rounded, strict=False)),  # takes as many as it has parts
            "admitted": one.admitted,
            "injected": one.memory_id in placed,
            "why": one.why,
            "later": str(one.later) if one.later else None,
            "why_not": left_out.get(one.memory_id) or (None if one.admitted else one.why),
            "source_ids": list(one.source_ids),
            "event_ids": [str(event_id) for event_id in one.event_ids],
        }
