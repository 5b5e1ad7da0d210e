"""A bound on waiting: over in time, and not before what had come by then was read."""

from __future__ import annotations

import asyncio
import time

import pytest

from memory.bounded import bounded_at


async def within(seconds: float, work: asyncio.Future[str]) -> str:
    async with bounded_at(asyncio.get_running_loop().time() + seconds):
        return await work


async def test_what_came_in_time_is_taken_by_a_loop_that_is_late() -> None:
    answer = asyncio.ensure_future(asyncio.to_thread(lambda: "came"))  # told by a socket of the loop
    waiting = asyncio.create_task(within(0.05, answer))
    await asyncio.sleep(0)
    time.sleep(0.2)
    assert await waiting == "came"


async def test_what_does_not_come_is_given_up() -> None:
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(within(0.05, never), 10)
    assert time.monotonic() - began >= 0.04
    assert never.cancelled()


async def test_a_bound_that_was_left_ends_nothing_later() -> None:
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    done.set_result("done")
    assert await within(0.01, done) == "done"
    await asyncio.sleep(0.05)  # its time is over now


async def test_who_is_cancelled_inside_is_cancelled_and_not_late() -> None:
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(within(10, never))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
