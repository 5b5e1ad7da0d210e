"""Bytes between client and vLLM: a request's headers and body in, the upstream's answer out, unchanged.

Only hop-by-hop headers, Host and X-Memory-* are taken off (RFC 9110 section 7.6.1; DESIGN promise 1); a redirect that
vLLM builds from the Host that it was given leads back here. An upstream that cannot be reached or dies before its first
byte is UpstreamUnreachable; one that dies later cuts the client's connection, so that a broken answer never looks
complete. Refuses to decompress, to follow redirects, to retry.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import aiohappyeyeballs
import aiohttp
from aiohttp import HttpVersion11, web
from aiohttp.http import StreamWriter
from multidict import CIMultiDict
from yarl import URL

from memory.errors import Refused, UpstreamUnreachable
from memory.passage import lap, note, trace_headers
from memory.telemetry import Metrics
from proxy.connection import AnswerBroken, Pairs, UpstreamAnswer
from proxy.identity import OURS
from proxy.itself import ITSELF, Listening, leads_back
from proxy.pool import Pool, probed

_HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer trailers"
    b" transfer-encoding upgrade".split()
)
_NOT_FORWARDED: Final = _HOP_BY_HOP | {b"host", b"expect"}
_TRACE_HEADERS: Final = frozenset((b"traceparent", b"tracestate"))
_AUTO_HEADERS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_ADDED_HEADERS: Final = ("Content-Type", "Date", "Server")  # to answers, by aiohttp
_CONTROLS: Final = re.compile(rb"[\0-\x08\x0a-\x1f\x7f]")
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time
_IN_ORDER: Final = struct.pack("ii", 0, 0)
LINE_BYTES_MAX: Final = 65_536
STREAMED: Final = web.RequestKey("streamed", bool)
"""Whether the answer that is carried is a stream of events."""


class BareHead(web.StreamResponse):
    """A response with the headers that it was given and none of aiohttp's own."""

    async def _prepare_headers(self) -> None:
        if self._req is not None and takes_no_more(self._req.protocol):
            self.force_close()
        lacking = [name for name in _ADDED_HEADERS if name not in self.headers]
        await super()._prepare_headers()
        for name in lacking:
            self.headers.popall(name, None)


class RelayResponse(BareHead):
    """A response that carries the upstream's headers.

    Its head waits for the first write: an answer that is here as a whole takes one, not three (15 us of CPU time).
    """

    _send_headers_immediately = False  # as aiohttp's own Response; where it is not heeded, the head goes at once
    latin: Sequence[tuple[bytes, bytes]] = ()
    """Of its headers those that are no UTF-8, which is all that aiohttp writes: they go as they came."""

    async def _write_headers(self) -> None:
        await super()._write_headers()
        writer = self._payload_writer
        for name, value in self.latin:
            if isinstance(writer, StreamWriter) and writer._headers_buf is not None:
                written = b"%b: %b\r\n" % (name, _text(value).encode())
                writer._headers_buf = writer._headers_buf.replace(written, b"%b: %b\r\n" % (name, value), 1)


def takes_no_more(connection: web.RequestHandler) -> bool:
    """Whether the client can send no other request over it: its process is about to end, or none is kept."""
    return connection._close or connection._force_close or not connection.keepalive_timeout


class Upstream:
    """One pooled client for one vLLM. `base` is its URL, a path prefix included; it is not where we are `listening`."""

    def __init__(
        self,
        base: str,
        *,
        api_key: str | None,
        replace_auth: bool,
        connect_timeout_s: float,
        keepalive_s: float,
        listening: Listening | None = None,
    ) -> None:
        self.base = base.rstrip("/")
        self._origin = URL(self.base).origin()
        self._own_auth = f"Bearer {api_key}".encode() if api_key else None
        self._replace_auth = replace_auth
        self._base_path = URL(self.base).raw_path.rstrip("/")
        host = re.escape((URL(self.base).host_port_subcomponent or "").encode())
        itself = b"(?:https?://%b)%b%b" % (host, b"?" if self._base_path else b"", re.escape(self._base_path.encode()))
        self._itself = re.compile(rb"%b(?=/(?!/)|\?|$)" % itself)  # behind // is another host
        self._pool = Pool(
            URL(self.base), connect_timeout_s=connect_timeout_s, keepalive_s=keepalive_s, listening=listening
        )
        self._sockets = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(limit=0, socket_factory=partial(_opened, listening)),
            # Of the whole of it: `sock_connect` would leave the name's resolution without a bound.
            timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout_s),
            max_line_size=LINE_BYTES_MAX,
            max_field_size=LINE_BYTES_MAX,
            skip_auto_headers=_AUTO_HEADERS,
            middlewares=(self._only_there,),
        )

    async def close(self) -> None:
        """Close the pool."""
        await self._sockets.close()
        await self._pool.close()

    async def _only_there(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """A WebSocket is opened at the upstream and nowhere that it redirects to; aiohttp would follow."""
        if request.url.origin() != self._origin:
            raise aiohttp.ClientConnectionError("redirected away from the upstream")
        return await handler(request)

    def headers(self, raw: Iterable[tuple[bytes, bytes]], *, body_is_ours: bool = False) -> Pairs:
        """The headers to send: the client's, less hop-by-hop, Host, ours, and the length of a body that we have."""
        pairs = list(raw)
        dropped = _NOT_FORWARDED | _named_by_connection(pairs)
        if body_is_ours:
            dropped |= {b"content-length"}
        if self._replace_auth:
            dropped |= {b"authorization"}
        traced = trace_headers()
        if traced:
            dropped |= _TRACE_HEADERS
        kept = [pair for pair in pairs if (lowered := pair[0].lower()) not in dropped and not lowered.startswith(OURS)]
        if self._replace_auth and self._own_auth:
            kept.append((b"Authorization", self._own_auth))
        kept.extend((name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in traced.items())
        return kept

    async def send(
        self,
        method: str,
        target: str,
        headers: Pairs,
        body: bytes | aiohttp.StreamReader | None,
    ) -> UpstreamAnswer:
        """Send and wait for the head of the answer. `target` is the raw path with its query.

        Raises UpstreamUnreachable; the caller closes the response.
        """
        sent = body.iter_any() if isinstance(body, aiohttp.StreamReader) else body
        try:
            answer = await self._pool.send(method, self._base_path + rooted(target), headers, sent)
        except OSError as exc:  # TimeoutError and AnswerBroken are
            if isinstance(exc, ssl.SSLCertVerificationError):
                raise UpstreamUnreachable(f"the certificate of vLLM at {self.base}: {exc.verify_message}") from exc
            why = exc if isinstance(exc, AnswerBroken) else type(exc).__name__
            raise UpstreamUnreachable(
                f"vLLM at {self.base} does not answer ({why}); is it running, and is upstream.url right?"
            ) from exc
        if 300 <= answer.status < 400:
            answer.raw_headers = [self._from_here(name, value) for name, value in answer.raw_headers]
        return answer

    def _from_here(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        """A header of a redirect: where it leads to vLLM by the Host that we gave it, or below the path that we put in
        front, its client comes through here."""
        found = self._itself.match(value) if name.lower() == b"location" else None
        if found is None:
            return name, value
        rest = value[found.end() :]
        return name, rest if rest.startswith(b"/") else b"/" + rest

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
        """The upstream's URL for a raw path, byte for byte; its host spelled as `_only_there` knows it."""
        return URL(f"{self._origin}{self._base_path}{rooted(target)}", encoded=True)


def _opened(listening: Listening | None, address: aiohappyeyeballs.AddrInfoType) -> socket.socket:
    if leads_back(address, listening):
        raise OSError(errno.ELOOP, ITSELF)
    return probed(socket.socket(*address[:3]))


def rooted(target: str) -> str:
    """A request target as a path; one that begins with no slash could name another host."""
    return target if target.startswith("/") else f"/{target}"


def _text(value: bytes) -> str:
    """A header's value or a reason as aiohttp takes it. It drops bytes that are no UTF-8: those go as Latin-1."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _is_latin(value: bytes) -> bool:
    return not value.isascii() and _text(value).encode() != value


def as_text(pairs: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    """Headers as aiohttp takes them."""
    return CIMultiDict((name.decode("latin-1"), _text(value)) for name, value in pairs)


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
    kept = as_text(pair for pair in pairs if pair[0].lower() not in dropped)
    if extra:
        kept.extend(extra)
    return kept


def begin(answer: UpstreamAnswer, extra: CIMultiDict[str] | None = None) -> RelayResponse:
    """The response that will carry this answer: same status, reason and headers. A reason has no control character (RFC
    9112 section 4), and aiohttp sends none that has."""
    reason = _text(_CONTROLS.sub(b" ", answer.reason))
    response = RelayResponse(
        status=answer.status, reason=reason, headers=answer_headers(answer.raw_headers, extra=extra)
    )
    response.latin = [pair for pair in answer.raw_headers if _is_latin(pair[1])]
    return response


async def open_to(request: web.Request, answer: UpstreamAnswer, response: RelayResponse) -> None:
    """Make ready for the body. The head goes with its first bytes where they are here already, else at once."""
    request[STREAMED] = answer.content_type == "text/event-stream"
    await response.prepare(request)
    if not answer.is_here():
        await response.write(b"")


def cut(request: web.BaseRequest) -> None:
    """End the client's connection without a clean end, as the upstream ended ours. In HTTP/1.0 a body may end with its
    connection, so that only a reset says that it is not whole."""
    if request.transport is None:
        return
    if request.version < HttpVersion11:
        request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    request.transport.abort()


@asynccontextmanager
async def reset_unless_whole(request: web.BaseRequest) -> AsyncIterator[None]:
    """Around a body that says nowhere that it is whole. In HTTP/1.0 the system ends it cleanly where this process is
    killed: until all of it has left, whatever closes the connection resets it.
    """
    link = request.transport
    if link is None or request.version >= HttpVersion11:
        yield
        return
    own = link.get_extra_info("socket")
    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    yield
    link.set_write_buffer_limits(0)
    await request.writer.drain()
    if not link.is_closing():
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _IN_ORDER)


def break_off(request: web.BaseRequest) -> None:
    """End the client's connection where the upstream's broke: with all that came before, and no clean end."""
    if request.transport is not None and request.version >= HttpVersion11:
        request.transport.close()  # what a slow client has not taken yet goes out first
    else:
        cut(request)


async def pass_through(
    request: web.Request,
    upstream: Upstream,
    metrics: Metrics,
    *,
    body: bytes | None = None,
) -> web.StreamResponse:
    """Forward a request we have no business with: any method, any path, body and answer streamed as they come.

    `body` is its body where that was read already. Raises UpstreamUnreachable, and what refuses the client's body where
    that broke off: vLLM is not to blame then.
    """
    sent = body if body is not None else request.content if request.body_exists else None
    headers = upstream.headers(request.raw_headers, body_is_ours=body is not None)
    try:
        answer = await upstream.send(request.method, raw_target(request), headers, sent)
    except UpstreamUnreachable:
        if isinstance(why := request.content.exception(), Refused):
            raise why from None
        raise
    try:
        return await _relay(request, answer, metrics)
    finally:
        answer.close()


async def _relay(request: web.Request, answer: UpstreamAnswer, metrics: Metrics) -> web.StreamResponse:
    """Carry an answer to the client, each chunk as it arrives. Cuts the client when the upstream dies midway."""
    response = begin(answer)
    note(http=answer.status)
    await open_to(request, answer, response)
    passed = 0
    try:
        piece = await answer.read()
        lap("upstream")
        while not answer.at_eof():
            passed += len(piece)
            await response.write(piece)
            piece = await answer.read()
        await response.write_eof(piece)
    except AnswerBroken:
        note(outcome="failed")
        metrics.upstream_failures.labels("midstream").inc()
        break_off(request)
        return response
    except (asyncio.CancelledError, ConnectionError):
        note(bytes_out=passed)
        raise
    finally:
        lap("stream")
    return response
