"""Requests that are wrong, huge or hostile: vLLM's own answer or a refusal with a name, and nothing falls over."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Scripted
from tests.e2e.raw_http import RawAnswer, connect, exchange, read_answer, request_bytes, send
from tests.e2e.talk import MODEL, ask, completion, exchanges, found, sessions, turn
from tests.e2e.upstreams import last
from tests.service_fixture import Service

CHAT = "/v1/chat/completions"
JSON = (b"Content-Type", b"application/json")


@pytest.fixture(scope="module", autouse=True)
def nothing_fell_over(service: Service) -> Iterator[None]:
    """Behind all tests of this module: the same processes run, and no entry is dead."""
    before = sorted(service.children(r"proxy\.worker|-m memory"))
    assert len(before) >= 2
    yield
    service.settle()
    assert sorted(service.children(r"proxy\.worker|-m memory")) == before, service.tail()
    assert service.call("GET", "/memory/v1/queue")["dead"] == 0, service.tail()
    assert "unforeseen" not in service.log.read_text(errors="replace"), service.tail()


def post(service: Service, body: bytes, user: str, *headers: tuple[bytes, bytes]) -> RawAnswer:
    return send(service.url, "POST", CHAT, [JSON, (b"X-Memory-User", user.encode()), *headers], body)


def wrap(message: str, *, more: str = "") -> bytes:
    """A body around one raw message."""
    return f'{{"model":"{MODEL}","messages":[{message}]{more}}}'.encode("utf-8", "surrogatepass")


DEEP = "[" * 100_000 + "]" * 100_000
BODIES: dict[str, bytes] = {
    "malformed": b'{"model":"fake-model","messages":[',
    "trailing comma": b'{"model":"fake-model","messages":[],}',
    "two documents": b'{"messages":[]}{"messages":[]}',
    "empty": b"",
    "white space": b"  \n",
    "null": b"null",
    "a list": b"[1,2]",
    "a string": b'"text"',
    "a number": b"7",
    "not UTF-8": b'{"messages":[{"role":"user","content":"\xff\xfe"}]}',
    "UTF-16": '{"messages":[]}'.encode("utf-16"),
    "with a BOM": b"\xef\xbb\xbf" + wrap('{"role":"user","content":"hi"}'),
    "NaN": wrap('{"role":"user","content":"hi"}', more=',"temperature":NaN'),
    "raw NUL": wrap('{"role":"user","content":"a\0b"}'),
    "raw line feed in a string": wrap('{"role":"user","content":"a\nb"}'),
    "escaped NUL": wrap('{"role":"user","content":"a\\u0000b and so on"}'),
    "lone surrogate": wrap('{"role":"user","content":"a \\ud800 b"}'),
    "lone surrogate in a key": wrap('{"role":"user","content":"x","\\udfff":1}'),
    "reversed pair": wrap('{"role":"user","content":"\\ude00\\ud83d"}'),
    "surrogate in UTF-8": wrap('{"role":"user","content":"\ud800"}'),
    "deep nesting in a message": wrap(f'{{"role":"user","content":"x","deep":{DEEP}}}'),
    "deep nesting at the top": wrap('{"role":"user","content":"x"}', more=f',"deep":{DEEP}'),
    "nesting just so": wrap(f'{{"role":"user","content":"x","d":{"[" * 500}1{"]" * 500}}}'),
    "duplicate messages": wrap('{"role":"user","content":"first"}', more=',"messages":[{"role":"user","content":"2"}]'),
    "duplicate content": wrap('{"role":"user","content":"first","content":"second"}'),
    "no messages": b'{"model":"fake-model"}',
    "messages null": b'{"model":"fake-model","messages":null}',
    "messages a string": b'{"model":"fake-model","messages":"hi"}',
    "messages empty": b'{"model":"fake-model","messages":[]}',
    "message a string": wrap('"hi"'),
    "message null": wrap("null"),
    "message a list": wrap("[1]"),
    "message empty": wrap("{}"),
    "role missing": wrap('{"content":"hi"}'),
    "role a number": wrap('{"role":7,"content":"hi"}'),
    "role unknown": wrap('{"role":"wizard","content":"hi"}'),
    "content null": wrap('{"role":"user","content":null}'),
    "content missing": wrap('{"role":"user"}'),
    "content empty": wrap('{"role":"user","content":""}'),
    "content a number": wrap('{"role":"user","content":7}'),
    "content an object": wrap('{"role":"user","content":{"type":"text","text":"x"}}'),
    "parts empty": wrap('{"role":"user","content":[]}'),
    "parts odd": wrap('{"role":"user","content":[1,null,"x",{"type":"text"},{"type":7,"text":"y"},{"text":"z"}]}'),
    "tool calls odd": wrap('{"role":"assistant","content":"a","tool_calls":[{"function":{"arguments":{}}}]}'),
    "tool calls a string": wrap('{"role":"assistant","content":"a","tool_calls":"x"}'),
    "huge integer": wrap('{"role":"user","content":"x"}', more=f',"seed":{"9" * 4000}'),
    "huger integer": wrap('{"role":"user","content":"x"}', more=f',"seed":{"9" * 5000}'),
    "n zero": wrap('{"role":"user","content":"x"}', more=',"n":0'),
    "stream a string": wrap('{"role":"user","content":"x"}', more=',"stream":"yes"'),
    "unknown model": b'{"model":"nobody","messages":[{"role":"user","content":"x"}]}',
    "model a list": b'{"model":["a"],"messages":[{"role":"user","content":"x"}]}',
    "only spaces": wrap('{"role":"user","content":" \\n\\t "}'),
    "control characters": wrap('{"role":"user","content":"\\u0001\\u001b[31m\\u0085\\u202e"}'),
    "many messages": wrap(",".join('{"role":"user","content":"x"}' for _ in range(5000))),
    "many keys": wrap('{"role":"user","content":"x"}', more="," + ",".join(f'"k{i}":{i}' for i in range(20_000))),
}


def masked(answer: RawAnswer) -> Any:
    """An answer without what is drawn anew each time."""
    if not answer.body.startswith(b'{"id"'):
        return re.sub(rb'"(id|created)":("[^"]*"|\d+)', b"", answer.body)
    said = json.loads(answer.body)
    return {k: v for k, v in said.items() if k not in ("id", "created", "usage")}


@pytest.mark.parametrize("name", BODIES)
def test_odd_body_is_answered_as_vllm_answers_it(service: Service, upstream: str, user: str, name: str) -> None:
    body = BODIES[name]
    direct = send(upstream, "POST", CHAT, [JSON], body)
    through = post(service, body, user)
    assert (through.status, masked(through)) == (direct.status, masked(direct))
    assert last(upstream)[0].body == body


def test_odd_bodies_that_were_answered_are_stored_and_can_be_listed(service: Service, user: str) -> None:
    answered = [name for name, body in BODIES.items() if post(service, body, user).status == 200]
    service.settle()
    assert len(answered) > 10
    assert sessions(service, user)
    texts = [t["content"] for turns in sessions(service, user).values() for t in turns]
    assert any("and so on" in text for text in texts)
    assert not any("\0" in text for text in texts)
    assert found(service, "and so on", user)


# ---------------------------------------------------------------- refusals of ours


def refused(answer: RawAnswer, code: str = "memory_invalid") -> str | None:
    """The `param` of a refusal of ours."""
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["type"], error["code"]) == (400, "memory_proxy_error", code), answer
    return error["param"]  # type: ignore[no-any-return]


GOOD = wrap('{"role":"user","content":"hi"}')


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b"X-Memory-User", b""),
        (b"X-Memory-User", b"x" * 257),
        (b"X-Memory-Project", b"caf\xc3\xa9"),
        (b"X-Memory-Agent", b"two words"),
        (b"X-Memory-Session", b"%ff"),
        (b"X-Memory-Mode", b"sometimes"),
        (b"X-Memory-Budget", b"-1"),
        (b"X-Memory-Budget", b"many"),
        (b"X-Memory-As-Of", b"yesterday"),
        (b"X-Memory-As-Of", b"2026-01-01T00:00:00"),
    ],
)
def test_malformed_header_is_refused_by_its_name(service: Service, upstream: str, header: bytes, value: bytes) -> None:
    before = last(upstream)[0]
    answer = send(service.url, "POST", CHAT, [JSON, (header, value)], GOOD)
    assert (refused(answer) or "").lower() == header.decode().lower()
    assert last(upstream)[0] == before


def test_header_sent_twice_is_refused(service: Service) -> None:
    pairs = [JSON, (b"X-Memory-User", b"a"), (b"x-memory-user", b"b")]
    assert refused(send(service.url, "POST", CHAT, pairs, GOOD)) == "X-Memory-User"


@pytest.mark.parametrize(
    ("member", "param"),
    [
        ('{"user":7}', "memory.user"),
        ('{"user":""}', "memory.user"),
        ('{"usr":"x"}', "memory.usr"),
        ('{"budget":"7"}', "memory.budget"),
        ('{"budget":1.5}', "memory.budget"),
        ('{"mode":["on"]}', "memory.mode"),
        ('{"user":"\\ud800"}', "memory.user"),
        ('{"user":"\\u0000"}', "memory.user"),
    ],
)
def test_malformed_memory_object_is_refused_by_its_member(service: Service, member: str, param: str) -> None:
    for mode in ((), ((b"X-Memory-Mode", b"off"),)):
        body = wrap('{"role":"user","content":"hi"}', more=f',"memory":{member}')
        answer = send(service.url, "POST", CHAT, [JSON, *mode], body)
        if not (mode and member.startswith('{"mode"')):
            assert refused(answer) == param


def test_header_and_object_that_differ_are_a_conflict(service: Service, user: str) -> None:
    body = wrap('{"role":"user","content":"hi"}', more=',"memory":{"user":"another"}')
    assert refused(post(service, body, user), "memory_conflict") == "memory.user"


@pytest.mark.parametrize("route", ["/v1/completions", "/v1/responses", "/v1/messages"])
def test_generation_routes_refuse_alike_and_take_the_object_out(service: Service, upstream: str, route: str) -> None:
    given = {"prompt": "hi", "input": "hi", "messages": [turn("user", "hi")], "max_tokens": 5}
    bad = json.dumps({**given, "memory": {"usr": "x"}}).encode()
    assert refused(send(service.url, "POST", route, [JSON], bad)) == "memory.usr"
    good = json.dumps({**given, "memory": {"user": "x"}}).encode()
    assert send(service.url, "POST", route, [JSON], good).status == 200
    assert last(upstream)[0].json == given


def test_unknown_checkpoint_and_persona_are_404(service: Service, user: str) -> None:
    for name in ("checkpoint", "persona"):
        answer = ask(service, "hi", user, **{name: "nothing"})
        assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")


# ---------------------------------------------------------------- broken HTTP


@pytest.mark.parametrize(
    "raw",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /x HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: x\r\nX-Long: " + b"v" * 70_000 + b"\r\n\r\n",
    ],
    ids=lambda raw: repr(raw[:40]),
)
def test_broken_http_is_refused_and_the_next_caller_is_served(service: Service, raw: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # closing the connection is an answer too
        assert 400 <= exchange(service.url, raw, timeout_s=10).status < 500
    assert send(service.url, "GET", "/version").status == 200


# ---------------------------------------------------------------- large


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.long
def test_message_of_5_mb_is_answered_stored_and_found(scripted: Scripted, user: str) -> None:
    draw = random.Random(7)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(3, 9))) for _ in range(4000)]
    filler = " ".join(draw.choices(words, k=850_000))
    middle = len(filler) // 2
    text = f"{filler[:middle]} the zanzibarian marmalade was served at noon {filler[middle:]}"
    assert len(text) > 5_000_000
    scripted.upstream.then_json(completion("It was."))
    said = ask(scripted.service, text, user)
    assert (said.status, said.memory("capture")) == (200, "queue")
    assert scripted.upstream.seen[-1].json["messages"] == [turn("user", text)]
    scripted.service.settle(180)
    stored, answered = next(iter(sessions(scripted.service, user).values()))
    assert (stored["content"], answered["content"]) == (text, "It was.")
    assert "zanzibarian" in found(scripted.service, "When was the zanzibarian marmalade served?", user)[0]


@pytest.mark.long
@pytest.mark.slow
def test_image_of_200_mb_passes_and_its_exchange_is_kept_without_it(scripted: Scripted, user: str) -> None:
    """The body is generated while it is sent and checked by its digest, so that it lies in memory once at most."""
    block = base64.b64encode(random.Random(3).randbytes(786_432))
    count = 200
    head = b'{"model":"fake-model","messages":[{"role":"user","content":[{"type":"image_url","image_url":'
    head += b'{"url":"data:image/png;base64,'
    tail = b'"}},{"type":"text","text":"What is on the large picture?"}]}]}'
    digest = hashlib.sha256(head)
    for _ in range(count):
        digest.update(block)
    digest.update(tail)
    length = len(head) + count * len(block) + len(tail)
    assert length > 200_000_000
    choice = {"index": 0, "message": {"role": "assistant", "content": "A cat."}, "finish_reason": "stop"}
    scripted.upstream.then_json(
        {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    pairs = [JSON, (b"X-Memory-User", user.encode()), (b"Content-Length", b"%d" % length)]
    with connect(scripted.service.url, 100) as sock:
        sock.sendall(request_bytes("POST", CHAT, pairs) + head)
        for _ in range(count):
            sock.sendall(block)
        sock.sendall(tail)
        assert read_answer(sock).status == 200
    seen = scripted.upstream.seen[-1]
    assert (seen.length, seen.sha256) == (length, digest.hexdigest())
    scripted.service.settle()
    (turns,) = sessions(scripted.service, user).values()
    assert [t["content"] for t in turns] == ["What is on the large picture?", "A cat."]


async def test_refused_requests_leave_no_exchange(service: Service, user: str) -> None:
    import asyncio

    for name in ("malformed", "empty", "unknown model", "messages a string"):
        await asyncio.to_thread(post, service, BODIES[name], user)
    await asyncio.to_thread(service.settle)
    assert await exchanges(service, user) == []
