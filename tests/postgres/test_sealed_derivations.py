"""What is made of confidential turns is confidential, and leaves nothing beside its sealed text."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from memory.adapters.postgres.episode_store import JOB, PostgresEpisodes
from memory.adapters.postgres.leadership import Leadership
from memory.ids import new_id
from memory.stored import MemoryChange
from memory.write.episodes import Bounds, Teller
from memory.write.summarise import Summariser
from policies.labels import Sensitivity
from tests.postgres.seed import LANE, SUBJECT, T0, Words, exchange, vectors
from tests.postgres.test_sealed_rows import Vaulted, loaded, vault

__all__ = ["vault"]
TOOLS = ("read_file", "edit_file", "run_tests")
ALONE = Bounds(idle_s=1800, turns_max=60, tokens_max=32_000, sentences_max=8, sessions_max=50)
SAID = ("The parser in src/parse.py crashes, please fix the parser.", "Let me look.", "That fixed it, thanks!", "Good.")


async def worked(vault: Vaulted, label: Sensitivity) -> None:
    """A conversation in which tools were called and which ended well; told at once."""
    session = f"s{new_id()}"
    for at in (0, 2):
        made = exchange(vault.stores.scope(), session, at, SAID[at : at + 2], retrieval=None)
        called = [{"function": {"name": name, "arguments": "{}"}} for name in TOOLS] if at == 0 else None
        turns = tuple(replace(one, sensitivity=label) for one in made.turns)
        turns = (turns[0], replace(turns[1], tool_calls=called))
        memories = tuple(replace(one, sensitivity=label) for one in made.memories)
        await vault.stores.write.commit(replace(made, turns=turns, memories=memories), now=T0)
    vault.postgres.psql("UPDATE sessions SET active_at = clock_timestamp() - interval '2 hours'")
    words, store = Words(), PostgresEpisodes(vault.stores.database, vault.postgres.embeddings)
    teller = Teller(store, words, words, words, ALONE, lambda: T0, lives={}, approve="all")
    assert (await teller.sweep(lambda: Leadership(vault.stores.database, JOB, "one").lead(30))).stored == 1


async def test_an_episode_of_confidential_turns_is_sealed_and_tells_what_was_said(vault: Vaulted) -> None:
    await worked(vault, Sensitivity.CONFIDENTIAL)
    assert "parser" not in vault.raw() and "read_file" not in vault.raw()
    page = await vault.stores.records.memories(vault.stores.scope(), limit=50, now=T0 + timedelta(minutes=1))
    (told,) = [one for one in page.rows if one.collection == "episode"]
    assert told.sensitivity == "confidential" and "parser" in told.content
    assert list(told.attributes["tool_sequence"]) == list(TOOLS)


async def test_confidential_episodes_propose_no_procedure_and_open_ones_do(vault: Vaulted) -> None:
    for _ in range(3):
        await worked(vault, Sensitivity.CONFIDENTIAL)
    assert vault.postgres.psql("SELECT count(*) FROM procedure_runs") == "0"
    for _ in range(3):
        await worked(vault, Sensitivity.INTERNAL)
    assert vault.postgres.psql("SELECT count(*) FROM procedures") == "1"


async def test_a_summary_that_carries_confidential_words_on_is_sealed(vault: Vaulted) -> None:
    summariser = Summariser(vault.stores.write, every_turns=2, every_tokens=9_999, sentences_max=8, clock=lambda: T0)
    for at, label in ((0, Sensitivity.CONFIDENTIAL), (2, Sensitivity.INTERNAL)):
        made = exchange(vault.stores.scope(), "s", at, SAID[at : at + 2], retrieval=None)
        turns = tuple(replace(one, sensitivity=label) for one in made.turns)
        memories = tuple(replace(one, sensitivity=label) for one in made.memories)
        await vault.stores.write.commit(replace(made, turns=turns, memories=memories), now=T0)
        due = await summariser.due(vault.stores.scope(), made.session)
        assert due is not None
        windowed = replace(due.memory, windows=((0, len(due.memory.content)),), vectors=vectors(1))
        due = replace(due, memory=windowed)
        await summariser.keep(vault.stores.scope(), made.session, due, SUBJECT, LANE, vault.stores.fence)
    state = await vault.stores.write.summary_state(vault.stores.scope(), made.session.session_id)
    assert state is not None and state.content is not None and state.summarised_seq == 4
    assert "parser" in state.content and state.sensitivity == "confidential"
    assert "parser" not in vault.raw()


async def test_a_summary_of_words_that_became_confidential_while_it_was_made_is_made_anew(vault: Vaulted) -> None:
    scope = vault.stores.scope()
    summariser = Summariser(vault.stores.write, every_turns=2, every_tokens=9_999, sentences_max=8, clock=lambda: T0)
    made = exchange(scope, "s", 0, SAID[:2], retrieval=None)
    await vault.stores.write.commit(made, now=T0)

    async def sum_up(*, meanwhile: bool) -> None:
        due = await summariser.due(scope, made.session)
        assert due is not None
        windowed = replace(due.memory, windows=((0, len(due.memory.content)),), vectors=vectors(1))
        if meanwhile:
            change = MemoryChange(sensitivity="confidential")
            await vault.stores.records.patch_memory(scope, made.memories[0].memory_id, 1, change, T0)
        await summariser.keep(scope, made.session, replace(due, memory=windowed), SUBJECT, LANE, vault.stores.fence)

    await sum_up(meanwhile=True)
    assert "parser" not in vault.raw()
    await sum_up(meanwhile=False)
    assert "parser" not in vault.raw()
    state = await vault.stores.write.summary_state(scope, made.session.session_id)
    assert state is not None and (state.sensitivity, state.summarised_seq) == ("confidential", 2)


async def test_an_episode_of_words_that_became_confidential_while_it_was_told_is_told_anew(vault: Vaulted) -> None:
    scope, words = vault.stores.scope(), Words()
    made = [exchange(scope, "s", at, SAID[at : at + 2], retrieval=None) for at in (0, 2)]
    for one in made:
        await vault.stores.write.commit(one, now=T0)
    vault.postgres.psql("UPDATE sessions SET active_at = clock_timestamp() - interval '2 hours'")
    store = PostgresEpisodes(vault.stores.database, vault.postgres.embeddings)
    teller = Teller(store, words, words, words, ALONE, lambda: T0, lives={}, approve="all")
    leader = Leadership(vault.stores.database, JOB, "one")
    (due,) = await store.due(scope.tenant, idle_s=1800, turns_max=60, limit=9)
    episode = await teller.episode(due)
    assert episode is not None and episode.memory is not None
    change = MemoryChange(sensitivity="confidential")
    for one in made:
        await vault.stores.records.patch_memory(scope, one.memories[0].memory_id, 1, change, T0)
    assert not await store.put(due, episode, fence=await leader.lead(30) or 0, now=T0)
    assert (await teller.sweep(lambda: leader.lead(30))).stored == 1
    assert "parser" not in vault.raw()


async def test_a_confidential_turn_lends_its_words_to_no_neighbour(vault: Vaulted) -> None:
    made = exchange(vault.stores.scope(), "s", 0, ("The vault code is heliotrope.", "Noted.", "And lunch?", "At noon."))
    await vault.stores.write.commit(made, now=T0)
    lunch = made.memories[2].memory_id
    (before,) = [row for row in await loaded(vault) if row.memory_id == lunch]
    assert "heliotrope" in before.context
    change = MemoryChange(sensitivity="confidential")
    await vault.stores.records.patch_memory(vault.stores.scope(), made.memories[0].memory_id, 1, change, T0)
    (scope,) = await vault.stores.read.visible_scopes(vault.stores.scope())
    assert scope.rebuild_version == scope.version  # so that no index in a process goes on with the words
    (after,) = [row for row in await loaded(vault) if row.memory_id == lunch]
    assert "heliotrope" not in after.context and "Noted." in after.context
