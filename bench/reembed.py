"""`python -m bench.reembed`: how fast a second embedding model is filled, and what a chat beside it pays.

So many memories are written by COPY (bench.search_times.fill) into scopes of 1,000. The second model is the packaged
weights as they lie (weight-only int8, as slow as fp32), so a memory costs what a real one would. Then chats are asked
at a steady pace in blocks (bench.consolidate): without the fill, with it, without, …; between blocks it is paused and
goes on. Chats that fall into the start of the command (its model is loaded) are not counted. With `--switch` it is then
filled to the end and switched, with chats going on.

Report on stdout, progress on stderr. Exit 1: something did not start, answer or take the memories.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final

import asyncpg

from bench.consolidate import START_S, USERS, Asked, Chats
from bench.fake_vllm.launch import fake_vllm_process
from bench.on_own_store import reported
from bench.overhead.processes import NotStarted
from bench.recall.chat import served_model
from bench.recall.client import session
from bench.search_times.fill import Lot, Say, VectorSource, fill
from bench.search_times.service import Served, serving
from memory.adapters.model_files import locate
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.ports import Embedder
from proxy.cli.whole_file import file_to_write

SCOPE_MEMORIES: Final = 1_000
HOT_BYTES: Final = 1 << 30
SECOND: Final = "minilm-as-it-lies"


class Fill:
    """The command, paused and begun again."""

    def __init__(self, work: Path, rest: float) -> None:
        self._here = ("--data-dir", str(work / "data"))
        self._to = ("--to", SECOND, "--directory", str(work / "second"), "--rest", str(rest))
        self._log = work / "reembed.log"
        self._process: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        """Fill, or go on."""
        self._process = await self._run(*self._to)

    async def pause(self) -> None:
        """As Ctrl-C does."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):  # it has ended while we looked
                os.killpg(self._process.pid, signal.SIGINT)
            await self._process.wait()

    aclose = pause

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def switch(self) -> None:
        """Serve the second model. Raises NotStarted."""
        process = await self._run("--switch")
        if await process.wait():
            raise NotStarted(f"reembed exited with {process.returncode}: {self._log.read_text()[-2000:]}")

    async def _run(self, *words: str) -> asyncio.subprocess.Process:
        argv = (sys.executable, "-m", "proxy", "reembed", *words, *self._here)
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(*argv, stdout=log, stderr=log, start_new_session=True)


async def filled(dsn: str) -> int:
    """Memories that have vectors of the second model. Raises NotStarted where it is not there."""
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        table = await connection.fetchval(
            "SELECT table_name FROM embedding_tables JOIN embedding_models USING (model_id) WHERE name = $1", SECOND
        )
        if table is None:
            raise NotStarted("the fill has not begun within its time to start")
        count: int = await connection.fetchval(f'SELECT count(*) FROM "{table}" WHERE window_no = 0')
        return count
    finally:
        await connection.close()


def write_second(directory: Path) -> None:
    """The packaged weights as a model of a directory."""
    directory.mkdir()
    spec = read_registry()[DEFAULT_MODEL]
    shutil.copyfile(locate(spec, spec.file("model")), directory / "model.onnx")
    shutil.copyfile(locate(spec, spec.file("tokenizer")), directory / "tokenizer.json")
    (directory / "config.json").write_text(json.dumps({"hidden_size": spec.dim}))
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": spec.max_tokens}))


async def measure(served: Served, work: Path, arguments: argparse.Namespace, embedder: Embedder, say: Say) -> Any:
    """Fill the store, then chats in blocks, then the switch. Raises what `main` catches."""
    lots = [Lot(f"bench-{number}", SCOPE_MEMORIES) for number in range(arguments.memories // SCOPE_MEMORIES)]
    await fill(served.dsn, lots, await VectorSource.of(embedder), say)
    write_second(work / "second")
    without, beside, at_switch = Asked(), Asked(), Asked()
    filling, run_s, done = Fill(work, arguments.rest), 0.0, 0
    async with session() as http, aclosing(filling):
        users = [lot.user for lot in lots[:USERS]]
        chats = Chats(http, served.url, await served_model(http, served.url), users, arguments.every_s)
        await chats.block(len(users) * arguments.every_s * 3, None)
        for block in range(arguments.blocks):
            await chats.block(arguments.block_s, without)
            await filling.begin()
            await chats.block(START_S, None)
            before, started = await filled(served.dsn), time.monotonic()
            await chats.block(arguments.block_s, beside)
            ran = filling.runs
            run_s += time.monotonic() - started
            done += await filled(served.dsn) - before
            await filling.pause()
            say(f"block {block + 1}: {done:,} memories in {run_s:.0f} s")
            if not ran:
                break
        if arguments.switch:
            await filling.begin()
            while filling.runs:
                await chats.block(1.0, None)
            switching = asyncio.create_task(filling.switch())
            await chats.block(15.0, at_switch)
            await switching
    return {
        "memories": arguments.memories,
        "filled": done,
        "seconds": round(run_s, 1),
        "per_second": round(done / run_s, 1) if run_s else None,
        "rest": arguments.rest,
        "without": without.as_json(),
        "beside": beside.as_json(),
        "at_switch": at_switch.as_json() if at_switch.client_ms else None,
        "load": round(os.getloadavg()[0], 2),
    }


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [f"{report['filled']:,} of {report['memories']:,} memories in {report['seconds']} s: "]
    lines[0] += f"{report['per_second']}/s, {report['rest']} s of rest for each of work"
    lines += ["", f"{'chat, ms':22} {'p50':>8} {'p95':>8} {'count':>6}"]
    for what, name in (("client_ms", "as the client sees it"), ("service_ms", "added for memory")):
        for kind in ("without", "beside", "at_switch"):
            if report[kind] is not None:
                one, head = report[kind][what], name if kind == "without" else ""
                lines.append(f"{head:22} {one['p50']:8.1f} {one['p95']:8.1f} {one['count']:6} {kind}")
    return "\n".join(lines)


async def run(arguments: argparse.Namespace, work: Path, embedder: Embedder) -> Any:
    """The whole benchmark on a service of its own."""

    def say(text: str) -> None:
        print(f"[reembed] {text}", file=sys.stderr, flush=True)

    async with (
        fake_vllm_process() as (upstream, _),
        serving(work, upstream, HOT_BYTES, "consolidate:\n  at: null\n") as served,
    ):
        return await measure(served, work, arguments, embedder, say)


def main(argv: list[str] | None = None) -> int:
    """Run and report."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it, also for what fills
    parser = argparse.ArgumentParser(prog="python -m bench.reembed", description=__doc__)
    parser.add_argument("--memories", type=int, default=20_000, help="turns with a memory each (default %(default)s)")
    parser.add_argument("--blocks", type=int, default=3, help="blocks of each kind (default %(default)s)")
    parser.add_argument("--block-s", type=float, default=20.0, help="length of a block (default %(default)s)")
    parser.add_argument("--every-s", type=float, default=0.1, help="one chat each so many seconds")
    parser.add_argument("--rest", type=float, default=1.0, help="as the command's (default %(default)s)")
    parser.add_argument("--switch", action="store_true", help="fill to the end, and switch")
    parser.add_argument("--work", type=Path, help="where the store is made (default: the system's temporary directory)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="the report as JSON")
    arguments = parser.parse_args(argv)
    return reported("reembed", arguments, run, table)


if __name__ == "__main__":
    sys.exit(main())
