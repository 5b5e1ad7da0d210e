"""Checks of the other services that a configuration names: who says how busy vLLM is, the model of background work, the
web's search, the collector of traces, and where the bytes of files lie.

Each is asked once, as the service asks it, and nothing is left there: one search of a word of ours, an export without
a span, one name of a bucket. What is not configured has no line. No key of one goes to another.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import aiohttp

from memory.adapters.searxng import SearxngSearch
from memory.adapters.vllm_load import METRICS_BYTES_MAX, read_metrics
from memory.artifact_wiring import look_at_bucket
from memory.config import Settings, asks_upstream
from memory.errors import SearchFailed, StoreUnavailable
from proxy.beginning import beginning
from proxy.cli.check_upstream import ASK_TIMEOUT_S, reason
from proxy.cli.checks import Finding, Findings

ANSWER_BYTES_MAX: Final = 4_194_304
SEARCHED: Final = "test"
# What LiteLLM calls servers of OpenAI's own API; of others it knows paths that are not known here.
_OPENAI_LIKE: Final = ("openai", "hosted_vllm")


async def watched(settings: Settings) -> Findings:
    """Each address that tells background work how busy vLLM is: one that does not tell it holds that work up."""
    if not asks_upstream(settings):
        return []
    return list(await asyncio.gather(*map(_tells_load, settings.upstream.metrics_urls)))


async def chat_model(settings: Settings) -> Findings:
    """The model of `chat_model`: whether its server answers, and knows it."""
    chat, what = settings.chat_model, "chat model"
    if chat.model is None:
        return []
    base = chat.api_base or f"{settings.upstream.url}/v1"
    provider, slash, name = chat.model.partition("/")
    headers = {"Authorization": f"Bearer {chat.api_key.get_secret_value()}"} if chat.api_key else {}
    try:
        status, raw = await _asked("GET", f"{base}/models", ANSWER_BYTES_MAX, headers=headers)
    except (aiohttp.ClientError, TimeoutError, OSError) as fault:
        mend = (
            "start it, or mend chat_model.api_base; until then rules take what it would, and no picture has a caption"
        )
        return [Finding("FAIL", what, f"{base} does not answer: {reason(fault)}", mend)]
    if status in (401, 403):
        mend = "give its key in MEMORY_PROXY_CHAT_MODEL__API_KEY"
        return [Finding("FAIL", what, f"{base}/models says {status}: a key is wanted", mend)]
    if status >= 500:
        return [Finding("FAIL", what, f"{base}/models says {status}", "see its log")]
    if slash and provider not in _OPENAI_LIKE:
        return [Finding("ok", what, f"{base} answers ({status}); whether it has {chat.model} shows in a call only")]
    known = _names(raw)
    if status != 200 or not known:
        mend = "chat_model.api_base of an OpenAI-compatible server ends in /v1"
        return [Finding("FAIL", what, f"{base}/models says {status} and names no model", mend)]
    if (name or chat.model) not in known:
        mend = f"set chat_model.model to what it serves: {', '.join(f'openai/{one}' for one in known[:5])}"
        return [Finding("warn", what, f"{base} does not name {name or chat.model}", mend)]
    return [Finding("ok", what, f"{base} serves {name or chat.model}")]


async def search(settings: Settings) -> Findings:
    """The service that searches the web, where that is on."""
    outside, what = settings.outside, "web search"
    if not outside.enabled or outside.search_url is None:
        return []
    try:
        found = await SearxngSearch(outside.search_url, wall_s=outside.search_s).search(SEARCHED)
    except SearchFailed as fault:
        return [Finding("FAIL", what, f"{outside.search_url}: {fault}", "see its log, and outside.search_url")]
    if not found:
        mend = "its engines may be refused or switched off: see its log"
        return [Finding("warn", what, f"{outside.search_url} finds nothing for {SEARCHED!r}", mend)]
    return [Finding("ok", what, f"{outside.search_url} answers ({len(found)} results for {SEARCHED!r})")]


async def collector(settings: Settings, environ: Mapping[str, str]) -> Findings:
    """The collector of traces: it is sent an export without a span."""
    endpoint, what = settings.telemetry.otlp_endpoint, "trace collector"
    if endpoint is None or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    try:
        await asyncio.to_thread(import_module, "memory.adapters.otlp")
    except ImportError as missing:
        found = f"OpenTelemetry is not installed ({missing.name})"
        return [Finding("FAIL", what, found, "pip install 'vllm-memory-proxy[otel]'")]
    url = f"{endpoint}/v1/traces"
    try:
        headers = {"Content-Type": "application/x-protobuf", **_given(environ)}
        status, _ = await _asked("POST", url, 1024, headers=headers)
    except (aiohttp.ClientError, TimeoutError, OSError) as fault:
        mend = "start it, or mend telemetry.otlp_endpoint; until then traces are lost, and nothing else"
        return [Finding("FAIL", what, f"{url} does not answer: {reason(fault)}", mend)]
    if status in (401, 403):
        mend = "OTEL_EXPORTER_OTLP_HEADERS in the service's environment, which may be another than this one's"
        return [Finding("warn", what, f"{url} says {status}: a key is wanted", mend)]
    if not 200 <= status < 300:
        mend = "telemetry.otlp_endpoint is the address of a collector that takes OTLP over HTTP, often port 4318"
        return [Finding("FAIL", what, f"{url} says {status}", mend)]
    return [Finding("ok", what, f"{url} takes traces")]


def files(root: Path, settings: Settings) -> Findings:
    """Where the bytes of files lie: a directory, and the bucket where one is named."""
    what, directory = "files", settings.artifacts.dir or root / "artifacts"
    nearest = next(step for step in (directory, *directory.parents) if step.exists())
    mend = "artifacts.dir names a directory that the account of the service may write"
    if not nearest.is_dir():
        return [Finding("FAIL", what, f"{nearest} is no directory", mend)]
    if not os.access(nearest, os.W_OK | os.X_OK):
        return [Finding("FAIL", what, f"{nearest} cannot be written", mend)]
    if (bucket := settings.artifacts.s3_bucket) is None:
        return [Finding("ok", what, f"{directory}{'' if nearest == directory else ' (will be made)'}")]
    try:
        look_at_bucket(settings)
    except StoreUnavailable as fault:
        mend = "artifacts.s3_url, s3_region and the keys, which must be allowed to list, read, write and delete"
        return [Finding("FAIL", what, f"bucket {bucket}: {fault}", mend)]
    return [Finding("ok", what, f"bucket {bucket} answers, parts in {directory}")]


async def _tells_load(url: str) -> Finding:
    what, mend = "upstream.metrics_urls", "until it does, no question of extraction is asked, and rules take all of it"
    try:
        status, raw = await _asked("GET", url, METRICS_BYTES_MAX)
    except (aiohttp.ClientError, TimeoutError, OSError) as fault:
        return Finding("FAIL", what, f"{url} does not answer: {reason(fault)}", mend)
    if status != 200 or read_metrics(raw.decode("utf-8", "replace")).waiting is None:
        return Finding("FAIL", what, f"{url} says {status}, and not how many requests wait", mend)
    return Finding("ok", what, f"{url} says how many requests wait")


async def _asked(
    method: str, url: str, bytes_max: int, *, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and beginning of an answer."""
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_TIMEOUT_S), trust_env=False) as session,
        session.request(method, url, headers=headers, allow_redirects=False) as answer,
    ):
        return answer.status, await beginning(answer.content, bytes_max)


def _names(raw: bytes) -> Sequence[str]:
    """The models that an answer of /models names."""
    try:
        said: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return ()
    data = said.get("data") if isinstance(said, dict) else None
    return [str(one["id"]) for one in data if isinstance(one, dict) and "id" in one] if isinstance(data, list) else ()


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    """The headers that OpenTelemetry's own variable adds."""
    pairs = (pair.partition("=") for pair in environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(","))
    return {unquote(name.strip()): unquote(value.strip()) for name, equals, value in pairs if equals and name.strip()}
