"""The commands of `python -m memory` that are made of nearly all there is: settings and options in, an exit code out.

The others have modules of their own: who makes a key does not wait for what a worker imports.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from typing import Final

import uvloop

from memory.adapters.language import LanguageModel
from memory.adapters.postgres.database import NIGHTLY, Database
from memory.adapters.postgres.migrate import check, lacks, migrate, pending
from memory.adapters.postgres.serving_store import ServingStore
from memory.config import Settings
from memory.errors import ConfigInvalid, StartFailed, StoreUnavailable
from memory.forget_command import cleaned
from memory.key_wiring import with_keys
from memory.settling import settle
from memory.telemetry import Metrics
from memory.wiring import consolidation, holder_name, prepared, step_back, work
from memory.write.consolidate import Standing
from memory.write.consolidate_report import shown, told

TRY_AGAIN: Final = 75


def worker_command(settings: Settings, _: argparse.Namespace) -> int:
    """Serve the write path until told to stop. The exit code."""
    uvloop.run(work(settings))
    return 0


def migrate_command(settings: Settings, given: argparse.Namespace) -> int:
    """Bring the schema up to date, or compare it. The exit code."""
    if given.mode == "check":
        return uvloop.run(compared(settings))
    uvloop.run(migrated(settings))
    return 0


def consolidate_command(settings: Settings, given: argparse.Namespace) -> int:
    """Consolidate now, rehearse it, or show the last run. The exit code."""
    return uvloop.run(consolidated(settings, given.mode, as_json=given.json))


async def migrated(settings: Settings) -> None:
    """Bring the schema up to date, make the model's table. Raises StoreUnavailable, StartFailed, ModelFileInvalid."""
    url = _owner(settings)
    await migrate(url)
    if lacking := await lacks(url):
        named = ", ".join(lacking[:3])
        raise StartFailed(
            f"the database has no {named}{' …' if len(lacking) > 3 else ''} ({len(lacking)} in all), although every "
            "migration is noted as applied: another build made it; remedy: `memory-proxy export` with that build, and "
            "import into a database of its own (embedded: another data directory)"
        )
    await settle(settings, url)
    await cleaned(settings)


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


async def consolidated(settings: Settings, mode: str, *, as_json: bool) -> int:
    """Consolidate now, rehearse it, or show the last run: progress on stderr, the report on stdout. The exit code."""
    step_back()
    if settings.database.url is None:
        raise ConfigInvalid("database.url is not resolved")
    database, _ = with_keys(settings, await Database.open(settings.database.url.get_secret_value(), NIGHTLY))
    try:
        serving = await ServingStore(database).serving()
        if serving is None:
            raise StoreUnavailable("the store has not been started yet")
        embedder, languages = await asyncio.gather(
            asyncio.to_thread(prepared, settings, serving.model), asyncio.to_thread(LanguageModel)
        )
        one = consolidation(settings, database, embedder, languages, Metrics(), holder_name(), serving.model.table)
        if mode == "last":
            sys.stdout.write(shown(await one.last(), as_json=as_json))
            return 0
        began = datetime.now(UTC)
        report = await (one.rehearse(told) if mode == "dry-run" else one.run(told))
    finally:
        await database.close()
    if report is None:
        sys.stderr.write("another process consolidates; `memory-proxy consolidate` shows how far it is\n")
        return TRY_AGAIN
    standing = Standing(began, datetime.now(UTC), tuple(one.as_json() for one in report))
    sys.stdout.write(shown(standing, as_json=as_json, rehearsed=mode == "dry-run"))
    return 0
