"""`GET /memory/v1/export`: nothing in, every turn and every memory of the scope out, as NDJSON.

With `of=user` everything about the user in one file: each scope of every project and agent under a line that names it,
with its conversations and the ids of its retrievals too.

Each turn once, session by session in order, with what `import` takes and its `event_id`; then the memories, which are
made of turns or documents and carry no `role`; then the records (`export_records`), and the documents and files by
name, whose bytes are not in it. Read by pages, so nothing is held open while a slow client reads. A fault on the way
cuts the connection before the last chunk, in HTTP/1.0 by a reset, as if this process is killed: a client cannot take
half an export for a whole one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from aiohttp import web

from memory.artifacts import Artifact
from memory.audit import noted
from memory.documents import DocumentRecord
from memory.edits import Edited, Hidden
from memory.errors import MemoryInvalid, MemoryProxyFault, ScopeDenied
from memory.model import Scope
from memory.stored import ExportedTurn, MemoryRecord, SessionRecord
from policies.gate import Holder, Item
from policies.labels import Sensitivity
from proxy.api.answers import broken_off, dumped
from proxy.api.asking import Caller, caller_of, holder_for, parameters, to_rfc3339
from proxy.api.export_records import record_lines
from proxy.api.memories import item_of
from proxy.api.parts import OwnParts
from proxy.gated import readable
from proxy.relay import reset_unless_whole

NDJSON: Final = "application/x-ndjson"
_PAGE_ROWS: Final = 500
_PAGE_BYTES: Final = 4 << 20


class Export:
    """The handler of exports."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Stream the scope. Raises StoreUnavailable before the first byte."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        of = parameters(request, ("of",)).get("of", "scope")
        if of not in ("scope", "user"):
            raise MemoryInvalid("of must be scope or user", param="of")
        names = {"user": caller.scope.user, "project": caller.scope.project, "agent": caller.scope.agent}
        await self._parts.audit.record([noted(caller.scope.tenant, caller.actor, "export", why=of, names=names)])
        holder = await holder_for(caller, self._parts.keys)
        pages = self._pages(caller.scope, holder) if of == "scope" else self._everything(caller)
        first = await anext(pages, b"")
        response = web.StreamResponse(headers={"Content-Type": NDJSON})
        await response.prepare(request)
        try:
            async with reset_unless_whole(request):
                self._parts.canaries.look(caller.scope.tenant, "api", first)
                await response.write(first)
                async for page in pages:
                    self._parts.canaries.look(caller.scope.tenant, "api", page)
                    await response.write(page)
        except MemoryProxyFault as fault:
            broken_off(request, fault)
            return response
        await response.write_eof()
        return response

    async def _everything(self, caller: Caller) -> AsyncIterator[bytes]:
        """Every scope of the caller's user. Raises ScopeDenied for a key that may see one of them only."""
        fixed = {"project", "agent", "session"} & caller.credential.fixed.keys()
        if fixed:
            raise ScopeDenied(f"this key fixes the {min(fixed)}: it cannot export all of a user", param="of")
        holder = await holder_for(caller, self._parts.keys)
        for scope in await self._parts.forgets.scopes_of(caller.scope.tenant, caller.scope.user):
            yield _lines([{"type": "scope", "user": scope.user, "project": scope.project, "agent": scope.agent}])
            async for page in self._pages(scope, holder):
                yield page
            async for page in self._conversations(scope):
                yield page

    async def _conversations(self, scope: Scope) -> AsyncIterator[bytes]:
        records, cursor, after = self._parts.records, None, UUID(int=0)
        while True:
            sessions = await records.sessions(scope, limit=_PAGE_ROWS, cursor=cursor, order="asc")
            yield _lines([session_line(session) for session in sessions.rows])
            if (cursor := sessions.next_cursor) is None:
                break
        while found := await records.retrieval_ids(scope, limit=_PAGE_ROWS, after=after):
            yield _lines([retrieval_line(row) for row in found])
            after = found[-1]["retrieval_id"]

    async def _pages(self, scope: Scope, holder: Holder) -> AsyncIterator[bytes]:
        records, cursor = self._parts.records, None
        while True:
            turns = await records.export_turns(scope, limit=_PAGE_ROWS, cursor=cursor, bytes_max=_PAGE_BYTES)
            yield _lines([turn_line(turn) for turn in readable(holder, turns.rows, partial(_turn_item, scope))])
            if (cursor := turns.next_cursor) is None:
                break
        while True:
            memories = await records.memories(
                scope, limit=_PAGE_ROWS, cursor=cursor, order="asc", bytes_max=_PAGE_BYTES
            )
            shown = readable(holder, memories.rows, partial(item_of, scope))
            edits = await self._parts.edits.of(scope, shown)
            yield _lines([memory_line(memory, edits.get(memory.memory_id)) for memory in shown])
            if (cursor := memories.next_cursor) is None:
                break
        now = datetime.now(UTC)
        while True:
            hidden = await self._parts.edits.hidden(scope, limit=_PAGE_ROWS, cursor=cursor, now=now)
            yield _lines([hidden_line(one) for one in readable(holder, hidden.rows, partial(_hidden_item, scope))])
            if (cursor := hidden.next_cursor) is None:
                break
        async for lines in record_lines(self._parts, scope, holder):
            yield _lines(lines)
        async for page in self._documents(scope, holder):
            yield page
        async for page in self._files(scope, holder):
            yield page

    async def _files(self, scope: Scope, holder: Holder) -> AsyncIterator[bytes]:
        """What files there are; what is said of them is among the memories, their bytes are fetched one by one."""
        store, cursor = self._parts.artifacts.store, None
        while True:
            found = await store.page(scope, limit=_PAGE_ROWS, cursor=cursor, session_id=None)
            yield _lines([artifact_line(one) for one in readable(holder, found.rows, partial(_file_item, scope))])
            if (cursor := found.next_cursor) is None:
                break

    async def _documents(self, scope: Scope, holder: Holder) -> AsyncIterator[bytes]:
        """What documents there are; what they say is among the memories, their files are not kept."""
        records, cursor = self._parts.documents.records, None
        while True:
            found = await records.documents(scope, limit=_PAGE_ROWS, cursor=cursor, order="asc")
            yield _lines([document_line(one) for one in readable(holder, found.rows, partial(_document_item, scope))])
            if (cursor := found.next_cursor) is None:
                break


def _turn_item(scope: Scope, exported: ExportedTurn) -> Item:
    turn = exported.turn
    return Item(scope.tenant, Sensitivity(turn.sensitivity), session_id=turn.session_id)


def _hidden_item(scope: Scope, hidden: Hidden) -> Item:
    return Item(scope.tenant, Sensitivity(hidden.sensitivity), session_id=hidden.session_id)


def _document_item(scope: Scope, record: DocumentRecord) -> Item:
    return Item(scope.tenant, Sensitivity(record.facts.sensitivity), session_id=record.session_id)


def _file_item(scope: Scope, file: Artifact) -> Item:
    return Item(scope.tenant, Sensitivity(file.sensitivity), session_id=file.session_id)


def artifact_line(file: Artifact) -> dict[str, Any]:
    """A file as a line: without its bytes, so `import` refuses it and says to upload it again."""
    return {
        "type": "artifact",
        "id": str(file.artifact_id),
        "name": "" if file.hidden else file.about.name,
        "version": file.version,
        "media_type": file.content.media_type,
        "sha256": file.content.sha256,
        "bytes": file.content.bytes,
        "memory_id": str(file.memory_id),
        "sensitivity": file.sensitivity,
        "created_at": to_rfc3339(file.created_at),
    }


def document_line(record: DocumentRecord) -> dict[str, Any]:
    """A document as a line: without its file, so `import` refuses it and says to upload it again."""
    facts = record.facts
    return {
        "type": "document",
        "id": str(record.document_id),
        "name": record.name,
        "version": record.version,
        "media_type": facts.media_type,
        "sha256": facts.sha256.hex(),
        "bytes": facts.bytes_given,
        "pages": facts.pages,
        "chunks": record.chunks,
        "sensitivity": facts.sensitivity,
        "session_id": str(record.session_id) if record.session_id else None,
        "created_at": to_rfc3339(record.created_at),
    }


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
        "memory": exported.memory,
    }
    kept = {name: value for name, value in line.items() if value is not None}
    return kept if exported.parent is None else {**kept, "parent": exported.parent or None}


def session_line(session: SessionRecord) -> dict[str, Any]:
    """A conversation as a line."""
    return {
        "type": "session",
        "id": session.label,
        "turns": session.turns,
        "created_at": to_rfc3339(session.created_at),
        "last_at": to_rfc3339(session.last_at),
        "ended_at": to_rfc3339(session.ended_at),
    }


def retrieval_line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A retrieval as a line: that it was, not what was in it."""
    return {
        "type": "retrieval",
        "id": str(row["retrieval_id"]),
        "session_id": str(row["session_id"]),
        "status": row["status"],
        "tokens": row["tokens"],
        "created_at": to_rfc3339(row["created_at"]),
    }


def memory_line(memory: MemoryRecord, edited: Edited | None = None) -> dict[str, Any]:
    """A memory as a line: derived, so without a `role`. `edited`: what a person has set of it, for an import."""
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
        "edited": _edited(edited) if edited else None,
    }
    return {name: value for name, value in line.items() if value is not None}


def hidden_line(hidden: Hidden) -> dict[str, Any]:
    """A memory that a person has hidden, for an import: by what it is known, and not what it says."""
    return {
        "type": "memory",
        "id": str(hidden.memory_id),
        "kind": hidden.kind,
        "content": "",
        "source_ids": list(hidden.source_ids),
        "event_ids": [str(event_id) for event_id in hidden.event_ids],
        "edited": {"at": to_rfc3339(hidden.at), "learnt": hidden.learnt, "hidden": True},
    }


def _edited(one: Edited) -> dict[str, Any]:
    said = {"at": to_rfc3339(one.at), "learnt": one.learnt, "members": list(one.members)}
    return {**said, "attributes": list(one.attributes)} if one.attributes else said


def _lines(values: list[dict[str, Any]]) -> bytes:
    return b"".join(dumped(value) + b"\n" for value in values)
