"""What a scrape asks for itself: how much waits, whether or not a memory worker is there to say it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from memory.errors import StoreUnavailable
from memory.ports import QueueDepth
from memory.telemetry import Metrics
from proxy.api.health import Health


class Store:
    """Erasures that wait; None: it does not answer."""

    def __init__(self) -> None:
        self.erasures: list[str] | None = []

    async def waiting(self) -> list[str]:
        if self.erasures is None:
            raise StoreUnavailable("away")
        return self.erasures


class Queue:
    async def depth(self) -> QueueDepth:
        return QueueDepth(pending=1, in_flight=0, background=0, dead=0, oldest_seconds=2.0)


@pytest.fixture
def store() -> Store:
    return Store()


async def scraped(store: Store, metrics: Metrics) -> str:
    anybody = SimpleNamespace(admit=lambda _: SimpleNamespace(can=lambda _: True))
    parts = SimpleNamespace(door=anybody, metrics=metrics, queue=Queue(), forgets=SimpleNamespace(store=store))
    answer = await Health(cast(Any, parts)).metrics(make_mocked_request("GET", "/memory/metrics"))
    assert isinstance(answer, web.Response) and isinstance(answer.body, bytes)
    return answer.body.decode()


async def test_erasures_that_nobody_goes_through_with_are_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory worker that stands still said 0 when it was asked last."""
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    metrics = Metrics(CollectorRegistry())
    store.erasures = ["one", "two"]
    said = await scraped(store, metrics)
    assert "memory_proxy_erasures_waiting 2.0" in said and 'queue_entries{state="pending"} 1.0' in said
    store.erasures = None
    assert "memory_proxy_erasures_waiting 2.0" in await scraped(store, metrics), "as it was said last"
