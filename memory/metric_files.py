"""Room on the disk for prometheus_client's files, taken before it maps them; and who may read or fold them now.

It makes each file by truncating: no block of it is there yet. A counter that first touches a page while the disk is
full is not told so: the kernel ends the process by SIGBUS, and with it every answer under way (seen: 1 of 219 answers
of a service whose disk was full). A file that was written is only written over.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# A worker that had shown all it has used 72 KB of its largest file; no label is anything a client chose, so that a file
# does not grow with use.
FILE_BYTES: Final = 524_288
_KINDS: Final = ("counter", "histogram", "gauge_livesum", "gauge_livemax", "gauge_mostrecent")


READ_WAIT_S: Final = 2.0
"""For who folds, which takes milliseconds; then they are read as they are."""


@contextmanager
def reading(directory: Path) -> Iterator[None]:
    """While all files are read: none of them is folded into the archive meanwhile, or it would count twice."""
    with _locked(directory) as lock:
        until_s = time.monotonic() + READ_WAIT_S
        while not _taken(lock, fcntl.LOCK_SH) and time.monotonic() < until_s:
            time.sleep(0.005)
        yield


@contextmanager
def folding(directory: Path) -> Iterator[bool]:
    """Whether nobody reads the files, and nobody does before the block ends."""
    with _locked(directory) as lock:
        yield _taken(lock, fcntl.LOCK_EX)


@contextmanager
def _locked(directory: Path) -> Iterator[int | None]:
    """The lock file beside the directory, open; None where it cannot be."""
    try:
        lock = os.open(directory.with_name(f"{directory.name}.lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield None
        return
    try:
        yield lock
    finally:
        os.close(lock)


def _taken(lock: int | None, how: int) -> bool:
    try:
        if lock is not None:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def take_room(directory: Path) -> None:
    """Make the files of this process, whole. Raises OSError: the disk is full; none of them is there then."""
    taken: list[Path] = []
    try:
        for kind in _KINDS:
            taken.append(directory / f"{kind}_{os.getpid()}.db")
            fill(taken[-1])
    except OSError:
        for path in taken:
            path.unlink(missing_ok=True)
        raise


def fill(path: Path) -> None:
    """One file, with its blocks; one that is there already stays as it is. It appears whole, since an empty one ends
    the scrape of all others. Raises OSError.
    """
    if path.exists() and path.stat().st_size:
        return
    draft = path.with_suffix(".new")
    try:
        draft.write_bytes(bytes(FILE_BYTES))
        draft.chmod(0o644)  # a command of root's counts beside a service of another account, which reads all of them
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
