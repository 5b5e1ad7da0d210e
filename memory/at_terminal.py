"""A command as a terminal or a pipe has it: work in, its exit code out.

Ctrl-C ends it with 130, a reader that is gone (`| head`) with 1, neither with a traceback. What the terminal's encoding
cannot show is written as an escape. What is closed leads nowhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper


def at_terminal(work: Callable[[], int]) -> int:
    """Do the work; the exit code."""
    _open_what_is_closed()
    if not isinstance(sys.stdout, TextIOWrapper):  # a text of a test
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


def _open_what_is_closed() -> None:
    """What was closed by who started this (`>&-`) leads nowhere: else to say something is a fault, and the first socket
    that is opened has its number, where children write.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))
