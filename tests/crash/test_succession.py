"""A worker that was killed: its successor in the same slot has the lanes at once, nobody else's are touched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.leases import Leases, hold_fence
from memory.errors import LeaseLost, StoreUnavailable
from memory.write.succession import Succession
from tests.postgres_fixture import TestDatabase

LANES = [f"live-{number}" for number in range(4)]


@pytest.fixture
async def database(postgres: TestDatabase) -> AsyncIterator[Database]:
    database = await Database.open(postgres.app)
    yield database
    await database.close()


async def test_the_successor_of_a_killed_worker_waits_for_no_lease(database: Database, tmp_path: Path) -> None:
    note = tmp_path / "worker-0.holder"
    killed = await Succession(Leases(database), note).acquire("first", LANES, 30)
    assert set(killed) == set(LANES)
    heir = await Succession(Leases(database), note).acquire("second", LANES, 30)
    assert set(heir) == set(LANES)
    assert all(heir[lane] > killed[lane] for lane in LANES)
    async with database.transaction(None) as tx:
        with pytest.raises(LeaseLost):
            await hold_fence(tx, LANES[0], killed[LANES[0]])


async def test_a_worker_of_another_slot_keeps_its_lanes(database: Database, tmp_path: Path) -> None:
    other = await Succession(Leases(database), tmp_path / "worker-1.holder").acquire("other", LANES, 30)
    assert await Succession(Leases(database), tmp_path / "worker-0.holder").acquire("new", LANES, 30) == {}
    kept = await Leases(database).acquire("other", LANES, 30)  # its share, now that there are two
    assert kept
    assert kept.items() <= other.items()


async def test_a_store_that_is_away_leaves_the_note_for_the_next_attempt(tmp_path: Path) -> None:
    note = tmp_path / "worker-0.holder"
    note.write_text("first")
    away = await Database.open(f"postgresql://mp_app@/x?host={tmp_path}")
    with pytest.raises(StoreUnavailable):
        await Succession(Leases(away), note).acquire("second", LANES, 30)
    assert note.read_text() == "first"
    await away.close()
