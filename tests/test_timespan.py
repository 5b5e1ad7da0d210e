"""When a question speaks of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.timespan import Span, asked_span, asks_what_was, names_time

NOW = datetime(2026, 11, 18, 15, 30, tzinfo=UTC)  # a Wednesday
LAST = datetime(2026, 10, 5, 9, 0, tzinfo=UTC)


def days(start: str, count: int) -> Span:
    first = datetime.fromisoformat(start).replace(tzinfo=UTC)
    return Span(first, first + timedelta(days=count))


@pytest.mark.parametrize(
    ("query", "span"),
    [
        ("What did Nate do on 25 May, 2022?", days("2022-05-25", 1)),
        ("What did Nate do on May 25th, 2022?", days("2022-05-25", 1)),
        ("What happened on 2022-05-25?", days("2022-05-25", 1)),
        ("Which film in September 2022?", days("2022-09-01", 30)),
        ("Which film in December of 2022?", days("2022-12-01", 31)),
        ("What did I plan for April 20?", days("2026-04-20", 1)),
        ("What did I plan for 20 December?", days("2025-12-20", 1)),
        ("What did we do in October?", days("2026-10-01", 31)),
        ("What did we do last December?", days("2025-12-01", 31)),
        ("Where was I in 2019?", days("2019-01-01", 365)),
        ("on 31 June 2022", days("2022-06-01", 30)),
        ("What did I eat yesterday?", days("2026-11-17", 1)),
        ("What did I say this morning?", days("2026-11-18", 1)),
        ("What did I buy last week?", days("2026-11-09", 7)),
        ("Where was I last weekend?", days("2026-11-14", 2)),
        ("What changed this month?", days("2026-11-01", 30)),
        ("What changed last month?", days("2026-10-01", 31)),
        ("And last year?", days("2025-01-01", 365)),
        ("Who called three days ago?", days("2026-11-15", 1)),
        ("Who called a couple of months ago?", days("2026-09-01", 30)),
        ("What was due on Tuesday?", days("2026-11-17", 1)),
        ("Who came last Wednesday?", days("2026-11-11", 1)),
        ("What did we do on 29 February?", days("2024-02-29", 1)),
        ("What did we talk about last time?", Span(LAST - timedelta(days=1), LAST + timedelta(days=1))),
    ],
)
def test_a_time_is_understood(query: str, span: Span) -> None:
    assert asked_span(query, NOW, LAST) == span


@pytest.mark.parametrize(
    "query",
    ["What is my boat called?", "May I ask you something?", "99999 months ago", "", "2022-13-45", "on 31 June"],
)
def test_what_names_no_time_names_none(query: str) -> None:
    assert asked_span(query, NOW, LAST) is None


@given(st.text(alphabet="0123456789 agodyswekmonthlastjune-,", max_size=40))
def test_any_words_give_a_span_or_none(query: str) -> None:
    span = asked_span(query, NOW, LAST)
    assert span is None or span.start < span.end


@pytest.mark.parametrize(
    "query", ["What did I say yesterday?", "What happened last week?", "What did we discuss last time?"]
)
def test_what_was_is_asked(query: str) -> None:
    assert asks_what_was(query)


@pytest.mark.parametrize("query", ["How are you today?", "What is the weather today?", "Who won last week?", ""])
def test_what_is_the_worlds_is_not(query: str) -> None:
    assert not asks_what_was(query)


@given(
    st.lists(
        st.sampled_from("what did on in last past 5 May 2024 Feb 29 31st June week days ago a today lately".split()),  # noqa: SIM905
        max_size=8,
    )
)
def test_a_question_has_a_span_only_where_it_may_name_a_time(words: list[str]) -> None:
    query = " ".join(words)
    for last in (LAST, datetime(2024, 2, 29, tzinfo=UTC)):
        assert names_time(query) or asked_span(query, NOW, last) is None
