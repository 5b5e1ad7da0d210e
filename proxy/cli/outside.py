"""`memory-proxy outside QUESTION`: pages of the web that a running proxy finds and keeps for it.

Exit codes: 0 pages were kept; 1 none were, looking outside is off, or the service does not answer.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from proxy.cli.client import CallFailed, Client, with_service
from proxy.cli.shown import show_all

TEACHES: Final = """\
  memory-proxy outside "latest version of PostgreSQL"     search, read, keep; says what came of each page

Needs outside.enabled and outside.search_url (a SearXNG-compatible service). The question leaves this machine, without
personal data; one that holds a secret does not. Pages are documents of the scope: `memory-proxy documents list`.
"""
PATH: Final = "/memory/v1/outside"
_SEARCHED: Final = {
    "found": "none of what was found could be kept",
    "nothing": "nothing was found",
    "withheld": "withheld, since a secret or what is confidential does not leave this machine",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The question and how it is shown."""
    parser.add_argument("question", help="in words, 300 characters at most")
    parser.add_argument("--json", action="store_true", help="the API's answer as it is")
    with_service(parser)


def run_outside(options: argparse.Namespace) -> int:
    """Look, and say what was kept."""
    try:
        answer = Client(options).send("POST", PATH, {"question": options.question})
    except (CallFailed, OSError) as fault:
        sys.stderr.write(f"memory-proxy: {fault}\n")
        return 1
    if options.json:
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        show_all(_told(answer))
    return 0 if answer["pages"] else 1


def _told(answer: dict[str, Any]) -> list[str]:
    lines = [f"kept    {page['url']}  {page['title']}" for page in answer["pages"]]
    lines += [f"missed  {one['url']}  ({one['reason']})" for one in answer["missed"]]
    return lines or [f"no page: {_why_none(answer['search'])}"]


def _why_none(search: str) -> str:
    failed = f"the search failed ({search}); `memory-proxy doctor` asks the service at outside.search_url"
    return _SEARCHED.get(search, failed)
