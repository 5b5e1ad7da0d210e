"""Where the bytes of artifacts lie: resolved settings in, a directory or a bucket out. Raises ConfigInvalid."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from memory.adapters.directory_blobs import DirectoryBlobs
from memory.artifacts import Blobs
from memory.config import Settings
from memory.errors import ConfigInvalid


def blobs_of(settings: Settings) -> Blobs:
    """Nothing is made or asked for before a file comes; boto3 is loaded only for a bucket."""
    if settings.data.dir is None:
        raise ConfigInvalid("unresolved settings: this process is started by `memory-proxy serve`")
    directory = settings.artifacts.dir or settings.data.dir / "artifacts"
    if settings.artifacts.s3_bucket is None:
        return DirectoryBlobs(directory)
    s3: Any = import_module("memory.adapters.s3_blobs")
    made: Blobs = s3.S3Blobs(_bucket(settings), directory)
    return made


def look_at_bucket(settings: Settings) -> None:
    """Whether the bucket answers those that the settings name. Blocking, 10 s at most. Raises StoreUnavailable."""
    s3: Any = import_module("memory.adapters.s3_blobs")
    s3.look_at(_bucket(settings))


def _bucket(settings: Settings) -> Any:
    s3: Any = import_module("memory.adapters.s3_blobs")
    given = settings.artifacts
    return s3.Bucket(
        url=given.s3_url,
        bucket=given.s3_bucket,
        prefix=given.s3_prefix,
        region=given.s3_region,
        access_key=given.s3_access_key.get_secret_value() if given.s3_access_key else None,
        secret_key=given.s3_secret_key.get_secret_value() if given.s3_secret_key else None,
    )
