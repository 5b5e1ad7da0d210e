"""When a model may be asked: exchanges that wait in, turns of theirs out, users of the same model first.

Each question needs a place (`concurrency`), a quiet model, tokens left in its tenant's day, and its tenant's turn:
tenants that wait are served round robin, each in its own order. What has waited since `defer_max_s`, or has no tokens
left before that time is up, goes to the heuristic path. One Pace per worker process; what all of them spend
comes in as `Spends`. Fails towards the users: a load that cannot be read counts as busy.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal, Protocol, TypeVar
from uuid import UUID

from memory.bounded import rested
from memory.errors import QueueUnavailable

Verdict = Literal["now", "wait", "heuristic"]
T = TypeVar("T")

# A guess: mean waits for a first token double when a CPU build gets a second conversation (FACTS: 100 ms at 46 tokens).
RISES_FROM: Final = 2.0
_FAST: Final = 0.3
_SLOW: Final = 0.03


class Load(Protocol):
    """How busy the model is with others."""

    async def busy(self, ours: int) -> bool:
        """Whether to wait; `ours`: the requests of this process that it runs now. Never raises."""


class Spends(Protocol):
    """What each tenant has spent."""

    async def add(self, tenant: UUID, day: date, tokens: int) -> int:
        """Add so many tokens (0: only ask) to the tenant's UTC day; the day's sum. What it raises, a turn raises."""


class Yielded(Exception):
    """The question was left because others wait; it may be asked again later. Never leaves the write path."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds, as the configuration's `extract` section gives them."""

    concurrency: int = 1
    defer_max_s: float = 900.0
    tokens_per_day: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known when an exchange asks for its turn."""

    age_s: float  # since its answer had left
    tokens_left: int  # of its tenant, today
    day_left_s: float  # until tokens are given out anew
    place: bool  # one is free
    turn: bool  # it is first of the tenant whose turn it is
    quiet: bool  # the model has no others to serve first


def verdict(standing: Standing, limits: Limits) -> Verdict:
    """Whether to ask now, to wait, or to leave the exchange to the heuristic path."""
    wait_left_s = limits.defer_max_s - standing.age_s
    if wait_left_s <= 0 or (standing.tokens_left <= 0 and standing.day_left_s >= wait_left_s):
        return "heuristic"
    if standing.tokens_left > 0 and standing.place and standing.turn and standing.quiet:
        return "now"
    return "wait"


@dataclass(frozen=True, slots=True)
class Trend:
    """The time to the first token, as two moving means in seconds; None before the first."""

    fast: float | None = None
    slow: float | None = None

    @property
    def rising(self) -> bool:
        """Whether it has become much longer than it was."""
        return self.fast is not None and self.slow is not None and self.fast >= RISES_FROM * self.slow

    def after(self, mean_s: float | None) -> Trend:
        """The trend with one more measurement; None (nobody was served) lets it come to rest."""
        if mean_s is None:
            return Trend(self.slow, self.slow)
        if self.fast is None or self.slow is None:
            return Trend(mean_s, mean_s)
        return Trend(self.fast + _FAST * (mean_s - self.fast), self.slow + _SLOW * (mean_s - self.slow))


class SpentHere:
    """Spends of this process alone, forgotten when it ends. Holds one day."""

    def __init__(self) -> None:
        self._day: date | None = None
        self._sums: dict[UUID, int] = {}

    async def add(self, tenant: UUID, day: date, tokens: int) -> int:
        """See Spends."""
        if day != self._day:
            self._day, self._sums = day, {}
        self._sums[tenant] = self._sums.get(tenant, 0) + tokens
        return self._sums[tenant]


class SpentTogether:
    """Spends of all workers, as they are counted in one place (RedisHot.spend); of this process alone while that does
    not answer.
    """

    def __init__(self, spend: Callable[[UUID, date, int], Awaitable[int]]) -> None:
        self._spend = spend
        self._here = SpentHere()

    async def add(self, tenant: UUID, day: date, tokens: int) -> int:
        """See Spends."""
        here = await self._here.add(tenant, day, tokens)
        try:
            return max(here, await self._spend(tenant, day, tokens))
        except QueueUnavailable:
            return here


@dataclass(slots=True, eq=False)
class _Waiting:
    tenant: UUID
    since: datetime
    joined_s: float  # monotonic: a clock that jumps back must not keep anyone here for ever

    def age_s(self, now: datetime) -> float:
        waited_s = asyncio.get_running_loop().time() - self.joined_s
        return max((now - self.since).total_seconds(), waited_s)


@dataclass(slots=True, eq=False)
class _Queue:
    """Who waits: tenants in the order of their turns, each with its exchanges in theirs."""

    tenants: deque[UUID] = field(default_factory=deque)
    lines: dict[UUID, deque[_Waiting]] = field(default_factory=dict)

    def join(self, one: _Waiting) -> None:
        if one.tenant not in self.lines:
            self.lines[one.tenant] = deque()
            self.tenants.append(one.tenant)
        self.lines[one.tenant].append(one)

    def leave(self, one: _Waiting, *, served: bool) -> None:
        line = self.lines[one.tenant]
        line.remove(one)
        if not line:
            del self.lines[one.tenant]
            self.tenants.remove(one.tenant)
        elif served:
            self.tenants.remove(one.tenant)
            self.tenants.append(one.tenant)

    def first(self, one: _Waiting, passed_over: frozenset[UUID]) -> bool:
        """Whether it is this one's turn, tenants without tokens passed over."""
        turn = next((tenant for tenant in self.tenants if tenant not in passed_over), None)
        return turn == one.tenant and self.lines[one.tenant][0] is one


class Pace:
    """Gives out the turns. `clock`: the time, aware, UTC; `poll_s`: how often a wait looks at the load again."""

    def __init__(
        self, limits: Limits, load: Load, spends: Spends, clock: Callable[[], datetime], *, poll_s: float = 1.0
    ) -> None:
        self._limits = limits
        self._load = load
        self._spends = spends
        self._clock = clock
        self._poll_s = poll_s
        self._queue = _Queue()
        self._passed_over: set[UUID] = set()
        self._running = 0
        self._changed = asyncio.Event()

    @property
    def running(self) -> int:
        """Questions under way."""
        return self._running

    @contextlib.asynccontextmanager
    async def turn(self, tenant: UUID, since: datetime) -> AsyncIterator[bool]:
        """Wait for a turn: True inside it, False when the heuristic path is to take the exchange.

        `since`: when its answer had left. May be cancelled at any point.
        """
        one = self._joined(tenant, since)
        granted = False
        try:
            granted = await self._granted(one)
            self._running += granted
        finally:
            self._left_queue(one, served=granted)
        try:
            yield granted
        finally:
            self._running -= granted
            self._wake()

    async def now(self, tenant: UUID, since: datetime) -> Verdict:
        """What an exchange that comes now would hear, without waiting."""
        one = self._joined(tenant, since)
        try:
            return await self._verdict(one)
        finally:
            self._left_queue(one, served=False)

    async def spent(self, tenant: UUID, tokens: int) -> None:
        """Count what a question has cost."""
        await self._spends.add(tenant, self._clock().date(), tokens)

    async def unless_others_wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Make a call, and leave it (which frees the model) as soon as others wait. Raises Yielded."""
        task = asyncio.create_task(call)
        try:
            while not (await asyncio.wait({task}, timeout=self._poll_s))[0]:
                if await self._load.busy(self._running):
                    raise Yielded
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _joined(self, tenant: UUID, since: datetime) -> _Waiting:
        one = _Waiting(tenant, since, asyncio.get_running_loop().time())
        self._queue.join(one)
        return one

    def _left_queue(self, one: _Waiting, *, served: bool) -> None:
        self._queue.leave(one, served=served)
        if one.tenant not in self._queue.lines:
            self._passed_over.discard(one.tenant)
        self._wake()

    async def _granted(self, one: _Waiting) -> bool:
        while (said := await self._verdict(one)) == "wait":
            await rested(self._changed, self._poll_s)
        return said == "now"

    async def _verdict(self, one: _Waiting) -> Verdict:
        tokens_left, day_left_s = await self._left(one.tenant)
        (self._passed_over.discard if tokens_left > 0 else self._passed_over.add)(one.tenant)
        quiet = await self._quiet(one)
        standing = Standing(
            age_s=one.age_s(self._clock()),
            tokens_left=tokens_left,
            day_left_s=day_left_s,
            place=self._running < self._limits.concurrency,
            turn=self._queue.first(one, frozenset(self._passed_over)),
            quiet=quiet,
        )
        return verdict(standing, self._limits)

    async def _left(self, tenant: UUID) -> tuple[int, float]:
        now = self._clock()
        spent = await self._spends.add(tenant, now.date(), 0)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        return self._limits.tokens_per_day - spent, (midnight - now).total_seconds()

    async def _quiet(self, one: _Waiting) -> bool:
        """The load is asked only by the one that could go."""
        may = self._running < self._limits.concurrency and self._queue.first(one, frozenset(self._passed_over))
        return may and not await self._load.busy(self._running)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
