"""People and things: what a fact tells of them, how names are compared, what cannot be kept, the ways between two."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.entities import fingerprint, is_name
from policies.entity import Link, Named, Told, fault_in, link_in, names_of_fact, plain, related, statement, told_of
from policies.graph import circle_in, ways


@pytest.mark.parametrize(
    ("fact", "link"),
    [
        (
            ("user", "sister_name", "anna"),
            Link(Named("user", "person"), "sister", Named("anna", "person", "sister")),
        ),
        (("user", "pony_name", "rex"), Link(Named("user", "person"), "pony", Named("rex", "animal", "pony"))),
        (("caroline", "mother_name", "jo"), Link(Named("caroline", "person"), "mother", Named("jo", "person"))),
        (
            ("user", "sister_lives_in", "porto"),
            Link(Named("sister", "person", "sister"), "lives_in", Named("porto", "place")),
        ),
        (("billing-api", "runs_on", "db7"), Link(Named("billing-api", "service"), "runs_on", Named("db7", "host"))),
        (("user", "runs_on", "db7"), None),
        (("user", "likes", "tea"), None),
        (("user", "", ""), None),
    ],
)  # fmt: skip
def test_a_fact_of_the_closed_list_names_two_and_what_ties_them(fact: tuple[str, str, str], link: Link | None) -> None:
    assert link_in(*fact) == link
    assert link_in(*fact, negated=True) is None


def test_names_are_shown_in_the_letters_of_their_statement() -> None:
    names = names_of_fact("user", "sister_name", "anna-lena", "The user's sister is called Anna-Lena.")
    assert names == {"sister": ("sister", True), "anna-lena": ("Anna-Lena", False), "user": ("user", True)}
    assert names_of_fact("user", "likes", "tea", "The user likes tea.") == {}


@given(st.text(max_size=40))
def test_a_plain_name_is_plain_already(name: str) -> None:
    once = plain(name)
    assert plain(f"  {name.upper()}  ") == plain(name.upper())
    assert once == once.strip()


def test_a_name_that_begins_with_new_is_another_and_is_known_by_what_it_was_found_by_before() -> None:
    assert (plain("The  New York"), plain("my York"), plain("an nhien")) == ("new york", "york", "nhien")
    scope, before = (UUID(int=1), 7), fingerprint(UUID(int=1), 7, "york")
    assert is_name(before, *scope, "New York") and is_name(fingerprint(*scope, "new york"), *scope, "New York")
    assert not is_name(fingerprint(*scope, "new york"), *scope, "York")


def test_one_of_them_and_a_tie_are_sentences_that_stand_alone() -> None:
    told = Told("Ana", "person", ["Annie"], {"role": "CTO", "on_call": True}, {"tone": "dry"}, "Met in Rome.")
    assert fault_in(told) is None
    assert statement(told) == (
        "Ana (person). Also called: Annie. Role: CTO. On call: True. Prefers a dry tone. Met in Rome."
    )
    assert related("Ana", "works_at", "Halcyon", {"since": "May"}) == "Ana: works at Halcyon (since: May)."
    assert len(statement(Told("x", "other", notes="y" * 4_000))) < 450


@pytest.mark.parametrize(
    ("told", "member", "said"),
    [
        (Told(" . ", "person"), "name", "letters"),
        (Told("x", "person", ["!"]), "aliases", "alias"),
        (Told("x", "host", facets={"tone": "dry"}), "facets", "person"),
        (Told("x", "person", facets={"tone": "loud"}), "facets", "known"),
    ],
)
def test_what_cannot_be_kept_is_named(told: Told, member: str, said: str) -> None:
    fault = fault_in(told)
    assert fault is not None and fault[0] == member and said in fault[1]


def test_the_ways_between_two_are_shortest_first_and_pass_nobody_twice() -> None:
    edges = {
        "a": [("b", "ab"), ("c", "ac")],
        "b": [("a", "ab"), ("c", "bc"), ("d", "bd")],
        "c": [("b", "bc"), ("d", "cd")],
    }
    assert ways(edges, "a", "d", hops_max=2, count_max=9) == [("ab", "bd"), ("ac", "cd")]
    assert ways(edges, "a", "d", hops_max=3, count_max=9) == [
        ("ab", "bd"),
        ("ac", "cd"),
        ("ab", "bc", "cd"),
        ("ac", "bc", "bd"),
    ]
    assert ways(edges, "a", "d", hops_max=3, count_max=1) == [("ab", "bd")]
    assert ways(edges, "a", "a", hops_max=3, count_max=9) == []
    assert ways(edges, "a", "z", hops_max=3, count_max=9) == []


def test_a_circle_is_given_back_whole() -> None:
    assert circle_in({"a": {"b"}, "b": {"c"}}) == []
    circle = circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert circle[0] == circle[-1] and set(circle) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "card", [1, None, "x", [], {"name": 1, "type": {}, "aliases": 2, "properties": [], "notes": 3}]
)
def test_a_card_of_another_shape_says_nothing(card: object) -> None:
    assert told_of(card) == Told("", "other", (), {}, {}, "")


def test_a_card_says_what_has_the_shape_of_one() -> None:
    told = Told("Ana", "person", ("Nika",), {"age": 41, "left": True}, {"tone": "warm"}, "Met in May.")
    card = {name: getattr(told, name) for name in Told.__dataclass_fields__} | {"aliases": ["Nika", 3]}
    assert told_of(card | {"properties": {"age": 41, "left": True, "odd": {}}, "type": "person"}) == told
