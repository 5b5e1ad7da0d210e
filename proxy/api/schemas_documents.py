"""The bodies of documents, in and out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from memory.documents import Status
from policies.inlining import Inline, Way
from proxy.api.schemas import Asked, Moment, Said, SensitivityName

Binary = Annotated[bytes, WithJsonSchema({"type": "string", "contentMediaType": "application/octet-stream"})]


class DocumentAsked(Asked):
    """The parts of an upload, `multipart/form-data`."""

    file: Binary = Field(description="The file: text, Markdown, CSV, JSON, PDF, HTML or DOCX, known by what it holds.")
    name: str | None = Field(
        default=None, max_length=255, description="What it is called; without it the file's name. A second upload of "
        "the same name is the document's next version.",
    )  # fmt: skip
    session: str | None = Field(
        default=None, min_length=1, max_length=256, description="The conversation it is given in; X-Memory-Session too."
    )
    save: Literal["memory", "session"] = Field(
        default="memory", description="memory: the whole scope recalls it. session: that conversation alone."
    )
    inline: Inline = Field(
        default="auto", description="Whether that conversation is given it whole: auto goes by its size."
    )
    sensitivity: SensitivityName = Field(default="internal", description="The label of all that is made of it.")


class UploadSaid(Said):
    """The last file that was given for a document, and how far it is."""

    id: str
    status: Status
    reason: str | None = Field(description="Why it failed.")
    media_type: str
    bytes: int
    chunks: int | None = Field(description="Pieces it was cut into; null until it was.")
    embedded: int = Field(description="Of these, how many are ready.")
    new: int | None = Field(description="Once it is stored: chunks that the document did not have.")
    same: int | None = Field(description="Those that it had, with their ids and vectors.")
    gone: int | None = Field(description="Those that it has no more.")
    held_back: int | None = Field(description="New ones that address the model: they wait for a review.")
    created_at: Moment
    finished_at: Moment | None


class DocumentSaid(Said):
    """A document: what is stored of it, and its last upload."""

    id: str
    name: str
    version: int = Field(description="How often what is stored of it changed; 0 while nothing is.")
    media_type: str
    sha256: str
    bytes: int
    chars: int
    pages: int = Field(description="0 where the document has none.")
    chunks: int
    save: Literal["memory", "session"]
    session: str | None = Field(description="The conversation that it was given in.")
    inline: Inline
    given: Way = Field(description="What `inline` comes to by its size: whole, by what is found of it, or both.")
    integrity: str
    sensitivity: str
    created_at: Moment
    changed_at: Moment
    upload: UploadSaid


class UploadTaken(Said):
    """How far a file is that somebody gave who may not read."""

    id: str
    status: Status
    reason: str | None = Field(description="Why it failed.")


class DocumentTaken(Said):
    """A document that somebody gave a file for who may not read it."""

    id: str
    name: str
    upload: UploadTaken


class DocumentList(Said):
    """A page of documents."""

    data: list[DocumentSaid]
    next_cursor: str | None


class ChunkSaid(Said):
    """One chunk: a memory of kind document, and where it stands."""

    ordinal: int
    memory_id: str
    version: int
    heading: list[str]
    page: int | None
    page_to: int | None
    start: int = Field(description="First character of the document's text, as it was extracted.")
    end: int = Field(description="Behind the last one.")
    content: str
    hidden: str = Field(
        description="Why nobody is given it: hidden, quarantined, rejected or expired; empty: they are."
    )


class DocumentShown(DocumentSaid):
    """A document with a page of its chunks, in order."""

    data: list[ChunkSaid]
    next_cursor: str | None
    withheld: int = Field(description="Chunks of this page that the caller may not see.")


class DocumentGone(Said):
    """A document is hidden by who may not read it."""

    id: str
    deleted_at: Moment
    undo_until: Moment


class DocumentDeleted(Said):
    """A document is hidden, with its chunks."""

    id: str
    name: str
    chunks: int
    deleted_at: Moment
    undo_until: Moment
