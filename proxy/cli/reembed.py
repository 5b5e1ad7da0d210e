"""`reembed`: another embedding model beside the served one, filled, switched to and back: options in, the standing out.

Becomes the process `python -m memory reembed`, with the settings of the service that runs on the data directory. Exit
codes: 0 done; 1 it cannot be; 2 the model or the store refuses; 75 come again: what was done is kept.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from memory.config import ENV_PREFIX, effective_data_dir
from memory.errors import ConfigInvalid
from proxy.cli.check_machine import lock_holder
from proxy.cli.serve import settings_of

TEACHES = """\
  memory-proxy reembed --to MODEL [--directory DIR]   fill it beside the served one; Ctrl-C pauses, again goes on
  memory-proxy reembed --status                       how far it is; --pause stops whoever fills
  memory-proxy reembed --switch                       serve it: one step, nobody restarts anything
  memory-proxy reembed --back                         serve the former one again, caught up first
  memory-proxy reembed --drop                         the one that is not served goes, with its vectors
"""
MODES = ("status", "pause", "switch", "back", "drop")


def run_reembed(options: argparse.Namespace) -> int:
    """Fill, show, pause, switch, switch back or drop."""
    try:
        settings = settings_of(options)
    except ConfigInvalid as fault:
        sys.stderr.write(f"memory-proxy: the configuration cannot be used:\n{fault}\n")
        return 1
    root = effective_data_dir(settings, is_root=os.geteuid() == 0, home=Path.home())
    if lock_holder(root) is None:
        sys.stderr.write(f"memory-proxy: no service runs on {root}; start it, or say --data-dir\n")
        return 1
    mode = next((mode for mode in MODES if getattr(options, mode)), "fill" if options.to else "status")
    if options.directory and mode != "fill":
        sys.stderr.write("memory-proxy: --directory goes with --to\n")
        return 1
    words = ["reembed", "--mode", mode, "--rest", str(options.rest), *(("--json",) if options.json else ())]
    if mode == "fill":
        words += ["--to", options.to, *(("--directory", str(options.directory)) if options.directory else ())]
    told = {f"{ENV_PREFIX}SETTINGS": str(root / "run" / "settings.json")}
    return _become(words, told)


def _become(words: Sequence[str], told: Mapping[str, str]) -> NoReturn:
    """Run `python -m memory` in this process's place, so that Ctrl-C reaches it alone.

    -P: a directory called `memory` here must not take the place of ours.
    """
    sys.stdout.flush()
    os.execve(sys.executable, (sys.executable, "-P", "-m", "memory", *words), {**os.environ, **told})  # noqa: S606
