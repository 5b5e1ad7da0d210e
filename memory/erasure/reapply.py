"""A database that was restored from an older copy: the journal in, what was erased since taken out again.

The journal knows HMACs only, so the names, conversations, turns and memories of the store are held against them, as
commits are: what came by the time of the erasure goes, and what came later stays, but for the forgotten itself, sent
again. It goes by the same steps as ever, under the erasure's own id, as far as taking away; making anew, the probe and
the receipt are a worker's, which finds the job. Each line is gone through once: one that nothing is there of is written
down as ended, or it would meet who comes back at a later start. Raises what the steps raise: then the service is not
ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal
from uuid import UUID

from memory.erasure import journal
from memory.erasure.asking import Asking
from memory.erasure.job import Erasing
from memory.erasure.loop import Leads, leading
from memory.erasure.model import WHOLE, GoneTurn, Target
from memory.errors import LeaseLost
from memory.model import Scope
from memory.telemetry import event
from memory.write.tombstones import digest, session_digest, turn_digests

log: Final = logging.getLogger("memory_proxy.erasure")


async def reapply(erasing: Erasing, asking: Asking, leader: Leads) -> int:
    """Take out what every line of the journal says that the store does not know of. How many lines that were."""
    parts = erasing.parts
    names = await asyncio.to_thread(lambda: list(journal.names(parts.journal)))
    missing = await _missing(asking, names)
    if not missing:
        return 0
    done, lines = 0, journal.entries(parts.journal, missing)
    async with leading(leader) as fence:
        if fence is None:
            raise LeaseLost("another process goes through with erasures")
        while (line := await asyncio.to_thread(next, lines, None)) is not None:
            await _take_out(erasing, asking, line, fence)
            done += 1
    event(log, "erased_again", logging.WARNING, erasures=done)
    return done


async def _missing(asking: Asking, names: Sequence[journal.Name]) -> set[journal.Name]:
    """Those that the store does not know of, or was not done with taking away when its process or its copy ended. Each
    start asks, of every line that there ever was.
    """
    of: dict[UUID, list[UUID]] = {}
    for tenant, erasure in names:
        of.setdefault(tenant, []).append(erasure)
    known = [tenant for tenant in of if await asking.store.knows_tenant(tenant)]  # else it is another store's journal
    gone = {tenant: await asking.store.taken_out(tenant, of[tenant]) for tenant in known}
    return {(tenant, one) for tenant in known for one in of[tenant] if one not in gone[tenant]}


async def _take_out(erasing: Erasing, asking: Asking, line: journal.Entry, fence: int) -> None:
    """One line. The tombstones first: a job that is begun is not looked for again."""
    await asking.store.keep_tombstones(line.tenant, line.tombstones, line.at)
    if await asking.job(line.tenant, line.erasure) is None:
        target = await _target(asking, line)
        if target is None:
            await asking.note_done(line, erasing.parts.clock())
            return
        await asking.ask_again(target, line)
    await erasing.take_out(line.tenant, line.erasure, fence, removal_only=True)


async def _target(asking: Asking, line: journal.Entry) -> Target | None:
    """What in this store the line means."""
    named = await asking.store.scopes(line.tenant)
    of = {one.scope_id: Scope(line.tenant, one.user, one.project, one.agent) for one in named}
    if line.kind in WHOLE:
        return await _whole(asking, line, of)
    if line.kind == "session":
        return await _session(asking, line, of)
    memories, turns = await _marked(asking, line, of, by_name=())
    scopes = [*memories.values(), *turns.values()]
    if not scopes:
        return None
    return Target("query", "", of[scopes[0]], tuple(memories), tuple(turns), line.at)


async def _whole(asking: Asking, line: journal.Entry, of: Mapping[int, Scope]) -> Target | None:
    content_key = await asking.keys.content_key(line.tenant)
    kind: Literal["user", "project"] = "user" if line.kind == "user" else "project"
    theirs: dict[str, dict[int, Scope]] = {}
    for scope_id, scope in of.items():
        theirs.setdefault(scope.user if kind == "user" else scope.project, {})[scope_id] = scope
    for name, scopes in theirs.items():
        if digest(content_key, kind, name) == line.digest:
            memories, turns = await _marked(asking, line, of, by_name=scopes)
            return Target(kind, name, next(iter(scopes.values())), tuple(memories), tuple(turns), line.at)
    return None


async def _session(asking: Asking, line: journal.Entry, of: Mapping[int, Scope]) -> Target | None:
    content_key = await asking.keys.content_key(line.tenant)
    for _, scope_id, label in await asking.store.labels(line.tenant, list(of)):
        if session_digest(content_key, of[scope_id], label) == line.digest:
            theirs = {at: one for at, one in of.items() if one.user == of[scope_id].user}
            memories, turns = await _marked(asking, line, of, by_name=theirs)
            return Target("session", label, of[scope_id], tuple(memories), tuple(turns), line.at)
    return None


async def _marked(
    asking: Asking, line: journal.Entry, of: Mapping[int, Scope], *, by_name: Collection[int]
) -> tuple[dict[UUID, int], dict[UUID, int]]:
    """The memories and turns of these scopes that the line's tombstones stand for, with their scopes. Of those scopes
    that go by their name only what came later; of others all, also answers that repeated a copy.

    What was there is known by its place in the chain, in every scope of its user; what came later by its words and its
    source too, as a commit would be.
    """
    content_key, there = await asking.keys.content_key(line.tenant), frozenset(line.tombstones)

    def is_marked(turn: GoneTurn) -> bool:
        later = turn.came > line.at
        if turn.scope_id in by_name and not later:
            return False
        marks = turn_digests(content_key, of[turn.scope_id].user, turn.content, turn.names, turn.chain)
        return not there.isdisjoint(marks if later else marks[:1])

    memories: dict[UUID, int] = {}
    turns: dict[UUID, int] = {}
    async for some in asking.store.own_ids(line.tenant, list(of)):
        asked = {one: scope_id for one, scope_id, since in some if scope_id not in by_name or since > line.at}
        memories |= {one: at for one, at in asked.items() if ("memory", _of_memory(content_key, one)) in there}
    async for page in asking.store.turns(line.tenant, list(of), [], [], list(of)):
        turns |= {one.event_id: one.scope_id for one in page if is_marked(one)}
    return memories, turns


def _of_memory(content_key: bytes, memory_id: UUID) -> bytes:
    return digest(content_key, "memory", str(memory_id))
