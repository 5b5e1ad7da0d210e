"""The embedded Postgres 18: a claimed data directory -> a cluster, a command line, a URL, and whether it is ready.

The cluster is made once, beside its place, and renamed when complete, so that a kill in the middle leaves nothing half.
It listens on a socket in a private directory only; `peer` lets in the account that runs memory-proxy, under any role.
Its log never holds content: no statements, no parameters, no row details.
Refuses a cluster of another major version and a disk without room, with the remedy.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from memory.errors import StartFailed
from proxy.supervisor.children import Command, log_tail, run_to_end
from proxy.supervisor.data_dir import DataDir, make_owned

MAJOR = "18"
PORT = 5432  # of the name of its socket
DATABASE = "memory_proxy"
OWNER = "mp_owner"
APP = "mp_app"
FREE_BYTES_MIN = 268_435_456  # initdb writes about 60 MiB; the rest is for the first WAL files and the schema
CONNECTIONS_MIN = 60
SHARED_BYTES_MIN = 402_653_184
# Fast shutdown: sessions are cut, a checkpoint is written. Past its patience, immediate: the next start recovers.
STOP = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0))

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "128MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_level": "replica",
    "wal_compression": "on",
    "min_wal_size": "80MB",
    "max_wal_size": "1GB",
    "random_page_cost": "1.1",
    "jit": "off",
    "io_method": "sync",
    "max_parallel_workers_per_gather": "0",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] ",
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "log_statement": "none",
    "cluster_name": "memory_proxy",
}


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """Where everything of it is."""

    data: DataDir
    programs: Path
    connections_max: int = CONNECTIONS_MIN

    @property
    def log(self) -> Path:
        """The server's log; bounded by the supervisor."""
        return self.data.logs / "postgres.log"

    def url(self, role: str) -> str:
        """How a role connects: `postgresql://mp_app@/memory_proxy?host=…`."""
        return postgres_url(self.data, role)

    def command(self) -> Command:
        """The server in the foreground."""
        settings = {
            **SETTINGS,
            **_parallel_builds(),
            "max_connections": str(self.connections_max),
            "unix_socket_directories": str(self.data.pg_sockets),
            "hba_file": str(self.data.pg / "pg_hba.conf"),
            "ident_file": str(self.data.pg / "pg_ident.conf"),
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return self._command("postgres", str(self.programs / "postgres"), "-D", str(self.data.pg), *options)

    async def prepare(self) -> None:
        """Make the cluster where there is none, check its version, write who may connect. Raises StartFailed."""
        if cluster_version(self.data.pg) is None:
            await self._initialise()
        require_version(self.data.pg)
        make_owned(self.data.pg, self.data.account)  # Postgres refuses one that a volume's fsGroup has opened
        self._write_access(self.data.pg)

    def is_ready(self, pid: int) -> bool:
        """Whether the server with this process id takes connections (the last line of its postmaster.pid)."""
        try:
            lines = (self.data.pg / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"

    def failure(self) -> str:
        """Why it does not start: the end of its log, with a remedy where we know one."""
        tail = log_tail(self.log)
        return f"Postgres does not start.{_remedy(tail, self.data.root)}\n{tail}"

    async def _initialise(self) -> None:
        free = shutil.disk_usage(self.data.root).free
        if free < FREE_BYTES_MIN:
            raise StartFailed(
                f"{self.data.root} has {free >> 20} MiB free and Postgres needs {FREE_BYTES_MIN >> 20} MiB to begin: "
                "free some space, or choose another --data-dir"
            )
        if self.data.pg.exists() and any(self.data.pg.iterdir()):
            raise StartFailed(f"{self.data.pg} is not empty and no Postgres cluster: move it away")
        scratch = self.data.root / "pg.new"
        shutil.rmtree(scratch, ignore_errors=True)
        make_owned(scratch, self.data.account)
        initdb = str(self.programs / "initdb")
        await self._run(
            "initdb",
            initdb,
            *("-D", str(scratch), "-U", OWNER, "-E", "UTF8", "--auth=peer", "--no-instructions", "--no-sync"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C.UTF-8"),
        )
        # Single-user mode: the database is there before the server ever listens.
        statement = scratch / "create.sql"
        statement.write_text(f"CREATE DATABASE {DATABASE} OWNER {OWNER}\n")
        statement.chmod(0o644)
        await self._run(
            "postgres --single",
            "/bin/sh",
            *("-c", 'exec "$1" --single -F -D "$2" -c io_method=sync postgres < "$3"', "sh"),
            *(str(self.programs / "postgres"), str(scratch), str(statement)),
        )
        statement.unlink()
        # One pass in place of three; by file system where the kernel can: 0.04 s against 3.8 s file by file.
        method = "syncfs" if sys.platform == "linux" else "fsync"
        await self._run("initdb --sync-only", initdb, "-D", str(scratch), "--sync-only", f"--sync-method={method}")
        if self.data.pg.exists():
            self.data.pg.rmdir()
        scratch.rename(self.data.pg)
        _sync_directory(self.data.root)

    async def _run(self, name: str, *argv: str) -> None:
        log = self.data.logs / "postgres-init.log"
        log.unlink(missing_ok=True)
        code = await run_to_end(self._command(name, *argv, log=log))
        tail = log_tail(log)
        # Single-user mode ends with 0 whatever its statements met.
        if code != 0 or "ERROR:" in tail or "FATAL:" in tail:
            raise StartFailed(f"{name} failed in {self.data.root}.{_remedy(tail, self.data.root)}\n{tail}")

    def _command(self, name: str, *argv: str, log: Path | None = None) -> Command:
        # A bare environment: PGDATA, PGOPTIONS or LD_PRELOAD of the caller's shell mean some other server.
        env = {"PATH": os.defpath, "LC_ALL": "C"}
        return Command(
            name,
            argv,
            env,
            account=self.data.account,
            cwd=self.data.root,
            death_signal=signal.SIGINT,
            log=log or self.log,
        )

    def _write_access(self, pg: Path) -> None:
        """pg_hba.conf and pg_ident.conf: our own account, through the socket, as any role; nobody else."""
        ours = _account_name().replace('"', '""')
        for name, text in (
            ("pg_hba.conf", "local all all peer map=own\nlocal replication all peer map=own\n"),
            ("pg_ident.conf", f'own "{ours}" all\n'),
        ):
            path = pg / name
            _replace(path, text)
            if self.data.account is not None:
                os.chown(path, self.data.account.uid, self.data.account.gid)


def cluster_version(pg: Path) -> str | None:
    """The major version of the cluster that lies there; None: there is none."""
    version = pg / "PG_VERSION"
    return version.read_text().strip() if version.exists() else None


def require_version(pg: Path) -> None:
    """Return where the embedded server can read the cluster. Raises StartFailed."""
    if (found := cluster_version(pg)) != MAJOR:
        raise StartFailed(
            f"{pg} holds a cluster of Postgres {found}, the embedded server is {MAJOR}: dump it with the version that "
            "wrote it, start on an empty --data-dir and load the dump"
        )


def postgres_url(data: DataDir, role: str) -> str:
    """The URL of the embedded server, known before it runs. It leaves nothing open that drivers would look for in the
    environment: PGPORT or PGSSLMODE of the caller's shell mean some other server.
    """
    where = f"host={quote(str(data.pg_sockets), safe='/')}&port={PORT}&sslmode=disable"
    return f"postgresql://{role}@/{DATABASE}?{where}"


def _parallel_builds() -> dict[str, str]:
    """Index builds share memory through /dev/shm, of which a container may have 64 MiB: then one process builds."""
    try:
        shared = shutil.disk_usage("/dev/shm").total  # noqa: S108 only its size is asked
    except OSError:
        return {}
    return {} if shared >= SHARED_BYTES_MIN else {"max_parallel_maintenance_workers": "0"}


def _replace(path: Path, text: str) -> None:
    """Write a file anew, so that a link put in its place by the server's account is not followed."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _account_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError as error:
        raise StartFailed(
            f"the user id {os.geteuid()} has no name on this machine, and Postgres needs one: add it to /etc/passwd, "
            "run as another user, or set database.url"
        ) from error


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


REMEDIES: tuple[tuple[str, Callable[[Path], str]], ...] = (
    ("No space left on device", lambda root: f" The disk of {root} is full: free some space."),
    ("Disk quota exceeded", lambda root: f" The quota of {root} is used up: free some space."),
    ("Permission denied", lambda root: f" Files below {root} belong to another account: give them back, or move them."),
    ("Read-only file system", lambda root: f" {root} is read-only: choose another --data-dir."),
    ("could not look up effective user ID", lambda root: " The user id has no name: add it to /etc/passwd."),
    ("could not create shared memory", lambda root: " Shared memory is short: raise its limit (--shm-size, ipcs -l)."),
    ("invalid locale name", lambda root: " The system lacks the locale C.UTF-8: install it, or set database.url."),
)


def _remedy(text: str, root: Path) -> str:
    return next((say(root) for sign, say in REMEDIES if sign in text), "")
