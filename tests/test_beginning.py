"""What another service answers is read to its end, or to the bound, however it comes in."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from proxy.beginning import beginning
from proxy.mcp_server.api_calls import ApiCalls, Identity

WORDS = "what was said " * 100_000


async def in_pieces(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    raw = json.dumps({"text": WORDS}).encode()
    for at in range(0, len(raw), 200_000):
        await response.write(raw[at : at + 200_000])
        await asyncio.sleep(0.01)
    return response


async def test_a_long_answer_reaches_an_agent_whole() -> None:
    app = web.Application(client_max_size=0)
    app.router.add_post("/memory/v1/tools/memory_search", in_pieces)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        calls = ApiCalls(http, str(server.make_url("")).rstrip("/"), Identity({}), "name a key")
        said = await calls.call("memory_search", {"query": "x"}, ())
    assert not said.refused, said.text
    assert said.text == WORDS


@pytest.mark.parametrize("bytes_max", [1, 130_000, 1_000_000, 10_000_000])
async def test_no_more_than_the_bound_is_read(bytes_max: int) -> None:
    app = web.Application()
    app.router.add_get("/", in_pieces)
    async with TestServer(app) as server, aiohttp.ClientSession() as http, http.get(server.make_url("/")) as answer:
        raw = await beginning(answer.content, bytes_max)
    assert len(raw) == min(bytes_max, len(json.dumps({"text": WORDS})))
