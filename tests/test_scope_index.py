"""One scope's index: what it finds, what it must not show, and that its history does not matter."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory.model import Injections
from memory.read.index import ScopeIndex, Scored
from memory.read.items import PAST, Filter, IndexItem
from memory.read.words import date_words
from policies import ranking
from policies.admission import Features, Verdict
from policies.labels import Sensitivity

DIM = 8
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACE = UUID(int=7)
EVERYTHING = Filter()


def unit(seed: int) -> NDArray[np.float32]:
    vector = np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)
    result: NDArray[np.float32] = vector / np.linalg.norm(vector)
    return result


def item(name: str, content: str, *, vectors: NDArray[np.float32] | None = None, **changes: Any) -> IndexItem:
    rows = unit(sum(content.encode("utf-8", "surrogatepass")))[None, :] if vectors is None else vectors
    cuts = [number * len(content) // max(len(rows), 1) for number in range(len(rows) + 1)]
    return replace(
        IndexItem(
            memory_id=uuid5(SPACE, name),
            kind="episodic",
            role="user",
            content=content,
            context="",
            occurred_at=NOW - timedelta(days=1),
            session_id=uuid5(SPACE, "session"),
            seq=0,
            integrity="user",
            sensitivity="internal",
            importance=0.5,
            expires_at=None,
            scope_id=1,
            source_ids=(name,),
            event_ids=(uuid5(SPACE, name + "/event"),),
            windows=tuple(pairwise(cuts)),
            vectors=rows,
        ),
        **changes,
    )


def index_of(*items: IndexItem) -> ScopeIndex:
    index = ScopeIndex(DIM)
    for one in items:
        index.put(one)
    return index


def names(found: list[Scored]) -> list[str]:
    return [hit.item.source_ids[0] for hit in found]


def ask(index: ScopeIndex, query: str, where: Filter = EVERYTHING, **more: Any) -> list[str]:
    return names(index.search(query, more.pop("vector", None), more.pop("k", 10), now=NOW, where=where, **more))


# ---------------------------------------------------------------- what it finds


def test_the_turn_that_says_it_comes_first_on_both_rungs() -> None:
    bowl = item("bowl", "The bicycle keys are in the blue bowl")
    index = index_of(bowl, item("rate", "Interest rates rose again"))
    assert ask(index, "where are my bicycle keys?")[0] == "bowl"
    vector = bowl.vectors[0]
    assert ask(index, "where are my bicycle keys?", vector=vector)[0] in {"bowl", "rate"}
    assert ask(index, "nothing known", vector=unit(sum(b"Interest rates rose again")))[0] == "rate"


def test_a_long_turn_is_as_good_as_its_best_window_and_names_it() -> None:
    vectors = np.stack([unit(1), unit(2), unit(3)])
    long = item("long", "a" * 30 + " " + "b" * 30 + " " + "c" * 28, vectors=vectors)
    found = index_of(long, item("other", "unrelated")).search("", unit(2), 2, now=NOW, where=EVERYTHING)
    assert names(found)[0] == "long"
    assert found[0].best_window == long.windows[1]


def test_a_short_answer_is_found_by_the_question_before_it() -> None:
    answer = item("answer", "Lisbon, in spring", context="Where did you learn to surf?")
    index = index_of(answer, item("noise", "Spring cleaning is tedious"), item("more", "I like trains"))
    assert ask(index, "learn surf")[0] == "answer"


def test_a_long_reply_of_the_model_stands_behind_the_person_it_repeats() -> None:
    words = " ".join(f"w{n}" for n in range(300))
    index = index_of(
        item("reply", "Your budget is 900 euros. " * 40 + words, role="assistant"),
        item("said", "My budget is 900 euros, and I would rather not go over it"),
    )
    assert ask(index, "what is my budget in euros?")[0] == "said"


def test_a_date_in_the_question_finds_what_was_said_then() -> None:
    then = datetime(2023, 5, 7, tzinfo=UTC)
    index = index_of(item("then", "We met", occurred_at=then), item("now", "We met there", occurred_at=NOW))
    assert ask(index, "what happened on 7 May 2023?")[0] == "then"
    assert date_words(then) == "7 May 2023"
    assert date_words(None) == ""


def test_the_newer_of_two_equals_comes_first() -> None:
    old, new = NOW - timedelta(days=9), NOW - timedelta(days=2)
    index = index_of(item("old", "blue", occurred_at=old), item("new", "Blue ocean", occurred_at=new))
    assert ask(index, "zebra") == ["new", "old"]


def test_what_the_named_person_said_comes_before_what_others_said() -> None:
    index = index_of(
        item("other", "Tom: I adopted a kitten", speaker="Tom"),
        item("hers", "Ada Byron: A kitten!", speaker="Ada Byron"),
    )
    vector = unit(5)
    assert ask(index, "What did Ada Byron say about the kitten?", vector=vector)[0] == "hers"
    assert ask(index, "What did Tom adopt?", vector=vector)[0] == "other"
    index.remove(uuid5(SPACE, "hers"))  # nobody else is left to tell apart
    assert index.prepare("What did Tom adopt?", now=NOW, where=EVERYTHING).named is None


def test_words_written_with_vowel_signs_are_words() -> None:
    said = [
        "मेरी बहन दिल्ली में रहती है",
        "कल हम बाजार गए थे और आम खरीदे",
        "मुझे शाम को चाय पीना पसंद है",
        "भाई का जन्मदिन मार्च में आता है",
    ]
    index = index_of(*(item(text, text) for text in said))
    found = index.search("बहन कहाँ रहती है", None, 10, now=NOW, where=EVERYTHING)
    assert names([hit for hit in found if hit.admitted]) == said[:1]
    unrelated = index.search("नींद नहीं आती", None, 10, now=NOW, where=EVERYTHING)  # "I cannot sleep"
    assert not any(hit.admitted for hit in unrelated)


@pytest.mark.parametrize(
    ("said", "others", "asked"),
    [
        ("ខ្ញុំរស់នៅភ្នំពេញ", ("ទូករបស់ខ្ញុំឈ្មោះហាល់ស៊ីអន", "រថយន្តរបស់ខ្ញុំពណ៌ក្រហម"), "តើខ្ញុំរស់នៅឯណា"),
        ("ကျွန်တော်မန္တလေးမြို့မှာနေတယ်", ("ကျွန်တော့်ကားကအနီရောင်", "ခွေးကကြက်သားနဲ့မတည့်ဘူး"), "ဘယ်မြို့မှာနေလဲ"),
    ],
    ids=["Khmer", "Burmese"],
)
def test_what_is_written_without_spaces_is_found_by_a_part_of_it(said: str, others: Sequence[str], asked: str) -> None:
    index = index_of(*(item(text, text) for text in (*others, said)))
    found = index.search(asked, None, 10, now=NOW, where=EVERYTHING)
    assert names(found)[0] == said
    assert found[0].parts["lexical"] > found[1].parts["lexical"]


@pytest.mark.parametrize(
    ("name", "asked", "is_named"),
    [
        ("राहुल", "राहुल ने क्या खरीदा", True),
        ("राहुल", "वह हीरा लो", False),  # "take that diamond": it holds the letters
        ("José", "What did Jose buy?", True),
        ("Jose\u0301", "What did José buy?", True),
        ("Will", "Will it fly?", False),
        ("Will", "Where did Will buy it?", True),
        ("Will Byron", "Will Byron buy it?", True),
        ("Me", "Tell me what it costs", False),
    ],
)
def test_a_speaker_is_named_by_the_whole_name_however_it_is_encoded(name: str, asked: str, is_named: bool) -> None:
    index = index_of(item("his", "A kite", speaker=name), item("hers", "A kite", speaker="Ada"))
    assert (index.prepare(asked, now=NOW, where=EVERYTHING).named is not None) is is_named


def test_a_question_about_one_who_never_said_it_is_less_likely_to_be_answered() -> None:
    said = [item(f"t{n}", f"Tom: my kitten number {n} sleeps", speaker="Tom") for n in range(40)]
    other = [item(f"a{n}", f"Ada: the weather on day {n} is fine", speaker="Ada") for n in range(40)]
    index, vector = index_of(*said, *other), unit(1)
    chances = [
        max(hit.parts["admission"] for hit in index.search(query, vector, 5, now=NOW, where=EVERYTHING))
        for query in ("Where does the kitten of Tom sleep?", "Where does the kitten of Ada sleep?")
    ]
    assert chances[0] > chances[1]


def test_the_newer_of_two_values_comes_first_when_one_is_asked_for() -> None:
    near = unit(9)[None, :]
    old = item("old", "The sprint deadline is April 1, please plan the sprint", vectors=near)
    new = item("new", "We moved the sprint deadline, it is April 5", vectors=near, occurred_at=NOW)
    index = index_of(old, new, item("rate", "Interest rates rose again"))
    assert ask(index, "When is the sprint deadline to plan?", vector=near[0])[:2] == ["new", "old"]
    assert ask(index, "When was the first sprint deadline to plan?", vector=near[0])[:2] == ["old", "new"]


def test_a_value_that_was_taken_back_is_not_given_for_todays() -> None:
    near, first = unit(9)[None, :], "The sprint deadline is April 1, please plan the sprint"
    asked = "When is the sprint deadline to plan?"
    before = item("before", first, vectors=near, occurred_at=NOW - timedelta(days=60), context=asked)  # ranks first
    moved = item("moved", "We moved the sprint deadline, it is April 5", vectors=near)
    again = item("again", first.upper(), vectors=near, occurred_at=NOW)
    found = index_of(before, moved, again).search(asked, near[0], 10, now=NOW, where=EVERYTHING)
    assert names(found) == ["again", "moved"]
    assert [hit.later for hit in found] == [None, again.memory_id]
    assert found[0].folded == (before.memory_id,)
    then = "What was the sprint deadline to plan at first?"
    assert ask(index_of(before, moved, again), then, vector=near[0])[0] == "before"
    echoed = replace(again, role="assistant")
    assert ask(index_of(before, moved, echoed), asked, vector=near[0])[:2] == ["moved", "before"]


def test_standing_instructions_take_a_few_places_whatever_is_asked() -> None:
    talk = [item(f"t{n}", f"On day {n} the weather was fine") for n in range(30)]
    talk.append(item("t", "The garden needs much water"))
    rules = [item(f"rule{n}", f"Always show diagram {n} when I ask about geometry") for n in range(6)]
    found = ask(index_of(*talk, *rules), "How much water does the garden need?", vector=unit(77), k=10)
    assert 0 < sum(name.startswith("rule") for name in found) <= ranking.STANDING_MAX
    assert found[0].startswith("t")


def test_of_equal_standing_instructions_the_latest_take_the_places_however_they_were_loaded() -> None:
    talk = [item(f"t{n}", f"On day {n} the weather was fine", role="assistant") for n in range(30)]
    rules = [
        item(f"rule{n}", f"Always show diagram {n} when I ask about geometry", occurred_at=NOW - timedelta(days=n))
        for n in range(6)
    ]
    for loaded in (rules, rules[::-1]):
        found = index_of(*talk, *loaded).search("Does the garden need water?", None, 10, now=NOW, where=EVERYTHING)
        assert names([hit for hit in found if hit.parts["standing"]]) == ["rule0", "rule1", "rule2"]


def test_a_models_words_are_not_held_back_where_they_are_asked_for() -> None:
    long = "You could plan the sprint in two halves and test each. " * 30
    index = index_of(item("model", long, role="assistant"), item("person", "Help me plan the sprint in halves"))
    vector = unit(77)
    assert ask(index, "plan the sprint in halves", vector=vector)[0] == "person"
    scores = [
        {hit.item.role: hit.score for hit in index.search(query, vector, 2, now=NOW, where=EVERYTHING)}["assistant"]
        for query in ("How should I plan the sprint in halves?", "How did you suggest I plan the sprint in halves?")
    ]
    assert scores[1] > scores[0]


def test_the_same_words_are_shown_once() -> None:
    index = index_of(
        item("one", "Call the bank."), item("two", "call  the BANK"), item("three", "Do not call the bank.")
    )
    found = index.search("call bank", None, 10, now=NOW, where=EVERYTHING)
    assert len(found) == 2
    assert {len(hit.folded) for hit in found} == {0, 1}
    asked = index.prepare("call bank", now=NOW, where=EVERYTHING)
    alike = {hit.item.source_ids: index.same_words(hit.item.memory_id, asked) for hit in found}
    assert alike[("three",)] == ()
    assert sorted(map(len, alike.values())) == [0, 1]


@pytest.mark.parametrize("vector", [None, unit(1)])
def test_what_is_said_every_day_hides_nothing_else(vector: NDArray[np.float32] | None) -> None:
    daily = [item(f"d{n}", "Check the server, please", occurred_at=NOW - timedelta(days=n)) for n in range(200)]
    index = index_of(*daily, item("disk", "The server runs again"), item("cause", "Its disk was full"))
    assert ask(index, "check the server", k=3, vector=vector) == ["d0", "disk", "cause"]
    assert len(ask(index, "check the server", vector=vector)) == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Call the bank.", "Please call a bank!", True),
        ("Hello", "Hi, please", False),
        ("Alice lent Bob a book", "Bob lent Alice a book", False),
        ("I left him", "He left me", False),
        ("I do drink tea", "I do not drink tea", False),
        ("The train goes at 5", "The train goes at 6", False),
        ("**Call** the “bank” – now…", "call the bank, now", True),
        ("Ich sage „ja“", "ich sage »ja«", True),
        ("銀行に電話する。", "銀行に電話する", True),
        ("I love it ❤️", "I love it \u2764", True),
        ("Alert when x < 5", "Alert when x > 5", False),
        ("It is 5 °C outside", "It is -5 °C outside", False),
        ("Add 1/2 of it", "Add 1-2 of it", False),
        ("We write it in C", "We write it in C++", False),
        ("We write it in C", "We write it in C#", False),
        ("It costs $5", "It costs €5", False),
        ("The rate is 5", "The rate is 5%", False),
        ("The new design 👍", "The new design 👎", False),
        ("वह जाता है", "वह जाती है", False),
        ("ฉันไปหาป้า", "ฉันไปหาป่า", False),
    ],
)
def test_only_articles_politeness_and_punctuation_say_nothing(one: str, other: str, same: bool) -> None:
    index = index_of(item("one", one), item("other", other))
    assert len(index.search(one, unit(1), 10, now=NOW, where=EVERYTHING)) == (1 if same else 2)


# ---------------------------------------------------------------- what it must not show


@pytest.mark.parametrize(
    ("hidden", "where"),
    [
        (item("x", "secret plan", kind="working"), Filter(kinds=frozenset({"episodic"}))),
        (item("x", "secret plan", role="tool"), Filter(roles=frozenset({"user"}))),
        (item("x", "secret plan", scope_id=9), Filter(scope_ids=frozenset({1}))),
        (item("x", "secret plan", sensitivity="secret"), Filter(ceiling=Sensitivity.INTERNAL)),
        (item("x", "secret plan", session_id=UUID(int=1)), Filter(session_id=uuid5(SPACE, "session"))),
        (item("x", "secret plan", session_id=None), Filter(session_id=uuid5(SPACE, "session"))),
        (item("x", "secret plan", occurred_at=NOW - timedelta(days=9)), Filter(occurred_after=NOW - timedelta(days=2))),
        (item("x", "secret plan", occurred_at=NOW), Filter(occurred_before=NOW - timedelta(hours=1))),
        (item("x", "secret plan", occurred_at=None), Filter(occurred_before=NOW)),
        (item("x", "secret plan", occurred_at=None), Filter(occurred_after=NOW - timedelta(days=999))),
        (item("x", "secret plan", expires_at=NOW), EVERYTHING),
        (item("x", "secret plan", expires_at=NOW + timedelta(days=1)), Filter(unexpired_at=NOW + timedelta(days=2))),
        (item("x", "secret plan", attributes={"topic": "work"}), Filter(attributes={"topic": "home"})),
        (item("x", "secret plan", attributes={"rank": True}), Filter(attributes={"rank": 1})),
        (item("x", "secret plan", attributes={"tags": ["a"]}), Filter(attributes={"tags": "a"})),
        (item("x", "secret plan"), Filter(exclude_memory_ids=frozenset({uuid5(SPACE, "x")}))),
        (item("x", "secret plan"), Filter(exclude_event_ids=frozenset({uuid5(SPACE, "x/event")}))),
        (item("x", "secret plan"), EVERYTHING.without([uuid5(SPACE, "x")])),
    ],
)
def test_what_a_filter_hides_is_never_a_candidate(hidden: IndexItem, where: Filter) -> None:
    index = index_of(hidden, item("seen", "a plan", attributes=where.attributes or {}))
    assert ask(index, "secret plan", where) == ["seen"]
    assert ask(index, "secret plan", where, vector=hidden.vectors[0]) == ["seen"]


def test_a_question_about_a_time_is_given_what_was_said_then() -> None:
    old = [item(f"o{n}", f"We painted the {n} fence", occurred_at=NOW - timedelta(days=40 + n)) for n in range(70)]
    then = item("then", "The plumber came at nine", occurred_at=NOW - timedelta(days=1))
    (first, *_) = index_of(*old, then).search(
        "What happened yesterday?", then.vectors[0] * 0.1, 5, now=NOW, where=EVERYTHING
    )
    assert first.item.source_ids == ("then",)
    assert first.admitted
    assert first.parts["in_time"] == 1.0
    polite = index_of(*old, then).search("How are you today?", then.vectors[0] * 0.1, 5, now=NOW, where=EVERYTHING)
    assert not any(hit.admitted for hit in polite)


@pytest.mark.parametrize("wrong", [datetime(2099, 6, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_a_turn_that_is_dated_wrongly_moves_no_other_time(wrong: datetime) -> None:
    then = item("then", "The plumber came at nine", occurred_at=datetime(2025, 12, 30, 9, tzinfo=UTC))
    index = index_of(then, item("other", "We painted the fence"), item("wrong", "We met", occurred_at=wrong))
    for asked in ("What happened on 30 December?", "What happened last December?", "What happened 61 days ago?"):
        found = index.search(asked, None, 5, now=NOW, where=EVERYTHING)
        assert names([hit for hit in found if hit.parts["in_time"]]) == ["then"]


@pytest.mark.parametrize("query", ["What did I say on December 28?", "What did I say in December?"])
def test_what_is_dated_to_the_end_of_the_calendar_ends_no_search(query: str) -> None:
    late = item("late", "The tide turns at nine", occurred_at=datetime.max.replace(tzinfo=UTC))
    assert set(ask(index_of(late, item("rate", "Interest rates rose again")), query)) == {"late", "rate"}


def test_what_people_said_of_a_memory_decides_between_near_equals() -> None:
    near = "The harbour café opens at nine"
    equals = [item(name, f"{near} {name}", occurred_at=NOW) for name in ("plain", "good", "bad", "weighed")]
    vector = equals[0].vectors
    marked = [
        replace(equals[0], vectors=vector),
        replace(equals[1], vectors=vector, validation_status="confirmed"),
        replace(equals[2], vectors=vector, validation_status="disputed"),
        replace(equals[3], vectors=vector, importance=1.0),
    ]
    assert ask(index_of(*marked), "When does the harbour café open?", vector=vector[0]) == [
        "weighed",
        "good",
        "plain",
        "bad",
    ]


def test_hidden_items_do_not_take_places_of_visible_ones() -> None:
    index = index_of(*(item(f"h{n}", "plan plan plan", scope_id=2) for n in range(50)), item("seen", "one plan"))
    assert ask(index, "plan", Filter(scope_ids=frozenset({1})), k=1) == ["seen"]


def test_names_that_no_item_has_let_nothing_through() -> None:
    index = index_of(item("x", "plan"))
    assert ask(index, "plan", Filter(kinds=frozenset())) == []
    assert ask(index, "plan", Filter(kinds=frozenset({"document"}))) == []
    assert ask(index, "plan", Filter(scope_ids=frozenset())) == []


def test_a_document_of_one_conversation_is_seen_by_that_one_alone() -> None:
    ours, theirs = uuid5(SPACE, "ours"), uuid5(SPACE, "theirs")
    index = index_of(
        item("kept", "the boat plan", kind="document", session_id=ours, attributes={"saved": "session"}),
        item("open", "the boat plan of all", kind="document", session_id=None),
    )
    assert ask(index, "boat plan") == ["open"]
    assert ask(index, "boat plan", Filter(in_session_id=theirs)) == ["open"]
    assert ask(index, "boat plan", Filter(exclude_session_id=theirs)) == ["open"]
    assert set(ask(index, "boat plan", Filter(in_session_id=ours))) == {"kept", "open"}
    assert ask(index, "boat plan", Filter(session_id=ours)) == ["kept"]


def test_a_conversation_that_the_prompt_holds_still_has_its_documents_and_files() -> None:
    ours = uuid5(SPACE, "ours")
    index = index_of(
        item("turn", "I asked for the boat plan", session_id=ours),
        item("kept", "the boat plan", kind="document", session_id=ours, attributes={"saved": "session"}),
        item("file", "File boat-plan.png", kind="semantic", session_id=ours, attributes={"artifact": {"name": "x"}}),
    )
    assert set(ask(index, "boat plan", Filter(exclude_session_id=ours))) == {"kept", "file"}


def test_a_removed_item_is_gone_from_words_vectors_and_filters() -> None:
    gone = item("gone", "zebra")
    index = index_of(gone, item("kept", "horse"))
    assert index.remove(gone.memory_id)
    assert not index.remove(gone.memory_id)
    assert gone.memory_id not in index
    assert ask(index, "zebra", vector=gone.vectors[0]) == ["kept"]


def test_what_was_taken_out_while_a_search_was_prepared_is_not_found() -> None:
    gone, kept = item("gone", "zebra stripes"), item("kept", "zebra")
    index = index_of(gone, kept)
    prepared = index.prepare("zebra", now=NOW, where=EVERYTHING)
    assert set(names(index.rank(prepared, None, 10))) == {"gone", "kept"}
    index.remove(gone.memory_id)
    index.put(item("other", "a horse with zebra stripes"))  # takes the freed place
    assert set(names(index.rank(prepared, None, 10))) == {"other", "kept"}
    assert set(names(index_of(kept).rank(prepared, None, 10))) == {"kept"}  # nor in an index built anew


# ---------------------------------------------------------------- what it survives


def test_searching_leaves_the_counts_of_shared_objects_alone() -> None:
    """A kernel that gives away a reference it does not own ends the process after some ten thousand questions."""
    index = index_of(item("one", "zebra"), item("two", "horse"))
    vector = unit(3)
    index.search("zebra", vector, 10, now=NOW, where=EVERYTHING)
    gc.collect()
    gc.disable()  # what other tests left would take its references along
    try:
        before = sys.getrefcount(None)
        for _ in range(200):
            index.search("zebra", vector, 10, now=NOW, where=EVERYTHING)
        assert abs(sys.getrefcount(None) - before) < 100
    finally:
        gc.enable()


@pytest.mark.parametrize("query", ["", "🎉🎉", "\x00", "the of and", "\ud800", "!?", "x" * 100_000, "a b " * 25_000])
def test_any_query_is_answered(query: str) -> None:
    index = index_of(item("a", "some words"), item("b", "other 🎉 words"), item("c", ""))
    assert sorted(ask(index, query)) == ["a", "b", "c"]
    assert sorted(ask(index, query, vector=unit(1))) == ["a", "b", "c"]


def test_an_empty_index_and_no_places_give_nothing() -> None:
    assert ask(ScopeIndex(DIM), "anything", vector=unit(1)) == []
    assert ask(index_of(item("a", "x")), "x", k=0) == []
    index = index_of(item("a", "x"))
    index.remove(uuid5(SPACE, "a"))
    assert ask(index, "x", vector=unit(1)) == []


def test_vectors_of_a_wrong_shape_and_unknown_labels_are_refused_and_change_nothing() -> None:
    index = index_of(item("a", "before"))
    with pytest.raises(ValueError, match="vectors"):
        index.put(item("a", "after", vectors=np.zeros((1, DIM + 1), np.float32)))
    with pytest.raises(ValueError, match="vectors"):
        index.put(item("a", "after", windows=(), vectors=np.zeros((0, DIM), np.float32)))
    with pytest.raises(ValueError, match="topsecret"):
        index.put(item("a", "after", sensitivity="topsecret"))
    assert [hit.item.content for hit in index.search("", None, 1, now=NOW, where=EVERYTHING)] == ["before"]


@pytest.mark.parametrize(("letter", "each"), [("a", 1), ("é", 1), ("д", 2), ("语", 2), ("\U0001f600", 4)])
def test_bytes_held_are_those_of_the_letters(letter: str, each: int) -> None:
    index = ScopeIndex(DIM)
    empty = index.bytes_held
    index.put(item("short", letter))
    short = index.bytes_held
    index.put(item("short", letter + "!" * 99_999))
    assert index.bytes_held - short == pytest.approx(99_999 * each, rel=0.05)
    index.remove(item("short", letter).memory_id)
    assert index.bytes_held == pytest.approx(empty, abs=1)


def test_bytes_held_grow_with_what_is_held_and_shrink_with_it() -> None:
    index = ScopeIndex(DIM)
    empty = index.bytes_held
    for n in range(8):
        index.put(item(f"n{n}", f"words {n} " * 50))
    full = index.bytes_held
    for n in range(8):
        index.remove(uuid5(SPACE, f"n{n}"))
    assert empty + 8 * 50 * 8 < full
    assert index.bytes_held == empty


def test_what_only_finds_an_item_is_not_held_with_it() -> None:
    index = index_of(item("a", "It is blue.", context="What colour is the boat?"))
    (hit,) = index.search("boat", None, 1, now=NOW, where=EVERYTHING)
    assert hit.item.content == "It is blue."
    assert (hit.item.context, hit.item.vectors.size) == ("", 0)


# ---------------------------------------------------------------- its history does not matter

TEXTS = st.sampled_from(["red apple", "green apple?", "a green tree", "上海 apple", "", "RED apple", "long " * 40])
STEP = st.tuples(st.integers(0, 5), TEXTS, st.integers(1, 3), st.sampled_from(["user", "assistant"]))


def test_of_two_as_good_the_one_that_was_injected_comes_first_until_it_fades() -> None:
    better, worse = unit(1), unit(1) * 0.998 + unit(2) * 0.05
    items = [
        item(name, f"tent {name}", vectors=v[None, :] / np.linalg.norm(v)) for name, v in (("a", better), ("b", worse))
    ]
    index = index_of(*items, item("far", "boat", vectors=-better[None, :]))
    assert ask(index, "", vector=better)[:2] == ["a", "b"]
    index.count([Injections(items[1].memory_id, 10, NOW), Injections(UUID(int=99), 10, NOW)])
    assert ask(index, "", vector=better)[:2] == ["b", "a"]
    old = NOW - timedelta(days=365)
    index.count([Injections(items[1].memory_id, 10, old)])
    assert ask(index, "", vector=better)[:2] == ["a", "b"]


@pytest.mark.parametrize("vector", [unit(1), None])
def test_injections_never_lift_the_unrelated_over_the_related(vector: NDArray[np.float32] | None) -> None:
    related = item("related", "the tent is green", vectors=unit(1)[None, :])
    often = [item(f"n{n}", f"the cat sleeps {n}", injected=10**9, last_injected_at=NOW) for n in range(20)]
    found = index_of(related, *often).search("which tent", vector, 5, now=NOW, where=EVERYTHING)
    plain = index_of(related, *(replace(one, injected=0) for one in often))
    assert found[0].item.memory_id == related.memory_id
    first = plain.search("which tent", vector, 5, now=NOW, where=EVERYTHING)[0]
    assert (found[0].score, found[0].admitted) == (first.score, first.admitted)


def test_injections_are_no_reason_to_admit() -> None:
    one = item("n", "the cat sleeps", vectors=unit(5)[None, :])
    often = index_of(replace(one, injected=10**6, last_injected_at=NOW))
    for index in (index_of(one), often):
        (hit,) = index.search("which tent", unit(1), 5, now=NOW, where=EVERYTHING)
        assert not hit.admitted
    assert hit.parts["reinforcement"] == 1.0
    assert hit.score == pytest.approx(ranking.FULL.reinforcement)


def test_a_counter_that_came_late_is_as_one_that_came_with_its_memory() -> None:
    one = item("n", "tent", injected=3, last_injected_at=NOW - timedelta(days=3))
    late = index_of(replace(one, injected=0, last_injected_at=None))
    late.count([Injections(one.memory_id, 3, one.last_injected_at)])
    (hit,) = late.search("tent", unit(1), 1, now=NOW, where=EVERYTHING)
    (other,) = index_of(one).search("tent", unit(1), 1, now=NOW, where=EVERYTHING)
    assert (hit.item.injected, hit.score, hit.parts) == (3, other.score, other.parts)
    late.put(replace(one, injected=0, last_injected_at=None))  # its slot keeps nothing of the one before
    assert late.search("tent", unit(1), 1, now=NOW, where=EVERYTHING)[0].parts["reinforcement"] == 0.0


@settings(max_examples=150)
@given(st.lists(STEP, max_size=25), st.sampled_from(["green apple", "上海", "tree", ""]), st.booleans())
def test_an_index_kept_up_to_date_answers_like_one_built_anew(
    steps: list[tuple[int, str, int, str]], query: str, with_vector: bool
) -> None:
    kept, held = ScopeIndex(DIM), dict[int, IndexItem]()
    for number, content, windows, role in steps:
        if number in held and held[number].content == content:
            kept.remove(held.pop(number).memory_id)
            continue
        vectors = np.stack([unit(number * 10 + w) for w in range(windows)])
        when = NOW - timedelta(days=number + 1)
        held[number] = item(f"n{number}", content, vectors=vectors, role=role, occurred_at=when)
        kept.put(held[number])
    fresh = index_of(*(held[number] for number in sorted(held)))
    vector = unit(99) if with_vector else None
    one = kept.search(query, vector, 10, now=NOW, where=EVERYTHING)
    other = fresh.search(query, vector, 10, now=NOW, where=EVERYTHING)
    assert names(one) == names(other)
    assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-5)
    assert [hit.best_window for hit in one] == [hit.best_window for hit in other]
    assert len(kept) == len(fresh) == len(held)


def fact(name: str, content: str, *of: IndexItem, outdates: tuple[IndexItem, ...] = (), **about: str) -> IndexItem:
    return item(
        name,
        content,
        kind="semantic",
        event_ids=tuple(turn.event_ids[0] for turn in of),
        source_ids=tuple(turn.source_ids[0] for turn in of),
        outdates=tuple(turn.event_ids[0] for turn in outdates),
        attributes=about,
    )


def test_a_turn_speaks_for_the_facts_said_in_it() -> None:
    turn = item("turn", "My dog is called Rex, he is six")
    made = fact("fact", "The user has a dog called Rex", turn)
    for index in (index_of(turn, made), index_of(made, turn)):  # whichever comes first
        assert ask(index, "dog Rex user") == ["turn"]
        assert [hit.item.kind for hit in index.search("user", None, 9, now=NOW, where=EVERYTHING)] == ["episodic"]


def test_a_fact_stands_for_itself_where_its_turn_may_not_be_seen() -> None:
    turn, other = item("turn", "My dog is called Rex"), item("other", "no such thing")
    index = index_of(other, turn, fact("fact", "The dog is Rex", turn))
    for where in (Filter(kinds=frozenset({"semantic"})), EVERYTHING.without([turn.memory_id])):
        [found] = index.search("dog", None, 1, now=NOW, where=where)
        assert found.item.content == "The dog is Rex"
    index.remove(turn.memory_id)
    assert index.search("dog", None, 1, now=NOW, where=EVERYTHING)[0].item.content == "The dog is Rex"


def lisbon_and_porto(*more: IndexItem, **changes: Any) -> ScopeIndex:
    """Where somebody lives, and what they said before they moved. What they say now shares no word with a question."""
    old = item("old", "I live in Lisbon, where else would one live", occurred_at=NOW - timedelta(days=9))
    new = item("new", "Porto has been home since March", **changes)
    about = {"subject": "user", "predicate": "lives_in"}
    made = fact("porto", "The user lives in Porto", new, outdates=(old,), **about)
    return index_of(old, new, *more, replace(made, sensitivity=new.sensitivity))


def test_what_holds_goes_before_what_held_found_or_not() -> None:
    noise = [item(f"n{number}", f"people live in house number {number}") for number in range(20)]
    first, second, *_ = lisbon_and_porto(*noise).search("Where do I live?", None, 3, now=NOW, where=EVERYTHING)
    assert names([first, second]) == ["new", "old"]
    assert second.later == first.item.memory_id


def test_what_held_is_never_given_alone() -> None:
    def by_words(candidates: Sequence[Features]) -> list[Verdict]:
        return [Verdict(one.coverage > 0, 0.5, "by its words") for one in candidates]

    index = ScopeIndex(DIM, evaluate=by_words)
    for one in lisbon_and_porto()._items.values():
        index.put(replace(one, vectors=unit(3)[None, :]))
    found = index.search("Where do I live?", None, 5, now=NOW, where=EVERYTHING)
    assert [(hit.item.source_ids[0], hit.admitted) for hit in found] == [("new", True), ("old", True)]
    assert [hit.why for hit in found] == ["says now what an admitted one said before", "by its words"]


def test_what_held_in_between_is_not_given_without_what_holds_now() -> None:
    near = unit(9)[None, :]
    first = item(
        "first", "The sprint deadline is April 1, please plan it", vectors=near, occurred_at=NOW - timedelta(days=2)
    )
    moved = item("moved", "We moved the sprint deadline to April 5", vectors=near)
    back = item("back", "The sprint deadline is April 1 after all", vectors=near, occurred_at=NOW)

    def by_words(candidates: Sequence[Features]) -> list[Verdict]:
        return [Verdict(one.coverage > 0.9, 0.5, "by its words") for one in candidates]

    index = ScopeIndex(DIM, evaluate=by_words)
    for one in (first, moved, back):
        index.put(one)
    found = index.search("When is the sprint deadline to plan?", near[0], 5, now=NOW, where=EVERYTHING)
    later = {hit.item.source_ids[0]: hit.later for hit in found}
    assert later == {"first": moved.memory_id, "moved": back.memory_id, "back": None}
    assert [hit.item.source_ids[0] for hit in found if hit.why == "by its words" and hit.admitted] == ["first"]
    assert {hit.item.source_ids[0] for hit in found if hit.admitted} == {"first", "moved", "back"}


@pytest.mark.parametrize("query", ["Where did I live before?", "Who is called Lisbon?"])
def test_questions_about_the_past_or_about_something_else_are_left_alone(query: str) -> None:
    assert ask(lisbon_and_porto(), query)[0] == "old"


def test_what_may_not_be_seen_replaces_nothing() -> None:
    internal = Filter(ceiling=Sensitivity.INTERNAL)
    assert ask(lisbon_and_porto(sensitivity="secret"), "Where do I live?", internal) == ["old"]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=80, unique=True))
def test_the_dense_arm_is_the_exact_nearest(seeds: list[int]) -> None:
    items = [item(str(seed), f"n{seed}", vectors=unit(seed)[None, :]) for seed in seeds]
    query = unit(123_456)
    found = index_of(*items).search("", query, 5, now=NOW, where=EVERYTHING)
    exact = sorted(items, key=lambda one: -float(one.vectors[0] @ query))[:5]
    vectors = {one.memory_id: one.vectors[0] for one in items}
    got = [float(vectors[hit.item.memory_id] @ query) for hit in found]
    # The index holds vectors in steps of int8 (memory/read/dense.py), which for 8 numbers moves a product by up to
    # 7.4e-3 (20,000 pairs): two that differ by less than twice that may change places.
    assert got == pytest.approx([float(one.vectors[0] @ query) for one in exact], abs=1.5e-2)


def test_a_month_is_recalled_as_the_past_and_a_rolling_summary_only_where_summaries_are_asked_for() -> None:
    month = item("month", "a walk by the river", kind="summary", attributes={"month": "2026-03"})
    rolling = item("rolling", "one long walk along a river bank", kind="summary")
    index = index_of(month, rolling, item("turn", "we met at the river after my walk"))
    assert set(ask(index, "walk river", Filter(kinds=frozenset({"episodic", PAST})))) == {"month", "turn"}
    assert set(ask(index, "walk river", Filter(kinds=frozenset({"summary"})))) == {"month", "rolling"}
    assert set(ask(index, "walk river", Filter(kinds=frozenset({"episodic"})))) == {"turn"}


def test_what_has_taken_a_place_is_told_while_the_recall_thread_puts_it_anew() -> None:
    """The ledger asks on the event loop."""
    said, index = uuid5(SPACE, "said"), ScopeIndex(DIM)
    facts = [item(f"fact {at}", f"the boat is called Tern {at}", kind="semantic", outdates=(said,)) for at in range(8)]
    turn = item("turn", "the boat was sold")

    def read_on() -> None:
        for fact in facts * 100:
            index.remove(fact.memory_id)
            index.put(turn)
            index.put(fact)

    with ThreadPoolExecutor(1) as thread:
        reading, told = thread.submit(read_on), set()
        while not reading.done():
            told |= {one.memory_id for one in index.replacing([said])}
    assert told <= {fact.memory_id for fact in facts}
    assert len(index.replacing([said])) == len(facts)
