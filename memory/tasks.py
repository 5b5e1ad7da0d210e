"""The values of tasks: one to store, a change of one, and one as it lies in the store. Frozen, slotted, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from memory.model import NewMemory, Times
from policies.task import Status

WORDS = ("title", "notes", "input", "output")
"""The members of its memory's attributes that hold what was said of it."""


@dataclass(frozen=True, slots=True)
class CheckpointNamed:
    """A checkpoint that a task names. `session_id`: the conversation it was saved from, which says who may see it."""

    checkpoint_id: UUID
    name: str
    session_id: UUID | None


@dataclass(frozen=True, slots=True)
class NewTask:
    """What is to be stored; `memory` says it in the words a prompt is given, `needs` are tasks to be done first.
    `as_it_stood`: it got where it is elsewhere, and what it needs may have been taken up again since.
    """

    task_id: UUID
    status: Status
    memory: NewMemory
    needs: frozenset[UUID]
    checkpoint_id: UUID | None = None
    as_it_stood: bool = False
    times: Times | None = None


@dataclass(frozen=True, slots=True)
class TaskChange:
    """The next version of a task; `needs` None: as they are. `checkpoint_id` None: it names none any more."""

    status: Status
    memory: NewMemory
    needs: frozenset[UUID] | None
    checkpoint_id: UUID | Literal["as it is"] | None = "as it is"


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it is now. `hidden`: why no prompt is given it, "" for nothing. `checkpoint`: None also where the one
    that it names is deleted.
    """

    task_id: UUID
    version: int
    status: Status
    title: str
    notes: str
    input: str
    output: str
    needs: tuple[UUID, ...]
    session_id: UUID | None
    memory_id: UUID
    integrity: str
    sensitivity: str
    hidden: str
    created_at: datetime
    changed_at: datetime
    checkpoint: CheckpointNamed | None = None


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One row of a task's history: what it became, from what, when, and by which key."""

    version: int
    was: Status | None
    status: Status
    actor: str
    at: datetime
