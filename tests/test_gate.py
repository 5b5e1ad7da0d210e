"""The gate: what is not allowed is refused, for every holder and every item."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import CapabilityMissing, NotFound
from memory.model import Candidate, Recall, Scope
from memory.read.items import Filter
from memory.stored import Label
from policies.capabilities import CAPABILITIES, allows
from policies.cascade import Visibility
from policies.gate import Holder, Item, filter_erase, filter_read, filter_write, visibilities
from policies.labels import Sensitivity, within_ceiling
from proxy.api.retrievals import Retrievals, Texts
from proxy.gated import holder_of, let_through, require_writable, within
from proxy.identity import Credential
from tests.test_rebuild import RECORD

TENANT, OTHER, SESSION = UUID(int=1), UUID(int=2), UUID(int=3)
NOW = datetime(2026, 11, 21, tzinfo=UTC)
NEEDS: dict[Visibility, str] = {
    "own": "memory:read:own",
    "user": "memory:read:own",
    "project": "memory:read:project",
    "tenant": "memory:read:tenant",
}
held = st.frozensets(st.sampled_from(list(CAPABILITIES)), max_size=5)
levels = st.sampled_from(list(Sensitivity))
holders = st.builds(
    Holder,
    tenant=st.just(TENANT),
    capabilities=held,
    ceiling=st.none() | levels,
    session_id=st.sampled_from([None, SESSION]),
)
items = st.builds(
    Item,
    tenant=st.sampled_from([TENANT, OTHER]),
    sensitivity=levels,
    visibility=st.sampled_from(list(NEEDS)),
    session_id=st.sampled_from([None, SESSION, UUID(int=4)]),
)


@given(holders, items)
def test_what_leaves_is_ours_allowed_cleared_and_of_the_task(holder: Holder, item: Item) -> None:
    verdict = filter_read(holder, item)
    assert verdict.allowed == (
        item.tenant == holder.tenant
        and allows(holder.capabilities or (), NEEDS[item.visibility])
        and (holder.ceiling is None or within_ceiling(item.sensitivity, holder.ceiling))
        and holder.session_id in (None, item.session_id)
    )
    assert (verdict.why is None) == verdict.allowed
    assert (verdict.crosses is not None) == (item.visibility in ("project", "tenant"))


@pytest.mark.parametrize("visibility", list(NEEDS))
def test_what_is_written_could_be_seen_may_be_shared_and_is_not_lowered(visibility: Visibility) -> None:
    shares = "memory:share:project", "memory:share:tenant"
    writers = [("memory:write",), ("memory:write", shares[0]), ("memory:write", shares[1])]
    after: list[Sensitivity | None] = [None, *Sensitivity]
    ways = itertools.product([(), shares, *writers, ("memory:admin",)], after, [None, SESSION], after, Sensitivity)
    for held, ceiling, session, becomes, before in ways:
        holder = Holder(TENANT, frozenset(held), ceiling, session)
        item = Item(TENANT, before, visibility, SESSION)
        cleared = ceiling is None or before.rank <= ceiling.rank
        shared = visibility not in ("project", "tenant") or allows(held, f"memory:share:{visibility}")
        lowered = becomes is not None and becomes.rank < before.rank and "memory:admin" not in held
        verdict = filter_write(holder, item, becomes)
        assert verdict.allowed == (allows(held, "memory:write") and cleared and shared and not lowered)
        assert (verdict.why == "lowering") == (allows(held, "memory:write") and cleared and shared and lowered)
        assert not filter_write(holder, replace(item, tenant=OTHER), becomes).allowed
        assert session is None or not filter_write(holder, replace(item, session_id=UUID(int=4)), becomes).allowed
        assert filter_erase(holder, item).allowed == (allows(held, "memory:erase") and cleared)


def test_what_may_not_be_lowered_is_refused_by_name_and_what_may_not_be_seen_looks_like_nothing() -> None:
    holder = Holder(TENANT, frozenset({"memory:write"}), Sensitivity.CONFIDENTIAL)
    confidential = Item(TENANT, Sensitivity.CONFIDENTIAL)
    require_writable(holder, confidential, "memory", Sensitivity.SECRET)
    with pytest.raises(CapabilityMissing, match="takes memory:admin"):
        require_writable(holder, confidential, "memory", Sensitivity.PUBLIC)
    with pytest.raises(CapabilityMissing, match="may not change this memory"):
        require_writable(holder, replace(confidential, visibility="project"), "memory")
    with pytest.raises(NotFound):
        require_writable(holder, replace(confidential, sensitivity=Sensitivity.SECRET), "memory")


@given(holders, items)
def test_the_filter_before_ranking_lets_through_what_the_gate_does(holder: Holder, item: Item) -> None:
    where = within(Filter(), holder)
    passes = (
        item.visibility in (where.visibilities or ())
        and (where.ceiling is None or within_ceiling(item.sensitivity, where.ceiling))
        and where.session_id in (None, item.session_id)
    )
    assert (passes and item.tenant == holder.tenant) == filter_read(holder, item).allowed


@given(holders)
def test_a_filter_is_never_widened(holder: Holder) -> None:
    asked = within(Filter(ceiling=Sensitivity.PUBLIC), holder)
    assert asked.ceiling is Sensitivity.PUBLIC
    assert visibilities(holder) == (asked.visibilities or frozenset())


def test_open_mode_is_asked_nothing() -> None:
    where = Filter()
    holder = holder_of(Credential(TENANT))
    assert within(where, holder) is where
    secret = Item(TENANT, Sensitivity.SECRET, "tenant")
    assert filter_read(holder, secret).allowed and filter_write(holder, secret, Sensitivity.PUBLIC).allowed


def candidate(sensitivity: str, visibility: Visibility, *, admitted: bool = True) -> Candidate:
    return Candidate(
        uuid4(), 1, "semantic", "user", "x", (0, 1), 1.0, {}, admitted, None, None, 0, 1, "user", (), (),
        sensitivity=sensitivity, visibility=visibility,
    )  # fmt: skip


def test_what_was_found_and_may_not_leave_does_not() -> None:
    who = Credential(TENANT, UUID(int=9), capabilities=frozenset(NEEDS.values()), ceiling=Sensitivity.INTERNAL)
    own, shared = candidate("internal", "own"), candidate("public", "project")
    considered, too_high = candidate("public", "tenant", admitted=False), candidate("secret", "tenant")
    kept = let_through(Recall((own, shared, considered, too_high)), holder_of(who))
    assert kept.candidates == (own, shared, considered)


class Labelled:
    """Records that know these labels."""

    def __init__(self, labels: dict[UUID, Label], *turns: str) -> None:
        self.labels, self.turns = labels, turns

    async def session_labels(self, scope: Scope, session_id: UUID) -> tuple[str, ...]:
        return self.turns

    async def memory_labels(self, scope: Scope, memory_ids: Sequence[UUID]) -> dict[UUID, Label]:
        return {one: self.labels[one] for one in memory_ids if one in self.labels}


@pytest.mark.parametrize(
    ("quoted", "seen"),
    [
        (Label(Sensitivity.INTERNAL, "own"), True),
        (Label(Sensitivity.CONFIDENTIAL, "own"), False),
        (Label(Sensitivity.INTERNAL, "tenant"), False),
        (None, False),
    ],
    ids=["own", "above the ceiling", "of a scope that is not seen", "gone"],
)
async def test_a_block_of_an_earlier_turn_is_shown_to_who_may_see_what_it_quotes(
    quoted: Label | None, seen: bool
) -> None:
    """What stands since an earlier turn is no candidate of this one."""
    found, stood = UUID(int=7 << 100), UUID(int=8 << 100)
    labels = {found: Label(Sensitivity.INTERNAL, "own"), **({stood: quoted} if quoted else {})}
    placements = [{"position": 0, "tokens": 1, "memory_ids": [str(stood)], "since": "x"}]
    record = replace(RECORD, candidates=[{"id": str(found), "kind": "semantic"}], placements=placements)
    retrievals = Retrievals(cast(Any, SimpleNamespace(records=Labelled(labels))), cast(Any, None))
    holder = Holder(UUID(int=1), frozenset({"memory:read:own"}), Sensitivity.INTERNAL)
    texts = Texts("available", "q", ("<memory>quoted</memory>",))
    kept, told = await retrievals.let_through(Scope(UUID(int=1)), holder, record, texts)
    assert [one["id"] for one in kept.candidates] == [str(found)]
    assert (bool(kept.placements), bool(told.blocks)) == (seen, seen)


@pytest.mark.parametrize(("label", "query"), [("internal", "q"), ("confidential", None)])
async def test_a_question_is_shown_to_who_may_see_its_conversation(label: str, query: str | None) -> None:
    retrievals = Retrievals(cast(Any, SimpleNamespace(records=Labelled({}, "internal", label))), cast(Any, None))
    holder = Holder(UUID(int=1), frozenset({"memory:read:own"}), Sensitivity.INTERNAL)
    _, told = await retrievals.let_through(Scope(UUID(int=1)), holder, RECORD, Texts("available", "q"))
    assert told.query == query
