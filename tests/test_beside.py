"""What runs beside the lanes: its faults are told, it begins anew, and it ends with them."""

from __future__ import annotations

import asyncio
import errno
import logging
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory import beside as module
from memory.beside import beside
from memory.ids import new_id
from memory.model import Scope
from memory.telemetry import Metrics
from memory.write.documents_loop import DocumentsLoop
from memory.write.outside import Asked, LooksBehind
from policies.labels import Sensitivity
from proxy import worker
from proxy.wiring.wire import Wired


async def test_a_job_that_fails_is_told_of_and_begins_anew_while_the_others_go_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, begun, ended, metrics = 0, 0, asyncio.Event(), Metrics()
    monkeypatch.setattr(module, "REST_S", 0.01)

    async def fails() -> None:
        nonlocal begun
        begun += 1
        if begun <= 2:
            raise OSError(errno.ENOSPC, "the disk is full")
        await asyncio.Event().wait()

    async def goes_on() -> None:
        nonlocal turns
        try:
            while True:
                turns += 1
                await asyncio.sleep(0)
        finally:
            ended.set()

    with caplog.at_level(logging.ERROR, "memory_proxy.memory"):
        async with beside({"retention": fails, "episodes": goes_on}, metrics), asyncio.timeout(20):
            before = turns
            for _ in range(10):
                await asyncio.sleep(0)
            assert turns > before + 5
            while begun < 3:
                await asyncio.sleep(0.005)
    assert ended.is_set() and begun == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"retention failed in an unforeseen way; it begins anew in {rest_s} s" for rest_s in (0, 0)
    ]
    assert metrics.work.labels("unforeseen")._value.get() == 2
    assert caplog.records[0].exc_info is not None and "the disk is full" in str(caplog.records[0].exc_info[1])


async def test_a_job_that_fails_while_it_is_ended_does_not_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last words may meet a full disk: the process would wait for it until it is killed, with all that it holds."""
    begun, metrics = 0, Metrics()
    monkeypatch.setattr(module, "REST_S", 0.01)

    async def writes_at_the_end() -> None:
        nonlocal begun
        begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            if begun == 1:
                raise OSError(errno.ENOSPC, "the disk is full")

    async with asyncio.timeout(5), beside({"counts": writes_at_the_end}, metrics):
        await asyncio.sleep(0)
    assert begun == 1
    assert metrics.work.labels("unforeseen")._value.get() == 1


async def test_what_runs_beside_the_requests_can_begin_anew_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy worker's jobs are kept going as a memory worker's are: each can be begun a second time."""

    async def job(*_: object) -> None:
        """Ends at once."""

    one = SimpleNamespace(
        keep_probing=job, keep_draining=job, keep_up=job, follow=job, keep_writing=job, keep_examining=job,
        keep_looking=job, announcements=None,
    )  # fmt: skip
    queued = SimpleNamespace(hand_off=one, hot_state=one)
    wired = SimpleNamespace(
        readiness=one, base=SimpleNamespace(queued=queued, passages=one), reading=SimpleNamespace(hot=one, load=one),
        follower=one, journal=one, canaries=one, hears=one, door=None,
    )  # fmt: skip
    monkeypatch.setattr("proxy.wiring.wire.keep_trimming", job)
    jobs = Wired.background.fget(wired)  # type: ignore[attr-defined]
    assert len(jobs) == 10
    for begin in jobs.values():
        await begin()
        await begin()


async def test_a_start_that_fails_in_a_way_nobody_foresaw_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the worker would serve without memory, and say that it starts, until somebody ended it."""
    tried, readiness, metrics = 0, SimpleNamespace(started=False), Metrics()

    async def bring_up(wired: Wired) -> None:
        nonlocal tried
        tried += 1
        if tried == 1:
            raise RuntimeError("the transport is closed")
        readiness.started = True

    monkeypatch.setattr(module, "REST_S", 0.01)
    monkeypatch.setattr(worker, "bring_up", bring_up)
    wired = SimpleNamespace(base=SimpleNamespace(metrics=metrics), readiness=readiness)
    await worker.begun(cast(Wired, wired), asyncio.Event())
    assert tried == 2
    assert "start failed in an unforeseen way" in caplog.text


class Broken:
    """Has one upload after another to store, and fails as nobody foresaw."""

    async def take(self, _lease_s: float) -> object:
        return SimpleNamespace(takes=1, upload_id="u")

    async def keep(self, *_: object) -> bool:
        return True

    async def store(self, *_: object) -> None:
        await asyncio.sleep(0)
        raise KeyError("a defect of ours")

    look = store


@pytest.mark.parametrize("what", ["documents", "outside"])
async def test_an_upload_or_a_look_outside_that_meets_a_defect_is_counted_and_the_loop_goes_on(what: str) -> None:
    broken, metrics = cast(Any, Broken()), Metrics()
    if what == "documents":
        run = DocumentsLoop(broken, broken, metrics, lambda: datetime.now(UTC), asyncio.Event()).run
    else:
        looks = LooksBehind(broken, broken, broken, metrics, lambda: datetime.now(UTC))
        for _ in range(2):
            looks._waiting.put_nowait(Asked(Scope(new_id()), "What is new?", Sensitivity.INTERNAL, (), ()))
        run = looks.run
    running = asyncio.create_task(run())
    async with asyncio.timeout(10):
        while metrics.work.labels("unforeseen")._value.get() < 2:
            await asyncio.sleep(0.01)
            assert not running.done()
    running.cancel()
    await asyncio.wait([running])
