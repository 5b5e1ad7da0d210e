"""The spool: what it has acknowledged is there after any death, and damage costs only what it hit."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.adapters.spool import Spool, SpoolInUse, adopt_orphans, count
from memory.adapters.spool_format import DATA_AT, Header, decode_record, encode_record, record_end, spans
from memory.errors import SpoolUnavailable
from memory.ids import new_id
from memory.ports import Entry
from proxy.wiring.stores import open_spool

MIB = 1 << 20
GENERATION = 1


def an_entry(envelope: bytes = b"sealed") -> Entry:
    return Entry(new_id(), UUID(int=1), UUID(int=2), "exchange", "live", envelope)


async def all_of(spool: Spool) -> list[Entry]:
    return await spool.peek(count=10_000, bytes_max=1 << 30)


def kill_9(spool: Spool) -> None:
    """What a dead process leaves: the file as it is, and no lock."""
    os.close(spool._fd)
    spool._fd = -1
    spool._thread.shutdown()


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[Spool]:
    spool = Spool(tmp_path / "one.spool", MIB)
    yield spool
    await spool.close()


async def test_entries_come_out_as_they_went_in_and_in_order(spool: Spool) -> None:
    entries = [an_entry(os.urandom(size)) for size in (0, 1, 7, 8, 4096, 100_000)]
    for entry in entries:
        await spool.append(entry)
    assert await all_of(spool) == entries
    assert spool.pending == count(spool.path.parent) == 6


async def test_concurrent_appends_keep_their_order(spool: Spool) -> None:
    entries = [an_entry(b"x" * 100) for _ in range(500)]
    await asyncio.gather(*(spool.append(entry) for entry in entries))
    assert await all_of(spool) == entries


async def test_an_entry_that_cannot_be_written_down_takes_none_with_it_that_came_after(spool: Spool) -> None:
    defect, entry = replace(an_entry(), kind="x" * 256), an_entry()
    failing = asyncio.create_task(spool.append(defect))
    while spool._appends._waiting or spool.idle:  # until it is under way: the next one goes with a flush of its own
        await asyncio.sleep(0)
    behind = asyncio.create_task(spool.append(entry))
    await asyncio.wait([failing, behind])
    assert isinstance(failing.exception(), ValueError)
    assert not behind.cancelled(), "its caller takes that for its own end, and the entry is nowhere"
    assert await all_of(spool) == [entry]
    assert spool.idle


async def test_peek_is_bounded_in_bytes_but_gives_at_least_one(spool: Spool) -> None:
    entries = [an_entry(bytes(1000)) for _ in range(5)]
    for entry in entries:
        await spool.append(entry)
    assert await spool.peek(count=10, bytes_max=1) == entries[:1]
    assert await spool.peek(count=10, bytes_max=2500) == entries[:2]
    assert await spool.peek(count=3, bytes_max=MIB) == entries[:3]


async def test_what_is_drained_does_not_come_again_after_a_crash(tmp_path: Path) -> None:
    first = Spool(tmp_path / "one.spool", MIB)
    entries = [an_entry() for _ in range(5)]
    for entry in entries:
        await first.append(entry)
    await first.drained(2)
    assert count(tmp_path) == 3
    kill_9(first)
    second = Spool(tmp_path / "one.spool", MIB)
    assert await all_of(second) == entries[2:]
    assert (second.pending, second.damage) == (3, 0)
    await second.close()


async def test_a_drained_spool_is_reset_and_its_old_records_are_none(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "one.spool", 64 * 1024)
    for _ in range(20):  # many times its size
        old = [an_entry(bytes(9000)) for _ in range(5)]
        for entry in old:
            await spool.append(entry)
        await spool.drained(5)
        assert (spool.pending, count(tmp_path)) == (0, 0)
    new = an_entry(b"new")
    await spool.append(new)
    kill_9(spool)
    again = Spool(tmp_path / "one.spool", 64 * 1024)
    assert await all_of(again) == [new]
    await again.close()


@pytest.mark.parametrize("written", [0, 17, 34])
async def test_what_is_taken_behind_a_header_that_met_a_fault_is_found_by_an_adopter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    spool, write, entries = Spool(tmp_path / "one.spool", MIB), os.pwrite, [an_entry() for _ in range(3)]
    await spool.append(entries[0])

    def faulty(fd: int, data: bytes, at: int) -> int:
        if at >= DATA_AT:
            return write(fd, data, at)
        if written:
            write(fd, data[:written], at)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", faulty)
        with pytest.raises(SpoolUnavailable):
            await spool.drained(1)
        with pytest.raises(SpoolUnavailable):
            await spool.append(entries[1])
    await spool.append(entries[2])
    kill_9(spool)
    assert count(tmp_path) == 1
    adopted = Spool(tmp_path / "one.spool", None, create=False)
    assert await all_of(adopted) == entries[2:]
    await adopted.close()


async def test_a_full_spool_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "one.spool", 64 * 1024)
    kept = an_entry(bytes(40_000))
    await spool.append(kept)
    assert spool.has_room(1000)
    assert not spool.has_room(40_000)
    with pytest.raises(SpoolUnavailable, match="full"):
        await spool.append(an_entry(bytes(40_000)))
    small = an_entry(bytes(100))
    await spool.append(small)
    assert await all_of(spool) == [kept, small]
    await spool.drained(2)
    await spool.append(an_entry(bytes(40_000)))
    await spool.close()


async def test_a_spool_is_preallocated_and_private(spool: Spool) -> None:
    about = spool.path.stat()
    assert about.st_size == MIB
    assert about.st_blocks * 512 >= MIB
    assert about.st_mode & 0o077 == 0


async def test_a_spool_in_use_is_refused_and_is_no_orphan(spool: Spool) -> None:
    with pytest.raises(SpoolInUse):
        Spool(spool.path, MIB)
    assert adopt_orphans(spool.path.parent) == ([], [])


def test_an_unwritable_directory_is_a_named_fault(tmp_path: Path) -> None:
    with pytest.raises(SpoolUnavailable):
        Spool(tmp_path / "missing" / "one.spool", MIB)


async def test_a_closed_spool_refuses(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "one.spool", MIB)
    await spool.close(delete=True)
    await spool.close()
    assert not spool.path.exists()
    with pytest.raises(SpoolUnavailable):
        await spool.append(an_entry())


async def test_closing_with_delete_keeps_a_file_that_still_holds_something(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "one.spool", MIB)
    await spool.append(an_entry())
    await spool.close(delete=True)
    assert count(tmp_path) == 1


async def test_what_ended_processes_leave_takes_no_more_room_than_it_holds(tmp_path: Path) -> None:
    ended, killed, idle = (Spool(tmp_path / f"{number}.spool", MIB) for number in range(3))
    entries = [an_entry(os.urandom(1000)) for _ in range(2)]
    for spool, entry in zip((ended, killed), entries, strict=True):
        await spool.append(entry)
    await ended.close(delete=True)
    kill_9(killed)
    kill_9(idle)
    own = open_spool(tmp_path, MIB)
    assert own is not None
    left = {path: path.stat().st_blocks * 512 for path in tmp_path.glob("*.spool") if path != own.path}
    assert sorted(left) == [ended.path, killed.path] and max(left.values()) < 16_384
    adopted, refused = adopt_orphans(tmp_path)
    assert not refused and [(await all_of(spool))[0] for spool in adopted] == entries
    for spool in (own, *adopted):
        await spool.close()


async def test_a_spool_that_a_sibling_takes_for_an_orphan_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of a file and its lock whoever looks for orphans finds one."""
    lock, adopted = fcntl.flock, list[list[Spool]]()

    def locked(fd: int, how: int) -> None:
        if not adopted:
            adopted.append([])
            adopted[0].extend(adopt_orphans(tmp_path)[0])
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", locked)
    own = open_spool(tmp_path, MIB)
    assert len(adopted[0]) == 1 and own is not None
    await adopted[0][0].close(delete=True)
    assert list(tmp_path.glob("*.spool")) == [own.path]
    await own.close()


async def test_a_file_of_a_later_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "one.spool"
    path.write_bytes(Header(1, 0, DATA_AT, version=99).encode() + bytes(8192))
    before = path.read_bytes()
    adopted, refused = adopt_orphans(tmp_path)
    assert (adopted, len(refused)) == ([], 1)
    assert "version 99" in str(refused[0])
    assert path.read_bytes() == before


# ---------------------------------------------------------------- damage


async def written(path: Path, entries: list[Entry]) -> bytes:
    """The bytes of a file that holds these entries."""
    spool = Spool(path, 32 * 1024)
    for entry in entries:
        await spool.append(entry)
    kill_9(spool)
    return path.read_bytes()


async def test_a_record_torn_at_any_byte_is_passed_over_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "one.spool"
    entries = [an_entry(os.urandom(100)) for _ in range(3)]
    whole = await written(path, entries)
    last = len(encode_record(entries[2], GENERATION))
    end = DATA_AT + sum(len(encode_record(entry, GENERATION)) for entry in entries)
    unpadded = 16 + 48 + 9 + 5 + 100
    for cut in range(last):
        path.write_bytes(whole[: end - last + cut] + bytes(len(whole) - end + last - cut))
        complete = cut >= unpadded or whole[end - last + cut : end].strip(b"\0") == b""
        assert count(tmp_path) == 2 + complete
        spool = Spool(path, 32 * 1024)
        assert await all_of(spool) == entries[: 2 + complete]
        assert spool.damage == 0
        replacement = an_entry(b"after the tear")
        await spool.append(replacement)
        assert (await all_of(spool))[-1] == replacement
        await spool.close()


async def test_a_file_cut_short_keeps_its_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "one.spool"
    entries = [an_entry(os.urandom(100)) for _ in range(3)]
    whole = await written(path, entries)
    size = len(encode_record(entries[0], GENERATION))
    for length in (0, 1, DATA_AT - 1, DATA_AT, DATA_AT + 1, DATA_AT + size, DATA_AT + 2 * size + 20):
        path.write_bytes(whole[:length])
        [spool], refused = adopt_orphans(tmp_path)
        assert refused == []
        assert await all_of(spool) == entries[: max(0, (length - DATA_AT) // size)]
        await spool.close()


@pytest.mark.parametrize("at", [0, 5, 9, 13, 20, 60, 90])
async def test_damage_in_the_middle_costs_one_record_and_is_reported(tmp_path: Path, at: int) -> None:
    path = tmp_path / "one.spool"
    entries = [an_entry(os.urandom(100)) for _ in range(4)]
    whole = bytearray(await written(path, entries))
    whole[DATA_AT + len(encode_record(entries[0], GENERATION)) + at] ^= 0xFF
    path.write_bytes(whole)
    spool = Spool(path, 32 * 1024)
    assert await all_of(spool) == [entries[0], *entries[2:]]
    assert spool.damage == 1
    await spool.close()


async def test_damage_after_opening_does_not_hold_up_what_lies_behind_it(spool: Spool) -> None:
    entries = [an_entry(os.urandom(100)) for _ in range(3)]
    for entry in entries:
        await spool.append(entry)
    os.pwrite(spool._fd, b"????", DATA_AT + 50)
    assert await all_of(spool) == entries[1:]
    assert (spool.damage, spool.pending) == (1, 2)


async def test_thousands_of_damaged_records_in_a_row_do_not_hold_up_what_lies_behind_them(spool: Spool) -> None:
    """A part of the disk that cannot be read again."""
    entries = [an_entry(b"x" * 100) for _ in range(2_001)]
    await asyncio.gather(*(spool.append(entry) for entry in entries))
    behind = DATA_AT + 2_000 * len(encode_record(entries[0], GENERATION))
    os.pwrite(spool._fd, bytes(behind - DATA_AT), DATA_AT)
    assert await all_of(spool) == entries[2_000:]
    assert (spool.damage, spool.pending) == (2_000, 1)


@pytest.mark.parametrize("drained", [0, 2])
async def test_a_lost_header_loses_no_record(tmp_path: Path, drained: int) -> None:
    path = tmp_path / "one.spool"
    spool = Spool(path, 32 * 1024)
    await spool.append(an_entry(b"of an earlier generation" * 100))
    await spool.drained(1)
    entries = [an_entry(os.urandom(100)) for _ in range(4)]
    for entry in entries:
        await spool.append(entry)
    await spool.drained(drained)
    kill_9(spool)
    with path.open("r+b") as file:
        file.write(b"\xff" * DATA_AT)
    again = Spool(path, 32 * 1024)
    assert await all_of(again) == entries  # drained ones come again: storage is idempotent
    assert again.damage == 1
    await again.close()


async def test_one_torn_header_slot_falls_back_to_the_other(tmp_path: Path) -> None:
    path = tmp_path / "one.spool"
    entries = [an_entry() for _ in range(3)]
    for slot in (0, 2048):
        path.unlink(missing_ok=True)
        await written(path, entries)
        with path.open("r+b") as file:
            file.seek(slot)
            file.write(b"\xff" * 30)
        spool = Spool(path, 32 * 1024)
        assert await all_of(spool) == entries
        await spool.close()


entry_values = st.builds(
    Entry,
    exchange_id=st.uuids(),
    tenant_id=st.uuids(),
    subject_id=st.uuids(),
    kind=st.sampled_from(["exchange", "import"]),
    lane_class=st.sampled_from(["live", "bulk"]),
    envelope=st.binary(max_size=300),
)


@given(st.lists(entry_values, max_size=8), st.data())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_single_damaged_byte_costs_at_most_one_record(entries: list[Entry], data: st.DataObject) -> None:
    records = [encode_record(entry, 7) for entry in entries]
    image = bytearray(b"".join(records) + bytes(64))
    at = data.draw(st.integers(0, len(image) - 1))
    image[at] ^= data.draw(st.integers(1, 255))
    found = [decode_record(bytes(image[span.start : span.end]), 7) for span in spans(bytes(image), 0, 7, thorough=True)]
    assert [entry for entry in entries if entry in found] == [entry for entry in found if entry is not None]
    assert len(found) >= len(entries) - 1


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_no_record(noise: bytes) -> None:
    assert record_end(noise, 0, 1) is None
    assert list(spans(noise, 0, 1, thorough=True)) == []


@given(entry_values, st.integers(0, 2**32 - 1))
def test_a_record_of_another_generation_is_none(entry: Entry, generation: int) -> None:
    record = encode_record(entry, generation)
    assert decode_record(record, generation) == entry
    assert decode_record(record, generation ^ 1) is None


# ---------------------------------------------------------------- processes

_WRITER = """
import asyncio, sys
from pathlib import Path
from uuid import UUID
from memory.adapters.spool import Spool
from memory.ids import new_id
from memory.ports import Entry

async def one(spool):
    while True:
        entry = Entry(new_id(), UUID(int=1), UUID(int=2), "exchange", "live", b"e" * 3000)
        await spool.append(entry)
        sys.stdout.write(f"{entry.exchange_id}\\n")
        sys.stdout.flush()

async def main():
    spool = Spool(Path(sys.argv[1]), 64 << 20)
    await asyncio.gather(*(one(spool) for _ in range(8)))

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_sibling_adopts_all_that_a_killed_process_had_acknowledged(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path / "child.spool")], stdout=subprocess.PIPE)
    assert child.stdout is not None
    acknowledged = [child.stdout.readline() for _ in range(200)]
    assert adopt_orphans(tmp_path) == ([], [])
    child.send_signal(signal.SIGKILL)
    acknowledged += child.stdout.read().splitlines(keepends=True)
    child.wait()
    child.stdout.close()
    known = {UUID(line.decode().strip()) for line in acknowledged if line.endswith(b"\n")}
    [orphan], refused = adopt_orphans(tmp_path)
    assert refused == []
    found = [entry.exchange_id for entry in await all_of(orphan)]
    assert known <= set(found)
    assert len(found) == len(set(found)) == count(tmp_path)
    await orphan.drained(len(found))
    await orphan.close(delete=True)
    assert list(tmp_path.iterdir()) == []


_LIMITED = """
import asyncio, resource, sys
from pathlib import Path
from uuid import UUID
from memory.adapters.spool import Spool
from memory.errors import SpoolUnavailable
from memory.ids import new_id
from memory.ports import Entry

async def main():
    path = Path(sys.argv[1])
    spool = Spool(path, 1 << 20)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    kept = 0
    for _ in range(40):
        try:
            await spool.append(Entry(new_id(), UUID(int=1), UUID(int=2), "exchange", "live", b"e" * 10_000))
            kept += 1
        except SpoolUnavailable:
            pass
    print(kept, spool.pending, len(await spool.peek(count=100, bytes_max=1 << 30)))
    try:
        Spool(path.with_name("two.spool"), 1 << 20)
    except SpoolUnavailable:
        print("refused")

asyncio.run(main())
"""


def test_a_disk_that_takes_no_more_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path / "one.spool")], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == ["9 9 9", "refused"]
    assert run.stderr == ""
    assert count(tmp_path) == 9
