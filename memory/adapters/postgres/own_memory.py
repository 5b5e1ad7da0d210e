"""A memory that is made for a record (a part of a checkpoint, a persona): its first version, the next, hidden and
shown, and as it stands, all in the record's own transaction.

That of a checkpoint and a persona is of kind `working`, which recall does not follow; that of a task, an entity and a
file is `semantic`, which it does, and pinned, so that no rule of age takes it. Each in a collection of its own; its
edges to turns are of kind summary, since what looks for a turn's own memory must not take it for that (decision 0030).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from memory.adapters.postgres import batch, rows
from memory.adapters.postgres.blocks import some_of
from memory.adapters.postgres.classify import classify
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.rows import Place
from memory.errors import Conflict, NotFound
from memory.model import NewMemory, Times, Unless
from memory.stored import Digests
from policies.labels import Sensitivity, derived_sensitivity, is_sealed
from policies.lifetime import UNDO, never_deleted

T = TypeVar("T")

Collection = Literal["checkpoint", "persona", "task", "entity", "artifact"]
STANDING_AT_ONCE: Final = 1_000
"""Memories that one statement reads: of one whom 20,000 name it took .8 s, and beside other work over five."""
_RECALLED: Final = frozenset({"task", "entity", "artifact"})


async def add_own_memory(
    tx: Transaction,
    place: Place,
    memory: NewMemory,
    collection: Collection,
    *,
    session_id: UUID | None,
    changed: int,
    add_embedding: Query,
) -> None:
    """Its identity, first version, provenance, edges and vectors. `changed`: the scope's version from now on; its
    lock keeps erasures out until this is stored. Raises Conflict for one that was forgotten, or quotes what was.
    """
    tenant, memory_id = place.tenant, memory.memory_id
    key = rows.key_of_its_own(collection.encode(), memory_id)
    at = (session_id, place.subject_id, changed, place.now)
    what = (collection, memory.kind, collection in _RECALLED)
    await tx.run("add_own_memory", tenant, memory_id, place.scope_id, key, *at, *what)
    if memory.unless is not None:
        await _refuse_forgotten(tx, place, memory.unless)
    if memory.source_turns and await tx.value("turns_missing", tenant, list(memory.source_turns)) is not None:
        raise Conflict("what it quotes was forgotten while it was read; try again")
    await add_own_version(tx, place, memory, 1, add_embedding=add_embedding)
    await tx.run_many(
        "add_derivation",
        (
            (tenant, memory_id, "summary", source, "turn", ordinal, place.scope_id, None, None)
            for ordinal, source in enumerate(memory.source_turns)
        ),
    )


def times_of(elsewhere: Times | None, now: datetime) -> tuple[datetime, datetime]:
    """When a record was made and last changed."""
    return (elsewhere.created_at, elsewhere.changed_at) if elsewhere else (now, now)


async def _refuse_forgotten(tx: Transaction, place: Place, unless: Unless) -> None:
    """Behind the first row: an erasure waits for the transactions that write, so one of the two sees the other."""
    happened = {place.exchange_id: unless.happened}
    if (await batch.forgotten(tx, place, Digests(unless.tombstones), happened)).all_of_it:
        raise Conflict("it was forgotten, and does not come back")


async def add_own_version(
    tx: Transaction, place: Place, memory: NewMemory, version: int, *, add_embedding: Query
) -> None:
    """One version of its words, with provenance and vectors; the one before has been closed."""
    memory_id = memory.memory_id
    await tx.run("add_version", *rows.version_row(place, memory_id, version, memory))
    await tx.run("add_provenance", *rows.provenance_row(place, memory_id, version, memory, None))
    await tx.run_many(add_embedding, rows.embedding_rows(place, memory_id, version, memory))


async def add_next_version(
    tx: Transaction,
    place: Place,
    memory_id: UUID,
    memory: NewMemory,
    *,
    changed: int,
    add_embedding: Query,
    lowers: bool = False,
) -> None:
    """The next version of a record's memory in place of the one in force, told to the feed. What a person has set of
    that one stays: weight, end, a rejection and, but where this `lowers` it, its label. A higher one is that of every
    version.
    """
    card_id = UUID(int=memory_id.int)
    known = (await standing_by_id(tx, place.tenant, place.scope_id, [card_id]))[card_id]
    label, was = memory.sensitivity, Sensitivity(known["sensitivity"])
    kept = replace(
        memory,
        memory_id=card_id,
        sensitivity=label if lowers else derived_sensitivity((label, was)),
        importance=known["importance"],
        expires_at=known["ends_at"],
        validation_status="rejected" if known["validation_status"] == "rejected" else memory.validation_status,
    )
    await tx.run("close_version", place.tenant, card_id, place.now)
    await add_own_version(tx, place, kept, known["version"] + 1, add_embedding=add_embedding)
    await tx.run("point_memory", place.tenant, card_id, known["version"] + 1, changed)
    if is_sealed(kept.sensitivity) and kept.sensitivity is not was:
        await classify(tx, place, card_id, kept.sensitivity, changed)
    await announce(tx, place.tenant, place.scope_id, "updated", [card_id], by="api", at=place.now)


async def is_made(
    tx: Transaction, place: Place, known: Any, memory_id: UUID, version: int, memory: NewMemory, *, lowers: bool = False
) -> bool:
    """Whether a record is at the version behind this one, and its memory as `add_next_version` would make it: it is the
    same change, whose answer never came.
    """
    if known["version"] != version + 1:
        return False
    said = (await standing_by_id(tx, place.tenant, place.scope_id, [memory_id]))[UUID(int=memory_id.int)]
    label, stands = memory.sensitivity, Sensitivity(said["sensitivity"])
    return (
        said["content"] == memory.content
        and said["attributes"] == memory.attributes
        and said["integrity"] == memory.integrity.value
        and stands is (label if lowers else derived_sensitivity((label, stands)))
    )


def require_turn(record: Any, kind: str, at: datetime | None, now: datetime) -> Any:
    """The record: there to be deleted (`at`), or deleted not too long ago to be brought back. Raises NotFound."""
    gone = record is not None and record["deleted_at"] is not None
    if record is None or gone != (at is None) or (gone and record["deleted_at"] < now - UNDO):
        raise NotFound(f"there is no such {kind} in this scope" if at else never_deleted(kind))
    return record


def only(found: Sequence[T], otherwise: str) -> T:
    """The first, which is the one that was asked for. Raises NotFound in these words where there is none."""
    if not found:
        raise NotFound(otherwise)
    return found[0]


def require_version(known: Any, version: int | None, kind: str) -> None:
    """That the record is at the version that a change was made from, where one is named. Raises Conflict."""
    if version is not None and known["version"] != version:
        raise Conflict(f"the {kind} is at version {known['version']}, the change was made from version {version}")


async def turn_memory(
    tx: Transaction,
    tenant: UUID,
    scope_id: int,
    memory_id: UUID,
    at: datetime | None,
    *,
    gone_at: datetime | None = None,
    changed: int,
    now: datetime,
) -> None:
    """Hide a record's memory, or show it again (`at` None), told to the feed. One that was hidden at another time than
    its record (`gone_at`) was so by itself, and stays so; one that stays hidden since another moment is not told of.
    """
    card_id = UUID(int=memory_id.int)
    known = await tx.row("lock_memory", tenant, scope_id, card_id)
    if known is None or known["deleted_at"] != gone_at:
        return
    await tx.run("hide_memory", tenant, card_id, at, changed)
    if at is None or gone_at is None:
        await announce(tx, tenant, scope_id, "deleted" if at else "restored", [card_id], by="api", at=now)


async def standing_by_id(tx: Transaction, tenant: UUID, scope_id: int, memory_ids: Iterable[UUID]) -> dict[UUID, Any]:
    """These memories as they are now, also those that no prompt gets, by id."""
    return {UUID(int=row["memory_id"].int): row for row in await standing(tx, tenant, [scope_id], list(memory_ids))}


async def standing(tx: Transaction, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Any]:
    """These memories as they are now; `hidden` says of one that is past its end that it is expired."""
    now = datetime.now(UTC)
    found: list[Any] = []
    for some in some_of(memory_ids, STANDING_AT_ONCE):
        found += await tx.fetch("memories_standing", tenant, list(scope_ids), list(some))
    return [{**row, "hidden": "expired"} if not row["hidden"] and _is_past(row, now) else row for row in found]


def _is_past(row: Any, now: datetime) -> bool:
    return row["ends_at"] is not None and row["ends_at"] <= now
