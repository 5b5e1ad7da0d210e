"""Telling every process what the API has done: a scope that has changed in, its versions announced; work in hand, too.

Best effort: a process that is not told confirms with the store within `recall.scope_staleness_max_ms`, and looks for
work by itself. Never raises a fault: the change is made.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final, Protocol
from uuid import UUID

from memory.errors import MemoryProxyFault
from memory.model import Scope, ScopeVersion
from memory.ports import ASKED
from memory.telemetry import event

log: Final = logging.getLogger("memory_proxy.hot")
_CALL_S: Final = 0.25


class Announces(Protocol):
    """Tells processes."""

    async def announce(self, tenant: UUID, scope_id: int, version: int) -> None:
        """A scope has reached this version; an older one changes nothing. Raises QueueUnavailable."""


class Calls(Protocol):
    """Reaches every process."""

    async def announce(self, message: bytes) -> None:
        """Raises QueueUnavailable."""


class KnowsVersions(Protocol):
    """The store as it knows versions."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """The scopes this identity may see, with their versions. Raises StoreUnavailable."""


class Tells:
    """Announces what the caller of the API has changed."""

    def __init__(self, hot: Announces, store: KnowsVersions, calls: Calls) -> None:
        self._hot = hot
        self._store = store
        self._calls = calls

    async def asked(self) -> None:
        """An erasure or an upload waits for a memory worker, who need not look all the time."""
        with suppress(MemoryProxyFault, TimeoutError):
            async with asyncio.timeout(_CALL_S):
                await self._calls.announce(ASKED)

    async def changed(self, scope: Scope) -> None:
        """Announce the versions of all that this identity may see: it changed its own, or what it shares."""
        try:
            for one in await self._store.visible_scopes(scope):
                await self._hot.announce(scope.tenant, one.scope_id, one.version)
        except MemoryProxyFault as fault:
            event(log, "not_announced", logging.WARNING, fault=type(fault).__name__)
