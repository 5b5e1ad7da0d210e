"""The disk of the data directory is full for a while: what is acknowledged meanwhile, and what comes of it afterwards.

The data directory is a small file system of its own (tmpfs, root only), filled up under traffic and freed again.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.crash.traffic import DURABLE
from bench.faults.result import Finding, Skipped, at_least, at_most, none, so
from bench.faults.scene import Place, Scene, Span, playing

SIZE_MIB: Final = 448
CALM_S: Final = 4.0
FULL_S: Final = 10.0
BACK_S: Final = 60.0
TELLS_S: Final = 10.0
PIECE_BYTES: Final = 1 << 20
# The smallest: it fills up while the disk is full, so that the answers that nothing durable takes are seen too.
SPOOL_BYTES: Final = 1 << 20


async def disk_full(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """Nothing acknowledged is lost, the answer still comes, head and ready tell; all catches up when space is freed."""
    if os.geteuid() != 0:
        raise Skipped("a small file system can be mounted by root only")
    data = place.root / "data"
    with _small_disk(data):
        async with playing(place, env={"MEMORY_PROXY_QUEUE__SPOOL_BYTES": str(SPOOL_BYTES)}) as scene:
            before = await scene.talk(CALM_S, f"a disk of {SIZE_MIB} MiB, with room")
            ballast = data / "ballast"
            filling = asyncio.create_task(_keep_full(ballast))
            try:
                full = asyncio.create_task(scene.talk(FULL_S, "the disk is full"))
                told_s = await scene.until_ready_says("queue", False, TELLS_S)
                during = await full
            finally:
                filling.cancel()
                await asyncio.wait([filling])
                ballast.unlink(missing_ok=True)
            return await _afterwards(scene, before, during, told_s)


async def _afterwards(
    scene: Scene, before: Span, during: Span, told_s: float | None
) -> tuple[list[Finding], dict[str, Any]]:
    scene.place.say("space is freed")
    back_s = await scene.until_ready_says("queue", True, BACK_S)
    _, whole_s = await scene.service.whole()
    after = await scene.talk(CALM_S, "everything is back")
    elsewhere = sum(number for where, number in during.captures.items() if where != "queue")
    scene.findings += [
        none("failed while the disk was full", during.failures),
        at_least("answers while it was full", len(during.answers), 20),
        at_least("of them, heads that said spool or none", elsewhere, 1),
        so("ready said that the queue is away", told_s is not None, _after(told_s)),
        at_most("until the queue was back", float("inf") if back_s is None else back_s, BACK_S, "s"),
        at_least("answers kept durably afterwards", sum(after.captures.get(where, 0) for where in DURABLE), 10),
    ]
    figures = await scene.finish()
    captures = {"before": before.captures, "full": during.captures, "after": after.captures}
    return scene.findings, {**figures, "captures_by_phase": captures, "told_s": told_s, "whole_s": whole_s}


def _after(seconds: float | None) -> str:
    return "never" if seconds is None else f"after {seconds:.1f} s"


@contextmanager
def _small_disk(where: Path) -> Iterator[None]:
    where.mkdir(mode=0o755)
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=755", "memory-proxy-faults", str(where)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounting.returncode != 0:
        raise Skipped(f"no file system can be mounted: {mounting.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(where)], check=False, capture_output=True)


async def _keep_full(ballast: Path) -> None:
    """Take what is free, again and again: what others give back must not stay free."""
    while True:
        await asyncio.to_thread(_take_all, ballast)
        await asyncio.sleep(0.05)


def _take_all(ballast: Path) -> None:
    with ballast.open("ab", buffering=0) as file:
        for size in (PIECE_BYTES, 4096, 512):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:  # full: the smaller pieces take the rest
                continue
