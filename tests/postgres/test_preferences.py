"""Preferences in the store: what holds now, all or of some, and whether there are more than are shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.database import Bounds
from memory.adapters.postgres.preference_store import PREFERENCES_MAX, PreferenceStore
from policies.fact import Fact
from policies.labels import Sensitivity
from tests.postgres.seed import T0, Stores, stores
from tests.postgres.test_facts import DAY, fact, say
from tests.postgres_fixture import TestDatabase


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres, Bounds(connections_max=16)) as made:
        yield made


def liking(what: str, **more: Any) -> Fact:
    known = {"predicate": "likes", "statement": f"The user likes {what}.", "cardinality": "many"}
    return fact(what, category="preference", **known, **more)


def of(store: Stores) -> PreferenceStore:
    return PreferenceStore(store.database, store.scopes)


async def test_a_preference_that_was_said_until_a_day_holds_until_then(store: Stores) -> None:
    await say(store, liking("tea"), liking("night shifts", valid_to=T0 + 10 * DAY))
    before, _ = await of(store).preferences(store.scope(), T0 + 9 * DAY)
    after, _ = await of(store).preferences(store.scope(), T0 + 11 * DAY)
    assert {one.statement for one in before} == {"The user likes tea.", "The user likes night shifts."}
    assert [one.statement for one in after] == ["The user likes tea."]


async def test_more_preferences_than_are_shown_are_said_to_be_more_and_found_by_name(store: Stores) -> None:
    await say(store, liking("the first thing"))
    (first,), more = await of(store).preferences(store.scope(), T0 + DAY)
    assert not more
    for at in range(0, PREFERENCES_MAX, 50):
        await say(store, *(liking(f"thing {at + one}") for one in range(50)), day=1)
    held, more = await of(store).preferences(store.scope(), T0 + 2 * DAY)
    assert (len(held), more) == (PREFERENCES_MAX, True)
    assert first.memory_id not in {one.memory_id for one in held}
    named, more = await of(store).preferences(store.scope(), T0 + 2 * DAY, [first.memory_id])
    assert ([one.memory_id for one in named], more) == ([first.memory_id], False)


async def test_what_a_reader_may_not_see_takes_no_place_of_what_they_may(store: Stores, postgres: TestDatabase) -> None:
    await say(store, *(liking(f"thing {at}") for at in range(PREFERENCES_MAX + 1)))
    postgres.psql("UPDATE memory_versions SET sensitivity = 'secret'")
    await say(store, liking("the first thing"), day=-1)
    seen, more = await of(store).preferences(store.scope(), T0 + DAY, ceiling=Sensitivity.CONFIDENTIAL)
    assert ([one.statement for one in seen], more) == (["The user likes the first thing."], False)
    elsewhere, more = await of(store).preferences(store.scope(), T0 + DAY, session_id=UUID(int=1))
    assert (elsewhere, more) == ([], False)
