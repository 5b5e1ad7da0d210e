"""What a message holds beside its words: a message as it was said in, typed and clean values out.

Tool calls with their arguments, attachments by digest or address, a refusal, binary data that stood in the text. Bytes
are never kept: an artifact is referred to by the SHA-256 of its bytes. Every text passes redaction here. Thoughts
(`reasoning`, `thinking`, the `<think>` that an answer opens with) are left out: they are in the sealed exchange only.
Pure; refuses nothing, at most PARTS_MAX parts of a message are told.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit, urlunsplit

from memory.chain import Attachment, message_text
from memory.data_url import decode_base64, decode_data_url, is_data_url
from policies.redaction import Redacted
from policies.text import storable, storable_json, without_thought

PARTS_MAX: Final = 64
BINARY_CHARS_MIN: Final = 1_024
"""Shorter runs stay: the longest of the tokens and keys that people talk about has fewer characters."""
_SHORT_CHARS: Final = 256
_TOO_DEEP: Final = "[nested too deeply to be read]"
_URL_CHARS: Final = 2_048
_REFUSAL_CHARS: Final = 8_192
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text"})
_THOUGHTS: Final = frozenset({"thinking", "reasoning"})
_UNTYPED: Final = ("image_url", "image_embeds", "audio_url", "audio_embeds", "input_audio", "video_url", "video_embeds")
# A run is tried once, where it begins, so time is linear in the text.
_RUN: Final = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?:data:[\w.+/-]{1,64}(?:;[\w.=+-]{1,64}){0,4},)?"
    rf"([A-Za-z0-9+/_-]{{{BINARY_CHARS_MIN},}}={{0,2}})",
    re.ASCII,
)
_WRAPPED: Final = re.compile(
    r"(?<![A-Za-z0-9+/])((?:[A-Za-z0-9+/]{60,76}\r?\n){15,}[A-Za-z0-9+/]{0,76}={0,2})", re.ASCII
)
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_CHARS: Final = {
    **dict.fromkeys(("type", "media_type", "name", "file_id"), _SHORT_CHARS),
    "url": _URL_CHARS,
    "text": _REFUSAL_CHARS,
}
"""The words of a part, and where they are cut."""
Part = dict[str, Any]


class Redacts(Protocol):
    """Cuts secrets out of a text."""

    def redact(self, text: str) -> Redacted:
        """The text without its secrets, and where they were."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A message's words and what stands beside them. `redactions` were made in all of it."""

    text: str
    parts: list[Part] | None
    tool_calls: list[Any] | None
    redactions: int


def typed(message: Mapping[str, Any], redactor: Redacts) -> Typed:
    """A message by what it is."""
    words = redactor.redact(said_in(message))
    text, data = cut_binaries(words.text)
    others = list(_others(message, redactor))
    calls, in_calls = clean_calls(calls_of(message), redactor)
    parts = [part for part, _ in others] + data
    found = len(words.findings) + in_calls + sum(count for _, count in others)
    return Typed(text, parts[:PARTS_MAX] or None, calls, found)


def said_in(message: Mapping[str, Any]) -> str:
    """The text of a message as it goes to redaction, without what the model thought before it."""
    text = storable(message_text(message))
    return without_thought(text) if message.get("role") == "assistant" else text


class _Keeps:
    def redact(self, text: str) -> Redacted:
        return Redacted(text, ())


def beside(message: Mapping[str, Any]) -> list[Part]:
    """What stands beside a message's words, as it came: not clean yet, so without words that were cut, where the head
    of a secret may be left.
    """
    found = [part for part, _ in _others(message, _Keeps())][:PARTS_MAX]
    return [
        {
            name: value
            for name, value in part.items()
            if name not in _CHARS or not isinstance(value, str) or len(value) < _CHARS[name]
        }
        for part in found
    ]


def told_again(parts: Sequence[Part], redactor: Redacts) -> list[Part]:
    """Parts that another store or a client has told, as this one would: whatever says them may hold a secret."""
    return [
        {
            name: redactor.redact(storable(value)).text if isinstance(value, str) and name != "sha256" else value
            for name, value in part.items()
        }
        for part in parts
    ]


def cut_binaries(text: str) -> tuple[str, list[Part]]:
    """The text with long runs of base64 or hex named instead of shown, and each as a part with its digest."""
    if len(text) < BINARY_CHARS_MIN:
        return text, []
    found: list[Part] = []

    def named(match: re.Match[str]) -> str:
        raw = _decoded(match[1])
        if raw is None:
            return match[0]
        found.append({"type": "data", **_digest(raw)})
        return f"[data: {len(raw)} bytes]"

    return _WRAPPED.sub(named, _RUN.sub(named, text)), found


def calls_of(message: Mapping[str, Any]) -> list[Any]:
    """The tool calls of a message, in order; the one call of the form before them counts as one."""
    calls, old = message.get("tool_calls"), message.get("function_call")
    if isinstance(calls, list) and calls:
        return calls
    return [{"type": "function", "function": old}] if isinstance(old, Mapping) else []


def called(message: Mapping[str, Any]) -> dict[str, str]:
    """The names of the tools that a message calls, by the call's id."""
    names = {}
    for call in calls_of(message):
        body = (call.get("function") or call.get("custom")) if isinstance(call, Mapping) else None
        name = body.get("name") if isinstance(body, Mapping) else None
        if isinstance(name, str) and name and isinstance(call.get("id"), str):
            names[call["id"]] = name
    return names


def clean_calls(calls: Sequence[Any], redactor: Redacts) -> tuple[list[Any] | None, int]:
    """Tool calls without secrets, and how many there were. Arguments stay text; an id is what an output names it by."""
    if not calls:
        return None, 0
    try:
        cleaned, found = _clean(storable_json(list(calls)), redactor)
        for call in cleaned:
            found += _clean_by_names(call, redactor)
    except RecursionError:
        return [_TOO_DEEP], 0
    for given, clean in zip(calls, cleaned, strict=True):
        if isinstance(given, Mapping) and isinstance(given.get("id"), str):
            clean["id"] = clean_short(given["id"], redactor).text
    return cleaned, found


def _clean_by_names(call: Any, redactor: Redacts) -> int:
    """Clean arguments that came as an object: as of a text, its names tell what a value is, and may be secrets."""
    body = (call.get("function") or call.get("custom")) if isinstance(call, dict) else None
    given = body.get("arguments") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(given, dict | list):
        return 0
    words = redactor.redact(json.dumps(given, ensure_ascii=False))
    if words.findings:
        body["arguments"] = _parsed(words.text) or words.text
    return len(words.findings)


def clean_short(text: str, redactor: Redacts) -> Redacted:
    """A name or an id, clean and then cut: the head of a token that a cut went through looks like none."""
    done = redactor.redact(storable(text))
    return Redacted(done.text[:_SHORT_CHARS], done.findings)


def cleaned_value(value: Any, redactor: Redacts) -> tuple[Any, int]:
    """A JSON value with every text in it redacted, and how many cuts that took."""
    try:
        return _clean(value, redactor)
    except RecursionError:
        return [_TOO_DEEP], 1


def _clean(value: Any, redactor: Redacts) -> tuple[Any, int]:
    """Every text in a JSON value redacted, each by itself: the value keeps its shape."""
    if isinstance(value, str):
        return _clean_text(value, redactor)
    if isinstance(value, list):
        items = [_clean(one, redactor) for one in value]
        return [item for item, _ in items], sum(count for _, count in items)
    if isinstance(value, dict):
        members = {name: _clean(one, redactor) for name, one in value.items()}
        return {name: one for name, (one, _) in members.items()}, sum(count for _, count in members.values())
    return value, 0


def _clean_text(text: str, redactor: Redacts) -> tuple[str, int]:
    """Arguments are JSON in a text: their values are read unescaped, then all of it, where a name tells what one is."""
    inside, found = _parsed(text), 0
    if inside is not None:
        cleaned, found = _clean(inside, redactor)
        text = json.dumps(cleaned, ensure_ascii=False) if found else text
    whole = redactor.redact(text)
    return whole.text, found + len(whole.findings)


def _parsed(text: str) -> dict[str, Any] | list[Any] | None:
    if not text.startswith(("{", "[")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _others(message: Mapping[str, Any], redactor: Redacts) -> Iterator[tuple[Part, int]]:
    """Parts that are no text, with the redactions in each."""
    content = message.get("content")
    for given in content if isinstance(content, list) else ():
        part = given.part if isinstance(given, Attachment) else given
        if not isinstance(part, Mapping):
            continue
        kind = _kind_of(part)
        if isinstance(kind, str) and kind not in _TEXT_TYPES | _THOUGHTS:
            yield _refused(part.get(kind), redactor) if kind == "refusal" else _attached(part, kind, redactor)
    if message.get("refusal"):
        yield _refused(message["refusal"], redactor)


def _kind_of(part: Mapping[str, Any]) -> Any:
    """Its type; vLLM takes a part without one for what it has (`{"image_url": "https://…"}`)."""
    return part.get("type") or next((name for name in _UNTYPED if name in part), None)


def _refused(text: Any, redactor: Redacts) -> tuple[Part, int]:
    words = redactor.redact(storable(text) if isinstance(text, str) else "")
    return {"type": "refusal", "text": words.text[:_REFUSAL_CHARS]}, len(words.findings)


def _attached(part: Mapping[str, Any], kind: str, redactor: Redacts) -> tuple[Part, int]:
    """An image, a sound, a film, a file: by the digest of its bytes, else its address or id, else a digest of it."""
    body = part.get(kind)
    members = body if isinstance(body, Mapping) else {"url": body}
    told: Part = {}
    found = 0
    for name, given in (("type", kind), ("name", members.get("filename")), ("file_id", members.get("file_id"))):
        if isinstance(given, str) and given:
            clean = clean_short(given, redactor)
            told[name], found = clean.text, found + len(clean.findings)
    address, raw = members.get("url"), members.get("file_data") or members.get("data")
    address = address.strip() if isinstance(address, str) else address
    if isinstance(address, str) and not is_data_url(address) and not _is_bare(address):
        where = redactor.redact(_bare(storable(address)))
        return {**told, "url": where.text[:_URL_CHARS]}, found + len(where.findings)
    if isinstance(address, str) or isinstance(raw, str):
        media_type, raw_bytes = _of_data(address if isinstance(address, str) else str(raw))
        clean = clean_short(media_type, redactor)
        stated = {"media_type": clean.text} if clean.text else {}
        return {**told, **stated, **_digest(raw_bytes)}, found + len(clean.findings)
    return (told if "file_id" in told else {**told, **_digest(_dumped(part))}), found


def _of_data(data: str) -> tuple[str, bytes]:
    """What a data URL says that it is, and its bytes; bare base64 says nothing. What is neither, as it stands."""
    media_type, raw = decode_data_url(data) if is_data_url(data) else ("", decode_base64(data))
    return media_type, data.encode("utf-8", "surrogatepass") if raw is None else raw


def _is_bare(address: str) -> bool:
    """Whether bytes stand where an address would, as of vLLM's `image_embeds`."""
    return len(address) >= BINARY_CHARS_MIN and decode_base64(address) is not None


def _bare(address: str) -> str:
    """An address without what may be a credential: user, query, fragment."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _digest(raw: bytes) -> Part:
    return {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True, default=repr).encode("ascii")
    except RecursionError:
        return _TOO_DEEP.encode()


def _decoded(run: str) -> bytes | None:
    """The bytes of a run that is base64 or hex by its letters; None for a long word."""
    if not any(char.isdigit() for char in run):
        return None
    letters = set(run) - {"\r", "\n"}
    if letters <= _HEX:
        return bytes.fromhex("".join(run.split())) if len("".join(run.split())) % 2 == 0 else run.encode()
    mixed = any(char.isupper() for char in letters) and any(char.islower() for char in letters)
    return (decode_base64(run) or run.encode()) if mixed else None
