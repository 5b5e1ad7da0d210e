"""A program at a terminal: keys in, what it shows out, with the time of each piece, as a person at it would see them.

The terminal is a real one (a pty) with a size; the program is in the foreground of a session of its own, so that Ctrl-C
is what it is. Waiting for what does not come fails the test with what was shown.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS, ROWS = 100, 30
# What a terminal does and does not show: CSI, OSC, and the two-character escapes.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])")
_PASTE, _NO_PASTE = "\x1b[?2004h", "\x1b[?2004l"  # bracketed paste: on while a line is asked for
FORWARD = re.compile(r"\x1b\[(\d*)C")  # over a blank the cursor is moved, and nothing written
CTRL_C, CTRL_D, ENTER, NEW_LINE, UP, TAB = "\x03", "\x04", "\r", "\n", "\x1b[A", "\t"


@dataclass(slots=True)
class Terminal:
    """A running program. `events` are (seconds since its start, what it wrote)."""

    pid: int
    master: int
    began: float
    events: list[tuple[float, str]] = field(default_factory=list)
    code: int | None = None
    _decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))
    _seen: int = 0

    @property
    def raw(self) -> str:
        """All it wrote so far."""
        return "".join(text for _, text in self.events)

    @property
    def shown(self) -> str:
        """The same without what steers the terminal."""
        return ESCAPES.sub("", FORWARD.sub(_spaces, self.raw)).replace("\r", "")

    def type(self, keys: str) -> None:
        """Keys, at once."""
        os.write(self.master, keys.encode())

    def type_slowly(self, keys: str, pause_s: float = 0.05) -> None:
        """Keys, one after the other, what they show being read meanwhile."""
        for key in keys:
            self.type(key)
            self.read_for(pause_s)

    def say(self, text: str, slowly: bool = False) -> None:
        """A line and Enter, as soon as the program asks for one, until it is taken: the next would be typed into it."""
        self.until_prompt()
        self.mark()
        (self.type_slowly if slowly else self.type)(text)
        self.until_shown(text[-20:])
        at = len(self.raw)
        self.type(ENTER)
        self._until_told("the line is not taken", lambda: _NO_PASTE in self.raw[at:])

    def mark(self) -> None:
        """What is waited for from now on comes behind this place."""
        self._seen = len(self.shown)

    def until(self, text: str, timeout_s: float = 30) -> str:
        """Wait for a text behind the last one that was waited for; what came before it."""
        end = time.monotonic() + timeout_s
        while (at := self.shown.find(text, self._seen)) < 0:
            if time.monotonic() > end or not self._read(0.05):
                raise AssertionError(f"{text!r} was not shown:\n{self.shown[self._seen :]!r}\nof:\n{self.shown}")
        before = self.shown[self._seen : at]
        self._seen = at + len(text)
        return before

    def until_shown(self, text: str) -> None:
        """Wait for a text behind the last one, and do not go past it."""
        seen = self._seen
        self.until(text)
        self._seen = seen

    def until_prompt(self) -> None:
        """Wait until it asks for a line: whether bracketed paste is on says so."""
        self._until_told("it asks for nothing", lambda: self.raw.rfind(_PASTE) > self.raw.rfind(_NO_PASTE))
        self.read_for(0.05)

    def _until_told(self, otherwise: str, is_told: Callable[[], bool], timeout_s: float = 30) -> None:
        """Read until it has steered the terminal so."""
        end = time.monotonic() + timeout_s
        while not is_told():
            if time.monotonic() > end or not self._read(0.05):
                raise AssertionError(f"{otherwise}:\n{self.shown}")

    def read_for(self, seconds: float) -> None:
        """Read what comes meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._read(left):
            pass

    def ended(self, timeout_s: float = 30) -> int:
        """Wait until the program has ended; its exit code."""
        end = time.monotonic() + timeout_s
        while self._read(0.05):
            if time.monotonic() > end:
                raise AssertionError(f"it does not end:\n{self.shown}")
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def _read(self, timeout_s: float) -> bool:
        """Whether the program still has its terminal."""
        if not select.select([self.master], [], [], timeout_s)[0]:
            return True
        try:
            chunk = os.read(self.master, 65_536)
        except OSError:  # EIO: the last one that had it open has closed it
            return False
        if text := self._decoder.decode(chunk):
            self.events.append((time.monotonic() - self.began, text))
        return bool(chunk)


def _spaces(moved: re.Match[str]) -> str:
    return " " * int(moved[1] or 1)


@contextlib.contextmanager
def at_terminal(argv: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Iterator[Terminal]:
    """Start a program at a terminal of its own; killed at the end if it has not ended."""
    began = time.monotonic()
    pid, master = pty.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.chdir(cwd)
            os.execve(argv[0], list(argv), dict(environ))
        os._exit(127)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    terminal = Terminal(pid, master, began)
    try:
        yield terminal
    finally:
        if terminal.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(master)


def asciicast(events: Sequence[tuple[float, str]], title: str, idle_s_max: float) -> str:
    """A recording in the asciicast v2 format, where nothing happens for at most so long."""
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": title, "env": {"TERM": "xterm-256color"}}
    lines, clock, before = [json.dumps(head)], 0.0, 0.0
    for at, text in events:
        clock += min(at - before, idle_s_max)
        before = at
        lines.append(json.dumps([round(clock, 3), "o", text], ensure_ascii=False))
    return "\n".join(lines) + "\n"
