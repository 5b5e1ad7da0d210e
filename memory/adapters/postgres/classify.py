"""A memory becomes confidential: its label in, everything that says the same sealed out, in the caller's transaction.

The label is inherited both ways along the derivations: by the turns that the memory rests on, and by all that was made
of those turns, in every version. Nothing is ever lowered here: to lower is one memory's PATCH. What a fact or procedure
stated in the open beside its text goes; it stays as a memory that nothing is held against (docs/decisions/0024).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.outbox import announce_events
from memory.adapters.postgres.rows import Place, key_of_its_own
from memory.adapters.postgres.sealing import vector_of
from policies.labels import Sensitivity, derived_sensitivity


async def classify(
    tx: Transaction, place: Place, memory_id: UUID, label: Sensitivity, changed_version: int, table: str
) -> None:
    """Raise and seal what belongs to this memory; `table` holds its vectors. Raises StoreUnavailable."""
    turns = await tx.fetch("turns_under", place.tenant, memory_id)
    lower = [row for row in turns if _raised(row, label) != row["sensitivity"]]
    await tx.run_many("seal_turn", (_turn(place, row, label) for row in lower))
    events = [row["event_id"] for row in turns]
    over = [row["memory_id"] for row in await tx.fetch("memories_over", place.tenant, events)] if events else []
    ids = list({memory_id, *over})
    versions = await tx.fetch("versions_of", place.tenant, ids)
    fewer = [row for row in versions if _raised(row, label) != row["sensitivity"]]
    await tx.run_many("seal_version", (_version(place, row, label) for row in fewer))
    await _seal_vectors(tx, place, versions, table)
    stated = await tx.fetch("drop_facts", place.tenant, ids) + await tx.fetch("drop_procedures", place.tenant, ids)
    keys = ((place.tenant, row["memory_id"], key_of_its_own(b"sealed", row["memory_id"])) for row in stated)
    await tx.run_many("rekey_memory", keys)
    await tx.run("changed_with", place.tenant, ids, changed_version)
    await tx.run("rebuild_scope", place.tenant, place.scope_id, changed_version)  # neighbours hold words of the turns
    others = {row["memory_id"] for row in fewer} - {memory_id}
    await announce_events(tx, place, "updated", sorted(others))


async def _seal_vectors(tx: Transaction, place: Place, versions: Sequence[Any], table: str) -> None:
    """Vectors that lie open go through the vault, which knows by now that their versions are sealed."""
    numbers = [(row["memory_id"], row["version"]) for row in versions]
    ids, of = [one for one, _ in numbers], [number for _, number in numbers]
    found = await tx.fetch(tx.fitted("open_windows_of", table), place.tenant, ids, of)
    rows = [
        (
            place.tenant,
            row["scope_id"],
            row["memory_id"],
            row["version"],
            row["window_no"],
            row["span_start"],
            row["span_end"],
            vector_of(row["vector"]),
        )
        for row in found
    ]
    gone = {(row["memory_id"], row["version"]) for row in found}
    await tx.run_many(tx.fitted("drop_open_windows", table), ((place.tenant, *one) for one in sorted(gone)))
    await tx.run_many(tx.fitted("add_embedding", table), rows)


def _raised(row: Any, label: Sensitivity) -> str:
    return derived_sensitivity([Sensitivity(row["sensitivity"]), label]).value


def _turn(place: Place, row: Any, label: Sensitivity) -> tuple[Any, ...]:
    texts = (row["content"], row["tool_calls"], row["parts"])
    return (place.tenant, row["event_id"], row["scope_id"], *texts, _raised(row, label))


def _version(place: Place, row: Any, label: Sensitivity) -> tuple[Any, ...]:
    texts = (row["content"], row["attributes"])
    return (place.tenant, row["memory_id"], row["version"], row["scope_id"], *texts, _raised(row, label))
