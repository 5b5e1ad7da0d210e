"""What runs beside the lanes of a worker: jobs by name in, each kept going on its own until the body ends.

Each is meant to go on for ever and handles the faults it knows. One that fails in another way is logged with its
reason, counted as `unforeseen`, and begins anew: after a second at first, then after longer, `REST_S_MAX` at most. The
others go on meanwhile. One that fails while it is ended has ended. Raises nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final

from memory.telemetry import Metrics

log: Final = logging.getLogger("memory_proxy.memory")
REST_S: Final = 1.0
REST_S_MAX: Final = 300.0
_CALM_S: Final = 600.0  # one that went well for so long is as good as new

Job = Callable[[], Coroutine[Any, Any, None]]


@contextlib.asynccontextmanager
async def beside(named: Mapping[str, Job], metrics: Metrics) -> AsyncIterator[None]:
    """Run these while the body runs."""
    tasks = [asyncio.create_task(kept_going(name, job, metrics), name=name) for name, job in named.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def kept_going(name: str, job: Job, metrics: Metrics) -> None:
    """Run one until it returns, begun anew whenever it fails in an unforeseen way."""
    loop, rest_s = asyncio.get_running_loop(), REST_S
    while True:
        began_s = loop.time()
        try:
            return await job()
        except Exception:  # the other half of the worker loop, one of the three named places
            rest_s = REST_S if loop.time() - began_s > _CALM_S else rest_s
            metrics.work.labels("unforeseen").inc()
            if _is_ended():  # its fault has taken the place of the cancellation
                log.exception("%s failed in an unforeseen way while it was ended", name)
                return None
            log.exception("%s failed in an unforeseen way; it begins anew in %.0f s", name, rest_s)
        await asyncio.sleep(rest_s)
        rest_s = min(rest_s * 2, REST_S_MAX)


def _is_ended() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
