"""An index of several scopes: what moved is read and nothing else, and what breaks off leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from memory.errors import StoreUnavailable
from memory.ids import new_id
from memory.model import Announcement, IndexRow, Injections, Quoted, Scope, ScopeId, ScopeVersion
from memory.read import hot as module
from memory.read.hot import CROWD, PASTS_LEFT_MAX, Held, HotScope, HotScopes, ScopeTooLarge
from memory.telemetry import Metrics
from tests.test_recall import DIM, NOW, row, unit

SCOPE = Scope(new_id())


@dataclass
class Store:
    """Scopes with their versions and rows; what was asked of each, and whether it breaks off after the first batch."""

    versions: dict[int, int] = field(default_factory=dict)
    rebuilt: dict[int, int] = field(default_factory=dict)
    rows: list[IndexRow] = field(default_factory=list)
    asked: list[dict[int, int]] = field(default_factory=list)
    counted: list[dict[int, int]] = field(default_factory=list)
    breaks: bool = False
    opens: asyncio.Event | None = None  # the first batch waits for it

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        return tuple(ScopeVersion(ScopeId(one), now, self.rebuilt.get(one, 0)) for one, now in self.versions.items())

    async def index_rows(
        self,
        tenant: UUID,
        scope_ids: Sequence[int],
        *,
        after: Mapping[int, int] | None = None,
        as_of: datetime | None = None,
    ) -> AsyncIterator[list[IndexRow]]:
        since, rows = dict.fromkeys(scope_ids, 0) if after is None else dict(after), list(self.rows)
        self.asked.append(since)
        if self.opens is not None:
            await self.opens.wait()
        for scope_id, version in since.items():
            found = [one for one in rows if one.scope_id == scope_id and one.changed_version > version]
            for one in found:
                yield [one]
                if self.breaks:
                    raise StoreUnavailable("broke off")

    async def injections(self, tenant: UUID, after: Mapping[int, int]) -> AsyncIterator[list[Injections]]:
        self.counted.append(dict(after))
        for _ in ():
            yield []

    def tell(self, scope_id: int, text: str) -> UUID:
        """One more memory of a scope."""
        self.versions[scope_id] = version = self.versions.get(scope_id, 0) + 1
        self.rows.append(row(text, unit(1, 0, 0, 0), version, scope_id=scope_id))
        return self.rows[-1].memory_id

    def erase(self, memory_id: UUID) -> int:
        """Without a trace; its scope."""
        (gone,) = [one for one in self.rows if one.memory_id == memory_id]
        self.rows.remove(gone)
        self.versions[gone.scope_id] += 1
        self.rebuilt[gone.scope_id] = self.versions[gone.scope_id]
        return gone.scope_id


@pytest.fixture
def store() -> Store:
    made = Store()
    made.tell(1, "my boat is called Halcyon")
    made.tell(2, "the cat sleeps all day")
    return made


def hot_of(store: Store, staleness_ms: int = 1000, bytes_max: int = 1 << 20) -> HotScopes:
    return HotScopes(store, dim=DIM, bytes_max=bytes_max, staleness_ms=staleness_ms, metrics=Metrics())


@contextlib.contextmanager
def crowd(hot: HotScopes) -> Iterator[None]:
    """Many who ask at once."""
    with contextlib.ExitStack() as stack:
        for _ in range(CROWD):
            stack.enter_context(hot.asking())
        yield


async def broken_off(store: Store) -> tuple[HotScopes, UUID]:
    """What held two scopes when the reading of a third broke off, and what it has read of that one."""
    hot = hot_of(store)
    await hot.get(SCOPE, None)
    read = store.tell(3, "a secret that is to be forgotten")
    store.breaks = True
    with pytest.raises(StoreUnavailable):
        await hot.get(SCOPE, None, strict=True)
    store.breaks = False
    return hot, read


async def left_behind(store: Store) -> HotScopes:
    """What is reading a scope for somebody who has left."""
    hot, store.opens = hot_of(store), asyncio.Event()
    waiting = asyncio.create_task(hot.get(SCOPE, None))
    while not store.asked:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    store.opens.set()
    return hot


async def test_only_the_scope_that_moved_is_read(store: Store) -> None:
    hot = hot_of(store)
    await hot.get(SCOPE, None)
    new = store.tell(2, "the dog does not")
    index = (await hot.get(SCOPE, None, strict=True)).index
    assert store.asked == [{1: 0, 2: 0}, {2: 1}]
    assert store.counted[-1] == {2: 1}
    assert len(index) == 3 and new in index
    await hot.get(SCOPE, None, strict=True)
    assert len(store.asked) == 2


async def test_a_scope_that_comes_to_be_seen_is_read_whole(store: Store) -> None:
    hot = hot_of(store)
    await hot.get(SCOPE, None)
    new = store.tell(3, "what is shared with the project")
    index = (await hot.get(SCOPE, None, strict=True)).index
    assert store.asked[-1] == {3: 0} and store.counted[-1] == {}
    assert new in index and len(index) == 3


async def test_a_scope_that_is_seen_no_more_is_gone_with_all_it_had(store: Store) -> None:
    hot = hot_of(store)
    await hot.get(SCOPE, None)
    del store.versions[2]
    index = (await hot.get(SCOPE, None, strict=True)).index
    assert [one.scope_id for one in store.rows if one.memory_id in index] == [1]


async def test_what_is_seen_no_more_counts_for_nothing(store: Store) -> None:
    hot = hot_of(store)
    full = (await hot.get(SCOPE, None)).bytes_held
    store.versions.clear()
    nothing = await hot.get(SCOPE, None, strict=True)
    assert len(nothing.index) == 0
    assert nothing.bytes_held == nothing.index.bytes_held < full


@pytest.mark.parametrize("away", [False, True])
async def test_scopes_of_which_nothing_is_read_are_bounded_too(away: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store({1: 1} if away else {})
    hot = hot_of(store, bytes_max=10 * HotScope(hot_of(store)._empty()).weigh())
    if away:
        monkeypatch.setattr(hot, "_apply", applied_not)
    scopes = [Scope(SCOPE.tenant, str(number)) for number in range(30)]
    for one in scopes:
        with contextlib.suppress(StoreUnavailable):
            await hot.get(one, None)
    assert [one for one in scopes if one in hot._scopes] == scopes[-10:]


async def test_what_is_held_is_not_added_up_anew_for_each_exchange(store: Store) -> None:
    """With 50,000 scopes that held the event loop for 150 ms on a busy machine, behind every exchange of anybody."""

    class Counted(OrderedDict[Held, HotScope]):
        gone_through = 0

        def __iter__(self) -> Iterator[Held]:
            self.gone_through += 1
            return super().__iter__()

    hot = hot_of(store)
    hot._scopes = counted = Counted()
    others = [Scope(SCOPE.tenant, str(number)) for number in range(20)]
    for one in (SCOPE, *others):
        await hot.get(one, None)
    store.tell(1, "and her dinghy is called Tern")
    await hot.get(SCOPE, None, strict=True)
    assert counted.gone_through == 0
    told = hot._metrics.registry.get_sample_value
    for let_go in ((), (2,)):
        hot.let_go(SCOPE.tenant, let_go)
        held = [one for one in (SCOPE, *others) if hot.held(one) is not None]
        assert len(held) == (0 if let_go else 21)
        assert told("memory_proxy_hot_scope_bytes") == sum(one.bytes_held for one in counted.values())


async def test_what_was_erased_after_a_reading_broke_off_is_in_no_index(store: Store) -> None:
    hot, erased = await broken_off(store)
    assert hot.holding(SCOPE.tenant, [erased]) == 1
    scope_id = store.erase(erased)
    index = (await hot.get(SCOPE, None, strict=True)).index
    assert erased not in index and len(index) == 2
    assert scope_id == 3


async def test_what_a_broken_reading_left_is_let_go_of_at_once(store: Store) -> None:
    hot, erased = await broken_off(store)
    hot.let_go(SCOPE.tenant, [store.erase(erased)])
    assert hot.holding(SCOPE.tenant, [erased]) == 0


async def test_a_reading_goes_on_when_who_waits_for_it_leaves(store: Store) -> None:
    hot = await left_behind(store)
    held = await hot.get(SCOPE, None)
    assert len(held.index) == 2 and len(store.asked) == 1, "read once, by the reading that was left"


async def test_what_is_let_go_of_is_told_as_held_no_more(store: Store) -> None:
    hot = hot_of(store)
    told = hot._metrics.registry.get_sample_value
    await hot.get(SCOPE, None)
    assert told("memory_proxy_hot_scopes") == 1 and told("memory_proxy_hot_scope_bytes")
    hot.let_go(SCOPE.tenant, [1])
    assert (told("memory_proxy_hot_scopes"), told("memory_proxy_hot_scope_bytes")) == (0, 0)


async def test_a_scope_that_is_too_large_to_hold_is_told_as_held_no_more(store: Store) -> None:
    store.tell(3, "a word " * 20_000)
    hot = hot_of(store, bytes_max=100_000)
    with pytest.raises(ScopeTooLarge):
        await hot.get(SCOPE, None)
    assert hot._metrics.registry.get_sample_value("memory_proxy_hot_scopes") == 0


async def test_a_reading_that_was_let_go_of_takes_its_successor_along_in_nothing(store: Store) -> None:
    """It finds its scope too large, from which so much was erased meanwhile that it is not any more."""
    large = store.tell(3, "a word " * 20_000)
    hot, store.opens = hot_of(store, bytes_max=100_000), asyncio.Event()
    first = asyncio.create_task(hot.get(SCOPE, None))
    while not store.asked:
        await asyncio.sleep(0)
    hot.let_go(SCOPE.tenant, [store.erase(large)])
    store.opens.set()
    held = await hot.get(SCOPE, None)
    with pytest.raises(ScopeTooLarge):
        await first
    assert len(held.index) == 2
    assert await hot.get(SCOPE, None) is held


@pytest.mark.parametrize("strict", [False, True])
async def test_who_waits_for_a_reading_that_is_let_go_of_gets_the_next_one(store: Store, strict: bool) -> None:
    """It has read what was erased before its process said that it holds nothing of it any more."""
    erased = store.tell(3, "a secret that is to be forgotten")
    hot, store.opens = hot_of(store), asyncio.Event()
    asking = asyncio.create_task(hot.get(SCOPE, None, strict=strict))
    while not store.asked:
        await asyncio.sleep(0)
    hot.let_go(SCOPE.tenant, [store.erase(erased)])
    store.opens.set()
    index = (await asking).index
    assert erased not in index and len(index) == 2


class Watched(Store):
    """A store that has somebody look behind each batch."""

    look: Callable[[], None] = staticmethod(lambda: None)

    async def index_rows(self, *given: Any, **more: Any) -> AsyncIterator[list[IndexRow]]:
        async for batch in super().index_rows(*given, **more):
            yield batch
            self.look()


class Halting(Store):
    """A store of which a reading halts behind its first batch until `goes_on` is set."""

    goes_on: asyncio.Event | None = None

    async def index_rows(self, *given: Any, **more: Any) -> AsyncIterator[list[IndexRow]]:
        goes_on = self.goes_on
        async for batch in super().index_rows(*given, **more):
            yield batch
            if goes_on is not None:
                await goes_on.wait()


async def test_what_had_to_make_room_while_it_was_read_gives_nothing_that_was_erased_meanwhile() -> None:
    store = Halting()
    erased, left = store.tell(1, "a secret that is to be forgotten"), store.tell(1, "the cat sleeps all day " * 5_000)
    whole = (await hot_of(store).get(SCOPE, None)).bytes_held
    hot, store.goes_on = hot_of(store, bytes_max=whole + 1), asyncio.Event()
    goes_on = store.goes_on
    asking = asyncio.create_task(hot.get(SCOPE, None))
    while not hot.holding(SCOPE.tenant, [erased]):
        await asyncio.sleep(0.001)
    store.goes_on = None
    await hot.get(Scope(SCOPE.tenant, "other"), None)
    assert hot.holding(SCOPE.tenant, [erased]) == 1, "the index that is being read had to make room"
    hot.let_go(SCOPE.tenant, [store.erase(erased)])
    goes_on.set()
    index = (await asking).index
    assert erased not in index and left in index


async def test_large_indexes_that_are_read_at_once_stay_within_the_bytes_all_the_same() -> None:
    """Each was weighed against the bound by itself, and the others had to make room when it was whole."""
    store = Watched()
    for number in range(40):
        store.tell(1, f"note {number} of the pump in the hall " * 200)
    whole = (await hot_of(store).get(SCOPE, None)).bytes_held
    hot, most = hot_of(store, bytes_max=2 * whole), [0, 0]

    def look() -> None:
        half_read = [one for one in hot._scopes.values() if one.reading and one.bytes_held > whole // 2]
        most[:] = max(most[0], hot._held_bytes), max(most[1], len(half_read))

    store.look = look
    found = await asyncio.gather(*(hot.get(Scope(SCOPE.tenant, f"user {n}"), None) for n in range(12)))
    assert [len(one.index) for one in found] == [40] * 12
    assert most[0] <= 2 * whole
    assert most[1] == 1


async def test_what_is_read_of_the_past_while_something_is_erased_is_read_again(store: Store) -> None:
    erased = store.tell(3, "a secret that is to be forgotten")
    hot, store.opens = hot_of(store), asyncio.Event()
    asking = asyncio.create_task(hot.as_of(SCOPE, NOW))
    while not store.asked:
        await asyncio.sleep(0)
    hot.let_go(SCOPE.tenant, [store.erase(erased)])
    store.opens.set()
    assert erased not in (await asking).index


async def asks_and_leaves(hot: HotScopes, scope: Scope, moment: datetime) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await hot.as_of(scope, moment)


async def test_a_past_is_read_again_in_time_whoever_goes_on_asking(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the nightly run deletes for good is announced to no index."""
    hot = hot_of(store)
    first = await hot.as_of(SCOPE, NOW)
    assert await hot.as_of(SCOPE, NOW) is first
    store.rows.clear()  # no version tells of it
    monkeypatch.setattr(module, "PAST_READ_AGAIN_S", 0.0)
    assert len((await hot.as_of(SCOPE, NOW)).index) == 0
    hot.close()


async def test_the_past_is_read_once_for_all_who_ask_of_a_moment_while_it_is_held(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = hot_of(store)
    first, *others = await asyncio.gather(*(hot.as_of(SCOPE, NOW) for _ in range(3)))
    assert all(one is first for one in others) and len(store.asked) == 1
    told = hot._metrics.registry.get_sample_value
    assert told("memory_proxy_hot_scopes") == 1 and told("memory_proxy_hot_scope_bytes") == first.bytes_held > 0
    assert not store.counted, "counters have no past"
    monkeypatch.setattr(module, "PAST_HELD_S", 0.02)
    assert await hot.as_of(SCOPE, NOW) is first
    async with asyncio.timeout(5):
        while told("memory_proxy_hot_scopes"):
            await asyncio.sleep(0.01)
    assert told("memory_proxy_hot_scope_bytes") == 0
    assert await hot.as_of(SCOPE, NOW) is not first
    hot.close()


async def test_the_past_is_read_on_for_some_who_left_and_for_each_user_once(store: Store) -> None:
    hot, store.opens = hot_of(store), asyncio.Event()
    users = [Scope(SCOPE.tenant, str(number)) for number in range(PASTS_LEFT_MAX + 3)]
    for user in users:
        for hours in range(3):
            await asks_and_leaves(hot, user, NOW - timedelta(hours=hours))
    read_on = [(at, hours) for at, user in enumerate(users) for hours in range(3)
               if hot.is_read_on(user, NOW - timedelta(hours=hours))]  # fmt: skip
    assert read_on == [(at, 0) for at in range(PASTS_LEFT_MAX)]
    waits = asyncio.create_task(hot.as_of(users[-1], NOW))
    await asyncio.sleep(0)
    store.opens.set()
    assert len((await waits).index) == 2
    before = len(store.asked)
    for user in users[:PASTS_LEFT_MAX]:
        await hot.as_of(user, NOW)
    assert len(store.asked) == before, "who asked first finds it read"
    hot.close()


async def test_who_leaves_at_once_leaves_no_reading_of_the_past_behind_that_is_not_counted(store: Store) -> None:
    hot, store.opens = hot_of(store), asyncio.Event()
    for hours in range(5):
        asking = asyncio.create_task(hot.as_of(SCOPE, NOW - timedelta(hours=hours)))
        await asyncio.sleep(0)
        asking.cancel()
    await asyncio.sleep(0.02)
    told = hot._metrics.registry.get_sample_value
    assert (len(hot._reading), told("memory_proxy_hot_scopes")) == (1, 1)
    hot.close()


async def test_who_waits_for_the_past_has_it_though_others_who_asked_have_left(store: Store) -> None:
    hot, store.opens = hot_of(store), asyncio.Event()
    await asks_and_leaves(hot, SCOPE, NOW - timedelta(hours=1))
    waits = asyncio.create_task(hot.as_of(SCOPE, NOW))
    await asks_and_leaves(hot, SCOPE, NOW)
    store.opens.set()
    assert len((await waits).index) == 2
    assert len(store.asked) == 2
    hot.close()


async def test_the_past_makes_room_before_what_is_of_now(store: Store) -> None:
    others = [Scope(SCOPE.tenant, str(number)) for number in range(3)]
    one = (await hot_of(store).get(SCOPE, None)).bytes_held
    hot = hot_of(store, bytes_max=3 * one + one // 2)
    await hot.get(others[0], None)
    await hot.as_of(SCOPE, NOW)
    await hot.as_of(SCOPE, NOW - timedelta(hours=1))
    await hot.get(others[1], None)
    assert hot.held(others[0]) and hot.held(others[1])
    read = len(store.asked)
    await hot.as_of(SCOPE, NOW - timedelta(hours=1))
    assert len(store.asked) == read, "of the past what was asked of last stays"
    await hot.get(others[2], None)
    assert all(hot.held(other) for other in others)
    await hot.as_of(SCOPE, NOW)
    assert hot.held(others[0]) is None, "who asks of the past is given room"
    hot.close()


async def test_a_past_that_is_held_is_found_by_an_erasure(store: Store) -> None:
    erased = store.tell(3, "a secret that is to be forgotten")
    hot = hot_of(store)
    past = await hot.as_of(SCOPE, NOW)
    assert hot.holding(SCOPE.tenant, [erased]) == 1
    hot.let_go(SCOPE.tenant, [store.erase(erased)])
    assert hot.holding(SCOPE.tenant, [erased]) == 0 and not past.answers_by(past.index)
    assert erased not in (await hot.as_of(SCOPE, NOW)).index
    hot.close()


async def test_an_erasure_that_nobody_heard_of_has_a_past_that_is_held_read_anew(store: Store) -> None:
    erased = store.tell(3, "a secret that is to be forgotten")
    hot = hot_of(store)
    await hot.as_of(SCOPE, NOW)
    store.erase(erased)
    assert erased not in (await hot.as_of(SCOPE, NOW)).index
    del store.versions[2]
    assert [row.scope_id for row in store.rows if row.memory_id in (await hot.as_of(SCOPE, NOW)).index] == [1]
    hot.close()


async def test_what_is_announced_is_not_read_into_a_past_before_somebody_asks(store: Store) -> None:
    hot = hot_of(store)
    await hot.as_of(SCOPE, NOW)
    store.tell(1, "and her dinghy is called Tern")

    async def announced() -> AsyncIterator[Announcement]:
        yield Announcement(SCOPE.tenant, 1, 2)
        await asyncio.sleep(30)

    keeping = asyncio.create_task(hot.keep_up(announced))
    await asyncio.sleep(0.05)
    assert len(store.asked) == 1
    keeping.cancel()
    hot.close()


async def test_a_reading_that_fails_behind_who_left_says_nothing_and_the_next_one_begins(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.breaks = True
    hot = await left_behind(store)
    with pytest.raises(StoreUnavailable):
        await hot.get(SCOPE, None)
    store.breaks = False
    assert len((await hot.get(SCOPE, None)).index) == 2
    gc.collect()
    assert not caplog.records


async def test_what_is_being_read_when_a_process_ends_ends_with_it_and_is_no_defect(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    hot, store.opens = hot_of(store), asyncio.Event()
    before = asyncio.all_tasks()
    hot.confirm(SCOPE)
    while not store.asked:
        await asyncio.sleep(0)
    begun = asyncio.all_tasks() - before
    hot.close()
    store.opens.set()
    await asyncio.wait(begun, timeout=5)
    assert begun and all(reading.cancelled() for reading in begun)
    assert not caplog.records


async def test_what_a_request_leaves_behind_is_collected_though_indexes_grow(store: Store) -> None:
    hot = hot_of(store)
    left: list[weakref.ref[Store]] = []
    for number in range(20):
        litter = Store()
        litter.rows.append(cast(IndexRow, litter))  # a cycle: only the collector ends it
        left.append(weakref.ref(litter))
        del litter
        store.tell(1, f"the boat was painted for the {number}. time")
        await hot.get(SCOPE, None, strict=True)
    gc.collect()
    assert not [one for one in left if one() is not None]


async def test_the_collector_passes_over_what_a_large_index_holds(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.read.hot.FREEZE_ROWS", 2)
    before = gc.get_freeze_count()
    await hot_of(store).get(SCOPE, None)
    assert gc.get_freeze_count() > before
    gc.unfreeze()


async def test_short_work_is_done_at_once_and_never_beside_other_work(store: Store) -> None:
    hot = hot_of(store)
    scope = await hot.get(SCOPE, None)
    loop_thread, begun, may_end = threading.get_ident(), threading.Event(), threading.Event()
    assert await hot.run_at_once(scope, threading.get_ident) == loop_thread

    def long_work() -> None:
        begun.set()
        may_end.wait()

    asker = asyncio.create_task(hot.run(long_work))
    await asyncio.sleep(0)
    assert await asyncio.to_thread(begun.wait, 5)
    asker.cancel()  # who asked has left; the work goes on
    await asyncio.wait([asker])
    waiting = asyncio.create_task(hot.run_at_once(scope, threading.get_ident))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    may_end.set()
    assert await waiting != loop_thread
    assert await hot.run_at_once(scope, threading.get_ident) == loop_thread


async def test_work_on_a_large_index_leaves_the_event_loop(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.read.hot.HERE_ITEMS_MAX", 1)
    hot = hot_of(store)
    assert await hot.run_at_once(await hot.get(SCOPE, None), threading.get_ident) != threading.get_ident()


async def test_what_the_index_does_not_follow_is_asked_for_anew_once_anything_moves(store: Store) -> None:
    hot = hot_of(store)
    held = await hot.get(SCOPE, None)
    plan, fact = (
        Quoted(row("what stands", unit(1, 0, 0, 0), 1, kind=kind), "", None) for kind in ("working", "semantic")
    )
    held.quoted = {one.row.memory_id: one for one in (plan, fact)}
    await hot.get(SCOPE, None, strict=True)
    assert set(held.quoted) == {plan.row.memory_id, fact.row.memory_id}
    store.tell(2, "the dog does not sleep")
    await hot.get(SCOPE, None, strict=True)
    assert set(held.quoted) == {fact.row.memory_id}


async def test_what_was_let_go_of_is_freed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    hot = HotScopes(store, dim=DIM, bytes_max=1 << 20, staleness_ms=1000, metrics=Metrics())
    first = weakref.ref((await hot.get(SCOPE, None)).index)
    gc.disable()  # no cycle keeps it
    try:
        monkeypatch.setattr(hot, "_bytes_max", 1)
        monkeypatch.setattr(hot, "_apply", applied)
        async with asyncio.timeout(20):
            await hot.get(Scope(new_id()), None)
            while first() is not None:  # the recall thread lets go of its work a little later
                await asyncio.sleep(0.001)
    finally:
        gc.enable()


async def applied_not(scope: Scope, hot: HotScope, batches: AsyncIterator[list[IndexRow]]) -> None:
    raise StoreUnavailable("away")


async def applied(scope: Scope, hot: HotScope, batches: AsyncIterator[list[IndexRow]]) -> None:
    async for _ in batches:
        hot.weigh()


async def test_while_many_ask_nobody_waits_for_what_is_announced(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CROWD_LASTS_S", 0.0)
    hot = hot_of(store, staleness_ms=600_000)
    held, new = await hot.get(SCOPE, None), store.tell(1, "and the dinghy Tern")
    store.opens, announced = asyncio.Event(), {1: 2}
    with crowd(hot):
        assert await hot.get(SCOPE, announced) is held is hot.fresh(SCOPE, announced)
        reading = asyncio.create_task(hot.get(SCOPE, announced, strict=True))
        while len(store.asked) < 2:
            await asyncio.sleep(0)
        assert hot.fresh(SCOPE, announced) is held, "also while it is read"
    assert hot.fresh(SCOPE, announced) is None and not reading.done()
    store.opens.set()
    assert new in (await reading).index


async def test_while_many_ask_a_confirmation_holds_no_longer_than_it_does_for_one(store: Store) -> None:
    hot = hot_of(store, staleness_ms=50)
    await hot.get(SCOPE, None)
    with crowd(hot):
        await asyncio.sleep(0.06)
        assert hot.fresh(SCOPE, {1: 2}) is None
    empty = hot_of(Store(), staleness_ms=600_000)
    await empty.get(SCOPE, None)
    with crowd(empty):
        assert empty.fresh(SCOPE, None) is None, "only the store can say that there is a scope by now"


async def test_many_are_many_for_a_while_where_their_answers_take_no_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CROWD_LASTS_S", 0.05)
    hot = hot_of(store, staleness_ms=600_000)
    held = await hot.get(SCOPE, None)
    with crowd(hot):
        pass
    assert hot.fresh(SCOPE, {1: 2}) is held
    await asyncio.sleep(0.06)
    assert hot.fresh(SCOPE, {1: 2}) is None


@pytest.mark.parametrize(("stale_s", "readings"), [(600.0, 1), (0.0, 2)])
async def test_while_many_ask_a_confirmation_is_renewed_before_it_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch, stale_s: float, readings: int
) -> None:
    monkeypatch.setattr(module, "CROWD_STALE_S", stale_s)
    hot = hot_of(store, staleness_ms=600_000)
    held = await hot.get(SCOPE, None)
    hot.confirm(SCOPE)
    await asyncio.sleep(0.02)
    assert len(store.asked) == 1, "of one who asks it holds as long as it may"
    store.tell(1, "and the dinghy Tern")
    store.opens = asyncio.Event()
    with crowd(hot):
        for _ in range(3):
            hot.confirm(SCOPE)
            await asyncio.sleep(0.01)
            assert hot.fresh(SCOPE, None) is held, "nobody waits for it"
    assert len(store.asked) == readings, "one reading at a time"
    store.opens.set()


async def test_while_many_ask_an_index_is_brought_up_to_date_now_and_then(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = hot_of(store, staleness_ms=600_000)
    await hot.get(SCOPE, None)
    heard: asyncio.Queue[Announcement] = asyncio.Queue()

    async def listen() -> AsyncIterator[Announcement]:
        while True:
            yield await heard.get()

    keeping = asyncio.create_task(hot.keep_up(listen))
    for stale_s, readings in ((600.0, 1), (0.0, 2)):
        monkeypatch.setattr(module, "CROWD_STALE_S", stale_s)
        store.tell(1, f"more after {stale_s}")
        with crowd(hot):
            heard.put_nowait(Announcement(SCOPE.tenant, 1, store.versions[1]))
            await asyncio.sleep(0.02)
            assert len(store.asked) == readings
    keeping.cancel()


class OfEach(Store):
    """Every user sees the scope of that number."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        return tuple(one for one in await super().visible_scopes(scope) if str(one.scope_id) == scope.user)


async def test_an_announcement_is_held_against_the_indexes_that_have_its_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not against the thousands that a proxy holds, for each exchange of anybody."""
    store, users = OfEach(), [replace(SCOPE, user=str(number)) for number in range(1, 21)]
    for user in users:
        store.tell(int(user.user), "the cat sleeps all day")
    hot = hot_of(store, staleness_ms=600_000)
    held = [await hot.get(user, None) for user in users]
    heard: asyncio.Queue[Announcement] = asyncio.Queue()
    looked_at: list[HotScope] = []
    real = HotScope.is_behind

    def is_behind(one: HotScope, announced: Announcement) -> bool:
        looked_at.append(one)
        return real(one, announced)

    async def listen() -> AsyncIterator[Announcement]:
        while True:
            yield await heard.get()

    monkeypatch.setattr(HotScope, "is_behind", is_behind)
    keeping = asyncio.create_task(hot.keep_up(listen))
    store.tell(7, "and at night it does not")
    heard.put_nowait(Announcement(SCOPE.tenant, 7, store.versions[7]))
    await asyncio.sleep(0.05)
    assert {id(one) for one in looked_at} == {id(held[6])} and len(held[6].index) == 2
    hot.let_go(SCOPE.tenant, [7])
    looked_at.clear()
    store.tell(7, "and again")
    heard.put_nowait(Announcement(SCOPE.tenant, 7, store.versions[7]))
    await asyncio.sleep(0.02)
    assert looked_at == []
    keeping.cancel()


async def test_what_broke_off_is_whole_again_once_nothing_of_it_is_seen(store: Store) -> None:
    hot = hot_of(store)
    store.breaks = True
    with pytest.raises(StoreUnavailable):
        await hot.get(SCOPE, None)
    store.breaks = False
    store.versions.clear()
    held = await hot.get(SCOPE, None)
    assert not held.is_read_anew and not len(held.index)
