"""What a setting picks: the implementation that is built for it, or none."""

from __future__ import annotations

import importlib
import os

from memory.adapters.cross_encoder import CrossEncoder
from memory.adapters.tokenizer import counter_in
from memory.config import Settings
from memory.errors import ConfigInvalid
from memory.passage import Tracing
from memory.ports import Reranker, TokenCounter
from memory.read.extract import SentenceCompressor
from memory.read.rerank import Reranking
from memory.read.route import ByLength
from memory.telemetry import Metrics
from proxy.prompt import Rules, limits_of


def traces(settings: Settings, metrics: Metrics) -> Tracing | None:
    """Where traces go, if anywhere; only then is OpenTelemetry loaded. Blocking. Raises ConfigInvalid."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"  # a span of the SDK has no id then
    if settings.telemetry.otlp_endpoint is None or disabled:
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
    return counter_in(settings.tokenizer.directory)
