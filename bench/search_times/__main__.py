"""`python -m bench.search_times`: what a search costs by the number of memories in its scope, hot and cold.

Options in; the table on stdout, progress on stderr, JSON and a plot where asked. Starts a service of its own before the
stand-in upstream, fills its Postgres by COPY and measures through HTTP; or uses the one that --url and --dsn name.
Exit 1: something did not start, answer or take the memories. Exit 2: the command line cannot be followed, or there is
not enough room. A missed promise is said and is no failure: times on a busy machine prove little.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import asyncpg

from bench.drawing import draw
from bench.fake_vllm.launch import fake_vllm_process
from bench.overhead.processes import CpuMeter, NotStarted
from bench.recall.__main__ import embedder_unless
from bench.recall.chat import served_model
from bench.recall.client import CallFailed, session
from bench.search_times.calls import Timed
from bench.search_times.fill import (
    FILLER_MEMORIES,
    Lot,
    Place,
    Say,
    StoreNotFilled,
    VectorSource,
    fill,
    filler_of,
    lots_of,
    make_scopes,
    remove,
    user_of,
)
from bench.search_times.measure import First, Ground, Hot, measure_first, measure_hot, measure_never_held, warm_up
from bench.search_times.report import size_json, table
from bench.search_times.service import Served, serving
from bench.work_folder import work_folder
from memory.errors import EmbedderUnavailable, ModelFileInvalid
from memory.ports import Embedder
from proxy.cli.whole_file import file_to_write

SAY_EVERY_S: Final = 2.0
# Measured: 1,000,000 memories are 3.2 GB of tables and indexes, beside 1.1 GB of write-ahead log.
BYTES_PER_MEMORY: Final = 3_500
BYTES_BESIDE: Final = 2 << 30
# Fresh scopes of a size: small ones are cheap, and each gives one first chat only.
SCOPES_SMALL, SCOPES_LARGE, SMALL_UP_TO = 8, 3, 10_000
_QUICK: Final = {"sizes": (1_000, 10_000), "store": 30_000, "questions": 40, "cold_questions": 20, "scopes": 2}
_EPILOG: Final = """\
examples:
  python -m bench.search_times --quick                          a look, about two minutes
  python -m bench.search_times --json t.json --plot t.png       1k, 10k, 100k in scope, 1M in the store: half an hour
  python -m bench.search_times --store 200000 --sizes 1000,10000
  python -m bench.search_times --url http://127.0.0.1:8080 --dsn 'postgresql://owner@/memory_proxy?host=/run/pg'

what is measured, for each number of memories in scope:
  first chat   a scope that nobody asked yet: Postgres answers while its index is loaded; then the time until it is
  hot          searches (POST /memory/v1/search) and chats (X-Memory-Millis: time added) from the index in process,
               beside the embedding alone, computed here for the same questions; CPU a search by kind of process
  never held   chats after a restart with recall.hot_scope_bytes_max 0 (--cold-bytes): Postgres answers each of them;
               with --cold-bytes 268435456, the product's default, a scope of 100,000 shows what being too large costs

how to read it: times are those of this machine under its present load, so upper bounds. The promise is about p50 at
10,000 in scope: a hot search takes at most 2 ms more than the embedding. Chats past recall.deadline_ms (250) go on
without memory and are counted as `deadline`. Everything found is noise: texts and vectors are synthetic.

With --url the rows of this benchmark (users `search-times-…`) are deleted at the end, `never held` is left out (it
needs a restart), and CPU is measured only with --pid."""


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.search_times",
        description="Time and CPU of a search by memories in scope, hot and cold, in a store of up to a million.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument("--sizes", type=_sizes, default=(1_000, 10_000, 100_000), metavar="N,N", help="memories in scope")
    what.add_argument("--store", type=int, default=1_000_000, metavar="N", help="memories in all (default 1000000)")
    what.add_argument("--scopes", type=int, help="fresh scopes of each size (default 8, of over 10,000 memories 3)")
    what.add_argument("--questions", type=int, default=300, help="hot searches, and as many chats (default 300)")
    what.add_argument("--cold-questions", type=int, default=100, help="chats of `never held` (default 100)")
    what.add_argument("--hot-bytes", type=int, default=1 << 32, help="recall.hot_scope_bytes_max (default 4 GiB)")
    what.add_argument("--cold-bytes", type=int, default=0, help="the same for `never held` (default 0: none is held)")
    what.add_argument("--quick", action="store_true", help="1k and 10k in scope, 30k in all: a look, not a result")
    where = parser.add_argument_group("a service that runs already")
    where.add_argument("--url", help="its address")
    where.add_argument("--dsn", help="its Postgres, as a superuser: synthetic memories are written and deleted there")
    where.add_argument("--pid", type=int, help="its process id, for CPU time (with its descendants)")
    out = parser.add_argument_group("output")
    out.add_argument("--work", type=Path, help="directory for the store (default: a new one, deleted at the end)")
    out.add_argument("--json", type=file_to_write, metavar="FILE")
    out.add_argument("--plot", type=file_to_write, metavar="FILE", help="PNG; needs matplotlib")
    out.add_argument("--quiet", action="store_true", help="no progress on stderr")
    arguments = parser.parse_args(argv)
    if arguments.quick:  # what was said on the command line holds
        parser.set_defaults(**_QUICK)
        arguments = parser.parse_args(argv)
    _refuse(parser, arguments)
    return arguments


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(sorted({int(part) for part in text.split(",")}))
    if sizes[0] < 1:
        raise argparse.ArgumentTypeError("a scope has 1 memory or more")
    return sizes


def _refuse(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Say what cannot be done, and what to do instead."""
    if bool(arguments.url) != bool(arguments.dsn):
        parser.error("--url and --dsn go together: the memories are written where that service reads them")
    if arguments.pid and not arguments.url:
        parser.error("--pid is of the service that --url names")
    if min(arguments.questions, arguments.cold_questions) < 1 or (arguments.scopes or 1) < 1:
        parser.error("--questions, --cold-questions and --scopes are 1 or more")
    if arguments.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib, which is not installed")
    least = sum(size * number for size, number in scopes_of(arguments).items())
    if arguments.store < least:
        parser.error(f"--store {arguments.store} is less than the measured scopes hold ({least}); or choose --scopes 1")
    where = (arguments.work or Path(tempfile.gettempdir())).resolve()
    if not arguments.url and where.is_dir():
        needed, free = arguments.store * BYTES_PER_MEMORY + BYTES_BESIDE, shutil.disk_usage(where).free
        if free < needed:
            parser.error(
                f"{where} has {free >> 20} MiB free and {arguments.store} memories need {needed >> 20} MiB: "
                "choose a smaller --store, or another directory with --work"
            )


def scopes_of(arguments: argparse.Namespace) -> dict[int, int]:
    """How many fresh scopes of each size."""
    return {
        size: arguments.scopes or (SCOPES_SMALL if size <= SMALL_UP_TO else SCOPES_LARGE) for size in arguments.sizes
    }


def speaker(quiet: bool, name: str = "search_times") -> Say:
    """Progress on stderr, at most one line in two seconds."""
    last_s = 0.0

    def say(text: str) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if not quiet and now_s - last_s >= SAY_EVERY_S:
            last_s = now_s
            print(f"[{name}] {text}", file=sys.stderr, flush=True)

    return say


class Run:
    """One run of the benchmark, given its options and an embedder."""

    def __init__(self, arguments: argparse.Namespace, embedder: Embedder, say: Say) -> None:
        self._arguments = arguments
        self._embedder = embedder
        self._say = say
        self._prefix = f"search-times-{datetime.now(UTC):%Y%m%d%H%M%S}"
        self._scopes = scopes_of(arguments)
        self._lots: list[Lot] = lots_of(self._prefix, self._scopes, arguments.store)
        self._load = os.getloadavg()[0]

    async def own(self, work: Path) -> dict[str, Any]:
        """Everything, on a service in `work`. Raises NotStarted, StoreNotFilled, CallFailed, EmbedderUnavailable."""
        async with fake_vllm_process() as (upstream, _):
            async with serving(work, upstream, self._arguments.hot_bytes) as served:
                fill_s = await self._fill(served.dsn, await make_scopes(served.dsn, self._lots))
                held = await self._held(served)
            async with serving(work, upstream, self._arguments.cold_bytes) as served:
                never = await self._never_held(served)
        return self._report(held, never, fill_s)

    async def given(self) -> dict[str, Any]:
        """The same on the service named, but for what needs a restart; leaves its store as it was."""
        arguments = self._arguments
        meter = CpuMeter(arguments.pid) if arguments.pid else None
        served = Served(arguments.url.rstrip("/"), arguments.dsn, meter)
        place = await make_scopes(served.dsn, self._lots)
        try:
            fill_s = await self._fill(served.dsn, place)
            held = await self._held(served)
        finally:
            print(f"[search_times] deleting the rows of users {self._prefix}-…", file=sys.stderr, flush=True)
            await remove(served.dsn, place)
        return self._report(held, {}, fill_s)

    async def _fill(self, dsn: str, place: Place) -> float:
        began = time.monotonic()
        await fill(dsn, self._lots, await VectorSource.of(self._embedder), self._say, place)
        return time.monotonic() - began

    async def _held(self, served: Served) -> dict[int, tuple[Hot | None, list[First]]]:
        """First chats, loads and hot times of each size."""
        found: dict[int, tuple[Hot | None, list[First]]] = {}
        async with session() as http:
            ground = Ground(served, http, await served_model(http, served.url), self._say)
            await warm_up(ground, self._embedder, filler_of(self._prefix, 0))
            for size, number in self._scopes.items():
                users = [user_of(self._prefix, size, at) for at in range(number)]
                firsts = [await measure_first(ground, user) for user in users]
                hot: Hot | None = None
                if firsts[-1].load_s is not None:
                    hot = await measure_hot(ground, self._embedder, users[-1], self._arguments.questions)
                found[size] = (hot, firsts)
        return found

    async def _never_held(self, served: Served) -> dict[int, list[Timed]]:
        async with session() as http:
            ground = Ground(served, http, await served_model(http, served.url), self._say)
            await warm_up(ground, self._embedder, filler_of(self._prefix, 0))
            return {
                size: await measure_never_held(ground, user_of(self._prefix, size, 0), self._arguments.cold_questions)
                for size in self._scopes
            }

    def _report(
        self,
        held: Mapping[int, tuple[Hot | None, list[First]]],
        never: Mapping[int, list[Timed]],
        fill_s: float,
    ) -> dict[str, Any]:
        shown = ("sizes", "store", "questions", "cold_questions", "hot_bytes", "cold_bytes")
        return {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {
                "cpus": os.cpu_count(),
                "load_before": round(self._load, 2),
                "python": platform.python_version(),
                "load_after": round(os.getloadavg()[0], 2),
            },
            "settings": {**{name: getattr(self._arguments, name) for name in shown}, "filler": FILLER_MEMORIES},
            "store": self._arguments.store,
            "fill_s": round(fill_s, 1),
            "sizes": {str(size): size_json(hot, firsts, never.get(size, [])) for size, (hot, firsts) in held.items()},
        }


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole benchmark. Raises what `main` catches."""
    with embedder_unless(False) as embedder:
        assert embedder is not None
        one = Run(arguments, embedder, speaker(arguments.quiet))
        if arguments.url:
            return asyncio.run(stoppable(one.given()))
        with work_folder(arguments.work, "search-times-") as work:
            return asyncio.run(stoppable(one.own(work)))


async def stoppable(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """The same; ended from outside (SIGTERM), what was started or written is taken back all the same."""
    this = asyncio.current_task()
    if this is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    return await work


def main(argv: list[str] | None = None) -> int:
    """Run and report."""
    arguments = parse_arguments(argv)
    try:
        report = run(arguments)
    except (NotStarted, StoreNotFilled, CallFailed, EmbedderUnavailable, ModelFileInvalid) as exc:
        print(f"search_times: {exc}", file=sys.stderr)
        return 1
    except (OSError, asyncpg.PostgresError) as exc:
        print(f"search_times: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("search_times: ended before it was done", file=sys.stderr)
        return 1
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return draw("bench.search_times.plot", report, arguments.plot) if arguments.plot else 0


if __name__ == "__main__":
    sys.exit(main())
