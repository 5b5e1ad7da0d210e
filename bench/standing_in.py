"""A stand-in for vLLM whose answers a benchmark chooses: two handlers in, a running server's address out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from aiohttp import web


class Answers(Protocol):
    """What is said to a chat, and which models there are."""

    async def answer(self, request: web.Request) -> web.StreamResponse: ...
    async def models(self, request: web.Request, /) -> web.StreamResponse: ...


@asynccontextmanager
async def standing_in(model: Answers) -> AsyncIterator[str]:
    """The stand-in on a free port."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", model.answer)
    app.router.add_get("/v1/models", model.models)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
