"""A connection to vLLM: what an answer is taken for, when the connection serves again, and that every wait ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.connection import HEAD_BYTES_MAX, PIECE_BYTES, AnswerBroken, Connection, Pairs, UpstreamAnswer

REQUEST = b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Seen:
    """What became of a connection."""

    def __init__(self) -> None:
        self.freed = 0
        self.gone = asyncio.Event()


@asynccontextmanager
async def connected(
    speak: Speak, freed: Callable[[Connection], None] = lambda _: None
) -> AsyncIterator[tuple[Connection, Seen]]:
    """A connection to a server that speaks raw bytes; nothing on its way is left to the loop to complain of."""
    seen, faults = Seen(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))

    def free(connection: Connection) -> None:
        seen.freed += 1
        freed(connection)

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await speak(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    async with await asyncio.start_server(served, "127.0.0.1", 0) as server, asyncio.timeout(20):
        host, port = server.sockets[0].getsockname()
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(free, lambda _: seen.gone.set()), host, port
        )
        try:
            yield connection, seen
        finally:
            connection.abort()
    assert faults == []


async def asked(connection: Connection, *, skips_body: bool = False) -> UpstreamAnswer:
    return await connection.ask(REQUEST, b"{}", skips_body=skips_body, chunked=False)


def says(*parts: bytes, stays: bool = True) -> Speak:
    """A server that answers each request with the next of these; the last is followed by the end unless it `stays`."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            await reader.readuntil(b"{}")
            writer.write(part)
            await writer.drain()
        if stays:
            await reader.read()

    return speak


def says_later(first: bytes, go_on: asyncio.Event, then: bytes) -> Speak:
    """A server that answers its only request in two parts."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(first)
        await go_on.wait()
        writer.write(then)
        assert await reader.read() == b""

    return speak


def with_length(body: bytes, *, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (more, len(body), body)


@pytest.mark.parametrize(
    ("answer", "skips_body", "status", "body"),
    [
        (with_length(b"hello"), False, 200, b"hello"),
        (CHUNKED + b"2;x=y\r\nhe\r\n3 \r\nllo\r\n0\r\nX-Trailer: z\r\n\r\n", False, 200, b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", False, 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", False, 304, b""),
        (with_length(b"hello").replace(b"\r\n\r\nhello", b"\r\n\r\n"), True, 200, b""),
        (
            b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + with_length(b"a"),
            False,
            200,
            b"a",
        ),
        (b"HTTP/1.1 200 OK\nContent-Length: 1\n\na", False, 200, b"a"),
    ],
    ids=["length", "chunks", "204", "304", "HEAD", "1xx", "line feeds"],
)
async def test_a_whole_answer_frees_its_connection_for_the_next(
    answer: bytes, skips_body: bool, status: int, body: bytes
) -> None:
    async with connected(says(answer, with_length(b"next"))) as (connection, seen):
        found = await asked(connection, skips_body=skips_body)
        assert (found.status, await found.read_all()) == (status, body)
        assert {name for name, _ in found.raw_headers} <= {b"Content-Length", b"Transfer-Encoding"}
        assert seen.freed == 1 and connection.is_open()
        assert await (await asked(connection)).read_all() == b"next"


@pytest.mark.parametrize(
    "answer",
    [
        with_length(b"hello", more=b"Connection: close\r\n"),
        with_length(b"hello").replace(b"1.1", b"1.0"),
        with_length(b"hello") + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        CHUNKED + b"5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n",
        with_length(b"hello") + b"what is no HTTP",
        with_length(b"hello", more=b"Connection: close\r\n") + b"more",
        with_length(b"hello") + b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    ],
    ids=["close", "HTTP/1.0", "another answer", "a part of one", "no answer", "more behind the last", "an upgrade"],
)
async def test_a_connection_that_may_not_be_kept_is_closed(answer: bytes) -> None:
    async with connected(says(answer)) as (connection, seen):
        assert await (await asked(connection)).read_all() == b"hello"
        assert not connection.is_open()
        await seen.gone.wait()
    assert seen.freed == 0


async def test_an_answer_to_head_with_a_body_after_all_is_not_followed_by_another() -> None:
    async with connected(says(with_length(b"hello"))) as (connection, seen):
        assert await (await asked(connection, skips_body=True)).read_all() == b""
        await seen.gone.wait()
    assert seen.freed == 0


async def test_bytes_that_nobody_asked_for_end_a_kept_connection() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(with_length(b"a"))
        await asyncio.sleep(0.05)
        writer.write(with_length(b"evil"))
        await reader.read()

    async with connected(speak) as (connection, seen):
        assert await (await asked(connection)).read_all() == b"a"
        await seen.gone.wait()
        with pytest.raises(AnswerBroken):
            await asked(connection)


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async with connected(says(b"HTTP/1.1 200 OK\r\n\r\nhello", stays=False)) as (connection, seen):
        found = await asked(connection)
        assert await found.read_all() == b"hello" and found.at_eof()
        await seen.gone.wait()
    assert seen.freed == 0


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"ff\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        CHUNKED.replace(b"Transfer-", b"Transfer-Encoding: gzip\r\nTransfer-") + b"5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n5\r\nhello\r\n",
    ],
    ids=["no last chunk", "half a chunk", "short of its length", "codings in two lines", "codings in one"],
)
async def test_a_body_that_breaks_off_gives_what_came_and_then_says_so(answer: bytes) -> None:
    async with connected(says(answer, stays=False)) as (connection, seen):
        found = await asked(connection)
        came = b""
        with pytest.raises(AnswerBroken):
            while piece := await found.read():
                came += piece
        with pytest.raises(AnswerBroken):
            await found.read()
        assert came == b"hello" and found.is_here() and not found.at_eof()
        await seen.gone.wait()
    assert seen.freed == 0


async def test_a_trailer_without_an_end_is_not_kept_for_ever() -> None:
    trailer = b"0\r\nX: " + b"a" * (HEAD_BYTES_MAX + 4 * PIECE_BYTES)
    async with connected(says(CHUNKED + b"5\r\nhello\r\n" + trailer)) as (connection, seen):
        found = await asked(connection)
        assert await found.read() == b"hello"
        with pytest.raises(AnswerBroken, match="longer than"):
            await found.read()
        await seen.gone.wait()


async def test_a_long_answer_in_which_much_is_no_body_is_read_to_its_end() -> None:
    """A chunk's size that comes alone counts to nothing once there was body behind it."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(CHUNKED)
        for _ in range(16):
            writer.write(b"1;x=" + b"y" * (HEAD_BYTES_MAX // 8))
            await asyncio.sleep(0.002)
            writer.write(b"\r\na\r\n")
            await asyncio.sleep(0.002)
        writer.write(b"0\r\n\r\n")
        await reader.read()

    async with connected(speak) as (connection, seen):
        assert await (await asked(connection)).read_all() == b"a" * 16
        assert seen.freed == 1


async def test_a_frame_that_breaks_ends_the_answer_behind_what_came() -> None:
    go_on = asyncio.Event()
    speak = says_later(CHUNKED + b"5\r\nhello\r\n", go_on, b"3\r\nabc\r\nzz\r\n")
    async with connected(speak) as (connection, seen):
        found = await asked(connection)
        assert await found.read() == b"hello"
        go_on.set()
        assert await found.read() == b"abc"
        with pytest.raises(AnswerBroken):
            await found.read()
        await seen.gone.wait()
    assert seen.freed == 0


@pytest.mark.parametrize(
    ("answer", "stays"),
    [
        (b"", False),
        (b"HTTP/1.1 200 OK\r\nContent-", False),
        (b"220 mail.example ESMTP\r\n", True),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", True),
        (CHUNKED + b"5\r\nhello\r\nzz\r\n", True),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * (HEAD_BYTES_MAX + PIECE_BYTES), True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * (HEAD_BYTES_MAX // 20), True),
    ],
    ids=[
        "nothing",
        "half a head",
        "no HTTP",
        "another protocol",
        "two lengths",
        "a broken frame with it",
        "a long head",
        "many heads",
    ],
)
async def test_who_waits_for_a_head_that_does_not_come_is_told(answer: bytes, stays: bool) -> None:
    async with connected(says(answer, stays=stays)) as (connection, seen):
        with pytest.raises(AnswerBroken):
            await asked(connection)
        await seen.gone.wait()
        assert not connection.is_open()


async def test_headers_are_what_was_sent() -> None:
    more = b"X-One: \xe9\xff  \r\nx-one: 2\r\nX-None:\r\nX-Bar:b\r\n"
    async with connected(says(with_length(b"", more=more))) as (connection, _):
        found = await asked(connection)
    assert found.raw_headers == [
        (b"X-One", b"\xe9\xff"),
        (b"x-one", b"2"),
        (b"X-None", b""),
        (b"X-Bar", b"b"),
        (b"Content-Length", b"0"),
    ]
    assert found.header(b"x-one") == "\xe9\xff" and found.reason == b"OK"


async def test_who_gives_up_waiting_ends_the_connection() -> None:
    left = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        assert await reader.read() == b""
        left.set()

    async with connected(speak) as (connection, _):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await asked(connection)
        await left.wait()
        assert not connection.is_open()


async def test_who_leaves_with_an_answer_that_was_whole_leaves_the_next_request_alone() -> None:
    """The answer frees its connection, another asks over it, and the first is cancelled before it was told."""
    asking = list[asyncio.Task[UpstreamAnswer]]()

    def free(connection: Connection) -> None:
        if len(asking) == 1:
            asking[0].cancel()
            asking.append(asyncio.create_task(asked(connection)))

    async with connected(says(with_length(b"first"), with_length(b"second")), free) as (connection, _):
        asking.append(asyncio.create_task(asked(connection)))
        with pytest.raises(asyncio.CancelledError):
            await asking[0]
        assert await (await asking[1]).read_all() == b"second"


@pytest.mark.parametrize("ended", [False, True])
async def test_closing_an_answer_ends_its_connection_only_in_the_middle(ended: bool) -> None:
    async with connected(says(CHUNKED + b"1\r\na\r\n" + (b"0\r\n\r\n" if ended else b""))) as (connection, seen):
        found = await asked(connection)
        assert await found.read() == b"a"
        found.close()
        assert connection.is_open() == ended
        if not ended:
            await seen.gone.wait()


async def test_a_reader_that_is_slow_has_the_server_wait_and_gets_all_of_it() -> None:
    size, sent = 8 << 20, 0

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536
        await reader.read()

    async with connected(speak) as (connection, seen):
        found = await asked(connection)
        await asyncio.sleep(0.3)
        assert sent < size, "all of it was taken though nobody read"
        came, largest = 0, 0
        while piece := await found.read():
            came, largest = came + len(piece), max(largest, len(piece))
        assert came == size and largest <= 2 * PIECE_BYTES
        assert seen.freed == 1


async def test_a_connection_that_had_stopped_reading_when_its_answer_ended_reads_the_next() -> None:
    """The last read brings both more than may wait and the end; who reads comes later."""
    body = b"x" * (2 * PIECE_BYTES - 100)
    async with connected(says(with_length(body), with_length(b"next"))) as (connection, seen):
        found = await asked(connection)
        while not seen.freed:
            await asyncio.sleep(0.01)
            if not seen.freed:
                connection.read_on()
        assert await found.read_all() == body
        assert await (await asked(connection)).read_all() == b"next"


@pytest.mark.parametrize("answer", [with_length(b"a"), b"no HTTP"], ids=["whole", "broken"])
async def test_a_request_leaves_nothing_to_the_garbage_collector(answer: bytes) -> None:
    async with connected(says(answer)) as (connection, _):
        gc.collect()
        gc.disable()
        try:
            with contextlib.suppress(AnswerBroken):
                await (await asked(connection)).read_all()
            assert not [one for one in gc.get_objects() if type(one).__module__ == "httptools.parser.parser"]
        finally:
            gc.enable()


async def pieces(*parts: bytes, breaks: bool = False) -> AsyncIterator[bytes]:
    for part in parts:
        await asyncio.sleep(0)
        yield part
    if breaks:
        raise ValueError("the client left")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_in_pieces_is_sent_as_it_comes(chunked: bool) -> None:
    heard = b""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        await reader.readuntil(b"\r\n\r\n")
        heard = await reader.readuntil(b"0\r\n\r\n") if chunked else await reader.readexactly(5)
        writer.write(with_length(b"ok"))
        await reader.read()

    async with connected(speak) as (connection, seen):
        found = await connection.ask(REQUEST, pieces(b"he", b"", b"llo"), skips_body=False, chunked=chunked)
        assert await found.read_all() == b"ok"
        assert seen.freed == 1
    assert heard == (b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n" if chunked else b"hello")


async def test_a_body_waits_for_a_server_that_does_not_read() -> None:
    given, go_on = 0, asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await go_on.wait()
        while not (await reader.read(1 << 20)).endswith(b"0\r\n\r\n"):
            pass
        writer.write(with_length(b"ok"))
        await reader.read()

    async def many() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(256):
            given += 1
            yield b"x" * 65_536

    async with connected(speak) as (connection, _):
        asking = asyncio.create_task(connection.ask(REQUEST, many(), skips_body=False, chunked=True))
        await asyncio.sleep(0.3)
        assert given < 256, "all of it was taken though nobody read"
        go_on.set()
        assert await (await asking).read_all() == b"ok"
    assert given == 256


async def test_a_body_that_breaks_off_is_not_taken_for_the_whole() -> None:
    heard = list[bytes]()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        heard.append(await reader.read())

    async with connected(speak) as (connection, seen):
        with pytest.raises(AnswerBroken, match="ValueError"):
            await connection.ask(REQUEST, pieces(b"he", breaks=True), skips_body=False, chunked=True)
        await seen.gone.wait()
        await asyncio.sleep(0.05)
    assert heard in ([], [b"2\r\nhe\r\n"])


async def test_an_answer_before_the_body_was_sent_arrives_and_its_connection_is_not_kept() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await asyncio.sleep(0.05)

    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async with connected(speak) as (connection, seen):
        found = await connection.ask(REQUEST, endless(), skips_body=False, chunked=True)
        assert (found.status, await found.read_all()) == (413, b"no")
        await seen.gone.wait()
    assert seen.freed == 0


async def test_an_answer_whose_server_hung_up_before_the_body_was_sent_arrives() -> None:
    """The next write fails before anything was read: here the loop is held up from the answer until then."""
    hung_up = threading.Event()

    def refuses(listening: socket.socket) -> None:
        plain, _ = listening.accept()
        with plain:
            plain.recv(64)
            plain.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        hung_up.set()

    async def goes_on() -> AsyncIterator[bytes]:
        yield b"x" * 65_536
        hung_up.wait(5)
        for _ in range(4):
            yield b"x" * 65_536

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=refuses, args=(listening,))
        serving.start()
        gone = asyncio.Event()
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(lambda _: None, lambda _: gone.set()), *listening.getsockname()
        )
        found = await connection.ask(REQUEST, goes_on(), skips_body=False, chunked=True)
        assert (found.status, await found.read_all()) == (413, b"no")
        await gone.wait()
        serving.join()


async def test_an_answer_before_the_body_was_sent_leaves_no_connection_to_a_server_that_reads_no_more() -> None:
    """What is not sent yet waits for nobody."""
    kept_open = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(with_length(b"no"))
        await kept_open.wait()

    async with connected(speak) as (connection, seen):
        found = await connection.ask(REQUEST, bytes(16 << 20), skips_body=False, chunked=False)
        assert await found.read_all() == b"no"
        await asyncio.wait_for(seen.gone.wait(), 5)
        assert seen.freed == 0
        kept_open.set()


async def test_a_body_that_broke_off_as_its_answer_came_leaves_no_connection_to_the_next_request() -> None:
    """To the server the next request would be a part of this one."""
    async with connected(says(b"")) as (connection, seen):

        async def breaks() -> AsyncIterator[bytes]:
            asyncio.get_running_loop().call_soon(arrives, connection, with_length(b"ok"))
            raise ValueError("the client left")
            yield b""

        found = await connection.ask(REQUEST, breaks(), skips_body=False, chunked=True)
        assert await found.read_all() == b"ok"
        assert seen.freed == 0 and not connection.is_open()


def arrives(connection: Connection, what: bytes) -> None:
    """As a loop has it arrive."""
    connection.get_buffer(-1)[: len(what)] = what
    connection.buffer_updated(len(what))


@pytest.mark.parametrize("came", [CHUNKED, b"no HTTP"], ids=["a head", "a fault"])
async def test_who_leaves_as_a_head_comes_ends_the_connection_and_leaves_nothing_behind(came: bytes) -> None:
    async with connected(says(b"")) as (connection, seen):
        asking = asyncio.create_task(asked(connection))
        await asyncio.sleep(0)
        arrives(connection, came)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not connection.is_open()
        await seen.gone.wait()
        del asking
        gc.collect()  # a future whose fault nobody saw says so now


async def test_a_second_request_is_refused_while_the_first_is_answered() -> None:
    go_on = asyncio.Event()
    speak = says_later(CHUNKED + b"1\r\na\r\n", go_on, b"1\r\nb\r\n0\r\n\r\n")
    async with connected(speak) as (connection, seen):
        found = await asked(connection)
        with pytest.raises(AnswerBroken):
            async with asyncio.timeout(1):
                await asked(connection)
        go_on.set()
        assert await found.read_all() == b"ab" and seen.freed == 1


async def test_a_connection_that_is_reset_ends_who_reads() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await asyncio.sleep(0.02)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with connected(speak) as (connection, seen):
        found = await asked(connection)
        assert await found.read() == b"hello"
        with pytest.raises(AnswerBroken, match="ConnectionResetError"):
            await found.read()
        await seen.gone.wait()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_body_that_ends_with_its_connection_while_nobody_reads_is_whole(run: Callable[..., None]) -> None:
    body = bytes(range(256)) * 4_096

    async def ends() -> None:
        answer = b"HTTP/1.1 200 OK\r\n\r\n" + body
        async with connected(says(answer, stays=False)) as (connection, seen):
            found = await asked(connection)
            came = b""
            while piece := await found.read():
                came += piece
                await asyncio.sleep(0.002)
            assert came == body
            await seen.gone.wait()

    run(ends())


MORE = b"X: y\r\nX-None:\r\nx: \xe9 \r\nX-Last: \r\n"
ANSWERS = {
    "length": (with_length(b"hello, world", more=MORE), {1}),
    "chunks": (CHUNKED[:-2] + MORE + b"\r\n7\r\nhello, \r\n5;x=y\r\nworld\r\n0\r\nX-Trailer: z\r\n\r\n", {1}),
    "1xx": (b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n" + with_length(b"hello, world", more=MORE), {1}),
    "close": (b"HTTP/1.1 200 OK\r\n" + MORE + b"\r\nhello, world", {0}),
    "more": (with_length(b"hello, world", more=MORE) + b"more", {0, 1}),
}


@settings(max_examples=120, deadline=None)
@given(answer=st.sampled_from(sorted(ANSWERS)), cuts=st.sets(st.integers(1, 150), max_size=8))
def test_an_answer_is_the_same_wherever_its_reads_are_cut(answer: str, cuts: set[int]) -> None:
    whole, freed_times = ANSWERS[answer]
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    freed = list[Connection]()

    class Transport(asyncio.Transport):
        closing = False

        def get_extra_info(self, name: str, default: object = None) -> object:
            return default

        def is_closing(self) -> bool:
            return self.closing

        def writelines(self, list_of_data: object) -> None: ...

        def get_write_buffer_size(self) -> int:
            return 0

        def abort(self) -> None:
            self.closing = True

    async def run() -> tuple[int, Pairs, bytes]:
        connection = Connection(freed.append, lambda _: None)
        connection.connection_made(Transport())
        asking = asyncio.create_task(asked(connection))
        await asyncio.sleep(0)
        for start, end in itertools.pairwise(places):
            arrives(connection, whole[start:end])
        connection.eof_received()
        found = await asking
        pairs = [(name, value) for name, value in found.raw_headers if name.lower().startswith(b"x")]
        return found.status, pairs, await found.read_all()

    pairs = [(b"X", b"y"), (b"X-None", b""), (b"x", b"\xe9"), (b"X-Last", b"")]
    assert asyncio.run(run()) == (200, pairs, b"hello, world")
    assert len(freed) in freed_times


@pytest.mark.parametrize(
    "promise",
    [
        test_who_gives_up_waiting_ends_the_connection,
        test_who_leaves_with_an_answer_that_was_whole_leaves_the_next_request_alone,
        test_a_body_without_a_length_ends_with_its_connection,
        test_a_reader_that_is_slow_has_the_server_wait_and_gets_all_of_it,
        test_a_connection_that_had_stopped_reading_when_its_answer_ended_reads_the_next,
        test_a_body_waits_for_a_server_that_does_not_read,
        test_an_answer_before_the_body_was_sent_arrives_and_its_connection_is_not_kept,
        test_an_answer_whose_server_hung_up_before_the_body_was_sent_arrives,
        test_an_answer_before_the_body_was_sent_leaves_no_connection_to_a_server_that_reads_no_more,
        test_a_trailer_without_an_end_is_not_kept_for_ever,
        test_a_connection_that_is_reset_ends_who_reads,
    ],
)
def test_it_is_so_on_uvloop_too(promise: Callable[[], Coroutine[None, None, None]]) -> None:
    """The service runs on uvloop, whose transports are its own; these tests are on asyncio's."""
    uvloop.run(promise())
