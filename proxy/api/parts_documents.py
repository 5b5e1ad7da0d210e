"""What the calls of documents need of the rest, as small Protocols; built and passed down in proxy.wiring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memory.audit import Note
from memory.documents import ChunkRecord, Citation, DocumentRecord, Parsed
from memory.model import Scope
from memory.preferences import Preference
from memory.stored import Page
from memory.web_documents import Stages
from policies.labels import Sensitivity
from proxy.api.paging import Order


class ReadsDocuments(Protocol):
    """Documents as they are stored. Every method acts inside one scope and may raise StoreUnavailable."""

    async def documents(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None = None,
        order: Order = "desc",
        session_id: UUID | None = None,
    ) -> Page[DocumentRecord]:
        """Those that are not deleted. Raises MemoryInvalid for a bad cursor."""

    async def document(self, scope: Scope, document_id: UUID) -> DocumentRecord:
        """One that is not deleted. Raises NotFound."""

    async def chunks(
        self, scope: Scope, document_id: UUID, *, limit: int, start: int = 0, now: datetime | None = None
    ) -> Page[ChunkRecord]:
        """Its chunks in order, from one on."""

    async def citations(self, scope: Scope, memory_ids: Sequence[UUID]) -> dict[UUID, Citation]:
        """Where these memories stand in documents; one that is of none has no entry."""

    async def hide(
        self,
        scope: Scope,
        document_id: UUID,
        now: datetime,
        *,
        note: Note,
        may: Callable[[DocumentRecord], None],
        version: int | None = None,
    ) -> int:
        """Hide it with its chunks; how many. Raises NotFound, and Conflict for another `version`."""

    async def show(
        self, scope: Scope, document_id: UUID, now: datetime, *, note: Note, may: Callable[[DocumentRecord], None]
    ) -> DocumentRecord:
        """Show it again. Raises NotFound, Conflict."""


class Parses(Protocol):
    """Reads files."""

    async def parse(self, scope: Scope, content: bytes, name: str, declared: str) -> Parsed:
        """The blocks of a file; `scope`: whose turn it is. Raises Unprocessable, TooLarge, RateLimited,
        StoreUnavailable.
        """


@dataclass(frozen=True, slots=True)
class DocumentParts:
    """What the calls of documents need beside the rest of the API. `budget_tokens`: of a request's block."""

    store: Stages
    records: ReadsDocuments
    parser: Parses
    bytes_max: int
    waiting_max: int
    idle_s: float
    budget_tokens: int


class ReadsPreferences(Protocol):
    """What was learnt of a user's taste."""

    async def preferences(
        self,
        scope: Scope,
        now: datetime,
        among: Sequence[UUID] | None = None,
        *,
        ceiling: Sensitivity | None = None,
        session_id: UUID | None = None,
    ) -> tuple[list[Preference], bool]:
        """Those that hold in this very scope, of these or of all, up to this sensitivity and of one conversation where
        that is all that may be seen, the last said first, 500 at most; whether there are more. Raises StoreUnavailable.
        """
