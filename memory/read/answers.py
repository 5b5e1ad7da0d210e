"""What hot scopes answered a moment ago: a question in, the same answer out while nothing it rests on has changed.

An answer holds for one state of one index (every change makes a new one), for ANSWER_TTL_S, since recency is a matter
of time, and not beyond the expiry of any memory in it. The same question of many at once is searched once. Keys hold a
digest of the question under a secret of this process; answers hold what was found, so all of them go when an erasure
is announced. Bounded in number: 512 answers of 20 candidates are about 8 MiB, whose texts the indexes hold anyway.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

from memory.flights import Flights
from memory.model import Recall
from memory.telemetry import Metrics

ANSWER_TTL_S: Final = 10.0
"""Recency is counted in days: what ends an answer sooner is a change of its index."""
ENTRIES_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class Found:
    """An answer, the moment from which one of its memories has expired, and when the index that gave it was confirmed,
    monotonic seconds. `by_words`: no more was asked for, so it is whole though it says that there is more.
    """

    recall: Recall
    expires_at: datetime | None
    confirmed_at: float = float("-inf")
    by_words: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it may be given again."""
        return self.by_words or self.recall.reason is None


@dataclass(frozen=True, slots=True)
class _Held:
    """`again` is what is given from the second time on: what is made of it is kept with it, and goes with it."""

    found: Found
    state: object
    until: float
    again: Recall


Search = Callable[[], Coroutine[Any, Any, Found]]


class Answers:
    """The answers of one process."""

    def __init__(
        self, metrics: Metrics, *, entries_max: int = ENTRIES_MAX, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counter = metrics.recall_answers
        self._entries_max = entries_max
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._held: OrderedDict[Hashable, _Held] = OrderedDict()
        self._flights: Flights[tuple[Hashable, object], Found] = Flights()

    def key(self, texts: Sequence[str], rest: Hashable) -> Hashable:
        """What a question is known by: its texts as a digest, and whatever else decides its answer."""
        said = "\0".join(texts).encode("utf-8", "surrogatepass")
        return blake2b(said, key=self._secret, digest_size=16).digest(), rest

    async def of(self, key: Hashable, state: Callable[[], object | None], now: datetime, search: Search) -> Recall:
        """The answer; `search` makes it where it is not known. Raises what `search` raises.

        Kept only where it is whole and `state()` is the same object before and after; not where it is None.
        """
        before = state()
        known = self.known(key, before, now)
        if known is not None:
            return known
        flight = (key, before)
        self._counter.inc("shared" if self._flights.under_way(flight) else "miss")

        async def searched() -> Found:
            found = await search()
            if found.is_whole and before is not None and state() is before and self._flights.is_mine(flight):
                self._keep(key, _Held(found, before, self._clock() + ANSWER_TTL_S, replace(found.recall, made={})))
            return found

        return (await self._flights.share(flight, searched)).recall

    def known(self, key: Hashable, state: object | None, now: datetime) -> Recall | None:
        """The answer where it is known; nobody is asked."""
        held = self._lasting(key, now)
        return self._again(held) if held is not None and held.state is state else None

    def recent(self, key: Hashable, since: float, now: datetime, stands: Callable[[Recall], bool]) -> Recall | None:
        """The answer of an index that was confirmed at `since` or later, whatever was stored in its scope meanwhile.

        Not where it does not stand: something in it was taken back.
        """
        held = self._lasting(key, now)
        if held is None or held.found.confirmed_at < since or not stands(held.found.recall):
            return None
        return self._again(held)

    def _lasting(self, key: Hashable, now: datetime) -> _Held | None:
        """What is held, where neither its time nor that of a memory in it is over."""
        held = self._held.get(key)
        return held if held is not None and held.until > self._clock() and _holds(held.found, now) else None

    def _again(self, held: _Held) -> Recall:
        self._counter.inc("hit")
        return held.again

    def let_go(self) -> None:
        """Hold no answer: something was erased."""
        self._held.clear()
        self._flights.let_go()

    def _keep(self, key: Hashable, held: _Held) -> None:
        now = self._clock()
        self._held.pop(key, None)
        self._held[key] = held
        while self._held:
            first = next(iter(self._held))
            if len(self._held) <= self._entries_max and self._held[first].until > now:
                break
            del self._held[first]


def _holds(found: Found, now: datetime) -> bool:
    return found.expires_at is None or now < found.expires_at
