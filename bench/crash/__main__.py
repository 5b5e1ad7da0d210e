"""`python -m bench.crash`: kill a service's processes for some rounds under traffic, then count.

In: options. Out: progress on stderr, the table on stdout, JSON where asked. Exit 0: something was acknowledged, nothing
of it was lost or stored twice, and no completion failed because of memory; 1: it was not so; 2: it could not be run.
"""

import argparse
import asyncio
import json
import platform
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from bench.crash.report import as_json, table
from bench.crash.rounds import Plan, run
from bench.crash.service import NotWhole, Service, Shape
from bench.crash.slow_disk import NoCompiler
from bench.crash.upstream import KeptUpstream
from proxy.cli.whole_file import file_to_write


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="python -m bench.crash", description=__doc__)
    found.add_argument("--rounds", type=int, default=100, help="blows, one or two processes each (default 100)")
    found.add_argument("--clients", type=int, default=16, help="clients at once (default 16)")
    found.add_argument("--pause-s", type=float, default=0.8, help="mean pause of a client between requests")
    found.add_argument("--seed", type=int, default=1, help="of the random choices")
    found.add_argument("--slow-fsync-ms", type=int, default=0, help="delay every fsync of Valkey by so much")
    found.add_argument("--json", type=file_to_write, help="write everything there")
    found.add_argument("--keep", action="store_true", help="keep the data directory and the log")
    return found


async def measure(options: argparse.Namespace, root: Path) -> int:
    """Run once and print."""
    async with KeptUpstream() as upstream:
        service = Service(Shape(root, upstream.url, slow_fsync_ms=options.slow_fsync_ms), upstream)
        plan = Plan(options.rounds, options.clients, options.pause_s, options.seed)
        try:
            outcome = await run(service, plan, lambda line: print(line, file=sys.stderr, flush=True))
        finally:
            code = await service.stop()
    print(table(outcome))
    print(f"the service ended with {code} at SIGTERM, after {service.starts} starts")
    if options.json is not None:
        setting = {**vars(options), "json": str(options.json), "machine": platform.platform()}
        options.json.write_text(json.dumps(as_json(outcome, setting), indent=1) + "\n")
    return 0 if outcome.verdict.kept and not outcome.blame.memory else 1


def main() -> int:
    """Entry point."""
    options = parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # both, since a shell's `&` has its programs ignore the first
        signal.signal(number, signal.default_int_handler)
    root = Path(tempfile.mkdtemp(prefix="mp-crash-"))
    root.chmod(0o755)  # the embedded Postgres runs as another account where we are root
    try:
        return asyncio.run(measure(options, root))
    except (NotWhole, NoCompiler) as fault:
        print(f"bench.crash: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench.crash: stopped; nothing is judged", file=sys.stderr)
        return 2
    finally:
        if options.keep:
            print(f"kept: {root}", file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
