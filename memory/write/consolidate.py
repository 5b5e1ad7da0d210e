"""Consolidation: what is stored and the terms of a run in, what has had its time gone, counts of each step out.

`Consolidation.run` goes through the tenants and, for each, through the steps of memory.consolidation.STEPS. One leads
among many; the others are told so (None). It is safe beside live traffic: changes are small transactions in one scope
each, between which it pauses twice as long as they took, and nothing is held across a pause or an embedding. Killed
anywhere, the next run goes on where this one stood; each step done twice changes nothing the second time.

Turns are not merged: a file whose lines were stored adds nothing (their identity is unique), and of two equal
turns nothing else tells a copy from the same words said twice, which stay two.
Raises StoreUnavailable, EmbedderUnavailable (come again), LeaseLost (another leads now).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Protocol
from uuid import UUID

from memory.consolidation import (
    ROWS_UNDER_LOCK,
    STEPS,
    Changed,
    Counted,
    Due,
    Lead,
    OldSummary,
    Place,
    Progress,
    Run,
    Stands,
    Step,
    Terms,
    Window,
)
from memory.errors import LeaseLost, MemoryProxyFault, StoreRefused, StoreUnavailable
from memory.model import NewMemory
from memory.stored import StoredTurn
from memory.telemetry import Metrics, event
from memory.write.retell import RETOLD, Retelling, Tells, ToldStore
from policies.lifetime import Cut, Use, latest_due

log = logging.getLogger("memory_proxy.consolidate")
LEASE_S: Final = 60.0
SCOPES_AT_ONCE: Final = 1_000
ROWS_AT_ONCE: Final = 2_000
# Fewer where each row leads to many: a fact to its kin and its sayings, an episode to 60 turns, a month to 500, a
# summary to more with each time that its conversation went on.
ROWS_OF_STEP: Final[Mapping[Step, int]] = {
    "duplicates": 500,
    "repeated": 500,
    "summaries": 100,
    "episodes": 100,
    "past": 100,
}
FEW_ROWS: Final = 10
"""Of a scope that holds fewer all are looked at together with those of others: each of 50,000 had a transaction and a
rest of its own in four steps of a night.
"""
NOTE_EVERY_S: Final = 1.0
# A third of the time is work. At half of it a chat beside it took 1.18 times as long at the median (21 ms, two cores).
REST_PER_WORK: Final = 2.0
_FIRST: Final = Place(-1, -1, UUID(int=0))  # before every row
# An unfinished run that is older began under terms of another day.
RESUMED_WITHIN: Final = timedelta(hours=24)
CLOCKS_APART: Final = timedelta(minutes=10)
ASK_EVERY_S: Final = 60.0
RUNS_LOOKED_AT: Final = 14  # for one that ended

Say = Callable[[UUID, Counted], None]


class ConsolidateStore(ToldStore, Protocol):
    """What consolidation asks of the store. Every method may raise StoreUnavailable; those with a lead LeaseLost."""

    async def lead(self, holder: str, ttl_s: float) -> int | None: ...
    async def resign(self, holder: str) -> None: ...
    async def runs(self, limit: int, upto: datetime) -> list[Run]: ...
    async def begin(self, now: datetime) -> Run: ...
    async def end(self, lead: Lead, now: datetime, report: Sequence[Counted]) -> None: ...
    async def progress(self, tenant: UUID, run_id: UUID) -> dict[Step, Progress]: ...
    async def note(
        self,
        tenant: UUID,
        lead: Lead,
        counted: Counted,
        after: Place | None,
        finished_at: datetime | None,
        cut: list[Any] | None,
    ) -> None: ...
    async def tenants(self) -> list[UUID]: ...
    async def began_at(self) -> datetime | None: ...
    async def scopes_after(self, tenant: UUID, scope_id: int, limit: int) -> list[int]: ...
    async def scopes_with(self, tenant: UUID, scope_ids: Sequence[int], step: Step, terms: Terms) -> list[int]: ...
    async def windows(
        self, tenant: UUID, scope_ids: Sequence[int], step: Step, limit: int, terms: Terms
    ) -> Mapping[int, Window | None]: ...
    async def window(
        self, tenant: UUID, scope_id: int, step: Step, after: Place | None, limit: int, terms: Terms
    ) -> Window: ...
    async def rows_of(self, tenant: UUID, scope_ids: Sequence[int]) -> int: ...
    async def uses(
        self, tenant: UUID, scope_id: int, after: Place | None, limit: int, terms: Terms
    ) -> tuple[Place | None, list[tuple[Use, bool]]]: ...
    async def change(
        self,
        tenant: UUID,
        scope_id: int,
        step: Step,
        due: Sequence[Due],
        terms: Terms,
        lead: Lead,
        stands: Stands | None = None,
    ) -> Changed: ...
    async def old_summary(self, tenant: UUID, scope_id: int, memory_id: UUID) -> OldSummary | None: ...
    async def summarised_turns(self, tenant: UUID, old: OldSummary, seq: int, limit: int) -> list[StoredTurn]: ...
    async def turns_not_shown(self, tenant: UUID, old: OldSummary) -> frozenset[UUID]: ...
    async def put_rebuilt(
        self, tenant: UUID, old: OldSummary, memory: NewMemory | None, terms: Terms, lead: Lead
    ) -> int: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What consolidation needs. `summarise` makes a summary of turns anew, with vectors; None where none is left.
    `tells` makes episodes and months.
    """

    store: ConsolidateStore
    summarise: Callable[[OldSummary, Sequence[StoredTurn]], Awaitable[NewMemory | None]]
    tells: Tells
    terms: Callable[[datetime], Terms]
    clock: Callable[[], datetime]
    metrics: Metrics
    holder: str
    pause_s: float


@dataclass(frozen=True, slots=True)
class Standing:
    """A run as it stands: when it began and ended (None: it runs, or was broken off), and the counts of its steps."""

    started_at: datetime
    finished_at: datetime | None
    report: tuple[dict[str, Any], ...]


class Consolidation:
    """Runs, one after the other."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._store = parts.store

    async def run(self, say: Say) -> list[Counted] | None:
        """One whole run, or the rest of one that was broken off: the counts of each step. None: another leads."""
        fence = await self._store.lead(self._parts.holder, LEASE_S)
        if fence is None:
            return None
        try:
            run = await self.unfinished() or await self._store.begin(self._parts.clock())
            lead = Lead(self._parts.holder, fence, run.run_id)
            totals = {step: Counted(step) for step in STEPS}
            for tenant in await self._store.tenants():
                known = await self._store.progress(tenant, run.run_id)
                terms = self._parts.terms(self._parts.clock())
                for step in STEPS:
                    pace = _Pace(self._parts, lead)
                    done = await _TenantStep(self._parts, tenant, step, terms, pace, say).run(known.get(step))
                    totals[step] += done
            report = list(totals.values())
            await self._store.end(lead, self._parts.clock(), report)
        finally:
            with contextlib.suppress(StoreUnavailable):  # the lease runs out; a run that has ended has
                await self._store.resign(self._parts.holder)
        self._count(report)
        return report

    async def rehearse(self, say: Say) -> list[Counted]:
        """What a run would change first; nothing is changed."""
        terms = self._parts.terms(self._parts.clock())
        totals = {step: Counted(step) for step in STEPS}
        for tenant in await self._store.tenants():
            for step in STEPS:
                pace = _Pace(self._parts, None)
                totals[step] += await _TenantStep(self._parts, tenant, step, terms, pace, say).run(None)
        return list(totals.values())

    async def unfinished(self) -> Run | None:
        """A run that was broken off and is to go on."""
        latest = next(iter(await self._runs()), None)
        if latest is None or latest.finished_at is not None:
            return None
        return latest if self._parts.clock() - latest.started_at < RESUMED_WITHIN else None

    async def _runs(self) -> list[Run]:
        """The latest runs, newest first, without those that a clock dated that was put back since: no night would come
        before its own had caught up with it.
        """
        return await self._store.runs(RUNS_LOOKED_AT, self._parts.clock() + CLOCKS_APART)

    async def last(self) -> Standing | None:
        """The latest run: its report, or how far it is; None before the first."""
        latest = next(iter(await self._runs()), None)
        if latest is None:
            return None
        if latest.finished_at is not None:
            return Standing(latest.started_at, latest.finished_at, tuple(latest.report))
        totals = {step: Counted(step) for step in STEPS}
        for tenant in await self._store.tenants():
            for step, known in (await self._store.progress(tenant, latest.run_id)).items():
                totals[step] += known.counted
        return Standing(latest.started_at, None, tuple(one.as_json() for one in totals.values()))

    async def is_due(self, at: str, since: datetime) -> bool:
        """Whether a run should begin or go on: none has since the clock last struck `at` (the first waits for it, from
        when the store was begun or this process was, `since`: one that is off at night would wait for ever).
        Shows on the way when the last one ended and what its steps took: another process may have done it, or this one
        before it was replaced. Where none has, since when that is so, or nobody would hear of it.
        """
        runs = await self._runs()
        if not runs:
            since = min(since, await self._store.began_at() or since)
        ended = next((run for run in runs if run.finished_at is not None), None)
        self._show(ended, none_since=runs[-1].started_at if runs else since)
        latest = next(iter(runs), None)
        began = since if latest is None else latest.started_at
        return began < latest_due(at, self._parts.clock()) or await self.unfinished() is not None

    def _show(self, ended: Run | None, *, none_since: datetime) -> None:
        metrics = self._parts.metrics
        at = none_since if ended is None or ended.finished_at is None else ended.finished_at
        metrics.consolidation_end_seconds.set(at.timestamp())
        for one in ended.report if ended is not None else ():
            metrics.consolidation_seconds.labels(one["step"]).set(one["seconds"])

    def _count(self, report: Sequence[Counted]) -> None:
        metrics = self._parts.metrics
        for one in report:
            metrics.consolidated.labels(one.step).inc(one.changed)
            metrics.consolidation_seconds.labels(one.step).set(one.seconds)
        metrics.consolidation_end_seconds.set(self._parts.clock().timestamp())


async def keep_consolidating(consolidation: Consolidation, at: str | None, clock: Callable[[], datetime]) -> None:
    """Run each night at this time of day for ever, and go on with a run that was broken off; run as a task."""
    since = clock()
    while at is not None:
        await asyncio.sleep(ASK_EVERY_S)
        try:
            if not await consolidation.is_due(at, since):
                continue
            report = await consolidation.run(_to_log)
            if report is not None:
                event(log, "consolidated", **{one.step: one.changed for one in report})
        except MemoryProxyFault as fault:
            event(log, "consolidation_postponed", logging.WARNING, fault=f"{type(fault).__name__}: {fault}")


def _to_log(_: UUID, counted: Counted) -> None:
    event(log, "consolidating", logging.DEBUG, **counted.as_json())


class _Pace:
    """Keeps the lead, and the machine free: after each look and change a pause, as long as it took and more."""

    def __init__(self, parts: Parts, lead: Lead | None) -> None:
        self._parts = parts
        self.lead = lead
        self._led_s = -LEASE_S

    async def rest(self, worked_s: float, *, least_s: float = 0.0) -> None:
        """Wait, and stay the leader. Raises LeaseLost."""
        await asyncio.sleep(max(least_s, worked_s * REST_PER_WORK))
        now_s = asyncio.get_running_loop().time()
        if self.lead is None or now_s - self._led_s < LEASE_S / 4:
            return
        if await self._parts.store.lead(self.lead.holder, LEASE_S) != self.lead.fence:
            raise LeaseLost("another process consolidates now")
        self._led_s = now_s


class _TenantStep:
    """One step of one tenant. Without a lead it only counts."""

    def __init__(self, parts: Parts, tenant: UUID, step: Step, terms: Terms, pace: _Pace, say: Say) -> None:
        self._parts = parts
        self._store = parts.store
        self._tenant = tenant
        self._step = step
        self._terms = terms
        self._pace = pace
        self._say = say
        self._all = Counted(step)
        self._fresh = Counted(step)  # not noted yet; what was changed notes itself
        self._noted_s = self._now_s()

    async def run(self, known: Progress | None) -> Counted:
        """Go on from where it stood, to the end; the counts of the whole step."""
        if known is not None:
            self._all = known.counted
        if self._step in self._terms.idle or (known is not None and known.finished):
            return self._all
        if self._step == "bound":
            await self._keep_bound(known)
        else:
            await self._walk(None if known is None else known.after)
        await self._note(None, finished=True)
        self._say(self._tenant, self._all)
        return self._all

    async def _walk(self, after: Place | None) -> None:
        """Scope by scope; those that hold little are looked at several at once, as most are of many thousands."""
        if after is not None:
            await self._go_through(after.scope_id, after)
        few = min(FEW_ROWS, self._rows_at_once)
        async for scope_ids in self._several(-1 if after is None else after.scope_id, self._rows_at_once // few):
            began_s = self._now_s()
            windows = await self._store.windows(self._tenant, scope_ids, self._step, few, self._terms)
            worked_s = self._now_s() - began_s
            await self._count(examined=sum(one.examined for one in windows.values() if one), worked_s=worked_s)
            await self._pace.rest(worked_s)
            for scope_id in scope_ids:
                window = windows[scope_id]
                if window is None:
                    await self._go_through(scope_id, None)
                elif window.last is not None:
                    await self._change_due(scope_id, window)
                    await self._note(window.last)

    async def _go_through(self, scope_id: int, place: Place | None) -> None:
        """One scope, from a place on."""
        most = self._rows_at_once
        while True:
            began_s = self._now_s()
            window = await self._store.window(self._tenant, scope_id, self._step, place, most, self._terms)
            worked_s = self._now_s() - began_s
            await self._count(examined=window.examined, worked_s=worked_s)
            await self._pace.rest(worked_s)
            await self._change_due(scope_id, window)
            place = window.last
            if place is None or window.examined < most:
                break
            await self._note(place)

    async def _change_due(self, scope_id: int, window: Window) -> None:
        if window.due and self._fresh.examined:  # of scopes that are looked at several at once noted already
            await self._note(None, at_once=True)  # so that a run never changed more than it looked at
        await self._change_all(scope_id, window.due)

    async def _several(self, last: int, at_once: int) -> AsyncIterator[Sequence[int]]:
        """The scopes behind one that hold anything for this step, in order, at most so many at once."""
        while page := await self._store.scopes_after(self._tenant, last, SCOPES_AT_ONCE):
            found = await self._store.scopes_with(self._tenant, page, self._step, self._terms)
            for start in range(0, len(found), at_once):
                yield found[start : start + at_once]
            last = page[-1]

    @property
    def _rows_at_once(self) -> int:
        return min(ROWS_AT_ONCE, ROWS_OF_STEP.get(self._step, ROWS_AT_ONCE))

    async def _scopes(self, after: Place | None) -> AsyncIterator[int]:
        """The scopes that hold anything for this step, in order, from the place's own on."""
        async for some in self._several(-1 if after is None else after.scope_id - 1, SCOPES_AT_ONCE):
            for scope_id in some:
                yield scope_id

    async def _change_all(self, scope_id: int, due: Sequence[Due], stands: Stands | None = None) -> None:
        lead = self._pace.lead
        if lead is None:
            await self._count(changed=len(due))
            return
        size = 1 if self._step in ("summaries", "episodes") else ROWS_UNDER_LOCK
        for start in range(0, len(due), size):
            batch = due[start : start + size]
            more = True
            while more:
                began_s = self._now_s()
                changed = await self._change_or_pass(scope_id, batch, lead, stands)
                worked_s = self._now_s() - began_s
                await self._count(changed=changed.rows, worked_s=worked_s)
                await self._pace.rest(worked_s, least_s=self._parts.pause_s)
                more = changed.more

    async def _change_or_pass(self, scope_id: int, batch: Sequence[Due], lead: Lead, stands: Stands | None) -> Changed:
        """Rows that the store refuses are passed over: nobody else's night may end with them."""
        try:
            return await self._change(scope_id, batch, lead, stands)
        except StoreRefused as fault:
            ids = ",".join(str(one.memory_id) for one in batch)
            event(log, "consolidation_refused", logging.WARNING, step=self._step, ids=ids, fault=str(fault))
            return Changed(0)

    async def _change(self, scope_id: int, batch: Sequence[Due], lead: Lead, stands: Stands | None) -> Changed:
        if self._step in RETOLD:
            told = Retelling(self._store, self._parts.tells)
            return await told.change(self._tenant, scope_id, self._step, batch, self._terms, lead)
        if self._step != "summaries":
            return await self._store.change(self._tenant, scope_id, self._step, batch, self._terms, lead, stands)
        return Changed(await self._rebuild(scope_id, batch[0].memory_id, lead))

    async def _rebuild(self, scope_id: int, memory_id: UUID, lead: Lead) -> int:
        """A summary anew, of the turns that are left; how many were written, 0 or 1."""
        old = await self._store.old_summary(self._tenant, scope_id, memory_id)
        if old is None:
            return 0
        hidden = await self._store.turns_not_shown(self._tenant, old)
        turns: list[StoredTurn] = []
        seq = 0
        while page := await self._store.summarised_turns(self._tenant, old, seq, ROWS_AT_ONCE):
            turns += [turn for turn in page if turn.event_id not in hidden]
            seq = page[-1].seq + 1
        memory = await self._parts.summarise(old, turns)
        return await self._store.put_rebuilt(self._tenant, old, memory, self._terms, lead)

    # ------------------------------------------------------------ bounds

    async def _keep_bound(self, known: Progress | None) -> None:
        """Hide what is worth least until the tenant is within its bounds: a walk that counts, and one that hides. What
        live traffic adds meanwhile is the next run's.
        """
        after = None if known is None else known.after
        cut = Cut(self._terms.now) if known is None or known.cut is None else Cut.of_json(known.cut)
        rows_over = await self._rows_over()
        if cut.upto is None:
            if rows_over <= 0 and self._terms.bytes_max is None:
                return
            async for place, uses in self._uses(after):
                for use, may_go in uses:
                    cut.count(use, may_go=may_go)
                await self._note(place, cut=cut)
            cut.settle(rows_over, 0 if self._terms.bytes_max is None else cut.bytes - self._terms.bytes_max)
            after = None
            await self._note(_FIRST, cut=cut, at_once=True)
        elif self._terms.bytes_max is None:
            cut.rows_left = min(cut.rows_left, rows_over)  # others may have hidden some
        if cut.upto is None:
            return
        begin = after or _FIRST
        async for place, uses in self._uses(after):
            goes = (Due(use.memory_id) for use, may_go in uses if may_go and cut.takes(use))
            while some := list(islice(goes, ROWS_UNDER_LOCK)):
                # What is left to take is noted with what was taken, or who goes on here would take as much again.
                await self._change_all(place.scope_id, some, (begin, cut.as_json()))
            await self._note(place, cut=cut)
            begin = place

    async def _rows_over(self) -> int:
        """By how many rows the tenant has too much; 0 or less: not."""
        if self._terms.rows_max is None:
            return 0
        rows, last = 0, -1
        while page := await self._store.scopes_after(self._tenant, last, SCOPES_AT_ONCE):
            rows += await self._store.rows_of(self._tenant, page)
            last = page[-1]
        return rows - self._terms.rows_max

    async def _uses(self, after: Place | None) -> AsyncIterator[tuple[Place, list[tuple[Use, bool]]]]:
        """All that is kept from a place on, page by page, with where each page ends."""
        async for scope_id in self._scopes(after):
            place = after if after is not None and after.scope_id == scope_id else None
            while True:
                began_s = self._now_s()
                place, uses = await self._store.uses(self._tenant, scope_id, place, ROWS_AT_ONCE, self._terms)
                if place is None:
                    break
                worked_s = self._now_s() - began_s
                await self._count(examined=len(uses), worked_s=worked_s)
                yield place, uses
                await self._pace.rest(worked_s)

    # ------------------------------------------------------------ counting

    async def _count(self, *, examined: int = 0, changed: int = 0, worked_s: float = 0.0) -> None:
        self._all += Counted(self._step, examined, changed, worked_s)
        self._fresh += Counted(self._step, examined, 0, worked_s)

    async def _note(
        self, after: Place | None, *, finished: bool = False, at_once: bool = False, cut: Cut | None = None
    ) -> None:
        """Note where it stands, once in a while and at the end."""
        lead, now_s = self._pace.lead, self._now_s()
        if lead is None or (not (finished or at_once) and now_s - self._noted_s < NOTE_EVERY_S):
            return
        ended = self._parts.clock() if finished else None
        await self._store.note(
            self._tenant, lead, replace(self._fresh, changed=0), after, ended, None if cut is None else cut.as_json()
        )
        self._fresh, self._noted_s = Counted(self._step), now_s
        if not finished:
            self._say(self._tenant, self._all)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
