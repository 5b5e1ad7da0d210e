"""Pace and faults of one answer: (events, Fault) -> Plan, which is pure; then the Plan -> socket.

The plan says every socket write with the pause before it, and whether the stream ends cleanly. At
pace 0 the first event is written alone and the others in bursts of 16, which costs 0.3 ms of CPU for a
64-token stream (0.7 ms with bursts of 1); with a pace every event is a write of its own, as vLLM's are.
"""

import asyncio
import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from bench.fake_vllm.render_chat import DONE
from bench.fake_vllm.settings import Fault

# vLLM dumps this one with json.dumps, so with spaces, unlike all other events.
ERROR_EVENT = (
    b"data: %b\n\n"
    % json.dumps(
        {"error": {"message": "Internal server error", "type": "InternalServerError", "param": None, "code": 500}}
    ).encode()
)
KEEP_ALIVE = b": keep-alive\n\n"
GZIP_WINDOW_BITS = 31
FLUSH_POLL_S = 0.001


@dataclass(frozen=True, slots=True)
class Write:
    """One socket write: seconds to wait first, then these bytes."""

    after_s: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """All writes of one stream; `dies`: the socket is then closed without an end of the body."""

    writes: tuple[Write, ...]
    dies: bool


def _faulty(events: Sequence[bytes], fault: Fault) -> tuple[list[bytes], bool]:
    """The events that are left after the fault, and whether the stream dies behind them."""
    out, dies = list(events), False
    if fault.error_after is not None:
        out = [*out[: fault.error_after], ERROR_EVENT, DONE]
    if fault.die_after is not None:
        out, dies = out[: fault.die_after], True
    if fault.keep_alive > 0:
        out = [KEEP_ALIVE + event if i % fault.keep_alive == 0 else event for i, event in enumerate(out)]
    return out, dies


def _timed(events: Sequence[bytes], fault: Fault) -> list[Write]:
    if fault.token_ms > 0:
        pace_s = fault.token_ms / 1000
        return [
            Write(fault.first_ms / 1000 if i == 0 else 0.0 if event is DONE else pace_s, event)
            for i, event in enumerate(events)
        ]
    burst = max(fault.burst, 1)
    rest = events[1:]
    bursts = [Write(0.0, b"".join(rest[i : i + burst])) for i in range(0, len(rest), burst)]
    return [Write(fault.first_ms / 1000, b"".join(events[:1])), *bursts]


def _compressed(writes: Sequence[Write]) -> list[Write]:
    packer = zlib.compressobj(wbits=GZIP_WINDOW_BITS)
    out = [Write(w.after_s, packer.compress(w.data) + packer.flush(zlib.Z_SYNC_FLUSH)) for w in writes]
    return [*out, Write(0.0, packer.flush())]


def _cut(writes: Sequence[Write], size: int) -> list[Write]:
    return [
        Write(w.after_s if i == 0 else 0.0, w.data[i : i + size])
        for w in writes
        for i in range(0, max(len(w.data), 1), size)
    ]


def plan_stream(events: Sequence[bytes], fault: Fault) -> Plan:
    """Lay out one stream. Bytes are changed by error_after, keep_alive and gzip only."""
    kept, dies = _faulty(events, fault)
    writes = _timed(kept, fault)
    if fault.gzip:
        writes = _compressed(writes)
    if fault.split > 0:
        writes = _cut(writes, fault.split)
    return Plan(tuple(w for w in writes if w.data or w.after_s), dies)


async def cut_connection(request: web.Request) -> None:
    """Close the client's socket without ending the HTTP message, after what was written has left."""
    transport = request.transport
    if transport is None:
        return
    for _ in range(1000):
        if not transport.get_write_buffer_size():
            break
        await asyncio.sleep(FLUSH_POLL_S)
    transport.abort()


async def send_stream(request: web.Request, plan: Plan, fault: Fault) -> web.StreamResponse:
    """Send the head at once (as uvicorn does, before the first token), then the plan.

    Raises ConnectionResetError or CancelledError when the client leaves.
    """
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    if fault.gzip:
        response.headers["Content-Encoding"] = "gzip"
    await response.prepare(request)
    for write in plan.writes:
        if write.after_s:
            await asyncio.sleep(write.after_s)
        await response.write(write.data)
        if fault.split:
            await asyncio.sleep(0)
    if plan.dies:
        await cut_connection(request)
    else:
        await response.write_eof()
    return response


async def send_endless(request: web.Request) -> web.StreamResponse:
    """Send a body without end. Raises ConnectionResetError or CancelledError when the client leaves."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"choices":[{"message":{"content":"')
    while True:
        await response.write(b"and on " * 1024)
        await asyncio.sleep(0)


async def send_body(request: web.Request, body: bytes, tokens: int, fault: Fault) -> web.StreamResponse:
    """Send a whole answer after the time its tokens take; die_after cuts it in the middle."""
    pause_s = (fault.first_ms + fault.token_ms * max(tokens - 1, 0)) / 1000
    if pause_s:
        await asyncio.sleep(pause_s)
    headers = {"Content-Type": "application/json"}
    if fault.gzip:
        body, headers["Content-Encoding"] = gzip.compress(body, mtime=0), "gzip"
    if fault.die_after is None and fault.split <= 0:
        return web.Response(body=body, headers=headers)
    response = web.StreamResponse(headers={**headers, "Content-Length": str(len(body))})
    await response.prepare(request)
    kept = body if fault.die_after is None else body[: len(body) // 2]
    for part in _cut([Write(0.0, kept)], fault.split if fault.split > 0 else len(body)):
        await response.write(part.data)
        await asyncio.sleep(0)
    if fault.die_after is not None:
        await cut_connection(request)
    return response
