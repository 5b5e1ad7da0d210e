"""What memory costs vLLM's prefix cache, as the running service counted it: its /memory/metrics in, one finding out.

Beside the server's own hit rate in the doctor, since that is where one asks whether prompts are computed twice; a
command of its own would say one line. Without a service, a key that may read metrics, or counts, it names what lacks.
"""

from __future__ import annotations

import re
from typing import Final

import aiohttp

from memory.config import Settings
from proxy.beginning import beginning
from proxy.cli.checks import Finding, Findings

WHAT: Final = "cache with memory"
# Below this a prefix is lost somewhere: the estimate alone is wrong by a block a request, some hundredths.
SHARE_WARN: Final = 0.9
# Of fewer tokens a block is no hundredth: 64 cached of 71 expected is all that blocks of 16 can hold.
TOKENS_JUDGED: Final = 1_000
_TIMEOUT: Final = aiohttp.ClientTimeout(total=5)
_BYTES_MAX: Final = 4_194_304
_COUNT: Final = re.compile(r"^memory_proxy_(prompt_\w+)_total(?:\{(.*)\})? (\S+)$", re.MULTILINE)


async def cache_with_memory(settings: Settings) -> Findings:
    """One line."""
    host = "127.0.0.1" if settings.listen.host in ("0.0.0.0", "::") else settings.listen.host  # noqa: S104  compared
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{settings.listen.port}/memory/metrics"
    try:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, session.get(url) as answer:
            status, raw = answer.status, await beginning(answer.content, _BYTES_MAX)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return [Finding("ok", WHAT, f"not seen: no service answers on {shown}:{settings.listen.port}")]
    if status in (401, 403):
        return [Finding("ok", WHAT, "not seen: the service shows its metrics to keys with metrics:read only")]
    if status != 200:
        return [Finding("ok", WHAT, f"not seen: {url} says {status}")]
    return [finding_of(raw.decode("utf-8", "replace"))]


def finding_of(metrics: str) -> Finding:
    """What the service's metrics say."""
    counts = {(name, labels): float(value) for name, labels, value in _COUNT.findall(metrics)}
    expected = counts.get(("prompt_cached_expected_tokens", ""), 0.0)
    cached = counts.get(("prompt_cached_tokens", 'part="client",request="later"'), 0.0)
    if not expected:
        mend = "optional: start vLLM with --enable-prompt-tokens-details, then what memory costs the cache is counted"
        return Finding("ok", WHAT, "nothing counted yet", mend)
    found = f"{cached:,.0f} of the clients' prompt tokens were cached, {expected:,.0f} expected without memory"
    if cached >= SHARE_WARN * expected:
        return Finding("ok", WHAT, found)
    if expected < TOKENS_JUDGED:
        return Finding("ok", WHAT, f"{found}: too few to tell")
    mend = "vLLM's cache is too small for its load, or prefixes are lost: docs/metrics.md, python -m bench.prefix_cache"
    return Finding("warn", WHAT, found, mend)
