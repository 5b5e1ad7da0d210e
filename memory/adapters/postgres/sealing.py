"""Which parameters and columns of which queries are sealed, and what a sealed value looks like in its column.

A text is `mp-sealed:1:` and the base64 of an envelope; a jsonb an object with the one member `mp-sealed`. A plain value
that looks so is sealed too, whatever its label, so what looks sealed is ours. Values only; no keys, no I/O.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import numpy as np

from memory.envelope import DataKey, RowBinding, seal, unseal
from memory.errors import EnvelopeUnreadable
from policies.labels import Sensitivity, is_sealed

MARK: Final = "mp-sealed:1:"
MEMBER: Final = "mp-sealed"
_SPAN: Final = struct.Struct(">ii")
_HALVES: Final = struct.Struct(">HH")
SEALED_LABELS: Final = frozenset(label.value for label in Sensitivity if is_sealed(label))


@dataclass(frozen=True, slots=True)
class Written:
    """Where a statement's parameters have what is sealed, by position; `$1` is position 0 and always the tenant."""

    row_id: int
    version: int | None  # None: a turn, which has none
    scope: int | None  # None: the turn's own
    sensitivity: int
    texts: Mapping[int, str]
    jsons: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shown:
    """Which columns of a row may be sealed, and which name the row."""

    row_id: str
    version: str | None
    texts: tuple[str, ...]
    jsons: tuple[str, ...] = ()


WRITTEN: Final[Mapping[str, Written]] = {
    "add_turn": Written(1, None, 2, 18, {11: "content"}, {12: "tool_calls", 25: "parts"}),
    "replace_turn": Written(1, None, None, 7, {4: "content"}, {13: "tool_calls", 15: "parts"}),
    "add_version": Written(1, 2, 3, 7, {4: "content"}, {11: "attributes"}),
    "seal_turn": Written(1, None, 2, 6, {3: "content"}, {4: "tool_calls", 5: "parts"}),
    "seal_version": Written(1, 2, 3, 6, {4: "content"}, {5: "attributes"}),
}
_VERSION: Final = Shown("memory_id", "version", ("content",), ("attributes",))
_TEXT: Final = Shown("memory_id", "version", ("content",))
_TURN: Final = Shown("event_id", None, ("content",), ("tool_calls", "parts"))
SHOWN: Final[Mapping[str, Shown]] = {
    "changed_memories": _VERSION,
    "memories_as_of": _VERSION,
    "memories_by_id": _VERSION,
    "memories_standing": _VERSION,
    "memories_newest": _VERSION,
    "memories_oldest": _VERSION,
    "memories_to_review": _VERSION,
    "memory_by_id": _VERSION,
    "named_then": _VERSION,
    "memories_of_turns": _TEXT,
    "told_as_it_stands": _VERSION,
    "episodes_to_tell": _VERSION,
    "summary_state": _VERSION,
    "rolling_summary": _VERSION,
    "versions_by_number": _VERSION,
    "versions_of": _VERSION,
    "versions_by_hand": _VERSION,
    "sealed_versions_after": _VERSION,
    "versions_without_vectors": _TEXT,
    "content_of_memory": _TEXT,
    "turns_in_order": _TURN,
    "turns_since": _TURN,
    "episode_turns": _TURN,
    "turns_under": _TURN,
    "sealed_turns_after": _TURN,
    "last_turns": Shown("event_id", None, ("content",)),
    "turns_of_memory": Shown("event_id", None, ("content",)),
    "answers_given": Shown("event_id", None, ("content",)),
    "said_beside": Shown("event_id", None, ("content",)),
    "turns_to_erase": Shown("event_id", None, ("content",)),
    "turns_with_tokens": _TURN,
    "versions_with_tokens": _VERSION,
    "turns_to_learn": Shown("event_id", None, ("content",)),
    "versions_to_erase": _TEXT,
}
# Queries that return such a column and leave sealed rows out, or to which no sealed row belongs (decision 0024).
WITHOUT_SEALED: Final = frozenset(
    {
        "hygiene_memories",
        "hygiene_placed",
        "user_turns_of_due",
        "fact_as_stated",
        "procedure_as_taught",
        "memories_to_redact",
        "turns_to_redact",
        "canary_of",
    }
)


def looks_sealed(value: Any) -> bool:
    """Whether a column's value is, or pretends to be, a sealed one."""
    if isinstance(value, str):
        return value.startswith(MARK)
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(MEMBER), str)


def envelope_in(value: Any) -> bytes:
    """The envelope inside a sealed value. Raises EnvelopeUnreadable."""
    text = value if isinstance(value, str) else value[MEMBER]
    try:
        return base64.b64decode(text.removeprefix(MARK), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise EnvelopeUnreadable("a value that is marked as sealed is no base64") from exc


def sealed_text(key: DataKey, binding: RowBinding, text: str) -> str:
    """A text as its column holds it sealed: a third longer, and 73 characters."""
    return MARK + base64.b64encode(seal(key, binding, text.encode("utf-8", "surrogatepass"))).decode("ascii")


def sealed_json(key: DataKey, binding: RowBinding, value: Any) -> dict[str, str]:
    """A JSON value as its column holds it sealed."""
    return {MEMBER: sealed_text(key, binding, json.dumps(value, ensure_ascii=False, separators=(",", ":")))}


def opened_value(key: DataKey, binding: RowBinding, value: Any) -> Any:
    """What was sealed: a text, or a JSON value. Raises EnvelopeUnreadable."""
    text = unseal(key, binding, envelope_in(value)).decode("utf-8", "surrogatepass")
    return text if isinstance(value, str) else json.loads(text)


def of_turn(tenant: UUID, event_id: UUID, column: str) -> RowBinding:
    """What a turn's column is bound to; turns have no versions."""
    return RowBinding(tenant, UUID(int=event_id.int), 0, column)


def of_version(tenant: UUID, memory_id: UUID, version: int, column: str) -> RowBinding:
    """What a version's column is bound to."""
    return RowBinding(tenant, UUID(int=memory_id.int), version, column)


def of_window(tenant: UUID, memory_id: UUID, version: int, table: str, number: int) -> RowBinding:
    """What a vector is bound to."""
    return of_version(tenant, memory_id, version, f"window {number} of {table}")


def packed_window(start: int, end: int, vector: bytes) -> bytes:
    """A window as it is sealed: its span, and the vector in pgvector's binary form."""
    return _SPAN.pack(start, end) + vector


def unpacked_window(clear: bytes) -> tuple[int, int, bytes]:
    """The span, and the vector in binary."""
    start, end = _SPAN.unpack_from(clear)
    return start, end, clear[_SPAN.size :]


def binary_of(vector: Sequence[float]) -> bytes:
    """A vector as pgvector sends a halfvec: dimension, two unused bytes, big-endian halves."""
    halves = np.asarray(vector, dtype=np.float32).astype(">f2")
    return _HALVES.pack(len(halves), 0) + halves.tobytes()


def vector_of(binary: bytes) -> Any:
    """The vector of such a binary form, shape [dim]."""
    return np.frombuffer(binary, dtype=">f2", offset=_HALVES.size).astype(np.float32)
