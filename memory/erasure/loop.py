"""Who goes through with erasures: one worker leads, the others stand by; for ever. Tenants take turns.

Of a tenant several are taken out, one at a turn, before one pass looks for the words of all of them: it reads all that
the tenant has, which is most of what an erasure costs. Each has its own receipt; where the pass fails, each is looked
for alone.

A leader that was killed is followed after its lease; the job goes on where its row says. One that cannot go on now (a
store is away, a disk is full) waits and tries again; one that never can is passed over, said in the log, and tried
again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from typing import Final, Protocol
from uuid import UUID

from memory.bounded import rested
from memory.erasure.job import Erasing, TakenOut
from memory.erasure.ports import EraseStore
from memory.erasure.shingles import SHINGLES_MAX
from memory.errors import LeaseLost, MemoryProxyFault, StoreUnavailable
from memory.seldom import Seldom
from memory.telemetry import event, place_of

log: Final = logging.getLogger("memory_proxy.erasure")
LEASE_S: Final = 15.0
POLL_S: Final = 2.0
"""Who asks says so; this is for what was not heard."""
_RESTED_S: Final = 5.0
TAKEN_OUT_MAX: Final = 8
"""Of one tenant before they are proved: a kill until then loses the words of all of them."""
KEPT_MAX: Final = SHINGLES_MAX
"""Of all that is taken out and not proved yet."""


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
    all_ended, tried, away = True, set[UUID](), None
    taken: dict[UUID, list[TakenOut]] = {}
    try:
        while waiting := await _of_each(store, tried):
            for tenant, ids in waiting.items():
                tried.add(ids[0])
                of_tenant = taken.setdefault(tenant, [])
                with _passed_over(erasing, ids[:1], said) as stopped:
                    if (one := await erasing.take_out(tenant, ids[0], fence)) is not None:
                        of_tenant.append(one)
                all_ended &= not stopped
                if len(ids) == 1 or len(of_tenant) == TAKEN_OUT_MAX or _kept(taken) >= KEPT_MAX:
                    all_ended &= await _proved(erasing, tenant, taken.pop(tenant), fence, said)
    except StoreUnavailable as fault:  # when asked what waits
        away = fault
    # What is taken out has its words in this process only; of a tenant whose last one somebody else has ended, too.
    for tenant, some in taken.items():
        all_ended &= await _proved(erasing, tenant, some, fence, said)
    if away is not None:
        raise away
    return all_ended


async def _of_each(store: EraseStore, tried: Set[UUID]) -> dict[UUID, list[UUID]]:
    """The jobs of each tenant, what has waited longest first, those that were tried left out."""
    found: dict[UUID, list[UUID]] = {}
    waiting = await store.waiting()
    while waiting:
        for tenant, erasure_id in waiting:
            if erasure_id not in tried:
                found.setdefault(tenant, []).append(erasure_id)
        waiting = await store.waiting(after=waiting[-1][1])
    return found


def _kept(taken: Mapping[UUID, Sequence[TakenOut]]) -> int:
    return sum(one.kept for some in taken.values() for one in some)


async def _proved(erasing: Erasing, tenant: UUID, taken: Sequence[TakenOut], fence: int, said: Seldom) -> bool:
    """Look for what was taken out, and end each. Whether all have ended."""
    if not taken:
        return True
    with _passed_over(erasing, [one.job.erasure_id for one in taken], said) as stopped:
        found = await erasing.probed(tenant, taken)
    if stopped and len(taken) > 1:  # whosever fault it is, it is in no other's way
        return all([await _proved(erasing, tenant, [one], fence, said) for one in taken])
    if stopped:
        return False
    all_ended = True
    for one, traces in zip(taken, found, strict=True):
        with _passed_over(erasing, [one.job.erasure_id], said) as stopped:
            await erasing.end(one, traces, fence)
            event(log, "erased", erasure=str(one.job.erasure_id), complete=traces.total == 0)
        all_ended &= not stopped
    return all_ended


@contextlib.contextmanager
def _passed_over(erasing: Erasing, erasures: Sequence[UUID], said: Seldom) -> Iterator[list[str]]:
    """Go on behind what stops these, and say so. Given is why, once it has stopped. Raises LeaseLost."""
    metrics, stopped, names = erasing.parts.metrics, list[str](), ", ".join(map(str, erasures))
    try:
        yield stopped
    except LeaseLost:
        raise
    except (MemoryProxyFault, OSError) as fault:  # the journal's disk is full
        stopped.append(why := f"{type(fault).__name__}: {fault}")
        if said.due(f"{names} {why}"):
            event(log, "erasure_stopped", logging.WARNING, erasure=names, fault=why)
        metrics.erasures.labels("stopped").inc()
    except Exception as fault:  # noqa: BLE001 - the worker loop, one of the three named places
        why, at = type(fault).__name__, place_of(fault)  # its text may quote what is to be forgotten
        stopped.append(why)
        if said.due(f"{names} {why} {at}"):
            event(log, "erasure_stopped", logging.ERROR, erasure=names, fault=why, at=at)
        metrics.erasures.labels("stopped").inc()
        metrics.work.labels("unforeseen").inc()
