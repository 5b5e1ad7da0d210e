"""`memory-proxy hygiene`: parsed options in, the table of what should not be in the memory out.

The program is a module of its own (`hygiene_report.py`), since it imports the database's driver.
"""

from __future__ import annotations

import argparse
from typing import Final

from proxy.cli.become import become

TEACHES: Final = """\
what is counted
  junk           says nothing: a greeting, thanks, emoji, "[data: 5 bytes]"; or a fact that only asks
  duplicate      the same words as an earlier memory of the same kind in the scope
  contradiction  two facts hold that cannot both, or one that was ruled out is still shown; of the facts
  unsupported    no words of a turn bear the fact; of the facts
  loop           made of what memory itself had said
  never_used     older than --unused-days and never placed in a prompt; of those that old
  secret         the detectors find a key or password in it (shown by --show only as a place)

examples
  memory-proxy hygiene                                the service on this machine, everything
  memory-proxy hygiene --user ada --show              one user's, with what the examples say
  memory-proxy hygiene --data-dir /srv/mp --json      another data directory, for a machine to read
  memory-proxy memories ID                            one of the examples; with --delete it is hidden

It reads the database of the service that runs on this data directory, or the one that database.url names, not the API:
it is for whoever runs the service, and looks across users. Exit code: 0, or 1 when it cannot look.
"""


def run_hygiene(options: argparse.Namespace) -> int:
    """Look; takes the place of this process."""
    become("proxy.cli.hygiene_report", options)
