"""Unicode's normal forms are what Unicode says, and take linear time."""

from __future__ import annotations

import unicodedata
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.text import Form, normalised

# Marks of several classes, what falls apart into marks, letters with marks, half-width marks, signs that are none.
ODD = "\u0301\u0316\u0327\u0344\u05b0\u05c1\u0f73\u0f71\u3099\uff9e\uff9f\u0345\u1ab0\u20dd ạ가😀—\u200d\ud800e"


@given(st.text(st.sampled_from(ODD), max_size=40), st.text(st.sampled_from(ODD), min_size=33, max_size=90))
def test_a_form_is_what_unicode_says_it_is(before: str, run: str) -> None:
    for form in get_args(Form):
        for text in (before + run, run + before, "".join(one for one in run if unicodedata.combining(one)) * 3):
            assert normalised(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u05b0\u05c1\u0591", "\u0301\uff9e", "\u0301\u0344\u0316"])
def test_marks_in_disorder_are_sorted_in_linear_time(marks: str) -> None:
    """The pytest time-out is the only clock: one after the other took ten seconds a form for these."""
    for form in get_args(Form):
        normalised(form, "a" + (marks * 100_000)[:100_000])
