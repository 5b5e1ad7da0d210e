"""The bytes of artifacts on their way: an upload into its blob with what is seen of it in passing; a blob out.

Nothing is held whole: the first and the last HEAD_BYTES of an upload are, to know its type and to quote its ends.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from typing import Final
from urllib.parse import quote

from aiohttp import web
from aiohttp.helpers import ETAG_ANY, parse_mimetype

from memory.artifact_types import HEAD_BYTES
from memory.artifacts import Artifact, Blobs, Writing
from memory.errors import Conflict, EnvelopeUnreadable, Gone, MemoryProxyFault, NotFound, RangeUnmet
from memory.keys import KeyRing
from policies.artifact import EXCERPT_HEAD_CHARS, EXCERPT_TAIL_CHARS, excerpt
from proxy.api.answers import broken_off
from proxy.app import refusal

_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark begins alike
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARGIN: Final = 40  # the line between both ends must not make the two longer than an excerpt may be
_LAST_NONE: Final = re.compile("bytes=-0+", re.IGNORECASE)  # the last 0 bytes, which aiohttp reads as all of them
_SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cache-Control": "private, no-store",
    "Accept-Ranges": "bytes",
}


class Passing:
    """What is seen of an upload while it is written. Mutable."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._sha256 = hashlib.sha256()
        self._tail = b""
        self.head = b""
        self.bytes = 0

    async def take(self, piece: bytes) -> None:
        """The next bytes. Raises StoreUnavailable, TooLarge."""
        await self._writing.write(piece)
        self._sha256.update(piece)
        self.bytes += len(piece)
        self.head += piece[: HEAD_BYTES - len(self.head)]
        self._tail = (self._tail + piece)[-HEAD_BYTES:]

    @property
    def sha256(self) -> str:
        """Of all that came, in hex."""
        return self._sha256.hexdigest()

    def ends(self, clean: Callable[[str], str], declared: str) -> str:
        """The text of a short file, both ends of a longer one: cleaned first, since half a secret is known to no rule.
        As its byte order mark says, UTF-8, or as its Content-Type says; nothing of one of which that is not known. Work
        for a thread.
        """
        encoding = self._encoding(declared)
        if not encoding:
            return ""
        try:
            head = clean(self.head.decode(encoding, "ignore").removeprefix("\ufeff"))
            if self.bytes <= HEAD_BYTES:
                return excerpt(head)
            odd = self.bytes % 2 if encoding.startswith("utf-16") else 0  # it begins in the middle of a character
            tail = clean(self._tail[odd:].decode(encoding, "ignore"))
        except (LookupError, ValueError):
            return ""
        between = f"\n[… of {self.bytes} bytes …]\n"
        return head[: EXCERPT_HEAD_CHARS - _MARGIN] + between + tail[-(EXCERPT_TAIL_CHARS - _MARGIN) :]

    def _encoding(self, declared: str) -> str:
        """Of its text, "" where nothing says it. By its mark first: PowerShell writes its files in UTF-16."""
        marked = next((name for mark, name in _MARKS if self.head.startswith(mark)), "")
        if marked or self._is_utf8():
            return marked or "utf-8"
        return parse_mimetype(declared).parameters.get("charset", "")

    def _is_utf8(self) -> bool:
        try:  # a character may be cut in two at the end of what was read
            codecs.getincrementaldecoder("utf-8")().decode(self.head, final=self.bytes <= HEAD_BYTES)
        except UnicodeDecodeError:
            return False
        return True


_UNREAD: Final = "the bytes of this file cannot be read any more"


async def opened(
    one: Artifact, blobs: Blobs, keys: KeyRing, start: int = 0, end: int | None = None
) -> AsyncIterator[bytes]:
    """Its bytes, from where to where. Raises Gone where they are there no more."""
    try:
        key = await keys.by_id(one.owner.tenant_id, await blobs.key_of(one.owner, one.blob))
    except (NotFound, EnvelopeUnreadable) as fault:
        raise Gone(_UNREAD) from fault
    return blobs.read(one.owner, key, one.blob, start, end)


async def whole(one: Artifact, blobs: Blobs, keys: KeyRing) -> bytes:
    """All of its bytes at once. Raises Gone where they are there no more."""
    try:
        return b"".join([piece async for piece in await opened(one, blobs, keys)])
    except (NotFound, EnvelopeUnreadable) as fault:
        raise Gone(_UNREAD) from fault


async def sent(request: web.Request, one: Artifact, blobs: Blobs, keys: KeyRing) -> web.StreamResponse:
    """Answer with its bytes, or those that Range asks for; with none where the client has them. Raises Gone where they
    are there no more, Conflict where they are not those of If-Match.
    """
    tag = f'"{one.content.sha256}"'
    if is_at_hand(request, one.content.sha256):
        return web.Response(status=304, headers={**_SAFE, "ETag": tag})
    try:
        start, end, is_part = asked_range(request, one.content.bytes, tag)
    except RangeUnmet as refused:
        unmet = refusal(refused)
        unmet.headers["Content-Range"] = f"bytes */{one.content.bytes}"
        return unmet
    pieces = await opened(one, blobs, keys, start, end)
    answer = web.StreamResponse(status=206 if is_part else 200, headers=_SAFE)
    answer.content_type, answer.content_length = one.content.media_type, end - start
    answer.headers["ETag"] = tag
    answer.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(one.about.name or 'file', safe='')}"
    if is_part:
        answer.headers["Content-Range"] = f"bytes {start}-{end - 1}/{one.content.bytes}"
    first = await _first(pieces)  # what cannot be read is said before a status is
    await answer.prepare(request)
    await answer.write(first)
    try:
        async for piece in pieces:
            await answer.write(piece)
    except MemoryProxyFault as fault:
        broken_off(request, fault)
        return answer
    await answer.write_eof()
    return answer


async def _first(pieces: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(pieces, b"")
    except (NotFound, EnvelopeUnreadable) as fault:
        raise Gone(_UNREAD) from fault


def is_at_hand(request: web.Request, sha256: str) -> bool:
    """Whether the client has these bytes, by If-None-Match. Raises Conflict where If-Match names only others."""
    wanted, known = request.if_match, request.if_none_match
    if wanted is not None and not any(one.value in (sha256, ETAG_ANY) and not one.is_weak for one in wanted):
        raise Conflict("the bytes of this file are not those of If-Match", param="If-Match")
    return known is not None and any(one.value in (sha256, ETAG_ANY) for one in known)


def asked_range(request: web.Request, size: int, tag: str) -> tuple[int, int, bool]:
    """From where to where (exclusive), and whether a part was asked for; what is no single range is passed over, and
    one of a file with another ETag. Raises RangeUnmet for one that no byte of the file is in.
    """
    if "Range" not in request.headers or request.headers.get("If-Range", tag) != tag:
        return 0, size, False
    try:
        start, end, _ = request.http_range.indices(size)
    except ValueError:
        return 0, size, False
    if start >= end or _LAST_NONE.fullmatch(request.headers["Range"]):
        raise RangeUnmet(f"the file has {size} bytes, and none of them is in the range", param="Range")
    return start, end, True
