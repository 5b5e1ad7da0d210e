"""The values of people and things: one to store, one as it lies in the store, what ties two. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from memory.model import NewMemory, Times
from policies.entity import USER, Told, Type, formerly_plain, link_in, plain, told_of

Happening = Literal["learnt", "added", "changed", "merged", "took", "split", "gave", "deleted", "undeleted"]
CARD = "entity"
"""The member of a card's attributes that holds what was said of it; the collection of cards."""


@dataclass(frozen=True, slots=True)
class NewEntity:
    """What is to be stored; `memory` says it in the words a prompt is given. `namesake`: another may have its names."""

    entity_id: UUID
    told: Told
    memory: NewMemory
    namesake: bool = False
    times: Times | None = None


@dataclass(frozen=True, slots=True)
class Entity:
    """One as it is now. `card`: what was said of it by hand; `named_by` are the memories that name it, `same` those
    that are merged into it.

    `ambiguous`: of its names what others have too, as plain forms. `hidden`: why no prompt is given its card.
    """

    entity_id: UUID
    version: int
    type: Type
    name: str
    aliases: tuple[str, ...]
    card: Told | None
    card_id: UUID | None
    named_by: tuple[UUID, ...]
    merged_into: UUID | None
    same: tuple[UUID, ...]
    ambiguous: tuple[str, ...]
    sensitivity: str
    hidden: str
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class NewRelationship:
    """Two of them and what ties them, from a time to a time; None: no end that is known."""

    relationship_id: UUID
    source: UUID
    type: str
    target: UUID
    memory: NewMemory
    valid_from: datetime | None
    valid_to: datetime | None
    times: Times | None = None


@dataclass(frozen=True, slots=True)
class Relationship:
    """What ties two of them, and the memory that says so."""

    relationship_id: UUID
    source: UUID
    type: str
    target: UUID
    memory_id: UUID
    says: str
    properties: Mapping[str, Any]
    learnt: bool
    sensitivity: str
    valid_from: datetime | None
    valid_to: datetime | None
    created_at: datetime


Seen = Callable[[Entity | Relationship], bool]
"""Whether who asks may be told of one."""


@dataclass(frozen=True, slots=True)
class Step:
    """One row of an entity's history."""

    version: int
    what: Happening
    other: UUID | None
    actor: str
    at: datetime


def names_in(about: Mapping[str, Any]) -> tuple[str, ...]:
    """What a memory of these attributes calls the one whom it names: a card's, or whom a fact ties to another."""
    if CARD in about:
        card = told_of(about[CARD])
        return (card.name, *card.aliases)
    said = (str(about.get(name, "")) for name in ("subject", "predicate", "object"))
    link = link_in(*said, negated=about.get("negated") is True)
    if link is None or USER in (link.target.name, link.target.alias):
        return ()
    return (link.target.name, link.target.alias) if link.target.alias else (link.target.name,)


def fingerprint(tenant: UUID, scope_id: int, name: str) -> bytes:
    """What a name is found by, 16 bytes: of its plain form, other in each scope."""
    return _print(tenant, scope_id, plain(name))


def is_name(alias: bytes, tenant: UUID, scope_id: int, name: str) -> bool:
    """Whether this is what a name is found by, or was before."""
    return alias in prints_of(tenant, scope_id, name)


def prints_of(tenant: UUID, scope_id: int, name: str) -> tuple[bytes, bytes]:
    """What a name is found by, and was before."""
    return fingerprint(tenant, scope_id, name), _print(tenant, scope_id, formerly_plain(name))


def _print(tenant: UUID, scope_id: int, words: str) -> bytes:
    said = words.encode("utf-8", "surrogatepass")
    return hashlib.sha256(tenant.bytes + scope_id.to_bytes(8, "big") + said).digest()[:16]
