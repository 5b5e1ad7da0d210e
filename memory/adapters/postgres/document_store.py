"""Documents on their way into the store: an upload staged, taken by a worker, and its chunks stored, or given up.

Staging is one transaction: the document's row, the upload's, its sealed blocks and the mark that it waits; what is
acknowledged after it is not lost. Storing is one too: memories, vectors, places, the mark gone; a worker that was
killed leaves nothing behind but the mark. Of two that have the same upload the later finds no mark of its own and
stores nothing. Raises StoreUnavailable, after which the same may be tried again; RateLimited where too many wait.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import batch, rows
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.batch import Numbered
from memory.adapters.postgres.classify import made_of, raise_made
from memory.adapters.postgres.cleaned import cleaned
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.outbox import announce_events
from memory.adapters.postgres.rows import OpenSession, Place
from memory.adapters.postgres.scopes import Scopes
from memory.audit import Note
from memory.documents import COLLECTION, OF_SESSION, Cut, DocumentDue, FileFacts, Kept, Staged, StoredChunk, Upload
from memory.errors import Conflict, RateLimited, StoreUnavailable
from memory.ids import new_id
from memory.model import LedgerNode, NewMemory, Scope
from memory.read.conversation import GIVEN
from memory.stored import Digests
from policies.labels import Integrity, Sensitivity, derived_sensitivity, is_sealed
from policies.text import storable

_STORING_MS: Final = 120_000
SUPERSEDED: Final = "a later upload of this name took its place"
FORGOTTEN: Final = "what it was for was forgotten after it was sent"


class DocumentStore:
    """The writing side. `embeddings` is the table of the model whose vectors are stored."""

    def __init__(self, database: Database, scopes: Scopes, embeddings: str, audit: AuditLog | None = None) -> None:
        self._database = database
        self._scopes = scopes
        self._audit = audit
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)

    async def stage(
        self,
        scope: Scope,
        upload: Upload,
        *,
        waiting_max: int,
        now: datetime,
        note: Note,
        may: Callable[[Sensitivity], None] = lambda _: None,
    ) -> UUID:
        """Keep an upload until a worker has stored it; returns its document's id. Raises what `may` does of the label
        of a document that has this name, and Conflict for a page of the web where that is a file: then it stays as it
        is.
        """
        scope_id = await self._scopes.ensure(scope)
        witness = await self._audit.witness(note) if self._audit else None
        place = Place(scope.tenant, scope_id, upload.subject_id, upload.upload_id, now)
        try:
            async with self._database.transaction(scope.tenant, [scope_id]) as tx:
                for session in {one.label: one for one in (upload.only_for, upload.shown_in) if one}.values():
                    await batch.open_session(tx, place, session, now)
                await tx.run("add_subject", scope.tenant, upload.subject_id, scope.user, now)
                if await tx.value("uploads_waiting", scope.tenant, scope_id) >= waiting_max:
                    raise RateLimited(
                        f"{waiting_max} uploads of this scope wait to be stored (documents.waiting_max); send it later",
                        retry_after_s=10,
                    )
                document_id = await _stage(tx, place, upload, may)
                if witness is not None:
                    await witness(tx, document_id)
        except StoreUnavailable:  # of a refusal the database tells
            self._scopes.drop(scope)
            raise
        return document_id

    async def was_deleted(self, scope: Scope, names: Sequence[str]) -> bool:
        """Whether a page of the web that had one of these names was deleted, and none has one now."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return False
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            return bool(await tx.value("page_deleted", scope.tenant, scope_id, list(map(storable, names))))

    async def take(self, lease_s: float) -> DocumentDue | None:
        """An upload that is this worker's for `lease_s`; None where nothing waits."""
        async with self._database.transaction(None) as tx:
            await tx.run("see_all_due")
            chosen = await tx.row("choose_document_due")
            row = chosen and await tx.row("take_document_due", chosen["tenant_id"], chosen["upload_id"], lease_s)
        return DocumentDue(row["tenant_id"], row["upload_id"], row["scope_id"], row["takes"]) if row else None

    async def keep(self, due: DocumentDue, lease_s: float) -> bool:
        """Have it for `lease_s` more; False where it is not there any more, or another's by now."""
        async with self._database.transaction(due.tenant) as tx:
            return await tx.value("keep_document_due", due.tenant, due.upload_id, due.takes, lease_s) is not None

    async def give_back(self, due: DocumentDue, pause_s: float = 0.0) -> None:
        """Another may take it after `pause_s`, unless one has it already; this time does not count."""
        async with self._database.transaction(due.tenant) as tx:
            await tx.run("give_back_document_due", due.tenant, due.upload_id, due.takes, pause_s)

    async def staged(self, due: DocumentDue) -> Staged | None:
        """What waits there; None where it was deleted or forgotten since."""
        async with self._database.transaction(due.tenant, [due.scope_id], read_only=True) as tx:
            row = await tx.row("upload_to_store", due.tenant, due.upload_id)
        return None if row is None else _staged(due.tenant, row)

    async def known(self, due: DocumentDue, memory_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Those of these chunks that the store has, hidden or not: they need no vectors."""
        async with self._database.transaction(due.tenant, [due.scope_id], read_only=True) as tx:
            found = await tx.fetch("memories_known", due.tenant, list(memory_ids))
        return frozenset(row["memory_id"] for row in found)

    async def note(self, due: DocumentDue, chunks: int, embedded: int) -> None:
        """Say how far it is."""
        async with self._database.transaction(due.tenant, [due.scope_id]) as tx:
            await tx.run("note_upload", due.tenant, due.upload_id, chunks, embedded)

    async def fail(self, due: DocumentDue, reason: str, now: datetime) -> bool:
        """Give an upload up; what was stored of its document before stays. False where it is gone, or another's."""
        async with self._database.transaction(due.tenant, [due.scope_id]) as tx:
            if await tx.value("finish_document_due", due.tenant, due.upload_id, due.takes) is None:
                return False
            nothing = (None,) * 6
            await tx.run("end_upload", due.tenant, due.upload_id, "failed", reason[:500], *nothing, now)
        return True

    async def finish(self, due: DocumentDue, staged: Staged, cut: Cut, now: datetime, digests: Digests) -> Kept | None:
        """Store what an upload was cut into; None where another has done it, or it is gone.

        Chunks that are known stay as they are; those that are not in the document any more are hidden. Raises
        StoreUnavailable where one that needed no vectors is gone since: it is to be cut anew.
        """
        place = Place(due.tenant, due.scope_id, staged.subject_id, due.upload_id, now)
        async with self._database.transaction(due.tenant, [due.scope_id], within_ms=_STORING_MS) as tx:
            version = await tx.value("bump_scope", due.tenant, due.scope_id)
            locked = await tx.row("lock_document", due.tenant, due.scope_id, staged.document_id)
            taken = await tx.value("finish_document_due", due.tenant, due.upload_id, due.takes)
            if locked is None or locked["deleted_at"] is not None or taken is None:
                return None
            at = {one.memory.memory_id: staged.created_at for one in cut.chunks}
            gone = await batch.forgotten(tx, place, digests, {**at, due.upload_id: staged.created_at})
            if gone.all_of_it:
                nothing = (None,) * 6
                await tx.run("end_upload", due.tenant, due.upload_id, "failed", FORGOTTEN, *nothing, now)
                await tx.run("drop_unstored_document", due.tenant, staged.document_id)
                return None
            chunks = [one for one in cut.chunks if one.memory.memory_id not in gone.items]
            await _keep_forgotten(tx, due.tenant, [digests.items[one] for one in gone.items], now)
            await cleaned(tx, place, cut.cleaned_by, cut.tokens)
            storing = _Storing(tx, place, staged, version, self._add_embedding)
            return await storing.store(chunks, int(locked["version"]), Sensitivity(locked["sensitivity"]))


async def _keep_forgotten(
    tx: Transaction, tenant: UUID, marks: Sequence[Sequence[tuple[str, bytes]]], now: datetime
) -> None:
    """Have chunks that were forgotten be known by their first mark, as by others: under the labels of now too."""
    own = [of[0] for of in marks if len(of) > 1]
    if own:
        await tx.run("add_tombstones", tenant, [kind for kind, _ in own], [value for _, value in own], now)


class _Storing:
    """One document inside its transaction."""

    def __init__(self, tx: Transaction, place: Place, staged: Staged, version: int, add_embedding: Any) -> None:
        self._tx = tx
        self._place = place
        self._staged = staged
        self._version = version
        self._add_embedding = add_embedding

    async def store(self, chunks: Sequence[StoredChunk], before: int, was: Sensitivity) -> Kept:
        """New chunks in, those that are gone hidden, those that came back shown, and where each stands. The document
        had this version and this label.
        """
        tx, place, staged = self._tx, self._place, self._staged
        ids = [one.memory.memory_id for one in chunks]
        of_these = [*ids, *(one.was for one in chunks if one.was)]
        known = {row["memory_id"]: row for row in await tx.fetch("memories_known", place.tenant, of_these)}
        before_ids = [row["memory_id"] for row in await tx.fetch("chunk_ids", place.tenant, staged.document_id)]
        stood = frozenset(before_ids)
        new = [one for one in chunks if one.memory.memory_id not in known]
        if any(one.memory.vectors is None for one in new):
            raise StoreUnavailable("a chunk that was known is gone; the document is cut anew")
        again = [one for one in chunks if one.memory.memory_id in known]
        latest = {one.memory.memory_id: known.get(one.was) or known.get(one.memory.memory_id) for one in chunks}
        out = {one for one, row in latest.items() if _is_kept_out(row, stood)}
        await self._add(await self._judged(new))
        await self._hide_again([one.memory.memory_id for one in new if one.memory.memory_id in out])
        gone = await self._hide(sorted(stood - set(ids)))
        await self._seal_earlier(ids, was, told=gone)
        back = {one for one in ids if one in known and known[one]["deleted_at"]} - out
        await self._show(sorted(back))
        await self._judge_again({one.memory.memory_id: one.was for one in again if one.was and one.was in known})
        await self._renew(again)
        await tx.run("drop_document_chunks", place.tenant, staged.document_id)
        await tx.run_many("add_document_chunk", (self._chunk_row(ordinal, one) for ordinal, one in enumerate(chunks)))
        moved = bool(new or gone or back) or ids != before_ids or not before
        facts = staged.facts
        labels = (facts.media_type, facts.sha256, facts.bytes_given, facts.chars, facts.pages)
        told = (*labels, facts.integrity, facts.sensitivity, place.now)
        await tx.run("put_document_version", place.tenant, staged.document_id, before + moved, *told)
        held = sum(bool(one.memory.quarantine) for one in new)
        counts = (len(chunks), len(chunks), len(new), len(chunks) - len(new), len(gone), held)
        await tx.run("end_upload", place.tenant, place.exchange_id, "done", None, *counts, place.now)
        return Kept(self._version, len(new), len(chunks) - len(new), len(gone), held)

    async def _add(self, new: Sequence[StoredChunk]) -> None:
        """Memories with their vectors, and the edge that leads from each to the document."""
        tx, place, staged = self._tx, self._place, self._staged
        await batch.store_memories(
            tx,
            place,
            [(staged.session_id, one.memory) for one in new],
            numbered=Numbered((), {}),
            changed_version=self._version,
            model=None,
            embeddings=self._add_embedding,
        )
        ids = [one.memory.memory_id for one in new]
        await tx.run("collect_memories", place.tenant, ids, OF_SESSION if staged.session_id else COLLECTION)
        to, scope_id = (staged.document_id, "document", 0), place.scope_id
        edges = ((place.tenant, one.memory.memory_id, "memory", *to, scope_id, one.start, one.end) for one in new)
        await tx.run_many("add_derivation", edges)

    async def _judged(self, new: Sequence[StoredChunk]) -> list[StoredChunk]:
        """New chunks as their words were judged under the labels of until now: what somebody rejected is, and nothing
        is less sensitive than it was.
        """
        was = [one.was for one in new if one.was]
        rows = await self._tx.fetch("memories_judged", self._place.tenant, was) if was else ()
        judged = {row["memory_id"]: row for row in rows}
        return [replace(one, memory=_as_judged(one.memory, judged.get(one.was))) for one in new]

    async def _judge_again(self, pairs: Mapping[UUID, UUID]) -> None:
        """Chunks under the labels of an earlier upload, as their words have been judged since under those of until now:
        each with what they were there.
        """
        if not pairs:
            return
        tx, place = self._tx, self._place
        rows = await tx.fetch("memories_judged", place.tenant, [*pairs.keys(), *pairs.values()])
        judged = {row["memory_id"]: (row["validation_status"], Sensitivity(row["sensitivity"])) for row in rows}
        lower: dict[Sensitivity, list[UUID]] = {}
        for one, was in pairs.items():
            (status, label), (status_was, label_was) = judged[one], judged[was]
            if status != status_was and "rejected" in (status, status_was):
                await tx.run("judge_memory", place.tenant, one, status_was)
            if label_was.rank > label.rank:
                lower.setdefault(label_was, []).append(one)
        for label, ids in lower.items():
            await raise_made(tx, place, ids, label, self._version, told=ids)

    async def _hide_again(self, hidden: Sequence[UUID]) -> None:
        """New chunks whose words somebody hid under the labels that the document has had until now."""
        tx, place = self._tx, self._place
        await tx.run_many("hide_memory", ((place.tenant, one, place.now, self._version) for one in hidden))
        await announce_events(tx, place, "deleted", hidden)

    async def _hide(self, gone: Sequence[UUID]) -> list[UUID]:
        """Chunks that the document does not have any more; those that are hidden already stay so since then, and what
        somebody hid is known from what this hides.
        """
        tx, place = self._tx, self._place
        known = await tx.fetch("memories_known", place.tenant, list(gone))
        shown = [row["memory_id"] for row in known if row["deleted_at"] is None]
        await tx.run("keep_hidden", place.tenant, [row["memory_id"] for row in known if row["deleted_at"]])
        await tx.run("unprune_memories", place.tenant, shown)
        await tx.run_many("hide_memory", ((place.tenant, one, place.now, self._version) for one in shown))
        await announce_events(tx, place, "deleted", shown)
        return shown

    async def _seal_earlier(self, ids: Sequence[UUID], was: Sensitivity, *, told: Sequence[UUID]) -> None:
        """Where the label rises to confidential or above, it is that of all that the document ever said."""
        tx, place, label = self._tx, self._place, Sensitivity(self._staged.facts.sensitivity)
        if is_sealed(label) and label.rank > was.rank:
            made = await made_of(tx, place, [self._staged.document_id])
            await raise_made(tx, place, set(made).difference(ids), label, self._version, told=told)

    async def _show(self, back: Sequence[UUID]) -> None:
        tx, place = self._tx, self._place
        await tx.run("unprune_memories", place.tenant, list(back))
        await tx.run_many("hide_memory", ((place.tenant, one, None, self._version) for one in back))
        await announce_events(tx, place, "restored", back)

    async def _renew(self, again: Sequence[StoredChunk]) -> None:
        """What is given again lives anew, as a fact that is said again does."""
        if again:
            ids = [one.memory.memory_id for one in again]
            await self._tx.run("renew_chunks", self._place.tenant, ids, again[0].memory.expires_at, self._version)

    def _chunk_row(self, ordinal: int, one: StoredChunk) -> tuple[Any, ...]:
        place, where = self._place, (one.start, one.end, one.page, one.page_to)
        return (place.tenant, self._staged.document_id, ordinal, place.scope_id, one.memory.memory_id, *where)


def _as_judged(memory: NewMemory, was: Any | None) -> NewMemory:
    if was is None:
        return memory
    label = derived_sensitivity([memory.sensitivity, Sensitivity(was["sensitivity"])])
    return replace(batch.as_judged(memory, was["validation_status"]), sensitivity=label)


def _is_kept_out(row: Any | None, stood: Collection[UUID]) -> bool:
    """Whether somebody hid this chunk: not a run, and no version that lacks it."""
    if row is None or row["deleted_at"] is None:
        return False
    return row["pruned_at"] != row["deleted_at"] if row["pruned_at"] else row["memory_id"] in stood


async def _stage(tx: Transaction, place: Place, upload: Upload, may: Callable[[Sensitivity], None]) -> UUID:
    """The document's row, and the upload's; earlier ones of this document that still wait give way, if they may."""
    facts = upload.facts
    file = (facts.media_type, facts.sha256, facts.bytes_given, facts.chars, facts.pages)
    only_for = upload.only_for.session_id if upload.only_for else None
    shown_in = upload.shown_in.session_id if upload.shown_in else None
    new = new_id()
    known = await tx.row(
        "put_document",
        place.tenant,
        new,
        place.scope_id,
        only_for,
        storable(upload.name),
        *file,
        upload.inline,
        shown_in,
        facts.integrity,
        facts.sensitivity,
        place.now,
    )
    if known is None:
        raise StoreUnavailable("a document was stored and is not there")
    document_id = UUID(int=known["document_id"].int)
    await tx.run("drop_ended_uploads", place.tenant, document_id)
    older = await tx.fetch("end_open_uploads", place.tenant, document_id, SUPERSEDED, place.now)
    if document_id != new:
        given = any(row["integrity"] != Integrity.WEB.value for row in (known, *older))
        if facts.integrity == Integrity.WEB.value and given:
            raise Conflict("a file that somebody gave has this name", param="name")
        may(derived_sensitivity(Sensitivity(row["sensitivity"]) for row in (known, *older)))
    await tx.run("drop_document_due", place.tenant, [row["upload_id"] for row in older])
    where = (place.tenant, upload.upload_id, document_id, place.scope_id, upload.subject_id)
    await tx.run("add_upload", *where, *file, facts.integrity, facts.sensitivity, upload.sealed, place.now)
    await tx.run("add_document_due", place.tenant, upload.upload_id, place.scope_id, place.now)
    if upload.is_given and upload.shown_in:
        mark = upload.upload_id.bytes
        node = LedgerNode(GIVEN, -1, None, mark, hashlib.sha256(mark).digest(), 0, upload.upload_id, anew=True)
        await tx.run("add_ledger_node", *rows.node_row(place, OpenSession(upload.shown_in.session_id, 0, 0), node))
    return document_id


def _staged(tenant: UUID, row: Any) -> Staged:
    facts = FileFacts(
        row["media_type"],
        row["sha256"],
        row["bytes"],
        row["chars"],
        row["pages"],
        row["integrity"],
        row["sensitivity"],
    )
    return Staged(
        document_id=row["document_id"],
        name=row["name"],
        scope=Scope(tenant, row["user_name"], row["project"], row["agent"]),
        session_id=row["session_id"],
        subject_id=row["subject_id"],
        facts=facts,
        sealed=row["sealed"],
        created_at=row["created_at"],
        labels=(row["stored_integrity"], row["stored_sensitivity"]),
        session=row["label"],
    )
