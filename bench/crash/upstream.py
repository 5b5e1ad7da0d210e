"""An upstream that may be killed: a stand-in for vLLM in a process of its own, on one port, started again when it dies.

What it is started with comes in; its address, its process id and whether it answers come out.
"""

import asyncio
import os
import signal
from typing import Final

import aiohttp

from bench.fake_vllm.launch import READY_PREFIX, command_line
from bench.overhead.processes import ended, free_port

RESTART_PAUSE_S: Final = 0.2
ANSWER_S: Final = 2.0
STOP_S: Final = 10.0
POLL_S: Final = 0.05


class KeptUpstream:
    """One stand-in. Use it as a context: `async with KeptUpstream() as upstream`."""

    def __init__(self, **settings: object) -> None:
        self.port = free_port()
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> "KeptUpstream":
        await self._spawn()
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        if self._process is not None:
            await ended(self._process, signal.SIGCONT, signal.SIGTERM, within_s=STOP_S)

    async def restart(self) -> None:
        """Kill it and wait until it answers again: every connection to it is gone."""
        killed = self.pid
        os.kill(killed, signal.SIGKILL)
        while self.pid == killed or not await self.answers():
            await asyncio.sleep(POLL_S)

    async def answers(self) -> bool:
        """Whether it answers /health."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_S)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as http, http.get(f"{self.url}/health") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def _keep(self) -> None:
        while True:
            assert self._process is not None
            await self._process.wait()
            await asyncio.sleep(RESTART_PAUSE_S)
            await self._spawn()

    async def _spawn(self) -> None:
        argv = command_line(self.port, **self._settings)
        self._process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        if not line.startswith(READY_PREFIX) and self._keeping is None:
            raise RuntimeError(f"the stand-in did not start: {line!r}")
