"""How long an exchange waits from its last byte until it is searchable, at a steady pace: chats in, lags out.

Everything runs on this machine: clients, the stand-in, proxy, worker, Postgres and Valkey. With `import_turns` an
import of so many turns goes on beside it, in the bulk lane: the lag of live exchanges must not be that of the import.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.hygiene import Model
from bench.overhead.processes import used_between
from bench.recall.client import CallFailed, user_header
from bench.stats import Summary, quantile
from bench.worker.live import Chat, Live, watching
from bench.worker.stage import Depth, Say, Stage
from bench.worker.talks import Traffic

WARM_UP_S = 10.0
SETTLE_S = 600.0
PROBES_A_SECOND = 1.0
IMPORT_USERS = 20


@dataclass(slots=True)
class Plan:
    """How much."""

    per_second: float
    seconds: float
    mix: str
    import_turns: int = 0


@dataclass(slots=True)
class Gauge:
    """The queue's depth, each second. Mutable."""

    stage: Stage
    seen: list[Depth] = field(default_factory=list)

    async def run(self, say: Say) -> None:
        """Until cancelled."""
        began = time.monotonic()
        while True:
            self.seen.append(await self.stage.depth(began))
            say(f"{self.seen[-1].waiting} entries wait, the oldest for {self.seen[-1].oldest_s:.1f} s")
            await asyncio.sleep(1.0)


async def measure(stage: Stage, model: Model, data: Path, plan: Plan, say: Say) -> dict[str, Any]:
    """Warm up, then chats for so long. Raises CallFailed."""
    gauge = Gauge(stage)
    async with watching(stage.dsn) as watch:
        every = max(1, round(plan.per_second / PROBES_A_SECOND))
        live = Live(stage.http, stage.url, model, Traffic.of(data, plan.mix, "lag"), watch)
        never = asyncio.Event()
        await live.paced(1 / plan.per_second, never, WARM_UP_S)
        await live.settle(SETTLE_S)
        live.probe_every = every
        before, began = stage.meter.sample(), time.monotonic()
        importing = asyncio.create_task(_imported(stage, data, plan)) if plan.import_turns else None
        gauging = asyncio.create_task(gauge.run(lambda text: say(f"lag: {text}")))
        try:
            chats = await live.paced(1 / plan.per_second, never, plan.seconds)
            sent_s = time.monotonic() - began
            used = used_between(before, stage.meter.sample())
            await live.settle(SETTLE_S)
            if importing is not None:
                await importing
        finally:
            gauging.cancel()
            await asyncio.wait([gauging])
    if not gauging.cancelled() and gauging.exception() is not None:
        raise CallFailed(f"the queue's depth was not watched: {gauging.exception()}")
    return {
        "mix": plan.mix,
        "per_second": len(chats) / sent_s,
        "seconds": sent_s,
        "import_turns": plan.import_turns,
        **lags(chats),
        "queue": depths(gauge.seen),
        "cores_used": {kind: spent / sent_s for kind, spent in sorted(used.items())},
    }


def lags(chats: Sequence[Chat]) -> dict[str, Any]:
    """The distributions of some chats. Raises CallFailed where one is not stored."""
    lost = [chat for chat in chats if chat.lag_s is None]
    if lost:
        raise CallFailed(
            f"{len(lost)} of {len(chats)} chats are not stored; captures {sorted({c.capture for c in lost})}"
        )
    found = [chat.found_lag_s for chat in chats if chat.found_lag_s is not None]
    return {
        "chats": len(chats),
        "lag_s": spread([chat.lag_s for chat in chats if chat.lag_s is not None]),
        "search_lag_s": spread(found) if found else None,
        "client_ms": spread([chat.client_ms for chat in chats]),
        "memory_ms": spread([chat.memory_ms for chat in chats]),
        "degraded": sum("degraded" in chat.status for chat in chats) / len(chats),
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """One distribution, with its p95 and its largest."""
    return Summary.of(values).as_json() | {"p95": quantile(values, 0.95), "max": max(values)}


def depths(seen: Sequence[Depth]) -> dict[str, Any]:
    """How full the queue was, and the course of it."""
    waiting = [float(one.waiting) for one in seen]
    return {
        "p50": quantile(waiting, 0.5),
        "max": max(waiting),
        "oldest_s_max": max(one.oldest_s for one in seen),
        "course": [[round(one.at_s, 1), one.waiting, one.oldest_s] for one in seen],
    }


async def _imported(stage: Stage, data: Path, plan: Plan) -> None:
    """Past turns of several users, each its own call, one after the other. Raises CallFailed."""
    lines = _lines(Traffic.of(data, plan.mix, "import"))
    for number in range(IMPORT_USERS):
        some = itertools.islice(lines, plan.import_turns // IMPORT_USERS)
        body = b"".join(json.dumps(line).encode() + b"\n" for line in some)
        headers = {**user_header(f"import-{number}"), "Content-Type": "application/x-ndjson"}
        async with stage.http.post(f"{stage.url}/memory/v1/import?wait=false", data=body, headers=headers) as answer:
            said = await answer.text()
            if answer.status != 200 or '"complete":true' not in said.replace(" ", ""):
                raise CallFailed(f"an import answered {answer.status}: {said[-300:]}")


def _lines(traffic: Traffic) -> Iterator[dict[str, str]]:
    while True:
        sent = traffic.take()
        for message in sent.messages[-sent.fresh :]:
            yield {"session": sent.talk.label, "role": "user", "content": message["content"]}
        yield {"session": sent.talk.label, "role": "assistant", "content": sent.answer}
        traffic.answered(sent, sent.answer)
