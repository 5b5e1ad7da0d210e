"""WebSockets for vLLM: the client's frames to the upstream and back, until either side ends.

Text, binary, ping, pong and close (code and reason) go through as they are. A socket may last for days: it ends with
the key that opened it, with code 1008 at both ends, and with a client's message that is too long to be held (1009).
What is held of all clients' messages counts among the bodies under way: a socket for which there is no room is cut. A
handshake that the upstream refuses is refused with its status and headers; no answer at all is UpstreamUnreachable.
An upstream that dies cuts the client: a close of ours, "going away", would be taken for an end as it should be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.http import WebSocketWriter, WSMessage
from aiohttp.http_websocket import WSMessageTextBytes
from multidict import CIMultiDict

from memory.errors import MemoryInvalid, RateLimited, UpstreamUnreachable
from memory.passage import note
from proxy.in_flight import BODY
from proxy.passages import ENDED
from proxy.relay import BareHead, RelayResponse, Upstream, answer_headers, as_text, cut, raw_target

_HANDSHAKE = frozenset(f"sec-websocket-{name}" for name in ("key", "accept", "version", "extensions", "protocol"))
Ends = aiohttp.ClientWebSocketResponse[bool] | web.WebSocketResponse[bool]

Closing = tuple[int, bytes]  # code and reason
NO_CODE = 0  # so aiohttp calls that of a close frame in which there is none
# A message is held until it is here as a whole. vLLM's own server refuses one of more than 16 MiB.
MESSAGE_BYTES_MAX = 67_108_864
CONTROL_HEAD_BYTES = 6  # of a client's ping or pong, its mask included
# What lies in its buffer is read at the next turn of the event loop; this is for one that is late.
LAST_WORDS_S = 1.0


class Held:
    """What came of a client's messages and was not carried yet. (Compressed, as it came.)"""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._body = request[BODY]
        self.had_no_room = False

    def came(self, size: int) -> None:
        """So many bytes came over its connection."""
        if not self._body.take(size):
            self.had_no_room = True
            cut(self._request)

    def of(self, message: WSMessage | WSMessageTextBytes) -> int:
        """How much of it is a message's: all but for a ping or pong, which may come in the middle of another."""
        is_control = message.type in (WSMsgType.PING, WSMsgType.PONG)
        return len(message.data) + CONTROL_HEAD_BYTES if is_control else self._body.bytes

    def let_go(self, size: int) -> None:
        """So much was carried."""
        self._body.let_go(min(size, self._body.bytes))


HELD: Final = web.RequestKey("held", Held)


class RelaySocket(BareHead, web.WebSocketResponse[bool]):
    """The client's side. Its handshake carries the upstream's headers and none of aiohttp's own."""


def is_websocket(request: web.BaseRequest) -> bool:
    """Whether the client asks this hop for an upgrade to WebSocket (RFC 9110 section 7.8: Connection names it)."""
    if request.headers.get("Upgrade", "").lower() != "websocket":
        return False
    named = ",".join(request.headers.getall("Connection", ())).lower().split(",")
    return "upgrade" in map(str.strip, named)


async def tunnel(
    request: web.Request, upstream: Upstream, refused: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> web.StreamResponse:
    """Open the upstream's side first, then the client's, and carry frames both ways.

    `refused` returns when the client is not let in any more.
    """
    offered = ",".join(request.headers.getall("Sec-WebSocket-Protocol", ())).split(",")  # it may stand in several lines
    asked = [name.strip() for name in offered if name.strip()]
    headers = _spelled_once(as_text(upstream.headers(request.raw_headers, body_is_ours=True)))
    for name in _HANDSHAKE:
        headers.popall(name, None)
    try:
        theirs = await upstream.websocket(raw_target(request), headers, asked)
    except aiohttp.WSServerHandshakeError as refusal:
        if refusal.status == 101:
            raise UpstreamUnreachable("vLLM's WebSocket handshake is broken") from refusal
        return await _refused(request, refusal)
    except (aiohttp.ClientError, OSError, TimeoutError) as exc:
        raise UpstreamUnreachable(f"vLLM refused the WebSocket ({type(exc).__name__})") from exc
    async with theirs:
        ours = _answering(theirs)
        try:
            await ours.prepare(request)
        except web.HTTPBadRequest as exc:
            raise MemoryInvalid("this is no WebSocket handshake: method, version or key is wrong") from exc
        note(http=ours.status)
        held = request[HELD] = Held(request)
        ways = [asyncio.create_task(_carry(ours, theirs, held)), asyncio.create_task(_carry(theirs, ours))]
        if refused is not None:
            ways.append(asyncio.create_task(_shut_out(refused())))
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not await _had_closed(request, ways, ours, theirs, held):
                raise
        finally:
            for way in ways:
                way.cancel()
        closing = _ending(ways)
        await asyncio.gather(*ways, return_exceptions=True)
        await _close(request, closing, ours, theirs, held)
        return ours


def _spelled_once(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    """Headers of which a name that is there again is spelled as it was: of two spellings aiohttp sends the last."""
    spelling: dict[str, str] = {}
    return CIMultiDict((spelling.setdefault(name.lower(), name), value) for name, value in headers.items())


def _answering(theirs: aiohttp.ClientWebSocketResponse[bool]) -> RelaySocket:
    """The client's side, whose handshake is answered as the upstream answered ours."""
    chosen = (theirs.protocol,) if theirs.protocol else ()
    ours = RelaySocket(protocols=chosen, autoping=False, autoclose=False, max_msg_size=MESSAGE_BYTES_MAX)
    given = theirs._response.raw_headers
    ours.headers.extend(answer_headers((n, v) for n, v in given if n.lower().decode("latin-1") not in _HANDSHAKE))
    for name in chosen:  # aiohttp finds it in the first line of those that a client sent
        ours.headers["Sec-WebSocket-Protocol"] = name
    return ours


async def _close(request: web.Request, closing: Closing | None, ours: RelaySocket, theirs: Ends, held: Held) -> None:
    """Close both ends as the one that closed did, else vLLM's with "going away". Behind a close a client may hang up
    here, too; one that is still there though nobody closed is cut: vLLM's end has broken off."""
    if closing is None and not ours.closed and not held.had_no_room:
        note(outcome="failed")
        cut(request)
        return
    code, reason = closing or (WSCloseCode.GOING_AWAY, b"")
    if code == NO_CODE:
        _close_without_a_code(ours, theirs)
    try:
        await asyncio.gather(theirs.close(code=code, message=reason), ours.close(code=code, message=reason))
    except asyncio.CancelledError:
        if closing is None:
            raise


def _close_without_a_code(*ends: Ends) -> None:
    """Have them say no code as they are closed; aiohttp always says one."""
    for end in ends:
        if (writer := end._writer) is not None:
            writer.close = partial(_say_close, writer)  # type: ignore[method-assign]


async def _say_close(writer: WebSocketWriter, *code_and_reason: object) -> None:
    await writer.send_frame(b"", WSMsgType.CLOSE)


async def _had_closed(
    request: web.Request, ways: Iterable[asyncio.Task[Closing | None]], ours: RelaySocket, theirs: Ends, held: Held
) -> bool:
    """Whether a socket whose request was cancelled had ended as it should: who has closed may hang up at once, and one
    that had no room was cut here. vLLM is told that another is gone, and its client, where it is this process that
    ends, that it may come again."""
    if held.had_no_room:
        note(outcome="refused", code=RateLimited.code)
        return True
    if request.get(ENDED):
        ends = theirs.close(code=WSCloseCode.GOING_AWAY), ours.close(code=WSCloseCode.SERVICE_RESTART)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await asyncio.gather(*ends, return_exceptions=True)
        return False
    await asyncio.wait(ways, timeout=LAST_WORDS_S, return_when=asyncio.FIRST_COMPLETED)
    if _ending(ways) is not None:
        return True
    await theirs.close(code=WSCloseCode.GOING_AWAY)
    return False


async def _refused(request: web.Request, refusal: aiohttp.WSServerHandshakeError) -> web.StreamResponse:
    """The upstream's own refusal: its status and headers; its body is not to be had from aiohttp."""
    given = refusal.headers.items() if refusal.headers else ()
    raw = [(name.encode("latin-1"), value.encode("utf-8", "surrogateescape")) for name, value in given]
    headers = answer_headers((n, v) for n, v in raw if n.lower() != b"content-length")
    headers["Content-Length"] = "0"
    response = RelayResponse(status=refusal.status, headers=headers)
    await response.prepare(request)
    await response.write_eof()
    return response


async def _carry(source: Ends, target: Ends, held: Held | None = None) -> Closing | None:
    """Carry frames one way until the source closes, and how it did; None when it just went away."""
    while True:
        message = await source.receive()
        size = held.of(message) if held is not None else 0
        if message.type is WSMsgType.TEXT:
            await target.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await target.send_bytes(message.data)
        elif message.type is WSMsgType.PING:
            await target.ping(message.data)
        elif message.type is WSMsgType.PONG:
            await target.pong(message.data)
        elif message.type is WSMsgType.CLOSE:
            return message.data, (message.extra or "").encode()
        else:
            return None
        if held is not None:
            held.let_go(size)


async def _shut_out(refused: Awaitable[None]) -> Closing:
    await refused
    return WSCloseCode.POLICY_VIOLATION, b"this key is not let in any more"


def _ending(ways: Iterable[asyncio.Task[Closing | None]]) -> Closing | None:
    """How the end that closed did so; None where it just went away."""
    for way in ways:
        if way.done() and not way.cancelled() and way.exception() is None and (closing := way.result()) is not None:
            return closing
    return None
