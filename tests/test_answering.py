"""An answer that breaks off where it was read before it was passed on: told as what it is, never as whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict

from memory.errors import UpstreamUnreachable
from memory.telemetry import Metrics
from proxy.answering import Answering
from proxy.relay import Upstream

HEAD = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@asynccontextmanager
async def answering(raw: bytes) -> AsyncIterator[str]:
    """A proxy of the one step before an upstream that says these bytes and hangs up; its URL."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await writer.drain()
        writer.close()

    async def proxied(request: web.Request) -> web.StreamResponse:
        try:
            step = Answering(upstream, Metrics(), 1 << 20)
            outcome = await step.send(request, b"{}", CIMultiDict(), refused=lambda status, text: False)
        except UpstreamUnreachable:
            return web.Response(status=502)
        return outcome.response

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        there = server.sockets[0].getsockname()[1]
        upstream = Upstream(
            f"http://127.0.0.1:{there}", api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=4
        )
        app = web.Application()
        app.router.add_post("/", proxied)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
        finally:
            await runner.cleanup()
            await upstream.close()


async def asked(url: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as http, http.post(url, data=b"{}") as answer:
        return answer.status, await answer.read()


async def test_an_error_answer_that_breaks_off_before_it_is_passed_on_is_502() -> None:
    async with answering(HEAD % 500 + b"x" * 100) as url:
        assert await asked(url) == (502, b"")


async def test_a_long_error_answer_that_breaks_off_cuts_the_client() -> None:
    async with answering(HEAD % 500_000 + b"x" * 100_000) as url:
        with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
            await asked(url)


async def test_a_whole_error_answer_passes_as_it_is() -> None:
    async with answering(HEAD % 100_000 + b"x" * 100_000) as url:
        assert await asked(url) == (400, b"x" * 100_000)
