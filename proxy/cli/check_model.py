"""Checks of what computes: the embedding model (files, sha256, a vector), the reranker (its time), the tokenizer.

The model's files are prepared where they are not yet (a second, into the cache that the service uses). Nothing is
downloaded. Refusals come from the adapters and name file, expectation, finding and remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

from memory.adapters.cross_encoder import CrossEncoder
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import default_cache_dir, prepare_model
from memory.adapters.model_registry import choose_model, read_registry
from memory.adapters.tokenizer import LocalTokenizer
from memory.config import Settings
from memory.errors import EmbedderUnavailable, ModelFileInvalid, RerankerUnavailable
from memory.read.rerank import SHOWN_CHARS_MAX
from proxy.cli.checks import Finding, Findings


def embedding_model(settings: Settings, environ: Mapping[str, str]) -> Findings:
    """Find, verify and load the model, make one vector."""
    embedding = settings.embedding
    cache = embedding.cache_dir or default_cache_dir(environ)
    try:
        spec = choose_model(read_registry(), embedding.model, directory=embedding.directory, dim=embedding.dim)
        files = prepare_model(spec, cache, lambda step: None)
        embedder = OnnxEmbedder(files, document_threads=1)
    except ModelFileInvalid as fault:
        return [Finding("FAIL", "embedding model", str(fault))]
    try:
        vector = embedder.embed_query_sync("Is anybody there?")
    except EmbedderUnavailable as fault:
        return [Finding("FAIL", "embedding model", f"loads but makes no vector: {fault}", "reinstall onnxruntime")]
    finally:
        embedder.close()
    pinned = all(file.sha256 for file in spec.files)
    checked = "sha256 verified" if pinned else "sha256 not pinned (a directory of yours)"
    return [
        Finding("ok", "embedding model", f"{spec.name}, {len(vector)} dimensions, {checked}, {files.model}"),
    ]


def reranker(settings: Settings) -> Findings:
    """The cross-encoder, where one is configured: it loads, and how long the longest re-ranking takes."""
    recall, what = settings.recall, "reranker"
    if recall.reranker_dir is None:
        return [Finding("ok", what, "no directory set: candidates keep their order")]
    try:
        encoder = CrossEncoder(recall.reranker_dir, threads=recall.rerank_threads)
    except ModelFileInvalid as fault:
        return [Finding("FAIL", what, str(fault))]
    longest = ("nobody at all " * SHOWN_CHARS_MAX)[:SHOWN_CHARS_MAX]
    started = perf_counter()
    try:
        encoder.rerank_sync("Is anybody there?", [longest] * recall.rerank_depth)
    except RerankerUnavailable as fault:
        return [Finding("FAIL", what, f"loads but gives no scores: {fault}", "export the model again")]
    finally:
        encoder.close()
    millis = (perf_counter() - started) * 1000
    found = f"{recall.reranker_dir}: {millis:.0f} ms for {recall.rerank_depth} candidates of the longest kind"
    if millis > recall.deadline_ms / 2:
        mend = f"much of recall.deadline_ms ({recall.deadline_ms:g}): lower recall.rerank_depth or give it more threads"
        return [Finding("warn", what, found, mend)]
    return [Finding("ok", what, found)]


def tokenizer(settings: Settings) -> Findings:
    """The served model's tokenizer.json, where one is configured."""
    directory = settings.tokenizer.directory
    if directory is None:
        return [Finding("ok", "tokenizer", "no directory set: counts are estimates, exact ones by vLLM's /tokenize")]
    try:
        count = LocalTokenizer(directory).count("Is anybody there?")
    except ModelFileInvalid as fault:
        return [Finding("FAIL", "tokenizer", str(fault))]
    return [Finding("ok", "tokenizer", f"{directory / 'tokenizer.json'} loads ({count} tokens for four words)")]
