"""`POST /memory/v1/outside`: a question in, pages of the web kept for it out, while the caller waits.

It takes seconds, and the caller has asked for it. The pages are staged as documents of the caller's scope and are found
once a worker has stored them. Raises NotFound where looking outside is off, ScopeDenied, RateLimited, StoreUnavailable.
"""

from __future__ import annotations

from aiohttp import web

from memory.errors import NotFound, ScopeDenied
from policies.gate import Item
from policies.labels import Sensitivity
from proxy.api.answers import said
from proxy.api.asking import body_as, caller_of, parameters
from proxy.api.parts import OwnParts
from proxy.api.schemas_outside import MissedSaid, OutsideAsked, OutsideSaid, PageSaid
from proxy.gated import holder_of, require_writable
from proxy.outside import OFF, ONE_SESSION, Looked


class OutsideCalls:
    """The handler."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def look(self, request: web.Request) -> web.Response:
        """Look for a question in the web now."""
        caller = caller_of(request, self._parts.door, "memory:write")
        parameters(request, ())
        asked = await body_as(request, OutsideAsked)
        if self._parts.outside is None:
            raise NotFound(OFF)
        if caller.credential.session is not None:
            raise ScopeDenied(ONE_SESSION)
        require_writable(holder_of(caller.credential), Item(caller.scope.tenant, Sensitivity.PUBLIC), "scope")
        label = Sensitivity(asked.sensitivity)
        looked = await self._parts.outside.keep(caller.scope, caller.actor, asked.question, caller.now, label)
        return said(_said(looked))


def _said(looked: Looked) -> OutsideSaid:
    gained = looked.gained
    pages = [
        PageSaid(
            document=str(document),
            url=page.url,
            title=page.title,
            published=page.published,
            fetched_at=page.fetched_at,
            cut=page.cut,
        )
        for document, page in zip(looked.documents, gained.pages, strict=True)
    ]
    missed = [MissedSaid(url=one.url, reason=one.reason) for one in gained.missed]
    return OutsideSaid(search=gained.search, pages=pages, missed=missed)
