"""A fact whose sentence a person writes anew says what the new sentence says, or nothing that could be ruled on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory.adapters.postgres.database import Bounds
from memory.stored import MemoryChange
from policies.fact import Fact
from policies.restated import restated
from tests.postgres.seed import T0, Stores, stores, vectors
from tests.postgres.test_facts import DAY, IN_PARIS, fact, id_of, say, shown, texts
from tests.postgres_fixture import TestDatabase

FACTS = "SELECT object, state FROM facts ORDER BY object"
CORRECTED = "SELECT count(*) FROM outdated_turns WHERE corrected"
TRIPLE = {"subject", "predicate", "object", "category", "cardinality", "negated", "qualifiers"}


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres, Bounds(connections_max=8)) as made:
        yield made


async def edit(store: Stores, object_: str, content: str, day: float = 2, **more: Any) -> Any:
    memory_id = await id_of(store, object_)
    version = (await store.records.memory(store.scope(), memory_id)).version
    change = MemoryChange(content=content, windows=((0, len(content)),), vectors=vectors(1), **more)
    return await store.records.patch_memory(store.scope(), memory_id, version, change, T0 + day * DAY)


async def test_an_edited_fact_says_what_its_sentence_says(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("hamburg"))
    await say(store, fact("berlin"), day=1)
    edited = await edit(store, "berlin", "The user lives in Munich.")
    assert (edited.content, edited.attributes["object"]) == ("The user lives in Munich.", "munich")
    assert postgres.psql(FACTS) == "hamburg|superseded\nmunich|current"
    assert await texts(store) == {"The user lives in Munich."}
    await say(store, fact("hamburg"), day=3)  # only the old value again: the correction stands
    assert await texts(store) == {"The user lives in Munich."}
    await say(store, fact("paris"), day=4)
    assert await texts(store) == IN_PARIS  # a change takes its place, as of any fact


async def test_what_was_edited_away_can_be_said_again(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("berlin"))
    await edit(store, "berlin", "The user lives in Munich.")
    await say(store, fact("berlin"), day=3)
    assert postgres.psql(FACTS) == "berlin|current\nmunich|superseded"
    await say(store, fact("munich"), day=4)
    assert postgres.psql(FACTS) == "berlin|superseded\nmunich|current"
    assert postgres.psql("SELECT count(*) FROM memories") == "2"


async def test_a_sentence_that_says_something_else_is_no_fact_any_more(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("hamburg"))
    await say(store, fact("berlin"), day=1)
    edited = await edit(store, "berlin", "The user never lived in Berlin but visits a lot.")
    assert not TRIPLE & set(edited.attributes)
    assert postgres.psql(FACTS) == "hamburg|superseded"  # what it had taken the place of does not come back
    assert await texts(store) == {"The user never lived in Berlin but visits a lot."}
    await say(store, fact("berlin"), day=3)  # said again it is a fact of its own
    assert await texts(store) == {"The user never lived in Berlin but visits a lot.", "The user lives in berlin."}


async def test_an_edit_to_what_another_fact_says_is_not_two_of_one_key(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("tea", predicate="likes", cardinality="many", statement="The user likes tea."))
    await say(store, fact("milk", predicate="likes", cardinality="many", statement="The user likes milk."), day=1)
    await edit(store, "tea", "The user likes milk.")
    assert postgres.psql(FACTS) == "milk|current"
    assert postgres.psql("SELECT count(*) FROM memories WHERE deleted_at IS NULL") == "2"
    await say(store, fact("tea", predicate="likes", cardinality="many", statement="The user likes tea."), day=3)
    assert postgres.psql(FACTS) == "milk|current\ntea|current"


async def test_an_edit_of_the_wording_alone_changes_no_triple(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("berlin"))
    before = (await shown(store))[0].attributes
    await edit(store, "berlin", "The user lives in BERLIN.")
    (row,) = await shown(store)
    assert dict(row.attributes) == dict(before)
    assert postgres.psql(FACTS) == "berlin|current"
    await edit(store, "berlin", "The user lives in BERLIN.", attributes={"mine": 1})
    (row,) = await shown(store)
    assert dict(row.attributes) == {"mine": 1}


async def test_the_turn_of_an_edited_fact_is_out_of_date(store: Stores, postgres: TestDatabase) -> None:
    await say(store, fact("berlin"), content="I live in Berlin, at last.")
    (before,) = await shown(store)
    await edit(store, "berlin", "The user lives in Munich.")
    (row,) = await shown(store)
    assert (row.event_ids, row.outdates) == ((), before.event_ids)  # it speaks for itself
    record = await store.records.memory(store.scope(), row.memory_id)
    assert record.event_ids == before.event_ids  # where it came from stays known
    assert postgres.psql(CORRECTED) == "1"
    await edit(store, "munich", "The user lives in Berlin.", day=3)  # as the turn has it
    (row,) = await shown(store)
    assert (row.event_ids, row.outdates) == (before.event_ids, ())
    await edit(store, "berlin", "The user hates Berlin but stays for the lakes.", day=4)
    (row,) = await shown(store)
    assert (row.event_ids, row.outdates) == ((), before.event_ids)


async def test_what_takes_the_place_of_an_edited_fact_outdates_its_turn_too(store: Stores) -> None:
    await say(store, fact("berlin"))
    (before,) = await shown(store)
    await edit(store, "berlin", "The user lives in Munich.")
    await say(store, fact("paris"), day=3)
    row = next(row for row in await shown(store) if row.attributes["object"] == "paris")
    assert before.event_ids[0] in row.outdates
    assert len(row.event_ids) == 1


OLD = Fact("user", "lives_in", "berlin", "The user lives in Berlin.", (0, 1))


@pytest.mark.parametrize(
    ("sentence", "object_"),
    [
        ("The user lives in Munich.", "munich"),
        ("The user lives in  the old town of Munich", "old town of munich"),
        ("I live in Munich.", "munich"),
        ("The user lives in Athens.", "athens"),
        ("The user lives in Buenos Aires.", "buenos aires"),
        ("The user lives in Munich since 2020.", None),
        ("The user lives in Munich, not Berlin.", None),
        ("The user lives in Munich. Their cat too.", None),
        ("The user does not live in Berlin.", None),
        ("I don't live in Berlin.", None),
        ("I like Berlin.", None),
        ("The user lives in .", None),
        ("", None),
        ("用户住在慕尼黑。", None),
        ("The user lives in " + "x " * 5_000, None),
    ],
)
def test_the_object_of_a_new_sentence(sentence: str, object_: str | None) -> None:
    assert restated(OLD, sentence) == object_


@pytest.mark.parametrize(
    ("object_", "statement", "sentence", "becomes"),
    [
        ("柏林", "用户住在柏林。", "用户住在慕尼黑。", "慕尼黑"),
        ("柏林", "用户住在柏林。", "用户住在慕尼黑，不是柏林。", None),
        ("베를린", "사용자는 베를린에 산다.", "사용자는 뮌헨에 산다.", "뮌헨"),
        ("เบอร์ลิน", "ผู้ใช้อาศัยอยู่ที่เบอร์ลิน", "ผู้ใช้อาศัยอยู่ที่มิวนิก", "มิวนิก"),
    ],
)
def test_the_object_of_a_new_sentence_in_a_script_without_blanks(
    object_: str, statement: str, sentence: str, becomes: str | None
) -> None:
    assert restated(Fact("user", "lives_in", object_, statement, (0, 1)), sentence) == becomes


async def test_a_turn_in_chinese_that_says_what_was_written_anew_is_not_out_of_date(store: Stores) -> None:
    await say(store, fact("柏林", statement="用户住在柏林。"), content="我住在柏林，以前住在慕尼黑。")
    await edit(store, "柏林", "用户住在慕尼黑。")
    (row,) = await shown(store)
    assert len(row.event_ids) == 1 and row.outdates == ()


async def test_as_of_a_moment_before_the_edit_the_fact_rests_on_its_turn(store: Stores) -> None:
    await say(store, fact("berlin"), content="I live in Berlin, at last.")
    (before,) = await shown(store)
    await edit(store, "berlin", "The user lives in Munich.")
    (then,) = await shown(store, as_of=T0 + DAY)
    assert then.content == "The user lives in berlin."
    assert (then.event_ids, then.outdates) == (before.event_ids, ())
    (since,) = await shown(store, as_of=T0 + 3 * DAY)
    assert (since.event_ids, since.outdates) == ((), before.event_ids)


async def test_as_of_a_moment_nothing_is_known_of_what_was_said_later(store: Stores) -> None:
    await say(store, fact("berlin"))
    (berlin,) = await shown(store)
    await say(store, fact("paris"), day=2)
    await say(store, fact("berlin"), day=4)
    (now,) = await shown(store)
    assert (len(now.event_ids), len(now.outdates)) == (2, 1)
    (then,) = await shown(store, as_of=T0 + DAY)
    assert (then.event_ids, then.outdates) == (berlin.event_ids, ())
    (between,) = await shown(store, as_of=T0 + 3 * DAY)
    assert between.attributes["object"] == "paris"
    (again,) = await shown(store, as_of=T0 + 5 * DAY)
    assert (again.event_ids, again.outdates) == (now.event_ids, now.outdates)


async def test_as_of_a_moment_is_out_of_date_what_was_then_whatever_became_of_it(store: Stores) -> None:
    await say(store, fact("berlin"))
    await say(store, fact("paris"), day=2)
    (paris,) = await shown(store)
    assert len(paris.outdates) == 1
    await store.records.delete_memory(store.scope(), paris.memory_id, T0 + 4 * DAY)
    assert await texts(store) == {"The user lives in berlin."}
    (then,) = await shown(store, as_of=T0 + 3 * DAY)
    assert (then.memory_id, then.outdates) == (paris.memory_id, paris.outdates)
    await say(store, fact("rome"), day=6)
    (between,) = await shown(store, as_of=T0 + 5 * DAY)
    assert (between.attributes["object"], between.outdates) == ("berlin", ())
    (then,) = await shown(store, as_of=T0 + 3 * DAY)
    assert then.outdates == paris.outdates
