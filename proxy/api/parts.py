"""What the proxy's own API needs of the rest, as small Protocols; built and passed down in proxy.wiring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.audit import Audit, AuditFilter, AuditRow, Note
from memory.canary import Canaries
from memory.edits import Counterpart, Edited, Hidden
from memory.erasure.asking import Asking
from memory.keys import KeyRing
from memory.model import ImportChunk, Scope
from memory.ports import QueueDepth
from memory.read.recall import Recaller
from memory.read.tell import Tells
from memory.shared import Shared, SharedTo
from memory.stored import (
    EventPage,
    ExportedTurn,
    ImportProgress,
    Label,
    MemoryChange,
    MemoryRecord,
    Page,
    RetrievalRecord,
    SealedExchange,
    SessionRecord,
    StoredTurn,
)
from memory.telemetry import Metrics
from memory.write.hand_off import Where
from memory.write.windows import TextTokenizer
from policies.redaction import Redacted
from policies.working import WorkingContext
from proxy.api.keeps_artifacts import ArtifactParts
from proxy.api.keeps_checkpoints import CheckpointParts
from proxy.api.keeps_entities import KeepsEntities
from proxy.api.keeps_personas import KeepsPersonas
from proxy.api.keeps_tasks import KeepsTasks
from proxy.api.paging import Order
from proxy.api.parts_documents import DocumentParts, ReadsPreferences
from proxy.api.search_turns import SearchTurns
from proxy.api.tool_record import ToolRecords
from proxy.app import Door
from proxy.limits import KeyUse
from proxy.outside import LooksOutside
from proxy.passages import Passages
from proxy.readiness import Readiness
from proxy.what_if import WhatIf


class Records(Protocol):
    """The store as the API shows it. Every method acts inside one scope and may raise StoreUnavailable."""

    async def sessions(
        self, scope: Scope, *, limit: int, cursor: str | None = None, order: Order = "desc"
    ) -> Page[SessionRecord]:
        """Conversations by when they were first stored. Raises MemoryInvalid for a bad cursor."""

    async def session(self, scope: Scope, name: str) -> SessionRecord:
        """A conversation by its label, else its id. Raises NotFound."""

    async def end_session(self, scope: Scope, name: str, now: datetime) -> SessionRecord:
        """Note that its client ended a conversation. Raises NotFound."""

    async def labels(self, scope: Scope, session_ids: Sequence[UUID]) -> dict[UUID, str]:
        """The labels of these conversations; one that is not there has none."""

    async def session_labels(self, scope: Scope, session_id: UUID) -> tuple[str, ...]:
        """The sensitivities that turns of a session have, each once."""

    async def memory_labels(self, scope: Scope, memory_ids: Sequence[UUID]) -> dict[UUID, Label]:
        """The highest sensitivity that any version of these memories has; one that is not visible has none."""

    async def session_turns(
        self, scope: Scope, session_id: UUID, *, limit: int, after_seq: int = -1
    ) -> Page[StoredTurn]:
        """Turns in order; the cursor is the last number as text."""

    async def memories(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None = None,
        order: Order = "desc",
        kind: str | None = None,
        session_id: UUID | None = None,
        to_review: bool = False,
        now: datetime | None = None,
        bytes_max: int | None = None,
    ) -> Page[MemoryRecord]:
        """Memories that are neither deleted nor expired, by when they were made; or those to review, by since when. Of
        all kinds and sessions, oldest first, a page may be bound to `bytes_max`. Raises MemoryInvalid for a bad cursor.
        """

    async def memory(self, scope: Scope, memory_id: UUID, *, now: datetime | None = None) -> MemoryRecord:
        """One memory that has not expired. Raises NotFound."""

    async def patch_memory(
        self,
        scope: Scope,
        memory_id: UUID,
        version: int,
        change: MemoryChange,
        now: datetime,
        *,
        note: Note,
    ) -> MemoryRecord:
        """The next version. Raises NotFound, Conflict."""

    async def delete_memory(
        self, scope: Scope, memory_id: UUID, now: datetime, *, version: int | None = None, note: Note | None = None
    ) -> None:
        """Hide it. Raises NotFound, Conflict."""

    async def undelete_memory(
        self,
        scope: Scope,
        memory_id: UUID,
        now: datetime,
        *,
        note: Note,
        may: Callable[[MemoryRecord], None],
    ) -> MemoryRecord:
        """Show it again, where `may` raises nothing. Raises NotFound."""

    async def retrieval(self, scope: Scope, retrieval_id: UUID) -> RetrievalRecord:
        """What one request was given. Raises NotFound."""

    async def sealed_exchange(self, scope: Scope, exchange_id: UUID) -> SealedExchange:
        """The sealed parts of one exchange. Raises NotFound."""

    async def export_turns(
        self, scope: Scope, *, limit: int, cursor: str | None = None, bytes_max: int | None = None
    ) -> Page[ExportedTurn]:
        """Every turn once, session by session, in order; a page says `bytes_max` bytes at most, or is one turn."""

    async def retrieval_ids(
        self, scope: Scope, *, limit: int, after: UUID, order: Order = "asc"
    ) -> Sequence[Mapping[str, Any]]:
        """The next retrievals behind an id, without words."""


class Edits(Protocol):
    """What persons have set of memories by hand. Every method acts inside one scope and may raise StoreUnavailable."""

    async def of(self, scope: Scope, records: Sequence[MemoryRecord]) -> Mapping[UUID, Edited]:
        """What was set of these memories, by id."""

    async def hidden(self, scope: Scope, *, limit: int, cursor: str | None, now: datetime) -> Page[Hidden]:
        """Memories made of turns that a person has hidden, or set an end to that is over."""

    async def counterparts(
        self,
        scope: Scope,
        kind: str,
        source_ids: Sequence[str],
        event_ids: Sequence[UUID],
        memory_ids: Sequence[UUID],
    ) -> Sequence[Counterpart]:
        """The memories of a kind that rest on these turns, by what lines call them or their ids, or have these ids."""


class Shares(Protocol):
    """Sharing as an act; each writes its audit row in its own transaction. Raises StoreUnavailable."""

    async def share(self, scope: Scope, memory_id: UUID, to: SharedTo, *, actor: str, now: datetime) -> Shared:
        """Copy a memory to what `to` shares. Raises NotFound, Unprocessable."""

    async def unshare(
        self, scope: Scope, memory_id: UUID, to: SharedTo, *, actor: str, now: datetime, admin: bool = False
    ) -> tuple[UUID, ...]:
        """Hide the copies. Raises NotFound."""


class AuditReads(Protocol):
    """The audit log."""

    async def record(self, notes: Sequence[Note]) -> None:
        """Write notes of one tenant now. Raises StoreUnavailable."""

    async def witness(self, *notes: Note) -> Callable[[Any], Awaitable[None]]:
        """What writes them in the transaction of the act itself. Raises StoreUnavailable."""

    async def page(
        self, tenant: UUID, *, limit: int, cursor: str | None = None, oldest_first: bool = False, where: AuditFilter
    ) -> Page[AuditRow]:
        """Rows of a tenant. Raises MemoryInvalid for a bad cursor, StoreUnavailable."""


class Feeds(Protocol):
    """What became of memories."""

    async def events(self, scope: Scope, *, limit: int, after: str | None = None) -> EventPage:
        """Events of one scope behind a cursor, oldest first. Raises MemoryInvalid naming `after`, StoreUnavailable."""


class ImportProgresses(Protocol):
    """How far imports are."""

    async def import_progress(self, scope: Scope, import_id: UUID, seen: int = 0) -> ImportProgress:
        """What is stored of one import, without the bad lines of its first `seen` chunks. Raises StoreUnavailable."""


class TakesChunks(Protocol):
    """Keeps lines of an import durably."""

    async def import_chunk(self, chunk: ImportChunk) -> Where:
        """Where the chunk is now; `none` is not durable. Raises StoreUnavailable while no key is at hand."""


class Letter(Protocol):
    """An entry that was given up: where it lies and why, never what it holds."""

    @property
    def dead_id(self) -> str: ...
    @property
    def exchange_id(self) -> UUID: ...
    @property
    def tenant_id(self) -> UUID: ...
    @property
    def reason(self) -> str: ...
    @property
    def attempts(self) -> int: ...


class WorksOn(Protocol):
    """What conversations are about."""

    async def of(self, scope: Scope, session_id: UUID) -> WorkingContext | None:
        """The working context of a session; None for no such session. Raises StoreUnavailable."""


class Depths(Protocol):
    """How much waits in the durable queue, and what was given up."""

    async def dead_letters(self, limit: int, tenant: UUID, behind: str | None = None) -> Sequence[Letter]:
        """The newest dead letters of a tenant, newest first; those behind the one of an id, be it gone. Raises
        QueueUnavailable.
        """

    async def dead_letter(self, dead_id: str) -> Letter | None:
        """One of them. Raises QueueUnavailable."""

    async def replay_dead(self, dead_id: str) -> bool:
        """Put one back at the end of its lane; False when there is none. Raises QueueUnavailable."""

    async def depth(self) -> QueueDepth:
        """Counts over all lanes. Raises QueueUnavailable."""


class Holds(Protocol):
    """The hand-off of this process."""

    def held(self) -> int:
        """Entries that only memory has."""


class Redacts(Protocol):
    """Cuts secrets out of a text."""

    def redact(self, text: str) -> Redacted:
        """The text without its secrets. Pure, may take long for a long text."""


class EmbedsDocuments(Protocol):
    """Texts to vectors."""

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape [len(texts), dim]. Raises EmbedderUnavailable."""


@dataclass(frozen=True, slots=True)
class OwnParts:
    """What the own API is made of. `spooled` counts the records of all spools; blocking."""

    door: Door
    readiness: Readiness
    metrics: Metrics
    recaller: Recaller
    records: Records
    edits: Edits
    feed: Feeds
    progress: ImportProgresses
    capture: TakesChunks
    tool_records: ToolRecords
    queue: Depths
    hand_off: Holds
    spooled: Callable[[], int]
    keys: KeyRing
    redactor: Redacts
    embedder: EmbedsDocuments
    windows: TextTokenizer
    working: WorksOn | None  # None: none are kept
    use: KeyUse | None  # None: nobody has limits (open mode)
    searches: SearchTurns
    sharing: Shares
    checkpoints: CheckpointParts
    personas: KeepsPersonas
    tasks: KeepsTasks
    entities: KeepsEntities
    artifacts: ArtifactParts
    preferences: ReadsPreferences
    audit: AuditReads
    journal: Audit
    canaries: Canaries
    forgets: Asking
    tells: Tells
    what_if: WhatIf
    retention: timedelta  # of sealed parts
    passages: Passages
    documents: DocumentParts
    outside: LooksOutside | None  # None: it is off
