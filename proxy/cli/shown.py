"""What a command has found, on a person's terminal: lines in, nothing that steers it out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from proxy.cli.chat_words import printable


def show(*lines: str) -> None:
    """Write them, each as one line."""
    show_all(lines)


def show_all(lines: Iterable[str]) -> None:
    """Write them, each as one line. Whoever said what stands in them, a model or a page of the web, moves no cursor."""
    sys.stdout.writelines(f"{printable(line)}\n" for line in lines)


def say_more(page: Mapping[str, Any]) -> None:
    """Say beside a list that it goes on."""
    if page.get("next_cursor") is not None:
        sys.stderr.write("there are more: --limit N shows up to 1000\n")
