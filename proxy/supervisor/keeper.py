"""Keepers: a child that dies is started again, with a pause that doubles up to 5 s and a line that says why.

A child may say when it serves, and when it has all it serves with: it writes a byte each time to the pipe named by
MEMORY_PROXY_READY_FD. One that is silent is taken to serve, with all of it, once it has lived for `READY_SILENT_S`,
unless it is known to speak: on a busy machine a proxy worker takes longer than that to begin. One that closes the pipe
behind the first byte has all at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from memory.errors import REFUSED, StartFailed
from proxy.supervisor.children import Child, Command, describe_exit, start
from proxy.supervisor.journal import Journal

PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 5.0
STEADY_S = 10.0
READY_SILENT_S = 10.0
READY_FD = "MEMORY_PROXY_READY_FD"


class Keeper:
    """Keeps one command running until it is stopped. `began` and `ended` are told the process id."""

    def __init__(
        self,
        command: Command,
        journal: Journal,
        *,
        began: Callable[[Child], None] = lambda child: None,
        ended: Callable[[int], None] = lambda pid: None,
        env_now: Callable[[], Mapping[str, str]] = dict,
        speaks: bool = False,
    ) -> None:
        """`env_now`: what is said to a life that begins. `speaks`: it says when it serves, however long that takes."""
        self.command = command
        self.serving = asyncio.Event()
        self.complete = asyncio.Event()
        self.deaths = 0
        self.refusals = 0
        self.has_served = False
        self._journal = journal
        self._env_now = env_now
        self._speaks = speaks
        self._began = began
        self._ended = ended
        self._stopping = asyncio.Event()
        self._child: Child | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def child(self) -> Child | None:
        """The running child; None between two lives."""
        return self._child

    def start(self) -> None:
        """Begin. Call once, from the event loop."""
        self._task = asyncio.create_task(self._keep(), name=f"keep {self.command.name}")

    async def until_serving(self, patience_s: float) -> bool:
        """Whether it serves within so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self.serving.wait()
        return self.serving.is_set()

    async def stop(self, *steps: tuple[signal.Signals, float], hurry: asyncio.Event | None = None) -> None:
        """Stop for good: each signal with its seconds of patience, then SIGKILL; `hurry` skips the patience."""
        self._stopping.set()
        if self._child is not None:
            await _stop_or_hurry(self._child, steps, hurry)
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()

    async def _keep(self) -> None:
        pause_s = PAUSE_FIRST_S
        while not self._stopping.is_set():
            began = time.monotonic()
            reason = await self._live()
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STEADY_S:
                pause_s = PAUSE_FIRST_S
            self.deaths += 1
            self._journal.note("died", level="warning", child=self.command.name, reason=reason, restart_in_s=pause_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    async def _live(self) -> str:
        """One life of the child; returns why it ended."""
        try:
            reader, writer = os.pipe()
        except OSError as error:
            return f"no pipe can be had: {error.strerror}"
        command = dataclasses.replace(
            self.command,
            env={**self.command.env, **self._env_now(), READY_FD: str(writer)},
            fds=(*self.command.fds, writer),
        )
        try:
            child = start(command)
        except StartFailed as error:
            os.close(reader)
            return str(error)
        finally:
            os.close(writer)
        self._child = child
        self._began(child)
        watch = asyncio.create_task(self._watch(reader))
        try:
            code = await child.wait()
            self.refusals += code == REFUSED
            return describe_exit(code)
        finally:
            self._child = None
            self.serving.clear()
            self.complete.clear()
            watch.cancel()
            await asyncio.wait([watch])
            os.close(reader)  # not by the watch: of a child that is dead at once that never began
            self._ended(child.pid)

    async def _watch(self, reader: int) -> None:
        """Set `serving` and `complete` on the child's bytes, or after a while without any."""
        said = None
        with suppress(TimeoutError):
            async with asyncio.timeout(None if self._speaks else READY_SILENT_S):
                said = await _read(reader)
        if said == b"" and self._speaks:
            return  # it ends
        if said == b"":
            await asyncio.sleep(READY_SILENT_S)  # the pipe was closed without a word
        self.has_served = True
        self.serving.set()
        if said:
            await _read(reader)
        self.complete.set()


async def _read(reader: int) -> bytes:
    """The next byte of a pipe; none where it was closed."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_reader(reader, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_reader(reader)
    return os.read(reader, 1)


async def _stop_or_hurry(
    child: Child, steps: tuple[tuple[signal.Signals, float], ...], hurry: asyncio.Event | None
) -> None:
    """Stop patiently; once `hurry` is set, give the last signal again, 2 s, then SIGKILL."""
    patient = asyncio.create_task(child.stop(*steps))
    hurried = asyncio.create_task((hurry or asyncio.Event()).wait())
    try:
        await asyncio.wait([patient, hurried], return_when=asyncio.FIRST_COMPLETED)
        if not patient.done():
            patient.cancel()
            await asyncio.wait([patient])
            await child.stop((steps[-1][0], 2.0))
    finally:
        hurried.cancel()
        await asyncio.wait([hurried])
