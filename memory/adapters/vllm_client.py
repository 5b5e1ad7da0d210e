"""Questions to the serving vLLM: the bytes of a request body in, the answer's text and what it cost out.

A pool of its own, no retries but one: a 4xx to a body with our `priority` is asked again without it, and what that
shows is remembered. vLLM 0.32 takes the member also where it does not schedule by it, so that it is taken promises
nothing: the pause rule holds all the same. Every call has a wall limit and a
bound on the bytes read; a call that is cancelled closes its connection, which frees the model. Bodies and answers are
never logged. Raises ExtractorUnavailable (come again) and ExtractorRefused (never will: a 4xx, an endless answer).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from yarl import URL

from memory.errors import ExtractorRefused, ExtractorUnavailable

CONNECT_TIMEOUT_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 1_048_576  # 32 times the longest answer of 768 tokens with its head
_CHAT: Final = "/v1/chat/completions"
_TOKENIZE: Final = "/tokenize"
# Refusals that pass: too many requests, a time-out of a part in between.
_PASSING: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer: `text` of the first choice (its reasoning where it has no content), "" without any.

    Token counts as vLLM reports them; `cached_tokens` is None unless it runs with --enable-prompt-tokens-details.
    """

    text: str
    finish_reason: str | None
    prompt_tokens: int
    cached_tokens: int | None
    completion_tokens: int

    @property
    def cost_tokens(self) -> int:
        """Tokens that were computed: what the prefix cache gave is free."""
        return self.prompt_tokens - (self.cached_tokens or 0) + self.completion_tokens


class VllmClient:
    """One upstream. `base`: its URL without /v1. `priority` 0 sends none; higher waits longer."""

    def __init__(
        self,
        base: str,
        *,
        api_key: str | None = None,
        priority: int = 100,
        wall_s: float = 60.0,
    ) -> None:
        self._base = base.rstrip("/")
        self._auth = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._priority = priority
        self._priority_taken: bool | None = None if priority else False
        self._wall_s = wall_s
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        self._session: aiohttp.ClientSession | None = None

    @property
    def priority_taken(self) -> bool | None:
        """Whether the server takes a priority, honoured or not; None before the first answer."""
        return self._priority_taken

    async def close(self) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    async def complete(self, body: bytes) -> Completion:
        """Ask. `body`: one JSON object without `priority`. Raises ExtractorUnavailable, ExtractorRefused."""
        if self._priority_taken is False:
            return _completion(await self._post(_CHAT, body))
        try:
            answer = await self._post(_CHAT, _with_priority(body, self._priority))
        except ExtractorRefused:
            answer = await self._post(_CHAT, body)  # it was the priority, unless this is refused as well
            self._priority_taken = False
            return _completion(answer)
        self._priority_taken = True
        return _completion(answer)

    async def token_ids(self, question: Mapping[str, Any]) -> list[int]:
        """The tokens of a prompt, as /tokenize of this server renders it. Raises as `complete` does."""
        answer = await self._post(_TOKENIZE, json.dumps(question).encode())
        tokens = answer.get("tokens")
        if not isinstance(tokens, list):
            raise ExtractorRefused("vLLM's /tokenize names no tokens")
        return tokens

    async def _post(self, path: str, body: bytes) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(self._wall_s):
                status, raw = await self._exchange(path, body)
        except TimeoutError as exc:
            raise ExtractorUnavailable(f"no whole answer from vLLM within {self._wall_s} s") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise ExtractorUnavailable(f"vLLM does not answer ({type(exc).__name__})") from exc
        if 400 <= status < 500 and status not in _PASSING:
            raise ExtractorRefused(f"vLLM says {status} to the question")
        if status != 200:
            raise ExtractorUnavailable(f"vLLM says {status}")
        return _object(raw)

    async def _exchange(self, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **self._auth}
        url = URL(self._base + path, encoded=True)
        async with self._pool().post(url, data=body, headers=headers, allow_redirects=False) as answer:
            raw = bytearray()
            async for chunk in answer.content.iter_any():
                raw += chunk
                if len(raw) > ANSWER_BYTES_MAX:
                    answer.close()
                    raise ExtractorRefused(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
            return answer.status, bytes(raw)

    def _pool(self) -> aiohttp.ClientSession:
        """Made in the loop that uses it, which aiohttp demands."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


def _with_priority(body: bytes, priority: int) -> bytes:
    return body.rstrip()[:-1] + b',"priority":%d}' % priority


def _object(raw: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise ExtractorUnavailable("vLLM's answer is no JSON") from exc
    if not isinstance(parsed, dict):
        raise ExtractorUnavailable("vLLM's answer is no object")
    return parsed


def _completion(answer: Mapping[str, Any]) -> Completion:
    """The parts that matter; whatever is missing or of another type counts as nothing."""
    choices = answer.get("choices")
    choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
    message, usage = _mapping(choice.get("message")), _mapping(answer.get("usage"))
    finish = choice.get("finish_reason")
    cached = _mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
    return Completion(
        text=_string(message.get("content")) or _string(message.get("reasoning")),
        finish_reason=finish if isinstance(finish, str) else None,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(cached) if isinstance(cached, int) else None,
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
