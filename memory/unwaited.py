"""A log's stream that nobody waits for: text in, written where there is room for it, else lost.

Who reads a log by a pipe may stop reading: a terminal that is held, a collector that stands still. A write would wait
for it for ever, and with it all that the process does. A reader that is merely slow is given PATIENCE_MS once, and what
comes until it has read on is lost. Raises what the stream raises: a full disk, a closed stream.
"""

from __future__ import annotations

import os
import select
from io import UnsupportedOperation
from typing import Final, TextIO

PATIENCE_MS: Final = 100
PIECE_BYTES: Final = select.PIPE_BUF
"""So much a pipe that is ready takes at once."""


class Unwaited:
    """One stream. Its own buffer is passed by."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stands_still = False

    def write(self, text: str) -> int:
        """Write a line, or lose what of it there is no room for."""
        try:
            fd = self._stream.fileno()
        except UnsupportedOperation:  # it lies in memory
            return self._stream.write(text)
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        while left:
            self._stands_still = not poll.poll(0 if self._stands_still else PATIENCE_MS)
            if self._stands_still:
                break
            left = left[os.write(fd, left[:PIECE_BYTES]) :]
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""
