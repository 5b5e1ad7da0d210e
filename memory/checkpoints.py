"""The values of checkpoints: what one is made of, how it lies in the store, and what a load of it gives a prompt.

Frozen, slotted, no I/O. Times are aware, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from memory.audit import Note
from memory.model import Candidate, NewMemory, Reason, Times
from policies.checkpoint import Part, Section

PartState = Literal["", "hidden", "quarantined", "rejected", "superseded", "expired"]


@dataclass(frozen=True, slots=True)
class NewPart:
    """One part to store: a memory that is there in a version, or one that is made with it (`made`). `copied_from`: the
    memory of another scope whose words it repeats, and with which it ends.
    """

    part: Part
    memory_id: UUID
    version: int = 1
    own: bool = False
    made: NewMemory | None = None
    copied_from: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """What is to be stored under a name. `session_id`: the conversation it was saved from, if of one."""

    name: str
    session_id: UUID | None
    parts: tuple[NewPart, ...]
    tokens: int
    times: Times | None = None


@dataclass(frozen=True, slots=True)
class Giving:
    """A conversation that is to be given a checkpoint with its next message, and the note of it."""

    session_id: UUID
    note: Note


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A checkpoint as it is listed, in its current version."""

    checkpoint_id: UUID
    name: str
    version: int
    session_id: UUID | None
    branched_from: UUID | None
    branched_version: int | None
    created_at: datetime
    changed_at: datetime
    deleted_at: datetime | None
    tokens: int
    part_count: int


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part as it lies there, with its memory as that is now. `state`: why no prompt gets it, "" for nothing;
    `saved` are the words of the version that was saved, `content` those of now.
    """

    part: Part
    ordinal: int
    own: bool
    memory_id: UUID
    memory_version: int
    current_version: int
    kind: str
    content: str
    saved: str
    role: str
    integrity: str
    sensitivity: str
    session_id: UUID | None
    occurred_at: datetime | None
    state: PartState
    successor: UUID | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint in one of its versions, with its parts in order."""

    row: CheckpointRow
    version: int
    recorded_at: datetime
    tokens: int
    parts: tuple[StoredPart, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """What a memory said in one of its versions, that version's label, and the mark of the redaction it has passed."""

    content: str
    sensitivity: str
    cleaned_by: str


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A part by its memory, in the version that was saved; `own`: made for the checkpoint."""

    part: Section
    memory_id: UUID
    version: int
    own: bool


@dataclass(frozen=True, slots=True)
class ToLoad:
    """What a load reads: which checkpoint in which version, and which memories it names, in order."""

    checkpoint_id: UUID
    version: int
    session_id: UUID | None
    parts: tuple[NamedPart, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """What a checkpoint gives one prompt, in its order. `fault`: why it could not be read. `pending`: it was loaded
    through the API, and is placed once.
    """

    candidates: tuple[Candidate, ...] = ()
    fault: Reason | None = None
    checkpoint_id: UUID | None = None
    pending: bool = False
