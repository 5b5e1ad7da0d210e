"""`python -m bench.recall`: recall of the running service on conversations with known evidence.

Options in; the table on stdout, progress on stderr, JSON and a plot where asked. Starts a service of its own, with the
product's own defaults and the stand-in upstream, unless --url names one. One setting for all sets: none can be given.
Exit 1: a floor is missed, a turn leaked, or something did not start or answer. Exit 2: there is no evaluation data.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.fake_vllm.launch import fake_vllm_process
from bench.overhead.processes import NotStarted, free_port, started, wait_ready
from bench.recall.client import CallFailed, session
from bench.recall.corpus import SETS, EvalSet, SetUnreadable, read_set
from bench.recall.report import failures, plot, table
from bench.recall.run import ask_set, import_set, set_result

DATA = Path(__file__).resolve().parents[3] / "shared" / "evaldata"
READY_TIMEOUT_S = 180.0


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.recall",
        description="Recall by turn through POST /memory/v1/import and /memory/v1/search, beside BM25.",
        epilog="All three sets take about ten minutes on two cores, most of it the embedding of BEAM's long turns.",
    )
    parser.add_argument("--data", type=Path, default=DATA, help=f"directory of the sets (default: {DATA})")
    parser.add_argument("--sets", default=",".join(SETS), help=f"which, by comma (default: {','.join(SETS)})")
    parser.add_argument("--url", help="a service that runs already; its users named like the sets' scopes are used")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    arguments = parser.parse_args(argv)
    arguments.sets = arguments.sets.split(",")
    if unknown := set(arguments.sets) - set(SETS):
        parser.error(f"unknown set {', '.join(sorted(unknown))}; known: {', '.join(SETS)}")
    return arguments


@asynccontextmanager
async def running_service(upstream: str) -> AsyncIterator[str]:
    """A service before `upstream`, in a directory of its own; its base URL. Raises NotStarted."""
    with tempfile.TemporaryDirectory(prefix="recall-") as folder:
        work = Path(folder)
        work.chmod(0o711)  # the embedded database may run as another user and has to reach its directory
        port = free_port()
        url, log = f"http://127.0.0.1:{port}", work / "service.log"
        argv = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream]
        argv += ["--port", str(port), "--data-dir", str(work / "data")]
        async with started(argv, log) as process:
            await wait_ready(f"{url}/memory/ready", process, log, READY_TIMEOUT_S)
            yield url


@asynccontextmanager
async def service_at(url: str | None) -> AsyncIterator[str]:
    """The service named, or one of our own before the stand-in."""
    if url is not None:
        yield url.rstrip("/")
        return
    async with fake_vllm_process() as (upstream, _), running_service(upstream) as own:
        yield own


async def run(arguments: argparse.Namespace, chosen: list[EvalSet]) -> dict[str, Any]:
    """The whole benchmark. Raises NotStarted, CallFailed."""

    def say(text: str) -> None:
        if not arguments.quiet:
            print(f"[recall] {text}", file=sys.stderr, flush=True)

    load = os.getloadavg()[0]
    results: dict[str, Any] = {}
    async with service_at(arguments.url) as url, session() as client:
        for one in chosen:
            say(f"{one.name}: importing {one.turn_count} turns of {len(one.lines)} scopes")
            seconds = await import_set(client, url, one, say)
            results[one.name] = set_result(one, await ask_set(client, url, one, say), seconds)
            say(f"{one.name}: turn recall@10 {results[one.name]['ours']['recall@10']['mean']:.3f}")
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 2)},
        "sets": results,
    }


def main(argv: list[str] | None = None) -> int:
    """Run and report."""
    arguments = parse_arguments(argv)
    try:
        chosen = [read_set(arguments.data, name) for name in arguments.sets]
    except SetUnreadable as exc:
        print(f"recall: {exc}; --data names the directory of the evaluation sets", file=sys.stderr)
        return 2
    try:
        report = asyncio.run(run(arguments, chosen))
    except (NotStarted, CallFailed, OSError) as exc:
        print(f"recall: {exc}", file=sys.stderr)
        return 1
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if arguments.plot:
        plot(report, arguments.plot)
    missed = failures(report)
    for line in missed:
        print(f"recall: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
