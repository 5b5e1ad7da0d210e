"""Imported lines that come again with another content: what stands of them and the lines in, the next versions out.

What a person or the law has set stays, whatever the line says. A label only rises, and takes along what was made of the
turn before. A rejection stays; a confirmation is of words, and stays with them. Weight and end stay where a person has
edited the memory. What was held back for its number waits for a person; other words count in the budget like new ones.
Runs in the import's transaction. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from memory.adapters.postgres.budgets import REASON, Budgets, within_budget
from memory.adapters.postgres.classify import made_of, raise_made
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.rows import Place
from memory.model import NewMemory
from memory.stored import ImportItem
from policies.labels import Sensitivity, derived_sensitivity, is_sealed
from policies.text import storable


@dataclass(frozen=True, slots=True)
class Update:
    """The next version of a turn's memory. `is_anew`: it says other words than the last. `was`: the label of that."""

    event_id: UUID
    memory_id: UUID
    version: int
    memory: NewMemory
    is_anew: bool
    was: Sensitivity


def as_sensitive(item: ImportItem, stored: Sensitivity) -> ImportItem:
    """The line at least as sensitive as the turn whose place it takes, and what it states; sealed it states nothing."""
    label = derived_sensitivity((item.turn.sensitivity, stored))
    if is_sealed(label):
        return replace(item, turn=replace(item.turn, sensitivity=label), facts=(), procedures=())
    return replace(
        item,
        turn=replace(item.turn, sensitivity=label),
        facts=tuple(replace(one, memory=at_least(one.memory, label)) for one in item.facts),
        procedures=tuple(replace(one, memory=at_least(one.memory, label)) for one in item.procedures),
    )


def at_least(memory: NewMemory, label: Sensitivity) -> NewMemory:
    """The memory, so sensitive at least."""
    return replace(memory, sensitivity=derived_sensitivity((memory.sensitivity, label)))


async def updates_of(
    tx: Transaction,
    place: Place,
    changed: Mapping[UUID, ImportItem],
    standing: Mapping[UUID, Any],
    budgets: Budgets,
    *,
    import_id: UUID,
) -> tuple[list[Update], int]:
    """The next versions of what the changed turns are remembered as (`standing`), and how many are held back for their
    number. A line that says nothing has none.
    """
    updates = [
        _update_of(event_id, row, memory) for event_id, row in standing.items() for memory in changed[event_id].memories
    ]
    offered = [(None, one.memory) for one in updates if one.is_anew]
    made, held = await within_budget(tx, place, offered, budgets, import_id=import_id)
    judged = iter(made)
    return [replace(one, memory=next(judged)[1]) if one.is_anew else one for one in updates], held


def _update_of(event_id: UUID, row: Any, memory: NewMemory) -> Update:
    """Not so sensitive as the turn at least: a person may have lowered this memory."""
    was = Sensitivity(row["sensitivity"])
    is_anew = storable(memory.content) != row["content"]
    confirmed = row["validation_status"] == "confirmed"
    kept = replace(
        at_least(memory, was),
        validation_status=memory.validation_status if confirmed and is_anew else row["validation_status"],
        importance=row["importance"] if row["edited"] else memory.importance,
        expires_at=row["expires_at"] if row["edited"] else memory.expires_at,
        quarantine="" if confirmed and not is_anew else _reason(row["quarantine_reason"] or "", memory.quarantine),
    )
    return Update(event_id, row["memory_id"], row["version"] + 1, kept, is_anew, was)


def _reason(old: str, new: str) -> str:
    """Why it is held back: for its number as long as nobody has looked, and for what it says now."""
    number = old.partition("; ")[0] if old.startswith(REASON) else ""
    return "; ".join(filter(None, (number, new)))


def risen(
    changed: Mapping[UUID, ImportItem], stored: Mapping[UUID, Sensitivity], updates: Sequence[Update]
) -> dict[UUID, Sensitivity]:
    """The turns whose label, or whose memory's, is higher by now, and a sealed one. `stored`: their labels before."""
    higher = {
        event_id: item.turn.sensitivity
        for event_id, item in changed.items()
        if item.turn.sensitivity is not stored.get(event_id)
    }
    for one in updates:
        if one.memory.sensitivity is not one.was:
            labels = (one.memory.sensitivity, higher.get(one.event_id, one.was))
            higher[one.event_id] = derived_sensitivity(labels)
    return {event_id: label for event_id, label in higher.items() if is_sealed(label)}


async def made_of_risen(
    tx: Transaction, place: Place, turns: Mapping[UUID, Sensitivity]
) -> dict[Sensitivity, list[UUID]]:
    """What was made of these turns, by the label that it gets. Ask before their evidence is taken away."""
    of: dict[Sensitivity, list[UUID]] = {}
    for event_id, label in turns.items():
        of.setdefault(label, []).append(event_id)
    return {label: await made_of(tx, place, of[label]) for label in sorted(of, key=lambda one: one.rank)}


async def seal_made(
    tx: Transaction,
    place: Place,
    made: Mapping[Sensitivity, Sequence[UUID]],
    updates: Sequence[Update],
    changed_version: int,
) -> None:
    """All versions of it, those from before too, as with a PATCH (memory.adapters.postgres.classify)."""
    told = {one.memory_id for one in updates}
    for label, ids in made.items():
        await raise_made(tx, place, ids, label, changed_version, told=told)
