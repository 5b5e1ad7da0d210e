"""The demo's proxy: an upstream's URL, a port and a data directory in, `memory-proxy serve` running as a child out.

It is the very command a person would type, with its embedded stores; only its log goes to a file. Settings of the
caller's environment are left out, so that a demo never touches another service's stores. Refuses with DemoFailed, with
the end of the log.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from memory.config import ENV_PREFIX
from memory.errors import StartFailed
from proxy.cli.demo_model import DemoFailed
from proxy.cli.demo_terminal import Terminal
from proxy.supervisor.children import Child, Command, describe_exit, log_tail, start

START_PATIENCE_S = 180.0
STOP_PATIENCE_S = 60.0
ASK_PATIENCE_S = 10.0
SETTLED_PATIENCE_S = 120.0
POLL_S = 0.1
# The model works on the processors that recall needs; a person who watches waits rather for memory than for 250 ms.
SETTINGS = {f"{ENV_PREFIX}RECALL__DEADLINE_MS": "5000", f"{ENV_PREFIX}LOG__FORMAT": "text"}


@dataclass(slots=True)
class Service:
    """One proxy that can be stopped and started again on the same data."""

    upstream: str
    port: int
    data_dir: Path
    log: Path
    environ: Mapping[str, str]
    terminal: Terminal
    _child: Child | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self, what: str) -> None:
        """Start and wait until /memory/ready says 200. Raises DemoFailed."""
        words = ("serve", "--upstream", self.upstream, "--port", str(self.port), "--data-dir", str(self.data_dir))
        env = {name: value for name, value in self.environ.items() if not name.startswith(ENV_PREFIX)}
        command = Command("proxy", (sys.executable, "-P", "-m", "proxy", *words), {**env, **SETTINGS}, log=self.log)
        try:
            self._child = start(command)
        except StartFailed as error:
            raise DemoFailed(str(error)) from error
        async with self.terminal.progress(what):
            await self._until_ready(self._child)

    async def stop(self, what: str | None = None) -> None:
        """SIGTERM, and wait: it drains and stops its stores."""
        if self._child is None:
            return
        async with AsyncExitStack() as stack:
            if what is not None:
                await stack.enter_async_context(self.terminal.progress(what))
            await self._child.stop((signal.SIGTERM, STOP_PATIENCE_S))
        self._child = None

    async def until_ended(self) -> None:
        """Wait for an end that nobody asked for. Raises DemoFailed."""
        if self._child is not None:
            code = await self._child.wait()
            raise DemoFailed(f"the proxy has ended by itself ({describe_exit(code)}):\n{log_tail(self.log)}")

    async def get(self, path: str) -> Any:
        """One call of the proxy's own API, parsed. Raises DemoFailed."""
        try:
            async with (
                asyncio.timeout(ASK_PATIENCE_S),
                aiohttp.ClientSession() as session,
                session.get(self.url + path) as answer,
            ):
                answer.raise_for_status()
                return await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise DemoFailed(f"GET {path} was not answered ({error!r}); the proxy's log is {self.log}") from error

    async def until_settled(self) -> None:
        """Wait until everything captured is stored and searchable. Raises DemoFailed."""
        until = time.monotonic() + SETTLED_PATIENCE_S
        async with self.terminal.progress("storing what was said"):
            while True:
                queue = await self.get("/memory/v1/queue")
                if queue["pending"] + queue["in_flight"] == 0:
                    return
                if time.monotonic() > until:
                    raise DemoFailed(f"still not stored after {SETTLED_PATIENCE_S:.0f} s: {queue}; see {self.log}")
                await asyncio.sleep(POLL_S)

    async def _until_ready(self, child: Child) -> None:
        until = time.monotonic() + START_PATIENCE_S
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < until:
                if child.code is not None:
                    tail = log_tail(self.log)
                    raise DemoFailed(f"the proxy does not start ({describe_exit(child.code)}):\n{tail}")
                if await _is_ready(session, self.url):
                    return
                await asyncio.sleep(POLL_S)
        raise DemoFailed(f"the proxy is not ready after {START_PATIENCE_S:.0f} s; its log is {self.log}")


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with asyncio.timeout(ASK_PATIENCE_S), session.get(f"{url}/memory/ready") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def chosen_port(wanted: int) -> int:
    """The port wanted, or a free one where it is taken (or 0)."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise DemoFailed("no port of 127.0.0.1 can be had")
