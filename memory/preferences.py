"""A preference as it lies in the store: what was learnt from a user's words, with its evidence. Frozen, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Preference:
    """One fact of the category preference that holds. `said`, `sessions`: how often, and in how many conversations;
    `evidence`: the latest turns that say it.
    """

    memory_id: UUID
    version: int
    statement: str
    predicate: str
    said: int
    sessions: int
    first_said: datetime
    last_said: datetime
    vouched: bool
    pinned: bool
    sensitivity: str
    session_id: UUID | None
    evidence: tuple[UUID, ...]
