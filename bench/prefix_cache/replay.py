"""Scripts played to a running service before a stand-in upstream: scripts in, Exchanges out.

The stand-in gives each request the answer its script says and records the body that it received; a request is known by
its `X-Request-Id`, which the proxy passes on. Conversations run side by side, the requests of one in their order.
Raises PlayFailed: an answer is not the one that was given, or a request did not reach the upstream.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from aiohttp import web

from bench.prefix_cache.dialogues import Message, Request, Script
from bench.prefix_cache.exchange import Exchange
from bench.recall.client import user_header
from bench.standing_in import standing_in

MODEL: Final = "recorded"
ANSWER_TIMEOUT_S: Final = 120.0


class PlayFailed(RuntimeError):
    """The service did not do its part; the text says what and where."""


@dataclass(slots=True)
class Recorded:
    """A stand-in that answers as it was told and remembers what it received; mutable."""

    answers: dict[str, Message] = field(default_factory=dict)
    received: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    count: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        known = request.headers.get("X-Request-Id", "")
        message = self.answers.get(known)
        if message is None:  # a question of the service's own
            return web.json_response({"error": {"message": "not in the script", "code": 400}}, status=400)
        self.received.setdefault(known, []).append((self.count, body))
        self.count += 1
        return await _said(request, known, message, streamed=json.loads(body).get("stream") is True)

    async def models(self, request: web.Request, /) -> web.StreamResponse:
        return web.json_response(
            {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 131072}]}
        )


async def _said(request: web.Request, known: str, message: Message, *, streamed: bool) -> web.StreamResponse:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    head = {"id": f"chatcmpl-{known}", "created": 1_790_000_000, "model": MODEL}
    if not streamed:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return web.json_response({**head, "object": "chat.completion", "choices": [choice]})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for delta, ended in ((_delta(message), None), ({}, reason)):
        choice = {"index": 0, "delta": delta, "finish_reason": ended}
        event = {**head, "object": "chat.completion.chunk", "choices": [choice]}
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _delta(message: Message) -> dict[str, Any]:
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [{"index": at, **call} for at, call in enumerate(calls)]} if calls else message


@asynccontextmanager
async def recording() -> AsyncIterator[tuple[str, Recorded]]:
    """The stand-in on a free port: its address and what it records."""
    recorded = Recorded()
    async with standing_in(recorded) as url:
        yield url, recorded


async def play(
    url: str,
    recorded: Recorded,
    scripts: Sequence[Script],
    *,
    user: str,
    at_once: int,
) -> list[Exchange]:
    """Play the scripts as one user; exchanges in the order in which the upstream saw them. Raises PlayFailed."""
    gate = asyncio.Semaphore(at_once)
    timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout, headers=user_header(user)) as http:

        async def one(number: int, script: Script) -> list[Exchange]:
            async with gate:
                return [
                    await _ask(http, url, recorded, f"{user}-{number}-{at}", script.id, request, stream=at % 2 == 1)
                    for at, request in enumerate(script.requests)
                ]

        each = await asyncio.gather(*(one(number, script) for number, script in enumerate(scripts)))
    return sorted((exchange for played in each for exchange in played), key=lambda one: one.order)


async def _ask(
    http: aiohttp.ClientSession,
    url: str,
    recorded: Recorded,
    known: str,
    script: str,
    request: Request,
    *,
    stream: bool,
) -> Exchange:
    recorded.answers[known] = request.answer
    body = request.body(MODEL, stream=stream)
    try:
        async with http.post(f"{url}/v1/chat/completions", json=body, headers={"X-Request-Id": known}) as answer:
            text, head = await answer.text(), answer.headers
    except (aiohttp.ClientError, TimeoutError) as exc:
        raise PlayFailed(f"{known}: {type(exc).__name__} {exc}") from exc
    if answer.status != 200 or (wanted := _told(request.answer)) not in _heard(text, stream=stream):
        raise PlayFailed(f"{known}: status {answer.status}, not the answer that was given: {text[:300]}")
    if not recorded.received.get(known):
        raise PlayFailed(f"{known}: answered {wanted[:40]!r}, and nothing reached the upstream under its X-Request-Id")
    order, sent = recorded.received.pop(known)[-1]
    return Exchange(
        script,
        request.kind,
        body,
        json.loads(sent),
        request.answer,
        head.get("X-Memory-Status", ""),
        int(head.get("X-Memory-Kept", "0")),
        int(head.get("X-Memory-Count", "0")),
        order,
    )


def _told(answer: Mapping[str, Any]) -> str:
    calls = answer.get("tool_calls") or ()
    return str(answer.get("content") or "") + "".join(call["function"]["arguments"] for call in calls)


def _heard(text: str, *, stream: bool) -> str:
    """What an answer says, put together from its events."""
    if not stream:
        return _told(json.loads(text)["choices"][0]["message"])
    events = (line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: {"))
    return "".join(_told(json.loads(event)["choices"][0]["delta"]) for event in events)
