"""Which questions need the web: few, and never those about the asker's own affairs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.web_need import FRESH, QUESTION_CHARS_MAX, STALE_AFTER, Known, need_of, query_of

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOTHING = Known()


@pytest.mark.parametrize(
    "question",
    [
        "Search the web for the opening hours of the Louvre",
        "Could you please look up the population of Utrecht?",
        "Look it up online.",
        "Google what TLS 1.4 changes",
        "Find a recipe for pão de queijo on the internet",
        "Such bitte im Internet nach dem Fahrplan",
        "Peux-tu chercher sur internet les horaires du Louvre ?",
        "Busca en internet los horarios del Prado",
        "Busca en internet un concierto en vivo",
        "帮我上网查一下卢浮宫的开放时间",
    ],
)
def test_who_asks_for_a_search_gets_one(question: str) -> None:
    assert need_of(question, NOTHING, NOW) == "asked"


@pytest.mark.parametrize(
    "question",
    [
        "What's the weather in Oslo tomorrow?",
        "Will it rain in Paris this weekend?",
        "What is the latest news about the ECB?",
        "What's in the news?",
        "Tell me the current price of gold",
        "What is the exchange rate of the euro today?",
        "Who is the current president of France?",
        "What is the latest version of PostgreSQL?",
        "Who won the cup final yesterday?",
        "Wie wird das Wetter morgen in Köln?",
        "Was sind die neuesten Nachrichten?",
        "Wer ist der aktuelle Bundeskanzler?",
        "Quelle est la météo demain à Lyon ?",
        "Quelles sont les dernières nouvelles ?",
        "¿Quién es el actual presidente de Chile?",
        "Dime las últimas noticias",
        "今天北京的天气怎么样？",
        "请告诉我最新的新闻",
    ],
)
def test_what_is_another_each_day_is_asked_of_the_web(question: str) -> None:
    assert need_of(question, NOTHING, NOW) == "news"
    assert need_of(question, Known(web_at=NOW - FRESH / 2), NOW) is None


@pytest.mark.parametrize(
    "question",
    [
        "What's the latest version of my draft?",
        "Look up what I told you about Oslo",
        "Search the web for my medical report",
        "What was the weather like on our trip today?",
        "When is my deadline now?",
        "Who is my current manager?",
        "What did we decide about the news page today?",
        "How do I build a web search engine?",
        "Write a poem about the weather",
        "Explain how a stock price is formed",
        "What is the capital of France?",
        "Was ist mein aktuelles Projekt?",
        "Quel est mon projet actuel ?",
        "¿Cuál es mi dirección actual?",
        "Busca en internet por qué tengo fiebre y debo dinero al banco",
        "Busca en internet si soy alérgico al polen",
        "Va a llover hoy donde vivo?",
        "Quel temps fait-il chez moi aujourd'hui ?",
        "Cherche sur internet pourquoi on m'a licencié",
        "我今天的天气记录是什么？",
        "我的最新版本是哪个？",
        "",
        "   ",
        "Thanks!",
        "news",
    ],
)
def test_everything_else_stays_in_the_house(question: str) -> None:
    assert need_of(question, NOTHING, NOW) is None


def test_a_page_that_has_grown_old_is_asked_for_anew() -> None:
    asked = "Which Postgres release is current?"
    assert need_of(asked, Known(web_at=NOW - STALE_AFTER - timedelta(hours=1)), NOW) == "stale"
    assert need_of(asked, Known(web_at=NOW - STALE_AFTER + timedelta(hours=1)), NOW) is None
    assert need_of(asked, NOTHING, NOW) is None
    assert need_of("How does Postgres store rows?", Known(web_at=NOW - timedelta(days=900)), NOW) is None


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Who was Ada Lovelace?", "Lovelace"),
        ("What is Zyntrix?", "Zyntrix"),
        ("Tell me about the Treaty of Utrecht", "treaty of utrecht"),
        ("Wer ist Ada Lovelace?", "ada lovelace"),
        ("Qui est Ada Lovelace ?", "Lovelace"),
        ("¿Quién es Ada Lovelace?", "Lovelace"),
    ],
)
def test_a_name_that_nothing_found_has_is_asked_of_the_web(question: str, name: str) -> None:
    assert need_of(question, NOTHING, NOW) == "unknown"
    assert need_of(question, Known((f"We spoke of {name}.",)), NOW) is None


@pytest.mark.parametrize(
    "question", ["Who is Jill?", "What is the plan?", "What is Zyntrix and how do I set it up here?"]
)
def test_a_first_name_a_plain_thing_or_more_than_a_name_is_not(question: str) -> None:
    assert need_of(question, NOTHING, NOW) is None


def test_a_long_message_is_no_question() -> None:
    assert need_of("What's the weather in Oslo today? " + "x" * QUESTION_CHARS_MAX, NOTHING, NOW) is None


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What is the latest version of PostgreSQL?", "What is the latest version of PostgreSQL"),
        ("Could you please look up the population of Utrecht?", "the population of utrecht"),
        ("Search the web for  Louvre\nopening hours", "louvre opening hours"),
        ("Look it up online.", "Look it up online"),
    ],
)
def test_a_query_is_the_question_without_what_addresses_the_assistant(question: str, query: str) -> None:
    assert query_of(question) == query


@given(st.text(max_size=400))
def test_any_text_has_an_answer_and_a_query_of_one_line(text: str) -> None:
    assert need_of(text, Known((text,), NOW), NOW) in (None, "asked", "news", "stale", "unknown")
    assert "\n" not in query_of(text)
    assert len(query_of(text)) <= QUESTION_CHARS_MAX
