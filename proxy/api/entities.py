"""`/memory/v1/entities` and `/memory/v1/relationships`: who is who and what ties them in and out.

What is written passes redaction and is refused where it addresses the model. What is learnt of facts is shown with
them, and changed by hand alone. Raises NotFound, Conflict, TooLarge, VersionRequired, Unprocessable, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, get_args
from uuid import UUID

from aiohttp import web

from memory.audit import Note, noted
from memory.entities import CARD, Entity, NewEntity, NewRelationship, Relationship, Seen
from memory.errors import Conflict, MemoryInvalid, NotFound, Unprocessable
from memory.ids import new_id
from memory.model import NewMemory
from policies.entity import NAME_CHARS_MAX, PROPERTY, Told, Type, fault_in, related, statement
from policies.gate import Holder, Item
from policies.graph import ways
from policies.labels import Sensitivity
from policies.lifetime import UNDO
from policies.text import storable
from proxy.api.answers import said
from proxy.api.asking import (
    Caller,
    as_id,
    body_as,
    caller_of,
    holder_for,
    id_in_path,
    moment_in,
    parameters,
    require_change,
)
from proxy.api.copies import Copy
from proxy.api.entity_words import edges_of, entity_said, hops_from, path_said, relationship_said
from proxy.api.memories import version_in
from proxy.api.paging import PARAMETERS, page_of
from proxy.api.parts import OwnParts
from proxy.api.schemas_entity import (
    EntityAsked,
    EntityDeleted,
    EntityHistorySaid,
    EntityList,
    EntityPatch,
    EntityStepSaid,
    MergeAsked,
    NearSaid,
    NeighboursSaid,
    PathsSaid,
    RelationshipAsked,
    RelationshipDeleted,
)
from proxy.api.screening import clean_beside, require_no_secret, require_quotable
from proxy.api.vectors import memory_of_record
from proxy.gated import may_show, may_write, readable, require_readable, require_writable

EXTRACTOR: Final = "entity/1"
_require_quotable: Final = partial(require_quotable, instead="say what it is, not what is to be done")
KIND: Final = "entity"
HOPS_MAX: Final = 3
PATHS_MAX: Final = 20
TYPES: Final[tuple[Type, ...]] = get_args(Type)
_READS: Final = "memory:read:own"
_WRITES: Final = "memory:write"
_GRAPH: Final = frozenset({"hops", "type", "at"})


class EntityCalls:
    """The handlers of people and things."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def add(self, request: web.Request) -> web.Response:
        """Keep one."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        return _answer(await self.kept(caller, await body_as(request, EntityAsked)))

    async def kept(
        self, caller: Caller, asked: EntityAsked, copy: Copy | None = None, here: Entity | None = None
    ) -> Entity:
        """Keep one, under these ids where they are given; what is said is said of who is `here`, learnt before."""
        holder = await self._holder(caller)
        require_writable(holder, Item(caller.scope.tenant, Sensitivity.PUBLIC), "scope")
        told = Told(asked.name, asked.type, asked.aliases, asked.properties, asked.facets, asked.notes)
        entity_id = here.entity_id if here else copy.record_id if copy else new_id()
        then = copy.said_by(caller) if copy else caller
        new = await self._new(then, entity_id, told, asked.sensitivity, namesake=asked.namesake)
        new = replace(new, memory=copy.memory(new.memory), times=copy.times) if copy else new
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        what, seen = ("change" if here else "add"), _seen_by(caller, holder)
        store, by, at = self._parts.entities, caller.actor, caller.now
        note = _note(caller, what, [new.entity_id])
        if here:
            made = await store.change(caller.scope, subject, here.version, new, by, now=at, note=note, seen=seen)
        else:
            made = await store.add(caller.scope, subject, new, by, now=at, note=note, seen=seen)
        await self._changed(caller, "changed" if here else "added")
        return made

    async def list(self, request: web.Request) -> web.Response:
        """People and things by when they came; `type` and `name` narrow the list."""
        caller = caller_of(request, self._parts.door, _READS)
        given = parameters(request, PARAMETERS | {"type", "name"})
        page = page_of(given, "entities")
        if not 1 <= len(given.get("name", "x")) <= NAME_CHARS_MAX:
            raise MemoryInvalid(f"a name has 1 to {NAME_CHARS_MAX} characters", param="name")
        types, holder, store = _types(given.get("type")), await self._holder(caller), self._parts.entities
        asked: dict[str, Any] = {"limit": page.limit, "cursor": page.cursor, "order": page.order, "types": types}
        if "name" in given:
            name = caller.credential.hide(storable(given["name"]))
            found = await store.named(caller.scope, name, **asked)
        else:
            found = await store.page(caller.scope, **asked)
        seen = readable(holder, found.rows, lambda one: _item(caller, one))
        rows, cursor = [entity_said(one) for one in seen], page.next_cursor(found.next_cursor)
        return said(EntityList(data=rows, next_cursor=cursor))

    async def show(self, request: web.Request) -> web.Response:
        """One of them; its version is the ETag."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        return _answer(await self._known(caller, await self._holder(caller), id_in_path(request, KIND)))

    async def history(self, request: web.Request) -> web.Response:
        """How one became what it is."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        known = await self._known(caller, await self._holder(caller), id_in_path(request, KIND))
        steps = await self._parts.entities.history(caller.scope, known.entity_id)
        rows = [
            EntityStepSaid(
                version=one.version,
                what=one.what,
                other=str(one.other) if one.other else None,
                actor=one.actor,
                at=one.at,
            )
            for one in steps
        ]
        return said(EntityHistorySaid(data=rows))

    async def change(self, request: web.Request) -> web.Response:
        """The next version of one."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        entity_id, version = id_in_path(request, KIND), version_in(request)
        asked = await body_as(request, EntityPatch)
        version = require_change(asked, version)
        known = await self._writable(caller, entity_id)
        new = await self._new(caller, entity_id, _patched(known, asked), known.sensitivity, namesake=asked.namesake)
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        note = _note(caller, "change", [entity_id])
        seen = _seen_by(caller, await self._holder(caller))
        made = await self._parts.entities.change(
            caller.scope, subject, version, new, caller.actor, now=caller.now, note=note, seen=seen
        )
        await self._changed(caller, "changed")
        return _answer(made)

    async def merge(self, request: web.Request) -> web.Response:
        """Both are one."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        asked = await body_as(request, MergeAsked)
        known = await self._writable(caller, id_in_path(request, KIND))
        into = await self._named(caller, asked.into, "into")
        return _answer(await self.merged(caller, known.entity_id, into.entity_id))

    async def merged(self, caller: Caller, one: UUID, into: UUID) -> Entity:
        """Both are one from now on. Raises NotFound, Conflict."""
        note, seen = _note(caller, "merge", [one, into]), _seen_by(caller, await self._holder(caller))
        made = await self._parts.entities.merge(
            caller.scope, one, into, caller.actor, now=caller.now, note=note, seen=seen
        )
        await self._changed(caller, "merged")
        return made

    async def split(self, request: web.Request) -> web.Response:
        """It stands for itself again."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        known = await self._writable(caller, id_in_path(request, KIND))
        note = _note(caller, "split", [known.entity_id])
        made = await self._parts.entities.split(caller.scope, known.entity_id, caller.actor, now=caller.now, note=note)
        await self._changed(caller, "split")
        return _answer(made)

    async def delete(self, request: web.Request) -> web.Response:
        """Hide one: it is in no list and no prompt, and is not learnt again."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        known, version = await self._writable(caller, id_in_path(request, KIND)), version_in(request)
        note, now = _note(caller, "delete", [known.entity_id]), caller.now
        await self._parts.entities.delete(
            caller.scope, known.entity_id, caller.actor, version=version, now=now, note=note
        )
        await self._changed(caller, "deleted")
        return said(EntityDeleted(id=str(known.entity_id), deleted_at=caller.now, undo_until=caller.now + UNDO))

    async def undelete(self, request: web.Request) -> web.Response:
        """Bring back one that was deleted."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        entity_id = id_in_path(request, KIND)
        note = _note(caller, "undelete", [entity_id])
        holder = await self._holder(caller)
        may, seen = may_show(holder, partial(_item, caller), KIND), _seen_by(caller, holder)
        back = await self._parts.entities.undelete(
            caller.scope, entity_id, caller.actor, now=caller.now, note=note, may=may, seen=seen
        )
        await self._changed(caller, "undeleted")
        return _answer(back)

    # ------------------------------------------------------------ what ties them

    async def relate(self, request: web.Request) -> web.Response:
        """Tie two of them."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        return said(relationship_said(await self.tied(caller, await body_as(request, RelationshipAsked))))

    async def tied(self, caller: Caller, asked: RelationshipAsked, copy: Copy | None = None) -> Relationship:
        """Tie two of them, under these ids where they are given."""
        source, target = [await self._shown(caller, getattr(asked, end), end) for end in ("source", "target")]
        if asked.valid_from and asked.valid_to and asked.valid_to <= asked.valid_from:
            raise Unprocessable("valid_to is not behind valid_from", param="valid_to")
        require_no_secret(asked.type, self._parts.redactor, "type")
        properties = await asyncio.to_thread(self._clean_properties, asked.properties)
        text = related(source.name, asked.type, target.name, properties)
        ends_said = {"source": source.name, "type": asked.type, "target": target.name}
        kept = {"relationship": {"properties": properties, **ends_said}}
        level = max(asked.sensitivity, source.sensitivity, target.sensitivity, key=_level)
        memory = await self._memory(copy.said_by(caller) if copy else caller, text, level, kept)
        ends = (source.entity_id, asked.type, target.entity_id)
        memory = copy.memory(memory) if copy else memory
        tie_id = copy.record_id if copy else new_id()
        new = NewRelationship(tie_id, *ends, memory, asked.valid_from, asked.valid_to, copy.times if copy else None)
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        note = _note(caller, "relate", [source.entity_id, target.entity_id])
        seen = _seen_by(caller, await self._holder(caller))
        made = await self._parts.entities.relate(caller.scope, subject, new, now=caller.now, note=note, seen=seen)
        await self._changed(caller, "related")
        return made

    async def unrelate(self, request: web.Request) -> web.Response:
        """Tie them no more."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        relationship_id = id_in_path(request, "relationship")
        note = _note(caller, "unrelate", [relationship_id])
        may = may_write(await self._holder(caller), partial(Item, caller.scope.tenant), "relationship")
        await self._parts.entities.unrelate(caller.scope, relationship_id, now=caller.now, note=note, may=may)
        await self._changed(caller, "unrelated")
        return said(RelationshipDeleted(id=str(relationship_id)))

    async def neighbours(self, request: web.Request) -> web.Response:
        """Who is near one, nearest first."""
        caller = caller_of(request, self._parts.door, _READS)
        given, holder = parameters(request, _GRAPH), await self._holder(caller)
        start, hops = _root(await self._known(caller, holder, id_in_path(request, KIND))), _hops(given)
        ties = await self._ties(caller, holder, start, hops, given)
        far = hops_from(start, ties, hops)
        near = {one.entity_id: one for one in await self._some(caller, holder, list(far))}
        entities = [NearSaid(entity=entity_said(near[one]), hops=at) for one, at in far.items() if one in near]
        ends = near.keys() | {start}
        between = [relationship_said(one) for one in ties if one.source in ends and one.target in ends]
        return said(NeighboursSaid(entities=entities, relationships=between))

    async def paths(self, request: web.Request) -> web.Response:
        """The ways from one to another."""
        caller = caller_of(request, self._parts.door, _READS)
        given, holder = parameters(request, _GRAPH | {"to"}), await self._holder(caller)
        if "to" not in given:
            raise MemoryInvalid("say `to`: the id of the one that the ways lead to", param="to")
        start = _root(await self._known(caller, holder, id_in_path(request, KIND)))
        end = _root(await self._known(caller, holder, as_id(given["to"], KIND, "to")))
        hops = _hops(given)
        ties = await self._ties(caller, holder, start, hops, given)
        seen = {one.entity_id for one in await self._some(caller, holder, [*hops_from(start, ties, hops)])} | {start}
        open_ = [one for one in ties if one.source in seen and one.target in seen]
        found = ways(edges_of(open_), start, end, hops_max=hops, count_max=PATHS_MAX)
        used = {one.relationship_id: one for way in found for one in way}
        return said(
            PathsSaid(
                paths=[path_said(start, way) for way in found],
                relationships=[relationship_said(one) for one in used.values()],
            )
        )

    # ------------------------------------------------------------ steps

    async def _holder(self, caller: Caller) -> Holder:
        return await holder_for(caller, self._parts.keys)

    async def _known(self, caller: Caller, holder: Holder, entity_id: UUID) -> Entity:
        known = await self._parts.entities.one(caller.scope, entity_id)
        require_readable(holder, _item(caller, known), KIND)
        return known

    async def _writable(self, caller: Caller, entity_id: UUID) -> Entity:
        holder = await self._holder(caller)
        known = await self._known(caller, holder, entity_id)
        require_writable(holder, _item(caller, known), KIND)
        return known

    async def _named(self, caller: Caller, raw: str, param: str) -> Entity:
        """The one whose id a body says. Raises NotFound, which names the member."""
        try:
            return await self._writable(caller, as_id(raw, KIND))
        except NotFound as missing:
            raise NotFound(missing.message, param=param) from None

    async def _shown(self, caller: Caller, raw: str, param: str) -> Entity:
        """The one whose id a body says, whose name may be said. Raises NotFound, Conflict."""
        known = await self._named(caller, raw, param)
        if known.hidden:
            raise Conflict(f"what is said of it is {known.hidden}: its name is in no tie", param=param)
        return known

    async def _some(self, caller: Caller, holder: Holder, entity_ids: Sequence[UUID]) -> Sequence[Entity]:
        found = await self._parts.entities.some(caller.scope, entity_ids)
        return readable(holder, found, lambda one: _item(caller, one))

    async def _ties(
        self, caller: Caller, holder: Holder, start: UUID, hops: int, given: Mapping[str, str]
    ) -> Sequence[Relationship]:
        types = frozenset(given["type"].split(",")) if "type" in given else None
        if types is not None and any(PROPERTY.fullmatch(one) is None for one in types):
            raise MemoryInvalid("type is of small letters, digits and underscores, several with commas", param="type")
        at = moment_in(given, "at") or caller.now
        found = await self._parts.entities.around(caller.scope, [start], at=at, types=types, hops=hops)
        return readable(holder, found, lambda one: Item(caller.scope.tenant, Sensitivity(one.sensitivity)))

    async def _changed(self, caller: Caller, what: str) -> None:
        await self._parts.tells.changed(caller.scope)
        self._parts.metrics.entities.labels(what).inc()

    async def _new(self, caller: Caller, entity_id: UUID, told: Told, sensitivity: str, *, namesake: bool) -> NewEntity:
        """One as it is stored. Raises Unprocessable, StoreUnavailable."""
        clean = await asyncio.to_thread(self._cleaned, told)
        card = {
            "name": clean.name,
            "type": clean.type,
            "aliases": list(clean.aliases),
            "properties": dict(clean.properties or {}),
            "facets": dict(clean.facets or {}),
            "notes": clean.notes,
        }
        memory = await self._memory(caller, statement(clean), sensitivity, {CARD: card})
        return NewEntity(entity_id, clean, memory, namesake)

    def _cleaned(self, told: Told) -> Told:
        clean = Told(
            self._clean(told.name, "name"),
            told.type,
            list(dict.fromkeys(self._clean(one, "aliases") for one in told.aliases)),
            self._clean_properties(told.properties or {}),
            told.facets,
            self._clean(told.notes, "notes"),
        )
        if (fault := fault_in(clean)) is not None:
            raise Unprocessable(fault[1], param=fault[0])
        return clean

    def _clean_properties(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        for name in properties:
            require_no_secret(name, self._parts.redactor, "properties")
        return {
            name: self._clean(clean_beside(name, storable(value), self._parts.redactor), "properties")
            if isinstance(value, str)
            else value
            for name, value in properties.items()
        }

    def _clean(self, text: str, member: str) -> str:
        clean = self._parts.redactor.redact(storable(text)).text.strip()
        _require_quotable(clean, "own", f"{member} addresses", param=member)
        return clean

    async def _memory(self, caller: Caller, text: str, sensitivity: str, attributes: Mapping[str, Any]) -> NewMemory:
        what = "what is said of it, taken together, addresses"
        await asyncio.to_thread(_require_quotable, text, "own", what, param="body")
        return await memory_of_record(
            self._parts,
            text,
            caller.now,
            origin=KIND,
            extractor_version=EXTRACTOR,
            sensitivity=Sensitivity(sensitivity),
            attributes=attributes,
        )


def _root(one: Entity) -> UUID:
    """The one that it is merged into, or itself."""
    return one.merged_into or one.entity_id


def _patched(known: Entity, asked: EntityPatch) -> Told:
    """What is said of one from now on; a learnt one keeps the name that it has."""
    was = known.card or Told(known.name, known.type)
    given = asked.model_fields_set
    new = {name: getattr(asked if name in given else was, name) for name in Told.__dataclass_fields__}
    return Told(**new)


def _answer(one: Entity) -> web.Response:
    answer = said(entity_said(one))
    answer.headers["ETag"] = f'"{one.version}"'
    return answer


def _types(given: str | None) -> Sequence[Type]:
    if given is None:
        return TYPES
    asked = set(given.split(","))
    if not asked <= set(TYPES):
        raise MemoryInvalid(f"type is some of {', '.join(TYPES)}, with commas", param="type")
    return [one for one in TYPES if one in asked]


def _hops(given: Mapping[str, str]) -> int:
    raw = given.get("hops", "1")
    if raw not in {str(hops) for hops in range(1, HOPS_MAX + 1)}:
        raise MemoryInvalid(f"hops is a whole number from 1 to {HOPS_MAX}", param="hops")
    return int(raw)


def _level(sensitivity: str) -> int:
    return list(Sensitivity).index(Sensitivity(sensitivity))


def _note(caller: Caller, what: str, ids: Sequence[UUID]) -> Note:
    return noted(caller.scope.tenant, caller.actor, f"entity.{what}", ids=ids, at=caller.now)


def _item(caller: Caller, one: Entity | Relationship) -> Item:
    return Item(caller.scope.tenant, Sensitivity(one.sensitivity))


def _seen_by(caller: Caller, holder: Holder) -> Seen:
    return lambda one: bool(readable(holder, [one], partial(_item, caller)))
