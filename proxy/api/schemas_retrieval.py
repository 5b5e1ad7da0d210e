"""Retrievals as the API shows them: what one request was given."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from proxy.api.schemas import Moment, Said


class PlacedSaid(Said):
    """One block in the prompt: at which message, which text, made of which memories."""

    position: int = Field(description="Index of the message in the request.")
    text: str | None = Field(description="The exact block; null where its sealed part is gone.")
    sha256: str | None
    tokens: int
    memory_ids: list[str] = Field(description="In the order of the block.")
    since: str | None = Field(description="The retrieval that placed it first; null: this one.")


class RetrievalSaid(Said):
    """What one request was given."""

    id: str
    status: str
    reason: str | None
    rung: str | None
    session: str | None
    exchange_id: str
    query: str | None = Field(description="The question; empty where `X-Memory-Mode: read` kept none.")
    block: str | None = Field(description="The exact text of the newly placed block.")
    position: int | None = Field(description="Index of the message that carries it.")
    placed: list[PlacedSaid]
    candidates: list[dict[str, Any]] = Field(
        description="id, version, kind, sensitivity, score, scores, admitted, why, later, injected, why_not, "
        "source_ids, event_ids."
    )
    source_ids: list[str] = Field(description="Turns behind the injected memories, best first.")
    texts: Literal["available", "expired", "unreadable"] = Field(
        description="Whether query and blocks could be unsealed: they have their own retention."
    )
    tokens: int
    tokens_exact: bool
    millis: float
    config_digest: str
    embedding_model: str
    served_model: str | None
    sha256_sent: str
    created_at: Moment


class RetrievalListed(Said):
    """That a request was given something, without its words."""

    id: str
    session: str | None
    exchange_id: str
    status: str
    tokens: int = Field(description="Memory tokens in its prompt.")
    created_at: Moment


class RetrievalList(Said):
    """Retrievals, a page at a time."""

    data: list[RetrievalListed]
    next_cursor: str | None
