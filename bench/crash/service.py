"""The service under test: options in, a running `memory-proxy serve` on its own stores, started again when killed.

`whole` says when all parts are back: ready is 200, every worker lives, the queue and the database answer. With a slow
disk for the queue, Valkey is ours (the service's own settings, under a library that delays fsync), else the service's.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import asyncpg

from bench.crash.slow_disk import SlowValkey
from bench.crash.upstream import KeptUpstream
from bench.crash.victims import Kind, processes
from bench.overhead.processes import free_port
from proxy.supervisor.children import dies_with

START_S: Final = 120.0
WHOLE_S: Final = 90.0
POLL_S: Final = 0.05
STOP_S: Final = 60.0


class NotWhole(RuntimeError):
    """The service did not come back; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How the service is run. `env`: more of its environment; `checkout`: the directory of another version's code."""

    root: Path
    upstream: str
    proxy_workers: int = 2
    memory_workers: int = 2
    slow_fsync_ms: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    checkout: Path | None = None


@dataclass(slots=True)
class Service:
    """Mutable: the process that runs now. `stand_in`: the upstream, where that may be hit too."""

    shape: Shape
    stand_in: KeptUpstream | None = None
    port: int = field(default_factory=free_port)
    valkey: SlowValkey | None = None
    starts: int = 0
    _process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.shape.root / "data"

    @property
    def log(self) -> Path:
        return self.shape.root / "serve.log"

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> tuple[float, float]:
        """Start it (again, on the same data); seconds until ready, and until it is whole. Raises NotWhole."""
        if self.shape.slow_fsync_ms and self.valkey is None:
            self.valkey = SlowValkey(self.shape.root, self.shape.slow_fsync_ms)
            await self.valkey.start()
        shape = self.shape
        argv = [sys.executable, "-m", "proxy", "serve", "--upstream", shape.upstream, "--port", str(self.port)]
        argv += ["--data-dir", str(self.data), "--workers", str(shape.proxy_workers)]
        env = {
            **os.environ,
            "MEMORY_PROXY_LOG__FORMAT": "text",
            "MEMORY_PROXY_WORKER__PROCESSES": str(shape.memory_workers),
            **shape.env,
        }
        if shape.checkout is not None:
            env["PYTHONPATH"] = str(shape.checkout)
        if self.valkey is not None:
            env["MEMORY_PROXY_REDIS__URL"] = self.valkey.url
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *argv,
                stdout=log,
                stderr=log,
                env=env,
                cwd=shape.checkout,
                preexec_fn=dies_with(os.getpid(), signal.SIGTERM),
            )
        self.starts += 1
        return await self.whole(START_S)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor."""
        os.kill(self.pid, number)

    async def revive(self, *, killed: bool) -> None:
        """Start the supervisor again when it was `killed`, whose end a busy machine tells late, or has ended itself."""
        if self._process is not None and await self._ended(STOP_S if killed else 0.01):
            await self.start()

    async def stop(self) -> int:
        """SIGTERM, in the end SIGKILL; the exit code."""
        code = -1
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            if not await self._ended(STOP_S):
                self._process.kill()
            code = await self._process.wait()
        if self.valkey is not None:
            await self.valkey.stop()
        return code

    def processes(self) -> dict[Kind, list[int]]:
        """Process ids by kind."""
        found = processes(self.pid)
        if self.valkey is not None:
            found["valkey"] = [self.valkey.pid]
        if self.stand_in is not None:
            found["upstream"] = [self.stand_in.pid]
        return found

    async def whole(self, timeout_s: float = WHOLE_S) -> tuple[float, float]:
        """Seconds until /memory/ready was 200, and until every part was back. Raises NotWhole."""
        began = time.monotonic()
        ready_s: float | None = None
        timeout = aiohttp.ClientTimeout(total=3)
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
            while (passed_s := time.monotonic() - began) < timeout_s:
                if ready_s is None and await self._says(http, "/memory/ready") is not None:
                    ready_s = time.monotonic() - began
                if ready_s is not None and await self._all_there(http):
                    return ready_s, time.monotonic() - began
                if self._process is not None and self._process.returncode is not None:
                    break
                await asyncio.sleep(POLL_S)
        tail = self.log.read_bytes()[-6000:].decode(errors="replace")
        raise NotWhole(f"not whole after {passed_s:.0f} s (ready: {ready_s}); the log ends:\n{tail}")

    async def ready(self) -> dict[str, Any]:
        """What /memory/ready says, its HTTP status as `http`; an empty one where it does not answer."""
        timeout = aiohttp.ClientTimeout(total=5)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as http,
                http.get(f"{self.url}/memory/ready") as answer,
            ):
                return {**await answer.json(), "http": answer.status}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return {}

    async def waiting(self) -> dict[str, Any] | None:
        """What /memory/v1/queue says; None while it cannot."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http:
            return await self._says(http, "/memory/v1/queue")

    def owner_dsn(self) -> str:
        """How to read everything, past row-level security."""
        settings = json.loads((self.data / "run" / "settings.json").read_text())
        return str(settings["database"]["owner_url"])

    async def _says(self, http: aiohttp.ClientSession, path: str) -> dict[str, Any] | None:
        try:
            async with http.get(self.url + path) as answer:
                return dict(await answer.json()) if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def _all_there(self, http: aiohttp.ClientSession) -> bool:
        found = self.processes()
        enough = (
            len(found.get("proxy worker", ())) >= self.shape.proxy_workers
            and len(found.get("memory worker", ())) >= self.shape.memory_workers
        )
        if self.stand_in is not None and not await self.stand_in.answers():
            return False
        return enough and await self._says(http, "/memory/v1/queue") is not None and await self._database_answers()

    async def _database_answers(self) -> bool:
        try:
            connection = await asyncpg.connect(self.owner_dsn(), timeout=3)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        await connection.close()
        return True

    async def _ended(self, timeout_s: float) -> bool:
        assert self._process is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._process.wait()
        return self._process.returncode is not None
