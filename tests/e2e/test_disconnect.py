"""A client that leaves frees the upstream at once, before the first token and after it, and leaves its exchange."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.e2e.raw_http import connect, read_head, request_bytes
from tests.e2e.talk import exchanges, found, sessions
from tests.e2e.upstreams import counters
from tests.service_fixture import Service
from tests.waiting import until, wait_until

FREED_WITHIN_S = 1.5
LONG = [(b"x-fake-tokens", b"4000"), (b"Content-Type", b"application/json")]
SLOW_START = [*LONG, (b"x-fake-first-ms", b"60000")]
SLOW_TOKENS = [*LONG, (b"x-fake-token-ms", b"30")]
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Tell me of the lighthouse at Inchcape."}]},
    "/v1/completions": {"prompt": "long"},
    "/v1/responses": {"input": "long"},
}


def leave(
    service: Service, upstream: str, route: str, user: str, mode: str, *, stream: bool, late: bool, session: str = ""
) -> None:
    """Start a request, wait until it runs (or until tokens come), hang up; the upstream must be free soon."""
    before = counters(upstream)
    head = [
        *(SLOW_TOKENS if late else SLOW_START),
        (b"X-Memory-User", user.encode()),
        (b"X-Memory-Mode", mode.encode()),
        *([(b"X-Memory-Session", session.encode())] if session else []),
    ]
    body = json.dumps({**ROUTES[route], "stream": stream}).encode()
    with connect(service.url) as sock:
        sock.sendall(request_bytes("POST", route, head, body))
        wait_until(lambda: counters(upstream)["running"] > 0, 10, "the request runs")
        if late and stream:
            *_, data = read_head(sock)
            while data.count(b"data:") < 4:
                data += sock.recv(65_536)
    wait_until(lambda: counters(upstream)["running"] == 0, FREED_WITHIN_S, "the upstream is free")
    after = counters(upstream)
    assert after["cancelled"] == before["cancelled"] + 1
    assert after["finished"] == before["finished"]


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("late", [False, True], ids=["before the first token", "after it"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("route", ROUTES)
def test_upstream_is_free_soon_after_the_client_left(
    service: Service, upstream: str, user: str, route: str, stream: bool, late: bool, mode: str
) -> None:
    leave(service, upstream, route, user, mode, stream=stream, late=late)


@pytest.mark.parametrize("late", [False, True], ids=["before the first token", "after it"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_exchange_of_a_client_that_left_is_kept_as_partial(
    service: Service, upstream: str, user: str, stream: bool, late: bool
) -> None:
    await asyncio.to_thread(leave, service, upstream, "/v1/chat/completions", user, "on", stream=stream, late=late)
    stored = await until(lambda: exchanges(service, user))
    assert [(row["status"], row["reason"]) for row in stored] == [("partial", "client_left")]
    turns = [
        turn for conversation in (await asyncio.to_thread(sessions, service, user)).values() for turn in conversation
    ]
    assert turns[0]["content"] == "Tell me of the lighthouse at Inchcape."
    if stream and late:
        assert turns[1]["role"] == "assistant"
        assert turns[1]["content"].startswith("The quick")
    assert await asyncio.to_thread(found, service, "lighthouse", user)
    assert not [said for said in await asyncio.to_thread(found, service, "quick brown fox", user) if "quick" in said]


def test_client_that_leaves_while_it_uploads_is_no_request(service: Service, upstream: str, user: str) -> None:
    before = counters(upstream)
    with connect(service.url) as sock:
        head = [(b"Content-Length", b"100000"), (b"Content-Type", b"application/json")]
        sock.sendall(request_bytes("POST", "/v1/chat/completions", head) + b'{"messages":[')
    with connect(service.url) as sock:
        sock.sendall(request_bytes("GET", "/version"))
        assert read_head(sock)[0] == 200
    assert counters(upstream)["started"] == before["started"]


def test_many_clients_that_leave_free_every_slot(service: Service, upstream: str, user: str) -> None:
    before = counters(upstream)
    head = [*SLOW_TOKENS, (b"X-Memory-User", user.encode())]
    body = json.dumps({**ROUTES["/v1/chat/completions"], "stream": True}).encode()
    socks = [connect(service.url) for _ in range(20)]
    for sock in socks:
        sock.sendall(request_bytes("POST", "/v1/chat/completions", head, body))
    wait_until(lambda: counters(upstream)["running"] == 20, 15, "all run")
    for sock in socks:
        sock.close()
    wait_until(lambda: counters(upstream)["running"] == 0, FREED_WITHIN_S, "all are free")
    assert counters(upstream)["cancelled"] == before["cancelled"] + 20
    service.settle()
    assert service.call("GET", "/memory/v1/queue")["dead"] == 0
