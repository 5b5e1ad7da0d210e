"""`python -m bench.capture`: what keeping an exchange costs before its last byte, and how many a second can be kept.

Two queues: as the product runs its own (`always`: every write is fsynced before it is answered) and an external one
whose operator promises less (`queue.durability: process`, here `appendfsync everysec`).

  held       paired chats with memory `off` and `write` through a whole service: time from the first byte to the last,
             `write` less `off` of the same round; `write` neither recalls nor inserts, so the difference is the capture
  writers    the capture's own parts in this process: so many writers seal an envelope and hand it off, one at a time
             each, as requests do; HTTP is left out, since two cores stream some hundred answers a second

Exit 1: something did not start, or a bound is not kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import uvloop

from bench.drawing import draw
from bench.fake_vllm.launch import fake_vllm_process
from bench.figures import Line, any_missed, as_json, at_least, table, told
from bench.overhead.fill import settled
from bench.overhead.load import Target
from bench.overhead.measure import Latency, Pace, Plan, Questions, TargetFailed, measure_latency
from bench.overhead.processes import NotStarted
from bench.own_valkey import own_valkey
from bench.search_times.__main__ import speaker, stoppable
from bench.search_times.service import serving
from bench.stats import Summary, paired_differences
from bench.work_folder import work_folder
from memory.adapters.redis_queue import RedisQueue
from memory.config_sections import Queue, Recall
from memory.envelope import Binding, DataKey, seal
from memory.ids import new_id
from memory.ports import Entry
from memory.write.hand_off import HandOff
from proxy.cli.whole_file import file_to_write
from proxy.wiring.stores import open_spool

HELD_MS: Final = {"always": 2.0, "process": 0.5}
WRITTEN_MIN: Final = 2_000.0
DURABLE: Final = ("queue", "spool")
FSYNC: Final = {"always": "always", "process": "everysec"}
OFF, WRITE, CONTROL = "memory off", "memory write", "memory off again"
USERS: Final = 64
BETWEEN: Final = 100


class Tally:
    """What the hand-off did, counted."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, what: str, n: int = 1) -> None:
        """Count."""
        self.counts[what] += n


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.capture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queues", default="always,process", help="of always,process, by comma (default both)")
    parser.add_argument("--requests", type=int, default=600, help="paired rounds of `held` (default 600)")
    parser.add_argument("--writers", default="1,16,64", help="numbers of writers (default 1,16,64; 64 is judged)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long they write (default 5)")
    parser.add_argument("--bytes", type=int, default=4096, help="an envelope's plaintext (default 4096)")
    parser.add_argument("--work", type=Path, help="directory, on the disk that is to be measured (default: temporary)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE")
    parser.add_argument("--plot", type=file_to_write, metavar="FILE", help="PNG; needs matplotlib")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    arguments = parser.parse_args(argv)
    arguments.queues = arguments.queues.split(",")
    arguments.writers = tuple(int(part) for part in arguments.writers.split(","))
    if set(arguments.queues) - set(HELD_MS) or min(*arguments.writers, arguments.requests) < 1:
        parser.error("--queues are of always,process; --writers and --requests are 1 or more")
    return arguments


async def held(arguments: argparse.Namespace, queue: str, work: Path, valkey: str) -> dict[str, Any]:
    """The whole service before the stand-in, on this queue. Raises NotStarted, TargetFailed."""
    say = speaker(arguments.quiet, "capture")
    more = "" if queue == "always" else f"redis:\n  url: {valkey}\nqueue:\n  durability: process\n"
    async with (
        fake_vllm_process(tokens=64) as (upstream, _),
        serving(work, upstream, int(Recall().hot_scope_bytes_max), more) as served,
    ):
        user = ("X-Memory-User", "bench-capture")
        modes = {OFF: "off", CONTROL: "off", WRITE: "write"}
        targets = [Target(name, served.url, (("X-Memory-Mode", mode), user)) for name, mode in modes.items()]
        questions, blocks = Questions(), list[Latency]()
        for start in range(0, arguments.requests, BETWEEN):
            size = min(BETWEEN, arguments.requests - start)
            plan = Plan(size, 1, 0.0, (1,), 64, None, 5)
            blocks.append(await measure_latency(targets, Pace(queue, 0.0, 0.0), plan, questions, say))
            await settled(served.url, {}, 60.0)  # what was captured is stored between the blocks, not beside them
    return held_json(blocks)


def held_json(blocks: Sequence[Latency]) -> dict[str, Any]:
    """From the first byte to the last, by way, and what `write` adds. Milliseconds. Raises TargetFailed."""
    tails = {
        name: [last - first for one in blocks for first, last in zip(one.first_s[name], one.total_s[name], strict=True)]
        for name in (OFF, CONTROL, WRITE)
    }
    if not tails[WRITE]:
        raise TargetFailed("there was no round in which both modes answered")
    return {
        "held_ms": Summary.of(paired_differences(tails[WRITE], tails[OFF]), 1000).as_json(),
        "chance_ms": Summary.of(paired_differences(tails[CONTROL], tails[OFF]), 1000).as_json(),
        "errors": sum(sum(one.errors.values()) for one in blocks),
        "captures": dict(sum((Counter(one.captures.get(WRITE, {})) for one in blocks), Counter[str]())),
    }


async def written(arguments: argparse.Namespace, work: Path, valkey: str, promised: str) -> dict[str, Any]:
    """Writers against one queue, by their number. Nothing reads, so the queue only grows."""
    found: dict[str, Any] = {}
    queue = RedisQueue(valkey, lanes=Queue().lanes, durability="process" if promised == "process" else "fsync")
    try:
        await queue.prepare()
        for writers in arguments.writers:
            tally = Tally()
            spool = await asyncio.to_thread(open_spool, work / f"spool-{writers}", Queue().spool_bytes)
            hold_ms = Queue().capture_hold_ms
            hand_off = HandOff(queue, spool, hold_ms=hold_ms, memory_bytes_max=64 << 20, meter=tally)
            draining = asyncio.create_task(hand_off.keep_draining())
            found[str(writers)] = await _level(arguments, hand_off, writers) | {"by": dict(tally.counts)}
            draining.cancel()
            await asyncio.wait([draining])
            await hand_off.close()
    finally:
        await queue.close()
    return found


async def _level(arguments: argparse.Namespace, hand_off: HandOff, writers: int) -> dict[str, Any]:
    """So many writers for some seconds; what came to be durable, and how long that took."""
    times: list[float] = []
    key, plaintext = DataKey(new_id(), os.urandom(32)), os.urandom(arguments.bytes)
    began = time.perf_counter()
    until_s = began + arguments.seconds
    await asyncio.gather(*(_write(hand_off, key, plaintext, number, until_s, times) for number in range(writers)))
    per_s = len(times) / (time.perf_counter() - began)
    return {"per_s": per_s, "ms": Summary.of(times, 1000).as_json() if times else None}


async def _write(
    hand_off: HandOff, key: DataKey, plaintext: bytes, number: int, until_s: float, times: list[float]
) -> None:
    tenant, subject = UUID(int=1), UUID(int=2 + number % USERS)
    while time.perf_counter() < until_s:
        began = time.perf_counter()
        exchange = new_id()
        envelope = seal(key, Binding(tenant, subject, exchange, "exchange"), plaintext)
        where = await hand_off.hand_off(Entry(exchange, tenant, subject, "exchange", "live", envelope))
        if where != "none":
            times.append(time.perf_counter() - began)


def lines_of(queues: dict[str, Any]) -> list[Line]:
    """What was asked, measured and kept."""
    lines: list[Line] = []
    for name, one in queues.items():
        p50, chance = one["held"]["held_ms"]["p50"], one["held"]["chance_ms"]["p50"]
        said = f"{p50:.2f} ms (p99 {one['held']['held_ms']['p99']:.2f}; off against off {chance:.2f})"
        figure = "added before the last byte, p50"
        lines.append(Line(name, figure, f"<= {HELD_MS[name]:g} ms", said, p50 <= HELD_MS[name]))
        lines.append(Line(name, "requests that failed", "0", f"{one['held']['errors']}", not one["held"]["errors"]))
        if lost := sum(count for where, count in one["held"]["captures"].items() if where not in DURABLE):
            lines.append(Line(name, "answers of which nothing was kept", "0", f"{lost}", False))
        for writers, level in one["written"].items():
            figure = f"exchanges kept a second, {writers} writers"
            if writers == "64":
                lines.append(at_least(name, figure, level["per_s"], WRITTEN_MIN))
            else:
                lines.append(told(name, figure, f"{level['per_s']:.0f}"))
            elsewhere = sum(count for what, count in level["by"].items() if what != "queued")
            if elsewhere:
                lines.append(told(name, f"of these not in the queue at once, {writers} writers", f"{level['by']}"))
    return lines


async def run(arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Both parts on each queue. Raises NotStarted, TargetFailed, OSError."""
    queues: dict[str, Any] = {}
    load = os.getloadavg()[0]
    for name in arguments.queues:
        place = work / name
        place.mkdir(mode=0o711)
        async with own_valkey(place, {"appendfsync": FSYNC[name]}) as valkey:
            found = await held(arguments, name, place, valkey)
        again = place / "writers"
        again.mkdir()
        async with own_valkey(again, {"appendfsync": FSYNC[name]}) as valkey:
            queues[name] = {"held": found, "written": await written(arguments, again, valkey, name)}
    return {
        "bench": "capture",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 2)},
        "settings": {name: getattr(arguments, name) for name in ("queues", "requests", "writers", "seconds", "bytes")},
        "lines": as_json(lines_of(queues)),
        "queues": queues,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report."""
    arguments = parse_arguments(argv)
    try:
        with work_folder(arguments.work) as work:
            report = uvloop.run(stoppable(run(arguments, work)))
    except (NotStarted, TargetFailed, OSError) as exc:
        print(f"capture: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("capture: ended before it was done", file=sys.stderr)
        return 1
    lines = [Line(**line) for line in report["lines"]]
    print(table(lines))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    drawn = draw("bench.series_plot", report, arguments.plot) if arguments.plot else 0
    return drawn or int(any_missed(lines))


if __name__ == "__main__":
    sys.exit(main())
