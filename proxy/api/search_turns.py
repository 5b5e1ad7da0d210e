"""Turns of what searches for the API: a scope in, a place for one search out. Raises TimedOut.

Searches, what is to be forgotten by a query, and what-ifs ask the same embedder and index as chats do, and wait for
each other here, fairly by tenant and user. One per process.
"""

from __future__ import annotations

from typing import Final

from memory.errors import TimedOut
from memory.places import Places
from proxy.turns import Turns

DEADLINE_S: Final = 10.0
# One thread makes vectors and one looks through indexes: 16 at once were no faster (27 searches/s, 28 at four), and
# stood before a chat's question, which had its vector too late.
AT_ONCE: Final = 4


class SearchTurns(Turns):
    """The places of one process."""

    def __init__(self, places: Places) -> None:
        super().__init__(places, late)


def search_places() -> Places:
    """As many as there are for searches, for so long as one may take."""
    return Places(AT_ONCE, DEADLINE_S)


def late() -> TimedOut:
    """What is said of a search that took too long."""
    return TimedOut(f"the search took longer than {DEADLINE_S:g} s", retry_after_s=1)
