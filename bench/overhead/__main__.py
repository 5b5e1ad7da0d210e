"""`python -m bench.overhead`: start what is needed, measure all targets, print the table.

In: options. Out: the table on stdout, progress on stderr, JSON and a plot where asked. It refuses
(exit 2) contradictory options; exit 1 when a process does not start or any request failed.
"""

import argparse
import asyncio
import json
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from bench.fake_vllm.launch import command_line
from bench.overhead.fill import FillFailed, fill, settled
from bench.overhead.load import Target
from bench.overhead.measure import Pace, Plan, Questions, Say, TargetFailed, measure_latency, measure_throughput
from bench.overhead.processes import CpuMeter, NotStarted, free_port, started, wait_ready
from bench.overhead.report import BASELINE, DIRECT, PaceResult, error_count, plot, result_json, table
from bench.work_folder import work_folder
from proxy.cli.whole_file import file_to_write

DEFAULT_START = "{bin}/memory-proxy serve --upstream {upstream} --host 127.0.0.1 --port {port} --data-dir {data_dir}"
SAY_EVERY_S = 2.0
BENCH_USER = "bench-overhead"
EXAMPLES = """examples:
  python -m bench.overhead                                  everything, about eight minutes
  python -m bench.overhead --quick                          a look, about one minute
  python -m bench.overhead --memories 10000 --json overhead.json --plot overhead.png
  python -m bench.overhead --modes off,read,on              also memory that reads without keeping
  python -m bench.overhead --proxy http://127.0.0.1:9000 --proxy-pid 4711 --upstream http://127.0.0.1:8000
  python -m bench.overhead --ready-path /health --modes off \\
      --start '{python} -m bench.plain_proxy --upstream {upstream} --port {port}'      any other proxy

how to read it: `direct again` is the noise floor: what it adds over `direct` is chance. Times are those of
this machine under its present load; the ratios to the plain proxy (x) are what carries over to others."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What runs: base URLs of upstream, baseline and proxy, and the process trees to charge."""

    upstream: str
    plain: str
    proxy: str
    plain_meter: CpuMeter
    proxy_meter: CpuMeter | None


def _speaker(quiet: bool) -> Say:
    """Progress on stderr, at most one line in two seconds."""
    last_s = 0.0

    def say(text: str) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if not quiet and now_s - last_s >= SAY_EVERY_S:
            last_s = now_s
            print(f"[overhead] {text}", file=sys.stderr, flush=True)

    return say


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.overhead",
        description="What the proxy costs: first byte, CPU and streams a second, paired in one run with direct and "
        "with a plain pass-through proxy.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument("--proxy", metavar="URL", help="a proxy that runs already (then --upstream must be its upstream)")
    what.add_argument("--proxy-pid", type=int, help="its process id, for CPU time (with its descendants)")
    what.add_argument(
        "--start",
        metavar="CMD",
        default=DEFAULT_START,
        help=f"or start one (default: {DEFAULT_START.replace('%', '%%')})",
    )
    what.add_argument("--ready-path", default="/memory/ready", help="answers 200 when the started proxy is ready")
    what.add_argument("--ready-timeout-s", type=float, default=180.0)
    what.add_argument("--upstream", metavar="URL", help="an upstream that runs already")
    what.add_argument("--upstream-start", choices=["fake"], default="fake", help="or start the stand-in (default)")
    what.add_argument("--model", help="model name to ask for (default: none is sent)")
    what.add_argument("--modes", default="off,on", help="values of X-Memory-Mode to measure (default: off,on)")
    what.add_argument("--memories", type=int, default=0, metavar="N", help="import N facts before measuring (10000)")
    how = parser.add_argument_group("how much")
    how.add_argument("--requests", type=int, default=300, help="paired latency rounds at instant pace")
    how.add_argument("--paced-requests", type=int, default=40, help="paired latency rounds at the paced one")
    how.add_argument("--rounds", type=int, default=3, help="throughput rounds; medians are reported")
    how.add_argument("--seconds", type=float, default=3.0, help="length of a throughput block")
    how.add_argument("--clients", default="1,16,64", help="numbers of clients (default: 1,16,64)")
    how.add_argument("--tokens", type=int, default=64, help="tokens of an answer")
    how.add_argument(
        "--burst",
        type=int,
        default=1,
        help="instant: events per socket write of the stand-in (default 1, as vLLM writes)",
    )
    how.add_argument("--first-ms", type=float, default=20.0, help="paced: milliseconds to the first token")
    how.add_argument("--token-ms", type=float, default=5.0, help="paced: milliseconds between tokens")
    how.add_argument("--paces", default="instant,paced", help="instant, paced or both")
    how.add_argument("--settle-max-s", type=float, default=60.0, help="wait so long for the work left behind a block")
    how.add_argument("--quick", action="store_true", help="few requests, one short round: a look, not a result")
    out = parser.add_argument_group("output")
    out.add_argument("--json", type=file_to_write, metavar="FILE")
    out.add_argument("--plot", type=file_to_write, metavar="FILE", help="PNG")
    out.add_argument("--quiet", action="store_true", help="no progress on stderr")
    arguments = parser.parse_args(argv)
    if arguments.proxy and not arguments.upstream:
        parser.error("--proxy needs --upstream: both ways must lead to the same model")
    if set(arguments.paces.split(",")) - {"instant", "paced"}:
        parser.error("--paces takes instant, paced or instant,paced")
    if arguments.quick:
        arguments.requests, arguments.paced_requests = min(arguments.requests, 50), min(arguments.paced_requests, 10)
        arguments.rounds, arguments.seconds = 1, min(arguments.seconds, 1.0)
    return arguments


async def _start(
    stack: AsyncExitStack, name: str, argv: list[str], url: str, work: Path, timeout_s: float, say: Say
) -> CpuMeter:
    log = work / f"{name}.log"
    say(f"starting {name}: {shlex.join(argv)}")
    process = await stack.enter_async_context(started(argv, log))
    await wait_ready(url, process, log, timeout_s)
    return CpuMeter(process.pid)


async def set_scene(stack: AsyncExitStack, arguments: argparse.Namespace, work: Path, say: Say) -> Scene:
    """Start what is not given by URL. Raises NotStarted."""
    upstream = arguments.upstream
    if upstream is None:
        port = free_port()
        upstream = f"http://127.0.0.1:{port}"
        argv = command_line(port, tokens=arguments.tokens, burst=arguments.burst)
        await _start(stack, "upstream", argv, f"{upstream}/health", work, 30.0, say)
    port = free_port()
    plain = f"http://127.0.0.1:{port}"
    argv = [sys.executable, "-m", "bench.plain_proxy", "--upstream", upstream, "--port", str(port)]
    plain_meter = await _start(stack, "plain", argv, f"{plain}/health", work, 30.0, say)
    if arguments.proxy:
        meter = CpuMeter(arguments.proxy_pid) if arguments.proxy_pid else None
        return Scene(upstream, plain, arguments.proxy.rstrip("/"), plain_meter, meter)
    port = free_port()
    proxy = f"http://127.0.0.1:{port}"
    command = arguments.start.format(
        upstream=upstream,
        port=port,
        data_dir=work / "data",
        python=sys.executable,
        bin=Path(sys.executable).parent,
    )
    ready = proxy + arguments.ready_path
    proxy_meter = await _start(stack, "proxy", shlex.split(command), ready, work, arguments.ready_timeout_s, say)
    return Scene(upstream, plain, proxy, plain_meter, proxy_meter)


def targets_of(scene: Scene, modes: list[str]) -> list[Target]:
    """Direct twice (the second is the noise control), the plain proxy, ours in each memory mode."""
    user = ("X-Memory-User", BENCH_USER)
    ours = [Target(f"memory {mode}", scene.proxy, (("X-Memory-Mode", mode), user)) for mode in modes]
    return [
        Target(DIRECT, scene.upstream),
        Target(f"{DIRECT} again", scene.upstream),
        Target(BASELINE, scene.plain),
        *ours,
    ]


async def measure(arguments: argparse.Namespace, scene: Scene, say: Say) -> list[PaceResult]:
    """All paces: latency first, throughput then."""
    targets = targets_of(scene, arguments.modes.split(","))
    headers = {"X-Memory-User": BENCH_USER}
    meters = {BASELINE: scene.plain_meter}
    settles: dict[str, Callable[[], Awaitable[object]]] = {}
    for target in targets[3:]:
        settles[target.name] = partial(settled, scene.proxy, headers, arguments.settle_max_s)
        if scene.proxy_meter is not None:
            meters[target.name] = scene.proxy_meter
    paces = {
        "instant": (Pace("instant", 0.0, 0.0), arguments.requests),
        "paced": (Pace("paced", arguments.first_ms, arguments.token_ms), arguments.paced_requests),
    }
    questions = Questions()
    results: list[PaceResult] = []
    for name in arguments.paces.split(","):
        pace, requests = paces[name]
        plan = Plan(
            requests=requests,
            rounds=arguments.rounds,
            seconds=arguments.seconds,
            clients=tuple(int(c) for c in arguments.clients.split(",")),
            tokens=arguments.tokens,
            model=arguments.model,
            warm_up=max(requests // 10, 3),
        )
        latency = await measure_latency(targets, pace, plan, questions, say)
        blocks = await measure_throughput(
            [t for t in targets if t.name != f"{DIRECT} again"], pace, plan, questions, meters, settles, say
        )
        results.append(PaceResult(name, latency, blocks))
    return results


def make_report(arguments: argparse.Namespace, results: list[PaceResult], load: float) -> dict[str, Any]:
    shown = (
        "requests",
        "paced_requests",
        "rounds",
        "seconds",
        "clients",
        "tokens",
        "burst",
        "first_ms",
        "token_ms",
        "memories",
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": not arguments.quick,
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 2)},
        "settings": {name: getattr(arguments, name) for name in (*shown, "modes")},
        "paces": {result.pace: result_json(result) for result in results},
    }


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole benchmark. Raises NotStarted, FillFailed, TargetFailed, OSError."""
    say = _speaker(arguments.quiet)
    this = asyncio.current_task()
    if this is not None:  # ended from outside: what was started here is stopped all the same
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    load = os.getloadavg()[0]
    with work_folder(prefix="overhead-") as work:
        async with AsyncExitStack() as stack:
            scene = await set_scene(stack, arguments, work, say)
            if arguments.memories:
                await fill(scene.proxy, {"X-Memory-User": BENCH_USER}, arguments.memories, say)
            results = await measure(arguments, scene, say)
    return make_report(arguments, results, load)


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    try:
        report = uvloop.run(run(arguments))
    except (NotStarted, FillFailed, TargetFailed, OSError) as exc:
        print(f"overhead: {exc}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("overhead: ended before it was done", file=sys.stderr)
        return 1
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if arguments.plot:
        plot(report, arguments.plot)
    errors = error_count(report)
    if errors:
        print(f"overhead: {errors} requests failed", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
