"""What a command has found, on a person's terminal: lines in, nothing that steers it out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from proxy.cli.chat_words import printable

NONE: Final = "none yet"
"""What is said in place of a list in which nothing is."""


def show(*lines: str) -> None:
    """Write them, each with a line end."""
    show_all(lines)


def show_rows(rows: Iterable[str]) -> None:
    """Write them, each on one line, whatever stands in it: none looks like another one."""
    show_all(" ".join(row.splitlines()) for row in rows)


def show_all(lines: Iterable[str]) -> None:
    """Write them, each with a line end. Whoever said them, a model or a page of the web, moves no cursor."""
    sys.stdout.writelines(f"{printable(line)}\n" for line in lines)


def say_more(page: Mapping[str, Any]) -> None:
    """Say beside a list that it goes on."""
    if page.get("next_cursor") is not None:
        sys.stderr.write("there are more: --limit N shows up to 1000\n")
