"""The commands of `python -m memory` that are made of nearly all there is: settings and options in, an exit code out.

The others have modules of their own: who makes a key does not wait for what a worker imports.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from datetime import UTC, datetime

import uvloop

from memory.adapters.language import LanguageModel
from memory.adapters.postgres.database import NIGHTLY, Database
from memory.adapters.postgres.serving_store import ServingStore
from memory.config import Settings
from memory.consolidation import Counted
from memory.errors import TRY_AGAIN, ConfigInvalid, StoreUnavailable
from memory.key_wiring import with_keys
from memory.step_back import step_back
from memory.telemetry import Metrics
from memory.wiring import consolidation, holder_name, prepared, work
from memory.write.consolidate import LEASE_S, Consolidation, Say, Standing
from memory.write.consolidate_report import shown, told


def worker_command(settings: Settings, _: argparse.Namespace) -> int:
    """Serve the write path until told to stop. The exit code."""
    uvloop.run(work(settings))
    return 0


def consolidate_command(settings: Settings, given: argparse.Namespace) -> int:
    """Consolidate now, rehearse it, or show the last run. The exit code."""
    return uvloop.run(consolidated(settings, given.mode, as_json=given.json))


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
        report = await (one.rehearse(told) if mode == "dry-run" else in_turn(one, told))
    finally:
        await database.close()
    if report is None:
        sys.stderr.write("another process consolidates; `memory-proxy consolidate` shows how far it is\n")
        return TRY_AGAIN
    standing = Standing(began, datetime.now(UTC), tuple(one.as_json() for one in report))
    sys.stdout.write(shown(standing, as_json=as_json, rehearsed=mode == "dry-run"))
    return 0


async def in_turn(one: Consolidation, say: Say) -> list[Counted] | None:
    """A run, once no other process is at it. One that was killed is waited for as long as its lease can last."""
    until = time.monotonic() + LEASE_S + 1
    report = await one.run(say)
    if report is None:
        sys.stderr.write(f"another process consolidates, or was killed lately: waiting {LEASE_S:.0f} s for it\n")
    while report is None and time.monotonic() < until:
        await asyncio.sleep(1.0)
        report = await one.run(say)
    return report
