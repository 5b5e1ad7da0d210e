"""The measurement: ways to the model in, paired latencies, embedding times and throughput blocks out.

Each round embeds a question of the same kind here, by the product's embedder: so both meet the same machine, and after
a pause in which other work had the processor's caches (one question after the other takes about half as long, since the
model's 11 MB stay there). Raises TargetFailed, EmbedderUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from bench.overhead.fill import question
from bench.overhead.load import Target
from bench.overhead.measure import Latency, Pace, Plan, Questions, Say, TargetFailed, measure_latency
from memory.ports import Embedder

ALONE: Final = 100


class Repeated(Questions):
    """The same few questions again and again."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._at: Iterator[int] = count()

    def next(self) -> str:
        # Far from the numbers of questions that are asked once.
        return question(10_000_000 + next(self._at) % self._number)


@dataclass(frozen=True, slots=True)
class Paired:
    """Latencies of all ways; embedding times in the same rounds, and of one question after the other (milliseconds)."""

    latency: Latency
    embedding_ms: Sequence[float]
    embedding_alone_ms: Sequence[float]


async def measure_paired(
    targets: Sequence[Target], pace: Pace, plan: Plan, questions: Questions, embedder: Embedder, say: Say
) -> Paired:
    """`plan.requests` rounds, the embedder in each; then it alone, one question after the other."""

    async def embed() -> float:
        text = questions.next()
        began = perf_counter()
        await embedder.embed_query(text)
        return perf_counter() - began

    latency = await measure_latency(targets, pace, plan, questions, say, embed)
    if not latency.beside_s:
        raise TargetFailed(f"there was no round in which all ways answered; failed: {dict(latency.errors)}")
    alone = [await embed() * 1000 for _ in range(min(plan.requests, ALONE))]
    return Paired(latency, [seconds * 1000 for seconds in latency.beside_s], alone)


def stage_sums(exposition: str) -> dict[str, tuple[float, float]]:
    """Every histogram of seconds in /memory/metrics: stage -> (how often, seconds in all)."""
    sums: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(exposition):
        if family.type != "histogram" or not family.name.endswith("_seconds"):
            continue
        for sample in family.samples:
            place = 0 if sample.name.endswith("_count") else 1 if sample.name.endswith("_sum") else None
            if place is not None:
                stage = " ".join([family.name.removeprefix("memory_proxy_"), *sorted(sample.labels.values())])
                sums.setdefault(stage, [0.0, 0.0])[place] += sample.value
    return {stage: (often, seconds) for stage, (often, seconds) in sums.items()}


def stages_between(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]]
) -> dict[str, dict[str, Any]]:
    """What passed in between: stage -> how often, and mean milliseconds."""
    found: dict[str, dict[str, Any]] = {}
    for stage, (often, seconds) in sorted(after.items()):
        often_before, seconds_before = before.get(stage, (0.0, 0.0))
        times = often - often_before
        if times > 0:
            mean_ms = (seconds - seconds_before) * 1000 / times
            found[stage.replace("_seconds", "")] = {"times": int(times), "mean_ms": round(mean_ms, 3)}
    return found
