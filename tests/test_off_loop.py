"""Large bodies beside whatever hangs."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

from memory.off_loop import OFF_LOOP_BYTES, off_loop

NAMED: ContextVar[str] = ContextVar("NAMED")


async def test_looks_at_a_disk_that_hangs_hold_up_no_large_chat() -> None:
    """Each question for the queue counts the spools on a thread of the loop's, of which there are six on two cores."""
    answers = threading.Event()
    looks = [asyncio.create_task(asyncio.to_thread(answers.wait)) for _ in range(40)]
    try:
        async with asyncio.timeout(5):
            await asyncio.sleep(0.05)
            assert await off_loop(OFF_LOOP_BYTES + 1, lambda: "read") == "read"
    finally:
        answers.set()
        await asyncio.gather(*looks)


async def test_what_is_done_there_knows_for_whom_it_is() -> None:
    NAMED.set("this request")
    here = threading.get_ident()
    assert await off_loop(OFF_LOOP_BYTES, threading.get_ident) == here
    assert await off_loop(OFF_LOOP_BYTES + 1, threading.get_ident) != here
    assert await off_loop(OFF_LOOP_BYTES + 1, NAMED.get) == "this request"
