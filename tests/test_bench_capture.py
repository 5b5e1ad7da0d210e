"""The benchmark of capture counts as kept what is durable, and nothing else."""

from __future__ import annotations

import argparse
from typing import Any, cast

import pytest
from aiohttp import test_utils, web

from bench.capture import CONTROL, OFF, WRITE, _level, held_json, lines_of
from bench.overhead.load import Target
from bench.overhead.measure import Pace, Plan, Questions, measure_latency
from memory.ports import Entry
from memory.write.hand_off import HandOff, Where


class Says:
    """A hand-off that says where everything goes."""

    def __init__(self, where: Where) -> None:
        self._where: Where = where

    async def hand_off(self, entry: Entry) -> Where:
        return self._where


@pytest.mark.parametrize(("where", "kept"), [("queue", True), ("spool", True), ("none", False)])
async def test_what_is_in_memory_alone_is_not_kept(where: Where, kept: bool) -> None:
    arguments = argparse.Namespace(seconds=0.05, bytes=64)
    found = await _level(arguments, cast(HandOff, Says(where)), 2)
    assert (found["per_s"] > 0) is kept
    held: dict[str, Any] = {"held_ms": {"p50": 0.1, "p99": 0.2}, "chance_ms": {"p50": 0.0}, "errors": 0, "captures": {}}
    lines = lines_of({"always": {"held": held, "written": {"64": {**found, "by": {"undurable": 1}}}}})
    assert kept or [line.kept for line in lines if line.figure.startswith("exchanges kept")] == [False]


async def test_an_answer_that_is_not_kept_is_no_cheap_capture() -> None:
    """Queue and spool refuse: the answer goes on at once, and says so in its head."""

    async def answer(request: web.Request) -> web.StreamResponse:
        says = {"off": "off", "write": "none"}[request.headers["X-Memory-Mode"]]
        response = web.StreamResponse(headers={"X-Memory-Capture": says, "X-Memory-Status": "off"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    async with test_utils.TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        targets = [Target(name, url, (("X-Memory-Mode", name.split()[1]),)) for name in (OFF, CONTROL, WRITE)]
        plan = Plan(4, 1, 0.0, (1,), 4, None, 1)
        found = await measure_latency(targets, Pace("i", 0, 0), plan, Questions(), lambda text: None)
    held = held_json([found])
    assert held["captures"] == {"none": 4}
    lines = lines_of({"always": {"held": held, "written": {}}})
    assert [line.measured for line in lines if line.kept is False] == ["4"]
