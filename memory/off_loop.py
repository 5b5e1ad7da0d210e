"""Work on large bodies, off the event loop: a size and a function in, its result out.

Small work stays where it is: a thread costs 0.1 ms, 1 MiB of JSON about 10. Its threads are not the loop's own,
which look at disks: a few of those that hang held up every large chat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

OFF_LOOP_BYTES: Final = 1_048_576
# Of the process, as the loop's own are: who calls this is wired nowhere.
_THREADS: Final = ThreadPoolExecutor(thread_name_prefix="off-loop")
T = TypeVar("T")


async def off_loop(size_bytes: int, work: Callable[[], T], above_bytes: int = OFF_LOOP_BYTES) -> T:
    """Run `work` here, or on a thread where it is about more than so many bytes."""
    if size_bytes <= above_bytes:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, copy_context().run, work)
