"""What `chat` shows: pieces of an answer, notes and lists in, a terminal or two plain streams out.

`live`: a person's terminal, where answers and notes stand together and a line may be taken back. Else answers alone go
to `out` and all the rest to `err`, so that a script gets what was answered. Every text passes `printable` here, so
nothing that is shown can steer the terminal but what this module writes itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TextIO

from proxy.cli.chat_words import printable

Style = Literal["plain", "dim", "bold", "bad"]
_CODES: Final = {"plain": "", "dim": "\x1b[2m", "bold": "\x1b[1m", "bad": "\x1b[31m"}
_END: Final = "\x1b[0m"
_TAKE_BACK: Final = "\r \r"  # of one column, on any terminal


@dataclass(slots=True)
class Screen:
    """Where it is shown."""

    out: TextIO
    err: TextIO
    live: bool
    colour: bool
    _waits: bool = False
    _line_open: bool = False
    _thought: bool = False

    def waiting(self) -> None:
        """An answer is waited for."""
        if self.live:
            self._write(self.out, self._painted("…", "dim"))
            self._waits = True

    def said(self, text: str) -> None:
        """A piece of the answer."""
        self._arrived()
        if self._thought:
            self._end_thought()
            text = text.lstrip("\n")
        self._show(text, "plain")

    def thought(self, text: str) -> None:
        """A piece of what the model thinks before it answers; scripts are not told."""
        if not self.live:
            return
        self._arrived()
        if not self._thought:
            text = text.lstrip("\n")
            self._thought = True
            if not self.colour:
                self._show("(thinking) ", "plain")
        self._show(text, "dim")

    def called(self, text: str) -> None:
        """A tool that the model wants called, on a line of its own."""
        self._arrived()
        self._end_thought()
        self._end_line()
        self._write(self.out, self._painted(printable(f"tool call: {_one_line(text)}"), "dim") + "\n")

    def ended(self) -> None:
        """The answer is over, or was left."""
        self._arrived()
        self._thought = False
        self._end_line()

    def note(self, text: str, style: Style = "dim") -> None:
        """Something about the answer or the program."""
        self._lines(self.out if self.live else self.err, text, style)

    def bad(self, text: str) -> None:
        """What went wrong, and what to do."""
        text = text if self.live else f"memory-proxy: {text}"
        self.note(text, "bad")

    def ask(self, text: str) -> None:
        """A question of ours, to be answered behind it."""
        self._write(self.out, printable(text))

    def lines(self, lines: Iterable[str]) -> None:
        """What a command found."""
        for line in lines:
            self._lines(self.out, line, "plain")

    def _show(self, text: str, style: Style) -> None:
        shown = printable(text)
        if shown:
            self._line_open = not shown.endswith("\n")
            self._write(self.out, self._painted(shown, style))

    def _lines(self, stream: TextIO, text: str, style: Style) -> None:
        self._write(stream, "".join(self._painted(line, style) + "\n" for line in printable(text).split("\n")))

    def _end_line(self) -> None:
        if self._line_open:
            self._write(self.out, "\n")
            self._line_open = False

    def _end_thought(self) -> None:
        if self._thought:
            self._thought = False
            self._end_line()

    def _arrived(self) -> None:
        if self._waits:
            self._write(self.out, _TAKE_BACK)
            self._waits = False

    def _painted(self, text: str, style: Style) -> str:
        return f"{_CODES[style]}{text}{_END}" if self.colour and style != "plain" and text else text

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()


def _one_line(text: str) -> str:
    """A text on one line, cut where it is too long to be read."""
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:159] + "…"
