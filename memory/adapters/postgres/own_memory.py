"""A memory that is made for a record (a part of a checkpoint, a persona): a value in, its rows out, in the record's own
transaction.

That of a checkpoint and a persona is of kind `working`, which recall does not follow; that of a task, an entity and a
file is `semantic`, which it does, and pinned, so that no rule of age takes it. Each in a collection of its own; its
edges to turns are of kind summary, since what looks for a turn's own memory must not take it for that (decision 0030).
"""

from __future__ import annotations

from typing import Final, Literal
from uuid import UUID

from memory.adapters.postgres import rows
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.rows import Place
from memory.model import NewMemory

Collection = Literal["checkpoint", "persona", "task", "entity", "artifact"]
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
    """Its identity, first version, provenance, edges and vectors. `changed`: the scope's version from now on."""
    tenant, memory_id = place.tenant, memory.memory_id
    key = rows.key_of_its_own(collection.encode(), memory_id)
    at = (session_id, place.subject_id, changed, place.now)
    what = (collection, memory.kind, collection in _RECALLED)
    await tx.run("add_own_memory", tenant, memory_id, place.scope_id, key, *at, *what)
    await add_own_version(tx, place, memory, 1, add_embedding=add_embedding)
    await tx.run_many(
        "add_derivation",
        (
            (tenant, memory_id, "summary", source, "turn", ordinal, place.scope_id, None, None)
            for ordinal, source in enumerate(memory.source_turns)
        ),
    )


async def add_own_version(
    tx: Transaction, place: Place, memory: NewMemory, version: int, *, add_embedding: Query
) -> None:
    """One version of its words, with provenance and vectors; the one before has been closed."""
    memory_id = memory.memory_id
    await tx.run("add_version", *rows.version_row(place, memory_id, version, memory))
    await tx.run("add_provenance", *rows.provenance_row(place, memory_id, version, memory, None))
    await tx.run_many(add_embedding, rows.embedding_rows(place, memory_id, version, memory))
