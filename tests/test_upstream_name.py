"""The upstream's name: a resolver that never answers is refused within the bound on opening a connection."""

from __future__ import annotations

import asyncio

import pytest

from memory.errors import UpstreamUnreachable
from proxy.relay import Upstream


async def test_a_name_that_is_never_resolved_is_refused_within_the_connect_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("proxy.pool.looked_up", never)
    upstream = Upstream(
        "http://vllm.fault.test:1", api_key=None, replace_auth=False, connect_timeout_s=0.2, keepalive_s=1
    )
    try:
        async with asyncio.timeout(20):
            with pytest.raises(UpstreamUnreachable):
                await upstream.send("GET", "/health", [], None)
    finally:
        await upstream.close()


@pytest.mark.parametrize("name", ["vllm..svc", "v" * 64])
async def test_a_name_that_cannot_be_one_is_an_upstream_that_is_not_reached(name: str) -> None:
    upstream = Upstream(f"http://{name}:1", api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=1)
    try:
        with pytest.raises(UpstreamUnreachable):
            await upstream.send("GET", "/health", [], None)
    finally:
        await upstream.close()
