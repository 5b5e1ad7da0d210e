"""Conversation identity: messages -> one keyed digest for each chain position.

In: a tenant key and the messages of a request or an answer, as parsed JSON of any quality. Out: 32-byte digests,
h_i = HMAC-SHA256(tenant key, h_(i-1) || canonical message), None for system and developer messages, which are
attributes of a turn. The answer as it was streamed and the same message as a client sends it back are equal here.
Refuses nothing: a malformed message gets a digest over a stable dump of it. Never raises, never keeps text.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NewType

from memory.data_url import decode_base64, decode_data_url, is_data_url
from policies.text import normalised, without_thought

Digest = NewType("Digest", bytes)

DIGEST_BYTES = 32
BEFORE_THE_FIRST = Digest(bytes(DIGEST_BYTES))
"""What stands for the digest before the first message."""


@dataclass(frozen=True)
class Attachment:
    """A part of a message that is no text, as it came, and what counts of it: read when it is asked for, and once."""

    part: object

    @cached_property
    def told(self) -> bytes:
        """What counts of it."""
        return _attachment(self.part)


_UNCHAINED_ROLES = frozenset({"system", "developer"})
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_IGNORED_PARTS = frozenset({"refusal", "thinking", "reasoning"})
_MEDIA_PARTS = ("image_url", "input_audio", "audio_url", "video_url", "file")
_URL_FIELDS = ("url", "file_data", "data", "file_id")
_BASE64_FIELDS = frozenset({"file_data", "data"})
_NO_ATTACHMENTS = frozenset({"refusal", "data"})  # of parts that are kept, what stood in the text
_UNDUMPABLE = b"undumpable"


def chain(tenant_key: bytes, messages: Iterable[object], behind: Digest = BEFORE_THE_FIRST) -> list[Digest | None]:
    """The digest at each message's place, `behind` what came before; None where a message is not part of the chain."""
    digests: list[Digest | None] = []
    previous = behind
    for message in messages:
        if not is_chained(message):
            digests.append(None)
            continue
        previous = extend(tenant_key, previous, message)
        digests.append(previous)
    return digests


def extend(tenant_key: bytes, previous: Digest | None, message: object, told: Sequence[bytes] = ()) -> Digest:
    """The digest of `message` behind `previous` (None: it is the first). Meant for messages that are chained. `told`:
    its attachments, of one that has come without them.
    """
    before = BEFORE_THE_FIRST if previous is None else previous
    return Digest(hmac.digest(tenant_key, before + canonical_message(message, told), "sha256"))


def is_chained(message: object) -> bool:
    """Whether a message takes a chain position: all but system and developer messages do."""
    if not isinstance(message, Mapping):
        return True
    role = message.get("role")
    return not (isinstance(role, str) and role in _UNCHAINED_ROLES)


def canonical_message(message: object, told: Sequence[bytes] = ()) -> bytes:
    """What counts of a message, in one unambiguous encoding: every field is preceded by its length in bytes.

    Fields in order: role, text, attachments, tool calls, tool call id. Null, "" and absent are equal, and so are an
    answer with the thought that it opens with and without: clients that hide it do not send it again.
    """
    if not isinstance(message, Mapping):
        return _framed((b"malformed", _stable_dump(message)))
    role = message.get("role")
    text, attachments = _content(message.get("content"))
    return _framed(
        (
            _scalar(role),
            _canonical_text(without_thought(text) if role == "assistant" else text),
            _framed((*attachments, *told)),
            _framed(_tool_calls(message.get("tool_calls"))),
            _scalar(message.get("tool_call_id")),
        )
    )


def with_attachments_read(message: object) -> object:
    """The same message for all that is asked here, no attachment of it read twice: a picture of 8 MB takes 45 ms."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(content, list):
        return message
    read = [Attachment(part) if _is_attachment(part) else part for part in content]
    return {**message, "content": read}


def told_attachments(parts: Iterable[Mapping[str, object]]) -> list[bytes]:
    """Attachments by what is kept of them: those of the message itself, where that has their bytes or an address
    without anything that may be a credential.
    """
    told: list[bytes] = []
    for part in parts:
        digest, address = part.get("sha256"), part.get("url") or part.get("file_id")
        if part.get("type") in _NO_ATTACHMENTS:
            continue
        if isinstance(digest, str):
            told.append(b"b" + bytes.fromhex(digest))
        elif isinstance(address, str):
            told.append(_of_url(address))
    return told


def pair_digest(tenant_key: bytes, before: object, answer: object) -> Digest:
    """What an answer and the message before it are known by wherever they stand: a client that drops its oldest
    messages breaks the chain, and still sends these.
    """
    said = _framed((canonical_message(before), canonical_message(answer)))
    return Digest(hmac.digest(tenant_key, b"pair" + said, "sha256"))


def message_text(message: object) -> str:
    """The text of a message as it was sent: the string content, or its text parts joined by a line feed; else ""."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(text for text in map(_part_text, content) if text)


def _framed(fields: Iterable[bytes]) -> bytes:
    return b"".join(len(field).to_bytes(8, "big") + field for field in fields)


def _scalar(value: object) -> bytes:
    if value is None or value == "":
        return b""
    return b"s" + _utf8(value) if isinstance(value, str) else b"j" + _stable_dump(value)


def _content(content: object) -> tuple[str, Sequence[bytes]]:
    if content is None or isinstance(content, str):
        return content or "", ()
    if not isinstance(content, list):
        return "", (_other(content),)
    texts: list[str] = []
    attachments: list[bytes] = []
    for part in content:
        text = _part_text(part)
        if text is not None:
            texts.append(text)
        elif _is_attachment(part):
            attachments.append(_attachment(part))
    return "\n".join(filter(None, texts)), attachments


def _part_type(part: Mapping[str, object]) -> str:
    kind = part.get("type", "text" if "text" in part else "")
    return kind if isinstance(kind, str) else ""


def _part_text(part: object) -> str | None:
    """The text of a text part ("" for a null one), None for every other part."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and _part_type(part) in _TEXT_PARTS:
        text = part.get("text")
        if text is None or isinstance(text, str):
            return text or ""
    return None


def _is_attachment(part: object) -> bool:
    return _part_text(part) is None and not (isinstance(part, Mapping) and _part_type(part) in _IGNORED_PARTS)


def _canonical_text(text: str) -> bytes:
    if text.isascii():
        return text.strip().encode("ascii")
    return _utf8(normalised("NFC", _joined_surrogates(text)).strip())


def _joined_surrogates(text: str) -> str:
    """Two halves of one character that came in two stream events are that character once joined."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _attachment(part: object) -> bytes:
    """An image, file, sound or film: by its bytes, else by its URL or id, else by a dump of the whole part."""
    if isinstance(part, Attachment):
        return part.told
    if not isinstance(part, Mapping):
        return _other(part)
    body = next((part[name] for name in (_part_type(part), *_MEDIA_PARTS) if part.get(name)), part)
    if isinstance(body, str):
        return _of_url(body)
    if isinstance(body, Mapping):
        for name in _URL_FIELDS:
            value = body.get(name)
            if isinstance(value, str) and value:
                return _of_url(value, bare_base64=name in _BASE64_FIELDS)
    return _other(part)


def _of_url(url: str, *, bare_base64: bool = False) -> bytes:
    """Of a data URL the media type is left out: equal bytes are equal."""
    decoded: bytes | None = None
    if is_data_url(url):
        _, decoded = decode_data_url(url)
    elif bare_base64:
        decoded = decode_base64(url)
    if decoded is None:
        return b"u" + hashlib.sha256(_utf8(url)).digest()
    return b"b" + hashlib.sha256(decoded).digest()


def _other(value: object) -> bytes:
    return b"j" + hashlib.sha256(_stable_dump(value)).digest()


def _tool_calls(calls: object) -> list[bytes]:
    if not calls:
        return []
    if not isinstance(calls, list):
        return [_other(calls)]
    return [_tool_call(call) for call in calls]


def _tool_call(call: object) -> bytes:
    body = call.get("function") or call.get("custom") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(body, Mapping):
        return _other(call)
    arguments = body.get("arguments", body.get("input"))
    return _framed((_scalar(call.get("id")), _scalar(body.get("name")), _arguments(arguments)))


def _arguments(arguments: object) -> bytes:
    if arguments is None or arguments == "":  # of a call without any, which clients send again as an object
        return b"{}"
    text = arguments if isinstance(arguments, str) else _stable_dump(arguments).decode()
    try:
        return _stable_dump(_ARGUMENTS.decode(text))
    except (ValueError, RecursionError):
        return _utf8(text)


def _number(raw: str) -> float:
    """A client that parses 20.0 and writes it again may write 20: JavaScript has one kind of number."""
    value = float(raw)
    return int(value) if value.is_integer() else value


_ARGUMENTS = json.JSONDecoder(parse_float=_number)


def _stable_dump(value: object) -> bytes:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr).encode("ascii")
    except (TypeError, ValueError, RecursionError):
        return _UNDUMPABLE
