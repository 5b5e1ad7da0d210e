"""What is asked of the served model about a prompt: a count where there can be one, and nothing that raises."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from memory.adapters.tokenizer import UpstreamTokenizer
from memory.config import Settings
from memory.telemetry import Metrics
from policies.breaker import Rule
from proxy.breakers import COUNT_SLOW_S, breakers_of
from proxy.relay import Upstream
from proxy.served_model import ServedModels


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


async def counted(**members: Any) -> int | None:
    """The count of a body with these members; the served tokenizer says 7 of whatever it is asked."""

    async def answers(path: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"count": 7, "max_model_len": 8192}

    upstream = Upstream("http://127.0.0.1:1", api_key=None, replace_auth=False, connect_timeout_s=1, keepalive_s=1)
    breaker = breakers_of(Settings(), Metrics()).tokenizer
    models = ServedModels(upstream, api_key=None, counts=lambda _: UpstreamTokenizer(answers), breaker=breaker)
    try:
        return await models.prompt_tokens({"model": "m", "messages": [], **members})
    finally:
        await upstream.close()


@pytest.mark.parametrize(
    "members",
    [{}, {"tools": None}, {"tools": []}, {"tools": [7, nested(9)]}, {"chat_template_kwargs": {"a": float("nan")}}],
)
async def test_a_prompt_is_counted_with_whatever_is_in_its_lists(members: dict[str, Any]) -> None:
    assert await counted(**members) == 7


@pytest.mark.parametrize("value", [5, True, "ab", 1.5])
@pytest.mark.parametrize("member", ["tools", "chat_template_kwargs", "messages", "model"])
async def test_a_member_of_another_type_is_not_counted(member: str, value: Any) -> None:
    if member != "model" or not isinstance(value, str):
        assert await counted(**{member: value}) is None
    assert await counted(tools={"a": 1}) is None
    assert await counted(chat_template_kwargs=[["a", 1]]) is None


@pytest.mark.parametrize("member", ["tools", "messages"])
async def test_what_is_nested_too_deep_to_be_said_is_not_counted(member: str) -> None:
    assert await counted(**{member: nested(100_000)}) is None


@pytest.mark.parametrize(
    ("status", "within_s", "again"), [(None, COUNT_SLOW_S * 1.5, False), (400, 30.0, True)], ids=["none", "400"]
)
async def test_a_tokenizer_that_does_not_answer_is_left_alone_and_one_that_refuses_is_not(
    status: int | None, within_s: float, again: bool
) -> None:
    asked = 0

    async def tokenize(_: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        if status is None:
            await asyncio.sleep(60)
        return web.Response(status=status or 200)

    app = web.Application()
    app.router.add_post("/tokenize", tokenize)
    async with TestServer(app) as server:
        base = str(server.make_url("")).rstrip("/")
        upstream = Upstream(base, api_key=None, replace_auth=False, connect_timeout_s=1, keepalive_s=1)
        breaker = breakers_of(Settings(), Metrics()).tokenizer
        models = ServedModels(upstream, api_key=None, counts=UpstreamTokenizer, breaker=breaker)

        async def count(times: int) -> None:
            for number in range(times):
                body = {"model": "m", "messages": [{"role": "user", "content": str(number)}]}
                assert await models.prompt_tokens(body, within_s) is None

        await count(Rule().faults_max)
        before = asked  # on a busy machine some of the first are given up before they are there
        await count(2)
        await upstream.close()
    assert asked == before + (2 if again else 0)


@pytest.mark.parametrize(
    "said",
    [
        '{"data": null}',
        '{"data": 7}',
        '{"data": [{"id": ["m"], "max_model_len": 9}]}',
        '{"data": [{"id": "m", "parent": {}}]}',
        '{"data": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "[]",
    ],
    ids=["null", "number", "id", "parent", "deep", "list"],
)
async def test_models_that_cannot_be_read_are_not_known_and_nothing_fails(said: str) -> None:
    async def models_of(_: web.Request) -> web.StreamResponse:
        return web.Response(text=said, content_type="application/json")

    app = web.Application()
    app.router.add_get("/v1/models", models_of)
    async with TestServer(app) as server:
        url = str(server.make_url("/")).rstrip("/")
        upstream = Upstream(url, api_key=None, replace_auth=False, connect_timeout_s=1, keepalive_s=1)
        breaker = breakers_of(Settings(), Metrics()).tokenizer
        models = ServedModels(upstream, api_key=None, counts=UpstreamTokenizer, breaker=breaker)
        try:
            await models.refresh()
            assert models.window("m") is None
        finally:
            await upstream.close()


@pytest.mark.parametrize("model", [None, ""])
async def test_a_request_that_names_no_model_is_measured_as_the_first_that_is_served(model: str | None) -> None:
    """vLLM 0.32 answers it as `base_model_paths[0]`, which its list begins with."""
    counted_for: list[object] = []

    async def models_of(_: web.Request) -> web.StreamResponse:
        cards = [{"id": "first", "max_model_len": 512}, {"id": "other", "max_model_len": 512}]
        return web.json_response({"data": [*cards, {"id": "lora", "parent": "other"}]})

    async def tokenize(request: web.Request) -> web.StreamResponse:
        counted_for.append((await request.json())["model"])
        return web.json_response({"count": 7, "max_model_len": 512})

    app = web.Application()
    app.router.add_get("/v1/models", models_of)
    app.router.add_post("/tokenize", tokenize)
    async with TestServer(app) as server:
        url = str(server.make_url("/")).rstrip("/")
        upstream = Upstream(url, api_key=None, replace_auth=False, connect_timeout_s=1, keepalive_s=1)
        breaker = breakers_of(Settings(), Metrics()).tokenizer
        models = ServedModels(upstream, api_key=None, counts=UpstreamTokenizer, breaker=breaker)
        try:
            await models.refresh()
            assert models.window(model) == 512
            named = {} if model is None else {"model": model}
            assert await models.prompt_tokens({**named, "messages": [{"role": "user", "content": "hi"}]}) == 7
            assert counted_for == ["first"]
            assert models.window("unknown") is None
        finally:
            await upstream.close()
