"""One search or one chat, timed: a user and a question in, milliseconds and how it was answered out.

`answered` is the rung (`full` from the index in process, `no-rerank` by Postgres, `lexical`), or the reason why nothing
was given (`deadline`, `store`, …). Raises CallFailed where the service refuses or is silent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import aiohttp

from bench.recall.chat import ANSWER_TOKENS
from bench.recall.client import CallFailed, user_header

_PARAMETER: Final = re.compile(r"(rung|reason)=([\w-]+)")
_HELD: Final = re.compile(r"^memory_proxy_hot_scope_bytes(?:\{[^}]*\})? (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Timed:
    """`client_ms` is the whole call as its client sees it, `service_ms` what the service says it took for memory."""

    client_ms: float
    service_ms: float
    answered: str


async def search(http: aiohttp.ClientSession, url: str, user: str, text: str) -> Timed:
    """`POST /memory/v1/search`. Raises CallFailed."""
    said, _, millis = await _called(http, f"{url}/memory/v1/search", user_header(user), {"query": text})
    try:
        return Timed(millis, float(said["millis"]), str(said["rung"]))
    except (KeyError, ValueError, TypeError) as exc:
        raise CallFailed(f"the answer of a search cannot be read: {exc!r}") from exc


async def chat(http: aiohttp.ClientSession, url: str, model: str, user: str, text: str) -> Timed:
    """A chat completion that reads memory and keeps nothing. Raises CallFailed."""
    headers = {**user_header(user), "X-Memory-Mode": "read"}
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": ANSWER_TOKENS}
    _, head, millis = await _called(http, f"{url}/v1/chat/completions", headers, body)
    try:
        return Timed(millis, float(head["X-Memory-Millis"]), answered_by(head["X-Memory-Status"]))
    except (KeyError, ValueError) as exc:
        raise CallFailed(f"the answer's X-Memory headers cannot be read: {exc!r}") from exc


def answered_by(status: str) -> str:
    """The rung that X-Memory-Status names, else the reason why nothing was given, else `full`."""
    said = dict(_PARAMETER.findall(status))
    return said.get("rung") or said.get("reason") or "full"


async def hot_bytes(http: aiohttp.ClientSession, url: str) -> int:
    """Bytes that the service says its hot scopes hold. Raises CallFailed."""
    try:
        async with http.get(f"{url}/memory/metrics") as answer:
            return held_in(await answer.text())
    except (aiohttp.ClientError, TimeoutError) as exc:
        raise CallFailed(f"{url}/memory/metrics: {type(exc).__name__} {exc}") from exc


def held_in(metrics: str) -> int:
    """The same, from the text of /memory/metrics; 0 where it has no such line."""
    return int(sum(float(value) for value in _HELD.findall(metrics)))


async def _called(
    http: aiohttp.ClientSession, url: str, headers: Mapping[str, str], body: Any
) -> tuple[dict[str, Any], Mapping[str, str], float]:
    began = perf_counter()
    try:
        async with http.post(url, json=body, headers=headers) as answer:
            raw, status, head = await answer.read(), answer.status, answer.headers
            millis = (perf_counter() - began) * 1000
            said = await answer.json() if status == 200 else {}
    except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
        raise CallFailed(f"POST {url}: {type(exc).__name__} {exc}") from exc
    if status != 200:
        raise CallFailed(f"POST {url} answered {status}: {raw[:300].decode(errors='replace')}")
    return said, head, millis
