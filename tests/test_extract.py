"""The sentences of a long text that matter for a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.read.extract import SentenceCompressor
from memory.read.lexical import query_terms
from policies.sentences import sentence_spans

compress = SentenceCompressor().compress


def terms(question: str) -> dict[str, float]:
    return dict.fromkeys(query_terms(question), 1.0)


CHATTER = "It was a long day and nothing much happened to anybody. "


def test_the_sentence_that_answers_is_kept_and_what_is_left_out_is_marked() -> None:
    text = CHATTER * 6 + "The ferry to Skye leaves at noon. " + CHATTER * 6
    short = compress(text, (0, len(text)), terms("When does the ferry leave?"), 120)
    assert "The ferry to Skye leaves at noon." in short
    assert len(short) <= 120 + 4
    assert short.startswith("… ")
    assert short.endswith(" …")


@pytest.mark.parametrize("word", ["กี่", "कि", "é".replace("é", "e\u0301"), "👩\u200d💻", "👍🏽"])
def test_what_is_cut_parts_no_letter_from_its_signs(word: str) -> None:
    text = word * 400
    for chars in range(100, 100 + len(word)):
        short = compress(text, (0, len(text)), {}, chars).strip("… ")
        assert short and len(short) % len(word) == 0
    for start, end in sentence_spans(text):
        assert start % len(word) == end % len(word) == 0


@pytest.mark.parametrize(
    ("chatter", "answer", "question"),
    [
        ("आज का दिन बहुत लंबा था और कुछ नहीं हुआ। ", "मेरी बहन दिल्ली में रहती है।", "बहन कहाँ रहती है"),
        ("کل دن بہت لمبا تھا اور کچھ نہیں ہوا۔ ", "میری بہن لاہور میں رہتی ہے۔", "بہن کہاں رہتی"),
        ("هل كان اليوم طويلا جدا ولم يحدث شيء؟ ", "أختي تسكن في القاهرة؟", "أين تسكن أختي"),
    ],
    ids=["Hindi", "Urdu", "Arabic"],
)
def test_sentences_end_as_their_script_ends_them(chatter: str, answer: str, question: str) -> None:
    text = chatter * 5 + answer + " " + chatter * 6
    short = compress(text, (0, len(text)), terms(question), 80)
    assert answer in short
    assert len(short) <= 80 + 4


def test_sentences_keep_their_order_and_neighbours_are_not_torn_apart() -> None:
    text = CHATTER * 4 + "Tea costs two pounds.\nCoffee costs three pounds.\n" + CHATTER * 4
    short = compress(text, (220, 275), terms("What does coffee cost, what does tea cost?"), 60)
    assert short == "… Tea costs two pounds.\nCoffee costs three pounds. …"


def test_one_term_said_often_does_not_crowd_out_another() -> None:
    text = "Rain again today. " * 20 + CHATTER * 3 + "My umbrella is green. " + CHATTER * 3
    short = compress(text, (0, 18), terms("umbrella rain"), 80)
    assert "umbrella" in short
    assert "Rain" in short


def test_the_best_window_is_read_wherever_it_stands() -> None:
    text = "x y. " * 40_000 + "The code is 4711. " + "x y. " * 40_000
    at = text.index("The code")
    assert "4711" in compress(text, (at, at + 18), terms("Which code?"), 120)


def test_one_endless_sentence_is_cut_at_its_window() -> None:
    text = "a " * 2_500 + "NEEDLE" + " b" * 2_500
    short = compress(text, (4_990, 5_016), {}, 120)
    assert "NEEDLE" in short
    assert len(short) <= 120 + 4


@given(st.text(max_size=600), st.integers(0, 599), st.integers(1, 300))
def test_any_text_gives_its_own_words_and_no_more(text: str, start: int, chars_max: int) -> None:
    shown = (min(start, len(text)), len(text))
    short = compress(text, shown, {}, chars_max)
    for piece in short.split("…"):
        assert piece.strip() in text or "…" in text
    assert len(short) <= 2 * chars_max + 8


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Our accountant is Mr. Peeters. We like him.", ["Our accountant is Mr. Peeters.", "We like him."]),
        ("I work at St. Mary's, e.g. on Mondays. Then home.", ["I work at St. Mary's, e.g. on Mondays.", "Then home."]),
        ("Mein Termin ist am 5. Mai. Bis dann.", ["Mein Termin ist am 5. Mai.", "Bis dann."]),
        ("I have 5. Maybe six.", ["I have 5.", "Maybe six."]),
        ("It took 5 ms. Then it ended.", ["It took 5 ms.", "Then it ended."]),
        ("Ask the Dr.\nThen go.", ["Ask the Dr.", "Then go."]),
    ],
)
def test_a_title_and_a_day_end_no_sentence(text: str, sentences: list[str]) -> None:
    """Summaries and episodes told "Our accountant is Mr." and "Mein Termin ist am 5."."""
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences
