"""One shared connection to a Redis or Valkey: commands of many callers in, each one's replies out, in order.

For what every request does: a trip costs .02 ms of CPU time here and .15 through the client library's pool, which gives
each caller a connection of its own and looks after it each time. Commands are written at once and answered in the order
they were written, so a caller that leaves leaves its place in the line, and nobody gets another's reply. A caller is
given up when no reply came within its time, and only after what lay in the socket was read: a loop that is late takes
no reply for one that is late. A connection that has said nothing for SILENCE_S while it was asked is dropped with all
who wait, and the next caller opens another. Refuses TLS and clusters (`can_serve`), retries, and more than WAITING_MAX.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, cast

import hiredis
from redis.asyncio.connection import parse_url
from redis.exceptions import ConnectionError as LinkLost
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as LinkLate

from memory.adapters.link import watch_link

Command = tuple[str | bytes | int, ...]
SILENCE_S: Final = 1.0
WAITING_MAX: Final = 10_000
UNSENT_BYTES_MAX: Final = 64 << 20
_SCHEMES: Final = ("redis://", "unix://")


def can_serve(url: str) -> bool:
    """Whether a shared connection is enough for this server."""
    return url.startswith(_SCHEMES)


class _Asked:
    """Commands of one caller: how many replies are wanted, those that have come, and who waits for them."""

    __slots__ = ("at", "done", "replies", "wanted")

    def __init__(self, wanted: int, done: asyncio.Future[list[Any]], at: float) -> None:
        self.wanted = wanted
        self.done = done
        self.at = at
        self.replies: list[Any] = []


class _Link(asyncio.Protocol):
    """One connection. Its line is answered from the front; when it is lost all who wait are told."""

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reader = hiredis.Reader(protocolError=LinkLost, replyError=ResponseError)
        self._line: deque[_Asked] = deque()
        self._heard_at = loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its bases
        watch_link(transport.get_extra_info("socket"))

    @property
    def is_open(self) -> bool:
        """Whether it can be written to."""
        return not self.transport.is_closing()

    def write(self, commands: Sequence[Command]) -> _Asked:
        """Send commands; they have their place in the line. Raises RedisError where it is full."""
        if len(self._line) >= WAITING_MAX or self.transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            raise LinkLate("too much waits for the server already")
        asked = _Asked(len(commands), self._loop.create_future(), self._loop.time())
        self._line.append(asked)
        self.transport.write(b"".join(hiredis.pack_command(cast(Any, command)) for command in commands))
        return asked

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._reply(reply)
        except RedisError as exc:
            self.drop(exc)

    def _reply(self, reply: Any) -> None:
        if not self._line:
            raise LinkLost("a reply that nobody asked for")
        first = self._line[0]
        first.replies.append(reply)
        if len(first.replies) == first.wanted:
            self._line.popleft()
            if not first.done.done():
                first.done.set_result(first.replies)

    def late(self, asked: _Asked, limit_s: float) -> None:
        """Give up who waits for these replies, and the connection where it has said nothing for long."""
        if asked.done.done():
            return
        asked.done.set_exception(LinkLate(f"no answer within {limit_s:g} s"))
        if self._loop.time() - max(self._heard_at, self._line[0].at) >= SILENCE_S:
            self.drop(LinkLost("the server says nothing"))

    def drop(self, exc: Exception) -> None:
        """End the connection; whoever waits is told why."""
        self.transport.abort()
        line, self._line = self._line, deque()
        for asked in line:
            if not asked.done.done():
                asked.done.set_exception(LinkLost(str(exc)))

    def connection_lost(self, exc: Exception | None) -> None:
        self.drop(exc or LinkLost("the server has closed the connection"))


class Wire:
    """The connection of one process to one server; made when it is first needed, and again after it was lost."""

    def __init__(self, url: str, *, connect_timeout_s: float = 5.0) -> None:
        self._to = parse_url(url)
        self._connect_timeout_s = connect_timeout_s
        self._link: _Link | None = None
        self._opening: asyncio.Task[_Link] | None = None
        self._closed = False

    async def close(self) -> None:
        """Drop the connection; whoever waits is told."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._link is not None:
            self._link.drop(LinkLost("closed"))

    async def ask(self, commands: Sequence[Command], limit_s: float, *, raises: bool = True) -> list[Any]:
        """The replies to commands that are sent together, in order. A reply that is an error is raised, or with
        `raises` False in its place. Raises RedisError, OSError.
        """
        link = self._link
        if link is None or not link.is_open:
            link = await asyncio.wait_for(asyncio.shield(self._open()), limit_s)
        replies = await _answered(link, link.write(commands), limit_s)
        if raises:
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
        return replies

    def _open(self) -> asyncio.Task[_Link]:
        """The opening that is under way, or a new one: all who need it wait for the same."""
        if self._closed:
            raise LinkLost("closed")
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(_seen)
        return self._opening

    async def _connect(self) -> _Link:
        if self._link is not None and self._link.is_open:
            return self._link
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_timeout_s):
            if path := self._to.get("path"):
                _, link = await loop.create_unix_connection(lambda: _Link(loop), str(path))
            else:
                host, port = str(self._to.get("host", "localhost")), int(self._to.get("port", 6379))
                _, link = await loop.create_connection(lambda: _Link(loop), host, port)
            try:
                await self._greet(link)
            except BaseException:
                link.drop(LinkLost("not let in"))
                raise
        self._link = link
        return link

    async def _greet(self, link: _Link) -> None:
        """Say who we are and which database is meant, where the URL does."""
        greeting: list[Command] = []
        if password := self._to.get("password"):
            user = self._to.get("username")
            greeting.append(("AUTH", str(user), str(password)) if user else ("AUTH", str(password)))
        if database := self._to.get("db"):
            greeting.append(("SELECT", int(database)))
        if greeting:
            for reply in await _answered(link, link.write(greeting), self._connect_timeout_s):
                if isinstance(reply, Exception):
                    raise reply


async def _answered(link: _Link, asked: _Asked, limit_s: float) -> list[Any]:
    """The replies, within the time. Timers run before sockets are read: once they were, `late` decides."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(limit_s, lambda: loop.call_soon(loop.call_soon, link.late, asked, limit_s))
    try:
        return await asked.done
    finally:
        timer.cancel()


def _seen(task: asyncio.Task[_Link]) -> None:
    """A fault of an opening that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
