"""`python -m bench.prefix_cache`: what memory costs in vLLM's prefix cache, simulated or on a real vLLM.

Options in; tables on stdout, progress on stderr, JSON and a plot where asked. Exit 1: the bound asked for is missed, a
prompt was changed by more than blocks, or hardly any block was placed, so that nothing was shown. Exit 2: the command
line cannot be followed, a tokenizer cannot be had, or something did not start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.drawing import draw
from bench.overhead.processes import NotStarted
from bench.prefix_cache.dialogues import SCENARIOS, Dialogue, related_lines, scripts_of
from bench.prefix_cache.exchange import Exchange
from bench.prefix_cache.families import NAMES, family
from bench.prefix_cache.fetch import NotFetched
from bench.prefix_cache.prompts import TemplateUnfit
from bench.prefix_cache.real import SCENARIOS as REAL_SCENARIOS
from bench.prefix_cache.real import RealFailed, measure_real
from bench.prefix_cache.replay import PlayFailed, Recorded, play, recording
from bench.prefix_cache.report import real_failures, real_table, run_failures, run_json, table
from bench.prefix_cache.simulate import BLOCK_TOKENS, Result, simulate
from bench.prefix_cache.sources import SHAREGPT, dialogues_of
from bench.recall.client import CallFailed, import_turns
from bench.search_times.service import serving
from bench.work_folder import work_folder
from proxy.cli.whole_file import file_to_write

HOT_BYTES: Final = 1 << 30
# Recall has all the time it wants here: a block that a busy machine left out would be kept by anybody's ledger.
DEADLINE_MS: Final = 10_000
_QUICK: Final = {"dialogues": 12, "each": 4, "conversations": 2, "turns": 4}
_EPILOG: Final = """\
examples:
  python -m bench.prefix_cache --quick                        a look: 12 dialogues, a minute
  python -m bench.prefix_cache --json p.json --plot p.png     300 dialogues and every kind of client
  python -m bench.prefix_cache --workers 2                    the same before two proxy workers
  python -m bench.prefix_cache --vllm http://127.0.0.1:8000   on a real vLLM: 20 conversations of 10 turns

what is simulated: recorded dialogues are played, request by request, to a service of its own with memory on, whose
scope holds other conversations on the same subjects. A stand-in upstream gives the recorded answers and keeps every
body it receives. Each body is rendered by real chat templates, cut by real tokenizers, and run through vLLM's prefix
cache (chained blocks of --block tokens); so are the bodies as the client sent them, in the same order.

how to read it: `own` is the cached share of the client's own tokens with memory, divided by the same without; 1.000
means that memory cost the cache nothing. `raw` counts memory's tokens too. `blocks` is the share of requests in whose
prompt there is memory: without it nothing is shown. A violation is a pair of requests of one conversation whose prompts
share less than the clients' requests did (DESIGN, promise 4); with `altered` a client's own text was changed.

on a real vLLM: both arms are played one after the other, with /reset_prefix_cache before each (the server needs
VLLM_SERVER_DEV_MODE=1 for that, and --enable-prompt-tokens-details). Cached tokens are the server's own figures."""


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.prefix_cache",
        description="The prefix cache with memory on against memory off, on the client's own tokens.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is played")
    what.add_argument(
        "--file", type=Path, default=SHAREGPT, help="recorded dialogues, JSON lines (default: %(default)s)"
    )
    what.add_argument("--dialogues", type=int, default=300, help="dialogues of scenario `turn` (default 300)")
    what.add_argument("--each", type=int, default=40, help="dialogues of every other scenario (default 40)")
    what.add_argument("--scenarios", type=_names(tuple(SCENARIOS)), default=tuple(SCENARIOS), metavar="A,B")
    what.add_argument("--workers", type=int, default=1, help="proxy workers of the service (default 1)")
    what.add_argument("--at-once", type=int, default=4, help="conversations side by side (default 4)")
    what.add_argument("--quick", action="store_true", help="few dialogues: a look, not a result")
    cache = parser.add_argument_group("the cache")
    cache.add_argument("--families", type=_names(NAMES), default=NAMES, metavar="A,B", help=f"of {', '.join(NAMES)}")
    cache.add_argument("--block", type=int, default=BLOCK_TOKENS, help="tokens of a block (default 16, as on a GPU)")
    real = parser.add_argument_group("a real vLLM instead of the simulator")
    real.add_argument("--vllm", metavar="URL", help="its address")
    real.add_argument("--conversations", type=int, default=20, help="conversations (default 20)")
    real.add_argument("--turns", type=int, default=10, help="turns of each (default 10)")
    real.add_argument("--answer-tokens", type=int, default=16, help="most tokens of an answer (default 16)")
    out = parser.add_argument_group("output")
    out.add_argument("--bound", type=float, help="least ratio of own tokens (default .99, on a real vLLM .98)")
    out.add_argument(
        "--work", type=Path, help="directory for the service's data (default: a new one, deleted at the end)"
    )
    out.add_argument("--json", type=file_to_write, metavar="FILE")
    out.add_argument("--plot", type=file_to_write, metavar="FILE", help="PNG; needs matplotlib")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        parser.set_defaults(**_QUICK)
        arguments = parser.parse_args(argv)
    if min(arguments.dialogues, arguments.each, arguments.workers, arguments.at_once, arguments.block) < 1:
        parser.error("--dialogues, --each, --workers, --at-once and --block are 1 or more")
    if arguments.vllm and not set(arguments.scenarios) & set(REAL_SCENARIOS):
        parser.error(f"on a real vLLM there are {', '.join(REAL_SCENARIOS)}")
    if arguments.bound is None:
        arguments.bound = 0.98 if arguments.vllm else 0.99
    return arguments


def _names(known: Sequence[str]) -> Any:
    def read(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: there are {', '.join(known)}")
        return names

    return read


def _say(text: str) -> None:
    print(f"[prefix_cache] {text}", file=sys.stderr, flush=True)


async def played(arguments: argparse.Namespace, work: Path) -> dict[str, list[Exchange]]:
    """All scenarios on one service; exchanges by scenario. Raises NotStarted, CallFailed, PlayFailed."""
    dialogues = dialogues_of(arguments.file, max(arguments.dialogues, arguments.each))
    more = f"  deadline_ms: {DEADLINE_MS}\nlisten:\n  workers: {arguments.workers}\n"
    found: dict[str, list[Exchange]] = {}
    async with recording() as (upstream, recorded), serving(work, upstream, HOT_BYTES, more) as served:
        for scenario in arguments.scenarios:
            number = arguments.dialogues if scenario == "turn" else arguments.each
            found[scenario] = await _scenario(served.url, recorded, scenario, dialogues[:number], arguments.at_once)
    return found


async def _scenario(
    url: str, recorded: Recorded, scenario: str, dialogues: Sequence[Dialogue], at_once: int
) -> list[Exchange]:
    """One scenario as a user of its own, whose memory is filled first."""
    scripts = scripts_of(scenario, dialogues)
    lines = related_lines(scripts, {dialogue.id: dialogue for dialogue in dialogues})
    user = f"prefix-{scenario}"
    _say(f"{scenario}: {len(lines)} past turns are imported")
    async with aiohttp.ClientSession() as http:
        await import_turns(http, url, user, lines, lambda _: None)
    _say(f"{scenario}: {sum(len(script.requests) for script in scripts)} requests of {len(scripts)} conversations")
    return await play(url, recorded, scripts, user=user, at_once=at_once)


def simulated(arguments: argparse.Namespace, work: Path) -> tuple[str, list[str], dict[str, Any]]:
    """The run on the simulator: its table, what is wrong, its report."""
    families = [family(name) for name in arguments.families]  # before anything is started: they may be missing
    exchanges = asyncio.run(played(arguments, work))
    results: dict[str, list[Result]] = {}
    for name, some in exchanges.items():
        _say(f"{name}: {len(some)} requests through {len(families)} tokenizers")
        results[name] = [simulate(some, one, block_tokens=arguments.block) for one in families]
    heads = {name: _heads(some) for name, some in exchanges.items()}
    report = {"settings": _settings(arguments), "scenarios": run_json(results), "heads": heads}
    return table(results), run_failures(results, arguments.bound), report


def _heads(exchanges: Sequence[Exchange]) -> dict[str, Any]:
    """What the answers' heads said, for whoever asks why: X-Memory-Status by its value, Count and Kept summed."""
    statuses = Counter(exchange.status for exchange in exchanges)
    sums = {"placed": sum(one.placed for one in exchanges), "kept": sum(one.kept for one in exchanges)}
    return {"status": dict(statuses), **sums}


def on_vllm(arguments: argparse.Namespace, work: Path) -> tuple[str, list[str], dict[str, Any]]:
    """The run on a real vLLM: the same three."""
    found = asyncio.run(measure_real(arguments, work, _say))
    report = {
        "complete": not arguments.quick,
        "settings": _settings(arguments),
        "real": [{**asdict(one), "ratio": one.ratio, "raw_ratio": one.raw_ratio} for one in found],
    }
    return real_table(found), real_failures(found, arguments.bound), report


def _settings(arguments: argparse.Namespace) -> Mapping[str, Any]:
    given = {name: value for name, value in vars(arguments).items() if name not in ("json", "plot", "work", "quick")}
    given["file"] = arguments.file.name
    return {"at": datetime.now(UTC).isoformat(timespec="seconds"), **given}


def main(argv: list[str] | None = None) -> int:
    """Run, report, judge."""
    arguments = parse_arguments(argv)
    try:
        with work_folder(arguments.work) as work:
            shown, failures, report = (on_vllm if arguments.vllm else simulated)(arguments, work)
    except (NotStarted, NotFetched, CallFailed, PlayFailed, RealFailed, TemplateUnfit, OSError, ValueError) as exc:
        print(f"prefix_cache: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 2
    print(shown)
    if arguments.json:
        arguments.json.write_text(json.dumps({**report, "failures": failures}, indent=1, default=str) + "\n")
    drawn = draw("bench.prefix_cache.plot", report, arguments.plot) if arguments.plot else 0
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else drawn


if __name__ == "__main__":
    sys.exit(main())
