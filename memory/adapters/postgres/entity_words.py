"""Rows of people and things with the words of their memories: rows in, values out, inside the caller's transaction.

A memory that is hidden, quarantined, rejected or superseded names nobody; one whom none names is not there. Raises
StoreUnavailable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.own_memory import standing_by_id
from memory.entities import CARD, Entity, Relationship, prints_of
from memory.model import Scope
from memory.off_loop import off_loop
from policies.entity import Told, names_of_fact, plain, scalars_of, told_of
from policies.labels import Sensitivity

_LEVELS: Final = list(Sensitivity)
# Whom a memory names costs as much time as so much JSON, 80 us: of 20,000 that was 1.6 s in which nobody was answered.
_AS_BYTES: Final = 8_192


async def with_words(tx: Transaction, scope: Scope, scope_id: int, found: Sequence[Any]) -> list[Entity]:
    """These rows of entities as values, in their order, but for those whom nothing names any more."""
    if not found:
        return []
    ids = [row["entity_id"] for row in found]
    same: dict[UUID, list[Any]] = defaultdict(list)
    for row in await tx.fetch("merged_into_entities", scope.tenant, ids):
        same[row["merged_into"]].append(row)
    everybody = [*ids, *(row["entity_id"] for rows in same.values() for row in rows)]
    given: dict[UUID, list[Any]] = defaultdict(list)
    for row in await tx.fetch("aliases_of_entities", scope.tenant, everybody):
        given[row["entity_id"]].append(row)
    cards = [row["card_id"] for row in (*found, *(one for rows in same.values() for one in rows)) if row["card_id"]]
    named_by = {row["memory_id"] for rows in given.values() for row in rows}
    standing = await standing_of(tx, scope, scope_id, named_by.union(cards))
    others = await _others(tx, scope, scope_id, {row["fingerprint"] for rows in given.values() for row in rows})
    prints = cache(partial(prints_of, scope.tenant, scope_id))

    def read() -> list[Entity]:
        made = (_entity(row, same[row["entity_id"]], given, standing, others, prints) for row in found)
        return [one for one in made if one is not None]

    return await off_loop(len(standing) * _AS_BYTES, read)


async def standing_of(tx: Transaction, scope: Scope, scope_id: int, memory_ids: Iterable[UUID]) -> Mapping[UUID, Any]:
    """Of these memories what they say and why they are not shown, but for those that something took the place of."""
    rows = await standing_by_id(tx, scope.tenant, scope_id, memory_ids)
    return {memory_id: row for memory_id, row in rows.items() if row["successor_id"] is None}


async def _others(tx: Transaction, scope: Scope, scope_id: int, prints: Iterable[bytes]) -> Mapping[bytes, set[UUID]]:
    """Who has these names."""
    found: dict[bytes, set[UUID]] = defaultdict(set)
    for row in await tx.fetch("entities_named", scope.tenant, scope_id, list(prints)):
        if row["deleted_at"] is None:
            found[row["fingerprint"]].add(row["root"])
    return found


def _entity(
    row: Any,
    same: Sequence[Any],
    given: Mapping[UUID, Sequence[Any]],
    standing: Mapping[UUID, Any],
    others: Mapping[bytes, set[UUID]],
    prints: Callable[[str], tuple[bytes, bytes]],
) -> Entity | None:
    names: dict[str, tuple[str, bool]] = {}
    by: set[UUID] = set()
    known = [row["entity_id"], *(one["entity_id"] for one in same)]
    cards = [one["card_id"] for one in (row, *same) if one["card_id"] in standing]
    for card_id in (one for one in cards if one == row["card_id"] or not standing[one]["hidden"]):
        names |= {
            plain(name): (name, False) for name in _names_of(told_in(standing[card_id])) if plain(name) not in names
        }
    for alias in sorted((one for who in known for one in given[who]), key=lambda one: one["memory_id"]):
        said = standing.get(alias["memory_id"])
        if said is None or said["hidden"]:
            continue
        by.add(UUID(int=alias["memory_id"].int))
        for name, shown in names_in(said).items():
            if alias["fingerprint"] in prints(name):
                names.setdefault(name, shown)
    card = standing.get(row["card_id"])
    if not names or (not by and (card is None or card["hidden"] == "hidden")):
        return None
    first, *rest = sorted(names.values(), key=lambda one: one[1])  # what it is but called comes last
    shared = (one for one in names if len(others.get(prints(one)[0], ())) > 1)
    levels = [standing[one]["sensitivity"] for one in (*by, *cards)]
    return Entity(
        entity_id=UUID(int=row["entity_id"].int),
        version=row["version"],
        type=row["type"],
        name=first[0],
        aliases=tuple(name for name, _ in rest),
        card=None if card is None else told_in(card),
        card_id=None if card is None else UUID(int=row["card_id"].int),
        named_by=tuple(sorted(by)),
        merged_into=row["merged_into"],
        same=tuple(sorted(UUID(int=one["entity_id"].int) for one in same)),
        ambiguous=tuple(shared),
        sensitivity=max(levels, key=lambda level: _LEVELS.index(Sensitivity(level))),
        hidden="" if card is None else card["hidden"],
        created_at=row["created_at"],
        changed_at=row["changed_at"],
    )


def names_in(said: Any) -> Mapping[str, tuple[str, bool]]:
    """By their plain form the names that a memory gives, card or fact."""
    attributes = said["attributes"]
    if CARD in attributes:
        return {plain(name): (name, False) for name in _names_of(told_in(said))}
    subject, predicate, object_ = (str(attributes.get(name, "")) for name in ("subject", "predicate", "object"))
    return names_of_fact(subject, predicate, object_, said["content"])


def told_in(said: Any) -> Told:
    """What a card says."""
    return told_of(said["attributes"].get(CARD))


def _names_of(told: Told) -> Sequence[str]:
    return (told.name, *told.aliases) if told.name else told.aliases


def relationship(row: Any, said: Any) -> Relationship:
    """What ties two, by the memory that says so."""
    attributes = said["attributes"]
    return Relationship(
        relationship_id=UUID(int=row["relationship_id"].int),
        source=UUID(int=row["source"].int),
        type=row["type"],
        target=UUID(int=row["target"].int),
        memory_id=UUID(int=row["memory_id"].int),
        says=said["content"],
        properties=scalars_of(attributes.get("relationship"), "properties"),
        learnt="relationship" not in attributes,
        sensitivity=said["sensitivity"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        created_at=row["created_at"],
    )
