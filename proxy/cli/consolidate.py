"""`consolidate`: the nightly work on what is stored, now: options in, its report on stdout, progress on stderr out.

Exit codes: 0 done; 1 it cannot be; 75 another process is at it, or a store does not answer: what was done is kept, and
the next run goes on there.
"""

from __future__ import annotations

import argparse
import sys

from proxy.cli.beside import run_beside


def run_consolidate(options: argparse.Namespace) -> int:
    """Consolidate now, rehearse it, or show the last run."""
    if options.dry_run and not options.now:
        sys.stderr.write("memory-proxy: --dry-run goes with --now\n")
        return 1
    mode = ("dry-run" if options.dry_run else "now") if options.now else "last"
    return run_beside(options, ("consolidate", "--mode", mode, *(("--json",) if options.json else ())))
