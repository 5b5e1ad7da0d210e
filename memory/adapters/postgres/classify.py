"""A memory becomes confidential: its label in, everything that says the same sealed out, in the caller's transaction.

The label is inherited both ways along the derivations: by the turns that the memory rests on, and by all that was made
of those turns, in every version; of a turn whose imported line has become confidential the second half is done alone.
What ties one to others by hand says its name: it is raised with the card.
Nothing is ever lowered here: to lower is one memory's PATCH. What a fact or procedure stated in the open beside its
text goes; it stays as a memory that nothing is held against (docs/decisions/0024). Copies in other scopes, shared or
parts of another project's checkpoint, are raised, sealed and hidden too: nothing that is so sensitive leaves its scope
(docs/decisions/0022).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.outbox import announce, announce_events
from memory.adapters.postgres.rows import Place, key_of_its_own
from policies.labels import Sensitivity, derived_sensitivity, is_sealed


async def classify(tx: Transaction, place: Place, memory_id: UUID, label: Sensitivity, changed_version: int) -> None:
    """Raise and seal what belongs to this memory. The transaction sees the place's scope, and behind this no other.
    Raises StoreUnavailable.
    """
    turns = await tx.fetch("turns_under", place.tenant, memory_id)
    lower = [row for row in turns if _raised(row, label) != row["sensitivity"]]
    await tx.run_many("seal_turn", (_turn(place, row, label) for row in lower))
    ids = {memory_id, *await made_of(tx, place, [row["event_id"] for row in turns])}
    ids |= {row["memory_id"] for row in await tx.fetch("ties_of_card", place.tenant, memory_id)}
    await raise_made(tx, replace(place, by="api"), ids, label, changed_version, told={memory_id})


async def made_of(tx: Transaction, place: Place, event_ids: Sequence[UUID]) -> list[UUID]:
    """The memories that were made of these turns, at first hand or through what was made of them."""
    found = await tx.fetch("memories_over", place.tenant, event_ids) if event_ids else []
    return [row["memory_id"] for row in found]


async def raise_made(
    tx: Transaction,
    place: Place,
    memory_ids: Iterable[UUID],
    label: Sensitivity,
    changed_version: int,
    *,
    told: Collection[UUID],
) -> None:
    """Raise and seal these memories, in every version, and their copies. The feed has been `told` of some."""
    ids = sorted(memory_ids)
    await tx.fetch("lock_memories", place.tenant, ids)  # who is copying one of them has done so, or finds it raised
    raised = await _raise(tx, place, ids, label)
    stated = await tx.fetch("drop_facts", place.tenant, ids) + await tx.fetch("drop_procedures", place.tenant, ids)
    keys = ((place.tenant, row["memory_id"], key_of_its_own(b"sealed", row["memory_id"])) for row in stated)
    await tx.run_many("rekey_memory", keys)
    await tx.run("changed_with", place.tenant, ids, changed_version)
    await tx.run("rebuild_scope", place.tenant, place.scope_id, changed_version)  # neighbours hold words of the turns
    await announce_events(tx, place, "updated", sorted(raised - set(told)))
    await _take_back(tx, place, ids, label)


async def _raise(tx: Transaction, place: Place, ids: Sequence[UUID], label: Sensitivity) -> set[UUID]:
    """Every version of these memories, with its vectors of every model; those of which any was labelled lower."""
    versions = await tx.fetch("versions_of", place.tenant, ids)
    fewer = [row for row in versions if _raised(row, label) != row["sensitivity"]]
    await tx.run_many("seal_version", (_version(place, row, label) for row in fewer))
    sealed = [(row["memory_id"], row["version"]) for row in versions if is_sealed(Sensitivity(_raised(row, label)))]
    for model in await tx.fetch("stored_models"):
        await tx.seal_vectors(model["table_name"], place.tenant, sealed)
    return {row["memory_id"] for row in fewer}


async def _take_back(tx: Transaction, place: Place, ids: Iterable[UUID], label: Sensitivity) -> None:
    """The copies of these memories, and of those, in whatever scopes they lie; each scope is seen for this alone. In
    everybody's order of locks: a memory before the scopes of its copies, a scope before its memories.
    """
    seen, known, more = {place.scope_id}, set(ids), list(ids)
    while more:
        found = await tx.fetch("copies_of", place.tenant, more)
        copies = {row["copy_id"]: row["scope_id"] for row in found if row["copy_id"] not in known}
        seen |= set(copies.values())
        await tx.see(place.tenant, seen)
        for scope_id in sorted(set(copies.values())):
            here = [one for one, where in copies.items() if where == scope_id]
            await _hide_copies(tx, replace(place, scope_id=scope_id), here, label)
        known |= copies.keys()
        more = list(copies)
    await tx.see(place.tenant, [place.scope_id])


async def _hide_copies(tx: Transaction, place: Place, copies: Sequence[UUID], label: Sensitivity) -> None:
    """Copies of one scope. One that was hidden before is hidden anew: it does not come back with its source."""
    changed = await tx.value("bump_scope", place.tenant, place.scope_id)
    locked = await tx.fetch("lock_memories", place.tenant, copies)
    await _raise(tx, place, copies, label)
    await tx.run_many("hide_memory", ((place.tenant, one, place.now, changed) for one in copies))
    shown = [row["memory_id"] for row in locked if row["deleted_at"] is None]
    await announce(tx, place.tenant, place.scope_id, "deleted", shown, by="source", at=place.now)


def _raised(row: Any, label: Sensitivity) -> str:
    return derived_sensitivity([Sensitivity(row["sensitivity"]), label]).value


def _turn(place: Place, row: Any, label: Sensitivity) -> tuple[Any, ...]:
    texts = (row["content"], row["tool_calls"], row["parts"])
    return (place.tenant, row["event_id"], row["scope_id"], *texts, _raised(row, label))


def _version(place: Place, row: Any, label: Sensitivity) -> tuple[Any, ...]:
    texts = (row["content"], row["attributes"])
    return (place.tenant, row["memory_id"], row["version"], row["scope_id"], *texts, _raised(row, label))
