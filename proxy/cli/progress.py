"""How far a command is, beside what it has found: words in; on a terminal one line that is written over.

There it is cut to the terminal's width, since a line that wraps cannot be taken back, and no escape is used, so any
terminal shows it. Elsewhere (a pipe, a log) the first words and then, each ten seconds, those of then have a line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Final, TextIO
from unicodedata import east_asian_width

from proxy.cli.chat_words import printable

LINE_EVERY_S: Final = 10.0
_COLUMNS: Final = 80


class Progress:
    """Says on stderr how far it is. Whoever says something else clears it first."""

    def __init__(self) -> None:
        self._shown = 0  # columns of the line that stands there
        self._last = ""
        self._said_at_s = float("-inf")

    def say(self, text: str) -> None:
        """How far it is now."""
        self._last = " ".join(printable(text).splitlines())
        if sys.stderr.isatty():
            line = fitted(self._last, sys.stderr)
            _write(f"\r{line}{' ' * (self._shown - _width(line))}")
            self._shown = _width(line)
        elif time.monotonic() - self._said_at_s >= LINE_EVERY_S:
            self._said_at_s = time.monotonic()
            self.end()

    def clear(self) -> None:
        """Nothing of it stays on the terminal."""
        if self._shown:
            _write(f"\r{' ' * self._shown}\r")
        self._shown, self._last = 0, ""

    def end(self) -> None:
        """The last words stay, whole, on a line of their own."""
        if self._last:
            _write(("\r" if self._shown else "") + self._last + "\n")
        self._shown, self._last = 0, ""


def steers(environ: Mapping[str, str]) -> bool:
    """Whether a terminal is to be sent colours and what moves its cursor: not where it knows neither (TERM=dumb, as in
    an editor), nor where nobody wants them (NO_COLOR, if it says anything).
    """
    return environ.get("TERM") != "dumb" and not environ.get("NO_COLOR")


def fitted(text: str, stream: TextIO) -> str:
    """As much of a text as a line of this terminal takes and does not wrap; eighty columns where it does not know."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except OSError:
        columns = _COLUMNS
    while _width(text) >= columns:
        text = text[: min(len(text) - 1, columns)]
    return text


def _width(text: str) -> int:
    """Columns that it takes: two for a letter of Chinese, Japanese or Korean."""
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _write(text: str) -> None:
    """Nobody's work ends because its progress cannot be shown, as on a terminal that was closed behind it."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
