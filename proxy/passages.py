"""The passage of each request: a request and its route in, one count, one log line and one trace of it out.

Whatever becomes of it: answered, refused, left by its client, or failed by a fault of ours. A scrape or a probe of ours
is said at level debug. What is no HTTP request (a head that never came, or that aiohttp cannot read) is not said.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from memory.passage import AT_HAND, CLIENT_LEFT, Passage, Tracing
from memory.telemetry import Metrics, event

log = logging.getLogger("memory_proxy.passages")
_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
WRITE_S: Final = 1.0
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
ENDED: Final = web.RequestKey("ended", bool)
"""The service ends, and this request with it."""
_PROBES: Final = frozenset({"/memory/health", "/memory/ready", "/memory/metrics"})


class Passages:
    """Begins and ends passages. One per process."""

    def __init__(self, metrics: Metrics, tracing: Tracing | None) -> None:
        self._metrics = metrics
        self._tracing = tracing

    @contextmanager
    def of(self, request: web.Request, route: str) -> Iterator[Passage]:
        """The passage of a request; the caller says what it was answered with (`answered`)."""
        trace = self._tracing.begin(request.headers) if self._tracing is not None and route != "own" else None
        stages = self._metrics.stages if route == "chat" else None
        method = request.method if request.method in _METHODS else "other"
        passage = Passage(stages, trace, {"route": route, "method": method})
        if trace is not None:
            passage.facts["trace"] = trace.id
        elif (given := request.headers.get("traceparent")) and (found := _TRACEPARENT.fullmatch(given)):
            passage.facts["trace"] = found[1]
        at_hand = AT_HAND.set(passage)
        facts = passage.facts
        try:
            yield passage
        except (asyncio.CancelledError, ConnectionError):
            facts["outcome"] = "partial" if request.get(ENDED) else "client_left"
            facts.setdefault("http", CLIENT_LEFT)
            if not request.get(ENDED):
                self._metrics.clients_left.inc()
            raise
        except BaseException:
            facts.update({"outcome": "unforeseen", "http": 500})
            raise
        finally:
            AT_HAND.reset(at_hand)
            facts["bytes_in"] = request.content.total_bytes
            self._metrics.requests.inc(route, f"{facts['http'] // 100}xx")
            if (status := facts.get("memory")) is not None:  # what the head said last
                self._metrics.statuses.inc(status, facts.get("reason") or "")
            passage.finish(logging.DEBUG if request.path in _PROBES else logging.INFO)

    async def keep_writing(self) -> None:
        """Write what was counted, each second, for ever."""
        try:
            while True:
                await asyncio.sleep(WRITE_S)
                try:
                    self._metrics.write()
                except OSError as fault:  # a full disk: a series that is new makes its file longer
                    event(log, "counts_not_written", logging.ERROR, fault=str(fault))
        finally:
            self._metrics.write()


def answered(passage: Passage, response: web.StreamResponse) -> None:
    """Note what a request was answered with."""
    size = response.body_length
    if not size and isinstance(response, web.Response) and isinstance(response.body, bytes):
        size = len(response.body)  # it is sent when this has returned
    passage.facts.update({"http": response.status, "bytes_out": size})
    passage.facts.setdefault("outcome", "failed" if response.status >= 400 else "complete")
