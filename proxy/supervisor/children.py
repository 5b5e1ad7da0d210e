"""Child processes: a Command -> a Child that can be awaited, signalled, and does not outlive the supervisor.

On Linux the kernel sends a child its `death_signal` when the supervisor dies, `kill -9` included; elsewhere leftovers
are found at the next start (`leftovers.py`). Every child leads a session of its own, so that Ctrl-C at a terminal
reaches the supervisor alone and the order of stopping is kept. Waiting needs no thread and no particular event loop;
it uses asyncio.timeout throughout, since asyncio.wait_for of Python 3.11 can swallow a cancellation.
Refuses a command that cannot be executed with StartFailed.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from memory.errors import StartFailed

PR_SET_PDEATHSIG = 1
POLL_S = 0.02
TOLD_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Account:
    """An account of the operating system that a child runs as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute. `account` None is ours; `log` None is our standard error; `fds` are inherited."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    account: Account | None = None
    cwd: Path | None = None
    death_signal: signal.Signals = signal.SIGTERM
    fds: tuple[int, ...] = ()
    log: Path | None = None


class Child:
    """A running command."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes]) -> None:
        self.command = command
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; a child that is gone already is no error."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        while (code := self.code) is None:
            await until_exit(self.pid)
        return code

    async def stop(self, *steps: tuple[signal.Signals, float]) -> int:
        """Send each signal and wait its seconds for the end; past the last, SIGKILL. Returns the exit code."""
        for number, patience_s in steps:
            self.send(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    return await self.wait()
        self.send(signal.SIGKILL)
        return await self.wait()


def start(command: Command) -> Child:
    """Start a command from the main thread (the kernel binds the death signal to the thread that starts the child)."""
    account = command.account
    output = _output(command.log)
    try:
        process = subprocess.Popen(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=command.fds,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            preexec_fn=dies_with(os.getpid(), command.death_signal),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise StartFailed(f"{command.name}: cannot execute {command.argv[0]}: {error}") from error
    finally:
        if command.log is not None:
            os.close(output)
    return Child(command, process)


async def run_to_end(command: Command, patience_s: float | None = None) -> int:
    """Run a command to its end: the exit code. Cancelled or past `patience_s` (TimeoutError), it is told to end, as it
    may have started others, and soon killed.
    """
    child = start(command)
    try:
        async with asyncio.timeout(patience_s):
            return await child.wait()
    finally:
        try:
            if child.code is None:
                await child.stop((signal.SIGTERM, TOLD_PATIENCE_S))
        finally:
            child.send(signal.SIGKILL)


async def until_exit(pid: int) -> None:
    """Return when the process has ended (or a short while has passed, where the kernel cannot tell)."""
    descriptor = _pidfd(pid)
    if descriptor is None:
        await asyncio.sleep(POLL_S)
        return
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _resolve, ended)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def describe_exit(code: int) -> str:
    """An exit code in words: `exit code 1`, `killed by SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def log_tail(path: Path, lines_max: int = 12) -> str:
    """The last lines of a log, for an error text; "" where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines_max:])
    except OSError:
        return ""


def bound_log(path: Path, bytes_max: int) -> None:
    """Keep a log that a child appends to below about twice the bound: its content moves to `.1`, the file restarts."""
    with suppress(OSError):
        if path.stat().st_size > bytes_max:
            copy = path.with_name(f"{path.name}.1")
            copy.write_bytes(path.read_bytes())
            copy.chmod(0o600)
            os.truncate(path, 0)


def _output(log: Path | None) -> int:
    if log is None:
        return sys.__stderr__.fileno() if sys.__stderr__ is not None else subprocess.DEVNULL
    try:
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartFailed(f"{log}: cannot be written: {error.strerror}") from error


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _pidfd(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def dies_with(parent: int, number: signal.Signals) -> Callable[[], None] | None:
    """What the child runs between fork and exec, after it changed its account (which clears the death signal)."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arm() -> None:
        prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # the supervisor died in between

    return arm
