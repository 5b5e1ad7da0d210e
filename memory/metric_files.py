"""Room on the disk for prometheus_client's files, taken before it maps them.

It makes each file by truncating: no block of it is there yet. A counter that first touches a page while the disk is
full is not told so: the kernel ends the process by SIGBUS, and with it every answer under way (seen: 1 of 219 answers
of a service whose disk was full). A file that was written is only written over.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

# A worker that had shown all it has used 72 KB of its largest file; no label is anything a client chose, so that a file
# does not grow with use.
FILE_BYTES: Final = 524_288
_KINDS: Final = ("counter", "histogram", "gauge_livesum", "gauge_livemax", "gauge_mostrecent")


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
    """One file, with its blocks; one that is there already stays as it is. Raises OSError."""
    with path.open("ab") as file:
        if file.tell() == 0:
            file.write(bytes(FILE_BYTES))
