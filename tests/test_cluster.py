"""What the adapters keep on a real cluster: where things lie on several nodes, move, and their nodes die."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography import x509

from memory.adapters.redis_client import connect
from memory.adapters.redis_cluster import Cluster as ClusterClient
from memory.adapters.redis_ended import RedisEnded
from memory.adapters.redis_erase import RedisErase
from memory.adapters.redis_hot import RedisHot
from memory.adapters.redis_owner import owner_of
from memory.adapters.redis_queue import Promised, RedisQueue, lane_of
from memory.chain import Digest
from memory.errors import QueueUnavailable, StartFailed
from memory.key_table import Secret
from memory.model import Scope
from memory.ports import Entry
from memory.read.conversation import Asked
from tests.certificate import self_signed
from tests.cluster_fixture import Cluster, Node, added_to, running_cluster
from tests.valkey_fixture import ValkeyServer, free_port

LANES = 4
SCOPE = Scope(UUID(int=7), "ada", "boat", "default")
KEY = b"k" * 16
ANSWER_S = 50  # who listens to a node that stands still asks it for 30 s


def an_entry() -> Entry:
    return Entry(uuid4(), uuid4(), uuid4(), "exchange", "live", b"sealed")


def lane_key(entry: Entry) -> str:
    return f"mp:q:{{{lane_of(entry.tenant_id, entry.subject_id, 'live', lanes=LANES)}}}"


@asynccontextmanager
async def queue_of(cluster: Cluster, durability: Promised = "fsync") -> AsyncIterator[RedisQueue]:
    queue = RedisQueue(cluster.url, lanes=LANES, durability=durability, put_timeout_s=2)
    try:
        yield queue
    finally:
        await queue.close()


@asynccontextmanager
async def hot_of(cluster: Cluster) -> AsyncIterator[RedisHot]:
    hot = RedisHot(cluster.url, timeout_ms=5000, keep_timeout_ms=5000)
    try:
        yield hot
    finally:
        await hot.close()


async def taken(queue: RedisQueue) -> list[UUID]:
    """Everything that waits, each finished."""
    lanes, found = await queue.prepare(), []
    while deliveries := await queue.take(lanes, count=100, block_ms=0):
        await queue.done_all(deliveries)
        found += [each.entry.exchange_id for each in deliveries]
    return found


async def until_done(once: Callable[[], Awaitable[object]]) -> None:
    """Again and again, until it is done without a fault."""
    async with asyncio.timeout(ANSWER_S):
        while True:
            with suppress(QueueUnavailable):
                await once()
                return
            await asyncio.sleep(0.05)


async def listen(hot: RedisHot, heard: list[UUID]) -> None:
    """Note whose versions are announced, from one connection to the next."""
    while True:
        with suppress(QueueUnavailable):
            async for said in hot.announcements():
                heard += [said.tenant]
        await asyncio.sleep(0.05)


async def announced(hot: RedisHot, enough: Callable[[], bool]) -> None:
    """Announce one version after another until it is enough."""
    version = time.monotonic_ns()
    async with asyncio.timeout(ANSWER_S):
        while not enough():
            version += 1
            with suppress(QueueUnavailable):
                await hot.announce(SCOPE.tenant, 1, version)
            await asyncio.sleep(0.05)


@asynccontextmanager
async def tls_end(tls: ssl.SSLContext, port: int, behind: int) -> AsyncIterator[None]:
    """What speaks TLS on one port and passes it on to another; when it ends, so do its connections."""
    open_: set[asyncio.StreamWriter] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            while said := await reader.read(65_536):
                writer.write(said)
                await writer.drain()
        writer.close()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", behind)
        open_.update((writer, forth))
        await asyncio.gather(pass_on(reader, forth), pass_on(back, writer))

    server = await asyncio.start_server(accepted, "127.0.0.1", port, ssl=tls)
    yield
    server.close()
    for writer in open_:
        writer.close()


def another(cluster: Cluster, than: Node) -> Node:
    return next(node for node in cluster.nodes if node.is_primary and node is not than)


async def test_the_lanes_of_a_queue_lie_on_several_nodes_and_all_are_taken(cluster: Cluster) -> None:
    entries = [an_entry() for _ in range(40)]
    assert len({cluster.primary_of(lane_key(entry)) for entry in entries}) > 1
    async with queue_of(cluster) as queue:
        await queue.prepare()
        await queue.ping_as_promised()
        await asyncio.gather(*(queue.put(entry) for entry in entries))
        assert sorted(await taken(queue)) == sorted(entry.exchange_id for entry in entries)
        assert (await queue.depth()).pending == 0


async def test_a_primary_that_takes_no_entries_is_told(cluster: Cluster) -> None:
    """Whichever it is: the others take theirs."""
    async with queue_of(cluster) as queue:
        for node in {cluster.primary_of(f"mp:q:{{{lane}}}") for lane in await queue.prepare()}:
            node.ask("CONFIG", "SET", "maxmemory", "1")
            try:
                with pytest.raises(QueueUnavailable, match="maxmemory"):
                    await queue.ping_for_writes()
            finally:
                node.ask("CONFIG", "SET", "maxmemory", "0")
        await queue.ping_for_writes()


async def test_the_weakest_primary_is_what_a_cluster_promises(cluster: Cluster) -> None:
    async with queue_of(cluster) as queue:
        assert await queue.durability() == "fsync"
        cluster.nodes[2].ask("CONFIG", "SET", "appendfsync", "everysec")
        try:
            assert await queue.durability() == "process"
        finally:
            cluster.nodes[2].ask("CONFIG", "SET", "appendfsync", "always")


async def test_a_ledger_is_found_by_a_session_that_the_client_names(cluster: Cluster) -> None:
    """Nothing else is asked for then: every node but one refuses a script that is told of no key."""
    mark = Digest(b"m" * 32)
    async with hot_of(cluster) as hot:
        for session in (uuid4(), uuid4(), uuid4(), uuid4()):
            scope = Scope(uuid4(), "ada", "boat", "default")
            await hot.note(scope, KEY, session, {mark: b"sealed"}, [])
            found = await hot.find(scope, KEY, Asked(session_id=session, marks=[mark]))
            assert found.ledger == {mark: b"sealed"}


async def test_who_listens_first_of_all_hears(cluster: Cluster) -> None:
    """Before anything else has asked where things lie."""
    async with hot_of(cluster) as listener, hot_of(cluster) as teller:
        heard: list[UUID] = []
        listening = asyncio.create_task(listen(listener, heard))
        await announced(teller, lambda: bool(heard) or listening.done())
        listening.cancel()
        await asyncio.wait([listening])
        assert heard[0] == SCOPE.tenant


async def test_many_at_once_are_answered(cluster: Cluster) -> None:
    """More than one server's connections: nobody is refused for that."""
    async with hot_of(cluster) as hot:
        await asyncio.gather(*(hot.find(SCOPE, KEY, Asked([Digest(b"a" * 32)])) for _ in range(200)))


async def test_what_erasure_must_reach_is_reached_on_every_node(cluster: Cluster) -> None:
    tenant, mark = uuid4(), Digest(b"m" * 32)
    keys = [bytes([number]) * 16 for number in range(12)]
    entries = [an_entry() for _ in range(12)]
    erase = RedisErase(cluster.url, cluster.url, lanes=LANES)

    async def all_of_them(entry: Entry, is_dead: bool) -> bool:
        return True

    try:
        async with hot_of(cluster) as hot, queue_of(cluster) as queue:
            for key in keys:
                await hot.note(Scope(tenant, "ada", "boat", "x"), key, uuid4(), {mark: b"sealed"}, [])
            await queue.prepare()
            await queue.put_all(entries)
            seen = [name async for name, _ in erase.everything()]
            assert {f"mp:h:{{{tenant.hex}:{key.hex()}}}" for key in keys} <= {name.partition(":l:")[0] for name in seen}
            assert await erase.drop_hot(tenant, {}) == len(keys)
            gone = [await erase.purge(entry.tenant_id, None, all_of_them) for entry in entries]
            assert gone == [1] * len(entries)
            assert (await queue.depth()).pending == 0
            assert await erase.rewrite_log(ANSWER_S)
    finally:
        await erase.close()


async def test_processes_are_counted_wherever_their_keys_lie(cluster: Cluster) -> None:
    erase = RedisErase(cluster.url, cluster.url, lanes=LANES)
    names = {f"process-{number}" for number in range(12)}
    for name in names:
        await erase.say_alive(name)
    assert await erase.living() == names
    await erase.close()


async def test_a_cluster_has_an_owner_too(cluster: Cluster) -> None:
    mine, other = uuid4(), uuid4()
    assert [await owner_of(cluster.url, store) for store in (mine, other)] == [str(mine)] * 2


async def test_a_cluster_that_is_addressed_as_one_server_is_not_waited_for(cluster: Cluster) -> None:
    """Nor the other way round: it would never be ready, and said no more than that a key has moved."""
    for node in cluster.nodes:
        with pytest.raises(StartFailed, match=r"remedy: redis\+cluster://HOST:PORT"):
            await owner_of(f"redis://127.0.0.1:{node.port}", uuid4())
    directory = Path(tempfile.mkdtemp(prefix="vk-", dir="/tmp"))
    alone = ValkeyServer(directory, port=free_port())
    alone.start()
    try:
        with pytest.raises(StartFailed, match="remedy: redis://"):
            await owner_of(f"redis+cluster://127.0.0.1:{alone.port}", uuid4())
        assert await owner_of(f"redis://127.0.0.1:{alone.port}", mine := uuid4()) == str(mine)
    finally:
        alone.stop()
        shutil.rmtree(directory)
    with pytest.raises(QueueUnavailable):
        await owner_of(f"redis+cluster://127.0.0.1:{alone.port}", uuid4())


async def test_a_node_that_is_away_is_passed_over_where_others_are_named(cluster: Cluster) -> None:
    queue = RedisQueue(f"redis+cluster://127.0.0.1:1,127.0.0.1:{cluster.nodes[1].port}", lanes=LANES)
    await queue.prepare()
    await queue.close()


async def test_a_cluster_over_tls_whose_certificate_is_renewed(cluster: Cluster, tmp_path: Path) -> None:
    """Every node says that it is found behind an end of TLS; files are read for each connection."""
    here = x509.IPAddress(ip_address("127.0.0.1"))
    ports = [free_port() for _ in cluster.nodes]
    for node, port in zip(cluster.nodes, ports, strict=True):
        node.ask("CONFIG", "SET", "cluster-announce-port", port)
    cluster.until(lambda: all(sorted(ports) == sorted(node.ports()) for node in cluster.nodes))
    try:
        queue: RedisQueue | None = None
        for _ in range(2):  # under the same name each time
            tls, file = self_signed(tmp_path, here)
            async with AsyncExitStack() as closing:
                for node, port in zip(cluster.nodes, ports, strict=True):
                    await closing.enter_async_context(tls_end(tls, port, node.port))
                queue = queue or RedisQueue(f"rediss+cluster://127.0.0.1:{ports[0]}?ssl_ca_certs={file}", lanes=LANES)
                await until_done(queue.depth)
                await queue.prepare()
        assert queue is not None
        await queue.close()
    finally:
        for node in cluster.nodes:
            node.ask("CONFIG", "SET", "cluster-announce-port", 0)
        cluster.until(lambda: all(node.port in each.ports() for node in cluster.nodes for each in cluster.nodes))


async def test_who_gives_up_waiting_breaks_nothing_for_the_others(cluster: Cluster) -> None:
    """All wait for the one question where things lie."""
    client = connect(cluster.url)
    first = asyncio.create_task(client.execute_command("PING"))
    second = asyncio.create_task(client.execute_command("SET", "a", "b"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second
    await client.aclose()


async def test_who_is_late_has_no_connection_made_anew(cluster: Cluster) -> None:
    """On a busy machine some always are, and would make it busier; nothing has moved."""
    client = connect(cluster.url)
    assert isinstance(client, ClusterClient)
    nodes = await client.primaries()
    before = [await client.execute_command("CLIENT", "ID", target_nodes=node) for node in nodes]
    pipe: Any = client.pipeline()
    late = asyncio.create_task(pipe.execute_command("GET", "a").execute())
    await asyncio.sleep(0)
    late.cancel()
    await client.look_again()
    assert [await client.execute_command("CLIENT", "ID", target_nodes=node) for node in nodes] == before
    await client.aclose()


async def test_what_is_on_its_way_is_found_where_it_goes(cluster: Cluster) -> None:
    """As often as it is asked for, and by several at once: the word that opens the door is said on each connection."""
    async with hot_of(cluster) as hot:
        key = f"mp:h:{{{SCOPE.tenant.hex}:{KEY.hex()}}}:x"
        before = cluster.primary_of(key)
        await asyncio.gather(*(hot.working(SCOPE, KEY, uuid4()) for _ in range(6)))
        end = cluster.move_slot(key, another(cluster, before), leave=True)
        try:
            for at_once in (1, 2, 6):
                await asyncio.gather(*(hot.working(SCOPE, KEY, uuid4()) for _ in range(at_once)))
        finally:
            end()
            cluster.move_slot(key, before)


async def test_trouble_and_keys_that_ended_are_told_of_wherever_their_slot_is(cluster: Cluster) -> None:
    secret = Secret(uuid4(), "aaaa")
    known = frozenset({secret})
    ended = RedisEnded(cluster.url, timeout_s=5)
    async with queue_of(cluster) as queue, AsyncExitStack() as back:
        back.push_async_callback(ended.close)
        await queue.tell_trouble("its disk is full")
        await ended.tell({secret: datetime.now(UTC)}, datetime.now(UTC))
        for key in ("mp:q:trouble", "mp:k:ended"):
            before = cluster.primary_of(key)
            end = cluster.move_slot(key, another(cluster, before), leave=True)
            back.callback(cluster.move_slot, key, before)
            assert (await queue.trouble(), await ended.known()) == ("its disk is full", known)
            end()
            assert (await queue.trouble(), await ended.known()) == ("its disk is full", known)


@pytest.mark.long
async def test_a_node_that_is_new_is_asked_for_the_first_slot_on_its_way_to_it() -> None:
    """Nobody has told of it: it has none yet."""
    with running_cluster(replicas=False) as cluster, added_to(cluster) as new:
        async with hot_of(cluster) as hot:
            await hot.working(SCOPE, KEY, uuid4())
            end = cluster.move_slot(f"mp:h:{{{SCOPE.tenant.hex}:{KEY.hex()}}}:x", new, leave=True)
            await hot.working(SCOPE, KEY, uuid4())
            end()
            await hot.working(SCOPE, KEY, uuid4())


async def test_a_lane_that_moves_loses_nothing(cluster: Cluster) -> None:
    """Halfway an entry is refused (the spool takes it) or stored; behind that the client knows the way."""
    entries = [an_entry() for _ in range(200)]
    key = lane_key(entries[0])
    before = cluster.primary_of(key)
    acknowledged: list[UUID] = []
    found: set[UUID] = set()
    moving = asyncio.Event()

    async def put_all(queue: RedisQueue) -> None:
        for number, entry in enumerate(entries):
            if number == 20:
                moving.set()
            with suppress(QueueUnavailable):
                await queue.put(entry)
                acknowledged.append(entry.exchange_id)

    async def take_all(queue: RedisQueue) -> None:
        lanes = await queue.prepare()
        while True:
            with suppress(QueueUnavailable):
                deliveries = await queue.take(lanes, count=10, block_ms=50)
                found.update(each.entry.exchange_id for each in deliveries)
                await queue.done_all(deliveries)

    async with queue_of(cluster) as writer, queue_of(cluster) as reader:
        await writer.prepare()
        taking = asyncio.create_task(take_all(reader))
        putting = asyncio.create_task(put_all(writer))
        await moving.wait()
        behind = await asyncio.to_thread(another, cluster, before)
        end = await asyncio.to_thread(lambda: cluster.move_slot(key, behind, leave=True))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(end)
        await putting
        await until_done(lambda: writer.put(entries[0]))
        taking.cancel()
        await asyncio.wait([taking])
        lanes = await reader.prepare()
        for lane in lanes:
            found.update(each.entry.exchange_id for each in await reader.reclaim(lane, count=1000))
        found.update(await taken(reader))
        cluster.move_slot(key, before)
    assert set(acknowledged) <= found


@pytest.mark.long
@pytest.mark.parametrize("how", ["killed", "standing still"])
async def test_a_primary_that_is_gone_is_followed_by_its_replica(replicated_cluster: Cluster, how: str) -> None:
    """Each way of asking finds the new primary by itself, though nothing else is asked over its client."""
    cluster, entry = replicated_cluster, an_entry()
    async with (
        queue_of(cluster) as queue,
        queue_of(cluster) as counter,
        hot_of(cluster) as hot,
        hot_of(cluster) as listener,
    ):
        await queue.prepare()
        await counter.depth()
        heard: list[UUID] = []
        listening = asyncio.create_task(listen(listener, heard))
        await announced(hot, lambda: bool(heard))
        gone = cluster.primary_of(lane_key(entry))
        gone.kill() if how == "killed" else gone.freeze()
        await until_done(lambda: queue.put(an_entry()))
        await until_done(lambda: queue.put(entry))
        await until_done(counter.depth)
        heard.clear()
        await announced(hot, lambda: bool(heard))
        listening.cancel()
        await asyncio.wait([listening])
        assert entry.exchange_id in await taken(queue)


@pytest.mark.long
async def test_what_no_replica_has_is_not_acknowledged_where_that_is_promised(replicated_cluster: Cluster) -> None:
    """Its primary has it and may die: the replica in its place would know nothing of it."""
    cluster = replicated_cluster
    entries = [an_entry() for _ in range(40)]
    async with queue_of(cluster, "replicated") as queue:
        await queue.prepare()
        await queue.ping_as_promised()
        await asyncio.gather(*(queue.put(entry) for entry in entries))
        lonely = cluster.primary_of(lane_key(entries[0]))
        replica = next(node for node in cluster.nodes if node.follows(lonely))
        replica.freeze()
        try:
            said = await asyncio.gather(*(queue.put(entry) for entry in entries), return_exceptions=True)
            with pytest.raises(QueueUnavailable, match="on replicas 0"):
                await queue.ping_for_writes()
        finally:
            replica.thaw()
        alone = [cluster.primary_of(lane_key(entry)) is lonely for entry in entries]
        assert [isinstance(one, QueueUnavailable) for one in said] == alone
        await until_done(queue.ping_for_writes)


async def test_tokens_of_a_day_are_summed(cluster: Cluster) -> None:
    async with hot_of(cluster) as hot:
        day = datetime.now(UTC).date()
        assert [await hot.spend(SCOPE.tenant, day, 3) for _ in range(2)] == [3, 6]


async def test_a_shard_that_is_gone_for_good_holds_up_the_queue_until_its_slots_are_given_to_another() -> None:
    """As `valkey-cli --cluster fix` gives them; what the shard held is lost with it, what comes then is not."""
    with running_cluster(replicas=False) as cluster:
        entries = [an_entry() for _ in range(40)]
        async with queue_of(cluster) as queue:
            lanes = await queue.prepare()
            gone = cluster.primary_of(f"mp:q:{{{lanes[0]}}}")
            [slots] = [
                (first, last) for first, last, (_, port, *_), *_ in gone.ask("CLUSTER SLOTS") if port == gone.port
            ]
            left, name = [node for node in cluster.nodes if node is not gone], gone.name
            gone.kill()
            with pytest.raises(QueueUnavailable):
                await queue.ping_for_writes()
            for node in left:
                node.ask("CLUSTER DELSLOTSRANGE", *slots)
            left[0].ask("CLUSTER ADDSLOTSRANGE", *slots)
            left[0].ask("CLUSTER BUMPEPOCH")
            for node in left:
                node.ask("CLUSTER FORGET", name)
            await until_done(queue.ping_for_writes)
            await asyncio.gather(*(queue.put(entry) for entry in entries))
            assert sorted(await taken(queue)) == sorted(entry.exchange_id for entry in entries)
