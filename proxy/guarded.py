"""The server's end of a connection: bytes from a client in, refusals that say what was wrong out, and time bounds.

Closes a connection whose first request head does not come, and one whose client takes nothing of what waits for it;
ends a body in whose middle the client falls silent.
What the parser refuses is answered 400 or 431 in OpenAI's form; neither answer nor log repeats what was sent.
Bytes that arrive or are taken, however slowly, are never cut: the bound is on silence, not on the whole.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import sys
import termios
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import aiohttp
from aiohttp import HttpVersion11, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.web_protocol import RequestHandler

from memory.errors import HeadTooLarge, MemoryInvalid, NotFound, Refused, TooSlow
from memory.telemetry import event
from proxy.app import Unforeseen, has_begun, refusal
from proxy.passages import ENDED
from proxy.relay import cut, takes_no_more
from proxy.websocket import HELD, LAST_WORDS_S, is_websocket

log = logging.getLogger("memory_proxy.http")
_MANY: Final = "Too many headers"
_BARE_END: Final = b"\r\n0\r\n\r\n"
"""How a chunked body ends that has no trailer: within one no line could be a lone 0."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client may be silent, in seconds."""

    head_s: float
    body_idle_s: float
    answer_idle_s: float


class GuardedHandler(RequestHandler):
    """One connection. One timer, set anew when it fires, so that a request pays no more than a time stamp."""

    __slots__ = ("_chunked", "_heard_at", "_newest", "_patience", "_unread", "_watch")

    def __init__(self, manager: Any, patience: Patience, **more: Any) -> None:
        super().__init__(manager, **more)
        self._patience = patience
        self._heard_at = 0.0
        self._chunked: aiohttp.StreamReader | None = None  # the body that is coming, where it is chunked
        self._newest = b""
        self._watch: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to watch."""
        super().connection_made(transport)
        self._heard_at = self._loop.time()
        self._watch = self._loop.call_later(self._patience.head_s, self._look_for_head)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Nothing to watch any more."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._stop_looking_for_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The client is not silent. What is under way is heard to its end: once the process ends aiohttp drops the rest
        of a body, and frames."""
        self._heard_at = self._loop.time()
        closes, forced, known = self._close, self._force_close, len(self._messages)
        if (closes or forced) and self._is_under_way():
            self._close = self._force_close = False
            super().data_received(data)
            self._close, self._force_close = self._close or closes, self._force_close or forced
        else:
            super().data_received(data)
        if self._upgraded and (request := self._current_request) is not None and HELD in request:
            request[HELD].came(len(data))
        self._close_behind_a_trailer(known, data)
        if self._messages and not isinstance(self._messages[-1][0], RawRequestMessage):
            self._end_what_is_broken()

    def _close_behind_a_trailer(self, known: int, data: bytes) -> None:
        """Take no request behind a chunked body that may have had a trailer: aiohttp's parser gives its last field to
        the next request as a header, and through a gateway that may be another client's. Where as many wait as may,
        it holds back what came behind.
        """
        came = islice(self._messages, known, None)
        heard = [body if message.chunked else None for message, body in came if isinstance(message, RawRequestMessage)]
        bodies = [self._chunked, *heard]
        ended = [body for body in bodies if body is not None and body.is_eof()]
        last = bodies[-1]
        self._chunked = None if last in ended else last
        self._newest = (self._newest + data[-len(_BARE_END) :])[-len(_BARE_END) :]
        if ended and (ended != [last] or self._newest != _BARE_END or self._buffer_paused):
            self._close = True

    def _is_under_way(self) -> bool:
        """Whether the client still has something to say of a request that is being answered."""
        request = self._current_request
        return request is not None and (self._upgraded or not request.content.is_eof())

    def resume_reading(self, resume_parser: bool = True) -> None:
        """While nothing was read the client could not be heard. aiohttp says so with each piece of a body, and asks
        its parser again, whether reading had stopped or not."""
        if self._reading_paused:
            self._heard_at = self._loop.time()
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        """More waits for the client than it takes."""
        super().pause_writing()
        self._look_for_reader(None)

    def resume_writing(self) -> None:
        """The client has taken it."""
        self._stop_looking_for_reader()
        super().resume_writing()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What the parser refuses. aiohttp's own answer and log line would quote the header that was too long."""
        event(log, "bad_request", logging.INFO, fault=type(exc).__name__)
        if has_begun(request):
            raise ConnectionError("an answer has begun, no other can be sent")
        response = refusal(_said(status, exc))
        response.force_close()
        return response

    def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> Coroutine[Any, Any, tuple[web.StreamResponse, bool]]:
        """In HTTP/1.0 a body without a length ends with its connection, which aiohttp would keep open; and the head of
        the last answer of a connection says so, where it has not gone out.
        """
        if isinstance(resp, web.HTTPNotFound):  # of the router, which knows paths: OPTIONS *, CONNECT, http://host
            resp = refusal(NotFound("a request names a path, as /v1/models or /memory/health"))
        if self._upgraded and self._payload_parser is None and not self._messages and self._message_tail:
            self._message_tail = b""  # behind a WebSocket that was declined: aiohttp takes it for requests, unseen here
            resp.force_close()
        is_endless = request.version < HttpVersion11 and resp.content_length is None and not resp._must_be_empty_body
        if is_endless or takes_no_more(self):
            resp.force_close()
        return super().finish_response(request, resp, start_time)

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """What has not ended in this time is ended. aiohttp waits for as long once more, which the supervisor does not,
        and for ever where it is 0; it is told of more, since what ends in the turn in which it gives up waiting is an
        unhandled exception to it."""
        ending = self._loop.call_later(timeout or 0, self._end_what_runs)
        try:
            await super().shutdown((timeout or 0) + 2 * LAST_WORDS_S)
        finally:
            ending.cancel()

    def _end_what_runs(self) -> None:
        request = self._current_request
        if request is not None:
            request[ENDED] = True
            if not is_websocket(request):
                cut(request)  # its handler is cancelled by that
                return
        if self._task_handler is not None:
            self._task_handler.cancel()  # a WebSocket has a last word

    def _look_for_head(self) -> None:
        if self._request_count == 0:
            self._watch = None
            self.force_close()
            return
        self._watch = self._loop.call_later(self._patience.body_idle_s, self._look_for_body)

    def _look_for_body(self) -> None:
        """End the body of a client that fell silent in its middle; else look again when that could be."""
        silent_s = self._loop.time() - self._heard_at
        left_s = self._patience.body_idle_s - silent_s
        request = self._current_request
        if left_s <= 0 and request is not None and not request.content.is_eof() and not self._reading_paused:
            waited = self._patience.body_idle_s
            self._end(request.content, TooSlow(f"nothing came for {waited:g} s in the middle of the body"))
        self._watch = self._loop.call_later(left_s if left_s > 0 else self._patience.body_idle_s, self._look_for_body)

    def _look_for_reader(self, waited_before: int | None) -> None:
        """End the connection of a client that took nothing since the last look: its request would be under way, and
        vLLM at work for it, for as long as its machine is up."""
        if (transport := self.transport) is None:
            return
        waits = untaken(transport)
        if waited_before is not None and waits >= waited_before:
            event(log, "nothing_taken", logging.INFO, waits=waits)
            if self._current_request is not None:
                cut(self._current_request)
            else:
                transport.abort()
            return
        self._unread = self._loop.call_later(self._patience.answer_idle_s, self._look_for_reader, waits)

    def _stop_looking_for_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _end_what_is_broken(self) -> None:
        """End the body in whose middle the parser gave up: aiohttp queues that as a request behind it, which would be
        answered when the body has ended."""
        request, found = self._current_request, None
        if len(self._messages) > 1:
            found = self._messages[-2][1]
        elif request is not None:
            found = request.content
        elif self._chunked is not None:
            self.force_close()  # it was answered: what is left of its body is read to be dropped
        if found is not None and not found.is_eof() and found.exception() is None:
            self._end(found, MemoryInvalid("the body is not chunked as HTTP has it", param="body"))

    def _end(self, body: aiohttp.StreamReader, why: Refused) -> None:
        """Whoever reads the body is told why it ends; nothing more is read of this connection."""
        body.set_exception(why)
        self._lingering_time = 0.0
        self._keepalive = False


def untaken(transport: asyncio.Transport) -> int:
    """Bytes that a client has not taken: those that wait here, and those in the kernel that its side has not
    acknowledged. The kernel takes more of the former only when a third of the latter is gone.
    """
    unacknowledged = b""
    with suppress(OSError):  # macOS does not tell
        link = transport.get_extra_info("socket")
        unacknowledged = fcntl.ioctl(link.fileno(), termios.TIOCOUTQ, bytes(4))
    return transport.get_write_buffer_size() + int.from_bytes(unacknowledged, sys.byteorder)


class GuardedSite(web.SockSite):
    """The listening socket whose connections are guarded. `more`: what the runner was given for its handlers."""

    __slots__ = ("_more", "_patience")

    def __init__(self, runner: web.AppRunner, sock: Any, patience: Patience, *, backlog: int, **more: Any) -> None:
        super().__init__(runner, sock, backlog=backlog)
        self._patience = patience
        self._more = more

    async def start(self) -> None:
        """Listen."""
        await web.BaseSite.start(self)
        loop, manager = asyncio.get_running_loop(), self._runner.server
        self._server = await loop.create_server(
            lambda: GuardedHandler(manager, self._patience, loop=loop, **self._more),
            sock=self._sock,
            backlog=self._backlog,
        )


def _said(status: int, exc: BaseException | None) -> Refused:
    if isinstance(exc, LineTooLong) or (isinstance(exc, BadHttpMessage) and exc.message.startswith(_MANY)):
        return HeadTooLarge("the request line or a header is too long, or there are too many headers")
    if 400 <= status < 500:
        return MemoryInvalid("this is no HTTP request that one could understand in one way only")
    return Unforeseen("the proxy failed on this request; its log has the place")
