"""`memory-proxy eval` is `python -m bench.recall`: the same options, help, and exit codes, all unread on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.cli.parser import build_parser


def evaluated(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "proxy", "eval", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, cwd=cwd, timeout=60, check=False)


@pytest.mark.parametrize("given", [["--help"], ["-h"], ["--sets", "memsim", "--quiet"], ["--data=x", "--", "y"], []])
def test_every_argument_reaches_the_harness_as_it_was_given(given: list[str]) -> None:
    assert build_parser().parse_args(["eval", *given]).arguments == given


@pytest.mark.long
def test_help_teaches_the_harness(tmp_path: Path) -> None:
    said = evaluated("--help", cwd=tmp_path)
    assert said.returncode == 0
    assert "--budgets" in said.stdout
    assert "memory-proxy eval" in said.stdout


@pytest.mark.long
def test_the_exit_codes_are_the_harness_s_own(tmp_path: Path) -> None:
    assert evaluated("--sets", "nonsense", cwd=tmp_path).returncode == 2
    absent = evaluated("--data", str(tmp_path / "absent"), "--sets", "memsim", cwd=tmp_path)
    assert absent.returncode == 2
    assert "--data" in absent.stderr


@pytest.mark.long
def test_the_harness_runs_where_matplotlib_is_absent(tmp_path: Path) -> None:
    loaded = "import json, sys, bench.recall.__main__; print(json.dumps(sorted(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert not [name for name in json.loads(said.stdout) if name.startswith("matplotlib")]


@pytest.mark.long
def test_a_directory_called_bench_does_not_take_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").write_text("raise SystemExit(7)")
    assert evaluated("--sets", "nonsense", cwd=tmp_path).returncode == 2
