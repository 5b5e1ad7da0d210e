"""The supervisor's own log: (event, fields) -> one line on standard error, JSON or text.

Refuses nothing: a log that cannot be written (its reader is gone, or reads no more) is dropped, the service goes on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TextIO

from memory.unwaited import Unwaited

LEVELS = ("debug", "info", "warning", "error")
PROGRESS_FIRST_S = 2.0
PROGRESS_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Journal:
    """Where lines go and which are written."""

    stream: TextIO
    format: Literal["json", "text"]
    level: str = "info"

    def note(self, event: str, *, level: str = "info", **fields: object) -> None:
        """Write one line, unless its level is below ours."""
        if LEVELS.index(level) < LEVELS.index(self.level):
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        if self.format == "json":
            said = {"time": now, "level": level, "part": "supervisor", "event": event, **fields}
            line = json.dumps(said, default=str, separators=(",", ":"))  # as the other processes write theirs
        else:
            line = f"{now} {level} supervisor: {event}" + "".join(f" {key}={value}" for key, value in fields.items())
        self.say(line)

    def say(self, line: str) -> None:
        """Write a line as it is."""
        with suppress(OSError, ValueError):
            Unwaited(self.stream).write(f"{line}\n")

    def tell(self, words: str, event: str, *, level: str = "info", **fields: object) -> None:
        """Say words to people; in a log of JSON that nobody sits before, a line like all others."""
        if self.format == "json" and not self.stream.isatty():
            self.note(event, level=level, **fields)
        else:
            self.say(f"memory-proxy: {words}")

    @asynccontextmanager
    async def step(self, what: str) -> AsyncIterator[None]:
        """Tell people what is being waited for, once it takes longer than 2 s."""
        began = time.monotonic()
        task = asyncio.create_task(self._progress(what, began))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
        self.note("step", level="debug", what=what, seconds=round(time.monotonic() - began, 3))

    async def _progress(self, what: str, began: float) -> None:
        await asyncio.sleep(PROGRESS_FIRST_S)
        while True:
            seconds = round(time.monotonic() - began)
            self.tell(f"{what} ({seconds} s)", "waiting", what=what, seconds=seconds)
            await asyncio.sleep(PROGRESS_EVERY_S)
