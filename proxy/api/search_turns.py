"""Turns of what searches for the API: a tenant in, a place for one search out. Raises TimedOut.

Searches, what is to be forgotten by a query, and what-ifs ask the same embedder and index as chats do, and wait for
each other here, fairly by tenant. One per process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from memory.errors import TimedOut
from proxy.shedding import Places

DEADLINE_S: Final = 10.0
# A quarter of what the embedder lets wait: the rest is for chats, and a flood of one tenant's is not before others'.
AT_ONCE: Final = 16


class SearchTurns:
    """The places of one process."""

    def __init__(self) -> None:
        self._places = Places(AT_ONCE, DEADLINE_S)

    @asynccontextmanager
    async def turn(self, tenant: UUID) -> AsyncIterator[None]:
        """A place while the body runs. Raises TimedOut where there was none in time."""
        async with self._places.turn(tenant) as taken:
            if not taken:
                raise late()
            yield


def late() -> TimedOut:
    """What is said of a search that took too long."""
    return TimedOut(f"the search took longer than {DEADLINE_S:g} s", retry_after_s=1)
