"""Which questions lean on the turn before them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.followup import leans


@pytest.mark.parametrize(
    "question",
    [
        "And how old is she?",
        "What about the second one?",
        "Why?",
        "When does it end?",
        "Where do they live?",
        "How much did that cost?",
        "so what did he say about it",
        "And in winter?",
        "What else?",
    ],
)
def test_a_continuation_leans(question: str) -> None:
    assert leans(question)


@pytest.mark.parametrize(
    "question",
    [
        "What is my boat called?",
        "How old is Ada?",
        "And where does Ada live?",
        "Tell me a joke",
        "What is that restaurant near the old harbour bridge called?",
        "Write a function that sorts a list of numbers and returns it, then explain how it works",
        "ok",
        "",
        "我上司的邮箱地址是多少来着？",
    ],
)
def test_a_question_of_its_own_does_not(question: str) -> None:
    assert not leans(question)


@given(st.text(max_size=200))
def test_any_text_is_one_or_the_other(question: str) -> None:
    assert leans(question) in (True, False)
