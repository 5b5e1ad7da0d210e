"""What a check is and how checks are run: (checks, a bound on each) -> findings in the order of the checks.

All run side by side, blocking ones in threads. A check that does not end in time, or that fails in a way nobody thought
of while writing it, becomes a finding itself: the doctor always ends, and always with a line for every part.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from memory.errors import MemoryProxyFault
from proxy.cli.chat_words import printable

Level = Literal["ok", "warn", "FAIL"]
WHAT_CHARS = 24


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: the part, what was found there, and how to mend it (or what it would improve)."""

    level: Level
    what: str
    found: str
    mend: str = ""


Findings = list[Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """One part to look at. `bound_s`: past it the part is reported as not answering."""

    what: str
    look: Callable[[], Awaitable[Findings]]
    bound_s: float = 15.0


def in_thread(what: str, look: Callable[[], Findings], bound_s: float = 15.0) -> Check:
    """A check that blocks."""

    async def run() -> Findings:
        return await asyncio.to_thread(look)

    return Check(what, run, bound_s)


async def findings_of(checks: Sequence[Check]) -> AsyncIterator[Finding]:
    """Run all checks side by side; findings come in the order of the checks, each as soon as it may."""
    tasks = [asyncio.create_task(_bounded(check)) for check in checks]
    try:
        for task in tasks:
            for finding in await task:
                yield finding
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _bounded(check: Check) -> Findings:
    try:
        async with asyncio.timeout(check.bound_s):
            return await check.look()
    except TimeoutError:
        return [Finding("FAIL", check.what, f"no result within {check.bound_s:g} s", "is the machine overloaded?")]
    except (MemoryProxyFault, OSError, ValueError) as fault:
        return [Finding("FAIL", check.what, str(fault) or type(fault).__name__)]


def as_text(finding: Finding) -> str:
    """`warn  disk                    1 GiB free in /data — free some space`, on one line that steers no terminal."""
    told = f"{finding.found} — {finding.mend}" if finding.mend else finding.found
    return f"{finding.level:<4}  {finding.what:<{WHAT_CHARS}}  {printable(' '.join(told.split()))}"


def as_json(findings: Sequence[Finding]) -> str:
    """`{"ok": …, "findings": [{level, what, found, mend}]}`; level is ok, warn or fail."""
    told = [{**asdict(finding), "level": finding.level.lower()} for finding in findings]
    return json.dumps({"ok": not failed(findings), "findings": told}, indent=2, ensure_ascii=False)


def failed(findings: Sequence[Finding]) -> bool:
    """Whether anything must be mended."""
    return any(finding.level == "FAIL" for finding in findings)
