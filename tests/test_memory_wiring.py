"""What runs beside the lanes: its end is told, and it ends with them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from memory.wiring import beside


async def test_a_job_that_fails_is_told_of_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    turns, ended = 0, asyncio.Event()

    async def fails() -> None:
        raise RuntimeError("the disk is full")

    async def goes_on() -> None:
        nonlocal turns
        try:
            while True:
                turns += 1
                await asyncio.sleep(0)
        finally:
            ended.set()

    with caplog.at_level(logging.ERROR, "memory_proxy.memory"):
        async with beside({"retention": fails(), "episodes": goes_on()}):
            before = turns
            for _ in range(10):
                await asyncio.sleep(0)
            assert turns > before + 5
    assert ended.is_set()
    (record,) = caplog.records
    assert record.getMessage() == "retention has stopped"
    assert record.exc_info is not None
    assert "the disk is full" in str(record.exc_info[1])
