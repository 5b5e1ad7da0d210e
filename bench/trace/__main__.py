"""`python -m bench.trace`: real traffic against the service and a baseline; `python -m bench.soak`: for an hour.

Options in; the table of lines on stdout, progress on stderr, JSON (rewritten each minute, so that a run that is cut off
leaves its figures) and a plot where asked. Exit 1: something did not start, or a bound is not kept. Exit 2: the command
line cannot be followed, or there is no evaluation data.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import asyncpg
import uvloop

from bench.drawing import draw
from bench.fake_vllm.launch import fake_vllm_process
from bench.figures import Line, any_missed, as_json, table
from bench.overhead.load import Target
from bench.overhead.processes import CpuMeter, NotStarted, free_port, started, wait_ready
from bench.recall.client import CallFailed, import_turns, session
from bench.recall.corpus import SETS, SetUnreadable, read_set
from bench.search_times.fill import StoreNotFilled
from bench.search_times.service import serving
from bench.trace.arrivals import FILES, Arrival, Words, read_trace
from bench.trace.bounds import BOUNDS, bounds_of, bounds_yaml
from bench.trace.past import with_past
from bench.trace.replay import Load, Sample, due, replay
from bench.trace.report import MINUTE_S, OURS, endurance, lines_of, minutes_of, summary
from bench.trace.watch import Reading, Watch
from bench.work_folder import work_folder
from memory.config_sections import Recall
from memory.errors import MemoryProxyFault
from proxy.cli.whole_file import file_to_write

DATA: Final = Path(__file__).resolve().parents[3] / "shared" / "evaldata"
READ_EVERY_S: Final = 10.0
# The longest prompt has 126,195 tokens; the stand-in counts some texts' characters as tokens.
WINDOW_TOKENS: Final = 1 << 20
BASELINES: Final = ("plain", "direct", "none")
_EPILOG: Final = """\
examples:
  python -m bench.trace --trace azure --minutes 2                 a look
  python -m bench.trace --trace mooncake --speed 2 --minutes 10 --json m.json --plot m.png
  python -m bench.trace --trace sharegpt --against direct         multi-turn, with the dialogues' own words
  python -m bench.soak --json soak.json --plot soak.png           azure x1 for 59 minutes, and its bounds
  python -m bench.soak --speed 4 --minutes 15 --json x4.json      four times the load
  python -m bench.soak --users 4000 --store 100000 --hot-scope-bytes 16777216 --ledger-bytes 8388608 --hot-state-s 240
                                                                  caches and Postgres' buffers are full early
  python -m bench.trace --url http://127.0.0.1:8080 --pid 4711 --upstream http://127.0.0.1:8000 --model my-model

Open loop: a request starts when the trace says, whatever still runs; a service that is too slow shows in its times
and in the queue, not in fewer requests. Each arrival goes to service and baseline, .1 s apart, in turn first.

how to read it: `added` is paired, the service against the baseline of the same arrival. `the client itself late` is the
harness: where its p99 is many milliseconds, times to the first byte are not the service's. Lengths and times are the
trace's; the words are the evaluation sets', which are imported first. Azure's and Mooncake's prompts are a system
message of the trace's length and one question as the user's, for no trace says what was said when."""


@dataclass(slots=True)
class Run:
    """A run as it grows: what was heard of it, and how the service stood. Mutable."""

    arguments: argparse.Namespace
    load_before: float
    planned: int
    samples: list[Sample]
    readings: list[Reading]

    @property
    def baseline(self) -> str | None:
        return None if self.arguments.against == "none" else str(self.arguments.against)

    def report(self, complete: bool) -> dict[str, Any]:
        """All figures so far."""
        arguments = self.arguments
        whole = summary(self.samples, self.baseline)
        minutes = minutes_of(self.samples, self.readings, self.baseline)
        name = f"{arguments.trace} x{arguments.speed:g}"
        lines = lines_of(whole, minutes, name, self.baseline)
        if arguments.endurance:
            lines += endurance(minutes, name, bounded=bool(bounds_of(arguments)))
        shown = ("trace", "speed", "minutes", "against", "sets", "scopes", "users", "store", "first_ms", "token_ms")
        return {
            "bench": "soak" if arguments.endurance else "trace",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "complete": complete,
            "machine": {
                "cpus": os.cpu_count(),
                "python": platform.python_version(),
                "load_before": round(self.load_before, 2),
            },
            "settings": {one: getattr(arguments, one) for one in shown} | bounds_of(arguments),
            "planned": self.planned,
            "lines": as_json(lines),
            "whole": whole,
            "minutes": minutes,
        }


def parse_arguments(
    argv: Sequence[str] | None, prog: str = "python -m bench.trace", preset: Mapping[str, Any] | None = None
) -> argparse.Namespace:
    """The command line; `preset` replaces defaults."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Replay real traffic, open loop, against the service and a baseline.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is replayed")
    what.add_argument("--trace", choices=list(FILES), default="azure", help="whose times and lengths (default: azure)")
    what.add_argument("--speed", type=float, default=1.0, metavar="X", help="so many times as fast (default 1)")
    what.add_argument("--minutes", type=float, default=10.0, metavar="M", help="stop after so many (default 10)")
    what.add_argument("--against", choices=BASELINES, default="plain", help="the same load on (default: plain proxy)")
    what.add_argument("--sets", default="locomo,memsim", help=f"of {','.join(SETS)}: words and memories")
    what.add_argument("--scopes", type=int, metavar="N", help="only the first N scopes of each set (default: all)")
    what.add_argument("--users", type=int, metavar="N", help="so many users (default: one for each scope)")
    what.add_argument("--store", type=int, default=0, metavar="N", help="memories of others that are there before (0)")
    what.add_argument("--first-ms", type=float, default=0.0, help="the stand-in's time to the first token (default 0)")
    what.add_argument("--token-ms", type=float, default=0.0, help="and between tokens (default 0: instant)")
    what.add_argument("--data", type=Path, default=DATA, help=f"directory of traces and sets (default: {DATA})")
    what.add_argument("--endurance", action="store_true", help="judge the last ten minutes against the first")
    bounds = parser.add_argument_group(
        "caches that reach their bounds in the first minutes: what grows then is no cache"
    )
    for name, (metavar, what_for) in BOUNDS.items():
        bounds.add_argument(f"--{name.replace('_', '-')}", type=int, metavar=metavar, help=what_for)
    where = parser.add_argument_group("a service that runs already")
    where.add_argument("--url", help="its address; what is imported there stays")
    where.add_argument("--pid", type=int, help="its supervisor's process id, for memory and CPU")
    where.add_argument("--upstream", metavar="URL", help="its upstream, for the baseline")
    where.add_argument("--model", help="model to ask for (default: none is sent)")
    out = parser.add_argument_group("output")
    out.add_argument("--work", type=Path, help="directory for the store (default: a new one, deleted at the end)")
    out.add_argument("--json", type=file_to_write, metavar="FILE", help="rewritten each minute")
    out.add_argument("--plot", type=file_to_write, metavar="FILE", help="PNG; needs matplotlib")
    out.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.set_defaults(**(preset or {}))
    arguments = parser.parse_args(argv)
    if arguments.users is not None and arguments.users < 1:
        parser.error("--users is 1 or more")
    if arguments.store < 0 or (arguments.url and arguments.store):
        parser.error("--store is 0 or more, and a service that runs already has its own")
    if arguments.speed <= 0 or arguments.minutes <= 0:
        parser.error("--speed and --minutes are above 0")
    if bool(arguments.url) != bool(arguments.upstream):
        parser.error("--url and --upstream go together: service and baseline must lead to the same model")
    if arguments.url and arguments.endurance and not arguments.pid:
        parser.error("--endurance judges the service's memory and CPU: name its supervisor with --pid")
    if arguments.url and bounds_of(arguments):
        parser.error("a service that runs already has its own bounds")
    if unknown := sorted(set(arguments.sets.split(",")) - set(SETS)):
        parser.error(f"no set named {', '.join(unknown)}; there are {', '.join(SETS)}")
    return arguments


def say(arguments: argparse.Namespace, text: str) -> None:
    """Progress, for a person."""
    if not arguments.quiet:
        print(f"[trace] {text}", file=sys.stderr, flush=True)


async def scene(stack: AsyncExitStack, arguments: argparse.Namespace, work: Path) -> tuple[list[Target], Watch]:
    """Start what is not given; the ways, ours first, and who watches them. Raises NotStarted, StoreNotFilled."""
    if arguments.url:
        upstream, url = arguments.upstream.rstrip("/"), arguments.url.rstrip("/")
        pid, meter = arguments.pid, CpuMeter(arguments.pid) if arguments.pid else None
    else:
        upstream, _ = await stack.enter_async_context(fake_vllm_process(max_model_len=WINDOW_TOKENS))
        bounds = bounds_of(arguments)
        hot_bytes = bounds.get("hot_scope_bytes", int(Recall().hot_scope_bytes_max))
        served = await stack.enter_async_context(serving(work, upstream, hot_bytes, bounds_yaml(bounds)))
        url, pid, meter = served.url, served.pid, served.meter
        if arguments.store:
            await with_past(served.dsn, arguments.store, partial(say, arguments))
    targets, plain = [Target(OURS, url)], None
    if arguments.against == "plain":
        address = f"http://127.0.0.1:{free_port()}"
        log = work / "plain.log"
        port = address.rpartition(":")[2]
        argv = [sys.executable, "-m", "bench.plain_proxy", "--upstream", upstream, "--port", port]
        process = await stack.enter_async_context(started(argv, log))
        await wait_ready(f"{address}/health", process, log, 30.0)
        targets.append(Target("plain", address))
        plain = CpuMeter(process.pid)
    elif arguments.against == "direct":
        targets.append(Target("direct", upstream))
    return targets, Watch(url, pid, meter, plain)


async def remembered(arguments: argparse.Namespace, words: Words, url: str) -> None:
    """Import what the traffic's users have said before. Raises CallFailed."""
    count = sum(len(words.lines[scope]) for scope in words.scopes)
    say(arguments, f"importing {count:,} turns of {len(words.scopes)} scopes")
    async with session() as http:
        for scope in words.scopes:
            await import_turns(http, url, scope, words.lines[scope], lambda more: None)


def kept(arguments: argparse.Namespace, report: Mapping[str, Any]) -> None:
    """Write the JSON, whole or not at all. Raises OSError."""
    if arguments.json:
        part = arguments.json.with_suffix(".part")
        part.write_text(json.dumps(report, indent=1) + "\n")
        part.replace(arguments.json)


async def watching(run: Run, watch: Watch) -> None:
    """Look every few seconds, write the figures each minute; for ever."""
    loop = asyncio.get_running_loop()
    began, written = loop.time(), 0
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http:
        while True:
            at_s = loop.time() - began
            run.readings.append(await watch.read(http, at_s))
            if at_s // MINUTE_S > written:
                written = int(at_s // MINUTE_S)
                kept(run.arguments, run.report(False))
                last = run.readings[-1]
                failed = sum(sample.timing is None for sample in run.samples)
                say(
                    run.arguments,
                    f"minute {written}: {len(run.samples):,} answers, {failed} failed, "
                    f"{sum(last.rss_mib.values()):.0f} MiB, {last.queue.get('pending', 0):.0f} waiting",
                )
            await asyncio.sleep(READ_EVERY_S - (loop.time() - began) % READ_EVERY_S)


async def run(arguments: argparse.Namespace, words: Words, arrivals: Sequence[Arrival], work: Path) -> dict[str, Any]:
    """The whole replay. Raises NotStarted, StoreNotFilled, CallFailed, OSError."""
    this = asyncio.current_task()
    if this is not None:  # ended from outside: what was started here is stopped all the same
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    load = Load(arguments.speed, arguments.minutes * MINUTE_S, arguments.first_ms, arguments.token_ms, arguments.model)
    one = Run(arguments, os.getloadavg()[0], len(due(arrivals, load)), [], [])
    async with AsyncExitStack() as stack:
        targets, watch = await scene(stack, arguments, work)
        await remembered(arguments, words, targets[0].url)
        say(arguments, f"{one.planned:,} arrivals in {arguments.minutes:g} minutes, by {len(targets)} ways")
        looking = asyncio.create_task(watching(one, watch))
        try:
            await replay(arrivals, targets, load, one.samples.append)
            async with aiohttp.ClientSession() as http:
                one.readings.append(await watch.read(http, arguments.minutes * MINUTE_S - 1e-3))
        finally:
            looking.cancel()
            kept(arguments, one.report(False))
    return one.report(True)


def measured(arguments: argparse.Namespace) -> int:
    """Run, print, write; the exit code."""
    try:
        words = Words(
            [read_set(arguments.data, name) for name in arguments.sets.split(",")], arguments.scopes, arguments.users
        )
        arrivals = read_trace(arguments.data, arguments.trace, words)
    except SetUnreadable as exc:
        print(f"trace: {exc}; --data names the directory of traces and sets", file=sys.stderr)
        return 2
    try:
        with work_folder(arguments.work, "trace-") as work:
            report = uvloop.run(run(arguments, words, arrivals, work))
            kept(arguments, report)
    except (NotStarted, StoreNotFilled, CallFailed, asyncpg.PostgresError, MemoryProxyFault, OSError) as exc:
        print(f"trace: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("trace: ended before it was done; --json has what was measured", file=sys.stderr)
        return 1
    lines = [Line(**line) for line in report["lines"]]
    print(table(lines))
    drawn = draw("bench.trace.plot", report, arguments.plot) if arguments.plot else 0
    return drawn or int(any_missed(lines))


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report."""
    return measured(parse_arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
