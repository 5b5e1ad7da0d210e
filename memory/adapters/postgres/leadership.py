"""One leader among many workers: a job's name and who asks in, a fencing number or None out.

A lease in the table of the lanes, by the database's clock: a leader that was killed is followed after its lease, and
what it still writes is refused by its fence (memory.adapters.postgres.leases.hold_fence). Holds no connection and no
lock between calls, so it works behind PgBouncer too. Raises StoreUnavailable.
"""

from __future__ import annotations

from memory.adapters.postgres.database import Database


class Leadership:
    """Who leads the job `job`, for the worker `holder`."""

    def __init__(self, database: Database, job: str, holder: str) -> None:
        self._database = database
        self._lane = lane_of_job(job)
        self._holder = f"{holder} {self._lane}"  # not the name under which the worker renews its lanes

    async def lead(self, ttl_s: float) -> int | None:
        """The fence under which this process leads for the next `ttl_s` seconds; None while another does."""
        async with self._database.transaction(None) as tx:
            fence: int | None = await tx.value("lead_job", self._lane, self._holder, ttl_s)
        return fence

    async def resign(self) -> None:
        """Let another lead at once."""
        async with self._database.transaction(None) as tx:
            await tx.run("release_lanes", self._holder, [self._lane])


def lane_of_job(job: str) -> str:
    """The lease's name in the table of lanes; no lane of the queue begins so."""
    return f"job:{job}"
