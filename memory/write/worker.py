"""The worker's loop: lanes of the queue in, handled entries acknowledged, until it is told to stop.

A lane that is newly ours is first cleared of what its last holder left unfinished, then read; entries of one lane are
handled in order, one batch at a time, several lanes side by side. Live lanes go first, with a share kept for bulk.

    stored      acknowledged and deleted, after the handler's commit
    transient   the lane pauses, longer each time, and nothing is counted against its entries
    poison      counted; after `attempts_max` attempts, or at once when final, the entry is buried and the lane goes on
    LeaseLost   the lane is dropped, nothing is acknowledged

A queue or store that is away is waited for, at the start too. Holds no content and knows no HTTP, SQL or Redis.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from memory.errors import EnvelopeUnreadable, LeaseLost, MemoryProxyFault, QueueUnavailable, Refused
from memory.ports import Delivery, Queue
from memory.write.lanes import HeldLanes, Lane, Leases, Nag
from memory.write.meter import Meter, NoMeter

log: Final = logging.getLogger(__name__)

PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 5.0
_BUSY_POLL_S: Final = 0.02
_IDLE_POLL_S: Final = 0.1
_BLOCK_MS: Final = 500
# A lane's former holder may be given an entry once more: the read it had begun goes on for `_BLOCK_MS`, and one that
# was stopped in front of its read sends it when it wakes. Its commit is refused; nobody else would ask for the entry.
_LOOK_EACH_S: Final = 2.0
LANES_EACH_S: Final = 30.0
"""How long entries lie in a lane of a larger configuration, where that came before its workers."""
_STOP_S: Final = 20.0
_IN_HAND_BYTES_MAX: Final = 64 << 20  # aimed at, by the size of what came before
# Before anything came: else who was killed because large ones were too many at once takes as many of them again.
_FIRST_BYTES: Final = 8 << 20
# An entry whose handling never ends with a verdict kills its worker. It is handled alone from the second time on, and
# given up only after this many times `attempts_max`, since an operator's kill -9 looks the same.
_DEATHS_FACTOR: Final = 4


@dataclass(frozen=True, slots=True)
class Stored:
    """Committed: the entry may go."""


@dataclass(frozen=True, slots=True)
class Transient:
    """Not the entry's fault: a store or a model is away. Come again, uncounted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Poison:
    """The entry's fault. `final`: another attempt cannot help. The reason holds no content."""

    reason: str
    final: bool = False


Outcome = Stored | Transient | Poison


class Handle(Protocol):
    """What is done with the entries."""

    async def __call__(self, lane: str, fence: int, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Store them in order, under the fence; one outcome each. Once a subject's entry is not stored, its later ones
        must not be either. Raises LeaseLost. What else it raises is judged: faults of stores and models as transient,
        the rest entry by entry as poison.
        """


class WorkQueue(Queue, Protocol):
    """The queue as the worker needs it."""

    async def prepare(self) -> tuple[str, ...]:
        """Make it readable; every lane that may hold something. Raises QueueUnavailable."""

    async def unfinished(self, lanes: Sequence[str]) -> set[str]:
        """Those of these lanes from which something was taken that is not finished. Raises QueueUnavailable."""

    async def done_all(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge and delete several. Raises QueueUnavailable."""

    async def give_back(self, delivery: Delivery) -> None:
        """Uncount this attempt; it stays unfinished. Raises QueueUnavailable."""


async def run_worker(
    queue: WorkQueue,
    leases: Leases,
    handle: Handle,
    *,
    holder: str,
    lanes: Sequence[str],
    batch_max: int,
    bulk_share_min: float,
    attempts_max: int,
    stop: asyncio.Event,
    lease_s: float = 10.0,
    lanes_busy_max: int = 4,
    meter: Meter | None = None,
) -> None:
    """Work until `stop` is set; then finish what is in hand and give the lanes back.

    `batch_max` bounds the entries of one call of `handle`, `lanes_busy_max` the calls at once, `lease_s` how long a
    dead worker's lanes stand still. `bulk_share_min` (0..1) of the entries taken under live load are bulk ones.
    """
    counts = meter or NoMeter()
    known = await _prepared(queue, stop)
    held = HeldLanes(leases, holder, tuple(dict.fromkeys((*lanes, *known))), lease_s, counts)
    worker = Worker(
        queue,
        held,
        handle,
        batch_max=batch_max,
        bulk_share_min=bulk_share_min,
        attempts_max=attempts_max,
        lanes_busy_max=lanes_busy_max,
        meter=counts,
    )
    keeping = asyncio.create_task(held.keep())
    try:
        while not stop.is_set():
            await worker.round(stop)
    finally:
        await worker.finish()
        keeping.cancel()
        await asyncio.wait([keeping])
        await held.release()


async def _prepared(queue: WorkQueue, stop: asyncio.Event) -> tuple[str, ...]:
    nag = Nag()
    while not stop.is_set():
        try:
            return await queue.prepare()
        except QueueUnavailable as exc:
            nag.say("waiting for the queue", exc)
            await _pause(stop, 0.25)
    return ()


class Worker:
    """One worker's rounds over the lanes it holds."""

    def __init__(
        self,
        queue: WorkQueue,
        held: HeldLanes,
        handle: Handle,
        *,
        batch_max: int,
        bulk_share_min: float,
        attempts_max: int,
        lanes_busy_max: int,
        meter: Meter,
    ) -> None:
        self._queue = queue
        self._held = held
        self._handle = handle
        self._batch_max = batch_max
        self._bulk_per_live = bulk_share_min / (1 - bulk_share_min) if bulk_share_min < 1 else float(batch_max)
        self._attempts_max = attempts_max
        self._lanes_busy_max = lanes_busy_max
        # One hand is kept free of bulk, so that a live entry never waits for a long import.
        self._bulk_busy_max = max(1, lanes_busy_max - 1)
        self._slots = asyncio.Semaphore(lanes_busy_max)
        self._bulk_slots = asyncio.Semaphore(self._bulk_busy_max)
        self._meter = meter
        self._busy: dict[asyncio.Task[None], Lane] = {}
        self._bulk_owed = 0.0
        self._entry_bytes = float(_FIRST_BYTES)
        self._solo = True
        self._nothing_waits = False  # the read before this round waited for an entry in vain
        self._lanes_look_s = asyncio.get_running_loop().time() + LANES_EACH_S
        self._nag = Nag()
        self._wait_nag = Nag()

    async def round(self, stop: asyncio.Event) -> None:
        """Take what there is and set it going, or wait a little. Never raises but for cancellation."""
        try:
            await self._look_for_lanes()
            if not await self._set_going():
                await self._wait(stop)
        except QueueUnavailable as exc:
            self._nag.say("waiting for the queue", exc)
            await self._distrust(stop)
        except Exception:  # the worker loop is one of the three named places
            self._meter.count("unforeseen")
            log.exception("a round of the worker failed in an unforeseen way; it goes on")
            await self._distrust(stop)

    async def _look_for_lanes(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._lanes_look_s:
            self._held.want(await self._queue.prepare())
            self._lanes_look_s = now_s + LANES_EACH_S

    async def finish(self) -> None:
        """Let what is in hand end by itself; after some seconds end it."""
        if self._busy:
            await asyncio.wait(self._busy, timeout=_STOP_S)
        for task in self._busy:
            task.cancel()
        if self._busy:
            await asyncio.wait(self._busy)

    # ------------------------------------------------------------ choosing

    async def _set_going(self) -> bool:
        """Give free hands something to do. False when there is nothing, or no free hand."""
        nothing_waits, self._nothing_waits = self._nothing_waits, False
        bulk_busy = sum(lane.bulk for lane in self._busy.values())
        if len(self._busy) - bulk_busy + min(bulk_busy, self._bulk_busy_max) >= self._lanes_busy_max:
            return False
        now_s = asyncio.get_running_loop().time()
        ready = [lane for lane in self._held if lane.task is None and now_s >= lane.not_before_s]
        await self._look_for_unfinished(ready, now_s)
        for lane in ready:
            if lane.reclaim and not lane.lost and await self._reclaim(lane):
                return True
        if nothing_waits:  # what came since is read by the next read that waits, at once
            return False
        live = [lane for lane in ready if not lane.bulk and not lane.reclaim]
        bulk = [lane for lane in ready if lane.bulk and not lane.reclaim] if bulk_busy < self._bulk_busy_max else []
        if bulk and self._bulk_owed >= 1:
            taken = await self._take(bulk)
            self._bulk_owed = self._bulk_owed - taken if taken else 0.0  # below zero: taken in advance
            if taken:
                return True
        taken = await self._take(live)
        if taken:
            self._bulk_owed = min(self._bulk_owed + taken * self._bulk_per_live, float(self._batch_max))
            return True
        return bool(await self._take(bulk))

    async def _look_for_unfinished(self, ready: Sequence[Lane], now_s: float) -> None:
        """Which of these lanes must be reclaimed: one trip for all, since on a slow disk each takes a fsync's time."""
        if not any(lane.reclaim or now_s >= lane.look_s for lane in ready):
            return
        unfinished = await self._queue.unfinished([lane.name for lane in ready])
        for lane in ready:
            lane.reclaim = lane.name in unfinished
            lane.look_s = now_s + _LOOK_EACH_S

    async def _reclaim(self, lane: Lane) -> bool:
        deliveries = await self._queue.reclaim(lane.name, count=self._count(1))
        if not deliveries:
            lane.reclaim = False
        elif not lane.lost:  # what was lost while we asked is for whoever has it now
            self._start(lane, deliveries)
        return bool(deliveries)

    async def _take(self, lanes: Sequence[Lane]) -> int:
        """How many entries came: from a lane that was full last time by itself, or from all others, by turns."""
        full = min((lane for lane in lanes if lane.full), key=lambda lane: lane.served_s, default=None)
        groups = [[full] if full is not None else [], [lane for lane in lanes if not lane.full]]
        self._solo = not self._solo
        for group in groups if self._solo else reversed(groups):
            if taken := await self._take_group(group):
                return taken
        return 0

    async def _take_group(self, lanes: Sequence[Lane], *, block_ms: int = 0) -> int:
        if not lanes:
            return 0
        count = self._count(len(lanes))
        deliveries = await self._queue.take([lane.name for lane in lanes], count=count, block_ms=block_ms)
        by_lane: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            by_lane.setdefault(delivery.lane, []).append(delivery)
        for lane in lanes:
            found = by_lane.get(lane.name, [])
            lane.full = len(found) >= count
            if found and not lane.lost:  # what was lost while we read is reclaimed by whoever has it now
                self._start(lane, found)
        return len(deliveries)

    def _count(self, lanes: int) -> int:
        """Entries to ask of each lane, so that all together stay within the bounds in number and, likely, in bytes."""
        by_bytes = int(_IN_HAND_BYTES_MAX / self._entry_bytes)
        return max(1, min(self._batch_max, by_bytes) // lanes)

    async def _wait(self, stop: asyncio.Event) -> None:
        """Nothing to do now: wait for a hand to be free, for an entry, for a pause to end, or for lanes."""
        if self._busy:
            await asyncio.wait(self._busy, timeout=_BUSY_POLL_S, return_when=asyncio.FIRST_COMPLETED)
            return
        now_s = asyncio.get_running_loop().time()
        held = list(self._held)
        clean = [lane for lane in held if not lane.reclaim and now_s >= lane.not_before_s]
        paused_s = min((lane.not_before_s - now_s for lane in held if lane.not_before_s > now_s), default=PAUSE_S_MAX)
        if clean:
            block_ms = max(1, min(_BLOCK_MS, int(paused_s * 1000)))
            self._nothing_waits = not await self._take_group(clean, block_ms=block_ms)
        else:
            await _pause(stop, min(_IDLE_POLL_S, paused_s))

    async def _distrust(self, stop: asyncio.Event) -> None:
        """After a fault of the queue entries may be with nobody: every lane is reclaimed before it is read again."""
        self._held.distrust()
        await _pause(stop, _IDLE_POLL_S)

    # ------------------------------------------------------------ handling

    def _start(self, lane: Lane, deliveries: list[Delivery]) -> None:
        largest = max(len(delivery.entry.envelope) for delivery in deliveries)
        self._entry_bytes = max(1024.0, largest, self._entry_bytes * 0.9)
        task = asyncio.create_task(self._work(lane, deliveries))
        lane.task = task
        lane.served_s = asyncio.get_running_loop().time()
        self._busy[task] = lane
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._held.finished(self._busy.pop(task))

    async def _work(self, lane: Lane, deliveries: list[Delivery]) -> None:
        """Handle one batch of one lane; whatever happens, the lane knows afterwards where it stands."""
        ok = False
        try:
            async with self._bulk_slots if lane.bulk else nullcontext(), self._slots:
                ok = await self._handle_all(lane, deliveries)
        except LeaseLost:
            self._held.drop(lane)
        except QueueUnavailable as exc:
            self._nag.say("waiting for the queue", exc)
        except Exception:  # the worker loop is one of the three named places
            self._meter.count("unforeseen")
            log.exception("lane %s: what follows the handler failed in an unforeseen way", lane.name)
        if ok:
            lane.pause_s = 0.0
            return
        lane.reclaim = True
        lane.pause_s = min(max(lane.pause_s * 2, PAUSE_S), PAUSE_S_MAX)
        lane.not_before_s = asyncio.get_running_loop().time() + lane.pause_s

    async def _handle_all(self, lane: Lane, deliveries: list[Delivery]) -> bool:
        """True when nothing of the batch is left. A head that comes again is handled alone: it may be what kills us."""
        if deliveries[0].attempts == 1 or len(deliveries) == 1:
            return await self._handle_some(lane, deliveries)
        return await self._handle_some(lane, deliveries[:1]) and await self._handle_some(lane, deliveries[1:])

    async def _handle_some(self, lane: Lane, deliveries: list[Delivery]) -> bool:
        if deliveries[0].attempts > self._attempts_max * _DEATHS_FACTOR:
            return await self._settle(deliveries, [Poison("no attempt ever ended", final=True)])
        try:
            outcomes = await self._handle(lane.name, lane.fence, deliveries)
        except LeaseLost:
            raise
        except Exception as exc:  # the worker loop is one of the three named places
            verdict = _blame(exc)
            if isinstance(verdict, Poison):
                self._meter.count("unforeseen")
                log.exception("lane %s: %d entries failed", lane.name, len(deliveries))
            if isinstance(verdict, Poison) and len(deliveries) > 1:
                return await self._one_by_one(lane, deliveries)
            outcomes = [verdict] * len(deliveries)
        return not lane.lost and await self._settle(deliveries, outcomes)

    async def _one_by_one(self, lane: Lane, deliveries: list[Delivery]) -> bool:
        """Find the one to blame, in order, and stop there."""
        for delivery in deliveries:
            if not await self._handle_some(lane, [delivery]):
                return False
        return True

    async def _settle(self, deliveries: list[Delivery], outcomes: Sequence[Outcome]) -> bool:
        """Tell the queue; True when no entry is to come again."""
        stored = [delivery for delivery, outcome in zip(deliveries, outcomes, strict=True) if outcome == Stored()]
        await self._queue.done_all(stored)
        self._meter.count("stored", len(stored))
        again = False
        for delivery, outcome in zip(deliveries, outcomes, strict=True):
            match outcome:
                case Stored():
                    continue
                case Transient():
                    again = True
                    self._meter.count("transient")
                    self._wait_nag.say("entries wait", outcome.reason)
                    await self._queue.give_back(delivery)
                case Poison():
                    again = await self._poisoned(delivery, outcome) or again
                case _:
                    assert_never(outcome)
        return not again

    async def _poisoned(self, delivery: Delivery, verdict: Poison) -> bool:
        """Bury it when its attempts are used up; True when it is to come again."""
        self._meter.count("poison")
        if not verdict.final and delivery.attempts < self._attempts_max:
            return True
        await self._queue.bury(delivery, verdict.reason)
        self._meter.count("buried")
        log.error(
            "exchange %s is a dead letter after %d attempts: %s",
            *(delivery.entry.exchange_id, delivery.attempts, verdict.reason),
        )
        return False


def _blame(exc: Exception) -> Outcome:
    """Whose fault an exception of the handler is: only what the entry itself causes counts against it."""
    if isinstance(exc, EnvelopeUnreadable):
        return Poison(str(exc), final=True)
    if isinstance(exc, Refused) and exc.status < 500:
        return Poison(type(exc).__name__)
    if isinstance(exc, MemoryProxyFault | OSError | TimeoutError | MemoryError):
        return Transient(f"{type(exc).__name__}: {exc}")
    return Poison(type(exc).__name__)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    """Sleep, but not through a stop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
