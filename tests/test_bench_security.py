"""The security report says what its parts measured, and fails where a bound is not kept or a part did not run."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bench import security, security_cost
from bench.figures import any_missed
from bench.leak_findings import SEEN, Findings, report_of, table
from bench.leak_store import Owner, Words
from bench.leak_walls import Walls
from bench.security import PARTS, main, read
from bench.security_attacks import Row, missed
from bench.security_forget import passed
from bench.security_secrets import PLACES, Hunted, shown

LEAKS = {
    "requests": 20_000,
    "leaks": 0,
    "served_that_had_to_be_refused": 0,
    "second_wall_alone": {"foreign_rows": 0, "runs": 135},
}
FORGET = {
    **dict.fromkeys(("probe_traces", "in_dumps", "in_exports", "in_searches", "in_files_after_scrub"), 0),
    **dict.fromkeys(("forgotten", "complete", "genuine", "others", "power", "have_words_of_their_own"), 5),
    "others_changed": 0,
    "scrub_complete": True,
    "scrub_s": 2.5,
    "older_copy_answers": 0,
    "older_copy_answers_without_journal": 38,
    "forget_s": {"p50": 0.5, "p95": 0.7},
}
CASES = {"positives": 100, "found": 90, "empty": 10, "negatives": 350, "touched": 3}
POISON = {
    "rows": [
        {"form": "tool result", "planted_in_top5": 0.07, "truth_first": 0.97},
        {"form": "tool result", "planted_in_top5": 0.16, "truth_first": 0.95},
        {"form": "same person", "planted_in_top5": 1.0, "truth_first": 0.91},
    ]
}


def put(out: Path, **reports: Any) -> None:
    (out / "full").mkdir(parents=True)
    for name, report in reports.items():
        (out / "full" / f"{name}.json").write_text(json.dumps(report))


def test_what_has_its_figures_is_read_and_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, leaks=LEAKS)
    lines = tmp_path / "lines.json"
    assert main(["--only", "leaks", "--out", str(tmp_path), "--json", str(lines)]) == 0
    shown = capsys.readouterr()
    assert "| leaks | foreign ids and canaries, anywhere | 0 | 0 in 20,000 requests | yes |" in shown.out
    assert shown.err == ""
    assert [one["kept"] for one in json.loads(lines.read_text())] == [True, True, True]


def test_the_worse_wording_counts_and_a_bound_that_is_missed_is_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, poison=POISON)
    assert main(["--only", "poison", "--out", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "| poison | tool result: planted in the top 5 | <= 0.15 | 0.160 | NO |" in out
    assert "| poison | tool result: the truth first | >= 0.9 | 0.950 | yes |" in out
    assert "same person: planted" not in out, "nothing was asked of it"


def test_a_part_that_leaves_no_figures_is_told_and_the_others_are_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, leaks=LEAKS)
    parts = {**PARTS, "cost": replace(PARTS["cost"], module="bench.not_there")}
    monkeypatch.setattr(security, "PARTS", parts)
    assert main(["--only", "leaks,cost", "--out", str(tmp_path)]) == 2
    shown = capfd.readouterr()
    assert "| leaks |" in shown.out and "| cost |" not in shown.out
    assert "bench.not_there ended with 1 and no figures" in shown.err


def test_a_part_that_is_none_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--only", "leeks"])
    assert stopped.value.code == 2
    assert "no part named leeks; there are leaks, attacks" in capsys.readouterr().err


def test_a_leak_test_that_saw_nothing_has_kept_nothing(tmp_path: Path) -> None:
    owner = Owner(0, "t", "u", "p", "qzabcabcabcabc", "qxabcabcabcabc", "Duabc", (), ())
    words, sights, blind = Words([owner]), Findings(requests=20_000), Walls(runs=135)
    report = report_of(32, [owner], sights, blind)
    assert report["leaks"] == 0
    put(tmp_path, leaks=report)
    assert any_missed(read(tmp_path / "full", ["leaks"]))
    assert "second wall: nothing was seen" in table(report)
    for place in SEEN:
        sights.look(place, "true", b"says qzabcabcabcabc", owner.identity, words)
    report = report_of(32, [owner], sights, Walls(runs=135, with_power={"nearest_memories"}))
    assert report["unseen"] == []


def test_attacks_that_stand_in_no_prompt_show_nothing(tmp_path: Path) -> None:
    row = Row("user turn", 26, 100, 26, 0, 0, 0, 0, 0.3, 0.0)
    assert missed([row]) == ["user turn: no block in 26 prompts shows nothing"]
    assert missed([replace(row, blocks=20)]) == []
    put(tmp_path, attacks={"rows": [asdict(row)]})
    assert any_missed(read(tmp_path / "full", ["attacks"]))


def test_a_hunt_that_does_not_find_its_control_word_has_found_nothing(tmp_path: Path) -> None:
    hunted = Hunted(71, 80, tuple(place for place in PLACES if place != "later prompt"), ())
    assert hunted.unseen == ["later prompt"]
    assert "not in later prompt: nothing was seen there" in shown(None, hunted, [])
    put(tmp_path, secrets={"cost": [], "cases": CASES, "canaries": asdict(hunted) | {"unseen": hunted.unseen}})
    assert any_missed(read(tmp_path / "full", ["secrets"]))
    assert replace(hunted, control_places=PLACES).unseen == []


def test_secrets_without_cases_are_not_measured_and_so_not_kept(tmp_path: Path) -> None:
    put(tmp_path, secrets={"cost": []})
    assert [(line.measured, line.kept) for line in read(tmp_path / "full", ["secrets"])] == [
        ("not measured: no secret_cases in --data", False)
    ]


@pytest.mark.parametrize(
    "fault",
    [{"power": 4}, {"power": 0, "have_words_of_their_own": 0}, {"scrub_complete": False},
     {"older_copy_answers_without_journal": 0}],
    ids=["a user unseen", "none seen", "half a scrub", "an empty copy"],
)  # fmt: skip
def test_what_the_part_about_forgetting_fails_by_is_in_the_table(fault: dict[str, Any], tmp_path: Path) -> None:
    assert passed(FORGET)
    put(tmp_path, forget=FORGET)
    assert not any_missed(read(tmp_path / "full", ["forget"]))
    assert not passed({**FORGET, **fault})
    (tmp_path / "full" / "forget.json").write_text(json.dumps({**FORGET, **fault}))
    assert any_missed(read(tmp_path / "full", ["forget"]))


async def test_what_the_law_costs_leaves_no_stores_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def started(name: str, _: object, upstream: str, root: Path) -> AsyncIterator[security_cost.Side]:
        (root / name).mkdir()
        raise security_cost.NotAsMeant("not today")
        yield

    @asynccontextmanager
    async def upstream() -> AsyncIterator[str]:
        yield "http://127.0.0.1:1"

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(security_cost, "_side", started)
    monkeypatch.setattr(security_cost, "_upstream", upstream)
    with pytest.raises(security_cost.NotAsMeant):
        await security_cost.measure(1, 1, 1, 1)
    assert list(tmp_path.iterdir()) == []


SLOW_PART = """
import pathlib, time
try:
    pathlib.Path({ready!r}).touch()
    time.sleep(600)
finally:
    time.sleep(0.6)
    pathlib.Path({down!r}).touch()
"""


def test_ctrl_c_lets_a_part_take_down_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ready, down, waited, wait = tmp_path / "ready", tmp_path / "down", list[int](), subprocess.Popen.wait
    (tmp_path / "slow_part.py").write_text(SLOW_PART.format(ready=str(ready), down=str(down)))

    def ctrl_c(self: subprocess.Popen[Any], timeout: float | None = None) -> int:
        if waited:
            return wait(self, timeout)
        waited.append(self.pid)
        while not ready.exists():
            time.sleep(0.02)
        raise KeyboardInterrupt

    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(security, "PARTS", {**PARTS, "cost": replace(PARTS["cost"], module="slow_part")})
    monkeypatch.setattr(subprocess.Popen, "wait", ctrl_c)
    assert main(["--only", "cost", "--out", str(tmp_path / "out")]) == 2
    assert down.exists()
    assert "cost: ended before it was done" in capfd.readouterr().err


def test_every_leak_is_a_missed_bound(tmp_path: Path) -> None:
    put(tmp_path, leaks={**LEAKS, "leaks": 1, "second_wall_alone": {"foreign_rows": 2, "runs": 135}})
    assert [line.kept for line in read(tmp_path / "full", ["leaks"])] == [False, True, False]
