"""Checks of this machine: interpreter, limits, memory, clock, data directory, port. Nothing is changed or written.

In: the settings and where the data directory is. Out: findings. The lock of a data directory in use is seen by asking
for it (shared, and given back at once).
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import socket
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from memory.config import Settings
from memory.errors import StartFailed
from proxy.cli.checks import Finding, Findings
from proxy.supervisor.data_dir import IGNORED_WHEN_EMPTY, can_enter, server_account
from proxy.supervisor.embedded_postgres import FREE_BYTES_MIN
from proxy.supervisor.listener import REMEDIES, chosen

FREE_BYTES_WARN = 2 << 30
FREE_FILES_WARN = 10_000
OPEN_FILES_WARN = 4_096
MEMORY_BYTES_WARN = 1 << 30  # measured: Postgres 150 MiB, Valkey 20, proxy worker 200, memory worker 250
CLOCK_BACK_WARN_S = 60.0
CLOCK_FLOOR = 1_767_225_600  # 2026-01-01: older than this program
ASK_TIMEOUT_S = 3.0
PYTHON_MIN = (3, 11)


def python() -> Findings:
    """The interpreter and the package's place."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_MIN:
        return [Finding("FAIL", "python", version, "memory-proxy needs Python 3.11 or later")]
    found = f"{version}, {sys.executable}"
    if is_plain_build(sysconfig.get_config_var("CONFIG_ARGS"), sys.base_prefix):
        mend = (
            "each request costs more processor time than it need: make .venv again with `PYTHON=/usr/bin/python3`, or "
            "have pyenv build with PYTHON_CONFIGURE_OPTS='--enable-optimizations --with-lto'"
        )
        return [Finding("warn", "python", f"{found}, built without optimisation", mend)]
    return [Finding("ok", "python", found)]


def is_plain_build(options: str | None, prefix: str) -> bool:
    """Whether CPython was compiled without profiles, as pyenv does unless told (a quarter to a third slower). Debian's
    options do not say that it was compiled with them.
    """
    return bool(options) and prefix != "/usr" and "--enable-optimizations" not in (options or "")


def open_files() -> Findings:
    """How many connections this account may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES_WARN:
        room = "" if hard == resource.RLIM_INFINITY else f" (up to {hard} without root)"
        mend = f"each stream holds two: `ulimit -n 65536`{room}, or LimitNOFILE=65536 in the unit"
        return [Finding("warn", "open files", f"at most {soft}", mend)]
    return [Finding("ok", "open files", "unlimited" if soft == resource.RLIM_INFINITY else f"at most {soft}")]


def free_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> Findings:
    """What this machine, or this container, can still give."""
    free = [number for number in (_available(meminfo), _cgroup_room(cgroup)) if number is not None]
    if not free:
        return [Finding("ok", "memory", "cannot be read on this system; about 1 GiB is used")]
    if min(free) < MEMORY_BYTES_WARN:
        mend = "the whole service takes about 700 MiB: free some, raise the container's limit, or lower listen.workers"
        return [Finding("warn", "memory", f"{min(free) >> 20} MiB available", mend)]
    return [Finding("ok", "memory", f"{min(free) / (1 << 30):.1f} GiB available")]


def clock(data_dir: Path) -> Findings:
    """Whether the wall clock is plausible: not before this program was written, nor before its own last files."""
    now = time.time()
    newest = max((_changed_at(data_dir / name) for name in ("lock", "run", "logs", "master.key")), default=0.0)
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < CLOCK_FLOOR:
        return [Finding("FAIL", "clock", shown, "set the clock (`timedatectl set-ntp true`): memories are dated by it")]
    if newest - now > CLOCK_BACK_WARN_S:
        mend = "it was turned back, and new memories would be older than old ones: `timedatectl set-ntp true`"
        return [Finding("warn", "clock", f"{shown}, {newest - now:.0f} s before files in {data_dir}", mend)]
    return [Finding("ok", "clock", shown)]


def data_directory(root: Path, settings: Settings) -> Findings:
    """Whether the data directory can be used, who holds it, and what room there is."""
    findings = [_usable(root, settings), *_room(root)]
    if (holder := lock_holder(root)) is not None:
        findings.append(Finding("ok", "data directory lock", f"held by process {holder}: the service is running"))
    return findings


def lock_holder(root: Path) -> str | None:
    """The process id of the service that runs on this data directory; None: nobody does."""
    try:
        descriptor = os.open(root / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def port(settings: Settings, root: Path) -> Findings:
    """Whether the port is free, ours, or somebody else's; what a running service says of its parts."""
    host, number = settings.listen.host, settings.listen.port
    what = f"port {number}"
    if number == 0:
        return [Finding("ok", what, "any free one will be taken")]
    if _can_listen(host, number) is None:
        if lock_holder(root) is None:
            return [Finding("ok", what, f"free on {host}")]
        mend = "its port differs from this configuration: pass the same --config and --port"
        return [Finding("warn", what, f"free, though a service runs on {root}", mend)]
    base = f"http://{_local(host)}:{number}"
    if (_asked(f"{base}/memory/health") or {}).get("status") != "ok":  # many a server answers any path with JSON
        found = _can_listen(host, number) or "in use"
        mend = f"`ss -ltnp 'sport = :{number}'` (or `lsof -i :{number}`) names what listens there"
        if lock_holder(root) is not None:
            found = f"what listens there does not answer as the service that runs on {root}"
            mend = f"that one may be starting: ask again in some seconds; else {mend}"
        return [Finding("FAIL", what, f"{host}: {found}", mend)]
    running = Finding("ok", what, f"memory-proxy is running on {base}")
    if lock_holder(root) is None:
        mend = f"one with another data directory: choose another --port, or pass its --data-dir in place of {root}"
        running = Finding("warn", what, f"a memory-proxy is running on {base}", mend)
    return [running, *_running_parts(base)]


def _running_parts(base: str) -> Findings:
    answer = _asked(f"{base}/memory/ready")
    if answer is None:
        return [Finding("FAIL", "running service", f"{base}/memory/ready does not answer", "see its log")]
    status = answer.get("status")
    if status != "ok":
        parts = answer.get("dependencies", {})
        bad = "; ".join(f"{name}: {part.get('error')}" for name, part in parts.items() if not part.get("ok"))
        mend = "see the lines of these parts, and the log of `memory-proxy serve`"
        return [Finding("warn", "running service", f"{status}: {bad}", mend)]
    return [Finding("ok", "running service", "all its parts answer")]


def _usable(root: Path, settings: Settings) -> Finding:
    what = "data directory"
    step = _nearest(root)
    elsewhere = "choose another with --data-dir, or give it to the account that runs memory-proxy"
    if not step.is_dir():
        return Finding("FAIL", what, f"{step} is no directory", "choose another with --data-dir")
    if not os.access(step, os.W_OK | os.X_OK):
        return Finding("FAIL", what, f"{step} cannot be written by {_account()}", elsewhere)
    if step == root and not (root / "lock").exists():
        strangers = sorted({entry.name for entry in root.iterdir()} - IGNORED_WHEN_EMPTY)
        if strangers:
            return Finding("FAIL", what, f"{root} holds something else ({strangers[0]})", "choose an empty --data-dir")
    try:
        account = server_account() if settings.database.url is None else None
    except StartFailed as fault:
        return Finding("FAIL", what, str(fault))
    if account is not None and not can_enter(step if step != root else root.parent, account):
        found = f"{root} cannot be entered by '{account.name}', the account that Postgres runs as under root"
        return Finding("FAIL", what, found, "choose /var/lib/memory-proxy, or run memory-proxy as an ordinary user")
    return Finding("ok", what, f"{root}{'' if step == root else ' (will be made)'}, writable")


def _room(root: Path) -> Findings:
    step = _nearest(root)
    free = shutil.disk_usage(step).free
    mend = f"free some space below {step}, or choose another --data-dir"
    if free < FREE_BYTES_MIN:
        return [Finding("FAIL", "disk", f"{free >> 20} MiB free", f"Postgres cannot work: {mend}")]
    entry = os.statvfs(step)
    if entry.f_files and entry.f_favail < FREE_FILES_WARN:
        return [Finding("warn", "disk", f"{entry.f_favail} more files can be made", f"out of inodes soon: {mend}")]
    if free < FREE_BYTES_WARN:
        return [Finding("warn", "disk", f"{free >> 20} MiB free", mend)]
    return [Finding("ok", "disk", f"{free / (1 << 30):.1f} GiB free")]


def _nearest(path: Path) -> Path:
    """The path, or its first parent that exists."""
    return next(step for step in (path, *path.parents) if step.exists())


def _account() -> str:
    return f"user {os.geteuid()}"


def _can_listen(host: str, number: int) -> str | None:
    """None when the port can be bound; else why not."""
    try:
        family, kind, protocol, _, address = chosen(host, number)
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return REMEDIES.get(error.errno or 0) or error.strerror or type(error).__name__
    return None


def _local(host: str) -> str:
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 compared, not bound
    return f"[{name}]" if ":" in name else name


# Of this machine nobody asks through the proxy that HTTP_PROXY names.
_ITSELF: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _asked(url: str) -> dict[str, Any] | None:
    """The JSON object that is answered, whatever the status; None for anything else."""
    try:
        with _ITSELF.open(url, timeout=ASK_TIMEOUT_S) as answer:
            body = answer.read(1 << 20)
    except urllib.error.HTTPError as refused:
        with refused:
            body = refused.read(1 << 20)
    except (OSError, HTTPException):
        return None
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) and "status" in parsed else None


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _available(meminfo: Path) -> int | None:
    try:
        line = next(line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:"))
        return int(line.split()[1]) << 10
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _cgroup_room(cgroup: Path) -> int | None:
    """What its limit leaves; of files that were read before, the kernel takes back what is needed."""
    try:
        free = int((cgroup / "memory.max").read_text()) - int((cgroup / "memory.current").read_text())
        kinds = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return free + int(kinds.get("inactive_file", 0)) + int(kinds.get("active_file", 0))
    except (OSError, ValueError):  # no cgroup here, or "max"
        return None
