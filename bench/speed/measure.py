"""The measurement: ways to the model in, paired latencies, embedding times and throughput blocks out.

Latency in blocks of rounds, between which as many questions of the same kind are embedded here, alone, by the product's
embedder: so both meet the same machine. Raises TargetFailed, EmbedderUnavailable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from time import perf_counter
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from bench.overhead.fill import question
from bench.overhead.load import Target
from bench.overhead.measure import Latency, Pace, Plan, Questions, Say, measure_latency
from memory.ports import Embedder

BLOCK: Final = 25


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
    """Latencies of all ways, and embedding times of as many other questions (milliseconds)."""

    latency: Latency
    embedding_ms: Sequence[float]


async def measure_paired(
    targets: Sequence[Target], pace: Pace, plan: Plan, questions: Questions, embedder: Embedder, say: Say
) -> Paired:
    """`plan.requests` rounds in blocks, the embedder between them."""
    found: list[Latency] = []
    embedding: list[float] = []
    while len(embedding) < plan.requests:
        size = min(BLOCK, plan.requests - len(embedding))
        for _ in range(size):
            text = questions.next()
            began = perf_counter()
            await embedder.embed_query(text)
            embedding.append((perf_counter() - began) * 1000)
        block = replace(plan, requests=size, warm_up=plan.warm_up if not found else 1)
        found.append(await measure_latency(targets, pace, block, questions, say))
    return Paired(_joined(found), embedding)


def _joined(blocks: Sequence[Latency]) -> Latency:
    names = list(blocks[0].first_s)
    return Latency(
        {name: [value for block in blocks for value in block.first_s[name]] for name in names},
        {name: [value for block in blocks for value in block.total_s[name]] for name in names},
        {name: dict(sum((Counter(block.statuses[name]) for block in blocks), Counter[str]())) for name in names},
        {name: sum(block.errors[name] for block in blocks) for name in names},
    )


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
