"""Deferred extraction beside the lanes: marked exchanges of all tenants in, each brought to its end, for ever.

Takes as many as it has hands for, from tenants in turn, and keeps what it holds under a lease; who is killed leaves it
to another when that runs out. While the model is away nothing is taken but what has waited its time, which the rules
then take. A store that does not answer is asked again. Never ends by itself: cancel it, and what is in hand is given
back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from memory.errors import EmbedderUnavailable, ExtractorUnavailable, MemoryProxyFault, StoreUnavailable
from memory.telemetry import Metrics, event
from memory.write.due import Due
from memory.write.extraction import Extraction

log = logging.getLogger("memory_proxy.extract")
# Beyond the questions under way: so many exchanges may wait for their turn in hand, of different tenants if there are.
HANDS_MORE: Final = 7
AWAY_S: Final = 1.0
AWAY_S_MAX: Final = 60.0
_SAY_EACH_S: Final = 60.0


class DueTaker(Protocol):
    """Where marked exchanges are taken. Raises StoreUnavailable."""

    async def take(
        self, limit: int, held: Sequence[UUID], *, lease_s: float, before: datetime | None = None
    ) -> tuple[Due, ...]:
        """At most `limit`, fair between tenants, this worker's for `lease_s`."""

    async def keep(self, dues: Sequence[Due], lease_s: float) -> None:
        """Keep them longer."""

    async def give_back(self, dues: Iterable[Due]) -> None:
        """Another may take them at once."""


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """Seconds: how long a take holds, how often an empty store is asked, after which wait the rules take over."""

    lease_s: float = 30.0
    poll_s: float = 1.0
    defer_max_s: float = 900.0


class ExtractionLoop:
    """One per worker process. `hands`: exchanges held at once."""

    def __init__(
        self,
        store: DueTaker,
        extraction: Extraction,
        metrics: Metrics,
        clock: Callable[[], datetime],
        *,
        hands: int,
        times: LoopTimes,
    ) -> None:
        self._store = store
        self._extraction = extraction
        self._metrics = metrics
        self._clock = clock
        self._hands = hands
        self._times = times
        self._busy: dict[asyncio.Task[None], Due] = {}
        self._away_s = 0.0  # how long to leave the model alone, after its last fault
        self._back_s = 0.0  # monotonic: when it may be asked again
        self._said_s = float("-inf")

    async def run(self) -> None:
        """Take and work until cancelled."""
        keeping = asyncio.create_task(self._keep())
        try:
            while True:
                if not await self._take():
                    await self._wait()
        finally:
            keeping.cancel()
            await self._let_go()

    async def _take(self) -> bool:
        """Fill the hands; whether anything was taken."""
        free = self._hands - len(self._busy)
        if free <= 0:
            return False
        before = self._clock() - timedelta(seconds=self._times.defer_max_s) if self._is_away() else None
        held = [due.tenant for due in self._busy.values()]
        try:
            taken = await self._store.take(free, held, lease_s=self._times.lease_s, before=before)
        except StoreUnavailable as fault:
            self._say("waiting for the store", fault)
            return False
        if before is None and self._is_away():  # it went while these were being taken
            await self._give_back(taken)
            return False
        for due in taken:
            task = asyncio.create_task(self._work(due))
            self._busy[task] = due
            task.add_done_callback(self._ended)
        return bool(taken)

    def _is_away(self) -> bool:
        return asyncio.get_running_loop().time() < self._back_s

    async def _wait(self) -> None:
        """Until a hand is free, or it is time to look again."""
        if len(self._busy) < self._hands:
            await asyncio.sleep(self._times.poll_s)
        else:
            await asyncio.wait(self._busy, timeout=self._times.poll_s, return_when=asyncio.FIRST_COMPLETED)

    async def _work(self, due: Due) -> None:
        """One exchange. Whatever else it raises is said in `_ended`; its lease runs out, and its take counts."""
        try:
            done = await self._extraction.take_out(due)
        except ExtractorUnavailable as fault:
            self._metrics.extractions.labels("unavailable").inc()
            self._away_s = min(max(AWAY_S, self._away_s * 2), AWAY_S_MAX)
            self._back_s = asyncio.get_running_loop().time() + self._away_s
            self._say("waiting for the model", fault)
            await self._give_back([due])
        except (StoreUnavailable, EmbedderUnavailable) as fault:
            self._say("exchanges wait", fault)
            await asyncio.sleep(self._times.poll_s)
            await self._give_back([due])
        else:
            self._away_s = 0.0 if done == "heard" else self._away_s

    def _ended(self, task: asyncio.Task[None]) -> None:
        due = self._busy.pop(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._metrics.extractions.labels("fault").inc()
            named = str(fault) if isinstance(fault, MemoryProxyFault) else type(fault).__name__
            event(log, "extraction_failed", logging.ERROR, exchange=due.exchange_id, takes=due.takes, fault=named)
            log.debug("extraction failed", exc_info=fault)

    async def _keep(self) -> None:
        """Renew what is held, thrice in a lease."""
        while True:
            await asyncio.sleep(self._times.lease_s / 3)
            if held := list(self._busy.values()):
                with contextlib.suppress(StoreUnavailable):  # the next renewal tells, or another worker takes it
                    await self._store.keep(held, self._times.lease_s)

    async def _give_back(self, dues: Sequence[Due]) -> None:
        with contextlib.suppress(StoreUnavailable):  # then the lease runs out
            await self._store.give_back(dues)

    async def _let_go(self) -> None:
        """Leave what is under way, and give it back."""
        dues, tasks = list(self._busy.values()), list(self._busy)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if dues:
            await self._give_back(dues)

    def _say(self, what: str, fault: Exception) -> None:
        """In the log, at most once a minute."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._said_s >= _SAY_EACH_S:
            self._said_s = now_s
            event(log, "extraction_waits", logging.WARNING, what=what, fault=str(fault))
