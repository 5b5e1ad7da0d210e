"""One erasure, from its row to its receipt.

`Erasing.take_out` reads downwards: mark, settle, purge, delete, let go, make anew, shred. What is missing then is the
proof: `probed` looks once for what was taken out by several of a tenant, `end` signs and ends each by itself. Each step
is noted when it is done and safe to do twice, so a kill anywhere ends in a finished erasure once somebody goes on. What
the forgotten text was is known to this process only, as hashes: a job that goes on in another process after its texts
are gone looks for ids alone, and its receipt says so. Raises StoreUnavailable, QueueUnavailable, EmbedderUnavailable
(come again), LeaseLost (another leads).
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from memory.envelope import key_id_of, unseal
from memory.erasure import journal
from memory.erasure.asking import binding_of
from memory.erasure.follower import Word
from memory.erasure.letters import Letters
from memory.erasure.model import WHOLE, Items, Job, Named, Plan, Step, Target, Traces, added
from memory.erasure.ports import EraseStore, GoesThrough, Hots, MakesAnew, TakesFiles
from memory.erasure.probing import Probing, Sought
from memory.erasure.receipt import signed
from memory.erasure.repeated import answers_given, own_words, said_again
from memory.erasure.shingles import Shingles
from memory.keys import KeyRing
from memory.model import Scope, TombstoneKind
from memory.ports import Entry
from memory.read.conversation import scope_key
from memory.telemetry import Metrics
from memory.write.tombstones import digest, memory_marks, session_digest, source_mark, turn_digests

SETTLED_WITHIN_S: Final = 80.0  # a commit has 70 s; one that ends behind the deletion would bring it back
_POLL_S: Final = 0.02
_LOOK_S: Final = 1.0
_IDS_SHOWN_MAX: Final = 100
_MEMORIES_ASKED_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class EraseParts:
    """What an erasure needs. `anew` None: that waits for a process that can."""

    store: EraseStore
    probe: GoesThrough
    redis: Hots
    keys: KeyRing
    anew: MakesAnew | None
    clock: Callable[[], datetime]
    metrics: Metrics
    staleness_s: float
    salt_rotation_min_s: float
    journal: Path
    spool: Path
    spooled: Callable[[Collection[UUID]], int]
    files: TakesFiles


@dataclass(frozen=True, slots=True)
class Known:
    """What only this process knows of a job: its words, what keeps it away, how long it waited for others."""

    words: Shingles  # of turns
    made: Shingles  # of what was made of them
    tombstones: list[tuple[TombstoneKind, bytes]]
    whole: bool  # the words are those of all that goes
    heard: dict[str, Any] = field(default_factory=dict)
    shown: set[UUID] = field(default_factory=set)  # what goes of scopes of which nothing else does: copies
    hot: dict[bytes, list[UUID] | None] = field(default_factory=dict)  # by key of a scope: conversations, None for all

    def marks(self, content_key: bytes) -> Callable[[Iterable[UUID]], list[tuple[TombstoneKind, bytes]]]:
        """Gives the tombstones of memories that have none yet, which are known from then on."""

        def of(memories: Iterable[UUID]) -> list[tuple[TombstoneKind, bytes]]:
            there = frozenset(self.tombstones)
            more = [one for one in memory_marks(content_key, memories) if one not in there]
            self.tombstones.extend(more)
            return more

        return of


@dataclass(frozen=True, slots=True)
class TakenOut:
    """An erasure that only its proof is missing of."""

    job: Job
    target: Target
    known: Known
    items: Items

    @property
    def kept(self) -> int:
        """How much of it this process has to keep until it is proved: runs of words, tombstones, items."""
        known, items = self.known, sum(map(len, self.items.of.values()))
        return len(known.words) + len(known.made) + len(known.tombstones) + items


class Erasing:
    """Goes through with erasures."""

    def __init__(self, parts: EraseParts) -> None:
        self._parts = parts
        self._store = parts.store

    @property
    def parts(self) -> EraseParts:
        """What it is made of."""
        return self._parts

    async def run(self, tenant: UUID, erasure_id: UUID, fence: int, *, words: Shingles | None = None) -> Job | None:
        """To the end; None for no such job. `words`: takes in the words of what goes."""
        if (taken := await self.take_out(tenant, erasure_id, fence, words=words)) is not None:
            (traces,) = await self.probed(tenant, [taken])
            await self.end(taken, traces, fence)
        return await self._store.get(tenant, erasure_id)

    async def take_out(
        self, tenant: UUID, erasure_id: UUID, fence: int, *, removal_only: bool = False, words: Shingles | None = None
    ) -> TakenOut | None:
        """Until nothing of it is left and what has other sources is made again; `removal_only`: not that. None where
        there is nothing to be done.
        """
        job = await self._store.get(tenant, erasure_id)
        if job is None or job.finished_at is not None or job.target is None:
            return None
        target = await self._opened(job, job.target)
        known = Known(words if words is not None else Shingles(), Shingles(), [], whole=job.step in ("asked", "marked"))
        if job.step == "asked":
            job = await self._mark(job, target, known, fence)
        if job.step == "marked":
            job = await self._take_away(job, target, fence, known)
        if job.step == "deleted":
            job = await self._let_go(job, target, fence, known)
        if removal_only:
            await self._shred(job)
            await self._store.drop_unsaid_tokens(job)
            return None
        if job.step == "deleted":
            job = await self._make_anew(job, fence)
        if job.step == "rebuilt":
            job = await self._lock_away(job, fence)
        return TakenOut(job, target, known, await self._store.items(job))

    async def probed(self, tenant: UUID, taken: Sequence[TakenOut]) -> list[Traces]:
        """What is left of each of these: every table, Redis, the spool and every process are asked once for all."""
        sought = [
            Sought(one.job.erasure_id, one.items, one.known.words, one.known.made, await self._held(one))
            for one in taken
        ]
        parts, scopes = self._parts, await self._store.scope_ids(tenant)
        return await Probing(parts.probe, parts.redis, parts.spool, parts.spooled).run(tenant, scopes, sought)

    async def end(self, taken: TakenOut, traces: Traces, fence: int) -> None:
        """Say in a signed receipt what was found of this one, and write it down for ever."""
        job, known = taken.job, taken.known
        receipt = await self._receipt(job, taken.items, known, traces)
        entry = journal.Entry(
            job.tenant_id, job.erasure_id, job.kind, job.digest, job.requested_at, await self._tombstones(job, known)
        )
        await asyncio.to_thread(journal.append, self._parts.journal, entry, receipt)
        now, metrics = self._parts.clock(), self._parts.metrics
        await self._store.end(job, receipt, now, fence)
        metrics.erasures.labels("complete" if receipt["complete"] else "traces_left").inc()
        metrics.erasure_seconds.observe((now - job.requested_at).total_seconds())

    # ------------------------------------------------------------ steps

    async def _mark(self, job: Job, target: Target, known: Known, fence: int) -> Job:
        """Nothing of it comes in any more from here on."""
        plan = await self._remember(await self._store.plan(target), target, known)
        plan = replace(plan, hot=await self._keys_of(job.tenant_id, plan.scopes))
        subject = None if plan.stays else await self._subject(target)  # what stays is sealed under these keys
        await self._store.mark(job, plan, known.tombstones, subject, self._parts.clock(), fence)
        if subject is not None:
            await self._tell(Word(job.tenant_id, job.erasure_id, 1, subject=subject), known)
        return replace(job, step="marked")

    async def _settle(self) -> None:
        """Wait for who may have looked for tombstones before there were any. Not by the mark's own number: who began
        while it was being written saw none either.
        """
        number = await self._store.horizon()
        for _ in range(round(SETTLED_WITHIN_S / _POLL_S)):
            if await self._store.settled(number):
                break
            await asyncio.sleep(_POLL_S)

    async def _take_away(self, job: Job, target: Target, fence: int, known: Known) -> Job:
        await self._settle()
        if job.kind not in WHOLE or not known.tombstones or known.shown:
            await self._remember_late(job, target, fence, known)
        items = await self._store.items(job)
        known.hot.update(await self._hot(job, target, items))  # before its names are gone
        job = await self._purge(job, target, known, fence)
        marks = known.marks(await self._parts.keys.content_key(job.tenant_id))
        deleted = await self._store.delete(job, items, target, marks, self._parts.clock(), fence)
        return replace(job, step="deleted", counts=deleted)

    async def _let_go(self, job: Job, target: Target, fence: int, known: Known) -> Job:
        """What lies outside the database: files, what every process has at hand, and what Redis was told meanwhile."""
        items = await self._store.items(job)
        if not known.hot:  # taken up again behind the deletion
            known.hot.update(await self._hot(job, target, items))
        async for files in self._parts.files.forget(job.tenant_id, items.touched(), self._parts.clock()):
            job = await self._counted(job, {"files": files}, fence)
        await self._tell(Word(job.tenant_id, job.erasure_id, 2, tuple(items.touched())), known)
        return await self._advance(await self._purge(job, target, known, fence), "deleted", {}, fence)

    async def _make_anew(self, job: Job, fence: int) -> Job:
        if self._parts.anew is not None:
            await self._parts.anew.make(job, await self._store.items(job))
            job = await self._store.get(job.tenant_id, job.erasure_id) or job  # with what was counted
        return await self._advance(job, "rebuilt", {}, fence)

    async def _lock_away(self, job: Job, fence: int) -> Job:
        """What is sealed can be read no more, and what the model server has cached is met no more."""
        await self._stored_before(job)
        shredded = await self._shred(job)
        job = await self._counted(job, {"personal_tokens": await self._store.drop_unsaid_tokens(job)}, fence)
        now = self._parts.clock()
        before = now - timedelta(seconds=self._parts.salt_rotation_min_s)
        job = await self._store.rotate_salt(job, now, before, fence)
        return await self._advance(job, "shredded", {"keys_shredded": shredded}, fence)

    async def _stored_before(self, job: Job) -> None:
        """Wait for what came behind the asking, and stays, and was sealed under a key that goes: its process had not
        heard of that yet, and nobody could open it any more.
        """
        keys, waiting = frozenset((await self._store.items(job)).ids("key")), 0

        async def counted(entry: Entry, is_dead: bool) -> bool:
            nonlocal waiting
            waiting += not is_dead and key_id_of(entry.envelope) in keys
            return False

        for _ in range(round(SETTLED_WITHIN_S / _LOOK_S) if keys else 0):
            waiting = await asyncio.to_thread(self._parts.spooled, keys)  # before the queue, where it goes next
            await self._parts.redis.purge(job.tenant_id, None, counted)
            if not waiting:
                break
            await asyncio.sleep(_LOOK_S)

    async def _shred(self, job: Job) -> int:
        """How many keys open nothing any more, also those that were shredded before this was broken off."""
        keys = (await self._store.items(job)).ids("key")
        if keys:
            await self._store.shred(job, keys, self._parts.clock())
        return len(keys)

    async def _held(self, taken: TakenOut) -> int:
        """How many of its ids every process still had at hand."""
        job, items = taken.job, taken.items
        keys, touched = tuple(items.ids("key")), tuple(items.touched())
        memories = tuple(items.ids("memory")[:_MEMORIES_ASKED_MAX])
        subject = await self._subject(taken.target)
        return await self._tell(Word(job.tenant_id, job.erasure_id, 3, touched, subject, keys, memories), taken.known)

    async def _remember_late(self, job: Job, target: Target, fence: int, known: Known) -> None:
        """Take in what was stored while the mark was being written, answers that repeat it among that; all, where
        another process has marked it.
        """
        marked, before = await self._plan_of(job), frozenset(known.tombstones)
        plan = await self._remember(marked, target, known)
        late = {one: scope_id for one, scope_id in plan.turns.items() if one not in marked.turns}
        if late or not before.issuperset(known.tombstones):
            await self._store.mark_more(job, late, known.tombstones, fence)
            await self._settle()

    # ------------------------------------------------------------ parts of steps

    async def _remember(self, plan: Plan, target: Target, known: Known) -> Plan:
        """Take in the words of what goes and what it is recognised by; the plan with the answers that repeat it."""
        tenant = target.scope.tenant
        events = await self._take_in(plan, plan.scope_ids, plan.sessions_beside, list(plan.turns), known, tenant)
        made = await self._store.reach(plan, tenant, events)
        own = await own_words(self._store, plan, tenant, made, known.made)
        known.tombstones.extend(await self._names(plan, target, list(made)))
        given = await answers_given(self._store, plan, target, made, known.shown)
        echoes = {
            one: at
            for one, at, text in given
            if one not in events and (known.words.found_in(text) or own.found_in(text))
        }
        again = await said_again(self._store, plan, target)
        echoes |= {one: at for one, at in again.items() if one not in events}
        if not echoes:
            return plan
        plan = replace(plan, turns={**plan.turns, **echoes})
        events |= await self._take_in(plan, [], [], list(echoes), known, tenant)
        of_these = (await self._store.reach(plan, tenant, events)).keys() - made.keys()
        known.tombstones.extend(memory_marks(await self._parts.keys.content_key(tenant), of_these))
        return plan

    async def _take_in(
        self,
        plan: Plan,
        scopes: Sequence[int],
        sessions: Sequence[UUID],
        turns: Sequence[UUID],
        known: Known,
        tenant: UUID,
    ) -> dict[UUID, int]:
        content_key = await self._parts.keys.content_key(tenant)
        users = {one.scope_id: one.user for one in await self._store.scopes_by_id(tenant, plan.touched)}
        events: dict[UUID, int] = {}
        async for page in self._store.turns(tenant, scopes, sessions, turns, plan.touched):
            for one in page:
                events[one.event_id] = one.scope_id
                known.words.add(one.content)
                user = users.get(one.scope_id, "")
                known.tombstones.extend(turn_digests(content_key, user, one.content, one.names, one.chain))
            await asyncio.sleep(0)
        return events

    async def _names(self, plan: Plan, target: Target, made: Sequence[UUID]) -> list[tuple[TombstoneKind, bytes]]:
        content_key = await self._parts.keys.content_key(target.scope.tenant)
        found: list[tuple[TombstoneKind, bytes]] = []
        if target.kind == "user":
            found.append(("user", digest(content_key, "user", target.value)))
        elif target.kind == "project":
            found.append(("project", digest(content_key, "project", target.value)))
        elif target.kind == "session":
            found.append(("session", session_digest(content_key, target.scope, target.value)))
        elif target.kind == "source_id":  # a line that calls it so may wait in the queue
            found.append(source_mark(content_key, target.scope.user, target.value))
        names = {one.scope_id: one for one in plan.scopes}
        for scope_id, label in plan.sessions.values():
            if (one := names.get(scope_id)) is not None:
                scope = Scope(target.scope.tenant, one.user, one.project, one.agent)
                found.append(("session", session_digest(content_key, scope, label)))
        return [*found, *memory_marks(content_key, made)]

    async def _plan_of(self, job: Job) -> Plan:
        """The plan of a job that was marked before: as it was written down."""
        items = await self._store.items(job)
        scopes = tuple(await self._store.scopes_by_id(job.tenant_id, items.scope_ids()))
        of = {kind: {UUID(item): scope for item, scope in items.of.get(kind, {}).items()} for kind in _BY_ID}
        sessions = {one: (scope, "") for one, scope in of["session"].items()}
        return Plan(scopes, sessions, of["turn"], of["memory"])

    async def _tombstones(self, job: Job, known: Known) -> tuple[tuple[TombstoneKind, bytes], ...]:
        if known.tombstones:
            return tuple(dict.fromkeys(known.tombstones))
        return tuple(await self._store.tombstones_since(job.tenant_id, job.requested_at))

    async def _keys_of(self, tenant: UUID, scopes: Sequence[Named]) -> dict[int, bytes]:
        chain_key = await self._parts.keys.chain_key(tenant)
        return {o.scope_id: scope_key(chain_key, Scope(tenant, o.user, o.project, o.agent)) for o in scopes}

    async def _hot(self, job: Job, target: Target, items: Items) -> dict[bytes, list[UUID] | None]:
        """Whose keys in Redis go. Behind the deletion, which took names and turns, those that were written down, and
        all of a scope where only some conversations were meant: what is there is made again.
        """
        hot = await self._hot_of_turns(job, items)
        if target.kind in WHOLE or target.until is not None:
            touched = items.scope_ids() if target.until is None else items.touched()
            there = await self._store.scopes_by_id(job.tenant_id, touched)
            whole = dict.fromkeys([*(await self._keys_of(job.tenant_id, there)).values(), *items.scope_keys()])
            return {**hot, **whole}
        key = scope_key(await self._parts.keys.chain_key(job.tenant_id), target.scope)
        return {**hot, key: None if job.step == "deleted" else [*items.ids("session"), *(hot.get(key) or ())]}

    async def _hot_of_turns(self, job: Job, items: Items) -> dict[bytes, list[UUID] | None]:
        """The conversations of single turns, which working contexts quote; whose they are is found in the store. Behind
        the deletion all of their scopes.
        """
        if not items.of.get("turn"):
            return {}
        if job.step == "deleted":
            found: dict[int, list[UUID] | None] = dict.fromkeys(items.of["turn"].values())
        else:
            sessions: dict[int, list[UUID]] = {}
            pages = self._store.turns(job.tenant_id, [], [], items.ids("turn"), items.touched())
            async for page in pages:
                for one in page:
                    sessions.setdefault(one.scope_id, []).append(one.session_id)
            found = {**sessions}
        there = await self._store.scopes_by_id(job.tenant_id, found)
        return {key: found[at] for at, key in (await self._keys_of(job.tenant_id, there)).items()}

    async def _purge(self, job: Job, target: Target, known: Known, fence: int) -> Job:
        """Take out of Redis what is there of it: of the queue, then of the cache, which may be another server. The job,
        in which it is counted.
        """
        redis, tenant = self._parts.redis, job.tenant_id
        subject = await self._subject(target)
        subjects = None if target.kind == "project" else [await self._parts.keys.subject_id(tenant, target.scope.user)]
        marks = frozenset(await self._tombstones(job, known))
        goes = Letters(self._parts.keys, target, subject, job.requested_at, marks).goes
        entries = await redis.purge(tenant, [subject] if subject else subjects, goes)
        job = await self._counted(job, {"queue_entries": entries}, fence)
        return await self._counted(job, {"redis_keys": await redis.drop_hot(tenant, known.hot)}, fence)

    async def _tell(self, word: Word, known: Known) -> int:
        """Tell every process and wait until each has confirmed, or twice the staleness bound has passed: by then none
        uses what it has not confirmed with the store. How many ids they still held.
        """
        redis, began_s = self._parts.redis, time.monotonic()
        asked = await redis.living()
        await redis.announce(word.packed())
        confirmed: Mapping[str, int] = {}
        while time.monotonic() - began_s < 2 * self._parts.staleness_s:
            confirmed = await redis.confirmed(word.erasure, word.turn)
            if asked <= confirmed.keys():
                break
            await asyncio.sleep(_POLL_S)
        known.heard[str(word.turn)] = {
            "asked": len(asked),
            "confirmed": len(asked & confirmed.keys()),
            "millis": round((time.monotonic() - began_s) * 1000),
        }
        return sum(confirmed.values())

    async def _receipt(self, job: Job, items: Items, known: Known, traces: Traces) -> dict[str, Any]:
        keys = self._parts.keys
        content_key = await keys.content_key(job.tenant_id)
        marks = sorted(
            hmac.digest(content_key, one.bytes, "sha256").hex()
            for kind in ("turn", "memory", "session")
            for one in items.ids(kind)
        )
        root = hmac.digest(content_key, "".join(marks).encode(), "sha256").hex()
        members = {
            "id": str(job.erasure_id),
            "tenant": str(job.tenant_id),
            "kind": job.kind,
            "target": job.digest.hex(),
            "level": "logical",
            "complete": traces.total == 0,
            "requested_at": job.requested_at.isoformat(),
            "finished_at": self._parts.clock().isoformat(),
            "counts": dict(sorted(job.counts.items())),
            "ids": {"count": len(marks), "root": root, "first": marks[:_IDS_SHOWN_MAX]},
            "processes": known.heard,
            "probe": {
                "traces": traces.total,
                "found": dict(sorted(traces.found.items())),
                "ids": traces.ids,
                "word_runs": traces.shingles,
                "word_runs_said_elsewhere": traces.said_elsewhere,
                "words_known": known.whole,
            },
        }
        return signed(members, await keys.receipt_seed())

    async def _counted(self, job: Job, more: Mapping[str, int], fence: int) -> Job:
        """What has gone is noted before anything else may fail: who comes again finds none of it."""
        return await self._advance(job, job.step, more, fence) if any(more.values()) else job

    async def _advance(self, job: Job, step: Step, more: Mapping[str, int], fence: int) -> Job:
        counts = added(job.counts, more)
        await self._store.advance(job, step, counts, fence)
        return replace(job, step=step, counts=counts)

    async def _opened(self, job: Job, sealed: bytes) -> Target:
        key = await self._parts.keys.by_id(job.tenant_id, key_id_of(sealed))
        raw = unseal(key, binding_of(job.tenant_id, job.erasure_id), sealed)
        return Target.unpacked(raw, job.tenant_id)

    async def _subject(self, target: Target) -> UUID | None:
        """Whose keys are shredded: a user's who goes whole."""
        return await self._parts.keys.subject_id(target.scope.tenant, target.value) if target.kind == "user" else None


_BY_ID: Final = ("session", "turn", "memory")
