"""`/memory/v1/personas`: names in, how answers are asked to be out.

A persona is facets of closed words, and interests and a description in the user's own, which pass redaction and are
refused where they address the model. Those that everybody has are listed, and are changed by nobody. Raises NotFound,
Conflict, TooLarge, VersionRequired, Unprocessable, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from aiohttp import web

from memory.audit import Note, noted
from memory.errors import Conflict, NotFound, Unprocessable
from memory.personas import DESCRIPTION, INTERESTS, NewPersona, Persona
from policies.gate import Holder, Item
from policies.labels import Sensitivity
from policies.lifetime import UNDO
from policies.persona import BUILT_IN, DESCRIPTION_CHARS_MAX, INTEREST_CHARS_MAX, name_of, rendered
from policies.text import storable
from proxy.api.answers import said
from proxy.api.asking import Caller, body_as, caller_of, holder_for, parameters, require_change
from proxy.api.copies import Copy
from proxy.api.memories import version_in
from proxy.api.parts import OwnParts
from proxy.api.schemas_persona import PersonaAsked, PersonaDeleted, PersonaList, PersonaPatch, PersonaSaid
from proxy.api.screening import require_quotable
from proxy.api.vectors import memory_of_record
from proxy.gated import may_show, readable, require_readable, require_writable, sees

EXTRACTOR: Final = "persona/1"
_require_quotable: Final = partial(require_quotable, instead="say what you like, not what it is to do")
_READS: Final = "memory:read:own"
_WRITES: Final = "memory:write"


class PersonaCalls:
    """The handlers of personas."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def list(self, request: web.Request) -> web.Response:
        """The personas of the scope by name, then those that everybody has."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        holder = await holder_for(caller, self._parts.keys)
        found = readable(holder, await self._parts.personas.all_of(caller.scope), lambda one: _item_of(caller, one))
        rows = [*(_said(one) for one in found), *(_built_in(name) for name in BUILT_IN)]
        return said(PersonaList(data=rows))

    async def save(self, request: web.Request) -> web.Response:
        """Keep a persona under a name."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        return _shown(await self.kept(caller, await body_as(request, PersonaAsked)))

    async def kept(self, caller: Caller, asked: PersonaAsked, copy: Copy | None = None) -> Persona:
        """Keep a persona, as this memory where one is given."""
        name = caller.credential.hide(asked.name)
        _refuse_built_in(name)
        holder = await holder_for(caller, self._parts.keys)
        require_writable(holder, Item(caller.scope.tenant, Sensitivity.PUBLIC), "scope")
        sensitivity = Sensitivity(asked.sensitivity)
        then = copy.said_by(caller) if copy else caller
        new = await self._made(then, name, asked.facets, asked.description, asked.interests, sensitivity)
        new = replace(new, memory=copy.memory(new.memory), times=copy.times) if copy else new
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        note = _note(caller, "save", name)
        made = await self._parts.personas.save(caller.scope, subject, new, now=caller.now, note=note)
        await self._changed(caller, "saved")
        return made

    async def show(self, request: web.Request) -> web.Response:
        """One persona; its version is the ETag."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        name = _name_in(request, caller)
        if name in BUILT_IN:
            return said(_built_in(name))
        holder = await holder_for(caller, self._parts.keys)
        return _shown(await self._known(caller, holder, name))

    async def change(self, request: web.Request) -> web.Response:
        """The next version of a persona."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        name, version = _name_in(request, caller), version_in(request)
        _refuse_built_in(name)
        asked = await body_as(request, PersonaPatch)
        version = require_change(asked, version)
        holder = await holder_for(caller, self._parts.keys)
        known = await self._known(caller, holder, name)
        given = asked.model_fields_set
        sensitivity = Sensitivity(asked.sensitivity if "sensitivity" in given else known.sensitivity)
        require_writable(holder, _item_of(caller, known), "persona", sensitivity)
        facets = asked.facets if "facets" in given else known.facets
        description = asked.description if "description" in given else known.description
        interests = asked.interests if "interests" in given else known.interests
        new = await self._made(caller, name, facets, description, interests, sensitivity)
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        note, lowers = _note(caller, "change", name), "sensitivity" in given
        made = await self._parts.personas.change(
            caller.scope, subject, version, new, now=caller.now, note=note, lowers=lowers
        )
        await self._changed(caller, "changed")
        return _shown(made)

    async def delete(self, request: web.Request) -> web.Response:
        """Hide a persona: gone from lists and prompts, and withdrawn from conversations."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        name = _name_in(request, caller)
        _refuse_built_in(name)
        holder = await holder_for(caller, self._parts.keys)
        require_writable(holder, _item_of(caller, await self._known(caller, holder, name)), "persona")
        note, version = _note(caller, "delete", name), version_in(request)
        await self._parts.personas.delete(caller.scope, name, version=version, now=caller.now, note=note)
        await self._parts.tells.changed(caller.scope)
        self._parts.metrics.personas.labels("deleted").inc()
        return said(PersonaDeleted(name=name, deleted_at=caller.now, undo_until=caller.now + UNDO))

    async def undelete(self, request: web.Request) -> web.Response:
        """Bring back the persona of this name that was deleted last."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        name = _name_in(request, caller)
        note = _note(caller, "undelete", name)
        may = may_show(await holder_for(caller, self._parts.keys), partial(_item_of, caller), "persona")
        back = await self._parts.personas.undelete(caller.scope, name, now=caller.now, note=note, may=may)
        await self._parts.tells.changed(caller.scope)
        return _shown(back)

    async def _known(self, caller: Caller, holder: Holder, name: str) -> Persona:
        known = await self._parts.personas.one(caller.scope, name, seen=partial(sees, holder))
        require_readable(holder, _item_of(caller, known), "persona")
        return known

    async def _changed(self, caller: Caller, what: str) -> None:
        await self._parts.tells.changed(caller.scope)
        self._parts.metrics.personas.labels(what).inc()

    async def _made(
        self,
        caller: Caller,
        name: str,
        facets: Mapping[str, str],
        description: str,
        interests: Sequence[str],
        sensitivity: Sensitivity,
    ) -> NewPersona:
        """The persona as it is stored. Raises Unprocessable, StoreUnavailable."""
        cleaned = await asyncio.to_thread(self._cleaned, description, "description", DESCRIPTION_CHARS_MAX)
        liked = [await asyncio.to_thread(self._cleaned, one, INTERESTS, INTEREST_CHARS_MAX) for one in interests]
        liked = list(dict.fromkeys(one for one in liked if one))
        if not (facets or cleaned or liked):
            raise Unprocessable("a persona without facets, interests and description asks for nothing", param="facets")
        text = rendered(facets, cleaned, liked)
        what = "all that is said together addresses"
        await asyncio.to_thread(_require_quotable, text, "own", what, param="description")
        memory = await memory_of_record(
            self._parts,
            text,
            caller.now,
            origin="persona",
            extractor_version=EXTRACTOR,
            sensitivity=sensitivity,
            attributes={name: said for name, said in ((DESCRIPTION, cleaned), (INTERESTS, liked)) if said},
            kind="working",
        )
        return NewPersona(name, facets, memory)

    def _cleaned(self, raw: str, member: str, chars_max: int) -> str:
        text = self._parts.redactor.redact(storable(raw)).text.strip()
        if len(text) > chars_max * 2:  # a secret's place is longer than some secrets
            raise Unprocessable(f"{member} is too long once its secrets are cut out", param=member)
        _require_quotable(text, "own", f"{member} addresses", param=member)
        return text


def _refuse_built_in(name: str) -> None:
    if name in BUILT_IN:
        raise Conflict(f"{name} is a persona that everybody has: choose another name", param="name")


def _name_in(request: web.Request, caller: Caller) -> str:
    """The name in the path, as it is kept. Raises NotFound for one that no persona can have."""
    try:
        return caller.credential.hide(name_of(request.match_info["id"]))
    except ValueError:
        raise NotFound("there is no such persona in this scope") from None


def _note(caller: Caller, what: str, name: str) -> Note:
    return noted(caller.scope.tenant, caller.actor, f"persona.{what}", names={"persona": name}, at=caller.now)


def _item_of(caller: Caller, one: Persona) -> Item:
    return Item(caller.scope.tenant, Sensitivity(one.sensitivity))


def _shown(one: Persona) -> web.Response:
    answer = said(_said(one))
    answer.headers["ETag"] = f'"{one.version}"'
    return answer


def _said(one: Persona) -> PersonaSaid:
    return PersonaSaid(
        name=one.name,
        built_in=False,
        id=str(one.persona_id),
        version=one.version,
        facets=dict(one.facets),
        description="" if one.hidden else one.description,
        interests=[] if one.hidden else list(one.interests),
        text="" if one.hidden else one.text,
        memory_id=str(one.memory_id),
        sensitivity=one.sensitivity,
        state=one.hidden,
        created_at=one.created_at,
        changed_at=one.changed_at,
    )


def _built_in(name: str) -> PersonaSaid:
    facets = dict(BUILT_IN[name])
    return PersonaSaid(
        name=name,
        built_in=True,
        id=None,
        version=1,
        facets=facets,
        description="",
        interests=[],
        text=rendered(facets),
        memory_id=None,
        sensitivity="public",
        state="",
        created_at=None,
        changed_at=None,
    )
