"""`python -m bench.faults`: what may go wrong around a service, done to one on purpose, each with a verdict.

In: options. Out: what is done on stderr, findings and a table on stdout, JSON and a plot where asked. Exit 0: every
promise was kept (a scenario that cannot be run here says so and breaks none); 1: one was broken; 2: wrong options, or
it was stopped.
"""

import argparse
import asyncio
import json
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bench.crash.service import NotWhole
from bench.crash.slow_disk import NoCompiler
from bench.drawing import draw
from bench.faults.clocks import clock_jump
from bench.faults.disk import disk_full
from bench.faults.half_open import half_open
from bench.faults.names import dns, store_name
from bench.faults.own_stores import NoStores
from bench.faults.partition import partition
from bench.faults.restarts import rolling, shutdown
from bench.faults.result import Finding, Skipped, Told, as_json, table, told
from bench.faults.rounds import OtherRun, recovery_table, rounds
from bench.faults.scene import Place
from bench.faults.slow import slow_clients, slow_upstream
from bench.faults.upgrade import OLD, upgrade
from proxy.cli.whole_file import file_to_write

Scenario = Callable[[Place], Awaitable[tuple[list[Finding], dict[str, Any]]]]
SCENARIOS: Final[Mapping[str, Scenario]] = {
    "rounds": rounds,
    "disk_full": disk_full,
    "clock_jump": clock_jump,
    "dns": dns,
    "store_name": store_name,
    "half_open": half_open,
    "partition": partition,
    "slow_upstream": slow_upstream,
    "slow_clients": slow_clients,
    "rolling": rolling,
    "shutdown": shutdown,
    "upgrade": upgrade,
}
EXAMPLES: Final = """examples:
  python -m bench.faults                                       everything in its short form, some minutes
  python -m bench.faults --only disk_full --only dns           two of them
  python -m bench.faults --only rounds --rounds 500 --resume rounds.json --json faults.json --plot faults.png
                                                               the long one; the same command goes on after a break
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    lines = [f"  {name:<15}{(scenario.__doc__ or '').splitlines()[0]}" for name, scenario in SCENARIOS.items()]
    found = argparse.ArgumentParser(
        prog="python -m bench.faults",
        description=__doc__,
        epilog="\n".join(["scenarios:", *lines, "", EXAMPLES]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--only", action="append", choices=list(SCENARIOS), help="this scenario; may be repeated")
    found.add_argument("--rounds", type=int, default=6, help="of kill -9 and SIGSTOP (default 6; 500 is the long form)")
    found.add_argument("--leg", type=int, default=25, help="rounds on one service before it is judged (default 25)")
    found.add_argument("--resume", type=Path, help="keep the legs that are done there, and go on from there")
    found.add_argument("--from", dest="old", help=f"the commit whose code `upgrade` begins with (default {OLD})")
    found.add_argument("--seed", type=int, default=1, help="of the random choices")
    found.add_argument("--json", type=file_to_write, help="write everything there")
    found.add_argument("--plot", type=file_to_write, help="draw it there (PNG; needs matplotlib)")
    found.add_argument("--keep", action="store_true", help="keep the directories and the logs")
    return found


async def tell(name: str, options: argparse.Namespace, root: Path) -> Told:
    """Run one scenario in a directory of its own."""
    did: list[str] = []
    began = time.monotonic()

    def say(line: str) -> None:
        did.append(line)
        print(f"{time.monotonic() - began:6.1f} s  {name}: {line}", file=sys.stderr, flush=True)

    place = Place(root / name, say, options.seed, options.rounds, options.leg, options.resume, options.old)
    place.root.mkdir(mode=0o755)
    findings, figures, skipped, broken = list[Finding](), dict[str, Any](), None, None
    try:
        findings, figures = await SCENARIOS[name](place)
    except (Skipped, NoCompiler) as absent:
        skipped = str(absent)
    except (NotWhole, NoStores) as fault:
        broken = str(fault)
    return Told(name, tuple(did), tuple(findings), time.monotonic() - began, skipped, broken, figures)


def main() -> int:
    """Entry point."""
    options = parser().parse_args()
    # A run that is told to end takes down what it started, as at Ctrl-C, which a shell's `&` has its programs ignore.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    root = Path(tempfile.mkdtemp(prefix="mp-faults-"))
    root.chmod(0o755)  # the embedded Postgres runs as another account where we are root
    names, all_told = list(options.only or SCENARIOS), list[Told]()
    try:
        for name in names:
            one = asyncio.run(tell(name, options, root))
            all_told.append(one)
            print(told(one), flush=True)
            if name == "rounds" and one.figures:
                print(recovery_table(one.figures))
            if not options.keep:
                shutil.rmtree(root / name, ignore_errors=True)
    except KeyboardInterrupt:
        print("bench.faults: stopped; what was going on is not judged", file=sys.stderr)
        return 2
    except OtherRun as fault:
        print(f"bench.faults: {fault}", file=sys.stderr)
        return 2
    finally:
        if options.keep:
            print(f"kept: {root}", file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)
        if all_told:  # what was judged before a fault of ours, or Ctrl-C, is told too
            print(f"\n{table(all_told)}", flush=True)
            _write(options, all_told, complete=len(all_told) == len(names))
    return 0 if all(one.kept for one in all_told) else 1


def _write(options: argparse.Namespace, all_told: list[Told], *, complete: bool) -> None:
    setting = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    whole = {"complete": complete, **as_json(all_told, {**setting, "machine": platform.platform()})}
    report = json.loads(json.dumps(whole, default=str))
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.plot is not None:
        draw("bench.faults.plot", report, options.plot)


if __name__ == "__main__":
    sys.exit(main())
