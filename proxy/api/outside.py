"""`POST /memory/v1/outside`: a question in, pages of the web kept for it out, while the caller waits.

It takes seconds, and the caller has asked for it. The pages are staged as documents of the caller's scope and are found
once a worker has stored them. Raises NotFound where looking outside is off, ScopeDenied, RateLimited, StoreUnavailable.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory.errors import NotFound, ScopeDenied
from memory.outside import Asker, Gained
from policies.gate import Item
from policies.labels import Sensitivity
from policies.text import storable
from proxy.api.answers import said
from proxy.api.asking import body_as, caller_of, parameters
from proxy.api.parts import OwnParts
from proxy.api.schemas_outside import MissedSaid, OutsideAsked, OutsideSaid, PageSaid
from proxy.api.under_way import UnderWay
from proxy.gated import holder_of, require_writable

AT_ONCE: Final = 4
"""Questions under way in one process."""


class OutsideCalls:
    """The handler."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts
        self._under_way = UnderWay(AT_ONCE, f"{AT_ONCE} questions are being looked for here; ask again", 5)

    async def look(self, request: web.Request) -> web.Response:
        """Look for a question in the web now."""
        caller = caller_of(request, self._parts.door, "memory:write")
        parameters(request, ())
        asked = await body_as(request, OutsideAsked)
        if self._parts.outside is None:
            raise NotFound("looking outside is off here: outside.enabled and outside.search_url turn it on")
        if caller.credential.session is not None:
            raise ScopeDenied("this token is for one session, and pages are kept for the whole scope")
        require_writable(holder_of(caller.credential), Item(caller.scope.tenant, Sensitivity.PUBLIC), "scope")
        outside, sensitivity = self._parts.outside, Sensitivity(asked.sensitivity)
        asker = Asker(caller.scope.tenant, caller.actor, sensitivity)
        with self._under_way.place():
            gained = await outside.looks.look_for(asker, storable(asked.question), "asked")
        ids = await outside.keeps.keep(caller.scope, caller.actor, gained.pages, caller.now)
        return said(_said(gained, [str(one) for one in ids]))


def _said(gained: Gained, ids: list[str]) -> OutsideSaid:
    pages = [
        PageSaid(
            document=document,
            url=page.url,
            title=page.title,
            published=page.published,
            fetched_at=page.fetched_at,
            cut=page.cut,
        )
        for document, page in zip(ids, gained.pages, strict=True)
    ]
    missed = [MissedSaid(url=one.url, reason=one.reason) for one in gained.missed]
    return OutsideSaid(search=gained.search, pages=pages, missed=missed)
