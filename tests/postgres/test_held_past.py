"""An index of the past that is held says, whatever became of its memories, what one read anew says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.sharing import Sharing
from memory.model import IndexRow, Injections, Scope, ScopeVersion
from memory.read.hot import HotScope, HotScopes
from memory.read.index import Scored
from memory.read.items import Filter, IndexItem
from memory.stored import MemoryChange
from memory.telemetry import Metrics
from tests.postgres.seed import T0, Stores, exchange, key_of, vectors
from tests.postgres.test_erase import Bench, bench
from tests.postgres.test_facts import fact, say
from tests.postgres_fixture import DIM

__all__ = ["bench"]
DAY = timedelta(days=1)
THEN = T0 + timedelta(hours=1)
LATER = T0 + DAY
ASKED = vectors(1)[0]


@dataclass
class Asked:
    """The store, and what of it was read from which version on."""

    stores: Stores
    read: list[dict[int, int]] = field(default_factory=list)

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        return tuple(await self.stores.read.visible_scopes(scope))

    def index_rows(
        self,
        tenant: UUID,
        scope_ids: Sequence[int],
        *,
        after: Mapping[int, int] | None = None,
        as_of: datetime | None = None,
    ) -> AsyncIterator[list[IndexRow]]:
        self.read.append(dict(after or {}))
        return self.stores.read.index_rows(tenant, scope_ids, after=after, as_of=as_of)

    def injections(self, tenant: UUID, after: Mapping[int, int]) -> AsyncIterator[list[Injections]]:
        return self.stores.read.injections(tenant, after)


def hot_of(store: Asked) -> HotScopes:
    return HotScopes(store, dim=DIM, bytes_max=1 << 24, staleness_ms=0, metrics=Metrics())


def searched(hot: HotScope) -> list[Scored]:
    found = hot.index.search("where is it", ASKED, 100, now=LATER, where=Filter())
    return sorted(found, key=lambda one: one.item.memory_id)


async def known_then(held: HotScopes, store: Asked, scope: Scope) -> dict[UUID, IndexItem]:
    """What is known of the moment by an index that is held, which says no other than one that is read anew."""
    old = searched(await held.as_of(scope, THEN))
    anew = hot_of(Asked(store.stores))
    new = searched(await anew.as_of(scope, THEN))
    anew.close()
    assert [(one.item, one.score, one.parts) for one in old] == [(one.item, one.score, one.parts) for one in new]
    return {one.item.memory_id: one.item for one in old}


async def test_what_becomes_of_memories_is_followed_without_reading_the_others_again(bench: Bench) -> None:
    made, store = bench.stores, Asked(bench.stores)
    ada, records, held = made.scope(), bench.stores.records, hot_of(store)
    sharing = Sharing(made.database, made.scopes, AuditLog(made.database, key_of), bench.postgres.embeddings)
    texts = [f"the {colour} boat is at pier {pier}" for pier, colour in enumerate(("red", "blue", "green", "grey"))]
    commit = exchange(ada, "s", 0, texts)
    await made.write.commit(commit, now=T0)
    await say(made, fact("berlin"))
    red, blue, green, grey = (one.memory_id for one in commit.memories)
    (berlin,) = (await known_then(held, store, ada)).keys() - {red, blue, green, grey}

    async def texts_then() -> set[str]:
        return {item.content for item in (await known_then(held, store, ada)).values()}

    assert await texts_then() == {*texts, "The user lives in berlin."}
    await made.write.commit(exchange(ada, "s", 4, ("the white boat is new", "aye")), now=LATER)
    await say(made, fact("paris"), day=1)
    assert await texts_then() == {*texts, "The user lives in berlin."}, "what is said since is not known then"
    await records.delete_memory(ada, red, LATER)
    assert red in await known_then(held, store, ada), "hiding leaves its owner the past"
    change = MemoryChange(content="it is black", windows=((0, 11),), vectors=vectors(1))
    await records.patch_memory(ada, blue, 1, change, LATER)
    assert (await known_then(held, store, ada))[blue].content == texts[1]
    await records.patch_memory(ada, blue, 2, MemoryChange(expires_at=LATER + DAY, set_expires_at=True), LATER + DAY / 2)
    assert (await known_then(held, store, ada))[blue].expires_at == LATER + DAY
    await records.patch_memory(ada, green, 1, MemoryChange(validation_status="rejected"), LATER)
    assert green not in await known_then(held, store, ada)
    await records.patch_memory(ada, green, 2, MemoryChange(validation_status="confirmed"), LATER)
    assert green in await known_then(held, store, ada)
    await sharing.share(ada, grey, "project", actor="key-1", now=LATER)
    await known_then(held, store, ada)
    bench.postgres.psql(
        "UPDATE scope_versions SET version = version + 1; UPDATE memories m SET quarantined_at = now(), "
        "changed_version = (SELECT version FROM scope_versions v WHERE v.scope_id = m.scope_id) "
        f"WHERE memory_id = '{grey}'"
    )
    assert grey not in await known_then(held, store, ada)
    assert berlin in await known_then(held, store, ada)
    (own,) = store.read[0]
    assert [read[own] > 0 for read in store.read] == [False] + [True] * 8, "read whole once"
    held.close()


async def test_who_was_shown_a_copy_is_not_once_it_is_taken_back(bench: Bench) -> None:
    made, store = bench.stores, Asked(bench.stores)
    ada, bob, held = made.scope(), made.scope("bob"), hot_of(store)
    sharing = Sharing(made.database, made.scopes, AuditLog(made.database, key_of), bench.postgres.embeddings)
    commit = exchange(ada, "s", 0, ("the heron nests under the bridge",))
    await made.write.commit(commit, now=T0)
    await made.write.commit(exchange(bob, "t", 0, ("aye",)), now=T0)
    memory_id = commit.memories[0].memory_id
    assert len(await known_then(held, store, bob)) == 1
    await sharing.share(ada, memory_id, "project", actor="key-1", now=THEN)
    assert len(await known_then(held, store, bob)) == 2
    await sharing.unshare(ada, memory_id, "project", actor="key-1", now=LATER)
    assert len(await known_then(held, store, bob)) == 1
    held.close()


async def test_what_is_more_confidential_now_is_so_in_a_past_that_is_held(bench: Bench) -> None:
    made, store = bench.stores, Asked(bench.stores)
    ada, held = made.scope(), hot_of(store)
    commit = exchange(ada, "s", 0, ("the heron nests under the bridge", "aye", "it is the silver one"))
    await made.write.commit(commit, now=T0)
    assert {item.sensitivity for item in (await known_then(held, store, ada)).values()} == {"internal"}
    memory_id = commit.memories[0].memory_id
    await made.records.patch_memory(ada, memory_id, 1, MemoryChange(sensitivity="confidential"), LATER)
    assert (await known_then(held, store, ada))[memory_id].sensitivity == "confidential"
    held.close()


@pytest.mark.parametrize("heard", [False, True])
async def test_what_is_forgotten_is_in_no_past_that_is_held(bench: Bench, heard: bool) -> None:
    """Also where no announcement of it was heard: then its scope says that it is to be read anew."""
    made, store = bench.stores, Asked(bench.stores)
    ada, held = made.scope(), hot_of(store)
    await bench.commit(ada, "s")
    memories = await known_then(held, store, ada)
    forgotten = min(memories)
    assert held.holding(ada.tenant, [forgotten]) == 1, "a probe finds it"
    job = await bench.run(await bench.ask("memory", str(forgotten), ada))
    assert job.receipt["complete"]
    if heard:
        held.let_go(ada.tenant, [one.scope_id for one in await store.visible_scopes(ada)])
        assert held.holding(ada.tenant, list(memories)) == 0
    assert forgotten not in await known_then(held, store, ada)
    held.close()


async def test_who_asks_again_while_the_past_is_read_waits_for_that_reading(bench: Bench) -> None:
    made, store = bench.stores, Asked(bench.stores)
    ada, held = made.scope(), hot_of(store)
    await bench.commit(ada, "s")
    slow, opens = made.read.index_rows, asyncio.Event()

    async def waits(*args: Any, **more: Any) -> AsyncIterator[list[IndexRow]]:
        await opens.wait()
        async for rows in slow(*args, **more):
            yield rows

    made.read.index_rows = waits  # type: ignore[method-assign]
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await held.as_of(ada, THEN)
        assert held.is_read_on(ada, THEN)
    opens.set()
    for _ in range(3):
        assert len((await held.as_of(ada, THEN)).index) == 2
    assert len(store.read) == 1 and not held.is_read_on(ada, THEN)
    held.close()
