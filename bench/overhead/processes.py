"""Starting what is measured, and its CPU time: command lines in, running processes and CPU seconds out.

CPU time is utime + stime from /proc (or schedstat, which is finer) of a process and all that descend
from it, by kind of process, so that work on the path (`proxy`) is told from work behind it (`worker`,
`postgres`, `queue`). Linux only.
"""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp

from proxy.supervisor.children import dies_with

READY_POLL_S = 0.1
STOP_TIMEOUT_S = 40.0
LOG_TAIL_BYTES = 4000


class NotStarted(RuntimeError):
    """A process that is to be measured ended or did not become ready; the message holds the end of its log."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def started(argv: Sequence[str], log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command with its output in `log`; at the end SIGTERM, later SIGKILL, to its whole session. It is ended too
    where this process is killed.
    """
    arm = dies_with(os.getpid(), signal.SIGTERM)
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=sink, stderr=sink, start_new_session=True, preexec_fn=arm
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await process.wait()
            except TimeoutError:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


async def ended(process: asyncio.subprocess.Process, *numbers: signal.Signals, within_s: float) -> None:
    """Send these signals to a process that still runs, and kill it where it has not ended `within_s` seconds later."""
    if process.returncode is not None:
        return
    for number in numbers:
        process.send_signal(number)
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


async def wait_ready(url: str, process: asyncio.subprocess.Process, log: Path, timeout_s: float) -> None:
    """Poll until the URL answers 200. Raises NotStarted when the process ends or the time is over."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + timeout_s
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        while loop.time() < until_s and process.returncode is None:
            try:
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass  # not listening yet
            await asyncio.sleep(READY_POLL_S)
    tail = log.read_bytes()[-LOG_TAIL_BYTES:].decode("utf-8", "replace")
    raise NotStarted(f"{url} did not answer 200 (exit status {process.returncode}); end of {log}:\n{tail}")


def kind_of(command_line: str) -> str:
    """Which part of the program a process is, by its command line."""
    if "postgres" in command_line.split(" ", 1)[0]:
        return "postgres"
    if "valkey" in command_line or "redis-server" in command_line:
        return "queue"
    if "-m memory" in command_line:
        return "worker"
    return "proxy"


def process_tree(root: int) -> set[int]:
    """The process and all that descend from it; those that have just ended are left out."""
    found: set[int] = set()
    todo = [root]
    while todo:
        pid = todo.pop()
        found.add(pid)
        for listing in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                todo.extend(int(child) for child in listing.read_text().split())
            except OSError:
                continue  # the thread ended while we looked
    return found


def _finer_cpu_s(pid: int) -> float:
    """CPU seconds of the threads that live, counted in nanoseconds (utime and stime count in 10 ms)."""
    total_ns = 0
    for listing in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total_ns += int(listing.read_text().split()[0])
        except (OSError, IndexError):
            continue  # the thread ended while we looked, or the kernel keeps no such figures
    return total_ns / 1e9


class CpuMeter:
    """CPU seconds of a process tree by kind; what ended processes had used stays counted."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._seen: dict[int, tuple[str, float]] = {}
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")

    def sample(self) -> dict[str, float]:
        """CPU seconds since the processes started, by kind."""
        for pid in process_tree(self.root):
            try:
                stat = Path(f"/proc/{pid}/stat").read_text()
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue  # ended between listing and reading
            fields = stat.rpartition(")")[2].split()
            used_s = (int(fields[11]) + int(fields[12])) * self._tick_s
            self._seen[pid] = (kind_of(command), max(used_s, _finer_cpu_s(pid)))
        totals: dict[str, float] = {}
        for kind, used_s in self._seen.values():
            totals[kind] = totals.get(kind, 0.0) + used_s
        return totals


def used_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds by kind between two samples."""
    return {kind: value - before.get(kind, 0.0) for kind, value in after.items()}
