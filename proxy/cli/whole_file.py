"""A file that is written whole or not at all: what stood there stays until the new one is complete, and of two who
write it at once each writes a whole one.

Where it is written only at the end of a long run, a path that can be none is found before.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` when the block ends well. Raises OSError."""
    if path.exists() and not path.is_file():  # a pipe, a device
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    scratch = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with _taken_along(scratch), scratch.open("xb") as file:
            if target.exists():
                shutil.copymode(target, scratch)
            yield file
        scratch.replace(target)
    except OSError as fault:
        if str(fault.filename) == str(scratch):  # who reads it has named no such file
            fault.filename = str(path)
        raise
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def _taken_along(scratch: Path) -> Iterator[None]:
    """Who ends this process by SIGTERM, or by closing its terminal, ends it as ever, and no half file is left."""

    def end(number: int, _frame: object) -> None:
        scratch.unlink(missing_ok=True)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    ending = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():  # who else may not say what a signal does
        ending = []
    try:
        for one in ending:
            signal.signal(one, end)
        yield
    finally:
        for one in ending:
            signal.signal(one, signal.SIG_DFL)


def file_to_write(text: str) -> Path:
    """A path on the command line that a file can be written to. Raises ArgumentTypeError, which says what is wrong."""
    path = Path(text)
    mode: int | None = None
    try:
        mode = path.stat().st_mode  # `is_dir` and `exists` of Python 3.14 say no to a name that can be none
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as fault:  # a name that is too long, or that can be none
        raise argparse.ArgumentTypeError(f"{text!r} can be no file: {fault}") from None
    if mode is not None and stat.S_ISDIR(mode):
        raise argparse.ArgumentTypeError(f"{text!r} is a directory")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {str(path.parent)!r}")
    if not os.access(path if mode is not None else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} may not be written")
    return path
