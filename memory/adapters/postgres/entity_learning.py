"""People and things that facts speak of: stored facts in, who is who and what ties them written, inside the caller's
transaction.

Nobody is merged on a guess: where a name is that of two, nothing is tied to either (DESIGN, "a wrong merge poisons
recall"). Whom somebody deleted is not learnt again. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.rows import Place
from memory.entities import fingerprint
from memory.ids import new_id
from policies.entity import IS, USER, Link, Named, link_in
from policies.fact import Fact

ENTITIES_MAX: Final = 10_000
"""Of a scope; beyond it none is learnt, and adding one is refused."""


@dataclass(frozen=True, slots=True)
class _Known:
    """One who has a name that is looked for."""

    root: UUID
    prints: frozenset[bytes]
    is_deleted: bool


async def learn(tx: Transaction, place: Place, facts: Sequence[tuple[Fact, UUID]]) -> None:
    """Enter whom these facts name, each with its memory."""
    for fact, memory_id in facts:
        link = link_in(fact.subject, fact.predicate, fact.object, negated=fact.negated)
        if link is not None:
            await _enter(tx, place, link, memory_id, fact)


async def _enter(tx: Transaction, place: Place, link: Link, memory_id: UUID, fact: Fact) -> None:
    source = await _who(tx, place, link.source, memory_id)
    if source is None or link.type == IS:
        return
    target = await _who(tx, place, link.target, memory_id)
    if target is None or target == source:
        return
    row = (place.tenant, new_id(), place.scope_id, source, link.type, target, memory_id)
    await tx.run("add_relationship", *row, fact.valid_from, fact.valid_to, place.now)


async def _who(tx: Transaction, place: Place, named: Named, memory_id: UUID) -> UUID | None:
    """The one who is meant, learnt now where nobody is known by that name; None where it could be two."""
    name, alias = (fingerprint(place.tenant, place.scope_id, one) for one in (named.name, named.alias or named.name))
    meant = _meant(named, name, alias, await _known(tx, place, "entities_named", named, {name, alias}))
    if not meant:  # the fact that named them may be the very one that this one took the place of
        before = _meant(named, name, alias, await _known(tx, place, "entities_once_named", named, {name, alias}))
        meant = before if len(before) == 1 else []
    if len(meant) > 1 or any(one.is_deleted for one in meant):
        return None
    entity_id = meant[0].root if meant else await _learnt(tx, place, named)
    if entity_id is not None:
        rows = ((place.tenant, entity_id, one, memory_id, place.scope_id) for one in {name, alias})
        await tx.run_many("add_alias", rows)
    return entity_id


def _meant(named: Named, name: bytes, alias: bytes, known: Sequence[_Known]) -> list[_Known]:
    """Which of those that have one of these names may be the one."""
    by_name = [one for one in known if name in one.prints]
    by_alias = [one for one in known if alias in one.prints]
    if not named.alias or named.alias == named.name:
        return by_name
    both = [one for one in by_name if one in by_alias]
    nameless = [one for one in by_alias if one.prints == {alias} or named.alias == USER]
    return both or nameless or [one for one in by_name if one.prints == {name}]


async def _known(tx: Transaction, place: Place, query: str, named: Named, prints: set[bytes]) -> list[_Known]:
    """Those of this type that have one of these names, with all the names that they have."""
    found = await tx.fetch(query, place.tenant, place.scope_id, list(prints))
    mine = [row for row in found if row["type"] == named.type]
    if not mine:
        return []
    given: dict[UUID, set[bytes]] = {}
    for row in await tx.fetch("names_of_entities", place.tenant, [row["entity_id"] for row in mine]):
        given.setdefault(row["entity_id"], set()).add(row["fingerprint"])
    roots: dict[UUID, _Known] = {}
    for row in mine:
        held = roots.get(row["root"])
        all_ = frozenset(given[row["entity_id"]]) | (held.prints if held else frozenset())
        gone = row["deleted_at"] is not None or (held.is_deleted if held else False)
        roots[row["root"]] = _Known(row["root"], all_, gone)
    return list(roots.values())


async def _learnt(tx: Transaction, place: Place, named: Named) -> UUID | None:
    held = await tx.value("count_entities", place.tenant, place.scope_id, ENTITIES_MAX)
    if held >= ENTITIES_MAX:
        return None
    entity_id = new_id()
    await tx.run("add_entity", place.tenant, entity_id, place.scope_id, named.type, None, place.now, place.now)
    await tx.run("add_entity_step", place.tenant, entity_id, 1, place.scope_id, "learnt", None, "worker", place.now)
    return entity_id
