"""Where the remembering side is put together: settings in, the worker and what runs beside it out.

The only module of that side that names adapters; they are passed down. `work` runs until SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.language import LanguageModel
from memory.adapters.postgres.artifact_store import BlobKeeper
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.budgets import Budgets
from memory.adapters.postgres.canary_store import CanaryStore
from memory.adapters.postgres.consolidate_store import ConsolidateStore
from memory.adapters.postgres.database import NIGHTLY, Bounds, Database
from memory.adapters.postgres.episode_store import JOB as EPISODES
from memory.adapters.postgres.episode_store import PostgresEpisodes
from memory.adapters.postgres.erase_jobs import JOB as ERASURE
from memory.adapters.postgres.erase_store import EraseStore
from memory.adapters.postgres.extraction_store import ExtractionStore
from memory.adapters.postgres.hygiene_store import JOB as HYGIENE
from memory.adapters.postgres.hygiene_store import HygieneStore
from memory.adapters.postgres.import_store import ImportStore
from memory.adapters.postgres.leadership import Leadership
from memory.adapters.postgres.leases import Leases
from memory.adapters.postgres.row_vault import vaulted
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.scrub import keep_as_before
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.postgres.write_store import WriteStore
from memory.adapters.redaction import borders, mark_of, redactor_of, tokenises
from memory.adapters.redis_erase import RedisErase
from memory.adapters.redis_hot import RedisHot
from memory.adapters.redis_queue import RedisQueue, lane_names
from memory.adapters.served_model import stored_files
from memory.adapters.tokenizer import counter_in
from memory.adapters.vllm_client import VllmClient
from memory.adapters.vllm_load import VllmLoad
from memory.artifact_wiring import blobs_of
from memory.beside import Job, beside
from memory.breaker import Breaker, Patience
from memory.canary import keep_planting
from memory.config import Settings, asks_upstream, effective_cache_salt
from memory.consolidation import lives_of, terms_of
from memory.documents_wiring import documents_loop
from memory.erase_wiring import anew_of, erasing_on
from memory.erasure.follower import Follower
from memory.erasure.job import Erasing
from memory.erasure.loop import keep_erasing
from memory.errors import ConfigInvalid, QueueUnavailable
from memory.hygiene import keep_measuring
from memory.ids import new_id
from memory.key_wiring import with_keys
from memory.keys import KeyRing
from memory.outside_wiring import Behind, behind_answers
from memory.read.guarded import GuardedHints
from memory.serving import StoredModel, until_moved
from memory.settling import until_settled
from memory.step_back import step_back
from memory.telemetry import Metrics, event
from memory.trim import keep_trimming
from memory.working_wiring import working_contexts
from memory.write.consolidate import Consolidation, Parts, keep_consolidating
from memory.write.deliveries import Deliveries
from memory.write.episodes import Bounds as EpisodeBounds
from memory.write.episodes import Teller
from memory.write.extraction import Asks, Extraction, ExtractionParts
from memory.write.extraction_loop import HANDS_MORE, ExtractionLoop, LoopTimes
from memory.write.facts import facts_of, no_facts
from memory.write.model_facts import Chats, ModelFacts
from memory.write.months import Historian
from memory.write.pace import Limits, Pace, SpentTogether
from memory.write.pipeline import WritePath
from memory.write.procedures import finder, no_procedures
from memory.write.rebuild import Rebuilder
from memory.write.retention import keep_audit_bounded, keep_collecting_files, keep_dropping_expired
from memory.write.seams import BASE_SERVES, WriteParts
from memory.write.succession import Succession
from memory.write.summarise import Summariser
from memory.write.telling import keep_telling
from memory.write.thinking import ThinkingOff
from memory.write.trouble import Trouble
from memory.write.vllm_facts import VllmFacts
from memory.write.worker import run_worker

log = logging.getLogger("memory_proxy.memory")
# How often to look for exchanges that wait for a model; and where none should, since no model is asked.
EXTRACT_POLL_S = 1.0
LEFT_OVER_POLL_S = 60.0
# A hint to readers that was given up after so long, with its lane, counts as one that Redis did not take.
HINT_SLOW_S = 0.05


def prepared(settings: Settings, model: StoredModel) -> OnnxEmbedder:
    """A model of the store, its files verified and built where needed. Blocking. Raises ModelFileInvalid."""
    files = stored_files(settings, model, lambda step: event(log, "model", step=step))
    return OnnxEmbedder(files, document_threads=settings.embedding.threads)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all jobs of a worker share: its models, its stores and its name among the workers."""

    settings: Settings
    data: Path
    database_url: str
    metrics: Metrics
    embedder: OnnxEmbedder
    languages: LanguageModel
    database: Database
    keys: KeyRing
    scopes: Scopes
    store: WriteStore
    queue: RedisQueue
    hot: RedisHot
    holder: str
    table: str  # of the model's embeddings
    generation: int  # of what is served, when this was opened


async def work(settings: Settings) -> None:
    """Store what the proxies captured, until SIGTERM; opened anew whenever another model is served."""
    step_back()
    over, metrics = asyncio.Event(), Metrics()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    while not over.is_set():
        await work_with_one_model(settings, metrics, over)


async def work_with_one_model(settings: Settings, metrics: Metrics, over: asyncio.Event) -> None:
    """Store until it is over, or another model is served: what is in hand is finished, nothing is lost."""
    async with contextlib.AsyncExitStack() as closing:
        shared = await opened(settings, closing, metrics, over)
        if shared is None:
            return
        behind = _behind(shared)
        path, stop = write_path(shared, behind), asyncio.Event()
        named = await jobs(shared, path.parts, closing)
        named |= behind.jobs if behind else {}
        trouble = Trouble()
        shared.database.troubled.append(trouble.met)
        named["telling of the store's trouble"] = partial(trouble.keep_telling, shared.queue)
        named["following the model"] = partial(_until_moved, shared, over, stop)
        await closing.enter_async_context(beside(named, shared.metrics))
        await run_worker(
            shared.queue,
            _leases(shared),
            Deliveries(path).handle,
            holder=shared.holder,
            lanes=lane_names(settings.queue.lanes),
            batch_max=settings.worker.batch_max,
            bulk_share_min=settings.worker.bulk_share_min,
            attempts_max=settings.queue.attempts_max,
            stop=stop,
            meter=WorkMeter(shared.metrics),
        )


async def _until_moved(shared: Shared, over: asyncio.Event, stop: asyncio.Event) -> None:
    """Set `stop` once it is over, or another model is served."""
    moved = asyncio.create_task(until_moved(ServingStore(shared.database).generation, shared.generation))
    ending = asyncio.create_task(over.wait())
    try:
        await asyncio.wait((moved, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        moved.cancel()
        ending.cancel()
    stop.set()


async def opened(
    settings: Settings, closing: contextlib.AsyncExitStack, metrics: Metrics, over: asyncio.Event
) -> Shared | None:
    """The stores opened and the models loaded, that of the store too; `closing` closes them. None: it is over."""
    data, database_url, redis_url = settings.data.dir, settings.database.url, settings.redis.url
    if data is None or database_url is None or redis_url is None:
        raise ConfigInvalid("unresolved settings: this process is started by `memory-proxy serve`")
    url = database_url.get_secret_value()
    database, keys = with_keys(settings, await Database.open(url, Bounds(statement_timeout_ms=60_000)))
    closing.push_async_callback(database.close)
    serving = await until_settled(ServingStore(database), over)
    if serving is None:
        return None
    embedder = await asyncio.to_thread(prepared, settings, serving.model)
    closing.callback(embedder.close)
    languages = await asyncio.to_thread(LanguageModel)
    hot = RedisHot((settings.redis.cache_url or redis_url).get_secret_value())
    closing.push_async_callback(hot.close)
    queue = RedisQueue(redis_url.get_secret_value(), lanes=settings.queue.lanes, durability=settings.queue.durability)
    closing.push_async_callback(queue.close)
    scopes, table = Scopes(database), serving.model.table
    return Shared(
        settings=settings,
        data=data,
        database_url=url,
        metrics=metrics,
        embedder=embedder,
        languages=languages,
        database=database,
        keys=keys,
        scopes=scopes,
        store=WriteStore(database, scopes, table, budgets_of(settings)),
        queue=queue,
        hot=hot,
        holder=holder_name(),
        table=table,
        generation=serving.generation,
    )


def budgets_of(settings: Settings) -> Budgets:
    """How much one source may write within an hour."""
    given = settings.injection
    return Budgets(given.foreign_writes_per_hour, given.session_writes_per_hour)


def _behind(shared: Shared) -> Behind | None:
    return behind_answers(
        shared.settings, shared.database, shared.scopes, shared.table, shared.keys, shared.metrics, _now
    )


def write_path(shared: Shared, behind: Behind | None = None) -> WritePath:
    """What one captured exchange goes through."""
    settings, database, embedder = shared.settings, shared.database, shared.embedder
    summary = settings.summary
    keys = shared.keys
    redactor = redactor_of(settings)
    counter = counter_in(settings.tokenizer.directory)
    hints = GuardedHints(shared.hot, Breaker("hot_state", Patience(QueueUnavailable, HINT_SLOW_S), shared.metrics))
    return WritePath(
        WriteParts(
            store=shared.store,
            lines=ImportStore(database, shared.scopes, shared.table, budgets_of(settings)),
            keys=keys,
            embedder=embedder,
            windows=embedder,
            redactor=redactor,
            counter=counter,
            languages=shared.languages,
            find_facts=no_facts if settings.extract.by == "off" else facts_of,
            facts_later=settings.extract.by in ("vllm", "model"),
            announcer=hints,
            summariser=Summariser(
                shared.store,
                every_turns=summary.every_turns,
                every_tokens=summary.every_tokens,
                sentences_max=summary.sentences_max,
                clock=_now,
            ),
            metrics=shared.metrics,
            clock=_now,
            lives=lives_of(settings),
            base_serves=min(BASE_SERVES, timedelta(days=settings.replay.retention_days / 24)),
            find_procedures=no_procedures if settings.extract.by == "off" else finder(settings.procedure.approve),
            working=working_contexts(settings.session, database, shared.scopes, hints, keys, counter, shared.metrics),
            borders=borders(),
            keeping=redactor.keeping if tokenises(redactor.policy) else None,
            cleaned_by=mark_of(redactor.policy),
            outside=behind.looks.heard if behind else None,
        )
    )


async def jobs(shared: Shared, parts: WriteParts, closing: contextlib.AsyncExitStack) -> dict[str, Job]:
    """What runs beside the lanes, by name: each for ever, on its own, and each gives back what it holds at its end."""
    settings, database, metrics = shared.settings, shared.database, shared.metrics
    # Not the lanes' pool, whose statements may take a minute.
    at_night = vaulted(await Database.open(shared.database_url, NIGHTLY), shared.keys)
    closing.push_async_callback(at_night.close)
    nights = consolidation(settings, at_night, shared.embedder, shared.languages, metrics, shared.holder, shared.table)
    measurer = Leadership(database, HYGIENE, shared.holder)
    erasure_asked, upload_asked = asyncio.Event(), asyncio.Event()
    found: dict[str, Job] = {
        "retention": partial(keep_dropping_expired, shared.store, settings.replay.retention_days),
        "documents": documents_loop(database, shared.scopes, shared.table, parts, upload_asked).run,
        "files": partial(keep_collecting_files, BlobKeeper(database, blobs_of(settings))),
        "extraction": partial(keep_extracting, settings, ExtractionStore(database, shared.table), parts, shared.hot),
        "hygiene": partial(keep_measuring, HygieneStore(database), measurer, parts.redactor, metrics),
        "audit": partial(keep_audit_bounded, AuditLog(database, parts.keys.audit_key), settings.audit.retention_days),
        "canaries": partial(
            keep_planting, CanaryStore(database, shared.table, _now), parts.keys.canary_key, shared.embedder
        ),
        "consolidation": partial(keep_consolidating, nights, settings.consolidate.at, _now),
        "free memory": keep_trimming,
    }
    if settings.database.owner_url is not None:
        owner = settings.database.owner_url.get_secret_value()
        found["the log after a scrub"] = partial(keep_as_before, owner, shared.data / "pg")
    erasing, signals = await erasures(shared, parts, closing)
    contexts = (parts.working,) if parts.working is not None else ()
    wakes = (erasure_asked, upload_asked)
    follower = Follower(signals, shared.holder, shared.scopes, parts.keys, None, contexts, wakes)
    leader = Leadership(database, ERASURE, shared.holder)
    found["erasure"] = partial(keep_erasing, erasing.parts.store, leader, erasing, erasure_asked)
    found["hearing of erasures"] = follower.follow
    if settings.episode.enabled:
        store, leader = PostgresEpisodes(database, shared.table), Leadership(database, EPISODES, shared.holder)
        bounds = episode_bounds(settings)
        teller = Teller(
            store,
            shared.embedder,
            shared.embedder,
            shared.languages,
            bounds,
            clock=_now,
            lives=lives_of(settings),
            approve=settings.procedure.approve,
        )
        found["episodes"] = partial(
            keep_telling, teller, leader, shared.queue, metrics, every_s=settings.episode.sweep_s
        )
    return found


async def erasures(shared: Shared, parts: WriteParts, closing: contextlib.AsyncExitStack) -> tuple[Erasing, RedisErase]:
    """What goes through with erasures, to the receipt."""
    settings, database = shared.settings, shared.database
    store = EraseStore(database, shared.table)
    anew = anew_of(
        settings,
        database,
        shared.table,
        shared.store,
        parts.keys,
        shared.embedder,
        shared.languages,
        parts.find_facts,
        parts.find_procedures,
        parts.lives,
    )
    return erasing_on(settings, store, database, parts.keys, anew, shared.metrics, closing)


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


async def keep_extracting(settings: Settings, store: ExtractionStore, parts: WriteParts, hot: RedisHot) -> None:
    """Take facts out of the exchanges that wait for a model, until cancelled.

    Where none is asked (any more) the rules take what another configuration has left.
    """
    extract, upstream = settings.extract, settings.upstream
    key = upstream.api_key.get_secret_value() if upstream.api_key else None
    client = VllmClient(upstream.url, api_key=key, priority=extract.priority, wall_s=extract.wall_s)
    load = VllmLoad(upstream.metrics_urls if asks_upstream(settings) else (), running_max=extract.running_max)
    limits = Limits(extract.concurrency, extract.defer_max_s, extract.tokens_per_day)
    pace = Pace(limits, load, SpentTogether(hot.spend), _now)
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
            lives=parts.lives,
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


def consolidation(
    settings: Settings,
    database: Database,
    embedder: OnnxEmbedder,
    languages: LanguageModel,
    metrics: Metrics,
    holder: str,
    table: str,
) -> Consolidation:
    """The nightly work on this database."""
    return Consolidation(
        Parts(
            store=ConsolidateStore(database, table),
            summarise=Rebuilder(
                embedder, embedder, languages, settings.summary.sentences_max, lives_of(settings), _now
            ),
            tells=Historian(embedder, embedder, languages, settings.episode.sentences_max, lives_of(settings), _now),
            terms=lambda now: terms_of(settings, now),
            clock=_now,
            metrics=metrics,
            holder=holder,
            pause_s=settings.consolidate.pause_ms / 1000,
        )
    )


def holder_name() -> str:
    """This process among all that have ever asked for a lease: containers may have one host name and process id."""
    return f"{socket.gethostname()}-{os.getpid()}-{new_id()}"


def _leases(shared: Shared) -> Succession | Leases:
    leases, slot = Leases(shared.database), os.environ.get("MEMORY_PROXY_SLOT")
    if not slot:
        return leases
    # One living worker of this data directory has the slot.
    return Succession(leases, shared.data / "run" / f"memory-worker-{slot}.holder")


def _now() -> datetime:
    return datetime.now(UTC)


class WorkMeter:
    """Counts of the worker loop, as metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def count(self, name: str, amount: int = 1) -> None:
        """Add to the counter of this event."""
        self._metrics.work.labels(name).inc(amount)
