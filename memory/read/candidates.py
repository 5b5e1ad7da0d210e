"""An item of an index as recall gives it: items, scored or as they are, in; candidates out. Decides nothing."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from memory.model import Candidate
from memory.read.index import Scored
from memory.read.items import IndexItem
from policies.checkpoint import LABELS


def candidate_of(hit: Scored, same: tuple[UUID, ...] = ()) -> Candidate:
    """A hit of an index as recall gives it; `same` say its words."""
    judged = hit.features
    parts = {**hit.parts, "coverage": judged.coverage}
    if judged.dense is not None and judged.dense_margin is not None:
        parts |= {"cosine": judged.dense, "margin": judged.dense_margin}
    parts["speaker_gap"] = judged.speaker_gap
    return _candidate(hit.item, hit.best_window, hit.score, parts, hit.admitted, hit.why, hit.later, same)


def as_style(item: IndexItem, place: int) -> Candidate:
    """A fact about how answers are liked, the `place`-th of them."""
    one = as_candidate(item)
    role = f"{one.role}, {LABELS['persona']}"
    return replace(one, role=role, occurred_at=None, seq=place, section="persona", why="a style that the user prefers")


def as_candidate(item: IndexItem) -> Candidate:
    """An item as it is, whole and admitted, not scored."""
    return _candidate(item, (0, len(item.content)), 0.0, {}, True, "", None)


def _candidate(
    item: IndexItem,
    shown: tuple[int, int],
    score: float,
    parts: dict[str, float],
    admitted: bool,
    why: str,
    later: UUID | None,
    same: tuple[UUID, ...] = (),
) -> Candidate:
    """Made at once: to replace fields of one that is made already takes longer than to make it."""
    return Candidate(
        memory_id=item.memory_id,
        version=item.version,
        kind=item.kind,
        role=item.role,
        content=item.content,
        shown=shown,
        score=score,
        parts=parts,
        admitted=admitted,
        occurred_at=item.occurred_at,
        session_id=item.session_id,
        seq=item.seq,
        scope_id=item.scope_id,
        integrity=item.integrity,
        source_ids=item.source_ids,
        event_ids=item.event_ids,
        why=why,
        later=later,
        sensitivity=item.sensitivity,
        same=same,
        language=item.language,
    )
