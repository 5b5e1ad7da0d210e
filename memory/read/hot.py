"""Hot scopes: a Scope in, an index of everything it may see out, held in process and kept up with the store.

Read-through and bounded in bytes, least recently used first out. The truth about versions is a row in Postgres; Redis
only announces: what it does is caught up with in the background, before a question has to. An index is used without
asking for `staleness_ms` after its last confirmation, unless an announcement is ahead of it; later it must be confirmed
or is not used (DESIGN section 6). While many ask at once nobody waits for what is announced: it is caught up with each
CROWD_STALE_S. Raises StoreUnavailable when it cannot confirm, ScopeTooLarge when a scope does not fit, IndexUnreadable
when what is stored cannot be put into an index, which is let go of then: no other is lost by it.
An index of the past is one of these, of a scope and a moment under the law of now: every question of it confirms it, it
is held for PAST_HELD_S after the last, and is the first to make room.
Index work is serial: it runs on one thread, or on the event loop where it is short and that thread is idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from memory.errors import MemoryProxyFault, QueueUnavailable
from memory.model import Announcement, IndexRow, Injections, Quoted, Scope, ScopeVersion
from memory.places import Places
from memory.ports import Evaluator
from memory.read.index import ScopeIndex
from memory.read.items import INDEXED_KINDS, IndexItem
from memory.telemetry import Metrics, event, place_of
from policies.admission import admit
from policies.cascade import Visibility

T = TypeVar("T")
log: Final = logging.getLogger("memory_proxy.hot")
# How long a scope that was too large to hold is not tried again: it may have shrunk.
_LOAD_AGAIN_S: Final = 300.0
# The same for one of which no index could be made: each try reads all of it, 3 s of CPU time of 10,000 memories.
_READ_AGAIN_S: Final = 60.0
# Rows put into an index in one go: about 10 ms of the thread that questions wait for.
_ROWS_AT_ONCE: Final = 64
# Ranking 10,000 memories takes .5 ms of CPU time, and 1.8 on the clock where a thread is handed it and hands it back.
HERE_ITEMS_MAX: Final = 20_000
# Looking through an index for garbage took 60-360 ms at 100,000 memories: 3-18 ms for what is not frozen yet.
FREEZE_ROWS: Final = 5_000
# Who reads more than this part of the bytes does so in turns: eight that did so at once held four times the bound.
_LARGE_SHARE: Final = 16
# How long an index of the past is held for a further question: who looks into what was known then thinks in between.
PAST_HELD_S: Final = 300.0
# And from its reading on, whoever goes on asking: what the nightly run deletes for good is announced to no index.
PAST_READ_AGAIN_S: Final = 3600.0
# So many of the past are read on for who has left and may ask again, one of each user: the moments that one may ask of
# are without number, and each would be read whole.
PASTS_LEFT_MAX: Final = 4
_BYTES_PER_CHAIN: Final = 150  # a digest, a tuple and an entry: tracemalloc
# The kinds whose words are those of their primary turn: nothing is left of them to tell where that is in the prompt.
_OF_ONE_TURN: Final = frozenset({"episodic", "semantic", "procedural"})
_LISTEN_AGAIN_S: Final = 1.0
CROWD: Final = 16
"""So many questions under way in one process are many: one takes about 10 ms, so they wait for each other."""
CROWD_LASTS_S: Final = 1.0
"""How long many are many: where their answers are at hand they are few at any moment, and would wait again."""
CROWD_STALE_S: Final = 0.25
"""How often an index is brought up to date then: a scope that all of them write to moves with each exchange."""


class ScopeTooLarge(MemoryProxyFault):
    """This scope alone exceeds the bytes that hot scopes may hold: Postgres answers instead."""


class IndexUnreadable(MemoryProxyFault):
    """No index could be made of what a scope holds: a defect of ours, whose place is in the log."""


class IndexSource(Protocol):
    """Where an index is read from."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """The scopes this identity may see, with their versions. Raises StoreUnavailable."""

    def index_rows(
        self,
        tenant: UUID,
        scope_ids: Sequence[int],
        *,
        after: Mapping[int, int] | None = None,
        as_of: datetime | None = None,
    ) -> AsyncIterator[list[IndexRow]]:
        """Rows changed after these versions, in batches, with their counters. Raises StoreUnavailable."""

    def injections(self, tenant: UUID, after: Mapping[int, int]) -> AsyncIterator[list[Injections]]:
        """Counters changed after these versions, in batches: their memories may be as they were. StoreUnavailable."""


@dataclass(slots=True)
class HotScope:
    """One index and what it is known to hold. `reading` are the scopes that are being read into it: what it has of them
    is not known by `versions` yet. `chains` maps a turn's chain digest to what was made of that turn
    alone, `visibility` a scope to why it is seen, `quoted` is what conversations were given and no prompt gets now:
    of kinds that the index does not follow until anything in its scopes moves; `is_let_go`: something of it was erased,
    so it answers nobody any more, not even who has it already. `next` is the reading that waits for its turn, `wanted`
    the versions and `strict` whether it is wanted in any case, by all who wait for it. Of one of the past: how many are
    `asking` for it, the reading `under_way`, when it was `begun_at`, and when it `ends` where nobody asks again.
    """

    index: ScopeIndex
    versions: dict[int, int] = field(default_factory=dict)
    reading: frozenset[int] = frozenset()
    chains: dict[bytes, tuple[UUID, ...]] = field(default_factory=dict)
    visibility: Mapping[int, Visibility] = field(default_factory=dict)
    quoted: dict[UUID, Quoted] = field(default_factory=dict)
    is_let_go: bool = False
    bytes_held: int = 0
    confirmed_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next: asyncio.Task[None] | None = None
    wanted: dict[int, int] = field(default_factory=dict)
    strict: bool = False
    asking: int = 0
    under_way: asyncio.Task[None] | None = None
    ends: asyncio.TimerHandle | None = None
    begun_at: float = field(default_factory=time.monotonic)

    def stop(self) -> None:
        """Read it no further, and have no end in time: nobody asks for it."""
        for one in (self.next, self.under_way, self.ends):
            if one is not None:
                one.cancel()

    def weigh(self) -> int:
        """Estimate its memory, bytes, and keep that in `bytes_held`; by how much it has grown."""
        before = self.bytes_held
        self.bytes_held = self.index.bytes_held + len(self.chains) * _BYTES_PER_CHAIN
        return self.bytes_held - before

    @property
    def is_read_anew(self) -> bool:
        """Whether it is empty or half-read, from its beginning, or another is: no answer of it is one."""
        return self.is_let_go or (bool(self.reading) and not self.versions)

    def answers_by(self, index: ScopeIndex) -> bool:
        """Whether what was found in this index may be given: it is the one at hand, whole, and nothing was erased."""
        return self.index is index and not self.is_read_anew

    def is_behind(self, announced: Announcement) -> bool:
        """Whether it holds an older version of the announced scope."""
        return self.versions.get(announced.scope_id, announced.version) < announced.version


@dataclass(frozen=True, slots=True)
class Past:
    """What an index of the past is of: what a scope may see, as it was recorded at a moment."""

    scope: Scope
    moment: datetime

    @property
    def tenant(self) -> UUID:
        """Whose scope it is."""
        return self.scope.tenant

    @property
    def user(self) -> str:
        """Whose memory."""
        return self.scope.user


Held = Scope | Past


def as_stored(row: IndexRow) -> IndexRow:
    """The row itself."""
    return row


class HotScopes:
    """The hot scopes of one process."""

    def __init__(
        self,
        source: IndexSource,
        *,
        dim: int,
        bytes_max: int,
        staleness_ms: int,
        metrics: Metrics,
        evaluate: Evaluator = admit,
        clean: Callable[[IndexRow], IndexRow] = as_stored,
    ) -> None:
        self._source = source
        self._clean = clean
        self._dim = dim
        self._evaluate = evaluate
        self._bytes_max = bytes_max
        self._staleness_s = staleness_ms / 1000
        self._metrics = metrics
        self._scopes: OrderedDict[Held, HotScope] = OrderedDict()
        self._pasts: OrderedDict[Past, HotScope] = OrderedDict()  # those of the past among them
        self._seeing: dict[int, dict[Held, None]] = {}  # by scope that is announced, whose indexes hold it
        self._given_up: dict[Held, tuple[float, MemoryProxyFault]] = {}  # until when a scope is not loaded, and why
        self._drops: Counter[UUID] = Counter()  # how often something of a tenant was let go of
        self._unfrozen_rows = 0
        self._held_bytes = 0  # of all scopes together: each exchange asks, and there are tens of thousands
        self._asking = 0
        self._crowded_until = float("-inf")
        self._given: set[Future[Any]] = set()
        self._reading: set[asyncio.Task[Any]] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recall")
        self._large = Places(1, None)

    def close(self) -> None:
        """Stop the thread and what is being read; what runs there is finished, what waits is dropped."""
        for reading in self._reading:
            reading.cancel()
        for past in self._pasts.values():
            past.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """While a question is under way."""
        self._asking += 1
        if self._asking >= CROWD:
            self._crowded_until = time.monotonic() + CROWD_LASTS_S
        try:
            yield
        finally:
            self._asking -= 1

    @property
    def crowded_since(self) -> float | None:
        """Where many ask at once: from when on a confirmation is recent enough for all of them; else None."""
        return time.monotonic() - self._staleness_s if self._is_crowded else None

    @property
    def _is_crowded(self) -> bool:
        return self._asking >= CROWD or time.monotonic() < self._crowded_until

    def known_scope_ids(self, scope: Scope) -> tuple[int, ...]:
        """The visible scope ids as last confirmed, to ask announcements for; empty when unknown."""
        hot = self._scopes.get(scope)
        return tuple(hot.versions) if hot else ()

    def held(self, scope: Scope) -> HotScope | None:
        """The index of this scope as it was last confirmed; None before its first load is complete."""
        hot = self._scopes.get(scope)
        return hot if hot is not None and hot.confirmed_at > float("-inf") else None

    def fresh(self, scope: Scope, announced: Mapping[int, int] | None) -> HotScope | None:
        """The index of this scope where it may be used as it is, at once; None where it must be confirmed first."""
        hot = self._scopes.get(scope)
        if hot is None or (hot.lock.locked() and not self._is_crowded):
            return None
        return hot if self._is_fresh(hot, announced) else None

    def late(self, scope: Scope) -> HotScope | None:
        """The index of this scope while it is brought up to date, where it may be used without that for now: it was
        confirmed within the staleness, and is not being read anew.
        """
        hot = self._scopes.get(scope)
        return hot if hot is not None and self._is_usable(hot) else None

    def let_go(self, tenant: UUID, scope_ids: Sequence[int]) -> None:
        """Hold no index of anything in these scopes: something of them was erased. The next question reads anew."""
        gone = set(scope_ids)
        self._drops[tenant] += 1
        for scope in [one for one in self._given_up if one.tenant == tenant]:
            del self._given_up[scope]
        for scope, hot in list(self._scopes.items()):
            if scope.tenant == tenant and (not hot.versions or gone & (hot.versions.keys() | hot.reading)):
                self._drop(scope)
                hot.is_let_go = True
        self._tell()

    def drops(self, tenant: UUID) -> int:
        """How often something of a tenant was let go of: what was read before may hold it, wherever it lies."""
        return self._drops[tenant]

    def holding(self, tenant: UUID, memory_ids: Sequence[UUID]) -> int:
        """How many of these ids any index of the tenant holds."""
        held = [hot.index for scope, hot in self._scopes.items() if scope.tenant == tenant]
        return sum(memory_id in index for index in held for memory_id in memory_ids)

    def index_of(self, rows: Sequence[IndexRow], part_of: int | None, visible: Sequence[ScopeVersion] = ()) -> HotScope:
        """An index of these rows for one question; of a scope with at least `part_of`. On the recall thread."""
        hot = HotScope(self._empty(part_of), visibility=_visibility(visible))
        self._put(hot, rows)
        return hot

    async def run(self, work: Callable[[], T]) -> T:
        """Run index work on the recall thread."""
        given = self._thread.submit(work)
        self._given.add(given)
        given.add_done_callback(self._given.discard)  # when the work has ended, not when its asker has left
        return await asyncio.wrap_future(given)

    async def run_at_once(self, hot: HotScope, work: Callable[[], T]) -> T:
        """Run index work that an answer waits for: here, where it is short and the recall thread has nothing to do."""
        if not self._given and len(hot.index) <= HERE_ITEMS_MAX:
            return work()
        return await self.run(work)

    async def get(self, scope: Scope, announced: Mapping[int, int] | None, *, strict: bool = False) -> HotScope:
        """The index of a scope, as new as it must be; `strict` confirms always (a search reads its own writes).

        What is read goes on when who waits for it leaves: an index read in part is read anew from its beginning. One
        that is let go of meanwhile may have read what was erased: then who waits gets what is read behind that. So it
        is with one that had to make room while it was read: no erasure finds it, so any of its tenant counts.
        """
        while True:
            drops, hot = self._drops[scope.tenant], self._asked(scope)
            if strict or self.fresh(scope, announced) is None:
                await asyncio.shield(self._next(scope, hot, announced or {}, strict=strict))
            if self._may_be_given(scope, hot, drops):
                return hot

    async def as_of(self, scope: Scope, moment: datetime) -> HotScope:
        """The index of what was recorded at `moment`, confirmed. What is read of it goes on when all who wait for it
        have left, as far as PASTS_LEFT_MAX allows.
        """
        past = Past(scope, moment)
        while True:
            self._end_old(past)
            drops, hot = self._drops[scope.tenant], self._asked(past)
            self._pasts[past] = hot
            self._pasts.move_to_end(past)
            hot.asking += 1
            try:
                await asyncio.shield(self._next(past, hot, {}, strict=True))
            finally:
                hot.asking -= 1
                self._left(past, hot)
            if self._may_be_given(past, hot, drops):
                return hot

    def is_read_on(self, scope: Scope, moment: datetime) -> bool:
        """Whether an index of the past is being read and will be when who asks has left, so that they find it further
        on when they ask again.
        """
        past = Past(scope, moment)
        hot = self._pasts.get(past)
        return hot is not None and hot.under_way is not None and self._may_be_read_on(past)

    def given_up(self, scope: Scope, moment: datetime) -> tuple[MemoryProxyFault, float] | None:
        """Why no index of this moment is made for now, and for how many seconds."""
        return self._resting(Past(scope, moment))

    def _asked(self, scope: Held) -> HotScope:
        self._refuse_given_up(scope)
        hot = self._scopes.get(scope)
        if hot is None:
            hot = self._scopes[scope] = HotScope(self._empty())
            self._weigh(scope, hot)  # nothing may ever be read into it: it is bounded all the same
            self._evict(scope)
        self._scopes.move_to_end(scope)
        return hot

    def _may_be_given(self, scope: Held, hot: HotScope, drops: int) -> bool:
        return not hot.is_let_go and (self._scopes.get(scope) is hot or drops == self._drops[scope.tenant])

    def _end_old(self, past: Past) -> None:
        hot = self._pasts.get(past)
        if hot is not None and not hot.asking and time.monotonic() - hot.begun_at > PAST_READ_AGAIN_S:
            self._end(past, hot)

    def _left(self, past: Past, hot: HotScope) -> None:
        """One who asked of the past has gone, with an answer or without."""
        if hot.asking:
            return
        if self._pasts.get(past) is hot and (hot.under_way is None or self._may_be_read_on(past)):
            if hot.ends is not None:
                hot.ends.cancel()
            hot.ends = asyncio.get_running_loop().call_later(PAST_HELD_S, self._end, past, hot)
        else:
            self._end(past, hot)

    def _may_be_read_on(self, past: Past) -> bool:
        left = [one for one, hot in self._pasts.items() if one != past and hot.under_way is not None and not hot.asking]
        mine = any((one.tenant, one.user) == (past.tenant, past.user) for one in left)
        return len(left) < PASTS_LEFT_MAX and not mine

    def _end(self, past: Past, hot: HotScope) -> None:
        if hot.asking:
            return  # until the last of them has gone
        hot.stop()
        if self._pasts.get(past) is hot:
            self._drop(past)
            self._tell()

    def confirm(self, scope: Scope) -> None:
        """Begin to bring a scope's index up to date, where that is due; nobody waits for it. While many ask it is due
        before the last confirmation ends: all of them would wait for the next one.
        """
        hot = self._scopes.get(scope)
        if hot is None:
            self._begun(self.get(scope, None))
        elif not hot.lock.locked() and not self._is_recent(hot):
            self._next(scope, hot, {}, strict=False)

    def _next(self, scope: Held, hot: HotScope, announced: Mapping[int, int], *, strict: bool) -> asyncio.Task[None]:
        """The reading of this index that begins next, one for all who come before it does: one for each of them, where
        the store hangs, would be as many as there are questions.
        """
        hot.strict |= strict
        for scope_id, version in announced.items():
            hot.wanted[scope_id] = max(version, hot.wanted.get(scope_id, version))
        if hot.next is None:
            hot.next = self._begun(self._brought_up(scope, hot))
        return hot.next

    def _begun(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Work that goes on when who waits for it leaves."""
        reading = asyncio.create_task(work)
        self._reading.add(reading)
        reading.add_done_callback(self._read)
        return reading

    async def _brought_up(self, scope: Held, hot: HotScope) -> None:
        async with hot.lock:
            strict, wanted = hot.strict, hot.wanted
            hot.under_way, hot.next, hot.strict, hot.wanted = hot.next, None, False, {}
            try:
                if strict or not self._is_recent(hot) or not self._is_fresh(hot, wanted):
                    await self._catch_up(scope, hot)
            finally:
                hot.under_way = None

    def _read(self, reading: asyncio.Task[Any]) -> None:
        self._reading.discard(reading)
        if not reading.cancelled():
            reading.exception()  # who waited for it has been told; who left need not be

    async def keep_up(self, listen: Callable[[], AsyncIterator[Announcement]]) -> None:
        """Catch up with what is announced, for ever: one scope at a time, only those held.

        What fails or is not heard here is found out by the next question, which confirms and says so.
        """
        while True:
            with contextlib.suppress(QueueUnavailable):
                async for announced in listen():
                    for scope in list(self._seeing.get(announced.scope_id, ())):
                        if isinstance(scope, Past):
                            continue  # each question of it confirms it
                        hot = self._scopes.get(scope)
                        if hot is not None and scope.tenant == announced.tenant and hot.is_behind(announced):
                            await self._follow(scope, hot, announced)
            await asyncio.sleep(_LISTEN_AGAIN_S)

    async def _follow(self, scope: Scope, hot: HotScope, announced: Announcement) -> None:
        if self._is_crowded and self._is_recent(hot):
            return  # a later announcement reads on, or a question that waits for it
        async with hot.lock:
            if hot.is_behind(announced) and self._scopes.get(scope) is hot:
                with contextlib.suppress(MemoryProxyFault):
                    await self._catch_up(scope, hot)

    def _empty(self, part_of: int | None = None) -> ScopeIndex:
        return ScopeIndex(self._dim, part_of=part_of, evaluate=self._evaluate)

    def _refuse_given_up(self, scope: Held) -> None:
        """Raises the fault of a load that was given up, for a while, so that not every question begins one."""
        if (resting := self._resting(scope)) is not None:
            fault, _ = resting
            raise type(fault)(*fault.args)

    def _resting(self, scope: Held) -> tuple[MemoryProxyFault, float] | None:
        until, fault = self._given_up.get(scope, (0.0, None))
        left_s = until - time.monotonic()
        if fault is not None and left_s <= 0:
            del self._given_up[scope]
        return None if fault is None or left_s <= 0 else (fault, left_s)

    def _give_up(self, scope: Held, hot: HotScope, fault: MemoryProxyFault, rest_s: float) -> None:
        if self._scopes.get(scope) is not hot:
            return  # it was let go of while it was read, and may be another by now
        self._drop(scope)
        self._tell()
        self._given_up[scope] = (time.monotonic() + rest_s, type(fault)(*fault.args))

    def _too_large_fault(self) -> ScopeTooLarge:
        return ScopeTooLarge(f"one scope holds over {self._bytes_max} bytes (recall.hot_scope_bytes_max)")

    def _is_fresh(self, hot: HotScope, announced: Mapping[int, int] | None) -> bool:
        if not self._is_usable(hot):
            return False
        if not announced or self._is_crowded:
            return True
        return all(hot.versions.get(sid, -1) >= version for sid, version in announced.items())

    def _is_usable(self, hot: HotScope) -> bool:
        """Whether its last confirmation holds. With no scope known there is no announcement to ask for: only the store
        can say that there is one by now.
        """
        return self._was_confirmed(hot, self._staleness_s)

    def _is_recent(self, hot: HotScope) -> bool:
        """Whether it need not be brought up to date yet: while many ask that is begun before its confirmation ends."""
        return self._was_confirmed(
            hot, min(CROWD_STALE_S, self._staleness_s) if self._is_crowded else self._staleness_s
        )

    @staticmethod
    def _was_confirmed(hot: HotScope, within_s: float) -> bool:
        return bool(hot.versions) and time.monotonic() - hot.confirmed_at <= within_s

    async def _catch_up(self, scope: Held, hot: HotScope) -> None:
        """Read what is new of a scope. What fails in an unforeseen way is let go of, and read anew after a while; until
        then Postgres answers. Prompts and other scopes go on. Raises StoreUnavailable, ScopeTooLarge, IndexUnreadable.
        """
        try:
            await self._read_on(scope, hot)
        except MemoryProxyFault:
            raise
        except Exception as fault:  # a defect that one scope's rows bring out must end neither answers nor `keep_up`
            unreadable = IndexUnreadable("an index of this scope cannot be made")
            self._give_up(scope, hot, unreadable, _READ_AGAIN_S)
            event(log, "scope_unreadable", logging.ERROR, fault=type(fault).__name__, at=place_of(fault))
            raise unreadable from fault

    async def _read_on(self, scope: Held, hot: HotScope) -> None:
        asked_at = time.monotonic()
        whose, moment = (scope.scope, scope.moment) if isinstance(scope, Past) else (scope, None)
        visible = await self._source.visible_scopes(whose)
        wanted: dict[int, int] = {v.scope_id: v.version for v in visible}
        if hot.reading or self._must_rebuild(hot, visible):
            hot.index, hot.chains, hot.quoted = self._empty(), {}, {}
            self._hold(scope, hot, {})
            self._weigh(scope, hot)
        if wanted != hot.versions:
            hot.visibility = _visibility(visible)
            hot.quoted = {one: quoted for one, quoted in hot.quoted.items() if quoted.row.kind in INDEXED_KINDS}
            behind = {sid: hot.versions.get(sid, 0) for sid, now in wanted.items() if hot.versions.get(sid) != now}
            hot.reading = frozenset(behind)  # and stays so when this breaks off: then it is read anew
            try:
                rows = self._source.index_rows(scope.tenant, _ids(visible), after=behind, as_of=moment)
                await self._apply(scope, hot, rows)
            except ScopeTooLarge as fault:
                self._give_up(scope, hot, fault, _LOAD_AGAIN_S)
                raise
            if moment is None:  # counters have no past
                await self._count(scope.tenant, hot, {sid: version for sid, version in behind.items() if version})
            self._hold(scope, hot, wanted)
            self._evict(scope)
        hot.reading, hot.confirmed_at = frozenset(), asked_at

    def _must_rebuild(self, hot: HotScope, visible: Sequence[ScopeVersion]) -> bool:
        gone = hot.versions.keys() - {v.scope_id for v in visible}
        erased = any(0 < hot.versions.get(v.scope_id, 0) < v.rebuild_version for v in visible)
        return bool(gone) or erased

    async def _apply(self, scope: Held, hot: HotScope, batches: AsyncIterator[list[IndexRow]]) -> None:
        is_small, small_max = True, hot.bytes_held + self._bytes_max // _LARGE_SHARE
        async with contextlib.AsyncExitStack() as turn:
            async for batch in batches:
                for start in range(0, len(batch), _ROWS_AT_ONCE):  # other questions use the thread in between
                    rows = batch[start : start + _ROWS_AT_ONCE]
                    await self.run(lambda rows=rows: self._put(hot, rows))  # type: ignore[misc]
                self._weigh(scope, hot)
                if hot.bytes_held > self._bytes_max:
                    raise self._too_large_fault()
                self._evict(scope)
                self._freeze(len(batch))
                if is_small and hot.bytes_held > small_max:
                    is_small = False
                    await turn.enter_async_context(self._large.turn(scope.tenant, scope.user))

    def _freeze(self, rows: int) -> None:
        """Have the collector pass over what an index holds: it stays. Not after each exchange: what else waits to be
        collected then (a request leaves some hundred such objects) stays too.
        """
        self._unfrozen_rows += rows
        if self._unfrozen_rows >= FREEZE_ROWS:
            self._unfrozen_rows = 0
            gc.freeze()

    def _put(self, hot: HotScope, rows: Sequence[IndexRow]) -> None:
        """Into the index, as a prompt may have them: what other rules cleaned is cleaned again here, once."""
        _put_rows(hot, [self._clean(row) for row in rows])

    async def _count(self, tenant: UUID, hot: HotScope, behind: Mapping[int, int]) -> None:
        """Take over the counters that changed since; rows read for the first time came with theirs."""
        async for batch in self._source.injections(tenant, behind):
            await self.run(lambda batch=batch: hot.index.count(batch))  # type: ignore[misc]

    def _evict(self, keep: Held) -> None:
        while self._held_bytes > self._bytes_max:
            others = [scope for scope in chain(self._pasts, self._scopes) if scope != keep]
            if not others:
                break
            self._drop(next((one for one in others if not self._scopes[one].reading), others[0]))
        self._tell()

    def _weigh(self, scope: Held, hot: HotScope) -> None:
        grown = hot.weigh()
        if self._scopes.get(scope) is hot:  # else it was let go of while it was read
            self._held_bytes += grown

    def _hold(self, scope: Held, hot: HotScope, versions: Mapping[int, int]) -> None:
        """Note what an index holds, and by which announcements it is found: there are thousands, and one for each
        exchange of anybody.
        """
        if self._scopes.get(scope) is hot:
            self._unlist(scope, hot.versions.keys() - versions.keys())
            for scope_id in versions.keys() - hot.versions.keys():
                self._seeing.setdefault(scope_id, {})[scope] = None
        hot.versions = dict(versions)

    def _unlist(self, scope: Held, scope_ids: Iterable[int]) -> None:
        for scope_id in scope_ids:
            seeing = self._seeing[scope_id]
            del seeing[scope]
            if not seeing:
                del self._seeing[scope_id]

    def _drop(self, scope: Held) -> None:
        """Hold it no more."""
        gone = self._scopes.pop(scope)
        if isinstance(scope, Past):
            del self._pasts[scope]
            if not gone.asking:
                gone.stop()
        self._unlist(scope, gone.versions)
        self._held_bytes -= gone.bytes_held

    def _tell(self) -> None:
        """Say what is held."""
        self._metrics.hot_scopes.set(len(self._scopes))
        self._metrics.hot_scope_bytes.set(self._held_bytes)


def _ids(visible: Sequence[ScopeVersion]) -> list[int]:
    return [v.scope_id for v in visible]


def _visibility(visible: Sequence[ScopeVersion]) -> dict[int, Visibility]:
    return {v.scope_id: v.visibility for v in visible}


def _put_rows(hot: HotScope, rows: Sequence[IndexRow]) -> None:
    for row in rows:
        hot.quoted.pop(row.memory_id, None)  # it has changed: what is known of it is of before
        if row.visible:
            hot.index.put(item_of(row))
            if row.chain is not None and row.kind in _OF_ONE_TURN:
                others = (one for one in hot.chains.get(row.chain, ()) if one != row.memory_id)
                hot.chains[row.chain] = (*others, row.memory_id)
        else:
            hot.index.remove(row.memory_id)


def item_of(row: IndexRow) -> IndexItem:
    """A stored memory as an index holds it."""
    return IndexItem(
        memory_id=row.memory_id,
        version=row.version,
        kind=row.kind,
        role=row.role,
        content=row.content,
        context=row.context,
        occurred_at=row.occurred_at,
        session_id=row.session_id,
        seq=row.seq,
        integrity=row.integrity,
        sensitivity=row.sensitivity,
        importance=row.importance,
        expires_at=row.expires_at,
        scope_id=row.scope_id,
        source_ids=row.source_ids,
        event_ids=row.event_ids,
        windows=row.windows,
        vectors=row.vectors,
        created_at=row.created_at,
        speaker=row.speaker,
        language=row.language,
        attributes=row.attributes,
        validation_status=row.validation_status,
        injected=row.injected,
        last_injected_at=row.last_injected_at,
        pinned=row.pinned,
        outdates=row.outdates,
        entity=row.entity,
    )
