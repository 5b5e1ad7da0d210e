"""What is known of the models behind the proxy: names in, windows and exact counts out.

Windows come from vLLM's /v1/models, refreshed in the background; counts from its /tokenize, asked for only where a
prompt may not fit. Never raises, and holds a request no longer than the tokenizer's bound: what is not known is None.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from memory.breaker import Breaker
from memory.errors import TokenizerRefused, TokenizerUnavailable, UpstreamUnreachable
from memory.telemetry import event
from proxy.connection import AnswerBroken
from proxy.relay import Upstream

log = logging.getLogger("memory_proxy.models")
REFRESH_S: Final = 60.0
ANSWER_TIMEOUT_S: Final = 5.0
PostJson = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class MessageCounts(Protocol):
    """Counts conversations by the served model's own tokenizer and template, within a bound."""

    async def count_messages(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None,
        chat_template_kwargs: Mapping[str, Any] | None,
        within_s: float | None,
    ) -> int:
        """Raises TokenizerUnavailable."""


class ServedModels:
    """Windows and counts of one upstream."""

    def __init__(
        self, upstream: Upstream, *, api_key: str | None, counts: Callable[[PostJson], MessageCounts], breaker: Breaker
    ) -> None:
        self._upstream = upstream
        self._auth = f"Bearer {api_key}".encode() if api_key else None
        self._counts = counts(self._post)
        self._breaker = breaker
        self._windows: dict[str, int] = {}
        self._default: str | None = None
        self._asked_at = float("-inf")
        self._refreshing: asyncio.Task[None] | None = None

    def window(self, model: str | None) -> int | None:
        """The context window of a model in tokens; None while unknown. A stale answer is refreshed behind it.

        A request may name no model: vLLM answers as the first one that it lists.
        """
        if time.monotonic() - self._asked_at > REFRESH_S and self._refreshing is None:
            self._asked_at = time.monotonic()
            self._refreshing = asyncio.create_task(self.refresh())
            self._refreshing.add_done_callback(self._refreshed)
        return self._windows.get(model or self._default or "")

    async def ping(self) -> None:
        """Raise UpstreamUnreachable unless vLLM answers at all."""
        answer = await self._upstream.send("GET", "/health", [], None)
        answer.close()
        if answer.status >= 500:
            raise UpstreamUnreachable(f"vLLM says {answer.status} to /health")

    def _refreshed(self, _: asyncio.Task[None]) -> None:
        self._refreshing = None

    async def refresh(self) -> None:
        """Ask which models are served. LoRA cards lack a window (FACTS) and take their parent's."""
        try:
            answer = await self._ask("/v1/models", None, ANSWER_TIMEOUT_S)
        except (OSError, ValueError, RecursionError) as fault:  # TimeoutError is an OSError
            event(log, "models_not_known", logging.DEBUG, fault=str(fault))
            return
        data = answer.get("data")
        cards = [card for card in data if isinstance(card, dict)] if isinstance(data, list) else []
        named = {card["id"]: card for card in cards if isinstance(card.get("id"), str)}
        windows = {
            name: card["max_model_len"] for name, card in named.items() if isinstance(card.get("max_model_len"), int)
        }
        for name, card in named.items():
            parent = card.get("parent")
            if name not in windows and isinstance(parent, str) and parent in windows:
                windows[name] = windows[parent]
        self._windows, self._default = windows, next(iter(named), None)

    async def prompt_tokens(self, body: Mapping[str, Any], within_s: float | None = None) -> int | None:
        """The exact count of a chat body under the served template, tools included; None where it cannot be had in
        time, or a member is of a type that vLLM will refuse.
        """
        model, messages = body.get("model"), body.get("messages")
        model = self._default if model in (None, "") else model
        tools, kwargs = body.get("tools"), body.get("chat_template_kwargs")
        if not isinstance(model, str) or not isinstance(messages, list):
            return None
        if not isinstance(tools, list | None) or not isinstance(kwargs, dict | None):
            return None
        try:
            return await self._counts.count_messages(
                model, messages, tools=tools, chat_template_kwargs=kwargs, within_s=within_s
            )
        except (TokenizerUnavailable, RecursionError) as fault:  # nested as deep as it could just be read
            event(log, "prompt_not_counted", logging.DEBUG, fault=str(fault))
            return None

    async def _ask(self, path: str, question: Mapping[str, Any] | None, timeout_s: float) -> Mapping[str, Any]:
        """An answer parsed. Raises OSError, ValueError, TimeoutError."""
        headers = [(b"Content-Type", b"application/json")]
        if self._auth:
            headers.append((b"Authorization", self._auth))
        method, body = ("GET", None) if question is None else ("POST", json.dumps(question).encode())
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._upstream.send(method, path, headers, body)
                try:
                    raw = await answer.read_all()
                finally:
                    answer.close()
        except (UpstreamUnreachable, AnswerBroken) as exc:
            raise OSError(f"{path}: {type(exc).__name__}") from exc
        parsed = json.loads(raw) if answer.status == 200 else None
        if not isinstance(parsed, dict):
            raise ValueError(f"{path}: status {answer.status}")
        return parsed

    async def _post(self, path: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Raises TokenizerUnavailable. A tokenizer that does not answer is left alone for a while: else each request
        that may not fit waits for it. One that refuses a question has answered.
        """

        async def asked() -> Mapping[str, Any]:
            try:
                return await self._ask(path, question, ANSWER_TIMEOUT_S)
            except ValueError as fault:
                raise TokenizerRefused(f"{path}: {type(fault).__name__}") from fault
            except OSError as fault:  # TimeoutError is an OSError
                raise TokenizerUnavailable(f"{path}: {type(fault).__name__}") from fault

        return await self._breaker.call(asked)
