"""The connections to one vLLM: which of them a request goes over, how new ones are opened, and that none is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from yarl import URL

from proxy.connection import AnswerBroken, Pairs
from proxy.pool import Pool, RequestUnsendable, looked_up
from tests.certificate import self_signed

NAMES = (x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("vllm.test"))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


class Server:
    """Speaks HTTP as it is told: what it heard, on how many connections, and how many it answers on each."""

    def __init__(self) -> None:
        self.heads = list[bytes]()
        self.connections = 0
        self.open = 0
        self.answers_each = 1_000
        self.body, self.silent = b"ok", False
        self.listening: asyncio.Server | None = None
        self.port = 0

    async def start(self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.listening = await asyncio.start_server(self._served, host, 0, ssl=tls)
        self.port = self.listening.sockets[0].getsockname()[1]

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            for _ in range(self.answers_each):
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(OK + self.body)
                await writer.drain()
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))  # a request that gets nothing
            if self.silent:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def pooled(keepalive_s: float = 5, host: str = "127.0.0.1", **how: Any) -> AsyncIterator[tuple[Pool, Server]]:
    """A pool and the server it goes to; when it is closed no connection is left."""
    server = Server()
    await server.start(**how)
    scheme = "https" if "tls" in how else "http"
    pool = Pool(URL(f"{scheme}://{host}:{server.port}/base"), connect_timeout_s=2, keepalive_s=keepalive_s)
    try:
        async with asyncio.timeout(20):
            yield pool, server
            await pool.close()
            while server.open:
                await asyncio.sleep(0.005)
    finally:
        await pool.close()
        if server.listening is not None:
            server.listening.close()


async def said(
    pool: Pool, method: str = "GET", target: str = "/x", headers: Pairs | None = None, body: Any = None
) -> bytes:
    answer = await pool.send(method, target, headers or [], body)
    return await answer.read_all()


async def test_one_request_after_the_other_goes_over_one_connection() -> None:
    async with pooled() as (pool, server):
        assert [await said(pool) for _ in range(5)] == [b"ok"] * 5
        assert server.connections == 1


@pytest.mark.parametrize(
    ("here", "nearby", "itself"),
    [
        ("127.0.0.1", 0, True),
        ("0.0.0.0", 0, True),
        ("::", 0, True),
        ("127.0.0.2", 0, False),
        ("127.0.0.1", 1, False),
        ("0.0.0.0", 1, False),
    ],
)
async def test_no_connection_leads_back_to_where_this_proxy_listens(here: str, nearby: int, itself: bool) -> None:
    server = Server()
    await server.start()
    url = URL(f"http://localhost:{server.port}")
    pool = Pool(url, connect_timeout_s=2, keepalive_s=5, listening=(here, server.port + nearby))
    try:
        if itself:
            with pytest.raises(AnswerBroken, match="this proxy itself"):
                await said(pool)
            assert server.connections == 0
        else:
            assert await said(pool) == b"ok"
    finally:
        await pool.close()
        assert server.listening is not None
        server.listening.close()


async def test_a_machine_that_vanishes_under_an_answer_is_noticed_by_its_link() -> None:
    """Nobody can tell its silence from a model's that thinks, but TCP: the kernel asks the other end."""
    async with pooled() as (pool, _):
        answer = await pool.send("GET", "/x", [], None)
        (connection,) = pool._all
        link = connection._transport.get_extra_info("socket")
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        named = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        idle, interval, count = (link.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in named)
        assert idle + interval * count <= 60
        await answer.read_all()


async def test_an_idle_connection_is_closed_in_its_time_and_then_not_used() -> None:
    async with pooled(keepalive_s=0.2) as (pool, server):
        await said(pool)
        await asyncio.sleep(0.1)
        await said(pool)  # its time begins anew
        await asyncio.sleep(0.15)
        assert server.open == 1
        while server.open:
            await asyncio.sleep(0.01)
        assert await said(pool) == b"ok" and server.connections == 2


async def test_nothing_is_kept_where_that_is_off() -> None:
    async with pooled(keepalive_s=0) as (pool, server):
        await asyncio.gather(*(said(pool) for _ in range(3)))
        assert await said(pool) == b"ok" and server.connections == 4


@pytest.mark.parametrize(
    ("method", "body", "again"), [("GET", None, True), ("PUT", b"{}", True), ("POST", b"{}", False)]
)
async def test_only_what_may_be_repeated_is_sent_again_over_a_new_connection(
    method: str, body: bytes | None, again: bool
) -> None:
    """The server takes the second request and ends the connection without a word, as one that was just restarted."""
    async with pooled() as (pool, server):
        server.answers_each = 1
        await said(pool)
        if again:
            assert await said(pool, method, body=body) == b"ok"
        else:
            with pytest.raises(AnswerBroken):
                await said(pool, method, body=body)
        assert server.connections == (2 if again else 1)


def _answers_one_each(
    listening: socket.socket, tls: ssl.SSLContext | None, hang_up: threading.Event, hung_up: threading.Event
) -> None:
    """A server of two connections, each for one request; the first is kept until it is told to hang up."""
    for _ in range(2):
        plain, _ = listening.accept()
        with plain if tls is None else tls.wrap_socket(plain, server_side=True) as connection:
            while connection.recv(65_536)[-2:] != b"{}":
                pass
            connection.sendall(OK + b"ok")
            hang_up.wait(10)
        hung_up.set()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_kept_connection_that_has_ended_takes_no_request(
    scheme: str, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop was busy and has not said so yet: a POST that was sent into it was lost, and 502."""
    tls, file = self_signed(tmp_path, *NAMES)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    hang_up, hung_up = threading.Event(), threading.Event()

    async def asked(port: int) -> None:
        pool = Pool(URL(f"{scheme}://127.0.0.1:{port}"), connect_timeout_s=2, keepalive_s=5)
        assert await said(pool, "POST", body=b"{}") == b"ok"
        hang_up.set()
        assert hung_up.wait(10)
        assert await said(pool, "POST", body=b"{}") == b"ok"
        await pool.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        told = (listening, tls if scheme == "https" else None, hang_up, hung_up)
        serving = threading.Thread(target=_answers_one_each, args=told, daemon=True)
        serving.start()
        run(asked(listening.getsockname()[1]))
        serving.join()


async def test_what_breaks_off_on_a_new_connection_is_not_sent_again() -> None:
    async with pooled() as (pool, server):
        server.answers_each = 0
        with pytest.raises(AnswerBroken):
            await said(pool)
        assert server.connections == 1


async def test_a_head_is_the_clients_own_with_host_and_framing() -> None:
    async with pooled() as (pool, server):
        await said(pool, "POST", "/a?b=%2F#c", [(b"X-One", b"\xe9\xff"), (b"x-one", b"2")], b"{}")
        await said(pool, "POST", "/\udce9")
        await said(pool, "DELETE", "/", [(b"content-length", b"0")])
        await said(pool, "GET", "/")
        host = b"Host: 127.0.0.1:%d\r\n" % server.port
    assert server.heads == [
        b"POST /a?b=%2F HTTP/1.1\r\n" + host + b"X-One: \xe9\xff\r\nx-one: 2\r\nContent-Length: 2\r\n\r\n",
        b"{}POST /\xe9 HTTP/1.1\r\n" + host + b"Content-Length: 0\r\n\r\n",
        b"DELETE / HTTP/1.1\r\n" + host + b"content-length: 0\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + host + b"\r\n",
    ]


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/ HTTP/1.1\r\nX: y", []),
        ("/\n", []),
        ("/ HTTP/1.0", []),
        ("/", [(b"X", b"a\r\nY: b")]),
        ("/", [(b"X\r\nY", b"a")]),
        ("/", [(b"X", b"a\nb")]),
        ("/", [(b"X", b"a\rb")]),
        ("/", [(b"X", b"a\0b")]),
    ],
)
async def test_what_would_be_read_as_another_request_is_not_sent(target: str, headers: Pairs) -> None:
    async with pooled() as (pool, server):
        with pytest.raises(RequestUnsendable):
            await said(pool, "GET", target, headers)
        assert server.connections == 0


class Names:
    """What the resolver says, after how long, and how often it was asked; a slow machine asks no second address."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
        monkeypatch.setattr("proxy.pool.NEXT_ADDRESS_S", 60.0)
        self.asked, self.addresses = 0, addresses
        self.fault, self.takes_s = socket.EAI_NONAME, 0.05
        monkeypatch.setattr("proxy.pool.looked_up", self)

    async def __call__(self, host: str, port: int) -> list[Any]:
        self.asked += 1
        await asyncio.sleep(self.takes_s)
        if not self.addresses:
            raise socket.gaierror(self.fault, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in self.addresses]


async def test_many_requests_at_once_ask_for_the_name_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch, "127.0.0.1")
    async with pooled(host="vllm.test") as (pool, server):
        assert await asyncio.gather(*(said(pool) for _ in range(8))) == [b"ok"] * 8
        assert names.asked == 1 and server.connections == 8
        assert server.heads[0].startswith(b"GET /x HTTP/1.1\r\nHost: vllm.test:")


async def test_of_a_name_that_leads_to_this_proxy_and_to_a_vllm_the_vllm_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `localhost` does, where one of them listens at 127.0.0.1 and the other at ::1."""
    Names(monkeypatch, "127.0.0.1", "127.0.0.2")
    server = Server()
    await server.start("127.0.0.2")
    url = URL(f"http://vllm.test:{server.port}")
    pool = Pool(url, connect_timeout_s=2, keepalive_s=5, listening=("127.0.0.1", server.port))
    assert [await said(pool) for _ in range(2)] == [b"ok"] * 2
    await pool.close()
    assert server.listening is not None
    server.listening.close()
    pool = Pool(url, connect_timeout_s=2, keepalive_s=5, listening=("127.0.0.1", server.port))
    with pytest.raises(AnswerBroken, match="this proxy itself"):  # a vLLM there is none
        await said(pool)
    await pool.close()


async def test_a_name_that_is_unknown_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch)
    async with pooled(host="vllm.test") as (pool, _):
        for _ in range(2):
            with pytest.raises(socket.gaierror):
                await said(pool)
        names.addresses = ("127.0.0.1",)
        assert await said(pool) == b"ok" and names.asked == 3


@pytest.fixture
def soon_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.pool.NAME_KEPT_S", 0.1)
    monkeypatch.setattr("proxy.pool.STALE_AFTER_S", 0.2)


async def test_while_the_resolver_has_no_answer_the_last_addresses_serve_on(
    monkeypatch: pytest.MonkeyPatch, soon_stale: None
) -> None:
    names = Names(monkeypatch, "127.0.0.1")
    async with pooled(keepalive_s=0, host="vllm.test") as (pool, _):
        await said(pool)
        names.addresses, names.fault = (), socket.EAI_AGAIN
        await asyncio.sleep(0.15)
        assert [await said(pool) for _ in range(3)] == [b"ok"] * 3
        assert names.asked == 2, "and it is not asked again at once"
        names.takes_s = 600.0  # it hangs
        await asyncio.sleep(0.15)
        for _ in range(3):
            assert await asyncio.wait_for(said(pool), 30) == b"ok"
        assert names.asked == 3


async def test_a_name_that_is_gone_has_no_address_and_old_ones_end(
    monkeypatch: pytest.MonkeyPatch, soon_stale: None
) -> None:
    names = Names(monkeypatch, "127.0.0.1")
    async with pooled(keepalive_s=0, host="vllm.test") as (pool, server):
        for fault in (socket.EAI_NONAME, socket.EAI_NODATA, socket.EAI_AGAIN):
            names.addresses = ("127.0.0.1",)
            await said(pool)
            names.addresses, names.fault = (), fault
            if fault == socket.EAI_AGAIN:
                monkeypatch.setattr("proxy.pool.STALE_S", 0.12)
            await asyncio.sleep(0.15)
            with pytest.raises(socket.gaierror):
                await said(pool)
        assert server.connections == 3


async def test_who_waits_for_a_name_as_the_pool_is_closed_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, "127.0.0.1").takes_s = 30.0
    async with pooled(host="vllm.test") as (pool, _):
        asking = asyncio.create_task(said(pool))
        await asyncio.sleep(0.02)
        await pool.close()
        with pytest.raises(AnswerBroken):
            await asking


async def test_who_gives_up_waiting_for_a_name_leaves_the_question_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Names(monkeypatch, "127.0.0.1")
    async with pooled(host="vllm.test") as (pool, _):
        first, second = asyncio.create_task(said(pool)), asyncio.create_task(said(pool))
        await asyncio.sleep(0.01)
        first.cancel()
        assert await second == b"ok" and names.asked == 1


async def test_addresses_take_turns_and_one_that_is_dead_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Server()
    async with pooled(keepalive_s=0, host="vllm.test") as (pool, server):
        other.listening = await asyncio.start_server(other._served, "127.0.0.2", server.port)
        Names(monkeypatch, "127.0.0.1", "127.0.0.2")
        for _ in range(4):
            await said(pool)
        assert (server.connections, other.connections) == (2, 2)
        other.listening.close()
        for _ in range(4):
            assert await said(pool) == b"ok"
        assert (server.connections, other.connections) == (6, 2)


async def test_many_requests_at_once_are_spread_over_the_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Server()
    async with pooled(host="vllm.test") as (pool, server):
        other.listening = await asyncio.start_server(other._served, "127.0.0.2", server.port)
        Names(monkeypatch, "127.0.0.1", "127.0.0.2")
        await asyncio.gather(*(said(pool) for _ in range(8)))
        assert (server.connections, other.connections) == (4, 4)
        other.listening.close()


async def test_the_addresses_go_on_taking_turns_when_the_name_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.pool.NAME_KEPT_S", 0.0)
    other = Server()
    async with pooled(keepalive_s=0, host="vllm.test") as (pool, server):
        other.listening = await asyncio.start_server(other._served, "127.0.0.2", server.port)
        names = Names(monkeypatch, "127.0.0.1", "127.0.0.2")
        for _ in range(4):
            await said(pool)
        assert names.asked == 4 and (server.connections, other.connections) == (2, 2)
        names.addresses = ("127.0.0.1",)
        await said(pool)
        assert server.connections == 3
        other.listening.close()


async def test_a_server_that_is_not_there_is_refused_at_once() -> None:
    async with pooled() as (pool, server):
        assert server.listening is not None
        server.listening.close()
        with pytest.raises(ConnectionRefusedError):
            await said(pool)


class NamesOnly(uvloop.Loop):
    """Its threads all wait for names that are never answered: what it needs one of them for does not come."""

    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_connection_waits_for_no_name_of_anybody_else(host: str) -> None:
    """Where the name of Redis or Postgres was never answered, completions were 502 after upstream.connect_timeout_s."""

    async def asked() -> None:
        async with pooled(host=host) as (pool, _):
            assert await said(pool) == b"ok"

    with asyncio.Runner(loop_factory=NamesOnly) as runner:
        runner.run(asked())


async def test_who_gives_up_a_name_leaves_a_thread_that_answers_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    told, thread = threading.Event(), list[threading.Thread]()

    def slow(*_: Any, **__: Any) -> Any:
        thread.append(threading.current_thread())
        assert told.wait(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await looked_up("vllm.test", 1)
    assert thread[0].daemon, "a process that ends does not wait for it"
    told.set()
    await asyncio.to_thread(thread[0].join)


async def test_a_name_that_cannot_be_one_is_told_to_who_asked() -> None:
    with pytest.raises(socket.gaierror, match="no name of a machine"):
        await looked_up("a..b", 1)


async def test_closing_ends_answers_on_their_way_and_leaves_nothing_open() -> None:
    async with pooled() as (pool, server):
        server.answers_each = 0
        asking = asyncio.create_task(said(pool))
        while not server.connections:
            await asyncio.sleep(0.005)
        await pool.close()
        with pytest.raises(AnswerBroken):
            await asking


async def test_a_pool_that_was_closed_opens_no_connection() -> None:
    """Neither for a request that waits on a kept one, and may be repeated, nor for a new one."""
    async with pooled() as (pool, server):
        server.answers_each = 1
        await said(pool)
        server.silent = True
        asking = asyncio.create_task(said(pool))
        while len(server.heads) < 2:
            await asyncio.sleep(0.005)
        await pool.close()
        with pytest.raises(AnswerBroken):
            await asking
        with pytest.raises(AnswerBroken):
            await said(pool)
        assert server.connections == 1


async def test_a_connection_that_opens_as_the_pool_is_closed_is_closed_too() -> None:
    async with pooled() as (pool, server):
        asking = asyncio.create_task(said(pool))
        while pool._resolving is None:
            await asyncio.sleep(0)
        while pool._resolving is not None:
            await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(AnswerBroken):
            await asking
        assert server.heads == []


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("late", [False, True])
def test_who_gives_up_while_a_connection_is_opened_leaves_no_socket(scheme: str, late: bool, run: Any) -> None:
    """At each step of it: the loop runs on once, twice, and so on, before the request is cancelled."""
    connections = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with contextlib.suppress(ConnectionError):
            while await reader.read(4_096):  # a handshake that gets no answer, or a request
                pass
        connections -= 1
        writer.close()

    async def asked() -> None:
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            pool = Pool(URL(f"{scheme}://127.0.0.1:{port}"), connect_timeout_s=2, keepalive_s=5)
            for steps in range(1, 25, 4 if late else 1):
                asking = asyncio.create_task(said(pool))
                for _ in range(steps):
                    await asyncio.sleep(0.001 if late else 0)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
            await asyncio.sleep(0.02)
            async with asyncio.timeout(5):
                while connections:
                    await asyncio.sleep(0.005)
            assert not pool._all
            await pool.close()

    run(asyncio.sleep(0))  # libuv keeps a pipe from its first loop on
    gc.collect()
    gc.freeze()  # what other tests left is gone through once, not 16 times: .7 s of processor time each
    before = len(os.listdir("/proc/self/fd"))
    run(asked())
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_handshake_that_does_not_come_ends_in_time(run: Any) -> None:
    async def asked() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        pool = Pool(URL(f"https://127.0.0.1:{listening.getsockname()[1]}"), connect_timeout_s=0.05, keepalive_s=5)
        with listening, pytest.raises(TimeoutError):
            await said(pool)

    run(asked())


async def test_an_answer_to_head_leaves_its_connection_for_the_next() -> None:
    async with pooled() as (pool, server):
        server.body = b""
        assert await said(pool, "HEAD") == b""
        server.body = b"ok"
        assert await said(pool) == b"ok" and server.connections == 1


async def test_a_body_in_pieces_goes_with_its_own_length_or_in_chunks_and_is_not_sent_again() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"{}"

    async with pooled() as (pool, server):
        server.answers_each = 1
        await said(pool, "PUT", headers=[(b"Content-Length", b"2")], body=pieces())
        with pytest.raises(AnswerBroken):
            await said(pool, "PUT", body=pieces())
        assert server.heads[0].endswith(b"\r\nContent-Length: 2\r\n\r\n")
        assert server.heads[1].endswith(b"\r\nTransfer-Encoding: chunked\r\n\r\n") and server.connections == 1


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("host", ["127.0.0.1", "vllm.test", "vllm.test."])
@pytest.mark.parametrize("trusted", [True, False])
def test_tls_is_verified(trusted: bool, host: str, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls, file = self_signed(tmp_path, *NAMES)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))

    async def asked() -> None:
        if host != "127.0.0.1":
            Names(monkeypatch, "127.0.0.1")
        async with pooled(tls=tls, host=host) as (pool, server):
            if trusted:
                assert [await said(pool, "POST", body=b"{}") for _ in range(3)] == [b"ok"] * 3
                assert server.connections == 1
            else:
                with pytest.raises(ssl.SSLCertVerificationError):
                    await said(pool)

    run(asked())


def _says_and_closes(listening: socket.socket, tls: ssl.SSLContext, answer: bytes) -> None:
    """As nginx ends a connection: the farewell of TLS and the end right behind the answer, without waiting for ours."""
    plain, _ = listening.accept()
    with contextlib.suppress(OSError), tls.wrap_socket(plain, server_side=True) as connection:
        connection.recv(65_536)
        connection.sendall(answer)
        connection.setblocking(False)
        connection.unwrap()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("pause_s", [0, 0.01], ids=["at once", "slowly"])
@pytest.mark.parametrize("size", [100_000, 1_500_000])
@pytest.mark.parametrize("length", [True, False], ids=["length", "none"])
def test_an_answer_over_tls_whose_connection_ends_behind_it_is_whole(
    length: bool, size: int, pause_s: float, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What TLS has read and not handed over is lost at the connection's end, on both loops."""
    (tls, file), body = self_signed(tmp_path, *NAMES), b"x" * size
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    framing = b"Connection: close\r\n" + (b"Content-Length: %d\r\n" % size if length else b"")
    answer = b"HTTP/1.1 200 OK\r\n%b\r\n%b" % (framing, body)

    async def asked(port: int) -> None:
        pool = Pool(URL(f"https://127.0.0.1:{port}"), connect_timeout_s=2, keepalive_s=5)
        found = await pool.send("GET", "/", [], None)
        came = 0
        while piece := await found.read():
            came += len(piece)
            await asyncio.sleep(pause_s)
        assert came == size
        await pool.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=_says_and_closes, args=(listening, tls, answer))
        serving.start()
        run(asked(listening.getsockname()[1]))
        serving.join()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_many_answers_at_once_are_not_mixed_up(run: Any) -> None:
    """One buffer takes what arrives on all connections."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                number = (await reader.readuntil(b"\r\n\r\n")).split()[1][1:]
                body = number.rjust(8, b"0") * 20_000
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                for at in range(0, len(body), 7_777):
                    writer.write(body[at : at + 7_777])
                    await asyncio.sleep(0)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.close()

    async def asked() -> None:
        async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            pool = Pool(URL(f"http://127.0.0.1:{port}"), connect_timeout_s=2, keepalive_s=5)
            found = await asyncio.gather(*(said(pool, target=f"/{number}") for number in range(40)))
            assert found == [b"%08d" % number * 20_000 for number in range(40)]
            await pool.close()
            await asyncio.sleep(0.01)

    run(asked())
