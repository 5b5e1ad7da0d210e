"""What is asked again and again and fails each time is said once a minute, not at every look."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from memory import seldom, settling
from memory.adapters.served_model import can_be_loaded
from memory.adapters.spool import OrphanFinder
from memory.audit import Journal
from memory.canary import Canaries, keep_planting, token_of
from memory.config import Settings
from memory.erasure import loop
from memory.errors import QueueUnavailable, StoreUnavailable
from memory.key_table import OpenedKey
from memory.ports import Entry
from memory.read.ledger import Ledgers
from memory.read.working import WorkingContexts
from memory.seldom import Lasting, Seldom
from memory.serving import StoredModel
from memory.telemetry import Metrics
from memory.write import lanes
from memory.write.hand_off import HandOff
from memory.write.meter import NoMeter
from memory.write.pipeline import WritePath
from policies.key_limits import KeyLimits
from proxy import limits, worker
from proxy.auth import KeyedDoor
from proxy.capture import Capture
from proxy.identity import Credential
from proxy.limits import KeyUse

LOOKS = 5


class Away:
    """Stores that do not answer."""

    async def all_active(self, now: datetime) -> Mapping[bytes, OpenedKey]:
        raise StoreUnavailable("away")

    async def record(self, notes: Any) -> None:
        raise StoreUnavailable("away")

    async def take(self, *asked: Any) -> Any:
        raise QueueUnavailable("away")

    async def spend(self, *asked: Any) -> None:
        raise QueueUnavailable("away")

    async def put(self, entry: Entry) -> None:
        raise QueueUnavailable("away")

    async def put_all(self, entries: Sequence[Entry]) -> None:
        raise QueueUnavailable("away")

    async def ping_for_writes(self) -> None:
        raise QueueUnavailable("away")


def said(caplog: pytest.LogCaptureFixture, what: str) -> int:
    return sum(what in record.getMessage() for record in caplog.records)


def test_the_same_is_due_again_after_a_minute_and_another_thing_at_once() -> None:
    now_s = 0.0
    said = Seldom(60.0, lambda: now_s)
    assert [said.due("one"), said.due("one"), said.due("other")] == [True, False, True]
    now_s = 59.0
    assert not said.due("one")
    now_s = 60.0
    assert [said.due("one"), said.due("one")] == [True, False]


def test_what_is_usual_at_a_start_is_due_once_it_lasts() -> None:
    now_s = 0.0
    lasting = Lasting(20.0, lambda: now_s)
    assert not lasting.due("one")
    now_s = 20.0
    assert [lasting.due("one"), lasting.due("one"), lasting.due("other")] == [True, False, True]


@pytest.mark.parametrize("after_s", [0.0, 60.0])
async def test_a_start_that_waits_for_a_store_says_for_what(
    after_s: float, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy worker and a memory worker: the one that is served is known to neither."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(seldom, "USUAL_S", after_s)
    monkeypatch.setattr(settling, "ASK_AGAIN_S", 0.001)
    monkeypatch.setattr(worker, "_RETRY_S", 0.001)
    looks, over, stop = 0, asyncio.Event(), asyncio.Event()

    async def away(*_: object) -> None:
        nonlocal looks
        looks += 1
        if looks > LOOKS:
            over.set()
            wired.readiness.started = True
        raise StoreUnavailable("away")

    wired = SimpleNamespace(readiness=SimpleNamespace(started=False), base=SimpleNamespace(metrics=None))
    monkeypatch.setattr(worker, "bring_up", away)
    monkeypatch.setattr(worker, "warm", lambda _: None)
    assert await settling.until_settled(cast(Any, SimpleNamespace(serving=away)), over) is None
    looks, wired.readiness.started = 0, False
    await worker._start(cast(Any, wired), stop)
    for event in ("not_there_yet", "not_up_yet"):
        levels = [record.levelname for record in caplog.records if record.getMessage() == event]
        assert len(levels) > LOOKS and levels.count("WARNING") == (after_s == 0.0), event


def test_a_queue_that_a_worker_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    """Every fifth second of a night is five thousand times."""
    nag = lanes.Nag(clock=iter((1.0, 7.0, 59.0, 62.0)).__next__)
    for _ in range(4):
        nag.say("waiting for the queue", QueueUnavailable("away"))
    assert said(caplog, "waiting for the queue") == 2


async def test_canaries_whose_store_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """Looked at twice a second, planted every tenth."""
    looks = 0

    async def tenants() -> list[tuple[UUID, str]]:
        nonlocal looks
        looks += 1
        raise StoreUnavailable("away")

    store, nothing = cast(Any, SimpleNamespace(tenants=tenants)), cast(Any, None)
    canaries = Canaries(nothing, store, nothing, Metrics(CollectorRegistry()))
    canaries.look(UUID(int=1), "answer", token_of(bytes(32), UUID(int=2)).encode())
    tasks = [
        asyncio.create_task(canaries.keep_examining(0.001)),
        asyncio.create_task(keep_planting(store, nothing, nothing, every_s=0.001)),
    ]
    while looks < 4 * LOOKS:
        await asyncio.sleep(0.001)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert (said(caplog, "canaries_not_examined"), said(caplog, "canaries_not_planted")) == (1, 1)


async def test_a_key_table_that_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    door = KeyedDoor(Away(), stale_max_s=60)
    for _ in range(LOOKS):
        await door.read()
    assert said(caplog, "key_table_unreadable") == 1


async def test_limits_that_each_process_counts_alone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AWAY_S", 0.0)
    use, key = KeyUse(Away()), Credential(UUID(int=1), UUID(int=2), limits=KeyLimits(requests_per_minute=100))
    for _ in range(LOOKS):
        await use.admit(key)
    assert said(caplog, "limits_counted_alone") == 1


async def test_an_audit_log_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(Away(), Metrics(CollectorRegistry()))
    for tenant in (1, 2):
        journal.note(UUID(int=tenant), "open", "export")
    for _ in range(LOOKS):
        await journal.write()
    assert said(caplog, "audit_postponed") == 2


async def test_erasures_that_cannot_go_on(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is away, and erasures that each stop in it: every five seconds all of a night."""
    monkeypatch.setattr(loop, "POLL_S", 0.001)
    monkeypatch.setattr(loop, "_RESTED_S", 0.001)
    asked, stores = 0, [StoreUnavailable("away")] * LOOKS

    async def waiting(*_: object, after: UUID | None = None) -> list[tuple[UUID, UUID]]:
        if stores:
            raise stores.pop()
        return [] if after else [(UUID(int=1), UUID(int=2)), (UUID(int=1), UUID(int=3))]

    async def stops(*_: object) -> None:
        nonlocal asked
        asked += 1
        raise StoreUnavailable("away")

    async def leads(_: float) -> int:
        return 1

    async def resigns() -> None:
        return None

    erasing = SimpleNamespace(parts=SimpleNamespace(metrics=Metrics(CollectorRegistry())), take_out=stops)
    store, leader = SimpleNamespace(waiting=waiting), SimpleNamespace(lead=leads, resign=resigns)
    task = asyncio.create_task(
        loop.keep_erasing(cast(Any, store), cast(Any, leader), cast(Any, erasing), asyncio.Event())
    )
    while asked < 2 * LOOKS:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
    assert (said(caplog, "erasure_waits"), said(caplog, "erasure_stopped")) == (1, 2)


async def test_what_each_request_asks_of_a_redis_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """A request has one line, and that says so; four more for each would be most of a night's log."""

    async def away(*_: object) -> None:
        raise QueueUnavailable("away")

    async def gone(*_: object) -> None:
        raise StoreUnavailable("away")

    scope, nothing = cast(Any, SimpleNamespace(tenant=UUID(int=1))), cast(Any, None)
    metrics, key = Metrics(CollectorRegistry()), SimpleNamespace(chain_key=gone)
    bounds, known = cast(Any, SimpleNamespace()), cast(Any, lambda: ([], {}))
    capture = Capture(nothing, nothing, cast(Any, key), bounds, metrics)
    ledgers = Ledgers(nothing, nothing, nothing, nothing, metrics, nothing, str)
    working = WorkingContexts(cast(Any, SimpleNamespace(keys=key)))
    writing = WritePath(cast(Any, SimpleNamespace(metrics=metrics, keys=key, announcer=SimpleNamespace(announce=away))))
    done = cast(Any, SimpleNamespace(scope_id=1, scope_version=1))
    for number in range(LOOKS):
        await capture._remember(scope, nothing, known)
        await ledgers.noted(away())
        assert (await ledgers.in_time(asyncio.create_task(away()), 1.0)).fault  # type: ignore[arg-type]
        assert await working.follow(scope, UUID(int=number)) is None
        await writing._announce(scope, done)
    for event in ("session_not_remembered", "ledger_not_noted", "ledger_not_read", "no_working_context"):
        assert said(caplog, event) == 1, event
    assert said(caplog, "not_announced") == 1


def test_a_model_whose_files_are_gone(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """A worker whose start waits for them looks again every five seconds."""
    gone = StoredModel(1, "gone", "0" * 64, 384, tmp_path / "gone", "table")
    settings, once = Settings.model_validate({"embedding": {"cache_dir": str(tmp_path)}}), Seldom()
    assert not any(can_be_loaded(settings, gone, said=once) for _ in range(LOOKS))
    assert said(caplog, "model_not_here") == 1


async def test_an_orphaned_spool_that_cannot_be_read(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "of-another-kind.spool").mkdir()
    find = OrphanFinder(tmp_path)
    for _ in range(LOOKS):
        assert await find() == []
    assert said(caplog, "an orphaned spool cannot be read") == 1


async def test_envelopes_that_cannot_be_moved_to_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    hand_off = HandOff(Away(), None, hold_ms=1.0, memory_bytes_max=1 << 20, meter=NoMeter(), retry_s=0.001)
    entry = Entry(UUID(int=3), UUID(int=1), UUID(int=2), "exchange", "live", b"sealed")
    assert await hand_off.hand_off(entry) == "none"
    moving = asyncio.create_task(hand_off.keep_draining())
    await asyncio.sleep(0.2)
    moving.cancel()
    await asyncio.wait([moving])
    assert said(caplog, "cannot be moved yet") == 1
