"""The working context of one session: a scope and a session in, what the conversation is about at this moment out.

Held sealed in Redis for as long as the session is spoken in, and taken for true only as far as Postgres says: each
reading asks it for the version of the scope, and whether a memory of a turn that was read has changed since. What is
behind is advanced by the turns since; what was touched, expired, lost or is unreadable is made anew from the last
TURNS_READ_MAX turns. So a turn that is hidden, replaced or gone is gone from the next reading on, and a worker that
dies between the commit and the cache leaves nothing wrong. A working context is seen in its own session alone.

`of` raises StoreUnavailable. `follow` fails open: no context, and a line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol
from uuid import UUID

from memory.envelope import Binding, key_id_of, seal, unseal
from memory.errors import EnvelopeUnreadable, MemoryProxyFault, QueueUnavailable
from memory.keys import KeyRing
from memory.model import Scope
from memory.read.conversation import scope_key
from memory.read.working_bytes import packed, unpacked
from memory.seldom import Seldom
from memory.telemetry import Metrics, event
from policies.hygiene import is_junk
from policies.working import Call, Heard, WorkingContext, advance

log = logging.getLogger("memory_proxy.working")
TURNS_READ_MAX: Final = 1_000
# More turns than these are taken in on a thread: a turn takes some 200 us, and the loop has streams to serve.
_TURNS_ON_THE_LOOP: Final = 8
_OWN_MEMORY: Final = frozenset({"user", "assistant"})


@dataclass(frozen=True, slots=True)
class Known:
    """What a cached context is of: a version of its scope, the turns below a number."""

    version: int
    upto_seq: int


@dataclass(frozen=True, slots=True)
class WorkingTurn:
    """A turn as the store gives it: its two ends, its calls as (id, name, arguments), and whether it may be told.

    `known`: it has a memory of its own; `shown`: one that is neither hidden nor rejected nor says something else now.
    """

    event_id: UUID
    seq: int
    role: str
    name: str | None
    chars: int
    head: str
    tail: str
    calls: list[list[Any]] | None
    tool_call_id: str | None
    chain: bytes
    parent_chain: bytes | None
    integrity: str
    attached: bool
    known: bool
    shown: bool
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The scope's version, and turns: those behind what is known, or, `whole`, from `first_seq` to the last."""

    version: int
    whole: bool
    first_seq: int
    turns: tuple[WorkingTurn, ...]


class WorkingStore(Protocol):
    """The store as it knows sessions."""

    async def working(self, scope: Scope, session_id: UUID, known: Known | None, *, limit: int) -> Reading | None:
        """The turns behind `known`, or the last `limit` of all; None for no such session. Raises StoreUnavailable."""


class HotContexts(Protocol):
    """Sealed contexts that may be lost."""

    async def working(self, scope: Scope, scope_key: bytes, session_id: UUID) -> tuple[int, bytes] | None:
        """The version of the scope it is of, and the envelope. Raises QueueUnavailable."""

    async def keep_working(
        self, scope: Scope, scope_key: bytes, session_id: UUID, known: Known, sealed: bytes, ttl_s: int
    ) -> None:
        """Keep it unless a newer one is there. Raises QueueUnavailable."""

    async def drop_working(self, scope: Scope, scope_key: bytes, session_id: UUID) -> None:
        """Keep none. Raises QueueUnavailable."""


@dataclass(frozen=True, slots=True)
class WorkingParts:
    """What working contexts are made of. `count` gives the tokens of a text, on any thread."""

    hot: HotContexts
    store: WorkingStore
    keys: KeyRing
    count: Callable[[str], int]
    clock: Callable[[], datetime]
    metrics: Metrics
    budget_tokens: int
    ttl_s: int


class WorkingContexts:
    """Reads and keeps working contexts."""

    def __init__(self, parts: WorkingParts) -> None:
        self._parts = parts
        self._reading: set[asyncio.Task[WorkingContext | None]] = set()
        self._drops = 0  # how often `let_go` was called
        self._said = Seldom()

    def start(self, scope: Scope, session_id: UUID) -> asyncio.Task[WorkingContext | None]:
        """`follow` under way. Who has no time to wait leaves it: what it makes anew is there for the next reading."""
        task = asyncio.create_task(self.follow(scope, session_id))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        task.add_done_callback(_say_why_it_failed)
        return task

    def let_go(self) -> None:
        """Tell and keep nothing that was read before: something was erased."""
        self._drops += 1

    async def of(self, scope: Scope, session_id: UUID) -> WorkingContext | None:
        """The context as it is now; None for no such session. Nothing is kept. Raises StoreUnavailable."""
        found = await self._current(scope, session_id)
        return found[0] if found else None

    async def follow(self, scope: Scope, session_id: UUID) -> WorkingContext | None:
        """The same, kept hot for the next reading. Never raises a fault."""
        try:
            drops = None
            while drops != self._drops:
                drops = self._drops
                found = await self._current(scope, session_id)
            if found is None:
                return None
            context, version, fresh = found
            if fresh:
                await self._keep(scope, session_id, context, version, drops)
        except MemoryProxyFault as fault:
            self._say("no_working_context", session_id, fault)
            return None
        return context

    async def _current(self, scope: Scope, session_id: UUID) -> tuple[WorkingContext, int, bool] | None:
        """The context, the version it is of, and whether it is other than what is cached."""
        cached = await self._cached(scope, session_id)
        known = Known(cached[0], cached[1].upto_seq) if cached else None
        now = self._parts.clock()
        if cached and cached[1].expires_at is not None and cached[1].expires_at <= now:
            known = None
        read = await self._parts.store.working(scope, session_id, known, limit=TURNS_READ_MAX)
        if read is None:
            return None
        if cached and read.version < cached[0]:
            await self._drop(scope, session_id)  # the store was set back: what is cached is of another past
        before = cached[1] if cached and not read.whole else WorkingContext(read.first_seq, begun=read.first_seq == 0)
        context = await self._advanced(before, read, now)
        how = "rebuilt" if read.whole else "advanced" if read.turns else "held"
        self._parts.metrics.working.labels(how).inc()
        return context, read.version, cached is None or context != cached[1] or read.version != cached[0]

    async def _advanced(self, before: WorkingContext, read: Reading, now: datetime) -> WorkingContext:
        parts = self._parts
        work = partial(_advance, before, read, now, parts.budget_tokens, parts.count)
        return await asyncio.to_thread(work) if len(read.turns) > _TURNS_ON_THE_LOOP else work()

    async def _cached(self, scope: Scope, session_id: UUID) -> tuple[int, WorkingContext] | None:
        """What Redis has and can be read; a cache that is away or spoilt has nothing."""
        parts = self._parts
        chain_key = await parts.keys.chain_key(scope.tenant)
        try:
            found = await parts.hot.working(scope, scope_key(chain_key, scope), session_id)
            if found is None:
                return None
            version, sealed = found
            key = await parts.keys.by_id(scope.tenant, key_id_of(sealed))
            return version, unpacked(
                unseal(key, await self._binding(scope, session_id), sealed), self._parts.budget_tokens
            )
        except (QueueUnavailable, EnvelopeUnreadable, ValueError) as fault:
            event(log, "working_context_not_cached", logging.DEBUG, session=str(session_id), fault=str(fault))
            return None

    async def _keep(
        self, scope: Scope, session_id: UUID, context: WorkingContext, version: int, drops: int | None
    ) -> None:
        """Seal it under the subject's key, so that it cannot be read once that is shredded, wherever a copy lies. Not
        where something was erased since there were so many `drops`: what Redis had of it is gone by then.
        """
        parts = self._parts
        chain_key = await parts.keys.chain_key(scope.tenant)
        key = await parts.keys.subject_key(scope.tenant, scope.user)
        sealed = seal(key, await self._binding(scope, session_id), packed(context, parts.budget_tokens))
        known = Known(version, context.upto_seq)
        if drops != self._drops:
            return
        try:
            await parts.hot.keep_working(scope, scope_key(chain_key, scope), session_id, known, sealed, parts.ttl_s)
        except QueueUnavailable as fault:
            self._say("working_context_not_kept", session_id, fault)

    async def _drop(self, scope: Scope, session_id: UUID) -> None:
        parts = self._parts
        chain_key = await parts.keys.chain_key(scope.tenant)
        try:
            await parts.hot.drop_working(scope, scope_key(chain_key, scope), session_id)
        except QueueUnavailable as fault:
            self._say("working_context_not_dropped", session_id, fault)

    def _say(self, what: str, session_id: UUID, fault: Exception) -> None:
        """In the log, of the first session that it is so with."""
        if self._said.due(f"{what} {fault}"):
            event(log, what, logging.WARNING, session=str(session_id), fault=str(fault))

    async def _binding(self, scope: Scope, session_id: UUID) -> Binding:
        subject = await self._parts.keys.subject_id(scope.tenant, scope.user)
        return Binding(scope.tenant, subject, session_id, "working")


def _say_why_it_failed(task: asyncio.Task[WorkingContext | None]) -> None:
    """A prompt goes without; nobody may miss why."""
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("no working context", exc_info=fault)


def _advance(
    before: WorkingContext, read: Reading, now: datetime, budget_tokens: int, count: Callable[[str], int]
) -> WorkingContext:
    turns = (heard(turn, now) for turn in read.turns)
    return advance(before, turns, budget_tokens=budget_tokens, count=count)


def heard(turn: WorkingTurn, now: datetime) -> Heard:
    """A turn as the policy reads it.

    Hidden is one whose memory may not be shown; and one that should have a memory and has none: it was erased, or the
    answer only quotes memory. What says nothing ("ok") and what tools give has none by nature.
    """
    expired = turn.expires_at is not None and turn.expires_at <= now
    lost = not turn.known and turn.role in _OWN_MEMORY and bool(turn.head.strip()) and not is_junk(turn.head)
    hidden = expired or lost or (turn.known and not turn.shown)
    told = Heard(
        event_id=turn.event_id,
        seq=turn.seq,
        role=turn.role,
        head=turn.head,
        tail=turn.tail,
        chars=turn.chars,
        name=turn.name,
        calls=tuple(Call(call_id or "", name, arguments) for call_id, name, arguments in turn.calls or () if name),
        call_id=turn.tool_call_id,
        chain=bytes(turn.chain),
        parent=None if turn.parent_chain is None else bytes(turn.parent_chain),
        integrity=turn.integrity,
        attached=turn.attached,
        expires_at=turn.expires_at,
    )
    return replace(told, hidden=True, expires_at=None, head="", tail="", chars=0, calls=()) if hidden else told
