"""A command as a terminal or a pipe has it: work in, its exit code out.

Ctrl-C ends it with 130, a reader that is gone (`| head`) or a full disk with 1, none with a traceback; SIGTERM and a
terminal that is closed end it by that signal, behind what it clears away. What the terminal's encoding cannot show is
written as an escape, of the form that JSON reads. What is closed leads nowhere.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Final, NoReturn

ESCAPED: Final = "memory_proxy_escaped"


class _Told(SystemExit):
    """A signal that tells us to end; of this kind, since event loops let it through from any task."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def at_terminal(work: Callable[[], int]) -> int:
    """Do the work; the exit code."""
    _open_what_is_closed()
    if not isinstance(sys.stdout, TextIOWrapper):  # a text of a test
        return work()
    _hear_signals()
    codecs.register_error(ESCAPED, _escaped)
    sys.stdout.reconfigure(errors=ESCAPED)
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except _Told as told:
        signal.signal(told.number, signal.SIG_DFL)
        signal.raise_signal(told.number)
        raise
    except BrokenPipeError:
        say_no_more()
        return 1
    except OSError as fault:
        if fault.errno != errno.ENOSPC:
            raise
        say_no_more()
        sys.stderr.write(f"memory-proxy: what there is to say cannot be written: {fault.strerror}\n")
        return 1


def hold_interrupts() -> None:
    """Ctrl-C waits: for who hands the process over to a program that cannot end in order before it is loaded."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def hear_interrupts() -> None:
    """Let through the Ctrl-C that was held back since `hold_interrupts`, by the program that this one was before."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def signals_held() -> Iterator[None]:
    """What tells us to end waits until this is done: a library in C makes a fault of its own of what comes while it is
    loaded (onnxruntime an ImportError), which ends the process with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def say_no_more() -> None:
    """What waits to be written to stdout goes nowhere, so that nothing is said of it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escaped(fault: UnicodeError) -> tuple[str, int]:
    """What cannot be shown as \\u and four digits, once or twice: \\xe9 and \\U0001f600 no reader of JSON knows."""
    if not isinstance(fault, UnicodeEncodeError):
        raise fault
    return json.dumps(fault.object[fault.start : fault.end])[1:-1], fault.end


def _hear_signals() -> None:
    """By itself such a signal ends a process where it stands: half a file stays, and what was set in a server. What is
    ignored (nohup), or heard by somebody already, stays so.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _told)


def _told(number: int, _frame: object) -> NoReturn:
    raise _Told(number)


def _open_what_is_closed() -> None:
    """What was closed by who started this (`>&-`) leads nowhere: else to say something is a fault, and the first socket
    that is opened has its number, where children write.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))
