"""A Valkey of a benchmark's own: a directory and the settings that differ in, its address out. Raises NotStarted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.overhead.processes import NotStarted, started
from proxy.supervisor.embedded_valkey import SETTINGS
from proxy.supervisor.server_binaries import valkey_package, valkey_program

START_S: Final = 20.0


@asynccontextmanager
async def own_valkey(work: Path, settings: Mapping[str, str]) -> AsyncIterator[str]:
    """The server as the product runs it, but for `settings`; ends with the block."""
    folder = work / "own-valkey"
    folder.mkdir(mode=0o700)
    socket, conf, log = folder / "v.sock", folder / "valkey.conf", work / "own-valkey.log"
    given = {**dict(SETTINGS), "unixsocket": str(socket), "dir": str(folder), **settings}
    conf.write_text("".join(f'{name} "{value}"\n' for name, value in given.items()))
    async with started([str(valkey_program(valkey_package())), str(conf)], log) as process:
        until_s = asyncio.get_running_loop().time() + START_S
        while not socket.exists():
            if process.returncode is not None or asyncio.get_running_loop().time() > until_s:
                raise NotStarted(f"valkey does not start: {log.read_text(errors='replace')[-500:]}")
            await asyncio.sleep(0.05)
        yield f"unix://{socket}"
