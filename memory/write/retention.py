"""Retention of sealed parts: a clock in, expired sealed bodies out of the store, once an hour.

Only sealed bytes go; ids, digests, scores and open text stay (DESIGN section 1, promise 7). A store that does not
answer is asked again next time.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from memory.errors import StoreUnavailable
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
