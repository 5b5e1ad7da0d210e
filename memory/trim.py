"""Freed memory back to the kernel: what the C library holds between blocks in use; nothing where it has no such call.

glibc gives back only what lies at the end of its heaps. Indexes that were let go of leave free blocks between those in
use: 21 and 28 MiB of a process of 330 (docs/decisions/0029). Blocking: 7 to 11 ms there, without the interpreter's
lock, while who allocates large blocks waits.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Final


def _found() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    found = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
    if found is not None:
        found.argtypes, found.restype = [ctypes.c_size_t], ctypes.c_int
    return found


_MALLOC_TRIM: Final = _found()


def trim_heap() -> bool:
    """Give back what is free. Whether there was anything."""
    return _MALLOC_TRIM is not None and bool(_MALLOC_TRIM(0))
