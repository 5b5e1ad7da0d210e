"""`/memory/v1/memories`: ids and changes in, memories in their current version out.

A change names the version it was made from (`If-Match`), makes a new version and leaves the old one to `as_of`. New
text passes redaction and is embedded before it is stored, with nothing held open meanwhile. DELETE hides. Who may
change and not read is answered with id and version alone. Raises NotFound, Conflict, VersionRequired, Unprocessable,
StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, get_args
from uuid import UUID

from aiohttp import web

from memory.audit import Note, noted
from memory.errors import MemoryInvalid, NotFound, Unprocessable
from memory.model import Kind, Scope
from memory.stored import MemoryChange, MemoryRecord
from memory.write.windows import dated
from policies.gate import Holder, Item
from policies.injection.judge import origin_of
from policies.labels import Integrity, Sensitivity
from policies.lifetime import UNDO
from policies.text import storable
from proxy.api.answers import listed, said
from proxy.api.asking import (
    Caller,
    body_as,
    caller_of,
    holder_for,
    id_in_path,
    parameters,
    require_change,
    session_listed,
)
from proxy.api.attributes import checked, cleaned, require_not_of_record, words_of
from proxy.api.paging import PARAMETERS, page_of
from proxy.api.parts import OwnParts
from proxy.api.schemas import MemoryChanged, MemoryDeleted, MemoryList, MemoryPatch, MemorySaid
from proxy.api.screening import require_quotable
from proxy.api.sessions import Labels
from proxy.api.vectors import vectors_of, windows_of
from proxy.gated import may_bring_back, readable, require_readable, require_writable

_KINDS: Final = get_args(Kind)
_LISTED_BY: Final = PARAMETERS | {"kind", "session", "due"}


class Memories:
    """The handlers of memories."""

    def __init__(self, parts: OwnParts, labels: Labels) -> None:
        self._parts = parts
        self._labels = labels

    async def list(self, request: web.Request) -> web.Response:
        """Memories that are neither hidden nor expired, newest first; `kind` and `session` narrow the list. Or, with
        `due=review`, the facts that somebody should look at again and procedures that wait, longest due first.
        """
        caller = caller_of(request, self._parts.door, "memory:read:own")
        given = parameters(request, _LISTED_BY)
        kind = given.get("kind")
        if kind is not None and kind not in _KINDS:
            raise MemoryInvalid(f"kind must be one of {', '.join(_KINDS)}", param="kind")
        to_review = _to_review(given)
        page = page_of(given, "memories to review", default="asc") if to_review else page_of(given, "memories")
        try:
            session_id = await session_listed(caller, self._parts.records, given)
        except NotFound:
            return said(MemoryList(data=[], next_cursor=None))
        found = await self._parts.records.memories(
            caller.scope,
            limit=page.limit,
            cursor=page.cursor,
            order=page.order,
            kind=kind,
            session_id=session_id,
            to_review=to_review,
            now=caller.now,
        )
        holder = await holder_for(caller, self._parts.keys)
        shown = readable(holder, found.rows, partial(item_of, caller.scope))
        labels = await self._labels.of(caller.scope, (record.session_id for record in shown))
        cursor = page.next_cursor(found.next_cursor)
        return await listed(
            len(shown), lambda: MemoryList(data=[_said(record, labels) for record in shown], next_cursor=cursor)
        )

    async def show(self, request: web.Request) -> web.Response:
        """One memory; its version is the ETag."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        parameters(request, ())
        known = await self._parts.records.memory(caller.scope, id_in_path(request, "memory"), now=caller.now)
        require_readable(await holder_for(caller, self._parts.keys), item_of(caller.scope, known), "memory")
        labels = await self._labels.of(caller.scope, [known.session_id])
        return _tagged(said(_said(known, labels)), known)

    async def change(self, request: web.Request) -> web.Response:
        """The next version of a memory."""
        caller = caller_of(request, self._parts.door, "memory:write")
        parameters(request, ())
        memory_id = id_in_path(request, "memory")
        version = version_in(request)
        asked = await body_as(request, MemoryPatch)
        version = require_change(asked, version)
        records = self._parts.records
        known = await records.memory(caller.scope, memory_id, now=caller.now)
        # Before it is changed: who is told of a fault behind that sends it again.
        labels = await self._labels.of(caller.scope, [known.session_id])
        changed = await self.changed(caller, known, version, asked)
        holder = await holder_for(caller, self._parts.keys)
        return self._changed(caller.scope, holder, changed, labels)

    async def changed(self, caller: Caller, known: MemoryRecord, version: int, asked: MemoryPatch) -> MemoryRecord:
        """Change what is known, at this version. Raises NotFound, CapabilityMissing, Conflict, Unprocessable,
        StoreUnavailable.
        """
        scope, memory_id = caller.scope, known.memory_id
        becomes = Sensitivity(asked.sensitivity) if "sensitivity" in asked.model_fields_set else None
        holder = await holder_for(caller, self._parts.keys)
        require_writable(holder, item_of(scope, known), "memory", becomes)
        require_not_of_record(known, asked.model_fields_set)
        change = await self._change(asked, known)
        note = _patched(caller, memory_id, asked)
        changed = await self._parts.records.patch_memory(scope, memory_id, version, change, caller.now, note=note)
        await self._parts.tells.changed(scope)
        return changed

    async def hide(self, request: web.Request) -> web.Response:
        """Hide a memory: gone from lists, search and prompts, still seen by `as_of`."""
        caller = caller_of(request, self._parts.door, "memory:write")
        parameters(request, ())
        known = await self._parts.records.memory(caller.scope, id_in_path(request, "memory"), now=caller.now)
        await self.hidden(caller, known, version_in(request))
        memory_id = str(known.memory_id)
        return said(MemoryDeleted(id=memory_id, deleted_at=caller.now, undo_until=caller.now + UNDO))

    async def hidden(self, caller: Caller, known: MemoryRecord, version: int | None) -> None:
        """Hide what is known, at a version where one is named. Raises NotFound, CapabilityMissing, Conflict,
        StoreUnavailable.
        """
        scope, memory_id = caller.scope, known.memory_id
        require_writable(await holder_for(caller, self._parts.keys), item_of(scope, known), "memory")
        note = noted(scope.tenant, caller.actor, "memory.delete", ids=[memory_id], at=caller.now)
        await self._parts.records.delete_memory(scope, memory_id, caller.now, version=version, note=note)
        await self._parts.tells.changed(scope)

    async def undelete(self, request: web.Request) -> web.Response:
        """Show a hidden memory again."""
        caller = caller_of(request, self._parts.door, "memory:write")
        parameters(request, ())
        memory_id = id_in_path(request, "memory")
        holder = await holder_for(caller, self._parts.keys)
        note = noted(caller.scope.tenant, caller.actor, "memory.undelete", ids=[memory_id], at=caller.now)
        may = may_bring_back(holder, partial(item_of, caller.scope), "memory")
        shown = await self._parts.records.undelete_memory(caller.scope, memory_id, caller.now, note=note, may=may)
        await self._parts.tells.changed(caller.scope)
        return self._changed(caller.scope, holder, shown, await self._labels.of(caller.scope, [shown.session_id]))

    def _changed(self, scope: Scope, holder: Holder, record: MemoryRecord, labels: Mapping[UUID, str]) -> web.Response:
        """What became of one; who may not read it is told no more than that it did."""
        if readable(holder, [record], partial(item_of, scope)):
            return _tagged(said(_said(record, labels)), record)
        return _tagged(said(MemoryChanged(id=str(record.memory_id), version=record.version)), record)

    async def _change(self, asked: MemoryPatch, known: MemoryRecord) -> MemoryChange:
        """What the store is to change; new text is cleaned and embedded. Raises StoreUnavailable, Unprocessable."""
        members: dict[str, Any] = {name: getattr(asked, name) for name in asked.model_fields_set - {"content"}}
        if "attributes" in members:
            members["attributes"] = await asyncio.to_thread(self._attributes, asked, known)
        if "expires_at" in members:
            members["set_expires_at"] = True
        if "content" not in asked.model_fields_set:
            return MemoryChange(**members)
        text = await asyncio.to_thread(lambda: self._parts.redactor.redact(storable(asked.content)).text)
        if not text.strip():
            raise Unprocessable("content is blank: a memory says something, or DELETE hides it", param="content")
        if asked.validation_status != "confirmed":
            await asyncio.to_thread(_refuse_instructions, text, known, "content")
        windows = await windows_of(self._parts.windows, text)
        texts = [dated(text[start:end], known.occurred_at) for start, end in windows]
        vectors = await vectors_of(self._parts.embedder, texts)
        return MemoryChange(content=text, windows=tuple(windows), vectors=vectors, **members)

    def _attributes(self, asked: MemoryPatch, known: MemoryRecord) -> dict[str, Any]:
        """New attributes as they are stored. Raises Unprocessable."""
        clean = cleaned(checked(asked.attributes, known), known.attributes, self._parts.redactor)
        if asked.validation_status != "confirmed":
            _refuse_instructions(words_of(clean, known.attributes), known, "attributes")
        return clean


def _refuse_instructions(text: str, known: MemoryRecord, member: str) -> None:
    """Raise Unprocessable where new text addresses the model: said in a chat it would wait for a review."""
    instead = 'word it as a statement, or, where it is meant so, send "validation_status": "confirmed" with it'
    origin = origin_of(Integrity(known.integrity))
    require_quotable(text, origin, "the new text addresses", instead=instead, param=member)


def item_of(scope: Scope, record: MemoryRecord) -> Item:
    """A memory of the caller's own scope as the gate knows it."""
    return Item(scope.tenant, Sensitivity(record.sensitivity), session_id=record.session_id)


def _patched(caller: Caller, memory_id: UUID, asked: MemoryPatch) -> Note:
    """What the audit log says of a change: which members, never their values but the verdict of a review."""
    verdict = asked.validation_status if "validation_status" in asked.model_fields_set else None
    return noted(
        caller.scope.tenant,
        caller.actor,
        "memory.patch" if verdict is None else "memory.review",
        why=" ".join(sorted(asked.model_fields_set)),
        ids=[memory_id],
        detail={} if verdict is None else {"verdict": verdict},
        at=caller.now,
    )


def _to_review(given: Mapping[str, str]) -> bool:
    """Whether what is due for review is asked for. Raises MemoryInvalid."""
    due = given.get("due")
    if due not in (None, "review"):
        raise MemoryInvalid("due must be review", param="due")
    if due is not None and given.get("order", "asc") != "asc":
        raise MemoryInvalid("what is due for review comes longest due first; leave order out", param="order")
    return due is not None


def version_in(request: web.Request) -> int | None:
    """The version in If-Match, None without one. Raises MemoryInvalid."""
    raw = request.headers.getall("If-Match", [])
    if not raw:
        return None
    digits = ", ".join(raw).strip().removeprefix("W/").strip('"')
    if not (digits.isascii() and digits.isdigit() and 1 <= len(digits) <= 9):
        raise MemoryInvalid("If-Match must be the version of the memory, like 3", param="If-Match")
    return int(digits)


def _tagged(answer: web.Response, record: MemoryRecord) -> web.Response:
    answer.headers["ETag"] = f'"{record.version}"'
    return answer


def _said(record: MemoryRecord, labels: Mapping[UUID, str]) -> MemorySaid:
    return MemorySaid(
        id=str(record.memory_id),
        version=record.version,
        kind=record.kind,
        collection=record.collection,
        content=record.content,
        role=record.role,
        integrity=record.integrity,
        sensitivity=record.sensitivity,
        origin=record.origin,
        importance=round(record.importance, 6),
        confidence=round(record.confidence, 6),
        pinned=record.pinned,
        validation_status=record.validation_status,
        attributes=record.attributes,
        quarantine_reason=record.quarantine_reason,
        superseded_by=str(record.superseded_by) if record.superseded_by else None,
        superseded_reason=record.superseded_reason,
        session=labels.get(record.session_id) if record.session_id else None,
        occurred_at=record.occurred_at,
        valid_from=record.valid_from,
        valid_to=record.valid_to,
        expires_at=record.expires_at,
        review_due_at=record.review_due_at,
        created_at=record.created_at,
        recorded_at=record.recorded_from,
        source_ids=list(record.source_ids),
        event_ids=[str(event_id) for event_id in record.event_ids],
    )
