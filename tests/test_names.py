"""Who is called what in an index: which words a question gains, and from what it must not."""

from __future__ import annotations

import time
import timeit
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from memory.ids import new_id
from memory.read.facts import is_asked
from memory.read.index import ScopeIndex
from memory.read.items import Filter, IndexItem
from memory.read.names import Names
from tests.test_scope_index import NOW, ask, index_of, item

ALL = np.ones(64, np.bool_)
FORMS = dict[str, tuple[str, ...]]


def said(predicate: str, object_: str, subject: str = "user", **more: Any) -> IndexItem:
    about = {"subject": subject, "predicate": predicate, "object": object_, **more}
    return item(
        f"{subject} {predicate} {object_}", f"{subject} {predicate} {object_}", kind="semantic", attributes=about
    )


def card(name: str, *aliases: str) -> IndexItem:
    kept = {"entity": {"name": name, "type": "person", "aliases": list(aliases)}}
    return item(f"card of {name}", f"{name} (person).", kind="semantic", attributes=kept)


def asked(*terms: str) -> FORMS:
    return dict.fromkeys(terms, ())


def gained(names: Names, *terms: str) -> FORMS:
    return {term: forms for term, forms in names.expanded(asked(*terms), ALL).items() if forms}


def names_of(*items: IndexItem) -> Names:
    names = Names()
    for slot, one in enumerate(items):
        names.put(slot, one)
    return names


@pytest.mark.parametrize(
    ("one", "terms", "forms"),
    [
        (said("sister_name", "anna"), ("sister", "work"), {"sister": ("anna",)}),
        (said("sister_name", "anna"), ("anna",), {"anna": ("sister",)}),
        (said("best_friend_name", "tom"), ("best", "friend"), {"friend": ("tom",)}),
        (said("best_friend_name", "tom"), ("friend",), {}),
        (said("works_at", "halcyon labs"), ("employer",), {"employer": ("halcyon", "lab")}),
        (card("Ana Kovac", "Lotte", "the boss"), ("lott",), {"lott": ("ana", "kovac", "boss")}),
        (card("Ana Kovac"), ("ana", "kovac"), {}),
        (said("sister_name", "anna", subject="caroline"), ("sister",), {}),
        (said("sister_name", "anna", negated=True), ("sister",), {}),
        (said("name", "ben"), ("user", "ben"), {}),
        (said("likes", "tea"), ("tea",), {}),
    ],
)
def test_a_question_gains_the_words_of_the_other_names(one: IndexItem, terms: tuple[str, ...], forms: FORMS) -> None:
    assert gained(names_of(one), *terms) == forms


def test_a_name_of_two_stands_for_neither() -> None:
    names = names_of(said("sister_name", "anna"), said("boss_name", "anna"), said("friend_name", "tom"))
    assert gained(names, "anna") == {}
    assert gained(names, "sister") == {"sister": ("anna",)}
    names.put(9, said("friend_name", "mara"))
    assert gained(names, "friend") == {}


def test_memories_of_one_entity_name_one_and_a_copys_names_are_that_ones() -> None:
    anna, other = new_id(), new_id()
    sister, written = said("sister_name", "anna"), replace(card("Anna", "Annie"), entity=anna)
    names = names_of(replace(sister, entity=anna), written, sister)
    assert gained(names, "sister") == {"sister": ("anna", "anni")}
    assert gained(names, "anna") == {"anna": ("anni", "sister")}
    names.put(9, replace(card("Mimi"), entity=anna))
    assert gained(names, "mimi") == {"mimi": ("anna", "anni", "sister")}
    names.put(10, replace(said("boss_name", "anna"), entity=other))
    assert gained(names, "anna") == {} and gained(names, "boss") == {"boss": ("anna",)}
    names.drop(1, written)
    assert gained(names, "anni") == {} and gained(names, "sister") == {"sister": ("anna", "mimi")}
    assert names.expanded(asked("sister"), np.arange(64) == 2) == {"sister": ("anna",)}


def test_what_may_not_be_seen_says_nothing_of_names() -> None:
    names = names_of(said("sister_name", "anna"))
    assert names.expanded(asked("sister"), np.zeros(4, np.bool_)) == {"sister": ()}


def test_a_name_goes_with_the_last_memory_that_gives_it() -> None:
    first, second = said("sister_name", "anna"), said("sister_name", "anna", qualifiers={})
    names = names_of(first, second)
    names.drop(0, first)
    assert gained(names, "sister") == {"sister": ("anna",)}
    names.drop(1, second)
    assert gained(names, "sister") == {}
    names.drop(1, second)


def test_what_was_said_of_one_is_found_by_another_name_on_both_rungs() -> None:
    filler = [item(f"t{n}", f"The harbour in town {n} has a crane.") for n in range(6)]
    told = item("nurse", "Anna started to work as a nurse.")
    stranger = item("pilot", "Boris started to work as a pilot.")
    index = index_of(*filler, stranger, told)
    assert "nurse" not in ask(index, "What did my sister say?")[:1]
    index.put(said("sister_name", "anna"))
    best = [hit for hit in index.search("What did my sister say?", None, 3, now=NOW, where=Filter())]
    assert "nurse" in [hit.item.source_ids[0] for hit in best[:2]]
    assert all(isinstance(hit.score, float) for hit in best)


def test_a_long_question_is_read_in_time_that_is_linear_in_its_words() -> None:
    names = names_of(said("sister_name", "anna"))

    def took_s(words: int) -> float:
        question = asked(*(f"word{n}" for n in range(words)))
        read = timeit.Timer(lambda: (names.expanded(question, ALL), names.meant(question, ALL)), timer=time.thread_time)
        return min(read.repeat(number=1, repeat=7))

    assert took_s(8_000) < 24 * took_s(1_000)  # 8 times as long; where each word looked at all of them, 64 times


def test_an_index_without_names_asks_as_before() -> None:
    index: ScopeIndex = index_of(item("a", "Anna is a nurse."))
    prepared = index.prepare("What does my sister do?", now=NOW, where=Filter())
    assert prepared.forms == {}


@pytest.mark.parametrize("written", [1, "x", None, [], {"name": 1, "aliases": 2}, {"name": "Ana", "aliases": {}}])
def test_a_card_of_another_shape_names_nobody(written: Any) -> None:
    odd = item("odd", "something about bees", kind="semantic", attributes={"entity": written})
    index = index_of(odd)
    assert ask(index, "bees") == ["odd"]
    index.remove(odd.memory_id)
    assert gained(names_of(odd), "ana") == {}


@pytest.mark.parametrize(
    "written", [{"predicate": 3, "subject": []}, {"qualifiers": "of"}, {"qualifiers": {"of": {}}}, {"qualifiers": None}]
)
def test_a_fact_of_another_shape_is_asked_for_by_its_words_alone(written: dict[str, Any]) -> None:
    fact = item("odd", "something about bees", kind="semantic", attributes=written)
    assert not is_asked(fact, set(), set(), ["bees"], {})
