"""What a rolling summary keeps beside its sentences, and that it reads what is new alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.model import NewMemory, Scope, SessionRef
from memory.stored import StoredTurn, SummaryState
from memory.write import summarise
from memory.write.summarise import Summariser, summary_of
from policies.episode import Said
from policies.labels import Integrity, Sensitivity
from policies.summary_kept import DECISIONS_MAX, NAMES_MAX, OPEN_MAX, Kept, fitted, keep
from tests.test_summary import SESSION, T0, TALK, TEXTS, earlier_of, stored

DECISION = "We decided to keep the archive in Porto."
SCOPE = Scope(UUID(int=1))


class Session:
    """A session in memory: what a summary reads of it is counted."""

    def __init__(self, turns: Sequence[StoredTurn], tokens_each: int = 5) -> None:
        self.turns = list(turns)
        self.tokens_each = tokens_each
        self.said = 0
        self.summarised = 0
        self.memory: NewMemory | None = None
        self.reads: list[int] = []

    async def summary_state(self, scope: Scope, session_id: UUID) -> SummaryState | None:
        tokens, memory = (self.said - self.summarised) * self.tokens_each, self.memory
        if memory is None:
            return SummaryState(self.summarised, self.said, None, None, tokens)
        told = memory.content, tokens, memory.attributes, memory.integrity.value, memory.sensitivity.value
        return SummaryState(self.summarised, self.said, memory.memory_id, *told, self.summarised)

    async def turns_since(self, scope: Scope, session_id: UUID, seq: int, *, limit: int) -> tuple[StoredTurn, ...]:
        found = tuple(self.turns[seq : self.said][:limit])
        self.reads.append(len(found))
        return found

    async def learnt(self, scope: Scope, event_ids: Sequence[UUID]) -> frozenset[UUID]:
        return frozenset(event_ids)

    async def untold(self, scope: Scope, event_ids: Sequence[UUID]) -> frozenset[UUID]:
        return frozenset()

    async def put_summary(
        self,
        scope: Scope,
        session_id: UUID,
        memory: NewMemory,
        upto_seq: int,
        made_of: int | None,
        *,
        now: datetime,
        **_: Any,
    ) -> int | None:
        assert made_of == (self.summarised if self.memory else None)
        self.memory, self.summarised = memory, upto_seq
        return 1

    async def speak(self, summariser: Summariser, count: int) -> None:
        """So many turns more, and the summary where it is due."""
        self.said += count
        due = await summariser.due(SCOPE, SESSION)
        if due is not None:
            await summariser.keep(SCOPE, SESSION, due, UUID(int=7), "live-0", 1)


def summariser_of(session: Session, every_turns: int = 12, every_tokens: int = 10_000) -> Summariser:
    return Summariser(session, every_turns=every_turns, every_tokens=every_tokens, sentences_max=8, clock=lambda: T0)


def talk_of(count: int) -> list[StoredTurn]:
    """A long talk; the decision is in its third turn, and there are others all along."""
    turns = []
    for n in range(count):
        role = "user" if n % 2 == 0 else "assistant"
        text = f"{TALK[n % len(TALK)]} This is turn {n} of the talk about the sea."
        if role == "user" and n % 10 == 4:
            text += f" We decided to paint room {n} in the colour number {n}."
        turns.append(stored(n, f"{DECISION} {text}" if n == 2 else text, role))
    return turns


async def test_a_thousand_turns_are_read_once_each_and_the_early_decision_survives() -> None:
    session = Session(talk_of(1_000))
    summariser = summariser_of(session)
    for _ in range(500):
        await session.speak(summariser, 2)
        if session.summarised >= 12:
            assert session.memory is not None and DECISION in session.memory.attributes["decisions"]
    assert len(session.reads) == 83 and max(session.reads) == 12
    assert sum(session.reads) == session.summarised == 996
    assert session.memory is not None
    assert len(session.memory.content.splitlines()) <= 8
    decisions = session.memory.attributes["decisions"]
    assert len(decisions) == DECISIONS_MAX and decisions[-1].startswith("We decided to paint room 994 ")


async def test_what_was_said_at_once_is_summed_up_to_its_last_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long conversation that came at once the summary ended with its thousandth turn, and was made on the loop."""
    threads: list[int] = []

    def made(*given: Any) -> NewMemory | None:
        threads.append(threading.get_ident())
        return summary_of(*given)

    monkeypatch.setattr(summarise, "summary_of", made)
    session = Session(talk_of(2_500))
    await session.speak(summariser_of(session), 2_500)
    assert session.reads == [1_000, 1_000, 500] and session.summarised == 2_500
    assert session.memory is not None and session.memory.occurred_at == session.turns[-1].occurred_at
    decisions = session.memory.attributes["decisions"]
    assert decisions[0] == DECISION and decisions[-1].startswith("We decided to paint room 2494 ")
    assert len(threads) == 3 and threading.get_ident() not in threads
    await session.speak(summariser_of(session), 0)
    assert session.reads == [1_000, 1_000, 500]


@pytest.mark.parametrize(
    ("first", "then", "labels"),
    [
        (("imported", "confidential"), ("user", "internal"), (Integrity.IMPORTED, Sensitivity.CONFIDENTIAL)),
        (("user", "internal"), ("tool", "secret"), (Integrity.TOOL, Sensitivity.SECRET)),
        (("user", "public"), ("user", "public"), (Integrity.USER, Sensitivity.PUBLIC)),
    ],
)
async def test_a_summary_has_the_labels_of_what_it_carries_on(
    first: tuple[str, str], then: tuple[str, str], labels: tuple[Integrity, Sensitivity]
) -> None:
    talk = talk_of(36)
    by = [first] * 12 + [then] * 24
    session = Session([replace(turn, integrity=i, sensitivity=s) for turn, (i, s) in zip(talk, by, strict=True)])
    summariser = summariser_of(session)
    await session.speak(summariser, 12)
    assert session.memory is not None
    assert (session.memory.integrity.value, session.memory.sensitivity.value) == first
    for _ in range(2):
        await session.speak(summariser, 12)
        assert (session.memory.integrity, session.memory.sensitivity) == labels


async def test_many_tokens_make_a_summary_due_before_many_turns_do() -> None:
    session = Session(talk_of(40), tokens_each=1_000)
    summariser = summariser_of(session, every_turns=12, every_tokens=4_000)
    for _ in range(20):
        await session.speak(summariser, 2)
    assert session.reads == [4] * 10


async def test_an_unspoken_session_is_never_due() -> None:
    session = Session([])
    assert await summariser_of(session, every_tokens=1).due(SCOPE, SESSION) is None


def said(*texts: str, role: str = "user") -> list[Said]:
    return [Said(UUID(int=n + 1), role, text) for n, text in enumerate(texts)]


def test_intent_decisions_questions_and_names_are_kept_in_their_own_words() -> None:
    kept = keep(
        Kept(),
        said(
            "Hello! Please plan the move of the archive to Porto.",
            "We decided to use Postgres instead of MySQL. Open question: who pays for the hosting?",
            "Yesterday we met Ada Lovelace in Porto.",
        ),
    )
    assert kept.intent == "Please plan the move of the archive to Porto."
    assert kept.decisions == ("We decided to use Postgres instead of MySQL.",)
    assert kept.open == ("Open question: who pays for the hosting?",)
    assert {"Ada Lovelace", "Porto"} <= set(kept.names)
    assert kept.sources == (UUID(int=1), UUID(int=2), UUID(int=3))
    assert Kept.of(kept.attributes()) == Kept(kept.intent, kept.decisions, kept.open, kept.names)


def test_who_names_what_is_kept_is_a_source_of_it_whatever_else_was_said() -> None:
    """The name goes with the turn that is forgotten, hidden or raised; no sentence of it need be in the summary."""
    talk = said("What is it?", "She met Ada Lovelace.", "So it rains.", "It was Ada Lovelace's idea.", role="assistant")
    first = keep(Kept(), talk)
    assert (first.names, first.sources) == (("Ada Lovelace",), (UUID(int=2), UUID(int=4)))
    again = keep(first, said("It rains.", "We know Ada Lovelace by now."))
    assert (again.names, again.sources) == (("Ada Lovelace",), (UUID(int=2),))
    assert keep(first, said("It rains.")).sources == ()


def test_a_decision_closes_its_question_and_a_new_goal_is_the_intent() -> None:
    before = keep(Kept(), said("Please plan the move.", "Open question: who pays for the hosting after March?"))
    after = keep(before, said("We agreed that Bob pays for the hosting from March on.", "New task: write the budget."))
    assert after.open == () and after.intent == "New task: write the budget."


@pytest.mark.parametrize(
    "text",
    [
        "We have not decided anything yet.",
        "If we decided to move, it would be to Porto.",
        "Have we decided where to go?",
        "I didn't decide that.",
        "I will tell you once we have decided.",
        "Wir haben noch nichts entschieden.",
        "Es wurde kein Termin beschlossen.",
        "Sag Bescheid, sobald wir das entschieden haben.",
        "Todavía no hemos decidido el presupuesto.",
        "No lo hemos decidido.",
        "Si nous avons décidé, je te le dirai.",
        "我们决定不了颜色。",
        "如果我们决定搬家，我会告诉你。",
        "```\nWe decided to fail\n```",
    ],
)
def test_what_was_not_decided_is_no_decision(text: str) -> None:
    assert keep(Kept(), said(text)).decisions == ()


@pytest.mark.parametrize(
    "text",
    [
        "Wir haben beschlossen, keinen Keller zu mieten.",
        "Hemos decidido no alquilar el sótano.",
        "Nous avons décidé de ne rien changer.",
        "我们决定用蓝色。",
    ],
)
def test_what_was_decided_against_is_a_decision(text: str) -> None:
    assert keep(Kept(), said(text)).decisions == (text,)


def test_what_the_assistant_says_is_no_decision_of_anybody() -> None:
    kept = keep(Kept(), said("We decided to use MySQL. Open question: when?", role="assistant"))
    assert (kept.decisions, kept.open, kept.intent) == ((), (), None)


def test_what_a_person_wrote_into_the_attributes_is_taken_as_it_is_meant() -> None:
    written = {"decisions": "no list", "names": [1, "", "Ada"], "intent": 5, "mine": True}
    assert Kept.of(written) == Kept(names=("Ada",))
    assert Kept.of(None) == Kept()


def test_a_deleted_question_and_the_bounds_hold() -> None:
    kept = Kept()
    for n in range(40):
        kept = keep(kept, said(f"We decided number {n} today. Open question: is {n} enough? We met Mr Aleph{n} there."))
    assert (len(kept.decisions), len(kept.open), len(kept.names)) == (DECISIONS_MAX, OPEN_MAX, NAMES_MAX)
    assert kept.decisions[0] == "We decided number 0 today." and kept.decisions[-1] == "We decided number 39 today."


ATTRIBUTES = st.builds(
    Kept,
    st.none() | st.text(min_size=1, max_size=30),
    st.lists(st.text(min_size=1, max_size=20), max_size=5).map(tuple),
    st.lists(st.text(min_size=1, max_size=20), max_size=5).map(tuple),
    st.lists(st.text(min_size=1, max_size=20), max_size=5).map(tuple),
)
DECIDING = st.sampled_from(
    [
        "We decided to bake bread. ",
        "Open question: who? ",
        "Please write it down. ",
        "In Porto we met Ada Lovelace. ",
        "Let's go with Ada Lovelace and Porto, to be decided. ",
    ]
)


@given(
    st.lists(
        st.tuples(st.lists(TEXTS | DECIDING, max_size=4).map("".join), st.sampled_from(["user", "assistant"])),
        max_size=6,
    ),
    TEXTS,
    ATTRIBUTES,
    st.integers(1, 9),
)
@example([("Let's go with Ada Lovelace and Porto, to be decided. Bread and salt.", "user")], "", Kept(), 1)
def test_with_what_it_keeps_a_summary_is_never_longer_than_what_it_is_made_of(
    turns: list[tuple[str, str]], earlier: str, before: Kept, most: int
) -> None:
    session = SessionRef(SESSION.session_id, "s")
    said = [stored(n, text, role) for n, (text, role) in enumerate(turns)]
    memory = summary_of(session, earlier_of(earlier, before), said, most)
    if memory is not None:
        source = len(earlier) + before.chars_beyond(earlier) + sum(len(text) for text, _ in turns)
        assert len(memory.content) + Kept.of(memory.attributes).chars_beyond(memory.content) <= source


@given(ATTRIBUTES, st.integers(-5, 200))
def test_what_is_kept_fits_and_loses_the_intent_last(kept: Kept, chars_max: int) -> None:
    found = fitted(kept, chars_max, "")
    assert found.chars_beyond("") <= max(0, chars_max)
    assert found.intent == kept.intent or found.chars_beyond("") == 0
