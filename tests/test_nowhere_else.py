"""Whatever an upstream answers, no request of ours goes to another host: redirects are passed on or refused. Nor
does one of the libraries' own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict

from memory.adapters.vllm_load import VllmLoad
from proxy.relay import Upstream

ELSEWHERE: web.AppKey[list[str]] = web.AppKey("elsewhere", list[str])


@pytest.fixture
async def elsewhere() -> AsyncIterator[TestServer]:
    """A host that nobody configured; it notes who comes."""

    async def note(request: web.Request) -> web.Response:
        request.app[ELSEWHERE].append(request.path)
        return web.Response(text="here")

    app = web.Application()
    app[ELSEWHERE] = []
    app.router.add_route("*", "/{tail:.*}", note)
    server = TestServer(app)
    async with server:
        yield server


@pytest.fixture
async def upstream(elsewhere: TestServer) -> AsyncIterator[TestServer]:
    """An upstream that sends everybody there."""

    async def away(_request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(str(elsewhere.make_url("/taken")))

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", away)
    server = TestServer(app)
    async with server:
        yield server


async def test_a_redirect_is_the_clients_to_follow(upstream: TestServer, elsewhere: TestServer) -> None:
    ours = made(upstream)
    answer = await ours.send("POST", "/v1/chat/completions", [], b"{}")
    answer.close()
    await ours.close()
    assert answer.status == 307 and elsewhere.app[ELSEWHERE] == []


async def test_a_websocket_is_not_led_away(upstream: TestServer, elsewhere: TestServer) -> None:
    ours = made(upstream)
    with pytest.raises(aiohttp.ClientError):
        await ours.websocket("/v1/realtime", CIMultiDict({"Authorization": "Bearer secret"}), ())
    await ours.close()
    assert elsewhere.app[ELSEWHERE] == []


async def test_metrics_are_asked_of_nobody_else(upstream: TestServer, elsewhere: TestServer) -> None:
    load = VllmLoad([str(upstream.make_url("/metrics"))], running_max=None)
    await load.busy(0)
    await load.close()
    assert elsewhere.app[ELSEWHERE] == []


@pytest.mark.parametrize(
    "target", ["@evil.example/x", ":1@evil.example/x", "//evil.example/x", "*", "evil.example:443"]
)
async def test_no_target_names_another_host(target: str) -> None:
    ours = Upstream("http://127.0.0.1:8000", api_key=None, replace_auth=False, connect_timeout_s=1, keepalive_s=1)
    url = ours.url(target)
    await ours.close()
    assert (url.host, url.port, url.user) == ("127.0.0.1", 8000, None)


def test_the_runtime_of_the_models_tells_its_makers_nothing(tmp_path: Path) -> None:
    """onnxruntime keeps what it will send to its makers in the cache of who runs it, from the moment it is loaded."""
    home = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    home.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", "import memory.adapters.onnx_graph"], env=home, check=True, timeout=60)
    assert list(tmp_path.rglob("*")) == []


def made(upstream: TestServer) -> Upstream:
    base = str(upstream.make_url("")).rstrip("/")
    return Upstream(base, api_key=None, replace_auth=False, connect_timeout_s=1, keepalive_s=1)
