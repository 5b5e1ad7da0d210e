"""A site of the web on loopback: answers as scripts say, byte by byte, and what was asked of it kept."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any

Script = bytes | Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]
HERE = IPv4Address("127.0.0.1")


def answer(
    body: bytes = b"<p>hello</p>", *, status: str = "200 OK", media_type: str = "text/html", **headers: str
) -> bytes:
    """A whole answer. Headers by name, `_` for `-`."""
    said = {"Content-Length": str(len(body)), "Content-Type": media_type}
    said |= {name.replace("_", "-").title(): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in said.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def redirect(to: str, status: str = "302 Found") -> bytes:
    """An answer that leads on."""
    return answer(b"", status=status, location=to)


@dataclass
class Site:
    """What it answers by path, and what it was asked: request heads in order."""

    scripts: dict[str, Script] = field(default_factory=lambda: {"/robots.txt": answer(b"", status="404 Not Found")})
    heads: list[str] = field(default_factory=list)
    port: int = 0
    open: int = 0
    open_max: int = 0

    @property
    def paths(self) -> list[str]:
        """Paths that were asked for, robots.txt left out."""
        asked = [head.split(" ", 2)[1] for head in self.heads]
        return [path for path in asked if path != "/robots.txt"]

    def url(self, path: str = "/", host: str = "site.example.org") -> str:
        """Where a path is found under a name."""
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            path = head.split(" ", 2)[1]
            script = self.scripts.get(path, answer(b"", status="404 Not Found"))
            if isinstance(script, bytes):
                writer.write(script)
                await writer.drain()
            else:
                await _until_left(script(writer), reader)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


async def _until_left(work: Coroutine[Any, Any, None], reader: asyncio.StreamReader) -> None:
    """The script, until it has ended or the client has closed its connection."""
    script, left = asyncio.create_task(work), asyncio.create_task(reader.read())
    try:
        await asyncio.wait((script, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        script.cancel()
        left.cancel()
        await asyncio.gather(script, left, return_exceptions=True)


@contextlib.asynccontextmanager
async def site(tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """A running site."""
    running = Site()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await running.serve(reader, writer)
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Names:
    """A resolver: each name's answers one after the other, the last one again and again."""

    answers: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        left = self.answers.get(host, [("127.0.0.1",)])
        return left.pop(0) if len(left) > 1 else left[0]


def is_here(ip: IPv4Address | IPv6Address) -> bool:
    """Loopback's first address stands for the public internet; every other one is private."""
    return ip == HERE
