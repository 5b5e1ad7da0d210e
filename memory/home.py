"""Where the account of this process is at home, which is what defaults lie below. Refuses nothing."""

from __future__ import annotations

from pathlib import Path


def home_dir() -> Path:
    """The home of the account; of one that has none, and no HOME, the root of all, where it may write nothing."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")
