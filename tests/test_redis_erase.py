"""What erasure does in Redis, against a real Valkey: all of it is found and what goes goes, in few round trips."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from memory.adapters import redis_erase
from memory.adapters.redis_client import connect
from memory.adapters.redis_erase import RedisErase
from memory.adapters.redis_hot import RedisHot
from memory.adapters.redis_queue import RedisQueue
from memory.errors import QueueUnavailable
from memory.model import Scope, SessionRef
from memory.ports import Entry
from memory.read.working import Known
from tests.valkey_fixture import ValkeyServer

TENANT, OTHER = UUID(int=1), UUID(int=2)
ADA, EVE = b"a" * 16, b"e" * 16
SEVERAL_PAGES = 130


@pytest.fixture
async def erase(valkey: ValkeyServer) -> AsyncIterator[RedisErase]:
    erase = RedisErase(valkey.url, valkey.url)
    yield erase
    await erase.close()


@pytest.fixture
async def client(valkey: ValkeyServer) -> AsyncIterator[Any]:
    client = connect(valkey.url)
    yield client
    await client.aclose()


async def names(client: Any) -> set[str]:
    return {raw.decode() async for raw in client.scan_iter(match="mp:h:*")}


async def talk(valkey: ValkeyServer, tenant: UUID, key: bytes, session: SessionRef) -> None:
    """All that Redis holds of a conversation but its ledger."""
    hot = RedisHot(valkey.url, timeout_ms=2000, keep_timeout_ms=2000)
    answers = [session.session_id.bytes + at.to_bytes(16, "big") for at in range(2)]
    await hot.keep(Scope(tenant), key, answers, answers[0], True, session, {})
    await hot.keep_working(Scope(tenant), key, session.session_id, Known(1, 1), b"about", 60)
    await hot.close()


async def test_a_process_that_lives_is_known_of_whatever_the_server_of_caches_evicts(valkey: ValkeyServer) -> None:
    """One that evicts what ends first (volatile-ttl) had lost one of four in 149 of 180 looks."""
    erase = RedisErase(valkey.url, "redis://127.0.0.1:1")
    try:
        await erase.say_alive("one")
        await erase.say_alive("other")
        await erase.say_gone("other")
        assert await erase.living() == {"one"}
    finally:
        await erase.close()


async def test_a_process_that_hears_no_pong_listens_anew(
    erase: RedisErase, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it says that it lives, and confirms nothing: each erasure waits for it, and it keeps what is erased."""
    monkeypatch.setattr(redis_erase, "_SILENCE_S", 0.2)
    heard: list[str] = []

    async def listen() -> None:
        async for raw in erase.listen(lambda: heard.append("ready")):
            assert raw is None
            heard.append("alive")

    listening = asyncio.create_task(listen())
    await asyncio.sleep(1.0)
    assert not listening.done() and heard[0] == "ready" and heard.count("alive") > 1
    valkey.freeze()
    try:
        with pytest.raises(QueueUnavailable):
            await asyncio.wait_for(listening, 5)
    finally:
        valkey.thaw()


async def test_a_scope_goes_whole_and_of_another_the_named_conversations(
    erase: RedisErase, client: Any, valkey: ValkeyServer
) -> None:
    gone, stays = SessionRef(uuid4(), "gone"), SessionRef(uuid4(), "stays")
    for key, session in ((ADA, gone), (ADA, stays), (EVE, gone), (EVE, stays)):
        await talk(valkey, TENANT, key, session)
    await talk(valkey, OTHER, ADA, gone)
    before = await names(client)
    one = len({name for name in before if f"{OTHER.hex}" in name})
    assert one == 3 and len(before) == 5 * one
    assert await erase.drop_hot(TENANT, {ADA: None, EVE: [gone.session_id]}) == 3 * one
    left = await names(client)
    assert {name.partition("}")[0] for name in left} == {
        f"mp:h:{{{TENANT.hex}:{EVE.hex()}",
        f"mp:h:{{{OTHER.hex}:{ADA.hex()}",
    }
    assert len(left) == 2 * one
    values = [await client.get(name) for name in left if TENANT.hex in name and ":w:" not in name]
    assert all(stays.session_id.bytes in value for value in values) and len(values) == one - 1


async def test_what_conversations_were_given_goes_in_every_scope_of_the_tenant(erase: RedisErase, client: Any) -> None:
    kept = f"mp:h:{{{OTHER.hex}:{ADA.hex()}}}:l:{uuid4().hex}:00"
    announced = f"mp:h:{{{TENANT.hex}}}:v:7"
    for number in range(3 * SEVERAL_PAGES):
        await client.set(f"mp:h:{{{TENANT.hex}:{EVE.hex()}}}:l:{uuid4().hex}:{number:02x}", b"sealed")
    for name in (kept, announced):
        await client.set(name, b"1")
    assert await erase.drop_hot(TENANT, {}) == 3 * SEVERAL_PAGES
    assert await names(client) == {kept, announced}


async def test_entries_go_from_every_page_of_every_lane(erase: RedisErase, valkey: ValkeyServer, client: Any) -> None:
    queue = RedisQueue(valkey.url)
    theirs, others = uuid4(), uuid4()
    for number in range(SEVERAL_PAGES):
        for tenant, subject, lane_class in (
            (TENANT, theirs, "live"),
            (TENANT, others, "bulk"),
            (OTHER, theirs, "live"),
        ):
            await queue.put(Entry(uuid4(), tenant, subject, "exchange", lane_class, f"{number}".encode()))
    await queue.close()

    async def is_even(entry: Entry, is_dead: bool) -> bool:
        return int(entry.envelope) % 2 == 0

    assert await erase.purge(TENANT, [theirs], is_even) == SEVERAL_PAGES // 2
    assert await erase.purge(TENANT, None, is_even) == SEVERAL_PAGES // 2
    assert await erase.purge(TENANT, None, is_even) == 0
    held = [values async for name, values in erase.everything() if name.startswith("mp:q:{")]
    envelopes = [value for values in held for value in values if value.isdigit()]
    assert len(envelopes) == 2 * SEVERAL_PAGES


async def test_every_key_is_shown_with_all_it_holds(erase: RedisErase, client: Any) -> None:
    for number in range(3 * SEVERAL_PAGES):
        await client.set(f"one:{number}", f"value {number}")
        await client.xadd("stream", {"field": f"entry {number}"})
        await client.rpush("list", f"item {number}")
        await client.zadd("zset", {f"scored {number}": number})
        await client.hset("hash", f"name {number}", f"member {number}")
        await client.sadd("set", f"element {number}")
    found = {value async for _, values in erase.everything() for value in values}
    for kind in ("value", "entry", "item", "scored", "name", "member", "element"):
        assert {f"{kind} {number}".encode() for number in range(3 * SEVERAL_PAGES)} <= found, kind
    assert {b"one:7", b"stream", b"hash"} <= found


async def test_the_log_is_written_anew_though_it_is_being_written_anew_already(erase: RedisErase, client: Any) -> None:
    await client.mset({f"k{number}": b"v" for number in range(2_000)})
    await client.config_set("rdb-key-save-delay", 1_000)  # microseconds a key: two seconds
    await client.execute_command("BGREWRITEAOF")
    while not (await client.info("persistence"))["aof_rewrite_in_progress"]:
        await asyncio.sleep(0.01)
    begun = (await client.info("stats"))["total_forks"]
    await client.delete(*(f"k{number}" for number in range(1_999)))  # the log that is being written still holds these
    assert await erase.rewrite_log(30)
    assert (await client.info("stats"))["total_forks"] == begun + 1
    assert not (await client.info("persistence"))["aof_rewrite_in_progress"]


async def test_a_log_that_is_being_written_for_too_long_is_not_said_to_be_written_anew(
    erase: RedisErase, client: Any
) -> None:
    await client.mset({f"k{number}": b"v" for number in range(2_000)})
    await client.config_set("rdb-key-save-delay", 10_000)
    await client.execute_command("BGREWRITEAOF")
    while not (await client.info("persistence"))["aof_rewrite_in_progress"]:
        await asyncio.sleep(0.01)
    assert not await erase.rewrite_log(0.5)
