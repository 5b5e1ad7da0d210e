"""Wrapped keys in memory, of one tenant and its subjects: what the store does, without a store."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from memory.keys import WrappedKey


class Table:
    """Wrapped keys by their subject, the tenant's own under None, and how often its salt was rotated."""

    def __init__(self) -> None:
        self.keys: dict[UUID | None, WrappedKey] = {}
        self.generation = 0

    async def current(self, tenant: UUID, subject_id: UUID | None) -> WrappedKey | None:
        return self.keys.get(subject_id)

    async def add(self, tenant: UUID, key: WrappedKey, now: datetime) -> None:
        self.keys.setdefault(key.subject_id, key)

    async def by_id(self, tenant: UUID, key_id: UUID) -> WrappedKey | None:
        return next((key for key in self.keys.values() if key.key_id == key_id), None)

    async def salt_generation(self, tenant: UUID) -> int:
        return self.generation
