"""The measurement: targets and a pace in, paired latencies and throughput blocks out.

Latency: every round sends one and the same question to all targets, one after the other in rotating
order, so that whatever the machine does hits all alike; differences are taken inside the round.
Throughput: blocks of some seconds per target and number of clients, in shuffled order, repeated.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count

from bench.overhead.fill import question
from bench.overhead.load import AnswerLost, Connection, Target, Timing, connections
from bench.overhead.processes import CpuMeter, used_between

Say = Callable[[str], None]
Beside = Callable[[], Awaitable[float]]
"""Work of the harness itself that takes part in the rounds like a way to the model; seconds."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the stand-in answers; milliseconds."""

    name: str
    first_ms: float
    token_ms: float

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        if not self.first_ms and not self.token_ms:
            return ()
        return (("x-fake-first-ms", str(self.first_ms)), ("x-fake-token-ms", str(self.token_ms)))


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. `seconds` is the length of one throughput block, `tokens` of one answer; `pause_s` lies between
    two paired rounds, so that what the first left to be done in the background is not measured with the second."""

    requests: int
    rounds: int
    seconds: float
    clients: tuple[int, ...]
    tokens: int
    model: str | None
    warm_up: int
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Paired rounds: first_s[target][i], total_s[target][i] and beside_s[i] belong to the same round i."""

    first_s: Mapping[str, Sequence[float]]
    total_s: Mapping[str, Sequence[float]]
    statuses: Mapping[str, Mapping[str, int]]
    errors: Mapping[str, int]
    beside_s: Sequence[float] = ()
    captures: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """One throughput block. CPU seconds by kind of process; `cpu_settled_s` also counts the work left behind.

    `statuses`: of the streams, how memory answered; under load it gives way, and a stream without it is a cheap one.
    """

    target: str
    clients: int
    streams: int
    seconds: float
    errors: int
    cpu_s: Mapping[str, float]
    cpu_settled_s: Mapping[str, float]
    first_s: Sequence[float]
    statuses: Mapping[str, int] = field(default_factory=dict)


class TargetFailed(RuntimeError):
    """A target does not answer, so there is nothing to measure."""


class Questions:
    """A supply of questions that never repeats, shared by the phases of one run."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count()

    def next(self) -> str:
        return question(next(self._numbers))


async def _ask(connection: Connection, request: bytes) -> Timing | None:
    try:
        timing = await connection.ask(request)
    except (AnswerLost, TimeoutError):
        return None
    return timing if timing.complete else None


async def measure_latency(
    targets: Sequence[Target], pace: Pace, plan: Plan, questions: Questions, say: Say, beside: Beside | None = None
) -> Latency:
    """`plan.requests` paired rounds, after a warm-up. A round in which any target failed is not counted.

    `beside` is done once in each round, at each place of it in turn. Raises TargetFailed when a target fails while
    warming up.
    """
    besides: list[float] = []
    first: dict[str, list[float]] = {t.name: [] for t in targets}
    total: dict[str, list[float]] = {t.name: [] for t in targets}
    statuses: dict[str, Counter[str]] = {t.name: Counter() for t in targets}
    captures: dict[str, Counter[str]] = {t.name: Counter() for t in targets}
    errors = {t.name: 0 for t in targets}
    async with AsyncExitStack() as stack:
        kept: dict[str, Connection] = {}
        for index in range(-plan.warm_up, plan.requests):
            text = questions.next()
            turn = index % len(targets)
            round_timings: dict[str, Timing | None] = {}
            beside_s = 0.0
            for at, target in enumerate((*targets[turn:], *targets[:turn])):
                if beside is not None and at == index // len(targets) % len(targets):
                    beside_s = await beside()
                if target.name not in kept:
                    (kept[target.name],) = await stack.enter_async_context(connections(target, 1))
                request = target.request(text, plan.model, pace.headers, plan.tokens)
                timing = round_timings[target.name] = await _ask(kept[target.name], request)
                if timing is None:
                    kept.pop(target.name).close()
                    errors[target.name] += 1
            if index < 0 and None in round_timings.values():
                failed = [name for name, timing in round_timings.items() if timing is None]
                raise TargetFailed(f"no complete answer from {', '.join(failed)} while warming up")
            good = {name: timing for name, timing in round_timings.items() if timing is not None}
            if index >= 0 and len(good) == len(targets):
                for name, timing in good.items():
                    first[name].append(timing.first_s)
                    total[name].append(timing.total_s)
                    statuses[name][timing.memory_status] += 1
                    captures[name][timing.memory_capture] += 1
                besides.extend([beside_s] if beside is not None else [])
            await asyncio.sleep(plan.pause_s)
            say(f"{pace.name}: latency round {max(index + 1, 0)} of {plan.requests}")
    return Latency(first, total, statuses, errors, besides, captures)


async def _client(connection: Connection, make: Callable[[], bytes], until_s: float) -> tuple[list[Timing], int]:
    """One client that asks without a pause; its answers, and 1 if it had to give up."""
    timings: list[Timing] = []
    while time.perf_counter() < until_s:
        timing = await _ask(connection, make())
        if timing is None:
            return timings, 1
        timings.append(timing)
    return timings, 0


async def measure_block(
    target: Target,
    clients: int,
    pace: Pace,
    plan: Plan,
    questions: Questions,
    meter: CpuMeter | None,
    settle: Callable[[], Awaitable[object]] | None,
) -> Block:
    """Let `clients` clients ask for `plan.seconds`; every started stream is finished and counted."""

    def make() -> bytes:
        return target.request(questions.next(), plan.model, pace.headers, plan.tokens)

    async with connections(target, clients) as opened:
        before = meter.sample() if meter else {}
        start_s = time.perf_counter()
        results = await asyncio.gather(*(_client(c, make, start_s + plan.seconds) for c in opened))
        seconds = time.perf_counter() - start_s
        after = meter.sample() if meter else {}
    if settle is not None:
        await settle()
    last = meter.sample() if meter else {}
    timings = [timing for those, _ in results for timing in those]
    return Block(
        target=target.name,
        clients=clients,
        streams=len(timings),
        seconds=seconds,
        errors=sum(failed for _, failed in results),
        cpu_s=used_between(before, after),
        cpu_settled_s=used_between(before, last),
        first_s=[timing.first_s for timing in timings],
        statuses=Counter(timing.memory_status for timing in timings),
    )


async def measure_throughput(
    targets: Sequence[Target],
    pace: Pace,
    plan: Plan,
    questions: Questions,
    meters: Mapping[str, CpuMeter],
    settles: Mapping[str, Callable[[], Awaitable[object]]],
    say: Say,
) -> list[Block]:
    """All blocks: for each round every target with every number of clients, in shuffled order."""
    blocks: list[Block] = []
    draw = random.Random(7)
    for number in range(plan.rounds):
        for clients in plan.clients:
            for target in draw.sample(list(targets), len(targets)):
                say(f"{pace.name}: throughput round {number + 1} of {plan.rounds}, {clients} clients, {target.name}")
                meter, settle = meters.get(target.name), settles.get(target.name)
                blocks.append(await measure_block(target, clients, pace, plan, questions, meter, settle))
    return blocks
