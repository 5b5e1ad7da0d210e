"""The worker's loop over a real Valkey: in order, once, never two at a lane, and patient with what is away."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from memory.adapters.postgres.database import Bounds, Database
from memory.adapters.postgres.leases import Leases, hold_fence
from memory.adapters.redis_client import connect
from memory.adapters.redis_queue import RedisQueue, lane_names, lane_of
from memory.errors import EnvelopeUnreadable, LeaseLost, NotFound, QueueUnavailable, StoreUnavailable
from memory.ids import new_id
from memory.ports import Delivery, Entry, QueueDepth
from memory.write import worker
from memory.write.lanes import HeldLanes
from memory.write.lanes import Leases as AnyLeases
from memory.write.meter import NoMeter
from memory.write.worker import Handle, Outcome, Poison, Stored, Transient, run_worker
from tests.postgres_fixture import TestDatabase
from tests.valkey_fixture import ValkeyServer

LANES = 4
TENANT = UUID(int=1)


class SharedLeases:
    """Leases in memory, on one clock: what the Postgres adapter promises, for workers of this process."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[str, int, float]] = {}
        self.up = True

    async def acquire(self, holder: str, want: Sequence[str], ttl_s: float) -> dict[str, int]:
        await asyncio.sleep(0)
        if not self.up:
            raise StoreUnavailable("switched off")
        now = time.monotonic()
        for lane in want:
            owner, fence, until = self.held.get(lane, ("", 0, 0.0))
            if owner == holder or until < now:
                self.held[lane] = (holder, fence + (owner != holder), now + ttl_s)
        return {lane: fence for lane, (owner, fence, _) in self.held.items() if owner == holder and lane in want}

    async def release(self, holder: str) -> None:
        for lane, (owner, fence, _) in self.held.items():
            if owner == holder:
                self.held[lane] = ("", fence + 1, 0.0)

    def seize(self, lane: str, holder: str) -> int:
        """Another holder takes the lane, as after an expired lease; its fence."""
        _, fence, _ = self.held[lane]
        self.held[lane] = (holder, fence + 1, time.monotonic() + 3600)
        return fence + 1


class FencedStore:
    """A store whose commit refuses an old fence, and that knows an exchange by its id."""

    def __init__(self, leases: SharedLeases) -> None:
        self._leases = leases
        self.stored: list[UUID] = []
        self.batches: list[tuple[str, list[UUID]]] = []
        self.active: Counter[str] = Counter()
        self.together_max = 0
        self.before_commit: Callable[[str], Awaitable[None]] | None = None
        self.verdict: Callable[[Delivery], Outcome | Exception] = lambda delivery: Stored()

    async def handle(self, lane: str, fence: int, deliveries: Sequence[Delivery]) -> list[Outcome]:
        self.active[lane] += 1
        assert self.active[lane] == 1, "two at one lane"
        self.together_max = max(self.together_max, sum(self.active.values()))
        try:
            if self.before_commit is not None:
                await self.before_commit(lane)
            await asyncio.sleep(0.001)
            return self.commit(lane, fence, deliveries)
        finally:
            self.active[lane] -= 1

    def commit(self, lane: str, fence: int, deliveries: Sequence[Delivery]) -> list[Outcome]:
        if self._leases.held[lane][1] != fence:
            raise LeaseLost(lane)
        self.batches.append((lane, [delivery.entry.exchange_id for delivery in deliveries]))
        outcomes: list[Outcome] = []
        for delivery in deliveries:
            outcome = self.verdict(delivery)
            if isinstance(outcome, Exception):
                raise outcome
            outcomes.append(outcome)
            if outcome == Stored() and delivery.entry.exchange_id not in self.stored:
                self.stored.append(delivery.entry.exchange_id)
            if outcome != Stored():
                outcomes += [Transient("after one that waits")] * (len(deliveries) - len(outcomes))
                break
        return outcomes


def an_entry(subject: int = 2, lane_class: str = "live") -> Entry:
    return Entry(new_id(), TENANT, UUID(int=subject), "exchange", lane_class, b"sealed")


def the_lane(subject: int = 2) -> str:
    return lane_of(TENANT, UUID(int=subject), "live", lanes=LANES)


@asynccontextmanager
async def working(
    queue: RedisQueue, leases: AnyLeases, handle: Handle, *, holder: str = "w1", **settings: float
) -> AsyncIterator[asyncio.Event]:
    """A worker runs inside; it is stopped behind."""
    stop = asyncio.Event()
    task = asyncio.create_task(
        run_worker(
            queue,
            leases,
            handle,
            holder=holder,
            lanes=lane_names(LANES),
            batch_max=int(settings.get("batch_max", 16)),
            bulk_share_min=settings.get("bulk_share_min", 0.2),
            attempts_max=int(settings.get("attempts_max", 3)),
            lanes_busy_max=int(settings.get("lanes_busy_max", 4)),
            lease_s=settings.get("lease_s", 30.0),
            stop=stop,
        )
    )
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait_for(task, 30)


async def until_depth(queue: RedisQueue, wanted: Callable[[QueueDepth], bool]) -> QueueDepth:
    while True:
        try:
            depth = await queue.depth()
        except QueueUnavailable:
            depth = None
        if depth is not None and wanted(depth):
            return depth
        await asyncio.sleep(0.01)


def is_empty(depth: QueueDepth) -> bool:
    return depth.pending + depth.in_flight == 0


@pytest.fixture
async def queue(valkey: ValkeyServer) -> AsyncIterator[RedisQueue]:
    queue = RedisQueue(valkey.url, lanes=LANES)
    yield queue
    await queue.close()


@pytest.fixture
def leases() -> SharedLeases:
    return SharedLeases()


@pytest.fixture
def store(leases: SharedLeases) -> FencedStore:
    return FencedStore(leases)


async def test_every_entry_is_stored_once_and_in_its_subject_s_order(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    entries = [an_entry(subject) for _ in range(60) for subject in range(6)]
    await queue.put_all(entries[:100])
    async with working(queue, leases, store.handle):
        await queue.put_all(entries[100:])
        await until_depth(queue, is_empty)
    assert len(store.stored) == len(entries)
    for subject in range(6):
        mine = [entry.exchange_id for entry in entries if entry.subject_id.int == subject]
        assert [stored for stored in store.stored if stored in set(mine)] == mine
    assert leases.held[the_lane()][0] == ""


async def test_calls_side_by_side_and_entries_of_a_call_are_bounded(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    await queue.put_all([an_entry(subject) for _ in range(40) for subject in range(12)])
    async with working(queue, leases, store.handle, lanes_busy_max=2, batch_max=8):
        await until_depth(queue, is_empty)
    assert store.together_max <= 2
    assert max(len(batch) for _, batch in store.batches) == 8


async def test_a_new_worker_takes_few_entries_before_it_knows_how_large_they_are(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    await queue.put_all([an_entry() for _ in range(400)])
    async with working(queue, leases, store.handle, batch_max=64):
        await until_depth(queue, is_empty)
    taken = [len(batch) for _, batch in store.batches]
    assert max(taken[:3]) < 16 < max(taken)


async def test_what_a_dead_worker_left_is_done_before_anything_newer(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    entries = [an_entry() for _ in range(10)]
    await queue.put_all(entries)
    await queue.take([the_lane()], count=4, block_ms=0)  # and dies
    async with working(queue, leases, store.handle):
        await until_depth(queue, is_empty)
    assert store.stored == [entry.exchange_id for entry in entries]
    assert store.batches[0][1] == [entries[0].exchange_id]  # the head alone: it may be what killed the other


async def test_a_transient_fault_pauses_the_lane_in_order_and_counts_no_attempt(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    entries = [an_entry() for _ in range(5)]
    calls: list[int] = []

    def away(delivery: Delivery) -> Outcome:
        calls.append(delivery.attempts)
        return Transient("store away") if len(calls) < 6 else Stored()

    store.verdict = away
    await queue.put_all(entries)
    async with working(queue, leases, store.handle, attempts_max=2):
        await until_depth(queue, is_empty)
    assert store.stored == [entry.exchange_id for entry in entries]
    assert set(calls) == {1}


@pytest.mark.parametrize("fault", [StoreUnavailable("down"), QueueUnavailable("down"), ConnectionResetError()])
async def test_a_handler_that_raises_a_store_s_fault_is_transient(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore, fault: Exception
) -> None:
    left = [4]

    def away(delivery: Delivery) -> Outcome | Exception:
        left[0] -= 1
        return fault if left[0] > 0 else Stored()

    store.verdict = away
    await queue.put_all([an_entry() for _ in range(3)])
    async with working(queue, leases, store.handle, attempts_max=1):
        depth = await until_depth(queue, is_empty)
    assert (len(store.stored), depth.dead) == (3, 0)


@pytest.mark.parametrize("how", [Poison("bad"), KeyError("a defect"), NotFound("no scope")])
async def test_poison_is_tried_to_its_bound_then_buried_and_the_lane_goes_on(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore, how: Outcome | Exception
) -> None:
    entries = [an_entry() for _ in range(6)]
    tries: Counter[UUID] = Counter()

    def verdict(delivery: Delivery) -> Outcome | Exception:
        tries[delivery.entry.exchange_id] += 1
        return how if delivery.entry == entries[2] else Stored()

    store.verdict = verdict
    await queue.put_all(entries)
    async with working(queue, leases, store.handle, attempts_max=3):
        await until_depth(queue, is_empty)
    assert store.stored == [entry.exchange_id for entry in entries if entry != entries[2]]
    [dead] = await queue.dead_letters(10)
    assert (dead.exchange_id, dead.attempts) == (entries[2].exchange_id, 3)
    assert tries[entries[2].exchange_id] in (3, 4)  # an exception is judged once more, alone


@pytest.mark.parametrize("how", [Poison("bad", final=True), EnvelopeUnreadable("no key opens it")])
async def test_final_poison_is_buried_at_once(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore, how: Outcome | Exception
) -> None:
    entries = [an_entry() for _ in range(3)]
    store.verdict = lambda delivery: how if delivery.entry == entries[0] else Stored()
    await queue.put_all(entries)
    async with working(queue, leases, store.handle, attempts_max=8):
        await until_depth(queue, is_empty)
    [dead] = await queue.dead_letters(10)
    assert (dead.exchange_id, dead.attempts) == (entries[0].exchange_id, 1)
    assert store.stored == [entry.exchange_id for entry in entries[1:]]


async def test_an_entry_that_kills_its_worker_each_time_is_buried_in_the_end_and_takes_none_with_it(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    entries = [an_entry() for _ in range(3)]
    await queue.put_all(entries)
    await queue.take([the_lane()], count=10, block_ms=0)
    for _ in range(4):  # attempts_max 1: four deaths
        assert len(await queue.reclaim(the_lane(), count=10)) == 3
    async with working(queue, leases, store.handle, attempts_max=1):
        await until_depth(queue, is_empty)
    [dead] = await queue.dead_letters(10)
    assert dead.exchange_id == entries[0].exchange_id
    assert store.stored == [entry.exchange_id for entry in entries[1:]]


async def test_live_goes_first_and_bulk_keeps_its_share(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    bulk = [an_entry(subject, "bulk") for _ in range(100) for subject in range(3)]
    live = [an_entry(subject) for _ in range(100) for subject in range(3)]
    await queue.put_all([*bulk, *live])
    async with working(queue, leases, store.handle, bulk_share_min=0.25, lanes_busy_max=1, batch_max=4):
        await until_depth(queue, is_empty)
    is_bulk = {entry.exchange_id for entry in bulk}
    order = [stored in is_bulk for stored in store.stored]
    last_live = len(order) - 1 - order[::-1].index(False)
    share = sum(order[: last_live + 1]) / (last_live + 1)
    assert 0.15 < share < 0.4


async def test_a_live_entry_does_not_wait_for_a_long_import(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    gate = asyncio.Event()

    async def slow_bulk(lane: str) -> None:
        if lane.startswith("bulk"):
            await gate.wait()

    store.before_commit = slow_bulk
    await queue.put_all([an_entry(subject, "bulk") for subject in range(40)])
    async with working(queue, leases, store.handle, lanes_busy_max=2):
        while not any(store.active.values()):
            await asyncio.sleep(0.01)
        live = an_entry()
        await queue.put(live)
        while live.exchange_id not in store.stored:
            await asyncio.sleep(0.01)
        assert store.stored == [live.exchange_id]
        gate.set()
        await until_depth(queue, is_empty)


async def test_two_workers_share_the_live_lanes(postgres: TestDatabase, caplog: pytest.LogCaptureFixture) -> None:
    """Else one stores all that is said, and the other waits for an import. That a second one starts warns nobody."""
    caplog.set_level(logging.INFO, "memory.write.lanes")
    database = await Database.open(postgres.app)
    try:
        shared = Leases(database)
        both = [HeldLanes(shared, holder, lane_names(16), 30.0, NoMeter()) for holder in ("w1", "w2")]
        for _ in range(2):
            for held in both:
                await held.beat()
        lanes = [[lane.name for lane in held] for held in both]
        assert [sum(name.startswith("live") for name in names) for names in lanes] == [8, 8]
        assert [len(names) for names in lanes] == [16, 16]
        assert all(names == sorted(names, key=lambda name: name.startswith("bulk")) for names in lanes)
    finally:
        await database.close()
    (said,) = caplog.records
    assert (said.levelname, said.getMessage().count("fence")) == ("INFO", 16)
    assert said.getMessage().startswith("lanes given to another worker: ")


async def test_two_workers_never_work_on_one_lane_and_lose_nothing_when_one_stops(
    queue: RedisQueue, valkey: ValkeyServer, leases: SharedLeases, store: FencedStore
) -> None:
    other = RedisQueue(valkey.url, lanes=LANES)
    entries = [an_entry(subject) for _ in range(100) for subject in range(6)]
    async with working(other, leases, store.handle, holder="w2", lease_s=0.6):
        async with working(queue, leases, store.handle, holder="w1", lease_s=0.6):
            await queue.put_all(entries[:300])
            await asyncio.sleep(0.05)
        await queue.put_all(entries[300:])
        await until_depth(queue, is_empty)
    await other.close()
    assert Counter(store.stored) == Counter(entry.exchange_id for entry in entries)


async def test_a_worker_that_slept_past_its_lease_stores_and_acknowledges_nothing(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    """As under SIGSTOP: between reading and committing, another takes the lane over."""
    entries = [an_entry() for _ in range(3)]
    seized = asyncio.Event()

    async def sleep_through_the_lease(lane: str) -> None:
        if not seized.is_set():
            leases.seize(lane, "another")
            seized.set()

    store.before_commit = sleep_through_the_lease
    await queue.put_all(entries)
    async with working(queue, leases, store.handle):
        await seized.wait()
        await asyncio.sleep(0.3)
        assert store.stored == []
        assert (await queue.depth()).in_flight + (await queue.depth()).pending == 3
        reclaimed = await queue.reclaim(the_lane(), count=10)
        store.commit(the_lane(), leases.held[the_lane()][1], reclaimed)
    assert store.stored == [entry.exchange_id for entry in entries[: len(reclaimed)]]
    assert len(reclaimed) > 0


class TooLate(RedisQueue):
    """A queue whose first answer that holds anything comes when the process has slept past its lease: as under SIGSTOP,
    the entries are delivered, and nobody has them.
    """

    slept = False

    async def take(self, lanes: Sequence[str], *, count: int, block_ms: int) -> list[Delivery]:
        found = await super().take(lanes, count=count, block_ms=block_ms)
        if found and not self.slept:
            self.slept = True
            time.sleep(1.2)
            raise QueueUnavailable("the answer came too late")
        return found


class Robbed(RedisQueue):
    """A queue in which the former holder of a lane is given an entry once more, by a read that it began while the lane
    was its own: after the lane's next holder has looked through it.
    """

    entry: Entry | None = None  # once it is in the queue
    robbed = False

    async def take(self, lanes: Sequence[str], *, count: int, block_ms: int) -> list[Delivery]:
        if block_ms and not self.robbed:
            self.robbed = True
            entry = an_entry()
            await self.put(entry)
            (given,) = await super().take([the_lane()], count=1, block_ms=0)
            assert given.entry == entry
            self.entry = entry
        return await super().take(lanes, count=count, block_ms=block_ms)


class Overtaken(RedisQueue):
    """A queue that answers a reclaim only when the lane is another's by then."""

    def __init__(self, url: str, leases: SharedLeases) -> None:
        super().__init__(url, lanes=LANES)
        self._leases = leases
        self.answered = False

    async def reclaim(self, lane: str, *, count: int) -> list[Delivery]:
        found = await super().reclaim(lane, count=count)
        self._leases.seize(lane, "another")
        await asyncio.sleep(0.5)
        self.answered = True
        return found


class Watched(RedisQueue):
    """A queue that tells of each look at its lanes."""

    def __init__(self, url: str) -> None:
        super().__init__(url, lanes=LANES)
        self.looks: list[int] = []
        self.reclaimed: list[str] = []

    async def unfinished(self, lanes: Sequence[str]) -> set[str]:
        self.looks.append(len(lanes))
        return await super().unfinished(lanes)

    async def reclaim(self, lane: str, *, count: int) -> list[Delivery]:
        self.reclaimed.append(lane)
        return await super().reclaim(lane, count=count)


async def test_one_look_is_for_all_lanes_and_only_those_with_something_unfinished_are_reclaimed(
    valkey: ValkeyServer, leases: SharedLeases, store: FencedStore
) -> None:
    """On a disk with 200 ms an fsync each trip takes as long: 32 of them would leave no time to read."""
    queue = Watched(valkey.url)
    try:
        await queue.prepare()
        await queue.put_all([an_entry() for _ in range(3)])
        await queue.take([the_lane()], count=3, block_ms=0)
        async with working(queue, leases, store.handle):
            await until_depth(queue, is_empty)
            await queue.put(an_entry())
            await until_depth(queue, is_empty)
            await asyncio.sleep(2.5)
        assert len(store.stored) == 4
        assert set(queue.reclaimed) == {the_lane()}
        assert len(queue.looks) <= 5
        assert max(queue.looks) == 2 * LANES
    finally:
        await queue.close()


class Listening(RedisQueue):
    """A queue that keeps of each read whether it waits for an entry, and how many came."""

    def __init__(self, url: str) -> None:
        super().__init__(url, lanes=LANES)
        self.reads: list[tuple[bool, int]] = []

    async def take(self, lanes: Sequence[str], *, count: int, block_ms: int) -> list[Delivery]:
        found = await super().take(lanes, count=count, block_ms=block_ms)
        self.reads.append((block_ms > 0, len(found)))
        return found


async def test_a_read_that_waited_in_vain_is_followed_by_one_that_waits(
    valkey: ValkeyServer, leases: SharedLeases, store: FencedStore
) -> None:
    """Two reads of all lanes in between, which found nothing, were half of what an idle worker did."""
    queue = Listening(valkey.url)
    try:
        async with working(queue, leases, store.handle), asyncio.timeout(20):
            for _ in range(2):
                while queue.reads[-3:] != [(True, 0)] * 3:
                    await asyncio.sleep(0.05)
                queue.reads.clear()
                await queue.put_all([an_entry(), an_entry(3, "bulk")])
                await until_depth(queue, is_empty)
        assert len(store.stored) == 4
    finally:
        await queue.close()


async def test_a_worker_goes_on_when_the_queue_has_lost_everything(
    queue: RedisQueue, valkey: ValkeyServer, leases: SharedLeases, store: FencedStore
) -> None:
    client = connect(valkey.url)
    try:
        async with working(queue, leases, store.handle), asyncio.timeout(20):
            await queue.put(an_entry())
            await until_depth(queue, is_empty)
            pipe = client.pipeline(transaction=True)
            pipe.execute_command("FLUSHALL")
            pipe.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # as when the server begins anew
            await pipe.execute()
            await queue.put(an_entry())
            await until_depth(queue, is_empty)
        assert len(store.stored) == 2
    finally:
        await client.aclose()


async def test_what_waits_in_a_full_server_is_stored_and_makes_room(
    queue: RedisQueue, valkey: ValkeyServer, leases: SharedLeases, store: FencedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LANES_EACH_S", 0.1)
    client = connect(valkey.url)
    entries = [an_entry(subject) for subject in range(20)]
    try:
        await queue.prepare()
        await queue.put_all(entries)
        await client.execute_command("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(QueueUnavailable, match="maxmemory"):
            await queue.put(an_entry())
        async with working(queue, leases, store.handle), asyncio.timeout(10):
            await until_depth(queue, is_empty)
            await asyncio.sleep(0.3)
            await client.execute_command("CONFIG", "SET", "maxmemory", 0)
            later = an_entry()
            await queue.put(later)
            await until_depth(queue, is_empty)
        assert set(store.stored) == {entry.exchange_id for entry in [*entries, later]}
    finally:
        await client.aclose()


async def test_lanes_of_a_larger_configuration_that_came_later_are_worked_on(
    queue: RedisQueue, valkey: ValkeyServer, leases: SharedLeases, store: FencedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration is rolled out: proxies with more lanes run beside workers that began with fewer."""
    monkeypatch.setattr(worker, "LANES_EACH_S", 0.1)
    more = RedisQueue(valkey.url, lanes=2 * LANES)
    try:
        async with working(queue, leases, store.handle, lease_s=1.0), asyncio.timeout(20):
            await until_depth(queue, is_empty)
            await more.prepare()
            entries = [an_entry(subject) for subject in range(20)]
            await more.put_all(entries)
            await until_depth(more, is_empty)
        assert set(store.stored) == {entry.exchange_id for entry in entries}
    finally:
        await more.close()


async def test_what_a_lane_s_former_holder_was_given_is_done_by_the_next_one(
    valkey: ValkeyServer, leases: SharedLeases, store: FencedStore
) -> None:
    queue = Robbed(valkey.url, lanes=LANES)
    try:
        async with working(queue, leases, store.handle), asyncio.timeout(20):
            while queue.entry is None:
                await asyncio.sleep(0.01)
            await until_depth(queue, is_empty)
        assert store.stored == [queue.entry.exchange_id]
    finally:
        await queue.close()


async def test_what_was_delivered_to_a_worker_that_slept_is_done_when_its_lanes_are_its_own_again(
    valkey: ValkeyServer, leases: SharedLeases, store: FencedStore
) -> None:
    queue = TooLate(valkey.url, lanes=LANES)
    entry = an_entry()
    try:
        async with working(queue, leases, store.handle, lease_s=1.0):
            await asyncio.sleep(0.3)  # every lane has been looked through
            await queue.put_all([entry])
            async with asyncio.timeout(20):
                await until_depth(queue, is_empty)
        assert queue.slept and store.stored == [entry.exchange_id]
    finally:
        await queue.close()


async def test_a_lane_that_is_leased_away_is_dropped_in_the_middle_of_its_work(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore
) -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(lane: str) -> None:
        entered.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    store.before_commit = hang
    await queue.put(an_entry())
    async with working(queue, leases, store.handle, lease_s=0.3):
        await entered.wait()
        leases.seize(the_lane(), "another")
        await asyncio.wait_for(cancelled.wait(), 10)
    assert (store.stored, (await queue.depth()).in_flight) == ([], 1)


async def test_what_was_reclaimed_when_the_lane_was_lost_is_not_begun(
    valkey: ValkeyServer, leases: SharedLeases, store: FencedStore
) -> None:
    queue = Overtaken(valkey.url, leases)
    begun: list[str] = []

    async def begins(lane: str) -> None:
        begun.append(lane)

    store.before_commit = begins
    try:
        await queue.prepare()
        await queue.put(an_entry())
        await queue.take([the_lane()], count=1, block_ms=0)
        async with working(queue, leases, store.handle, lease_s=0.6), asyncio.timeout(20):
            while not queue.answered:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
        assert begun == []
        assert (await queue.depth()).in_flight == 1
    finally:
        await queue.close()


async def test_lanes_are_dropped_while_the_leasing_store_is_away_and_taken_again_after(
    queue: RedisQueue, leases: SharedLeases, store: FencedStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(queue, leases, store.handle, lease_s=0.3):
        await queue.put(an_entry())
        await until_depth(queue, is_empty)
        leases.up = False
        await asyncio.sleep(0.5)
        late = an_entry()
        await queue.put(late)
        await asyncio.sleep(0.2)
        assert late.exchange_id not in store.stored
        leases.up = True
        await until_depth(queue, is_empty)
    assert late.exchange_id in store.stored
    assert caplog.text.count("waiting for the store that leases lanes") == 1


async def test_a_lane_that_was_another_s_between_two_beats_is_ours_anew_under_its_new_fence(
    leases: SharedLeases,
) -> None:
    held = HeldLanes(leases, "w1", [the_lane()], 30.0, NoMeter())
    await held.beat()
    (before,) = held
    before.reclaim = False
    leases.seize(the_lane(), "another")
    await leases.release("another")
    await held.beat()
    (after,) = held
    assert (before.lost, after.lost, after.reclaim) == (True, False, True)
    assert after.fence == leases.held[the_lane()][1] != before.fence


async def test_lanes_that_were_taken_from_who_slept_are_warned_of_in_one_line(
    leases: SharedLeases, caplog: pytest.LogCaptureFixture
) -> None:
    held = HeldLanes(leases, "w1", lane_names(LANES), 0.03, NoMeter())
    await held.beat()
    for lane in lane_names(LANES):
        leases.seize(lane, "another")
    await asyncio.sleep(0.04)
    await held.beat()
    (said,) = caplog.records
    assert (said.levelname, said.getMessage().count("fence")) == ("WARNING", len(lane_names(LANES)))
    assert said.getMessage().startswith("lanes lost: no sign of life of this worker came in time: ")


async def test_a_lease_is_over_here_no_later_than_in_the_store_that_was_slow_to_give_it(leases: SharedLeases) -> None:
    gives = leases.acquire

    class Slow(SharedLeases):
        async def acquire(self, holder: str, want: Sequence[str], ttl_s: float) -> dict[str, int]:
            given = await gives(holder, want, ttl_s)
            await asyncio.sleep(0.4)
            return given

    held = HeldLanes(Slow(), "w1", [the_lane()], 1.5, NoMeter())
    asked_s = time.monotonic()
    await held.beat()
    while time.monotonic() < asked_s + 1.51:
        await asyncio.sleep(0.01)
    assert list(held) == []


async def test_a_store_that_is_too_slow_to_take_lanes_back_is_said_to_be(
    leases: SharedLeases, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(holder: str) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(leases, "release", hang)
    await HeldLanes(leases, "w1", lane_names(LANES), 0.03, NoMeter()).release()
    assert "lanes are not released, their leases run out: too slow" in caplog.text


async def test_stopping_finishes_what_is_in_hand(queue: RedisQueue, leases: SharedLeases, store: FencedStore) -> None:
    entered, gate = asyncio.Event(), asyncio.Event()

    async def wait_for_gate(lane: str) -> None:
        entered.set()
        await gate.wait()

    store.before_commit = wait_for_gate
    entry = an_entry()
    await queue.put(entry)
    async with working(queue, leases, store.handle) as stop:
        await entered.wait()
        stop.set()
        await asyncio.sleep(0.05)
        gate.set()
    assert store.stored == [entry.exchange_id]
    assert is_empty(await queue.depth())


@pytest.mark.slow
async def test_a_worker_waits_for_a_queue_that_is_not_there_and_outlives_its_death(
    queue: RedisQueue, valkey: ValkeyServer, leases: SharedLeases, store: FencedStore, caplog: pytest.LogCaptureFixture
) -> None:
    valkey.kill()
    entries = [an_entry(subject) for _ in range(100) for subject in range(6)]
    async with working(queue, leases, store.handle):
        await asyncio.sleep(0.5)
        await asyncio.to_thread(valkey.start)
        await queue.ping()
        await queue.put_all(entries[:200])
        while len(store.stored) < 50:
            await asyncio.sleep(0.005)
        valkey.kill()
        await asyncio.sleep(0.3)
        await asyncio.to_thread(valkey.start)
        await queue.put_all(entries[200:])
        await asyncio.wait_for(until_depth(queue, is_empty), 60)
    for subject in range(6):
        mine = [entry.exchange_id for entry in entries if entry.subject_id.int == subject]
        assert [stored for stored in store.stored if stored in set(mine)] == mine
    assert caplog.text.count("waiting for the queue") <= 4


@pytest.mark.slow
async def test_random_faults_lose_nothing_and_keep_each_subject_s_order(
    queue: RedisQueue, valkey: ValkeyServer, leases: SharedLeases, store: FencedStore
) -> None:
    """Transient and lease faults by a fixed pattern, two workers, short leases."""
    calls = [0]

    async def fault(lane: str) -> None:
        calls[0] += 1
        if calls[0] % 7 == 0:
            raise StoreUnavailable("now and then")
        if calls[0] % 11 == 0:
            raise LeaseLost("now and then")

    store.before_commit = fault
    entries = [an_entry(subject) for _ in range(40) for subject in range(6)]
    other = RedisQueue(valkey.url, lanes=LANES)
    await queue.put_all(entries)
    async with (
        working(queue, leases, store.handle, holder="w1", lease_s=0.5, batch_max=4),
        working(other, leases, store.handle, holder="w2", lease_s=0.5, batch_max=4),
    ):
        await asyncio.wait_for(until_depth(queue, is_empty), 60)
    await other.close()
    for subject in range(6):
        mine = [entry.exchange_id for entry in entries if entry.subject_id.int == subject]
        assert [stored for stored in store.stored if stored in set(mine)] == mine


async def test_with_leases_in_postgres_a_process_that_slept_commits_nothing_and_the_next_stores_all(
    queue: RedisQueue, postgres: TestDatabase
) -> None:
    database = await Database.open(postgres.app, Bounds())
    leases = Leases(database)
    refused: list[str] = []
    stored: list[UUID] = []

    async def handle(lane: str, fence: int, deliveries: Sequence[Delivery]) -> list[Outcome]:
        if not refused:
            time.sleep(1.2)  # the whole process stands still, its heartbeat too, longer than its lease
            await Leases(database).acquire("another", lane_names(LANES), 0.5)
        try:
            async with database.transaction(None) as tx:
                await hold_fence(tx, lane, fence)
        except LeaseLost:
            refused.append(lane)
            raise
        stored.extend(delivery.entry.exchange_id for delivery in deliveries)
        return [Stored()] * len(deliveries)

    entries = [an_entry() for _ in range(5)]
    await queue.put_all(entries)
    async with working(queue, leases, handle, lease_s=1.0):
        await asyncio.wait_for(until_depth(queue, is_empty), 30)
    await database.close()
    assert refused == [the_lane()]
    assert stored == [entry.exchange_id for entry in entries]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel groups no processes by session")
@pytest.mark.parametrize(("leads", "nice_of_session"), [(True, 10), (False, 0)])
def test_a_worker_steps_back_with_its_session_and_a_command_leaves_that_of_its_terminal(
    leads: bool, nice_of_session: int
) -> None:
    """All that is done in a terminal behind a command that stepped back with it would have a ninth of the time."""
    script = (
        "from memory.step_back import step_back; step_back(); print(open('/proc/self/autogroup').read().split()[-1])"
    )
    words = [sys.executable, "-c", script]
    said = subprocess.run(
        words if leads else ["/bin/sh", "-c", '"$@"; true', "sh", *words],
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(said.stdout) == nice_of_session
