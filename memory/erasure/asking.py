"""Asking for an erasure: a target in, what it comes to or the id of a job out. Raises StoreUnavailable.

What is asked for stands in the store before anything is done, sealed under the tenant's key: it outlives whoever asks.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from memory.envelope import Binding, seal
from memory.erasure.journal import Entry
from memory.erasure.model import ID_BYTES, GoneTurn, Job, Labelled, Listed, Plan, Target
from memory.erasure.ports import EraseStore, Witness
from memory.erasure.repeated import answers_given, own_words, said_again
from memory.erasure.shingles import Shingles
from memory.ids import new_id
from memory.keys import KeyRing
from memory.model import Scope, TombstoneKind, Unless
from memory.off_loop import off_loop
from memory.stored import Page
from memory.write.tombstones import digest, session_digest

_NOBODY: Final = UUID(int=0)
_LAST: Final = UUID(int=2**128 - 1)
_MARK_BYTES: Final = 4
LOOKS_AT: Final = 1_000
"""Of a tenant's erasures, for one page of those of a scope."""


def binding_of(tenant: UUID, erasure_id: UUID) -> Binding:
    """What a sealed target belongs to."""
    return Binding(tenant, _NOBODY, erasure_id, "erasure")


@dataclass(frozen=True, slots=True)
class Asking:
    """Plans erasures and writes their jobs; somebody who leads goes through with them."""

    store: EraseStore
    keys: KeyRing

    async def remembered(self, target: Target) -> tuple[Plan, list[str], list[str]]:
        """What a target comes to now: the plan, ids of turns and ids of memories; answers that repeat it among them."""
        plan = await self.store.plan(target)
        tenant = target.scope.tenant
        turns = dict[UUID, int]()
        async for some in self.store.turns_named(tenant, *_turns_of(plan)):
            turns |= some
        made = await self.store.reach(plan, tenant, turns)
        if repeats := await self._repeats(plan, target, made, turns.keys()):
            turns |= repeats
            made = await self.store.reach(replace(plan, turns={**plan.turns, **repeats}), tenant, turns)
        size_bytes = (len(turns) + len(made)) * ID_BYTES
        return await off_loop(size_bytes, lambda: (plan, list(map(str, turns)), list(map(str, made))))

    async def named(self, target: Target) -> tuple[Plan, list[Labelled]]:
        """What a part of a scope comes to now, and how what it names, rests on or holds is labelled."""
        plan = await self.store.plan(target)
        ids = [*plan.memories, *plan.turns]
        return plan, await self.labels(target, ids, list(plan.sessions))

    async def labels(self, target: Target, ids: Sequence[UUID], sessions: Sequence[UUID] = ()) -> list[Labelled]:
        """How these are labelled now."""
        tenant = target.scope.tenant
        return await self.store.labelled(tenant, await self.store.scope_ids(tenant), ids, sessions)

    async def ask(self, target: Target, now: datetime, witness: Witness | None = None) -> UUID:
        """Write a job, and that it was asked for; its id."""
        tenant, erasure_id = target.scope.tenant, await self._marked(target.scope, new_id())
        sealed = await self._sealed(target, erasure_id)
        await self.store.add(tenant, erasure_id, target.kind, sealed, await self._digest(target), now, witness)
        return erasure_id

    async def is_of(self, scope: Scope, erasure_id: UUID) -> bool:
        """Whether this erasure was asked for in this scope."""
        return await self._marked(scope, erasure_id) == erasure_id

    async def listed(self, tenant: UUID, scope: Scope | None, before: UUID | None, limit: int) -> Page[Listed]:
        """Erasures that were asked for in this scope (None: in any of the tenant), the newest first; the cursor is the
        id of the last one that was looked at. Of LOOKS_AT at most, so a page may have fewer than `limit`.
        """
        found: list[Listed] = []
        looked = await self.store.newest(tenant, before or _LAST, LOOKS_AT + 1)
        for number, one in enumerate(looked):
            if len(found) == limit or number == LOOKS_AT:
                return Page(tuple(found), str(looked[number - 1].erasure_id))
            if scope is None or await self.is_of(scope, one.erasure_id):
                found.append(one)
        return Page(tuple(found), None)

    async def ask_again(self, target: Target, line: Entry) -> None:
        """Write the job of an erasure that an older copy does not know, under its own name."""
        sealed = await self._sealed(target, line.erasure)
        await self.store.add(line.tenant, line.erasure, line.kind, sealed, line.digest, line.at)

    async def note_done(self, line: Entry, now: datetime) -> None:
        """Write down that an older copy holds nothing of an erasure: it has ended, with the receipt that it had."""
        await self.store.add_ended(line.tenant, line.erasure, line.kind, line.digest, line.at, line.receipt, now)

    async def scopes_of(self, tenant: UUID, user: str) -> list[Scope]:
        """The user's own scopes, of every project and agent."""
        named = await self.store.scopes_named(tenant, user=user)
        return [Scope(tenant, user, o.project, o.agent) for o in named if o.visibility == "own"]

    async def unless(self, scope: Scope, memory_ids: Sequence[UUID], label: str | None, happened: datetime) -> Unless:
        """What keeps a memory known by these ids away: that it was forgotten itself, or that its user, its project or
        its conversation was, after it happened.
        """
        key = await self.keys.content_key(scope.tenant)
        names: list[tuple[TombstoneKind, bytes]] = [
            ("user", digest(key, "user", scope.user)),
            ("project", digest(key, "project", scope.project)),
        ]
        names += [("session", session_digest(key, scope, label))] if label is not None else []
        names += [("memory", digest(key, "memory", str(one))) for one in memory_ids]
        return Unless(tuple(names), happened)

    async def kept_away(self, tenant: UUID, unless: Unless) -> bool:
        """Whether one of these stands."""
        there = await self.store.tombstones_of(tenant, unless.tombstones)
        return any(kind == "memory" or unless.happened <= at for (kind, _), at in there.items())

    async def job(self, tenant: UUID, erasure_id: UUID) -> Job | None:
        """How far a job is; None for no such job."""
        return await self.store.get(tenant, erasure_id)

    def _turns(self, plan: Plan, tenant: UUID) -> AsyncIterator[list[GoneTurn]]:
        return self.store.turns(tenant, *_turns_of(plan))

    async def _repeats(self, plan: Plan, target: Target, made: Mapping[UUID, int], turns: Set[UUID]) -> dict[UUID, int]:
        """Other answers that say the words of these turns, or of what goes with them, which they were given or stand
        behind, with their scopes.
        """
        again = await said_again(self.store, plan, target)
        again = {one: at for one, at in again.items() if one not in turns}
        given = await answers_given(self.store, plan, target, made, set())
        elsewhere = [(one, at, text) for one, at, text in given if one not in turns]
        if not elsewhere:
            return again
        words, own = Shingles(), await own_words(self.store, plan, target.scope.tenant, made)
        async for page in self._turns(plan, target.scope.tenant):
            for one in page:
                words.add(one.content)
            await asyncio.sleep(0)
        return again | {one: at for one, at, text in elsewhere if words.found_in(text) or own.found_in(text)}

    async def _marked(self, scope: Scope, erasure_id: UUID) -> UUID:
        """An id whose last bytes are an HMAC of the rest and the scope: a job that has ended keeps no name of it."""
        names = "\x00".join((scope.user, scope.project, scope.agent)).encode("utf-8", "surrogatepass")
        key, rest = await self.keys.content_key(scope.tenant), erasure_id.bytes[:-_MARK_BYTES]
        return UUID(bytes=rest + hmac.digest(key, b"erasure id\x00" + rest + names, "sha256")[:_MARK_BYTES])

    async def _sealed(self, target: Target, erasure_id: UUID) -> bytes:
        tenant = target.scope.tenant
        return seal(await self.keys.tenant_key(tenant), binding_of(tenant, erasure_id), target.packed())

    async def _digest(self, target: Target) -> bytes:
        """The HMAC that stands for a target: that of its tombstone where it has one of its own."""
        content_key = await self.keys.content_key(target.scope.tenant)
        if target.kind == "session":
            return session_digest(content_key, target.scope, target.value)
        if target.kind in ("user", "project"):
            return digest(content_key, "user" if target.kind == "user" else "project", target.value)
        names = "\x00".join((target.kind, target.scope.user, target.scope.project, target.scope.agent, target.value))
        return hmac.digest(content_key, names.encode("utf-8", "surrogatepass"), "sha256")


def _turns_of(plan: Plan) -> tuple[Sequence[int], Sequence[UUID], Sequence[UUID], Sequence[int]]:
    """Which turns a plan means, as the store is asked for them."""
    return plan.scope_ids, plan.sessions_beside, list(plan.turns), plan.touched
