"""What is known of the models behind the proxy: names in, windows and exact counts out.

Windows come from vLLM's /v1/models, refreshed in the background; counts from its /tokenize, asked for only where a
prompt may not fit. Never raises and never holds a request longer than `timeout_s`: what is not known is None.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from multidict import CIMultiDict

from memory.errors import UpstreamUnreachable
from memory.telemetry import event
from proxy.relay import Upstream

log = logging.getLogger("memory_proxy.models")
REFRESH_S: Final = 60.0
_ANSWER_BYTES_MAX: Final = 4_194_304
_TOKENIZED: Final = ("model", "messages", "tools", "chat_template_kwargs", "add_generation_prompt", "chat_template")


class ServedModels:
    """Windows and counts of one upstream."""

    def __init__(self, upstream: Upstream, *, api_key: str | None, timeout_s: float = 0.2) -> None:
        self._upstream = upstream
        self._auth = f"Bearer {api_key}" if api_key else None
        self._timeout_s = timeout_s
        self._windows: dict[str, int] = {}
        self._asked_at = float("-inf")
        self._refreshing: asyncio.Task[None] | None = None

    def window(self, model: str | None) -> int | None:
        """The context window of a model in tokens; None while unknown. A stale answer is refreshed behind it."""
        if time.monotonic() - self._asked_at > REFRESH_S and self._refreshing is None:
            self._asked_at = time.monotonic()
            self._refreshing = asyncio.create_task(self.refresh())
            self._refreshing.add_done_callback(self._refreshed)
        return self._windows.get(model or "")

    async def ping(self) -> None:
        """Raise UpstreamUnreachable unless vLLM answers at all."""
        answer = await self._upstream.send("GET", "/health", CIMultiDict(), None)
        answer.close()
        if answer.status >= 500:
            raise UpstreamUnreachable(f"vLLM says {answer.status} to /health")

    def _refreshed(self, _: asyncio.Task[None]) -> None:
        self._refreshing = None

    async def refresh(self) -> None:
        """Ask which models are served. LoRA cards lack a window (FACTS) and take their parent's."""
        answer = await self._ask("GET", "/v1/models", None, 5.0)
        if answer is None:
            return
        cards = [card for card in answer.get("data", []) if isinstance(card, dict)]
        windows = {str(c.get("id")): c["max_model_len"] for c in cards if isinstance(c.get("max_model_len"), int)}
        for card in cards:
            parent = card.get("parent")
            if card.get("id") not in windows and parent in windows:
                windows[str(card.get("id"))] = windows[parent]
        self._windows = windows

    async def prompt_tokens(self, body: Mapping[str, Any]) -> int | None:
        """The exact count of a chat body under the served template, tools included."""
        question = {name: body[name] for name in _TOKENIZED if body.get(name) is not None}
        answer = await self._ask("POST", "/tokenize", question, self._timeout_s)
        count = answer.get("count") if answer else None
        return count if isinstance(count, int) else None

    async def _ask(
        self, method: str, target: str, question: Mapping[str, Any] | None, timeout_s: float
    ) -> dict[str, Any] | None:
        headers: CIMultiDict[str] = CIMultiDict({"Content-Type": "application/json"})
        if self._auth:
            headers["Authorization"] = self._auth
        body = json.dumps(question).encode() if question is not None else None
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._upstream.send(method, target, headers, body)
                async with answer:
                    raw = await answer.content.read(_ANSWER_BYTES_MAX)
                    parsed = json.loads(raw) if answer.status == 200 else None
        except (UpstreamUnreachable, aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            event(log, "upstream_not_asked", logging.DEBUG, target=target, fault=type(exc).__name__)
            return None
        return parsed if isinstance(parsed, dict) else None
