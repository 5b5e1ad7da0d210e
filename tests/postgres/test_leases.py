"""Lanes: one holder each, shared fairly, and fenced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.leadership import Leadership
from memory.adapters.postgres.leases import Leases, hold_fence
from memory.errors import LeaseLost
from memory.wiring import holder_name
from tests.postgres_fixture import TestDatabase

LANES = [f"live-{number}" for number in range(16)]


@pytest.fixture
async def database(postgres: TestDatabase) -> AsyncIterator[Database]:
    database = await Database.open(postgres.app)
    yield database
    await database.close()


async def test_a_lone_worker_gets_every_lane_and_keeps_its_fences(database: Database) -> None:
    leases = Leases(database)
    first = await leases.acquire("a", LANES, 30)
    assert set(first) == set(LANES)
    assert await leases.acquire("a", LANES, 30) == first
    assert await leases.renew("a", 30) == first


async def test_several_workers_share_fairly(database: Database) -> None:
    leases = Leases(database)
    for _ in range(3):
        held = [set(await leases.acquire(name, LANES, 30)) for name in "abc"]
    assert sum(map(len, held)) == len(LANES) == len(set().union(*held))
    assert max(map(len, held)) <= 6
    await leases.release("b")
    held = [set(await leases.acquire(name, LANES, 30)) for name in "ac"]
    assert [len(lanes) for lanes in held] == [8, 8]


async def test_workers_of_containers_that_are_called_alike_share_no_lane(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.wiring.socket.gethostname", lambda: "memory")
    monkeypatch.setattr("memory.wiring.os.getpid", lambda: 7)
    leases, names = Leases(database), [holder_name() for _ in range(2)]  # begun in the same second
    for _ in range(2):
        one, other = [set(await leases.acquire(name, LANES, 30)) for name in names]
    assert one and other and not one & other


async def test_workers_that_ask_at_once_never_hold_the_same_lane(database: Database) -> None:
    leases = Leases(database)
    names = [f"w{number}" for number in range(6)]
    for _ in range(4):
        held = await asyncio.gather(*(leases.acquire(name, LANES, 30) for name in names))
    lanes = [lane for one in held for lane in one]
    assert len(lanes) == len(set(lanes)) == len(LANES)


async def test_an_expired_lease_is_taken_over_with_a_higher_fence(database: Database) -> None:
    leases = Leases(database)
    before = await leases.acquire("a", LANES, 0.05)
    await asyncio.sleep(0.1)
    after = await leases.acquire("b", LANES, 30)
    assert set(after) == set(before)
    assert all(after[lane] > before[lane] for lane in LANES)
    assert await leases.renew("a", 30) == {}


async def test_a_beat_that_finds_its_share_locks_and_writes_no_lane(database: Database, postgres: TestDatabase) -> None:
    """64 rows each three seconds, of each worker, were most of what an idle service wrote."""
    leases = Leases(database)
    for _ in range(2):
        held = {name: await leases.acquire(name, LANES, 30) for name in "abc"}
    rows = "SELECT lane, xmin, xmax, ctid FROM lane_leases ORDER BY lane"
    before = postgres.psql(rows)
    for name, lanes in held.items():
        assert await leases.acquire(name, LANES, 30) == lanes
    assert postgres.psql(rows) == before


async def test_lanes_whose_own_end_has_come_are_their_workers_while_it_beats_and_no_longer(
    database: Database, postgres: TestDatabase
) -> None:
    leases = Leases(database)
    held = await leases.acquire("a", LANES, 0.3)
    postgres.psql("UPDATE lane_leases SET expires_at = '-infinity'")
    assert await leases.acquire("a", LANES, 0.3) == held
    assert await leases.acquire("b", LANES, 0.3) == {}
    await asyncio.sleep(0.4)
    assert set(await leases.acquire("b", LANES, 30)) == set(LANES)


async def test_what_a_killed_worker_held_is_free_when_the_clock_was_put_back(
    database: Database, postgres: TestDatabase
) -> None:
    """It was a year ahead when the worker was killed: its lanes, its share and its jobs would be its own for a year."""
    leases = Leases(database)
    await leases.acquire("killed", LANES, 30)
    assert await Leadership(database, "night", "killed").lead(30) is not None
    postgres.psql("UPDATE lane_leases SET expires_at = expires_at + interval '1 year'")
    postgres.psql("UPDATE lane_workers SET expires_at = expires_at + interval '1 year'")
    assert set(await leases.acquire("b", LANES, 30)) == set(LANES)
    assert await Leadership(database, "night", "b").lead(30) is not None
    assert await Leadership(database, "night", "c").lead(30) is None


async def test_the_fence_of_a_former_holder_is_refused(database: Database) -> None:
    leases = Leases(database)
    before = await leases.acquire("a", ["live-0"], 30)
    async with database.transaction(None) as tx:
        await hold_fence(tx, "live-0", before["live-0"])
    await leases.release("a", ["live-0"])
    for lane, fence in (("live-0", before["live-0"]), ("never-leased", 1)):
        with pytest.raises(LeaseLost):
            async with database.transaction(None) as tx:
                await hold_fence(tx, lane, fence)


async def test_a_commit_that_outlasts_the_lease_keeps_its_lane_and_nobody_waits_for_it(database: Database) -> None:
    leases, other = Leases(database), Leases(database)
    held = await leases.acquire("a", LANES, 0.3)
    async with database.transaction(None) as tx:
        await hold_fence(tx, "live-0", held["live-0"])
        for _ in range(5):
            async with asyncio.timeout(1):
                assert (await leases.acquire("a", LANES, 0.3))["live-0"] == held["live-0"]
                assert "live-0" not in await other.acquire("b", LANES, 0.3)
            await asyncio.sleep(0.1)
    assert len(await leases.acquire("a", LANES, 0.3)) == len(await other.acquire("b", LANES, 0.3)) == 8


async def test_a_lane_of_the_dead_is_taken_once_their_commit_has_ended(database: Database) -> None:
    leases = Leases(database)
    held = await leases.acquire("a", LANES, 0.05)
    async with database.transaction(None) as tx:
        await hold_fence(tx, "live-0", held["live-0"])
        await asyncio.sleep(0.1)
        async with asyncio.timeout(1):
            assert set(await leases.acquire("b", LANES, 30)) == set(LANES) - {"live-0"}
    assert (await leases.acquire("b", LANES, 30))["live-0"] == held["live-0"] + 1


async def test_a_lane_cannot_change_hands_during_a_commit(database: Database) -> None:
    leases = Leases(database)
    held = await leases.acquire("a", ["live-0"], 30)
    async with database.transaction(None) as tx:
        await hold_fence(tx, "live-0", held["live-0"])
        giving = asyncio.create_task(leases.release("a"))
        await asyncio.sleep(0.1)
        assert not giving.done()
    await giving
