"""The rounds: a service and its clients in, blows at random moments, what became of each out.

Each round waits a random while under traffic, every second one for the backlog first, hits one process or two, and goes
on when every part is back. After the last one the clients end, the queue settles, and the store is judged.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bench.crash.blame import Blame, blamed
from bench.crash.service import NotWhole, Service
from bench.crash.traffic import Traffic
from bench.crash.verdict import Verdict, judge
from bench.crash.victims import Blow, Kind, choose, strike

# Every second blow waits until the memory workers have caught up, so that it falls on a store that is being written to;
# the others fall on a backlog, on restarts and recoveries.
CAUGHT_UP: Final = 24
SETTLE_S: Final = 600.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How hard. `calm_s`: seconds of traffic before each blow, (least, most); `catch_up_s`: the longest wait for the
    backlog before every second one; `kinds`: whom to kill by turns, at random without.
    """

    rounds: int
    clients: int
    pause_s: float
    seed: int
    calm_s: tuple[float, float] = (0.2, 2.0)
    catch_up_s: float = 15.0
    kinds: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """One round. Seconds from the last blow until ready said 200, and until every part was back; when it began and
    ended, monotonic.
    """

    blows: tuple[Blow, ...]
    ready_s: float
    whole_s: float
    began_s: float = 0.0
    ended_s: float = 0.0

    @property
    def kinds(self) -> frozenset[str]:
        """Who was hit."""
        return frozenset(blow.kind for blow in self.blows)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole run."""

    rounds: tuple[Round, ...]
    verdict: Verdict
    sent: int
    refusals: dict[str, int]
    captures: dict[str, int]
    statuses: dict[str, int]
    blame: Blame
    slowest_s: float
    settle_s: float
    seconds: float


async def run(service: Service, plan: Plan, say: Say) -> Outcome:
    """Start everything, do the rounds, judge. Raises NotWhole."""
    began = time.monotonic()
    await service.start()
    traffic, stop, done = Traffic(service.url, plan.clients, plan.pause_s, plan.seed), asyncio.Event(), list[Round]()
    saying = asyncio.create_task(_keep_saying(service, traffic, plan, done, say))
    talking = asyncio.create_task(traffic.run(stop))
    try:
        dice = random.Random(plan.seed)
        for number in range(plan.rounds):
            if number % 2:
                await _caught_up(service, plan.catch_up_s)
            await asyncio.sleep(dice.uniform(*plan.calm_s))
            done.append(await _round(service, _blows(dice, plan, number), dice))
        await asyncio.sleep(1.0)
        stop.set()
        await talking
        settle_s, dead = await settled(service)
        verdict = await judge(service.owner_dsn(), service.data, traffic.acknowledged, dead)
    finally:
        for task in (saying, talking):
            task.cancel()
        await asyncio.wait([saying, talking])
    acknowledged = traffic.acknowledged
    return Outcome(
        rounds=tuple(done),
        verdict=verdict,
        sent=traffic.sent,
        refusals=dict(traffic.refusals.most_common()),
        captures=_counted(answer.capture for answer in traffic.answers),
        statuses=_counted(answer.status for answer in traffic.answers),
        blame=blamed(traffic.failures, done),
        slowest_s=max((exchange.taken_s for exchange in acknowledged), default=0.0),
        settle_s=settle_s,
        seconds=time.monotonic() - began,
    )


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words).most_common())


def _blows(dice: random.Random, plan: Plan, number: int) -> list[Blow]:
    """Kinds by turns where the plan names them, else at random."""
    if plan.kinds:
        return [Blow(plan.kinds[number % len(plan.kinds)], 0.0, True)]
    return choose(dice, supervisor=True)


async def _round(service: Service, blows: list[Blow], dice: random.Random) -> Round:
    found = service.processes()
    hits = [(blow, dice.choice(found[blow.kind])) for blow in blows if found.get(blow.kind)]
    first_s = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for blow, pid in hits:
            group.create_task(strike(blow, pid))
            await asyncio.sleep(dice.uniform(0, 0.05))
    began = time.monotonic()
    await asyncio.sleep(0.05)
    await service.revive(killed=any(blow.kills and blow.kind == "supervisor" for blow, _ in hits))
    revived_s = time.monotonic() - began
    ready_s, whole_s = await service.whole()
    struck = tuple(blow for blow, _ in hits)
    return Round(struck, revived_s + ready_s, revived_s + whole_s, first_s, time.monotonic())


async def _caught_up(service: Service, patience_s: float) -> None:
    """Wait a while for the backlog to be small."""
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        said = await service.waiting()
        if said is not None and said["pending"] + said["in_flight"] <= CAUGHT_UP:
            return
        await asyncio.sleep(0.1)


async def settled(service: Service) -> tuple[float, int]:
    """Seconds until nothing waits any more, and the dead letters. Raises NotWhole past SETTLE_S."""
    began = time.monotonic()
    said = None
    while (passed_s := time.monotonic() - began) < SETTLE_S:
        said = await service.waiting()
        if said is not None and said["pending"] + said["in_flight"] == 0:
            return passed_s, int(said["dead"])
        await asyncio.sleep(0.1)
    raise NotWhole(f"the queue does not settle: {said}")


async def _keep_saying(service: Service, traffic: Traffic, plan: Plan, done: list[Round], say: Say) -> None:
    began = time.monotonic()
    while True:
        last = " + ".join(map(str, done[-1].blows)) if done else "-"
        waiting = await service.waiting()
        pending = waiting["pending"] + waiting["in_flight"] if waiting else "?"
        say(
            f"{time.monotonic() - began:5.0f} s  round {len(done)}/{plan.rounds}  acknowledged"
            f" {len(traffic.acknowledged)}  refused {traffic.refusals.total()}  waiting {pending}  last: {last}"
        )
        await asyncio.sleep(1.0)
