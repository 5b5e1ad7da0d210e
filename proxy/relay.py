"""Bytes between client and vLLM: a request's headers and body in, the upstream's answer out, unchanged.

Only hop-by-hop headers, Host and X-Memory-* are taken off (RFC 9110 section 7.6.1; DESIGN promise 1). An upstream that
cannot be reached or dies before its first byte is UpstreamUnreachable; one that dies later cuts the client's
connection, so that a broken answer never looks complete. Refuses to decompress, to follow redirects, to retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp import web
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from memory.errors import Refused, UpstreamUnreachable
from memory.passage import continued, lap, note

_HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer trailers"
    b" transfer-encoding upgrade".split()
)
_NOT_FORWARDED: Final = _HOP_BY_HOP | {b"host", b"expect"}
_OURS: Final = b"x-memory-"
_AUTO_HEADERS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_ADDED_HEADERS: Final = ("Content-Type", "Date", "Server")  # to answers, by aiohttp
LINE_BYTES_MAX: Final = 65_536
# An answer is carried in pieces of this size, and reading stops when two of them wait. A slow client of a fast, long
# answer holds .6 MiB with it; 1.9 with aiohttp's 256 KiB and all that lies there (bench.faults --only slow_clients).
PIECE_BYTES: Final = 32_768


class RelayResponse(web.StreamResponse):
    """A response that carries the upstream's headers and none of aiohttp's own.

    Its head waits for the first write: an answer that is here as a whole takes one, not three (15 us of CPU time).
    """

    _send_headers_immediately = False  # as aiohttp's own Response; where it is not heeded, the head goes at once

    async def _prepare_headers(self) -> None:
        lacking = [name for name in _ADDED_HEADERS if name not in self.headers]
        await super()._prepare_headers()
        for name in lacking:
            self.headers.popall(name, None)


class SteadyHandler(ResponseHandler):
    """A connection to vLLM that is told to read on only where it had stopped. aiohttp tells it so with each HTTP chunk
    that is read, and has its parser look at nothing: 20 us of CPU time in an answer of 66.

    A body whose framing breaks ends with that. aiohttp tells the connection alone; who reads the body waits for ever.
    """

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Read on."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def set_exception(self, exc: BaseException, *cause: Any, **more: Any) -> None:
        """End what is read here. Other faults than the parser's leave a body that has come to its reader."""
        super().set_exception(exc, *cause, **more)
        body = getattr(self, "_payload", None)  # where aiohttp keeps none it may well tell it itself
        if not isinstance(exc, HttpProcessingError) or not isinstance(body, aiohttp.StreamReader):
            return
        if not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError(f"the body's framing is broken ({type(exc).__name__})"))


class SteadyConnector(aiohttp.TCPConnector):
    """The pool of such connections. Where aiohttp makes them in another way they are aiohttp's own."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        made: partial[Any] = partial(SteadyHandler, loop=self._loop)
        self._factory = made


class Upstream:
    """One pooled client for one vLLM. `base` is its URL, a path prefix included."""

    def __init__(
        self, base: str, *, api_key: str | None, replace_auth: bool, connect_timeout_s: float, keepalive_s: float
    ) -> None:
        self.base = base.rstrip("/")
        self._origin = URL(self.base).origin()
        self._own_auth = f"Bearer {api_key}" if api_key else None
        self._replace_auth = replace_auth
        # Of the whole of it: `sock_connect` would leave the name's resolution without a bound.
        patience = aiohttp.ClientTimeout(total=None, connect=connect_timeout_s)
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=SteadyConnector(limit=0, keepalive_timeout=keepalive_s, ttl_dns_cache=10),
            timeout=patience,
            read_bufsize=PIECE_BYTES,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=LINE_BYTES_MAX,
            skip_auto_headers=_AUTO_HEADERS,
        )
        self._sockets = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=self._session.connector,
            connector_owner=False,
            timeout=patience,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=LINE_BYTES_MAX,
            skip_auto_headers=_AUTO_HEADERS,
            middlewares=(self._only_there,),
        )

    async def close(self) -> None:
        """Close the pool."""
        await self._sockets.close()
        await self._session.close()

    async def _only_there(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """A WebSocket is opened at the upstream and nowhere that it redirects to; aiohttp would follow."""
        if request.url.origin() != self._origin:
            raise aiohttp.ClientConnectionError("redirected away from the upstream")
        return await handler(request)

    def headers(self, raw: Iterable[tuple[bytes, bytes]], *, body_bytes: int | None = None) -> CIMultiDict[str]:
        """The headers to send: the client's, less hop-by-hop, Host and ours; Content-Length anew for an edited body."""
        pairs = list(raw)
        dropped = _NOT_FORWARDED | _named_by_connection(pairs)
        kept: CIMultiDict[str] = CIMultiDict()
        spelled: dict[bytes, str] = {}  # aiohttp's client loses a repeat that is spelled otherwise
        for name, value in pairs:
            lowered = name.lower()
            if lowered in dropped or lowered.startswith(_OURS):
                continue
            if lowered == b"content-length" and body_bytes is not None:
                continue
            if lowered == b"authorization" and self._replace_auth:
                continue
            first = spelled.setdefault(lowered, name.decode("latin-1"))
            kept.add(first, _text(value))
        if self._replace_auth and self._own_auth:
            kept["Authorization"] = self._own_auth
        if body_bytes is not None:
            kept["Content-Length"] = str(body_bytes)
        continued(kept)
        return kept

    async def send(
        self,
        method: str,
        target: str,
        headers: CIMultiDict[str],
        body: bytes | aiohttp.StreamReader | None,
    ) -> aiohttp.ClientResponse:
        """Send and wait for the head of the answer. `target` is the raw path with its query.

        Raises UpstreamUnreachable; the caller closes the response.
        """
        try:
            return await self._session.request(
                method, self.url(target), headers=headers, data=body, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise UpstreamUnreachable(
                f"vLLM at {self.base} does not answer ({type(exc).__name__}); is it running, and is upstream.url right?"
            ) from exc

    def websocket(
        self, target: str, headers: CIMultiDict[str], protocols: Iterable[str]
    ) -> aiohttp.client._WSRequestContextManager:
        """A WebSocket to the upstream, compression as the two ends negotiate it with us."""
        return self._sockets.ws_connect(
            self.url(target),
            headers=headers,
            protocols=tuple(protocols),
            autoping=False,
            autoclose=False,
            max_msg_size=0,
        )

    def url(self, target: str) -> URL:
        """The upstream's URL for a raw path, byte for byte. One that begins with no slash could name another host."""
        return URL(self.base + (target if target.startswith("/") else f"/{target}"), encoded=True)


def _text(value: bytes) -> str:
    """A header value as aiohttp takes it. It drops bytes that are no UTF-8, so Latin-1 is taken as its characters."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _named_by_connection(pairs: list[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Headers that a Connection header declares hop-by-hop."""
    named = b",".join(value for name, value in pairs if name.lower() == b"connection")
    return frozenset(part.strip().lower() for part in named.split(b",")) if named else frozenset()


def raw_target(request: web.Request) -> str:
    """The request target as it arrived: path and query, undecoded. An absolute-form target loses its origin."""
    return request.raw_path if request.raw_path.startswith("/") else request.rel_url.raw_path_qs


def answer_headers(raw: Iterable[tuple[bytes, bytes]], *, extra: CIMultiDict[str] | None = None) -> CIMultiDict[str]:
    """The upstream's headers less hop-by-hop ones, plus ours."""
    pairs = list(raw)
    dropped = _HOP_BY_HOP | _named_by_connection(pairs)
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in pairs:
        if name.lower() not in dropped:
            kept.add(name.decode("latin-1"), _text(value))
    if extra:
        kept.extend(extra)
    return kept


def begin(answer: aiohttp.ClientResponse, extra: CIMultiDict[str] | None = None) -> RelayResponse:
    """The response that will carry this answer: same status, reason and headers."""
    return RelayResponse(
        status=answer.status, reason=answer.reason, headers=answer_headers(answer.raw_headers, extra=extra)
    )


async def open_to(request: web.Request, answer: aiohttp.ClientResponse, response: RelayResponse) -> None:
    """Make ready for the body. The head goes with its first bytes where they are here already, else at once."""
    await response.prepare(request)
    content = answer.content
    if content.exception() is not None or not (content.total_bytes or content.is_eof()):
        await response.write(b"")


def let_go(answer: aiohttp.ClientResponse) -> None:
    """Give the connection back, or close it in the middle of a body; at its end aiohttp has given it back already."""
    if answer.closed:
        return
    if answer.content.at_eof():
        answer.release()
    else:
        answer.close()


def cut(request: web.Request) -> None:
    """End the client's connection without a clean end, as the upstream ended ours."""
    if request.transport is not None:
        request.transport.abort()


async def pass_through(
    request: web.Request,
    upstream: Upstream,
    extra: CIMultiDict[str] | None = None,
    *,
    body: bytes | None = None,
) -> web.StreamResponse:
    """Forward a request we have no business with: any method, any path, body and answer streamed as they come.

    `body` is its body where that was read already. Raises UpstreamUnreachable, and what refuses the client's body where
    that broke off: vLLM is not to blame then.
    """
    sent = body if body is not None else request.content if request.body_exists else None
    headers = upstream.headers(request.raw_headers, body_bytes=None if body is None else len(body))
    try:
        answer = await upstream.send(request.method, raw_target(request), headers, sent)
    except UpstreamUnreachable:
        if isinstance(why := request.content.exception(), Refused):
            raise why from None
        raise
    try:
        return await relay(request, answer, extra)
    finally:
        let_go(answer)


async def relay(
    request: web.Request, answer: aiohttp.ClientResponse, extra: CIMultiDict[str] | None = None
) -> web.StreamResponse:
    """Carry an answer to the client, each chunk as it arrives. Cuts the client when the upstream dies midway."""
    response = begin(answer, extra)
    note(http=answer.status)
    await open_to(request, answer, response)
    try:
        piece = await answer.content.read(PIECE_BYTES)
        lap("upstream")
        while not answer.content.at_eof():
            await response.write(piece)
            piece = await answer.content.read(PIECE_BYTES)
        await response.write_eof(piece)
    except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, asyncio.IncompleteReadError):
        note(outcome="failed")
        cut(request)
        return response
    finally:
        lap("stream")
    return response
