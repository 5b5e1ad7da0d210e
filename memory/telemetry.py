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
import traceback
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from time import time
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest, multiprocess, values
from pydantic_core import to_json

from memory.catalogue import (
    CaptureMetrics,
    DocumentMetrics,
    ExtractionMetrics,
    LawMetrics,
    LedgerMetrics,
    LoadMetrics,
    OutsideMetrics,
    PrefixCacheMetrics,
    RecallMetrics,
    RequestMetrics,
    TraceMetrics,
    UpkeepMetrics,
    WriteMetrics,
)
from memory.metric_files import reading, take_room
from memory.unwaited import Unwaited

log = logging.getLogger("memory_proxy.telemetry")
_LIBRARIES: Final = ("asyncio", "aiohttp", "asyncpg", "LiteLLM")
_CHAIN_MAX: Final = 8


class Metrics(
    RequestMetrics,
    RecallMetrics,
    LedgerMetrics,
    PrefixCacheMetrics,
    LoadMetrics,
    CaptureMetrics,
    WriteMetrics,
    ExtractionMetrics,
    DocumentMetrics,
    UpkeepMetrics,
    LawMetrics,
    OutsideMetrics,
    TraceMetrics,
):
    """Every metric of this project. Built once per process and passed down."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        _take_room()
        for subject in Metrics.__bases__:
            subject.__init__(self, self.registry)  # type: ignore[misc]

    def write(self) -> None:
        """Write what is counted on the way and written at intervals. On the event loop's thread."""
        for timings in (self.stages, self.recall_seconds, self.gc_pauses):
            timings.write()
        for tally in (self.requests, self.statuses, self.query_embeddings, self.recall_answers, self.captures):
            tally.write()

    def exposition(self) -> bytes:
        """Prometheus' text format: all workers merged where a multiprocess directory is set, else this process."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        return merged_exposition()


def _take_room() -> None:
    if (directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR")) is None:
        return
    try:
        take_room(Path(directory))
    except OSError as fault:
        values.ValueClass = values.MutexValue
        event(log, "metrics_not_shared", logging.WARNING, fault=str(fault), until="this process is started again")


def merged_exposition() -> bytes:
    """That of all processes that share PROMETHEUS_MULTIPROC_DIR, the dead ones' counters among it."""
    with reading(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])):
        try:
            return _merged()
        except FileNotFoundError:  # the file of a dead worker was removed while we read
            return _merged()


def _merged() -> bytes:
    merged = CollectorRegistry()
    multiprocess.MultiProcessCollector(merged)  # type: ignore[no-untyped-call]
    return generate_latest(merged)


def configure_logging(level: str, form: str) -> None:
    """Send this process's log to stderr, as text or one JSON object a line. Libraries speak from warning up.

    A line names neither thread nor place in the code, so that nobody looks for them (the logging module's page,
    section Optimization): of a line's 15 us of CPU time it saves one and a half.
    """
    logging._srcfile = None
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False
    stream = Unwaited(sys.stderr)
    handler = _JsonLines(stream) if form == "json" else logging.StreamHandler(stream)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)


def event(log: logging.Logger, name: str, /, level: int = logging.INFO, **fields: Any) -> None:
    """One line: an event's name and its fields. Fields hold ids, counts, times; never text of a message."""
    if not log.isEnabledFor(level):
        return
    handlers = log.root.handlers
    if len(handlers) == 1 and isinstance(only := handlers[0], _JsonLines):
        only.say(log.name, level, name, fields)
    else:
        log.log(level, name, extra={"fields": fields})


def last_words(what: str, fault: Exception, form: str) -> None:
    """Why a process ends, in words to people; in a log of JSON that nobody sits before, a line like all others."""
    if form == "json" and not sys.stderr.isatty():
        event(log, "cannot_go_on", logging.ERROR, what=what, reason=str(fault))
    else:
        sys.stderr.write(f"memory-proxy {what}: {fault}\n")


def place_of(fault: BaseException) -> str:
    """Where a fault arose, file and line: what a log may say of it, since its text may quote what was stored."""
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


class _JsonLines(logging.StreamHandler[Unwaited]):
    """One JSON object a line. Where nothing else listens an event needs no record and no formatter: 13 us of a
    request's CPU time where the logging module's way through its objects takes 32 (in a loop of its own 5 and 10)."""

    def say(self, logger: str, level: int, name: str, fields: Mapping[str, Any]) -> None:
        """Write an event. One that cannot be written is lost, as everywhere in logging."""
        line = _json_line(time(), level, logger, name, fields, None) + "\n"
        with self.lock or nullcontext():
            try:
                self.stream.write(line)
                self.stream.flush()
            except (OSError, ValueError):  # a full disk, a closed stream
                return


def _when(unix: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    second = int(unix)
    return f"{_second(second)}.{int((unix - second) * 1000):03}+00:00"


@lru_cache(maxsize=4)
def _second(unix: int) -> str:
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _told(fault: BaseException) -> str:
    """A fault and what led to it by kind and place, without their words, which may quote what was stored."""
    chain = [fault]
    while (before := _before(chain[-1])) is not None and len(chain) < _CHAIN_MAX:
        chain.append(before)
    told: list[str] = []
    for one in reversed(chain):
        if isinstance(one, BaseExceptionGroup):
            told += [_told(part) + "\n" for part in one.exceptions]
        why = f": {one.strerror}" if isinstance(one, OSError) and one.strerror else ""
        told += [*traceback.format_tb(one.__traceback__), f"{type(one).__name__}{why}\n"]
    return "".join(told).rstrip("\n")


def _before(fault: BaseException) -> BaseException | None:
    return fault.__cause__ or (None if fault.__suppress_context__ else fault.__context__)


class _Formatter(logging.Formatter):
    def formatException(self, ei: Any) -> str:
        """See logging.Formatter."""
        return _told(ei[1]) if ei[1] is not None else ""


class _TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        pairs = " ".join(f"{key}={_plain(value)}" for key, value in fields.items() if value is not None)
        when, level = _when(record.created), record.levelname.lower()
        line = f"{when} {level:7} {record.name}[{os.getpid()}] {record.getMessage()} {pairs}"
        return line.rstrip() + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


def _plain(value: object) -> str:
    """A value that stays on its line whatever a client made it of."""
    text = str(value)
    return text if text.isprintable() else repr(text)


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fault = self.formatException(record.exc_info) if record.exc_info else None
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        return _json_line(record.created, record.levelno, record.name, record.getMessage(), fields, fault)


def _json_line(
    unix: float, level: int, logger: str, name: str, fields: Mapping[str, Any], exception: str | None
) -> str:
    body = {
        "time": _when(unix),
        "level": logging.getLevelName(level).lower(),
        "logger": logger,
        "pid": os.getpid(),
        "event": name,
        **fields,
    }
    if exception is not None:
        body["exception"] = exception
    try:  # a third of the time that json.dumps takes
        return to_json(body, ensure_ascii=True, inf_nan_mode="null", fallback=str).decode("ascii")
    except ValueError:  # half of a surrogate pair, in a name that a client chose
        return json.dumps(body, default=str)
