"""`python -m memory worker|migrate|prepare-model|consolidate`: the remembering side, without HTTP.

Reads the resolved settings that the supervisor left (MEMORY_PROXY_SETTINGS). Exit codes: 0 done; 75 (EX_TEMPFAIL) try
again, a store is not there yet or another consolidates; 2 final, the reason is on stderr. Adapters are named here and
passed down.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.language import LanguageModel
from memory.adapters.model_files import default_cache_dir, prepare_model
from memory.adapters.model_registry import choose_model, read_registry
from memory.adapters.postgres.consolidate_store import ConsolidateStore
from memory.adapters.postgres.database import Bounds, Database
from memory.adapters.postgres.episode_store import JOB as EPISODES
from memory.adapters.postgres.episode_store import PostgresEpisodes
from memory.adapters.postgres.extraction_store import ExtractionStore
from memory.adapters.postgres.hygiene_store import JOB as HYGIENE
from memory.adapters.postgres.hygiene_store import HygieneStore
from memory.adapters.postgres.import_store import ImportStore
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.leadership import Leadership
from memory.adapters.postgres.leases import Leases
from memory.adapters.postgres.migrate import embedding_table_name, ensure_embedding_table, migrate
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.write_store import WriteStore
from memory.adapters.redis_hot import RedisHot
from memory.adapters.redis_queue import RedisQueue, lane_names
from memory.adapters.secret_rules import secret_detectors
from memory.adapters.tokenizer import EstimatedTokens, LocalTokenizer
from memory.adapters.vllm_client import VllmClient
from memory.adapters.vllm_load import VllmLoad
from memory.config import Settings, effective_cache_salt, settings_from_environ
from memory.consolidation import lives_of, terms_of
from memory.errors import (
    ConfigInvalid,
    EmbedderUnavailable,
    LeaseLost,
    ModelFileInvalid,
    StartFailed,
    StoreUnavailable,
)
from memory.hygiene import keep_measuring
from memory.keys import KeyRing, load_or_create_master_key
from memory.telemetry import Metrics, configure_logging, event
from memory.write.consolidate import Consolidation, Parts, Standing, keep_consolidating
from memory.write.consolidate_report import shown, told
from memory.write.deliveries import Deliveries
from memory.write.episodes import Bounds as EpisodeBounds
from memory.write.episodes import Teller
from memory.write.extraction import Asks, Extraction, ExtractionParts
from memory.write.extraction_loop import HANDS_MORE, ExtractionLoop, LoopTimes
from memory.write.facts import facts_of, no_facts
from memory.write.model_facts import Chats, ModelFacts
from memory.write.pace import Limits, Pace, SpentHere
from memory.write.pipeline import WriteParts, WritePath
from memory.write.rebuild import Rebuilder
from memory.write.redact import Redactor
from memory.write.retention import keep_dropping_expired
from memory.write.succession import Succession
from memory.write.summarise import Summariser
from memory.write.telling import keep_telling
from memory.write.thinking import ThinkingOff
from memory.write.vllm_facts import VllmFacts
from memory.write.worker import run_worker

log = logging.getLogger("memory_proxy.memory")
TRY_AGAIN = 75
# Nine times less of a contended core than a process that answers requests (kernel: weight 110 against 1,024).
NICENESS = 10
# How often to look for exchanges that wait for a model; and where none should, since no model is asked.
EXTRACT_POLL_S = 1.0
LEFT_OVER_POLL_S = 60.0
# One transaction after the other, each of statements that hold nobody up for long.
NIGHTLY = Bounds(connections_max=1, acquire_timeout_s=10.0, statement_timeout_ms=10_000)


def main() -> int:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="python -m memory", description=__doc__)
    parser.add_argument("what", choices=["worker", "migrate", "prepare-model", "consolidate"])
    parser.add_argument("--mode", choices=["now", "dry-run", "last"], default="now", help="of consolidate")
    parser.add_argument("--json", action="store_true", help="of consolidate: the report as JSON")
    given = parser.parse_args()
    what = given.what
    try:
        settings = settings_from_environ(os.environ)
        configure_logging(settings.log.level, settings.log.format)
        if what == "prepare-model":
            prepared(settings)
        elif what == "consolidate":
            return uvloop.run(consolidated(settings, given.mode, as_json=given.json))
        else:
            uvloop.run(migrated(settings) if what == "migrate" else work(settings))
    except (StoreUnavailable, EmbedderUnavailable, LeaseLost) as fault:
        event(log, "not_there_yet", logging.WARNING, what=what, fault=str(fault))
        return TRY_AGAIN
    except (ConfigInvalid, ModelFileInvalid, StartFailed) as fault:
        sys.stderr.write(f"memory-proxy {what}: {fault}\n")
        return 2
    return 0


def prepared(settings: Settings) -> OnnxEmbedder:
    """The embedding model, its files verified and built where needed. Raises ModelFileInvalid."""
    embedding = settings.embedding
    spec = choose_model(read_registry(), embedding.model, directory=embedding.directory, dim=embedding.dim)
    cache = embedding.cache_dir or default_cache_dir(os.environ)
    files = prepare_model(spec, cache, lambda step: event(log, "model", step=str(step)))
    return OnnxEmbedder(files, document_threads=embedding.threads)


async def migrated(settings: Settings) -> None:
    """Bring the schema up to date, make the model's table. Raises StoreUnavailable, StartFailed, ModelFileInvalid."""
    url = settings.database.owner_url or settings.database.url
    if url is None:
        raise ConfigInvalid("database.url is not resolved")
    await migrate(url.get_secret_value())
    embedder = await asyncio.to_thread(prepared, settings)
    await ensure_embedding_table(url.get_secret_value(), embedder.model, embedder.digest, embedder.dim)


async def work(settings: Settings) -> None:
    """Store what the proxies captured, until SIGTERM."""
    _step_back()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    database_url, redis_url, data = settings.database.url, settings.redis.url, settings.data.dir
    if database_url is None or redis_url is None or data is None:
        raise ConfigInvalid("unresolved settings: this process is started by `memory-proxy serve`")
    metrics = Metrics()
    embedder = await asyncio.to_thread(prepared, settings)
    languages = await asyncio.to_thread(LanguageModel)
    bounds = Bounds(statement_timeout_ms=60_000)
    database = await Database.open(database_url.get_secret_value(), bounds)
    keys = KeyRing(KeyStore(database), load_or_create_master_key(data / "master.key"))
    scopes, table = Scopes(database), embedding_table_name(embedder.model, embedder.digest)
    store = WriteStore(database, scopes, table)
    queue = RedisQueue(redis_url.get_secret_value(), lanes=settings.queue.lanes, durability=settings.queue.durability)
    hot = RedisHot((settings.redis.cache_url or redis_url).get_secret_value())
    slot = os.environ.get("MEMORY_PROXY_SLOT")  # one living worker of this data directory has it
    directory = settings.tokenizer.directory
    summary = settings.summary
    path = WritePath(
        WriteParts(
            store=store,
            lines=ImportStore(database, scopes, table),
            keys=keys,
            embedder=embedder,
            windows=embedder,
            redactor=Redactor(secret_detectors()),
            counter=LocalTokenizer(directory) if directory else EstimatedTokens(),
            languages=languages,
            find_facts=no_facts if settings.extract.by == "off" else facts_of,
            facts_later=settings.extract.by in ("vllm", "model"),
            announcer=hot,
            summariser=Summariser(
                store, every_turns=summary.every_turns, sentences_max=summary.sentences_max, clock=_now
            ),
            metrics=metrics,
            clock=_now,
            lives=lives_of(settings),
        )
    )
    holder = f"{socket.gethostname()}-{os.getpid()}-{datetime.now(UTC):%H%M%S}"
    sweeping = [asyncio.create_task(keep_dropping_expired(store, settings.replay.retention_days))]
    if settings.episode.enabled:
        teller = Teller(
            PostgresEpisodes(database, table), embedder, embedder, languages, episode_bounds(settings), clock=_now
        )
        leader = Leadership(database, EPISODES, f"{holder}-episodes")
        telling = keep_telling(teller, leader, queue, metrics, every_s=settings.episode.sweep_s)
        sweeping.append(asyncio.create_task(telling))
    extracting = asyncio.create_task(keep_extracting(settings, ExtractionStore(database, table), path.parts))
    extracting.add_done_callback(_say_why_it_ended)
    measurer = Leadership(database, HYGIENE, f"{holder}-hygiene")
    measuring = keep_measuring(HygieneStore(database), measurer, path.parts.redactor, metrics)
    at_night = await Database.open(database_url.get_secret_value(), NIGHTLY)
    nights = consolidation(settings, at_night, embedder, languages, metrics)
    consolidating = asyncio.create_task(keep_consolidating(nights, settings.consolidate.at, _now))
    sweeping += [extracting, asyncio.create_task(measuring), consolidating]
    try:
        await run_worker(
            queue,
            Succession(Leases(database), data / "run" / f"memory-worker-{slot}.holder") if slot else Leases(database),
            Deliveries(path).handle,
            holder=holder,
            lanes=lane_names(settings.queue.lanes),
            batch_max=settings.worker.batch_max,
            bulk_share_min=settings.worker.bulk_share_min,
            attempts_max=settings.queue.attempts_max,
            stop=stop,
            meter=WorkMeter(metrics),
        )
    finally:
        for task in sweeping:
            task.cancel()
        await asyncio.gather(*sweeping, return_exceptions=True)  # each gives back what it holds
        await queue.close()
        await hot.close()
        await at_night.close()
        await database.close()


def episode_bounds(settings: Settings) -> EpisodeBounds:
    """When a session has ended, and how much of it is told at once."""
    given = settings.episode
    return EpisodeBounds(
        idle_s=given.idle_s,
        turns_max=given.turns_max,
        tokens_max=given.tokens_max,
        sentences_max=given.sentences_max,
        sessions_max=given.sessions_max,
    )


async def keep_extracting(settings: Settings, store: ExtractionStore, parts: WriteParts) -> None:
    """Take facts out of the exchanges that wait for a model, until cancelled.

    Where none is asked (any more) the rules take what another configuration has left.
    """
    extract, upstream = settings.extract, settings.upstream
    key = upstream.api_key.get_secret_value() if upstream.api_key else None
    client = VllmClient(upstream.url, api_key=key, priority=extract.priority, wall_s=extract.wall_s)
    load = VllmLoad(upstream.metrics_urls if extract.by == "vllm" else (), running_max=extract.running_max)
    limits = Limits(extract.concurrency, extract.defer_max_s, extract.tokens_per_day)
    pace = Pace(limits, load, SpentHere(), _now)
    facts: Asks | None = None
    if extract.by == "vllm":
        facts = VllmFacts(client, pace, ThinkingOff(client.token_ids), max_tokens=extract.max_tokens)
    elif extract.by == "model":
        facts = ModelFacts(
            await asyncio.to_thread(other_model, settings), pace, extract.max_tokens, settings.chat_model.timeout_s
        )
    extraction = Extraction(
        ExtractionParts(
            store=store,
            keys=parts.keys,
            ask=facts,
            find_facts=parts.find_facts,
            embedder=parts.embedder,
            windows=parts.windows,
            redactor=parts.redactor,
            announcer=parts.announcer,
            metrics=parts.metrics,
            clock=_now,
            salted=effective_cache_salt(settings) == "tenant",
        )
    )
    times = LoopTimes(poll_s=EXTRACT_POLL_S if facts else LEFT_OVER_POLL_S, defer_max_s=extract.defer_max_s)
    hands = extract.concurrency + HANDS_MORE
    try:
        await ExtractionLoop(store, extraction, parts.metrics, _now, hands=hands, times=times).run()
    finally:
        await client.close()
        await load.close()


def other_model(settings: Settings) -> Chats:
    """The model of `chat_model`. Takes seconds. Raises ConfigInvalid where none is named."""
    chat = settings.chat_model
    if chat.model is None:
        raise ConfigInvalid("extract.by is model: chat_model.model must name one")
    # Not at the head of this file: litellm takes 3-11 s and 170 MiB, for nothing in every other configuration.
    adapter = importlib.import_module("memory.adapters.chat_model")
    model: Chats = adapter.LiteLlmChatModel(
        chat.model,
        api_base=chat.api_base or f"{settings.upstream.url}/v1",
        api_key=chat.api_key.get_secret_value() if chat.api_key else None,
        concurrency_max=settings.extract.concurrency,
    )
    return model


def _say_why_it_ended(task: asyncio.Task[None]) -> None:
    """The lanes go on without extraction; nobody may miss that it has stopped."""
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("extraction has stopped", exc_info=fault)


def consolidation(
    settings: Settings, database: Database, embedder: OnnxEmbedder, languages: LanguageModel, metrics: Metrics
) -> Consolidation:
    """The nightly work on this database."""
    return Consolidation(
        Parts(
            store=ConsolidateStore(database, embedding_table_name(embedder.model, embedder.digest)),
            summarise=Rebuilder(
                embedder, embedder, languages, settings.summary.sentences_max, lives_of(settings), _now
            ),
            terms=lambda now: terms_of(settings, now),
            clock=_now,
            metrics=metrics,
            holder=f"{socket.gethostname()}-{os.getpid()}-{datetime.now(UTC):%H%M%S}",
            pause_s=settings.consolidate.pause_ms / 1000,
        )
    )


async def consolidated(settings: Settings, mode: str, *, as_json: bool) -> int:
    """Consolidate now, rehearse it, or show the last run: progress on stderr, the report on stdout. The exit code."""
    _step_back()
    if settings.database.url is None:
        raise ConfigInvalid("database.url is not resolved")
    embedder, languages = await asyncio.gather(asyncio.to_thread(prepared, settings), asyncio.to_thread(LanguageModel))
    database = await Database.open(settings.database.url.get_secret_value(), NIGHTLY)
    try:
        one = consolidation(settings, database, embedder, languages, Metrics())
        if mode == "last":
            sys.stdout.write(shown(await one.last(), as_json=as_json))
            return 0
        began = _now()
        report = await (one.rehearse(told) if mode == "dry-run" else one.run(told))
    finally:
        await database.close()
    if report is None:
        sys.stderr.write("another process consolidates; `memory-proxy consolidate` shows how far it is\n")
        return TRY_AGAIN
    standing = Standing(began, _now(), tuple(one.as_json() for one in report))
    sys.stdout.write(shown(standing, as_json=as_json, rehearsed=mode == "dry-run"))
    return 0


def _step_back() -> None:
    """Let whoever answers requests go first where cores are short: what is written may wait, a person may not.

    Where the kernel groups processes by session (autogroup), the group must step back too; nice alone would order
    this process's own threads only.
    """
    os.nice(NICENESS)
    with contextlib.suppress(OSError):  # not Linux, or no such grouping: then nice was enough
        Path("/proc/self/autogroup").write_text(str(NICENESS))


def _now() -> datetime:
    return datetime.now(UTC)


class WorkMeter:
    """Counts of the worker loop, as metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def count(self, name: str, amount: int = 1) -> None:
        """Add to the counter of this event."""
        self._metrics.work.labels(name).inc(amount)


if __name__ == "__main__":
    sys.exit(main())
