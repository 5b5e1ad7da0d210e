"""The hand-off: queue, else spool, else bounded memory; and back again in order, whatever dies in between."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from memory.adapters.redis_client import connect
from memory.adapters.redis_queue import RedisQueue, lane_names
from memory.adapters.spool import OrphanFinder, Spool, count
from memory.errors import QueueUnavailable, SpoolUnavailable
from memory.ids import new_id
from memory.ports import Entry
from memory.write.hand_off import HandOff
from tests.valkey_fixture import ValkeyServer, free_port

MIB = 1 << 20


class Counts:
    """A Meter that remembers."""

    def __init__(self) -> None:
        self.counter: Counter[str] = Counter()

    def count(self, name: str, amount: int = 1) -> None:
        self.counter[name] += amount

    def __getitem__(self, name: str) -> int:
        return self.counter[name]


class SwitchedQueue:
    """A queue in memory that can be switched off, made slow, or made to store and then fail."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.up = True
        self.delay_s = 0.0
        self.fails_after_storing = 0

    async def put(self, entry: Entry) -> None:
        await self.put_all([entry])

    async def put_all(self, entries: Sequence[Entry]) -> None:
        await self.ping_for_writes()
        await asyncio.sleep(self.delay_s)
        self.entries += entries
        if self.fails_after_storing:
            self.fails_after_storing -= 1
            raise QueueUnavailable("the answer was lost")

    async def ping_for_writes(self) -> None:
        if not self.up:
            raise QueueUnavailable("switched off")

    def ids(self) -> list[UUID]:
        """Exchanges in order of their first arrival."""
        return list(dict.fromkeys(entry.exchange_id for entry in self.entries))


def an_entry(size: int = 100, subject: int = 2) -> Entry:
    return Entry(new_id(), UUID(int=1), UUID(int=subject), "exchange", "live", os.urandom(size))


async def until_empty(hand_off: HandOff, directory: Path) -> None:
    while hand_off.where() != "queue" or hand_off.held() or count(directory):
        await asyncio.sleep(0.01)


@asynccontextmanager
async def draining(hand_off: HandOff) -> AsyncIterator[None]:
    """The background drain runs inside; the hand-off is closed behind it."""
    task = asyncio.create_task(hand_off.keep_draining())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        await hand_off.close()


def a_hand_off(queue: SwitchedQueue | RedisQueue, spool: Spool | None, counts: Counts, **bounds: float) -> HandOff:
    settings = {"hold_ms": 50.0, "retry_s": 0.01, "retry_s_max": 0.05, "orphans_each_s": 0.05} | bounds
    memory_bytes_max = int(settings.pop("memory_bytes_max", MIB))
    entry_bytes_max = int(settings.pop("entry_bytes_max", 48 * MIB))
    return HandOff(
        queue,
        spool,
        memory_bytes_max=memory_bytes_max,
        entry_bytes_max=entry_bytes_max,
        meter=counts,
        orphans=OrphanFinder(spool.path.parent) if spool is not None else None,
        **settings,
    )


@pytest.fixture
def queue() -> SwitchedQueue:
    return SwitchedQueue()


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[Spool]:
    spool = Spool(tmp_path / "own.spool", MIB)
    yield spool
    await spool.close()


async def test_an_exchange_goes_to_the_queue_while_it_answers(
    queue: SwitchedQueue, spool: Spool, counts: Counts
) -> None:
    hand_off = a_hand_off(queue, spool, counts)
    assert hand_off.where() == "queue"
    assert await hand_off.hand_off(an_entry()) == "queue"
    assert (counts["queued"], spool.pending) == (1, 0)
    assert await hand_off.close() == 0


async def test_a_failed_queue_means_spool_and_the_forecast_says_so(
    queue: SwitchedQueue, spool: Spool, counts: Counts
) -> None:
    hand_off = a_hand_off(queue, spool, counts)
    queue.up = False
    assert await hand_off.hand_off(an_entry()) == "spool"
    assert hand_off.where() == "spool"
    queue.up = True
    # Nothing has been drained yet, so a direct put would overtake what is spooled.
    assert await hand_off.hand_off(an_entry()) == "spool"
    assert (counts["put_failed"], counts["spooled"], spool.pending) == (1, 2, 2)


async def test_a_slow_queue_holds_an_answer_no_longer_than_its_bound_and_is_said_to_be_slow(
    queue: SwitchedQueue, spool: Spool, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    hand_off = a_hand_off(queue, spool, counts, hold_ms=20.0)
    queue.delay_s = 3600
    assert await asyncio.wait_for(hand_off.hand_off(an_entry()), 10) == "spool"
    assert "the queue does not take exchanges, the spool does: too slow" in caplog.text


async def test_what_was_spooled_reaches_the_queue_in_order_when_it_is_back(
    queue: SwitchedQueue, spool: Spool, counts: Counts
) -> None:
    hand_off = a_hand_off(queue, spool, counts)
    async with draining(hand_off):
        entries = [an_entry() for _ in range(300)]
        for number, entry in enumerate(entries):
            queue.up = not 50 <= number < 200
            await hand_off.hand_off(entry)
            await asyncio.sleep(0)
        await asyncio.wait_for(until_empty(hand_off, spool.path.parent), 30)
        assert queue.ids() == [entry.exchange_id for entry in entries]
        assert await hand_off.hand_off(an_entry()) == "queue"
    assert list(spool.path.parent.iterdir()) == []


async def test_a_steady_stream_finds_its_way_back_to_the_queue(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "own.spool", 64 * MIB)
    hand_off = a_hand_off(queue, spool, counts, hold_ms=2000.0)
    queue.up = False
    queue.delay_s = 0.01
    stop = asyncio.Event()
    sent: dict[int, list[UUID]] = {subject: [] for subject in range(8)}

    async def client(subject: int) -> None:
        while not stop.is_set():
            entry = an_entry(100, subject)
            sent[subject].append(entry.exchange_id)
            await hand_off.hand_off(entry)
            await asyncio.sleep(0.002)

    async with draining(hand_off):
        clients = [asyncio.create_task(client(subject)) for subject in sent]
        await asyncio.sleep(0.2)
        queue.up = True
        while hand_off.where() != "queue":
            await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*clients)
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 30)
    for subject, ids in sent.items():
        arrived = [entry.exchange_id for entry in queue.entries if entry.subject_id.int == subject]
        assert arrived == ids


async def test_a_put_whose_answer_was_lost_comes_twice_rather_than_never(
    queue: SwitchedQueue, spool: Spool, counts: Counts
) -> None:
    hand_off = a_hand_off(queue, spool, counts)
    async with draining(hand_off):
        queue.fails_after_storing = 3
        entry = an_entry()
        assert await hand_off.hand_off(entry) == "spool"
        await asyncio.wait_for(until_empty(hand_off, spool.path.parent), 30)
        assert queue.ids() == [entry.exchange_id]
        assert len(queue.entries) == 4


async def test_when_both_refuse_memory_holds_a_bounded_amount_and_the_oldest_goes_with_a_count(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path / "own.spool", 16 * 1024)
    hand_off = a_hand_off(queue, spool, counts, memory_bytes_max=50_000)
    queue.up = False
    entries = [an_entry(10_000) for _ in range(10)]
    places = [await hand_off.hand_off(entry) for entry in entries]
    assert places == ["spool"] + ["none"] * 9
    assert hand_off.where() == "none"
    assert (hand_off.held(), counts["undurable"], counts["dropped"]) == (5, 9, 4)
    assert [str(entry.exchange_id) in caplog.text for entry in entries[1:5]] == [True] * 4
    queue.up = True
    async with draining(hand_off):
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 30)
        assert queue.ids() == [entry.exchange_id for entry in (entries[0], *entries[5:])]


@pytest.mark.parametrize("has_spool", [True, False])
async def test_a_queue_that_was_found_away_is_foretold_to_nobody(
    queue: SwitchedQueue, spool: Spool, counts: Counts, tmp_path: Path, has_spool: bool
) -> None:
    """The first answer of an idle proxy said `queue`, and where no spool could be used only memory had its exchange."""
    hand_off = a_hand_off(queue, spool if has_spool else None, counts)
    await hand_off.ask_queue()
    assert hand_off.where() == "queue"
    queue.up = False
    with pytest.raises(QueueUnavailable):
        await hand_off.ask_queue()
    entry = an_entry()
    assert hand_off.where() == await hand_off.hand_off(entry) == ("spool" if has_spool else "none")
    assert counts["put_failed"] == 0, "it waits for no queue that is away"
    queue.up = True
    async with draining(hand_off):
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 30)
    assert (hand_off.where(), queue.ids()) == ("queue", [entry.exchange_id])


class RefusingSpool(Spool):
    """A spool that takes nothing for a while."""

    refuses = True

    async def append(self, entry: Entry) -> None:
        if self.refuses:
            raise SpoolUnavailable("the disk is full")
        await super().append(entry)


async def test_a_spool_that_takes_exchanges_again_is_foretold_again(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = RefusingSpool(tmp_path / "own.spool", MIB)
    hand_off = a_hand_off(queue, spool, counts)
    queue.up = False
    entries = [an_entry() for _ in range(3)]
    assert (await hand_off.hand_off(entries[0]), hand_off.where()) == ("none", "none")
    spool.refuses = False
    assert (await hand_off.hand_off(entries[1]), hand_off.where()) == ("spool", "spool")
    assert (await hand_off.hand_off(entries[2]), hand_off.where()) == ("spool", "spool")
    queue.up = True
    async with draining(hand_off):
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 30)
        assert queue.ids() == [entry.exchange_id for entry in entries]


async def test_memory_and_spool_are_drained_in_the_order_of_arrival(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "own.spool", 64 * 1024)
    hand_off = a_hand_off(queue, spool, counts)
    queue.up = False
    entries = [an_entry(size) for size in (30_000, 40_000, 10_000, 50_000, 2_000)]
    assert [await hand_off.hand_off(entry) for entry in entries] == ["spool", "none", "spool", "none", "spool"]
    queue.up = True
    async with draining(hand_off):
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 30)
        assert queue.ids() == [entry.exchange_id for entry in entries]


async def test_without_a_spool_memory_still_serves(queue: SwitchedQueue, counts: Counts, tmp_path: Path) -> None:
    hand_off = a_hand_off(queue, None, counts)
    async with draining(hand_off):
        queue.up = False
        entry = an_entry()
        assert await hand_off.hand_off(entry) == "none"
        queue.up = True
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 30)
        assert queue.ids() == [entry.exchange_id]


async def test_closing_moves_memory_to_the_spool_and_says_what_is_lost(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "own.spool", 32 * 1024)
    hand_off = a_hand_off(queue, spool, counts)
    queue.up = False
    assert [await hand_off.hand_off(an_entry(size)) for size in (20_000, 20_000, 20_000)] == ["spool", "none", "none"]
    assert await hand_off.close() == 2
    assert count(tmp_path) == 1
    assert counts["dropped"] == 2


async def test_an_entry_that_no_queue_takes_blocks_nothing(queue: SwitchedQueue, spool: Spool, counts: Counts) -> None:
    hand_off = a_hand_off(queue, spool, counts, entry_bytes_max=1000)
    await spool.append(an_entry(5000))  # spooled under an older bound
    queue.up = False
    assert await hand_off.hand_off(an_entry(1001)) == "none"
    entry = an_entry(1000)
    assert await hand_off.hand_off(entry) == "spool"
    queue.up = True
    async with draining(hand_off):
        await asyncio.wait_for(until_empty(hand_off, spool.path.parent), 30)
        assert queue.ids() == [entry.exchange_id]
        assert counts["dropped"] == 2


async def test_a_dead_sibling_s_spool_is_drained_and_removed(
    queue: SwitchedQueue, spool: Spool, counts: Counts, tmp_path: Path
) -> None:
    sibling = Spool(tmp_path / "sibling.spool", MIB)
    entries = [an_entry() for _ in range(150)]
    for entry in entries:
        await sibling.append(entry)
    hand_off = a_hand_off(queue, spool, counts)
    async with draining(hand_off):
        await asyncio.sleep(0.1)
        assert queue.entries == []  # it lives
        await sibling.close()  # its lock is free, its records are not drained: as after a kill -9
        while sibling.path.exists():
            await asyncio.sleep(0.01)
        assert queue.ids() == [entry.exchange_id for entry in entries]
        assert hand_off.where() == "queue"


class HungSpool(Spool):
    """A disk that does not answer until it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, MIB)
        self.gate = asyncio.Event()

    async def append(self, entry: Entry) -> None:
        await self.gate.wait()
        await super().append(entry)

    async def peek(self, *, count: int, bytes_max: int) -> list[Entry]:
        await self.gate.wait()
        return await super().peek(count=count, bytes_max=bytes_max)


async def test_a_hung_disk_does_not_hold_answers_and_loses_nothing_when_it_wakes(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = HungSpool(tmp_path / "own.spool")
    hand_off = a_hand_off(queue, spool, counts, spool_hold_ms=20.0)
    queue.up = False
    entry = an_entry()
    assert await asyncio.wait_for(hand_off.hand_off(entry), 10) == "none"
    assert (hand_off.where(), hand_off.held()) == ("none", 1)
    spool.gate.set()
    queue.up = True
    async with draining(hand_off):
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 30)
        assert queue.ids() == [entry.exchange_id]


async def test_a_hung_disk_does_not_hold_the_end_of_a_process_and_what_is_lost_is_said(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = HungSpool(tmp_path / "own.spool")
    hand_off = a_hand_off(queue, spool, counts, spool_hold_ms=20.0)
    queue.up = False
    entries = [an_entry() for _ in range(3)]
    assert [await hand_off.hand_off(entry) for entry in entries] == ["none"] * 3
    assert await asyncio.wait_for(hand_off.close(drain_s=0.1), 5) == 3
    assert all(f"exchange {entry.exchange_id} is lost" in caplog.text for entry in entries)
    assert counts["dropped"] == 3
    spool.gate.set()
    await spool.close()


class DefectiveSpool(HungSpool):
    """A disk that hangs, and a defect of ours behind it."""

    async def append(self, entry: Entry) -> None:
        await self.gate.wait()
        raise KeyError("a defect")


async def test_a_hung_disk_that_fails_in_an_unforeseen_way_loses_nothing(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = DefectiveSpool(tmp_path / "own.spool")
    hand_off = a_hand_off(queue, spool, counts, spool_hold_ms=20.0)
    queue.up = False
    entry = an_entry()
    assert await asyncio.wait_for(hand_off.hand_off(entry), 10) == "none"
    spool.gate.set()
    await asyncio.sleep(0.01)
    assert (hand_off.held(), counts["spool_failed"]) == (1, 1)
    queue.up = True
    async with draining(hand_off):
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 30)
        assert queue.ids() == [entry.exchange_id]


async def test_behind_a_hung_disk_memory_holds_a_bounded_amount(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = HungSpool(tmp_path / "own.spool")
    hand_off = a_hand_off(queue, spool, counts, spool_hold_ms=20.0, memory_bytes_max=50_000)
    queue.up = False
    entries = [an_entry(10_000) for _ in range(10)]
    assert [await hand_off.hand_off(entry) for entry in entries] == ["none"] * 10
    assert (hand_off.held(), counts["dropped"]) == (6, 4)  # one is on its way to the disk
    spool.gate.set()
    queue.up = True
    while not spool.pending:
        await asyncio.sleep(0.01)
    async with draining(hand_off):
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 30)
        assert queue.ids() == [entry.exchange_id for entry in (entries[0], *entries[5:])]


@pytest.mark.parametrize("spooled", [0, 1])
async def test_a_queue_that_is_back_is_used_although_the_disk_hangs(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path, spooled: int
) -> None:
    spool = HungSpool(tmp_path / "own.spool")
    spool.gate.set()
    hand_off = a_hand_off(queue, spool, counts, spool_hold_ms=300.0)
    async with draining(hand_off):
        queue.up = False
        assert [await hand_off.hand_off(an_entry()) for _ in range(spooled)] == ["spool"] * spooled
        spool.gate.clear()
        waiting = asyncio.create_task(hand_off.hand_off(an_entry()))
        while not hand_off.held():
            await asyncio.sleep(0.01)
        queue.up = True  # while the append may still come
        assert await waiting == "none"
        async with asyncio.timeout(10):
            while await hand_off.hand_off(an_entry()) != "queue":
                await asyncio.sleep(0.01)
        queue.up = False
        assert await hand_off.hand_off(an_entry()) == hand_off.where() == "none"
        spool.gate.set()


async def test_what_waits_here_is_moved_although_the_spools_of_others_hang(
    queue: SwitchedQueue, spool: Spool, counts: Counts
) -> None:
    async def hang() -> Sequence[Spool]:
        await asyncio.Event().wait()
        return ()

    hand_off = HandOff(queue, spool, hold_ms=50.0, memory_bytes_max=MIB, meter=counts, orphans=hang, retry_s=0.01)
    async with draining(hand_off):
        await asyncio.sleep(0.05)  # they are being looked for
        queue.up = False
        entry = an_entry()
        assert await hand_off.hand_off(entry) == "spool"
        queue.up = True
        await asyncio.wait_for(until_empty(hand_off, spool.path.parent), 10)
        assert queue.ids() == [entry.exchange_id]


async def test_an_unforeseen_failure_of_the_queue_does_not_reach_the_answer(
    spool: Spool, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(SwitchedQueue):
        async def put(self, entry: Entry) -> None:
            raise KeyError("a defect")

    hand_off = a_hand_off(Broken(), spool, counts)
    assert await hand_off.hand_off(an_entry()) == "none"
    assert hand_off.held() == 1
    assert "unforeseen" in caplog.text


async def test_what_an_unforeseen_failure_left_in_memory_is_moved_like_all_else(
    spool: Spool, counts: Counts, tmp_path: Path
) -> None:
    class BrokenOnce(SwitchedQueue):
        broken = True

        async def put(self, entry: Entry) -> None:
            if self.broken:
                self.broken = False
                raise KeyError("a defect")
            await super().put(entry)

    queue = BrokenOnce()
    hand_off = a_hand_off(queue, spool, counts)
    async with draining(hand_off):
        entry = an_entry()
        assert await hand_off.hand_off(entry) == "none"
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 10)
        assert queue.ids() == [entry.exchange_id]


class FullSpool(Spool):
    """A disk that takes nothing at first, then small entries, and those only once it opens."""

    takes_bytes = 0
    opens: asyncio.Event | None = None

    async def append(self, entry: Entry) -> None:
        if len(entry.envelope) > self.takes_bytes:
            raise SpoolUnavailable("full")
        if self.opens is not None:
            await self.opens.wait()
        await super().append(entry)


async def test_what_memory_must_drop_while_it_is_moved_to_the_spool_takes_nothing_else_with_it(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = FullSpool(tmp_path / "own.spool", MIB)
    hand_off = a_hand_off(queue, spool, counts, memory_bytes_max=300)
    queue.up = False
    moving, behind, last = an_entry(100), an_entry(100), an_entry(150)
    assert [await hand_off.hand_off(entry) for entry in (moving, behind)] == ["none", "none"]
    spool.takes_bytes, spool.opens = 100, asyncio.Event()
    closing = asyncio.create_task(hand_off.close(drain_s=0.1))
    await asyncio.sleep(0.3)
    assert await hand_off.hand_off(last) == "none"  # an answer that ends late: the oldest goes
    spool.opens.set()
    assert await closing == 1
    left = Spool(spool.path, None)
    assert await left.peek(count=9, bytes_max=MIB) == [moving, behind]
    await left.close()


async def test_what_comes_late_while_memory_is_moved_to_the_spool_is_moved_too(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = FullSpool(tmp_path / "own.spool", MIB)
    hand_off = a_hand_off(queue, spool, counts)
    queue.up = False
    moving, late = an_entry(100), an_entry(100)
    assert await hand_off.hand_off(moving) == "none"
    spool.takes_bytes, spool.opens = 100, asyncio.Event()
    closing = asyncio.create_task(hand_off.close(drain_s=0.1))
    await asyncio.sleep(0.3)
    spool.takes_bytes = 0
    assert await hand_off.hand_off(late) == "none"
    spool.takes_bytes = 100
    spool.opens.set()
    assert await closing == 0
    left = Spool(spool.path, None)
    assert await left.peek(count=9, bytes_max=MIB) == [moving, late]
    await left.close()


async def test_what_the_spool_has_no_room_for_at_the_end_costs_nothing_that_it_has(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    spool = FullSpool(tmp_path / "own.spool", MIB)
    hand_off = a_hand_off(queue, spool, counts)
    queue.up = False
    large, small = an_entry(1000), an_entry(100)
    assert [await hand_off.hand_off(entry) for entry in (large, small)] == ["none", "none"]
    spool.takes_bytes = 100
    assert await hand_off.close() == 1
    left = Spool(spool.path, None)
    assert await left.peek(count=9, bytes_max=MIB) == [small]
    await left.close()


async def test_what_the_disk_has_spoilt_since_it_was_spooled_is_counted_and_said(
    queue: SwitchedQueue, spool: Spool, counts: Counts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hand_off = a_hand_off(queue, spool, counts)
    queue.up = False
    entries = [an_entry() for _ in range(3)]
    assert [await hand_off.hand_off(entry) for entry in entries] == ["spool"] * 3
    raw = spool.path.read_bytes()
    with spool.path.open("r+b") as file:
        file.seek(raw.index(entries[1].envelope))
        file.write(b"spoilt")
    queue.up = True
    async with draining(hand_off):
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 10)
    assert queue.ids() == [entries[0].exchange_id, entries[2].exchange_id]
    assert counts["spool_damaged"] == 1
    assert f"{spool.path}: 1 damaged places" in caplog.text


class Unreadable(Spool):
    """A file whose disk gives nothing back, nor takes its name out of the directory."""

    async def peek(self, *, count: int, bytes_max: int) -> list[Entry]:
        raise SpoolUnavailable("input/output error")

    async def close(self, *, delete: bool = False) -> None:
        await super().close()
        raise SpoolUnavailable("input/output error")


async def test_a_dead_sibling_s_spool_that_cannot_be_read_holds_up_no_other(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        sibling = Spool(tmp_path / f"{name}.spool", MIB)
        await sibling.append(an_entry())
        await sibling.close()

    async def orphans() -> list[Spool]:
        there = [path for path in (tmp_path / "b.spool",) if path.exists()]
        return [Unreadable(tmp_path / "a.spool", None), *(Spool(path, None, create=False) for path in there)]

    hand_off = HandOff(
        queue,
        None,
        hold_ms=50.0,
        memory_bytes_max=MIB,
        meter=counts,
        orphans=orphans,
        retry_s=0.01,
        orphans_each_s=0.05,
    )
    async with draining(hand_off), asyncio.timeout(5):
        while (tmp_path / "b.spool").exists():
            await asyncio.sleep(0.01)
    assert len(queue.ids()) == 1
    assert count(tmp_path) == 1  # what cannot be read stays where it is


class Hanging(Unreadable):
    """One whose disk gives no answer at all."""

    async def peek(self, *, count: int, bytes_max: int) -> list[Entry]:
        await asyncio.Event().wait()
        return []


async def test_who_ends_the_draining_is_heard_though_a_spool_cannot_be_given_up(
    queue: SwitchedQueue, counts: Counts, tmp_path: Path
) -> None:
    sibling = Spool(tmp_path / "a.spool", MIB)
    await sibling.append(an_entry())
    await sibling.close()

    async def orphans() -> list[Spool]:
        return [Hanging(tmp_path / "a.spool", None, create=False)]

    hand_off = HandOff(queue, None, hold_ms=50.0, memory_bytes_max=MIB, meter=counts, orphans=orphans)
    task = asyncio.create_task(hand_off.keep_draining())
    while not counts["adopted"]:
        await asyncio.sleep(0.01)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=2)
    assert done and task.cancelled()
    await hand_off.close()


async def test_a_loop_that_is_late_takes_no_queue_for_one(valkey: ValkeyServer, spool: Spool, counts: Counts) -> None:
    queue = RedisQueue(valkey.url, lanes=1)
    hand_off = a_hand_off(queue, spool, counts, hold_ms=50.0)
    assert await hand_off.hand_off(an_entry()) == "queue"  # connected
    handing = asyncio.create_task(hand_off.hand_off(an_entry()))
    for _ in range(3):
        await asyncio.sleep(0)  # the entry is on its way
    time.sleep(0.2)
    assert await handing == "queue"
    assert (counts["queued"], counts["spooled"]) == (2, 0)
    await queue.close()


@pytest.mark.long
async def test_what_waits_for_a_replica_is_put_into_the_queue_once_it_is_there(
    valkey: ValkeyServer, spool: Spool, counts: Counts
) -> None:
    queue = RedisQueue(valkey.url, lanes=1, durability="replicated", put_timeout_s=0.5)
    client, port = connect(valkey.url), free_port()
    hand_off = a_hand_off(queue, spool, counts)
    entries = [an_entry() for _ in range(5)]
    with tempfile.TemporaryDirectory(prefix="vk-", dir="/tmp") as directory:
        replica = ValkeyServer(Path(directory))
        try:
            await client.config_set("port", port)
            async with draining(hand_off):
                assert [await hand_off.hand_off(entry) for entry in entries] == ["spool"] * 5
                await asyncio.sleep(3)
                assert spool.pending == 5
                with pytest.raises(QueueUnavailable, match="on replicas 0"):
                    await queue.ping_for_writes()
                assert (await queue.depth()).pending <= 1  # the first of them, which was put before it was spooled
                replica.start()
                follower = connect(replica.url)
                await follower.execute_command("REPLICAOF", "127.0.0.1", port)
                await follower.aclose()
                await asyncio.wait_for(until_empty(hand_off, spool.path.parent), 20)
            taken = await queue.take(lane_names(1), count=100, block_ms=0)
            assert list(dict.fromkeys(one.entry.exchange_id for one in taken)) == [one.exchange_id for one in entries]
        finally:
            await queue.close()
            await client.aclose()
            replica.stop()


@pytest.mark.slow
async def test_no_exchange_is_lost_or_reordered_while_valkey_dies_and_returns_under_load(
    valkey: ValkeyServer, tmp_path: Path, counts: Counts
) -> None:
    queue = RedisQueue(valkey.url, lanes=1)
    spool = Spool(tmp_path / "own.spool", 8 * MIB)
    hand_off = a_hand_off(queue, spool, counts, hold_ms=200.0)
    async with draining(hand_off):
        sent: dict[int, list[UUID]] = {subject: [] for subject in range(8)}
        stop = asyncio.Event()

        async def client(subject: int) -> None:
            while not stop.is_set():
                entry = an_entry(500, subject)
                sent[subject].append(entry.exchange_id)
                assert await hand_off.hand_off(entry) in ("queue", "spool")
                await asyncio.sleep(0.005)

        clients = [asyncio.create_task(client(subject)) for subject in sent]
        for _ in range(3):
            await asyncio.sleep(0.3)
            valkey.kill()
            await asyncio.sleep(0.3)
            valkey.start()
        await asyncio.sleep(0.2)
        stop.set()
        await asyncio.gather(*clients)
        await asyncio.wait_for(until_empty(hand_off, tmp_path), 60)
    taken: list[Entry] = []
    while batch := await queue.take(lane_names(1), count=1000, block_ms=0):
        taken += [delivery.entry for delivery in batch]
    await queue.close()
    assert counts["spooled"] > 0
    for subject, ids in sent.items():
        mine = [entry.exchange_id for entry in taken if entry.subject_id.int == subject]
        assert list(dict.fromkeys(mine)) == ids


async def test_a_spool_that_breaks_is_a_named_fault_for_the_drain(queue: SwitchedQueue, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "own.spool", MIB)
    await spool.append(an_entry())
    os.close(spool._fd)
    with pytest.raises(SpoolUnavailable):
        await spool.peek(count=1, bytes_max=1)
    spool._thread.shutdown()
    spool._fd = -1
