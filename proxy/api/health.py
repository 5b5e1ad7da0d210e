"""Health, readiness and metrics: nothing in, what this process is like out.

`health` answers while the process does. `ready` is 503 only before the first complete start and while draining.
`metrics` merges all workers and sets the gauges of what waits at the scrape; in `keys` mode it wants metrics:read.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from memory.errors import QueueUnavailable, StoreUnavailable
from proxy.api.answers import json_answer, said
from proxy.api.asking import parameters, require
from proxy.api.parts import OwnParts
from proxy.api.schemas import HealthSaid

# Prometheus' text format 0.0.4, which prometheus_client writes.
_EXPOSITION: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_ASKED_S: Final = 1.0


class Health:
    """`/memory/health`, `/memory/ready`, `/memory/metrics`."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def health(self, request: web.Request) -> web.Response:
        """200 while the process answers."""
        return said(HealthSaid())

    async def ready(self, request: web.Request) -> web.Response:
        """What the dependencies say."""
        status, body = self._parts.readiness.answer()
        return json_answer(body, status)

    async def metrics(self, request: web.Request) -> web.Response:
        """Prometheus' text format. Raises InvalidApiKey, AuthUnavailable, CapabilityMissing."""
        require(self._parts.door.admit(request), "metrics:read")
        parameters(request, ())
        await asyncio.gather(self._ask_queue(), self._ask_erasures())
        self._parts.metrics.write()
        exposition = await asyncio.to_thread(self._parts.metrics.exposition)
        return web.Response(body=exposition, headers=_EXPOSITION)

    async def _ask_queue(self) -> None:
        """Set the gauges; a queue that does not answer leaves them as they were."""
        try:
            async with asyncio.timeout(_ASKED_S):
                depth = await self._parts.queue.depth()
        except (QueueUnavailable, TimeoutError):
            return
        metrics = self._parts.metrics
        for state in ("pending", "in_flight", "background", "dead"):
            metrics.queue_entries.labels(state).set(getattr(depth, state))
        metrics.queue_oldest_seconds.set(depth.oldest_seconds)

    async def _ask_erasures(self) -> None:
        """The same of erasures: a memory worker that stands still goes through with none, and counts none."""
        try:
            async with asyncio.timeout(_ASKED_S):
                waiting = await self._parts.forgets.store.waiting()
        except (StoreUnavailable, TimeoutError):
            return
        self._parts.metrics.erasures_waiting.set(len(waiting))
