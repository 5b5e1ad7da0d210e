"""Where the bytes of artifacts lie: resolved settings in, the directory out. Raises ConfigInvalid."""

from __future__ import annotations

from memory.adapters.directory_blobs import DirectoryBlobs
from memory.config import Settings
from memory.errors import ConfigInvalid


def blobs_of(settings: Settings) -> DirectoryBlobs:
    """The directory of one machine; nothing is made before a file comes."""
    if settings.data.dir is None:
        raise ConfigInvalid("unresolved settings: this process is started by `memory-proxy serve`")
    return DirectoryBlobs(settings.artifacts.dir or settings.data.dir / "artifacts")
