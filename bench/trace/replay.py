"""Open loop: arrivals in, one sample for each request out. A request starts when the trace says, whatever runs already.

Every arrival goes to each way once: the first at its time, the next `APART_S` later, so that the two do not compete for
the same moment; which goes first alternates. How late the client itself was is part of each sample (`late_s`): where
that grows, the client was the bottleneck and not the service.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from bench.overhead.load import AnswerLost, Connection, Target, Timing
from bench.recall.client import user_header
from bench.trace.arrivals import Arrival

APART_S: Final = 0.1
# Past this a kept connection may be closed by the other end at the moment it is used.
IDLE_MAX_S: Final = 3.0
# An arrival is made into a request so long before it is due.
AHEAD_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Sample:
    """One request by one way. Seconds; `timing` None: no answer, or not a whole one. `at_s` since the run began."""

    way: str
    arrival: int
    at_s: float
    late_s: float
    timing: Timing | None


@dataclass(frozen=True, slots=True)
class Load:
    """How arrivals become requests: so many times as fast, at this pace of the stand-in (milliseconds)."""

    speed: float
    seconds: float
    first_ms: float = 0.0
    token_ms: float = 0.0
    model: str | None = None


class Kept:
    """Connections to one target, opened as they are needed."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._idle: list[tuple[float, Connection]] = []

    async def ask(self, request: bytes) -> Timing | None:
        """One request on a connection of its own. None when the answer was lost, refused or not whole."""
        connection: Connection | None = None
        try:
            connection = self._usable() or await self._opened()
            timing = await connection.ask(request)
        except (AnswerLost, TimeoutError, OSError):
            if connection is not None:
                connection.close()
            return None
        self._idle.append((time.monotonic(), connection))
        return timing if timing.complete else None

    def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            self._idle.pop()[1].close()

    def _usable(self) -> Connection | None:
        while self._idle:
            since, connection = self._idle.pop()
            if connection.alive and time.monotonic() - since < IDLE_MAX_S:
                return connection
            connection.close()
        return None

    async def _opened(self) -> Connection:
        place = urlsplit(self._target.url)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, place.hostname or "127.0.0.1", place.port or 80)
        return connection


def request_of(arrival: Arrival, target: Target, load: Load) -> bytes:
    """The bytes of one arrival on its way to one target."""
    body: dict[str, object] = {"messages": arrival.messages(), "stream": True, "max_tokens": max(arrival.tokens, 1)}
    if load.model:
        body["model"] = load.model
    extra = [*user_header(arrival.user).items(), ("x-fake-reply", arrival.answer())]
    if arrival.session:
        extra.append(("X-Memory-Session", arrival.session))
    extra += [("x-fake-first-ms", str(load.first_ms)), ("x-fake-token-ms", str(load.token_ms))]
    return target.raw(json.dumps(body, ensure_ascii=False).encode(), extra)


def due(arrivals: Sequence[Arrival], load: Load) -> list[Arrival]:
    """Those that start within the run."""
    return [arrival for arrival in arrivals if arrival.at_s / load.speed < load.seconds]


async def replay(
    arrivals: Sequence[Arrival], targets: Sequence[Target], load: Load, heard: Callable[[Sample], None]
) -> None:
    """Send all that is due and wait for the last answer; `heard` is told of each as it ends."""
    loop = asyncio.get_running_loop()
    running: set[asyncio.Task[None]] = set()
    async with _kept(targets) as kept:
        began = loop.time() + AHEAD_S

        async def one(number: int, request: bytes, target: Target, at_s: float) -> None:
            await asyncio.sleep(max(began + at_s - loop.time(), 0))
            late_s = loop.time() - began - at_s
            timing = await kept[target.name].ask(request)
            heard(Sample(target.name, number, at_s, late_s, timing))

        for number, arrival in enumerate(due(arrivals, load)):
            at_s = arrival.at_s / load.speed
            await asyncio.sleep(max(began + at_s - AHEAD_S - loop.time(), 0))
            turn = number % len(targets)
            for place, target in enumerate((*targets[turn:], *targets[:turn])):
                request = request_of(arrival, target, load)
                task = asyncio.create_task(one(number, request, target, at_s + place * APART_S))
                running.add(task)
                task.add_done_callback(running.discard)
        while running:
            await asyncio.wait(running)


@asynccontextmanager
async def _kept(targets: Sequence[Target]) -> AsyncIterator[dict[str, Kept]]:
    found = {target.name: Kept(target) for target in targets}
    try:
        yield found
    finally:
        for one in found.values():
            one.close()
