"""Where a process gets its keys: resolved settings and a pool in, the key ring and a pool that seals out.

Named by both wirings and by the commands that read what is stored. Raises ConfigInvalid, StartFailed with the remedy.
"""

from __future__ import annotations

import os
from pathlib import Path

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.row_vault import vaulted
from memory.config import Settings
from memory.errors import ConfigInvalid
from memory.keys import KeyRing
from memory.master import LocalMaster, master_key


def master_of(settings: Settings) -> LocalMaster:
    """The master key as configured. Any other MasterKey (a KMS) is plugged in here (docs/seams.md)."""
    given = settings.encryption
    return master_key(given.master_key_file or master_file(settings), given.previous_master_key_file, os.environ)


def master_file(settings: Settings) -> Path:
    """Where the master key lies unless something else is configured."""
    if settings.data.dir is None:
        raise ConfigInvalid("data.dir is not resolved: this process is started by `memory-proxy serve`")
    return settings.data.dir / "master.key"


def with_keys(settings: Settings, database: Database) -> tuple[Database, KeyRing]:
    """The same pool, which seals and opens what is confidential, and the ring it does so with."""
    keys = KeyRing(KeyStore(database), master_of(settings))
    return vaulted(database, keys), keys
