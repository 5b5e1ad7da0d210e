"""What the own API needs of checkpoints: their store as a small Protocol, how tokens are counted, and their bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memory.audit import Note
from memory.checkpoints import Checkpoint, CheckpointRow, Giving, NewCheckpoint
from memory.config_sections import Checkpoint as Bounds
from memory.model import Scope
from memory.ports import TokenCounter
from memory.read.restore import Restorer
from memory.stored import Page
from proxy.api.paging import Order


class KeepsCheckpoints(Protocol):
    """The store of checkpoints. Every method acts inside one scope and may raise StoreUnavailable."""

    async def save(
        self,
        scope: Scope,
        subject_id: UUID,
        new: NewCheckpoint,
        *,
        now: datetime,
        note: Note,
        source: Scope | None = None,
        given: Giving | None = None,
    ) -> Checkpoint:
        """Keep it under its name, and load it where it is `given`. Raises Conflict, TooLarge."""

    async def change(
        self, scope: Scope, subject_id: UUID, version: int, new: NewCheckpoint, *, now: datetime, note: Note
    ) -> Checkpoint:
        """The next version. Raises NotFound, Conflict."""

    async def branch(self, scope: Scope, name: str, new_name: str, *, now: datetime, note: Note) -> Checkpoint:
        """Another name for the same parts. Raises NotFound, Conflict, TooLarge."""

    async def delete(self, scope: Scope, name: str, *, version: int | None = None, now: datetime, note: Note) -> None:
        """Hide it. Raises NotFound, and Conflict for another `version`."""

    async def undelete(
        self, scope: Scope, name: str, *, now: datetime, note: Note, may: Callable[[CheckpointRow], None]
    ) -> Checkpoint:
        """Bring it back. Raises NotFound, Conflict."""

    async def load(self, scope: Scope, checkpoint: Checkpoint, given: Giving, *, now: datetime) -> None:
        """Have a conversation's next message be given it."""

    async def one(self, scope: Scope, name: str, *, version: int | None = None) -> Checkpoint:
        """A checkpoint with its parts. Raises NotFound."""

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None = None,
        order: Order = "desc",
        session_id: UUID | None = None,
    ) -> Page[CheckpointRow]:
        """Live checkpoints by when they were made. Raises MemoryInvalid."""

    async def placed(self, scope: Scope, session_id: UUID, limit: int) -> list[tuple[UUID, str, int]]:
        """Facts and documents that a conversation was given, the newest first: id, kind, version."""

    async def pinned(self, scope: Scope, limit: int) -> list[tuple[UUID, int]]:
        """The preferences that are pinned and hold: id, version."""

    async def turn_labels(self, scope: Scope, event_ids: Sequence[UUID]) -> dict[UUID, tuple[str, str]]:
        """Integrity and sensitivity of these turns; one that is not there has none."""


class MarksLoads(Protocol):
    """The hot ledgers of conversations."""

    async def mark_restore(self, scope: Scope, session_id: UUID, mark: bytes) -> None:
        """Have a conversation's next message be given what this mark says. Raises QueueUnavailable,
        StoreUnavailable.
        """

    async def mark_given(self, scope: Scope, session_id: UUID, mark: bytes) -> None:
        """Have a conversation's messages be given what its documents say. Raises QueueUnavailable, StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class CheckpointParts:
    """What calls about checkpoints are made of."""

    store: KeepsCheckpoints
    ledgers: MarksLoads
    restorer: Restorer
    counter: TokenCounter
    bounds: Bounds
