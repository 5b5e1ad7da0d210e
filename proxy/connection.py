"""One HTTP/1.1 connection to vLLM: a request's bytes out, its answer in as it comes, one after the other.

llhttp reads what comes (httptools). What came of a body is kept until it is read, 64 KiB at most (more over TLS): then
the connection stops reading. Everything ends a wait: an answer, a broken frame, a connection that closes. Refuses a
second request while the first is answered; knows no pool, no address and no memory.

aiohttp's client takes 395 us of CPU time for a request and an answer of 64 events, this 282 (docs/decisions/0036).
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final, cast

import httptools

Pairs = list[tuple[bytes, bytes]]

PIECE_BYTES: Final = 32_768
"""Reading stops when more than this waits. A slow client of a fast, long answer holds .6 MiB with it, and 1.9 with
aiohttp's 256 KiB (bench.faults --only slow_clients)."""
HEAD_BYTES_MAX: Final = 262_144
"""An answer's status line and headers, those of all that comes before it (1xx) included; and its trailer."""
TLS_BYTES_MAX: Final = 655_360
"""The loops' TLS holds up to 512 KiB that it has read. What is left of that when the connection ends is lost: so all of
it is taken at once, and an answer over TLS may wait in as much."""
ENDING_BYTES: Final = 4_194_304
"""Reading an answer over TLS with whose end the connection ends stops when more than this waits: uvloop's TLS loses
what comes while reading stands still and the end is behind it."""
# The other side will say no more; over TLS there may be something to read that is no end. macOS has no such event.
_ENDED: Final = getattr(select, "POLLRDHUP", 0)
# What the kernel has goes here and is read before anything else happens on the loop, so that one will do for all.
_ARRIVED: Final = memoryview(bytearray(TLS_BYTES_MAX))
_ARRIVED_PLAIN: Final = _ARRIVED[:PIECE_BYTES]


class AnswerBroken(ConnectionError):
    """The answer will not come, or not to its end."""


class UpstreamAnswer:
    """An answer: its head is here, its body may still come."""

    __slots__ = (
        "_connection",
        "_ended",
        "_enough",
        "_fault",
        "_pieces",
        "_size",
        "_waits",
        "raw_headers",
        "reason",
        "status",
    )

    def __init__(self, connection: Connection, status: int, reason: bytes, raw_headers: Pairs, enough: int) -> None:
        self.status = status
        self.reason = reason
        self.raw_headers = raw_headers
        self._connection = connection
        self._enough = enough
        self._pieces: list[bytes] = []
        self._size = 0
        self._ended = False
        self._fault: AnswerBroken | None = None
        self._waits: asyncio.Future[None] | None = None

    def header(self, name: bytes) -> str | None:
        """The first header of this name, which is in small letters."""
        found = next((value for key, value in self.raw_headers if key.lower() == name), None)
        return None if found is None else found.decode("latin-1")

    @property
    def content_type(self) -> str:
        """The media type, without its parameters, in small letters; empty where the answer names none."""
        return (self.header(b"content-type") or "").partition(";")[0].strip().lower()

    def at_eof(self) -> bool:
        """Whether all of the body was read."""
        return self._ended and not self._pieces

    def is_here(self) -> bool:
        """Whether `read` has something to say at once: bytes, the end, or that there will be none."""
        return bool(self._pieces) or self._ended or self._fault is not None

    async def read(self) -> bytes:
        """What has come of the body, a byte at least, and nothing at its end. Raises AnswerBroken, behind what came."""
        while not self._pieces:
            if self._ended:
                return b""
            if self._fault is not None:
                raise AnswerBroken(*self._fault.args) from self._fault
            self._waits = asyncio.get_running_loop().create_future()
            try:
                await self._waits
            finally:
                self._waits = None
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if not self._ended:
            self._connection.read_on()
        return piece

    async def read_all(self) -> bytes:
        """The rest of the body. Raises AnswerBroken."""
        pieces = [await self.read()]
        while pieces[-1]:
            pieces.append(await self.read())
        return b"".join(pieces)

    def close(self) -> None:
        """Be done with it: in the middle of a body the connection ends, so that vLLM stops at once."""
        if not self._ended:
            self._connection.abort()

    def came(self, piece: bytes) -> bool:
        """Take a piece of the body; whether that is enough for now."""
        self._pieces.append(piece)
        self._size += len(piece)
        return self._size > self._enough

    def end(self, fault: AnswerBroken | None = None) -> None:
        """No more will come: that was the body, or `fault`."""
        self._ended, self._fault = fault is None, fault
        self.wake()

    def wake(self) -> None:
        """Let who reads look again."""
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)


class _Reading:
    """What llhttp says of one answer, by the names that it calls."""

    __slots__ = (
        "_connection",
        "_reason",
        "_skips_body",
        "answer",
        "brought",
        "ended",
        "excess",
        "headers",
        "keeps",
        "parser",
    )

    def __init__(self, connection: Connection, *, skips_body: bool) -> None:
        self._connection = connection
        self._skips_body = skips_body
        self._reason = b""
        self.headers: Pairs = []
        self.answer: UpstreamAnswer | None = None
        self.brought = self.ended = self.keeps = self.excess = False
        self.parser = httptools.HttpResponseParser(self)
        # As aiohttp reads answers: a lone line feed ends a line, and blanks may follow a chunk's size.
        self.parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)

    def on_message_begin(self) -> None:
        """A status line begins: the first, or one behind a 1xx. Behind the answer there is none that was asked for."""
        self.excess = self.answer is not None

    def on_status(self, part: bytes) -> None:
        self._reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.answer is None:  # else a trailer, which nobody is promised
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if self.excess or status < 200:
            return
        self.keeps = self.parser.should_keep_alive()
        enough = PIECE_BYTES if self.keeps or not self._connection.over_tls else ENDING_BYTES
        self.answer = UpstreamAnswer(self._connection, status, self._reason, self.headers, enough)
        self.ended = self._skips_body

    def on_body(self, piece: bytes) -> None:
        if self.answer is None or self.ended:
            self.excess = True
        else:
            self.brought = True
            if self.answer.came(piece):
                self._connection.read_no_more()

    def on_message_complete(self) -> None:
        if self.answer is None:
            self._reason, self.headers = b"", []
        else:
            self.ended = True

    def let_go(self) -> None:
        """Nothing more is read. The parser holds what it calls here: a ring, which only the collector would undo."""
        del self.parser

    def ends_with_connection(self) -> bool:
        """Whether the body has no other end than the connection's."""
        if self.answer is None:
            return False
        codings = b",".join(value for name, value in self.headers if name.lower() == b"transfer-encoding")
        if codings:
            return codings.rpartition(b",")[2].strip().lower() != b"chunked"
        return self.answer.header(b"content-length") is None


class Connection(asyncio.BufferedProtocol):
    """A connection. `free` is called when it can take the next request, `gone` when it never will."""

    _transport: asyncio.Transport  # from connection_made on, before anything else is asked
    over_tls: bool

    def __init__(self, free: Callable[[Connection], None], gone: Callable[[Connection], None]) -> None:
        self._free, self._gone = free, gone
        self._reading: _Reading | None = None
        self._head: asyncio.Future[UpstreamAnswer] | None = None
        self._head_bytes = 0
        self._heard = self._paused = False
        self._body: asyncio.Task[None] | None = None  # until all of it was sent
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def heard(self) -> bool:
        """Whether anything came since the last request was sent."""
        return self._heard

    def is_open(self) -> bool:
        """Whether it takes a request."""
        return not self._transport.is_closing() and self._reading is None

    def has_ended_unheard(self) -> bool:
        """Whether the server has hung up and the loop has not said so yet: what is sent then is lost."""
        waiting = select.poll()
        waiting.register(self._transport.get_extra_info("socket").fileno(), _ENDED)
        return bool(waiting.poll(0))

    async def ask(
        self, head: bytes, body: bytes | AsyncIterator[bytes] | None, *, skips_body: bool, chunked: bool
    ) -> UpstreamAnswer:
        """Send a request and wait for the head of its answer. `skips_body`: there is none behind it, as to HEAD.

        `chunked`: a body that comes in pieces is framed so. Raises AnswerBroken; who gives up waiting ends it all.
        """
        if not self.is_open():
            raise AnswerBroken("the connection is closed")
        reading = self._reading = _Reading(self, skips_body=skips_body)
        self._head = asyncio.get_running_loop().create_future()
        self._head_bytes, self._heard = 0, False
        if body is None or isinstance(body, bytes):
            self._transport.writelines((head, body) if body else (head,))
        else:
            self._transport.write(head)
            self._body = asyncio.create_task(self._send(body, chunked=chunked))
            self._body.add_done_callback(self._sent)
        try:
            return await self._head
        except asyncio.CancelledError:
            if self._reading is reading:  # else its answer has come, and the connection may be another's
                self.abort()
            raise

    async def _send(self, body: AsyncIterator[bytes], *, chunked: bool) -> None:
        """A body as it comes."""
        async for piece in body:
            if piece:
                self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                await self._writable.wait()
        if chunked:
            self._transport.write(b"0\r\n\r\n")
        self._body = None

    def _sent(self, sending: asyncio.Task[None]) -> None:
        """A body that breaks off ends the connection: vLLM must not take it for the whole."""
        if not sending.cancelled() and (fault := sending.exception()) is not None:
            self._break(f"the request's body broke off ({type(fault).__name__})")

    def read_no_more(self) -> None:
        """Stop reading until `read_on`."""
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def read_on(self) -> None:
        """Read on, where it had stopped."""
        if self._paused:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def abort(self) -> None:
        """End it, at once."""
        self._transport.abort()
        self._fail("the connection was given up")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        self.over_tls = transport.get_extra_info("sslcontext") is not None
        self._room = _ARRIVED if self.over_tls else _ARRIVED_PLAIN

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        reading, self._heard = self._reading, True
        if reading is None:
            self._break("bytes that nobody asked for")
            return
        try:
            reading.parser.feed_data(_ARRIVED[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as fault:
            if not reading.ended:
                upgrade = isinstance(fault, httptools.HttpParserUpgrade)
                self._break("an upgrade that nobody asked for" if upgrade else f"the answer's framing broke: {fault}")
                return
            reading.excess = True  # the answer is whole: it was what came behind it
        self._came(reading, nbytes)

    def _came(self, reading: _Reading, nbytes: int) -> None:
        """Look at what llhttp made of the bytes."""
        if reading.answer is None:
            self._no_body(nbytes)
            return
        if self._head is not None:
            if not self._head.done():
                self._head.set_result(reading.answer)
            self._head = None
        if reading.ended:
            self._ended(reading, reading.answer)
        elif reading.brought:
            reading.brought, self._head_bytes = False, 0
            reading.answer.wake()
        else:
            self._no_body(nbytes)

    def _no_body(self, nbytes: int) -> None:
        """A part of a head, of a chunk's size or of a trailer: llhttp holds a line until it ends."""
        self._head_bytes += nbytes
        if self._head_bytes > HEAD_BYTES_MAX:
            self._break(f"the answer's head or trailer is longer than {HEAD_BYTES_MAX} bytes")

    def _ended(self, reading: _Reading, answer: UpstreamAnswer) -> None:
        """The answer is here as a whole: the next request may come, where all of this one was sent."""
        self._reading = None
        reading.let_go()
        sent = self._body is None and not self._transport.get_write_buffer_size()
        if sent and reading.keeps and not reading.excess:
            self.read_on()
            self._free(self)
        else:
            self._stop_sending()
            self._transport.abort()  # `close` would wait until the rest is sent, or for TLS' farewell
        answer.end()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._writable.set()

    def eof_received(self) -> bool:
        """See asyncio.Protocol. The other side will say no more: that may be how a body ends."""
        reading = self._reading
        if reading is not None and reading.answer is not None and reading.ends_with_connection():
            reading.keeps = False
            self._ended(reading, reading.answer)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._writable.set()
        if exc is not None and not self.over_tls:
            self._hear_out()
        self._fail("the connection was closed" if exc is None else f"{type(exc).__name__}: {exc}")
        self._gone(self)

    def _hear_out(self) -> None:
        """Read what had come before the connection broke: a server that refuses a body by its head says so, hangs
        up, and then a write fails, of what it does not want, before that was read."""
        link = self._transport.get_extra_info("socket")
        with suppress(OSError):
            while self._reading is not None and (came := os.readv(link.fileno(), [self._room])):
                self.buffer_updated(came)

    def _break(self, why: str) -> None:
        self._fail(why)
        self._transport.abort()

    def _fail(self, why: str) -> None:
        """Tell who waits that no more will come."""
        self._stop_sending()
        reading, self._reading = self._reading, None
        head, self._head = self._head, None
        if head is not None and not head.done():
            head.set_exception(AnswerBroken(why))
        elif reading is not None and reading.answer is not None:
            reading.answer.end(AnswerBroken(why))
        if reading is not None:
            reading.let_go()

    def _stop_sending(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.cancel()
