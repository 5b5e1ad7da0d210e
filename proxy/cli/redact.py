"""`redact`: what is stored, cleaned by the rules of now: options in, counts by rule on stdout, progress on stderr out.

Exit codes: 0 done; 1 it cannot be; 2 no such token; 75 stopped, or a store does not answer: what was done is kept, and
the same command goes on there.
"""

from __future__ import annotations

import argparse
import sys

from proxy.cli.beside import run_beside
from proxy.cli.heeded import refuse_unheeded

TEACHES = """\
  memory-proxy redact --scan              count by rule what today's rules and policy would cut; changes nothing
  memory-proxy redact --scan --apply      cut it: texts, all versions, vectors, labels; Ctrl-C and again goes on
  memory-proxy redact --reveal TOKEN      show what stands behind [kept:email:...]
"""


def run_redact(options: argparse.Namespace) -> int:
    """Rehearse a sweep, do it, or show what stands behind a token. Raises CallFailed."""
    if options.reveal is not None:
        refuse_unheeded(options, "redact --scan, and --reveal without it", "scan", "apply", "all", "json")
        return run_beside(options, ("redact", "--mode", "reveal", f"--token={options.reveal}"))
    if not options.scan:
        sys.stderr.write("memory-proxy: say --scan, or --reveal TOKEN\n")
        return 1
    more = [word for word, given in (("--again", options.all), ("--json", options.json)) if given]
    return run_beside(options, ("redact", "--mode", "apply" if options.apply else "scan", *more))
