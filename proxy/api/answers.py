"""Answers of the own API: a model or a JSON value in, a response out, UTF-8."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel

from memory.errors import MemoryProxyFault
from memory.off_loop import off_loop
from memory.passage import note
from memory.telemetry import event
from policies.text import storable_json
from proxy.app import route_of
from proxy.relay import cut

ROW_AS_BYTES: Final = 8_192
"""A row of a list is as much work as so many bytes of a body: 1,000 memories held the event loop for 33 to 68 ms."""
log: Final = logging.getLogger("memory_proxy.api")


def said(body: BaseModel, status: int = 200) -> web.Response:
    """A model as JSON."""
    return json_answer(body.model_dump(mode="json"), status)


async def listed(rows: int, make: Callable[[], BaseModel]) -> web.Response:
    """A list of so many rows as JSON, made beside the event loop where they are many."""
    body = await off_loop(rows * ROW_AS_BYTES, lambda: dumped(make().model_dump(mode="json")))
    return web.Response(body=body, content_type="application/json")


def json_answer(body: Any, status: int = 200) -> web.Response:
    """A JSON value as a response."""
    return web.Response(status=status, body=dumped(body), content_type="application/json")


def dumped(body: Any) -> bytes:
    """JSON in UTF-8, one line. Half a surrogate pair, which UTF-8 has no form for, becomes U+FFFD."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(storable_json(body), ensure_ascii=False, separators=(",", ":")).encode()


def broken_off(request: web.Request, fault: MemoryProxyFault) -> None:
    """What is to be done where an answer that has begun cannot go on: its client is cut off, so that it cannot take the
    part for the whole, and the log says why.
    """
    note(outcome="failed")
    event(log, "answer_broken_off", logging.WARNING, route=route_of(request), fault=str(fault) or type(fault).__name__)
    cut(request)
