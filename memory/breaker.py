"""A dependency that may be left alone: a call in, its result out, or at once the fault that it would have ended in.

So a dead store costs a request microseconds, not its deadline. What counts: faults of the given kind, those of
a call's own time limit among them, and calls that were given up after `slow_s`; a client that leaves at once counts for
nothing. The decision is `policies/breaker.py`; here are the clock, the metrics and the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from memory.errors import MemoryProxyFault
from memory.telemetry import Metrics, event
from policies.breaker import Circuit, Rule, State, asked, failed, left_alone, succeeded

T = TypeVar("T")
log: Final = logging.getLogger("memory_proxy.breaker")
RULE: Final = Rule()


@dataclass(frozen=True, slots=True)
class Patience:
    """What counts as a fault. `fault` is also what a refused call raises; `busy` are kinds of it that do not count."""

    fault: type[MemoryProxyFault]
    slow_s: float
    busy: tuple[type[MemoryProxyFault], ...] = ()


class Breaker:
    """One dependency of one process."""

    def __init__(
        self,
        part: str,
        patience: Patience,
        metrics: Metrics,
        *,
        rule: Rule = RULE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.part = part
        self._patience = patience
        self._open = metrics.breaker_open.labels(part)
        self._trips = metrics.breaker_trips.labels(part)
        self._refused = metrics.breaker_refused.labels(part)
        self._rule = rule
        self._clock = clock
        self._circuit = Circuit()
        self._watch: asyncio.TimerHandle | None = None
        self._open.set(0)

    @property
    def state(self) -> State:
        """As of the last call."""
        return self._circuit.state

    async def check(self) -> None:
        """A probe of readiness. Raises the dependency's fault while it is left alone."""
        if left_alone(self._circuit, self._clock(), self._rule):
            raise self._patience.fault(f"{self.part} is left alone after {self._rule.faults_max} faults in a row")

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`. Raises what it raises, and its fault at once while it is left alone."""
        self._admit()
        began = self._clock()
        try:
            result = await work()
        except self._patience.fault as fault:
            if isinstance(fault, self._patience.busy):
                self._answered()
            else:
                self._failed()
            raise
        except asyncio.CancelledError:
            if self._clock() - began >= self._patience.slow_s:
                self._failed()
            raise
        self._answered()
        return result

    async def bounded(self, work: Callable[[], Awaitable[T]], limit_s: float) -> T:
        """The same, given up after `limit_s`: for what is quick or not there."""

        async def in_time() -> T:
            try:
                async with asyncio.timeout(limit_s):
                    return await work()
            except TimeoutError:
                raise self._patience.fault(f"{self.part}: no answer within {limit_s:g} s") from None

        return await self.call(in_time)

    async def each(self, rows: Callable[[], AsyncIterator[T]]) -> AsyncIterator[T]:
        """What comes in several parts: its first decides, however long it takes."""
        self._admit()
        try:
            async for one in rows():
                yield one
        except self._patience.fault:
            self._failed()
            raise
        self._answered()

    def _admit(self) -> None:
        self._circuit, may = asked(self._circuit, self._clock(), self._rule)
        if not may:
            self._refused.inc()
            raise self._patience.fault(f"{self.part} is left alone for {self._rule.rest_s:g} s: it did not answer")

    def _answered(self) -> None:
        if self._circuit.opened_at is not None:
            event(log, "breaker_closed", logging.WARNING, part=self.part)
            self._open.set(0)
        self._circuit = succeeded(self._circuit)

    def _failed(self) -> None:
        was = self._circuit.opened_at
        self._circuit = failed(self._circuit, self._clock(), self._rule)
        if was is None and self._circuit.opened_at is not None:
            event(log, "breaker_opened", logging.WARNING, part=self.part, faults=self._rule.faults_max)
            self._trips.inc()
        if self._circuit.opened_at is not None:
            self._open.set(1)
            self._watch_on()

    def _watch_on(self) -> None:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(self._rule.within_s, self._look)

    def _look(self) -> None:
        """Where nobody asks, nobody would learn that it answers again: then it is said to be left alone no longer."""
        self._watch = None
        if left_alone(self._circuit, self._clock(), self._rule):
            self._watch_on()
        else:
            self._open.set(0)
