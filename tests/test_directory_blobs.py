"""Blobs in a directory: whole or not there, sealed, one for equal bytes, and collected only when nobody names them."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest

from memory.adapters import directory_blobs
from memory.adapters.blob_format import write_all
from memory.adapters.directory_blobs import DirectoryBlobs
from memory.artifacts import CHUNK_BYTES, GRACE, Blob, Owner
from memory.envelope import DataKey
from memory.errors import EnvelopeUnreadable, NotFound, StoreUnavailable, TooLarge

OWNER = Owner(UUID(int=1), UUID(int=2), 7)
OTHER = Owner(UUID(int=1), UUID(int=3), 7)
ELSEWHERE = Owner(UUID(int=1), UUID(int=2), 8)
KEY = DataKey(UUID(int=9), b"k" * 32)
NAMES = b"n" * 32
BIG = 64 * CHUNK_BYTES
WORDS = b"the turbine stopped at 04:12 "


async def kept(
    blobs: DirectoryBlobs, data: bytes, owner: Owner = OWNER, key: DataKey = KEY, step: int = 70_000
) -> Blob:
    async with blobs.writing(owner, key, NAMES, BIG) as upload:
        for at in range(0, len(data), step):
            await upload.write(data[at : at + step])
        return await upload.keep()


async def read(blobs: DirectoryBlobs, name: str, start: int = 0, end: int | None = None, owner: Owner = OWNER) -> bytes:
    return b"".join([piece async for piece in blobs.read(owner, KEY, name, start, end)])


def files(root: Path) -> list[Path]:
    """All that hold bytes: neither locks nor marks."""
    return [path for path in root.rglob("*") if path.is_file() and path.name != ".lock" and ".marks" not in path.parts]


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 2_500_000])
async def test_bytes_come_back_and_any_range_of_them(tmp_path: Path, size: int) -> None:
    blobs, data = DirectoryBlobs(tmp_path), random.Random(size).randbytes(size)
    blob = await kept(blobs, data)
    assert (blob.bytes, blob.fresh) == (size, True)
    assert await read(blobs, blob.name) == data
    for start, end in ((0, 1), (size // 2, size), (CHUNK_BYTES - 3, CHUNK_BYTES + 3), (size, size + 9), (5, 5)):
        assert await read(blobs, blob.name, start, end) == data[start:end]


async def test_equal_bytes_of_one_owner_are_one_file_and_of_two_are_two_names(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    first, again = await kept(blobs, WORDS), await kept(blobs, WORDS, step=3)
    assert (again.name, again.fresh) == (first.name, False)
    assert len(files(tmp_path)) == 1
    names = {(await kept(blobs, WORDS, owner)).name for owner in (OWNER, OTHER, ELSEWHERE)}
    assert len(names) == 3


async def test_nothing_of_the_bytes_is_open_on_disk_and_only_the_owner_may_look(tmp_path: Path) -> None:
    root = tmp_path / "artifacts"
    await kept(DirectoryBlobs(root), WORDS * 100_000)
    assert files(root)
    assert not any(WORDS[:12] in path.read_bytes() for path in files(root))
    for path in [root, *root.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("harm", ["flip", "cut", "append", "swap", "rename", "key"])
async def test_a_file_that_was_touched_does_not_open(tmp_path: Path, harm: str) -> None:
    blobs, data = DirectoryBlobs(tmp_path), random.Random(7).randbytes(3 * CHUNK_BYTES)
    name = (await kept(blobs, data)).name
    path = files(tmp_path)[0]
    sealed, unit, key = path.read_bytes(), CHUNK_BYTES + 45, KEY
    head, first, second, third = (
        sealed[:69],
        sealed[69 : 69 + unit],
        sealed[69 + unit :][:unit],
        sealed[69 + 2 * unit :],
    )
    if harm == "flip":
        path.write_bytes(sealed[:-1] + bytes([sealed[-1] ^ 1]))
    elif harm == "cut":
        path.write_bytes(head + first + second)
    elif harm == "append":
        path.write_bytes(head + first + second + second)
    elif harm == "swap":
        path.write_bytes(head + second + first + third)
    elif harm == "rename":
        name = name[:-1] + ("0" if name[-1] != "0" else "1")
        path.rename(path.with_name(name))
    else:
        key = DataKey(KEY.key_id, b"x" * 32)
    with pytest.raises(EnvelopeUnreadable):
        assert [piece async for piece in blobs.read(OWNER, key, name)]


async def test_an_upload_that_breaks_off_or_is_too_large_leaves_nothing(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    with pytest.raises(ConnectionError):
        async with blobs.writing(OWNER, KEY, NAMES, BIG) as upload:
            await upload.write(b"x" * 3 * CHUNK_BYTES)
            assert len(files(tmp_path)) == 1
            raise ConnectionError
    with pytest.raises(TooLarge, match=r"over 10 bytes \(artifacts.bytes_max\)"):
        async with blobs.writing(OWNER, KEY, NAMES, 10) as upload:
            await upload.write(b"x" * 11)
    assert files(tmp_path) == []


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """What a full disk does, at a place of our choosing: writing fails in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_who_leaves_while_a_chunk_is_written_has_it_written_into_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(fd: int, data: bytes) -> None:
        begun.set()
        goes_on.wait(5)
        try:
            write_all(fd, data)
        finally:
            ended.set()

    monkeypatch.setattr("memory.adapters.blob_format.write_all", slow)
    uploading = asyncio.create_task(kept(DirectoryBlobs(tmp_path / "artifacts"), WORDS * 100_000))
    await asyncio.to_thread(begun.wait, 5)
    uploading.cancel()
    await asyncio.sleep(0.05)
    other = tmp_path / "other"
    with other.open("wb"):  # has the number of the upload's file where that is closed by now
        goes_on.set()
        await asyncio.wait((uploading,))
        await asyncio.to_thread(ended.wait, 5)
    assert uploading.cancelled()
    assert other.read_bytes() == b""
    assert files(tmp_path / "artifacts") == []


class Waiting(DirectoryBlobs):
    """Blobs whose parts are not made at once."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked, self.goes_on = threading.Event(), threading.Event()

    def part(self) -> Path:
        self.asked.set()
        self.goes_on.wait(5)
        return super().part()


async def test_who_leaves_while_an_upload_begins_leaves_no_file_open(tmp_path: Path) -> None:
    blobs = Waiting(tmp_path / "artifacts")
    uploading = asyncio.create_task(kept(blobs, WORDS))
    await asyncio.to_thread(blobs.asked.wait, 5)
    uploading.cancel()
    await asyncio.sleep(0.05)
    blobs.goes_on.set()
    await asyncio.wait((uploading,))
    await asyncio.get_running_loop().shutdown_default_executor()
    assert uploading.cancelled()
    assert [one for one in Path("/proc/self/fd").iterdir() if ".parts" in os.path.realpath(one)] == []
    assert files(tmp_path / "artifacts") == []


async def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    with no_file_over(CHUNK_BYTES + 100_000), pytest.raises(StoreUnavailable, match="is full"):
        await kept(blobs, b"y" * 4 * CHUNK_BYTES)
    assert files(tmp_path) == []
    assert await read(blobs, (await kept(blobs, b"y")).name) == b"y"


class Disk:
    """Puts names on disk, but for the one call that meets a fault."""

    def __init__(self, fails_at: int) -> None:
        self.left = fails_at
        self.named = set[Path]()

    def __call__(self, directory: Path) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.EIO, "Input/output error")
        self.named.add(directory)


async def test_what_was_broken_off_before_its_name_was_on_disk_is_on_it_when_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each directory in turn: a power cut would take the file, and a row would name bytes that are not there."""
    for at in count(1):
        disk, root = Disk(at), tmp_path / str(at)
        monkeypatch.setattr(directory_blobs, "synced", disk)
        with suppress(StoreUnavailable):
            await kept(DirectoryBlobs(root), WORDS)
        if disk.left > 0:
            break
        await kept(DirectoryBlobs(root), WORDS)
        (path,) = files(root)
        assert {one for one in path.parents if one.is_relative_to(root)} <= disk.named
    assert at > 6


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "0" * 63 + "/", "F" * 64, "0" * 64])
async def test_a_name_that_is_none_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound):
        await DirectoryBlobs(tmp_path).key_of(OWNER, name)


async def test_a_disk_that_hangs_holds_up_nothing_but_files(tmp_path: Path) -> None:
    """Files that do not open took all threads of the loop: metrics waited, and chats over 1 MiB."""
    blobs, pipe = (
        DirectoryBlobs(tmp_path),
        tmp_path / OWNER.tenant_id.hex / OWNER.subject_id.hex / "7" / "ab" / "ab".ljust(64, "0"),
    )
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)  # nobody writes to it, so it does not open
    waiting = [asyncio.create_task(blobs.key_of(OWNER, pipe.name)) for _ in range(40)]
    try:
        async with asyncio.timeout(5):
            await asyncio.sleep(0.05)
            assert await asyncio.to_thread(lambda: "read") == "read"
    finally:
        for one in waiting:
            one.cancel()
        held = os.open(pipe, os.O_RDWR)  # who waits gets its file, and nothing out of it
        pipe.unlink()
        os.close(held)


async def test_what_nobody_names_goes_after_the_grace_and_not_before(tmp_path: Path) -> None:
    blobs, now = DirectoryBlobs(tmp_path), datetime(2026, 1, 1, tzinfo=UTC)
    named, unnamed = (await kept(blobs, b"named")).name, (await kept(blobs, b"unnamed")).name
    assert (await blobs.collect(OWNER, {named}, now)).marked == (unnamed,), "a dry run marks nothing"
    early = await blobs.collect(OWNER, {named}, now + GRACE - timedelta(seconds=1))
    assert (early.marked, early.removed) == ((), ())
    assert (await blobs.collect(OWNER, {named}, now + GRACE)).removed == (unnamed,)
    assert await read(blobs, named) == b"named"
    with pytest.raises(NotFound):
        await read(blobs, unnamed)


async def test_a_marked_blob_that_is_named_again_starts_anew(tmp_path: Path) -> None:
    blobs, now = DirectoryBlobs(tmp_path), datetime(2026, 1, 1, tzinfo=UTC)
    name = (await kept(blobs, b"undeleted")).name
    await blobs.collect(OWNER, (), now)
    await blobs.collect(OWNER, {name}, now + GRACE)
    late = await blobs.collect(OWNER, (), now + 2 * GRACE)
    assert (late.marked, late.removed) == ((name,), ())


async def test_bytes_uploaded_again_lose_their_mark_before_they_are_named(tmp_path: Path) -> None:
    blobs, now = DirectoryBlobs(tmp_path), datetime(2026, 1, 1, tzinfo=UTC)
    name = (await kept(blobs, b"again")).name
    await blobs.collect(OWNER, (), now)
    assert not (await kept(blobs, b"again")).fresh
    assert (await blobs.collect(OWNER, (), now + GRACE)).removed == (), "read before the upload was committed"
    assert await read(blobs, name) == b"again"


async def test_a_named_blob_is_never_removed_whatever_races(tmp_path: Path) -> None:
    """Uploads of the same few bytes against collections, each with what it read before; a transaction that was open
    at one mark is over at the next pass, which is what GRACE promises, and nothing else is.
    """
    blobs, named, chance = DirectoryBlobs(tmp_path), Counter[str](), random.Random(35)
    in_flight, uploaders, removals = set[int](), 4, 0

    async def upload(who: int) -> None:
        nonlocal uploaders
        for turn in range(30):
            in_flight.add(ticket := who * 1_000 + turn)
            name = (await kept(blobs, b"%d" % chance.randrange(3))).name
            await asyncio.sleep(0.002 * chance.random())  # kept, and not committed yet
            named[name] += 1
            in_flight.discard(ticket)
            await asyncio.sleep(0.001)
            assert await read(blobs, name)
            named[name] -= 1
            await asyncio.sleep(0.003 * chance.random())
        uploaders -= 1

    async def collect() -> None:
        nonlocal removals
        clock = datetime(2026, 1, 1, tzinfo=UTC)
        while uploaders:
            before = set(in_flight)
            while before & in_flight:
                await asyncio.sleep(0)
            clock += GRACE
            references = {name for name, count in named.items() if count}
            await asyncio.sleep(0.001 * chance.random())
            removals += len((await blobs.collect(OWNER, references, clock)).removed)

    await asyncio.gather(collect(), *(upload(who) for who in range(uploaders)))
    assert removals > 0, "the race was none"


async def test_what_a_killed_upload_left_is_swept_and_a_living_one_is_not(tmp_path: Path) -> None:
    script = f"""
import asyncio, time
from pathlib import Path
from tests.test_directory_blobs import *
async def main():
    async with DirectoryBlobs(Path({str(tmp_path)!r})).writing(OWNER, KEY, NAMES, BIG) as upload:
        await upload.write(b"x" * 3 * CHUNK_BYTES)
        print("written", flush=True)
        time.sleep(60)
asyncio.run(main())
"""
    blobs, later = DirectoryBlobs(tmp_path), datetime.now(UTC) + timedelta(minutes=5)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert await asyncio.to_thread(child.stdout.readline) == b"written\n"
        assert await blobs.sweep_leftovers(later) == 0, "it is being written"
        os.kill(child.pid, signal.SIGKILL)
    assert len(files(tmp_path)) == 1
    assert await blobs.sweep_leftovers(later) == 1
    assert files(tmp_path) == []


async def test_a_shredded_owner_has_no_file_left_and_others_have_theirs(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    mine, theirs = await kept(blobs, WORDS), await kept(blobs, WORDS, OTHER)
    assert (await kept(blobs, WORDS, ELSEWHERE)).fresh
    assert await blobs.shred(OWNER.tenant_id, OWNER.subject_id) == 2
    assert [path.name for path in files(tmp_path)] == [theirs.name]
    assert mine.name != theirs.name
    assert await blobs.shred(UUID(int=1), UUID(int=77)) == 0


async def test_what_somebody_else_put_beside_the_files_is_left_alone(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    await kept(blobs, WORDS)
    for path in ("backup/daily/1", f"{OWNER.tenant_id.hex}/copy/2"):
        (tmp_path / path).mkdir(parents=True)
    assert await blobs.owners() == await blobs.owners(OWNER.tenant_id) == [OWNER]
    assert await blobs.owners(UUID(int=99)) == []


@pytest.mark.parametrize("where", [".parts", "subject", "home", "among the files"])
@pytest.mark.parametrize("name", ["@eaDir", ".DS_Store"])  # of a network drive, of a desktop
async def test_what_somebody_else_put_among_the_files_stops_neither_forgetting_nor_collection(
    tmp_path: Path, where: str, name: str
) -> None:
    blobs = DirectoryBlobs(tmp_path)
    mine, now = await kept(blobs, WORDS), datetime.now(UTC)
    (file,) = files(tmp_path)
    among = {".parts": tmp_path / ".parts", "subject": file.parents[2], "home": file.parents[1]}.get(where, file.parent)
    theirs = among / name
    theirs.mkdir() if name == "@eaDir" else theirs.touch()
    os.utime(theirs, (1, 1))
    assert await blobs.sweep_leftovers(now) == 0
    assert (await blobs.collect(OWNER, {mine.name}, now)).marked == ()
    assert (await blobs.collect(OWNER, {mine.name}, now + 2 * GRACE)).removed == ()
    assert (await blobs.collect(OWNER, (), now, at_once=True)).removed == (mine.name,)
    await kept(blobs, WORDS)
    assert await blobs.shred(OWNER.tenant_id, OWNER.subject_id) == 1
    assert theirs.exists() and not (theirs / ".lock").exists()


async def test_a_file_that_cannot_be_read_is_a_named_fault(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    mine = await kept(blobs, WORDS)
    (file,) = files(tmp_path)
    file.unlink()
    for path in (file, tmp_path / ".parts" / ("0" * 32)):
        path.symlink_to(path)  # as whoever runs this, root too, no disk opens it
    with pytest.raises(StoreUnavailable):
        await blobs.key_of(OWNER, mine.name)
    with pytest.raises(StoreUnavailable):
        await read(blobs, mine.name)
    with pytest.raises(StoreUnavailable):
        await blobs.sweep_leftovers(datetime.now(UTC))


async def test_bytes_under_a_former_key_are_sealed_anew_when_they_come_again(tmp_path: Path) -> None:
    blobs, former = DirectoryBlobs(tmp_path), DataKey(UUID(int=8), b"f" * 32)
    name = (await kept(blobs, WORDS, key=former)).name
    assert await blobs.key_of(OWNER, name) == former.key_id
    assert not (await kept(blobs, WORDS)).fresh
    assert await blobs.key_of(OWNER, name) == KEY.key_id
    assert await read(blobs, name) == WORDS


async def test_a_file_that_was_cut_off_is_mended_when_its_bytes_come_again(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    name = (await kept(blobs, WORDS)).name
    (lies,) = files(tmp_path)
    os.truncate(lies, lies.stat().st_size - 3)
    with pytest.raises(EnvelopeUnreadable):
        await read(blobs, name)
    assert not (await kept(blobs, WORDS)).fresh
    assert await read(blobs, name) == WORDS
