"""Commands that work on the store of a service that runs: options in; `python -m memory …` with its settings out.

Refuses, on stderr and with exit code 1, a configuration that cannot be used and a data directory that nobody serves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from memory.at_terminal import hold_interrupts
from memory.config import ENV_PREFIX, data_dir_of
from memory.errors import ConfigInvalid
from proxy.cli.check_machine import lock_holder
from proxy.cli.serve import settings_of


def run_beside(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Run `python -m memory` with these words in this process's place, so that Ctrl-C reaches it alone; returns only
    where that cannot be.
    """
    if not all(map(_is_text, words)):
        sys.stderr.write("memory-proxy: an option is not UTF-8, and nothing that is stored is called so\n")
        return 1
    try:
        settings = settings_of(options)
    except ConfigInvalid as fault:
        sys.stderr.write(f"memory-proxy: the configuration cannot be used:\n{fault}\n")
        return 1
    root = data_dir_of(settings)
    if lock_holder(root) is None:
        sys.stderr.write(f"memory-proxy: {_why_none(root)}\n")
        return 1
    return _become(root, words)


def _is_text(word: str) -> bool:
    """Whether it is UTF-8: the store knows no other text, and refuses to be asked for it."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _why_none(root: Path) -> str:
    """Why no service is seen there."""
    try:
        (root / "lock").open("rb").close()
    except PermissionError:
        return f"{root} is closed to this account: give the command as the account that runs the service"
    except OSError:
        pass
    return f"no service runs on {root}; start it, or say --data-dir"


def _become(root: Path, words: Sequence[str]) -> NoReturn:
    told = {f"{ENV_PREFIX}SETTINGS": str(root / "run" / "settings.json")}
    if (metrics := root / "run" / "metrics").is_dir():
        told["PROMETHEUS_MULTIPROC_DIR"] = str(metrics)
    sys.stdout.flush()
    sys.stderr.flush()
    hold_interrupts()
    # -P, as the service starts its own: a directory called `memory` here must not take the place of ours.
    os.execve(sys.executable, (sys.executable, "-P", "-m", "memory", *words), {**os.environ, **told})  # noqa: S606
