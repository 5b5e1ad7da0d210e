"""The lines of an import: bytes as they arrive in, validated lines out. No I/O, no clock.

`LineCutter` cuts a stream at line ends, wherever the reads fell. `read_line` makes one line a `Given`, a `Record`, or a
`Derived` that is passed over, or raises `LineRefused` with what is wrong in words for the answer. `Defaults` fills in
what a line leaves out. Refuses lines over LINE_BYTES_MAX, other encodings than UTF-8, and times without an offset.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.chain import message_text
from memory.model import ImportLine
from memory.write.parts import PARTS_MAX, beside
from policies.labels import Integrity, Sensitivity, integrity_of_role
from policies.text import storable
from proxy.api.asking import json_type, no_constant
from proxy.api.json_bounds import too_much
from proxy.identity import TIME, VALUE_BYTES_MAX, rfc3339

LINE_BYTES_MAX: Final = 8 * 1_048_576
SOURCE_ID_CHARS_MAX: Final = 256
ROLES: Final = ("user", "assistant", "system", "tool")
# What `export` writes of what is made from turns: it comes again by itself when those are taken in.
DERIVED_TYPES: Final = frozenset(
    {
        "memory",
        "summary",
        "session",
        "scope",
        "retrieval",
    }
)
# What somebody wrote, and is made of no turn: `import_records` takes it.
RECORD_TYPES: Final = frozenset({"persona", "entity", "relationship", "task", "checkpoint"})
# Of a memory that a person has edited that is taken in, too, when the turns that it was made of are stored.
EDITED_TYPE: Final = "memory"
# What `export` writes on a turn beyond the members of an import line: it does not make a line another line.
EXPORT_MEMBERS: Final = frozenset(
    {
        "type",
        "event_id",
        "seq",
        "origin",
        "integrity",
        "model",
        "tool_calls",
        "tool_call_id",
        "parts",
        "recorded_at",
        "sensitivity",
        "memory",
        "parent",
    }
)
_OF_ANY_LINE: Final = frozenset({"tool_calls", "tool_call_id", "sensitivity", "parent"})
PART_CHARS_MAX: Final = 16_384  # what is kept of one is cut shorter, and a secret's place may be longer than the secret
_PART_WORDS: Final = ("type", "media_type", "name", "file_id", "url", "text", "sha256")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
TOO_LONG: Final = f"the line is longer than {LINE_BYTES_MAX} bytes"


class LineRefused(Exception):
    """A line that cannot be taken; its text says why, never what the line says."""


class NotYet(LineRefused):
    """It names something that is not there; a later line may bring it."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line of the upload, without its end. `number` counts from 1, blank lines too. `content` None: too long."""

    number: int
    content: bytes | None


class LineCutter:
    """Cuts a byte stream into lines, bounded in what it holds. Blank lines are counted and left out."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._held = 0
        self._number = 0

    def feed(self, chunk: bytes) -> list[RawLine]:
        """The lines that are complete with this chunk."""
        first, *rest = chunk.split(b"\n")
        self._hold(first)
        found: list[RawLine] = []
        for piece in rest:
            found += self._cut()
            self._hold(piece)
        return found

    def finish(self) -> list[RawLine]:
        """The last line, where the stream did not end with a line end."""
        return list(self._cut()) if self._held else []

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > self._bytes_max + 1:  # one more for a CR that will not count
            self._parts.clear()
        elif piece:
            self._parts.append(piece)

    def _cut(self) -> Iterator[RawLine]:
        self._number += 1
        line = b"".join(self._parts).removesuffix(b"\r")
        if self._number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # editors of Windows put it before the first line
        too_long = self._held > self._bytes_max + 1 or len(line) > self._bytes_max
        self._parts.clear()
        self._held = 0
        if too_long:
            yield RawLine(self._number, None)
        elif line.strip():
            yield RawLine(self._number, line)


@dataclass(frozen=True, slots=True)
class Given:
    """One turn as its line gives it. `event_id` and `seq` are set on a line that `export` wrote, `integrity` where that
    says another label than the role's, `memory` where that says that none is to be made of it, and `parent` where that
    says behind which turn it stands, or "": behind none; `parts` is what it says stood beside the words,
    and `model` who answered.
    """

    line: int
    session: str | None
    role: str
    name: str | None
    content: str
    occurred_at: datetime | None
    source_id: str | None
    event_id: UUID | None
    seq: int | None
    digest: bytes
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None
    sensitivity: str = "internal"
    integrity: str | None = None
    memory: str | None = None
    parent: str | None = None
    parts: list[dict[str, Any]] | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Derived:
    """A line of an export that is made from turns: nothing is to be done with it."""

    line: int


@dataclass(frozen=True, slots=True)
class Record:
    """A line of an export that is a record, or a memory that a person has edited; `value` is all of it, not looked at
    yet.
    """

    line: int
    kind: str
    value: dict[str, Any]


def read_line(raw: RawLine) -> Given | Derived | Record:
    """Validate one line. Raises LineRefused."""
    if raw.content is None:
        raise LineRefused(TOO_LONG)
    value = _object(raw.content)
    kind = value.get("type")
    if kind == "document" and "role" not in value:
        raise LineRefused("an export names a document and has not its file; upload it again: POST /memory/v1/documents")
    if kind == "artifact" and "role" not in value:
        raise LineRefused("an export names a file and has not its bytes; upload it again: POST /memory/v1/artifacts")
    if kind is not None and kind != "turn" and "role" not in value:
        if kind == EDITED_TYPE and isinstance(value.get("edited"), dict):
            return Record(raw.number, EDITED_TYPE, value)
        if isinstance(kind, str) and kind in DERIVED_TYPES:
            return Derived(raw.number)
        if isinstance(kind, str) and kind in RECORD_TYPES:
            return Record(raw.number, kind, value)
        raise LineRefused(f"lines of type {_quoted(kind)} cannot be imported; known: turn, {', '.join(_KNOWN)}")
    event_id = _event_id(value.get("event_id")) if kind == "turn" else None
    source_id = _text(value, "source_id", chars_max=SOURCE_ID_CHARS_MAX)
    role = _role(value.get("role"), exported=event_id is not None)
    given = Given(
        line=raw.number,
        session=_session(value),
        role=role,
        name=_text(value, "name", chars_max=256, empty_is_none=True),
        content=_content(value),
        occurred_at=_time(value.get("occurred_at")),
        # What has no source id of its own keeps the id it had where it was exported.
        source_id=source_id or (str(event_id) if event_id else None),
        event_id=event_id,
        seq=_seq(value.get("seq")) if event_id else None,
        digest=b"",
        tool_calls=_calls(value.get("tool_calls")),
        tool_call_id=_text(value, "tool_call_id", chars_max=256, empty_is_none=True),
        sensitivity=_sensitivity(value.get("sensitivity")),
        integrity=_integrity(value.get("integrity"), role) if event_id else None,
        memory=_memory(value.get("memory")) if event_id else None,
        parent=_parent(value) if event_id else None,
        parts=_parts(value.get("parts")) if event_id else beside(value) or None,
        model=_text(value, "model", chars_max=256, empty_is_none=True) if event_id else None,
    )
    return _with_digest(given, value)


class Defaults:
    """Fills in what lines leave out: one new session for all, and the time of the line before, else of the call."""

    def __init__(self, session: str, now: datetime, hide: Callable[[str], str] = str) -> None:
        self._session = session
        self._hide = hide
        self._time = now

    def line(self, given: Given) -> ImportLine:
        """The line as it is stored. Call in the order of the lines."""
        if given.occurred_at is not None:
            self._time = given.occurred_at
        return ImportLine(
            line=given.line,
            session_label=self._hide(given.session) if given.session else self._session,
            role=given.role,
            name=given.name,
            content=given.content,
            occurred_at=self._time,
            source_id=given.source_id,
            line_digest=given.digest,
            tool_calls=given.tool_calls,
            tool_call_id=given.tool_call_id,
            sensitivity=given.sensitivity,
            integrity=given.integrity,
            memory=given.memory,
            parent=given.parent,
            parts=given.parts,
            model=given.model,
        )


_KNOWN: Final = sorted(DERIVED_TYPES | RECORD_TYPES)
_LABELS: Final = tuple(label.value for label in Sensitivity)


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=no_constant)
    except UnicodeDecodeError as exc:
        raise LineRefused(f"not UTF-8 at byte {exc.start}") from exc
    except json.JSONDecodeError as exc:
        raise LineRefused(f"no JSON: {exc.msg.removesuffix(' at')} at character {exc.pos}") from exc
    except (ValueError, RecursionError) as exc:
        raise LineRefused(f"no JSON: {str(exc)[:100]}") from exc
    if not isinstance(value, dict):
        raise LineRefused(f"a line is one JSON object, not {json_type(value)}")
    if (found := too_much(value)) is not None:
        raise LineRefused(": ".join(found))
    return value


def _role(value: object, *, exported: bool) -> str:
    """One of ROLES; what an export says is taken as it is, since clients send other roles too."""
    if isinstance(value, str) and (value in ROLES or (exported and 1 <= len(value) <= 64)):
        return storable(value)
    found = "missing" if value is None else _quoted(value)
    raise LineRefused(f"role must be one of {', '.join(ROLES)}; it is {found}")


def _text(value: dict[str, Any], member: str, *, chars_max: int, empty_is_none: bool = False) -> str | None:
    text = value.get(member)
    if text is None or (empty_is_none and text == ""):
        return None
    if not isinstance(text, str):
        raise LineRefused(f"{member} must be a string, not {json_type(text)}")
    if not 1 <= len(text) <= chars_max:
        raise LineRefused(f"{member} must have 1 to {chars_max} characters, it has {len(text)}")
    if storable(text) != text:
        raise LineRefused(f"{member} holds a NUL or half a surrogate pair")
    return text


def _session(value: dict[str, Any]) -> str | None:
    """A session's name as the header X-Memory-Session would carry it."""
    label = _text(value, "session", chars_max=VALUE_BYTES_MAX)
    if label is None:
        return None
    label = unicodedata.normalize("NFC", label)
    if len(label.encode("utf-8")) > VALUE_BYTES_MAX:
        raise LineRefused(f"session must have at most {VALUE_BYTES_MAX} bytes of UTF-8")
    return label


def _content(value: dict[str, Any]) -> str:
    content = value.get("content")
    if content is None and _calls(value.get("tool_calls")):  # a message that only calls tools
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        found = "missing" if content is None else json_type(content)
        raise LineRefused(f"content must be a string or a list of parts; it is {found}")
    for index, part in enumerate(content):
        is_part = isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("type"), str))
        if not is_part or (isinstance(part, dict) and not isinstance(part.get("text", ""), str)):
            raise LineRefused(f'content[{index}] must be a part like {{"type": "text", "text": "…"}}')
    return message_text({"content": content})


def _calls(value: object) -> list[Any] | None:
    """Tool calls as they are: what they hold is not ours to judge."""
    if value is not None and not isinstance(value, list):
        raise LineRefused(f"tool_calls must be a list, not {json_type(value)}")
    return value or None


def _sensitivity(value: object) -> str:
    """The label that all made of this turn inherits; from confidential on it is stored encrypted."""
    if value is None:
        return Sensitivity.INTERNAL.value
    if not isinstance(value, str) or value not in _LABELS:
        raise LineRefused(f"sensitivity must be one of {', '.join(_LABELS)}")
    return value


def _integrity(value: object, role: str) -> str | None:
    """What an export says of who vouches for it; None for the role's. A label that is none vouches for nothing."""
    if value is None or value == integrity_of_role(role).value:
        return None
    return next((label.value for label in Integrity if label.value == value), Integrity.IMPORTED.value)


def _memory(value: object) -> str | None:
    """Why an exported turn has no memory to be made again; a word that is none hides nothing."""
    return next((word for word in ("none", "hidden") if word == value), None)


def _parent(value: dict[str, Any]) -> str | None:
    """Behind which turn an export says that one stands; "" for behind none, None where it does not say."""
    if "parent" not in value:
        return None
    return _text(value, "parent", chars_max=SOURCE_ID_CHARS_MAX) or ""


def _parts(value: object) -> list[dict[str, Any]] | None:
    """What an export says stood beside the words: an image by its digest or address, a refusal."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > PARTS_MAX or not all(isinstance(one, dict) for one in value):
        raise LineRefused(f"parts must be a list of at most {PARTS_MAX} objects")
    return [_part(one, f"parts[{index}]") for index, one in enumerate(value)] or None


def _part(value: dict[str, Any], where: str) -> dict[str, Any]:
    part = {name: value[name] for name in _PART_WORDS if value.get(name) is not None}
    if "type" not in part or not all(isinstance(one, str) and len(one) <= PART_CHARS_MAX for one in part.values()):
        raise LineRefused(f"{where} must have a type, and its words at most {PART_CHARS_MAX} characters each")
    if "sha256" in part and not _SHA256.fullmatch(part["sha256"]):
        raise LineRefused(f"{where}.sha256 must have 64 hexadecimal digits")
    size = value.get("bytes")
    if size is not None and not (type(size) is int and 0 <= size < 2**63):
        raise LineRefused(f"{where}.bytes must be a number of bytes")
    return part if size is None else {**part, "bytes": size}


def _time(value: object) -> datetime | None:
    if value is None:
        return None
    moment = rfc3339(value) if isinstance(value, str) else None
    if moment is None:
        raise LineRefused(f"occurred_at must be {TIME}")
    return moment


def _event_id(value: object) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _seq(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _with_digest(given: Given, value: dict[str, Any]) -> Given:
    """The same with the digest of all of the line: every member given, unknown ones too, in one canonical form."""
    ours = EXPORT_MEMBERS if given.event_id is not None else EXPORT_MEMBERS - _OF_ANY_LINE
    members: dict[str, Any] = {
        name: member for name, member in value.items() if name not in ours and member is not None
    }
    members |= {"content": given.content, "role": given.role}
    members |= {"parts": given.parts} if given.parts and given.event_id is None else {}
    members |= {"session": given.session} if given.session is not None else {}
    members |= {"occurred_at": given.occurred_at.isoformat()} if given.occurred_at is not None else {}
    members |= {"source_id": given.source_id} if given.source_id is not None else {}
    canonical = json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")
    return replace(given, digest=hashlib.sha256(canonical).digest())


def _quoted(value: object) -> str:
    return json.dumps(value[:40]) if isinstance(value, str) else json_type(value)
