"""Turns of files that come: a scope in, a place for one upload out. Raises RateLimited.

A flood of one user's files waits, and what another sends has the next place. One per process and kind of file.
"""

from __future__ import annotations

from typing import Final

from memory.errors import RateLimited
from memory.places import Places
from proxy.turns import Turns

AT_ONCE: Final = 16
"""Under way in one process, each document with up to `documents.bytes_max` in memory."""
WAIT_S: Final = 60.0


class UploadTurns(Turns):
    """The places of one process."""

    def __init__(self) -> None:
        super().__init__(Places(AT_ONCE, WAIT_S), _late)


def _late() -> RateLimited:
    return RateLimited(f"{AT_ONCE} uploads are under way here; send it again", retry_after_s=2)
