"""The answer to a chat completion, as it comes: server-sent events or a whole body in, pieces to show out. No I/O.

Reads what vLLM and OpenAI send: `content`, `reasoning` or `reasoning_content`, `tool_calls` in deltas. What it does not
know it passes over. An error in the middle, and an event that is no JSON, end the answer (AnswerFailed).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from proxy.wire.sse import SseParser

EVENT_BYTES_MAX: Final = 16_777_216
"""An event longer than this is no answer: the parser below keeps an unfinished one in memory."""


class AnswerFailed(Exception):
    """The answer cannot be gone on with; the text says why."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer. `end` says how it ended: `stop`, `length`, `tool_calls` …"""

    kind: Literal["text", "thought", "call", "end"]
    text: str


class Answer:
    """One streamed answer. `complete` once it has said that nothing more comes."""

    __slots__ = ("_calls", "_parser", "_waiting_bytes", "complete")

    def __init__(self) -> None:
        self._parser = SseParser()
        self._calls: dict[int, list[str]] = {}
        self._waiting_bytes = 0
        self.complete = False

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """The pieces that a chunk, cut anywhere, completes. Raises AnswerFailed."""
        events = self._parser.feed(chunk)
        self._waiting_bytes = len(chunk) if events else self._waiting_bytes + len(chunk)
        if self._waiting_bytes > EVENT_BYTES_MAX:
            raise AnswerFailed(f"an event of more than {EVENT_BYTES_MAX} bytes")
        for event in events:
            if event.data.strip() == "[DONE]":
                self.complete = True
                yield from self._called()
            else:
                yield from self._of(_parsed(event.data), "delta")

    def whole(self, body: bytes) -> Iterator[Piece]:
        """The pieces of an answer that did not come as a stream. Raises AnswerFailed."""
        yield from self._of(_parsed(body), "message")
        yield from self._called()
        self.complete = True

    def _of(self, chunk: dict[str, Any], member: str) -> Iterator[Piece]:
        if "error" in chunk:
            raise AnswerFailed(_error_text(chunk["error"]))
        for choice in _objects(chunk.get("choices")):
            if choice.get("index", 0) != 0:
                continue
            yield from self._said(choice.get(member))
            if isinstance(reason := choice.get("finish_reason"), str):
                yield from self._called()
                yield Piece("end", reason)

    def _said(self, delta: Any) -> Iterator[Piece]:
        if not isinstance(delta, dict):
            return
        for name in ("reasoning", "reasoning_content"):
            if isinstance(thought := delta.get(name), str) and thought:
                yield Piece("thought", thought)
                break
        if isinstance(text := delta.get("content"), str) and text:
            yield Piece("text", text)
        for place, call in enumerate(_objects(delta.get("tool_calls"))):
            self._call(place, call)

    def _call(self, place: int, call: dict[str, Any]) -> None:
        index = call.get("index")
        known = self._calls.setdefault(index if isinstance(index, int) else place, ["", ""])
        function = call.get("function")
        if isinstance(function, dict):
            for at, name in enumerate(("name", "arguments")):
                if isinstance(part := function.get(name), str):
                    known[at] += part

    def _called(self) -> Iterator[Piece]:
        """The calls, whole: their arguments come in pieces that nobody can read."""
        for _, (name, arguments) in sorted(self._calls.items()):
            yield Piece("call", f"{name}({arguments})")
        self._calls.clear()


def error_of(body: bytes) -> tuple[str, str, str]:
    """message, code and param of an error's body, OpenAI's or ours; the body itself where it is neither."""
    try:
        error = json.loads(body)["error"]
        return _error_text(error), str(error.get("code") or ""), str(error.get("param") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return body[:200].decode(errors="replace").strip() or "no reason was given", "", ""


def _error_text(error: Any) -> str:
    if isinstance(error, dict) and isinstance(message := error.get("message"), str):
        return message
    return str(error)


def _parsed(data: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise AnswerFailed("the model's answer is no JSON") from exc
    if not isinstance(value, dict):
        raise AnswerFailed("the model's answer is no JSON object")
    return value


def _objects(value: Any) -> Iterable[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else ()
