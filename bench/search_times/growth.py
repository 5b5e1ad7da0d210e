"""`python -m bench.search_times.growth`: what the store's size costs a scope that stays the same.

One service, one scope (10,000 memories) asked again and again while the store around it grows by COPY: 10,000, then a
million, then ten million where there is room. Asked: p50 of a chat (X-Memory-Millis) and of a search in the largest of
the first two at most 1.3 times the first. Exit 1: something did not start, or the bound is not kept. Exit 2: the
command line cannot be followed, or there is not enough room.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.drawing import draw
from bench.fake_vllm.launch import fake_vllm_process
from bench.figures import Line, any_missed, as_json, at_most, table, told
from bench.overhead.processes import NotStarted
from bench.recall.__main__ import embedder_unless
from bench.recall.chat import served_model
from bench.recall.client import CallFailed, session
from bench.search_times.__main__ import BYTES_BESIDE, BYTES_PER_MEMORY, speaker, stoppable
from bench.search_times.fill import FILLER_MEMORIES, Lot, Say, StoreNotFilled, VectorSource, fill, user_of
from bench.search_times.measure import Ground, Hot, measure_first, measure_hot
from bench.search_times.service import serving
from bench.stats import Summary
from bench.work_folder import work_folder
from memory.config_sections import Recall
from memory.errors import EmbedderUnavailable, ModelFileInvalid
from memory.ports import Embedder
from proxy.cli.whole_file import file_to_write

GROWTH_MAX: Final = 1.3
PREFIX: Final = "growth"
_EPILOG: Final = """\
examples:
  python -m bench.search_times.growth --stores 10000,30000 --questions 60          a look
  python -m bench.search_times.growth --json growth.json                           10k and 1M: a quarter of an hour
  python -m bench.search_times.growth --stores 10000,1000000,10000000 --json g.json   and 10M: 37 GB, over an hour"""


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.search_times.growth",
        description="p50 of one scope while the store around it grows.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--stores", default="10000,1000000", metavar="N,N", help="memories in all (10000,1000000)")
    parser.add_argument("--in-scope", type=int, default=10_000, metavar="N", help="in the asked scope (default 10000)")
    parser.add_argument("--questions", type=int, default=300, help="searches, and as many chats, at each (default 300)")
    parser.add_argument("--work", type=Path, help="directory for the store (default: a new one, deleted at the end)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="rewritten at each size")
    parser.add_argument("--plot", type=file_to_write, metavar="FILE", help="PNG; needs matplotlib")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    arguments = parser.parse_args(argv)
    try:
        arguments.stores = sorted({int(part) for part in arguments.stores.split(",")})
    except ValueError:
        parser.error("--stores takes numbers, by comma")
    if len(arguments.stores) < 2 or not 0 < arguments.in_scope <= arguments.stores[0]:
        parser.error("--stores are two sizes or more, none below --in-scope")
    if arguments.questions < 1:
        parser.error("--questions is 1 or more")
    where = (arguments.work or Path(tempfile.gettempdir())).resolve()
    needed, free = arguments.stores[-1] * BYTES_PER_MEMORY + BYTES_BESIDE, shutil.disk_usage(where).free
    if free < needed:
        parser.error(
            f"{where} has {free >> 20} MiB free and {arguments.stores[-1]:,} memories need {needed >> 20} MiB: "
            "choose smaller --stores, or another directory with --work"
        )
    return arguments


def lots_between(before: int, after: int, in_scope: int) -> list[Lot]:
    """What makes a store of `before` memories one of `after`; the asked scope comes first of all."""
    lots = [] if before else [Lot(user_of(PREFIX, in_scope, 0), in_scope)]
    left = after - before - sum(lot.memories for lot in lots)
    starts = range(0, left, FILLER_MEMORIES)
    return lots + [Lot(f"{PREFIX}-filler-{before}-{at}", min(FILLER_MEMORIES, left - at)) for at in starts]


def size_json(hot: Hot, fill_s: float, bytes_on_disk: int) -> dict[str, Any]:
    """One size of the store. Milliseconds."""
    return {
        "embedding_ms": Summary.of(hot.embedding_ms).as_json(),
        "search_ms": Summary.of([one.service_ms for one in hot.searches]).as_json(),
        "chat_ms": Summary.of([one.service_ms for one in hot.chats]).as_json(),
        "answered": {
            "chat_ms": dict(Counter(one.answered for one in hot.chats)),
            "search_ms": dict(Counter(one.answered for one in hot.searches)),
        },
        "cpu_ms": dict(hot.cpu_ms),
        "fill_s": round(fill_s, 1),
        "bytes": bytes_on_disk,
    }


def lines_of(sizes: Mapping[str, Mapping[str, Any]]) -> list[Line]:
    """The bound at the second size, the figures of all. Larger stores are told, not judged."""
    stores = sorted(map(int, sizes))
    lines: list[Line] = []
    for of in (stores[:2], [stores[0], stores[-1]]) if len(stores) > 2 else (stores[:2],) if len(stores) > 1 else ():
        small, large = (sizes[str(store)] for store in of)
        for name, figure in (("chat_ms", "a chat, added"), ("search_ms", "a search")):
            said = f"{figure}: p50 in a store of {of[1]:,} / of {of[0]:,}"
            share = large[name]["p50"] / small[name]["p50"]
            judged = of == stores[:2]
            lines.append(at_most("growth", said, share, GROWTH_MAX) if judged else told("growth", said, f"{share:.3f}"))
            if judged and (odd := _not_in_full(name, small, large)):
                lines.append(Line("growth", f"{figure}: answered from the index", "the most", odd, False))
    for store in stores:
        one = sizes[str(store)]
        times = ", ".join(
            f"{figure} {one[name]['p50']:.2f} / {one[name]['p99']:.2f}"
            for name, figure in (("chat_ms", "chat"), ("search_ms", "search"), ("embedding_ms", "embedding alone"))
        )
        lines.append(told("growth", f"a store of {store:,}, p50 / p99", f"{times} ms; {one['bytes'] >> 20:,} MiB"))
    return lines


def _not_in_full(name: str, *sizes: Mapping[str, Any]) -> str:
    """How the calls of a size were answered where the most of them were not in full: such a time says nothing."""
    told_of = [one["answered"][name] for one in sizes]
    return "; ".join(str(of) for of in told_of if of.get("full", 0) * 2 <= sum(of.values()))


async def run(arguments: argparse.Namespace, embedder: Embedder, work: Path, say: Say) -> dict[str, Any]:
    """All sizes. Raises NotStarted, StoreNotFilled, CallFailed, EmbedderUnavailable."""
    sizes: dict[str, Any] = {}
    load, user, before = os.getloadavg()[0], user_of(PREFIX, arguments.in_scope, 0), 0
    async with (
        fake_vllm_process() as (upstream, _),
        serving(work, upstream, int(Recall().hot_scope_bytes_max)) as served,
        session() as http,
    ):
        ground = Ground(served, http, await served_model(http, served.url), say)
        vectors = await VectorSource.of(embedder)
        for store in arguments.stores:
            began = time.monotonic()
            await fill(served.dsn, lots_between(before, store, arguments.in_scope), vectors, say)
            fill_s, before = time.monotonic() - began, store
            await measure_first(ground, user)
            hot = await measure_hot(ground, embedder, user, arguments.questions)
            sizes[str(store)] = size_json(hot, fill_s, _bytes_below(work))
            report = _report(arguments, sizes, load)
            if arguments.json:
                arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return report


def _bytes_below(work: Path) -> int:
    total = 0
    for path in work.rglob("*"):
        with suppress(OSError):  # Postgres removes files while we look
            total += path.lstat().st_blocks * 512
    return total


def _report(arguments: argparse.Namespace, sizes: Mapping[str, Any], load: float) -> dict[str, Any]:
    return {
        "bench": "growth",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": len(sizes) == len(arguments.stores),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 2)},
        "settings": {name: getattr(arguments, name) for name in ("stores", "in_scope", "questions")},
        "lines": as_json(lines_of(sizes)),
        "sizes": dict(sizes),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report."""
    arguments = parse_arguments(argv)
    say = speaker(arguments.quiet, "growth")
    try:
        with embedder_unless(False) as embedder, work_folder(arguments.work) as work:
            assert embedder is not None
            report = asyncio.run(stoppable(run(arguments, embedder, work, say)))
    except (NotStarted, StoreNotFilled, CallFailed, EmbedderUnavailable, ModelFileInvalid, OSError) as exc:
        print(f"growth: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("growth: ended before it was done; --json has the sizes that were measured", file=sys.stderr)
        return 1
    lines = [Line(**line) for line in report["lines"]]
    print(table(lines))
    drawn = draw("bench.series_plot", report, arguments.plot) if arguments.plot else 0
    return drawn or int(any_missed(lines))


if __name__ == "__main__":
    sys.exit(main())
