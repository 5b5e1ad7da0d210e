"""A bound on waiting for what comes by a socket: when its time is over, what lay there by then is read first.

asyncio runs timers before it reads sockets, so in a loop that is late by more than the bound `asyncio.timeout_at` gives
up an answer that has come in time. With 64 clients on one loop a quarter of the exchanges that the queue had taken went
to the spool so, and by it to the queue once more.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

TURNS: Final = 4
"""Of the loop, after the time is over: one reads, one tells who asked, one those on whose behalf that asked."""


class bounded_at:
    """`async with bounded_at(loop_time):`. Raises TimeoutError there when the time is over."""

    __slots__ = ("_timeout", "_timer", "_until_s")

    def __init__(self, until_s: float) -> None:
        self._until_s = until_s
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.Handle | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._timer = asyncio.get_running_loop().call_at(self._until_s, self._due, TURNS)

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, raised, trace)

    def _due(self, turns: int) -> None:
        loop = asyncio.get_running_loop()
        if turns:
            self._timer = loop.call_soon(self._due, turns - 1)
        else:
            self._timeout.reschedule(loop.time())


def unheard(task: asyncio.Future[Any]) -> None:
    """A done callback: what outlives whoever waited for it may fail unseen, its fault was answered for by then."""
    if not task.cancelled():
        task.exception()


async def rested(woken: asyncio.Event, seconds: float) -> None:
    """Until this is set, so long at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await woken.wait()
