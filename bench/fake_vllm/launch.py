"""Start the stand-in for a test or a benchmark: settings -> the base URL of a running server.

`running_fake_vllm` serves from the caller's own event loop (no start-up time, ends with the block);
`fake_vllm_process` starts a process of its own (for benchmarks, and for being killed). Both take the
members of Settings and Fault as keywords: `running_fake_vllm(max_model_len=512, first_ms=50)`.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bench.fake_vllm.server import make_runner
from bench.fake_vllm.settings import Settings, settings_from_keywords
from proxy.supervisor.children import dies_with

READY_PREFIX = "ready on "


def address_of(runner: web.AppRunner) -> str:
    """The base URL of a started runner."""
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


async def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; prints one line, `ready on URL`, when it listens."""
    runner = make_runner(settings)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=1024).start()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(f"{READY_PREFIX}{address_of(runner)}", flush=True)
    await stop.wait()
    await runner.cleanup()


@asynccontextmanager
async def running_fake_vllm(**settings: object) -> AsyncIterator[str]:
    """A server in this event loop, on a free port of 127.0.0.1. Raises UnknownSetting."""
    runner = make_runner(settings_from_keywords(**settings))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield address_of(runner)
    finally:
        await runner.cleanup()


def command_line(port: int = 0, **settings: object) -> list[str]:
    """The argument vector of a server process; the same keywords as running_fake_vllm."""
    out = [sys.executable, "-m", "bench.fake_vllm", "--port", str(port)]
    for name, value in settings.items():
        if name == "model_names" and isinstance(value, tuple | list):
            for model in value:
                out += ["--model", str(model)]
        elif value is not None:
            out += [f"--{name.replace('_', '-')}", str(value)]
    return out


@asynccontextmanager
async def fake_vllm_process(**settings: object) -> AsyncIterator[tuple[str, int]]:
    """A server in a process of its own: (base URL, pid). Raises RuntimeError when it does not start."""
    argv, arm = command_line(0, **settings), dies_with(os.getpid(), signal.SIGTERM)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, preexec_fn=arm)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        if not line.startswith(READY_PREFIX):
            raise RuntimeError(f"the stand-in did not start: {line!r}")
        yield line.removeprefix(READY_PREFIX), process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
