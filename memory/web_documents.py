"""Pages of the web as documents: pages in, staged uploads out, which a memory worker cuts, embeds and stores.

A page's name is its URL, so that a page fetched again is the document's next version: what it says still keeps its ids
and vectors. It takes no file's place: where one has that name it gets another. One that somebody deleted is kept again
only where the web was asked for. Its chunks have the integrity `web` and the time at which the page was fetched. Raises
RateLimited and StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from memory import document_payload
from memory.audit import Note, noted
from memory.documents import FileFacts, Parsed, Upload
from memory.envelope import Binding, seal
from memory.errors import Conflict
from memory.ids import new_id
from memory.keys import KeyRing
from memory.master import hkdf
from memory.model import Scope
from memory.outside import WebPage
from memory.parse.blocks import Block, Kind
from memory.web import BlockKind
from policies.labels import Integrity, Sensitivity
from policies.text import storable

NAME_CHARS_MAX: Final = 255
_GAP: Final = 2
_KINDS: Final[dict[BlockKind, Kind]] = {
    "heading": "heading", "text": "paragraph", "item": "paragraph", "code": "code", "row": "row"
}  # fmt: skip


class Stages(Protocol):
    """Where uploads wait to be stored."""

    async def stage(
        self,
        scope: Scope,
        upload: Upload,
        *,
        waiting_max: int,
        now: datetime,
        note: Note,
        may: Callable[[Sensitivity], None] = ...,
    ) -> UUID:
        """Keep one in place of what has its name, where `may` raises nothing of the label of that; its document's id.
        Raises RateLimited, StoreUnavailable, Conflict for a page of the web where that is a file.
        """

    async def was_deleted(self, scope: Scope, names: Sequence[str]) -> bool:
        """Whether a page that had one of these names was deleted, and none has one now. Raises StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class WebDocuments:
    """Keeps pages. `redact`: what is stored of a URL, which may hold a secret."""

    store: Stages
    keys: KeyRing
    redact: Callable[[str], str]
    waiting_max: int

    async def keep(self, scope: Scope, actor: str, pages: Sequence[WebPage], now: datetime) -> list[UUID]:
        """The documents of these pages, in their order, less those that somebody deleted and nobody asked for."""
        return [await self._keep(scope, actor, page, now) for page in pages if await self._is_wanted(scope, page)]

    async def _is_wanted(self, scope: Scope, page: WebPage) -> bool:
        names = {await self._name(scope, page), name_of(self.redact(storable(page.url)))}
        return page.why == "asked" or not await self.store.was_deleted(scope, (*names, *map(beside, names)))

    async def _name(self, scope: Scope, page: WebPage) -> str:
        """Its URL without secrets. One in the path says which page it is (a shared link), so that a keyed digest of the
        path stands for it; one in the query is another at each visit of the same page.
        """
        url = storable(page.url)
        path, clean = url.partition("?")[0], self.redact(url)
        if self.redact(path) == path:
            return name_of(clean)
        key = hkdf(await self.keys.content_key(scope.tenant), b"web names")
        return name_of(f"{clean}#{hmac.digest(key, path.encode(), 'sha256').hex()[:16]}")

    async def _keep(self, scope: Scope, actor: str, page: WebPage, now: datetime) -> UUID:
        parsed, upload_id = parsed_page(page), new_id()
        subject_id = await self.keys.subject_id(scope.tenant, scope.user)
        key = await self.keys.subject_key(scope.tenant, scope.user)
        binding = Binding(scope.tenant, subject_id, upload_id, "document")
        sealed = await asyncio.to_thread(lambda: seal(key, binding, document_payload.packed(parsed)))
        said = "\n\n".join(block.text for block in parsed.blocks).encode("utf-8", "replace")
        upload = Upload(
            upload_id=upload_id,
            subject_id=subject_id,
            name=await self._name(scope, page),
            facts=FileFacts(
                media_type=parsed.media_type,
                sha256=hashlib.sha256(said).digest(),
                bytes_given=len(said),
                chars=parsed.chars,
                pages=0,
                integrity=Integrity.WEB.value,
                sensitivity=Sensitivity.INTERNAL.value,
            ),
            inline="never",
            only_for=None,
            shown_in=None,
            sealed=sealed,
        )
        note = noted(scope.tenant, actor, "outside.keep", why=page.why, ids=[upload_id], at=now)
        try:
            return await self.store.stage(scope, upload, waiting_max=self.waiting_max, now=now, note=note)
        except Conflict:
            upload = replace(upload, name=beside(upload.name))
            return await self.store.stage(scope, upload, waiting_max=self.waiting_max, now=now, note=note)


def name_of(url: str) -> str:
    """What the page's document is called: its URL, a long one by its beginning and a digest of the whole."""
    if len(url) <= NAME_CHARS_MAX:
        return url
    mark = "#" + hashlib.sha256(url.encode("utf-8", "replace")).hexdigest()[:16]
    return url[: NAME_CHARS_MAX - len(mark)] + mark


def beside(name: str) -> str:
    """What a page is called where a file has its name."""
    return name_of(f"{name} (web)")


def parsed_page(page: WebPage) -> Parsed:
    """The page as a file was read: blocks with their places in the text that was taken of it."""
    blocks, at = [], 0
    for one in page.blocks:
        blocks.append(Block(one.text, _KINDS[one.kind], at, at + len(one.text), level=int(one.kind == "heading")))
        at += len(one.text) + _GAP
    title = f"{page.title} ({page.published[:10]})" if page.title and page.published else page.title
    return Parsed("text/html", title, tuple(blocks), max(at - _GAP, 0), 0)
