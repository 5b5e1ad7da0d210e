"""Keys: a master key in (memory/master.py), data keys for tenants and subjects out.

master key -> tenant key -> subject key, each wrapped in an envelope under the one before. Keys are cached in process,
so sealing goes on while the store is away: then a subject whose key is not cached is sealed under the tenant's.
A rotated key is noticed within CURRENT_STALE. Refuses what no master key here opens.
"""

from __future__ import annotations

import asyncio
import copy
import hmac
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol, TypeVar
from uuid import UUID

from memory.envelope import KEY_BYTES, Binding, DataKey, key_id_of, seal, unseal
from memory.errors import EnvelopeUnreadable, KeyShredded, StoreUnavailable
from memory.flights import Flights
from memory.ids import keyed_id, new_id
from memory.master import RECEIPTS, LocalMaster, MasterKey, hkdf, load_or_create_master_key

CACHE_KEYS_MAX: Final = 10_000
# How long a process may go on sealing under a subject's key that was rotated or shredded elsewhere.
CURRENT_STALE: Final = timedelta(seconds=60)
# A store that does not tell a salt is asked for it once in so long, and one request waits for it.
SALT_AGAIN_S: Final = 1.0
# A rebuilt body is tried with so many former salts of its tenant at most; they rotate once per `salt_rotation_min_s`.
FORMER_SALTS_MAX: Final = 64
K = TypeVar("K")
_NO_SUBJECT: Final = UUID(int=0)
__all__ = ["KeyRing", "KeyTable", "WrappedKey", "load_or_create_master_key", "tenant_salt"]


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

    async def salt_generation(self, tenant: UUID) -> int:
        """How often the tenant's cache_salt was rotated. Raises StoreUnavailable."""


@dataclass(slots=True)
class _Drops:
    """How often keys were dropped, from a ring and all that are over another table: what was read across one is kept
    nowhere."""

    count: int = 0


class KeyRing:
    """Data keys by whom they belong to. One per process; holds at most CACHE_KEYS_MAX keys in clear."""

    def __init__(
        self, table: KeyTable, master: bytes | MasterKey, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._table = table
        self._clock = clock
        self._master = LocalMaster(master) if isinstance(master, bytes) else master
        self._read_at: dict[tuple[UUID, UUID | None], datetime] = {}
        self._current: OrderedDict[tuple[UUID, UUID | None], DataKey] = OrderedDict()
        self._by_id: OrderedDict[tuple[UUID, UUID], DataKey] = OrderedDict()
        self._derived: dict[tuple[UUID, bytes], bytes] = {}
        self._salts: dict[UUID, bytes] = {}
        self._old_salts: dict[UUID, bytes] = {}
        self._salts_read: dict[UUID, asyncio.Task[bytes]] = {}  # under way
        self._salt_asked_at: dict[UUID, float] = {}
        self._flights: Flights[tuple[UUID, UUID | None], DataKey] = Flights()
        self._drops = _Drops()

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

    def at_hand(self, tenant: UUID, subject: UUID) -> DataKey | None:
        """The key of a subject's data where it is cached and need not be asked for again; costs nothing."""
        cached = self._current.get((tenant, subject))
        if cached is None or self._is_stale(tenant, subject, self._clock()):
            return None
        self._current.move_to_end((tenant, subject))
        return cached

    def over(self, table: KeyTable) -> KeyRing:
        """The same keys, those not cached read through another table: that of a transaction already open."""
        other = copy.copy(self)
        other._table = table
        other._flights = Flights()  # what another table reads is not waited for
        return other

    async def existing_key(self, tenant: UUID, subject: UUID | None) -> DataKey:
        """The key that seals a subject's rows, the tenant's where the subject has none. Makes no key.

        For use inside a transaction: a key made there would be lost with it. Raises StoreUnavailable where the tenant
        has no key yet.
        """
        key = await self._held(tenant, subject)
        if key is None and subject is not None:
            key = await self._held(tenant, None)
        if key is None:
            raise StoreUnavailable("the tenant has no data key yet")
        return key

    async def knows(self, tenant: UUID) -> bool:
        """Whether a tenant has a key; asking makes none. Raises StoreUnavailable."""
        return await self._held(tenant, None) is not None

    async def renew(self, tenant: UUID, subject: UUID) -> WrappedKey:
        """A fresh key for a subject, wrapped under the tenant's, for the store to put in force."""
        return await self._fresh(tenant, subject)

    def is_wrapped_by_current(self, key: WrappedKey) -> bool:
        """Whether a tenant's key lies under the master key in force, not a previous one. Shredded: nothing to do."""
        return key.wrapped is None or self._master.is_current(key.wrapped)

    async def rewrapped(self, tenant: UUID, key: WrappedKey) -> WrappedKey:
        """A tenant's key under the master key in force. Raises EnvelopeUnreadable where no master key opens it."""
        clear = await self._unwrapped(tenant, key)
        return WrappedKey(key.key_id, None, await self._master.wrap(_binding(tenant, None, key.key_id), clear.secret))

    async def by_id(self, tenant: UUID, key_id: UUID) -> DataKey:
        """The key an envelope names. Raises EnvelopeUnreadable when unknown, KeyShredded, StoreUnavailable."""
        cached = self._by_id.get((tenant, key_id))
        if cached is not None:
            return cached
        drops = self._drops.count
        found = await self._table.by_id(tenant, key_id)
        if found is None:
            raise EnvelopeUnreadable(f"no key {key_id} in this store")
        key = await self._unwrapped(tenant, found)
        if drops == self._drops.count:
            _remember(self._by_id, (tenant, key_id), key)
        return key

    async def subject_id(self, tenant: UUID, user: str) -> UUID:
        """The subject whose data a user's rows are. Raises StoreUnavailable while the tenant key is not cached."""
        return keyed_id(await self.chain_key(tenant), "subject", user)

    async def chain_key(self, tenant: UUID) -> bytes:
        """32 bytes for the message chain and for keyed ids, from the tenant key."""
        return await self._derive(tenant, b"chain")

    async def names_key(self) -> bytes:
        """32 bytes for names that are not to be read, from the master key: known before any store answers."""
        return await self._master.derived(b"names")

    async def content_key(self, tenant: UUID) -> bytes:
        """32 bytes for content keys and tombstones, from the tenant key."""
        return await self._derive(tenant, b"content")

    async def audit_key(self, tenant: UUID) -> bytes:
        """32 bytes for the chain of the tenant's audit log, from the tenant key."""
        return await self._derive(tenant, b"audit")

    async def canary_key(self, tenant: UUID) -> bytes:
        """32 bytes for the tenant's canary, from the tenant key."""
        return await self._derive(tenant, b"canary")

    async def salt_key(self, tenant: UUID, within_s: float | None = None) -> bytes:
        """32 bytes that a tenant's cache_salt is made of: others after each rotation. Where the store does not tell
        them `within_s`, those of before, and for SALT_AGAIN_S nobody else waits. None: the store is waited for.

        Raises StoreUnavailable where there are none of before.
        """
        known = self._salts.get(tenant)
        if known is not None:
            return known
        old, reading = self._old_salts.get(tenant), self._salts_read.get(tenant)
        now = time.monotonic()
        waits = within_s is None or now - self._salt_asked_at.get(tenant, -math.inf) >= SALT_AGAIN_S
        if waits or (old is None and reading is not None):
            self._salt_asked_at[tenant] = now
            reading = reading or self._begun_to_read_salt(tenant)
            await asyncio.wait([reading], timeout=within_s)
            if reading.done():
                try:
                    return reading.result()
                except StoreUnavailable:
                    if old is None:
                        raise
        if old is None:
            raise StoreUnavailable("the store does not tell the tenant's salt")
        return old

    async def salt_keys(self, tenant: UUID) -> tuple[bytes, ...]:
        """What the tenant's cache_salt was ever made of, the newest first, at most FORMER_SALTS_MAX of them.

        A body that was sent before a rotation is rebuilt with the salt of then. Raises StoreUnavailable.
        """
        chain = await self.chain_key(tenant)
        newest = await self._table.salt_generation(tenant)
        oldest = max(newest - FORMER_SALTS_MAX + 1, 0)
        return tuple(_salt_key(chain, generation) for generation in range(newest, oldest - 1, -1))

    async def receipt_seed(self) -> bytes:
        """32 bytes that the installation's receipts are signed by. Raises StoreUnavailable where a KMS is away."""
        return await self._master.derived(RECEIPTS)

    def drop_salt(self, tenant: UUID) -> None:
        """Ask the store again: it was rotated. While the store is away the old one goes on."""
        self._salts_read.pop(tenant, None)  # what is being read may be the old one
        self._salt_asked_at.pop(tenant, None)
        if (old := self._salts.pop(tenant, None)) is not None:
            self._old_salts[tenant] = old

    def drop_salts(self) -> None:
        """Ask the store for every tenant's again."""
        for tenant in {*self._salts, *self._salts_read}:
            self.drop_salt(tenant)

    def drop_subject(self, tenant: UUID, subject_id: UUID) -> None:
        """Seal nothing more under a subject's key: it was retired. What it sealed can still be read."""
        self._current.pop((tenant, subject_id), None)
        self._read_at.pop((tenant, subject_id), None)
        self._let_go_of_readings()

    def drop_subjects(self) -> None:
        """Forget every subject's key: any may have been shredded. Those of tenants never are, and seal meanwhile."""
        stay = {(tenant, key.key_id) for (tenant, subject), key in self._current.items() if subject is None}
        for name in [name for name in self._by_id if name not in stay]:
            del self._by_id[name]
        for owner in [owner for owner in self._current if owner[1] is not None]:
            del self._current[owner]
        self._read_at.clear()
        self._let_go_of_readings()

    def drop(self, tenant: UUID, key_id: UUID) -> None:
        """Forget a key that was shredded or retired elsewhere."""
        self._by_id.pop((tenant, key_id), None)
        for owner in [owner for owner, key in self._current.items() if owner[0] == tenant and key.key_id == key_id]:
            del self._current[owner]
            self._read_at.pop(owner, None)
        self._let_go_of_readings()

    def _let_go_of_readings(self) -> None:
        """What is being read may be what was dropped."""
        self._flights.let_go()
        self._drops.count += 1

    def _begun_to_read_salt(self, tenant: UUID) -> asyncio.Task[bytes]:
        """The one reading of a tenant's salt that is under way: it goes on when nobody waits for it any more."""
        reading = self._salts_read[tenant] = asyncio.create_task(self._read_salt(tenant))
        reading.add_done_callback(partial(self._salt_read, tenant))
        return reading

    async def _read_salt(self, tenant: UUID) -> bytes:
        chain = await self.chain_key(tenant)
        return _salt_key(chain, await self._table.salt_generation(tenant))

    def _salt_read(self, tenant: UUID, reading: asyncio.Task[bytes]) -> None:
        failed = reading.cancelled() or reading.exception() is not None
        if self._salts_read.get(tenant) is reading:
            del self._salts_read[tenant]
            if not failed:
                self._salts[tenant] = reading.result()

    async def _derive(self, tenant: UUID, info: bytes) -> bytes:
        known = self._derived.get((tenant, info))
        if known is None:
            known = self._derived[tenant, info] = hkdf((await self.tenant_key(tenant)).secret, info)
        return known

    async def _held(self, tenant: UUID, subject: UUID | None) -> DataKey | None:
        """A key that is cached, or in the store."""
        cached = await self._cached(tenant, subject)
        if cached is not None:
            return cached
        drops = self._drops.count
        found = await self._table.current(tenant, subject)
        return None if found is None else self._keep(tenant, subject, await self._unwrapped(tenant, found), drops)

    async def _get(self, tenant: UUID, subject: UUID | None) -> DataKey:
        cached = await self._cached(tenant, subject)
        if cached is not None:
            self._current.move_to_end((tenant, subject))
            return cached
        return await self._flights.share((tenant, subject), lambda: self._found_or_made(tenant, subject))

    async def _cached(self, tenant: UUID, subject: UUID | None) -> DataKey | None:
        """A key that is cached and still in force, and was not dropped while the store was asked whether it is."""
        cached = self._current.get((tenant, subject))
        if cached is None or await self._replaced(tenant, subject, cached):
            return None
        return cached if self._current.get((tenant, subject)) is cached else None

    async def _found_or_made(self, tenant: UUID, subject: UUID | None) -> DataKey:
        """A key out of the store, one reading for all who want it at once: the ledger's note of a new user's first
        prompt and the exchange itself wait for the same.
        """
        drops = self._drops.count
        found = await self._table.current(tenant, subject)
        if found is None:
            await self._table.add(tenant, await self._fresh(tenant, subject), self._clock())
            found = await self._table.current(tenant, subject)  # the winner's, where two made one at the same time
        if found is None:
            raise StoreUnavailable("a data key was stored and is not there")
        return self._keep(tenant, subject, await self._unwrapped(tenant, found), drops)

    async def _replaced(self, tenant: UUID, subject: UUID | None, cached: DataKey) -> bool:
        """Whether a subject's key was rotated or shredded since; asked once in CURRENT_STALE, and no while the store
        is away. A tenant's key is what its ids are made from, so it never is.
        """
        now = self._clock()
        if subject is None or not self._is_stale(tenant, subject, now):
            return False
        self._read_at[tenant, subject] = now
        try:
            found = await self._table.current(tenant, subject)
        except StoreUnavailable:
            return False
        except asyncio.CancelledError:  # who leaves has heard nothing
            self._read_at.pop((tenant, subject), None)
            raise
        return found is None or found.key_id != cached.key_id

    def _is_stale(self, tenant: UUID, subject: UUID, now: datetime) -> bool:
        """A time that is yet to come says nothing: the clock was turned back."""
        read_at = self._read_at.get((tenant, subject))
        return read_at is None or not timedelta() <= now - read_at < CURRENT_STALE

    def _keep(self, tenant: UUID, subject: UUID | None, key: DataKey, drops: int) -> DataKey:
        """The key, remembered unless any was dropped since it was asked for."""
        if drops != self._drops.count:
            return key
        for owner in _remember(self._current, (tenant, subject), key):
            self._read_at.pop(owner, None)
        if subject is not None:
            self._read_at[tenant, subject] = self._clock()
        if (tenant, None) in self._current:  # what seals while the store is away must not be the one that is dropped
            self._current.move_to_end((tenant, None))
        _remember(self._by_id, (tenant, key.key_id), key)
        return key

    async def _fresh(self, tenant: UUID, subject: UUID | None) -> WrappedKey:
        key_id = new_id()
        binding, secret = _binding(tenant, subject, key_id), os.urandom(KEY_BYTES)
        if subject is None:
            return WrappedKey(key_id, None, await self._master.wrap(binding, secret))
        return WrappedKey(key_id, subject, seal(await self.tenant_key(tenant), binding, secret))

    async def _unwrapped(self, tenant: UUID, key: WrappedKey) -> DataKey:
        if key.wrapped is None:
            raise KeyShredded(f"key {key.key_id} was shredded")
        binding = _binding(tenant, key.subject_id, key.key_id)
        if key.subject_id is None:
            return DataKey(key.key_id, await self._master.unwrap(binding, key.wrapped))
        return DataKey(key.key_id, unseal(await self.by_id(tenant, key_id_of(key.wrapped)), binding, key.wrapped))


def tenant_salt(salt_key: bytes, client_salt: str | None) -> str:
    """The cache_salt of a tenant, the client's own folded in; never the client's alone (DESIGN promise 5)."""
    words = b"cache_salt\x00" + (client_salt or "").encode("utf-8", "surrogatepass")
    return hmac.digest(salt_key, words, "sha256").hex()


def _salt_key(chain_key: bytes, generation: int) -> bytes:
    return chain_key if generation == 0 else hkdf(chain_key, b"salt %d" % generation)


def _binding(tenant: UUID, subject: UUID | None, key_id: UUID) -> Binding:
    return Binding(tenant, subject or _NO_SUBJECT, key_id, "key")


def _remember(cache: OrderedDict[K, DataKey], name: K, key: DataKey) -> list[K]:
    """Hold a key; the names that had to go for it."""
    cache[name] = key
    cache.move_to_end(name)
    return [cache.popitem(last=False)[0] for _ in range(len(cache) - CACHE_KEYS_MAX)]
