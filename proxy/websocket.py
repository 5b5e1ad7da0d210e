"""WebSockets for vLLM: the client's frames to the upstream and back, until either side ends.

Text, binary, ping, pong and close go through as they are. A refused handshake upstream is UpstreamUnreachable.
"""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import WSMsgType, web

from memory.errors import UpstreamUnreachable
from proxy.relay import Upstream, raw_target

_HANDSHAKE = frozenset(
    ("sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol")
)
Ends = aiohttp.ClientWebSocketResponse[bool] | web.WebSocketResponse[bool]


def is_websocket(request: web.Request) -> bool:
    """Whether the client asks for an upgrade to WebSocket."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def tunnel(request: web.Request, upstream: Upstream) -> web.StreamResponse:
    """Open the upstream's side first, then the client's, and carry frames both ways."""
    asked = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if name.strip()]
    headers = upstream.headers(request.raw_headers)
    for name in _HANDSHAKE:
        headers.popall(name, None)
    try:
        theirs = await upstream.websocket(raw_target(request), headers, asked)
    except (aiohttp.ClientError, OSError, TimeoutError) as exc:
        raise UpstreamUnreachable(f"vLLM refused the WebSocket ({type(exc).__name__})") from exc
    async with theirs:
        chosen = (theirs.protocol,) if theirs.protocol else ()
        ours = web.WebSocketResponse(protocols=chosen, autoping=False, max_msg_size=0)
        await ours.prepare(request)
        ways = [asyncio.create_task(_carry(ours, theirs)), asyncio.create_task(_carry(theirs, ours))]
        _, waiting = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in waiting:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        return ours


async def _carry(source: Ends, target: Ends) -> None:
    async for message in source:
        if message.type is WSMsgType.TEXT:
            await target.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await target.send_bytes(message.data)
        elif message.type is WSMsgType.PING:
            await target.ping(message.data)
        elif message.type is WSMsgType.PONG:
            await target.pong(message.data)
    await target.close(code=source.close_code or 1000)
