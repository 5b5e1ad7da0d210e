"""Benchmarks that fill a store of their own: options and what measures in, the report printed and written out.

Exit code 1, with the reason on stderr: something did not start, answer or take the memories.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.overhead.processes import NotStarted
from bench.recall.__main__ import embedder_unless
from bench.recall.client import CallFailed
from bench.search_times.fill import StoreNotFilled
from bench.work_folder import work_folder
from memory.errors import EmbedderUnavailable, ModelFileInvalid
from memory.ports import Embedder

Run = Callable[[argparse.Namespace, Path, Embedder], Awaitable[Any]]


def reported(name: str, arguments: argparse.Namespace, run: Run, table: Callable[[Any], str]) -> int:
    """Run in a directory of its own (below `arguments.work`) and print the table; the exit code. `arguments.json`: also
    the report itself, there.
    """

    async def measured(work: Path, embedder: Embedder) -> Any:
        return await run(arguments, work, embedder)

    try:
        with embedder_unless(False) as embedder, work_folder(arguments.work) as work:
            assert embedder is not None
            report = asyncio.run(measured(work, embedder))
    except (NotStarted, StoreNotFilled, CallFailed, EmbedderUnavailable, ModelFileInvalid, OSError) as exc:
        print(f"{name}: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 1
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0
