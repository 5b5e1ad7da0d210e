"""An answer on its way: what is here goes in one write, what is not here is not waited for, and all of it arrives."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from multidict import CIMultiDict

from memory.errors import UpstreamUnreachable
from memory.passage import AT_HAND, Facts, Passage
from memory.telemetry import Metrics
from proxy.answering import Answering
from proxy.relay import Upstream, pass_through
from tests.certificate import self_signed

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
REQUEST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
Speak = Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Counted:
    """A transport whose writes are counted."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))
        self._transport.write(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """At once, too, from Python 3.12.9 on: aiohttp asks for it there."""
        self.writes.append(b"".join(pieces))
        self._transport.write(self.writes[-1])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def chunked(*pieces: bytes, ends: bool = True) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces) + (b"0\r\n\r\n" if ends else b"")


@asynccontextmanager
async def relayed(
    speak: Speak, *, passed: bool, metrics: Metrics | None = None, facts: Facts | None = None, base: str = ""
) -> AsyncIterator[tuple[int, list[Counted], Upstream]]:
    """A proxy of one step before an upstream that speaks: its port, its clients' transports, its pool."""
    counted: list[Counted] = []
    seen = metrics or Metrics()

    async def upstream_speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        await speak(writer)
        writer.close()

    async def proxied(request: web.Request) -> web.StreamResponse:
        counted.append(Counted(request.transport))
        request.protocol.transport = counted[-1]  # type: ignore[assignment]
        AT_HAND.set(Passage(None, None, facts) if facts is not None else None)
        if passed:
            return await pass_through(request, upstream, seen)
        body = await request.content.readexactly(2)
        return (await Answering(upstream, seen, 0).send(request, body, CIMultiDict())).response

    async with await asyncio.start_server(upstream_speaks, "127.0.0.1", 0) as server:
        there = server.sockets[0].getsockname()[1]
        upstream = Upstream(
            f"http://127.0.0.1:{there}{base}", api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=4
        )
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", proxied)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield runner.addresses[0][1], counted, upstream
        finally:
            await runner.cleanup()
            await upstream.close()


ways = pytest.mark.parametrize("passed", [True, False], ids=["pass-through", "memory off"])


@ways
async def test_an_answer_that_is_here_as_a_whole_goes_in_one_write(passed: bool) -> None:
    async def at_once(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunked(*[TOKEN] * 64))
        await writer.drain()

    async with relayed(at_once, passed=passed) as (port, counted, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        said = await reader.readuntil(b"0\r\n\r\n")
        writer.close()
    assert said.count(TOKEN) == 64
    assert counted[0].writes == [said]


@ways
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"204 No Content\r\n\r\n", b""),
        (b"304 Not Modified\r\nETag: x\r\n\r\n", b""),
        (b"200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        (b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"0\r\n\r\n"),
        (b"200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (b"500 Oh\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    ],
    ids=["204", "304", "no length", "no chunk", "a length", "an error"],
)
async def test_an_answer_with_a_length_or_without_a_body_ends_as_it_should(
    passed: bool, answer: bytes, body: bytes
) -> None:
    async def at_once(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 " + answer)
        await writer.drain()

    async with relayed(at_once, passed=passed) as (port, _, _), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST.replace(b"\r\nHost", b"\r\nConnection: close\r\nHost"))
        head, _, said = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    assert head.startswith(b"HTTP/1.1 " + answer.split(b"\r\n")[0])
    assert said == body


@ways
@pytest.mark.parametrize(
    ("said", "head"),
    [
        (b"200 O\x01K\x7f\r\n", b"200 O K \r\n"),
        (b"200 O\tK\r\nX-Name: caf\xe9\r\nX-Name: caf\xc3\xa9\r\n", None),
    ],
    ids=["control characters", "Latin-1 and UTF-8"],
)
async def test_the_bytes_of_a_head_are_vllms(passed: bool, said: bytes, head: bytes | None) -> None:
    async def at_once(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 " + said + b"Content-Length: 0\r\n\r\n")
        await writer.drain()

    async with relayed(at_once, passed=passed) as (port, _, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        heard = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert heard.startswith(b"HTTP/1.1 " + (head or said))


@ways
async def test_a_head_whose_body_is_not_here_goes_at_once_and_so_does_each_piece(passed: bool) -> None:
    heard = asyncio.Queue[None]()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        for piece in (HEAD, chunked(TOKEN, ends=False), chunked(TOKEN, ends=False), chunked()):
            writer.write(piece)
            await writer.drain()
            await heard.get()

    async with relayed(slowly, passed=passed) as (port, _, _), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        for end in (b"\r\n\r\n", TOKEN + b"\r\n", TOKEN + b"\r\n", b"0\r\n\r\n"):
            assert await reader.readuntil(end)
            heard.put_nowait(None)
        writer.close()


@ways
@pytest.mark.parametrize("said", [b"", chunked(TOKEN, ends=False)], ids=["before the body", "in its middle"])
async def test_an_upstream_that_dies_behind_its_head_never_looks_complete(passed: bool, said: bytes) -> None:
    async def dies(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + said)
        await writer.drain()

    metrics = Metrics()
    async with relayed(dies, passed=passed, metrics=metrics) as (port, _, _), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        try:
            heard = await reader.read()
        except ConnectionResetError:
            heard = b""
        writer.close()
    assert b"\r\n0\r\n\r\n" not in heard
    assert metrics.registry.get_sample_value("memory_proxy_upstream_failures_total", {"phase": "midstream"}) == 1


@ways
@pytest.mark.parametrize("said", [b"", chunked(TOKEN, ends=False)], ids=["before the body", "in its middle"])
@pytest.mark.parametrize("broken", [b"ZZZ\r\n", b"5\r\nhelloX", b"-1\r\n\r\n"], ids=["size", "end", "negative"])
async def test_an_answer_whose_framing_breaks_ends_at_once(passed: bool, said: bytes, broken: bytes) -> None:
    """The parser tells the connection and not the body, which would be waited for without a bound."""
    over = asyncio.Event()

    async def breaks(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + said)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(broken)
        await writer.drain()
        await over.wait()  # the upstream itself does not hang up

    async with relayed(breaks, passed=passed) as (port, _, _), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        try:
            heard = await reader.read()
        except ConnectionResetError:
            heard = b""
        over.set()
        writer.close()
    assert b"\r\n0\r\n\r\n" not in heard


@ways
async def test_an_answer_that_breaks_off_never_looks_complete_in_http_1_0(passed: bool) -> None:
    """Its body ends with the connection: nginx, which asks so by default, ended the answer cleanly for its client."""

    async def dies(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunked(TOKEN, ends=False))
        await writer.drain()
        await asyncio.sleep(0.1)

    async with relayed(dies, passed=passed) as (port, _, _), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"))
        await reader.readuntil(TOKEN)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


@ways
async def test_a_long_answer_to_a_slow_client_stops_and_goes_on_and_arrives_whole(passed: bool) -> None:
    pieces = [b"%08d" % number * 512 for number in range(4_096)]

    async def at_length(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for piece in pieces:
            writer.write(chunked(piece, ends=False))
            await writer.drain()
        writer.write(chunked())
        await writer.drain()

    async with relayed(at_length, passed=passed) as (port, _, _), asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4_096)
        writer.write(REQUEST)
        await asyncio.sleep(0.5)
        said, body = b"", bytearray()
        await reader.readuntil(b"\r\n\r\n")
        while said != b"0\r\n":
            said = await reader.readline()
            body += (await reader.readexactly(int(said, 16) + 2))[:-2]
        writer.close()
    assert body == b"".join(pieces)


@ways
async def test_all_that_came_before_an_upstream_died_reaches_a_slow_client(passed: bool) -> None:
    """What it had not taken yet was thrown away with its connection."""
    said, metrics = 0, Metrics()

    async def dies(writer: asyncio.StreamWriter) -> None:
        nonlocal said
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n")
        while not (counted and counted[0].get_write_buffer_size()):
            writer.write(b"x" * 16_384)
            said += 16_384
            await writer.drain()
            await asyncio.sleep(0.001)

    async with relayed(dies, passed=passed, metrics=metrics) as (port, counted, _), asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4_096)
        writer.write(REQUEST)
        while not metrics.registry.get_sample_value("memory_proxy_upstream_failures_total", {"phase": "midstream"}):
            await asyncio.sleep(0.01)
        body = (await reader.read()).partition(b"\r\n\r\n")[2]
        writer.close()
    assert len(body) == said


async def test_a_client_that_leaves_is_not_told_as_a_death_of_vllm() -> None:
    """Its connection is closing before the loop has told the handler so: the write says it."""
    metrics, gone = Metrics(), asyncio.Event()

    async def goes_on(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunked(TOKEN, ends=False))
        await writer.drain()
        await gone.wait()
        writer.write(chunked(TOKEN))
        await writer.drain()

    async with relayed(goes_on, passed=True, metrics=metrics) as (port, counted, _), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await reader.readuntil(TOKEN)
        counted[0].is_closing = lambda: True  # type: ignore[attr-defined]
        gone.set()
        await reader.read()
        writer.close()
    assert metrics.registry.get_sample_value("memory_proxy_upstream_failures_total", {"phase": "midstream"}) == 0


@pytest.mark.parametrize("passed", [True, False])
async def test_of_a_client_that_leaves_it_is_said_what_had_come_for_it(passed: bool) -> None:
    gone, facts = asyncio.Event(), Facts()

    async def goes_on(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunked(*[TOKEN] * 20, ends=False))
        await gone.wait()

    async with relayed(goes_on, passed=passed, facts=facts) as (port, _, _), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        for _ in range(20):
            await reader.readuntil(TOKEN)
        writer.close()
        while "bytes_out" not in facts:
            await asyncio.sleep(0.01)
        gone.set()
    assert facts["bytes_out"] == 20 * len(TOKEN)


@pytest.mark.parametrize(
    ("status", "leads_to", "told"),
    [
        (307, "http://{vllm}/v1/models?a=b", "/v1/models?a=b"),
        (302, "https://{vllm}", "/"),
        (301, "http://{vllm}?a", "/?a"),
        (307, "http://{vllm}//elsewhere.example/", None),
        (307, "http://{vllm}.elsewhere.example/", None),
        (307, "http://elsewhere.example/{vllm}/", None),
        (307, "/v1/models", None),
        (307, "?a=b", None),
        (201, "http://{vllm}/v1/responses/1", None),
    ],
)
@pytest.mark.parametrize("passed", [True, False])
async def test_a_redirect_of_vllm_to_itself_leads_through_the_proxy(
    passed: bool, status: int, leads_to: str, told: str | None
) -> None:
    at = ""

    async def redirects(writer: asyncio.StreamWriter) -> None:
        where = leads_to.format(vllm=at).encode()
        writer.write(b"HTTP/1.1 %d Else\r\nlocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, where))

    async with relayed(redirects, passed=passed) as (port, _, upstream), asyncio.timeout(10):
        at = upstream.base.removeprefix("http://")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    expected = leads_to.format(vllm=at) if told is None else told
    assert f"\r\nlocation: {expected}\r\n".encode() in head


@pytest.mark.parametrize(
    ("leads_to", "told"),
    [
        ("/gate/v1/models?a=b", "/v1/models?a=b"),
        ("/gate", "/"),
        ("http://{host}/gate/v1/models", "/v1/models"),
        ("/gateway/v1", "/gateway/v1"),
        ("/gate//elsewhere.example/", "/gate//elsewhere.example/"),
        ("/login", "/login"),
        ("?a=b", "?a=b"),
    ],
)
async def test_a_redirect_below_the_path_of_the_upstream_leads_through_the_proxy(leads_to: str, told: str) -> None:
    host = ""

    async def redirects(writer: asyncio.StreamWriter) -> None:
        where = leads_to.format(host=host).encode()
        writer.write(b"HTTP/1.1 307 Else\r\nlocation: %b\r\nContent-Length: 0\r\n\r\n" % where)

    async with relayed(redirects, passed=True, base="/gate") as (port, _, upstream), asyncio.timeout(10):
        host = upstream.base.removeprefix("http://").removesuffix("/gate")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert f"\r\nlocation: {told}\r\n".encode() in head


@asynccontextmanager
async def opened(base: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
    """A WebSocket of an upstream below /gate, whose port `base` leaves open."""

    async def accepts(request: web.Request) -> web.StreamResponse:
        theirs = web.WebSocketResponse()
        await theirs.prepare(request)
        return theirs

    app = web.Application()
    app.router.add_get("/gate/v1/realtime", accepts)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    named = base.format(runner.addresses[0][1])
    upstream = Upstream(named, api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=4)
    async with upstream.websocket("/v1/realtime", CIMultiDict(), ()) as ours:
        yield ours
    await upstream.close()
    await runner.cleanup()


@pytest.mark.parametrize("base", ["http://LOCALHOST:{}/gate", "http://localhost:00{}/gate/"])
async def test_a_websocket_is_opened_whichever_way_the_upstream_is_spelled(base: str) -> None:
    """It was taken for one that had been redirected to another host, and refused with 502."""
    async with opened(base) as ours:
        assert ours.close_code is None


async def test_a_websocket_does_not_lead_back_to_this_proxy() -> None:
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    here = listening.sockets[0].getsockname()
    upstream = Upstream(
        f"http://127.0.0.1:{here[1]}",
        api_key=None,
        replace_auth=False,
        connect_timeout_s=5,
        keepalive_s=4,
        listening=here,
    )
    with pytest.raises(aiohttp.ClientConnectorError, match="this proxy itself"):
        await upstream.websocket("/v1/realtime", CIMultiDict(), ())
    listening.close()
    await upstream.close()


async def test_a_machine_that_vanishes_under_a_websocket_is_noticed_by_its_link() -> None:
    async with opened("http://127.0.0.1:{}/gate") as ours:
        link = ours.get_extra_info("socket")
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_a_websocket_finds_a_host_whose_name_is_no_ascii() -> None:
    upstream = Upstream(
        "http://b\u00fccher.test:8000", api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=4
    )
    assert str(upstream.url("/x%2Fy")) == "http://xn--bcher-kva.test:8000/x%2Fy"
    await upstream.close()


async def test_a_certificate_that_does_not_hold_is_told_and_not_that_vllm_is_away(tmp_path: Path) -> None:
    tls, _ = self_signed(tmp_path, x509.DNSName("vllm.test"))
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls)
    here = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    upstream = Upstream(here, api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=4)
    with pytest.raises(UpstreamUnreachable, match=f"^the certificate of vLLM at {here}: self-signed certificate$"):
        await upstream.send("GET", "/health", [], None)
    server.close()
    await upstream.close()
