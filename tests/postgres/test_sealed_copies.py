"""What becomes confidential is nobody else's any more: its copies in other scopes are hidden and sealed with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from memory.adapters.postgres import sealing
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.checkpoint_store import CheckpointStore
from memory.adapters.postgres.sharing import Sharing
from memory.audit import noted
from memory.checkpoints import Checkpoint, NewCheckpoint
from memory.errors import Conflict
from memory.ids import new_id
from memory.model import Scope
from memory.shared import SharedTo
from memory.stored import MemoryChange
from tests.postgres.seed import SUBJECT, T0, digest, exchange, key_of, memory_of
from tests.postgres.test_checkpoints import words
from tests.postgres.test_sealed_rows import LATER, WORD, Vaulted, vault

__all__ = ["vault"]
SAID = f"I live on {WORD} street."
LEARNT = f"Lives on {WORD} street"
RAISED = MemoryChange(sensitivity="confidential")


@dataclass(frozen=True)
class Told:
    """A turn with its memory and a fact that was learnt of it, and what copies them."""

    vault: Vaulted
    sharing: Sharing
    checkpoints: CheckpointStore
    memory: UUID
    fact: UUID

    @property
    def scope(self) -> Scope:
        return self.vault.stores.scope()

    async def share(self, memory: UUID, to: SharedTo = "project") -> UUID:
        return (await self.sharing.share(self.scope, memory, to, actor="key-1", now=T0)).copy_id

    async def raise_it(self) -> None:
        await self.vault.stores.records.patch_memory(self.scope, self.memory, 1, RAISED, LATER)

    async def shown(self, user: str = "bob", project: str = "p", *, at: datetime | None = None) -> list[str]:
        """What an identity's index shows of the scopes it sees; `at`: as it was recorded then."""
        read = self.vault.stores.read
        scope = self.vault.stores.scope(user, project)
        ids = [one.scope_id for one in await read.visible_scopes(scope)]
        rows = [row async for page in read.index_rows(scope.tenant, ids, as_of=at) for row in page]
        return [row.content for row in rows if row.visible]

    async def copied(self, source: Scope, to: Scope, memory: UUID, text: str = LEARNT) -> Checkpoint:
        """A checkpoint of another project with one part, a copy of this memory."""
        part = replace(words("fact", text), copied_from=memory)
        note = noted(to.tenant, "test", "checkpoint.branch", at=T0)
        new = NewCheckpoint("n", None, (part,), 10)
        return await self.checkpoints.save(to, SUBJECT, new, now=T0, note=note, source=source)

    def labels(self, *memories: UUID) -> set[str]:
        """How these are labelled, and whether they are hidden."""
        wanted = ",".join(f"'{one}'" for one in memories)
        found = self.vault.postgres.psql(
            "SELECT v.sensitivity || ' ' || (m.deleted_at IS NOT NULL) FROM memories m JOIN memory_versions v"
            f" USING (tenant_id, memory_id) WHERE memory_id IN ({wanted})"
        )
        return set(found.splitlines())

    def feed(self, memory: UUID) -> list[str]:
        """What the feed of its scope says of it."""
        return self.vault.postgres.psql(f"SELECT event FROM outbox WHERE object_id = '{memory}' ORDER BY seq").split()


@pytest.fixture
async def told(vault: Vaulted) -> AsyncIterator[Told]:
    stores, table = vault.stores, vault.postgres.embeddings
    made = exchange(stores.scope(), "s", 0, (SAID,))
    windows = ((0, len(LEARNT)),)
    fact = memory_of(
        made.turns[0], memory_id=new_id(), kind="semantic", content=LEARNT, content_key=digest("f"), windows=windows
    )
    await stores.write.commit(replace(made, memories=(*made.memories, fact)), now=T0)
    audit = AuditLog(stores.database, key_of)
    sharing = Sharing(stores.database, stores.scopes, audit, table)
    checkpoints = CheckpointStore(stores.database, stores.scopes, table, audit)
    yield Told(vault, sharing, checkpoints, made.memories[0].memory_id, fact.memory_id)


async def test_a_copy_of_what_is_raised_with_its_turn_is_hidden_and_sealed(told: Told) -> None:
    copies = [await told.share(told.fact, "project"), await told.share(told.fact, "tenant")]
    assert await told.shown() == [LEARNT, LEARNT]
    await told.raise_it()
    assert await told.shown() == []
    assert told.labels(*copies) == {"confidential true"}
    assert WORD not in told.vault.raw()
    assert told.vault.postgres.psql(f"SELECT count(*) FROM {told.vault.postgres.embeddings}") == "0"
    assert [told.feed(one) for one in copies] == [["shared", "deleted"]] * 2


async def test_a_copy_of_what_is_raised_itself_is_sealed_too(told: Told) -> None:
    copy = await told.share(told.memory)
    await told.raise_it()
    assert await told.shown() == []
    assert told.labels(copy) == {"confidential true"} and told.feed(copy) == ["shared", "deleted"]
    assert WORD not in told.vault.raw()
    assert sorted(await told.shown("ada")) == [SAID, LEARNT], "its owner reads it as before"


async def test_what_is_confidential_now_was_shared_at_no_time(told: Told) -> None:
    await told.share(told.memory)
    await told.share(told.fact)
    moment = T0 + timedelta(minutes=1)
    assert sorted(await told.shown(at=moment)) == [SAID, LEARNT]
    await told.raise_it()
    assert await told.shown(at=moment) == []
    assert sorted(await told.shown("ada", at=moment)) == [SAID, LEARNT]


async def test_what_was_taken_back_before_is_sealed_and_not_told_again(told: Told) -> None:
    copy = await told.share(told.fact)
    await told.sharing.unshare(told.scope, told.fact, "project", actor="key-1", now=T0)
    await told.raise_it()
    assert told.labels(copy) == {"confidential true"}
    assert WORD not in told.vault.raw()
    assert told.feed(copy) == ["shared", "deleted"]


async def test_what_went_with_its_source_does_not_come_back_when_that_is_confidential(told: Told) -> None:
    copy = await told.share(told.fact)
    records = told.vault.stores.records
    await records.delete_memory(told.scope, told.fact, T0 + timedelta(minutes=1))
    await told.raise_it()
    await records.undelete_memory(told.scope, told.fact, LATER + timedelta(minutes=1))
    assert await told.shown() == []
    assert told.labels(copy) == {"confidential true"}
    assert sorted(await told.shown("ada")) == [SAID, LEARNT]


async def test_a_copy_that_was_left_open_before_is_found_by_raising_its_source_once_more(told: Told) -> None:
    copy = await told.share(told.fact)
    await told.raise_it()
    psql = told.vault.postgres.psql
    psql(f"UPDATE memories SET deleted_at = NULL WHERE memory_id = '{copy}'")
    psql(f"UPDATE memory_versions SET sensitivity = 'internal', content = '{LEARNT}' WHERE memory_id = '{copy}'")
    assert await told.shown() == [LEARNT]
    await told.vault.stores.records.patch_memory(told.scope, told.memory, 2, RAISED, LATER)
    assert await told.shown() == [] and WORD not in told.vault.raw()


async def test_what_is_raised_to_internal_keeps_the_copies_of_what_was_not(told: Told) -> None:
    await told.share(told.fact)
    change = MemoryChange(sensitivity="internal")
    await told.vault.stores.records.patch_memory(told.scope, told.memory, 1, change, LATER)
    assert await told.shown() == [LEARNT]


async def test_parts_of_checkpoints_in_other_projects_go_with_it_however_far_they_came(told: Told) -> None:
    second, third = told.vault.stores.scope(project="q"), told.vault.stores.scope(project="r")
    (near,) = (await told.copied(told.scope, second, told.fact)).parts
    (far,) = (await told.copied(second, third, near.memory_id)).parts
    (back,) = (await told.copied(third, told.scope, far.memory_id)).parts
    await told.raise_it()
    copies = (near.memory_id, far.memory_id, back.memory_id)
    assert told.labels(*copies) == {"confidential true"}
    assert [told.feed(one) for one in copies] == [["created", "deleted"]] * 3
    assert WORD not in told.vault.raw()
    assert (await told.checkpoints.one(third, "n")).parts[0].state == "hidden"


async def test_a_part_that_was_read_before_its_source_was_raised_is_not_copied(told: Told) -> None:
    second = told.vault.stores.scope(project="q")
    with pytest.raises(Conflict, match="changed"):
        await told.copied(told.scope, second, told.fact, "It said something else.")
    await told.raise_it()
    with pytest.raises(Conflict, match="changed"):
        await told.copied(told.scope, second, told.fact)
    assert WORD not in told.vault.raw()


async def test_a_part_that_is_being_copied_is_waited_for_and_raised(told: Told) -> None:
    second = told.vault.stores.scope(project="q")
    scope_id = await told.vault.stores.scopes.ensure(second)
    holder = await asyncpg.connect(told.vault.postgres.owner)

    async def waiting(count: int) -> None:
        while await holder.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < count:
            await asyncio.sleep(0.01)

    try:
        async with holder.transaction():  # the copy's own scope, which is locked behind its source
            await holder.execute("SELECT FROM scope_versions WHERE scope_id = $1 FOR UPDATE", scope_id)
            copying = asyncio.create_task(told.copied(told.scope, second, told.fact))
            await waiting(1)
            raising = asyncio.create_task(told.raise_it())
            await waiting(2)
    finally:
        await holder.close()
    made, _ = await asyncio.gather(copying, raising)
    assert told.labels(made.parts[0].memory_id) == {"confidential true"}
    assert WORD not in told.vault.raw()


async def test_a_shared_text_that_pretends_to_be_sealed_is_read_as_it_was_said(told: Told) -> None:
    forged = f"{sealing.MARK} is how the rows of a confidential memory begin."
    await told.vault.stores.records.patch_memory(told.scope, told.fact, 1, MemoryChange(content=forged), LATER)
    await told.share(told.fact)
    assert await told.shown() == [forged]
