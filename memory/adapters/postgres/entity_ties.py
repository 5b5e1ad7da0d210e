"""What ties people and things, in Postgres: a scope and two of them in; relationships, and what is tied to what, out.

Each act is one transaction with its audit row, or nothing; the scope's lock finds a circle that two ties would close.
Raises NotFound, Conflict, StoreUnavailable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.acting import acting
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.entity_words import relationship, standing_of
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.own_memory import add_own_memory, standing_by_id, times_of, turn_memory
from memory.adapters.postgres.rows import Place
from memory.adapters.postgres.scopes import Scopes
from memory.audit import Note
from memory.entities import Entity, NewRelationship, Relationship, Seen
from memory.errors import Conflict, NotFound
from memory.model import NewMemory, Scope
from memory.stored import Page
from policies.entity import HIERARCHIES
from policies.graph import circle_in
from policies.labels import Sensitivity

EDGES_MAX: Final = 1_000
"""Relationships read around the ones that are asked about, at each hop."""
NONE: Final = "there is no such entity in this scope"
_NO_TIE: Final = "there is no such relationship in this scope"


def everybody(_: Entity | Relationship) -> bool:
    """Who asks may be told of anybody."""
    return True


class TieStore:
    """What ties the people and things of one store. `embeddings` is the table that the vectors of their cards go to."""

    def __init__(self, database: Database, scopes: Scopes, embeddings: str, audit: AuditLog) -> None:
        self._database = database
        self._scopes = scopes
        self._audit = audit
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)

    async def relate(
        self,
        scope: Scope,
        subject_id: UUID,
        new: NewRelationship,
        *,
        now: datetime,
        note: Note,
        seen: Seen = everybody,
    ) -> Relationship:
        """Tie two, or the tie by hand that says the same: it is that one, whose answer never came. Raises NotFound for
        one that is not there, Conflict for a circle where there can be none, as `merge`.
        """
        scope_id, witness = await self._scopes.known(scope, NONE), await self._audit.witness(note)
        place = Place(scope.tenant, scope_id, subject_id, new.relationship_id, now)
        memory = new.memory
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            source, target = [await _root(tx, scope, scope_id, one) for one in (new.source, new.target)]
            if source == target:
                raise Conflict("both ends are one: nothing is tied to itself", param="target")
            if (same := await _said_before(tx, scope, scope_id, (source, new.type, target), new)) is not None:
                return same
            if new.type in HIERARCHIES:
                await _require_acyclic(tx, scope, scope_id, source, new.type, {target}, "target", seen)
            await self._add_card(tx, place, memory, changed)
            row = (scope.tenant, new.relationship_id, scope_id, source, new.type, target, memory.memory_id)
            await tx.run("add_relationship", *row, new.valid_from, new.valid_to, times_of(new.times, now)[0])
            await announce(tx, scope.tenant, scope_id, "created", [memory.memory_id], by="api", at=now)
            just_before = UUID(int=new.relationship_id.int - 1)
            everybody = await with_members(tx, scope, [source])
            rows = await tx.fetch("relationships_from", scope.tenant, everybody, just_before, 1, None)
            for one in await _said(tx, scope, scope_id, rows):
                if one.relationship_id == new.relationship_id:
                    return one
            raise NotFound(_NO_TIE)

    async def unrelate(
        self,
        scope: Scope,
        relationship_id: UUID,
        *,
        now: datetime,
        note: Note,
        may: Callable[[Sensitivity], None] = lambda _: None,
    ) -> None:
        """Tie them no more; what was said by hand of it is hidden, a fact stays. Raises NotFound, and what `may` does
        of its label: then it stays.
        """
        scope_id, witness = await self._scopes.known(scope, NONE), await self._audit.witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            known = await tx.row("lock_relationship", scope.tenant, scope_id, relationship_id)
            if known is None:
                raise NotFound(_NO_TIE)
            said = (await standing_by_id(tx, scope.tenant, scope_id, [known["memory_id"]])).get(known["memory_id"])
            may(Sensitivity(said["sensitivity"]) if said is not None else Sensitivity.SECRET)
            await tx.run("mark_relationship_deleted", scope.tenant, relationship_id, now)
            if said is not None and said["successor_id"] is None and "relationship" in said["attributes"]:
                await turn_memory(tx, scope.tenant, scope_id, known["memory_id"], now, changed=changed, now=now)

    async def around(
        self,
        scope: Scope,
        entity_ids: Sequence[UUID],
        *,
        at: datetime | None,
        types: Set[str] | None = None,
        hops: int = 1,
    ) -> list[Relationship]:
        """What ties these to others, those to others, so many hops far: what holds, at a time where one is given."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return []
        found: dict[UUID, Relationship] = {}
        seen: set[UUID] = set()
        front = set(entity_ids)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            for _ in range(hops):
                ties = await _ties(tx, scope, scope_id, front)
                new = [one for one in ties if (types is None or one.type in types) and (at is None or _holds(one, at))]
                found |= {one.relationship_id: one for one in new}
                seen |= front
                front = {end for one in new for end in (one.source, one.target)} - seen
        return list(found.values())

    async def tied(
        self, scope: Scope, entity_ids: Sequence[UUID], *, limit: int, cursor: str | None
    ) -> Page[Relationship]:
        """All that ties these to others as it is said of these, each once, by pages."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return Page((), None)
        after = UUID(cursor) if cursor else UUID(int=0)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            everybody = await with_members(tx, scope, entity_ids)
            rows = await tx.fetch("relationships_from", scope.tenant, everybody, after, limit + 1, None)
            found = await _said(tx, scope, scope_id, rows[:limit])
        return Page(tuple(found), str(rows[limit - 1]["relationship_id"]) if len(rows) > limit else None)

    async def _add_card(self, tx: Transaction, place: Place, memory: NewMemory, changed: int) -> None:
        await add_own_memory(
            tx, place, memory, "entity", session_id=None, changed=changed, add_embedding=self._add_embedding
        )


async def locked_entity(tx: Transaction, scope: Scope, scope_id: int, entity_id: UUID) -> Any:
    """The row of one that is there. Raises NotFound."""
    row = await tx.row("lock_entity", scope.tenant, scope_id, entity_id)
    if row is None or row["deleted_at"] is not None:
        raise NotFound(NONE)
    return row


async def _root(tx: Transaction, scope: Scope, scope_id: int, entity_id: UUID) -> UUID:
    row = await locked_entity(tx, scope, scope_id, entity_id)
    return UUID(int=(row["merged_into"] or row["entity_id"]).int)


async def _ties(tx: Transaction, scope: Scope, scope_id: int, roots: Iterable[UUID]) -> list[Relationship]:
    """What ties these, and what is merged into them, to others."""
    everybody = await with_members(tx, scope, roots)
    rows = await tx.fetch("relationships_around", scope.tenant, everybody, EDGES_MAX) if everybody else []
    return await _said(tx, scope, scope_id, rows)


async def _leading_on(
    tx: Transaction, scope: Scope, scope_id: int, roots: Iterable[UUID], types: Set[str]
) -> list[Relationship]:
    """All that ties these, and what is merged into them, to others in these ways, as it is said of these."""
    everybody, after = await with_members(tx, scope, roots), UUID(int=0)
    found: list[Relationship] = []
    while rows := await tx.fetch("relationships_from", scope.tenant, everybody, after, EDGES_MAX, sorted(types)):
        found += await _said(tx, scope, scope_id, rows)
        after = rows[-1]["relationship_id"]
    return found


async def with_members(tx: Transaction, scope: Scope, roots: Iterable[UUID]) -> list[UUID]:
    """These, and what is merged into them."""
    ids = list(roots)
    members = await tx.fetch("merged_into_entities", scope.tenant, ids) if ids else []
    return [*ids, *(row["entity_id"] for row in members)]


async def _said(tx: Transaction, scope: Scope, scope_id: int, rows: Sequence[Any]) -> list[Relationship]:
    """Relationships with what their memories say, as far as those are shown."""
    standing = await standing_of(tx, scope, scope_id, {row["memory_id"] for row in rows})
    said = ((row, standing.get(row["memory_id"])) for row in rows if row["source"] != row["target"])
    return [relationship(row, words) for row, words in said if words is not None and not words["hidden"]]


async def _require_acyclic(
    tx: Transaction, scope: Scope, scope_id: int, source: UUID, type_: str, targets: Set[UUID], param: str, seen: Seen
) -> None:
    """With these ties nothing stands above itself. Raises Conflict that names the circle where its ties are seen."""
    after: Mapping[UUID, set[UUID]] = defaultdict(set, {source: set(targets)})
    front, passed = set(targets), {source}
    while front:
        for one in await _leading_on(tx, scope, scope_id, front, {type_}):
            after[one.source].add(one.target)
        passed |= front
        front = {end for one in front for end in after[one]} - passed
    if circle := circle_in(after):
        ties = await _leading_on(tx, scope, scope_id, circle, {type_})
        inside = (one for one in ties if {one.source, one.target} <= set(circle))
        way = f": {' -> '.join(map(str, circle))}" if all(map(seen, inside)) else ""
        raise Conflict(f"these would be {type_} in a circle{way}", param=param)


async def require_acyclic_through(
    tx: Transaction, scope: Scope, scope_id: int, root: UUID, param: str, seen: Seen
) -> None:
    """What ties one to others closes no circle. Raises Conflict."""
    ties = await _leading_on(tx, scope, scope_id, [root], HIERARCHIES)
    for type_ in sorted({tie.type for tie in ties}):
        ends = {tie.target for tie in ties if tie.type == type_}
        await _require_acyclic(tx, scope, scope_id, root, type_, ends, param, seen)


async def _said_before(
    tx: Transaction, scope: Scope, scope_id: int, ends: tuple[UUID, str, UUID], new: NewRelationship
) -> Relationship | None:
    """The newest tie by hand, of EDGES_MAX, that says of the same time and as sensitively what a new one does."""
    between = (*ends, new.valid_from, new.valid_to, EDGES_MAX)
    for one in await _said(tx, scope, scope_id, await tx.fetch("relationships_between", scope.tenant, *between)):
        is_same = (one.says, one.sensitivity) == (new.memory.content, new.memory.sensitivity.value)
        if is_same and not one.learnt:
            return one
    return None


def _holds(one: Relationship, at: datetime) -> bool:
    return (one.valid_from is None or one.valid_from <= at) and (one.valid_to is None or at < one.valid_to)
