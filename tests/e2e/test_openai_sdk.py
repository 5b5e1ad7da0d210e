"""The real OpenAI SDK, sync and async, with nothing changed but its base_url."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest

from tests.e2e.conftest import Scripted
from tests.e2e.talk import tell
from tests.e2e.upstreams import last
from tests.service_fixture import Service

MODEL = "fake-model"
STATUS = re.compile(
    r"(injected|empty|off|degraded)"
    r"(; reason=(deadline|store|embedder|queue|ledger|overflow|auth|overload|error))?"
    r"(; rung=(full|no-rerank|lexical|ledger|none))?"
)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


def user_says(text: Any) -> list[Any]:
    return [{"role": "user", "content": text}]


@pytest.fixture
def client(service: Service, user: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=service.openai, api_key="sk-any", max_retries=0, default_headers={"X-Memory-User": user}
    ) as made:
        yield made


@pytest.fixture
async def aclient(service: Service, user: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=service.openai, api_key="sk-any", max_retries=0, default_headers={"X-Memory-User": user}
    ) as made:
        yield made


def test_sync_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=user_says("say: hello there"))
    assert answer.choices[0].message.content == "hello there"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_sync_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=user_says("say: one two three"),
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two three"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None


async def test_async_answer_and_stream(aclient: openai.AsyncOpenAI) -> None:
    whole = await aclient.chat.completions.create(model=MODEL, messages=user_says("say: a b c"))
    assert whole.choices[0].message.content == "a b c"
    stream = await aclient.chat.completions.create(model=MODEL, messages=user_says("say: d e f"), stream=True)
    assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "d e f"


async def test_async_client_that_breaks_off_a_stream_can_go_on(aclient: openai.AsyncOpenAI) -> None:
    stream = await aclient.chat.completions.create(
        model=MODEL, messages=user_says("long"), stream=True, extra_headers={"x-fake-tokens": "2000"}
    )
    async for _ in stream:
        break
    await stream.close()
    again = await aclient.chat.completions.create(model=MODEL, messages=user_says("say: still here"))
    assert again.choices[0].message.content == "still here"


def test_tool_call_and_its_result(client: openai.OpenAI) -> None:
    messages = user_says('What about Oslo?\ncall: weather {"city": "Oslo"}')
    first = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    assert first.choices[0].finish_reason == "tool_calls"
    (call,) = first.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Oslo"})
    messages += [
        first.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "rain, 4 degrees"},
    ]
    second = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, tool_choice="none")
    assert second.choices


def test_streamed_tool_call_deltas(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL, messages=user_says('call: weather {"city": "Bergen"}'), tools=TOOLS, stream=True
    )
    name, arguments, reason = "", "", None
    for chunk in stream:
        for delta in chunk.choices[0].delta.tool_calls or []:
            assert delta.function is not None
            name += delta.function.name or ""
            arguments += delta.function.arguments or ""
        reason = chunk.choices[0].finish_reason or reason
    assert (name, json.loads(arguments), reason) == ("weather", {"city": "Bergen"}, "tool_calls")


def test_the_sdks_own_stream_helper_puts_it_together(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=user_says("say: put together")) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "put together"


def test_two_choices_whole_and_streamed(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=user_says("say: twice"), n=2)
    assert [c.message.content for c in whole.choices] == ["twice", "twice"]
    texts = {0: "", 1: ""}
    for chunk in client.chat.completions.create(model=MODEL, messages=user_says("say: twice"), n=2, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == {0: "twice", 1: "twice"}


def test_structured_output_arrives_with_its_schema(client: openai.OpenAI, upstream: str) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    answer = client.chat.completions.create(model=MODEL, messages=user_says("as JSON"), response_format=wanted)
    assert "answer" in json.loads(answer.choices[0].message.content or "")
    assert last(upstream)[0].json["response_format"] == wanted


def test_vision_parts_arrive_and_memory_stands_before_them(
    client: openai.OpenAI, service: Service, upstream: str
) -> None:
    url = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode()
    parts: list[Any] = [
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "text", "text": "What is it?"},
    ]
    assert client.chat.completions.create(model=MODEL, messages=user_says(parts)).choices
    assert last(upstream)[0].json["messages"][0]["content"] == parts
    user = str(client.default_headers["X-Memory-User"])
    tell(service, "The photograph of the red bicycle was taken in Delft.", user)
    parts[1]["text"] = "Where was the photograph of the red bicycle taken?"
    assert client.chat.completions.create(model=MODEL, messages=user_says(parts)).choices
    content = last(upstream)[0].json["messages"][0]["content"]
    assert content[1:] == parts
    assert content[0]["type"] == "text"
    assert "Delft" in content[0]["text"]


def test_reasoning_survives_whole_and_streamed(client: openai.OpenAI) -> None:
    head = {"x-fake-reasoning": "6"}
    whole = client.chat.completions.create(model=MODEL, messages=user_says("say: so"), extra_headers=head)
    thought = whole.choices[0].message.model_extra
    assert thought is not None
    assert thought["reasoning"].startswith("The quick")
    stream = client.chat.completions.create(model=MODEL, messages=user_says("say: so"), extra_headers=head, stream=True)
    pieces = [(chunk.choices[0].delta.model_extra or {}).get("reasoning") or "" for chunk in stream]
    assert "".join(pieces) == thought["reasoning"]


def test_logprobs_survive(scripted: Scripted, user: str) -> None:
    logprobs = {"content": [{"token": "hi", "logprob": -0.25, "bytes": [104, 105], "top_logprobs": []}]}
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    scripted.upstream.then_json(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{**choice, "logprobs": logprobs}],
        }
    )
    with openai.OpenAI(base_url=scripted.service.openai, api_key="x", max_retries=0) as client:
        answer = client.chat.completions.create(
            model=MODEL, messages=user_says("hi"), logprobs=True, top_logprobs=2, user=user
        )
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.model_dump()["content"] == logprobs["content"]
    assert scripted.upstream.seen[-1].json["top_logprobs"] == 2


# ---------------------------------------------------------------- errors are vLLM's


def test_unknown_model_is_vllms_404(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="nobody", messages=user_says("hi"))
    assert raised.value.body == {**vars_of(raised.value), "code": 404, "type": "NotFoundError", "param": "model"}


def vars_of(error: openai.APIStatusError) -> dict[str, Any]:
    assert isinstance(error.body, dict)
    return error.body


def test_bad_request_is_vllms_400(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model=MODEL, messages=user_says("hi"), max_tokens=99_999_999)
    assert vars_of(raised.value)["code"] == 400
    assert "max_tokens=99999999" in str(raised.value)


@pytest.mark.parametrize("stream", [True, False])
def test_rate_limit_is_vllms_with_its_retry_after(client: openai.OpenAI, stream: bool) -> None:
    head = {"x-fake-status": "429", "x-fake-retry-after": "17"}
    with pytest.raises(openai.RateLimitError) as raised:
        client.chat.completions.create(model=MODEL, messages=user_says("hi"), extra_headers=head, stream=stream)
    assert raised.value.response.headers["retry-after"] == "17"
    assert vars_of(raised.value)["code"] == 429


def test_proxy_retries_nothing_of_its_own(client: openai.OpenAI, upstream: str) -> None:
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(
            model=MODEL, messages=user_says("only once"), extra_headers={"x-fake-status": "500"}
        )
    sent = [seen for seen in last(upstream, 5) if b"only once" in seen.body]
    assert len(sent) == 1


def test_error_of_ours_has_openais_shape(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(
            model=MODEL, messages=user_says("hi"), extra_headers={"X-Memory-Mode": "sometimes"}
        )
    assert vars_of(raised.value).keys() == {"message", "type", "param", "code"}
    assert (raised.value.code, raised.value.param, raised.value.type) == (
        "memory_invalid",
        "X-Memory-Mode",
        "memory_proxy_error",
    )


def test_error_event_mid_stream_reaches_the_client(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL, messages=user_says("hi"), extra_headers={"x-fake-error-after": "3"}, stream=True
    )
    with pytest.raises(openai.APIError, match="Internal server error"):
        list(stream)


# ---------------------------------------------------------------- other routes of the SDK


def test_models_embeddings_completions_and_responses(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert len(client.embeddings.create(model=MODEL, input=["a", "b"]).data) == 2
    assert client.completions.create(model=MODEL, prompt="say: plain").choices[0].text == "plain"
    assert client.responses.create(model=MODEL, input="say: new way").output_text == "new way"
    events = [event.type for event in client.responses.create(model=MODEL, input="say: x", stream=True)]
    assert events[-1] == "response.completed"


# ---------------------------------------------------------------- what the answer says of memory


def check_grammar(headers: Any, *, mode: str = "on") -> None:
    """Every X-Memory-* header of an answer against DESIGN section 2."""
    assert STATUS.fullmatch(headers["x-memory-status"]), headers["x-memory-status"]
    assert headers["x-memory-capture"] in {"queue", "spool", "none", "off"}
    assert headers["x-memory-session"]
    assert re.fullmatch(r"\d+", headers["x-memory-count"])
    assert re.fullmatch(r"\d+", headers["x-memory-kept"])
    assert re.fullmatch(r"~?\d+", headers["x-memory-tokens"])
    assert re.fullmatch(r"\d+\.\d", headers["x-memory-millis"])
    if mode in ("on", "read"):
        assert UUID.fullmatch(headers["x-memory-retrieval"])
    else:
        assert "x-memory-retrieval" not in headers


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("mode", ["on", "read", "write"])
def test_headers_of_the_answer_keep_their_grammar(client: openai.OpenAI, mode: str, stream: bool) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=user_says("say: x"), extra_headers={"X-Memory-Mode": mode}, stream=stream
    )
    check_grammar(raw.headers, mode=mode)
    assert raw.headers["x-memory-status"].split(";")[0] == {"on": "empty", "read": "empty", "write": "off"}[mode]
    assert raw.headers["x-memory-capture"] == {"on": "queue", "read": "off", "write": "queue"}[mode]
    raw.http_response.close()


def test_mode_off_says_so_and_no_more(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=user_says("say: x"), extra_headers={"X-Memory-Mode": "off"}
    )
    said = {name: value for name, value in raw.headers.items() if name.startswith("x-memory-")}
    assert (said["x-memory-status"], said["x-memory-capture"]) == ("off", "off")
    assert "x-memory-retrieval" not in said


def test_injection_is_counted_in_the_headers(client: openai.OpenAI, service: Service) -> None:
    user = str(client.default_headers["X-Memory-User"])
    tell(service, "My sister's parrot is called Captain Biscuit.", user)
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=user_says("What is my sister's parrot called?")
    )
    check_grammar(raw.headers)
    assert raw.headers["x-memory-status"].startswith("injected")
    assert int(raw.headers["x-memory-count"]) >= 1
    assert int(raw.headers["x-memory-tokens"].lstrip("~")) > 10


def test_memory_object_through_extra_body(client: openai.OpenAI, upstream: str) -> None:
    answer = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=user_says("say: x"), extra_body={"memory": {"mode": "write", "project": "p"}}
    )
    assert answer.headers["x-memory-status"] == "off"
    assert "memory" not in last(upstream)[0].json


def test_openais_own_user_field_names_the_user(service: Service, user: str, upstream: str) -> None:
    with openai.OpenAI(base_url=service.openai, api_key="x", max_retries=0) as client:
        client.chat.completions.create(model=MODEL, messages=user_says("I keep bees in Tromso.\nsay: ok"), user=user)
        service.settle()
        client.chat.completions.create(model=MODEL, messages=user_says("Where do I keep bees?"), safety_identifier=user)
    assert "Tromso" in last(upstream)[0].json["messages"][0]["content"]
    assert last(upstream)[0].json["safety_identifier"] == user
