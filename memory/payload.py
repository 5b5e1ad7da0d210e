"""The plaintext inside an envelope: Captured or ImportChunk in, bytes out, and back.

    4 bytes   length of the JSON head, big-endian
    head      JSON: every field but the body
    body      the client's request, zlib (level 1) when the head says so

Refuses nothing on the way in; on the way back, bytes that are no payload raise EnvelopeUnreadable.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import struct
import zlib
from binascii import b2a_base64
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic_core import to_json

from memory.chain import Digest
from memory.errors import EnvelopeUnreadable
from memory.model import (
    Captured,
    Entry,
    ImportChunk,
    ImportLine,
    Placed,
    Retrieval,
    Scope,
    SessionRef,
    Shown,
    Withdrawn,
)
from policies.labels import Sensitivity, derived_sensitivity

_COMPRESS_FROM_BYTES: Final = 512
_LARGE_BYTES: Final = 262_144
_SAMPLE_BYTES: Final = 16_384
_REPEATS_BELOW: Final = 0.65
"""Of a sample's size: base64 of what is compressed itself comes to .77, talk in any script to .5 and less."""
_LENGTH: Final = struct.Struct(">I")
_NOT_OURS: Final = (ValueError, KeyError, TypeError, struct.error, zlib.error)
_NAMES: Final[dict[type, tuple[str, ...]]] = {}
_RARE: Final = frozenset({"apart", "restored"})
_AS_THEY_ARE: Final = frozenset({str, int, float, bool, dict, type(None)})


def pack_captured(captured: Captured) -> bytes:
    """One exchange as bytes. The request's bytes come back unchanged."""
    compress = len(captured.request) >= _COMPRESS_FROM_BYTES
    head = {**_fields(captured), "request": b"", "compressed": compress}
    if not captured.looked:  # rare, and a worker of an older version knows no such field
        del head["looked"]
    if captured.retrieval is not None:  # likewise
        said = _plain(captured.retrieval)
        head["retrieval"] = {name: value for name, value in said.items() if value or name not in _RARE}
    return _join(head, _compressed(captured.request) if compress else captured.request)


def _compressed(body: bytes) -> bytes:
    """A large body that is pictures for the most part by its letters' frequency alone: as small, in a quarter of the
    time (8 MB in base64: 70 ms, 275 with a search for what is there again).
    """
    if len(body) < _LARGE_BYTES or len(zlib.compress(_sample(body), 1)) < _REPEATS_BELOW * _SAMPLE_BYTES:
        return zlib.compress(body, 1)
    deflate = zlib.compressobj(1, strategy=zlib.Z_HUFFMAN_ONLY)
    return deflate.compress(body) + deflate.flush()


def _sample(body: bytes) -> bytes:
    pieces = 4
    step, size = len(body) // pieces, _SAMPLE_BYTES // pieces
    return b"".join(body[at : at + size] for at in range(step // 2, len(body), step)[:pieces])


def unpack_captured(payload: bytes) -> Captured:
    """The exchange again. Raises EnvelopeUnreadable."""
    try:
        head, body = _split(payload)
        return _captured(head, zlib.decompress(body) if head["compressed"] else body)
    except _NOT_OURS as exc:
        raise _unreadable("captured exchange", exc) from exc


def spread(payload: bytes) -> bytes:
    """A packed exchange with its body as the client sent it, so that two of them are alike where what they hold is. The
    head stays to the byte, and goes on saying whether the body was compressed. Raises EnvelopeUnreadable.
    """
    try:
        head, body = _split(payload)
        return payload[: len(payload) - len(body)] + zlib.decompress(body) if head["compressed"] else payload
    except _NOT_OURS as exc:
        raise _unreadable("captured exchange", exc) from exc


def unpack_spread(payload: bytes) -> Captured:
    """The exchange of what `spread` gave. Raises EnvelopeUnreadable."""
    try:
        return _captured(*_split(payload))
    except _NOT_OURS as exc:
        raise _unreadable("captured exchange", exc) from exc


def _captured(head: dict[str, Any], request: bytes) -> Captured:
    del head["compressed"]
    head["request"] = request
    head["exchange_id"] = UUID(head["exchange_id"])
    head["scope"] = _scope(head["scope"])
    head["session"] = SessionRef(UUID(head["session"]["session_id"]), head["session"]["label"])
    head["arrived_at"] = datetime.fromisoformat(head["arrived_at"])
    head["finished_at"] = datetime.fromisoformat(head["finished_at"])
    head["digests"] = tuple(None if d is None else Digest(base64.b64decode(d)) for d in head["digests"])
    head["retrieval"] = _retrieval(head["retrieval"])
    return Captured(**head)


def pack_import(chunk: ImportChunk) -> bytes:
    """Some import lines as bytes."""
    head = _fields(chunk)
    if chunk.ceiling is None:  # a worker of an older version knows no such field
        del head["ceiling"]
    head["lines"] = list(map(_packed_line, chunk.lines))
    return zlib.compress(_join(head, b""), 1)


def unpack_import(payload: bytes) -> ImportChunk:
    """The lines again. Raises EnvelopeUnreadable."""
    try:
        head, _ = _split(zlib.decompress(payload))
        head["lines"] = tuple(_line(line) for line in head["lines"])
        head["scope"] = _scope(head["scope"])
        head["exchange_id"] = UUID(head["exchange_id"])
        head["import_id"] = UUID(head["import_id"])
        head["arrived_at"] = datetime.fromisoformat(head["arrived_at"])
        return ImportChunk(**head)
    except _NOT_OURS as exc:
        raise _unreadable("import chunk", exc) from exc


def _unreadable(what: str, exc: Exception) -> EnvelopeUnreadable:
    return EnvelopeUnreadable(f"the payload is no {what}: {type(exc).__name__}")


def _join(head: dict[str, Any], body: bytes) -> bytes:
    encoded = _encoded({name: _plain(value) for name, value in head.items()})
    return _LENGTH.pack(len(encoded)) + encoded + body


def _encoded(head: dict[str, Any]) -> bytes:
    try:  # a third of the time that the json module takes
        return to_json(head, ensure_ascii=True)
    except ValueError:  # half of a surrogate pair, in what a client or a model said
        return json.dumps(head, separators=(",", ":")).encode("ascii")


def _split(payload: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = _LENGTH.unpack_from(payload)
    head = json.loads(payload[_LENGTH.size : _LENGTH.size + length])
    return head, payload[_LENGTH.size + length :]


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass's fields, one level deep (asdict's deep copy took 2 ms a request)."""
    return {name: getattr(value, name) for name in _names(type(value))}


def _names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass, none of another class: looked up once a class."""
    if kind not in _NAMES:
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        _NAMES[kind] = tuple(field.name for field in fields)
    return _NAMES[kind]


def _plain(value: Any) -> Any:
    """A field as the encoder takes it: what it knows (dictionaries are JSON already, dates and ids) as it is; bytes go
    as base64 with + and /, which the encoder's own is without.
    """
    kind: type = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, tuple):
        return [one if type(one) in _AS_THEY_ARE else _plain(one) for one in value]
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Shown):  # twenty of them in a block
        fingerprint = b2a_base64(value.fingerprint, newline=False).decode()
        return {"memory_id": str(value.memory_id), "version": value.version, "fingerprint": fingerprint}
    names = _names(kind)
    return {name: _plain(getattr(value, name)) for name in names} if names else value


def _scope(raw: dict[str, Any]) -> Scope:
    return Scope(UUID(raw["tenant"]), raw["user"], raw["project"], raw["agent"])


def _packed_line(line: ImportLine) -> dict[str, Any]:
    raw: dict[str, Any] = _plain(line)
    for rare in ("integrity", "memory", "parent", "parts", "model"):  # a worker of an older version knows no such field
        if raw[rare] is None:
            del raw[rare]
    return raw


def _line(raw: dict[str, Any]) -> ImportLine:
    return ImportLine(
        **{
            **raw,
            "occurred_at": datetime.fromisoformat(raw["occurred_at"]),
            "line_digest": base64.b64decode(raw["line_digest"]),
        }
    )


def _entry_placed(placed: dict[str, Any], of: dict[str, Any]) -> Entry:
    """The block of one placement. Before there was a ledger only its words were captured: how its memories were worded
    nobody knows, so that the law has it withdrawn where it would stand again.
    """
    if "entry" in placed:
        return _entry(placed["entry"])
    quoted = frozenset(placed["memory_ids"])
    labels = (Sensitivity(one.get("sensitivity", "internal")) for one in of["candidates"] if one["id"] in quoted)
    shown = tuple(Shown(UUID(one), 0, b"") for one in placed["memory_ids"])
    highest = derived_sensitivity((Sensitivity.INTERNAL, *labels))
    return Entry(placed["text"], placed["tokens"], shown, highest.value, UUID(of["retrieval_id"]))


def _entry(raw: dict[str, Any]) -> Entry:
    shown = (
        Shown(UUID(one["memory_id"]), one["version"], base64.b64decode(one["fingerprint"])) for one in raw["shown"]
    )
    return Entry(raw["text"], raw["tokens"], tuple(shown), raw["sensitivity"], UUID(raw["retrieval_id"]))


def _retrieval(raw: dict[str, Any] | None) -> Retrieval | None:
    if raw is None:
        return None
    placed = tuple(
        Placed(
            position=p["position"],
            chain=Digest(base64.b64decode(p["chain"])),
            entry=_entry_placed(p, raw),
            since=UUID(p["since"]) if p.get("since") else None,  # an older proxy says none of these
            anew=p.get("anew", False),
            stood=p.get("stood", 0),
            stood_tokens=p.get("stood_tokens", 0),
        )
        for p in raw["placed"]
    )
    return Retrieval(
        **{
            **raw,
            "retrieval_id": UUID(raw["retrieval_id"]),
            "candidates": tuple(raw["candidates"]),
            "placed": placed,
            "left_out": tuple(raw["left_out"]) if raw.get("left_out") else None,
            "cut": base64.b64decode(raw["cut"]) if raw.get("cut") else None,
            "restored": base64.b64decode(raw["restored"]) if raw.get("restored") else None,
            "withdrawn": tuple(
                Withdrawn(Digest(base64.b64decode(one["chain"])), one["reason"]) for one in raw.get("withdrawn", ())
            ),
            "sha256_sent": base64.b64decode(raw["sha256_sent"]),
            "created_at": datetime.fromisoformat(raw["created_at"]),
        }
    )
