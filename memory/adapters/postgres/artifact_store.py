"""Artifacts in Postgres: a scope and a file whose bytes are kept in, files with the words of their memories out.

Each act is one transaction with its audit row, or nothing. Bytes that are kept and not committed are found by their
collection; the one who commits looks, under the scope's version, whether they are still there, and a removal at once
holds the same lock: no row names bytes that are gone. Raises NotFound, Conflict, TooLarge, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import batch
from memory.adapters.postgres.acting import acting
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.cursors import Order, cursor_of, read_cursor
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.own_memory import (
    add_next_version,
    add_own_memory,
    is_made,
    only,
    require_turn,
    require_version,
    standing_by_id,
    turn_memory,
)
from memory.adapters.postgres.rows import Place
from memory.adapters.postgres.scopes import Scopes
from memory.artifacts import CARD, About, Artifact, Blobs, Collected, Content, NewArtifact, Owner
from memory.audit import Note
from memory.errors import NotFound, StoreUnavailable, TooLarge
from memory.model import NewMemory, Scope, ScopeId, SessionRef
from memory.stored import Page
from policies.entity import scalars_of, text_of
from policies.lifetime import UNDO

_NONE: Final = "there is no such artifact in this scope"
AWAKE_S: Final = 5.0
"""How often the server hears of a transaction that waits for files: it ends one that says nothing for half a minute."""


class ArtifactStore:
    """The files of one store. `embeddings` is the table that the vectors of their cards go to."""

    def __init__(self, database: Database, scopes: Scopes, embeddings: str, audit: AuditLog, blobs: Blobs) -> None:
        self._database = database
        self._scopes = scopes
        self._audit = audit
        self._blobs = blobs
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)

    async def scope_id(self, scope: Scope) -> ScopeId:
        """The scope whose files these are to be; made where it is new."""
        return await self._scopes.ensure(scope)

    async def add(
        self,
        scope: Scope,
        new: NewArtifact,
        session: SessionRef | None,
        *,
        bytes_max: int,
        now: datetime,
        note: Note,
        seen: Callable[[Artifact], bool] = lambda _: True,
    ) -> tuple[Artifact, bool]:
        """Keep one, or give the newest that has these bytes and is `seen`: then true. Raises TooLarge: the scope's
        quota.
        """
        scope_id, witness = new.owner.scope_id, await self._audit.witness(note)
        place = Place(scope.tenant, scope_id, new.owner.subject_id, new.artifact_id, now)
        async with self._database.transaction(scope.tenant, [scope_id]) as tx:
            if session is not None:
                await batch.open_session(tx, place, session, now)
            changed = await tx.value("bump_scope", scope.tenant, scope_id)
            known = await _same(tx, scope.tenant, scope_id, new.blob.name, seen)
            if known is None:
                await _require_room(tx, scope, scope_id, new.blob.bytes, bytes_max, now)
                if not await self._blobs.has(new.owner, new.blob.name):
                    raise StoreUnavailable("what was forgotten meanwhile took these bytes too: send it again")
                session_id = session.session_id if session else None
                await self._add_card(tx, place, new.memory, session_id, changed)
                is_ = new.content
                row = (scope_id, new.owner.subject_id, session_id, new.memory.memory_id, new.blob.name, new.blob.bytes)
                facts = (is_.media_type, is_.width, is_.height)
                await tx.run("add_artifact", scope.tenant, new.artifact_id, *row, *facts, now)
                await announce(tx, scope.tenant, scope_id, "created", [new.memory.memory_id], by="api", at=now)
                await witness(tx)
            kept = await _by_id(tx, scope.tenant, scope_id, known or new.artifact_id)
        return only(kept, _NONE), known is not None

    async def change(
        self, scope: Scope, artifact_id: UUID, version: int, memory: NewMemory, *, now: datetime, note: Note
    ) -> Artifact:
        """What is said of it from now on. Raises NotFound, Conflict: another version."""
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            known = await tx.row("lock_artifact", scope.tenant, scope_id, artifact_id)
            if known is None or known["deleted_at"] is not None:
                raise NotFound(_NONE)
            place = Place(scope.tenant, scope_id, artifact_id, artifact_id, now)
            if await is_made(tx, place, known, known["memory_id"], version, memory):
                return only(await _by_id(tx, scope.tenant, scope_id, artifact_id), _NONE)
            require_version(known, version, "artifact")
            await add_next_version(
                tx, place, known["memory_id"], memory, changed=changed, add_embedding=self._add_embedding
            )
            await tx.run("change_artifact", scope.tenant, artifact_id, version + 1, now)
            return only(await _by_id(tx, scope.tenant, scope_id, artifact_id), _NONE)

    async def delete(
        self, scope: Scope, artifact_id: UUID, *, version: int | None = None, now: datetime, note: Note
    ) -> None:
        """Hide one with its card; its bytes stay while it can be brought back. Raises NotFound,
        and Conflict for another `version`.
        """
        await self._hide(scope, artifact_id, now, now, note, version=version)

    async def undelete(
        self, scope: Scope, artifact_id: UUID, *, now: datetime, note: Note, may: Callable[[Artifact], None]
    ) -> Artifact:
        """Bring it back, within 30 days. Raises NotFound, and what `may` does: then nothing changes."""
        return only(await self._hide(scope, artifact_id, None, now, note, may), _NONE)

    async def _hide(
        self,
        scope: Scope,
        artifact_id: UUID,
        at: datetime | None,
        now: datetime,
        note: Note,
        may: Callable[[Artifact], None] = lambda _: None,
        version: int | None = None,
    ) -> list[Artifact]:
        """What is shown again, none where it is hidden."""
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            found = await tx.row("lock_artifact", scope.tenant, scope_id, artifact_id)
            known = require_turn(found, "artifact", at, now)
            require_version(known, version, "artifact")
            await tx.run("mark_artifact_deleted", scope.tenant, artifact_id, at)
            card_id, gone_at = known["memory_id"], known["deleted_at"]
            await turn_memory(tx, scope.tenant, scope_id, card_id, at, gone_at=gone_at, changed=changed, now=now)
            back = await _by_id(tx, scope.tenant, scope_id, artifact_id) if at is None else []
            for one in back:
                may(one)
        return back

    # ------------------------------------------------------------ reading

    async def one(self, scope: Scope, artifact_id: UUID) -> Artifact:
        """One file. Raises NotFound."""
        return await self.of_scope(scope.tenant, await self._scopes.known(scope, _NONE), artifact_id)

    async def of_scope(self, tenant: UUID, scope_id: int, artifact_id: UUID) -> Artifact:
        """One file of a scope by its number, as a signed link names it. Raises NotFound."""
        async with self._database.transaction(tenant, [scope_id], read_only=True) as tx:
            return only(await _by_id(tx, tenant, scope_id, artifact_id), _NONE)

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None,
        order: Order = "desc",
        session_id: UUID | None = None,
    ) -> Page[Artifact]:
        """Files by when they were kept. Raises MemoryInvalid for a bad cursor."""
        scope_id, at = await self._scopes.find(scope), read_cursor(cursor, order)
        if scope_id is None:
            return Page((), None)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            name = "artifacts_newest" if order == "desc" else "artifacts_oldest"
            rows = await tx.fetch(name, scope.tenant, scope_id, *at, session_id, limit + 1)
            found = await _with_words(tx, scope.tenant, scope_id, rows[:limit])
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(tuple(found), cursor_of(last["created_at"], last["artifact_id"]) if last else None)

    # ------------------------------------------------------------ steps

    async def _add_card(
        self, tx: Transaction, place: Place, memory: NewMemory, session_id: UUID | None, changed: int
    ) -> None:
        await add_own_memory(
            tx, place, memory, "artifact", session_id=session_id, changed=changed, add_embedding=self._add_embedding
        )


class BlobKeeper:
    """Takes away what no row names that can be had or brought back: a database and blobs in, what was removed out.
    Raises StoreUnavailable.
    """

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs

    async def collect(self, now: datetime) -> list[Collected]:
        """One pass over everybody's blobs: marked now, removed after the grace. An owner at whose it fails holds up no
        other; what it failed with is raised behind the last.
        """
        await self._blobs.sweep_leftovers(now)
        found: list[Collected] = []
        fault: StoreUnavailable | None = None
        for owner in await self._blobs.owners():
            try:
                found.append(await self._of(owner, now, at_once=False))
            except StoreUnavailable as exc:
                fault = exc
        if fault is not None:
            raise fault
        return found

    async def forget(self, tenant: UUID, scope_ids: Sequence[int], now: datetime) -> AsyncIterator[int]:
        """Remove at once what no row of these scopes names; how many there were of each owner, once they are gone."""
        wanted = set(scope_ids)
        for owner in await self._blobs.owners(tenant):
            if owner.scope_id in wanted:
                yield len((await self._of(owner, now, at_once=True)).removed)

    async def _of(self, owner: Owner, now: datetime, *, at_once: bool) -> Collected:
        done: Collected | None = None
        try:
            async with self._database.transaction(owner.tenant_id, [owner.scope_id]) as tx:
                await tx.row("lock_scope", owner.tenant_id, owner.scope_id)
                rows = await tx.fetch("blobs_of_subject", owner.tenant_id, owner.scope_id, owner.subject_id, now - UNDO)
                named = {row["blob"] for row in rows}
                done = await _awake(tx, self._blobs.collect(owner, named, now, at_once=at_once))
        except StoreUnavailable:
            if done is None:
                raise  # else its end was not heard: it wrote nothing, and what it locked for is done
        return done


async def _awake(tx: Transaction, work: Coroutine[Any, Any, Collected]) -> Collected:
    """What this work comes to; the transaction, and with it what it has locked, lasts as long, cancelled or not."""
    working = asyncio.create_task(work)
    try:
        while not (await asyncio.wait((working,), timeout=AWAKE_S))[0]:
            await tx.value("ping")
    except asyncio.CancelledError:
        await asyncio.wait((working,))  # no thread can be ended: what it takes is taken before the lock is given back
        raise
    finally:
        working.cancel()
    return working.result()


async def _require_room(tx: Transaction, scope: Scope, scope_id: int, more: int, bytes_max: int, now: datetime) -> None:
    held = await tx.value("bytes_of_artifacts", scope.tenant, scope_id, now - UNDO)
    if held + more > bytes_max:
        raise TooLarge(
            f"the files of this scope have {held} of {bytes_max} bytes (artifacts.scope_bytes_max), this one {more}; "
            "forget some: a deleted one counts while it can be brought back",
            param="file",
        )


async def _same(
    tx: Transaction, tenant: UUID, scope_id: int, blob: str, seen: Callable[[Artifact], bool]
) -> UUID | None:
    """The newest that has these bytes, of those that are seen."""
    rows = await tx.fetch("artifacts_of_blob", tenant, scope_id, blob)
    found = await _by_id(tx, tenant, scope_id, *(UUID(int=row["artifact_id"].int) for row in rows))
    known = {one.artifact_id for one in found if seen(one)}
    return next((row["artifact_id"] for row in rows if row["artifact_id"] in known), None)


async def _by_id(tx: Transaction, tenant: UUID, scope_id: int, *artifact_ids: UUID) -> list[Artifact]:
    found = await tx.fetch("artifacts_by_id", tenant, scope_id, list(artifact_ids))
    return await _with_words(tx, tenant, scope_id, found)


async def _with_words(tx: Transaction, tenant: UUID, scope_id: int, found: Sequence[Any]) -> list[Artifact]:
    words = await standing_by_id(tx, tenant, scope_id, (row["memory_id"] for row in found))
    return [
        _artifact(tenant, scope_id, row, said) for row in found if (said := words.get(row["memory_id"])) is not None
    ]


def _artifact(tenant: UUID, scope_id: int, row: Any, said: Any) -> Artifact:
    card = said["attributes"].get(CARD)
    name, caption, text, sha256 = (text_of(card, member) for member in ("name", "caption", "text", "sha256"))
    return Artifact(
        artifact_id=UUID(int=row["artifact_id"].int),
        version=row["version"],
        owner=Owner(tenant, UUID(int=row["subject_id"].int), scope_id),
        blob=row["blob"],
        content=Content(row["media_type"], row["bytes"], sha256, row["width"], row["height"]),
        about=About(name, caption, text, scalars_of(card, "metadata")),
        session_id=row["session_id"],
        memory_id=UUID(int=row["memory_id"].int),
        integrity=said["integrity"],
        sensitivity=said["sensitivity"],
        hidden=said["hidden"],
        created_at=row["created_at"],
        changed_at=row["changed_at"],
    )
