"""Where erasures get their stores: resolved settings, a pool and keys in; what erases, and what makes anew, out.

Named by the worker's wiring and by `memory-proxy forget`. Raises ConfigInvalid.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.language import LanguageModel
from memory.adapters.postgres.artifact_store import BlobKeeper
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.erase_anew import AnewStore
from memory.adapters.postgres.erase_probe import DatabaseProbe
from memory.adapters.postgres.erase_store import EraseStore
from memory.adapters.postgres.write_store import WriteStore
from memory.adapters.redis_erase import RedisErase
from memory.adapters.spool import count as spooled
from memory.artifact_wiring import blobs_of
from memory.config import Settings, effective_journal
from memory.erasure.anew import Anew
from memory.erasure.job import EraseParts, Erasing
from memory.erasure.learning import Learning
from memory.errors import ConfigInvalid
from memory.keys import KeyRing
from memory.model import NewFact, NewProcedure, Turn
from memory.telemetry import Metrics
from memory.write.rebuild import Rebuilder
from policies.lifetime import DaysOf


def anew_of(
    settings: Settings,
    database: Database,
    table: str,
    summaries: WriteStore,
    keys: KeyRing,
    embedder: OnnxEmbedder,
    languages: LanguageModel,
    find_facts: Callable[[Sequence[Turn]], list[NewFact]],
    find_procedures: Callable[[Sequence[Turn]], list[NewProcedure]],
    lives: DaysOf,
) -> Anew:
    """What makes things again that have other sources."""
    learning = Learning(find_facts, find_procedures, embedder, embedder, lives, _now)
    return Anew(
        store=EraseStore(database, table),
        left=AnewStore(database, table),
        summaries=summaries,
        sum_up=Rebuilder(embedder, embedder, languages, settings.summary.sentences_max, lives, _now),
        facts=learning.facts,
        procedures=learning.procedures,
        subject_of=keys.subject_id,
        clock=_now,
    )


def erasing_on(
    settings: Settings,
    store: EraseStore,
    database: Database,
    keys: KeyRing,
    anew: Anew | None,
    metrics: Metrics,
    closing: contextlib.AsyncExitStack,
) -> tuple[Erasing, RedisErase]:
    """Erasures on these stores; `anew` None: what has other sources is made again by somebody else."""
    if settings.redis.url is None or settings.data.dir is None:
        raise ConfigInvalid("unresolved settings: this process is started by `memory-proxy serve`")
    queue_url = settings.redis.url.get_secret_value()
    cache_url = (settings.redis.cache_url or settings.redis.url).get_secret_value()
    redis = RedisErase(queue_url, cache_url, lanes=settings.queue.lanes)
    closing.push_async_callback(redis.close)
    erasing = Erasing(
        EraseParts(
            store=store,
            probe=DatabaseProbe(database),
            redis=redis,
            keys=keys,
            anew=anew,
            clock=_now,
            metrics=metrics,
            staleness_s=settings.recall.scope_staleness_max_ms / 1000,
            salt_rotation_min_s=settings.erasure.salt_rotation_min_s,
            journal=effective_journal(settings, settings.data.dir),
            spool=settings.data.dir / "spool",
            spooled=partial(spooled, settings.data.dir / "spool"),
            files=BlobKeeper(database, blobs_of(settings)),
        )
    )
    return erasing, redis


def _now() -> datetime:
    return datetime.now(UTC)
