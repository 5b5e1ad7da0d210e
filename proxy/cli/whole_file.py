"""A file that is written whole or not at all: what stood there stays until the new one is complete, and of two who
write it at once each writes a whole one.

Where it is written only at the end of a long run, a path that can be none is found before.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
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
        with scratch.open("xb") as file:
            if target.exists():
                shutil.copymode(target, scratch)
            yield file
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def file_to_write(text: str) -> Path:
    """A path on the command line that a file can be written to. Raises ArgumentTypeError, which says what is wrong."""
    path = Path(text)
    try:
        if path.is_dir():
            raise argparse.ArgumentTypeError(f"{text!r} is a directory")
        if not path.parent.is_dir():
            raise argparse.ArgumentTypeError(f"there is no directory {str(path.parent)!r}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise argparse.ArgumentTypeError(f"{text!r} may not be written")
    except (OSError, ValueError) as fault:  # a name that is too long, or that can be none
        raise argparse.ArgumentTypeError(f"{text!r} can be no file: {fault}") from None
    return path
