"""Raw streams where slowness or exact ends matter: a server that drips, clients that sip, streams to their end.

In: addresses and paces. Out: bytes and whether a stream ended as it should. Speaks no more HTTP than that takes.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
EVENT: Final = b'data: {"choices":[{"index":0,"delta":{"content":"drop "}}]}\n\n'
MODELS: Final = json.dumps({"object": "list", "data": [{"id": "fake-model", "max_model_len": 8192}]}).encode()
END: Final = b"data: [DONE]\n\n"
RECEIVE_BYTES: Final = 4096


@asynccontextmanager
async def dripping(byte_s: float) -> AsyncIterator[str]:
    """An upstream that answers every chat with a stream of one byte each `byte_s` seconds, for ever. Its URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0
                )
                await reader.readexactly(length)
                if not head.startswith(b"post"):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(MODELS), MODELS))
                    continue
                writer.write(HEAD)
                while True:
                    for byte in EVENT:
                        writer.write(bytes([byte]))
                        await writer.drain()
                        await asyncio.sleep(byte_s)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the proxy left
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream as its client saw it."""

    mark: str
    status: int
    capture: str
    bytes: int
    whole: bool


async def sip(url: str, number: int, tokens: int, *, bytes_s: float, seconds: float) -> Stream:
    """Ask for a long stream and read it slowly for a while, then leave."""
    return await _stream(url, number, {"X-Fake-Tokens": str(tokens), "X-Fake-Burst": "64"}, bytes_s, seconds)


async def to_the_end(url: str, number: int, tokens: int, token_ms: float) -> Stream:
    """Ask for a paced stream and read it to its end."""
    return await _stream(url, number, {"X-Fake-Tokens": str(tokens), "X-Fake-Token-Ms": f"{token_ms:g}"}, None, None)


async def _stream(
    url: str, number: int, headers: dict[str, str], bytes_s: float | None, seconds: float | None
) -> Stream:
    """Refused: status 0. `whole`: the body ended as HTTP says, with [DONE]."""
    mark = f"mark-{number:03d}-000001"
    at = urlsplit(url)
    body = {"model": "fake-model", "stream": True, "messages": [{"role": "user", "content": f"{mark} is what I say."}]}
    sent = json.dumps(body).encode()
    lines = {"Host": at.netloc, "Content-Type": "application/json", "Content-Length": str(len(sent)), **headers}
    lines |= {"Connection": "close", "X-Memory-User": f"user-{number}"}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    raw = socket.socket()
    if bytes_s is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    raw.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(raw, (at.hostname, at.port))
        reader, writer = await asyncio.open_connection(sock=raw, limit=RECEIVE_BYTES)
    except OSError:
        raw.close()
        return Stream(mark, 0, "", 0, False)
    try:
        writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode() + sent)
        heard = _Heard()
        with suppress(OSError, EOFError, ValueError, asyncio.LimitOverrunError):  # TimeoutError is an OSError
            async with asyncio.timeout(seconds):
                await _read(reader, heard, bytes_s)
        return Stream(mark, heard.status, heard.capture, heard.bytes, heard.whole)
    finally:
        writer.transport.abort()


@dataclass(slots=True)
class _Heard:
    """What has come so far."""

    status: int = 0
    capture: str = ""
    bytes: int = 0
    whole: bool = False


async def _read(reader: asyncio.StreamReader, heard: _Heard, bytes_s: float | None) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    names = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])}
    heard.status, heard.capture, tail = int(head.split(" ", 2)[1]), names.get("x-memory-capture", ""), b""
    while piece := await reader.read(RECEIVE_BYTES if bytes_s is None else max(1, int(bytes_s / 4))):
        heard.bytes += len(piece)
        tail = (tail + piece)[-64:]
        if bytes_s is not None:
            await asyncio.sleep(0.25)
    heard.whole = END in tail and (names.get("transfer-encoding") != "chunked" or tail.endswith(b"0\r\n\r\n"))
