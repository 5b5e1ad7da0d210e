"""The recording in docs/recordings/chat.cast: a service of its own in, an asciicast of a talk with it out.

`python -m tests.chat_recording FILE` (make recording) writes it anew. The terminal, the program, the service and what
it remembers are real; the model's answers are scripted, so that it needs no GPU. Nothing in it names this machine.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.at_terminal import CTRL_D, Terminal, asciicast, at_terminal
from tests.e2e.upstreams import ScriptedUpstream
from tests.service_fixture import Service, serving

IDLE_S_MAX: Final = 1.5
TITLE: Final = "memory-proxy chat: what was remembered, and why"
SHOWN_URL: Final = "http://127.0.0.1:8080"
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def streamed(*deltas: dict[str, Any], done: bool = True) -> list[bytes]:
    """An answer of vLLM, head and events; one that is not done ends in its middle."""
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    pieces = [_HEAD, *(b"data: %b\n\n" % json.dumps(event).encode() for event in events)]
    end = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
    return [*pieces, end, b"data: [DONE]\n\n"] if done else pieces


def words(text: str) -> list[dict[str, Any]]:
    """A text as deltas, a word each."""
    first, *rest = text.split(" ")
    return [{"content": first}, *({"content": f" {word}"} for word in rest)]


def chat_environ(home: Path) -> dict[str, str]:
    """What the program is started with: nothing of whoever runs it. The terminal here answers no questions."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", "PROMPT_TOOLKIT_NO_CPR": "1"}


def chat_argv(service: Service, *options: str) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "proxy", "chat", "--url", service.url, *options]


def recorded() -> str:
    """Hold the talk; the recording."""
    upstream = ScriptedUpstream()
    with tempfile.TemporaryDirectory() as home, serving(upstream.url) as service:
        with at_terminal(chat_argv(service, "--user", "ada"), chat_environ(Path(home)), Path(home)) as terminal:
            _talk(terminal, upstream, service)
        events = [(at, text.replace(service.url, SHOWN_URL)) for at, text in terminal.events]
    upstream.close()
    return asciicast(events, TITLE, IDLE_S_MAX)


def _talk(terminal: Terminal, upstream: ScriptedUpstream, service: Service) -> None:
    upstream.then(*streamed(*words("A fine name. I hope she lies well in the harbour of Whitby.")), pause_s=0.06)
    terminal.say("My boat is called Halcyon, she lies in Whitby.", slowly=True)
    terminal.until("in all")
    service.settle()
    terminal.read_for(1)
    terminal.say("/session new", slowly=True)
    thought = [{"reasoning": "The quoted conversation names the boat."}]
    upstream.then(*streamed(*thought, *words("Your boat is called Halcyon, and she lies in Whitby.")), pause_s=0.08)
    terminal.say("What is my boat called?", slowly=True)
    terminal.until("in all")
    terminal.read_for(1)
    for command, shows in (("/why", "left out"), ("/session list", "My boat is"), ("/search Whitby", "admitted (*)")):
        terminal.say(command, slowly=True)
        terminal.until(shows)
        terminal.read_for(2)
    service.settle()
    for command, shows in (
        ("/checkpoint save the harbour -- Ask about the mooring.", "Ask about the mooring."),
        ("/session new", "nothing said yet"),
        ("/checkpoint load the harbour", "goes with your next question"),
        ("/persona concise", "style asked for: concise"),
    ):
        terminal.say(command, slowly=True)
        terminal.until(shows)
        terminal.read_for(1)
    upstream.then(*streamed(*words("At the harbour: you wanted to ask about the mooring.")), pause_s=0.08)
    terminal.say("Where were we?", slowly=True)
    terminal.until("in all")
    terminal.say("/why", slowly=True)
    terminal.until("Style asked for:")
    terminal.until("left out")
    terminal.read_for(2)
    terminal.until_prompt()
    terminal.type(CTRL_D)
    terminal.ended()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(recorded(), encoding="utf-8")
