"""Working contexts on real Postgres and Valkey: kept sealed, never truer than the store, made anew when lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.working_store import VERSIONS_BEHIND_MAX, PostgresWorking
from memory.adapters.redis_client import connect
from memory.adapters.redis_hot import RedisHot
from memory.ids import derived_id
from memory.keys import KeyRing
from memory.model import Commit, Scope
from memory.read.conversation import scope_key
from memory.read.working import TURNS_READ_MAX, Known, Reading, WorkingContexts, WorkingParts
from memory.stored import MemoryChange
from memory.telemetry import Metrics
from policies.working import ENDS_CHARS, WorkingContext
from tests.postgres.seed import T0, Stores, chunk, exchange, stores
from tests.postgres_fixture import TestDatabase
from tests.test_key_ring import Reading as TableReading
from tests.valkey_fixture import ValkeyServer

GOAL = "Please build me a tool for the Halcyon archive."
PLAN = "The plan:\n1. Read the catalogue\n2. Write the index"
TALK = (GOAL, PLAN, "Step 1 is done. Who owns the archive?", "I don't know that.")


@dataclass
class Bench:
    """A store, a cache, and working contexts over both."""

    stores: Stores
    valkey: ValkeyServer
    hot: RedisHot
    keys: KeyRing
    metrics: Metrics
    now: datetime = T0 + timedelta(minutes=1)

    def contexts(self, **more: Any) -> WorkingContexts:
        parts = WorkingParts(
            hot=self.hot,
            store=PostgresWorking(self.stores.database, self.stores.scopes),
            keys=self.keys,
            count=lambda text: len(text.split()),
            clock=lambda: self.now,
            metrics=self.metrics,
            budget_tokens=100,
            ttl_s=60,
        )
        return WorkingContexts(replace(parts, **more))

    async def say(self, at: int, *texts: str, session: str = "s", scope: Scope | None = None, **more: Any) -> Commit:
        """An exchange with these turns from position `at` on."""
        commit = exchange(scope or self.stores.scope(), session, at, texts, **more)
        await self.stores.write.commit(commit, now=T0)
        return commit

    def how(self, what: str) -> float:
        """How many readings were of this sort."""
        return self.metrics.registry.get_sample_value("memory_proxy_working_contexts_total", {"how": what}) or 0.0

    async def held(self) -> dict[bytes, bytes]:
        """What Valkey has of working contexts."""
        client = connect(self.valkey.url)
        names = [name for name in await client.execute_command("KEYS", "*") if b":w:" in name]
        found = {name: await client.execute_command("GET", name) for name in names}
        assert all([0 < await client.execute_command("TTL", name) <= 60 for name in names])
        await client.aclose()
        return found


@pytest.fixture
async def bench(postgres: TestDatabase, valkey: ValkeyServer) -> AsyncIterator[Bench]:
    async with stores(postgres) as all_stores:
        hot = RedisHot(valkey.url, timeout_ms=2000, keep_timeout_ms=2000)
        yield Bench(all_stores, valkey, hot, KeyRing(all_stores.keys, bytes(32)), Metrics())
        await hot.close()


def session_of(commit: Commit) -> UUID:
    return commit.session.session_id


def told(context: WorkingContext | None) -> list[str]:
    assert context is not None
    return ["".join(piece.text for piece in one.pieces) for one in context.recent]


async def test_a_context_follows_its_session_and_is_the_same_made_anew(bench: Bench) -> None:
    contexts, session = bench.contexts(), session_of(await bench.say(0, *TALK[:2]))
    first = await contexts.follow(bench.stores.scope(), session)
    assert first is not None and first.objective is not None and first.objective.text == GOAL
    await bench.say(2, *TALK[2:])
    second = await contexts.follow(bench.stores.scope(), session)
    assert (bench.how("rebuilt"), bench.how("advanced")) == (1, 1)
    assert second is not None and second.plan is not None
    assert [step.done_by is not None for step in second.plan.steps] == [True, False]
    assert [one.quote.text for one in second.open] == ["Who owns the archive?"]
    assert told(second) == list(TALK)
    assert await contexts.of(bench.stores.scope(), session) == second
    assert bench.how("held") == 1
    await flush(bench)
    assert await contexts.of(bench.stores.scope(), session) == second
    assert bench.how("rebuilt") == 2
    assert not await bench.held()  # who only looks keeps nothing


async def flush(bench: Bench) -> None:
    client = connect(bench.valkey.url)
    await client.execute_command("FLUSHALL")
    await client.aclose()


async def test_what_lies_in_the_cache_is_sealed_under_the_subjects_key_and_dies_by_itself(bench: Bench) -> None:
    session = session_of(await bench.say(0, *TALK))
    await bench.contexts().follow(bench.stores.scope(), session)
    ((name, value),) = (await bench.held()).items()
    assert b"Halcyon" not in value and b"archive" not in value
    assert name.decode().startswith(f"mp:h:{{{bench.stores.tenant.hex}:")
    subject = await bench.keys.subject_key(bench.stores.tenant, "ada")
    assert value[41:57] == subject.key_id.bytes


async def test_a_hidden_turn_is_gone_at_once_and_back_when_it_is_shown_again(bench: Bench) -> None:
    scope, contexts, said = bench.stores.scope(), bench.contexts(), await bench.say(0, *TALK)
    before = await contexts.follow(scope, session_of(said))
    memory = said.memories[0].memory_id
    await bench.stores.records.delete_memory(scope, memory, T0)
    for _ in range(2):
        hidden = await contexts.follow(scope, session_of(said))
        assert hidden is not None and hidden.objective is None and "Halcyon" not in repr(hidden)
    await bench.stores.records.undelete_memory(scope, memory, T0)
    assert await contexts.follow(scope, session_of(said)) == before


async def test_a_hidden_turn_does_not_come_back_with_the_next_exchange(bench: Bench) -> None:
    scope, contexts, said = bench.stores.scope(), bench.contexts(), await bench.say(0, *TALK)
    await contexts.follow(scope, session_of(said))
    await bench.stores.records.delete_memory(scope, said.memories[0].memory_id, T0)
    await bench.say(4, "And now?", "Now we wait.")
    found = await contexts.follow(scope, session_of(said))
    assert told(found)[-2:] == ["And now?", "Now we wait."] and "Halcyon" not in repr(found)


@pytest.mark.parametrize(
    ("change", "hidden"),
    [
        (MemoryChange(content="Please build me a tool."), True),
        (MemoryChange(validation_status="rejected"), True),
        (MemoryChange(importance=0.9), False),
        (MemoryChange(pinned=True), False),
    ],
)
async def test_words_that_their_owner_changed_or_rejected_are_not_told(
    bench: Bench, change: MemoryChange, hidden: bool
) -> None:
    scope, contexts, said = bench.stores.scope(), bench.contexts(), await bench.say(0, *TALK)
    await contexts.follow(scope, session_of(said))
    await bench.stores.records.patch_memory(scope, said.memories[0].memory_id, 1, change, T0)
    found = await contexts.follow(scope, session_of(said))
    assert (GOAL not in told(found)) is hidden


async def test_a_quarantined_turn_is_not_told(bench: Bench, postgres: TestDatabase) -> None:
    scope, contexts, said = bench.stores.scope(), bench.contexts(), await bench.say(0, *TALK)
    await contexts.follow(scope, session_of(said))
    memory = said.memories[0].memory_id
    postgres.psql(
        "WITH v AS (UPDATE scope_versions SET version = version + 1 RETURNING version) "
        f"UPDATE memories SET quarantined_at = now(), changed_version = v.version FROM v WHERE memory_id = '{memory}'"
    )
    assert GOAL not in told(await contexts.follow(scope, session_of(said)))


async def test_an_erased_turn_is_not_told(bench: Bench, postgres: TestDatabase) -> None:
    """As forget will: rows go, the scope's version and rebuild version rise."""
    scope, contexts, said = bench.stores.scope(), bench.contexts(), await bench.say(0, *TALK)
    await contexts.follow(scope, session_of(said))
    postgres.psql(f"DELETE FROM memories WHERE memory_id = '{said.memories[0].memory_id}'")
    postgres.psql(f"DELETE FROM turns WHERE event_id = '{said.turns[0].event_id}'")
    postgres.psql("UPDATE scope_versions SET version = version + 1, rebuild_version = version + 1")
    assert GOAL not in told(await contexts.of(scope, session_of(said)))


async def test_a_forgotten_subject_leaves_nothing_that_can_be_read(bench: Bench, postgres: TestDatabase) -> None:
    scope, session = bench.stores.scope(), session_of(await bench.say(0, *TALK))
    await bench.contexts().follow(scope, session)
    key = (await bench.keys.subject_key(scope.tenant, "ada")).key_id
    postgres.psql(f"UPDATE data_keys SET wrapped = NULL, shredded_at = now() WHERE key_id = '{key}'")
    another = Bench(bench.stores, bench.valkey, bench.hot, KeyRing(bench.stores.keys, bytes(32)), Metrics())
    assert told(await another.contexts().of(scope, session)) == list(TALK)  # the rows are still there in this test
    assert another.how("rebuilt") == 1


class Slow(PostgresWorking):
    """A store whose answer is on its way until it may arrive."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.stores.database, bench.stores.scopes)
        self.read, self.arrives = asyncio.Event(), asyncio.Event()

    async def working(self, *asked: Any, **more: Any) -> Reading | None:
        found = await super().working(*asked, **more)
        self.read.set()
        await self.arrives.wait()
        return found


async def test_what_was_read_before_something_was_erased_is_neither_told_nor_kept(
    bench: Bench, postgres: TestDatabase
) -> None:
    """It would stay for good where nobody goes on with the conversation."""
    scope, said, slow = bench.stores.scope(), await bench.say(0, *TALK), Slow(bench)
    contexts, chain_key = bench.contexts(store=slow), await bench.keys.chain_key(bench.stores.tenant)
    following = asyncio.create_task(contexts.follow(scope, session_of(said)))
    await asyncio.wait_for(slow.read.wait(), 5)
    postgres.psql(f"DELETE FROM memories WHERE memory_id = '{said.memories[0].memory_id}'")
    postgres.psql(f"DELETE FROM turns WHERE event_id = '{said.turns[0].event_id}'")
    version = postgres.psql(
        "UPDATE scope_versions SET version = version + 1, rebuild_version = version + 1 RETURNING version"
    ).splitlines()[0]
    contexts.let_go()
    slow.arrives.set()
    assert GOAL not in told(await following)
    kept = await bench.hot.working(scope, scope_key(chain_key, scope), session_of(said))
    assert kept is not None and kept[0] == int(version)


async def test_what_is_let_go_of_while_it_is_sealed_is_not_kept(bench: Bench) -> None:
    scope, table, session = bench.stores.scope(), TableReading(), session_of(await bench.say(0, *TALK))
    keys = KeyRing(table, bytes(32))
    await keys.chain_key(scope.tenant)
    table.asked.clear()
    table.arrives.clear()
    contexts = bench.contexts(keys=keys)
    following = asyncio.create_task(contexts.follow(scope, session))
    await asyncio.wait_for(table.asked.wait(), 5)
    contexts.let_go()
    table.arrives.set()
    assert told(await following) == list(TALK)
    assert not await bench.held()
    await contexts.follow(scope, session)
    assert await bench.held()


async def test_what_expires_is_not_told_from_that_moment_on(bench: Bench) -> None:
    scope, contexts = bench.stores.scope(), bench.contexts()
    commit = exchange(scope, "s", 0, TALK)
    ends = bench.now + timedelta(hours=1)
    first = replace(commit.memories[0], expires_at=ends)
    await bench.stores.write.commit(replace(commit, memories=(first, *commit.memories[1:])), now=T0)
    assert told(await contexts.follow(scope, session_of(commit)))[0] == GOAL
    assert bench.how("held") == 0
    bench.now = ends
    for _ in range(2):
        assert GOAL not in told(await contexts.follow(scope, session_of(commit)))
    assert (bench.how("rebuilt"), bench.how("held")) == (2, 1)


async def test_a_session_is_seen_in_its_own_scope_alone(bench: Bench) -> None:
    session = session_of(await bench.say(0, *TALK))
    others = (bench.stores.scope("eve"), bench.stores.scope(project="q"), bench.stores.scope(agent="b"))
    for scope in others:
        await bench.stores.write.scope_id(scope)
        assert await bench.contexts().follow(scope, session) is None
    assert await bench.contexts().of(bench.stores.scope(), UUID(int=5)) is None
    store = PostgresWorking(bench.stores.database, bench.stores.scopes)
    assert await store.working(others[0], session, None, limit=10) is None


async def test_row_level_security_hides_the_turns_of_another_scope(bench: Bench) -> None:
    session, tenant = session_of(await bench.say(0, *TALK)), bench.stores.tenant
    other = await bench.stores.write.scope_id(bench.stores.scope("eve"))
    own = await bench.stores.write.scope_id(bench.stores.scope())
    for scope_id, turns in ((other, 0), (own, 4)):
        async with bench.stores.database.transaction(tenant, [scope_id], read_only=True) as tx:
            assert len(await tx.fetch("working_turns", tenant, session, 0, 10, 100, 100)) == turns


async def test_other_sessions_of_the_scope_make_nothing_anew(bench: Bench) -> None:
    scope, contexts, session = bench.stores.scope(), bench.contexts(), session_of(await bench.say(0, *TALK))
    first = await contexts.follow(scope, session)
    for n in range(3):
        other = await bench.say(0, "Hello there, friend", "Good morning to you", session=f"other {n}")
        await bench.stores.records.delete_memory(scope, other.memories[0].memory_id, T0)
        assert await contexts.follow(scope, session) == first
    assert (bench.how("rebuilt"), bench.how("held")) == (1, 3)


async def test_a_scope_that_changed_too_often_is_not_looked_through(bench: Bench, postgres: TestDatabase) -> None:
    scope, contexts, session = bench.stores.scope(), bench.contexts(), session_of(await bench.say(0, *TALK))
    first = await contexts.follow(scope, session)
    postgres.psql(f"UPDATE scope_versions SET version = version + {VERSIONS_BEHIND_MAX + 1}")
    assert await contexts.follow(scope, session) == first
    assert bench.how("rebuilt") == 2


async def test_a_store_that_was_set_back_is_believed(bench: Bench, postgres: TestDatabase) -> None:
    scope, contexts, said = bench.stores.scope(), bench.contexts(), await bench.say(0, *TALK[:2])
    await bench.say(2, *TALK[2:])
    await contexts.follow(scope, session_of(said))
    postgres.psql("DELETE FROM turns WHERE seq >= 2")
    postgres.psql("UPDATE sessions SET next_seq = 2")
    postgres.psql("UPDATE scope_versions SET version = version - 2")
    assert told(await contexts.of(scope, session_of(said))) == list(TALK[:2])
    await bench.say(2, "Another question?", "Another answer.")
    assert told(await contexts.of(scope, session_of(said)))[2:] == ["Another question?", "Another answer."]


async def test_nothing_is_missed_without_redis(bench: Bench) -> None:
    scope, contexts, session = bench.stores.scope(), bench.contexts(), session_of(await bench.say(0, *TALK))
    bench.valkey.kill()
    assert told(await contexts.follow(scope, session)) == list(TALK)
    assert told(await contexts.of(scope, session)) == list(TALK)


async def test_a_store_that_is_away_is_no_fault_of_who_follows(bench: Bench, private_postgres: Any) -> None:
    database = private_postgres.fresh()
    async with stores(database) as away:
        other = Bench(away, bench.valkey, bench.hot, KeyRing(away.keys, bytes(32)), Metrics())
        session = session_of(await other.say(0, *TALK))
        await other.contexts().follow(away.scope(), session)
        private_postgres.kill()
        assert await other.contexts().follow(away.scope(), session) is None


async def test_a_spoilt_or_foreign_cache_is_made_anew(bench: Bench) -> None:
    scope, contexts, session = bench.stores.scope(), bench.contexts(), session_of(await bench.say(0, *TALK))
    first = await contexts.follow(scope, session)
    other = session_of(await bench.say(0, "Hello, my friend", "Good day to you", session="other"))
    await contexts.follow(scope, other)
    client = connect(bench.valkey.url)
    names = list(await bench.held())
    mine, its = [next(name for name in names if one.hex.encode() in name) for one in (session, other)]
    whole, foreign = [await client.execute_command("GET", name) for name in (mine, its)]
    for spoilt in (b"", b"x", whole[:40], whole[:-1], whole[:60] + b"\x00" + whole[61:], foreign):
        await client.execute_command("SET", mine, spoilt, "EX", 60)
        assert await contexts.of(scope, session) == first, spoilt
    await client.aclose()
    assert await bench.contexts(budget_tokens=7).of(scope, session) != first


async def test_an_older_context_does_not_take_the_place_of_a_newer(bench: Bench) -> None:
    scope, session, key = bench.stores.scope(), UUID(int=9), b"k" * 16
    for version, upto in ((5, 3), (4, 9), (5, 2)):
        await bench.hot.keep_working(scope, key, session, Known(version, upto), f"{version},{upto}".encode(), 60)
    assert await bench.hot.working(scope, key, session) == (5, b"5,3")
    await bench.hot.keep_working(scope, key, session, Known(10, 1), b"10,1", 60)
    assert await bench.hot.working(scope, key, session) == (10, b"10,1")
    assert await bench.hot.working(scope, b"x" * 16, session) is None


async def test_many_at_once_and_an_exchange_in_between_agree(bench: Bench) -> None:
    scope, contexts, session = bench.stores.scope(), bench.contexts(), session_of(await bench.say(0, *TALK))
    followed = [contexts.follow(scope, session) for _ in range(6)]
    await asyncio.gather(*followed[:3], bench.say(4, "And then?", "Then we ship."), *followed[3:])
    assert told(await contexts.follow(scope, session))[-1] == "Then we ship."


async def test_of_a_huge_output_two_ends_are_read(bench: Bench) -> None:
    huge = "begin " + "x" * 300_000 + " end"
    commit = exchange(bench.stores.scope(), "s", 0, ("Read the file for me.", "", huge, "It is long."))
    long_call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "y" * 90_000}}
    turns = list(commit.turns)
    turns[1] = replace(turns[1], tool_calls=[long_call, "[nested too deeply to be read]"])
    turns[2] = replace(turns[2], role="tool", tool_call_id="c1")
    kept = tuple(one for one, turn in zip(commit.memories, turns, strict=True) if turn.role == "user")
    await bench.stores.write.commit(replace(commit, turns=tuple(turns), memories=kept), now=T0)
    store = PostgresWorking(bench.stores.database, bench.stores.scopes)
    read = await store.working(commit.scope, session_of(commit), None, limit=10)
    assert read is not None
    assert [len(turn.head) + len(turn.tail) for turn in read.turns] == [21, 0, 2 * ENDS_CHARS, 11]
    context = await bench.contexts().of(commit.scope, session_of(commit))
    assert context is not None
    (output,) = context.tools
    assert output.call is not None and (output.tool, len(output.call.arguments)) == ("read", 400)
    assert output.pieces[0].text.startswith("begin") and output.pieces[1].text.endswith(" end")
    assert output.chars == len(huge)


async def test_a_session_of_thousands_is_read_from_its_end(bench: Bench) -> None:
    scope = bench.stores.scope()
    for start in range(0, TURNS_READ_MAX + 200, 400):
        lines = [("long", f"Write the chapter number {start + n} for me.", None) for n in range(400)]
        made, items = chunk(scope, lines, start // 400, start=start)
        await bench.stores.imports.commit_import(
            made, items, subject_id=UUID(int=7), lane="live-0", fence=bench.stores.fence, now=T0
        )
    session = derived_id(UUID(int=1), "long", "ada", "p")
    context = await bench.contexts().follow(scope, session)
    assert context is not None and context.upto_seq == 1_200
    assert not context.begun and context.objective is None
    assert told(context)[-1].startswith("Write the chapter number 1199")


async def test_a_working_context_is_no_row_of_the_store(bench: Bench, postgres: TestDatabase) -> None:
    session = session_of(await bench.say(0, *TALK))
    before = postgres.psql("SELECT count(*) FROM memories")
    await bench.contexts().follow(bench.stores.scope(), session)
    assert postgres.psql("SELECT count(*) FROM memories") == before
