"""A talk at a terminal: questions in, answers shown and kept as one conversation; what goes wrong is said, not raised.

Holds the one conversation that is under way, and replaces it step by step. Ctrl-C ends what is under way, an answer or
a call, and closes its connection, so that the GPU is free; it ends nothing else.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from proxy.cli.chat_conversation import Conversation, exchanges_of
from proxy.cli.chat_line import Line, LineFailed
from proxy.cli.chat_screen import Screen
from proxy.cli.chat_words import Failure, failure_words, status_line
from proxy.cli.client import CallFailed, Client, scope_headers

MODELS_S: Final = 30.0
_LEFT: Final = "stopped; /retry asks again"
_ENDS: Final = {
    "length": "the answer was cut at the model's limit; say “go on”",
    "content_filter": "the answer was cut by a content filter",
}


class CommandRefused(Exception):
    """What was typed is no command; the text says how it is meant."""


class Talk:
    """One person's talk with one service. `line` and `client` raise; `asked` and `listed` say it on the screen."""

    def __init__(self, options: argparse.Namespace, screen: Screen, now: datetime) -> None:
        self.client = Client(options)
        self.screen = screen
        self.url: str = options.url.rstrip("/")
        self._line = Line(self.url, scope_headers(options))
        self._own: str | None = session_name(now) if options.session is None else None
        self.conversation = Conversation(
            session=self._own if options.session is None else options.session,
            mode=options.mode,
            model=options.model,
            system=options.system,
            checkpoint=options.checkpoint,
            persona=options.persona,
        )
        self.was_stopped = False
        self.listed: tuple[str, ...] = ()  # the names that /session list showed last, by their numbers

    def ask(self, question: str) -> bool:
        """Ask, show the answer, keep both. Whether it came whole; whatever hindered it is on the screen."""
        began = time.monotonic()
        answer: list[str] = []
        memory: dict[str, str] = {}
        whole = self.was_stopped = False
        try:
            with heard():
                if self.conversation.model is None:
                    self.conversation = replace(self.conversation, model=self.models()[0])
                self.screen.waiting()
                self._answer(question, answer, memory)
                whole = True
        except KeyboardInterrupt:
            self.was_stopped = True
            self.screen.ended()
            self.screen.note(_LEFT if self.screen.live else "stopped")
        except LineFailed as fault:
            self.screen.ended()
            if self._is_named_by_its_token(fault.failure):
                return self.ask(question)
            self.screen.bad(failure_words(fault.failure, self.url, in_talk=self.screen.live))
        self.screen.ended()
        kept = whole or any(answer)
        said = "".join(answer)
        self.conversation = (
            self.conversation.answered(question, said, memory) if kept else self.conversation.failed(question)
        )
        if kept:
            took_s, live = time.monotonic() - began, self.screen.live
            self.screen.note(status_line(memory, took_s, self.conversation.mode, in_talk=live))
        return whole

    def models(self, timeout_s: float = MODELS_S) -> list[str]:
        """What is served, the default first. Raises LineFailed."""
        found = self._line.models(timeout_s)
        if not found:
            raise LineFailed(Failure("refused", "no model is served; say one with --model or /model NAME", 200))
        return found

    def begin(self, session: str | None, now: datetime) -> None:
        """Another conversation, nothing said in it yet; without a name it gets one of ours."""
        self._own = session_name(now) if session is None else None
        self.conversation = self.conversation.begun(session or self._own)

    def resume(self, session: str) -> int | None:
        """Go on with a stored conversation: how many turns it has, None where it is not known. Raises CallFailed."""
        path, turns, cursor = f"/memory/v1/sessions/{quote(session, safe='')}", list[dict[str, Any]](), None
        try:
            while True:
                page = self.client.get(path, {"cursor": cursor})
                turns += page["turns"]
                if (cursor := page["next_cursor"]) is None:
                    break
        except CallFailed as fault:
            if fault.status != 404:
                raise
            self._own = None
            self.conversation = self.conversation.begun(session)
            return None
        self._own = None
        self.conversation = self.conversation.begun(session, exchanges_of(turns))
        return len(turns)

    def _answer(self, question: str, answer: list[str], memory: dict[str, str]) -> None:
        """Show the answer as it comes, and note it in `answer` and `memory`. Raises LineFailed, KeyboardInterrupt."""
        conversation = self.conversation
        with self._line.ask(conversation.body(question), conversation.headers()) as call:
            memory.update(call.memory)
            for piece in call.pieces():
                match piece.kind:
                    case "text":
                        answer.append(piece.text)
                        self.screen.said(piece.text)
                    case "thought":
                        self.screen.thought(piece.text)
                    case "call":
                        self.screen.called(piece.text)
                    case "end" if piece.text in _ENDS:
                        self.screen.ended()
                        self.screen.note(_ENDS[piece.text])

    def _is_named_by_its_token(self, failure: Failure) -> bool:
        """Whether the name that we gave was refused, since the token is for one conversation: it names it, then."""
        ours = self._own is not None and self.conversation.session == self._own
        if not ours or failure.code != "scope_denied" or failure.param != "X-Memory-Session":
            return False
        self._own = None
        self.conversation = replace(self.conversation, session=None)
        return True


def session_name(now: datetime) -> str:
    """A name for a conversation: when it began, and four characters that tell two of one second apart."""
    return f"chat-{now:%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


@contextmanager
def heard() -> Iterator[None]:
    """Within it the first Ctrl-C raises KeyboardInterrupt, and an impatient second one does nothing.

    Outside it holds what held before; at a terminal, that it is not heard.
    """

    def once(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
