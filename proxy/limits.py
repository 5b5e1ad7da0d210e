"""The limits of a key at work: a credential in, nothing or RateLimited out.

Requests of the last minute and tokens of the day are counted for all processes together in Redis. The question is put
on its way when a request is admitted and its answer awaited only before anything goes upstream, so recall hides the
round trip; a key without counted limits asks nothing. With Redis away each process counts alone. Tokens are counted
when an answer has ended: what is under way when a day's tokens are used up still ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import UUID, uuid4

from aiohttp import web

from memory.errors import CapabilityMissing, QueueUnavailable, RateLimited
from memory.seldom import Seldom
from memory.telemetry import event
from policies.key_limits import KeyLimits
from policies.rate import WINDOW_S, Used, admits, retry_after_s
from proxy.identity import Credential
from proxy.relay import STREAMED
from proxy.wire.answer import TOKENS_TOLD_MAX, Answer

log: Final = logging.getLogger("memory_proxy.limits")
# After a fault the server is left alone for so long: a frozen one would cost each request its time-out.
AWAY_S: Final = 1.0
# Beyond the client's pool a question would fail, and a burst be counted by this process alone.
ASKED_AT_ONCE_MAX: Final = 16
DAY_S: Final = 86_400
# Where no usage is told: bytes of a token in JSON, and in an event of a stream. Guesses: nobody measured them.
BYTES_PER_TOKEN: Final = 4
STREAM_BYTES_PER_TOKEN: Final = 200


class Rates(Protocol):
    """What keys have used, counted for all processes."""

    async def take(self, key_id: UUID, now: datetime, limits: KeyLimits) -> Used:
        """Count one more request where it fits. Raises QueueUnavailable."""

    async def spend(self, key_id: UUID, teller: UUID, now: datetime, tokens: int) -> None:
        """Who tells knows of so many of the day's tokens, all in all; again is harmless. Raises QueueUnavailable."""


@dataclass(slots=True)
class _Own:
    """What this process alone has seen of a key."""

    minute: int = 0
    previous: int = 0
    current: int = 0
    day: int = 0
    tokens: int = 0
    told: int = 0  # of these tokens, as many as the others count
    teller: UUID = field(default_factory=uuid4)  # of these tokens alone: a clock comes to a day twice
    # Unix seconds: between the two nothing fits within `closed_by`, whatever the others do.
    closed_at: float = 0.0
    closed_until: float = 0.0
    closed_by: KeyLimits | None = None
    closed_why: str = ""

    def turn(self, now: float) -> None:
        """Move to the minute and day of `now`."""
        minute, day = int(now // WINDOW_S), int(now // DAY_S)
        if minute != self.minute:
            self.previous = self.current if minute == self.minute + 1 else 0
            self.minute, self.current = minute, 0
        if day != self.day:
            self.day, self.tokens, self.told, self.teller = day, 0, 0, uuid4()


class KeyUse:
    """Counts and refuses. One per process."""

    def __init__(self, rates: Rates, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._rates = rates
        self._clock = clock
        self._own: dict[UUID, _Own] = {}
        self._day = 0
        self._away_until = float("-inf")
        self._slots = asyncio.Semaphore(ASKED_AT_ONCE_MAX)
        self._under_way: set[asyncio.Task[None]] = set()
        self._said = Seldom()

    def begin(self, credential: Credential) -> asyncio.Task[None] | None:
        """Ask whether one more request fits; the task raises RateLimited. None: nothing is counted of this key.

        Raises RateLimited itself where the last answer was that nothing fits yet: a flood costs no recall.
        """
        if credential.key_id is None or not credential.limits.counted:
            return None
        now = self._clock().timestamp()
        own = self._of(credential.key_id, now)
        if own.closed_at <= now < own.closed_until and own.closed_by == credential.limits:
            raise RateLimited(own.closed_why, retry_after_s=math.ceil(own.closed_until - now))
        return self._kept(asyncio.create_task(self._take(credential.key_id, credential.limits)))

    async def admit(self, credential: Credential) -> None:
        """Count one request. Raises RateLimited."""
        asked = self.begin(credential)
        if asked is not None:
            await asked

    def spend(self, credential: Credential, tokens: int) -> None:
        """Count the tokens of an answer; returns at once."""
        if credential.key_id is None or credential.limits.tokens_per_day is None or tokens <= 0:
            return
        self._of(credential.key_id, self._clock().timestamp()).tokens += tokens
        self._kept(asyncio.create_task(self._spend(credential.key_id)))

    async def _take(self, key_id: UUID, limits: KeyLimits) -> None:
        now = self._clock()
        own = self._of(key_id, now.timestamp())
        used = await self._shared(key_id, now, limits)
        if used is None:
            used = _alone(own, limits, now)
        elapsed_s = now.timestamp() % WINDOW_S
        if not used.admitted:
            refusal = _refusal(used, limits, now, elapsed_s)
            own.closed_at = now.timestamp()
            own.closed_until = own.closed_at + (refusal.retry_after_s or 0)
            own.closed_by, own.closed_why = limits, refusal.message
            raise refusal
        own.current += 1

    async def _shared(self, key_id: UUID, now: datetime, limits: KeyLimits) -> Used | None:
        """The counts of all processes; None while they cannot be had."""
        async with self._slots:
            if time.monotonic() < self._away_until:
                return None
            try:
                await self._tell(key_id)  # what was used while the server was away
                return await self._rates.take(key_id, now, limits)
            except QueueUnavailable as fault:
                self._leave_alone(fault)
                return None

    async def _spend(self, key_id: UUID) -> None:
        async with self._slots:
            if time.monotonic() < self._away_until:
                return
            try:
                await self._tell(key_id)
            except QueueUnavailable as fault:
                self._leave_alone(fault)

    async def _tell(self, key_id: UUID) -> None:
        """Have the others count the day's tokens that they do not know of."""
        now = self._clock()
        own = self._of(key_id, now.timestamp())
        if own.tokens <= own.told:
            return
        before, own.told = own.told, own.tokens  # who asks beside this need not tell it too
        try:
            await self._rates.spend(key_id, own.teller, now, own.tokens)
        except (QueueUnavailable, asyncio.CancelledError):
            own.told = min(before, own.told)
            raise

    def _leave_alone(self, fault: QueueUnavailable) -> None:
        self._away_until = time.monotonic() + AWAY_S
        if self._said.due():
            event(log, "limits_counted_alone", logging.WARNING, fault=str(fault))

    def _of(self, key_id: UUID, now: float) -> _Own:
        """What was seen of a key, as of `now`. With each day those go that were not used in its last minute."""
        day, minute = int(now // DAY_S), int(now // WINDOW_S)
        if day != self._day:
            self._day = day
            self._own = {one: own for one, own in self._own.items() if abs(minute - own.minute) <= 1}
        own = self._own.setdefault(key_id, _Own())
        own.turn(now)
        return own

    def _kept(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # a client that left does not ask for it


def require_model(credential: Credential, model: object) -> None:
    """Raise CapabilityMissing, naming the model, unless the key may use it."""
    models = credential.limits.models
    if models is None or (isinstance(model, str) and model in models):
        return
    named = f"the model {str(model)[:128]!r}" if isinstance(model, str) else "a request that names no model"
    known = ", ".join(sorted(models)) or "none"
    raise CapabilityMissing(f"this key may not use {named}; it may use: {known}", param="model")


@contextmanager
def spent_by_size(use: KeyUse | None, request: web.Request, credential: Credential) -> Iterator[None]:
    """Count the tokens of an exchange that nobody reads, by its bytes; up to where its client left, once it had sent
    all of its request. Of what is refused nothing is counted.
    """
    try:
        yield
    except (asyncio.CancelledError, ConnectionError):
        if use is not None and request.content.is_eof():
            use.spend(credential, _tokens_by_size(request))
        raise
    if use is not None:
        use.spend(credential, _tokens_by_size(request))


def _tokens_by_size(request: web.Request) -> int:
    """Tokens of an exchange that nobody read, by its bytes as they came and went: no length need be announced."""
    each = STREAM_BYTES_PER_TOKEN if request.get(STREAMED) else BYTES_PER_TOKEN
    return request.content.total_bytes // BYTES_PER_TOKEN + request.writer.output_size // each


def tokens_used(sent_bytes: int, answer: Answer | None) -> int:
    """Tokens of an exchange: as its usage says, else by what was sent and said."""
    if answer is None:
        return sent_bytes // BYTES_PER_TOKEN
    total = answer.usage.get("total_tokens") if answer.usage else None
    if isinstance(total, int) and not isinstance(total, bool) and 0 < total <= TOKENS_TOLD_MAX:
        return total
    said = sum(len(text) for one in answer.choices for text in (one.content, one.thought) if text)
    said += sum(len(call.arguments) for one in answer.choices for call in one.tool_calls)
    return (sent_bytes + said) // BYTES_PER_TOKEN


def _alone(own: _Own, limits: KeyLimits, now: datetime) -> Used:
    per_minute, per_day = limits.requests_per_minute, limits.tokens_per_day
    fits = per_minute is None or admits(own.previous, own.current, per_minute, now.timestamp() % WINDOW_S)
    fits = fits and (per_day is None or own.tokens < per_day)
    return Used(fits, own.previous, own.current, own.tokens)


def _refusal(used: Used, limits: KeyLimits, now: datetime, elapsed_s: float) -> RateLimited:
    if limits.tokens_per_day is not None and used.tokens >= limits.tokens_per_day:
        left_s = math.ceil(DAY_S - now.timestamp() % DAY_S)
        return RateLimited(
            f"this key has used its {limits.tokens_per_day} tokens of today (UTC)", retry_after_s=max(1, left_s)
        )
    limit = limits.requests_per_minute or 1
    return RateLimited(
        f"this key may send {limit} requests a minute",
        retry_after_s=retry_after_s(used.previous, used.current, limit, elapsed_s),
    )
