"""The breakers of one proxy worker: settings in, one for each dependency of the read path out, and what readiness asks.

Holds no state of its own and decides nothing: `memory/breaker.py` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from memory.breaker import Breaker, Patience
from memory.config import Settings
from memory.errors import (
    EmbedderBusy,
    EmbedderUnavailable,
    QueueUnavailable,
    StoreUnavailable,
    TokenizerRefused,
    TokenizerUnavailable,
)
from memory.telemetry import Metrics

# A call that was given up counts as a fault where this part of recall's deadline was waited for it. What asks for the
# least is the look for a conversation: half the deadline for Redis and the store together.
_SLOW_SHARE: Final = 0.4
# vLLM's /tokenize: a call that was given up after this counts as a fault; each waits for it longer than that.
COUNT_SLOW_S: Final = 0.1
_TROUBLE_S: Final = 0.5  # much less than a probe of readiness has: what does not answer here is not the store


@dataclass(frozen=True, slots=True)
class Breakers:
    """One for each dependency that a request waits for before it goes upstream."""

    store: Breaker
    hot_state: Breaker
    embedder: Breaker
    tokenizer: Breaker


def breakers_of(settings: Settings, metrics: Metrics) -> Breakers:
    """Closed ones."""
    slow_s = settings.recall.deadline_ms / 1000 * _SLOW_SHARE
    return Breakers(
        store=Breaker("store", Patience(StoreUnavailable, slow_s), metrics),
        hot_state=Breaker("hot_state", Patience(QueueUnavailable, slow_s), metrics),
        embedder=Breaker("embedder", Patience(EmbedderUnavailable, slow_s, busy=(EmbedderBusy,)), metrics),
        tokenizer=Breaker("tokenizer", Patience(TokenizerUnavailable, COUNT_SLOW_S, busy=(TokenizerRefused,)), metrics),
    )


def both(probe: Callable[[], Awaitable[None]], breaker: Breaker) -> Callable[[], Awaitable[None]]:
    """A probe of readiness that fails while the breaker leaves its dependency alone, too."""

    async def probed() -> None:
        await probe()
        await breaker.check()

    return probed


class Troubled(Protocol):
    """Where memory workers say what keeps them from storing."""

    async def trouble(self) -> str | None:
        """What they said lately. Raises QueueUnavailable."""


def stores(probe: Callable[[], Awaitable[None]], queue: Troubled) -> Callable[[], Awaitable[None]]:
    """A probe of the store that fails while memory workers cannot store, too: who only reads meets no full disk."""

    async def probed() -> None:
        await probe()
        with suppress(QueueUnavailable, TimeoutError):  # another probe says so
            async with asyncio.timeout(_TROUBLE_S):
                told = await queue.trouble()
            if told is not None:
                raise StoreUnavailable(f"what is captured waits, a memory worker cannot store it: {told}")

    return probed
