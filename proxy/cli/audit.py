"""`memory-proxy audit`: parsed options in; `python -m memory audit` beside the running service out."""

from __future__ import annotations

import argparse
from typing import Final

from proxy.cli.beside import run_beside
from proxy.cli.heeded import refuse_unheeded

TEACHES: Final = """\
examples
  memory-proxy audit verify                            every chain; exit code 1 and the first bad row of a broken one
  memory-proxy audit verify --tenant T --head 812:9f…  also whether what was there at an earlier verify still is
  memory-proxy audit list --action share.project       newest first; ids, HMACs and words of ours, never content

Write the head that `verify` says down elsewhere: rows cut off at the end together with it are found by nothing else.
Without the key ring of the service (DIR/master.key) a chain can be neither verified nor forged.
"""
_PASSED_ON: Final = ("tenant", "action", "actor", "id", "head", "limit")
_OF_LIST: Final = ("action", "actor", "id", "limit")


def run_audit(options: argparse.Namespace) -> int:
    """Verify or list; takes the place of this process. Raises CallFailed."""
    if options.what == "verify":
        refuse_unheeded(options, "audit list", *_OF_LIST)
    else:
        refuse_unheeded(options, "audit verify", "head")
    given = {name: getattr(options, name) for name in _PASSED_ON}
    words = [f"--{name}={value}" for name, value in given.items() if value is not None]
    return run_beside(options, ["audit", "--mode", options.what, *words, *(["--json"] if options.json else [])])
