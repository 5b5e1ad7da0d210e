"""`consolidate`: the nightly work on what is stored, now: options in, its report on stdout, progress on stderr out.

Becomes the process `python -m memory consolidate`, with the settings of the service that runs on the data
directory; so it is wanted that one does. Exit codes: 0 done; 1 it cannot be; 75 another process is at it, or a store
does not answer: what was done is kept, and the next run goes on there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from memory.config import ENV_PREFIX, effective_data_dir
from memory.errors import ConfigInvalid
from proxy.cli.check_machine import lock_holder
from proxy.cli.serve import settings_of


def run_consolidate(options: argparse.Namespace) -> int:
    """Consolidate now, rehearse it, or show the last run."""
    try:
        settings = settings_of(options)
    except ConfigInvalid as fault:
        sys.stderr.write(f"memory-proxy: the configuration cannot be used:\n{fault}\n")
        return 1
    root = effective_data_dir(settings, is_root=os.geteuid() == 0, home=Path.home())
    if lock_holder(root) is None:
        sys.stderr.write(f"memory-proxy: no service runs on {root}; start it, or say --data-dir\n")
        return 1
    if options.dry_run and not options.now:
        sys.stderr.write("memory-proxy: --dry-run goes with --now\n")
        return 1
    mode = ("dry-run" if options.dry_run else "now") if options.now else "last"
    words = ("consolidate", "--mode", mode, *(("--json",) if options.json else ()))
    told = {f"{ENV_PREFIX}SETTINGS": str(root / "run" / "settings.json")}
    if (metrics := root / "run" / "metrics").is_dir():
        told["PROMETHEUS_MULTIPROC_DIR"] = str(metrics)
    return _become(words, told)


def _become(words: tuple[str, ...], told: Mapping[str, str]) -> NoReturn:
    """Run `python -m memory` in this process's place, so that Ctrl-C reaches it alone and it gives back the lead.

    -P, as the service starts its own: a directory called `memory` here must not take the place of ours.
    """
    sys.stdout.flush()
    os.execve(sys.executable, (sys.executable, "-P", "-m", "memory", *words), {**os.environ, **told})  # noqa: S606
