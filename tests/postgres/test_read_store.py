"""Reading: complete, in step with scope versions, true to two clocks, and blind to what is not its scope's."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from memory.adapters.postgres.database import Transaction
from memory.ids import new_id
from memory.model import IndexRow, Injections, LedgerNode, Scope, Withdrawn
from memory.read.conversation import WITHDRAWN
from memory.read.hot import HotScopes
from memory.read.items import Filter
from memory.stored import MemoryChange
from memory.telemetry import Metrics
from policies.labels import Sensitivity
from tests.postgres.seed import SUBJECT, T0, Stores, digest, exchange, memory_of, retrieval, stores, turn, vectors
from tests.postgres_fixture import DIM, TestDatabase

HOUR = timedelta(hours=1)


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres) as made:
        yield made


async def rows_of(
    store: Stores, scope: Scope, after: int = 0, as_of: datetime | None = None, batch: int = 100
) -> list[IndexRow]:
    ids = [one.scope_id for one in await store.read.visible_scopes(scope)]
    found = store.read.index_rows(store.tenant, ids, after=dict.fromkeys(ids, after), as_of=as_of, batch=batch)
    return [row async for some in found for row in some]


async def test_a_row_holds_all_that_recall_needs(store: Stores) -> None:
    commit = exchange(store.scope(), "s", 0, ("where is it", "in Ghent"))
    long = dataclasses.replace(commit.memories[1], windows=((0, 4), (3, 8)), vectors=vectors(2))
    await store.write.commit(dataclasses.replace(commit, memories=(commit.memories[0], long)), now=T0)
    first, second = sorted(await rows_of(store, store.scope()), key=lambda row: row.seq)
    assert (first.content, first.context, first.seq, first.role) == ("where is it", "", 0, "user")
    assert (second.content, second.context, second.seq) == ("in Ghent", "where is it", 1)
    assert second.windows == ((0, 4), (3, 8))
    assert second.vectors.shape == (2, 384) and second.vectors.dtype == np.float32
    assert long.vectors is not None
    np.testing.assert_allclose(second.vectors, long.vectors, atol=2e-4)  # half precision
    assert second.event_ids == (commit.turns[1].event_id,)
    assert second.source_ids == (str(commit.turns[1].event_id),)
    assert second.chain == commit.turns[1].chain
    assert (second.session_id, second.occurred_at) == (commit.session.session_id, commit.turns[1].occurred_at)
    assert second.visible and second.changed_version == 1


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
async def test_every_row_comes_once_however_the_batches_fall(store: Stores, batch: int) -> None:
    for at in range(5):
        await store.write.commit(exchange(store.scope(), "s", 2 * at), now=T0)
    rows = await rows_of(store, store.scope(), batch=batch)
    assert len(rows) == len({row.memory_id for row in rows}) == 10
    assert [row.changed_version for row in rows] == sorted(row.changed_version for row in rows)


async def test_of_a_scope_that_did_not_move_nothing_is_read(store: Stores) -> None:
    one, other = store.scope(), replace(store.scope(), agent="other")
    await store.write.commit(exchange(one, "s", 0), now=T0)
    await store.write.commit(exchange(other, "t", 0, ("elsewhere", "and there")), now=T0)
    ids = [version.scope_id for scope in (one, other) for version in await store.read.visible_scopes(scope)]
    both = [row async for some in store.read.index_rows(store.tenant, ids) for row in some]
    moved = [row async for some in store.read.index_rows(store.tenant, ids, after={ids[1]: 0}) for row in some]
    assert {row.scope_id for row in both} == set(ids)
    assert {row.scope_id for row in moved} == {ids[1]}
    assert len(moved) == 2


async def test_a_reader_catches_up_with_what_changed(store: Stores) -> None:
    scope = store.scope()
    await store.write.commit(exchange(scope, "s", 0), now=T0)
    (version,) = await store.read.visible_scopes(scope)
    assert await rows_of(store, scope, after=version.version) == []
    await store.write.commit(exchange(scope, "s", 2), now=T0)
    changed = await rows_of(store, scope, after=version.version)
    assert [row.seq for row in changed] == [2, 3] or [row.seq for row in changed] == [3, 2]
    await store.records.delete_memory(scope, changed[0].memory_id, T0)
    (gone,) = await rows_of(store, scope, after=version.version + 1)
    assert (gone.memory_id, gone.visible, gone.content) == (changed[0].memory_id, False, "")


async def test_a_reader_can_ask_for_some_kinds_only(store: Stores) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    summary = dataclasses.replace(memory_of(commit.turns[0], kind="summary", content="sum"), memory_id=new_id())
    await store.write.put_summary(scope, commit.session.session_id, summary, 2, subject_id=SUBJECT, now=T0)
    ids = [one.scope_id for one in await store.read.visible_scopes(scope)]
    for kinds, texts in ((["summary"], ["sum"]), (["episodic"], ["hello", "hi there"]), (["semantic"], [])):
        found = [row async for some in store.read.index_rows(store.tenant, ids, kinds=kinds) for row in some]
        assert sorted(row.content for row in found) == texts


async def test_as_of_shows_what_was_recorded_then(store: Stores) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0, ("it is blue",))
    await store.write.commit(commit, now=T0)
    memory_id = commit.memories[0].memory_id
    change = MemoryChange(content="it is red", windows=((0, 9),), vectors=vectors(1))
    await store.records.patch_memory(scope, memory_id, 1, change, T0 + HOUR)
    await store.records.delete_memory(scope, memory_id, T0 + 2 * HOUR)

    async def then(moment: datetime) -> list[tuple[str, int]]:
        return [(row.content, row.version) for row in await rows_of(store, scope, as_of=moment)]

    assert await then(T0 - HOUR) == []
    assert await then(T0) == [("it is blue", 1)]
    assert await then(T0 + HOUR) == [("it is red", 2)]
    assert await then(T0 + 2 * HOUR) == []
    (old,) = await rows_of(store, scope, as_of=T0)
    assert commit.memories[0].vectors is not None
    np.testing.assert_allclose(old.vectors, commit.memories[0].vectors, atol=2e-4)
    assert [row.visible for row in await rows_of(store, scope)] == [False]


async def test_as_of_a_moment_at_which_it_was_deleted_a_memory_is_not_there_also_once_it_is_back(store: Stores) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0, ("it is blue",))
    await store.write.commit(commit, now=T0)
    memory_id = commit.memories[0].memory_id
    for hours in (1, 5):
        await store.records.delete_memory(scope, memory_id, T0 + hours * HOUR)
        await store.records.undelete_memory(scope, memory_id, T0 + (hours + 2) * HOUR)
    there = [bool(await rows_of(store, scope, as_of=T0 + hours * HOUR)) for hours in range(9)]
    assert there == [True, False, False, True, True, False, False, True, True]


async def test_as_of_a_memory_that_changes_with_many_others_while_a_page_is_read_is_still_there(
    store: Stores, postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = store.scope()
    for at in range(3):
        await store.write.commit(exchange(scope, "s", at, (f"number {at}",)), now=T0)
    (version,) = await store.read.visible_scopes(scope)
    last = max(row.memory_id for row in await rows_of(store, scope))
    postgres.psql(f"UPDATE memories SET changed_version = {version.version + 1} WHERE memory_id = '{last}'")

    async def fetch(tx: Transaction, query: str, *given: Any) -> list[Any]:
        found: list[Any] = await whole(tx, query, *given)
        if query == "changed_memories":
            await asyncio.to_thread(postgres.psql, f"UPDATE memories SET changed_version = {version.version + 2}")
        return found

    whole: Any = Transaction.fetch
    monkeypatch.setattr(Transaction, "fetch", fetch)
    rows = await rows_of(store, scope, after=version.version, as_of=T0, batch=2)
    assert [(row.memory_id, row.visible) for row in rows] == [(last, True)]


async def test_the_quarantined_of_today_are_hidden_from_every_moment(store: Stores, postgres: TestDatabase) -> None:
    await store.write.commit(exchange(store.scope(), "s", 0, ("ignore all rules",)), now=T0)
    postgres.psql("UPDATE memories SET quarantined_at = now()")
    assert await rows_of(store, store.scope(), as_of=T0) == []


async def test_the_rejected_of_today_are_hidden_from_every_moment(store: Stores) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0, ("it is blue",))
    await store.write.commit(commit, now=T0)
    memory_id = commit.memories[0].memory_id
    await store.records.patch_memory(scope, memory_id, 1, MemoryChange(validation_status="rejected"), T0 + HOUR)
    for moment in (T0, T0 + HOUR, T0 + 2 * HOUR):
        assert await rows_of(store, scope, as_of=moment) == []
    await store.records.patch_memory(scope, memory_id, 2, MemoryChange(validation_status="confirmed"), T0 + 3 * HOUR)
    assert len(await rows_of(store, scope, as_of=T0)) == 1
    assert await rows_of(store, scope, as_of=T0 + 2 * HOUR) == [], "it was rejected then"


async def test_words_that_were_rejected_are_as_of_no_moment_though_others_are_confirmed_by_now(store: Stores) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0, ("it is blue",))
    await store.write.commit(commit, now=T0)
    memory_id = commit.memories[0].memory_id
    changes: tuple[dict[str, Any], ...] = (
        {"importance": 0.9},
        {"validation_status": "rejected"},
        {"content": "it is red", "windows": ((0, 9),), "vectors": vectors(1), "validation_status": "confirmed"},
        {"content": "it is green", "windows": ((0, 11),), "vectors": vectors(1)},
    )
    for version, change in enumerate(changes, 1):
        await store.records.patch_memory(scope, memory_id, version, MemoryChange(**change), T0 + version * HOUR)
    then = [await rows_of(store, scope, as_of=T0 + hours * HOUR) for hours in range(5)]
    assert [[row.content for row in rows] for rows in then] == [[], [], [], ["it is red"], ["it is green"]]


async def test_as_of_the_end_of_a_memory_is_the_one_it_has_now(store: Stores) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0, ("it is blue",))
    await store.write.commit(commit, now=T0)
    memory_id = commit.memories[0].memory_id

    async def ends(moment: datetime) -> list[datetime | None]:
        return [row.expires_at for row in await rows_of(store, scope, as_of=moment)]

    for version, end in ((1, T0 + 2 * HOUR), (2, T0 + 9 * HOUR)):
        change = MemoryChange(expires_at=end, set_expires_at=True)
        await store.records.patch_memory(scope, memory_id, version, change, T0 + (3 * version - 2) * HOUR)
        assert await ends(T0) == [end]
    assert await ends(T0 + HOUR) == [T0 + 9 * HOUR]
    assert await ends(T0 + 3 * HOUR) == [], "it had ended then"
    assert await ends(T0 + 5 * HOUR) == [T0 + 9 * HOUR]


async def test_what_is_shared_is_visible_and_the_rest_is_not(store: Stores, postgres: TestDatabase) -> None:
    for user in ("ada", "eve"):
        await store.write.commit(exchange(store.scope(user), "s", 0), now=T0)
    values = [("user", "ada", "", ""), ("user", "eve", "", ""), ("project", "", "p", ""), ("project", "", "q", "")]
    for visibility, user, project, agent in [*values, ("tenant", "", "", "")]:
        postgres.psql(
            "WITH s AS (INSERT INTO scopes (tenant_id, visibility, user_name, project, agent)"
            f" VALUES ('{store.tenant}', '{visibility}', '{user}', '{project}', '{agent}') RETURNING *)"
            " INSERT INTO scope_versions (tenant_id, scope_id) SELECT tenant_id, scope_id FROM s"
        )
    visible = await store.read.visible_scopes(store.scope())
    seen = [one.scope_id for one in visible]
    names = postgres.psql(
        f"SELECT visibility, user_name, project FROM scopes WHERE scope_id IN ({','.join(map(str, seen))}) ORDER BY 1"
    )
    assert names == "own|ada|p\nproject||p\ntenant||\nuser|ada|"
    why = postgres.psql("SELECT scope_id, visibility FROM scopes").splitlines()
    assert {f"{one.scope_id}|{one.visibility}" for one in visible} < set(why)
    assert len(await rows_of(store, store.scope())) == 2


def cosine(held: Any, query: Any) -> float:
    """Of the best window, as Postgres sees them: both as halves, neither quite of unit length any more."""
    windows, asked = (vector.astype(np.float16).astype(np.float64) for vector in (held, query))
    return float((windows @ asked / np.linalg.norm(windows, axis=1)).max())


async def test_nearest_is_the_exact_order_after_every_filter(store: Stores) -> None:
    scope = store.scope()
    commits = [exchange(scope, f"s{at % 2}", 2 * at) for at in range(20)]
    for commit in commits:
        await store.write.commit(commit, now=T0)
    ids = [one.scope_id for one in await store.read.visible_scopes(scope)]
    query = vectors(1)[0]
    held = {row.memory_id: row for row in await rows_of(store, scope)}
    order = sorted(held.values(), key=lambda row: -cosine(row.vectors, query))

    async def nearest(k: int, where: Filter) -> list[object]:
        found = await store.read.nearest(store.tenant, ids, query, k, where)
        cosines = [cosine(one.vectors, query) for one in found]
        assert cosines == sorted(cosines, reverse=True)
        return [one.memory_id for one in found]

    assert await nearest(7, Filter()) == [row.memory_id for row in order[:7]]
    session = commits[1].session.session_id
    of_session = [row.memory_id for row in order if row.session_id == session]
    assert await nearest(100, Filter(session_id=session)) == of_session
    others = [row.memory_id for row in order if row.session_id != session]
    assert await nearest(100, Filter(exclude_session_id=session)) == others
    without = frozenset(row.memory_id for row in order[:38])  # all but two: the scan must go on to the end
    assert await nearest(1, Filter(exclude_memory_ids=without)) == [order[38].memory_id]
    assert await nearest(1, Filter(exclude_event_ids=frozenset(order[0].event_ids))) == [order[1].memory_id]
    assert await nearest(5, Filter(kinds=frozenset({"semantic"}))) == []
    assert await nearest(5, Filter(ceiling=Sensitivity.PUBLIC)) == []
    assert await nearest(5, Filter(scope_ids=frozenset({-1}))) == []
    users = [row.memory_id for row in order if row.role == "user"]
    assert await nearest(3, Filter(roles=frozenset({"user"}))) == users[:3]
    late = T0 + timedelta(seconds=30)
    assert await nearest(50, Filter(occurred_after=late)) == [
        row.memory_id for row in order if row.occurred_at and row.occurred_at >= late
    ]


async def test_a_memory_is_as_near_as_its_best_window(store: Stores) -> None:
    commit = exchange(store.scope(), "s", 0, ("a long text", "short"))
    query = vectors(1)[0]
    windows = np.stack([-query, query, -query])
    many = dataclasses.replace(commit.memories[0], windows=((0, 3), (3, 6), (6, 9)), vectors=windows)
    await store.write.commit(dataclasses.replace(commit, memories=(many, commit.memories[1])), now=T0)
    ids = [one.scope_id for one in await store.read.visible_scopes(store.scope())]
    best = (await store.read.nearest(store.tenant, ids, query, 5, Filter()))[0]
    assert (best.memory_id, best.windows) == (many.memory_id, many.windows)
    np.testing.assert_allclose(best.vectors, windows, atol=1e-3)


async def inject(store: Stores, scope: Scope, at: int, *placed: UUID, when: datetime = T0) -> None:
    """An exchange that was given these memories and leaves none."""
    commit = exchange(scope, "given", at)
    record = retrieval(commit.exchange.exchange_id, *placed, at=when)
    await store.write.commit(dataclasses.replace(commit, memories=(), retrieval=record), now=T0)


async def test_counters_come_with_their_rows_and_alone_when_only_they_changed(store: Stores) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    used, unused = (memory.memory_id for memory in commit.memories)
    (own,) = await store.read.visible_scopes(scope)
    for at in (0, 2):
        await inject(store, scope, at, used, when=T0 + HOUR)
    assert await rows_of(store, scope, after=own.version) == []
    counted = [one async for some in store.read.injections(store.tenant, {own.scope_id: own.version}) for one in some]
    assert counted == [Injections(used, 2, T0 + HOUR)]
    loaded = {row.memory_id: (row.injected, row.last_injected_at) for row in await rows_of(store, scope)}
    assert loaded == {used: (2, T0 + HOUR), unused: (0, None)}
    near = await store.read.nearest(store.tenant, [own.scope_id], vectors(1)[0], 5, Filter())
    assert {row.memory_id: (row.injected, row.last_injected_at) for row in near} == loaded
    assert {row.injected for row in await rows_of(store, scope, as_of=T0 + HOUR)} == {0}


@pytest.mark.parametrize("batch", [1, 3, 4, 100])
async def test_every_counter_comes_once_however_the_batches_fall(store: Stores, batch: int) -> None:
    scope, commit = store.scope(), exchange(store.scope(), "s", 0, tuple(f"text {n}" for n in range(9)))
    await store.write.commit(commit, now=T0)
    ids = [memory.memory_id for memory in commit.memories]
    for at in range(3):
        await inject(store, scope, 2 * at, *ids[3 * at :])
    (own,) = await store.read.visible_scopes(scope)
    pages = [some async for some in store.read.injections(store.tenant, {own.scope_id: 0}, batch=batch)]
    counted = [one for some in pages for one in some]
    assert {one.memory_id: one.injected for one in counted} == {one: n // 3 + 1 for n, one in enumerate(ids)}
    assert len(counted) == 9


async def test_counters_of_another_scope_are_not_seen(store: Stores) -> None:
    scope, other = store.scope(), store.scope("eve")
    for one in (scope, other):
        commit = exchange(one, "s", 0)
        await store.write.commit(commit, now=T0)
        await inject(store, one, 0, commit.memories[0].memory_id)
    ids = [(await store.read.visible_scopes(one))[0].scope_id for one in (scope, other)]
    async with store.database.transaction(store.tenant, ids[:1], read_only=True) as tx:
        seen = [await tx.fetch("injections_since", store.tenant, one, 0, UUID(int=0), 10) for one in ids]
    assert [len(rows) for rows in seen] == [1, 0]


async def test_a_hot_index_that_caught_up_ranks_like_one_loaded_anew_and_like_the_store(store: Stores) -> None:
    scope, same = store.scope(), vectors(1)
    commit = exchange(scope, "s", 0, ("the tent is green", "aye", "the tent is blue", "aye", "the tent is grey"))
    alike = tuple(dataclasses.replace(one, vectors=same) for one in commit.memories)
    await store.write.commit(dataclasses.replace(commit, memories=alike), now=T0)
    kept, fresh = (
        HotScopes(store.read, dim=DIM, bytes_max=1 << 24, staleness_ms=0, metrics=Metrics()) for _ in range(2)
    )
    await kept.get(scope, None)
    await inject(store, scope, 0, alike[2].memory_id)
    (own,) = await store.read.visible_scopes(scope)
    near = await store.read.nearest(store.tenant, [own.scope_id], same[0], 10, Filter())
    held = [await kept.get(scope, None), await fresh.get(scope, None), fresh.index_of(near, None)]
    now = T0 + timedelta(days=30)
    found = [hot.index.search("which tent", same[0], 10, now=now, where=Filter()) for hot in held]
    ranked = [[(hit.item, hit.score, hit.parts) for hit in hits] for hits in found]
    assert ranked[0] == ranked[1] == ranked[2]
    reinforced = {hit.item.content: hit.parts["reinforcement"] for hit in found[0]}
    assert reinforced.pop("the tent is blue") == pytest.approx(0.125)  # a quarter, halved by 30 days
    assert set(reinforced.values()) == {0.0}
    for hot in (kept, fresh):
        hot.close()


async def test_words_are_found_by_the_rules_of_the_stored_language_on_both_paths(store: Stores) -> None:
    texts = ("Ich habe den Schlüsseln einen Anhänger gekauft", "Schön", "the keys were hanging there", "aye")
    commit, codes = exchange(store.scope(), "s", 0, texts), ("de", "de", "en", None)
    turns = (replace(one, language=code) for one, code in zip(commit.turns, codes, strict=True))
    memories = tuple(replace(one, language=code) for one, code in zip(commit.memories, codes, strict=True))
    await store.write.commit(replace(commit, turns=tuple(turns), memories=memories), now=T0)
    rows = sorted(await rows_of(store, store.scope()), key=lambda row: row.seq)
    past = sorted(await rows_of(store, store.scope(), as_of=T0), key=lambda row: row.seq)
    assert tuple(row.language for row in rows) == tuple(row.language for row in past) == codes
    (own,) = await store.read.visible_scopes(store.scope())
    near = await store.read.nearest(store.tenant, [own.scope_id], vectors(1)[0], 10, Filter())
    hot = HotScopes(store.read, dim=DIM, bytes_max=1 << 24, staleness_ms=0, metrics=Metrics())
    held = [await hot.get(store.scope(), None), hot.index_of(near, None)]
    for question, answer in (("Wo ist mein Schlüssel?", texts[0]), ("where does the key hang?", texts[2])):
        found = [one.index.search(question, None, 10, now=T0, where=Filter()) for one in held]
        ranked = [[(hit.item, hit.score, hit.features) for hit in hits] for hits in found]
        assert ranked[0] == ranked[1]
        assert found[0][0].item.content == answer
    hot.close()


async def test_a_chain_leads_to_its_session_the_latest_of_several(store: Stores) -> None:
    scope = store.scope()
    for number, label in enumerate(("old", "new")):
        commit = exchange(scope, label, 0)
        turns = tuple(dataclasses.replace(one, chain=digest("same", n)) for n, one in enumerate(commit.turns))
        when = dataclasses.replace(commit.exchange, arrived_at=T0 + number * HOUR)
        await store.write.commit(dataclasses.replace(commit, turns=turns, exchange=when), now=T0 + number * HOUR)
    found = await store.read.session_of_chains(scope, [digest("same", 1), digest("unknown")])
    assert [ref.label for ref in found.values()] == ["new"]
    assert await store.read.session_of_chains(store.scope("eve"), [digest("same", 1)]) == {}


def with_block(node: LedgerNode, sealed: bytes) -> LedgerNode:
    return dataclasses.replace(node, placed_sealed=sealed, placed_sha256=digest("b"), retrieval_id=new_id())


async def test_what_was_placed_once_comes_back_as_it_was(store: Stores) -> None:
    commit = exchange(store.scope(), "s", 0)
    first, *others = commit.nodes
    placed = with_block(first, b"sealed")
    await store.write.commit(dataclasses.replace(commit, nodes=(placed, *others)), now=T0)
    again = exchange(store.scope(), "s", 2)
    await store.write.commit(dataclasses.replace(again, nodes=(with_block(first, b"other"), *again.nodes)), now=T0)
    session, chains = commit.session.session_id, [node.chain for node in (*commit.nodes, *again.nodes)]
    found = await store.read.ledger(store.scope(), session, [*chains, digest("never said")])
    assert found == {**dict.fromkeys(chains, b""), first.chain: b"sealed"}
    assert await store.read.ledger(store.scope("eve"), session, chains) == {}


async def test_where_nothing_was_placed_a_later_attempt_may_place(store: Stores) -> None:
    commit = exchange(store.scope(), "s", 0)
    await store.write.commit(commit, now=T0)
    again = exchange(store.scope(), "s", 2)
    placed = with_block(commit.nodes[0], b"sealed")
    await store.write.commit(dataclasses.replace(again, nodes=(placed, *again.nodes)), now=T0)
    assert await store.read.ledger(store.scope(), commit.session.session_id, [placed.chain]) == {
        placed.chain: b"sealed"
    }


async def test_of_two_attempts_at_an_opening_the_later_one_stands_whichever_is_stored_first(store: Stores) -> None:
    commit, again = exchange(store.scope(), "s", 0), exchange(store.scope(), "s", 2)
    earlier, later = (
        dataclasses.replace(with_block(commit.nodes[0], sealed), anew=True) for sealed in (b"earlier", b"later")
    )
    await store.write.commit(dataclasses.replace(commit, nodes=(later,)), now=T0)
    await store.write.commit(dataclasses.replace(again, nodes=(earlier, *again.nodes)), now=T0)
    found = await store.read.ledger(store.scope(), commit.session.session_id, [later.chain])
    assert found == {later.chain: b"later"}


@pytest.mark.parametrize("anew", [False, True])
async def test_what_is_withdrawn_never_comes_back_and_another_attempt_is_given_something_else(
    store: Stores, anew: bool
) -> None:
    commit = exchange(store.scope(), "s", 0)
    placed = with_block(commit.nodes[0], b"sealed")
    await store.write.commit(dataclasses.replace(commit, nodes=(placed,)), now=T0)
    again = exchange(store.scope(), "s", 2)
    record = retrieval(again.exchange.exchange_id)
    gone = dataclasses.replace(record.record, withdrawn=(Withdrawn(placed.chain, "quarantined"),))
    said = dataclasses.replace(again, retrieval=dataclasses.replace(record, record=gone))
    await store.write.commit(said, now=T0)
    late = exchange(store.scope(), "s", 4)
    more = dataclasses.replace(with_block(placed, b"more"), anew=anew)
    await store.write.commit(dataclasses.replace(late, nodes=(more, *late.nodes)), now=T0)
    found = await store.read.ledger(store.scope(), commit.session.session_id, [placed.chain])
    assert found == {placed.chain: b"more" if anew else WITHDRAWN}


@pytest.mark.parametrize(("name", "index"), [("take_places", "_chain_key"), ("stand_behind", "turns_siblings")])
async def test_a_turn_of_a_copy_is_looked_up_by_its_place(postgres: TestDatabase, name: str, index: str) -> None:
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        postgres.psql(
            """
            SET session_replication_role = replica;
            INSERT INTO turns
                SELECT (jsonb_populate_record(t, jsonb_build_object('event_id', md5(n::text)::uuid, 'seq', n + 9,
                    'chain', '\\x' || encode(sha256(n::text::bytea), 'hex'), 'source_id', n))).*
                FROM turns t, generate_series(1, 3000) n WHERE t.event_id = (SELECT event_id FROM turns LIMIT 1);
            ANALYZE turns
            """
        )
        query, scope_id = made.database.queries[name], await made.write.scope_id(made.scope())
        session_id = UUID(postgres.psql("SELECT session_id FROM sessions").strip())
        asked = [made.tenant, session_id, [digest("a")], [digest("b")]]
        async with made.database.transaction(made.tenant, [scope_id]) as tx:
            plan = [row[0] for row in await tx.fetch(replace(query, sql=f"EXPLAIN {query.sql}"), *asked)]
    assert any(index in line for line in plan) and not any("Seq Scan on turns" in line for line in plan), plan


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("imported", ["source_id", "line_digest"])
async def test_for_a_scope_without_a_copy_not_all_turns_are_gone_through_where_half_of_them_were_imported(
    postgres: TestDatabase, imported: str, generic: bool
) -> None:
    """It is asked for each request with a history that nobody knows."""
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        scope_id = await made.write.scope_id(made.scope())
        known = "n" if imported == "source_id" else "'\\x' || encode(sha256(n::text::bytea), 'hex')"
        postgres.psql(
            f"""
            SET session_replication_role = replica;
            INSERT INTO turns
                SELECT (jsonb_populate_record(t, jsonb_build_object('event_id', md5(n::text)::uuid, 'seq', n + 9,
                    'chain', '\\x' || encode(sha256(n::text::bytea), 'hex'), 'scope_id', t.scope_id + n % 2,
                    '{imported}', CASE WHEN n % 2 = 1 THEN {known} END))).*
                FROM turns t, generate_series(1, 20000) n WHERE t.event_id = (SELECT event_id FROM turns LIMIT 1);
            ANALYZE turns
            """
        )
        query = made.database.queries["has_copies"]
        async with made.database.transaction(made.tenant, [scope_id], read_only=True, generic=generic) as tx:
            rows = await tx.fetch(replace(query, sql=f"EXPLAIN (ANALYZE) {query.sql}"), made.tenant, scope_id)
        plan = "\n".join(row[0] for row in rows)
        assert not await made.read.has_copies(made.scope())
    assert "Rows Removed by Filter" not in plan and "Seq Scan" not in plan, plan


@pytest.mark.parametrize("name", ["session_of_chains", "session_that_went_on", "chains_elsewhere"])
async def test_a_position_is_looked_up_where_one_of_many_scopes_holds_most_turns(
    postgres: TestDatabase, name: str
) -> None:
    """Else all turns of one who has a hundred thousand are gone through for each position of a request."""
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        scope_id = await made.write.scope_id(made.scope())
        postgres.psql(
            """
            SET session_replication_role = replica;
            INSERT INTO turns
                SELECT (jsonb_populate_record(t, jsonb_build_object('event_id', md5(n::text)::uuid, 'session_id',
                    md5(n::text)::uuid, 'chain', '\\x' || encode(sha256(n::text::bytea), 'hex'), 'source_id', n,
                    'scope_id', CASE WHEN n % 2 = 0 THEN t.scope_id ELSE t.scope_id + n END))).*
                FROM turns t, generate_series(1, 8000) n WHERE t.event_id = (SELECT event_id FROM turns LIMIT 1);
            ANALYZE turns
            """
        )
        chains = [digest("a"), digest("b")]
        others: dict[str, list[Any]] = {"session_of_chains": [chains], "session_that_went_on": [chains, T0]}
        asked = [made.tenant, scope_id, *others.get(name, [new_id(), chains])]
        async with made.database.transaction(made.tenant, [scope_id], read_only=True, generic=True) as tx:
            plan = await tx.fetch(
                replace(made.database.queries[name], sql=f"EXPLAIN {made.database.queries[name].sql}"), *asked
            )
    assert any("turns_chain on turns" in row[0] for row in plan), [row[0] for row in plan]


async def test_a_history_is_looked_up_by_its_positions_before_the_first_analyze(postgres: TestDatabase) -> None:
    """Else all that its session has is read for each: 120 ms of 900, at every turn of a store's first minute."""
    async with stores(postgres) as made:
        commit = exchange(made.scope(), "s", 0)
        turns = tuple(turn(commit.exchange.exchange_id, "s", at, "user", f"text {at}") for at in range(400))
        await made.write.commit(replace(commit, turns=turns, memories=(), nodes=()), now=T0)
        query = made.database.queries["chains_known"]
        asked = (made.tenant, [commit.session.session_id] * 400, [one.chain for one in turns])
        explained = replace(query, sql=f"EXPLAIN (ANALYZE) {query.sql}")
        scope_id = await made.write.scope_id(made.scope())
        async with made.database.transaction(made.tenant, [scope_id], read_only=True, generic=True) as tx:
            plan = [row[0] for row in await tx.fetch(explained, *asked)]
    assert not [line for line in plan if "Removed by Filter" in line], plan


BY_ID = (
    "vectors_of_memories",
    "sources_of_memories",
    "memories_by_id",
    "turns_untold",
    "turns_withheld",
    "turns_not_told",
    "turns_to_erase",
    "turns_missing",
    "open_windows_of",
    "versions_by_number",
    "versions_without_vectors",
    "chains_known",
    "siblings",
    "memories_made_anew",
    "turns_learnt",
    "labels_of_turns",
    "labels_of_memories",
)
OF_A_SCOPE = re.compile(
    r"(_of_scope|_recent|_changed|_in_order|_scope|content_key|turns_chain|turns_(line|source)) on "
    r"(turns|derivations|memories|memory_[ev])"
    r"|Hash |Seq Scan on (turns|derivations|memories|memory_[ev])"
)


async def test_what_is_asked_for_by_ids_is_looked_up_where_one_of_many_scopes_holds_most(
    postgres: TestDatabase,
) -> None:
    """Else all that one who has a hundred thousand memories has is read for a page: 80 MB of vectors for 200."""
    more = {
        "turns": "event_id session_id chain source_id",
        "derivations": "derived_id source_id",
        "memories": "memory_id content_key",
        "memory_versions": "memory_id",
        postgres.embeddings: "memory_id",
    }
    digests = "'\\x' || encode(sha256(n::text::bytea), 'hex')"
    found: dict[str, list[str]] = {}
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        scope_id = await made.write.scope_id(made.scope())
        for table, columns in more.items():
            new = (
                f"'{one}', {digests if one in ('chain', 'content_key') else 'md5(n::text)::uuid'}"
                for one in columns.split()
            )
            postgres.psql(
                f"""
                SET session_replication_role = replica;
                INSERT INTO {table}
                    SELECT (jsonb_populate_record(t, jsonb_build_object({", ".join(new)}, 'scope_id',
                        CASE WHEN n % 2 = 0 THEN t.scope_id ELSE t.scope_id + n END))).*
                    FROM {table} t, generate_series(1, 3000) n WHERE t.ctid = (SELECT ctid FROM {table} LIMIT 1);
                ANALYZE {table}
                """
            )
        ids = [
            UUID(one) for one in postgres.psql("SELECT md5(n::text)::uuid FROM generate_series(2, 400, 2) n").split()
        ]
        async with made.database.transaction(made.tenant, [scope_id], read_only=True) as tx:
            for name in BY_ID:
                query = made.database.queries[name].of_table(postgres.embeddings)
                of = {"int4[]": [1] * 200, "int8": 33, "uuid[]": [], "bytea[]": [one.bytes for one in ids]}
                of |= {"timestamptz[]": [T0] * 200, "timestamptz": T0}
                asked = [made.tenant, ids, *(of[kind] for kind in query.types[2:])]
                plan = await tx.fetch(replace(query, sql=f"EXPLAIN {query.sql}"), *asked)
                found[name] = [row[0] for row in plan]
    assert not [(name, line) for name, plan in found.items() for line in plan if OF_A_SCOPE.search(line)]
