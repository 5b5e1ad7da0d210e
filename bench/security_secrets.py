"""Secrets: how many are found, where bytes of them lie afterwards, and what it costs: evaluation data -> table or JSON.

Three parts. `cases`: the shared secret cases, positives redacted and negatives touched; positives that hold no secret
(a rule's own pattern, a bare prefix or keyword, a reference to a variable) are counted beside, by a rule that does not
look at what we find. `canaries`: a service of its own, a made-up secret through every door, then a hunt through every
store, file, log, page and later prompt. `cost`: added time of an exchange, by its size. `--only` runs one of them.
Refuses: to print a secret.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.crash.service import Service, Shape
from bench.redaction import DATA, rows_of, turns_of
from bench.secret_doors import CONTROL, Doors, Echo, served
from bench.secret_hunt import Trace, hunt, traces_in
from bench.stats import median, quantile
from memory.adapters.redaction import borders, redactor_of
from memory.config import Settings
from proxy.cli.whole_file import file_to_write

SIZES: Final = (200, 1_000, 4_000, 16_000, 64_000, 256_000)
ROUNDS: Final = 30
PREFIX_CHARS: Final = 50
"""A run this long is more than the beginning of a token."""
PLACES: Final = ("export", "file under pg", "later prompt", "table memory_versions.content", "table turns.content")
"""Where the control word has to be found, or the hunt saw no secret because it saw nothing."""
_PATTERN: Final = re.compile(r"\[[^\]\s]*[a-zA-Z0-9]-[a-zA-Z0-9][^\]]*\][{+*]|\[\\w[^\]]*\]\{|%s")
_REFERENCE: Final = re.compile(r"(?:basic|bearer|token)\s+\$\w", re.IGNORECASE)
_OPEN: Final = re.compile(r"\"[^\"]{0,10}$")
_LONG: Final = re.compile(r"[^\s\"':=]{8,}")


@dataclass(frozen=True, slots=True)
class Cases:
    """Counts of the shared cases. `empty`: positives without a secret, of which `empty_touched` were changed."""

    positives: int
    found: int
    empty: int
    empty_touched: int
    negatives: int
    touched: int
    also_positive: int

    @property
    def share_found(self) -> float:
        """Of the positives that hold a secret."""
        return self.found / (self.positives - self.empty)

    @property
    def share_touched(self) -> float:
        """Of the negatives."""
        return self.touched / self.negatives


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds that redaction adds to an exchange of so many characters, in the worker."""

    characters: int
    median_ms: float
    p95_ms: float
    cpu_ms: float
    exchanges: int


@dataclass(frozen=True, slots=True)
class Hunted:
    """What the canaries left behind. `exchanges`: prompts that the upstream was sent. `control_places`: where a word
    that is no secret was found, which was said in the same breath: the hunt would have seen a secret there.
    """

    planted: int
    exchanges: int
    control_places: tuple[str, ...]
    traces: tuple[Trace, ...]

    @property
    def unseen(self) -> list[str]:
        """Where it has to be found and was not."""
        return sorted(set(PLACES) - set(self.control_places))


def why_empty(case: str) -> str | None:
    """Why a case holds no secret by itself; None where it may hold one. Looks at the text alone."""
    if _PATTERN.search(case):
        return "a pattern"
    if _REFERENCE.search(case):
        return "a reference"
    dense = [run for run in _LONG.findall(case) if any(char.isdigit() for char in run)]
    if "://" in case and "@" in case:
        return None
    if not dense:
        return "a word"
    opened = case.count('"') % 2 == 1 and _OPEN.search(case) is not None
    is_cut = opened or len(case) < 24 or case.endswith(("-", "=", "/"))
    return "a prefix" if is_cut and max(map(len, dense)) < PREFIX_CHARS else None


def cases(data: Path) -> Cases | None:
    """The shared cases; None where they are not there."""
    rows = rows_of(data, "secret_cases")
    if not rows:
        return None
    redactor = redactor_of(Settings())
    count: dict[str, int] = dict.fromkeys(Cases.__dataclass_fields__, 0)
    positive = {str(row["input"]) for row in rows if row["positive"]}
    for row in rows:
        text = str(row["input"])
        hit = bool(redactor.redact(text).findings)
        if not row["positive"]:
            count["negatives"] += 1
            count["touched"] += hit
            count["also_positive"] += hit and text in positive
        else:
            count["positives"] += 1
            empty = why_empty(text) is not None
            count["empty"] += empty
            count["empty_touched"] += hit and empty
            count["found"] += hit and not empty
    return Cases(**count)


def costs(data: Path) -> list[Cost]:
    """The time of redaction, borders included, for exchanges of real conversation cut to size."""
    words = "\n".join(turns_of(rows_of(data, "sharegpt_300_multiturn"))) or "an ordinary sentence about nothing. "
    redactor, between = redactor_of(Settings()), borders()
    found = []
    for size in SIZES:
        times, cpu = [], []
        for number in range(ROUNDS):
            start = number * size % max(1, len(words) - size)
            texts = [words[start : start + size // 3], words[start + size // 3 : start + size]]
            began, began_cpu = time.perf_counter(), time.process_time()
            clean = between.beside(redactor, texts)
            for text in texts:
                clean.redact(text)
            times.append((time.perf_counter() - began) * 1e3)
            cpu.append((time.process_time() - began_cpu) * 1e3)
        row = Cost(size, round(median(times), 2), round(quantile(times, 0.95), 2), round(median(cpu), 2), ROUNDS)
        found.append(row)
    return found


async def canaries(root: Path) -> Hunted:
    """A secret through every door of a service in `root`, and where bytes of it lie afterwards."""
    echo = Echo()
    async with served(echo) as upstream, aiohttp.ClientSession() as http:
        service = Service(Shape(root, upstream, proxy_workers=1, memory_workers=1))
        await service.start()
        try:
            doors = Doors(http, service.url, echo)
            await doors.open_all()
            await doors.settled()
            later = await doors.ask_again()
            await doors.settled()
            await doors.page("metrics", "/memory/metrics")
            await doors.page("ready", "/memory/ready")
            await doors.page("export", "/memory/v1/export")
            await doors.page("memories", "/memory/v1/memories?limit=1000")
            await doors.page("sessions", "/memory/v1/sessions?limit=1000")
            found = await hunt(service.data, service.log, doors.planted, doors.pages)
            found += traces_in(later, "later prompt", doors.planted)
            control = {"control": CONTROL}
            seen = [
                *await hunt(service.data, service.log, control, doors.pages),
                *traces_in(later, "later prompt", control),
            ]
            places = tuple(sorted({one.place for one in seen if one.form == "plain"}))
            return Hunted(len(doors.planted), len(echo.prompts), places, tuple(found))
        finally:
            await service.stop()


def shown(found: Cases | None, hunted: Hunted | None, cost: Sequence[Cost]) -> str:
    """The tables."""
    lines = []
    if found:
        whole = found.positives - found.empty
        lines += [
            f"positives redacted  {found.found}/{whole} with a secret in them ({found.share_found:.1%}); "
            f"{found.empty} more hold none, {found.empty_touched} of them changed",
            f"negatives touched   {found.touched}/{found.negatives} ({found.share_touched:.1%}), "
            f"{found.also_positive} of them positives elsewhere in the set",
        ]
    if hunted:
        lines.append(
            f"secrets planted     {hunted.planted}, {hunted.exchanges} prompts, raw bytes found {len(hunted.traces)}"
        )
        lines.append(f"the control word is found in {', '.join(hunted.control_places)}")
        lines += [f"  not in {place}: nothing was seen there" for place in hunted.unseen]
        lines += [f"  {trace.place}: {trace.secret}, {trace.form}" for trace in hunted.traces]
    if cost:
        lines.append(f"{'characters':>12}{'median ms':>12}{'p95 ms':>10}{'CPU ms':>10}")
        lines += [f"{c.characters:>12,}{c.median_ms:>12.2f}{c.p95_ms:>10.2f}{c.cpu_ms:>10.2f}" for c in cost]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line. 1 where raw bytes were found, the control word was not, or a figure misses its mark (.98, .02)."""
    parser = argparse.ArgumentParser(description="Secrets: found, left behind, and what that costs.")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the evaluation files")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="write all figures there")
    parser.add_argument("--only", choices=["cases", "canaries", "cost"], help="one part of it")
    args = parser.parse_args()
    found = cases(args.data) if args.only in (None, "cases") else None
    cost = costs(args.data) if args.only in (None, "cost") else []
    hunted = None
    if args.only in (None, "canaries"):
        with tempfile.TemporaryDirectory(prefix="mp-secrets-", ignore_cleanup_errors=True) as root:
            Path(root).chmod(0o755)
            hunted = asyncio.run(canaries(Path(root)))
    sys.stdout.write(shown(found, hunted, cost))
    if args.json:
        told: dict[str, Any] = {"cost": [asdict(one) for one in cost]}
        told |= {"cases": asdict(found)} if found else {}
        told |= {"canaries": asdict(hunted) | {"unseen": hunted.unseen}} if hunted else {}
        args.json.write_text(json.dumps(told, indent=1) + "\n")
    missed = found is not None and (found.share_found < 0.98 or found.share_touched > 0.02)
    return 1 if missed or (hunted is not None and (hunted.traces or hunted.unseen)) else 0


if __name__ == "__main__":
    sys.exit(main())
