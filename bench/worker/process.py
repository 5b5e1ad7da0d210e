"""`python -m bench.worker.process FILE`: a memory worker with a stop-watch around each part of its write path.

Reads the resolved settings as the product's worker does (MEMORY_PROXY_SETTINGS), works on the lanes until SIGTERM and
then writes to FILE what it took: CPU seconds by step and of the whole process from the first entry to the last, and how
many entries. Beside the lanes it does nothing (no episodes, hygiene, consolidation): those are not what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from bench.worker.steps import DOCUMENT_THREAD, StepClock, thread_cpu_s, timed_parts
from memory.adapters.postgres.leases import Leases
from memory.adapters.redis_queue import lane_names
from memory.config import Settings, settings_from_environ
from memory.ports import Delivery
from memory.step_back import step_back
from memory.telemetry import Metrics, configure_logging
from memory.wiring import opened, write_path
from memory.write.deliveries import Deliveries
from memory.write.pipeline import WritePath
from memory.write.worker import Outcome, Stored, run_worker


@dataclass(slots=True)
class Span:
    """From the first entry taken to the last one stored. Mutable."""

    entries: int = 0
    began: tuple[float, float, float] | None = None
    ended: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def as_json(self) -> dict[str, Any]:
        """Seconds of the clock, of the process's CPU, and of the embedder's thread."""
        wall_s, cpu_s, embed_s = (end - begin for end, begin in zip(self.ended, self.began or self.ended, strict=True))
        return {"entries": self.entries, "wall_s": wall_s, "cpu_s": cpu_s, "embed_thread_s": embed_s}


@dataclass(slots=True)
class Watched:
    """Deliveries, with the span over all of them."""

    inner: Deliveries
    span: Span = field(default_factory=Span)

    async def handle(self, lane: str, fence: int, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Store them, and note when."""
        if self.span.began is None:
            self.span.began = _now()
        outcomes = await self.inner.handle(lane, fence, deliveries)
        self.span.entries += sum(isinstance(outcome, Stored) for outcome in outcomes)
        self.span.ended = _now()
        return outcomes


def _now() -> tuple[float, float, float]:
    return time.monotonic(), time.process_time(), thread_cpu_s(DOCUMENT_THREAD)


async def work(settings: Settings, out: Path) -> None:
    """Until SIGTERM."""
    step_back()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    clock = StepClock()
    async with contextlib.AsyncExitStack() as closing:
        shared = await opened(settings, closing, Metrics(), stop)
        if shared is None:
            return
        watched = Watched(Deliveries(WritePath(timed_parts(write_path(shared).parts, clock))))
        await run_worker(
            shared.queue,
            Leases(shared.database),
            watched.handle,
            holder=f"{shared.holder}-bench",
            lanes=lane_names(settings.queue.lanes),
            batch_max=settings.worker.batch_max,
            bulk_share_min=settings.worker.bulk_share_min,
            attempts_max=settings.queue.attempts_max,
            stop=stop,
        )
        steps = {name: spent_ns / 1e9 for name, spent_ns in clock.spent_ns.items()}
        took = {**watched.span.as_json(), "steps_s": steps, "calls": dict(clock.calls)}
    out.write_text(json.dumps(took))


def main() -> int:
    """Entry point."""
    settings = settings_from_environ(os.environ)
    configure_logging(settings.log.level, settings.log.format)
    uvloop.run(work(settings, Path(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
