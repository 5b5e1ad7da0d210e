"""The rolling summary: never longer than its source, made of the one before, and it keeps what was decided."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.chain import Digest
from memory.ids import new_id
from memory.model import SessionRef
from memory.stored import StoredTurn
from memory.write.summarise import Earlier, newest_branch, summary_of
from policies.labels import Integrity, Sensitivity
from policies.summary import Sentence, bears, extract
from policies.summary_kept import Kept

T0 = datetime(2026, 11, 21, 12, tzinfo=UTC)
SESSION = SessionRef(UUID(int=3), "s")
BEARING = (
    "We decided to use Postgres instead of MySQL for the project.",
    "Open question: who pays for the hosting after March?",
    "My goal is to publish the app before June.",
)
TALK = (
    "The parser reads the header of each file before its body, and the header names the parts of the file.",
    "Bread needs flour, water and salt. Thanks! I would like to bake bread with the children on a rainy day.",
    "The train to Porto leaves at nine. The train is full of people on their way to the river and the sea.",
    "A report about rivers has three chapters, and each chapter of the report tells of one river.",
)


def stored(seq: int, content: str, role: str = "user") -> StoredTurn:
    return StoredTurn(
        event_id=new_id(),
        session_id=SESSION.session_id,
        exchange_id=new_id(),
        seq=seq,
        chain=Digest(bytes(32)),
        attempt=0,
        role=role,
        name=None,
        content=content,
        tool_calls=None,
        tool_call_id=None,
        source_id=None,
        origin="live",
        integrity=role,
        sensitivity="internal",
        model=None,
        redactions=0,
        token_count=None,
        occurred_at=T0,
        recorded_at=T0,
    )


def earlier_of(content: str, kept: Kept | None = None) -> Earlier:
    """An earlier summary of the user's own words."""
    return Earlier(content, kept or Kept(), Integrity.USER, Sensitivity.INTERNAL)


def test_what_was_decided_meant_and_left_open_lasts_ten_rounds() -> None:
    summary: Earlier | None = None
    for number in range(11):
        texts = [TALK[(number + n) % len(TALK)] for n in range(12)]
        if number == 0:
            texts[1], texts[5], texts[9] = (f"{TALK[n]} {BEARING[n]}" for n in range(3))
        memory = summary_of(SESSION, summary, [stored(n, text) for n, text in enumerate(texts)], 8)
        assert memory is not None
        summary = Earlier.made(memory)
        assert len(memory.content.splitlines()) <= 8
        assert [sentence in memory.content for sentence in BEARING] == [True] * 3, number


def test_the_later_of_many_decisions_stay_and_leave_room_for_the_rest() -> None:
    decisions = [Sentence(f"We decided to paint room number {n} in colour {n}.", "user", n) for n in range(20)]
    talk = [Sentence(text, "user", 30) for text in TALK]
    chosen = extract([*decisions, *talk], 8)
    assert chosen[-3:] != decisions[-3:] and set(decisions[-4:]) <= set(chosen)
    assert any(sentence in talk for sentence in chosen)
    assert extract([], 8) == [] and len(extract(decisions, 1)) == 1


@pytest.mark.parametrize(
    ("text", "bearing"),
    [
        *((text, True) for text in BEARING),
        ("Let's go with the blue one", True),
        ("I'm going with Rust", True),
        ("Wir haben uns für Postgres entschieden", True),
        ("Keep going with your dreams!", False),
        ("Decision-making is a skill", False),
        ("I want to write a poem", False),
        ("I'm trying to schedule a meeting", False),
    ],
)
def test_plain_words_alone_make_a_sentence_bear(text: str, bearing: bool) -> None:
    assert bears(text) is bearing


def test_what_the_assistant_decides_has_no_place_of_its_own() -> None:
    said = [Sentence(BEARING[0], "assistant", 0), *(Sentence(text, "user", 1) for text in TALK)]
    assert said[0] not in extract(said, 2)


TEXTS = st.lists(
    st.sampled_from(["we ", "decided ", "to bake", "甲乙。", "丙丁。", "bread.", "flour! ", "open question?", "\n"])
    | st.text(max_size=5),
    max_size=40,
).map("".join)


@given(st.lists(st.tuples(TEXTS, st.sampled_from(["user", "assistant", "tool"])), max_size=6), TEXTS, st.integers(1, 9))
def test_a_summary_is_never_longer_than_what_it_sums_up(said: list[tuple[str, str]], earlier: str, most: int) -> None:
    turns = [stored(n, text, role) for n, (text, role) in enumerate(said)]
    memory = summary_of(SESSION, earlier_of(earlier), turns, most)
    if memory is not None:
        assert 0 < len(memory.content) <= len(earlier) + sum(len(text) for text, _ in said)
        assert set(memory.source_turns) <= {turn.event_id for turn in turns}


def branch(*said: tuple[str, str, str | None]) -> list[str]:
    """What is left of turns of these words, which also are their places, behind these others; "!": an answer."""
    turns = []
    for seq, (text, at, parent) in enumerate(said):
        before = None if parent is None else Digest(parent.encode().ljust(32))
        place = Digest(at.encode().ljust(32))
        role = "assistant" if text.endswith("!") else "user"
        turns.append(replace(stored(seq, text, role), chain=place, parent_chain=before))
    return [turn.content for turn in newest_branch(turns)]


def test_a_summary_tells_nothing_of_a_question_that_was_edited_or_an_answer_that_was_given_again() -> None:
    first = ("We marry in Rome.", "1", "0")
    assert branch(first, ("Rome!", "2", "1"), ("In May.", "3", "2"), ("We marry in Oslo.", "4", "0")) == [
        "We marry in Oslo."
    ]
    assert branch(first, ("Rome!", "2", "1"), ("Romans!", "5", "1"), ("In May.", "6", "5")) == [
        first[0],
        "Romans!",
        "In May.",
    ]
    alone = (("We marry in Rome.", "1", None), ("Rome!", "2", "1"), ("In May.", "3", None))
    assert branch(*alone) == [text for text, _, _ in alone], "who sends the newest message alone edits nothing"


LOG = """2026-11-20 02:14:07,113 ERROR Ledger - the ledger of the service was refused by the ledger
    at com.acme.Ledger.open(Ledger.java:88)
    at com.acme.Ledger.run(Ledger.java:12)
| ledger | service | ledger of the service |
for ledger in ledgers: service.open(ledger)
"""
CODE = "```python\nledger = service.ledger(the_ledger)\nledger of the service\n```"


def test_code_and_logs_are_no_sentences_of_a_summary() -> None:
    said = ("The ledger is slow at night.", LOG, "We moved it to another host.", CODE)
    made = summary_of(SESSION, None, [stored(n, text) for n, text in enumerate(said)], 4)
    assert made is not None
    assert made.content == "The ledger is slow at night.\nWe moved it to another host."


def test_where_nothing_but_a_log_was_said_a_summary_tells_that() -> None:
    assert summary_of(SESSION, None, [stored(0, LOG)], 2) is not None


def test_what_a_program_brought_into_a_message_is_no_word_of_the_user_in_a_summary() -> None:
    brought = "Observation: README\nWe decided to use Redis for everything. Open question: who is Bob Stone?"
    turns = [stored(0, "Please read the file for me."), stored(1, brought)]
    made = summary_of(SESSION, None, turns, 4)
    assert made is not None
    assert (made.content, made.attributes) == (
        "Please read the file for me.",
        {"intent": "Please read the file for me."},
    )


def test_what_was_said_in_a_part_is_in_no_summary() -> None:
    turns = [
        stored(0, "Let's play: I am the patient, you are the doctor."),
        stored(1, "We decided to sell the farm in Bristol."),
        stored(2, "End of the game, we decided to meet in Rome."),
    ]
    made = summary_of(SESSION, None, turns, 8)
    assert made is not None
    assert "Bristol" not in str((made.content, made.attributes)) and "meet in Rome" in made.content


def test_what_came_late_takes_the_place_of_nothing_in_a_summary() -> None:
    told = [stored(0, "We marry in Oslo."), stored(1, "In May."), stored(2, "We marry in Rome.")]
    places = [Digest(bytes([n]) * 32) for n in range(4)]
    told = [replace(one, chain=places[n + 1], parent_chain=places[n % 2]) for n, one in enumerate(told)]
    late = replace(told[2], occurred_at=T0 - timedelta(hours=1))
    assert len(newest_branch([*told[:2], late])) == 3
    assert [one.content for one in newest_branch(told)] == ["We marry in Rome."]
    memory = summary_of(SESSION, None, told, 8)
    assert memory is not None and "Oslo" not in memory.content
