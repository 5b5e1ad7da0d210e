"""A running service on real parts: `memory-proxy serve` as a user starts it, before the stand-in upstream.

One service for the whole test session, tests keep apart by their user. `own_service` starts one for a test that kills.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bench.fake_vllm.launch import READY_PREFIX, command_line
from tests.scratch_place import scratch_place

START_S = 120
_users = itertools.count()


@dataclass
class Service:
    """A `memory-proxy serve` and how to talk to it."""

    process: subprocess.Popen[str]
    url: str
    upstream: str
    data: Path
    argv: list[str]
    log: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def openai(self) -> str:
        """What a client sets base_url to."""
        return f"{self.url}/v1"

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """One call of the proxy's own API, parsed; an error answer is returned as {"error": …}."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=sent)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                raw = answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                raw = refused.read()
        return json.loads(raw) if raw else None

    def forget(self, body: Any, timeout_s: float = 60, /, **headers: str) -> Any:
        """Forget, and the receipt; an error answer as of `call`."""
        answer = self.call("POST", "/memory/v1/forget", body, **headers)
        return self.receipt(answer["id"], timeout_s, **headers) if answer.get("status") == "running" else answer

    def receipt(self, erasure: str, timeout_s: float = 60, **headers: str) -> Any:
        """The receipt of an erasure that was still under way after 10 s, which a busy machine may need."""
        until = time.monotonic() + timeout_s
        while (answer := self.call("GET", f"/memory/v1/forget/{erasure}", **headers)).get("status") == "running":
            if time.monotonic() > until:
                raise AssertionError(f"the erasure does not end: {answer}\n{self.tail()}")
            time.sleep(0.2)
        return answer

    def settle(self, timeout_s: float = 100, **headers: str) -> None:
        """Wait until everything captured so far is stored and searchable."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            with contextlib.suppress(OSError, KeyError, TypeError):
                queue = self.call("GET", "/memory/v1/queue", **headers)
                if queue["pending"] + queue["in_flight"] == 0:
                    return
            time.sleep(0.05)
        queue = self.call("GET", "/memory/v1/queue", **headers)
        raise AssertionError(f"the queue does not settle: {queue}\n{self.tail()}")

    def tail(self) -> str:
        """The end of the log, for failure messages."""
        return self.log.read_text(errors="replace")[-4000:]

    def children(self, what: str) -> list[int]:
        """Pids of this service's processes whose command line matches."""
        found = []
        for pid in _descendants(self.process.pid):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if re.search(what, line):
                    found.append(pid)
        return found

    def stop(self) -> int:
        """SIGTERM and wait."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def restart(self) -> None:
        """Start again on the same data, on the same port."""
        port = self.url.rsplit(":", 1)[1]
        self.argv[self.argv.index("--port") + 1] = port
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = _spawn(self.argv, self.log, self.extra)
        _wait_ready(self.process, self.log)


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


def _spawn(argv: list[str], log: Path, extra: dict[str, str]) -> subprocess.Popen[str]:
    with log.open("a") as err:
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=err, text=True, env={**os.environ, **extra})


def _wait_ready(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"ready on (http://\S+)", line)
    if not found:
        process.kill()
        raise AssertionError(f"the service did not start: {line!r}\n{log.read_text(errors='replace')[-4000:]}")
    return found[1]


SHARED = "MP_TEST_SHARED"
"""Variable that names a directory which all processes of one test run share."""


# A test machine is busy: the deadlines are generous here, and tests of a deadline set their own.
UNHURRIED = {
    "MEMORY_PROXY_LOG__FORMAT": "text",
    "MEMORY_PROXY_RECALL__DEADLINE_MS": "5000",
    "MEMORY_PROXY_LEDGER__DEADLINE_MS": "2500",
}
FIRST = ("MEMORY_PROXY_MASTER_KEY", "MEMORY_PROXY_EMBEDDING__", "MEMORY_PROXY_DATABASE__", "MEMORY_PROXY_REDIS__")
"""Settings that a first start answers to."""


def pytest_configure(config: pytest.Config) -> None:
    """The run's own directory, made by the process that starts the others."""
    if not hasattr(config, "workerinput"):
        os.environ[SHARED] = tempfile.mkdtemp(prefix="mp-tests-", dir=scratch_place())
        Path(os.environ[SHARED]).chmod(0o755)


def pytest_unconfigure(config: pytest.Config) -> None:
    """It is gone with the run."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(SHARED), ignore_errors=True)


def _first_start(data: Path, argv: list[str], log: Path, extra: dict[str, str]) -> None:
    """Fill a data directory as a first start does: done once in a run, copied for all others (a second each)."""
    template = Path(os.environ[SHARED]) / "data"
    with (template.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            process = _spawn(argv, log, extra)
            _wait_ready(process, log)
            process.terminate()
            assert process.wait(60) == 0, log.read_text(errors="replace")[-4000:]
            assert process.stdout is not None
            process.stdout.close()
            subprocess.run(["cp", "-a", str(data), str(template)], check=True)
            return
    subprocess.run(["cp", "-a", str(template), str(data)], check=True)


@contextlib.contextmanager
def serving(upstream: str, *options: str, env: dict[str, str] | None = None) -> Iterator[Service]:
    """A service of one's own, in a directory of its own, gone afterwards."""
    root = Path(tempfile.mkdtemp(prefix="mp-test-", dir=scratch_place()))
    root.chmod(0o755)
    data, log = root / "data", root / "serve.log"
    argv = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream, "--port", "0", "--data-dir", str(data)]
    argv += options
    extra = {**UNHURRIED, **(env or {})}
    shared = SHARED in os.environ  # a recording has no run to share with
    if shared and not any(name.startswith(FIRST) for name in extra):
        _first_start(data, argv[: len(argv) - len(options)], root / "first.log", UNHURRIED)
    process = _spawn(argv, log, extra)
    service = Service(process, "", upstream, data, argv, log, extra)
    try:
        service.url = _wait_ready(process, log)
        yield service
    finally:
        if service.process.poll() is None:
            service.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                service.process.wait(40)
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait(10)
        if service.process.stdout is not None:
            service.process.stdout.close()
        shutil.rmtree(root, ignore_errors=True)


@contextlib.contextmanager
def stand_in(port: int = 0, **settings: object) -> Iterator[str]:
    """A stand-in upstream in a process of its own."""
    process = subprocess.Popen(command_line(port, **settings), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        assert line.startswith(READY_PREFIX), line
        yield line.removeprefix(READY_PREFIX)
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@contextlib.contextmanager
def frozen(service: Service, what: str) -> Iterator[None]:
    """One kind of its processes stands still, as on a machine that swaps."""
    pids = service.children(what)
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="session")
def upstream() -> Iterator[str]:
    """The stand-in that the shared service forwards to."""
    with stand_in() as url:
        yield url


@pytest.fixture(scope="session")
def service(upstream: str) -> Iterator[Service]:
    """The shared service. Do not kill its parts; ask for `own_service` to do that."""
    with serving(upstream) as running:
        yield running


@pytest.fixture(scope="session")
def keyed_service(upstream: str) -> Iterator[Service]:
    """The shared service that asks for keys, two proxy workers. Each test makes keys and users of its own."""
    with serving(upstream, "--workers", "2", env={"MEMORY_PROXY_AUTH__MODE": "keys"}) as running:
        yield running


@pytest.fixture
def own_service(upstream: str) -> Iterator[Callable[..., contextlib.AbstractContextManager[Service]]]:
    """Starts services for one test: `with own_service("--workers", "2") as service`."""
    yield lambda *options, **keywords: serving(upstream, *options, **keywords)


@pytest.fixture
def user() -> str:
    """A user of this test alone."""
    return f"user-{os.getpid()}-{next(_users)}"


def owner(service: Service, *statements: str) -> list[Any]:
    """Run these past row-level security; the rows of the last."""

    async def ask() -> list[Any]:
        settings = json.loads((service.data / "run" / "settings.json").read_text())
        connection = await asyncpg.connect(settings["database"]["owner_url"])
        for statement in statements[:-1]:
            await connection.execute(statement)
        rows: list[Any] = await connection.fetch(statements[-1])
        await connection.close()
        return rows

    return asyncio.run(ask())
