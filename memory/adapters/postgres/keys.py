"""Tenants, wrapped data keys and API keys in Postgres. Secrets of API keys are stored as SHA-256 only.

How an API key reads: policies/api_key.py. What its capability tokens are signed with is stored sealed, since it could
make tokens; without a key ring none is, and the key has no tokens. Raises StoreUnavailable.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from memory.adapters.postgres.audit import Witness, unseen
from memory.adapters.postgres.database import Database, Transaction
from memory.envelope import seal
from memory.errors import StoreUnavailable
from memory.ids import new_id
from memory.key_table import token_binding
from memory.keys import KeyRing, WrappedKey
from memory.stored import ApiKey
from policies.api_key import PREFIX_BYTES, SECRET_BYTES, secret_of
from policies.capability_token import root_of
from policies.key_limits import NO_LIMITS, KeyLimits


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
                return wrapped_key(await tx.row("current_tenant_key", tenant))
            return wrapped_key(await tx.row("current_key", tenant, subject_id))

    async def add(self, tenant: UUID, key: WrappedKey, now: datetime) -> None:
        """Store a data key unless the subject has one in use."""
        async with self._database.transaction(tenant) as tx:
            await tx.run("add_key", tenant, key.key_id, key.subject_id, key.wrapped, now)

    async def by_id(self, tenant: UUID, key_id: UUID) -> WrappedKey | None:
        """Any data key; its `wrapped` is None once shredded."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return wrapped_key(await tx.row("key_by_id", tenant, key_id))

    async def salt_generation(self, tenant: UUID) -> int:
        """How often the tenant's cache_salt was rotated; 0 for a tenant that is not there."""
        async with self._database.transaction(tenant, read_only=True) as tx:
            return int(await tx.value("salt_generation", tenant) or 0)

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
        limits: KeyLimits = NO_LIMITS,
        ring: KeyRing | None = None,
        key_id: UUID | None = None,
        beside: Callable[[ApiKey], None] | None = None,
        witness: Witness = unseen,
        show: Callable[[str], None] | None = None,
    ) -> tuple[UUID, str]:
        """A new key: its id, and the secret, which is shown once and never stored. `ring` lets it have tokens; what
        `beside` raises for another key of the tenant leaves none, whoever else makes one at this moment; the `witness`
        writes in its transaction, here and below: nothing is done that is not noted. `show` is given the secret before
        that is committed, here and below: what nobody was shown never holds.
        """
        prefix, secret = _new_secret()
        key_id = key_id or new_id()
        token_key = await _sealed_root(ring, tenant, key_id, secret)
        async with self._database.transaction(tenant) as tx:
            if beside is not None:
                await tx.value("make_keys_in_turn")
                for one in await keys_of_tenant(tx, tenant):
                    beside(one)
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
                limits.stored(),
                token_key,
            )
            await witness(tx)
            if show is not None:
                show(secret)
        return key_id, secret

    async def rotate_api_key(
        self,
        tenant: UUID,
        key_id: UUID,
        now: datetime,
        *,
        former_until: datetime,
        redo: bool = False,
        ring: KeyRing | None = None,
        witness: Witness = unseen,
        show: Callable[[str], None] | None = None,
    ) -> str | None:
        """A new secret for a key; the one it has holds until `former_until`.

        None: there is no such key in use, or one before it still holds, which would end by this; `redo` replaces the
        newest secret instead and leaves that one its time, and a `former_until` of now ends both, with `redo` too.
        """
        redo = redo and former_until > now
        prefix, secret = _new_secret()
        token_key = await _sealed_root(ring, tenant, key_id, secret)
        async with self._database.transaction(tenant) as tx:
            done = await tx.run(
                "rotate_api_key", tenant, key_id, now, prefix, secret_digest(secret), token_key, former_until, redo
            )
            if done == 1:
                await witness(tx)
                if show is not None:
                    show(secret)
        return secret if done == 1 else None

    async def api_keys_called(self, called: str) -> list[ApiKey]:
        """Keys of all tenants with this prefix, id or name, newest first."""
        async with self._database.transaction(None, read_only=True) as tx:
            return [_api_key(row) for row in await tx.fetch("api_keys_called", called)]

    async def tenant_names(self) -> dict[UUID, str]:
        """Every tenant's name."""
        async with self._database.transaction(None, read_only=True) as tx:
            return {_uuid(row["tenant_id"]): row["name"] for row in await tx.fetch("all_tenants")}

    async def list_api_keys(self, tenant: UUID) -> list[ApiKey]:
        """Every key of a tenant, revoked and expired ones included, newest first."""
        async with self._database.transaction(None, read_only=True) as tx:
            return await keys_of_tenant(tx, tenant)

    async def revoke_api_key(self, tenant: UUID, key_id: UUID, now: datetime, witness: Witness = unseen) -> bool:
        """Whether there was such a key in use."""
        async with self._database.transaction(tenant) as tx:
            done = await tx.run("revoke_api_key", tenant, key_id, now) == 1
            if done:
                await witness(tx)
        return done

    async def mark(self) -> tuple[int, int]:
        """Another one behind every change of any key."""
        async with self._database.transaction(None, read_only=True) as tx:
            row = await tx.row("api_keys_mark")
        return (0, 0) if row is None else (row["keys"], row["writers"])

    async def all_active(self, now: datetime) -> dict[bytes, ApiKey]:
        """Every key that may be used now, by the SHA-256 of its secret; of a rotated one by the former too, while that
        holds: then it ends with it.
        """
        async with self._database.transaction(None, read_only=True) as tx:
            keys = [_api_key(row) for row in await tx.fetch("active_api_keys", now)]
        former = [one for key in keys if (one := as_it_was(key, now)) is not None]
        return {key.secret_sha256: key for key in (*former, *keys)}


async def keys_of_tenant(tx: Transaction, tenant: UUID) -> list[ApiKey]:
    """Every key of a tenant as this transaction sees it, newest first."""
    return [_api_key(row) for row in await tx.fetch("api_keys_of_tenant", tenant)]


def secret_digest(secret: str) -> bytes:
    """What is stored of an API key's secret. No salt and no stretching: it has 256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def as_it_was(key: ApiKey, now: datetime) -> ApiKey | None:
    """A rotated key under its former secret; None once that no longer holds."""
    if key.former_sha256 is None or key.former_until is None or key.former_until <= now:
        return None
    ends = key.former_until if key.expires_at is None else min(key.former_until, key.expires_at)
    return replace(
        key,
        prefix=key.former_prefix or "",
        secret_sha256=key.former_sha256,
        token_key=key.former_token_key,
        expires_at=ends,
    )


def _new_secret() -> tuple[str, str]:
    prefix = os.urandom(PREFIX_BYTES)
    return prefix.hex(), secret_of(prefix, os.urandom(SECRET_BYTES))


async def _sealed_root(ring: KeyRing | None, tenant: UUID, key_id: UUID, secret: str) -> bytes | None:
    if ring is None:
        return None
    return seal(await ring.tenant_key(tenant), token_binding(tenant, key_id), root_of(secret))


def wrapped_key(row: Any | None) -> WrappedKey | None:
    """A row of data_keys."""
    return None if row is None else WrappedKey(_uuid(row["key_id"]), row["subject_id"], row["wrapped"])


def _api_key(row: Any) -> ApiKey:
    ids = {name: _uuid(row[name]) for name in ("key_id", "tenant_id")}
    return ApiKey(**{**dict(row), **ids, "capabilities": tuple(row["capabilities"])})


def _uuid(value: Any) -> UUID:
    """A plain UUID instead of the driver's subclass."""
    return UUID(int=value.int)
