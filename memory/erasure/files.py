"""Looking for words in files: runs of words and directories in, how many files hold any out.

By grep, which gets the words through a pipe, so they are written nowhere. Blocking. Raises StartFailed where there is
no grep or it cannot read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memory.errors import StartFailed

_TIMEOUT_S: Final = 1_800
_OF_DISK: Final = "lost+found"


@dataclass(frozen=True, slots=True)
class Looked:
    """What was looked through, and the names of the files that hold any of it."""

    files: int
    bytes: int
    found: tuple[str, ...]


def look(root: Path, needles: Sequence[str]) -> Looked:
    """Look through every file below `root`."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files if path.exists())
    if not needles:
        return Looked(len(files), size, ())
    grep = shutil.which("grep")
    if grep is None:
        raise StartFailed("there is no grep on this machine: the files cannot be looked through")
    patterns = "\n".join(needles).encode("utf-8", "replace") + b"\n"
    # Of the file system itself, and root's: no program of ours has ever written there.
    closed = [] if os.access(root / _OF_DISK, os.R_OK | os.X_OK) else [f"--exclude-dir={_OF_DISK}"]
    argv = [grep, "-rlaF", "--devices=skip", *closed, "-f", "-", str(root)]
    done = subprocess.run(
        argv, input=patterns, capture_output=True, check=False, timeout=_TIMEOUT_S, env={"LC_ALL": "C"}
    )
    # 2 with a file that went while it was read: the servers go on.
    if done.returncode == 2 and b"No such file" not in done.stderr:
        raise StartFailed(f"grep cannot read all of {root}: {done.stderr[:200].decode(errors='replace')}")
    found = sorted(
        Path(line.decode(errors="replace")).relative_to(root).as_posix() for line in done.stdout.splitlines()
    )
    return Looked(len(files), size, tuple(found))
