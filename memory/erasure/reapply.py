"""A database that was restored from an older copy: the journal in, what was erased since taken out again.

The journal knows HMACs only, so the names, conversations and turns of the store are held against them, as commits are.
What is found goes by the same steps as ever, under the erasure's own id, as far as taking away; making anew, the probe
and the receipt are a worker's, which finds the job. Each line is gone through once: one that nothing is there of is
written down as ended, or it would meet who comes back at a later start. Raises what the steps raise: then the service
is not ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Literal
from uuid import UUID

from memory.erasure import journal
from memory.erasure.asking import Asking
from memory.erasure.job import Erasing
from memory.erasure.loop import Leads, leading
from memory.erasure.model import Target
from memory.errors import LeaseLost
from memory.model import Scope
from memory.telemetry import event
from memory.write.tombstones import digest, session_digest, turn_digests

log: Final = logging.getLogger("memory_proxy.erasure")


async def reapply(erasing: Erasing, asking: Asking, leader: Leads) -> int:
    """Take out what every line of the journal says that the store does not know of. How many lines that were."""
    parts = erasing.parts
    lines = await asyncio.to_thread(lambda: list(journal.entries(parts.journal)))
    missing = [line for line in lines if await _is_missing(asking, line)]
    if not missing:
        return 0
    async with leading(leader) as fence:
        if fence is None:
            raise LeaseLost("another process goes through with erasures")
        for line in missing:
            await _take_out(erasing, asking, line, fence)
    event(log, "erased_again", logging.WARNING, erasures=len(missing))
    return len(missing)


async def _is_missing(asking: Asking, line: journal.Entry) -> bool:
    """Whether the store does not know of it, or was not done with taking it away when its process or its copy ended."""
    if not await asking.store.knows_tenant(line.tenant):
        return False  # another store's journal
    job = await asking.job(line.tenant, line.erasure)
    return job is None or job.step in ("asked", "marked")


async def _take_out(erasing: Erasing, asking: Asking, line: journal.Entry, fence: int) -> None:
    """One line. The tombstones first: a job that is begun is not looked for again."""
    await asking.store.keep_tombstones(line.tenant, line.tombstones, line.at)
    if await asking.job(line.tenant, line.erasure) is None:
        targets = await _targets(erasing, asking, line)
        if not targets:
            await asking.note_done(line, erasing.parts.clock())
            return
        await asking.ask_again(targets[0], line)
    await erasing.run(line.tenant, line.erasure, fence, removal_only=True)


async def _targets(erasing: Erasing, asking: Asking, line: journal.Entry) -> Sequence[Target]:
    """What in this store the line means; one target, since an erasure has one."""
    store, keys = asking.store, erasing.parts.keys
    content_key = await keys.content_key(line.tenant)
    scopes = await store.scopes(line.tenant)
    if line.kind in ("user", "project"):
        kind: Literal["user", "project"] = "user" if line.kind == "user" else "project"
        names = {one.user if kind == "user" else one.project: one for one in scopes}
        for name, one in names.items():
            if digest(content_key, kind, name) == line.digest:
                return [Target(kind, name, Scope(line.tenant, one.user, one.project, one.agent))]
        return []
    everything = [one.scope_id for one in scopes]
    of = {one.scope_id: Scope(line.tenant, one.user, one.project, one.agent) for one in scopes}
    if line.kind == "session":
        for _, scope_id, label in await store.labels(line.tenant, everything):
            if session_digest(content_key, of[scope_id], label) == line.digest:
                return [Target("session", label, of[scope_id])]
        return []
    return await _by_turns(asking, line, content_key, everything, of)


async def _by_turns(
    asking: Asking, line: journal.Entry, content_key: bytes, everything: Sequence[int], of: dict[int, Scope]
) -> Sequence[Target]:
    """A memory, a source or a query: the memories made of the turns that went, by their places in the chain."""
    chains = {value for kind, value in line.tombstones if kind == "chain"}
    gone: dict[int, list[UUID]] = {}
    async for page in asking.store.turns(line.tenant, everything, [], [], everything):
        for one in page:
            marks = turn_digests(content_key, of[one.scope_id].user, one.content, one.source_id, one.chain)
            if marks[0][1] in chains:
                gone.setdefault(one.scope_id, []).append(one.event_id)
    return [Target("query", "", of[scope_id], (), tuple(events)) for scope_id, events in gone.items()][:1]
