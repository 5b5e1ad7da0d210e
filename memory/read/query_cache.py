"""Vectors of questions, computed once: an Embedder in, a QueryEmbedder out.

A question that was asked within `ttl_s` is answered from process memory, and the same question asked by many at once is
embedded once for all of them. Who leaves takes nothing from the others; when all have left it is not computed. Keys are
digests of model and exact text under a secret of this process, so no text lies here; a vector is made of content all
the same, so it ends with its time, and everything goes when an erasure is announced (`let_go`). Bounded in bytes, least
recently used out first. Refuses nothing itself: the embedder's faults pass, and none is kept.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.flights import Flights
from memory.model import Vector
from memory.ports import Embedder
from memory.telemetry import Metrics

# What an entry costs beside its vector: key, array header, tuple and the place in the table (sys.getsizeof, rounded).
ENTRY_BYTES: Final = 512
# 384 dimensions as float32 and the above are 2 KiB: 8 MiB hold the last 4,000 questions.
BYTES_MAX: Final = 8_388_608
TTL_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class _Held:
    """A vector and when its time is over, seconds of the clock."""

    vector: Vector
    until: float


class QueryCache:
    """Implements QueryEmbedder in front of another. One per process."""

    def __init__(
        self,
        embedder: Embedder,
        metrics: Metrics,
        *,
        bytes_max: int = BYTES_MAX,
        ttl_s: float = TTL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder = embedder
        self._asked = metrics.query_embeddings
        self._bytes_max = bytes_max
        self._ttl_s = ttl_s
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        self._bytes = 0
        self._flights: Flights[bytes, Vector] = Flights()

    @property
    def model(self) -> str:
        """Registry name of the model."""
        return self._embedder.model

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._embedder.dim

    @property
    def bytes_held(self) -> int:
        """About what it takes."""
        return self._bytes

    def at_hand(self, text: str) -> Vector | None:
        """See QueryEmbedder; shared with others: read only."""
        held = self._of_now(self._key(text))
        if held is not None:
            self._asked.inc("hit")
        return held

    async def embed_query(self, text: str) -> Vector:
        """One unit vector, shape [dim], shared with others: read only. Raises EmbedderUnavailable."""
        held = self.at_hand(text)
        if held is not None:
            return held
        key = self._key(text)
        self._asked.inc("shared" if self._flights.under_way(key) else "miss")
        return await self._flights.share(key, lambda: self._compute(key, text))

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the embedder does it: documents are not asked twice."""
        return await self._embedder.embed_documents(texts)

    def let_go(self) -> None:
        """Hold nothing, not even what is being computed: something was erased."""
        self._held.clear()
        self._flights.let_go()
        self._bytes = 0

    async def _compute(self, key: bytes, text: str) -> Vector:
        vector = await self._embedder.embed_query(text)
        if self._flights.is_mine(key):  # nothing was let go of meanwhile
            self._keep(key, vector)
        return vector

    def _of_now(self, key: bytes) -> Vector | None:
        held = self._held.get(key)
        if held is None:
            return None
        if held.until <= self._clock():
            self._drop(key)
            return None
        self._held.move_to_end(key)
        return held.vector

    def _keep(self, key: bytes, vector: Vector) -> None:
        now = self._clock()
        while self._held and next(iter(self._held.values())).until <= now:  # what is over does not wait for its place
            self._drop(next(iter(self._held)))
        self._drop(key)
        self._held[key] = _Held(vector, now + self._ttl_s)
        self._bytes += _size_of(vector)
        while self._bytes > self._bytes_max:
            self._drop(next(iter(self._held)))

    def _drop(self, key: bytes) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self._bytes -= _size_of(held.vector)

    def _key(self, text: str) -> bytes:
        asked = f"{self._embedder.model}\0{text}".encode("utf-8", "surrogatepass")
        return blake2b(asked, key=self._secret, digest_size=16).digest()


def _size_of(vector: Vector) -> int:
    return int(vector.nbytes) + ENTRY_BYTES
