"""The embedded Valkey: a claimed data directory -> a command line, a URL, and whether it is ready.

Every write is fsynced before it is answered (`everysec` lost a quarter of the acknowledged entries under kill -9 with a
slow disk), nothing is evicted, and it listens on a socket in a private directory only. When the append-only file cannot
be written the server exits; the supervisor starts it again until it can, and the spool holds what comes meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from proxy.supervisor.children import Command, log_tail
from proxy.supervisor.data_dir import DataDir

STOP = ((signal.SIGTERM, 15.0),)
PING_PATIENCE_S = 2.0

SETTINGS = (
    ("port", "0"),
    ("unixsocketperm", "700"),
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    ("aof-load-truncated", "yes"),
    ("maxmemory-policy", "noeviction"),
    ("save", ""),
    ("daemonize", "no"),
    ("logfile", ""),
    ("set-proc-title", "no"),
    ("databases", "1"),
    ("enable-debug-command", "no"),
    ("enable-module-command", "no"),
)


@dataclass(frozen=True, slots=True)
class EmbeddedValkey:
    """Where everything of it is."""

    data: DataDir
    program: Path

    @property
    def log(self) -> Path:
        """The server's log; bounded by the supervisor."""
        return self.data.logs / "valkey.log"

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return valkey_socket(self.data)

    def command(self) -> Command:
        """The server in the foreground; writes its configuration file. Raises OSError."""
        conf = self.data.run / "valkey.conf"
        settings = (*SETTINGS, ("unixsocket", str(self.socket)), ("dir", str(self.data.valkey)))
        conf.write_text("".join(f"{name} {_quoted(value)}\n" for name, value in settings), encoding="utf-8")
        return Command(
            "valkey",
            (str(self.program), str(conf)),
            {"PATH": os.defpath, "LC_ALL": "C"},
            cwd=self.data.valkey,
            log=self.log,
        )

    def clear_away(self) -> None:
        """What a server that was killed was writing its file anew into: nobody reads it, and each is as large."""
        for left in self.data.valkey.rglob("temp-rewriteaof-*.aof"):
            with suppress(OSError):
                left.unlink()

    async def is_ready(self) -> bool:
        """Whether it answers PING (while it replays its file it answers LOADING)."""
        try:
            async with asyncio.timeout(PING_PATIENCE_S):
                reader, writer = await asyncio.open_unix_connection(self.socket)
                try:
                    writer.write(b"PING\r\n")
                    return await reader.readline() == b"+PONG\r\n"
                finally:
                    writer.close()
                    with suppress(OSError):
                        await writer.wait_closed()
        except (OSError, TimeoutError):
            return False

    def failure(self) -> str:
        """Why it does not start: the end of its log."""
        tail = log_tail(self.log)
        full = f" The disk of {self.data.root} is full: free some space." if "No space left" in tail else ""
        return f"Valkey does not start.{full}\n{tail}"


def valkey_url(data: DataDir) -> str:
    """The URL of the embedded server, known before it runs: `unix:///…/valkey.sock`."""
    return f"unix://{quote(str(valkey_socket(data)), safe='/')}"


def valkey_socket(data: DataDir) -> Path:
    """Its socket, which our own account alone may open (0700)."""
    return data.sockets / "valkey.sock"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
