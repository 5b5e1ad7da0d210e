"""What chats are given: one question each through `POST /v1/chat/completions`, what was injected out.

The answer's head tells how many memories and tokens, the record of the retrieval which turns. Nothing is learnt
(`X-Memory-Mode: read`), and answers are cut to a few tokens. Raises CallFailed when the service refuses or is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final

import aiohttp

from bench.recall.client import CallFailed, user_header

ANSWER_TOKENS: Final = 4
SETTLE_MAX_S: Final = 300.0
_SETTLE_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Given:
    """What one question was given: `placed` memories of `tokens` tokens, `millis` added by the service.

    `status` is X-Memory-Status up to its first semicolon. `source_ids` are the turns behind the memories, best first;
    empty until they are read from the record, whose id is `retrieval` (None: the service made no record).
    """

    status: str
    placed: int
    tokens: int
    millis: float
    retrieval: str | None = None
    source_ids: tuple[str, ...] = ()


async def served_model(client: aiohttp.ClientSession, url: str) -> str:
    """The name of the first model behind the service. Raises CallFailed."""
    said, _ = await _called(client, "GET", f"{url}/v1/models", {})
    if not said.get("data"):
        raise CallFailed(f"no model is served behind {url}")
    return str(said["data"][0]["id"])


async def ask_chat(
    client: aiohttp.ClientSession, url: str, model: str, scope: str, text: str, budget: int | None
) -> Given:
    """Ask one question as the user whose memory it is; `budget` in tokens, None: its own. Raises CallFailed."""
    headers = {**user_header(scope), "X-Memory-Mode": "read"}
    if budget is not None:
        headers["X-Memory-Budget"] = str(budget)
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": ANSWER_TOKENS}
    _, head = await _called(client, "POST", f"{url}/v1/chat/completions", headers, body)
    return given_in(head)


def given_in(head: Mapping[str, str]) -> Given:
    """What an answer's head says. Raises CallFailed where it is not one of the service's."""
    try:
        return Given(
            status=head["X-Memory-Status"].partition(";")[0].strip(),
            placed=int(head.get("X-Memory-Count", "0")),
            tokens=int(head.get("X-Memory-Tokens", "0").removeprefix("~")),
            millis=float(head.get("X-Memory-Millis", "0")),
            retrieval=head.get("X-Memory-Retrieval"),
        )
    except (KeyError, ValueError) as exc:
        raise CallFailed(f"the answer's X-Memory headers cannot be read: {exc!r}") from exc


async def settled(client: aiohttp.ClientSession, url: str) -> None:
    """Wait until everything captured so far is stored, records included. Raises CallFailed after SETTLE_MAX_S."""
    until = monotonic() + SETTLE_MAX_S
    while True:
        queue, _ = await _called(client, "GET", f"{url}/memory/v1/queue", {})
        if queue["pending"] + queue["in_flight"] == 0:
            return
        if monotonic() > until:
            raise CallFailed(f"the queue does not drain in {SETTLE_MAX_S:.0f} s: {queue}")
        await asyncio.sleep(_SETTLE_POLL_S)


async def with_sources(client: aiohttp.ClientSession, url: str, scope: str, given: Given) -> Given:
    """The same with the turns behind what was injected. Raises CallFailed, also where there is no record of it."""
    if given.retrieval is None:
        if given.placed:
            raise CallFailed(f"{given.placed} memories were placed in a chat of {scope} without X-Memory-Retrieval")
        return given
    address = f"{url}/memory/v1/retrievals/{given.retrieval}"
    said, _ = await _called(client, "GET", address, user_header(scope))
    return replace(given, source_ids=tuple(said["source_ids"]))


async def _called(
    client: aiohttp.ClientSession, method: str, url: str, headers: Mapping[str, str], body: Any = None
) -> tuple[dict[str, Any], Mapping[str, str]]:
    try:
        async with client.request(method, url, headers=headers, json=body) as answer:
            status, head, text = answer.status, answer.headers, await answer.text()
            said = await answer.json() if status == 200 else {}
    except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
        raise CallFailed(f"{method} {url}: {type(exc).__name__} {exc}") from exc
    if status != 200:
        raise CallFailed(f"{method} {url} answered {status}: {text[:300]}")
    return said, head
