"""`memory-proxy encryption`: resolved settings in, the standing of encryption at rest on stdout, progress on stderr.

`rotate` makes new data keys and goes over all rows; then it waits until no process can seal under an old key any more
and goes over them once more. `rewrap` moves tenant keys to the master key in force. Refuses (exit code 2) a master key
that does not open what it should.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Final

import uvloop

from memory.adapters.postgres.database import Bounds, Database
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.rotation import Counts, Rotation
from memory.config import Settings
from memory.errors import ConfigInvalid, EnvelopeUnreadable, StartFailed
from memory.key_wiring import master_of
from memory.keys import CURRENT_STALE, KeyRing

_READ_AGAIN: Final = timedelta(seconds=5)
"""For a process that is at it when its key becomes stale."""
_FEW: Final = Bounds(connections_max=2, statement_timeout_ms=60_000)
_SHOWN: Final = {
    "sealed": "rows and vectors sealed",
    "old": "of these under a key no longer in force",
    "open": "labelled confidential, stored open (before 0017); rotate seals them",
    "unreadable": "that do not open",
    "moved": "sealed anew by this run",
    "keys": "keys",
    "keys_retired": "of these no longer in force, kept for what they sealed",
    "keys_rotated": "rotated by this run",
    "keys_to_rewrap": "tenant keys under a previous master key",
    "keys_rewrapped": "of these moved by this run",
}


async def encryption(settings: Settings, mode: str, older_days: float, *, as_json: bool) -> int:
    """Show, rotate or rewrap; the exit code. Raises ConfigInvalid, StartFailed, StoreUnavailable."""
    if settings.database.url is None:
        raise ConfigInvalid("database.url is not resolved")
    if mode not in ("status", "rotate", "rewrap"):
        raise ConfigInvalid("encryption --mode is one of status, rotate, rewrap")
    database = await Database.open(settings.database.url.get_secret_value(), _FEW)
    try:
        rotation = Rotation(database, KeyRing(KeyStore(database), master_of(settings)))
        if mode == "rotate":
            counts = await rotated(rotation, timedelta(days=older_days), asyncio.sleep)
        else:
            counts = await standing(rotation, rewrap=mode == "rewrap")
    except EnvelopeUnreadable as fault:
        raise StartFailed(f"{fault}; give the key before as encryption.previous_master_key_file") from fault
    finally:
        await database.close()
    sys.stdout.write(json.dumps(asdict(counts)) + "\n" if as_json else shown(counts))
    return 0


async def standing(rotation: Rotation, *, rewrap: bool = False) -> Counts:
    """What there is; `rewrap`: and tenant keys moved to the master key in force."""
    total = Counts()
    for tenant in await rotation.tenants():
        total.add(await rotation.rewrap_keys(tenant, dry=not rewrap))
        async for counts in rotation.walk(tenant, dry=True):
            total.add(counts)
    return total


async def rotated(rotation: Rotation, older: timedelta, sleep: Callable[[float], Awaitable[None]]) -> Counts:
    """New keys, and every row under them. Keys made within `older` are left, so that a second run goes on."""
    now, total = datetime.now(UTC), Counts()
    for tenant in await rotation.tenants():
        total.add(await rotation.rotate_keys(tenant, now - older, now))
    _tell(f"{total.keys_rotated} keys rotated")
    await _all_walked(rotation, total)
    if (wait_s := await _still_sealing_s(rotation)) > 0:
        _tell(f"waiting {wait_s:.0f} s for what running processes still seal under the old keys")
        await sleep(wait_s)
        await _all_walked(rotation, total)
    for tenant in await rotation.tenants():
        total.add(await rotation.rewrap_keys(tenant, dry=True))
    return total


async def _still_sealing_s(rotation: Rotation) -> float:
    """How long a running process may yet seal under a key that was replaced: also one that a killed run replaced."""
    replaced = [at for tenant in await rotation.tenants() if (at := await rotation.last_retired(tenant)) is not None]
    if not replaced:
        return 0.0
    return (max(replaced) + CURRENT_STALE + _READ_AGAIN - datetime.now(UTC)).total_seconds()


async def _all_walked(rotation: Rotation, total: Counts) -> None:
    """Go over every row; the counts of rows are those of this walk, only what was moved adds up."""
    moved, seen = total.moved, Counts()
    for tenant in await rotation.tenants():
        async for counts in rotation.walk(tenant):
            seen.add(counts)
            if seen.sealed and seen.sealed % 10_000 < 500:
                _tell(f"{seen.sealed} rows and vectors seen, {seen.moved} sealed anew")
    total.sealed, total.old, total.open, total.unreadable = seen.sealed, seen.old, seen.open, seen.unreadable
    total.moved = moved + seen.moved


def shown(counts: Counts) -> str:
    """The standing as people read it."""
    return "".join(f"{getattr(counts, name):>9}  {words}\n" for name, words in _SHOWN.items())


def _tell(line: str) -> None:
    sys.stderr.write(f"encryption: {line}\n")
    sys.stderr.flush()


def command(settings: Settings, given: argparse.Namespace) -> int:
    """Say what is sealed by which key, or rotate. The exit code."""
    return uvloop.run(encryption(settings, given.mode, given.older_days, as_json=given.json))
