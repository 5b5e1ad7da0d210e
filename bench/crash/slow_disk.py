"""A Valkey whose disk is slow: milliseconds in, a server on a Unix socket whose fsync takes that much longer out.

Runs with the very settings of the embedded server, under a small preloaded library that sleeps before fsync and
fdatasync. Restarts it when it dies, as the supervisor would. Refuses, with NoCompiler, where there is no C compiler.
"""

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Final

from bench.overhead.processes import ended
from proxy.supervisor.embedded_valkey import SETTINGS
from proxy.supervisor.server_binaries import valkey_package, valkey_program

RESTART_PAUSE_S: Final = 0.2
STOP_S: Final = 10.0
SOURCE: Final = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#define SLOW(name) int name(int fd) { \\
    static int (*real)(int); \\
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name); \\
    usleep(DELAY_MS * 1000); \\
    return real(fd); }
SLOW(fsync)
SLOW(fdatasync)
"""


class NoCompiler(RuntimeError):
    """There is no C compiler here, so the disk cannot be slowed down."""


class SlowValkey:
    """One server in `root`/slow-valkey."""

    def __init__(self, root: Path, fsync_ms: int) -> None:
        self._fsync_ms = fsync_ms
        self._dir = root / "slow-valkey"
        self._dir.mkdir(mode=0o700)
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._dir / 'valkey.sock'}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it and keep it running."""
        library = await build(self._dir, self._fsync_ms)
        conf = self._dir / "valkey.conf"
        settings = (*SETTINGS, ("unixsocket", str(self._dir / "valkey.sock")), ("dir", str(self._dir)))
        conf.write_text("".join(f'{name} "{value}"\n' for name, value in settings))
        await self._spawn(conf, library)
        self._keeping = asyncio.create_task(self._keep(conf, library))

    async def stop(self) -> None:
        """Stop it for good."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        if self._process is not None:
            await ended(self._process, signal.SIGCONT, signal.SIGTERM, within_s=STOP_S)

    async def _keep(self, conf: Path, library: Path) -> None:
        while True:
            assert self._process is not None
            await self._process.wait()
            await asyncio.sleep(RESTART_PAUSE_S)
            await self._spawn(conf, library)

    async def _spawn(self, conf: Path, library: Path) -> None:
        program = str(valkey_program(valkey_package()))
        env = {"PATH": os.defpath, "LC_ALL": "C", "LD_PRELOAD": str(library)}
        with (self._dir / "valkey.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(program, str(conf), env=env, stdout=log, stderr=log)


async def build(directory: Path, fsync_ms: int) -> Path:
    """Compile the library. Raises NoCompiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("no C compiler (cc or gcc) on the PATH")
    source, library = directory / "slow.c", directory / "slow.so"
    source.write_text(SOURCE)
    options = ("-shared", "-fPIC", "-O1", f"-DDELAY_MS={fsync_ms}", "-o", str(library), str(source), "-ldl")
    process = await asyncio.create_subprocess_exec(compiler, *options, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    if process.returncode != 0:
        raise NoCompiler(f"the C compiler failed: {said.decode(errors='replace')[-300:]}")
    return library
