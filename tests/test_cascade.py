"""The cascade of tiers: what an earlier one has leaves a later one little to add, and what must stay does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model import IndexRow, Recall, Scope, ScopeId, ScopeVersion
from memory.read.hot import HotScopes
from memory.read.recall import Recaller
from memory.read.tiers import ANSWERED
from memory.telemetry import Metrics
from policies.admission import Features, Verdict
from policies.cascade import Found, Tier, Visibility, exits, tier_of
from tests.test_recall import DIM, NOW, Embedder, Store, question, row, unit

SURE, LIKELY, POOR = 0.9999, 0.99, 0.4
OWN, PROJECT = Found(Tier.CONVERSATION, True, SURE), Found(Tier.PROJECT, True, POOR)
CANDIDATES = st.builds(
    Found,
    st.sampled_from(Tier),
    st.booleans(),
    st.floats(0, 1),
    st.booleans(),
    st.none() | st.integers(0, 9),
)


@pytest.mark.parametrize(
    ("kind", "visibility", "tier"),
    [
        ("document", "own", Tier.DOCUMENTS),
        ("document", "user", Tier.DOCUMENTS),
        ("episodic", "own", Tier.CONVERSATION),
        ("semantic", "user", Tier.CONVERSATION),
        ("document", "project", Tier.PROJECT),
        ("episodic", "tenant", Tier.TENANT),
    ],
)
def test_documents_of_the_user_come_before_the_users_memory_the_projects_and_the_tenants(
    kind: str, visibility: Visibility, tier: Tier
) -> None:
    assert tier_of(kind, visibility) is tier
    assert list(Tier) == sorted(Tier)


def test_a_later_tier_adds_nothing_where_an_earlier_one_is_far_likelier() -> None:
    for first, second in zip(list(Tier)[:-1], list(Tier)[1:], strict=True):
        assert exits([replace(PROJECT, tier=second), replace(OWN, tier=first)]) == {0}
        assert exits([replace(PROJECT, tier=first), replace(OWN, tier=second)]) == set()


def test_what_is_about_as_likely_stays_though_an_earlier_tier_answers() -> None:
    """An earlier tier's best is mostly about the thing asked, not the answer: see policies/cascade.py."""
    assert exits([OWN, replace(PROJECT, probability=LIKELY)]) == set()


def test_a_standing_instruction_of_the_project_applies_though_the_users_memory_answers() -> None:
    assert exits([OWN, replace(PROJECT, standing=True), PROJECT]) == {2}


def test_a_tier_answers_for_later_tiers_and_not_for_its_own() -> None:
    unsure = replace(OWN, probability=POOR)
    assert exits([unsure, replace(PROJECT, probability=SURE), PROJECT]) == set()


def test_what_says_otherwise_than_a_statement_that_is_not_given_leaves_as_any_other() -> None:
    assert exits([OWN, replace(PROJECT, admitted=False, newer=2), PROJECT]) == {2}


def test_a_standing_instruction_answers_nothing() -> None:
    assert exits([replace(OWN, standing=True), PROJECT]) == set()


def test_the_newer_value_stays_with_the_older_and_with_it_what_is_newer_still() -> None:
    older = replace(OWN, newer=1)
    assert exits([older, replace(PROJECT, newer=2), PROJECT, OWN, PROJECT]) == {4}


def test_a_value_that_changed_later_answers_nothing() -> None:
    assert exits([replace(OWN, newer=1), replace(PROJECT, probability=LIKELY), PROJECT]) == set()


def test_what_is_not_admitted_answers_nothing_and_is_not_spoken_of() -> None:
    assert exits([replace(OWN, admitted=False), PROJECT]) == set()
    assert exits([OWN, replace(PROJECT, admitted=False)]) == set()


@given(st.lists(CANDIDATES, max_size=10), st.sampled_from(Tier))
def test_in_one_tier_nothing_changes(found: list[Found], tier: Tier) -> None:
    assert exits([replace(one, tier=tier) for one in found]) == set()


@given(st.lists(CANDIDATES, max_size=10))
def test_only_what_is_admitted_leaves_and_never_the_best_of_all(found: list[Found]) -> None:
    left = exits(found)
    admitted = {at for at, one in enumerate(found) if one.admitted}
    assert left <= admitted
    assert not admitted or max(admitted, key=lambda at: found[at].probability) not in left


# ---------------------------------------------------------------- through recall


class Shared(Store):
    """A store with the caller's own scope (1) and what the project shares (2)."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        return ScopeVersion(ScopeId(2), 1, 0, "project"), ScopeVersion(ScopeId(1), 1, 0)


def by_cosine(candidates: Sequence[Features]) -> list[Verdict]:
    """Everything is admitted; log-odds of 12 for the same direction, 0 at .5."""
    return [Verdict(True, 1 / (1 + math.exp(12 - 24 * (one.dense or 0.0))), "by cosine") for one in candidates]


NEAR, FAR = unit(1, 0.05, 0, 0), unit(1, 1.7, 0, 0)


async def why(*rows: IndexRow, bytes_max: int = 1 << 20, **changes: Any) -> dict[str, str]:
    """Ask of a store with these rows: text to why it is admitted or not, best first."""
    found = await asked(Shared(list(rows)), bytes_max, **changes)
    assert all(one.admitted == (one.why != ANSWERED) for one in found.candidates)
    return {one.content: one.why for one in found.candidates}


async def asked(store: Shared, bytes_max: int = 1 << 20, **changes: Any) -> Recall:
    metrics = Metrics()
    hot = HotScopes(store, dim=DIM, bytes_max=bytes_max, staleness_ms=1000, metrics=metrics, evaluate=by_cosine)
    recall = Recaller(hot, store, Embedder(), metrics)
    try:
        return await recall.recall(question(**changes), await recall.embed("q"), 5.0)
    finally:
        hot.close()


@pytest.mark.parametrize("how", [{}, {"bytes_max": 1}, {"as_of": NOW}], ids=["hot", "from the store", "as of"])
async def test_what_the_users_own_memory_answers_the_project_does_not_answer_again(how: dict[str, Any]) -> None:
    own, shared = row("my boat is called Halcyon", NEAR), row("boats are moored at pier 3", FAR, scope_id=2)
    assert await why(own, shared, **how) == {
        own.content: "by cosine",
        shared.content: ANSWERED,
    }


async def test_a_document_of_the_user_answers_before_what_was_said() -> None:
    said, page = row("the boat, that again", FAR), row("Registered boat: Halcyon", NEAR, kind="document")
    assert await why(said, page) == {page.content: "by cosine", said.content: ANSWERED}
    assert set((await why(said, replace(page, kind="episodic"))).values()) == {"by cosine"}


async def test_the_users_own_words_are_the_users_though_the_project_shares_the_same() -> None:
    answer = row("boats are called by name", NEAR)
    held_by = set()
    for days in (-1, 1):  # of the same words the newer stand for both
        own = row("the boat, that again", FAR)
        same = row("The boat, that again!", FAR, scope_id=2, occurred_at=NOW + timedelta(days=days))
        assert (await why(answer, same))[same.content] == ANSWERED
        found = await why(answer, own, same)
        assert list(found.values()) == ["by cosine"] * 2
        held_by |= found.keys() - {answer.content}
    assert len(held_by) == 2


async def test_a_turn_that_only_asked_the_same_answers_nothing() -> None:
    asked_before, shared = row("What is my boat called?", NEAR), row("boats are moored at pier 3", FAR, scope_id=2)
    assert await why(asked_before, shared, skip_repeats=True) == {shared.content: "by cosine"}


async def test_recall_of_one_tier_is_what_the_index_ranks() -> None:
    rows = [row(f"boat number {at}", unit(1, at / 3, 0, 0)) for at in range(9)]
    own = await asked(Shared(rows))
    shared = await asked(Shared([replace(one, scope_id=2) for one in rows]))
    assert [one.why for one in own.candidates] == ["by cosine"] * 9
    assert {one.visibility for one in shared.candidates} == {"project"}
    assert [replace(one, scope_id=1, visibility="own") for one in shared.candidates] == list(own.candidates)
