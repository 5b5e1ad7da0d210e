"""Newest truth: which statement goes first when a question asks for a value that was stated twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.newest import DEPTH, Statement, kinds_asked, settle, values

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
TERMS = {"deadline": 2.0, "sprint": 3.0, "first": 1.0}


def said(text: str, days: int, **changes: object) -> Statement:
    statement = Statement(
        text=text,
        speaker=("user", None),
        at=MARCH + timedelta(days=days),
        arrived=MARCH,
        session=UUID(int=1),
        seq=days,
        terms=frozenset(TERMS),
    )
    return replace(statement, **changes)  # type: ignore[arg-type]


OLD = said("The sprint deadline is April 1.", 0)
NEW = said("The sprint deadline moved to April 5.", 10)
DATES = frozenset({"date"})


def order(*statements: Statement, kinds: frozenset[str] = DATES, near: float = 0.9) -> list[int]:
    return settle(kinds, statements, TERMS, lambda one, other: near).order


def test_the_newer_value_passes_the_older_one() -> None:
    assert order(OLD, NEW) == [1, 0]
    assert order(NEW, OLD) == [0, 1]
    assert order(said("Who will test it?", 3), OLD, NEW) == [0, 2, 1]


def test_an_older_value_points_to_the_newest_that_says_otherwise() -> None:
    newest = said("The sprint deadline moved again to April 9.", 20)
    for statements, later in (([OLD, NEW, newest], {0: 2, 1: 2}), ([newest, NEW, OLD], {1: 0, 2: 0}), ([NEW], {})):
        assert settle(DATES, statements, TERMS, lambda one, other: 0.9).later == later


def test_the_newer_value_that_stands_first_stays_before_what_stands_between() -> None:
    between = said("Who will test it?", 3)
    assert order(NEW, between, OLD) == [0, 1, 2]


def test_two_words_that_half_the_world_uses_make_no_common_subject() -> None:
    weights = {"is": 0.2, "at": 0.2, "deadline": 3.0, "sprint": 3.0}
    older, newer = (replace(one, terms=frozenset({"is", "at"})) for one in (OLD, NEW))
    assert settle(DATES, [older, newer], weights, lambda one, other: 0.9).order == [0, 1]


def test_only_the_best_are_held_against_each_other() -> None:
    between = [said("Who will test it?", 3)] * (DEPTH - 2)
    assert order(OLD, *between, NEW)[:2] == [DEPTH - 1, 0]
    assert order(OLD, *between, between[0], NEW)[:2] == [0, 1]


@pytest.mark.parametrize(
    ("older", "newer", "kinds", "near"),
    [
        (OLD, said("The sprint deadline is still April 1.", 10), DATES, 0.9),  # the same value
        (OLD, said("The sprint deadline is still the 1st of April!", 10), DATES, 0.9),  # the same, written otherwise
        (OLD, said("The sprint deadline is still Apr. 1!", 10), DATES, 0.9),
        (said("We meet at 11 AM.", 0), said("We meet at 11:00 am.", 10), frozenset({"clock"}), 0.9),
        (said("My budget is $500.", 0), said("So my $500 budget.", 10), frozenset({"money"}), 0.9),
        (said("We are at 95 percent.", 0), said("We are at 95% still.", 10), frozenset({"percent"}), 0.9),
        (OLD, said("I like the sprint deadline.", 10), DATES, 0.9),  # no value
        (OLD, NEW, frozenset({"money"}), 0.9),  # another kind is asked for
        (OLD, NEW, frozenset(), 0.9),
        (OLD, NEW, DATES, 0.2),  # about something else
        (OLD, replace(NEW, terms=frozenset({"deadline"})), DATES, 0.9),  # too little in common
        (OLD, replace(NEW, speaker=("assistant", None)), DATES, 0.9),  # a model's word changes nothing
        (OLD, replace(NEW, speaker=("user", "Caroline")), DATES, 0.9),  # nor somebody else's
        (replace(OLD, speaker=("assistant", None)), replace(NEW, speaker=("assistant", None)), DATES, 0.9),
    ],
)
def test_else_the_order_stays(older: Statement, newer: Statement, kinds: frozenset[str], near: float) -> None:
    assert order(older, newer, kinds=kinds, near=near) == [0, 1]


def test_what_happened_at_one_time_is_ordered_by_arrival_then_by_its_place_in_the_session() -> None:
    same_day = replace(NEW, at=OLD.at)
    assert order(OLD, replace(same_day, arrived=MARCH + timedelta(microseconds=1))) == [1, 0]
    assert order(OLD, same_day) == [1, 0]
    assert order(OLD, replace(same_day, seq=-1)) == [0, 1]
    assert order(OLD, replace(same_day, session=UUID(int=2))) == [0, 1]  # nobody knows
    assert order(replace(OLD, at=None), replace(NEW, at=None)) == [1, 0]


@pytest.mark.parametrize("text", ["I marked 12 tasks as done", "We decided 12 cases", "The mayor saw 12 people"])
def test_a_word_that_begins_like_a_month_is_none(text: str) -> None:
    assert (values(text)["date"], values(text)["count"]) == (frozenset(), frozenset({"12"}))


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("When is the sprint deadline?", {"date", "clock"}),
        ("How many cards are in my gallery?", {"count"}),
        ("What is my accuracy percentage?", {"percent", "count", "money"}),
        ("What's our total budget for plugins?", {"money", "count", "percent"}),
        ("When is the first sprint due?", {"date", "clock"}),
        ("When was my first sprint due?", set()),
        ("What was our first budget?", set()),
        ("What is the first deadline?", set()),
        ("When did I move to Oslo?", set()),
        ("How many cards did I have before?", set()),
        ("How has my budget changed over time?", set()),
        ("Tell me a joke", set()),
        ("", set()),
    ],
)
def test_the_kinds_of_value_a_question_asks_for(query: str, kinds: set[str]) -> None:
    assert kinds_asked(query) == kinds


def test_values_are_read_by_kind_and_each_once() -> None:
    found = values("Moved to April 22 at 11 AM, 1,350 words for $6,200, 95% done, five days, utf8 v2.1")
    assert found["date"] == {"apr22"}
    assert found["clock"] == {"11am"}
    assert found["money"] == {"$6200"}
    assert found["percent"] == {"95%"}
    assert found["count"] == {"1350", "five"}


@given(st.lists(st.sampled_from([OLD, NEW, replace(NEW, at=None), said("April 9", 4)]), max_size=20), st.floats(-1, 1))
def test_every_statement_is_kept(statements: list[Statement], near: float) -> None:
    assert sorted(order(*statements, near=near)) == list(range(len(statements)))


@given(st.text(max_size=200))
def test_any_text_can_be_asked_and_read(text: str) -> None:
    assert kinds_asked(text) <= values(text).keys()
