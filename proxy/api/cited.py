"""Where something that is quoted stands in an uploaded document: a citation of the store in, what the API says out."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from memory.documents import Citation


class DocumentCited(BaseModel):
    """The place of a chunk in its document."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str = Field(description="Of the document: `GET /memory/v1/documents/{id}`.")
    name: str
    heading: list[str] = Field(description="The headings above it, outermost first.")
    page: int | None = Field(description="From 1; null where the document has no pages.")
    page_to: int | None
    start: int = Field(description="First character of the document's text, as it was extracted.")
    end: int = Field(description="Behind the last one.")


def cited(citation: Citation) -> DocumentCited:
    """A citation as the API says it."""
    return DocumentCited(
        id=str(citation.document_id),
        name=citation.name,
        heading=list(citation.heading),
        page=citation.page,
        page_to=citation.page_to,
        start=citation.start,
        end=citation.end,
    )
