"""`/memory/v1/preferences`: what was learnt of a user's taste, how strongly it is held and on what it rests.

Learning is the write path's (facts of the category preference); here they are read and reset. A reset hides their
memories, each of which can be shown again. Raises NotFound, StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.audit import noted
from memory.errors import NotFound
from memory.preferences import Preference
from policies.gate import Holder, Item
from policies.labels import Sensitivity
from policies.lifetime import UNDO
from policies.preference import strength
from proxy.api.answers import said
from proxy.api.asking import Caller, as_id, body_as, caller_of, holder_for, parameters
from proxy.api.parts import OwnParts
from proxy.api.schemas_preference import PreferenceList, PreferenceSaid, PreferencesGone, PreferencesReset
from proxy.gated import readable, require_writable

_DIGITS: Final = 3


class PreferenceCalls:
    """The handlers of preferences."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def list(self, request: web.Request) -> web.Response:
        """The preferences of the scope that hold, strongest first; of more than can be shown those last said."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        parameters(request, ())
        holder = await holder_for(caller, self._parts.keys)
        held, more = await self._held(caller, holder)
        found = readable(holder, held, partial(_item, caller))
        rows = sorted((_said(caller, one) for one in found), key=lambda one: -one.strength)
        return said(PreferenceList(data=rows, more=more))

    async def reset(self, request: web.Request) -> web.Response:
        """Hide these preferences, or all that the caller may see."""
        caller = caller_of(request, self._parts.door, "memory:write")
        parameters(request, ())
        asked = await body_as(request, PreferencesReset)
        holder = await holder_for(caller, self._parts.keys)
        gone: dict[UUID, None] = {}
        if asked.memories is not None:
            gone = dict.fromkeys(as_id(one, "preference", "memories") for one in asked.memories)
            await self._hide(caller, holder, list(gone), (await self._held(caller, holder, list(gone)))[0])
        else:
            found, _ = await self._held(caller, holder)
            while wanted := [one for one in _seen(caller, holder, found) if one not in gone]:
                gone |= dict.fromkeys(wanted)
                await self._hide(caller, holder, wanted, found)
                found, _ = await self._held(caller, holder)  # what had been replaced holds again
        await self._parts.tells.changed(caller.scope)
        return said(PreferencesGone(memories=[str(one) for one in gone], undo_until=caller.now + UNDO))

    async def _held(
        self, caller: Caller, holder: Holder, among: Sequence[UUID] | None = None
    ) -> tuple[Sequence[Preference], bool]:
        """What holds, of these or of all, that this holder may see, 500 at most; and whether there is more."""
        return await self._parts.preferences.preferences(
            caller.scope, caller.now, among, ceiling=holder.ceiling, session_id=holder.session_id
        )

    async def _hide(self, caller: Caller, holder: Holder, wanted: Sequence[UUID], found: Sequence[Preference]) -> None:
        """Hide these of what was found, or none. Raises NotFound, CapabilityMissing."""
        known = {one.memory_id: one for one in found}
        for memory_id in wanted:
            if memory_id not in known:
                raise NotFound(f"there is no preference {memory_id} in this scope", param="memories")
            require_writable(holder, _item(caller, known[memory_id]), "preference")
        for memory_id in wanted:
            note = noted(caller.scope.tenant, caller.actor, "preference.reset", ids=[memory_id], at=caller.now)
            with suppress(NotFound):  # somebody else has hidden it since it was read
                await self._parts.records.delete_memory(caller.scope, memory_id, caller.now, note=note)


def _seen(caller: Caller, holder: Holder, found: Sequence[Preference]) -> Sequence[UUID]:
    return [one.memory_id for one in readable(holder, found, partial(_item, caller))]


def _item(caller: Caller, one: Preference) -> Item:
    return Item(caller.scope.tenant, Sensitivity(one.sensitivity), session_id=one.session_id)


def _said(caller: Caller, one: Preference) -> PreferenceSaid:
    held = strength(one.said, one.sessions, caller.now - one.last_said, vouched=one.vouched or one.pinned)
    return PreferenceSaid(
        memory_id=str(one.memory_id),
        version=one.version,
        statement=one.statement,
        predicate=one.predicate,
        strength=round(held, _DIGITS),
        said=one.said,
        sessions=one.sessions,
        since=one.first_said,
        last_said=one.last_said,
        pinned=one.pinned,
        evidence=[str(event_id) for event_id in one.evidence],
    )
