"""The same work asked for by many at once, done once: a key and a coroutine's maker in, its result out for all.

Who leaves takes nothing from the others. When all have left, the work is cancelled if one alone had asked for it; what
several asked for goes on for GOES_ON_S, since others will: ended each time, it would be begun each time and never be
had. Faults reach all who wait. Keeps nothing after the landing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
GOES_ON_S: Final = 1.0
"""Ten times what a search takes that a slow, busy process is late with. What takes longer may be stuck: begun anew."""


@dataclass(slots=True)
class _Flight(Generic[T]):
    """One piece of work, how many wait for it and how many have asked for it; what ends it while nobody waits."""

    task: asyncio.Task[T]
    waiting: int = 0
    asked: int = 0
    ending: asyncio.TimerHandle | None = None


class Flights(Generic[K, T]):
    """What is under way, by key."""

    def __init__(self) -> None:
        self._flights: dict[K, _Flight[T]] = {}

    def under_way(self, key: K) -> bool:
        """Whether somebody waits for it now."""
        return key in self._flights

    async def share(self, key: K, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `work`, begun by whoever came first. Raises what it raises."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(work()))
            flight.task.add_done_callback(partial(self._landed, key, flight))
        if flight.ending is not None:
            flight.ending.cancel()
        flight.waiting += 1
        flight.asked += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                if flight.asked == 1:
                    self._end(key, flight)
                else:
                    flight.ending = asyncio.get_running_loop().call_later(GOES_ON_S, self._end, key, flight)

    def is_mine(self, key: K) -> bool:
        """Asked by the work itself: whether it is still that of the key, and not of a time before `let_go`."""
        flight = self._flights.get(key)
        return flight is not None and flight.task is asyncio.current_task()

    def let_go(self) -> None:
        """Nobody joins what is under way any more; who waits already gets it."""
        self._flights.clear()

    def _landed(self, key: K, flight: _Flight[T], task: asyncio.Task[T]) -> None:
        self._leave(key, flight)
        if not task.cancelled():
            task.exception()  # who waited for it has been told; who left need not be

    def _end(self, key: K, flight: _Flight[T]) -> None:
        if not flight.waiting:
            self._leave(key, flight)
            flight.task.cancel()

    def _leave(self, key: K, flight: _Flight[T]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
