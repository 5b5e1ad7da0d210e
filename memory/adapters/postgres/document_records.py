"""Documents for the proxy's own API: a scope and a question in, documents with their progress, chunks and places out.

Everything acts inside one scope; what lies outside is NotFound, like what is not there. To hide a document hides its
chunks with it, to show it again shows those; one that somebody hid by itself stays hidden. Raises StoreUnavailable,
MemoryInvalid for a cursor that is none of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.acting import acting
from memory.adapters.postgres.audit import AuditLog, unseen
from memory.adapters.postgres.cursors import Order, cursor_of, read_cursor
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.own_memory import require_version
from memory.adapters.postgres.scopes import Scopes
from memory.audit import Note
from memory.documents import ChunkRecord, Citation, DocumentRecord, FileFacts, UploadRecord
from memory.errors import Conflict, NotFound
from memory.model import Scope
from memory.stored import Page
from policies.lifetime import UNDO, never_deleted

DELETED = "the document was deleted before it was stored"
_NONE: Final = "there is no such document in this scope"


class DocumentRecords:
    """The reading side, and hiding. A `note` is written to the audit log in the change's own transaction."""

    def __init__(self, database: Database, scopes: Scopes, audit: AuditLog | None = None) -> None:
        self._database = database
        self._scopes = scopes
        self._audit = audit

    async def documents(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None = None,
        order: Order = "desc",
        session_id: UUID | None = None,
    ) -> Page[DocumentRecord]:
        """Documents that are not deleted, by when they were first uploaded; `session_id`: of that conversation."""
        scope_id = await self._scopes.find(scope)
        at = read_cursor(cursor, order)
        if scope_id is None:
            return Page((), None)
        name = "documents_newest" if order == "desc" else "documents_oldest"
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch(name, scope.tenant, scope_id, *at, limit + 1, session_id)
        rows = tuple(_document(row) for row in found[:limit])
        return Page(rows, cursor_of(rows[-1].created_at, rows[-1].document_id) if len(found) > limit else None)

    async def document(self, scope: Scope, document_id: UUID) -> DocumentRecord:
        """One document that is not deleted. Raises NotFound."""
        scope_id = await self._scopes.known(scope, _NONE)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await _read(tx, scope, scope_id, document_id)
        if found.deleted_at is not None:
            raise NotFound(_NONE)
        return found

    async def chunks(
        self, scope: Scope, document_id: UUID, *, limit: int, start: int = 0, now: datetime | None = None
    ) -> Page[ChunkRecord]:
        """Chunks of a document in order, from one on, as they are `now`; the cursor is the number of the next one."""
        scope_id = await self._scopes.known(scope, _NONE)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("chunks_of_document", scope.tenant, document_id, start, limit + 1)
            ids = [row["memory_id"] for row in found[:limit]]
            said = await tx.fetch("memories_standing", scope.tenant, [scope_id], ids) if ids else []
        by_id = {row["memory_id"]: row for row in said}
        at = now or datetime.now(UTC)
        rows = tuple(_chunk(row, by_id[row["memory_id"]], at) for row in found[:limit] if row["memory_id"] in by_id)
        return Page(rows, str(found[limit]["ordinal"]) if len(found) > limit else None)

    async def citations(self, scope: Scope, memory_ids: Sequence[UUID]) -> dict[UUID, Citation]:
        """Where these memories stand in documents that the scope may see; one that is of none has no entry."""
        if not memory_ids:
            return {}
        seen = [one.scope_id for one in await self._scopes.visible(scope)]
        async with self._database.transaction(scope.tenant, seen, read_only=True) as tx:
            found = await tx.fetch("citations_of_memories", scope.tenant, list(memory_ids))
            ids = [row["memory_id"] for row in found]
            said = await tx.fetch("memories_standing", scope.tenant, seen, ids) if ids else []
        headings = {row["memory_id"]: _heading(row) for row in said}
        return {row["memory_id"]: _citation(row, headings.get(row["memory_id"], ())) for row in found}

    async def newest_page(self, scope: Scope, memory_ids: Sequence[UUID]) -> datetime | None:
        """When the newest page of the web that one of these memories is of was stored; None where none is of any."""
        seen = [one.scope_id for one in await self._scopes.visible(scope)]
        async with self._database.transaction(scope.tenant, seen, read_only=True) as tx:
            at: datetime | None = await tx.value("newest_page_of_memories", scope.tenant, list(memory_ids))
        return at

    async def hide(
        self,
        scope: Scope,
        document_id: UUID,
        now: datetime,
        *,
        note: Note,
        may: Callable[[DocumentRecord], None],
        version: int | None = None,
    ) -> int:
        """Hide a document with its chunks, where `may` raises nothing; how many. What of it still waits is given up.

        Raises NotFound, and Conflict for another `version`.
        """
        scope_id, tenant = await self._scopes.known(scope, _NONE), scope.tenant
        witness = await self._audit.witness(note) if self._audit else unseen
        async with acting(self._database, tenant, scope_id, witness) as (tx, bumped):
            locked = await tx.row("lock_document", tenant, scope_id, document_id)
            if locked is None or locked["deleted_at"] is not None:
                raise NotFound(_NONE)
            may(await _read(tx, scope, scope_id, document_id))
            require_version(locked, version, "document")
            open_ = await tx.fetch("end_open_uploads", tenant, document_id, DELETED, now)
            await tx.run("drop_document_due", tenant, [row["upload_id"] for row in open_])
            shown = [row["memory_id"] for row in await tx.fetch("shown_chunks", tenant, document_id, None)]
            await tx.run_many("hide_memory", ((tenant, one, now, bumped) for one in sorted(shown)))
            await announce(tx, tenant, scope_id, "deleted", shown, by="api", at=now)
            await tx.run("hide_document", tenant, document_id, now)
        return len(shown)

    async def show(
        self, scope: Scope, document_id: UUID, now: datetime, *, note: Note, may: Callable[[DocumentRecord], None]
    ) -> DocumentRecord:
        """Show a deleted document again, with the chunks that were hidden with it; within 30 days.

        Raises NotFound, Conflict where another has its name by now, and what `may` does: then nothing changes.
        """
        scope_id, tenant = await self._scopes.known(scope, _NONE), scope.tenant
        witness = await self._audit.witness(note) if self._audit else unseen
        async with acting(self._database, tenant, scope_id, witness) as (tx, version):
            locked = await tx.row("lock_document", tenant, scope_id, document_id)
            if locked is None or locked["deleted_at"] is None or locked["deleted_at"] < now - UNDO:
                raise NotFound(never_deleted("document"))
            may(await _read(tx, scope, scope_id, document_id))
            if await tx.value("name_taken", tenant, scope_id, locked["name"], locked["session_id"]) is not None:
                raise Conflict("another document has this name by now; delete that one first")
            found = await tx.fetch("shown_chunks", tenant, document_id, locked["deleted_at"])
            back = sorted(row["memory_id"] for row in found)
            await tx.run_many("hide_memory", ((tenant, one, None, version) for one in back))
            await announce(tx, tenant, scope_id, "restored", back, by="api", at=now)
            await tx.run("hide_document", tenant, document_id, None)
            return await _read(tx, scope, scope_id, document_id)


async def _read(tx: Transaction, scope: Scope, scope_id: int, document_id: UUID) -> DocumentRecord:
    row = await tx.row("document_by_id", scope.tenant, scope_id, document_id)
    if row is None:
        raise NotFound(_NONE)
    return _document(row)


def _document(row: Any) -> DocumentRecord:
    upload = UploadRecord(
        upload_id=row["upload_id"],
        status=row["status"],
        reason=row["reason"],
        media_type=row["upload_media_type"],
        bytes_given=row["upload_bytes"],
        chunks=row["upload_chunks"],
        embedded=row["embedded"],
        new_chunks=row["new_chunks"],
        same_chunks=row["same_chunks"],
        gone_chunks=row["gone_chunks"],
        held_back=row["held_back"],
        created_at=row["uploaded_at"],
        finished_at=row["finished_at"],
    )
    file = (row["media_type"], row["sha256"], row["bytes"], row["chars"], row["pages"])
    return DocumentRecord(
        document_id=row["document_id"],
        name=row["name"],
        version=row["version"],
        facts=FileFacts(*file, row["integrity"], row["sensitivity"]),
        inline=row["inline_as"],
        session_id=row["session_id"],
        shown_in=row["shown_in"],
        chunks=row["chunks"],
        created_at=row["created_at"],
        changed_at=row["changed_at"],
        deleted_at=row["deleted_at"],
        upload=upload,
    )


def _chunk(row: Any, said: Any, now: datetime) -> ChunkRecord:
    is_over = said["expires_at"] is not None and said["expires_at"] <= now
    return ChunkRecord(
        ordinal=row["ordinal"],
        memory_id=row["memory_id"],
        version=said["version"],
        start=row["span_start"],
        end=row["span_end"],
        page=row["page"],
        page_to=row["page_to"],
        content=said["content"],
        heading=_heading(said),
        sensitivity=said["sensitivity"],
        hidden=said["hidden"] or ("expired" if is_over else ""),
    )


def _heading(said: Any) -> tuple[str, ...]:
    """The headings above a chunk, as its attributes have them: a person may have written others there."""
    found = said["attributes"].get("heading") if isinstance(said["attributes"], dict) else None
    return tuple(str(one) for one in found) if isinstance(found, list) else ()


def _citation(row: Any, heading: tuple[str, ...]) -> Citation:
    where = (row["page"], row["page_to"], row["span_start"], row["span_end"])
    return Citation(row["document_id"], row["name"], *where, heading)
