"""Episodes: a session that ended is told once, whoever sweeps, and what may not be told again is not in it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.adapters.postgres import episode_store
from memory.adapters.postgres.database import Bounds, Transaction
from memory.adapters.postgres.episode_store import JOB, PostgresEpisodes
from memory.adapters.postgres.leadership import Leadership
from memory.adapters.postgres.outbox import Feed
from memory.errors import LeaseLost, NotFound, QueueUnavailable
from memory.ids import new_id
from memory.model import Commit
from memory.ports import QueueDepth
from memory.read.items import Filter
from memory.stored import MemoryRecord
from memory.telemetry import Metrics
from memory.write.episodes import Bounds as Limits
from memory.write.episodes import DueSession, Teller, ToldTurn, cut_range, episode_of
from memory.write.telling import CALM_S, keep_telling
from tests.postgres.seed import LANE, SUBJECT, T0, Stores, Words, chunk, exchange, stores, turn, vectors
from tests.postgres_fixture import TestDatabase

LIMITS = Limits(idle_s=1800, turns_max=60, tokens_max=32_000, sentences_max=8, sessions_max=50)
TALK = (
    "My parser in src/parse.py crashes on empty files.",
    "Check the length before you read the header.",
    "That fixed it, thanks! Ada Lovelace will be happy in Lisbon.",
    "Good to hear. The header needs at least four bytes.",
)


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres, Bounds(connections_max=16)) as made:
        yield made


def episodes_of(store: Stores, postgres: TestDatabase) -> PostgresEpisodes:
    return PostgresEpisodes(store.database, postgres.embeddings)


def teller(store: Stores, postgres: TestDatabase, **limits: Any) -> Teller:
    words = Words()
    return Teller(
        episodes_of(store, postgres), words, words, words, replace(LIMITS, **limits), lambda: T0 + timedelta(days=1), {}
    )


def leader(store: Stores, holder: str = "one") -> Leadership:
    return Leadership(store.database, JOB, holder)


def led(store: Stores, holder: str = "one") -> Callable[[], Awaitable[int | None]]:
    """What a sweep asks before each episode."""
    return lambda: leader(store, holder).lead(30)


def asleep(postgres: TestDatabase, seconds: int = 7200) -> None:
    """Every session was last spoken in so long ago."""
    postgres.psql(f"UPDATE sessions SET active_at = clock_timestamp() - interval '{seconds} s'")


async def said(
    store: Stores, texts: Sequence[str] = TALK, session: str = "s", at: int = 0, **more: Any
) -> list[Commit]:
    """Exchanges of two turns each, stored."""
    commits = [
        exchange(store.scope(), session, at + place, texts[place : place + 2], **more)
        for place in range(0, len(texts), 2)
    ]
    for commit in commits:
        await store.write.commit(commit, now=T0)
    return commits


async def listed(store: Stores) -> list[MemoryRecord]:
    page = await store.records.memories(store.scope(), limit=200, kind="episodic")
    found = [row for row in page.rows if row.collection == "episode"]
    return sorted(found, key=lambda row: row.attributes["first_seq"])


async def test_a_session_that_its_client_ended_is_told_at_once_and_goes_on_with_what_is_said_later(
    store: Stores, postgres: TestDatabase
) -> None:
    await said(store)
    sweeping = teller(store, postgres)
    assert (await sweeping.sweep(led(store))).stored == 0
    last = (await store.records.session(store.scope(), "s")).last_at
    before = await store.records.end_session(store.scope(), "s", last - timedelta(seconds=1))
    assert (await sweeping.sweep(led(store))).stored == 0, "something was said after that moment"
    ended = await store.records.end_session(store.scope(), "s", last)
    assert (before.ended_at, ended.ended_at) == (last - timedelta(seconds=1), last)
    assert (await store.records.end_session(store.scope(), "s", T0 - timedelta(days=9))).ended_at == last
    assert (await sweeping.sweep(led(store))).stored == 1
    later = exchange(store.scope(), "s", len(TALK), TALK[:2])
    arrived = replace(later.exchange, arrived_at=last + timedelta(seconds=1))
    await store.write.commit(replace(later, exchange=arrived), now=T0)
    assert (await sweeping.sweep(led(store))).stored == 0
    asleep(postgres)
    assert (await sweeping.sweep(led(store))).stored == 1
    assert [row.attributes["first_seq"] for row in await listed(store)] == [0, len(TALK)]
    with pytest.raises(NotFound):
        await store.records.end_session(store.scope("eve"), "s", last)


async def test_an_idle_session_is_told_once_with_all_that_belongs_to_it(store: Stores, postgres: TestDatabase) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    first, second = (exchange(store.scope(), "s", at, TALK[at : at + 2]) for at in (0, 2))
    for commit in (first, second):
        await store.write.commit(replace(commit, exchange=replace(commit.exchange, usage=usage)), now=T0)
    swept = teller(store, postgres)
    assert (await swept.sweep(led(store))).stored == 0  # somebody spoke just now
    asleep(postgres)
    assert (await swept.sweep(led(store))).stored == 1
    assert await swept.sweep(led(store)) == await swept.sweep(led(store))
    (one,) = await listed(store)
    events = tuple(turn.event_id for commit in (first, second) for turn in commit.turns)
    assert one.event_ids == events
    assert (one.integrity, one.sensitivity, one.origin, one.role) == ("assistant", "internal", "episode", "assistant")
    assert one.attributes == {
        "topics": one.attributes["topics"],
        "task_type": "coding",
        "outcome": "success",
        "outcome_evidence": {"event_id": str(events[2]), "reason": "user_confirmed"},
        "entities": ["Ada Lovelace", "Lisbon"],
        "tools": {},
        "tool_sequence": [],
        "files": ["src/parse.py"],
        "urls": [],
        "tokens": {"prompt_tokens": 200, "completion_tokens": 40, "total_tokens": 240},
        "duration_s": 3.0,
        "first_seq": 0,
        "last_seq": 3,
        "turns": 4,
    }
    assert "header" in one.attributes["topics"]
    assert all(line in " ".join(TALK) for line in one.content.splitlines())
    assert len(one.content) < sum(map(len, TALK))
    of = f"memory_id = '{one.memory_id}'"
    assert postgres.psql(f"SELECT extractor_version FROM provenance WHERE {of}") == "episode-1"
    assert postgres.psql(f"SELECT count(*) FROM {postgres.embeddings} WHERE {of}") == "1"
    assert postgres.psql(f"SELECT subject_id FROM memories WHERE {of}") == str(SUBJECT)
    told = (await Feed(store.database, store.scopes).events(store.scope(), limit=50)).rows[-1]
    assert (told.memory_id, told.what, told.by) == (one.memory_id, "created", "episodes")


async def test_a_session_that_was_spoken_in_by_a_clock_put_back_since_is_told(
    store: Stores, postgres: TestDatabase
) -> None:
    """The database's clock was a year ahead for a night: its sessions would not rest until that had come."""
    await store.write.commit(exchange(store.scope(), "s", 0, TALK), now=T0)
    postgres.psql("UPDATE sessions SET active_at = clock_timestamp() + interval '5 min'")
    assert (await teller(store, postgres).sweep(led(store))).stored == 0
    postgres.psql("UPDATE sessions SET active_at = clock_timestamp() + interval '1 year'")
    assert (await teller(store, postgres).sweep(led(store))).stored == 1


async def test_the_next_episode_goes_on_where_the_last_one_ended(store: Stores, postgres: TestDatabase) -> None:
    await said(store)
    asleep(postgres)
    sweeper = teller(store, postgres)
    await sweeper.sweep(led(store))
    await said(store, ("Now plan my trip to Porto in May", "Take the train from Lisbon to Porto."), at=4)
    assert (await sweeper.sweep(led(store))).stored == 0
    asleep(postgres)
    assert (await sweeper.sweep(led(store))).stored == 1
    ranges = [(one.attributes["first_seq"], one.attributes["last_seq"]) for one in await listed(store)]
    assert ranges == [(0, 3), (4, 5)]


async def test_a_session_that_never_rests_is_told_by_its_size(store: Stores, postgres: TestDatabase) -> None:
    await said(store, [f"number {n} of the long story goes on here" for n in range(14)])
    sweeper = teller(store, postgres, turns_max=4)
    assert (await sweeper.sweep(led(store))).stored == 3
    assert postgres.psql("SELECT next_seq, episode_seq FROM sessions") == "14|12"
    asleep(postgres)
    assert (await sweeper.sweep(led(store))).stored == 1
    ranges = [(one.attributes["first_seq"], one.attributes["last_seq"]) for one in await listed(store)]
    assert ranges == [(0, 3), (4, 7), (8, 11), (12, 13)]


async def test_one_look_makes_so_many_episodes_at_most(store: Stores, postgres: TestDatabase) -> None:
    for n in range(5):
        await said(store, session=f"s{n}")
    asleep(postgres)
    sweeper = teller(store, postgres, sessions_max=2)
    assert [(await sweeper.sweep(led(store))).stored for _ in range(4)] == [2, 2, 1, 0]


async def test_no_tenant_and_no_scope_waits_for_ever(
    store: Stores, postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those with more than one look tells come first once, not always."""
    monkeypatch.setattr(episode_store, "_SCOPES_AT_ONCE", 1_000)
    other = await store.keys.ensure_tenant("other", T0)
    for tenant in (store.tenant, other):
        for n in range(3):
            commit = exchange(replace(store.scope(), tenant=tenant), f"s{n}", 0, TALK)
            await store.write.commit(commit, now=T0)
    asleep(postgres)
    sweeper = teller(store, postgres, sessions_max=1)
    for _ in range(2):
        assert (await sweeper.sweep(led(store))).stored == 1
    assert postgres.psql("SELECT count(DISTINCT tenant_id) FROM memories WHERE collection = 'episode'") == "2"
    postgres.psql(
        "INSERT INTO scopes (tenant_id, user_name, project, agent)"
        f" SELECT '{other}', 'u' || n, 'p', 'a' FROM generate_series(1, 1500) n"
    )
    postgres.psql(
        "INSERT INTO sessions (tenant_id, session_id, scope_id, label, next_seq, created_at, last_at, active_at)"
        " SELECT tenant_id, gen_random_uuid(), scope_id, 's', 2, now(), now(), now() - interval '1 d' FROM scopes"
        f" WHERE tenant_id = '{other}' AND user_name IN ('u1', 'u2', 'u1400')"
    )
    of = episodes_of(store, postgres)
    looks = [await of.due(other, idle_s=1800, turns_max=60, limit=2) for _ in range(2)]
    assert [len(look) for look in looks] == [2, 1]
    assert looks[1][0].scope_id > looks[0][1].scope_id


async def test_a_greeting_leaves_no_episode_and_does_not_come_again(store: Stores, postgres: TestDatabase) -> None:
    await said(store, ("hi", "Hello! How can I help you today?"))
    await said(store, ("😀", "😀"), session="t")
    asleep(postgres)
    swept = await teller(store, postgres).sweep(led(store))
    assert (swept.stored, swept.empty, swept.refused) == (0, 2, 0)
    assert await listed(store) == []
    assert postgres.psql("SELECT DISTINCT next_seq - episode_seq FROM sessions") == "0"


async def test_a_range_whose_turns_were_forgotten_is_passed_over_and_stops_nobody(
    store: Stores, postgres: TestDatabase
) -> None:
    for name in ("gone", "gone too"):
        await said(store, session=name)
        await said(store, TALK, session=name, at=4)
    postgres.psql("UPDATE sessions SET episode_seq = 4")  # told so far
    postgres.psql("DELETE FROM turns WHERE seq >= 4")
    asleep(postgres, 9_000)
    await said(store, session="other")
    postgres.psql("UPDATE sessions SET active_at = clock_timestamp() - interval '2 h' WHERE label = 'other'")
    sweeper = teller(store, postgres, sessions_max=2)
    first = await sweeper.sweep(led(store))
    assert (first.stored, first.empty) == (0, 2)
    second = await sweeper.sweep(led(store))
    assert (second.stored, second.empty, second.refused) == (1, 0, 0)
    assert postgres.psql("SELECT DISTINCT next_seq - episode_seq FROM sessions") == "0"
    assert postgres.psql("SELECT count(*) FROM turns WHERE seq < 4") == "12"


async def test_a_range_is_passed_over_by_the_leader_and_only_while_it_is_empty(
    store: Stores, postgres: TestDatabase
) -> None:
    await said(store)
    asleep(postgres)
    of = episodes_of(store, postgres)
    fence = await leader(store).lead(30) or 0
    (due,) = await of.due(store.tenant, idle_s=1800, turns_max=60, limit=9)
    assert not await of.pass_over(due, fence=fence)
    postgres.psql("DELETE FROM turns")
    with pytest.raises(LeaseLost):
        await of.pass_over(due, fence=fence + 1)
    await said(store, TALK[:2], at=4)  # somebody goes on meanwhile: what is behind the range stays to be told
    assert await of.pass_over(due, fence=fence)
    assert postgres.psql("SELECT episode_seq, next_seq FROM sessions") == "4|6"
    assert not await of.pass_over(due, fence=fence)


async def test_an_episode_is_listed_and_never_recalled(store: Stores, postgres: TestDatabase) -> None:
    commits = await said(store)
    asleep(postgres)
    before = await store.scopes.visible(store.scope())
    await teller(store, postgres).sweep(led(store))
    (one,) = await listed(store)
    assert await store.scopes.visible(store.scope()) == before  # no reader need catch up
    turns = {memory.memory_id for commit in commits for memory in commit.memories}
    ids = [version.scope_id for version in before]
    for as_of in (None, T0 + timedelta(days=2)):
        rows = [row async for page in store.read.index_rows(store.tenant, ids, as_of=as_of) for row in page]
        assert {row.memory_id for row in rows} == turns
    near = await store.read.nearest(store.tenant, ids, vectors(1)[0], 50, Filter())
    assert {row.memory_id for row in near} == turns and one.memory_id not in turns


async def test_what_was_deleted_or_superseded_is_not_told_again(store: Stores, postgres: TestDatabase) -> None:
    commits = await said(store)
    wrong, stale = commits[0].memories[0], commits[1].memories[0]
    await store.records.delete_memory(store.scope(), wrong.memory_id, T0)
    postgres.psql(f"UPDATE memories SET superseded_by = memory_id WHERE memory_id = '{stale.memory_id}'")
    asleep(postgres)
    await teller(store, postgres, sentences_max=50).sweep(led(store))
    found = await listed(store)  # what is left are answers: nothing that the user said
    assert all(word not in str(found) for word in ("parse.py", "Lovelace", "crashes"))
    assert all({wrong.source_turns[0], stale.source_turns[0]}.isdisjoint(one.event_ids) for one in found)


async def test_turns_that_change_or_go_while_they_are_told_are_told_anew(store: Stores, postgres: TestDatabase) -> None:
    commits = await said(store)
    asleep(postgres)
    sweeper, of = teller(store, postgres), episodes_of(store, postgres)
    fence = await leader(store).lead(30) or 0
    (due,) = await of.due(store.tenant, idle_s=1800, turns_max=60, limit=9)
    episode = await sweeper.episode(due)
    assert episode is not None
    gone = commits[1].turns[1].event_id
    postgres.psql(f"DELETE FROM turns WHERE event_id = '{gone}'")
    assert not await of.put(due, episode, fence=fence, now=T0)
    postgres.psql("UPDATE turns SET recorded_at = recorded_at + interval '1 s'")
    assert not await of.put(due, episode, fence=fence, now=T0)
    assert (await sweeper.sweep(led(store))).stored == 1
    assert gone not in (await listed(store))[0].event_ids


async def test_two_leaders_at_once_tell_a_session_once(store: Stores, postgres: TestDatabase) -> None:
    for n in range(6):
        await said(store, session=f"s{n}")
    asleep(postgres)
    sweeper = teller(store, postgres)
    found = await asyncio.gather(*(sweeper.sweep(led(store, name)) for name in ("one", "two", "three")))
    assert sum(one.stored for one in found) == 6 and sum(one.stored > 0 for one in found) == 1
    assert len(await listed(store)) == 6
    # One leader several times at once, as after a lost answer: the range decides.
    await said(store, session="again")
    asleep(postgres)
    postgres.psql("UPDATE lane_leases SET expires_at = clock_timestamp() WHERE lane = 'job:episodes'")
    found = await asyncio.gather(*(sweeper.sweep(led(store, "four")) for _ in range(3)))
    assert sum(one.stored for one in found) == 1
    assert len(await listed(store)) == 7


async def test_a_leader_whose_lease_ran_out_stores_nothing_more(store: Stores, postgres: TestDatabase) -> None:
    await said(store)
    asleep(postgres)
    of, sweeper = episodes_of(store, postgres), teller(store, postgres)
    old = await leader(store, "old").lead(30) or 0
    assert await leader(store, "new").lead(30) is None
    (due,) = await of.due(store.tenant, idle_s=1800, turns_max=60, limit=9)
    episode = await sweeper.episode(due)
    assert episode is not None
    postgres.psql("UPDATE lane_leases SET expires_at = clock_timestamp() WHERE lane = 'job:episodes'")  # killed
    assert await leader(store, "new").lead(30) == old + 1
    assert await leader(store, "old").lead(30) is None
    with pytest.raises(LeaseLost):
        await of.put(due, episode, fence=old, now=T0)
    assert (await sweeper.sweep(led(store, "new"))).stored == 1
    await leader(store, "new").resign()
    assert await leader(store, "old").lead(30) == old + 3


async def test_a_worker_killed_between_any_two_steps_leaves_the_session_due_or_told(
    store: Stores, postgres: TestDatabase
) -> None:
    await said(store)
    asleep(postgres)
    of, sweeper = episodes_of(store, postgres), teller(store, postgres)
    for step in ("due", "turns", "told"):
        (due,) = await of.due(store.tenant, idle_s=1800, turns_max=60, limit=9)
        if step == "due":
            continue
        await of.turns(due, limit=60, chars_max=100)
        if step == "turns":
            continue
        await sweeper.episode(due)
    fence = await leader(store).lead(30) or 0
    episode = await sweeper.episode(due)
    assert episode is not None
    postgres.psql("CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'killed'; END $$")
    for table in ("memory_versions", "derivations", "provenance", "outbox", "sessions", postgres.embeddings):
        postgres.psql(f"CREATE TRIGGER boom BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION boom()")
        with pytest.raises(Exception, match="Postgres"):
            await of.put(due, episode, fence=fence, now=T0)
        postgres.psql(f"DROP TRIGGER boom ON {table}")
        assert await listed(store) == [] and postgres.psql("SELECT episode_seq FROM sessions") == "0"
    assert await of.put(due, episode, fence=fence, now=T0)
    assert not await of.put(due, episode, fence=fence, now=T0)  # the answer was lost, and it comes again
    assert len(await listed(store)) == 1


async def test_an_import_is_told_when_it_rests_and_its_lines_can_still_be_replaced(
    store: Stores, postgres: TestDatabase
) -> None:
    lane: dict[str, Any] = {"subject_id": SUBJECT, "lane": LANE, "fence": store.fence, "now": T0}
    lines = [("s", text, f"src-{n}") for n, text in enumerate(TALK)]
    await store.imports.commit_import(*chunk(store.scope(), lines), **lane)
    assert (await teller(store, postgres).sweep(led(store))).stored == 0  # of long ago, but it came just now
    asleep(postgres)
    await teller(store, postgres).sweep(led(store))
    (one,) = await listed(store)
    assert one.attributes["tokens"] is None
    changed = chunk(store.scope(), [("s", "other words", "src-0")], on_conflict="update")
    await store.imports.commit_import(*changed, **lane)
    assert [(row.version, row.content) for row in await listed(store)] == [(1, one.content)]


async def test_an_exchange_that_failed_last_is_told_as_a_failure(store: Stores, postgres: TestDatabase) -> None:
    commit = exchange(store.scope(), "s", 0, ("Translate this long letter to Portuguese",))
    failed = replace(commit.exchange, status="failed", http_status=502, usage=None)
    await store.write.commit(replace(commit, exchange=failed), now=T0)
    asleep(postgres)
    await teller(store, postgres).sweep(led(store))
    (one,) = await listed(store)
    assert one.attributes["outcome"] == "failure" and one.attributes["task_type"] == "writing"
    evidence = {"event_id": str(commit.turns[0].event_id), "reason": "exchange_failed"}
    assert one.attributes["outcome_evidence"] == evidence


async def test_labels_are_the_worst_of_the_sources(store: Stores, postgres: TestDatabase) -> None:
    commit = exchange(store.scope(), "s", 0, TALK)
    secret = replace(commit.turns[0], sensitivity=type(commit.turns[0].sensitivity).CONFIDENTIAL)
    tool = replace(commit.turns[1], role="tool", integrity=type(commit.turns[1].integrity).TOOL)
    await store.write.commit(replace(commit, turns=(secret, tool, *commit.turns[2:])), now=T0)
    asleep(postgres)
    await teller(store, postgres).sweep(led(store))
    (one,) = await listed(store)
    assert (one.integrity, one.sensitivity) == ("tool", "confidential")


async def test_a_large_turn_is_read_in_part_and_stops_nothing(store: Stores, postgres: TestDatabase) -> None:
    big = turn(new_id(), "s", 1, "tool", "row of data. " * 25_000, token_count=80_000)
    await said(store, ("Please count the rows of this table", "Ok"))
    commit = exchange(store.scope(), "s", 2, ("and this", "There are many rows in it"))
    moved = replace(big, chain=commit.turns[1].chain, exchange_id=commit.turns[1].exchange_id)
    last = replace(commit.turns[1], chain=type(big.chain)(b"z" * 32), event_id=new_id())
    await store.write.commit(replace(commit, turns=(commit.turns[0], moved, last), memories=()), now=T0)
    asleep(postgres)
    await teller(store, postgres, tokens_max=1000).sweep(led(store))
    assert postgres.psql("SELECT next_seq - episode_seq FROM sessions") == "0"
    assert all(len(one.content) < 1000 for one in await listed(store))


class Lanes:
    """A queue whose oldest entry waits so long; None: away."""

    def __init__(self, *waits: float | None) -> None:
        self.waits = list(waits)

    async def depth(self) -> QueueDepth:
        wait = self.waits.pop(0) if len(self.waits) > 1 else self.waits[0]
        if wait is None:
            raise QueueUnavailable("away")
        return QueueDepth(0, 0, 0, 0, wait)


async def test_busy_lanes_come_first_and_a_queue_that_is_away_is_waited_for(
    store: Stores, postgres: TestDatabase
) -> None:
    for n in range(3):
        await said(store, session=f"s{n}")
    asleep(postgres)
    metrics = Metrics()

    async def run(lanes: Lanes, until: int) -> None:
        task = asyncio.create_task(keep_telling(teller(store, postgres), leader(store), lanes, metrics, every_s=0.01))
        async with asyncio.timeout(30):
            while len(await listed(store)) < until or len(lanes.waits) > 1 or (told() or 0) < until:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

    def told() -> float | None:  # counted after it is stored: a loop that is stopped in between has not counted it
        return metrics.registry.get_sample_value("memory_proxy_episodes_total", {"what": "stored"})

    busy = CALM_S + 1
    await run(Lanes(busy, None, busy, busy), 0)
    assert await listed(store) == []
    await run(Lanes(None, 0.0, 0.0, busy), 1)  # one, then the lanes
    assert len(await listed(store)) == 1
    await run(Lanes(0.0), 3)
    assert told() == 3


async def test_due_sessions_are_found_by_their_index_among_many(store: Stores, postgres: TestDatabase) -> None:
    await said(store)
    postgres.psql(
        "INSERT INTO sessions (tenant_id, session_id, scope_id, label, next_seq, episode_seq, created_at, last_at)"
        " SELECT tenant_id, gen_random_uuid(), scope_id, 's' || n, 10, CASE WHEN n % 50 = 0 THEN 0 ELSE 10 END,"
        " now(), now() FROM scopes, generate_series(1, 5000) n"
    )
    postgres.psql("ANALYZE sessions")
    sql = store.database.queries["due_sessions"].sql
    for number, value in ((4, "50"), (3, "60"), (2, "1800"), (1, f"'{store.tenant}'::uuid")):
        sql = sql.replace(f"${number}", value)
    scope_id = await store.scopes.ensure(store.scope())
    postgres.psql("ALTER ROLE postgres SET jit = off")
    plan = postgres.psql(
        f"SET ROLE mp_app; SET mp.tenant = '{store.tenant}'; SET mp.scopes = '{{{scope_id}}}';"
        f" EXPLAIN (FORMAT JSON) {sql}"
    )
    assert '"sessions_untold"' in plan and "Seq Scan" not in plan and '"Sort"' not in plan, plan


async def test_the_sessions_of_thousands_of_scopes_are_looked_through_once(
    store: Stores, postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of a thousand scopes read all untold sessions of the tenant: 51 times, where it had 50,000 scopes."""
    asked = Counter[str]()

    async def counting(tx: Transaction, query: Any, *given: Any) -> list[Any]:
        asked[query] += 1
        found: list[Any] = await fetch(tx, query, *given)
        return found

    await said(store)
    postgres.psql(
        "INSERT INTO scopes (tenant_id, user_name, project, agent)"
        " SELECT tenant_id, 'u' || n, 'p', 'a' FROM scopes, generate_series(1, 5000) n"
    )
    asleep(postgres)
    fetch = Transaction.fetch
    monkeypatch.setattr(Transaction, "fetch", counting)
    due = await episodes_of(store, postgres).due(store.tenant, idle_s=1800, turns_max=60, limit=50)
    assert (len(due), asked["due_sessions"]) == (1, 1)


def test_a_range_is_whole_exchanges_within_its_bounds() -> None:
    def turns(*sizes: int, tokens: int = 10) -> list[ToldTurn]:
        made: list[ToldTurn] = []
        for size in sizes:
            one = new_id()
            made += [told_turn(len(made) + n, one, tokens) for n in range(size)]
        return made

    assert len(cut_range(turns(2, 2, 2), 5, 999)) == 4
    assert len(cut_range(turns(2, 2, 2), 6, 999)) == 6
    assert len(cut_range(turns(2, 2, 2), 60, 45)) == 4
    assert len(cut_range(turns(9, 2), 5, 999)) == 5  # one large exchange is cut
    assert len(cut_range(turns(1, 9), 5, 999)) == 5  # and so where whole ones would leave next to nothing
    assert len(cut_range(turns(2, 2, tokens=9999), 60, 100)) == 1
    assert cut_range([], 5, 5) == ()


def told_turn(
    seq: int, exchange_id: UUID, tokens: int = 10, content: str = "we talk about bread and flour"
) -> ToldTurn:
    return ToldTurn(
        event_id=new_id(),
        exchange_id=exchange_id,
        seq=seq,
        role="user",
        content=content,
        tool_calls=None,
        parts=None,
        integrity="user",
        sensitivity="internal",
        token_count=tokens,
        occurred_at=T0 - timedelta(seconds=seq),
        recorded_at=T0,
        status="complete",
        usage={"prompt_tokens": 7, "completion_tokens": "x", "total_tokens": True},
        hidden=False,
    )


def test_cost_is_counted_where_an_exchange_ends_and_clocks_that_jump_give_no_negative_time() -> None:
    due = DueSession(UUID(int=1), 1, UUID(int=2), 0, 9, True)
    one, two = new_id(), new_id()
    turns = [told_turn(0, one), told_turn(1, one), told_turn(2, two)]
    whole, part = (episode_of(due, turns, 8, told_in_full=full) for full in (True, False))
    assert whole is not None and part is not None
    assert whole.attributes["tokens"] == {"prompt_tokens": 14, "completion_tokens": 0, "total_tokens": 0}
    assert part.attributes["tokens"]["prompt_tokens"] == 7
    assert whole.attributes["duration_s"] == 2.0
    assert json.dumps(whole.attributes)


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        ({"tool_calls": [{"function": {"name": "open", "arguments": '{"path": "/home/ada/letter.md"}'}}]}, True),
        ({"parts": [{"type": "image_url", "url": "https://ada.example/face.png"}]}, True),
        ({}, False),
    ],
)
def test_an_answer_without_words_is_a_source_where_what_it_called_or_showed_is_told(
    beside: dict[str, Any], told: bool
) -> None:
    due, one = DueSession(UUID(int=1), 1, UUID(int=2), 0, 9, True), new_id()
    silent = replace(told_turn(1, one, content=""), role="assistant", unlearnt=True, **beside)
    made = episode_of(due, [told_turn(0, one), silent], 8, told_in_full=True)
    assert made is not None and ("ada" in json.dumps(made.attributes)) is told
    assert (silent.event_id in made.source_turns) is told


def test_what_a_front_end_asks_for_itself_is_no_episode() -> None:
    due = DueSession(UUID(int=1), 1, UUID(int=2), 0, 9, True)
    errand = "### Task:\nSuggest follow-up questions about bread and flour.\n<chat_history>\nUSER: hi\n</chat_history>"
    assert episode_of(due, [told_turn(0, new_id(), content=errand)], 8, told_in_full=True) is None


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 50)), max_size=12), st.integers(2, 12), st.integers(1, 90))
def test_ranges_follow_each_other_without_gap_or_overlap(
    exchanges: list[tuple[int, int]], turns_max: int, tokens_max: int
) -> None:
    turns = [told_turn(0, one, tokens) for size, tokens in exchanges for one in [new_id()] for _ in range(size)]
    at = 0
    while at < len(turns):
        taken = cut_range(turns[at : at + turns_max + 1], turns_max, tokens_max)
        assert 1 <= len(taken) <= turns_max and list(taken) == turns[at : at + len(taken)]
        assert len(taken) == 1 or sum(one.token_count or 0 for one in taken) <= tokens_max
        at += len(taken)
