"""A command as a terminal or a pipe has it: work in, its exit code out.

Ctrl-C ends it with 130, a reader that is gone (`| head`) with 1, neither with a traceback. What the terminal's encoding
cannot show is written as an escape.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper


def at_terminal(work: Callable[[], int]) -> int:
    """Do the work; the exit code."""
    if not isinstance(sys.stdout, TextIOWrapper):  # closed, or a text of a test
        return work()
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that nothing is said at the end
        return 1
