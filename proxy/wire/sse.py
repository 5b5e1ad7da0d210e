"""Server-sent events without I/O: what may pass, what is held back, and the events of a stream.

In: chunks as they were read, cut anywhere. Out: bytes to send now (FinalEventHold, LastByteHold), whose concatenation
with what is held is always the input; or events by the WHATWG rules (SseParser). Refuses nothing: bytes that are not
an event stream pass like all others. The holds never parse an event and keep at most a bounded tail.
"""

import codecs
import re
from dataclasses import dataclass, field

HELD_BYTES_MAX = 4_096
"""What an upstream may add behind its final event before only the last byte is held."""

_MARK = b"[DONE]"
_FINAL_LINES = (b"data: [DONE]", b"data:[DONE]")
_LINE_ENDS = (b"\n", b"\r")
_LINE_END = re.compile(r"\r\n|\n|\r")


class FinalEventHold:
    """Lets a stream pass and keeps back its final event `data: [DONE]`, or what may be the start of it.

    Held are an unfinished last line that is a prefix of the final line, and, once the final line has ended, it and
    all behind it. Bytes before it in the same read go out at once. At the end of the stream the caller releases `held`.
    """

    __slots__ = ("_final_seen", "_held", "_line_start")

    def __init__(self) -> None:
        self._held = b""
        self._line_start = True
        self._final_seen = False

    @property
    def held(self) -> bytes:
        """The bytes taken in and not yet passed."""
        return self._held

    @property
    def final_seen(self) -> bool:
        """Whether the final line has come in whole, its line end included."""
        return self._final_seen

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk; return what may be sent now, possibly nothing, and the chunk itself when all of it may."""
        if not chunk:
            return b""
        data = self._held + chunk if self._held else chunk
        cut = self._cut(data)
        if cut == len(data):
            passed, self._held = data, b""
        else:
            passed, self._held = data[:cut], data[cut:]
        if passed:
            self._line_start = passed.endswith(_LINE_ENDS)
        return passed

    def _cut(self, data: bytes) -> int:
        """The index from which data is held."""
        if not self._final_seen:
            final = self._final_line(data)
            if final is None:
                return self._unfinished_line(data)
            self._final_seen = True
            cut = final
        else:
            cut = 0
        return cut if len(data) - cut <= HELD_BYTES_MAX else len(data) - 1

    def _final_line(self, data: bytes) -> int | None:
        mark = data.find(_MARK)
        while mark >= 0:
            behind = mark + len(_MARK)
            if data[behind : behind + 1] in _LINE_ENDS:
                for line in _FINAL_LINES:
                    start = behind - len(line)
                    if start >= 0 and data.startswith(line, start) and self._starts_line(data, start):
                        return start
            mark = data.find(_MARK, behind)
        return None

    def _unfinished_line(self, data: bytes) -> int:
        """Where an unfinished last line begins that may become the final one; the end of data when none does."""
        longest = len(_FINAL_LINES[0])
        window = data[-longest - 1 :]
        start = len(data) - len(window) + max(window.rfind(b"\n"), window.rfind(b"\r")) + 1
        last = data[start:]
        if last and self._starts_line(data, start) and any(line.startswith(last) for line in _FINAL_LINES):
            return start
        return len(data)

    def _starts_line(self, data: bytes, start: int) -> bool:
        return self._line_start if start == 0 else data[start - 1 : start] in _LINE_ENDS


class LastByteHold:
    """Lets a body pass and keeps back its last byte: for answers that are not event streams, or are compressed."""

    __slots__ = ("_held",)
    final_seen = False  # of a body without events nobody can tell before its end

    def __init__(self) -> None:
        self._held = b""

    @property
    def held(self) -> bytes:
        """The last byte taken in; b"" before the first."""
        return self._held

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk; return all bytes but the newest one."""
        if not chunk:
            return b""
        passed = self._held + chunk[:-1]
        self._held = chunk[-1:]
        return passed


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: its type ("message" when not named) and its data lines, joined by a line feed."""

    event: str
    data: str = field(repr=False)


class SseParser:
    """Events of a stream by the WHATWG rules, but for ids and waiting times, which nobody here asks for. An event that
    no blank line ended is not an event.

    Keeps the unfinished event in memory without a bound of its own: the caller bounds the stream.
    """

    __slots__ = ("_data", "_decoder", "_event", "_line", "_skip_line_feed", "_started")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[str] = []
        self._data: list[str] = []
        self._event = ""
        self._skip_line_feed = False
        self._started = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take a chunk, cut anywhere, in a character too; return the events it completes."""
        text = self._decoder.decode(chunk)
        if not text:
            return []
        if not self._started:
            self._started = True
            text = text.removeprefix("\ufeff")
        if self._skip_line_feed and text:
            text = text.removeprefix("\n")
            self._skip_line_feed = False
        if not text:
            return []
        self._skip_line_feed = text.endswith("\r")
        *lines, rest = _LINE_END.split(text) if "\r" in text else text.split("\n")
        events: list[SseEvent] = []
        if lines and self._line:
            lines[0] = "".join((*self._line, lines[0]))
            self._line.clear()
        for line in lines:
            if line:
                self._field(line)
            elif (event := self._dispatch()) is not None:
                events.append(event)
        if rest:
            self._line.append(rest)
        return events

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        if value.startswith(" "):
            value = value[1:]
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value

    def _dispatch(self) -> SseEvent | None:
        if not self._data:
            self._event = ""
            return None
        event = SseEvent(self._event or "message", "\n".join(self._data))
        self._data = []
        self._event = ""
        return event
