"""Who goes through with erasures: one worker leads, the others stand by; for ever. Tenants take turns.

A leader that was killed is followed after its lease; the job goes on where its row says. One that cannot go on now (a
store is away, a disk is full) waits and tries again; one that never can is passed over, said in the log, and tried
again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Set
from typing import Final, Protocol
from uuid import UUID

from memory.bounded import rested
from memory.erasure.job import Erasing
from memory.erasure.ports import EraseStore
from memory.errors import LeaseLost, MemoryProxyFault
from memory.seldom import Seldom
from memory.telemetry import event, place_of

log: Final = logging.getLogger("memory_proxy.erasure")
LEASE_S: Final = 15.0
POLL_S: Final = 2.0
"""Who asks says so; this is for what was not heard."""
_RESTED_S: Final = 5.0


class Leads(Protocol):
    """The one that does it."""

    async def lead(self, ttl_s: float) -> int | None: ...
    async def resign(self) -> None: ...


@contextlib.asynccontextmanager
async def leading(leader: Leads) -> AsyncIterator[int | None]:
    """The fence, renewed while the body runs; None while another leads."""
    fence = await leader.lead(LEASE_S)
    if fence is None:
        yield None
        return
    renewing = asyncio.create_task(_renew(leader))
    try:
        yield fence
    finally:
        renewing.cancel()
        with contextlib.suppress(MemoryProxyFault):
            await leader.resign()


async def _renew(leader: Leads) -> None:
    while True:
        await asyncio.sleep(LEASE_S / 4)
        with contextlib.suppress(MemoryProxyFault):
            await leader.lead(LEASE_S)


async def keep_erasing(store: EraseStore, leader: Leads, erasing: Erasing, asked: asyncio.Event) -> None:
    """Go through with every job, for ever; run as a task. `asked` is set where there may be one."""
    said = Seldom()
    while True:
        asked.clear()
        rest_s = POLL_S
        try:
            waiting = await store.waiting()
            erasing.parts.metrics.erasures_waiting.set(len(waiting))
            if waiting:
                async with leading(leader) as fence:
                    if fence is not None and not await _all(store, erasing, fence, said):
                        rest_s = _RESTED_S
        except MemoryProxyFault as fault:
            if said.due(why := f"{type(fault).__name__}: {fault}"):
                event(log, "erasure_waits", logging.WARNING, fault=why)
            rest_s = _RESTED_S
        await rested(asked, rest_s)


async def _all(store: EraseStore, erasing: Erasing, fence: int, said: Seldom) -> bool:
    """Each once, whatever becomes of the others, one of each tenant before another's second; also what is asked for
    meanwhile. Whether all have ended. Raises LeaseLost.
    """
    all_ended, tried = True, set[UUID]()
    while oldest := await _oldest_of_each(store, tried):
        for tenant, erasure_id in oldest.items():
            tried.add(erasure_id)
            all_ended &= await _one(erasing, tenant, erasure_id, fence, said)
    return all_ended


async def _oldest_of_each(store: EraseStore, tried: Set[UUID]) -> dict[UUID, UUID]:
    """The job of each tenant that has waited longest, those that were tried left out."""
    found: dict[UUID, UUID] = {}
    waiting = await store.waiting()
    while waiting:
        for tenant, erasure_id in waiting:
            if erasure_id not in tried:
                found.setdefault(tenant, erasure_id)
        waiting = await store.waiting(after=waiting[-1][1])
    return found


async def _one(erasing: Erasing, tenant: UUID, erasure_id: UUID, fence: int, said: Seldom) -> bool:
    """Whether it has ended."""
    metrics = erasing.parts.metrics
    try:
        job = await erasing.run(tenant, erasure_id, fence)
    except LeaseLost:
        raise
    except (MemoryProxyFault, OSError) as fault:  # the journal's disk is full
        why = f"{type(fault).__name__}: {fault}"
        if said.due(f"{erasure_id} {why}"):
            event(log, "erasure_stopped", logging.WARNING, erasure=str(erasure_id), fault=why)
        metrics.erasures.labels("stopped").inc()
        return False
    except Exception as fault:  # noqa: BLE001 - the worker loop, one of the three named places
        why, at = type(fault).__name__, place_of(fault)  # its text may quote what is to be forgotten
        if said.due(f"{erasure_id} {why} {at}"):
            event(log, "erasure_stopped", logging.ERROR, erasure=str(erasure_id), fault=why, at=at)
        metrics.erasures.labels("stopped").inc()
        metrics.work.labels("unforeseen").inc()
        return False
    receipt = (job.receipt if job is not None else None) or {}
    event(log, "erased", erasure=str(erasure_id), complete=receipt.get("complete"))
    return True
