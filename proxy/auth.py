"""Credentials: the Authorization header in, a Credential out.

`open`: one tenant, every capability, the header is not ours. `keys`: the bearer token's SHA-256 is looked up in a table
that every process holds and refreshes; while the store cannot be read a known key stays valid for `stale_max_s`
seconds. Fails closed: no key, an unknown, revoked or expired one is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import UUID

from aiohttp import web

from memory.errors import AuthUnavailable, InvalidApiKey, StoreUnavailable
from memory.telemetry import event
from proxy.identity import Credential

log = logging.getLogger("memory_proxy.auth")
# Revocation reaches all processes within 1 s (DESIGN section 2): the table is read twice as often.
REFRESH_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One active key as the table holds it."""

    key_id: UUID
    tenant_id: UUID
    fixed: Mapping[str, str]
    defaults: Mapping[str, str]
    capabilities: tuple[str, ...]
    expires_at: datetime | None


class KeyTable(Protocol):
    """Where active keys are read from."""

    async def active_keys(self) -> Mapping[bytes, KnownKey]:
        """Every active key by the SHA-256 of its secret. Raises StoreUnavailable."""


class OpenDoor:
    """`open` mode: everybody is the one tenant."""

    def __init__(self, tenant: UUID) -> None:
        self._credential = Credential(tenant)

    def admit(self, request: web.Request) -> Credential:
        """The one credential."""
        return self._credential


class KeyedDoor:
    """`keys` mode: whoever holds a key."""

    def __init__(self, table: KeyTable, *, stale_max_s: float) -> None:
        self._table = table
        self._stale_max_s = stale_max_s
        self._keys: Mapping[bytes, KnownKey] = {}
        self._read_at = float("-inf")

    async def keep_reading(self) -> None:
        """Read the table for ever; run as a task."""
        while True:
            await self.read()
            await asyncio.sleep(REFRESH_S)

    async def read(self) -> None:
        """Read the table once; an unreadable one leaves what is held."""
        try:
            self._keys = await self._table.active_keys()
            self._read_at = time.monotonic()
        except StoreUnavailable as fault:
            event(log, "key_table_unreadable", logging.WARNING, fault=str(fault))

    def admit(self, request: web.Request) -> Credential:
        """The caller's credential. Raises InvalidApiKey, AuthUnavailable."""
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise InvalidApiKey("send a key of this proxy as `Authorization: Bearer mp-…` (memory-proxy key create)")
        known = self._keys.get(hashlib.sha256(secret.strip().encode("utf-8", "surrogateescape")).digest())
        age_s = time.monotonic() - self._read_at
        if known is None:
            if age_s == float("inf"):
                raise AuthUnavailable("the key table has not been read yet; try again", retry_after_s=1)
            raise InvalidApiKey("this key is unknown or revoked")
        if known.expires_at is not None and known.expires_at <= datetime.now(UTC):
            raise InvalidApiKey("this key has expired")
        if age_s > self._stale_max_s:
            raise AuthUnavailable(f"the key table could not be read for {int(age_s)} s", retry_after_s=5)
        return Credential(known.tenant_id, known.key_id, known.fixed, known.defaults, frozenset(known.capabilities))
