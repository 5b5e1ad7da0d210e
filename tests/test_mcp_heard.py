"""What a client says over stdio is answered, also where it says no more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, jsonrpc_message_adapter

from proxy.mcp_server.api_calls import Answered, Headers
from proxy.mcp_server.heard import Heard, Told
from proxy.mcp_server.server import build

OPENS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "script", "version": "1"}}


class Slow:
    """A service that takes its time."""

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Headers) -> Answered:
        await asyncio.sleep(0.05)
        return Answered("found", {})


def message(method: str, params: dict[str, Any] | None = None, **more: Any) -> SessionMessage:
    said = {"jsonrpc": "2.0", "method": method, "params": params or {}, **more}
    return SessionMessage(jsonrpc_message_adapter.validate_python(said, by_name=False))


async def test_what_was_asked_before_the_end_of_its_input_is_answered() -> None:
    calls: Any = Slow()
    into, read = anyio.create_memory_object_stream[SessionMessage | Exception](9)
    write, out = anyio.create_memory_object_stream[SessionMessage](9)
    await into.send(message("initialize", OPENS, id=1))
    await into.send(message("notifications/initialized"))
    await into.send(message("tools/call", {"name": "memory_search", "arguments": {"query": "boat"}}, id=2))
    await into.send(message("tools/call", {"name": "memory_search", "arguments": {"query": "boat"}}, id="given up"))
    await into.send(message("notifications/cancelled", {"requestId": "given up"}))
    await into.aclose()
    server, told = build(calls, "1"), Told(write)
    with read, write, out:
        await server.run(Heard(read, told), told, server.create_initialization_options())
        write.close()
        answered = [one.message.id async for one in out if isinstance(one.message, JSONRPCResponse)]
    assert answered == [1, 2]
