"""What a client says over stdio: the SDK's stream in, the messages in it out; what is no message is answered here.

The SDK drops such a line in silence, and its client waits for ever. JSON-RPC 2.0 (section 5.1) has an answer for it, as
the SDK itself gives over HTTP: without an id, where none is known. A call whose texts the SDK cannot hold (half a
surrogate pair, as a model leaves it that is stopped in an emoji) has one. Nothing else of the line is repeated. The SDK
ends with its input, and what was asked before that would get no answer: the end is told when all of it has one.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from anyio import EndOfStream
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError

from policies.text import storable
from proxy.mcp_server.api_calls import CALL_S

_CANCELLED: Final = "notifications/cancelled"
_NO_JSON: Final = ErrorData(code=PARSE_ERROR, message="Parse error: the line is no JSON")
_NO_TEXT: Final = ErrorData(code=PARSE_ERROR, message="Parse error: a text in it holds half a surrogate pair")
_NO_MESSAGE: Final = ErrorData(code=INVALID_REQUEST, message="Invalid request: the line is no JSON-RPC 2.0 message")


class Told:
    """The stream that answers go to; it knows what was asked and has none yet."""

    def __init__(self, write: WriteStream[SessionMessage]) -> None:
        self._write = write
        self._asked: set[RequestId] = set()
        self._answered = asyncio.Event()

    def asked(self, message: object) -> None:
        """Something came."""
        if isinstance(message, JSONRPCRequest):
            self._asked.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._asked.discard((message.params or {}).get("requestId", ""))

    async def all_answered(self) -> None:
        """Return when nothing waits any more, or has for longer than a call may take."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CALL_S):
                while self._asked:
                    self._answered.clear()
                    await self._answered.wait()

    async def send(self, item: SessionMessage, /) -> None:
        """Send one."""
        await self._write.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self._asked.discard(item.message.id)
            self._answered.set()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._write.aclose()

    async def __aenter__(self) -> Told:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Heard:
    """The messages of a stream."""

    def __init__(self, read: ReadStream[SessionMessage | Exception], told: Told) -> None:
        self._read = read
        self._told = told

    @property
    def last_context(self) -> Any:
        """The context that the last message was sent in."""
        return getattr(self._read, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        try:
            while isinstance(item := await self._read.receive(), ValidationError):
                if (refusal := _refusal(item)) is not None:
                    await self._told.send(SessionMessage(refusal))
        except EndOfStream:
            await self._told.all_answered()
            raise
        if isinstance(item, SessionMessage):
            self._told.asked(item.message)
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._read.aclose()

    def __aiter__(self) -> Heard:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Heard:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _refusal(refused: ValidationError) -> JSONRPCError | None:
    """What is wrong with a line; nothing is with an empty one."""
    first = refused.errors(include_url=False, include_context=False)[0]
    if first["type"] != "json_invalid":
        return JSONRPCError(jsonrpc="2.0", id=None, error=_NO_MESSAGE)
    line = str(first["input"])
    if not line.strip():
        return None
    called = _id_in(line)
    return JSONRPCError(jsonrpc="2.0", id=called, error=_NO_JSON if called is None else _NO_TEXT)


def _id_in(line: str) -> RequestId | None:
    """The id of a call that is JSON all the same: Python's own reader takes half a surrogate pair."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = said.get("id") if isinstance(said, dict) else None
    is_id = type(found) is int or (isinstance(found, str) and storable(found) == found)
    return found if is_id else None
