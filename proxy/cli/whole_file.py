"""A file that is written whole or not at all: what stood there stays until the new one is complete."""

from __future__ import annotations

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
    scratch = target.with_name(f"{target.name}.part")
    try:
        with scratch.open("wb") as file:
            if target.exists():
                shutil.copymode(target, scratch)
            yield file
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)
