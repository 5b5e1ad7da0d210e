"""`python -m bench.speed`: what the proxy costs with a large store behind it, beside what was asked of it.

Options in; tables on stdout, progress on stderr, JSON and a plot where asked. Starts everything itself: the stand-in
upstream, the plain proxy, a service of our own filled by COPY, other proxies where they can be installed. Exit 1:
something did not start, or a bound is not kept. Exit 2: the command line cannot be followed, or there is no room.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvloop

from bench.fake_vllm.launch import fake_vllm_process
from bench.figures import Line, any_missed, as_json
from bench.figures import table as lines_table
from bench.overhead.fill import settled
from bench.overhead.load import Target
from bench.overhead.measure import Block, Pace, Plan, Questions, Say, TargetFailed, measure_block
from bench.overhead.processes import CpuMeter, NotStarted, free_port, started, wait_ready
from bench.overhead.report import BASELINE, DIRECT, PaceResult, plot, result_json, table, throughput_json
from bench.recall.__main__ import embedder_unless
from bench.rivals import MODEL, RIVALS, RivalLeftOut, cache_dir, running
from bench.search_times.__main__ import BYTES_BESIDE, BYTES_PER_MEMORY, speaker
from bench.search_times.fill import StoreNotFilled, VectorSource, fill, lots_of, user_of
from bench.search_times.service import Served, serving
from bench.speed.measure import Paired, Repeated, measure_paired, stage_sums, stages_between
from bench.speed.report import CONTROL, OFF, ON, READ, REPEATED, WRITE, lines_of
from bench.stats import Summary
from bench.work_folder import work_folder
from memory.config_sections import Recall
from memory.errors import EmbedderUnavailable, ModelFileInvalid
from memory.ports import Embedder
from proxy.cli.whole_file import file_to_write

INSTANT: Final = Pace("instant", 0.0, 0.0)
REPEATED_QUESTIONS: Final = 16
RECALLING: Final = (ON, READ, REPEATED)
SETTLE_MAX_S: Final = 120.0
HELD_ASKED: Final = 5
PREFIX: Final = "bench-speed"
_QUICK: Final = {
    "store": 20_000,
    "in_scope": 2_000,
    "requests": 50,
    "pause_ms": 20.0,
    "rounds": 1,
    "seconds": 1.0,
    "rivals": "",
}
_EPILOG: Final = """\
examples:
  python -m bench.speed --quick                              a look, a minute: 20k in the store, no other proxies
  python -m bench.speed --json speed.json --plot speed.png   1M in the store, 10k in scope; about half an hour
  python -m bench.speed --rivals '' --store 100000           without other proxies, a smaller store

what is measured: every round sends one new question of at most 32 tokens to all ways in turn: direct, direct again
(the noise control), the plain proxy, ours with memory off and on, other proxies. Between rounds the write path has a
pause to store what the last one said (45 ms of CPU time), else that is measured too. In each round the harness embeds a
question of the same kind, at each place of it in turn. Then blocks of seconds with many clients; one that recalls has
a scope of its own, held before it begins: else it reads what the blocks before it said. The harness, the stand-in and
all that is measured share this machine's cores.

how to read it: `added` is over direct, in the same round. CPU by stage is told by pairs of modes (off, read, …);
`stages` are times on the clock, from /memory/metrics. Where the noise control's p99 is large, so is every p99 here."""


@dataclass(slots=True)
class Scene:
    """What runs, by name of the way; what was left out, and why."""

    service: Served
    targets: list[Target]
    meters: dict[str, CpuMeter]
    only_throughput: list[Target]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.speed",
        description="What the proxy costs with a large store behind it, beside what was asked of it and other proxies.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", type=int, default=1_000_000, metavar="N", help="memories in all (default 1000000)")
    parser.add_argument("--in-scope", type=int, default=10_000, metavar="N", help="of these in the asked scope (10000)")
    parser.add_argument("--requests", type=int, default=1000, help="paired latency rounds (default 1000)")
    parser.add_argument("--pause-ms", type=float, default=150, help="between them, for the write path (default 150)")
    parser.add_argument("--rounds", type=int, default=3, help="throughput rounds; medians are reported (default 3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a throughput block (default 5)")
    parser.add_argument("--clients", type=int, default=64, help="clients of the judged blocks (default 64; also 1)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of an answer (default 64)")
    parser.add_argument("--workers", type=int, default=1, help="proxy processes of ours (default 1)")
    parser.add_argument("--rivals", default=",".join(RIVALS), help=f"of {','.join(RIVALS)}, by comma; '' for none")
    parser.add_argument("--rivals-dir", type=Path, default=cache_dir(), help="where they are installed (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="20k in the store, a minute: a look, not a result")
    parser.add_argument("--work", type=Path, help="directory for the store (default: a new one, deleted at the end)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE")
    parser.add_argument("--plot", type=file_to_write, metavar="FILE", help="PNG")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    arguments = parser.parse_args(argv)
    if arguments.quick:  # what was said on the command line holds
        parser.set_defaults(**_QUICK)
        arguments = parser.parse_args(argv)
    if unknown := sorted(set(filter(None, arguments.rivals.split(","))) - set(RIVALS)):
        parser.error(f"no rival named {', '.join(unknown)}; there are {', '.join(RIVALS)}")
    scopes = 1 + scopes_of_blocks(arguments)
    if not 0 < arguments.in_scope * scopes <= arguments.store:
        needs = f"{scopes} scopes of --in-scope {arguments.in_scope} for {arguments.rounds} rounds"
        parser.error(f"--in-scope is above 0, and --store at least {arguments.in_scope * scopes}: {needs}")
    where = (arguments.work or Path(tempfile.gettempdir())).resolve()
    needed, free = arguments.store * BYTES_PER_MEMORY + BYTES_BESIDE, shutil.disk_usage(where).free
    if free < needed:
        parser.error(f"{where} has {free >> 20} MiB free and {needed >> 20} MiB are needed: --store or --work")
    return arguments


async def set_scene(
    stack: AsyncExitStack, arguments: argparse.Namespace, embedder: Embedder, work: Path, say: Say
) -> Scene:
    """Start everything, fill the store. Raises NotStarted, StoreNotFilled, EmbedderUnavailable."""
    upstream, _ = await stack.enter_async_context(fake_vllm_process(tokens=arguments.tokens, burst=1))
    port, log = free_port(), work / "plain.log"
    plain = f"http://127.0.0.1:{port}"
    argv = [sys.executable, "-m", "bench.plain_proxy", "--upstream", upstream, "--port", str(port)]
    process = await stack.enter_async_context(started(argv, log))
    await wait_ready(f"{plain}/health", process, log, 30.0)
    more = f"listen:\n  workers: {arguments.workers}\n"
    served = await stack.enter_async_context(serving(work, upstream, int(Recall().hot_scope_bytes_max), more))
    assert served.meter is not None
    lots = lots_of(PREFIX, {arguments.in_scope: 1 + scopes_of_blocks(arguments)}, arguments.store)
    await fill(served.dsn, lots, await VectorSource.of(embedder), say)
    ours = {name: _ours(name, served.url, arguments.in_scope) for name in (OFF, ON, READ, WRITE, REPEATED)}
    scene = Scene(
        served,
        [Target(DIRECT, upstream), Target(CONTROL, upstream), Target(BASELINE, plain), ours[OFF], ours[ON]],
        {BASELINE: CpuMeter(process.pid), **dict.fromkeys(ours, served.meter)},
        [ours[READ], ours[WRITE], ours[REPEATED]],
    )
    for name in filter(None, arguments.rivals.split(",")):
        try:
            say(f"installing and starting {name}")
            rival = await running(stack, RIVALS[name], upstream, work, arguments.rivals_dir)
        except RivalLeftOut as why:
            scene.left_out[name] = str(why)
            continue
        scene.targets.append(rival.target)
        scene.meters[name] = rival.meter
        scene.notes[name] = rival.note
    return scene


def _ours(name: str, url: str, in_scope: int, scope: int = 0) -> Target:
    mode = name.removeprefix("memory ").partition(",")[0]
    return Target(name, url, (("X-Memory-Mode", mode), ("X-Memory-User", user_of(PREFIX, in_scope, scope))))


def levels_of(arguments: argparse.Namespace) -> tuple[int, ...]:
    """With how many clients the throughput is measured."""
    return tuple(sorted({1, arguments.clients}))


def scopes_of_blocks(arguments: argparse.Namespace) -> int:
    """How many scopes the blocks that recall need: each begins with `--in-scope` memories, whatever was said before."""
    return len(RECALLING) * len(levels_of(arguments)) * int(arguments.rounds)


async def scope_held(on: Target, workers: int, questions: Questions, say: Say) -> None:
    """Ask until the scope's index is in every process, so that the first rounds do not wait for it: each time over a
    connection of its own, so that each process has its turn. Raises TargetFailed.
    """
    held, wanted = 0, HELD_ASKED * workers**2
    anew = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=anew, timeout=aiohttp.ClientTimeout(total=30)) as http:
        until_s = time.monotonic() + SETTLE_MAX_S
        while held < wanted:
            if time.monotonic() > until_s:
                raise TargetFailed("the scope was not loaded in time")
            body = {"query": questions.next(), "k": 10}
            async with http.post(f"{on.url}/memory/v1/search", json=body, headers=dict(on.headers)) as answer:
                said = await answer.json() if answer.status == 200 else {}
            held = held + 1 if said.get("rung") == "full" else 0
            say("waiting for the scope to be held")


async def blocks_of(
    scene: Scene, arguments: argparse.Namespace, plan: Plan, questions: Questions, say: Say
) -> list[Block]:
    """Throughput: each round all ways, with one client and with many."""
    found: list[Block] = []
    repeated, scopes = Repeated(REPEATED_QUESTIONS), itertools.count(1)
    headers = dict(_ours(ON, scene.service.url, arguments.in_scope).headers)
    settle = partial(settled, scene.service.url, headers, SETTLE_MAX_S)
    ways = [target for target in (*scene.targets, *scene.only_throughput) if target.name != CONTROL]
    for number in range(plan.rounds):
        for clients in plan.clients:
            for target in ways if number % 2 == 0 else ways[::-1]:
                say(f"throughput round {number + 1} of {plan.rounds}, {clients} clients, {target.name}")
                asked = repeated if target.name == REPEATED else questions
                own = target.name.startswith("memory")
                meter = scene.meters.get(target.name)
                if target.name in RECALLING:
                    way = _ours(target.name, scene.service.url, arguments.in_scope, next(scopes))
                    await scope_held(way, arguments.workers, questions, say)
                else:
                    way = target
                found.append(await measure_block(way, clients, INSTANT, plan, asked, meter, settle if own else None))
    return found


async def stages(scene: Scene) -> Mapping[str, tuple[float, float]]:
    """What the service's histograms say by now. Raises aiohttp.ClientError."""
    async with aiohttp.ClientSession() as http, http.get(f"{scene.service.url}/memory/metrics") as answer:
        return stage_sums(await answer.text())


async def run(arguments: argparse.Namespace, embedder: Embedder, work: Path) -> dict[str, Any]:
    """The whole benchmark. Raises what `main` catches."""
    this = asyncio.current_task()
    if this is not None:  # ended from outside: what was started here is stopped all the same
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    say, load = speaker(arguments.quiet, "speed"), os.getloadavg()[0]
    clients = levels_of(arguments)
    pause_s = arguments.pause_ms / 1000
    plan = Plan(arguments.requests, arguments.rounds, arguments.seconds, clients, arguments.tokens, MODEL, 5, pause_s)
    questions = Questions()
    async with AsyncExitStack() as stack:
        scene = await set_scene(stack, arguments, embedder, work, say)
        await scope_held(_ours(ON, scene.service.url, arguments.in_scope), arguments.workers, questions, say)
        paired: Paired = await measure_paired(scene.targets, INSTANT, plan, questions, embedder, say)
        before = await stages(scene)
        blocks = await blocks_of(scene, arguments, plan, questions, say)
        between = stages_between(before, await stages(scene))
    found = result_json(PaceResult("instant", paired.latency, blocks))
    found["throughput"] = throughput_json(blocks, [*paired.latency.first_s, READ, WRITE, REPEATED])
    embedding, alone = (Summary.of(one).as_json() for one in (paired.embedding_ms, paired.embedding_alone_ms))
    return {
        "bench": "speed",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": not arguments.quick,
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 2)},
        "settings": {
            name: getattr(arguments, name)
            for name in (
                "store",
                "in_scope",
                "requests",
                "pause_ms",
                "rounds",
                "seconds",
                "clients",
                "tokens",
                "workers",
                "rivals",
            )
        },
        "lines": as_json(lines_of(found, embedding, alone, arguments.clients, scene.left_out)),
        "embedding_ms": embedding,
        "embedding_alone_ms": alone,
        "rivals": scene.notes,
        "stages": between,
        "paces": {"instant": found},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report."""
    arguments = parse_arguments(argv)
    try:
        with embedder_unless(False) as embedder, work_folder(arguments.work) as work:
            assert embedder is not None
            report = uvloop.run(run(arguments, embedder, work))
    except (NotStarted, StoreNotFilled, TargetFailed, EmbedderUnavailable, ModelFileInvalid) as exc:
        print(f"speed: {exc}", file=sys.stderr)
        return 1
    except (OSError, aiohttp.ClientError) as exc:
        print(f"speed: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("speed: ended before it was done", file=sys.stderr)
        return 1
    lines = [Line(**line) for line in report["lines"]]
    print(table(report) + "\n\n" + stages_table(report["stages"]) + "\n\n" + lines_table(lines))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if arguments.plot:
        plot(report, arguments.plot)
    return int(any_missed(lines))


def stages_table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Times on the clock by stage, as the service's own metrics have them."""
    rows = [f"{stage:<32} {of['times']:>9,} {of['mean_ms']:>10.3f}" for stage, of in found.items()]
    return "\n".join([f"{'stage, of the throughput blocks':<32} {'times':>9} {'mean ms':>10}", *rows])


if __name__ == "__main__":
    sys.exit(main())
