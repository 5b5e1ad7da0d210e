"""The spool: one preallocated file of one process that takes envelopes while the queue does not.

In: entries. Out: the same entries, oldest first, until they are said to be drained. An append has returned when its
record is on disk (fdatasync); concurrent appends share one. All file work runs in one thread of the spool's own,
never on the event loop. The file is locked (flock) while its process lives, so a free lock means an orphan.

Refuses, with SpoolUnavailable, what does not fit or cannot be written. A record torn by a crash was never
acknowledged and is passed over; damage elsewhere is counted in `damage` and costs only the records it hit.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import logging
import mmap
import os
import sys
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

from memory.adapters.group_commit import GroupCommit
from memory.adapters.spool_format import (
    DATA_AT,
    VERSION,
    Header,
    Span,
    decode_header,
    decode_record,
    encode_record,
    newest_generation,
    spans,
)
from memory.envelope import key_id_of
from memory.errors import MemoryProxyFault, SpoolUnavailable
from memory.on_disk import synced
from memory.ports import Entry
from memory.seldom import Seldom

log: Final = logging.getLogger(__name__)
SUFFIX: Final = ".spool"
_FLUSH_ITEMS_MAX: Final = 256
_OPEN_TRIES: Final = 10
_KEEP_SIZE: Final = 1  # linux/falloc.h
_PUNCH_HOLE: Final = 2
T = TypeVar("T")


class SpoolInUse(SpoolUnavailable):
    """Another process holds the file, or has just removed it."""


class Spool:
    """One locked spool file. Counts are of records; `appended` and `removed` only grow, from what was there at open."""

    def __init__(self, path: Path, bytes_max: int | None, *, create: bool = True) -> None:
        """Open or create `path`, `bytes_max` bytes long (None: as long as it is). Blocking.

        Raises SpoolInUse while another process has it, SpoolUnavailable where it cannot be used.
        """
        self.path = path
        self.damage = 0
        self.removed = 0
        self._broken: str | None = None
        self._unsure = False  # whether the header in the file is this one
        self._spans: deque[Span] = deque()
        self._fd = _open_locked(path, create=create)
        try:
            self._load(bytes_max)
        except (OSError, SpoolUnavailable) as exc:
            os.close(self._fd)
            raise SpoolUnavailable(f"{path}: {exc}") from exc
        self.appended = len(self._spans)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spool")
        self._appends: GroupCommit[Entry] = GroupCommit(self._flush, items_max=_FLUSH_ITEMS_MAX)

    @property
    def pending(self) -> int:
        """Records not yet drained."""
        return len(self._spans)

    @property
    def idle(self) -> bool:
        """Whether no append is on its way."""
        return self._appends.idle

    def has_room(self, envelope_bytes: int) -> bool:
        """Whether an entry of this size would be taken now, as far as is known."""
        return self._broken is None and self._end + envelope_bytes + 256 <= self._bytes_max

    async def append(self, entry: Entry) -> None:
        """Return when the entry is on disk. Raises SpoolUnavailable."""
        if self._fd < 0:
            raise SpoolUnavailable(f"{self.path} is closed")
        await self._appends.add(entry)

    async def peek(self, *, count: int, bytes_max: int) -> list[Entry]:
        """The oldest entries: at most `count` and `bytes_max` together, but at least one. Raises SpoolUnavailable."""
        return await self._in_thread(lambda: self._read(count, bytes_max))

    async def drained(self, count: int) -> None:
        """Forget the `count` oldest records, which are safe elsewhere now; an empty file starts anew."""
        await self._in_thread(lambda: self._remove(count))

    async def close(self, *, delete: bool = False) -> None:
        """Finish appends, give up the lock; with `delete` remove the file, or where anything is left in it give the
        blocks behind that back to the disk.
        """
        await self._appends.settled()
        if self._fd < 0:
            return
        await self._in_thread(lambda: self._close(delete))
        self._thread.shutdown()

    def let_go(self) -> None:
        """`close` with `delete`, of one that was opened and used for nothing. Blocking."""
        self._close(delete=True)
        self._thread.shutdown()

    # ------------------------------------------------------------ in the spool's thread

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except OSError as exc:
            raise SpoolUnavailable(f"{self.path}: {exc}") from exc

    async def _flush(self, entries: Sequence[Entry]) -> Sequence[MemoryProxyFault | None]:
        return await self._in_thread(lambda: self._write(entries))

    def _load(self, bytes_max: int | None) -> None:
        """Read what is there, preallocate, and leave a valid header."""
        size = os.fstat(self._fd).st_size
        self._bytes_max = bytes_max if bytes_max is not None else size
        header = decode_header(os.pread(self._fd, DATA_AT, 0)) if size else Header(1, 0, DATA_AT)
        if header is not None and header.version != VERSION:
            raise SpoolUnavailable(f"{self.path} has version {header.version}, this release reads {VERSION}")
        if size > DATA_AT:
            header = self._scan(header)
        self._header = header or Header(1, 0, DATA_AT)
        self._end = self._spans[-1].end if self._spans else self._header.drained_at
        if size < self._bytes_max:
            os.posix_fallocate(self._fd, 0, self._bytes_max)
        self._put_header(self._header.generation, self._header.drained_at)
        os.fsync(self._fd)
        synced(self.path.parent)

    def _scan(self, header: Header | None) -> Header:
        """Find the records; a lost header is rebuilt from them."""
        with mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ) as data:
            if header is None:
                self.damage += any(data[:DATA_AT])
                header = Header((newest_generation(data) or 0) or 1, 0, DATA_AT)
            self._spans.extend(spans(data, header.drained_at, header.generation, thorough=True))
        self.damage += sum(span.gap > 0 for span in self._spans)
        return header

    def _write(self, entries: Sequence[Entry]) -> list[MemoryProxyFault | None]:
        """Write and sync a batch; one result for each entry. A failed sync ends the use of the file.

        (After it the kernel may call the lost pages clean, and the next sync would lie.)
        """
        if self._broken is not None:
            raise SpoolUnavailable(f"{self.path}: {self._broken}")
        if self._unsure:  # an adopter looks for records of the generation that the file names
            self._put_header(self._header.generation, self._header.drained_at)
        at, results, written = self._end, list[MemoryProxyFault | None](), list[Span]()
        for entry in entries:
            record = encode_record(entry, self._header.generation)
            try:
                self._write_at(record, at)
            except OSError as exc:
                results.append(SpoolUnavailable(f"{self.path}: {exc}"))
                continue
            written.append(Span(at, at + len(record)))
            at += len(record)
            results.append(None)
        try:
            os.fdatasync(self._fd)
        except OSError as exc:
            self._broken = str(exc)
            raise
        self._end = at
        self._spans.extend(written)
        self.appended += len(written)
        return results

    def _write_at(self, data: bytes, at: int) -> None:
        if at + len(data) > self._bytes_max:
            raise OSError(errno.ENOSPC, f"full: {self._bytes_max - at} of {self._bytes_max} bytes left")
        view = memoryview(data)
        while view:
            count = os.pwrite(self._fd, view, at)
            view, at = view[count:], at + count

    def _read(self, count: int, bytes_max: int) -> list[Entry]:
        while not (found := self._readable(count, bytes_max)) and self._spans:
            self.damage += 1  # since it was written: the records behind it must still get out
            self._remove(1)
        return found

    def _readable(self, count: int, bytes_max: int) -> list[Entry]:
        """The oldest records, up to the first that is damaged."""
        found: list[Entry] = []
        size = 0
        for span in islice(self._spans, count):
            size += span.end - span.start
            if found and size > bytes_max:
                break
            entry = decode_record(os.pread(self._fd, span.end - span.start, span.start), self._header.generation)
            if entry is None:
                break
            found.append(entry)
        return found

    def _remove(self, count: int) -> None:
        drained_at = self._header.drained_at
        for _ in range(min(count, len(self._spans))):
            drained_at = self._spans.popleft().end
            self.removed += 1
        if self._spans:
            self._put_header(self._header.generation, drained_at)
        else:
            # Not synced: should the header be lost, records are drained twice, and the next append's sync carries it.
            self._end = DATA_AT
            self._put_header(self._header.generation + 1, DATA_AT)

    def _put_header(self, generation: int, drained_at: int) -> None:
        """One that met a fault may be in the file or not: it is written again, in its own slot, before a record is."""
        self._header = Header(generation, self._header.sequence + (not self._unsure), drained_at)
        self._unsure = True
        raw = self._header.encode()
        if os.pwrite(self._fd, raw, self._header.slot_at()) < len(raw):
            raise OSError(errno.EIO, "the header was cut short")
        self._unsure = False

    def _close(self, delete: bool) -> None:
        try:
            if delete and not self._spans:
                self.path.unlink(missing_ok=True)
            elif delete and not self.damage and self._broken is None:
                _free(self._fd, self._end, self._bytes_max)
        finally:
            os.close(self._fd)
            self._fd = -1


class OrphanFinder:
    """`adopt_orphans` off the event loop; what cannot be read is logged and left where it lies."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._said = Seldom()

    async def __call__(self) -> list[Spool]:
        """Lock and return the spools of dead processes."""
        adopted, refused = await asyncio.to_thread(adopt_orphans, self._directory)
        for fault in refused:
            if self._said.due(str(fault)):
                log.error("an orphaned spool cannot be read: %s", fault)
        return adopted


def adopt_orphans(directory: Path) -> tuple[list[Spool], list[SpoolUnavailable]]:
    """Lock every spool of a directory whose process is dead; with it the faults of those that cannot be read. Blocking.

    The caller drains each and closes it with `delete`.
    """
    adopted: list[Spool] = []
    refused: list[SpoolUnavailable] = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            adopted.append(Spool(path, None, create=False))
        except SpoolInUse:
            continue
        except SpoolUnavailable as exc:
            refused.append(exc)
    return adopted, refused


def tidy(directory: Path) -> None:
    """Give back what the spools of dead processes do not need of the disk; an empty one goes. Blocking."""
    for spool in adopt_orphans(directory)[0]:
        if spool.damage:  # a header that was lost is there again: nobody else will see that
            log.error("%s: %d damaged places; the records around them are kept", spool.path, spool.damage)
        with suppress(OSError):  # whoever drains it meets that again
            spool.let_go()


def count(directory: Path, keys: Collection[UUID] | None = None) -> int:
    """Undrained records of all spools in a directory, whoever owns them; takes no lock. Blocking. `keys`: of those
    that are sealed under one of them.
    """
    return sum(_count_file(path, keys) for path in sorted(directory.glob(f"*{SUFFIX}")))


def _count_file(path: Path, keys: Collection[UUID] | None) -> int:
    """Count one file; counted again when its owner emptied it meanwhile."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        if os.fstat(fd).st_size <= DATA_AT:
            return 0
        with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
            while True:
                header = decode_header(data[:DATA_AT])
                if header is None:
                    return 0  # being created, or lost: then the adopter finds what is in it
                waiting = spans(data, header.drained_at, header.generation, thorough=False)
                found = sum(keys is None or _key_of(data[one.start : one.end], header) in keys for one in waiting)
                if decode_header(data[:DATA_AT]) == header:
                    return found
    finally:
        os.close(fd)


def _key_of(record: bytes, header: Header) -> UUID | None:
    """The key that a record is sealed under; None: its bytes have changed since they were looked at."""
    entry = decode_record(record, header.generation)
    return None if entry is None else key_id_of(entry.envelope)


def _free(fd: int, start: int, end: int) -> None:
    """Give the blocks of a part of a file back to the disk, where its system can; its length stays, for who counts what
    is in it has it mapped. What is there reads as zeros.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(end - start))


def _open_locked(path: Path, *, create: bool) -> int:
    """A locked descriptor of the file that `path` names now. Raises SpoolInUse, SpoolUnavailable."""
    for _ in range(_OPEN_TRIES):
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
        except OSError as exc:
            kind = SpoolInUse if isinstance(exc, FileNotFoundError) and not create else SpoolUnavailable
            raise kind(f"{path}: {exc}") from exc
        if _locks(fd, path):
            return fd
        os.close(fd)
    raise SpoolInUse(f"{path} is in use by another process")


def _locks(fd: int, path: Path) -> bool:
    """Lock `fd`; False when another has it, or when an adopter has removed the file meanwhile."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(fd).st_ino == path.stat().st_ino
    except (BlockingIOError, FileNotFoundError):
        return False
