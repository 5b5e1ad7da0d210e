"""Blobs in a bucket, on a real server of the S3 protocol (moto): what the directory promises holds there too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

from memory.adapters.blob_format import HEAD_BYTES
from memory.adapters.s3_blobs import Bucket, S3Blobs
from memory.artifacts import CHUNK_BYTES, GRACE, Owner
from memory.envelope import DataKey
from memory.errors import EnvelopeUnreadable, NotFound, StoreUnavailable, TooLarge

NAMES_KEY = bytes(32)
OWNER = Owner(uuid4(), uuid4(), 7)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    running = ThreadedMotoServer("127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def blobs(server: str, tmp_path: Path) -> S3Blobs:
    bucket = f"b{uuid4().hex}"
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=server, **keys).create_bucket(Bucket=bucket)
    return S3Blobs(Bucket(server, bucket, "files", "us-east-1", "a", "b"), tmp_path)


def key() -> DataKey:
    return DataKey(uuid4(), os.urandom(32))


async def kept(blobs: S3Blobs, under: DataKey, raw: bytes, owner: Owner = OWNER) -> str:
    async with blobs.writing(owner, under, NAMES_KEY, 1 << 24) as writing:
        await writing.write(raw)
        return (await writing.keep()).name


async def read(blobs: S3Blobs, under: DataKey, name: str, *span: int) -> bytes:
    return b"".join([piece async for piece in blobs.read(OWNER, under, name, *span)])


async def test_bytes_come_back_whole_and_by_ranges_and_lie_sealed(blobs: S3Blobs, tmp_path: Path) -> None:
    under, raw = key(), os.urandom(2 * CHUNK_BYTES + 5)
    name = await kept(blobs, under, raw)
    assert await blobs.has(OWNER, name) and await blobs.key_of(OWNER, name) == under.key_id
    assert await read(blobs, under, name) == raw
    assert await read(blobs, under, name, CHUNK_BYTES - 3, CHUNK_BYTES + 3) == raw[CHUNK_BYTES - 3 : CHUNK_BYTES + 3]
    assert raw[:64] not in blobs._get(blobs._path(OWNER, name), 0, 4096)
    assert list((tmp_path / ".parts").iterdir()) == []
    with pytest.raises(EnvelopeUnreadable):
        await read(blobs, key(), name)


async def test_equal_bytes_are_one_object_and_are_written_anew_under_another_key(blobs: S3Blobs) -> None:
    first, second = key(), key()
    name = await kept(blobs, first, b"the same")
    assert await kept(blobs, first, b"the same") == name
    assert await kept(blobs, second, b"the same") == name
    assert await blobs.key_of(OWNER, name) == second.key_id
    assert len(await blobs.owners()) == 1


@pytest.mark.parametrize("left", [HEAD_BYTES, HEAD_BYTES + 9])
async def test_an_object_that_was_cut_off_is_mended_when_its_bytes_come_again(blobs: S3Blobs, left: int) -> None:
    under = key()
    name = await kept(blobs, under, b"the same")
    path = blobs._path(OWNER, name)
    said = blobs._s3.head_object(Bucket=blobs._bucket, Key=path)["Metadata"]
    blobs._s3.put_object(Bucket=blobs._bucket, Key=path, Body=blobs._get(path, 0, left), Metadata=said)
    with pytest.raises(EnvelopeUnreadable):
        await read(blobs, under, name)
    await kept(blobs, under, b"the same")
    assert await read(blobs, under, name) == b"the same"


async def test_what_nothing_names_is_marked_and_goes_after_the_grace(blobs: S3Blobs) -> None:
    under, now = key(), datetime.now(UTC)
    named, unnamed = await kept(blobs, under, b"named"), await kept(blobs, under, b"unnamed")
    assert (await blobs.collect(OWNER, {named}, now)).marked == (unnamed,)
    assert (await blobs.collect(OWNER, {named}, now)).removed == ()
    later = now + GRACE + timedelta(seconds=5)
    assert (await blobs.collect(OWNER, {named, unnamed}, later)).removed == ()
    assert (await blobs.collect(OWNER, {named}, now)).marked == (unnamed,), "the mark went with the reference"
    assert (await blobs.collect(OWNER, {named}, later)).removed == (unnamed,)
    assert await blobs.has(OWNER, named) and not await blobs.has(OWNER, unnamed)
    assert (await blobs.collect(OWNER, (), now, at_once=True)).removed == (named,)
    assert await blobs.owners() == []


async def test_what_somebody_else_put_beside_the_files_is_left_alone(blobs: S3Blobs) -> None:
    """A bucket's console makes an object of each folder; who forgets a user must not stop at one."""
    name, home = await kept(blobs, key(), b"words"), blobs._home(OWNER)
    others = ("files/", "files/notes.txt", "files/not/an/owner", f"{home}", f"{home}notes.txt", f"{home}marks/")
    for path in others:
        blobs._s3.put_object(Bucket=blobs._bucket, Key=path, Body=b"")
    assert await blobs.owners() == [OWNER]
    done = await blobs.collect(OWNER, (), datetime.now(UTC), at_once=True)
    assert done.removed == (name,) and done.marked == ()
    assert set(blobs._listed("files/")) == set(others)


async def test_who_forgets_in_a_tenant_lists_the_files_of_no_other(blobs: S3Blobs) -> None:
    under, foreign = key(), Owner(uuid4(), uuid4(), 7)
    for owner in (OWNER, foreign):
        await kept(blobs, under, b"words", owner)
    asked: list[str] = []
    blobs._s3.meta.events.register(
        "provide-client-params.s3.ListObjectsV2", lambda params, **_: asked.append(params["Prefix"])
    )
    assert await blobs.owners(OWNER.tenant_id) == [OWNER]
    assert asked == [f"files/{OWNER.tenant_id.hex}/"]
    assert set(await blobs.owners()) == {OWNER, foreign}


async def test_a_subject_goes_with_all_its_scopes_and_no_other(blobs: S3Blobs) -> None:
    under = key()
    other = Owner(OWNER.tenant_id, uuid4(), 7)
    await kept(blobs, under, b"one")
    await kept(blobs, under, b"one", Owner(OWNER.tenant_id, OWNER.subject_id, 8))
    await kept(blobs, under, b"one", other)
    assert await blobs.shred(OWNER.tenant_id, OWNER.subject_id) == 2
    assert await blobs.owners() == [other]


async def test_what_cannot_be_is_said_and_leaves_nothing(blobs: S3Blobs, server: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await read(blobs, key(), "0" * 64)
    with pytest.raises(NotFound):
        await read(blobs, key(), "../other")
    with pytest.raises(TooLarge):
        async with blobs.writing(OWNER, key(), NAMES_KEY, 3) as writing:
            await writing.write(b"four")
    for where in (
        Bucket(server, "no-such-bucket", "x", "us-east-1", "a", "b"),
        Bucket("http://127.0.0.1:9", "b", "x", "us-east-1", "a", "b"),
    ):
        away = S3Blobs(where, tmp_path)
        with pytest.raises(StoreUnavailable, match="bucket"):
            await kept(away, key(), b"nowhere")
        with pytest.raises(StoreUnavailable, match="bucket"):
            await away.owners()
    assert list((tmp_path / ".parts").iterdir()) == []


async def test_a_server_that_knows_no_checksums_of_its_client_is_sent_none(blobs: S3Blobs) -> None:
    sent: list[tuple[str, set[str]]] = []

    def seen(request: Any, **_: object) -> None:
        sent.append((request.method, {name.lower() for name in request.headers}))

    blobs._s3.meta.events.register("before-send.s3", seen)
    await kept(blobs, key(), b"some bytes")
    await blobs.collect(OWNER, [], datetime.now(UTC))
    await blobs.shred(OWNER.tenant_id, OWNER.subject_id)
    assert [name for method, names in sent if method == "PUT" for name in names if "checksum" in name] == []
    assert [names for method, names in sent if method == "PUT" and "x-amz-trailer" in names] == []
    assert [("content-md5" in names) for method, names in sent if method == "POST"] == [True]
