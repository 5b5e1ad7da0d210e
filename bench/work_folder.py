"""A folder for the data of a service that a bench starts: where it is to lie in, a path that exists meanwhile out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def work_folder(parent: Path | None = None, prefix: str | None = None) -> Iterator[Path]:
    """Made new, deleted at the end. The embedded database may run as another user and has to reach its directory."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        work = Path(folder)
        work.chmod(0o711)
        yield work
