"""The durable queue against a real Valkey: what is acknowledged stays, in order, once, through kill -9."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from memory.adapters.redis_client import connect
from memory.adapters.redis_queue import ENTRY_BYTES_MAX, TROUBLE_S, Promised, RedisQueue, lane_names, lane_of
from memory.errors import ConfigInvalid, QueueUnavailable
from memory.ids import new_id
from memory.ports import Delivery, Entry, Queue
from tests.cluster_fixture import Cluster
from tests.valkey_fixture import ValkeyServer

LANES = 4
TENANT = UUID(int=1)
SUBJECT = UUID(int=2)


def an_entry(*, subject: UUID = SUBJECT, lane_class: str = "live", envelope: bytes = b"sealed") -> Entry:
    return Entry(new_id(), TENANT, subject, "exchange", lane_class, envelope)


def the_lane(subject: UUID = SUBJECT) -> str:
    return lane_of(TENANT, subject, "live", lanes=LANES)


def ids(deliveries: list[Delivery]) -> list[UUID]:
    return [delivery.entry.exchange_id for delivery in deliveries]


async def drain(queue: RedisQueue) -> list[Delivery]:
    """Take everything there is, lane by lane."""
    found: list[Delivery] = []
    while batch := await queue.take(lane_names(LANES), count=100, block_ms=0):
        found += batch
    return found


@pytest.fixture
async def queue(valkey: ValkeyServer) -> AsyncIterator[RedisQueue]:
    queue = RedisQueue(valkey.url, lanes=LANES)
    yield queue
    await queue.close()


async def test_an_entry_comes_back_as_it_was_put(queue: RedisQueue) -> None:
    port: Queue = queue
    entry = an_entry(envelope=bytes(range(256)) * 300)
    await port.put(entry)
    [delivery] = await port.take([the_lane()], count=10, block_ms=0)
    assert delivery.entry == entry
    assert (delivery.lane, delivery.attempts) == (the_lane(), 1)


async def test_entries_of_one_subject_keep_their_order_under_concurrent_puts(queue: RedisQueue) -> None:
    entries = [an_entry() for _ in range(200)]
    await asyncio.gather(*(queue.put(entry) for entry in entries))
    assert ids(await drain(queue)) == [entry.exchange_id for entry in entries]


def test_a_subject_keeps_its_lane_for_ever() -> None:
    """Values of the first release: another hash would let a subject's later turns overtake its earlier ones."""
    assert lane_of(UUID(int=1), UUID(int=2), "live") == "live-01"
    assert lane_of(UUID(int=1), UUID(int=3), "bulk") == "bulk-57"


@pytest.mark.parametrize(("lanes", "of_one"), [(64, 16), (16, 8), (256, 64), (4, 4), (1, 1)])
def test_however_many_users_a_tenant_has_they_leave_lanes_to_others(lanes: int, of_one: int) -> None:
    """A user of another tenant stood behind all that a busy one had waiting, in whatever lane."""
    of = [{lane_of(UUID(int=t), UUID(int=u), "live", lanes=lanes) for u in range(2_000)} for t in range(40)]
    assert max(map(len, of)) <= of_one
    assert sum(map(len, of)) / len(of) >= of_one / 2  # places of one tenant may fall together
    assert len(set().union(*of)) == lanes


def test_most_users_of_a_tenant_stand_in_no_lane_of_a_busy_one() -> None:
    busy = {lane_of(UUID(int=9_999), UUID(int=u), "live") for u in range(2_000)}
    others = [lane_of(UUID(int=t), UUID(int=u), "live") for t in range(200) for u in range(20)]
    assert 0.1 < sum(lane in busy for lane in others) / len(others) < 0.35


async def test_a_waiting_take_does_not_hold_up_puts_and_sees_them_at_once(queue: RedisQueue) -> None:
    waiting = asyncio.create_task(queue.take(lane_names(LANES), count=1, block_ms=4000))
    await asyncio.sleep(0.05)
    entry = an_entry()
    await asyncio.wait_for(queue.put(entry), 2)
    assert ids(await asyncio.wait_for(waiting, 2)) == [entry.exchange_id]


async def test_what_a_dead_worker_held_is_reclaimed_in_order_and_only_its_head_charged(
    queue: RedisQueue,
) -> None:
    entries = [an_entry() for _ in range(5)]
    await queue.put_all(entries)
    await queue.take([the_lane()], count=3, block_ms=0)
    reclaimed = await queue.reclaim(the_lane(), count=10)
    assert ids(reclaimed) == [entry.exchange_id for entry in entries[:3]]
    assert [delivery.attempts for delivery in reclaimed] == [2, 1, 1]
    assert ids(await queue.take([the_lane()], count=10, block_ms=0)) == [entry.exchange_id for entry in entries[3:]]


async def test_lanes_with_unfinished_entries_are_told_from_those_that_wait_or_are_not_there(queue: RedisQueue) -> None:
    await queue.put_all([an_entry(), an_entry(subject=UUID(int=9), lane_class="bulk")])
    lanes = [*lane_names(LANES), "live-77"]
    assert await queue.unfinished(lanes) == set()
    taken = await queue.take([the_lane()], count=1, block_ms=0)
    assert await queue.unfinished(lanes) == {the_lane()}
    assert await queue.unfinished([]) == set()
    await queue.done_all(taken)
    assert await queue.unfinished(lanes) == set()


async def test_one_command_looks_for_what_is_unfinished_in_all_lanes(queue: RedisQueue, valkey: ValkeyServer) -> None:
    """A worker asks every two seconds; one for each of 128 lanes was most of what an idle server was asked."""
    client = connect(valkey.url)
    try:
        await queue.unfinished(lane_names(LANES))
        await client.config_resetstat()
        assert await queue.unfinished(lane_names(LANES)) == set()
        asked = await client.info("commandstats")
    finally:
        await client.aclose()
    assert asked.get("cmdstat_eval", {}).get("calls") == 1


async def test_what_is_no_lane_is_a_fault_and_no_lane_without_anything(queue: RedisQueue, valkey: ValkeyServer) -> None:
    client = connect(valkey.url)
    try:
        await client.set("mp:q:{live-00}", "text")
    finally:
        await client.aclose()
    with pytest.raises(QueueUnavailable, match="WRONGTYPE"):
        await queue.unfinished(lane_names(LANES))


async def test_an_attempt_given_back_is_not_counted(queue: RedisQueue) -> None:
    await queue.put(an_entry())
    [delivery] = await queue.take([the_lane()], count=1, block_ms=0)
    for _ in range(20):
        await queue.give_back(delivery)
        [delivery] = await queue.reclaim(the_lane(), count=1)
        assert delivery.attempts == 1
    [delivery] = await queue.reclaim(the_lane(), count=1)
    assert delivery.attempts == 2


async def test_done_removes_the_entry_and_may_be_said_twice(queue: RedisQueue) -> None:
    await queue.put_all([an_entry(), an_entry(subject=UUID(int=9), lane_class="bulk")])
    deliveries = await drain(queue)
    assert len({delivery.lane for delivery in deliveries}) == 2
    await queue.done_all(deliveries)
    await queue.done(deliveries[0])
    depth = await queue.depth()
    assert (depth.pending, depth.in_flight, depth.oldest_seconds) == (0, 0, 0)


async def test_what_keeps_a_worker_from_storing_is_told_and_goes_by_itself(queue: RedisQueue) -> None:
    assert await queue.trouble() is None
    for text in ("its disk is full", "its disk fails: naïve"):
        await queue.tell_trouble(text)
        assert await queue.trouble() == text
    assert 0 < await queue._client.execute_command("TTL", "mp:q:trouble") <= TROUBLE_S


async def test_depth_tells_waiting_from_in_flight_and_how_old_the_oldest_is(queue: RedisQueue) -> None:
    assert (await queue.depth()).pending == 0
    await queue.put_all([an_entry() for _ in range(5)])
    await queue.take([the_lane()], count=2, block_ms=0)
    await asyncio.sleep(0.02)
    depth = await queue.depth()
    assert (depth.pending, depth.in_flight, depth.dead) == (3, 2, 0)
    assert 0.02 <= depth.oldest_seconds < 60


async def test_a_buried_entry_is_listed_without_content_and_can_be_replayed(queue: RedisQueue) -> None:
    entry = an_entry(envelope=b"secret content")
    await queue.put(entry)
    [delivery] = await queue.take([the_lane()], count=1, block_ms=0)
    await queue.bury(delivery, "cannot be opened")
    await queue.bury(delivery, "cannot be opened")  # a holder that had lost its lane
    [dead] = await queue.dead_letters(10)
    assert (dead.exchange_id, dead.reason, dead.attempts) == (entry.exchange_id, "cannot be opened", 1)
    assert "secret" not in repr(dead)
    depth = await queue.depth()
    assert (depth.pending, depth.in_flight, depth.dead) == (0, 0, 1)
    assert await queue.replay_dead(dead.dead_id)
    assert not await queue.replay_dead(dead.dead_id)
    assert not await queue.replay_dead("nonsense")
    [again] = await drain(queue)
    assert (again.entry, again.attempts) == (entry, 1)
    assert (await queue.depth()).dead == 0


async def test_dead_letters_are_listed_newest_first_over_all_lanes(queue: RedisQueue) -> None:
    entries = [an_entry(subject=uuid4()) for _ in range(6)]
    for entry in entries:
        await queue.put(entry)
        for delivery in await drain(queue):
            await queue.bury(delivery, "x")
        await asyncio.sleep(0.002)
    listed = await queue.dead_letters(4)
    assert [dead.exchange_id for dead in listed] == [entry.exchange_id for entry in reversed(entries)][:4]


async def test_a_look_at_many_dead_letters_stops_the_server_for_a_few_at_a_time(
    queue: RedisQueue, valkey: ValkeyServer
) -> None:
    entries = [an_entry(envelope=bytes(100_000)) for _ in range(100)]
    await queue.put_all(entries)
    for delivery in await queue.take([the_lane()], count=100, block_ms=0):
        await queue.bury(delivery, "x")
    client = connect(valkey.url)
    await client.execute_command("CONFIG", "RESETSTAT")
    listed = await queue.dead_letters(1000)
    asked = (await client.info("commandstats"))["cmdstat_xrevrange"]["calls"]
    await client.aclose()
    assert [dead.exchange_id for dead in listed] == [entry.exchange_id for entry in reversed(entries)]
    assert asked > len(lane_names(LANES))


async def test_an_entry_beyond_the_bound_is_refused_alone(queue: RedisQueue) -> None:
    small, large = an_entry(), an_entry(envelope=bytes(ENTRY_BYTES_MAX + 1))
    with pytest.raises(QueueUnavailable, match=str(ENTRY_BYTES_MAX)):
        await queue.put(large)
    with pytest.raises(QueueUnavailable, match=str(ENTRY_BYTES_MAX)):
        await queue.put_all([small, large])
    assert ids(await drain(queue)) == [small.exchange_id]


async def test_lanes_of_a_larger_configuration_are_still_read(queue: RedisQueue, valkey: ValkeyServer) -> None:
    await queue.prepare()
    subjects = [uuid4() for _ in range(20)]
    await queue.put_all([an_entry(subject=subject) for subject in subjects])
    fewer = RedisQueue(valkey.url, lanes=1)
    try:
        lanes = await fewer.prepare()
        assert len(await fewer.take(lanes, count=100, block_ms=0)) == len(subjects)
        assert (await fewer.depth()).in_flight == len(subjects)
    finally:
        await fewer.close()


async def test_lanes_of_a_larger_configuration_are_read_from_a_server_that_lost_everything(
    queue: RedisQueue, valkey: ValkeyServer
) -> None:
    await queue.prepare()
    fewer, client = RedisQueue(valkey.url, lanes=1), connect(valkey.url)
    try:
        lanes = await fewer.prepare()
        await client.execute_command("FLUSHALL")
        entry = an_entry(subject=UUID(int=5))
        await queue.put(entry)
        assert the_lane(entry.subject_id) in set(lanes) - set(lane_names(1))
        assert ids(await fewer.take(lanes, count=1, block_ms=0)) == [entry.exchange_id]
        assert set(await fewer.prepare()) == set(lanes)
    finally:
        await fewer.close()
        await client.aclose()


async def test_a_server_that_is_gone_is_a_named_fault_and_its_return_is_noticed(
    queue: RedisQueue, valkey: ValkeyServer
) -> None:
    await queue.put(an_entry())
    valkey.kill()
    for attempt in (queue.put(an_entry()), queue.take(["live-00"], count=1, block_ms=10), queue.depth(), queue.ping()):
        with pytest.raises(QueueUnavailable):
            await attempt
    valkey.start()
    await queue.put(an_entry())
    assert len(await drain(queue)) == 2


STEPS: dict[str, Callable[[RedisQueue], Awaitable[object]]] = {
    "put": lambda queue: queue.put(an_entry()),
    "put_all": lambda queue: queue.put_all([an_entry(), an_entry()]),
    "take": lambda queue: queue.take(lane_names(LANES), count=1, block_ms=0),
    "done": lambda queue: queue.done(Delivery(an_entry(), the_lane(), "1-1", 1)),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_a_server_that_was_demoted_is_left_for_the_one_that_has_its_address(
    valkey: ValkeyServer, step: Callable[[RedisQueue], Awaitable[object]]
) -> None:
    """A failover that moves an address cuts no connection: the old primary goes on to answer, and takes nothing."""
    with tempfile.TemporaryDirectory(prefix="vk-", dir="/tmp") as directory:
        other, address = ValkeyServer(Path(directory)), Path(directory) / "address"
        address.symlink_to(valkey.socket_path)
        queue, client = RedisQueue(f"unix://{address}", lanes=LANES), connect(valkey.url)
        try:
            other.start()
            await step(queue)
            await client.execute_command("REPLICAOF", "127.0.0.1", "1")
            address.unlink()
            address.symlink_to(other.socket_path)
            with pytest.raises(QueueUnavailable, match="read only"):
                await step(queue)
            await step(queue)
        finally:
            await queue.close()
            await client.aclose()
            other.stop()


@pytest.mark.parametrize(
    ("setting", "broken", "well"), [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")], ids=["full", "alone"]
)
async def test_a_server_that_answers_and_takes_nothing_is_told_from_one_that_does(
    queue: RedisQueue, valkey: ValkeyServer, setting: str, broken: str, well: str
) -> None:
    await queue.ping_for_writes()
    client = connect(valkey.url)
    await client.config_set(setting, broken)
    await queue.ping()
    with pytest.raises(QueueUnavailable, match="ping for writes"):
        await queue.ping_for_writes()
    await client.config_set(setting, well)
    await queue.ping_for_writes()
    await client.aclose()


async def test_a_server_without_replicas_cannot_promise_replication(valkey: ValkeyServer) -> None:
    queue = RedisQueue(valkey.url, lanes=LANES, durability="replicated", put_timeout_s=0.2)
    try:
        with pytest.raises(QueueUnavailable, match="replicas 0"):
            await queue.put(an_entry())
    finally:
        await queue.close()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "fsync"),
        ({"appendfsync": "everysec"}, "process"),
        ({"appendonly": "no"}, "process"),
        ({"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}, "none"),
    ],
)
async def test_the_server_is_asked_what_it_promises(
    queue: RedisQueue, valkey: ValkeyServer, settings: dict[str, str], expected: str
) -> None:
    client = connect(valkey.url)
    for name, value in settings.items():
        await client.execute_command("CONFIG", "SET", name, value)
    await client.aclose()
    assert await queue.durability() == expected


@pytest.mark.parametrize(
    ("durability", "settings", "said"),
    [
        ("fsync", {}, None),
        ("process", {"appendfsync": "everysec"}, None),
        ("fsync", {"appendfsync": "everysec"}, "queue.durability is fsync: .*appendfsync always"),
        ("fsync", {"appendonly": "no"}, "queue.durability is fsync: .*appendonly yes"),
        ("process", {"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}, "is process: .*maxmemory-policy"),
    ],
)
async def test_a_server_that_gives_less_than_is_promised_is_named(
    valkey: ValkeyServer, durability: Promised, settings: dict[str, str], said: str | None
) -> None:
    client = connect(valkey.url)
    for name, value in settings.items():
        await client.execute_command("CONFIG", "SET", name, value)
    await client.aclose()
    queue = RedisQueue(valkey.url, lanes=LANES, durability=durability)
    try:
        await queue.ping_for_writes()
        with pytest.raises(QueueUnavailable, match=said) if said else nullcontext():
            await queue.ping_as_promised()
    finally:
        await queue.close()


async def test_a_server_that_forbids_config_is_unknown_not_an_error(valkey: ValkeyServer) -> None:
    admin = connect(valkey.url)
    await admin.execute_command("ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-config")
    await admin.aclose()
    queue = RedisQueue(valkey.url.replace("unix://", "unix://app:pw@"), lanes=LANES)
    try:
        assert await queue.durability() == "unknown"
    finally:
        await queue.close()


async def acknowledged_until_death(queue: RedisQueue, acknowledged: list[UUID], started: list[UUID]) -> None:
    """One client that puts until the server dies."""
    while True:
        entry = an_entry(subject=uuid4(), envelope=b"s" * 4096)
        started.append(entry.exchange_id)
        try:
            await queue.put(entry)
        except QueueUnavailable:
            return
        acknowledged.append(entry.exchange_id)


@pytest.mark.slow
@pytest.mark.parametrize("puts", [1, 300, 2000])
async def test_every_acknowledged_entry_is_there_once_after_kill_9(
    queue: RedisQueue, valkey: ValkeyServer, puts: int
) -> None:
    acknowledged: list[UUID] = []
    started: list[UUID] = []
    clients = [asyncio.create_task(acknowledged_until_death(queue, acknowledged, started)) for _ in range(32)]
    while len(acknowledged) < puts:
        await asyncio.sleep(0.001)
    valkey.kill()
    await asyncio.gather(*clients)
    valkey.start()
    found = ids(await drain(queue))
    assert acknowledged
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found) <= set(started)


async def test_what_another_hand_put_into_a_lane_can_be_buried_and_hides_nothing(
    queue: RedisQueue, valkey: ValkeyServer
) -> None:
    client = connect(valkey.url)
    await client.execute_command("XADD", f"mp:q:{{{the_lane()}}}", "*", "surprise", b"\xff")
    await client.aclose()
    entry = an_entry()
    await queue.put(entry)
    foreign, ours = await queue.take([the_lane()], count=10, block_ms=0)
    assert (foreign.entry.exchange_id.int, foreign.entry.envelope, ours.entry) == (0, b"", entry)
    await queue.bury(foreign, "not an envelope")
    [dead] = await queue.dead_letters(10)
    assert (dead.exchange_id.int, dead.reason) == (0, "not an envelope")


@pytest.mark.slow
async def test_what_was_in_flight_at_kill_9_is_reclaimed_after_it(queue: RedisQueue, valkey: ValkeyServer) -> None:
    entries = [an_entry() for _ in range(10)]
    await queue.put_all(entries)
    taken = await queue.take([the_lane()], count=4, block_ms=0)
    await queue.done_all(taken[:2])
    valkey.kill()
    await asyncio.sleep(0.05)
    valkey.start()
    held = await queue.reclaim(the_lane(), count=100)
    fresh = await queue.take([the_lane()], count=100, block_ms=0)
    # XREADGROUP is fsynced like any write, so the two in hand are known as such; nothing is lost, nothing comes twice.
    assert ids(held) + ids(fresh) == [entry.exchange_id for entry in entries[2:]]


@pytest.mark.slow
async def test_a_cluster_keeps_the_same_promises(cluster: Cluster) -> None:
    queue = RedisQueue(cluster.url, lanes=LANES)
    try:
        waiting = asyncio.create_task(queue.take(await queue.prepare(), count=1, block_ms=4000))
        entries = [an_entry(subject=UUID(int=number % 5)) for number in range(40)]
        await queue.put_all(entries[:1])
        [first] = await asyncio.wait_for(waiting, 10)
        await queue.give_back(first)
        await asyncio.gather(*(queue.put(entry) for entry in entries[1:]))
        assert ids(await queue.reclaim(first.lane, count=5)) == [first.entry.exchange_id]
        rest = await drain(queue)
        for subject in range(5):
            found = [each.entry.exchange_id for each in [first, *rest] if each.entry.subject_id.int == subject]
            assert found == [entry.exchange_id for entry in entries if entry.subject_id.int == subject]
        await queue.bury(first, "reason")
        await queue.done_all(rest[:-1])
        depth = await queue.depth()
        assert (depth.pending, depth.in_flight, depth.dead) == (0, 1, 1)
        [dead] = await queue.dead_letters(5)
        assert await queue.replay_dead(dead.dead_id)
        assert (await queue.depth()).pending == 1
        assert await queue.durability() == "fsync"
    finally:
        await queue.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis://h/0?prefix=x",
        "rediss://h/0?ssl=true",
        "redis://h/0?socket_timeout=long",
        "redis://h/0?protocol=9",
        "redis://h/0?protocol=3",
        "redis://h/0?decode_responses=true",
        "unix:///run/v.sock?encoding=utf-16",
        "redis://h/0?socket_timeout=0.5",
        "redis://:hunter2/b@h",
        "redis+cluster://h/1",
        "redis+cluster://h?prefix=x",
        "redis+cluster://h:1,g:port",
    ],
)
def test_an_address_with_an_option_that_there_is_not_is_refused_before_anything_is_asked(url: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"redis.url or redis.cache_url cannot be used") as refused:
        RedisQueue(url, lanes=1, durability="fsync")
    assert "hunter2" not in str(refused.value)


def test_an_address_may_say_what_holds_anyway() -> None:
    RedisQueue("redis://h/0?protocol=2&socket_timeout=30&health_check_interval=10", lanes=1, durability="fsync")
