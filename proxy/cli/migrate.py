"""`migrate`: the schema of a service's database: options in, what was done or what differs out.

Exit codes: 0 done, or nothing differs; 1 it differs, or it cannot be; 2 the database refuses, and how to mend that; 75
it does not answer.
"""

from __future__ import annotations

import argparse

from proxy.cli.beside import run_beside

TEACHES = """\
  memory-proxy migrate           bring the schema up to date; `serve` does so at each start
  memory-proxy migrate --check   say what of it differs from this version's: "- x" is missing, "+ x" is not ours
"""


def run_migrate(options: argparse.Namespace) -> int:
    """Migrate, or compare."""
    return run_beside(options, ("migrate", *(("--mode", "check") if options.check else ())))
