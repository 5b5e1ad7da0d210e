"""Retention of sealed parts, the audit log and files: a clock in, what is past its time out of the store, once an hour.

Of exchanges only sealed bytes go; ids, digests, scores and open text stay (DESIGN section 1, promise 7). A store that
does not answer is asked again next time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from memory.artifacts import Collected
from memory.errors import MemoryProxyFault, StoreUnavailable
from memory.telemetry import event

log = logging.getLogger("memory_proxy.retention")
EVERY_S: Final = 3600.0


class SealedStore(Protocol):
    """Where sealed parts lie."""

    async def drop_expired_sealed(self, now: datetime, retention: timedelta) -> int:
        """Drop sealed parts older than `retention`; how many. Raises StoreUnavailable."""


async def keep_dropping_expired(store: SealedStore, retention_days: float) -> None:
    """Drop expired sealed parts for ever; run as a task."""
    while True:
        try:
            dropped = await store.drop_expired_sealed(datetime.now(UTC), timedelta(days=retention_days))
            if dropped:
                event(log, "sealed_parts_expired", count=dropped)
        except StoreUnavailable as fault:
            event(log, "retention_postponed", logging.WARNING, fault=str(fault))
        await asyncio.sleep(EVERY_S)


class FileStore(Protocol):
    """Where files lie."""

    async def collect(self, now: datetime) -> Sequence[Collected]:
        """Mark what nothing names, remove what was marked a grace ago. Raises StoreUnavailable."""


async def keep_collecting_files(store: FileStore) -> None:
    """Collect files that nothing names for ever; run as a task."""
    while True:
        try:
            found = await store.collect(datetime.now(UTC))
            if gone := sum(len(one.removed) for one in found):
                event(log, "files_collected", count=gone, bytes=sum(one.bytes for one in found))
        except StoreUnavailable as fault:
            event(log, "file_collection_postponed", logging.WARNING, fault=str(fault))
        await asyncio.sleep(EVERY_S)


class AuditedStore(Protocol):
    """The audit log, by tenant."""

    async def tenants(self) -> list[tuple[UUID, str]]:
        """Every tenant with its name. Raises StoreUnavailable."""

    async def drop_before(self, tenant: UUID, before: datetime, now: datetime) -> int:
        """Drop older rows behind an anchor row; how many. Raises a MemoryProxyFault."""


async def keep_audit_bounded(store: AuditedStore, retention_days: float | None) -> None:
    """Drop old rows of the audit log for ever; run as a task. None: they are kept for ever, and it ends."""
    while retention_days is not None:
        now = datetime.now(UTC)
        before = now - timedelta(days=retention_days)
        try:
            for tenant, _ in await store.tenants():
                await _bounded(store, tenant, before, now)
        except StoreUnavailable as fault:
            event(log, "audit_retention_postponed", logging.WARNING, fault=str(fault))
        await asyncio.sleep(EVERY_S)


async def _bounded(store: AuditedStore, tenant: UUID, before: datetime, now: datetime) -> None:
    """One tenant's log; one that cannot be bounded holds up no other."""
    try:
        if dropped := await store.drop_before(tenant, before, now):
            event(log, "audit_rows_expired", count=dropped)
    except MemoryProxyFault as fault:
        event(log, "audit_retention_postponed", logging.WARNING, tenant=str(tenant), fault=type(fault).__name__)
