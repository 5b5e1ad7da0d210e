"""The benchmark of the write path: its traffic is that of clients, and its stop-watch counts what it says."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import consolidate, reembed
from bench.consolidate import Nightly
from bench.hygiene import Exchange, Model, unquoted
from bench.overhead.processes import NotStarted
from bench.recall.client import CallFailed
from bench.search_times.service import Served
from bench.worker.__main__ import main, parse_arguments
from bench.worker.envelopes import captured_of
from bench.worker.lag import lags
from bench.worker.live import Chat
from bench.worker.report import catch_up_table, lag_table, throughput_table
from bench.worker.stage import Depth
from bench.worker.steps import STEPS, StepClock, thread_cpu_s
from bench.worker.talks import SESSION_EXCHANGES_MAX, SETS, Recorded, Traffic
from bench.worker.throughput import per_exchange, thirds
from memory import payload
from memory.model import Scope
from memory.write.turns import body_of, messages_of

KEY = b"k" * 32


def session_of(name: str, length: int) -> Recorded:
    return tuple(
        Exchange(({"role": "user", "content": f"{name} {n}"},), f"answer to {name} {n}") for n in range(length)
    )


def traffic(**more: Any) -> Traffic:
    sets = {"short": [session_of("short", 2)], "long": [session_of("long", 9), session_of("other", 7)]}
    return Traffic(sets, {"short": 1, "long": 3}, more.pop("prefix", "t"))


def spin(seconds: float) -> None:
    """Compute for so long."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        hashlib.sha256(b"x" * 1000).digest()


def test_a_session_is_sent_as_a_client_sends_it() -> None:
    talks = traffic()
    seen: dict[str, list[Any]] = {}
    for _ in range(500):
        sent = talks.take()
        before = seen.setdefault(sent.talk.label, [])
        assert sent.messages[: -sent.fresh] == tuple(before)
        talks.answered(sent, sent.answer)
        before += [*sent.messages[-sent.fresh :], {"role": "assistant", "content": sent.answer}]
    assert len({label for label, said in seen.items() if len(said) > 2}) > 20


def test_a_session_that_waits_for_its_answer_says_nothing() -> None:
    talks = traffic()
    under_way = [talks.take() for _ in range(200)]
    assert len({sent.talk.label for sent in under_way}) == 200


def test_sets_have_their_shares_and_traffic_is_the_same_each_time() -> None:
    first, again = ([], [])  # type: tuple[list[str], list[str]]
    for texts in (first, again):
        talks = traffic()
        for _ in range(3_000):
            sent = talks.take()
            texts.append(sent.messages[-1]["content"])
            talks.answered(sent, sent.answer)
    assert first == again
    assert sum(text.startswith("short") for text in first) / len(first) == pytest.approx(0.25, abs=0.06)


def test_two_traffics_share_no_user() -> None:
    users = [{one.take().talk.user for _ in range(100)} for one in (traffic(prefix="a"), traffic(prefix="b"))]
    assert users[0].isdisjoint(users[1])


def test_what_goes_into_the_queue_is_read_as_the_proxy_s(tmp_path: Any) -> None:
    talks = traffic()
    for _ in range(30):
        sent = talks.take()
        talks.answered(sent, sent.answer)
    sent = next(one for one in (talks.take() for _ in range(60)) if len(one.messages) > 2)
    captured = payload.unpack_captured(payload.pack_captured(captured_of(sent, Scope(UUID(int=1), "u"), KEY)))
    said = messages_of(captured, body_of(captured), KEY)
    assert [one.value["content"] for one in said] == [*(m["content"] for m in sent.messages), sent.answer]
    assert captured.retrieval is not None and len(captured.retrieval.candidates) == 20


def test_a_call_counts_its_own_cpu_and_not_that_of_what_it_calls() -> None:
    clock = StepClock()

    def outer() -> str:
        spin(0.02)
        clock.call("inner", lambda: spin(0.06))
        return "done"

    assert clock.call("outer", outer) == "done"
    assert clock.spent_ns["inner"] / 1e9 == pytest.approx(0.06, rel=0.2)
    assert clock.spent_ns["outer"] / 1e9 == pytest.approx(0.02, rel=0.3)


async def test_a_coroutine_counts_its_own_runs_and_not_what_runs_while_it_waits() -> None:
    clock = StepClock()

    async def work(seconds: float) -> str:
        spin(seconds)
        await asyncio.sleep(0.02)
        spin(seconds)
        return "done"

    async def others() -> None:
        for _ in range(5):
            spin(0.02)
            await asyncio.sleep(0)

    found = await asyncio.gather(clock.drive("a", work(0.02)), clock.drive("b", work(0.005)), others())
    assert found[:2] == ["done", "done"]
    assert clock.spent_ns["a"] / 1e9 == pytest.approx(0.04, rel=0.3)
    assert clock.spent_ns["b"] / 1e9 == pytest.approx(0.01, rel=0.5)


async def test_errors_and_cancellations_go_through_the_stop_watch() -> None:
    clock, cleaned = StepClock(), asyncio.Event()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("x")

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    with pytest.raises(KeyError):
        await clock.drive("fails", fails())

    async def driven() -> None:
        await clock.drive("waits", waits())

    task = asyncio.create_task(driven())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()
    clock.call("after", lambda: spin(0.01))  # nothing is left running on this thread
    assert clock.spent_ns["waits"] < 5e6


def test_threads_are_told_apart_by_name() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="embed-documents") as pool:
        pool.submit(spin, 0.05).result()
        assert thread_cpu_s("embed-documents") >= 0.04
        assert thread_cpu_s("nobody") == 0.0


def test_steps_add_up_to_what_the_process_used() -> None:
    took = {
        "entries": 10, "wall_s": 2.0, "cpu_s": 1.0, "embed_thread_s": 0.5,
        "steps_s": {"redact": 0.1, "embed": 0.05}, "calls": {"windows": 30},
    }  # fmt: skip
    found = per_exchange(took)
    assert found["per_second"] == 5 and found["windows_per_exchange"] == 3
    assert sum(found["cpu_ms_by_step"].values()) == pytest.approx(100)
    assert found["cpu_ms_by_step"]["embed"] == pytest.approx(55)
    assert set(found["cpu_ms_by_step"]) == {*STEPS, "rest"}


@given(st.lists(st.integers(1, 50), min_size=9, max_size=60))
def test_thirds_tell_whether_it_slows_down(done: list[int]) -> None:
    left = list(itertools.accumulate(done, lambda total, one: total - one, initial=sum(done)))
    seen = [Depth(float(at), waiting, 0.0) for at, waiting in enumerate(left)]
    rates = thirds(seen)
    assert len(rates) == 3 and all(1 <= rate <= 50 for rate in rates)


def chat(lag_s: float | None, found_s: float | None = None) -> Chat:
    stored = None if lag_s is None else 10.02 + lag_s
    found = None if found_s is None else 10.02 + found_s
    return Chat(UUID(int=1), 10.0, 10.02, 5.0, "empty", "queue", stored, found)


def test_lags_are_told_and_a_chat_that_is_not_stored_is_a_failure() -> None:
    told = lags([chat(0.1, 0.2), chat(0.3), chat(0.2)])
    assert told["lag_s"]["p50"] == pytest.approx(0.2) and told["search_lag_s"]["count"] == 1
    assert told["client_ms"]["p50"] == pytest.approx(20) and told["degraded"] == 0
    with pytest.raises(RuntimeError, match="1 of 2 chats are not stored"):
        lags([chat(0.1), chat(None)])


def test_reports_can_be_read() -> None:
    steps = {"entries": 1, "wall_s": 1, "cpu_s": 1, "embed_thread_s": 0, "steps_s": {}, "calls": {}}
    run = {
        "mix": "mixed", "exchanges": 5, "chars_per_exchange": 9.0, "per_second": 20.0, "per_second_by_third": [1, 2, 3],
        "cpu_ms_per_exchange": {"worker": 60.0}, "timed": per_exchange(steps),
    }  # fmt: skip
    assert "worker" in throughput_table([run]) and "embed" in throughput_table([run])
    spreads = lags([chat(0.1), chat(0.3)])
    paced = {"per_second": 15.0, "seconds": 9.0, "mix": "mixed", "import_turns": 0, "cores_used": {"proxy": 0.1}}
    queue = {"p50": 1, "max": 2, "oldest_s_max": 0.5}
    assert "15.0 exchanges a second" in lag_table({**paced, **spreads, "queue": queue})
    counted = {"exchanges": 9, "missing": 0, "turns_missing": 0, "turns_with_two_memories": 0}
    late = {
        **run, "backlog": 9, "scale": 0.1, "seconds": 3.0, "chats_per_second": 2.0, "queue_mib": {"idle": 1, "peak": 2},
        "worker_mib": {"before": 1, "after": 2, "peak": 3}, "cores_used": {}, "before": spreads, "stopped": spreads,
        "catching": spreads, "stored_before_the_backlog": 0.5, "counted": counted,
    }  # fmt: skip
    assert "9 exchanges waited" in catch_up_table(late)


def test_the_command_line_is_held_to_its_bounds(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    every = parse_arguments([])
    assert every.throughput and every.lag and every.catch_up and set(every.mixes) == set(SETS)
    assert not parse_arguments(["--lag"]).throughput
    for wrong in (["--mixes", "nobody"], ["--scale", "2"], ["--exchanges", "0"]):
        with pytest.raises(SystemExit):
            parse_arguments(wrong)
    assert SESSION_EXCHANGES_MAX > 1
    assert main(["--lag", "--data", str(tmp_path)]) == 2
    assert "locomo" in capsys.readouterr().err


def test_a_loop_in_which_nothing_is_quoted_feeds_nothing_back() -> None:
    model = Model()
    assert model._quotation("What is my boat called?", 1).startswith("I have nothing")
    assert unquoted(model) == ["no memory was quoted, so the loop shows nothing"]
    assert "Halcyon" in model._quotation("<memory>\n[user] My boat is Halcyon.\n</memory>\n\nAnd mine?", 2)
    assert unquoted(model) == []


async def test_a_consolidation_that_fails_is_no_quick_one(tmp_path: Path) -> None:
    for script, fails in (("raise SystemExit('no room')", True), ("", False)):
        nightly = Nightly(tmp_path)
        nightly._argv = [sys.executable, "-c", script]
        await nightly.begin()
        while nightly.runs:
            await asyncio.sleep(0.02)
        if fails:
            with pytest.raises(NotStarted, match="no room"):
                nightly.ended_well()
        else:
            nightly.ended_well()


@pytest.mark.parametrize("module", [consolidate, reembed], ids=["consolidate", "reembed"])
async def test_what_runs_beside_the_chats_ends_with_a_bench_that_cannot_go_on(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a session of its own, so nobody else ends it."""
    begun: list[int] = []

    async def nothing(*_: object) -> Any:
        return {}

    async def sleeping(self: Any, *_: object) -> Any:
        argv = (sys.executable, "-c", "import time; time.sleep(600)")
        self._process = await asyncio.create_subprocess_exec(*argv, start_new_session=True)
        begun.append(self._process.pid)
        return self._process

    async def block(self: Any, seconds: float, into: object) -> None:
        if begun:
            raise CallFailed("the service is gone")

    for name in ("fill", "age", "filled", "_of_store", "served_model"):
        monkeypatch.setattr(module, name, nothing, raising=False)
    monkeypatch.setattr(module.VectorSource, "of", nothing)
    monkeypatch.setattr(reembed, "write_second", lambda directory: None)
    monkeypatch.setattr(consolidate.Chats, "block", block)
    monkeypatch.setattr(consolidate.Nightly, "begin", sleeping)
    monkeypatch.setattr(reembed.Fill, "_run", sleeping)
    given = argparse.Namespace(memories=1_000, every_s=0.0, block_s=0.0, rest=1.0, blocks=1, switch=False)
    monkeypatch.setattr(consolidate, "_of_store", numbers)
    served = Served("http://127.0.0.1:1", "", None)
    with pytest.raises(CallFailed):
        await module.measure(served, tmp_path, given, None, lambda text: None)
    assert len(begun) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(begun[0], 0)


async def numbers(*_: object) -> float:
    return 1.0
