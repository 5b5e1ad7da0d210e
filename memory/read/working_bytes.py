"""A working context as bytes and back: what a cache holds, sealed. Lists in a fixed order, JSON in UTF-8.

`unpacked` refuses, with ValueError, what another version or another budget has written: it is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from policies.working import Call, Open, Output, Plan, Planned, Quote, Recent, Waiting, WorkingContext
from policies.working_words import Piece

FORMAT: Final = 1


def packed(context: WorkingContext, budget_tokens: int) -> bytes:
    """The context as bytes; one for another budget is another."""
    at = context.expires_at
    said = [
        FORMAT,
        budget_tokens,
        context.upto_seq,
        context.begun,
        at.isoformat() if at else None,
        [_recent(one) for one in context.recent],
        _quote(context.objective),
        _quote(context.opened),
        context.plan and [context.plan.role, [_planned(one) for one in context.plan.steps]],
        [[one.kind, one.asked_by, _quote(one.quote), one.missed] for one in context.open],
        [_output(one) for one in context.tools],
        [[one.event_id.hex, one.seq, _call(one.call)] for one in context.waiting],
    ]
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def unpacked(raw: bytes, budget_tokens: int) -> WorkingContext:
    """The context of these bytes. Raises ValueError."""
    try:
        said = json.loads(raw.decode("utf-8", "surrogatepass"))
        if said[:2] != [FORMAT, budget_tokens]:
            raise ValueError("written by another version, or for another budget")
        _, _, upto, begun, at, recent, objective, opened, plan, still, tools, waiting = said
        return WorkingContext(
            upto_seq=upto,
            begun=begun,
            expires_at=datetime.fromisoformat(at) if at else None,
            recent=tuple(_recent_of(one) for one in recent),
            objective=_quote_of(objective) if objective else None,
            opened=_quote_of(opened) if opened else None,
            plan=Plan(plan[0], tuple(_planned_of(one) for one in plan[1])) if plan else None,
            open=tuple(Open(kind, asker, _quote_of(quote), missed) for kind, asker, quote, missed in still),
            tools=tuple(_output_of(one) for one in tools),
            waiting=tuple(Waiting(UUID(hex=event_id), seq, Call(*call)) for event_id, seq, call in waiting),
        )
    except (TypeError, KeyError, IndexError, AttributeError) as exc:
        raise ValueError("no working context") from exc


def _quote(quote: Quote | None) -> list[Any] | None:
    return None if quote is None else [quote.event_id.hex, quote.seq, quote.start, quote.end, quote.text]


def _quote_of(said: Sequence[Any]) -> Quote:
    event_id, seq, start, end, text = said
    return Quote(UUID(hex=event_id), seq, start, end, text)


def _pieces(pieces: Sequence[Piece]) -> list[Any]:
    return [[piece.start, piece.end, piece.text] for piece in pieces]


def _pieces_of(said: Sequence[Any]) -> tuple[Piece, ...]:
    return tuple(Piece(start, end, text) for start, end, text in said)


def _recent(one: Recent) -> list[Any]:
    chains = (one.chain.hex(), one.parent.hex() if one.parent is not None else None)
    return [one.event_id.hex, one.seq, one.role, one.name, _pieces(one.pieces), one.chars, one.tokens, *chains]


def _recent_of(said: Sequence[Any]) -> Recent:
    event_id, seq, role, name, pieces, chars, tokens, chain, parent = said
    before = bytes.fromhex(parent) if parent is not None else None
    return Recent(UUID(hex=event_id), seq, role, name, _pieces_of(pieces), chars, tokens, bytes.fromhex(chain), before)


def _planned(step: Planned) -> list[Any]:
    return [_quote(step.quote), step.number, step.done_by.hex if step.done_by else None]


def _planned_of(said: Sequence[Any]) -> Planned:
    quote, number, done_by = said
    return Planned(_quote_of(quote), number, UUID(hex=done_by) if done_by else None)


def _call(call: Call | None) -> list[str] | None:
    return None if call is None else [call.call_id, call.name, call.arguments]


def _output(one: Output) -> list[Any]:
    asked = one.call_event_id.hex if one.call_event_id else None
    return [one.event_id.hex, one.seq, one.tool, _pieces(one.pieces), one.chars, _call(one.call), asked]


def _output_of(said: Sequence[Any]) -> Output:
    event_id, seq, tool, pieces, chars, call, asked = said
    made_of = (Call(*call) if call else None, UUID(hex=asked) if asked else None)
    return Output(UUID(hex=event_id), seq, tool, _pieces_of(pieces), chars, *made_of)
