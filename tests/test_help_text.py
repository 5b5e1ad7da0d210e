"""What `--help` teaches is read at any terminal: no word is broken, and a command stays one that can be copied."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from proxy.cli.help_text import fitting
from proxy.cli.parser import build_parser

COPIED = re.compile(r" +(memory-proxy |MEMORY_PROXY_KEY=|git |[{\"])")
"""A command, or a line of a configuration."""


def taught() -> Iterator[str]:
    """What the commands teach beside their options."""
    parser = build_parser()
    (verbs,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    for one in (parser, *verbs.choices.values()):
        yield from (text for text in (one.description, one.epilog) if text)


@pytest.mark.parametrize("columns", [40, 60, 78, 200])
def test_only_a_command_is_longer_than_the_terminal_is_wide(columns: int) -> None:
    for text in taught():
        shown = list(fitting(text, columns))
        assert " ".join(shown).split() == text.split()
        assert [line for line in shown if len(line) > columns and " " in line.strip() and not COPIED.match(line)] == []
        assert set(shown) == set(text.splitlines()) or max(map(len, text.splitlines())) > columns


def test_what_a_command_does_goes_below_it_where_there_is_no_room_beside_it() -> None:
    text = """\
  memory-proxy key list                  by prefix
  memory-proxy key revoke laptop         refused everywhere within a second

Beside a service that runs:
the secret is shown once."""
    assert list(fitting(text, 60)) == [
        "  memory-proxy key list                  by prefix",
        "  memory-proxy key revoke laptop",
        "      refused everywhere within a second",
        "",
        "Beside a service that runs: the secret is shown once.",
    ]


def test_help_fits_a_terminal_of_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, build_parser([]).format_help().splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "usage", "hint"),
    [
        ("serve --upsteam=http://v:8000", "serve", "; did you mean --upstream?"),
        ("tasks add Mow --nedds 1", "tasks add", "; did you mean --needs?"),
        ("entities unrelate 1 works_at 2", "entities unrelate", ""),
    ],
)
def test_an_option_that_there_is_not_is_refused_by_its_command(
    words: str, usage: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usage of all commands was shown, which has none of their options."""
    given = words.split()
    with pytest.raises(SystemExit) as ended:
        build_parser(given).parse_args(given)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith(f"usage: memory-proxy {usage} ") and said.endswith(f"{hint}\n"), said
