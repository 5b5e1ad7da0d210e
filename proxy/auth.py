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
from collections.abc import Mapping, Sequence
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
# Before the first complete start there is no tenant, hence no key and no memory: requests go on without.
UNKNOWN_TENANT: Final = UUID(int=0)


class KnownKey(Protocol):
    """One active key as the table holds it."""

    @property
    def key_id(self) -> UUID: ...
    @property
    def tenant_id(self) -> UUID: ...
    @property
    def fixed(self) -> Mapping[str, str]: ...
    @property
    def defaults(self) -> Mapping[str, str]: ...
    @property
    def capabilities(self) -> Sequence[str]: ...
    @property
    def expires_at(self) -> datetime | None: ...


class KeyTable(Protocol):
    """Where active keys are read from."""

    async def all_active(self, now: datetime) -> Mapping[bytes, KnownKey]:
        """Every key that may be used now, by the SHA-256 of its secret. Raises StoreUnavailable."""


class OpenDoor:
    """`open` mode: everybody is the one tenant, which is known once the store has been asked."""

    def __init__(self) -> None:
        self._credential = Credential(UNKNOWN_TENANT)

    def opens_to(self, tenant: UUID) -> None:
        """From now on callers are this tenant."""
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
            self._keys = await self._table.all_active(datetime.now(UTC))
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
