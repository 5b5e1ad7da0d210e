"""The line a person types in: keys in, a text of one or more lines out. The one home of prompt_toolkit.

Enter sends; Alt-Enter, Ctrl-J, or a backslash before Enter begins a new line, and a paste keeps its own. Up and Down,
and Ctrl-R, go through what was typed before; Tab completes a command. Ctrl-C puts what was begun aside, where Up finds
it; Ctrl-D on an empty line ends (EOFError).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.shortcuts import CompleteStyle

HISTORY_MAX: Final = 2_000
"""Entries of earlier days that are read again; the file is cut to them when it holds twice as many."""
MARK: Final = "> "
_MORE: Final = "  "
Offered = Callable[[], Mapping[str, Iterable[str]]]


class Prompt:
    """Asks for what is typed. `offered` gives each command with the words that may stand behind it."""

    def __init__(self, history: Path | None, offered: Offered, *, colour: bool) -> None:
        self._session: PromptSession[str] = PromptSession(
            MARK,
            history=InMemoryHistory() if history is None else FileHistory(history),
            completer=_Commands(offered),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            key_bindings=_keys(),
            multiline=True,
            enable_suspend=True,
            prompt_continuation=_MORE,
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
        )

    def asked(self) -> str:
        """What was typed. Raises EOFError at Ctrl-D."""
        return self._session.prompt()


class FileHistory(History):
    """What was typed, in a file that only its owner may read: a JSON text a line. A file that cannot be used costs
    the memory of earlier days and nothing else.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterator[str]:
        """Newest first."""
        lines = self._lines()
        if len(lines) > 2 * HISTORY_MAX:
            lines = lines[-HISTORY_MAX:]
            with suppress(OSError):
                self._cut(lines)
        for line in reversed(lines[-HISTORY_MAX:]):
            with suppress(ValueError):  # a line that another program wrote, or that was cut by a full disk
                if isinstance(text := json.loads(line), str):
                    yield text

    def store_string(self, string: str) -> None:
        """Append one."""
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self._path, "ab", opener=_private) as file:
                file.write(json.dumps(string).encode() + b"\n")

    def _lines(self) -> list[bytes]:
        try:
            return self._path.read_bytes().splitlines()
        except OSError:
            return []

    def _cut(self, lines: list[bytes]) -> None:
        scratch = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with open(scratch, "wb", opener=_private) as file:
            file.write(b"".join(line + b"\n" for line in lines))
        scratch.replace(self._path)


def history_path(environ: Mapping[str, str], home: Path) -> Path:
    """Where what was typed is kept: not in the data directory, which is the service's, and may be another user's."""
    state = environ.get("XDG_STATE_HOME") or ""
    return (Path(state) if state.startswith("/") else home / ".local" / "state") / "memory-proxy" / "chat_history"


def _private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


class _Commands(Completer):
    def __init__(self, offered: Offered) -> None:
        self._offered = offered

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Commands, and behind one its words."""
        before = document.text_before_cursor
        if not before.startswith("/") or "\n" in before:
            return
        command, space, begun = before.partition(" ")
        offered = self._offered()
        for word in offered.get(command, ()) if space else offered:
            if word.startswith(begun if space else command):
                yield Completion(word, start_position=-len(begun if space else command))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c")
    @keys.add("<sigint>")  # one that came before the terminal made a key of it
    def _put_aside(event: KeyPressEvent) -> None:
        event.current_buffer.reset(append_to_history=True)

    return keys
