"""What holds data and what exchanges leave by: settings in, opened stores out.

Opened without waiting for anything outside but the model's files; whether a store answers is asked in `bring_up`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from memory.adapters.model_files import ModelFiles
from memory.adapters.postgres.database import Bounds as PoolBounds
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.migrate import embedding_table_name
from memory.adapters.postgres.read_store import ReadStore
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.redis_ended import RedisEnded
from memory.adapters.redis_erase import RedisErase
from memory.adapters.redis_hot import RedisHot
from memory.adapters.redis_queue import RedisQueue
from memory.adapters.redis_rates import RedisRates
from memory.adapters.served_model import can_be_loaded, files_to_begin_with
from memory.adapters.spool import OrphanFinder, Spool, SpoolInUse, tidy
from memory.config import Settings
from memory.errors import ConfigInvalid, SpoolUnavailable
from memory.ids import new_id
from memory.key_wiring import with_keys
from memory.keys import KeyRing
from memory.late import LateEmbedder
from memory.seldom import Seldom
from memory.serving import StoredModel, read_note
from memory.telemetry import Metrics, event
from memory.write.hand_off import HandOff
from proxy.auth import REFRESH_S

log = logging.getLogger("memory_proxy.wiring")
T = TypeVar("T")

# Envelopes that neither queue nor spool took: two full spools' worth would not be gentler to the machine.
HELD_BYTES_MAX: Final = 67_108_864
# Nobody waits for it beyond the hold of the last byte; a conversation that is not remembered is recognised later.
REMEMBER_TIMEOUT_MS: Final = 2_000
_SPOOL_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Kept:
    """What holds data: Postgres with the keys in it, and the model whose vectors lie there."""

    database: Database
    scopes: Scopes
    key_store: KeyStore
    keys: KeyRing
    embedder: LateEmbedder
    model_files: ModelFiles
    table: str
    read_store: ReadStore
    serving: ServingStore
    run: Path  # what this service's processes tell each other
    loads: Callable[[StoredModel], bool]  # whether a model is on this machine; blocking


@dataclass(frozen=True, slots=True)
class Queued:
    """What captured exchanges leave by."""

    queue: RedisQueue
    hot_state: RedisHot
    rates: RedisRates
    ended: RedisEnded
    hand_off: HandOff

    async def ping(self) -> None:
        """Return when the queue takes entries and keeps them as well as is promised. Raises QueueUnavailable,
        TimeoutError.
        """
        await self.hand_off.ask_queue()
        await self.queue.ping_as_promised()


async def open_kept(settings: Settings) -> Kept:
    """Open what holds data. Raises ConfigInvalid, StartFailed, ModelFileInvalid."""
    data, url = resolved(settings.data.dir, "data.dir"), resolved(settings.database.url, "database.url")
    # Postgres may not be up yet, so what is served is taken from the note of it, and confirmed in `bring_up`.
    files = await asyncio.to_thread(lambda: files_to_begin_with(settings, read_note(data / "run")))
    spec = files.spec
    database, keys = with_keys(settings, await Database.open(url.get_secret_value(), pool_bounds(settings)))
    key_store, scopes, table = KeyStore(database), Scopes(database), embedding_table_name(spec.name, files.digest)
    return Kept(
        database=database,
        scopes=scopes,
        key_store=key_store,
        keys=keys,
        embedder=LateEmbedder(spec.name, spec.dim),
        model_files=files,
        table=table,
        read_store=ReadStore(database, scopes, table, dim=spec.dim),
        serving=ServingStore(database),
        run=data / "run",
        loads=partial(can_be_loaded, settings, said=Seldom()),
    )


async def open_queued(settings: Settings, metrics: Metrics) -> Queued:
    """Open what captured exchanges leave by. Raises ConfigInvalid."""
    data, url = resolved(settings.data.dir, "data.dir"), resolved(settings.redis.url, "redis.url")
    queue = RedisQueue(url.get_secret_value(), lanes=settings.queue.lanes, durability=settings.queue.durability)
    hot_state = RedisHot(
        (settings.redis.cache_url or url).get_secret_value(),
        opening_ttl_s=settings.session.regenerate_window_s,
        session_ttl_s=settings.session.hot_ttl_s,
        keep_timeout_ms=REMEMBER_TIMEOUT_MS,
    )
    hand_off = HandOff(
        queue,
        await asyncio.to_thread(open_spool, data / "spool", settings.queue.spool_bytes),
        hold_ms=settings.queue.capture_hold_ms,
        memory_bytes_max=HELD_BYTES_MAX,
        meter=HandOffMeter(metrics),
        orphans=OrphanFinder(data / "spool"),
    )
    rates = RedisRates(
        (settings.redis.cache_url or url).get_secret_value(),
        timeout_ms=settings.recall.deadline_ms,  # asked beside recall, which may take as long
    )
    ended = RedisEnded(url.get_secret_value(), timeout_s=REFRESH_S)
    return Queued(queue, hot_state, rates, ended, hand_off)


def open_signals(settings: Settings) -> RedisErase:
    """Open what tells of erasures. Raises ConfigInvalid."""
    url = resolved(settings.redis.url, "redis.url")
    cache = settings.redis.cache_url or url
    return RedisErase(url.get_secret_value(), cache.get_secret_value(), lanes=settings.queue.lanes)


def pool_bounds(settings: Settings) -> PoolBounds:
    """The pool's limits from the settings."""
    return PoolBounds(
        connections_max=settings.database.pool_size, statement_timeout_ms=settings.database.statement_timeout_ms
    )


def resolved(value: T | None, key: str) -> T:
    """A setting that the supervisor fills in. Raises ConfigInvalid where it has not."""
    if value is None:
        raise ConfigInvalid(f"{key} is not resolved: this process is started by `memory-proxy serve`")
    return value


def open_spool(directory: Path, bytes_max: int) -> Spool | None:
    """This process's spool file; None, said in the log, where it cannot be used. Blocking."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        tidy(directory)  # while the queue is away each process that ends would leave a whole one
        return _own_spool(directory, bytes_max)
    except (OSError, SpoolUnavailable) as fault:
        event(log, "no_spool", logging.ERROR, fault=str(fault))
        return None


def _own_spool(directory: Path, bytes_max: int) -> Spool:
    """A file of our own. One that a sibling took for an orphan, since it was made and not locked yet, is left to it."""
    for _ in range(_SPOOL_TRIES):
        with suppress(SpoolInUse):
            return Spool(directory / f"{new_id()}.spool", bytes_max)
    raise SpoolUnavailable(f"{directory}: every file made there was locked by another process")


class HandOffMeter:
    """Counts of the hand-off, as metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def count(self, name: str, amount: int = 1) -> None:
        """Add to the counter of this event."""
        self._metrics.hand_off.labels(name).inc(amount)
        if name == "dropped":
            self._metrics.captures_lost.inc(amount)
