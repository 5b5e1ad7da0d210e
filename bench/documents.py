"""What documents cost: files of each type in, seconds and memory to read, cut and store them out; and hostile ones.

    python -m bench.documents --json out/documents.json      a quarter of an hour; --no-service: two minutes

Files are written here from a seed (bench/documents_files.py): made-up prose, so sizes and times are telling and recall
is not. Reading is measured in its own process as the product starts it (its memory as the kernel's high-water mark,
looked at every 5 ms), cutting in this one with the product's redaction and judgement, storing on a service of its own
with the product's defaults: one file, one worker. Hostile files must be taken or refused as they are meant to be, each
within the process's own limits. Exit 1: one was not, or a figure missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import aiohttp
from aiohttp import web

from bench.documents_files import TYPES, hostile, paragraphs, sound
from bench.figures import Line, any_missed, as_json, at_least, at_most, none, table, told
from bench.overhead.processes import NotStarted, process_tree
from bench.search_times.service import Served, serving
from bench.standing_in import standing_in
from bench.stats import quantile
from bench.work_folder import work_folder
from memory.adapters.parsing import ParseBounds
from memory.adapters.redaction import redactor_of
from memory.config import Settings
from memory.parse.blocks import Block
from memory.write.documents import cleaned_blocks
from policies.chunking import chunked
from policies.injection.judge import judge
from proxy.cli.whole_file import file_to_write

BYTES: Final = 5_242_880
HOT_BYTES: Final = 1 << 30
USER: Final = "reader"
QUESTION: Final = "What is said of the repairs of the furnace in the northern hall?"
SEARCHES: Final = 30
_MIB: Final = 1 << 20
_WATCHED_EACH_S: Final = 0.005
_STORED_WITHIN_S: Final = 1800.0


@dataclass(frozen=True, slots=True)
class Read:
    """One run of the parsing process."""

    seconds: float
    cpu_s: float
    peak_mib: float
    blocks: tuple[Block, ...]
    last: dict[str, Any] | None


def read(content: bytes, suffix: str, declared: str = "") -> Read:
    """Read one file as the product does, with what the process used."""
    bounds = ParseBounds()
    command = [sys.executable, "-P", "-s", "-m", "memory.parse", f"--suffix={suffix}", f"--declared={declared}"]
    command += [f"--memory-bytes={bounds.memory_bytes}", f"--cpu-s={bounds.cpu_s}", f"--wall-s={bounds.wall_s}"]
    env = {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "PYTHONUTF8": "1"}
    began = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    feeding = threading.Thread(target=_feed, args=(process, content))
    feeding.start()
    marks: list[float] = [0.0]
    watching = threading.Thread(target=_watch, args=(process, marks))
    watching.start()
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    feeding.join()
    watching.join()
    process.stdout.close()
    said = [json.loads(line) for line in lines]
    last = said.pop() if said and "t" not in said[-1] else None
    blocks = tuple(Block(*(one[name] for name in ("t", "k", "s", "e", "p", "l"))) for one in said)
    return Read(seconds, used.ru_utime + used.ru_stime, marks[0], blocks, last)


def _feed(process: subprocess.Popen[bytes], content: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(content)
        process.stdin.close()
    except BrokenPipeError:
        pass


def _watch(process: subprocess.Popen[bytes], marks: list[float]) -> None:
    """The process's high-water mark, MiB. What the kernel says at its end counts in what it was forked from."""
    while process.returncode is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            return
        found = [line for line in status.splitlines() if line.startswith("VmHWM")]
        if found:
            marks[0] = max(marks[0], int(found[0].split()[1]) / 1024)
        time.sleep(_WATCHED_EACH_S)


def of_types(types: Sequence[str], size: int) -> list[Line]:
    """Reading and cutting one file of each type."""
    lines: list[Line] = []
    redactor = redactor_of(Settings())
    for kind in types:
        content = sound(kind, size)
        found = read(content, f".{kind}")
        chars = sum(len(block.text) for block in found.blocks)
        began = time.perf_counter()
        chunks = chunked(cleaned_blocks(found.blocks, redactor))
        cut_s = time.perf_counter() - began
        began = time.perf_counter()
        for chunk in chunks:
            judge(chunk.content, "foreign")
        judged_s = time.perf_counter() - began
        part = f"{kind}, {len(content) / 1e6:.1f} MB"
        if (why := refusal(found)) is not None:
            lines.append(Line(part, "read to its end", "yes", why, False))
        lines.append(at_most(part, "read, s", found.seconds, ParseBounds().wall_s))
        lines.append(at_most(part, "memory to read it, MiB at the peak", found.peak_mib, 512))
        lines.append(told(part, "processor to read it, s", f"{found.cpu_s:.2f}"))
        lines.append(told(part, "characters, chunks", f"{chars:,}, {len(chunks):,}"))
        lines.append(told(part, "redacted and cut, s; judged, s", f"{cut_s:.2f}; {judged_s:.2f}"))
        print(table(lines[-5:]), file=sys.stderr)
    return lines


def refusal(found: Read) -> str | None:
    """Why a file was not read to its end; None where it was."""
    last = found.last or {"refused": "no last line"}
    return str(last["refused"]) if "refused" in last else None


def of_hostile() -> list[Line]:
    """Every hostile file, and whether it came to what it was meant to."""
    wrong: list[str] = []
    count, slowest, peak = 0, 0.0, 0.0
    for file in hostile():
        count += 1
        found = read(file.content, Path(file.name).suffix, file.declared)
        slowest, peak = max(slowest, found.seconds), max(peak, found.peak_mib)
        said = refusal(found)
        status, said = (200, "") if said is None else ((found.last or {}).get("status", 0), said)
        if status != file.status or file.why not in said:
            wrong.append(f"{file.name}: {status} {said}")
    for one in wrong:
        print(one, file=sys.stderr)
    return [
        none("hostile files", "not taken or refused as meant", len(wrong), f" of {count}"),
        at_most("hostile files", "slowest, s", slowest, ParseBounds().wall_s),
        at_most("hostile files", "memory, MiB at the peak", peak, 512),
    ]


# ---------------------------------------------------------------- stored


class Silent:
    """An upstream that nobody asks."""

    async def answer(self, _: web.Request) -> web.StreamResponse:
        """No completion."""
        return web.json_response({})

    async def models(self, _: web.Request) -> web.StreamResponse:
        """No model."""
        return web.json_response({"object": "list", "data": []})


async def of_service(work: Path, size: int) -> list[Line]:
    """One long text, uploaded, stored, found, sent again with a paragraph changed, and deleted."""
    texts = paragraphs(1, size - 2_000)  # the last one goes a little beyond
    async with (
        standing_in(Silent()) as upstream,
        serving(work, upstream, HOT_BYTES) as served,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as client,
    ):
        small = await _stored(client, served, "small.txt", "\n\n".join(paragraphs(2, 50_000)))
        before = await _searches(client, served)
        first = await _stored(client, served, "long.txt", "\n\n".join(texts))
        after = await _searches(client, served)
        texts[len(texts) // 2] = "One paragraph of it says something else by now, and nothing more has changed."
        second = await _stored(client, served, "long.txt", "\n\n".join(texts))
        began = time.perf_counter()
        async with client.delete(f"{served.url}/memory/v1/documents/{first.document_id}", headers=_HEAD) as answer:
            answer.raise_for_status()
        gone_s = time.perf_counter() - began
    part = f"stored, {len(first.content) / 1e6:.1f} MB of text"
    return [
        told(part, "answered (202) after, s", f"{first.answered_s:.2f}"),
        told(part, "stored and found after, s", f"{first.stored_s:.0f}"),
        told(part, "chunks; a second", f"{first.chunks:,}; {first.chunks / first.stored_s:.1f}"),
        told(part, "a small one of 50 kB before it, s", f"{small.stored_s:.1f}"),
        told(part, "memory worker at its peak, MiB", f"{first.worker_mib:.0f}"),
        told(part, "sent again with one paragraph changed, s", f"{second.stored_s:.1f}"),
        at_least(part, "of its chunks kept, share", second.same / second.chunks, 0.99),
        told(part, "a search before it and after it, ms p50", f"{before:.1f}; {after:.1f}"),
        told(part, "deleted, s", f"{gone_s:.2f}"),
    ]


@dataclass(frozen=True, slots=True)
class Stored:
    """One upload, to its end."""

    document_id: UUID
    content: str
    answered_s: float
    stored_s: float
    chunks: int
    same: int
    worker_mib: float


_HEAD: Final = {"X-Memory-User": USER}


async def _stored(client: aiohttp.ClientSession, served: Served, name: str, content: str) -> Stored:
    """Upload and follow. Raises NotStarted where it is not stored."""
    form = aiohttp.FormData()
    form.add_field("file", content.encode(), filename=name, content_type="text/plain")
    began = time.perf_counter()
    async with client.post(f"{served.url}/memory/v1/documents", data=form, headers=_HEAD) as answer:
        answer.raise_for_status()
        said = await answer.json()
    answered_s, peak, upload_id = time.perf_counter() - began, 0.0, said["upload"]["id"]
    while said["upload"]["status"] not in ("done", "failed") and time.perf_counter() - began < _STORED_WITHIN_S:
        await asyncio.sleep(0.2)
        peak = max(peak, _worker_mib(served))
        url = f"{served.url}/memory/v1/documents/{said['id']}?limit=1"
        async with client.get(url, headers=_HEAD) as answer:
            said = await answer.json()
    upload = said["upload"]
    if upload["status"] != "done" or upload["id"] != upload_id:
        raise NotStarted(f"{name} was not stored: {upload}")
    stored_s = time.perf_counter() - began
    return Stored(UUID(said["id"]), content, answered_s, stored_s, upload["chunks"], upload["same"], peak)


async def _searches(client: aiohttp.ClientSession, served: Served) -> float:
    """The median time of searches, ms; the first brings the scope into memory and is not counted."""
    times = []
    for number in range(SEARCHES + 1):
        asked = {"query": f"{QUESTION} {number}", "k": 10}
        began = time.perf_counter()
        async with client.post(f"{served.url}/memory/v1/search", json=asked, headers=_HEAD) as answer:
            answer.raise_for_status()
            await answer.read()
        times.append((time.perf_counter() - began) * 1e3)
    return quantile(times[1:], 0.5)


def _worker_mib(served: Served) -> float:
    """Resident memory of the memory worker now."""
    found = 0.0
    for pid in process_tree(served.pid or 0):
        try:
            if b"-m\0memory" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                continue
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue  # it ended while we looked
        found = max(found, pages * os.sysconf("SC_PAGE_SIZE") / _MIB)
    return found


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=BYTES, help="of each file (default %(default)s)")
    parser.add_argument("--types", default=",".join(TYPES), help="default %(default)s")
    parser.add_argument("--no-service", action="store_true", help="reading and cutting only")
    parser.add_argument("--json", type=file_to_write, help="write the figures there")
    parser.add_argument("--work", type=Path, help="where the service's data lie meanwhile")
    asked = parser.parse_args()
    lines = [*of_types(asked.types.split(","), asked.bytes), *of_hostile()]
    if not asked.no_service:
        try:
            with work_folder(asked.work) as work:
                lines += asyncio.run(of_service(work, asked.bytes))
        except (NotStarted, aiohttp.ClientError, OSError) as exc:
            print(f"documents: {type(exc).__name__}: {exc}", file=sys.stderr)
            return 1
    print(table(lines))
    if asked.json:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        complete = not asked.no_service and asked.bytes >= BYTES and set(asked.types.split(",")) == set(TYPES)
        report = {"bench": "documents", "at": at, "complete": complete, "bytes": asked.bytes, "lines": as_json(lines)}
        asked.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any_missed(lines) else 0


if __name__ == "__main__":
    sys.exit(main())
