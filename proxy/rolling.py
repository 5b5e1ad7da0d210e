"""Following a switch of the embedding model: a process has one model for life, so its successor gets the other.

A proxy worker that sees another generation notes the served model and asks the supervisor to replace the proxy workers
(SIGHUP: one by one, each successor ready before its predecessor drains). So no question is ever embedded with one model
and compared with vectors of the other, and no stream is cut. One of several workers asks; again while it is not heard.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memory.errors import StoreUnavailable
from memory.serving import ASK_EVERY_S, Serving, StoredModel, until_moved, write_note
from memory.telemetry import event

log = logging.getLogger("memory_proxy.rolling")
AGAIN_S: Final = 30.0
CLAIM_S: Final = 900.0
"""How long an ask stands: a roll drains one worker after the other, and the supervisor keeps what it was asked."""
_CLAIM: Final = "rolled-to-"


@dataclass(frozen=True, slots=True)
class Follower:
    """What a proxy worker follows. `parent`: the supervisor's process id, 0 where there is none. `loads`: whether a
    model's files are on this machine.
    """

    run: Path
    table: str
    serving: Callable[[], Awaitable[Serving | None]]
    generation: Callable[[], Awaitable[int | None]]
    parent: int
    loads: Callable[[StoredModel], bool]

    async def follow(self) -> None:
        """Ask to be replaced once another model, or another state of it, is served; for ever: one ask may be missed."""
        begun: int | None = None
        while True:
            with contextlib.suppress(StoreUnavailable):
                found = await self.serving()
                if found is not None and (found.model.table != self.table or begun not in (None, found.generation)):
                    # Where the other model is not on this machine, or cannot be noted for the successor since the disk
                    # is full, the former one goes on answering.
                    if await asyncio.to_thread(self.loads, found.model) and write_note(self.run, found.model):
                        self._ask(found.generation)
                    await asyncio.sleep(AGAIN_S)
                elif found is not None:
                    begun = found.generation
                    await until_moved(self.generation, begun)
                    continue
            await asyncio.sleep(ASK_EVERY_S)

    def _ask(self, generation: int) -> None:
        if self.parent == 0 or os.getppid() != self.parent:
            event(log, "restart_me", logging.WARNING, reason="another embedding model is served")
        elif _claimed(self.run, generation):
            event(log, "asking_for_a_roll", generation=generation)
            os.kill(self.parent, signal.SIGHUP)


def supervisor_of(environ: Mapping[str, str]) -> int:
    """The process that started this one as one of its workers; 0: nobody replaces it."""
    return os.getppid() if "MEMORY_PROXY_SLOT" in environ else 0


def _claimed(run: Path, generation: int) -> bool:
    """Whether this worker is the one that asks: the first, or any once that is long ago."""
    claim = run / f"{_CLAIM}{generation}"
    try:
        for old in run.glob(f"{_CLAIM}*"):
            if old != claim:
                old.unlink(missing_ok=True)
        claim.touch(exist_ok=False)
    except FileExistsError:
        return _taken_over(claim)
    except OSError as fault:
        event(log, "no_claim", logging.WARNING, fault=str(fault))
    return True


def _taken_over(claim: Path) -> bool:
    """Whether it was long ago that another asked. One that is gone by now has given way to that of a later switch."""
    try:
        if abs(time.time() - claim.stat().st_mtime) < CLAIM_S:  # a clock that was turned back holds nothing up
            return False
        os.utime(claim)
    except FileNotFoundError:
        return False
    return True
