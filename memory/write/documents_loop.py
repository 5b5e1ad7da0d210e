"""Uploads beside the lanes: those that wait, of all tenants in turn, each brought to its end, for ever.

One at a time in a worker, held under a lease that is renewed while it is worked on; who is killed leaves it to another
when that runs out, and nothing is half stored. A store or an embedder that is away is waited for. An upload that never
ends well is given up after TAKES_MAX attempts and says why. Never ends by itself: cancel it, and what is in hand is
given back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from memory.bounded import rested
from memory.documents import DocumentDue
from memory.errors import EmbedderUnavailable, EnvelopeUnreadable, MemoryProxyFault, StoreRefused, StoreUnavailable
from memory.telemetry import Metrics, event
from memory.write.documents import Documents
from memory.write.lanes import Nag

log = logging.getLogger("memory_proxy.documents")
LEASE_S: Final = 15.0
POLL_S: Final = 1.0
"""Who uploads says so; this is for pages of the web, and for what was not heard."""
PAUSE_S: Final = 1.0
TAKES_MAX: Final = 8
"""A worker that is killed in the middle looks like an upload that kills it: so often it is tried all the same."""
GIVEN_UP: Final = "it could not be stored: every attempt ended early; the log of the memory worker has the place"
UNREADABLE: Final = "its text cannot be opened any more: upload it again"
REFUSED: Final = "the store refuses what it says; the log of the memory worker has the place"


class TakesUploads(Protocol):
    """Where uploads are taken. Raises StoreUnavailable."""

    async def take(self, lease_s: float) -> DocumentDue | None:
        """One that is this worker's for `lease_s`."""

    async def keep(self, due: DocumentDue, lease_s: float) -> bool:
        """Have it longer; False where it is gone, or another's by now."""

    async def give_back(self, due: DocumentDue, pause_s: float = 0.0) -> None:
        """Another may take it after the pause."""

    async def fail(self, due: DocumentDue, reason: str, now: datetime) -> bool:
        """Give it up; False where it is gone, or another's by now."""


class DocumentsLoop:
    """One per worker process."""

    def __init__(
        self,
        store: TakesUploads,
        documents: Documents,
        metrics: Metrics,
        clock: Callable[[], datetime],
        asked: asyncio.Event,
        *,
        lease_s: float = LEASE_S,
        poll_s: float = POLL_S,
    ) -> None:
        self._store = store
        self._documents = documents
        self._metrics = metrics
        self._clock = clock
        self._asked = asked
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._nag = Nag()

    async def run(self) -> None:
        """Take and store until cancelled."""
        while True:
            self._asked.clear()
            try:
                due = await self._store.take(self._lease_s)
            except StoreUnavailable as fault:
                self._nag.say("waiting for the store", fault)
                due = None
            if due is None:
                await rested(self._asked, self._poll_s)
            else:
                await self._work(due)

    async def _work(self, due: DocumentDue) -> None:
        """One upload, its lease renewed meanwhile."""
        keeping = asyncio.create_task(self._keep(due))
        try:
            await self._store_it(due)
        except asyncio.CancelledError:
            with contextlib.suppress(StoreUnavailable):  # then the lease runs out
                await asyncio.shield(self._store.give_back(due))
            raise
        finally:
            keeping.cancel()

    async def _store_it(self, due: DocumentDue) -> None:
        try:
            if due.takes > TAKES_MAX:
                await self._fail(due, GIVEN_UP)
                return
            await self._documents.store(due)
        except (StoreUnavailable, EmbedderUnavailable) as fault:
            self._nag.say("documents wait", fault)
            with contextlib.suppress(StoreUnavailable):
                await self._store.give_back(due, PAUSE_S)
            await asyncio.sleep(PAUSE_S)
        except EnvelopeUnreadable:
            await self._fail(due, UNREADABLE)
        except StoreRefused as fault:
            event(log, "document_refused", logging.ERROR, upload=due.upload_id, fault=str(fault))
            await self._fail(due, REFUSED)
        except Exception as fault:  # a worker loop is one of the three named places
            # A defect of ours met this text: the next attempt meets it too, and after the last one it is given up.
            self._metrics.work.labels("unforeseen").inc()
            event(
                log, "document_failed", logging.ERROR, upload=due.upload_id, takes=due.takes, fault=type(fault).__name__
            )
            log.exception("storing a document failed in an unforeseen way; the loop goes on")

    async def _fail(self, due: DocumentDue, reason: str) -> None:
        with contextlib.suppress(MemoryProxyFault):  # it is met again when its lease has run out
            if await self._store.fail(due, reason, self._clock()):
                self._metrics.documents.labels("failed").inc()

    async def _keep(self, due: DocumentDue) -> None:
        """Renew the lease, thrice in its time; what is gone need not be kept."""
        while True:
            await asyncio.sleep(self._lease_s / 3)
            with contextlib.suppress(StoreUnavailable):
                if not await self._store.keep(due, self._lease_s):
                    return
