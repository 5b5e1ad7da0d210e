"""`python -m memory reembed`: what the command line asks for in, progress on stderr, the standing on stdout.

Fills a second model's table beside the running service, pauses (Ctrl-C too), switches, switches back, drops. Exit
codes: 0 done, or paused; 75 come again (another process is at it, a store is away); 2 it cannot be.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import uvloop

from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.postgres.database import NIGHTLY, Database
from memory.adapters.postgres.migrate import drop_standby_model, embedding_table_name, ensure_embedding_table
from memory.adapters.postgres.reembed_store import ReembedStore
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.served_model import configured_files, named_files, stored_files
from memory.config import Settings
from memory.errors import TRY_AGAIN, ConfigInvalid, StoreUnavailable
from memory.key_wiring import with_keys
from memory.serving import Serving, StoredModel
from memory.step_back import step_back
from memory.wiring import holder_name
from memory.write.reembed import LEASE_S, Filled, Reembedding

SAY_EVERY_S: Final = 2.0
# `--switch` closes a gap of what was written lately; more than that is to be filled first, with progress.
SWITCH_GAP_MAX: Final = 1_000
# Processes that have not followed a switch yet may still read the former table.
DROP_AFTER: Final = timedelta(seconds=60)
T = TypeVar("T")
MODES: Final = ("fill", "status", "pause", "switch", "back", "drop")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for. `to` and `directory` name the model of a fill."""

    mode: str
    to: str | None
    directory: Path | None
    rest: float
    as_json: bool


@dataclass(frozen=True, slots=True)
class Here:
    """The store that it is about, and who asks."""

    settings: Settings
    owner_url: str
    store: ReembedStore
    models: ServingStore
    serving: Serving
    asked: Asked
    stop: asyncio.Event


async def reembedded(settings: Settings, asked: Asked) -> int:
    """Do what is asked for; the exit code. Raises ConfigInvalid, ModelFileInvalid, StoreUnavailable, LeaseLost."""
    if asked.mode not in MODES:
        raise ConfigInvalid(f"reembed --mode is one of {', '.join(MODES)}")
    url = settings.database.url
    if url is None:
        raise ConfigInvalid("database.url is not resolved")
    step_back()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    database, _ = with_keys(settings, await Database.open(url.get_secret_value(), NIGHTLY))
    try:
        models = ServingStore(database)
        serving = await models.serving()
        if serving is None:
            raise ConfigInvalid("the store has not been started by this version yet: start the service once")
        owner = (settings.database.owner_url or url).get_secret_value()
        store = ReembedStore(database, holder_name())
        here = Here(settings, owner, store, models, serving, asked, stop)
        act = {"fill": _fill, "pause": _pause, "switch": _switch, "back": _back, "drop": _drop, "status": _status}
        return await act[asked.mode](here)
    finally:
        await database.close()


async def _fill(here: Here) -> int:
    """Put the model beside the served one, and fill it. Of the served one: what it lacks."""
    model, embedder = await _model_to_fill(here)
    repairs = model.model_id == here.serving.model.model_id
    if repairs:
        await here.store.pause(False)
    elif not await here.store.stand_by(model):
        other = here.serving.standby.name if here.serving.standby else "another model"
        raise ConfigInvalid(f"{other} stands beside {here.serving.model.name}: --switch to it, or --drop it first")
    work = Reembedding(
        here.store, model, embedder, embedder, rest=here.asked.rest, stop=here.stop, say=_Teller(model.name)
    )
    ended = await _in_turn(here, work.fill)
    embedder.close()
    if ended == "filled" and repairs:
        await work.repaired()
    if ended == "filled":
        to_it = "--back" if here.serving.stands_back else "--switch"
        then = "every process reads it now" if repairs else f"now: memory-proxy reembed {to_it}"
        sys.stderr.write(f"{model.name}: filled; {then}\n")
    elif ended == "paused":
        again = f"memory-proxy reembed --to {model.name}"
        sys.stderr.write(f"{model.name}: paused; `{again}` goes on where this stood\n")
    code = await _status(here)
    return code if ended is not None else TRY_AGAIN


async def _in_turn(here: Here, act: Callable[[], Awaitable[T | None]]) -> T | None:
    """What comes of it, once no other process is at it: one that was killed is waited for while its lease lasts."""
    until, is_said = time.monotonic() + LEASE_S + 1, False
    while (came := await act()) is None:
        if here.stop.is_set() or time.monotonic() > until:
            sys.stderr.write("another process re-embeds: --status shows how far it is, --pause stops it\n")
            return None
        if not is_said:
            sys.stderr.write(f"another process re-embeds, or was killed at it; waiting for {LEASE_S:.0f} s at most\n")
            is_said = True
        await asyncio.sleep(1.0)
    return came


async def _model_to_fill(here: Here) -> tuple[StoredModel, OnnxEmbedder]:
    """The model named, with its table; or, without a name, the one that stands by."""
    asked, settings = here.asked, here.settings
    if asked.to is None:
        if here.serving.standby is None:
            raise ConfigInvalid("name the model: memory-proxy reembed --to MODEL [--directory DIR]")
        return here.serving.standby, await _embedder(here, here.serving.standby)
    directory = asked.directory.resolve() if asked.directory else None
    if directory is None:
        # The model that is known here by this name, wherever its files lie.
        for known in (here.serving.standby, here.serving.model):
            if known is not None and known.name == asked.to and known.directory is not None:
                return known, await _embedder(here, known)
    if directory is None and asked.to == settings.embedding.model:
        files = await asyncio.to_thread(configured_files, settings, _say_step)
    else:
        files = await asyncio.to_thread(named_files, settings, asked.to, directory, _say_step)
    spec = files.spec
    await ensure_embedding_table(here.owner_url, spec.name, files.digest, spec.dim, spec.directory)
    table = embedding_table_name(spec.name, files.digest)
    model = next(one for one in await here.models.models() if one.table == table)
    threads = settings.embedding.threads
    return model, await asyncio.to_thread(lambda: OnnxEmbedder(files, document_threads=threads))


async def _embedder(here: Here, model: StoredModel) -> OnnxEmbedder:
    files = await asyncio.to_thread(stored_files, here.settings, model, _say_step)
    threads = here.settings.embedding.threads
    return await asyncio.to_thread(lambda: OnnxEmbedder(files, document_threads=threads))


async def _pause(here: Here) -> int:
    await here.store.pause(True)
    sys.stderr.write("whoever fills stops after its batch; `memory-proxy reembed --to MODEL` goes on there\n")
    return await _status(here)


async def _switch(here: Here) -> int:
    standby = here.serving.standby
    if standby is None:
        raise ConfigInvalid("no model stands by: memory-proxy reembed --to MODEL first")
    if here.serving.stands_back:
        return await _is_done(here, f"--back serves {standby.name} again")
    left = await here.store.left(standby)
    if left > SWITCH_GAP_MAX:
        raise ConfigInvalid(f"{standby.name} lacks {left:,} memories: memory-proxy reembed --to {standby.name} first")
    return await _switched(here, standby)


async def _back(here: Here) -> int:
    """Catch up what was written since the switch, and serve the former model again."""
    standby = here.serving.standby
    if standby is None or here.serving.switched_at is None:
        raise ConfigInvalid("nothing was switched, or the former model is dropped")
    if not here.serving.stands_back:
        return await _is_done(here, f"--switch serves {standby.name} again")
    return await _switched(here, standby)


async def _is_done(here: Here, otherwise: str) -> int:
    """What is asked for holds: who asks again, since the answer never came, switches nothing."""
    sys.stderr.write(f"{here.serving.model.name} is served already; {otherwise}\n")
    return await _status(here)


async def _switched(here: Here, standby: StoredModel) -> int:
    embedder = await _embedder(here, standby)
    work = Reembedding(
        here.store, standby, embedder, embedder, rest=here.asked.rest, stop=here.stop, say=_Teller(standby.name)
    )
    generation = None
    if await _in_turn(here, partial(here.store.lead, LEASE_S)) is not None:
        await here.store.pause(False)  # no sooner: who fills has to hear of it
        generation = await work.switch()
    embedder.close()
    if generation is None:
        return TRY_AGAIN
    sys.stderr.write(f"{standby.name} is served; every process follows within seconds\n")
    with contextlib.suppress(StoreUnavailable):  # told to come again, somebody would switch back
        return await _status(here)
    return 0


async def _drop(here: Here) -> int:
    """Drop the model that is not served, with its vectors."""
    standby, switched_at = here.serving.standby, here.serving.switched_at
    if standby is None:
        raise ConfigInvalid("no model stands by")
    if switched_at is not None and datetime.now(UTC) - switched_at < DROP_AFTER:
        raise ConfigInvalid("switched less than a minute ago: a process may still read the former model's vectors")
    fence = await _in_turn(here, partial(here.store.lead, LEASE_S))
    if fence is None:
        return TRY_AGAIN
    try:
        await here.store.empty(standby, fence)
        await drop_standby_model(here.owner_url)
    finally:
        await here.store.resign()
    return await _status(here)


async def _status(here: Here) -> int:
    """What is served and what stands by, on stdout."""
    serving = await here.models.serving() or here.serving
    left = None if serving.standby is None else await here.store.left(serving.standby)
    if here.asked.as_json:
        sys.stdout.write(json.dumps(_members(serving, left), indent=2) + "\n")
        return 0
    sys.stdout.write(f"served     {_named(serving.model)}\n")
    if serving.standby is not None and serving.stands_back:  # what is left is mostly looked at: it has its vectors
        sys.stdout.write(f"before     {_named(serving.standby)}: --back catches it up and serves it again\n")
    elif serving.standby is not None:
        state = "paused, " if serving.paused and left else ""
        sys.stdout.write(f"stands by  {_named(serving.standby)}: {state}{left:,} memories left\n")
    return 0


def _named(model: StoredModel) -> str:
    return f"{model.name}, {model.dim} dimensions ({model.digest[:12]})"


def _members(serving: Serving, left: int | None) -> dict[str, Any]:
    def one(model: StoredModel | None) -> dict[str, Any] | None:
        return None if model is None else {"name": model.name, "digest": model.digest, "dim": model.dim}

    return {
        "generation": serving.generation,
        "served": one(serving.model),
        "standby": one(serving.standby),
        "left": left,
        "paused": serving.paused,
        "switched_at": serving.switched_at.isoformat() if serving.switched_at else None,
        "stands_back": serving.stands_back,
    }


class _Teller:
    """Progress on stderr, a line at most every SAY_EVERY_S."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._said_at = float("-inf")

    def __call__(self, filled: Filled) -> None:
        now = time.monotonic()
        if now - self._said_at < SAY_EVERY_S and filled.left:
            return
        self._said_at = now
        left = filled.seconds_left
        rest = "" if left is None else f", about {timedelta(seconds=round(left))} left"
        rate = f"{filled.memories:,} memories at {filled.per_second:.1f}/s"
        sys.stderr.write(f"{self._name}: {rate}, {filled.left:,} to go{rest}\n")
        sys.stderr.flush()


def _say_step(step: str) -> None:
    sys.stderr.write(f"{step}\n")


def command(settings: Settings, given: argparse.Namespace) -> int:
    """Give every memory the vectors of another model, or say how far that is. The exit code."""
    asked = Asked(given.mode, given.to, given.directory, given.rest, given.json)
    return uvloop.run(reembedded(settings, asked))
