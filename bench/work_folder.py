"""A folder for the data of a service that a bench starts: where it is to lie in, a path that exists meanwhile out.

SIGTERM ends what is done in it as Ctrl-C does, so that it is deleted then, too; not where somebody listens for it.
"""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def work_folder(parent: Path | None = None, prefix: str | None = None) -> Iterator[Path]:
    """Made new, deleted at the end. The embedded database may run as another user and has to reach its directory."""
    with _ended_as_by_ctrl_c(), tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        work = Path(folder)
        work.chmod(0o711)
        yield work


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
