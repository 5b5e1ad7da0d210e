"""The ranking's arithmetic: what raises a candidate, what holds it back, and on what it does not depend."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.ranking import (
    CONTEXT_TERMS,
    FULL,
    INJECTED_MAX,
    LONG_REPLY_TERMS,
    OTHER_CONTEXT,
    REINFORCEMENT_HALF_LIFE_S,
    SHORT_TURN_TERMS,
    UNSPACED,
    context_weight,
    demotion,
    faded,
    fuse,
    is_unspaced,
    prior,
    reinforcement,
    rescale,
    strength,
    unaided,
    weights_for,
)

UNIT = st.floats(0, 1)


def score(dense: Any, lexical: Any, demoted: Any, speaker: Any) -> Any:
    return fuse(dense, unaided(lexical, demoted, speaker, 0.0, FULL), FULL)


@given(UNIT, UNIT, UNIT, UNIT, st.floats(0.01, 1))
def test_more_evidence_never_ranks_lower(
    dense: float, lexical: float, demoted: float, speaker: float, more: float
) -> None:
    least = score(dense, lexical, demoted, speaker)
    assert score(dense + more, lexical, demoted, speaker) > least
    assert score(dense, lexical + more, demoted, speaker) > least
    assert score(dense, lexical, demoted + more, speaker) < least
    assert score(dense, lexical, demoted, speaker + more) > least
    assert unaided(lexical, demoted, speaker, more, FULL) > unaided(lexical, demoted, speaker, 0.0, FULL)


def test_arrays_and_floats_are_fused_alike() -> None:
    dense, lexical, demoted = np.array([0.1, 0.9]), np.array([0.4, 0.2]), np.array([0.0, 1.0])
    speaker = np.array([1.0, 0.0])
    together = score(dense, lexical, demoted, speaker)
    parts = zip(dense, lexical, demoted, speaker, strict=True)
    alone = [score(float(d), float(w), float(r), float(s)) for d, w, r, s in parts]
    assert together.tolist() == pytest.approx(alone)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_a_scale_runs_from_0_to_1_and_no_spread_is_0(one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    assert rescale(low, low, high) == 0.0
    assert rescale(high, low, high) == pytest.approx(1.0 if high - low > 1e-9 else 0.0)


def test_a_persons_words_are_never_demoted_and_a_models_by_their_length() -> None:
    assert demotion("user", 10_000) == 0.0
    assert demotion("assistant", LONG_REPLY_TERMS // 2) == 0.5
    assert demotion("assistant", 10_000) == demotion("tool", 10_000) == 1.0
    assert demotion("assistant", 0) == 0.0


def test_a_question_belongs_to_its_answer() -> None:
    assert context_weight(SHORT_TURN_TERMS, "Where do you live?", CONTEXT_TERMS) == 1.0
    assert context_weight(SHORT_TURN_TERMS, "你住在哪里？", CONTEXT_TERMS) == 1.0
    assert context_weight(SHORT_TURN_TERMS, "Πού μένεις;", CONTEXT_TERMS) == 1.0
    assert context_weight(SHORT_TURN_TERMS, "Որտե՞ղ ես ապրում", CONTEXT_TERMS) == 1.0
    assert context_weight(SHORT_TURN_TERMS, "I live here.", CONTEXT_TERMS) == OTHER_CONTEXT
    assert context_weight(SHORT_TURN_TERMS, "let x = 1;", CONTEXT_TERMS) == OTHER_CONTEXT


def test_in_a_script_without_spaces_context_counts_only_where_it_asks() -> None:
    assert context_weight(SHORT_TURN_TERMS, "我住在这里。", CONTEXT_TERMS) == 0.0
    assert context_weight(SHORT_TURN_TERMS, "Where do you live?", 0) == 0.0


@pytest.mark.parametrize(
    ("text", "unspaced"),
    [("我的船叫什么", True), ("船の名前は何ですか", True), ("What is my boat called 船", False), ("내 배 이름", False)],
)
def test_a_query_in_a_script_without_spaces_is_found_by_its_letters(text: str, unspaced: bool) -> None:
    assert is_unspaced(text) is unspaced
    assert weights_for(text) == (UNSPACED if unspaced else FULL)


def test_a_script_is_told_by_most_of_the_letters_of_the_head() -> None:
    assert not is_unspaced("") and not is_unspaced("12 + 30 = ?")
    assert is_unspaced("船船, a") and is_unspaced("船船船ab 1234 !!!!") and not is_unspaced("船船ab")
    assert is_unspaced("船" * 2_000 + "a" * 9_000)


def test_a_models_words_are_not_held_back_where_they_are_asked_for() -> None:
    for query in ("How did you recommend to start?", "WHAT WERE YOUR SUGGESTIONS", "x" * 9_000 + " you told me, what?"):
        weights = weights_for(query)
        assert (weights.demotion, weights.lexical) == (0.0, FULL.lexical), query
    for query in ("How did I start?", "What did Ann recommend?", "your boat", "you told me. " + "x" * 9_000):
        assert weights_for(query) == FULL, query


def test_what_people_said_of_a_memory_moves_it_up_and_down_within_bounds() -> None:
    assert prior(0.5, "unreviewed") == prior(0.5, "rejected") == 0.0
    assert (prior(0.5, "confirmed"), prior(0.5, "disputed")) == (0.5, -0.5)
    assert (prior(1.0, "unreviewed"), prior(0.0, "unreviewed")) == (1.0, -1.0)
    assert (prior(1.0, "confirmed"), prior(0.0, "disputed")) == (1.0, -1.0)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.booleans())
def test_long_turns_and_long_context_take_less(own: int, context: int, asked: bool) -> None:
    text = "well?" if asked else "well"
    weight = context_weight(own, text, context)
    assert 0.0 <= weight <= 1.0
    assert context_weight(own + 1, text, context) <= weight
    assert weight * context <= CONTEXT_TERMS + 1e-9


def test_an_injection_reinforces_little_and_each_one_less() -> None:
    worth = [reinforcement(count, 0.0) for count in range(INJECTED_MAX + 1)]
    gains = [after - before for before, after in pairwise(worth)]
    assert [worth[0], worth[1], worth[-1]] == pytest.approx([0.0, 0.25, 1.0])
    assert gains == sorted(gains, reverse=True) and gains[-1] > 0.0


@given(st.integers(INJECTED_MAX, 10**18), st.floats(0, 1e9))
def test_the_rich_do_not_get_richer_beyond_the_cap(count: int, age_s: float) -> None:
    assert reinforcement(count, age_s) == reinforcement(INJECTED_MAX, age_s)


@given(st.integers(0, 100), st.floats(0, 1e8))
def test_reinforcement_halves_with_its_half_life(count: int, age_s: float) -> None:
    worth = reinforcement(count, age_s)
    assert 0.0 <= worth <= 1.0
    assert reinforcement(count, age_s + REINFORCEMENT_HALF_LIFE_S) == pytest.approx(worth / 2)


def test_an_injection_yet_to_come_counts_as_one_of_now() -> None:
    """Clocks of two machines differ."""
    assert reinforcement(3, -60.0) == reinforcement(3, 0.0)


def test_reinforcement_breaks_near_ties_only() -> None:
    """Less than any other part at its full, and than a tenth of what meaning and words say together."""
    others = (FULL.dense, FULL.lexical, FULL.demotion, FULL.speaker, FULL.standing, FULL.in_time, FULL.prior)
    assert min(others) >= 2 * FULL.reinforcement
    assert score(1.0, 1.0, 0.0, 0.0) >= 10 * FULL.reinforcement


def test_arrays_and_floats_fade_alike() -> None:
    counts, ages = [1, 4, 20], [0.0, 86_400.0, 1e7]
    together = faded(np.array([strength(count) for count in counts]), np.array(ages))
    assert together.tolist() == pytest.approx([reinforcement(c, a) for c, a in zip(counts, ages, strict=True)])
