"""`python -m bench.recall`: recall of the running service on conversations with known evidence, judged without an LLM.

Options in; the table on stdout, progress on stderr, JSON and a plot where asked. Starts a service of its own, with the
product's own defaults and the stand-in upstream, unless --url names one or --upstream a model. One setting for all
sets: none can be given.
Exit 1: a floor or a limit is missed, a turn leaked, or something did not start or answer. Exit 2: there is no
evaluation data, or the command line cannot be followed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import platform
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.drawing import draw
from bench.fake_vllm.launch import fake_vllm_process
from bench.overhead.processes import NotStarted, free_port, started, wait_ready
from bench.recall import mixed
from bench.recall.against import ReportUnreadable, difference_table, differences, read_report
from bench.recall.chat import refuse_stand_in
from bench.recall.client import CallFailed, session
from bench.recall.corpus import SETS, EvalSet, SetUnreadable, read_set
from bench.recall.report import failures, table
from bench.recall.result import set_result
from bench.recall.run import Measured, Say, answer_set, ask_set, baseline_rankings, chat_set, import_set
from bench.work_folder import work_folder
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import default_cache_dir, prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.config_sections import Recall
from memory.errors import EmbedderUnavailable, ModelFileInvalid
from proxy.cli.whole_file import file_to_write

DATA = Path(__file__).resolve().parents[3] / "shared" / "evaldata"
READY_TIMEOUT_S = 180.0


_KNOWN: Final = (*SETS, mixed.NAME)
_EPILOG: Final = """\
Each set is imported, each question asked three ways: POST /memory/v1/search (the ranked list), a chat completion before
a stand-in model (what was really injected), and the baselines over the same turns: BM25, the product's embedder, both
fused. Evidence is known for each question, so nothing is judged by a model.

  python -m bench.recall --json now.json                     all figures, ten to twenty minutes on two cores
  python -m bench.recall --sets memsim --no-dense            the quickest look, about a minute
  python -m bench.recall --against now.json --budgets 500    the same after a change, and what changed
  python -m bench.recall --sets mixed                        two lives in each scope, and ShareGPT's first requests
  python -m bench.recall --answers 40 --upstream http://127.0.0.1:8000 --sets locomo --no-injected --no-dense
                                                             answers of that model, with memory and without

--answers compares words (exact match, token F1), so questions with a short known answer are taken; no model judges. An
upstream that asks for a key gets it as the service does: MEMORY_PROXY_UPSTREAM__API_KEY.

`memory-proxy eval` is the same command. Budgets above the service's own recall.budget_tokens_max are cut to it by a
service that --url names; a service of our own is started so that it allows the largest.
"""


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.recall",
        description="Recall by turn through the service's own HTTP API: what is found, what is injected, at what cost.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=DATA, help=f"directory of the sets (default: {DATA})")
    parser.add_argument(
        "--sets", default=",".join(SETS), help=f"of {', '.join(_KNOWN)}, by comma (default: {','.join(SETS)})"
    )
    parser.add_argument("--url", help="a service that runs already; its users named like the sets' scopes are used")
    parser.add_argument(
        "--upstream", metavar="URL", help="an OpenAI-compatible server behind our own service (default: the stand-in)"
    )
    parser.add_argument(
        "--answers", type=_count, metavar="N", help="ask N questions of each set for answers, with memory and without"
    )
    parser.add_argument("--model", help="the model that answers (default: the first that is served)")
    parser.add_argument(
        "--budgets", type=_budgets, default=(), metavar="N,N", help="ask all chats again with these X-Memory-Budget"
    )
    parser.add_argument("--no-injected", action="store_true", help="leave out the chats, so what was really injected")
    parser.add_argument("--no-dense", action="store_true", help="leave out the baselines that embed (minutes on BEAM)")
    parser.add_argument("--against", type=Path, metavar="FILE", help="JSON of an earlier run: print what changed")
    parser.add_argument("--json", type=file_to_write, metavar="FILE")
    parser.add_argument("--plot", type=file_to_write, metavar="FILE", help="PNG; needs matplotlib")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    arguments = parser.parse_args(argv)
    arguments.sets = arguments.sets.split(",")
    if unknown := set(arguments.sets) - set(_KNOWN):
        parser.error(f"unknown set {', '.join(sorted(unknown))}; known: {', '.join(_KNOWN)}")
    if arguments.budgets and arguments.no_injected:
        parser.error("--budgets are those of the chats that --no-injected leaves out")
    if wrong := _wrong_upstream(arguments):
        parser.error(wrong)
    if arguments.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib, which is not installed")
    try:
        arguments.earlier = read_report(arguments.against) if arguments.against else None
    except ReportUnreadable as exc:
        parser.error(f"--against {exc}")
    return arguments


def _wrong_upstream(arguments: argparse.Namespace) -> str | None:
    if arguments.url and arguments.upstream:
        return "--upstream stands behind a service of our own, which --url leaves out"
    if arguments.answers and not (arguments.url or arguments.upstream):
        return (
            "--answers needs a model that answers, and the stand-in writes filler: add --upstream "
            "http://127.0.0.1:8000 (any OpenAI-compatible server), or --url of a service before one"
        )
    if arguments.model and not arguments.answers:
        return "--model is the one that --answers asks"
    return None


def _count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("1 question or more")
    return int(text)


def _budgets(text: str) -> tuple[int, ...]:
    budgets = tuple(int(part) for part in text.split(","))
    if min(budgets) < 1:
        raise argparse.ArgumentTypeError("a budget is 1 token or more")
    return budgets


@asynccontextmanager
async def running_service(upstream: str, budget_tokens_max: int | None = None) -> AsyncIterator[str]:
    """A service before `upstream`, in a directory of its own; its base URL. Raises NotStarted.

    With the product's defaults but for `budget_tokens_max`, where it is given.
    """
    with work_folder(prefix="recall-") as work:
        port = free_port()
        url, log = f"http://127.0.0.1:{port}", work / "service.log"
        argv = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream]
        argv += ["--port", str(port), "--data-dir", str(work / "data")]
        if budget_tokens_max is not None:
            config = work / "config.yaml"
            config.write_text(f"recall:\n  budget_tokens_max: {budget_tokens_max}\n")
            argv += ["--config", str(config)]
        async with started(argv, log) as process:
            await wait_ready(f"{url}/memory/ready", process, log, READY_TIMEOUT_S)
            yield url


@asynccontextmanager
async def upstream_at(url: str | None) -> AsyncIterator[str]:
    """The model server named, or the stand-in. Raises NotStarted."""
    if url is not None:
        yield url.rstrip("/")
        return
    async with fake_vllm_process() as (stand_in, _):
        yield stand_in


@asynccontextmanager
async def service_at(
    url: str | None, upstream: str | None, budgets: tuple[int, ...]
) -> AsyncIterator[tuple[str, int | None]]:
    """The service named, or one of our own before `upstream`; and the budget to ask for so that its default holds."""
    if url is not None:
        yield url.rstrip("/"), None
        return
    default = int(Recall().budget_tokens_max)
    largest = max(budgets, default=0) if max(budgets, default=0) > default else None
    async with upstream_at(upstream) as behind, running_service(behind, largest) as own:
        yield own, default if largest else None


@contextmanager
def embedder_unless(left_out: bool) -> Iterator[OnnxEmbedder | None]:
    """The product's own embedder, or None. Raises ModelFileInvalid."""
    if left_out:
        yield None
        return
    files = prepare_model(read_registry()[DEFAULT_MODEL], default_cache_dir(os.environ), lambda step: None)
    embedder = OnnxEmbedder(files)
    try:
        yield embedder
    finally:
        embedder.close()


async def run(arguments: argparse.Namespace, chosen: list[EvalSet]) -> dict[str, Any]:
    """The whole benchmark. Raises NotStarted, CallFailed, EmbedderUnavailable, ModelFileInvalid."""

    def say(text: str) -> None:
        if not arguments.quiet:
            print(f"[recall] {text}", file=sys.stderr, flush=True)

    load = os.getloadavg()[0]
    results: dict[str, Any] = {}
    with embedder_unless(arguments.no_dense) as embedder:
        async with (
            service_at(arguments.url, arguments.upstream, arguments.budgets) as (url, budget),
            session(arguments.url) as client,
        ):
            if arguments.answers:
                await refuse_stand_in(client, url)
            for one in chosen:
                measured = await measure(client, url, one, arguments, budget, embedder, say)
                result = results[one.name] = set_result(one, measured)
                said = f"{one.name}: turn recall@10 {result['ours']['recall@10']['mean']:.3f}"
                say(said + (f", injected {result['injected']['fraction']['mean']:.3f}" if result["injected"] else ""))
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 2)},
        "sets": results,
    }


async def measure(
    client: aiohttp.ClientSession,
    url: str,
    one: EvalSet,
    arguments: argparse.Namespace,
    budget: int | None,
    embedder: OnnxEmbedder | None,
    say: Say,
) -> Measured:
    """One set, from import to baselines. Raises CallFailed, EmbedderUnavailable."""
    say(f"{one.name}: importing {one.turn_count} turns of {len(one.lines)} scopes")
    seconds = await import_set(client, url, one, say)
    asked = await ask_set(client, url, one, say)
    given = [] if arguments.no_injected else await chat_set(client, url, one, budget, say)
    budgets = {}
    for tokens in arguments.budgets:
        say(f"{one.name}: chats again with a budget of {tokens} tokens")
        budgets[tokens] = await chat_set(client, url, one, tokens, say)
    probe = None
    if arguments.answers:
        probe = await answer_set(client, url, one, arguments.answers, say, model=arguments.model, budget=budget)
    return Measured(asked, await baseline_rankings(one, embedder, say), seconds, given, budgets, probe)


def main(argv: list[str] | None = None) -> int:
    """Run and report."""
    arguments = parse_arguments(argv)
    try:
        chosen = [
            mixed.read_mixed(arguments.data) if name == mixed.NAME else read_set(arguments.data, name)
            for name in arguments.sets
        ]
    except SetUnreadable as exc:
        print(f"recall: {exc}; --data names the directory of the evaluation sets", file=sys.stderr)
        return 2
    try:
        report = asyncio.run(run(arguments, chosen))
    except (NotStarted, CallFailed, EmbedderUnavailable, ModelFileInvalid, OSError) as exc:
        print(f"recall: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("recall: ended before it was done", file=sys.stderr)
        return 1
    print(table(report))
    if arguments.earlier is not None:
        print(f"\nagainst {arguments.against} ({arguments.earlier.get('at', 'no date')}):")
        print(difference_table(differences(arguments.earlier, report)))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    drawn = draw("bench.recall.plot", report, arguments.plot) if arguments.plot else 0
    missed = failures(report)
    for line in missed:
        print(f"recall: {line}", file=sys.stderr)
    return 1 if missed or drawn else 0


if __name__ == "__main__":
    sys.exit(main())
