"""Checkpoints in Postgres: a scope and what is to be kept under a name in, checkpoints with their parts out.

A save, a change, a branch, a deletion each are one transaction with their audit row, or nothing. Words are memories of
their own (kind working, collection checkpoint) or ones that are there: a part names a memory and a version. Raises
NotFound, Conflict, TooLarge, StoreUnavailable, MemoryInvalid for a cursor that is none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence, Set
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import rows
from memory.adapters.postgres.acting import acting
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.cursors import Order, cursor_of, read_cursor
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.own_memory import add_own_memory, require_version, standing, times_of
from memory.adapters.postgres.rows import OpenSession, Place
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.sealing import SEALED_LABELS
from memory.audit import Note
from memory.checkpoints import Checkpoint, CheckpointRow, Giving, NewCheckpoint, NewPart, PartState, StoredPart
from memory.errors import Conflict, NotFound, TooLarge
from memory.ids import new_id
from memory.model import LedgerNode, Scope, Times
from memory.read.conversation import RESTORE
from memory.read.restore import mark_of
from memory.stored import Page
from policies.labels import Sensitivity, derived_sensitivity
from policies.lifetime import UNDO, never_deleted

CHECKPOINTS_MAX: Final = 1_000
"""Live ones of a scope."""
_NONE: Final = "there is no such checkpoint in this scope"
# Retrievals of a conversation that are looked through for what it was given.
_RETRIEVALS_LOOKED_THROUGH: Final = 200


class CheckpointStore:
    """The checkpoints of one store. `embeddings` is the table that vectors of parts go to; `subject_of` gives the
    subject of a user.
    """

    def __init__(
        self,
        database: Database,
        scopes: Scopes,
        embeddings: str,
        audit: AuditLog,
    ) -> None:
        self._database = database
        self._scopes = scopes
        self._audit = audit
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)

    # ------------------------------------------------------------ writing

    async def save(
        self,
        scope: Scope,
        subject_id: UUID,
        new: NewCheckpoint,
        *,
        now: datetime,
        note: Note,
        source: Scope | None = None,
        given: Giving | None = None,
    ) -> Checkpoint:
        """Keep it under its name. `source`: the scope that its parts are copied from; `given`: load it at once. Raises
        Conflict where the name is taken, or a memory that it names has gone.
        """
        scope_id = await self._scopes.ensure(scope)
        witness = await self._audit.witness(note, *([given.note] if given else ()))
        place = Place(scope.tenant, scope_id, subject_id, new_id(), now)
        seen = await self._seen(scope, scope_id)
        source_id = await self._scopes.known(source, _NONE) if source is not None else None
        within = seen if source_id is None else sorted({*seen, source_id})
        async with self._database.transaction(scope.tenant, within) as tx:
            if source_id is not None:  # before this scope's version: who ends a source has locked it before its copies
                await _require_sources(tx, scope.tenant, source_id, new.parts)
            changed = await tx.value("bump_scope", scope.tenant, scope_id)
            await _add_checkpoint(tx, place, new.name, new.session_id, times=new.times)
            await self._write_version(tx, place, 1, new, changed, seen)
            if source_id is not None:
                await _follow_sources(tx, place, source_id, new.parts)
            if given is not None:
                await _give(tx, place, 1, given.session_id)
            await witness(tx)
            return await _one(tx, scope, scope_id, seen, new.name)

    async def change(
        self, scope: Scope, subject_id: UUID, version: int, new: NewCheckpoint, *, now: datetime, note: Note
    ) -> Checkpoint:
        """The next version of the checkpoint of this name. Raises NotFound, Conflict for another version than that it
        was made from.
        """
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        seen = await self._seen(scope, scope_id)
        async with acting(self._database, scope.tenant, scope_id, witness, seen=seen) as (tx, changed):
            known = await _locked(tx, scope, scope_id, new.name)
            if known["version"] == version + 1:
                checkpoint = await _one(tx, scope, scope_id, seen, new.name)
                if _is_made(checkpoint.parts, new.parts):  # the same change, whose answer never came
                    return checkpoint
            require_version(known, version, "checkpoint")
            place = Place(scope.tenant, scope_id, subject_id, UUID(int=known["checkpoint_id"].int), now)
            await tx.run("close_checkpoint_version", scope.tenant, place.exchange_id, now)
            before = await tx.fetch("checkpoint_parts_of", scope.tenant, place.exchange_id, version)
            known_by_it = {UUID(int=row["memory_id"].int) for row in before}
            await self._write_version(tx, place, version + 1, new, changed, seen, known_by_it)
            await tx.run("point_checkpoint", scope.tenant, place.exchange_id, version + 1, now)
            return await _one(tx, scope, scope_id, seen, new.name)

    async def branch(self, scope: Scope, name: str, new_name: str, *, now: datetime, note: Note) -> Checkpoint:
        """Another name for the same parts, which goes on by itself. Raises NotFound, Conflict."""
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        seen = await self._seen(scope, scope_id)
        async with acting(self._database, scope.tenant, scope_id, witness, seen=seen) as (tx, _):
            source = await _locked(tx, scope, scope_id, name)
            place = Place(scope.tenant, scope_id, UUID(int=0), new_id(), now)
            origin = (source["checkpoint_id"], source["version"])
            await _add_checkpoint(tx, place, new_name, source["session_id"], *origin)
            known = await tx.row("checkpoint_version", scope.tenant, *origin)
            tokens = known["tokens"] if known else 0
            await tx.run("add_checkpoint_version", scope.tenant, place.exchange_id, 1, scope_id, tokens, now)
            parts = await tx.fetch("checkpoint_parts_of", scope.tenant, *origin)
            await tx.run_many("add_checkpoint_part", (_part_row(place, 1, row) for row in parts))
            return await _one(tx, scope, scope_id, seen, new_name)

    async def delete(self, scope: Scope, name: str, *, version: int | None = None, now: datetime, note: Note) -> None:
        """Hide it, and the memories that were made for it alone. Raises NotFound,
        and Conflict for another `version`.
        """
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            known = await _locked(tx, scope, scope_id, name)
            require_version(known, version, "checkpoint")
            found = await tx.fetch("own_parts_alone", scope.tenant, known["checkpoint_id"])
            alone = [UUID(int=row["memory_id"].int) for row in found]
            await tx.run("mark_checkpoint_deleted", scope.tenant, known["checkpoint_id"], now)
            await tx.run_many("hide_memory", ((scope.tenant, one, now, changed) for one in alone))
            await announce(tx, scope.tenant, scope_id, "deleted", alone, by="api", at=now)

    async def undelete(
        self, scope: Scope, name: str, *, now: datetime, note: Note, may: Callable[[CheckpointRow], None]
    ) -> Checkpoint:
        """Bring back the one of this name that was deleted last, within 30 days. Raises NotFound, TooLarge, Conflict
        where the name is taken by now, and what `may` does: then nothing changes.
        """
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        seen = await self._seen(scope, scope_id)
        async with acting(self._database, scope.tenant, scope_id, witness, seen=seen) as (tx, changed):
            gone = await tx.row("deleted_checkpoint", scope.tenant, scope_id, name)
            if gone is None or gone["deleted_at"] < now - UNDO:
                raise NotFound(never_deleted("checkpoint"))
            found = await tx.fetch("own_parts_gone", scope.tenant, gone["checkpoint_id"])
            back = [UUID(int=row["memory_id"].int) for row in found]
            if await tx.row("mark_checkpoint_deleted", scope.tenant, gone["checkpoint_id"], None) is None:
                raise _taken()
            await tx.run_many("hide_memory", ((scope.tenant, one, None, changed) for one in back))
            await announce(tx, scope.tenant, scope_id, "restored", back, by="api", at=now)
            shown = await _one(tx, scope, scope_id, seen, name)
            may(shown.row)
            await _require_room(tx, scope.tenant, scope_id, 0)  # for who may see it: to others there is none
        return shown

    async def load(self, scope: Scope, checkpoint: Checkpoint, given: Giving, *, now: datetime) -> None:
        """Have a conversation's next message be given it, also where Redis forgets that."""
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(given.note)
        place = Place(scope.tenant, scope_id, UUID(int=0), checkpoint.row.checkpoint_id, now)
        async with self._database.transaction(scope.tenant, [scope_id]) as tx:
            await _give(tx, place, checkpoint.version, given.session_id)
            await witness(tx)

    # ------------------------------------------------------------ reading

    async def one(self, scope: Scope, name: str, *, version: int | None = None) -> Checkpoint:
        """A checkpoint with its parts, in its current version or another. Raises NotFound."""
        scope_id = await self._scopes.known(scope, _NONE)
        seen = await self._seen(scope, scope_id)
        async with self._database.transaction(scope.tenant, seen, read_only=True) as tx:
            return await _one(tx, scope, scope_id, seen, name, version)

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None = None,
        order: Order = "desc",
        session_id: UUID | None = None,
    ) -> Page[CheckpointRow]:
        """Live checkpoints by when they were made. Raises MemoryInvalid for a bad cursor."""
        scope_id = await self._scopes.find(scope)
        at = read_cursor(cursor, order)
        if scope_id is None:
            return Page((), None)
        name = "checkpoints_newest" if order == "desc" else "checkpoints_oldest"
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch(name, scope.tenant, scope_id, *at, limit + 1, session_id)
        shown = tuple(CheckpointRow(**row) for row in found[:limit])
        return Page(shown, cursor_of(shown[-1].created_at, shown[-1].checkpoint_id) if len(found) > limit else None)

    async def placed(self, scope: Scope, session_id: UUID, limit: int) -> list[tuple[UUID, str, int]]:
        """Facts and documents that a conversation was given, the newest first: id, kind, version."""
        scope_id = await self._scopes.known(scope, _NONE)
        seen = await self._seen(scope, scope_id)
        async with self._database.transaction(scope.tenant, seen, read_only=True) as tx:
            asked = (session_id, _RETRIEVALS_LOOKED_THROUGH, limit)
            found = await tx.fetch("placed_in_session", scope.tenant, *asked)
        return [(UUID(int=row["memory_id"].int), row["kind"], row["version"]) for row in found]

    async def pinned(self, scope: Scope, limit: int) -> list[tuple[UUID, int]]:
        """The preferences that are pinned and hold: id, version."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return []
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("pinned_preferences", scope.tenant, [scope_id], limit)
        return [(UUID(int=row["memory_id"].int), row["version"]) for row in found]

    async def turn_labels(self, scope: Scope, event_ids: Sequence[UUID]) -> dict[UUID, tuple[str, str]]:
        """Integrity and sensitivity of these turns; one that is not there has none."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None or not event_ids:
            return {}
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("labels_of_turns", scope.tenant, list(event_ids))
        return {UUID(int=row["event_id"].int): (row["integrity"], row["sensitivity"]) for row in found}

    # ------------------------------------------------------------ steps

    async def _write_version(
        self,
        tx: Transaction,
        place: Place,
        version: int,
        new: NewCheckpoint,
        changed: int,
        seen: Sequence[int],
        before: Set[UUID] = frozenset(),
    ) -> None:
        """The parts of a version: memories that are made first, then their names in order. `before`: what the version
        before it names, and may name on while it is hidden.
        """
        await _require_standing(tx, place.tenant, seen, new.parts, before)
        made = [one.made for one in new.parts if one.made is not None]
        for memory in made:
            await add_own_memory(
                tx,
                place,
                memory,
                "checkpoint",
                session_id=new.session_id,
                changed=changed,
                add_embedding=self._add_embedding,
            )
        told = [memory.memory_id for memory in made]
        await announce(tx, place.tenant, place.scope_id, "created", told, by="api", at=place.now)
        key = (place.tenant, place.exchange_id, version)
        await tx.run("add_checkpoint_version", *key, place.scope_id, new.tokens, place.now)
        await tx.run_many(
            "add_checkpoint_part",
            (
                (*key, ordinal, place.scope_id, one.part, one.memory_id, one.version, one.own)
                for ordinal, one in enumerate(new.parts)
            ),
        )

    async def _seen(self, scope: Scope, scope_id: int) -> list[int]:
        """The scopes whose memories a part may name: all that are visible."""
        return sorted({scope_id, *(one.scope_id for one in await self._scopes.visible(scope))})


async def _one(
    tx: Transaction, scope: Scope, scope_id: int, seen: Sequence[int], name: str, version: int | None = None
) -> Checkpoint:
    row = await tx.row("checkpoint_by_name", scope.tenant, scope_id, name)
    if row is None:
        raise await _not_there(tx, scope, scope_id, name)
    asked = version or row["version"]
    known = await tx.row("checkpoint_version", scope.tenant, row["checkpoint_id"], asked)
    if known is None:
        raise NotFound(f"this checkpoint has no version {asked}; it is at {row['version']}")
    parts = await _parts_of(tx, scope, seen, row["checkpoint_id"], asked)
    return Checkpoint(CheckpointRow(**row), asked, known["recorded_from"], known["tokens"], parts)


async def _locked(tx: Transaction, scope: Scope, scope_id: int, name: str) -> Any:
    row = await tx.row("lock_checkpoint", scope.tenant, scope_id, name)
    if row is None:
        raise await _not_there(tx, scope, scope_id, name)
    return row


async def _not_there(tx: Transaction, scope: Scope, scope_id: int, name: str) -> NotFound:
    """That it is not there; and when it was deleted, while it can be brought back."""
    gone = await tx.row("deleted_checkpoint", scope.tenant, scope_id, name)
    if gone is None or gone["deleted_at"] < datetime.now(UTC) - UNDO:
        return NotFound(_NONE)
    return NotFound(f"this checkpoint was deleted on {gone['deleted_at']:%Y-%m-%d}; undelete brings it back")


async def _add_checkpoint(
    tx: Transaction,
    place: Place,
    name: str,
    session_id: UUID | None,
    branched_from: UUID | None = None,
    branched_version: int | None = None,
    times: Times | None = None,
) -> None:
    """The row of a new checkpoint, whose id is the place's. Raises Conflict, TooLarge."""
    await _require_room(tx, place.tenant, place.scope_id)
    asked = (place.exchange_id, place.scope_id, name, session_id, branched_from, branched_version)
    if await tx.row("add_checkpoint", place.tenant, *asked, *times_of(times, place.now)) is None:
        raise _taken()


async def _require_room(tx: Transaction, tenant: UUID, scope_id: int, more: int = 1) -> None:
    """So many more may be live. Raises TooLarge."""
    if await tx.value("count_checkpoints", tenant, scope_id) + more > CHECKPOINTS_MAX:
        raise TooLarge(f"a scope holds at most {CHECKPOINTS_MAX} checkpoints; delete some", param="name")


async def _give(tx: Transaction, place: Place, version: int, session_id: UUID) -> None:
    """The mark by which a conversation's next message is given the checkpoint whose id is the place's."""
    mark = mark_of(place.exchange_id, version)
    node = LedgerNode(RESTORE, -1, None, mark, hashlib.sha256(mark).digest(), 0, place.exchange_id, anew=True)
    await tx.run("add_ledger_node", *rows.node_row(place, OpenSession(session_id, 0, 0), node))


def _is_made(known: Sequence[StoredPart], new: Sequence[NewPart]) -> bool:
    """Whether these are the parts that are to be stored: the same memories, or words made for it that say the same."""
    return len(known) == len(new) and all(
        one.part == wanted.part
        and (
            (one.memory_id, one.memory_version) == (wanted.memory_id, wanted.version)
            if wanted.made is None
            else one.own and (one.saved, one.sensitivity) == (wanted.made.content, wanted.made.sensitivity.value)
        )
        for one, wanted in zip(known, new, strict=True)
    )


def _taken() -> Conflict:
    return Conflict("a checkpoint of this name is there already: choose another, or change that one", param="name")


async def _require_standing(
    tx: Transaction, tenant: UUID, scope_ids: Sequence[int], parts: Iterable[NewPart], besides: Set[UUID]
) -> None:
    """Raises Conflict where a memory that is named has gone since it was read."""
    named = {one.memory_id for one in parts if one.made is None} - besides
    if not named:
        return
    found = await tx.fetch("memories_to_keep", tenant, list(scope_ids), sorted(named))
    if missing := named - {UUID(int=row["memory_id"].int) for row in found}:
        raise Conflict(f"{len(missing)} of the memories changed or went away while this was read; try again")


async def _require_sources(tx: Transaction, tenant: UUID, source_id: int, parts: Iterable[NewPart]) -> None:
    """Raises Conflict where what is to be copied has gone since it was read, or says or is labelled otherwise."""
    taken = {one.copied_from: one.made.content for one in parts if one.copied_from is not None and one.made is not None}
    found = await tx.fetch("memories_to_keep", tenant, [source_id], list(taken))
    ids, numbers = [row["memory_id"] for row in found], [row["version"] for row in found]
    now = await tx.fetch("versions_by_number", tenant, ids, numbers)  # behind the locks: nobody changes them any more
    same = {(UUID(int=row["memory_id"].int), row["content"]) for row in now if row["sensitivity"] not in SEALED_LABELS}
    if missing := taken.items() - same:
        raise Conflict(f"{len(missing)} of the memories changed or went away while this was read; try again")


async def _follow_sources(tx: Transaction, place: Place, source_id: int, parts: Iterable[NewPart]) -> None:
    """What was copied ends with what it was copied from, as what is shared does (migration 0015)."""
    for one in parts:
        if one.copied_from is not None:
            ids = (place.tenant, one.copied_from, one.memory_id)
            await tx.run("add_share", *ids, place.scope_id, source_id, place.now)
            edge = (one.memory_id, "summary", one.copied_from, "memory", 0, place.scope_id, None, None)
            await tx.run("add_derivation", place.tenant, *edge)


def _part_row(place: Place, version: int, row: Any) -> tuple[Any, ...]:
    rest = (row["ordinal"], place.scope_id, row["part"], row["memory_id"], row["memory_version"], row["own"])
    return (place.tenant, place.exchange_id, version, *rest)


async def _parts_of(
    tx: Transaction, scope: Scope, scope_ids: Sequence[int], checkpoint_id: UUID, version: int
) -> tuple[StoredPart, ...]:
    named = await tx.fetch("checkpoint_parts_of", scope.tenant, checkpoint_id, version)
    if not named:
        return ()
    ids = [row["memory_id"] for row in named]
    by_id = {row["memory_id"]: row for row in await standing(tx, scope.tenant, scope_ids, ids)}
    old = [(row["memory_id"], row["memory_version"]) for row in named if row["memory_id"] in by_id]
    versions = await tx.fetch("versions_by_number", scope.tenant, [one for one, _ in old], [at for _, at in old])
    saved = {(row["memory_id"], row["version"]): row for row in versions}
    return tuple(
        _stored_part(row, by_id[row["memory_id"]], saved.get((row["memory_id"], row["memory_version"])))
        for row in named
        if row["memory_id"] in by_id
    )


def _stored_part(row: Any, now: Any, saved: Any | None) -> StoredPart:
    """A part with its words of now and those that were `saved`, as sensitive as the more sensitive of the two."""
    labels = [now["sensitivity"], *([saved["sensitivity"]] if saved is not None else [])]
    return StoredPart(
        part=row["part"],
        ordinal=row["ordinal"],
        own=row["own"],
        memory_id=UUID(int=row["memory_id"].int),
        memory_version=row["memory_version"],
        current_version=now["version"],
        kind=now["kind"],
        content=now["content"],
        saved=saved["content"] if saved is not None else "",
        role=now["role"],
        integrity=now["integrity"],
        sensitivity=derived_sensitivity(map(Sensitivity, labels)).value,
        session_id=now["session_id"],
        occurred_at=now["occurred_at"],
        state=_state(now),
        successor=now["successor_id"],
    )


def _state(now: Any) -> PartState:
    if now["hidden"]:
        state: PartState = now["hidden"]
        return state
    return "superseded" if now["successor_id"] is not None else ""
