"""Where the write path's counts go: a name and an amount in, nothing out.

The metrics behind it are chosen where the program is wired.
"""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Adds to named counters.

    Hand-off: `queued`, `spooled`, `undurable`, `dropped`, `drained`, `put_failed`, `spool_failed`, `spool_damaged`,
    `adopted`. Worker: `stored`, `transient`, `poison`, `buried`, `lane_lost`, `unforeseen`.
    """

    def count(self, name: str, amount: int = 1) -> None:
        """Add `amount` to the counter `name`. Never raises."""


class NoMeter:
    """Counts nothing."""

    def count(self, name: str, amount: int = 1) -> None:
        """Forget it."""
