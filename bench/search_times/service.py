"""The service that is measured: one of our own on data that outlives it, or one that runs already.

In: an upstream, a directory and the bytes that hot scopes may hold; out: where it listens, how to reach its store past
row-level security, and its CPU meter. Raises NotStarted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.overhead.processes import CpuMeter, NotStarted, free_port, started, wait_ready

READY_TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True)
class Served:
    """A running service. Without a meter nothing is said about CPU. `pid` and `data` are those of one of our own: its
    supervisor and its data directory.
    """

    url: str
    dsn: str
    meter: CpuMeter | None
    pid: int | None = None
    data: Path | None = None


@asynccontextmanager
async def serving(work: Path, upstream: str, hot_bytes: int, more: str = "") -> AsyncIterator[Served]:
    """A service on `work`/data with one proxy worker; all else is the product's default, or as `more`, YAML, says.

    Raises NotStarted.
    """
    port = free_port()
    url, log, config, data = f"http://127.0.0.1:{port}", work / "service.log", work / "config.yaml", work / "data"
    config.write_text(f"recall:\n  hot_scope_bytes_max: {hot_bytes}\n{more}")
    argv = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream, "--port", str(port)]
    argv += ["--data-dir", str(data), "--config", str(config)]
    async with started(argv, log) as process:
        await wait_ready(f"{url}/memory/ready", process, log, READY_TIMEOUT_S)
        try:
            settings = json.loads((data / "run" / "settings.json").read_text())
        except (OSError, ValueError) as exc:
            raise NotStarted(f"the service tells no way to its store: {exc}") from exc
        yield Served(url, str(settings["database"]["owner_url"]), CpuMeter(process.pid), process.pid, data)
