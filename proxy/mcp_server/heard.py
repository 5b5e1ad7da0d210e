"""What a client says over stdio: the SDK's stream in, the messages in it out; what is no message is answered here.

The SDK drops such a line in silence, and its client waits for ever. JSON-RPC 2.0 (section 5.1) has an answer for it, as
the SDK itself gives over HTTP: without an id, since none is known. Nothing of the line is repeated.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

from anyio import EndOfStream
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

_NO_JSON: Final = ErrorData(code=PARSE_ERROR, message="Parse error: the line is no JSON")
_NO_MESSAGE: Final = ErrorData(code=INVALID_REQUEST, message="Invalid request: the line is no JSON-RPC 2.0 message")


class Heard:
    """The messages of a stream."""

    def __init__(self, read: ReadStream[SessionMessage | Exception], write: WriteStream[SessionMessage]) -> None:
        self._read = read
        self._write = write

    @property
    def last_context(self) -> Any:
        """The context that the last message was sent in."""
        return getattr(self._read, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        while isinstance(item := await self._read.receive(), ValidationError):
            if (fault := _fault(item)) is not None:
                await self._write.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=fault)))
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


def _fault(refused: ValidationError) -> ErrorData | None:
    """What is wrong with a line; nothing is with an empty one."""
    first = refused.errors(include_url=False, include_context=False)[0]
    if first["type"] != "json_invalid":
        return _NO_MESSAGE
    return _NO_JSON if str(first["input"]).strip() else None
