"""The values of tasks: one to store, a change of one, and one as it lies in the store. Frozen, slotted, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memory.model import NewMemory
from policies.task import Status

WORDS = ("title", "notes", "input", "output")
"""The members of its memory's attributes that hold what was said of it."""


@dataclass(frozen=True, slots=True)
class NewTask:
    """What is to be stored; `memory` says it in the words a prompt is given, `needs` are tasks to be done first."""

    task_id: UUID
    status: Status
    memory: NewMemory
    needs: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class TaskChange:
    """The next version of a task; `needs` None: as they are."""

    status: Status
    memory: NewMemory
    needs: frozenset[UUID] | None


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it is now. `hidden`: why no prompt is given it, "" for nothing."""

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


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One row of a task's history: what it became, from what, when, and by which key."""

    version: int
    was: Status | None
    status: Status
    actor: str
    at: datetime
