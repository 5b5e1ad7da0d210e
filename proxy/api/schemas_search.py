"""The bodies of a search, in and out."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from memory.model import Kind
from policies.cascade import Visibility
from proxy.api.cited import DocumentCited
from proxy.api.schemas import Asked, Moment, Said, SensitivityName

QUERY_CHARS_MAX = 100_000


def _scalar(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise ValueError("must be a string, a number, true, false or null")
    return value


Scalar = Annotated[
    Any,
    AfterValidator(_scalar),
    WithJsonSchema({"type": ["string", "number", "boolean", "null"]}),
]


class SearchFilters(Asked):
    """Narrows what is ranked; it applies before ranking."""

    roles: list[str] | None = Field(default=None, max_length=16, description="Only memories of these roles.")
    sensitivity_max: SensitivityName | None = Field(default=None, description="Nothing above this label.")
    attributes: dict[str, Scalar] | None = Field(
        default=None, min_length=1, max_length=16, description="Only memories that have all these attributes, equal."
    )


class SearchAsked(Asked):
    """One question to the memory of the caller's scope."""

    query: str = Field(min_length=1, max_length=QUERY_CHARS_MAX, description="The question, in words.")
    k: int = Field(default=10, ge=1, le=200, description="Candidates wanted.")
    kinds: list[Kind] | None = Field(
        default=None, min_length=1, description="Kinds to search; without it episodic, semantic, procedural, document."
    )
    session: str | None = Field(default=None, min_length=1, max_length=256, description="Only this conversation.")
    occurred_after: Moment | None = Field(default=None, description="Only what happened then or later.")
    occurred_before: Moment | None = Field(default=None, description="Only what happened then or earlier.")
    as_of: Moment | None = Field(default=None, description="Search as the store stood then; the future means now.")
    filters: SearchFilters | None = None
    explain: bool = Field(default=False, description="Add `explain` to each candidate.")


class ScopeSaid(Said):
    """Whose memory it is. What a project or the tenant shares has no user and no agent."""

    user: str
    project: str
    agent: str
    visibility: Visibility = "own"


class Explained(Said):
    """Why a candidate stands where it does: the characters of `content` that answer best, and the verdict in words."""

    why: str
    later: str | None = Field(description="The memory that says it otherwise, and was said later.")
    shown: tuple[int, int]
    version: int
    seq: int


class CandidateSaid(Said):
    """One memory, as recall ranks it."""

    id: str
    kind: str
    content: str
    score: float = Field(description="Higher is better; comparable inside one answer only.")
    scores: dict[str, float] = Field(description="The parts of the score, by name.")
    occurred_at: Moment | None
    scope: ScopeSaid
    integrity: str
    role: str
    session: str | None = Field(description="The conversation, as X-Memory-Session names it.")
    source_ids: list[str] = Field(description="Ids of the turns whose text is shown, primary first.")
    event_ids: list[str]
    admitted: bool = Field(description="Whether a chat completion would be given it.")
    document: DocumentCited | None = Field(description="Where it stands in an uploaded document; null for the rest.")
    explain: Explained | None = Field(default=None, description="Only where it was asked for.")


class SearchSaid(Said):
    """Candidates, best first."""

    candidates: list[CandidateSaid]
    admitted: int
    millis: float
    rung: str = Field(description="How far down recall had to go: full, no-rerank, lexical, none.")
    reason: str | None = Field(description="Why it was not `full`.")
