"""Every option of a command changes what is asked, or is refused: none is read and passed over."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from memory.at_terminal import hear_interrupts
from proxy.__main__ import main
from proxy.cli import beside
from proxy.cli.client import Client
from proxy.cli.parser import build_parser
from tests.test_cli_client import answering, whole

# How an answer is shown, which is not looked at here.
SHOWN = {"--json", "--explain", "--help"}
# What they change comes behind the first thing that is asked, which is all that is seen here.
LATER = {("memories", "--confirm"), ("memories", "--reject"), ("forget", "--dry-run")}


class Asked(BaseException):
    """What a command asks of a service or hands on to another program."""


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a command would ask or hand on is seen instead; a Ctrl-C that it holds back for that is let through."""

    def asks(client: Client, *given: Any, **named: Any) -> NoReturn:
        raise Asked(repr((client._base, client._headers, given[:3], named)))

    def hands_on(*given: Any) -> NoReturn:
        raise Asked(repr([list(one) if isinstance(one, tuple) else one for one in given]))

    monkeypatch.setattr(Client, "_open", asks)
    monkeypatch.setattr(os, "execv", hands_on)
    monkeypatch.setattr(os, "execve", hands_on)
    monkeypatch.setattr(beside, "lock_holder", lambda _: "1")
    yield
    hear_interrupts()


def effect(words: list[str], capsys: pytest.CaptureFixture[str]) -> str | None:
    """What is asked; None where it is refused."""
    try:
        assert main(words) != 0
    except Asked as asked:
        return str(asked)
    except SystemExit:
        pass
    assert "memory-proxy" in capsys.readouterr().err
    return None


def options_of(command: str) -> Iterator[tuple[str, argparse.Action]]:
    (commands,) = (one for one in build_parser([command])._actions if isinstance(one, argparse._SubParsersAction))
    for action in commands.choices[command]._actions:
        if action.option_strings and not set(action.option_strings) & SHOWN:
            yield action.option_strings[-1], action


def value_of(action: argparse.Action, file: Path) -> list[str]:
    if action.nargs == 0:
        return []
    if action.choices:
        return [str(next(one for one in action.choices if one != action.default))]
    if action.dest in ("config", "data_dir", "directory", "tokenizer", "verify"):
        return [str(file)]
    if action.dest == "config_set":
        return ["recall.facts_max=3"]
    return ["http://127.0.0.1:9"] if action.dest == "url" else ["7"]


@pytest.mark.parametrize(
    "mode",
    [
        *("search q", "search --retrieval id", "sessions", "sessions s", "memories", "memories review", "memories id"),
        *("memories id --delete", "replay id", "replay --shadow --config-set recall.episodes_max=5"),
        *("audit verify", "audit list", "encryption status", "encryption rotate", "encryption rewrap"),
        *("redact --scan", "redact --reveal t", "reembed --status", "reembed --to m", "reembed --switch"),
        *("consolidate", "consolidate --now", "migrate", "export", "export --everything", "outside q", "preferences"),
        *("forget --user a --yes", "forget --session s --scrub --yes"),
    ],
)
def test_an_option_is_heeded_or_refused(mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"data:\n  dir: {tmp_path / 'elsewhere'}\n")
    words = mode.split()
    without = effect(words, capsys)
    assert without is not None
    passed_over = []
    for name, action in options_of(words[0]):
        if name in words or (words[0], name) in LATER:
            continue
        if effect([*words, name, *value_of(action, file)], capsys) == without:
            passed_over.append(name)
    assert passed_over == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("audit verify --action share.project", "--action goes with audit list"),
        ("audit list --head 1:00", "--head goes with audit verify"),
        ("encryption --older-days 0", "--older-days goes with encryption rotate"),
        ("sessions s --limit 3", "--limit goes with the list of conversations"),
        ("forget --verify F --yes", "--yes goes with"),
        ("forget --user a --scrub --yes --key K", "--key goes with forget without --scrub"),
        ("documents add F --inline always", "--inline goes with --session"),
        ("mcp --allow-host a.example", "--allow-host goes with --http"),
    ],
)
def test_what_is_refused_is_told_with_what_it_goes_with(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 1
    assert says in capsys.readouterr().err


def test_an_empty_address_is_not_taken_for_none(capsys: pytest.CaptureFixture[str]) -> None:
    """As a variable that is not set leaves it: another service would forget."""
    assert main(["forget", "--user", "a", "--yes", "--url", ""]) == 1
    assert "--url must be" in capsys.readouterr().err


def test_what_became_of_a_memory_is_json_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()  # a service of the test's own is asked
    with answering(whole({"id": "m1", "version": 2})) as url:
        for verb in ("--delete", "--undelete", "--confirm", "--reject"):
            assert main(["memories", "m1", verb, "--json", "--url", url]) == 0
            assert json.loads(capsys.readouterr().out) == {"id": "m1", "version": 2}, verb


@pytest.mark.parametrize("words", [["redact", "--scan"], ["reembed"], ["hygiene"]])
def test_a_ctrl_c_waits_until_the_program_that_a_command_becomes_can_end_in_order(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_PROXY_DATA__DIR", str(tmp_path))
    with pytest.raises(Asked):
        main(words)
    assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_ctrl_c_while_a_command_beside_the_service_is_loaded_ends_it_without_a_traceback() -> None:
    """It came when the process was handed over, and the modules of a command take .4 s to load, on a busy machine 3."""

    def given_early() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        os.kill(os.getpid(), signal.SIGINT)

    argv = [sys.executable, "-P", "-m", "memory", "redact", "--mode", "scan"]
    ended = subprocess.run(argv, capture_output=True, timeout=120, check=False, preexec_fn=given_early)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
