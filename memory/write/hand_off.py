"""The hand-off of one exchange: an entry in, where it went out, within a bound, whatever is broken.

    queue    appended within `hold_ms`
    spool    on this machine's disk; moved to the queue when that is back
    none     in bounded memory only: counted, moved when possible, lost if this process dies first

Fails open: it never raises and the answer's last byte is never held longer than the bounds. Once something waits here,
new entries queue up behind it (spool, then memory), so that a subject's exchanges reach the queue in their order.
Behind a disk that hangs they do not: the queue is asked for each, and only a bounded amount waits.
Refuses to lose silently: what memory must drop is the oldest, counted and logged with its id, never its content.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol
from uuid import UUID

from memory.bounded import bounded_at, rested
from memory.errors import QueueUnavailable, SpoolUnavailable
from memory.ports import Entry
from memory.seldom import Seldom
from memory.write.meter import Meter

Where = Literal["queue", "spool", "none"]
log: Final = logging.getLogger(__name__)

_BATCH_ITEMS_MAX: Final = 256
_LAST_FEW: Final = 64  # when no more than these wait, new entries stand back until they are moved
_BATCH_BYTES_MAX: Final = 8 << 20
_ASKED_S: Final = 1.5  # less than a probe of readiness has
_FORECAST_ROOM_BYTES: Final = 256 << 10  # room the spool must have for the forecast to name it


class Puts(Protocol):
    """What the hand-off needs of the queue."""

    async def put(self, entry: Entry) -> None:
        """Append durably. Raises QueueUnavailable."""

    async def put_all(self, entries: Sequence[Entry]) -> None:
        """Append several in this order. Raises QueueUnavailable; then some may be there."""

    async def ping_for_writes(self) -> None:
        """Return when the queue takes entries, as durably as it promises. Raises QueueUnavailable."""


class Spooled(Protocol):
    """One spool file, as memory.adapters.spool has it. Every method may raise SpoolUnavailable."""

    @property
    def path(self) -> Path:
        """Where it lies."""

    @property
    def damage(self) -> int:
        """Damaged places found in it."""

    @property
    def appended(self) -> int:
        """Records ever seen; only grows."""

    @property
    def removed(self) -> int:
        """Records ever drained; only grows."""

    @property
    def pending(self) -> int:
        """Records to be drained."""

    @property
    def idle(self) -> bool:
        """Whether no append is on its way."""

    def has_room(self, envelope_bytes: int) -> bool:
        """Whether an entry of this size would be taken now."""

    async def append(self, entry: Entry) -> None:
        """Return when the entry is on disk."""

    async def peek(self, *, count: int, bytes_max: int) -> list[Entry]:
        """The oldest entries."""

    async def drained(self, count: int) -> None:
        """Forget the oldest entries."""

    async def close(self, *, delete: bool = False) -> None:
        """Give up the lock; with `delete` remove the file when nothing is left in it."""


class Orphans(Protocol):
    """Finds the spools of processes that died."""

    async def __call__(self) -> Sequence[Spooled]:
        """Lock and return them; what cannot be read is left where it lies. Raises SpoolUnavailable."""


@dataclass(frozen=True, slots=True)
class _Held:
    """An entry in memory, and how many spool records there had been by then: those go first."""

    entry: Entry
    after: int


class HandOff:
    """Hands entries over and moves what could not be handed over at once. One per process; not for two event loops."""

    def __init__(
        self,
        queue: Puts,
        spool: Spooled | None,
        *,
        hold_ms: float,
        memory_bytes_max: int,
        meter: Meter,
        orphans: Orphans | None = None,
        spool_hold_ms: float = 2000,
        entry_bytes_max: int = 48 << 20,
        retry_s: float = 0.1,
        retry_s_max: float = 2.0,
        orphans_each_s: float = 5.0,
    ) -> None:
        self._queue = queue
        self._spool = spool
        self._hold_s = hold_ms / 1000
        self._spool_hold_s = spool_hold_ms / 1000
        self._memory_bytes_max = memory_bytes_max
        self._entry_bytes_max = entry_bytes_max
        self._meter = meter
        self._orphans = orphans
        self._retry_s = retry_s
        self._retry_s_max = retry_s_max
        self._orphans_each_s = orphans_each_s
        self._held: deque[_Held] = deque()
        self._held_bytes = 0
        self._behind = spool is not None and spool.pending > 0
        self._spool_refused = False
        self._late: set[asyncio.Task[bool]] = set()
        self._stuck: set[asyncio.Task[bool]] = set()
        self._wake = asyncio.Event()
        self._said = Seldom()
        self._closing: asyncio.Event | None = None  # set when the drain's last steps are done

    async def keep_draining(self) -> None:
        """Move what waits here, and what dead siblings left, for ever; run as a task, cancel it before `close`."""
        async with asyncio.TaskGroup() as both:  # whoever looks for orphans waits for a disk that hangs
            both.create_task(self._keep_moving(self._drain_own, self._wake))
            both.create_task(self._keep_moving(self._drain_orphans, asyncio.Event()))

    async def close(self, *, drain_s: float = 5.0) -> int:
        """Stop, after up to `drain_s` seconds of moving what is held. Returns what only memory had: lost and logged."""
        if self._late or self._stuck:
            await asyncio.wait(self._late | self._stuck, timeout=drain_s)
        with contextlib.suppress(QueueUnavailable, SpoolUnavailable, TimeoutError):
            async with asyncio.timeout(drain_s):
                await self._drain_own()
        await self._memory_to_spool()
        await self._give_up(self._late | self._stuck)
        lost = len(self._held)
        while self._held:
            self._drop_oldest("the process ends")
        if self._spool is not None:
            with contextlib.suppress(SpoolUnavailable, TimeoutError):
                async with asyncio.timeout(self._spool_hold_s):
                    await self._spool.close(delete=True)
        return lost

    def where(self) -> Where:
        """The forecast for an answer's head: where an exchange that ended now would go."""
        if not self._behind:
            return "queue"
        usable = self._spool is not None and self._spool.has_room(_FORECAST_ROOM_BYTES)
        return "spool" if usable and not self._spool_refused and not self._stuck else "none"

    async def ask_queue(self) -> None:
        """Return when the queue takes entries. Where it does not, no answer's head says so before it does again. Raises
        QueueUnavailable, TimeoutError.
        """
        try:
            async with bounded_at(asyncio.get_running_loop().time() + _ASKED_S):
                await self._queue.ping_for_writes()
        except (QueueUnavailable, TimeoutError):
            self._behind = True
            self._wake.set()
            raise

    def held(self) -> int:
        """Entries that only memory has; part of `pending`, as are the spool's."""
        return len(self._held) + len(self._late) + len(self._stuck)

    async def hand_off(self, entry: Entry) -> Where:
        """Hand one entry over. Never raises; a caller that may be cancelled should shield this."""
        if len(entry.envelope) > self._entry_bytes_max:
            self._refuse(entry)
            return "none"
        until_s = asyncio.get_running_loop().time() + self._hold_s
        try:
            if await self._may_put(until_s) and await self._put(entry, until_s):
                return "queue"
            self._behind = True
            self._wake.set()
            if await self._append(entry):
                self._meter.count("spooled")
                return "spool"
        except Exception:  # the capture hand-off is one of the three named places
            log.exception("the hand-off of exchange %s failed in an unforeseen way", entry.exchange_id)
            self._hold(entry)
        self._meter.count("undurable")
        return "none"

    # ------------------------------------------------------------ one entry

    async def _may_put(self, until_s: float) -> bool:
        """Whether to try the queue: where nothing waits here, or where the disk hangs and the queue answers (a put that
        is given up goes on, so what is put to one that hangs too has no bound).
        """
        if not self._stuck:
            await self._let_the_drain_end(until_s)
            return not self._behind
        try:
            async with bounded_at(until_s):
                await self._queue.ping_for_writes()
        except (QueueUnavailable, TimeoutError):
            return False
        return True

    async def _let_the_drain_end(self, until_s: float) -> None:
        """Stand back while the last few are moved: a steady stream would keep the spool in use for ever."""
        if self._closing is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until_s):
                    await self._closing.wait()

    async def _put(self, entry: Entry, until_s: float) -> bool:
        """Try the queue for `hold_ms`. A put that is given up may still arrive: storage knows an exchange by its id."""
        try:
            async with bounded_at(until_s):
                await self._queue.put(entry)
        except (QueueUnavailable, TimeoutError) as exc:
            self._meter.count("put_failed")
            if not self._behind:
                log.warning("the queue does not take exchanges, the spool does: %s", str(exc) or "too slow")
            return False
        self._meter.count("queued")
        return True

    async def _append(self, entry: Entry) -> bool:
        """Try the spool; what it refuses, memory holds. False when nothing durable has it in time.

        Behind an append that takes too long nothing is added: what waits for the disk has no bound.
        """
        if self._spool is None or self._stuck:
            self._hold(entry, behind=len(self._stuck))
            return False
        task = asyncio.create_task(self._append_or_hold(self._spool, entry))
        self._late.add(task)
        task.add_done_callback(self._arrived)
        done, _ = await asyncio.wait([task], timeout=self._spool_hold_s)
        if done:
            return task.result()
        if task in self._late:  # it goes on by itself, and nothing waits for it any more
            self._late.discard(task)
            self._stuck.add(task)
            self._spool_refused = True
            log.error("the spool takes longer than %.1f s", self._spool_hold_s)
        return False

    async def _append_or_hold(self, spool: Spooled, entry: Entry) -> bool:
        try:
            await spool.append(entry)
        except asyncio.CancelledError:  # `close`, and nobody else: the disk has not answered
            self._hold(entry)
            return False
        except Exception as exc:  # the capture hand-off is one of the three named places; nobody may wait here any more
            self._meter.count("spool_failed")
            if not isinstance(exc, SpoolUnavailable):
                log.exception("the spool failed in an unforeseen way, exchange %s stays in memory", entry.exchange_id)
            elif not self._spool_refused:
                log.error("queue and spool both refuse, exchanges stay in memory: %s", exc)
            self._spool_refused = True
            self._hold(entry)
            return False
        self._spool_refused = False
        return True

    def _arrived(self, task: asyncio.Task[bool]) -> None:
        """An append has ended, perhaps long after it was given up: what it left is to be moved."""
        self._late.discard(task)
        self._stuck.discard(task)
        self._behind = True
        self._wake.set()

    def _refuse(self, entry: Entry) -> None:
        self._meter.count("dropped")
        log.error(
            "exchange %s is lost: %d bytes, the queue takes %d",
            *(entry.exchange_id, len(entry.envelope), self._entry_bytes_max),
        )

    def _hold(self, entry: Entry, *, behind: int = 0) -> None:
        """Hold it in memory, behind what the spool has and so many records that are on their way to it."""
        self._held.append(_Held(entry, self._spool.appended + behind if self._spool is not None else 0))
        self._held_bytes += len(entry.envelope)
        self._behind = True
        self._wake.set()
        while self._held_bytes > self._memory_bytes_max:
            self._drop_oldest("memory_bytes_max is reached")

    def _drop_oldest(self, why: str) -> None:
        entry = self._held.popleft().entry
        self._held_bytes -= len(entry.envelope)
        self._meter.count("dropped")
        log.error("exchange %s is lost: %s while queue and spool refuse", entry.exchange_id, why)

    # ------------------------------------------------------------ the way back

    async def _keep_moving(self, step: Callable[[], Awaitable[None]], due: asyncio.Event) -> None:
        """Take this step now, when it is due and every so often, for ever; again soon where it did not succeed."""
        due.set()
        pause_s = self._retry_s
        while True:
            await rested(due, self._orphans_each_s)
            due.clear()
            if await self._attempt(step):
                pause_s = self._retry_s
                continue
            due.set()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, self._retry_s_max)

    async def _attempt(self, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except (QueueUnavailable, SpoolUnavailable) as exc:
            if self._said.due(str(exc)):
                log.info("what waits here cannot be moved yet: %s", exc)
            return False
        except Exception:  # the capture hand-off is one of the three named places
            log.exception("draining failed in an unforeseen way; it goes on")
            return False
        return True

    async def _drain_own(self) -> None:
        """Move spool and memory to the queue until nothing is left; then the queue is used directly again."""
        if not self._behind:
            return
        await self._queue.ping_for_writes()
        moved = 0
        try:
            while not self._settled():
                if self._closing is None and self._waiting() <= _LAST_FEW:
                    self._closing = asyncio.Event()
                moved += await self._move_some()
            self._behind = self._spool_refused = False
        finally:
            if self._closing is not None:
                self._closing.set()
                self._closing = None
        log.warning("the queue takes exchanges again; %d moved", moved)

    def _waiting(self) -> int:
        return len(self._held) + (self._spool.pending if self._spool is not None else 0)

    def _settled(self) -> bool:
        return self._waiting() == 0 and not self._late

    async def _move_some(self) -> int:
        """Move the next few entries, oldest first across spool and memory; removed here only after the put."""
        before_held = _BATCH_ITEMS_MAX
        if self._held and self._spool is not None:
            before_held = self._held[0].after - self._spool.removed
        if self._held and (self._spool is None or before_held <= 0 or self._spool.pending == 0):
            return await self._move_held()
        if self._spool is not None and self._spool.pending:
            return await self._move_spooled(self._spool, min(before_held, _BATCH_ITEMS_MAX))
        if self._late:  # none of them for longer than it is waited for: then it is late no more
            await asyncio.wait(self._late, timeout=self._spool_hold_s, return_when=asyncio.FIRST_COMPLETED)
        return 0

    async def _move_held(self) -> int:
        held = self._held[0]
        await self._queue.put(held.entry)
        self._moved(held)
        self._meter.count("drained")
        return 1

    async def _move_spooled(self, spool: Spooled, count: int) -> int:
        damage = spool.damage
        entries = await spool.peek(count=count, bytes_max=_BATCH_BYTES_MAX)
        self._damaged(spool, spool.damage - damage)
        if entries:
            fit = [entry for entry in entries if len(entry.envelope) <= self._entry_bytes_max]
            for entry in entries:
                if len(entry.envelope) > self._entry_bytes_max:
                    self._refuse(entry)
            await self._queue.put_all(fit)
            await spool.drained(len(entries))
            self._meter.count("drained", len(entries))
        return len(entries)

    async def _drain_orphans(self) -> None:
        """Move what dead siblings left, each whatever becomes of the others. On a fault their locks are given up, and
        the next round adopts them again.
        """
        if self._orphans is None:
            return
        await self._queue.ping_for_writes()
        adopted = await self._orphans()
        faults: list[SpoolUnavailable] = []
        try:
            for spool in adopted:
                faults += await _fault_of(self._drain_orphan(spool))
        finally:
            for spool in adopted:  # a fault here must not take the place of a cancellation
                faults += await _fault_of(spool.close(delete=True))
        if faults:
            raise faults[0]

    async def _drain_orphan(self, spool: Spooled) -> None:
        """Move all of one."""
        self._meter.count("adopted")
        self._damaged(spool, spool.damage)
        while spool.pending:
            await self._move_spooled(spool, _BATCH_ITEMS_MAX)

    def _damaged(self, spool: Spooled, places: int) -> None:
        """So many damaged places were found in it."""
        if places:
            self._meter.count("spool_damaged", places)
            log.error("%s: %d damaged places; the records around them are kept", spool.path, places)

    async def _memory_to_spool(self) -> None:
        """What the spool takes of it, and of what comes late: an entry that it has no room for is in no other's way. A
        disk that hangs is not waited for.
        """
        if self._spool is None or self._stuck:
            return
        tried: set[UUID] = set()
        while untried := [held for held in self._held if held.entry.exchange_id not in tried]:
            for held in untried:
                tried.add(held.entry.exchange_id)
                try:
                    async with asyncio.timeout(self._spool_hold_s):
                        await self._spool.append(held.entry)
                except SpoolUnavailable:
                    continue
                except TimeoutError:
                    return
                self._moved(held)

    async def _give_up(self, appends: set[asyncio.Task[bool]]) -> None:
        """What is on its way to a disk that does not answer is in memory only."""
        for append in appends:
            append.cancel()
        if appends:
            await asyncio.wait(appends)

    def _moved(self, held: _Held) -> None:
        """An entry is elsewhere now; it may have been dropped meanwhile, and counted."""
        if held in self._held:
            self._held.remove(held)
            self._held_bytes -= len(held.entry.envelope)


async def _fault_of(step: Awaitable[None]) -> list[SpoolUnavailable]:
    """The fault of a step with one spool, if it has any."""
    try:
        await step
    except SpoolUnavailable as fault:
        return [fault]
    return []
