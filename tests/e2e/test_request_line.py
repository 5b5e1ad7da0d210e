"""One line per request, whoever ended it, and no word of anybody's in it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from memory.passage import Facts
from tests.e2e.raw_http import connect, read_head, request_bytes
from tests.e2e.talk import MODEL, UNCOUNTED
from tests.e2e.upstreams import counters, last
from tests.service_fixture import Service, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.long  # a service of its own

SAID = "The lighthouse keeper's cat is called Thimblewick."
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CHAT = "/v1/chat/completions"
LEFT = "memory_proxy_clients_left_total"


@pytest.fixture(scope="module")
def logged(upstream: str) -> Iterator[Service]:
    """A service that logs JSON."""
    with serving(upstream, env={"MEMORY_PROXY_LOG__FORMAT": "json"}) as running:
        yield running


def lines(service: Service) -> list[dict[str, Any]]:
    """Every request's line so far."""
    said = (json.loads(line) for line in service.log.read_text(errors="replace").splitlines() if line.startswith("{"))
    return [one for one in said if one["event"] == "request"]


def line_after(service: Service, before: int) -> dict[str, Any]:
    """The one line that came since."""
    wait_until(lambda: len(lines(service)) > before, 10, "the line is written")
    (line,) = lines(service)[before:]
    return line


def send(service: Service, path: str, body: Any, **headers: str) -> tuple[int, bytes]:
    """One request."""
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(service.url + path, data=data, headers=named)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def counted(service: Service, series: str) -> float:
    """A counter as the metrics have it; 0 before its first."""
    shown = send(service, "/memory/metrics", None)[1].decode()
    return next((float(line.split()[-1]) for line in shown.splitlines() if line.startswith(series + " ")), 0.0)


def more_of(service: Service, series: str, before: float) -> None:
    """Wait until a counter stands one higher."""
    wait_until(lambda: counted(service, series) > before, 10, "it is counted")
    assert counted(service, series) == before + 1


def chosen(line: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Of a line what is expected of it."""
    return {name: line.get(name) for name in expected}


def chat(*, stream: bool = False) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": SAID}], "stream": stream}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_chat_leaves_one_whole_line(logged: Service, user: str, stream: bool) -> None:
    before = len(lines(logged))
    _, answer = send(logged, CHAT, chat(stream=stream), X_Memory_User=user, traceparent=PARENT)
    line = line_after(logged, before)
    assert line.keys() - {"time", "level", "logger", "pid", "event"} <= Facts.__annotations__.keys()
    expected = {"route": "chat", "method": "POST", "http": 200, "outcome": "complete", "memory": "empty", "kept": 0}
    assert chosen(line, expected) == expected
    assert line["capture"] == "queue"
    assert line["model"] == MODEL
    assert line["finish"] == ["stop"]
    assert line["bytes_in"] == len(json.dumps(chat(stream=stream)))
    assert line["bytes_out"] >= len(answer)
    assert line["trace"] == PARENT.split("-")[1]
    assert len(line["exchange"]) == len(line["retrieval"]) == 36
    in_turn = {"read", "identify", "find", "recall", "assemble", "admit", "upstream", "stream", "hold"}
    assert in_turn | {"embed", "capture"} <= line["stages_ms"].keys()
    assert sum(line["stages_ms"][stage] for stage in in_turn) <= line["total_ms"]
    assert line["added_ms"] <= line["total_ms"]
    assert line["ttfb_ms"] == line["stages_ms"]["upstream"]


@pytest.mark.parametrize(
    ("path", "body", "headers", "expected"),
    [
        (CHAT, chat(), {"X_Memory_Mode": "off"}, {"route": "chat", "memory": "off", "capture": "off"}),
        ("/v1/completions", {"prompt": SAID}, {}, {"route": "generation", "memory": "off"}),
        ("/v1/models", None, {}, {"route": "other", "method": "GET"}),
        ("/memory/v1/sessions", None, {}, {"route": "own", "method": "GET"}),
    ],
    ids=["memory off", "generation", "passed through", "own"],
)
def test_every_route_leaves_one_line(
    logged: Service, path: str, body: Any, headers: dict[str, str], expected: dict[str, Any]
) -> None:
    before = len(lines(logged))
    status, answer = send(logged, path, body, **headers)
    line = line_after(logged, before)
    whole = {**expected, "http": status, "outcome": "complete"}
    assert chosen(line, whole) == whole
    assert line["bytes_out"] >= len(answer) > 0


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "code"),
    [
        (CHAT, chat(), {"X_Memory_Mode": "sideways"}, 400, "memory_invalid"),
        (CHAT, {**chat(), "memory": {"colour": 1}}, {}, 400, "memory_invalid"),
        ("/memory/v1/nothing", None, {}, 404, "not_found"),
    ],
    ids=["a header", "the body", "no such path"],
)
def test_a_refusal_leaves_one_line(
    logged: Service, path: str, body: Any, headers: dict[str, str], status: int, code: str
) -> None:
    before = len(lines(logged))
    assert send(logged, path, body, **headers)[0] == status
    expected = {"http": status, "outcome": "refused", "code": code}
    assert chosen(line_after(logged, before), expected) == expected


def test_an_error_of_the_upstream_is_its_own_and_leaves_one_line(logged: Service, user: str) -> None:
    before = len(lines(logged))
    assert send(logged, CHAT, chat(), X_Memory_User=user, x_fake_status="500")[0] == 500
    line = line_after(logged, before)
    expected = {"http": 500, "capture": "off", "outcome": "failed"}
    assert chosen(line, expected) == expected
    assert "code" not in line
    assert not {"exchange", "retrieval"} & line.keys(), "nothing is kept under them"


@pytest.mark.parametrize(("mode", "kept"), [("on", True), ("write", True), ("read", False), ("off", False)])
def test_a_line_names_an_exchange_where_one_is_kept(logged: Service, user: str, mode: str, kept: bool) -> None:
    before = len(lines(logged))
    assert send(logged, CHAT, chat(), X_Memory_User=user, X_Memory_Mode=mode)[0] == 200
    assert ("exchange" in line_after(logged, before)) is kept


@pytest.mark.parametrize("late", [True, False], ids=["after the first token", "before it"])
@pytest.mark.parametrize("mode", ["on", "off"])
def test_a_client_that_leaves_leaves_one_line(logged: Service, upstream: str, user: str, mode: str, late: bool) -> None:
    before, left = len(lines(logged)), counted(logged, LEFT)
    pace = (b"x-fake-token-ms", b"30") if late else (b"x-fake-first-ms", b"60000")
    head = [(b"Content-Type", b"application/json"), (b"x-fake-tokens", b"4000"), pace]
    head += [(b"X-Memory-User", user.encode()), (b"X-Memory-Mode", mode.encode())]
    with connect(logged.url) as sock:
        sock.sendall(request_bytes("POST", CHAT, head, json.dumps(chat(stream=late)).encode()))
        wait_until(lambda: counters(upstream)["running"] > 0, 10, "the request runs")
        if late:
            *_, data = read_head(sock)
            while data.count(b"data:") < 4:
                data += sock.recv(65_536)
    line = line_after(logged, before)
    assert line["outcome"] == "client_left"
    assert line["http"] == (200 if late else 499)
    assert not late or line["bytes_out"] >= 4 * 100
    more_of(logged, LEFT, left)
    wait_until(lambda: counters(upstream)["running"] == 0, 10, "the upstream is free")


def test_what_was_placed_is_counted_though_its_client_leaves(logged: Service, upstream: str, user: str) -> None:
    said = {"role": "user", "content": "My grandmother's cottage is in Lofthus.\nsay: Noted."}
    send(logged, CHAT, {"model": MODEL, "messages": [said]}, X_Memory_User=user)
    logged.settle()
    placed, blocks = "memory_proxy_injected_memories_total", 'memory_proxy_ledger_blocks_total{what="placed"}'
    before = counted(logged, placed), counted(logged, blocks)
    asked = {"role": "user", "content": "Where is my grandmother's cottage?"}
    body = json.dumps({"model": MODEL, "messages": [asked], "stream": True}).encode()
    head = [(b"Content-Type", b"application/json"), (b"X-Memory-User", user.encode()), (b"x-fake-first-ms", b"60000")]
    with connect(logged.url) as sock:
        sock.sendall(request_bytes("POST", CHAT, head, body))
        wait_until(lambda: counters(upstream)["running"] > 0, 10, "the request runs")
    wait_until(lambda: counted(logged, blocks) > before[1], 10, "it is counted")
    assert counted(logged, placed) > before[0]


@pytest.mark.long
def test_a_stream_that_outlasts_the_shutdown_is_cut_in_its_time_and_said(upstream: str, user: str) -> None:
    settings = {"MEMORY_PROXY_LOG__FORMAT": "json", "MEMORY_PROXY_LISTEN__DRAIN_S": "3"}
    head = [(b"Content-Type", b"application/json"), (b"x-fake-tokens", b"4000"), (b"x-fake-token-ms", b"30")]
    head += [(b"X-Memory-User", user.encode())]
    with serving(upstream, env=settings) as service, connect(service.url) as sock:
        sock.sendall(request_bytes("POST", CHAT, head, json.dumps(chat(stream=True)).encode()))
        *_, data = read_head(sock)
        service.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        while piece := sock.recv(65_536):
            data += piece
        assert 3 <= time.monotonic() - began < 5.5
        assert b"[DONE]" not in data
        assert service.process.wait(60) == 0
        (line,) = lines(service)
        expected = {"outcome": "partial", "http": 200}
        assert chosen(line, expected) == expected
        assert line["bytes_out"] > 0


@pytest.mark.parametrize("path", ["/v1/models", "/memory/v1/queue"])
def test_what_a_client_expects_beyond_a_continue_is_passed_over(logged: Service, path: str) -> None:
    before = len(lines(logged))
    with connect(logged.url) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nExpect: the-unexpected\r\n\r\n".encode())
        data = sock.recv(65_536)
    assert data.startswith(b"HTTP/1.1 200 ")
    assert line_after(logged, before)["http"] == 200


REALTIME = "/v1/realtime?model=fake-model"


@pytest.mark.parametrize("end", ["closed", "closed and gone", "cut"])
async def test_a_websocket_leaves_one_line_of_its_own_end(logged: Service, end: str) -> None:
    before = len(lines(logged))
    async with aiohttp.ClientSession() as session:
        socket = await session.ws_connect(logged.url + REALTIME)
        await socket.send_str("one")
        await socket.receive_str(timeout=10)
        if end == "closed":
            await socket.close()
        else:
            if end == "closed and gone":
                await socket._writer.close()
            socket.get_extra_info("socket").shutdown(2)
    line = await asyncio.to_thread(line_after, logged, before)
    expected = {"route": "websocket", "http": 101, "outcome": "client_left" if end == "cut" else "complete"}
    assert chosen(line, expected) == expected


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/realtime HTTP/1.1\r\nContent-Length: 0\r\n",
        b"GET /v1/realtime HTTP/1.1\r\nSec-WebSocket-Version: 13\r\n",
    ],
    ids=["another method", "no key"],
)
def test_a_handshake_that_is_none_is_the_client_s_fault(logged: Service, head: bytes) -> None:
    before = len(lines(logged))
    with connect(logged.url) as sock:
        sock.sendall(head + b"Host: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
        data = sock.recv(65_536)
    assert data.startswith(b"HTTP/1.1 400 ")
    assert b"memory_invalid" in data
    expected = {"route": "websocket", "http": 400, "outcome": "refused", "code": "memory_invalid"}
    assert chosen(line_after(logged, before), expected) == expected


def test_no_word_of_anybody_is_logged(logged: Service, user: str) -> None:
    send(logged, CHAT, chat(), X_Memory_User=user, X_Memory_Project="secret-project", X_Memory_Session="a-label")
    logged.settle()
    log = logged.log.read_text(errors="replace")
    for word in ("Thimblewick", "lighthouse", user, "secret-project", "a-label"):
        assert word not in log


def test_probes_are_not_said(logged: Service) -> None:
    before = len(lines(logged))
    for path in ("/memory/health", "/memory/ready", "/memory/metrics"):
        send(logged, path, None)
    send(logged, "/v1/models", None)
    assert line_after(logged, before)["route"] == "other"


def test_the_stages_are_in_the_metrics(logged: Service, user: str) -> None:
    send(logged, CHAT, chat(), X_Memory_User=user)
    logged.settle()
    shown = send(logged, "/memory/metrics", None)[1].decode()
    for stage in ("read", "identify", "find", "embed", "recall", "assemble", "upstream", "stream", "hold", "capture"):
        assert f'memory_proxy_stage_seconds_count{{stage="{stage}"}}' in shown
    searchable = [line for line in shown.splitlines() if line.startswith("memory_proxy_searchable_seconds_count")]
    assert searchable and float(searchable[0].split()[1]) > 0


def test_a_status_is_counted_as_the_answer_says_it(logged: Service, user: str) -> None:
    said = "My grandmother's cottage is in Lofthus. " + "The fjord lies below it. " * 200
    message = {"role": "user", "content": f"{said}\nsay: Noted."}
    send(logged, CHAT, {"messages": [message]}, X_Memory_User=user)
    logged.settle()
    off, overflow = (
        f'memory_proxy_memory_status_total{{reason="{reason}",status="{status}"}}'
        for status, reason in (("off", ""), ("degraded", "overflow"))
    )
    before = counted(logged, off), counted(logged, overflow)
    send(logged, CHAT, chat(), X_Memory_User=user, X_Memory_Mode="write")
    more_of(logged, off, before[0])
    long = [
        {"role": "system", "content": "w " * 8100},
        {"role": "user", "content": "Where is my grandmother's cottage?"},
    ]
    seen = len(lines(logged))
    assert send(logged, CHAT, {"messages": long, "max_tokens": 5, **UNCOUNTED}, X_Memory_User=user)[0] == 200
    said = "the line is written, and says why"
    wait_until(lambda: any(one.get("reason") == "overflow" for one in lines(logged)[seen:]), 10, said)
    more_of(logged, overflow, before[1])


def test_a_client_that_leaves_in_its_body_is_counted_as_one(logged: Service) -> None:
    seen, left = len(lines(logged)), counted(logged, LEFT)
    with connect(logged.url) as sock:
        sock.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode())
        time.sleep(0.2)
    assert line_after(logged, seen)["outcome"] == "client_left"
    more_of(logged, LEFT, left)


def test_without_an_endpoint_the_clients_trace_passes_as_it_came(logged: Service, upstream: str, user: str) -> None:
    send(logged, CHAT, chat(), X_Memory_User=user, traceparent=PARENT, tracestate="a=1,b=2")
    (seen,) = last(upstream)
    assert (seen.value("traceparent"), seen.value("tracestate")) == (PARENT, "a=1,b=2")


def test_without_an_endpoint_we_load_nothing_of_opentelemetry() -> None:
    """redis-py loads its metrics where they are installed; what traces need comes from us alone."""
    asked = (
        "import sys, proxy.worker; from memory.config import Settings; from memory.telemetry import Metrics;"
        "from proxy.wiring.choices import traces; assert traces(Settings(), Metrics()) is None;"
        "sys.exit(any(name.startswith(('opentelemetry.exporter', 'opentelemetry.sdk.trace', 'memory.adapters.otlp'))"
        " for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
