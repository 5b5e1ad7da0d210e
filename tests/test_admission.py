"""Admission: more relevance never costs admission, and what is unrelated is not let in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import (
    FULL,
    LEXICAL_ONLY,
    SPEAKER_GAP_MIN,
    Features,
    admit,
    is_personal,
    model_for,
    probability,
)

FEATURES = st.builds(
    Features,
    dense=st.floats(-1, 1),
    dense_margin=st.floats(-5, 10),
    coverage=st.floats(0, 1),
    terms_held=st.floats(0, 4),
)


@given(st.lists(FEATURES, max_size=5))
def test_nothing_is_admitted_unless_the_best_passes_the_gate(candidates: list[Features]) -> None:
    verdicts = admit(candidates)
    assert len(verdicts) == len(candidates)
    assert all(0.0 <= verdict.probability <= 1.0 for verdict in verdicts)
    passed = max((verdict.probability for verdict in verdicts), default=0.0) >= FULL.gate
    assert [v.admitted for v in verdicts] == [passed and v.probability >= FULL.threshold for v in verdicts]


@given(FEATURES)
def test_a_weak_candidate_is_admitted_in_strong_company_only(features: Features) -> None:
    alone, strong = admit([features])[0], Features(dense=0.9, dense_margin=4.0, coverage=1.0, terms_held=2.0)
    assert admit([strong, features])[1].admitted >= alone.admitted


@given(FEATURES, st.floats(0, 1))
def test_a_nearer_candidate_is_never_less_likely(features: Features, more: float) -> None:
    assert features.dense is not None
    nearer = replace(features, dense=features.dense + more)
    assert probability(nearer, FULL.coefficients) >= probability(features, FULL.coefficients)


@given(FEATURES, st.floats(0, 1))
def test_a_candidate_that_says_more_of_the_query_is_never_less_likely(features: Features, more: float) -> None:
    fuller = replace(features, coverage=features.coverage + more)
    assert probability(fuller, FULL.coefficients) >= probability(features, FULL.coefficients)
    assert probability(fuller, LEXICAL_ONLY.coefficients) >= probability(features, LEXICAL_ONLY.coefficients)


def test_nothing_in_common_is_not_admitted() -> None:
    assert not admit([Features(dense=0.02, dense_margin=0.5, coverage=0.0, terms_held=0.0)])[0].admitted
    assert not admit([Features(dense=None, dense_margin=None, coverage=0.0, terms_held=0.0)])[0].admitted


def test_a_plain_answer_is_admitted_on_both_rungs() -> None:
    assert admit([Features(dense=0.65, dense_margin=4.0, coverage=0.8, terms_held=1.6)])[0].admitted
    assert admit([Features(dense=None, dense_margin=None, coverage=0.8, terms_held=1.6, breadth=0.8)])[0].admitted


def test_the_rung_without_an_embedder_has_its_own_coefficients() -> None:
    assert model_for(Features(None, None, 0.5, 1.0)) is LEXICAL_ONLY
    assert (LEXICAL_ONLY.coefficients.dense, LEXICAL_ONLY.coefficients.dense_margin) == (0.0, 0.0)


@given(st.lists(FEATURES, min_size=1, max_size=5), st.floats(-1, 1))
def test_what_another_said_makes_it_less_likely_and_far_below_nothing_is_given(
    candidates: list[Features], gap: float
) -> None:
    plain, shifted = admit(candidates), admit([replace(features, speaker_gap=gap) for features in candidates])
    for before, after in zip(plain, shifted, strict=True):
        assert (after.probability <= before.probability) if gap < 0 else (after.probability >= before.probability)
        assert after.admitted == (before.admitted and gap >= SPEAKER_GAP_MIN)


def test_a_few_words_of_a_long_request_are_nothing_where_there_are_no_vectors() -> None:
    scattered = Features(dense=None, dense_margin=None, coverage=0.25, terms_held=2.6, breadth=0.25)
    assert not admit([scattered])[0].admitted
    assert admit([replace(scattered, unspaced=True)])[0].admitted


@pytest.mark.parametrize(
    "question",
    [
        "Where is my home?", "Wie heißt der Hund meiner Schwester?", "Wo ist unser Büro?", "Où j'habite ?",
        "Comment s'appelle notre chat ?", "¿Dónde vivo?", "¿Cuál es nuestra dirección?", "Qual é o meu endereço?",
        "Come si chiama la mia gatta?", "Hoe heet mijn hond?", "Var bor jag?", "Jak ma na imię mój pies?",
        "Jak se jmenuje moje kočka?", "Где я живу?", "Как зовут мою собаку?", "Як звати мою сестру?",
        "Πού είναι το σπίτι μου;",
        "איפה הכלב שלי?", "मेरा घर कहाँ है?", "我住在哪里？", "私の犬の名前は何ですか？", "내 강아지 이름이 뭐야?",
        "หมาของฉันชื่ออะไร", "Tên con chó của tôi là gì?",
    ],
)  # fmt: skip
def test_a_question_about_the_askers_own_things_is_one_in_any_language(question: str) -> None:
    assert is_personal(question)


@pytest.mark.parametrize(
    "question",
    ["Tell me a joke.", "隐私政策是什么？", "What is EU law?", "Is soy milk healthy?", "in vivo or in vitro?"],
)
def test_a_question_about_nobody_is_no_personal_one(question: str) -> None:
    assert not is_personal(question)
