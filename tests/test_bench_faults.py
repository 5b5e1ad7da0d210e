"""The fault suite's own parts: its verdicts see what is broken, its legs go on where they ended, its link cuts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from bench.crash.service import Service, Shape
from bench.faults import __main__ as command
from bench.faults import names
from bench.faults.clocks import disorder
from bench.faults.levers import Levers
from bench.faults.link import Link
from bench.faults.restarts import _replaced
from bench.faults.result import Finding, Told, as_json, at_least, at_most, none, so, table
from bench.faults.rounds import OtherRun, judged, legs, merged, read_progress, write_progress
from bench.faults.scene import Place
from bench.report import named_report


def leg(**more: object) -> dict[str, object]:
    whole: dict[str, object] = {
        "leg": {"number": 0, "rounds": 3, "seed": 1000, "slow_fsync_ms": 0},
        "slow_fsync_ms": 200,
        "acknowledged": 50,
        "lost": 0,
        "doubled": 0,
        "gaps": 0,
        "dead": 0,
        "sent": 60,
        "failed_by_memory": {},
        "failed_by_serving": {"cut": 2},
        "captures": {"queue": 50},
        "exit_code": 0,
        "statuses": {"injected": 50},
        "seconds": 9.0,
        "settle_s": 1.0,
        "blows": [{"kind": "valkey", "freeze_s": 0.0, "kills": True, "ready_s": 0.1, "whole_s": 0.4}],
    }
    return {**whole, **more}


def broken(done: list[dict[str, object]]) -> set[str]:
    return {finding.promise for finding in judged(done) if not finding.kept}


def test_a_finding_is_kept_only_within_its_bound() -> None:
    assert none("a", 0).kept and not none("a", 1).kept
    assert at_most("a", 2.0, 2.0, "s").kept and not at_most("a", 2.01, 2.0, "s").kept
    assert not at_most("a", float("inf"), 2.0, "s").kept
    assert at_least("a", 3, 3).kept and not at_least("a", 2, 3).kept
    assert so("a", True).kept and not so("a", False).kept


def test_a_scenario_that_could_not_end_is_broken_and_one_that_was_skipped_is_not() -> None:
    fine, odd = Told("fine", findings=(none("a", 0),)), Told("odd", findings=(none("a", 0), none("lost", 2)))
    absent, cut = Told("absent", skipped="not root"), Told("cut", broken="did not come back")
    assert [one.verdict for one in (fine, odd, absent, cut)] == ["kept", "BROKEN", "skipped", "BROKEN"]
    assert as_json([fine, absent], {})["kept"] is True
    assert as_json([fine, odd], {})["kept"] is False
    assert "lost: 2" in table([odd]) and "not root" in table([absent])


@pytest.mark.parametrize(
    ("fault", "promise"),
    [
        ({"lost": 1}, "acknowledged and lost"),
        ({"doubled": 1}, "acknowledged and stored twice"),
        ({"gaps": 1}, "sessions with gaps"),
        ({"dead": 1}, "dead letters"),
        ({"failed_by_memory": {"TimeoutError": 1}}, "completions failed because of memory"),
        ({"exit_code": -9}, "legs whose service did not end with 0"),
        ({"slow_fsync_ms": 0}, "a slow disk among them"),
        ({"acknowledged": 3}, "acknowledged"),
    ],
    ids=["lost", "doubled", "gaps", "dead", "failed", "exit", "no slow disk", "too little"],
)
def test_one_fault_of_one_leg_breaks_its_promise(fault: dict[str, object], promise: str) -> None:
    assert broken([leg()]) == set()
    assert broken([leg(**fault)]) == {promise}


def test_legs_add_up_to_the_rounds_and_some_have_a_slow_disk() -> None:
    for rounds in (1, 2, 6, 25, 60, 500):
        made = legs(rounds, 25, seed=1)
        assert sum(each.rounds for each in made) == rounds
        assert all(0 < each.rounds <= 25 for each in made)
        assert len({each.seed for each in made}) == len(made)
        assert any(each.slow_fsync_ms for each in made) or rounds == 1


def test_legs_are_merged_by_victim() -> None:
    slower = {"kind": "valkey", "freeze_s": 1.0, "kills": False, "ready_s": 0.2, "whole_s": 2.4}
    figures = merged([leg(), leg(blows=[slower])])
    assert (figures["acknowledged"], figures["rounds"], figures["failed_by_serving"]) == (100, 6, {"cut": 4})
    valkey = figures["by_victim"]["valkey"]
    assert (valkey["killed"], valkey["frozen"]) == (1, 1)
    assert valkey["whole_s"] == {"p50": pytest.approx(1.4), "p95": pytest.approx(2.3), "max": 2.4}


def test_a_run_that_was_cut_off_goes_on_and_another_run_is_refused(tmp_path: Path) -> None:
    progress, planned = tmp_path / "rounds.json", legs(60, 25, seed=1)
    assert read_progress(progress, planned) == []
    first = json.loads(json.dumps(leg(leg={"number": 0, "rounds": 25, "seed": 1000, "slow_fsync_ms": 0})))
    write_progress(progress, [first])
    assert read_progress(progress, planned) == [first]
    with pytest.raises(OtherRun, match="another run"):
        read_progress(progress, legs(60, 25, seed=2))


def test_a_session_out_of_order_is_named() -> None:
    told = [
        ("a", "mark-001-000001 is"),
        ("a", "mark-001-000002 is"),
        ("b", "mark-002-000009"),
        ("b", "mark-002-000003"),
    ]
    assert disorder(told) == (2, ["b"])


def test_what_was_judged_before_a_fault_of_the_bench_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some scenarios take hours."""

    async def ends(place: object) -> tuple[list[Finding], dict[str, object]]:
        """Ends."""
        return [none("lost", 0)], {}

    async def fails(place: object) -> tuple[list[Finding], dict[str, object]]:
        """Does not."""
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(command, "SCENARIOS", {"dns": ends, "rolling": fails})
    monkeypatch.setattr(sys, "argv", ["faults", "--json", str(tmp_path / "faults.json")])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(RuntimeError, match="foresaw"):
        command.main()
    assert "kept" in capsys.readouterr().out.splitlines()[-1]
    report = json.loads((tmp_path / "faults.json").read_text())
    assert [one["name"] for one in report["scenarios"]] == ["dns"]
    assert named_report(report, tmp_path) is None, "one that was cut off takes no whole one's place on the page"


async def test_the_wait_for_an_answer_counts_as_time_until_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def late(url: str, number: int, patience_s: float) -> list[tuple[int, float]]:
        await asyncio.sleep(0.3)
        return [(200, 0.3)] * number

    async def never(url: str, number: int, patience_s: float) -> list[tuple[int, float]]:
        await asyncio.sleep(0.1)
        return [(502, 0.1)] * number

    monkeypatch.setattr(names, "BACK_S", 0.2)
    place, levers = Place(tmp_path, lambda _: None), Levers(tmp_path / "levers.so", tmp_path / "levers.page")
    for asked in (late, never):
        monkeypatch.setattr(names, "ask", asked)
        [found], _ = await names._answered(Service(Shape(tmp_path, "http://x")), levers, place)
        assert not found.kept, found


def test_workers_that_are_gone_are_not_replaced() -> None:
    assert _replaced({1, 2}, {3, 4}, 2)
    assert not _replaced({1, 2}, set(), 2)
    assert not _replaced({1, 2}, {3}, 2)
    assert not _replaced({1, 2}, {2, 3}, 2)


RUNS = """
import asyncio, sys
from bench.{0} import __main__ as command

async def sleeps(*_):
    "Sleeps."
    try:
        print("ready", flush=True)
        await asyncio.sleep(600)
    finally:
        print("taken down", flush=True)

command.SCENARIOS = {{"dns": sleeps}}
command.measure = sleeps
sys.argv = ["{0}"]
sys.exit(command.main())
"""


@pytest.mark.parametrize("name", ["faults", "crash"])
async def test_a_suite_in_a_shell_s_background_can_be_told_to_end(name: str, tmp_path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    ignored = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    argv = [sys.executable, "-c", RUNS.format(name)]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe, env=env, preexec_fn=ignored)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        said, errors = await process.communicate()
    assert said == b"taken down\n" and b"stopped" in errors
    assert process.returncode == 2
    assert list(tmp_path.iterdir()) == []


async def test_a_link_that_vanished_says_nothing_and_closes_nothing_and_heals_for_new_connections() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, Link("127.0.0.1", server.sockets[0].getsockname()[1]) as link:
        old, speak = await asyncio.open_connection("127.0.0.1", link.port)
        speak.write(b"one")
        assert await old.readexactly(3) == b"one"
        link.vanish()
        fresh, speak_fresh = await asyncio.open_connection("127.0.0.1", link.port)
        for reader, writer in ((old, speak), (fresh, speak_fresh)):
            writer.write(b"two")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await reader.read(1)
        link.heal()
        again, speak_again = await asyncio.open_connection("127.0.0.1", link.port)
        speak_again.write(b"three")
        assert await again.readexactly(5) == b"three"
        for writer in (speak, speak_fresh, speak_again):
            writer.close()
