"""Who is tied to whom in an index: which words a question gains from the other end, and from what it must not."""

from __future__ import annotations

import numpy as np
import pytest

from memory.read.index import ScopeIndex
from memory.read.items import IndexItem
from memory.read.names import Names
from memory.read.ties import Ties
from tests.test_names import ALL, FORMS, asked, card, said
from tests.test_scope_index import ask, index_of, item


def by_hand(source: str, type_: str, target: str) -> IndexItem:
    about = {"relationship": {"properties": {}, "source": source, "type": type_, "target": target}}
    return item(f"{source} {type_} {target}", f"{source}: {type_} {target}.", kind="semantic", attributes=about)


def held(*items: IndexItem) -> tuple[Names, Ties]:
    names = Names()
    ties = Ties(names)
    for slot, one in enumerate(items):
        names.put(slot, one)
        ties.put(slot, one)
    return names, ties


def gained(of: tuple[Names, Ties], *terms: str) -> FORMS:
    names, ties = of
    raw = asked(*terms)
    return {term: forms for term, forms in ties.expanded(names.expanded(raw, ALL), raw, ALL).items() if forms}


@pytest.mark.parametrize(
    ("one", "terms", "forms"),
    [
        (said("sister_works_at", "globex"), ("sister", "compani", "move"), {"compani": ("globex",)}),
        (said("sister_works_at", "globex"), ("sister", "move"), {}),
        (said("sister_works_at", "globex"), ("compani", "move"), {}),
        (said("sister_lives_in", "porto"), ("sister", "citi"), {"citi": ("porto",)}),
        (said("runs_on", "db7", subject="billing-api"), ("bill", "api", "host"), {"host": ("db7",)}),
        (by_hand("Ana Kovac", "reports_to", "Boris Lind"), ("ana", "kovac", "report"), {"report": ("bori", "lind")}),
        (by_hand("Ana Kovac", "works_at", "Halcyon"), ("ana", "firm"), {}),
        (said("likes", "tea", subject="anna"), ("anna", "like"), {}),
    ],
)
def test_a_question_gains_the_other_end_of_the_tie_it_asks_for(
    one: IndexItem, terms: tuple[str, ...], forms: FORMS
) -> None:
    assert gained(held(one), *terms) == forms


def test_a_tie_is_found_by_any_name_of_the_one_it_starts_from() -> None:
    of = held(said("sister_works_at", "globex"), said("sister_name", "anna"))
    assert gained(of, "anna", "firm") == {"anna": ("sister",), "firm": ("globex",)}
    of = held(by_hand("Ana Kovac", "works_at", "Halcyon"), card("Ana Kovac", "Annie"))
    assert gained(of, "anni", "firm") == {"anni": ("ana", "kovac"), "firm": ("halcyon",)}


def test_my_sisters_employer_is_not_mine() -> None:
    of = held(said("works_at", "initech"), said("sister_works_at", "globex"))
    assert gained(of, "employer") == {"employer": ("initech",)}
    assert gained(of, "sister", "employer") == {"employer": ("globex",)}


def test_a_name_of_two_leads_nowhere() -> None:
    two = (said("sister_name", "anna"), said("sister_name", "mara"), said("sister_works_at", "globex"))
    assert gained(held(*two), "sister", "firm") == {}


def test_what_may_not_be_seen_ties_nobody_and_what_is_dropped_is_gone() -> None:
    one = said("sister_works_at", "globex")
    names, ties = held(one)
    raw = asked("sister", "firm")
    assert ties.expanded(raw, raw, np.zeros(4, np.bool_)) == raw
    ties.drop(0, one)
    assert ties.expanded(raw, raw, ALL) == raw
    assert names.meant(raw, ALL) == frozenset()


def test_the_turn_about_the_other_end_comes_before_those_about_strangers() -> None:
    turns = [item(name, f"{name} moved its laboratories.") for name in ("Hooli", "Globex", "Umbra")]
    index: ScopeIndex = index_of(*turns, said("sister_works_at", "globex"))
    found = ask(index, "Where did my sister's company move its laboratories?")
    assert next(name for name in found if name in ("Hooli", "Globex", "Umbra")) == "Globex"
