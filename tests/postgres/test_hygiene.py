"""Hygiene on a real store: pages that hold every memory once, faults found where they were made, one who measures."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from memory.adapters.postgres.hygiene_store import JOB, Found, HygieneStore
from memory.adapters.postgres.leadership import Leadership
from memory.adapters.secret_rules import secret_detectors
from memory.hygiene import Inspection, keep_measuring
from memory.ids import new_id
from memory.model import Commit, Scope, Turn
from memory.telemetry import Metrics
from memory.write.facts import facts_of
from memory.write.redact import Redactor
from policies.hygiene import RATES, Rate
from tests.postgres.seed import T0, Stores, exchange, memory_of, retrieval, stores, vectors
from tests.postgres_fixture import TestDatabase

BERLIN = "I live in Berlin and my dog is called Rex."


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres) as made:
        yield made


def with_facts(commit: Commit) -> Commit:
    """As the write path hands it over: with what its turns state."""
    found = [
        replace(one, memory=replace(one.memory, windows=((0, 9),), vectors=vectors(1)))
        for one in facts_of(commit.turns)
    ]
    return replace(commit, facts=tuple(found))


async def say(store: Stores, *texts: str, scope: Scope | None = None, session: str | None = None) -> Commit:
    commit = with_facts(exchange(scope or store.scope(), session or f"s{new_id()}", 0, texts, retrieval=None))
    await store.write.commit(commit, now=T0)
    return commit


async def looked(
    store: Stores, page: int = 2, user: str | None = None, days: float = 30
) -> tuple[list[Found], Inspection]:
    found: list[Found] = []
    unused_after = timedelta(days=days)
    inspection = Inspection(Redactor(secret_detectors()), now=T0 + timedelta(days=1), unused_after=unused_after)
    async for rows in HygieneStore(store.database).pages(user=user, page=page):
        assert len(rows) <= page
        found += rows
        inspection.look(rows)
    return found, inspection


def counted(inspection: Inspection) -> dict[Rate, int]:
    return {rate: count for rate, count in inspection.tally.found.items() if count}


async def test_every_memory_comes_once_whatever_the_page(store: Stores) -> None:
    for user in ("ada", "bob", "eve"):
        await say(store, "The boat lies in Faro", "I see", "And the crane?", scope=store.scope(user))
    for page in (1, 2, 3, 100):
        found, inspection = await looked(store, page)
        assert len(found) == len({one.memory_id for one in found}) == 9
        assert inspection.tally.memories == 9
    assert (await looked(store, user="bob"))[1].tally.memories == 3


async def test_scopes_that_hold_little_share_a_page_and_all_comes_in_order(store: Stores) -> None:
    for number in range(12):
        texts = [f"boat {n} of {number}" for n in range(23 if number == 5 else 3)]
        await say(store, *texts, scope=store.scope(f"user-{number:02d}"))
    pages = [page async for page in HygieneStore(store.database).pages(page=20)]
    assert max(map(len, pages)) <= 20
    assert len(pages) <= 8, "each scope by itself would be 13 and more"
    placed = [(one.scope_id, one.kept.created_at, one.memory_id) for page in pages for one in page]
    assert placed == sorted(placed)
    assert len(set(placed)) == 11 * 3 + 23


async def test_a_clean_store_has_no_fault(store: Stores) -> None:
    await say(store, BERLIN, "Nice to hear!")
    await say(store, "I moved, I live in Paris now.", "How is it?")
    _, inspection = await looked(store)
    assert counted(inspection) == {}
    assert inspection.tally.facts == 3, "a dog, and one for each place, the first of them superseded"


async def test_junk_duplicates_and_secrets_are_found_with_examples(store: Stores) -> None:
    await say(store, "Thanks!", "The crane comes on Monday", "the CRANE comes, on Monday")
    await say(store, "our deploy token is ghp_16C7e42F292c6912E7710c838347Ae178B4a", "noted")
    await say(store, "The crane comes on Monday", scope=store.scope("bob"))  # another scope: no duplicate
    _, inspection = await looked(store)
    assert counted(inspection) == {"junk": 1, "duplicate": 1, "secret": 1}
    assert [one.kept.content for one in inspection.examples["junk"]] == ["Thanks!"]
    assert inspection.tally.sum_of(("junk", "duplicate")) == pytest.approx(2 / 6)


async def test_a_fact_whose_turn_says_something_else_is_unsupported(store: Stores, postgres: TestDatabase) -> None:
    await say(store, BERLIN)
    assert counted((await looked(store))[1]) == {}
    facts = int(postgres.psql("SELECT count(*) FROM facts"))
    postgres.psql("UPDATE turns SET content = reverse(content)")
    assert counted((await looked(store))[1]) == {"unsupported": facts}
    postgres.psql("UPDATE derivations SET span_end = span_start - 3 WHERE span_start IS NOT NULL")
    assert counted((await looked(store))[1]) == {"unsupported": facts}
    postgres.psql("DELETE FROM derivations")
    assert counted((await looked(store))[1])["unsupported"] == facts


async def test_a_superseded_fact_that_is_shown_is_a_contradiction(store: Stores, postgres: TestDatabase) -> None:
    await say(store, "I live in Berlin.")
    await say(store, "I live in Paris now.")
    assert counted((await looked(store))[1]) == {}
    postgres.psql("UPDATE memories SET superseded_by = NULL")
    assert counted((await looked(store))[1]) == {"contradiction": 1}
    postgres.psql("DROP INDEX facts_one_current")
    postgres.psql("UPDATE facts SET state = 'current', exclusive = true")
    assert counted((await looked(store))[1]) == {"contradiction": 2}


async def quoting(store: Stores, of: Turn, answer: str) -> None:
    """An exchange whose memory placed the episode of a turn and whose model answered so."""
    exchange_id = new_id()
    record = retrieval(exchange_id, memory_of(of).memory_id)
    texts = (f"Where does it lie, number {exchange_id}?", answer)
    made = exchange(store.scope(), f"s{exchange_id}", 0, texts, exchange_id=exchange_id, retrieval=record)
    await store.write.commit(made, now=T0)


async def test_an_answer_that_only_quotes_its_memory_is_a_loop(store: Stores) -> None:
    said = await say(store, "The boat lies in Faro beside the old crane.")
    await quoting(store, said.turns[0], "[2026-11-21 user] The boat lies in Faro beside the old crane.")
    await quoting(store, said.turns[0], "It lies in Faro; I have told the harbour.")
    _, inspection = await looked(store)
    assert counted(inspection) == {"loop": 1}
    assert inspection.examples["loop"][0].kept.content.startswith("[2026-11-21 user]")


async def test_a_fact_out_of_a_pasted_block_is_a_loop(store: Stores, postgres: TestDatabase) -> None:
    await say(store, "I live in Berlin.")
    postgres.psql("UPDATE turns SET content = '<memory>' || content || '</memory>'")
    postgres.psql("UPDATE derivations SET span_start = span_start + 8, span_end = span_end + 8 WHERE span_start >= 0")
    assert counted((await looked(store))[1]) == {"loop": 1}
    postgres.psql("UPDATE turns SET content = '<memory></memory>' || substr(content, 9)")
    postgres.psql("UPDATE derivations SET span_start = span_start + 9, span_end = span_end + 9 WHERE span_start >= 0")
    assert counted((await looked(store))[1]) == {}


async def test_what_was_never_used_is_counted_once_it_is_old(store: Stores) -> None:
    await say(store, "The boat lies in Faro", "I see it")
    assert counted((await looked(store, days=0.5))[1]) == {"never_used": 2}
    assert counted((await looked(store, days=2))[1]) == {}


async def test_deleted_and_superseded_memories_are_not_counted_as_shown(store: Stores, postgres: TestDatabase) -> None:
    commit = await say(store, "Thanks!", "Bye!")
    await store.records.delete_memory(store.scope(), commit.memories[0].memory_id, T0)
    assert counted((await looked(store))[1]) == {"junk": 1}
    postgres.psql("UPDATE memories SET superseded_by = memory_id")
    _, inspection = await looked(store)
    assert (counted(inspection), inspection.tally.memories) == ({}, 0)


async def test_one_of_many_measures_until_its_time_is_over(store: Stores, postgres: TestDatabase) -> None:
    first, second = (Leadership(store.database, JOB, holder) for holder in ("first", "second"))
    fence = await first.lead(60)
    assert fence is not None
    assert await second.lead(60) is None
    assert await first.lead(60) == fence, "who leads goes on leading"
    postgres.psql("UPDATE lane_leases SET expires_at = '-infinity' WHERE lane = 'job:hygiene'")
    assert await second.lead(60) is not None
    assert await first.lead(60) is None
    assert await store.leases.renew("worker", 60) == {"live-0": 1}, "the lanes are not touched"


async def test_the_gauges_say_what_is_in_the_store_and_go_round(store: Stores) -> None:
    for number in range(6):
        await say(store, "Thanks!", f"boat {number}")
    metrics, hygiene = Metrics(), HygieneStore(store.database)
    leader = Leadership(store.database, JOB, "me")
    task = asyncio.create_task(
        keep_measuring(hygiene, leader, Redactor(secret_detectors()), metrics, first_s=0, every_s=0.01, sample=4)
    )
    while metrics.registry.get_sample_value("memory_proxy_hygiene_ratio", {"rate": "junk"}) != 0.5:
        await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    shown = {rate: metrics.registry.get_sample_value("memory_proxy_hygiene_ratio", {"rate": rate}) for rate in RATES}
    assert shown["loop"] == 0
    assert None not in shown.values()


async def test_what_holds_of_a_key_is_read_once_for_a_page(store: Stores, postgres: TestDatabase) -> None:
    """Of who likes 2,000 things all were read for each of a page: a million rows; of 20,000 no page ended in time."""
    await say(store, "I like plums.")
    postgres.psql(
        """
        SET session_replication_role = replica;
        INSERT INTO facts (tenant_id, memory_id, scope_id, subject, predicate, object, negated, cardinality, category,
                           state, said_at, seq, correction, aspect, unit, exclusive)
        SELECT tenant_id, md5(n::text)::uuid, scope_id, subject, predicate, 'thing ' || n % 1990, n >= 1990,
               cardinality, category, state, said_at, n, correction, aspect, unit, exclusive
        FROM facts, generate_series(1, 1999) n;
        ANALYZE facts;
        """
    )
    page = [UUID(hashlib.md5(str(n).encode()).hexdigest()) for n in range(1, 501)]
    async with store.database.transaction(store.tenant, [await store.write.scope_id(store.scope())]) as tx:
        found = await tx.fetch("hygiene_rivals", store.tenant, page, 20)
        read = await tx._connection.fetchval(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'facts'"
        )
    assert sorted((row["memory_id"], row["object"], row["negated"]) for row in found) == sorted(
        (page[n - 1], f"thing {n}", True) for n in range(1, 10)
    )
    assert read < 10_000
