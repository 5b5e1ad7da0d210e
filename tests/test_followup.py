"""Which questions lean on the turn before them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.read.transform import FollowUp
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


ENVIRONMENT = "<environment_details>\n# Open Tabs\nsrc/app.ts\n</environment_details>"


@pytest.mark.parametrize(
    "message",
    [
        f"What is my boat called?\n{ENVIRONMENT}",
        f"<task>\nWhat is my boat called?\n</task>\n{ENVIRONMENT}",
        "<system-reminder>\nThe list is empty.\n</system-reminder>\nWhat is my boat called?",
        "<context>\nThe minutes of March.\n</context>\nWhat is my boat called?",
        f"[attempt_completion] Result:\n\n<feedback>\nWhat is my boat called?\n</feedback>\n{ENVIRONMENT}",
    ],
    ids=["behind it", "in an element of its own", "before it", "pages", "in a tool's output"],
)
def test_a_question_is_searched_without_what_a_program_put_around_it(message: str) -> None:
    searched = FollowUp().transform(message, ())
    assert "What is my boat called?" in searched
    assert not any(word in searched for word in ("Tabs", "list", "minutes", "attempt"))


def test_a_question_leans_by_its_own_words() -> None:
    assert FollowUp().transform(f"And how old is she?\n{ENVIRONMENT}", ("My sister is Vera.",)) == (
        "My sister is Vera.\nAnd how old is she?"
    )


@pytest.mark.parametrize("message", [ENVIRONMENT, "Observation: four nodes", "<b>Halcyon</b>", "  "])
def test_a_message_without_words_of_a_person_is_searched_by_all_of_it(message: str) -> None:
    assert FollowUp().transform(message, ()) == message
