"""Where a process gets its keys: resolved settings and a pool in, the key ring and a pool that seals out.

Named by both wirings and by the commands that read what is stored. Raises ConfigInvalid, StartFailed with the remedy.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from memory.adapters.postgres.database import Bounds, Database
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.row_vault import vaulted
from memory.adapters.redis_owner import KEY, owner_of
from memory.config import Settings
from memory.errors import ConfigInvalid, EnvelopeUnreadable, QueueUnavailable, StartFailed
from memory.keys import KeyRing
from memory.master import ENVIRONMENT, LocalMaster, is_there, master_key
from memory.telemetry import event

log = logging.getLogger(__name__)

TENANTS_LOOKED_AT: Final = 100
_FEW: Final = Bounds(connections_max=1, acquire_timeout_s=10.0, statement_timeout_ms=60_000)


def master_of(settings: Settings) -> LocalMaster:
    """The master key as configured. Any other MasterKey (a KMS) is plugged in here (docs/seams.md)."""
    given = settings.encryption
    return master_key(given.master_key_file or master_file(settings), given.previous_master_key_file, os.environ)


def master_file(settings: Settings) -> Path:
    """Where the master key lies unless something else is configured."""
    if settings.data.dir is None:
        raise ConfigInvalid("data.dir is not resolved: this process is started by `memory-proxy serve`")
    return settings.data.dir / "master.key"


async def opens_beside(settings: Settings) -> None:
    """Refuse to work beside a service without its master key: one would be made anew here, and seal what the service
    cannot open. Raises StoreUnavailable, StartFailed with the remedy, ConfigInvalid.
    """
    path = settings.encryption.master_key_file or master_file(settings)
    if ENVIRONMENT not in os.environ and not is_there(path):
        raise StartFailed(
            f"the master key of the service is not here: there is no {path}; give the command {ENVIRONMENT} as the "
            "service has it"
        )
    await opens(settings)


async def opens(settings: Settings, *, begins: bool = False) -> None:
    """Refuse a master key that does not open the tenants' keys of this store, at `TENANTS_LOOKED_AT` of them. `begins`:
    for a start, which gives a store that has no key yet its first, so that of two that start on it at once one is told.

    Raises StoreUnavailable, StartFailed with the remedy, ConfigInvalid.
    """
    if settings.database.url is None:
        raise ConfigInvalid("database.url is not resolved")
    database, keys = with_keys(settings, await Database.open(settings.database.url.get_secret_value(), _FEW))
    try:
        if begins:
            await keys.tenant_key(await KeyStore(database).ensure_tenant("default", datetime.now(UTC)))
        for tenant in islice(await KeyStore(database).tenant_names(), TENANTS_LOOKED_AT):
            await keys.knows(tenant)
    except EnvelopeUnreadable as fault:
        raise StartFailed(
            f"the store is sealed under another master key than {_key_place(settings)} ({fault}), and one that is "
            "missing is made anew; remedy: put the former one back, from the backup or by mounting its volume, or "
            "name it in encryption.previous_master_key_file; services of one store are given the same. Without it "
            "nothing sealed can be opened"
        ) from fault
    finally:
        await database.close()


async def has_its_queue(settings: Settings) -> None:
    """Refuse a Redis that holds the queue of another store: each would bury what the other captures. One that does not
    answer now is not asked. Raises StoreUnavailable, StartFailed with the remedy.
    """
    if settings.database.url is None or settings.redis.url is None:
        raise ConfigInvalid("database.url or redis.url is not resolved")
    database = await Database.open(settings.database.url.get_secret_value(), _FEW)
    try:
        store = await KeyStore(database).ensure_tenant("default", datetime.now(UTC))
    finally:
        await database.close()
    try:
        owner = await owner_of(settings.redis.url.get_secret_value(), store)
    except QueueUnavailable as fault:
        event(log, "queue_not_asked", logging.WARNING, fault=str(fault))
        return
    if owner != str(store):
        raise StartFailed(
            f"redis.url holds the queue of another memory-proxy ({owner}; this one's is {store}), and each would bury "
            "what the other captures; remedy: give each a database of its own (redis://HOST/1; a cluster has only one: "
            "give each its cluster), or, where the other is gone for good with all that waited there, as one whose "
            f"database was made anew, delete the key {KEY} in it; of the embedded Valkey, which runs only with the "
            f"service, move {settings.data.dir}/valkey away"
        )


def _key_place(settings: Settings) -> str:
    return (
        ENVIRONMENT if ENVIRONMENT in os.environ else str(settings.encryption.master_key_file or master_file(settings))
    )


def with_keys(settings: Settings, database: Database) -> tuple[Database, KeyRing]:
    """The same pool, which seals and opens what is confidential, and the ring it does so with."""
    keys = KeyRing(KeyStore(database), master_of(settings))
    return vaulted(database, keys), keys
