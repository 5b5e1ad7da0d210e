"""Turns of what searches for the API: a scope in, a place for one search out. Raises TimedOut.

Searches, what is to be forgotten by a query, and what-ifs ask the same embedder and index as chats do, and wait for
each other here, fairly by tenant and user. One per process.
"""

from __future__ import annotations

from typing import Final

from memory.errors import TimedOut
from proxy.turns import Turns

DEADLINE_S: Final = 10.0
# A quarter of what the embedder lets wait: the rest is for chats, and a flood of one tenant's is not before others'.
AT_ONCE: Final = 16


class SearchTurns(Turns):
    """The places of one process."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE, DEADLINE_S, late)


def late() -> TimedOut:
    """What is said of a search that took too long."""
    return TimedOut(f"the search took longer than {DEADLINE_S:g} s", retry_after_s=1)
