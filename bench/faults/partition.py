"""Proxy and stores in two network namespaces, and the wire between them cut: packets vanish, then the wire heals.

Postgres and Valkey of our own run in a namespace of this run's own, the service in ours; a veth pair joins them, and
its far end is taken down. Needs root and iproute2. The namespace is removed afterwards.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from bench.faults.own_stores import OwnStores
from bench.faults.result import Finding, Skipped, at_least, at_most, none, so
from bench.faults.scene import Place, playing

CALM_S: Final = 4.0
CUT_S: Final = 10.0
BACK_S: Final = 60.0
ADDED_MS_MAX: Final = 1000.0


async def partition(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """Answers go on without stores, capture goes to the spool, and everything catches up when the wire heals."""
    with _namespace() as (name, far):
        async with (
            OwnStores(place.root, far, name) as stores,
            playing(place, env=stores.env()) as scene,
        ):
            before = await scene.talk(CALM_S, f"stores at {far}, in namespace {name}")
            _ip("-n", name, "link", "set", "far", "down")
            cutting = asyncio.create_task(scene.talk(CUT_S, "the wire is cut"))
            told_s = await scene.until_ready_says("queue", False, CUT_S)
            during = await cutting
            _ip("-n", name, "link", "set", "far", "up")
            scene.place.say("the wire is whole again")
            back_s = await scene.until_ready_says("queue", True, BACK_S)
            await scene.service.whole()
            after = await scene.talk(CALM_S, "everything is back")
            scene.findings += [
                none("cut: completions failed", during.failures),
                at_least("cut: answers", len(during.answers), 20),
                at_least("cut: captured to the spool", during.captures.get("spool", 0), 10),
                at_most("cut: the most that memory added", during.added_ms(1.0), ADDED_MS_MAX, "ms"),
                so("cut: ready says so", told_s is not None),
                at_most("healed: until ready says so", float("inf") if back_s is None else back_s, BACK_S, "s"),
                at_least("healed: captured to the queue", after.captures.get("queue", 0), 10),
            ]
            figures = await scene.finish()
            phases = {
                name: {"captures": span.captures, "statuses": span.statuses}
                for name, span in (("before", before), ("cut", during), ("after", after))
            }
            added = {"added_ms_p95": during.added_ms(0.95), "added_ms_max": during.added_ms(1.0)}
            return scene.findings, {**figures, **added, "phases": phases, "told_s": told_s, "back_s": back_s}


@contextmanager
def _namespace() -> Iterator[tuple[str, str]]:
    """A namespace joined to ours: its name and its address. Raises Skipped."""
    missing = [program for program in ("ip", "nsenter") if shutil.which(program) is None]
    if os.geteuid() != 0 or missing:
        raise Skipped(f"needs root, iproute2 and nsenter (missing: {', '.join(missing) or 'root'})")
    name, near = f"mpf{os.getpid()}", f"mpf{os.getpid()}"
    net = f"10.213.{os.getpid() % 250}"
    try:
        _ip("netns", "add", name)
    except subprocess.CalledProcessError as refused:
        raise Skipped(f"no network namespace can be made: {refused.stderr.strip()}") from refused
    try:
        _ip("link", "add", near, "type", "veth", "peer", "name", "far", "netns", name)
        _ip("addr", "add", f"{net}.1/30", "dev", near)
        _ip("link", "set", near, "up")
        for words in (("addr", "add", f"{net}.2/30", "dev", "far"), ("link", "set", "far", "up")):
            _ip("-n", name, *words)
        _ip("-n", name, "link", "set", "lo", "up")
        yield name, f"{net}.2"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
