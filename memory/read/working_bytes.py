"""A working context as bytes and back: what a cache holds, sealed. Ids and digests raw, each once; the rest is lists in
a fixed order, JSON in UTF-8, deflated, that name an id by its place.

`unpacked` refuses, with ValueError, what another version or another budget has written: it is made anew.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from policies.working import Before, Call, Open, Output, Plan, Planned, Quote, Recent, Waiting, WorkingContext
from policies.working_words import Piece

FORMAT: Final = 3
_HEAD: Final = struct.Struct(">BH")  # format, bytes of the ids
_LEVEL: Final = 1

Put = Callable[[bytes], int]
Get = Sequence[bytes]


def packed(context: WorkingContext, budget_tokens: int) -> bytes:
    """The context as bytes; one for another budget is another."""
    at, places = context.expires_at, dict[bytes, int]()

    def put(raw: bytes) -> int:
        return places.setdefault(raw, len(places))

    said = [
        budget_tokens,
        context.upto_seq,
        context.begun,
        at.isoformat() if at else None,
        [_recent(one, put) for one in context.recent],
        _quote(context.objective, put),
        _quote(context.opened, put),
        _plan(context.plan, put),
        _open(context.open, put),
        [_output(one, put) for one in context.tools],
        [[put(one.event_id.bytes), one.seq, _call(one.call)] for one in context.waiting],
        [_before(one, put) for one in context.before],
    ]
    ids = b"".join(bytes([len(raw)]) + raw for raw in places)
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return _HEAD.pack(FORMAT, len(ids)) + ids + zlib.compress(text, _LEVEL)


def unpacked(raw: bytes, budget_tokens: int) -> WorkingContext:
    """The context of these bytes. Raises ValueError."""
    try:
        ids, said = _opened(raw)
        if said[0] != budget_tokens:
            raise ValueError("written for another budget")
        _, upto, begun, at, recent, objective, opened, plan, still, tools, waiting, before = said
        return WorkingContext(
            upto_seq=upto,
            begun=begun,
            expires_at=datetime.fromisoformat(at) if at else None,
            recent=tuple(_recent_of(one, ids) for one in recent),
            objective=_quote_of(objective, ids) if objective else None,
            opened=_quote_of(opened, ids) if opened else None,
            plan=_plan_of(plan, ids),
            open=_open_of(still, ids),
            tools=tuple(_output_of(one, ids) for one in tools),
            waiting=tuple(Waiting(UUID(bytes=ids[place]), seq, Call(*call)) for place, seq, call in waiting),
            before=tuple(_before_of(one, ids) for one in before),
        )
    except (TypeError, KeyError, IndexError, AttributeError, struct.error, zlib.error) as exc:
        raise ValueError("no working context") from exc


def _opened(raw: bytes) -> tuple[list[bytes], Any]:
    """The ids in their places, and what was said. Raises ValueError, IndexError, struct.error, zlib.error."""
    version, ids_bytes = _HEAD.unpack_from(raw)
    if version != FORMAT:
        raise ValueError("written by another version")
    at, end, ids = _HEAD.size, _HEAD.size + ids_bytes, list[bytes]()
    while at < end:
        ids.append(raw[at + 1 : at + 1 + raw[at]])
        at += 1 + raw[at]
    return ids, json.loads(zlib.decompress(raw[end:]).decode("utf-8", "surrogatepass"))


def _quote(quote: Quote | None, put: Put) -> list[Any] | None:
    return None if quote is None else [put(quote.event_id.bytes), quote.seq, quote.start, quote.end, quote.text]


def _quote_of(said: Sequence[Any], ids: Get) -> Quote:
    place, seq, start, end, text = said
    return Quote(UUID(bytes=ids[place]), seq, start, end, text)


def _pieces(pieces: Sequence[Piece]) -> list[Any]:
    return [[piece.start, piece.end, piece.text] for piece in pieces]


def _pieces_of(said: Sequence[Any]) -> tuple[Piece, ...]:
    return tuple(Piece(start, end, text) for start, end, text in said)


def _recent(one: Recent, put: Put) -> list[Any]:
    chains = (put(one.chain), put(one.parent) if one.parent is not None else None)
    return [put(one.event_id.bytes), one.seq, one.role, one.name, _pieces(one.pieces), one.chars, one.tokens, *chains]


def _recent_of(said: Sequence[Any], ids: Get) -> Recent:
    place, seq, role, name, pieces, chars, tokens, chain, parent = said
    before = ids[parent] if parent is not None else None
    return Recent(UUID(bytes=ids[place]), seq, role, name, _pieces_of(pieces), chars, tokens, ids[chain], before)


def _planned(step: Planned, put: Put) -> list[Any]:
    return [_quote(step.quote, put), step.number, put(step.done_by.bytes) if step.done_by else None]


def _planned_of(said: Sequence[Any], ids: Get) -> Planned:
    quote, number, done_by = said
    return Planned(_quote_of(quote, ids), number, UUID(bytes=ids[done_by]) if done_by is not None else None)


def _plan(plan: Plan | None, put: Put) -> list[Any] | None:
    return None if plan is None else [plan.role, [_planned(one, put) for one in plan.steps]]


def _plan_of(said: Sequence[Any] | None, ids: Get) -> Plan | None:
    return Plan(said[0], tuple(_planned_of(one, ids) for one in said[1])) if said else None


def _open(still: Sequence[Open], put: Put) -> list[Any]:
    return [[one.kind, one.asked_by, _quote(one.quote, put), one.missed] for one in still]


def _open_of(said: Sequence[Any], ids: Get) -> tuple[Open, ...]:
    return tuple(Open(kind, asker, _quote_of(quote, ids), missed) for kind, asker, quote, missed in said)


def _before(one: Before, put: Put) -> list[Any]:
    about = _quote(one.objective, put), _quote(one.opened, put), _plan(one.plan, put), _open(one.open, put)
    return [one.seq, *about]


def _before_of(said: Sequence[Any], ids: Get) -> Before:
    seq, objective, opened, plan, still = said
    quotes = (_quote_of(objective, ids) if objective else None, _quote_of(opened, ids) if opened else None)
    return Before(seq, *quotes, _plan_of(plan, ids), _open_of(still, ids))


def _call(call: Call | None) -> list[str] | None:
    return None if call is None else [call.call_id, call.name, call.arguments]


def _output(one: Output, put: Put) -> list[Any]:
    asked = put(one.call_event_id.bytes) if one.call_event_id else None
    return [put(one.event_id.bytes), one.seq, one.tool, _pieces(one.pieces), one.chars, _call(one.call), asked]


def _output_of(said: Sequence[Any], ids: Get) -> Output:
    place, seq, tool, pieces, chars, call, asked = said
    made_of = (Call(*call) if call else None, UUID(bytes=ids[asked]) if asked is not None else None)
    return Output(UUID(bytes=ids[place]), seq, tool, _pieces_of(pieces), chars, *made_of)
