"""Ranking reads of a scope only what decides, and finds what it would find if it read everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock
from uuid import UUID, uuid5

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.read import vouched
from memory.read.arms import Arms, best, best_of, places
from memory.read.index import ScopeIndex
from memory.read.items import Filter, IndexItem
from memory.read.lexical import present, tokenise
from tests.test_scope_index import DIM, NOW, SPACE, index_of, item, unit

SESSIONS = [uuid5(SPACE, f"s{number}") for number in range(3)]
HOURS = st.sampled_from([None, -1, 1, 3])
SCORES = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=300)
LABELS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["episodic", "semantic", "document", "summary"]),
        "role": st.sampled_from(["user", "assistant", "tool"]),
        "scope_id": st.integers(1, 3),
        "session_id": st.sampled_from([None, *SESSIONS]),
        "importance": st.sampled_from([0.5, 0.9]),
        "injected": st.sampled_from([0, 3]),
        "attributes": st.sampled_from([{}, {"saved": "session"}]),
    }
)


def some_of(values: list[Any]) -> st.SearchStrategy[frozenset[Any] | None]:
    return st.none() | st.frozensets(st.sampled_from(values))


FILTERS = st.builds(
    Filter,
    kinds=some_of(["episodic", "semantic", "document", "summary", "procedural"]),
    roles=some_of(["user", "assistant", "tool", "nobody"]),
    scope_ids=some_of([1, 2, 3, 9]),
    session_id=st.sampled_from([None, None, *SESSIONS]),
    exclude_session_id=st.sampled_from([None, *SESSIONS, UUID(int=1)]),
)


def may_be_seen(one: IndexItem, where: Filter) -> bool:
    """What the filter says, item by item."""
    excluded = where.exclude_session_id is not None and one.session_id == where.exclude_session_id
    return (
        (one.expires_at is None or one.expires_at > NOW)
        and (where.kinds is None or one.kind in where.kinds)
        and (where.roles is None or one.role in where.roles)
        and (where.scope_ids is None or one.scope_id in where.scope_ids)
        and (where.session_id is None or one.session_id == where.session_id)
        and not (excluded and not one.is_unsaid)
        and (not one.of_session_alone or one.session_id in where.asking)
    )


@settings(max_examples=300)
@given(st.lists(st.tuples(LABELS, HOURS, st.booleans()), max_size=12), FILTERS)
def test_a_filter_shows_what_its_labels_say_whatever_the_index_held_before(
    given_: list[tuple[dict[str, Any], int | None, bool]], where: Filter
) -> None:
    items = [
        item(f"{at}", f"text {at}", **labels, expires_at=None if hours is None else NOW + timedelta(hours=hours))
        for at, (labels, hours, _) in enumerate(given_)
    ]
    index = index_of(*items)
    for one, (_, _, stays) in zip(items, given_, strict=True):
        if not stays:
            index.remove(one.memory_id)
    left = [one for one, (_, _, stays) in zip(items, given_, strict=True) if stays]
    prepared = index.prepare("text", now=NOW, where=where)
    shown = [index._items[slot].memory_id for slot in np.flatnonzero(prepared.allowed).tolist()]
    assert sorted(shown) == sorted(one.memory_id for one in left if may_be_seen(one, where))


@given(
    st.lists(
        st.tuples(st.text("ab cdé May. 21", max_size=30), st.text("ab cde?", max_size=20)), min_size=1, max_size=5
    ),
    st.text("ab cdé May 21", max_size=20),
    st.sampled_from([None, "en", "de"]),
)
def test_an_items_own_words_are_those_of_its_text_and_not_of_its_date_or_context(
    texts: list[tuple[str, str]], query: str, language: str | None
) -> None:
    items = [item(f"{at}", text + "!", context=context, language=language) for at, (text, context) in enumerate(texts)]
    index = index_of(*items)
    terms = dict.fromkeys(tokenise(query, language), 1.0)
    known = index._words.of(range(len(items)), terms, {})
    assert [frozenset(own) for own in known] == [
        present(frozenset(tokenise(one.content, language)), terms, {}) for one in items
    ]


@contextmanager
def nothing_passed_over() -> Iterator[None]:
    """Every short text taken for one that many others are near to."""
    with mock.patch.object(vouched, "_like", lambda near, _: [99] * len(near)):
        yield


def flooded(draw: list[tuple[int, str, int]]) -> ScopeIndex:
    """People's and pages' texts, near to few directions, within some hours."""
    words = ("now", "indeed", "surely", "again", "really", "still")
    index = ScopeIndex(DIM)
    for at, (direction, integrity, minutes) in enumerate(draw):
        near = unit(direction) + 0.15 * unit(100 + at)
        when = NOW - timedelta(minutes=minutes)
        index.put(
            item(
                f"{at}",
                f"The teapot of my aunt in Cork is {'red' if at % 5 == 4 else 'blue'} {words[at % len(words)]}.",
                vectors=(near / np.linalg.norm(near))[None].astype(np.float32),
                integrity=integrity,
                occurred_at=when,
                created_at=when,
                session_id=SESSIONS[at % 3],
                seq=at,
            )
        )
    return index


def said_by(integrities: tuple[str, ...]) -> st.SearchStrategy[list[tuple[int, str, int]]]:
    one = st.tuples(st.integers(0, 1), st.sampled_from(integrities), st.integers(0, 90))
    return st.lists(one, min_size=3, max_size=12)


@settings(max_examples=150)
@given(said_by(("user",)) | said_by(("user", "tool", "web")), st.integers(0, 1))
def test_copies_that_are_looked_for_among_the_near_alone_are_the_copies(
    draw: list[tuple[int, str, int]], direction: int
) -> None:
    index = flooded(draw)
    found = index.search("the teapot", unit(direction), 12, now=NOW, where=Filter())
    with nothing_passed_over():
        assert index.search("the teapot", unit(direction), 12, now=NOW, where=Filter()) == found


@given(SCORES, st.integers(1, 12), st.randoms())
def test_the_best_are_those_of_the_whole_order(scores: list[float], count: int, random: Any) -> None:
    values = np.asarray(scores, np.float32)
    occurred = np.asarray([random.randrange(3) for _ in scores], np.float64)
    identity = np.asarray(random.sample(range(1000), len(scores)), np.uint64)
    whole = sorted(range(len(scores)), key=lambda at: (-scores[at], -occurred[at], identity[at]))
    assert best(values, count, slice(0, len(scores)), occurred, identity).tolist() == whole[:count]
    some = np.asarray([random.random() < 0.5 for _ in scores])
    expected = sorted((score for score, mine in zip(scores, some, strict=True) if mine), reverse=True)[:count]
    assert values[best_of(some, values, count)].tolist() == expected
    chosen = [random.randrange(len(scores)) for _ in range(3)]
    ranked = places(Arms(values, None, values, None), chosen)["lexical_place"]
    assert ranked.tolist() == [1 + sum(score > scores[at] for score in scores) for at in chosen]
