"""Sharing as an act: who is shown a copy, what a copy is, and that it never outlives or outranks its source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.outbox import Feed
from memory.adapters.postgres.sharing import Sharing
from memory.audit import AuditFilter
from memory.errors import NotFound, Unprocessable
from memory.model import IndexRow, Scope
from memory.shared import Shared, SharedTo
from memory.stored import MemoryChange
from policies.labels import Integrity, Sensitivity
from tests.postgres.seed import T0, Stores, exchange, key_of, memory_of, stores
from tests.postgres.test_facts import fact, id_of, say
from tests.postgres_fixture import TestDatabase

SAID = "The staging cluster runs in Falkenberg."
NOW = T0 + timedelta(hours=1)


@dataclass(frozen=True)
class House:
    """A store in which ada has said something."""

    store: Stores
    sharing: Sharing
    audit: AuditLog
    postgres: TestDatabase
    memory: UUID

    async def share(self, to: SharedTo = "project", memory: UUID | None = None, scope: Scope | None = None) -> Shared:
        return await self.sharing.share(scope or self.store.scope(), memory or self.memory, to, actor="key-1", now=NOW)

    async def seen(self, *names: str, as_of: datetime | None = None) -> dict[UUID, IndexRow]:
        """What an identity's index holds."""
        scope = self.store.scope(*names)
        ids = [one.scope_id for one in await self.store.read.visible_scopes(scope)]
        rows = [row async for batch in self.store.read.index_rows(scope.tenant, ids, as_of=as_of) for row in batch]
        return {row.memory_id: row for row in rows if row.visible}

    async def shown(self, *names: str, as_of: datetime | None = None) -> list[str]:
        return [row.content for row in (await self.seen(*names, as_of=as_of)).values()]

    async def actions(self) -> list[str]:
        page = await self.audit.page(self.store.tenant, limit=100, where=AuditFilter(), oldest_first=True)
        return [row.action for row in page.rows]


@pytest.fixture
async def house(postgres: TestDatabase) -> AsyncIterator[House]:
    async with stores(postgres) as made:
        commit = exchange(made.scope(), "s", 0, (SAID,))
        await made.write.commit(commit, now=T0)
        audit = AuditLog(made.database, key_of)
        sharing = Sharing(made.database, made.scopes, audit, postgres.embeddings)
        yield House(made, sharing, audit, postgres, commit.memories[0].memory_id)


async def test_what_is_not_shared_is_shown_to_nobody_else(house: House) -> None:
    assert await house.shown("ada") == [SAID]
    assert await house.shown("bob") == []


async def test_a_project_share_is_shown_in_that_project_and_in_no_other(house: House) -> None:
    made = await house.share()
    assert await house.shown("bob", "p", "a") == [SAID]
    assert await house.shown("bob", "p", "another agent") == [SAID]
    assert await house.shown("bob", "q", "a") == []
    assert made.new
    assert made.copy_id != house.memory


async def test_a_tenant_share_is_shown_in_every_project_of_the_tenant_and_in_no_other_tenant(house: House) -> None:
    await house.share("tenant")
    assert await house.shown("bob", "q", "z") == [SAID]
    other = await house.store.keys.ensure_tenant("other", T0)
    assert await house.store.read.visible_scopes(Scope(other, "ada", "p", "a")) == ()


async def test_a_copy_is_a_document_with_the_labels_of_its_source_and_an_edge_to_it(house: House) -> None:
    made = await house.share()
    copy = (await house.seen("bob"))[made.copy_id]
    assert (copy.kind, copy.role, copy.integrity, copy.sensitivity) == ("document", "shared", "user", "internal")
    assert copy.attributes == {"shared": "project"}
    assert copy.windows == ((0, len(SAID)),)
    assert float((copy.vectors**2).sum()) == pytest.approx(1, abs=0.01)
    edge = house.postgres.psql(f"SELECT source_id, source_kind FROM derivations WHERE derived_id = '{made.copy_id}'")
    assert edge == f"{house.memory}|memory"


@pytest.mark.parametrize("label", [Integrity.TOOL, Integrity.WEB, Integrity.IMPORTED, Integrity.ASSISTANT])
async def test_sharing_never_raises_integrity(house: House, label: Integrity) -> None:
    commit = exchange(house.store.scope(), "t", 0, ("Fetched from somewhere.",))
    low = memory_of(commit.turns[0], integrity=label)
    await house.store.write.commit(exchange_with(commit, low), now=T0)
    made = await house.share(memory=low.memory_id)
    assert (await house.seen("bob"))[made.copy_id].integrity == label.value


def exchange_with(commit: Any, *memories: Any) -> Any:
    return type(commit)(**{**{name: getattr(commit, name) for name in commit.__slots__}, "memories": memories})


@pytest.mark.parametrize("label", [Sensitivity.CONFIDENTIAL, Sensitivity.SECRET])
async def test_what_is_confidential_or_above_cannot_be_shared(house: House, label: Sensitivity) -> None:
    commit = exchange(house.store.scope(), "t", 0, ("Quite private.",))
    high = memory_of(commit.turns[0], sensitivity=label)
    await house.store.write.commit(exchange_with(commit, high), now=T0)
    with pytest.raises(Unprocessable, match="confidential"):
        await house.share(memory=high.memory_id)
    assert await house.shown("bob") == []
    assert await house.actions() == []


@pytest.mark.parametrize(
    "state",
    ["quarantined_at = now()", "superseded_by = gen_random_uuid(), superseded_at = now()", "kind = 'summary'",
     "kind = 'working'", "collection = 'episode'", "kind = 'procedural'"],
)  # fmt: skip
async def test_what_recall_would_not_show_cannot_be_shared(house: House, state: str) -> None:
    house.postgres.psql(f"UPDATE memories SET {state}")
    with pytest.raises(Unprocessable):
        await house.share()
    assert await house.shown("bob") == []


async def test_what_is_hidden_expired_or_somebody_elses_is_not_found(house: House) -> None:
    for unknown in (uuid4(), UUID(int=0)):
        with pytest.raises(NotFound):
            await house.share(memory=unknown)
    await house.store.scopes.ensure(house.store.scope("eve"))
    for thief in ("eve", "nobody-yet"):
        with pytest.raises(NotFound):
            await house.share(scope=house.store.scope(thief))
    house.postgres.psql("UPDATE memory_versions SET expires_at = '2026-11-21 12:30+00'")
    with pytest.raises(NotFound):
        await house.share()
    await house.store.records.delete_memory(house.store.scope(), house.memory, NOW)
    with pytest.raises(NotFound):
        await house.share()


async def test_sharing_twice_is_one_copy_and_one_row_also_at_once(house: House) -> None:
    made = await asyncio.gather(*(house.share() for _ in range(5)))
    assert len({one.copy_id for one in made}) == 1
    assert sum(one.new for one in made) == 1
    assert await house.shown("bob") == [SAID]
    assert await house.actions() == ["share.project"]


async def test_unsharing_takes_the_copy_from_others_and_leaves_the_source(house: House) -> None:
    made = await house.share()
    await house.share("tenant")
    gone = await house.sharing.unshare(house.store.scope(), house.memory, "project", actor="key-1", now=NOW)
    assert gone == (made.copy_id,)
    assert await house.shown("bob") == [SAID], "the tenant still shares it"
    await house.sharing.unshare(house.store.scope(), house.memory, "tenant", actor="key-1", now=NOW)
    assert await house.shown("bob") == []
    assert await house.shown("ada") == [SAID]
    with pytest.raises(NotFound):
        await house.sharing.unshare(house.store.scope(), house.memory, "project", actor="key-1", now=NOW)
    assert await house.actions() == ["share.project", "share.tenant", "unshare.project", "unshare.tenant"]
    again = await house.share()
    assert again.new
    assert await house.shown("bob") == [SAID]


async def test_only_an_admin_takes_back_what_another_shared(house: House) -> None:
    made = await house.share()
    bob = house.store.scope("bob")
    for which in (made.copy_id, house.memory):
        with pytest.raises(NotFound):
            await house.sharing.unshare(bob, which, "project", actor="key-2", now=NOW)
    assert await house.sharing.unshare(bob, made.copy_id, "project", actor="key-3", now=NOW, admin=True) == (
        made.copy_id,
    )
    assert await house.shown("bob") == []


async def test_of_two_that_are_shared_the_one_that_is_named_is_taken_back(house: House) -> None:
    commit = exchange(house.store.scope(), "t", 0, ("The lunch is at noon.",))
    await house.store.write.commit(commit, now=T0)
    made = await house.share()
    other = await house.share(memory=commit.memories[0].memory_id)
    assert other.new and other.copy_id != made.copy_id
    gone = await house.sharing.unshare(house.store.scope(), house.memory, "project", actor="key-1", now=NOW)
    assert gone == (made.copy_id,)
    assert await house.shown("bob") == ["The lunch is at noon."]


async def test_who_sees_a_copy_cannot_share_it_on(house: House) -> None:
    made, bob = await house.share(), house.store.scope("bob")
    await house.store.scopes.ensure(bob)
    for to in ("project", "tenant"):
        with pytest.raises(NotFound):
            await house.share(to, memory=made.copy_id, scope=bob)
    assert await house.shown("bob") == [SAID]


async def test_what_is_shared_is_what_it_says_now(house: House) -> None:
    now = "The staging cluster runs in Dresden."
    await house.store.records.patch_memory(house.store.scope(), house.memory, 1, MemoryChange(content=now), NOW)
    made = await house.share()
    copy = (await house.seen("bob"))[made.copy_id]
    assert (copy.content, copy.version) == (now, 1)


@pytest.mark.parametrize(
    ("ends", "shown_until"),
    [(timedelta(hours=2), T0 + timedelta(hours=2)), (timedelta(days=-1), None), (None, None)],
    ids=["was to end", "of the past when it was said", "without an end"],
)
async def test_a_fact_that_was_to_end_is_shared_until_its_end(
    house: House, ends: timedelta | None, shown_until: datetime | None
) -> None:
    house.postgres.psql("UPDATE memories SET kind = 'semantic'")
    until = "NULL" if ends is None else f"'{(T0 + ends).isoformat()}'"
    house.postgres.psql(f"UPDATE memory_versions SET valid_to = {until}, occurred_at = '{T0.isoformat()}'")
    made = await house.share()
    assert (await house.seen("bob"))[made.copy_id].expires_at == shown_until


async def test_what_is_taken_back_while_its_source_is_hidden_does_not_come_back_with_it(house: House) -> None:
    made, scope = await house.share(), house.store.scope()
    await house.store.records.delete_memory(scope, house.memory, NOW)
    later = NOW + timedelta(minutes=1)
    assert await house.sharing.unshare(scope, house.memory, "project", actor="key-1", now=later) == (made.copy_id,)
    with pytest.raises(NotFound):
        await house.sharing.unshare(scope, house.memory, "project", actor="key-1", now=later)
    await house.store.records.undelete_memory(scope, house.memory, later)
    assert await house.shown("ada") == [SAID]
    assert await house.shown("bob") == []


async def test_hiding_the_source_takes_the_copies_and_showing_it_again_brings_them_back(house: House) -> None:
    await house.share()
    await house.share("tenant")
    await house.store.records.delete_memory(house.store.scope(), house.memory, NOW)
    assert await house.shown("bob") == []
    await house.store.records.undelete_memory(house.store.scope(), house.memory, NOW)
    assert await house.shown("bob") == [SAID, SAID]


async def test_what_was_unshared_does_not_come_back_with_its_source(house: House) -> None:
    await house.share()
    await house.sharing.unshare(house.store.scope(), house.memory, "project", actor="k", now=NOW)
    await house.store.records.delete_memory(house.store.scope(), house.memory, NOW + timedelta(minutes=1))
    await house.store.records.undelete_memory(house.store.scope(), house.memory, NOW + timedelta(minutes=2))
    assert await house.shown("bob") == []


@pytest.mark.parametrize(
    "change",
    [
        MemoryChange(content="The staging cluster runs in Dresden."),
        MemoryChange(sensitivity="confidential"),
        MemoryChange(validation_status="rejected"),
        MemoryChange(expires_at=NOW + timedelta(days=1), set_expires_at=True),
    ],
)
async def test_a_source_that_is_reworded_or_relabelled_takes_its_copies_back(
    house: House, change: MemoryChange
) -> None:
    await house.share()
    await house.store.records.patch_memory(house.store.scope(), house.memory, 1, change, NOW)
    assert await house.shown("bob") == []


async def test_a_source_that_is_only_pinned_or_weighed_keeps_its_copies(house: House) -> None:
    await house.share()
    await house.store.records.patch_memory(
        house.store.scope(), house.memory, 1, MemoryChange(pinned=True, importance=0.9), NOW
    )
    assert await house.shown("bob") == [SAID]


@pytest.mark.parametrize("state", ["quarantined_at = now()", "superseded_by = gen_random_uuid()"])
async def test_a_source_that_is_quarantined_or_superseded_takes_its_copies(house: House, state: str) -> None:
    await house.share()
    house.postgres.psql(f"UPDATE memories SET {state} WHERE memory_id = '{house.memory}'")
    assert await house.shown("bob") == []


async def test_a_share_of_a_fact_that_is_said_to_end_does_not_outlive_it(house: House) -> None:
    there = fact("lisbon", predicate="is_in", statement="The user is in Lisbon.")
    await say(house.store, there)
    await house.share(memory=await id_of(house.store, "lisbon"))
    await say(house.store, there, day=1)
    assert await house.shown("bob") == ["The user is in Lisbon."], "said again, and nothing more"
    end = T0 + timedelta(days=5)
    await say(house.store, replace(there, valid_to=end), day=2)
    assert end in [row.expires_at for row in (await house.seen("ada")).values()]
    assert await house.shown("bob") == []


THEN = NOW + timedelta(minutes=5)
LATER = NOW + timedelta(days=1)


async def test_what_was_unshared_is_shown_as_of_no_moment(house: House) -> None:
    await house.share()
    assert await house.shown("bob", as_of=THEN) == [SAID], "it is shared, and was then"
    assert await house.shown("bob", as_of=NOW - timedelta(minutes=1)) == [], "not yet"
    await house.sharing.unshare(house.store.scope(), house.memory, "project", actor="key-1", now=LATER)
    assert await house.shown("bob", as_of=THEN) == []
    assert await house.shown("ada", as_of=THEN) == [SAID], "one's own is there as it was"


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (MemoryChange(content="The staging cluster runs in Dresden."), [SAID]),
        (MemoryChange(sensitivity="confidential"), [SAID]),
        (MemoryChange(validation_status="rejected"), []),
    ],
)
async def test_a_share_whose_source_was_changed_is_shown_as_of_no_moment(
    house: House, change: MemoryChange, left: list[str]
) -> None:
    await house.share()
    await house.store.records.patch_memory(house.store.scope(), house.memory, 1, change, LATER)
    assert await house.shown("bob", as_of=THEN) == []
    assert await house.shown("ada", as_of=THEN) == left


async def test_a_share_whose_source_is_held_back_or_hidden_is_shown_as_of_no_moment(house: House) -> None:
    await house.share("tenant")
    await house.store.records.delete_memory(house.store.scope(), house.memory, LATER)
    assert await house.shown("bob", as_of=THEN) == []
    assert await house.shown("ada", as_of=THEN) == [SAID], "hiding leaves its owner the past"
    await house.store.records.undelete_memory(house.store.scope(), house.memory, LATER)
    assert await house.shown("bob", as_of=THEN) == [SAID]
    house.postgres.psql(f"UPDATE memories SET quarantined_at = now() WHERE memory_id = '{house.memory}'")
    assert await house.shown("bob", as_of=THEN) == []
    assert await house.shown("ada", as_of=THEN) == []


async def test_erasing_the_source_as_the_served_role_erases_the_copies(house: House) -> None:
    made = await house.share()
    await house.share("tenant")
    own = await house.store.scopes.ensure(house.store.scope())
    connection: Any = await asyncpg.connect(house.postgres.app)
    async with connection.transaction():
        await connection.fetch(
            "SELECT set_config('mp.tenant', $1, true), set_config('mp.scopes', $2, true)",
            str(house.store.tenant),
            f"{{{own}}}",
        )
        assert await connection.execute("DELETE FROM memories WHERE memory_id = $1", house.memory) == "DELETE 1"
        left = await connection.fetchval("SELECT current_setting('mp.scopes')")
        assert left == f"{{{own}}}", "what the transaction may see is as it was"
    await connection.close()
    for table in ("memories", "memory_versions", "derivations", "shares", house.postgres.embeddings):
        column = "derived_id" if table == "derivations" else "copy_id" if table == "shares" else "memory_id"
        found = house.postgres.psql(f"SELECT count(*) FROM {table} WHERE {column} = '{made.copy_id}'")
        assert found == "0", table
    assert SAID not in house.postgres.psql("SELECT coalesce(string_agg(content, ''), '') FROM memory_versions")
    visible = await house.store.read.visible_scopes(house.store.scope("bob"))
    assert all(one.rebuild_version == one.version for one in visible), "an index that holds it is built anew"


async def test_both_feeds_say_what_was_shared_and_what_went(house: House) -> None:
    made = await house.share()
    await house.store.records.delete_memory(house.store.scope(), house.memory, NOW)
    rows = house.postgres.psql(
        "SELECT o.event FROM outbox o JOIN scopes s USING (tenant_id, scope_id)"
        f" WHERE s.visibility = 'project' AND o.object_id = '{made.copy_id}' ORDER BY o.seq"
    )
    assert rows.split() == ["shared", "deleted"]
    own = await Feed(house.store.database, house.store.scopes).events(house.store.scope(), limit=100)
    assert "shared" in [row.what for row in own.rows]


async def test_a_share_is_seen_from_its_two_scopes_and_from_no_third(house: House) -> None:
    made = await house.share()
    scopes = {
        "own": await house.store.scopes.ensure(house.store.scope()),
        "third": await house.store.scopes.ensure(house.store.scope("eve")),
    }
    connection: Any = await asyncpg.connect(house.postgres.app)
    for name, wanted in (("own", 1), ("third", 0)):
        await connection.fetch(
            "SELECT set_config('mp.tenant', $1, false), set_config('mp.scopes', $2, false)",
            str(house.store.tenant),
            f"{{{scopes[name]}}}",
        )
        assert len(await connection.fetch("SELECT * FROM shares")) == wanted
        copies = await connection.fetch("SELECT * FROM memories WHERE memory_id = $1", made.copy_id)
        assert copies == [], "the copy itself lies in what the project shares"
    await connection.close()


async def test_shares_of_many_users_at_once_do_not_lose_one(house: House) -> None:
    users = [f"user-{n}" for n in range(8)]
    mine: dict[str, UUID] = {}
    for user in users:
        commit = exchange(house.store.scope(user), f"s-{user}", 0, (f"I am {user}.",))
        await house.store.write.commit(commit, now=T0)
        mine[user] = commit.memories[0].memory_id
    await asyncio.gather(*(house.share(memory=mine[user], scope=house.store.scope(user)) for user in users))
    await asyncio.gather(
        *(house.store.records.delete_memory(house.store.scope(user), mine[user], NOW) for user in users[:4])
    )
    assert sorted(await house.shown("bob")) == sorted(f"I am {user}." for user in users[4:])
