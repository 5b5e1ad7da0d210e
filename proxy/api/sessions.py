"""`/memory/v1/sessions`: a page asked for in, conversations with their turns and rolling summaries out.

The public id of a session is its label, the value of X-Memory-Session. Raises NotFound, MemoryInvalid,
StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.errors import NotFound
from memory.model import Scope
from memory.stored import SessionRecord, StoredTurn
from policies.gate import Holder, Item
from policies.labels import Sensitivity
from policies.working import WorkingContext
from proxy.api.answers import said
from proxy.api.asking import SESSION_CHARS_MAX, Caller, caller_of, holder_for, parameters
from proxy.api.paging import PARAMETERS, TURNS_DEFAULT, bad_cursor, page_of
from proxy.api.parts import OwnParts, Records
from proxy.api.schemas_session import SessionEnded, SessionList, SessionListed, SessionSaid, TurnSaid
from proxy.api.working import working_said
from proxy.gated import readable, require_readable, require_writable

_PAGE_OF_ONE: Final = frozenset({"limit", "cursor"})


class Labels:
    """What clients call sessions, by session id. Asked of the store each time: a forgotten session has no name left."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def of(self, scope: Scope, session_ids: Iterable[UUID | None]) -> dict[UUID, str]:
        """The labels of these sessions; one that is gone has none. Raises StoreUnavailable."""
        wanted = sorted({session_id for session_id in session_ids if session_id is not None})
        return dict(await self._records.labels(scope, wanted)) if wanted else {}


class Sessions:
    """`GET /memory/v1/sessions` and `/memory/v1/sessions/{id}`, and `POST …/end`."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def list(self, request: web.Request) -> web.Response:
        """Conversations by when they were first stored, newest first."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        page = page_of(parameters(request, PARAMETERS), "sessions")
        found = await self._parts.records.sessions(caller.scope, limit=page.limit, cursor=page.cursor, order=page.order)
        holder = await holder_for(caller, self._parts.keys)
        rows = [_listed(record) for record in readable(holder, found.rows, partial(_item, caller.scope))]
        return said(SessionList(data=rows, next_cursor=page.next_cursor(found.next_cursor)))

    async def show(self, request: web.Request) -> web.Response:
        """One conversation: its turns in order, a page at a time, its summary and its working context."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        label = _label_in(request, caller)
        given = parameters(request, _PAGE_OF_ONE)
        records = self._parts.records
        session = await records.session(caller.scope, label)
        page = page_of(given, f"turns of {session.session_id}", default="asc", limit=TURNS_DEFAULT)
        after = _seq(page.cursor)
        holder = await holder_for(caller, self._parts.keys)
        require_readable(holder, _item(caller.scope, session), "session")
        turns = await records.session_turns(caller.scope, session.session_id, limit=page.limit, after_seq=after)
        shown = readable(holder, turns.rows, partial(_turn_item, caller.scope, session))
        working = self._parts.working if page.cursor is None else None  # once, not with every page
        context = await self._context(caller.scope, holder, session.session_id) if working else None
        return said(
            SessionSaid(
                id=session.label,
                turn_count=session.turns,
                summarised_turns=session.summarised_turns,
                summary=await self._summary(caller.scope, holder, session.summary_memory_id),
                summary_memory_id=_text(session.summary_memory_id),
                working=working_said(context),
                created_at=session.created_at,
                last_at=session.last_at,
                ended_at=session.ended_at,
                attributes=session.attributes,
                turns=[turn_said(turn) for turn in shown],
                next_cursor=page.next_cursor(turns.next_cursor),
            )
        )

    async def end(self, request: web.Request) -> web.Response:
        """Its client says that a conversation has ended."""
        caller = caller_of(request, self._parts.door, "memory:write")
        parameters(request, ())
        label = _label_in(request, caller)
        holder = await holder_for(caller, self._parts.keys)
        if holder.capabilities is not None:
            known = await self._parts.records.session(caller.scope, label)
            require_writable(holder, _item(caller.scope, known), "session")
        ended = await self._parts.records.end_session(caller.scope, label, caller.now)
        if readable(holder, [ended], partial(_item, caller.scope)):
            return said(_listed(ended))
        return said(SessionEnded(id=label, ended_at=ended.ended_at or caller.now))

    async def _summary(self, scope: Scope, holder: Holder, memory_id: UUID | None) -> str | None:
        if memory_id is None:
            return None
        try:
            known = await self._parts.records.memory(scope, memory_id)
        except NotFound:  # deleted by its owner: the next summary is a new version of it, still hidden
            return None
        item = Item(scope.tenant, Sensitivity(known.sensitivity), session_id=known.session_id)
        return known.content if readable(holder, [item], lambda one: one) else None

    async def _context(self, scope: Scope, holder: Holder, session_id: UUID) -> WorkingContext | None:
        """What the conversation is about, where all of its turns may be seen: it quotes any of them."""
        if self._parts.working is None:
            return None
        labels = () if holder.capabilities is None else await self._parts.records.session_labels(scope, session_id)
        items = [Item(scope.tenant, Sensitivity(label), session_id=session_id) for label in labels]
        if len(readable(holder, items, lambda one: one)) < len(items):
            return None
        return await self._parts.working.of(scope, session_id)


def _label_in(request: web.Request, caller: Caller) -> str:
    """The `{id}` of the path, as it is kept. Raises NotFound for what is too long to be one."""
    label = request.match_info["id"]
    if len(label) > SESSION_CHARS_MAX:
        raise NotFound("there is no such session in this scope")
    return caller.kept(label)


def _item(scope: Scope, record: SessionRecord) -> Item:
    """A session by itself: its label and its times. Its turns have labels of their own."""
    return Item(scope.tenant, Sensitivity.PUBLIC, session_id=record.session_id)


def _turn_item(scope: Scope, session: SessionRecord, turn: StoredTurn) -> Item:
    return Item(scope.tenant, Sensitivity(turn.sensitivity), session_id=session.session_id)


def turn_said(turn: StoredTurn) -> TurnSaid:
    """A turn as the API shows it."""
    return TurnSaid(
        event_id=str(turn.event_id),
        seq=turn.seq,
        attempt=turn.attempt,
        role=turn.role,
        name=turn.name,
        content=turn.content,
        tool_calls=turn.tool_calls,
        tool_call_id=turn.tool_call_id,
        parts=turn.parts,
        source_id=turn.source_id,
        origin=turn.origin,
        integrity=turn.integrity,
        sensitivity=turn.sensitivity,
        model=turn.model,
        redactions=turn.redactions,
        token_count=turn.token_count,
        occurred_at=turn.occurred_at,
        recorded_at=turn.recorded_at,
    )


def _listed(record: SessionRecord) -> SessionListed:
    return SessionListed(
        id=record.label,
        turns=record.turns,
        summarised_turns=record.summarised_turns,
        created_at=record.created_at,
        last_at=record.last_at,
        ended_at=record.ended_at,
        attributes=record.attributes,
    )


def _seq(cursor: str | None) -> int:
    """The number of the last turn already shown, -1 for none. Raises MemoryInvalid."""
    if cursor is None:
        return -1
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise bad_cursor()
    return int(cursor)


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)
