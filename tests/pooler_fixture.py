"""A pooler that knows nothing of prepared statements, before a real Postgres: as PgBouncer up to 1.20, or a later one
whose `max_prepared_statements` is 0, in transaction mode. Each client has two connections, which take turns by
transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from pathlib import Path

_ENDS = (b"Q", b"S")  # Query, Sync: behind them the server says that it is ready, and whether a transaction is open
_LEAVES = b"X"
_READY, _IDLE = b"Z", b"I"
_GONE = (asyncio.IncompleteReadError, ConnectionError)


@asynccontextmanager
async def forgetful_pooler(server: Path) -> AsyncIterator[int]:
    """The port of one before the server whose socket lies in this directory."""
    clients: set[asyncio.Task[None]] = set()

    def arrived(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.add(asyncio.create_task(_serve(server, reader, writer)))

    listening = await asyncio.start_server(arrived, "127.0.0.1")
    try:
        yield int(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def _serve(server: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    backends = [await asyncio.open_unix_connection(server / ".s.PGSQL.5432") for _ in range(2)]
    states: asyncio.Queue[bytes] = asyncio.Queue()
    pumps: list[asyncio.Task[None]] = []
    try:
        length = await reader.readexactly(4)
        hello = length + await reader.readexactly(int.from_bytes(length) - 4)
        for number, (ahead, behind) in enumerate(backends):
            behind.write(hello)
            while (message := await _message(ahead))[:1] != _READY:
                writer.write(b"" if number else message)
            pumps.append(asyncio.create_task(_pump(ahead, writer, states)))
        writer.write(message)
        for _, behind in cycle(backends):
            state = b""
            while state != _IDLE:
                behind.write(message := await _message(reader))
                if message[:1] == _LEAVES:
                    return
                state = await states.get() if message[:1] in _ENDS else b""
    except _GONE:
        return
    finally:
        for pump in pumps:
            pump.cancel()
        for link in (writer, *(behind for _, behind in backends)):
            link.close()


async def _pump(ahead: asyncio.StreamReader, writer: asyncio.StreamWriter, states: asyncio.Queue[bytes]) -> None:
    """Hand on what a server says, and tell each time that it is ready in which state."""
    with suppress(*_GONE):
        while True:
            message = await _message(ahead)
            writer.write(message)
            if message[:1] == _READY:
                states.put_nowait(message[-1:])


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)
