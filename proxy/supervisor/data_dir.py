"""The data directory: a path -> a claimed layout that no second supervisor can hold.

    DIR/lock        who holds it (flock; the process id is the content)
    DIR/pg          Postgres' cluster          DIR/valkey   Valkey's append-only file
    DIR/sockets     the servers' sockets       DIR/run      settings, children, metrics of this run
    DIR/logs        the servers' logs          DIR/bin-…    a copy of the server binaries, where root needs one

Run by root with the embedded Postgres, DIR and DIR/sockets are 0711, and `pg` and `sockets/pg` belong to the account
that Postgres runs as; all else is 0700, but for a DIR that is root's while we are not. Parents are never changed.
Refuses, with the remedy: a directory that is held, that is something else's (not empty, no `lock`), that cannot be
written, or that the account cannot enter.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from memory.errors import StartFailed
from proxy.supervisor.children import Account

SOCKET_PATH_BYTES_MAX = 90  # the kernel's own bound is 107 (Linux) or 103 (macOS)
LONGEST_SOCKET_NAME = "pg/.s.PGSQL.5432"
SERVER_ACCOUNT = "nobody"
LOOK_S = 0.25
# `cache`: in the image that of the models lies in the volume, and the doctor may have made it before the first start.
IGNORED_WHEN_EMPTY = frozenset({"lost+found", ".gitkeep", "cache"})


@dataclass(frozen=True, slots=True)
class DataDir:
    """The layout below a claimed root. `account`: who the embedded Postgres runs as; None: ourselves."""

    root: Path
    sockets: Path
    account: Account | None

    @property
    def pg(self) -> Path:
        return self.root / "pg"

    @property
    def pg_sockets(self) -> Path:
        return self.sockets / "pg"

    @property
    def valkey(self) -> Path:
        return self.root / "valkey"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"


def server_account() -> Account | None:
    """The account for Postgres, which refuses to run as root; None for an ordinary user. Raises StartFailed."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(SERVER_ACCOUNT)
    except KeyError as error:
        raise StartFailed(
            f"Postgres cannot run as root and there is no account '{SERVER_ACCOUNT}': create it, run memory-proxy as "
            "an ordinary user, or set database.url"
        ) from error
    return Account(SERVER_ACCOUNT, entry.pw_uid, entry.pw_gid)


@contextmanager
def claimed(root: Path, account: Account | None, environ: Mapping[str, str]) -> Iterator[DataDir]:
    """Hold the data directory, made where it is missing, until the block ends. Raises StartFailed."""
    try:
        _make_root(root, account)
    except OSError as error:
        raise StartFailed(
            f"data directory {root} cannot be made: {error.strerror} ({error.filename}); choose another with --data-dir"
        ) from error
    lock = _lock(root)
    try:
        yield _lay_out(root, account, environ)
    finally:
        os.close(lock)


@contextmanager
def written(path: Path) -> Iterator[None]:
    """What is written in the block, below this path. Raises StartFailed where it cannot be."""
    try:
        yield
    except OSError as error:
        raise StartFailed(
            f"{error.filename or path} cannot be written: {error.strerror}; free some space, give it to the account "
            "that runs memory-proxy, or choose another --data-dir"
        ) from error


def make_owned(path: Path, account: Account | None) -> None:
    """Make a directory, or take one that is there, for an account (None: ourselves) alone, 0700. Raises StartFailed."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o700)
        if account is not None:
            os.chown(path, account.uid, account.gid)
    except OSError as error:
        whose = f" for account '{account.name}'" if account else ""
        raise StartFailed(
            f"{path} cannot be prepared{whose}: {error.strerror}; choose another --data-dir, run memory-proxy as the "
            "owner of the data directory, or set database.url and redis.url"
        ) from error


def can_enter(path: Path, account: Account) -> bool:
    """Whether the account can reach a directory: by its parents' modes, and where they say no, by trying (ACLs)."""
    if _closed_parent(path, account) is None:
        return True
    try:
        tried = subprocess.run(
            ["/bin/sh", "-c", 'cd "$1"', "sh", str(path)],
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            capture_output=True,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return tried.returncode == 0


def _make_root(root: Path, account: Account | None) -> None:
    for missing in reversed([parent for parent in root.parents if not parent.exists()]):
        missing.mkdir(mode=0o755)
        missing.chmod(0o755)
    root.mkdir(mode=0o700, exist_ok=True)
    if not (root / "lock").exists():
        strangers = sorted(entry.name for entry in root.iterdir() if entry.name not in IGNORED_WHEN_EMPTY)
        if strangers:
            raise StartFailed(
                f"{root} is not empty and not a data directory of memory-proxy (found {strangers[0]}): choose an "
                "empty or new one with --data-dir"
            )
    mode, known = 0o711 if account is not None else 0o700, root.stat()
    # Kubernetes mounts a volume as root's, open to the pod's group: it stays so, and what we make in it is closed.
    is_mounted = known.st_uid == 0 != os.geteuid()
    if stat.S_IMODE(known.st_mode) != mode and not is_mounted:
        root.chmod(mode)


def _lock(root: Path) -> int:
    """An open descriptor that holds DIR/lock; it is closed by the kernel however we end."""
    path = root / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartFailed(
            f"data directory {root} cannot be written: {error.strerror}; choose another with --data-dir, or give it to "
            "the account that runs memory-proxy"
        ) from error
    try:
        _hold(descriptor)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise StartFailed(
            f"data directory {root} is in use by process {holder}: stop that one, or choose another with --data-dir"
        ) from error
    except OSError as error:
        os.close(descriptor)
        raise StartFailed(
            f"{path} cannot be locked: {error.strerror}; the data directory needs a local disk"
        ) from error
    return descriptor


def _hold(descriptor: int) -> None:
    """Lock it. Who only looks whether a service runs has it too, for a moment. Raises BlockingIOError, OSError."""
    until_s = time.monotonic() + LOOK_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.01)


def _lay_out(root: Path, account: Account | None, environ: Mapping[str, str]) -> DataDir:
    if account is not None and not can_enter(root, account):
        closed = _closed_parent(root, account) or root
        raise StartFailed(
            f"Postgres cannot run as root, so it runs as '{account.name}', and that account cannot enter {closed}: "
            "choose a --data-dir elsewhere (such as /var/lib/memory-proxy), run memory-proxy as an ordinary user, or "
            f"open the way yourself (chmod o+x {closed})"
        )
    for name in ("run", "logs", "valkey"):
        make_owned(root / name, None)
    with written(root):
        _close_to_group(root / "master.key")
        return DataDir(root, _socket_dir(root, account, environ), account)


def _close_to_group(path: Path) -> None:
    """Kubernetes opens all of a volume to the group of the pod at each mount (fsGroup), and a key that others than we
    may read is refused. One that everybody may read stays so.
    """
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) and mode & 0o070 and not mode & 0o007:
            path.chmod(0o600)


def _closed_parent(path: Path, account: Account) -> Path | None:
    """The first directory on the way that the account may not pass by its mode bits."""
    resolved = path.resolve()
    for step in reversed([resolved, *resolved.parents]):
        entry = step.stat()
        if entry.st_uid == account.uid:
            bit = stat.S_IXUSR
        elif entry.st_gid == account.gid:
            bit = stat.S_IXGRP
        else:
            bit = stat.S_IXOTH
        if not entry.st_mode & bit:
            return step
    return None


def _socket_dir(root: Path, account: Account | None, environ: Mapping[str, str]) -> Path:
    """DIR/sockets; where that is too long, has a comma, which would part two hosts in Postgres' settings and URLs, or
    its file system knows no sockets, a short directory of this DIR alone.
    """
    inside = root / "sockets"
    _open_to(inside, account)
    usable = "," not in str(inside) and len(os.fsencode(inside / LONGEST_SOCKET_NAME)) < SOCKET_PATH_BYTES_MAX
    if usable and _takes_sockets(inside):
        return inside
    # Root's run-time directory is closed to the account that Postgres runs as.
    base = environ.get("XDG_RUNTIME_DIR") if account is None else None
    key = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:12]
    for parent in (base, "/tmp"):  # noqa: S108 the name is checked for its owner below
        short = Path(parent or "/tmp") / f"memory-proxy-{os.geteuid()}-{key}"  # noqa: S108
        if len(os.fsencode(short / LONGEST_SOCKET_NAME)) < SOCKET_PATH_BYTES_MAX and short.parent.is_dir():
            _make_short(short, account)
            return short
    raise StartFailed(
        f"no place for sockets: the path of {root} is too long and /tmp is missing; use a shorter --data-dir"
    )


def _make_short(path: Path, account: Account | None) -> None:
    """Make a directory in a public place, or take it when it is ours alone. Raises StartFailed on a stranger's."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        entry = path.lstat()
    except OSError as error:
        raise StartFailed(f"{path} cannot be made: {error.strerror}; use a shorter --data-dir") from error
    if not stat.S_ISDIR(entry.st_mode) or entry.st_uid != os.geteuid():
        raise StartFailed(f"{path} belongs to somebody else: remove it, or use a shorter --data-dir")
    _open_to(path, account)


def _open_to(path: Path, account: Account | None) -> None:
    """A directory of ours that the account may pass, and its own `pg` inside."""
    make_owned(path, None)
    if account is not None:
        path.chmod(0o711)
    make_owned(path / "pg", account)


def _takes_sockets(directory: Path) -> bool:
    with tempfile.TemporaryDirectory(prefix=".", dir=directory) as scratch, socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(os.path.join(scratch, "s"))
        except OSError as error:
            # A path that is only too long for this probe says nothing on the file system.
            return "too long" in str(error)
    return True
