"""Keys: a master key file in, data keys for tenants and subjects out.

master key -> tenant key -> subject key, each wrapped in an envelope under the one before. Keys are cached in process,
so sealing goes on while the store is away: then a subject whose key is not cached is sealed under the tenant's.
Refuses a master key file that others can read or that is no 32 bytes, and says what to do.
"""

from __future__ import annotations

import hmac
import os
import stat
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol, TypeVar
from uuid import UUID

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memory.envelope import KEY_BYTES, Binding, DataKey, key_id_of, seal, unseal
from memory.errors import EnvelopeUnreadable, StartFailed, StoreUnavailable
from memory.ids import keyed_id, new_id

CACHE_KEYS_MAX: Final = 10_000
K = TypeVar("K")
_NO_SUBJECT: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A data key as the store has it. `subject_id` None is the tenant's own; `wrapped` None is shredded, for ever."""

    key_id: UUID
    subject_id: UUID | None
    wrapped: bytes | None


class KeyTable(Protocol):
    """Where wrapped keys lie."""

    async def current(self, tenant: UUID, subject_id: UUID | None) -> WrappedKey | None:
        """The key in use. Raises StoreUnavailable."""

    async def add(self, tenant: UUID, key: WrappedKey, now: datetime) -> None:
        """Store it unless the subject has one already. Raises StoreUnavailable."""

    async def by_id(self, tenant: UUID, key_id: UUID) -> WrappedKey | None:
        """Any key, shredded ones included. Raises StoreUnavailable."""


class KeyRing:
    """Data keys by whom they belong to. One per process; holds at most CACHE_KEYS_MAX keys in clear."""

    def __init__(
        self, table: KeyTable, master: bytes, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        if len(master) != KEY_BYTES:
            raise StartFailed(f"the master key has {len(master)} bytes, not {KEY_BYTES}")
        self._table = table
        self._clock = clock
        self._master = DataKey(UUID(bytes=_hkdf(master, b"key id")[:16], version=4), master)
        self._current: OrderedDict[tuple[UUID, UUID | None], DataKey] = OrderedDict()
        self._by_id: OrderedDict[tuple[UUID, UUID], DataKey] = OrderedDict()
        self._derived: dict[tuple[UUID, bytes], bytes] = {}

    async def tenant_key(self, tenant: UUID) -> DataKey:
        """The tenant's key, made at first use. Raises StoreUnavailable, EnvelopeUnreadable (another master key)."""
        return await self._get(tenant, None)

    async def subject_key(self, tenant: UUID, user: str) -> DataKey:
        """The key of a user's data; the tenant's while the store is away and the user's is not cached.

        Raises StoreUnavailable only when the tenant's key is not cached either.
        """
        subject = await self.subject_id(tenant, user)
        try:
            return await self._get(tenant, subject)
        except StoreUnavailable:
            return await self.tenant_key(tenant)

    async def by_id(self, tenant: UUID, key_id: UUID) -> DataKey:
        """The key an envelope names. Raises EnvelopeUnreadable when unknown or shredded, StoreUnavailable."""
        cached = self._by_id.get((tenant, key_id))
        if cached is not None:
            return cached
        found = await self._table.by_id(tenant, key_id)
        if found is None:
            raise EnvelopeUnreadable(f"no key {key_id} in this store")
        key = await self._unwrapped(tenant, found)
        _remember(self._by_id, (tenant, key_id), key)
        return key

    async def subject_id(self, tenant: UUID, user: str) -> UUID:
        """The subject whose data a user's rows are. Raises StoreUnavailable while the tenant key is not cached."""
        return keyed_id(await self.chain_key(tenant), "subject", user)

    async def chain_key(self, tenant: UUID) -> bytes:
        """32 bytes for the message chain and for keyed ids, from the tenant key."""
        return await self._derive(tenant, b"chain")

    async def content_key(self, tenant: UUID) -> bytes:
        """32 bytes for content keys and tombstones, from the tenant key."""
        return await self._derive(tenant, b"content")

    async def audit_key(self, tenant: UUID) -> bytes:
        """32 bytes for the chain of the tenant's audit log, from the tenant key."""
        return await self._derive(tenant, b"audit")

    async def canary_key(self, tenant: UUID) -> bytes:
        """32 bytes for the tenant's canary, from the tenant key."""
        return await self._derive(tenant, b"canary")

    def drop(self, tenant: UUID, key_id: UUID) -> None:
        """Forget a key that was shredded or retired elsewhere."""
        self._by_id.pop((tenant, key_id), None)
        for owner in [owner for owner, key in self._current.items() if owner[0] == tenant and key.key_id == key_id]:
            del self._current[owner]

    async def _derive(self, tenant: UUID, info: bytes) -> bytes:
        known = self._derived.get((tenant, info))
        if known is None:
            known = self._derived[tenant, info] = _hkdf((await self.tenant_key(tenant)).secret, info)
        return known

    async def _get(self, tenant: UUID, subject: UUID | None) -> DataKey:
        cached = self._current.get((tenant, subject))
        if cached is not None:
            self._current.move_to_end((tenant, subject))
            return cached
        found = await self._table.current(tenant, subject)
        if found is None:
            await self._table.add(tenant, await self._fresh(tenant, subject), self._clock())
            found = await self._table.current(tenant, subject)  # the winner's, where two made one at the same time
        if found is None:
            raise StoreUnavailable("a data key was stored and is not there")
        key = await self._unwrapped(tenant, found)
        _remember(self._current, (tenant, subject), key)
        if (tenant, None) in self._current:  # what seals while the store is away must not be the one that is dropped
            self._current.move_to_end((tenant, None))
        _remember(self._by_id, (tenant, key.key_id), key)
        return key

    async def _fresh(self, tenant: UUID, subject: UUID | None) -> WrappedKey:
        key_id = new_id()
        wrapper = self._master if subject is None else await self.tenant_key(tenant)
        return WrappedKey(key_id, subject, seal(wrapper, _binding(tenant, subject, key_id), os.urandom(KEY_BYTES)))

    async def _unwrapped(self, tenant: UUID, key: WrappedKey) -> DataKey:
        if key.wrapped is None:
            raise EnvelopeUnreadable(f"key {key.key_id} was shredded")
        wrapper = self._master
        if key.subject_id is not None:
            wrapper = await self.by_id(tenant, key_id_of(key.wrapped))
        return DataKey(key.key_id, unseal(wrapper, _binding(tenant, key.subject_id, key.key_id), key.wrapped))


def tenant_salt(chain_key: bytes, client_salt: str | None) -> str:
    """The cache_salt of a tenant, the client's own folded in; never the client's alone (DESIGN promise 5)."""
    words = b"cache_salt\x00" + (client_salt or "").encode("utf-8", "surrogatepass")
    return hmac.digest(chain_key, words, "sha256").hex()


def load_or_create_master_key(path: Path) -> bytes:
    """The 32 bytes in `path`; made with mode 0600 when the file is not there. Raises StartFailed with the remedy.

    Two processes that start at once get the same key: the file appears whole or not at all, and the first one stays.
    """
    if not path.exists():
        _create_once(path, os.urandom(KEY_BYTES))
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        secret = path.read_bytes()
    except OSError as exc:
        raise StartFailed(
            f"the master key {path} cannot be read ({exc.strerror}); give this user access to it"
        ) from exc
    if mode & 0o077:
        raise StartFailed(f"the master key {path} has mode {mode:04o}, others can read it; run: chmod 600 {path}")
    if len(secret) != KEY_BYTES:
        raise StartFailed(
            f"the master key {path} has {len(secret)} bytes, not {KEY_BYTES}; restore it from the backup (without it "
            "nothing sealed can be opened), or remove it where the store is empty"
        )
    return secret


def _create_once(path: Path, secret: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        finally:
            draft.unlink()
        _sync_directory(path.parent)
    except OSError as exc:
        raise StartFailed(f"the master key {path} cannot be made ({exc.strerror}); choose another --data-dir") from exc


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _binding(tenant: UUID, subject: UUID | None, key_id: UUID) -> Binding:
    return Binding(tenant, subject or _NO_SUBJECT, key_id, "key")


def _hkdf(secret: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869), 32 bytes, no salt: the input is uniformly random."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def _remember(cache: OrderedDict[K, DataKey], name: K, key: DataKey) -> None:
    cache[name] = key
    cache.move_to_end(name)
    while len(cache) > CACHE_KEYS_MAX:
        cache.popitem(last=False)
