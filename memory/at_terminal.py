"""A command as a terminal or a pipe has it: work in, its exit code out.

Ctrl-C ends it with 130, a reader that is gone (`| head`) or a full disk with 1, none with a traceback. What the
terminal's encoding cannot show is written as an escape, of the form that JSON reads. What is closed leads nowhere.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Final

ESCAPED: Final = "memory_proxy_escaped"


def at_terminal(work: Callable[[], int]) -> int:
    """Do the work; the exit code."""
    _open_what_is_closed()
    if not isinstance(sys.stdout, TextIOWrapper):  # a text of a test
        return work()
    codecs.register_error(ESCAPED, _escaped)
    sys.stdout.reconfigure(errors=ESCAPED)
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        say_no_more()
        return 1
    except OSError as fault:
        if fault.errno != errno.ENOSPC:
            raise
        say_no_more()
        sys.stderr.write(f"memory-proxy: what there is to say cannot be written: {fault.strerror}\n")
        return 1


def say_no_more() -> None:
    """What waits to be written to stdout goes nowhere, so that nothing is said of it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escaped(fault: UnicodeError) -> tuple[str, int]:
    """What cannot be shown as \\u and four digits, once or twice: \\xe9 and \\U0001f600 no reader of JSON knows."""
    if not isinstance(fault, UnicodeEncodeError):
        raise fault
    return json.dumps(fault.object[fault.start : fault.end])[1:-1], fault.end


def _open_what_is_closed() -> None:
    """What was closed by who started this (`>&-`) leads nowhere: else to say something is a fault, and the first socket
    that is opened has its number, where children write.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))
