"""Erasure in the store: killed after any step it is finished by who comes next; tombstones are their user's own."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from memory import payload
from memory.adapters.directory_blobs import DirectoryBlobs
from memory.adapters.postgres import ahead, batch, erase_jobs, erase_store
from memory.adapters.postgres import facts as fact_store
from memory.adapters.postgres.artifact_store import BlobKeeper
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.blocks import CLOCKS_APART_MAX, placed_since, some_of
from memory.adapters.postgres.checkpoint_store import CheckpointStore
from memory.adapters.postgres.database import Database, NoKeys, Transaction
from memory.adapters.postgres.document_store import DocumentStore
from memory.adapters.postgres.erase_anew import AnewStore
from memory.adapters.postgres.erase_jobs import JOB
from memory.adapters.postgres.erase_probe import DatabaseProbe
from memory.adapters.postgres.erase_store import EraseStore
from memory.adapters.postgres.extraction_store import ExtractionStore
from memory.adapters.postgres.leadership import Leadership
from memory.adapters.postgres.own_memory import add_own_memory
from memory.adapters.postgres.queries import Query, load_queries
from memory.adapters.postgres.rows import Place
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.sharing import Sharing
from memory.adapters.redis_erase import RedisErase
from memory.adapters.redis_hot import RedisHot
from memory.adapters.redis_queue import RedisQueue, lane_names
from memory.adapters.spool import Spool
from memory.adapters.spool import count as spooled
from memory.audit import noted
from memory.chain import Digest
from memory.checkpoints import NewCheckpoint
from memory.documents import FileFacts, Upload
from memory.envelope import Binding, seal
from memory.erasure import asking, journal, loop
from memory.erasure.anew import Anew
from memory.erasure.asking import Asking
from memory.erasure.job import EraseParts, Erasing
from memory.erasure.learning import Learning
from memory.erasure.model import Named, Plan, Target
from memory.erasure.reapply import reapply
from memory.erasure.receipt import is_genuine, public_key
from memory.erasure.wanted import Together, Wanted
from memory.errors import Conflict, LeaseLost, QueueUnavailable, StoreRefused, StoreUnavailable
from memory.ids import new_id
from memory.keys import KeyRing
from memory.model import (
    Captured,
    Commit,
    ImportChunk,
    ImportLine,
    LedgerNode,
    NewMemory,
    Placed,
    Scope,
    SealedToken,
    SessionRef,
    Unless,
)
from memory.ports import Entry as PortEntry
from memory.read.conversation import CUT, WITHDRAWN, scope_key
from memory.read.working import Known
from memory.stored import MemoryChange, StoredTurn
from memory.telemetry import Metrics
from memory.write.facts import facts_of, spoken
from memory.write.procedures import procedures_of
from memory.write.summarise import DueSummary, Summariser, summary_of
from memory.write.tombstones import digests_of, given_of
from tests.postgres.seed import (
    LANE,
    SUBJECT,
    T0,
    Stores,
    Words,
    chunk,
    exchange,
    key_of,
    memory_of,
    retrieval,
    session_of,
    stores,
    turn,
    vectors,
)
from tests.postgres.test_checkpoints import words
from tests.postgres.test_facts import fact, new_fact
from tests.postgres_fixture import TestDatabase
from tests.valkey_fixture import ValkeyServer
from tests.waiting import until

WORDS = (
    "the silver heron nests under the railway bridge in Radovljica",
    "herons like bridges near slow rivers very much",
)
PLACES = count(10)
STEPS = ("mark", "delete", "advance:deleted", "advance:rebuilt", "shred", "rotate_salt", "advance:shredded", "end")


class Killed(Exception):
    """The process is gone."""


class Dying(EraseStore):
    """A store whose process is killed as soon as one step is done."""

    dies_after = ""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name == "dies_after":
            return found
        wanted = super().__getattribute__("dies_after").partition(":")
        if name != wanted[0]:
            return found

        async def done_and_gone(*args: Any, **keywords: Any) -> Any:
            result = await found(*args, **keywords)
            if not wanted[2] or wanted[2] in args:
                raise Killed
            return result

        return done_and_gone


@dataclass
class Bench:
    """Everything an erasure needs, on real parts."""

    stores: Stores
    postgres: TestDatabase
    parts: EraseParts
    asking: Asking
    leader: Leadership

    async def ask(self, kind: Any, value: str, scope: Scope) -> UUID:
        return await self.asking.ask(Target(kind, value, scope), datetime.now(UTC))

    async def run(self, erasure_id: UUID) -> Any:
        fence = await self.leader.lead(60)
        assert fence is not None
        return await Erasing(self.parts).run(self.stores.tenant, erasure_id, fence)

    async def commit(
        self, scope: Scope, session: str, texts: tuple[str, ...] = WORDS, *, at: int = 0, **more: Any
    ) -> Any:
        one = exchange(scope, session, at, texts)
        key = await self.parts.keys.content_key(scope.tenant)
        arrived = more.get("arrived_at")
        if arrived is not None:
            turns = tuple(replace(turn, occurred_at=arrived) for turn in one.turns)
            one = replace(one, exchange=replace(one.exchange, arrived_at=arrived), turns=turns)
        digests = digests_of(key, scope, [session], one.turns)
        return await self.stores.write.commit(one, now=arrived or T0, digests=digests)

    async def commit_given(self, scope: Scope, one: Commit, sent: int = 1) -> Any:
        """An exchange whose first `sent` turns were the request's, the rest what the model said."""
        key = await self.parts.keys.content_key(scope.tenant)
        assert one.retrieval is not None
        given = given_of(key, one.retrieval.record, [turn.chain for turn in one.turns[:sent]], one.turns)
        digests = replace(digests_of(key, scope, [one.session.label], one.turns), given=given)
        return await self.stores.write.commit(one, now=T0, digests=digests)


@pytest.fixture
async def bench(postgres: TestDatabase, valkey: ValkeyServer, tmp_path: Path) -> AsyncIterator[Bench]:
    async with stores(postgres) as made:
        keys = KeyRing(made.keys, os.urandom(32))
        store = EraseStore(made.database, postgres.embeddings)
        redis = RedisErase(valkey.url, valkey.url)
        parts = EraseParts(
            store=store,
            probe=DatabaseProbe(made.database),
            redis=redis,
            keys=keys,
            anew=None,
            clock=lambda: datetime.now(UTC),
            metrics=Metrics(),
            staleness_s=0.05,
            salt_rotation_min_s=3600,
            journal=tmp_path / "erasures.ndjson",
            spool=tmp_path / "spool",
            spooled=partial(spooled, tmp_path / "spool"),
            files=BlobKeeper(made.database, DirectoryBlobs(tmp_path / "artifacts")),
        )
        await keys.subject_key(made.tenant, "ada")
        yield Bench(made, postgres, parts, Asking(store, keys), Leadership(made.database, JOB, "tester"))
        await redis.close()


def rows(bench: Bench, table: str) -> int:
    return int(bench.postgres.psql(f"SELECT count(*) FROM {table}"))


async def test_a_scope_lists_the_erasures_asked_for_in_it_by_pages(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    asked = [await bench.ask("session", f"s{n}", eve if n == 2 else ada) for n in range(6)]
    await bench.run(asked[0])
    monkeypatch.setattr(asking, "LOOKS_AT", 3)

    async def all_of(scope: Scope | None, limit: int) -> list[UUID]:
        found: list[Any] = []
        before: UUID | None = None
        while (page := await bench.asking.listed(bench.stores.tenant, scope, before, limit)).next_cursor:
            found += page.rows
            before = UUID(page.next_cursor)
        return [one.erasure_id for one in (*found, *page.rows)]

    mine = [asked[n] for n in (5, 4, 3, 1, 0)]
    for limit in (1, 2, 50):
        assert await all_of(ada, limit) == mine
        assert await all_of(None, limit) == asked[::-1]
    assert await all_of(eve, 1) == [asked[2]] and await all_of(bench.stores.scope("zoe"), 1) == []
    first = (await bench.asking.listed(bench.stores.tenant, ada, asked[1], 9)).rows[0]
    assert (first.kind, first.step, first.complete) == ("session", "ended", True)


async def test_a_user_leaves_nothing_and_another_everything(bench: Bench) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    await bench.commit(ada, "s")
    await bench.commit(
        eve, "s", ("what eve says is quite another matter altogether", "and so is the answer to it here")
    )
    kept = bench.postgres.psql("SELECT memory_id, content FROM memory_versions ORDER BY 1 OFFSET 0")
    job = await bench.run(await bench.ask("user", "ada", ada))
    receipt = job.receipt
    assert receipt["complete"], receipt
    assert is_genuine(receipt, public_key(await bench.parts.keys.receipt_seed()))
    assert not is_genuine({**receipt, "counts": {}}, receipt["key"])
    assert not is_genuine(receipt, public_key(b"x" * 32))
    left = bench.postgres.psql("SELECT memory_id, content FROM memory_versions ORDER BY 1")
    assert left and set(left.splitlines()) < set(kept.splitlines())
    assert bench.postgres.psql("SELECT user_name FROM scopes") == "eve"
    assert (
        bench.postgres.psql("SELECT count(*) FROM data_keys WHERE shredded_at IS NOT NULL AND wrapped IS NULL") == "1"
    )
    assert job.target is None and rows(bench, "erasure_items") == 0
    assert "heron" not in str(receipt) and "'ada'" not in str(receipt)  # hex may spell her name


def test_what_was_made_of_a_turn_is_looked_for_by_the_turn_however_many_scopes_are_seen(postgres: TestDatabase) -> None:
    """Of 50,000 users with 8 edges each, all edges were gone through for the forgetting of one memory."""
    postgres.psql(
        f"INSERT INTO derivations SELECT '{UUID(int=1)}', gen_random_uuid(), 'memory', gen_random_uuid(), 'turn', 0, n "
        "FROM generate_series(1, 5000) n; ANALYZE derivations"
    )
    plan = postgres.psql(
        f"SET mp.tenant = '{UUID(int=1)}'; SET mp.scopes = '{{{','.join(map(str, range(1, 5001)))}}}'; "
        f"SET ROLE mp_app; EXPLAIN (GENERIC_PLAN) {load_queries()['made_of'].sql}"
    )
    assert "derivations_of_source" in plan
    assert "derivations_of_scope" not in plan, plan


async def test_the_audit_log_names_what_was_asked_for_and_nothing_is_that_it_does_not_name(bench: Bench) -> None:
    ada, audit = bench.stores.scope("ada"), AuditLog(bench.stores.database, bench.parts.keys.audit_key)
    note = noted(ada.tenant, "open", "forget", why="user", names={"user": "ada"})
    for table in ("erasures", "audit_log"):
        bench.postgres.psql(f"REVOKE INSERT ON {table} FROM mp_app")
        with pytest.raises(StoreUnavailable):
            await bench.asking.ask(Target("user", "ada", ada), datetime.now(UTC), await audit.witness(note))
        assert rows(bench, "audit_log") == rows(bench, "erasures") == 0
        bench.postgres.psql(f"GRANT INSERT ON {table} TO mp_app")
    await bench.asking.ask(Target("user", "ada", ada), datetime.now(UTC), await audit.witness(note))
    assert rows(bench, "audit_log") == rows(bench, "erasures") == 1


@pytest.mark.parametrize("waits", [True, False])
async def test_a_document_goes_with_its_last_chunk_unless_its_next_version_waits(bench: Bench, waits: bool) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    store = DocumentStore(bench.stores.database, bench.stores.scopes, bench.postgres.embeddings)
    facts = FileFacts("text/plain", bytes(32), 9, 9, 0, "user", "internal")
    upload = Upload(new_id(), SUBJECT, "notes.md", facts, "auto", None, None, b"sealed")
    note = noted(ada.tenant, "open", "document.upload", at=T0)
    await store.stage(ada, upload, waiting_max=9, now=T0, note=note)
    memory = bench.postgres.psql("UPDATE memories SET kind = 'document' RETURNING memory_id").split()[0]
    bench.postgres.psql(
        "UPDATE documents SET version = 1; INSERT INTO document_chunks "
        f"SELECT tenant_id, document_id, 0, scope_id, '{memory}', 0, 9 FROM documents"
    )
    if not waits:
        bench.postgres.psql("UPDATE document_uploads SET sealed = NULL, status = 'done'")
    assert (await bench.run(await bench.ask("memory", memory, ada))).receipt["complete"]
    left = bench.postgres.psql(
        "SELECT count(d), count(u.sealed) FROM documents d LEFT JOIN document_uploads u USING (document_id)"
    )
    assert left == ("1|1" if waits else "0|0")
    assert rows(bench, "document_chunks") == 0


@pytest.mark.parametrize("kind", ["memory", "query", "source_id", "session"])
async def test_what_is_named_is_looked_for_in_the_callers_own_scope_and_nothing_beside_it_is_meant(
    bench: Bench, kind: Any
) -> None:
    made: dict[str, Commit] = {}
    for name, session, source in (("eve", "s", "1"), ("eve", "hers", "3"), ("ada", "other", "2"), ("ada", "s", "1")):
        one = exchange(bench.stores.scope(name), session, 0, WORDS)
        made[name + session] = replace(one, turns=(replace(one.turns[0], source_id=source), *one.turns[1:]))
        await bench.stores.write.commit(made[name + session], now=T0)
    own, hers, ada = made["adas"], made["evehers"], bench.stores.scope("ada")

    async def meant(memory: UUID, source: str, session: str) -> Plan:
        value = {"memory": str(memory), "query": "herons", "source_id": source, "session": session}[kind]
        found = (memory,) if kind == "query" else ()
        return await bench.parts.store.plan(Target(kind, value, ada, memory_ids=found))

    plan = await meant(own.memories[0].memory_id, "1", "s")
    assert plan.touched == [await bench.stores.scopes.ensure(ada)]
    assert set(plan.sessions) == ({own.session.session_id} if kind == "session" else set())
    assert set(plan.turns) == (set() if kind == "session" else {own.turns[0].event_id})
    assert set(plan.memories) == ({own.memories[0].memory_id} if kind in ("memory", "query") else set())
    assert await meant(hers.memories[0].memory_id, "3", "hers") == Plan()


async def test_a_turn_without_a_source_id_is_forgotten_by_its_id_which_stands_in_its_place(bench: Bench) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    said, hers = exchange(ada, "s", 0, WORDS), exchange(eve, "s", 0, WORDS)
    for one in (said, hers):
        await bench.stores.write.commit(one, now=T0)
    (shown,) = (await bench.stores.records.memory(ada, said.memories[0].memory_id)).source_ids
    for foreign in (str(hers.turns[0].event_id), str(said.exchange.exchange_id)):
        assert await bench.parts.store.plan(Target("source_id", foreign, ada)) == Plan()
    assert (await bench.run(await bench.ask("source_id", shown, ada))).receipt["counts"]["turns"] == 1
    left = await bench.stores.records.session_turns(ada, said.session.session_id, limit=9)
    assert [one.event_id for one in left.rows] == [one.event_id for one in said.turns[1:]]


async def test_what_one_erasure_has_done_is_done_for_no_other(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    one = exchange(ada, "t", 0, ("they met in Bled", "so they say"))
    await bench.stores.write.commit(one, now=T0)
    first = await bench.ask("session", "s", ada)
    target = Target("query", "Bled", ada, memory_ids=tuple(memory.memory_id for memory in one.memories))
    others = [await bench.asking.ask(target, datetime.now(UTC)) for _ in range(2)]
    dying = Dying(bench.stores.database, bench.postgres.embeddings)
    dying.dies_after = "mark"
    fence = await bench.leader.lead(60)
    assert fence is not None
    for other in others:
        with pytest.raises(Killed):
            await Erasing(replace(bench.parts, store=dying)).run(bench.stores.tenant, other, fence)
    before = [await bench.parts.store.get(bench.stores.tenant, other) for other in others]
    await bench.run(first)
    assert [await bench.parts.store.get(bench.stores.tenant, other) for other in others] == before
    items = "SELECT erasure_id, kind, item FROM erasure_items ORDER BY 1, 2, 3"
    left = bench.postgres.psql(items).splitlines()
    assert len(left) == 8, "two memories and two turns, twice"
    assert before[0] is not None
    done = next(line for line in left if line.startswith(str(before[0].erasure_id)))
    await bench.parts.store.item_done(before[0], *done.split("|")[1:])
    assert bench.postgres.psql(items).splitlines() == [line for line in left if line != done]
    for other in others:
        assert (await bench.run(other)).receipt["complete"]
    assert rows(bench, "erasure_items") == 0


@pytest.mark.parametrize("step", STEPS)
async def test_killed_after_any_step_the_next_one_finishes(bench: Bench, step: str) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await bench.ask("user", "ada", ada)
    dying = Dying(bench.stores.database, bench.postgres.embeddings)
    dying.dies_after = step
    fence = await bench.leader.lead(60)
    assert fence is not None
    with pytest.raises(Killed):
        await Erasing(replace(bench.parts, store=dying)).run(bench.stores.tenant, erasure_id, fence)
    job = await bench.run(erasure_id)
    assert job.finished_at is not None and job.receipt["complete"], job.receipt
    assert job.receipt["counts"].items() >= {"keys_shredded": 1, "cache_salt_rotated": 1}.items(), job.receipt
    counted = bench.parts.metrics.erasures.labels("complete")._value.get()
    assert counted == (step != "end"), "once, but by who dies right behind the end not at all"
    assert rows(bench, "turns") == rows(bench, "memories") == rows(bench, "erasure_items") == 0
    assert (
        bench.postgres.psql("SELECT count(*) FROM data_keys WHERE subject_id IS NOT NULL AND wrapped IS NOT NULL")
        == "0"
    )


class Files:
    """Three files, which are gone once they were taken away."""

    left = 3

    async def forget(self, *_: Any) -> AsyncIterator[int]:
        gone, self.left = self.left, 0
        yield gone


async def test_what_was_taken_away_before_a_kill_is_in_the_receipt(
    bench: Bench, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while the processes are being told, which lasts; of what lies outside the database nothing is left."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    queue = RedisQueue(valkey.url)
    await queue.prepare()
    await queue.put(await queued(bench, ada, ()))
    await queue.close()
    erasure_id, erasing = await bench.ask("user", "ada", ada), Erasing(replace(bench.parts, files=Files()))
    tell, fence = Erasing._tell, await bench.leader.lead(60)
    assert fence is not None

    async def told(self: Erasing, word: Any, known: Any) -> int:
        if word.turn == 2:
            raise Killed
        return await tell(self, word, known)

    monkeypatch.setattr(Erasing, "_tell", told)
    with pytest.raises(Killed):
        await erasing.run(bench.stores.tenant, erasure_id, fence)
    monkeypatch.undo()
    job = await erasing.run(bench.stores.tenant, erasure_id, fence)
    assert job is not None and job.receipt is not None
    assert job.receipt["counts"].items() >= {"files": 3, "queue_entries": 1}.items(), job.receipt


async def test_what_came_behind_the_asking_is_stored_before_its_key_goes(bench: Bench, valkey: ValkeyServer) -> None:
    """It was sealed by a process that had not heard yet; it became a dead letter that nobody could open."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await bench.ask("user", "ada", ada)
    queue = RedisQueue(valkey.url, lanes=1)
    await queue.prepare()
    await queue.put(await queued(bench, ada, (), arrived_at=datetime.now(UTC) + timedelta(seconds=1)))
    erasing = asyncio.create_task(bench.run(erasure_id))
    while (job := await bench.asking.job(ada.tenant, erasure_id)) is None or job.step in ("asked", "marked", "deleted"):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)  # as a worker does that has much to do
    shredded = bench.postgres.psql("SELECT count(*) FROM data_keys WHERE shredded_at IS NOT NULL")
    for came in await queue.take(lane_names(1), count=9, block_ms=0):
        await queue.done(came)
    receipt = (await erasing).receipt
    assert shredded == "0"
    await queue.close()
    assert receipt["complete"], receipt
    assert receipt["counts"].items() >= {"keys_shredded": 1}.items()
    assert "queue_entries" not in receipt["counts"]


async def test_what_came_behind_the_asking_and_waits_in_a_spool_is_stored_before_its_key_goes(bench: Bench) -> None:
    """As where the queue is slow: what was drained of it before, and what is of others, is not waited for."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await bench.ask("user", "ada", ada)
    bench.parts.spool.mkdir()
    spool = Spool(bench.parts.spool / f"{new_id()}.spool", 1 << 20)
    for scope in (ada, ada, bench.stores.scope("bob")):
        await spool.append(await queued(bench, scope, (), arrived_at=datetime.now(UTC) + timedelta(seconds=1)))
    await spool.drained(1)
    erasing = asyncio.create_task(bench.run(erasure_id))
    while (job := await bench.asking.job(ada.tenant, erasure_id)) is None or job.step in ("asked", "marked", "deleted"):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)  # as a queue does that has much to do
    shredded = bench.postgres.psql("SELECT count(*) FROM data_keys WHERE shredded_at IS NOT NULL")
    await spool.drained(1)
    receipt = (await erasing).receipt
    await spool.close()
    assert shredded == "0"
    assert receipt["counts"].items() >= {"keys_shredded": 1}.items()


async def test_what_lies_in_a_spool_under_a_shredded_key_is_a_trace(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where nobody takes it to the queue in time. The probe read the file and did not know it for a sealed entry."""
    monkeypatch.setattr("memory.erasure.job.SETTLED_WITHIN_S", 1.0)
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    bench.parts.spool.mkdir()
    spool = Spool(bench.parts.spool / f"{new_id()}.spool", 1 << 20)
    for scope in (ada, bench.stores.scope("bob")):
        await spool.append(await queued(bench, scope, ()))
    receipt = (await bench.run(await bench.ask("user", "ada", ada))).receipt
    await spool.close()
    assert receipt["probe"]["found"] == {"spool": 1}
    assert not receipt["complete"]


class Stumbles:
    """A part of an erasure whose first call of this name meets a fault."""

    def __init__(self, part: Any, name: str, fault: Exception) -> None:
        self._part, self._name, self._faults = part, name, [fault]

    def __getattr__(self, name: str) -> Any:
        if name == self._name and self._faults:
            raise self._faults.pop()
        return getattr(self._part, name)


async def test_a_receipt_counts_what_had_gone_when_a_fault_broke_it_off(bench: Bench, valkey: ValkeyServer) -> None:
    ada, left = bench.stores.scope("ada"), [2, None, 1]
    await bench.commit(ada, "s")
    session = (await bench.stores.records.session(ada, "s")).session_id
    hot = RedisHot(valkey.url, timeout_ms=2000, keep_timeout_ms=2000)
    key = scope_key(await bench.parts.keys.chain_key(ada.tenant), ada)
    await hot.keep_working(ada, key, session, Known(1, 1), b"about", 60)
    await hot.close()

    class Files:
        async def forget(self, *_: Any) -> AsyncIterator[int]:
            while left:  # two owners', and what the second's rest in is away for a moment
                if (files := left.pop(0)) is None:
                    raise StoreUnavailable("away")
                yield files

    queue = RedisQueue(valkey.url)
    await queue.prepare()
    await queue.put(await queued(bench, ada, ()))
    await queue.close()
    whole = replace(bench.parts, files=Files())
    erasure_id = await bench.ask("user", "ada", ada)
    bench.parts = replace(whole, redis=Stumbles(whole.redis, "drop_hot", QueueUnavailable("away")))
    with pytest.raises(QueueUnavailable):  # the cache, behind the queue
        await bench.run(erasure_id)
    bench.parts = replace(whole, store=Stumbles(whole.store, "delete", StoreUnavailable("away")))
    with pytest.raises(StoreUnavailable):
        await bench.run(erasure_id)
    bench.parts = whole
    with pytest.raises(StoreUnavailable):  # between the files of one owner and those of the next
        await bench.run(erasure_id)
    bench.parts = replace(whole, redis=Stumbles(whole.redis, "announce", QueueUnavailable("away")))
    with pytest.raises(QueueUnavailable):  # behind the deletion: every process is told to let go
        await bench.run(erasure_id)
    bench.parts = whole
    counts = (await bench.run(erasure_id)).receipt["counts"]
    assert (counts["redis_keys"], counts["files"], counts["keys_shredded"], counts["queue_entries"]) == (1, 3, 1, 1)


async def summed(bench: Bench, summariser: Summariser, scope: Scope, session: SessionRef) -> DueSummary:
    """The summary that is due, with vectors."""
    due = await summariser.due(scope, session)
    assert due is not None
    return replace(due, memory=replace(due.memory, windows=((0, 4),), vectors=vectors(1)))


def anew_of(bench: Bench) -> Anew:
    """What makes facts again, by rules."""
    database, table = bench.stores.database, bench.postgres.embeddings

    def clock() -> datetime:
        return T0 + timedelta(days=9)

    learning = Learning(facts_of, lambda turns: procedures_of(turns, "taught"), Words(), Words(), {}, clock)

    async def no_summary(*_: Any) -> None:
        return None

    return Anew(
        store=EraseStore(database, table), left=AnewStore(database, table), summaries=bench.stores.write,
        sum_up=no_summary, facts=learning.facts, procedures=learning.procedures,
        subject_of=bench.parts.keys.subject_id, clock=clock,
    )  # fmt: skip


async def told(bench: Bench, scope: Scope, session: str, said: str, day: int = 0) -> UUID:
    """The user says this in a conversation of its own, and its facts are taken out; the turn's own memory."""
    one, at = exchange(scope, session, 0, (said,)), T0 + timedelta(days=day)
    turns = tuple(replace(turn, occurred_at=at) for turn in one.turns)
    facts = await anew_of(bench).facts(turns)
    await bench.stores.write.commit(replace(one, turns=turns, facts=tuple(facts)), now=at)
    return one.memories[0].memory_id


def semantic(bench: Bench) -> set[str]:
    """The facts that anybody is given."""
    found = bench.postgres.psql(
        "SELECT v.content FROM memories m JOIN memory_versions v USING (tenant_id, memory_id, version)"
        " WHERE m.kind IN ('semantic', 'procedural') AND m.deleted_at IS NULL AND m.superseded_by IS NULL"
        " AND v.validation_status <> 'rejected'"
    )
    return set(found.splitlines())


async def test_a_fact_with_other_turns_behind_it_is_learnt_again(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    first = await told(bench, ada, "s", "I like figs.")
    await told(bench, ada, "t", "I live in Radovljica. I like figs.", day=1)
    await told(bench, ada, "u", "I live in Bled.", day=2)  # no reason to lose what else was said in the turn before
    kept = {"The user lives in Bled.", "The user likes figs."}
    assert semantic(bench) == kept
    bench.parts = replace(bench.parts, anew=anew_of(bench))
    assert (await bench.run(await bench.ask("memory", str(first), ada))).receipt["complete"]
    assert semantic(bench) == kept


@pytest.mark.parametrize(("which", "left"), [(0, set()), (2, {"The user's flight is on Monday."})])
async def test_what_was_put_right_goes_with_either_of_its_turns(bench: Bench, which: int, left: set[str]) -> None:
    ada = bench.stores.scope("ada")
    one = exchange(ada, "s", 0, ("My flight is on Monday.", "Okay.", "Sorry, Tuesday."))
    find = partial(facts_of, talk=[spoken(turn) for turn in one.turns])
    facts = await Learning(find, lambda _: [], Words(), Words(), {}, lambda: T0).facts(one.turns)
    await bench.stores.write.commit(replace(one, facts=facts), now=T0)
    assert semantic(bench) == {"The user's flight is on Tuesday."}
    bench.parts = replace(bench.parts, anew=anew_of(bench))
    assert (await bench.run(await bench.ask("memory", str(one.memories[which].memory_id), ada))).receipt["complete"]
    assert semantic(bench) == left


class BreaksOff:
    """Makes anew, and loses its store one transaction later each time."""

    def __init__(self, anew: Anew) -> None:
        self._anew = anew
        self.times = 0

    async def make(self, job: Any, items: Any) -> Any:
        left, begin = self.times, Database.transaction
        self.times += 1

        def transaction(*args: Any, **keywords: Any) -> Any:
            nonlocal left
            if left == 0:
                raise StoreUnavailable("away")
            left -= 1
            return begin(*args, **keywords)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Database, "transaction", transaction)
            return await self._anew.make(job, items)


async def test_a_receipt_counts_what_was_made_anew_when_a_fault_broke_that_off(bench: Bench) -> None:
    ada, write = bench.stores.scope("ada"), bench.stores.write
    figs = await told(bench, ada, "s", "I like figs.")
    await told(bench, ada, "t", "I live in Radovljica. I like figs.", day=1)
    await told(bench, ada, "u", "I live in Bled.", day=2)
    await bench.commit(ada, "v")
    await bench.commit(ada, "v", ("How do I sort a list in Python?", "Use the function called sorted on it."), at=2)
    summariser = Summariser(write, every_turns=4, every_tokens=9_999, sentences_max=8, clock=lambda: T0)
    session = SessionRef((await bench.stores.records.session(ada, "v")).session_id, "v")
    due = await summed(bench, summariser, ada, session)
    await summariser.keep(ada, session, due, SUBJECT, LANE, bench.stores.fence)
    heron = bench.postgres.psql(
        "SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%' AND origin = 'live'"
    )

    async def sum_up(_: Any, turns: Sequence[StoredTurn]) -> NewMemory:
        memory = summary_of(session, None, turns, 8)
        assert memory is not None
        return replace(memory, windows=((0, 4),), vectors=vectors(1))

    anew = BreaksOff(replace(anew_of(bench), sum_up=sum_up))
    bench.parts = replace(bench.parts, anew=anew)
    target = Target("query", "both", ada, memory_ids=(figs, UUID(heron)))
    erasure_id, job = await bench.asking.ask(target, datetime.now(UTC)), None
    while job is None:
        with suppress(StoreUnavailable):
            job = await bench.run(erasure_id)
    assert anew.times > 4 and job.receipt["complete"]
    assert job.receipt["counts"].items() >= {"summaries_rebuilt": 1, "memories_learnt_again": 1}.items(), job.receipt


@pytest.mark.parametrize("how", ["deleted", "rejected"])
async def test_what_a_person_deleted_or_rejected_is_not_learnt_again_of_its_other_turns(bench: Bench, how: str) -> None:
    ada, records = bench.stores.scope("ada"), bench.stores.records
    first = await told(bench, ada, "s", "I live in Radovljica.")
    await told(bench, ada, "t", "I live in Radovljica.")
    (fact,) = (await records.memories(ada, limit=9, kind="semantic")).rows
    if how == "deleted":
        await records.delete_memory(ada, fact.memory_id, T0)
    else:
        await records.patch_memory(ada, fact.memory_id, 1, MemoryChange(validation_status="rejected"), T0)
    other = UUID(bench.postgres.psql("SELECT event_id FROM turns JOIN sessions USING (session_id) WHERE label = 't'"))
    assert await bench.stores.write.untold(ada, [other]) == {other}
    bench.parts = replace(bench.parts, anew=anew_of(bench))
    assert (await bench.run(await bench.ask("memory", str(first), ada))).receipt["complete"]
    assert semantic(bench) == set()
    assert await bench.stores.write.untold(ada, [other]) == {other}, "and no episode or summary tells it"


@pytest.mark.parametrize("how", ["deleted", "raised", "raised by an earlier version"])
async def test_what_a_person_brings_about_with_a_memory_does_not_name_it_in_the_feed(bench: Bench, how: str) -> None:
    ada, records = bench.stores.scope("ada"), bench.stores.records
    await told(bench, ada, "s", "I live in Radovljica.")
    memory = await told(bench, ada, "t", "I live in Bled.", day=1)
    facts = (await records.memories(ada, limit=9, kind="semantic")).rows
    (bled,) = (one.memory_id for one in facts if "Bled" in one.content)
    before = int(bench.postgres.psql("SELECT max(seq) FROM outbox"))
    if how == "deleted":
        await records.delete_memory(ada, bled, T0)
    else:
        await records.patch_memory(ada, memory, 1, MemoryChange(sensitivity="confidential"), T0)
    of_others = f"FROM outbox WHERE seq > {before} AND event NOT IN ('deleted', 'erased') AND object_id <> '{memory}'"
    assert bench.postgres.psql(f"SELECT DISTINCT caused_by {of_others}") == "api"
    if how == "raised by an earlier version":
        bench.postgres.psql(f"UPDATE outbox SET caused_by = '{memory}' WHERE caused_by = 'api'")
    receipt = (await bench.run(await bench.ask("memory", str(memory), ada))).receipt
    assert receipt["complete"], receipt["probe"]


@pytest.mark.parametrize("how", ["the later is confidential", "the later is no fact any more", "the earlier is hidden"])
async def test_what_stood_behind_what_is_forgotten_stands_behind_nothing(bench: Bench, how: str) -> None:
    ada, records = bench.stores.scope("ada"), bench.stores.records
    await told(bench, ada, "s", "I live in Radovljica.")
    memory = await told(bench, ada, "t", "I live in Bled.", day=1)
    facts = {one.content: one for one in (await records.memories(ada, limit=9, kind="semantic")).rows}
    earlier, later = facts["The user lives in Radovljica."], facts["The user lives in Bled."]
    assert earlier.superseded_by == later.memory_id
    if how == "the later is confidential":
        await records.patch_memory(ada, memory, 1, MemoryChange(sensitivity="confidential"), T0)
    elif how == "the later is no fact any more":
        change = MemoryChange(content="Bled has a lake.", windows=((0, 16),), vectors=vectors(1))
        await records.patch_memory(ada, later.memory_id, later.version, change, T0)
    else:
        await records.delete_memory(ada, earlier.memory_id, T0)
    receipt = (await bench.run(await bench.ask("memory", str(memory), ada))).receipt
    assert receipt["complete"], receipt["probe"]
    if how == "the earlier is hidden":
        await records.undelete_memory(ada, earlier.memory_id, T0)
    assert semantic(bench) == {"The user lives in Radovljica."}
    assert bench.postgres.psql("SELECT state FROM facts") == "current"


async def test_of_a_turn_that_is_sealed_by_now_nothing_is_learnt_again(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    first = await told(bench, ada, "s", "I live in Radovljica.")
    await told(bench, ada, "t", "I live in Radovljica.")
    bench.postgres.psql(
        "UPDATE turns SET sensitivity = 'confidential' WHERE session_id ="
        " (SELECT session_id FROM sessions WHERE label = 't')"
    )
    bench.parts = replace(bench.parts, anew=anew_of(bench))
    assert (await bench.run(await bench.ask("memory", str(first), ada))).receipt["complete"]
    assert semantic(bench) == set()


@pytest.mark.parametrize("made_anew", [False, True])
async def test_a_summary_read_before_an_erasure_and_put_behind_it_brings_nothing_back(
    bench: Bench, made_anew: bool
) -> None:
    ada, write = bench.stores.scope("ada"), bench.stores.write
    summariser = Summariser(write, every_turns=2, every_tokens=9_999, sentences_max=8, clock=lambda: T0)
    put = (SUBJECT, LANE, bench.stores.fence)
    await bench.commit(ada, "s")
    session = SessionRef((await bench.stores.records.session(ada, "s")).session_id, "s")
    await summariser.keep(ada, session, await summed(bench, summariser, ada, session), *put)
    await bench.commit(ada, "s", ("How do I sort a list in Python?", "Use the function called sorted on it."), at=2)
    late = await summed(bench, summariser, ada, session)
    assert "heron" in late.memory.content
    said = bench.postgres.psql(
        "SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%' AND origin = 'live'"
    )
    assert (await bench.run(await bench.ask("memory", said, ada))).receipt["complete"]
    if made_anew:  # of what is left, as the erasure itself does it
        left = [turn for turn in await write.turns_since(ada, session.session_id, 0) if turn.seq < 2]
        memory = summary_of(session, None, left, 8)
        assert memory is not None and "silver" not in memory.content
        memory = replace(memory, windows=((0, 4),), vectors=vectors(1))
        assert await write.put_summary(ada, session.session_id, memory, 2, subject_id=SUBJECT, now=T0) == 1
    await summariser.keep(ada, session, late, *put)
    assert bench.postgres.psql("SELECT count(*) FROM memory_versions WHERE content LIKE '%silver%'") == "0"
    await summariser.keep(ada, session, await summed(bench, summariser, ada, session), *put)
    state = await write.summary_state(ada, session.session_id)
    assert state is not None and state.summarised_seq == 4 and "sort a list" in (state.content or "")


async def copied(bench: Bench, source: Scope, to: Scope, memory: UUID, text: str) -> UUID:
    """A part of a checkpoint that was copied from another scope."""

    audit = AuditLog(bench.stores.database, key_of)
    store = CheckpointStore(bench.stores.database, bench.stores.scopes, bench.postgres.embeddings, audit)
    part = replace(words("summary", text), copied_from=memory)
    new = NewCheckpoint("camp", None, (part,), 10)
    note = noted(to.tenant, "test", "checkpoint.branch", at=T0)
    saved = await store.save(to, SUBJECT, new, now=T0, note=note, source=source)
    return saved.parts[0].memory_id


def left_in(bench: Bench, scope: Scope) -> list[str]:
    """What the memories of a scope say."""
    found = bench.postgres.psql(
        "SELECT content FROM memory_versions v JOIN scopes s USING (tenant_id, scope_id)"
        f" WHERE s.project = '{scope.project}' ORDER BY content"
    )
    return found.splitlines()


async def test_a_copy_that_is_forgotten_leaves_the_project_it_came_from_as_it_was(bench: Bench) -> None:
    sea, land, air = (bench.stores.scope(project=name) for name in ("sea", "land", "air"))
    await bench.commit(sea, "s")
    await bench.commit(land, "t", ("what land says is quite another matter altogether", "and so is the answer to it"))
    memory = UUID(bench.postgres.psql(f"SELECT memory_id FROM memory_versions WHERE content = '{WORDS[0]}'"))
    near = await copied(bench, sea, land, memory, WORDS[0])
    far = await copied(bench, land, air, near, WORDS[0])
    planned, turns, made = await bench.asking.remembered(Target("memory", str(near), land))
    assert (dict(planned.turns), turns, sorted(made)) == ({}, [], sorted([str(near), str(far)]))
    receipt = (await bench.run(await bench.ask("memory", str(near), land))).receipt
    assert receipt["complete"], receipt
    assert left_in(bench, sea) == sorted(WORDS) and rows(bench, "turns") == 4
    assert len(left_in(bench, land)) == 2 and left_in(bench, air) == [], "what was copied on went with it"
    assert bench.postgres.psql("SELECT DISTINCT kind FROM tombstones") == "memory", "its words may be said again"


async def test_what_is_forgotten_in_its_own_project_takes_its_copies_in_others(bench: Bench) -> None:
    sea, land, air = (bench.stores.scope(project=name) for name in ("sea", "land", "air"))
    await bench.commit(sea, "s")
    memory = UUID(bench.postgres.psql(f"SELECT memory_id FROM memory_versions WHERE content = '{WORDS[0]}'"))
    near = await copied(bench, sea, land, memory, WORDS[0])
    await copied(bench, land, air, near, WORDS[0])
    receipt = (await bench.run(await bench.ask("memory", str(memory), sea))).receipt
    assert receipt["complete"], receipt
    assert left_in(bench, land) == left_in(bench, air) == []
    assert left_in(bench, sea) == [WORDS[1]]


async def test_one_that_lost_the_lead_takes_nothing(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await bench.ask("user", "ada", ada)
    fence = await bench.leader.lead(60)
    assert fence is not None
    with pytest.raises(LeaseLost):
        await Erasing(bench.parts).run(bench.stores.tenant, erasure_id, fence + 1)
    assert rows(bench, "turns") == 2 and rows(bench, "tombstones") == 0


async def test_what_arrives_late_is_not_stored_and_leaves_no_name(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    await bench.run(await bench.ask("user", "ada", ada))
    done = await bench.commit(ada, "late", arrived_at=T0)
    assert done.new_turns == 0
    assert rows(bench, "scopes") == rows(bench, "sessions") == rows(bench, "exchanges") == rows(bench, "subjects") == 0
    back = datetime.now(UTC) + timedelta(seconds=5)
    said = ("I am back and I have brought a kite", "a kite is a fine thing")
    with pytest.raises(StoreRefused):  # by the scope's old id, which a process that heard has dropped; the next try is
        await bench.commit(ada, "new", said, arrived_at=back)
    assert (await bench.commit(ada, "new", said, arrived_at=back)).new_turns == 2


async def test_who_looked_before_the_mark_could_be_seen_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that began while the mark was being written finds no tombstone, and makes the conversation anew."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await bench.ask("session", "s", ada)
    looked, go_on = asyncio.Event(), asyncio.Event()
    look = batch.forgotten

    async def look_and_wait(*given: Any) -> batch.Forgotten:
        found = await look(*given)
        looked.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(batch, "forgotten", look_and_wait)
    holder = await asyncpg.connect(bench.postgres.owner)
    try:
        async with holder.transaction():  # the mark's last statement waits for this row
            await holder.execute("SELECT FROM erasures FOR UPDATE")
            erasing = asyncio.create_task(bench.run(erasure_id))
            while not await holder.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.01)
            late = asyncio.create_task(bench.commit(ada, "s", ("the heron has a nest", "a nest it is"), at=2))
            await looked.wait()
        await asyncio.wait([erasing], timeout=1.0)
        assert not erasing.done()
    finally:
        await holder.close()
        go_on.set()
    assert (await late).new_turns == 2
    assert (await erasing).finished_at is not None
    assert rows(bench, "sessions") == rows(bench, "turns") == 0


QUESTION, ANSWER = "Where does the heron nest?", "Under the bridge in Radovljica."


def given(scope: Scope, memory: UUID, session: str = "later", *, block_at: int = 0, answer: str = ANSWER) -> Commit:
    """An exchange that was given a memory in a block of its own, and another memory in none."""
    one = exchange(scope, session, 0, (QUESTION, answer))
    named = retrieval(one.exchange.exchange_id, memory)
    (block,) = named.record.placed
    block = Placed(block_at, one.turns[0].chain, block.entry)
    candidates = ({"id": str(memory), "injected": True}, {"id": str(UUID(int=5)), "injected": False})
    record = replace(named.record, placed=(block,), candidates=candidates)
    node = LedgerNode(block.chain, 0, 5, b"block", b"s" * 32, 3, record.retrieval_id)
    behind = LedgerNode(one.turns[1].chain, 1, 5, None, None, None, None)
    return replace(one, retrieval=replace(named, record=record), nodes=(node, behind))


def seen(bench: Bench, memory: UUID, session: str = "later") -> dict[str, str]:
    """What is stored of a conversation."""
    of = f"FROM sessions s JOIN {{}} x USING (tenant_id, session_id) WHERE s.label = '{session}'"
    asked = {
        "said": f"SELECT string_agg(x.content, '|' ORDER BY x.seq) {of.format('turns')}",
        "memories": f"SELECT count(*) {of.format('memories')}",
        "exchanges": f"SELECT string_agg(coalesce(x.sealed::text, '-'), '|') {of.format('exchanges')}",
        "candidates": f"SELECT string_agg(c ->> 'id', '|') FROM retrievals r, jsonb_array_elements(r.candidates) AS c"
        f" WHERE c ->> 'id' = '{memory}'",
        "placements": f"SELECT string_agg(x.placements::text || coalesce(x.sealed::text, '-'), '|') "
        f"{of.format('retrievals')}",
        "ledger": f"SELECT string_agg((x.placed_sealed IS NULL)::text || (x.withdrawn_at IS NULL)::text, '|') "
        f"{of.format('ledger')}",
    }
    return {name: bench.postgres.psql(query) for name, query in asked.items()}


async def test_an_answer_that_was_given_what_is_forgotten_meanwhile_is_not_stored(bench: Bench) -> None:
    """Nor the ids and the block in its record, nor the answer when its client sends it as history."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    late = given(ada, memory)
    assert (await bench.run(await bench.ask("memory", str(memory), ada))).receipt["complete"]
    done = await bench.commit_given(ada, late)
    assert (done.new_turns, done.erased, done.duplicate_exchange) == (1, 1, False)
    nothing = {"said": QUESTION, "memories": "1", "exchanges": "-", "candidates": "", "placements": "[]-"}
    assert seen(bench, memory) == {**nothing, "ledger": "truefalse"}
    assert (await bench.commit_given(ada, late)).duplicate_exchange
    history = exchange(ada, "later", 0, (QUESTION, ANSWER, "And how many eggs has it?"), retrieval=None)
    assert (await bench.commit_given(ada, replace(history, retrieval=retrieval(new_id())), sent=3)).new_turns == 1
    assert seen(bench, memory)["said"] == f"{QUESTION}|And how many eggs has it?"


@pytest.mark.parametrize("turns_at_once", [1, 2_000])
async def test_nothing_is_sealed_of_a_request_whose_history_holds_what_is_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, turns_at_once: int
) -> None:
    """Its client says it again, and it would be read in a replay; also where the history goes ahead of the exchange."""
    monkeypatch.setattr(ahead, "TURNS_AT_ONCE", turns_at_once)
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'")
    assert (await bench.run(await bench.ask("memory", memory, ada))).receipt["complete"]
    for session, told in (("history", WORDS[0]), ("other", "the garden has nine plum trees and a well")):
        one = exchange(ada, session, 0, (told, ANSWER, QUESTION, "That is not known."), retrieval=None)
        one = replace(one, retrieval=retrieval(one.exchange.exchange_id))
        done = await bench.commit_given(ada, one, sent=3)
        assert (done.new_turns, done.erased) == ((3, 1) if session == "history" else (4, 0))
    kept, other = (seen(bench, UUID(int=9), session) for session in ("history", "other"))
    assert kept["exchanges"] == "-" and kept["placements"].endswith("-")
    assert other["exchanges"] != "-" and not other["placements"].endswith("-")


@pytest.mark.parametrize("late", [False, True])
async def test_what_says_a_candidate_otherwise_later_is_named_no_more(bench: Bench, late: bool) -> None:
    """The block that quotes the candidate stays, and so does what is sealed of it."""
    ada, other = bench.stores.scope("ada"), UUID(int=9)
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    one = given(ada, other)
    assert one.retrieval is not None
    candidates = ({"id": str(other), "later": str(memory), "injected": True}, {"id": str(UUID(int=5)), "later": None})
    record = replace(one.retrieval.record, candidates=candidates)
    one = replace(one, retrieval=replace(one.retrieval, record=record))
    if not late:
        await bench.commit_given(ada, one)
    sealed = seen(bench, other)
    receipt = (await bench.run(await bench.ask("memory", str(memory), ada))).receipt
    assert receipt["complete"], receipt["probe"]
    if late:
        assert (await bench.commit_given(ada, one)).new_turns == 2
    else:
        assert seen(bench, other) == sealed
    told = bench.postgres.psql("SELECT candidates FROM retrievals")
    assert str(other) in told and str(UUID(int=5)) in told and str(memory) not in told, told


async def test_what_stood_before_the_forgotten_block_stays(bench: Bench) -> None:
    """An answer of the history that no block with it came before; and one that was given another memory."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    await bench.run(await bench.ask("memory", str(memory), ada))
    early = given(ada, memory, block_at=2)
    assert (await bench.commit_given(ada, early, sent=2)).new_turns == 2
    other = given(ada, UUID(int=9), "other")
    assert (await bench.commit_given(ada, other)).new_turns == 2
    assert seen(bench, memory, "other")["ledger"] in ("falsetrue|truetrue", "truetrue|falsetrue")


async def test_what_stands_behind_a_token_of_such_an_answer_is_not_kept(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    await bench.run(await bench.ask("memory", str(memory), ada))
    asked, answered = (f"[kept:email:{letter * 26}]" for letter in "ab")
    late = given(ada, memory, answer=f"Write to {answered}.")
    late = replace(late, turns=(replace(late.turns[0], content=f"Who is {asked}?"), late.turns[1]))
    late = replace(late, tokens=tuple(SealedToken(one, "email", b"sealed") for one in (asked, answered)))
    assert (await bench.commit_given(ada, late)).new_turns == 1
    assert bench.postgres.psql("SELECT token FROM personal_tokens") == asked


async def test_an_exchange_with_nothing_left_is_acknowledged(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    await bench.run(await bench.ask("memory", str(memory), ada))
    late = given(ada, memory)
    answer = replace(late, turns=late.turns[1:], memories=late.memories[1:])
    done = await bench.commit_given(ada, answer, sent=0)
    assert (done.new_turns, done.erased) == (0, 1)
    assert (await bench.commit_given(ada, answer, sent=0)).duplicate_exchange
    assert seen(bench, memory)["said"] == "" and seen(bench, memory)["memories"] == "0"


@pytest.mark.parametrize("kind", ["memory", "session", "user"])
async def test_only_what_may_have_been_given_it_is_looked_through(bench: Bench, kind: str) -> None:
    """Else an erasure reads every retrieval that there ever was, and ends no more where these are many."""
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    await bench.commit(ada, "s")
    await bench.commit(eve, "theirs")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%' LIMIT 1"))
    await bench.commit_given(ada, given(ada, memory))
    await bench.commit_given(eve, given(eve, UUID(int=9), "read by nobody"))
    bench.postgres.psql(  # who looks into it fails
        "UPDATE retrievals SET candidates = '{}' FROM sessions s"
        " WHERE s.session_id = retrievals.session_id AND s.label = 'read by nobody'"
    )
    erasure_id = await bench.ask(kind, {"memory": str(memory), "session": "s", "user": "ada"}[kind], ada)
    assert (await bench.run(erasure_id)).receipt["complete"]
    assert bench.postgres.psql(f"SELECT count(*) FROM retrievals WHERE candidates::text LIKE '%{memory}%'") == "0"


async def test_an_answer_that_was_given_anothers_copy_goes_with_its_source(bench: Bench) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    database = bench.stores.database
    sharing = Sharing(
        database, bench.stores.scopes, AuditLog(database, bench.parts.keys.content_key), bench.postgres.embeddings
    )
    copy = (await sharing.share(ada, memory, "project", actor="key", now=T0)).copy_id
    await bench.run(await bench.ask("memory", str(memory), ada))
    assert (await bench.commit_given(eve, given(eve, copy))).new_turns == 1
    assert seen(bench, copy)["said"] == QUESTION and seen(bench, copy)["candidates"] == ""


async def test_where_a_conversation_is_cut_is_known_when_what_it_was_given_is_forgotten(bench: Bench) -> None:
    """The mark quotes nothing. Without it all of the conversation was sent again, and cut at another place."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    one = given(ada, memory, answer="Nobody has said so.")
    assert one.retrieval is not None
    mark, by = one.turns[0].chain, one.retrieval.record.retrieval_id
    cut = LedgerNode(CUT, -1, None, mark, hashlib.sha256(mark).digest(), 0, by, anew=True)
    await bench.stores.write.commit(replace(one, nodes=(*one.nodes, cut)), now=T0)
    assert (await bench.run(await bench.ask("memory", str(memory), ada))).receipt["complete"]
    session = session_of(ada, "later").session_id
    stored = await bench.stores.read.ledger(ada, session, [CUT, mark])
    assert stored == {CUT: mark, mark: WITHDRAWN}


async def test_the_tenth_erasure_is_planned_like_the_first(bench: Bench) -> None:
    """Else Postgres takes from the sixth on a plan that knows no ids, and holds each row against all of them."""
    ada = bench.stores.scope("ada")
    for number in range(10):
        await bench.commit(ada, f"s{number}")
        await bench.run(await bench.ask("session", f"s{number}", ada))
    asked = "SELECT coalesce(sum(generic_plans), 0) FROM pg_prepared_statements WHERE statement LIKE 'UPDATE outbox%'"
    used = [holder._con for holder in bench.stores.database._pool._holders if holder._con is not None]
    assert [await connection.fetchval(asked) for connection in used] == [0] * len(used)


@pytest.mark.parametrize(
    ("name", "by_ids", "found"),
    [("erase_empty_exchanges", False, 1), ("unname_retrievals", True, 2_000), ("answers_given", True, 2_000)],
)
async def test_a_conversation_of_thousands_of_turns_is_gone_through_within_a_statement(
    bench: Bench, name: str, by_ids: bool, found: int
) -> None:
    """Each of these looked its rows up one by one: minutes for 20,000 turns, so no erasure there ever ended."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "long")
    session = session_of(ada, "long").session_id
    many(bench, session, 10_000)
    ids = [str(UUID(int=2 * n)) for n in range(1, 2_001)] + [str(new_id()) for _ in range(2_000)]
    scope_id = await bench.stores.write.scope_id(ada)
    asked = (bench.stores.tenant, [session], *([ids, T0] if by_ids else []))
    async with bench.stores.database.transaction(bench.stores.tenant, [scope_id]) as tx:
        await tx.run("plan_each_time")
        assert len(await tx.fetch(name, *asked)) == found


async def test_of_all_scopes_those_that_something_goes_of_stand_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is held against each scope until its own is found: of 50,000, and once for all that goes."""
    scopes = [bench.stores.scope(name) for name in ("ada", "eve", "zoe")]
    for scope in scopes:
        await bench.commit(
            scope, "s", (f"what {scope.user} says is quite another matter", "and so is the answer to it")
        )
    seen: dict[str, set[str]] = defaultdict(set)

    def watched(method: str) -> None:
        real = getattr(Transaction, method)

        async def watching(tx: Transaction, query: str | Query, *arguments: Any) -> Any:
            if query in ("made_of", "erase_rows", "labels_of_scopes"):
                seen[str(query)].add(await tx._connection.fetchval("SELECT current_setting('mp.scopes')"))
            return await real(tx, query, *arguments)

        monkeypatch.setattr(Transaction, method, watching)

    watched("fetch")
    watched("value")
    own = f"{{{await bench.stores.write.scope_id(scopes[-1])}"
    await bench.run(await bench.ask("user", "zoe", scopes[-1]))
    assert seen["erase_rows"] == {own + "}"}
    assert all(one.startswith(own + ",") for one in seen["made_of"])
    assert seen["labels_of_scopes"] == {own + "}"}


async def test_hundreds_of_thousands_of_ids_are_not_followed_in_one_statement(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one person took a minute, which no statement may: each try began anew and no erasure ended."""
    real, asked = Transaction.fetch, []

    async def watching(tx: Transaction, query: str | Query, *arguments: Any) -> list[Any]:
        if query == "made_of":
            asked.append(len(arguments[1]))
        return await real(tx, query, *arguments)

    monkeypatch.setattr(Transaction, "fetch", watching)
    assert await bench.parts.store.reach(Plan(), bench.stores.tenant, {new_id(): 1 for _ in range(12_000)}) == {}
    assert max(asked) <= 5_000 and sum(asked) == 12_000


async def test_of_scopes_that_go_whole_only_what_was_made_elsewhere_is_followed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 50,000 users each turn and memory was: three fifths of the dry run of their project."""
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    await bench.commit(ada, "s")
    await bench.commit(eve, "s", ("what eve says is quite another matter", "and so is the answer to it"))
    memory = bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'")
    audit = AuditLog(bench.stores.database, bench.parts.keys.audit_key)
    sharing = Sharing(bench.stores.database, bench.stores.scopes, audit, bench.postgres.embeddings)
    copy = (await sharing.share(ada, UUID(memory), "project", actor="key", now=T0)).copy_id
    real, followed = Transaction.fetch, set[UUID]()

    async def watching(tx: Transaction, query: str | Query, *arguments: Any) -> list[Any]:
        if query in ("made_of", "ties_of_gone"):
            followed.update(arguments[1])
        return await real(tx, query, *arguments)

    monkeypatch.setattr(Transaction, "fetch", watching)
    _, turns, memories = await bench.asking.remembered(Target("user", "ada", ada))
    assert followed == {copy}
    assert {memory, str(copy)} < set(memories) and len(memories) == len(turns) + 1 == 3


@pytest.mark.parametrize("table", ["exchanges", "ledger", "provenance", "derivations", "memory_versions"])
def test_the_rows_of_a_scope_are_found_without_all_others(postgres: TestDatabase, table: str) -> None:
    """`mp_erase_rows` goes through every table in one statement, which in a store of millions ran into its bound."""
    found = postgres.psql(f"SELECT indexdef FROM pg_indexes WHERE tablename = '{table}'").splitlines()
    assert any(re.search(r"\(tenant_id, scope_id\b[^)]*\)$", one) for one in found), found


def many(bench: Bench, session: UUID, number: int) -> None:
    """So many exchanges more in a conversation, each with two turns and a memory it was given; the last has none."""
    bench.postgres.psql(
        f"""
        CREATE TEMP TABLE said AS
            SELECT s.tenant_id, s.scope_id, s.session_id, e.subject_id, n, lpad(to_hex(2 * n), 32, '0')::uuid AS id
            FROM sessions s JOIN exchanges e USING (tenant_id, session_id), generate_series(1, {number}) n
            WHERE s.session_id = '{session}';
        INSERT INTO exchanges (tenant_id, exchange_id, scope_id, session_id, subject_id, origin, status, arrived_at,
                               finished_at, recorded_at)
            SELECT tenant_id, id, scope_id, session_id, subject_id, 'live', 'complete', now(), now(), now() FROM said;
        INSERT INTO turns (tenant_id, event_id, scope_id, session_id, exchange_id, seq, chain, role, content, origin,
                           integrity, sensitivity, occurred_at, recorded_at)
            SELECT tenant_id, md5(id::text || role)::uuid, scope_id, session_id, id, 1000 + 2 * n + place,
                   sha256((id::text || role)::bytea), role, 'said', 'live', 'user', 'internal', now(), now()
            FROM said, unnest(ARRAY['user', 'assistant']) WITH ORDINALITY AS w (role, place) WHERE n < {number};
        INSERT INTO retrievals (tenant_id, retrieval_id, scope_id, session_id, exchange_id, status, config_digest,
                                embedding_model, candidates, placements, millis, sha256_sent, created_at)
            SELECT tenant_id, id, scope_id, session_id, id, 'injected', 'c', 'm', '[]',
                   jsonb_build_array(jsonb_build_object('memory_ids', jsonb_build_array(id))), 1, 'x', now() FROM said;
        """
    )


async def test_only_who_sees_a_copy_is_looked_through_for_answers_that_repeat_it(bench: Bench) -> None:
    ada, stranger = bench.stores.scope("ada"), replace(bench.stores.scope("eve"), project="another")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    database = bench.stores.database
    audit = AuditLog(database, bench.parts.keys.content_key)
    sharing = Sharing(database, bench.stores.scopes, audit, bench.postgres.embeddings)
    await sharing.share(ada, memory, "project", actor="key", now=T0)
    await bench.commit_given(stranger, given(stranger, UUID(int=9)))
    bench.postgres.psql(  # who looks into it fails
        "UPDATE retrievals SET placements = '{}' FROM sessions s"
        " WHERE s.session_id = retrievals.session_id AND s.label = 'later'"
    )
    assert (await bench.run(await bench.ask("memory", str(memory), ada))).receipt["complete"]


async def test_those_whose_names_go_are_not_held_against_each_other(bench: Bench) -> None:
    """Of 25,000 names it took two minutes, which no statement may: such a user was never forgotten."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    scope_id = await bench.stores.write.scope_id(ada)
    bench.postgres.psql(
        f"""
        INSERT INTO entities (tenant_id, entity_id, scope_id, type, created_at, changed_at)
            SELECT tenant_id, md5(n::text)::uuid, {scope_id}, 'person', now(), now()
            FROM tenants, generate_series(1, 1000) n
            WHERE tenant_id = '{bench.stores.tenant}';
        SET session_replication_role = replica;
        INSERT INTO entity_aliases
            SELECT tenant_id, entity_id, substring(sha256(entity_id::text::bytea), 1, 16), entity_id, scope_id
            FROM entities;
        """
    )
    ids = [UUID(hashlib.md5(str(n).encode()).hexdigest()) for n in range(1, 1001)]
    async with bench.stores.database.transaction(bench.stores.tenant, [scope_id]) as tx:
        await tx.run("plan_each_time")
        asked = f"EXPLAIN (ANALYZE, FORMAT JSON) {load_queries()['ties_of_gone'].sql}"
        plan = await tx._connection.fetchval(asked, bench.stores.tenant, ids)
    removed = [float(one) for one in re.findall(r'"Rows Removed by Join Filter": ([0-9.]+)', plan)]
    assert '"Actual Rows": 1000' in plan and sum(removed) < 10_000, plan


async def test_other_work_of_a_worker_goes_on_while_the_probe_reads(bench: Bench) -> None:
    """500 rows were looked at in one go, large ones for 10 s on a busy machine, and a worker lost all its lanes."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "long")
    many(bench, session_of(ada, "long").session_id, 300)
    done, seen_by = 0, Counter[int]()

    class Slow(Wanted):
        def count(self, value: Any) -> int:
            return self.ids_in("")

        def ids_in(self, text: str) -> int:
            time.sleep(0.001)
            seen_by[done] += 1
            return 0

    async def other_work() -> None:
        nonlocal done
        while True:
            done += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(other_work())
    scope_id = await bench.stores.write.scope_id(ada)
    await bench.parts.probe.run(bench.stores.tenant, [scope_id], Together([Slow([], [])]))
    other.cancel()
    assert seen_by.total() > 1_000
    assert max(seen_by.values()) < 100, "values in one go"


async def test_requests_from_before_a_memory_was_there_are_not_gone_through(bench: Bench) -> None:
    """Who forgot one thing of today had all read that was asked in years: 50,000 requests took 12 s, three times."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'")
    await bench.commit_given(ada, given(ada, UUID(int=9)))
    bench.postgres.psql(  # who looks into it fails
        "UPDATE retrievals r SET placements = '{}', created_at = r.created_at - interval '2 days' FROM sessions s"
        " WHERE s.session_id = r.session_id AND s.label = 'later'"
    )
    assert (await bench.run(await bench.ask("memory", memory, ada))).receipt["complete"]


@pytest.mark.parametrize("apart", ["-23 hours", "0", "40 days"])
@pytest.mark.parametrize("made_anew", [False, True])
async def test_a_request_is_found_however_the_clocks_of_machines_stand(
    bench: Bench, apart: str, made_anew: bool
) -> None:
    """It was given a memory just born; `made_anew`: or the one before it, which had the same id."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    await bench.commit_given(ada, given(ada, memory, answer=f"You said: {WORDS[0]}"))
    born = "now()" if made_anew else f"timestamptz '{T0.isoformat()}'"
    later = "now() + interval '90 days'" if made_anew else born
    bench.postgres.psql(
        f"""
        UPDATE memories SET created_at = {later} WHERE memory_id = '{memory}';
        UPDATE retrievals SET created_at = {born} + interval '{apart}';
        UPDATE sessions SET last_at = {born} + interval '{apart}' WHERE label = 'later';
        """
    )
    assert (await bench.run(await bench.ask("memory", str(memory), ada))).receipt["complete"]
    found = seen(bench, memory)
    assert (found["said"], found["candidates"], found["placements"]) == (QUESTION, "", "[]-")


@pytest.mark.parametrize("told_in", ["a summary", "a month"])
async def test_what_tells_a_conversation_may_have_been_given_since_that_began(bench: Bench, told_in: str) -> None:
    """Another made anew has its id, which bears no time."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory, tells = bench.postgres.psql("SELECT memory_id FROM memories").split()
    anew = "kind = 'summary', created_at = now() + interval '90 days'"
    bench.postgres.psql(f"UPDATE memories SET {anew} WHERE memory_id = '{tells}'")
    if told_in == "a month":
        bench.postgres.psql(
            f"""
            UPDATE memories SET collection = 'month', session_id = NULL WHERE memory_id = '{tells}';
            UPDATE memories SET created_at = now(), compressed_into = '{tells}' WHERE memory_id = '{memory}';
            """
        )
    scope_id = await bench.stores.write.scope_id(ada)
    async with bench.stores.database.transaction(bench.stores.tenant, [scope_id]) as tx:
        assert await placed_since(tx, bench.stores.tenant, [UUID(tells)]) == T0 - CLOCKS_APART_MAX
        assert await placed_since(tx, bench.stores.tenant, [UUID(int=9)]) is None


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", ["memory", "user"])
async def test_an_answer_that_repeats_anothers_copy_goes_with_its_source(
    bench: Bench, valkey: ValkeyServer, kind: str, late: bool
) -> None:
    """Also where it is stored while the mark is made; with what Redis has of its conversation, and nothing else."""
    ada, eve, tenant = bench.stores.scope("ada"), bench.stores.scope("eve"), bench.stores.tenant
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    database = bench.stores.database
    sharing = Sharing(
        database, bench.stores.scopes, AuditLog(database, bench.parts.keys.content_key), bench.postgres.embeddings
    )
    copy = (await sharing.share(ada, memory, "project", actor="key", now=T0)).copy_id
    repeats = given(eve, copy, answer=f"It was said: {WORDS[0]}.")
    key = scope_key(await bench.parts.keys.chain_key(tenant), eve)
    hot = RedisHot(valkey.url, timeout_ms=2000, keep_timeout_ms=2000)
    sessions = (repeats.session.session_id, new_id())
    for session in sessions:
        await hot.keep_working(eve, key, session, Known(1, 1), b"about", 60)

    class Slow(EraseStore):
        async def mark(self, *args: Any, **keywords: Any) -> None:
            if late:
                await bench.commit_given(eve, repeats)
            await super().mark(*args, **keywords)

    if not late:
        await bench.commit_given(eve, repeats)
    erasure_id = await bench.ask(kind, {"memory": str(memory), "user": "ada"}[kind], ada)
    fence = await bench.leader.lead(60)
    assert fence is not None
    parts = replace(bench.parts, store=Slow(database, bench.postgres.embeddings))
    job = await Erasing(parts).run(tenant, erasure_id, fence)
    assert job is not None and job.receipt is not None and job.receipt["complete"], job
    assert seen(bench, copy)["said"] == QUESTION
    assert [await hot.working(eve, key, one) is not None for one in sessions] == [False, True]
    await hot.close()


@pytest.mark.parametrize("shared", [False, True])
async def test_a_dry_run_tells_of_the_answers_that_repeat_it_too(bench: Bench, shared: bool) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    shown, asker = memory, ada
    if shared:
        audit = AuditLog(bench.stores.database, bench.parts.keys.content_key)
        sharing = Sharing(bench.stores.database, bench.stores.scopes, audit, bench.postgres.embeddings)
        shown, asker = (await sharing.share(ada, memory, "project", actor="key", now=T0)).copy_id, eve
    await bench.commit_given(asker, given(asker, shown, answer=f"You said: {WORDS[0]}."))
    await bench.commit_given(asker, given(asker, shown, "another", answer="I know nothing of that, nor does anybody."))
    before = {name: rows(bench, name) for name in ("turns", "memories")}
    _, turns, memories = await bench.asking.remembered(Target("memory", str(memory), ada))
    assert (await bench.run(await bench.ask("memory", str(memory), ada))).receipt["complete"]
    gone = {name: count - rows(bench, name) for name, count in before.items()}
    assert (len(turns), len(memories)) == (gone["turns"], gone["memories"]) and gone["turns"] == 2


async def test_a_dry_run_tells_of_the_other_episodes_of_a_conversation_that_is_told_again(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    await bench.commit(ada, "s", ("How do I sort a list in Python?", "Use the function called sorted on it."), at=2)
    said = bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'")
    bench.postgres.psql(  # these two stand for two episodes
        "UPDATE memories SET collection = 'episode' FROM memory_versions v"
        " WHERE v.memory_id = memories.memory_id AND (v.content LIKE '%silver%' OR v.content LIKE 'How do I%')"
    )
    _, turns, memories = await bench.asking.remembered(Target("memory", said, ada))
    assert (await bench.run(await bench.ask("memory", said, ada))).receipt["complete"]
    assert (len(turns), len(memories)) == (4 - rows(bench, "turns"), 4 - rows(bench, "memories")) == (1, 2)


@pytest.mark.parametrize("kind", ["user", "memory"])
async def test_a_receipt_counts_the_copies_that_others_were_shown(bench: Bench, kind: Any) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    await bench.commit(ada, "s")
    await bench.commit(
        eve, "s", ("what eve says is quite another matter altogether", "and so is the answer to it here")
    )
    memory = bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'")
    audit = AuditLog(bench.stores.database, bench.parts.keys.content_key)
    sharing = Sharing(bench.stores.database, bench.stores.scopes, audit, bench.postgres.embeddings)
    await sharing.share(ada, UUID(memory), "project", actor="key", now=T0)
    value, before = {"user": "ada", "memory": memory}[kind], rows(bench, "memories")
    _, _, memories = await bench.asking.remembered(Target(kind, value, ada))
    receipt = (await bench.run(await bench.ask(kind, value, ada))).receipt
    assert receipt["complete"], receipt["probe"]
    assert receipt["counts"]["memories"] == len(memories) == before - rows(bench, "memories")


async def test_a_summary_made_anew_may_be_given(bench: Bench) -> None:
    """It has the id of the one that went."""
    ada, write = bench.stores.scope("ada"), bench.stores.write
    summariser = Summariser(write, every_turns=2, every_tokens=9_999, sentences_max=8, clock=lambda: T0)
    await bench.commit(ada, "s")
    await bench.commit(ada, "s", ("How do I sort a list in Python?", "Use the function called sorted on it."), at=2)
    session = SessionRef((await bench.stores.records.session(ada, "s")).session_id, "s")
    due = await summed(bench, summariser, ada, session)
    summary = due.memory.memory_id
    await summariser.keep(ada, session, due, SUBJECT, LANE, bench.stores.fence)
    said = bench.postgres.psql(
        "SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%' AND origin = 'live'"
    )
    await bench.run(await bench.ask("memory", said, ada))
    assert (await bench.commit_given(ada, given(ada, summary, "gone"))).new_turns == 1
    anew = replace(due.memory, content="about lists", source_turns=())
    now = datetime.now(UTC)
    await write.put_summary(ada, session.session_id, anew, 4, subject_id=SUBJECT, now=now)
    for session_label, after_s, turns in (("before", -1, 1), ("behind", 1, 2)):
        one = given(ada, summary, session_label, answer=f"What I know of it {session_label} is nothing.")
        one = replace(one, exchange=replace(one.exchange, arrived_at=now + timedelta(seconds=after_s)))
        assert (await bench.commit_given(ada, one)).new_turns == turns, session_label


async def test_an_answer_that_repeats_what_was_said_before_it_goes_with_that(bench: Bench) -> None:
    """In the conversation itself, where the model was not given a memory but read the turn. A closing phrase that
    answers have in common is no proof, nor is what somebody says in another turn, too.
    """
    ada, phrase = bench.stores.scope("ada"), "is there anything else that I can help you with today"
    pasted = "the list of the seven boats that lie in the harbour of Izola"
    talk = (
        f"Do you know the heron? And here is {pasted}.",
        f"No, but {phrase}?",
        f"{WORDS[0]}, and again {pasted}",
        f"Noted: {WORDS[0]}. And {phrase}?",
        "I have a kite, too.",
        f"Kites are fun, as is {pasted}; {phrase}?",
        "Where was the heron?",
        f"You said: {WORDS[0]}.",
    )
    await bench.commit(ada, "s", talk)
    await bench.commit(ada, "other", ("I have been told of a heron.", f"Oh, {WORDS[0]}."))
    memory = bench.postgres.psql(f"SELECT memory_id FROM memory_versions WHERE content = '{talk[2]}'")
    _, turns, _ = await bench.asking.remembered(Target("memory", memory, ada))
    receipt = (await bench.run(await bench.ask("memory", memory, ada))).receipt
    assert receipt["complete"], receipt["probe"]
    assert seen(bench, UUID(int=9), "s")["said"] == "|".join(talk[at] for at in (0, 1, 4, 5, 6))
    assert seen(bench, UUID(int=9), "other")["said"].count("|") == 1
    assert len(turns) == 3, "and a dry run tells of them"


@pytest.mark.parametrize("how", ["edited, by its id", "edited, by its conversation", "of no turn"])
async def test_an_answer_that_repeats_words_that_no_turn_says_goes_with_them(bench: Bench, how: str) -> None:
    """And one that says something else stays, as does what it was asked."""
    ada, own = bench.stores.scope("ada"), "the golden oriole nests behind the chapel in Begunje"
    await bench.commit(ada, "s")
    if how == "of no turn":
        database = bench.stores.database
        audit = AuditLog(database, bench.parts.keys.content_key)
        store = CheckpointStore(database, bench.stores.scopes, bench.postgres.embeddings, audit)
        new = NewCheckpoint("camp", None, (words("notes", own),), 10)
        note = noted(ada.tenant, "test", "checkpoint.save", at=T0)
        memory = (await store.save(ada, SUBJECT, new, now=T0, note=note)).parts[0].memory_id
    else:
        memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
        change = MemoryChange(content=own, windows=((0, len(own)),), vectors=vectors(1))
        await bench.stores.records.patch_memory(ada, memory, 1, change, T0)
    await bench.commit_given(ada, given(ada, memory, answer=f"You said: {own}."))
    await bench.commit_given(ada, given(ada, memory, "another", answer="I know nothing of that, nor does anybody."))
    meant = ("session", "s") if how == "edited, by its conversation" else ("memory", str(memory))
    _, turns, _ = await bench.asking.remembered(Target(*meant, ada))  # type: ignore[arg-type]  # one of its kinds
    before = rows(bench, "turns")
    receipt = (await bench.run(await bench.ask(*meant, ada))).receipt
    assert receipt["complete"], receipt["probe"]
    assert seen(bench, memory)["said"] == QUESTION
    assert seen(bench, memory, "another")["said"].count("|") == 1
    assert len(turns) == before - rows(bench, "turns"), "and a dry run tells of it"


async def test_an_answer_goes_although_another_memory_of_its_block_was_forgotten_before(bench: Bench) -> None:
    """With that one its block is gone from the record; which others it was given stands there all the same."""
    ada, told = bench.stores.scope("ada"), "the golden oriole nests behind the chapel in Begunje"
    await bench.commit(ada, "s")
    await bench.commit(ada, "t", (told, "It does."))
    heron, oriole = (
        UUID(bench.postgres.psql(f"SELECT memory_id FROM memory_versions WHERE content = '{text}'"))
        for text in (WORDS[0], told)
    )
    one = given(ada, heron, answer=f"You said: {told}.")
    named = retrieval(one.exchange.exchange_id, heron, oriole)
    candidates = tuple({"id": str(memory), "injected": True} for memory in (heron, oriole))
    one = replace(one, retrieval=replace(named, record=replace(named.record, candidates=candidates)))
    await bench.commit_given(ada, one)
    for memory, left in ((heron, f"{QUESTION}|You said: {told}."), (oriole, QUESTION)):
        receipt = (await bench.run(await bench.ask("memory", str(memory), ada))).receipt
        assert receipt["complete"], receipt["probe"]
        assert seen(bench, memory)["said"] == left


async def test_an_answer_goes_that_was_given_a_block_again_which_another_memory_has_taken_along(bench: Bench) -> None:
    """A block that is put back is no candidate of that request: gone from the record, it is named nowhere in it."""
    ada, told = bench.stores.scope("ada"), "the golden oriole nests behind the chapel in Begunje"
    await bench.commit(ada, "s")
    await bench.commit(ada, "t", (told, "It does."))
    heron, oriole = (
        UUID(bench.postgres.psql(f"SELECT memory_id FROM memory_versions WHERE content = '{text}'"))
        for text in (WORDS[0], told)
    )
    before = exchange(ada, "later", 0, ("Which birds are quiet?", f"Not one where {told}."))
    await bench.commit_given(ada, before)
    placed, again = exchange(ada, "later", 2, (QUESTION, ANSWER)), exchange(ada, "later", 4, ("And?", f"So {told}."))
    for one, injected in ((placed, True), (again, False)):
        named = retrieval(one.exchange.exchange_id, heron, oriole)
        candidates = tuple({"id": str(memory), "injected": True} for memory in (heron, oriole) if injected)
        one = replace(one, retrieval=replace(named, record=replace(named.record, candidates=candidates)))
        await bench.commit_given(ada, one)
    said = ["Which birds are quiet?", f"Not one where {told}.", QUESTION, ANSWER, "And?"]
    for memory, left in ((heron, [*said, f"So {told}."]), (oriole, said)):
        receipt = (await bench.run(await bench.ask("memory", str(memory), ada))).receipt
        assert receipt["complete"], receipt["probe"]
        assert seen(bench, memory)["said"] == "|".join(left)


async def test_an_answer_stored_while_the_mark_was_made_goes_too(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    repeats = given(ada, memory, answer=f"You said: {WORDS[0]}.")

    class Slow(EraseStore):
        async def mark(self, *args: Any, **keywords: Any) -> None:
            assert (await bench.commit_given(ada, repeats)).new_turns == 2
            await super().mark(*args, **keywords)

    erasure_id = await bench.ask("memory", str(memory), ada)
    fence = await bench.leader.lead(60)
    assert fence is not None
    parts = replace(bench.parts, store=Slow(bench.stores.database, bench.postgres.embeddings))
    job = await Erasing(parts).run(bench.stores.tenant, erasure_id, fence)
    assert job is not None and job.receipt is not None and job.receipt["complete"], job
    assert seen(bench, memory)["said"] == QUESTION
    assert (await bench.commit(ada, "elsewhere", ("What did I say?", f"You said: {WORDS[0]}."))).new_turns == 1


@pytest.mark.parametrize("late", [False, True])
async def test_what_was_given_an_answer_that_goes_is_kept_away_before_that_is_deleted(bench: Bench, late: bool) -> None:
    """The memory of an answer that repeats is forgotten too, and who was given that is known by it. Also where the
    answer was stored while the mark was made.
    """
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    repeats = given(ada, memory, answer=f"You said: {WORDS[0]}.")

    class Slow(EraseStore):
        async def mark(self, *args: Any, **keywords: Any) -> None:
            if late:
                await bench.commit_given(ada, repeats)
            await super().mark(*args, **keywords)

        async def delete(self, *args: Any, **keywords: Any) -> Any:
            of = "SELECT memory_id FROM memory_versions WHERE content LIKE 'You said%'"
            one = given(ada, UUID(bench.postgres.psql(of)), "third", answer=f"It was said: {WORDS[0]}.")
            assert (await bench.commit_given(ada, one)).new_turns == 1
            return await super().delete(*args, **keywords)

    if not late:
        await bench.commit_given(ada, repeats)
    erasure_id = await bench.ask("memory", str(memory), ada)
    fence = await bench.leader.lead(60)
    assert fence is not None
    parts = replace(bench.parts, store=Slow(bench.stores.database, bench.postgres.embeddings))
    job = await Erasing(parts).run(bench.stores.tenant, erasure_id, fence)
    assert job is not None and job.receipt is not None and job.receipt["complete"], job
    assert seen(bench, memory)["said"] == QUESTION
    assert seen(bench, memory, "third")["said"] == QUESTION


class Meanwhile(EraseStore):
    """A store in which something is half written when the deletion begins, and is committed while that waits for it."""

    began: asyncio.Event
    go_on: asyncio.Event
    write: Callable[[], Awaitable[Any]]

    async def delete(self, *args: Any, **keywords: Any) -> Any:
        writing = asyncio.ensure_future(self.write())
        await self.began.wait()
        deleting = asyncio.create_task(super().delete(*args, **keywords))
        async with self._database.transaction(None, read_only=True) as tx:
            while not await tx._connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                assert not deleting.done()
                await asyncio.sleep(0.01)
        self.go_on.set()
        await writing
        return await deleting


async def erased_meanwhile(
    bench: Bench, erasure_id: UUID, write: Callable[[Callable[[], Awaitable[None]]], Awaitable[Any]]
) -> Any:
    """Go through with an erasure while `write` writes; it calls what it is given where it stands half written."""
    store = Meanwhile(bench.stores.database, bench.postgres.embeddings)
    store.began, store.go_on = asyncio.Event(), asyncio.Event()

    async def half_way() -> None:
        store.began.set()
        await store.go_on.wait()

    store.write = lambda: write(half_way)
    fence = await bench.leader.lead(60)
    assert fence is not None
    return await Erasing(replace(bench.parts, store=store)).run(bench.stores.tenant, erasure_id, fence)


async def test_what_is_made_of_it_while_the_deletion_waits_goes_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fact that a model found: its turn was there when it was asked, and the fact when the locks were had."""
    ada = bench.stores.scope("ada")
    said = ("I live in Radovljica by the railway bridge over the river.", "A fine place it is.")
    one = replace(exchange(ada, "s", 0, said, retrieval=None), facts_due=True)
    await bench.stores.write.commit(one, now=T0)
    dues = ExtractionStore(bench.stores.database, bench.postgres.embeddings)
    (due,) = await dues.take(1, (), lease_s=60)
    found = new_fact(one.turns[0], fact("Radovljica"))
    store_facts = fact_store.store_facts

    async def finish(half_way: Callable[[], Awaitable[None]]) -> None:
        async def store_and_wait(*args: Any, **keywords: Any) -> int:
            born = await store_facts(*args, **keywords)
            await half_way()
            return born

        monkeypatch.setattr(fact_store, "store_facts", store_and_wait)
        done = await dues.finish(due, await dues.exchange(due), [found], T0)
        assert done is not None and done.facts_new == 1

    job = await erased_meanwhile(bench, await bench.ask("memory", str(one.memories[0].memory_id), ada), finish)
    assert job.receipt["complete"], job.receipt
    assert rows(bench, "facts") == 0
    assert bench.postgres.psql("SELECT string_agg(content, '|') FROM memory_versions") == said[1]
    assert (await bench.commit_given(ada, given(ada, found.memory.memory_id))).new_turns == 1, "it may not be told"


async def test_a_checkpoints_words_that_are_kept_while_the_deletion_waits_go_too(bench: Bench) -> None:
    """In another conversation, which has to be locked as well; behind the deletion they are refused."""
    ada, database = bench.stores.scope("ada"), bench.stores.database
    one = exchange(ada, "s", 0, WORDS, retrieval=None)
    await bench.stores.write.commit(one, now=T0)
    await bench.commit(ada, "elsewhere", ("What is the weather like?", "Fine, all day long."))
    elsewhere = (await bench.stores.records.session(ada, "elsewhere")).session_id

    async def keep(half_way: Callable[[], Awaitable[None]]) -> None:
        words = memory_of(one.turns[0], memory_id=new_id(), kind="working")
        place = Place(ada.tenant, await bench.stores.scopes.ensure(ada), SUBJECT, new_id(), T0)
        async with database.transaction(ada.tenant, [place.scope_id]) as tx:
            changed = await tx.value("bump_scope", ada.tenant, place.scope_id)
            await add_own_memory(
                tx,
                place,
                words,
                "checkpoint",
                session_id=elsewhere,
                changed=changed,
                add_embedding=database.queries["add_embedding"].of_table(bench.postgres.embeddings),
            )
            await half_way()

    job = await erased_meanwhile(bench, await bench.ask("memory", str(one.memories[0].memory_id), ada), keep)
    assert job.receipt["complete"], job.receipt
    assert "silver" not in bench.postgres.psql("SELECT string_agg(content, '|') FROM memory_versions")
    assert rows(bench, "memories") == 3
    with pytest.raises(Conflict, match="forgotten"):
        await keep(lambda: asyncio.sleep(0))


class Writes(EraseStore):
    """A store at whose deletion something is still written to Redis; then it may be killed."""

    write: Callable[[], Awaitable[Any]]
    killed = False

    async def delete(self, *args: Any, **keywords: Any) -> Any:
        await self.write()
        done = await super().delete(*args, **keywords)
        if self.killed:
            raise Killed
        return done


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("kind", ["user", "project", "session", "memory"])
async def test_what_redis_is_told_just_before_the_deletion_goes_too(
    bench: Bench, valkey: ValkeyServer, kind: str, killed: bool
) -> None:
    """A process that began before holds it still; and the job that goes on after a kill finds no names in the store."""
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve", "q")
    await bench.commit(ada, "s")
    await bench.commit(eve, "s", ("what eve says is quite another matter", "and so is the answer to it"))
    session = (await bench.stores.records.session(ada, "s")).session_id
    memory = bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'")
    value = {"user": "ada", "project": "p", "session": "s", "memory": memory}[kind]
    chain_key = await bench.parts.keys.chain_key(ada.tenant)
    hot = RedisHot(valkey.url, timeout_ms=2000, keep_timeout_ms=2000)

    async def write() -> None:
        for scope in (ada, eve):
            await hot.keep_working(scope, scope_key(chain_key, scope), session, Known(1, 1), b"about", 60)

    async def held() -> set[str]:
        return {name.split("}")[0] async for name, _ in bench.parts.redis.everything() if ":w:" in name}

    store = Writes(bench.stores.database, bench.postgres.embeddings)
    store.write, store.killed = write, killed
    fence = await bench.leader.lead(60)
    assert fence is not None
    erasure_id = await bench.ask(kind, value, ada)
    erasing = Erasing(replace(bench.parts, store=store)).run(ada.tenant, erasure_id, fence)
    if killed:
        with pytest.raises(Killed):
            await erasing
        assert len(await held()) == 2
        await bench.run(erasure_id)
    else:
        await erasing
    assert await held() == {f"mp:h:{{{ada.tenant.hex}:{scope_key(chain_key, eve).hex()}"}
    await hot.close()


class Waits(NoKeys):
    """A transaction that has read the id of a scope and is held up with it."""

    reads = frozenset({"find_scope"})

    def __init__(self) -> None:
        self.has_read, self.goes_on = asyncio.Event(), asyncio.Event()

    async def opened(self, tx: Transaction, query: Query, arguments: Sequence[Any], rows: list[Any]) -> list[Any]:
        self.has_read.set()
        await self.goes_on.wait()
        return rows


async def test_an_id_that_was_read_before_its_scope_was_erased_is_not_kept(bench: Bench) -> None:
    ada, waits = bench.stores.scope("ada"), Waits()
    await bench.commit(ada, "s")
    scopes = Scopes(bench.stores.database.with_vault(lambda: waits))
    finding = asyncio.create_task(scopes.find(ada))
    await waits.has_read.wait()
    await bench.run(await bench.ask("user", "ada", ada))
    scopes.drop_ids(ada.tenant, [await bench.stores.scopes.find(ada) or 0])
    bench.stores.scopes.drop(ada)
    waits.goes_on.set()
    gone = await finding
    back = await bench.stores.scopes.ensure(ada)
    assert back != gone
    assert await scopes.find(ada) == back


async def test_a_record_whose_copy_was_begun_before_its_user_was_forgotten_is_not_stored(bench: Bench) -> None:
    """What keeps it away is looked for beforehand, to say so, and in the transaction that stores it."""
    ada, eve, tenant = bench.stores.scope("ada"), bench.stores.scope("eve"), bench.stores.tenant
    for scope in (ada, eve):
        await bench.commit(scope, "s")
    unless = {who: await bench.asking.unless(who, [new_id()], None, T0) for who in (ada, eve)}
    assert not any([await bench.asking.kept_away(tenant, one) for one in unless.values()])
    await bench.run(await bench.ask("user", "ada", ada))

    async def store(scope: Scope, unless: Unless) -> None:
        scope_id = await Scopes(bench.stores.database).ensure(scope)
        memory = memory_of(turn(new_id(), "s", 0, "user", "a persona"), source_turns=(), unless=unless)
        async with bench.stores.database.transaction(tenant, [scope_id]) as tx:
            changed = await tx.value("bump_scope", tenant, scope_id)
            add_embedding = bench.stores.database.queries["add_embedding"].of_table(bench.postgres.embeddings)
            place = Place(tenant, scope_id, SUBJECT, new_id(), T0)
            await add_own_memory(
                tx, place, memory, "persona", session_id=None, changed=changed, add_embedding=add_embedding
            )

    before = rows(bench, "memories")
    with pytest.raises(Conflict, match="forgotten"):
        await store(ada, unless[ada])
    assert rows(bench, "memories") == before
    await store(eve, unless[eve])
    await store(ada, replace(unless[ada], happened=datetime.now(UTC) + timedelta(seconds=5)))  # she came back
    assert rows(bench, "memories") == before + 2


async def test_what_one_forgets_another_may_have_said_and_called_alike(bench: Bench) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    await bench.commit(ada, "s")
    await bench.run(await bench.ask("session", "s", ada))
    done = await bench.commit(eve, "s", arrived_at=T0)
    assert done.new_turns == 2
    assert (await bench.commit(ada, "s", arrived_at=T0)).new_turns == 0


@pytest.mark.parametrize("came", ["live", "import"])
async def test_few_words_that_are_forgotten_come_back_by_no_import(bench: Bench, came: str) -> None:
    """Too few for a tombstone of their own: a line is known by the id that an export gives it, or by all of it."""
    scope, said = bench.stores.scope("ada"), ("s", "my pin is 4711", None)
    if came == "live":
        await bench.commit(scope, "s", ("my pin is 4711", "noted"))
    else:
        assert await brought(bench, scope, said) == (1, ())
    event_id, memory_id = bench.postgres.psql(
        "SELECT d.source_id, derived_id FROM derivations d JOIN turns ON event_id = d.source_id"
        " WHERE content LIKE '%4711'"
    ).split("|")
    await bench.run(await bench.ask("memory", memory_id, scope))
    exported = ("s", "my pin is 4711", event_id)
    for line in [exported] if came == "live" else [exported, said]:
        stored, failed = await brought(bench, scope, line)
        assert stored == 0 and [one.error for one in failed] == ["was forgotten and is not taken again"], line
    assert await brought(bench, scope, ("s", "my pin is 4711", "said anew")) == (1, ())


async def test_a_source_that_is_forgotten_while_its_line_waits_is_not_stored(bench: Bench) -> None:
    scope = bench.stores.scope("ada")
    await bench.commit(scope, "s")
    assert (await bench.run(await bench.ask("source_id", "doc-1", scope))).receipt["complete"]
    stored, failed = await brought(bench, scope, ("s", "the otter of Bohinj sleeps late", "doc-1"))
    assert stored == 0 and [one.error for one in failed] == ["was forgotten and is not taken again"]
    eve = bench.stores.scope("eve")
    assert await brought(bench, eve, ("s", "the otter of Bohinj sleeps late", "doc-1")) == (1, ())


async def brought(bench: Bench, scope: Scope, line: tuple[str, str, str | None]) -> tuple[int, Any]:
    """One line of an import, at a place of its own: how many turns are stored, and what failed."""
    made, items = chunk(scope, [line], start=next(PLACES))
    content_key = await bench.parts.keys.content_key(scope.tenant)
    labels = {item.turn.event_id: item.session.label for item in items}
    digests = digests_of(content_key, scope, (), [item.turn for item in items], labels)
    held: dict[str, Any] = {"subject_id": SUBJECT, "lane": LANE, "fence": bench.stores.fence, "now": T0}
    done, failed = await bench.stores.imports.commit_import(made, items, digests=digests, **held)
    return done.new_turns, failed


async def test_an_older_copy_is_cleaned_by_the_journal(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await bench.ask("user", "ada", ada)
    await bench.run(erasure_id)
    # As an older copy is: the user is there, and no word of the erasure.
    for table in ("tombstones", "erasures"):
        bench.postgres.psql(f"DELETE FROM {table}")
    bench.stores.scopes.drop(ada)
    await bench.commit(ada, "s")
    assert rows(bench, "turns") == 2
    assert await reapply(Erasing(bench.parts), bench.asking, bench.leader) == 1
    assert rows(bench, "turns") == rows(bench, "scopes") == 0 and rows(bench, "tombstones") > 0
    assert (await bench.run(erasure_id)).receipt["complete"]
    assert await reapply(Erasing(bench.parts), bench.asking, bench.leader) == 0


@pytest.mark.parametrize(("kind", "name"), [("user", "ada"), ("session", "s"), ("project", "p")])
async def test_an_older_copy_is_cleaned_of_others_answers_that_repeat_a_copy(
    bench: Bench, kind: str, name: str
) -> None:
    """They lie in scopes that the line does not name, and have its tombstones."""
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    if kind == "project":
        eve = bench.stores.scope("eve", "q")
    await bench.commit(ada, "s")
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    database = bench.stores.database
    sharing = Sharing(
        database, bench.stores.scopes, AuditLog(database, bench.parts.keys.content_key), bench.postgres.embeddings
    )
    to: Any = "tenant" if kind == "project" else "project"
    copy = (await sharing.share(ada, memory, to, actor="key", now=T0)).copy_id
    answer = f"It was said: {WORDS[0]}."
    repeats, other = (
        given(eve, copy, answer=answer),
        given(eve, copy, "other", answer="That I do not know, I am sorry."),
    )
    for one in (repeats, other):
        assert (await bench.commit_given(eve, one)).new_turns == 2
    bench.postgres.psql(
        f"CREATE SCHEMA older; CREATE TABLE older.turns AS SELECT * FROM turns WHERE content = '{answer}'"
    )
    erasure_id = await bench.ask(kind, name, ada)
    assert (await bench.run(erasure_id)).receipt["complete"]
    for table in ("tombstones", "erasures"):
        bench.postgres.psql(f"DELETE FROM {table}")
    bench.stores.scopes.drop(ada)
    await bench.commit(ada, "s")
    bench.postgres.psql("INSERT INTO turns SELECT * FROM older.turns; DROP SCHEMA older CASCADE")
    assert await reapply(Erasing(bench.parts), bench.asking, bench.leader) == 1
    said = bench.postgres.psql("SELECT content FROM turns ORDER BY 1").splitlines()
    assert said == sorted([QUESTION, QUESTION, other.turns[1].content])
    assert (await bench.run(erasure_id)).receipt["complete"]


async def test_the_probe_finds_what_an_erasure_has_left(bench: Bench) -> None:
    """Otherwise a complete receipt would prove nothing."""
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    await bench.commit(ada, "s")
    await bench.commit(
        eve, "s", ("what eve says is quite another matter altogether", "and so is the answer to it here")
    )
    bench.postgres.psql(
        f'UPDATE sessions SET attributes = \'{{"note": "{WORDS[0]}"}}\' WHERE scope_id = '
        "(SELECT scope_id FROM scopes WHERE user_name = 'eve')"
    )
    job = await bench.run(await bench.ask("user", "ada", ada))
    assert not job.receipt["complete"]
    assert job.receipt["probe"]["found"] == {"sessions.attributes": 1}


async def queued(
    bench: Bench, scope: Scope, digests: Sequence[bytes], *given: UUID, arrived_at: datetime = T0
) -> PortEntry:
    """A request of this user's whose history stands at these places, given a block of these memories; sealed."""
    keys, exchange_id = bench.parts.keys, new_id()
    record = retrieval(exchange_id, *given).record if given else None
    captured = Captured(
        exchange_id=exchange_id, scope=scope, session=SessionRef(new_id(), "other"), mode="on", status="complete",
        reason=None, http_status=200, model="m", arrived_at=arrived_at, finished_at=T0, request=b"{}", answer={},
        digests=tuple(map(Digest, digests)), retrieval=record,
    )  # fmt: skip
    subject = await keys.subject_id(scope.tenant, scope.user)
    binding = Binding(scope.tenant, subject, exchange_id, "exchange")
    sealed = seal(await keys.subject_key(scope.tenant, scope.user), binding, payload.pack_captured(captured))
    return PortEntry(exchange_id, scope.tenant, subject, "exchange", "live", sealed)


async def imported(bench: Bench, scope: Scope, *lines: ImportLine) -> PortEntry:
    keys, exchange_id = bench.parts.keys, new_id()
    chunk = ImportChunk(exchange_id, new_id(), 0, scope, True, "error", T0, lines)
    subject = await keys.subject_id(scope.tenant, scope.user)
    binding = Binding(scope.tenant, subject, exchange_id, "import")
    sealed = seal(await keys.subject_key(scope.tenant, scope.user), binding, payload.pack_import(chunk))
    return PortEntry(exchange_id, scope.tenant, subject, "import", "live", sealed)


def line_of(content: str, source_id: str | None = None, session: str = "s") -> ImportLine:
    return ImportLine(1, session, "user", None, content, T0, source_id, b"l" * 32)


@pytest.mark.parametrize("kind", ["memory", "source_id", "query", "session"])
async def test_dead_letters_that_hold_what_is_forgotten_go_and_others_stay(
    bench: Bench, valkey: ValkeyServer, kind: Any
) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    one = exchange(ada, "s", 0, WORDS)
    said = replace(one.turns[0], source_id="their-1")
    one = replace(one, turns=(said, *one.turns[1:]))
    await bench.stores.write.commit(one, now=T0)
    memory, elsewhere = one.memories[0].memory_id, [b"o" * 32, b"p" * 32]
    goes = [
        await queued(bench, ada, [b"o" * 32, said.chain]),
        await queued(bench, ada, elsewhere, memory),
        await imported(bench, ada, line_of("of another turn"), line_of(WORDS[0])),
        await imported(bench, ada, line_of("worded in another way", "their-1")),
    ]
    stays = [
        await queued(bench, ada, elsewhere, new_id()),
        await imported(bench, ada, line_of("nothing of it is said here", "their-2", "t")),
        await queued(bench, eve, [said.chain]),
    ]
    queue = RedisQueue(valkey.url, lanes=1)
    try:
        for entry in (*goes, *stays):
            await queue.put(entry)
        for delivery in await queue.take(lane_names(1), count=9, block_ms=0):
            await queue.bury(delivery, "a test")
        waits = await queued(bench, ada, [said.chain])
        await queue.put(waits)
        value = {"memory": str(memory), "source_id": "their-1", "query": "herons", "session": "s"}[kind]
        target = Target(kind, value, ada, memory_ids=(memory,) if kind == "query" else ())
        job = await bench.run(await bench.asking.ask(target, datetime.now(UTC)))
        assert job.receipt["complete"] and job.receipt["counts"]["queue_entries"] == len(goes)
        left = {letter.exchange_id for letter in await queue.dead_letters(9)}
        assert left == {entry.exchange_id for entry in stays}
        (delivery,) = await queue.take(lane_names(1), count=9, block_ms=0)
        assert delivery.entry == waits, "what waits is stored without what is forgotten"
    finally:
        await queue.close()


@pytest.mark.parametrize("kind", ["memory", "user"])
async def test_dead_letters_of_others_that_were_shown_a_copy_of_what_is_forgotten_go(
    bench: Bench, valkey: ValkeyServer, kind: Any
) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    one, database = exchange(ada, "s", 0, WORDS), bench.stores.database
    await bench.stores.write.commit(one, now=T0)
    memory = one.memories[0].memory_id
    audit = AuditLog(database, bench.parts.keys.content_key)
    sharing = Sharing(database, bench.stores.scopes, audit, bench.postgres.embeddings)
    copy = (await sharing.share(ada, memory, "project", actor="key", now=T0)).copy_id
    goes, stays = await queued(bench, eve, [b"o" * 32], copy), await queued(bench, eve, [b"p" * 32], new_id())
    sealed_anew = replace(stays, exchange_id=new_id())
    queue = RedisQueue(valkey.url, lanes=1)
    try:
        for entry in (goes, stays, sealed_anew):
            await queue.put(entry)
        for delivery in await queue.take(lane_names(1), count=9, block_ms=0):
            await queue.bury(delivery, "a test")
        target = Target(kind, {"memory": str(memory), "user": "ada"}[kind], ada)
        job = await bench.run(await bench.asking.ask(target, datetime.now(UTC)))
        assert job.receipt["complete"], job.receipt
        left = {letter.exchange_id for letter in await queue.dead_letters(9)}
        assert left == {stays.exchange_id, sealed_anew.exchange_id}, "what cannot be read may be somebody's own"
    finally:
        await queue.close()


def test_a_torn_line_of_the_journal_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "j"
    entry = journal.Entry(UUID(int=1), UUID(int=2), "user", b"d" * 32, T0, (("user", b"d" * 32), ("chain", b"c" * 32)))
    journal.append(path, entry, {"complete": True})
    with path.open("ab") as file:
        file.write(b'{"tenant": "0')
    journal.append(path, replace(entry, erasure=UUID(int=3)), {})
    assert list(journal.entries(path)) == [entry, replace(entry, erasure=UUID(int=3))]
    assert path.stat().st_mode & 0o077 == 0


def test_a_disk_that_takes_a_part_of_a_line_is_given_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, entry = os.write, journal.Entry(UUID(int=1), UUID(int=2), "user", b"d" * 32, T0, ())
    monkeypatch.setattr(os, "write", lambda descriptor, raw: whole(descriptor, bytes(raw)[:7]))
    journal.append(tmp_path / "j", entry, {"complete": True})
    assert list(journal.entries(tmp_path / "j")) == [entry]


async def test_a_full_disk_stops_no_erasure_for_good(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("ada", "eve"):
        await bench.commit(bench.stores.scope(user), "s", (f"what {user} says is no other matter", "and the answer"))
    asked = [await bench.ask("user", user, bench.stores.scope(user)) for user in ("ada", "eve")]
    in_the_way = tmp_path / "full"
    in_the_way.write_text("a file where the journal's directory would be")
    stuck = Erasing(replace(bench.parts, journal=in_the_way / "erasures.ndjson"))
    monkeypatch.setattr(loop, "_RESTED_S", 0.05)
    erasing = asyncio.create_task(loop.keep_erasing(bench.parts.store, bench.leader, stuck, asyncio.Event()))
    try:
        stopped = bench.parts.metrics.erasures.labels("stopped")._value
        async with asyncio.timeout(60):
            while stopped.get() < 4 and not erasing.done():  # both, and again
                await asyncio.sleep(0.05)
            assert not erasing.done() and rows(bench, "turns") == 0
            in_the_way.unlink()
            while await bench.parts.store.waiting():
                await asyncio.sleep(0.05)
    finally:
        erasing.cancel()
    assert {one.erasure for one in journal.entries(in_the_way / "erasures.ndjson")} == set(asked)


async def test_erasures_that_cannot_end_hide_none_that_was_asked_for_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    eve = bench.stores.scope("eve")
    now, digest = datetime.now(UTC), b"d" * 32
    for _ in range(205):  # what was asked is sealed under a key that is gone: two pages, and some
        await bench.parts.store.add(bench.stores.tenant, new_id(), "user", b"unreadable", digest, now)
    last = await bench.ask("user", "eve", eve)
    monkeypatch.setattr(loop, "_RESTED_S", 0.05)
    erasing = asyncio.create_task(
        loop.keep_erasing(bench.parts.store, bench.leader, Erasing(bench.parts), asyncio.Event())
    )
    assert await ended_in_time(bench, last)
    erasing.cancel()


async def test_of_many_erasures_of_one_tenant_one_is_done_before_anothers_first(bench: Bench) -> None:
    order: list[UUID] = []

    class Noting(Erasing):
        async def take_out(self, tenant: UUID, erasure_id: UUID, *args: Any, **keywords: Any) -> Any:
            order.append(tenant)
            return await super().take_out(tenant, erasure_id, *args, **keywords)

    ours, theirs = bench.stores.tenant, new_id()
    bench.postgres.psql(f"INSERT INTO tenants VALUES ('{theirs}', 'theirs', now())")
    now, digest = datetime.now(UTC), b"d" * 32
    for tenant in [*[ours] * 105, theirs]:  # more than a page
        await bench.parts.store.add(tenant, new_id(), "user", b"unreadable", digest, now)
    erasing = asyncio.create_task(
        loop.keep_erasing(bench.parts.store, bench.leader, Noting(bench.parts), asyncio.Event())
    )
    await until(lambda: theirs in order)
    erasing.cancel()
    assert order.index(theirs) <= 1


async def test_an_erasure_that_fails_in_an_unforeseen_way_is_in_no_others_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    stuck = await bench.ask("user", "ada", ada)
    last = await bench.ask("user", "eve", eve)

    class Defective(Erasing):
        async def take_out(self, tenant: UUID, erasure_id: UUID, *args: Any, **keywords: Any) -> Any:
            if erasure_id == stuck:
                raise ValueError("a defect of ours")
            return await super().take_out(tenant, erasure_id, *args, **keywords)

    monkeypatch.setattr(loop, "_RESTED_S", 0.05)
    erasing = asyncio.create_task(
        loop.keep_erasing(bench.parts.store, bench.leader, Defective(bench.parts), asyncio.Event())
    )
    assert await ended_in_time(bench, last)
    assert not erasing.done(), "and the loop goes on"
    erasing.cancel()
    assert bench.parts.metrics.erasures.labels("stopped")._value.get() >= 1


async def ended_in_time(bench: Bench, erasure_id: UUID) -> bool:
    for _ in range(400):
        job = await bench.parts.store.get(bench.stores.tenant, erasure_id)
        if job is not None and job.finished_at is not None:
            return True
        await asyncio.sleep(0.05)
    return False


async def test_a_store_that_is_away_leaves_the_job(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await bench.ask("user", "ada", ada)

    class Away(EraseStore):
        async def delete(self, *args: Any, **keywords: Any) -> Any:
            raise StoreUnavailable("away")

    fence = await bench.leader.lead(60)
    assert fence is not None
    away = Away(bench.stores.database, bench.postgres.embeddings)
    with pytest.raises(StoreUnavailable):
        await Erasing(replace(bench.parts, store=away)).run(bench.stores.tenant, erasure_id, fence)
    assert await bench.parts.store.waiting() == [(bench.stores.tenant, erasure_id)]
    assert (await bench.run(erasure_id)).receipt["complete"]


async def test_no_statement_of_an_erasure_is_given_more_than_it_can_do_in_its_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 400,000 tombstones of a user of 100,000 turns took all of the minute that a statement has, and none stood."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    await bench.commit(ada, "t", ("nothing of the kind was ever said before", "nor was it said of anybody else"))
    given, modes = dict[str, list[int]](), set[str]()
    run, fetch, value = Transaction.run, Transaction.fetch, Transaction.value

    async def seen(tx: Transaction, query: str | Query, *arguments: Any) -> int:
        name = query if isinstance(query, str) else query.name
        given.setdefault(name, []).append(max((len(one) for one in arguments if isinstance(one, list)), default=0))
        return await run(tx, query, *arguments)

    async def words_are_read_before(tx: Transaction, query: str | Query, *arguments: Any) -> list[Any]:
        assert query != "turns_to_erase" or len(arguments[-1]) <= 2_000, "those of a user of years are gigabytes"
        return await fetch(tx, query, *arguments)

    async def gone(tx: Transaction, query: str | Query, *arguments: Any) -> Any:
        if query == "erase_rows":
            given.setdefault(arguments[1], []).append(len(arguments[2]))
            modes.add(await tx._connection.fetchval("SHOW plan_cache_mode"))
        return await value(tx, query, *arguments)

    for module in (erase_jobs, erase_store):
        monkeypatch.setattr(module, "IDS_AT_ONCE", 3, raising=False)
    monkeypatch.setattr(Transaction, "run", seen)
    monkeypatch.setattr(Transaction, "value", gone)
    monkeypatch.setattr(Transaction, "fetch", words_are_read_before)
    memories = rows(bench, "memories")
    receipt = (await bench.run(await bench.ask("user", "ada", ada))).receipt
    assert receipt["complete"]
    assert receipt["counts"]["memories"] == receipt["counts"]["memory_versions"] == memories
    assert modes == {"auto"}, "else what each row's foreign keys ask is planned for each row: 9.4 s for 1,000 memories"
    assert max(given["memory_id"]) <= 3 < sum(given["memory_id"]) == memories
    assert max(given["add_tombstones"]) <= 3 < sum(given["add_tombstones"])
    assert max(given["add_erasure_items"]) <= 3 < sum(given["add_erasure_items"])


async def test_of_a_project_of_many_users_some_are_looked_at_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sees 50,000 scopes has each row held against them, and was asked for each of them who else sees it."""
    for n in range(5):
        await bench.commit(bench.stores.scope(f"user {n}"), "s", (f"{n} said so and so of it", f"{n} was told of it"))
    await bench.commit(bench.stores.scope("ada", "q"), "s")
    given, fetch = dict[str, list[int]](), Transaction.fetch

    async def seen(tx: Transaction, query: str | Query, *arguments: Any) -> list[Any]:
        if query in ("turns_to_erase", "scopes_that_see"):
            given.setdefault(str(query), []).append(len(arguments[1]))
        return await fetch(tx, query, *arguments)

    monkeypatch.setattr(erase_store, "SCOPES_AT_ONCE", 2, raising=False)
    monkeypatch.setattr(Transaction, "fetch", seen)
    receipt = (await bench.run(await bench.ask("project", "p", bench.stores.scope("user 1")))).receipt
    assert receipt["complete"] and receipt["counts"]["turns"] == 10
    assert rows(bench, "turns") == 2
    assert max(given["turns_to_erase"]) <= 4, "the turns of two of them"
    assert len(given["scopes_that_see"]) == 1


async def test_a_project_of_many_users_is_deleted_some_of_them_at_a_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sees 50,000 scopes has each row held against them: no statement of it ended within its minute."""
    for n in range(5):
        await bench.commit(bench.stores.scope(f"user {n}"), "s", (f"{n} said so and so of it", f"{n} was told of it"))
    await bench.commit(bench.stores.scope("ada", "q"), "s")
    given, asked = dict[str, list[int]](), ("memories_of_scopes", "turns_gone", "labels_of_scopes", "scope_id")
    fetch, run, value = Transaction.fetch, Transaction.run, Transaction.value

    async def fetched(tx: Transaction, query: str | Query, *arguments: Any) -> list[Any]:
        if query in asked:
            given.setdefault(str(query), []).append(len(arguments[1]))
        return await fetch(tx, query, *arguments)

    async def ran(tx: Transaction, query: str | Query, *arguments: Any) -> int:
        if query == "unname_events":
            given.setdefault(query, []).append(len(arguments[1]))
        return await run(tx, query, *arguments)

    async def gone(tx: Transaction, query: str | Query, *arguments: Any) -> Any:
        if query == "erase_rows":
            given.setdefault(arguments[1], []).append(len(arguments[2]))
        return await value(tx, query, *arguments)

    monkeypatch.setattr(erase_store, "SCOPES_AT_ONCE", 2)
    monkeypatch.setattr(Transaction, "fetch", fetched)
    monkeypatch.setattr(Transaction, "run", ran)
    monkeypatch.setattr(Transaction, "value", gone)
    receipt = (await bench.run(await bench.ask("project", "p", bench.stores.scope("user 1")))).receipt
    assert receipt["complete"]
    assert {name: receipt["counts"][name] for name in ("scopes", "sessions", "turns", "memories", "derivations")} == {
        "scopes": 5, "sessions": 5, "turns": 10, "memories": 10, "derivations": 10,
    }  # fmt: skip
    assert rows(bench, "turns") == rows(bench, "memories") == rows(bench, "derivations") == 2
    assert {name: max(given[name]) for name in asked} == dict.fromkeys(asked, 2)
    assert given["unname_events"] == [0], "the feed of scopes that go whole goes with them"


async def test_the_turns_of_a_user_are_read_by_pages_and_looked_for_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page of 2,000 sorted all of the user's by id, and read them for it: of 100,000 turns 50 times."""
    ada = bench.stores.scope("ada")
    made = [await bench.commit(ada, session) for session in ("s", "t")]
    asked, fetch = list[str](), Transaction.fetch

    async def seen(tx: Transaction, query: str | Query, *arguments: Any) -> list[Any]:
        asked.append(str(query))
        return await fetch(tx, query, *arguments)

    monkeypatch.setattr(erase_store, "_PAGE_ROWS", 1)
    monkeypatch.setattr(Transaction, "fetch", seen)
    store, scope_id = bench.parts.store, made[0].scope_id
    pages = [page async for page in store.turns(ada.tenant, [scope_id], [], [], [scope_id])]
    assert sorted(one.content for (one,) in pages) == sorted(2 * WORDS)
    assert asked == ["turns_gone", *["turns_to_erase"] * 4]
    memories = [one async for page in store.own_ids(ada.tenant, [scope_id]) for one, _, _ in page]
    assert len(set(memories)) == len(memories) == 4


async def test_a_dry_run_of_one_users_makes_out_no_others_scopes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of 50,000 were read three to five times for a dry run of one, and held up all chats for .7 s."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    bench.postgres.psql(
        f"INSERT INTO scopes (tenant_id, user_name, project, agent) SELECT '{ada.tenant}', 'crowd-' || n, 'default',"
        " 'default' FROM generate_series(1, 500) n"
    )
    made_out: list[str] = []

    def named(row: Any) -> Any:
        made_out.append(row["user_name"])
        return real(row)

    real = erase_store._named
    monkeypatch.setattr(erase_store, "_named", named)
    memory = UUID(bench.postgres.psql("SELECT memory_id FROM memory_versions WHERE content LIKE '%silver%'"))
    kinds: dict[Any, str] = {"user": "ada", "session": "s", "memory": str(memory)}
    for kind, value in kinds.items():
        target = Target(kind, value, ada)
        _, turns, memories = await bench.asking.remembered(target)
        assert turns and str(memory) in memories
        assert await bench.asking.labels(target, [memory])
    assert set(made_out) == {"ada"}


async def test_a_dry_run_of_a_project_of_thousands_holds_up_nobody(bench: Bench) -> None:
    """That of one of 50,000 users with five memories each held the proxy's event loop for 7 s, all chats with it."""
    users, each = 20_000, 10
    scopes = [Named(number, f"crowd-{number}", "boat", "default", "own") for number in range(users)]
    ids = {UUID(int=number): number % users for number in range(users * each)}

    class Crowd(EraseStore):
        async def plan(self, target: Target) -> Plan:
            return Plan(scopes=tuple(scopes))

        async def turns_named(self, *asked: Any) -> AsyncIterator[dict[UUID, int]]:
            for some in some_of(list(ids.items()), 2_000):
                await asyncio.sleep(0)
                yield dict(some)

        async def reach(self, *asked: Any) -> dict[UUID, int]:
            return dict(ids)

    async def longest_of_others() -> None:
        while True:
            began_s = time.thread_time()  # of the loop's own thread: a machine that is busy does not matter
            await asyncio.sleep(0.001)
            held_s.append(time.thread_time() - began_s)

    held_s = [0.0]
    other = asyncio.create_task(longest_of_others())
    store = Crowd(bench.stores.database, bench.postgres.embeddings)
    target = Target("project", "boat", bench.stores.scope("ada"))
    _, turns, memories = await Asking(store, bench.parts.keys).remembered(target)
    await asyncio.sleep(0.01)  # the last go is counted
    other.cancel()
    assert len(turns) == len(memories) == users * each
    assert max(held_s) < 0.15, sorted(held_s)[-5:]
