"""Keys in process: bounded, and what is used stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.envelope import DataKey
from memory.errors import EnvelopeUnreadable, StoreUnavailable
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


async def test_rows_of_one_without_a_key_are_sealed_under_the_tenants_and_no_key_is_made_for_them() -> None:
    tenant, nobody, table = new_id(), new_id(), Table()
    ring = KeyRing(table, bytes(32))
    with pytest.raises(StoreUnavailable, match="no data key yet"):
        await ring.existing_key(tenant, nobody)
    assert not await ring.knows(tenant) and table.keys == {}
    own = await ring.tenant_key(tenant)
    assert await ring.existing_key(tenant, nobody) == await ring.existing_key(tenant, None) == own
    assert await ring.knows(tenant) and list(table.keys) == [None]
    key = await ring.subject_key(tenant, "ada")
    assert await KeyRing(table, bytes(32)).existing_key(tenant, await ring.subject_id(tenant, "ada")) == key != own


async def test_no_two_purposes_have_one_key() -> None:
    tenant, ring = new_id(), KeyRing(Table(), bytes(32))
    of = (ring.chain_key, ring.content_key, ring.audit_key, ring.canary_key)
    assert len({await one(tenant) for one in of} | {(await ring.tenant_key(tenant)).secret}) == 5


class Away(Table):
    """A table whose store may go away; counts how often it is asked for a key in force."""

    away, asked = False, 0

    async def current(self, tenant: UUID, subject_id: UUID | None) -> WrappedKey | None:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("away")
        return await super().current(tenant, subject_id)


async def test_what_was_shredded_opens_no_more_once_subjects_are_dropped_and_the_tenant_seals_on() -> None:
    tenant, table = new_id(), Away()
    ring = KeyRing(table, bytes(32))
    key, own = await ring.subject_key(tenant, "ada"), await ring.tenant_key(tenant)
    ada = await ring.subject_id(tenant, "ada")
    table.keys[ada] = WrappedKey(key.key_id, ada, None)
    ring.drop_subjects()
    with pytest.raises(EnvelopeUnreadable, match="shredded"):
        await ring.by_id(tenant, key.key_id)
    assert ring.at_hand(tenant, ada) is None
    table.away = True
    assert await ring.subject_key(tenant, "ada") == await ring.tenant_key(tenant) == own
    table.keys.clear()
    assert await ring.by_id(tenant, own.key_id) == own


async def test_a_key_that_is_dropped_leaves_those_of_others_at_hand() -> None:
    tenant, table = new_id(), Table()
    ring = KeyRing(table, bytes(32))
    key, other, own = [
        *[await ring.subject_key(tenant, name) for name in ("ada", "bob")],
        await ring.tenant_key(tenant),
    ]
    ring.drop(tenant, key.key_id)
    ada = await ring.subject_id(tenant, "ada")
    assert ring.at_hand(tenant, ada) is None
    table.keys[ada] = WrappedKey(key.key_id, ada, None)
    with pytest.raises(EnvelopeUnreadable, match="shredded"):
        await ring.by_id(tenant, key.key_id)
    assert ring.at_hand(tenant, await ring.subject_id(tenant, "bob")) == other
    table.keys.clear()
    assert await ring.tenant_key(tenant) == own


async def test_a_salt_that_is_being_read_when_all_are_dropped_is_asked_for_again() -> None:
    class Rotated(Table):
        generation, asked, arrives = 0, asyncio.Event(), asyncio.Event()

        async def salt_generation(self, tenant: UUID) -> int:
            told = self.generation
            self.asked.set()
            await self.arrives.wait()
            return told

    tenant, table = new_id(), Rotated()
    ring = KeyRing(table, bytes(32))
    reading = asyncio.create_task(ring.salt_key(tenant))
    await asyncio.wait_for(table.asked.wait(), 5)
    table.generation = 1
    ring.drop_salts()
    table.arrives.set()
    before = await reading
    assert await ring.salt_key(tenant) != before


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


async def test_a_key_that_cannot_be_confirmed_is_used_on_and_the_store_asked_once() -> None:
    """The tenant's in its place would outlive the subject."""

    now = [datetime(2026, 11, 1, tzinfo=UTC)]
    tenant, table = new_id(), Away()
    ring = KeyRing(table, bytes(32), clock=lambda: now[0])
    key = await ring.subject_key(tenant, "ada")
    now[0] += CURRENT_STALE
    table.away, table.asked = True, 0
    assert [await ring.subject_key(tenant, "ada") for _ in range(9)] == [key] * 9
    assert table.asked == 1


async def test_a_key_that_is_gone_is_not_used_on() -> None:
    now = [datetime(2026, 11, 1, tzinfo=UTC)]
    tenant, table = new_id(), Table()
    ring = KeyRing(table, bytes(32), clock=lambda: now[0])
    old = await ring.subject_key(tenant, "ada")
    del table.keys[await ring.subject_id(tenant, "ada")]
    now[0] += CURRENT_STALE
    assert (await ring.subject_key(tenant, "ada")).key_id != old.key_id


async def test_a_key_copied_to_another_subject_does_not_open() -> None:
    tenant, table = new_id(), Table()
    ring = KeyRing(table, bytes(32))
    await ring.subject_key(tenant, "ada")
    ada, bob = [await ring.subject_id(tenant, name) for name in ("ada", "bob")]
    table.keys[bob] = replace(table.keys[ada], subject_id=bob)
    with pytest.raises(EnvelopeUnreadable):
        await ring.subject_key(tenant, "bob")


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
