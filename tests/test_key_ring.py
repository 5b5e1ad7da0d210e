"""Keys in process: bounded, and what is used stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.envelope import DataKey
from memory.ids import new_id
from memory.keys import CURRENT_STALE, KeyRing, WrappedKey
from tests.key_table import Table


async def test_a_key_that_is_used_stays_at_hand_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.keys.CACHE_KEYS_MAX", 4)
    tenant, ring = new_id(), KeyRing(Table(), bytes(32))
    key = await ring.subject_key(tenant, "ada")
    ada = await ring.subject_id(tenant, "ada")
    for number in range(8):
        assert ring.at_hand(tenant, ada) == key
        await ring.subject_key(tenant, f"other {number}")
    assert ring.at_hand(tenant, ada) == key
    assert ring.at_hand(tenant, await ring.subject_id(tenant, "other 0")) is None


class Reading(Table):
    """A table whose answer is on its way until it may arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.arrives = asyncio.Event(), asyncio.Event()
        self.arrives.set()

    async def current(self, tenant: UUID, subject_id: UUID | None) -> WrappedKey | None:
        return await self._later(await super().current(tenant, subject_id))

    async def by_id(self, tenant: UUID, key_id: UUID) -> WrappedKey | None:
        return await self._later(await super().by_id(tenant, key_id))

    async def _later(self, found: WrappedKey | None) -> WrappedKey | None:
        self.asked.set()
        await self.arrives.wait()
        return found


Way = Callable[[KeyRing, UUID, UUID, UUID], Coroutine[Any, Any, DataKey]]
WAYS: dict[str, Way] = {
    "by its id": lambda ring, tenant, subject, key_id: ring.by_id(tenant, key_id),
    "in force": lambda ring, tenant, subject, key_id: ring.subject_key(tenant, "ada"),
    "that exists": lambda ring, tenant, subject, key_id: ring.existing_key(tenant, subject),
    "in a transaction": lambda ring, tenant, subject, key_id: ring.over(ring._table).subject_key(tenant, "ada"),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_key_that_is_dropped_while_it_is_read_is_kept_nowhere(way: Way) -> None:
    tenant, table = new_id(), Reading()
    key = await KeyRing(table, bytes(32)).subject_key(tenant, "ada")
    ring = KeyRing(table, bytes(32))
    await ring.tenant_key(tenant)
    subject = await ring.subject_id(tenant, "ada")
    table.asked.clear()
    table.arrives.clear()
    reading = asyncio.create_task(way(ring, tenant, subject, key.key_id))
    await asyncio.wait_for(table.asked.wait(), 5)
    ring.drop(tenant, key.key_id)
    table.arrives.set()
    assert await reading == key, "who has begun gets what there was"
    assert ring.at_hand(tenant, subject) is None
    table.asked.clear()
    await ring.by_id(tenant, key.key_id)
    assert table.asked.is_set(), "asked for again"


async def test_a_key_that_is_dropped_while_it_is_confirmed_is_not_used_on() -> None:
    now = [datetime(2026, 11, 1, tzinfo=UTC)]
    tenant, table = new_id(), Reading()
    ring = KeyRing(table, bytes(32), clock=lambda: now[0])
    old = await ring.subject_key(tenant, "ada")
    subject = await ring.subject_id(tenant, "ada")
    now[0] += CURRENT_STALE
    table.asked.clear()
    table.arrives.clear()
    reading = asyncio.create_task(ring.subject_key(tenant, "ada"))
    await asyncio.wait_for(table.asked.wait(), 5)
    renewed = await ring.renew(tenant, subject)
    table.keys[subject] = renewed
    ring.drop(tenant, old.key_id)
    table.arrives.set()
    assert (await reading).key_id == renewed.key_id


async def test_who_leaves_while_a_key_is_confirmed_has_not_confirmed_it() -> None:
    now = [datetime(2026, 11, 1, tzinfo=UTC)]
    tenant, table = new_id(), Reading()
    ring = KeyRing(table, bytes(32), clock=lambda: now[0])
    await ring.subject_key(tenant, "ada")
    subject = await ring.subject_id(tenant, "ada")
    renewed = table.keys[subject] = await ring.renew(tenant, subject)
    now[0] += CURRENT_STALE
    table.asked.clear()
    table.arrives.clear()
    leaving = asyncio.create_task(ring.subject_key(tenant, "ada"))
    await asyncio.wait_for(table.asked.wait(), 5)
    leaving.cancel()
    await asyncio.wait([leaving])
    table.arrives.set()
    assert (await ring.subject_key(tenant, "ada")).key_id == renewed.key_id


async def test_a_rotated_key_is_noticed_however_many_others_came_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.keys.CACHE_KEYS_MAX", 4)
    now = [datetime(2026, 11, 1, tzinfo=UTC)]
    tenant, table = new_id(), Table()
    ring = KeyRing(table, bytes(32), clock=lambda: now[0])
    await ring.subject_key(tenant, "ada")
    ada = await ring.subject_id(tenant, "ada")
    for number in range(8):
        await ring.subject_key(tenant, f"other {number}")
        await ring.subject_key(tenant, "ada")
    renewed = table.keys[ada] = await ring.renew(tenant, ada)
    now[0] += CURRENT_STALE
    assert ring.at_hand(tenant, ada) is None
    assert (await ring.subject_key(tenant, "ada")).key_id == renewed.key_id


async def test_a_rotated_key_is_noticed_though_the_clock_was_turned_back() -> None:
    now = [datetime(2026, 11, 1, tzinfo=UTC)]
    tenant, table = new_id(), Table()
    ring = KeyRing(table, bytes(32), clock=lambda: now[0])
    await ring.subject_key(tenant, "ada")
    ada = await ring.subject_id(tenant, "ada")
    renewed = table.keys[ada] = await ring.renew(tenant, ada)
    now[0] -= timedelta(days=1)
    assert (await ring.subject_key(tenant, "ada")).key_id == renewed.key_id
