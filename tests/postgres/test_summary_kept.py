"""The rolling summary on real Postgres: due by tokens too, and what it keeps is there for the next one."""

from __future__ import annotations

from dataclasses import replace

from memory.write.summarise import Summariser
from tests.postgres.seed import LANE, SUBJECT, T0, exchange, stores, vectors
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
