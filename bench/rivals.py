"""Other proxies to measure beside ours: a name in, a running rival out, or why there is none.

Each is installed by pip, once, into an environment of its own below the cache directory, pinned; nothing else is
touched. Where that fails (no network, no such version) the rival is left out with a line, and the run goes on. Each
runs one process before the same upstream.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.overhead.load import AnswerLost, Target, connections
from bench.overhead.processes import CpuMeter, NotStarted, free_port, started, wait_ready

INSTALL_S: Final = 600.0
READY_S: Final = 120.0
MODEL: Final = "fake-model"
_ASKED_FIRST: Final = 3
# LiteLLM does not start without one, and refuses a weak one.
KEY: Final = f"sk-{secrets.token_hex(32)}"


class RivalLeftOut(RuntimeError):
    """A rival that cannot be measured here; the text says why."""


@dataclass(frozen=True, slots=True)
class Rival:
    """One proxy. `start`: (its programs, upstream, port, a directory) -> command line; `note`: what is unlike ours."""

    name: str
    package: str
    start: Callable[[Path, str, int, Path], list[str]]
    ready_path: str
    note: str


@dataclass(frozen=True, slots=True)
class Running:
    """A rival that answers."""

    target: Target
    meter: CpuMeter
    note: str


def _litellm(programs: Path, upstream: str, port: int, work: Path) -> list[str]:
    config = work / "litellm.yaml"
    config.write_text(
        f"model_list:\n  - model_name: {MODEL}\n    litellm_params:\n      model: hosted_vllm/{MODEL}\n"
        f"      api_base: {upstream}/v1\n      api_key: none\n"
    )
    argv = ["env", "LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=ERROR", f"LITELLM_MASTER_KEY={KEY}"]
    argv += [str(programs / "litellm"), "--config", str(config)]
    return [*argv, "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]


def _engram(programs: Path, upstream: str, port: int, work: Path) -> list[str]:
    argv = ["env", f"ENGRAM_OPENAI_UPSTREAM={upstream}", f"ENGRAM_SERVICES={upstream}", f"HOME={work}"]
    argv += [str(programs / "engram"), "--port", str(port), "--upstream", upstream]
    return [*argv, "--db", str(work / "engram.db"), "up"]


RIVALS: Final = {
    "litellm": Rival("litellm", "litellm[proxy]==1.106.0", _litellm, "/health/liveliness", "no memory, passes on"),
    "engram": Rival(
        "engram", "engram-proxy==0.7.0", _engram, "/v1/models", "memory on, an almost empty store, no embedding model"
    ),
}


def cache_dir() -> Path:
    """Where environments of rivals lie."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "memory-proxy" / "rivals"


async def programs_of(rival: Rival, cache: Path) -> Path:
    """The directory of its programs, installed if need be. Raises RivalLeftOut."""
    home = cache / rival.package.replace("[", "-").replace("]", "").replace("==", "-")
    done = home / ".installed"
    if not done.exists():
        await _ran([sys.executable, "-m", "venv", "--clear", str(home)])
        pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-q"]
        await _ran([*pip, rival.package])
        done.touch()
    return home / "bin"


async def _ran(argv: Sequence[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(INSTALL_S):
            _, said = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise RivalLeftOut(f"its installation took over {INSTALL_S:.0f} s") from None
    if process.returncode != 0:
        last = (said.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise RivalLeftOut(f"it cannot be installed: {last[:200]}")


async def running(stack: AsyncExitStack, rival: Rival, upstream: str, work: Path, cache: Path) -> Running:
    """Install, start and try one; it runs as long as the stack. Raises RivalLeftOut."""
    programs, port = await programs_of(rival, cache), free_port()
    folder, url = work / rival.name, f"http://127.0.0.1:{port}"
    folder.mkdir()
    log = folder / "log"
    try:
        process = await stack.enter_async_context(started(rival.start(programs, upstream, port, folder), log))
        await wait_ready(url + rival.ready_path, process, log, READY_S)
    except (NotStarted, OSError) as exc:
        raise RivalLeftOut(f"it does not start: {str(exc)[-300:]}") from exc
    target = Target(rival.name, url, (("Authorization", f"Bearer {KEY}"),))
    await _tried(target)
    return Running(target, CpuMeter(process.pid), rival.note)


async def _tried(target: Target) -> None:
    """A few answers that have to be whole. Raises RivalLeftOut."""
    try:
        async with connections(target, 1) as (connection,):
            for _ in range(_ASKED_FIRST):
                timing = await connection.ask(target.request("hello", MODEL, (), 8))
                if not timing.complete:
                    raise RivalLeftOut("it gives no whole answer")
    except (AnswerLost, TimeoutError, OSError) as exc:
        raise RivalLeftOut(f"it gives no answer: {type(exc).__name__}") from exc
