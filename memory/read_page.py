"""One page read in a process of its own: `python -m memory.read_page`, what is asked and the page's bytes on standard
input, what it says as JSON on standard output.

The first line is a JSON object {media_type, charset, chars_max, memory_bytes_max, cpu_s_max, wall_s_max}; the rest is
the page. Before a byte of it is looked at the process gives up what it does not need: it may write no file, open a
handful, take so much memory and CPU time, and ends by itself when its time is over, also when nobody waits for it any
more. It knows no secret: it is started without the environment. Ends with 0 and one line, or is killed.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from dataclasses import asdict
from math import ceil
from typing import Any, Final

from memory.page_text import read_page

FILES_MAX: Final = 16


def _give_up(order: dict[str, Any]) -> None:
    cpu_s = ceil(order["cpu_s_max"])
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, FILES_MAX),
        (resource.RLIMIT_AS, order["memory_bytes_max"]),
        (resource.RLIMIT_CPU, cpu_s),
    ):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))
    signal.setitimer(signal.ITIMER_REAL, order["wall_s_max"])  # SIGALRM ends a process that does not ask for it


def main() -> None:
    """Read one page."""
    order = json.loads(sys.stdin.buffer.readline())
    _give_up(order)
    raw = sys.stdin.buffer.read()
    page = read_page(raw, order["media_type"], order["charset"], chars_max=order["chars_max"])
    sys.stdout.buffer.write(json.dumps(asdict(page), ensure_ascii=False).encode("utf-8", "replace") + b"\n")


if __name__ == "__main__":
    main()
