"""What a command has found, on a person's terminal: lines in, nothing that steers it out."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from proxy.cli.chat_words import printable

NONE: Final = "none"
"""What is said in place of a list in which nothing is."""


# What JSON may hold as it is and a terminal acts upon, and half a surrogate pair, which has no form in UTF-8.
_STEERING: Final = re.compile("[\x7f-\x9f\ud800-\udfff]")


def show(*lines: str) -> None:
    """Write them, each with a line end."""
    show_all(lines)


def show_rows(rows: Iterable[str]) -> None:
    """Write them, each on one line, whatever stands in it: none looks like another one."""
    show_all(" ".join(row.splitlines()) for row in rows)


def show_all(lines: Iterable[str]) -> None:
    """Write them, each with a line end. Whoever said them, a model or a page of the web, moves no cursor."""
    sys.stdout.writelines(f"{printable(line)}\n" for line in lines)


def show_json(answer: Any) -> int:
    """Write an answer as it is, for a program or a person; 0."""
    sys.stdout.write(harmless(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n")
    return 0


def harmless(said: str) -> str:
    """The same JSON, with what steers a terminal written by its number."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", said)


def show_raw(said: bytes) -> None:
    """Write JSON to its byte; where a person reads it, in a form that steers no terminal."""
    sys.stdout.buffer.write(harmless(said.decode(errors="replace")).encode() if sys.stdout.isatty() else said)


def say_more(page: Mapping[str, Any]) -> None:
    """Say beside a list that it goes on."""
    if page.get("next_cursor") is not None:
        sys.stderr.write("there are more: --limit N shows up to 1000\n")
