"""How a blob is sealed, wherever it lies: bytes in as they come, a file of envelopes out, and back by ranges.

    a file = head envelope(nonce of the file, size) | chunk envelope 0 | chunk envelope 1 | …

Every envelope is sealed under the subject's key. The head is bound to owner and name, each chunk to the file's nonce,
its place and whether it is the last: a file renamed, cut off or with chunks exchanged does not open. A file is written
as a part of this machine first, since its name is the fingerprint of all of it.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from memory.artifacts import CHUNK_BYTES, Blob, Owner, naming
from memory.envelope import DataKey, seal, unseal
from memory.errors import StoreUnavailable, TooLarge

ENVELOPE_BYTES: Final = 1 + 16 + 12 + 16
NONCE_BYTES: Final = 16
HEAD_BYTES: Final = ENVELOPE_BYTES + NONCE_BYTES + 8
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
THREADS: Final = 8
"""Of one place of blobs, whose disk or bucket may hang for minutes: the loop's own have other work, `metrics` too."""
Fetch = Callable[[int, int], Awaitable[bytes]]
"""Bytes of a blob as it lies: from where, how many."""
T = TypeVar("T")
_OWNER: Final = re.compile(r"([0-9a-f]{32})/([0-9a-f]{32})/([0-9]{1,18})", re.ASCII)


def owner_at(place: str) -> Owner | None:
    """Whose blobs lie at `<tenant>/<subject>/<scope>`; None for what is no place of ours."""
    found = _OWNER.fullmatch(place)
    return Owner(UUID(hex=found[1]), UUID(hex=found[2]), int(found[3])) if found else None


class Apart:
    """Runs what blocks, on threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blobs")

    async def __call__(self, work: Callable[..., T], *of: Any) -> T:
        """What `work` gives of these."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *of)


class Places(Protocol):
    """Where parts are written and files come under their name. Blocking, `apart`; raises StoreUnavailable."""

    apart: Apart

    def part(self) -> Path:
        """A new name for an upload under way, on this machine."""

    def place(self, owner: Owner, name: str, part: Path, key_id: UUID) -> bool:
        """Bring a written part under its name; False where it is there already. The part is gone."""


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of a blob is bound to."""

    owner: Owner
    name: str
    purpose: str = "blob"

    def associated_data(self) -> bytes:
        """A word that neither a UUID nor another binding begins with, the owner, the name."""
        return b"blob head\0" + self.owner.bound() + self.name.encode()


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a chunk is bound to."""

    nonce: bytes
    index: int
    last: bool
    purpose: str = "part of a blob"

    def associated_data(self) -> bytes:
        """Fixed widths."""
        return b"blob part\0" + self.nonce + self.index.to_bytes(8, "big") + bytes([self.last])


class BlobWriting:
    """An upload into a part file, sealed as it comes. Blocking but for `write` and `keep`.

    What these have begun goes on where their caller leaves, and the file is closed behind it: its number may be another
    file's as soon as it is closed.
    """

    def __init__(self, places: Places, owner: Owner, key: DataKey, names_key: bytes, bytes_max: int) -> None:
        self._places, self._owner, self._key, self._bytes_max = places, owner, key, bytes_max
        self._names = naming(owner, names_key)
        self._nonce = os.urandom(NONCE_BYTES)
        self._held = bytearray()
        self._index = 0
        self._bytes = 0
        self._kept = False
        self._at_work = threading.Lock()
        self.path = places.part()
        with told():
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.lseek(self._fd, HEAD_BYTES, os.SEEK_SET)

    async def write(self, part: bytes) -> None:
        """As in the seam. Holds at most two chunks."""
        self._bytes += len(part)
        if self._bytes > self._bytes_max:
            raise TooLarge(f"the file is over {self._bytes_max} bytes (artifacts.bytes_max)", param="file")
        self._names.update(part)
        self._held += part
        while len(self._held) > CHUNK_BYTES:  # one is held back: only the end says which is the last
            chunk = bytes(self._held[:CHUNK_BYTES])
            del self._held[:CHUNK_BYTES]
            await self._places.apart(self._alone, partial(self._put, chunk, last=False))

    async def keep(self) -> Blob:
        """As in the seam."""
        return await self._places.apart(self._alone, self._keep)

    def close(self) -> None:
        """Let go of the file; what was not kept is gone."""
        self._alone(self._close)

    def _alone(self, work: Callable[[], T]) -> T:
        with self._at_work:
            return work()

    def _close(self) -> None:
        if not self._kept:
            with suppress(FileNotFoundError):
                self.path.unlink()
        os.close(self._fd)
        self._fd = -1  # what begins only now is refused by the system

    def _put(self, chunk: bytes, *, last: bool) -> None:
        with told():
            write_all(self._fd, seal(self._key, Chunk(self._nonce, self._index, last), chunk))
        self._index += 1

    def _keep(self) -> Blob:
        name = self._names.hexdigest()
        self._put(bytes(self._held), last=True)
        head = self._nonce + self._bytes.to_bytes(8, "big")
        with told():
            os.lseek(self._fd, 0, os.SEEK_SET)
            write_all(self._fd, seal(self._key, Head(self._owner, name), head))
            os.fsync(self._fd)
            fresh = self._places.place(self._owner, name, self.path, self._key.key_id)
        self._kept = True
        return Blob(name, self._bytes, fresh)


@asynccontextmanager
async def uploading(
    places: Places, owner: Owner, key: DataKey, names_key: bytes, bytes_max: int
) -> AsyncIterator[BlobWriting]:
    """An upload. It is closed at the end, also where its caller leaves while a thread opens it."""
    opening = asyncio.create_task(places.apart(BlobWriting, places, owner, key, names_key, bytes_max))
    try:
        yield await asyncio.shield(opening)
    finally:
        await asyncio.shield(_closed(places, opening))


async def _closed(places: Places, opening: asyncio.Task[BlobWriting]) -> None:
    with suppress(StoreUnavailable):  # it was not opened, and who asked for it has been told
        await places.apart((await opening).close)


async def unsealed(
    owner: Owner, key: DataKey, name: str, fetch: Fetch, start: int, end: int | None
) -> AsyncIterator[bytes]:
    """Bytes `start` to `end` of a blob. Raises EnvelopeUnreadable, and what `fetch` raises."""
    head = unseal(key, Head(owner, name), await fetch(0, HEAD_BYTES))
    nonce, size = head[:NONCE_BYTES], int.from_bytes(head[NONCE_BYTES:], "big")
    stop = size if end is None else min(end, size)
    last = max(0, -(-size // CHUNK_BYTES) - 1)
    for index in range(start // CHUNK_BYTES, last + 1):
        at = index * CHUNK_BYTES
        if at >= stop and index > 0:
            return
        sealed = await fetch(HEAD_BYTES + index * (CHUNK_BYTES + ENVELOPE_BYTES), CHUNK_BYTES + ENVELOPE_BYTES)
        clear = unseal(key, Chunk(nonce, index, index == last), sealed)
        if piece := clear[max(0, start - at) : max(0, stop - at)]:
            yield piece


@contextmanager
def told() -> Iterator[None]:
    """The system's errors in our words."""
    try:
        yield
    except OSError as exc:
        if exc.errno in _FULL:
            raise StoreUnavailable("the disk that holds artifacts is full: nothing of the file was kept") from exc
        raise StoreUnavailable(f"the directory of artifacts cannot be used: {exc.strerror}") from exc


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
