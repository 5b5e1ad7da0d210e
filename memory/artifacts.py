"""Artifacts: where the bytes of files lie, as values and one seam.

A blob is one file's bytes, sealed. Its name is an HMAC of them under the tenant's key, bound to their owner: equal
bytes of one owner are one blob; of two owners nothing says that they are equal. Does no I/O.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from memory.envelope import DataKey
from memory.model import NewMemory

CARD: Final = "artifact"
"""The member of a card's attributes that holds what is said of it; the collection of cards."""
CHUNK_BYTES: Final = 1_048_576
"""Sealed and held in memory at once, while writing and while reading."""
GRACE: Final = timedelta(hours=24)
"""An unreferenced blob stays so long after it was marked. Longer than any transaction: see `Blobs.collect`."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose bytes: a blob is sealed under this subject's key and goes with it.

    The scope belongs to it, so that what is referenced is read under the policies of this one scope: a collection
    that saw fewer scopes than the rows have could take a blob that is named in another.
    """

    tenant_id: UUID
    subject_id: UUID
    scope_id: int

    def bound(self) -> bytes:
        """Fixed widths: no two owners share a form."""
        return self.tenant_id.bytes + self.subject_id.bytes + self.scope_id.to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that are kept. `fresh`: they were not there before. `bytes` is their size in clear."""

    name: str
    bytes: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class About:
    """What is said of a file; `text` is what stands in it, as somebody read it or as its two ends; `metadata` what its
    giver knows of it.
    """

    name: str
    caption: str = ""
    text: str = ""
    metadata: Mapping[str, str | bool | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Content:
    """What the bytes of a file are. `sha256` in hex; width and height of an image, in pixels."""

    media_type: str
    bytes: int
    sha256: str
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class NewArtifact:
    """What is to be stored: the bytes that are kept, and the memory that says what they are."""

    artifact_id: UUID
    owner: Owner
    blob: Blob
    content: Content
    memory: NewMemory


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file as it is now. `hidden`: why no prompt is given its card."""

    artifact_id: UUID
    version: int
    owner: Owner
    blob: str
    content: Content
    about: About
    session_id: UUID | None
    memory_id: UUID
    integrity: str
    sensitivity: str
    hidden: str
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Collected:
    """What one pass over an owner's blobs did, or would do."""

    marked: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    bytes: int = 0


class Writing(Protocol):
    """An upload under way: nothing of it can be read before `keep`, nothing is left of it without."""

    async def write(self, part: bytes) -> None:
        """Add bytes of any number. Raises StoreUnavailable (a full disk), TooLarge."""

    async def keep(self) -> Blob:
        """Return when the bytes are durable under their name. Raises StoreUnavailable."""


class Blobs(Protocol):
    """Where the bytes of artifacts lie."""

    def writing(
        self, owner: Owner, key: DataKey, names_key: bytes, bytes_max: int
    ) -> AbstractAsyncContextManager[Writing]:
        """An upload of at most `bytes_max` bytes. Left without `keep`, whatever was written is gone."""

    async def has(self, owner: Owner, name: str) -> bool:
        """Whether a blob is there."""

    async def owners(self, tenant_id: UUID | None = None) -> list[Owner]:
        """Everybody who has blobs, or everybody of a tenant."""

    async def key_of(self, owner: Owner, name: str) -> UUID:
        """The id of the key that opens a blob. Raises NotFound, EnvelopeUnreadable."""

    def read(
        self, owner: Owner, key: DataKey, name: str, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """Bytes `start` to `end` (exclusive; None: the last). Raises NotFound, EnvelopeUnreadable."""

    async def collect(
        self, owner: Owner, referenced: Collection[str], now: datetime, *, at_once: bool = False
    ) -> Collected:
        """Mark what nobody references; remove what was marked GRACE ago and is not referenced still. `at_once`: remove
        all that is not referenced, for a caller who holds the lock that an upload is committed under.

        `referenced` must have been read from the store just before. Why nothing referenced goes: what was kept
        before its mark was committed within GRACE and is in `referenced`; what is kept after it loses the mark
        under the lock that removing takes; what is kept after the removal brings its own bytes.
        """

    async def shred(self, tenant_id: UUID, subject_id: UUID) -> int:
        """Remove all blobs of a subject that is forgotten, in all its scopes; how many there were."""

    async def sweep_leftovers(self, now: datetime) -> int:
        """Remove what uploads left that were killed; how many there were. Those under way are not touched."""


def naming(owner: Owner, names_key: bytes) -> hmac.HMAC:
    """The running fingerprint of an owner's bytes: update it with them, its hex digest is the blob's name."""
    return hmac.new(names_key, b"blob\0" + owner.bound(), hashlib.sha256)
