"""The connections to one vLLM: a request in, the head of its answer out, over a connection that is kept if it can be.

Its name is resolved at most each ten seconds, by a thread of its own; its addresses take turns, tried as RFC 8305 says.
Where the resolver does not answer, those it gave last serve on for some minutes (RFC 8767); a name that it says is gone
has none. An idle connection is closed after `keepalive_s`. Only an idempotent request, on a kept connection that says
nothing, is sent once more (RFC 9110 section 9.2.2). There is no bound on the number of connections: the proxy's own
bounds keep it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, cast

import aiohappyeyeballs
from yarl import URL

from memory.telemetry import event
from proxy.connection import AnswerBroken, Connection, Pairs, UpstreamAnswer
from proxy.itself import ITSELF, Listening, leads_back

log: Final = logging.getLogger("memory_proxy.upstream")
NAME_KEPT_S: Final = 10.0
STALE_AFTER_S: Final = 1.8  # RFC 8767 section 5: so long a resolver has to say something new
# RFC 8767 has days. Not here: an orchestrator gives the address of what has ended to something else.
STALE_S: Final = 300.0
NEXT_ADDRESS_S: Final = 0.25  # RFC 8305 section 5
# A machine that has vanished says nothing, as a model that thinks does; its TCP answers no probe either, for a minute.
_PROBES: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_GONE: Final = (socket.EAI_NONAME, socket.EAI_NODATA)  # answers, where EAI_AGAIN is none
_IDEMPOTENT: Final = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"))
_OFTEN_BODILESS: Final = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
_CHUNKED: Final[Pairs] = [(b"Transfer-Encoding", b"chunked")]


class RequestUnsendable(ValueError):
    """A request that would be read as another: a line break in its target or headers, a space in its target."""


class Pool:
    """Connections to the host of `url`, TLS where its scheme says so; none to where this proxy is `listening`."""

    def __init__(
        self, url: URL, *, connect_timeout_s: float, keepalive_s: float, listening: Listening | None = None
    ) -> None:
        self._host, self._port = url.host or "", url.port or 0
        self._tls = _tls() if url.scheme == "https" else None
        self._named = b"Host: %b\r\n" % (url.host_port_subcomponent or "").encode()
        self._connect_timeout_s, self._keepalive_s = connect_timeout_s, keepalive_s
        self._listening = listening
        self._idle: deque[tuple[Connection, float]] = deque()
        self._all: set[Connection] = set()
        self._addresses: list[aiohappyeyeballs.AddrInfoType] = []
        self._turn = 0
        self._resolved_at = self._asked_at = float("-inf")
        self._resolving: asyncio.Task[None] | None = None
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(
        self, method: str, target: str, headers: Pairs, body: bytes | AsyncIterator[bytes] | None
    ) -> UpstreamAnswer:
        """Send a request and wait for the head of its answer; headers as they are, Host and framing are added.

        Raises AnswerBroken, TimeoutError (no connection in time), OSError, RequestUnsendable.
        """
        framing = _framing(method, headers, body)
        chunked = framing == _CHUNKED
        head = self._head(method, target, [*headers, *framing])
        kept = self._kept()
        if kept is not None:
            try:
                return await kept.ask(head, body, skips_body=method == "HEAD", chunked=chunked)
            except AnswerBroken:
                again = method in _IDEMPOTENT and not kept.heard and (body is None or isinstance(body, bytes))
                if not again:
                    raise
        connection = await self._opened()
        return await connection.ask(head, body, skips_body=method == "HEAD", chunked=chunked)

    async def close(self) -> None:
        """End all connections, those with answers on their way too. Another request is refused (AnswerBroken)."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        if self._resolving is not None:
            self._resolving.cancel()
        self._idle.clear()
        for connection in tuple(self._all):
            connection.abort()

    def _head(self, method: str, target: str, headers: Pairs) -> bytes:
        lines = [b"%b: %b\r\n" % pair for pair in headers]
        asked = target.partition("#")[0].encode("utf-8", "surrogateescape")
        head = b"%b %b HTTP/1.1\r\n%b%b\r\n" % (method.encode(), asked, self._named, b"".join(lines))
        breaks = len(lines) + 3
        if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head or b" " in asked:
            raise RequestUnsendable("a header or the target has a line break, a zero byte or a space in it")
        return head

    def _kept(self) -> Connection | None:
        """The connection that was used last, of those that are still open and young enough."""
        oldest = asyncio.get_running_loop().time() - self._keepalive_s
        while self._idle:
            connection, since = self._idle.pop()
            if since > oldest and connection.is_open() and not connection.has_ended_unheard():
                return connection
            connection.abort()
        return None

    async def _opened(self) -> Connection:
        """A new connection. Raises TimeoutError, OSError."""
        if self._closed:
            raise AnswerBroken("the pool is closed")
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_timeout_s):
            plain = await self._connected(await self._resolved())
            try:
                probed(plain)
                _, connection = await loop.create_connection(
                    lambda: Connection(self._free, self._all.discard),
                    sock=plain,
                    ssl=self._tls,
                    server_hostname=self._host.rstrip(".") if self._tls else None,  # certificates have no final dot
                )
            except BaseException:
                plain.close()
                raise
        self._all.add(connection)
        if self._closed:
            connection.abort()
            raise AnswerBroken("the pool was closed")
        return connection

    async def _connected(self, addresses: Sequence[aiohappyeyeballs.AddrInfoType]) -> socket.socket:
        """A socket to one of these, this proxy itself left out: where a name leads to both, vLLM serves."""
        others = [one for one in addresses if not leads_back(one, self._listening)]
        loop = cast(Any, _Unthreaded(asyncio.get_running_loop()))
        try:
            if others:
                return await aiohappyeyeballs.start_connection(
                    others, happy_eyeballs_delay=NEXT_ADDRESS_S, interleave=1, loop=loop
                )
        except OSError as fault:
            if len(others) < len(addresses):
                raise AnswerBroken(ITSELF) from fault
            raise
        raise AnswerBroken(ITSELF)

    async def _resolved(self) -> list[aiohappyeyeballs.AddrInfoType]:
        """The host's addresses, another one first each time. One question at a time, however many wait for it; where
        older addresses will do, one in `NAME_KEPT_S`. Raises OSError, AnswerBroken (the pool was closed).
        """
        now = asyncio.get_running_loop().time()
        if now - self._resolved_at > NAME_KEPT_S:
            stale = now - self._resolved_at <= STALE_S
            if self._resolving is None and (not stale or now - self._asked_at > NAME_KEPT_S):
                self._asked_at = now
                self._resolving = asyncio.create_task(self._ask_name())
                self._resolving.add_done_callback(self._name_asked)
            if self._resolving is not None:
                await self._name_heard(self._resolving, stale=stale)
        first = self._turn % len(self._addresses)
        self._turn += 1
        return self._addresses[first:] + self._addresses[:first]

    async def _name_heard(self, resolving: asyncio.Task[None], *, stale: bool) -> None:
        """Wait for the resolver; with `stale` addresses until its time is over, and its faults do not matter."""
        patience_s = min(STALE_AFTER_S, self._connect_timeout_s / 2)
        left_s = self._asked_at + patience_s - asyncio.get_running_loop().time()
        await asyncio.wait([resolving], timeout=max(left_s, 0) if stale else None)
        if resolving.cancelled():
            raise AnswerBroken("the pool was closed")
        if resolving.done() and (not stale or not self._addresses):
            resolving.result()

    async def _ask_name(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._addresses = await looked_up(self._host, self._port)
        except OSError as fault:
            if isinstance(fault, socket.gaierror) and fault.errno in _GONE:
                self._addresses, self._resolved_at = [], float("-inf")
            raise
        self._resolved_at = loop.time()

    def _name_asked(self, asked: asyncio.Task[None]) -> None:
        self._resolving = None
        if not asked.cancelled() and (fault := asked.exception()) is not None and self._addresses:
            event(log, "upstream_name_unanswered", logging.WARNING, fault=str(fault), known=len(self._addresses))

    def _free(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        self._idle.append((connection, loop.time()))
        if self._reaper is None:
            self._reaper = loop.call_later(self._keepalive_s, self._reap)

    def _reap(self) -> None:
        """Close what has been idle too long; look again when the next one will have been."""
        loop, self._reaper = asyncio.get_running_loop(), None
        while self._idle and self._idle[0][1] <= loop.time() - self._keepalive_s:
            self._idle.popleft()[0].abort()
        if self._idle:
            self._reaper = loop.call_at(self._idle[0][1] + self._keepalive_s, self._reap)


def _framing(method: str, headers: Pairs, body: bytes | AsyncIterator[bytes] | None) -> Pairs:
    """How the body's end is found, where the headers do not say it (RFC 9110 section 8.6)."""
    if any(name.lower() == b"content-length" for name, _ in headers):
        return []
    if body is None:
        return [] if method in _OFTEN_BODILESS else [(b"Content-Length", b"0")]
    return [(b"Content-Length", b"%d" % len(body))] if isinstance(body, bytes) else _CHUNKED


async def looked_up(host: str, port: int) -> list[aiohappyeyeballs.AddrInfoType]:
    """The addresses of a name, by a thread that nobody shares: uvloop asks by libuv's four, all of which the name of a
    store takes that is never answered. The end of the process waits for those, not for this one. Raises OSError.
    """
    found = Future[list[Any]]()
    found.set_running_or_notify_cancel()  # who gives up leaves it to answer nobody

    def ask() -> None:
        try:
            found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as fault:
            found.set_exception(fault)
        except UnicodeError as fault:  # a part of it is empty or too long
            found.set_exception(socket.gaierror(socket.EAI_NONAME, f"no name of a machine: {fault}"))

    threading.Thread(target=ask, name="upstream-name", daemon=True).start()
    return await asyncio.wrap_future(found)


class _Unthreaded:
    """The loop, but for how it connects: uvloop's has one of libuv's four threads look at an address as at a name, and
    where a store's name is never answered these all wait, and completions with them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def sock_connect(self, link: socket.socket, address: Any) -> None:
        """Connect to an address. Raises OSError."""
        fault = link.connect_ex(address)
        if fault == errno.EINPROGRESS:
            done = self._loop.create_future()
            self._loop.add_writer(link, _tell, done)
            try:
                await done
            finally:
                self._loop.remove_writer(link)
            fault = link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if fault:
            raise OSError(fault, f"{os.strerror(fault)}, connecting to {address[0]}:{address[1]}")


def _tell(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def probed(link: socket.socket) -> socket.socket:
    """A socket whose TCP notices that the other machine is gone, as far as this system can."""
    with suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES.items():
            if hasattr(socket, name):
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return link


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(("http/1.1",))
    return context
