"""Artifacts in Postgres: what of a deleted file counts and stays while it can be brought back, and no longer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from memory.adapters.directory_blobs import DirectoryBlobs
from memory.adapters.postgres.artifact_store import ArtifactStore, BlobKeeper
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import Bounds, Database, Transaction
from memory.artifacts import GRACE, Artifact, Collected, Content, NewArtifact, Owner
from memory.audit import noted
from memory.envelope import DataKey
from memory.errors import Conflict, NotFound, StoreUnavailable, TooLarge
from memory.ids import new_id
from memory.model import NewMemory
from policies.labels import Integrity, Sensitivity
from policies.lifetime import UNDO
from tests.postgres.seed import SUBJECT, T0, Stores, exchange, key_of, stores
from tests.postgres_fixture import DIM, TestDatabase

KEY = DataKey(UUID(int=9), b"k" * 32)
ROOM = 10


async def kept(made: Stores, store: ArtifactStore, blobs: DirectoryBlobs, raw: bytes, days: int) -> Artifact:
    """A file, added so many days after T0."""
    scope, now = made.scope(), T0 + timedelta(days=days)
    owner = Owner(scope.tenant, SUBJECT, await store.scope_id(scope))
    async with blobs.writing(owner, KEY, b"n" * 32, 1_000) as writing:
        await writing.write(raw)
        blob = await writing.keep()
    card = NewMemory(
        memory_id=new_id(),
        kind="semantic",
        content="a file",
        content_key=b"",
        role="user",
        integrity=Integrity.USER,
        sensitivity=Sensitivity.INTERNAL,
        origin="artifact",
        importance=0.5,
        confidence=1.0,
        occurred_at=T0,
        extractor_version="test",
        source_turns=(),
        windows=((0, 6),),
        vectors=np.full((1, DIM), 0.05, np.float32),
        attributes={"artifact": {"name": "a"}},
    )
    new = NewArtifact(new_id(), owner, blob, Content("text/plain", len(raw), "0" * 64), card)
    note = noted(scope.tenant, "test", "artifact.add", at=now)
    return (await store.add(scope, new, None, bytes_max=ROOM, now=now, note=note))[0]


def marked(done: Sequence[Collected]) -> set[str]:
    return {name for one in done for name in one.marked}


async def test_a_deleted_file_counts_and_stays_as_long_as_it_can_be_brought_back(
    postgres: TestDatabase, tmp_path: Path
) -> None:
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        blobs = DirectoryBlobs(tmp_path)
        store = ArtifactStore(made.database, made.scopes, postgres.embeddings, AuditLog(made.database, key_of), blobs)
        keeper, scope = BlobKeeper(made.database, blobs), made.scope()
        note = noted(scope.tenant, "test", "artifact.delete", at=T0)
        first = await kept(made, store, blobs, b"12345678", 0)
        with pytest.raises(Conflict):
            await store.delete(scope, first.artifact_id, version=2, now=T0, note=note)
        await store.delete(scope, first.artifact_id, version=1, now=T0, note=note)
        with pytest.raises(TooLarge):
            await kept(made, store, blobs, b"another", UNDO.days)
        until, over = T0 + UNDO, T0 + UNDO + timedelta(seconds=1)
        assert first.blob not in marked(await keeper.collect(until)), "it may be brought back on the last day"
        assert first.blob in marked(await keeper.collect(over))
        await keeper.collect(over + GRACE)
        assert not await blobs.has(first.owner, first.blob)
        second = await kept(made, store, blobs, b"another", UNDO.days + 1)
        with pytest.raises(NotFound):
            await store.undelete(scope, first.artifact_id, now=over, note=note, may=lambda _: None)
        assert (await store.one(scope, second.artifact_id)).blob == second.blob


class BrokenBlobs(DirectoryBlobs):
    """A directory of which one owner's part cannot be read."""

    broken: UUID

    async def collect(
        self, owner: Owner, referenced: Collection[str], now: datetime, *, at_once: bool = False
    ) -> Collected:
        if owner.subject_id == self.broken:
            raise StoreUnavailable("the directory of artifacts cannot be used: Input/output error")
        return await super().collect(owner, referenced, now, at_once=at_once)


async def test_an_owner_whose_files_cannot_be_read_holds_up_nobody_elses(
    postgres: TestDatabase, tmp_path: Path
) -> None:
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        blobs, names = BrokenBlobs(tmp_path), []
        scope_id = await made.scopes.ensure(made.scope())
        for subject in (UUID(int=1), UUID(int=2)):
            async with blobs.writing(Owner(made.tenant, subject, scope_id), KEY, b"n" * 32, 1_000) as writing:
                await writing.write(b"unnamed")
                names.append((await writing.keep()).name)
        blobs.broken = UUID(int=1)
        keeper = BlobKeeper(made.database, blobs)
        for now in (T0, T0 + GRACE):
            with pytest.raises(StoreUnavailable):
                await keeper.collect(now)
        assert not await blobs.has(Owner(made.tenant, UUID(int=2), scope_id), names[1])
        assert await blobs.has(Owner(made.tenant, UUID(int=1), scope_id), names[0])


class SlowBlobs(DirectoryBlobs):
    """A service that takes its time to collect."""

    asked: asyncio.Event

    async def collect(
        self, owner: Owner, referenced: Collection[str], now: datetime, *, at_once: bool = False
    ) -> Collected:
        self.asked.set()
        await asyncio.sleep(1.5)
        return await super().collect(owner, referenced, now, at_once=at_once)


async def test_no_row_names_bytes_that_a_slow_removal_takes(
    postgres: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.adapters.postgres.artifact_store.AWAKE_S", 0.1)
    async with stores(postgres, Bounds(idle_in_transaction_ms=400)) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        blobs = SlowBlobs(tmp_path)
        blobs.asked = asyncio.Event()
        store = ArtifactStore(made.database, made.scopes, postgres.embeddings, AuditLog(made.database, key_of), blobs)
        keeper, scope = BlobKeeper(made.database, blobs), made.scope()
        first = await kept(made, store, blobs, b"12345678", 0)
        note = noted(scope.tenant, "test", "artifact.delete", at=T0)
        await store.delete(scope, first.artifact_id, now=T0, note=note)
        over = T0 + UNDO + timedelta(seconds=1)
        removing = asyncio.ensure_future(anext(keeper.forget(scope.tenant, [first.owner.scope_id], over)))
        await blobs.asked.wait()
        await asyncio.sleep(0.8)
        with pytest.raises(StoreUnavailable, match="send it again"):
            await kept(made, store, blobs, b"12345678", UNDO.days + 1)
        assert await removing == 1
        again = await kept(made, store, blobs, b"12345678", UNDO.days + 1)
        assert await blobs.has(again.owner, again.blob)


@dataclass
class Unheard:
    """A database that is lost at the end of a transaction."""

    inner: Database

    @asynccontextmanager
    async def transaction(self, tenant: UUID | None, scope_ids: Iterable[int] = ()) -> AsyncIterator[Transaction]:
        async with self.inner.transaction(tenant, scope_ids) as tx:
            yield tx
        raise StoreUnavailable("connection lost")


async def test_files_that_are_gone_are_told_though_the_store_goes_a_moment_later(
    postgres: TestDatabase, tmp_path: Path
) -> None:
    """Who comes again finds none of them, and a receipt would say that there were none."""
    async with stores(postgres) as made:
        owner, blobs = Owner(made.tenant, SUBJECT, await made.scopes.ensure(made.scope())), DirectoryBlobs(tmp_path)
        async with blobs.writing(owner, KEY, b"n" * 32, 1_000) as writing:
            await writing.write(b"unnamed")
            await writing.keep()
        unheard: Any = Unheard(made.database)
        gone = BlobKeeper(unheard, blobs).forget(owner.tenant_id, [owner.scope_id], T0)
        assert [files async for files in gone] == [1]


class BlockedBlobs(DirectoryBlobs):
    """A disk that takes its time to collect, in a thread that nobody can end."""

    begun, goes_on = threading.Event(), threading.Event()

    def _collect(self, owner: Owner, referenced: frozenset[str], now: datetime, at_once: bool) -> Collected:
        self.begun.set()
        self.goes_on.wait(30)
        return super()._collect(owner, referenced, now, at_once)


async def test_no_row_names_bytes_that_a_removal_takes_whose_worker_is_ended(
    postgres: TestDatabase, tmp_path: Path
) -> None:
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "s", 0), now=T0)
        blobs = BlockedBlobs(tmp_path)
        store = ArtifactStore(made.database, made.scopes, postgres.embeddings, AuditLog(made.database, key_of), blobs)
        keeper, scope = BlobKeeper(made.database, blobs), made.scope()
        first = await kept(made, store, blobs, b"12345678", 0)
        note = noted(scope.tenant, "test", "artifact.delete", at=T0)
        await store.delete(scope, first.artifact_id, now=T0, note=note)
        over = T0 + UNDO + timedelta(seconds=1)
        removing = asyncio.ensure_future(anext(keeper.forget(scope.tenant, [first.owner.scope_id], over)))
        assert await asyncio.to_thread(blobs.begun.wait, 10)
        removing.cancel()
        adding = asyncio.create_task(kept(made, store, blobs, b"12345678", UNDO.days + 1))
        await asyncio.wait([adding], timeout=1)
        blobs.goes_on.set()
        await asyncio.wait([adding, removing])
        with pytest.raises(StoreUnavailable, match="send it again"):
            again = await adding
            assert await blobs.has(again.owner, again.blob), "kept, and its bytes are gone"
        assert removing.cancelled()
