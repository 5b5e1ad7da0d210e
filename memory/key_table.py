"""API keys as a proxy admits by them: the stored table in, keys with their limits read and their token roots open out.

What was opened is kept while its row is the same, and the whole table while the store says that nothing was written and
no key has ended: each process asks twice a second, and to read 10,000 keys takes as long. Fails closed, one key at a
time: limits that are not understood leave the key out, a root that cannot be opened leaves it without tokens. Raises
StoreUnavailable.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import UUID

from memory.envelope import Binding, key_id_of, unseal
from memory.errors import EnvelopeUnreadable
from memory.keys import KeyRing
from memory.stored import ApiKey
from memory.telemetry import event
from policies.capability_token import Authority
from policies.key_limits import LimitsInvalid, limits_of
from policies.labels import Sensitivity

log: Final = logging.getLogger("memory_proxy.keys")


@dataclass(frozen=True, slots=True)
class Secret:
    """One of the secrets that a key has had, by its prefix."""

    key_id: UUID
    prefix: str


@dataclass(frozen=True, slots=True)
class OpenedKey:
    """One key that may be used: what it allows, and what its tokens are signed with, None for a key without tokens."""

    key_id: UUID
    tenant_id: UUID
    prefix: str
    expires_at: datetime | None
    authority: Authority
    token_root: bytes | None = field(default=None, repr=False)

    @property
    def secret(self) -> Secret:
        """Which of its secrets it is known by here."""
        return Secret(self.key_id, self.prefix)


class StoredKeys(Protocol):
    """Where active keys are read from."""

    async def mark(self) -> tuple[int, int]:
        """Another one behind every change of any key. Raises StoreUnavailable."""

    async def all_active(self, now: datetime) -> Mapping[bytes, ApiKey]:
        """Every key that may be used now, by the SHA-256 of its secret. Raises StoreUnavailable."""


class OpenedKeys:
    """The key table of one process."""

    def __init__(self, stored: StoredKeys, ring: KeyRing) -> None:
        self._stored = stored
        self._ring = ring
        self._held: dict[bytes, tuple[ApiKey, OpenedKey | None]] = {}
        self._table: Mapping[bytes, OpenedKey] = {}
        self._mark: tuple[int, int] | None = None  # of the table
        self._from = self._until = datetime.min.replace(tzinfo=UTC)  # so long no key of it begins or ends

    async def all_active(self, now: datetime) -> Mapping[bytes, OpenedKey]:
        """Every key that may be used now, by the SHA-256 of its secret; the same mapping while it is the same."""
        mark = await self._stored.mark()  # before the rows: what is written meanwhile is read again
        if mark != self._mark or not self._from <= now < self._until:
            self._table = await self._read(now)
            ends = (key.expires_at for key in self._table.values() if key.expires_at is not None)
            self._mark, self._from, self._until = mark, now, min(ends, default=datetime.max.replace(tzinfo=UTC))
        return self._table

    async def _read(self, now: datetime) -> Mapping[bytes, OpenedKey]:
        rows = await self._stored.all_active(now)
        held: dict[bytes, tuple[ApiKey, OpenedKey | None]] = {}
        for digest, row in rows.items():
            known = self._held.get(digest)
            held[digest] = known if known is not None and known[0] == row else (row, await self._opened(row))
        self._held = held
        return {digest: opened for digest, (_, opened) in held.items() if opened is not None}

    async def _opened(self, row: ApiKey) -> OpenedKey | None:
        try:
            authority = Authority(
                fixed=row.fixed,
                defaults=row.defaults,
                capabilities=frozenset(row.capabilities),
                until=None if row.expires_at is None else int(row.expires_at.timestamp()),
                ceiling=Sensitivity(row.sensitivity_ceiling),
                limits=limits_of(row.limits),
            )
        except (LimitsInvalid, ValueError) as fault:
            event(log, "key_not_understood", logging.ERROR, key=str(row.key_id), fault=str(fault))
            return None
        root = await self._root(row)
        return OpenedKey(row.key_id, row.tenant_id, row.prefix, row.expires_at, authority, root)

    async def _root(self, row: ApiKey) -> bytes | None:
        if row.token_key is None:
            return None
        try:
            key = await self._ring.by_id(row.tenant_id, key_id_of(row.token_key))
            return unseal(key, token_binding(row.tenant_id, row.key_id), row.token_key)
        except EnvelopeUnreadable as fault:
            event(log, "key_without_tokens", logging.ERROR, key=str(row.key_id), fault=str(fault))
            return None


def ended(before: ApiKey, after: ApiKey, now: datetime) -> dict[Secret, datetime]:
    """Which secrets a change of a key ended, and from when on."""
    ends: dict[Secret, datetime] = {}
    for prefix in filter(None, (before.prefix, before.former_prefix)):
        if after.revoked_at is None and prefix == after.prefix:
            continue
        lasts = after.former_until if after.revoked_at is None and prefix == after.former_prefix else None
        ends[Secret(before.key_id, prefix)] = lasts or now
    return ends


def token_binding(tenant: UUID, key_id: UUID) -> Binding:
    """What the sealed root of a key's tokens belongs to."""
    return Binding(tenant, key_id, key_id, "token")
