"""A cheap load client: request bytes in, timings of the streamed answer out.

A bare asyncio protocol that reads the status line and two headers and then only looks for the end
of the body, so that the client's own cost stays far below the proxies it measures. HTTP/1.1 on a
kept connection, one request at a time on each. Of the body it checks only that it ends with [DONE].
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

ANSWER_TIMEOUT_S = 120.0
TAIL_BYTES = 128
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"
_CHUNK_FRAME = re.compile(rb"\r\n[0-9a-fA-F]+\r\n")


class AnswerLost(ConnectionError):
    """The connection ended before the answer did."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One answer. Seconds from the send: to the first byte of the body, to its end. `complete`: 200 and [DONE].

    `memory_millis` is what X-Memory-Millis says was added; None where no such header came. `memory_capture`: where
    X-Memory-Capture says the exchange goes.
    """

    first_s: float
    total_s: float
    complete: bool
    memory_status: str
    memory_millis: float | None = None
    memory_capture: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """One way to the model: base URL and the headers that choose it."""

    name: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()

    def request(self, question: str, model: str | None, extra: Sequence[tuple[str, str]], tokens: int) -> bytes:
        """A streaming chat request as bytes, ready for the socket."""
        body: dict[str, object] = {"messages": [{"role": "user", "content": question}], "stream": True}
        if model:
            body["model"] = model
        body["max_tokens"] = tokens
        return self.raw(json.dumps(body).encode(), extra)

    def raw(self, raw: bytes, extra: Sequence[tuple[str, str]] = ()) -> bytes:
        """A chat request around this JSON body."""
        lines = [
            "POST /v1/chat/completions HTTP/1.1",
            f"Host: {urlsplit(self.url).netloc}",
            "Content-Type: application/json",
            f"Content-Length: {len(raw)}",
            *(f"{name}: {value}" for name, value in (*self.headers, *extra)),
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def _header(head: bytes, name: bytes) -> bytes:
    """One header of a lower-cased head, or nothing."""
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else b""


class Connection(asyncio.Protocol):
    """One kept connection; `ask` one request after the other."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Timing] | None = None
        self._clear()

    def _clear(self) -> None:
        self._head = b""
        self._in_body = False
        self._status = 0
        self._memory_status = ""
        self._memory_millis: float | None = None
        self._memory_capture = ""
        self._left: int | None = None
        self._tail = b"\r\n"
        self._first_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its bases

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(AnswerLost("connection lost before the answer ended"))
        self._transport = None

    @property
    def alive(self) -> bool:
        """Whether the other end still keeps it."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def ask(self, request: bytes) -> Timing:
        """Send and wait for the end of the answer. Raises AnswerLost, TimeoutError."""
        if self._transport is None:
            raise AnswerLost("the connection is closed")
        self._clear()
        self._waiter = asyncio.get_running_loop().create_future()
        self._sent_s = time.perf_counter()
        self._transport.write(request)
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await self._waiter

    def data_received(self, data: bytes) -> None:
        if not self._in_body:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            self._read_head(head)
        if data and not self._first_s:
            self._first_s = time.perf_counter() - self._sent_s
        if self._is_end(data) and self._waiter is not None and not self._waiter.done():
            total_s = time.perf_counter() - self._sent_s
            complete = self._status == 200 and b"[DONE]" in _CHUNK_FRAME.sub(b"", self._tail)
            first_s = self._first_s or total_s
            said = (self._memory_status, self._memory_millis, self._memory_capture)
            self._waiter.set_result(Timing(first_s, total_s, complete, *said))

    def _read_head(self, head: bytes) -> None:
        self._in_body = True
        self._status = int(head[9:12])
        lowered = head.lower()
        self._memory_status = _header(lowered, b"x-memory-status").decode("latin-1")
        millis = _header(lowered, b"x-memory-millis")
        self._memory_millis = float(millis) if millis else None
        self._memory_capture = _header(lowered, b"x-memory-capture").decode("latin-1")
        length = _header(lowered, b"content-length")
        self._left = int(length) if length else None

    def _is_end(self, data: bytes) -> bool:
        if self._left is not None:
            self._left -= len(data)
            return self._left <= 0
        self._tail = (self._tail + data)[-TAIL_BYTES:] if len(data) < TAIL_BYTES else data[-TAIL_BYTES:]
        return self._tail.endswith(_END_OF_CHUNKS)


@asynccontextmanager
async def connections(target: Target, count: int) -> AsyncIterator[list[Connection]]:
    """`count` open connections to a target. Raises OSError when it does not answer."""
    place = urlsplit(target.url)
    loop = asyncio.get_running_loop()
    opened: list[Connection] = []
    try:
        for _ in range(count):
            _, connection = await loop.create_connection(Connection, place.hostname or "127.0.0.1", place.port or 80)
            opened.append(connection)
        yield opened
    finally:
        for connection in opened:
            connection.close()
