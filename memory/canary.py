"""Canaries: a text that nobody may ever be shown, planted for each tenant; bytes that leave in, an alert out when one
is in them.

A canary names its tenant and proves itself by an HMAC under a key of that tenant, so it cannot be guessed, and one that
somebody made up raises nothing. `look` is one search for nine bytes: 37 µs in 100 kB (docs/decisions/0022); what it
finds is examined beside the requests. The alert: a counter, a line of the log without content, and an audit row of the
tenant whose canary it was. Says nothing of a tenant's own canary in the tenant's own words.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, Literal, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.audit import Audit
from memory.errors import EnvelopeUnreadable, MemoryProxyFault
from memory.seldom import Seldom
from memory.telemetry import Metrics, event

log = logging.getLogger("memory_proxy.canary")

Where = Literal["prompt", "answer", "api"]
MARK: Final = b"mpcanary-"
_MARK_TEXT: Final = MARK.decode()
_TOKEN: Final = re.compile(rb"mpcanary-([0-9a-f]{32})-([0-9a-f]{32})")
# What one text may hold to be examined, and how many texts wait: a client that writes the mark costs no more than this.
TOKENS_MAX: Final = 16
WAITING_MAX: Final = 256
EXAMINE_EVERY_S: Final = 0.5

KeyOf = Callable[[UUID], Awaitable[bytes]]


class Tenants(Protocol):
    """Who there is."""

    async def tenants(self) -> list[tuple[UUID, str]]:
        """Every tenant with its name. Raises StoreUnavailable."""


def token_of(key: bytes, tenant: UUID) -> str:
    """The canary of a tenant: what is looked for."""
    mac = hmac.digest(key, b"canary\x00" + tenant.bytes, "sha256")
    return f"{_MARK_TEXT}{tenant.hex}-{mac[:16].hex()}"


def text_of(key: bytes, tenant: UUID) -> str:
    """The memory that holds it, in words that could be somebody's."""
    return f"The internal reference of this workspace, which is for nobody else, is {token_of(key, tenant)}."


class Canaries:
    """Looks at what leaves one process. Mutable, for one event loop."""

    def __init__(self, key_of: KeyOf, tenants: Tenants, audit: Audit, metrics: Metrics) -> None:
        self._key_of = key_of
        self._tenants = tenants
        self._audit = audit
        self._metrics = metrics
        self._waiting: deque[tuple[UUID, Where, tuple[tuple[str, str], ...]]] = deque(maxlen=WAITING_MAX)

    def look(self, tenant: UUID, where: Where, data: bytes) -> None:
        """Look at bytes that go to this tenant, or to a model for it."""
        if MARK in data:
            self._wait(tenant, where, data)

    def look_at_answer(self, tenant: UUID, texts: Iterable[str]) -> None:
        """Look at the texts of a model's answer to this tenant."""
        for text in texts:
            if _MARK_TEXT in text:
                self._wait(tenant, "answer", text.encode("utf-8", "replace"))

    async def examine(self) -> int:
        """Examine what waits; how many alerts were raised. Raises StoreUnavailable; then what waits is kept."""
        if not self._waiting:
            return 0
        known = {tenant for tenant, _ in await self._tenants.tenants()}
        raised = 0
        while self._waiting:
            tenant, where, tokens = found = self._waiting.popleft()  # what is found meanwhile may take its place
            try:
                owners = [UUID(named) for named, mac in tokens if await self._is_foreign(tenant, known, named, mac)]
            except MemoryProxyFault:
                if len(self._waiting) < WAITING_MAX:
                    self._waiting.appendleft(found)
                raise
            for owner in owners:
                self._raise_alert(owner, tenant, where)
            raised += len(owners)
        return raised

    async def keep_examining(self, every_s: float = EXAMINE_EVERY_S) -> None:
        """Examine for ever; run as a task."""
        said = Seldom()
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.examine()
            except MemoryProxyFault as fault:
                if said.due(named := type(fault).__name__):
                    event(log, "canaries_not_examined", logging.WARNING, fault=named)

    def _wait(self, tenant: UUID, where: Where, data: bytes) -> None:
        tokens: list[tuple[str, str]] = []
        for found in _TOKEN.finditer(data):
            pair = (found[1].decode(), found[2].decode())
            if pair not in tokens:
                tokens.append(pair)
            if len(tokens) == TOKENS_MAX:
                break
        if tokens:
            self._waiting.append((tenant, where, tuple(tokens)))

    async def _is_foreign(self, tenant: UUID, known: Collection[UUID], named: str, mac: str) -> bool:
        owner = UUID(named)
        return owner != tenant and owner in known and await self._is_real(owner, mac)

    async def _is_real(self, owner: UUID, mac: str) -> bool:
        try:
            token = token_of(await self._key_of(owner), owner)
        except EnvelopeUnreadable:  # its key was shredded: nothing of it can be real any more
            return False
        return hmac.compare_digest(token, f"{_MARK_TEXT}{owner.hex}-{mac}")

    def _raise_alert(self, owner: UUID, seen_by: UUID, where: Where) -> None:
        self._metrics.canary_seen.labels(where).inc()
        event(log, "canary_seen", logging.ERROR, tenant=str(owner), seen_by=str(seen_by), where=where)
        self._audit.note(owner, "canary", "canary.seen", decision="noted", why=f"in the {where} of another tenant")
        self._audit.note(seen_by, "canary", "canary.foreign", decision="noted", why=f"another tenant's, in the {where}")


class Plants(Protocol):
    """Where canaries are kept."""

    async def tenants(self) -> list[tuple[UUID, str]]:
        """Every tenant with its name. Raises StoreUnavailable."""

    async def planted(self, tenant: UUID) -> str | None:
        """The text of the tenant's canary, None where there is none. Raises StoreUnavailable."""

    async def plant(self, tenant: UUID, text: str, vectors: NDArray[np.float32]) -> None:
        """Make this the tenant's one canary. Raises StoreUnavailable."""


class Embeds(Protocol):
    """Texts to vectors."""

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors. Raises EmbedderUnavailable."""


async def keep_planting(store: Plants, key_of: KeyOf, embedder: Embeds, *, every_s: float = 10.0) -> None:
    """See to it for ever that each tenant has its canary; run as a task. Two at once plant the same."""
    done, said = set[UUID](), Seldom()
    while True:
        try:
            await plant_missing(store, key_of, embedder, done)
        except MemoryProxyFault as fault:
            if said.due(named := type(fault).__name__):
                event(log, "canaries_not_planted", logging.WARNING, fault=named)
        await asyncio.sleep(every_s)


async def plant_missing(store: Plants, key_of: KeyOf, embedder: Embeds, done: set[UUID]) -> int:
    """Plant where there is none, or another; how many. `done`: those that this process has seen to."""
    planted = 0
    for tenant, _ in await store.tenants():
        if tenant in done:
            continue
        try:
            text = text_of(await key_of(tenant), tenant)
        except EnvelopeUnreadable:  # shredded: a tenant that is no more
            done.add(tenant)
            continue
        if await store.planted(tenant) != text:
            await store.plant(tenant, text, await embedder.embed_documents([text]))
            planted += 1
        done.add(tenant)
    return planted
