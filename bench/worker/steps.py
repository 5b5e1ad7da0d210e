"""CPU time by step of the write path: its parts in, the same parts with a stop-watch around each out.

Timed are the ports that the path is given, so the product carries no stop-watch for this: `memory_proxy_write_seconds`
tells an operator how long a step took; what it computed is a question of benchmarks. A function's time is its thread's
CPU time; a coroutine's is that of its own runs between two awaits, whatever else the loop does meanwhile. What a part
calls of another is counted there, not here. The embedder's thread is read from /proc at the end. Linux only.

What is in none of the steps is `rest`: unsealing, JSON, rows, the event loop, the clients of Postgres and the queue.
"""

from __future__ import annotations

import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.chain import Digest
from memory.model import Base, Commit, Committed, NewFact, Scope, SessionRef, Spoken, Turn
from memory.ports import Embedder, LanguageDetector, TokenCounter
from memory.stored import Digests
from memory.write.facts import FindsFacts
from memory.write.parts import Redacts
from memory.write.seams import Announcer, ExchangeStore, WriteParts
from memory.write.summarise import DueSummary, Summariser
from memory.write.windows import TextTokenizer
from policies.redaction import Redacted

T = TypeVar("T")
DOCUMENT_THREAD: Final = "embed-documents"
STEPS: Final = (
    "look up",
    "redact",
    "language",
    "count tokens",
    "extract",
    "split",
    "embed",
    "store",
    "store, with facts",
    "announce",
    "summarise",
)


@dataclass(slots=True)
class _Running:
    """A step that is being timed on a thread, and since when it has been at it itself."""

    step: str
    since_ns: int


@dataclass(slots=True)
class StepClock:
    """CPU nanoseconds and calls by step. Mutable; for several threads."""

    spent_ns: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _local: threading.local = field(default_factory=threading.local)

    def call(self, step: str, work: Callable[[], T]) -> T:
        """Run it, and note what it took."""
        with self._lock:
            self.calls[step] += 1
        self._enter(step)
        try:
            return work()
        finally:
            self._leave()

    @types.coroutine
    def drive(self, step: str, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await it, and note what its own runs took."""
        with self._lock:
            self.calls[step] += 1
        send: Callable[[], Any] = partial(work.send, None)
        while True:
            self._enter(step)
            try:
                waited_for = send()
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self._leave()
            try:
                value = yield waited_for
            except GeneratorExit:
                work.close()
                raise
            except BaseException as exc:  # noqa: BLE001 - a cancellation, as a rule: it is the inner one's
                send = partial(work.throw, exc)
            else:
                send = partial(work.send, value)

    def _stack(self) -> list[_Running]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        stack: list[_Running] = self._local.stack
        return stack

    def _enter(self, step: str) -> None:
        stack, now_ns = self._stack(), time.thread_time_ns()
        if stack:
            self._add(stack[-1].step, now_ns - stack[-1].since_ns)
        stack.append(_Running(step, now_ns))

    def _leave(self) -> None:
        stack, now_ns = self._stack(), time.thread_time_ns()
        ended = stack.pop()
        self._add(ended.step, now_ns - ended.since_ns)
        if stack:
            stack[-1].since_ns = now_ns

    def _add(self, step: str, spent_ns: int) -> None:
        with self._lock:
            self.spent_ns[step] += spent_ns


def thread_cpu_s(name: str) -> float:
    """CPU seconds of this process's threads of that name."""
    total_ns = 0
    for thread in threading.enumerate():
        if thread.name.startswith(name) and thread.native_id is not None:
            try:
                total_ns += int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0])
            except (OSError, IndexError):
                continue  # it has just ended, or the kernel keeps no such figures
    return total_ns / 1e9


def timed_parts(parts: WriteParts, clock: StepClock) -> WriteParts:
    """The same parts, timed."""
    return replace(
        parts,
        store=TimedStore(parts.store, clock),
        embedder=TimedEmbedder(parts.embedder, clock),
        windows=TimedWindows(parts.windows, clock),
        redactor=TimedRedactor(parts.redactor, clock),
        counter=TimedCounter(parts.counter, clock),
        languages=TimedLanguages(parts.languages, clock),
        find_facts=timed_facts(parts.find_facts, clock),
        announcer=TimedAnnouncer(parts.announcer, clock),
        summariser=TimedSummariser(parts.summariser, clock),
    )


def timed_facts(find: FindsFacts, clock: StepClock) -> FindsFacts:
    """The rules of extraction."""

    def timed(turns: Sequence[Turn], talk: Sequence[Spoken] = ()) -> list[NewFact]:
        return clock.call("extract", lambda: find(turns, talk))

    return timed


@dataclass(frozen=True, slots=True)
class TimedStore:
    """Looking up chains and sessions; storing, with and without facts to reconcile."""

    inner: ExchangeStore
    clock: StepClock

    async def known_chains(self, scope: Scope, session_id: UUID, chains: Sequence[Digest]) -> Mapping[Digest, UUID]:
        return await self.clock.drive("look up", _of(self.inner.known_chains(scope, session_id, chains)))

    async def take_places(self, scope: Scope, session_id: UUID, places: Mapping[Digest, Digest]) -> None:
        await self.clock.drive("store", _of(self.inner.take_places(scope, session_id, places)))

    async def session_of_chains(self, scope: Scope, digests: Sequence[Digest]) -> Mapping[bytes, SessionRef]:
        return await self.clock.drive("look up", _of(self.inner.session_of_chains(scope, digests)))

    async def has_copies(self, scope: Scope) -> bool:
        return await self.clock.drive("look up", _of(self.inner.has_copies(scope)))

    async def chains_elsewhere(self, scope: Scope, session_id: UUID, chains: Sequence[Digest]) -> Set[bytes]:
        return await self.clock.drive("look up", _of(self.inner.chains_elsewhere(scope, session_id, chains)))

    async def session_that_went_on(self, scope: Scope, digests: Sequence[Digest], after: datetime) -> SessionRef | None:
        return await self.clock.drive("look up", _of(self.inner.session_that_went_on(scope, digests, after)))

    async def base(self, scope: Scope, session_id: UUID, subject_id: UUID, since: datetime, least: int) -> Base | None:
        return await self.clock.drive("look up", _of(self.inner.base(scope, session_id, subject_id, since, least)))

    async def commit(self, commit: Commit, *, now: datetime, digests: Digests) -> Committed:
        step = "store, with facts" if commit.facts else "store"
        return await self.clock.drive(step, _of(self.inner.commit(commit, now=now, digests=digests)))


@dataclass(frozen=True, slots=True)
class TimedEmbedder:
    """The embedding as the event loop sees it; its own thread's time is added where the report is made."""

    inner: Embedder
    clock: StepClock

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def dim(self) -> int:
        return self.inner.dim

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        return await self.inner.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.clock.calls["windows"] += len(texts)
        return await self.clock.drive("embed", _of(self.inner.embed_documents(texts)))


@dataclass(frozen=True, slots=True)
class TimedWindows:
    """Cutting a text into windows: tokenising it."""

    inner: TextTokenizer
    clock: StepClock

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        return self.clock.call("split", lambda: self.inner.offsets(text))


@dataclass(frozen=True, slots=True)
class TimedRedactor:
    """Finding secrets."""

    inner: Redacts
    clock: StepClock

    def redact(self, text: str) -> Redacted:
        return self.clock.call("redact", lambda: self.inner.redact(text))


@dataclass(frozen=True, slots=True)
class TimedCounter:
    """Counting tokens of the served model."""

    inner: TokenCounter
    clock: StepClock

    @property
    def exact(self) -> bool:
        return self.inner.exact

    def count(self, text: str) -> int:
        return self.clock.call("count tokens", lambda: self.inner.count(text))


@dataclass(frozen=True, slots=True)
class TimedLanguages:
    """Telling the language."""

    inner: LanguageDetector
    clock: StepClock

    def detect(self, text: str) -> str | None:
        return self.clock.call("language", lambda: self.inner.detect(text))


@dataclass(frozen=True, slots=True)
class TimedAnnouncer:
    """Telling readers."""

    inner: Announcer
    clock: StepClock

    async def announce(self, tenant: UUID, scope_id: int, version: int) -> None:
        await self.clock.drive("announce", _of(self.inner.announce(tenant, scope_id, version)))


class TimedSummariser(Summariser):
    """The rolling summary: its state is asked for after each exchange, it is made when due."""

    def __init__(self, inner: Summariser, clock: StepClock) -> None:
        self._inner = inner
        self._timer = clock

    async def due(self, scope: Scope, session: SessionRef) -> DueSummary | None:
        return await self._timer.drive("summarise", self._inner.due(scope, session))

    async def keep(
        self, scope: Scope, session: SessionRef, due: DueSummary, subject_id: UUID, lane: str, fence: int
    ) -> None:
        self._timer.calls["summaries"] += 1
        await self._timer.drive("summarise", self._inner.keep(scope, session, due, subject_id, lane, fence))


async def _of(awaitable: Any) -> Any:
    """A coroutine of whatever a port gives."""
    return await awaitable
