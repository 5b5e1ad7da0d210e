"""Traces by OpenTelemetry: requests in, spans to a collector out, by OTLP over HTTP.

Span `chat {model}` with GenAI attributes and `memory_proxy.*`, below it `recall`, `upstream`, `capture`. Loaded only
where an endpoint is configured. A thread of the SDK sends in batches: no request waits for it or fails by it. What
waits is bounded here, since the SDK drops silently; what is dropped, sent and refused is counted. No content: a span
says what the request's line says. The environment's OTEL_* variables are heeded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import Counter

from memory.config_sections import Telemetry
from memory.passage import Facts

# One try takes so long at most, its repetitions included; ending the process waits no longer.
EXPORT_S: Final = 5.0
CLOSE_S: Final = 3.0
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_CONTEXT_HEADERS: Final = ("traceparent", "tracestate")
_GEN_AI: Final[Mapping[str, str]] = {
    "model": "gen_ai.request.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "finish": "gen_ai.response.finish_reasons",
}
_HTTP: Final[Mapping[str, str]] = {
    "method": "http.request.method",
    "http": "http.response.status_code",
    "bytes_in": "http.request.body.size",
    "bytes_out": "http.response.body.size",
}
# In the trace by its own nature: its id, and its stages as spans.
_NOT_ATTRIBUTES: Final = frozenset({"trace", "stages_ms"})


class OtlpTraces:
    """Begins traces. One per process. Raises ValueError for what the SDK does not take."""

    def __init__(self, settings: Telemetry, spans: Counter) -> None:
        base = (settings.otlp_endpoint or "").rstrip("/")
        for name in ("opentelemetry.sdk", "opentelemetry.exporter"):  # a collector that is away is counted, not told
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._exporter = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=EXPORT_S)
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.trace_share)), resource=_resource(), shutdown_on_exit=False
        )
        bounded = _Bounded(self._exporter, settings.spans_max, spans)
        self._provider.add_span_processor(bounded)
        self._tracer = self._provider.get_tracer("memory_proxy")

    def begin(self, headers: Mapping[str, str]) -> OtlpTrace:
        """A trace that continues the caller's, or a new one."""
        given = {name: value for name in _CONTEXT_HEADERS if (value := headers.get(name))}
        # Named when it ends: only then is the model known.
        span = self._tracer.start_span("request", _PROPAGATOR.extract(given, Context()), kind=SpanKind.SERVER)
        return OtlpTrace(self._tracer, span)

    async def close(self) -> None:
        """Send what waits, for CLOSE_S at most."""
        closing = asyncio.create_task(asyncio.to_thread(self._provider.shutdown))
        done, _ = await asyncio.wait([closing], timeout=CLOSE_S)
        if not done:
            self._exporter.shutdown()  # ends the waiting between its tries
            await asyncio.wait([closing], timeout=EXPORT_S)


class OtlpTrace:
    """The spans of one request."""

    __slots__ = ("_below", "_span", "_tracer", "_upstream", "id")

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._below = set_span_in_context(span, Context())
        self._upstream: Span | None = None
        self.id = f"{span.get_span_context().trace_id:032x}"

    def outgoing(self) -> Mapping[str, str]:
        """Begin the span `upstream`, and the headers that name it."""
        self.answered()
        self._upstream = self._tracer.start_span("upstream", self._below, kind=SpanKind.CLIENT)
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers, set_span_in_context(self._upstream, Context()))
        return headers

    def answered(self) -> None:
        """End the span `upstream`."""
        if self._upstream is not None:
            self._upstream.end()
            self._upstream = None

    def child(self, name: str, started_ns: int, ended_ns: int) -> None:
        """A span below the request's."""
        self._tracer.start_span(name, self._below, start_time=started_ns).end(ended_ns)

    def end(self, facts: Facts, response_id: str | None) -> None:
        """Name the request's span, say what is known, end it."""
        self.answered()
        self._span.update_name(_name(facts))
        self._span.set_attributes(attributes(facts, response_id))
        http = facts.get("http", 200)  # what a client did wrong is no error of a server's span
        if http >= 500 or (http < 400 and facts.get("outcome") == "failed"):
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


def attributes(facts: Facts, response_id: str | None) -> dict[str, Any]:
    """A request's facts as attributes: HTTP and GenAI conventions where they have a word, else `memory_proxy.*`."""
    said: dict[str, Any] = {}
    if facts.get("route") == "chat":
        said["gen_ai.operation.name"] = "chat"
        said["gen_ai.provider.name"] = "vllm"
        if response_id:
            said["gen_ai.response.id"] = response_id[:256]
    for name, value in facts.items():
        if value is not None and name not in _NOT_ATTRIBUTES:
            said[_GEN_AI.get(name) or _HTTP.get(name) or f"memory_proxy.{name}"] = value
    return {name: _sendable(value) for name, value in said.items()}


def _sendable(value: Any) -> Any:
    """A value as UTF-8 can hold it: half of a surrogate pair, in a name that a client chose, would cost the batch."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return [_sendable(one) for one in value] if isinstance(value, list) else value


def _name(facts: Facts) -> str:
    if facts.get("route") == "chat":
        return f"chat {_sendable(facts.get('model') or '')}".rstrip()
    return f"{facts.get('method', 'other')} {facts.get('route', 'other')}"


def _resource() -> Resource:
    """Who sends; what the environment says of that goes before it."""
    named = {"service.name": "memory-proxy"}
    with suppress(PackageNotFoundError):
        named["service.version"] = version("vllm-memory-proxy")
    ours = Resource.create({**named, "process.pid": os.getpid()})
    return ours.merge(OTELResourceDetector().detect())


class _Bounded(SpanProcessor):  # type: ignore[misc]
    """Passes ended spans on to the batches of the SDK, no more than it will keep."""

    def __init__(self, exporter: SpanExporter, spans_max: int, counted: Counter) -> None:
        self._room = threading.Semaphore(spans_max)
        self._dropped = counted.labels("dropped")
        self._inner = BatchSpanProcessor(
            _Counting(exporter, self._room, counted),
            max_queue_size=spans_max,
            schedule_delay_millis=1000,
            max_export_batch_size=min(512, spans_max),
        )

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Nothing yet."""

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it for the next batch, where there is room."""
        if not span.context.trace_flags.sampled:
            return
        if self._room.acquire(blocking=False):
            self._inner.on_end(span)
        else:
            self._dropped.inc()

    def shutdown(self) -> None:
        """Send what waits."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what waits, now."""
        return bool(self._inner.force_flush(timeout_millis))


class _Counting(SpanExporter):  # type: ignore[misc]
    """An exporter that says how it went and makes room."""

    def __init__(self, inner: SpanExporter, room: threading.Semaphore, counted: Counter) -> None:
        self._inner = inner
        self._room = room
        self._sent, self._failed = counted.labels("sent"), counted.labels("failed")

    def export(self, spans: Sequence[ReadableSpan]) -> Any:
        """Send a batch."""
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            self._room.release(len(spans))
            (self._sent if result is SpanExportResult.SUCCESS else self._failed).inc(len(spans))
        return result

    def shutdown(self) -> None:
        """Send no more."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True
