"""The bytes of answers that go by, held until they are captured: chunks in, the copy out, bounded twice.

One answer by its own bound, all answers under way in this process together by another: many slow clients with long
answers would fill the memory else. A copy beyond either is dropped at once, its bytes given back, and says why: then
the exchange is kept without its answer, with that reason. The bytes on their way to the client are not touched.
"""

from __future__ import annotations

from typing import Literal

from memory.telemetry import Metrics

Refusal = Literal["answer_too_large", "copies_full"]


class Copies:
    """The bound of one process."""

    def __init__(self, bytes_max: int, metrics: Metrics) -> None:
        self._bytes_max = bytes_max
        self._metrics = metrics
        self.held = 0

    def take(self, size: int) -> bool:
        """Hold so many bytes more, where they fit."""
        if self.held + size > self._bytes_max:
            return False
        self.held += size
        if (self.held ^ (self.held - size)) >> 20:  # a MiB more: each chunk would cost 3 us
            self._metrics.copies_bytes.set(self.held)
        return True

    def give_back(self, size: int) -> None:
        """Hold so many fewer."""
        if size:  # of an answer that nobody keeps there is nothing
            self.held -= size
            self._metrics.copies_bytes.set(self.held)

    def refused(self, why: Refusal) -> None:
        """Count a copy that is not held."""
        self._metrics.copies_bytes.set(self.held)
        self._metrics.copies_refused.labels(why).inc()


class Copy:
    """One answer's bytes. `bytes_max` 0: none is wanted, and nothing is held. Who holds it calls `release` once."""

    def __init__(self, bytes_max: int, copies: Copies) -> None:
        self._bytes_max = bytes_max
        self._copies = copies
        self._size = 0
        self.passed = 0  # bytes that went by, held or not
        self.chunks: list[bytes] = []
        self.refused: Refusal | None = None

    def add(self, chunk: bytes) -> None:
        """Hold a chunk, or from now on nothing."""
        self.passed += len(chunk)
        if self.refused is not None or self._bytes_max == 0:
            return
        if self._size + len(chunk) > self._bytes_max:
            self._refuse("answer_too_large")
        elif self._copies.take(len(chunk)):
            self._size += len(chunk)
            self.chunks.append(chunk)
        else:
            self._refuse("copies_full")

    @property
    def bytes_max(self) -> int:
        """The bound of this answer."""
        return self._bytes_max

    def taken_over(self) -> Copy:
        """The same copy in the hands of another, who releases it; this one holds nothing any more."""
        other = Copy(self._bytes_max, self._copies)
        other._size, other.chunks, other.refused = self._size, self.chunks, self.refused
        self._size, self.chunks = 0, []
        return other

    def release(self) -> None:
        """Give all of it back."""
        self._copies.give_back(self._size)
        self._size, self.chunks = 0, []

    def _refuse(self, why: Refusal) -> None:
        self.release()
        self.refused = why
        self._copies.refused(why)
