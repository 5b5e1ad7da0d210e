"""The language of each turn is detected, and its words are found in every inflection; English stays as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.adapters import language as language_module
from memory.adapters.language import CHARS_READ, LanguageModel
from memory.chain import Digest
from memory.errors import ModelFileInvalid
from memory.model import Candidate
from memory.read.candidates import candidate_of
from memory.read.extract import SentenceCompressor
from memory.read.index import ScopeIndex
from memory.read.items import Filter, IndexItem
from memory.read.lexical import LexicalIndex, query_terms, tokenise, weigh
from memory.read.stems import SNOWBALL, stem_in
from memory.write.turns import Message, turn_of
from policies.redaction import Redacted
from proxy.prompt import Rules
from tests.test_scope_index import ask, index_of, item, unit

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
# What is said, the question in another inflection, and another thing said in that language.
SPOKEN = {
    "de": ("Ich habe den Schlüsseln einen Anhänger gekauft.", "Wo ist mein Schlüssel?", "Morgen gehen wir schwimmen."),
    "fr": (
        "J'ai oublié les vieilles clés dans la voiture.",
        "Où est ma clé ?",
        "Nous avons mangé une bonne tarte hier soir.",
    ),
    "es": (
        "Mis canciones favoritas son las de Mercedes Sosa.",
        "¿Cuál es mi canción favorita?",
        "El domingo vamos a la playa con los niños.",
    ),
    "ru": ("Я оставил ключи в синей вазе на кухне.", "Где мой ключ?", "Завтра мы поедем на дачу к бабушке."),
}


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel()


# ---------------------------------------------------------------- which language it is


@pytest.mark.parametrize("code", SPOKEN)
def test_a_sentence_has_its_language(model: LanguageModel, code: str) -> None:
    assert [model.detect(text) for text in SPOKEN[code]] == [code] * 3


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("My dog is called Bello", "en"),
        ("我在上海工作", "zh"),
        ("こんにちは、元気ですか", "ja"),
        ("Mein Hund\nheißt\r\nBello\x00", "de"),
        ("Das steht in https://example.com/a/very/long/path?of=words und sonst nirgends.", "de"),
        ("Was macht dieser Code?\n```python\nfor name in names:\n    print('hello', name)\n```", "de"),
    ],
)
def test_what_is_no_speech_does_not_decide(model: LanguageModel, text: str, code: str) -> None:
    assert model.detect(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "", " \n ", "ok", "OK!", "thanks", "yes", "42", "🎉", "\x00", "\ud800", "https://example.com/guten/morgen",
        "def f(x): return x + 1", '{"a": 1, "b": [1, 2]}', "SELECT * FROM t WHERE a = 1", "git commit -m 'fix'",
        "aGVsbG8gd29ybGQ=", "```\nfor i in range(10):\n    print(i)\n```",
    ],
)  # fmt: skip
def test_what_could_be_any_language_is_none(model: LanguageModel, text: str) -> None:
    assert model.detect(text) is None


def test_only_the_head_of_a_text_is_read(model: LanguageModel) -> None:
    german = "Wir fahren am Wochenende mit dem Zug nach Hamburg. " * (CHARS_READ // 40)
    assert model.detect(german + "We leave on Friday morning, and we come back late. " * 1_000) == "de"


@settings(max_examples=200)
@given(text=st.text())
def test_any_text_has_a_language_or_none(model: LanguageModel, text: str) -> None:
    found = model.detect(text)
    assert found is None or (found.isalpha() and 2 <= len(found) <= 3)


def test_a_missing_or_altered_model_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_module, "_PACKAGE", "no_such_package")
    with pytest.raises(ModelFileInvalid, match="no-such-package"):
        LanguageModel()
    monkeypatch.setattr(language_module, "_PACKAGE", "tests")
    monkeypatch.setattr(language_module, "_FILE", Path(__file__).name)
    with pytest.raises(ModelFileInvalid, match="expected sha256"):
        LanguageModel()


class _Cuts:
    """A redactor that cuts one word."""

    def redact(self, text: str) -> Redacted:
        return Redacted(text.replace("geheim", "[cut]"), ())


class _Counts:
    exact = False

    def count(self, text: str) -> int:
        return len(text)


class _Short:
    """A router that shows 60 characters of everything."""

    def excerpt_chars(self, candidate: Candidate, place: int, terms: Mapping[str, float]) -> int | None:
        return 60


class _Heard:
    """A detector that notes what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def detect(self, text: str) -> str | None:
        self.texts.append(text)
        return "de"


def test_the_redacted_text_decides_the_language_of_a_turn() -> None:
    heard = _Heard()
    message = Message(Digest(b"c" * 32), None, 0, {"role": "user", "content": "das ist geheim"}, NOW)
    made = turn_of(message, UUID(int=1), model=None, redactor=_Cuts(), counter=_Counts(), languages=heard)
    assert (made.language, heard.texts) == ("de", ["das ist [cut]"])


# ---------------------------------------------------------------- how its words are found


@pytest.mark.parametrize("code", SPOKEN)
def test_another_inflection_is_found(model: LanguageModel, code: str) -> None:
    said, question, other = SPOKEN[code]
    made = [item(text, text, language=model.detect(text), occurred_at=None) for text in (other, said)]
    hits = index_of(*made).search(question, None, 2, now=NOW, where=Filter())
    assert hits[0].item.content == said
    assert hits[0].features.coverage > hits[1].features.coverage


@pytest.mark.parametrize(
    ("language", "family"),
    [
        ("de", ("Schlüssel", "SCHLÜSSELN", "Schluesseln", "Schlu\u0308ssels")),
        ("fr", ("clé", "clés", "CLES", "cle")),
        ("es", ("canción", "canciones", "cancion", "CANCIÓN")),
        ("ru", ("ключ", "ключи", "КЛЮЧАМИ", "ключей")),
        ("tr", ("İstanbul", "istanbul")),
    ],
)
def test_inflections_case_and_accents_meet_in_one_stem(language: str, family: Sequence[str]) -> None:
    assert len({tuple(tokenise(word, language)) for word in family}) == 1


@pytest.mark.parametrize("language", [None, "en", "zh", "ja", "hi", "yue", "sw"])
@given(text=st.text())
def test_without_rules_for_it_a_language_is_treated_as_before(language: str | None, text: str) -> None:
    assert tokenise(text, language) == tokenise(text)


@given(st.text(), st.sampled_from(sorted(SNOWBALL)))
def test_every_language_has_rules_that_take_any_text(text: str, language: str) -> None:
    assert all(term and len(term) <= 2 * 64 for term in tokenise(text, language))
    assert stem_in("x", language) == "x"


def test_cjk_in_a_german_text_stays_single_characters_and_pairs() -> None:
    assert tokenise("Mein iPhone手机 ist weg", "de") == ["mein", "iphon", "手", "机", "手机", "ist", "weg"]


def test_english_words_are_found_as_before_beside_another_language() -> None:
    english = [item(f"e{n}", text) for n, text in enumerate(["The keys were hanging there", "She plays chess"])]
    german = item("g", "Die Schlüssel hängen dort", language="de")
    alone, mixed = index_of(*english), index_of(*english, german)
    for question in ("where did the key hang?", "chess players", "was she playing?"):
        assert ask(mixed, question)[0] == ask(alone, question)[0]
        assert mixed.prepare(question, now=NOW, where=Filter()).terms.keys() == query_terms(question)


def test_a_mixed_scope_answers_in_both_languages() -> None:
    index = index_of(
        item("keys", "The keys were hanging by the door", language="en"),
        item("chess", "She was playing chess all night", language="en"),
        item("schluessel", "Ich habe die Schlüssel verlegt", language="de"),
        item("schach", "Wir spielten die ganze Nacht Schach", language="de"),
        item("ok", "ok"),
    )
    assert ask(index, "where is my key?")[0] == "keys"
    assert ask(index, "Wo sind meine Schlüsseln?")[0] == "schluessel"
    assert ask(index, "wer spielt Schach?")[0] == "schach"


@pytest.mark.parametrize(
    ("language", "chatter", "answer", "asked"),
    [
        (
            "de",
            "Es war wieder viel los und das Wetter blieb grau. ",
            "Oma gibt den Kätzchen Lachs.",
            "Was mag das Kätzchen?",
        ),
        ("de", "Es war wieder viel los und das Wetter blieb grau. ", "Sie schenkte mir zwei Bücher.", "Welches Buch?"),
        ("fr", "La journée était longue et le temps restait gris. ", "Mes chevaux mangent du foin.", "Et le cheval ?"),
        ("ru", "День был длинным и погода оставалась серой. ", "Ключи лежат в синей вазе.", "Где мой ключ?"),
    ],
)
def test_an_excerpt_has_the_sentence_that_answers_in_another_inflection(
    language: str, chatter: str, answer: str, asked: str
) -> None:
    long_turn = item("long", chatter * 5 + answer + " " + chatter * 5, language=language)
    index = index_of(long_turn, item("other", chatter, language=language))
    prepared = index.prepare(asked, now=NOW, where=Filter())
    found = replace(candidate_of(index.rank(prepared, None, 1)[0]), admitted=True)
    rules = Rules({"episodes": 1}, _Counts(), _Short(), SentenceCompressor())
    assert answer in rules.block([found], prepared.told, 10_000).text


def test_a_word_counts_once_whatever_its_forms() -> None:
    """ "Schlüssel" and "Schlüsseln" are two English terms and one German stem."""
    index = index_of(
        item("de", "die Schlüssel", language="de"), item("en", "Schlüsseln is German for keys", language="en")
    )
    prepared = index.prepare("Schlüssel Schlüsseln", now=NOW, where=Filter())
    assert set(prepared.terms) == {"schlussel"}
    found = {hit.item.source_ids[0]: hit for hit in index.search("Schlüsseln", None, 2, now=NOW, where=Filter())}
    assert {name: hit.features.coverage for name, hit in found.items()} == pytest.approx({"de": 1.0, "en": 1.0})


def test_english_stopwords_weigh_nothing_where_little_is_said_in_another_language() -> None:
    english = [item(f"e{n}", f"number {n} of the list") for n in range(5)]
    index = index_of(*english, item("de", "was war das", language="de"))
    assert set(index.prepare("what was number", now=NOW, where=Filter()).terms) == {"number"}
    french = index_of(item("but", "Le but est clair", language="fr"), item("mer", "La mer est belle", language="fr"))
    assert ask(french, "le but")[0] == "but"


def test_a_query_reads_head_and_tail_in_every_language() -> None:
    index = index_of(item("de", "Schlüssel und Türen", language="de"))
    query = "Schlüsseln " + "x " * 60_000 + " Tür"
    assert {"schlusseln", "tur"} <= set(index.prepare(query, now=NOW, where=Filter()).terms)


# ---------------------------------------------------------------- its history does not matter

WORDS = st.lists(st.sampled_from(["Schlüssel", "Schlüsseln", "keys", "was", "clés", "but", "7", "上海"]), max_size=5)
LANGUAGES = st.sampled_from([None, "en", "de", "fr", "zh"])
STEPS = st.lists(st.tuples(st.integers(0, 5), WORDS, LANGUAGES, st.booleans()), max_size=20)


@settings(max_examples=150, deadline=None)
@given(STEPS, WORDS)
def test_an_index_kept_up_to_date_equals_one_built_anew(
    steps: list[tuple[int, list[str], str | None, bool]], query: list[str]
) -> None:
    kept, held = ScopeIndex(8), dict[int, IndexItem]()
    for number, words, language, stays in steps:
        made = item(str(number), " ".join(words) or "-", language=language, vectors=unit(number)[None, :])
        held.pop(number, None)
        if stays:
            kept.put(made)
            held[number] = made
        else:
            kept.remove(made.memory_id)
    fresh = index_of(*held.values())
    prepared = [one.prepare(" ".join(query), now=NOW, where=Filter()) for one in (kept, fresh)]
    assert prepared[0].terms == pytest.approx(prepared[1].terms) and prepared[0].forms == prepared[1].forms
    found = [one.search(" ".join(query), unit(3), 9, now=NOW, where=Filter()) for one in (kept, fresh)]
    described = [[(h.item.source_ids, round(h.score, 4), h.features.coverage) for h in hits] for hits in found]
    assert [one[:2] for one in described[0]] == [one[:2] for one in described[1]]
    assert [one[2] for one in described[0]] == pytest.approx([one[2] for one in described[1]])


@given(st.lists(st.tuples(WORDS, LANGUAGES), max_size=6), WORDS)
def test_the_forms_of_a_word_score_like_one_term_that_has_the_postings_of_all(
    texts: list[tuple[list[str], str | None]], query: list[str]
) -> None:
    index, units = LexicalIndex(), len(texts)
    for unit_number, (words, language) in enumerate(texts):
        index.put(unit_number, weigh(tokenise(" ".join(words), language)), language)
    asked = index.asked(" ".join(query))
    of_form = {form: term for term, others in asked.items() for form in (term, *others)}
    renamed = LexicalIndex()
    for unit_number, (words, language) in enumerate(texts):
        renamed.put(unit_number, weigh(of_form.get(term, term) for term in tokenise(" ".join(words), language)))
    weights = index.weights(asked, asked)
    assert weights == pytest.approx(renamed.weights(asked))
    (scores, held), (of_renamed, held_renamed) = index.score(weights, units, asked), renamed.score(weights, units)
    assert scores.tolist() == pytest.approx(of_renamed.tolist(), abs=1e-5)
    assert held.tolist() == held_renamed.tolist()


def test_an_item_that_changes_its_language_leaves_nothing_behind() -> None:
    german = item("one", "die Schlüsseln", language="de")
    index = index_of(german)
    index.put(replace(german, content="the keys are here", language="en", windows=((0, 17),)))
    assert index.prepare("Schlüssel", now=NOW, where=Filter()).forms == {}
