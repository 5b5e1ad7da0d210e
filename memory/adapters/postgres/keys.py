"""Tenants, wrapped data keys and API keys in Postgres. Secrets of API keys are stored as SHA-256 only.

An API key reads `mp-<8 characters>-<43 characters>`: a prefix people may see, and 256 random bits. Raises
StoreUnavailable.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.database import Database
from memory.errors import StoreUnavailable
from memory.ids import new_id
from memory.keys import WrappedKey
from memory.stored import ApiKey

_PREFIX_BYTES: Final = 4  # 8 hexadecimal characters
_SECRET_BYTES: Final = 32  # 43 characters of base64url


class KeyStore:
    """The reference side of the store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ensure_tenant(self, name: str, now: datetime) -> UUID:
        """The tenant of this name, made when it is new."""
        async with self._database.transaction(None) as tx:
            known = await tx.value("find_tenant", name)
            if known is None:
                await tx.run("add_tenant", new_id(), name, now)
                known = await tx.value("find_tenant", name)
        if known is None:
            raise StoreUnavailable("a tenant was stored and is not there")
        return _uuid(known)

    async def current(self, tenant: UUID, subject_id: UUID | None) -> WrappedKey | None:
        """The data key in use of a subject, of the tenant itself for None."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            if subject_id is None:
                return _wrapped(await tx.row("current_tenant_key", tenant))
            return _wrapped(await tx.row("current_key", tenant, subject_id))

    async def add(self, tenant: UUID, key: WrappedKey, now: datetime) -> None:
        """Store a data key unless the subject has one in use."""
        async with self._database.transaction(tenant) as tx:
            await tx.run("add_key", tenant, key.key_id, key.subject_id, key.wrapped, now)

    async def by_id(self, tenant: UUID, key_id: UUID) -> WrappedKey | None:
        """Any data key; its `wrapped` is None once shredded."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return _wrapped(await tx.row("key_by_id", tenant, key_id))

    async def create_api_key(
        self,
        tenant: UUID,
        name: str,
        now: datetime,
        *,
        fixed: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
        capabilities: Sequence[str] = (),
        sensitivity_ceiling: str = "internal",
        expires_at: datetime | None = None,
    ) -> tuple[UUID, str]:
        """A new key: its id, and the secret, which is shown once and never stored."""
        prefix = os.urandom(_PREFIX_BYTES).hex()
        secret = f"mp-{prefix}-{base64.urlsafe_b64encode(os.urandom(_SECRET_BYTES)).rstrip(b'=').decode()}"
        key_id = new_id()
        async with self._database.transaction(None) as tx:
            await tx.run(
                "add_api_key",
                key_id,
                tenant,
                prefix,
                secret_digest(secret),
                name,
                dict(fixed or {}),
                dict(defaults or {}),
                list(capabilities),
                sensitivity_ceiling,
                now,
                expires_at,
            )
        return key_id, secret

    async def list_api_keys(self, tenant: UUID) -> list[ApiKey]:
        """Every key of a tenant, revoked and expired ones included, newest first."""
        async with self._database.transaction(None, read_only=True) as tx:
            return [_api_key(row) for row in await tx.fetch("api_keys_of_tenant", tenant)]

    async def revoke_api_key(self, tenant: UUID, key_id: UUID, now: datetime) -> bool:
        """Whether there was such a key in use."""
        async with self._database.transaction(None) as tx:
            return await tx.run("revoke_api_key", tenant, key_id, now) == 1

    async def all_active(self, now: datetime) -> dict[bytes, ApiKey]:
        """Every key that may be used now, by the SHA-256 of its secret."""
        async with self._database.transaction(None, read_only=True) as tx:
            keys = [_api_key(row) for row in await tx.fetch("active_api_keys", now)]
        return {key.secret_sha256: key for key in keys}


def secret_digest(secret: str) -> bytes:
    """What is stored of an API key's secret. No salt and no stretching: it has 256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _wrapped(row: Any | None) -> WrappedKey | None:
    return None if row is None else WrappedKey(_uuid(row["key_id"]), row["subject_id"], row["wrapped"])


def _api_key(row: Any) -> ApiKey:
    return ApiKey(**{**dict(row), "capabilities": tuple(row["capabilities"])})


def _uuid(value: Any) -> UUID:
    """A plain UUID instead of the driver's subclass."""
    return UUID(int=value.int)
