"""Keys: made once, wrapped, cached, unreadable once shredded; API keys stored as a digest."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore, secret_digest
from memory.envelope import Binding, seal, unseal
from memory.errors import EnvelopeUnreadable, StartFailed, StoreUnavailable
from memory.ids import keyed_id, new_id
from memory.keys import FORMER_SALTS_MAX, KeyRing, WrappedKey, load_or_create_master_key
from tests.key_table import Table
from tests.postgres_fixture import TestDatabase

NOW = datetime(2026, 11, 21, tzinfo=UTC)
MASTER = bytes(range(32))


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[KeyStore]:
    database = await Database.open(postgres.app)
    yield KeyStore(database)
    await database.close()


class BrokenTable:
    """A key table whose store went away."""

    async def current(self, tenant: UUID, subject_id: UUID | None) -> WrappedKey | None:
        raise StoreUnavailable("away")

    async def add(self, tenant: UUID, key: WrappedKey, now: datetime) -> None:
        raise StoreUnavailable("away")

    async def salt_generation(self, tenant: UUID) -> int:
        return 0

    async def by_id(self, tenant: UUID, key_id: UUID) -> WrappedKey | None:
        raise StoreUnavailable("away")


async def test_a_tenant_has_one_id_for_ever(store: KeyStore) -> None:
    found = await asyncio.gather(*(store.ensure_tenant("default", NOW) for _ in range(5)))
    assert len(set(found)) == 1
    assert await store.ensure_tenant("other", NOW) != found[0]


async def test_former_salts_are_known_newest_first_and_bounded() -> None:
    tenant, table = UUID(int=1), Table()
    ring = KeyRing(table, MASTER)
    before = await ring.salt_key(tenant)
    assert await ring.salt_keys(tenant) == (before,)
    table.generation = 2
    ring.drop_salt(tenant)
    former = await ring.salt_keys(tenant)
    assert len(set(former)) == 3
    assert (former[0], former[-1]) == (await ring.salt_key(tenant), before)
    table.generation = 1000
    assert len(await ring.salt_keys(tenant)) == FORMER_SALTS_MAX


async def test_every_process_gets_the_same_keys(store: KeyStore) -> None:
    tenant = await store.ensure_tenant("default", NOW)
    rings = [KeyRing(store, MASTER) for _ in range(6)]
    keys = await asyncio.gather(*(ring.subject_key(tenant, "ada") for ring in rings))
    assert len({(key.key_id, key.secret) for key in keys}) == 1
    tenant_keys = [await ring.tenant_key(tenant) for ring in rings]
    assert len({key.secret for key in tenant_keys}) == 1
    assert tenant_keys[0].secret != keys[0].secret
    assert await rings[0].subject_id(tenant, "ada") == keyed_id(await rings[1].chain_key(tenant), "subject", "ada")
    assert await rings[0].chain_key(tenant) != await rings[0].content_key(tenant)


async def test_what_was_sealed_opens_by_the_key_its_envelope_names(store: KeyStore) -> None:
    tenant = await store.ensure_tenant("default", NOW)
    key = await KeyRing(store, MASTER).subject_key(tenant, "ada")
    binding = Binding(tenant, new_id(), new_id(), "exchange")
    envelope = seal(key, binding, b"hello")
    later = await KeyRing(store, MASTER).by_id(tenant, key.key_id)
    assert unseal(later, binding, envelope) == b"hello"


async def test_a_shredded_key_opens_nothing_and_a_new_one_is_made(store: KeyStore, postgres: TestDatabase) -> None:
    tenant = await store.ensure_tenant("default", NOW)
    ring = KeyRing(store, MASTER)
    key = await ring.subject_key(tenant, "ada")
    postgres.psql(f"UPDATE data_keys SET wrapped = NULL, shredded_at = now() WHERE key_id = '{key.key_id}'")
    ring.drop(tenant, key.key_id)
    with pytest.raises(EnvelopeUnreadable, match="shredded"):
        await ring.by_id(tenant, key.key_id)
    assert (await ring.subject_key(tenant, "ada")).key_id != key.key_id
    with pytest.raises(EnvelopeUnreadable, match="no key"):
        await ring.by_id(tenant, new_id())


async def test_another_master_key_opens_nothing(store: KeyStore) -> None:
    tenant = await store.ensure_tenant("default", NOW)
    await KeyRing(store, MASTER).tenant_key(tenant)
    with pytest.raises(EnvelopeUnreadable):
        await KeyRing(store, bytes(32)).tenant_key(tenant)


async def test_sealing_survives_loss_of_the_store(store: KeyStore) -> None:
    tenant = await store.ensure_tenant("default", NOW)
    ring = KeyRing(store, MASTER)
    own = await ring.subject_key(tenant, "ada")
    ring._table = BrokenTable()
    assert await ring.subject_key(tenant, "ada") == own
    assert await ring.subject_key(tenant, "never seen") == await ring.tenant_key(tenant)
    with pytest.raises(StoreUnavailable):
        await KeyRing(BrokenTable(), MASTER).subject_key(tenant, "ada")


async def test_an_api_key_is_shown_once_and_known_by_its_digest(store: KeyStore, postgres: TestDatabase) -> None:
    tenant = await store.ensure_tenant("default", NOW)
    key_id, secret = await store.create_api_key(
        tenant, "laptop", NOW, fixed={"user": "ada"}, capabilities=["memory:write"], expires_at=NOW + timedelta(days=1)
    )
    assert re.fullmatch(r"mp-[0-9a-f]{8}-[A-Za-z0-9_-]{43}[0-9a-f]{8}", secret)
    known = (await store.all_active(NOW))[secret_digest(secret)]
    assert (known.key_id, known.tenant_id, known.fixed) == (key_id, tenant, {"user": "ada"})
    assert known.capabilities == ("memory:write",)
    assert secret[12:] not in postgres.psql("SELECT * FROM api_keys")
    assert await store.all_active(NOW + timedelta(days=2)) == {}
    assert not await store.revoke_api_key(new_id(), key_id, NOW)
    assert await store.revoke_api_key(tenant, key_id, NOW)
    assert not await store.revoke_api_key(tenant, key_id, NOW)
    assert await store.all_active(NOW) == {}
    assert [key.revoked_at for key in await store.list_api_keys(tenant)] == [NOW]


def test_a_master_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    secret = load_or_create_master_key(path)
    assert len(secret) == 32
    assert load_or_create_master_key(path) == secret
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_master_key_others_can_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    load_or_create_master_key(path)
    path.chmod(0o640)
    with pytest.raises(StartFailed, match="chmod 600"):
        load_or_create_master_key(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(StartFailed, match="5 bytes, not 32"):
        load_or_create_master_key(path)
    with pytest.raises(StartFailed, match="cannot be made"):
        load_or_create_master_key(tmp_path / "absent" / "master.key")
