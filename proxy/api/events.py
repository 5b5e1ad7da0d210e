"""`GET /memory/v1/events`: a cursor in, what became of memories since out, oldest first.

For a governance layer outside: ids and labels, never content. Poll with `after`, the cursor of the last event seen; the
feed follows the order of commits, so nothing is missed and nothing comes twice. Raises MemoryInvalid, naming `after`,
for a cursor that is none of this scope's feed; StoreUnavailable.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.stored import LifecycleEvent
from policies.gate import Item
from policies.labels import Sensitivity
from proxy.api.answers import said
from proxy.api.asking import caller_of, holder_for, parameters
from proxy.api.paging import page_of
from proxy.api.parts import OwnParts
from proxy.api.schemas import EventList, EventSaid
from proxy.gated import readable

_TAKES: Final = frozenset({"after", "limit"})


class Events:
    """The handler of the lifecycle feed."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def list(self, request: web.Request) -> web.Response:
        """Events of the caller's scope behind `after`."""
        caller = caller_of(request, self._parts.door, "memory:read:own")
        page = page_of(parameters(request, _TAKES), "events", default="asc", cursor="after")
        found = await self._parts.feed.events(caller.scope, limit=page.limit, after=page.cursor)
        holder = await holder_for(caller, self._parts.keys)
        seen = readable(holder, found.rows, partial(_item, caller.scope.tenant))
        rows = [_said(one, page.next_cursor(one.cursor)) for one in seen]
        return said(EventList(data=rows, next_cursor=page.next_cursor(found.next_cursor), missed=found.missed))


def _item(tenant: UUID, one: LifecycleEvent) -> Item:
    """An event by the sensitivity that it tells, if any: else it holds ids alone."""
    told = one.metadata.get("sensitivity")
    known = told if told in {label.value for label in Sensitivity} else Sensitivity.PUBLIC.value
    return Item(tenant, Sensitivity(known))


def _said(one: LifecycleEvent, cursor: str | None) -> EventSaid:
    return EventSaid(
        cursor=cursor or "",
        at=one.at,
        what=one.what,
        memory_id=str(one.memory_id),
        version=one.version,
        kind=one.kind,
        by=one.by,
        metadata=one.metadata,
    )
