"""The catalogue of metrics by subject: a registry in, its counters, gauges and histograms out.

docs/metrics.md says the same.

Names begin with `memory_proxy_`, base units, `_total` on counters; no label is a tenant, a model or anything a client
chose (DESIGN section 10). What stands on the request path has its children resolved once: a look-up by label costs more
than the count itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Generic, Literal, TypeVar, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from policies.overload import LADDER, Rung

_LONG_SECONDS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# From the parsing of a body (50 us) to an answer of minutes.
_STAGE_SECONDS: Final = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
# What an exchange waits until it is found again: the worker's 20 ms to the hours of a store that was away.
_LAG_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
# Confirmed before the question's vector was there: 1.00 to 1.02 s where the bound is 1 s, and p99 was said to be 2.3.
_STALENESS_SECONDS: Final = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.1, 1.25, 1.5, 2.5, 10.0)

# Of a chat request, in their order; `embed` and `search` lie inside `recall`, `capture` inside `hold`.
Stage = Literal[
    "read",
    "identify",
    "outside",
    "find",
    "recall",
    "assemble",
    "admit",
    "upstream",
    "stream",
    "hold",
    "embed",
    "search",
    "capture",
]
_CHECKPOINTS: Final = ("saved", "changed", "branched", "loaded", "deleted", "placed", "cut", "missing")
_TASKS: Final = ("added", "changed", "deleted", "undeleted")
_ARTIFACTS: Final = ("added", "reused", "changed", "captioned", "linked", "deleted", "undeleted")
_ENTITIES: Final = ("added", "changed", "merged", "split", "deleted", "undeleted", "related", "unrelated")
_PERSONAS: Final = ("saved", "changed", "deleted", "placed", "missing")
_CONSOLIDATED: Final = (  # memory.consolidation.STEPS
    *("expired", "superseded", "duplicates", "repeated", "evidence", "summaries", "episodes"),
    *("compressed", "unused", "bound", "pruned", "past", "review"),
)
InLedger = Literal["placed", "kept", "withdrawn"]
Generation = Literal["0", "1", "2"]
Label = TypeVar("Label", bound=str)


def _begun(counter: Counter, *values: str) -> Counter:
    """A counter whose series stand at 0 from the start: neither `rate` nor `increase` sees the first of a series that
    was absent, and alerts and panels would miss what happens once."""
    for value in values:
        counter.labels(value)
    return counter


class Timings(Generic[Label]):
    """The histograms of one label, counted here and written all at once by `write`, each second and at every scrape.

    One observation costs 2.3 us in prometheus_client's multiprocess mode, and a request has twelve: 33 us of CPU time;
    .4 us each in this way (bench/seeing.py). A process that is killed takes its last second of them along. Takes no
    lock and resolves no series: it may be observed wherever the garbage collector begins to run.
    """

    def __init__(self, histogram: Histogram, labels: Sequence[Label], buckets: Sequence[float]) -> None:
        self._children = {label: histogram.labels(label) for label in labels}
        self._buckets = buckets
        self._counts = {label: [0] * (len(buckets) + 1) for label in labels}
        self._sums = dict.fromkeys(labels, 0.0)

    def observe(self, label: Label, seconds: float) -> None:
        """Count one. On the event loop's thread."""
        self._counts[label][bisect_left(self._buckets, seconds)] += 1
        self._sums[label] += seconds

    def write(self) -> None:
        """Into the histograms what was counted since. On the event loop's thread."""
        for label, child in self._children.items():
            counts, total = self._counts[label], self._sums[label]
            if not any(counts):
                continue
            self._counts[label], self._sums[label] = [0] * len(counts), 0.0
            child._sum.inc(total)
            for bucket, count in zip(child._buckets, counts, strict=True):
                if count:
                    bucket.inc(count)


class Tally:
    """A counter with labels, counted here and written all at once by `write`, as Timings are and for their reason."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._counts: dict[tuple[str, ...], int] = {}

    def inc(self, *labels: str) -> None:
        """Count one, by the values of its labels. On the event loop's thread."""
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def write(self) -> None:
        """Into the counter what was counted since. On the event loop's thread."""
        while self._counts:  # what is written is not written again, whatever becomes of the next
            labels, count = self._counts.popitem()
            self._counter.labels(*labels).inc(count)


class RequestMetrics:
    """Requests: what came, how long each stage took, what became of it."""

    def __init__(self, own: CollectorRegistry) -> None:
        requests = Counter(
            "memory_proxy_requests_total", "Requests by route and status class.", ["route", "status"], registry=own
        )
        self.requests = Tally(requests)
        self.added_seconds = Histogram(
            "memory_proxy_added_seconds",
            "Time from the read body to the assembled prompt.",
            registry=own,
            buckets=_SECONDS,
        )
        stages = Histogram(
            "memory_proxy_stage_seconds",
            "Chat completions by stage of the request path.",
            ["stage"],
            registry=own,
            buckets=_STAGE_SECONDS,
        )
        self.stages = Timings[Stage](stages, get_args(Stage), _STAGE_SECONDS)
        self.overflow_retries = Counter(
            "memory_proxy_overflow_retries_total", "Requests sent again without their block.", registry=own
        )
        self.upstream_failures = _begun(
            Counter("memory_proxy_upstream_failures_total", "Upstream faults by phase.", ["phase"], registry=own),
            "connect",
            "midstream",
        )
        self.clients_left = Counter(
            "memory_proxy_clients_left_total", "Clients that left before the end.", registry=own
        )


class RecallMetrics:
    """Memory given: recall, what was placed, the hot scopes it is read from."""

    def __init__(self, own: CollectorRegistry) -> None:
        statuses = Counter(
            "memory_proxy_memory_status_total",
            "Chat completions by memory status; other generation routes are among off.",
            ["status", "reason"],
            registry=own,
        )
        self.statuses = Tally(statuses)
        recalls = Histogram("memory_proxy_recall_seconds", "Recall by rung.", ["rung"], registry=own, buckets=_SECONDS)
        self.recall_seconds = Timings[Rung](recalls, get_args(Rung), _SECONDS)
        self.injected_memories = Counter(
            "memory_proxy_injected_memories_total", "Memories newly placed in prompts.", registry=own
        )
        self.injected_tokens = Counter("memory_proxy_injected_tokens_total", "Tokens of these memories.", registry=own)
        self.scope_staleness_seconds = Histogram(
            "memory_proxy_scope_staleness_seconds",
            "Age of a hot scope's last confirmation when it is used.",
            registry=own,
            buckets=_STALENESS_SECONDS,
        )
        self.hot_scopes = Gauge(
            "memory_proxy_hot_scopes", "Scopes held in process.", registry=own, multiprocess_mode="livesum"
        )
        self.hot_scope_bytes = Gauge(
            "memory_proxy_hot_scope_bytes", "Bytes held by hot scopes.", registry=own, multiprocess_mode="livesum"
        )
        self.working = Counter(
            "memory_proxy_working_contexts_total", "Readings of working contexts.", ["how"], registry=own
        )


class LedgerMetrics:
    """The ledger: blocks placed, put back where they stood, and taken out again."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.ledger_blocks = Counter(
            "memory_proxy_ledger_blocks_total", "Blocks of memory in prompts.", ["what"], registry=own
        )
        self.ledger_tokens = Counter(
            "memory_proxy_ledger_tokens_total", "Tokens of these blocks.", ["what"], registry=own
        )
        self.ledger_withdrawn = Counter(
            "memory_proxy_ledger_withdrawn_total", "Blocks that were not put back, by reason.", ["reason"], registry=own
        )
        self._of_ledger = {
            what: (self.ledger_blocks.labels(what), self.ledger_tokens.labels(what)) for what in get_args(InLedger)
        }

    def ledger(self, what: InLedger, blocks: int, tokens: int, reason: str | None = None) -> None:
        """Count blocks of one prompt and their tokens; `reason` for withdrawn ones."""
        if blocks:
            counted, sized = self._of_ledger[what]
            counted.inc(blocks)
            sized.inc(tokens)
            if reason is not None:
                self.ledger_withdrawn.labels(reason).inc(blocks)


class PrefixCacheMetrics:
    """vLLM's prefix cache, as its answers tell of it."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.prompt_tokens = Counter(
            "memory_proxy_prompt_tokens_total",
            "Prompt tokens of answers that say how much was cached.",
            ["part", "request"],
            registry=own,
        )
        self.prompt_cached = Counter(
            "memory_proxy_prompt_cached_tokens_total",
            "Of these, tokens from vLLM's prefix cache.",
            ["part", "request"],
            registry=own,
        )
        self.prompt_cached_expected = Counter(
            "memory_proxy_prompt_cached_expected_tokens_total",
            "The client's tokens of later requests that would have been cached without memory, an estimate.",
            registry=own,
        )


class LoadMetrics:
    """Load: what gives way, what is left alone, what is not done twice, and what stops a process."""

    def __init__(self, own: CollectorRegistry) -> None:
        vectors = Counter(
            "memory_proxy_query_embeddings_total", "Questions by how they came by their vector.", ["what"], registry=own
        )
        self.query_embeddings = Tally(vectors)
        answers = Counter(
            "memory_proxy_recall_answers_total",
            "Answers of hot scopes by how they came about.",
            ["what"],
            registry=own,
        )
        self.recall_answers = Tally(answers)
        self.dependency_away = Gauge(
            "memory_proxy_dependency_away",
            "Proxy workers to which a dependency does not answer.",
            ["dependency"],
            registry=own,
            multiprocess_mode="livesum",
        )
        self.breaker_open = Gauge(
            "memory_proxy_breaker_open",
            "Processes that leave a dependency alone.",
            ["part"],
            registry=own,
            multiprocess_mode="livesum",
        )
        self.breaker_trips = Counter(
            "memory_proxy_breaker_trips_total", "Times that a dependency was left alone.", ["part"], registry=own
        )
        self.breaker_refused = Counter(
            "memory_proxy_breaker_refused_total",
            "Calls that were not made because a dependency is left alone.",
            ["part"],
            registry=own,
        )
        self.loop_lag_seconds = Histogram(
            "memory_proxy_loop_lag_seconds",
            "How late a proxy's event loop comes round.",
            registry=own,
            buckets=_SECONDS,
        )
        self.overload_rung = Gauge(
            "memory_proxy_overload_rung",
            "Rungs below full at which requests begin, of the process where it is most.",
            registry=own,
            multiprocess_mode="livemax",
        )
        steps = Counter(
            "memory_proxy_overload_steps_total", "Steps on the ladder of recall because of load.", ["to"], registry=own
        )
        self.overload_steps = _begun(steps, "down", "up")
        shed = Counter(
            "memory_proxy_recalls_shed_total",
            "Requests that had less of memory because of load.",
            ["what"],
            registry=own,
        )
        self.recalls_shed = _begun(shed, "place", *LADDER[1:])
        checkpoints = Counter(
            "memory_proxy_checkpoints_total", "What was done with checkpoints.", ["what"], registry=own
        )
        self.checkpoints = _begun(checkpoints, *_CHECKPOINTS)
        tasks = Counter("memory_proxy_tasks_total", "What was done with tasks.", ["what"], registry=own)
        self.tasks = _begun(tasks, *_TASKS)
        artifacts = Counter("memory_proxy_artifacts_total", "What was done with files.", ["what"], registry=own)
        self.artifacts = _begun(artifacts, *_ARTIFACTS)
        entities = Counter(
            "memory_proxy_entities_total", "What was done with people and things.", ["what"], registry=own
        )
        self.entities = _begun(entities, *_ENTITIES)
        personas = Counter("memory_proxy_personas_total", "What was done with personas.", ["what"], registry=own)
        self.personas = _begun(personas, *_PERSONAS)
        pauses = Histogram(
            "memory_proxy_gc_pause_seconds",
            "How long the garbage collector stopped a proxy worker, by generation.",
            ["generation"],
            registry=own,
            buckets=_SECONDS,
        )
        self.gc_pauses = Timings[Generation](pauses, get_args(Generation), _SECONDS)


class CaptureMetrics:
    """Capture and the queue: what is kept, where, and what waits."""

    def __init__(self, own: CollectorRegistry) -> None:
        captures = Counter(
            "memory_proxy_captures_total", "Captured exchanges by where they went.", ["where"], registry=own
        )
        self.captures = Tally(_begun(captures, "queue", "spool", "none"))
        self.capture_seconds = Histogram(
            "memory_proxy_capture_seconds", "How long the last byte was held.", registry=own, buckets=_SECONDS
        )
        self.copies_bytes = Gauge(
            "memory_proxy_copies_bytes",
            "Bytes of answers under way that are held for capture.",
            registry=own,
            multiprocess_mode="livesum",
        )
        self.copies_refused = _begun(
            Counter(
                "memory_proxy_copies_refused_total",
                "Answers of which no copy was held, by reason.",
                ["reason"],
                registry=own,
            ),
            "answer_too_large",
            "copies_full",
        )
        self.captures_lost = Counter(
            "memory_proxy_captures_lost_total", "Envelopes that neither queue nor spool nor memory took.", registry=own
        )
        self.hand_off = _begun(
            Counter("memory_proxy_hand_off_total", "What the hand-off of envelopes did.", ["what"], registry=own),
            "queued",
            "spooled",
            "undurable",
            "put_failed",
            "spool_failed",
            "drained",
            "adopted",
            "spool_damaged",
            "dropped",
        )
        self.queue_entries = Gauge(
            "memory_proxy_queue_entries",
            "Entries of the durable queue by state.",
            ["state"],
            registry=own,
            multiprocess_mode="mostrecent",
        )
        self.queue_oldest_seconds = Gauge(
            "memory_proxy_queue_oldest_seconds",
            "Age of the oldest entry.",
            registry=own,
            multiprocess_mode="mostrecent",
        )


class WriteMetrics:
    """The write path: what the workers stored, held back and dropped, and how long it took."""

    def __init__(self, own: CollectorRegistry) -> None:
        work = Counter("memory_proxy_work_total", "What the worker loop did.", ["what"], registry=own)
        self.work = _begun(work, "stored", "transient", "poison", "buried", "lane_lost", "unforeseen")
        self.write_seconds = Histogram(
            "memory_proxy_write_seconds", "Write path by step.", ["step"], registry=own, buckets=_SECONDS
        )
        self.searchable_seconds = Histogram(
            "memory_proxy_searchable_seconds",
            "Age of an exchange, from the end of its answer, when it became searchable.",
            registry=own,
            buckets=_LAG_SECONDS,
        )
        self.turns = Counter("memory_proxy_turns_total", "Turns stored.", registry=own)
        self.memories = Counter("memory_proxy_memories_total", "Memories stored by kind.", ["kind"], registry=own)
        self.facts_dropped = Counter(
            "memory_proxy_facts_dropped_total", "Facts that their turn did not support.", registry=own
        )
        self.episodes = Counter("memory_proxy_episodes_total", "Ended sessions told.", ["what"], registry=own)
        self.redactions = Counter("memory_proxy_redactions_total", "Secrets replaced.", registry=own)
        self.quarantined = Counter(
            "memory_proxy_quarantined_total", "Memories held back for review, by each rule.", ["rule"], registry=own
        )
        self.over_budget = Counter(
            "memory_proxy_over_budget_total",
            "Memories held back for review because their source wrote too many within the hour.",
            registry=own,
        )


class DocumentMetrics:
    """Files that were uploaded: what came of them, and how long reading and storing one took."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.documents = _begun(
            Counter("memory_proxy_documents_total", "Uploads by what came of them.", ["outcome"], registry=own),
            "taken",
            "stored",
            "failed",
            "refused",
        )
        self.document_parse_seconds = Histogram(
            "memory_proxy_document_parse_seconds",
            "Reading of one uploaded file, in its own process.",
            registry=own,
            buckets=_LONG_SECONDS,
        )
        self.document_seconds = Histogram(
            "memory_proxy_document_seconds",
            "From a worker taking an upload to its chunks being stored.",
            registry=own,
            buckets=_LONG_SECONDS,
        )


class ExtractionMetrics:
    """Facts by a model, beside the lanes."""

    def __init__(self, own: CollectorRegistry) -> None:
        extractions = Counter(
            "memory_proxy_extractions_total",
            "Exchanges that waited for a model, by what came of it.",
            ["outcome"],
            registry=own,
        )
        self.extractions = _begun(extractions, "fault")
        self.extraction_dropped = Counter(
            "memory_proxy_extraction_dropped_total",
            "Facts that a model named and that do not hold, by reason.",
            ["reason"],
            registry=own,
        )
        self.extraction_tokens = Counter(
            "memory_proxy_extraction_tokens_total",
            "Prompt tokens of questions to a model; cached of these.",
            ["what"],
            registry=own,
        )
        self.extraction_yields = Counter(
            "memory_proxy_extraction_yields_total", "Questions given up because users waited.", registry=own
        )


class UpkeepMetrics:
    """What is kept, and kept in bounds: hygiene, consolidation."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.hygiene = Gauge(
            "memory_proxy_hygiene_ratio",
            "Share of sampled memories by what is wrong with them.",
            ["rate"],
            registry=own,
            multiprocess_mode="mostrecent",
        )
        consolidated = Counter(
            "memory_proxy_consolidated_total", "Rows that consolidation changed, by step.", ["step"], registry=own
        )
        self.consolidated = _begun(consolidated, *_CONSOLIDATED)
        self.consolidation_seconds = Gauge(
            "memory_proxy_consolidation_seconds",
            "Time of the last consolidation, by step.",
            ["step"],
            registry=own,
            multiprocess_mode="mostrecent",
        )
        self.consolidation_end_seconds = Gauge(
            "memory_proxy_consolidation_end_seconds",
            "When the last consolidation ended, Unix time; while none has, since when it is waited for.",
            registry=own,
            multiprocess_mode="mostrecent",
        )


class LawMetrics:
    """Erasure, audit, canaries."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.erasures = _begun(
            Counter("memory_proxy_erasures_total", "Erasures by what came of them.", ["outcome"], registry=own),
            "complete",
            "traces_left",
            "stopped",
        )
        self.erasures_waiting = Gauge(
            "memory_proxy_erasures_waiting",
            "Erasures that were asked for and have no receipt yet, of which 100 are counted.",
            registry=own,
            multiprocess_mode="mostrecent",
        )
        self.erasure_seconds = Histogram(
            "memory_proxy_erasure_seconds",
            "From an erasure's request to its receipt.",
            registry=own,
            buckets=_LONG_SECONDS,
        )
        self.audit = _begun(
            Counter("memory_proxy_audit_total", "Rows of the audit log.", ["what"], registry=own), "written", "dropped"
        )
        self.canary_seen = _begun(
            Counter(
                "memory_proxy_canary_seen_total",
                "Canaries of one tenant seen in a prompt or an answer of another.",
                ["where"],
                registry=own,
            ),
            "prompt",
            "answer",
            "api",
        )


class OutsideMetrics:
    """The web: what was asked for, what came, and why not."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.outside_needs = Counter(
            "memory_proxy_outside_needs_total", "Questions looked at, by why they need the web.", ["need"], registry=own
        )
        self.outside_searches = Counter(
            "memory_proxy_outside_searches_total", "Searches by what came of them.", ["outcome"], registry=own
        )
        self.outside_pages = Counter(
            "memory_proxy_outside_pages_total", "Pages by what came of them.", ["outcome"], registry=own
        )
        self.outside_seconds = Histogram(
            "memory_proxy_outside_seconds",
            "Time for the web, by step.",
            ["step"],
            registry=own,
            buckets=_LAG_SECONDS,
        )


class TraceMetrics:
    """Spans on their way to the collector."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.spans = Counter("memory_proxy_spans_total", "Spans by what became of them.", ["what"], registry=own)
