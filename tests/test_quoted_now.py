"""What a hot scope remembers of memories that were quoted: never what was read before a change and came after it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from memory.model import Quoted
from memory.read.conversation import Conversation
from memory.read.hot import HotScope, as_stored
from memory.read.index import ScopeIndex
from memory.read.items import Filter
from memory.read.ledger import Ledgers
from memory.telemetry import Metrics
from tests.product_ledger import Store, World
from tests.test_recall import DIM, row, unit


class Held:
    """Hot scopes that hold one, fresh."""

    def __init__(self, hot: HotScope) -> None:
        self.hot = hot

    def held(self, scope: object) -> HotScope:
        return self.hot

    async def get(self, *asked: object, **more: object) -> HotScope:
        return self.hot


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
