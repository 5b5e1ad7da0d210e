"""The journal of erasures: its first line is on disk with the name of the file."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.erasure import journal
from memory.ids import new_id
from memory.model import TombstoneKind


def test_a_journal_that_is_made_is_in_its_directory_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    true_fsync = os.fsync

    def seen(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        true_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    path = tmp_path / "erasures.ndjson"
    for _ in range(2):
        entry = journal.Entry(new_id(), new_id(), "user", bytes(32), datetime.now(UTC), ())
        journal.append(path, entry, {})
    assert synced == [tmp_path, path, path], "the name once, each line by itself"
    assert len(list(journal.entries(path))) == 2


def test_a_journal_whose_first_line_met_a_fault_is_in_its_directory_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, true_fsync = tmp_path / "erasures.ndjson", os.fsync
    synced: list[Path] = []
    faults = [OSError(errno.EIO, "Input/output error")]

    def seen(descriptor: int) -> None:
        where = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if where == path and faults:
            raise faults.pop()
        synced.append(where)
        true_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    entry = journal.Entry(new_id(), new_id(), "user", bytes(32), datetime.now(UTC), ())
    with pytest.raises(OSError, match="Input/output"):
        journal.append(path, entry, {})
    journal.append(path, entry, {})
    assert tmp_path in synced, "or a power cut takes the file with all that was erased by it"
    assert {one.erasure for one in journal.entries(path)} == {entry.erasure}


def test_of_lines_that_nothing_is_to_be_done_for_no_tombstones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start asks for all there ever were: of a hundred users of years they took gigabytes."""
    path, tenant = tmp_path / "erasures.ndjson", new_id()
    many: tuple[tuple[TombstoneKind, bytes], ...] = (("content", bytes(32)),) * 3
    made = [journal.Entry(tenant, new_id(), "user", bytes(32), datetime.now(UTC), many) for _ in range(3)]
    for entry in made:
        journal.append(path, entry, {})
    unpacked, read = journal._unpacked, list[object]()

    def seen(by_kind: Any) -> Any:
        read.append(by_kind)
        return unpacked(by_kind)

    monkeypatch.setattr(journal, "_unpacked", seen)
    assert list(journal.names(path)) == [(tenant, entry.erasure) for entry in made]
    assert read == []
    assert list(journal.entries(path, {(tenant, made[1].erasure)})) == [made[1]]
    assert len(read) == 1
