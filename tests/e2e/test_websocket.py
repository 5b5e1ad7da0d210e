"""WebSockets reach the upstream and come back: frames, pings, subprotocols, close codes, refusals."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from yarl import URL

from proxy.websocket import MESSAGE_BYTES_MAX
from tests.e2e.conftest import Scripted
from tests.e2e.raw_http import request_bytes
from tests.service_fixture import Service

REALTIME = "/v1/realtime?model=fake-model"


@asynccontextmanager
async def opened(url: str | URL, **options: Any) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A socket through the proxy."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, **options) as socket,
    ):
        yield socket


async def test_text_and_binary_come_back_as_they_were_sent(service: Service) -> None:
    async with opened(service.url + REALTIME) as socket:
        for text in ("hello", "", "é 你 \U0001f600", "x" * 300_000):
            await socket.send_str(text)
            assert await socket.receive_str(timeout=10) == text
        for data in (b"\x00\xff", b"", bytes(range(256)) * 8000):
            await socket.send_bytes(data)
            assert await socket.receive_bytes(timeout=10) == data


async def test_message_of_20_mb_comes_back(service: Service) -> None:
    async with opened(service.url + REALTIME, max_msg_size=0) as socket:
        data = bytes(20_000_000)
        await socket.send_bytes(data)
        assert await socket.receive_bytes(timeout=30) == data


async def test_message_that_would_be_too_long_when_expanded_ends_its_socket(service: Service) -> None:
    async with opened(service.url + REALTIME, max_msg_size=0, compress=15) as socket:
        await socket.send_bytes(bytes(MESSAGE_BYTES_MAX + 1))
        message = await socket.receive(timeout=30)
        assert (message.type, message.data) == (WSMsgType.CLOSE, 1009)


async def test_message_that_is_too_long_to_be_held_is_not_waited_for(service: Service) -> None:
    async with opened(service.url + REALTIME, max_msg_size=0) as socket:
        with contextlib.suppress(ConnectionError):  # it may hear of it while it sends
            await socket.send_bytes(bytes(MESSAGE_BYTES_MAX + 1))
        assert (await socket.receive(timeout=30)).type is not WSMsgType.BINARY


async def test_ping_is_answered_with_its_payload(service: Service) -> None:
    async with opened(service.url + REALTIME, autoping=False) as socket:
        await socket.ping(b"are you there")
        message = await socket.receive(timeout=10)
        assert (message.type, message.data) == (WSMsgType.PONG, b"are you there")


@pytest.mark.parametrize("code", [1000, 1001, 3000, 4242])
async def test_close_of_the_client_is_answered(service: Service, code: int) -> None:
    async with opened(service.url + REALTIME) as socket:
        await socket.send_str("one")
        await socket.receive_str(timeout=10)
        assert await socket.close(code=code)
        assert socket.close_code in (code, 1000)  # the stand-in answers any code with 1000


async def test_twenty_sockets_at_once_keep_their_messages_apart(service: Service) -> None:
    async def talk(number: int) -> None:
        async with opened(service.url + REALTIME) as socket:
            for turn in range(10):
                await socket.send_str(f"{number}.{turn}")
                assert await socket.receive_str(timeout=20) == f"{number}.{turn}"

    await asyncio.gather(*(talk(number) for number in range(20)))


async def test_route_without_a_websocket_refuses_the_handshake(service: Service) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        async with opened(service.url + "/version"):
            pass
    assert raised.value.status in (200, 400, 426, 502)


async def test_upstream_that_is_away_refuses_the_handshake(scripted: Scripted) -> None:
    scripted.upstream.close()
    try:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            async with opened(scripted.service.url + REALTIME):
                pass
    finally:
        scripted.upstream.open()
    assert raised.value.status == 502


# ---------------------------------------------------------------- an upstream that closes, and one that speaks first


@asynccontextmanager
async def served(handler: object, port: int) -> AsyncIterator[None]:
    """A WebSocket server at the scripted upstream's place."""
    app = web.Application()
    app.router.add_get("/socket", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
    try:
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def in_place(scripted: Scripted, handler: object) -> AsyncIterator[str]:
    port = int(scripted.upstream.url.rsplit(":", 1)[1])
    scripted.upstream.close()
    try:
        async with served(handler, port):
            yield scripted.service.url + "/socket"
    finally:
        scripted.upstream.open()


@pytest.mark.parametrize("code", [1000, 1008, 1011, 4001])
async def test_close_code_and_reason_of_the_upstream_arrive(scripted: Scripted, code: int) -> None:
    async def closes(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("bye")
        await socket.close(code=code, message=b"because")
        return socket

    async with in_place(scripted, closes) as url, opened(url) as socket:
        assert await socket.receive_str(timeout=10) == "bye"
        message = await socket.receive(timeout=10)
        assert message.type is WSMsgType.CLOSE
        assert (message.data, message.extra) == (code, "because")


async def test_an_upstream_that_dies_ends_no_socket_as_it_should_end(scripted: Scripted) -> None:
    async def dies(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("half of it")
        await socket.receive_str()
        assert request.transport is not None
        request.transport.abort()
        return socket

    async with in_place(scripted, dies) as url, opened(url) as socket:
        assert await socket.receive_str(timeout=10) == "half of it"
        await socket.send_str("go on")
        assert (await socket.receive(timeout=10)).type is not WSMsgType.CLOSE


async def test_close_code_of_the_client_arrives_upstream(scripted: Scripted) -> None:
    seen: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    async def waits(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        seen.set_result(socket.close_code)
        return socket

    async with in_place(scripted, waits) as url:
        async with opened(url) as socket:
            await socket.close(code=4321)
        assert await asyncio.wait_for(seen, 10) == 4321


async def test_client_that_vanishes_ends_the_upstreams_socket_and_not_as_one_that_closed(scripted: Scripted) -> None:
    ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    async def waits(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        ended.set_result(socket.close_code)
        return socket

    async with in_place(scripted, waits) as url:
        async with opened(url) as socket:
            await socket.send_str("x")
            transport = socket.get_extra_info("socket")
            assert transport is not None
            socket._response.connection.transport.abort()  # type: ignore[union-attr]
        assert await asyncio.wait_for(ended, 10) == 1001


async def test_subprotocol_query_and_headers_arrive_and_the_choice_comes_back(scripted: Scripted) -> None:
    seen: dict[str, object] = {}

    async def chooses(request: web.Request) -> web.WebSocketResponse:
        seen.update(target=request.raw_path, auth=request.headers.get("Authorization"), names=list(request.headers))
        socket = web.WebSocketResponse(protocols=("realtime", "b"))
        await socket.prepare(request)
        await socket.send_str("hi")
        await socket.close()
        return socket

    async with in_place(scripted, chooses) as url:
        headers = {"Authorization": "Bearer own", "X-Memory-User": "u", "OpenAI-Beta": "realtime=v1"}
        async with opened(
            URL(url + "?a=%41&b", encoded=True), protocols=("other", "realtime"), headers=headers
        ) as socket:
            assert socket.protocol == "realtime"
            await socket.receive_str(timeout=10)
    assert seen["target"] == "/socket?a=%41&b"
    assert seen["auth"] == "Bearer own"
    assert "OpenAI-Beta" in seen["names"]  # type: ignore[operator]
    assert "X-Memory-User" not in seen["names"]  # type: ignore[operator]


async def test_subprotocols_in_several_lines_are_one_offer(scripted: Scripted) -> None:
    async def chooses(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("realtime",))
        await socket.prepare(request)
        await socket.close()
        return socket

    lines = [(b"Sec-WebSocket-Protocol", b"other"), (b"sec-websocket-protocol", b"realtime")]
    shake = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"13")]
    key = (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ==")
    async with in_place(scripted, chooses) as url:
        reader, writer = await asyncio.open_connection(URL(url).host, URL(url).port)
        writer.write(request_bytes("GET", "/socket", [*shake, key, *lines]))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        writer.close()
    assert head.startswith(b"HTTP/1.1 101 ")
    assert head.lower().count(b"sec-websocket-protocol: realtime\r\n") == 1


async def test_a_header_in_two_spellings_arrives_twice(scripted: Scripted) -> None:
    seen: list[str] = []

    async def greets(request: web.Request) -> web.WebSocketResponse:
        seen.extend(request.headers.getall("Cookie"))
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.close()
        return socket

    shake = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"13")]
    key = (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ==")
    cookies = [(b"Cookie", b"a=1"), (b"cookie", b"b=2"), (b"Cookie", b"c=3")]
    async with in_place(scripted, greets) as url:
        reader, writer = await asyncio.open_connection(URL(url).host, URL(url).port)
        writer.write(request_bytes("GET", "/socket", [*shake, key, *cookies]))
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        writer.close()
    assert seen == ["a=1", "b=2", "c=3"]


async def test_a_handshake_with_a_body_announces_none_to_the_upstream(scripted: Scripted) -> None:
    """vLLM's server waited for it before it answered, and the client for that."""
    seen: list[str] = []

    async def greets(request: web.Request) -> web.WebSocketResponse:
        seen.extend(request.headers)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.close()
        return socket

    shake = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"13")]
    key = (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ==")
    async with in_place(scripted, greets) as url:
        reader, writer = await asyncio.open_connection(URL(url).host, URL(url).port)
        writer.write(request_bytes("GET", "/socket", [*shake, key], b"abc"))
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        writer.close()
    assert "Sec-WebSocket-Key" in seen and "Content-Length" not in seen


async def test_headers_of_the_upstreams_handshake_arrive_and_none_of_ours(scripted: Scripted) -> None:
    async def greets(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        socket.headers.extend([("Set-Cookie", "route=1"), ("Set-Cookie", "b=2"), ("X-Request-Id", "é")])
        socket.headers["Server"] = "uvicorn"
        await socket.prepare(request)
        await socket.close()
        return socket

    async with in_place(scripted, greets) as url, opened(url, compress=15) as socket:
        told = socket._response.headers
        assert told.getall("Set-Cookie") == ["route=1", "b=2"]
        assert (told.getall("X-Request-Id"), told.getall("Server"), len(told.getall("Date"))) == (["é"], ["uvicorn"], 1)
        assert len(told.getall("Sec-WebSocket-Accept")) == 1


async def test_refusal_of_the_upstream_is_the_clients_refusal(scripted: Scripted) -> None:
    async def refuses(request: web.Request) -> web.Response:
        return web.json_response({"detail": "no"}, status=403)

    async with in_place(scripted, refuses) as url:
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            async with opened(url):
                pass
    assert raised.value.status == 403


async def test_refusal_of_the_upstream_keeps_both_of_two_headers(scripted: Scripted) -> None:
    head = b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n"
    scripted.upstream.then_whole(b"no", "401 Unauthorized", head)
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        async with opened(scripted.service.url + "/socket"):
            pass
    assert raised.value.headers is not None
    assert raised.value.headers.getall("Set-Cookie") == ["a=1", "b=2"]
    assert raised.value.headers.getall("Content-Length") == ["0"]
