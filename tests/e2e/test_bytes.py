"""Transparency, byte for byte: the same request straight to the upstream and through the proxy, on bare sockets."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.conftest import Scripted
from tests.e2e.raw_http import (
    HOP_BY_HOP,
    Pairs,
    RawAnswer,
    chunked,
    connect,
    exchange,
    read_answer,
    read_head,
    request_bytes,
    send,
)
from tests.e2e.talk import ask, tell
from tests.e2e.upstreams import Seen, last
from tests.service_fixture import Service

JSON = (b"Content-Type", b"application/json")
OFF = (b"X-Memory-Mode", b"off")
CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Case:
    """One request; `fixed` are its headers."""

    method: str
    target: str
    headers: Pairs = ()
    body: bytes | None = None
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.name or f"{self.method} {self.target[:50]}"


def chat_body(text: str = "say: hello there, world", **more: object) -> bytes:
    return json.dumps({"model": "fake-model", "messages": [{"role": "user", "content": text}], **more}).encode()


def ways(service: Service, upstream: str, case: Case) -> tuple[list[RawAnswer], RawAnswer]:
    """The answer straight from the upstream before and after, and the one through the proxy in between."""

    def straight() -> RawAnswer:
        return send(upstream, case.method, case.target, case.headers, case.body)

    straight()  # fills the prefix cache, so that usage is the same from here on
    before = straight()
    through = send(service.url, case.method, case.target, [*case.headers, OFF], case.body)
    return [before, straight()], through


def assert_same(direct: list[RawAnswer], through: RawAnswer) -> None:
    """`created` moves on each second, so the proxied answer must equal the one before it or the one behind it."""
    assert through.status == direct[0].status, through
    assert through.reason == direct[0].reason
    assert through.end_to_end() == direct[0].end_to_end()
    assert through.body in [answer.body for answer in direct]
    assert through.whole == direct[0].whole


ID = (b"X-Request-Id", b"fixed-0001")


def reply(*headers: bytes, status: int = 200) -> Pairs:
    return [ID, (b"x-fake-status", b"%d" % status), *((b"x-fake-reply-header", header) for header in headers)]


MEMORY_TOO = b'{"model":"fake-model","prompt":"x","messages":[{"role":"user","content":"x"}],"memory":{"mode":"on"}}'
SAME_ROUTE = [
    "/v1/chat/completion%73",
    "/v1/chat%2Fcompletions",
    "/%76%31/chat/completions?x=%2F",
    "/v1/%63ompletions",
    "/inference/v1%2Fgenerate",
    CHAT + "%0A",
]
OTHER_ROUTE = [
    "/v1/chat/completion%2573",
    "//v1/chat/completions",
    "/v1//completions",
    "/v1/./completions",
    CHAT + "%20",
    CHAT + "%0A%0A",
    "/v1/models/two%0Alines%0D",
]


@pytest.mark.parametrize("target", SAME_ROUTE)
def test_a_route_that_is_spelled_otherwise_is_the_route_that_vllm_serves(scripted: Scripted, target: str) -> None:
    scripted.upstream.then_json({"choices": []})
    answer = send(scripted.service.url, "POST", target, [JSON], MEMORY_TOO)
    assert answer.status == 200 and answer.text("x-memory-status") is not None
    assert scripted.upstream.seen[-1].target == target
    assert b'"memory"' not in scripted.upstream.seen[-1].body


@pytest.mark.parametrize("target", OTHER_ROUTE)
def test_a_path_that_vllm_knows_no_route_for_passes_as_it_is(scripted: Scripted, target: str) -> None:
    scripted.upstream.then_json({"detail": "Not Found"}, "404 Not Found")
    answer = send(scripted.service.url, "POST", target, [JSON], MEMORY_TOO)
    assert answer.status == 404 and answer.text("x-memory-status") is None
    assert (scripted.upstream.seen[-1].target, scripted.upstream.seen[-1].body) == (target, MEMORY_TOO)


OTHER_ROUTES = [
    Case("GET", "/v1/models", [ID]),
    Case("HEAD", "/v1/models", [ID]),
    Case("GET", "/version", [ID]),
    Case("GET", "/health", [ID]),
    Case("GET", "/load", [ID]),
    Case("POST", "/ping", [ID]),
    Case("POST", "/ping", [ID], b""),
    Case("GET", "/nowhere?x=1", [ID]),
    Case("GET", CHAT, [ID]),
    Case("DELETE", CHAT, [ID]),
    Case("OPTIONS", CHAT, [ID, (b"Origin", b"http://x"), (b"Access-Control-Request-Method", b"POST")]),
    Case("POST", CHAT + "/", [ID, JSON], chat_body()),
    Case("POST", "/v1/embeddings", [ID, JSON], b'{"model":"fake-model","input":["a","b"]}'),
    Case("POST", "/tokenize", [ID, JSON], b'{"prompt":"one two three"}'),
    Case("POST", "/detokenize", [ID, JSON], b'{"tokens":[97]}'),
    Case("POST", "/v1/messages/count_tokens", [ID, JSON], b'{"messages":[{"role":"user","content":"hi"}]}'),
    Case("PATCH", "/mirror/patch", [ID], b"patched"),
    Case("PUT", "/mirror/put", [ID], bytes(range(256)) * 9),
    Case("DELETE", "/mirror/delete", [ID], b"with a body"),
    Case("PROPFIND", "/mirror/dav", [ID]),
    *(
        Case("POST", "/mirror/s", reply(status=status), b"body", name=f"status {status}")
        for status in (200, 201, 202, 203, 206, 299, 301, 302, 307, 308, 400, 401, 403, 404, 409, 418, 422, 429)
    ),
    *(Case("POST", "/mirror/s", reply(status=s), b"body", name=f"status {s}") for s in (500, 501, 502, 503, 504, 599)),
    Case("GET", "/mirror/empty", reply(status=204), name="204"),
    Case("GET", "/mirror/unchanged", reply(b'ETag: "x"', status=304), name="304"),
    Case("HEAD", "/mirror/head", reply(b"X-A: 1")),
    Case("POST", "/mirror/r", reply(b"Location: /elsewhere?a=b", status=302), b"x", name="redirect"),
    Case("POST", "/mirror/c", reply(b"Set-Cookie: a=1; Path=/", b"Set-Cookie: b=2"), b"x", name="two cookies"),
    Case("POST", "/mirror/c", reply(b"X-oDD-CaSe: Kept", b'ETag: W/"1"'), b"x", name="case of names"),
    Case("POST", "/mirror/l", reply(b"X-Long: " + b"v" * 60_000), b"x", name="60 KB answer header"),
    Case("POST", "/mirror/e", reply(b"X-Empty:"), b"x", name="empty header"),
    Case("POST", "/mirror/z", reply(b"Content-Encoding: gzip"), gzip.compress(b"z" * 9999, mtime=0), name="gzip"),
    Case("POST", "/mirror/b", reply(b"Content-Encoding: br"), b"not brotli at all", name="unknown coding"),
    Case("POST", "/mirror/ct", reply(b"Content-Type: text/event-stream"), b"data: [DONE]\n\n", name="events"),
    Case("POST", "/mirror/10mb", [ID], random.Random(1).randbytes(10_000_000), name="10 MB both ways"),
]

GENERATION = [
    *(
        Case("POST", CHAT, [ID, JSON, *(fault)], chat_body(stream=stream), name=f"chat {stream=} {fault}")
        for stream in (False, True)
        for fault in (
            [],
            [(b"x-fake-gzip", b"1")],
            [(b"x-fake-split", b"7")],
            [(b"x-fake-status", b"429"), (b"x-fake-retry-after", b"17")],
            [(b"x-fake-status", b"503")],
            [(b"x-fake-reasoning", b"5")],
        )
    ),
    Case("POST", CHAT, [ID, JSON, (b"x-fake-keep-alive", b"2")], chat_body(stream=True), name="keep-alive"),
    Case("POST", CHAT, [ID, JSON, (b"x-fake-error-after", b"3")], chat_body(stream=True), name="error event"),
    Case("POST", CHAT, [ID, JSON], chat_body(stream=True, stream_options={"include_usage": True}), name="usage"),
    Case("POST", CHAT, [ID, JSON], chat_body(stream=True, n=3), name="n=3"),
    Case("POST", CHAT, [ID, JSON], chat_body(return_token_ids=True), name="token ids"),
    Case("POST", CHAT, [ID, JSON], b'{"broken', name="malformed"),
    Case("POST", CHAT, [ID, JSON], b"", name="empty body"),
    Case("POST", CHAT, [ID], chat_body(), name="no content type"),
    Case("POST", CHAT, [ID, JSON], b'{"model":"other","messages":[]}', name="unknown model"),
    Case("POST", "/v1/completions", [ID, JSON], b'{"prompt":"say: a b","stream":true}', name="completions"),
    Case("POST", "/v1/completions", [ID, JSON], b'{"prompt":"say: a b"}', name="completions whole"),
    Case("POST", "/v1/responses", [ID, JSON], b'{"input":"say: a b","stream":true}', name="responses"),
    Case(
        "POST",
        "/v1/messages",
        [ID, JSON],
        b'{"max_tokens":9,"messages":[{"role":"user","content":"say: a b"}],"stream":true}',
        name="messages",
    ),
    Case("POST", "/invocations", [ID, JSON], b'{"x":1}', name="invocations"),
    Case("POST", "/v1/chat/completions/batch", [ID, JSON], b'{"x":1}', name="batch"),
    Case("POST", "/inference/v1/generate", [ID, JSON], b'{"token_ids":[97],"sampling_params":{}}', name="token-in"),
    Case("POST", "/v1/chat/completions/render", [ID, JSON], b'{"x":1}', name="render"),
]


@pytest.mark.parametrize("case", OTHER_ROUTES, ids=str)
def test_answer_of_any_other_route_is_the_upstreams_byte_for_byte(service: Service, upstream: str, case: Case) -> None:
    direct, through = ways(service, upstream, case)
    assert_same(direct, through)
    assert not [name for name, _ in through.headers if name.lower().startswith(b"x-memory-")]


_VARIES = ("/v1/responses", "/v1/messages")  # their ids and times are drawn anew for each answer


@pytest.mark.parametrize("case", GENERATION, ids=str)
def test_answer_of_a_generation_route_is_the_upstreams_byte_for_byte(
    service: Service, upstream: str, case: Case
) -> None:
    direct, through = ways(service, upstream, case)
    if case.target in _VARIES and direct[0].body != direct[1].body:
        assert len(through.body) == len(direct[0].body)
        assert through.end_to_end() == direct[0].end_to_end()
        return
    assert_same(direct, through)


# ---------------------------------------------------------------- what the upstream receives


def arrived(answer: RawAnswer) -> Seen:
    """What the stand-in's /echo says it received."""
    said = json.loads(answer.body)
    pairs = tuple((name, value) for name, value in said["headers"])
    return Seen(said["method"], said["target"], pairs, b"", said["sha256"], said["length"])


def end_to_end(seen: Seen, *more: str) -> list[tuple[str, str]]:
    """Headers in order, less hop-by-hop and Host."""
    left_out = {name.decode() for name in HOP_BY_HOP} | {"host", *more}
    return [(name, value) for name, value in seen.headers if name.lower() not in left_out]


TARGETS = [
    "/echo/plain",
    "/echo/a%2Fb/..%2f/%2e%2e/c//d///",
    "/echo/./x/../y",
    "/echo/;p=1;q/x;y=2,3",
    "/echo/%E4%BD%A0%e5%a5%bd?q=%E4%BD%A0&r=%zz&s=%",
    '/echo/q?a=1&a=2&&=&b&c==&d=+%20+&e[]=1&f={x}|y^z`\\"<>',
    "/echo/q?http://host/path?x#no".replace("#no", "%23"),
    "/echo/?x=1?y=2?z",
    "/echo/" + "p" * 4000 + "?" + "q" * 4000,
    "/echo/:8080/@user:pass@/$&'()*+,;=~-._!",
    "/echo//evil.test/x",
]


@pytest.mark.parametrize("target", TARGETS)
def test_path_and_query_arrive_undecoded(service: Service, upstream: str, target: str) -> None:
    direct, through = (arrived(send(url, "GET", target)) for url in (upstream, service.url))
    assert through.target == direct.target == target


def test_absolute_form_of_the_target_is_the_same_request(service: Service) -> None:
    assert arrived(send(service.url, "GET", "http://elsewhere.test/echo/abs?x=%41")).target == "/echo/abs?x=%41"


HEADERS: Pairs = [
    (b"user-agent", b"e2e/1.0 (odd; \xc3\xa9)"),
    (b"X-B", b"2"),
    (b"x-a", b"1"),
    (b"X-REPEATED", b"one"),
    (b"Authorization", b"Bearer sk-own-key"),
    (b"X-Repeated", b"two, three"),
    (b"Cookie", b"a=1; b=2"),
    (b"cookie", b"c=3"),
    (b"Accept", b"*/*"),
    (b"ACCEPT-ENCODING", b"br;q=0.1, gzip"),
    (b"X-Forwarded-For", b"10.0.0.1"),
    (b"X-Inner-Space", b"a  b\tc"),
    (b"X-Empty", b""),
    (b"Traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    (b"Range", b"bytes=0-"),
    (b"If-None-Match", b'"etag"'),
    (b"X-Request-Id", b"abc"),
]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
def test_request_headers_arrive_in_order_with_their_case(service: Service, upstream: str, method: str) -> None:
    body = b"body" if method != "GET" else None
    direct, through = (arrived(send(url, method, "/echo/h", HEADERS, body)) for url in (upstream, service.url))
    assert end_to_end(through) == end_to_end(direct)
    assert (through.sha256, through.length) == (direct.sha256, direct.length)


def test_no_header_is_added_to_a_request_that_has_none(service: Service) -> None:
    assert end_to_end(arrived(send(service.url, "GET", "/echo/none"))) == []


def test_hop_by_hop_and_memory_headers_do_not_arrive(service: Service) -> None:
    given_headers: Pairs = [
        (b"Connection", b"keep-alive, X-Named"),
        (b"X-Named", b"by connection"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Proxy-Authorization", b"Basic x"),
        (b"TE", b"trailers"),
        (b"X-Memory-User", b"someone"),
        (b"x-memory-anything", b"else"),
        (b"X-Kept", b"yes"),
    ]
    assert end_to_end(arrived(send(service.url, "GET", "/echo/hop", given_headers))) == [("X-Kept", "yes")]


def test_header_of_60_kb_arrives(service: Service) -> None:
    long = b"v" * 60_000
    assert dict(arrived(send(service.url, "GET", "/echo/long", [(b"X-Long", long)])).headers)["X-Long"] == long.decode()


@pytest.mark.parametrize("target", ["/echo/upload", "/v1/audio/transcriptions"])
def test_multipart_upload_arrives_as_it_was_sent(service: Service, upstream: str, target: str) -> None:
    body = b"--b0\r\nContent-Disposition: form-data; name=f; filename=a\r\n\r\n" + bytes(range(256)) + b"\r\n--b0--\r\n"
    kind = [(b"Content-Type", b"multipart/form-data; boundary=b0")]
    direct, through = (send(url, "POST", target, kind, body) for url in (upstream, service.url))
    assert through.status == direct.status
    if target.startswith("/echo"):
        assert end_to_end(arrived(through)) == end_to_end(arrived(direct))
        assert arrived(through).sha256 == hashlib.sha256(body).hexdigest()


def test_chunked_request_body_arrives_whole(service: Service) -> None:
    pieces = [b"a", b"bc" * 700, b"\r\n0\r\n\r\n", bytes(range(256)) * 300]
    head = [(b"Transfer-Encoding", b"chunked")]
    raw = request_bytes("POST", "/echo/chunked", head, chunked(pieces))
    seen = arrived(exchange(service.url, raw))
    assert (seen.length, seen.sha256) == (sum(map(len, pieces)), hashlib.sha256(b"".join(pieces)).hexdigest())


def test_chunked_chat_request_arrives_whole_and_is_answered(service: Service, upstream: str, user: str) -> None:
    body = chat_body(f"for {user}")
    head = [(b"Transfer-Encoding", b"chunked"), JSON, (b"X-Memory-User", user.encode())]
    raw = request_bytes("POST", CHAT, head, chunked([body[:10], body[10:11], body[11:]]))
    assert exchange(service.url, raw).status == 200
    assert last(upstream)[0].body == body


def test_expect_100_continue_is_answered_before_the_body(service: Service) -> None:
    body = b"x" * 100_000
    head = [(b"Expect", b"100-continue"), (b"Content-Length", b"%d" % len(body))]
    with connect(service.url) as sock:
        sock.sendall(request_bytes("POST", "/echo/expect", head))
        assert sock.recv(1000).startswith(b"HTTP/1.1 100 ")
        sock.sendall(body)
        assert arrived(read_answer(sock)).length == len(body)


def test_gzip_request_body_is_not_unpacked(service: Service) -> None:
    body = gzip.compress(b"z" * 10_000)
    seen = arrived(send(service.url, "POST", "/echo/gz", [(b"Content-Encoding", b"gzip")], body))
    assert seen.sha256 == hashlib.sha256(body).hexdigest()
    assert seen.value("content-encoding") == "gzip"


def test_upload_reaches_the_upstream_while_it_is_still_being_sent(scripted: Scripted) -> None:
    """The upstream refuses by the head alone; a proxy that first read all of it would wait for ever."""
    scripted.upstream.then(b"HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
    with connect(scripted.service.url) as sock:
        sock.sendall(request_bytes("POST", "/upload", [(b"Content-Length", b"5")]) + b"12345")
        assert read_answer(sock).status == 413


def test_an_upgrade_that_connection_does_not_name_is_none(service: Service, upstream: str, user: str) -> None:
    """It is for another hop (RFC 9110 section 7.8). Taken for a handshake, vLLM was sent one and asked nothing."""
    head = [JSON, (b"X-Memory-User", user.encode()), (b"Upgrade", b"websocket"), (b"Connection", b"keep-alive")]
    assert send(service.url, "POST", CHAT, head, chat_body(f"for {user}")).status == 200
    assert last(upstream)[0].body == chat_body(f"for {user}")


def test_two_requests_on_one_connection_are_answered_in_order(service: Service) -> None:
    with connect(service.url) as sock:
        sock.sendall(request_bytes("GET", "/echo/first") + request_bytes("GET", "/echo/second"))
        data = b""
        while data.count(b'"sha256"') < 2:
            data += sock.recv(65_536)
    assert data.index(b"/echo/first") < data.index(b"/echo/second")


names = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!#$%&'*+^`|~", min_size=1, max_size=20
)
values = st.text(st.characters(min_codepoint=0x21, exclude_categories=["Cc", "Cs", "Z"]), max_size=40)
OWN = {"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te", "trailer", "trailers"}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(names, values), max_size=12), body=st.none() | st.binary(max_size=200))
def test_any_headers_and_body_arrive_as_they_would_directly(
    service: Service, upstream: str, pairs: list[tuple[str, str]], body: bytes | None
) -> None:
    left = [(n, v) for n, v in pairs if n.lower() not in OWN and not n.lower().startswith(("x-memory-", "x-fake-"))]
    sent = [(b"X-" + n.encode(), v.encode()) for n, v in left]
    raw = request_bytes("POST", "/echo/any", sent, body)
    direct, through = exchange(upstream, raw), exchange(service.url, raw)
    assert through.status == direct.status
    if direct.status == 200:
        no_length = () if body else ("content-length",)
        assert end_to_end(arrived(through), *no_length) == end_to_end(arrived(direct), *no_length)
        assert arrived(through).sha256 == arrived(direct).sha256


# ---------------------------------------------------------------- answers no correct server gives


def through_script(scripted: Scripted, *pieces: bytes, method: str = "GET") -> RawAnswer:
    scripted.upstream.then(*pieces)
    return send(scripted.service.url, method, "/scripted")


@pytest.mark.parametrize("reason", [b"Quite Fine", b"", b"\xc3\xa9t\xc3\xa9", b"with  two spaces", b"OK: really?"])
def test_odd_reason_phrase_passes(scripted: Scripted, reason: bytes) -> None:
    answer = through_script(scripted, b"HTTP/1.1 200 %b\r\nContent-Length: 2\r\n\r\nok" % reason)
    assert (answer.status, answer.reason, answer.body) == (200, reason, b"ok")


def test_answer_headers_pass_with_bytes_order_and_repeats(scripted: Scripted) -> None:
    pairs = [
        (b"x-z", b"1"),
        (b"X-Utf8", b"caf\xc3\xa9"),
        (b"Set-Cookie", b"a=1"),
        (b"x-a", b""),
        (b"set-cookie", b"b=2"),
        (b"Content-Type", b"text/weird; charset=klingon"),
        (b"Server", b"odd/1"),
        (b"Content-Length", b"2"),
    ]
    head = b"".join(name + b": " + value + b"\r\n" for name, value in pairs)
    answer = through_script(scripted, b"HTTP/1.1 200 OK\r\n" + head + b"\r\nok")
    assert answer.end_to_end() == pairs


def test_header_in_latin_1_keeps_its_characters_both_ways(scripted: Scripted) -> None:
    scripted.upstream.then(b"HTTP/1.1 200 OK\r\nX-Latin: caf\xe9\r\nContent-Length: 0\r\n\r\n")
    answer = send(scripted.service.url, "GET", "/latin", [(b"X-Name", b"M\xfcller")])
    assert answer.values(b"x-latin") == [b"caf\xe9"]
    assert scripted.upstream.seen[-1].value("x-name") == "Müller"  # read as Latin-1: its bytes are the client's


def test_answer_without_headers_gains_none(scripted: Scripted) -> None:
    answer = through_script(scripted, b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
    assert answer.body == b"until the end"
    assert answer.end_to_end() == []


def test_header_without_a_body_of_that_length_passes_on_head_and_304(scripted: Scripted) -> None:
    head = through_script(scripted, b"HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n", method="HEAD")
    assert head.text("content-length") == "123"
    unchanged = through_script(scripted, b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 9\r\n\r\n")
    assert (unchanged.status, unchanged.text("etag"), unchanged.body) == (304, "x", b"")


def test_chunks_pass_as_they_arrive(scripted: Scripted) -> None:
    """The second chunk is sent only when the first has been seen."""
    pieces = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n", b"6\r\nsecond\r\n0\r\n\r\n"]
    scripted.upstream.then(*pieces, pause_s=1.0)
    with connect(scripted.service.url) as sock:
        sock.sendall(request_bytes("GET", "/slowly"))
        *_, data = read_head(sock)
        while b"first" not in data:
            data += sock.recv(1000)
        assert b"second" not in data
        while b"second" not in data:
            data += sock.recv(1000)


def test_http_1_0_client_that_keeps_connections_sees_the_end_of_a_stream(scripted: Scripted, user: str) -> None:
    head = [JSON, (b"X-Memory-User", user.encode()), (b"Connection", b"keep-alive")]
    scripted.upstream.then(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", b"data: [DONE]\n\n")
    asked = [request_bytes("POST", CHAT, head, chat_body()), request_bytes("GET", "/memory/v1/export", head)]
    for raw in asked:
        answer = exchange(scripted.service.url, raw.replace(b"HTTP/1.1", b"HTTP/1.0"), timeout_s=10)
        assert answer.status == 200 and not answer.values(b"connection")


def test_compressed_answer_is_not_unpacked(scripted: Scripted) -> None:
    packed = gzip.compress(b"z" * 5000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    assert through_script(scripted, head + packed).body == packed


# ---------------------------------------------------------------- with memory on

ODD = (
    b' \n{"max_tokens" :5,"dup":1, "dup":2,"big":1e999,"neg":-0,"cents":0.10,"exp":1E+2,"long":12345678901234567890123,'
    b'"uni":"\\u00e9\\u4f60\\ud83d\\ude00 \\/ \xe4\xbd\xa0","unknown":{"deep":[1, 2 ,{"x":null}]},"model":"fake-model",'
    b'%b"messages":[ {"content":"%b","name":"A\\u0042", "role":"user","odd":0.50} ],"temperature":0.70,"last":[ ]}\r\n'
)


def sent_odd(service: Service, user: str, member: bytes, text: bytes, *headers: tuple[bytes, bytes]) -> RawAnswer:
    pairs = [JSON, (b"X-Memory-User", user.encode()), *headers]
    return send(service.url, "POST", CHAT, pairs, ODD % (member, text))


def test_body_that_needs_no_change_is_forwarded_untouched(service: Service, upstream: str, user: str) -> None:
    answer = sent_odd(service, user, b"", b"nothing known")
    assert (answer.status, answer.text("x-memory-status")) == (200, "empty")
    assert last(upstream)[0].body == ODD % (b"", b"nothing known")


def test_memory_object_is_taken_out_and_nothing_else_changes(service: Service, upstream: str, user: str) -> None:
    member = b'"memory" : {"project":"p","mode":"on"} ,\n'
    assert sent_odd(service, user, member, b"hello").status == 200
    body = last(upstream)[0].body
    assert b'"memory"' not in body
    sent = ODD % (member, b"hello")
    cut = len(sent) - len(body)
    assert any(sent[:at] + sent[at + cut :] == body for at in range(len(body)))  # one piece was cut out
    assert json.loads(body) == json.loads(ODD % (b"", b"hello"))


@pytest.mark.parametrize("mode", [b"on", b"off", b"read", b"write"])
@pytest.mark.parametrize("value", [b'"a string"', b"7", b"null", b"[1]", b"true"])
def test_memory_that_is_no_object_is_forwarded(
    service: Service, upstream: str, user: str, value: bytes, mode: bytes
) -> None:
    assert sent_odd(service, user, b'"memory":%b,' % value, b"hello", (b"X-Memory-Mode", mode)).status == 200
    assert last(upstream)[0].body == ODD % (b'"memory":%b,' % value, b"hello")


@pytest.mark.parametrize("mode", [b"on", b"off"])
def test_memory_object_is_taken_out_in_every_mode_and_spelling(
    service: Service, upstream: str, user: str, mode: bytes
) -> None:
    member = b'"m\\u0065mory":{"project":"p"},'
    assert sent_odd(service, user, member, b"hello", (b"X-Memory-Mode", mode)).status == 200
    assert last(upstream)[0].body == ODD % (b"", b"hello")


def test_with_memory_placed_every_other_byte_is_the_clients(service: Service, upstream: str, user: str) -> None:
    tell(service, "The harbour crane is called Old Bertha.", user)
    text = b"What is the harbour crane called? \\u00e9"
    answer = sent_odd(service, user, b"", text)
    assert (answer.text("x-memory-status") or "").startswith("injected"), answer
    body = last(upstream)[0].body
    before, _, behind = (ODD % (b"", b"@" + text)).partition(b"@")
    assert body.startswith(before)
    assert body.endswith(behind)
    block = json.loads(b'"' + body[len(before) : len(body) - len(behind)] + b'"')
    assert block.startswith("<memory>\n")
    assert block.endswith("</memory>\n\n")
    assert "Old Bertha" in block


def test_request_headers_of_a_chat_arrive_in_order_with_their_case(service: Service, upstream: str, user: str) -> None:
    sent = [*HEADERS, JSON, (b"X-Memory-User", user.encode())]
    assert send(service.url, "POST", CHAT, sent, chat_body()).status == 200
    through = last(upstream)[0]
    send(upstream, "POST", CHAT, [*HEADERS, JSON], chat_body())
    assert end_to_end(through, "content-length") == end_to_end(last(upstream)[0], "content-length")
    assert through.value("content-length") == str(len(chat_body()))


def test_whole_stream_is_the_upstreams_with_memory_on(service: Service, upstream: str, user: str) -> None:
    for fault in ([], [(b"x-fake-split", b"3")], [(b"x-fake-keep-alive", b"1")], [(b"x-fake-gzip", b"1")]):
        for stream in (True, False):
            case = Case("POST", CHAT, [ID, JSON, *fault], chat_body(stream=stream))
            direct = [send(upstream, case.method, case.target, case.headers, case.body) for _ in range(2)][1:]
            pairs = [*case.headers, (b"X-Memory-User", user.encode()), (b"X-Memory-Budget", b"0")]
            through = send(service.url, case.method, case.target, pairs, case.body)
            direct.append(send(upstream, case.method, case.target, case.headers, case.body))
            assert_same(direct, through)


def test_many_conversations_at_once_get_their_own_answers(service: Service, user: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(16) as pool:
        texts = list(pool.map(lambda i: ask(service, f"say: answer {i}", f"{user}-{i % 4}").text, range(64)))
    assert texts == [f"answer {i}" for i in range(64)]
