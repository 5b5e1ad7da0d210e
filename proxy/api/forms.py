"""An upload as it arrives: `multipart/form-data` in, the bytes of its one file and its other parts as text out.

Bounded in all it holds, and in how long it waits for the next piece. Refuses another body (422), parts that are unknown
or given twice, a file beyond its bound (413), an upload that ends in the middle (422) or stops coming (408).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Final, TypeVar

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from memory.errors import TooLarge, TooSlow, Unprocessable
from proxy.api.asking import refuse_encodings

T = TypeVar("T")
Taker = Callable[[bytes], Awaitable[None]]
FIELD_BYTES_MAX: Final = 2_048
_PIECE_BYTES: Final = 65_536
_FRAME_BYTES_MAX: Final = 65_536  # of the form beside the file
_BROKEN: Final = (ValueError, AssertionError, RuntimeError, KeyError, LookupError, HttpProcessingError)
_CUT: Final = "the form is broken or ends in the middle: send it again, whole"


@dataclass(slots=True)
class Form:
    """What was sent. `declared` is the file's own Content-Type, "" for none. Mutable while it is read."""

    content: bytes | None = None
    filename: str = ""
    declared: str = ""
    fields: dict[str, str] = field(default_factory=dict)


async def read_form(
    request: web.Request,
    known: Collection[str],
    *,
    file_bytes_max: int,
    idle_s: float,
    bound: str = "documents.bytes_max",
    field_bytes_max: int = FIELD_BYTES_MAX,
    into: Taker | None = None,
) -> Form:
    """Read an upload with a part `file`; the others must be `known`. `bound`: the setting that bounds the file; `into`
    takes its bytes as they come, and the form has none.
    """
    refuse_encodings(request)
    if request.content_type != "multipart/form-data":
        raise Unprocessable('send the file as multipart/form-data, in a part called "file"', param="Content-Type")
    if (request.content_length or 0) > file_bytes_max + _FRAME_BYTES_MAX:
        raise too_large(file_bytes_max, bound)
    form, taking = (
        Form(),
        _Taking(known, too_large(file_bytes_max, bound), file_bytes_max, field_bytes_max, idle_s, into),
    )
    try:
        reader = await request.multipart()
        while (part := await _within(reader.next(), idle_s)) is not None:
            if not isinstance(part, BodyPartReader) or not part.name:
                raise Unprocessable("a part of the form has no name, or is a form itself", param="body")
            await taking.take(part, form)
    except _BROKEN as fault:
        raise Unprocessable(_CUT, param="body") from fault
    if form.content is None:
        raise Unprocessable('the form has no part "file"', param="file")
    return form


def too_large(bytes_max: int, bound: str) -> TooLarge:
    """The refusal of a file beyond its bound."""
    return TooLarge(f"the file has more than {bytes_max} bytes ({bound})", param="file")


@dataclass(frozen=True, slots=True)
class _Taking:
    """What the parts of one form may be."""

    known: Collection[str]
    beyond: TooLarge
    file_bytes_max: int
    field_bytes_max: int
    idle_s: float
    into: Taker | None

    async def take(self, part: BodyPartReader, form: Form) -> None:
        """One part into the form."""
        name = part.name or ""
        if name == "file":
            await self._file(part, form)
            return
        if name not in self.known:
            known = ", ".join(sorted(self.known))
            raise Unprocessable(f"{name[:64]} is not a part of this form; known: file, {known}", param=name[:64])
        if name in form.fields:
            raise Unprocessable(f"the part {name} was given twice; give it once", param=name)
        most = self.field_bytes_max
        beyond = Unprocessable(f"the part {name} has more than {most} bytes", param=name)
        raw = await _bytes_of(part, most, beyond, self.idle_s)
        try:
            form.fields[name] = raw.decode("utf-8")
        except UnicodeDecodeError as fault:
            raise Unprocessable(f"the part {name} is not UTF-8", param=name) from fault

    async def _file(self, part: BodyPartReader, form: Form) -> None:
        if form.content is not None:
            raise Unprocessable("one file an upload; this one has two", param="file")
        form.filename, form.declared = part.filename or "", part.headers.get("Content-Type", "")
        form.content = b""
        if self.into is None:
            form.content = await _bytes_of(part, self.file_bytes_max, self.beyond, self.idle_s)
            return
        taken = 0
        async for piece in _pieces(part, self.idle_s):
            taken += len(piece)
            if taken > self.file_bytes_max:
                raise self.beyond
            await self.into(piece)


async def _bytes_of(part: BodyPartReader, bytes_max: int, beyond: TooLarge | Unprocessable, idle_s: float) -> bytes:
    found = bytearray()
    async for piece in _pieces(part, idle_s):
        found += piece
        if len(found) > bytes_max:
            raise beyond
    return bytes(found)


async def _pieces(part: BodyPartReader, idle_s: float) -> AsyncIterator[bytes]:
    """The bytes of a part as they were before it was encoded."""
    is_quoted, held = part.headers.get("Content-Transfer-Encoding", "").lower() == "quoted-printable", b""
    while piece := await _within(part.read_chunk(_PIECE_BYTES), idle_s):
        came = held + piece
        cut = came.rfind(b"=", -2) if is_quoted else -1  # a sign may be cut in two: aiohttp decodes each by itself
        cut = len(came) if cut < 0 else cut
        held = came[cut:]
        yield part.decode(came[:cut])
    if held:
        yield part.decode(held)


async def _within(coming: Awaitable[T], idle_s: float) -> T:
    """The next piece, as long as one may be waited for."""
    try:
        async with asyncio.timeout(idle_s):
            return await coming
    except TimeoutError:
        raise TooSlow(f"nothing came for {idle_s:g} s in the middle of the upload") from None
