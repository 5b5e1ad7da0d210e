"""What a busy tenant costs another: chats of both in, how long until what the other says is remembered out.

    python -m bench.neighbours                 64 users who ask four times each, then 16 of another tenant once: minutes
    python -m bench.neighbours --asks 1        a look

A service of its own in keys mode, with the product's defaults. All chats of the busy tenant are answered before the
other one begins, so that all of them wait in the queue or are being stored. Nothing is measured of answers: these wait
for no queue. How many of the other's users share a lane with the busy one (docs/decisions/0038) is chance: each run
makes its tenants anew. Exit 1: the service did not start, refused, or never stored something.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvloop

from bench.figures import Line, as_json, table, told
from bench.overhead.processes import NotStarted
from bench.recall.client import CallFailed
from bench.search_times.service import serving
from bench.security_stage import KEYED, MAY, Caller, Upstream, new_key
from bench.standing_in import standing_in
from bench.stats import quantile
from bench.work_folder import work_folder
from proxy.cli.whole_file import file_to_write

HOT_BYTES: Final = 256 << 20
OTHERS: Final = 16
POLL_S: Final = 0.5
KNOWN_S: Final = 1.5  # until the workers know a new key
SETTLE_S: Final = 900.0
PADDING: Final = "It was a long and rainy afternoon in the street by the old harbour. " * 3


@dataclass(frozen=True, slots=True)
class Plan:
    """How many users of the busy tenant ask how often."""

    users: int
    asks: int


async def measure(plan: Plan, work: Path) -> dict[str, Any]:
    """One run. Raises NotStarted, CallFailed."""
    async with (
        standing_in(Upstream()) as upstream,
        serving(work, upstream, HOT_BYTES, KEYED) as service,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
    ):
        busy, other = [await new_key(service.dsn, MAY, tenant) for tenant in ("busy", "other")]
        await asyncio.sleep(KNOWN_S)
        many = [Caller(http, service.url, f"busy-{n}", busy) for n in range(plan.users)]
        few = [Caller(http, service.url, f"other-{n}", other) for n in range(OTHERS)]
        say(f"{plan.users} users of one tenant ask {plan.asks} times each")
        await asyncio.gather(*(_asks(one, plan.asks) for one in many))
        began = time.monotonic()
        say(f"{OTHERS} users of another one say one thing each")
        await asyncio.gather(*(one.chat([_said(f"My boat is called Petrel {one.user}.")]) for one in few))
        seen = sorted(await asyncio.gather(*(_remembered(one, began) for one in few)))
        await asyncio.gather(*(_remembered(one, began, plan.asks) for one in many))
        return {"other_s": seen, "all_s": time.monotonic() - began}


async def _asks(caller: Caller, asks: int) -> None:
    for n in range(asks):
        await caller.chat([_said(f"I bought {n + 2} apples for {caller.user}. {PADDING}")])


def _said(words: str) -> dict[str, str]:
    return {"role": "user", "content": words}


async def _remembered(caller: Caller, began: float, exchanges: int = 1) -> float:
    """Seconds from `began` until so many of the caller's exchanges are stored. Raises CallFailed past SETTLE_S."""
    address = f"{caller.url}/memory/v1/sessions"
    while (passed_s := time.monotonic() - began) < SETTLE_S:
        async with caller.http.get(address, params={"limit": "1000"}, headers=caller.headers()) as got:
            if got.status == 200 and len((await got.json())["data"]) >= exchanges:
                return passed_s
        await asyncio.sleep(POLL_S)
    raise CallFailed(f"what {caller.user} said is not stored after {SETTLE_S:.0f} s")


def lines_of(report: dict[str, Any]) -> list[Line]:
    """The figures of a run."""
    seen = report["other_s"]
    spread = f"{seen[0]:.1f} / {quantile(seen, 0.5):.1f} / {quantile(seen, 0.75):.1f} / {seen[-1]:.1f} s"
    return [
        told("neighbours", "the other tenant's exchanges remembered, least / p50 / p75 / most", spread),
        told("neighbours", "all that the busy tenant had waiting stored", f"{report['all_s']:.1f} s"),
    ]


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"[neighbours] {text}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.neighbours", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=64, help="of the busy tenant (default %(default)s)")
    parser.add_argument("--asks", type=int, default=4, help="of each of them (default %(default)s)")
    parser.add_argument("--work", type=Path, help="where the store is made (default: the system's temporary directory)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="the report as JSON")
    arguments = parser.parse_args(argv)
    if arguments.users < 1 or arguments.asks < 1:
        parser.error("--users and --asks take 1 or more")
    try:
        with work_folder(arguments.work, "mp-neighbours-") as work:
            report = uvloop.run(measure(Plan(arguments.users, arguments.asks), work))
    except (NotStarted, CallFailed, OSError, aiohttp.ClientError) as fault:
        print(f"neighbours: {type(fault).__name__}: {fault}", file=sys.stderr)
        return 1
    lines = lines_of(report)
    print(table(lines))
    if arguments.json:
        settings = {"users": arguments.users, "asks": arguments.asks}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        said = {"bench": "neighbours", "at": at, "settings": settings, **report, "lines": as_json(lines)}
        arguments.json.write_text(json.dumps(said, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
