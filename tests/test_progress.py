"""What a command says of its progress at a terminal of so many columns: one line, and nothing of it in what follows."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import re
import struct
import subprocess
import sys
import termios
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.__main__ import main
from proxy.cli import demo_terminal, forgetting
from proxy.cli.chat_commands import COMMANDS, run_command
from proxy.cli.chat_screen import Screen
from proxy.cli.client import Client
from proxy.cli.progress import Progress, steers
from tests.test_cli_bench import answering as chats
from tests.test_cli_client import DOCUMENT, NDJSON, answering, whole

COLUMNS = 40


class Shown(io.StringIO):
    """A terminal, and what stands on it."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns = columns
        self._ends = os.openpty()
        fcntl.ioctl(self._ends[1], termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._ends[1]

    def close(self) -> None:
        for one in self._ends:
            os.close(one)
        super().close()

    def rows(self) -> list[str]:
        """Its lines, without blanks at their ends; a line that is too long goes on in the next."""
        rows, at = [""], 0
        cleared = self.getvalue().replace("\x1b[2K", "\r" + " " * (self.columns - 1) + "\r")
        for char in re.sub(r"\x1b\[\d+m", "", cleared):
            if char == "\n" or (at == self.columns and char != "\r"):
                rows.append("")
                at = 0
            if char == "\r":
                at = 0
            elif char != "\n":
                rows[-1] = rows[-1][:at].ljust(at) + char + rows[-1][at + 1 :]
                at += 1
        return [row.rstrip() for row in rows]


@contextmanager
def terminal() -> Iterator[Shown]:
    """What the block says is shown here."""
    with closing(Shown(COLUMNS)) as shown, redirect_stdout(shown), redirect_stderr(shown):
        yield shown


def lines(*said: bytes) -> bytes:
    """A whole answer of these lines."""
    body = b"".join(one + b"\n" for one in said)
    return NDJSON + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def test_an_import_has_one_line_of_progress_and_bad_lines_stand_alone(tmp_path: Path) -> None:
    (tmp_path / "past.ndjson").write_text("{}\n")
    said = lines(
        b'{"accepted":1234567,"done":1234000,"failed":0}',
        b'{"line":7,"error":"no JSON"}',
        b'{"accepted":1234567,"done":1234500,"failed":1}',
        b'{"accepted":1234567,"done":1234567,"failed":1,"complete":true}',
    )
    with answering(said) as url, terminal() as shown:
        assert main(["import", str(tmp_path / "past.ndjson"), "--url", url]) == 1
        assert shown.rows() == ["line 7: no JSON", "accepted 1234567  done 1234567  failed 1", ""]


def test_what_a_bench_found_stands_below_no_rest_of_its_progress() -> None:
    with chats(b'{"choices": [{"delta": {"content": "a"}}]}', b"[DONE]") as url, terminal() as shown:
        assert main(["bench", "--url", url, "--conversations", "1", "--turns", "1"]) == 0
        assert shown.rows()[0] == f"m at {url}"


def test_a_receipt_is_json_from_its_first_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    planned = whole({"counts": {"turns": 2}, "sample_ids": [], "confirm": "c"})
    waits = whole({"status": "running", "step": "waiting for every process", "id": "e1"})
    with (
        answering(planned, None, waits, waits, whole({"counts": {"turns": 2}, "complete": True, "id": "e1"})) as url,
        terminal() as shown,
    ):
        assert main(["forget", "--user", "ada", "--yes", "--url", url]) == 0
        assert shown.rows()[0] == "{"


def test_a_step_of_an_erasure_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    waits = whole({"status": "running", "step": "probe", "id": "e1"})
    planned, told = whole({"counts": {}, "sample_ids": [], "confirm": "c"}), list[str]()
    with answering(planned, None, waits, waits, waits, whole({"complete": True})) as url:
        client = Client(Namespace(url=url, key=None, user=None, project=None, agent=None))
        forgetting.forget_by_api(client, "user", "ada", agreed=lambda _: True, goes_on=told.append)
    assert told == ["probe"]


def test_elsewhere_than_at_a_terminal_progress_is_a_line_now_and_then_and_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "past.ndjson").write_text("{}\n")
    steps = [b'{"accepted":%d,"done":%d,"failed":0}' % (one, one) for one in range(50)]
    with answering(lines(*steps, b'{"accepted":50,"done":50,"failed":0,"complete":true}')) as url:
        assert main(["import", str(tmp_path / "past.ndjson"), "--url", url]) == 0
    assert capsys.readouterr().err == "accepted 0  done 0  failed 0\naccepted 50  done 50  failed 0\n"


def test_an_import_goes_on_where_its_terminal_is_gone(tmp_path: Path) -> None:
    """As one does that was sent into the background by who then closed the terminal."""
    (tmp_path / "past.ndjson").write_text("{}\n")
    master, slave = os.openpty()
    said = lines(
        b'{"accepted":1,"done":0,"failed":0}',
        b'{"accepted":1,"done":1,"failed":0,"complete":true}',
    )
    with answering(said) as url:
        words = [sys.executable, "-P", "-m", "proxy", "import", str(tmp_path / "past.ndjson"), "--url", url]
        with subprocess.Popen(words, stderr=slave) as process:
            os.close(slave)
            os.close(master)
            assert process.wait(60) == 0


def test_who_leaves_an_import_is_told_what_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("proxy.cli.data.printable", interrupted)
    (tmp_path / "past.ndjson").write_text("{}\n")
    with answering(lines(b'{"accepted":64,"done":0,"failed":0}', b'{"line":7,"error":"no JSON"}')) as url:
        assert main(["import", str(tmp_path / "past.ndjson"), "--url", url]) == 130
    assert "what was accepted is stored all the same" in capsys.readouterr().err


def test_who_leaves_an_upload_is_told_that_it_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    (tmp_path / "guide.md").write_text("The boat lies at berth nine.")
    taken = {**DOCUMENT, "version": 1, "upload": {"id": "u1", "status": "working", "chunks": 9, "embedded": 3}}
    with answering(whole(taken)) as url, terminal() as shown:
        with pytest.raises(KeyboardInterrupt):
            main(["documents", "add", str(tmp_path / "guide.md"), "--url", url])
        assert "it is stored all the same" in "".join(shown.rows())


async def test_what_the_demo_waits_for_stays_one_line_of_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_terminal, "FIRST_S", 0)
    monkeypatch.setattr(demo_terminal, "COUNT_EVERY_S", 0.01)
    with closing(Shown(COLUMNS)) as shown:
        waiting = demo_terminal.Terminal(shown, live=True, steps=1)
        async with waiting.progress("fetching", lambda: "3 of about 316 MiB written"):
            await asyncio.sleep(0.05)
        assert [row[:15] for row in shown.rows()] == ["      fetching:", ""]


def test_a_line_of_wide_letters_does_not_wrap() -> None:
    with terminal() as shown:
        Progress().say("日本語" * 20)
        assert len(shown.rows()[0]) == (COLUMNS - 1) // 2


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_commands_of_a_talk_are_taught_in_lines_that_no_terminal_wraps(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = io.StringIO()
    talk: Any = SimpleNamespace(screen=Screen(out, out, live=True, colour=False))
    run_command(talk, "/help")
    said = out.getvalue().splitlines()
    assert max(map(len, said)) <= columns
    assert all(any(line.startswith(name) for line in said) for name in COMMANDS)


@pytest.mark.parametrize(
    ("environ", "does"),
    [
        ({}, True),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1"}, False),
    ],
)
def test_a_terminal_that_knows_no_escapes_is_sent_none(environ: dict[str, str], does: bool) -> None:
    assert steers(environ) is does
