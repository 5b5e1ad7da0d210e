"""Which wishes about answers a new conversation is told: of each facet what holds, the strongest first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid5

import pytest

from memory.read.index import ScopeIndex
from memory.read.items import Filter, IndexItem
from tests.test_scope_index import DIM, NOW, SPACE, index_of, item

DAY = timedelta(days=1)


def said(name: str, days_ago: int, session: str) -> IndexItem:
    """A turn."""
    when, event_id = NOW - days_ago * DAY, uuid5(SPACE, name)
    return item(
        name, "words", kind="episodic", occurred_at=when, session_id=uuid5(SPACE, session), event_ids=(event_id,)
    )


def wish(name: str, object_: str, *turns: IndexItem, integrity: str = "user", **changes: Any) -> IndexItem:
    """A preference that rests on these turns, the first of which began it."""
    about = {"category": "preference", "predicate": "prefers", "object": object_}
    events: tuple[UUID, ...] = tuple(event for one in turns for event in one.event_ids)
    return item(
        name,
        f"The user prefers {object_}.",
        kind="semantic",
        attributes=about,
        occurred_at=turns[0].occurred_at,
        event_ids=events,
        integrity=integrity,
        **changes,
    )


def told(*items: IndexItem) -> list[str]:
    found = index_of(*items).styles(Filter(), NOW)
    return [str(one.item.attributes["object"]) for one in found]


def test_what_was_said_oftenest_and_in_most_conversations_goes_first() -> None:
    often = [said(f"often {at}", 30 + at, f"s{at}") for at in range(4)]
    once, lately = said("once", 3, "s7"), said("lately", 1, "s8")
    wishes = (wish("short", "short answers", *often), wish("tables", "tables over prose", once))
    assert told(*often, once, lately, *wishes, wish("tone", "a dry tone", lately)) == [
        "short answers",
        "a dry tone",
        "tables over prose",
    ]


def test_of_one_facet_the_wish_said_last_holds_though_it_began_before_the_other() -> None:
    first, other, again = said("first", 9, "a"), said("other", 5, "b"), said("again", 2, "c")
    short, detailed = wish("short", "short answers", first, again), wish("detailed", "detailed answers", other)
    assert told(first, other, again, short, detailed) == ["short answers"]
    assert told(first, other, wish("short", "short answers", first), detailed) == ["detailed answers"]


def test_a_pinned_or_confirmed_wish_goes_before_what_is_merely_said() -> None:
    old, new = said("old", 300, "a"), said("new", 0, "b")
    for held in ({"pinned": True}, {"validation_status": "confirmed"}):
        kept = wish("tables", "tables over prose", old, **held)
        assert told(old, new, kept, wish("short", "short answers", new))[0] == "tables over prose"


def test_a_wish_whose_turns_are_not_in_the_index_counts_as_often_as_it_was_said() -> None:
    gone = [said(f"gone {at}", 1, f"s{at}") for at in range(4)]
    once = said("once", 0, "t")
    wishes = (wish("short", "short answers", *gone), wish("tables", "tables over prose", once))
    assert told(once, *wishes) == ["short answers", "tables over prose"]


def test_of_a_wish_that_a_page_or_tool_states_nothing_is_told() -> None:
    page = said("page", 1, "a")
    assert told(page, wish("short", "short answers", page, integrity="web")) == []


@pytest.mark.parametrize("index", [ScopeIndex(DIM), index_of(item("one", "a text"))])
def test_where_no_style_is_known_none_is_told(index: ScopeIndex) -> None:
    assert index.styles(Filter(), NOW) == []
