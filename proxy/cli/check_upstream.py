"""Checks of vLLM as seen from here: is it there, what does it serve, and which optional flags would improve what.

No flag is required. What can be seen from outside is read (health, models, /tokenize, /metrics, headers); two things
show only in an answer, so with `--probe` three completions of one token are asked for. Other OpenAI-compatible servers
work too: what they lack is named. Never sends memory; the upstream's key goes to the upstream alone.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

from memory.config import Settings, asks_upstream
from proxy.beginning import beginning
from proxy.cli.checks import Finding, Findings

ASK_TIMEOUT_S = 5.0
PROBE_TIMEOUT_S = 60.0
CLOCK_WARN_S = 5.0
ANSWER_BYTES_MAX = 4_194_304
# Longer than two blocks of any size (128 tokens on CPU), so that its repetition must hit the prefix cache.
PROBE_TEXT = "The quick brown fox jumps over the lazy dog. " * 40
IMPROVES_DETAILS = "then usage says how much of each prompt came from the cache"
IMPROVES_PRIORITY = "then background work yields to your users"


@dataclass(frozen=True, slots=True)
class Told:
    """One answer of the upstream. `json` is None when the body is something else."""

    status: int
    headers: Mapping[str, str]
    text: str
    json: Any


class Asking:
    """Calls to one upstream. Raises aiohttp.ClientError, TimeoutError, OSError."""

    def __init__(self, session: aiohttp.ClientSession, settings: Settings) -> None:
        key = settings.upstream.api_key
        self._session = session
        self._base = settings.upstream.url
        self._headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = ASK_TIMEOUT_S,
        headers: Mapping[str, str] | None = None,
    ) -> Told:
        """GET, or POST where there is a body."""
        async with self._session.request(
            "GET" if body is None else "POST",
            self._base + path,
            json=body,
            headers={**self._headers, **(headers or {})},
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            allow_redirects=False,
        ) as answer:
            text = (await beginning(answer.content, ANSWER_BYTES_MAX)).decode("utf-8", "replace")
            return Told(answer.status, {k.lower(): v for k, v in answer.headers.items()}, text, _parsed(text))


async def upstream(settings: Settings, *, probe: bool) -> Findings:
    """Everything about the upstream; one finding where it does not answer."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        asking = Asking(session, settings)
        tag = f"doctor-{uuid.uuid4().hex}"
        try:
            health = await asking.ask("/health", headers={"X-Request-Id": tag})
            models = await asking.ask("/v1/models")
            if _is_one_of_us(await asking.ask("/memory/health")):
                mend = "point upstream.url at vLLM"
                return [Finding("FAIL", "upstream", f"{settings.upstream.url} is a memory-proxy itself", mend)]
            findings = [_answers(settings, health), *_clock(health), *_models(models)]
            name = _first_model(models)
            if name is None:
                return findings
            findings.append(await _tokenize(asking, name))
            findings.extend(await _metrics(asking, settings))
            findings.append(_request_ids(health, tag))
            findings.extend(await _probed(asking, name) if probe else _not_probed())
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            mend = (
                "start it (`vllm serve MODEL --port 8000`), or name it with --upstream (or upstream.url); "
                "memory-proxy starts without it and answers 502 until it is there"
            )
            return [Finding("FAIL", "upstream", f"{settings.upstream.url} does not answer: {reason(fault)}", mend)]
    return findings


def reason(fault: Exception) -> str:
    """Why a server did not answer, in a few words."""
    cause = getattr(fault, "os_error", fault)
    return getattr(cause, "strerror", None) or str(cause) or f"no answer within {ASK_TIMEOUT_S:g} s"


def _is_one_of_us(health: Told) -> bool:
    """By the path that is ours alone: on vLLM's our answers look as vLLM gives them."""
    return health.status == 200 and health.json == {"status": "ok"}


def _answers(settings: Settings, health: Told) -> Finding:
    url = settings.upstream.url
    if health.status >= 500:
        return Finding("FAIL", "upstream", f"{url}/health says {health.status}", "see the log of vLLM")
    if health.status == 404:
        mend = "is upstream.url the server's base address?"
        return Finding("warn", "upstream", f"{url} answers, but has no /health", mend)
    return Finding("ok", "upstream", f"{url} answers")


def _clock(health: Told) -> Findings:
    """The upstream's clock against ours, by its Date header (whole seconds)."""
    said = health.headers.get("date")
    if said is None:
        return []
    try:
        apart = time.time() - parsedate_to_datetime(said).timestamp()
    except (TypeError, ValueError):
        return []
    if abs(apart) > CLOCK_WARN_S:
        mend = "one of the two is wrong: `timedatectl set-ntp true` on both; memories are dated by this machine's"
        side = "ahead of" if apart > 0 else "behind"
        return [Finding("warn", "clock and upstream", f"this clock is {abs(apart):.0f} s {side} the upstream's", mend)]
    return [Finding("ok", "clock and upstream", "agree within 5 s")]


def _models(models: Told) -> Findings:
    what = "upstream models"
    if models.status in (401, 403):
        mend = "give its key in MEMORY_PROXY_UPSTREAM__API_KEY; in auth.mode open the clients' own keys are passed on"
        return [Finding("warn", what, f"/v1/models says {models.status}: a key is wanted", mend)]
    cards = _cards(models)
    if models.status != 200 or not cards:
        mend = "is upstream.url the base address of an OpenAI-compatible server?"
        return [Finding("FAIL", what, f"/v1/models says {models.status} and names no model", mend)]
    shown = ", ".join(f"{card['id']} ({card.get('max_model_len') or 'window unknown'})" for card in cards[:5])
    more = f" and {len(cards) - 5} more" if len(cards) > 5 else ""
    if not any(isinstance(card.get("max_model_len"), int) for card in cards):
        mend = "no max_model_len (not vLLM?): a prompt made too long by memory is noticed by the server's 400 only"
        return [Finding("warn", what, f"{shown}{more}", mend)]
    return [Finding("ok", what, f"{shown}{more}")]


async def _tokenize(asking: Asking, name: str) -> Finding:
    what = "upstream /tokenize"
    told = await asking.ask("/tokenize", {"model": name, "prompt": "Is anybody there?"})
    count = told.json.get("count") if isinstance(told.json, dict) else None
    if told.status == 200 and isinstance(count, int):
        return Finding("ok", what, f"works ({count} tokens for four words): exact counts where a prompt may not fit")
    mend = "token counts stay estimates: set tokenizer.directory to the served model's tokenizer.json"
    return Finding("warn", what, f"says {told.status}", mend)


async def _metrics(asking: Asking, settings: Settings) -> Findings:
    told = await asking.ask("/metrics")
    if told.status != 200 or "vllm:" not in told.text:
        mend = "optional: without vLLM's /metrics background work cannot see that requests wait"
        return [Finding("warn", "upstream /metrics", f"says {told.status}, no vllm: series", mend)]
    findings = [paused_by(settings)]
    caching = "enable_prefix_caching="
    labels = told.text.partition(f'{caching}"')[2][:5]
    if labels.startswith("False"):
        mend = "start vLLM with --enable-prefix-caching: repeated prompts are then computed once"
        return [*findings, Finding("warn", "prefix caching", "off", mend)]
    if labels.startswith("True") or "vllm:prefix_cache_queries" in told.text:
        return [*findings, Finding("ok", "prefix caching", f"on{_hit_rate(told.text)}")]
    mend = "start vLLM with --enable-prefix-caching if it is not the default of your version"
    return [*findings, Finding("warn", "prefix caching", "no counters in /metrics", mend)]


def paused_by(settings: Settings) -> Finding:
    """Whether background work sees that users wait."""
    what = "upstream /metrics"
    by, asks = settings.extract.by, asks_upstream(settings)
    if settings.upstream.metrics_urls and not asks:
        return Finding("ok", what, f"works; nothing watches it: extract.by {by} asks nothing of this vLLM")
    if settings.upstream.metrics_urls:
        return Finding("ok", what, f"works; background work watches {len(settings.upstream.metrics_urls)}")
    mend = f"upstream.metrics_urls: [{settings.upstream.url}/metrics] pauses background work under load"
    if asks:
        return Finding("warn", what, f"works, but nothing watches it: extract.by {by} asks while users wait", mend)
    return Finding("ok", what, "works", f"optional: {mend}")


def _hit_rate(metrics: str) -> str:
    queries, hits = (_sum(metrics, f"vllm:prefix_cache_{name}_total") for name in ("queries", "hits"))
    return f", {hits / queries:.0%} of {queries:,.0f} prompt tokens were hits so far" if queries else ""


def _sum(metrics: str, name: str) -> float:
    lines = [line for line in metrics.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    try:
        return sum(float(line.rpartition(" ")[2]) for line in lines)
    except ValueError:
        return 0.0


def _request_ids(health: Told, tag: str) -> Finding:
    what = "request id headers"
    if health.headers.get("x-request-id") == tag:
        return Finding("ok", what, "on (--enable-request-id-headers)")
    mend = "optional: --enable-request-id-headers lets you follow one request through both logs"
    return Finding("ok", what, "off", mend)


def _not_probed() -> Findings:
    ask = "`memory-proxy doctor --probe` asks three completions of one token"
    return [
        Finding(
            "ok",
            "prompt token details",
            f"not seen without a completion; {ask}",
            f"optional: --enable-prompt-tokens-details, {IMPROVES_DETAILS}",
        ),
        Finding(
            "ok",
            "priority scheduling",
            "not seen without a completion",
            f"optional: --scheduling-policy priority, {IMPROVES_PRIORITY}",
        ),
    ]


async def _probed(asking: Asking, name: str) -> Findings:
    body = {
        "model": name,
        "messages": [{"role": "user", "content": PROBE_TEXT}],
        "max_tokens": 1,
        "temperature": 0,
    }
    path = "/v1/chat/completions"
    by_priority = await asking.ask(path, {**body, "priority": 1}, timeout_s=PROBE_TIMEOUT_S)
    first = await asking.ask(path, body, timeout_s=PROBE_TIMEOUT_S)
    again = await asking.ask(path, body, timeout_s=PROBE_TIMEOUT_S)
    if again.status != 200:
        mend = f"see its log; it said: {again.text[:200]}"
        return [Finding("FAIL", "completion", f"{name} answers {again.status}", mend)]
    usage = again.json.get("usage", {}) if isinstance(again.json, dict) else {}
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    return [
        Finding("ok", "completion", f"{name} answers ({first.status}, {again.status})"),
        _details(details),
        _priority(by_priority.status),
    ]


def _details(details: object) -> Finding:
    what = "prompt token details"
    if isinstance(details, dict):
        return Finding("ok", what, f"on, {details.get('cached_tokens') or 0} tokens of a repeated prompt were cached")
    return Finding("ok", what, "off", f"optional: start vLLM with --enable-prompt-tokens-details, {IMPROVES_DETAILS}")


def _priority(status: int) -> Finding:
    what = "priority scheduling"
    if status == 200:
        return Finding("ok", what, "accepted (--scheduling-policy priority)")
    return Finding("ok", what, "off", f"optional: start vLLM with --scheduling-policy priority, {IMPROVES_PRIORITY}")


def _cards(models: Told) -> list[dict[str, Any]]:
    data = models.json.get("data") if isinstance(models.json, dict) else None
    return [card for card in data if isinstance(card, dict) and "id" in card] if isinstance(data, list) else []


def _first_model(models: Told) -> str | None:
    return next((str(card["id"]) for card in _cards(models)), None)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
