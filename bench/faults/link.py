"""A link that can be cut without a word: a TCP forwarder whose peer vanishes, and comes back for new connections only.

Bytes pass both ways until `vanish`. From then on nothing passes, nothing is read and nothing is closed, on connections
there are and on new ones: what a machine looks like that lost its power. After `heal` new connections pass; old ones
stay as they are for ever, as a rebooted peer leaves them where no RST comes through.
"""

import asyncio
from contextlib import suppress
from typing import Final

PIECE_BYTES: Final = 65_536


class Link:
    """One forwarder. Use it as a context."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._life = 0
        self._silent = False
        self._server: asyncio.Server | None = None
        self._carried: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> "Link":
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._carried):
            task.cancel()
        await asyncio.gather(*self._carried, return_exceptions=True)

    def vanish(self) -> None:
        """Nothing passes any more."""
        self._silent = True
        self._life += 1

    def heal(self) -> None:
        """New connections pass."""
        self._silent = False

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carried.add(task)
        task.add_done_callback(self._carried.discard)
        there: asyncio.StreamWriter | None = None
        try:
            life = self._life
            if self._silent:
                await asyncio.Event().wait()
            back, there = await asyncio.open_connection(*self._to)
            await asyncio.gather(self._pump(reader, there, life), self._pump(back, writer, life))
        except (OSError, asyncio.CancelledError):
            pass  # the far end refused, or the block ended
        finally:
            for each in (writer, there):
                if each is not None:
                    each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, life: int) -> None:
        while data := await reader.read(PIECE_BYTES):
            if life != self._life:
                await asyncio.Event().wait()
            writer.write(data)
            await writer.drain()
        if life != self._life:
            await asyncio.Event().wait()
        with suppress(OSError):
            writer.write_eof()
