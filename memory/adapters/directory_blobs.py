"""Blobs in a directory: sealed files, named by the fingerprint of what they hold.

    <root>/<tenant>/<subject>/<scope>/<first two of name>/<name>  0600, in directories of 0700
    <root>/<tenant>/<subject>/<scope>/.lock                       held while a name comes or goes
    <root>/<tenant>/<subject>/<scope>/.marks/<name>               unreferenced since its time of change
    <root>/.parts/<uuid>                                          an upload under way, locked by its process

Each file is sealed (`blob_format`) and appears under its name by rename after fsync, so a name is whole or not there.
File work runs in threads of its own, never on the loop or in its threads: a disk may hang.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final
from uuid import UUID, uuid4

from memory.adapters.blob_format import HEAD_BYTES, Apart, BlobWriting, owner_at, told, unsealed, uploading
from memory.artifacts import GRACE, Collected, Owner
from memory.envelope import DataKey, key_id_of
from memory.errors import EnvelopeUnreadable, NotFound
from memory.on_disk import synced

_NAME: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PART: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PARTS: Final = ".parts"
_MARKS: Final = ".marks"
# Between the making of a part and its lock lie microseconds; a part this young is not taken for a leftover.
_LEFTOVER_AGE: Final = timedelta(seconds=60)


class DirectoryBlobs:
    """Blobs under one directory, for any number of processes of one machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.apart = Apart()

    @asynccontextmanager
    async def writing(self, owner: Owner, key: DataKey, names_key: bytes, bytes_max: int) -> AsyncIterator[BlobWriting]:
        """As in the seam."""
        async with uploading(self, owner, key, names_key, bytes_max) as upload:
            yield upload

    async def has(self, owner: Owner, name: str) -> bool:
        """As in the seam."""
        return await self.apart(self._has, owner, name)

    async def owners(self, tenant_id: UUID | None = None) -> list[Owner]:
        """As in the seam."""
        return await self.apart(self._owners, tenant_id.hex if tenant_id else "*")

    async def key_of(self, owner: Owner, name: str) -> UUID:
        """As in the seam."""
        return key_id_of(await self.apart(self._head, owner, name))

    async def read(
        self, owner: Owner, key: DataKey, name: str, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """As in the seam. The file stays open between chunks, so a removal meanwhile does not cut it off."""
        with told():
            file = await self.apart(self._opened, owner, name)

        async def fetch(at: int, count: int) -> bytes:
            return await self.apart(os.pread, file.fileno(), count, at)

        with file:
            async for piece in unsealed(owner, key, name, fetch, start, end):
                yield piece

    async def collect(
        self, owner: Owner, referenced: Collection[str], now: datetime, *, at_once: bool = False
    ) -> Collected:
        """As in the seam."""
        return await self.apart(self._collect, owner, frozenset(referenced), now, at_once)

    async def shred(self, tenant_id: UUID, subject_id: UUID) -> int:
        """As in the seam."""
        return await self.apart(self._shred, self._root / tenant_id.hex / subject_id.hex)

    async def sweep_leftovers(self, now: datetime) -> int:
        """As in the seam."""
        return await self.apart(self._sweep_leftovers, now)

    # ------------------------------------------------------------ blocking, in a thread

    def part(self) -> Path:
        """A new name for an upload under way."""
        with told():
            return _made(self._root, _PARTS) / uuid4().hex

    def place(self, owner: Owner, name: str, part: Path, key_id: UUID) -> bool:
        """Bring a written part under its name and take off its mark; False where it is there already.

        One that is there under another key, or damaged, is replaced: that key may be about to be shredded.
        """
        home = _made(self._root, *self._home(owner).relative_to(self._root).parts)
        with _locked(home):
            (home / _MARKS / name).unlink(missing_ok=True)
            target = _made(home, name[:2]) / name
            was_there = target.exists()
            if was_there and _sealed_under(target, key_id) and target.stat().st_size == part.stat().st_size:
                part.unlink()
            else:
                part.rename(target)
            synced(target.parent)  # also where it is there: who brought it may have been broken off before this
        return not was_there

    def _home(self, owner: Owner) -> Path:
        return self._root / owner.tenant_id.hex / owner.subject_id.hex / str(owner.scope_id)

    def _owners(self, tenant: str) -> list[Owner]:
        homes = (path.relative_to(self._root).as_posix() for path in sorted(self._root.glob(f"{tenant}/*/*")))
        return [owner for home in homes if (owner := owner_at(home)) is not None]

    def _opened(self, owner: Owner, name: str) -> BinaryIO:
        if _NAME.fullmatch(name) is None:
            raise NotFound("no such blob")  # a name is never a path
        try:
            return (self._home(owner) / name[:2] / name).open("rb")
        except FileNotFoundError as exc:
            raise NotFound("no such blob") from exc

    def _has(self, owner: Owner, name: str) -> bool:
        with told():
            return (self._home(owner) / name[:2] / name).is_file()

    def _head(self, owner: Owner, name: str) -> bytes:
        with told(), self._opened(owner, name) as file:
            return file.read(HEAD_BYTES)

    def _collect(self, owner: Owner, referenced: frozenset[str], now: datetime, at_once: bool) -> Collected:
        home = self._home(owner)
        if not home.is_dir():
            return Collected()
        marked, removed, freed = [], [], 0
        with told(), _locked(home):
            marks = _made(home, _MARKS)
            for path in _blobs_in(home):
                mark = marks / path.name
                since = _changed(mark)
                if path.name in referenced:
                    mark.unlink(missing_ok=True)
                elif at_once or (since is not None and now.timestamp() - since >= GRACE.total_seconds()):
                    removed.append(path.name)
                    freed += path.stat().st_size
                    path.unlink()
                    mark.unlink(missing_ok=True)
                elif since is None:
                    marked.append(path.name)
                    mark.touch(0o600)
                    os.utime(mark, (now.timestamp(), now.timestamp()))
        return Collected(tuple(marked), tuple(removed), freed)

    def _shred(self, subject: Path) -> int:
        count = 0
        for home in subject.glob("*"):
            if owner_at(home.relative_to(self._root).as_posix()) is None:
                continue
            with told(), _locked(home):
                for path in _blobs_in(home):
                    path.unlink()
                    count += 1
                shutil.rmtree(home / _MARKS, ignore_errors=True)
        return count

    def _sweep_leftovers(self, now: datetime) -> int:
        with told():
            found = [path for path in (self._root / _PARTS).glob("*") if _is_leftover(path, now)]
            for path in found:
                path.unlink(missing_ok=True)
        return len(found)


def _is_leftover(path: Path, now: datetime) -> bool:
    changed = _changed(path)
    if changed is None or _PART.fullmatch(path.name) is None:
        return False
    return now.timestamp() - changed >= _LEFTOVER_AGE.total_seconds() and not _in_use(path)


def _blobs_in(home: Path) -> list[Path]:
    """The blobs of an owner, in order. A network drive or a desktop may put something of its own among them."""
    return [path for path in sorted(home.glob("[0-9a-f][0-9a-f]/*")) if _NAME.fullmatch(path.name)]


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    fd = os.open(home / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _made(root: Path, *names: str) -> Path:
    """A directory below `root`, which may be new too, for its owner alone; durable as a name, also one that is there:
    who made it may have been broken off before it was.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        parent, root = root, root / name
        root.mkdir(mode=0o700, exist_ok=True)
        synced(parent)
    return root


def _changed(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def _sealed_under(path: Path, key_id: UUID) -> bool:
    with path.open("rb") as file:
        try:
            return key_id_of(file.read(HEAD_BYTES)) == key_id
        except EnvelopeUnreadable:
            return False


def _in_use(path: Path) -> bool:
    """Whether a living process has the part locked."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
