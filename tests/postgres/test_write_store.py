"""Storing: all or nothing, once, in order, without gaps, and never for a worker that lost its lane."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from memory.adapters.postgres import ahead
from memory.adapters.postgres.database import Bounds, Transaction
from memory.errors import LeaseLost, StoreRefused, StoreUnavailable
from memory.ids import new_id
from memory.model import Commit, SessionRef, TombstoneKind
from memory.stored import Digests
from tests.postgres.seed import LANE, SUBJECT, T0, Stores, digest, exchange, memory_of, retrieval, stores, turn
from tests.postgres_fixture import TEMPLATE, Server, TestDatabase

TABLES = ("exchanges", "turns", "memories", "memory_versions", "provenance", "derivations", "ledger", "retrievals")


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres, Bounds(connections_max=16)) as made:
        yield made


def counts(postgres: TestDatabase) -> dict[str, int]:
    tables = (*TABLES, "outbox", "sessions", postgres.embeddings)
    return {table: int(postgres.psql(f"SELECT count(*) FROM {table}")) for table in tables}


async def test_an_exchange_leaves_everything_it_was_made_of(store: Stores, postgres: TestDatabase) -> None:
    commit = exchange(store.scope(), "s", 0)
    done = await store.write.commit(commit, now=T0)
    assert (done.scope_version, done.new_turns, done.duplicate_exchange) == (1, 2, False)
    assert counts(postgres) == {
        "exchanges": 1, "turns": 2, "memories": 2, "memory_versions": 2, "provenance": 2, "derivations": 2,
        "ledger": 1, "retrievals": 1, "outbox": 2, "sessions": 1, postgres.embeddings: 2,
    }  # fmt: skip
    turns = await store.write.turns_since(store.scope(), commit.session.session_id, 0)
    assert [(t.seq, t.role, t.content, t.attempt) for t in turns] == [
        (0, "user", "hello", 0),
        (1, "assistant", "hi there", 0),
    ]
    tail = await store.imports.session_tail(store.scope(), commit.session)
    assert (tail.tip_chain, tail.next_seq) == (commit.turns[-1].chain, 2)


async def test_a_scope_whose_making_was_rolled_back_is_made_by_who_comes_again(
    store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = store.database.transaction

    @asynccontextmanager
    async def lost(*given: Any, **named: Any) -> AsyncIterator[Transaction]:
        async with begin(*given, **named) as tx:
            yield tx
            if not named:
                raise StoreUnavailable("the connection was lost before its commit")

    with monkeypatch.context() as broken:
        broken.setattr(store.database, "transaction", lost)
        with pytest.raises(StoreUnavailable):
            await store.scopes.ensure(store.scope())
    assert await store.scopes.find(store.scope()) is None
    assert (await store.write.commit(exchange(store.scope(), "s", 0), now=T0)).new_turns == 2


async def test_a_second_delivery_writes_nothing(store: Stores, postgres: TestDatabase) -> None:
    commit = exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    before = counts(postgres)
    again = await store.write.commit(commit, now=T0 + timedelta(hours=1))
    assert (again.duplicate_exchange, again.new_turns, again.scope_version) == (True, 0, 1)
    assert counts(postgres) == before
    assert postgres.psql("SELECT max(last_at) = max(created_at) FROM sessions") == "t"


async def test_one_delivery_at_two_workers_is_stored_once(store: Stores, postgres: TestDatabase) -> None:
    commit = exchange(store.scope(), "s", 0)
    done = await asyncio.gather(*(store.write.commit(commit, now=T0) for _ in range(4)), return_exceptions=True)
    again = StoreUnavailable | StoreRefused  # the loop tries both again
    assert not [one for one in done if isinstance(one, BaseException) and not isinstance(one, again)]
    assert counts(postgres)["turns"] == 2


COUNTED = "SELECT memory_id, injected, changed_version FROM memory_access ORDER BY memory_id"


def given(store: Stores, at: int, *placed: UUID, when: timedelta = timedelta(), texts: tuple[str, ...] = ()) -> Commit:
    """An exchange that was given these memories, and leaves none unless it has texts."""
    commit = exchange(store.scope(), "s", at, texts or ("hello", "hi there"))
    record = retrieval(commit.exchange.exchange_id, *placed, at=T0 + when)
    return dataclasses.replace(commit, retrieval=record, memories=commit.memories if texts else ())


async def test_an_injection_is_counted_once_for_each_exchange(store: Stores, postgres: TestDatabase) -> None:
    first = exchange(store.scope(), "s", 0, ("one", "two", "three"))
    await store.write.commit(first, now=T0)
    one, two, _ = sorted(memory.memory_id for memory in first.memories)
    later = given(store, 3, two, one, two, texts=("more", "sure"))
    assert (await store.write.commit(later, now=T0)).scope_version == 2
    assert postgres.psql(COUNTED) == f"{one}|1|2\n{two}|1|2"  # what was placed, each once, at the exchange's version
    again = await store.write.commit(later, now=T0 + timedelta(hours=1))
    assert (again.duplicate_exchange, again.scope_version) == (True, 2)
    assert postgres.psql(COUNTED) == f"{one}|1|2\n{two}|1|2"
    # An exchange that leaves nothing but its counters is a change as well: readers must come for them.
    assert (await store.write.commit(given(store, 5, two), now=T0)).scope_version == 3
    assert postgres.psql(COUNTED) == f"{one}|1|2\n{two}|2|3"
    assert (await store.write.commit(given(store, 7), now=T0)).scope_version == 3


async def test_the_last_injection_is_the_latest_whatever_the_order(store: Stores, postgres: TestDatabase) -> None:
    first = exchange(store.scope(), "s", 0)
    await store.write.commit(first, now=T0)
    placed = first.memories[0].memory_id
    for at, hours in ((2, 2), (4, 1)):
        await store.write.commit(given(store, at, placed, when=timedelta(hours=hours)), now=T0)
    last = (T0 + timedelta(hours=2)).isoformat()
    assert postgres.psql(f"SELECT injected, last_injected_at = '{last}' FROM memory_access") == "2|t"


async def test_only_memories_that_are_still_there_and_its_own_are_counted(
    store: Stores, postgres: TestDatabase
) -> None:
    own, foreign = exchange(store.scope(), "s", 0), exchange(store.scope("eve"), "t", 0)
    for commit in (own, foreign):
        await store.write.commit(commit, now=T0)
    kept, deleted = (memory.memory_id for memory in own.memories)
    await store.records.delete_memory(store.scope(), deleted, T0)
    placed = (kept, deleted, foreign.memories[0].memory_id, new_id())
    await store.write.commit(given(store, 2, *placed), now=T0)
    assert postgres.psql("SELECT memory_id, injected FROM memory_access") == f"{kept}|1"
    postgres.psql(f"DELETE FROM memories WHERE memory_id = '{kept}'")
    assert postgres.psql("SELECT count(*) FROM memory_access") == "0"


async def test_writers_that_place_the_same_memories_lose_no_count(store: Stores, postgres: TestDatabase) -> None:
    first = exchange(store.scope(), "s", 0, tuple(f"text {n}" for n in range(20)))
    await store.write.commit(first, now=T0)
    placed = [memory.memory_id for memory in first.memories]
    sessions = [SessionRef(new_id(), f"at once {n}") for n in range(8)]
    commits = [
        dataclasses.replace(given(store, 0, *(placed if n % 2 else reversed(placed))), session=ref)
        for n, ref in enumerate(sessions)
    ]
    await asyncio.gather(*(store.write.commit(commit, now=T0) for commit in commits))
    assert postgres.psql("SELECT DISTINCT injected FROM memory_access") == "8"


async def test_history_sent_again_adds_nothing_and_numbers_go_on(store: Stores) -> None:
    scope = store.scope()
    first = exchange(scope, "s", 0)
    await store.write.commit(first, now=T0)
    second = exchange(scope, "s", 0, ("hello", "hi there", "more", "sure"))
    assert await store.write.known_chains(scope, first.session.session_id, [t.chain for t in second.turns]) == {
        t.chain: t.event_id for t in first.turns
    }
    done = await store.write.commit(second, now=T0)
    assert done.new_turns == 2
    turns = await store.write.turns_since(scope, first.session.session_id, 0)
    assert [t.seq for t in turns] == [0, 1, 2, 3]


async def test_an_exchange_that_is_stored_late_does_not_take_its_session_back(
    store: Stores, postgres: TestDatabase
) -> None:
    """Out of the spool, say: the next line that is imported stands behind what was said last all the same."""
    scope = store.scope()
    early, later = exchange(scope, "s", 0), exchange(scope, "s", 0, ("hello", "hi there", "more", "sure"))
    at = dataclasses.replace(later.exchange, arrived_at=T0 + timedelta(hours=1))
    await store.write.commit(dataclasses.replace(later, exchange=at), now=T0)
    nothing_said = dataclasses.replace(exchange(scope, "s", 4), turns=(), memories=(), nodes=())
    for late in (early, nothing_said):
        await store.write.commit(late, now=T0)
        tail = await store.imports.session_tail(scope, later.session)
        assert (tail.tip_chain, tail.next_seq) == (later.turns[-1].chain, 4)
    assert postgres.psql(f"SELECT last_at = '{at.arrived_at.isoformat()}' FROM sessions") == "t"


async def test_the_oldest_turns_of_a_long_history_go_ahead_of_its_exchange(
    store: Stores, postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """80,000 messages in one transaction took longer than a transaction may, and were tried again for ever."""
    monkeypatch.setattr(ahead, "TURNS_AT_ONCE", 4)
    commit = exchange(store.scope(), "s", 0, tuple(f"said {n}" for n in range(11)))
    other = await asyncpg.connect(postgres.owner)
    await other.execute("BEGIN; LOCK TABLE exchanges IN SHARE MODE")
    writing = asyncio.create_task(store.write.commit(commit, now=T0))
    async with asyncio.timeout(20):
        while counts(postgres)["turns"] < 7:
            await asyncio.sleep(0.05)
    writing.cancel()  # killed where its exchange would come
    await asyncio.wait([writing])
    await other.close()
    assert (counts(postgres)["memories"], counts(postgres)["ledger"], counts(postgres)["exchanges"]) == (7, 0, 0)
    done = await store.write.commit(commit, now=T0)
    assert (done.new_turns, done.duplicate_exchange) == (4, False)
    found = counts(postgres)
    assert (found["turns"], found["memories"], found["derivations"], found[postgres.embeddings]) == (11, 11, 11, 11)
    assert (found["exchanges"], found["ledger"], found["retrievals"], found["sessions"]) == (1, 1, 1, 1)
    turns = await store.write.turns_since(store.scope(), commit.session.session_id, 0)
    assert [(one.seq, one.content) for one in turns] == [(n, f"said {n}") for n in range(11)]
    assert (await store.write.commit(commit, now=T0)).duplicate_exchange and counts(postgres) == found


async def test_what_was_forgotten_of_a_long_history_is_left_out_of_every_part(
    store: Stores, postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "TURNS_AT_ONCE", 2)
    commit = exchange(store.scope(), "s", 0, tuple(f"said {n}" for n in range(7)))
    marks: dict[UUID, tuple[tuple[TombstoneKind, bytes], ...]] = {
        one.event_id: (("content", digest("words", n)),) for n, one in enumerate(commit.turns)
    }
    gone = (digest("words", 1), digest("words", 6))
    for one in gone:
        postgres.psql(f"INSERT INTO tombstones VALUES ('{store.tenant}', 'content', '\\x{one.hex()}', now())")
    done = await store.write.commit(commit, now=T0, digests=Digests(items=marks))
    assert (done.erased, done.new_turns, done.scope_version) == (2, 5, 4)
    turns = await store.write.turns_since(store.scope(), commit.session.session_id, 0)
    assert [one.content for one in turns] == [f"said {n}" for n in (0, 2, 3, 4, 5)]


async def test_another_answer_to_the_same_turn_is_another_attempt(store: Stores) -> None:
    scope = store.scope()
    await store.write.commit(exchange(scope, "s", 0), now=T0)
    for number, text in enumerate(("other", "yet another"), start=1):
        again = exchange(scope, "s", 0, ("hello",))
        parent = again.turns[0].chain
        answer = turn(again.exchange.exchange_id, "s", 1, "assistant", text, chain=digest(text), parent_chain=parent)
        await store.write.commit(dataclasses.replace(again, turns=(*again.turns, answer)), now=T0)
        turns = await store.write.turns_since(scope, again.session.session_id, 0)
        assert [(t.seq, t.attempt) for t in turns][1:] == [(n + 1, n) for n in range(number + 1)]


async def test_numbers_have_no_gaps_when_many_write_at_once(store: Stores, postgres: TestDatabase) -> None:
    scope = store.scope()
    commits = [exchange(scope, "s", 2 * n) for n in range(12)]
    await asyncio.gather(*(store.write.commit(commit, now=T0) for commit in commits))
    assert postgres.psql("SELECT count(*), min(seq), max(seq) FROM turns") == "24|0|23"
    assert postgres.psql("SELECT next_seq FROM sessions") == "24"
    assert postgres.psql("SELECT version FROM scope_versions") == "12"


async def test_a_worker_that_lost_its_lane_stores_nothing(store: Stores, postgres: TestDatabase) -> None:
    commit = exchange(store.scope(), "s", 0)
    await store.leases.release("worker")
    await store.leases.acquire("other", [LANE], 60)
    with pytest.raises(LeaseLost):
        await store.write.commit(commit, now=T0)
    assert set(counts(postgres).values()) == {0}


async def test_the_forgotten_does_not_come_back(store: Stores, postgres: TestDatabase) -> None:
    tenant = store.tenant
    for kind, name in (("content", "c"), ("user", "u")):
        value = digest(name).hex()
        postgres.psql(f"INSERT INTO tombstones VALUES ('{tenant}', '{kind}', '\\x{value}', '{T0.isoformat()}')")
    commit = exchange(store.scope(), "s", 0)
    content: dict[UUID, tuple[tuple[TombstoneKind, bytes], ...]]
    content = {commit.turns[0].event_id: (("content", bytes(digest("c"))),)}
    done = await store.write.commit(commit, now=T0, digests=Digests((), content))
    assert (done.new_turns, done.erased) == (1, 1)
    assert postgres.psql("SELECT count(*) FROM memories") == "1"

    before = exchange(store.scope(), "t", 0)
    done = await store.write.commit(before, now=T0, digests=Digests((("user", bytes(digest("u"))),)))
    assert (done.new_turns, done.erased) == (0, 4)
    where = f"WHERE exchange_id = '{before.exchange.exchange_id}'"
    assert postgres.psql(f"SELECT count(*) FROM exchanges {where}") == "0"
    assert postgres.psql("SELECT count(*) FROM sessions WHERE label = 't'") == "0"

    later = dataclasses.replace(before.exchange, exchange_id=new_id(), arrived_at=T0 + timedelta(days=1))
    back = dataclasses.replace(exchange(store.scope(), "u", 0), exchange=later)
    done = await store.write.commit(back, now=T0, digests=Digests((("user", bytes(digest("u"))),)))
    assert (done.new_turns, done.erased) == (2, 0)


async def test_text_that_postgres_cannot_hold_is_stored_all_the_same(store: Stores) -> None:
    commit = exchange(store.scope(), "s\x00", 0, ("nul \x00 and half \ud83d", "ok"))
    commit = dataclasses.replace(
        commit, turns=(dataclasses.replace(commit.turns[0], tool_calls=[{"a": "\x00"}]), commit.turns[1])
    )
    await store.write.commit(commit, now=T0)
    turns = await store.write.turns_since(store.scope(), commit.session.session_id, 0)
    assert turns[0].content.startswith("nul \ufffd and half \ufffd")


async def test_numbers_that_are_no_json_are_stored_as_null(store: Stores, postgres: TestDatabase) -> None:
    """Python reads NaN and 1e400, so vLLM answers what holds them, and they come here."""
    commit, odd = exchange(store.scope(), "s", 0), {"a": [float("nan"), 1.5, {"b": float("-inf")}]}
    commit = dataclasses.replace(
        commit,
        turns=(dataclasses.replace(commit.turns[0], tool_calls=[odd]), commit.turns[1]),
        exchange=dataclasses.replace(commit.exchange, usage={"total_tokens": float("inf")}),
    )
    await store.write.commit(commit, now=T0)
    [turn, _] = await store.write.turns_since(store.scope(), commit.session.session_id, 0)
    assert turn.tool_calls == [{"a": [None, 1.5, {"b": None}]}]
    assert postgres.psql("SELECT usage FROM exchanges") == '{"total_tokens": null}'


async def test_a_session_known_by_its_label_keeps_its_id(store: Stores, postgres: TestDatabase) -> None:
    first = exchange(store.scope(), "s", 0)
    await store.write.commit(first, now=T0)
    second = dataclasses.replace(exchange(store.scope(), "s", 2), session=SessionRef(new_id(), "s"))
    await store.write.commit(second, now=T0)
    assert postgres.psql("SELECT count(*) FROM sessions") == "1"
    assert len(await store.write.turns_since(store.scope(), first.session.session_id, 0)) == 4


async def test_equal_facts_are_one_memory_and_every_turn_stays(store: Stores, postgres: TestDatabase) -> None:
    for at in (0, 2):
        commit = exchange(store.scope(), "s", at)
        fact = memory_of(commit.turns[0], kind="semantic", content_key=bytes(digest("fact")), memory_id=new_id())
        await store.write.commit(dataclasses.replace(commit, memories=(*commit.memories, fact)), now=T0)
    assert postgres.psql("SELECT kind, count(*) FROM memories GROUP BY kind ORDER BY kind") == "episodic|4\nsemantic|1"
    assert postgres.psql("SELECT count(*) FROM turns") == "4"


async def test_a_rolling_summary_is_one_memory_with_versions(store: Stores, postgres: TestDatabase) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    session_id = commit.session.session_id
    state = await store.write.summary_state(scope, session_id)
    assert state is not None and (state.summarised_seq, state.next_seq, state.content) == (0, 2, None)
    first = memory_of(
        commit.turns[0], kind="summary", content="they met", source_turns=tuple(t.event_id for t in commit.turns)
    )
    first = dataclasses.replace(first, memory_id=new_id())
    put = store.write.put_summary
    assert await put(scope, session_id, first, 2, subject_id=SUBJECT, now=T0, lane=LANE, fence=store.fence) == 1
    assert await put(scope, session_id, first, 2, subject_id=SUBJECT, now=T0) is None
    more = exchange(scope, "s", 2)
    await store.write.commit(more, now=T0)
    second = dataclasses.replace(
        first, memory_id=new_id(), content="they met and talked", source_turns=tuple(t.event_id for t in more.turns)
    )
    later = T0 + timedelta(minutes=1)
    for other in (None, 0):  # made of turns alone, or of another than is there
        assert await put(scope, session_id, second, 4, other, subject_id=SUBJECT, now=later) is None
    state = await store.write.summary_state(scope, session_id)
    assert state is not None and (state.integrity, state.sensitivity) == ("user", "internal")
    assert await put(scope, session_id, second, 4, state.changed_version, subject_id=SUBJECT, now=later) == 2
    state = await store.write.summary_state(scope, session_id)
    assert state is not None and state.content == "they met and talked" and state.memory_id == first.memory_id
    assert postgres.psql("SELECT count(*) FROM derivations WHERE derived_kind = 'summary'") == "4"
    assert postgres.psql("SELECT count(*) FROM memories WHERE kind = 'summary'") == "1"
    with pytest.raises(LeaseLost):
        await put(scope, session_id, second, 9, subject_id=SUBJECT, now=T0, lane=LANE, fence=store.fence + 1)


async def test_sealed_parts_die_with_their_retention(store: Stores, postgres: TestDatabase) -> None:
    await store.write.commit(exchange(store.scope(), "s", 0), now=T0)
    await store.write.commit(exchange(store.scope(user="eve"), "s", 0), now=T0)
    week = timedelta(days=7)
    assert await store.write.drop_expired_sealed(T0 + timedelta(days=6), week) == 0
    assert await store.write.drop_expired_sealed(T0 + timedelta(days=8), week) == 4
    assert postgres.psql("SELECT count(*) FROM exchanges WHERE sealed IS NULL AND sealed_sha256 IS NOT NULL") == "2"


async def test_the_progress_of_old_imports_is_dropped(store: Stores, postgres: TestDatabase) -> None:
    await store.write.commit(exchange(store.scope(), "s", 0), now=T0)
    postgres.psql(
        "INSERT INTO import_chunks "
        "SELECT tenant_id, gen_random_uuid(), 0, gen_random_uuid(), scope_id, 64, 0, '[]', at "
        f"FROM scopes, unnest(ARRAY['{T0}', '{T0 + timedelta(days=2)}']::timestamptz[]) AS at"
    )
    for days, left in ((29, "2"), (31, "1"), (33, "0")):
        await store.write.drop_expired_sealed(T0 + timedelta(days=days), timedelta(days=7))
        assert postgres.psql("SELECT count(*) FROM import_chunks") == left


NO_MORE_THAN_1000 = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (SELECT count(*) FROM touched) > 1000 THEN RAISE EXCEPTION USING ERRCODE = '57014'; END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER refuse AFTER UPDATE ON exchanges REFERENCING OLD TABLE AS touched EXECUTE FUNCTION refuse();
INSERT INTO exchanges (tenant_id, exchange_id, scope_id, session_id, subject_id, origin, status, arrived_at,
                       finished_at, recorded_at, sealed)
    SELECT tenant_id, gen_random_uuid(), scope_id, session_id, subject_id, origin, status, arrived_at, finished_at,
           recorded_at, sealed FROM exchanges, generate_series(1, 2499)"""


async def test_no_number_of_sealed_parts_is_too_many_for_one_statement(store: Stores, postgres: TestDatabase) -> None:
    await store.write.commit(exchange(store.scope(), "s", 0), now=T0)
    postgres.psql(NO_MORE_THAN_1000)  # as the time-out of statements does
    assert await store.write.drop_expired_sealed(T0 + timedelta(days=8), timedelta(days=7)) == 2501
    assert postgres.psql("SELECT count(*) FROM exchanges WHERE sealed IS NOT NULL") == "0"


@pytest.mark.parametrize("stuck", ["default", "other"])
async def test_a_tenant_whose_rows_are_held_keeps_no_other_s_sealed_parts(postgres: TestDatabase, stuck: str) -> None:
    async with stores(postgres, Bounds(statement_timeout_ms=1000)) as store:
        other = await store.keys.ensure_tenant("other", T0)
        for tenant in (store.tenant, other):
            scope = dataclasses.replace(store.scope(), tenant=tenant)
            await store.write.commit(exchange(scope, "s", 0), now=T0)
        holder = await asyncpg.connect(postgres.owner)
        try:
            async with holder.transaction():
                held = "SELECT FROM exchanges JOIN tenants USING (tenant_id) WHERE name = $1 FOR UPDATE OF exchanges"
                await holder.execute(held, stuck)
                with pytest.raises(StoreUnavailable):
                    await store.write.drop_expired_sealed(T0 + timedelta(days=8), timedelta(days=7))
        finally:
            await holder.close()
    sealed = "SELECT name FROM exchanges JOIN tenants USING (tenant_id) WHERE sealed IS NOT NULL"
    assert postgres.psql(sealed) == stuck


@pytest.mark.slow
async def test_a_killed_server_keeps_all_of_a_commit_or_nothing(private_postgres: Server) -> None:
    postgres = private_postgres.fresh(TEMPLATE)
    async with stores(postgres, Bounds(connections_max=4)) as store:
        scope = store.scope()
        done: list[UUID] = []
        offered: dict[UUID, Commit] = {}
        for round_ in range(3):
            commits = [exchange(scope, f"s{n % 4}", 2 * (n + 40 * round_)) for n in range(40)]
            offered |= {commit.exchange.exchange_id: commit for commit in commits}

            async def keep(commit: Commit) -> None:
                try:
                    await store.write.commit(commit, now=T0)
                    done.append(commit.exchange.exchange_id)
                except StoreUnavailable:
                    return

            tasks = [asyncio.create_task(keep(commit)) for commit in commits]
            while len(done) < 8 * (round_ + 1):
                await asyncio.sleep(0.001)
            private_postgres.kill()
            await asyncio.gather(*tasks)
            private_postgres.start()
            check_whole(postgres, done)
        for commit in offered.values():
            await retried(store, commit)
        check_whole(postgres, list(offered))
        assert postgres.psql("SELECT count(*) FROM turns") == "240"


async def retried(store: Stores, commit: Commit) -> None:
    for _ in range(50):
        try:
            await store.write.commit(commit, now=T0)
            return
        except StoreUnavailable:
            await asyncio.sleep(0.05)
    raise AssertionError("the store did not come back")


def check_whole(postgres: TestDatabase, acknowledged: list[UUID]) -> None:
    """Everything acknowledged is there, and what is there is there with all its parts."""
    stored = set(postgres.psql("SELECT exchange_id FROM exchanges").split())
    assert {str(exchange_id) for exchange_id in acknowledged} <= stored
    n = len(stored)
    found = counts(postgres)
    assert {table: found[table] for table in TABLES} == {
        "exchanges": n, "turns": 2 * n, "memories": 2 * n, "memory_versions": 2 * n, "provenance": 2 * n,
        "derivations": 2 * n, "ledger": n, "retrievals": n,
    }  # fmt: skip
    assert found["outbox"] == found[postgres.embeddings] == 2 * n
    assert (
        postgres.psql(
            "SELECT count(*) FROM (SELECT max(seq) + 1 - count(*) g FROM turns GROUP BY session_id) x WHERE g <> 0"
        )
        == "0"
    )
