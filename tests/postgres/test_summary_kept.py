"""The rolling summary on real Postgres: due by tokens too, what it keeps is there for the next one, and what its owner
hid is in none.
"""

from __future__ import annotations

from dataclasses import replace

from memory.adapters.postgres.outbox import Feed
from memory.write.summarise import Summariser
from tests.postgres.seed import LANE, SUBJECT, T0, digest, exchange, stores, vectors
from tests.postgres_fixture import TestDatabase

FIRST = (
    "Please plan the move of the archive. We decided to keep the old archive in Porto, whatever it costs us.",
    "I see, in Porto then. It will take some weeks until everything has been moved there from Lisbon.",
)


async def test_what_is_kept_is_carried_from_one_summary_to_the_next(postgres: TestDatabase) -> None:
    async with stores(postgres) as all_stores:
        scope, store = all_stores.scope(), all_stores.write
        summariser = Summariser(store, every_turns=12, every_tokens=10, sentences_max=8, clock=lambda: T0)
        seen = []
        for at in range(0, 12, 2):
            texts = FIRST if at == 0 else (f"The boat number {at} is on its way to us.", f"Good, boat {at} is noted.")
            commit = exchange(scope, "s", at, texts)  # of five tokens a turn
            await store.commit(commit, now=T0)
            due = await summariser.due(scope, commit.session)
            assert due is not None
            memory = replace(due.memory, windows=((0, len(due.memory.content)),), vectors=vectors(1))
            await summariser.keep(scope, commit.session, replace(due, memory=memory), SUBJECT, LANE, all_stores.fence)
            assert await summariser.due(scope, commit.session) is None
            state = await store.summary_state(scope, commit.session.session_id)
            assert state is not None and state.attributes is not None
            assert (state.summarised_seq, state.tokens_since) == (at + 2, 0)
            seen.append(state.attributes)
        assert [one["intent"] for one in seen] == ["Please plan the move of the archive."] * 6
        decision = "We decided to keep the old archive in Porto, whatever it costs us."
        assert [one["decisions"] for one in seen] == [[decision]] * 6
        assert "Porto" in seen[-1]["names"]
        later = Summariser(store, every_turns=12, every_tokens=11, sentences_max=8, clock=lambda: T0)
        await store.commit(exchange(scope, "s", 12, ("And the last boat?", "It is late.")), now=T0)
        assert await later.due(scope, commit.session) is None


async def test_the_next_turn_makes_anew_a_summary_that_held_what_was_hidden_since(postgres: TestDatabase) -> None:
    async with stores(postgres) as all_stores:
        scope, store, read = all_stores.scope(), all_stores.write, all_stores.read
        summariser = Summariser(store, every_turns=4, every_tokens=10_000, sentences_max=8, clock=lambda: T0)
        lines = [
            ("My boat is called Halcyon.", "A good name for a boat on the lake."),
            ("We decided to sell the house in Porto.", "Then the house goes first."),
            ("The garden needs water in June.", "It is a dry month there."),
        ]
        made = [exchange(scope, "s", 2 * at, texts, retrieval=None) for at, texts in enumerate(lines)]
        session = made[0].session

        async def said(at: int) -> bool:
            await store.commit(made[at], now=T0)
            return await kept()

        async def kept() -> bool:
            due = await summariser.due(scope, session)
            if due is None:
                return False
            memory = replace(due.memory, windows=((0, len(due.memory.content)),), vectors=vectors(1))
            await summariser.keep(scope, session, replace(due, memory=memory), SUBJECT, LANE, all_stores.fence)
            return True

        async def given() -> str | None:
            ids = [one.scope_id for one in await read.visible_scopes(scope)]
            row = await read.summary(all_stores.tenant, ids, session.session_id)
            return None if row is None else row.content + str(row.attributes)

        assert [await said(at) for at in (0, 1)] == [False, True]
        assert "Porto" in str(await given())
        await all_stores.records.delete_memory(scope, made[1].memories[0].memory_id, T0)
        assert await given() is None
        assert not await kept(), "not before something was said"
        assert await said(2), "too early for another by the count of turns"
        told = await given()
        assert told is not None and "Halcyon" in told and "garden" in told and "Porto" not in told
        feed = await Feed(all_stores.database, all_stores.scopes).events(scope, limit=100)
        events = [one.what for one in feed.rows if one.kind == "summary"]
        assert events == ["created", "deleted", "restored", "updated"]
        edges = postgres.psql("SELECT source_id FROM derivations WHERE derived_kind = 'summary'").split()
        assert str(made[1].turns[0].event_id) not in edges
        assert not await kept()


async def test_a_first_summary_of_what_was_hidden_while_it_was_made_is_not_kept(postgres: TestDatabase) -> None:
    async with stores(postgres) as all_stores:
        scope, store = all_stores.scope(), all_stores.write
        summariser = Summariser(store, every_turns=2, every_tokens=10_000, sentences_max=8, clock=lambda: T0)
        made = exchange(scope, "s", 0, FIRST, retrieval=None)
        await store.commit(made, now=T0)
        due = await summariser.due(scope, made.session)
        assert due is not None
        memory = replace(due.memory, windows=((0, len(due.memory.content)),), vectors=vectors(1))
        await all_stores.records.delete_memory(scope, made.memories[0].memory_id, T0)
        await summariser.keep(scope, made.session, replace(due, memory=memory), SUBJECT, LANE, all_stores.fence)
        state = await store.summary_state(scope, made.session.session_id)
        assert state is not None and (state.content, state.summarised_seq) == (None, 0)


async def test_a_question_that_was_edited_is_in_no_summary(postgres: TestDatabase) -> None:
    async with stores(postgres) as all_stores:
        scope, store = all_stores.scope(), all_stores.write
        summariser = Summariser(store, every_turns=6, every_tokens=10_000, sentences_max=8, clock=lambda: T0)
        rome = exchange(scope, "s", 2, ("We decided to marry in Rome in May.", "In Rome, then."), retrieval=None)
        oslo = exchange(scope, "s", 4, ("We decided to marry in Oslo in May.", "In Oslo, then."), retrieval=None)
        asked, answered = oslo.turns
        asked = replace(asked, chain=digest("edited"), parent_chain=rome.turns[0].parent_chain)
        edited = replace(oslo, turns=(asked, replace(answered, parent_chain=asked.chain)))
        for commit in (exchange(scope, "s", 0, FIRST, retrieval=None), rome, edited):
            await store.commit(commit, now=T0)
        due = await summariser.due(scope, oslo.session)
        assert due is not None
        told = due.memory.content + str(due.memory.attributes)
        assert "Porto" in told and "Oslo" in told and "Rome" not in told
