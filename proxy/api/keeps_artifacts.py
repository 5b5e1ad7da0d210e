"""What the own API needs of the store of artifacts, as a small Protocol and the parts beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memory.artifacts import Artifact, Blobs, NewArtifact
from memory.audit import Note
from memory.model import NewMemory, Scope, ScopeId, SessionRef
from memory.stored import Page
from proxy.api.paging import Order


class KeepsArtifacts(Protocol):
    """The store of files. Every method may raise StoreUnavailable."""

    async def scope_id(self, scope: Scope) -> ScopeId:
        """The scope whose files these are to be."""

    async def add(
        self,
        scope: Scope,
        new: NewArtifact,
        session: SessionRef | None,
        *,
        bytes_max: int,
        now: datetime,
        note: Note,
        seen: Callable[[Artifact], bool],
    ) -> tuple[Artifact, bool]:
        """Keep one, or give the newest that has these bytes and is `seen`. Raises TooLarge."""

    async def change(
        self, scope: Scope, artifact_id: UUID, version: int, memory: NewMemory, *, now: datetime, note: Note
    ) -> Artifact:
        """What is said of it from now on. Raises NotFound, Conflict."""

    async def delete(
        self, scope: Scope, artifact_id: UUID, *, version: int | None = None, now: datetime, note: Note
    ) -> None:
        """Hide it. Raises NotFound, and Conflict for another `version`."""

    async def undelete(
        self, scope: Scope, artifact_id: UUID, *, now: datetime, note: Note, may: Callable[[Artifact], None]
    ) -> Artifact:
        """Bring it back. Raises NotFound."""

    async def one(self, scope: Scope, artifact_id: UUID) -> Artifact:
        """One file. Raises NotFound."""

    async def of_scope(self, tenant: UUID, scope_id: int, artifact_id: UUID) -> Artifact:
        """One file of a scope by its number. Raises NotFound."""

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None,
        order: Order = "desc",
        session_id: UUID | None = None,
    ) -> Page[Artifact]:
        """Files by when they were kept. Raises MemoryInvalid."""


class Captions(Protocol):
    """A model that says what is in a picture."""

    async def caption(self, scope: Scope, media_type: str, picture: bytes) -> str:
        """A few sentences; `scope`: whose turn it is. Raises RateLimited, StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class ArtifactParts:
    """What the calls of artifacts need beside the rest of the API."""

    store: KeepsArtifacts
    blobs: Blobs
    bytes_max: int
    scope_bytes_max: int
    idle_s: float
    captions: Captions | None  # None: no chat model is configured
