"""What chats are given: one question each through `POST /v1/chat/completions`, what was injected and answered out.

The answer's head tells how many memories and tokens, the record of the retrieval which turns. Nothing is learnt
(`X-Memory-Mode: read`, or `off`), and answers are cut to a few tokens, unless they are what is asked for. Raises
CallFailed when the service refuses or is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, Literal

import aiohttp

from bench.recall.client import CallFailed, user_header
from bench.recall.dates import dates_shown

ANSWER_TOKENS: Final = 4
READ_TOKENS: Final = 48
"""Of an answer that is read: enough for a few words after some that were not asked for."""
INSTRUCTION: Final = (
    "Answer the question in as few words as possible, in its own language, without any explanation. "
    "If you do not know the answer, say: unknown"
)
SETTLE_MAX_S: Final = 300.0
_SETTLE_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Given:
    """What one question was given: `placed` memories of `tokens` tokens, `millis` added by the service.

    `status` is X-Memory-Status up to its first semicolon. `source_ids` are the turns behind the memories, best first;
    empty until they are read from the record, whose id is `retrieval` (None: the service made no record). `shown` are
    the days under which turns stand in the block; None: its text is gone, or was not read.
    """

    status: str
    placed: int
    tokens: int
    millis: float
    retrieval: str | None = None
    source_ids: tuple[str, ...] = ()
    shown: Mapping[str, frozenset[str]] | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What one question was answered, and what that answer was given."""

    text: str
    given: Given


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
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": ANSWER_TOKENS}
    _, head = await _called(client, "POST", f"{url}/v1/chat/completions", _headers(scope, "read", budget), body)
    return given_in(head)


async def ask_answer(
    client: aiohttp.ClientSession,
    url: str,
    model: str,
    scope: str,
    text: str,
    *,
    mode: Literal["read", "off"],
    budget: int | None,
) -> Said:
    """Ask one question for its answer, with the same settings in either mode. Raises CallFailed."""
    body = {
        "model": model,
        "messages": [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": text}],
        "max_tokens": READ_TOKENS,
        "temperature": 0,
    }
    headers = _headers(scope, mode, budget)
    said, head = await _called(client, "POST", f"{url}/v1/chat/completions", headers, body)
    try:
        # A model that thinks may have spent its tokens on that: content is null then, and the answer empty.
        return Said(str(said["choices"][0]["message"].get("content") or "").strip(), given_in(head))
    except (KeyError, IndexError, AttributeError) as exc:
        raise CallFailed(f"the answer of {model} cannot be read: {exc!r} in {str(said)[:300]}") from exc


async def refuse_stand_in(client: aiohttp.ClientSession, url: str) -> None:
    """Raises CallFailed where the stand-in is behind the service: it alone has `/__counters`."""
    try:
        async with client.get(f"{url}/__counters") as answer:
            found = answer.status == 200 and "cancelled" in await answer.text()
    except (aiohttp.ClientError, TimeoutError) as exc:
        raise CallFailed(f"GET {url}/__counters: {type(exc).__name__} {exc}") from exc
    if found:
        raise CallFailed(f"behind {url} is the stand-in, which writes filler: answers need a real model")


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
    return replace(given, source_ids=tuple(said["source_ids"]), shown=dates_shown(said))


def _headers(scope: str, mode: str, budget: int | None) -> dict[str, str]:
    asked = {} if budget is None else {"X-Memory-Budget": str(budget)}
    return {**user_header(scope), "X-Memory-Mode": mode, **asked}


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
