"""Generation routes without memory: the `memory` object and the tenant's salt are handled, then the body goes on.

A body in, vLLM's answer out, carried as it comes. Nothing is recalled, placed or captured; the head says `off`.
"""

from __future__ import annotations

from aiohttp import web
from multidict import CIMultiDict

from proxy.answering import Answering
from proxy.chat import ChatCompletions, Parts
from proxy.prompt import edits_of


class Generation:
    """The handler of generation routes that have no memory yet."""

    def __init__(self, parts: Parts, chat: ChatCompletions) -> None:
        self._parts = parts
        self._chat = chat

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Take off what is ours, forward, carry the answer."""
        asked = await self._chat.understand(request, await request.read())
        body = asked.body if asked.chat is None else edits_of(asked.chat, asked.salt, {})
        head = CIMultiDict({"X-Memory-Status": "off", "X-Memory-Capture": "off"})
        answering = Answering(self._parts.upstream, self._parts.metrics, copy_bytes_max=0)
        return (await answering.send(request, body, head)).response
