"""Parts of checkpoints: their order, what fits, what differs, and which names can stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.checkpoint import (
    LABELS,
    NAME_CHARS_MAX,
    PARTS,
    Costs,
    Part,
    Said,
    difference,
    fitting,
    in_order,
    may_become,
    name_of,
)
from policies.labels import Integrity

costs = st.lists(st.builds(Costs, st.sampled_from(PARTS), st.integers(1, 400)), max_size=20)
said = st.lists(
    st.builds(Said, st.sampled_from(PARTS), st.sampled_from("abcdefgh"), st.sampled_from(["one", "two", "one\ntwo"])),
    max_size=8,
    unique_by=lambda one: one.key,
)


def test_every_part_has_a_label_and_a_place() -> None:
    assert set(LABELS) == {*PARTS, "given"} and len(PARTS) == len(set(PARTS))


@given(costs)
def test_parts_are_told_by_kind_and_each_kind_as_it_was_given(parts: list[Costs]) -> None:
    ordered = in_order(parts)
    assert [PARTS.index(one.part) for one in ordered] == sorted(PARTS.index(one.part) for one in parts)
    for part in PARTS:
        assert [one for one in ordered if one.part == part] == [one for one in parts if one.part == part]


@given(costs, st.integers(0, 3000))
def test_what_gives_way_is_the_end_and_never_the_users_own_words(parts: list[Costs], most: int) -> None:
    kept = fitting(parts, most)
    firm = [one for one in in_order(parts) if one.part not in ("summary", "document", "fact", "entity")]
    assert [one for one in kept if one in firm] == firm
    assert sum(one.tokens for one in kept) <= max(most, sum(one.tokens for one in firm))
    if sum(one.tokens for one in parts) <= most:
        assert kept == in_order(parts), "what fits is left as it is"


def test_summaries_give_way_first_then_documents_facts_and_entities_the_last_of_each_first() -> None:
    parts = [Costs(part, 10) for part in (*PARTS, "entity", "fact", "document")]
    firm = ["notes", "goal", "plan", "open", "task", "persona", "preference"]
    left: list[Part] = ["entity", "entity", "fact", "fact", "document", "document", "summary"]
    while left:
        assert [one.part for one in fitting(parts, 10 * len(firm + left))] == firm + left
        left.pop()
    assert [one.part for one in fitting(parts, 0)] == firm


@given(said, said)
def test_a_difference_loses_nothing_and_turned_round_says_the_opposite(before: list[Said], after: list[Said]) -> None:
    found, back = difference(before, after), difference(after, before)
    assert found.same + len(found.changed) + len(found.removed) == len(before)
    assert found.same + len(found.changed) + len(found.added) == len(after)
    assert (set(found.added), set(found.removed)) == (set(back.removed), set(back.added))
    assert {(one.before, one.after) for one in found.changed} == {(one.after, one.before) for one in back.changed}


def test_a_note_that_is_worded_anew_is_a_change_and_a_fact_is_another_one() -> None:
    notes = difference([Said("notes", "1", "old")], [Said("notes", "2", "new")])
    assert [one.unified.splitlines()[-2:] for one in notes.changed] == [["-old", "+new"]]
    facts = difference([Said("fact", "1", "old")], [Said("fact", "2", "new")])
    assert (len(facts.added), len(facts.removed), len(facts.changed)) == (1, 1, 0)


@pytest.mark.parametrize("integrity", list(Integrity))
def test_only_a_users_own_words_become_a_goal_or_a_preference(integrity: Integrity) -> None:
    own = integrity in (Integrity.USER, Integrity.ADMIN)
    for part in PARTS:
        assert may_become(part, integrity) is (own or part not in ("goal", "preference", "persona"))


LINES = ("a\nb", "a\x00", "a\u2028b", "a\u2029b")


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", ".", "..", *LINES, "x" * (NAME_CHARS_MAX + 1)])
def test_a_name_that_cannot_stand_in_a_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="checkpoint's name"):
        name_of(name)


def test_a_name_is_the_same_however_it_is_composed() -> None:
    assert name_of("cafe\u0301") == name_of("caf\u00e9") == "caf\u00e9"
