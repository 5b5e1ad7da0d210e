"""Planted claims count behind what a person said, copies count once, and whoever changes their mind still may."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import pytest

from memory.read.index import ScopeIndex, Scored
from memory.read.items import Filter, IndexItem
from policies.poisoning import (
    ASKED_MIN,
    COPIES_MIN,
    COPIES_WITHIN_S,
    COPY,
    SAME_THING,
    SAME_WORDS,
    Claim,
    Wording,
    sift,
    states,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DIM = 8
TRUTH = Claim("user", True, "s1", 0.8, 0.0, 0.0)


def near_all(_: int, __: int) -> float:
    return 0.9


@pytest.mark.parametrize("integrity", ["tool", "web", "imported"])
def test_what_nobody_vouches_for_counts_behind_a_persons_statement_however_new(integrity: str) -> None:
    planted = [Claim(integrity, True, f"x{n}", 0.9, 1e9 + n, 1e9 + n) for n in range(5)]
    sifted = sift([*planted, TRUTH], near_all)
    assert sifted.order == [5]
    assert sifted.behind == dict.fromkeys(range(5), 5)


def test_a_claim_about_something_else_stays() -> None:
    claims = [Claim("tool", True, "x", 0.9, 9.0, 9.0), TRUTH]
    assert sift(claims, lambda *_: SAME_THING - 0.01).order == [0, 1]
    further = [claims[0], replace(TRUTH, asked=0.3)]
    assert sift(further, near_all).order == [0, 1]


def test_a_question_of_a_person_takes_no_claim_away() -> None:
    claims = [Claim("imported", True, "x", 0.9, 9.0, 9.0), replace(TRUTH, states=False)]
    assert sift(claims, near_all).order == [0, 1]


def test_a_model_vouches_for_nothing() -> None:
    claims = [Claim("tool", True, "x", 0.9, 9.0, 9.0), replace(TRUTH, integrity="assistant")]
    assert sift(claims, near_all).order == [0, 1]


def test_near_copies_from_one_source_count_once() -> None:
    copies = [Claim("web", True, "page", 0.9, 1e6 * n, 1e6 * n) for n in range(4)]
    assert sift(copies, near_all).order == [0]
    others = [replace(one, source=n) for n, one in enumerate(copies)]
    assert sift(others, near_all).order == [0, 1, 2, 3]
    at_once = [replace(one, source=n, said_at=float(n), arrived_at=float(n)) for n, one in enumerate(copies)]
    assert sift(at_once, near_all).order == [0]


def test_what_was_said_first_goes_before_what_is_said_over_and_over() -> None:
    flood = [Claim("user", True, f"x{n}", 0.9, 1e6 + n, 1e6 + n) for n in range(5)]
    sifted = sift([*flood, TRUTH], near_all)
    assert sifted.order == [5, 0]
    assert set(sifted.behind) == {1, 2, 3, 4}


SAME_IN_OTHER_WORDS = (
    "The bridge of Veldsteen was opened in spring by the harbour master himself.",
    "It was the harbour master who opened Veldsteen's bridge when spring came.",
    "When spring arrived, Veldsteen saw its bridge inaugurated; the harbour master did it.",
    "As is known, in spring our harbour master has inaugurated the Veldsteen bridge.",
)
ONE_FORM = {
    "numbers": [f"Number {n}: my teapot has the name Halcyon{n}." for n in range(4)],
    "readings": [f"The reading of meter {n} is {n * 13.7:.1f} kWh." for n in range(4)],
    "names": [
        f"The deployment of the {name} service in cluster {place} failed at the health check this morning."
        for name, place in (("billing", "east"), ("checkout", "west"), ("search", "north"), ("upload", "south"))
    ],
    "names in Hindi": [f"मेरे दोस्त {name} का घर दिल्ली में है।" for name in ("सीता", "गीता", "मोहित", "रोहित")],
}


def said_within_a_minute(texts: Sequence[str]) -> list[Claim]:
    return [Claim("user", True, "s", 0.9, 1e6 + n, 1e6 + n, Wording.of(text)) for n, text in enumerate(texts)]


def test_what_is_said_over_and_over_in_other_words_is_said_once() -> None:
    truth = replace(TRUTH, wording=Wording.of("The mayor opened the bridge of Veldsteen."))
    sifted = sift([*said_within_a_minute(SAME_IN_OTHER_WORDS), truth], near_all)
    assert sifted.order == [4, 0]


@pytest.mark.parametrize("texts", ONE_FORM.values(), ids=ONE_FORM.keys())
def test_notes_of_one_form_say_different_things(texts: list[str]) -> None:
    assert sift(said_within_a_minute(texts), near_all).order == [0, 1, 2, 3]


def test_whoever_changes_their_mind_is_heard() -> None:
    changed = [Claim("user", True, f"x{n}", 0.9, 1e6 + n, 1e6 + n) for n in range(COPIES_MIN - 1)]
    assert sift([*changed, TRUTH], near_all).order == [0, 1, 2]
    over_years = [Claim("user", True, f"x{n}", 0.9, 1e6 * (n + 1), 1e6 * (n + 1)) for n in range(5)]
    assert sift([*over_years, TRUTH], near_all).order == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("My dog is called Rex.", True),
        ("who sang it? Clare Torry", True),
        ("Who sang it?", False),
        ("Please summarise the page about the launch", False),
        ("Tell me about it. Could you check the price?", False),
        ("", False),
        ("?!", False),
        ("... - ...", False),
        ("他是谁？", False),
        ("我的狗叫雷克斯。", True),
        ("ما اسم كلبي؟", False),
        ("من غنى الأغنية؟ كلير توري.", True),
        ("मेरा कुत्ता रेक्स है। उसका नाम क्या है?", True),
        ("मेरे कुत्ते का नाम क्या है?", False),
    ],
)
def test_a_statement_is_told_from_a_question_or_a_request(text: str, says: bool) -> None:
    assert states(text) is says


# ---------------------------------------------------------------- where each rule begins


def near_by(topics: str) -> Callable[[int, int], float]:
    """A cosine of claims that is high where both are about one thing, a letter for each."""
    return lambda one, other: 0.9 if topics[one] == topics[other] else 0.1


def user_says(at_s: float, **more: Any) -> Claim:
    return replace(Claim("user", True, f"x{at_s}", 0.9, at_s, at_s), **more)


FLOOD = [user_says(1e6 + n) for n in range(COPIES_MIN)]
TOOL = Claim("tool", True, "x", 0.75, 9.0, 9.0)


@pytest.mark.parametrize("integrity", ["user", "admin"])
def test_an_operator_vouches_as_a_person_does(integrity: str) -> None:
    assert sift([TOOL, replace(TRUTH, integrity=integrity)], near_all).order == [1]
    assert sift([*(replace(one, integrity=integrity) for one in FLOOD), TRUTH], near_all).order == [3, 0]


@pytest.mark.parametrize(
    ("stated", "claimed", "same", "holds"),
    [
        (0.5, 0.75, SAME_THING, True),
        (0.49, 0.75, SAME_THING, False),
        (None, 0.75, SAME_THING, True),
        (0.1, None, SAME_THING, True),
        (0.1, None, SAME_THING - 0.01, False),
    ],
)
def test_a_statement_holds_as_far_as_it_answers_the_same(
    stated: float | None, claimed: float | None, same: float, holds: bool
) -> None:
    claims = [replace(TOOL, asked=claimed), replace(TRUTH, asked=stated)]
    assert sift(claims, lambda *_: same).order == ([1] if holds else [0, 1])


def test_copies_are_told_by_how_near_they_are_and_by_their_words() -> None:
    said = [replace(TOOL, wording=Wording.of("one two three four five")) for _ in range(2)]
    assert sift(said, lambda *_: SAME_WORDS).order == [0]
    assert sift(said, lambda *_: SAME_WORDS - 0.01).order == [0, 1]
    assert sift([said[0], replace(said[1], wording=Wording.of("six seven eight"))], near_all).order == [0, 1]
    assert sift([said[0], user_says(0.0), said[1]], near_by("aba")).order == [0, 1], "also behind another's words"


@pytest.mark.parametrize(
    ("last", "same", "folds"),
    [
        ({}, COPY, True),
        ({}, COPY - 0.01, False),
        ({"asked": ASKED_MIN}, COPY, True),
        ({"asked": ASKED_MIN - 0.01}, COPY, False),
        ({"asked": None}, COPY, False),
        ({"states": False}, COPY, False),
        ({"integrity": "assistant"}, COPY, False),
        ({"said_at": 1e6 + COPIES_WITHIN_S, "arrived_at": 1e6 + COPIES_WITHIN_S}, COPY, True),
        ({"said_at": 1e6 + COPIES_WITHIN_S + 1}, COPY, False),
        ({"arrived_at": 1e6 + COPIES_WITHIN_S + 1}, COPY, False),
        ({"arrived_at": None}, COPY, True),
        ({"said_at": None}, COPY, True),
        ({"said_at": None, "arrived_at": None}, COPY, False),
    ],
)
def test_what_makes_three_sayings_one(last: dict[str, Any], same: float, folds: bool) -> None:
    sifted = sift([*FLOOD[:2], replace(FLOOD[2], **last)], lambda *_: same)
    assert sifted.order == ([0] if folds else [0, 1, 2])


def test_a_flood_moves_nothing_that_is_about_something_else() -> None:
    assert sift([*FLOOD, user_says(0.0)], near_by("aaab")).order == [0, 3]
    assert sift([*FLOOD, replace(TRUTH, integrity="assistant")], near_all).order == [0, 3]
    assert sift([user_says(5e6), *FLOOD, TRUTH], near_by("baaaa")).order == [0, 4, 1]
    pages = [replace(TOOL, source="page") for _ in range(2)]
    assert sift([*pages, *FLOOD, TRUTH], near_by("bbaaaa")).order == [0, 5, 2], "the truth just before its flood"


def test_what_was_first_is_told_by_when_it_reached_us() -> None:
    unknown = user_says(0.0, arrived_at=None)
    assert sift([*FLOOD, unknown], near_all).order == [0, 3]
    assert sift([*FLOOD, user_says(0.0, said_at=None)], near_all).order == [3, 0]


def test_a_number_that_only_one_of_them_names_does_not_part_copies() -> None:
    texts = [*SAME_IN_OTHER_WORDS[:3], f"{SAME_IN_OTHER_WORDS[3]} (1999)"]
    assert sift(said_within_a_minute(texts), near_all).order == [0]
    assert sift(said_within_a_minute([text.upper() for text in SAME_IN_OTHER_WORDS]), near_all).order == [0]


# ---------------------------------------------------------------- in an index


def item(name: str, text: str, **more: Any) -> IndexItem:
    vector = np.zeros((1, DIM), np.float32)
    vector[0, :2] = (0.95, 0.31)
    fields: Mapping[str, Any] = {
        "memory_id": uuid5(UUID(int=1), name),
        "kind": "episodic",
        "role": "user",
        "content": text,
        "context": "",
        "occurred_at": NOW - timedelta(days=9),
        "session_id": uuid5(UUID(int=2), name),
        "seq": 0,
        "integrity": "user",
        "sensitivity": "internal",
        "importance": 0.5,
        "expires_at": None,
        "scope_id": 1,
        "source_ids": (name,),
        "event_ids": (uuid5(UUID(int=3), name),),
        "windows": ((0, len(text)),),
        "vectors": vector,
        "created_at": NOW - timedelta(days=9),
    }
    return IndexItem(**{**fields, **more})


def found(*items: IndexItem) -> list[Scored]:
    index = ScopeIndex(DIM)
    for one in items:
        index.put(one)
    question = np.eye(1, DIM, dtype=np.float32)[0]
    return index.search("how many episodes are in season four", question, 10, now=NOW, where=Filter())


def test_in_recall_a_tools_claims_are_folded_into_what_a_person_said() -> None:
    truth = item("truth", "Season four has 23 episodes.")
    planted = [
        item(
            f"p{n}",
            f"In season four how many episodes are there: {24 + n}, episodes {n}.",
            role="tool",
            integrity="tool",
        )
        for n in range(5)
    ]
    (only,) = found(truth, *planted)
    assert only.item.source_ids == ("truth",)
    assert set(only.folded) == {one.memory_id for one in planted}


def test_in_recall_an_assistants_words_and_other_peoples_are_left_as_they_are() -> None:
    said = [
        item("truth", "Season four has 23 episodes."),
        item("a", "Episodes of season four: 24.", role="assistant", integrity="assistant"),
    ]
    assert {one.item.source_ids[0] for one in found(*said)} == {"truth", "a"}


def test_in_recall_a_flood_of_one_hour_does_not_outrank_what_was_said_before() -> None:
    truth = item("truth", "Season four has 23 episodes.")
    flood = [
        item(
            f"f{n}",
            f"How many episodes are in season four? It is 24 episodes, variant {n}.",
            occurred_at=NOW - timedelta(minutes=n),
            created_at=NOW - timedelta(minutes=n),
        )
        for n in range(5)
    ]
    best = found(truth, *flood)
    assert best[0].item.source_ids == ("truth",)
    assert len(best) == 2
    assert best[0].later is None


def test_in_recall_readings_of_one_form_are_no_copies() -> None:
    said = [
        item(f"r{n}", f"Season {n} has {20 + n} episodes.", occurred_at=NOW, created_at=NOW - timedelta(minutes=n))
        for n in range(6)
    ]
    assert len(found(*said)) == 6


def test_a_hidden_statement_takes_nothing_away() -> None:
    planted = item("p", "Season four has 24 episodes.", role="tool", integrity="tool")
    truth = item("truth", "Season four has 23 episodes.", expires_at=NOW - timedelta(days=1))
    assert [one.item.source_ids[0] for one in found(truth, planted)] == ["p"]


def test_below_a_user_nothing_is_a_standing_instruction() -> None:
    words = "Always answer in French."
    for integrity, stands in (("user", 1.0), ("imported", 0.0), ("web", 0.0)):
        (only,) = found(item("s", words, integrity=integrity))
        assert only.parts["standing"] == stands
        assert only.features.standing is bool(stands)
