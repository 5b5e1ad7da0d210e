"""The bytes of answers that go by, held until they are captured: chunks in, the copy out, bounded twice.

One answer by its own bound, all answers under way in this process together by another, which tenants share: many slow
clients with long answers would fill the memory else. A copy beyond either is dropped at once, its bytes given back, and
says why: then the exchange is kept without its answer, with that reason. The bytes on their way to the client are not
touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from memory.telemetry import Metrics
from proxy.in_flight import Shared

Refusal = Literal["answer_too_large", "copies_full"]


class Copies:
    """The bound of one process. `tenants`: there may be several, and none can take all that there is."""

    def __init__(self, bytes_max: int, metrics: Metrics, *, tenants: bool = False) -> None:
        self._shared = Shared(bytes_max, tenants=tenants)
        self._metrics = metrics

    @property
    def held(self) -> int:
        """Bytes of all copies together."""
        return self._shared.taken

    def of(self, tenant: UUID) -> Share:
        """What a tenant has of them."""
        return Share(self, tenant)

    def take(self, tenant: UUID, size: int) -> bool:
        """Hold so many bytes more, where they fit."""
        if not self._shared.take(tenant, size):
            return False
        if (self.held ^ (self.held - size)) >> 20:  # a MiB more: each chunk would cost 3 us
            self._metrics.copies_bytes.set(self.held)
        return True

    def give_back(self, tenant: UUID, size: int) -> None:
        """Hold so many fewer."""
        if size:  # of an answer that nobody keeps there is nothing
            self._shared.give_back(tenant, size)
            self._metrics.copies_bytes.set(self.held)

    def refused(self, why: Refusal) -> None:
        """Count a copy that is not held."""
        self._metrics.copies_bytes.set(self.held)
        self._metrics.copies_refused.labels(why).inc()


@dataclass(frozen=True, slots=True)
class Share:
    """The copies of one tenant."""

    copies: Copies
    tenant: UUID

    def take(self, size: int) -> bool:
        """Hold so many bytes more, where they fit."""
        return self.copies.take(self.tenant, size)

    def give_back(self, size: int) -> None:
        """Hold so many fewer."""
        self.copies.give_back(self.tenant, size)


class Copy:
    """One answer's bytes. `bytes_max` 0: none is wanted, and nothing is held. Who holds it calls `release` once."""

    def __init__(self, bytes_max: int, share: Share) -> None:
        self._bytes_max = bytes_max
        self._share = share
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
        elif self._share.take(len(chunk)):
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
        other = Copy(self._bytes_max, self._share)
        other._size, other.chunks, other.refused = self._size, self.chunks, self.refused
        self._size, self.chunks = 0, []
        return other

    def release(self) -> None:
        """Give all of it back."""
        self._share.give_back(self._size)
        self._size, self.chunks = 0, []

    def _refuse(self, why: Refusal) -> None:
        self.release()
        self.refused = why
        self._share.copies.refused(why)
