"""Capture: a finished exchange in, a durable envelope out, before the last byte leaves.

Seals under the subject's key and hands off to the queue, else the spool, else bounded memory (memory.write.hand_off).
The reply's digest is remembered at the same time, so that the next request finds its conversation. Never raises: what
cannot be kept is counted and said in the next head (`X-Memory-Capture: none`). Refuses content beyond its bounds: then
the exchange is kept without content, with the reason.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import logging
import re
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol
from uuid import UUID

from memory import payload
from memory.bounded import unheard
from memory.chain import Digest
from memory.envelope import Binding, DataKey, Purpose, seal
from memory.errors import MemoryProxyFault
from memory.keys import KeyRing
from memory.model import Captured, ImportChunk, Scope
from memory.off_loop import off_loop
from memory.passage import note, took
from memory.ports import Entry
from memory.read.conversation import Conversation, Conversations
from memory.read.dropped import Joint
from memory.seldom import Seldom
from memory.telemetry import Metrics, event
from memory.write.hand_off import Where

Known = tuple[Sequence[Digest], Mapping[Digest, Joint]]
"""What a conversation is known by from now on: the digests of an answer, and those of it with the message before it."""
log = logging.getLogger("memory_proxy.capture")

# The queue takes entries of 48 MiB; sealing adds 45 bytes.
ENVELOPE_BYTES_MAX: Final = 47 << 20
# A long conversation, 1.2 ms to compress, which needs the interpreter's lock for none of it.
PACKED_HERE_BYTES_MAX: Final = 131_072
# The last byte waits so long for the digests of the answer, and for what stands in its prompt, to be known to all
# processes; they are written all the same.
REMEMBER_HOLD_S: Final = 0.05
# A user's key is at hand but for the first exchange in this process; then the store is asked, normally 3 ms.
KEY_HOLD_S: Final = 0.25
# Why a kept request is not the one that came: what replay cannot rebuild.
DATA_URLS_BY_DIGEST: Final = "data URLs kept by digest"
# A backslash is part of it where it spells one of its characters, in JSON inside JSON too; else of what follows.
_DATA_URL: Final = re.compile(
    rb"data:[\w.+/;=\\-]{1,128},(?=[\w+/=\\-]{4096})"
    rb"(?:[\w+/=-]++|\\++(?:[/nr]|u00(?:2[bBdDfF]|3[dD]|5[fF])))++"
)


class HandOff(Protocol):
    """Where envelopes go."""

    async def hand_off(self, entry: Entry) -> Where:
        """Make it durable in the queue, else the spool; `none` when only memory took it. Never raises."""

    def where(self) -> Where:
        """Where the next one will probably go."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The largest request and answer kept, in bytes."""

    request_bytes_max: int
    answer_bytes_max: int


class Capture:
    """Keeps exchanges. One per process."""

    def __init__(
        self, hand_off: HandOff, conversations: Conversations, keys: KeyRing, bounds: Bounds, metrics: Metrics
    ) -> None:
        self._hand_off = hand_off
        self._conversations = conversations
        self._keys = keys
        self.bounds = bounds
        self._metrics = metrics
        self._running: set[asyncio.Task[None]] = set()
        self._said = Seldom()

    def where(self) -> Where:
        """What the head of an answer may say about its capture."""
        return self._hand_off.where()

    async def exchange(
        self,
        captured: Captured,
        conversation: Conversation,
        known_by: Callable[[], Known],
        noting: Collection[asyncio.Task[None]] = (),
    ) -> None:
        """Keep one exchange; returns when it is as durable as it will be. The next request finds its conversation by
        what `known_by` gives; it is asked while the queue has the envelope. `noting` has the ledger say what stands in
        the prompt: begun long before, and waited for as well.
        """
        started = perf_counter()
        remembering = self.in_background(self._remember(captured.scope, conversation, known_by))
        pack = partial(packed_within, captured, self.bounds)
        packed = await off_loop(len(captured.request), pack, above_bytes=PACKED_HERE_BYTES_MAX)
        entry = await self.sealed(captured.exchange_id, captured.scope, "exchange", packed)
        where = await self._hand_off.hand_off(entry)
        left_s = REMEMBER_HOLD_S - (perf_counter() - started)
        if known := [one for one in (remembering, *noting) if not one.done()]:
            await asyncio.wait(known, timeout=max(left_s, 0))
        note(capture=where)
        took("capture", started)
        self._metrics.captures.inc(where)
        self._metrics.capture_seconds.observe(perf_counter() - started)

    async def import_chunk(self, chunk: ImportChunk) -> Where:
        """Keep some lines of an import; says where they are."""
        entry = await self.sealed(chunk.exchange_id, chunk.scope, "import", payload.pack_import(chunk))
        return await self._hand_off.hand_off(entry)

    async def alone(self, captured: Captured) -> Where:
        """Keep an exchange that no conversation goes on from, a tool's call; says where it is. Who leaves meanwhile
        does not cut it short. Raises StoreUnavailable while no key is at hand.
        """
        found: list[Where] = []

        async def keep() -> None:
            packed = payload.pack_captured(captured)
            entry = await self.sealed(captured.exchange_id, captured.scope, "exchange", packed)
            found.append(await self._hand_off.hand_off(entry))

        await asyncio.shield(self.in_background(keep()))
        self._metrics.captures.inc(found[0])
        return found[0]

    async def sealed(self, object_id: UUID, scope: Scope, purpose: Purpose, plaintext: bytes) -> Entry:
        """The entry of a payload, sealed under the subject's key, or the tenant's while that one is not at hand."""
        subject = await self._keys.subject_id(scope.tenant, scope.user)
        key = self._keys.at_hand(scope.tenant, subject) or await self._sealing_key(scope.tenant, scope.user)
        binding = Binding(scope.tenant, subject, object_id, purpose)
        return Entry(
            exchange_id=object_id,
            tenant_id=scope.tenant,
            subject_id=subject,
            kind=purpose,
            lane_class="bulk" if purpose == "import" else "live",
            envelope=seal(key, binding, plaintext),
        )

    async def _sealing_key(self, tenant: UUID, user: str) -> DataKey:
        """The subject's key; the tenant's where a store that hangs would hold the answer's last byte."""
        asking = asyncio.create_task(self._keys.subject_key(tenant, user))
        done, _ = await asyncio.wait([asking], timeout=KEY_HOLD_S)
        if done:
            return asking.result()
        asking.add_done_callback(unheard)  # it goes on: the next exchange finds the key at hand
        return await self._keys.tenant_key(tenant)

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what no client waits for, shielded from the client's cancellation; `drained` waits for it."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            event(log, "capture_failed", logging.ERROR, fault=type(fault).__name__)

    async def drained(self) -> None:
        """Wait until nothing runs in the background."""
        while self._running:
            await asyncio.wait(self._running)

    async def _remember(self, scope: Scope, conversation: Conversation, known_by: Callable[[], Known]) -> None:
        # A turn of the loop sends what was written in it. The envelope is packed, sealed and written in this one, where
        # nothing has to be waited for; the rest is done while the queue has it.
        await asyncio.sleep(0)
        answers, pairs = known_by()
        try:
            chain_key = await self._keys.chain_key(scope.tenant)
            await self._conversations.remember(scope, chain_key, conversation, answers, pairs)
        except MemoryProxyFault as fault:  # the store finds the session later, by the same digests
            if self._said.due(str(fault)):
                event(log, "session_not_remembered", logging.WARNING, fault=str(fault))


def packed_within(captured: Captured, bounds: Bounds) -> bytes:
    """The payload of an exchange, without what exceeds the bounds."""
    kept = within_bounds(captured, bounds)
    packed = payload.pack_captured(kept)
    if len(packed) <= ENVELOPE_BYTES_MAX:
        return packed
    return payload.pack_captured(without_content(kept, "exchange_too_large"))


def within_bounds(captured: Captured, bounds: Bounds) -> Captured:
    """The exchange as it may be kept: when too large, data URLs by their digest; still too large, no content."""
    if len(captured.request) <= bounds.request_bytes_max:
        return captured
    compact = _DATA_URL.sub(lambda found: b"sha256:" + hashlib.sha256(found[0]).hexdigest().encode(), captured.request)
    if len(compact) <= bounds.request_bytes_max:
        return dataclasses.replace(captured, request=compact, reason=captured.reason or DATA_URLS_BY_DIGEST)
    return without_content(captured, "request_too_large")


def without_content(captured: Captured, reason: str) -> Captured:
    """The exchange's row alone: it always leaves one, with the reason why nothing else is kept."""
    return dataclasses.replace(captured, request=b"", answer={}, digests=(), status="refused", reason=reason)
