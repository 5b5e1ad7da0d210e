"""Exchanges that wait for a model: marked with their commit, one worker's at a time, done once, fair by tenant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres import ahead
from memory.adapters.postgres.database import Bounds
from memory.adapters.postgres.extraction_store import ExtractionStore
from memory.ids import new_id
from memory.model import Commit, Scope
from memory.write.due import Due
from tests.postgres.seed import T0, Stores, exchange, stores
from tests.postgres.test_facts import fact, new_fact, say, texts
from tests.postgres_fixture import TestDatabase

LATER = T0 + timedelta(hours=1)


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres, Bounds(connections_max=16)) as made:
        yield made


@pytest.fixture
def dues(store: Stores, postgres: TestDatabase) -> ExtractionStore:
    return ExtractionStore(store.database, postgres.embeddings)


def waiting(scope: Scope, session: str = "s", at: int = 0, **more: Any) -> Commit:
    """An exchange whose facts are to be taken out later."""
    made = exchange(scope, session, at, ("I live in Berlin", "noted"), retrieval=None, **more)
    return replace(made, facts_due=True)


async def kept(store: Stores, commit: Commit) -> Commit:
    await store.write.commit(commit, now=T0)
    return commit


async def taken(dues: ExtractionStore, limit: int = 10, held: tuple[UUID, ...] = (), **more: Any) -> list[Due]:
    found = await dues.take(limit, held, **{"lease_s": 60.0, **more})
    return sorted(found, key=lambda due: due.since)


async def test_the_mark_is_stored_with_the_exchange_and_says_where_its_words_are(
    store: Stores, dues: ExtractionStore
) -> None:
    await kept(store, waiting(store.scope()))
    commit = waiting(store.scope(), at=2)
    early = tuple(replace(turn, occurred_at=T0 - timedelta(minutes=1)) for turn in commit.turns)  # the clock went back
    commit = await kept(store, replace(commit, turns=early))
    assert await dues.waiting() == 2
    first, due = await taken(dues)
    assert (due.exchange_id, due.seq_from, due.seq_to, due.takes) == (commit.exchange.exchange_id, 2, 2, 1)
    assert due.since == commit.exchange.finished_at
    assert (first.session_last, due.session_last) == (None, T0 + timedelta(seconds=1))
    stored = await dues.exchange(due)
    assert stored is not None
    assert [turn.content for turn in stored.turns] == ["I live in Berlin"]
    assert stored.turns[0].event_id == commit.turns[0].event_id


async def test_of_a_long_history_all_that_the_user_said_waits_also_what_went_ahead(
    store: Stores, dues: ExtractionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "TURNS_AT_ONCE", 2)
    await kept(store, waiting(store.scope()))
    long = exchange(store.scope(), "s", 2, ("I live in Rome", "noted", "I like tea", "noted", "x", "y", "z"))
    answers = [replace(turn, role="assistant") for turn in long.turns[4:]]
    await kept(store, replace(long, turns=(*long.turns[:4], *answers), retrieval=None, facts_due=True))
    due = (await taken(dues))[-1]
    assert (due.exchange_id, due.seq_from, due.seq_to) == (long.exchange.exchange_id, 2, 4)
    found = await dues.exchange(due)
    assert found is not None and [turn.content for turn in found.turns] == ["I live in Rome", "I like tea"]


async def test_what_was_taken_before_the_clock_was_put_back_is_taken_again(
    store: Stores, dues: ExtractionStore, postgres: TestDatabase
) -> None:
    await kept(store, waiting(store.scope()))
    assert len(await taken(dues)) == 1 and not await taken(dues)
    postgres.psql("UPDATE extraction_due SET taken_until = taken_until + interval '1 year'")
    assert len(await taken(dues)) == 1 and not await taken(dues)


async def test_an_exchange_in_which_the_user_says_nothing_new_waits_for_nothing(
    store: Stores, dues: ExtractionStore
) -> None:
    first = await kept(store, waiting(store.scope()))
    again = replace(waiting(store.scope()), turns=first.turns)
    await kept(store, again)
    answer = waiting(store.scope(), at=2)
    await kept(store, replace(answer, turns=answer.turns[1:], memories=answer.memories[1:]))
    assert await dues.waiting() == 1


async def test_two_takers_at_once_share_and_never_have_the_same(store: Stores, dues: ExtractionStore) -> None:
    for number in range(8):
        await kept(store, waiting(store.scope(), f"s{number}"))
    hands = await asyncio.gather(*(taken(dues, 4) for _ in range(4)))
    ids = [due.exchange_id for hand in hands for due in hand]
    ids += [due.exchange_id for due in await taken(dues)]
    assert len(ids) == len(set(ids)) == 8


async def test_what_a_dead_worker_had_is_taken_again_and_counted(
    store: Stores, dues: ExtractionStore, postgres: TestDatabase
) -> None:
    await kept(store, waiting(store.scope()))
    (due,) = await taken(dues, lease_s=0.0)
    (again,) = await taken(dues)
    assert (due.takes, again.takes) == (1, 2)
    assert await taken(dues) == []
    await dues.keep([again], 0.0)
    (once_more,) = await taken(dues)
    await dues.give_back([once_more])
    assert [due.takes for due in await taken(dues)] == [3]


async def test_one_that_comes_late_gives_nothing_back_that_is_anothers(store: Stores, dues: ExtractionStore) -> None:
    await kept(store, waiting(store.scope()))
    (late,) = await taken(dues, lease_s=0.0)
    assert len(await taken(dues, lease_s=0.5)) == 1
    await dues.give_back([late])
    assert await taken(dues) == [], "a third asks the model what the second asks it now"
    await dues.keep([late], 60.0)
    await asyncio.sleep(0.6)
    assert [due.takes for due in await taken(dues)] == [3]


async def test_a_tenant_with_little_is_not_kept_waiting_by_one_with_much(store: Stores, dues: ExtractionStore) -> None:
    small = await store.keys.ensure_tenant("small", T0)
    for number in range(20):
        await kept(store, waiting(store.scope(), f"s{number}"))
    late = waiting(Scope(small, "bob", "p", "a"))
    await kept(store, replace(late, exchange=replace(late.exchange, finished_at=LATER)))
    assert small in {due.tenant for due in await taken(dues, 2)}
    for number in range(3):
        await kept(store, waiting(Scope(small, "bob", "p", "a"), f"b{number}"))
    (due,) = await taken(dues, 1, (store.tenant, store.tenant, small))
    assert due.tenant == small


async def test_only_what_has_waited_its_time_is_taken_while_the_model_is_away(
    store: Stores, dues: ExtractionStore
) -> None:
    await kept(store, waiting(store.scope()))
    new = waiting(store.scope(), "t")
    await kept(store, replace(new, exchange=replace(new.exchange, finished_at=LATER)))
    assert [due.since < LATER for due in await taken(dues, before=LATER)] == [True]


async def test_facts_are_stored_once_though_two_workers_come_with_them(
    store: Stores, dues: ExtractionStore, postgres: TestDatabase
) -> None:
    commit = await kept(store, waiting(store.scope()))
    (due,) = await taken(dues, lease_s=0.0)
    stored = await dues.exchange(due)
    assert stored is not None
    facts = [new_fact(stored.turns[0], fact("berlin"))]
    done = await asyncio.gather(*(dues.finish(due, stored, facts, LATER) for _ in range(4)))
    assert sorted(one.facts_new for one in done if one is not None) == [1]
    assert await dues.waiting() == 0
    assert await texts(store) == {"The user lives in berlin."}
    spans = postgres.psql("SELECT count(*), min(span_end) FROM derivations WHERE span_end IS NOT NULL")
    assert spans == "1|5"
    assert postgres.psql("SELECT exchange_id FROM provenance WHERE extractor_version = 'facts-1'") == str(
        commit.exchange.exchange_id
    )


async def test_a_late_fact_does_not_replace_what_was_said_after_it(store: Stores, dues: ExtractionStore) -> None:
    await kept(store, waiting(store.scope()))
    await say(store, fact("paris"), day=1)
    (due,) = await taken(dues)
    stored = await dues.exchange(due)
    assert stored is not None
    await dues.finish(due, stored, [new_fact(stored.turns[0], fact("berlin"))], T0 + timedelta(days=2))
    assert await texts(store) == {"The user lives in paris."}


async def test_what_was_forgotten_meanwhile_supports_nothing(
    store: Stores, dues: ExtractionStore, postgres: TestDatabase
) -> None:
    await kept(store, waiting(store.scope(), "s"))
    await kept(store, waiting(store.scope(), "t"))
    one, other = await taken(dues)
    stored = await dues.exchange(one)
    assert stored is not None
    postgres.psql(f"DELETE FROM turns WHERE exchange_id = '{one.exchange_id}'")
    postgres.psql(f"DELETE FROM exchanges WHERE exchange_id = '{other.exchange_id}'")
    done = await dues.finish(one, stored, [new_fact(stored.turns[0], fact("berlin"))], LATER)
    assert done is not None
    assert (done.facts_new, await texts(store)) == (0, set())
    assert await dues.exchange(other) is None
    assert await dues.finish(other, None, [], LATER) is None
    assert await dues.waiting() == 0


async def test_the_marks_of_a_foreign_tenant_open_nothing(store: Stores, dues: ExtractionStore) -> None:
    await kept(store, waiting(store.scope()))
    (due,) = await taken(dues)
    foreign = await store.keys.ensure_tenant("other", T0)
    assert await dues.exchange(replace(due, tenant=foreign)) is None
    assert await dues.exchange(replace(due, scope_id=due.scope_id + 1)) is None
    assert await dues.finish(replace(due, exchange_id=new_id()), None, [], LATER) is None
    for tenant, seen in ((store.tenant, 1), (foreign, 0), (None, 0)):
        async with store.database.transaction(tenant, [due.scope_id]) as tx:
            assert await tx.value("count_due", 10) == seen
