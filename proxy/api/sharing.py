"""`POST /memory/v1/memories/{id}/share` and `/unshare`: a memory of the caller's own in, what others may see of it out.

Sharing is an act: it wants the capability memory:share:project or memory:share:tenant and leaves an audit row in the
same transaction. What the caller may not see looks like what is not there. Raises NotFound, Unprocessable,
CapabilityMissing, StoreUnavailable.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from aiohttp import web

from memory.errors import NotFound
from policies.gate import Item
from proxy.api.answers import said
from proxy.api.asking import Caller, body_as, caller_of, holder_for, id_in_path, parameters, require
from proxy.api.memories import item_of
from proxy.api.parts import OwnParts
from proxy.api.schemas import ShareAsked, SharedSaid, UnsharedSaid
from proxy.gated import require_readable

_READS: Final = "memory:read:own"


class SharingCalls:
    """The handlers of sharing."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def share(self, request: web.Request) -> web.Response:
        """Copy a memory to what the project or the tenant shares."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        memory_id = id_in_path(request, "memory")
        asked = await body_as(request, ShareAsked)
        require(caller.credential, f"memory:share:{asked.to}")
        await self._require_seen(caller, memory_id)
        made = await self._parts.sharing.share(caller.scope, memory_id, asked.to, actor=caller.actor, now=caller.now)
        await self._parts.tells.changed(caller.scope)
        return said(
            SharedSaid(
                id=str(made.copy_id), source_id=str(made.source_id), to=made.to, shared_at=made.at, shared=made.new
            )
        )

    async def unshare(self, request: web.Request) -> web.Response:
        """Hide the copies of a memory from the project or the tenant again."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        memory_id = id_in_path(request, "memory")
        asked = await body_as(request, ShareAsked)
        require(caller.credential, f"memory:share:{asked.to}")
        admin = caller.credential.can("memory:admin")
        await self._require_seen(caller, memory_id, copies=admin)
        gone = await self._parts.sharing.unshare(
            caller.scope, memory_id, asked.to, actor=caller.actor, now=caller.now, admin=admin
        )
        await self._parts.tells.changed(caller.scope)
        return said(UnsharedSaid(ids=[str(one) for one in gone], to=asked.to, unshared_at=caller.now))

    async def _require_seen(self, caller: Caller, memory_id: UUID, *, copies: bool = False) -> None:
        """Raise NotFound for what the caller may not see: a memory of its own, or one of the `copies` of anybody's."""
        holder = await holder_for(caller, self._parts.keys)
        if holder.capabilities is None:
            return
        records = self._parts.records
        try:
            item = item_of(caller.scope, await records.memory(caller.scope, memory_id, now=caller.now))
        except NotFound:
            label = (await records.memory_labels(caller.scope, [memory_id])).get(memory_id) if copies else None
            if label is None:
                raise
            item = Item(caller.scope.tenant, label.sensitivity, label.visibility)
        require_readable(holder, item, "memory")
