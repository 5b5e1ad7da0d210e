"""What reading a page of the web costs: pages of 1 MB, ordinary and hostile, read as the program reads them.

    python -m bench.outside_pages

Prints for each the seconds on the clock, the process' CPU and its peak memory, and what came of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from memory.adapters.page_process import PageProcess
from memory.errors import PageUnreadable
from memory.web import Fetched

BYTES: Final = 1_000_000
_WORDS: Final = "the of and a system memory request answer page article network storage value time people city".split()  # noqa: SIM905


def _times(piece: str) -> bytes:
    return (piece * (BYTES // len(piece))).encode()


def _article(chance: random.Random) -> bytes:
    menu = "<nav>" + "".join(f"<li><a href=/s{at}>Section {at}</a></li>" for at in range(40)) + "</nav>"
    paragraphs, size = [], 0
    while size < BYTES:
        said = " ".join(chance.choice(_WORDS) for _ in range(60))
        paragraphs.append(f"<p>{said} <a href=/x>{said[:40]}</a>.</p>")
        size += len(paragraphs[-1])
    return f"<html><title>Long</title><body>{menu}<main><h1>Long</h1>{''.join(paragraphs)}</main>{menu}".encode()


def pages() -> Mapping[str, bytes]:
    """Pages of about 1 MB by name."""
    return {
        "article": _article(random.Random(7)),
        "table": b"<table>" + _times("<tr><td>0.12345</td><td>0.54321</td><td>a name</td></tr>"),
        "links": _times("<li><a href='/some/where'>A link to somewhere</a></li>"),
        "short paragraphs": _times("<p>x"),
        "one word": b"<p>" + b"x" * BYTES,
        "less-than signs": _times("<"),
        "nested div": _times("<div>"),
        "nested bold": _times("<b>"),
        "formatting": _times("<a><b><i><u>"),
        "framed in frames": _times("<div class=menu>a"),
        "attributes": b"<p " + b" ".join(b"a%d=1" % at for at in range(110_000)) + b">x",
        "tables misnested": _times("<table><b>"),
    }


async def main() -> None:
    """Read each once."""
    argparse.ArgumentParser(prog="python -m bench.outside_pages", description=__doc__).parse_args()
    reader = PageProcess(chars_max=20_000)
    for name, body in pages().items():
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        try:
            page = await reader.read(Fetched("http://example.com/", "text/html", "", body, datetime.now(UTC)))
            said = f"{len(page.blocks)} blocks, {sum(len(block.text) for block in page.blocks)} characters"
        except PageUnreadable as fault:
            said = str(fault)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{name:18} {time.perf_counter() - began:6.2f} s  CPU {cpu:5.2f} s  {said}")
    print(f"peak memory of the largest: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
