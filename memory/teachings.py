"""Procedures and the turns that teach them, among candidates for one block: none is shown twice.

A procedure stands in the block in place of its turn, which says the same in more words; a turn most of which is about
something else stays. Pure; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from memory.model import Candidate

SHOWN: Final = "its procedure is shown"
SHARE: Final = 2
"""A turn up to so many times as long as its procedure is about nothing else."""


def before_their_turns(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same, each admitted procedure before the first turn that teaches it."""
    teaching = [one for one in candidates if one.kind == "procedural" and one.admitted]
    if not teaching:
        return list(candidates)
    ordered: list[Candidate] = []
    placed: set[int] = set()
    for one in candidates:
        first = [known for known in teaching if id(known) not in placed and (known is one or _says(one, known))]
        ordered += first
        placed.update(map(id, first))
        if not (one.kind == "procedural" and one.admitted):
            ordered.append(one)
    return ordered


def is_shown_by(turn: Candidate, procedures: Iterable[Candidate]) -> bool:
    """Whether one of these is the procedure that the turn teaches."""
    return any(_says(turn, known) for known in procedures)


def _says(turn: Candidate, procedure: Candidate) -> bool:
    """Whether a turn is where a procedure was taught, and says little else."""
    return (
        turn.kind == "episodic"
        and not turn.replayed
        and len(turn.content) <= SHARE * len(procedure.content)
        and not set(turn.event_ids).isdisjoint(procedure.event_ids)
    )
