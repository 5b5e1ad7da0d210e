"""What is under way at once in one process: a bound and what to say beyond it in, a place for a while out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memory.errors import RateLimited


class UnderWay:
    """So many places; mutable. `said`: why somebody is sent away, `again_s`: for how long."""

    def __init__(self, most: int, said: str, again_s: int) -> None:
        self._most = most
        self._said = said
        self._again_s = again_s
        self._now = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """One of the places, while the body runs. Raises RateLimited where all are taken."""
        if self._now >= self._most:
            raise RateLimited(self._said, retry_after_s=self._again_s)
        self._now += 1
        try:
            yield
        finally:
            self._now -= 1
