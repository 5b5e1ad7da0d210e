"""An answer that breaks off, or is not kept: told as what it is, never as whole, never begun a second time."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from memory.errors import NotFound, UpstreamUnreachable
from memory.telemetry import Metrics
from proxy import answering as module
from proxy.answering import Answering, InBackground, Outcome
from proxy.app import Handler, guarded
from proxy.limits import BYTES_PER_TOKEN, tokens_used
from proxy.passages import ENDED, Passages, answered
from proxy.relay import Upstream
from proxy.wire.answer import assemble_stream, parse_body

HEAD = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@asynccontextmanager
async def answering(raw: bytes) -> AsyncIterator[str]:
    """A proxy of the one step before an upstream that says these bytes and hangs up; its URL."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await writer.drain()
        writer.close()

    async def proxied(request: web.Request) -> web.StreamResponse:
        try:
            step = Answering(upstream, Metrics(), 1 << 20)
            outcome = await step.send(request, b"{}", CIMultiDict(), refused=lambda status, text: False)
        except UpstreamUnreachable:
            return web.Response(status=502)
        return outcome.response

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        there = server.sockets[0].getsockname()[1]
        upstream = Upstream(
            f"http://127.0.0.1:{there}", api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=4
        )
        app = web.Application()
        app.router.add_post("/", proxied)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
        finally:
            await runner.cleanup()
            await upstream.close()


async def asked(url: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as http, http.post(url, data=b"{}") as answer:
        return answer.status, await answer.read()


async def test_an_error_answer_that_breaks_off_before_it_is_passed_on_is_502() -> None:
    async with answering(HEAD % 500 + b"x" * 100) as url:
        assert await asked(url) == (502, b"")


async def test_a_long_error_answer_that_breaks_off_cuts_the_client() -> None:
    async with answering(HEAD % 500_000 + b"x" * 100_000) as url:
        with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
            await asked(url)


async def test_a_whole_error_answer_passes_as_it_is() -> None:
    async with answering(HEAD % 100_000 + b"x" * 100_000) as url:
        assert await asked(url) == (400, b"x" * 100_000)


# ---------------------------------------------------------------- what is kept, and what follows a head


Speaks = Callable[[asyncio.StreamWriter], Awaitable[None]]
Keeps = Callable[[Outcome], Awaitable[None]]
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
WHOLE = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{"choices":[]}'


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces)


@asynccontextmanager
async def kept(
    speaks: Speaks, keep: Keeps, metrics: Metrics, left: InBackground | None = None
) -> AsyncIterator[asyncio.StreamReader]:
    """What a client reads of an answer that `speaks` writes and `keep` is given."""

    async def upstream_speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await speaks(writer)
        writer.close()

    async def keeping(outcome: Outcome) -> None:
        await keep(outcome)

    async def proxied(request: web.Request) -> web.StreamResponse:
        step = Answering(upstream, metrics, 1 << 20)
        with Passages(metrics, None).of(request, "other") as passage:
            response = (await step.send(request, b"{}", CIMultiDict(), keep=keeping, left=left)).response
            answered(passage, response)
        return response

    async with await asyncio.start_server(upstream_speaks, "127.0.0.1", 0) as server:
        there = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        upstream = Upstream(there, api_key=None, replace_auth=False, connect_timeout_s=5, keepalive_s=4)
        try:
            async with client_of(proxied) as reader:
                yield reader
        finally:
            await upstream.close()


@asynccontextmanager
async def client_of(handler: Handler) -> AsyncIterator[asyncio.StreamReader]:
    """What a client reads that has asked this handler."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", guarded(handler))
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
    try:
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        async with asyncio.timeout(20):
            yield reader
    finally:
        writer.close()
        await runner.cleanup()


async def all_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection ends, however it does."""
    said = b""
    try:
        while piece := await reader.read(65_536):
            said += piece
    except ConnectionError:
        pass
    return said


async def test_what_is_being_kept_when_its_client_leaves_is_waited_for_at_the_end() -> None:
    begun, tasks, stored = asyncio.Event(), list[asyncio.Task[None]](), list[str]()

    async def speaks(writer: asyncio.StreamWriter) -> None:
        writer.write(WHOLE)

    async def keep(outcome: Outcome) -> None:
        begun.set()
        await asyncio.sleep(0.2)
        stored.append(outcome.status)

    def in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(work))
        return tasks[-1]

    async with kept(speaks, keep, Metrics(), in_background):
        await begun.wait()
    assert len(tasks) == 1 and not stored
    await asyncio.wait(tasks)
    assert stored


async def test_a_client_that_leaves_while_its_final_event_is_held_had_its_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, ends = asyncio.Event(), asyncio.Event()

    async def keep(outcome: Outcome) -> None:
        begun.set()
        await ends.wait()

    caplog.set_level(logging.INFO, "memory_proxy.request")
    async with kept(stream, keep, Metrics()) as reader:
        await reader.readuntil(TOKEN)
        await begun.wait()
    ends.set()
    (said,) = [one.__dict__["fields"] for one in caplog.records if one.getMessage() == "request"]
    assert (said["outcome"], said["http"]) == ("client_left", 200)
    assert said["bytes_out"] >= len(TOKEN)


def test_an_answer_that_the_end_of_the_service_cuts_is_not_said_to_be_its_clients_doing() -> None:
    request = make_mocked_request("POST", "/")
    assert module._why_left(request) == "client_left"
    request[ENDED] = True
    assert module._why_left(request) == "stopped"


async def fails(outcome: Outcome) -> None:
    raise KeyError("unforeseen")


async def whole(writer: asyncio.StreamWriter) -> None:
    writer.write(WHOLE)
    await writer.drain()


async def stream(writer: asyncio.StreamWriter) -> None:
    writer.write(EVENTS + chunked(TOKEN, DONE) + b"0\r\n\r\n")
    await writer.drain()


@pytest.mark.parametrize(("speaks", "end"), [(whole, b'{"choices":[]}'), (stream, b"0\r\n\r\n")])
async def test_an_answer_that_cannot_be_kept_arrives_whole_and_is_counted(speaks: Speaks, end: bytes) -> None:
    metrics = Metrics()
    async with kept(speaks, fails, metrics) as reader:
        said = await reader.readuntil(end)
    assert said.count(b"HTTP/1.1") == 1
    assert metrics.captures_lost._value.get() == 1


async def test_a_redirect_answers_nothing_and_is_not_kept() -> None:
    found: list[Outcome] = []

    async def speaks(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 307 Else\r\nLocation: http://login.example/\r\nContent-Length: 2\r\n\r\nno")

    async def keep(outcome: Outcome) -> None:
        found.append(outcome)

    async with kept(speaks, keep, Metrics()) as reader:
        head = await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(2) == b"no"
    assert b"\r\nX-Memory-Capture: off\r\n" in head
    assert not found


@pytest.mark.parametrize("coding", [b"br", b"zstd"])
async def test_an_answer_in_a_coding_that_is_not_read_says_so_in_the_log(
    caplog: pytest.LogCaptureFixture, coding: bytes
) -> None:
    found: list[Outcome] = []

    async def speaks(writer: asyncio.StreamWriter) -> None:
        writer.write(WHOLE.replace(b"\r\n\r\n", b"\r\nContent-Encoding: " + coding + b"\r\n\r\n"))

    async def keep(outcome: Outcome) -> None:
        found.append(outcome)

    async with kept(speaks, keep, Metrics()) as reader:
        await reader.readuntil(b'{"choices":[]}')
    assert [(one.status, one.answer) for one in found] == [("failed", None)]
    (said,) = [record for record in caplog.records if record.getMessage() == "answer_not_read"]
    assert coding.decode() in said.__dict__["fields"]["fault"]


async def test_an_answer_that_cannot_be_read_arrives_whole_and_is_kept_without_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(_: bytes) -> None:
        raise KeyError("unforeseen")

    outcomes: list[Outcome] = []

    async def keep(outcome: Outcome) -> None:
        outcomes.append(outcome)

    monkeypatch.setattr(module, "assemble_stream", breaks)
    async with kept(stream, keep, Metrics()) as reader:
        assert (await reader.readuntil(b"0\r\n\r\n")).count(DONE) == 1
    assert [(one.status, one.answer) for one in outcomes] == [("failed", None)]


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "complete", None),
        ("length", "complete", None),
        ("tool_calls", "complete", None),
        ("abort", "failed", "upstream_aborted"),
        ("error", "failed", "upstream_aborted"),
    ],
)
async def test_an_answer_that_vllm_breaks_off_with_a_final_event_is_no_whole_one(
    finish: str, status: str, reason: str | None
) -> None:
    last = b'data: {"choices":[{"delta":{},"finish_reason":"%b"}]}\n\n' % finish.encode()
    outcomes: list[Outcome] = []

    async def keep(outcome: Outcome) -> None:
        outcomes.append(outcome)

    async def speaks(writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + chunked(TOKEN, last, DONE) + b"0\r\n\r\n")
        await writer.drain()

    async with kept(speaks, keep, Metrics()) as reader:
        assert last in await reader.readuntil(b"0\r\n\r\n")
    assert [(one.status, one.reason) for one in outcomes] == [(status, reason)]
    assert outcomes[0].answer is not None and outcomes[0].answer.choices[0].content


@pytest.mark.parametrize("fault", [KeyError("unforeseen"), NotFound("late")], ids=["unforeseen", "refused"])
@pytest.mark.parametrize("length", [None, 100], ids=["chunked", "length"])
async def test_a_fault_behind_a_head_cuts_the_connection_and_begins_no_second_answer(
    fault: Exception, length: int | None
) -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = length
        await response.prepare(request)
        await response.write(b"half")
        raise fault

    async with client_of(breaks) as reader:
        said = await all_of(reader)
    assert said.count(b"HTTP/1.1") == 1
    assert b"memory_proxy_error" not in said
    assert not said.endswith(b"0\r\n\r\n")


async def test_the_final_event_does_not_wait_for_an_end_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A middlebox may keep the last chunk of a stream to itself; what it says later still arrives."""
    monkeypatch.setattr(module, "FINAL_EVENT_HOLD_S", 0.2)
    goes_on, outcomes = asyncio.Event(), list[Outcome]()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + chunked(TOKEN, DONE))
        await writer.drain()
        await goes_on.wait()
        writer.write(chunked(b": late\n\n") + b"0\r\n\r\n")
        await writer.drain()

    async def keep(outcome: Outcome) -> None:
        outcomes.append(outcome)

    began = time.monotonic()
    async with kept(slowly, keep, Metrics()) as reader:
        assert TOKEN in await reader.readuntil(DONE)
        assert time.monotonic() - began >= 0.2
        assert [one.status for one in outcomes] == ["complete"]
        goes_on.set()
        assert b": late" in await reader.readuntil(b"0\r\n\r\n")
    assert len(outcomes) == 1


async def test_an_upstream_that_dies_behind_its_final_event_cuts_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FINAL_EVENT_HOLD_S", 0.2)
    outcomes: list[Outcome] = []

    async def dies(writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + chunked(TOKEN, DONE))
        await writer.drain()
        await asyncio.sleep(1)

    async def keep(outcome: Outcome) -> None:
        outcomes.append(outcome)

    metrics = Metrics()
    async with kept(dies, keep, metrics) as reader:
        said = await all_of(reader)
    assert DONE in said and not said.endswith(b"0\r\n\r\n")
    assert [one.status for one in outcomes] == ["complete"]


@pytest.mark.parametrize(
    ("last", "status"),
    [(DONE, "complete"), (b"data: [DO", "failed"), (b"", "failed")],
    ids=["its final event", "a part of it", "an event"],
)
async def test_all_that_an_upstream_said_before_it_died_arrives(last: bytes, status: str) -> None:
    """And an answer that was said to its final event is whole to a client, which reads no further."""
    outcomes: list[Outcome] = []

    async def dies(writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + chunked(*filter(None, (TOKEN, last))))
        await writer.drain()

    async def keep(outcome: Outcome) -> None:
        outcomes.append(outcome)

    metrics = Metrics()
    async with kept(dies, keep, metrics) as reader:
        head, _, said = (await all_of(reader)).partition(b"\r\n\r\n")
    frames = said.split(b"\r\n")
    assert head.startswith(b"HTTP/1.1 200") and b"".join(frames[1::2]) == TOKEN + last
    assert b"0" not in frames[::2], "it has no end"
    assert [one.status for one in outcomes] == [status]
    assert metrics.registry.get_sample_value("memory_proxy_upstream_failures_total", {"phase": "midstream"}) == 1


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_what_a_model_thought_is_kept_watched_and_counted_under_either_name(name: str, streamed: bool) -> None:
    said = {"role": "assistant", name: "a thought of forty letters " * 2, "content": "Yes."}
    body = json.dumps({"choices": [{"index": 0, "delta" if streamed else "message": said, "finish_reason": "stop"}]})
    answer = assemble_stream(f"data: {body}\n\ndata: [DONE]\n\n".encode()) if streamed else parse_body(body.encode())
    outcome = Outcome(web.Response(), 200, answer=answer)
    assert outcome.answer_record()["choices"][0]["reasoning"] == said[name]
    assert outcome.texts() == ["Yes.", said[name]]
    assert tokens_used(0, answer) == (len(said[name]) + len("Yes.")) // BYTES_PER_TOKEN
