"""The values of deferred extraction: which exchange waits for a model, and what the store has of it.

Frozen, no I/O. Times are aware, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memory.model import Base, Turn


@dataclass(frozen=True, slots=True)
class Due:
    """An exchange whose facts are still to be taken out, taken by this worker.

    `session_last`: when the latest was said of the turns that it was said behind, where that is after it. `since`: when
    its answer had left. `takes`: how often it was taken and never given back, this time included.
    """

    tenant: UUID
    exchange_id: UUID
    scope_id: int
    session_id: UUID
    seq_from: int
    seq_to: int
    session_last: datetime | None
    since: datetime
    takes: int


@dataclass(frozen=True, slots=True)
class DueExchange:
    """The exchange as it is stored: its own user turns in order, redacted, and its sealed body while that is kept."""

    subject_id: UUID
    model: str | None
    sealed: bytes | None
    turns: tuple[Turn, ...]
    base: Base | None = None  # what the sealed body is a difference from
