"""Limits against abuse: too much, too slow, ambiguous or compressed is refused by name, and nobody else notices.

One service with small bounds for all of it.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.e2e.raw_http import RawAnswer, chunked, connect, exchange, read_answer, request_bytes, send
from tests.e2e.talk import MODEL
from tests.service_fixture import Service, serving

pytestmark = pytest.mark.long  # a service of its own

CHAT = "/v1/chat/completions"
JSON = (b"Content-Type", b"application/json")
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
BODY = json.dumps({"model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}).encode()


@pytest.fixture(scope="module")
def bounded(upstream: str) -> Iterator[Service]:
    """A service with small bounds."""
    given = {
        "BODY_BYTES_MAX": "200000",
        "BODIES_BYTES_MAX": "300000",
        "MESSAGES_MAX": "50",
        "HEADERS_MAX": "40",
        "HEAD_TIMEOUT_S": "1",
        "BODY_IDLE_TIMEOUT_S": "1",
        "REQUESTS_PER_USER_MAX": "1",
        "SESSIONS_PER_USER_HOUR": "3",
    }
    env = {f"MEMORY_PROXY_LIMITS__{name}": value for name, value in given.items()}
    with serving(upstream, env=env) as service:
        yield service


def code_of(answer: RawAnswer) -> str:
    return str(json.loads(answer.body)["error"]["code"])


def well(service: Service, user: str = "well", session: str = "one") -> bool:
    """Whether an ordinary request is answered."""
    named = [JSON, (b"X-Memory-User", user.encode()), (b"X-Memory-Session", session.encode())]
    return send(service.url, "POST", CHAT, named, BODY).status == 200


def test_a_body_over_its_bound_is_413_before_it_is_read(bounded: Service) -> None:
    answer = exchange(bounded.url, HEAD + b"Content-Length: 99999999\r\n\r\n", method="POST")
    assert (answer.status, code_of(answer)) == (413, "too_large")
    assert well(bounded)


def test_a_chunked_body_over_its_bound_is_413_when_it_is(bounded: Service) -> None:
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    answer = exchange(bounded.url, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 5, method="POST")
    assert (answer.status, code_of(answer)) == (413, "too_large")


def test_bodies_that_are_too_much_together_are_429_until_one_of_them_ends(bounded: Service) -> None:
    head = HEAD + b"X-Memory-User: bulky\r\nContent-Length: 199999\r\n\r\n"
    with connect(bounded.url) as first, connect(bounded.url) as second:
        first.sendall(head + b" " * 180_000)
        time.sleep(0.3)  # it is read
        second.sendall(head + b" " * 180_000)
        answer = read_answer(second, method="POST")
        assert (answer.status, code_of(answer)) == (429, "rate_limited")
        assert b"bodies_bytes_max" in answer.body and answer.values(b"Retry-After") == [b"1"]
        assert well(bounded, "slim")
    until = time.monotonic() + 5  # the first has gone in the middle of its body
    while (status := exchange(bounded.url, head + b" " * 199_999, method="POST").status) == 429:
        assert time.monotonic() < until
    assert status == 400  # what is no JSON is vLLM's to refuse


def opened(service: Service) -> socket.socket:
    """A WebSocket whose handshake is done."""
    made = connect(service.url)
    made.sendall(
        b"GET /v1/realtime?model=fake-model HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert made.recv(65_536).startswith(b"HTTP/1.1 101 ")
    return made


def frame(size: int, kind: int = 0x82) -> bytes:
    """The head and mask of a client's frame of so many bytes, which follow, all zero. `kind` 0x82: a whole message."""
    length = bytes([0x80 | size]) if size < 126 else b"\xff" + size.to_bytes(8, "big")
    return bytes([kind]) + length + bytes(4)


def echoed(made: socket.socket, size: int) -> None:
    """A message of so many bytes goes and comes back."""
    made.sendall(frame(size) + bytes(size))
    left = size + (2 if size < 126 else 4 if size < 65_536 else 10)
    while left:
        left -= len(made.recv(left))


def test_messages_of_websockets_that_are_not_whole_are_bounded_together(bounded: Service) -> None:
    """Each was held to its end, 64 MiB, whatever others there were."""
    with opened(bounded) as first, opened(bounded) as second, opened(bounded) as third:
        for _ in range(8):
            first.sendall(frame(9, 0x89) + bytes(9))  # a ping
            assert len(first.recv(11)) == 11
            echoed(first, 150_000)  # what was carried is held no more
        first.sendall(frame(200_000) + bytes(180_000))
        time.sleep(0.3)  # it is read
        with contextlib.suppress(ConnectionError):
            second.sendall(frame(200_000) + bytes(180_000))
            assert second.recv(1) == b"", "the one for which there is no room is cut"
        echoed(third, 50_000)
        first.sendall(bytes(20_000))
        assert first.recv(4) == b"\x82\x7f\0\0"
    lines = [line for line in bounded.log.read_text().splitlines() if "route=websocket" in line]
    assert any("outcome=refused code=rate_limited" in line for line in lines), lines


def test_too_many_messages_are_413(bounded: Service) -> None:
    messages = [{"role": "user", "content": "x"}] * 51
    answer = send(bounded.url, "POST", CHAT, [JSON], json.dumps({"model": MODEL, "messages": messages}).encode())
    assert (answer.status, code_of(answer)) == (413, "too_large")


@pytest.mark.parametrize(
    "head",
    [b"X-Long: " + b"secret-value" * 8_000 + b"\r\n", b"".join(b"X-%d: 1\r\n" % n for n in range(60))],
    ids=["one too long", "too many"],
)
def test_too_large_a_head_is_431_and_nothing_of_it_is_repeated(bounded: Service, head: bytes) -> None:
    answer = exchange(bounded.url, HEAD + head + b"\r\n", method="POST")
    assert (answer.status, code_of(answer)) == (431, "too_large")
    assert b"secret-value" not in answer.body
    assert "secret-value" not in bounded.log.read_text(errors="replace")


AMBIGUOUS = {
    "length and chunked": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "a list of lengths": b"Content-Length: 5, 6\r\n\r\nhello!",
    "a signed length": b"Content-Length: +5\r\n\r\nhello",
    "a length of letters": b"Content-Length: 0x5\r\n\r\nhello",
    "chunked not last": b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "another encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"X-One: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a space before the colon": b"Content-Length : 0\r\n\r\n",
    "a chunk size of letters": b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
    "a negative chunk": b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    "a chunk size beyond all": b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "a bare line feed": b"Content-Length: 0\nX: y\r\n\r\n",
    "a NUL in a header": b"X-One: a\0b\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
def test_a_body_in_a_transfer_coding_that_is_not_undone_is_refused(bounded: Service, path: str) -> None:
    """The coding is of one hop: sent on without its name, compressed bytes would be read as the body itself."""
    packed = gzip.compress(b'{"model": "m", "messages": []}')
    head = b"POST " + path.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
    answer = exchange(bounded.url, head + chunked([packed]), method="POST")
    assert (answer.status, code_of(answer)) == (415, "memory_invalid"), answer
    assert json.loads(answer.body)["error"]["param"] == "Transfer-Encoding"


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_two_servers_could_read_two_ways_is_400(bounded: Service, upstream: str, name: str) -> None:
    """And what comes behind it on the connection is not read as a request of its own."""
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = exchange(bounded.url, HEAD + AMBIGUOUS[name] + smuggled, method="POST")
    assert answer.status == 400, answer
    assert well(bounded)


@pytest.mark.parametrize("target", [b"@127.0.0.1:1/x", b":80@127.0.0.1:1/x", b"*", b"127.0.0.1:1", b"//127.0.0.1:1/x"])
@pytest.mark.parametrize("method", [b"GET", b"OPTIONS", b"CONNECT"])
def test_no_target_leads_to_another_host(bounded: Service, method: bytes, target: bytes) -> None:
    """Port 1 refuses every connection: an attempt to go there would be 502."""
    raw = method + b" " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert exchange(bounded.url, raw, method=method.decode()).status != 502
    assert well(bounded)


def test_an_absolute_target_goes_to_the_upstream_all_the_same(bounded: Service) -> None:
    raw = b"GET http://127.0.0.1:1/v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = exchange(bounded.url, raw)
    assert answer.status == 200 and MODEL.encode() in answer.body


def closed_within(sock: socket.socket, seconds: float) -> bool:
    sock.settimeout(seconds)
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False


def test_a_head_that_never_ends_is_cut(bounded: Service) -> None:
    with connect(bounded.url) as sock:
        sock.sendall(HEAD)
        assert closed_within(sock, 20)
    with connect(bounded.url) as sock:  # nothing at all
        assert closed_within(sock, 20)
    assert well(bounded)


def connect_failures(service: Service) -> str:
    """How often vLLM could not be reached, as the metrics have it; none counted yet is no line."""
    with urllib.request.urlopen(f"{service.url}/memory/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return next((line for line in lines if 'upstream_failures_total{phase="connect"}' in line), "")


PASSED = HEAD.replace(b"/v1/chat/completions", b"/mirror/x")


@pytest.mark.parametrize("head", [HEAD, PASSED], ids=["chat", "passed through"])
def test_a_body_that_stops_in_its_middle_is_408_and_vllm_is_not_blamed(bounded: Service, head: bytes) -> None:
    before = connect_failures(bounded)
    with connect(bounded.url) as sock:
        sock.sendall(head + b"Content-Length: 1000\r\n\r\n{")
        answer = read_answer(sock, method="POST")
        assert closed_within(sock, 5)
    assert (answer.status, code_of(answer)) == (408, "timeout")
    time.sleep(1.2)  # counts are written once a second
    assert connect_failures(bounded) == before
    assert "Unhandled exception" not in bounded.log.read_text(errors="replace")


@pytest.mark.parametrize("head", [HEAD, PASSED], ids=["chat", "passed through"])
@pytest.mark.parametrize("broken", [b"zz\r\nxx", b"5\r\nhelloX"], ids=["size", "end"])
def test_a_body_whose_framing_breaks_in_its_middle_is_400_at_once(bounded: Service, head: bytes, broken: bytes) -> None:
    with connect(bounded.url) as sock:
        sock.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        time.sleep(0.2)
        began = time.monotonic()
        sock.sendall(broken)
        answer = read_answer(sock, method="POST")
        assert time.monotonic() - began < 0.8  # and not when the client has been silent for a second
        assert closed_within(sock, 5)
    assert (answer.status, code_of(answer)) == (400, "memory_invalid")
    assert "Unhandled exception" not in bounded.log.read_text(errors="replace")
    assert well(bounded)


def test_a_slow_but_honest_body_is_answered(bounded: Service) -> None:
    """Longer than both bounds altogether, and never silent for one of them."""
    raw = request_bytes("POST", CHAT, [JSON, (b"X-Memory-User", b"slow"), (b"Connection", b"close")], BODY)
    with connect(bounded.url) as sock:
        for at in range(0, len(raw), max(len(raw) // 9, 1)):
            sock.sendall(raw[at : at + max(len(raw) // 9, 1)])
            time.sleep(0.1 if at < raw.find(b"\r\n\r\n") else 0.3)
        assert read_answer(sock, method="POST").status == 200


@pytest.mark.parametrize("mode", [b"on", b"off"])
def test_one_user_too_often_at_once_is_429_and_others_are_served(bounded: Service, mode: bytes) -> None:
    body = json.dumps(
        {"model": MODEL, "max_tokens": 4000, "stream": True, "messages": [{"role": "user", "content": "tell me"}]}
    ).encode()
    # Slow, since buffers may hold all of a fast answer that nobody reads: then it is over, and not at once.
    slow = (b"x-fake-token-ms", b"30")
    greedy = [(b"X-Memory-User", b"greedy-" + mode), (b"X-Memory-Mode", mode)]
    raw = request_bytes("POST", CHAT, [JSON, slow, *greedy], body)
    with connect(bounded.url) as sock:
        sock.sendall(raw)
        assert sock.recv(64).startswith(b"HTTP/1.1 200")
        answer = send(bounded.url, "POST", CHAT, [JSON, *greedy], BODY)
        assert (answer.status, code_of(answer)) == (429, "rate_limited")
        assert dict((name.lower(), value) for name, value in answer.headers)[b"retry-after"] == b"1"
        assert well(bounded, "modest")


def test_a_conversation_too_many_in_an_hour_is_429_and_the_old_ones_go_on(bounded: Service) -> None:
    assert all(well(bounded, "chatty", f"s{n}") for n in range(3))
    named = [JSON, (b"X-Memory-User", b"chatty"), (b"X-Memory-Session", b"s3")]
    answer = send(bounded.url, "POST", CHAT, named, BODY)
    assert (answer.status, code_of(answer)) == (429, "rate_limited")
    assert well(bounded, "chatty", "s1")


def test_a_bomb_is_not_expanded(bounded: Service, upstream: str) -> None:
    """vLLM gets the bytes as they came, and our own calls refuse them by name."""
    bomb = gzip.compress(b" " * 50_000_000)
    packed = [JSON, (b"Content-Encoding", b"gzip")]
    through, direct = (send(url, "POST", CHAT, packed, bomb).status for url in (bounded.url, upstream))
    assert through == direct
    own = send(bounded.url, "POST", "/memory/v1/search", packed, bomb)
    assert own.status == 422 and b"uncompressed" in own.body


def test_our_own_answers_tell_a_browser_to_be_careful_and_nothing_is_open_to_other_sites(bounded: Service) -> None:
    for path in ("/memory/health", "/memory/openapi.json", "/memory/nowhere", "/memory/v1/export"):
        said = send(bounded.url, "GET", path, [(b"Origin", b"https://evil.example")])
        headers = {name.lower(): value for name, value in said.headers}
        assert headers[b"x-content-type-options"] == b"nosniff" and headers[b"x-frame-options"] == b"DENY"
        assert b"frame-ancestors 'none'" in headers[b"content-security-policy"]
        assert not [name for name in headers if name.startswith(b"access-control-")]
    asked = [(b"Origin", b"https://evil.example"), (b"Access-Control-Request-Method", b"POST")]
    preflight = send(bounded.url, "OPTIONS", "/memory/v1/search", asked)
    assert preflight.status == 405
    assert not [name for name, _ in preflight.headers if name.lower().startswith(b"access-control-")]


def test_vllms_answers_gain_no_header_of_that_kind(bounded: Service) -> None:
    answer = send(bounded.url, "GET", "/v1/models")
    assert b"x-frame-options" not in {name.lower() for name, _ in answer.headers}
