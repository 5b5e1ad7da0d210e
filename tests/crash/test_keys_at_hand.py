"""While the store is away there is always a key to seal with, and a salt that was known, and nobody waits long."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime
from uuid import UUID

import pytest

from memory import keys
from memory.errors import StoreUnavailable
from memory.ids import new_id
from memory.keys import KeyRing, WrappedKey


class Table:
    """Wrapped keys in a dict; `away` makes it refuse."""

    def __init__(self) -> None:
        self.away = False
        self.generation = 0
        self.asked = self.read = 0
        self.stands_still: asyncio.Event | None = None
        self.told: asyncio.Event | None = None  # a key that was read is told only then
        self._keys: dict[tuple[UUID, UUID | None], WrappedKey] = {}

    async def current(self, tenant: UUID, subject_id: UUID | None) -> WrappedKey | None:
        self.read += 1
        await asyncio.sleep(0)
        self._check()
        found = self._keys.get((tenant, subject_id))
        if self.told is not None:
            await self.told.wait()
        return found

    def renew(self, tenant: UUID, key: WrappedKey) -> None:
        """Put another key in force."""
        self._keys[tenant, key.subject_id] = key

    async def add(self, tenant: UUID, key: WrappedKey, now: datetime) -> None:
        self._check()
        self._keys.setdefault((tenant, key.subject_id), key)

    async def salt_generation(self, tenant: UUID) -> int:
        self.asked += 1
        found = self.generation
        if self.stands_still is not None:
            await self.stands_still.wait()
        self._check()
        return found

    async def by_id(self, tenant: UUID, key_id: UUID) -> WrappedKey | None:
        self._check()
        return next((key for key in self._keys.values() if key.key_id == key_id), None)

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailable("away")


async def test_the_tenants_key_outlives_those_of_many_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "CACHE_KEYS_MAX", 4)
    table, tenant = Table(), new_id()
    master = os.urandom(32)
    for ring in (KeyRing(table, master), KeyRing(table, master)):  # makes the keys; a later process reads them
        for number in range(10):
            await ring.subject_key(tenant, f"user {number}")
    table.away = True
    assert await ring.subject_key(tenant, "a new user") == await ring.tenant_key(tenant)


async def test_many_who_want_one_key_at_once_wait_for_one_reading_of_it() -> None:
    """A ledger's note and the exchange itself: with two readings the note could come after the answer."""
    table, tenant = Table(), new_id()
    ring = KeyRing(table, os.urandom(32))
    await ring.tenant_key(tenant)
    table.read = 0
    leaves, *stay = [asyncio.create_task(ring.subject_key(tenant, "ada")) for _ in range(5)]
    await asyncio.sleep(0)
    leaves.cancel()  # who began it
    keys = await asyncio.gather(*stay)
    assert len({key.key_id for key in keys}) == 1
    assert table.read == 2, "not there, and after it was made"
    table.away = True
    failed = await asyncio.gather(*(ring.existing_key(new_id(), None) for _ in range(2)), return_exceptions=True)
    assert all(isinstance(one, StoreUnavailable) for one in failed)
    other = await asyncio.gather(*(ring.tenant_key(new_id()) for _ in range(2)), return_exceptions=True)
    assert all(isinstance(one, StoreUnavailable) for one in other)
    table.away = False
    assert await ring.subject_key(tenant, "bob") != keys[0], "a fault is nobody's who asks later"


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_key_that_is_retired_while_it_is_read_seals_nothing_more(by_id: bool) -> None:
    """What is being read may be the retired one: who asks later does not wait for it, and it is not kept."""
    table, tenant = Table(), new_id()
    master = os.urandom(32)
    first = KeyRing(table, master)
    retired, subject = await first.subject_key(tenant, "ada"), await first.subject_id(tenant, "ada")
    ring = KeyRing(table, master)
    await ring.tenant_key(tenant)
    table.told = asyncio.Event()
    early = asyncio.create_task(ring.subject_key(tenant, "ada"))
    await asyncio.sleep(0.01)
    table.renew(tenant, await first.renew(tenant, subject))
    ring.drop(tenant, retired.key_id) if by_id else ring.drop_subject(tenant, subject)
    late = asyncio.create_task(ring.subject_key(tenant, "ada"))
    await asyncio.sleep(0.01)
    table.told.set()
    assert await early == retired
    assert (await late).key_id != retired.key_id
    assert await ring.subject_key(tenant, "ada") == await late
    assert not by_id or (tenant, retired.key_id) not in ring._by_id


SOON_S = 0.1


async def rotated(table: Table) -> tuple[KeyRing, UUID, bytes]:
    """A ring that knew a salt, which was rotated; the salt of before."""
    ring, tenant = KeyRing(table, os.urandom(32)), new_id()
    before = await ring.salt_key(tenant, SOON_S)
    table.generation = 1
    ring.drop_salt(tenant)
    return ring, tenant, before


async def test_a_salt_that_the_store_does_not_tell_in_time_is_the_one_of_before_and_asked_for_once_a_second() -> None:
    table = Table()
    ring, tenant, before = await rotated(table)
    table.stands_still, table.asked = asyncio.Event(), 0
    began = time.monotonic()
    assert await asyncio.gather(*(ring.salt_key(tenant, SOON_S) for _ in range(9))) == [before] * 9
    assert [await ring.salt_key(tenant, SOON_S) for _ in range(20)] == [before] * 20
    assert time.monotonic() - began < 3 * SOON_S, "one of them waits"
    assert table.asked == 1
    table.stands_still.set()
    await asyncio.sleep(0)
    assert await ring.salt_key(tenant) not in (b"", before), "it goes on while nobody waits"
    assert table.asked == 1


async def test_a_dead_store_is_asked_for_a_salt_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "SALT_AGAIN_S", 0.2)
    table = Table()
    ring, tenant, before = await rotated(table)
    table.away, table.asked = True, 0
    assert [await ring.salt_key(tenant, SOON_S) for _ in range(20)] == [before] * 20
    assert table.asked == 1
    await asyncio.sleep(0.25)
    table.away = False
    assert await ring.salt_key(tenant, SOON_S) != before
    assert table.asked == 2


async def test_without_any_salt_the_request_is_refused_in_time() -> None:
    table = Table()
    table.stands_still = asyncio.Event()
    ring, tenant = KeyRing(table, os.urandom(32)), new_id()
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await ring.salt_key(tenant, SOON_S)
    assert time.monotonic() - began < 1
    assert table.asked == 1
    table.stands_still.set()
    assert await ring.salt_key(tenant, SOON_S)


async def test_a_salt_that_was_rotated_while_it_was_read_is_not_kept() -> None:
    table = Table()
    table.stands_still = asyncio.Event()
    ring, tenant = KeyRing(table, os.urandom(32)), new_id()
    reading = asyncio.create_task(ring.salt_key(tenant))
    await asyncio.sleep(0.01)
    table.generation = 1
    ring.drop_salt(tenant)
    table.stands_still.set()
    before = await reading
    after = await ring.salt_key(tenant)
    assert after != before
    assert (await ring.salt_keys(tenant))[0] == after
