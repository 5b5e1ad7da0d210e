"""`memory-proxy chat`: a talk with the served model at a terminal; or one question of a script, its answer on stdout.

On a terminal it goes on until Ctrl-D, whatever fails: what is wrong is said with what to do, what was typed is kept.
With -m, or where input or output is no terminal: one question, plain text, the answer alone on stdout and all else on
stderr; exit code 0 for a whole answer, 1 for none or a part of one, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import http.client
import importlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from memory.at_terminal import say_no_more
from memory.home import home_dir
from proxy.cli.chat_commands import offered, run_command, switch
from proxy.cli.chat_conversation import MODES
from proxy.cli.chat_line import LineFailed
from proxy.cli.chat_screen import Screen
from proxy.cli.chat_talk import CommandRefused, Talk, heard
from proxy.cli.chat_words import failure_words, remedy
from proxy.cli.client import CallFailed, with_service
from proxy.cli.progress import steers

TEACHES: Final = """\
  memory-proxy chat                                   with the service on http://127.0.0.1:8080; /help lists commands
  memory-proxy chat --user ada --project kitchen      as Ada, in a project of hers
  memory-proxy chat --session trip                    go on with the conversation called trip, or begin it
  memory-proxy chat --mode off                        nothing recalled, nothing kept
  memory-proxy chat -m "What is my boat called?"      one question, the answer on stdout
  git diff | memory-proxy chat --system "Write a commit message for this."

In a talk: /why shows what the last answer was given, /session list the conversations, /search WORDS what memory would
recall, /forget erases. Ctrl-C stops an answer and frees the GPU, Ctrl-D ends. docs/chat.md has all of it.
Without --key the key in MEMORY_PROXY_KEY is sent, if there is one.
"""
GREETING_S: Final = 2.0
"""How long the greeting waits for the names of the models; the first question asks again."""


class Prompt(Protocol):
    """Where a person types."""

    def asked(self) -> str:
        """What was typed. Raises EOFError at the end."""
        ...


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("-m", "--message", metavar="TEXT", help="ask this one question and end (- reads it from stdin)")
    with_service(parser)
    parser.add_argument(
        "--session", metavar="NAME", help="go on with this conversation, or begin it (X-Memory-Session)"
    )
    parser.add_argument("--checkpoint", metavar="NAME", help="begin with what was kept under this name")
    parser.add_argument("--persona", metavar="NAME", help="how answers are asked to be: concise, tone=dry …")
    parser.add_argument("--model", help="model to ask (default: the first of /v1/models)")
    parser.add_argument("--mode", choices=MODES, default="on", help="what memory may do (X-Memory-Mode)")
    parser.add_argument("--system", metavar="TEXT", help="a system message for the conversation")
    parser.add_argument("--no-color", action="store_true", help="no colours (so does NO_COLOR in the environment)")
    parser.add_argument("--no-history", action="store_true", help="keep nothing of what is typed in a file")


def run_chat(options: argparse.Namespace) -> int:
    """Talk until the end."""
    at_terminal = options.message is None and sys.stdin.isatty() and sys.stdout.isatty()
    colour = at_terminal and not options.no_color and steers(os.environ)
    for stream in (sys.stdin, sys.stdout, sys.stderr):  # what is not UTF-8, or cannot be shown, is a question mark
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    screen = Screen(sys.stdout, sys.stderr, live=at_terminal, colour=colour)
    try:
        talk = Talk(options, screen, datetime.now(UTC))
    except (CallFailed, ValueError) as fault:  # an address or a name that cannot be one
        screen.bad(str(fault))
        return 1
    try:
        return _talking(talk, options, colour=colour) if at_terminal else _one(talk, options)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        say_no_more()
        return 1


def _one(talk: Talk, options: argparse.Namespace) -> int:
    """One question, its answer."""
    question = sys.stdin.read() if options.message in (None, "-") else options.message
    if not question.strip():
        talk.screen.bad("there is no question: say it with -m TEXT or on standard input")
        return 1
    if options.session and not _obey(talk, partial(talk.resume, options.session)):
        return 1
    whole = talk.ask(question)
    return 0 if whole else 128 + signal.SIGINT if talk.was_stopped else 1


def _talking(talk: Talk, options: argparse.Namespace, *, colour: bool) -> int:
    """Question after question, until Ctrl-D."""
    # Loaded here, so that one question of a script does not wait a tenth of a second for what it never uses.
    typing = importlib.import_module("proxy.cli.chat_prompt")
    history = None if options.no_history else typing.history_path(os.environ, home_dir())
    prompt: Prompt = typing.Prompt(history, offered, colour=colour)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # heard where something can be stopped, and as a key while typing
    _greet(talk)
    if options.session:
        _obey(talk, partial(switch, talk, options.session))
    while True:
        try:
            text = prompt.asked()
            if text.startswith("/"):
                _obey(talk, partial(run_command, talk, text.strip()))
            elif text.strip():
                talk.ask(text.strip())
        except EOFError:
            return 0


def _obey(talk: Talk, command: Callable[[], object]) -> bool:
    """Run a command; what goes wrong is said. Whether it went well."""
    try:
        command()
        return True
    except CommandRefused as fault:
        talk.screen.bad(str(fault))
    except CallFailed as fault:
        code = str(fault).partition(":")[0].partition(" ")[2]
        talk.screen.bad("\n".join(part for part in (str(fault), remedy(code)) if part))
    except LineFailed as fault:
        talk.screen.bad(failure_words(fault.failure, talk.url))
    except (http.client.HTTPException, OSError) as fault:
        talk.screen.bad(f"the service's answer broke off ({fault})")
    except (ValueError, KeyError, TypeError, IndexError) as fault:  # another program's answer, or another version's
        talk.screen.bad(
            f"the answer of {talk.url} cannot be read ({fault!r}): is it a memory-proxy, as new as this one?"
        )
    except KeyboardInterrupt:
        talk.screen.note("stopped")
    return False


def _greet(talk: Talk) -> None:
    """Say where we are; a service that is away is told before somebody has typed a long question."""
    try:
        with heard():
            if talk.conversation.model is None:
                talk.conversation = replace(talk.conversation, model=talk.models(GREETING_S)[0])
        mode = "" if talk.conversation.mode == "on" else f", mode {talk.conversation.mode}"
        talk.screen.note(f"{talk.conversation.model} at {talk.url}{mode}; /help lists the commands, Ctrl-D ends")
    except LineFailed as fault:
        talk.screen.bad(failure_words(fault.failure, talk.url))
    except KeyboardInterrupt:
        pass
