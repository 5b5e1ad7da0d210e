"""Waiting until something is so: asked again and again, so that a test takes no longer than the thing itself does."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any


def wait_until(look: Callable[[], Any], timeout_s: float = 60, what: str = "what was waited for") -> Any:
    """What `look` finds, as soon as it finds something. Raises AssertionError with `what` after `timeout_s`."""
    end = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.02)
    return found


async def until(look: Callable[[], Any], timeout_s: float = 30) -> Any:
    """What `look` finds, awaited where it is to be awaited, as soon as it finds something. Raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not (found := await _looked(look())):
            await asyncio.sleep(0.01)
        return found


async def _looked(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found
