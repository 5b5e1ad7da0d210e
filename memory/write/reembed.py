"""Re-embedding: what one model has, made with another beside live traffic, and the switch between the two.

`fill` goes through the scopes until nothing lacks vectors, in batches of some seconds at most, and rests after each;
nothing is held across an embedding or a rest. What is written meanwhile goes to the served model's table alone and is
taken up by the next pass: writers embed once, know one model, and a crash leaves nothing half done in two tables.
`switch` closes the last gap while writers wait for a moment (they come again by themselves), then changes the one row
that all follow. It works the same in both directions. One does this among many processes; two that think they lead are
told apart by the fence. Killed anywhere, the next run goes on; a killed switch holds writers for HELD_S at most.
Raises StoreUnavailable, EmbedderUnavailable (come again), LeaseLost (another leads now).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.bounded import rested
from memory.errors import LeaseLost, StoreUnavailable
from memory.ports import Embedder
from memory.serving import Serving, StoredModel
from memory.write.windows import TextTokenizer, dated, split_windows

# One that was killed is followed after this; one that embeds for longer goes on, where nobody took its place.
LEASE_S: Final = 30.0
# Writers wait this long at most: captured exchanges wait in their queue, an edit by the API is answered 503.
HELD_S: Final = 20.0
# A last gap of more than that is closed before writers are held: 64 take about 2 s.
GAP_MAX: Final = 64
TRIES: Final = 20
# Of what was stored without a new scope version: all is looked at before writers are held, what is recent then.
EVER_S: Final = 3e9
RECENT_S: Final = 86_400.0
# Writers that are faster than a pass are held for longer at every so manieth try.
HELD_EVERY: Final = 4


@dataclass(frozen=True, slots=True)
class Lacking:
    """A version of a memory without vectors of the model."""

    memory_id: UUID
    version: int
    content: str
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True)
class Taken:
    """A batch: how many memories are done with it, what is to be embedded, and how far the scope is then (None: as
    before, there is more of the same).
    """

    memories: int
    lacking: tuple[Lacking, ...]
    upto: tuple[int, UUID] | None


@dataclass(frozen=True, slots=True)
class Vectors:
    """What a version's text has become: windows, and vectors of shape [len(windows), dim]."""

    memory_id: UUID
    version: int
    windows: tuple[tuple[int, int], ...]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Filled:
    """How far a fill is: memories done and versions embedded by this run, memories left, seconds of work and rest."""

    memories: int
    embedded: int
    left: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Memories a second."""
        return self.memories / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At this rate; None while there is none."""
        return self.left / self.per_second if self.memories else None


Say = Callable[[Filled], None]
End = Literal["filled", "paused"]


class ReembedStore(Protocol):
    """What this asks of the store."""

    async def lead(self, ttl_s: float) -> int | None: ...
    async def resign(self) -> None: ...
    async def serving(self) -> Serving | None: ...
    async def paused(self) -> bool: ...
    async def left(self, model: StoredModel) -> int: ...
    def unfilled(self, model: StoredModel) -> AsyncIterator[tuple[UUID, int]]: ...
    async def passed_over(self, model: StoredModel, recent_s: float, fence: int) -> int: ...
    async def take(self, model: StoredModel, tenant: UUID, scope_id: int) -> Taken: ...
    async def put(
        self, model: StoredModel, tenant: UUID, scope_id: int, taken: Taken, made: Sequence[Vectors], fence: int
    ) -> None: ...
    async def hold(self, seconds: float, fence: int) -> None: ...
    async def switch(self, standby: StoredModel, fence: int) -> int | None: ...
    async def next_generation(self) -> None: ...


class Reembedding:
    """One model being filled, or switched to. `stop`: finish the batch in hand and pause.

    `rest`: seconds of rest for each second of work. The embedder is the model's own.
    """

    def __init__(
        self,
        store: ReembedStore,
        model: StoredModel,
        embedder: Embedder,
        windows: TextTokenizer,
        *,
        rest: float,
        stop: asyncio.Event,
        say: Say,
    ) -> None:
        self._store = store
        self._model = model
        self._embedder = embedder
        self._windows = windows
        self._rest = rest
        self._stop = stop
        self._say = say
        self._done = Filled(0, 0, 0, 0.0)
        self._left = 0

    async def fill(self) -> End | None:
        """Fill the model's table until nothing is left. None: another process fills or switches."""
        fence = await self._store.lead(LEASE_S)
        if fence is None:
            return None
        try:
            return await self._fill(fence)
        finally:
            await self._resign()

    async def switch(self) -> int | None:
        """Serve this model, which stands by: the generation. None: another process fills or switches.

        Raises LeaseLost too where writers came in between again and again.
        """
        fence = await self._store.lead(LEASE_S)
        if fence is None:
            return None
        try:
            for attempt in range(1, TRIES + 1):
                self._left = await self._store.left(self._model)
                if self._left > GAP_MAX and attempt % HELD_EVERY:
                    # The first pass catches up; later ones are raced by writers.
                    rest = self._rest if attempt == 1 else 0.0
                    if await self._pass(fence, rest=rest, until=None) == "paused":
                        raise LeaseLost("stopped before the switch; nothing was switched")
                elif (generation := await self._close_the_gap(fence)) is not None:
                    return generation
            raise LeaseLost("writers were faster than the last gap could be closed; try again when less is written")
        finally:
            await self._resign()

    async def _resign(self) -> None:
        """Let another at once, or where the store is away when the lease is over: what was done is done."""
        with contextlib.suppress(StoreUnavailable):
            await self._store.resign()

    async def repaired(self) -> None:
        """What lacked vectors of the served model has them: let every process read again."""
        await self._store.next_generation()

    async def _close_the_gap(self, fence: int) -> int | None:
        generation = None
        if await self._store.passed_over(self._model, EVER_S, fence):
            await self._pass(fence, rest=0.0, until=None)
        await self._store.hold(HELD_S, fence)
        try:
            until = time.monotonic() + HELD_S / 2
            await self._pass(fence, rest=0.0, until=until)
            if await self._store.passed_over(self._model, RECENT_S, fence):
                await self._pass(fence, rest=0.0, until=until)
            if await self._store.left(self._model) == 0:
                generation = await self._switched(fence)
        finally:
            if generation is None:
                await self._store.hold(-1.0, fence)
        return generation

    async def _switched(self, fence: int) -> int | None:
        """The generation. A switch whose end was not heard is looked for: who came again would switch back."""
        try:
            return await self._store.switch(self._model, fence)
        except StoreUnavailable:
            serving = await self._store.serving()
            if serving is None or serving.model.model_id != self._model.model_id:
                raise
            return serving.generation

    async def _fill(self, fence: int) -> End:
        """Pass after pass, until nothing is left, or no more than what is being written at the same time."""
        while True:
            self._left, before = await self._store.left(self._model), self._done.memories
            if self._left == 0:
                if await self._store.passed_over(self._model, EVER_S, fence) == 0:
                    return "filled"
                continue
            if await self._pass(fence, rest=self._rest, until=None) == "paused":
                return "paused"
            if self._done.memories - before <= GAP_MAX and await self._store.left(self._model) <= GAP_MAX:
                return "filled"

    async def _pass(self, fence: int, *, rest: float, until: float | None) -> End:
        """Once through all scopes that lack something; each to its end."""
        async for tenant, scope_id in self._store.unfilled(self._model):
            while True:
                if until is not None and time.monotonic() > until:
                    return "paused"
                if until is None and (self._stop.is_set() or await self._store.paused()):
                    return "paused"
                began = time.monotonic()
                if not await self._batch(tenant, scope_id, fence):
                    break
                await self._pause(rest * (time.monotonic() - began))
                self._tell(time.monotonic() - began)
        return "filled"

    async def _batch(self, tenant: UUID, scope_id: int, fence: int) -> bool:
        """Embed and store the next memories of a scope. False: there are none."""
        taken = await self._store.take(self._model, tenant, scope_id)
        if not taken.lacking and taken.upto is None:
            return False
        made = await self._embed(taken.lacking)
        if await self._store.lead(LEASE_S) != fence:  # an embedding can take longer than a lease
            raise LeaseLost("another process re-embeds now")
        await self._store.put(self._model, tenant, scope_id, taken, made, fence)
        done = self._done
        self._left = max(0, self._left - taken.memories)
        self._done = Filled(done.memories + taken.memories, done.embedded + len(made), self._left, done.seconds)
        return True

    async def _embed(self, lacking: Sequence[Lacking]) -> list[Vectors]:
        """As they are embedded when they are born (memory.write.embedding), in windows of this model."""
        if not lacking:
            return []
        spans = await asyncio.to_thread(lambda: [tuple(split_windows(one.content, self._windows)) for one in lacking])
        texts = [
            dated(one.content[start:end], one.occurred_at)
            for one, ranges in zip(lacking, spans, strict=True)
            for start, end in ranges
        ]
        vectors = await self._embedder.embed_documents(texts)
        made, at = [], 0
        for one, ranges in zip(lacking, spans, strict=True):
            made.append(Vectors(one.memory_id, one.version, ranges, vectors[at : at + len(ranges)]))
            at += len(ranges)
        return made

    async def _pause(self, seconds: float) -> None:
        """Rest; less when it is to stop."""
        if seconds > 0:
            await rested(self._stop, seconds)

    def _tell(self, seconds: float) -> None:
        done = self._done
        self._done = Filled(done.memories, done.embedded, self._left, done.seconds + seconds)
        self._say(self._done)
