"""The journal of erasures: its first line is on disk with the name of the file."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.erasure import journal
from memory.ids import new_id


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
