"""The steps every write shares: open sessions, leave out the forgotten, number turns, store memories.

All run inside the caller's transaction and lock in one order (lane, sessions by label, scope version, memories), so
two writers wait for each other and never for a circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import rows
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.outbox import Labels, announce_events
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.rows import OpenSession, Place
from memory.adapters.postgres.scopes import Scopes
from memory.errors import StoreRefused
from memory.model import NewMemory, Scope, ScopeId, SessionRef, Turn
from memory.stored import Digests
from policies.labels import Sensitivity, derived_sensitivity
from policies.text import storable

COMMIT_MS: Final = 70_000
"""A little longer than a worker's longest statement: a lane waits for no longer, and an erasure for a little longer."""
_NOBODY = UUID(int=0)
_FOR_EVER = frozenset({"content", "source", "memory", "chain"})


@dataclass(frozen=True, slots=True)
class Numbered:
    """Turns that are stored now, and their numbers. `event_of` leads from an offered turn's id to the stored one of the
    same position.
    """

    new: tuple[UUID, ...]
    event_of: Mapping[UUID, UUID]
    seq_of: Mapping[UUID, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What the tombstones forbid: everything, or these turns and memories; and which memories among those that the
    request was `given` they stand for, with what the model said behind them, `unsaid` (among the items).
    """

    all_of_it: bool
    items: frozenset[UUID]
    given: frozenset[str] = frozenset()
    unsaid: frozenset[UUID] = frozenset()


async def open_session(tx: Transaction, place: Place, ref: SessionRef, at: datetime) -> OpenSession:
    """The session of this label, made when it is new, and locked until the transaction ends.

    Where a sweep has cleaned its label since, its id says which it is. Raises StoreRefused where another scope has it.
    """
    label = storable(ref.label)
    row = await tx.row("lock_session", place.tenant, place.scope_id, label)
    if row is None:
        await tx.run("add_session", place.tenant, ref.session_id, place.scope_id, label, at, place.now)
        row = await tx.row("lock_session", place.tenant, place.scope_id, label)
    if row is None:
        row = await tx.row("lock_session_by_id", place.tenant, ref.session_id)
    if row is None or row["scope_id"] != place.scope_id:
        raise StoreRefused("a session is stored under its id and is not one of this scope")
    return OpenSession(row["session_id"], row["next_seq"], row["epoch"], row["last_at"], row["tip_chain"])


async def forgotten(tx: Transaction, place: Place, digests: Digests, at: Mapping[UUID, datetime]) -> Forgotten:
    """Hold a commit against the tombstones. `at` says when an item happened (else it counts as of `place.now`)."""
    pairs = [*digests.scope, *(pair for item in digests.items.values() for pair in item)]
    pairs += [("memory", one.digest) for one in digests.given.values()]
    if not pairs:
        return Forgotten(False, frozenset())
    kinds, values = [kind for kind, _ in pairs], [digest for _, digest in pairs]
    found = await tx.fetch("tombstones_of", place.tenant, kinds, values)
    since = {(row["kind"], row["digest"]): row["created_at"] for row in found}

    def holds(pair: tuple[str, bytes], happened: datetime) -> bool:
        return pair in since and (pair[0] in _FOR_EVER or happened <= since[pair])

    arrived = at.get(place.exchange_id, place.now)
    items = frozenset(
        item for item, own in digests.items.items() if any(holds(pair, at.get(item, arrived)) for pair in own)
    )
    marked = {one: since["memory", own.digest] for one, own in digests.given.items() if ("memory", own.digest) in since}
    given = await _not_made_anew(tx, place, marked, arrived)
    unsaid = frozenset(event_id for one in given for event_id in digests.given[one].behind)
    return Forgotten(any(holds(pair, arrived) for pair in digests.scope), items | unsaid, given, unsaid)


async def _not_made_anew(
    tx: Transaction, place: Place, marked: Mapping[str, datetime], arrived: datetime
) -> frozenset[str]:
    """Those of these memories, by when each was forgotten, that a request could only be given as they were before. What
    has other sources is made anew, often under the same id: a summary has its session's.
    """
    if not marked:
        return frozenset()
    ids = [UUID(one) for one in marked]
    anew = await tx.fetch("memories_made_anew", place.tenant, ids, list(marked.values()), arrived)
    return frozenset(marked) - {str(row["memory_id"]) for row in anew}


async def scope_unless_forgotten(
    database: Database, scopes: Scopes, scope: Scope, digests: Digests, arrived: datetime
) -> ScopeId | None:
    """The id of a scope, made when it is new; None where all of it was forgotten since: nothing may be left of it, its
    name included. Raises StoreUnavailable.
    """
    known = await scopes.find(scope)
    if known is not None or not digests.scope:
        return known if known is not None else await scopes.ensure(scope)
    place = Place(scope.tenant, 0, _NOBODY, _NOBODY, arrived)
    async with database.transaction(scope.tenant, read_only=True) as tx:
        if (await forgotten(tx, place, Digests(digests.scope), {})).all_of_it:
            return None
    return await scopes.ensure(scope)


async def number_turns(
    tx: Transaction, place: Place, offered: Sequence[tuple[OpenSession, Turn]]
) -> tuple[Numbered, Counter[UUID]]:
    """Store the turns whose position their session does not have, with the next numbers and their attempt.

    Returns them, and how many numbers each session gave out. The sessions are locked.
    """
    sessions, chains = [session.session_id for session, _ in offered], [turn.chain for _, turn in offered]
    held = await tx.fetch("chains_known", place.tenant, sessions, chains) if offered else []
    stored: dict[tuple[UUID, bytes], UUID] = {(row["session_id"], row["chain"]): row["event_id"] for row in held}
    fresh: list[tuple[OpenSession, Turn]] = []
    event_of: dict[UUID, UUID] = {}
    for session, turn in offered:
        position = (session.session_id, bytes(turn.chain))
        if position in stored:
            event_of[turn.event_id] = stored[position]
        else:
            stored[position] = turn.event_id
            fresh.append((session, turn))
    attempts = await _attempts(tx, place, fresh)
    given: Counter[UUID] = Counter()
    seq_of: dict[UUID, int] = {}
    written = []
    for session, turn in fresh:
        parent = (session.session_id, turn.parent_chain)
        seq = session.next_seq + given[session.session_id]
        written.append(rows.turn_row(place, session.session_id, turn, seq, attempts[parent]))
        attempts[parent] += 1
        seq_of[turn.event_id] = seq
        given[session.session_id] += 1
    await tx.run_many("add_turn", written)
    return Numbered(tuple(turn.event_id for _, turn in fresh), event_of, seq_of), given


async def _attempts(
    tx: Transaction, place: Place, fresh: Sequence[tuple[OpenSession, Turn]]
) -> Counter[tuple[UUID, bytes | None]]:
    """How many turns stand already behind the same turn, by (session, parent)."""
    counts: Counter[tuple[UUID, bytes | None]] = Counter()
    old = {(session.session_id, turn.parent_chain) for session, turn in fresh if session.next_seq > 0}
    inner = [one for one in old if one[1] is not None]
    if inner:
        sessions, parents = [session_id for session_id, _ in inner], [parent for _, parent in inner]
        for row in await tx.fetch("siblings", place.tenant, sessions, parents):
            counts[row["session_id"], row["parent_chain"]] = row["attempts"]
    if len(inner) < len(old):
        for row in await tx.fetch(
            "openings", place.tenant, [session_id for session_id, parent in old if parent is None]
        ):
            counts[row["session_id"], None] = row["attempts"]
    return counts


async def said_behind(tx: Transaction, place: Place, session: OpenSession, new: Sequence[Turn]) -> datetime | None:
    """When the latest was said of the turns that these new ones of a session stand behind, by their chain; None where
    nothing can have been said after them. Not of whatever the session has heard: an exchange may arrive late.
    """
    parent = new[0].parent_chain if new else None
    if parent is None or session.last_at is None or session.last_at <= min(turn.occurred_at for turn in new):
        return None
    found: datetime | None = await tx.value("last_said_above", place.tenant, session.session_id, parent)
    return found


def resting_on_new(memories: Iterable[NewMemory], new: Iterable[UUID], without: frozenset[UUID]) -> list[NewMemory]:
    """Memories to store: not those that rest on known turns alone, nor those made of anything forgotten."""
    fresh = frozenset(new)
    return [
        memory
        for memory in memories
        if (not memory.source_turns or not fresh.isdisjoint(memory.source_turns))
        and memory.memory_id not in without
        and without.isdisjoint(memory.source_turns)
    ]


async def outgrown(tx: Transaction, tenant: UUID, memory: NewMemory) -> bool:
    """Whether a turn that a memory rests on has become more sensitive than the memory since it was read. Nobody raises
    one while the caller has the scope's lock.
    """
    found = await tx.fetch("labels_of_turns", tenant, list(memory.source_turns))
    labels = (memory.sensitivity, *(Sensitivity(row["sensitivity"]) for row in found))
    return derived_sensitivity(labels) != memory.sensitivity


async def may_be_told(tx: Transaction, tenant: UUID, memory: NewMemory) -> bool:
    """Whether every turn that a memory rests on may be told now, under the memory's label. As `outgrown`, behind the
    scope's lock.
    """
    hidden = await tx.fetch("turns_not_told", tenant, list(memory.source_turns))
    return not hidden and not await outgrown(tx, tenant, memory)


async def store_memories(
    tx: Transaction,
    place: Place,
    memories: Sequence[tuple[UUID | None, NewMemory]],
    *,
    numbered: Numbered,
    changed_version: int,
    model: str | None,
    embeddings: Query,
) -> int:
    """First versions of (session id, memory); those whose content key is taken are left out. Returns how many."""
    made = await tx.fetch_many(
        "add_memory", (rows.memory_row(place, session_id, memory, changed_version) for session_id, memory in memories)
    )
    ids = {row["memory_id"] for row in made}
    kept = [memory for _, memory in memories if memory.memory_id in ids]
    await _store_versions(tx, place, [(m.memory_id, 1, m) for m in kept], model=model, embeddings=embeddings)
    sources: list[tuple[Any, ...]] = []
    for memory in kept:
        sources += rows.derivation_rows(place, memory.memory_id, memory, numbered.event_of)
    await tx.run_many("add_derivation", sources)
    held: dict[UUID, Labels] = {memory.memory_id: {"quarantine": "held"} for memory in kept if memory.quarantine}
    await announce_events(tx, place, "created", [memory.memory_id for memory in kept], metadata=held)
    return len(kept)


def as_judged(memory: NewMemory, was: str) -> NewMemory:
    """What is made anew of a memory of this validation status: one that a person rejected stays so."""
    return replace(memory, validation_status=was) if was == "rejected" else memory


async def replace_memories(
    tx: Transaction,
    place: Place,
    replaced: Sequence[tuple[UUID, int, NewMemory]],
    *,
    event_of: Mapping[UUID, UUID],
    changed_version: int,
    embeddings: Query,
) -> None:
    """Next versions of (memory id, new version number, memory); the old ones end now. Sources add up."""
    await tx.run_many("close_version", ((place.tenant, memory_id, place.now) for memory_id, _, _ in replaced))
    await _store_versions(tx, place, replaced, model=None, embeddings=embeddings)
    points = ((place.tenant, memory_id, version, changed_version) for memory_id, version, _ in replaced)
    await tx.run_many("point_memory", points)
    reasons = ((place.tenant, memory_id, memory.quarantine or None, place.now) for memory_id, _, memory in replaced)
    await tx.run_many("hold_back", reasons)
    sources = [
        row for memory_id, _, memory in replaced for row in rows.derivation_rows(place, memory_id, memory, event_of)
    ]
    await tx.run_many("add_derivation", sources)
    await announce_events(tx, place, "updated", [memory_id for memory_id, _, _ in replaced])


async def _store_versions(
    tx: Transaction,
    place: Place,
    versions: Sequence[tuple[UUID, int, NewMemory]],
    *,
    model: str | None,
    embeddings: Query,
) -> None:
    await tx.run_many("add_version", (rows.version_row(place, *version) for version in versions))
    await tx.run_many("add_provenance", (rows.provenance_row(place, *version, model) for version in versions))
    vectors = [row for version in versions for row in rows.embedding_rows(place, *version)]
    await tx.run_many(embeddings, vectors)
