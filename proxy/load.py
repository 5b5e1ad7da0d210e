"""The load of one process: how late the event loop is and how long a question waits for its vector, in; a rung, out.

Both are moving averages. Looks every LOOK_S at how late it comes round itself; a frozen or busy machine is seen so as
well as a full process. The decision is `policies/overload.py`. Refuses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from memory.config import Settings
from memory.places import Places
from memory.telemetry import Metrics, event
from policies.overload import LADDER, Place, Rung, Steps, moved, pressure
from proxy.shedding import WAIT_SHARE, MemoryPlaces

log: Final = logging.getLogger("memory_proxy.load")
LOOK_S: Final = 0.05
# Of a moving average, the part of the newest value: at a look each 50 ms half of it is from the last 150 ms.
_NEWEST: Final = 0.2
STEPS: Final = Steps()


class LoadControl:
    """Says on which rung a request may begin. One per process."""

    def __init__(self, deadline_s: float, metrics: Metrics, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._deadline_s = deadline_s
        self._clock = clock
        self._place = Place()
        self._lag_s = 0.0
        self._embedding_s = 0.0
        self._embedded = False  # since the last look
        self._metrics = metrics

    @property
    def rung(self) -> Rung:
        """The best rung that may be begun now."""
        return self._place.rung

    def embedding_took(self, seconds: float) -> None:
        """A question had its vector after so long."""
        self._embedded = True
        self._embedding_s += _NEWEST * (seconds - self._embedding_s)

    def embedding_left(self, seconds: float) -> None:
        """A question was given up after so long: its vector takes longer, nobody knows by how much."""
        if seconds > self._embedding_s:
            self.embedding_took(seconds)

    def look(self, late_s: float) -> None:
        """Once each LOOK_S, with how late it is."""
        self._lag_s += _NEWEST * (max(0.0, late_s) - self._lag_s)
        if not self._embedded:  # nobody asks, or none may: what was measured says less and less
            self._embedding_s *= 1 - _NEWEST
        self._embedded = False
        self._metrics.loop_lag_seconds.observe(max(0.0, late_s))
        before = self._place
        now_pressure = pressure(self._lag_s, self._embedding_s, self._deadline_s)
        self._place = moved(before, now_pressure, self._clock(), STEPS)
        if self._place.at != before.at:
            self._moved(before, now_pressure)

    async def keep_looking(self) -> None:
        """For ever; run as a task."""
        while True:
            due = self._clock() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.look(self._clock() - due)

    def _moved(self, before: Place, now_pressure: float) -> None:
        self._metrics.overload_rung.set(self._place.at)
        down = self._place.at > before.at
        self._metrics.overload_steps.labels("down" if down else "up").inc()
        level = logging.WARNING if down else logging.INFO
        said = {"lag_ms": round(self._lag_s * 1000, 1), "embedding_ms": round(self._embedding_s * 1000, 1)}
        event(log, "load_rung", level, rung=LADDER[self._place.at], pressure=round(now_pressure, 2), **said)


def places_of(settings: Settings, load: LoadControl, metrics: Metrics, searches: Places) -> MemoryPlaces:
    """The places that memory's work has, under this load."""
    wait_s = settings.recall.deadline_ms / 1000 * WAIT_SHARE
    return MemoryPlaces(settings.limits.recalls_max, wait_s, lambda: load.rung, metrics, searches)
