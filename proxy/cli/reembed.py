"""`reembed`: another embedding model beside the served one, filled, switched to and back: options in, the standing out.

Exit codes: 0 done; 1 it cannot be; 2 the model or the store refuses; 75 come again: what was done is kept.
"""

from __future__ import annotations

import argparse
from typing import Final

from proxy.cli.beside import run_beside
from proxy.cli.heeded import refuse_unheeded

TEACHES = """\
  memory-proxy reembed --to MODEL [--directory DIR]   fill it beside the served one; Ctrl-C pauses, again goes on
  memory-proxy reembed --status                       how far it is; --pause stops whoever fills
  memory-proxy reembed --switch                       serve it: one step, nobody restarts anything
  memory-proxy reembed --back                         serve the former one again, caught up first
  memory-proxy reembed --drop                         the one that is not served goes, with its vectors
"""
REST: Final = 1.0
MODES = ("status", "pause", "switch", "back", "drop")


def run_reembed(options: argparse.Namespace) -> int:
    """Fill, show, pause, switch, switch back or drop. Raises CallFailed."""
    mode = next((mode for mode in MODES if getattr(options, mode)), "status" if options.to is None else "fill")
    if mode != "fill":
        refuse_unheeded(options, "--to", "directory", "rest")
    rest = REST if options.rest is None else options.rest
    words = ["reembed", "--mode", mode, "--rest", str(rest), *(("--json",) if options.json else ())]
    if mode == "fill":
        words += [f"--to={options.to}", *((f"--directory={options.directory}",) if options.directory else ())]
    return run_beside(options, words)
