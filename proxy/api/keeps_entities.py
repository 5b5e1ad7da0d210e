"""What the own API needs of the store of people and things, as a small Protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memory.audit import Note
from memory.entities import Entity, NewEntity, NewRelationship, Relationship, Seen, Step
from memory.model import Scope
from memory.stored import Page
from policies.entity import Type
from policies.labels import Sensitivity
from proxy.api.paging import Order


class KeepsEntities(Protocol):
    """The store of people and things. Every method acts inside one scope and may raise StoreUnavailable."""

    async def add(
        self,
        scope: Scope,
        subject_id: UUID,
        new: NewEntity,
        actor: str,
        *,
        now: datetime,
        note: Note,
        seen: Seen,
    ) -> Entity:
        """Keep one. Raises Conflict, which names another where that is `seen`, TooLarge."""

    async def change(
        self,
        scope: Scope,
        subject_id: UUID,
        version: int,
        new: NewEntity,
        actor: str,
        *,
        now: datetime,
        note: Note,
        seen: Seen,
    ) -> Entity:
        """The next version. Raises NotFound, Conflict, as `add`."""

    async def merge(
        self,
        scope: Scope,
        entity_id: UUID,
        into: UUID,
        actor: str,
        *,
        now: datetime,
        note: Note,
        seen: Seen,
    ) -> Entity:
        """Both are one. Raises NotFound, Conflict, which names a circle where its ties are `seen`."""

    async def split(self, scope: Scope, entity_id: UUID, actor: str, *, now: datetime, note: Note) -> Entity:
        """It stands for itself again. Raises NotFound, Conflict."""

    async def delete(
        self, scope: Scope, entity_id: UUID, actor: str, *, version: int | None = None, now: datetime, note: Note
    ) -> None:
        """Hide it. Raises NotFound, and Conflict for another `version`."""

    async def undelete(
        self,
        scope: Scope,
        entity_id: UUID,
        actor: str,
        *,
        now: datetime,
        note: Note,
        may: Callable[[Entity], None],
        seen: Seen,
    ) -> Entity:
        """Bring it back. Raises NotFound, TooLarge, Conflict."""

    async def relate(
        self,
        scope: Scope,
        subject_id: UUID,
        new: NewRelationship,
        *,
        now: datetime,
        note: Note,
        seen: Seen,
    ) -> Relationship:
        """Tie two. Raises NotFound, Conflict, as `merge`."""

    async def unrelate(
        self,
        scope: Scope,
        relationship_id: UUID,
        *,
        now: datetime,
        note: Note,
        may: Callable[[Sensitivity], None],
    ) -> None:
        """Tie them no more, where `may` raises nothing of its label. Raises NotFound."""

    async def around(
        self,
        scope: Scope,
        entity_ids: Sequence[UUID],
        *,
        at: datetime | None,
        types: Set[str] | None = None,
        hops: int = 1,
    ) -> list[Relationship]:
        """What ties these to others, so many hops far."""

    async def tied(
        self, scope: Scope, entity_ids: Sequence[UUID], *, limit: int, cursor: str | None
    ) -> Page[Relationship]:
        """All that ties these to others as it is said of these, each once, by pages."""

    async def one(self, scope: Scope, entity_id: UUID) -> Entity:
        """One. Raises NotFound."""

    async def some(self, scope: Scope, entity_ids: Sequence[UUID]) -> list[Entity]:
        """Those that are there."""

    async def named(
        self,
        scope: Scope,
        name: str,
        *,
        limit: int,
        cursor: str | None,
        types: Sequence[Type],
        order: Order = "desc",
    ) -> Page[Entity]:
        """Those of these types that have this name. Raises MemoryInvalid."""

    async def page(
        self, scope: Scope, *, limit: int, cursor: str | None, types: Sequence[Type], order: Order = "desc"
    ) -> Page[Entity]:
        """Those of these types by when they came. Raises MemoryInvalid."""

    async def history(self, scope: Scope, entity_id: UUID) -> list[Step]:
        """How one became what it is. Raises NotFound."""
