"""The page about benchmarks is written out of their JSON: the newest whole report of each, and nothing by hand."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from bench.figures import Line, as_json
from bench.overhead import __main__ as overhead
from bench.prefix_cache import __main__ as prefix_cache
from bench.report import PageUnfit, filled, main, named_report, places, reports_below

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
LINE = Line("p", "streams a second", ">= 120", "131.000", True)
SMALL = "# Page\n\n<!-- figures speed -->\nold\n<!-- end -->\n\n<!-- figures soak -->\nold\n<!-- end -->\nrest\n"


def put(folder: Path, name: str, **members: Any) -> None:
    report = {"bench": "speed", "at": "2026-01-02T00:00:00+00:00", "lines": as_json([LINE]), "settings": {"store": 9}}
    (folder / name).write_text(json.dumps({**report, **members}))


def filled_from(folder: Path) -> str:
    return filled(SMALL, reports_below(folder, lambda text: None))


def test_what_has_no_report_stays_as_it_stands(tmp_path: Path) -> None:
    assert filled_from(tmp_path) == SMALL


def test_the_newest_whole_report_is_shown(tmp_path: Path) -> None:
    put(tmp_path, "b.json", at="2026-01-03", lines=as_json([Line("p", "newest", "", "1", None)]))
    put(tmp_path, "a.json", at="2026-01-02")
    put(tmp_path, "c.json", at="2026-01-04", complete=False, lines=as_json([Line("p", "cut off", "", "1", None)]))
    page = filled_from(tmp_path)
    assert "newest" in page
    assert "streams a second" not in page
    assert "cut off" not in page
    assert "store 9" in page
    assert page.endswith("rest\n")
    assert page.count("old\n") == 1


def test_the_newest_of_those_that_do_not_say_when_is_the_one_written_last(tmp_path: Path) -> None:
    for name, figure, written in (("a.json", "newer", 2_000), ("b.json", "older", 1_000)):
        (tmp_path / name).write_text(
            json.dumps({"bench": "speed", "lines": as_json([Line("p", figure, "", "1", None)])})
        )
        os.utime(tmp_path / name, (written, written))
    page = filled_from(tmp_path)
    assert "newer" in page
    assert "older" not in page


def test_a_look_takes_no_soak_s_place(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"speed": 1.0, "minutes": 59.0}
    put(tmp_path, "a.json", bench="soak", settings=settings, lines=as_json([Line("p", "the hour", "", "1", None)]))
    put(tmp_path, "b.json", bench="soak", at="2027", settings={**settings, "minutes": 2.0})
    assert "the hour" in filled_from(tmp_path)


@pytest.mark.parametrize(("words", "named"), [([], ("overhead", "prefix-cache-vllm")), (["--quick"], (None, None))])
def test_a_quick_look_takes_no_result_s_place(
    words: list[str], named: tuple[str | None, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(prefix_cache, "measure_real", nothing)
    _, _, real = prefix_cache.on_vllm(prefix_cache.parse_arguments(["--vllm", "http://x", *words]), Path())
    reports = (overhead.make_report(overhead.parse_arguments(words), [], 0.1), real)
    assert tuple(named_report(report, Path("a.json")) for report in reports) == named


@pytest.mark.parametrize(("only", "name"), [(None, "faults"), (["rounds"], "faults-rounds"), (["dns"], None)])
def test_some_faults_take_no_place_of_all(only: list[str] | None, name: str | None) -> None:
    report = {"kept": True, "setting": {"only": only, "rounds": 6}, "scenarios": []}
    assert named_report(report, Path("a.json")) == name


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"speed": 1.0}, "soak"),
        ({"speed": 4.0}, "soak-x4"),
        ({"speed": 1.0, "hot_scope_bytes": 1000, "hot_state_s": 240}, "soak-bounded"),
        ({"speed": 4.0, "ledger_bytes": 1000}, "soak-bounded-x4"),
    ],
)
def test_a_soak_with_full_caches_takes_no_other_soak_s_place(settings: dict[str, Any], name: str) -> None:
    report = {"bench": "soak", "settings": {**settings, "minutes": 59.0}, "lines": []}
    assert named_report(report, Path("a.json")) == name


def test_filling_twice_is_filling_once(tmp_path: Path) -> None:
    put(tmp_path, "a.json")
    found = reports_below(tmp_path, lambda text: None)
    assert filled(filled(SMALL, found), found) == filled(SMALL, found)


def test_a_file_that_is_no_report_is_named_and_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "a.json")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"x": 1}')
    (tmp_path / "page.md").write_text(SMALL)
    assert main(["--out", str(tmp_path / "page.md"), str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert "broken.json" in said
    assert "other.json" in said
    assert "131.000" in (tmp_path / "page.md").read_text()


def test_a_page_without_places_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PageUnfit):
        filled("nothing here", {})
    (tmp_path / "page.md").write_text("nothing here")
    assert main(["--out", str(tmp_path / "page.md"), str(tmp_path)]) == 1
    with pytest.raises(PageUnfit, match="two places"):
        filled(SMALL + SMALL, {})


def test_reports_older_than_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(
        json.dumps({"at": "2026", "sets": {"locomo": {"ours": {"recall@10": {"mean": 0.712}}}}})
    )
    (tmp_path / "s.json").write_text(json.dumps(as_json([LINE])))
    promise = {"promise": "lost", "asked": "0", "found": "3", "kept": False}
    broken = {"name": "dns", "findings": [promise], "skipped": None, "broken": None, "verdict": "missed"}
    faults = {"kept": False, "setting": {"only": None}, "scenarios": [broken]}
    (tmp_path / "f.json").write_text(json.dumps(faults))
    turn = {"scenario": "turn", "ratio": 0.971, "raw_ratio": 1.1}
    fork = {"scenario": "fork", "ratio": None, "raw_ratio": None}
    (tmp_path / "v.json").write_text(json.dumps({"settings": {"bound": 0.98}, "real": [turn, fork]}))
    found = reports_below(tmp_path, lambda text: None)
    names = ("recall", "security", "faults", "prefix-cache-vllm")
    page = filled("".join(f"<!-- figures {name} -->\n<!-- end -->\n" for name in names), found)
    assert "0.712" in page
    assert "131.000" in page
    assert "| dns | lost | 0 | 3 | NO |" in page and "| >= 0.98 | 0.971 | NO |" in page
    assert "| >= 0.98 | nothing was cached without memory | NO |" in page


def test_the_page_in_the_documentation_has_a_place_for_each_and_only_real_commands() -> None:
    page = PAGE.read_text()
    assert len(places(page)) == len(set(places(page))) >= 10
    modules = set(re.findall(r"python -m (bench[\w.]*)", page)) - {"bench.prefix_cache"}
    assert {"bench.speed", "bench.trace", "bench.soak", "bench.report", "bench.capture"} <= modules
    for module in modules:
        assert importlib.util.find_spec(module), module
