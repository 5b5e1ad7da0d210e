"""Values of documents: what a file was read as, what of it is stored, and how far an upload is. Frozen, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from memory.model import NewMemory, Scope, SealedToken, SessionRef
from memory.parse.blocks import Block
from policies.inlining import Inline

COLLECTION: Final = "document"
"""The collection of chunks that the whole scope recalls."""
OF_SESSION: Final = "session-document"
"""Of those that one conversation alone recalls."""
ORIGIN: Final = "document"
ROLE: Final = "document"

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
class FileFacts:
    """What is known of a file beside its words."""

    media_type: str
    sha256: bytes
    bytes_given: int
    chars: int
    pages: int
    integrity: str
    sensitivity: str


@dataclass(frozen=True, slots=True)
class Upload:
    """One file somebody gave, to be staged. `only_for`: the conversation that alone is to have it; `shown_in`: the one
    it was given in. `sealed`: its blocks, under the subject's key; `is_given`:
    the conversation is to have it whole.
    """

    upload_id: UUID
    subject_id: UUID
    name: str
    facts: FileFacts
    inline: Inline
    only_for: SessionRef | None
    shown_in: SessionRef | None
    sealed: bytes
    is_given: bool = False


@dataclass(frozen=True, slots=True)
class DocumentDue:
    """An upload that waits, taken by this worker. `takes`: how often it was taken and not given back, now included."""

    tenant: UUID
    upload_id: UUID
    scope_id: int
    takes: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What is known of an upload to store. `session_id`: of the conversation that alone is to have it, `session`: what
    that is called; `labels`: integrity and sensitivity of what is stored of its document, None where nobody looked.
    """

    document_id: UUID
    name: str
    scope: Scope
    session_id: UUID | None
    subject_id: UUID
    facts: FileFacts
    sealed: bytes
    created_at: datetime
    labels: tuple[str, str] | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as the store takes it: its memory, without vectors where it is known already, and its place. `was`: what
    these words of the document were under the labels that it has had until now, where those are others.
    """

    memory: NewMemory
    start: int
    end: int
    page: int | None
    page_to: int | None
    was: UUID | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """All chunks of one document, in order, with what redaction put behind tokens and the mark of its rules."""

    chunks: tuple[StoredChunk, ...]
    cleaned_by: str = ""
    tokens: tuple[SealedToken, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """What storing a document came to: the scope's version, and chunks by what became of them."""

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
    media_type: str
    bytes_given: int
    chunks: int | None
    embedded: int
    new_chunks: int | None
    same_chunks: int | None
    gone_chunks: int | None
    held_back: int | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document as the API shows it: what is stored of it, and its last upload. `version` 0: nothing is stored yet."""

    document_id: UUID
    name: str
    version: int
    facts: FileFacts
    inline: Inline
    session_id: UUID | None
    shown_in: UUID | None
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
    sensitivity: str
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
    heading: tuple[str, ...] = ()
