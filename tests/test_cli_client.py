"""The command line against a service that answers oddly: a small server of the test's own, the real commands."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from memory.__main__ import _parser
from memory.config import Settings, write_private
from memory.erasure.receipt import signed
from memory.master import RECEIPTS, load_or_create_master_key, master_key
from policies.api_key import PREFIX_BYTES, SECRET_BYTES, secret_of
from proxy.__main__ import main
from proxy.cli import forget, redact, reembed
from proxy.cli.parser import build_parser
from proxy.cli.verbs import key_value
from proxy.cli.whole_file import whole_file
from tests.at_terminal import at_terminal
from tests.waiting import wait_until

NDJSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
LINE = b'{"type":"turn","content":"one"}\n'
CHUNK = b"%x\r\n%s\r\n" % (len(LINE), LINE)


@contextmanager
def answering(answer: bytes, asked: list[bytes] | None = None, *then: bytes) -> Iterator[str]:
    """The URL of a server that gives these bytes to whoever asks, and hangs up. `asked` takes the requests, and `then`
    is given to those that come after the first.
    """
    answers = chain([answer, *then], repeat((then or (answer,))[-1]))

    def serve() -> None:
        for one in answers:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                request = _received(peer)
                if asked is not None:
                    asked.append(request)
                peer.sendall(one)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def whole(body: Any) -> bytes:
    """A whole answer with this JSON."""
    raw = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(raw), raw)


def _received(peer: socket.socket) -> bytes:
    """A request, as whole as its head says it is; one that stops before is given up after a second of silence."""
    request = b""
    peer.settimeout(1)
    with suppress(TimeoutError):
        while not _is_whole(request) and (piece := peer.recv(65_536)):
            request += piece
    return request


def _is_whole(request: bytes) -> bool:
    head, ended, body = request.partition(b"\r\n\r\n")
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: (\d+)", head.lower())
    return bool(ended) and len(body) >= int(length[1] if length else 0)


@pytest.mark.parametrize("end", [b"", CHUNK[:9], CHUNK[:-2]])
def test_half_an_export_is_not_taken_for_a_whole_one(
    end: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(NDJSON + CHUNK + end) as url:
        assert main(["export", str(tmp_path / "out.ndjson"), "--url", url]) == 1
    assert "broke off" in capsys.readouterr().err


def test_a_whole_export_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(NDJSON + CHUNK + CHUNK + b"0\r\n\r\n") as url:
        assert main(["export", str(tmp_path / "out.ndjson"), "--url", url]) == 0
    assert (tmp_path / "out.ndjson").read_bytes() == LINE * 2
    assert "2 lines" in capsys.readouterr().err


def test_an_export_to_a_file_says_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.cli.data._SHOWN_EACH_S", 0.0)
    with answering(NDJSON + CHUNK + CHUNK + b"0\r\n\r\n") as url:
        assert main(["export", str(tmp_path / "out.ndjson"), "--url", url]) == 0
        assert capsys.readouterr().err == "1 lines\n2 lines\n"
        assert main(["export", "-", "--url", url]) == 0
        assert capsys.readouterr().err == "2 lines\n"


def test_half_a_file_is_not_taken_for_a_whole_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf") as url:
        assert main(["artifacts", "get", "a", "-o", str(tmp_path / "file"), "--url", url]) == 1
    assert "996 bytes are missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "head"),
    [
        (("export", "FILE"), NDJSON),
        (("artifacts", "get", "a", "-o", "FILE"), b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
    ],
)
def test_a_file_that_stands_is_kept_until_the_new_one_is_whole(
    words: tuple[str, ...], head: bytes, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"the last good one")
    kept.chmod(0o600)
    named = [str(kept) if word == "FILE" else word for word in words]
    with answering(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n") as url:
        assert main([*named, "--url", url]) == 1
    with answering(head + CHUNK[:8]) as url:
        assert main([*named, "--url", url]) == 1
    assert kept.read_bytes() == b"the last good one"
    assert list(tmp_path.iterdir()) == [kept]
    end = b"a new one" if words[0] == "artifacts" else CHUNK + b"0\r\n\r\n"
    with answering(head + end) as url:
        assert main([*named, "--url", url]) == 0
    assert kept.read_bytes() == (b"a new one" if words[0] == "artifacts" else LINE)
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_called_as_it_was(tmp_path: Path) -> None:
    """Not by the name of the one beside it that takes its place."""
    file = tmp_path / "nowhere" / "out.ndjson"
    with pytest.raises(OSError) as caught, whole_file(file):
        raise AssertionError
    assert caught.value.filename == str(file)


def test_of_two_who_write_a_file_at_once_each_writes_a_whole_one(tmp_path: Path) -> None:
    """A backup by the hour that takes longer than an hour; and what else is there is nobody's to write over."""
    own = tmp_path / "out.ndjson.part"
    own.write_bytes(b"mine")
    with whole_file(tmp_path / "out.ndjson") as first, whole_file(tmp_path / "out.ndjson") as second:
        first.write(LINE * 3)
        second.write(b"another")
    assert (tmp_path / "out.ndjson").read_bytes() == LINE * 3
    assert (own.read_bytes(), len(list(tmp_path.iterdir()))) == (b"mine", 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_export_that_is_ended_leaves_no_half_file(number: signal.Signals, tmp_path: Path) -> None:
    """Words of a user would lie there, under a name that nobody looks for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        heard = partial(signal.signal, number, signal.SIG_DFL)  # who runs the tests may ignore it
        process = started("export", str(tmp_path / "out.ndjson"), "--url", url, preexec_fn=heard)
        peer, _ = listener.accept()
        with peer, process:
            peer.sendall(NDJSON + CHUNK)
            wait_until(lambda: list(tmp_path.iterdir()), what="the file is begun")
            process.send_signal(number)
            assert process.wait(20) == -number
    assert list(tmp_path.iterdir()) == []


LOADED_IN_C = """
import os, signal
try:
    os.kill(os.getpid(), signal.{name})
    for _ in range(1000): pass
except BaseException as fault:
    raise ImportError("initialization failed") from fault
def command(settings, given): return 0
"""
RUNS_IT = """
import sys, memory
from memory import __main__ as program
memory.__path__.append({place!r})
program.COMMANDS = {{"worker": "loaded_in_c.command"}}
sys.argv = ["memory", "worker"]
sys.exit(program.main())
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", -signal.SIGTERM), ("SIGINT", 130)])
def test_a_worker_that_is_ended_while_it_loads_ends_quietly(name: str, code: int, tmp_path: Path) -> None:
    """Loading onnxruntime makes an ImportError of whatever interrupts it: its traceback stood in the service's log."""
    (tmp_path / "loaded_in_c.py").write_text(LOADED_IN_C.format(name=name))
    write_private(Settings(), tmp_path / "settings.json")
    env = {**os.environ, "MEMORY_PROXY_SETTINGS": str(tmp_path / "settings.json")}
    command = [sys.executable, "-c", RUNS_IT.format(place=str(tmp_path))]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("command", ["export", "import"])
def test_a_page_of_another_server_is_no_export_and_no_import(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(LINE)
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
    with answering(page) as url:
        assert main([command, str(kept), "--url", url]) == 1
    assert kept.read_bytes() == LINE
    assert capsys.readouterr().err == f"memory-proxy: {url} did not answer as a memory-proxy does; is it one? (--url)\n"


@pytest.mark.parametrize("line", [b"hello\n", b"[]\n", b"{}\n"])
def test_lines_of_another_program_are_no_progress(
    line: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "past.ndjson").write_bytes(LINE)
    with answering(NDJSON + b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line)) as url:
        assert main(["import", str(tmp_path / "past.ndjson"), "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"memory-proxy: {url} did not answer as a memory-proxy does") and said.count("\n") == 1


def test_an_import_that_takes_time_says_how_much_was_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("proxy.cli.data._SHOWN_EACH_S", 0)
    monkeypatch.setattr("proxy.cli.progress.LINE_EVERY_S", 0)
    (tmp_path / "past.ndjson").write_bytes(LINE * 40_000)
    line = b'{"accepted":1,"done":1,"failed":0,"complete":true}\n'
    with answering(NDJSON + b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line)) as url:
        assert main(["import", str(tmp_path / "past.ndjson"), "--url", url]) == 0
    said = capsys.readouterr().err
    assert f"sent {40_000 * len(LINE) / 1_000_000:.1f} MB\naccepted 1" in said


def test_an_import_that_breaks_off_says_what_became_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A service that is killed: what it accepted is durable, and the same lines again are no others."""
    (tmp_path / "past.ndjson").write_bytes(LINE)
    line = b'{"accepted":1,"done":0,"failed":0}\n'
    with answering(NDJSON + b"%x\r\n%s\r\n" % (len(line), line)) as url:
        assert main(["import", str(tmp_path / "past.ndjson"), "--url", url]) == 1
    said = capsys.readouterr().err
    assert "what was accepted is stored all the same, and the same command goes on\n" in said
    assert f"memory-proxy: {url} broke off in the middle of its answer" in said


def test_lines_without_a_session_go_into_the_same_one_when_their_file_is_sent_again(tmp_path: Path) -> None:
    asked: list[bytes] = []
    one, other = tmp_path / "one.ndjson", tmp_path / "other.ndjson"
    one.write_bytes(LINE)
    other.write_bytes(LINE)
    last = b'{"accepted":1,"done":1,"failed":0,"complete":true}\n'
    with answering(NDJSON + b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last), asked) as url:
        for file in (one, one, other):
            assert main(["import", str(file), "--url", url]) == 0
        process = started("import", "-", "--url", url, stdin=subprocess.PIPE)
        process.communicate(LINE, 30)
    sessions = [re.findall(rb"(?i)x-memory-session: (\S+)", request) for request in asked]
    (first,), again, (another,), of_a_pipe = sessions
    assert again == [first] != [another] and of_a_pipe == []


@pytest.mark.parametrize(
    ("queue", "why"),
    [({"ok": False, "error": "disk full"}, "queue: disk full"), ({"ok": True}, "all its parts answer")],
)
def test_an_import_that_stands_still_says_what_hinders_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, queue: dict[str, Any], why: str
) -> None:
    (tmp_path / "past.ndjson").write_bytes(LINE)
    monkeypatch.setattr("proxy.cli.data.STILL_S", 0.0)
    still, done = b'{"accepted":1,"done":0,"failed":0}\n', b'{"accepted":1,"done":1,"failed":0,"complete":true}\n'
    body = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in (still, still, still, done))
    ready = whole({"dependencies": {"store": {"ok": True}, "queue": queue}})
    with answering(NDJSON + body + b"0\r\n\r\n", None, ready) as url:
        assert main(["import", str(tmp_path / "past.ndjson"), "--url", url]) == 0
    assert capsys.readouterr().err.count(why) == 1


def test_an_export_goes_into_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with answering(NDJSON + CHUNK + b"0\r\n\r\n") as url:
        assert main(["export", str(pipe), "--url", url]) == 0
    reader.join()
    assert read == [LINE]


def test_a_file_on_stdout_is_its_bytes_alone(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbytes") as url:
        assert main(["artifacts", "get", "a", "--json", "--url", url]) == 0
    assert capfdbinary.readouterr().out == b"bytes"


NESTED = b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000
EMPTY = b"Content-Length: 0\r\n\r\n"


@pytest.mark.parametrize("answer", [b"Content-Length: 1000\r\n\r\n{", b"Content-Length: 4\r\n\r\n<ok>", NESTED, EMPTY])
@pytest.mark.parametrize("words", [("sessions",), ("tasks", "list"), ("search", "boat")])
def test_an_answer_that_cannot_be_read_is_told_in_a_line(
    words: tuple[str, ...], answer: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(b"HTTP/1.1 200 OK\r\n" + answer) as url:
        assert main([*words, "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith("memory-proxy: http://127.0.0.1:")
    assert said.count("\n") == 1


@pytest.mark.parametrize("answer", [{"status": "ok"}, {"data": [{"other": 1}], "next_cursor": None}, [1], "x"])
@pytest.mark.parametrize(
    "words",
    [
        ("search", "boat", "--explain"),
        ("search", "--retrieval", "r"),
        ("sessions", "s"),
        ("memories", "review"),
        ("memories", "m", "--confirm"),
        ("memories", "m", "--delete"),
        ("memories", "m", "--undelete"),
        ("preferences",),
        ("tasks", "list"),
        ("tasks", "graph"),
        ("tasks", "show", "t"),
        ("entities", "list"),
        ("documents", "list"),
        ("artifacts", "list"),
        ("checkpoint", "list"),
        ("persona", "list"),
        ("outside", "boat"),
        ("replay", "r"),
        ("forget", "--user", "ada", "--yes"),
    ],
)
def test_another_programs_answer_is_told_in_a_line(
    words: tuple[str, ...], answer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(whole(answer)) as url:
        assert main([*words, "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"memory-proxy: {url} did not answer as a memory-proxy does") and said.count("\n") == 1


def started(*words: str, environ: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    argv = [sys.executable, "-P", "-m", "proxy", *words]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, env={**os.environ, **(environ or {})}, **more)


def test_ctrl_c_ends_an_import_without_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # who runs the tests may ignore it
        process = started("import", "-", "--url", url, stdin=subprocess.PIPE, preexec_fn=heard)
        with listener.accept()[0], process:
            time.sleep(0.2)  # until it waits for its input
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert process.stderr is not None
            assert process.stderr.read() == b""


def test_a_reader_that_is_gone_is_no_fault_to_speak_of() -> None:
    task: dict[str, Any] = {"id": "1", "status": "queued", "title": "t", "waits_for": [], "checkpoint": None}
    body = json.dumps({"data": [task] * 5}).encode()
    reader, writer = os.pipe()
    os.close(reader)
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body) as url:
        # What argparse shows it may write itself, and then it keeps the fault to itself (Python 3.11).
        for words, codes in ((("tasks", "list", "--url", url), (1,)), (("--help",), (0, 1))):
            with started(*words, stdout=writer) as process:
                assert process.wait(20) in codes
                assert process.stderr is not None
                assert process.stderr.read() == b""
    os.close(writer)


@pytest.mark.parametrize("words", [("artifacts", "get", "a"), ("documents", "list")])
def test_a_reader_that_leaves_in_the_middle_is_no_fault_to_speak_of(words: tuple[str, ...]) -> None:
    """More than a pipe holds: it is written while the command is at it, not at its end."""
    found = [{**DOCUMENT, "name": "n" * 1000}] * 300
    reader, writer = os.pipe()
    os.close(reader)
    served = whole({"data": found, "next_cursor": None})
    with answering(served) as url, started(*words, "--url", url, stdout=writer) as process:
        assert process.wait(20) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(writer)


@pytest.mark.parametrize("words", [("init", "--force"), ("sessions",), ("doctor", "--upstream", "nothing")])
def test_a_full_disk_is_told_in_a_line(words: tuple[str, ...], tmp_path: Path) -> None:
    with answering(whole({"data": [], "next_cursor": None})) as url, open("/dev/full", "wb") as full:
        where = ("--url", url) if words[0] == "sessions" else ()
        with started(*words, *where, stdout=full, cwd=tmp_path) as process:
            assert process.wait(60) == 1
            assert process.stderr is not None
            said = process.stderr.read()
    assert said.startswith(b"memory-proxy: ") and b"No space left on device" in said and said.count(b"\n") == 1, said


@pytest.mark.parametrize(("file", "says"), [("x" * 300, "File name too long"), (".", "Is a directory")])
def test_a_file_that_can_be_none_is_told_by_init(file: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", file, "--force"]) == 1
    assert main(["init", file]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert says in first and second.startswith("memory-proxy: ")


def test_a_configuration_stays_where_init_finds_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`init --force` had emptied it by then, and the next start would have been one with the defaults."""
    (tmp_path / "config.yaml").write_text("listen:\n  port: 1\n")
    monkeypatch.chdir(tmp_path)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
        assert main(["init", "--force"]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    assert (tmp_path / "config.yaml").read_text() == "listen:\n  port: 1\n"
    assert [one.name for one in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize("words", [("import", "--help"), ("doctor", "--upstream", "nothing")])
def test_a_terminal_that_cannot_show_a_character_is_shown_an_escape(words: tuple[str, ...]) -> None:
    with started(*words, environ={"PYTHONIOENCODING": "ascii"}, stdout=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)
    assert (b"\\u2026" in out or b"\\u2014" in out) and err == b""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("words", [("search", "boat"), ("tasks", "list"), ("documents", "list")])
def test_json_is_json_whatever_a_terminal_can_show(words: tuple[str, ...], encoding: str) -> None:
    said = {"data": ["caf\xe9 \u0142 \U0001f600"], "candidates": []}
    with answering(whole(said)) as url:
        argv = (*words, "--json", "--url", url)
        with started(*argv, environ={"PYTHONIOENCODING": encoding}, stdout=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=60)
    assert (json.loads(out.decode(encoding)), err) == (said, b"")


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("tasks", "show", "a b/?#c"), b"/memory/v1/tasks/a%20b%2F%3F%23c"),
        (("tasks", "show", "\udcff"), b"/memory/v1/tasks/%FF"),
        (("entities", "unrelate", "a/b"), b"/memory/v1/relationships/a%2Fb"),
        (("artifacts", "delete", "a?b"), b"/memory/v1/artifacts/a%3Fb"),
        (("sessions", "\udcff"), b"/memory/v1/sessions/%FF"),
        (("memories", "--kind", "\udcff"), b"/memory/v1/memories?limit=50&kind=%FF"),
        (("search", "boat", "--user", "\udcff"), b"/memory/v1/search"),
    ],
)
def test_an_odd_id_is_the_services_to_refuse(words: tuple[str, ...], path: bytes) -> None:
    asked: list[bytes] = []
    with answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", asked) as url:
        assert main([*words, "--url", url]) == 1
    assert asked[0].split(b" ")[1] == path


@pytest.mark.parametrize("end", ["/v1", "/v1/"])
def test_the_address_may_be_that_of_an_openai_client(end: str) -> None:
    """It is the one that people have at hand. They read `404 Not Found`, which vLLM said of /v1/memory/v1/search."""
    asked: list[bytes] = []
    with answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", asked) as url:
        assert main(["search", "boat", "--url", url + end]) == 1
        assert main(["forget", "--user", "ada", "--dry-run", "--url", url + end]) == 1
        with started("chat", "-m", "Hello?", "--model", "m", "--url", url + end) as process:
            assert process.wait(60) == 1
    paths = [b"/memory/v1/search", b"/memory/v1/forget", b"/v1/chat/completions"]
    assert [one.split(b" ")[1] for one in asked] == paths
    assert build_parser(["mcp"]).parse_args(["mcp", "--url", f"http://h:1{end}"]).url == "http://h:1"


@pytest.mark.parametrize("command", ["documents", "artifacts"])
def test_a_file_that_cannot_be_read_is_named_as_it_was_given(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of `.` nothing was told, and of `a/b.md` no directory."""
    for given, why in ((".", "Is a directory"), ("none/b.md", "No such file or directory")):
        assert main([command, "add", given, "--url", "http://127.0.0.1:1"]) == 1
        assert capsys.readouterr().err.removeprefix("memory-proxy: ") == f"{given} cannot be read: {why}\n"


@pytest.mark.parametrize(
    ("search", "said"), [("nothing", "nothing was found"), ("unreachable", "the search failed (unreachable); `memory-")]
)
def test_a_search_without_a_page_says_why(search: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`no page: unreachable`, it said where the search service of the configuration did not answer."""
    with answering(whole({"search": search, "pages": [], "missed": [], "integrity": "web"})) as url:
        assert main(["outside", "the latest version of PostgreSQL", "--url", url]) == 1
    assert capsys.readouterr().out.startswith(f"no page: {said}")


def test_a_service_that_is_not_there_is_told_without_the_words_of_a_library(capsys: pytest.CaptureFixture[str]) -> None:
    """`<urlopen error [Errno 111] Connection refused>` was told."""
    assert main(["search", "boat", "--url", "http://127.0.0.1:1"]) == 1
    assert "does not answer (Connection refused); is `memory-proxy serve` running there?" in capsys.readouterr().err


def test_a_checkpoint_is_not_compared_with_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """`3 the same` was said of a name alone, with exit code 0."""
    assert main(["checkpoint", "diff", "plan", "--url", "http://127.0.0.1:1"]) == 1
    assert "--from N" in capsys.readouterr().err


def test_no_checkpoint_of_one_conversation_is_not_told_of_the_whole_scope(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(whole({"data": [], "more": False, "next_cursor": None})) as url:
        assert main(["checkpoint", "list", "--session", "trip", "--url", url]) == 0
    assert capsys.readouterr().out == "none\n"


def test_another_server_is_not_taken_for_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b'HTTP/1.1 404 Not Found\r\nContent-Length: 22\r\n\r\n{"detail":"Not Found"}') as url:
        assert main(["search", "boat", "--url", url]) == 1
    assert "404 Not Found, and not as a memory-proxy says it" in capsys.readouterr().err


RECORDS = ("artifacts", "entities", "tasks", "persona")
OF_ONE = [
    *((command, *of) for command in RECORDS for of in (("show", b"GET", b""), ("delete", b"DELETE", b""))),
    *((command, "undelete", b"POST", b"/undelete") for command in RECORDS),
    *((command, "history", b"GET", b"/history") for command in ("tasks", "entities")),
    ("entities", "split", b"POST", b"/split"),
    ("artifacts", "caption", b"POST", b"/caption"),
    ("checkpoint", "delete", b"DELETE", b""),
    ("checkpoint", "undelete", b"POST", b"/undelete"),
]


@pytest.mark.parametrize(("command", "verb", "method", "behind"), OF_ONE)
def test_a_verb_of_one_record_is_one_call_to_where_it_stands(
    command: str, verb: str, method: bytes, behind: bytes
) -> None:
    asked: list[bytes] = []
    with answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", asked) as url:
        assert main([command, verb, "one", "--url", url]) == 1
    kind = command.removesuffix("s").encode() + b"s"
    assert asked[0].split(b" ")[:2] == [method, b"/memory/v1/" + kind + b"/one" + behind]


@pytest.mark.parametrize("name", ["user", "project", "agent"])
def test_an_empty_name_is_the_services_to_refuse(name: str) -> None:
    """As a variable that is not set leaves it: that is nobody's memory, and not that of `default`."""
    asked: list[bytes] = []
    with answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", asked) as url:
        assert main(["search", "boat", f"--{name}", "", "--url", url]) == 1
    assert b"\r\nX-Memory-%s: \r\n" % name.capitalize().encode() in asked[0]


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (("documents", "add", "FILE", "--session", ""), b'name="session"\r\n\r\n\r\n'),
        (("artifacts", "add", "FILE", "--session", ""), b'name="session"\r\n\r\n\r\n'),
        (("tasks", "add", "t", "--session", ""), b'"session": ""'),
        (("tasks", "add", "t", "--checkpoint", ""), b'"checkpoint": ""'),
        (("checkpoint", "branch", "a", "b", "--from-project", ""), b'"from_project": ""'),
    ],
)
def test_an_empty_conversation_is_the_services_to_refuse(words: tuple[str, ...], sent: bytes, tmp_path: Path) -> None:
    """As a variable that is not set leaves it: what was to be one conversation's became everybody's."""
    (tmp_path / "file.txt").write_text("hello")
    asked: list[bytes] = []
    with answering(b"HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n", asked) as url:
        named = (str(tmp_path / "file.txt") if word == "FILE" else word for word in words)
        assert main([*named, "--url", url]) == 1
    assert sent in asked[0]


def test_an_empty_name_is_not_taken_for_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a variable that is not set leaves it: something else was done, and said to be done well."""
    told: list[Sequence[str]] = []

    def run(_: object, words: Sequence[str]) -> int:
        told.append(words)
        return 0

    monkeypatch.setattr(reembed, "run_beside", run)
    monkeypatch.setenv("MEMORY_PROXY_KEY", "mp-of-another")
    assert main(["key", "token", "--from", "", "--user", "ada"]) == 1
    assert "give a key or a token" in capsys.readouterr().err
    assert main(["reembed", "--to", ""]) == 0
    assert told[0][:3] == ["reembed", "--mode", "fill"] and "--to=" in told[0]
    refused = b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"
    asked: list[bytes] = []
    with answering(refused, asked) as url:
        assert main(["replay", "r", "--as-of", "", "--url", url]) == 1
        with started("chat", "-m", "Hello?", "--model", "m", "--session", "", "--url", url) as process:
            assert process.wait(60) == 1
    assert b'"as_of": ""' in asked[0] and b"\r\nX-Memory-Session: \r\n" in asked[1]


@pytest.mark.parametrize(
    "words", [("sessions", ""), ("memories", "", "--delete"), ("tasks", "show", ""), ("replay", "")]
)
def test_an_empty_id_is_no_path_of_something_else(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[bytes] = []
    with answering(whole({"data": []}), asked) as url:
        assert main([*words, "--url", url]) == 1
    assert asked == []
    assert "is given and empty" in capsys.readouterr().err


def test_no_token_is_made_that_names_two_users(capsys: pytest.CaptureFixture[str]) -> None:
    key = secret_of(bytes(PREFIX_BYTES), bytes(SECRET_BYTES))
    assert main(["key", "token", "--from", key, "--user", "ada"]) == 0
    token = capsys.readouterr().out.strip()
    assert main(["key", "token", "--from", token, "--user", "ada", "--session", "main"]) == 0
    assert main(["key", "token", "--from", token, "--user", "eve"]) == 1
    assert "two values of user" in capsys.readouterr().err


def test_a_file_whose_name_is_not_utf_8_is_sent(tmp_path: Path) -> None:
    for name in (b"caf\xe8.txt", b"caf\xe9.txt"):
        file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        file.write_text("hello")
        asked: list[bytes] = []
        with answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", asked) as url:
            assert main(["documents", "add", str(file), "--url", url]) == 1
            assert main(["artifacts", "add", str(file), "--url", url]) == 1
        assert all(b"caf\\udc%x.txt" % name[3] in one for one in asked)


def test_who_may_not_read_is_told_that_the_file_was_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "guide.md").write_text("words")
    taken = {"id": "d1", "name": "guide.md", "upload": {"id": "u1", "status": "waiting", "reason": None}}
    with answering(whole(taken), None, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as url:
        assert main(["documents", "add", str(tmp_path / "guide.md"), "--url", url]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("d1  guide.md  waiting\n", "")
    with answering(whole({**taken, "upload": {"id": "u1", "status": "done", "reason": None}})) as url:
        assert main(["documents", "add", str(tmp_path / "guide.md"), "--url", url]) == 0


@pytest.mark.parametrize(
    ("verb", "name", "kind"),
    [
        ("documents", "schema.sql", b"application/octet-stream"),
        ("documents", "guide.md", b"application/octet-stream"),
        ("artifacts", "build.txt.gz", b"application/octet-stream"),
        ("artifacts", "chart.png", b"image/png"),
    ],
)
def test_a_file_is_declared_as_what_it_is_or_nothing(verb: str, name: str, kind: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"words")
    asked: list[bytes] = []
    with answering(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", asked) as url:
        assert main([verb, "add", str(tmp_path / name), "--url", url]) == 1
    assert b'filename="%s"\r\nContent-Type: %s\r\n\r\nwords' % (name.encode(), kind) in b"".join(asked)


@pytest.mark.parametrize("key", ["mp-1a2b\nc3d4", "mp-1a2b c3d4", "mp-ключ"])
def test_a_key_that_can_be_none_is_refused_and_not_shown(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "boat", "--key", key]) == 1
    said = capsys.readouterr().err
    assert "was it copied whole, and alone?" in said and "mp-" not in said


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ((), b"Authorization: Bearer mp-of-all"),
        (("--key", "mp-own"), b"Authorization: Bearer mp-own"),
        (("--key", ""), b""),
    ],
)
@pytest.mark.parametrize("verb", [("search", "boat"), ("forget", "--user", "ada", "--yes"), ("tasks", "list")])
def test_a_key_of_the_environment_is_every_commands(
    verb: tuple[str, ...], words: tuple[str, ...], sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_PROXY_KEY", "mp-of-all\n")
    asked: list[bytes] = []
    with answering(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", asked) as url:
        assert main([*verb, *words, "--url", url]) == 1
    said = b"".join(asked)
    assert said and (sent in said if sent else b"Authorization" not in said)


@pytest.mark.parametrize("words", [("hygiene", "--unused-days"), ("encryption", "--older-days"), ("reembed", "--rest")])
@pytest.mark.parametrize("amount", ["nan", "1e12", "-1", "soon"])
def test_an_amount_that_can_be_none_is_wrong_usage(
    words: tuple[str, str], amount: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, amount])
    assert ended.value.code == 2
    assert f"{amount!r} is no number from 0 to 36500" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        (("search", "boat"), ">&-", 0),
        (("import", "-"), "<&-", 0),
        (("forget", "--user", "ada", "--dry-run"), "<&- 2>&-", 0),
        (("chat", "-m", "-"), "<&-", 1),
    ],
)
def test_a_stream_that_is_closed_is_no_traceback(words: tuple[str, ...], closed: str, code: int) -> None:
    answer = {"candidates": [], "admitted": 0, "millis": 1.0, "accepted": 0, "done": 0, "failed": 0, "complete": True}
    planned = {"counts": {}, "sample_ids": [], "confirm": ""}
    with answering(whole({**answer, **planned})) as url:
        script = f'exec "$0" "$@" {closed}'
        argv = ["sh", "-c", script, sys.executable, "-m", "proxy", *words, "--url", url]
        ended = subprocess.run(argv, capture_output=True, timeout=120, check=False)
    assert (ended.returncode, b"Traceback" in ended.stderr) == (code, False), ended.stderr


@pytest.mark.parametrize(
    ("said", "value"), [("NaN", "NaN"), ("-Infinity", "-Infinity"), ("1e999", "1e999"), ("1.5", 1.5), ("true", True)]
)
def test_a_word_that_json_has_no_number_for_stays_a_word(said: str, value: object) -> None:
    assert key_value(f"mood={said}") == ("mood", value)


@pytest.mark.parametrize(
    ("words", "least", "most"),
    [
        (("hygiene", "--limit", "0"), 1, 1_000_000_000),
        (("hygiene", "--limit", "-5"), 1, 1_000_000_000),
        (("hygiene", "--examples", "-1"), 0, 100_000),
        (("replay", "--shadow", "--last", "0"), 1, 100_000),
        (("replay", "--shadow", "--last", "-5"), 1, 100_000),
    ],
)
def test_a_number_that_asks_for_less_than_nothing_is_wrong_usage(
    words: tuple[str, ...], least: int, most: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    assert f"{words[-1]!r} is no whole number from {least} to {most}" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("audit", "list", "--limit"), ("replay", "--shadow", "--last")])
@pytest.mark.parametrize("count", ["0", "-1", "1e3", "100001"])
def test_a_number_of_rows_that_can_be_none_is_wrong_usage(
    words: tuple[str, ...], count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, count])
    assert ended.value.code == 2
    assert f"{count!r} is no whole number from 1 to 100000" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    package = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert (ended.value.code, capsys.readouterr().out) == (0, f"memory-proxy {package['version']}\n")


@pytest.mark.parametrize("port", ["70000", "-1", "http"])
def test_a_port_that_can_be_none_is_wrong_usage(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--port", port])
    assert ended.value.code == 2 and f"{port!r} is no port from 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("search", "boat"), ("preferences",), ("tasks", "list")])
@pytest.mark.parametrize("url", ["localhost:8080", "http://[::1", "http://127.0.0.1:99999", "http://"])
def test_an_address_that_can_be_none_is_told_in_a_line(
    command: tuple[str, ...], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--url", url]) == 1
    assert capsys.readouterr().err == f"memory-proxy: --url must be an http:// or https:// URL, not {url}\n"


@pytest.mark.parametrize("url", ["http://a..b", f"http://{'a' * 64}.example", "http://127.0.0.1:1/caf\xe9"])
@pytest.mark.parametrize("command", [("search", "boat"), ("tasks", "list")])
def test_an_address_that_nobody_can_have_is_told_in_a_line(
    command: tuple[str, ...], url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    assert main([*command, "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"memory-proxy: {url} does not answer (") and said.count("\n") == 1


def test_notes_that_are_no_text_are_told_in_a_line() -> None:
    words = ("checkpoint", "save", "plan", "--notes", "-", "--url", "http://127.0.0.1:1")
    environ = {"PYTHONIOENCODING": "utf-8"}
    with started(*words, environ=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        _, err = process.communicate(b"Caf\xe9, as Windows wrote it", timeout=60)
    assert process.returncode == 1
    assert err.startswith(b"memory-proxy: the notes on standard input are not utf-8") and err.count(b"\n") == 1, err


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("words", [("search", "boat"), ("tasks", "list"), ("export",)])
def test_a_redirect_takes_the_key_nowhere(
    words: tuple[str, ...], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    taken: list[bytes] = []
    with answering(whole({"data": []}), taken) as elsewhere:
        moved = f"HTTP/1.1 {status} Moved\r\nLocation: {elsewhere}/taken\r\nContent-Length: 0\r\n\r\n"
        with answering(moved.encode()) as url:
            assert main([*words, "--key", "mp-own", "--user", "ada", "--url", url]) == 1
    assert taken == []
    assert f"{status} Moved: it is at {elsewhere}/taken" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [("show",), ("history",), ("delete",), ("move", "done")])
def test_the_graph_is_no_task(verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with answering(whole({"order": [], "ready": [], "waiting": {}})) as url:
        assert main(["tasks", verb[0], "graph", *verb[1:], "--url", url]) == 1
    assert "graph is no id of a task" in capsys.readouterr().err


def test_an_empty_list_of_another_program_is_no_graph(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(whole({"data": []})) as url:
        assert main(["tasks", "graph", "--url", url]) == 1
    assert "'ready' is missing" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--confirm",), ("review", "--reject"), ("--delete",), ("review", "--undelete")])
def test_a_judgement_of_no_memory_is_not_taken_for_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(whole({"data": [], "next_cursor": None})) as url:
        assert main(["memories", *words, "--url", url]) == 1
    assert "say which memory" in capsys.readouterr().err


def test_a_long_conversation_is_shown_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[bytes] = []
    turn = {"role": "user", "content": "Ahoy."}
    page = {"turns": [{"seq": 7, **turn}], "summary": "They greet.", "next_cursor": "c2"}
    last = {"turns": [{"seq": 1007, **turn}], "summary": None, "next_cursor": None}
    with answering(whole(page), asked, whole(last)) as url:
        assert main(["sessions", "long", "--url", url]) == 0
    assert [one.split(b" ")[1] for one in asked] == [b"/memory/v1/sessions/long", b"/memory/v1/sessions/long?cursor=c2"]
    said = capsys.readouterr().out
    assert said.count("Ahoy.") == 2 and "1007" in said and said.endswith("summary:\nThey greet.\n")


def test_a_turn_without_words_is_shown_by_what_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("tide", "wind")
    ]
    turn = {"seq": 0, "role": "assistant", "content": "", "tool_calls": None, "parts": None}
    picture = {**turn, "seq": 1, "role": "user", "parts": [{"type": "image_url"}]}
    turns = [
        {**turn, "tool_calls": calls},
        picture,
        {**turn, "tool_calls": ["odd"]},
        turn,
        {**picture, "content": "Look."},
    ]
    with answering(whole({"turns": turns, "summary": None, "next_cursor": None})) as url:
        assert main(["sessions", "s", "--url", url]) == 0
    assert [line[17:] for line in capsys.readouterr().out.splitlines()] == [
        "(calls tide, calls wind)",
        "(image_url)",
        "(calls a tool)",
        "",
        "Look.",
    ]


STEERS = "one \x1b]0;owned\x07 \x9b2J two"
TASK: dict[str, Any] = {"id": "1", "status": "queued", "title": STEERS, "waits_for": [], "checkpoint": None}
FOUND = {"admitted": True, "score": 1.0, "occurred_at": None, "content": STEERS}
DOCUMENT: dict[str, Any] = {
    "id": "1",
    "chunks": 1,
    "media_type": "text/plain",
    "name": STEERS,
    "upload": {"status": "done"},
}
PREFERENCE = {"memory_id": "1", "strength": 1.0, "statement": STEERS, "said": 1, "sessions": 1}
REPLAYED: dict[str, Any] = {
    "diff": {"kept": [], "added": [], "removed": [], "text": STEERS},
    "tokens_exact": True,
    "tokens": 1,
    "notes": [],
}


def test_a_conversation_is_listed_by_the_name_that_it_is_asked_for_by(capsys: pytest.CaptureFixture[str]) -> None:
    name = "agent:main:group:" + "0123456789" * 20 + "  thread"
    found = {"data": [{"id": name, "turns": 2, "last_at": "now"}], "next_cursor": None}
    with answering(whole(found)) as url:
        assert main(["sessions", "--url", url]) == 0
    assert capsys.readouterr().out == f"{name}  2  now\n"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("search", "boat"), {"candidates": [FOUND], "admitted": 1, "millis": 1.0}),
        (("sessions",), {"data": [{"id": STEERS, "turns": 1, "last_at": "now"}]}),
        (("sessions", "s"), {"turns": [{"seq": 1, "role": "tool", "content": STEERS}], "summary": STEERS}),
        (("memories",), {"data": [{"id": "1", "kind": "k", "content": STEERS, "quarantine_reason": None}]}),
        (("tasks", "list"), {"data": [TASK]}),
        (("documents", "list"), {"data": [DOCUMENT]}),
        (("preferences",), {"data": [PREFERENCE]}),
        (("outside", "boat"), {"pages": [{"url": "u", "title": STEERS}], "missed": []}),
        (("replay", "r", "--without", "m"), REPLAYED),
    ],
)
def test_what_is_remembered_does_not_steer_the_terminal(
    words: tuple[str, ...], answer: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.dumps(answer).encode()
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body) as url:
        assert main([*words, "--url", url]) == 0
    shown = capsys.readouterr().out
    assert "one \ufffd]0;owned\ufffd \ufffd2J two" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


@pytest.mark.parametrize(
    "words",
    [("tasks", "list"), ("entities", "list"), ("artifacts", "list"), ("documents", "list"), ("sessions",),
     ("memories", "review"), ("preferences",)],
)  # fmt: skip
def test_a_list_in_which_nothing_is_says_so(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Who looks into a new store for the first time would not know whether the command had worked."""
    with answering(whole({"data": [], "next_cursor": None})) as url:
        assert main([*words, "--url", url]) == 0
    assert capsys.readouterr() == ("none\n", "")


@pytest.mark.parametrize("words", [("search", "boat"), ("tasks", "list"), ("documents", "list"), ("replay", "r")])
def test_nor_does_an_answer_as_it_is_which_stays_the_same_json(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {"data": [{"said": f"{STEERS} \x7f \ud800 Žiga"}], "identical": True, "sha256_sent": "1"}
    with answering(whole(answer)) as url:
        assert main([*words, "--json", "--url", url]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown) == answer and "Žiga" in shown
    assert shown.encode() and not {"\x1b", "\x07", "\x9b", "\x7f"} & set(shown)


@pytest.mark.parametrize("command", [("export",), ("replay", "r1")])
def test_nor_do_bytes_as_they_went_where_a_person_reads_them(command: tuple[str, ...], tmp_path: Path) -> None:
    said = '{"content":"one \x9b2J two"}'
    line = f"{said}\n".encode()
    answer = NDJSON + b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line)
    if command[0] == "replay":
        answer = whole({"request": said, "identical": True, "sha256_sent": "0"})
    words = [sys.executable, "-P", "-m", "proxy", *command]
    with answering(answer) as url:
        with at_terminal([*words, "--url", url], os.environ, tmp_path) as terminal:
            assert terminal.ended() == 0
        assert "\x9b" not in terminal.raw and said.replace("\x9b", "\\u009b") in terminal.raw
        ran = subprocess.run([*words, "--url", url], cwd=tmp_path, capture_output=True, check=True)
        assert ran.stdout.strip() == said.encode()


def test_a_title_makes_no_row_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """An agent writes titles; a person reads the list."""
    tasks = [{**TASK, "title": "Mend the roof\n2  done       Pay the bill"}, {**TASK, "id": "3", "title": "Sail"}]
    with answering(whole({"data": tasks, "next_cursor": None})) as url:
        assert main(["tasks", "list", "--url", url]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row[0] for row in rows] == ["1", "3"] and rows[0].endswith("Mend the roof 2  done       Pay the bill")


@pytest.mark.parametrize("words", [("import", "FILE"), ("search", "boat"), ("documents", "add", "FILE")])
def test_what_is_refused_does_not_steer_the_terminal(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refusal names the member that was sent, as a file of somebody else's has it."""
    file = tmp_path / "file"
    file.write_bytes(b"{}\n")
    if words[0] == "import":
        line = json.dumps({"line": 1, "error": f"{STEERS}: it is nested deeper than 64 levels"}).encode() + b"\n"
        answer = NDJSON + b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line)
    else:
        refusal = json.dumps({"error": {"code": "unprocessable", "message": f"{STEERS} is no member"}}).encode()
        answer = b"HTTP/1.1 422 No\r\nContent-Length: %d\r\n\r\n%s" % (len(refusal), refusal)
    with answering(answer) as url:
        assert main([*(str(file) if word == "FILE" else word for word in words), "--url", url]) == 1
    said = capsys.readouterr().err
    assert "one \ufffd]0;owned\ufffd \ufffd2J two" in said
    assert not {"\x1b", "\x07", "\x9b"} & set(said)


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (("forget", "--user=-ada", "--scrub", "--yes"), ("value", "-ada")),
        (("forget", "--session=s", "--as-user=--x", "--scrub", "--yes"), ("as_user", "--x")),
        (("forget", "--session=s", "--as-agent=a", "--scrub", "--yes"), ("tenant", "default")),
        (("redact", "--reveal=-t"), ("token", "-t")),
        (("reembed", "--to=-m"), ("to", "-m")),
    ],
)
def test_a_name_that_begins_like_an_option_reaches_the_command_beside(
    words: tuple[str, ...], read: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Sequence[str]] = []

    def run(_: object, words: Sequence[str]) -> int:
        told.append(words)
        return 0

    for module in (forget, redact, reembed):
        monkeypatch.setattr(module, "run_beside", run)
    assert main([*words]) == 0
    assert getattr(_parser().parse_args(told[0]), read[0]) == read[1]


@pytest.mark.parametrize("words", [("audit", "list", "--action"), ("audit", "list", "--id"), ("redact", "--reveal")])
def test_a_word_that_no_store_can_be_asked_for_is_refused_beside(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A byte of another encoding: Postgres refused it with a traceback."""
    assert main([*words, "\udcff", "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "memory-proxy: an option is not UTF-8, and nothing that is stored is called so\n"
    )


@pytest.mark.parametrize("content", [b"", b"receipt", b"{", b"\xff\xfe"])
def test_a_file_that_is_no_receipt_is_said_to_be_none(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "receipt.json").write_bytes(content)
    assert main(["forget", "--verify", str(tmp_path / "receipt.json")]) == 1
    assert f"{tmp_path}/receipt.json is no receipt" in capsys.readouterr().err


def test_a_receipt_of_before_the_master_key_was_changed_is_genuine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = asyncio.run(master_key(tmp_path / "former.key", None, {}).derived(RECEIPTS))
    said = {"kind": "user", "level": "logical", "finished_at": "2026-11-21T09:30:00Z", "complete": True}
    (tmp_path / "receipt.json").write_text(json.dumps(signed(said, seed)))
    load_or_create_master_key(tmp_path / "master.key")
    verify = ["forget", "--verify", str(tmp_path / "receipt.json"), "--data-dir", str(tmp_path)]
    assert main(verify) == 1 and capsys.readouterr().out.startswith("NOT genuine")
    monkeypatch.setenv("MEMORY_PROXY_ENCRYPTION__PREVIOUS_MASTER_KEY_FILE", str(tmp_path / "former.key"))
    assert main(verify) == 0 and capsys.readouterr().out.startswith("genuine: user")
    (tmp_path / "receipt.json").write_text(json.dumps({**signed(said, seed), "kind": "session"}))
    assert main(verify) == 1


@pytest.mark.parametrize("option", ["--tenant", "--as-user", "--as-project", "--as-agent"])
def test_an_empty_name_scrubs_nobody_elses(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(forget, "run_beside", lambda *_: pytest.fail("it was begun"))
    assert main(["forget", "--session", "s", option, "", "--scrub", "--yes"]) == 1
    assert capsys.readouterr().err == f"memory-proxy: {option} is empty\n"


def test_a_rehearsal_scrubs_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(forget, "run_beside", lambda *_: pytest.fail("it was begun"))
    assert main(["forget", "--user", "ada", "--scrub", "--dry-run", "--yes"]) == 1
    assert "--scrub cannot be rehearsed" in capsys.readouterr().err


def test_who_leaves_an_erasure_is_told_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    planned = whole({"counts": {"turns": 2}, "sample_ids": [], "confirm": "c"})
    waits = whole({"status": "running", "step": "probe", "id": "e1"})
    with answering(planned, None, waits) as url:
        assert main(["forget", "--user", "ada", "--yes", "--url", url]) == 130
    assert "left; the erasure that was asked for goes on" in capsys.readouterr().err


@pytest.mark.parametrize("counts", [{}, {"turns": 2}])
def test_an_erasure_of_nothing_says_so_beside_its_receipt(
    counts: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt user got a signed receipt that is complete, and no word that nothing was there."""
    planned = whole({"counts": {"turns": 0}, "sample_ids": [], "confirm": "c"})
    with answering(planned, None, whole({"counts": counts, "complete": True, "signature": "00"})) as url:
        assert main(["forget", "--user", "aad", "--yes", "--url", url]) == 0
    assert ("nothing of it was there" in capsys.readouterr().err) == (not counts)


def test_an_erasure_that_cannot_be_asked_about_is_said_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    planned = whole({"counts": {"turns": 2}, "sample_ids": [], "confirm": "c"})
    waits = whole({"status": "running", "step": "probe", "id": "e1"})
    with answering(planned, None, waits, b"HTTP/1.1 503 Away\r\nContent-Length: 0\r\n\r\n") as url:
        assert main(["forget", "--user", "ada", "--yes", "--url", url]) == 1
    assert "503 Away; the erasure goes on, GET /memory/v1/forget/e1 has its receipt" in capsys.readouterr().err
