"""What is told of a conversation: outcomes with their evidence, task types, topics, names; everything bounded."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.episode import (
    CALLS_MAX,
    Outcome,
    Said,
    calls_in,
    outcome_of,
    sentences_told,
    task_of,
    told,
    tool_failed,
    user_sign,
    worth_telling,
)
from policies.episode_words import (
    ENTITIES_MAX,
    FILES_MAX,
    ITEM_CHARS_MAX,
    TOOLS_MAX,
    TOPICS_MAX,
    URLS_MAX,
    entities_of,
    files_of,
    tools_of,
    topics_of,
    urls_of,
)


def talk(*messages: tuple[str, str], status: str | None = "complete", **more: Any) -> list[Said]:
    """Messages of (role, text), numbered from 0; `status` is that of the last one's exchange."""
    last = len(messages) - 1
    return [
        Said(UUID(int=place), role, text, status=status if place == last else "complete", **more)
        for place, (role, text) in enumerate(messages)
    ]


def call(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("That fixed it, thanks!", "user_confirmed"),
        ("it works now", "user_confirmed"),
        ("Great, all tests pass now.", "user_confirmed"),
        ("The bug is gone", "user_confirmed"),
        ("Perfect.", "user_confirmed"),
        ("It is no longer failing", "user_confirmed"),
        ("Jetzt läuft es. Danke, das funktioniert jetzt!", "user_confirmed"),
        ("Merci, ça marche", "user_confirmed"),
        ("thank you", "user_thanked"),
        ("Thanks! Now can you also write the docs?", "user_thanked"),
        ("Danke dir", "user_thanked"),
        ("Still broken.", "user_objected"),
        ("That's wrong", "user_objected"),
        ("thanks, but it still doesn't work", "user_objected"),
        ("No, I get the same error", "user_objected"),
        ("that didn't fix it", "user_objected"),
        ("This isn't what I asked for", "user_objected"),
        ("It no longer works", "user_objected"),
        ("Das geht leider nicht", "user_objected"),
        ("ça ne marche pas", "user_objected"),
        ("no funciona", "user_objected"),
        ("Es funktioniert jetzt nicht mehr", "user_objected"),
        ("Jetzt funktioniert es nicht mehr", "user_objected"),
        ("Das geht wieder nicht", "user_objected"),
        ("Das läuft jetzt leider gar nicht", "user_objected"),
        ("Ça marche pas", "user_objected"),
        ("ça marche toujours pas, merci", "user_objected"),
        ("ça marche plus", "user_objected"),
        ("Ça marche pas mal", "user_confirmed"),
        ("Das läuft jetzt nur halb", None),
        ("Mir geht es nicht gut", None),
        ("Is it working now?", None),
        ("If that's wrong, tell me", None),
        ("Why is this broken?", None),
        ("It should work on Windows too", None),
        ("Can you add a test? Thanks in advance", None),
        ("My colleague is working on it", None),
        ("I can't help wondering about that", None),
        ("It worked before the update", None),
        ("> that's wrong", None),
        ("Add a column for the price", None),
        ("```\nit works now\n```", None),
        ("", None),
        ("😀", None),
    ],
)
def test_words_of_a_user_tell_how_it_went_or_nothing(text: str, sign: str | None) -> None:
    assert user_sign(text) == sign


@pytest.mark.parametrize("words", ["Thanks for the fish!", "This works perfectly.", "It still does not work."])
def test_a_tools_output_in_a_users_message_is_no_sign_of_theirs(words: str) -> None:
    assert user_sign(f"Observation:\n{words}") is None
    assert user_sign(f"<page>\n{words}\n</page>\nNow the next one.") is None
    assert user_sign(f"Thank you so much!\n<page>\n{words}\n</page>") == "user_thanked"


def test_the_latest_sign_counts_and_names_its_message() -> None:
    said = talk(("user", "fix it"), ("assistant", "done"), ("user", "still broken"), ("assistant", "again"))
    assert outcome_of(said) == Outcome("failure", UUID(int=2), "user_objected")
    said = [*said, Said(UUID(int=9), "user", "that fixed it"), Said(UUID(int=10), "assistant", "You are welcome")]
    assert outcome_of(said) == Outcome("success", UUID(int=9), "user_confirmed")


def test_the_first_words_of_a_user_are_the_task_and_no_outcome() -> None:
    said = talk(("user", "My code is not working"), ("assistant", "Try this"))
    assert outcome_of(said) == Outcome("unknown")
    assert outcome_of(talk(("user", "thanks"))) == Outcome("unknown")
    assert outcome_of([]) == Outcome("unknown")


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ("Traceback (most recent call last):\n  File x\nValueError: no", True),
        ("ok\nValueError: no", True),
        ("error: cannot find crate", True),
        ("bash: foo: command not found", True),
        ('{"is_error": true}', True),
        ('{"error": "quota"}', True),
        ('{"error": null, "success": true}', False),
        ("process exited with code 1", True),
        ("exit code 0", False),
        ("FAILED tests/test_a.py::test_b", True),
        ("3 failed, 9 passed", True),
        ("0 failed, 9 passed", False),
        ("12 passed", False),
        ("a page about the Error: of our ways", False),
        ("x " * 2000 + "\nTraceback (most recent call last)\n" + "y " * 2000, False),
        ("", False),
    ],
)
def test_a_fault_at_either_end_of_an_output_is_seen(result: str, failed: bool) -> None:
    assert tool_failed(result) is failed


def test_the_last_results_of_tools_count_until_the_user_goes_on() -> None:
    run = [("user", "run it"), ("assistant", ""), ("tool", "error: no")]
    assert outcome_of(talk(*run)) == Outcome("failure", UUID(int=2), "tool_failed")
    assert outcome_of(talk(*run, ("tool", "ok"), ("assistant", "done"))) == Outcome("unknown")
    assert outcome_of(talk(*run, ("assistant", "hm"), ("user", "and now the other"))) == Outcome("unknown")
    said = talk(*run, ("assistant", "hm"), ("user", "works now"))
    assert outcome_of(said) == Outcome("success", UUID(int=4), "user_confirmed")


@pytest.mark.parametrize(("status", "why"), [("failed", "exchange_failed"), ("partial", "answer_cut_off")])
def test_an_exchange_that_broke_off_at_the_end_is_a_failure(status: str, why: Any) -> None:
    said = talk(("user", "a"), ("assistant", "b"), ("user", "works now, next"), status=status)
    assert outcome_of(said) == Outcome("failure", UUID(int=2), why)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["Why does parser.py crash?", "and with an empty file?"], "coding"),
        (["Write a poem about the sea", "shorter"], "writing"),
        (["Plan a trip to Lisbon in May", "with one day in Sintra"], "planning"),
        (["Compare these two offers", "which one costs less over ten years?"], "analysis"),
        (["What is the capital of France?"], "question"),
        (["How old is Ada?", "ok"], "question"),
        (["Had a long day today", "my cat was ill"], "chat"),
        (["hi", "how are you?"], "chat"),
        ([], "other"),
    ],
)
def test_a_task_type_is_one_of_a_closed_set(texts: list[str], kind: str) -> None:
    assert task_of(talk(*(("user", text) for text in texts))) == kind


def test_tools_that_only_coding_needs_decide_the_type() -> None:
    said = talk(("user", "please go on"), calls=calls_in([call("run_shell")]))
    assert task_of(said) == "coding"


@pytest.mark.parametrize(
    "text", ["hi", "Hello!", "😀", "", "👍👍", "thanks!", "Hi there, how are you?", "ok", "Guten Morgen"]
)
def test_a_greeting_or_a_sign_makes_no_episode(text: str) -> None:
    said = talk(("user", text), ("assistant", "Hello! How can I help you today?"))
    assert not worth_telling(said)
    assert sentences_told(said, 8) == []


@pytest.mark.parametrize(
    "text",
    [
        "我有两只猫。",
        "私は東京に住んでいる。",
        "मेरे पिता जी को दिल की बीमारी है।",
        "আমার মা ঢাকায় থাকেন।",
        "என் தாய் சென்னையில் இருக்கிறார்.",
        "ฉันมีแมวสองตัว",
    ],
)
def test_what_is_said_in_any_script_is_told(text: str) -> None:
    said = talk(("user", text), ("assistant", "ok"))
    assert worth_telling(said)
    assert [one.text for one in sentences_told(said, 8)] == [text]


@pytest.mark.parametrize("text", ["你好", "สวัสดี", "नमस्ते", "ok"])
def test_a_word_in_any_script_is_no_episode(text: str) -> None:
    assert not worth_telling(talk(("user", text), ("assistant", "ok")))


def test_a_called_tool_or_a_few_words_are_worth_telling() -> None:
    assert worth_telling(talk(("user", "What is the capital of France?")))
    assert worth_telling(talk(("user", "我住在里斯本，养了一只猫")))
    assert worth_telling(talk(("assistant", ""), calls=calls_in([call("search")])))


def test_topics_are_what_was_talked_about() -> None:
    said = talk(
        ("user", "I want to bake sourdough bread. The sourdough starter smells odd."),
        ("assistant", "A sourdough starter that smells of acetone is hungry; feed the starter with flour."),
        ("user", "How much flour does the sourdough starter need?"),
    )
    topics = topics_of(said)
    assert topics[0] == "sourdough starter"
    assert {"flour", "smells"} <= set(topics)
    assert not {"want", "much", "need", "the"} & set(topics)


def test_entities_are_names_and_not_starts_of_sentences() -> None:
    said = talk(
        ("user", "Yesterday I met Ada Lovelace in Lisbon. Tomorrow we meet Bob at NASA. Lisbon is lovely on Monday."),
        ("assistant", "Please greet Ada Lovelace from the University of Porto."),
    )
    assert entities_of(said)[:2] == ["Ada Lovelace", "Lisbon"]
    assert set(entities_of(said)) == {"Ada Lovelace", "Lisbon", "Bob", "NASA", "University of Porto"}


def test_a_short_word_before_a_name_is_no_part_of_it() -> None:
    text = "In Oslo it rains. At Acme we met Ada. Im Harz liegt Schnee. À Lyon aussi. En Madrid no. IT Crowd, La Paz."
    named = {"Oslo", "Acme", "Ada", "Harz", "Schnee", "Lyon", "Madrid", "IT Crowd", "La Paz"}
    assert set(entities_of(talk(("user", text)))) == named


def test_a_greeting_is_no_part_of_a_name_and_a_title_none() -> None:
    text = "Hallo Jana! Enchanté Camille, Hola Lucía. Oi Rafael. Noted Paulo. We met Mr. Adeyemi at St. Mary in Rome."
    named = {"Jana", "Camille", "Lucía", "Rafael", "Paulo", "Adeyemi", "Mary", "Rome"}
    assert set(entities_of(talk(("assistant", text)))) == named


def test_names_and_words_are_whole_in_any_script() -> None:
    text = "We bought the ŠKODA from Łukasz Żak in Łódź. Then we met Иван Петров there."
    assert set(entities_of(talk(("user", text)))) == {"ŠKODA", "Łukasz Żak", "Łódź", "Иван Петров"}
    topics = topics_of(talk(("user", "परियोजना की समय सीमा शुक्रवार है। परियोजना बड़ी है।")))
    assert "परियोजना" in topics and "शुक्रवार" in topics


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "Ich habe gestern den Vertrag für die Wohnung in Hamburg unterschrieben. Der Vermieter heißt Herr "
            "Petersen und will die Kaution bis Freitag. Meine Schwester Anna hilft beim Umzug, und wir brauchen "
            "einen Transporter.",
            {"Hamburg", "Herr Petersen", "Schwester Anna"},
        ),
        ("Das BSI und die Telekom haben geantwortet, aber bei Telekom ist noch das alte Konto.", {"BSI", "Telekom"}),
        ("I am Anna, and the Louvre is where we met Bob.", {"Anna", "Louvre", "Bob"}),
        ("Ik ken die Anna uit Gent en den Bob uit Leuven, die zijn daar.", {"Anna", "Gent", "Bob", "Leuven"}),
        ("Wir haben den neuen Vertrag und die alte große Rechnung, die aus Wien ist.", {"Wien"}),
    ],
)
def test_a_noun_of_a_german_text_is_no_name(text: str, named: set[str]) -> None:
    """They took the places of names in summaries and episodes: of ten, two were any."""
    assert set(entities_of(talk(("user", text)))) == named


def test_what_a_program_brought_and_a_trace_are_neither_told_nor_name_anybody() -> None:
    trace = "    at Ada.open(Ada.java:88)\n    at Bob.run(Bob.java:12)"
    said = talk(("user", f"The build of Lisbon fails.\n{trace}"), ("user", "Observation: I live in the basement."))
    assert [one.text for one in sentences_told(said, 8)] == ["The build of Lisbon fails."]
    assert entities_of(said) == ["Lisbon"]


def test_what_is_said_in_a_part_or_pasted_is_not_told_as_what_happened() -> None:
    said = talk(
        ("user", "Let's play: I am the patient, you are the doctor."),
        ("assistant", "Since when does the leg hurt?"),
        ("user", "I have had diabetes for ten years."),
        ("user", "Let's stop here, my exam is on Friday."),
        ("user", "I'll paste the mail from my landlord now"),
        ("user", "My name is Peter Holm and I live in Aarhus, the rent goes to a new account."),
    )
    told_of = " ".join(one.text for one in sentences_told(said, 8))
    assert "my exam is on Friday" in told_of
    assert not re.search("diabetes|leg|Holm|Aarhus|account", told_of)


def test_files_and_addresses_are_those_touched_without_credentials() -> None:
    said = [
        Said(UUID(int=0), "user", "Look at src/app/main.py, not Node.js or e.g. this, see https://ada:pw@h.io/a/b.html?k=s#x."),
        Said(UUID(int=1), "assistant", "", calls_in([call("edit", '{"path": "./conf/app.yaml"}')])),
        Said(UUID(int=2), "tool", "a.txt\nb.txt\nhttps://other.example"),
        Said(UUID(int=3), "user", "and the Dockerfile", urls=("https://img.example/x.png", "data:nothing")),
    ]  # fmt: skip
    assert files_of(said) == ["./conf/app.yaml", "src/app/main.py", "Dockerfile"]
    assert urls_of(said) == ["https://img.example/x.png", "https://h.io/a/b.html"]
    assert tools_of(said) == {"edit": 1}


@pytest.mark.parametrize(
    "raw", [None, "x", {}, [None], [{"function": None}], [{"function": {"name": 3}}], [{"custom": {"name": " "}}]]
)
def test_calls_that_are_none_are_left_out(raw: Any) -> None:
    assert calls_in(raw) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["function", "custom", "name", "arguments", "input", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)
PIECES = (
    "the Ada Lisbon works now still broken that's wrong ``` https://u:p@h/x?k a/b.py ... . ? ! > thanks 中文 ー x.js / "
    "@ ' É I Dockerfile how are you Yesterday - Error: failed"
)
WORDS = st.lists(st.sampled_from([*PIECES.split(), "\n"]) | st.text(max_size=6), max_size=60).map(" ".join)
SAID = st.lists(
    st.builds(
        Said,
        event_id=st.uuids(),
        role=st.sampled_from(["user", "assistant", "tool", "function", "?"]),
        text=WORDS,
        calls=JSON.map(calls_in),
        urls=st.lists(WORDS, max_size=3).map(tuple),
        status=st.sampled_from([None, "complete", "partial", "failed"]),
    ),
    max_size=12,
)


@given(SAID, st.integers(1, 8))
def test_whatever_is_said_is_told_within_bounds(said: list[Said], most: int) -> None:
    outcome = outcome_of(said)
    assert (outcome.event_id is None) == (outcome.reason is None) == (outcome.verdict == "unknown")
    assert outcome.event_id is None or outcome.event_id in {one.event_id for one in said}
    assert task_of(said) in {"question", "coding", "writing", "planning", "analysis", "chat", "other"}
    lists = (
        (topics_of(said), TOPICS_MAX),
        (entities_of(said), ENTITIES_MAX),
        (files_of(said), FILES_MAX),
        (urls_of(said), URLS_MAX),
        (list(tools_of(said)), TOOLS_MAX),
    )
    for items, bound in lists:
        assert len(items) <= bound and len(set(items)) == len(items)
        assert all(0 < len(item) <= ITEM_CHARS_MAX for item in items)
    assert all("@" not in url and "?" not in url for url in urls_of(said))


@given(SAID, st.integers(1, 8))
def test_a_summary_is_never_longer_than_what_it_sums_up_and_in_its_words(said: list[Said], most: int) -> None:
    chosen = sentences_told(said, most)
    spoken = [one for one in said if one.role in ("user", "assistant")]
    assert len(chosen) <= most
    assert len(told(chosen)) <= sum(len(one.text) for one in spoken)
    assert all(sentence.text in said[sentence.turn].text for sentence in chosen)


@given(JSON)
def test_calls_of_any_shape_are_read_within_bounds(raw: Any) -> None:
    assert len(calls_in(raw)) <= CALLS_MAX


def test_long_and_strange_texts_take_no_time_to_speak_of() -> None:
    for piece in ("a/", "@", "\n", "```", "https://", "A ", "hi ", "that's ", "=", ".", "no longer ", "中"):
        said = talk(("user", piece * 150_000), ("tool", piece * 150_000), ("user", piece * 150_000))
        assert outcome_of(said) and task_of(said)
        assert len(topics_of(said)) + len(entities_of(said)) + len(files_of(said)) + len(urls_of(said)) <= 99
        assert len(told(sentences_told(said, 8))) <= 300_000 * len(piece)
