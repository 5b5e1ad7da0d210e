"""Conversations as the API shows them, with their turns."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from proxy.api.schemas import Moment, Said
from proxy.api.working import WorkingSaid


class SessionListed(Said):
    """One conversation."""

    id: str = Field(description="The value of X-Memory-Session.")
    turns: int
    summarised_turns: int = Field(description="How many turns, from the first, the rolling summary covers.")
    created_at: Moment = Field(description="When the first of it was stored; of an imported one, when that was done.")
    last_at: Moment = Field(description="The time of its latest turn.")
    ended_at: Moment | None = Field(description="When its client said that it ended; it may have gone on since.")
    attributes: dict[str, Any]


class SessionEnded(Said):
    """A conversation that is over by the word of who may not read it."""

    id: str = Field(description="As the path has it.")
    ended_at: Moment


class SessionList(Said):
    """A page of conversations."""

    data: list[SessionListed]
    next_cursor: str | None


class TurnSaid(Said):
    """One turn. Its order in the conversation is `seq`, never the time."""

    event_id: str
    seq: int
    attempt: int
    role: str
    name: str | None = Field(
        description="Who spoke; of a tool's output the tool, also where the message names only the call."
    )
    content: str
    tool_calls: list[Any] | None
    tool_call_id: str | None
    parts: list[dict[str, Any]] | None = Field(
        description="What stands beside the text: attachments and binary data by SHA-256 or address, a refusal."
    )
    source_id: str | None
    origin: str
    integrity: str
    sensitivity: str
    model: str | None
    redactions: int = Field(description="Secrets cut out of the text.")
    token_count: int | None
    occurred_at: Moment
    recorded_at: Moment


class SessionSaid(Said):
    """One conversation with its turns, in order, its rolling summary and its working context."""

    id: str
    turn_count: int
    summarised_turns: int
    summary: str | None
    summary_memory_id: str | None
    working: WorkingSaid | None = Field(
        description="What it is about now; null behind the first page, and where session.working_tokens is 0."
    )
    created_at: Moment = Field(description="When the first of it was stored; of an imported one, when that was done.")
    last_at: Moment = Field(description="The time of its latest turn.")
    ended_at: Moment | None
    attributes: dict[str, Any]
    turns: list[TurnSaid]
    next_cursor: str | None = Field(description="Leads to the turns behind the last one here.")
