"""The server's end of a connection when its process ends: what is under way has its time, once, and says the end."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID

import aiohttp
import pytest
from aiohttp import web
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE

from memory.config import load_settings
from memory.config_sections import Limits
from proxy.app import Handler
from proxy.in_flight import BODY, InFlight
from proxy.relay import RelayResponse, Upstream
from proxy.websocket import LAST_WORDS_S, tunnel
from proxy.worker import guarded_site

DRAIN_S = 0.6
PIECE = 1_048_576


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("lasts_s", [0.3, 60], ids=["ends in its time", "outlasts it"])
async def test_what_is_under_way_gets_the_time_to_drain_once(lasts_s: float, version: bytes) -> None:
    """aiohttp gave it twice: the supervisor killed the worker in the second, with whatever it had not yet kept."""
    outcomes: list[str] = []

    async def streams(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        try:
            await asyncio.sleep(lasts_s)
        except asyncio.CancelledError:
            outcomes.append("ended")
            raise
        outcomes.append("whole")
        return response

    app = web.Application()
    app.router.add_get("/", streams)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=DRAIN_S)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {}, {})).start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"GET / HTTP/%b\r\nHost: x\r\n\r\n" % version)
    await reader.readuntil(b"begun")
    began = asyncio.get_running_loop().time()
    await runner.cleanup()
    took_s = asyncio.get_running_loop().time() - began
    assert outcomes == ["whole" if lasts_s < DRAIN_S else "ended"]
    assert took_s < DRAIN_S * 1.7
    await says_that_it_is_whole_only_then(reader, whole=outcomes == ["whole"], chunked=version == b"1.1")
    writer.close()


async def says_that_it_is_whole_only_then(reader: asyncio.StreamReader, *, whole: bool, chunked: bool) -> None:
    if not whole and not chunked:
        with pytest.raises(ConnectionResetError):
            await reader.read()
    else:
        assert (await reader.read()).endswith(b"0\r\n\r\n") == (whole and chunked)


async def test_a_socket_that_ends_as_it_is_given_up_waiting_for_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Of 154 that were open as a service ended, some of clients that read nothing, 91 left one in the log."""
    begun = asyncio.Event()

    async def has_a_last_word(request: web.Request) -> web.StreamResponse:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            waiter, until_s = request.protocol._handler_waiter, asyncio.get_running_loop().time() + LAST_WORDS_S
            assert waiter is not None
            while not waiter.done() and asyncio.get_running_loop().time() < until_s:
                await asyncio.sleep(0)  # each turn of the loop
            raise
        raise AssertionError("it was not ended")

    app = web.Application()
    app.router.add_get("/", has_a_last_word)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=DRAIN_S)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {}, {})).start()
    _, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    await begun.wait()
    await runner.cleanup()
    assert "Unhandled exception" not in caplog.text
    writer.close()


@pytest.mark.parametrize("relayed", [True, False], ids=["vllm's answer", "our own"])
async def test_the_last_answer_of_a_connection_says_so(relayed: bool) -> None:
    """A client that was not told sent its next request into a connection that was being closed."""
    begun = asyncio.Event()

    async def answers(request: web.Request) -> web.StreamResponse:
        begun.set()
        await asyncio.sleep(0.2)
        if not relayed:
            return web.Response(text="done")
        response = RelayResponse(headers={"Content-Length": "4"})
        await response.prepare(request)
        await response.write_eof(b"done")
        return response

    app = web.Application()
    app.router.add_get("/", answers)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=5)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {}, {})).start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await begun.wait()
    await runner.cleanup()
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert (b"\r\nConnection: close" in head, body) == (True, b"done")
    writer.close()


@pytest.mark.parametrize("takes", [False, True], ids=["takes nothing", "takes a little at a time"])
async def test_who_takes_nothing_of_an_answer_is_left(takes: bool) -> None:
    """Such a client held its place among `limits.requests_max`, and vLLM's work, for as long as its machine was up."""
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def streams(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(64):
                await response.write(b" " * PIECE)
        except BaseException as fault:
            ended.set_result(type(fault).__name__)
            raise
        ended.set_result("whole")
        return response

    app = web.Application()
    app.router.add_get("/", streams)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    settings = load_settings(None, {"limits.answer_idle_timeout_s": 1.5 if takes else 0.5}, {})
    await guarded_site(runner, listener, settings).start()
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        await loop.sock_connect(client, listener.getsockname())
        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        slow_until = loop.time() + 2.5  # the kernel asks for more when a third of some MiB has been taken, much later
        while takes and not ended.done():
            is_slow = loop.time() < slow_until
            await loop.sock_recv(client, PIECE // 64 if is_slow else PIECE)
            await asyncio.sleep(0.05 if is_slow else 0)
        assert await asyncio.wait_for(ended, 10) == ("whole" if takes else "CancelledError")
    await runner.cleanup()


@pytest.mark.parametrize(("keepalive_s", "is_kept"), [(0.2, False), (60, True)])
async def test_an_idle_connection_is_kept_for_as_long_as_is_configured(keepalive_s: float, is_kept: bool) -> None:
    async def answers(request: web.Request) -> web.StreamResponse:
        return web.Response(text="done")

    app = web.Application()
    app.router.add_get("/", answers)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {"listen.keepalive_s": keepalive_s}, {})).start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"done")
    await asyncio.sleep(1)
    assert reader.at_eof() is not is_kept
    writer.close()
    await runner.cleanup()


@pytest.mark.parametrize("relayed", [True, False], ids=["vllm's answer", "our own"])
async def test_where_no_connection_is_kept_each_answer_is_the_last(relayed: bool) -> None:
    async def answers(request: web.Request) -> web.StreamResponse:
        return (RelayResponse if relayed else web.Response)(headers={"Content-Length": "0"})

    app = web.Application()
    app.router.add_get("/", answers)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {"listen.keepalive_s": 0}, {})).start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"\r\nConnection: close" in await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await runner.cleanup()


async def takes_a_body(request: web.Request) -> web.StreamResponse:
    return web.Response(body=await request.read())


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
UPGRADE = NEXT[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
BARE, TRAILED = b"2\r\nab\r\n0\r\n\r\n", b"2\r\nab\r\n0\r\nX-T: 0\r\nX-Memory-User: mallory\r\n\r\n"


async def says_headers(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    return web.Response(body=b"%b %b.\n" % (body, " ".join(request.headers).encode()))


@pytest.mark.parametrize(
    ("pieces", "answered"),
    [
        ([CHUNKED + TRAILED, NEXT], [b"ab Host Transfer-Encoding"]),
        ([CHUNKED + TRAILED + NEXT], [b"ab Host Transfer-Encoding"]),
        ([CHUNKED, TRAILED[:-9], TRAILED[-9:] + NEXT], [b"ab Host Transfer-Encoding"]),
        ([CHUNKED + TRAILED + CHUNKED + BARE], [b"ab Host Transfer-Encoding"]),
        ([CHUNKED + TRAILED + CHUNKED, BARE], [b"ab Host Transfer-Encoding"]),
        # So many are taken at once; what the parser holds back of the rest is not seen before they are answered.
        ([NEXT * (MAX_MSG_QUEUE_SIZE - 1) + CHUNKED + TRAILED + CHUNKED + BARE], [b" Host"]),
        ([UPGRADE + CHUNKED + TRAILED, NEXT], [b" Host Connection Upgrade"]),
        ([NEXT + UPGRADE + CHUNKED + TRAILED, NEXT], [b" Host", b" Host Connection Upgrade"]),
        ([CHUNKED + BARE, NEXT], [b"ab Host Transfer-Encoding", b" Host"]),
        ([CHUNKED + BARE[:-3], BARE[-3:], NEXT], [b"ab Host Transfer-Encoding", b" Host"]),
        ([CHUNKED, BARE[-5:], CHUNKED, BARE], [b" Host Transfer-Encoding", b"ab Host Transfer-Encoding"]),
    ],
)
async def test_a_trailer_is_no_header_of_the_next_request(pieces: list[bytes], answered: list[bytes]) -> None:
    """Behind a gateway that shares its connections one client chose the user of another."""
    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/", says_headers)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {}, {})).start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    said = b""

    async def hears() -> None:
        nonlocal said
        with suppress(ConnectionError):  # what it has not read of its client resets the connection
            while piece := await reader.read(65_536):
                said += piece

    hearing = asyncio.create_task(hears())
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0.05)
    while said.count(b".\n") < len(answered):
        await asyncio.sleep(0.01)
    await runner.cleanup()
    await hearing
    writer.close()
    assert [one.rpartition(b"\r\n\r\n")[2] for one in said.split(b".\n")[:-1]] == answered


async def refuses(request: web.Request) -> web.StreamResponse:
    return web.Response(status=413, text="too large")


@asynccontextmanager
async def talking(handler: Handler) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server of which every path is handled so."""
    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {}, {})).start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    yield reader, writer
    writer.close()
    await runner.cleanup()


async def test_a_body_that_breaks_behind_its_answer_ends_its_connection() -> None:
    """The rest of it was read for ten seconds more, and what the client asked behind it got no answer for as long."""
    async with talking(refuses) as (reader, writer):
        writer.write(CHUNKED)
        assert b"413" in await reader.readuntil(b"too large")
        writer.write(BARE[:-2] + b"X Odd: 1\r\n\r\n" + NEXT)
        assert await asyncio.wait_for(reader.read(), 5) == b""


@pytest.mark.parametrize("target", [b"OPTIONS *", b"CONNECT other:443", b"GET http://other", b"GET http://other?a=1"])
async def test_what_names_no_path_is_refused_in_our_form(target: bytes) -> None:
    async with talking(refuses) as (reader, writer):
        writer.write(target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert json.loads(body)["error"]["code"] == "not_found"


async def takes_frames(request: web.Request) -> web.StreamResponse:
    ours = web.WebSocketResponse()
    await ours.prepare(request)
    async for message in ours:
        await ours.send_str(message.data)
    return ours


@pytest.mark.parametrize("length", [16, PIECE], ids=["short", "in many pieces"])
async def test_a_body_that_is_under_way_when_its_process_ends_arrives(length: int) -> None:
    """aiohttp throws away what comes from then on: an upload hung for `listen.drain_s`, and was cut."""
    body = bytes(range(256)) * (length // 256) or bytes(length)
    app = web.Application(client_max_size=0)
    app.router.add_post("/", takes_a_body)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=10)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {}, {})).start()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length + body[:8])
    await asyncio.sleep(0.05)
    ending = asyncio.create_task(runner.cleanup())
    await asyncio.sleep(0.05)
    writer.write(body[8:])
    head, _, said = (await asyncio.wait_for(reader.read(), 3)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and b"\r\nConnection: close" in head
    assert said == body
    await asyncio.wait_for(ending, 3)
    writer.close()


async def test_a_websocket_is_heard_while_its_process_ends() -> None:
    app = web.Application()
    app.router.add_get("/", takes_frames)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=10)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {}, {})).start()
    async with aiohttp.ClientSession() as session:
        theirs = await session.ws_connect(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        ending = asyncio.create_task(runner.cleanup())
        await asyncio.sleep(0.05)
        await theirs.send_str("one more")
        assert await theirs.receive_str(timeout=3) == "one more"
        await theirs.close()
        assert theirs.close_code == 1000
        await asyncio.wait_for(ending, 3)


@asynccontextmanager
async def tunnelled(
    told: asyncio.Future[int | None],
) -> AsyncIterator[tuple[aiohttp.ClientWebSocketResponse, web.AppRunner]]:
    """A client's WebSocket through a tunnel to a server that waits for its close, and the runner of the tunnel."""

    async def listens(request: web.Request) -> web.StreamResponse:
        theirs = web.WebSocketResponse()
        await theirs.prepare(request)
        await theirs.receive()
        told.set_result(theirs.close_code)
        return theirs

    there, here = web.Application(), web.Application()
    there.router.add_get("/", listens)
    behind = web.AppRunner(there, shutdown_timeout=0)
    await behind.setup()
    await web.TCPSite(behind, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{behind.addresses[0][1]}"
    upstream = Upstream(base, api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=4)
    in_flight = InFlight(Limits())

    async def carries(request: web.Request) -> web.StreamResponse:
        with in_flight.one(UUID(int=1)) as request[BODY]:
            return await tunnel(request, upstream)

    here.router.add_get("/", carries)
    runner = web.AppRunner(here, handler_cancellation=True, shutdown_timeout=DRAIN_S)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await guarded_site(runner, listener, load_settings(None, {}, {})).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    async with aiohttp.ClientSession() as session, session.ws_connect(url, autoclose=False) as ours:
        yield ours, runner
    await runner.cleanup()
    await upstream.close()
    await behind.cleanup()


async def test_a_websocket_that_outlasts_its_process_is_told_that_it_may_come_again() -> None:
    """It was cut (1006), as where vLLM dies; vLLM's own server says 1012 when it ends."""
    told: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    async with tunnelled(told) as (ours, runner):
        ending = asyncio.create_task(runner.cleanup())
        message = await ours.receive(timeout=5)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1012)
        assert await asyncio.wait_for(told, 3) == 1001
        await ours.close()
        await asyncio.wait_for(ending, 3)


async def test_a_websocket_that_is_closed_without_a_code_is_so_at_both_ends() -> None:
    told: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    async with tunnelled(told) as (ours, _):
        await ours._writer.send_frame(b"", aiohttp.WSMsgType.CLOSE)
        assert await asyncio.wait_for(told, 3) == 0  # aiohttp's word for none
        message = await ours.receive(timeout=5)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 0)
