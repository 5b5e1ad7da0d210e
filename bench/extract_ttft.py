"""`python -m bench.extract_ttft --vllm URL`: what users of a vLLM pay while it extracts facts from what they said.

A service with `extract.by: vllm` stands before a real vLLM. First so many conversations are held while its memory
worker is stopped (SIGSTOP), so that all of them wait for extraction. Then one client asks, without memory, in blocks:
with the worker stopped and vLLM idle, with the worker going on, idle, … Question n of neighbouring blocks is the same
text but for its first words, so no prompt comes from the prefix cache. Time to first token is taken at the client.

`--pause` names vLLM's metrics to the service (upstream.metrics_urls), so that extraction waits while users wait;
without it only vLLM's own order decides: start it with `--scheduling-policy priority` for that. Report on stdout,
progress on stderr. Exit 1: something did not start or answer. On a busy machine only the ratio means anything.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.overhead.processes import NotStarted, kind_of, process_tree
from bench.recall.chat import served_model
from bench.recall.client import CallFailed, user_header
from bench.search_times.service import Served, serving
from bench.stats import Summary, paired_differences, quantile
from bench.work_folder import work_folder
from proxy.cli.whole_file import file_to_write

HOT_BYTES: Final = 1 << 28
SETTLE_S: Final = 120.0
_SAID: Final = "My name is {name} and I moved to {city} in {year}. I work on the {thing} team and make its releases."
_NAMES: Final = ("Ada", "Bela", "Chidi", "Dora", "Emil", "Farah", "Goran", "Hana")
_CITIES: Final = ("Lisbon", "Graz", "Lagos", "Tromso", "Kyoto", "Quito", "Perth", "Riga")
_THINGS: Final = ("billing", "search", "storage", "identity", "mail", "maps", "video", "payments")
_FILLER: Final = (
    "The last release took longer than we planned because the tests of the import were slow and two of them failed "
    "only at night. We looked at the logs, found a clock that was set wrong, and wrote down what to do then. "
)
_GAUGE: Final = re.compile(rb"^vllm:num_requests_running(?:\{[^}]*\})? ([0-9.e+]+)$", re.M)


class Vllm:
    """The model server: how many requests it runs."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url

    async def running(self) -> int:
        """Requests it computes now."""
        async with self._http.get(f"{self._url}/metrics") as answer:
            found = _GAUGE.findall(await answer.read())
        if not found:
            raise CallFailed(f"{self._url}/metrics has no vllm:num_requests_running: is this a vLLM?")
        return round(sum(map(float, found)))

    async def until(self, reached: Callable[[int], bool], what: str) -> None:
        """Wait until so many run. Raises CallFailed after SETTLE_S."""
        deadline = time.monotonic() + SETTLE_S
        while not reached(await self.running()):
            if time.monotonic() > deadline:
                raise CallFailed(f"vLLM was not {what} within {SETTLE_S:.0f} s")
            await asyncio.sleep(0.1)


class Client:
    """One user's chats through the service."""

    def __init__(self, http: aiohttp.ClientSession, served: Served, model: str) -> None:
        self._http = http
        self._url = f"{served.url}/v1/chat/completions"
        self._model = model

    async def ttft_s(self, user: str, text: str, max_tokens: int, mode: str) -> float:
        """Ask in a stream, read it to its end; the seconds to the first token."""
        messages = [{"role": "user", "content": text}]
        body = {"model": self._model, "messages": messages, "max_tokens": max_tokens, "stream": True, "temperature": 0}
        headers = {**user_header(user), "X-Memory-Mode": mode}
        began, first = time.perf_counter(), 0.0
        async with self._http.post(self._url, json=body, headers=headers) as answer:
            if answer.status != 200:
                raise CallFailed(f"the service answered {answer.status}: {(await answer.text())[:200]}")
            async for line in answer.content:
                if not first and b'"content":"' in line and b'"content":""' not in line:
                    first = time.perf_counter() - began
        if not first:
            raise CallFailed("an answer without a token")
        return first


def worker_pids(root: int) -> list[int]:
    """The memory workers below a process."""
    found = []
    for pid in process_tree(root):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        if kind_of(words) == "worker":
            found.append(pid)
    return found


@asynccontextmanager
async def stopped(pids: Sequence[int]) -> AsyncIterator[None]:
    """The processes stand still meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def long_text(number: int, words: int) -> str:
    """A user's message of about so many words that states things, never the same twice."""
    said = _SAID.format(
        name=_NAMES[number % 8],
        city=_CITIES[number // 8 % 8],
        year=1990 + number % 30,
        thing=_THINGS[number // 3 % 8],
    )
    times = max(0, words - len(said.split())) // len(_FILLER.split())
    return f"Note {number}. {said} " + _FILLER * times


async def measure(served: Served, arguments: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Fill, then ask in blocks. Raises CallFailed, aiohttp.ClientError."""
    assert served.meter is not None  # our own service
    workers = worker_pids(served.meter.root)
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        vllm, model = Vllm(http, arguments.vllm), await served_model(http, arguments.vllm)
        client, numbers = Client(http, served, model), itertools.count(1)
        idle: list[float] = []
        busy: list[float] = []
        met = 0

        async def block(into: list[float], first: int) -> int:
            beside = 0
            for number in range(first, first + arguments.block):
                beside += await vllm.running() > 0
                into.append(
                    await client.ttft_s("asker", f"{next(numbers)} {long_text(number, arguments.words)}", 4, "off")
                )
                await asyncio.sleep(arguments.pause_s)
            return beside

        async with stopped(workers):
            for _ in range(arguments.waiting):
                number = next(numbers)
                await client.ttft_s(f"teller-{number % 4}", long_text(number, arguments.words), 8, "on")
                say(f"{number} of {arguments.waiting} conversations held")
        for pair in range(arguments.pairs):
            first = 1_000 + pair * arguments.block
            async with stopped(workers):
                await vllm.until(lambda running: running == 0, "idle")
                await block(idle, first)
            await vllm.until(lambda running: running > 0, "extracting")
            met += await block(busy, first)
            say(f"{pair + 1} of {arguments.pairs} pairs of blocks asked")
    return report_of(idle, busy, met, arguments)


def report_of(idle: list[float], busy: list[float], met: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures, seconds."""
    return {
        "settings": {name: getattr(arguments, name) for name in ("waiting", "pairs", "block", "words", "pause")},
        "idle": Summary.of(idle).as_json() | {"p95": quantile(idle, 0.95)},
        "extracting": Summary.of(busy).as_json() | {"p95": quantile(busy, 0.95)},
        "met_an_extraction": met / len(busy),
        "p50_ratio": quantile(busy, 0.5) / quantile(idle, 0.5),
        "p95_ratio": quantile(busy, 0.95) / quantile(idle, 0.95),
        "paired_p50_s": quantile(paired_differences(busy, idle), 0.5),
    }


def table(report: dict[str, Any]) -> str:
    """The report as aligned text."""
    rows = [f"{'time to first token, s':28s}{'count':>7s}{'p10':>8s}{'p50':>8s}{'p95':>8s}{'p99':>8s}"]
    for name in ("idle", "extracting"):
        entry = report[name]
        figures = "".join(f"{entry[key]:8.3f}" for key in ("p10", "p50", "p95", "p99"))
        rows.append(f"{name:28s}{entry['count']:7d}{figures}")
    rows.append(
        f"extracting / idle: p50 {report['p50_ratio']:.3f}x, p95 {report['p95_ratio']:.3f}x; question by question"
        f" {report['paired_p50_s'] * 1000:+.0f} ms in the median; {report['met_an_extraction']:.0%} met an extraction"
    )
    return "\n".join(rows)


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.extract_ttft",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--vllm", default="http://127.0.0.1:8000", help="a vLLM that runs already")
    parser.add_argument("--pause", action="store_true", help="the service sees vLLM's metrics and pauses for users")
    parser.add_argument("--waiting", type=int, default=40, help="conversations that wait for extraction at the start")
    parser.add_argument("--pairs", type=int, default=8, help="pairs of blocks, idle and extracting")
    parser.add_argument("--block", type=int, default=5, help="questions a block")
    parser.add_argument("--words", type=int, default=600, help="of each prompt")
    parser.add_argument("--pause-s", type=float, default=0.5, help="between two questions")
    parser.add_argument("--json", type=file_to_write, metavar="FILE")
    arguments = parser.parse_args(argv)
    arguments.vllm = arguments.vllm.rstrip("/")
    return arguments


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole measurement. Raises NotStarted, CallFailed, aiohttp.ClientError."""

    def say(text: str) -> None:
        print(f"[ttft] {text}", file=sys.stderr, flush=True)

    more = "extract:\n  by: vllm\n"
    if arguments.pause:
        more += f"upstream:\n  metrics_urls: [{arguments.vllm}/metrics]\n"
    with work_folder(prefix="ttft-") as work:
        async with serving(work, arguments.vllm, HOT_BYTES, more) as served:
            return await measure(served, arguments, say)


def main(argv: list[str] | None = None) -> int:
    """Run and report."""
    arguments = parse_arguments(argv)
    try:
        report = asyncio.run(run(arguments))
    except (NotStarted, CallFailed, aiohttp.ClientError, OSError, TimeoutError) as exc:
        print(f"extract_ttft: {exc}", file=sys.stderr)
        return 1
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
