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

from prometheus_client import CollectorRegistry, generate_latest, multiprocess

from memory.catalogue import (
    CaptureMetrics,
    ExtractionMetrics,
    LawMetrics,
    LedgerMetrics,
    LoadMetrics,
    PrefixCacheMetrics,
    RecallMetrics,
    RequestMetrics,
    TraceMetrics,
    UpkeepMetrics,
    WriteMetrics,
)

_ENCODE: Final = json.JSONEncoder(default=str).encode  # json.dumps would make an encoder for each line
_LIBRARIES: Final = ("asyncio", "aiohttp", "asyncpg", "LiteLLM")


class Metrics(
    RequestMetrics,
    RecallMetrics,
    LedgerMetrics,
    PrefixCacheMetrics,
    LoadMetrics,
    CaptureMetrics,
    WriteMetrics,
    ExtractionMetrics,
    UpkeepMetrics,
    LawMetrics,
    TraceMetrics,
):
    """Every metric of this project. Built once per process and passed down."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        for subject in Metrics.__bases__:
            subject.__init__(self, self.registry)  # type: ignore[misc]

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
        pairs = " ".join(f"{key}={_plain(value)}" for key, value in fields.items() if value is not None)
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = f"{when} {record.levelname.lower():7} {record.name}[{record.process}] {record.getMessage()} {pairs}"
        return line.rstrip() + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


def _plain(value: object) -> str:
    """A value that stays on its line whatever a client made it of."""
    text = str(value)
    return text if text.isprintable() else repr(text)


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
        return _ENCODE(body)
