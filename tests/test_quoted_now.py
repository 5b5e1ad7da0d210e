"""What a hot scope remembers of memories that were quoted: never what was read before a change and came after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import numpy as np
import pytest

from memory.chain import Digest
from memory.errors import StoreUnavailable
from memory.ids import new_id
from memory.keys import KeyRing
from memory.model import Entry, IndexRow, Quoted, Scope, ScopeId, ScopeVersion, SessionRef, Shown, Withdrawn
from memory.read.conversation import CUT, GIVEN, RESTORE, WITHDRAWN, Conversation
from memory.read.entries import print_of
from memory.read.hot import HotScope, HotScopes, as_stored, item_of
from memory.read.index import ScopeIndex
from memory.read.items import Filter
from memory.read.ledger import DROPPED, REPLACES, Ledgers
from memory.telemetry import Metrics
from policies.labels import Sensitivity
from tests.product_ledger import NotHeld, Store, World
from tests.test_hot_scopes import crowd
from tests.test_key_ring import Reading
from tests.test_recall import DIM, NOW, row, unit
from tests.test_recall import Store as Rows


class Held:
    """Hot scopes that hold one, fresh."""

    def __init__(self, hot: HotScope) -> None:
        self.hot = hot

    def held(self, scope: object) -> HotScope:
        return self.hot

    def fresh(self, *asked: object) -> HotScope:
        return self.hot

    async def get(self, *asked: object, **more: object) -> HotScope:
        return self.hot


@dataclass
class Slow(Rows):
    """A store whose rows take a while."""

    reads_s: float = 0.0
    begun: int = 0

    async def index_rows(self, *asked: Any, **more: Any) -> AsyncIterator[list[IndexRow]]:
        self.begun += 1
        await asyncio.sleep(self.reads_s)
        async for batch in super().index_rows(*asked, **more):
            yield batch


class SharedSince(Store):
    """A store in which the caller sees a second scope, of which no index has heard."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        return (*await super().visible_scopes(scope), ScopeVersion(ScopeId(2), 1, 0, "tenant"))

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        found = await super().standing(tenant, scope_ids, memory_ids)
        return [one for one in found if one.row.scope_id in scope_ids]


class CaughtUp(Store):
    """A store whose answer is overtaken: meanwhile the index has caught up with a change."""

    hot: HotScope | None = None

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        read = await super().standing(tenant, scope_ids, memory_ids)
        if self.hot is not None:
            self.hot.versions = {1: 2}
        return read


@pytest.mark.parametrize("overtaken", [False, True])
async def test_what_was_overtaken_is_not_remembered(overtaken: bool) -> None:
    world, hot, store = World(), HotScope(ScopeIndex(DIM), versions={1: 1}), CaughtUp()
    store.hot = hot if overtaken else None
    plan = row("the plan", unit(1, 0, 0, 0), kind="working")
    store.rows[plan.memory_id] = plan
    ledgers = Ledgers(world.hot, store, cast(Any, Held(hot)), world.keys, Metrics(), as_stored, str)
    law = await ledgers._law(
        world.scope, cast(Conversation, SimpleNamespace(announced=None)), [plan.memory_id], Filter()
    )
    assert set(law.quoted) == {plan.memory_id}
    assert (plan.memory_id in hot.quoted) is not overtaken


async def test_what_is_erased_while_the_ledger_is_written_is_not_written_behind_it() -> None:
    world, session, before, newest = World(), SessionRef(new_id(), "s"), Digest(b"b" * 32), Digest(b"n" * 32)
    written: list[Mapping[Digest, bytes]] = []

    class Meanwhile:
        async def note(self, *asked: Any, **more: Any) -> None:
            written.append(asked[3])
            ledgers.let_go(world.scope.tenant)

    ledgers = Ledgers(Meanwhile(), world.store, cast(Any, NotHeld()), world.keys, Metrics(), as_stored, str)
    entry = Entry("<memory>Halcyon</memory>", 4, (Shown(new_id(), 1, b"said"),), "internal", new_id())
    placed: dict[Digest, Entry | None] = {newest: entry, Digest(b"o" * 32): None}
    await ledgers.note(world.scope, session, placed, {before: b"sealed"}, [], anew=True, cut=newest)
    assert written == [{before: b"sealed"}, {Digest(b"o" * 32): b"", CUT: newest}]


def late(announced: int) -> Conversation:
    """A conversation that has heard of this version of its scope."""
    return cast(Conversation, SimpleNamespace(announced={1: announced}))


async def read_once(slow: Slow) -> tuple[HotScopes, Ledgers, Scope]:
    """Hot scopes over a store, which hold what it has, and ledgers that ask them."""
    world = World()
    hot = HotScopes(slow, dim=DIM, bytes_max=1 << 20, staleness_ms=60_000, metrics=Metrics())
    await hot.get(world.scope, None)
    ledgers = Ledgers(world.hot, world.store, hot, world.keys, Metrics(), as_stored, str)
    return hot, ledgers, world.scope


async def test_a_block_is_judged_by_the_index_as_it_is_where_that_is_late() -> None:
    slow = Slow([row("my boat is called Halcyon", unit(1, 0, 0, 0))])
    hot, ledgers, scope = await read_once(slow)
    slow.version, slow.delay_s = 2, 30
    law = await asyncio.wait_for(ledgers._law(scope, late(2), [slow.rows[0].memory_id], Filter()), 5)
    assert set(law.items) == {slow.rows[0].memory_id}
    hot.close()


async def test_where_no_index_can_be_made_any_more_the_store_says_what_a_block_quotes() -> None:
    old = row("my boat is called Halcyon", unit(1, 0, 0, 0))
    slow, world = Slow([old]), World()
    hot = HotScopes(slow, dim=DIM, bytes_max=1 << 20, staleness_ms=0, metrics=Metrics())
    await hot.get(world.scope, None)
    slow.rows.append(row("of another model", np.zeros(DIM + 1, np.float32), version=2))
    slow.version, world.store.rows[old.memory_id] = 2, old
    ledgers = Ledgers(world.hot, world.store, hot, world.keys, Metrics(), as_stored, str)
    law = await ledgers._law(world.scope, late(2), [old.memory_id], Filter())
    assert set(law.quoted) == {old.memory_id}
    hot.close()


async def test_what_is_erased_while_an_index_is_confirmed_is_in_no_law() -> None:
    slow = Slow([row("my boat is called Halcyon", unit(1, 0, 0, 0))])
    hot, ledgers, scope = await read_once(slow)
    slow.version, slow.reads_s = 2, 0.03
    judging = asyncio.create_task(ledgers._law(scope, late(2), [slow.rows[0].memory_id], Filter()))
    while slow.begun < 2 and not judging.done():
        await asyncio.sleep(0)
    erased = slow.rows.pop()
    hot.let_go(scope.tenant, [1])
    law = await judging
    assert law.hot is not None and erased.memory_id not in law.hot.index
    assert (law.items, law.quoted) == ({}, {})
    hot.close()


async def test_who_gives_up_a_reading_breaks_off_no_index_that_is_brought_up_to_date() -> None:
    slow = Slow([row("my boat is called Halcyon", unit(1, 0, 0, 0))])
    hot, ledgers, scope = await read_once(slow)
    index = (await hot.get(scope, None)).index
    slow.rows.append(row("the boat was sold", unit(0, 1, 0, 0), version=2))
    slow.version, slow.reads_s = 2, 0.3
    reading = asyncio.create_task(ledgers._law(scope, late(2), [], Filter()))
    await asyncio.sleep(0.03)
    reading.cancel()
    await asyncio.wait((reading,))
    caught_up = await hot.get(scope, {1: 2})
    assert caught_up.index is index and len(index) == 2, "not read anew from its beginning"
    hot.close()


@pytest.mark.parametrize("still", [True, False])
async def test_while_many_ask_nothing_is_withdrawn_for_good_by_an_index_that_is_behind(still: bool) -> None:
    """What was placed may quote a memory as another process knows it already."""
    old = row("my boat is called Halcyon", unit(1, 0, 0, 0))
    new = replace(old, content="my boat is called Tern", version=2, changed_version=2)
    slow, world = Slow([old]), World()
    hot = HotScopes(slow, dim=DIM, bytes_max=1 << 20, staleness_ms=60_000, metrics=Metrics())
    await hot.get(world.scope, None)
    world.store.rows[old.memory_id] = new if still else replace(new, content="my boat was sold")
    ledgers = Ledgers(world.hot, world.store, hot, world.keys, Metrics(), as_stored, str)
    session, place = SessionRef(new_id(), "s"), Digest(bytes(32))
    entry = Entry("<memory>Tern</memory>", 4, (Shown(new.memory_id, 2, print_of(new.content)),), "internal", new_id())
    kept_there: dict[bytes, bytes] = {place: await ledgers.sealed(world.scope, session, entry)}
    conversation = Conversation(session, (place,), None, False, {1: 2}, False, ledger=kept_there)
    with crowd(hot):
        kept = await ledgers.kept(world.scope, conversation, {0: place}, None, Filter(), NOW)
    assert (bool(kept.blocks), bool(kept.withdrawn)) == (still, not still)
    hot.close()


async def test_a_block_of_a_scope_that_the_index_has_not_heard_of_is_not_withdrawn() -> None:
    """Another process placed it: that one confirmed its index after the scope was shared."""
    slow, world, store = Slow([row("my boat is called Halcyon", unit(1, 0, 0, 0))]), World(), SharedSince()
    hot = HotScopes(slow, dim=DIM, bytes_max=1 << 20, staleness_ms=60_000, metrics=Metrics())
    await hot.get(world.scope, None)
    shared = row("the harbour closes at ten", unit(0, 1, 0, 0), scope_id=2)
    store.rows[shared.memory_id] = shared
    ledgers = Ledgers(world.hot, store, hot, world.keys, Metrics(), as_stored, str)
    session, place = SessionRef(new_id(), "s"), Digest(bytes(32))
    entry = Entry(
        "<memory>ten</memory>", 4, (Shown(shared.memory_id, 1, print_of(shared.content)),), "internal", new_id()
    )
    kept_there: dict[bytes, bytes] = {place: await ledgers.sealed(world.scope, session, entry)}
    conversation = Conversation(session, (place,), None, False, {1: 1}, False, ledger=kept_there)
    kept = await ledgers.kept(world.scope, conversation, {0: place}, None, Filter(), NOW)
    assert set(kept.blocks) == {0} and not kept.withdrawn
    hot.close()


async def test_another_attempt_keeps_what_it_was_given_in_place_of_what_the_law_took() -> None:
    world, asked = World(), "Where does the boat lie?"
    opening = [{"role": "user", "content": asked}]
    first = await world.blocks(opening)
    world.store.rows.clear()
    world.recalled[asked] = row("It lies in Bergen.", unit(0, 1, 0, 0))
    again = await world.blocks(opening)
    assert "Bergen" in again[0] and "Bergen" not in first[0]
    went_on = [*opening, {"role": "assistant", "content": "In Bergen."}, {"role": "user", "content": "Since when?"}]
    await world.answers(went_on)
    assert (await world.blocks(went_on))[0] == again[0]


class MayBeAway(Store):
    """A store that does not say what the ledger has, while it is away."""

    away = False

    async def ledger(self, scope: Scope, session_id: UUID, chains: Sequence[bytes]) -> Mapping[bytes, bytes]:
        if self.away:
            raise StoreUnavailable("away")
        return await super().ledger(scope, session_id, chains)


@pytest.mark.parametrize("away", [False, True])
async def test_what_another_process_has_withdrawn_stays_so_when_redis_has_forgotten_it(away: bool) -> None:
    world, store = World(), MayBeAway()
    world.store = store
    world.another_process()
    opening = [{"role": "user", "content": "Where does the boat lie?"}]
    first = await world.blocks(opening)
    (place,) = (place for place, value in store.places.items() if value)
    store.places[place] = WITHDRAWN
    world.hot.ledger.clear()
    went_on = [*opening, {"role": "assistant", "content": "In Bergen."}, {"role": "user", "content": "Since when?"}]
    await world.answers(went_on)
    store.away = away
    assert (await world.blocks(went_on)).get(0) == (first[0] if away else None)


async def asking(table: Reading, world: World) -> Ledgers:
    """Ledgers of a process that knows the tenant and no key of its users, which are on their way from now on."""
    keys = KeyRing(table, bytes(32))
    await keys.chain_key(world.scope.tenant)
    table.asked.clear()
    table.arrives.clear()
    return Ledgers(world.hot, world.store, cast(Any, NotHeld()), keys, Metrics(), as_stored, str)


def quoting() -> tuple[Entry, UUID]:
    """A block, and the memory that it quotes."""
    quoted = Shown(new_id(), 1, bytes(8))
    return Entry("<memory>Halcyon</memory>", 4, (quoted,), "internal", new_id()), quoted.memory_id


async def test_a_block_that_is_let_go_of_while_it_is_read_is_not_at_hand() -> None:
    world, table, place, session = World(), Reading(), Digest(bytes(32)), SessionRef(new_id(), "s")
    world.keys = KeyRing(table, bytes(32))
    world.another_process()
    entry, memory_id = quoting()
    kept_there: dict[bytes, bytes] = {place: await world.ledgers.sealed(world.scope, session, entry)}
    conversation = Conversation(session, (place,), None, False, {}, False, ledger=kept_there)
    ledgers = await asking(table, world)
    reading = asyncio.create_task(ledgers.kept(world.scope, conversation, {0: place}, None, Filter(), NOW))
    await asyncio.wait_for(table.asked.wait(), 5)
    ledgers.let_go(world.scope.tenant)
    table.arrives.set()
    await reading
    assert ledgers.holding(world.scope.tenant, [memory_id]) == 0


async def test_a_block_that_is_let_go_of_while_it_is_noted_is_not_at_hand() -> None:
    world, table, place, session = World(), Reading(), Digest(bytes(32)), SessionRef(new_id(), "s")
    entry, memory_id = quoting()
    ledgers = await asking(table, world)
    noting = asyncio.create_task(ledgers.note(world.scope, session, {place: entry}, {}, ()))
    await asyncio.wait_for(table.asked.wait(), 5)
    ledgers.let_go(world.scope.tenant)
    table.arrives.set()
    await noting
    assert ledgers.holding(world.scope.tenant, [memory_id]) == 0


async def test_a_block_that_is_let_go_of_while_it_is_noted_is_not_said_to_redis() -> None:
    """What Redis was told before goes behind this; what the write path may keep of it is in the store."""
    world, table, session = World(), Reading(), SessionRef(new_id(), "s")
    place, bare, found, gone = (Digest(bytes([at]) * 32) for at in range(4))
    ledgers = await asking(table, world)
    said = {place: quoting()[0], bare: None}
    withdrawn = (Withdrawn(gone, "erased"),)
    noting = asyncio.create_task(ledgers.note(world.scope, session, said, {found: b"sealed"}, withdrawn))
    await asyncio.wait_for(table.asked.wait(), 5)
    ledgers.let_go(world.scope.tenant)
    table.arrives.set()
    await noting
    assert world.hot.ledger == {(session.session_id, bare): b"", (session.session_id, gone): WITHDRAWN}


class Corrected(Store):
    """A store in which each memory has taken the place of the one before it."""

    def __init__(self, *said: IndexRow) -> None:
        super().__init__(rows={one.memory_id: one for one in said})
        self.after = dict(zip([one.memory_id for one in said], [one.memory_id for one in said[1:]], strict=False))

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        found = await super().standing(tenant, scope_ids, memory_ids)
        return [replace(one, successor=self.after.get(one.row.memory_id)) for one in found]


async def owed(
    said: Sequence[IndexRow],
    holds: IndexRow,
    where: Filter,
    *,
    gone: bool = True,
    chains: Mapping[bytes, Any] | None = None,
) -> list[str]:
    """What is owed where a block quotes the first of what was said and this `holds` now; asked twice."""
    world, store = World(), Corrected(*said)
    hot = HotScope(ScopeIndex(DIM), versions={1: 1}, visibility={1: "own"}, chains=dict(chains or {}))
    for one in (holds,) if gone else (said[0], holds):
        hot.index.put(item_of(one))
    ledgers = Ledgers(world.hot, store, cast(Any, Held(hot)), world.keys, Metrics(), as_stored, str)
    session, place = SessionRef(new_id(), "s"), Digest(bytes(32))
    quoted = Shown(said[0].memory_id, 1, print_of(said[0].content))
    entry = Entry("<memory>Trondheim</memory>", 4, (quoted,), "internal", new_id())
    kept_there: dict[bytes, bytes] = {place: await ledgers.sealed(world.scope, session, entry)}
    conversation = Conversation(session, (place, None), None, False, {1: 1}, False, ledger=kept_there)
    for _ in range(2):
        kept = await ledgers.kept(world.scope, conversation, {0: place}, None, where, NOW)
    assert set(kept.blocks) == {0}
    assert all(one.replaces and one.why == REPLACES for one in kept.owed)
    return [one.content for one in kept.owed]


def lives_in(town: str, **changes: Any) -> IndexRow:
    return row(f"user lives in {town}", unit(1, 0, 0, 0), kind="semantic", **changes)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_what_was_corrected_more_than_once_between_two_turns_is_owed_as_it_holds(times: int) -> None:
    said = [lives_in(town) for town in ["Trondheim", "Bergen", "Oslo", "Molde"][: times + 1]]
    assert await owed(said, said[-1], Filter()) == [said[-1].content]


@pytest.mark.parametrize("gone", [True, False], ids=["superseded", "outdated"])
@pytest.mark.parametrize(
    ("now", "where", "given"),
    [
        ({}, Filter(ceiling=Sensitivity.INTERNAL), True),
        ({"sensitivity": "confidential"}, Filter(ceiling=Sensitivity.INTERNAL), False),
        ({"expires_at": NOW}, Filter(), False),
        ({"session_id": UUID(int=6)}, Filter(session_id=UUID(int=5)), False),
        ({"chain": Digest(bytes(32))}, Filter(), False),
    ],
    ids=["may be given", "above the ceiling", "ended", "of another conversation", "said in this prompt itself"],
)
async def test_a_correction_is_owed_to_who_may_be_given_it_and_has_not_said_it(
    now: dict[str, Any], where: Filter, given: bool, gone: bool
) -> None:
    before = lives_in("Trondheim", session_id=UUID(int=5))
    after = lives_in("Bergen", **({"session_id": UUID(int=5), "outdates": before.event_ids} | now))
    chains = {now["chain"]: (after.memory_id,)} if "chain" in now else {}
    found = await owed([before, after] if gone else [before], after, where, gone=gone, chains=chains)
    assert found == ([after.content] if given else [])


class SummedUp(Store):
    """A store that has a rolling summary of every session."""

    def __init__(self, summary: IndexRow | None) -> None:
        super().__init__()
        self.told = summary

    async def summary(self, tenant: UUID, scope_ids: Sequence[int], session_id: UUID) -> IndexRow | None:
        return self.told


@pytest.mark.parametrize(
    ("changes", "where", "given"),
    [
        ({}, Filter(), True),
        ({"sensitivity": "confidential"}, Filter(ceiling=Sensitivity.INTERNAL), False),
        ({"expires_at": NOW}, Filter(), False),
        ({}, Filter(visibilities=frozenset({"tenant"})), False),
        (None, Filter(), False),
    ],
    ids=["may be given", "above the ceiling", "ended", "of a scope that is not seen", "none"],
)
async def test_the_summary_of_what_was_dropped_is_given_to_who_may_see_it(
    changes: dict[str, Any] | None, where: Filter, given: bool
) -> None:
    summary = None if changes is None else row("they met in Bergen", unit(1, 0, 0, 0), kind="summary", **changes)
    world = World()
    ledgers = Ledgers(world.hot, SummedUp(summary), cast(Any, NotHeld()), world.keys, Metrics(), as_stored, str)
    for dropped in (True, False):
        conversation = Conversation(SessionRef(new_id(), "s"), (), None, False, {}, False, dropped=dropped)
        kept = await ledgers.kept(world.scope, conversation, {}, None, where, NOW)
        assert [one.why for one in kept.owed] == ([DROPPED] if given and dropped else [])
    told = await ledgers.summary(world.scope, conversation, where, NOW)
    assert [one.content for one in told] == (["they met in Bergen"] if given else [])


class SumsUpLate(SummedUp):
    """A store that is away, or says for ever nothing, where it is asked for a summary."""

    away: bool

    async def summary(self, tenant: UUID, scope_ids: Sequence[int], session_id: UUID) -> IndexRow | None:
        if self.away:
            raise StoreUnavailable("away")
        await asyncio.Event().wait()
        return None


@pytest.mark.parametrize("away", [True, False], ids=["away", "slow"])
async def test_what_stands_does_not_wait_for_the_summary_of_what_was_dropped(away: bool) -> None:
    world, store, hot = World(), SumsUpLate(None), HotScope(ScopeIndex(DIM), versions={1: 1}, visibility={1: "own"})
    store.away, boat = away, row("my boat is called Halcyon", unit(1, 0, 0, 0))
    hot.index.put(item_of(boat))
    ledgers = Ledgers(world.hot, store, cast(Any, Held(hot)), world.keys, Metrics(), as_stored, str)
    session, place = SessionRef(new_id(), "s"), Digest(bytes(32))
    quoted = Shown(boat.memory_id, 1, print_of(boat.content))
    entry = Entry("<memory>Halcyon</memory>", 4, (quoted,), "internal", new_id())
    kept_there: dict[bytes, bytes] = {place: await ledgers.sealed(world.scope, session, entry)}
    conversation = Conversation(session, (place,), None, False, {}, False, ledger=kept_there, dropped=True)
    async with asyncio.timeout(5):
        kept = await ledgers.kept(world.scope, conversation, {0: place}, None, Filter(), NOW)
    assert (set(kept.blocks), kept.owed) == ({0}, ())


async def test_what_this_process_has_withdrawn_stays_so_where_redis_lost_it_and_the_store_is_behind() -> None:
    world, opening = World(), [{"role": "user", "content": "Where does the boat lie?"}]
    await world.blocks(opening)
    ((session_id, place),) = (key for key, value in world.store.places.items() if value)
    gone = (Withdrawn(Digest(place), "expired"),)
    await world.ledgers.note(world.scope, SessionRef(session_id, "s"), {}, {}, gone)
    assert world.hot.ledger[session_id, place] == WITHDRAWN
    world.hot.ledger.clear()
    went_on = [*opening, {"role": "assistant", "content": "In Bergen."}, {"role": "user", "content": "Since when?"}]
    await world.answers(went_on)
    assert 0 not in await world.blocks(went_on)


async def test_the_same_request_again_is_the_same_prompt_where_redis_has_forgotten_its_conversation() -> None:
    world, opening = World(), [{"role": "user", "content": "Where does the boat lie?"}]
    await world.blocks(opening)
    went_on = [*opening, {"role": "assistant", "content": "In Bergen."}, {"role": "user", "content": "Since when?"}]
    await world.answers(went_on)
    world.hot.answers.clear()
    world.hot.openings.clear()
    first = await world.blocks(went_on)
    world.another_process()
    world.store.places.popitem()  # the last message is not stored yet
    world.recalled.clear()  # another memory answers it now
    assert (await world.blocks(went_on), set(first)) == (first, {0, 2})


class Counts(Store):
    """A store that says how often it was asked; or is away."""

    asked, away = 0, False

    async def ledger(self, scope: Scope, session_id: UUID, chains: Sequence[bytes]) -> Mapping[bytes, bytes]:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("away")
        return await super().ledger(scope, session_id, chains)


@pytest.mark.parametrize("mark", [b"upload", b""], ids=["given", "not given"])
async def test_who_sends_only_what_is_new_has_its_documents_where_redis_has_lost_their_mark(mark: bytes) -> None:
    world, store = World(), Counts()
    world.store, session = store, SessionRef(new_id(), "s")
    world.another_process()
    if mark:
        store.places[session.session_id, GIVEN] = mark
    store.away = True
    for away in (True, False, False):
        store.away = away
        ledger = {place: value for (_, place), value in world.hot.ledger.items()}
        named = Conversation(session, (Digest(bytes(32)),), None, True, None, False, ledger=ledger, named=True)
        kept = await world.ledgers.kept(world.scope, named, {}, 0, Filter(), NOW)
        assert kept.given == (bool(mark) and not away)
        await world.ledgers.note(world.scope, session, {}, kept.found, [], anew=True)
    assert store.asked == 2, "once while it is away, and once"


@pytest.mark.parametrize("named", [True, False], ids=["newest message alone", "whole"])
@pytest.mark.parametrize("is_given", [True, False], ids=["given", "not given"])
async def test_what_was_loaded_is_given_once_where_redis_has_lost_the_mark(named: bool, is_given: bool) -> None:
    world, session, place = World(), SessionRef(new_id(), "s"), Digest(b"p" * 32)
    for has_it_at_hand in (True, False):
        if has_it_at_hand:
            await world.ledgers.mark_restore(world.scope, session.session_id, b"mark")
        else:
            world.another_process()
        world.store.places[session.session_id, RESTORE] = b"" if is_given else b"mark"
        world.hot.ledger.clear()
        places, newest = ({}, 0) if named else ({0: place}, None)
        found = Conversation(session, (place,), None, named, None, False, named=named)
        kept = await world.ledgers.kept(world.scope, found, places, newest, Filter(), NOW)
        assert kept.restore == (None if is_given else b"mark")


async def test_what_was_found_overwrites_nothing_that_was_said_since() -> None:
    world, session, place = World(), SessionRef(new_id(), "s"), Digest(bytes(32))
    await world.ledgers.mark_given(world.scope, session.session_id, b"upload")
    world.hot.ledger[session.session_id, place] = WITHDRAWN
    await world.ledgers.note(world.scope, session, {}, {GIVEN: b"", place: b"sealed"}, [], anew=True)
    assert world.hot.ledger == {(session.session_id, GIVEN): b"upload", (session.session_id, place): WITHDRAWN}
