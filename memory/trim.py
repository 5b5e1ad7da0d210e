"""Freed memory back to the kernel: what the C library holds between blocks in use; nothing where it has no such calls.

glibc gives back only what lies at the end of its heaps. Large bodies, and indexes that were let go of, leave free
blocks between those in use: 21 and 28 MiB of a process of 330 (docs/decisions/0029), 200 of one of 400 after two dozen
pictures of up to 15 MB. Giving back takes 7 to 11 ms, 59 for 390 MiB, asking what is in use 1 to 7, both without the
interpreter's lock, while who allocates large blocks waits. To give each large block a mapping of its own
(`M_MMAP_THRESHOLD`) keeps as little, and costs the memory worker a third more CPU time a picture: each is zeroed anew.
"""

from __future__ import annotations

import asyncio
import ctypes
import mmap
from pathlib import Path
from typing import Final

EVERY_S: Final = 10.0
FREED_BYTES: Final = 16 << 20
_RESIDENT: Final = Path("/proc/self/statm")  # proc_pid_statm(5), in pages


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2`, glibc 2.33 and later: mallinfo(3)."""

    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = tuple((name, ctypes.c_size_t) for name in _names)


class Heap:
    """The C library's blocks. `tells`: whether it says which are in use, and gives the rest back; musl does neither."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self.tells = _RESIDENT.exists() and hasattr(library, "malloc_trim") and hasattr(library, "mallinfo2")
        if self.tells:
            self._trim, self._told = library.malloc_trim, library.mallinfo2
            self._trim.argtypes, self._trim.restype = [ctypes.c_size_t], ctypes.c_int
            self._told.restype = _Mallinfo2

    def idle_bytes(self) -> int:
        """What of this process is in memory, but for files and the blocks in use. Blocking."""
        told = self._told()
        _, resident, shared, *_ = map(int, _RESIDENT.read_text().split())
        return (resident - shared) * mmap.PAGESIZE - int(told.uordblks + told.hblkhd)

    def trim(self) -> None:
        """Give back what is free. Blocking."""
        self._trim(0)


async def keep_trimming(heap: Heap | None = None) -> None:
    """Give back what is free whenever FREED_BYTES more are idle than were when that was done last, for ever. What is
    free does not tell: where a body uses what was given back and is gone before the next look, as much is free as was.
    """
    heap = heap or Heap()
    left = 0
    while heap.tells:
        await asyncio.sleep(EVERY_S)
        idle = await asyncio.to_thread(heap.idle_bytes)
        if idle >= left + FREED_BYTES:
            await asyncio.to_thread(heap.trim)
            stays = await asyncio.to_thread(heap.idle_bytes)
            # Where much was given back more may have been freed behind it: the next look says what stays.
            left = stays if stays > idle - FREED_BYTES else left
        left = min(left, idle)
