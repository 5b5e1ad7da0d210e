"""`encryption`: what lies sealed and under which keys, rotation, another master key: options in, the standing out.

Exit codes: 0 done; 1 no service runs on this data directory; 2 a key cannot be used; 75 come again, what
was done is kept.
"""

from __future__ import annotations

import argparse
from typing import Final

from proxy.cli.beside import run_beside
from proxy.cli.heeded import refuse_unheeded

TEACHES = """\
  memory-proxy encryption status     keys by wrapping, rows by key, rows that should be sealed and are not
  memory-proxy encryption rotate     a new data key for each user, and every sealed row under it
  memory-proxy encryption rewrap     tenant keys under the master key in force (encryption.previous_master_key_file)
Each runs beside live traffic; killed, it is run again and goes on.
"""
OLDER_DAYS: Final = 1.0


def run_encryption(options: argparse.Namespace) -> int:
    """Show, rotate or rewrap. Raises CallFailed."""
    if options.what != "rotate":
        refuse_unheeded(options, "encryption rotate", "older_days")
    older_days = OLDER_DAYS if options.older_days is None else options.older_days
    words = ["encryption", "--mode", options.what, "--older-days", str(older_days)]
    return run_beside(options, [*words, *(("--json",) if options.json else ())])
