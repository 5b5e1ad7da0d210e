"""`memory-proxy bench` compares turn by turn on a running service, leaves nothing, and says what to do if it cannot."""

from __future__ import annotations

import http.client
import http.server
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.recall.__main__ import main as recall
from proxy.__main__ import main
from proxy.cli import bench
from proxy.cli.bench import Turn, summary, table
from tests.service_fixture import Service
from tests.test_cli_client import answering as one_by_one


@contextmanager
def answering(*events: bytes, heard: list[bytes] | None = None, status: str | None = "injected") -> Iterator[str]:
    """A service whose chats are these events, a while between them, and the end of the connection. `heard`: what it was
    asked beside chats; `status` None: it is no memory-proxy.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            raw = b'{"data": [{"id": "m"}], "pending": 0, "in_flight": 0}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not self.path.endswith("completions"):
                if heard is not None:
                    heard.append(body)
                self.do_GET()
                return
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            if status is not None:
                self.send_header("X-Memory-Status", status)
            self.end_headers()
            for event in events:
                said = b"data: " + event + b"\n\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(said), said))
                self.wfile.flush()
                time.sleep(0.2)
            if events[-1] == b"[DONE]":
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.close_connection = True

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that hangs up is no fault of this server's, and its words are no words of the command's."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def turn(mode: str, place: tuple[int, int], first_ms: float, cached: int | None = 30) -> Turn:
    return Turn(mode, *place, first_ms, first_ms + 100, 2.0, "injected", 40, cached, 11, "text")


def test_memory_s_cost_is_taken_turn_by_turn() -> None:
    places = [(0, 0), (0, 1), (1, 0)]
    ours = [turn("read", place, 100.0 * (at + 1) + 5) for at, place in enumerate(places)]
    base = [turn("off", place, 100.0 * (at + 1)) for at, place in enumerate(places)]
    found = summary([*reversed(ours), *base])
    assert found["added_first_ms"] == 5
    assert found["memory"]["tokens_per_s"] == pytest.approx(100)
    assert found["memory"]["cached_share"] == pytest.approx(0.75)


def test_what_the_server_does_not_say_is_no_figure() -> None:
    found = summary([turn("read", (0, 0), 5, None), turn("off", (0, 0), 4, None)])
    assert found["off"]["cached_share"] is None
    assert "--enable-prompt-tokens-details" in table(found)


def test_an_answer_without_cached_tokens_had_none_where_others_say_how_many() -> None:
    """vLLM leaves `prompt_tokens_details` out where nothing was cached, with --enable-prompt-tokens-details too."""
    ours = [turn("read", (0, 0), 5, None), turn("read", (0, 1), 5, 30)]
    found = summary([*ours, turn("off", (0, 0), 4, None), turn("off", (0, 1), 4, None)])
    assert found["memory"]["cached_share"] == pytest.approx(30 / 80)
    assert found["off"]["cached_share"] == 0
    assert "--enable-prompt-tokens-details" not in table(found)


def test_a_bench_against_a_service_measures_both_ways_and_leaves_nothing(
    service: Service, user: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"role": "user", "content": "My vegetable garden lies behind the shed in Porto.", "source_id": "g"}
    service.call("POST", "/memory/v1/import?wait=false", json.dumps(line).encode(), X_Memory_User=user)
    service.settle()
    told = tmp_path / "b.json"
    given = ["--url", service.url, "--user", user, "--conversations", "2", "--turns", "3", "--json", str(told)]
    assert main(["bench", *given]) == 0
    report = json.loads(told.read_text())
    assert (report["memory"]["turns"], report["off"]["turns"]) == (6, 6)
    assert report["memory"]["statuses"].get("injected")
    assert report["off"]["statuses"] == {"off": 6}
    assert report["memory"]["prompt_tokens"] > report["off"]["prompt_tokens"]
    assert all(one["first_ms"] > 0 for one in report["each"])
    assert "memory adds to the first token" in capsys.readouterr().out
    service.settle()
    sessions = service.call("GET", "/memory/v1/sessions", X_Memory_User=user)["data"]
    assert len(sessions) == 1
    assert len(service.call("GET", "/memory/v1/memories?kind=episodic", X_Memory_User=user)["data"]) == 1


def test_a_service_that_is_not_there_is_named_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--url", "http://127.0.0.1:1"]) == 1
    assert "memory-proxy serve" in capsys.readouterr().err
    assert main(["bench", "--url", "nonsense"]) == 1
    assert "http://" in capsys.readouterr().err
    assert main(["bench", "--turns", "0"]) == 2


def test_an_answer_that_breaks_off_is_no_figure(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b'{"choices": [{"delta": {"content": "a"}}]}') as url:
        assert main(["bench", "--url", url, "--conversations", "1", "--turns", "1"]) == 1
    assert "an answer broke off" in capsys.readouterr().err


def test_a_model_without_a_proxy_before_it_is_no_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    said = b'{"choices": [{"delta": {"content": "a"}}]}'
    with answering(said, b"[DONE]", status=None) as url:
        assert main(["bench", "--url", url, "--conversations", "1", "--turns", "1"]) == 1
    shown = capsys.readouterr()
    assert "is no memory-proxy" in shown.err and "--url" in shown.err
    assert "memory adds to the first token" not in shown.out


def test_an_answer_without_a_token_has_no_first_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that keeps a model's thoughts to itself sends none where these took all tokens there were."""
    over, told = b'{"choices": [{"delta": {}, "finish_reason": "length"}]}', tmp_path / "b.json"
    with answering(over, b"[DONE]") as url:
        assert main(["bench", "--url", url, "--conversations", "1", "--turns", "1", "--json", str(told)]) == 0
    found = json.loads(told.read_text())
    assert [one["first_ms"] for one in found["each"]] == [None, None]
    assert found["memory"]["first_ms"] is found["added_first_ms"] is None
    assert "without a token, so without a first: 2" in capsys.readouterr().out


def test_a_list_of_models_that_breaks_off_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut(*_: object) -> bytes:
        raise http.client.IncompleteRead(b"{")

    with answering(b"[DONE]") as url:
        monkeypatch.setattr(http.client.HTTPResponse, "read", cut)
        assert main(["bench", "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith("memory-proxy: ") and "broke off" in said and said.count("\n") == 1


def test_every_run_asks_as_the_same_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    users: list[str] = []

    class Heard(bench.Service):
        def __init__(self, url: str, headers: Mapping[str, str]) -> None:
            users.append(headers["X-Memory-User"])
            super().__init__(url, headers)

    monkeypatch.setattr(bench, "Service", Heard)
    for _ in range(2):
        assert main(["bench", "--url", "http://127.0.0.1:1"]) == 1
    assert users == ["memory-proxy-bench"] * 2
    assert main(["bench", "--url", "http://127.0.0.1:1", "--user", "ada"]) == 1
    assert users[2:] == ["ada"]


def test_why_prompts_went_without_memory_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    said = b'{"choices": [{"delta": {"content": "a"}}]}'
    with answering(said, b"[DONE]", status="degraded; reason=overflow; rung=none") as url:
        assert main(["bench", "--url", url, "--user", "ada", "--conversations", "1", "--turns", "1"]) == 0
    shown = capsys.readouterr().out
    assert "status with memory: degraded; reason=overflow; rung=none 1" in shown
    assert "memory-proxy doctor" in shown
    assert "--user" not in shown, "ada is named, and has memories"


@pytest.mark.parametrize(
    ("fault", "code"), [(KeyboardInterrupt(), 130), (ValueError("cut"), 1)], ids=["Ctrl-C", "an answer that breaks off"]
)
def test_a_run_that_is_broken_off_in_an_answer_forgets_what_it_left_or_says_so(
    fault: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken_off(answer: http.client.HTTPResponse) -> Iterator[dict[str, object]]:
        assert answer.readline()
        raise fault
        yield {}

    monkeypatch.setattr(bench, "_events", broken_off)
    events, heard = (b'{"choices": [{"delta": {"content": "a"}}]}',) * 2, list[bytes]()
    given = ["--conversations", "1", "--turns", "2"]
    with answering(*events, b"[DONE]", heard=heard) as url:
        assert main(["bench", "--url", url, *given]) == code
        assert [json.loads(body)["session"][-5:] for body in heard] == ["-read"]
        assert "are left" not in capsys.readouterr().err
        monkeypatch.setattr(bench.Service, "forget", lambda *_: "capability_missing: this key may not")
        assert main(["bench", "--url", url, *given]) == code
    assert "are left, without a word of theirs (capability_missing" in capsys.readouterr().err


def test_what_is_left_is_told_where_nothing_was_measured_too(capsys: pytest.CaptureFixture[str]) -> None:
    def closing(status: int, body: object) -> bytes:
        raw = json.dumps(body).encode()
        return b"HTTP/1.1 %d Said\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (status, len(raw), raw)

    models = closing(200, {"data": [{"id": "m"}]})
    failed = closing(500, {"error": {"code": "internal", "message": "no GPU"}})
    queue = closing(200, {"pending": 0, "in_flight": 0})
    refused = closing(403, {"error": {"code": "capability_missing", "message": "this key lacks memory:erase"}})
    with one_by_one(models, None, failed, queue, refused) as url:
        assert main(["bench", "--url", url, "--conversations", "1", "--turns", "1"]) == 1
    said = capsys.readouterr().err
    assert "a chat answered 500: internal: no GPU" in said
    assert "are left, without a word of theirs (capability_missing: this key lacks memory:erase)" in said


@pytest.mark.parametrize("model", ["m", "m\x1b]0;owned\x07"])
def test_what_a_server_says_does_not_steer_the_terminal(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    event = {"error": "out of memory \x1b[2J"} if model == "m" else {"choices": [{"delta": {"content": "a"}}]}
    with answering(json.dumps(event).encode(), b"[DONE]") as url:
        code = main(["bench", "--url", url, "--conversations", "1", "--turns", "1", "--model", model])
    assert code == (1 if model == "m" else 0)
    shown = "".join(capsys.readouterr())
    assert "\ufffd" in shown and not {"\x1b", "\x07"} & set(shown)


def test_the_first_token_may_be_a_thought_by_either_name(tmp_path: Path) -> None:
    thought, told = b'{"choices": [{"delta": {"reasoning_content": "a"}}]}', tmp_path / "b.json"
    with answering(thought, b'{"choices": [{"delta": {"content": "b"}}]}', b"[DONE]") as url:
        assert main(["bench", "--url", url, "--conversations", "1", "--turns", "1", "--json", str(told)]) == 0
    assert all(one["first_ms"] < 150 < one["total_ms"] for one in json.loads(told.read_text())["each"])


def test_what_was_measured_is_shown_where_its_file_cannot_be_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = b'{"choices": [{"delta": {"content": "a"}}]}'
    with answering(said, b"[DONE]") as url:
        assert main(["bench", "--url", url, "--conversations", "1", "--turns", "1", "--json", "/dev/full"]) == 1
    shown = capsys.readouterr()
    assert "first token, ms (median)" in shown.out
    assert "No space left" in shown.err


@pytest.mark.parametrize(
    ("file", "says"), [("no such/b.json", "there is no directory"), (".", "is a directory"), ("x" * 300, "can be no")]
)
@pytest.mark.parametrize("command", ["bench", "eval"])
def test_a_file_that_cannot_be_written_is_told_before_the_run(
    command: str, file: str, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--json", str(tmp_path / file)]
    with pytest.raises(SystemExit) as ended:
        main(["bench", *words]) if command == "bench" else recall(words)
    assert ended.value.code == 2
    assert says in capfd.readouterr().err


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://127.0.0.1:8x", "http://[::1"])
def test_a_url_that_is_none_is_said_to_be_so(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--url", url]) == 1
    assert "--url must be" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"), [(("--user", "\udcff"), "does not answer"), (("--key", "mp-ключ"), "was it copied whole")]
)
def test_a_name_or_key_that_can_be_none_is_told_in_a_line(
    words: tuple[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--url", "http://127.0.0.1:1", "--conversations", "1", "--turns", "1", *words]) == 1
    said = capsys.readouterr().err
    assert said.startswith("memory-proxy: ") and told in said and said.count("\n") == 1


@pytest.mark.long
def test_an_unknown_model_is_told_in_the_server_s_words(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--url", service.url, "--model", "no-such-model"]) == 1
    assert "no-such-model" in capsys.readouterr().err
