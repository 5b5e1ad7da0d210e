"""What a power cut may not take: a path in, its bytes or names on disk when it returns. Blocking. Raises OSError."""

from __future__ import annotations

import os
from pathlib import Path


def synced(path: Path) -> None:
    """Put a file, or the names in a directory, on disk: a file that was just made is none before its directory is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
