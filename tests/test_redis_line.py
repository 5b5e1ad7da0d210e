"""Many requests on one connection to Redis: each gets its own replies, and no fault outlives its connection."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509

from memory.adapters import redis_line
from memory.adapters.redis_client import connect, faults, refused
from memory.adapters.redis_line import Asks, Command, Line, Pooled, line_to
from memory.errors import QueueUnavailable
from tests.certificate import self_signed
from tests.valkey_fixture import ValkeyServer

LONG_S = 30.0
GET: list[Command] = [("GET", "k")]


class Scripted:
    """A server that says what a test has it say."""

    def __init__(self) -> None:
        self._come: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []

    async def come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await self._come.put((reader, writer))

    async def greeted(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The next connection, its PING answered."""
        reader, writer = await self._come.get()
        await reader.readexactly(len(b"*1\r\n$4\r\nPING\r\n"))
        writer.write(b"+PONG\r\n")
        return reader, writer


async def heard(reader: asyncio.StreamReader, commands: int) -> None:
    """So many GETs."""
    await reader.readexactly(commands * len(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))


@pytest.fixture
async def scripted(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Scripted, Line]]:
    monkeypatch.setattr(redis_line, "CONNECT_S", LONG_S)  # a busy machine greets late
    with tempfile.TemporaryDirectory(prefix="line-", dir="/tmp") as directory:
        path, server = str(Path(directory) / "s"), Scripted()
        listening = await asyncio.start_unix_server(server.come, path)
        line = line_to(f"unix://{path}", connect(f"unix://{path}"))
        assert isinstance(line, Line)
        yield server, line
        await line.close()
        for writer in server.writers:
            writer.close()
        listening.close()


@pytest.fixture(params=["line", "pooled"])
async def asks(request: pytest.FixtureRequest, valkey: ValkeyServer) -> AsyncIterator[Asks]:
    client = connect(valkey.url)
    way = Pooled(client) if request.param == "pooled" else line_to(valkey.url, client)
    yield way
    await way.close()
    await client.aclose()


async def test_the_replies_of_one_question_are_its_own_whatever_the_server_refuses(asks: Asks) -> None:
    commands: list[Command] = [("RPUSH", "l", "a", b"\x00\r\n", 3), ("GET", "l"), ("LRANGE", "l", 0, -1), ("GET", "no")]
    length, refused, values, missing = await asks.ask("ask", commands, LONG_S)
    assert (length, values, missing) == (3, [b"a", b"\x00\r\n", b"3"], None)
    assert isinstance(refused, Exception)
    assert "WRONGTYPE" in str(refused)


async def test_questions_at_once_get_each_its_own_replies(asks: Asks) -> None:
    questions = [asks.ask("ask", [("ECHO", str(number)), ("ECHO", "x" * number)], LONG_S) for number in range(60)]
    assert await asyncio.gather(*questions) == [[str(number).encode(), b"x" * number] for number in range(60)]


async def test_more_at_once_than_there_are_connections_wait_for_one(valkey: ValkeyServer) -> None:
    client = connect(valkey.url, connections_max=4)
    asks = Pooled(client)
    found = await asyncio.gather(*(asks.ask("echo", [("ECHO", str(number))], LONG_S) for number in range(100)))
    assert found == [[b"%d" % number] for number in range(100)]
    valkey.freeze()
    late = [asks.ask("echo", [("ECHO", "late")], 0.1) for _ in range(10)]
    assert {type(one) for one in await asyncio.gather(*late, return_exceptions=True)} == {QueueUnavailable}
    valkey.thaw()
    assert await asks.ask("echo", [("ECHO", "again")], LONG_S) == [b"again"]
    await client.aclose()


async def test_who_gives_up_leaves_the_others_their_replies(asks: Asks) -> None:
    async def asked(number: int) -> list[bytes]:
        async with asyncio.timeout(0 if number % 3 == 0 else LONG_S):
            return await asks.ask("ask", [("ECHO", str(number))], LONG_S)

    for _ in range(5):
        for number, said in enumerate(await asyncio.gather(*map(asked, range(60)), return_exceptions=True)):
            assert isinstance(said, TimeoutError) or said == [str(number).encode()]


async def test_a_server_that_hangs_holds_nobody_beyond_the_bound_and_comes_back(
    asks: Asks, valkey: ValkeyServer
) -> None:
    await asks.ask("ask", GET, LONG_S)
    valkey.freeze()
    for _ in range(3):
        began = asyncio.get_running_loop().time()
        with pytest.raises(QueueUnavailable):
            await asks.ask("ask", GET, 0.05)
        assert asyncio.get_running_loop().time() - began < 1
    valkey.thaw()
    assert await asks.ask("ask", [("ECHO", "back")], LONG_S) == [b"back"]


async def test_a_server_that_is_gone_is_a_named_fault_and_its_return_is_noticed(
    asks: Asks, valkey: ValkeyServer
) -> None:
    await asks.ask("ask", GET, LONG_S)
    valkey.kill()
    for _ in range(3):
        with pytest.raises(QueueUnavailable, match=r"^ask: "):
            await asks.ask("ask", GET, LONG_S)
    valkey.start()
    assert await asks.ask("ask", [("ECHO", "back")], LONG_S) == [b"back"]


async def test_a_reply_that_comes_in_pieces_is_whole(scripted: tuple[Scripted, Line]) -> None:
    server, line = scripted
    asking = asyncio.gather(line.ask("ask", GET, LONG_S), line.ask("ask", GET * 2, LONG_S))
    reader, writer = await server.greeted()
    await heard(reader, 3)
    for byte in b"$2\r\n\r\n\r\n*2\r\n:1\r\n-ERR no\r\n$-1\r\n":
        writer.write(bytes([byte]))
        await asyncio.sleep(0)
    first, ((one, refused), missing) = await asking
    assert (first, one, str(refused), missing) == ([b"\r\n"], 1, "ERR no", None)


@pytest.mark.parametrize("said", [b"$10\r\nhalf", b"", b"?no protocol\r\n", b"+1\r\n+2\r\n+3\r\n+4\r\n"])
async def test_what_breaks_fails_all_that_is_on_it_and_the_next_goes_over_a_new_connection(
    scripted: tuple[Scripted, Line], said: bytes
) -> None:
    server, line = scripted
    asking = [asyncio.ensure_future(line.ask("ask", GET, LONG_S)) for _ in range(3)]
    reader, writer = await server.greeted()
    await heard(reader, 3)
    writer.write(said)
    if not said.startswith((b"?", b"+")):
        writer.close()
    replies = await asyncio.gather(*asking, return_exceptions=True)
    if said.startswith(b"+"):  # the fourth was not asked for: nothing else is read from there
        assert replies == [[b"1"], [b"2"], [b"3"]]
    else:
        assert all(isinstance(reply, QueueUnavailable) for reply in replies)
    again = asyncio.ensure_future(line.ask("ask", GET, LONG_S))
    reader, writer = await server.greeted()
    await heard(reader, 1)
    writer.write(b"$1\r\nv\r\n")
    assert await again == [b"v"]


async def test_a_late_reply_goes_to_nobody_else(scripted: tuple[Scripted, Line]) -> None:
    server, line = scripted
    early = asyncio.ensure_future(line.ask("ask", GET, 0.05))
    reader, writer = await server.greeted()
    await heard(reader, 1)
    writer.write(b"$20\r\nthe beginning")  # it lives, so it is used on
    with pytest.raises(QueueUnavailable, match="no answer in time"):
        await early
    later = asyncio.ensure_future(line.ask("ask", GET, LONG_S))
    await heard(reader, 1)
    writer.write(b" - the end\r\n"[:7] + b"\r\n$5\r\nlater\r\n")
    assert await later == [b"later"]


async def test_a_loop_that_was_late_takes_the_reply_that_had_come_in_time(valkey: ValkeyServer) -> None:
    line = line_to(valkey.url, connect(valkey.url))
    await line.ask("ping", [("PING",)], LONG_S)
    asked = asyncio.create_task(line.ask("echo", [("ECHO", "here")], 0.05))
    await asyncio.sleep(0)  # it is sent
    time.sleep(0.3)  # the loop is late, the reply is not
    assert await asked == [b"here"]
    await line.close()


async def test_a_silent_connection_is_left_to_what_is_on_it(scripted: tuple[Scripted, Line]) -> None:
    server, line = scripted
    patient = asyncio.ensure_future(line.ask("ask", GET, LONG_S))
    old_reader, old_writer = await server.greeted()
    with pytest.raises(QueueUnavailable, match="no answer in time"):
        await line.ask("ask", GET, 0.05)
    new = asyncio.ensure_future(line.ask("ask", GET, LONG_S))
    reader, writer = await server.greeted()
    await heard(reader, 1)
    writer.write(b"$3\r\nnew\r\n")
    assert await new == [b"new"]
    await heard(old_reader, 2)
    old_writer.write(b"$3\r\nold\r\n")
    assert await patient == [b"old"]
    assert await old_reader.read() == b""  # nobody waits for the second reply: it is closed


async def test_connections_that_do_not_answer_are_bounded(
    scripted: tuple[Scripted, Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_line, "CONNECTIONS_MAX", 2)
    server, line = scripted
    patient = []
    for _ in range(2):
        patient.append(asyncio.ensure_future(line.ask("ask", GET, LONG_S)))
        await server.greeted()
        with pytest.raises(QueueUnavailable, match="no answer in time"):
            await line.ask("ask", GET, 0.02)
    with pytest.raises(QueueUnavailable, match="too many connections"):
        await line.ask("ask", GET, LONG_S)
    await line.close()
    assert all(isinstance(one, QueueUnavailable) for one in await asyncio.gather(*patient, return_exceptions=True))


async def test_what_is_on_its_way_is_bounded(scripted: tuple[Scripted, Line], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_line, "OUTSTANDING_MAX", 3)
    server, line = scripted
    first = asyncio.ensure_future(line.ask("ask", GET, LONG_S))
    reader, writer = await server.greeted()
    await heard(reader, 1)
    asking = [asyncio.ensure_future(line.ask("ask", GET, LONG_S)) for _ in range(4)]
    await heard(reader, 2)
    writer.write(b"$1\r\nv\r\n" * 3)
    replies = await asyncio.gather(first, *asking, return_exceptions=True)
    assert replies[:3] == [[b"v"]] * 3
    assert all(isinstance(reply, QueueUnavailable) for reply in replies[3:])


async def test_nothing_is_written_behind_what_the_server_does_not_read(scripted: tuple[Scripted, Line]) -> None:
    server, line = scripted
    large = asyncio.ensure_future(line.ask("ask", [("SET", "k", b"x" * (8 << 20))], LONG_S))
    await server.greeted()
    await asyncio.sleep(0.05)
    with pytest.raises(QueueUnavailable, match="too slowly"):
        await line.ask("ask", GET, LONG_S)
    await line.close()
    with pytest.raises(QueueUnavailable, match="closed"):
        await large


async def test_a_server_that_never_greets_holds_nobody(scripted: tuple[Scripted, Line]) -> None:
    _, line = scripted
    began = asyncio.get_running_loop().time()
    asking = [line.ask("ask", GET, 0.05) for _ in range(20)]
    assert all(isinstance(one, QueueUnavailable) for one in await asyncio.gather(*asking, return_exceptions=True))
    assert asyncio.get_running_loop().time() - began < redis_line.CONNECT_S / 6


async def test_who_waits_for_a_connection_that_is_closed_has_a_fault_and_is_not_cancelled(
    scripted: tuple[Scripted, Line],
) -> None:
    server, line = scripted
    asking = asyncio.create_task(line.ask("get", GET, LONG_S))
    await asyncio.wait_for(server._come.get(), LONG_S)
    await line.close()
    with pytest.raises(QueueUnavailable):
        await asking


async def test_password_and_database_of_the_address_are_used(valkey: ValkeyServer) -> None:
    client = connect(valkey.url)
    await client.execute_command("ACL", "SETUSER", "app", "on", ">p@w", "~*", "+@all")
    await client.execute_command("SET", "k", "of 0")
    address = valkey.url.replace("unix://", "unix://app:p%40w@")
    for url, said in ((address, b"of 0"), (f"{address}?db=2", None)):
        line = line_to(url, client)
        assert isinstance(line, Line)
        assert await line.ask("ask", GET, LONG_S) == [said]
        await line.close()
    line = line_to(valkey.url.replace("unix://", "unix://app:wrong@"), client)
    with pytest.raises(QueueUnavailable, match="WRONGPASS") as caught:
        await line.ask("ask", GET, LONG_S)
    assert "wrong@" not in str(caught.value)
    await line.close()
    await client.aclose()


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("redis://h:1/3", Line),
        ("unix:///run/v.sock?db=1", Line),
        ("rediss://h", Pooled),
        ("redis://h?socket_keepalive=yes", Pooled),
        ("redis+cluster://h", Pooled),
    ],
)
def test_what_a_line_cannot_serve_goes_over_the_client(url: str, kind: type) -> None:
    assert type(line_to(url, connect("redis://h"))) is kind


async def test_a_line_over_tcp(scripted: tuple[Scripted, Line]) -> None:
    server, _ = scripted
    listening = await asyncio.start_server(server.come, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    line = line_to(f"redis://127.0.0.1:{port}", connect("redis://h"))
    asking = asyncio.ensure_future(line.ask("ask", GET, LONG_S))
    reader, writer = await server.greeted()
    await heard(reader, 1)
    writer.write(b"$1\r\nv\r\n")
    assert await asking == [b"v"]
    await line.close()
    listening.close()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (TimeoutError(), "put: TimeoutError: no answer in time"),
        (ConnectionResetError(), "put: ConnectionResetError"),
        (OSError("no route"), "put: OSError: no route"),
    ],
)
def test_a_fault_s_words_never_end_in_nothing(fault: Exception, words: str) -> None:
    assert str(refused("put", fault)) == words


@pytest.mark.parametrize("fault", [None, ConnectionError("gone")])
async def test_a_cancellation_that_the_client_loses_ends_who_was_cancelled(fault: Exception | None) -> None:
    async def loses_it() -> None:  # as asyncio.wait_for of Python 3.11 does, by which redis-py sends
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        if fault is not None:
            raise fault

    async def asks() -> None:
        with faults("ping"):
            await loses_it()

    asking = asyncio.create_task(asks())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asks()
    with contextlib.suppress(QueueUnavailable), faults("ping"):  # its own time is no cancellation of who asks
        async with asyncio.timeout(0.01):
            await loses_it()


async def test_certificates_that_are_renewed_are_read_without_a_restart(tmp_path: Path) -> None:
    """A connection object lives as long as its process, and redis-py had it read its files once."""
    here = x509.IPAddress(ip_address("127.0.0.1"))

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while said := await reader.read(4096):
                writer.write(b"+OK\r\n" * said.count(b"*"))
            writer.close()

    client, port = cast(Any, None), 0
    for _ in range(2):  # under the same name each time
        tls, file = self_signed(tmp_path, here)
        server = await asyncio.start_server(answers, "127.0.0.1", port, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        client = client or connect(f"rediss://127.0.0.1:{port}?ssl_ca_certs={file}", connections_max=1)
        assert await client.execute_command("SET", "k", 1)
        server.close()
        await client.aclose()
