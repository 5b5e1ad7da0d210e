"""Patterns that are tried only where their words stand find what they find without that."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import fact_introduced, fact_patterns_prose, fact_patterns_team, fact_patterns_time, fact_talk_words
from policies.fact_material import MATERIAL
from policies.fact_talk import _has_any
from policies.fact_worded import Worded, first_at, lowered, worded

INTRODUCED = (
    fact_introduced._LEAD,
    fact_introduced._ASKS_IF_RIGHT,
    fact_introduced._ON_BEHALF,
    fact_introduced._VIEW,
    fact_introduced._SAYS,
)
ALL = (*MATERIAL, *INTRODUCED, fact_patterns_prose._WRITE)


@cache
def found_by(pattern: re.Pattern[str]) -> st.SearchStrategy[str]:
    """What a pattern finds: made once, since hypothesis makes it for each draw anew once its own cache is full."""
    return st.from_regex(pattern)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.pattern.pattern[:40])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_a_pattern_finds_has_its_words(one: Worded, data: st.DataObject) -> None:
    assert one.may_find(lowered(data.draw(found_by(one.pattern))))


@pytest.mark.parametrize("kind", range(len(fact_patterns_time._COMPILED)))
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_value_is_found_has_a_digit_or_its_words(kind: int, data: st.DataObject) -> None:
    _, words, pattern = fact_patterns_time._COMPILED[kind]
    text = data.draw(found_by(pattern))

    assert re.search(r"\d", text) or any(word in lowered(text) for word in words)


@given(st.from_regex(fact_patterns_team._RUNS))
@settings(max_examples=60, deadline=None)
def test_whatever_runs_somewhere_has_a_link(text: str) -> None:
    assert fact_patterns_team._LINKS.search(text)


@pytest.mark.parametrize("opens", ["PLAYS", "ANNOUNCES"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_opens_a_play_or_announces_a_text_has_a_word_of_it(opens: str, data: st.DataObject) -> None:
    needs = {"PLAYS": fact_talk_words.OF_PLAYING, "ANNOUNCES": fact_talk_words.OF_ANNOUNCING}
    text = data.draw(found_by(getattr(fact_talk_words, opens)))

    assert _has_any(text, needs[opens])


@pytest.mark.parametrize(
    "text", ["İmagine you are", "ımagıne you are", "ſuppose", "PRETEND", "ÜBUNG:", "Übersetze", "SAY I"]
)
def test_letters_are_small_as_patterns_that_ignore_case_take_them(text: str) -> None:
    whole = re.compile("|".join(one.pattern.pattern for one in MATERIAL), re.IGNORECASE)
    found = whole.search(text)

    assert first_at(MATERIAL, text) == (found.start() if found else len(text))


def test_the_first_place_of_several_patterns_is_found() -> None:
    some = (worded(r"\bdog\b", "dog"), worded(r"\bcat: \d", "cat", ":"))

    assert first_at(some, "A cat: 1 dog") == 2
    assert first_at(some, "A cat, a DOG") == 9
    assert first_at(some, "dogma: none") == len("dogma: none")
