"""The service as its users call it: a user's past turns and questions in, progress and ranked turn ids out.

Speaks `POST /memory/v1/import` and `POST /memory/v1/search` and nothing else; one user for each scope.
Raises CallFailed when the service refuses, loses a line, or does not answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from proxy.cli.client import KEY_VARIABLE

# An import tells its progress each second; nothing for so long means that it hangs.
SILENCE_MAX_S: Final = 120


class CallFailed(RuntimeError):
    """The service did not do what was asked; the text holds what it said."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave. `ids` are turns best first, each once; `chance` is the surest candidate's admission (0..1).

    `millis` is the whole call, client side. `admitted_ids` are the turns of the admitted candidates, in order.
    """

    ids: tuple[str, ...]
    candidates: int
    admitted: int
    chance: float
    millis: float
    rung: str
    admitted_ids: tuple[str, ...] = ()


def session(running: str | None = None) -> aiohttp.ClientSession:
    """A client for one service. One that is `running` already is asked with the key in the environment, if there is
    one, as by every command; one of our own asks for none, and would hand it on.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip() if running else ""
    headers = {"Authorization": f"Bearer {key}"} if key else None
    return aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=None, sock_read=SILENCE_MAX_S))


def user_header(scope: str) -> dict[str, str]:
    """The header that names whose memory."""
    return {"X-Memory-User": quote(scope, safe="-_.~:@+")}


async def import_turns(
    client: aiohttp.ClientSession,
    url: str,
    scope: str,
    lines: Sequence[Mapping[str, str]],
    moved: Callable[[int], None],
) -> None:
    """Import a scope's turns and wait until all are searchable; `moved` hears how many more are. Raises CallFailed."""
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    headers = {**user_header(scope), "Content-Type": "application/x-ndjson"}
    done, last = 0, dict[str, Any]()
    try:
        async with client.post(f"{url}/memory/v1/import", data=body, headers=headers) as answer:
            if answer.status != 200:
                raise CallFailed(f"import of {scope} answered {answer.status}: {(await answer.text())[:300]}")
            async for raw in answer.content:
                last = json.loads(raw)
                if "error" in last:
                    raise CallFailed(f"import of {scope} refused line {last.get('line')}: {last['error']}")
                moved(last["done"] - done)
                done = last["done"]
    except (aiohttp.ClientError, TimeoutError) as exc:
        raise CallFailed(f"import of {scope}: {type(exc).__name__} {exc}") from exc
    if not last.get("complete") or done != len(lines):
        raise CallFailed(f"import of {scope} ended with {last}, {len(lines)} turns were sent")


async def search(client: aiohttp.ClientSession, url: str, scope: str, query: str, k: int) -> Found:
    """Ask one question. Raises CallFailed."""
    started = perf_counter()
    try:
        async with client.post(
            f"{url}/memory/v1/search", json={"query": query, "k": k}, headers=user_header(scope)
        ) as answer:
            said = await answer.json()
    except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
        raise CallFailed(f"search in {scope}: {type(exc).__name__} {exc}") from exc
    millis = (perf_counter() - started) * 1000
    if answer.status != 200:
        raise CallFailed(f"search in {scope} answered {answer.status}: {said}")
    return found_in(said, millis)


def found_in(said: Mapping[str, Any], millis: float) -> Found:
    """What a search's answer means for scoring. A candidate that shows several turns counts for each, in its order."""
    candidates = said["candidates"]
    ids = dict.fromkeys(source for candidate in candidates for source in candidate["source_ids"])
    let_in = dict.fromkeys(source for one in candidates if one.get("admitted") for source in one["source_ids"])
    chances = (candidate["scores"].get("admission", candidate["score"]) for candidate in candidates)
    return Found(
        ids=tuple(ids),
        candidates=len(candidates),
        admitted=int(said["admitted"]),
        chance=max(chances, default=0.0),
        millis=millis,
        rung=str(said.get("rung", "")),
        admitted_ids=tuple(let_in),
    )
