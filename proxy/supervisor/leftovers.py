"""What a killed supervisor left running: (data directory) -> nothing of it runs any more.

Two records are read: DIR/run/children.json, which we keep, and Postgres' own postmaster.pid. A process is taken for
ours only if it is the very one: its start time (record) or its command line (postmaster.pid) must agree, since numbers
come round again after a restart of the machine or container. Call it with the data directory claimed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path

from memory.errors import StartFailed
from proxy.supervisor.data_dir import DataDir
from proxy.supervisor.journal import Journal

WORKER_PATIENCE_S = 10.0
POSTGRES_PATIENCE_S = 30.0
KILL_PATIENCE_S = 5.0
POLL_S = 0.05
SOCKET_LOCK = ".s.PGSQL.5432.lock"


class Record:
    """DIR/run/children.json: the process id of every child with its start time, rewritten at each change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._children: dict[int, str] = {}

    def add(self, pid: int) -> None:
        """Remember a child that has just started."""
        started = started_at(pid)
        if started is not None:
            self._children[pid] = started
            self._write()

    def discard(self, pid: int) -> None:
        """Forget a child that has ended."""
        if self._children.pop(pid, None) is not None:
            self._write()

    def _write(self) -> None:
        scratch = self.path.with_suffix(".tmp")
        with suppress(OSError):  # a full disk costs the record, never the service
            scratch.write_text(json.dumps({str(pid): started for pid, started in self._children.items()}))
            scratch.replace(self.path)


async def stop_leftovers(data: DataDir, journal: Journal) -> None:
    """Stop what an earlier supervisor of this directory left. Raises StartFailed when something will not end."""
    pids = {pid for pid, started in _recorded(data.run / "children.json").items() if started_at(pid) == started}
    postmaster = _postmaster(data.pg)
    pids.discard(postmaster or 0)
    if pids:
        journal.note("leftovers", level="warning", text="stopping processes of a killed supervisor", pids=sorted(pids))
        await _end(pids, (signal.SIGTERM, WORKER_PATIENCE_S))
    if postmaster is not None:
        journal.note("leftovers", level="warning", text="stopping Postgres of a killed supervisor", pids=[postmaster])
        await _end({postmaster}, (signal.SIGINT, POSTGRES_PATIENCE_S), (signal.SIGQUIT, KILL_PATIENCE_S))
    if backends := _backends(data.pg):
        journal.note("leftovers", level="warning", text="stopping what a killed Postgres left", pids=sorted(backends))
        await _end(backends, (signal.SIGQUIT, KILL_PATIENCE_S))
    # No Postgres of ours runs; Postgres itself would refuse, if another process had the number in these files now.
    for stale in (data.pg / "postmaster.pid", data.pg_sockets / SOCKET_LOCK):
        stale.unlink(missing_ok=True)


def quit_backends(pg: Path) -> None:
    """Have what a postmaster that has ended left at work end too, so that the next one starts."""
    for pid in _backends(pg):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGQUIT)


def buried(ended: Set[int]) -> set[int]:
    """Wait for those of `ended` that still lie there, and return who does now. What lost its parent is the child of
    process 1, which we are in a container, and nobody else waits for it; of ours none lies for long.
    """
    lie = {pid for pid in _processes() if _lies_here(pid)}
    for pid in lie & ended:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return lie - ended


def _lies_here(pid: int) -> bool:
    """Whether it has ended as a child of this process."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return False
    return state == "Z" and int(parent) == os.getpid()


def started_at(pid: int) -> str | None:
    """When a process was started, in the system's own terms; None when it has ended."""
    if sys.platform != "linux":
        return _ps(pid, "lstart=")
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if after_name[0] in "ZX" else f"{boot} {after_name[19]}"


def command_line(pid: int) -> str:
    """The words of a process' command line; "" when it has ended."""
    if sys.platform != "linux":
        return _ps(pid, "command=") or ""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _ps(pid: int, column: str) -> str | None:
    shown = subprocess.run(["ps", "-p", str(pid), "-o", column], capture_output=True, text=True, check=False)
    return shown.stdout.strip() or None


def _recorded(path: Path) -> Mapping[int, str]:
    try:
        content = json.loads(path.read_text())
        return {int(pid): str(started) for pid, started in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _postmaster(pg: Path) -> int | None:
    """The process id in postmaster.pid, if a Postgres of this very directory runs under it."""
    try:
        pid = int((pg / "postmaster.pid").read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None
    line = command_line(pid)
    return pid if "postgres" in line and str(pg) in line else None


def _backends(pg: Path) -> set[int]:
    """Processes of a postmaster that was killed, at work on its files: one in a long statement hears of that at the end
    only, and no other server starts before. Where /proc tells.
    """
    return {pid for pid in _processes() if command_line(pid).startswith("postgres:") and _works_in(pid, pg)}


def _works_in(pid: int, directory: Path) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cwd").samefile(directory)
    return False


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # macOS has none
        return []


async def _end(pids: set[int], *steps: tuple[signal.Signals, float]) -> None:
    """Signal processes that are not our children and wait for their end; past the last patience SIGKILL."""
    identities = {pid: started_at(pid) for pid in pids}
    for number, patience_s in (*steps, (signal.SIGKILL, KILL_PATIENCE_S)):
        left = [pid for pid, started in identities.items() if started is not None and started_at(pid) == started]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        until = time.monotonic() + patience_s
        while left and time.monotonic() < until:
            await asyncio.sleep(POLL_S)
            left = [pid for pid in left if started_at(pid) == identities[pid]]
        if not left:
            return
    raise StartFailed(f"processes {sorted(pids)} of an earlier run do not end, even by SIGKILL: restart the machine")
