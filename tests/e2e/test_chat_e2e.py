"""`memory-proxy chat` at a real terminal, before a real service: what fails ends nothing, and nothing typed is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.at_terminal import CTRL_C, CTRL_D, ENTER, NEW_LINE, TAB, UP, Terminal, at_terminal
from tests.chat_recording import SHOWN_URL, chat_argv, chat_environ, recorded
from tests.e2e.upstreams import counters, last
from tests.service_fixture import SHARED, Service, serving
from tests.waiting import wait_until

Start = Callable[..., contextlib.AbstractContextManager[Terminal]]
RECORDING = Path(__file__).parent.parent.parent / "docs" / "recordings" / "chat.cast"


def next_answers(upstream: str, *faults: dict[str, object]) -> None:
    """How the stand-in answers the next generation requests."""
    data = json.dumps({"next": list(faults)}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{upstream}/__control", data=data, method="POST")).close()


@pytest.fixture
def start(service: Service, user: str, tmp_path: Path) -> Start:
    """Starts the program at a terminal, as a user of this test alone."""

    @contextlib.contextmanager
    def started(*options: str, url: str | None = None) -> Iterator[Terminal]:
        argv = chat_argv(service, "--user", user, *options)
        if url is not None:
            argv[argv.index("--url") + 1] = url
        with at_terminal(argv, chat_environ(tmp_path), tmp_path) as terminal:
            yield terminal

    return started


def leave(terminal: Terminal) -> None:
    terminal.until_prompt()
    terminal.type(CTRL_D)
    assert terminal.ended() == 0


def once(service: Service, user: str, *options: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """The program in a script."""
    return subprocess.run(
        chat_argv(service, "--user", user, *options),
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# --- answers ---------------------------------------------------------------------------------------------------------


def test_tokens_appear_as_they_come(start: Start, upstream: str) -> None:
    next_answers(upstream, {"reply": "one two three four five six", "token_ms": 120})
    with start() as terminal:
        terminal.say("Count.")
        terminal.until("one")
        first = terminal.events[-1][0]
        terminal.until("six")
        assert terminal.events[-1][0] - first > 0.3
        terminal.until("memory: nothing recalled")
        leave(terminal)


def test_what_was_told_in_one_conversation_is_given_in_another_and_why_shows_it(
    start: Start, service: Service, upstream: str
) -> None:
    with start() as terminal:
        next_answers(upstream, {"reply": "Noted."})
        terminal.say("My boat is called Halcyon.")
        terminal.until("in all")
        service.settle()
        terminal.say("/session new")
        terminal.until("nothing said yet")
        terminal.say("What is my boat called?")
        terminal.until("; /why shows it")
        terminal.say("/why")
        terminal.until("My boat is called Halcyon.")
        terminal.until("likely evidence")
        terminal.say("/why all")
        terminal.until("chance")
        terminal.say("/search boat")
        terminal.until("My boat is called Halcyon.")
        terminal.say("/memories")
        terminal.until("My boat is called Halcyon.")
        leave(terminal)


def test_conversations_are_listed_and_gone_on_with(start: Start, service: Service, upstream: str) -> None:
    with start("--session", "garden") as terminal:
        terminal.until("session garden is new")
        next_answers(upstream, {"reply": "Beans first."})
        terminal.say("What do I sow in May?")
        terminal.until("in all")
        terminal.say("/session new boats")
        next_answers(upstream, {"reply": "A spanner."})
        terminal.say("What do I pack?")
        terminal.until("in all")
        service.settle()
        terminal.say("/session list")
        terminal.until("boats")
        terminal.until("What do I pack?")
        terminal.until("garden")
        terminal.say("/session 2")
        terminal.until("session garden: 2 turns")
        terminal.until("Beans first.")
        terminal.say("And in June?")
        terminal.until("in all")
        leave(terminal)
    sent = [(one["role"], one["content"]) for one in last(upstream)[0].json["messages"]]
    assert sent == [("user", "What do I sow in May?"), ("assistant", "Beans first."), ("user", "And in June?")]
    service.settle()
    with start("--session", "garden") as terminal:
        terminal.until("session garden: 4 turns")
        terminal.until("And in June?")
        leave(terminal)


def test_thoughts_and_tool_calls_are_shown_and_the_thoughts_are_not_sent_back(start: Start, upstream: str) -> None:
    next_answers(upstream, {"reasoning": 3, "reply": "Yes."}, {"tool_calls": 1})
    with start() as terminal:
        terminal.say("Is it so?")
        terminal.until("Yes.")
        assert "\x1b[2mThe" in terminal.raw
        terminal.say("Look.")
        terminal.until("tool call: lookup({")
        terminal.until("in all")
        terminal.say("And?")
        terminal.until("in all")
        leave(terminal)
    said = [one["content"] for one in last(upstream)[0].json["messages"]]
    assert said == ["Is it so?", "Yes.", "Look.", "", "And?"]


def test_an_answer_cannot_steer_the_terminal(start: Start, service: Service, user: str, upstream: str) -> None:
    evil = "a\x1b]0;owned\x07b\x1b[2Jc\x9b31md\u202ee\rf"
    next_answers(upstream, {"reply": evil})
    with start() as terminal:
        terminal.say("Hello.")
        terminal.until("in all")
        service.settle()
        terminal.say("/search Hello")  # what is stored is shown no otherwise
        terminal.until("admitted (*)")
        leave(terminal)
        for steers in ("\x1b]0;", "\x1b[2J", "\x9b", "\u202e", "\x07"):
            assert steers not in terminal.raw
        assert "a�]0;owned�b�[2Jc�31md�ef" in terminal.raw
    next_answers(upstream, {"reply": evil})
    assert once(service, user, "-m", "Hello.").stdout == "a�]0;owned�b�[2Jc�31md�ef\n"


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [{"token_ms": 50}, {"first_ms": 60_000}], ids=["midway", "before the first token"])
def test_ctrl_c_stops_the_answer_frees_the_upstream_and_not_the_program(
    start: Start, upstream: str, pace: dict[str, object]
) -> None:
    next_answers(upstream, {"tokens": 4_000, **pace})
    with start() as terminal:
        before = counters(upstream)
        terminal.say("Go on and on.")
        terminal.until("The quick" if "token_ms" in pace else "…")
        wait_until(lambda: counters(upstream)["running"] > before["running"], 10, "it runs")
        terminal.type(CTRL_C)
        terminal.until_shown("^C")  # the terminal drops what was written before, which a signal of ours could be
        os.kill(terminal.pid, signal.SIGINT)  # an impatient second one changes nothing
        terminal.until("stopped; /retry asks again")
        wait_until(lambda: counters(upstream)["running"] == before["running"], 2, "the upstream is free")
        assert counters(upstream)["cancelled"] == before["cancelled"] + 1
        next_answers(upstream, {"reply": "Short now."})
        terminal.say("/retry")
        terminal.until("Short now.")
        leave(terminal)
    assert [one["content"] for one in last(upstream)[0].json["messages"]] == ["Go on and on."]


@pytest.mark.parametrize("fault", [{"die_after": 5}, {"error_after": 5}, {"die": True}], ids=str)
def test_an_upstream_that_dies_costs_nothing_that_was_typed(
    start: Start, upstream: str, fault: dict[str, object]
) -> None:
    next_answers(upstream, {"tokens": 50, **fault})
    with start() as terminal:
        terminal.say("A question that took long to type.")
        terminal.until("/retry asks again")
        next_answers(upstream, {"reply": "Here I am."})
        terminal.say("/retry")
        terminal.until("Here I am.")
        terminal.until_prompt()
        terminal.type(UP)
        terminal.read_for(0.3)
        assert terminal.shown.rstrip().endswith("/retry")
        terminal.type(UP)
        terminal.until_shown("A question that took long to type.")
        terminal.type(CTRL_C)
        leave(terminal)
    assert [one["content"] for one in last(upstream)[0].json["messages"]] == ["A question that took long to type."]


def test_a_service_that_is_away_is_told_with_what_to_do_and_asked_again_when_it_is_there(
    start: Start, service: Service
) -> None:
    with start(url="http://127.0.0.1:9") as terminal:
        terminal.until("does not answer (Connection refused); is `memory-proxy serve` running there?")
        terminal.say("Is anybody there?")
        terminal.until("does not answer")
        terminal.say("/session list")
        terminal.until("does not answer")
        leave(terminal)


def test_a_server_that_is_no_memory_proxy_ends_nothing(start: Start, upstream: str) -> None:
    with start(url=upstream) as terminal:
        terminal.say("Hello.")
        terminal.until("this is no memory-proxy")
        terminal.say("/session list")
        terminal.until("404 ")
        terminal.say("/why")
        terminal.until("no answer yet that memory had a part in")
        leave(terminal)


@pytest.mark.parametrize(
    ("status", "does"), [(429, "come again in 7 s"), (503, "/retry asks again"), (404, "/model lists")]
)
def test_a_refusal_is_told_with_what_to_do(start: Start, upstream: str, status: int, does: str) -> None:
    next_answers(upstream, {"status": status, "retry_after": 7})
    with start() as terminal:
        terminal.say("Hello.")
        terminal.until(f"{status}: ")
        terminal.until(does)
        terminal.say("/retry")
        terminal.until("in all")
        leave(terminal)


@pytest.mark.long
@pytest.mark.slow
def test_a_key_is_asked_for_and_a_token_for_one_conversation_names_it(upstream: str, tmp_path: Path) -> None:
    with serving(upstream, env={"MEMORY_PROXY_AUTH__MODE": "keys"}) as service:
        key = _made(service, tmp_path, "key", "create", "laptop", "--user", "ada", "--data-dir", str(service.data))
        token = _made(service, tmp_path, "key", "token", "--from", key, "--session", "ticket 7 \xe9")
        weak = _made(
            service, tmp_path, "key", "create", "weak", "--can", "memory:write", "--data-dir", str(service.data)
        )
        time.sleep(1.2)  # a new key is known within a second
        argv, environ = chat_argv(service), chat_environ(tmp_path)
        with at_terminal(argv, environ, tmp_path) as terminal:
            terminal.until("401: ")
            terminal.until("--key or in MEMORY_PROXY_KEY")
            terminal.say("Hello?")
            terminal.until("401: ")
            leave(terminal)
        with at_terminal(argv, {**environ, "MEMORY_PROXY_KEY": f"{token}\n"}, tmp_path) as terminal:
            terminal.say("My ticket is about the gate.")
            terminal.until("in all")
            terminal.say("/session")
            terminal.until("session ticket 7 \xe9; exchanges sent with the next question: 1")
            terminal.say("What is it about?")
            terminal.until("in all")
            leave(terminal)
            assert token not in terminal.raw
        with at_terminal([*argv, "--key", weak, "--user", "bob"], environ, tmp_path) as terminal:
            terminal.say("Hello?")
            terminal.until("403: ")
            terminal.say("/search x")
            terminal.until("403 capability_missing")
            terminal.until("--can")
            leave(terminal)


def _made(service: Service, cwd: Path, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "proxy", *words],
        capture_output=True, text=True, timeout=60, check=False, cwd=cwd,
        env={**chat_environ(cwd), "MEMORY_PROXY_AUTH__MODE": "keys"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


# --- typing ----------------------------------------------------------------------------------------------------------


def test_a_question_of_several_lines_is_one_question(start: Start, upstream: str) -> None:
    with start() as terminal:
        terminal.until_prompt()
        terminal.type(f"one{NEW_LINE}two\\{ENTER}three\x1b{ENTER}four")
        terminal.until_shown("four")
        terminal.type(ENTER)
        terminal.until("in all")
        terminal.until_prompt()
        terminal.type("\x1b[200~pasted\r\nin two lines\x1b[201~")
        terminal.until_shown("in two lines")
        terminal.type(ENTER)
        terminal.until("in all")
        leave(terminal)
    said = [one["content"] for one in last(upstream)[0].json["messages"]]
    assert (said[0], said[-1]) == ("one\ntwo\nthree\nfour", "pasted\nin two lines")


def test_what_was_typed_is_there_the_next_day_and_what_was_put_aside_too(start: Start, tmp_path: Path) -> None:
    with start() as terminal:
        terminal.until_prompt()
        terminal.type("half a thought")
        terminal.until_shown("half a thought")
        terminal.type(CTRL_C)
        leave(terminal)
    with start() as terminal:
        terminal.until_prompt()
        terminal.type(UP)
        terminal.until_shown("half a thought")
        terminal.type(CTRL_C)
        leave(terminal)
    kept = tmp_path / ".local" / "state" / "memory-proxy" / "chat_history"
    assert "half a thought" in kept.read_text()
    kept.unlink()
    with start("--no-history") as terminal:
        terminal.say("/help")
        terminal.until("/quit")
        leave(terminal)
    assert not kept.exists()


def test_an_interrupt_while_typing_ends_nothing(start: Start) -> None:
    with start() as terminal:
        terminal.until_prompt()
        terminal.type("half")
        terminal.until_shown("half")
        os.kill(terminal.pid, signal.SIGINT)
        terminal.read_for(0.3)
        terminal.say("/help")
        terminal.until("/quit")
        leave(terminal)


def test_commands_change_what_is_sent(start: Start, upstream: str) -> None:
    with start("--mode", "off") as terminal:
        terminal.say("Hello.")
        terminal.until("memory: off, not kept")
        terminal.until_prompt()
        terminal.type(f"/mo{TAB}")
        terminal.until_shown("/mode")
        terminal.type(f"\x15/mode read{ENTER}")
        terminal.until("mode read")
        for command, shows in (
            ("/system Be brief.", "system message: Be brief."),
            ("/model other", "model other"),
            ("/model", "fake-model"),
            ("/mode maybe", "/mode on (recall and keep)"),
            ("/nonsense", "is no command"),
            ("/forget", "what is to go"),
            ("/undo", "dropped “Hello.”"),
            ("/model fake-model", "model fake-model"),
        ):
            terminal.say(command)
            terminal.until(shows)
        terminal.say(" /etc/passwd, what is it?")
        terminal.until("in all")
        terminal.say("/quit")
        assert terminal.ended() == 0
    said = [(one["role"], one["content"]) for one in last(upstream)[0].json["messages"]]
    assert said == [("system", "Be brief."), ("user", "/etc/passwd, what is it?")]


def test_forgetting_is_rehearsed_and_done_only_after_yes(start: Start, service: Service, user: str) -> None:
    with start() as terminal:
        terminal.say("The safe opens with a song.")
        terminal.until("in all")
        service.settle()
        terminal.say("/forget session")
        terminal.until("this goes for good: ")
        terminal.until("Type yes: ")
        terminal.type(f"no{ENTER}")
        terminal.until("nothing was forgotten")
        terminal.say("/forget session")
        terminal.until("Type yes: ")
        terminal.type(CTRL_C)
        terminal.until("stopped")
        assert service.call("GET", "/memory/v1/sessions", X_Memory_User=user)["data"]
        terminal.say("/forget session")
        terminal.until("Type yes: ")
        terminal.type(f"yes{ENTER}")
        terminal.until("forgotten, complete")
        terminal.until("nothing said yet")
        leave(terminal)
    assert service.call("GET", "/memory/v1/sessions", X_Memory_User=user)["data"] == []


# --- scripts ---------------------------------------------------------------------------------------------------------


def test_a_script_gets_the_answer_alone_and_an_exit_code(service: Service, user: str, upstream: str) -> None:
    next_answers(upstream, {"reasoning": 3, "reply": "Grün."}, {"reply": "Two lines."}, {"tokens": 50, "die_after": 5})
    asked = once(service, user, "-m", "Which colour?")
    assert (asked.returncode, asked.stdout) == (0, "Grün.\n")
    assert "\x1b" not in asked.stdout + asked.stderr
    assert "memory: " in asked.stderr
    piped = once(service, user, given="a question\nof two lines\n")
    assert (piped.returncode, piped.stdout) == (0, "Two lines.\n")
    assert last(upstream)[0].json["messages"][-1]["content"] == "a question\nof two lines\n"
    broken = once(service, user, "-m", "Which colour?")
    assert broken.returncode == 1
    assert "broke off" in broken.stderr
    assert once(service, user, given="  \n").returncode == 1
    away = once(service, user, "-m", "x", "--url", "http://127.0.0.1:9")
    assert (away.returncode, away.stdout) == (1, "")
    assert "is `memory-proxy serve` running there?" in away.stderr
    assert "Traceback" not in away.stderr


def test_a_script_goes_on_with_a_conversation(service: Service, user: str, upstream: str) -> None:
    next_answers(upstream, {"reply": "Beans."})
    once(service, user, "-m", "What do I sow?", "--session", "garden")
    service.settle()
    assert once(service, user, "-m", "And then?", "--session", "garden").returncode == 0
    assert [one["content"] for one in last(upstream)[0].json["messages"]] == ["What do I sow?", "Beans.", "And then?"]


def test_a_script_that_is_interrupted_leaves_the_upstream_and_says_so(
    service: Service, user: str, upstream: str
) -> None:
    next_answers(upstream, {"tokens": 4_000, "token_ms": 50})
    before = counters(upstream)
    with subprocess.Popen(chat_argv(service, "--user", user, "-m", "x"), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.read(1)
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130
    wait_until(lambda: counters(upstream)["running"] == before["running"], 2, "the upstream is free")


def test_a_reader_that_leaves_is_no_traceback(service: Service, user: str, upstream: str) -> None:
    next_answers(upstream, {"tokens": 2_000, "token_ms": 1})
    command = [*chat_argv(service, "--user", user, "-m", "x")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.read(1)
        running.stdout.close()
        said = running.stderr.read()
        assert running.wait(30) == 1
    assert "Traceback" not in said


# --- checkpoints and personas ----------------------------------------------------------------------------------------


def test_a_checkpoint_is_kept_and_given_to_another_conversation_once(
    start: Start, service: Service, upstream: str
) -> None:
    with start() as terminal:
        next_answers(upstream, {"reply": "Gladly."})
        terminal.say("Please help me moor the Halcyon.")
        terminal.until("in all")
        service.settle()
        terminal.say("/checkpoint save the harbour -- Mind the tide.")
        terminal.until("notes      Mind the tide.")
        terminal.until("goal       Please help me moor the Halcyon.")
        terminal.say("/checkpoint")
        terminal.until("the harbour  of chat-")
        terminal.say("/session new")
        terminal.until("nothing said yet")
        terminal.say("/checkpoint load the harbour")
        terminal.until("goes with your next question")
        next_answers(upstream, {"reply": "At the harbour."})
        terminal.say("Where were we?")
        terminal.until("At the harbour.")
        terminal.until("in all")
        sent = last(upstream)[0].json["messages"][-1]["content"]
        assert "Restored from a checkpoint:" in sent and "Mind the tide." in sent
        next_answers(upstream, {"reply": "Yes."})
        terminal.say("And now?")
        terminal.until("Yes.")
        terminal.until("in all")
        assert "Restored" not in last(upstream)[0].json["messages"][-1]["content"]
        terminal.say("/checkpoint show nowhere")
        terminal.until("no such checkpoint")
        terminal.say("/checkpoint frobnicate")
        terminal.until("/checkpoint list, save NAME")
        leave(terminal)


def test_a_talk_begins_with_the_checkpoint_that_the_command_names(
    start: Start, service: Service, user: str, upstream: str
) -> None:
    body = {"name": "the harbour", "notes": "Mind the tide."}
    service.call("POST", "/memory/v1/checkpoints", body, X_Memory_User=user)
    with start("--checkpoint", "the harbour") as terminal:
        for typed, wanted in (("Where were we?", True), ("And now?", False)):
            next_answers(upstream, {"reply": "At the harbour."})
            terminal.say(typed)
            terminal.until("in all")
            sent = last(upstream)[0].json["messages"][-1]["content"]
            assert ("Mind the tide." in sent) is wanted, "given once, with the first question"
        leave(terminal)
    next_answers(upstream, {"reply": "At the harbour."})
    asked = once(service, user, "--checkpoint", "the harbour", "-m", "Where were we?")
    assert asked.returncode == 0 and "Mind the tide." in last(upstream)[0].json["messages"][-1]["content"]
    gone = once(service, user, "--checkpoint", "nowhere", "-m", "Where were we?")
    assert gone.returncode == 1 and "no such checkpoint" in gone.stderr


def test_a_style_is_asked_for_until_it_is_taken_back(start: Start, service: Service, upstream: str) -> None:
    with start("--persona", "concise") as terminal:
        for typed, wanted in (("One.", True), ("Two.", False)):
            next_answers(upstream, {"reply": "Good."})
            terminal.say(typed)
            terminal.until("in all")
            assert ("Style asked for:" in last(upstream)[0].json["messages"][-1]["content"]) is wanted, "said once"
        terminal.say("/persona list")
        terminal.until("playful")
        terminal.say("/persona tone=loud")
        terminal.until("style asked for: tone=loud")
        terminal.say("Three.")
        terminal.until("known: neutral")
        terminal.say("/persona -")
        terminal.until("style asked for: none")
        leave(terminal)


# --- the command line and the recording ------------------------------------------------------------------------------


def test_help_teaches_the_commands_of_a_talk() -> None:
    ran = subprocess.run([sys.executable, "-m", "proxy", "chat", "--help"], capture_output=True, text=True, check=True)
    assert "/why" in ran.stdout


def test_a_prompt_waits_for_none_of_the_other_commands() -> None:
    seen = (
        "import sys; from proxy.cli.parser import build_parser; build_parser(['chat']); "
        "import proxy.cli.chat_prompt; print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "numpy", "cryptography", "aiohttp", "asyncpg", "openai"} & set(loaded)


def checked(cast: str) -> str:
    """An asciicast v2 by its specification; what it shows. Raises AssertionError."""
    head, *events = map(json.loads, cast.splitlines())
    assert head["version"] == 2
    assert all(isinstance(head[name], int) and head[name] > 0 for name in ("width", "height"))
    clock = 0.0
    for at, what, text in events:
        assert at >= clock
        assert what == "o"
        assert isinstance(text, str)
        clock = at
    assert 5 < clock < 60
    return "".join(text for _, _, text in events)


def test_the_recording_is_an_asciicast_of_a_talk_with_why() -> None:
    shown = checked(RECORDING.read_text(encoding="utf-8"))
    assert SHOWN_URL in shown
    assert shown.index("What is my boat called?") < shown.index("/why shows it") < shown.index("<memory>")
    assert "/home/" not in shown
    assert "/tmp/" not in shown


@pytest.mark.long
def test_the_recording_can_be_made_anew() -> None:
    assert "<memory>" in checked(recorded())


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_recording_is_made_anew_outside_a_run_of_tests(tmp_path: Path) -> None:
    made = tmp_path / "chat.cast"
    alone = {name: value for name, value in os.environ.items() if name != SHARED}
    argv = [sys.executable, "-m", "tests.chat_recording", str(made)]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=280, env=alone, cwd=RECORDING.parents[2], check=False
    )
    assert done.returncode == 0, done.stderr
    assert "/why" in made.read_text()
