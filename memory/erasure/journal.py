"""The journal of erasures: one line of JSON for each, with its receipt and its tombstones in, the same lines out.

It lies beside the database and not in it, so that a database restored from an older copy can be cleaned by it before
anybody is answered. It holds HMACs, ids and times only. Every line is on disk (fsync) before an erasure has ended;
a torn last line was never acknowledged and is passed over.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from memory.model import TombstoneKind
from memory.on_disk import synced

Name = tuple[UUID, UUID]
"""A tenant and an erasure of it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One erasure. `tombstones`: kind and digest. `receipt`: the one that was signed, when it is read."""

    tenant: UUID
    erasure: UUID
    kind: str
    digest: bytes
    at: datetime
    tombstones: tuple[tuple[TombstoneKind, bytes], ...]
    receipt: Mapping[str, Any] = field(default_factory=dict, compare=False)


def append(path: Path, entry: Entry, receipt: Mapping[str, Any]) -> None:
    """Add a line. Blocking. Raises OSError."""
    line = {
        "tenant": str(entry.tenant),
        "erasure": str(entry.erasure),
        "kind": entry.kind,
        "digest": entry.digest.hex(),
        "at": entry.at.isoformat(),
        "tombstones": _packed(entry.tombstones),
        "receipt": dict(receipt),
    }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size == 0:  # before there is a line: of a file that has some it is not known whether its name is on disk
            synced(path.parent)
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        raw = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        left = memoryview((b"\n" if torn else b"") + raw)
        while left:  # a disk that is nearly full takes a part
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def entries(path: Path, among: Container[Name] | None = None) -> Iterator[Entry]:
    """Every whole line, or those of these erasures, oldest first; of a file that is not there none. Blocking. Raises
    OSError.
    """
    for name, line in _lines(path):
        if (among is None or name in among) and (found := _entry(name, line)) is not None:
            yield found


def names(path: Path) -> Iterator[Name]:
    """Of which tenant which erasure each line is, likewise: of a user of years the tombstones take 50 MB."""
    for name, _ in _lines(path):
        yield name


def _lines(path: Path) -> Iterator[tuple[Name, Mapping[str, Any]]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for raw in file:
            if (found := _read(raw)) is not None:
                yield found


def _read(raw: bytes) -> tuple[Name, Mapping[str, Any]] | None:
    try:
        line = json.loads(raw)
        return (UUID(line["tenant"]), UUID(line["erasure"])), line
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _entry(name: Name, line: Mapping[str, Any]) -> Entry | None:
    try:
        return Entry(
            *name,
            line["kind"],
            bytes.fromhex(line["digest"]),
            datetime.fromisoformat(line["at"]),
            tuple(_unpacked(line["tombstones"])),
            dict(line["receipt"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _packed(tombstones: Sequence[tuple[TombstoneKind, bytes]]) -> dict[str, str]:
    by_kind: dict[str, bytes] = {}
    for kind, digest in tombstones:
        by_kind[kind] = by_kind.get(kind, b"") + digest
    return {kind: base64.b64encode(digests).decode() for kind, digests in by_kind.items()}


def _unpacked(by_kind: Mapping[TombstoneKind, str]) -> Iterator[tuple[TombstoneKind, bytes]]:
    for kind, packed in by_kind.items():
        raw = base64.b64decode(packed)
        for at in range(0, len(raw), 32):
            yield kind, raw[at : at + 32]
