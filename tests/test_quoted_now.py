"""What a hot scope remembers of memories that were quoted: never what was read before a change and came after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from memory.model import IndexRow, Quoted, Scope
from memory.read.conversation import Conversation
from memory.read.hot import HotScope, HotScopes, as_stored
from memory.read.index import ScopeIndex
from memory.read.items import Filter
from memory.read.ledger import Ledgers
from memory.telemetry import Metrics
from tests.product_ledger import Store, World
from tests.test_recall import DIM, row, unit
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

    async def index_rows(self, *asked: Any, **more: Any) -> AsyncIterator[list[IndexRow]]:
        await asyncio.sleep(self.reads_s)
        async for batch in super().index_rows(*asked, **more):
            yield batch


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
