"""The seams: what the steps ask of the outside. One shape per method; units, shapes and errors are in the docstrings.

Adapters implement these and are named only where the program is wired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.model import Candidate, Vector
from policies.admission import Features, Verdict

ASKED: Final = b"asked"
"""What is announced where an erasure or an upload was asked for: memory workers look at once."""


class Embedder(Protocol):
    """Text to unit vectors. Never runs on the event loop."""

    @property
    def model(self) -> str:
        """Registry name of the model."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    async def embed_query(self, text: str) -> Vector:
        """Return one unit vector, shape [dim]. Raises EmbedderUnavailable."""

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape [len(texts), dim]. Raises EmbedderUnavailable."""


class QueryEmbedder(Embedder, Protocol):
    """An embedder that knows the vectors of questions that were asked a moment ago."""

    def at_hand(self, text: str) -> Vector | None:
        """The vector of this question; None where it would have to be computed."""


class TokenCounter(Protocol):
    """Token counts of the served model."""

    @property
    def exact(self) -> bool:
        """Whether counts are the served model's own."""

    def count(self, text: str) -> int:
        """Tokens of a text without any template."""


class ContextRouter(Protocol):
    """How an admitted memory enters the block: inline, as a whole, or retrieved, by an excerpt."""

    def excerpt_chars(self, candidate: Candidate, place: int, terms: Mapping[str, float]) -> int | None:
        """None: inline. Else the characters, 1 or more, of the excerpt that the Compressor makes of it.

        `place` is its rank among those taken so far, from 0; `terms` are the question's with their idf. Asked before
        the budget: what then does not fit is left out. Pure, so that the same question gives the same bytes;
        microseconds; never raises.
        """


class Compressor(Protocol):
    """A long memory to what matters of it for one question."""

    def compress(self, text: str, shown: tuple[int, int], terms: Mapping[str, float], chars_max: int) -> str:
        """At most about `chars_max` characters of `text`. `shown` is its best window, `terms` the question's idf.

        Runs off the event loop where bodies are long, on it where they are not: milliseconds, and never raises.
        """


class Reranker(Protocol):
    """How well texts answer a question, read together with it. Computes nothing on the event loop."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score for each text, in their order: finite, 0..1, larger is better. No texts: no scores.

        Raises RerankerUnavailable. May be cancelled at any await, when recall's deadline is near; what was begun for a
        cancelled call must end by itself and soon, since later calls wait for it.
        """


class Evaluator(Protocol):
    """Whether what was found for one question is worth the reader's tokens."""

    def __call__(self, candidates: Sequence[Features]) -> Sequence[Verdict]:
        """One verdict for each candidate, in their order, best ranked first; none for none.

        Pure, and microseconds: it runs inside recall's deadline, off the event loop. Never raises.
        """


class QueryTransformer(Protocol):
    """A question, as it was asked, to the text to search by."""

    def transform(self, query: str, previous: Sequence[str]) -> str:
        """The text to embed and to search by; "" searches by the question itself.

        `previous` are the texts of the turns before it, oldest first; may be empty. Pure, since it may be called more
        than once for one question; on the event loop, so microseconds; never raises.
        """


@dataclass(frozen=True, slots=True)
class Entry:
    """One envelope on its way: clear routing fields, sealed content.

    `kind` is `exchange` or `import`. The lane follows from tenant and subject, so order within a subject is kept.
    """

    exchange_id: UUID
    tenant_id: UUID
    subject_id: UUID
    kind: str
    lane_class: str  # live | bulk
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Delivery:
    """An entry as a worker takes it: where it lies, how often it was tried."""

    entry: Entry
    lane: str
    delivery_id: str
    attempts: int


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How much is waiting. Ages in seconds."""

    pending: int
    in_flight: int
    background: int
    dead: int
    oldest_seconds: float


class Queue(Protocol):
    """The durable queue. `put` returns only when the entry is as durable as the configuration says."""

    async def put(self, entry: Entry) -> None:
        """Append. Raises QueueUnavailable; then the entry may or may not be there (storage is idempotent)."""

    async def take(self, lanes: Sequence[str], *, count: int, block_ms: int) -> list[Delivery]:
        """The next entries of these lanes, oldest first within a lane. Raises QueueUnavailable."""

    async def reclaim(self, lane: str, *, count: int) -> list[Delivery]:
        """What an earlier holder of the lane had taken and not finished, oldest first. Raises QueueUnavailable."""

    async def done(self, delivery: Delivery) -> None:
        """Acknowledge and delete, after the commit. Raises QueueUnavailable."""

    async def bury(self, delivery: Delivery, reason: str) -> None:
        """Move to the dead letters, sealed as it is. Raises QueueUnavailable."""

    async def depth(self) -> QueueDepth:
        """Counts over all lanes. Raises QueueUnavailable."""


class LanguageDetector(Protocol):
    """Which language a text is in."""

    def detect(self, text: str) -> str | None:
        """A code of ISO 639 ("de"), None where that is not clear. Microseconds, on any thread; never raises."""


class Leader(Protocol):
    """Says which of many workers does a job that one does for all."""

    async def lead(self, ttl_s: float) -> int | None:
        """The fence under which this process leads for so many seconds, again and again the same; None while another
        does. Raises StoreUnavailable.
        """
