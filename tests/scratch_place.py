"""Where a test's throwaway data lies: in memory where there is room for it, else where temporary files go."""

from __future__ import annotations

import os
import tempfile

_IN_MEMORY = "/dev/shm"
_FREE_BYTES_MIN = 4 << 30
"""Three processes' servers with their logs of changes, and the services beside them, hold less than half of it."""


def scratch_place() -> str:
    """A directory that others make theirs in, and may run programs from.

    A database made in memory from the template costs 20 ms, on one machine's disk 210, more than a thousand times a
    run; a service's forced writes cost nothing there.
    """
    try:
        found = os.statvfs(_IN_MEMORY)
    except OSError:
        return tempfile.gettempdir()
    fits = found.f_bavail * found.f_frsize >= _FREE_BYTES_MIN and not found.f_flag & os.ST_NOEXEC
    return _IN_MEMORY if fits else tempfile.gettempdir()
