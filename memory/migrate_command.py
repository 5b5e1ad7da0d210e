"""`migrate`: settings and options in, an up-to-date schema or what of it differs out.

Between a service's stores and its first memory worker, which a start waits for: 1.1 s of CPU time on a slow core, 3.6
with all that a worker imports. What opens keys and what erases is loaded only where there is a service to make ready,
the latter only where the journal says that something was erased.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable

import uvloop

from memory.adapters.postgres.database import POOLER
from memory.adapters.postgres.fitness import keeps_prepared
from memory.adapters.postgres.migrate import admits, check, lacks, migrate, pending, reached, same_database
from memory.adapters.postgres.scrub import after_a_killed_one, data_directory
from memory.config import Settings, effective_journal
from memory.erasure import journal
from memory.errors import ConfigInvalid, StartFailed
from memory.settling import settle


def command(settings: Settings, given: argparse.Namespace) -> int:
    """Bring the schema up to date, or compare it. The exit code."""
    if given.mode == "check":
        return uvloop.run(compared(settings))
    uvloop.run(migrated(settings))
    return 0


async def migrated(settings: Settings) -> None:
    """Bring the schema up to date, make the model's table. Raises StoreUnavailable, StartFailed, ModelFileInvalid."""
    url = _owner(settings)
    await reached(url)
    await migrate(url)
    if lacking := await lacks(url):
        named = ", ".join(lacking[:3])
        raise StartFailed(
            f"the database has no {named}{' …' if len(lacking) > 3 else ''} ({len(lacking)} in all), although every "
            "migration is noted as applied: another build made it; remedy: `memory-proxy export` with that build, and "
            "import into a database of its own (embedded: another data directory)"
        )
    if settings.database.url is not None:
        served = settings.database.url.get_secret_value()
        if served != url:
            await same_database(url, served)
        await admits(served)
    if settings.data.dir is not None and await data_directory(url) == settings.data.dir / "pg":
        await after_a_killed_one(url)
    elif settings.database.url is not None and not await keeps_prepared(settings.database.url.get_secret_value()):
        raise StartFailed(f"database.url leads through a pooler that loses what was prepared; remedy: {POOLER}")
    await settle(settings, url)
    await _opened(settings)
    await _claimed(settings)
    await _cleaned(settings)


async def compared(settings: Settings) -> int:
    """Say on stdout what of the live schema differs from this version's. The exit code: 1 where anything does."""
    url = _owner(settings)
    waiting, differences = await pending(url), await check(url)
    if waiting:
        differences.insert(0, f"- {waiting} migrations, which `memory-proxy migrate` applies")
    sys.stdout.write("".join(f"{line}\n" for line in differences) or "the schema is this version's\n")
    return 1 if differences else 0


def _owner(settings: Settings) -> str:
    url = settings.database.owner_url or settings.database.url
    if url is None:
        raise ConfigInvalid("database.url is not resolved")
    return url.get_secret_value()


async def _opened(settings: Settings) -> None:
    """Refuse a master key that does not open what lies in the store: a process would be ready for nothing, for ever.
    Raises StoreUnavailable, StartFailed.
    """
    if settings.data.dir is not None:
        opens: Callable[..., Awaitable[None]] = importlib.import_module("memory.key_wiring").opens
        await opens(settings, begins=True)


async def _claimed(settings: Settings) -> None:
    """Refuse a queue that is another service's. Raises StoreUnavailable, StartFailed."""
    if settings.data.dir is not None and settings.redis.url is not None:
        claim: Callable[[Settings], Awaitable[None]] = importlib.import_module("memory.key_wiring").has_its_queue
        await claim(settings)


async def _cleaned(settings: Settings) -> None:
    """Take out of an older copy of the database what the journal says was erased since; before anybody is answered.
    Raises StoreUnavailable, QueueUnavailable, LeaseLost, StartFailed: then nobody may be yet.
    """
    if settings.data.dir is None or settings.redis.url is None:
        return  # a bare `memory-proxy migrate`: there is no service to make ready
    path = effective_journal(settings, settings.data.dir)
    try:
        erased = await asyncio.to_thread(lambda: any(journal.names(path)))
    except OSError as fault:
        raise StartFailed(
            f"erasure.journal {path} cannot be read: {fault.strerror}; remedy: name a file, and give it to the account "
            "that runs memory-proxy"
        ) from fault
    if erased:
        clean: Callable[[Settings], Awaitable[None]] = importlib.import_module("memory.forget_command").cleaned
        await clean(settings)
