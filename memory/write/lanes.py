"""The lanes a worker holds: leases in, lanes that may be worked on out.

A lane is ours from the moment `acquire` names it until the lease time after the last `acquire` that did. Time runs on
this process's monotonic clock from before each call, so a lane is given up here before the store gives it away. What
is lost is dropped at once, its task cancelled; the fence in the commit covers the process that was asleep meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Protocol

from memory.errors import MemoryProxyFault
from memory.seldom import Seldom
from memory.write.meter import Meter

log: Final = logging.getLogger(__name__)
LOG_EACH_S: Final = 60.0


class Leases(Protocol):
    """Who works on which lane, decided in one place for all workers."""

    async def acquire(self, holder: str, want: Sequence[str], ttl_s: float) -> dict[str, int]:
        """Keep or take this worker's share of `want`; {lane: fence} of all it now holds. Raises StoreUnavailable."""

    async def release(self, holder: str) -> None:
        """Give back all lanes. Raises StoreUnavailable."""


@dataclass(slots=True, eq=False)
class Lane:
    """A lane in our hands. Mutable: this is the worker's own note of where it stands."""

    name: str
    fence: int
    reclaim: bool = True  # something may be pending that nobody works on
    look_s: float = 0.0  # monotonic, when that is looked for in any case
    full: bool = False  # the last take gave as many as were asked for
    not_before_s: float = 0.0  # monotonic
    pause_s: float = 0.0
    served_s: float = 0.0  # monotonic, when its last batch was taken
    lost: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def bulk(self) -> bool:
        """Whether it is of the class that waits for the live one."""
        return is_bulk(self.name)


def is_bulk(lane: str) -> bool:
    """Whether a lane is of the class that waits for the live one."""
    return lane.startswith("bulk")


def _by_turns(lanes: Sequence[str]) -> tuple[str, ...]:
    """Live and bulk lanes by turns: leases are shared out from the front, and each worker is to get some of both."""
    live = [lane for lane in lanes if not is_bulk(lane)]
    bulk = [lane for lane in lanes if is_bulk(lane)]
    return tuple(lane for pair in zip_longest(live, bulk) for lane in pair if lane is not None)


class Nag:
    """Says the same thing at most once in a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reset()

    def say(self, text: str, fault: Exception | str) -> None:
        """Log a warning unless one was logged within the interval."""
        if self._seldom.due():
            named = fault if isinstance(fault, str) else f"{type(fault).__name__}: {fault}".removesuffix(": ")
            log.warning("%s: %s", text, named)

    def reset(self) -> None:
        """Let the next one through."""
        self._seldom = Seldom(LOG_EACH_S, self._clock)


class HeldLanes:
    """Acquires, renews and drops. `changed` is set whenever lanes came or went."""

    def __init__(self, leases: Leases, holder: str, want: Sequence[str], ttl_s: float, meter: Meter) -> None:
        self._leases = leases
        self._holder = holder
        self._want = tuple(sorted(want, key=is_bulk))
        self._ttl_s = ttl_s
        self._meter = meter
        self._lanes: dict[str, Lane] = {}
        self._until_s = 0.0
        self._nag = Nag()
        self.changed = asyncio.Event()

    def __iter__(self) -> Iterator[Lane]:
        """Lanes that are ours now, live ones first."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._until_s:
            return iter(())
        return iter([lane for name in self._want if (lane := self._lanes.get(name)) is not None and not lane.lost])

    def want(self, lanes: Sequence[str]) -> None:
        """Work on these as well from the next beat on."""
        self._want = tuple(sorted(dict.fromkeys((*self._want, *lanes)), key=is_bulk))

    def distrust(self) -> None:
        """Every lane is reclaimed before it is read again, also those whose lease has lapsed by our clock: a process
        that slept finds them its own again, with the same fence, where nobody took them meanwhile.
        """
        for lane in self._lanes.values():
            lane.reclaim = True

    async def keep(self) -> None:
        """Renew for ever, three times in a lease; run as a task. Waits for a store that is not there."""
        while True:
            await self.beat()
            await asyncio.sleep(self._ttl_s / 3)

    async def beat(self) -> None:
        """One round with the store."""
        asked_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._ttl_s / 3):
                held = await self._leases.acquire(self._holder, _by_turns(self._want), self._ttl_s)
        except Exception as exc:  # noqa: BLE001 - the worker loop; without a beat its lanes are dropped
            self._nag.say("waiting for the store that leases lanes", exc)
            if asyncio.get_running_loop().time() + self._ttl_s / 3 >= self._until_s:
                self._drop(list(self._lanes.values()), late=True)
            return
        self._nag.reset()
        late = asked_s >= self._until_s
        self._until_s = asked_s + self._ttl_s
        self._drop([lane for lane in self._lanes.values() if held.get(lane.name) != lane.fence], late=late)
        for name, fence in held.items():
            if name not in self._lanes:
                self._lanes[name] = Lane(name, fence)
                self.changed.set()

    def drop(self, lane: Lane) -> None:
        """It is not ours any more: nothing of it is acknowledged, its task ends, and it stays away until that has."""
        self._drop([lane], late=True)

    def _drop(self, lanes: Sequence[Lane], *, late: bool) -> None:
        """These are not ours any more. Said in one line, a warning where our lease ran out: that another worker is
        given its share is in order.
        """
        lost = [lane for lane in lanes if not lane.lost]
        if lost:
            names = ", ".join(f"{lane.name} (fence {lane.fence})" for lane in lost)
            said = "lost: no sign of life of this worker came in time" if late else "given to another worker"
            log.log(logging.WARNING if late else logging.INFO, "lanes %s: %s", said, names)
        for lane in lanes:
            self._let_go(lane)

    def _let_go(self, lane: Lane) -> None:
        if not lane.lost:
            self._meter.count("lane_lost")
        lane.lost = True
        if lane.task is not None and lane.task is not asyncio.current_task():
            lane.task.cancel()
        if lane.task is None and self._lanes.get(lane.name) is lane:
            del self._lanes[lane.name]
        self.changed.set()

    def finished(self, lane: Lane) -> None:
        """The lane's task has ended; a lost lane may be acquired anew from now on."""
        lane.task = None
        if lane.lost and self._lanes.get(lane.name) is lane:
            del self._lanes[lane.name]

    async def release(self) -> None:
        """Give everything back; a store that is not there lets the leases run out."""
        for lane in self._lanes.values():
            lane.lost = True
        try:
            async with asyncio.timeout(self._ttl_s / 3):
                await self._leases.release(self._holder)
        except (MemoryProxyFault, TimeoutError) as exc:
            log.warning("lanes are not released, their leases run out: %s", str(exc) or "too slow")
