"""`python -m bench.worker`: what the write path does without a model.

    --throughput   a full queue, one worker: exchanges a second, CPU of each by process and by step
    --lag          15 chats a second through the whole service: how long until each is searchable
    --catch-up     an hour without a worker: how long it takes to store what waits, and what users feel meanwhile

All three without any of these. Each starts a service of its own with the product's defaults (one proxy, one memory
worker), before a stand-in that answers what was answered in the recorded conversations. Report on stdout, progress on
stderr. Exit 1: something did not start, was refused, or an acknowledged exchange is missing or there twice. Exit 2: no
data. Times on a busy machine prove little; how steps and phases of one run compare proves more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import asyncpg
import uvloop

from bench.hygiene import DATA, Model
from bench.overhead.processes import NotStarted
from bench.recall.client import CallFailed, session
from bench.recall.corpus import SetUnreadable
from bench.standing_in import standing_in
from bench.work_folder import work_folder
from bench.worker import catch_up, lag, throughput
from bench.worker.report import table
from bench.worker.stage import Say, Stage, staged
from bench.worker.talks import SETS, Traffic
from memory.errors import MemoryProxyFault
from proxy.cli.whole_file import file_to_write

SAY_EVERY_S: Final = 5.0
EXAMPLES: Final = """examples:
  python -m bench.worker                                    all three, about 25 minutes
  python -m bench.worker --throughput --exchanges 200 --mixes locomo,beam
  python -m bench.worker --lag --seconds 30 --import-turns 20000
  python -m bench.worker --catch-up --scale 1               the whole hour, all 54,000 exchanges
mixes: locomo (two friends chatting), sharegpt, beam (long answers), mixed (of all, as long as real answers are)"""


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The options; exits with 2 where they cannot be followed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.worker",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ("throughput", "lag", "catch-up"):
        parser.add_argument(f"--{name}", action="store_true", help="measure this (default: all three)")
    parser.add_argument("--data", type=Path, default=DATA, help=f"directory of the sets (default: {DATA})")
    parser.add_argument("--mix", choices=SETS, default="mixed", help="of --lag and --catch-up (default %(default)s)")
    parser.add_argument("--work", type=Path, help="where stores are made (default: the system's temporary directory)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="the report as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    full = parser.add_argument_group("throughput")
    full.add_argument("--exchanges", type=int, default=1_000, help="of each mix, twice (default %(default)s)")
    full.add_argument("--mixes", default="mixed,locomo,sharegpt,beam", help="by comma (default %(default)s)")
    paced = parser.add_argument_group("lag")
    paced.add_argument("--rate", type=float, default=15.0, help="chats a second (default %(default)s)")
    paced.add_argument("--seconds", type=float, default=120.0, help="for so long (default %(default)s)")
    paced.add_argument("--import-turns", type=int, default=0, metavar="N", help="import N turns beside the chats")
    late = parser.add_argument_group("catch-up")
    late.add_argument("--scale", type=float, default=0.05, help="of an hour's 54,000 exchanges (default %(default)s)")
    late.add_argument("--chat-rate", type=float, default=2.0, help="chats a second beside it (default %(default)s)")
    late.add_argument("--block-s", type=float, default=30.0, help="length of the blocks to compare with")
    arguments = parser.parse_args(argv)
    arguments.mixes = arguments.mixes.split(",")
    if unknown := set(arguments.mixes) - set(SETS):
        parser.error(f"no such mix: {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    if not 0 < arguments.scale <= 1 or arguments.exchanges < 1:
        parser.error("--scale takes more than 0 and at most 1, --exchanges 1 or more")
    if not (arguments.throughput or arguments.lag or arguments.catch_up):
        arguments.throughput = arguments.lag = arguments.catch_up = True
    return arguments


def speaker(quiet: bool) -> Say:
    """Progress on stderr, at most one line in SAY_EVERY_S."""
    last_s = 0.0

    def say(text: str) -> None:
        nonlocal last_s
        if not quiet and time.monotonic() - last_s >= SAY_EVERY_S:
            last_s = time.monotonic()
            print(f"[worker] {text}", file=sys.stderr, flush=True)

    return say


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for. Raises what `main` catches."""
    say = speaker(arguments.quiet)
    for mix in {arguments.mix, *arguments.mixes}:
        Traffic.of(arguments.data, mix, "read before anything is started")

    async def on_a_stage(measure: Callable[[Stage, Model, Path], Awaitable[Any]]) -> Any:
        model = Model()
        with work_folder(arguments.work, "mp-worker-") as work:
            say("starting a service")
            async with standing_in(model) as upstream, session() as http, staged(work, upstream, http) as stage:
                return await measure(stage, model, work)

    async def full(stage: Stage, _: Model, work: Path) -> list[dict[str, Any]]:
        data, count = arguments.data, arguments.exchanges
        return [await throughput.measure(stage, work, data, mix, count, say) for mix in arguments.mixes]

    async def paced(stage: Stage, model: Model, _: Path) -> dict[str, Any]:
        plan = lag.Plan(arguments.rate, arguments.seconds, arguments.mix, arguments.import_turns)
        return await lag.measure(stage, model, arguments.data, plan, say)

    async def late(stage: Stage, model: Model, _: Path) -> dict[str, Any]:
        plan = catch_up.Plan(arguments.scale, arguments.chat_rate, arguments.block_s, arguments.mix)
        return await catch_up.measure(stage, model, arguments.data, plan, say)

    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "load_before": round(os.getloadavg()[0], 2),
        "throughput": await on_a_stage(full) if arguments.throughput else None,
        "lag": await on_a_stage(paced) if arguments.lag else None,
        "catch_up": await on_a_stage(late) if arguments.catch_up else None,
    }


def main(argv: list[str] | None = None) -> int:
    """Run and report."""
    arguments = parse_arguments(argv)
    try:
        report = uvloop.run(run(arguments))
    except SetUnreadable as unreadable:
        print(f"worker: {unreadable}", file=sys.stderr)
        return 2
    except (NotStarted, CallFailed, MemoryProxyFault, asyncpg.PostgresError, OSError) as exc:
        print(f"worker: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("worker: ended before it was done", file=sys.stderr)
        return 1
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    counted = report["catch_up"]["counted"] if report["catch_up"] else {}
    broken = [name for name, count in counted.items() if name != "exchanges" and count]
    if broken:
        print(f"worker: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
