"""Where a proxy worker is put together: settings in, everything built and passed down out.

`wire` builds without waiting for anything outside;
`bring_up` asks the stores and loads the model, and may be called again until it succeeds.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from memory.adapters.cross_encoder import CrossEncoder
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.checkpoint_store import CheckpointStore
from memory.adapters.postgres.edit_store import EditStore
from memory.adapters.postgres.entity_store import EntityStore
from memory.adapters.postgres.erase_store import EraseStore
from memory.adapters.postgres.extraction_store import ExtractionStore
from memory.adapters.postgres.import_store import ImportStore
from memory.adapters.postgres.outbox import Feed
from memory.adapters.postgres.persona_store import PersonaStore
from memory.adapters.postgres.preference_store import PreferenceStore
from memory.adapters.postgres.records import Records
from memory.adapters.postgres.sharing import Sharing
from memory.adapters.postgres.task_store import TaskStore
from memory.adapters.redaction import again, redactor_of
from memory.adapters.redis_erase import RedisErase
from memory.adapters.spool import count as spooled
from memory.adapters.tokenizer import UpstreamTokenizer
from memory.audit import Journal
from memory.beside import Job
from memory.canary import Canaries
from memory.config import Settings, digest, effective_cache_salt
from memory.erasure.asking import Asking
from memory.erasure.follower import Follower as EraseFollower
from memory.erasure.follower import HoldsQueries
from memory.errors import EmbedderUnavailable, StoreUnavailable
from memory.ids import new_id
from memory.key_table import OpenedKeys
from memory.names import Names
from memory.passage import Tracing
from memory.read.answers import Answers
from memory.read.conversation import Conversations
from memory.read.entries import EntryCache
from memory.read.guarded import GuardedEmbedder, GuardedHints, GuardedHot, GuardedReads
from memory.read.hot import HotScopes
from memory.read.ledger import Ledgers
from memory.read.personas import Personas
from memory.read.query_cache import QueryCache
from memory.read.recall import Recaller
from memory.read.restore import Restorer
from memory.read.tell import Tells
from memory.read.working import WorkingContexts
from memory.serving import ModelMoved, write_note
from memory.telemetry import Metrics
from memory.trim import keep_trimming
from memory.working_wiring import working_contexts
from memory.write.copied import copied_chain
from proxy.api.keeps_checkpoints import CheckpointParts
from proxy.api.own import OwnApi, OwnParts
from proxy.api.queue import WithBackground
from proxy.api.search_turns import SearchTurns, search_places
from proxy.api.tool_record import ToolRecords
from proxy.app import Front
from proxy.auth import KeyedDoor, OpenDoor
from proxy.breakers import Breakers, both, breakers_of, stores
from proxy.cache_report import CacheReport
from proxy.capture import Bounds, Capture
from proxy.chat import ChatCompletions, Parts
from proxy.copies import Copies
from proxy.generation import Generation
from proxy.in_flight import InFlight
from proxy.itself import Listening
from proxy.limits import KeyUse
from proxy.load import LoadControl, places_of
from proxy.passages import Passages
from proxy.prompt import Rules
from proxy.readiness import Readiness
from proxy.relay import Upstream
from proxy.remembering import MemoryParts
from proxy.rolling import Follower, supervisor_of
from proxy.served_model import ServedModels
from proxy.what_if import WhatIf
from proxy.wiring.choices import block_rules, cross_encoder, reranking, traces
from proxy.wiring.documents import artifact_parts, document_parts, looks_outside
from proxy.wiring.stores import Kept, Queued, open_kept, open_queued, open_signals, resolved

BEGUN: Final = "begun"
"""As the supervisor calls it: there once the service has been complete."""
# Its files are looked for, and read whole, so often.
MODEL_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Base:
    """What all the rest is built on."""

    settings: Settings
    metrics: Metrics
    kept: Kept
    queued: Queued
    breakers: Breakers
    passages: Passages

    @property
    def keyed(self) -> bool:
        """Whether callers have keys, and there may be several tenants."""
        return self.settings.auth.mode == "keys"


@dataclass(frozen=True, slots=True)
class Reading:
    """The read path's own."""

    hot: HotScopes
    load: LoadControl
    queries: QueryCache
    answers: Answers
    conversations: Conversations
    ledgers: Ledgers
    recaller: Recaller
    restorer: Restorer
    personas: Personas


@dataclass(frozen=True, slots=True)
class Wired:
    """A worker's parts that outlive a request. `opened`: who may call is known, and what they say can be sealed."""

    base: Base
    reading: Reading
    reranker: CrossEncoder | None
    upstream: Upstream
    models: ServedModels
    door: OpenDoor | KeyedDoor
    readiness: Readiness
    capture: Capture
    working: WorkingContexts | None
    journal: Journal
    canaries: Canaries
    front: Front
    own: OwnApi
    signals: RedisErase
    tracing: Tracing | None
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def kept(self) -> Kept:
        """What holds data."""
        return self.base.kept

    @property
    def hears(self) -> EraseFollower:
        """What lets go of the erased here."""
        kept = self.kept
        name = f"proxy-{os.getpid()}-{new_id()}"
        caches: list[HoldsQueries] = [self.reading.queries, self.reading.answers]
        caches += [self.working] if self.working is not None else []
        return EraseFollower(self.signals, name, kept.scopes, kept.keys, self, caches)

    def let_go(self, tenant: UUID, scope_ids: Sequence[int]) -> None:
        """Hold nothing of what was erased: indexes and conversations of these scopes, the tenant's ledger entries."""
        self.reading.hot.let_go(tenant, scope_ids)
        self.reading.conversations.let_go(tenant, scope_ids)
        self.reading.ledgers.let_go(tenant)

    def let_go_of_all(self) -> None:
        """The same of everybody's, but for indexes: the store says of each what was erased of it."""
        self.reading.conversations.let_go_of_all()
        self.reading.ledgers.let_go_of_all()

    def holding(self, tenant: UUID, memory_ids: Sequence[UUID]) -> int:
        """How often these ids are held in process."""
        return self.reading.hot.holding(tenant, memory_ids) + self.reading.ledgers.holding(tenant, memory_ids)

    @property
    def follower(self) -> Follower:
        """What has this process replaced when another model is served."""
        kept = self.kept
        parent = supervisor_of(os.environ)
        return Follower(kept.run, kept.table, kept.serving.serving, kept.serving.generation, parent, kept.loads)

    @property
    def background(self) -> dict[str, Job]:
        """What runs beside the requests, for ever, by name."""
        always: dict[str, Job] = {
            "readiness": self.readiness.keep_probing,
            "spool": self.base.queued.hand_off.keep_draining,
            "indexes": partial(self.reading.hot.keep_up, self.base.queued.hot_state.announcements),
            "served model": self.follower.follow,
            "audit": self.journal.keep_writing,
            "canaries": self.canaries.keep_examining,
            "erasures": self.hears.follow,
            "load": self.reading.load.keep_looking,
            "counts": self.base.passages.keep_writing,
            "free memory": keep_trimming,
        }
        if not isinstance(self.door, KeyedDoor):
            return always
        return {**always, "keys": self.door.keep_reading, "ended keys": self.door.keep_hearing}


async def wire(settings: Settings, metrics: Metrics, listening: Listening) -> Wired:
    """Build the parts of a worker that is `listening` there. Raises ConfigInvalid, StartFailed, ModelFileInvalid where
    they cannot be.
    """
    # First: where one of them is refused nothing is open yet.
    reranker = await asyncio.to_thread(cross_encoder, settings)
    rules = await asyncio.to_thread(block_rules, settings)
    tracing = await asyncio.to_thread(traces, settings, metrics)
    kept = await open_kept(settings)
    queued = await open_queued(settings, metrics)
    base = Base(settings, metrics, kept, queued, breakers_of(settings, metrics), Passages(metrics, tracing))
    upstream = _upstream(settings, listening)
    models = ServedModels(
        upstream, api_key=_api_key(settings), counts=UpstreamTokenizer, breaker=base.breakers.tokenizer
    )
    reading = _reading(base, reranker)
    audit = AuditLog(kept.database, kept.keys.audit_key)
    journal = Journal(audit, metrics)
    parts = _parts(base, reading, upstream, models, rules, journal, audit)
    door = await _door(settings, kept, queued)
    readiness = _readiness(base, models)
    signals = open_signals(settings)
    return Wired(
        base=base,
        reading=reading,
        reranker=reranker,
        upstream=upstream,
        models=models,
        door=door,
        readiness=readiness,
        capture=parts.capture,
        working=parts.memory.working,
        journal=journal,
        canaries=parts.canaries,
        front=_front(base, parts, door),
        own=_own_api(base, parts, door, readiness, audit, signals),
        signals=signals,
        tracing=tracing,
    )


def _reading(base: Base, reranker: CrossEncoder | None) -> Reading:
    settings, metrics, kept, breakers = base.settings, base.metrics, base.kept, base.breakers
    reads = GuardedReads(kept.read_store, breakers.store)
    hot_state = GuardedHot(base.queued.hot_state, breakers.hot_state)
    law = again(settings)
    hot = HotScopes(
        reads,
        dim=kept.embedder.dim,
        bytes_max=settings.recall.hot_scope_bytes_max,
        staleness_ms=settings.recall.scope_staleness_max_ms,
        metrics=metrics,
        clean=law.cleaned,
    )
    load = LoadControl(settings.recall.deadline_ms / 1000, metrics)
    embedder = GuardedEmbedder(kept.embedder, breakers.embedder, load.embedding_took, load.embedding_left)
    queries = QueryCache(embedder, metrics)
    answers = Answers(metrics)
    return Reading(
        hot=hot,
        load=load,
        queries=queries,
        answers=answers,
        conversations=Conversations(hot_state, reads, partial(copied_chain, law.redactor)),
        ledgers=Ledgers(
            hot_state,
            reads,
            hot,
            kept.keys,
            metrics,
            law.cleaned,
            law.redacted,
            EntryCache(settings.ledger.cache_bytes_max),
        ),
        recaller=Recaller(hot, reads, queries, metrics, reranking=reranking(settings, reranker), answers=answers),
        restorer=Restorer(reads, law.cleaned),
        personas=Personas(reads, law.cleaned),
    )


def _parts(
    base: Base,
    reading: Reading,
    upstream: Upstream,
    models: ServedModels,
    rules: Rules,
    journal: Journal,
    audit: AuditLog,
) -> Parts:
    settings, metrics, kept, queued = base.settings, base.metrics, base.kept, base.queued
    bounds = Bounds(settings.queue.request_bytes_max, settings.queue.answer_bytes_max)
    capture = Capture(queued.hand_off, reading.conversations, kept.keys, bounds, metrics)
    hints = GuardedHints(queued.hot_state, base.breakers.hot_state)
    memory = MemoryParts(
        settings=settings,
        keys=kept.keys,
        conversations=reading.conversations,
        hot=reading.hot,
        recaller=reading.recaller,
        restorer=reading.restorer,
        personas=reading.personas,
        ledgers=reading.ledgers,
        rules=rules,
        models=models,
        working=working_contexts(
            settings.session, kept.database, kept.scopes, hints, kept.keys, rules.counter, metrics
        ),
        capture=capture,
    )
    return Parts(
        settings=settings,
        config_digest=digest(settings),
        keys=kept.keys,
        upstream=upstream,
        memory=memory,
        capture=capture,
        metrics=metrics,
        embedding_model=kept.embedder.model,
        salted=effective_cache_salt(settings) == "tenant",
        use=KeyUse(queued.rates) if base.keyed else None,
        journal=journal,
        canaries=Canaries(kept.keys.canary_key, audit, journal, metrics),
        cache_report=CacheReport(metrics),
        places=places_of(settings, reading.load, metrics, search_places()),
        copies=Copies(settings.queue.copies_bytes_max, metrics, tenants=base.keyed),
        outside=looks_outside(settings, kept, audit, journal, metrics),
    )


def _api_key(settings: Settings) -> str | None:
    return settings.upstream.api_key.get_secret_value() if settings.upstream.api_key else None


def _upstream(settings: Settings, listening: Listening) -> Upstream:
    return Upstream(
        settings.upstream.url,
        api_key=_api_key(settings),
        replace_auth=settings.auth.mode == "keys",
        connect_timeout_s=settings.upstream.connect_timeout_s,
        keepalive_s=settings.upstream.keepalive_s,
        listening=listening,
    )


async def _door(settings: Settings, kept: Kept, queued: Queued) -> OpenDoor | KeyedDoor:
    hide = Names(redactor_of(settings), await kept.keys.names_key())
    if settings.auth.mode == "open":
        return OpenDoor(hide)
    table, stale_max_s = OpenedKeys(kept.key_store, kept.keys), settings.auth.stale_max_s
    return KeyedDoor(table, stale_max_s=stale_max_s, hide=hide, told=queued.ended)


def _readiness(base: Base, models: ServedModels) -> Readiness:
    kept, breakers = base.kept, base.breakers
    return Readiness(
        {
            "postgres": both(stores(kept.database.ping, base.queued.queue), breakers.store),
            "queue": both(base.queued.ping, breakers.hot_state),
            "embedder": both(kept.embedder.ping, breakers.embedder),
            "upstream": models.ping,
        },
        base.metrics,
        begun=not base.keyed and (kept.run / BEGUN).exists(),  # who has keys is let in once they were read here
    )


def _front(base: Base, parts: Parts, door: OpenDoor | KeyedDoor) -> Front:
    chat = ChatCompletions(parts)
    return Front(
        door=door,
        chat=chat,
        generation=Generation(chat),
        upstream=parts.upstream,
        metrics=base.metrics,
        use=parts.use,
        journal=parts.journal,
        in_flight=InFlight(base.settings.limits, tenants=base.keyed),
        passages=base.passages,
    )


def _own_api(
    base: Base,
    parts: Parts,
    door: OpenDoor | KeyedDoor,
    readiness: Readiness,
    audit: AuditLog,
    signals: RedisErase,
) -> OwnApi:
    settings, kept, queued = base.settings, base.kept, base.queued
    return OwnApi(
        OwnParts(
            door=door,
            readiness=readiness,
            metrics=parts.metrics,
            recaller=parts.memory.recaller,
            records=Records(kept.database, kept.scopes, kept.table, audit),
            edits=EditStore(kept.database, kept.scopes),
            feed=Feed(kept.database, kept.scopes),
            progress=ImportStore(kept.database, kept.scopes, kept.table),
            capture=parts.capture,
            tool_records=ToolRecords(parts.capture, parts.config_digest, kept.embedder.model),
            queue=WithBackground(queued.queue, ExtractionStore(kept.database, kept.table).waiting),
            hand_off=queued.hand_off,
            spooled=partial(spooled, resolved(settings.data.dir, "data.dir") / "spool"),
            keys=kept.keys,
            redactor=redactor_of(settings),
            embedder=kept.embedder,
            windows=kept.embedder,
            working=parts.memory.working,
            use=parts.use,
            searches=SearchTurns(parts.places.searches),
            sharing=Sharing(kept.database, kept.scopes, audit, kept.table),
            checkpoints=CheckpointParts(
                CheckpointStore(kept.database, kept.scopes, kept.table, audit),
                parts.memory.ledgers,
                parts.memory.restorer,
                parts.memory.rules.counter,
                settings.checkpoint,
            ),
            preferences=PreferenceStore(kept.database, kept.scopes),
            tasks=TaskStore(kept.database, kept.scopes, kept.table, audit),
            artifacts=artifact_parts(settings, kept, audit),
            entities=EntityStore(kept.database, kept.scopes, kept.table, audit),
            personas=PersonaStore(kept.database, kept.scopes, kept.table, audit),
            audit=audit,
            journal=parts.journal,
            canaries=parts.canaries,
            forgets=Asking(EraseStore(kept.database, kept.table), kept.keys),
            tells=Tells(queued.hot_state, kept.read_store, signals),
            what_if=WhatIf(settings, parts.memory.recaller, parts.memory.rules, parts.memory.models),
            retention=timedelta(days=settings.replay.retention_days),
            passages=base.passages,
            documents=document_parts(settings, kept, audit),
            outside=parts.outside,
        )
    )


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
        if not await asyncio.to_thread(write_note, kept.run, serving.model):
            await asyncio.sleep(MODEL_AGAIN_S)
            raise EmbedderUnavailable(
                f"{serving.model.name} is served, and {kept.run} cannot be written to begin with it"
            )
        raise ModelMoved(f"{serving.model.name} is served, not {kept.embedder.model}")
    tenant = await wired.kept.key_store.ensure_tenant("default", datetime.now(UTC))
    await wired.kept.keys.salt_key(tenant)
    if isinstance(wired.door, OpenDoor):
        wired.door.opens_to(tenant)
    else:
        await wired.door.read()
    wired.opened.set()
    if not wired.kept.embedder.loaded:  # before the queue is asked: recall does without that
        wired.kept.embedder.arrived(await asyncio.to_thread(OnnxEmbedder, wired.kept.model_files))
    await wired.base.queued.queue.ping()
    await wired.models.refresh()
    await wired.readiness.probe()
    wired.readiness.started = True


async def close(wired: Wired) -> None:
    """Close what `wire` opened."""
    await wired.base.queued.hand_off.close()
    await wired.journal.write()
    await wired.upstream.close()
    wired.reading.hot.close()
    if wired.reranker is not None:
        wired.reranker.close()
    await wired.base.queued.queue.close()
    await wired.base.queued.hot_state.close()
    await wired.base.queued.rates.close()
    await wired.base.queued.ended.close()
    await wired.signals.close()
    if wired.tracing is not None:
        await wired.tracing.close()
    await wired.kept.database.close()
