"""A process steps back behind those that answer requests. Linux knows all of it; elsewhere niceness is enough."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

# Nine times less of a contended core than a process that answers requests (kernel: weight 110 against 1,024).
NICENESS: Final = 10


def step_back() -> None:
    """Let whoever answers requests go first where cores are short: what is written may wait, a person may not.

    Where the kernel groups processes by session (autogroup), the group must step back too; nice alone would order
    this process's own threads only. Not that of somebody's terminal, in which a command runs: all that is done there
    would stay slow.
    """
    os.nice(NICENESS)
    if os.getsid(0) != os.getpid():
        return
    with contextlib.suppress(OSError):  # not Linux, or no such grouping: then nice was enough
        Path("/proc/self/autogroup").write_text(str(NICENESS))
