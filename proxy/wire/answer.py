"""What the model said, read once from the copied answer: whole bytes -> Answer.

In: all bytes of an answer as the client got them, a stream of chat completion chunks or one JSON body. Out: the
choices with their text, reasoning and tool calls put together, usage, an error if one came, and whether the answer
was complete. Unknown fields are kept in `extra`. Refuses nothing and raises nothing on bad JSON (`unreadable` says
why, `malformed_events` counts); only `decompress` raises. The caller bounds the bytes it copies.
"""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic_core import from_json

from memory.chain import message_text
from proxy.wire.alike import Alike, alike_after
from proxy.wire.sse import SseParser

_ENVELOPE = frozenset({"id", "model", "choices", "usage", "error"})
_CHOICE_FIELDS = frozenset({"index", "delta", "message", "finish_reason"})
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_MEMBERS_MAX = 65_536
_PIECE_BYTES = 16_384
TOKENS_TOLD_MAX = 1_000_000_000
"""No window is as large: a count in `usage` beyond it is none."""
_CALL_FIELDS = frozenset({"index", "id", "type", "function"})


class AnswerUnreadable(Exception):
    """The answer's content encoding is unknown, its compressed bytes are broken, or it is larger than allowed."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a function; `arguments` is the text the model wrote, JSON or not."""

    index: int
    id: str
    type: str
    name: str
    arguments: str = field(repr=False)
    extra: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer of n. Text fields are None when no delta carried them."""

    index: int
    role: str
    content: str | None = field(repr=False)
    reasoning: str | None = field(repr=False)
    refusal: str | None = field(repr=False)
    tool_calls: tuple[ToolCall, ...] = field(repr=False)
    finish_reason: str | None
    extra: Mapping[str, object] = field(repr=False)

    @property
    def thought(self) -> str | None:
        """What the model thought before it answered; older versions of vLLM call it `reasoning_content`."""
        return self.reasoning if self.reasoning is not None else _string(self.extra.get("reasoning_content"))

    def as_message(self) -> dict[str, object]:
        """The message a client would put into its history: what the conversation chain is computed from.

        It is the assistant's, whoever it says it is: where `add_generation_prompt` is false vLLM gives an answer the
        role of the message before it, and nothing that a model said may count as the user's own words.
        """
        message: dict[str, object] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": call.type, "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        return message


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer put together. `complete`: [DONE] was seen, or the body was whole JSON with choices.

    `error` is the error object of an error body or of an error event mid-stream. `unreadable` says why there is
    nothing here at all; `malformed_events` counts events of a stream that were not JSON objects.
    """

    id: str | None
    model: str | None
    choices: tuple[Choice, ...] = field(repr=False)
    usage: Mapping[str, object] | None
    error: Mapping[str, object] | None
    complete: bool
    extra: Mapping[str, object] = field(repr=False)
    malformed_events: int = 0
    unreadable: str | None = None


def decompress(raw: bytes, encoding: str, *, bytes_max: int) -> bytes:
    """The plain bytes of an answer sent with this Content-Encoding; a truncated one gives what there is.

    Knows identity, gzip and deflate (also stacked). Raises AnswerUnreadable for others (br, zstd), for broken bytes,
    and when more than bytes_max bytes would come out.
    """
    for coding in reversed(encoding.lower().split(",")):
        name = coding.strip()
        if name in ("gzip", "x-gzip"):
            raw = _inflate(raw, zlib.MAX_WBITS | 16, bytes_max)
        elif name == "deflate":
            raw = _inflate(raw, zlib.MAX_WBITS if _has_zlib_head(raw) else -zlib.MAX_WBITS, bytes_max)
        elif name not in ("", "identity"):
            raise AnswerUnreadable(f"content encoding {name!r} is not read here")
    if len(raw) > bytes_max:
        raise AnswerUnreadable(f"more than {bytes_max} bytes")
    return raw


def assemble_stream(raw: bytes) -> Answer:
    """Put a stream of chat completion chunks together, all of it or as much as came before it broke off."""
    assembly = _Assembly()
    if b"\r" in raw or raw.startswith(codecs.BOM_UTF8):
        _add_by_the_rules(assembly, raw)
        return assembly.answer()
    blocks, at, last = raw.split(b"\n\n"), 0, b""
    while at < len(blocks):
        alike = alike_after(last, blocks[at])
        if alike is not None:
            at = alike.takes(blocks, at)
            _add_alike(assembly, alike)
        if at < len(blocks):
            last = blocks[at] if _add_block(assembly, blocks[at]) else b""
            at += 1
    return assembly.answer()


def _add_block(assembly: _Assembly, block: bytes) -> bool:
    """Add what stands between two blank lines; whether that was one line of data, as all that vLLM sends is.

    All else is read by the rules, a piece at a time: their events at once took four times the bytes of a long answer.
    """
    if block.startswith(b"data: ") and b"\n" not in block:
        _add_event(assembly, "message", block[6:])
        return True
    _add_by_the_rules(assembly, block)
    return False


def _add_alike(assembly: _Assembly, alike: Alike) -> None:
    """Add the blocks that were like one before them: all that they add is their strings."""
    if not alike.words:
        return
    text = alike.text()
    if text is not None:
        assembly.choices[alike.choice].texts.add(alike.name, text)
        return
    for word in alike.words:
        _add_block(assembly, alike.head + word + alike.tail)


def _add_event(assembly: _Assembly, name: str, data: bytes) -> None:
    if data == b"[DONE]":
        assembly.complete = True
        return
    chunk = _object_of(data)
    if chunk is None:
        assembly.malformed_events += 1
        return
    if name == "error" and "error" not in chunk:
        chunk = {"error": chunk}
    assembly.add(chunk, "delta")


def _add_by_the_rules(assembly: _Assembly, raw: bytes) -> None:
    parser = SseParser()
    for start in range(0, len(raw), _PIECE_BYTES):
        for event in parser.feed(raw[start : start + _PIECE_BYTES]):
            _add_event(assembly, event.event, event.data.encode())
    for event in parser.feed(b"\n\n"):
        _add_event(assembly, event.event, event.data.encode())


def parse_body(raw: bytes) -> Answer:
    """Read an answer that is one JSON object: a chat completion or an error."""
    body = _object_of(raw.removeprefix(codecs.BOM_UTF8))
    assembly = _Assembly()
    if body is None:
        return assembly.answer(unreadable="not a JSON object")
    if body.get("object") == "error" and "error" not in body:
        body = {"error": body}
    assembly.add(body, "message")
    assembly.complete = assembly.error is None and isinstance(body.get("choices"), list)
    return assembly.answer()


class _Texts:
    """Text fields that arrive in pieces, and others of which the last one counts."""

    __slots__ = ("others", "pieces")

    def __init__(self) -> None:
        self.pieces: dict[str, list[str]] = {}
        self.others: dict[str, object] = {}

    def add(self, name: str, value: object) -> None:
        if isinstance(value, str):
            if (pieces := self.pieces.get(name)) is None:
                pieces = self.pieces[name] = []
            pieces.append(value)
        elif value is not None:
            self.others[name] = value

    def take(self, name: str) -> str | None:
        pieces = self.pieces.pop(name, None)
        return None if pieces is None else "".join(pieces)

    def rest(self) -> dict[str, object]:
        return self.others | {name: "".join(pieces) for name, pieces in self.pieces.items()}


class _CallAssembly:
    """A tool call growing by its deltas: name and arguments are joined, of id and type the first counts."""

    __slots__ = ("extra", "id", "texts", "type")

    def __init__(self) -> None:
        self.id = ""
        self.type = ""
        self.texts = _Texts()
        self.extra = _Texts()

    def add(self, delta: Mapping[str, object]) -> None:
        self.id = self.id or _string(delta.get("id")) or ""
        self.type = self.type or _string(delta.get("type")) or ""
        function = delta.get("function")
        if isinstance(function, dict):
            for name, value in function.items():
                self.texts.add(name, _arguments_text(value) if name == "arguments" else value)
        _add_unknown(self.extra, delta, _CALL_FIELDS)

    def call(self, index: int) -> ToolCall:
        name, arguments = self.texts.take("name"), self.texts.take("arguments")
        extra = self.extra.rest() | self.texts.rest()
        return ToolCall(index, self.id, self.type or "function", name or "", arguments or "", extra)


class _ChoiceAssembly:
    """A choice growing by its deltas; a whole message is one big delta."""

    __slots__ = ("calls", "extra", "finish_reason", "role", "texts")

    def __init__(self) -> None:
        self.role = ""
        self.finish_reason: str | None = None
        self.texts = _Texts()
        self.calls: dict[int, _CallAssembly] = {}
        self.extra: dict[str, object] = {}

    def add(self, choice: Mapping[str, object], delta: Mapping[str, object]) -> None:
        self.finish_reason = _string(choice.get("finish_reason")) or self.finish_reason
        for name, value in choice.items():
            if value is not None and name not in _CHOICE_FIELDS:
                self.extra[name] = value
        for name, value in delta.items():
            if name == "role":
                self.role = self.role or _string(value) or ""
            elif name == "tool_calls":
                self._add_calls(value)
            elif name == "content" and isinstance(value, list):
                self.texts.add(name, message_text(delta))
            else:
                self.texts.add(name, value)

    def _add_calls(self, calls: object) -> None:
        for place, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                self.calls.setdefault(_index(call, place), _CallAssembly()).add(call)

    def choice(self, index: int) -> Choice:
        content, reasoning, refusal = (self.texts.take(name) for name in ("content", "reasoning", "refusal"))
        calls = tuple(self.calls[place].call(place) for place in sorted(self.calls))
        extra = self.extra | self.texts.rest()
        return Choice(index, self.role or "assistant", content, reasoning, refusal, calls, self.finish_reason, extra)


class _Assembly:
    """An answer growing by its chunks; a whole body is one big chunk."""

    __slots__ = ("choices", "complete", "error", "extra", "id", "malformed_events", "model", "usage")

    def __init__(self) -> None:
        self.id: str | None = None
        self.model: str | None = None
        self.usage: Mapping[str, object] | None = None
        self.error: Mapping[str, object] | None = None
        self.choices: dict[int, _ChoiceAssembly] = {}
        self.extra: dict[str, object] = {}
        self.complete = False
        self.malformed_events = 0

    def add(self, chunk: Mapping[str, object], message_field: str) -> None:
        self.id = self.id or _string(chunk.get("id"))
        self.model = self.model or _string(chunk.get("model"))
        usage, error, choices = chunk.get("usage"), chunk.get("error"), chunk.get("choices")
        if isinstance(usage, dict):
            self.usage = usage
        if error:
            self.error = error if isinstance(error, dict) else {"message": error}
        for place, choice in enumerate(choices if isinstance(choices, list) else ()):
            if isinstance(choice, dict):
                delta = choice.get(message_field)
                growing = self.choices.setdefault(_index(choice, place), _ChoiceAssembly())
                growing.add(choice, delta if isinstance(delta, dict) else {})
        for name, value in chunk.items():
            if value is not None and name not in _ENVELOPE:
                self.extra[name] = value

    def answer(self, unreadable: str | None = None) -> Answer:
        choices = tuple(self.choices[index].choice(index) for index in sorted(self.choices))
        return Answer(
            self.id,
            self.model,
            choices,
            self.usage,
            self.error,
            self.complete,
            self.extra,
            self.malformed_events,
            unreadable,
        )


def _object_of(raw: bytes) -> dict[str, object] | None:
    """A JSON object. What the quicker reader refuses may still be one: a lone surrogate, a byte that is no UTF-8."""
    try:
        value = from_json(raw)
    except ValueError:
        try:
            value = json.loads(raw.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _index(value: Mapping[str, object], fallback: int) -> int:
    index = value.get("index")
    return index if isinstance(index, int) else fallback


def _arguments_text(value: object) -> str | None:
    """Some servers send the arguments as an object; as text they count like all others."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _add_unknown(texts: _Texts, source: Mapping[str, object], known: frozenset[str]) -> None:
    for name, value in source.items():
        if name not in known:
            texts.add(name, value)


def _has_zlib_head(raw: bytes) -> bool:
    """RFC 1950: method 8 and a header divisible by 31. "deflate" is sent with this head and, wrongly, without."""
    return len(raw) >= 2 and raw[0] & 0x0F == 8 and int.from_bytes(raw[:2], "big") % 31 == 0


def _inflate(raw: bytes, window_bits: int, bytes_max: int) -> bytes:
    """Decompress, gzip members in a row too; other bytes behind the end are dropped. Raises AnswerUnreadable."""
    pieces: list[bytes] = []
    room, members, left = bytes_max + 1, 1, memoryview(raw)
    inflater = zlib.decompressobj(window_bits)
    while left and room > 0:
        # By pieces: what is behind a member is copied at its end, which of all of it would be quadratic.
        part = left[:_PIECE_BYTES]
        try:
            piece = inflater.decompress(part, room)
        except zlib.error as exc:
            raise AnswerUnreadable("compressed bytes are broken") from exc
        pieces.append(piece)
        room -= len(piece)
        left = left[len(part) - len(inflater.unused_data) :]
        if inflater.eof:
            if left[: len(_GZIP_MAGIC)] != _GZIP_MAGIC:
                break
            inflater, members = zlib.decompressobj(window_bits), members + 1
            if members > _GZIP_MEMBERS_MAX:
                raise AnswerUnreadable(f"more than {_GZIP_MEMBERS_MAX} gzip members")
    if room <= 0:
        raise AnswerUnreadable(f"more than {bytes_max} bytes")
    return b"".join(pieces)
