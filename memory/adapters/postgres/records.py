"""Records for the proxy's own API: a scope and a question in, pages of sessions, turns and memories out.

Everything acts inside one scope; what lies outside is NotFound, like what is not there. Lists go by key, so a page is
stable while rows are added. A change names the version it was made from, else Conflict; it makes a new version and
leaves the old one to `as_of`. Raises StoreUnavailable, MemoryInvalid for a cursor that is none of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from math import isclose
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import facts, procedures
from memory.adapters.postgres.acting import acting
from memory.adapters.postgres.audit import AuditLog, Witness, unseen
from memory.adapters.postgres.classify import classify
from memory.adapters.postgres.cursors import Order, cursor_of, encoded, read_cursor, read_position
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.facts import EmbeddingQueries
from memory.adapters.postgres.outbox import announce, announce_patch
from memory.adapters.postgres.own_memory import require_version
from memory.adapters.postgres.read_store import sources_of
from memory.adapters.postgres.restating import restate
from memory.adapters.postgres.rows import Place, base_of
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.sealing import SEALED_LABELS
from memory.adapters.postgres.withdrawn import withdraw_summaries
from memory.audit import Note
from memory.chain import is_chained
from memory.errors import Conflict, NotFound
from memory.ids import id_in
from memory.model import Scope, ScopeId
from memory.stored import (
    Counts,
    ExportedTurn,
    Label,
    MemoryChange,
    MemoryRecord,
    Page,
    RetrievalRecord,
    SealedExchange,
    SessionRecord,
    StoredTurn,
)
from policies.labels import Sensitivity
from policies.lifetime import UNDO, never_deleted
from policies.text import storable

_NONE: Final = "there is no such memory in this scope"
_EMPTY: Final = "nothing is stored in this scope"
_SINGLE: Final = 1e-6  # the store keeps an importance in four bytes


class Records:
    """The store as the API shows it. `embeddings` is the table whose vectors follow an edit. A `note` is written to the
    audit log in the change's own transaction.
    """

    def __init__(self, database: Database, scopes: Scopes, embeddings: str, audit: AuditLog | None = None) -> None:
        self._database = database
        self._scopes = scopes
        self._audit = audit
        self._copy_embeddings = database.queries["copy_embeddings"].of_table(embeddings)
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)

    async def sessions(
        self, scope: Scope, *, limit: int, cursor: str | None = None, order: Order = "desc"
    ) -> Page[SessionRecord]:
        """Conversations by when they began."""
        scope_id = await self._scopes.find(scope)
        at = read_cursor(cursor, order)
        if scope_id is None:
            return Page((), None)
        name = "sessions_newest" if order == "desc" else "sessions_oldest"
        async with self._reading(scope, scope_id) as tx:
            found = await tx.fetch(name, scope.tenant, scope_id, *at, limit + 1)
        rows = tuple(SessionRecord(**row) for row in found[:limit])
        return Page(rows, cursor_of(rows[-1].created_at, rows[-1].session_id) if len(found) > limit else None)

    async def session(self, scope: Scope, name: str) -> SessionRecord:
        """A conversation by what the client calls it, else by its id. Raises NotFound."""
        scope_id = await self._scopes.known(scope, _EMPTY)
        async with self._reading(scope, scope_id) as tx:
            row = await tx.row("session_by_label", scope.tenant, scope_id, storable(name))
            if row is None and (session_id := id_in(name)) is not None:
                row = await tx.row("session_by_id", scope.tenant, scope_id, session_id)
        if row is None:
            raise NotFound("there is no such session in this scope")
        return SessionRecord(**row)

    async def end_session(self, scope: Scope, name: str, now: datetime) -> SessionRecord:
        """Note that its client ended a conversation. Raises NotFound."""
        session = await self.session(scope, name)
        scope_id = await self._scopes.known(scope, _EMPTY)
        async with self._database.transaction(scope.tenant, [scope_id]) as tx:
            await tx.run("end_session", scope.tenant, scope_id, session.session_id, now)
        return await self.session(scope, name)

    async def labels(self, scope: Scope, session_ids: Sequence[UUID]) -> dict[UUID, str]:
        """What clients call these conversations; one that is not there has none."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return {}
        async with self._reading(scope, scope_id) as tx:
            found = await tx.fetch("labels_of_sessions", scope.tenant, scope_id, list(session_ids))
        return {row["session_id"]: row["label"] for row in found}

    async def session_labels(self, scope: Scope, session_id: UUID) -> tuple[str, ...]:
        """The sensitivities that turns of a session have, each once."""
        scope_id = await self._scopes.known(scope, _EMPTY)
        async with self._reading(scope, scope_id) as tx:
            found = await tx.fetch("labels_in_session", scope.tenant, scope_id, session_id)
        return tuple(row["sensitivity"] for row in found)

    async def memory_labels(self, scope: Scope, memory_ids: Sequence[UUID]) -> dict[UUID, Label]:
        """The highest sensitivity that any version of these memories has, and why they are seen; one that is not there,
        or in no scope that is visible, has none.
        """
        seen = {one.scope_id: one.visibility for one in await self._scopes.visible(scope)}
        async with self._database.transaction(scope.tenant, list(seen), read_only=True) as tx:
            found = await tx.fetch("labels_of_memories", scope.tenant, list(memory_ids))
        labels: dict[UUID, Label] = {}
        for row in found:
            known, label = labels.get(row["memory_id"]), Sensitivity(row["sensitivity"])
            if known is None or label.rank > known.sensitivity.rank:
                labels[row["memory_id"]] = Label(label, seen[row["scope_id"]])
        return labels

    async def session_turns(
        self, scope: Scope, session_id: UUID, *, limit: int, after_seq: int = -1
    ) -> Page[StoredTurn]:
        """The turns of a session in order; the cursor is the last number as text."""
        scope_id = await self._scopes.known(scope, _EMPTY)
        async with self._reading(scope, scope_id) as tx:
            found = await tx.fetch("turns_since", scope.tenant, scope_id, session_id, after_seq + 1, limit + 1)
        rows = tuple(StoredTurn(**row) for row in found[:limit])
        return Page(rows, str(rows[-1].seq) if len(found) > limit else None)

    async def memories(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None = None,
        order: Order = "desc",
        kind: str | None = None,
        session_id: UUID | None = None,
        to_review: bool = False,
        now: datetime | None = None,
        bytes_max: int | None = None,
    ) -> Page[MemoryRecord]:
        """Memories that are neither deleted nor expired `now`, by when they were made; or, oldest first, those that are
        due for review, by since when. Of all kinds and sessions, oldest first, a page may be bound to `bytes_max`.
        """
        scope_id = await self._scopes.find(scope)
        at = read_cursor(cursor, order)
        if scope_id is None:
            return Page((), None)
        name = "memories_newest" if order == "desc" else "memories_oldest"
        if to_review:
            name = "memories_to_review"
        now = now or datetime.now(UTC)
        async with self._reading(scope, scope_id) as tx:
            if bytes_max is not None:
                limit = await tx.value("memories_within", scope.tenant, scope_id, *at, limit, bytes_max, now)
            found = await tx.fetch(name, scope.tenant, scope_id, *at, limit + 1, kind, session_id, now)
            rows = await _with_sources(tx, scope.tenant, found[:limit])
        if len(found) <= limit:
            return Page(rows, None)
        last = rows[-1]
        return Page(rows, cursor_of((last.review_due_at if to_review else None) or last.created_at, last.memory_id))

    async def memory(self, scope: Scope, memory_id: UUID, *, now: datetime | None = None) -> MemoryRecord:
        """One memory. Raises NotFound, also for one that is deleted, or expired `now`."""
        scope_id = await self._scopes.known(scope, _EMPTY)
        async with self._reading(scope, scope_id) as tx:
            found = await _read_memory(tx, scope, scope_id, memory_id)
        if found.expires_at is not None and found.expires_at <= (now or datetime.now(UTC)):
            raise NotFound(_NONE)
        return found

    async def patch_memory(
        self,
        scope: Scope,
        memory_id: UUID,
        version: int,
        change: MemoryChange,
        now: datetime,
        *,
        note: Note | None = None,
    ) -> MemoryRecord:
        """Change a memory made from `version`. Raises NotFound, Conflict when it has another version by now, unless
        that is the next one and says all that is asked: it is the same change, whose answer never came.
        """
        scope_id, witness = await self._scopes.known(scope, _EMPTY), await self._witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            locked = await tx.row("lock_memory", scope.tenant, scope_id, memory_id)
            if locked is None or locked["deleted_at"] is not None:
                raise NotFound(_NONE)
            if locked["version"] == version + 1 and _is_made(
                known := await _read_memory(tx, scope, scope_id, memory_id), change
            ):
                return known
            require_version(locked, version, "memory")
            change = await restate(tx, Place(scope.tenant, scope_id, memory_id, memory_id, now), memory_id, change)
            await self._write_version(tx, scope.tenant, scope_id, memory_id, version, change, now)
            await tx.run("point_memory", scope.tenant, memory_id, version + 1, changed)
            if change.sensitivity in SEALED_LABELS:
                place = Place(scope.tenant, scope_id, memory_id, memory_id, now)
                await classify(tx, place, memory_id, Sensitivity(change.sensitivity), changed)
            elif change.sensitivity is not None:
                await tx.run("raise_turns", scope.tenant, memory_id, change.sensitivity)
            released = change.validation_status == "confirmed" and await tx.row(
                "release_memory", scope.tenant, memory_id
            )
            await announce_patch(tx, scope.tenant, scope_id, memory_id, change, now, released=bool(released))
            if change.validation_status in ("confirmed", "rejected"):
                await tx.run("mark_reviewed", scope.tenant, memory_id, now)
            if change.validation_status == "rejected":
                await withdraw_summaries(tx, scope.tenant, scope_id, [memory_id], at=now, changed_version=changed)
            reviewed = change.validation_status is not None
            if reviewed or change.content is not None:
                await self._resettle(tx, scope, scope_id, [memory_id], now, changed, reviewed=reviewed)
                if locked["superseded_by"] is not None:  # it may have taken back what it had said for that one
                    await self._resettle(tx, scope, scope_id, [locked["superseded_by"]], now, changed)
            return await _read_memory(tx, scope, scope_id, memory_id)

    async def delete_memory(
        self, scope: Scope, memory_id: UUID, now: datetime, *, version: int | None = None, note: Note | None = None
    ) -> None:
        """Hide a memory, and the facts that nothing else supports; `as_of` still sees them.

        Raises NotFound, and Conflict for another `version`.
        """
        scope_id, witness = await self._scopes.known(scope, _EMPTY), await self._witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            locked = await tx.row("lock_memory", scope.tenant, scope_id, memory_id)
            if locked is None or locked["deleted_at"] is not None:
                raise NotFound(_NONE)
            require_version(locked, version, "memory")
            await tx.run("hide_memory", scope.tenant, memory_id, now, changed)
            with_it = [row["memory_id"] for row in await tx.fetch("facts_left_alone", scope.tenant, memory_id)]
            with_it += [row["memory_id"] for row in await tx.fetch("procedures_left_alone", scope.tenant, memory_id)]
            await tx.run_many("hide_memory", ((scope.tenant, fact, now, changed) for fact in with_it))
            gone = [memory_id, *with_it]
            await announce(tx, scope.tenant, scope_id, "deleted", gone, by="api", at=now)
            await self._resettle(tx, scope, scope_id, gone, now, changed)
            await withdraw_summaries(tx, scope.tenant, scope_id, gone, at=now, changed_version=changed)

    async def undelete_memory(
        self,
        scope: Scope,
        memory_id: UUID,
        now: datetime,
        *,
        note: Note | None = None,
        may: Callable[[MemoryRecord], None] = lambda _: None,
    ) -> MemoryRecord:
        """Show a deleted memory again, within 30 days. Raises NotFound, Conflict for that of a deleted record, or what
        `may` does: then nothing changes.
        """
        scope_id, witness = await self._scopes.known(scope, _EMPTY), await self._witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            locked = await tx.row("lock_memory", scope.tenant, scope_id, memory_id)
            if locked is None or locked["deleted_at"] is None or locked["deleted_at"] < now - UNDO:
                raise NotFound(never_deleted("memory"))
            gone = await tx.fetch("facts_gone_with", scope.tenant, memory_id, locked["deleted_at"])
            gone += await tx.fetch("procedures_gone_with", scope.tenant, memory_id, locked["deleted_at"])
            back = [memory_id, *(row["memory_id"] for row in gone)]
            await tx.run_many("hide_memory", ((scope.tenant, one, None, changed) for one in back))
            await announce(tx, scope.tenant, scope_id, "restored", back, by="api", at=now)
            await self._resettle(tx, scope, scope_id, back, now, changed)
            shown = await _read_memory(tx, scope, scope_id, memory_id)
            may(shown)
            if locked["withdrawn"]:
                raise NotFound("no such deleted memory: this summary is made anew by itself")
            if shown.expires_at is not None and shown.expires_at <= now:
                raise NotFound("no such deleted memory: it is past its end")
            record = await tx.value("deleted_record_of", scope.tenant, memory_id)
            if record == "relationship":
                raise Conflict("this memory is that of a deleted relationship: tie its ends anew")
            if record is not None:
                raise Conflict(f"this memory is that of a deleted {record} and comes back with it: undelete that")
            return shown

    async def retrieval(self, scope: Scope, retrieval_id: UUID) -> RetrievalRecord:
        """What one request was given. Raises NotFound."""
        scope_id = await self._scopes.known(scope, _EMPTY)
        async with self._reading(scope, scope_id) as tx:
            row = await tx.row("retrieval_by_id", scope.tenant, scope_id, retrieval_id)
        if row is None:
            raise NotFound("there is no such retrieval in this scope")
        return RetrievalRecord(**row)

    async def sealed_exchange(self, scope: Scope, exchange_id: UUID) -> SealedExchange:
        """The sealed parts of one exchange. Raises NotFound."""
        scope_id = await self._scopes.known(scope, _EMPTY)
        async with self._reading(scope, scope_id) as tx:
            row = await tx.row("exchange_sealed", scope.tenant, scope_id, exchange_id)
        if row is None:
            raise NotFound("no such exchange")
        parts = dict(row)
        base = base_of(parts.pop("base_id"), parts.pop("base_sealed"))
        return SealedExchange(**parts, base=base)

    async def export_turns(
        self, scope: Scope, *, limit: int, cursor: str | None = None, bytes_max: int | None = None
    ) -> Page[ExportedTurn]:
        """Every turn once, session by session, in order. A page says `bytes_max` bytes at most, or is one turn."""
        scope_id = await self._scopes.find(scope)
        after = (UUID(int=0), -1) if cursor is None else read_position(cursor)
        if scope_id is None:
            return Page((), None)
        async with self._reading(scope, scope_id) as tx:
            if bytes_max is not None:
                limit = await tx.value("turns_within", scope.tenant, scope_id, *after, limit, bytes_max)
            found = await tx.fetch("turns_in_order", scope.tenant, scope_id, *after, limit + 1, datetime.now(UTC))
        rows = tuple(_exported(row) for row in found[:limit])
        last = rows[-1].turn if len(found) > limit else None
        return Page(rows, encoded([str(last.session_id), last.seq]) if last else None)

    async def retrieval_ids(
        self, scope: Scope, *, limit: int, after: UUID, order: Order = "asc"
    ) -> list[dict[str, Any]]:
        """The next retrievals of the scope behind an id in this order: ids, when, how many tokens."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return []
        name = "retrieval_ids_of_scope" if order == "asc" else "retrieval_ids_newest"
        async with self._reading(scope, scope_id) as tx:
            return [dict(row) for row in await tx.fetch(name, scope.tenant, scope_id, after, limit)]

    async def counts(self, scope: Scope) -> Counts:
        """How much the scope holds."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return Counts(0, 0, 0)
        async with self._reading(scope, scope_id) as tx:
            row = await tx.row("counts_of_scope", scope.tenant, scope_id)
        return Counts(0, 0, 0) if row is None else Counts(**row)

    async def _resettle(
        self,
        tx: Transaction,
        scope: Scope,
        scope_id: ScopeId,
        memory_ids: list[UUID],
        now: datetime,
        changed: int,
        *,
        reviewed: bool = False,
    ) -> None:
        """A fact or procedure that comes or goes changes what else holds: what it had superseded does again, or not."""
        place = Place(scope.tenant, scope_id, memory_ids[0], memory_ids[0], now, by="api")
        embeddings = EmbeddingQueries(self._add_embedding, self._copy_embeddings)
        await facts.resettle(tx, place, memory_ids, changed_version=changed, embeddings=embeddings)
        await procedures.resettle(
            tx, place, memory_ids, changed_version=changed, embeddings=embeddings, reviewed=reviewed
        )

    async def _write_version(
        self,
        tx: Transaction,
        tenant: UUID,
        scope_id: int,
        memory_id: UUID,
        version: int,
        change: MemoryChange,
        now: datetime,
    ) -> None:
        content = None if change.content is None else storable(change.content)
        labels = (change.importance, change.sensitivity, change.validation_status)
        expiry = (change.expires_at, change.set_expires_at)
        await tx.run("close_version", tenant, memory_id, now)
        await tx.run("next_version", tenant, memory_id, version, now, content, *labels, *expiry, change.attributes)
        await tx.run("copy_provenance", tenant, memory_id, version, now, "edit")
        if change.pinned is not None:
            await tx.run("pin_memory", tenant, memory_id, change.pinned)
        if content is None:
            await tx.run(self._copy_embeddings, tenant, memory_id, version)
        elif change.vectors is not None:
            windows = enumerate(zip(change.windows, change.vectors, strict=True))
            place = (tenant, scope_id, memory_id, version + 1)
            await tx.run_many(self._add_embedding, ((*place, n, *span, vector) for n, (span, vector) in windows))

    async def _witness(self, note: Note | None) -> Witness:
        return unseen if note is None or self._audit is None else await self._audit.witness(note)

    def _reading(self, scope: Scope, scope_id: ScopeId) -> Any:
        return self._database.transaction(scope.tenant, [scope_id], read_only=True)


async def _read_memory(tx: Transaction, scope: Scope, scope_id: int, memory_id: UUID) -> MemoryRecord:
    row = await tx.row("memory_by_id", scope.tenant, scope_id, memory_id)
    if row is None or row["deleted_at"] is not None:
        raise NotFound(_NONE)
    return (await _with_sources(tx, scope.tenant, [row]))[0]


def _is_made(known: MemoryRecord, change: MemoryChange) -> bool:
    """Whether a memory is as a change would make it."""
    members = ("pinned", "sensitivity", "validation_status", "attributes")
    asked = {name: value for name in members if (value := getattr(change, name)) is not None}
    if change.content is not None:
        asked["content"] = storable(change.content)
    if change.set_expires_at:
        asked["expires_at"] = change.expires_at
    if change.importance is not None and not isclose(known.importance, change.importance, rel_tol=_SINGLE):
        return False
    return all(getattr(known, name) == value for name, value in asked.items())


async def _with_sources(tx: Transaction, tenant: UUID, found: Sequence[Any]) -> tuple[MemoryRecord, ...]:
    """Records with the turns they rest on."""
    sources = await sources_of(tx, tenant, [row["memory_id"] for row in found])
    return tuple(
        MemoryRecord(
            **row,
            source_ids=tuple(one["source_id"] or str(one["event_id"]) for one in sources.get(row["memory_id"], ())),
            event_ids=tuple(one["event_id"] for one in sources.get(row["memory_id"], ())),
        )
        for row in found
    )


def _exported(row: Any) -> ExportedTurn:
    turn = StoredTurn(**{one.name: row[one.name] for one in fields(StoredTurn)})
    opens = turn.parent_chain is None and is_chained({"role": turn.role})
    return ExportedTurn(row["label"], turn, row["memory"], "" if opens else row["parent"])
