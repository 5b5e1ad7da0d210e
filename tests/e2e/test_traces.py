"""Traces by OTLP: what a collector is sent, what vLLM is sent; a collector that is away is nobody's trouble."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memory.config import Settings
from memory.config_sections import Telemetry
from memory.errors import ConfigInvalid
from memory.telemetry import Metrics
from proxy.wiring.choices import traces
from tests.e2e.talk import ask
from tests.e2e.upstreams import last
from tests.service_fixture import Service, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.long  # a service of its own

pb2 = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="pip install 'vllm-memory-proxy[otel]'"
)
TRACE, PARENT_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "Thimblewick the cat"


@dataclass
class Collector:
    """Takes OTLP over HTTP and keeps the spans."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def of(self, trace: str) -> dict[str, Any]:
        """The spans of a trace by name."""
        return {span.name: span for span in list(self.spans) if span.trace_id.hex() == trace}

    def whole(self, trace: str, names: int) -> dict[str, Any]:
        """The spans of a trace, as soon as there are so many."""
        wait_until(lambda: len(self.of(trace)) >= names, 20, "the spans have come")
        return self.of(trace)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    kept = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            if self.path == "/v1/traces":
                kept.raw.append(plain)
                for resource in pb2.ExportTraceServiceRequest.FromString(plain).resource_spans:
                    kept.spans += [span for scope in resource.scope_spans for span in scope.spans]
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def traced(upstream: str, collector: Collector) -> Iterator[Service]:
    env = {"MEMORY_PROXY_TELEMETRY__OTLP_ENDPOINT": collector.url, "MEMORY_PROXY_LOG__FORMAT": "json"}
    with serving(upstream, env=env) as running:
        yield running


def attributes(span: Any) -> dict[str, Any]:
    """A span's attributes as plain values."""

    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        return [plain(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)

    return {one.key: plain(one.value) for one in span.attributes}


def test_a_chat_is_one_trace_that_goes_on_from_client_to_vllm(
    traced: Service, upstream: str, collector: Collector, user: str
) -> None:
    said = ask(
        traced,
        f"{SECRET} is on the roof.",
        user,
        traceparent=f"00-{TRACE}-{PARENT_SPAN}-01",
        tracestate="vendor=x",
    )
    (seen,) = last(upstream)
    spans = collector.whole(TRACE, 4)
    assert spans.keys() == {"chat fake-model", "recall", "upstream", "capture"}
    chat = spans["chat fake-model"]
    assert chat.parent_span_id.hex() == PARENT_SPAN
    assert {spans[name].parent_span_id for name in ("recall", "upstream", "capture")} == {chat.span_id}
    assert seen.value("traceparent") == f"00-{TRACE}-{spans['upstream'].span_id.hex()}-01"
    assert seen.value("tracestate") == "vendor=x"
    for span in spans.values():
        assert chat.start_time_unix_nano <= span.start_time_unix_nano + 1_000_000
        assert span.start_time_unix_nano <= span.end_time_unix_nano
    assert (chat.kind, spans["upstream"].kind) == (2, 3)  # server, client
    told = attributes(chat)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "fake-model",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.id": said.json["id"],
        "gen_ai.usage.input_tokens": said.json["usage"]["prompt_tokens"],
        "gen_ai.usage.output_tokens": said.json["usage"]["completion_tokens"],
        "http.response.status_code": 200,
        "memory_proxy.memory": "empty",
        "memory_proxy.capture": "queue",
        "memory_proxy.outcome": "complete",
    }
    assert {name: told.get(name) for name in expected} == expected
    for raw in collector.raw:
        assert SECRET.encode() not in raw
        assert user.encode() not in raw


def test_a_client_without_a_trace_gets_one_that_the_line_names(traced: Service, upstream: str, user: str) -> None:
    ask(traced, "Hello there.", user)
    (seen,) = last(upstream)
    trace = (seen.value("traceparent") or "").split("-")[1]

    def is_written() -> bool:
        lines = traced.log.read_text().splitlines()
        return any(json.loads(line).get("trace") == trace for line in lines if line.startswith("{"))

    wait_until(is_written, 10, "the line is written")


def test_a_client_that_does_not_sample_is_not_traced(
    traced: Service, upstream: str, collector: Collector, user: str
) -> None:
    trace = "1" * 32
    ask(traced, "Hello there.", user, traceparent=f"00-{trace}-{PARENT_SPAN}-00")
    (seen,) = last(upstream)
    assert (seen.value("traceparent") or "").startswith(f"00-{trace}-")
    assert (seen.value("traceparent") or "").endswith("-00")
    ask(traced, "Hello there.", user, traceparent=f"00-{'2' * 32}-{PARENT_SPAN}-01")
    collector.whole("2" * 32, 4)  # what was ended later has come
    assert not collector.of(trace)


def test_what_is_passed_through_is_traced_by_its_route(traced: Service, collector: Collector) -> None:
    trace = "3" * 32
    traced.call("GET", "/v1/models", traceparent=f"00-{trace}-{PARENT_SPAN}-01")
    assert collector.whole(trace, 2).keys() == {"GET other", "upstream"}


async def test_half_a_surrogate_pair_in_a_name_costs_nobody_a_span(collector: Collector) -> None:
    """JSON may hold one, UTF-8 cannot: the batch was lost with the spans of all others in it."""
    metrics = Metrics()
    tracing = traces(Settings(telemetry=Telemetry(otlp_endpoint=collector.url)), metrics)
    assert tracing is not None
    for model, response in (("m-plain", "id"), ("m\ud800", "id"), ("m-other", "id\udc00")):
        tracing.begin({}).end({"route": "chat", "model": model, "finish": ["st\ud800p"], "http": 200}, response)
    await tracing.close()
    named = {span.name for span in collector.spans}
    assert {"chat m-plain", "chat m?", "chat m-other"} <= named
    assert metrics.registry.get_sample_value("memory_proxy_spans_total", {"what": "failed"}) == 0


@pytest.mark.long
def test_a_collector_that_is_away_fails_no_request_and_is_counted(upstream: str, user: str) -> None:
    env = {
        "MEMORY_PROXY_TELEMETRY__OTLP_ENDPOINT": "http://127.0.0.1:9",
        "MEMORY_PROXY_TELEMETRY__SPANS_MAX": "64",
    }
    with serving(upstream, env=env) as service:
        for _ in range(40):
            assert ask(service, "Hello there.", user).status == 200
        wait_until(lambda: "memory_proxy_spans_total" in metrics_of(service), 30, "spans are counted")
        counted = metrics_of(service)
        wait_until(lambda: 'spans_total{what="dropped"}' in metrics_of(service), 30, "spans are dropped")
        assert 'what="sent"} 0.0' in counted or 'what="sent"' not in counted
        assert service.stop() == 0


def metrics_of(service: Service) -> str:
    """What a scrape shows."""
    with urllib.request.urlopen(f"{service.url}/memory/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def test_where_the_sdk_is_disabled_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK gives every request the trace 0 then, and each line would name it."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert traces(Settings(telemetry=Telemetry(otlp_endpoint="http://127.0.0.1:9")), Metrics()) is None


def test_who_sends_is_named_as_the_environment_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the SDK's own variables: of several services on one collector each is to have its name."""
    resource = importlib.import_module("memory.adapters.otlp")._resource
    assert resource().attributes["service.name"] == "memory-proxy"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=of-the-support-team,deployment.environment=prod")
    told = resource().attributes
    assert (told["service.name"], told["deployment.environment"]) == ("of-the-support-team", "prod")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "first")
    assert resource().attributes["service.name"] == "first"


def test_an_endpoint_without_opentelemetry_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.delitem(sys.modules, "memory.adapters.otlp", raising=False)
    settings = Settings(telemetry=Telemetry(otlp_endpoint="http://127.0.0.1:9"))
    with pytest.raises(ConfigInvalid, match=r"pip install 'vllm-memory-proxy\[otel\]'"):
        traces(settings, Metrics())
