"""How busy vLLM is with its users: the /metrics of its servers in, a yes or no out.

Busy while requests wait anywhere, while more requests of others run than allowed, or while the time to the first token
rises. Asked at most once in an interval, whoever asks. Fails towards the users: an address that does not answer, or
answers without the gauge, is busy, and said so in the log once a minute. Without addresses only `rising` is heard.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

from memory.telemetry import event
from memory.write.pace import Trend

log: Final = logging.getLogger("memory_proxy.extract")
METRICS_BYTES_MAX: Final = 8_388_608
_SAY_EACH_S: Final = 60.0
_TIMEOUT_S: Final = 2.0
_LINE: Final = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{.*\})?[ \t]+(\S+)", re.MULTILINE)
_WAITING: Final = "vllm:num_requests_waiting"
_RUNNING: Final = "vllm:num_requests_running"
_TTFT: Final = "vllm:time_to_first_token_seconds"


@dataclass(frozen=True, slots=True)
class Reading:
    """The sums over all engines of one address; None where a series is missing. `first_*`: times to first tokens."""

    waiting: float | None
    running: float | None
    first_sum_s: float | None
    first_count: float | None


def read_metrics(text: str) -> Reading:
    """What a Prometheus text says of the load; lines that cannot be read are passed over."""
    sums: dict[str, float] = {}
    for name, raw in _LINE.findall(text):
        if name.startswith("vllm:"):
            try:
                sums[name] = sums.get(name, 0.0) + float(raw)
            except ValueError:
                continue
    return Reading(*(sums.get(name) for name in (_WAITING, _RUNNING, f"{_TTFT}_sum", f"{_TTFT}_count")))


def _quiet() -> bool:
    return False


class VllmLoad:
    """The Load of some addresses. `rising`: another voice that latency rises; `running_max` None: any number runs."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        interval_s: float = 1.0,
        running_max: int | None = None,
        rising: Callable[[], bool] = _quiet,
    ) -> None:
        self._urls = [URL(url, encoded=True) for url in urls]
        self._interval_s = interval_s
        self._timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        self._running_max = running_max
        self._rising = rising
        self._session: aiohttp.ClientSession | None = None
        self._readings: list[Reading | None] = []
        self._read_s = float("-inf")  # monotonic
        self._said_s = float("-inf")
        self._first: tuple[float, float] | None = None  # sum in seconds, count
        self._trend = Trend()
        self._reading = asyncio.Lock()

    async def busy(self, ours: int) -> bool:
        """See pace.Load."""
        if self._rising():
            return True
        if not self._urls:
            return False
        async with self._reading:
            now_s = asyncio.get_running_loop().time()
            if now_s - self._read_s >= self._interval_s:
                self._readings = await asyncio.gather(*map(self._read, self._urls))
                self._read_s = asyncio.get_running_loop().time()
                self._watch_first_tokens()
        return self._trend.rising or self._taken(ours)

    async def close(self) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    def _taken(self, ours: int) -> bool:
        running = 0.0
        for reading in self._readings:
            if reading is None or reading.waiting is None or reading.waiting > 0:
                return True
            running += reading.running or 0.0
        return self._running_max is not None and running - ours > self._running_max

    def _watch_first_tokens(self) -> None:
        """One more mean of what was served since the last reading; a restarted server begins anew."""
        sums = sum(reading.first_sum_s or 0.0 for reading in self._readings if reading)
        counts = sum(reading.first_count or 0.0 for reading in self._readings if reading)
        before, self._first = self._first, (sums, counts)
        served = counts - before[1] if before else 0.0
        self._trend = self._trend.after((sums - before[0]) / served if before and served > 0 else None)

    async def _read(self, url: URL) -> Reading | None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.get(url, allow_redirects=False) as answer:
                raw = await answer.content.read(METRICS_BYTES_MAX) if answer.status == 200 else b""
                while (
                    answer.status == 200 and len(raw) < METRICS_BYTES_MAX and (more := await answer.content.readany())
                ):
                    raw += more
                reading = read_metrics(raw.decode("utf-8", "replace"))
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            self._say(url, type(exc).__name__)
            return None
        if reading.waiting is None:
            self._say(url, f"status {answer.status}, no {_WAITING}")
        return reading

    def _say(self, url: URL, fault: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._said_s >= _SAY_EACH_S:
            self._said_s = now_s
            event(log, "load_not_known", logging.WARNING, url=str(url), fault=fault)
