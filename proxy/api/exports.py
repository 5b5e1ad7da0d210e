"""`GET /memory/v1/export`: nothing in, every turn and every memory of the scope out, as NDJSON.

Each turn once, session by session in order, with what `import` takes and its `event_id`; then the memories, which are
made from turns and carry no `role`. Read by pages, so nothing is held open while a slow client reads. A fault on the
way cuts the connection before the last chunk: a client cannot take half an export for a whole one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from aiohttp import web

from memory.audit import noted
from memory.errors import MemoryProxyFault
from memory.model import Scope
from memory.stored import ExportedTurn, MemoryRecord
from policies.gate import Holder, Item
from policies.labels import Sensitivity
from proxy.api.answers import dumped
from proxy.api.asking import caller_of, holder_for, parameters, to_rfc3339
from proxy.api.memories import item_of
from proxy.api.parts import OwnParts
from proxy.gated import readable

NDJSON: Final = "application/x-ndjson"
_PAGE_ROWS: Final = 500


class Export:
    """The handler of exports."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Stream the scope. Raises StoreUnavailable before the first byte."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        parameters(request, ())
        names = {"user": caller.scope.user, "project": caller.scope.project, "agent": caller.scope.agent}
        await self._parts.audit.record([noted(caller.scope.tenant, caller.actor, "export", names=names)])
        pages = self._pages(caller.scope, await holder_for(caller, self._parts.keys))
        first = await anext(pages, b"")
        response = web.StreamResponse(headers={"Content-Type": NDJSON})
        await response.prepare(request)
        try:
            self._parts.canaries.look(caller.scope.tenant, "api", first)
            await response.write(first)
            async for page in pages:
                self._parts.canaries.look(caller.scope.tenant, "api", page)
                await response.write(page)
        except MemoryProxyFault:
            if request.transport is not None:
                request.transport.abort()
            return response
        await response.write_eof()
        return response

    async def _pages(self, scope: Scope, holder: Holder) -> AsyncIterator[bytes]:
        records, cursor = self._parts.records, None
        while True:
            turns = await records.export_turns(scope, limit=_PAGE_ROWS, cursor=cursor)
            yield _lines([turn_line(turn) for turn in readable(holder, turns.rows, partial(_turn_item, scope))])
            if (cursor := turns.next_cursor) is None:
                break
        while True:
            memories = await records.memories(scope, limit=_PAGE_ROWS, cursor=cursor, order="asc")
            yield _lines([memory_line(memory) for memory in readable(holder, memories.rows, partial(item_of, scope))])
            if (cursor := memories.next_cursor) is None:
                break


def _turn_item(scope: Scope, exported: ExportedTurn) -> Item:
    turn = exported.turn
    return Item(scope.tenant, Sensitivity(turn.sensitivity), session_id=turn.session_id)


def turn_line(exported: ExportedTurn) -> dict[str, Any]:
    """A turn as a line that `import` takes. A member that it does not have is left out."""
    turn = exported.turn
    line: dict[str, Any] = {
        "type": "turn",
        "event_id": str(turn.event_id),
        "session": exported.label,
        "role": turn.role,
        "name": turn.name,
        "content": turn.content,
        "occurred_at": to_rfc3339(turn.occurred_at),
        "source_id": turn.source_id,
        "seq": turn.seq,
        "origin": turn.origin,
        "integrity": turn.integrity,
        "sensitivity": turn.sensitivity if turn.sensitivity != "internal" else None,
        "model": turn.model,
        "tool_calls": turn.tool_calls,
        "tool_call_id": turn.tool_call_id,
        "parts": turn.parts,
        "recorded_at": to_rfc3339(turn.recorded_at),
    }
    return {name: value for name, value in line.items() if value is not None}


def memory_line(memory: MemoryRecord) -> dict[str, Any]:
    """A memory as a line: derived, so without a `role`."""
    line: dict[str, Any] = {
        "type": "memory",
        "id": str(memory.memory_id),
        "version": memory.version,
        "kind": memory.kind,
        "content": memory.content,
        "integrity": memory.integrity,
        "sensitivity": memory.sensitivity,
        "origin": memory.origin,
        "importance": round(memory.importance, 6),
        "confidence": round(memory.confidence, 6),
        "pinned": memory.pinned,
        "validation_status": memory.validation_status,
        "attributes": memory.attributes,
        "quarantine_reason": memory.quarantine_reason,
        "superseded_by": str(memory.superseded_by) if memory.superseded_by else None,
        "occurred_at": to_rfc3339(memory.occurred_at),
        "valid_from": to_rfc3339(memory.valid_from),
        "valid_to": to_rfc3339(memory.valid_to),
        "expires_at": to_rfc3339(memory.expires_at),
        "created_at": to_rfc3339(memory.created_at),
        "source_ids": list(memory.source_ids),
        "event_ids": [str(event_id) for event_id in memory.event_ids],
    }
    return {name: value for name, value in line.items() if value is not None}


def _lines(values: list[dict[str, Any]]) -> bytes:
    return b"".join(dumped(value) + b"\n" for value in values)
