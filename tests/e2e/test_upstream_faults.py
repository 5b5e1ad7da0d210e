"""An upstream that refuses, dies or lies: the client is told at once, and never sees a broken answer as a whole one."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
import zlib
from typing import Any

import pytest

from tests.e2e.conftest import Scripted
from tests.e2e.raw_http import RawAnswer, send
from tests.e2e.talk import ask, completion, exchanges, kept, sessions, tell
from tests.service_fixture import Service

JSON = (b"Content-Type", b"application/json")
CHAT = "/v1/chat/completions"
BODY = json.dumps({"model": "fake-model", "messages": [{"role": "user", "content": "say: a b c d e f g h"}]}).encode()
ROUTES = [("POST", CHAT, BODY), ("POST", "/v1/completions", b'{"prompt":"x"}'), ("GET", "/anything", None)]


def unreachable(answer: RawAnswer) -> bool:
    error = json.loads(answer.body)["error"]
    return (answer.status, error["type"], error["code"]) == (502, "memory_proxy_error", "upstream_unreachable")


@pytest.mark.parametrize(("method", "target", "body"), ROUTES)
def test_upstream_that_refuses_is_502_at_once(scripted: Scripted, method: str, target: str, body: bytes | None) -> None:
    scripted.upstream.close()
    try:
        assert unreachable(send(scripted.service.url, method, target, [JSON], body))
    finally:
        scripted.upstream.open()
    scripted.upstream.then(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert send(scripted.service.url, "GET", "/again").body == b"ok"


def test_service_without_upstream_is_ready_and_says_so(scripted: Scripted) -> None:
    scripted.upstream.close()
    try:
        assert scripted.service.call("GET", "/memory/ready")["status"] in ("ok", "degraded")
        assert scripted.service.call("GET", "/memory/health") is not None
    finally:
        scripted.upstream.open()


def test_an_upstream_that_is_this_proxy_itself_is_refused_and_told(own_service: Any) -> None:
    """One request was 4,096, and so was each look at the upstream's health: until `limits.requests_max` refused one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    with own_service("--port", port, "--upstream", f"http://localhost:{port}") as service:
        for method, target, body in ROUTES:
            answer = send(service.url, method, target, [JSON], body)
            assert unreachable(answer)
            assert "this proxy itself listens there" in json.loads(answer.body)["error"]["message"]
        seen = service.call("GET", "/memory/ready")["dependencies"]["upstream"]
    assert not seen["ok"]
    assert "this proxy itself" in seen["error"]


@pytest.mark.parametrize(("method", "target", "body"), ROUTES)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_upstream_that_dies_before_its_first_byte_is_502(
    scripted: Scripted, method: str, target: str, body: bytes | None, reset: bool
) -> None:
    scripted.upstream.then(reset=reset)
    scripted.upstream.then(reset=reset)  # a GET may be tried again on a new connection
    assert unreachable(send(scripted.service.url, method, target, [JSON], body))


@pytest.mark.parametrize(
    "piece", [b"HTTP/1.1 2", b"garbage\r\n\r\n", b"HTTP/1.1 999999 Odd\r\n\r\n", b"HTTP/1.1 200 OK\r\nNo-End: 1\r\n"]
)
def test_answer_that_is_no_http_is_502(scripted: Scripted, piece: bytes) -> None:
    for _ in range(2):
        scripted.upstream.then(piece)
    assert unreachable(send(scripted.service.url, "POST", CHAT, [JSON], BODY))


def test_post_is_sent_once_only(scripted: Scripted) -> None:
    scripted.upstream.then()
    assert unreachable(send(scripted.service.url, "POST", CHAT, [JSON], BODY))
    assert len(scripted.upstream.seen) == 1


HALVES = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{" + b" " * 100,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "inside a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello",
    "events": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'1e\r\ndata: {"choices":[{"delta":{}}\r\n',
}


@pytest.mark.parametrize(("method", "target", "body"), ROUTES)
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_upstream_that_dies_midway_cuts_the_client(
    scripted: Scripted, method: str, target: str, body: bytes | None, half: str, reset: bool
) -> None:
    scripted.upstream.then(HALVES[half], b"", pause_s=0.05, reset=reset)
    answer = send(scripted.service.url, method, target, [JSON], body)
    assert answer.status == 200
    assert not answer.whole


@pytest.mark.parametrize("stream", [True, False])
async def test_stand_in_that_dies_midway_cuts_the_client_and_the_exchange_is_failed(
    service: Service, user: str, stream: bool
) -> None:
    more: dict[str, Any] = {"body": {"stream": stream}, "x_fake_die_after": "4"}
    said = await asyncio.to_thread(ask, service, "Tell me.\nsay: a b c d e f g h", user, **more)
    assert said.status == 200
    assert not said.raw.whole
    assert said.raw.body
    assert [(row["status"], row["reason"]) for row in await kept(service, user)] == [("failed", "upstream_died")]


@pytest.mark.parametrize("content_type", [b"text/event-stream", b"application/json"])
async def test_answer_whose_framing_breaks_cuts_the_client_and_the_exchange_is_failed(
    scripted: Scripted, user: str, content_type: bytes
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + content_type + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'
    pieces = [head, b"%x\r\n%b\r\n" % (len(event), event), b"ZZZ\r\n"]
    scripted.upstream.then(*pieces, pause_s=0.1, keep=True)  # it waits for another request and does not hang up
    said = await asyncio.to_thread(ask, scripted.service, "Tell me.", user, body={"stream": True})
    assert (said.status, said.raw.whole) == (200, False)
    rows = await kept(scripted.service, user)
    assert [(row["status"], row["reason"]) for row in rows] == [("failed", "upstream_died")]


async def test_error_event_mid_stream_passes_and_the_exchange_is_failed(service: Service, user: str) -> None:
    more: dict[str, Any] = {"body": {"stream": True}, "x_fake_error_after": "4"}
    said = await asyncio.to_thread(ask, service, "Tell me.\nsay: a b c d e f g h", user, **more)
    assert said.raw.whole
    assert b'"Internal server error"' in said.raw.body
    assert said.raw.body.endswith(b"data: [DONE]\n\n")
    await asyncio.to_thread(service.settle)
    assert [row["status"] for row in await exchanges(service, user)] == ["failed"]


async def test_stream_that_ends_without_its_final_event_passes_and_is_failed(scripted: Scripted, user: str) -> None:
    event = b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'
    scripted.upstream.then(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event)
    said = await asyncio.to_thread(ask, scripted.service, "Tell me.", user, body={"stream": True})
    assert said.raw.body == event
    assert [row["status"] for row in await kept(scripted.service, user)] == ["failed"]


def test_idle_connection_that_the_upstream_closed_costs_nobody_an_answer(scripted: Scripted) -> None:
    """vLLM closes idle connections after 5 s; the next request must not meet the dead one."""
    for _ in range(5):
        scripted.upstream.then(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        assert send(scripted.service.url, "POST", "/x", [], b"1").body == b"ok"
        # A close that is still under way when the next request is sent is another matter: nobody could know, and a
        # POST must not be sent twice (RFC 9110 section 9.2.2). The pool lets go of a connection before vLLM does.
        time.sleep(0.1)


async def test_answer_that_is_no_chat_completion_passes(scripted: Scripted, user: str) -> None:
    odd = [
        b"[]",
        b"not json",
        b'{"choices":7}',
        b'{"choices":[null,7,{}]}',
        b'{"choices":[{"index":"x","message":[]}]}',
        b'{"choices":[{"index":-1,"message":{"role":7,"content":{"a":1},"tool_calls":[7]}}],"usage":"x","id":7}',
        b'{"choices":[{"index":99999999999999999999,"message":{"role":"assistant","content":"\\ud800 \\u0000"}}]}',
        b"",
    ]
    for body in odd:
        scripted.upstream.then_whole(body)
        said = await asyncio.to_thread(ask, scripted.service, f"What is {len(body)}?", user)
        assert (said.status, said.raw.body, said.raw.whole) == (200, body, True)
    await asyncio.to_thread(scripted.service.settle)
    assert len(await exchanges(scripted.service, user)) == len(odd)
    assert scripted.service.call("GET", "/memory/v1/queue")["dead"] == 0
    assert await asyncio.to_thread(sessions, scripted.service, user)


def test_an_error_answer_names_no_record_that_is_not_kept(scripted: Scripted, user: str) -> None:
    scripted.upstream.then_whole(b"no", "429 Busy", b"Retry-After: 3\r\n")
    said = ask(scripted.service, "hello", user)
    assert (said.status, said.memory("capture"), said.memory("retrieval")) == (429, "off", None)


FACT = "The lighthouse keeper of Norrvik hides the spare key inside the bell."
ASKED = "Where does the lighthouse keeper of Norrvik hide the spare key?"
OVERFLOWS = [
    ("gzip", "This model's maximum context length is 8192 tokens. However, your prompt contains 8193 input tokens."),
    ("deflate", "Input length (8300) exceeds model's maximum context length (8192)."),
    ("identity", "The decoder prompt (length 8300) is longer than the maximum model length of 8192."),
    ("identity", "max_tokens must be at least 1, got 0."),
    (
        "identity",
        "You passed 8193 input tokens and requested 0 output tokens. However, the model's context length is only 8192 "
        "tokens, resulting in a maximum input length of 8192 tokens. Please reduce the length of the input prompt.",
    ),
    ("identity", "The prompt (total length 8300) is too long to fit into the model (context length 8192)."),
]


@pytest.mark.parametrize(
    ("encoding", "message"), OVERFLOWS, ids=["gzip", "deflate", "images", "no room", "0.17", "0.7"]
)
def test_a_prompt_that_our_block_made_too_long_is_sent_without_it_however_that_is_said(
    scripted: Scripted, user: str, encoding: str, message: str
) -> None:
    scripted.upstream.then_json(completion("Noted."))
    tell(scripted.service, FACT, user)
    said = json.dumps({"error": {"message": message, "type": "BadRequestError", "code": 400}}).encode()
    packed = {"gzip": gzip.compress(said), "deflate": zlib.compress(said), "identity": said}[encoding]
    head = b"Content-Type: application/json\r\nContent-Encoding: %b\r\n" % encoding.encode()
    scripted.upstream.then_whole(packed, "400 Bad Request", head)
    scripted.upstream.then_json(completion("Inside the bell."))
    answer = ask(scripted.service, ASKED, user)
    assert (answer.status, answer.memory("status")) == (200, "degraded; reason=overflow"), answer
    assert answer.text == "Inside the bell."
    with_block, without = list(scripted.upstream.seen)[-2:]
    assert b"inside the bell" in with_block.body and b"inside the bell" not in without.body


def test_an_error_answer_that_cannot_be_read_passes_as_it_came(scripted: Scripted, user: str) -> None:
    scripted.upstream.then_json(completion("Noted."))
    tell(scripted.service, FACT, user)
    for encoding in (b"gzip", b"zstd"):
        scripted.upstream.then_whole(b"\x1f\x8bbroken", "400 Bad Request", b"Content-Encoding: %b\r\n" % encoding)
        answer = ask(scripted.service, ASKED, user)
        assert (answer.status, answer.raw.body) == (400, b"\x1f\x8bbroken")
