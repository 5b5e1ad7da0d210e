"""While the store is away there is always a key to seal with, however many users a process has seen."""

from __future__ import annotations

import os
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
        self._keys: dict[tuple[UUID, UUID | None], WrappedKey] = {}

    async def current(self, tenant: UUID, subject_id: UUID | None) -> WrappedKey | None:
        self._check()
        return self._keys.get((tenant, subject_id))

    async def add(self, tenant: UUID, key: WrappedKey, now: datetime) -> None:
        self._check()
        self._keys.setdefault((tenant, key.subject_id), key)

    async def salt_generation(self, tenant: UUID) -> int:
        return 0

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
