"""Facts are merged only where they say the same, by our own pairs; what a person kept is never merged away."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.duplicate_pairs import OTHER, SAME, meant
from policies.labels import Integrity
from policies.reinforcement import (
    CONFIDENCE_MAX,
    IMPORTANCE_MAX,
    SESSIONS_MIN,
    confidence_after,
    gains,
    importance_after,
)
from policies.same_meaning import COSINE_MIN, Grounds, Meant, better, kin_of, same_meaning, sense_of

NOW = datetime(2026, 11, 22, tzinfo=UTC)
TEXTS = st.text(max_size=60)
MEANT = st.builds(Meant, TEXTS, TEXTS, TEXTS, TEXTS, st.booleans())


@pytest.mark.parametrize(("one", "other"), SAME)
def test_other_words_for_one_thing_are_the_same(one: str, other: str) -> None:
    left, right = meant(one), meant(other)
    assert same_meaning(left, right, COSINE_MIN)
    assert same_meaning(right, left, COSINE_MIN)
    assert not same_meaning(left, right, COSINE_MIN - 0.01)
    assert right.predicate in kin_of(left.predicate)
    assert left.predicate in kin_of(right.predicate)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_differs_in_a_small_word_is_never_the_same(one: str, other: str) -> None:
    assert not same_meaning(meant(one), meant(other), 1.0)
    assert not same_meaning(meant(other), meant(one), 1.0)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_of_another_subject_aspect_or_unit_is_another_thing(one: str, other: str) -> None:
    left, right = meant(one), meant(other)
    for change in ({"subject": "ann"}, {"aspect": "first"}, {"unit": "$"}, {"negated": not right.negated}):
        assert not same_meaning(left, replace(right, **change), 1.0)


@pytest.mark.parametrize("word", ["not", "never", "Ann", "7", "sometimes", "until", "without", "former", "maybe"])
@pytest.mark.parametrize(("one", "other"), SAME)
def test_a_word_more_is_another_thing(one: str, other: str, word: str) -> None:
    left, right = meant(one), meant(other)
    longer = replace(right, statement=right.statement.removesuffix(".") + f" {word}.")
    assert not same_meaning(left, longer, 1.0)


@given(MEANT, MEANT)
def test_any_text_is_compared_and_both_ways_alike(one: Meant, other: Meant) -> None:
    assert same_meaning(one, other, 1.0) == same_meaning(other, one, 1.0)
    assert one.predicate in kin_of(one.predicate)
    if sense_of(one) is not None:
        assert same_meaning(one, one, 1.0)


@pytest.mark.parametrize(("one", "other"), [("केला", "कोला"), ("เสือ", "เสื้อ"), ("দিন", "দান")])
def test_words_that_differ_in_the_signs_on_their_letters_are_two(one: str, other: str) -> None:
    left, right = (Meant("user", "likes", word, f"The user likes {word}.") for word in (one, other))
    assert not same_meaning(left, right, 1.0)
    assert same_meaning(left, replace(left), 1.0)


def test_a_huge_sentence_is_compared_with_nothing() -> None:
    huge = replace(meant(SAME[0][0]), statement="The user lives in Berlin. " * 20_000)
    assert sense_of(huge) is None


GROUNDS = st.builds(
    Grounds,
    st.uuids(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(Integrity),
    st.integers(0, 200),
    st.floats(0, 1),
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)


@given(GROUNDS, GROUNDS)
def test_of_two_one_is_better_and_nothing_that_a_person_kept_goes(one: Grounds, other: Grounds) -> None:
    answer, reverse = better(one, other), better(other, one)
    if one.memory_id != other.memory_id:
        assert (answer is None) == (reverse is None)
        assert answer is None or answer != reverse
    if answer:
        assert not other.kept
        assert not other.holds_others
    if one.kept and other.kept:
        assert answer is None


def test_the_better_evidence_is_kept() -> None:
    base = Grounds(UUID(int=1), False, False, False, Integrity.USER, 2, 0.8, NOW)
    for weaker in (
        {"sayings": 1},
        {"integrity": Integrity.IMPORTED, "sayings": 9},
        {"confidence": 0.5},
        {"said_at": NOW + timedelta(days=1)},
    ):
        assert better(base, replace(base, memory_id=UUID(int=2), **weaker))
    assert better(replace(base, memory_id=UUID(int=2), corrects=True, sayings=1), base)


# ---------------------------------------------------------------- said in many sessions


@given(st.lists(st.integers(0, 9), max_size=9), st.floats(0, 1))
def test_it_comes_to_the_same_in_how_many_nights_sessions_are_counted(nights: list[int], value: float) -> None:
    counted, by_night = 0, value
    for more in nights:
        by_night = importance_after(by_night, gains(counted + more, counted))
        counted += more
    at_once = importance_after(value, gains(counted, 0))
    assert by_night == pytest.approx(at_once)
    assert value <= by_night <= max(value, IMPORTANCE_MAX)
    assert value <= confidence_after(value, counted) <= max(value, CONFIDENCE_MAX)


def test_two_sessions_gain_nothing_and_lost_sayings_take_nothing() -> None:
    assert gains(SESSIONS_MIN - 1, 0) == 0
    assert gains(SESSIONS_MIN, 0) == 1
    assert gains(1, 9) <= 0
    assert importance_after(0.5, gains(1, 9)) == 0.5
