"""Requests of one conversation, each with its history: kept as deltas, opened as they came, dropped in order."""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from bench.hygiene import Exchange
from bench.worker.envelopes import captured_of
from bench.worker.talks import Next, Talk
from memory.errors import EnvelopeUnreadable
from memory.ids import new_id
from memory.kept import kept_exchange
from memory.model import Captured, Scope, SessionRef
from memory.write.records import BASE_BYTES_MIN
from memory.write.tombstones import turn_digests
from tests.postgres.test_write_path import NOW, Life, Workshop, workshop

__all__ = ["workshop"]
WORDS = ("harbour", "winch", "ledger", "canvas", "mast", "rope", "tide", "anchor", "budget", "varnish", "keel", "hull")


def text_of(number: int, words: int) -> str:
    """Prose, other for each number; a word has ten letters or so."""
    chance = random.Random(number)
    return " ".join(f"{chance.choice(WORDS)}{chance.randrange(9_999)}" for _ in range(words))


def talk_of(turns: int, words: int = 180) -> list[dict[str, str]]:
    """A conversation up to its last question: instructions of thirty times as many words as a question has."""
    said = [{"role": "system", "content": text_of(-1, 30 * words)}]
    for number in range(turns):
        question = {"role": "user", "content": text_of(number, words)}
        said += [question, {"role": "assistant", "content": f"a{number}"}]
    return said[:-1]


async def say(workshop: Workshop, user: str, messages: list[dict[str, str]], **changed: Any) -> Captured:
    """Capture an exchange of the user's session with these messages, and have it stored."""
    scope = Scope(workshop.store.tenant, user)
    chain_key = await workshop.keys.chain_key(scope.tenant)
    talk = Talk(user, f"session of {user}", (Exchange((), ""),))
    sent = Next(talk, 0, tuple(messages), len(messages), f"a{len(messages) // 2 - 1}")
    captured = captured_of(sent, scope, chain_key)
    captured = replace(captured, **{"arrived_at": workshop.now, "finished_at": workshop.now, **changed})
    await workshop.put(captured)
    await workshop.work(Life(float("inf")))
    return captured


async def kept(workshop: Workshop, captured: Captured) -> Captured | None:
    """What the store gives back of it; None where nothing of it is left."""
    found = await workshop.store.records.sealed_exchange(captured.scope, captured.exchange_id)
    if found.sealed is None:
        return None
    keys, tenant = workshop.keys, captured.scope.tenant
    return await kept_exchange(keys, tenant, found.subject_id, found.exchange_id, found.sealed, found.base)


async def rows_of(workshop: Workshop) -> dict[UUID, tuple[int | None, UUID | None]]:
    """By exchange: how many bytes are kept, and the base of a delta."""
    rows = await workshop.eyes.fetch("SELECT exchange_id, octet_length(sealed) AS size, base_id FROM exchanges")
    return {UUID(int=row["exchange_id"].int): (row["size"], row["base_id"]) for row in rows}


async def test_a_long_conversation_is_kept_as_deltas_and_comes_back_to_the_byte(workshop: Workshop) -> None:
    whole = talk_of(40)
    said = [await say(workshop, "ada", whole[: 2 * turns]) for turns in range(4, 40)]
    rows = await rows_of(workshop)
    wholes = [one for one in said if rows[one.exchange_id][1] is None]
    assert 2 <= len(wholes) < len(said) / 3
    bases = {rows[one.exchange_id][1] for one in said} - {None}
    assert bases <= {one.exchange_id for one in wholes}
    at_once = sum(len(one.request) for one in said)
    assert sum(rows[one.exchange_id][0] or 0 for one in said) < at_once / 6
    for one in said:
        assert await kept(workshop, one) == one


async def test_the_same_request_again_takes_next_to_nothing(workshop: Workshop) -> None:
    first = await say(workshop, "ada", talk_of(6))
    again = await say(workshop, "ada", talk_of(6))
    assert (await rows_of(workshop))[again.exchange_id][1] == first.exchange_id
    assert ((await rows_of(workshop))[again.exchange_id][0] or 0) < 1_000


async def test_what_is_small_or_of_another_conversation_or_older_is_kept_whole(workshop: Workshop) -> None:
    small = [await say(workshop, "ada", talk_of(turns, words=2)) for turns in (1, 2)]
    rows = await rows_of(workshop)
    assert max(rows[one.exchange_id][0] or 0 for one in small) < BASE_BYTES_MIN
    ada = await say(workshop, "ada", talk_of(6))
    eve = await say(workshop, "eve", talk_of(6))
    other = await say(workshop, "ada", talk_of(6), session=SessionRef(new_id(), "another"))
    workshop.now += timedelta(minutes=61)
    late = await say(workshop, "ada", talk_of(6))
    rows = await rows_of(workshop)
    assert {rows[one.exchange_id][1] for one in (*small, ada, eve, other, late)} == {None}


async def test_a_short_request_between_long_ones_does_not_break_them_up(workshop: Workshop) -> None:
    first = await say(workshop, "ada", talk_of(6))
    await say(workshop, "ada", [{"role": "user", "content": "Only a word?"}], session=first.session)
    then = await say(workshop, "ada", talk_of(7))
    assert (await rows_of(workshop))[then.exchange_id][1] == first.exchange_id


async def test_a_base_stays_as_long_as_its_deltas_and_then_goes(workshop: Workshop) -> None:
    first = await say(workshop, "ada", talk_of(6))
    workshop.now += timedelta(minutes=40)
    last = await say(workshop, "ada", talk_of(7))
    week, write = timedelta(days=7), workshop.store.write
    between = NOW + week + timedelta(minutes=20)
    assert await write.drop_expired_sealed(between, week) == 0
    assert await kept(workshop, last) == last
    assert await write.drop_expired_sealed(between + timedelta(hours=1), week) == 2
    assert await kept(workshop, first) is None
    assert await kept(workshop, last) is None
    assert {base for _, base in (await rows_of(workshop)).values()} == {None}


async def test_what_is_told_from_a_base_goes_with_it(workshop: Workshop) -> None:
    first, then = await say(workshop, "ada", talk_of(6)), await say(workshop, "ada", talk_of(7))
    tenant = workshop.store.tenant
    async with workshop.store.database.transaction(tenant) as tx:
        scope_id = await workshop.eyes.fetchval("SELECT scope_id FROM exchanges LIMIT 1")
        await tx.see(tenant, [scope_id])
        await tx.run("unseal_these", tenant, [first.exchange_id])
        await tx.run("unseal_told_from", tenant, [first.exchange_id])
    assert await kept(workshop, first) is None
    assert await kept(workshop, then) is None
    assert set((await rows_of(workshop)).values()) == {(None, None)}
    again = await say(workshop, "ada", talk_of(8))
    assert (await rows_of(workshop))[again.exchange_id][1] is None


async def test_what_is_stored_while_its_base_goes_goes_with_it(workshop: Workshop) -> None:
    first, then = await say(workshop, "ada", talk_of(6)), await say(workshop, "ada", talk_of(7))
    tenant, database = workshop.store.tenant, workshop.store.database
    await workshop.eyes.execute("UPDATE exchanges SET base_id = NULL WHERE exchange_id = $1", then.exchange_id)
    scope_id = await workshop.eyes.fetchval("SELECT scope_id FROM exchanges LIMIT 1")

    async def drop() -> None:
        async with database.transaction(tenant, [scope_id]) as tx:
            await tx.run("unseal_these", tenant, [first.exchange_id])
            await tx.run("unseal_told_from", tenant, [first.exchange_id])

    async with database.transaction(tenant, [scope_id]) as storing:
        assert await storing.value("base_stays", tenant, first.exchange_id)
        dropping = asyncio.create_task(drop())
        while not await workshop.eyes.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            await asyncio.sleep(0.01)
        told = "UPDATE exchanges SET base_id = $1 WHERE exchange_id = $2"
        await storing._connection.execute(told, first.exchange_id, then.exchange_id)
    await dropping
    assert set((await rows_of(workshop)).values()) == {(None, None)}


async def test_a_base_that_is_gone_by_the_time_of_storing_leaves_the_whole(workshop: Workshop) -> None:
    first = await say(workshop, "ada", talk_of(6))
    store: Any = workshop.store.write
    found = store.base

    async def and_gone(*asked: Any) -> Any:
        base = await found(*asked)
        await workshop.eyes.execute("UPDATE exchanges SET sealed = NULL WHERE exchange_id = $1", first.exchange_id)
        return base

    store.base = and_gone
    then = await say(workshop, "ada", talk_of(7))
    assert (await rows_of(workshop))[then.exchange_id][1] is None
    assert await kept(workshop, then) == then


async def test_a_base_that_does_not_open_is_none(workshop: Workshop) -> None:
    first = await say(workshop, "ada", talk_of(6))
    altered = "UPDATE exchanges SET sealed = sealed || 'x'::bytea WHERE exchange_id = $1"
    await workshop.eyes.execute(altered, first.exchange_id)
    then = await say(workshop, "ada", talk_of(7))
    assert (await rows_of(workshop))[then.exchange_id][1] is None
    assert await kept(workshop, then) == then
    with pytest.raises(EnvelopeUnreadable):
        await kept(workshop, first)


async def test_a_request_that_quotes_what_was_forgotten_is_not_kept_as_a_delta_either(workshop: Workshop) -> None:
    first, tenant = await say(workshop, "ada", talk_of(7)), workshop.store.tenant
    for kind, mark in turn_digests(await workshop.keys.content_key(tenant), "ada", talk_of(8)[-1]["content"], ()):
        await workshop.eyes.execute("INSERT INTO tombstones VALUES ($1, $2, $3, now())", tenant, kind, mark)
    then = await say(workshop, "ada", talk_of(8))
    rows = await rows_of(workshop)
    assert rows[then.exchange_id] == (None, None)
    assert rows[first.exchange_id][0]
