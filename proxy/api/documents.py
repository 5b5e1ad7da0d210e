"""`/memory/v1/documents`: files in, documents with their progress, chunks and places out.

A file is read at once, in a process of its own, so whoever sends one that cannot be read is told what is wrong with it.
What was read is sealed under the subject's key and staged in one transaction with its mark: what is answered is kept.
The file itself is not. DELETE hides. Raises Unprocessable, TooLarge, RateLimited, NotFound, Conflict, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from aiohttp import web

from memory import document_payload
from memory.audit import noted
from memory.documents import ChunkRecord, DocumentRecord, FileFacts, Parsed, Upload
from memory.envelope import Binding, seal
from memory.errors import (
    Conflict,
    MemoryConflict,
    NotFound,
    QueueUnavailable,
    Refused,
    ScopeDenied,
    StoreUnavailable,
    Unprocessable,
)
from memory.ids import new_id
from memory.model import Scope, SessionRef
from memory.read.conversation import session_ref
from policies.gate import Holder, Item
from policies.inlining import Inline, way_of
from policies.labels import Integrity, Sensitivity
from policies.lifetime import UNDO
from policies.text import normalised, storable
from proxy.api.answers import said
from proxy.api.asking import (
    Caller,
    caller_of,
    holder_for,
    id_in_path,
    is_waiting,
    parameters,
    session_listed,
    validated,
)
from proxy.api.forms import read_form
from proxy.api.memories import version_in
from proxy.api.paging import PARAMETERS, bad_cursor, page_of
from proxy.api.parts import OwnParts
from proxy.api.schemas_documents import (
    ChunkSaid,
    DocumentAsked,
    DocumentDeleted,
    DocumentGone,
    DocumentList,
    DocumentSaid,
    DocumentShown,
    DocumentTaken,
    UploadSaid,
    UploadTaken,
)
from proxy.api.sessions import Labels
from proxy.api.upload_turns import UploadTurns
from proxy.following import OVER, followed
from proxy.gated import holder_of, may_show, may_write, readable, require_readable, require_writable

WAIT_S: Final = 60.0
_NAME_CHARS_MAX: Final = 255
_UNSEEN_IN_NAMES: Final = dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f\u061c\xa0\u202f\u3000"), " ")
_FIELDS: Final = frozenset({"name", "session", "save", "inline", "sensitivity"})
KIND: Final = "document"


class Documents:
    """The handlers of documents."""

    def __init__(self, parts: OwnParts, labels: Labels) -> None:
        self._parts = parts
        self._labels = labels
        self._turns = UploadTurns()

    async def upload(self, request: web.Request) -> web.Response:
        """Read a file and stage what it says."""
        caller = caller_of(request, self._parts.door, "memory:write")
        wait = is_waiting(parameters(request, ("wait",)), default=False)
        require_writable(holder_of(caller.credential), Item(caller.scope.tenant, Sensitivity.PUBLIC), "scope")
        metrics = self._parts.metrics
        try:
            async with self._turns.turn(caller.scope):
                document_id = await self._staged(request, caller)
        except Refused:
            metrics.documents.labels("refused").inc()
            raise
        metrics.documents.labels("taken").inc()
        record = await self._parts.documents.records.document(caller.scope, document_id)
        if wait:
            of = record.upload.upload_id
            record = await followed(self._parts.documents.records, caller.scope, record, WAIT_S, upload_id=of)
        status = 200 if record.upload.status in OVER else 202
        if readable(await holder_for(caller, self._parts.keys), [record], partial(_item, caller.scope)):
            return said(await self._said(caller.scope, record), status)
        return said(_taken(record), status)

    async def list(self, request: web.Request) -> web.Response:
        """Documents that are not deleted, newest first; `session` narrows the list to those of one conversation."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        given = parameters(request, PARAMETERS | {"session"})
        page = page_of(given, "documents")
        try:
            session_id = await session_listed(caller, self._parts.records, given)
        except NotFound:
            return said(DocumentList(data=[], next_cursor=None))
        found = await self._parts.documents.records.documents(
            caller.scope, limit=page.limit, cursor=page.cursor, order=page.order, session_id=session_id
        )
        holder = await holder_for(caller, self._parts.keys)
        shown = readable(holder, found.rows, partial(_item, caller.scope))
        rows = await self.shown(caller.scope, shown)
        return said(DocumentList(data=[*rows], next_cursor=page.next_cursor(found.next_cursor)))

    async def show(self, request: web.Request) -> web.Response:
        """One document, with a page of its chunks."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        given = parameters(request, ("limit", "cursor"))
        document_id = id_in_path(request, KIND)
        page = page_of(given, f"chunks of {document_id}", default="asc")
        records = self._parts.documents.records
        record = await records.document(caller.scope, document_id)
        holder = await holder_for(caller, self._parts.keys)
        require_readable(holder, _item(caller.scope, record), KIND)
        start = _ordinal(page.cursor)
        read = partial(records.chunks, caller.scope, document_id, limit=page.limit, start=start, now=caller.now)
        found = await read()
        if record.upload.status not in OVER:
            record = await records.document(caller.scope, document_id)
            if record.upload.status in OVER:  # it ended between the two
                found = await read()

        def item_of(chunk: ChunkRecord) -> Item:
            return Item(caller.scope.tenant, Sensitivity(chunk.sensitivity), session_id=record.session_id)

        shown = readable(holder, found.rows, item_of)
        head = await self._said(caller.scope, record)
        return said(
            DocumentShown(
                **dict(head),
                data=[_chunk(one) for one in shown],
                next_cursor=page.next_cursor(found.next_cursor),
                withheld=len(found.rows) - len(shown),
            )
        )

    async def hide(self, request: web.Request) -> web.Response:
        """Hide a document with its chunks."""
        caller = caller_of(request, self._parts.door, "memory:write")
        parameters(request, ())
        document_id, records = id_in_path(request, KIND), self._parts.documents.records
        version = version_in(request)
        record = await records.document(caller.scope, document_id)
        holder = await holder_for(caller, self._parts.keys)
        note = noted(caller.scope.tenant, caller.actor, "document.delete", ids=[document_id], at=caller.now)
        may = may_write(holder, partial(_item, caller.scope), KIND)
        chunks = await records.hide(caller.scope, document_id, caller.now, note=note, may=may, version=version)
        await self._parts.tells.changed(caller.scope)
        times = {"deleted_at": caller.now, "undo_until": caller.now + UNDO}
        if readable(holder, [record], partial(_item, caller.scope)):
            return said(DocumentDeleted(id=str(document_id), name=record.name, chunks=chunks, **times))
        return said(DocumentGone(id=str(document_id), **times))

    async def undelete(self, request: web.Request) -> web.Response:
        """Show a hidden document again."""
        caller = caller_of(request, self._parts.door, "memory:write")
        parameters(request, ())
        document_id = id_in_path(request, KIND)
        holder = await holder_for(caller, self._parts.keys)
        note = noted(caller.scope.tenant, caller.actor, "document.undelete", ids=[document_id], at=caller.now)
        may = may_show(holder, partial(_item, caller.scope), KIND)
        record = await self._parts.documents.records.show(caller.scope, document_id, caller.now, note=note, may=may)
        await self._parts.tells.changed(caller.scope)
        return said(await self._said(caller.scope, record))

    # ------------------------------------------------------------ an upload

    async def _staged(self, request: web.Request, caller: Caller) -> UUID:
        parts = self._parts.documents
        form = await read_form(request, _FIELDS, file_bytes_max=parts.bytes_max, idle_s=parts.idle_s)
        content = form.content or b""
        asked = validated(DocumentAsked, {"file": content, **form.fields})
        name = caller.credential.hide(document_name(asked.name, form.filename))
        only_for, shown_in = await self._sessions(caller, asked)
        began_s = time.monotonic()
        try:
            parsed = await parts.parser.parse(caller.scope, content, form.filename or name, form.declared)
        finally:
            self._parts.metrics.document_parse_seconds.observe(time.monotonic() - began_s)
        upload_id, keys, scope = new_id(), self._parts.keys, caller.scope
        subject_id = await keys.subject_id(scope.tenant, scope.user)
        key = await keys.subject_key(scope.tenant, scope.user)
        binding = Binding(scope.tenant, subject_id, upload_id, "document")
        sealed = await asyncio.to_thread(lambda: seal(key, binding, document_payload.packed(parsed)))
        trusted = caller.credential.can("memory:import:trusted")
        is_given = shown_in is not None and self._is_whole(_inline(asked.inline), parsed.chars)
        upload = Upload(
            upload_id=upload_id,
            subject_id=subject_id,
            name=name,
            facts=_facts(content, parsed, trusted=trusted, sensitivity=asked.sensitivity),
            inline=_inline(asked.inline),
            only_for=only_for,
            shown_in=shown_in,
            sealed=sealed,
            is_given=is_given,
        )
        kind = parsed.media_type.rpartition("/")[2][:64]
        said_of: dict[str, str | bool] = {"save": asked.save, "media_type": kind, "trusted": trusted}
        note = noted(scope.tenant, caller.actor, "document.upload", ids=[upload_id], detail=said_of, at=caller.now)
        only = only_for.session_id if only_for else None
        may = _may_replace(await holder_for(caller, keys), Sensitivity(asked.sensitivity), only)
        document_id = await parts.store.stage(
            scope, upload, waiting_max=parts.waiting_max, now=caller.now, note=note, may=may
        )
        await self._parts.tells.asked()
        if is_given and shown_in is not None:
            await self._mark(scope, shown_in.session_id, upload_id)
        return document_id

    def _is_whole(self, choice: Inline, chars: int) -> bool:
        return way_of(choice, chars, self._parts.documents.budget_tokens) != "retrieved"

    async def _mark(self, scope: Scope, session_id: UUID, upload_id: UUID) -> None:
        """Have every process know that the conversation was given a document. The upload is kept whatever comes."""
        try:
            await self._parts.checkpoints.ledgers.mark_given(scope, session_id, upload_id.bytes)
        except QueueUnavailable as fault:
            raise StoreUnavailable(f"the queue does not answer, send it again: {fault}", retry_after_s=1) from fault

    async def _sessions(self, caller: Caller, asked: DocumentAsked) -> tuple[SessionRef | None, SessionRef | None]:
        """The conversation that alone is to have it, and the one that it is given in."""
        of_token, in_head, in_form = caller.credential.session, caller.ask.session, None
        if asked.session is not None:
            in_form = caller.kept(asked.session)
        if of_token is not None and (asked.save != "session" or in_form not in (None, of_token)):
            raise ScopeDenied("this token is for one session: save for it alone", param="save")
        if in_form is not None and in_head not in (None, in_form):
            raise MemoryConflict("X-Memory-Session and the part session name different ones", param="session")
        named = of_token or in_form or in_head
        if named is None:
            if asked.save == "session":
                raise Unprocessable("name the session that it is to be kept for", param="session")
            return None, None
        ref = session_ref(await self._parts.keys.chain_key(caller.scope.tenant), caller.scope, named)
        return (ref if asked.save == "session" else None), ref

    async def _said(self, scope: Scope, record: DocumentRecord) -> DocumentSaid:
        (one,) = await self.shown(scope, [record])
        return one

    async def shown(self, scope: Scope, records: Sequence[DocumentRecord]) -> Sequence[DocumentSaid]:
        """Documents as they are shown."""
        named = [(one, one.session_id or one.shown_in) for one in records]
        labels = await self._labels.of(scope, (session_id for _, session_id in named))
        budget_tokens = self._parts.documents.budget_tokens
        return [document_said(one, labels.get(of) if of else None, budget_tokens) for one, of in named]


def document_said(record: DocumentRecord, session: str | None, budget_tokens: int) -> DocumentSaid:
    """A document as the API shows it."""
    facts, upload = record.facts, record.upload
    return DocumentSaid(
        id=str(record.document_id),
        name=record.name,
        version=record.version,
        media_type=facts.media_type,
        sha256=facts.sha256.hex(),
        bytes=facts.bytes_given,
        chars=facts.chars,
        pages=facts.pages,
        chunks=record.chunks,
        save="session" if record.session_id else "memory",
        session=session,
        inline=record.inline,
        given=way_of(record.inline, facts.chars, budget_tokens),
        integrity=facts.integrity,
        sensitivity=facts.sensitivity,
        created_at=record.created_at,
        changed_at=record.changed_at,
        upload=UploadSaid(
            id=str(upload.upload_id),
            status=upload.status,
            reason=upload.reason,
            media_type=upload.media_type,
            bytes=upload.bytes_given,
            chunks=upload.chunks,
            embedded=upload.embedded,
            new=upload.new_chunks,
            same=upload.same_chunks,
            gone=upload.gone_chunks,
            held_back=upload.held_back,
            created_at=upload.created_at,
            finished_at=upload.finished_at,
        ),
    )


def _taken(record: DocumentRecord) -> DocumentTaken:
    """What is told of a document to who may not read it: nothing of what it was before."""
    upload = record.upload
    how_far = UploadTaken(id=str(upload.upload_id), status=upload.status, reason=upload.reason)
    return DocumentTaken(id=str(record.document_id), name=record.name, upload=how_far)


def _ordinal(cursor: str | None) -> int:
    """The number of the chunk that a page begins with, 0 without a cursor. Raises MemoryInvalid."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 9):
        raise bad_cursor()
    return int(cursor)


def _chunk(one: ChunkRecord) -> ChunkSaid:
    return ChunkSaid(
        ordinal=one.ordinal,
        memory_id=str(one.memory_id),
        version=one.version,
        heading=list(one.heading),
        page=one.page,
        page_to=one.page_to,
        start=one.start,
        end=one.end,
        content=one.content,
        hidden=one.hidden,
    )


def _item(scope: Scope, record: DocumentRecord) -> Item:
    return Item(scope.tenant, Sensitivity(record.facts.sensitivity), session_id=record.session_id)


def _may_replace(holder: Holder, becomes: Sensitivity, session_id: UUID | None) -> Callable[[Sensitivity], None]:
    """Raises for a document of this name that the holder may not see, without saying why, or may not lower."""

    def may(known: Sensitivity) -> None:
        try:
            require_writable(holder, Item(holder.tenant, known, session_id=session_id), KIND, becomes)
        except NotFound:
            raise Conflict("a document of this name cannot be replaced: choose another name", param="name") from None

    return may


def _facts(content: bytes, parsed: Parsed, *, trusted: bool, sensitivity: str) -> FileFacts:
    """A file that a trusted key gives is its user's word; another's vouches for nothing, as with imports."""
    integrity = Integrity.USER if trusted else Integrity.IMPORTED
    digest = hashlib.sha256(content).digest()
    return FileFacts(
        media_type=parsed.media_type,
        sha256=digest,
        bytes_given=len(content),
        chars=parsed.chars,
        pages=parsed.pages,
        integrity=integrity.value,
        sensitivity=sensitivity,
    )


def document_name(asked: str | None, filename: str) -> str:
    """What the document is called: as asked, else the last part of the file's name. Names in Persian and of emoji have
    joiners in them, those in Hebrew marks of direction, those that macOS gives a narrow space. Raises Unprocessable.
    """
    name = asked if asked is not None else filename.replace("\\", "/").rpartition("/")[2]
    name = normalised("NFC", storable(name)).strip()
    shown = name.translate(_UNSEEN_IN_NAMES)
    if not 1 <= len(name) <= _NAME_CHARS_MAX or not shown.strip() or not shown.isprintable():
        raise Unprocessable(
            f"name the document, in 1 to {_NAME_CHARS_MAX} printable characters: by a part called name, or by the file",
            param="name",
        )
    return name


def _inline(name: str) -> Inline:
    return "always" if name == "always" else "never" if name == "never" else "auto"
