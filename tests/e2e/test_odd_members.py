"""Members of a type that nobody foresaw, with a memory to place and a prompt that must be counted.

What is wrong in them is vLLM's to say: it gets the body as it was sent but for the block, and its answer passes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.e2e.raw_http import RawAnswer, send
from tests.e2e.talk import MODEL, tell
from tests.e2e.upstreams import last
from tests.service_fixture import Service, serving

pytestmark = pytest.mark.long  # a service of its own

CHAT = "/v1/chat/completions"
JSON = (b"Content-Type", b"application/json")
FACT = "The lighthouse keeper of Norrvik hides the spare key inside the bell."
QUESTION = "Where does the lighthouse keeper of Norrvik hide the spare key?"
# Larger than what certainly fits the window (bytes / 2), so that it is counted, and still short enough for it.
PADDING = "lighthousekeeper" * 1_200


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


HUGE = "9" * 4_000
ODD: dict[str, tuple[str, ...]] = {
    "tools": ("5", "true", '"ab"', '{"a":1}', "[1]", "[null]", "null", "0", f"[{deep(300)}]", f"[{deep(900)}]"),
    "chat_template_kwargs": ("[1]", '"ab"', "5", '[["a",1]]', "[]", f'{{"a":{deep(900)}}}', '{"a":NaN}'),
    "documents": ("5", '"x"'),
    "max_tokens": ('"5"', "5.5", "-1", "true", "null", "[]", HUGE, "-" + HUGE, "1e400"),
    "max_completion_tokens": ('"5"', "5.5", "-1", HUGE),
    "n": ('"2"', "-1", "0", "1.5", "{}"),
    "stream": ('"yes"', '"maybe"', "2", "{}", "null"),
    "stop": ("5", '{"a":1}', "[5]"),
    "user": ("7", '"\\ud800"', '""', "[]", '"\\u0000"'),
    "safety_identifier": ("7", '"\\udfff"'),
    "metadata": ('"x"', "[1]", '{"a":NaN}', '{"a":1,"a":2}', '{"\\ud800":"\\ud800"}', f'{{"a":{deep(1_200)}}}'),
    "temperature": ("NaN", "Infinity", '"hot"', HUGE),
    "cache_salt": ("7", '"\\ud800"', "null"),
    "continue_final_message": ('"no"', "{}", "[true]"),
    "tool_choice": ("5", '{"type":7}'),
    "response_format": ('"x"', '{"type":["json"]}'),
    "memory": ("7", '"x"', "[{}]", "null"),
    "unknown": (deep(900), deep(1_200), '"\\ud800"', '{"\\udfff":1}'),
    "model": ('"\\ud800"', '"x\\u0000y"', "7", '["fake-model"]', "null"),
    "messages": ('"x"', "7", "{}", "null", "[null]", "[]"),  # the second of two: the last one counts
}
EARLIER: dict[str, str] = {
    "content a number": '{"role":"assistant","content":7}',
    "content an object": '{"role":"assistant","content":{"a":[1]}}',
    "content NaN": '{"role":"assistant","content":NaN}',
    "parts of all kinds": '{"role":"user","content":[1,null,[],"x",{"type":[]},{"type":"image_url","image_url":7}]}',
    "an image that is none": '{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,%%%"}}]}',
    "tool calls an object": '{"role":"assistant","content":"a","tool_calls":{"id":1}}',
    "tool calls of numbers": '{"role":"assistant","tool_calls":[1,{"function":7},{"function":{"arguments":7}}]}',
    "tool calls with what is no number": '{"role":"assistant","content":"a","tool_calls":[{"id":"a","type":"function",'
    '"function":{"name":"f","arguments":"{}"},"weight":NaN,"bound":1e400}]}',
    "arguments too deep": '{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"'
    + deep(2_000)
    + '"}}]}',
    "a tool's id an object": '{"role":"tool","content":"x","tool_call_id":{"a":1}}',
    "a tool's answer a number": '{"role":"tool","content":7,"tool_call_id":"\\ud800"}',
    "a name of numbers": '{"role":"user","content":"x","name":[7]}',
    "a role of a list": '{"role":["user"],"content":"x"}',
    "a role half a character": '{"role":"\\ud800","content":"x"}',
    "half a character": '{"role":"system","content":"\\ud800"}',
    "no message": "7",
    "a message too deep": '{"role":"user","content":"x","deep":' + deep(900) + "}",
    "the same key twice": '{"role":"system","role":"user","content":"a","content":["b"]}',
}


def body_of(*, before: str = "", more: str = "") -> bytes:
    """The question behind another message, raw, or before another member."""
    said = f'{{"role":"system","content":"{PADDING}"}},{before}{{"role":"user","content":"{QUESTION}"}}'
    return f'{{"model":"{MODEL}","messages":[{said}]{more}}}'.encode()


CASES = {
    **{
        f"{name}: {raw[:12]} {len(raw)}": body_of(more=f',"{name}":{raw}') for name, raws in ODD.items() for raw in raws
    },
    **{name: body_of(before=raw + ",") for name, raw in EARLIER.items()},
    "with a BOM": b"\xef\xbb\xbf" + body_of(),
    "UTF-16": body_of().decode().encode("utf-16"),
    "UTF-32": body_of().decode().encode("utf-32"),
}


@pytest.fixture(scope="module")
def summarising(upstream: str) -> Iterator[Service]:
    """A service that counts in two places: what does not fit is summed up."""
    with serving(upstream, env={"MEMORY_PROXY_OVERFLOW": "summarise"}) as running:
        yield running


@pytest.fixture(scope="module")
def knowing(service: Service, summarising: Service) -> dict[str, Service]:
    """Services that know the fact."""
    both = {"error": service, "summarise": summarising}
    for one in both.values():
        tell(one, FACT, "odd")
    return both


def as_sent(sent: bytes, body: bytes) -> bool:
    """Whether a body is another with at most a block before the text of its question."""
    at = body.find(QUESTION.encode())
    return sent == body or (at > 0 and sent.startswith(body[:at]) and sent.endswith(body[at:]))


def through(service: Service, body: bytes) -> RawAnswer:
    """The answer to a body in a conversation of its own."""
    named = [(b"X-Memory-User", b"odd"), (b"X-Memory-Session", uuid4().hex.encode())]
    return send(service.url, "POST", CHAT, [JSON, *named], body)


COUNTED = ("tools", "chat_template_kwargs", "max_", "messages")


def require_given_and_counted(service: Service, upstream: str) -> None:
    """Else nothing below is about a prompt with memory."""
    answer = through(service, body_of())
    assert answer.status == 200 and (answer.text("x-memory-status") or "").startswith("injected")
    sent = last(upstream)[0].body
    assert b"inside the bell" in sent and as_sent(sent, body_of())


@pytest.mark.parametrize("overflow", ["error", "summarise"])
def test_what_is_wrong_with_a_member_is_said_by_vllm(knowing: dict[str, Service], upstream: str, overflow: str) -> None:
    """One test, so that few processes start these services and the fact is all that they know at its beginning."""
    service, wrong = knowing[overflow], []
    require_given_and_counted(service, upstream)
    for name, body in CASES.items():
        if overflow == "summarise" and not name.startswith(COUNTED):
            continue
        direct = send(upstream, "POST", CHAT, [JSON], body)
        answer = through(service, body)
        if b"memory_proxy_error" in answer.body or answer.status != direct.status:
            wrong.append(f"{name}: {answer.status}, vLLM {direct.status}: {answer.body[:200]!r}")
        elif not as_sent(last(upstream)[0].body, body):
            wrong.append(f"{name}: sent otherwise")
    assert not wrong, "\n".join(wrong)


def test_nothing_fell_over(knowing: dict[str, Service]) -> None:
    for service in knowing.values():
        service.settle()
        assert "unforeseen" not in service.log.read_text(errors="replace"), service.tail()
        assert service.call("GET", "/memory/v1/queue")["dead"] == 0
        assert json.loads(send(service.url, "GET", "/memory/ready").body)["status"] == "ok"
