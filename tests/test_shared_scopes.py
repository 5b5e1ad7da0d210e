"""What is shared with a project or tenant is seen by whoever may, and told; nobody else's search has it to rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import pytest

from memory.model import IndexRow, Recall, Scope, ScopeId, ScopeVersion, Vector
from memory.read.hot import HotScopes
from memory.read.items import Filter
from memory.read.recall import Question, Recaller
from memory.telemetry import Metrics
from policies.cascade import Visibility
from policies.gate import Holder
from proxy.gated import within
from tests.test_recall import DIM, NOW, SCOPE, Embedder, Store, row, unit

WHY: dict[int, Visibility] = {1: "own", 2: "user", 3: "project", 4: "tenant"}


@dataclass
class Shared(Store):
    """A store in which four scopes are visible, each for another reason."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        return tuple(ScopeVersion(ScopeId(scope_id), 1, 0, why) for scope_id, why in WHY.items())

    async def nearest(
        self, tenant: UUID, scope_ids: Sequence[int], vector: Vector, k: int, where: Filter, *, now: datetime
    ) -> list[IndexRow]:
        found = await super().nearest(tenant, scope_ids, vector, k, where, now=now)
        return [one for one in found if where.scope_ids is None or one.scope_id in where.scope_ids]


async def seen(holder: Holder, *, bytes_max: int = 10**9) -> Recall:
    texts = {
        1: "the heron nests in my own garden",
        2: "a heron nests where Ada walks to school",
        3: "for the project the heron nests are counted by boat",
        4: "everybody reports heron nests to the office in Vard",
    }
    store = Shared([row(text, unit(1, scope_id / 9, 0, 0), scope_id=scope_id) for scope_id, text in texts.items()])
    hot = HotScopes(store, dim=DIM, bytes_max=bytes_max, staleness_ms=1000, metrics=Metrics())
    recaller = Recaller(hot, store, Embedder(), Metrics())
    question = Question(SCOPE, "heron nests", 10, NOW, within(Filter(), holder))
    try:
        return await recaller.recall(question, await recaller.embed("heron nests"), 5.0)
    finally:
        hot.close()


@pytest.mark.parametrize("bytes_max", [10**9, 1], ids=["hot", "cold"])
@pytest.mark.parametrize(
    ("capabilities", "sees"),
    [
        (None, {"own", "user", "project", "tenant"}),
        ({"memory:admin"}, {"own", "user", "project", "tenant"}),
        ({"memory:read:own"}, {"own", "user"}),
        ({"memory:read:own", "memory:read:project"}, {"own", "user", "project"}),
        ({"memory:read:tenant"}, {"tenant"}),
        ({"memory:write"}, set()),
    ],
)
async def test_a_search_ranks_only_what_the_holder_may_see(
    capabilities: set[str] | None, sees: set[Visibility], bytes_max: int
) -> None:
    held = None if capabilities is None else frozenset(capabilities)
    found = await seen(Holder(SCOPE.tenant, held), bytes_max=bytes_max)
    assert {one.visibility for one in found.candidates} == sees
    assert {WHY[one.scope_id] for one in found.candidates} == sees


def test_a_filter_by_scope_is_narrowed_and_never_widened() -> None:
    seen_for: Mapping[int, Visibility] = WHY
    where = Filter(scope_ids=frozenset({1, 3}), visibilities=frozenset({"own", "tenant"}))
    assert where.among(seen_for).scope_ids == frozenset({1})
    assert Filter(visibilities=frozenset()).among(seen_for).scope_ids == frozenset()
    assert Filter().among(seen_for).scope_ids is None
