"""Exchanges stored in another order than they were said, or in a session minted for want of better knowledge."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from memory.chain import chain
from memory.ids import derived_id, new_id
from memory.model import Captured, SessionRef
from memory.write.homing import at_home
from memory.write.turns import body_of, messages_of
from tests.postgres.seed import T0, Stores, exchange, memory_of, stores, turn
from tests.postgres_fixture import TestDatabase

KEY = b"k" * 32


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres) as made:
        yield made


def said(store: Stores, session: str, number: int, *, named: bool = False, answer: str = "Good.") -> Captured:
    """Exchange `number` of a conversation whose client sends everything again; each takes one of two seconds."""
    history = [
        message
        for n in range(number)
        for message in ({"role": "user", "content": f"line {n}"}, {"role": "assistant", "content": "Good."})
    ]
    messages = [*history, {"role": "user", "content": f"line {number}"}]
    return Captured(
        exchange_id=new_id(),
        scope=store.scope(),
        session=SessionRef(derived_id(new_id(), session), session),
        mode="on",
        status="complete",
        reason=None,
        http_status=200,
        model="m",
        arrived_at=T0 + timedelta(seconds=2 * number),
        finished_at=T0 + timedelta(seconds=2 * number + 1),
        request=json.dumps({"messages": messages}).encode(),
        answer={"choices": [{"index": 0, "message": {"role": "assistant", "content": answer}}]},
        digests=tuple(chain(KEY, messages)),
        named=named,
    )


async def keep(store: Stores, captured: Captured) -> tuple[str, int]:
    """Store it as the write path does: the session it went to, and how many turns it added."""
    body = body_of(captured)
    captured, _ = await at_home(store.write, captured, body, messages_of(captured, body, KEY))
    turns = tuple(
        dataclasses.replace(
            turn(captured.exchange_id, "", m.position, str(m.value["role"]), str(m.value["content"])),
            chain=m.chain,
            parent_chain=m.parent,
            occurred_at=m.occurred_at,
        )
        for m in messages_of(captured, body_of(captured), KEY)
    )
    commit = exchange(store.scope(), captured.session.label, 0, exchange_id=captured.exchange_id, fence=store.fence)
    row = dataclasses.replace(commit.exchange, arrived_at=captured.arrived_at, finished_at=captured.finished_at)
    commit = dataclasses.replace(
        commit,
        session=captured.session,
        exchange=row,
        turns=turns,
        memories=tuple(memory_of(each) for each in turns),
        nodes=(),
        retrieval=None,
    )
    done = await store.write.commit(commit, now=T0)
    return captured.session.label, done.new_turns


async def test_a_minted_session_gives_way_to_the_one_that_has_the_history(store: Stores) -> None:
    assert await keep(store, said(store, "first", 0)) == ("first", 2)
    assert await keep(store, said(store, "minted", 1)) == ("first", 2)
    assert await keep(store, said(store, "minted again", 2)) == ("first", 2)


async def test_an_exchange_that_was_overtaken_adds_nothing_to_what_overtook_it(store: Stores) -> None:
    assert await keep(store, said(store, "minted", 2)) == ("minted", 6)
    assert await keep(store, said(store, "first", 0)) == ("minted", 0)
    assert await keep(store, said(store, "first", 1)) == ("minted", 0)


async def test_two_conversations_that_begin_alike_stay_two(store: Stores) -> None:
    assert await keep(store, said(store, "one", 0)) == ("one", 2)
    assert await keep(store, said(store, "two", 0)) == ("two", 2)
    # The later one is stored first: nobody went on from it, so it does not take the earlier one in.
    late = said(store, "three", 0)
    early = dataclasses.replace(
        said(store, "four", 0), arrived_at=T0 - timedelta(seconds=9), finished_at=T0 - timedelta(seconds=8)
    )
    assert await keep(store, late) == ("three", 2)
    assert await keep(store, early) == ("four", 2)


async def test_two_conversations_that_their_client_begins_with_the_same_examples_stay_two(
    store: Stores,
) -> None:
    def opened(session: str, *texts: str) -> Captured:
        examples = ("two and two?", "Four.", "three and three?", "Six.")
        said_so = [*zip(("user", "assistant") * 4, (*examples, *texts), strict=False)]
        messages = [{"role": role, "content": text} for role, text in said_so]
        request, digests = json.dumps({"messages": messages}).encode(), tuple(chain(KEY, messages))
        return dataclasses.replace(said(store, session, len(texts)), request=request, digests=digests)

    assert await keep(store, opened("one", "my cat is ill")) == ("one", 6)
    assert await keep(store, opened("two", "my dog is well")) == ("two", 6)
    assert await keep(store, opened("minted", "my cat is ill", "Good.", "it died")) == ("one", 2)


async def test_a_client_that_changes_its_newest_message_afterwards_keeps_its_conversation(store: Stores) -> None:
    """What it searched for it stands in the newest message alone, so no answer is where the next request has it."""

    def searched(session: str, number: int) -> Captured:
        one = said(store, session, number)
        messages = json.loads(one.request)["messages"]
        messages[-1]["content"] += " (found: rain)"
        return dataclasses.replace(
            one, request=json.dumps({"messages": messages}).encode(), digests=tuple(chain(KEY, messages))
        )

    assert await keep(store, searched("one", 1)) == ("one", 4)
    assert await keep(store, searched("two", 2)) == ("one", 4)
    assert await keep(store, searched("three", 3)) == ("one", 4)


async def test_a_session_that_the_client_named_stays(store: Stores) -> None:
    assert await keep(store, said(store, "first", 0)) == ("first", 2)
    assert await keep(store, said(store, "branch", 1, named=True)) == ("branch", 4)
