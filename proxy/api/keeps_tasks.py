"""What the own API needs of the store of tasks, as a small Protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memory.audit import Note
from memory.model import Scope, SessionRef
from memory.stored import Page
from memory.tasks import CheckpointNamed, NewTask, Task, TaskChange, TaskStep
from policies.task import STATUSES, Status
from proxy.api.paging import Order


class KeepsTasks(Protocol):
    """The store of tasks. Every method acts inside one scope and may raise StoreUnavailable."""

    async def add(
        self,
        scope: Scope,
        subject_id: UUID,
        new: Sequence[NewTask],
        session: SessionRef | None,
        actor: str,
        *,
        now: datetime,
        note: Note,
    ) -> list[Task]:
        """Keep all of them, or none. Raises NotFound, Conflict, TooLarge."""

    async def change(
        self,
        scope: Scope,
        subject_id: UUID,
        task_id: UUID,
        version: int,
        new: TaskChange,
        actor: str,
        *,
        now: datetime,
        note: Note,
    ) -> Task:
        """The next version. Raises NotFound, Conflict, TooLarge."""

    async def delete(
        self, scope: Scope, task_id: UUID, *, version: int | None = None, now: datetime, note: Note
    ) -> None:
        """Hide it. Raises NotFound, and Conflict for another `version`."""

    async def undelete(
        self, scope: Scope, task_id: UUID, *, now: datetime, note: Note, may: Callable[[Task], None]
    ) -> Task:
        """Bring it back. Raises NotFound, Conflict, TooLarge."""

    async def one(self, scope: Scope, task_id: UUID) -> Task:
        """A task. Raises NotFound."""

    async def some(self, scope: Scope, task_ids: Sequence[UUID]) -> list[Task]:
        """Those of these tasks that are there."""

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None = None,
        order: Order = "desc",
        statuses: Sequence[Status] = STATUSES,
        session_id: UUID | None = None,
    ) -> Page[Task]:
        """Tasks, newest first. Raises MemoryInvalid."""

    async def checkpoints(self, scope: Scope, names: Sequence[str]) -> Mapping[str, CheckpointNamed]:
        """The checkpoints of these names that are there, by name: a task may name them."""

    async def history(self, scope: Scope, task_id: UUID) -> list[TaskStep]:
        """How a task came where it is. Raises NotFound."""
