"""A request's line: what it may hold, what it costs nobody, and that its page says the same."""

import asyncio
import errno
import io
import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

import memory.__main__
import proxy.worker
from memory.catalogue import Stage
from memory.config import Settings
from memory.errors import TRY_AGAIN, StartFailed, StoreUnavailable
from memory.ids import new_id
from memory.passage import AT_HAND, Facts, Passage, lap, note, took
from memory.telemetry import Metrics, configure_logging, event
from proxy.generation import Generation
from proxy.identity import Credential, require_clear
from proxy.passages import Passages, answered

PAGE = (Path(__file__).parent.parent / "docs" / "logs.md").read_text()
METRICS_PAGE = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text()


def finished(passage: Passage, caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    with caplog.at_level(logging.INFO):
        passage.finish(logging.INFO)
    (record,) = [one for one in caplog.records if one.name == "memory_proxy.request"]
    return dict(record.__dict__["fields"])


def test_a_header_of_ours_that_means_nothing_is_named_and_what_it_says_is_not(caplog: pytest.LogCaptureFixture) -> None:
    """A misspelt X-Memory-User had its users share the memory of `default`, and nobody said so."""
    passage = Passage(None, None, {"route": "chat"})
    at_hand = AT_HAND.set(passage)
    long = b"X-Memory-" + b"\xff" * 900
    sent = [(b"X-Memory-Usr", b"ada"), (b"Accept", b"*/*"), (b"x-memory-mode", b"on"), (long, b"1")]
    require_clear(sent, Credential(new_id()), datetime.now(UTC))
    AT_HAND.reset(at_hand)
    line = finished(passage, caplog)
    assert line["unknown_headers"][0] == "X-Memory-Usr" and len(line["unknown_headers"]) == 2
    assert len(line["unknown_headers"][1]) < 100 and "ada" not in json.dumps(line)


def said_by(passage: Passage, form: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the passage's end writes to stderr."""
    before = logging.getLogger().handlers[:]
    try:
        configure_logging("info", form)
        passage.finish(logging.INFO)
        return capsys.readouterr().err
    finally:
        logging.getLogger().handlers[:] = before


def test_the_page_names_every_field_of_the_line_and_no_other() -> None:
    table = PAGE.split("## Traces")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == list(Facts.__annotations__)


def test_the_page_of_metrics_explains_every_stage() -> None:
    told = METRICS_PAGE.split("Stages of `memory_proxy_stage_seconds`")[1].split("Steps of")[0]
    assert set(re.findall(r"`([a-z]+)`", told)) == set(get_args(Stage))


def test_stages_follow_each_other_without_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    passage = Passage(None, None, {"route": "chat"})
    at_hand = AT_HAND.set(passage)
    began = passage.started
    for stage in ("read", "identify", "find", "recall"):
        lap(stage)
    took("embed", began)
    AT_HAND.reset(at_hand)
    line = finished(passage, caplog)
    in_turn = sum(line["stages_ms"][stage] for stage in ("read", "identify", "find", "recall"))
    assert 0 < in_turn <= line["stages_ms"]["embed"] + 0.01 <= line["total_ms"] + 0.02


class SlowClient:
    """A route whose client takes its time with the body; no limit of a key is waited for."""

    async def read(self, request: web.Request) -> bytes:
        await asyncio.sleep(0.1)
        return b"{}"

    def is_plainly_off(self, request: web.Request, body: bytes) -> bool:
        return True

    async def without_memory(self, request: web.Request, body: bytes, status: str) -> web.Response:
        lap("admit")
        return web.Response()


async def test_a_slow_client_of_a_route_without_memory_is_no_wait_for_its_keys_limits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    passage = Passage(None, None, {"route": "generation"})
    at_hand = AT_HAND.set(passage)
    await Generation(cast(Any, SlowClient()))(make_mocked_request("POST", "/v1/completions"))
    AT_HAND.reset(at_hand)
    took_ms = finished(passage, caplog)["stages_ms"]
    assert took_ms["read"] >= 100
    assert took_ms["admit"] < 50


def test_a_stage_that_comes_twice_is_summed(caplog: pytest.LogCaptureFixture) -> None:
    passage = Passage(None, None, {"route": "chat"})
    passage.took("upstream", 1.0, 1.5)
    passage.took("upstream", 2.0, 2.25)
    line = finished(passage, caplog)
    assert line["stages_ms"]["upstream"] == line["ttfb_ms"] == 750.0


def test_without_a_request_nothing_is_said_and_nothing_fails() -> None:
    lap("read")
    took("embed", 0.0)
    note(http=200)
    assert AT_HAND.get() is None


def test_what_was_counted_here_stands_in_the_histogram_once_written() -> None:
    metrics = Metrics()
    for seconds in (0.0001, 0.003, 0.003, 99.0):
        metrics.stages.observe("embed", seconds)
    for _ in range(2):  # written once however often it is asked for
        metrics.stages.write()
        value = metrics.registry.get_sample_value
        name = "memory_proxy_stage_seconds"
        assert value(f"{name}_count", {"stage": "embed"}) == 4
        assert value(f"{name}_sum", {"stage": "embed"}) == pytest.approx(99.0061)
        assert value(f"{name}_bucket", {"stage": "embed", "le": "0.0001"}) == 1
        assert value(f"{name}_bucket", {"stage": "embed", "le": "0.005"}) == 3
        assert value(f"{name}_bucket", {"stage": "embed", "le": "+Inf"}) == 4
    assert value(f"{name}_count", {"stage": "search"}) == 0


def test_requests_are_counted_by_their_labels_once_written() -> None:
    metrics = Metrics()
    for status in ("2xx", "2xx", "5xx"):
        metrics.requests.inc("chat", status)
    metrics.statuses.inc("degraded", "store")
    for _ in range(2):
        metrics.write()
        value = metrics.registry.get_sample_value
        assert value("memory_proxy_requests_total", {"route": "chat", "status": "2xx"}) == 2
        assert value("memory_proxy_requests_total", {"route": "chat", "status": "5xx"}) == 1
        assert value("memory_proxy_memory_status_total", {"status": "degraded", "reason": "store"}) == 1


def test_the_ledger_is_counted_by_what_was_done() -> None:
    metrics = Metrics()
    metrics.ledger("kept", 3, 120)
    metrics.ledger("withdrawn", 1, 40, "erased")
    metrics.ledger("placed", 0, 0)
    value = metrics.registry.get_sample_value
    assert value("memory_proxy_ledger_blocks_total", {"what": "kept"}) == 3
    assert value("memory_proxy_ledger_tokens_total", {"what": "kept"}) == 120
    assert value("memory_proxy_ledger_blocks_total", {"what": "placed"}) == 0
    assert value("memory_proxy_ledger_withdrawn_total", {"reason": "erased"}) == 1


@pytest.mark.parametrize("name", ["m\ud800", "m\u2028n", "ü"])
def test_any_name_of_a_model_gives_a_line_of_ascii_that_can_be_read(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_by(Passage(None, None, {"route": "chat", "model": name}), "json", capsys)
    assert said.isascii()
    assert json.loads(said)["model"] == name


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_fault_is_told_with_its_place_and_without_its_words(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """asyncpg's, pydantic's and int's quote what they were given."""
    before, words = logging.getLogger().handlers[:], " ".join(("my", "diagnosis"))
    log = logging.getLogger("memory_proxy.some")
    try:
        configure_logging("info", form)
        try:
            try:
                int(words)
            except ValueError as fault:
                raise RuntimeError(words) from fault
        except RuntimeError:
            log.exception("unforeseen")
        log.error("several", exc_info=ExceptionGroup(words, [OSError(errno.ENOSPC, "No space left", words)]))
        said = capsys.readouterr().err
    finally:
        logging.getLogger().handlers[:] = before
    assert words not in said
    named = ("unforeseen", "ValueError", "RuntimeError", "several", "OSError: No space left", "test_passage.py")
    assert [name for name in named if name not in said] == []


@pytest.mark.parametrize(
    ("given", "trace"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c"),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", None),
        ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", None),
    ],
)
def test_a_line_names_the_trace_of_a_traceparent_that_is_one(given: str, trace: str | None) -> None:
    """W3C Trace Context, 3.2.2: zeros are no id, and ff is no version."""
    request = make_mocked_request("GET", "/v1/models", headers={"traceparent": given})
    with Passages(Metrics(), None).of(request, "other") as passage:
        answered(passage, web.Response())
    assert passage.facts.get("trace") == trace


def test_an_event_says_the_same_where_others_listen_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Alone on the root logger our handler is written to without a record; beside another one with it."""
    root = logging.getLogger()
    before, said = root.handlers[:], []
    try:
        for more in ([], [logging.NullHandler()]):
            configure_logging("info", "json")
            root.handlers.extend(more)
            event(logging.getLogger("memory_proxy.some"), "happened", logging.WARNING, route="chat", tokens=3)
            event(logging.getLogger("memory_proxy.some"), "not_said", logging.DEBUG)
            said.append(json.loads(capsys.readouterr().err))
    finally:
        root.handlers[:] = before
    assert [list(line) for line in said] == [["time", "level", "logger", "pid", "event", "route", "tokens"]] * 2
    first, second = ({**line, "time": re.sub(r"\d", "0", line["time"])} for line in said)
    assert first == second
    assert first["level"] == "warning"


class Full(io.StringIO):
    """A disk without room."""

    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, "full")


def test_a_line_that_cannot_be_written_is_lost_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    before = logging.getLogger().handlers[:]
    closed = io.StringIO()
    closed.close()
    try:
        for stream in (Full(), closed):
            monkeypatch.setattr("sys.stderr", stream)
            configure_logging("info", "json")
            Passage(None, None, {"route": "chat"}).finish(logging.INFO)
    finally:
        logging.getLogger().handlers[:] = before


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_log_whose_reader_stands_still_is_not_waited_for(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request behind a full pipe waited for ever, and with it all that the process did."""
    before, log = logging.getLogger().handlers[:], logging.getLogger("memory_proxy.some")
    reads, writes = os.pipe()
    with open(writes, "w", buffering=1) as stream, open(reads, "rb", buffering=0) as reader:
        monkeypatch.setattr("sys.stderr", stream)
        try:
            configure_logging("info", form)
            for number in range(2_000):
                event(log, "said", number=number, words="x" * 100)
            read = reader.read(1 << 20)
            event(log, "said", number="last")
            lines = (read + reader.read(1 << 20)).decode().splitlines()
        finally:
            logging.getLogger().handlers[:] = before
    assert 10 < len(lines) < 2_000
    assert "last" in lines[-1]


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_model_named_over_two_lines_forges_no_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = said_by(Passage(None, None, {"route": "chat", "model": 'm"\n{"event": "request"}\x1b[2J'}), form, capsys)
    assert len(said.splitlines()) == 1
    assert "\x1b" not in said
    if form == "json":
        assert json.loads(said)["route"] == "chat"


@pytest.mark.parametrize("program", ["memory migrate --mode start", "proxy.worker"])
def test_why_a_process_ends_is_a_line_of_the_log_like_all_others(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """'The reason is above', says the supervisor: above stood a line that no collector of JSON could read."""

    def fails(*_: object) -> None:
        raise StartFailed("the master key is short; restore it")

    for place in ("memory.__main__", "proxy.worker"):
        monkeypatch.setattr(f"{place}.settings_from_environ", lambda _: Settings())
    monkeypatch.setattr("memory.__main__._command", fails)
    monkeypatch.setattr("proxy.worker.serve", fails)
    monkeypatch.setattr(sys, "argv", program.split())
    before = logging.getLogger().handlers[:]
    try:
        assert (proxy.worker.main if program == "proxy.worker" else memory.__main__.main)() == 2
    finally:
        logging.getLogger().handlers[:] = before
    said = json.loads(capsys.readouterr().err)
    assert (said["event"], said["level"]) == ("cannot_go_on", "error")
    assert said["reason"] == "the master key is short; restore it"


@pytest.mark.parametrize(("fault", "code"), [(StartFailed("it is not"), 2), (StoreUnavailable("it is not"), TRY_AGAIN)])
@pytest.mark.parametrize("program", ["memory migrate", "memory migrate --mode check", "memory consolidate"])
def test_who_gives_a_command_beside_a_service_whose_log_is_json_reads_words(
    program: str, fault: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise fault

    settings = Settings.model_validate({"log": {"format": "json"}})
    monkeypatch.setattr("memory.__main__.settings_from_environ", lambda _: settings)
    monkeypatch.setattr("memory.__main__._has_its_key", lambda _: None)
    monkeypatch.setattr("memory.__main__._command", fails)
    monkeypatch.setattr(sys, "argv", program.split())
    before = logging.getLogger().handlers[:]
    try:
        assert memory.__main__.main() == code
    finally:
        logging.getLogger().handlers[:] = before
    said, *more = capsys.readouterr().err.splitlines()
    assert said == f"memory-proxy {program.split()[1]}: it is not"
    assert more in ([], ["what was done is kept; the same command goes on there"])
