"""How many exchanges a worker stores in a second, and what that computes: a full queue in, figures out.

Twice the same load: once for a worker with a stop-watch around its steps, once for the service's own. The first says
where the CPU time goes, the second how fast the product is; how far they lie apart is what the stop-watch costs (and
the jobs beside the lanes, which the first does not run).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.overhead.processes import used_between
from bench.worker.envelopes import Put
from bench.worker.stage import Say, Stage
from bench.worker.steps import STEPS
from bench.worker.talks import Traffic

DRAIN_MAX_S = 3_600.0


async def measure(stage: Stage, work: Path, data: Path, mix: str, exchanges: int, say: Say) -> dict[str, Any]:
    """Put, drain with the timed worker; put, drain with the service's own. Raises CallFailed, NotStarted."""
    await stage.frozen()
    try:
        put = await stage.sealer.put(Traffic.of(data, mix, f"{mix}-timed"), exchanges)
        say(f"{mix}: {exchanges} exchanges wait for the timed worker")
        took, used = await stage.timed_worker(work, lambda text: say(f"{mix}, timed: {text}"), DRAIN_MAX_S)
        timed = {**took, "cpu_by_process_s": {**used, "worker": took["cpu_s"]}, **per_exchange(took)}
        put = await stage.sealer.put(Traffic.of(data, mix, f"{mix}-own"), exchanges)
    finally:
        before, began = stage.meter.sample(), time.monotonic()
        stage.thaw()
    seen = await stage.drained(lambda text: say(f"{mix}: {text}"), DRAIN_MAX_S)
    wall_s = time.monotonic() - began
    used = used_between(before, stage.meter.sample())
    return {
        "mix": mix,
        "exchanges": exchanges,
        **sizes(put),
        "per_second": exchanges / wall_s,
        "per_second_by_third": thirds(seen),
        "cpu_ms_per_exchange": {kind: 1000 * spent / exchanges for kind, spent in sorted(used.items())},
        "timed": timed,
    }


def sizes(put: Put) -> dict[str, Any]:
    """How large the exchanges are."""
    count = len(put.exchange_ids)
    return {
        "turns": put.turns,
        "chars_per_exchange": put.chars / count,
        "envelope_bytes_per_exchange": put.envelope_bytes / count,
    }


def per_exchange(took: Mapping[str, Any]) -> dict[str, Any]:
    """CPU milliseconds of an exchange by step, what is in no step as `rest`, and how many it stored a second."""
    count = took["entries"]
    steps = {name: 1000 * took["steps_s"].get(name, 0.0) / count for name in STEPS}
    steps["embed"] += 1000 * took["embed_thread_s"] / count
    steps["rest"] = 1000 * took["cpu_s"] / count - sum(steps.values())
    return {
        "per_second": count / took["wall_s"],
        "cpu_ms_by_step": steps,
        "windows_per_exchange": took["calls"].get("windows", 0) / count,
    }


def thirds(seen: Any) -> list[float]:
    """Entries stored a second in each third of the time that was looked into twice: whether it slows down."""
    end_s, rates = seen[-1].at_s, []
    for part in range(3):
        inside = [one for one in seen if end_s * part / 3 <= one.at_s <= end_s * (part + 1) / 3]
        if len(inside) > 1:
            rates.append((inside[0].waiting - inside[-1].waiting) / (inside[-1].at_s - inside[0].at_s))
    return rates
