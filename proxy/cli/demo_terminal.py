"""What the demo shows: headings, quotes, streamed text and progress -> a text stream, with colour on a terminal only.

Whatever takes longer than 2 s says so: on a terminal in one line that counts, elsewhere in a new line every 10 s.
A model's text is shown without control characters, so it cannot steer the terminal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TextIO

from proxy.cli.progress import fitted

FIRST_S = 2.0
LINE_EVERY_S = 10.0
COUNT_EVERY_S = 0.5
INDENT = "      "
_BOLD, _DIM, _CYAN, _GREEN, _RED, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[32m", "\x1b[31m", "\x1b[0m"


def nothing_more() -> str:
    """The default detail of a progress line."""
    return ""


@dataclass(slots=True)
class Terminal:
    """One output. `live`: a person's terminal, where lines may be rewritten and coloured."""

    out: TextIO
    live: bool
    steps: int
    _step: int = 0

    def step(self, text: str) -> None:
        """The next numbered heading."""
        self._step += 1
        self.line(f"\n{self._paint(_BOLD, f'[{self._step}/{self.steps}] {text}')}")

    def line(self, text: str = "") -> None:
        """One line as it is."""
        self.write(f"{text}\n")

    def note(self, text: str) -> None:
        """A line of explanation."""
        self.line(f"{INDENT}{self._paint(_DIM, text)}")

    def good(self, text: str) -> None:
        """A line with a result."""
        self.line(f"{INDENT}{self._paint(_GREEN, text)}")

    def bad(self, text: str) -> None:
        """A line with a failure."""
        self.line(self._paint(_RED, text))

    def quote(self, text: str) -> None:
        """Several lines, marked at the left."""
        for line in text.rstrip().splitlines():
            self.line(f"{INDENT}{self._paint(_CYAN, '| ' + printable(line))}")

    def says(self, who: str) -> None:
        """The beginning of somebody's line; `write` goes on with it."""
        self.write(f"{INDENT}{self._paint(_BOLD, f'{who}:'):<6} ")

    def write(self, text: str) -> None:
        """Text without a line end, shown at once."""
        self.out.write(text)
        self.out.flush()

    @asynccontextmanager
    async def progress(self, what: str, detail: Callable[[], str] = nothing_more) -> AsyncIterator[None]:
        """Say what is waited for once it takes longer than 2 s, with `detail()`; at the end, how long it took."""
        began = time.monotonic()
        task = asyncio.create_task(self._count(what, detail, began))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            self._clear()
        self.note(f"{what}: {time.monotonic() - began:.1f} s")

    async def _count(self, what: str, detail: Callable[[], str], began: float) -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            text = f"{INDENT}{what} … {detail()} ({time.monotonic() - began:.0f} s)"
            if self.live:
                self.write(f"\r\x1b[2K{fitted(text, self.out)}")
            else:
                self.line(text)
            await asyncio.sleep(COUNT_EVERY_S if self.live else LINE_EVERY_S)

    def _clear(self) -> None:
        if self.live:
            self.write("\r\x1b[2K")

    def _paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self.live else text


def printable(text: str) -> str:
    """The text with control characters replaced; line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
