"""The working context as the API shows it: policy values in, the `working` member of a session out.

Every text says where it stands: the turn it is of, and its characters in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from policies.working import Asker, Open, OpenKind, Output, Planned, Quote, Recent, WorkingContext
from policies.working_words import Piece


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class PieceSaid(_Said):
    """Characters of a turn, in its own words."""

    start: int
    end: int = Field(description="Behind the last character.")
    text: str


class QuoteSaid(PieceSaid):
    """Characters of one turn."""

    event_id: str


class RecentTurnSaid(_Said):
    """A recent turn: whole in one piece, or cut to its first and its last characters."""

    event_id: str
    seq: int
    role: str
    name: str | None
    chars: int = Field(description="Of the whole turn.")
    tokens: int = Field(description="Of what is kept of it.")
    pieces: list[PieceSaid]


class StepSaid(QuoteSaid):
    """A step of a plan."""

    number: int
    done: bool
    done_event_id: str | None = Field(description="The turn that reports it done.")


class PlanSaid(_Said):
    """Steps that somebody laid out, in order."""

    role: Asker
    steps: list[StepSaid]


class OpenSaid(QuoteSaid):
    """A question without its answer, or an order about something that this conversation has not named."""

    kind: OpenKind
    asked_by: Asker


class CallSaid(_Said):
    """A tool's call, its arguments cut."""

    event_id: str
    id: str
    name: str
    arguments: str


class OutputSaid(_Said):
    """What a tool gave, whole or its two ends, and the call it answers."""

    event_id: str
    seq: int
    tool: str | None
    chars: int
    pieces: list[PieceSaid]
    call: CallSaid | None


class WorkingSaid(_Said):
    """What a conversation is about after its first `turns` turns. What is not known for sure is null or empty."""

    turns: int
    objective: QuoteSaid | None = Field(
        description="What the user set out to do: the first request, or a later change."
    )
    plan: PlanSaid | None
    open: list[OpenSaid]
    recent: list[RecentTurnSaid] = Field(description="The latest turns within session.working_tokens, in order.")
    tools: list[OutputSaid] = Field(description="The latest outputs of tools, in order.")


def working_said(context: WorkingContext | None) -> WorkingSaid | None:
    """A working context as the API shows it."""
    if context is None:
        return None
    plan = context.plan
    return WorkingSaid(
        turns=context.upto_seq,
        objective=None if context.objective is None else QuoteSaid(**_quote(context.objective)),
        plan=None if plan is None else PlanSaid(role=plan.role, steps=[_step(one) for one in plan.steps]),
        open=[_open(one) for one in context.open],
        recent=[_recent(one) for one in context.recent],
        tools=[_output(one) for one in context.tools],
    )


def _quote(quote: Quote) -> dict[str, Any]:
    return {"event_id": str(quote.event_id), "start": quote.start, "end": quote.end, "text": quote.text}


def _step(step: Planned) -> StepSaid:
    by = str(step.done_by) if step.done_by else None
    return StepSaid(**_quote(step.quote), number=step.number, done=by is not None, done_event_id=by)


def _open(one: Open) -> OpenSaid:
    return OpenSaid(**_quote(one.quote), kind=one.kind, asked_by=one.asked_by)


def _pieces(pieces: Sequence[Piece]) -> list[PieceSaid]:
    return [PieceSaid(start=one.start, end=one.end, text=one.text) for one in pieces]


def _recent(turn: Recent) -> RecentTurnSaid:
    return RecentTurnSaid(
        event_id=str(turn.event_id),
        seq=turn.seq,
        role=turn.role,
        name=turn.name,
        chars=turn.chars,
        tokens=turn.tokens,
        pieces=_pieces(turn.pieces),
    )


def _output(one: Output) -> OutputSaid:
    call = None
    if one.call is not None and one.call_event_id is not None:
        made = one.call
        call = CallSaid(event_id=str(one.call_event_id), id=made.call_id, name=made.name, arguments=made.arguments)
    return OutputSaid(
        event_id=str(one.event_id), seq=one.seq, tool=one.tool, chars=one.chars, pieces=_pieces(one.pieces), call=call
    )
