"""What a turn states by what was said before it: put right, taken back, answered; and what is played, pasted, supposed."""

# ruff: noqa: E501  one conversation a line
from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.fact import Fact
from policies.fact_talk import Stated, Talk

WEDNESDAY = datetime(2024, 3, 20, 12, tzinfo=UTC)


def heard(*turns: str, speaker: str | None = None) -> tuple[Talk, list[Stated]]:
    """What the last of these turns states, the user's and the assistant's in turn."""
    talk = Talk()
    for number, text in enumerate(turns[:-1]):
        role = "assistant" if number % 2 else "user"
        talk = talk.after(role, text, speaker if role == "user" else None, UUID(int=number))
    found = talk.stated(turns[-1], said_at=WEDNESDAY, speaker=speaker)
    return talk, [one for one in found if one.fact.subject != "it"]


def stated(*turns: str) -> list[tuple[str, str, str]]:
    return [(one.fact.subject, one.fact.predicate, one.fact.object) for one in heard(*turns)[1] if not one.fact.negated]


def denied(*turns: str) -> list[tuple[str, str]]:
    return [(one.fact.predicate, one.fact.object) for one in heard(*turns)[1] if one.fact.negated]


@pytest.mark.parametrize(
    ("first", "answer", "then", "expected"),
    [
        ("My flight is on Monday.", "Where to?", "Sorry, Tuesday.", ("flight", "time", "tuesday")),
        ("My flight is on Monday.", "Monday it is.", "no, on Tuesday", ("flight", "time", "tuesday")),
        ("My flight is on Monday.", "Okay.", "I meant Tuesday, not Monday", ("flight", "time", "tuesday")),
        ("I live in Cologne, who is a good dentist?", "I cannot say.", "oh wait, I meant Bonn, we moved", ("user", "lives_in", "bonn")),
        ("My rent is $1,200 and my salary is $3,400.", "Noted.", "Correction: the rent is $1,350", ("user", "rent", "$1,350")),
        ("Hi, my name is Katrin", "Hi Katrin!", "it's Katrine, with an e", ("user", "name", "katrine")),
        ("Hi, I'm Ana.", "Hi Ana!", "it's Anna, two n's", ("user", "name", "anna")),
        ("My name is Jon.", "Hi Jon!", "it's John, with an h", ("user", "name", "john")),
        ("My brother lives in Oslo.", "Nice.", "no, I meant my sister", ("user", "sister_lives_in", "oslo")),
        ("Ich wohne in Essen.", "Gut.", "Und ich wohne nicht in Essen, sondern in Bochum", ("user", "lives_in", "bochum")),
        ("我住在北京。", "好的。", "不对，是上海。", ("user", "lives_in", "上海")),
        ("大阪に住んでいます。", "はい。", "すみません、京都です。", ("user", "lives_in", "京都")),
        ("北海道に住んでいます。誕生日は5月3日です。", "はい。", "すみません、5月13日でした。", ("user", "birthday", "5月13日")),
        ("我的生日是5月3日。", "好的。", "不对，应该是5月13日。", ("user", "birthday", "5月13日")),
        ("I'm from Brazil and now I live in Dublin.", "In Dublin you register here.", "sorry, Cork", ("user", "lives_in", "cork")),
        ("I'm 34 and I need a plan.", "Okay.", "sorry, 43", ("user", "age", "43")),
        ("What can I see?", "Where do you live?", "Berlin", None),
    ],
)  # fmt: skip
def test_what_is_put_right_in_the_next_turn_is_learnt_as_it_was_meant(
    first: str, answer: str, then: str, expected: tuple[str, str, str] | None
) -> None:
    if expected is None:  # an answer is put right too
        first, answer, then = "Berlin", "Nice.", "sorry, Bonn"
        talk = Talk().after("assistant", "Where do you live?").after("user", first).after("assistant", answer)
        found = list(talk.stated(then, said_at=WEDNESDAY))
        expected = ("user", "lives_in", "bonn")
    else:
        found = heard(first, answer, then)[1]
    (right,) = [one for one in found if not one.fact.negated]
    assert (right.fact.subject, right.fact.predicate, right.fact.object) == expected
    assert right.fact.correction and then[slice(*right.fact.span)].strip()


@pytest.mark.parametrize(
    ("turn", "expected", "rest"),
    [
        ("My meeting is on Tuesday. No, Wednesday, sorry.", ("meeting", "time", "wednesday"), "meeting is on Tuesday. No, Wednesday"),
        ("My budget is $500. No, $600.", ("user", "budget", "$600"), "budget is $500. No, $600"),
        ("My exam is on May 3. Wait, no, May 15.", ("exam", "time", "may 15"), "exam is on May 3. Wait, no, May 15"),
        ("My flight is on Friday with Ines. Actually, Saturday.", ("flight", "time", "saturday"), "flight is on Friday with Ines. Actually, Saturday"),
        ("I live in Rome. No, Milan.", ("user", "lives_in", "milan"), "I live in Rome. No, Milan"),
        ("I live in Rome. Sorry, Milan.", ("user", "lives_in", "milan"), "I live in Rome. Sorry, Milan"),
    ],
)  # fmt: skip
def test_what_the_same_turn_puts_right_is_stated_as_it_was_meant(
    turn: str, expected: tuple[str, str, str], rest: str
) -> None:
    for before, behind in (("", ""), ("My name is Kim. ", " I like tea.")):
        text = f"{before}{turn}{behind}"
        found = {(one.fact.subject, one.fact.predicate, one.fact.object): one.fact for one in heard(text)[1]}
        assert text[slice(*found.pop(expected).span)] == rest
        assert [text[slice(*one.span)] for one in found.values()] == (
            ["My name is Kim", "I like tea"] if before else []
        )


@pytest.mark.parametrize("then", ["No, seriously.", "No, I don't need help.", "No worries.", "Really.", "Anna knows."])
def test_what_the_same_turn_goes_on_with_puts_nothing_right(then: str) -> None:
    assert stated(f"My exam is on May 3. {then}") == [("exam", "time", "may 3")]


def test_what_is_put_right_twice_is_as_it_was_said_last() -> None:
    rent = ("My rent is $1,200 and my salary is $3,400.", "Noted.", "Correction: the rent is $1,350", "Okay.")
    assert stated(*rent, "actually no, $1,250.") == [("user", "rent", "$1,250")]


def test_what_is_put_right_rests_on_both_turns_and_is_denied_of_the_wrong_one() -> None:
    turns = ("My brother lives in Oslo.", "Nice.", "no, I meant my sister")
    found = heard(*turns)[1]
    assert [one.beside for one in found] == [(UUID(int=0),)] * 2
    assert denied(*turns) == [("brother_lives_in", "oslo")]


@pytest.mark.parametrize(
    "turns",
    [
        ("I live in Rome. Which city should I see?", "Paris!", "No, London"),
        ("I live in Rome. Which city should I see?", "Paris!", "Actually, London!"),
        ("quick question: is Lyon nice? I live in Paris", "It is.", "no I mean Lille"),
        ("My flight is on Monday.", "Shall I remind you on Sunday?", "no, Saturday"),
        ("My name is Anna and I live in Cologne.", "Hi Anna.", "sorry, Bonn Beuel Street"),
        ("My dog is called Momo.", "Cats do that.", "no, it's a dog"),
        ("My flight is on Monday.", "Okay.", "Sorry, one more question"),
        ("Ich wohne in Essen.", "Gut.", "Nein, ich meinte Dienstag."),
    ],
)
def test_what_may_be_said_of_something_else_puts_nothing_right(turns: tuple[str, ...]) -> None:
    assert stated(*turns) == []


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("I'm learning Finnish", "scratch that"),
        ("My boss is Angela.", "forget that please, it's confidential"),
        ("I live in Toledo.", "just kidding"),
        ("I live in Toledo.", "Haha, that was a joke!"),
        ("I live in Toledo. Which pub is good?", "Please forget what I said about Toledo."),
        ("Ich wohne in Essen.", "war nur ein Witz"),
        ("我住在北京。", "开玩笑的。"),
        (
            "From now on answer in bullet points. I hate long intros.",
            "actually scrap the bullet points thing, prose is fine.",
        ),
        ("Always cite your sources. I live in Rome.", "never mind the citing sources part"),
    ],
)
def test_what_is_taken_back_in_the_next_turn_is_so_no_more(first: str, then: str) -> None:
    assert len(denied(first, "Okay.", then)) == 1
    assert first not in [one.fact.statement for one in heard(first, "Okay.", then)[1]]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("I live in Rome. Where can I get a pizza?", "forget that, I'm not hungry"),
        ("I live in Rome.", "forget that, let's talk about Paris"),
        ("I live in Rome.", "I forget that all the time"),
        ("I live in Rome and I like tea.", "Ignore what I said about my brother."),
        ("I live in Rome.", "never mind"),
        ("I live in Rome.", "skip the boring part"),
    ],
)
def test_a_request_that_is_taken_back_leaves_what_was_stated(first: str, then: str) -> None:
    assert denied(first, "Okay.", then) == []


@pytest.mark.parametrize(
    ("asked", "answer", "expected"),
    [
        ("Great. Where do you live?", "Berlin.", [("lives_in", "berlin")]),
        ("How old are you? Some museums are free.", "19", [("age", "19")]),
        ("And do you have any allergies I should know of?", "Yes, nuts and sesame", [("allergic_to", "nuts"), ("allergic_to", "sesame")]),
        ("What's your name, by the way?", "mert", [("name", "mert")]),
        ("What do you do for a living?", "I'm a nurse", [("job", "nurse")]),
        ("What is your budget?", "50 euros max", [("budget", "50 euros")]),
        ("Where does your mum live?", "Rome", [("mum_lives_in", "rome")]),
        ("Wo wohnst du denn?", "In Leipzig", [("lives_in", "leipzig")]),
        ("Was magst du gern?", "Klettern und Kino", [("likes", "klettern"), ("likes", "kino")]),
        ("Où habitez-vous ?", "Lyon", [("lives_in", "lyon")]),
        ("¿Tienes alguna alergia?", "sí, al marisco", [("allergic_to", "marisco")]),
        ("¿Cómo te llamas?", "Inés", [("name", "inés")]),
        ("你住在哪里？", "上海", [("lives_in", "上海")]),
        ("お名前は何ですか？", "田中です", [("name", "田中")]),
    ],
)  # fmt: skip
def test_an_answer_of_a_word_or_two_is_learnt_by_its_question(
    asked: str, answer: str, expected: list[tuple[str, str]]
) -> None:
    found = heard("hi", asked, answer)[1]
    assert [(one.fact.predicate, one.fact.object) for one in found] == expected
    assert all(one.fact.object in answer[slice(*one.fact.span)].casefold() for one in found)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Where do you live?", "why do you ask?"),
        ("Where do you live?", "not in Berlin"),
        ("Where do you live?", "I'd rather not say"),
        ("Do you have any allergies?", "No"),
        ("Where do you want it delivered?", "Rome"),
        ("Where do you live? And how old are you?", "Berlin"),
        ("So you're vegetarian, right?", "Yes, exactly."),
        ("You live in Rome.", "Berlin"),
        ("What does she like?", "gardening"),
    ],
)
def test_what_answers_nothing_or_only_assents_states_nothing(asked: str, answer: str) -> None:
    assert heard("hi", asked, answer)[1] == []


PLAY = "Let's play: I am the patient, you are the doctor."


@pytest.mark.parametrize(
    "opening",
    [
        PLAY,
        "You are a hotel receptionist and I'm a guest with a complaint.",
        "Can we roleplay a job interview?",
        "Lets act: I am the pirate.",
        "Juego de rol: yo soy el paciente.",
        "let's write a story together. I am Captain Flint",
        "Du bist der Arzt und ich bin der Patient.",
        "你当老师，我当学生。",
    ],
)
def test_what_is_said_in_a_part_is_nobodys_statement_until_the_play_ends(opening: str) -> None:
    play = (opening, "Good morning.", "I'm allergic to penicillin and I live in Bristol.", "I see.")
    assert stated(*play[:3]) == [] and stated(*play, "I am 67 years old.") == []
    assert stated(*play, "ok, let's stop here. I'm from Poland.") == [("user", "comes_from", "poland")]
    assert stated(*play, "ok stop. end of roleplay. I am from Poland") == [("user", "comes_from", "poland")]
    assert stated(*play, "Ok Rollenspiel Ende. Ich wohne übrigens in Kiel") == [("user", "lives_in", "kiel")]
    assert stated(*play, "let's stop here", "Okay.", "I'm from Poland.") == [("user", "comes_from", "poland")]
    assert stated(*play, "(in real life I'm from Poland)", "Ah.", "I am 67 years old.") == []


@pytest.mark.parametrize(
    "opening",
    [
        "You are an expert nutritionist.",
        "You are a helpful tutor and I'm a beginner.",
        "Act as an interviewer for a data job.",
        "I love role-playing games like Zelda.",
        "Let's play chess!",
    ],
)
def test_who_gives_the_model_a_part_still_speaks_of_themselves(opening: str) -> None:
    assert stated(opening, "Gladly.", "I live in Izmir.") == [("user", "lives_in", "izmir")]


MAIL = "My name is Peter Holm and I live in Aarhus. My sister Ida takes over the rent, I am off to Spain."


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        ("I'll paste the mail from my landlord now, tell me what he wants", "Go ahead."),
        ("here comes my friend's message", "Sure."),
        ("Can you sum up a letter?", "Of course, please paste the letter here."),
        ("Ich schicke dir gleich die Mail von meinem Vermieter", "Gern."),
        ("我把邮件发给你，你看看。我发一封邮件", "好的"),
    ],
)
def test_a_text_that_was_announced_is_nobodys_statement(first: str, answer: str) -> None:
    assert stated(first, answer, MAIL) == []
    assert stated(first, answer, MAIL, "He wants money.", "I live in Copenhagen.") == [
        ("user", "lives_in", "copenhagen")
    ]


def test_a_word_before_it_does_not_part_an_announcement_from_its_text() -> None:
    assert stated("I'll paste his mail now", "Go ahead.", "ok, one sec", "Sure.", MAIL) == []
    assert stated("I'll share the document with Wyatt.", "Good.", MAIL) != []


def test_what_is_only_supposed_goes_on_being_so_until_something_real_is_told() -> None:
    supposed = ("Let's say I moved to Zurich. What would I pay?", "2,500.", "and I have two kids", "3,500.")
    assert stated(*supposed[:3]) == []
    assert stated(*supposed, "And my salary is 150,000 francs.") == []
    assert stated(*supposed, "and in reality my salary is 48,000 euros") == [("user", "salary", "48,000 euros")]
    assert stated(*supposed, "I live in Basel.") == [("user", "lives_in", "basel")]


def test_what_is_told_of_a_case_that_was_just_put_is_not_so() -> None:
    case = ("imagine I won 5 million euros", "Congratulations!")
    assert stated(*case, "I buy a house in Nice and I quit my job") == []
    assert heard(*case, "I buy a house in Nice and I quit my job")[1] == []
    assert stated(*case, "actually I live in Basel") == [("user", "lives_in", "basel")]


def test_each_puts_right_what_they_said_themselves() -> None:
    talk = Talk().after("user", "I live in Porto.", "Ana").after("user", "I live in Braga.", "Bruno")
    (one,) = talk.stated("sorry, Faro", said_at=WEDNESDAY, speaker="Ana")
    assert (one.fact.subject, one.fact.object) == ("ana", "faro")


def test_a_tools_output_changes_nothing_and_a_thank_you_leaves_what_was_said() -> None:
    turns = ("I live in Cologne.", "Okay.", "thanks!", "Sure.", "oh sorry, Bonn")
    assert stated(*turns) == [("user", "lives_in", "bonn")]
    talk = Talk().after("user", "I live in Cologne.").after("tool", "Where do you live?")
    assert talk.said[0].last().text == "I live in Cologne." and talk.asked == ""


def test_facts_of_the_turn_itself_come_first() -> None:
    found: list[Fact] = [one.fact for one in heard("I live in Rome.", "Okay.", "Sorry, Milan. I like tea.")[1]]
    assert [(one.predicate, one.object) for one in found] == [("likes", "tea"), ("lives_in", "milan")]


@pytest.mark.parametrize(
    "part", ["sorry, ", "no ", "forget ", "let's say I ", "you are the doctor ", "I am the patient ", "我演", "not in "]
)
def test_hostile_text_ends(part: str) -> None:
    long = (part * 2_000)[:2_000]
    assert len(heard(long, long, long)[1]) < 50


def test_what_was_said_is_read_only_where_the_next_turn_means_it() -> None:
    talk = Talk().after("user", "My flight is on Monday.").after("assistant", "Noted.")

    assert not list(talk.stated("Which shoes do I take along?", said_at=WEDNESDAY))
    assert talk.said[0].read is None
    assert list(talk.stated("Sorry, Tuesday.", said_at=WEDNESDAY))
    assert talk.said[0].read is not None


SAID = st.sampled_from(
    [
        "My flight is on Monday.", "Sorry, Tuesday.", "no, on Friday", "just kidding", "thanks!", "I live in Cologne, and you?",
        "oh wait, I meant Bonn", "Berlin", "Let's role-play: you are the doctor and I am the patient.", "End of the role play.",
        "Suppose I live in Paris.", "And what if I had a dog?", "I'll paste an e-mail from my boss.", "Forget that, please.",
        "Where do you live?", "I prefer tea. No, coffee.", "", "My name is Jon.", "it's John, with an h",
    ]
)  # fmt: skip
TURNS = st.lists(
    st.tuples(st.sampled_from(["user", "user", "assistant"]), SAID, st.sampled_from(["Ana", None])), max_size=12
)


@given(TURNS, SAID, st.sampled_from(["Ana", None]))
@settings(max_examples=150, deadline=None)
def test_what_is_read_late_is_what_was_read_at_once(
    turns: list[tuple[str, str, str | None]], then: str, name: str | None
) -> None:
    late, at_once = Talk(), Talk()
    for number, (role, text, speaker) in enumerate(turns):
        late = late.after(role, text, speaker, UUID(int=number))
        at_once = at_once.after(role, text, speaker, UUID(int=number))
        for one in at_once.said:
            one.last()

    assert list(late.stated(then, said_at=WEDNESDAY, speaker=name)) == list(
        at_once.stated(then, said_at=WEDNESDAY, speaker=name)
    )


def test_a_thousand_short_turns_later_what_was_said_is_put_right() -> None:
    talk = Talk().after("user", "My flight is on Monday.")
    for _ in range(1_200):
        talk = talk.after("user", "ok")

    facts = [one.fact for one in talk.stated("Sorry, Tuesday.", said_at=WEDNESDAY)]

    assert ("flight", "time", "tuesday") in [(fact.subject, fact.predicate, fact.object) for fact in facts]
