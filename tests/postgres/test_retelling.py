"""Episodes and summaries never bring back what was put right, and old ones become a month that recall sees in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.database import Bounds, NoKeys, Transaction
from memory.adapters.postgres.episode_store import JOB, PostgresEpisodes
from memory.adapters.postgres.leadership import Leadership
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.records import Records
from memory.config import load_settings
from memory.consolidation import Due, Lead, terms_of
from memory.errors import LeaseLost
from memory.model import Commit
from memory.read.items import Filter
from memory.stored import MemoryChange, MemoryRecord
from memory.write.episodes import Bounds as Limits
from memory.write.episodes import Teller
from memory.write.months import SENTENCES_MAX, OldEpisode, month_of
from policies.lifetime import DaysOf
from proxy.remembering import RECALLED_KINDS
from tests.postgres.seed import T0, exchange, memory_of, stores, vectors
from tests.postgres.test_consolidate import BOAT, Dying, Night, Words, contents, summarised, summary_text
from tests.postgres.test_facts import DAY, fact, new_fact, saying
from tests.postgres_fixture import TestDatabase

LIMITS = Limits(idle_s=0, turns_max=60, tokens_max=32_000, sentences_max=8, sessions_max=50)
LATER = T0 + 100 * DAY
HOME, WORK = "I live in Berlin near the old harbour.", "My parser crashes on files that are empty."


@pytest.fixture
async def night(postgres: TestDatabase) -> AsyncIterator[Night]:
    async with stores(postgres, Bounds(connections_max=8)) as made:
        yield Night(made, load_settings(None, {"consolidate.pause_ms": 0}, {}))


async def ended(night: Night, *said: str, session: str = "s", at: datetime = T0, **more: Any) -> Commit:
    """A session of these words, user and assistant in turn, that was told at a moment."""
    made = exchange(night.stores.scope(), session, 0, said, retrieval=None, **more)
    turns = tuple(replace(turn, occurred_at=at) for turn in made.turns)
    memories = more.get("memories", tuple(memory_of(turn) for turn in turns))
    commit = replace(made, turns=turns, memories=memories)
    await night.stores.write.commit(commit, now=at)
    await tell(night, at)
    return commit


async def tell(night: Night, at: datetime, lives: DaysOf | None = None) -> None:
    words: Any = Words()
    store = PostgresEpisodes(night.stores.database, "memory_embeddings_test_model_1d820189")
    teller = Teller(store, words, words, words, LIMITS, lambda: at, lives or {})
    await teller.sweep(lambda: Leadership(night.stores.database, JOB, "one").lead(30))


async def told(night: Night, *collections: str) -> list[MemoryRecord]:
    page = await night.stores.records.memories(night.stores.scope(), limit=200, order="asc", now=night.now)
    return [row for row in page.rows if row.collection in (collections or ("episode", "month", "past"))]


async def moved(night: Night, day: float) -> None:
    """Somebody who lived in Berlin says where they live now."""
    await night.stores.write.commit(saying(night.stores, fact("paris"), day=day), now=T0 + day * DAY)


def stating(commit: Commit, *objects: str) -> Commit:
    """The commit with a fact for each object, said in its first turn."""
    facts = tuple(new_fact(commit.turns[0], fact(one), number) for number, one in enumerate(objects))
    return replace(commit, facts=facts)


async def lived_in_berlin(night: Night, *more: str) -> Commit:
    made = exchange(night.stores.scope(), "s", 0, (HOME, "Noted for later, the harbour.", WORK, *more), retrieval=None)
    commit = stating(made, "berlin")
    await night.stores.write.commit(commit, now=T0)
    await tell(night, T0)
    return commit


# ---------------------------------------------------------------- told anew


async def test_a_superseded_fact_does_not_come_back_through_its_episode(night: Night, postgres: TestDatabase) -> None:
    commit = await lived_in_berlin(night)
    (before,) = await told(night)
    assert HOME in before.content
    assert await night.run(T0 + DAY) == {}
    await moved(night, 2)
    assert await night.run(T0 + 3 * DAY) == {"episodes": 1}
    (after,) = await told(night)
    assert HOME not in after.content
    assert WORK in after.content
    assert commit.turns[0].event_id not in after.event_ids
    assert (after.memory_id, after.version, after.attributes["turns"]) == (before.memory_id, 2, 3)
    assert await night.run(T0 + 3 * DAY) == {}
    vectors = postgres.psql(
        f"SELECT version FROM {postgres.embeddings} WHERE memory_id = '{after.memory_id}' ORDER BY 1"
    )
    assert vectors.split("\n") == ["1", "2"]
    # Also when the superseded fact itself is long gone.
    await night.run(T0 + 300 * DAY)
    assert postgres.psql("SELECT count(*) FROM facts") == "1"
    postgres.psql("UPDATE turns SET recorded_at = now() + interval '9 years' WHERE seq = 2")
    await night.run(T0 + 301 * DAY)
    assert all(HOME not in row.content for row in await told(night))


async def test_an_episode_is_told_anew_without_a_turn_that_its_owner_hid(night: Night) -> None:
    commit = await lived_in_berlin(night)
    await night.stores.records.delete_memory(night.stores.scope(), commit.memories[2].memory_id, T0 + DAY)
    assert await night.run(T0 + DAY) == {"episodes": 1}
    (after,) = await told(night)
    assert WORK not in after.content
    assert await night.run(T0 + DAY) == {}


@pytest.mark.parametrize(
    "written", [{"tag": "x"}, {"first_seq": 0, "last_seq": 10**30}, {"first_seq": "a", "last_seq": None, "turns": {}}]
)
async def test_what_its_owner_wrote_into_an_episodes_attributes_costs_no_turn_and_no_night(
    night: Night, written: dict[str, Any]
) -> None:
    commit = await lived_in_berlin(night)
    (before,) = await told(night)
    change = MemoryChange(attributes=written)
    scope = night.stores.scope()
    await night.stores.records.patch_memory(scope, before.memory_id, before.version, change, T0 + DAY)
    await night.stores.records.delete_memory(scope, commit.memories[2].memory_id, T0 + DAY)
    assert await night.run(T0 + DAY) == {"episodes": 1}
    (after,) = await told(night)
    assert WORK not in after.content
    assert HOME in after.content
    assert await night.run(T0 + DAY) == {}


async def test_an_episode_of_nothing_is_hidden(night: Night, postgres: TestDatabase) -> None:
    commit = await ended(night, WORK)
    await night.stores.records.delete_memory(night.stores.scope(), commit.memories[0].memory_id, T0 + DAY)
    assert await night.run(T0 + DAY) == {"episodes": 1}
    assert await told(night) == []
    assert await night.run(T0 + 2 * DAY) == {}
    assert await night.run(T0 + 40 * DAY) == {"pruned": 1}
    assert postgres.psql("SELECT count(*) FROM memories WHERE collection = 'episode'") == "0"


async def test_a_summary_is_made_anew_without_what_was_superseded(night: Night, postgres: TestDatabase) -> None:
    made, _ = await summarised(night, BOAT, "Halcyon, noted for later.", HOME)
    postgres.psql(
        f"DELETE FROM derivations WHERE derived_kind = 'memory' AND source_id = '{made.turns[1].event_id}'"
    )  # fmt: skip  (the answer only repeated memory)
    again = stating(replace(made, turns=made.turns[2:]), "berlin")
    assert await night.run(T0 + DAY) == {}
    postgres.psql(
        "INSERT INTO outdated_turns SELECT tenant_id, memory_id, "
        f"'{again.turns[0].event_id}', scope_id FROM memories LIMIT 1"
    )
    assert await night.run(T0 + DAY) == {"summaries": 1}
    assert summary_text(postgres) == BOAT
    assert await night.run(T0 + DAY) == {}


async def test_a_summary_of_a_turn_that_was_hidden_meanwhile_is_not_put(night: Night, postgres: TestDatabase) -> None:
    made, summary_id = await summarised(night, BOAT, "Halcyon, noted for later.", HOME)
    store, scope_id, tenant = night.store, await night.stores.scopes.ensure(night.stores.scope()), night.stores.tenant
    fence = await store.lead("night", 600)
    assert fence is not None
    lead, terms = Lead("night", fence, (await store.begin(T0)).run_id), terms_of(night.settings, T0)
    before = await store.old_summary(tenant, scope_id, summary_id)
    assert before is not None
    anew = await night.on(store)._parts.summarise(before, await store.summarised_turns(tenant, before, 0, 99))
    assert anew is not None
    assert BOAT in anew.content
    await night.stores.records.delete_memory(night.stores.scope(), made.memories[0].memory_id, T0)
    assert await store.put_rebuilt(tenant, before, anew, terms, lead) == 0
    assert postgres.psql(f"SELECT version FROM memories WHERE memory_id = '{summary_id}'") == "1"


class Waits(NoKeys):
    """A deletion that has hidden its memory and is held up before it can be seen."""

    reads = frozenset({"facts_left_alone"})

    def __init__(self) -> None:
        self.has_hidden, self.goes_on = asyncio.Event(), asyncio.Event()

    async def opened(self, tx: Transaction, query: Query, arguments: Sequence[Any], rows: list[Any]) -> list[Any]:
        self.has_hidden.set()
        await self.goes_on.wait()
        return rows


async def test_a_summary_of_a_turn_that_is_being_hidden_is_not_put(night: Night, postgres: TestDatabase) -> None:
    made, summary_id = await summarised(night, BOAT, "Halcyon, noted for later.", HOME)
    store, scope = night.store, night.stores.scope()
    scope_id, tenant = await night.stores.scopes.ensure(scope), night.stores.tenant
    fence = await store.lead("night", 600)
    assert fence is not None
    lead, terms = Lead("night", fence, (await store.begin(T0)).run_id), terms_of(night.settings, T0)
    await night.stores.records.delete_memory(scope, made.memories[2].memory_id, T0)
    before = await store.old_summary(tenant, scope_id, summary_id)
    assert before is not None
    anew = await night.on(store)._parts.summarise(before, (await store.summarised_turns(tenant, before, 0, 99))[:2])
    assert anew is not None and BOAT in anew.content
    waits = Waits()
    slow = Records(night.stores.database.with_vault(lambda: waits), night.stores.scopes, postgres.embeddings)
    hiding = asyncio.create_task(slow.delete_memory(scope, made.memories[0].memory_id, T0))
    await waits.has_hidden.wait()
    putting = asyncio.create_task(store.put_rebuilt(tenant, before, anew, terms, lead))
    await asyncio.sleep(0.3)
    waits.goes_on.set()
    await hiding
    assert await putting == 0
    shown = postgres.psql("SELECT count(*) FROM memories WHERE kind = 'summary' AND deleted_at IS NULL")
    assert shown == "0", "what was hidden is told in it"


async def test_a_summary_that_would_tell_what_is_confidential_by_now_is_not_put(night: Night) -> None:
    """The one that stands does not rest on that turn, so nothing raised it."""
    _, summary_id = await summarised(night, BOAT, "Halcyon, noted for later.", HOME)
    store, scope = night.store, night.stores.scope()
    scope_id, tenant = await night.stores.scopes.ensure(scope), night.stores.tenant
    fence = await store.lead("night", 600)
    assert fence is not None
    lead, terms = Lead("night", fence, (await store.begin(T0)).run_id), terms_of(night.settings, T0)
    other = exchange(scope, "another", 0, ("My sister is called Ines.",))
    await night.stores.write.commit(other, now=T0)
    before = await store.old_summary(tenant, scope_id, summary_id)
    assert before is not None
    anew = await night.on(store)._parts.summarise(before, (await store.summarised_turns(tenant, before, 0, 99))[:2])
    assert anew is not None
    more = replace(anew, source_turns=(*anew.source_turns, other.turns[0].event_id))
    change = MemoryChange(sensitivity="confidential")
    await night.stores.records.patch_memory(scope, other.memories[0].memory_id, 1, change, T0)
    assert await store.put_rebuilt(tenant, before, more, terms, lead) == 0
    assert await store.put_rebuilt(tenant, before, anew, terms, lead) == 1


async def test_an_answer_that_only_repeated_memory_is_in_no_episode(night: Night) -> None:
    made = exchange(
        night.stores.scope(), "s", 0, (WORK, "You told me that your boat is called Halcyon."), retrieval=None
    )
    call = [{"function": {"name": "read_file", "arguments": "{}"}}]
    turns = (made.turns[0], replace(made.turns[1], tool_calls=call))
    await night.stores.write.commit(replace(made, turns=turns, memories=made.memories[:1]), now=T0)
    await tell(night, T0)
    (one,) = await told(night)
    assert one.content == WORK
    assert one.event_ids == (made.turns[0].event_id,)
    assert one.attributes["tools"] == {"read_file": 1}  # what it called happened


async def test_an_episode_is_born_with_the_end_of_its_kind(night: Night) -> None:
    made = exchange(night.stores.scope(), "s", 0, (WORK, "Check the length first."), retrieval=None)
    await night.stores.write.commit(made, now=T0)
    await tell(night, T0, {"episodic": 7.0})
    (one,) = await told(night)
    assert one.expires_at == T0 + 7 * DAY
    await night.stores.records.delete_memory(night.stores.scope(), made.memories[1].memory_id, T0)
    assert await night.run(T0 + DAY) == {"episodes": 1}
    assert [row.expires_at for row in await told(night)] == [T0 + 7 * DAY]  # told anew it does not live longer


# ---------------------------------------------------------------- compressed


PLACES = ("Lisbon", "Porto", "Faro", "Braga")


async def many(night: Night, days: Sequence[float] = (0, 1, 2, 12)) -> list[Commit]:
    return [
        await ended(
            night,
            f"We walked through {place} with aunt Clara and saw the long bridge.",
            f"A fine walk that must have been, {place} is lovely in autumn.",
            f"Then the train from {place} was late by seven hours because of a strike.",
            session=place,
            at=T0 + day * DAY,
        )
        for place, day in zip(PLACES, days, strict=True)
    ]


async def test_old_episodes_become_one_of_their_month_and_are_not_recalled_beside_their_turns(
    night: Night, postgres: TestDatabase
) -> None:
    commits = await many(night)
    before = await contents(night)
    assert await night.run(T0 + 89 * DAY) == {}
    assert await night.run(T0 + 150 * DAY) == {"compressed": 4}
    months = await told(night, "month")
    assert [(row.attributes["month"], row.attributes["episodes"]) for row in months] == [("2026-11", 3), ("2026-12", 1)]
    assert [row.kind for row in months] == ["summary", "summary"]
    episodes = await told(night, "episode")
    assert len(episodes) == 4
    assert sum(len(row.content) for row in months) <= sum(len(row.content) for row in episodes)
    turns = {turn.event_id for commit in commits[:3] for turn in commit.turns}
    assert set(months[0].event_ids) == turns
    sources = postgres.psql(
        f"SELECT count(*) FROM derivations WHERE derived_id = '{months[0].memory_id}' AND source_kind = 'memory'"
    )
    assert sources == "3"
    assert "21 November 2026: " in months[0].content
    assert await contents(night) == before
    assert await night.run(T0 + 150 * DAY) == {}


async def test_night_after_night_a_month_waits_until_the_last_of_it_is_old(night: Night) -> None:
    """The nights of a service come one a day: each found the episodes of one day old enough, and made these a month."""
    await many(night, days=(0, 1, 2, 8))
    for day in range(89, 102):
        await night.run(T0 + day * DAY)
    months = await told(night, "month")
    assert [(row.attributes["month"], row.attributes["episodes"]) for row in months] == [("2026-11", 4)]


async def test_a_month_is_recalled_once_all_its_turns_are_gone(night: Night, postgres: TestDatabase) -> None:
    await many(night)
    await night.run(LATER + 50 * DAY)
    versions = "SELECT max(version) FROM scope_versions"
    before = int(postgres.psql(versions))
    (first, second) = await told(night, "month")
    postgres.psql(f"UPDATE memory_versions SET expires_at = '{T0 + 140 * DAY}' FROM memories m WHERE m.memory_id = "
                  "memory_versions.memory_id AND m.collection = 'default' AND m.kind = 'episodic' "
                  "AND content LIKE '%Braga%'")  # fmt: skip
    assert await night.run(LATER + 51 * DAY) == {"past": 1}
    assert [row.memory_id for row in await told(night, "past")] == [second.memory_id]
    assert int(postgres.psql(versions)) > before  # a hot scope hears of it
    assert second.content in await contents(night)
    assert first.content not in await contents(night)
    tenant, (scope,) = night.stores.tenant, await night.stores.read.visible_scopes(night.stores.scope())
    where = Filter(kinds=RECALLED_KINDS)
    near = await night.stores.read.nearest(tenant, [scope.scope_id], vectors(1)[0], 99, where, now=night.now)
    assert second.memory_id in {row.memory_id for row in near}  # from Postgres
    assert first.memory_id not in {row.memory_id for row in near}
    assert "expired" in await night.run(LATER + 300 * DAY)
    assert second.content in await contents(night)


async def test_a_month_is_made_anew_when_what_it_tells_was_put_right(night: Night) -> None:
    commits = await many(night)
    await night.run(LATER + 50 * DAY)
    for memory in commits[0].memories:
        await night.stores.records.delete_memory(night.stores.scope(), memory.memory_id, LATER + 51 * DAY)
    assert any("Lisbon" in row.content for row in await told(night, "month"))
    done = await night.run(LATER + 52 * DAY)
    assert done == {"episodes": 2}  # the episode, of which nothing is left, and its month
    assert all("Lisbon" not in row.content for row in await told(night))
    (first, _) = await told(night, "month")
    assert (first.version, first.attributes["episodes"]) == (2, 2)
    assert await night.run(LATER + 52 * DAY) == {}
    for commit in commits[1:3]:
        for memory in commit.memories:
            await night.stores.records.delete_memory(night.stores.scope(), memory.memory_id, LATER + 53 * DAY)
    await night.run(LATER + 54 * DAY)
    assert [row.attributes["month"] for row in await told(night, "month")] == ["2026-12"]
    assert (await night.run(LATER + 54 * DAY)).keys() <= {"pruned"}


async def test_a_month_that_is_made_anew_is_as_a_person_left_it(night: Night) -> None:
    commits = await many(night)
    await night.run(LATER + 50 * DAY)
    (first, _) = await told(night, "month")
    ends = MemoryChange(expires_at=LATER + 60 * DAY, set_expires_at=True, validation_status="rejected")
    await night.stores.records.patch_memory(night.stores.scope(), first.memory_id, 1, ends, LATER + 51 * DAY)
    await night.stores.records.delete_memory(night.stores.scope(), commits[0].memories[0].memory_id, LATER + 51 * DAY)
    await night.run(LATER + 52 * DAY)
    (first, _) = await told(night, "month")
    assert (first.version, first.expires_at, first.validation_status) == (3, LATER + 60 * DAY, "rejected")


async def test_an_episode_that_a_person_hid_leaves_its_month_too(night: Night) -> None:
    await many(night)
    await night.run(LATER + 50 * DAY)
    (lisbon,) = [row for row in await told(night, "episode") if "Lisbon" in row.content]
    await night.stores.records.delete_memory(night.stores.scope(), lisbon.memory_id, LATER + 51 * DAY)
    assert await night.run(LATER + 51 * DAY) == {"episodes": 1}
    assert all("Lisbon" not in row.content for row in await told(night, "month"))
    assert await night.run(LATER + 51 * DAY) == {}


@pytest.mark.parametrize("how", ["rejected", "rejected later", "quarantined"])
async def test_an_episode_that_is_rejected_or_held_back_is_told_by_no_month(
    night: Night, postgres: TestDatabase, how: str
) -> None:
    await many(night)
    if how == "rejected later":
        await night.run(LATER + 50 * DAY)
        assert any("Lisbon" in row.content for row in await told(night, "month"))
    (lisbon,) = [row for row in await told(night, "episode") if "Lisbon" in row.content]
    if how == "quarantined":
        postgres.psql(
            "UPDATE memories SET quarantined_at = now(), quarantine_reason = 'planted' "
            f"WHERE memory_id = '{lisbon.memory_id}'"
        )
    else:
        change = MemoryChange(validation_status="rejected")
        await night.stores.records.patch_memory(
            night.stores.scope(), lisbon.memory_id, lisbon.version, change, LATER + 51 * DAY
        )
    await night.run(LATER + 52 * DAY)
    months = await told(night, "month")
    assert months and all("Lisbon" not in row.content for row in months)
    assert await night.run(LATER + 52 * DAY) == {}


async def test_killed_at_any_call_each_episode_is_in_one_month(night: Night, postgres: TestDatabase) -> None:
    commits = await many(night)
    night.now = LATER + 50 * DAY
    await night.stores.records.delete_memory(night.stores.scope(), commits[0].memories[0].memory_id, night.now)
    report = None
    for calls in range(1, 300):
        try:
            report = await night.on(Dying(night.store, calls)).run(lambda *_: None)
            break
        except asyncio.CancelledError:
            postgres.psql("UPDATE lane_leases SET expires_at = '-infinity' WHERE lane = 'job:consolidation'")
    assert report is not None
    assert {one.step: one.changed for one in report if one.changed} == {"episodes": 1, "compressed": 4}
    assert [row.attributes["episodes"] for row in await told(night, "month")] == [3, 1]
    assert postgres.psql("SELECT count(*) FROM memories WHERE compressed_into IS NOT NULL") == "4"
    assert await night.run() == {}


async def test_two_that_start_at_once_compress_once_and_a_stale_leader_puts_nothing(
    night: Night, postgres: TestDatabase
) -> None:
    await many(night)
    night.now = LATER + 50 * DAY
    other = replace(night, holder="other")
    await asyncio.gather(night.on(night.store).run(lambda *_: None), other.on(other.store).run(lambda *_: None))
    assert len(await told(night, "month")) == 2
    postgres.psql("UPDATE memories SET compressed_into = NULL; DELETE FROM memories WHERE collection = 'month'")
    store, scope_id = night.store, await night.stores.scopes.ensure(night.stores.scope())
    stale = await store.lead("first", 600)
    run = await store.begin(night.now)
    postgres.psql("UPDATE lane_leases SET expires_at = '-infinity' WHERE lane = 'job:consolidation'")
    assert await store.lead("second", 600)
    assert stale is not None
    episodes = await store.episodes_of(
        night.stores.tenant, scope_id, [row.memory_id for row in await told(night, "episode")]
    )
    month = month_of(episodes)
    assert month is not None
    lead, terms = Lead("first", stale, run.run_id), terms_of(night.settings, night.now)
    with pytest.raises(LeaseLost):
        await store.put_month(night.stores.tenant, scope_id, month, episodes, terms, lead)
    assert await told(night, "month") == []


@pytest.mark.parametrize("becomes", ["confidential", "hidden"])
async def test_what_becomes_another_between_the_telling_and_the_putting_is_not_put(night: Night, becomes: str) -> None:
    commits = await many(night)
    scope, records = night.stores.scope(), night.stores.records

    async def change(at: int) -> None:
        said = commits[at].memories[0].memory_id
        if becomes == "hidden":
            await records.delete_memory(scope, said, night.now)
        else:
            await records.patch_memory(scope, said, 1, MemoryChange(sensitivity="confidential"), night.now)

    night.now = LATER + 50 * DAY
    store, scope_id, tenant = night.store, await night.stores.scopes.ensure(night.stores.scope()), night.stores.tenant
    fence = await store.lead("night", 600)
    assert fence is not None
    lead, terms = Lead("night", fence, (await store.begin(night.now)).run_id), terms_of(night.settings, night.now)
    episodes = await store.episodes_of(tenant, scope_id, [row.memory_id for row in await told(night, "episode")])
    month = month_of(episodes[:3])
    assert month is not None
    await change(0)
    assert await store.put_month(tenant, scope_id, month, episodes[:3], terms, lead) == 0
    old = await store.old_told(tenant, scope_id, episodes[1].memory_id)
    assert old is not None
    made = await night.on(store)._parts.tells.episode(tenant, old, await store.turns_told(tenant, old))
    await change(1)
    assert await store.put_told(tenant, old, made, (), terms, lead) == 0
    assert all(row.version == 1 for row in await told(night))
    eve = await night.stores.scopes.ensure(night.stores.scope("eve"))
    assert await store.episodes_of(tenant, eve, [one.memory_id for one in episodes]) == []  # another scope sees none
    assert await store.old_told(tenant, eve, old.memory_id) is None
    assert (await store.change(tenant, eve, "past", [Due(old.memory_id)], terms, lead)).rows == 0


async def test_what_is_hidden_as_never_used_is_recalled_as_its_month(night: Night) -> None:
    await many(night)
    night.settings = load_settings(None, {"consolidate.pause_ms": 0, "consolidate.never_used_keep_days": 30}, {})
    assert await night.run(T0 + 60 * DAY) == {"unused": 12}  # the turns, not what was told of them
    assert await contents(night) == set()
    assert await night.run(T0 + 150 * DAY) == {"compressed": 4, "pruned": 12}
    assert await night.run(T0 + 151 * DAY) == {"past": 2}
    assert {"Lisbon" in text or "Braga" in text for text in await contents(night)} == {True}
    assert await night.run(T0 + 400 * DAY) == {}


async def test_compressing_can_be_left_off(night: Night) -> None:
    await many(night)
    night.settings = load_settings(
        None, {"consolidate.pause_ms": 0}, {"MEMORY_PROXY_CONSOLIDATE__COMPRESS_AFTER_DAYS": "null"}
    )
    assert await night.run(LATER + 500 * DAY) == {}


def old(content: str, number: int = 0, **more: Any) -> OldEpisode:
    at = T0 + timedelta(hours=number)
    return OldEpisode(UUID(int=number + 1), 1, content, at, "user", "internal", {"topics": ["x"], **more})


TEXTS = ("北京的天气很好。我喜欢喝茶。", "Ich wohne in Köln. Es regnet heute.", "Two words", "x" * 9_000 + " y" * 9)


@pytest.mark.parametrize("text", TEXTS, ids=("zh", "de", "short", "long"))
def test_a_month_is_never_longer_than_what_it_tells(text: str) -> None:
    for count in (1, 2, 40):
        made = month_of([old(text, number) for number in range(count)])
        assert made is None or len(made.content) <= len(text) * count
    long = month_of([old("\n".join(f"On walk {n} of {m} we saw bird {n}." for n in range(9)), m) for m in range(50)])
    assert long is not None
    assert sum(line.count("bird") for line in long.content.split("\n")) <= SENTENCES_MAX


def test_a_month_of_nothing_is_none() -> None:
    assert month_of([old(""), old("  ", 1)]) is None


def test_a_month_has_the_lowest_integrity_and_the_highest_sensitivity() -> None:
    made = month_of([
        old("We went to the sea together."),
        replace(old("The tool said that it rains.", 1), integrity="tool", sensitivity="confidential"),
    ])  # fmt: skip
    assert made is not None
    assert (made.integrity.value, made.sensitivity.value) == ("tool", "confidential")
