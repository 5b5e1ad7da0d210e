"""People, things and what ties them as the API shows them: values in, bodies out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from memory.entities import Entity, Relationship
from proxy.api.schemas_entity import NAMED_BY_MAX, EntitySaid, PathSaid, RelationshipSaid


def entity_said(one: Entity) -> EntitySaid:
    """One of them; what its card says only where a prompt may have it too."""
    card = None if one.hidden else one.card
    return EntitySaid(
        id=str(one.entity_id),
        version=one.version,
        type=one.type,
        name="" if one.hidden else one.name,
        aliases=[] if one.hidden else list(one.aliases),
        properties=dict((card.properties or {}) if card else {}),
        facets=dict((card.facets or {}) if card else {}),
        notes=card.notes if card else "",
        learnt=one.card_id is None,
        memory_id=str(one.card_id) if one.card_id else None,
        named_by=list(map(str, one.named_by[-NAMED_BY_MAX:])),
        named_by_total=len(one.named_by),
        merged_into=str(one.merged_into) if one.merged_into else None,
        same=list(map(str, one.same)),
        ambiguous=[] if one.hidden else list(one.ambiguous),
        sensitivity=one.sensitivity,
        state=one.hidden,
        created_at=one.created_at,
        changed_at=one.changed_at,
    )


def taken_along(one: Entity, most: int) -> Sequence[UUID]:
    """What a checkpoint has of it: its card, else the newest memories that name it, at most so many, oldest first."""
    return [one.card_id] if one.card_id is not None else one.named_by[-most:]


def relationship_said(one: Relationship) -> RelationshipSaid:
    """What ties two."""
    return RelationshipSaid(
        id=str(one.relationship_id),
        source=str(one.source),
        type=one.type,
        target=str(one.target),
        says=one.says,
        properties=dict(one.properties),
        learnt=one.learnt,
        memory_id=str(one.memory_id),
        sensitivity=one.sensitivity,
        valid_from=one.valid_from,
        valid_to=one.valid_to,
        created_at=one.created_at,
    )


def path_said(start: UUID, way: Sequence[Relationship]) -> PathSaid:
    """A way, with whom each step of it leads to."""
    passed = [start]
    for one in way:
        passed.append(one.target if one.source == passed[-1] else one.source)
    return PathSaid(relationships=[str(one.relationship_id) for one in way], entities=list(map(str, passed)))


def edges_of(ties: Sequence[Relationship]) -> Mapping[UUID, Sequence[tuple[UUID, Relationship]]]:
    """Who is tied to whom by what, either way."""
    edges: dict[UUID, list[tuple[UUID, Relationship]]] = {}
    for one in ties:
        edges.setdefault(one.source, []).append((one.target, one))
        edges.setdefault(one.target, []).append((one.source, one))
    return edges


def hops_from(start: UUID, ties: Sequence[Relationship], hops_max: int) -> Mapping[UUID, int]:
    """How far each one is, nearest first; not the start itself."""
    edges = edges_of(ties)
    far, front = {start: 0}, [start]
    for hops in range(1, hops_max + 1):
        front = list(dict.fromkeys(end for one in front for end, _ in edges.get(one, ()) if end not in far))
        far |= dict.fromkeys(front, hops)
    return {one: hops for one, hops in far.items() if hops}
