"""Where a proxy worker is put together: settings in, everything built and passed down out.

The only module of the request side that names adapters. `wire` builds without waiting for anything outside;
`bring_up` asks the stores and loads the model, and may be called again until it succeeds.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

from memory.adapters.cross_encoder import CrossEncoder
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import ModelFiles
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import Bounds as PoolBounds
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.erase_store import EraseStore
from memory.adapters.postgres.extraction_store import ExtractionStore
from memory.adapters.postgres.import_store import ImportStore
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.migrate import embedding_table_name
from memory.adapters.postgres.outbox import Feed
from memory.adapters.postgres.read_store import ReadStore
from memory.adapters.postgres.records import Records
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.postgres.sharing import Sharing
from memory.adapters.postgres.working_store import PostgresWorking
from memory.adapters.redaction import again, redactor_of
from memory.adapters.redis_erase import RedisErase
from memory.adapters.redis_hot import RedisHot
from memory.adapters.redis_queue import RedisQueue
from memory.adapters.redis_rates import RedisRates
from memory.adapters.served_model import can_be_loaded, files_to_begin_with
from memory.adapters.spool import OrphanFinder, Spool
from memory.adapters.spool import count as spooled
from memory.adapters.tokenizer import EstimatedTokens, LocalTokenizer, UpstreamTokenizer
from memory.audit import Journal
from memory.canary import Canaries
from memory.config import Settings, digest, effective_cache_salt
from memory.erasure.asking import Asking
from memory.erasure.follower import Follower as EraseFollower
from memory.errors import ConfigInvalid, EmbedderUnavailable, SpoolUnavailable, StoreUnavailable
from memory.ids import new_id
from memory.key_table import OpenedKeys
from memory.key_wiring import with_keys
from memory.keys import KeyRing
from memory.late import LateEmbedder
from memory.passage import Tracing
from memory.ports import Reranker, TokenCounter
from memory.read.answers import Answers
from memory.read.conversation import Conversations
from memory.read.extract import SentenceCompressor
from memory.read.guarded import GuardedEmbedder, GuardedHot, GuardedReads
from memory.read.hot import HotScopes
from memory.read.ledger import Ledgers
from memory.read.query_cache import QueryCache
from memory.read.recall import Recaller
from memory.read.rerank import Reranking
from memory.read.route import ByLength
from memory.read.tell import Tells
from memory.read.working import WorkingContexts, WorkingParts
from memory.serving import ModelMoved, StoredModel, read_note, write_note
from memory.telemetry import Metrics, event
from memory.write.hand_off import HandOff
from proxy.api.own import OwnApi, OwnParts
from proxy.api.queue import WithBackground
from proxy.app import Front
from proxy.auth import KeyedDoor, OpenDoor
from proxy.bounds import InFlight
from proxy.breakers import both, breakers_of
from proxy.cache_report import CacheReport
from proxy.capture import Bounds, Capture
from proxy.chat import ChatCompletions, Parts
from proxy.copies import Copies
from proxy.generation import Generation
from proxy.limits import KeyUse
from proxy.load import LoadControl, places_of
from proxy.names import Names
from proxy.passages import Passages
from proxy.prompt import Rules, limits_of
from proxy.readiness import Readiness
from proxy.relay import Upstream
from proxy.remembering import MemoryParts
from proxy.rolling import Follower, supervisor_of
from proxy.served_model import ServedModels
from proxy.what_if import WhatIf

log = logging.getLogger("memory_proxy.wiring")
T = TypeVar("T")
# Envelopes that neither queue nor spool took: two full spools' worth would not be gentler to the machine.
HELD_BYTES_MAX: Final = 67_108_864
# Nobody waits for it beyond the hold of the last byte; a conversation that is not remembered is recognised later.
REMEMBER_TIMEOUT_MS: Final = 2_000
# Its files are looked for, and read whole, so often.
MODEL_AGAIN_S: Final = 5.0


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
    hand_off: HandOff


@dataclass(frozen=True, slots=True)
class Wired:
    """A worker's parts that outlive a request."""

    metrics: Metrics
    kept: Kept
    queued: Queued
    hot: HotScopes
    ledgers: Ledgers
    queries: QueryCache
    answers: Answers
    load: LoadControl
    reranker: CrossEncoder | None
    upstream: Upstream
    models: ServedModels
    door: OpenDoor | KeyedDoor
    readiness: Readiness
    capture: Capture
    journal: Journal
    canaries: Canaries
    front: Front
    own: OwnApi
    signals: RedisErase
    tracing: Tracing | None
    passages: Passages

    @property
    def hears(self) -> EraseFollower:
        """What lets go of the erased here."""
        kept = self.kept
        name = f"proxy-{os.getpid()}-{new_id()}"
        return EraseFollower(self.signals, name, kept.scopes, kept.keys, self, (self.queries, self.answers))

    def let_go(self, tenant: UUID, scope_ids: Sequence[int]) -> None:
        """Hold nothing of what was erased: indexes of these scopes, entries of the tenant's ledgers."""
        self.hot.let_go(tenant, scope_ids)
        self.ledgers.let_go(tenant)

    def holding(self, tenant: UUID, memory_ids: Sequence[UUID]) -> int:
        """How often these ids are held in process."""
        return self.hot.holding(tenant, memory_ids) + self.ledgers.holding(tenant, memory_ids)

    @property
    def follower(self) -> Follower:
        """What has this process replaced when another model is served."""
        kept = self.kept
        parent = supervisor_of(os.environ)
        return Follower(kept.run, kept.table, kept.serving.serving, kept.serving.generation, parent, kept.loads)

    @property
    def background(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What runs beside the requests, for ever."""
        always = (
            self.readiness.keep_probing(),
            self.queued.hand_off.keep_draining(),
            self.hot.keep_up(self.queued.hot_state.announcements),
            self.follower.follow(),
            self.journal.keep_writing(),
            self.canaries.keep_examining(),
            self.hears.follow(),
            self.load.keep_looking(),
            self.passages.keep_writing(),
        )
        return (*always, self.door.keep_reading()) if isinstance(self.door, KeyedDoor) else always


async def wire(settings: Settings, metrics: Metrics) -> Wired:
    """Build a worker's parts. Raises ConfigInvalid, StartFailed, ModelFileInvalid where they cannot be."""
    reranker = await asyncio.to_thread(cross_encoder, settings)  # first: where it is refused nothing is open yet
    tracing = await asyncio.to_thread(traces, settings, metrics)
    passages = Passages(metrics, tracing)
    kept = await _kept(settings)
    queued = await _queued(settings, metrics)
    breakers = breakers_of(settings, metrics)
    reads = GuardedReads(kept.read_store, breakers.store)
    hot = HotScopes(
        reads,
        dim=kept.embedder.dim,
        bytes_max=settings.recall.hot_scope_bytes_max,
        staleness_ms=settings.recall.scope_staleness_max_ms,
        metrics=metrics,
        clean=again(settings).cleaned,
    )
    load = LoadControl(settings.recall.deadline_ms / 1000, metrics)
    queries = QueryCache(GuardedEmbedder(kept.embedder, breakers.embedder, load.embedding_took), metrics)
    answers = Answers(metrics)
    keyed = settings.auth.mode == "keys"
    api_key = settings.upstream.api_key.get_secret_value() if settings.upstream.api_key else None
    upstream = Upstream(
        settings.upstream.url,
        api_key=api_key,
        replace_auth=keyed,
        connect_timeout_s=settings.upstream.connect_timeout_s,
        keepalive_s=settings.upstream.keepalive_s,
    )
    models = ServedModels(upstream, api_key=api_key, counts=UpstreamTokenizer)
    hot_state = GuardedHot(queued.hot_state, breakers.hot_state)
    conversations = Conversations(hot_state, reads)
    law = again(settings)
    ledgers = Ledgers(hot_state, reads, hot, kept.keys, metrics, law.cleaned, law.redacted)
    audit = AuditLog(kept.database, kept.keys.audit_key)
    journal = Journal(audit, metrics)
    canaries = Canaries(kept.keys.canary_key, audit, journal, metrics)
    bounds = Bounds(settings.queue.request_bytes_max, settings.queue.answer_bytes_max)
    capture = Capture(queued.hand_off, conversations, kept.keys, bounds, metrics)
    memory = MemoryParts(
        settings=settings,
        keys=kept.keys,
        conversations=conversations,
        hot=hot,
        recaller=Recaller(hot, reads, queries, metrics, reranking=reranking(settings, reranker), answers=answers),
        ledgers=ledgers,
        rules=block_rules(settings),
        models=models,
        working=working_contexts(settings, kept, queued, metrics),
        capture=capture,
    )
    parts = Parts(
        settings=settings,
        config_digest=digest(settings),
        keys=kept.keys,
        upstream=upstream,
        memory=memory,
        capture=capture,
        metrics=metrics,
        embedding_model=kept.embedder.model,
        salted=effective_cache_salt(settings) == "tenant",
        use=KeyUse(queued.rates) if keyed else None,
        journal=journal,
        canaries=canaries,
        cache_report=CacheReport(metrics),
        places=places_of(settings, load, metrics),
        copies=Copies(settings.queue.copies_bytes_max, metrics),
    )
    table = OpenedKeys(kept.key_store, kept.keys)
    hide = Names(redactor_of(settings), await kept.keys.names_key())
    stale_max_s = settings.auth.stale_max_s
    door = KeyedDoor(table, stale_max_s=stale_max_s, hide=hide) if keyed else OpenDoor(hide)
    chat = ChatCompletions(parts)
    readiness = Readiness(
        {
            "postgres": both(kept.database.ping, breakers.store),
            "queue": both(queued.queue.ping, breakers.hot_state),
            "embedder": both(kept.embedder.ping, breakers.embedder),
            "upstream": models.ping,
        }
    )
    return Wired(
        metrics=metrics,
        kept=kept,
        queued=queued,
        hot=hot,
        ledgers=ledgers,
        queries=queries,
        answers=answers,
        load=load,
        reranker=reranker,
        upstream=upstream,
        models=models,
        door=door,
        readiness=readiness,
        capture=parts.capture,
        journal=journal,
        canaries=canaries,
        front=Front(
            door=door,
            chat=chat,
            generation=Generation(chat),
            upstream=upstream,
            metrics=metrics,
            use=parts.use,
            journal=journal,
            in_flight=InFlight(settings.limits.requests_max),
            passages=passages,
        ),
        own=_own_api(settings, kept, queued, parts, door, readiness, audit, passages),
        signals=_signals(settings),
        tracing=tracing,
        passages=passages,
    )


async def _kept(settings: Settings) -> Kept:
    data, url = _resolved(settings.data.dir, "data.dir"), _resolved(settings.database.url, "database.url")
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
        loads=partial(can_be_loaded, settings),
    )


async def _queued(settings: Settings, metrics: Metrics) -> Queued:
    data, url = _resolved(settings.data.dir, "data.dir"), _resolved(settings.redis.url, "redis.url")
    queue = RedisQueue(url.get_secret_value(), lanes=settings.queue.lanes, durability=settings.queue.durability)
    hot_state = RedisHot(
        (settings.redis.cache_url or url).get_secret_value(),
        opening_ttl_s=settings.session.regenerate_window_s,
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
    rates = RedisRates((settings.redis.cache_url or url).get_secret_value())
    return Queued(queue, hot_state, rates, hand_off)


def _own_api(
    settings: Settings,
    kept: Kept,
    queued: Queued,
    parts: Parts,
    door: OpenDoor | KeyedDoor,
    readiness: Readiness,
    audit: AuditLog,
    passages: Passages,
) -> OwnApi:
    return OwnApi(
        OwnParts(
            door=door,
            readiness=readiness,
            metrics=parts.metrics,
            recaller=parts.memory.recaller,
            records=Records(kept.database, kept.scopes, kept.table, audit),
            feed=Feed(kept.database, kept.scopes),
            progress=ImportStore(kept.database, kept.scopes, kept.table),
            capture=parts.capture,
            queue=WithBackground(queued.queue, ExtractionStore(kept.database, kept.table).waiting),
            hand_off=queued.hand_off,
            spooled=partial(spooled, _resolved(settings.data.dir, "data.dir") / "spool"),
            keys=kept.keys,
            redactor=redactor_of(settings),
            embedder=kept.embedder,
            windows=kept.embedder,
            working=parts.memory.working,
            use=parts.use,
            sharing=Sharing(kept.database, kept.scopes, audit, kept.table),
            audit=audit,
            journal=parts.journal,
            canaries=parts.canaries,
            forgets=Asking(EraseStore(kept.database, kept.table), kept.keys),
            tells=Tells(queued.hot_state, kept.read_store),
            what_if=WhatIf(settings, parts.memory.recaller, parts.memory.rules, parts.memory.models),
            retention=timedelta(days=settings.replay.retention_days),
            passages=passages,
        )
    )


def _signals(settings: Settings) -> RedisErase:
    url = _resolved(settings.redis.url, "redis.url")
    cache = settings.redis.cache_url or url
    return RedisErase(url.get_secret_value(), cache.get_secret_value(), lanes=settings.queue.lanes)


def working_contexts(settings: Settings, kept: Kept, queued: Queued, metrics: Metrics) -> WorkingContexts | None:
    """What conversations are about; None where none is kept."""
    session = settings.session
    if not session.working_tokens:
        return None
    return WorkingContexts(
        WorkingParts(
            hot=queued.hot_state,
            store=PostgresWorking(kept.database, kept.scopes),
            keys=kept.keys,
            count=token_counter(settings).count,
            clock=partial(datetime.now, UTC),
            metrics=metrics,
            budget_tokens=session.working_tokens,
            ttl_s=session.working_ttl_s,
        )
    )


def _resolved(value: T | None, key: str) -> T:
    """A setting that the supervisor fills in. Raises ConfigInvalid where it has not."""
    if value is None:
        raise ConfigInvalid(f"{key} is not resolved: this process is started by `memory-proxy serve`")
    return value


async def bring_up(wired: Wired) -> None:
    """The first complete start: stores up and migrated, model loaded. Raises a MemoryProxyFault while it is not.

    ModelMoved: this process was built for another model than the store is searched with; the next one is not.
    """
    kept = wired.kept
    serving = await kept.serving.serving()
    if serving is None:
        raise StoreUnavailable("the store has not been settled yet")
    if serving.model.table != kept.table:
        if not await asyncio.to_thread(kept.loads, serving.model):
            await asyncio.sleep(MODEL_AGAIN_S)
            raise EmbedderUnavailable(f"{serving.model.name} is served, and its files are not on this machine")
        await asyncio.to_thread(write_note, kept.run, serving.model)
        raise ModelMoved(f"{serving.model.name} is served, not {kept.embedder.model}")
    tenant = await wired.kept.key_store.ensure_tenant("default", datetime.now(UTC))
    await wired.kept.keys.salt_key(tenant)
    if isinstance(wired.door, OpenDoor):
        wired.door.opens_to(tenant)
    else:
        await wired.door.read()
    await wired.queued.queue.ping()
    if not wired.kept.embedder.loaded:
        wired.kept.embedder.arrived(await asyncio.to_thread(OnnxEmbedder, wired.kept.model_files))
    await wired.models.refresh()
    await wired.readiness.probe()
    wired.readiness.started = True


async def close(wired: Wired) -> None:
    """Close what `wire` opened."""
    await wired.queued.hand_off.close()
    await wired.journal.write()
    await wired.upstream.close()
    wired.hot.close()
    if wired.reranker is not None:
        wired.reranker.close()
    await wired.queued.queue.close()
    await wired.queued.hot_state.close()
    await wired.queued.rates.close()
    await wired.signals.close()
    if wired.tracing is not None:
        await wired.tracing.close()
    await wired.kept.database.close()


def pool_bounds(settings: Settings) -> PoolBounds:
    """The pool's limits from the settings."""
    return PoolBounds(
        connections_max=settings.database.pool_size, statement_timeout_ms=settings.database.statement_timeout_ms
    )


def traces(settings: Settings, metrics: Metrics) -> Tracing | None:
    """Where traces go, if anywhere; only then is OpenTelemetry loaded. Blocking. Raises ConfigInvalid."""
    if settings.telemetry.otlp_endpoint is None:
        return None
    try:
        otlp = importlib.import_module("memory.adapters.otlp")
    except ImportError as missing:
        raise ConfigInvalid(
            f"telemetry.otlp_endpoint is set, and OpenTelemetry is not installed ({missing.name}): "
            "pip install 'vllm-memory-proxy[otel]'"
        ) from missing
    tracing: Tracing = otlp.OtlpTraces(settings.telemetry, metrics.spans)
    return tracing


def cross_encoder(settings: Settings) -> CrossEncoder | None:
    """The reranker where a directory is given. Blocking. Raises ModelFileInvalid."""
    recall = settings.recall
    return CrossEncoder(recall.reranker_dir, threads=recall.rerank_threads) if recall.reranker_dir else None


def reranking(settings: Settings, reranker: Reranker | None) -> Reranking | None:
    """The reranker as recall uses it. Any other Reranker is plugged in here (docs/seams.md)."""
    recall = settings.recall
    return Reranking(reranker, recall.rerank_depth, recall.rerank_weight) if reranker else None


def block_rules(settings: Settings) -> Rules:
    """How blocks are made."""
    return Rules(limits_of(settings), token_counter(settings), ByLength(), SentenceCompressor())


def token_counter(settings: Settings) -> TokenCounter:
    """The served model's own tokenizer where a directory is given, else an estimate."""
    directory = settings.tokenizer.directory
    return LocalTokenizer(directory) if directory else EstimatedTokens()


def open_spool(directory: Path, bytes_max: int) -> Spool | None:
    """This process's spool file; None, said in the log, where it cannot be used. Blocking."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Spool(directory / f"{new_id()}.spool", bytes_max)
    except (OSError, SpoolUnavailable) as fault:
        event(log, "no_spool", logging.ERROR, fault=str(fault))
        return None


class HandOffMeter:
    """Counts of the hand-off, as metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def count(self, name: str, amount: int = 1) -> None:
        """Add to the counter of this event."""
        self._metrics.hand_off.labels(name).inc(amount)
        if name == "dropped":
            self._metrics.captures_lost.inc(amount)
