"""What the stand-in remembers between requests: counters, the prefix cache, the last requests.

One Engine per server, given to every handler; nothing here is global and nothing is written to disk.
"""

import base64
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.fake_vllm.prefix_cache import PrefixCache
from bench.fake_vllm.settings import Fault, Settings


@dataclass(slots=True)
class Counters:
    """Generation requests since the start or the last reset. `cancelled`: the client left."""

    started: int = 0
    finished: int = 0
    cancelled: int = 0
    running: int = 0

    @contextmanager
    def track(self) -> Iterator[None]:
        """Count one request: any end other than a plain return means that the client left."""
        self.started += 1
        self.running += 1
        returned = False
        try:
            yield
            returned = True
        finally:
            self.running -= 1
            self.finished += returned
            self.cancelled += not returned


@dataclass(frozen=True, slots=True)
class Recorded:
    """One generation request as it arrived. `at_s` is the Unix time."""

    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    at_s: float

    def as_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "target": self.target,
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.headers],
            "body": base64.b64encode(self.body).decode(),
            "at": self.at_s,
        }


class Engine:
    """State of one server. `fault` is the default for all requests; `upcoming` holds one each for the next ones."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.fault = settings.fault
        self.upcoming: deque[Fault] = deque()
        self.counters = Counters()
        self.waiting = 0
        self.cache = PrefixCache(settings.block_size, settings.cache_blocks_max)
        self.records: deque[Recorded] = deque(maxlen=settings.record_max)

    def record(self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        self.records.append(Recorded(method, target, tuple(headers), body, time.time()))

    def next_fault(self) -> Fault:
        return self.upcoming.popleft() if self.upcoming else self.fault

    def reset(self) -> None:
        """Back to the state after the start, but for the requests that are running."""
        self.fault = self.settings.fault
        self.upcoming.clear()
        self.records.clear()
        self.waiting = 0
        counters = self.counters
        counters.started, counters.finished, counters.cancelled = counters.running, 0, 0
        self.cache = PrefixCache(self.settings.block_size, self.settings.cache_blocks_max)

    def metrics_text(self) -> str:
        """The few series of vLLM's /metrics that a proxy may read, in Prometheus text format."""
        label = f'{{engine="0",model_name="{self.settings.model_names[0]}"}}'
        series = (
            (
                "vllm:num_requests_running",
                "gauge",
                "Requests in execution batches.",
                self.counters.running,
            ),
            ("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", self.waiting),
            ("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in tokens.", self.cache.queries),
            ("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in tokens.", self.cache.hits),
            ("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", self.cache.queries),
        )
        return "".join(
            f"# HELP {name} {text}\n# TYPE {name} {kind}\n{name}{label} {float(value)}\n"
            for name, kind, text, value in series
        )
