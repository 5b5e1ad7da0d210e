"""BM25 kept in place is the BM25 of the book, whatever was put and removed before."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.read.lexical import (
    K1,
    QUERY_CHARS_MAX,
    QUERY_TERMS_MAX,
    TERM_CHARS_MAX,
    B,
    LexicalIndex,
    query_terms,
    stem,
    tokenise,
    told,
    weigh,
)

WORDS = st.sampled_from(["apple", "banana", "cat", "dog", "egg", "7", "上海", "é"])
DOCUMENTS = st.lists(st.lists(WORDS, max_size=8), max_size=12)


def reference(documents: dict[int, list[str]], query: set[str]) -> dict[int, float]:
    """BM25 as in the book, written for reading."""
    n = len(documents)
    mean = sum(map(len, documents.values())) / n if n else 1.0
    scores = {}
    for unit, words in documents.items():
        score = 0.0
        for term in query:
            df = sum(term in other for other in documents.values())
            tf = words.count(term)
            idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
            if tf:
                score += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(words) / mean))
        scores[unit] = score
    return scores


def built(documents: dict[int, list[str]]) -> LexicalIndex:
    index = LexicalIndex()
    for unit, words in documents.items():
        index.put(unit, weigh(words))
    return index


@given(DOCUMENTS, st.sets(WORDS, max_size=5))
def test_scores_are_those_of_the_book(documents: list[list[str]], query: set[str]) -> None:
    numbered = dict(enumerate(documents))
    index = built(numbered)
    scores, holds = index.score(index.weights(query), len(documents))
    expected = reference(numbered, query)
    assert scores.tolist() == pytest.approx([expected[unit] for unit in sorted(expected)], abs=1e-5)
    terms = index.weights(query)
    assert [set(told(int(bits), terms)) for bits in holds] == [query & set(words) for words in documents]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 6), st.lists(WORDS, max_size=6)), max_size=30), st.sets(WORDS, max_size=4))
def test_an_index_kept_up_to_date_equals_one_built_anew(steps: list[tuple[int, list[str]]], query: set[str]) -> None:
    kept, held = LexicalIndex(), dict[int, list[str]]()
    for unit, words in steps:
        if unit in held:
            kept.remove(unit)
            del held[unit]
        else:
            kept.put(unit, weigh(words))
            held[unit] = words
    fresh = built(held)
    assert kept.weights(query) == fresh.weights(query)
    (scores, holds), (expected, also) = (one.score(one.weights(query), 7) for one in (kept, fresh))
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert holds.tolist() == also.tolist()
    assert len(kept) == len(held)


def test_an_emptied_index_holds_no_more_than_a_new_one_but_its_room() -> None:
    index = built({0: ["apple", "cat"], 1: ["cat"]})
    index.remove(0)
    index.remove(1)
    assert index.bytes_held == LexicalIndex().bytes_held
    assert index.score({"cat": 1.0}, 2)[0].tolist() == [0.0, 0.0]


def test_a_unit_number_in_use_is_refused() -> None:
    index = built({3: ["apple"]})
    with pytest.raises(ValueError, match="in use"):
        index.put(3, {"cat": 1.0})
    with pytest.raises(KeyError):
        index.remove(4)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The cats were RUNNING, and studied happily!", ["cat", "run", "studi", "happi"]),
        ("Bootstrap 5.3.0 costs $1,250", ["bootstrap", "5", "3", "0", "cost", "1", "250"]),
        ("我在上海", ["我", "在", "上", "海", "我在", "在上", "上海"]),
        ("iPhone手机", ["iphon", "手", "机", "手机"]),
        ("ｆｕｌｌ　ｗｉｄｔｈ", ["full", "width"]),
        ("Straße ÉTÉ", ["strass", "ete"]),
        ("🎉 \x00 … !!", []),
        ("\x00nul\x00bytes", ["nul", "byte"]),
        ("\ud800lone", ["lone"]),
        ("वह जाता है, वह जाती है", ["वह", "जाता", "है", "वह", "जाती", "है"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("ป้าไป", ["ป้", "า", "ไ", "ป", "ป้า", "าไ", "ไป"]),
        ("1️⃣ ❤️", ["1"]),
    ],
)
def test_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert tokenise(text) == terms


@pytest.mark.parametrize(
    "family",
    [
        ("plan", "plans", "planned", "planning"),
        ("study", "studies", "studied"),
        ("provide", "provided", "providing", "provides"),
    ],
)
def test_inflections_meet_in_one_term(family: tuple[str, ...]) -> None:
    assert len({stem(word) for word in family}) == 1


@given(st.text())
def test_any_text_has_terms_of_bounded_length(text: str) -> None:
    assert all(0 < len(term) <= TERM_CHARS_MAX + 1 for term in tokenise(text))


def test_a_huge_query_is_read_at_its_head_and_tail_and_its_rarest_terms_count() -> None:
    index = built({unit: ["common", f"rare{unit}"] for unit in range(200)})
    query = "first " + " ".join(f"rare{n}" for n in range(150)) + " x" * 60_000 + " common last"
    terms = query_terms(query)
    assert {"first", "last", "common"} <= terms
    assert len(query) > 100_000 > QUERY_CHARS_MAX
    weights = index.weights(terms)
    assert len(weights) == QUERY_TERMS_MAX
    assert "common" not in weights


def test_context_counts_less_than_own_words() -> None:
    assert weigh(["cat", "cat"], ["cat", "dog"], 0.5) == {"cat": 2.5, "dog": 0.5}
    assert weigh(["cat"], ["dog"], 0.0) == dict(Counter(["cat"]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café CRÈME", "cafe creme"),
        ("Ångström", "angstrom"),
        ("naïve", "naive"),
        ("Żółć", "zołc"),
        ("Łódź Tromsø", "Lodz Tromso"),
        ("Isparta İzmir", "ısparta izmir"),
        ("علي في مدرسة أحمد", "علی فی مدرسه احمد"),
        ("۱۲۳ ٢٠٢٥ १२", "123 2025 12"),
        ("комп\u02bcютер", "комп'ютер"),
        ("ﬁne", "fine"),
        ("Straße", "strasse"),
        ("مُحَمَّد محـــمد", "محمد محمد"),
        ("שָׁלוֹם", "שלום"),
        ("Daten\u00adschutz", "Datenschutz"),
        ("super\u200bcali \ufefffoot\u2060ball", "supercali football"),
        ("ශ්\u200dරී", "ශ්රී"),
        ("葛\U000e0100城", "葛城"),
        ("کتاب\u200cها", "کتاب ها"),
    ],
)
def test_case_and_accents_are_folded(one: str, other: str) -> None:
    assert tokenise(one) == tokenise(other)


@pytest.mark.parametrize("text", ["がぎぐ", "한국어", "ไทยดี"])
def test_marks_that_are_letters_are_kept(text: str) -> None:
    assert "".join(term for term in tokenise(text) if len(term) == 1).startswith(text[0])
    assert tokenise("が") != tokenise("か")


def test_more_terms_than_there_are_bits_are_scored_all_the_same() -> None:
    words = [f"word{number}" for number in range(70)]
    index = built({0: words, 1: words[66:]})
    scores, holds = index.score(dict.fromkeys(words, 1.0), 2)
    assert scores[1] > 0
    assert holds.tolist() == [2**64 - 1, 0]


def test_all_units_of_all_indexes_hold_one_string_for_a_term() -> None:
    indexes = [LexicalIndex(), LexicalIndex()]
    for index in indexes:
        for unit in range(3):
            index.put(unit, weigh(tokenise("我住在北京 and I paint")))
    held = [term for index in indexes for own in index._terms.values() for term in own]
    held.extend(term for index in indexes for term in index._postings)
    assert len({id(term) for term in held}) == len(set(held)) > 5


def test_a_unit_is_found_where_the_bytes_of_others_look_like_it() -> None:
    alike = 0x3F80  # packed as the end of a weight of 1.0 and the beginning of unit 0 are
    index = built({5: ["tea"], 0: ["tea"], alike: ["tea"]})
    index.remove(alike)
    never = built({5: ["tea"], 0: ["tea"]})
    assert index.score({"tea": 1.0}, 6)[0].tolist() == never.score({"tea": 1.0}, 6)[0].tolist()
