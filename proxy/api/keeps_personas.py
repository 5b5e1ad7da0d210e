"""What the own API needs of the store of personas, as a small Protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memory.audit import Note
from memory.model import Scope
from memory.personas import NewPersona, Persona
from policies.labels import Sensitivity


class KeepsPersonas(Protocol):
    """The store of personas. Every method acts inside one scope and may raise StoreUnavailable."""

    async def save(self, scope: Scope, subject_id: UUID, new: NewPersona, *, now: datetime, note: Note) -> Persona:
        """Keep it under its name. Raises Conflict, TooLarge."""

    async def change(
        self,
        scope: Scope,
        subject_id: UUID,
        version: int,
        new: NewPersona,
        *,
        now: datetime,
        note: Note,
        lowers: bool = False,
    ) -> Persona:
        """The next version; it may be less sensitive where it `lowers` the label. Raises NotFound, Conflict."""

    async def delete(self, scope: Scope, name: str, *, version: int | None = None, now: datetime, note: Note) -> None:
        """Hide it. Raises NotFound, and Conflict for another `version`."""

    async def undelete(
        self, scope: Scope, name: str, *, now: datetime, note: Note, may: Callable[[Persona], None]
    ) -> Persona:
        """Bring it back. Raises NotFound, Conflict, TooLarge."""

    async def one(self, scope: Scope, name: str, *, seen: Callable[[Sensitivity], bool]) -> Persona:
        """A persona. Raises NotFound, which says when it was deleted where its label is `seen`."""

    async def all_of(self, scope: Scope) -> Sequence[Persona]:
        """The live personas of a scope, by name."""
