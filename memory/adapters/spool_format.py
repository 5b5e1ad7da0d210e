"""The bytes of a spool file: entries to records and back, without any I/O.

    bytes 0..4095   header page, two slots (at 0 and 2048), written in turn; the newer valid one counts
                    slot: magic 8, version u16, generation u32, sequence u64, drained offset u64, crc32 u32
    from 4096       records, each at a multiple of 8:
                    mark 4, generation u32, payload length u32, crc32 u32 (of the two before and the payload)
                    payload: exchange, tenant, subject (16 bytes each), kind, lane class (a length byte before each),
                    the sealed envelope

Emptying a file raises its generation, so that what lies there from before is no record any more. Little endian.
Refuses to guess: bytes whose checksum does not fit are no record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Final
from uuid import UUID

from memory.ports import Entry

VERSION: Final = 1
DATA_AT: Final = 4096
SLOT_BYTES: Final = 2048

_MAGIC: Final = b"MPSPOOL\0"
_MARK: Final = b"MPR1"
_SLOT: Final = struct.Struct("<8sHIQQ")
_HEAD: Final = struct.Struct("<4sIII")
_CRC: Final = struct.Struct("<I")
_TWO: Final = struct.Struct("<II")
_ALIGN: Final = 8
_PAYLOAD_BYTES_MIN: Final = 50


@dataclass(frozen=True, slots=True)
class Header:
    """Where a file stands: records of `generation` from `drained_at` on are still to be moved."""

    generation: int
    sequence: int
    drained_at: int
    version: int = VERSION

    def encode(self) -> bytes:
        """The bytes of one slot."""
        body = _SLOT.pack(_MAGIC, self.version, self.generation, self.sequence, self.drained_at)
        return body + _CRC.pack(zlib.crc32(body))

    def slot_at(self) -> int:
        """Offset of the slot this header goes to: never the one that holds the header before it."""
        return (self.sequence % 2) * SLOT_BYTES


@dataclass(frozen=True, slots=True)
class Span:
    """A valid record: its offsets, and how many damaged bytes lie between it and the record before."""

    start: int
    end: int
    gap: int = 0


def decode_header(page: bytes) -> Header | None:
    """The newer valid slot of a header page, or None."""
    found = [header for at in (0, SLOT_BYTES) if (header := _decode_slot(page[at : at + SLOT_BYTES]))]
    return max(found, key=lambda header: header.sequence, default=None)


def encode_record(entry: Entry, generation: int) -> bytes:
    """One record, padded to the alignment."""
    kind, lane_class = entry.kind.encode(), entry.lane_class.encode()
    payload = b"".join(
        (
            *(entry.exchange_id.bytes, entry.tenant_id.bytes, entry.subject_id.bytes),
            *(bytes([len(kind)]), kind, bytes([len(lane_class)]), lane_class),
            entry.envelope,
        )
    )
    head = _HEAD.pack(_MARK, generation, len(payload), _crc(generation, payload))
    return head + payload + bytes(-(len(head) + len(payload)) % _ALIGN)


def decode_record(record: bytes, generation: int) -> Entry | None:
    """The entry of one record, or None when the bytes are not one."""
    if record_end(record, 0, generation) is None:
        return None
    (length,) = _CRC.unpack_from(record, 8)
    payload = record[_HEAD.size : _HEAD.size + length]
    kind_end = 49 + payload[48]
    class_end = kind_end + 1 + payload[kind_end]
    return Entry(
        exchange_id=UUID(bytes=payload[:16]),
        tenant_id=UUID(bytes=payload[16:32]),
        subject_id=UUID(bytes=payload[32:48]),
        kind=payload[49:kind_end].decode(),
        lane_class=payload[kind_end + 1 : class_end].decode(),
        envelope=payload[class_end:],
    )


def record_end(data: bytes | mmap, at: int, generation: int) -> int | None:
    """The offset behind the valid record at `at`, its padding included, or None when there is none."""
    if at + _HEAD.size > len(data):
        return None
    length: int
    mark, its_generation, length, crc = _HEAD.unpack_from(data, at)
    start = at + _HEAD.size
    if mark != _MARK or its_generation != generation or length < _PAYLOAD_BYTES_MIN or start + length > len(data):
        return None
    with memoryview(data) as view, view[start : start + length] as payload:
        if _crc(generation, payload) != crc:
            return None
    return start + length + (-(_HEAD.size + length) % _ALIGN)


def spans(data: bytes | mmap, start: int, generation: int, *, thorough: bool) -> Iterator[Span]:
    """The valid records from `start` on, in order.

    A damaged record does not hide those behind it: they are looked for when the damaged bytes still begin like a
    record, or wherever the search is `thorough` (reads the file to its end). A torn record at the end is passed over.
    """
    at = start
    while True:
        end = record_end(data, at, generation)
        gap_from = at
        if end is None and (thorough or _begins_record(data, at, generation)):
            at, end = _next_record(data, at + 1, generation)
        if end is None:
            return
        yield Span(at, end, at - gap_from)
        at = end


def newest_generation(data: bytes | mmap) -> int | None:
    """The highest generation that any valid record has, for a file whose header is lost."""
    newest = None
    at = data.find(_MARK, DATA_AT)
    while 0 <= at <= len(data) - _HEAD.size:
        (generation,) = _CRC.unpack_from(data, at + 4)
        if (newest is None or generation > newest) and record_end(data, at, generation) is not None:
            newest = generation
        at = data.find(_MARK, at + 1)
    return newest


def _next_record(data: bytes | mmap, at: int, generation: int) -> tuple[int, int | None]:
    beginning = _MARK + _CRC.pack(generation)
    at = data.find(beginning, at)
    while at >= 0:
        end = record_end(data, at, generation)
        if end is not None:
            return at, end
        at = data.find(beginning, at + 1)
    return len(data), None


def _begins_record(data: bytes | mmap, at: int, generation: int) -> bool:
    return data[at : at + 8] == _MARK + _CRC.pack(generation)


def _decode_slot(slot: bytes) -> Header | None:
    if len(slot) < _SLOT.size + _CRC.size:
        return None
    magic, version, generation, sequence, drained_at = _SLOT.unpack_from(slot)
    (crc,) = _CRC.unpack_from(slot, _SLOT.size)
    if magic != _MAGIC or crc != zlib.crc32(slot[: _SLOT.size]) or drained_at < DATA_AT:
        return None
    return Header(generation, sequence, drained_at, version)


def _crc(generation: int, payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(_TWO.pack(generation, len(payload))))
