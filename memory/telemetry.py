"""One catalogue of metrics and one log line per request: counts and times in, Prometheus and a line of text out.

Names begin with `memory_proxy_`, base units, `_total` on counters; no label is a tenant, a model or anything a client
chose (DESIGN section 10). Message text is never logged. In a worker process prometheus_client's multiprocess mode
writes to PROMETHEUS_MULTIPROC_DIR, and any proxy worker serves the merged values.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

_LONG_SECONDS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_LIBRARIES: Final = ("asyncio", "aiohttp", "asyncpg", "LiteLLM")


class Metrics:
    """Every metric of this project. Built once per process and passed down."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        own = registry or CollectorRegistry()
        self.registry = own
        self.requests = Counter(
            "memory_proxy_requests_total", "Requests by route and status class.", ["route", "status"], registry=own
        )
        self.statuses = Counter(
            "memory_proxy_memory_status_total", "Chat completions by memory status.", ["status", "reason"], registry=own
        )
        self.added_seconds = Histogram(
            "memory_proxy_added_seconds",
            "Time from arrival to sending upstream.",
            registry=own,
            buckets=_SECONDS,
        )
        self.recall_seconds = Histogram(
            "memory_proxy_recall_seconds", "Recall by rung.", ["rung"], registry=own, buckets=_SECONDS
        )
        self.query_embeddings = Counter(
            "memory_proxy_query_embeddings_total", "Questions by how they came by their vector.", ["what"], registry=own
        )
        self.recall_answers = Counter(
            "memory_proxy_recall_answers_total",
            "Answers of hot scopes by how they came about.",
            ["what"],
            registry=own,
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
        self.overload_steps = Counter(
            "memory_proxy_overload_steps_total", "Steps on the ladder of recall because of load.", ["to"], registry=own
        )
        self.recalls_shed = Counter(
            "memory_proxy_recalls_shed_total",
            "Requests that had less of memory because of load.",
            ["what"],
            registry=own,
        )
        self.injected_memories = Counter(
            "memory_proxy_injected_memories_total", "Memories placed in prompts.", registry=own
        )
        self.injected_tokens = Counter("memory_proxy_injected_tokens_total", "Memory tokens in prompts.", registry=own)
        self.ledger_blocks = Counter(
            "memory_proxy_ledger_blocks_total", "Blocks in prompts, new or standing again.", ["what"], registry=own
        )
        self.ledger_tokens = Counter(
            "memory_proxy_ledger_tokens_total",
            "Memory tokens in prompts, new or standing again.",
            ["what"],
            registry=own,
        )
        self.ledger_withdrawn = Counter(
            "memory_proxy_ledger_withdrawn_total", "Blocks not sent again, by reason.", ["reason"], registry=own
        )
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
        self.overflow_retries = Counter(
            "memory_proxy_overflow_retries_total", "Requests sent again without their block.", registry=own
        )
        self.upstream_failures = Counter(
            "memory_proxy_upstream_failures_total", "Upstream faults by phase.", ["phase"], registry=own
        )
        self.clients_left = Counter(
            "memory_proxy_clients_left_total", "Clients that left before the end.", registry=own
        )
        self.captures = Counter(
            "memory_proxy_captures_total", "Captured exchanges by where they went.", ["where"], registry=own
        )
        self.capture_seconds = Histogram(
            "memory_proxy_capture_seconds", "How long the last byte was held.", registry=own, buckets=_SECONDS
        )
        self.copies_bytes = Gauge(
            "memory_proxy_copies_bytes",
            "Bytes of answers under way that are held for capture.",
            registry=own,
            multiprocess_mode="livesum",
        )
        self.copies_refused = Counter(
            "memory_proxy_copies_refused_total",
            "Answers of which no copy was held, by reason.",
            ["reason"],
            registry=own,
        )
        self.captures_lost = Counter(
            "memory_proxy_captures_lost_total", "Envelopes that neither queue nor spool nor memory took.", registry=own
        )
        self.hand_off = Counter(
            "memory_proxy_hand_off_total", "What the hand-off of envelopes did.", ["what"], registry=own
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
        self.work = Counter("memory_proxy_work_total", "What the worker loop did.", ["what"], registry=own)
        self.turns = Counter("memory_proxy_turns_total", "Turns stored.", registry=own)
        self.memories = Counter("memory_proxy_memories_total", "Memories stored by kind.", ["kind"], registry=own)
        self.facts_dropped = Counter(
            "memory_proxy_facts_dropped_total", "Facts that their turn did not support.", registry=own
        )
        self.episodes = Counter("memory_proxy_episodes_total", "Ended sessions told.", ["what"], registry=own)
        self.extractions = Counter(
            "memory_proxy_extractions_total",
            "Exchanges that waited for a model, by what came of it.",
            ["outcome"],
            registry=own,
        )
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
        self.redactions = Counter("memory_proxy_redactions_total", "Secrets replaced.", registry=own)
        self.quarantined = Counter(
            "memory_proxy_quarantined_total", "Memories held back for review, by each rule.", ["rule"], registry=own
        )
        self.over_budget = Counter(
            "memory_proxy_over_budget_total",
            "Memories held back for review because their source wrote too many within the hour.",
            registry=own,
        )
        self.write_seconds = Histogram(
            "memory_proxy_write_seconds", "Write path by step.", ["step"], registry=own, buckets=_SECONDS
        )
        self.hygiene = Gauge(
            "memory_proxy_hygiene_ratio",
            "Share of sampled memories by what is wrong with them.",
            ["rate"],
            registry=own,
            multiprocess_mode="mostrecent",
        )
        self.consolidated = Counter(
            "memory_proxy_consolidated_total", "Rows that consolidation changed, by step.", ["step"], registry=own
        )
        self.consolidation_seconds = Gauge(
            "memory_proxy_consolidation_seconds",
            "Time of the last consolidation, by step.",
            ["step"],
            registry=own,
            multiprocess_mode="mostrecent",
        )
        self.consolidation_end_seconds = Gauge(
            "memory_proxy_consolidation_end_seconds",
            "When the last consolidation ended, Unix time.",
            registry=own,
            multiprocess_mode="mostrecent",
        )
        self.working = Counter(
            "memory_proxy_working_contexts_total", "Readings of working contexts.", ["how"], registry=own
        )
        self.erasures = Counter(
            "memory_proxy_erasures_total", "Erasures by what came of them.", ["outcome"], registry=own
        )
        self.erasures_waiting = Gauge(
            "memory_proxy_erasures_waiting",
            "Erasures that were asked for and have no receipt yet.",
            registry=own,
            multiprocess_mode="mostrecent",
        )
        self.erasure_seconds = Histogram(
            "memory_proxy_erasure_seconds",
            "From an erasure's request to its receipt.",
            registry=own,
            buckets=_LONG_SECONDS,
        )
        self.audit = Counter("memory_proxy_audit_total", "Rows of the audit log.", ["what"], registry=own)
        self.canary_seen = Counter(
            "memory_proxy_canary_seen_total",
            "Canaries of one tenant seen in a prompt or an answer of another.",
            ["where"],
            registry=own,
        )
        self.gc_pause_seconds = Histogram(
            "memory_proxy_gc_pause_seconds",
            "How long the garbage collector stopped a proxy worker, by generation.",
            ["generation"],
            registry=own,
            buckets=_SECONDS,
        )
        self.hot_scopes = Gauge(
            "memory_proxy_hot_scopes", "Scopes held in process.", registry=own, multiprocess_mode="livesum"
        )
        self.hot_scope_bytes = Gauge(
            "memory_proxy_hot_scope_bytes", "Bytes held by hot scopes.", registry=own, multiprocess_mode="livesum"
        )

    def exposition(self) -> bytes:
        """Prometheus' text format: all workers merged where a multiprocess directory is set, else this process."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        try:
            return _merged()
        except FileNotFoundError:  # a dead worker's file was folded into the archive while we read
            return _merged()


def _merged() -> bytes:
    merged = CollectorRegistry()
    multiprocess.MultiProcessCollector(merged)  # type: ignore[no-untyped-call]
    return generate_latest(merged)


def configure_logging(level: str, form: str) -> None:
    """Send this process's log to stderr, as text or one JSON object a line. Libraries speak from warning up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)


def event(log: logging.Logger, name: str, /, level: int = logging.INFO, **fields: Any) -> None:
    """One line: an event's name and its fields. Fields hold ids, counts, times; never text of a message."""
    if log.isEnabledFor(level):
        log.log(level, name, extra={"fields": fields})


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        pairs = " ".join(f"{key}={value}" for key, value in fields.items() if value is not None)
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = f"{when} {record.levelname.lower():7} {record.name}[{record.process}] {record.getMessage()} {pairs}"
        return line.rstrip() + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        body = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            body["exception"] = self.formatException(record.exc_info)
        return json.dumps(body, default=str)
