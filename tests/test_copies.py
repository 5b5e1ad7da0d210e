"""A slow client holds up its own answer and nothing else: the upstream is not read ahead, copies keep their bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from multidict import CIMultiDict

from memory.telemetry import Metrics
from proxy.answering import Answering, Outcome
from proxy.copies import Copies, Copy
from proxy.relay import Upstream

# Far beyond what sockets, transports and readers hold for one answer (the kernel's two loopback pairs up to 20 MiB).
READ_AHEAD_MAX = 96 * 1024 * 1024
ADA, BOB = UUID(int=1), UUID(int=2)
EVENT = b"data: " + b"x" * 65_528 + b"\n\n"


def test_a_copy_beyond_its_own_bound_gives_back_what_it_held() -> None:
    copies = Copies(100, Metrics())
    copy = Copy(10, copies.of(ADA))
    copy.add(b"12345678")
    copy.add(b"123")
    assert (copy.refused, copy.chunks, copies.held) == ("answer_too_large", [], 0)
    copy.add(b"1")
    assert copies.held == 0


def test_the_gauge_says_what_is_held_while_it_is_held() -> None:
    metrics = Metrics()
    copies = Copies(1 << 30, metrics)
    copy = Copy(1 << 30, copies.of(ADA))
    for _ in range(48):
        copy.add(b"x" * 65_536)
    assert metrics.registry.get_sample_value("memory_proxy_copies_bytes") == 3 << 20
    copy.release()
    assert metrics.registry.get_sample_value("memory_proxy_copies_bytes") == 0


def test_copies_beyond_the_bound_of_all_are_refused_and_the_others_go_on() -> None:
    metrics = Metrics()
    copies = Copies(10, metrics)
    first, second = Copy(100, copies.of(ADA)), Copy(100, copies.of(ADA))
    first.add(b"12345")
    second.add(b"12345")
    second.add(b"1")
    assert (first.refused, second.refused, copies.held) == (None, "copies_full", 5)
    first.add(b"12345")
    assert b"".join(first.chunks) == b"1234512345"
    first.release()
    first.release()
    assert copies.held == 0
    count = metrics.registry.get_sample_value("memory_proxy_copies_refused_total", {"reason": "copies_full"})
    assert count == 1


def test_one_tenants_answers_leave_room_for_anothers() -> None:
    copies = Copies(1 << 20, Metrics(), tenants=True)
    flood = [Copy(1 << 20, copies.of(ADA)) for _ in range(128)]
    for one in flood:
        one.add(b"x" * 8_192)
    quiet = Copy(1 << 20, copies.of(BOB))
    quiet.add(b"x" * 8_192)
    assert "copies_full" in {one.refused for one in flood}
    assert quiet.refused is None


def test_a_copy_taken_over_is_given_back_once() -> None:
    copies = Copies(10, Metrics())
    mine = Copy(10, copies.of(ADA))
    mine.add(b"12345")
    other = mine.taken_over()
    mine.release()
    assert (copies.held, other.chunks) == (5, [b"12345"])
    other.release()
    assert copies.held == 0


class Endless:
    """An upstream that has always more to say, and counts what it could say."""

    def __init__(self) -> None:
        self.said = 0

    async def speak(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(EVENT)
            self.said += len(EVENT)

    async def stopped(self) -> int:
        """How much it had said when nobody took any more, or too much."""
        before = -1
        while before < self.said < READ_AHEAD_MAX:
            before = self.said
            await asyncio.sleep(0.5)
        return self.said


@asynccontextmanager
async def served(handler: Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "off"])
async def test_a_client_that_does_not_read_stops_the_upstream_and_its_copy_is_bounded(kept: bool) -> None:
    endless, metrics = Endless(), Metrics()
    copies, outcomes, done = Copies(1_048_576, metrics), [], asyncio.Event()

    async def keep(outcome: Outcome) -> None:
        outcomes.append(outcome)
        done.set()

    tasks = []
    async with served(endless.speak) as there:
        upstream = Upstream(
            f"http://127.0.0.1:{there}", api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=4
        )

        async def proxied(request: web.Request) -> web.StreamResponse:
            answering = Answering(upstream, metrics, 33_554_432 if kept else 0, copies.of(ADA))
            background = lambda work: tasks.append(asyncio.create_task(work))  # noqa: E731
            given = {"keep": keep, "left": background} if kept else {}
            return (await answering.send(request, b"{}", CIMultiDict(), **given)).response  # type: ignore[arg-type]

        async with served(proxied) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            assert b"200" in await reader.readline()
            assert await endless.stopped() < READ_AHEAD_MAX
            assert copies.held <= 1_048_576
            writer.transport.abort()
            if kept:
                async with asyncio.timeout(10):
                    await done.wait()
                assert [(one.status, one.reason) for one in outcomes] == [("partial", "copies_full")]
            assert copies.held == 0
        await upstream.close()
