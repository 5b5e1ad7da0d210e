"""The read path's dependencies behind breakers: the same ports, at once a fault while one is left alone.

Nothing is changed on the way. `visible_scopes` is one quick question that every request of a cold or stale scope waits
for behind that scope's lock, so it is given up too; the others are bounded by who asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from time import perf_counter
from typing import Final, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.breaker import Breaker
from memory.chain import Digest
from memory.checkpoints import Said, ToLoad
from memory.model import IndexRow, Injections, Quoted, Scope, ScopeVersion, SessionRef, Vector
from memory.ports import Embedder
from memory.read.conversation import Asked, ChainStore, Hot, HotState
from memory.read.dropped import Joint
from memory.read.hot import IndexSource
from memory.read.items import Filter
from memory.read.ledger import HotLedger, LedgerStore
from memory.read.personas import PersonaReads
from memory.read.recall import ColdStore
from memory.read.restore import RestoreStore
from memory.read.working import HotContexts, Known

# A third of a millisecond where the store is well; a search of the API may wait longer than a prompt does.
_VISIBLE_S: Final = 1.0


class Reads(IndexSource, ColdStore, ChainStore, LedgerStore, RestoreStore, PersonaReads, Protocol):
    """All that the read path asks of the store."""


class GuardedReads:
    """Implements Reads in front of another."""

    def __init__(self, reads: Reads, breaker: Breaker) -> None:
        self._reads = reads
        self._breaker = breaker

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """The scopes this identity may see. Raises StoreUnavailable."""
        return await self._breaker.bounded(lambda: self._reads.visible_scopes(scope), _VISIBLE_S)

    def index_rows(
        self,
        tenant: UUID,
        scope_ids: Sequence[int],
        *,
        after: Mapping[int, int] | None = None,
        as_of: datetime | None = None,
    ) -> AsyncIterator[list[IndexRow]]:
        """Rows changed after these versions, in batches. Raises StoreUnavailable."""
        return self._breaker.each(lambda: self._reads.index_rows(tenant, scope_ids, after=after, as_of=as_of))

    def injections(self, tenant: UUID, after: Mapping[int, int]) -> AsyncIterator[list[Injections]]:
        """Counters changed after these versions, in batches. Raises StoreUnavailable."""
        return self._breaker.each(lambda: self._reads.injections(tenant, after))

    async def nearest(
        self, tenant: UUID, scope_ids: Sequence[int], vector: Vector, k: int, where: Filter, *, now: datetime
    ) -> list[IndexRow]:
        """The k nearest memories by an exact scan. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.nearest(tenant, scope_ids, vector, k, where, now=now))

    async def session_of_chains(self, scope: Scope, digests: Sequence[bytes]) -> Mapping[bytes, SessionRef]:
        """Sessions by chain digest. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.session_of_chains(scope, digests))

    async def has_copies(self, scope: Scope) -> bool:
        """Whether anything was imported into this very scope. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.has_copies(scope))

    async def ledger(self, scope: Scope, session_id: UUID, chains: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Sealed entries by place. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.ledger(scope, session_id, chains))

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        """These memories as they are now. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.standing(tenant, scope_ids, memory_ids))

    async def summary(self, tenant: UUID, scope_ids: Sequence[int], session_id: UUID) -> IndexRow | None:
        """The rolling summary of a session. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.summary(tenant, scope_ids, session_id))

    async def checkpoint(self, scope: Scope, name: str, as_of: datetime | None) -> ToLoad | None:
        """What a checkpoint names. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.checkpoint(scope, name, as_of))

    async def checkpoint_version(self, scope: Scope, checkpoint_id: UUID, version: int) -> ToLoad | None:
        """What a version of a checkpoint names. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.checkpoint_version(scope, checkpoint_id, version))

    async def given(self, scope: Scope, session_id: UUID, chars_max: int, limit: int) -> list[UUID]:
        """The chunks of what a conversation is given whole. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.given(scope, session_id, chars_max, limit))

    async def persona(self, scope: Scope, name: str) -> UUID | None:
        """The memory of a persona. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.persona(scope, name))

    async def words(self, tenant: UUID, scope_ids: Sequence[int], versions: Mapping[UUID, int]) -> Mapping[UUID, Said]:
        """What memories said in these versions. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.words(tenant, scope_ids, versions))

    async def quoted(self, scope: Scope, memory_ids: Sequence[UUID]) -> Mapping[UUID, frozenset[bytes]]:
        """Where the turns stand that these memories quote. Raises StoreUnavailable."""
        return await self._breaker.call(lambda: self._reads.quoted(scope, memory_ids))


class HotStates(HotState, HotLedger, Protocol):
    """All that the read path asks of Redis."""


class GuardedHot:
    """Implements HotStates in front of another."""

    def __init__(self, hot: HotStates, breaker: Breaker) -> None:
        self._hot = hot
        self._breaker = breaker

    async def find(self, scope: Scope, scope_key: bytes, asked: Asked) -> Hot:
        """One round trip. Raises QueueUnavailable."""
        return await self._breaker.call(lambda: self._hot.find(scope, scope_key, asked))

    async def joints(self, scope: Scope, scope_key: bytes, pairs: Sequence[Digest]) -> Mapping[Digest, Joint]:
        """Where these pairs stand. Raises QueueUnavailable."""
        return await self._breaker.call(lambda: self._hot.joints(scope, scope_key, pairs))

    async def note(
        self,
        scope: Scope,
        scope_key: bytes,
        session_id: UUID,
        entries: Mapping[Digest, bytes],
        withdrawn: Sequence[Digest],
        *,
        anew: bool = False,
    ) -> None:
        """Have the ledger say so. Raises QueueUnavailable."""
        await self._breaker.call(lambda: self._hot.note(scope, scope_key, session_id, entries, withdrawn, anew=anew))

    async def keep(
        self,
        scope: Scope,
        scope_key: bytes,
        answers: Sequence[bytes],
        opening: bytes | None,
        opens: bool,
        ref: SessionRef,
        pairs: Mapping[Digest, Joint],
    ) -> None:
        """Remember whose answers these are. Raises QueueUnavailable."""
        await self._breaker.call(lambda: self._hot.keep(scope, scope_key, answers, opening, opens, ref, pairs))


class HotHints(HotContexts, Protocol):
    """What a worker leaves in Redis for readers, who can do without it."""

    async def announce(self, tenant: UUID, scope_id: int, version: int) -> None:
        """Tell readers that a scope has reached `version`. Raises QueueUnavailable."""


class GuardedHints:
    """Implements HotHints in front of another: an exchange waits for two of them, one after the other, and a queue of
    thousands on a disk with 200 ms an fsync was stored at 5 to 10 a second, all of it time limits.
    """

    def __init__(self, hot: HotHints, breaker: Breaker) -> None:
        self._hot = hot
        self._breaker = breaker

    async def announce(self, tenant: UUID, scope_id: int, version: int) -> None:
        """Tell readers of a version. Raises QueueUnavailable."""
        await self._breaker.call(lambda: self._hot.announce(tenant, scope_id, version))

    async def working(self, scope: Scope, scope_key: bytes, session_id: UUID) -> tuple[int, bytes] | None:
        """The working context of a session. Raises QueueUnavailable."""
        return await self._breaker.call(lambda: self._hot.working(scope, scope_key, session_id))

    async def keep_working(
        self, scope: Scope, scope_key: bytes, session_id: UUID, known: Known, sealed: bytes, ttl_s: int
    ) -> None:
        """Keep it unless a newer one is there. Raises QueueUnavailable."""
        await self._breaker.call(lambda: self._hot.keep_working(scope, scope_key, session_id, known, sealed, ttl_s))

    async def drop_working(self, scope: Scope, scope_key: bytes, session_id: UUID) -> None:
        """Keep none. Raises QueueUnavailable."""
        await self._breaker.call(lambda: self._hot.drop_working(scope, scope_key, session_id))


class GuardedEmbedder:
    """Implements Embedder in front of another; `took` hears how long each question took, `left` how long one was waited
    for in vain, seconds. One that is refused at once says nothing of either.
    """

    def __init__(
        self, embedder: Embedder, breaker: Breaker, took: Callable[[float], None], left: Callable[[float], None]
    ) -> None:
        self._embedder = embedder
        self._breaker = breaker
        self._took = took
        self._left = left

    @property
    def model(self) -> str:
        """Registry name of the model."""
        return self._embedder.model

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._embedder.dim

    async def embed_query(self, text: str) -> Vector:
        """One unit vector, shape [dim]. Raises EmbedderUnavailable."""
        began = perf_counter()
        try:
            vector = await self._breaker.call(lambda: self._embedder.embed_query(text))
        except asyncio.CancelledError:
            self._left(perf_counter() - began)
            raise
        self._took(perf_counter() - began)
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape [len(texts), dim]. Raises EmbedderUnavailable."""
        return await self._embedder.embed_documents(texts)
