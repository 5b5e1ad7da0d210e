"""`memory-proxy preferences`: what was learnt of a user's taste, shown or reset, by a running service.

Exit codes: 0 done; 1 it cannot be, with the service's own sentence.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from proxy.cli.client import CallFailed, Client, with_service
from proxy.cli.shown import NONE, show_all

TEACHES: Final = """\
  memory-proxy preferences                    what holds, strongest first, with how often it was said
  memory-proxy preferences --reset ID         no longer; `memories --undelete` shows it again within 30 days
  memory-proxy preferences --reset-all

They are learnt from the user's own words ("I prefer tea"). Strength grows with sayings and conversations and halves in
90 days of silence; what is pinned or confirmed has 1.
"""
PATH: Final = "/memory/v1/preferences"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What is to be done with them."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--reset", action="append", metavar="ID", help="hide this one; may be repeated")
    what.add_argument("--reset-all", action="store_true", help="hide all of them")
    parser.add_argument("--json", action="store_true", help="the API's answer as it is")
    with_service(parser)


def run_preferences(options: argparse.Namespace) -> int:
    """Show or reset."""
    try:
        client = Client(options)
        if options.reset or options.reset_all:
            answer = client.send("POST", f"{PATH}/reset", {"memories": options.reset} if options.reset else {})
        else:
            answer = client.get(PATH)
    except (CallFailed, OSError) as fault:
        sys.stderr.write(f"memory-proxy: {fault}\n")
        return 1
    if options.json:
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        show_all([*map(_line, _rows(answer))] or [NONE])
        if answer.get("more"):
            sys.stderr.write("these were said last; there are more\n")
    return 0


def _rows(answer: dict[str, Any]) -> list[Any]:
    rows: list[Any] = answer["memories"] if "memories" in answer else answer["data"]
    return rows


def _line(one: Any) -> str:
    if isinstance(one, str):
        return f"{one} is hidden"
    return f"{one['memory_id']}  {one['strength']:.2f}  {one['statement']}  ({one['said']} x in {one['sessions']})"
