"""What keeps a worker from storing: a fault of the store in, said in the queue for the proxies to tell of out.

A server whose disk is full answers whoever reads, as the probes of the proxies do: only who writes meets it. Said at
most once in EACH_S; where the queue is away too, the proxies know that themselves.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol

from memory.errors import QueueUnavailable

EACH_S: Final = 2.0


class Told(Protocol):
    """Where it is said."""

    async def tell_trouble(self, text: str) -> None:
        """Keep it for a while. Raises QueueUnavailable."""


class Trouble:
    """The latest fault of a process; mutable."""

    def __init__(self) -> None:
        self._met = asyncio.Event()
        self._text = ""

    def met(self, text: str) -> None:
        """The store said so."""
        self._text = text
        self._met.set()

    async def keep_telling(self, queue: Told) -> None:
        """Say it for ever; run as a task."""
        while True:
            await self._met.wait()
            self._met.clear()
            with suppress(QueueUnavailable):
                await queue.tell_trouble(self._text)
            await asyncio.sleep(EACH_S)
