"""Blobs in a bucket of an S3-compatible service: the same sealed files, one object each.

    <prefix>/<tenant>/<subject>/<scope>/<name>          a blob; the id of the key that sealed it in its metadata
    <prefix>/<tenant>/<subject>/<scope>/marks/<name>    empty: unreferenced since it was made

An upload is sealed into a part in a directory of this machine first, since its name is the fingerprint of all of it. An
object appears whole or not at all. Nothing is locked here: whoever commits an upload, collects or forgets holds the
scope's lock in the database (`BlobKeeper`, `ArtifactStore.add`). boto3, in threads. Raises StoreUnavailable, NotFound.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from memory.adapters.blob_format import HEAD_BYTES, Apart, BlobWriting, owner_at, unsealed, uploading
from memory.adapters.directory_blobs import DirectoryBlobs
from memory.artifacts import GRACE, Collected, Owner
from memory.envelope import DataKey, key_id_of
from memory.errors import EnvelopeUnreadable, NotFound, StoreUnavailable

_MARKS: Final = "marks"
_NAME: Final = re.compile("[0-9a-f]{64}")
_KEY: Final = "sealed-under"
_MISSING: Final = frozenset({"404", "NoSuchKey", "NotFound"})
_NO_BYTE: Final = "InvalidRange"
_AT_ONCE: Final = 1_000
"""Objects in one call of the service that deletes."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where the objects lie, and who asks for them; no keys: as boto3 finds them (environment, instance role)."""

    url: str | None
    bucket: str
    prefix: str
    region: str
    access_key: str | None
    secret_key: str | None


class S3Blobs:
    """Blobs under one prefix of one bucket, for any number of machines. `staging`: where parts are written."""

    def __init__(self, where: Bucket, staging: Path) -> None:
        self._bucket, self._prefix = where.bucket, where.prefix.strip("/")
        self._staging = DirectoryBlobs(staging)
        self.apart = Apart()
        self._s3 = _client(where, tries=3, answer_s=30)
        self._s3.meta.events.register("before-sign.s3.DeleteObjects", _with_md5)

    @asynccontextmanager
    async def writing(self, owner: Owner, key: DataKey, names_key: bytes, bytes_max: int) -> AsyncIterator[BlobWriting]:
        """As in the seam."""
        async with uploading(self, owner, key, names_key, bytes_max) as upload:
            yield upload

    async def has(self, owner: Owner, name: str) -> bool:
        """As in the seam."""
        return await self.apart(self._held, self._path(owner, name)) is not None

    async def owners(self, tenant_id: UUID | None = None) -> list[Owner]:
        """As in the seam."""
        return await self.apart(self._owners, f"{tenant_id.hex}/" if tenant_id else "")

    async def key_of(self, owner: Owner, name: str) -> UUID:
        """As in the seam."""
        return key_id_of(await self.apart(self._get, self._path(owner, name), 0, HEAD_BYTES))

    async def read(
        self, owner: Owner, key: DataKey, name: str, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """As in the seam."""

        async def fetch(at: int, count: int) -> bytes:
            return await self.apart(self._get, self._path(owner, name), at, count)

        async for piece in unsealed(owner, key, name, fetch, start, end):
            yield piece

    async def collect(
        self, owner: Owner, referenced: Collection[str], now: datetime, *, at_once: bool = False
    ) -> Collected:
        """As in the seam."""
        return await self.apart(self._collect, owner, frozenset(referenced), now, at_once)

    async def shred(self, tenant_id: UUID, subject_id: UUID) -> int:
        """As in the seam."""
        return await self.apart(self._shred, f"{self._prefix}/{tenant_id.hex}/{subject_id.hex}/")

    async def sweep_leftovers(self, now: datetime) -> int:
        """As in the seam: the parts that uploads of this machine left."""
        return await self._staging.sweep_leftovers(now)

    # ------------------------------------------------------------ blocking, in a thread

    def part(self) -> Path:
        """A new name for an upload under way, on this machine."""
        return self._staging.part()

    def place(self, owner: Owner, name: str, part: Path, key_id: UUID) -> bool:
        """Bring a written part under its name and take off its mark; False where that is there under this key."""
        path = self._path(owner, name)
        held = self._held(path)
        with _told():
            if held != (str(key_id), part.stat().st_size):
                self._s3.upload_file(str(part), self._bucket, path, ExtraArgs={"Metadata": {_KEY: str(key_id)}})
            self._s3.delete_object(Bucket=self._bucket, Key=self._mark(owner, name))
        part.unlink()
        return held is None

    def _path(self, owner: Owner, name: str) -> str:
        if _NAME.fullmatch(name) is None:
            raise NotFound("no such blob")  # a name is never a path
        return f"{self._home(owner)}{name}"

    def _mark(self, owner: Owner, name: str) -> str:
        return f"{self._home(owner)}{_MARKS}/{name}"

    def _home(self, owner: Owner) -> str:
        return f"{self._prefix}/{owner.tenant_id.hex}/{owner.subject_id.hex}/{owner.scope_id}/".lstrip("/")

    def _held(self, path: str) -> tuple[str, int] | None:
        """The id of the key that an object is sealed under, "" where it does not say, and its size; None: it is not
        there.
        """
        try:
            with _told():
                found = self._s3.head_object(Bucket=self._bucket, Key=path)
        except NotFound:
            return None
        return str(found["Metadata"].get(_KEY, "")), int(found["ContentLength"])

    def _get(self, path: str, at: int, count: int) -> bytes:
        with _told():
            found = self._s3.get_object(Bucket=self._bucket, Key=path, Range=f"bytes={at}-{at + count - 1}")
            raw: bytes = found["Body"].read()
        return raw

    def _listed(self, prefix: str) -> dict[str, tuple[float, int]]:
        """When each object below a prefix was made, and its bytes."""
        found: dict[str, tuple[float, int]] = {}
        with _told():
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
                for one in page.get("Contents", ()):
                    found[one["Key"]] = (one["LastModified"].timestamp(), one["Size"])
        return found

    def _owners(self, tenant: str) -> list[Owner]:
        start = f"{self._prefix}/".lstrip("/")
        homes = {"/".join(path.removeprefix(start).split("/")[:3]) for path in self._listed(start + tenant)}
        return [owner for home in sorted(homes) if (owner := owner_at(home)) is not None]

    def _collect(self, owner: Owner, referenced: frozenset[str], now: datetime, at_once: bool) -> Collected:
        home = self._home(owner)
        held = {path: of for path, of in self._listed(home).items() if _NAME.fullmatch(path.rpartition("/")[2])}
        marks = {path.rpartition("/")[2]: made for path, (made, _) in held.items() if f"/{_MARKS}/" in path}
        marked, removed, freed = [], [], 0
        for path, (_, size) in held.items():
            name = path.rpartition("/")[2]
            if f"/{_MARKS}/" in path or name in referenced:
                continue
            if at_once or (name in marks and now.timestamp() - marks[name] >= GRACE.total_seconds()):
                removed.append(name)
                freed += size
            elif name not in marks:
                marked.append(name)
                with _told():
                    self._s3.put_object(Bucket=self._bucket, Key=self._mark(owner, name), Body=b"")
        unmarked = [one for one in marks if one in referenced or one in removed]
        self._delete([*(self._path(owner, one) for one in removed), *(self._mark(owner, one) for one in unmarked)])
        return Collected(tuple(marked), tuple(removed), freed)

    def _shred(self, prefix: str) -> int:
        held = list(self._listed(prefix.lstrip("/")))
        self._delete(held)
        return sum(f"/{_MARKS}/" not in path for path in held)

    def _delete(self, paths: list[str]) -> None:
        for at in range(0, len(paths), _AT_ONCE):
            objects = [{"Key": path} for path in paths[at : at + _AT_ONCE]]
            with _told():
                done = self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
            if done.get("Errors"):
                raise StoreUnavailable(f"{len(done['Errors'])} files could not be removed from the bucket")


def look_at(where: Bucket) -> None:
    """Ask for one name in the bucket, once. Blocking, 10 s at most. Raises StoreUnavailable."""
    client = _client(where, tries=1, answer_s=5)
    try:
        with _told():
            client.list_objects_v2(Bucket=where.bucket, Prefix=where.prefix, MaxKeys=1)
    except NotFound as fault:  # nothing was asked for by its name
        raise StoreUnavailable("there is no such bucket, or no S3-compatible service") from fault


def _client(where: Bucket, *, tries: int, answer_s: float) -> Any:
    # A server that knows S3 of before 2025 refuses what boto3 adds by itself; what is sealed proves itself.
    settings = Config(
        retries={"max_attempts": tries, "mode": "standard"},
        connect_timeout=5,
        read_timeout=answer_s,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.client(
        "s3",
        endpoint_url=where.url,
        region_name=where.region,
        aws_access_key_id=where.access_key,
        aws_secret_access_key=where.secret_key,
        config=settings,
    )


def _with_md5(request: Any, **_: object) -> None:
    """Such a server wants this of a list of objects that are to go."""
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()


@contextmanager
def _told() -> Iterator[None]:
    """The service's errors in our words; they name no object."""
    try:
        yield
    except ClientError as fault:
        code = str(fault.response.get("Error", {}).get("Code", ""))
        if code in _MISSING:
            raise NotFound("no such blob") from fault
        if code == _NO_BYTE:
            raise EnvelopeUnreadable("a blob ends before its end") from fault
        raise StoreUnavailable(f"the bucket of artifacts cannot be used: {code or 'no reason given'}") from fault
    except (BotoCoreError, Boto3Error) as fault:
        raise StoreUnavailable(f"the bucket of artifacts does not answer: {type(fault).__name__}") from fault
