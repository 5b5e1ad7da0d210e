"""Facts that say the same in other words are one, and whatever happens to it nothing of the other is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.consolidate_store import ConsolidateStore
from memory.adapters.postgres.database import Bounds
from memory.config import load_settings
from memory.consolidation import Step, Terms, Window
from memory.ids import derived_id
from memory.model import Commit, SessionRef
from memory.read.items import Filter
from policies.fact import Fact
from policies.labels import Sensitivity
from tests.postgres.seed import T0, memory_of, stores, vectors
from tests.postgres.test_consolidate import Dying, Night, events, outdated, patch, shown
from tests.postgres.test_facts import DAY, fact, id_of, saying, texts
from tests.postgres_fixture import TestDatabase

OFF = {"consolidate.pause_ms": 0}
NEAR = vectors(1)
LATER = T0 + 20 * DAY


@pytest.fixture
async def night(postgres: TestDatabase) -> AsyncIterator[Night]:
    async with stores(postgres, Bounds(connections_max=8)) as made:
        yield Night(made, load_settings(None, OFF, {}))


def alike(commit: Commit) -> Commit:
    """The same commit, its facts all with one vector."""
    return replace(commit, facts=tuple(replace(one, memory=replace(one.memory, vectors=NEAR)) for one in commit.facts))


async def say(night: Night, *facts: Fact, day: float = 0, now: datetime | None = None, **more: Any) -> Commit:
    commit = alike(saying(night.stores, *facts, day=day, **more))
    await night.stores.write.commit(commit, now=now or T0 + max(day, 0) * DAY)
    return commit


def works(at: str, **more: Any) -> Fact:
    return fact(at, predicate="works_at", statement=f"The user works at {at.title()}.", **more)


def employer(at: str, **more: Any) -> Fact:
    return fact(at, predicate="employer", statement=f"The user's employer is {at.title()}.", **more)


WORKS, EMPLOYER = "The user works at Google.", "The user's employer is Google."


async def row_of(night: Night, predicate: str, object_: str = "google") -> Any:
    page = await night.stores.records.memories(night.stores.scope(), limit=100, kind="semantic", now=night.now)
    return next(
        row for row in page.rows if (row.attributes["predicate"], row.attributes["object"]) == (predicate, object_)
    )


async def test_two_ways_of_saying_one_thing_become_one_with_the_evidence_of_both(
    night: Night, postgres: TestDatabase
) -> None:
    one = await say(night, works("google"))
    await say(night, works("google"), day=1)
    other = await say(night, employer("google"), day=2)
    before = await shown(night)
    assert await night.run(LATER) == {"duplicates": 1, "repeated": 1}  # it was heard in three sessions
    assert await texts(night.stores) == {WORKS}
    (row,) = await shown(night)
    assert {one.turns[0].event_id, other.turns[0].event_id} < set(row.event_ids)
    assert len(row.event_ids) == 3
    assert row.changed_version > max(one.changed_version for one in before)  # so that a hot scope hears of it
    gone = await row_of(night, "employer")
    assert (gone.superseded_by, gone.superseded_reason) == (row.memory_id, "same meaning")
    assert row.outdates == ()  # what only says the same is not out of date
    assert events(postgres, "superseded") == 1
    assert postgres.psql(f"SELECT count(*) FROM fact_sayings WHERE memory_id = '{row.memory_id}'") == "3"
    assert await night.run(LATER) == {}
    assert await texts(night.stores, as_of=T0 + 3 * DAY) == {WORKS, EMPLOYER}
    assert await texts(night.stores, as_of=LATER) == {WORKS}


async def test_what_is_far_by_its_vector_or_has_none_stays(night: Night, postgres: TestDatabase) -> None:
    await say(night, works("google"))
    far = saying(night.stores, employer("google"))
    far = replace(far, facts=tuple(replace(o, memory=replace(o.memory, vectors=-NEAR)) for o in far.facts))
    await night.stores.write.commit(far, now=T0)
    assert await night.run(LATER) == {}
    postgres.psql(f"DELETE FROM {postgres.embeddings}")
    assert await night.run(LATER) == {}


async def test_facts_of_other_scopes_labels_and_times_stay(night: Night) -> None:
    await say(night, works("google"))
    eve = alike(saying(night.stores, employer("google")))
    scope = night.stores.scope("eve")
    await night.stores.write.commit(replace(eve, scope=scope), now=T0)
    await say(night, employer("google"), sensitivity=Sensitivity.CONFIDENTIAL)
    await say(night, fact("rome", statement="The user lives in Rome."))
    await say(
        night, fact("rome", predicate="resides_in", statement="The user resides in Rome.", valid_to=T0 + 90 * DAY)
    )
    assert await night.run(LATER) == {}


async def test_scopes_that_hold_little_are_looked_at_several_at_once_and_each_is_its_own(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 50,000 users each had a transaction, and a rest behind it, in each of four steps."""
    looks: list[tuple[Step, int]] = []

    class Asked(ConsolidateStore):
        async def windows(
            self, tenant: UUID, scope_ids: Sequence[int], step: Step, limit: int, terms: Terms
        ) -> dict[int, Window | None]:
            looks.append((step, len(scope_ids)))
            return await super().windows(tenant, scope_ids, step, limit, terms)

        async def window(self, tenant: UUID, scope_id: int, step: Step, *args: Any) -> Window:
            looks.append((step, 1))
            return await super().window(tenant, scope_id, step, *args)

    async def states(user: str, *facts: Fact) -> None:
        for one in facts:
            made = saying(night.stores, one, session=f"{user} {one.predicate}")
            of = SessionRef(derived_id(UUID(int=1), user, one.predicate), user + one.predicate)
            await night.stores.write.commit(alike(replace(made, scope=night.stores.scope(user), session=of)), now=T0)

    await states("ada", works("google"), employer("google"))
    await states("bob", works("google"))
    await states("cleo", employer("google"))
    await states("dora", works("google"), employer("google"), fact("rome"), fact("tea", predicate="likes"))
    monkeypatch.setattr("memory.write.consolidate.FEW_ROWS", 4)
    night.now = LATER
    store = Asked(night.stores.database, "memory_embeddings_test_model_1d820189")
    report = await night.on(store).run(lambda *_: None)
    assert report is not None
    counts = {one.step: (one.examined, one.changed) for one in report}
    assert counts["duplicates"] == (8, 2), "ada's and dora's, of whom the one is looked at with others"
    assert [one for one in looks if one[0] == "duplicates"] == [("duplicates", 4), ("duplicates", 1)]
    assert len(await texts(night.stores)) == 1
    assert await night.run(LATER) == {}


async def test_a_fact_that_a_person_kept_stays_and_the_other_goes(night: Night) -> None:
    await say(night, works("google"))
    await say(night, works("google"), day=1)
    await say(night, employer("google"), day=2)
    kept = await row_of(night, "employer")
    await patch(night, kept.memory_id, pinned=True)
    assert await night.run(LATER) == {"duplicates": 1, "repeated": 1}
    assert await texts(night.stores) == {EMPLOYER}
    await say(night, works("google"), day=21)  # said anew it stands for itself, until the next night
    assert await texts(night.stores) == {EMPLOYER, WORKS}
    one = await row_of(night, "works_at")
    await patch(night, one.memory_id, version=one.version, validation_status="confirmed")
    assert "duplicates" not in await night.run(T0 + 22 * DAY)  # neither may go
    assert await texts(night.stores) == {EMPLOYER, WORKS}


async def test_a_correction_stays_whatever_else_says_the_same(night: Night) -> None:
    await say(night, works("google"))
    await say(night, works("google"), day=1)
    await say(night, employer("meta"), day=2)
    await say(night, employer("google", correction=True), day=3)
    assert await night.run(LATER) == {"duplicates": 1, "repeated": 1}
    assert await texts(night.stores) == {EMPLOYER}
    await say(night, employer("meta"), day=21)
    assert await texts(night.stores) == {EMPLOYER}  # it still stands against what was said before it


async def test_what_a_merged_fact_had_replaced_does_not_come_back(night: Night) -> None:
    await say(night, employer("acme"))
    await say(night, works("google"), day=1)
    await say(night, works("google"), day=2)
    later = await say(night, employer("google"), day=3)
    acme = [UUID(one) for one in (await row_of(night, "employer", "acme")).source_ids]
    assert await night.run(LATER) == {"duplicates": 1, "repeated": 1}
    assert await texts(night.stores) == {WORKS}
    assert await outdated(night, WORKS) == set(acme)  # the old employer is out of date, who says the same is not
    await say(night, employer("acme"), day=-3, now=LATER)  # an old saying of it, imported late
    assert await texts(night.stores) == {WORKS}
    assert later.turns[0].event_id not in await outdated(night, WORKS)
    # What stood behind it is erased last of its key, and the key stays as it was.
    for number in (300, 301, 302):
        await night.run(T0 + number * DAY)
    assert await texts(night.stores) == {WORKS}
    assert set(acme) <= await outdated(night, WORKS)
    assert later.turns[0].event_id not in await outdated(night, WORKS)


async def test_a_merge_is_undone_by_a_person_who_confirms_what_went(night: Night, postgres: TestDatabase) -> None:
    one = await say(night, works("google"))
    other = await say(night, employer("google"), day=2)
    assert await night.run(LATER) == {"duplicates": 1}
    gone = await row_of(night, "employer")
    await patch(night, gone.memory_id, version=gone.version, validation_status="confirmed")
    assert await texts(night.stores) == {WORKS, EMPLOYER}
    rests = {row.content: set(row.event_ids) for row in await shown(night)}
    assert rests == {WORKS: {one.turns[0].event_id}, EMPLOYER: {other.turns[0].event_id}}
    assert postgres.psql("SELECT count(*) FROM fact_sayings WHERE merged_from IS NOT NULL") == "0"
    assert events(postgres, "revalidated") == 2  # by the person, and that it holds for itself again


async def test_a_merged_fact_that_is_replaced_takes_its_evidence_along(night: Night) -> None:
    one = await say(night, works("google"))
    other = await say(night, employer("google"), day=2)
    assert await night.run(LATER) == {"duplicates": 1}
    await say(night, employer("meta"), day=21)
    assert "The user's employer is Meta." in await texts(night.stores)
    assert EMPLOYER not in await texts(night.stores)
    rests = {row.content: set(row.event_ids) for row in await shown(night)}
    assert rests[WORKS] == {one.turns[0].event_id}
    assert await outdated(night, "The user's employer is Meta.") == {other.turns[0].event_id}


async def test_the_one_that_stays_is_replaced_and_both_are_out_of_date(night: Night) -> None:
    one = await say(night, works("google"))
    other = await say(night, employer("google"), day=2)
    await night.run(LATER)
    both = {one.turns[0].event_id, other.turns[0].event_id}
    assert await night.stores.write.untold(night.stores.scope(), list(both)) == frozenset()
    await say(night, works("meta"), day=21)
    assert await texts(night.stores) == {"The user works at Meta."}
    assert await night.stores.write.untold(night.stores.scope(), list(both)) == both
    assert await outdated(night, "The user works at Meta.") == both
    await say(night, employer("google"), day=22)  # back again
    assert EMPLOYER in await texts(night.stores)


async def test_a_turn_that_is_hidden_leaves_what_the_other_says_and_then_nothing(night: Night) -> None:
    commits = []
    for number, what in enumerate((works("google"), employer("google"))):
        commit = alike(saying(night.stores, what, day=number))
        commits.append(replace(commit, memories=(memory_of(commit.turns[0]),)))
        await night.stores.write.commit(commits[-1], now=T0 + number * DAY)
    assert await night.run(LATER) == {"duplicates": 1}
    for commit, left in zip(commits, ({WORKS}, set[str]()), strict=True):
        await night.stores.records.delete_memory(night.stores.scope(), commit.memories[0].memory_id, LATER)
        assert await texts(night.stores) == left


async def test_what_a_person_hides_was_said_by_both(night: Night) -> None:
    await say(night, works("google"))
    await say(night, employer("google"), day=2)
    night.now = LATER
    would = {one.step: one.changed for one in await night.on(night.store).rehearse(lambda *_: None) if one.changed}
    assert would == {"duplicates": 1}
    assert await texts(night.stores) == {WORKS, EMPLOYER}  # a rehearsal changes nothing
    await night.run(LATER)
    (row,) = await shown(night)
    await night.stores.records.delete_memory(night.stores.scope(), row.memory_id, LATER)
    assert await texts(night.stores) == set()
    await night.stores.records.undelete_memory(night.stores.scope(), row.memory_id, LATER)
    assert await texts(night.stores) == {WORKS}


async def test_many_ways_and_many_others_leave_one_of_each(night: Night, postgres: TestDatabase) -> None:
    ways = ("works_at", "works_for", "employed_by", "employer", "is_employed_by")
    for number, predicate in enumerate(ways):
        sentence = f"The user {predicate.replace('_', ' ')} %s."
        for name in ("google", "meta"):
            what = fact(name, predicate=predicate, statement=sentence % name.title(), cardinality="many")
            await say(night, what, day=number, session=f"{name}{number}")
    assert (await night.run(LATER))["duplicates"] == 8
    assert len(await shown(night)) == 2
    behind = "FROM memories a JOIN memories b ON b.memory_id = a.superseded_by"
    assert postgres.psql(f"SELECT count(*) {behind} WHERE b.superseded_by IS NOT NULL") == "0"  # no chains
    assert "duplicates" not in await night.run(LATER)


async def test_killed_at_any_call_the_merge_is_made_once(night: Night, postgres: TestDatabase) -> None:
    for name in ("google", "meta", "acme"):
        await say(night, works(name, cardinality="many"))
        await say(night, employer(name, cardinality="many"), day=1)
    night.now = LATER
    report = None
    for calls in range(1, 200):
        try:
            report = await night.on(Dying(night.store, calls)).run(lambda *_: None)
            break
        except asyncio.CancelledError:
            postgres.psql("UPDATE lane_leases SET expires_at = '-infinity' WHERE lane = 'job:consolidation'")
    assert report is not None
    assert {one.step: one.changed for one in report if one.changed} == {"duplicates": 3}
    assert postgres.psql("SELECT count(*) FROM memories WHERE superseded_reason = 'same meaning'") == "3"
    assert events(postgres, "superseded") == 3


async def test_beside_live_writes_no_saying_is_lost(night: Night, postgres: TestDatabase) -> None:
    for number in range(12):
        await say(night, works(f"firm{number}", cardinality="many"))
        await say(night, employer(f"firm{number}", cardinality="many"), day=1)
    night.now = LATER

    async def live() -> None:
        for number in range(12):
            await say(night, employer(f"firm{number}", cardinality="many"), day=2)

    changed, _ = await asyncio.gather(night.run(), live())
    changed = {"duplicates": changed.get("duplicates", 0) + (await night.run()).get("duplicates", 0)}
    assert changed["duplicates"] >= 12
    assert len(await shown(night)) == 12
    for row in await shown(night):
        assert len(row.event_ids) == 3, row.content


# ---------------------------------------------------------------- said in many sessions


async def weight(night: Night) -> tuple[float, float]:
    record = await night.stores.records.memory(night.stores.scope(), await id_of(night.stores, "tea"))
    return round(record.importance, 3), round(record.confidence, 3)


def tea() -> Fact:
    return fact("tea", predicate="likes", cardinality="many", statement="The user likes tea.")


async def test_a_fact_heard_in_three_sessions_gains_once_for_each_from_then_on(night: Night) -> None:
    for number in range(2):
        await say(night, tea(), day=number, session=f"s{number}")
    await say(night, tea(), day=1, session="s1", at=2)
    assert await night.run(LATER) == {}
    assert await weight(night) == (0.5, 0.8)
    await say(night, tea(), day=2, session="s2")
    assert await night.run(LATER) == {"repeated": 1}
    assert await weight(night) == (0.58, 0.845)
    assert await night.run(LATER) == {}
    for number in range(3, 40):
        await say(night, tea(), day=number, session=f"s{number}")
    assert await night.run(T0 + 50 * DAY) == {"repeated": 1}
    assert await weight(night) == (0.9, 0.95)
    assert await night.run(T0 + 50 * DAY) == {}
    (row,) = await shown(night)
    assert row.content == "The user likes tea."
    near = await night.stores.read.nearest(night.stores.tenant, [row.scope_id], NEAR[0], 1, Filter(), now=night.now)
    assert [one.memory_id for one in near] == [row.memory_id]  # with its vectors


async def test_what_a_person_weighed_keeps_its_weight(night: Night) -> None:
    for number in range(5):
        await say(night, tea(), day=number, session=f"s{number}")
    await patch(night, await id_of(night.stores, "tea"), importance=0.1)
    assert await night.run(LATER) == {"repeated": 1}
    importance, confidence = await weight(night)
    assert importance == pytest.approx(0.1)
    assert confidence > 0.8


@pytest.mark.parametrize("content", ["The user's employer is Meta.", "The user once met somebody at Google."])
async def test_an_edit_of_what_stands_behind_another_brings_it_out_again(night: Night, content: str) -> None:
    one = await say(night, works("google"))
    await say(night, employer("google"), day=2)
    assert await night.run(LATER) == {"duplicates": 1}
    gone = await row_of(night, "employer")
    await patch(night, gone.memory_id, version=gone.version, content=content, windows=((0, 5),), vectors=NEAR)
    assert await texts(night.stores) == {WORKS, content}
    rests = {row.content: set(row.event_ids) for row in await shown(night)}
    assert rests[WORKS] == {one.turns[0].event_id}
