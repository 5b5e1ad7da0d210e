"""Generation routes without memory: the `memory` object and the tenant's salt are handled, then the body goes on.

A body in, vLLM's answer out, carried as it comes. Nothing is recalled, placed or captured; the head says `off`.
"""

from __future__ import annotations

from aiohttp import web

from memory.errors import NotFound
from memory.passage import lap
from proxy.chat import ChatCompletions, ours_taken_off
from proxy.identity import Ask


class Generation:
    """The handler of generation routes that have no memory yet."""

    def __init__(self, chat: ChatCompletions) -> None:
        self._chat = chat

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Take off what is ours, forward, carry the answer."""
        body = await self._chat.read(request)
        lap("read")
        if not self._chat.is_plainly_off(request, body):
            asked = await self._chat.understand(request, body)
            if asked.ask.inserts:
                _refuse_sections(asked.ask)
            body = await ours_taken_off(asked)
            lap("identify")
        return await self._chat.without_memory(request, body, "off")


def _refuse_sections(ask: Ask) -> None:
    """Raise NotFound for what is placed in chats alone."""
    if ask.checkpoint is not None:
        raise NotFound("a checkpoint is restored into chat completions only", param="X-Memory-Checkpoint")
    if ask.persona is not None:
        raise NotFound("a persona is given to chat completions only", param="X-Memory-Persona")
    if ask.outside:
        raise NotFound("pages of the web are looked for in chat completions only", param="X-Memory-Outside")
