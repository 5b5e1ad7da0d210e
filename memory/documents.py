"""Values of documents: what a file was read as, what of it is stored, and how far an upload is. Frozen, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from memory.model import NewMemory, Scope, SealedToken
from memory.parse.blocks import Block

COLLECTION: Final = "document"
"""The collection of chunks that the whole scope recalls."""
OF_SESSION: Final = "session-document"
"""Of those that one conversation alone recalls."""
ORIGIN: Final = "document"

Saved = Literal["memory", "session"]
Inline = Literal["auto", "always", "never"]
Status = Literal["waiting", "working", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file as its blocks, in order. `chars` are those of all blocks, `pages` 0 where the file has none."""

    media_type: str
    title: str
    blocks: tuple[Block, ...]
    chars: int
    pages: int


@dataclass(frozen=True, slots=True)
class Upload:
    """One file somebody gave: everything about it but its words. `session`: the label of the conversation it is of."""

    upload_id: UUID
    name: str
    media_type: str
    sha256: bytes
    bytes_given: int
    chars: int
    pages: int
    saved: Saved
    inline: Inline
    integrity: str
    sensitivity: str
    session: str | None
    arrived_at: datetime


@dataclass(frozen=True, slots=True)
class Taken:
    """An upload in a worker's hands, with its blocks sealed as they were staged."""

    tenant_id: UUID
    upload_id: UUID
    document_id: UUID
    scope_id: int
    session_id: UUID | None
    scope: Scope
    subject_id: UUID
    saved: Saved
    integrity: str
    sensitivity: str
    created_at: datetime
    takes: int
    sealed: bytes


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as the store takes it: its memory, and its place in the document."""

    memory: NewMemory
    start: int
    end: int
    page: int | None
    page_to: int | None


@dataclass(frozen=True, slots=True)
class Chunks:
    """All of one document, in order, with what redaction put behind tokens and the mark of its rules."""

    chunks: tuple[StoredChunk, ...]
    cleaned_by: str
    tokens: tuple[SealedToken, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """What storing a document came to: chunks by what became of them, and the version of the scope."""

    scope_version: int
    new: int
    same: int
    gone: int
    held_back: int


@dataclass(frozen=True, slots=True)
class UploadRecord:
    """How far an upload is. `chunks` is None until it was cut; `reason` says why one failed."""

    upload_id: UUID
    status: Status
    reason: str | None
    bytes_given: int
    chars: int
    pages: int
    chunks: int | None
    embedded: int
    new_chunks: int | None
    same_chunks: int | None
    gone_chunks: int | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document as the API shows it: what is stored, and its last upload. `version` 0: nothing is stored yet."""

    document_id: UUID
    name: str
    version: int
    media_type: str
    sha256: bytes
    bytes_given: int
    pages: int
    saved: Saved
    inline: Inline
    integrity: str
    sensitivity: str
    session_id: UUID | None
    chunks: int
    created_at: datetime
    changed_at: datetime
    deleted_at: datetime | None
    upload: UploadRecord


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """One chunk of a document as it is now. `hidden`: why nobody is given it, "" for nothing."""

    ordinal: int
    memory_id: UUID
    version: int
    start: int
    end: int
    page: int | None
    page_to: int | None
    content: str
    heading: tuple[str, ...]
    hidden: str


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a memory stands in its document."""

    document_id: UUID
    name: str
    page: int | None
    page_to: int | None
    start: int
    end: int
