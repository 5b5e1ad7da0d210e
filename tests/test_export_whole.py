"""Half an export is never taken for a whole one, by a client of HTTP/1.0 either: its body ends with the connection."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from memory.model import Scope
from proxy.api.own import OwnApi
from proxy.auth import OpenDoor
from proxy.relay import reset_unless_whole
from tests.test_api_admission import Written, parts

REQUEST = b"GET /memory/v1/export?of=user HTTP/1.0\r\nHost: x\r\n\r\n"
LINES = [b"%08d" % number * 512 for number in range(2_048)]


class Still:
    """A user with one scope, and a store that stands still at its turns."""

    async def scopes_of(self, tenant: UUID, user: str) -> Sequence[Scope]:
        return [Scope(tenant, user)]

    async def export_turns(self, _scope: Scope, **_: Any) -> Any:
        await asyncio.sleep(3_600)


async def serve_still() -> None:
    """The process that is killed: its port on stdout, and then exports for ever."""
    door, still = OpenDoor(), Still()
    door.opens_to(UUID(int=1))
    made = parts(door=door, records=still, audit=Written())
    forgets: Any = SimpleNamespace(store=made.forgets.store, scopes_of=still.scopes_of)
    app = web.Application()
    OwnApi(replace(made, forgets=forgets)).register(app)
    async with TestServer(app) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        await asyncio.sleep(3_600)


async def test_an_export_whose_process_is_killed_is_reset() -> None:
    serve = f"import uvloop; from {__name__} import serve_still; uvloop.run(serve_still())"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", serve, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", int(await process.stdout.readline()))
        writer.write(REQUEST)
        assert b'"type":"scope"' in await reader.readuntil(b"}\n")
        process.send_signal(signal.SIGKILL)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_one_that_is_whole_ends_in_order_also_for_a_slow_client() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        async with reset_unless_whole(request):
            for line in LINES:
                await response.write(line)
        await response.write_eof()
        response.force_close()
        return response

    app = web.Application()
    app.router.add_get("/{tail:.*}", handler)
    async with TestServer(app) as server, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=4_096)
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.5)
        assert await reader.read() == b"".join(LINES)
        writer.close()


async def test_one_that_breaks_off_is_reset() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        async with reset_unless_whole(request):
            await response.write(LINES[0])
            raise KeyError("a defect")
        return response

    app = web.Application()
    app.router.add_get("/{tail:.*}", handler)
    async with TestServer(app) as server, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(REQUEST)
        await reader.readuntil(LINES[0])
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
