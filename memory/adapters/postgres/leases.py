"""Leases of queue lanes: a worker asks, and is told which lanes are its own and under which fence.

Each worker gets its share, lanes divided by workers alive, rounded up; a worker that has more gives back at its next
`acquire`. Times are the database's, so clocks of several machines need not agree. A fence rises at every change of
holder and is compared inside the commit, so a worker that lost a lane stores nothing. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory.adapters.postgres.database import Database, Transaction
from memory.errors import LeaseLost

# One division of the lanes at a time: what a worker that vanished has locked must not outlive a lease by much.
WITHIN_MS: Final = 10_000


class Leases:
    """The lanes of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def acquire(self, holder: str, want: Sequence[str], ttl_s: float) -> dict[str, int]:
        """Beat, keep or take this worker's share of `want`, and return {lane: fence} of all it now holds of them.

        A lane that is committed to in this moment stays with whoever holds it, and is not waited for.
        """
        async with self._database.transaction(None, within_ms=WITHIN_MS) as tx:
            await tx.value("lock_lanes")
            await tx.run("beat", holder, ttl_s)
            await tx.run("forget_dead_workers")
            alive: int = await tx.value("workers_alive", ttl_s)
            share = -(-len(want) // max(alive, 1))
            now = {row["lane"]: row for row in await tx.fetch("lanes_now", list(want), ttl_s)}
            mine = _held_by(holder, want, now)
            if len(mine) == share or (len(mine) < share and all(_is_held(now, lane) for lane in want)):
                return mine  # its word keeps them: no row need be locked or written
            idle = {row["lane"] for row in await tx.fetch("lock_free_lanes", list(want))}
            now = {row["lane"]: row for row in await tx.fetch("lanes_now", list(want), ttl_s)}
            mine = _held_by(holder, want, now)
            busy = {lane: fence for lane, fence in mine.items() if lane not in idle}
            kept = [lane for lane in mine if lane in idle]
            room = max(share - len(busy), 0)
            await tx.run("release_lanes", holder, kept[room:])
            free = [lane for lane in want if not _is_held(now, lane) and (lane in idle or lane not in now)]
            lanes = [*kept[:room], *free][:room]
            taken = await tx.fetch_many("take_lane", [(lane, holder, ttl_s) for lane in lanes])
        return busy | {row["lane"]: row["fence"] for row in taken}

    async def renew(self, holder: str, ttl_s: float) -> dict[str, int]:
        """Beat and prolong everything still held; returns {lane: fence}. What is missing was lost."""
        async with self._database.transaction(None, within_ms=WITHIN_MS) as tx:
            await tx.run("beat", holder, ttl_s)
            return {row["lane"]: row["fence"] for row in await tx.fetch("renew_lanes", holder, ttl_s)}

    async def release(self, holder: str, lanes: Sequence[str] | None = None) -> None:
        """Give lanes back; None gives back all and says good-bye."""
        async with self._database.transaction(None, within_ms=WITHIN_MS) as tx:
            if lanes is None:
                lanes = [row["lane"] for row in await tx.fetch("renew_lanes", holder, 0.0)]
                await tx.run("retire_worker", holder)
            await tx.run("release_lanes", holder, list(lanes))


def _is_held(now: Mapping[str, Any], lane: str) -> bool:
    return lane in now and bool(now[lane]["live"])


def _held_by(holder: str, want: Sequence[str], now: Mapping[str, Any]) -> dict[str, int]:
    """{lane: fence} of what this worker holds of `want`."""
    return {lane: int(now[lane]["fence"]) for lane in want if _is_held(now, lane) and now[lane]["holder"] == holder}


async def hold_fence(tx: Transaction, lane: str, fence: int) -> None:
    """Keep the lane from changing hands until the transaction ends. Raises LeaseLost when it has already."""
    found = await tx.value("hold_fence", lane)
    if found != fence:
        raise LeaseLost(f"lane {lane} is at fence {found}, this worker's was {fence}")
