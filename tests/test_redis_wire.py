"""One connection for many: nobody gets another's reply, whoever leaves, and a server that is silent holds nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError as LinkLost
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as LinkLate

from memory.adapters import redis_wire
from memory.adapters.redis_client import Pooled, asking, connect
from memory.adapters.redis_wire import Wire, can_serve
from tests.valkey_fixture import ValkeyServer


@pytest.fixture
async def wire(valkey: ValkeyServer) -> AsyncIterator[Wire]:
    wire = Wire(valkey.url)
    yield wire
    await wire.close()


async def test_each_of_many_gets_its_own_replies_in_their_order(wire: Wire) -> None:
    async def one(number: int) -> bool:
        said = [b"%d-%d" % (number, at) for at in range(number % 5 + 1)]
        return await wire.ask([("ECHO", word) for word in said], 5.0) == said

    assert all(await asyncio.gather(*(one(number) for number in range(500))))


async def test_who_leaves_takes_nobody_s_place(wire: Wire) -> None:
    await wire.ask([("PING",)], 5.0)
    tasks = [asyncio.create_task(wire.ask([("ECHO", str(number))], 5.0)) for number in range(100)]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    said = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(said[at] == [str(at).encode()] for at in range(100) if at % 3)
    assert all(isinstance(said[at], asyncio.CancelledError) for at in range(0, 100, 3))


async def test_an_error_is_raised_or_stands_in_its_place_and_spoils_nothing(wire: Wire) -> None:
    commands = [("SET", "text", "x"), ("INCR", "text"), ("ECHO", "after")]
    with pytest.raises(ResponseError):
        await wire.ask(commands, 5.0)
    done, failed, after = await wire.ask(commands, 5.0, raises=False)
    assert (done, after, type(failed)) == (b"OK", b"after", ResponseError)


async def test_what_goes_together_stays_together_among_many(wire: Wire) -> None:
    async def add(number: int) -> list[object]:
        steps = [("MULTI",), ("RPUSH", "list", number), ("RPUSH", "list", number), ("EXEC",)]
        return list((await wire.ask(steps, 5.0))[-1])

    lengths = await asyncio.gather(*(add(number) for number in range(50)))
    assert sorted(lengths) == [[2 * at + 1, 2 * at + 2] for at in range(50)]
    [listed] = await wire.ask([("LRANGE", "list", 0, -1)], 5.0)
    assert listed[::2] == listed[1::2]


async def test_a_server_that_hangs_is_left_in_time_and_its_late_replies_reach_nobody_else(
    wire: Wire, valkey: ValkeyServer
) -> None:
    await wire.ask([("PING",)], 5.0)
    valkey.freeze()
    try:
        with pytest.raises(LinkLate):
            await wire.ask([("ECHO", "late")], 0.05)
    finally:
        valkey.thaw()
    assert await wire.ask([("ECHO", "next")], 5.0) == [b"next"]


async def test_a_connection_that_stays_silent_is_dropped_with_all_who_wait(
    wire: Wire, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_wire, "SILENCE_S", 0.2)
    await wire.ask([("PING",)], 5.0)
    valkey.freeze()
    try:
        patient = asyncio.create_task(wire.ask([("ECHO", "patient")], 60.0))
        with pytest.raises(LinkLate):
            await wire.ask([("ECHO", "hurried")], 0.3)
        with pytest.raises(LinkLost):
            await patient
    finally:
        valkey.thaw()
    assert await wire.ask([("ECHO", "anew")], 5.0) == [b"anew"]


async def test_a_server_that_is_gone_is_said_at_once_and_found_again_when_it_is_back(
    wire: Wire, valkey: ValkeyServer
) -> None:
    await wire.ask([("PING",)], 5.0)
    valkey.kill()
    for _ in range(2):
        with pytest.raises((RedisError, OSError)):
            await wire.ask([("PING",)], 5.0)
    valkey.start()
    assert await wire.ask([("PING",)], 5.0) == [b"PONG"]


async def test_a_loop_that_was_late_takes_the_reply_that_had_come_in_time(wire: Wire) -> None:
    await wire.ask([("PING",)], 5.0)
    asked = asyncio.create_task(wire.ask([("ECHO", "here")], 0.05))
    await asyncio.sleep(0)  # it is sent
    time.sleep(0.3)
    assert await asked == [b"here"]


@asynccontextmanager
async def scripted(path: Path, *said: bytes) -> AsyncIterator[str]:
    """A server that says one of these to each connection, whatever it is asked, and hangs up."""
    left = list(said)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(left.pop(0))
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, path / "s.sock")
    try:
        yield f"unix://{path / 's.sock'}"
    finally:
        server.close()


@pytest.mark.parametrize(
    "said", [b"", b"$5\r\nhal", b"+OK\r\n$5\r\nhal", b"what?\r\n", b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n"]
)
async def test_a_reply_that_breaks_off_or_is_none_fails_all_who_wait_and_no_later_one(
    tmp_path: Path, said: bytes
) -> None:
    async with scripted(tmp_path, said, b"+A\r\n+B\r\n") as url:
        wire = Wire(url)
        pair = [("A",), ("B",)]
        first = await asyncio.gather(
            wire.ask(pair, 5.0), wire.ask([("C",), ("D",), ("E",)], 5.0), return_exceptions=True
        )
        assert isinstance(first[1], RedisError)
        assert await wire.ask(pair, 5.0) == [b"A", b"B"]
        await wire.close()


async def test_a_password_and_a_database_are_said_first(valkey: ValkeyServer) -> None:
    plain = Wire(valkey.url)
    await plain.ask([("CONFIG", "SET", "requirepass", "a b/c")], 5.0)
    try:
        wire = Wire(f"unix://:a%20b%2Fc@{valkey.socket_path}?db=3")
        await wire.ask([("SET", "here", "yes")], 5.0)
        assert await plain.ask([("SELECT", 3), ("GET", "here"), ("SELECT", 0)], 5.0) == [b"OK", b"yes", b"OK"]
        refused = Wire(f"unix://:wrong@{valkey.socket_path}")
        with pytest.raises(RedisError):
            await refused.ask([("PING",)], 5.0)
        for one in (wire, refused):
            await one.close()
    finally:
        await plain.ask([("CONFIG", "SET", "requirepass", "")], 5.0)
        await plain.close()


async def test_too_many_who_wait_are_refused(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_wire, "WAITING_MAX", 3)
    await wire.ask([("PING",)], 5.0)
    said = await asyncio.gather(*(wire.ask([("PING",)], 5.0) for _ in range(5)), return_exceptions=True)
    assert [one == [b"PONG"] for one in said] == [True, True, True, False, False]


async def test_a_wire_that_was_closed_opens_no_more(wire: Wire) -> None:
    await wire.close()
    with pytest.raises(LinkLost):
        await wire.ask([("PING",)], 5.0)


async def test_tls_and_clusters_keep_the_client_s_pool_and_its_replies_are_the_same(valkey: ValkeyServer) -> None:
    assert not can_serve("rediss://somewhere:6379")
    client = connect(valkey.url)
    pooled = asking(valkey.url, client, cluster=True)
    assert isinstance(pooled, Pooled)
    assert await pooled.ask([("INCR", "one"), ("ECHO", "a")], 5.0) == [1, b"a"]
    with pytest.raises(ResponseError):
        await pooled.ask([("LLEN", "one")], 5.0)
    [failed] = await pooled.ask([("LLEN", "one")], 5.0, raises=False)
    assert isinstance(failed, ResponseError)
    await client.aclose()
